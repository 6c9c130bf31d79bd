"""Sums and products of bounds: of all elements along an axis, or of those up to each, in whatever order a kernel takes.

Sums of n terms, in any order: |error| <= n u / (1 - n u) * sum of |terms|, u half an ulp of 1 (N. Higham, Accuracy and
Stability of Numerical Algorithms, 4.2). A prefix of a scan is such a sum, of as many terms as it has.
"""

from __future__ import annotations

import numpy as np

from tilegen.arithmetic.bounds import Bound
from tilegen.arithmetic.domain import TYPED, Array
from tilegen.arithmetic.formats import half_ulp, largest, least_normal
from tilegen.arithmetic.functions import INTS

EXACT = 2.0**53  # up to here float64 holds every integer
OWN = 2.0**-52  # what one operation here rounds, twice over; functions made of several take a few
_FLUSHED = 3  # of an atomic add of float32: both sides, and the sum


def join_all(function: str, x: Bound, axis: int, dtype: str, is_scan: bool = False) -> Bound:
    """``+`` or ``*`` of all elements of a dtype along an axis, which stays, with one element; or of those up to each.

    >>> ones = Bound(np.ones(4), np.zeros(4))
    >>> join_all("+", ones, 0, "float32").value.tolist(), join_all("+", ones, 0, "float32", True).value.tolist()
    ([4.0], [1.0, 2.0, 3.0, 4.0])
    """
    if dtype in INTS:
        return _join_integers(function, x, axis, dtype, is_scan)
    sizes = np.abs(x.value) + x.error
    length = x.value.shape[axis]
    terms = np.asarray(length)
    if is_scan:
        terms = np.arange(1, length + 1).reshape([-1 if d == axis else 1 for d in range(x.value.ndim)])
    if function == "+":
        value, error, size = (_over(np.add, v, axis, is_scan) for v in (x.value, x.error, sizes))
    else:
        value, size = (_over(np.multiply, v, axis, is_scan) for v in (x.value, sizes))
        error = size - np.abs(value) + (OWN * terms) * size
        least = _over(np.multiply, np.minimum(sizes, 1), axis, is_scan)  # some order may lose it among the denormals
        error = np.where((size > 0) & (least < least_normal(dtype)), np.inf, error)
        size = np.where(_over(np.multiply, np.maximum(sizes, 1), axis, is_scan) > largest(dtype), np.inf, size)
    return round_sum(Bound(value, error), size, terms - 1, half_ulp(dtype), dtype)


def _over(ufunc: np.ufunc, values: Array, axis: int, is_scan: bool) -> Array:
    """A function over all values along an axis, or over those up to each."""
    found = ufunc.accumulate(values, axis) if is_scan else ufunc.reduce(values, axis=axis, keepdims=True)
    return np.asarray(found)


def _join_integers(function: str, x: Bound, axis: int, type_: str, is_scan: bool) -> Bound:
    """A sum or a product modulo the type's size, which no order changes; nothing is claimed beyond float64."""
    x, ufunc = make_whole(x), np.add if function == "+" else np.multiply
    value = np.asarray(_over(ufunc, x.value.astype(np.int64), axis, is_scan).astype(type_), np.float64)
    error, sizes = _over(np.add, x.error, axis, is_scan), np.abs(x.value)
    most = _over(ufunc, sizes + x.error, axis, is_scan)
    if function == "*":
        error = np.where(error > 0, most - _over(np.multiply, sizes, axis, is_scan), 0.0)
    is_inexact = (np.abs(value) > EXACT) | _over(np.logical_or, sizes > EXACT, axis, is_scan)
    may_wrap = (error > 0) & (most > np.iinfo(type_).max)
    return Bound(value, np.where(is_inexact | may_wrap | np.isnan(error), np.inf, error))


def make_whole(a: Bound) -> Bound:
    """Integers that came of floats: the middle of what they may be is no integer where that is one or the next."""
    value = np.rint(a.value)
    return Bound(value, a.error + np.where(np.isfinite(value), np.abs(a.value - value), 0.0))


def round_sum(sum_: Bound, size: Array, count: int | Array, unit: float, dtype: str) -> Bound:
    """A sum (or product) of terms of so much ``size`` together, with ``count`` roundings of relative size ``unit``."""
    if not unit:
        return sum_
    value, error = sum_.value, sum_.error
    share = np.asarray(count) * (unit + OWN)
    grown = np.where(share > 0, error + np.where(share < 0.5, share / (1 - share), np.inf) * size, error)
    unsure = error > 0
    kept = limit_bound(value, np.where(np.isfinite(value), grown, np.where(unsure, np.inf, 0.0)), dtype)
    over = np.isfinite(value) & (size > largest(dtype))  # some order may go beyond
    return Bound(kept.value, np.where(over, np.inf, kept.error))


def limit_bound(value: Array, error: Array, type_: str) -> Bound:
    """What is surely beyond the type is infinite; what may be is anything."""
    most, size = largest(type_), np.abs(value)
    over = np.isfinite(value) & (size - error > most * (1 + 2 * half_ulp(type_)))
    maybe = np.isfinite(value) & ~over & (size + error > most)
    return Bound(np.where(over, np.copysign(np.inf, value), value), np.where(over, 0.0, np.where(maybe, np.inf, error)))


def accumulate_bounds(held: Bound, new: Bound, places: Array, dtype: str) -> Bound:
    """``held`` after the floats ``new`` were added at their places (numbers), each sum rounded, in any order.

    Global memory takes float32 below the least normal number as 0, in what is added and in the sum (PTX ISA, ``red``).

    >>> two, three = (Bound(np.ones(n), np.zeros(n)) for n in (2, 3))
    >>> total = accumulate_bounds(two, three, np.array([0, 0, 0]), "float32")
    >>> total.value.tolist(), bool(0 < total.error[0] < 1e-5), float(total.error[1])
    ([4.0, 1.0], True, 0.0)
    """
    value, error, size = held.value.astype(np.float64), held.error.astype(np.float64), np.abs(held.value) + held.error
    count = np.zeros(len(value))
    added = (value, new.value), (error, new.error), (size, np.abs(new.value) + new.error), (count, np.ones(len(places)))
    with np.errstate(all="ignore"):
        for total, more in added:
            np.add.at(total, places, more)
        if dtype == "float32":
            error += _FLUSHED * count * least_normal(dtype)
        return round_sum(Bound(value, error), size, count, half_ulp(dtype), dtype)


def update_integers(function: str, a: Bound, b: Bound, type_: str) -> Bound:
    """One of UPDATES of two integers: exact, but for what came of floats; nothing is claimed beyond float64."""
    a, b = make_whole(a), make_whole(b)
    x, y = (np.clip(v.value, -EXACT, EXACT).astype(np.int64).astype(type_) for v in (a, b))
    value = TYPED.update(function, x, y, type_).astype(np.float64)
    unsure = (a.error > 0) | (b.error > 0)
    if function == "add":
        most = np.abs(a.value) + np.abs(b.value) + a.error + b.error
        error = np.where(unsure & (most > np.iinfo(type_).max), np.inf, a.error + b.error)
    elif function in ("min", "max"):
        error = np.maximum(a.error, b.error)
    else:
        error = np.where(unsure, np.inf, 0.0)
    beyond = (np.abs(a.value) > EXACT) | (np.abs(b.value) > EXACT) | (np.abs(value) > EXACT)
    return Bound(value, np.where(beyond, np.inf, error))
