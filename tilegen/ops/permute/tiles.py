"""What a CTA of a permute may take: candidates of variant, box and threads.

A box is one extent per dimension. ``direct`` boxes go from src to dst through registers alone, ``tiled`` ones through
shared memory: first along src's fastest dimensions, then along dst's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import prod

from tilegen.index import evaluate, variables
from tilegen.ops.permute.dims import Dims

MAX_TILE_BYTES = 48 * 1024  # what every arch gives a CTA without asking
MAX_CANDIDATES = 64
_THREADS = (128, 256, 512)
_RUN_BYTES = (64, 128, 256, 512, 1024)
_LONG_RUN_BYTES = (2048, 4096)  # beside a dimension so short that a box of 1024 bytes of the other is a small one
_SHORT_BYTES = 16
_LOPSIDED = 8  # a run is not so many times as long as the other side's, or longer
_DIRECT_BYTES = (2048, 4096, 8192, 16384)
_MOST_BYTES_PER_THREAD = 256  # 64 registers
_LEAST_BYTES_PER_THREAD = 4


@dataclass(frozen=True)
class TileChoice:
    """How one CTA works: ``variant`` (direct or tiled), its box, in src's order of dimensions, and its threads.

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


def list_candidates(dims: Dims, elem_bytes: int, defaults: dict[str, int]) -> tuple[TileChoice, ...]:
    """Every candidate, duplicates dropped, in a fixed order."""
    sizes = sizes_of(dims, defaults)
    fixed = [isinstance(d.extent, int) for d in dims.dims]
    found: dict[TileChoice, None] = {}
    for choice in (*_direct(dims, sizes, fixed, elem_bytes), *_tiled(dims, sizes, fixed, elem_bytes)):
        found.setdefault(choice)
    return tuple(found)


def _direct(dims: Dims, sizes: Sequence[int], fixed: Sequence[bool], elem_bytes: int) -> Iterable[TileChoice]:
    """Boxes that dst stores in one run after another; none where src runs along another dimension than dst."""
    if dims.src_inner != dims.dst_inner:
        return
    for bytes_, threads in combinations(_DIRECT_BYTES, _THREADS):
        box = fill_box(dims.order, sizes, fixed, bytes_ // elem_bytes)
        yield from _sized("direct", box, threads, elem_bytes)


def _tiled(dims: Dims, sizes: Sequence[int], fixed: Sequence[bool], elem_bytes: int) -> Iterable[TileChoice]:
    """Boxes with runs of so many bytes on either side; none where there is but one dimension."""
    if len(dims.dims) == 1:
        return
    shortest = min(sizes[dims.src_inner], sizes[dims.dst_inner]) * elem_bytes
    runs = (*_RUN_BYTES, *_LONG_RUN_BYTES) if shortest < _SHORT_BYTES else _RUN_BYTES
    for src_bytes, dst_bytes, threads in combinations(runs, runs, _THREADS):
        if max(src_bytes, dst_bytes) > _LOPSIDED * min(src_bytes, dst_bytes):
            continue
        src = fill_box(range(len(sizes)), sizes, fixed, src_bytes // elem_bytes)
        dst = fill_box(dims.order, sizes, fixed, dst_bytes // elem_bytes)
        box = tuple(max(a, b) for a, b in zip(src, dst, strict=True))
        if prod(box) * elem_bytes <= MAX_TILE_BYTES:
            yield from _sized("tiled", box, threads, elem_bytes)


def _sized(variant: str, box: tuple[int, ...], threads: int, elem_bytes: int) -> Iterable[TileChoice]:
    each = prod(box) * elem_bytes / threads
    is_enough = each >= _LEAST_BYTES_PER_THREAD or threads == _THREADS[0]
    if is_enough and (each <= _MOST_BYTES_PER_THREAD or threads == _THREADS[-1]):
        yield TileChoice(variant, box, threads)


def fill_box(order: Iterable[int], sizes: Sequence[int], fixed: Sequence[bool], elems: int) -> tuple[int, ...]:
    """The box that holds at least ``elems`` neighbours in ``order`` (slowest first): whole dimensions, then a part.

    A part is a power of two; a dimension of fixed size that is not larger is taken whole.

    >>> fill_box((0, 1, 2), (100, 7, 3), (True, True, True), 64)
    (4, 7, 3)
    """
    box = [1] * len(sizes)
    held = 1
    for d in reversed(list(order)):
        if held >= elems:
            break
        part = next_power(-(-elems // held))
        box[d] = sizes[d] if fixed[d] and sizes[d] <= part else min(part, next_power(sizes[d]))
        held *= box[d]
    return tuple(box)


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
