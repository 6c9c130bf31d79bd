"""The domain of the reference for floats: each value in float64, and how far from it any right kernel may be.

A kernel rounds every node of a tree in its own type, with the error of the table of functions, and sums in an order of
its own. ``error`` bounds the difference of its value from ours: what the arguments' errors make of the function, what
the kernel rounds, and what float64 rounds here. Infinities and NaNs have no error where nothing could have made them
something else. An infinite error means that nothing is claimed.

How far sums of n terms may be off, in any order, ``bounded_sums`` says: n times half an ulp of 1. Tensor cores add
blocks of terms cut to the largest one's exponent, so that it is a whole ulp and every block is one term more
(P. Blanchard and others, Mixed Precision Block Fused Multiply-Add, SIAM J. Sci. Comput. 42, 2020; M. Fasi and others,
Numerical Behavior of NVIDIA Tensor Cores, PeerJ CS 7, 2021). Those of 8 bits keep 13 bits of a sum (J. Zhang and
others, SageAttention2, 2024, on mma of 8-bit floats).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic.bounded_sums import (
    EXACT,
    OWN,
    accumulate_bounds,
    join_all,
    limit_bound,
    make_whole,
    round_sum,
    update_integers,
)
from tilegen.arithmetic.bounds import Bound
from tilegen.arithmetic.domain import FOLDS, Array, Domain
from tilegen.arithmetic.formats import distance_at, half_ulp, holds_all, least_normal
from tilegen.arithmetic.functions import FUNCTIONS, INTS, MathFunction
from tilegen.arithmetic.products import TFLOAT32_EVEN, TFLOAT32_LEAST, TFLOAT32_UNITS, held_type, multiply_by_rows
from tilegen.arithmetic.tree import Apply, Element, Node, Parameter, Whole
from tilegen.arithmetic.typed import apply_typed, cast_to, round_to
from tilegen.dtypes import DTYPES, FACTOR, numpy_dtype

_PAIR_BYTES = 16  # value and error
_NODE_BYTES = 4  # of the narrowest number that a tree computes: a reduction's lie in memory too
_BLOCK_TERMS = 4  # of a sum, the fewest that a tensor core adds at once
_EIGHT_BIT_SUM = 2.0**-13
_LEAST_FACTOR = 2.0**-127
_LONG_ENDS = -(2.0**63), 2.0**63 - 2.0**10  # of int64, as float64 has them


def make_bounded(dtypes: Iterable[str], is_host: bool = False, is_tight: bool = True) -> Bounded:
    """The domain for a spec with these element types; ``is_host``: errors of the C++ library instead of CUDA's.

    ``is_tight``: a value whose rounding is known is that rounding, without an error; else every value is what the
    mathematics give, in float64, and what rounding makes of it is all in the error.

    >>> make_bounded(["float16", "float32"]).scale
    8
    """
    return Bounded(_PAIR_BYTES // min((_NODE_BYTES, *(DTYPES[d].bytes for d in dtypes))), is_host, is_tight)


@dataclass(frozen=True)
class Bounded(Domain):
    """Values are ``Bound``; views of one element as several of another type mean nothing here."""

    scale: int = 4
    is_host: bool = False
    is_tight: bool = True

    def stored(self, dtype: str) -> np.dtype[Any]:
        return _pair_dtype(DTYPES[dtype].bytes * self.scale)

    def given(self, values: Array, dtype: str) -> Array:
        """Elements that are exactly known, stored."""
        values = np.asarray(values)
        return self.encode(Bound(values.astype(np.float64), np.zeros(values.shape)), dtype)

    def encode(self, values: Any, dtype: str) -> Array:
        value, error = np.broadcast_arrays(values.value, values.error)
        pairs = np.zeros(value.shape, self.stored(dtype))
        pairs["value"], pairs["error"] = value, error
        return pairs

    def decode(self, bits: Array, dtype: str) -> Bound:
        pairs = np.asarray(bits).view(self.stored(dtype))
        if dtype == FACTOR:  # bytes of 0 are its least number
            return Bound(np.where(pairs["value"] == 0, _LEAST_FACTOR, pairs["value"]), pairs["error"])
        return Bound(pairs["value"], pairs["error"])

    def fill(self, value: float | int | complex | bool, dtype: str) -> Array:
        with np.errstate(all="ignore"):
            if DTYPES[dtype].kind == "complex":
                return self.given(np.asarray(complex(value).real), dtype)
            number = self.number(value, lambda x: x.astype(numpy_dtype(dtype)))  # type: ignore[arg-type]
            return self.encode(number, dtype)

    def number(self, value: float | int | bool, rounding: Callable[[Array], Array]) -> Bound:
        """A number of the text, rounded to its type: or with how far the rounding is from it."""
        rounded = np.asarray(rounding(np.asarray(value)), np.float64)
        if self.is_tight or not np.isfinite(rounded):
            return Bound(rounded, np.zeros(rounded.shape))
        return Bound(np.asarray(float(value)), np.abs(rounded - float(value)))

    def integers(self, bits: Array, dtype: str) -> NDArray[np.int64]:
        """Numbers that no rounding can make others. Raises TypeError for one that it can."""
        found = self.decode(bits, dtype)
        if np.any(found.error) or not np.isfinite(found.value).all():
            raise TypeError("an element may be another number")
        return np.rint(found.value).astype(np.int64)

    def compute(
        self, tree: Node, elements: Sequence[Array], wholes: Sequence[Any], params: Mapping[str, float], dtype: str
    ) -> Array:
        with np.errstate(all="ignore"):
            bound = _evaluate(tree, _Leaves(self, elements, wholes, params))
            return self.encode(_convert(self, bound, tree.type, dtype, lambda x: round_to(x, dtype)), dtype)

    def convert(self, values: Array, src: str, dst: str) -> Array:
        given, wide = self.decode(values, src), "float64" if DTYPES[src].kind == "float" else "int64"
        with np.errstate(all="ignore"):
            bound = _convert(self, given, src, dst, lambda x: cast_to(x, wide, dst))
        if wide == "int64" and DTYPES[dst].kind in ("int", "uint"):  # modulo: what may leave the type may be anything
            ends, type_ = (given.value - given.error, given.value + given.error), np.iinfo(dst)
            leaves = (given.error > 0) & ((ends[0] < type_.min) | (ends[1] > type_.max))
            bound = Bound(bound.value, np.where(leaves, np.inf, bound.error))
        return self.encode(bound, dst)

    def round_to_tfloat32(self, values: Array) -> Array:
        return self.encode(_as_tfloat32(self.decode(values, "float32"), TFLOAT32_UNITS[TFLOAT32_EVEN]), "float32")

    def matmul(self, a: Array, b: Array, c: Array | None, dtype_ab: str, dtype_acc: str) -> Array:
        held = held_type(dtype_ab)
        found = self.decode(a, held), self.decode(b, held)
        x, y = (Bound(*map(np.ascontiguousarray, (v.value, v.error))) for v in found)  # as BLAS takes them
        if unit := TFLOAT32_UNITS.get(dtype_ab, 0.0):
            x, y = (_as_tfloat32(v, unit) for v in (x, y))
        count = a.shape[-1] + a.shape[-1] // _BLOCK_TERMS + 2
        sizes = np.abs(x.value), np.abs(y.value)
        with np.errstate(all="ignore"):
            value, size = multiply_by_rows(x.value, y.value), multiply_by_rows(*sizes)
            error = multiply_by_rows(sizes[0] + x.error, y.error) if y.error.any() else np.zeros(value.shape)
            error += multiply_by_rows(x.error, sizes[1]) if x.error.any() else 0
            if c is not None:
                z = self.decode(c, dtype_acc)
                value, size, error = value + z.value, size + np.abs(z.value), error + z.error
            unit = 2 * half_ulp(dtype_acc)
            unit = max(unit, _EIGHT_BIT_SUM) if dtype_ab.startswith("float8") and unit else unit
            return self.encode(round_sum(Bound(value, error), size + error, count, unit, dtype_acc), dtype_acc)

    def update(self, function: str, held: Array, new: Array, dtype: str) -> Array:
        if DTYPES[dtype].kind == "float":
            return self.combine({"add": "+"}.get(function, function), held, new, dtype)
        return self.encode(update_integers(function, self.decode(held, dtype), self.decode(new, dtype), dtype), dtype)

    def accumulate(self, function: str, held: Array, new: Array, places: Array, dtype: str) -> Array:
        if DTYPES[dtype].kind != "float" or function != "add":
            return super().accumulate(function, held, new, places, dtype)
        return self.encode(accumulate_bounds(self.decode(held, dtype), self.decode(new, dtype), places, dtype), dtype)

    def fold(self, function: str, values: Array, axis: int, dtype: str) -> Array:
        return self._join_all(function, values, axis, dtype, False)

    def scan(self, function: str, values: Array, axis: int, dtype: str) -> Array:
        """Each prefix as ``fold`` has it: of as many terms as it has, in any order."""
        return self._join_all(function, values, axis, dtype, True)

    def _join_all(self, function: str, values: Array, axis: int, dtype: str, is_scan: bool) -> Array:
        if function not in FOLDS:
            raise ValueError(f"fold and scan take {', '.join(FOLDS)}, not {function}")
        if function in ("max", "min"):  # a choice: no order rounds
            way = super().scan if is_scan else super().fold
            return way(function, values, axis, dtype)
        with np.errstate(all="ignore"):
            return self.encode(join_all(function, self.decode(values, dtype), axis, dtype, is_scan), dtype)


def _as_tfloat32(x: Bound, unit: float) -> Bound:
    """Factors of which the last bits are not read; ``unit``: the relative error of that."""
    return Bound(x.value, x.error + (np.abs(x.value) + x.error) * unit + TFLOAT32_LEAST)


# ---------------------------------------------------------------- trees
@dataclass(frozen=True)
class _Leaves:
    domain: Bounded
    elements: Sequence[Array]
    wholes: Sequence[Any]
    params: Mapping[str, float]


def _evaluate(node: Node, at: _Leaves) -> Bound:
    if isinstance(node, Element):
        return at.domain.decode(at.elements[node.number], node.dtype)
    if isinstance(node, Apply):
        args = [_evaluate(arg, at) for arg in node.args]
        return _apply(FUNCTIONS[node.function], args, node, at.domain)
    if isinstance(node, Whole):
        value = np.asarray(np.asarray(at.wholes[node.number]).astype(node.type).astype(np.float64))
        return Bound(value, np.zeros(value.shape))
    number = at.params[node.name] if isinstance(node, Parameter) else node.value
    return at.domain.number(number, lambda x: x.astype(node.type))


def _apply(row: MathFunction, args: Sequence[Bound], node: Apply, domain: Bounded) -> Bound:
    if row.name in _TRUTH:
        return _TRUTH[row.name](*args)
    if row.name == "where":
        return _choose(*args)
    if row.name in _COMPARED:
        return _compare(row, *args)
    if node.type in INTS:
        return _apply_to_ints(row, args, node.type)
    value = np.asarray(row.exact(*(a.value for a in args)), np.float64)
    spread = _SPREAD.get(row.name, _spread_by_ends)(row, value, *args)
    if not np.isfinite(value).all():
        spread = np.where(np.isfinite(value), spread, _spread_of_special(row, value, args))
    spread = np.where(np.isnan(spread), np.inf, spread)
    ulps = (row.host_ulps if domain.is_host else row.ulps).get(node.type)
    return Bound(value, spread) if ulps is None else _rounded(domain, row, value, spread, node.type, ulps)


def _spread_of_special(row: MathFunction, value: Array, args: Sequence[Bound]) -> Array:
    """Of an infinity or a NaN: none where all ends of the arguments give the same."""
    result = np.zeros(value.shape)
    if any(a.error.any() for a in args):
        for corner in product(*((a.value - a.error, a.value + a.error) for a in args)):
            end = np.asarray(row.exact(*corner), np.float64)
            result = np.where((end == value) | (np.isnan(end) & np.isnan(value)), result, np.inf)
    return result


def _rounded(domain: Bounded, row: MathFunction, value: Array, error: Array, type_: str, ulps: float) -> Bound:
    """A function's value, rounded by the kernel and by us."""
    if ulps <= 0.5:
        own = error + np.where(np.isfinite(value), OWN * np.abs(value), 0)
        if row.name == "fma":
            own = own + OWN * error
        if type_ == "float64":
            return limit_bound(value, own, type_)
        return _between(domain, value, own, lambda x: x.astype(np.float32))
    size = np.abs(value) + error
    step = ulps * distance_at(size * (1 + 2 * half_ulp(type_)), type_) + 8 * OWN * np.abs(value) + row.tiny
    step = np.where(size < 2 * least_normal(type_), step + least_normal(type_), step)
    return limit_bound(value, np.where(np.isfinite(value), error + step, error), type_)


