"""The bases of a PaddedSharedLayout: read as tuples, refused with what would fit, turned into iters and back.

Every refusal starts with the argument that it is about, and the position in it where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tilegen.errors import LayoutError
from tilegen.layouts.core.iters import Iter, is_symbolic, require_index, require_known
from tilegen.layouts.core.rows import drop_units, fuse_neighbours, group_iters
from tilegen.layouts.core.values import TileLayout

Rows = tuple[tuple[int, ...], ...]
Ints = np.ndarray[Any, np.dtype[np.int64]]
CTA_AXIS = "cbx"  # the rank of a CTA in its cluster, when the cluster is a row
MAX_DIMS = 8
MAX_ELEMS = 1 << 60  # padding included: addresses stay far inside a signed 64-bit integer


# ---------------------------------------------------------------- reading
def read_rows(rows: Any, what: str, row_is: str) -> Rows:
    """A list of lists of integers as tuples.

    Raises LayoutError for what is none, and for negative numbers.

    >>> read_rows([[32, 1]], "interval_padding_pairs", "an [interval, padding] pair")
    ((32, 1),)
    """
    items = _items(rows, what, f"a list, each entry {row_is}")
    return tuple(read_row(row, f"{what}[{k}]", row_is) for k, row in enumerate(items))


def read_row(row: Any, what: str, is_one: str) -> tuple[int, ...]:
    """A list of integers as a tuple.

    Raises LayoutError for what is none, and for negative numbers.

    >>> read_row([32, 1], "shape", "a list of extents")
    (32, 1)
    """
    numbers = [require_index(x, f"{what}: a number", 0) for x in _items(row, what, is_one)]
    known = tuple(require_known(x, f"{what}: a number") for x in numbers)
    if any(x > MAX_ELEMS for x in known):
        raise LayoutError(f"{what}: a number is more than 2**60")
    return known


def _items(value: Any, what: str, is_one: str) -> list[Any]:
    if isinstance(value, (str, bytes, dict)) or is_symbolic(value) or not isinstance(value, Iterable):
        raise LayoutError(f"{what} is {is_one}, not {value!r}")
    return list(value)


# ---------------------------------------------------------------- checks
def check_pairs(pairs: Rows) -> None:
    """Powers of two, one padding for each interval.

    Raises LayoutError otherwise.

    >>> check_pairs(((32, 3),))
    Traceback (most recent call last):
    tilegen.errors.LayoutError: interval_padding_pairs[0] is [32, 3]: the padding 3 is not a power of two
    """
    if not pairs:
        raise LayoutError(
            "interval_padding_pairs is empty: a padded layout has at least one [interval, padding] pair",
            hint="without padding it is S[shape:strides]",
        )
    seen: dict[int, int] = {}
    for k, pair in enumerate(pairs):
        place = f"interval_padding_pairs[{k}] is {list(pair)}"
        if len(pair) != 2:
            raise LayoutError(f"{place}, which is no [interval, padding] pair")
        for name, n in zip(("interval", "padding"), pair, strict=True):
            if not is_power_of_two(n):
                raise LayoutError(f"{place}: the {name} {n} is not a power of two", hint=_offer_powers(n))
        interval, padding = pair
        if interval in seen:
            both = padding + seen[interval]
            hint = f"one pair [{interval}, {both}] pads as both" if is_power_of_two(both) else "keep one of the pairs"
            message = f"{place}: the interval {interval} stands there already, with padding {seen[interval]}"
            raise LayoutError(message, hint=hint)
        seen[interval] = padding


def check_shape(shape: tuple[int, ...]) -> None:
    """Extents are powers of two.

    Raises LayoutError otherwise.

    >>> check_shape((6,))
    Traceback (most recent call last):
    tilegen.errors.LayoutError: shape is [6]: the extent 6 is not a power of two
    """
    if not shape:
        raise LayoutError("shape is empty: a padded layout has at least one dimension")
    if len(shape) > MAX_DIMS:
        raise LayoutError(f"shape has {len(shape)} dimensions; a padded layout has at most {MAX_DIMS}")
    for n in shape:
        if not is_power_of_two(n):
            raise LayoutError(f"shape is {list(shape)}: the extent {n} is not a power of two", hint=_offer_powers(n))
    if prod(shape) > MAX_ELEMS:
        raise LayoutError(f"shape is {list(shape)}: more than 2**60 elements")


def check_order(order: tuple[int, ...], shape: Sequence[int]) -> None:
    """Every dimension once, the fastest first.

    Raises LayoutError otherwise.

    >>> check_order((1, 1), (4, 4))
    Traceback (most recent call last):
    tilegen.errors.LayoutError: order is [1, 1]: it names each of the dimensions 0 to 1 once, the fastest first
    """
    if sorted(order) != list(range(len(shape))):
        dims = "the dimension 0" if len(shape) == 1 else f"each of the dimensions 0 to {len(shape) - 1}"
        raise LayoutError(
            f"order is {list(order)}: it names {dims} once, the fastest first",
            hint=f"rows one after the other are {list(range(len(shape)))[::-1]}",
        )


def check_bases(offset_bases: Rows, cga_layout: Rows, shape: tuple[int, ...]) -> None:
    """Together, the bases reach every element of ``shape`` once.

    Each offset basis moves one dimension by a power of two, and so does each CTA basis, in CTA tiles, or not at all
    (then its CTAs hold the same elements). Raises LayoutError otherwise; where the bases span another shape, the hint
    is that shape.

    >>> check_bases(((2,), (1,)), (), (8,))
    Traceback (most recent call last):
    tilegen.errors.LayoutError: offset_bases span 4 elements of dimension 0, but shape says 8
    """
    _check_each("offset_bases", offset_bases, len(shape))
    _check_each("cga_layout", cga_layout, len(shape))
    steps = [_steps(offset_bases, d) for d in range(len(shape))]
    tiles = [_steps(cga_layout, d) for d in range(len(shape))]
    for d in range(len(shape)):
        _check_dense("offset_bases", steps[d], d)
        _check_dense("cga_layout", tiles[d], d)
    spanned = [2 ** (len(steps[d]) + len(tiles[d])) for d in range(len(shape))]
    for d, (has, n) in enumerate(zip(spanned, shape, strict=True)):
        if has != n:
            ctas = f" in {2 ** len(tiles[d])} CTAs" if tiles[d] else ""
            message = f"offset_bases span {has} elements of dimension {d}{ctas}, but shape says {n}"
            raise LayoutError(message, hint=f"shape {spanned} would fit these bases")


def _check_each(what: str, bases: Rows, rank: int) -> None:
    first: dict[tuple[int, ...], int] = {}
    for k, basis in enumerate(bases):
        place = f"{what}[{k}] is {list(basis)}"
        if len(basis) != rank:
            dims = "1 dimension" if rank == 1 else f"{rank} dimensions"
            raise LayoutError(f"{place}: {len(basis)} numbers for a shape of {dims}")
        moved = [n for n in basis if n]
        if len(moved) > 1:
            hint = "write one basis for each dimension; an XOR of them is a swizzle: Swizzle(M, B, S) o S[...]"
            raise LayoutError(f"{place}: it moves {len(moved)} dimensions, a basis moves one", hint=hint)
        if not moved:
            if what == "cga_layout":
                continue  # CTAs that hold the same elements
            raise LayoutError(f"{place}: two offsets would hold one element", hint="leave this basis out")
        if not is_power_of_two(moved[0]):
            raise LayoutError(f"{place}: the step {moved[0]} is not a power of two", hint=_offer_powers(moved[0]))
        if basis in first:
            raise LayoutError(f"{place}, as {what}[{first[basis]}] is: two places would hold one element")
        first[basis] = k


def _steps(bases: Rows, d: int) -> list[int]:
    return sorted(basis[d] for basis in bases if basis[d])


def _check_dense(what: str, steps: list[int], d: int) -> None:
    """Steps 1, 2, 4, ... without a gap."""
    for k, step in enumerate(steps):
        if step != 1 << k:
            raise LayoutError(
                f"{what} move dimension {d} by {', '.join(map(str, steps))}: nothing moves it by {1 << k}",
                hint=f"its steps are {', '.join(str(1 << j) for j in range(len(steps)))}, in any order",
            )


def is_power_of_two(n: int) -> bool:
    """1, 2, 4, ...

    >>> is_power_of_two(32), is_power_of_two(0)
    (True, False)
    """
    return n > 0 and n & (n - 1) == 0


def _offer_powers(n: int) -> str:
    if n < 1:
        return "1 is the least"
    below = 1 << (n.bit_length() - 1)
    return f"{below} and {2 * below} are"


# ---------------------------------------------------------------- tiles of one CTA
def tile_shape(shape: Sequence[int], cga_layout: Rows) -> tuple[int, ...]:
    """The extents that one CTA keeps; what does not divide is left for ``check_bases`` to refuse.

    >>> tile_shape((8, 8), ((1, 0),))
    (4, 8)
    """
    if any(len(basis) != len(shape) for basis in cga_layout):
        return tuple(shape)
    ctas = [1 << sum(1 for basis in cga_layout if basis[d]) for d in range(len(shape))]
    return tuple(n // c if n % c == 0 else n for n, c in zip(shape, ctas, strict=True))


def identity_bases(block_shape: Sequence[int], order: Sequence[int]) -> Rows:
    """The offset bases of a CTA's tile whose dimension order[0] is the fastest.

    >>> identity_bases((2, 4), (1, 0))
    ((0, 1), (0, 2), (1, 0))
    """
    rank = len(block_shape)
    return tuple(
        tuple(1 << bit if e == d else 0 for e in range(rank))
        for d in order for bit in range(block_shape[d].bit_length() - 1)
    )  # fmt: skip


def identity_order(offset_bases: Rows, block_shape: Sequence[int]) -> tuple[int, ...] | None:
    """The order that gives these bases, dimensions of extent 1 last; None when they are no identity.

    >>> identity_order(((0, 1), (0, 2), (1, 0)), (2, 4)), identity_order(((2,), (1,)), (4,))
    ((1, 0), None)
    """
    moved = [next(d for d, step in enumerate(basis) if step) for basis in offset_bases]
    order = tuple(dict.fromkeys([*moved, *range(len(block_shape))[::-1]]))
    return order if identity_bases(block_shape, order) == offset_bases else None


def held_by(block: int, offset_bases: Rows, cga_layout: Rows, shape: tuple[int, ...]) -> Ints:
    """The row-major logical index at every offset of a CTA, padding left out: the sum of the bases of its bits.

    >>> held_by(0, ((2,), (1,)), (), (4,)).tolist()
    [0, 2, 1, 3]
    """
    block_shape = tile_shape(shape, cga_layout)
    strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
    start = sum(
        step * block_shape[d] * strides[d]
        for k, basis in enumerate(cga_layout) if block >> k & 1
        for d, step in enumerate(basis)
    )  # fmt: skip
    held = np.full(1, start, np.int64)
    for basis in offset_bases:
        held = np.concatenate([held, held + sum(step * s for step, s in zip(basis, strides, strict=True))])
    return held


# ---------------------------------------------------------------- bases as iters, and back
@lru_cache(maxsize=1024)
def tile_of_bases(offset_bases: Rows, cga_layout: Rows, shape: tuple[int, ...]) -> TileLayout:
    """Offset and CTA of a coordinate, one iter for each run of bits.

    >>> print(tile_of_bases(((0, 1), (0, 2), (1, 0)), (), (2, 4)))
    S[(2, 4):(4, 1)]
    """
    shard: list[Iter] = []
    for d in range(len(shape)):
        bits = {basis[d]: 1 << k for k, basis in enumerate(offset_bases) if basis[d]}
        ctas = {basis[d]: 1 << k for k, basis in enumerate(cga_layout) if basis[d]}
        row = [Iter(2, ctas[step], CTA_AXIS) for step in sorted(ctas, reverse=True)]
        row += [Iter(2, bits[step]) for step in sorted(bits, reverse=True)]
        shard += fuse_neighbours(tuple(row)) or (Iter(1, 1),)
    if all(i.axis != "m" for i in shard):
        shard.append(Iter(1, 1))
    copies = (Iter(2, 1 << k, CTA_AXIS) for k, basis in reversed(list(enumerate(cga_layout))) if not any(basis))
    return TileLayout(tuple(shard), fuse_neighbours(tuple(copies)))


def bases_of_tile(tile: TileLayout, extents: tuple[int, ...], cga_bits: int) -> tuple[Rows, Rows]:
    """(offset bases, CTA bases) of a tile: each bit of a dimension is the basis of the bit of a place that it moves.

    Raises LayoutError where no bases describe the tile over these extents.

    >>> bases_of_tile(TileLayout((Iter(2, 4), Iter(4, 1))), (2, 4), 0)
    (((0, 1), (0, 2), (1, 0)), ())
    """
    if tile.offset:
        raise _no_bases(tile, "it does not start at offset 0")
    found: dict[tuple[str, int], tuple[int, int]] = {}  # (axis, bit) -> (dimension, step)
    for d, row in enumerate(group_iters(tile.shard, extents)):
        step = 1
        for i in reversed(drop_units(row)):
            extent, stride = require_known(i.extent, "an extent"), require_known(i.stride, "a stride")
            if not (is_power_of_two(extent) and is_power_of_two(stride)):
                raise _no_bases(tile, "not every extent and stride is a power of two")
            for k in range(extent.bit_length() - 1):
                if (key := (i.axis, stride.bit_length() - 1 + k)) in found:
                    raise _no_bases(tile, "two elements would lie in one place")
                found[key] = (d, step)
                step *= 2
    offset_bits = sum(axis == "m" for axis, _ in found)
    if any(("m", k) not in found for k in range(offset_bits)):
        raise _no_bases(tile, "it steps over elements that are not its own")
    inside = [1] * len(extents)  # extents of one CTA's tile
    for (axis, _), (d, _) in found.items():
        inside[d] *= 2 if axis == "m" else 1
    bases = tuple(_basis(len(extents), *found["m", k]) for k in range(offset_bits))
    return bases, _bases_of_ctas(tile, found, inside, cga_bits)


def _bases_of_ctas(
    tile: TileLayout, found: dict[tuple[str, int], tuple[int, int]], inside: list[int], count: int
) -> Rows:
    if any(axis not in ("m", CTA_AXIS) or (axis == CTA_AXIS and k >= count) for axis, k in found):
        raise _no_bases(tile, "it maps to other axes")
    ctas = []
    for k in range(count):
        d, step = found.get((CTA_AXIS, k), (0, 0))  # no step: these CTAs hold the same elements
        if step % inside[d]:
            raise _no_bases(tile, "the elements of a CTA are no tile")
        ctas.append(_basis(len(inside), d, step // inside[d]))
    return tuple(ctas)


def _basis(rank: int, d: int, step: int) -> tuple[int, ...]:
    return tuple(step if e == d else 0 for e in range(rank))


def _no_bases(tile: TileLayout, why: str) -> LayoutError:
    return LayoutError(f"no PaddedSharedLayout has the linear part {tile}: {why}")
