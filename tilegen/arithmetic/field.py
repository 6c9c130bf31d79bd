"""The field of numbers modulo a prime P below 2^22, with what is no number: infinities and NaN.

float64 holds the sum of 512 products of its numbers exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tilegen.arithmetic.domain import Array
from tilegen.arithmetic.products import multiply_by_rows, multiply_exactly

P = (1 << 22) - 3
NEG, POS, NAN = P, P + 1, P + 2  # what is no number
_BLOCK = 512  # products whose sum float64 holds: P * P * 512 < 2^53


def is_infinite(a: Array) -> Array:
    return np.asarray((a == NEG) | (a == POS))


def any_nan(args: Sequence[Array]) -> Array:
    """Where any of them is a NaN."""
    return np.asarray(np.logical_or.reduce(np.broadcast_arrays(*[a == NAN for a in args])))


def add_values(a: Array, b: Array) -> Array:
    """An infinity absorbs numbers; both infinities are a NaN."""
    total = reduce_by_prime(a + b)
    if are_numbers(a, b):
        return total
    negs, poss = (a == NEG) | (b == NEG), (a == POS) | (b == POS)
    return _settle(total, negs, poss, (a == NAN) | (b == NAN))


def _settle(numbers: Array, negs: Array, poss: Array, nans: Array) -> Array:
    """A sum of whose terms some are no numbers."""
    result = np.where(negs, NEG, np.where(poss, POS, numbers))
    return np.where(nans | (negs & poss), NAN, result)


def negate_values(a: Array) -> Array:
    result = reduce_by_prime(P - a)
    return np.where(a < P, result, np.where(a == NEG, POS, np.where(a == POS, NEG, NAN)))


def multiply_values(a: Array, b: Array) -> Array:
    """An infinity times anything is infinite; the sign is that of the infinities."""
    product = reduce_by_prime(a * b)
    if are_numbers(a, b):
        return product
    infinite = is_infinite(a) | is_infinite(b)
    result = np.where(infinite, np.where((a == NEG) != (b == NEG), NEG, POS), product)
    return np.where((a == NAN) | (b == NAN), NAN, result)


def sum_values(values: Array, axis: int) -> Array:
    """``add_values`` of all values along an axis, which stays."""
    if are_numbers(values):
        return reduce_by_prime(values.sum(axis, keepdims=True))
    numbers = reduce_by_prime(np.where(values < P, values, 0).sum(axis, keepdims=True))
    kinds = [(values == kind).any(axis, keepdims=True) for kind in (NEG, POS, NAN)]
    return _settle(numbers, *kinds)


def multiply_matrices(a: Array, b: Array) -> Array:
    """Sums of products, with what is no number: (.., M, K) by (.., K, N)."""
    if are_numbers(a, b):
        return multiply_numbers(a, b)
    total = multiply_numbers(*(np.where(x < P, x, 0) for x in (a, b)))

    def meet(left: Array, right: Array) -> Array:
        found: Array = multiply_by_rows(left.astype(np.float32), right.astype(np.float32)) > 0
        return found

    neg_a, neg_b, up_a, up_b = a == NEG, b == NEG, a <= POS, b <= POS
    negs = meet(neg_a, up_b & ~neg_b) | meet(up_a & ~neg_a, neg_b)
    poss = meet(neg_a, neg_b) | meet(a == POS, up_b & ~neg_b) | meet(up_a & ~neg_a, b == POS)
    nans = (a == NAN).any(-1)[..., :, None] | (b == NAN).any(-2)[..., None, :]
    return _settle(total, negs, poss, nans)


def multiply_numbers(a: Array, b: Array, more: Array | int = 0) -> Array:
    """The product of matrices of numbers, and ``more``."""
    x, y, total = a.astype(np.float64, order="C"), b.astype(np.float64, order="C"), np.asarray(more)
    for k in range(0, a.shape[-1], _BLOCK):
        block = multiply_exactly(x[..., k : k + _BLOCK], y[..., k : k + _BLOCK, :])
        total = reduce_by_prime(total + block.astype(np.int64))
    return total


def are_numbers(*values: Array) -> bool:
    return all(v.max(initial=0) < P for v in values)


def reduce_by_prime(values: Array) -> Array:
    """The rest by P: NumPy divides by a constant in half the time that it takes to find a rest."""
    size = values.dtype.type(P)
    return np.asarray(values - values // size * size)


NO_KEY = np.iinfo(np.int64).min + 1


def order_keys(a: Array) -> Array:
    """Numbers in order, -inf before them and inf behind; NO_KEY for a NaN."""
    return np.where(a < P, a, np.where(a == NEG, -1, np.where(a == POS, P, NO_KEY)))


@dataclass(frozen=True)
class _Extreme:
    """max or min: of numbers, the product of what is ``apart`` from them; ``least`` gives way to any number."""

    apart: int
    least: int

    def join(self, a: Array, b: Array) -> Array:
        """A NaN gives way to the other argument, as in fmin and fmax."""
        numbers = reduce_by_prime((a + self.apart) * (b + self.apart) - self.apart)
        if are_numbers(a, b):
            return numbers
        return np.where((a < P) & (b < P), numbers, np.where(self._rank(a) >= self._rank(b), a, b))

    def fold(self, values: Array, axis: int) -> Array:
        """``join`` of all values along an axis, which stays."""
        left = np.moveaxis(values, axis, -1)
        while left.shape[-1] > 1:
            half = left.shape[-1] // 2
            left = np.concatenate([self.join(left[..., :half], left[..., half : 2 * half]), left[..., 2 * half :]], -1)
        return np.moveaxis(left, -1, axis)

    def join_unsigned(self, a: Array, b: Array) -> Array:
        """The same of numbers without a sign, of which 0 gives way to any other as the larger one."""
        joined = self.join(a, b)
        return np.where(a == 0, b, np.where(b == 0, a, joined)) if self.least == NEG else joined

    def fold_unsigned(self, values: Array, axis: int) -> Array:
        """``join_unsigned`` of all values along an axis, which stays."""
        if self.least != NEG:
            return self.fold(values, axis)
        folded = self.fold(np.where(values == 0, NEG, values), axis)
        return np.where(folded == NEG, 0, folded)

    def _rank(self, a: Array) -> Array:
        return np.where(a < P, 2, np.where(a == NAN, 0, np.where(a == self.least, 1, 3)))


EXTREMES = {"max": _Extreme(0x2C7E51, NEG), "min": _Extreme(0x1D4B93, POS)}
FIELD: dict[str, Callable[..., Array]] = {
    "+": add_values, "-": lambda a, b: add_values(a, negate_values(b)), "*": multiply_values, "neg": negate_values,
    "fma": lambda a, b, c: add_values(multiply_values(a, b), c),
    "not": lambda a: reduce_by_prime(P + 1 - a), "and": multiply_values,
    "or": lambda a, b: add_values(a, add_values(b, negate_values(multiply_values(a, b)))),
    **{name: extreme.join for name, extreme in EXTREMES.items()},
}  # fmt: skip


# ---------------------------------------------------------------- bits
_OF_SPECIAL = np.array([0x1B54A3, 0x33E671, 0x0C9D27])  # NEG, POS, NAN where they are bits like any others
_XOR = 0x25F3C9


def make_finite(a: Array) -> Array:
    """The largest and the least number of an integer type as numbers like any others, which absorb nothing."""
    own = np.asarray(a).astype(np.int64)
    return np.where(own < P, own, _OF_SPECIAL[np.clip(own - P, 0, 2)])


def join_bits(function: str, a: Array, b: Array) -> Array:
    """``and``, ``or``, ``xor`` of integers, as products: in any order the same, and twice is not once.

    What leaves all others as they are, and what absorbs them, are those of the integers: -1 and 0 of ``and``, 0 and -1
    of ``or``, 0 and nothing of ``xor``.

    >>> three = np.array([3])
    >>> [int(join_bits(name, three, np.array([n]))[0]) for name, n in (("and", P - 1), ("or", 0), ("xor", 0))]
    [3, 3, 3]
    """
    a, b = make_finite(a), make_finite(b)
    if function == "and":
        return reduce_by_prime(P - reduce_by_prime(a * b))
    if function == "or":
        return reduce_by_prime((a + 1) * (b + 1) + (P - 1))
    return reduce_by_prime(a + b + reduce_by_prime(a * b) * _XOR)


JOINED: dict[str, Callable[..., Array]] = {
    "add": add_values,
    **{name: extreme.join for name, extreme in EXTREMES.items()},
    **{name: partial(join_bits, name) for name in ("and", "or", "xor")},
}
