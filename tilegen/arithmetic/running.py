"""The modular domain of a spec in which memory decides places: what leads to a place is the machine's own.

An element is *run* or *hashed*. A run one is what the machine has: its bits are known, integers are computed with as
the machine does, and comparisons are real. All else is hashed, as ``modular`` has it. Its bytes tell which it is: an
input that can reach a place is drawn as run (``draw_run``), and so are the numbers and integers of the text. What is
computed of run elements alone is run; where one meets a hashed element it becomes a hash of itself, another for each
value (of 0, 1, -1 and the infinities what a number of the text is).

Integers wrap, so that no order of a sum changes it. Floats do not add the same in every order: of them comparisons,
choices, signs and conversions stay run, and every other function is hashed. No such float can name a place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic.domain import TYPED, Array, Domain
from tilegen.arithmetic.functions import INTS
from tilegen.arithmetic.hashes import WordFactors, factors_of, salt
from tilegen.arithmetic.modular import (
    Modular,
    choose_value,
    convert_value,
    embed_numbers,
    evaluate_function,
    hash_number,
    hash_parameter,
)
from tilegen.arithmetic.tree import Apply, Element, Literal, Node, Parameter, Whole, type_of_element
from tilegen.arithmetic.typed import apply_typed, cast_to, round_to
from tilegen.dtypes import DTYPES, bits_dtype, numpy_dtype

_LEAST_BYTES = 8  # of a stored element: 4 bytes of the machine's leave as many that tell whether they are
_FOLDED = {"+": np.add, "*": np.multiply, "max": np.maximum, "min": np.minimum}
_EXACT = ("<", "<=", ">", ">=", "==", "!=", "min", "max", "abs", "neg", "where", "float32", "float64")


def make_running(dtypes: Iterable[str], run: Iterable[str] | None = None) -> Running:
    """The domain for a spec with these element types, some of whose integers name places: those of memories ``run``,
    or of all.

    >>> make_running(["float32", "uint8"]).scale, make_running(["int64"]).scale
    (8, 2)
    """
    scale = max(2, _LEAST_BYTES // min((DTYPES[d].bytes for d in dtypes), default=4))
    return Running(scale, None if run is None else frozenset(run))


@dataclass(frozen=True)
class Held:
    """Elements of one array: ``is_run`` of each, the machine's values of those, and what stands for the others.

    ``run`` and ``hashed`` mean nothing where the other counts; either may be None where it counts nowhere.
    """

    is_run: bool | Array
    run: Array | None
    hashed: Array | None

    @property
    def numbers(self) -> Array:
        """All of them as values of the modular domain."""
        if self.run is None:
            assert self.hashed is not None
            return self.hashed
        own = embed_run(self.run)
        return own if self.hashed is None else np.where(self.is_run, own, self.hashed)


@dataclass(frozen=True)
class Running(Modular):
    """Hashed elements are stored as ``Modular`` has them; run ones are their bits, times factors of their own.

    Bytes that mix elements, or are of another type, are neither, but for one chance in 2^32.
    """

    scale: int = 2
    run: frozenset[str] | None = None  # memories whose elements are updated as the machine does; None: all

    # ---------------------------------------------------------------- storage
    def encode_run(self, values: Any, dtype: str) -> Array:
        """The machine's elements of a dtype, stored.

        >>> domain = make_running(["int32"])
        >>> domain.integers(domain.encode_run([-5, 7], "int32"), "int32").tolist()
        [-5, 7]
        """
        own = np.asarray(values, numpy_dtype(dtype))
        payload = np.ascontiguousarray(own).view(bits_dtype(own.dtype.itemsize)).reshape(own.shape)
        with np.errstate(over="ignore"):
            words = np.asarray(payload).astype(np.uint64)[..., None] * self._factors(dtype).own
        return self._join(words, dtype)

    def _factors(self, dtype: str) -> WordFactors:
        return _run_factors(dtype, DTYPES[dtype].bytes * self.scale)

    def _join(self, words: NDArray[np.uint64], dtype: str) -> Array:
        stored = self.stored(dtype)
        return np.asarray(np.ascontiguousarray(words).view(stored)[..., 0])

    def look(self, bits: Array, dtype: str) -> tuple[Array, Array]:
        """(Which stored elements are run, and what the machine has there); a 0 is both run and hashed."""
        size = DTYPES[dtype].bytes
        factors = self._factors(dtype)
        words = np.ascontiguousarray(bits)[..., None].view(np.uint64)
        if DTYPES[dtype].kind == "complex":
            return np.asarray(~words.any(-1)), np.zeros(words.shape[:-1], numpy_dtype(dtype))
        with np.errstate(over="ignore"):
            payload: Array = np.asarray(words[..., 0] * factors.inverse)
            is_run: Array = np.ones(payload.shape, bool)
            for k in range(1, words.shape[-1]):
                is_run &= words[..., k] == payload * factors.own[k]
        if DTYPES[dtype].kind == "bool":
            return is_run & (payload <= 1), np.asarray((payload & np.uint64(1)).astype(bool))
        if size < 8:
            is_run &= payload < np.uint64(1 << 8 * size)
        small = np.ascontiguousarray(payload.astype(bits_dtype(size)))
        return is_run, np.asarray(small[..., None].view(numpy_dtype(dtype))[..., 0])

    def _read(self, bits: Array, dtype: str) -> Array:
        hashed = super()._read(bits, dtype)
        is_run, own = self.look(bits, dtype)
        return np.where(is_run, embed_run(own), hashed) if is_run.any() else hashed

    def integers(self, bits: Array, dtype: str) -> NDArray[np.int64]:
        """The numbers that run integers are. Raises TypeError where an element is hashed."""
        is_run, own = self.look(bits, dtype)
        if not is_run.all():
            raise TypeError("an element is no number that the machine would have")
        return own.astype(np.int64)

    def draw_run(self, values: Callable[[Array], Array], dtype: str) -> Callable[[Array], Array]:
        """Stored elements of an input array by flat index, of the machine's."""
        return lambda index: self.encode_run(values(np.asarray(index)), dtype)

    def fill(self, value: float | int | complex | bool, dtype: str) -> Array:
        if DTYPES[dtype].kind == "complex":
            return super().fill(value, dtype)
        return self.encode_run(np.asarray(value).astype(numpy_dtype(dtype)), dtype)

    # ---------------------------------------------------------------- functions
    def compute(
        self, tree: Node, elements: Sequence[Array], wholes: Sequence[Any], params: Mapping[str, float], dtype: str
    ) -> Array:
        found = _value(tree, _Leaves(self, elements, wholes, params, {}))
        with np.errstate(all="ignore"):
            return self._keep(found, lambda own: round_to(own, dtype), lambda x: convert_value(x, tree, dtype), dtype)

    def convert(self, values: Array, src: str, dst: str) -> Array:
        is_run, own = self.look(values, src)
        if not is_run.any():
            return super().convert(values, src, dst)
        if is_run.all():
            return self.encode_run(cast_to(own, src, dst), dst)
        return self._keep(
            _held(is_run, own, super()._read(values, src)), lambda x: cast_to(x, src, dst),
            lambda x: self.decode(super(Running, self).convert(self.encode(x, src), src, dst), dst), dst,
        )  # fmt: skip

    def _keep(
        self, found: Held, run: Callable[[Array], Array], hashed: Callable[[Array], Array], dtype: str
    ) -> Array:  # fmt: skip
        """Elements stored as a dtype, after ``run`` of the machine's and ``hashed`` of the others."""
        if DTYPES[dtype].kind == "complex" or found.is_run is False:
            return self.encode(hashed(found.numbers), dtype)
        assert found.run is not None
        own = self.encode_run(run(found.run), dtype)
        if found.hashed is None:
            return own
        other = self.encode(hashed(found.hashed), dtype)
        is_run, one, two = np.broadcast_arrays(found.is_run, own, other)
        sides = [np.ascontiguousarray(x)[..., None].view(np.uint64) for x in (one, two)]
        return self._join(np.where(is_run[..., None], *sides), dtype)

    def of(self, memory: str) -> Domain:
        """In a memory that run and hashed elements meet in, all are hashed: so no order of updates counts."""
        return self if self.run is None or memory in self.run else _Hashing(self.scale)

    def update(self, function: str, held: Array, new: Array, dtype: str) -> Array:
        (is_run, before), (more, own) = (self.look(x, dtype) for x in (held, new))
        both = is_run & more
        if DTYPES[dtype].kind == "float" or not both.any():
            return super().update(function, held, new, dtype)
        known = TYPED.update(function, before, own, dtype)
        if both.all():
            return self.encode_run(known, dtype)
        hashed = self._read(super().update(function, held, new, dtype), dtype)
        return self._keep(Held(both, known, hashed), lambda x: x, lambda x: x, dtype)

    def fold(self, function: str, values: Array, axis: int, dtype: str) -> Array:
        is_run, own = self.look(values, dtype)
        if not is_run.all():
            return super().fold(function, values, axis, dtype)
        if type_of_element(dtype) == dtype and dtype in INTS:  # no order of these loses anything
            return self.encode_run(_FOLDED[function].reduce(own, axis, numpy_dtype(dtype), keepdims=True), dtype)
        result = np.take(values, [0], axis)
        for k in range(1, values.shape[axis]):
            result = self.combine(function, result, np.take(values, [k], axis), dtype)
        return result

    def scan(self, function: str, values: Array, axis: int, dtype: str) -> Array:
        is_run, own = self.look(values, dtype)
        if not is_run.all():
            return super().scan(function, values, axis, dtype)
        if type_of_element(dtype) == dtype and dtype in INTS:
            return self.encode_run(_FOLDED[function].accumulate(own, axis, numpy_dtype(dtype)), dtype)
        return Domain.scan(self, function, values, axis, dtype)