def _between(domain: Bounded, value: Array, error: Array, rounding: Callable[[Array], Array]) -> Bound:
    """The value after a rounding that keeps order: between those of the ends; exact where the ends meet."""
    exact = np.asarray(rounding(np.asarray(value)), np.float64)
    low, high = (np.asarray(rounding(np.asarray(x)), np.float64) for x in (value - error, value + error))
    is_open = np.isnan(value) & (error > 0)
    meet = ((low == high) & ~is_open) | (np.isnan(value) & (error == 0))
    if not domain.is_tight:
        meet &= ~np.isfinite(low) | (low == value)
    inner = np.clip(value, low, high) if domain.is_tight else value
    far = np.maximum(np.abs(high - inner), np.abs(inner - low))
    sure = np.isfinite(low) & np.isfinite(high) & ~is_open
    value = np.where(meet, np.where(np.isnan(value), exact, low), np.where(sure, inner, value))
    return Bound(value, np.where(meet, 0.0, np.where(sure, far, np.where(error == 0, 0.0, np.inf))))


def _convert(domain: Bounded, bound: Bound, src: str, dst: str, rounding: Callable[[Array], Array]) -> Bound:
    if holds_all(dst, src):
        return bound
    if dst == "bool":
        return _compare(FUNCTIONS["!="], bound, Bound(np.zeros(()), np.zeros(())))
    if DTYPES[src].kind != "float":
        return _between(domain, bound.value, bound.error, lambda x: rounding(np.clip(x, *_LONG_ENDS).astype(np.int64)))
    return _between(domain, bound.value, bound.error, rounding)


