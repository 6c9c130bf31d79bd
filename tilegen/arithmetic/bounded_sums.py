"""Sums with bounds that hold in any order, of floats and of integers, and what the end of a type makes of a bound."""

from __future__ import annotations

import numpy as np

from tilegen.arithmetic.bounds import Bound
from tilegen.arithmetic.domain import TYPED, Array
from tilegen.arithmetic.formats import half_ulp, largest, least_normal

EXACT = 2.0**53  # up to here float64 holds every integer
OWN = 2.0**-52  # what one operation here rounds, twice over; functions made of several take a few
_FLUSHED = 3  # of an atomic add of float32: both sides, and the sum


def limit_bound(value: Array, error: Array, type_: str) -> Bound:
    """What is surely beyond the type is infinite; what may be is anything."""
    most, size = largest(type_), np.abs(value)
    over = np.isfinite(value) & (size - error > most * (1 + 2 * half_ulp(type_)))
    maybe = np.isfinite(value) & ~over & (size + error > most)
    return Bound(np.where(over, np.copysign(np.inf, value), value), np.where(over, 0.0, np.where(maybe, np.inf, error)))


def sum_bound(value: Array, error: Array, size: Array, count: int, unit: float, dtype: str) -> Bound:
    """A sum (or product) of terms of so much ``size`` together, with ``count`` roundings of relative size ``unit``."""
    if not unit:
        return Bound(value, error)
    share = count * (unit + OWN)
    grown = error + (share / (1 - share) if share < 0.5 else np.inf) * size if count else error
    unsure = error > 0
    limited = limit_bound(value, np.where(np.isfinite(value), grown, np.where(unsure, np.inf, 0.0)), dtype)
    over = np.isfinite(value) & (size > largest(dtype))  # some order may go beyond
    return Bound(limited.value, np.where(over, np.inf, limited.error))


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
    with np.errstate(all="ignore"):
        for total, more in (
            (value, new.value),
            (error, new.error),
            (size, np.abs(new.value) + new.error),
            (count, 1.0),
        ):
            np.add.at(total, places, more)
        flushed = _FLUSHED * count * least_normal(dtype) if dtype == "float32" else 0.0
        share = count * (half_ulp(dtype) + OWN)
        rounded = np.where(count == 0, 0.0, np.where(share < 0.5, share / (1 - share), np.inf) * size + flushed)
        grown = np.where(np.isfinite(value), error + rounded, np.where(error > 0, np.inf, 0.0))
        limited = limit_bound(value, grown, dtype)
        over = np.isfinite(value) & (size > largest(dtype)) & (count > 0)  # some order may go beyond
        return Bound(limited.value, np.where(over, np.inf, limited.error))


# ---------------------------------------------------------------- integers
def make_whole(a: Bound) -> Bound:
    """Integers that came of floats: the middle of what they may be is no integer where that is one or the next."""
    value = np.rint(a.value)
    return Bound(value, a.error + np.where(np.isfinite(value), np.abs(a.value - value), 0.0))


def fold_integers(function: str, x: Bound, axis: int, type_: str) -> Bound:
    """A sum or a product modulo the type's size, which no order changes; nothing is claimed beyond float64."""
    x = make_whole(x)
    whole = x.value.astype(np.int64)
    value = np.asarray((whole.sum if function == "+" else whole.prod)(axis, keepdims=True).astype(type_), np.float64)
    error, sizes = x.error.sum(axis, keepdims=True), np.abs(x.value)
    most = (sizes + x.error).sum(axis, keepdims=True)
    if function == "*":
        most = (sizes + x.error).prod(axis, keepdims=True)
        error = np.where(error > 0, most - sizes.prod(axis, keepdims=True), 0.0)
    is_inexact = (np.abs(value) > EXACT) | (sizes > EXACT).any(axis, keepdims=True)
    may_wrap = (error > 0) & (most > np.iinfo(type_).max)
    return Bound(value, np.where(is_inexact | may_wrap | np.isnan(error), np.inf, error))


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
