"""atom, red, and what release and acquire on flags in global memory tell."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from tilegen.ptx.conversions import decode, encode, round_float
from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.memory import check_aligned, granules_of, place_shared, read_address, resolve, split_regions
from tilegen.ptx.rows import Row, Step, row
from tilegen.ptx.state import Fault, Lanes, numpy_type
from tilegen.ptx.text import Instruction, PtxError, list_names

Update = Callable[[Array, Array, Array], Array]  # what is there, the operand, a second one -> what is there then


def _add(x: Array, y: Array, _: Array) -> Array:
    return np.asarray(x + y)


_UPDATES: dict[str, Update] = {
    "add": _add, "min": lambda x, y, _: np.minimum(x, y), "max": lambda x, y, _: np.maximum(x, y),
    "and": lambda x, y, _: x & y, "or": lambda x, y, _: x | y, "xor": lambda x, y, _: x ^ y, "exch": lambda x, y, _: y,
    "cas": lambda x, y, z: np.where(x == y, z, x), "inc": lambda x, y, _: np.where(x >= y, 0, x + 1).astype(x.dtype),
    "dec": lambda x, y, _: np.where((x == 0) | (x > y), y, x - 1).astype(x.dtype),
}  # fmt: skip


def update_in_order(memory: Array, at: Array, update: Update, values: tuple[Array, Array]) -> Array:
    """Each lane's update, in the order of lanes where they meet at one place; what was there before each.

    >>> sums = np.zeros(2, np.int32)
    >>> update_in_order(sums, np.array([1, 0, 1]), _add, (np.array([5, 6, 7], np.int32), np.zeros(3, np.int32))), sums
    (array([0, 0, 5], dtype=int32), array([ 6, 12], dtype=int32))
    """
    before = np.zeros_like(values[0])
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(at)) - np.repeat(starts, np.diff(np.r_[starts, len(at)]))
    for k in range(int(rank.max()) + 1):
        lanes = order[rank == k]
        held = memory[at[lanes]]
        before[lanes] = held
        memory[at[lanes]] = update(held, values[0][lanes], values[1][lanes])
    return before


def _halves(kind: str) -> Update:
    """Sums of two halves of a word, each rounded once."""

    def add(x: Array, y: Array, _: Array) -> Array:
        name = kind.removesuffix("x2")
        shape = (len(x), -1)
        parts = [decode(np.ascontiguousarray(v).view(np.uint16).reshape(shape), name) for v in (x, y)]
        return np.ascontiguousarray(encode(round_float(parts[0] + parts[1], name), name)).view(x.dtype)[:, 0]

    return add


def _atomic(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    state, kind, what = machine.state, found["type"], found["what"]
    is_half = "f16" in kind
    dtype = np.dtype("u4" if kind.endswith("x2") else "u2") if is_half else numpy_type(kind)
    update = _halves(kind) if is_half else _UPDATES[what]
    if is_half and what != "add":
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
        if sem in ("release", "acq_rel"):
            release_flags(machine, lanes, at)
        for target, shadow, near, mine in _list_targets(machine, where, at, size, lanes):
            own = machine.part(lanes, mine)
            if scope == "cta" and where == "global":
                raise Fault("an atomic of a CTA's scope on global memory: other CTAs may be at it too")
            shadow.write(own, granules_of(near, size, shadow.granule), is_atomic=True)
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
