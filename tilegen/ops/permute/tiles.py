"""What a CTA of a permute may take: boxes, each with a variant, and how many threads may move one.

A box is one extent per dimension. ``direct`` boxes go from src to dst through registers alone, ``tiled`` ones through
shared memory: first along src's fastest dimensions, then along dst's. ``scalar`` boxes go element by element: where
arrays are small their one trip through memory takes less time than whole accesses in two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import log, prod

from tilegen.access import SECTOR_BYTES
from tilegen.index import evaluate, variables
from tilegen.ops.permute.dims import Dims

MAX_TILE_BYTES = 48 * 1024  # what every arch gives a CTA without asking
MAX_CANDIDATES = 64
LANES = 32  # of a warp
_THREADS = (64, 128, 256, 512)
_MOST_THREADS = 640
_FULL = 0.95  # of the threads have something to do, over all trips of each way: any number of warps may do that
_RUN_BYTES = (64, 128, 256, 512, 1024)
_LONG_RUN_BYTES = (2048, 4096)  # beside a dimension so short that a box of 1024 bytes of the other is a small one
_SHORT_BYTES = 16
_LOPSIDED = 8  # a run is not so many times as long as the other side's, or longer
_DIRECT_BYTES = (2048, 4096, 8192, 16384)
_MOST_BYTES_PER_THREAD = 256  # 64 registers
_LEAST_BYTES_PER_THREAD = 4
_SCALAR_ELEMS = (256, 512)
MOST_SCALAR_THREADS = 256
_MOST_SCALAR_BYTES = 384 * 1024  # of an array; larger ones lost with every box that was timed (docs/performance.md)
_PART_RATIO = 1.7  # a divisor of a dimension stands for a part up to so many times longer or shorter


@dataclass(frozen=True)
class TileChoice:
    """How one CTA works: ``variant`` (direct, tiled or scalar), its box, in src's order of dimensions, and its threads.

    ``turn``: whether a tile's elements change their order on the way into shared memory (load) or out of it (store).
    """

    variant: str
    box: tuple[int, ...]
    threads: int
    turn: str = "load"

    @property
    def elems(self) -> int:
        return prod(self.box)


def sizes_of(dims: Dims, defaults: dict[str, int]) -> tuple[int, ...]:
    """The extents, runtime ones at their defaults."""
    return tuple(int(evaluate(d.extent, {v.name: defaults[v.name] for v in variables(d.extent)})) for d in dims.dims)


def list_boxes(dims: Dims, elem_bytes: int, defaults: dict[str, int]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Every (variant, box), duplicates dropped, in a fixed order."""
    sizes = sizes_of(dims, defaults)
    fixed = [isinstance(d.extent, int) for d in dims.dims]
    direct = (("direct", box) for box in _direct(dims, sizes, fixed, elem_bytes))
    tiled = (("tiled", box) for box in _tiled(dims, sizes, fixed, elem_bytes))
    scalar = (("scalar", box) for box in _scalar(dims, sizes, fixed, elem_bytes))
    return tuple(dict.fromkeys((*direct, *tiled, *scalar)))


