"""How long a permute takes with one candidate, estimated: traffic, accesses, instructions, bytes in flight, latency.

The estimate ranks candidates; what a kernel really costs is counted and measured afterwards. Its constants were fitted
to the candidates of all cases of benchmarks/cases.py as an H200 timed them (docs/performance.md says how well); those
of the L2, of a launch, of the norm and of what is too much in flight were set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, log2, prod, sqrt

from tilegen.access import SECTOR_BYTES
from tilegen.arch import Arch, occupancy
from tilegen.arch.data import TypicalDevice, typical_device
from tilegen.index import multiple
from tilegen.ops.copy.register_tiles import MOST_RUN_BYTES
from tilegen.ops.permute.dims import Dims
from tilegen.ops.permute.tiles import TileChoice, count_ctas, run_elems

LANES = 32
_RUN_OVERHEAD_BYTES = (22.5, 18.6)  # what each run of src, and of dst, costs besides its own bytes
_RAGGED_BYTES = (6.1, 23.1)  # what each costs more where runs do not begin with sectors
_ENOUGH_IN_FLIGHT = 15600  # bytes of a multiprocessor; twice as many keep the memory busy to nine tenths
_TOO_MUCH_IN_FLIGHT = 56 * 1024  # beyond this CTAs are in each other's way: so many places are read and written at once
_CROWDED = 0.17  # of the time, for each doubling beyond it
_L2_TO_MEMORY = 1.5  # bytes that the L2 moves in the time in which memory moves one
_ISSUE_PER_CYCLE = 2.76  # instructions of a multiprocessor, of at most four
_CYCLES_PER_INSTRUCTION = 6.35  # of a warp, each of which waits for the one before
_ACCESS_INSTRUCTIONS = 4.3  # the access, its address and its guard
_DIVISION_INSTRUCTIONS = 1.35  # more for each dimension of a box whose extent is no power of two
_WARP_SECONDS = 25e-9  # that each warp adds to the time that a CTA takes
_LAST_CTAS = 1.2  # how many times what a CTA takes alone is seen at the end and the beginning of a launch
_START_SECONDS = 1e-6  # a launch
_SHARPNESS = 5  # of the norm that joins what overlaps: the longest counts most


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
    """The time of one candidate and what it follows from.

    What a box has beyond an edge takes instructions, and moves no bytes.
    """
    device = typical_device(arch.name)
    is_tiled = choice.variant == "tiled"
    sides = [_side(dims, sizes, choice.box, side, elem_bytes, not is_tiled) for side in (0, 1)]
    if not is_tiled:  # what an edge cuts is moved one by one
        width = min(s.width for s in sides)
        sides = [replace(s, width=width) for s in sides]
    ctas = count_ctas(choice.box, sizes)
    whole = prod(sizes) * elem_bytes
    sectors = sum(int(prod(sizes) / s.run_elems * s.sectors_per_run) for s in sides)
    accesses = sum(ctas * choice.elems / s.width / LANES for s in sides) * (2 if is_tiled else 1)
    wavefronts = int(ctas * choice.elems * elem_bytes / 128 * (4 if is_tiled else 2))
    instructions = int(accesses * _access_instructions(choice.box))
    at_once = _elems_at_once(dims, sizes, choice, sides, elem_bytes)
    resident = _resident_ctas(choice, at_once, elem_bytes, arch)
    in_flight = max(1, int(min(resident, ctas / device.sm_count) * whole / ctas))
    rounds = -(-ctas // device.sm_count)  # CTAs of the busiest multiprocessor
    alone = _cta_seconds(choice, instructions / ctas, at_once, device)
    times = {
        "memory": _memory_seconds(whole, sides, elem_bytes, in_flight, device),
        "L2": sectors * SECTOR_BYTES / (device.memory_bytes_per_s * _L2_TO_MEMORY),
        "instructions": rounds * instructions / ctas / (device.clock_hz * _ISSUE_PER_CYCLE),
        "turns of CTAs": ctas / (resident * device.sm_count) * alone,
    }
    bound_by = max(times, key=lambda k: times[k])
    together = sum(t**_SHARPNESS for t in times.values()) ** (1 / _SHARPNESS)
    seconds = together + _LAST_CTAS * alone + _START_SECONDS
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
    width = access_elems(dims, sizes, box, side, elem_bytes, may_be_cut)
    return _Side(width, run, sectors, align < SECTOR_BYTES)


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


def _elems_at_once(
    dims: Dims, sizes: Sequence[int], choice: TileChoice, sides: Sequence[_Side], elem_bytes: int
) -> int:  # fmt: skip
    """Elements that a thread moves at a time: an access, or a register tile where both arrays are accessed in vectors
    along dimensions of their own.

    Where one array's vectors go on from one row of its fastest dimension to the next, a tile takes that one whole.
    """
    counts = [s.width for s in sides]
    if choice.variant != "tiled" or dims.src_inner == dims.dst_inner or min(counts) == 1:
        return min(counts)
    for side, inner, other in ((0, dims.src_inner, dims.dst_inner), (1, dims.dst_inner, dims.src_inner)):
        follows = (dims.dims[other].dst if side else dims.dims[other].src) == sizes[inner]
        own = sizes[inner]
        if follows and choice.box[inner] == own and own % sides[side].width:
            counts[side] = own if own * counts[1 - side] * elem_bytes <= MOST_RUN_BYTES else gcd(own, counts[side])
    return counts[0] * counts[1]


def _cta_seconds(choice: TileChoice, instructions: float, at_once: int, device: TypicalDevice) -> float:
    """What a CTA takes alone: its warps start, and each waits for its instructions one after the other."""
    busy = min(choice.threads, max(LANES, choice.elems // at_once)) / LANES
    return instructions / busy * _CYCLES_PER_INSTRUCTION / device.clock_hz + _WARP_SECONDS * choice.threads / LANES


def _resident_ctas(choice: TileChoice, at_once: int, elem_bytes: int, arch: Arch) -> int:
    """CTAs that a multiprocessor holds, if the compiler keeps a thread's elements in registers besides some others."""
    each = max(choice.elems / choice.threads, at_once) * elem_bytes / 4
    is_tiled = choice.variant == "tiled"
    registers = min(255, int(24 + each * 1.1) if is_tiled else int(16 + each * 1.25))
    shared = choice.elems * elem_bytes if is_tiled else 0
    return max(1, occupancy(arch, choice.threads, registers, shared) * LANES // choice.threads)


def _memory_seconds(
    array_bytes: int, sides: Sequence[_Side], elem_bytes: int, in_flight_bytes: int, device: TypicalDevice
) -> float:
    """Both arrays once, each run with its overhead, slower where too little is in flight, or too much."""
    moved = 0.0
    for s, each, ragged in zip(sides, _RUN_OVERHEAD_BYTES, _RAGGED_BYTES, strict=True):
        moved += array_bytes * (1 + (each + ragged * s.is_ragged) / (s.run_elems * elem_bytes))
    waiting = sqrt(1 + (_ENOUGH_IN_FLIGHT / in_flight_bytes) ** 2)
    crowded = 1 + _CROWDED * max(0.0, log2(in_flight_bytes / _TOO_MUCH_IN_FLIGHT))
    return moved * waiting * crowded / device.memory_bytes_per_s


def _access_instructions(box: Sequence[int]) -> float:
    """Instructions for an access of a box: itself, its guard, and its address, which divides by extents of the box."""
    return _ACCESS_INSTRUCTIONS + _DIVISION_INSTRUCTIONS * sum(1 for n in box if n & (n - 1))
