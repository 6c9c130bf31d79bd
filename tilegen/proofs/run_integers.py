"""Integers that name places are run, never hashed: which arrays hold such, and the contents that they are run with.

What reaches the index of a scatter, through any ops, is what the machine has: its inputs are drawn within the range
that the caller promises, in several kinds that together show both ends, equal neighbours, one value everywhere, and
every value in turn. All else stays hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic import find_elements
from tilegen.arithmetic.hashes import mix, salt
from tilegen.arithmetic.running import Running
from tilegen.arithmetic.values import Values, count_integers, draw_values, list_floats
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.index import evaluate
from tilegen.kept import keep
from tilegen.ops.indexed import axis_of, find_extent
from tilegen.plan import Memory, default_values
from tilegen.spec.data import Call, Spec
from tilegen.spec.form import list_fields, operand_field
from tilegen.spec.outline import outline

Array = NDArray[Any]
Drawn = Callable[[Array], Array]
RANDOM, NEIGHBOURS, RAMP, LEAST, LARGEST = "random", "equal neighbours", "a ramp", "all the least", "all the largest"
KINDS = (RANDOM, NEIGHBOURS, RAMP, LEAST, LARGEST)
MIXED = "stretches of each kind"
_STRETCH = 97  # elements of a stretch: a prime, so that no tile is as long
_BESIDE = 3  # integers without a range are drawn from so far below 0 to so far beyond what they count in
_ENDS = 8  # one in so many of those is an end of its type
_FLOATS = 257  # numbers that floats are drawn from: a prime, so that no tile is as long


@keep
def find_run(spec: Spec) -> frozenset[str]:
    """The buffers, by root, whose elements can reach a place: an index, or what one is made of, through any ops."""
    return find_run_with(spec, ())


def find_run_with(spec: Spec, wanted: Iterable[str]) -> frozenset[str]:
    """The same where elements of the buffers ``wanted`` reach places too, as a later pass reads them."""
    calls = outline(spec).calls
    found = {*wanted, *(root for call in calls for root in _list_indices(call))}
    while True:
        more = {root for call in calls for root in _list_sources(call, found)} - found
        if not more:
            return frozenset(found)
        found |= more


def _list_indices(call: Call) -> Iterator[str]:
    """The buffers that an index is made of."""
    if call.form.index and call.expression is not None:
        operands = list(call.expression.operands.values())
        yield from (operands[e.number].buffer.root for e in find_elements(call.expression.trees[-1]))


def _list_sources(call: Call, found: set[str]) -> Iterator[str]:
    """The buffers that a call makes elements of ``found`` of."""
    results = [name for name in call.fields_written if call.regions[name].buffer.root in found]
    if not results:
        return
    own = list_fields(call.regions, (*call.form.reads, *call.form.updates))
    yield from (call.regions[name].buffer.root for name in own)
    if call.expression is None:
        return
    operands = list(call.expression.operands)
    trees = call.expression.trees
    named = list_fields(call.regions, ("dst",))
    if not call.form.index and len(trees) == len(named) and all(name in named for name in results):
        trees = tuple(tree for name, tree in zip(named, trees, strict=True) if name in results)
    for tree in trees:
        yield from (call.regions[operand_field(operands[e.number])].buffer.root for e in find_elements(tree))


def list_contents(
    spec: Spec, domain: Running, read: Iterable[Memory], params: Mapping[str, int], seed: int
) -> list[dict[str, Drawn]]:  # fmt: skip
    """Inputs of each kind for the arrays that are read, those that are run drawn, the others hashed.

    With the params' defaults each kind fills whole arrays; with others one input has stretches of each.
    """
    run, near = find_run(spec), find_extents(spec, params)
    found = []
    for kind in KINDS if dict(params) == default_values(spec.params) else (MIXED,):
        inputs: dict[str, Drawn] = {}
        for m in (*read, *_list_before(spec)):
            if m.name in inputs:
                continue
            if (m.name in run or m.access == "before") and DTYPES[m.dtype].kind != "complex":
                values = None if m.values is None else m.values.at(params)
                inputs[m.name] = domain.draw_run(draw_kind(values, m.dtype, m.name, kind, seed, near), m.dtype)
            else:
                inputs[m.name] = _hash(domain, m, seed)
        found.append(inputs)
    return found


def _list_before(spec: Spec) -> list[Memory]:
    """The caller's arrays of passes before: integers of theirs may lead to a place too."""
    buffers = (b for one in spec.before for b in one.spec.buffers if b.traits.is_callers and b.root == b.name)
    return [Memory(b.name, b.dtype, b.shape, b.shape, b.scope, "before", values=b.values) for b in buffers]


def _hash(domain: Running, m: Memory, seed: int) -> Drawn:
    return lambda index: domain.draw(m.name, m.dtype, index, seed)