# ---------------------------------------------------------------- truth
def _compare(row: MathFunction, a: Bound, b: Bound) -> Bound:
    room = a.error + b.error
    unsure = (room > 0) & ((np.abs(a.value - b.value) <= room) | np.isinf(room))
    return Bound(np.asarray(row.exact(a.value, b.value), np.float64), unsure.astype(np.float64))


_COMPARED = ("<", "<=", ">", ">=", "==", "!=")


def _join(pick: Callable[..., Array]) -> Callable[[Bound, Bound], Bound]:
    """and, or: between those of the least and of the most that the arguments may be."""

    def apply(a: Bound, b: Bound) -> Bound:
        low = pick(a.value * (a.error == 0), b.value * (b.error == 0))
        high = pick(np.maximum(a.value, a.error), np.maximum(b.value, b.error))
        return Bound(pick(a.value, b.value), high - low)

    return apply


_TRUTH: dict[str, Callable[..., Bound]] = {
    "and": _join(np.minimum), "or": _join(np.maximum), "not": lambda a: Bound(1 - a.value, a.error),
}  # fmt: skip


def _choose(condition: Bound, yes: Bound, no: Bound) -> Bound:
    """The arm taken; where the condition may be otherwise, a bound of both."""
    is_yes = condition.value != 0
    value = np.where(is_yes, yes.value, no.value)
    error, other = np.where(is_yes, yes.error, no.error), np.where(is_yes, no.error, yes.error)
    apart = np.abs(yes.value - no.value)
    apart = np.where((yes.value == no.value) | (np.isnan(yes.value) & np.isnan(no.value)), 0.0, apart)
    both = np.maximum(error, np.where(np.isnan(apart), np.inf, apart) + other)
    return Bound(value, np.where(condition.error > 0, both, error))