@dataclass(frozen=True)
class _Hashing(Running):
    """Run elements are hashed where they are updated."""

    def update(self, function: str, held: Array, new: Array, dtype: str) -> Array:
        return Modular.update(self, function, held, new, dtype)


@cache
def _run_factors(dtype: str, size: int) -> WordFactors:
    """Factors of run elements: words of one are in other proportions than those of a hashed one, whatever it is."""
    found = factors_of(f"run {dtype}", size)
    own, other = found.own.copy(), salt("run") | np.uint64(1)
    with np.errstate(over="ignore"):
        own[1:] *= other
    return WordFactors(own, found.inverse)


def embed_run(values: Array) -> Array:
    """The machine's values as values of the modular domain: integers modulo P, floats as numbers of the text are."""
    values = np.asarray(values)
    if values.dtype.kind in "iub":
        return embed_numbers(values)
    with np.errstate(invalid="ignore"):  # what stands where an element is hashed may be a signalling NaN
        wide = values.astype(np.float64)
    each, where = np.unique(wide.view(np.uint64), return_inverse=True)
    known = np.array([hash_number(float(x)) for x in each.view(np.float64)], np.int64)
    return known[where.reshape(wide.shape)] if each.size else np.zeros(wide.shape, np.int64)


# ---------------------------------------------------------------- trees
@dataclass(frozen=True)
class _Leaves:
    domain: Running
    elements: Sequence[Array]
    wholes: Sequence[Any]
    params: Mapping[str, float]
    seen: dict[int, Held]


