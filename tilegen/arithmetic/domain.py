"""What the values of a run are, and what is computed with them: one ``Domain`` for the interpreter and the reference.

TYPED has the hardware's types. Others keep something else in the place of each element, in as many bytes for each byte
of the element (``scale``), so that layouts, views, vectors and swizzles mean what they mean: a place in memory is
counted in bytes of the hardware, and only the arrays that hold the bytes are wider.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic.functions import FUNCTIONS
from tilegen.arithmetic.products import SCALED, even_to_tfloat32, held_type, multiply
from tilegen.arithmetic.tree import Apply, Element, Node, type_of_element
from tilegen.arithmetic.typed import cast_to, evaluate_typed
from tilegen.dtypes import FACTOR, bits_dtype, numpy_dtype

Array = NDArray[Any]
FOLDS = ("+", "*", "max", "min")
UPDATES = ("add", "min", "max", "and", "or", "xor")  # what an atomic does with an element: any order gives the same
_IN_CACHES = 1 << 18  # elements of matrices


class Domain(ABC):
    """What values are. Arrays of values that lie in memory have the NumPy dtype ``stored(dtype)``.

    ``scale``: bytes that hold one byte of an element. All arguments broadcast; zero is stored as bytes of 0.
    ``adds_freely``: a matmul is the same bits as several of parts of K, each on top of the one before.
    """

    scale: int = 1
    adds_freely: ClassVar[bool] = False

    @abstractmethod
    def stored(self, dtype: str) -> np.dtype[Any]:
        """How an element of ``dtype`` is stored: in ``scale`` times its bytes."""

    def bits(self, elem_bytes: int) -> np.dtype[Any]:
        """The opaque dtype of what holds an element of so many bytes."""
        return bits_dtype(elem_bytes * self.scale)

    @abstractmethod
    def encode(self, values: Any, dtype: str) -> Array:
        """The domain's own values, stored."""

    @abstractmethod
    def decode(self, bits: Array, dtype: str) -> Any:
        """The inverse of ``encode``."""

    def integers(self, bits: Array, dtype: str) -> NDArray[np.int64]:
        """The numbers that stored elements of an integer type are. Raises TypeError where values are no numbers."""
        raise TypeError(f"{type(self).__name__} knows no numbers")

    @abstractmethod
    def compute(
        self, tree: Node, elements: Sequence[Array], wholes: Sequence[Any], params: Mapping[str, float], dtype: str
    ) -> Array:
        """The value of a tree, rounded to ``dtype`` and stored.

        ``elements``: stored arrays, one for each operand; ``wholes``: the integers by number; ``params``: those of
        floating type by name.
        """

    @abstractmethod
    def convert(self, values: Array, src: str, dst: str) -> Array:
        """The same numbers in another type, as the op ``cast`` has it (``cast_to``)."""

    @abstractmethod
    def round_to_tfloat32(self, values: Array) -> Array:
        """float32 elements rounded to TFLOAT32_EVEN, as float32 elements."""

    @abstractmethod
    def fill(self, value: float | int | complex | bool, dtype: str) -> Array:
        """A number of the text, stored: an array without dimensions."""

    @abstractmethod
    def matmul(self, a: Array, b: Array, c: Array | None, dtype_ab: str, dtype_acc: str) -> Array:
        """Products of matrices (.., M, K) and (.., K, N), plus ``c`` (.., M, N) where given, stored as ``dtype_acc``.

        The elements of a and b are of ``dtype_ab``, where float32 may be multiplied as TFLOAT32, _CUT or _EVEN;
        products and sums are those of ``dtype_acc``.
        """

    def scale_by(self, values: Array, factors: Array, dtype: str) -> Array:
        """Elements of ``dtype`` by powers of two, as elements of what products of SCALED multiply.

        >>> TYPED.scale_by(np.float32([3]).astype("f4"), numpy_dtype(FACTOR).type(0.5), "float32").tolist()
        [1.5]
        """
        wide = held_type(SCALED)
        return self.combine("*", self.convert(values, dtype, wide), self.convert(factors, FACTOR, wide), wide)

    def combine(self, function: str, a: Array, b: Array, dtype: str) -> Array:
        """A function of two elements of one dtype, as an element of it.

        >>> TYPED.combine("+", np.float32([1, 2]), np.float32([3, 4]), "float32")
        array([4., 6.], dtype=float32)
        """
        return self.compute(_of_two(function, dtype), [a, b], [], {}, dtype)

    def of(self, memory: str) -> Domain:
        """The domain that elements of a memory, or array, of this name are updated in."""
        return self

    @abstractmethod
    def update(self, function: str, held: Array, new: Array, dtype: str) -> Array:
        """What one of UPDATES leaves of elements of a dtype: integers wrap, and bits are those of the type.

        >>> TYPED.update("add", np.uint64([2**64 - 1]), np.uint64([3]), "uint64").tolist()
        [2]
        """

    def accumulate(self, function: str, held: Array, new: Array, places: Array, dtype: str) -> Array:
        """``held`` after ``update`` by each element of ``new`` at its place (number) there: in no order that counts.

        >>> TYPED.accumulate("max", np.int32([1, 2]), np.int32([5, 7, 3]), np.array([0, 0, 1]), "int32").tolist()
        [7, 3]
        """
        result, order = held.copy(), np.argsort(places, kind="stable")
        new, places = new[order], places[order]
        while len(places):  # neighbours at one place become one, until each place has one
            first = np.flatnonzero(np.diff(places, prepend=places[:1] - 1))
            number = np.arange(len(places)) - np.repeat(first, np.diff(first, append=len(places)))
            is_left = number % 2 == 0
            pair = np.flatnonzero(~is_left)
            if not len(pair):
                result[places] = self.update(function, result[places], new, dtype)
                break
            new = new.copy()
            new[pair - 1] = self.update(function, new[pair - 1], new[pair], dtype)
            new, places = new[is_left], places[is_left]
        return result

    def fold(self, function: str, values: Array, axis: int, dtype: str) -> Array:
        """``+``, ``*``, ``max`` or ``min`` of all elements of a dtype along an axis, which stays, with one element.

        The sum of one dtype: what is summed in a wider one is converted before.

        >>> TYPED.fold("max", np.float32([[1, 5], [2, 3]]), 1, "float32").tolist()
        [[5.0], [3.0]]
        """
        result = np.take(values, [0], axis)
        for k in range(1, values.shape[axis]):
            result = self.combine(function, result, np.take(values, [k], axis), dtype)
        return result

    def scan(self, function: str, values: Array, axis: int, dtype: str) -> Array:
        """What ``fold`` makes of the elements up to each, along an axis.

        >>> TYPED.scan("+", np.float32([[1, 5, 2]]), 1, "float32").tolist()
        [[1.0, 6.0, 8.0]]
        """
        found, count = values.copy(), values.shape[axis]
        rows, distance = np.moveaxis(found, axis, 0), 1
        while distance < count:
            before, own = (np.ascontiguousarray(part) for part in (rows[:-distance], rows[distance:]))
            rows[distance:] = self.combine(function, before, own, dtype)
            distance *= 2
        return found


