"""How long a permute takes with one candidate, estimated: traffic, accesses, instructions, bytes in flight, latency.

The estimate ranks candidates; what a kernel really costs is counted and measured afterwards. Its constants were fitted
to a sweep of hand-written transposes on an H200 and to nothing else (docs/performance.md says which).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

from tilegen.access import SECTOR_BYTES
from tilegen.arch import Arch, occupancy
from tilegen.arch.data import TypicalDevice, typical_device
from tilegen.index import multiple
from tilegen.ops.copy.register_tiles import MOST_RUN_BYTES
from tilegen.ops.permute.dims import Dims
from tilegen.ops.permute.tiles import TileChoice, count_ctas, run_elems

LANES = 32
_REACHED = 0.885  # of a memory's rated bandwidth, by a copy
_RUN_OVERHEAD_BYTES = 4.8  # what each run of an access costs besides its own bytes
_RAGGED = 0.015  # of the time, for each array whose runs are not whole sectors
_IN_FLIGHT_BYTES = 48 * 1024  # per multiprocessor, to keep the memory busy
_ISSUE_PER_CYCLE = 2.0  # instructions of a multiprocessor, of at most four
_WARP_ISSUE_PER_CYCLE = 0.28  # instructions of a warp, each of which waits for the one before
_ACCESS_INSTRUCTIONS = 4.0  # the access, its address and its guard
_DIMENSION_INSTRUCTIONS = 0.2  # more for each dimension of a box after the first
_DIVISION_INSTRUCTIONS = 6.2  # more for each whose extent is no power of two
_TURN_INSTRUCTIONS = {1: 2.4, 2: 2.6}  # for each element that is turned over in registers
_MORE_LOADS = 0.002  # of the time, for each vector of a thread after the first where nothing waits between them
_START_SECONDS = 2.3e-6  # a launch
_CTA_WAITS = 4.0  # how many times its instructions' time a CTA takes alone: it waits for memory between them
_TAIL = 0.11  # how much of a last, partly filled wave is not hidden
_SHARPNESS = 4  # of the norm that joins what overlaps: the longest counts most


@dataclass(frozen=True)
class Estimate:
    """One candidate, over the whole grid. ``src_elems`` and ``dst_elems``: what an access of each side moves."""

    seconds: float
    bound_by: str
    sectors: int
    wavefronts: int
    instructions: int
    in_flight_bytes: int
    src_elems: int
    dst_elems: int


def estimate(dims: Dims, sizes: Sequence[int], choice: TileChoice, elem_bytes: int, arch: Arch) -> Estimate:
    """The time of one candidate and what it follows from."""
    device = typical_device(arch.name)
    may_be_cut = choice.variant == "direct"  # what an edge cuts is moved one by one
    sides = [_side(dims, sizes, choice.box, side, elem_bytes, may_be_cut) for side in (0, 1)]
    if choice.variant == "direct":
        width = min(s.width for s in sides)
        sides = [replace(s, width=width) for s in sides]
    ctas = count_ctas(choice.box, sizes)
    elems = ctas * choice.elems
    sectors = sum(int(elems / s.run_elems * s.sectors_per_run) for s in sides)
    moves = [elems / s.width / LANES for s in sides]
    accesses = sum(moves) * (2 if choice.variant == "tiled" else 1)
    wavefronts = int(elems * elem_bytes / 128 * (4 if choice.variant == "tiled" else 2))
    turned = elems / LANES * _TURN_INSTRUCTIONS.get(elem_bytes, 0) if choice.variant == "tiled" else 0
    instructions = int(accesses * _access_instructions(choice.box) + turned)
    turned_at_once = _turned_elems(dims, sizes, choice, sides, elem_bytes)
    resident = _resident_ctas(choice, turned_at_once, elem_bytes, arch)
    in_flight = max(1, int(min(resident, ctas / device.sm_count) * choice.elems * elem_bytes))
    more = max(0.0, accesses * LANES / ctas / choice.threads / 2 - 1) if choice.variant == "direct" else 0.0
    rounds = -(-ctas // device.sm_count)  # CTAs of the busiest multiprocessor
    bytes_per_s = device.memory_bytes_per_s * _REACHED
    times = {
        "memory": _memory_seconds(elems * elem_bytes, sides, elem_bytes, in_flight, device) * (1 + _MORE_LOADS * more),
        "L2": sectors * SECTOR_BYTES / bytes_per_s,
        "instructions": rounds * instructions / ctas / (device.clock_hz * _ISSUE_PER_CYCLE),
    }
    bound_by = max(times, key=lambda k: times[k])
    together = sum(t**_SHARPNESS for t in times.values()) ** (1 / _SHARPNESS)
    issue = min(_ISSUE_PER_CYCLE, _busy_threads(choice, turned_at_once) / LANES * _WARP_ISSUE_PER_CYCLE)
    last_cta = _CTA_WAITS * instructions / ctas / (device.clock_hz * issue)
    waves = ctas / (resident * device.sm_count)
    seconds = together * _tail(waves) + last_cta + _START_SECONDS
    widths = (side.width for side in sides)
    return Estimate(seconds, bound_by, sectors, wavefronts, instructions, in_flight, *widths)


@dataclass(frozen=True)
class _Side:
    """One array's accesses: elements of one, elements of a run of the box, sectors that such a run takes."""

    width: int
    run_elems: int
    sectors_per_run: float
    is_ragged: bool


