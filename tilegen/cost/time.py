"""How long a product of matrices takes on the product that stands for an arch: closed forms, in seconds.

A tile's k-tiles go at the pace of the slowest of what works side by side: the units that multiply, the shared memory
that they read, the L2 that tiles come from. What is not side by side is added: the first k-tile's way, the epilogue
(under the next tile's products where CTAs go on), a launch. CTAs go in waves.

The shares of each rate that kernels reach, and what a panel and a cluster cost, are fitted to docs/results/gemm (H200).
Rows that do not begin at lines of the L2 are fitted to docs/results/programs (H200).
A warpgroup alone cannot start its next product while it waits, and N below 128 reads more of a than it multiplies.

K-tiles that threads bring lie in registers while the one before is multiplied, and are stored between two meetings,
when nothing else is done; fragments are read beside products, but neither hides all of the other. For the port of
shared memory CTAs of a multiprocessor stand in line, and while one waits for meetings or products, others go on. The
constants are fitted to 205 recipes of nine products as an H100 timed them (docs/results/gemm has them of an H200),
how many CTAs fit to the registers of 78 kernels. Of warps that share K and load by cp.async, bytes and their way are
fitted to the 42 of 96 x 64 x 20000 and 203 x 8 x 1784.

Fragments of float64 are pairs of registers, whose reads take about as long as the products: neither hides all of the
other (28 recipes of 4096 x 4096 x 4096 in docs/results/gemm, H100).

Of fused multiply-adds the others take the place: loads of fragments, copies, and what a k-tile takes besides. Their
numbers are fitted to the loops of 28 kernels as nvcc 13.0 compiles them for sm_90a, four storage orders of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import hypot

import numpy as np

from tilegen.arch import ARCHES, Arch
from tilegen.arch.data import typical_device
from tilegen.cost.rates import L2_BYTES_PER_CLOCK, LATENCY, LAUNCH_SECONDS, SIMT_RATES, TCGEN05_RATES, TENSOR_RATES
from tilegen.cost.tally import BY_CP_ASYNC, BY_THREADS, BY_TMA, Tally, Work

_MMA_SYNC_SHARE = {BY_TMA: 0.64, BY_CP_ASYNC: 0.54, BY_THREADS: 0.6}  # of wgmma's rate, by what brings k-tiles
_SHARE = 0.885  # of the rate at which a warp's instructions can begin, where fused multiply-adds are nearly all
_K_TILE, _COPY = 50, 2.7  # other instructions of a thread: of a k-tile, and of each of its copies, with their addresses
_FEW_SUMS, _ALONE = 128, 1.09  # of a thread: with as many a CTA is alone, and hides less (48 kernels, H100, 2026-11-28)
_DOUBLE_SHARE = {BY_TMA: 0.8, BY_CP_ASYNC: 1.0, BY_THREADS: 0.5}  # the same of float64
_DOUBLE_FEW = {1: 1.1, 2: 1.055}  # times as long, where so few CTAs of a multiprocessor hide their waits
_WGMMA_SHARE = {  # of the rate that wgmma reaches, by N and by warpgroups that take turns
    1: ((8, 32, 64, 128, 192, 256), (0.07, 0.25, 0.45, 0.76, 0.93, 0.97)),
    2: ((8, 32, 64, 128, 192, 256), (0.09, 0.33, 0.62, 0.96, 1.0, 1.0)),
}
# Clocks of an instruction of tcgen05 by its N, reads of shared memory in it: measured by others (GB300), none by us.
_TENSOR_CLOCKS = (64, 128, 256), (63, 80, 141)
_WGMMA_STAGED = 0.85  # 64 x 256 against 128 x 128, which reads b twice: 9 products (docs/results/gemm, and sweep_split)
_SECOND_LINE = 2.0  # times as long, where TMA reads a row of a box from two lines of the L2 (7 products, H200)
_STORES = 3  # times as long as TMA takes to store a tile; of elements one by one, twice that, as they are twice as many
_FIRST_K_TILE = 900  # clocks until the first k-tile has come
_EPILOGUE, _PANEL = 800, 400  # clocks, of a tile and of each of its panels; what bytes take is beside
_BARRIER, _WAIT, _STEP = 24, 350, 30  # clocks without roles: of a k-tile beside others; alone, and of each of its steps
_SINGLE = 1 / 32  # clocks of an element that is loaded, or stored, alone: 32 are a wavefront
_MEETINGS = 320  # clocks of a k-tile that threads bring, both its meetings
_SINGLE_LOAD = 1.8 / 32  # clocks of an element that is loaded alone, for a CTA that is alone
_LOAD = 7.5  # clocks of each of a thread's loads, which come before its products
_BEGIN = 60  # clocks of a tile whose k-tiles threads bring, before its first load
_RUN_OVERHEAD_BYTES = 40  # of memory, of each run of a row: 1 x 7168 x 16384 in runs of 0.5 to 8 KB
_HELD = {BY_THREADS: 10, BY_CP_ASYNC: 40, BY_TMA: 40}  # registers of a thread beside sums and fragments
_PER_WAITING = 1.2  # for 4 bytes, or an element alone, that wait
_COPIED_BYTES_PER_CLOCK, _ON_THE_WAY = 38.0, 1600  # by cp.async to warps that share K; clocks until a load is there
_JOIN, _JOINED = 300, 100  # clocks in which warps that share K meet, and for each of them
_MEETING = 400  # clocks for which the CTAs of a cluster wait for one another at either end


@dataclass(frozen=True)
class Time:
    """Seconds: of the k-tiles, by what bounds them, of what is not side by side, and of memory as a whole.

    ``sum``: of the second kernel that adds up what CTAs made that share K, its launch too.
    """

    multiply: float
    shared: float
    l2: float
    edges: float
    launch: float
    memory: float
    sum: float = 0.0

    @property
    def total(self) -> float:
        return max(max(self.multiply, self.shared, self.l2) + self.edges, self.memory) + self.launch + self.sum

    def __str__(self) -> str:
        parts = {"multiply": self.multiply, "shared": self.shared, "L2": self.l2, "edges": self.edges,
                 "memory": self.memory}  # fmt: skip
        parts |= {"sum": self.sum} if self.sum else {}
        terms = ", ".join(f"{name} {t * 1e6:.1f}" for name, t in parts.items())
        return f"{self.total * 1e6:.1f} us: {terms}"


def read_time(text: str) -> dict[str, float]:
    """The microseconds of a Time that was printed, ``us`` the whole; {} for any other text.

    >>> read_time(str(Time(2e-6, 1e-6, 0.0, 5e-7, 0.0, 0.0)))
    {'us': 2.5, 'multiply': 2.0, 'shared': 1.0, 'L2': 0.0, 'edges': 0.5, 'memory': 0.0}
    """
    total, _, terms = text.partition(" us: ")
    words = [term.rsplit(" ", 1) for term in terms.split(", ")] if terms else []
    try:
        return {"us": float(total)} | {name: float(value) for name, value in words} if words else {}
    except ValueError:
        return {}


def find_measurer(variant: str) -> str:
    """Who measured the rates by which times of a variant are compared, "" where it was us.

    >>> find_measurer("tcgen05"), find_measurer("wgmma")
    ('others, GB300', '')
    """
    return _UNITS[variant].measured_by


def count_work(work: Work) -> Tally:
    """What a launch does, by closed forms: what ``ops/tally.py`` counts in the statements.

    >>> work = Work("wgmma", "bfloat16", (4096, 4096, 4096), 1, (128, 256, 64), 2, 2, 4, 128, 1, 384, 640, 2)
    >>> count_work(work).products == 4096**3, count_work(work).stored == 4096**2 * 2
    (True, True)
    """
    return _UNITS[work.variant].count(work)


def _count_tiles(work: Work) -> Tally:
    (_, _, k), (bm, bn, bk), size = work.sides, work.tile, work.factor_bytes
    steps = work.tiles * -(-k // bk)
    return Tally(
        {work.load: steps * bk * (bm * size + bn * size // work.cluster)},
        staged=steps * bk * (bm + work.own_columns) * size,
        read=(steps * bk * work.reads + work.tiles * work.unused_reads) * size,
        products=steps * bm * bn * bk,
        stored=work.tiles * bm * bn * work.result_bytes,
        aside=work.tiles * work.aside_bytes,
        waits=2 * steps if work.load == BY_TMA else 0,  # one to fill a stage, one to read it
        arrivals=steps * work.arrivers * (1 if work.in_pairs else work.cluster),
        joined=work.tiles * bm * bn * work.k_parts * work.sum_bytes if work.k_parts > 1 else 0,
    )


def estimate(work: Work, arch: str, tally: Tally | None = None) -> Time:
    """The time of a product that does what ``tally`` says, by default what closed forms do.

    >>> work = Work("wgmma", "bfloat16", (4096, 4096, 4096), 1, (128, 256, 64), 2, 2, 4, 128, 1, 384, 640, 2)
    >>> round(estimate(work, "sm_90a").total * 1e6)
    142
    """
    return _UNITS[work.variant].estimate(work, arch, tally or count_work(work))


@dataclass(frozen=True)
class _Turns:
    """How the tiles of a launch follow one another: ``per_sm`` CTAs that a multiprocessor holds, ``busy`` of them with
    a tile each; ``waves`` of CTAs; ``turns``: tiles that one multiprocessor makes."""

    per_sm: int
    busy: int
    waves: int
    turns: int


def _take_turns(work: Work, arch: str) -> _Turns:
    (bm, _, bk), tiles, sm_count = work.tile, work.tiles, typical_device(arch).sm_count
    staged = work.stages * bk * (bm + work.own_columns) * work.factor_bytes
    by_shared = ARCHES[arch].max_shared_bytes_per_cta // (staged + _count_beside(work, staged))
    by_registers = _fit_registers(work, ARCHES[arch])
    per_sm = 1 if work.load == BY_TMA else max(1, min(4, 512 // work.threads, by_shared, by_registers))
    at_once = work.ctas or sm_count * per_sm
    waves = -(-tiles // at_once)
    busy = -(-min(at_once, tiles) // sm_count)
    return _Turns(per_sm, busy, waves, waves if work.ctas else max(waves, -(-tiles // sm_count)))


def _estimate_tiles(work: Work, arch: str, tally: Tally) -> Time:
    """K-tiles come into shared memory, and instructions multiply them."""
    device, unit, by = typical_device(arch), _UNITS[work.variant], _take_turns(work, arch)
    (m, n, k), (bm, bn, bk), tiles = work.sides, work.tile, work.tiles
    clocks = _count_clocks(work, tally, by)
    steps = -(-k // bk)
    starves = unit.starves and work.stages < steps * (by.waves if work.ctas else 1)
    starve = {2: 1.2, 3: 1.05}.get(work.stages, 1.0) if starves else 1.0
    each = {name: c * by.turns * starve / device.clock_hz for name, c in clocks.items()}
    out = tally.stored / tiles / 32 * (1 if work.by_tma else _STORES * (1 + work.stores_singly))
    goes_on = unit.leaves_under_products and work.ctas > 0
    alone = 1 + 0.3 * (by.waves - 1) if goes_on else by.waves
    together = alone if goes_on else by.turns  # stores of several CTAs take as long as in turn
    leaving = (_EPILOGUE + work.panels * _PANEL) * alone + out * together
    first = 0 if _waits_for_copies(work) else _FIRST_K_TILE
    edges = first + leaving + _MEETING * 2 * (work.cluster - 1)
    if work.k_parts > 1:
        edges += (_JOIN + _JOINED * work.k_parts) * by.waves + 2 * tally.joined / tiles / 128 * by.turns
    filled = (-m % bm * -(-n // bn) + -n % bn * -(-m // bm)) * k  # elements beyond the edges, which cost as others do
    moved = work.batch * ((m * k + n * k + filled) * work.factor_bytes + m * n * work.result_bytes)
    return Time(
        each["multiply"], each["shared"], each["l2"], edges / device.clock_hz, LAUNCH_SECONDS,
        moved / device.memory_bytes_per_s,
    )  # fmt: skip


def _count_clocks(work: Work, tally: Tally, by: _Turns) -> dict[str, float]:
    """Clocks of a tile's k-tiles, by what bounds them."""
    (_, _, k), (bm, bn, bk), tiles, unit = work.sides, work.tile, work.tiles, _UNITS[work.variant]
    clocks = {
        "multiply": 2.0 * tally.products / tiles / (unit.rates[work.factors] * unit.share(work, by.per_sm)),
        "shared": (tally.staged * unit.staged + tally.read * unit.read) / tiles / 128,
        "l2": sum(tally.fetched.values()) / tiles / L2_BYTES_PER_CLOCK,
    }
    if work.load == BY_TMA:
        clocks["l2"] *= 1 + _SECOND_LINE * (work.lines - 1)
    if work.load == BY_CP_ASYNC and bm * bn >= _FEW_SUMS * work.threads:
        clocks["multiply"] *= unit.alone
    if _multiplies_doubles(work) and work.load != BY_THREADS:
        together = hypot(clocks["multiply"], clocks["shared"])
        clocks["multiply"] = together * _DOUBLE_FEW.get(by.per_sm, 1.0)
    steps, per_step = -(-k // bk), max(1, bk // _depth_of(work) // work.k_parts)
    if _waits_for_copies(work):  # few products: what takes long is the way of the stages, the first one's too
        clocks["multiply"] = max(clocks["multiply"], steps * _STEP * per_step) + _BARRIER * steps
        clocks["l2"] = _wait_for_copies(sum(tally.fetched.values()) / tiles, steps, work.stages)
    elif work.load == BY_CP_ASYNC:  # all threads meet at each k-tile, whose elements, or fragments, have come by then
        clocks["multiply"] = max(clocks["multiply"] + _BARRIER * steps, steps * (_WAIT + _STEP * per_step) / by.busy)
    elif work.load == BY_THREADS:
        own = _bring_by_threads(work, steps, clocks["multiply"], tally.staged / tiles / 128, tally.read / tiles / 128)
        clocks["shared"] += work.singles * (k + steps * bk) * _SINGLE  # zeros beyond K are stored, and not loaded
        in_line = clocks["shared"] + max(0.0, own - clocks["shared"]) / by.busy
        clocks["l2"] = max(clocks["l2"], in_line) + _BEGIN
    return clocks


def _waits_for_copies(work: Work) -> bool:
    """Do warps that share K copy what they multiply?"""
    return work.load == BY_CP_ASYNC and work.k_parts > 1


def _count_with_sums(work: Work) -> Tally:
    """Sums are handed over at mbarriers too: of each tile they are complete once, and read once if CTAs go on."""
    found, told = _count_tiles(work), work.tiles * (2 if work.ctas else 1)
    waits = found.waits + told
    if work.in_pairs:  # for stages that are full, and for sums that are read, one CTA of the two waits
        waits -= (found.waits // 2 + (work.tiles if work.ctas else 0)) // 2
    return replace(found, waits=waits, arrivals=found.arrivals + told)


def _count_rows(work: Work) -> Tally:
    """What is multiplied comes into registers, and no instruction multiplies matrices."""
    (_, _, k), (bm, bn, bk) = work.sides, work.tile
    read = work.tiles * -(-k // bk) * bk * (bm + bn) * work.factor_bytes
    return Tally(stored=work.tiles * bm * bn * work.result_bytes, aside=work.tiles * work.aside_bytes + read)


def _estimate_rows(work: Work, arch: str, tally: Tally) -> Time:
    """Elements come at the pace of L2, or of memory; a tile waits for those of each step, and for its threads' sums.

    What threads read at once of each row is a run, in which memory takes a little longer than for one of any length.
    """
    device, (bm, bn, bk), (m, n, k) = typical_device(arch), work.tile, work.sides
    steps, run_bytes = -(-k // bk), bk * work.factor_bytes
    read = (m + n) * k / bk * (run_bytes + _RUN_OVERHEAD_BYTES) * work.batch
    per_sm = 32 * ARCHES[arch].max_warps_per_sm // work.threads
    waves, turns = -(-work.tiles // (device.sm_count * per_sm)), -(-work.tiles // device.sm_count)
    products = 2 * bm * bn * bk * steps / SIMT_RATES.get(work.factors, SIMT_RATES["float32"]) * turns
    come = (tally.aside + tally.stored) / work.tiles / L2_BYTES_PER_CLOCK * turns
    alone = (_FIRST_K_TILE + _EPILOGUE + LATENCY * steps) * waves
    return Time(
        products / device.clock_hz, 0.0, come / device.clock_hz, alone / device.clock_hz, LAUNCH_SECONDS,
        (read + tally.stored) / device.memory_bytes_per_s,
    )  # fmt: skip


def _bring_by_threads(work: Work, steps: int, multiply: float, staged: float, read: float) -> float:
    """Clocks of a tile whose k-tiles threads bring, of a CTA that is alone: elements are loaded and stored, fragments
    are read while products are made, and threads meet. The three are clocks of all of the tile's k-tiles.
    """
    (bm, bn, bk), k = work.tile, work.sides[2]
    moved = staged + work.singles * (steps * bk * _SINGLE + k * _SINGLE_LOAD)
    loads = (work.singles + (bm + bn - work.singles) * work.factor_bytes / 16) * bk / work.threads
    return steps * (_MEETINGS + loads * _LOAD) + moved + hypot(read, multiply)


def _wait_for_copies(copied: float, steps: int, stages: int) -> float:
    """Clocks until so many bytes have been copied in so many k-tiles: nothing is multiplied before the first has come,
    and while one is multiplied no more are on their way than there are other stages.

    >>> [round(_wait_for_copies(80_000, steps, stages)) for steps, stages in ((2, 2), (20, 4), (20, 2))]
    [3705, 10344, 30611]
    """
    each = copied / steps / _COPIED_BYTES_PER_CLOCK
    return (steps + 1) * each + (steps - 1) * max(0.0, _ON_THE_WAY / max(1, stages - 1) - each)


def _count_beside(work: Work, staged: int) -> int:
    """Bytes of shared memory for what leaves a tile beside its stages, over which it lies where they are as large."""
    is_staged = _UNITS[work.variant].is_staged and work.k_parts == 1
    leaving = work.tile[0] * work.tile[1] * work.result_bytes if is_staged else 0
    return leaving if leaving > staged else 0


def _fit_registers(work: Work, arch: Arch) -> int:
    """CTAs of a multiprocessor whose threads hold their sums and the fragments of two steps, and the next k-tile where
    they bring it. What comes by itself leaves enough for all but float64."""
    (bm, bn, bk), each = work.tile, work.threads
    if work.load != BY_THREADS and not _multiplies_doubles(work):
        return arch.registers_per_sm // each
    waiting = (work.singles + (bm + bn - work.singles) * work.factor_bytes / 4) * bk * (work.load == BY_THREADS)
    fragments = 2 * _depth_of(work) * work.reads * work.factor_bytes / 4
    taken = (waiting * _PER_WAITING + fragments + bm * bn * work.k_parts * work.sum_bytes / 4) / each + _HELD[work.load]
    return arch.registers_per_sm // (each * min(arch.max_registers_per_thread, int(taken)))


def _depth_of(work: Work) -> int:
    """Of a step along K."""
    unit = _UNITS[work.variant]
    return unit.depth_of_doubles if work.factors == "float64" else unit.depth


def _multiplies_doubles(work: Work) -> bool:
    return _UNITS[work.variant].reads_pairs and work.factors == "float64"


def _share_of_wgmma(work: Work, per_sm: int) -> float:
    warpgroups = work.threads // 128 - 1  # beside that of the loading warp
    return float(np.interp(work.tile[1], *_WGMMA_SHARE[warpgroups]))


def _share_of_tcgen05(work: Work, per_sm: int) -> float:
    return work.tile[1] / 2 / float(np.interp(work.tile[1], *_TENSOR_CLOCKS))


def _share_of_mma_sync(work: Work, per_sm: int) -> float:
    if _multiplies_doubles(work):
        return _DOUBLE_SHARE[work.load]
    is_few = work.load == BY_CP_ASYNC and per_sm == 2
    return _MMA_SYNC_SHARE[work.load] * (0.85 if is_few else 1.0)  # few CTAs hide less of a wait for all


def _share_of_products(work: Work, per_sm: int = 1) -> float:
    """The share of instructions that multiply, of threads with a square of sums as near as can be.

    >>> few = Work("simt", "float32", (4096,) * 3, 1, (128, 256, 8), 4, 4, 5, 0, 1, 256, 0, copies=96)
    >>> many = Work("simt", "float32", (4096,) * 3, 1, (128, 256, 8), 4, 4, 5, 0, 1, 256, 0, copies=384)
    >>> round(_share_of_products(few), 3), round(_share_of_products(many), 3)  # one by one, elements take more copies
    (0.802, 0.785)
    """
    (bm, bn, bk), side = work.tile, int((work.threads // work.k_parts) ** 0.5)
    rows, columns = max(1, bm // side), max(1, bn // side)
    products = rows * columns * bk / work.k_parts
    loads = products * (1 / rows + 1 / columns) * work.factor_bytes / 16
    return _SHARE * products / (products + loads + _K_TILE + _COPY * work.copies * bk / work.threads)


@dataclass(frozen=True)
class _Unit:
    """What multiplies, as the model sees it.

    ``rates``: floating-point operations of one multiprocessor in a clock, by the type of factors. ``share(work,
    per_sm)``: of the rate, what kernels reach. ``depth``, ``depth_of_doubles``: of a step along K. ``starves``: k-tiles
    that come late keep it waiting. ``leaves_under_products``: a tile leaves under the next one's products.
    ``is_staged``: results leave through shared memory of their own. ``reads_pairs``: fragments of float64 are pairs of
    registers. ``alone``: times as long, where a CTA that copies is alone. ``staged``: of the clocks of 128 bytes of
    shared memory, those that come. ``read``: the same of bytes that products take. ``measured_by``: who measured the
    rates, where it was not us: times then rank recipes, and nothing is promised.
    """

    rates: Mapping[str, float]
    share: Callable[[Work, int], float]
    count: Callable[[Work], Tally] = _count_tiles
    estimate: Callable[[Work, str, Tally], Time] = _estimate_tiles
    depth: int = 16
    depth_of_doubles: int = 8
    starves: bool = True
    leaves_under_products: bool = False
    is_staged: bool = False
    reads_pairs: bool = False
    alone: float = 1.0
    staged: float = 1.0
    read: float = 1.0
    measured_by: str = ""


_UNITS = {
    "tcgen05": _Unit(
        TCGEN05_RATES,
        _share_of_tcgen05,
        _count_with_sums,
        leaves_under_products=True,
        read=0.0,
        measured_by="others, GB300",
    ),
    "wgmma": _Unit(
        TENSOR_RATES, _share_of_wgmma, leaves_under_products=True, staged=_WGMMA_STAGED, read=2 - _WGMMA_STAGED
    ),
    "rows": _Unit(SIMT_RATES, _share_of_products, _count_rows, _estimate_rows),
    "mma_sync": _Unit(TENSOR_RATES, _share_of_mma_sync, is_staged=True, reads_pairs=True),
    "simt": _Unit(SIMT_RATES, _share_of_products, depth=1, depth_of_doubles=1, starves=False, alone=_ALONE),
}
