"""How long a permute takes with one candidate, estimated: traffic, accesses, instructions, bytes in flight, latency.

``describe_work`` says what a CTA does with a box, ``estimate`` how long that takes with so many threads. The estimate
ranks candidates; what a kernel really costs is counted and measured afterwards. Its constants were fitted
to the candidates of all cases of benchmarks/cases.py as an H200 timed them (docs/performance.md says how well); those
of the L2 and of a launch were set. Those of scalar permutes were fitted apart, to 11 arrays of 2 to 500 KB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from itertools import product as combinations
from math import gcd, log2, prod, sqrt
from operator import mul

from tilegen.access import SECTOR_BYTES
from tilegen.arch import Arch, occupancy
from tilegen.arch.data import TypicalDevice, typical_device
from tilegen.index import multiple
from tilegen.ops.copy.register_tiles import MOST_RUN_BYTES
from tilegen.ops.permute.dims import Dims
from tilegen.ops.permute.tiles import (
    LANES,
    MOST_SCALAR_THREADS,
    TileChoice,
    count_ctas,
    list_threads,
    run_elems,
)
from tilegen.ops.permute.ways import (
    Walk,
    Way,
    count_guarded,
    count_uneven,
    find_ragged_vectors,
    list_even_threads,
    list_ragged_ways,
    list_tiled_ways,
    walk_box,
)

_RUN_OVERHEAD_BYTES = (53.3, 44.3)  # what each run of src, and of dst, costs besides its own bytes
_RAGGED_BYTES = (2.87, 7.17)  # what each costs more where runs do not begin with sectors
_SHARED_BYTES = 2 * SECTOR_BYTES  # more of a run of dst that ends inside of a word, with _TOO_MUCH_IN_FLIGHT: so many
# bytes of a sector that two runs share are read and written again, as the L2 had to let go of it between their stores
_REACHED = 1.177  # of the typical bandwidth, by runs that cost nothing besides
_ENOUGH_IN_FLIGHT = 13118  # bytes of a multiprocessor; twice as many keep the memory busy to nine tenths
_TOO_MUCH_IN_FLIGHT = 32010  # bytes; beyond, CTAs are in each other's way: so many places are read and written at once
_CROWDED = 0.180  # of the time, for each doubling beyond it
_L2_TO_MEMORY = 1.5  # bytes that the L2 moves in the time in which memory moves one
_ISSUE_PER_CYCLE = 2.96  # instructions of a multiprocessor, of at most four
_CYCLES_PER_INSTRUCTION = 17.4  # of a warp, each of which waits for the one before
_ACCESS_INSTRUCTIONS = 5.73  # an access of global memory, its address and its guard
_SHARED_INSTRUCTIONS = 0.83  # one of shared memory
_DIVISION_INSTRUCTIONS = 1.70  # more for each dimension of a box whose extent is no power of two
_UNEVEN_INSTRUCTIONS = 0.864  # more for each dimension in which a trip is no constant step from the one before
_GUARD_INSTRUCTIONS = 0.57  # more where the last trip leaves threads out
_EDGE_INSTRUCTIONS = 0.97  # more of an access, for each edge whose guard is neither a thread's own nor the same for all
_WARP_SECONDS = 63.3e-9  # that each warp adds to the time that a CTA takes
_CTA_SECONDS = 0.529e-9  # that the device takes to start a CTA
_LAST_CTAS = 1.215  # how many times what a CTA takes alone is seen at the end and the beginning of a launch
_START_SECONDS = 0.80e-6  # a launch
_SCALAR_START_SECONDS = 1.15e-6  # a launch of a scalar permute, and one trip through memory
_SCALAR_TRIP_CYCLES = 78  # each trip of a thread
_SCALAR_DIVISION_CYCLES = 58  # more for each dimension of its box whose extent is no power of two
_SCALAR_WARP_SECONDS = 3.7e-9  # of a CTA
_SHARPNESS = 1.944  # of the norm that joins what overlaps: the longest counts most
_WORD_BYTES = 4


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


@dataclass(frozen=True)
class BoxWork:
    """What a CTA of a permute does with its box, however many threads it has.

    ``at_once``: the most elements that a thread moves at a time. ``divided``: dimensions of the box that are no power
    of two, by which addresses divide.
    """

    variant: str
    box: tuple[int, ...]
    turn: str
    sides: tuple[_Side, _Side]
    ways: tuple[Way, ...]
    at_once: int
    divided: int
    ctas: int
    elem_bytes: int
    array_bytes: int

    def choose(self, threads: int) -> TileChoice:
        """The candidate that has so many threads."""
        return TileChoice(self.variant, self.box, threads, self.turn)

    @property
    def box_bytes(self) -> int:
        return prod(self.box) * self.elem_bytes

    def list_threads(self) -> tuple[int, ...]:
        """How many threads may share the box out."""
        groups = [way.groups for way in self.ways]
        if self.variant == "scalar":
            return list_threads(groups, self.box_bytes, self.elem_bytes, MOST_SCALAR_THREADS)
        return tuple(sorted({*list_threads(groups, self.box_bytes), *list_even_threads(self.ways, self.box_bytes)}))


def describe_work(
    dims: Dims, sizes: Sequence[int], variant: str, box: tuple[int, ...], elem_bytes: int, turn: str = "auto"
) -> BoxWork:  # fmt: skip
    """What a CTA does with a box.

    Elements of a tile turn over on the way in, but where what comes in is wider than what goes out: those that are
    stored one by one can be in any order; turned over on the way in, they would be single in shared memory already.
    """
    is_tiled = variant == "tiled"
    vectors = find_ragged_vectors(dims, sizes, box, elem_bytes) if is_tiled else 0
    found = [_side(dims, sizes, box, side, elem_bytes, not is_tiled) for side in (0, 1)]
    if not is_tiled:  # what an edge cuts is moved one by one
        width = 1 if variant == "scalar" else min(s.width for s in found)
        found = [replace(s, width=width) for s in found]
    if variant == "scalar":
        found = [replace(s, sectors_per_run=s.run_elems * _warp_sectors(dims, box, k, elem_bytes) / LANES)
                 for k, s in enumerate(found)]  # fmt: skip
    src, dst = found
    at_once = _elems_at_once(dims, sizes, variant, box, (src, dst), elem_bytes)
    if turn == "auto":
        turn = "store" if src.width > dst.width else "load"
    cut = [n % b > 0 for n, b in zip(sizes, box, strict=True)]
    walks = Walk(tuple(range(len(box))), dims.src_inner, src.width), Walk(dims.order, dims.dst_inner, dst.width)
    turning, other = walks if turn == "load" else walks[::-1]
    if is_tiled:
        ways = list_tiled_ways(turning, other, box, at_once, cut)
        if vectors:
            at_once, ways = src.width * vectors, list_ragged_ways(dims, box, cut, src.width, vectors)
    else:
        ways = (Way(-(-prod(box) // at_once), 2, 0, *walk_box(other, box, cut)),)
    divided = sum(1 for n in box if n & (n - 1))
    ctas = count_ctas(box, sizes)
    return BoxWork(variant, box, turn, (src, dst), ways, at_once, divided, ctas, elem_bytes, prod(sizes) * elem_bytes)


def estimate(work: BoxWork, threads: int, arch: Arch) -> Estimate:
    """The time of one candidate and what it follows from.

    What a box has beyond an edge takes instructions, and moves no bytes.
    """
    device = typical_device(arch.name)
    ctas = work.ctas
    sectors = sum(_count_sectors(work, side) for side in (0, 1))
    wavefronts = int(ctas * work.box_bytes / 128 * 2 * len(work.ways))
    instructions = [_way_instructions(way, work, threads) for way in work.ways]
    issued = sum(_count_warp_trips(way, threads) * each for way, each in zip(work.ways, instructions, strict=True))
    waited = sum(-(-way.groups // threads) * each for way, each in zip(work.ways, instructions, strict=True))
    alone = waited * _CYCLES_PER_INSTRUCTION / device.clock_hz + _WARP_SECONDS * threads / LANES
    resident = _resident_ctas(work, threads, arch)
    in_flight = max(1, int(min(resident, ctas / device.sm_count) * work.array_bytes / ctas))
    rounds = -(-ctas // device.sm_count)  # CTAs of the busiest multiprocessor
    widths = (side.width for side in work.sides)
    if work.variant == "scalar":
        seconds, bound_by = _scalar_seconds(work, threads, device), "latency"
        return Estimate(seconds, bound_by, sectors, 0, int(ctas * issued), in_flight, *widths)
    times = {
        "memory": _memory_seconds(work, in_flight, device),
        "L2": sectors * SECTOR_BYTES / (device.memory_bytes_per_s * _L2_TO_MEMORY),
        "instructions": rounds * issued / (device.clock_hz * _ISSUE_PER_CYCLE),
        "starts of CTAs": ctas * _CTA_SECONDS,
        "turns of CTAs": ctas / (resident * device.sm_count) * alone,
    }
    bound_by = max(times, key=lambda k: times[k])
    together = sum(t**_SHARPNESS for t in times.values()) ** (1 / _SHARPNESS)
    seconds = together + _LAST_CTAS * alone + _START_SECONDS
    return Estimate(seconds, bound_by, sectors, wavefronts, int(ctas * issued), in_flight, *widths)


@dataclass(frozen=True)
class _Side:
    """One array's accesses: elements of one, elements of a run of the box, sectors that such a run takes.

    ``is_ragged``: runs begin inside of sectors; ``ends_in_words``: they begin or end inside of 4 bytes.
    """

    width: int
    run_elems: int
    sectors_per_run: float
    is_ragged: bool
    ends_in_words: bool


def _side(
    dims: Dims, sizes: Sequence[int], box: Sequence[int], side: int, elem_bytes: int, may_be_cut: bool
) -> _Side:  # fmt: skip
    order = dims.order if side else tuple(range(len(sizes)))
    run = run_elems(order, box, sizes)
    align = gcd(_run_alignment(dims, box, side) * elem_bytes, SECTOR_BYTES)
    ragged = (run * elem_bytes) % SECTOR_BYTES > 0 or align < SECTOR_BYTES
    sectors = (run * elem_bytes + (SECTOR_BYTES - align if ragged else 0)) / SECTOR_BYTES
    width = access_elems(dims, sizes, box, side, elem_bytes, may_be_cut)
    return _Side(width, run, sectors, align < SECTOR_BYTES, align < _WORD_BYTES)


def _warp_sectors(dims: Dims, box: Sequence[int], side: int, elem_bytes: int) -> int:
    """Sectors of one array that 32 elements of a box touch which are neighbours in src's order."""
    strides = [multiple(d.strides[side]) for d in dims.dims]
    lanes = list(islice(combinations(*(range(n) for n in box)), LANES))
    return len({sum(map(mul, at, strides)) * elem_bytes // SECTOR_BYTES for at in lanes}) * LANES // len(lanes)


def _run_alignment(dims: Dims, box: Sequence[int], side: int) -> int:
    """What every run of a box begins at a multiple of, in elements."""
    strides = [multiple(d.strides[side]) for d in dims.dims]
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
    others = [multiple(d.strides[side]) for k, d in enumerate(dims.dims) if k != inner]
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
    dims: Dims, sizes: Sequence[int], variant: str, box: Sequence[int], sides: Sequence[_Side], elem_bytes: int
) -> int:  # fmt: skip
    """Elements that a thread moves at a time: an access, or a register tile where both arrays are accessed in vectors
    along dimensions of their own.

    Where one array's vectors go on from one row of its fastest dimension to the next, a tile takes that one whole.
    """
    counts = [s.width for s in sides]
    if variant != "tiled" or dims.src_inner == dims.dst_inner or min(counts) == 1:
        return min(counts)
    for side, inner, other in ((0, dims.src_inner, dims.dst_inner), (1, dims.dst_inner, dims.src_inner)):
        follows = dims.dims[other].strides[side] == sizes[inner]
        own = sizes[inner]
        if follows and box[inner] == own and own % sides[side].width:
            counts[side] = own if own * counts[1 - side] * elem_bytes <= MOST_RUN_BYTES else gcd(own, counts[side])
    return counts[0] * counts[1]


def _count_sectors(work: BoxWork, side: int) -> int:
    """Sectors of one array that all CTAs ask for."""
    its = work.sides[side]
    return int(work.array_bytes // work.elem_bytes / its.run_elems * its.sectors_per_run)


def _scalar_seconds(work: BoxWork, threads: int, device: TypicalDevice) -> float:
    """What a small array takes that goes element by element: all CTAs are there at a time, and the L2 has all sectors.

    Stores are waited for by nobody.
    """
    trips = -(-prod(work.box) // threads)
    cycles = trips * (_SCALAR_TRIP_CYCLES + work.divided * _SCALAR_DIVISION_CYCLES)
    loads = _count_sectors(work, 0) * SECTOR_BYTES / (device.memory_bytes_per_s * _L2_TO_MEMORY)
    starts = threads / LANES * _SCALAR_WARP_SECONDS + work.ctas * _CTA_SECONDS
    return _SCALAR_START_SECONDS + cycles / device.clock_hz + loads + starts


def _count_warp_trips(way: Way, threads: int) -> int:
    """Trips of all warps: whole ones, but where the last warp of a CTA has idle lanes."""
    return -(-way.groups // threads) * -(-threads // LANES) if threads % LANES else -(-way.groups // LANES)


def _way_instructions(way: Way, work: BoxWork, threads: int) -> float:
    """Instructions for a group of a way: its accesses, its address, and a guard where the last trip leaves some out."""
    again = way.groups > threads
    guarded = count_guarded(way.extents, way.cut, threads) if again else 0
    accesses = way.accesses * (_ACCESS_INSTRUCTIONS + guarded * _EDGE_INSTRUCTIONS)
    accesses += way.shared_accesses * _SHARED_INSTRUCTIONS
    guard = _GUARD_INSTRUCTIONS if way.groups % threads else 0
    uneven = count_uneven(way.extents, threads) if again else 0
    return accesses + way.more + work.divided * _DIVISION_INSTRUCTIONS + uneven * _UNEVEN_INSTRUCTIONS + guard


def _resident_ctas(work: BoxWork, threads: int, arch: Arch) -> int:
    """CTAs that a multiprocessor holds, if the compiler keeps a thread's elements in registers besides some others."""
    each = max(prod(work.box) / threads, work.at_once) * work.elem_bytes / 4
    is_tiled = work.variant == "tiled"
    registers = min(255, int(24 + each * 1.1) if is_tiled else int(16 + each * 1.25))
    shared = work.box_bytes if is_tiled else 0
    return max(1, occupancy(arch, threads, registers, shared) * LANES // threads)


def _memory_seconds(work: BoxWork, in_flight_bytes: int, device: TypicalDevice) -> float:
    """Both arrays once, each run with its overhead, slower where too little is in flight, or too much.

    What is in flight lies between the two stores of a sector that two CTAs share: the more, the less often the L2 still
    has it.
    """
    dst, crowd = work.sides[1], in_flight_bytes / _TOO_MUCH_IN_FLIGHT
    moved = work.array_bytes / work.elem_bytes / dst.run_elems * _SHARED_BYTES * crowd * dst.ends_in_words
    for s, each, ragged in zip(work.sides, _RUN_OVERHEAD_BYTES, _RAGGED_BYTES, strict=True):
        moved += work.array_bytes * (1 + (each + ragged * s.is_ragged) / (s.run_elems * work.elem_bytes))
    waiting = sqrt(1 + (_ENOUGH_IN_FLIGHT / in_flight_bytes) ** 2)
    crowded = 1 + _CROWDED * max(0.0, log2(crowd))
    return moved * waiting * crowded / (device.memory_bytes_per_s * _REACHED)
