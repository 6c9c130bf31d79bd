"""What a PaddedSharedLayout may be: arguments read as tuples, and refused with what would fit.

Every message starts with the argument that it is about, and the position in it where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from tilegen.errors import LayoutError
from tilegen.layouts.core.iters import is_symbolic, require_index, require_known

Rows = tuple[tuple[int, ...], ...]
MAX_DIMS = 8
MAX_ELEMS = 1 << 60  # padding included: addresses stay far inside a signed 64-bit integer


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
