"""atom, red, and what release and acquire on flags in global memory tell."""

from __future__ import annotations

import re

import numpy as np

from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.memory import check_aligned, granules_of, place_shared, read_address, resolve, split_regions
from tilegen.ptx.rows import Row, Step, row
from tilegen.ptx.state import PEER, Fault, Lanes, numpy_type
from tilegen.ptx.text import Instruction, PtxError, list_names
from tilegen.ptx.updates import find_update, update_in_order


def _atomic(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    state, kind, what = machine.state, found["type"], found["what"]
    dtype = np.dtype("u4" if kind.endswith("x2") else "u2") if "f16" in kind else numpy_type(kind)
    update = find_update(what, kind)
    if update is None:
        raise PtxError(f"{one.op} is not carried out")
    returns = one.op.startswith("atom")
    operands = one.operands[1:] if returns else one.operands
    count = int(found["vector"] or 1)
    d = [None if name == "_" else state.row(name, dtype) for name in list_names(one.operands[0])] if returns else []
    address = read_address(machine, operands[0])
    values = [state.row(name, dtype) for name in list_names(operands[1])]
    more = state.row(operands[2], dtype) if what == "cas" else values[0]
    space, scope = (found["space"] or "").lstrip(".").split("::")[0], (found["scope"] or ".gpu")[1:]
    sem = (found["sem"] or ".relaxed")[1:]

    def step(lanes: Lanes) -> None:
        where, at = resolve(space, address(lanes))
        size = dtype.itemsize * count
        check_aligned(at, size)
        if scope == "cta" and (where == "global" or (at >> PEER > 0).any()):
            raise Fault(f"an atomic of a CTA's scope on {where} memory: other CTAs may be at it too")
        if sem in ("release", "acq_rel"):
            release_flags(machine, lanes, at)
        for target, shadow, near, mine in _list_targets(machine, where, at, size, lanes):
            own = machine.part(lanes, mine)
            shadow.update(own, granules_of(near, size, shadow.granule))
            for k, v in enumerate(values):
                before = update_in_order(
                    target.view(dtype), near // dtype.itemsize + k, update, (v[own.at], more[own.at])
                )
                if returns and d[k] is not None:
                    d[k][own.at] = before  # type: ignore[index]
        if sem in ("acquire", "acq_rel"):
            acquire_flags(machine, lanes, at)

    return step


def _list_targets(machine: Machine, where: str, at: Array, size: int, lanes: Lanes):  # type: ignore[no-untyped-def]
    """The memory that lanes update, its shadow, bytes within it, and which of the lanes."""
    if where == "shared":
        byte = place_shared(machine, at, lanes.idx, size)
        machine.refuse_barriers(byte, size)
        return [(machine.state.shared, machine.shared_shadow, byte, slice(None))]
    machine.require_previous(lanes.idx)
    found = []
    for region, mine in split_regions(machine, at, size):
        if not region.is_writable:
            raise Fault(f"a write to {region.name}, which is only read")
        found.append((region.bytes, machine.global_shadows[region.name], at[mine] - region.base, mine))
    return found


def release_flags(machine: Machine, lanes: Lanes, at: Array) -> None:
    """What these lanes did is told to whoever acquires at these addresses."""
    for lane, place in zip(lanes.idx.tolist(), at.tolist(), strict=True):
        clock = machine.order.gather(np.array([lane]))
        machine.released[place] = np.maximum(machine.released.get(place, clock), clock)


def acquire_flags(machine: Machine, lanes: Lanes, at: Array) -> None:
    for lane, place in zip(lanes.idx.tolist(), at.tolist(), strict=True):
        if place in machine.released:
            machine.order.learn(np.array([lane]), machine.released[place])


_TYPE = r"(?P<type>[busf](32|64)|f16x2|bf16x2|f16|bf16)"
_TAIL = (
    r"(?P<sem>\.relaxed|\.acquire|\.release|\.acq_rel)?(?P<scope>\.cta|\.cluster|\.gpu|\.sys)?"
    r"(?P<space>\.global|\.shared(::cta|::cluster)?)?"
)
_WHAT = r"\.(?P<what>add|min|max|and|or|xor|exch|cas|inc|dec)(\.noftz)?(\.L\w*::\w+)*(\.v(?P<vector>[248]))?"
ROWS: tuple[Row, ...] = (
    row(rf"atom{_TAIL}{_WHAT}\.{_TYPE}", "9.7.13 atom", _atomic),
    row(rf"red{_TAIL}{_WHAT}\.{_TYPE}", "9.7.13 red", _atomic),
)  # fmt: skip
