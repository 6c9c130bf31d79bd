"""Iters, a strided walk over one axis each, and what can be done with a row of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import Index, Op, Var, add, div, mod, mul, multiple, sub, terms
from tilegen.layouts.core.axes import require_axis


@dataclass(frozen=True)
class Iter:
    """``extent`` positions on ``axis``, ``stride`` apart: component c adds c * stride.

    ``extent`` and ``stride`` are ints, or Index for what is known at run time only. ``stride`` counts elements on a
    memory axis and lanes, warps, ... on a thread axis. Raises LayoutError for extents < 1 and negative strides.

    >>> print(Iter(8, 4, "laneid"))
    8:4@laneid
    """

    extent: Index
    stride: Index
    axis: str = "m"

    def __post_init__(self) -> None:
        require_axis(self.axis)
        object.__setattr__(self, "extent", require_index(self.extent, "an extent", 1))
        object.__setattr__(self, "stride", require_index(self.stride, "a stride", 0))

    def __str__(self) -> str:
        return f"{spell(self.extent)}:{spell_at(self.stride, self.axis)}"


Iters = tuple[Iter, ...]


def is_symbolic(x: Any) -> bool:
    """Whether ``x`` is an expression over variables.

    >>> is_symbolic(Var("M", 9)), is_symbolic(8)
    (True, False)
    """
    return isinstance(x, (Var, Op))


def require_index(x: Any, what: str, at_least: int) -> Index:
    """``x`` as an int or Index that is not below ``at_least``.

    Raises LayoutError when it is neither, or is too small.

    >>> require_index(np.int64(8), "an extent", 1)
    8
    """
    if isinstance(x, (Var, Op)):
        return x
    if isinstance(x, bool) or not isinstance(x, (int, np.integer)):
        raise LayoutError(f"{what} is an integer, not {x!r}")
    if x < at_least:
        raise LayoutError(f"{what} is at least {at_least}, not {x}")
    return int(x)


def require_shape(shape: Sequence[Any]) -> tuple[Index, ...]:
    """The extents of a buffer as ints and Index.

    Raises LayoutError for what is neither, and for extents < 1.

    >>> require_shape([np.int64(8), 64])
    (8, 64)
    """
    return tuple(n if type(n) is int and n > 0 else require_index(n, "an extent", 1) for n in shape)


def require_known(x: Index, what: str) -> int:
    """``x``, which must be known at build time.

    Raises LayoutError when it depends on runtime variables.

    >>> require_known(8, "an extent")
    8
    """
    if isinstance(x, int):
        return x
    raise LayoutError(f"{what} must be known at build time, not {spell(x)}")


# ---------------------------------------------------------------- text
_SPELLINGS = {"/": "//"}


def spell(x: Index) -> str:
    """The text of an integer expression, as the notation reads it.

    >>> spell(Var("M", 64) * 4 + 1)
    'M * 4 + 1'
    """
    if not isinstance(x, Op):
        return str(x)
    return f" {_SPELLINGS.get(x.symbol, x.symbol)} ".join(_spell_operand(a, x.symbol) for a in x.args)


def _spell_operand(x: Index, parent: str) -> str:
    bare = not isinstance(x, Op) or (parent == "+" and x.symbol == "*")
    return spell(x) if bare else f"({spell(x)})"


def spell_at(x: Index, axis: str) -> str:
    """``x@axis``; the default axis m is not written.

    >>> spell_at(4, "laneid"), spell_at(4, "m")
    ('4@laneid', '4')
    """
    text = f"({spell(x)})" if isinstance(x, Op) else spell(x)
    return text if axis == "m" else f"{text}@{axis}"


def spell_iters(letter: str, iters: Iters) -> str:
    """``S[8:1]`` for one iter, ``S[(8, 2):(4@laneid, 1)]`` for more.

    >>> spell_iters("R", (Iter(2, 4, "warpid"),))
    'R[2:4@warpid]'
    """
    extents = [spell(i.extent) for i in iters]
    strides = [spell_at(i.stride, i.axis) for i in iters]
    if len(iters) == 1:
        return f"{letter}[{extents[0]}:{strides[0]}]"
    return f"{letter}[({', '.join(extents)}):({', '.join(strides)})]"


# ---------------------------------------------------------------- products, splits, sums
def product(extents: Iterable[Index]) -> Index:
    """The product of extents (1 for none).

    >>> product([2, 3, 4])
    24
    """
    result: Index = 1
    for extent in extents:
        result = mul(result, extent)
    return result


def row_major_strides(shape: Sequence[Index]) -> list[Index]:
    """Strides of a dense array whose last dimension is the fastest: s_k = n_(k+1) * ... * n_last.

    >>> row_major_strides([2, 3, 4])
    [12, 4, 1]
    """
    return [product(shape[k + 1 :]) for k in range(len(shape))]


def quotient(x: Any, n: Index) -> Any:
    """x // n for ints, arrays and Index; arrays shift when n is a power of two.

    >>> quotient(9, 4)
    2
    """
    if is_symbolic(n):
        return div(x, n)
    if isinstance(x, np.ndarray) and isinstance(n, int) and n & (n - 1) == 0:
        return x >> (n.bit_length() - 1)
    return x // n


def remainder(x: Any, n: Index) -> Any:
    """x % n for ints, arrays and Index; arrays mask when n is a power of two.

    >>> remainder(9, 4)
    1
    """
    if is_symbolic(n):
        return mod(x, n)
    if isinstance(x, np.ndarray) and isinstance(n, int) and n & (n - 1) == 0:
        return x & (n - 1)
    return x % n


def split(x: Any, extents: Sequence[Index]) -> list[Any]:
    """The components of ``x``, slowest first: c_k = (x // (e_(k+1) * ... * e_last)) % e_k.

    The slowest component is not reduced: inside the range that changes nothing, and it saves an operation.

    >>> split(13, [4, 2, 2])
    [3, 0, 1]
    """
    components = []
    for extent in reversed(extents[1:]):
        components.append(remainder(x, extent))
        x = quotient(x, extent)
    return [x, *reversed(components)] if extents else []


def flatten(coords: Sequence[Any], shape: Sequence[Index]) -> Any:
    """The row-major flat index: x_0 * n_1 * ... * n_last + ... + x_last.

    >>> flatten((1, 2), (3, 4))
    6
    """
    flat: Any = 0
    for x, stride in zip(coords, row_major_strides(shape), strict=True):
        flat = flat + x * stride
    return flat


# ---------------------------------------------------------------- rows of iters
def drop_units(iters: Iters) -> Iters:
    """The iters without those of extent 1, which place nothing.

    >>> drop_units((Iter(1, 5), Iter(8, 1)))
    (Iter(extent=8, stride=1, axis='m'),)
    """
    return tuple(i for i in iters if is_symbolic(i.extent) or i.extent != 1)


def fuse_neighbours(iters: Iters) -> Iters:
    """Neighbours (e0, e1 * s1), (e1, s1) on one axis become (e0 * e1, s1), which is the same map of the flat index.

    >>> fuse_neighbours((Iter(8, 8), Iter(8, 1)))
    (Iter(extent=64, stride=1, axis='m'),)
    """
    fused: list[Iter] = []
    for i in iters:
        if fused and fused[-1].axis == i.axis and fused[-1].stride == mul(i.extent, i.stride):
            fused[-1] = Iter(mul(fused[-1].extent, i.extent), i.stride, i.axis)
        else:
            fused.append(i)
    return tuple(fused)


def divide_exactly(a: Index, b: Index) -> Index | None:
    """a / b when b is known to divide a, else None.

    >>> divide_exactly(12, 4), divide_exactly(4, 12)
    (3, None)
    """
    if isinstance(b, int) and multiple(a) % b == 0:
        return div(a, b)
    (ca, left), (cb, right) = _factor(a), _factor(b)
    for f in right:
        if f not in left:
            return None
        left.remove(f)
    return mul(product(left), ca // cb) if ca % cb == 0 else None


def _factor(x: Index) -> tuple[int, list[Index]]:
    """``x`` as a constant times factors that are no products."""
    found = terms(x)
    if len(found) != 1:
        return 1, [x]
    coefficient, rest = found[0]
    return coefficient, _unfold(rest)


def _unfold(x: Index) -> list[Index]:
    if isinstance(x, Op) and x.symbol == "*":
        return [f for a in x.args for f in _unfold(a)]
    return [] if isinstance(x, int) else [x]


def group_iters(iters: Iters, shape: Sequence[Index]) -> tuple[Iters, ...]:
    """Split and gather iters so that each dimension of ``shape`` is a row of its own.

    Units are dropped, but a dimension of 1 gets one, so that no row is empty. Raises LayoutError when sizes differ or
    the boundaries of an iter and of a dimension cross.

    >>> [[str(i) for i in row] for row in group_iters((Iter(4, 2), Iter(4, 16)), (2, 8))]
    [['2:4'], ['2:2', '4:16']]
    """
    waiting = list(reversed(drop_units(iters)))
    groups: list[Iters] = []
    for n in shape:
        row: list[Iter] = []
        while n != 1:
            if not waiting:
                raise _cannot_group(iters, shape)
            n = _take(waiting, row, n, iters, shape)
        groups.append(tuple(row) or (_unit_beside(waiting, groups, iters),))
    if waiting:
        raise _cannot_group(iters, shape)
    return tuple(groups)


def _take(waiting: list[Iter], row: list[Iter], n: Index, iters: Iters, shape: Sequence[Index]) -> Index:
    """Move the next iter, or the slow part of it that fits, into ``row``; what is left of the dimension."""
    head = waiting.pop()
    left = divide_exactly(n, head.extent)
    if left is not None:
        row.append(head)
        return left
    inner = divide_exactly(head.extent, n)
    if inner is None:
        raise _cannot_group(iters, shape)
    row.append(Iter(n, mul(head.stride, inner), head.axis))
    waiting.append(Iter(inner, head.stride, head.axis))
    return 1


def _unit_beside(waiting: list[Iter], groups: list[Iters], iters: Iters) -> Iter:
    """A unit iter for a dimension of extent 1, dense with what follows it so that fusing drops no neighbour."""
    if waiting:
        return Iter(1, mul(waiting[-1].extent, waiting[-1].stride), waiting[-1].axis)
    near = groups[-1][-1] if groups else iters[-1]
    return Iter(1, near.stride, near.axis)


def _cannot_group(iters: Iters, shape: Sequence[Index]) -> LayoutError:
    sizes = f"{spell(product(i.extent for i in iters))} and {spell(product(shape))} elements"
    return LayoutError(f"{spell_iters('S', iters)} does not group by shape ({', '.join(map(spell, shape))}): {sizes}")


def extent_reached(iters: Iterable[Iter]) -> Index:
    """1 + the largest sum of the iters' contributions: 1 + sum of extent * stride - sum of stride.

    Written so that runtime extents cancel: the extent of a dense M x N array is M * N.

    >>> extent_reached((Iter(8, 8), Iter(6, 1)))
    62
    >>> print(extent_reached((Iter(Var("M", 9), Var("N", 9)), Iter(Var("N", 9), 1))))
    M * N
    """
    whole: Index = 1
    last: Index = 0
    for i in iters:
        whole, last = add(whole, mul(i.extent, i.stride)), add(last, i.stride)
    return sub(whole, last)