# ---------------------------------------------------------------- how errors of arguments spread
def _apply_to_ints(row: MathFunction, args: Sequence[Bound], type_: str) -> Bound:
    """Integers are exact; one that came of a rounded float may be off by a whole number."""
    args = [make_whole(a) for a in args]
    values = [a.value.astype(np.int64).astype(type_) for a in args]
    value = np.asarray(apply_typed(row.name, values, type_), np.float64)
    error = np.zeros(value.shape)
    if any(a.error.any() for a in args):
        unsure = np.logical_or.reduce(np.broadcast_arrays(*[a.error > 0 for a in args]))
        spread = _SPREAD.get(row.name, _spread_anywhere)(row, value, *args)
        error = np.where(unsure, np.where(np.isnan(spread), np.inf, spread), 0.0)
    beyond = np.logical_or.reduce(np.broadcast_arrays(*[np.abs(a.value) > EXACT for a in args]))  # not held exactly
    return Bound(value, np.where(beyond, np.inf, error))


def _spread_anywhere(row: MathFunction, value: Array, *args: Bound) -> Array:
    return np.full(value.shape, np.inf)


def _spread_by_ends(row: MathFunction, value: Array, a: Bound) -> Array:
    """Of a monotone function: what it is at the argument's ends."""
    if not row.is_monotone:
        raise ValueError(f"how errors go through {row.name} is not said")
    if not np.any(a.error):
        return np.zeros(value.shape)
    ends = [np.asarray(row.exact(x), np.float64) for x in (a.value - a.error, a.value + a.error)]
    far = [np.where(end == value, 0.0, np.abs(end - value)) for end in ends]
    return np.where(a.error == 0, 0.0, np.maximum(*far))


