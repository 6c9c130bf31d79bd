"""The domain in which plan and spec agree bit for bit in any order of summation.

A value is a number modulo a prime P below 2^22. Sums and products are those of the field, so that they are associative,
and so is the product of matrices: float64 holds the sum of 512 products exactly. Every other function, and every
conversion that can round, is opaque: a fixed function of its name and arguments that tells them apart. Two different
trees of such functions agree by chance, about once in 4 million values.

max and min are no choice, which would show one element of all that they are taken of and hide that another was left
out: of numbers they are a product in the field, another for each, and so as associative; twice is not once.

Integers without a sign are told from those with one: shifts, comparisons and upper halves of products are other
functions. For max their 0 gives way to any number, and for min the largest that the type has, as -inf and inf do.

-inf lies below all numbers and inf above; both absorb sums and products; exp(-inf) is 0; NaN stays. How two numbers
compare nobody knows: it is a number of its own, and what it chooses lies between both. Integers of the place (indices,
params) and conditions on them are what they are until they meet a value. Literals are opaque but for 0, 1, -1 and the
infinities; a floating param is a number of its name, so that no plan is right for its default alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tilegen.arithmetic.domain import FOLDS, Array, Domain, multiply_in_parts
from tilegen.arithmetic.field import (
    EXTREMES,
    FIELD,
    JOINED,
    NAN,
    NEG,
    NO_KEY,
    POS,
    P,
    add_values,
    any_nan,
    are_numbers,
    is_infinite,
    make_finite,
    multiply_matrices,
    multiply_numbers,
    multiply_values,
    negate_values,
    order_keys,
    reduce_by_prime,
    sum_values,
)
from tilegen.arithmetic.formats import holds_all
from tilegen.arithmetic.functions import INTS, UNSIGNED
from tilegen.arithmetic.hashes import factors_of, mix, salt
from tilegen.arithmetic.products import TFLOAT32, TFLOAT32_CUT, TFLOAT32_UNITS, held_type
from tilegen.arithmetic.tree import Apply, Element, Literal, Node, Parameter, Whole, type_of_element
from tilegen.arithmetic.typed import apply_typed, round_to
from tilegen.dtypes import DTYPES, bits_dtype, numpy_dtype

_PIECE = 1 << 14  # elements that are drawn at a time, in a processor's caches
_LARGEST = (1 << 31) - 1, (1 << 63) - 1  # ends of integer types are infinite: identities of min and max
_LEAST = -(1 << 31), -(1 << 63)


def make_modular(dtypes: Iterable[str]) -> Modular:
    """The modular domain for a spec with these element types: the narrowest takes 4 bytes.

    >>> make_modular(["float16", "float32"]).scale, make_modular(["float64"]).scale
    (2, 1)
    """
    return Modular(max(1, 4 // min((DTYPES[d].bytes for d in dtypes), default=4)))


@dataclass(frozen=True)
class Modular(Domain):
    """Values are ints 0 .. P - 1, NEG, POS or NAN; stored, they are spread over their bytes, in each type otherwise.

    Bytes that mix elements, or are of another type, do not decode, but for one chance in 1024, and are an opaque value
    of their bits. 0 has the same bytes in all types.
    """

    scale: int = 1
    adds_freely: ClassVar[bool] = True

    def stored(self, dtype: str) -> np.dtype[Any]:
        return bits_dtype(DTYPES[dtype].bytes * self.scale)

    def encode(self, values: Any, dtype: str) -> Array:
        values = np.asarray(values)
        size = DTYPES[dtype].bytes * self.scale
        factors = factors_of(dtype, size)
        with np.errstate(over="ignore"):
            if size == 4:
                return np.asarray(values.astype(np.uint32) * factors.own[0])
            words = values.astype(np.uint64)[..., None] * factors.own
        return np.asarray(np.ascontiguousarray(words).view(bits_dtype(size))[..., 0])

    def decode(self, bits: Array, dtype: str) -> Array:
        return np.asarray(self._read(bits, dtype), np.int64)

    def _read(self, bits: Array, dtype: str) -> Array:
        """``decode``, as whatever integers hold the values."""
        size = DTYPES[dtype].bytes * self.scale
        factors = factors_of(dtype, size)
        words = np.asarray(bits, order="C" if size > 8 else "K")[..., None].view(factors.own.dtype)
        with np.errstate(over="ignore"):
            values: Array = np.multiply(words[..., 0], factors.inverse)
            bad = values > NAN if values.max(initial=0) > NAN else np.zeros((), bool)
            for k in range(1, words.shape[-1]):
                bad = bad | (words[..., k] != values * factors.own[k])
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
            return self.encode(hash_number(float(value)), dtype)  # type: ignore[arg-type]
        return self.encode(embed_numbers(np.asarray(int(value)).astype(numpy_dtype(dtype))), dtype)  # type: ignore[arg-type]

    # ---------------------------------------------------------------- functions
    def compute(
        self, tree: Node, elements: Sequence[Array], wholes: Sequence[Any], params: Mapping[str, float], dtype: str
    ) -> Array:
        at = _Leaves(self, elements, wholes, params, {})
        value = _value(tree, at)
        if not value.is_known:
            return self.encode(convert_value(value.data, tree, dtype), dtype)
        with np.errstate(all="ignore"):
            if DTYPES[dtype].kind != "float":
                return self.encode(embed_numbers(round_to(value.data, dtype)), dtype)
        wide = dtype in ("float32", "float64")
        return self.encode(
            embed_numbers(value.data) if wide else _round(embed_numbers(value.data), tree.type, dtype), dtype
        )

    def convert(self, values: Array, src: str, dst: str) -> Array:
        return self.encode(_round(self.decode(values, src), src, dst, "cut to"), dst)

    def round_to_tfloat32(self, values: Array) -> Array:
        return self.encode(_round_to_tfloat32(self.decode(values, "float32")), "float32")

    def matmul(self, a: Array, b: Array, c: Array | None, dtype_ab: str, dtype_acc: str) -> Array:
        return multiply_in_parts(lambda *some: self._multiply_some(some, dtype_ab, dtype_acc), a, b, c)

    def _multiply_some(self, some: Sequence[Any], dtype_ab: str, dtype_acc: str) -> Array:
        a, b, c = some
        held = held_type(dtype_ab)
        x, y, z = self._read(a, held), self._read(b, held), 0 if c is None else self.decode(c, dtype_acc)
        if dtype_ab in TFLOAT32_UNITS and dtype_ab != TFLOAT32_CUT:
            x, y = (_round_to_tfloat32(np.asarray(v, np.int64)) for v in (x, y))
        if are_numbers(x, y, np.asarray(z)):
            return self.encode(multiply_numbers(x, y, z), dtype_acc)
        return self.encode(add_values(multiply_matrices(x, y), np.asarray(z)), dtype_acc)

    def update(self, function: str, held: Array, new: Array, dtype: str) -> Array:
        """Of floats too in any order the same: what rounds is looked at with bounds alone."""
        read = self._read_terms if function == "add" else self.decode
        is_unsigned = function in EXTREMES and type_of_element(dtype) in UNSIGNED
        join = EXTREMES[function].join_unsigned if is_unsigned else JOINED[function]
        return self.encode(join(read(held, dtype), read(new, dtype)), dtype)

    def _read_terms(self, bits: Array, dtype: str) -> Array:
        """Elements that are added: no integer absorbs others."""
        own = self.decode(bits, dtype)
        return make_finite(own) if type_of_element(dtype) in INTS else own

    def fold(self, function: str, values: Array, axis: int, dtype: str) -> Array:
        if function == "+":
            return self.encode(sum_values(self._read_terms(values, dtype), axis), dtype)
        if function in ("max", "min"):
            extreme, own = EXTREMES[function], self.decode(values, dtype)
            is_unsigned = type_of_element(dtype) in UNSIGNED
            return self.encode(extreme.fold_unsigned(own, axis) if is_unsigned else extreme.fold(own, axis), dtype)
        if function not in FOLDS:
            raise ValueError(f"fold takes {', '.join(FOLDS)}, not {function}")
        return super().fold(function, values, axis, dtype)

    def scan(self, function: str, values: Array, axis: int, dtype: str) -> Array:
        if function == "+":
            own = self._read_terms(values, dtype)
            if are_numbers(own):
                return self.encode(reduce_by_prime(own.cumsum(axis)), dtype)
        return super().scan(function, values, axis, dtype)


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
        return _Value(False, np.asarray(hash_parameter(node.name)))
    if isinstance(node, Literal):
        if node.type in ("float32", "float64"):
            return _Value(False, np.asarray(hash_number(float(node.value))))
        return _Value(True, np.asarray(node.value).astype(node.type))
    args = [_value(arg, at) for arg in node.args]
    if node.function == "where":
        return _choose(*args)
    if all(a.is_known for a in args) and node.type not in ("float32", "float64"):
        with np.errstate(all="ignore"):
            return _Value(True, apply_typed(node.function, [a.data for a in args], node.type))
    if node.type in ("float32", "float64") and node.function == node.type and args[0].is_known:
        return _Value(False, embed_numbers(args[0].data))
    data = evaluate_function(node.function, [embed_numbers(a.data) if a.is_known else a.data for a in args], node)
    return _Value(False, data)


def _choose(condition: _Value, yes: _Value, no: _Value) -> _Value:
    """What a condition that nobody knows chooses is a number between both, which neither of them alone comes to."""
    if condition.is_known and yes.is_known and no.is_known:
        return _Value(True, np.where(condition.data, yes.data, no.data))
    arms = [embed_numbers(v.data) if v.is_known else v.data for v in (yes, no)]
    return _Value(False, choose_value(condition.data.astype(np.int64), *arms))


def choose_value(share: Array, yes: Array, no: Array) -> Array:
    """One arm by a condition of 1 or 0, a number between both by any other; all are values of the domain.

    Between an infinite arm and another lies a number of all three: it hides none of them.
    """
    between = add_values(no, multiply_values(share, add_values(yes, negate_values(no))))
    is_open = (is_infinite(yes) | is_infinite(no)) & (share < P) & ~any_nan([yes, no])
    if is_open.any():
        between = np.where(is_open, np.where(yes == no, yes, _opaque("where", share, yes, no)), between)
    return np.where(share == 0, no, np.where(share == 1, yes, between))


def evaluate_function(function: str, args: Sequence[Array], node: Any) -> Array:
    """A function of values of the domain, as a node applies it."""
    if node.args[-1].type in UNSIGNED and function not in ("where", node.type):
        return _apply_unsigned(function, args, node.args[-1].type)
    if function in FIELD:
        is_whole = node.type in INTS and function not in EXTREMES
        return FIELD[function](*map(make_finite, args)) if is_whole else FIELD[function](*args)
    if function in _COMPARED:
        return _compare(function, args[0], args[1])
    if function == node.type:  # a conversion
        return convert_value(args[0], node.args[0], node.type)
    result = _opaque(function, *args)
    if function in ("exp", "exp2"):
        result = np.where(args[0] == NEG, 0, np.where(args[0] == POS, POS, result))
    elif function == "abs":
        result = np.where((args[0] == NEG) | (args[0] == POS), POS, np.where(args[0] == 0, 0, result))
    elif function == "/":
        a, b = args
        result = np.where(is_infinite(b), 0, np.where(is_infinite(a), a, result))
        result = np.where(is_infinite(a) & is_infinite(b), NAN, result)
    return np.where(any_nan(args), NAN, result)


def _apply_unsigned(function: str, args: Sequence[Array], type_: str) -> Array:
    """Of numbers without a sign: the largest that the type has is infinite for min and max alone."""
    if function in EXTREMES:
        return EXTREMES[function].join_unsigned(*args)
    if function in _COMPARED:
        return _compare(function, args[0], args[1], type_)
    return FIELD[function](*map(make_finite, args)) if function in FIELD else _opaque(f"{function} {type_}", *args)


def _compare(function: str, a: Array, b: Array, type_: str = "") -> Array:
    """1 or 0 of what is equal or no number; of other numbers one that is told by both, as ``not`` and turning round
    have it. ``type_``: of numbers without a sign, whose order is another one.
    """
    keys = order_keys(a), order_keys(b)
    strange = (keys[0] == NO_KEY) | (keys[1] == NO_KEY)
    known = np.where(strange, function == "!=", _COMPARED[function](*keys)).astype(np.int64)
    if function in ("==", "!="):
        told = _opaque("==", np.minimum(a, b), np.maximum(a, b))
    else:
        told = _opaque(f"<{type_}", b, a) if function in (">", "<=") else _opaque(f"<{type_}", a, b)
    told = FIELD["not"](told) if function in ("<=", ">=", "!=") else told
    return np.where((a == b) | (a >= P) | (b >= P), known, told)


def convert_value(values: Array, of: Node, dtype: str) -> Array:
    """What a node comes to, in another type: a sum or product of integers has lost what its own does not hold."""
    if isinstance(of, Apply) and of.type in INTS and of.function in _WRAPPING:
        is_wide = DTYPES[dtype].kind == "float" or DTYPES[dtype].bytes > DTYPES[of.type].bytes
        values = _opaque(f"wrap {of.type}", values) if is_wide else values
    return _round(values, of.type, dtype)


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


_WRAPPING = {"+", "-", "*", "neg"}
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


def embed_numbers(values: Array) -> Array:
    """Integers and truth values as values of the domain."""
    own = np.asarray(values)
    if own.dtype in (np.uint32, np.uint64):
        return np.where(own == np.iinfo(own.dtype).max, POS, (own % own.dtype.type(P)).astype(np.int64))
    whole = own.astype(np.int64)
    result = whole % P
    low, high = np.isin(whole, _LEAST), np.isin(whole, _LARGEST)
    return np.where(low, NEG, np.where(high, POS, result)) if (low | high).any() else result


def hash_number(value: float) -> int:
    """A float of the text: 0, 1, -1 and the infinities are themselves, each other number is told by its hash."""
    if value != value:
        return NAN
    if value in (float("inf"), float("-inf")):
        return POS if value > 0 else NEG
    return int(value) % P if value in (0.0, 1.0, -1.0) else _opaque_number(value)


def hash_parameter(name: str) -> int:
    """What stands for a floating param, whatever its value is."""
    return _opaque_number(f"parameter {name}")


def _opaque_number(value: Any) -> int:
    return int(_fold_to_number(np.asarray(salt(f"number {value!r}"))))


def _opaque(function: str, *args: Array) -> Array:
    mixed: Any = salt(f"function {function}")
    for arg in args:
        mixed = mix(arg.astype(np.uint64), mixed)
    return _fold_to_number(mixed)


def _fold_to_number(words: Any) -> Array:
    """Hashes as numbers, uniform."""
    return np.asarray(reduce_by_prime(np.asarray(words, np.uint64)), np.int64)
