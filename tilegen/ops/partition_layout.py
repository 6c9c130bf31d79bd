"""Register layouts from the partition of a copy: vectors that lie together in memory, dealt out to neighbour threads.

Copies of memories walk a tile so without naming a layout; here the partition is one, to be held in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import Literal

from tilegen.index import Var
from tilegen.layouts import Iter, TileLayout
from tilegen.scopes import threads_of

VECTOR_BYTES = 16  # the widest access of one thread
SECTOR_BYTES = 32
_LANES = 32

Sharing = Literal["evenly", "row by row", "unevenly", "in powers of two"]
SHARINGS: tuple[Sharing, ...] = ("evenly", "row by row", "unevenly", "in powers of two")


def lane_axis(scope: str, role_threads: int) -> tuple[str, int]:
    """The axis that numbers the threads of an instance of a scope ("" for one thread), and how many they are.

    >>> lane_axis("warp", 256), lane_axis("cta", 256), lane_axis("thread", 256)
    (('laneid', 32), ('tx', 256), ('', 1))
    """
    number, count = threads_of(scope, role_threads)
    return (number.name if isinstance(number, Var) else ""), count


@dataclass(frozen=True)
class MemoryTile:
    """A tile of a memory: its extents, the bytes of an element, and the dimensions from the slowest to the fastest.

    Without ``order`` it is row-major. Raises ValueError for extents or bytes below 1, and for an order that does not
    name each dimension once.

    >>> MemoryTile((64, 12), 4).fastest, MemoryTile((64, 12), 4, (1, 0)).fastest
    ((1, 0), (0, 1))
    """

    lengths: Sequence[int]
    elem_bytes: int
    order: Sequence[int] = ()

    def __post_init__(self) -> None:
        if min((*self.lengths, self.elem_bytes)) < 1:
            raise ValueError(f"lengths and bytes are at least 1: {self.lengths}, {self.elem_bytes}")
        if sorted(self.fastest) != list(range(len(self.lengths))):
            raise ValueError(f"an order names each of {len(self.lengths)} dimensions once, not {tuple(self.order)}")

    @property
    def fastest(self) -> tuple[int, ...]:
        """The dimensions, the fastest first."""
        return (tuple(self.order) or tuple(range(len(self.lengths))))[::-1]


def partition_layout(
    tile: MemoryTile, threads: int, axis: str, width_elems: int = 0, sharing: Sharing = "evenly", beside: int = 0
) -> TileLayout:
    """The layout over a tile that gives each of ``threads`` threads, numbered by ``axis``, whole vectors.

    A vector has at most ``width_elems`` elements (16 bytes of them if 0), a power of two, along the dimension that is
    fastest in memory; neighbour threads hold neighbour vectors of it, then of the next dimension. What is left is
    walked in registers: axis m counts the elements of a vector, then a thread's vectors.

    Of extents that are no powers of two as many threads are taken as divide them, so that the threads of one access
    fill whole 32-byte sectors if they can; threads beyond these own nothing. Threads that go ``row by row`` lie along
    the fastest dimension as far as they can, if fewer then take part. Threads that share ``unevenly`` are powers of
    two, all of them, or as many as an extent, where each then has fewer vectors: the last step of a dimension passes
    its end, and the threads there idle. Threads ``in powers of two`` are always that, as an exchange of lanes needs. Of
    each warp at most ``beside`` threads lie along the fastest dimension, if it is not 0, and the others along the next.
    ``axis`` is "" for one thread.

    >>> print(partition_layout(MemoryTile((1, 4096), 2), 512, "tx"))
    S[(512, 8):(1@tx, 1)]
    >>> odd = MemoryTile((1, 257), 4)
    >>> print(partition_layout(odd, 128, "tx"), partition_layout(odd, 128, "tx", sharing="unevenly"))
    S[(1, 257):(1@tx, 1)] S[(3, 128):(1, 1@tx)]
    >>> print(partition_layout(MemoryTile((64, 64), 4), 32, "laneid"))
    S[(32, 2, 16, 4):(4, 16@laneid, 1@laneid, 1)]
    >>> print(partition_layout(MemoryTile((64, 64), 4, order=(1, 0)), 32, "laneid"))
    S[(16, 4, 32, 2):(1@laneid, 1, 4, 16@laneid)]

    Raises ValueError for threads or widths below 1, a width that is no power of two, and more than one thread without
    an axis.
    """
    width_elems = width_elems or max(1, VECTOR_BYTES // tile.elem_bytes)
    _check(threads, axis, width_elems)
    extents = [tile.lengths[d] for d in tile.fastest]
    vector = _split_vector(extents, width_elems)
    left = [n // k for n, k in zip(extents, vector, strict=True)]
    lanes = _deal_lanes(left, min(_LANES, threads), beside) if beside else (1,) * len(left)
    return _share_out(tile, (threads, axis), vector, lanes, sharing)


def box_layout(
    tile: MemoryTile, threads: int, axis: str, box: Mapping[int, int], lanes: Mapping[int, int]
) -> TileLayout:
    """The layout over a tile that gives each thread whole boxes, wide along several dimensions at once.

    ``box`` and ``lanes``: by dimension, the elements of a box and the threads of a warp side by side, which divide its
    length; 1 along others. Registers and threads count the fastest dimension first.

    >>> print(box_layout(MemoryTile((64, 64), 4), 32, "tx", {0: 4, 1: 4}, {0: 4, 1: 8}))
    S[(4, 4, 4, 2, 8, 4):(32, 8@tx, 4, 16, 1@tx, 1)]

    Raises ValueError for threads below 1, more lanes than threads, what does not divide a length, and more than one
    thread without an axis.
    """
    _check(threads, axis, 1)
    vector, beside = ([found.get(d, 1) for d in tile.fastest] for found in (box, lanes))
    whole = [n * k for n, k in zip(vector, beside, strict=True)]
    if prod(beside) > threads or any(tile.lengths[d] % n for d, n in zip(tile.fastest, whole, strict=True)):
        raise ValueError(f"{threads} threads do not share {tuple(tile.lengths)}: boxes of {box}, {lanes} side by side")
    return _share_out(tile, (threads, axis), vector, beside, "evenly")


def _share_out(
    tile: MemoryTile, threads: tuple[int, str], vector: Sequence[int], lanes: Sequence[int], sharing: Sharing
) -> TileLayout:
    """The layout where ``lanes`` of a warp lie side by side, and the other threads along what is left.

    ``threads``: how many there are, and the axis that numbers them. Vectors and lanes are by dimension, fastest first.
    """
    count, axis = threads
    over = tuple(tile.lengths[d] // (n * k) for d, n, k in zip(tile.fastest, vector, lanes, strict=True))
    dealt = _deal(over, count // prod(lanes), prod(vector) * tile.elem_bytes, sharing)
    steps = [-(-n // k) for n, k in zip(over, dealt, strict=True)]
    shard = _lay_out(tile.fastest, (vector, steps), (lanes, dealt), axis or "m")
    if axis and prod(lanes) * prod(dealt) == 1:  # one of all owns the tile: its axis says whose it is
        shard = (Iter(1, 1, axis), *shard)
    return TileLayout(shard or (Iter(1, 1),))


def _lay_out(
    fastest: Sequence[int], registers: Sequence[Sequence[int]], threads: Sequence[Sequence[int]], axis: str
) -> tuple[Iter, ...]:
    """The iters of each dimension: elements of a vector innermost, then threads, then steps of a thread.

    ``registers``: the elements of a vector and the steps, ``threads``: those of a warp and all others, each along the
    dimensions in the order of ``fastest``.
    """
    made: dict[int, list[Iter]] = {d: [] for d in sorted(fastest)}
    (vector, steps), thread, register = registers, 1, 1
    for d, n in zip(fastest, vector, strict=True):
        made[d].insert(0, Iter(n, register))
        register *= n
    for counts in threads:
        for d, n in zip(fastest, counts, strict=True):
            made[d].insert(0, Iter(n, thread, axis))
            thread *= n
    for d, n in zip(fastest, steps, strict=True):
        made[d].insert(0, Iter(n, register))
        register *= n
    return tuple(i for iters in made.values() for i in iters if i.extent != 1)


def vector_elems(tile: MemoryTile, width_elems: int) -> int:
    """The elements that ``partition_layout`` gives a thread at once, of at most ``width_elems``.

    >>> vector_elems(MemoryTile((6, 4), 4), 16), vector_elems(MemoryTile((64, 12), 4), 16)
    (8, 4)
    """
    return prod(_split_vector([tile.lengths[d] for d in tile.fastest], width_elems))


def _check(threads: int, axis: str, width_elems: int) -> None:
    if min(threads, width_elems) < 1:
        raise ValueError(f"threads and widths are at least 1: {threads}, {width_elems}")
    if width_elems & (width_elems - 1):
        raise ValueError(f"a vector has 1, 2, 4, ... elements, not {width_elems}")
    if threads > 1 and not axis:
        raise ValueError(f"{threads} threads need an axis that numbers them")


def _split_vector(lengths: Sequence[int], width: int) -> list[int]:
    """How much of each dimension, fastest first, one vector takes: a dimension follows one that is taken whole."""
    taken: list[int] = []
    for n in lengths:
        taken.append(gcd(n, width))
        width = width // taken[-1] if taken[-1] == n else 1
    return taken


@lru_cache(maxsize=4096)
def _deal(left: tuple[int, ...], threads: int, vector_bytes: int, sharing: Sharing) -> tuple[int, ...]:
    """How many threads lie along each dimension, fastest first.

    Best are those whose neighbours fill a sector (or the whole dimension), then the most, then the longest runs. Of
    those that share unevenly, such whose neighbours fill a sector, then those with the fewest vectors each.
    """

    def rank(dealt: tuple[int, ...]) -> tuple[object, ...]:
        run = _run(left, dealt) * vector_bytes
        is_whole = run % SECTOR_BYTES == 0 or run == prod(left) * vector_bytes
        return is_whole, prod(dealt), dealt

    def steps(dealt: tuple[int, ...]) -> int:
        return prod(-(-n // d) for n, d in zip(left, dealt, strict=True))

    if sharing == "evenly":
        return max(_lay_threads(left, threads, _divisors), key=rank)
    even = _deal(left, threads, vector_bytes, "evenly")
    are_powers = all(n & (n - 1) == 0 for n in (*left, threads))
    if are_powers and sharing != "row by row":
        return even
    if sharing == "row by row":
        return max(_lay_threads(left, threads, _divisors), key=lambda d: (rank(d)[0], d))
    counts = _powers if sharing == "in powers of two" else _powers_and_all
    uneven = max(_lay_threads(left, threads, counts), key=lambda d: (rank(d)[0], -steps(d), d))
    return even if sharing == "unevenly" and steps(uneven) >= steps(even) else uneven


def _deal_lanes(left: Sequence[int], lanes: int, beside: int) -> tuple[int, ...]:
    """How many threads of a warp lie along each dimension: at most ``beside`` along the first, then as many as can."""
    dealt: list[int] = []
    for n in left:
        most = min(lanes, lanes if any(k > 1 for k in dealt) else beside)
        dealt.append(max(k for k in range(1, most + 1) if n % k == 0 and lanes % k == 0))
        lanes //= dealt[-1]
    return tuple(dealt)


def _run(left: Sequence[int], dealt: Sequence[int]) -> int:
    """Vectors that follow each other in one access: those of a dimension, and of the next if all of it is dealt out."""
    run = 1
    for n, d in zip(left, dealt, strict=True):
        run *= d
        if d != n:
            break
    return run


def _lay_threads(
    left: Sequence[int], threads: int, counts: Callable[[int, int], Sequence[int]]
) -> Iterator[tuple[int, ...]]:
    """Every way to lay up to ``threads`` threads along the dimensions, of so many each as ``counts`` says."""
    if not left:
        yield ()
        return
    for n in counts(left[0], threads):
        for rest in _lay_threads(left[1:], threads // n, counts):
            yield (n, *rest)


def _divisors(extent: int, most: int) -> Sequence[int]:
    return [n for n in range(1, min(extent, most) + 1) if extent % n == 0]


def _powers(extent: int, most: int) -> Sequence[int]:
    return [1 << k for k in range(min(extent, most).bit_length())]


def _powers_and_all(extent: int, most: int) -> Sequence[int]:
    """Powers of two, and all threads that are left, below the extent; and all of it."""
    below = {1 << k for k in range(min(extent - 1, most).bit_length())} | ({most} if most < extent else set())
    return sorted(below | ({extent} if extent <= most else set()))