def find_extents(spec: Spec, params: Mapping[str, int]) -> int:
    """The most places that an index of the spec counts in."""
    most = 1
    for call in outline(spec).calls:
        if call.form.index:
            region = call.indexed
            kept = [d for d, is_kept in enumerate(region.kept) if is_kept]
            most = max(most, int(evaluate(find_extent(region, kept[axis_of(call)]), dict(params))))
    return most


def draw_kind(values: Values | None, dtype: str, name: str, kind: str, seed: int, near: int) -> Drawn:
    """Elements by index, of one kind, within what their caller promises.

    Without a promise integers lie around the ``near`` places that are counted, some of them far away.

    >>> draw_kind(Values(0, 3), "int32", "ids", RAMP, 1, 3)(np.arange(5)).tolist()
    [0, 1, 2, 0, 1]
    """
    if values is not None and (values.is_distinct or values.pieces is not None):
        return draw_values(values, dtype, name, seed + (*KINDS, MIXED).index(kind), is_dense=kind in (LEAST, LARGEST))
    if kind == MIXED:
        return _mix_kinds([draw_kind(values, dtype, name, one, seed, near) for one in KINDS], name, seed)
    if DTYPES[dtype].kind in ("float", "bool"):
        return _draw_of(_list_numbers(values, dtype), name, kind, seed)
    if values is None:
        values, far = _around(dtype, near)
    else:
        far = False
    if kind == RANDOM:
        drawn = draw_values(values, dtype, name, seed)
        return _with_ends(drawn, dtype, name, seed) if far else drawn
    low, count = int(values.low), count_integers(values)  # type: ignore[arg-type]

    def number(place: Array) -> Array:
        return (low + (place.astype(np.uint64) % np.uint64(count)).astype(np.int64) * values.step).astype(
            numpy_dtype(dtype)
        )

    return lambda index: number(_place(np.asarray(index), name, kind, seed, count))


def _mix_kinds(kinds: list[Drawn], name: str, seed: int) -> Drawn:
    """Stretches of elements, each of one of the kinds."""
    word = salt(f"stretches {name} {seed}")

    def values(index: Array) -> Array:
        at = np.asarray(index)
        chosen = mix((at // _STRETCH).astype(np.uint64), word) % np.uint64(len(kinds))
        return np.asarray(np.choose(chosen.astype(np.intp), [draw(at) for draw in kinds]))

    return values


def _around(dtype: str, near: int) -> tuple[Values, bool]:
    """A range of integers around what is counted, and whether the type goes beyond it."""
    info = np.iinfo(dtype)
    own = Values(max(int(info.min), -_BESIDE), min(int(info.max), near + _BESIDE) + 1)
    return own, int(own.low) > int(info.min) or int(own.high) <= int(info.max)  # type: ignore[arg-type]


def _with_ends(drawn: Drawn, dtype: str, name: str, seed: int) -> Drawn:
    """Some elements are an end of their type instead."""
    word, info = salt(f"ends {name} {seed}"), np.iinfo(dtype)

    def values(index: Array) -> Array:
        chosen = mix(np.asarray(index).astype(np.uint64), word) % np.uint64(2 * _ENDS)
        found = drawn(index)
        found = np.where(chosen == 0, np.array(info.max, found.dtype), found)
        return np.asarray(np.where(chosen == 1, np.array(info.min, found.dtype), found))

    return values


def _place(index: Array, name: str, kind: str, seed: int, count: int) -> Array:
    """The number among those of a range that each element is."""
    if kind == RAMP:
        return index
    if kind in (LEAST, LARGEST):
        return np.full(index.shape, 0 if kind == LEAST else count - 1, np.int64)
    word = salt(f"run {name} {kind} {seed}")
    pairs = index - (mix((index // 4).astype(np.uint64), word) % np.uint64(3)).astype(np.int64)
    own = pairs // 3 if kind == NEIGHBOURS else index
    return np.asarray(mix(own.astype(np.uint64), word) >> np.uint64(1))


def _list_numbers(values: Values | None, dtype: str) -> Array:
    """Floats (or truth values) that rise, a few of them to be met again and again."""
    if DTYPES[dtype].kind == "bool":
        return np.array([False, True])
    if values is not None:
        return np.unique(list_floats(float(values.low), float(values.high), dtype)[:: 1 << 5])  # type: ignore[arg-type]
    found = np.unique(np.linspace(-8, 8, _FLOATS).astype(numpy_dtype(dtype)).astype(np.float64))
    return found.astype(numpy_dtype(dtype))


def _draw_of(numbers: Array, name: str, kind: str, seed: int) -> Drawn:
    count = len(numbers)

    def values(index: Array) -> Array:
        place = _place(np.asarray(index), name, kind, seed, count).astype(np.uint64) % np.uint64(count)
        return numbers[place.astype(np.intp)]

    return values
