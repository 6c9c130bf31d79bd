"""The orders in which the elements of a dense tile may follow each other: rows, other orders of its dimensions, panels.

Leading dimensions that every region indexes are stages: they stay outermost. Panels cut the innermost dimension into
parts as long as the rows of a descriptor's swizzle, one such block of the tile behind the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, takewhile
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilegen.layouts.constructors.shared_memory import SWIZZLES

PANEL_BYTES = tuple(sorted(size for size in SWIZZLES if size))  # 16 (rows of core matrices), 32, 64, 128
MOST_PERMUTED = 3  # dimensions of which every order is tried; of more, each once innermost, and the orders of views


@dataclass(frozen=True)
class Form:
    """An order of the elements of a dense tile of ``shape``: ``axes`` are its dimensions, outermost first.

    ``panel``: the elements of the innermost dimension that one panel has, 0 for none; panels lie behind the ``stages``
    first of the axes, before the others.

    >>> Form((3, 64, 128), (0, 1, 2), 64, 1).extents, Form((3, 64, 128), (0, 2, 1)).extents
    ((3, 2, 64, 64), (3, 128, 64))
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    panel: int = 0
    stages: int = 0

    @property
    def is_rows(self) -> bool:
        return not self.panel and self.axes == tuple(range(len(self.shape)))

    @cached_property
    def digits(self) -> tuple[tuple[int, int], ...]:
        """The digits of an element's number, outermost first, as (dimension, extent)."""
        whole = [(d, self.shape[d]) for d in self.axes]
        if not self.panel:
            return tuple(whole)
        last, extent = whole.pop()
        whole.insert(self.stages, (last, extent // self.panel))
        return (*whole, (last, self.panel))

    @cached_property
    def extents(self) -> tuple[int, ...]:
        return tuple(n for _, n in self.digits)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The digits as the dimensions of the shape have them: which of them stands where.

        >>> Form((64, 128), (0, 1), 64).places
        (1, 0, 2)
        """
        return tuple(sorted(range(len(self.digits)), key=lambda k: (self.digits[k][0], k)))

    @property
    def elems(self) -> int:
        return prod(self.shape)

    def numbers_in(self, other: Form) -> NDArray[np.int64]:
        """The number in another form of each element of this one, shape (elems,).

        >>> Form((2, 3), (0, 1)).numbers_in(Form((2, 3), (1, 0))).tolist()
        [0, 2, 4, 1, 3, 5]
        """
        found = np.empty(self.elems, np.int64)
        found[self._numbers] = other._numbers
        return found

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """The number of each element, elements in the order of rows."""
        by_digits = np.arange(self.elems).reshape(self.extents)
        return by_digits.transpose(self.places).reshape(-1)

    @property
    def rows(self) -> int:
        """Rows of a panel."""
        return prod(self.extents[self.stages + 1 : -1])


def rows_form(shape: Sequence[int]) -> Form:
    return Form(tuple(shape), tuple(range(len(shape))))


def list_forms(
    shape: Sequence[int], elem_bytes: int, stages: int = 0, seen: Iterable[tuple[int, ...]] = ()
) -> tuple[Form, ...]:  # fmt: skip
    """Every form of a tile, rows first, then the orders, then the panels of each order, the widest first.

    ``seen``: orders of the dimensions in which views of the tile have them.

    >>> [(f.axes, f.panel) for f in list_forms((3, 64, 32), 2, 1)]
    [((0, 1, 2), 0), ((0, 2, 1), 0), ((0, 1, 2), 16), ((0, 1, 2), 8), ((0, 2, 1), 32), ((0, 2, 1), 16), ((0, 2, 1), 8)]
    """
    orders = [Form(tuple(shape), axes, 0, stages) for axes in _list_orders(shape, stages, seen)]
    panels = [
        Form(f.shape, f.axes, size // elem_bytes, stages)
        for f in orders for size in reversed(PANEL_BYTES) if _has_panels(f, size // elem_bytes)
    ]  # fmt: skip
    return (rows_form(shape), *orders[1:], *panels)


def _list_orders(shape: Sequence[int], stages: int, seen: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Rows first. Dimensions of one element stay before the others: where they are makes no difference."""
    rest = [d for d in range(stages, len(shape))]
    fixed = (*range(stages), *(d for d in rest if shape[d] == 1))
    moved = [d for d in rest if shape[d] != 1]
    if len(moved) <= MOST_PERMUTED:
        return [(*fixed, *order) for order in permutations(moved)]
    innermost = [(*fixed, *(d for d in moved if d != last), last) for last in reversed(moved)]
    viewed = [(*fixed, *(d for d in axes if d in moved)) for axes in seen]
    return list(dict.fromkeys([*innermost, *viewed]))


def _has_panels(f: Form, elems: int) -> bool:
    """Whether the innermost dimension has several panels of so many elements, and there are rows for them."""
    extent = f.shape[f.axes[-1]] if f.axes else 1
    rows = prod(f.shape[d] for d in f.axes[f.stages : -1])
    return elems > 1 and len(f.axes) > f.stages and rows > 1 and extent > elems and extent % elems == 0


def count_stages(rank: int, indexed: Iterable[Collection[int]]) -> int:
    """The leading dimensions of a buffer that each of its regions indexes, given the dimensions that each does.

    >>> count_stages(3, [{0}, {0, 2}]), count_stages(2, [{0}, set()])
    (1, 0)
    """
    everywhere = set(range(rank)).intersection(*indexed)
    return len(list(takewhile(everywhere.__contains__, range(rank))))