def _held(is_run: Array, own: Array, hashed: Array | None) -> Held:
    if hashed is None:
        return Held(True, own, None)
    return Held(is_run, own, hashed) if is_run.any() else Held(False, None, hashed)


def _value(node: Node, at: _Leaves) -> Held:
    if isinstance(node, Element):
        if node.number not in at.seen:
            bits = at.elements[node.number]
            is_run, own = at.domain.look(bits, node.dtype)
            hashed = None if is_run.all() else Modular._read(at.domain, bits, node.dtype)
            at.seen[node.number] = _held(is_run, own.astype(node.type), hashed)
        return at.seen[node.number]
    if isinstance(node, Whole):
        return Held(True, np.asarray(at.wholes[node.number]).astype(node.type), None)
    if isinstance(node, Parameter):
        if node.type in INTS:
            return Held(True, np.asarray(at.params[node.name]).astype(node.type), None)
        return Held(False, None, np.asarray(hash_parameter(node.name)))
    if isinstance(node, Literal):
        return Held(True, np.asarray(node.value).astype(node.type), None)
    args = [_value(arg, at) for arg in node.args]
    return _choose(*args) if node.function == "where" else _apply(node, args)


def _apply(node: Apply, args: Sequence[Held]) -> Held:
    """A function of what is run where all arguments are, and of numbers of the domain elsewhere."""
    types = [node.type, *(arg.type for arg in node.args)]
    stays = node.function in _EXACT or not any(t.startswith("float") for t in types)
    is_run: Any = True
    for arg in args:
        is_run = is_run & np.asarray(arg.is_run)
    is_run = np.asarray(is_run & stays)
    own = hashed = None
    with np.errstate(all="ignore"):
        if is_run.any():
            shaped = [a.run if a.run is not None else np.zeros((), np.int32) for a in args]
            own = apply_typed(node.function, shaped, node.type)
    if not is_run.all():
        hashed = evaluate_function(node.function, [a.numbers for a in args], node)
    if own is None:
        return Held(False, None, hashed)
    return Held(True, own, None) if hashed is None else Held(is_run, own, hashed)


def _choose(condition: Held, yes: Held, no: Held) -> Held:
    """The arm that a run condition takes; what a hashed one chooses lies between both."""
    if condition.is_run is False:
        return Held(False, None, choose_value(condition.numbers, yes.numbers, no.numbers))
    assert condition.run is not None
    picks = condition.run.astype(bool)
    is_run = np.asarray(np.where(picks, yes.is_run, no.is_run) & np.asarray(condition.is_run))
    own = hashed = None
    if is_run.any():
        zero = np.zeros((), (yes.run if yes.run is not None else no.run).dtype)  # type: ignore[union-attr]
        own = np.where(picks, *(zero if arm.run is None else arm.run for arm in (yes, no)))
    if not is_run.all():
        arms = yes.numbers, no.numbers
        hashed = np.where(picks, *arms)
        if condition.is_run is not True:
            hashed = np.where(condition.is_run, hashed, choose_value(condition.numbers, *arms))
    if own is None:
        return Held(False, None, hashed)
    return Held(True, own, None) if hashed is None else Held(is_run, own, hashed)