def _spread_of_extreme(row: MathFunction, value: Array, a: Bound, b: Bound) -> Array:
    low, high = row.exact(a.value - a.error, b.value - b.error), row.exact(a.value + a.error, b.value + b.error)
    far = np.maximum(high - value, value - low)
    return np.where((low == value) & (high == value), 0.0, far)


def _spread_of_product(row: MathFunction, value: Array, a: Bound, b: Bound) -> Array:
    terms = ((np.abs(a.value), b.error), (np.abs(b.value), a.error), (a.error, b.error))
    return sum((np.where(e == 0, 0.0, x * e) for x, e in terms), np.zeros(value.shape))


def _spread_of_fma(row: MathFunction, value: Array, a: Bound, b: Bound, c: Bound) -> Array:
    product = np.abs(a.value * b.value)
    own = np.where(np.isfinite(product), OWN * product, 0.0)
    return _spread_of_product(row, value, a, b) + c.error + own


def _spread_of_quotient(row: MathFunction, value: Array, a: Bound, b: Bound) -> Array:
    room = np.abs(b.value) - b.error
    far = (a.error + np.where(b.error == 0, 0.0, np.abs(value) * b.error)) / room
    far = np.where(np.isinf(b.value) & (b.error == 0), 0.0, far)
    return np.where((a.error == 0) & (b.error == 0), 0.0, np.where(room > 0, far, np.inf))


_SPREAD: dict[str, Callable[..., Array]] = {
    "+": lambda row, value, a, b: a.error + b.error, "-": lambda row, value, a, b: a.error + b.error,
    "*": _spread_of_product, "/": _spread_of_quotient, "fma": _spread_of_fma,
    "neg": lambda row, value, a: a.error + np.zeros(value.shape),
    "abs": lambda row, value, a: a.error + np.zeros(value.shape),
    "min": _spread_of_extreme, "max": _spread_of_extreme,
    **dict.fromkeys(INTS, lambda row, value, a: a.error + np.zeros(value.shape)),
}  # fmt: skip


@cache
def _pair_dtype(size: int) -> np.dtype[Any]:
    return np.dtype({"names": ["value", "error"], "formats": ["f8", "f8"], "offsets": [0, 8], "itemsize": size})