def list_threads(
    groups: Sequence[int], box_bytes: int, least_bytes: int = _LEAST_BYTES_PER_THREAD, most: int = _MOST_THREADS
) -> tuple[int, ...]:  # fmt: skip
    """How many threads may share out so many groups of elements, one number for each way of a box: powers of two, and
    whole warps that have something to do in nearly all trips; no more than there are groups, none with fewer bytes.

    >>> list_threads((576, 2304), 36864)
    (192, 256, 288, 512, 576)
    >>> list_threads((20,), 320)
    (64,)
    """
    most = min(most, max(_THREADS[0], -(-max(groups) // LANES) * LANES))
    found = tuple(
        threads for threads in range(_THREADS[0], most + 1, LANES)
        if (threads in _THREADS or min(n / (-(-n // threads) * threads) for n in groups) >= _FULL)
        and (box_bytes >= least_bytes * threads or threads == _THREADS[0])
        and box_bytes <= _MOST_BYTES_PER_THREAD * threads
    )  # fmt: skip
    return found or (most,)


def _direct(dims: Dims, sizes: Sequence[int], fixed: Sequence[bool], elem_bytes: int) -> Iterable[tuple[int, ...]]:
    """Boxes that dst stores in one run after another; none where src runs along another dimension than dst."""
    if dims.src_inner == dims.dst_inner:
        for bytes_ in _DIRECT_BYTES:
            yield fill_box(dims.order, sizes, fixed, bytes_ // elem_bytes)


def _tiled(dims: Dims, sizes: Sequence[int], fixed: Sequence[bool], elem_bytes: int) -> Iterable[tuple[int, ...]]:
    """Boxes with runs of so many bytes on either side; none where there is but one dimension."""
    if len(dims.dims) == 1:
        return
    shortest = min(sizes[dims.src_inner], sizes[dims.dst_inner]) * elem_bytes
    runs = (*_RUN_BYTES, *_LONG_RUN_BYTES) if shortest < _SHORT_BYTES else _RUN_BYTES
    ways = tuple(combinations(runs, (0, max(1, SECTOR_BYTES // elem_bytes))))
    of_src, of_dst = (
        [(bytes_, fill_box(order, sizes, fixed, bytes_ // elem_bytes, sector)) for bytes_, sector in ways]
        for order in (range(len(sizes)), dims.order)
    )
    for (src_bytes, src), (dst_bytes, dst) in combinations(of_src, of_dst):
        box = tuple(max(a, b) for a, b in zip(src, dst, strict=True))
        is_lopsided = max(src_bytes, dst_bytes) > _LOPSIDED * min(src_bytes, dst_bytes)
        if not is_lopsided and prod(box) * elem_bytes <= MAX_TILE_BYTES:
            yield box


def _scalar(dims: Dims, sizes: Sequence[int], fixed: Sequence[bool], elem_bytes: int) -> Iterable[tuple[int, ...]]:
    """Boxes that follow one another in dst, of arrays that are small whatever the params are."""
    if all(fixed) and prod(sizes) * elem_bytes <= _MOST_SCALAR_BYTES:
        for elems in _SCALAR_ELEMS:
            yield fill_box(dims.order, sizes, fixed, elems)


def fill_box(
    order: Iterable[int], sizes: Sequence[int], fixed: Sequence[bool], elems: int, sector: int = 0
) -> tuple[int, ...]:  # fmt: skip
    """The box that holds about ``elems`` neighbours in ``order`` (slowest first): whole dimensions, then a part.

    A part is the power of two that holds at least so many. Where elements of a ``sector`` are given it is a divisor of
    the dimension, if one is near: no box is cut by an edge then. The fastest dimension is divided into whole sectors,
    unless it is none itself. A dimension of fixed size that is not larger than its part is taken whole.

    >>> fill_box((0, 1, 2), (100, 7, 3), (True, True, True), 64)
    (4, 7, 3)
    >>> fill_box((0, 1, 2), (100, 7, 3), (True, True, True), 64, sector=8)
    (4, 7, 3)
    >>> fill_box((0, 1), (75, 352), (True, True), 100, sector=8)
    (3, 88)
    """
    box = [1] * len(sizes)
    held, fastest = 1, True
    for d in reversed(list(order)):
        if held >= elems:
            break
        want = -(-elems // held)
        part = next_power(want)
        if fixed[d] and sizes[d] <= part:
            box[d] = sizes[d]
        else:
            divisor = _near_divisor(sizes[d], want, sector if fastest else 1) if sector and fixed[d] else None
            box[d] = divisor or min(part, next_power(sizes[d]))
        held *= box[d]
        fastest = False
    return tuple(box)


def _near_divisor(size: int, want: int, unit: int) -> int | None:
    """The divisor of a size that is nearest to what is wanted, by ratio; a multiple of ``unit`` if the size is one."""
    least, most = want / _PART_RATIO, want * _PART_RATIO
    found = (n for n in range(max(1, int(least)), int(most) + 1) if least <= n and size % n == 0)
    fitting = [n for n in found if n % unit == 0 or size % unit]
    return min(fitting, key=lambda n: (abs(log(n / want)), -n), default=None)


def run_elems(order: Sequence[int], box: Sequence[int], sizes: Sequence[int]) -> int:
    """Elements of the box that follow one another in memory where ``order`` (slowest first) is its order.

    >>> run_elems((0, 1, 2), (4, 7, 3), (100, 7, 3))
    84
    """
    run = 1
    for d in reversed(order):
        run *= box[d]
        if box[d] < sizes[d]:
            break
    return run


def count_ctas(box: Sequence[int], sizes: Sequence[int]) -> int:
    """CTAs of a launch."""
    return prod(-(-n // b) for n, b in zip(sizes, box, strict=True))


def next_power(n: int) -> int:
    """The least power of two that is not less.

    >>> next_power(1), next_power(5), next_power(64)
    (1, 8, 64)
    """
    return 1 << (n - 1).bit_length()