def _side(
    dims: Dims, sizes: Sequence[int], box: Sequence[int], side: int, elem_bytes: int, may_be_cut: bool
) -> _Side:  # fmt: skip
    order = dims.order if side else tuple(range(len(sizes)))
    run = run_elems(order, box, sizes)
    align = gcd(_run_alignment(dims, box, side) * elem_bytes, SECTOR_BYTES)
    ragged = (run * elem_bytes) % SECTOR_BYTES > 0 or align < SECTOR_BYTES
    sectors = (run * elem_bytes + (SECTOR_BYTES - align if ragged else 0)) / SECTOR_BYTES
    return _Side(access_elems(dims, sizes, box, side, elem_bytes, may_be_cut), run, sectors, ragged)


def _run_alignment(dims: Dims, box: Sequence[int], side: int) -> int:
    """What every run of a box begins at a multiple of, in elements."""
    strides = [multiple(d.dst if side else d.src) for d in dims.dims]
    strides[_inner(dims, side)] *= box[_inner(dims, side)]
    return gcd(*strides)


def _inner(dims: Dims, side: int) -> int:
    return dims.dst_inner if side else dims.src_inner


def access_elems(
    dims: Dims, sizes: Sequence[int], box: Sequence[int], side: int, elem_bytes: int, may_be_cut: bool = False
) -> int:  # fmt: skip
    """The widest access of up to 16 bytes that every run of a side allows: aligned, and across an edge only if it
    ``may_be_cut``.
    """
    inner = _inner(dims, side)
    others = [multiple(d.dst if side else d.src) for k, d in enumerate(dims.dims) if k != inner]
    order = dims.order if side else tuple(range(len(sizes)))
    whole = box[inner] == sizes[inner]
    run = run_elems(order, box, sizes) if whole else box[inner]
    most = max(1, 16 // elem_bytes)
    if may_be_cut and whole and not others and run >= most and run // most * 16 % SECTOR_BYTES == 0:
        return most  # elements behind the last vector are moved one by one, and share no sector with it
    edge = run if whole else 0 if may_be_cut else multiple(dims.dims[inner].extent)
    strides = others if not whole else [o for o in others if o > run]
    width = most
    while width > 1 and gcd(run, edge, *strides) % width:
        width //= 2
    return width


def _turned_elems(
    dims: Dims, sizes: Sequence[int], choice: TileChoice, sides: Sequence[_Side], elem_bytes: int
) -> int:  # fmt: skip
    """Elements that a thread turns over at a time: a register tile where both arrays are accessed in vectors.

    Where one array's vectors go on from one row of its fastest dimension to the next, a tile takes that one whole.
    """
    counts = [s.width for s in sides]
    if choice.variant != "tiled" or min(counts) == 1:
        return 1
    for side, inner, other in ((0, dims.src_inner, dims.dst_inner), (1, dims.dst_inner, dims.src_inner)):
        follows = (dims.dims[other].dst if side else dims.dims[other].src) == sizes[inner]
        own = sizes[inner]
        if follows and choice.box[inner] == own and own % sides[side].width:
            counts[side] = own if own * counts[1 - side] * elem_bytes <= MOST_RUN_BYTES else gcd(own, counts[side])
    return counts[0] * counts[1]


def _busy_threads(choice: TileChoice, turned_elems: int) -> int:
    """Threads that have a register tile of the box to turn, if it has fewer than there are threads."""
    return min(choice.threads, max(LANES, choice.elems // turned_elems))


def _resident_ctas(choice: TileChoice, turned_elems: int, elem_bytes: int, arch: Arch) -> int:
    """CTAs that a multiprocessor holds, if the compiler keeps a thread's elements in registers besides some others."""
    each = max(choice.elems / choice.threads, turned_elems) * elem_bytes / 4
    is_tiled = choice.variant == "tiled"
    registers = min(255, int(24 + each * 1.1) if is_tiled else int(16 + each * 1.25))
    shared = choice.elems * elem_bytes if is_tiled else 0
    return max(1, occupancy(arch, choice.threads, registers, shared) * LANES // choice.threads)


def _memory_seconds(
    array_bytes: int, sides: Sequence[_Side], elem_bytes: int, in_flight_bytes: int, device: TypicalDevice
) -> float:
    """Both arrays once, each run with its overhead, slower where too little is in flight."""
    overhead = sum(_RUN_OVERHEAD_BYTES / (s.run_elems * elem_bytes) + _RAGGED * s.is_ragged for s in sides)
    busy = min(1.0, in_flight_bytes / _IN_FLIGHT_BYTES)
    return 2 * array_bytes * (1 + overhead) / (device.memory_bytes_per_s * _REACHED * busy)


def _tail(waves: float) -> float:
    """How much longer the last wave of CTAs makes it."""
    return 1 + _TAIL * (-(-waves // 1) / waves - 1) if waves > 1 else 1.0


def _access_instructions(box: Sequence[int]) -> float:
    """Instructions for an access of a box: itself, its guard, and a part of its address for each dimension."""
    split = [n for n in box if n > 1]
    odd = sum(1 for n in split if n & (n - 1))
    return _ACCESS_INSTRUCTIONS + _DIMENSION_INSTRUCTIONS * max(0, len(split) - 1) + _DIVISION_INSTRUCTIONS * odd
