"""Loads and stores: state spaces, generic addresses, vectors; where a place must lie, and who is told of the access."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from tilegen.ptx.launch import Array, Region
from tilegen.ptx.machine import Machine
from tilegen.ptx.rows import Row, Step, row
from tilegen.ptx.state import GENERIC, PEER, Fault, Lanes, numpy_type
from tilegen.ptx.text import Instruction, PtxError, list_names

Address = Callable[[Lanes], Array]
_ADDRESS = re.compile(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\w+))?\s*\]")


def read_address(machine: Machine, operand: str) -> Address:
    """What gives the address of each lane: of ``[register]``, ``[variable+8]``."""
    found = _ADDRESS.fullmatch(operand)
    if not found:
        raise PtxError(f"{operand!r} is no address")
    state, offset = machine.state, int(found[2] or "0", 0)
    held = state.rows.get(found[1])
    base = state.constant(found[1], np.dtype("i8")) if held is None else held
    wraps = (1 << 32) - 1 if base.dtype.itemsize == 4 else -1  # a sum of 32 bits, as addresses of shared memory are
    return lambda lanes: base[lanes.at].astype(np.int64) + offset & wraps


def find_region(machine: Machine, at: Array, size: int) -> Region:
    """The array that all these accesses lie in. Raises Fault where one lies in none."""
    state = machine.state
    low, high = int(at.min()), int(at.max())
    k = int(np.searchsorted(state.bases, low, "right")) - 1
    region = state.sorted_regions[k] if k >= 0 else None
    if region is None or high + size > region.base + region.size:
        what = (
            f"{low - region.base} to {high - region.base} + {size} of {region.name}, which has {region.size} bytes"
            if region
            else hex(low)
        )
        raise Fault(f"an access to global memory out of bounds: bytes {what}")
    return region


def check_aligned(at: Array, size: int) -> None:
    if (at & (size - 1)).any():
        raise Fault(f"a misaligned access: {size} bytes at {int(at[(at & (size - 1)) > 0][0]):#x}")


def place_shared(machine: Machine, at: Array, idx: Array, size: int) -> Array:
    """Bytes of ``state.shared`` for addresses in the shared windows of a cluster. Raises Fault out of bounds."""
    state = machine.state
    peer = at >> PEER
    cta = state.cta[idx]
    if peer.any():
        cta = np.where(peer > 0, cta - state.rank[idx] + peer - 1, cta)
    offset = at & (1 << PEER) - 1
    if ((offset + size > state.shared_end) | (offset < 1024) | (peer > state.peers)).any():
        raise Fault("an access to shared memory out of bounds")
    found: Array = cta * state.shared_bytes + offset
    return found


def granules_of(at: Array, size: int, granule: int) -> Array:
    """The granules of each access, [lanes, k]."""
    return (at // granule)[:, None] + np.arange(max(1, size // granule))


def load_shared(machine: Machine, at: Array, width: int, live: Sequence[bool], lanes: Lanes) -> Array:
    """Values [lanes, count], unsigned. Nobody asks who wrote those that are not ``live``: compilers widen loads."""
    count, shadow = len(live), machine.shared_shadow
    size = width * count
    check_aligned(at, size)
    byte = place_shared(machine, at, lanes.idx, size)
    machine.refuse_barriers(byte, size)
    granules = granules_of(byte, size, shadow.granule)
    if shadow.granule <= width:
        granules = granules[:, np.repeat(live, width // shadow.granule)]
    shadow.read(lanes, granules)
    found: Array = machine.shared_views[width][(byte // width)[:, None] + np.arange(count)]
    return found


def store_shared(machine: Machine, at: Array, values: Array, lanes: Lanes) -> None:
    width, count = values.dtype.itemsize, values.shape[1]
    size = width * count
    check_aligned(at, size)
    byte = place_shared(machine, at, lanes.idx, size)
    machine.refuse_barriers(byte, size)
    machine.shared_shadow.write(lanes, granules_of(byte, size, machine.shared_shadow.granule))
    machine.shared_views[width][(byte // width)[:, None] + np.arange(count)] = values


def load_global(machine: Machine, at: Array, width: int, count: int, lanes: Lanes) -> Array:
    size = width * count
    check_aligned(at, size)
    regions = split_regions(machine, at, size)
    machine.require_previous(lanes.idx)
    found = np.zeros((lanes.n, count), f"u{width}")
    for region, mine in regions:
        near = at[mine] - region.base
        if region.name in machine.global_shadows:
            shadow = machine.global_shadows[region.name]
            shadow.read(machine.part(lanes, mine), granules_of(near, size, shadow.granule))
        found[mine] = region.views[width][(near // width)[:, None] + np.arange(count)]
    return found


def store_global(machine: Machine, at: Array, values: Array, lanes: Lanes) -> None:
    width, count = values.dtype.itemsize, values.shape[1]
    size = width * count
    check_aligned(at, size)
    machine.require_previous(lanes.idx)
    for region, mine in split_regions(machine, at, size):
        if not region.is_writable:
            raise Fault(f"a write to {region.name}, which is only read")
        near, shadow = at[mine] - region.base, machine.global_shadows[region.name]
        shadow.write(machine.part(lanes, mine), granules_of(near, size, shadow.granule))
        region.views[width][(near // width)[:, None] + np.arange(count)] = values[mine]


def split_regions(machine: Machine, at: Array, size: int) -> list[tuple[Region, slice | Array]]:
    """The arrays that accesses lie in, each with which of the accesses."""
    bases = machine.state.bases
    k = np.searchsorted(bases, at, "right")
    if k.min() == k.max():
        return [(find_region(machine, at, size), slice(None))]
    return [(find_region(machine, at[k == one], size), np.flatnonzero(k == one)) for one in np.unique(k)]


def _local(machine: Machine, at: Array, size: int, idx: Array) -> Array:
    check_aligned(at, size)
    if ((at < 0) | (at + size > machine.state.local_bytes)).any():
        raise Fault("an access to local memory out of bounds")
    return idx * machine.state.local_bytes + at


def load(machine: Machine, space: str, at: Array, width: int, live: Sequence[bool], lanes: Lanes) -> Array:
    """Values [lanes, count] of a state space; "" is a generic address, of one space for all lanes."""
    count = len(live)
    space, at = resolve(space, at)
    if space == "shared":
        return load_shared(machine, at, width, live, lanes)
    if space == "local":
        byte = _local(machine, at, width * count, lanes.idx)
        found: Array = machine.state.local.view(f"u{width}")[(byte // width)[:, None] + np.arange(count)]
        return found
    return load_global(machine, at, width, count, lanes)


def store(machine: Machine, space: str, at: Array, values: Array, lanes: Lanes) -> None:
    space, at = resolve(space, at)
    if space == "shared":
        store_shared(machine, at, values, lanes)
    elif space == "local":
        width, count = values.dtype.itemsize, values.shape[1]
        byte = _local(machine, at, width * count, lanes.idx)
        machine.state.local.view(f"u{width}")[(byte // width)[:, None] + np.arange(count)] = values
    else:
        store_global(machine, at, values, lanes)


def resolve(space: str, at: Array) -> tuple[str, Array]:
    """The space that addresses lie in, and the addresses within it."""
    if space:
        return space, at
    tags = np.unique(at >> 44)
    if len(tags) > 1:
        raise Fault("generic addresses of several state spaces in one instruction")
    name = next((name for name, start in GENERIC.items() if start >> 44 == tags[0]), "global")
    return name, at - GENERIC.get(name, 0)


def _load(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    state, dtype = machine.state, numpy_type(found["type"])
    names = list_names(one.operands[0])
    rows = [None if name == "_" else state.wide_row(name, dtype.kind if dtype.kind == "i" else "u") for name in names]
    address, space = read_address(machine, one.operands[1]), (found["space"] or "").lstrip(".").split("::")[0]
    live = [len(names) == 1 or name in machine.read_names for name in names]

    def step(lanes: Lanes) -> None:
        at = address(lanes)
        if found["constant"] and any(region.is_writable for region, _ in split_regions(machine, at, dtype.itemsize)):
            raise Fault("ld.global.nc of an array that the kernel writes")
        if found["constant"] and machine.state.launch.overlaps:
            raise Fault("ld.global.nc in a kernel that may start before those before it end: they may write the array")
        x = load(machine, space, at, dtype.itemsize, live, lanes)
        values = x.view(dtype) if dtype.kind == "i" else x
        for k, r in enumerate(rows):
            if r is not None:
                r[lanes.at] = values[:, k]

    return step


def _store(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    width = numpy_type(found["type"]).itemsize
    names = list_names(one.operands[1])
    rows = [machine.state.wide_row(name, "u") if not name.startswith("0") or name == "0" else
            machine.state.row(name, numpy_type(found["type"])).view(f"u{width}") for name in names]  # fmt: skip
    address, space = read_address(machine, one.operands[0]), (found["space"] or "").lstrip(".").split("::")[0]

    def step(lanes: Lanes) -> None:
        values = np.stack([r[lanes.at].astype(f"u{width}") for r in rows], 1)
        store(machine, space, address(lanes), values, lanes)

    return step


def _load_param(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    m = _ADDRESS.fullmatch(one.operands[1])
    if not m or m[1] not in machine.state.params or m[2]:
        raise PtxError(f"{one.operands[1]} is no parameter that can be loaded")
    dtype = numpy_type(found["type"])
    value = np.asarray(machine.state.param_value(m[1]))
    if value.dtype.kind in "fiu" and value.dtype.itemsize == dtype.itemsize:
        value = value.view(f"u{dtype.itemsize}")
    d = machine.state.wide_row(one.operands[0], "u")

    def step(lanes: Lanes) -> None:
        d[lanes.at] = value.astype(d.dtype)

    return step


def _convert_address(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    dtype = np.dtype("u8")
    d, a = (machine.state.row(name, dtype) for name in one.operands)
    start = np.uint64(GENERIC.get(found["space"], 0))

    def step(lanes: Lanes) -> None:
        d[lanes.at] = a[lanes.at] - start if found["to"] else a[lanes.at] + start

    return step


def _map_address(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    small = np.dtype("u4")
    d, a, rank = (machine.state.row(name, small) for name in one.operands)

    def step(lanes: Lanes) -> None:
        to = rank[lanes.at]
        if (to >= machine.state.peers).any():
            raise Fault(f"mapa names CTA {int(to.max())} of a cluster of {machine.state.peers}")
        d[lanes.at] = (a[lanes.at] & np.uint32((1 << PEER) - 1)) | ((to + np.uint32(1)) << np.uint32(PEER))

    return step


def _ignore(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    return lambda lanes: None


_HINTS = r"(\.L\w*::\w+)*"
_SPACE = r"(?P<space>\.global|\.shared(::cta|::cluster)?|\.local)?"
ROWS: tuple[Row, ...] = (
    row(r"ld\.param\.(?P<type>[busf](8|16|32|64))", "9.7.9 ld", _load_param),
    row(rf"ld(\.weak|\.volatile)?{_SPACE}(\.ca|\.cg|\.cs|\.lu|\.cv)?(?P<constant>\.nc)?"
        rf"{_HINTS}(\.v[24])?\.(?P<type>[busf](8|16|32|64))", "9.7.9 ld, ld.global.nc", _load),
    row(rf"st(\.weak|\.volatile)?{_SPACE}(\.wb|\.cg|\.cs|\.wt)?"
        rf"{_HINTS}(\.v[24])?\.(?P<type>[busf](8|16|32|64))", "9.7.9 st", _store),
    row(r"cvta(?P<to>\.to)?\.(?P<space>global|shared|local|param|const)\.u64", "9.7.9 cvta", _convert_address),
    row(r"mapa\.shared::cluster\.u32", "9.7.9 mapa", _map_address),
    row(rf"createpolicy\.fractional{_HINTS}\.b64", "9.7.9 createpolicy", _ignore),
    row(r"prefetch\.global\.L[12]|prefetch\.tensormap", "9.7.9 prefetch", _ignore),
)  # fmt: skip