def multiply_in_parts(multiply: Callable[..., Array], a: Array, b: Array, c: Array | None) -> Array:
    """``multiply(a, b, c)`` of stacks of matrices, some of them at a time: so many as lie in a processor's caches.

    >>> ones = np.ones((5000, 8, 8))
    >>> bool((multiply_in_parts(lambda a, b, c: a @ b + c, ones, ones, ones) == 9).all())
    True
    """
    stacks = [x for x in (a, b, c) if x is not None]
    some = max(1, _IN_CACHES * len(a) // max(1, sum(x.size for x in stacks)))
    if len(a) <= some or any(x.ndim < 3 or len(x) != len(a) for x in stacks):
        return multiply(a, b, c)
    parts = [slice(first, first + some) for first in range(0, len(a), some)]
    return np.concatenate([multiply(a[at], b[at], None if c is None else c[at]) for at in parts])


def _of_two(function: str, dtype: str) -> Node:
    type_ = type_of_element(dtype)
    if function not in FUNCTIONS or FUNCTIONS[function].sources != 2:
        raise ValueError(f"{function} is no function of two numbers")
    return Apply(function, (Element(0, dtype), Element(1, dtype)), type_)


class Typed(Domain):
    """The hardware's types, every node of a tree rounded once."""

    def stored(self, dtype: str) -> np.dtype[Any]:
        return numpy_dtype(dtype)

    def encode(self, values: Any, dtype: str) -> Array:
        return np.asarray(values, numpy_dtype(dtype))

    def decode(self, bits: Array, dtype: str) -> Array:
        return np.ascontiguousarray(bits).view(numpy_dtype(dtype))

    def integers(self, bits: Array, dtype: str) -> NDArray[np.int64]:
        return bits.astype(np.int64)

    def compute(
        self, tree: Node, elements: Sequence[Array], wholes: Sequence[Any], params: Mapping[str, float], dtype: str
    ) -> Array:
        return evaluate_typed(tree, elements, wholes, params, dtype)

    def convert(self, values: Array, src: str, dst: str) -> Array:
        return cast_to(values, src, dst)

    def round_to_tfloat32(self, values: Array) -> Array:
        return even_to_tfloat32(self.decode(values, "float32"))

    def fill(self, value: float | int | complex | bool, dtype: str) -> Array:
        return np.asarray(value).astype(numpy_dtype(dtype))

    def update(self, function: str, held: Array, new: Array, dtype: str) -> Array:
        """Floats are rounded in their own type, to nearest even (PTX ISA, ``red``)."""
        type_ = numpy_dtype(dtype)
        if type_.kind not in "iu":
            return self.combine({"add": "+"}.get(function, function), held, new, dtype)
        return np.asarray(_OF_INTEGERS[function](held, new), type_)

    def matmul(self, a: Array, b: Array, c: Array | None, dtype_ab: str, dtype_acc: str) -> Array:
        """Each product exact, the sum rounded once to the accumulator's type.

        mma.sync and wgmma do not say in which order they add, nor where they round (PTX ISA: "accumulation order is
        unspecified"); how far any order may be from this one is what ``Bounded.matmul`` adds up.
        """
        shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
        before = np.zeros(shape, numpy_dtype(dtype_acc)) if c is None else np.broadcast_to(c, shape)
        return multiply(a, b, before, dtype_ab, dtype_acc)


_OF_INTEGERS: dict[str, Callable[..., Array]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip
TYPED = Typed()
