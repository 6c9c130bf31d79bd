"""Tensor memory as the page shows it: where each buffer lies, and a frame for each step that touches cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tilegen.decisions import printable
from tilegen.index import Index, evaluate, variables
from tilegen.layouts.core.cells import COLUMN_BYTES
from tilegen.plan import (
    LANES,
    TENSOR_LOADS,
    TENSOR_STORES,
    Block,
    Move,
    Plan,
    Ref,
    Repeat,
    Role,
    Step,
    TensorCopy,
    TensorMma,
    Touch,
    effects,
    flatten,
)
from tilegen.report import describe_tensor_memory
from tilegen.scopes import SCOPES
from tilegen.spec.data import Spec
from tilegen.viewing.presets import preset_of

_MOVED = (TENSOR_LOADS, TENSOR_STORES)
_TEAM, _WARP = SCOPES["warpgroup"].threads, SCOPES["warp"].threads
Values = Mapping[str, int]


def draw_tensor_memory(spec: Spec, plan: Plan) -> dict[str, Any] | None:
    """{lanes, columns, allocated, buffers, frames} as JSON data; None for a kernel without buffers there.

    A buffer has its layout as text over ``shape``, its first column, and the elements that share a column. Frames are
    the steps of one run of each op, at the first trip of the loops around it. A frame has what the step ``writes`` and
    ``reads``, as [first lane, lanes, first column, columns], and where its matrices in ``shared`` memory begin.
    """
    found = describe_tensor_memory(spec, plan).get("tensor_memory")
    if found is None:
        return None
    buffers = [
        {
            "name": b["buffer"], "dtype": b["dtype"], "shape": b["shape"], "packed": b["packed"],
            "first_column": b["first_column"],
            "text": preset_of(b["buffer"], b["buffer"], spec.buffer(b["buffer"]).layout, b["shape"], b["dtype"]).text,
        }
        for b in found["buffers"]
    ]  # fmt: skip
    sizes = {key: found[key] for key in ("lanes", "columns", "allocated")}
    return sizes | {"buffers": buffers, "frames": list(_list_frames(plan, found["lanes"]))}


def _list_frames(plan: Plan, lanes: int) -> Iterator[dict[str, Any]]:
    """Each op's steps in their order, each counted among those of its run."""
    for op, operation in enumerate(plan.operations):
        own = [
            _draw_frame(step, _Run(role, block, values), lanes)
            for role in plan.roles
            for block in dict.fromkeys(s for s in flatten(role.steps) if isinstance(s, Block) and s.op == op)
            for step, values in _unfold(block.body, {})
        ]
        for number, frame in enumerate(own, 1):
            yield {"op": op + 1, "text": printable(operation.text), "number": number, "count": len(own)} | frame


def _unfold(steps: Iterable[Step], values: Values) -> Iterator[tuple[Step, Values]]:
    """The steps that touch tensor memory, with the trip of each loop that an op adds."""
    for step in steps:
        if isinstance(step, Repeat) and isinstance(step.count, int):
            for trip in range(step.count):
                yield from _unfold(step.body, {**values, step.var.name: trip})
        elif isinstance(step, TensorMma | TensorCopy) or (isinstance(step, Move) and step.via.queue in _MOVED):
            yield step, values
        else:
            yield from _unfold(effects(step).body, values)


class _Run:
    """A function of a role as it is called, at some trips of its own loops: where its places lie."""

    def __init__(self, role: Role, block: Block, values: Values):
        self.teams = max(1, role.threads // _TEAM)
        self.bases: dict[str, Ref] = {}
        self.values = dict(values)
        for formal, actual in block.args:
            if isinstance(actual, Ref):
                self.bases[formal.name] = actual
            else:
                self.values[formal.name] = _count(actual, {})

    def find(self, ref: Ref, threads: Values) -> tuple[Ref, list[int]]:
        """The memory of a place, and its coordinates for the threads of these numbers."""
        base = self.bases.get(ref.memory.name)
        at = [_count(x, {**self.values, **threads}) for x in ref.at]
        if base is None:
            return ref, at
        return base, [a + _count(x, threads) for a, x in zip(at, base.at, strict=True)]


def _count(x: Index, values: Values) -> int:
    """An expression where all loops around an op are in their first trip, and all else that is not given is 0."""
    return int(evaluate(x, {v.name: values.get(v.name, 0) for v in variables(x)}))


def _draw_frame(step: Step, run: _Run, lanes: int) -> dict[str, Any]:
    touched = effects(step)
    cells = [t for t in touched.touches if t.ref.memory.traits.has_cells]
    matrices = [t for t in touched.touches if t.matrix is not None]
    row = touched.instruction
    assert row is not None
    return {
        "instruction": row.name,
        "writes": [box for t in cells if t.writes for box in _list_boxes(t, run, lanes)],
        "reads": [box for t in cells if not t.writes for box in _list_boxes(t, run, lanes)],
        "shared": [_find_shared(t, run) for t in matrices],
    }


def _list_boxes(touch: Touch, run: _Run, lanes: int) -> Iterator[list[int]]:
    """The cells of all warps that move their own lanes; of a tensor core those of all lanes."""
    by_warps = touch.lies == LANES
    for team in range(run.teams if by_warps else 1):
        for warp in range(_TEAM // _WARP if by_warps else 1):
            base, (lane, element) = run.find(touch.ref, {"wgid": team, "wid_in_wg": warp})
            size = touch.ref.memory.elem_bytes
            first = (base.memory.offset_bytes + element * size) // COLUMN_BYTES
            columns = -(-touch.elems * size // COLUMN_BYTES)
            yield [lane, _WARP if by_warps else lanes, first, columns]


def _find_shared(touch: Touch, run: _Run) -> dict[str, Any]:
    base, (element,) = run.find(touch.ref, {})
    return {"buffer": base.memory.name, "byte": element * touch.ref.memory.elem_bytes}
