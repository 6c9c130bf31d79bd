"""The ways that a CTA's elements go in a permute, in or out: how many groups threads share out, and their accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

from tilegen.index import multiple
from tilegen.ops.permute.dims import Dims
from tilegen.ops.permute.tiles import LANES

_WORD_BYTES = 4
_LEAST_THREADS, _MOST_THREADS = 96, 640  # of CTAs whose last warp has idle lanes, at most so many that ..
_FULL = 0.94  # .. of all lanes work
_EVEN = 2  # numbers of threads that are looked at
_VECTOR_INSTRUCTIONS = 40  # more of a vector of a ragged row: words, byte permutes, guards (PTX of nvcc 13.0, sm_90a)
_END_INSTRUCTIONS = 9  # more of an element at the end of such a row


@dataclass(frozen=True)
class Way:
    """One way of a CTA's elements: all of it (direct), into shared memory, or out of it.

    Its threads share out ``groups``: accesses, or register tiles. Each takes so many accesses of global and of shared
    memory. ``extents``: of the box in groups, the fastest dimension first; ``cut``: whether an edge of the arrays cuts
    boxes there. ``more``: instructions beside those that accesses take.
    """

    groups: int
    accesses: float
    shared_accesses: float
    extents: tuple[int, ...]
    cut: tuple[bool, ...]
    more: float = 0.0


@dataclass(frozen=True)
class Walk:
    """How a side of a box is walked: its dimensions from the slowest, the innermost, elements of it in an access."""

    order: tuple[int, ...]
    inner: int
    width: int


def walk_box(
    walk: Walk, box: tuple[int, ...], cut: Sequence[bool], group: Mapping[int, int] | None = None
) -> tuple[tuple[int, ...], tuple[bool, ...]]:  # fmt: skip
    """How many groups lie along each dimension, accesses without ``group``, and which dimensions an edge cuts."""
    return _extents(box, walk.order, group or {walk.inner: walk.width}), tuple(cut[d] for d in reversed(walk.order))


def list_tiled_ways(
    turning: Walk, other: Walk, box: tuple[int, ...], at_once: int, cut: Sequence[bool]
) -> tuple[Way, ...]:  # fmt: skip
    """The way on which elements turn over, and the other."""
    elems = prod(box)
    has_tiles = turning.inner != other.inner and min(turning.width, other.width) > 1
    group = {turning.inner: turning.width, other.inner: other.width} if has_tiles else {turning.inner: at_once}
    turned = walk_box(turning, box, cut, group)
    tiles = Way(-(-elems // at_once), at_once / turning.width, at_once / other.width, *turned)
    return tiles, Way(-(-elems // other.width), 1, 1, *walk_box(other, box, cut))


def find_ragged_vectors(dims: Dims, sizes: Sequence[int], box: Sequence[int], elem_bytes: int) -> int:
    """Elements of the vectors in which rows of dst are stored that begin at any element (copy's ``row_vectors``); 0
    where they are not: where rows begin at words, are short, or begin elsewhere in each CTA.
    """
    most, inner = 16 // elem_bytes, dims.dst_inner
    if elem_bytes >= _WORD_BYTES or dims.src_inner == inner or box[inner] < 2 * most:
        return 0
    strides = [multiple(d.strides[1]) for d in dims.dims]
    is_ragged = any(box[k] > 1 and s * elem_bytes % _WORD_BYTES for k, s in enumerate(strides) if k != inner)
    steps = [s * b for s, b, n in zip(strides, box, sizes, strict=True) if b < n]
    return most if is_ragged and all(step % most == 0 for step in steps) else 0


def list_ragged_ways(
    dims: Dims, box: tuple[int, ...], cut: Sequence[bool], width: int, vectors: int
) -> tuple[Way, ...]:  # fmt: skip
    """Register tiles on the way in, loaded ``width`` elements at a time; then the vectors of the box's rows, and their
    ends, as many elements of a row as a vector has.
    """
    length, elems = box[dims.dst_inner], prod(box)
    rows = elems // length
    group = {dims.src_inner: width, dims.dst_inner: vectors}
    way_in = walk_box(Walk(tuple(range(len(box))), dims.src_inner, width), box, cut, group)
    way_out = walk_box(Walk(dims.order, dims.dst_inner, vectors), box, cut)
    way_ends = walk_box(Walk(dims.order, dims.dst_inner, max(1, length // vectors)), box, cut)
    return (
        Way(-(-elems // (width * vectors)), vectors, width, *way_in),
        Way(rows * (length // vectors), 1, 0, *way_out, _VECTOR_INSTRUCTIONS),
        Way(rows * vectors, 1, 1, *way_ends, _END_INSTRUCTIONS),
    )


def _extents(box: Sequence[int], order: Sequence[int], group: Mapping[int, int]) -> tuple[int, ...]:
    """A box in groups of so many elements of some of its dimensions, the fastest in ``order`` first."""
    return tuple(max(1, -(-box[d] // group.get(d, 1))) for d in reversed(order))


def list_even_threads(ways: Sequence[Way], box_bytes: int) -> tuple[int, ...]:
    """The most threads for which every trip of every way is a constant step from the one before, if that takes a last
    warp with idle lanes: a product of the fastest extents. Then addresses are made once for all trips.

    >>> list_even_threads((Way(8880, 2, 0, (37, 30, 8), (False, False, True)),), 8880)
    (555, 370)
    """
    found = (
        threads for threads in range(_MOST_THREADS, _LEAST_THREADS, -1)
        if threads % LANES and threads / (-(-threads // LANES) * LANES) >= _FULL and box_bytes >= 4 * threads
        and all(way.groups > threads and count_uneven(way.extents, threads) == 0 for way in ways)
    )  # fmt: skip
    return tuple(islice(found, _EVEN))


def count_uneven(extents: Sequence[int], threads: int) -> int:
    """Dimensions in which a thread's next group is not a constant step from the one before.

    >>> count_uneven((16, 8), 128), count_uneven((12, 16), 128)
    (0, 2)
    """
    left = threads
    for k, extent in enumerate(extents):
        if left % extent:
            return 0 if extent % left == 0 else sum(1 for n in extents[k:] if n > 1)
        left //= extent
    return 0


def count_guarded(extents: Sequence[int], cut: Sequence[bool], threads: int) -> int:
    """Cut dimensions in which a group's place comes from its thread and its trip: each access has a guard of its own.

    >>> count_guarded((96, 64), (False, True), 96), count_guarded((96, 64), (False, True), 192)
    (0, 1)
    """
    left, is_even, found = threads, True, 0
    for extent, is_cut in zip(extents, cut, strict=True):
        is_even = is_even and (left % extent == 0 or extent % left == 0)
        found += is_cut and extent > 1 and (not is_even or 1 < left < extent)
        left = max(1, left // extent)
    return found
