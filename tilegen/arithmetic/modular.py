"""The domain in which plan and spec agree bit for bit in any order of summation.

A value is a number modulo a prime P below 2^22. Sums and products are those of the field, so that they are associative,
and so is the product of matrices: float64 holds the sum of 512 products exactly. Every other function, and every
conversion that can round, is opaque: a fixed function of its name and arguments that tells them apart. Two different
trees of such functions agree by chance, about once in 4 million values.

max and min are no choice, which would show one element of all that they are taken of and hide that another was left
out: of numbers they are a product in the field, another for each, and so as associative; twice is not once.

-inf lies below all numbers and inf above; both absorb sums and products; exp(-inf) is 0; NaN stays. Comparisons are
of the representatives 0 .. P - 1. Integers of the place (indices, params) and conditions on them are what they are
until they meet a value. Literals are opaque but for 0, 1, -1 and the infinities; a floating param is a number of its
name, so that no plan is right for its default alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tilegen.arithmetic.domain import FOLDS, Array, Domain, multiply_in_parts
from tilegen.arithmetic.formats import holds_all
from tilegen.arithmetic.hashes import ODD64, mix, odds, salt
from tilegen.arithmetic.products import TFLOAT32, TFLOAT32_CUT, TFLOAT32_UNITS, multiply_by_rows, multiply_exactly
from tilegen.arithmetic.tree import Element, Literal, Node, Parameter, Whole
from tilegen.arithmetic.typed import apply_typed, round_to
from tilegen.dtypes import DTYPES, bits_dtype

P = (1 << 22) - 3
NEG, POS, NAN = P, P + 1, P + 2  # what is no number
_BLOCK = 512  # products whose sum float64 holds: P * P * 512 < 2^53
_PIECE = 1 << 14  # elements that are drawn at a time, in a processor's caches
_INT_EXTREME = 1 << 31  # integers from here on, either way, are infinite: identities of min and max
_ODD32 = 0x9E3779B1
_INVERSE32, _INVERSE64 = pow(_ODD32, -1, 1 << 32), pow(ODD64, -1, 1 << 64)


def make_modular(dtypes: Iterable[str]) -> Modular:
    """The modular domain for a spec with these element types: the narrowest takes 4 bytes.

    >>> make_modular(["float16", "float32"]).scale, make_modular(["float64"]).scale
    (2, 1)
    """
    return Modular(max(1, 4 // min((DTYPES[d].bytes for d in dtypes), default=4)))


@dataclass(frozen=True)
class Modular(Domain):
    """Values are ints 0 .. P - 1, NEG, POS or NAN; stored, they are spread over their bytes.

    Bytes that mix elements do not decode, but for one chance in 1024; those are an opaque value of their bits.
    """

    scale: int = 1
    adds_freely: ClassVar[bool] = True

    def stored(self, dtype: str) -> np.dtype[Any]:
        return bits_dtype(DTYPES[dtype].bytes * self.scale)

    def encode(self, values: Any, dtype: str) -> Array:
        values = np.asarray(values)
        size = DTYPES[dtype].bytes * self.scale
        with np.errstate(over="ignore"):
            if size == 4:
                return np.asarray(values.astype(np.uint32) * np.uint32(_ODD32))
            words = values.astype(np.uint64)[..., None] * odds(size // 8)
        return np.asarray(np.ascontiguousarray(words).view(bits_dtype(size))[..., 0])

    def decode(self, bits: Array, dtype: str) -> Array:
        return np.asarray(self._read(bits, dtype), np.int64)

    def _read(self, bits: Array, dtype: str) -> Array:
        """``decode``, as whatever integers hold the values."""
        size = DTYPES[dtype].bytes * self.scale
        words = np.asarray(bits, order="C" if size > 8 else "K")[..., None].view(np.uint32 if size == 4 else np.uint64)
        with np.errstate(over="ignore"):
            values: Array = np.multiply(words[..., 0], np.uint32(_INVERSE32) if size == 4 else np.uint64(_INVERSE64))
            bad = values > NAN if values.max(initial=0) > NAN else np.zeros((), bool)
            for k in range(1, words.shape[-1]):
                bad = bad | (words[..., k] != values * odds(size // 8)[k])
        return _decode_mixed(words, values, bad) if bad.any() else values

    def draw(self, name: str, dtype: str, index: Array, seed: int = 1) -> Array:
        """The stored elements of an input array at flat indices: hashes of its name and theirs; of a bool 0 or 1."""
        at, word = np.asarray(index).ravel(), salt(f"array {name} {seed}")
        drawn = np.empty(len(at), self.stored(dtype))
        for first in range(0, len(at), _PIECE):
            values = _fold_to_number(mix(at[first : first + _PIECE].astype(np.uint64), word))
            drawn[first : first + _PIECE] = self.encode(values & 1 if dtype == "bool" else values, dtype)
        return drawn.reshape(np.shape(index))

    # ---------------------------------------------------------------- numbers of the text
    def fill(self, value: float | int | complex | bool, dtype: str) -> Array:
        if DTYPES[dtype].kind == "complex":
            return self.encode(_opaque_number(complex(value)) if value else 0, dtype)
        if DTYPES[dtype].kind == "float":
            return self.encode(_literal(float(value)), dtype)  # type: ignore[arg-type]
        return self.encode(_embed(np.asarray(int(value))), dtype)  # type: ignore[arg-type]

    # ---------------------------------------------------------------- functions
    def compute(
        self, tree: Node, elements: Sequence[Array], wholes: Sequence[Any], params: Mapping[str, float], dtype: str
    ) -> Array:
        at = _Leaves(self, elements, wholes, params, {})
        value = _value(tree, at)
        if not value.is_known:
            return self.encode(_round(value.data, tree.type, dtype), dtype)
        with np.errstate(all="ignore"):
            if DTYPES[dtype].kind != "float":
                return self.encode(_embed(round_to(value.data, dtype)), dtype)
        wide = dtype in ("float32", "float64")
        return self.encode(_embed(value.data) if wide else _round(_embed(value.data), tree.type, dtype), dtype)

    def convert(self, values: Array, src: str, dst: str) -> Array:
        return self.encode(_round(self.decode(values, src), src, dst, "cut to"), dst)

    def round_to_tfloat32(self, values: Array) -> Array:
        return self.encode(_round_to_tfloat32(self.decode(values, "float32")), "float32")

    def matmul(self, a: Array, b: Array, c: Array | None, dtype_ab: str, dtype_acc: str) -> Array:
        return multiply_in_parts(lambda *some: self._multiply_some(some, dtype_ab, dtype_acc), a, b, c)

    def _multiply_some(self, some: Sequence[Any], dtype_ab: str, dtype_acc: str) -> Array:
        a, b, c = some
        held = "float32" if dtype_ab in TFLOAT32_UNITS else dtype_ab
        x, y, z = self._read(a, held), self._read(b, held), 0 if c is None else self.decode(c, dtype_acc)
        if dtype_ab in TFLOAT32_UNITS and dtype_ab != TFLOAT32_CUT:
            x, y = (_round_to_tfloat32(np.asarray(v, np.int64)) for v in (x, y))
        is_plain = _are_numbers(x, y, np.asarray(z))
        return self.encode(_multiply(x, y, z) if is_plain else _add(_matmul(x, y), np.asarray(z)), dtype_acc)

    def fold(self, function: str, values: Array, axis: int, dtype: str) -> Array:
        if function == "+":
            own = self.decode(values, dtype)
            return self.encode(_sum(own, axis), dtype)
        if function in ("max", "min"):
            return self.encode(_EXTREMES[function].fold(self.decode(values, dtype), axis), dtype)
        if function not in FOLDS:
            raise ValueError(f"fold takes {', '.join(FOLDS)}, not {function}")
        return super().fold(function, values, axis, dtype)


# ---------------------------------------------------------------- trees
@dataclass(frozen=True)
class _Value:
    """``is_known``: integers or truth values as they are; else values of the domain."""

    is_known: bool
    data: Array


@dataclass(frozen=True)
class _Leaves:
    domain: Modular
    elements: Sequence[Array]
    wholes: Sequence[Any]
    params: Mapping[str, float]
    seen: dict[int, Array]


def _value(node: Node, at: _Leaves) -> _Value:
    if isinstance(node, Element):
        if node.number not in at.seen:
            at.seen[node.number] = at.domain.decode(at.elements[node.number], node.dtype)
        return _Value(False, at.seen[node.number])
    if isinstance(node, Whole):
        return _Value(True, np.asarray(at.wholes[node.number]).astype(node.type))
    if isinstance(node, Parameter):
        return _Value(False, np.asarray(_opaque_number(f"parameter {node.name}")))
    if isinstance(node, Literal):
        if node.type in ("float32", "float64"):
            return _Value(False, np.asarray(_literal(float(node.value))))
        return _Value(True, np.asarray(node.value).astype(node.type))
    args = [_value(arg, at) for arg in node.args]
    if node.function == "where":
        return _choose(*args)
    if all(a.is_known for a in args) and node.type not in ("float32", "float64"):
        with np.errstate(all="ignore"):
            return _Value(True, apply_typed(node.function, [a.data for a in args], node.type))
    if node.type in ("float32", "float64") and node.function == node.type and args[0].is_known:
        return _Value(False, _embed(args[0].data))
    data = _apply(node.function, [_embed(a.data) if a.is_known else a.data for a in args], node)
    return _Value(data.dtype == np.bool_, data)


def _choose(condition: _Value, yes: _Value, no: _Value) -> _Value:
    if yes.is_known and no.is_known:
        return _Value(True, np.where(condition.data, yes.data, no.data))
    arms = [_embed(v.data) if v.is_known else v.data for v in (yes, no)]
    return _Value(False, np.where(condition.data, arms[0], arms[1]))


def _apply(function: str, args: Sequence[Array], node: Any) -> Array:
    if function in _FIELD:
        return _FIELD[function](*args)
    if function in _COMPARED:
        keys = [_keys(a) for a in args]
        known: Array = _COMPARED[function](*keys)
        strange = (keys[0] == _NO_KEY) | (keys[1] == _NO_KEY)
        return np.where(strange, function == "!=", known)
    if function == node.type:  # a conversion
        return _round(args[0], node.args[0].type, node.type)
    result = _opaque(function, *args)
    if function in ("exp", "exp2"):
        result = np.where(args[0] == NEG, 0, np.where(args[0] == POS, POS, result))
    elif function == "abs":
        result = np.where((args[0] == NEG) | (args[0] == POS), POS, np.where(args[0] == 0, 0, result))
    elif function == "/":
        a, b = args
        result = np.where(_is_infinite(b), 0, np.where(_is_infinite(a), a, result))
        result = np.where(_is_infinite(a) & _is_infinite(b), NAN, result)
    return np.where(_any_nan(args), NAN, result)


def _round(values: Array, src: str, dst: str, how: str = "round to") -> Array:
    """A conversion: the identity where it cannot round, else opaque, but for 0, 1, -1 and what is no number."""
    if holds_all(dst, src):
        return values
    same = (values <= 1) | (values >= P - 1)
    return np.where(same, values, _opaque(f"{how} {dst}", values))


def _round_to_tfloat32(values: Array) -> Array:
    """Opaque but for 0, 1 and -1; how ties round is not told apart. What is cut off stays what it is: only so is a
    factor that was rounded before, which then loses nothing, the same as one that the product rounds."""
    same = (values <= 1) | (values >= P - 1)
    return np.where(same, values, _opaque(f"round to {TFLOAT32}", values))


# ---------------------------------------------------------------- the field, with what is no number
def _is_infinite(a: Array) -> Array:
    return np.asarray((a == NEG) | (a == POS))


def _any_nan(args: Sequence[Array]) -> Array:
    return np.asarray(np.logical_or.reduce(np.broadcast_arrays(*[a == NAN for a in args])))


def _add(a: Array, b: Array) -> Array:
    total = _modulo(a + b)
    if _are_numbers(a, b):
        return total
    negs, poss = (a == NEG) | (b == NEG), (a == POS) | (b == POS)
    return _settle(total, negs, poss, (a == NAN) | (b == NAN))


def _settle(numbers: Array, negs: Array, poss: Array, nans: Array) -> Array:
    """A sum of whose terms some are no numbers."""
    result = np.where(negs, NEG, np.where(poss, POS, numbers))
    return np.where(nans | (negs & poss), NAN, result)


def _neg(a: Array) -> Array:
    result = _modulo(P - a)
    return np.where(a < P, result, np.where(a == NEG, POS, np.where(a == POS, NEG, NAN)))


def _mul(a: Array, b: Array) -> Array:
    """An infinity times anything is infinite; the sign is that of the infinities."""
    product = _modulo(a * b)
    if _are_numbers(a, b):
        return product
    infinite = _is_infinite(a) | _is_infinite(b)
    result = np.where(infinite, np.where((a == NEG) != (b == NEG), NEG, POS), product)
    return np.where((a == NAN) | (b == NAN), NAN, result)


def _sum(values: Array, axis: int) -> Array:
    if _are_numbers(values):
        return _modulo(values.sum(axis, keepdims=True))
    numbers = _modulo(np.where(values < P, values, 0).sum(axis, keepdims=True))
    kinds = [(values == kind).any(axis, keepdims=True) for kind in (NEG, POS, NAN)]
    return _settle(numbers, *kinds)


def _matmul(a: Array, b: Array) -> Array:
    if _are_numbers(a, b):
        return _multiply(a, b)
    total = _multiply(*(np.where(x < P, x, 0) for x in (a, b)))

    def meet(left: Array, right: Array) -> Array:
        found: Array = multiply_by_rows(left.astype(np.float32), right.astype(np.float32)) > 0
        return found

    neg_a, neg_b, up_a, up_b = a == NEG, b == NEG, a <= POS, b <= POS
    negs = meet(neg_a, up_b & ~neg_b) | meet(up_a & ~neg_a, neg_b)
    poss = meet(neg_a, neg_b) | meet(a == POS, up_b & ~neg_b) | meet(up_a & ~neg_a, b == POS)
    nans = (a == NAN).any(-1)[..., :, None] | (b == NAN).any(-2)[..., None, :]
    return _settle(total, negs, poss, nans)


def _multiply(a: Array, b: Array, more: Array | int = 0) -> Array:
    """The product of matrices of numbers, and ``more``."""
    x, y, total = a.astype(np.float64, order="C"), b.astype(np.float64, order="C"), np.asarray(more)
    for k in range(0, a.shape[-1], _BLOCK):
        block = multiply_exactly(x[..., k : k + _BLOCK], y[..., k : k + _BLOCK, :])
        total = _modulo(total + block.astype(np.int64))
    return total


def _are_numbers(*values: Array) -> bool:
    return all(v.max(initial=0) < P for v in values)


def _modulo(values: Array) -> Array:
    """The rest by P: NumPy divides by a constant in half the time that it takes to find a rest."""
    size = values.dtype.type(P)
    return np.asarray(values - values // size * size)


_NO_KEY = np.iinfo(np.int64).min + 1


def _keys(a: Array) -> Array:
    """Numbers in order, -inf before them and inf behind; _NO_KEY for a NaN."""
    return np.where(a < P, a, np.where(a == NEG, -1, np.where(a == POS, P, _NO_KEY)))


@dataclass(frozen=True)
class _Extreme:
    """max or min: of numbers, the product of what is ``apart`` from them; ``least`` gives way to any number."""

    apart: int
    least: int

    def join(self, a: Array, b: Array) -> Array:
        """A NaN gives way to the other argument, as in fmin and fmax."""
        numbers = _modulo((a + self.apart) * (b + self.apart) - self.apart)
        if _are_numbers(a, b):
            return numbers
        return np.where((a < P) & (b < P), numbers, np.where(self._rank(a) >= self._rank(b), a, b))

    def fold(self, values: Array, axis: int) -> Array:
        """``join`` of all values along an axis, which stays."""
        left = np.moveaxis(values, axis, -1)
        while left.shape[-1] > 1:
            half = left.shape[-1] // 2
            left = np.concatenate([self.join(left[..., :half], left[..., half : 2 * half]), left[..., 2 * half :]], -1)
        return np.moveaxis(left, -1, axis)

    def _rank(self, a: Array) -> Array:
        return np.where(a < P, 2, np.where(a == NAN, 0, np.where(a == self.least, 1, 3)))


_EXTREMES = {"max": _Extreme(0x2C7E51, NEG), "min": _Extreme(0x1D4B93, POS)}
_FIELD: dict[str, Callable[..., Array]] = {
    "+": _add, "-": lambda a, b: _add(a, _neg(b)), "*": _mul, "neg": _neg,
    "fma": lambda a, b, c: _add(_mul(a, b), c),
    **{name: extreme.join for name, extreme in _EXTREMES.items()},
}  # fmt: skip
_COMPARED: dict[str, Callable[..., Array]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


# ---------------------------------------------------------------- numbers and hashes
def _decode_mixed(words: Array, values: Array, bad: Array) -> Array:
    """Values whose ``bad`` are opaque: those of their words."""
    folded = words[..., 0].astype(np.uint64)
    for k in range(1, words.shape[-1]):
        folded = mix(folded, words[..., k])
    return np.where(bad, _fold_to_number(mix(folded, salt("bits"))), values.astype(np.int64))


def _embed(values: Array) -> Array:
    """Integers and truth values as values of the domain."""
    whole = np.asarray(values).astype(np.int64)
    result = whole % P
    low, high = whole <= -_INT_EXTREME, whole >= _INT_EXTREME - 1
    return np.where(low, NEG, np.where(high, POS, result)) if (low | high).any() else result


def _literal(value: float) -> int:
    if value != value:
        return NAN
    if value in (float("inf"), float("-inf")):
        return POS if value > 0 else NEG
    return int(value) % P if value in (0.0, 1.0, -1.0) else _opaque_number(value)


def _opaque_number(value: Any) -> int:
    return int(_fold_to_number(np.asarray(salt(f"number {value!r}"))))


def _opaque(function: str, *args: Array) -> Array:
    mixed: Any = salt(f"function {function}")
    for arg in args:
        mixed = mix(arg.astype(np.uint64), mixed)
    return _fold_to_number(mixed)


def _fold_to_number(words: Any) -> Array:
    """Hashes as numbers, uniform."""
    return np.asarray(_modulo(np.asarray(words, np.uint64)), np.int64)
