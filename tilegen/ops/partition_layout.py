"""Register layouts from the partition of a copy: vectors that lie together in memory, dealt out to neighbour threads.

Copies of memories walk a tile so without naming a layout; here the partition is one, to be held in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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


def partition_layout(
    lengths: Sequence[int],
    elem_bytes: int,
    threads: int,
    axis: str,
    width_elems: int = 0,
    order: Sequence[int] = (),
    sharing: Sharing = "evenly",
    beside: int = 0,
) -> TileLayout:
    """The layout over ``lengths`` that gives each of ``threads`` threads, numbered by ``axis``, whole vectors.

    A vector has at most ``width_elems`` elements (16 bytes of the memory's ``elem_bytes`` if 0), a power of two, along
    the dimension that is fastest in memory; neighbour threads hold neighbour vectors of it, then of the next dimension.
    What is left is walked in registers: axis m counts the elements of a vector, then a thread's vectors. ``order`` are
    the dimensions from the slowest in memory to the fastest, row-major if empty.

    Of extents that are no powers of two as many threads are taken as divide them, so that the threads of one access
    fill whole 32-byte sectors if they can; threads beyond these own nothing. Threads that go ``row by row`` lie along
    the fastest dimension as far as they can, if fewer then take part. Threads that share ``unevenly`` are powers of
    two, all of them, or as many as an extent, where each then has fewer vectors: the last step of a dimension passes
    its end, and the threads there idle. Threads ``in powers of two`` are always that, as an exchange of lanes needs. Of
    each warp at most ``beside`` threads lie along the fastest dimension, if it is not 0, and the others along the next.
    ``axis`` is "" for one thread.

    >>> print(partition_layout((1, 4096), 2, 512, "tx"))
    S[(512, 8):(1@tx, 1)]
    >>> print(partition_layout((1, 257), 4, 128, "tx"), partition_layout((1, 257), 4, 128, "tx", sharing="unevenly"))
    S[(1, 257):(1@tx, 1)] S[(3, 128):(1, 1@tx)]
    >>> print(partition_layout((64, 64), 4, 32, "laneid"))
    S[(32, 2, 16, 4):(4, 16@laneid, 1@laneid, 1)]
    >>> print(partition_layout((64, 64), 4, 32, "laneid", order=(1, 0)))
    S[(16, 4, 32, 2):(1@laneid, 1, 4, 16@laneid)]

    Raises ValueError for lengths, threads or widths below 1, a width that is no power of two, more than one thread
    without an axis, and an order that does not name each dimension once.
    """
    width_elems = width_elems or max(1, VECTOR_BYTES // elem_bytes)
    order = tuple(order) or tuple(range(len(lengths)))
    _check(lengths, elem_bytes, threads, axis, width_elems, order)
    fastest = order[::-1]
    vector = _split_vector([lengths[d] for d in fastest], width_elems)
    left = [lengths[d] // n for d, n in zip(fastest, vector, strict=True)]
    vector_bytes = prod(vector) * elem_bytes
    lanes = _deal_lanes(left, min(_LANES, threads), beside) if beside else (1,) * len(left)
    over = tuple(n // k for n, k in zip(left, lanes, strict=True))
    dealt = _deal(over, threads // prod(lanes), vector_bytes, sharing)
    made: dict[int, list[Iter]] = {d: [] for d in range(len(lengths))}
    thread, register = 1, 1
    for d, n in zip(fastest, vector, strict=True):
        made[d].insert(0, Iter(n, register))
        register *= n
    for d, n in (*zip(fastest, lanes, strict=True), *zip(fastest, dealt, strict=True)):
        made[d].insert(0, Iter(n, thread, axis or "m"))
        thread *= n
    for d, n, rest in zip(fastest, dealt, over, strict=True):
        made[d].insert(0, Iter(-(-rest // n), register))
        register *= -(-rest // n)
    shard = tuple(i for d in range(len(lengths)) for i in made[d] if i.extent != 1)
    if axis and thread == 1:  # one thread of all owns the tile: its axis is named, so that it is known whose it is
        shard = (Iter(1, 1, axis), *shard)
    return TileLayout(shard or (Iter(1, 1),))


def vector_elems(lengths: Sequence[int], width_elems: int, order: Sequence[int] = ()) -> int:
    """The elements that ``partition_layout`` gives a thread at once, of at most ``width_elems``.

    >>> vector_elems((6, 4), 16), vector_elems((64, 12), 16)
    (8, 4)
    """
    fastest = (tuple(order) or tuple(range(len(lengths))))[::-1]
    return prod(_split_vector([lengths[d] for d in fastest], width_elems))


def _check(
    lengths: Sequence[int], elem_bytes: int, threads: int, axis: str, width_elems: int, order: Sequence[int]
) -> None:
    if min((*lengths, elem_bytes, threads, width_elems)) < 1:
        raise ValueError(f"lengths, bytes, threads and widths are at least 1: {lengths}, {threads}, {width_elems}")
    if width_elems & (width_elems - 1):
        raise ValueError(f"a vector has 1, 2, 4, ... elements, not {width_elems}")
    if threads > 1 and not axis:
        raise ValueError(f"{threads} threads need an axis that numbers them")
    if sorted(order) != list(range(len(lengths))):
        raise ValueError(f"an order names each of {len(lengths)} dimensions once, not {tuple(order)}")


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
