"""The accesses of a plan: both sides of every Move, their addresses written out in base variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tilegen import access
from tilegen.choose.boxes import TMA
from tilegen.choose.cp_async import cp_async_kind
from tilegen.index import INT_LIMIT, Index, Var, add, bound, conjuncts, count_operators, less, mod, mul, substitute
from tilegen.plan import (
    CLUSTER_AXES,
    CTA_AXES,
    MATRIX_ROW_ELEMS,
    Block,
    Let,
    Memory,
    Move,
    Ref,
    Repeat,
    Step,
    Tma,
    When,
    matrices,
)


@dataclass(frozen=True)
class Access:
    """One side of one Move: its byte address in terms of threads, CTA axes, loops and params.

    ``partner`` is the other side of an instruction that reads and writes memory at once, which is cp.async. Of a box
    that TMA moves, ``width_bytes`` is a row and ``rows`` are the extents and byte strides around it.
    """

    memory: Memory
    kind: str  # one of access.KINDS or cp_async.CP_ASYNC, or boxes.TMA
    width_bytes: int
    byte: Index
    conditions: tuple[Index, ...]
    loops: tuple[tuple[Var, Index], ...]
    operators: int  # in the printed offset
    op: int
    partner: Access | None = None
    rows: tuple[tuple[int, Index], ...] = ()


@dataclass(frozen=True)
class _Scope:
    values: Mapping[str, Index]
    memories: Mapping[str, Ref]
    conditions: tuple[Index, ...]
    loops: tuple[tuple[Var, Index], ...]
    op: int


def find_accesses(steps: Iterable[Step], cluster: tuple[int, int, int] = (1, 1, 1)) -> tuple[Access, ...]:
    """Every shared or global access of the steps, addresses written out in base variables."""
    found: list[Access] = []
    axes = zip(CLUSTER_AXES, CTA_AXES, cluster, strict=True)
    values = {inside: mod(Var(axis, INT_LIMIT), n) for inside, axis, n in axes}
    _visit(steps, _Scope(values, {}, (), (), -1), found)
    return tuple(found)


def _visit(steps: Iterable[Step], scope: _Scope, found: list[Access]) -> None:
    for step in steps:
        if isinstance(step, Let):
            scope = replace(scope, values={**scope.values, step.var.name: substitute(step.value, scope.values)})
        elif isinstance(step, Repeat):
            count = substitute(step.count, scope.values)
            var = Var(f"{step.var.name}__{len(scope.loops)}", max(1, bound(count) - 1))  # a name that no spec may give
            extra = () if isinstance(count, int) else (less(var, count),)
            inner = replace(
                scope, values={**scope.values, step.var.name: var}, loops=(*scope.loops, (var, count)),
                conditions=(*scope.conditions, *extra),
            )  # fmt: skip
            _visit(step.body, inner, found)
        elif isinstance(step, When):
            held = tuple(substitute(c, scope.values) for c in conjuncts(step.condition))
            _visit(step.body, replace(scope, conditions=(*scope.conditions, *held)), found)
        elif isinstance(step, Block):
            bindings = {formal.name: _resolve(ref, scope) for formal, ref in step.args}
            op = step.op if step.op >= 0 else scope.op
            _visit(step.body, replace(scope, memories={**scope.memories, **bindings}, op=op), found)
        elif isinstance(step, Move):
            found.extend(_sides(step, scope))
        elif isinstance(step, Tma):
            found.extend(_box_sides(step, scope))


def _resolve(ref: Ref, scope: _Scope) -> Ref:
    """A reference in terms of the plan's own memories and base variables, as one flat offset."""
    offset = substitute(ref.offset, scope.values)
    base = scope.memories.get(ref.memory.name)
    if base is None:
        return Ref(replace(ref.memory, shape=(ref.memory.span,), pitches=(1,)), (offset,))
    return Ref(base.memory, (add(base.at[0], offset),))


def _sides(move: Move, scope: _Scope) -> list[Access]:
    sides = []
    count, fills = matrices(move), move.valid is not True
    for kind, ref, guard in (("ld", move.src, move.valid), ("st", move.dst, True)):
        if ref.memory.space == "register":
            continue
        where = _resolve(ref, scope)
        size = ref.memory.elem_bytes
        width, held = move.elems, tuple(substitute(c, scope.values) for c in conjuncts(guard))
        if count:  # a row for each of the lanes whose addresses are read
            kind, width, held = f"{kind}matrix{count}", MATRIX_ROW_ELEMS, conjuncts(_gives_row(count))
        elif move.via:
            kind = cp_async_kind(width * size, fills)
        sides.append(
            Access(
                where.memory, kind, width * size, mul(where.at[0], size), (*scope.conditions, *held), scope.loops,
                count_operators(ref.offset), scope.op,
            )
        )  # fmt: skip
    if move.via and not count:
        return [replace(a, partner=b) for a, b in zip(sides, reversed(sides), strict=True)]
    return sides


def _box_sides(step: Tma, scope: _Scope) -> list[Access]:
    """The box in shared memory and in the array."""
    m, size = step.map, step.map.memory.elem_bytes
    at: list[Index] = [0] * len(m.memory.shape)
    for d, x in zip(m.dims, step.at, strict=True):
        at[d] = x
    rows = tuple((n, mul(m.memory.pitches[d], size)) for d, n in zip(m.dims[:-1], m.box[:-1], strict=True))
    row_bytes = m.box[-1] * size
    found = []
    for ref, around in ((Ref(m.memory, tuple(at)), rows), (step.shared, ((m.box_bytes // row_bytes, row_bytes),))):
        where = _resolve(ref, scope)
        byte = mul(where.at[0], size)
        found.append(
            Access(where.memory, TMA, row_bytes, byte, scope.conditions, scope.loops, 0, scope.op, rows=around)
        )
    return found


def _gives_row(count: int) -> Index:
    return less(Var("laneid", access.WARP_LANES), MATRIX_ROW_ELEMS * count)
