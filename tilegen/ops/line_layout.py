"""Register layouts whose threads own neighbours along one dimension, as a scan along it asks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilegen.layouts import Iter, TileLayout


def line_layouts(lengths: Sequence[int], line: int, threads: int, axis: str) -> tuple[TileLayout, ...]:
    """Layouts over a tile in which all threads take part that can, and each owns neighbours along dimension ``line``.

    Threads along the line are a power of two, the fewest first: fewer of them have less to tell each other. The others
    lie along the other dimensions, beside them or, what comes first, so that neighbour threads lie there. ``axis``
    numbers the threads, "" for one.

    >>> for layout in line_layouts((8, 256), 1, 256, "tx"): print(layout)
    S[(8, 32, 8):(1@tx, 8@tx, 1)]
    S[(8, 32, 8):(32@tx, 1@tx, 1)]
    S[(4, 2, 64, 4):(1@tx, 4, 4@tx, 1)]
    S[(4, 2, 64, 4):(64@tx, 4, 1@tx, 1)]
    S[(2, 4, 128, 2):(1@tx, 2, 2@tx, 1)]
    S[(2, 4, 128, 2):(128@tx, 2, 1@tx, 1)]
    S[(8, 256):(1, 1@tx)]
    >>> print(*line_layouts((100,), 0, 32, "laneid"))
    S[(25, 4):(1@laneid, 1)]
    """
    others = [d for d in reversed(range(len(lengths))) if d != line]
    found = dict[TileLayout, None]()
    for along in (1 << k for k in range(min(threads, lengths[line]).bit_length())):
        dealt, left = dict[int, int](), threads // along
        for d in others:
            dealt[d] = max(k for k in range(1, min(left, lengths[d]) + 1) if lengths[d] % k == 0)
            left //= dealt[d]
        own = -(-lengths[line] // along)
        dealt[line] = -(-lengths[line] // own)
        is_full = left == 1 or along * 2 > min(threads, lengths[line])
        for order in ([*others, line], [line, *others]) if is_full else ():
            found[_lay_out(lengths, line, own, dealt, order, axis)] = None
    return tuple(found)


def _lay_out(
    lengths: Sequence[int], line: int, own: int, dealt: dict[int, int], order: Sequence[int], axis: str
) -> TileLayout:  # fmt: skip
    """The layout of so many threads along each dimension, neighbour threads along the first of ``order``."""
    strides = {d: prod(dealt[e] for e in order[:k]) for k, d in enumerate(order)}
    register, made = own, dict[int, list[Iter]]()
    for d in reversed(range(len(lengths))):
        here = [Iter(dealt[d], strides[d], axis or "m")]
        if d == line:
            here.append(Iter(own, 1))
        else:
            here.append(Iter(lengths[d] // dealt[d], register))
            register *= lengths[d] // dealt[d]
        made[d] = here
    shard = tuple(i for d in range(len(lengths)) for i in made[d] if i.extent != 1)
    if axis and all(i.axis == "m" for i in shard):  # one of all owns the tile: its axis says whose it is
        shard = (Iter(1, 1, axis), *shard)
    return TileLayout(shard or (Iter(1, 1),))
