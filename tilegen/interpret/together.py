"""Trips of unrolled loops that are carried out as one wider step: what they touch, and whether they may be.

Trips of which none reads or writes what another writes can be carried out in any order, and so step by step for all of
them at once: every thread then has a row of each operand for each trip. A chain of trips that fold elements into one is
a fold of the domain. Where a trip would be refused nothing is carried out here: the loop runs trip by trip instead, and
reports the fault where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from tilegen.arithmetic import FOLDS, Apply, Element, type_of_element
from tilegen.index import Index, Var, variables
from tilegen.interpret.address import locate, value_of
from tilegen.interpret.fault import FaultFound
from tilegen.interpret.reading import Root, read_address, read_text
from tilegen.interpret.site import Site
from tilegen.interpret.threads import Array, Group
from tilegen.interpret.wide import Columns, Fold, Together, Unrolled
from tilegen.kept import keep
from tilegen.plan import LDMATRIX, LDMATRIX_TRANS, MOVE, Compute, Map, Mma, Move, Repeat, Step, Touch, effects

_LOADS = (MOVE, LDMATRIX, LDMATRIX_TRANS)


def _sites(site: Site, loops: Sequence[Var], trips: Sequence[tuple[int, ...]]) -> Iterator[Site]:
    """The site of each trip: to be used before the next."""
    inside = site.enter(site.group)
    inside.together = None
    inside.frame.constants |= {v.name for v in loops}
    for values in trips:
        for var, value in zip(loops, values, strict=True):
            inside.frame.define(var, value)
            inside.frame.loops[var.name] = value
        yield inside


# ---------------------------------------------------------------- which trips
def find_together(step: Repeat, site: Site) -> tuple[Unrolled, tuple[Together, ...]] | None:
    """The trips of an unrolled loop, as few times as they can be carried out together; None where one by one.

    What was found is kept for the next time that the loop runs with its operands in the same places.
    """
    nest = _find_nest(step)
    if nest is None or any(v.name in site.machine.trips.loops for v in nest.variables):
        return None
    key, known = _place_key(nest, site), _known_parts(nest)
    if key is None:
        return None
    if key not in known:
        try:
            known[key] = _arrange(nest, site)
        except FaultFound:  # which the trip itself will report
            known[key] = ()
    return (nest, known[key]) if known[key] else None


@keep
def _known_parts(nest: Unrolled) -> dict[object, tuple[Together, ...]]:
    """The trips that are carried out together, by what their columns depend on: empty at first."""
    return {}


@keep
def _find_nest(step: Repeat) -> Unrolled | None:
    loops: list[Var] = []
    counts: list[int] = []
    body: tuple[Step, ...] = (step,)
    while len(body) == 1 and isinstance(inner := body[0], Repeat):
        if not inner.unroll or not isinstance(inner.count, int) or not 0 < inner.count <= inner.var.bound:
            return None
        if inner.var.least > 0 or inner.var.step > 1 or inner.var.name in {v.name for v in loops}:
            return None
        loops.append(inner.var)
        counts.append(inner.count)
        body = inner.body
    if not body or not all(_may_be_wide(s) for s in body) or int(np.prod(counts)) < 2:
        return None
    found = tuple((s, effects(s)) for s in body)
    touches = [t for _, touched in found for t in touched.touches]
    named = {v.name for t in touches for x in t.ref.at for v in variables(x)} - {v.name for v in loops}
    return Unrolled(tuple(loops), tuple(counts), found, tuple(dict.fromkeys(t.ref.memory.name for t in touches)),
                tuple(sorted(named)))  # fmt: skip


def _may_be_wide(step: Step) -> bool:
    if isinstance(step, Move):
        return step.via in _LOADS and step.valid is True
    return isinstance(step, Compute | Map | Mma)


def _place_key(nest: Unrolled, site: Site) -> tuple[object, ...] | None:
    """What the columns of a nest's operands depend on: where its names begin, and outer unrolled variables."""
    key: list[object] = []
    stores: list[object] = []
    for name in nest.memories:
        place = site.frame.places.get(name)
        if place is None:
            return None
        key += [_number(place.root.store, stores), place.root.memory]
        key += [place.root.shape, place.flat, place.coordinates] if place.root.memory.traits.is_held else []
    for name in nest.names:
        value = site.frame.env.get(name)
        key.append(value if name in site.frame.constants and isinstance(value, int) else None)
    return tuple(key)


def _arrange(nest: Unrolled, site: Site) -> tuple[Together, ...]:
    """The trips in as few parts as possible, or none if that saves nothing."""
    trips = list(product(*(range(n) for n in nest.counts)))
    held: list[Touch] = []
    for step, touched in nest.body:
        for touch in touched.touches:
            is_held = site.frame.places[touch.ref.memory.name].root.memory.traits.is_held
            if not is_held and (touch.writes or not isinstance(step, Move)):
                return ()
            held += [touch] if is_held else []
    rows: list[list[Array]] = [[] for _ in held]
    roots: list[int] = [0] * len(held)  # of each operand in registers: the number of its store
    stores: list[object] = []
    for own in _sites(site, nest.variables, trips):
        for k, touch in enumerate(held):
            root, flat = locate(touch.ref, touch.elems, own)
            roots[k] = _number(root.store, stores)
            rows[k].append(flat + np.arange(touch.elems))
    table = tuple((touch, np.array(own, np.int64)) for touch, own in zip(held, rows, strict=True))
    if fold := _find_fold(nest, table, roots):
        return (Together(nest.variables, tuple(trips), nest.counts, table, fold),)
    starts = [0]
    while len(starts) <= len(trips) // 2:
        stop = _count_free(table, roots, starts[-1], len(trips))
        if stop == len(trips):
            ends = [*starts[1:], stop]
            if len(ends) == 1:
                return (Together(nest.variables, tuple(trips), nest.counts, table),)
            parts = zip(starts, ends, strict=True)
            return tuple(
                Together(nest.variables, tuple(trips[a:b]), (b - a,), tuple((touch, c[a:b]) for touch, c in table))
                for a, b in parts
            )
        starts.append(stop)
    return ()


def _number(store: object, stores: list[object]) -> int:
    """The number of a store among those that came before it, which it then is one of."""
    for number, other in enumerate(stores):
        if other is store:
            return number
    stores.append(store)
    return len(stores) - 1


def _count_free(columns: Columns, roots: Sequence[int], first: int, count: int) -> int:
    """The first trip after ``first`` that meets one since: it reads or writes what that writes, or writes its reads."""
    wrote: dict[tuple[int, int], int] = {}
    seen: dict[tuple[int, int], int] = {}  # the last trip that touched it at all
    for trip in range(first, count):
        each = zip(columns, roots, strict=True)
        slots = [(touch, [(root, e) for e in own[trip].tolist()]) for (touch, own), root in each]
        reads = {slot for _, own in slots for slot in own}
        writes = {slot for touch, own in slots if touch.writes for slot in own}
        if any(slot in wrote for slot in reads) or any(slot in seen for slot in writes):
            return trip
        wrote |= dict.fromkeys(writes, trip)
        seen |= dict.fromkeys(reads, trip)
    return count


def _find_fold(nest: Unrolled, columns: Columns, roots: Sequence[int]) -> Fold | None:
    """``x = f(x, y)`` trip after trip, with the element of x first and y never written."""
    (step, touched), more = nest.body[0], nest.body[1:]
    if more or not isinstance(step, Compute) or step.wholes or len(step.srcs) != 2:
        return None
    dst, dtype = touched.written[0], step.dst.memory.dtype
    if len(touched.read) != 2 or any(t.ref.memory.dtype != dtype for t in touched.touches):
        return None
    tree = step.tree
    if not isinstance(tree, Apply) or tree.function not in FOLDS or tree.type != type_of_element(dtype):
        return None
    numbers = [arg.number for arg in tree.args if isinstance(arg, Element)]
    if sorted(numbers) != [0, 1]:
        return None
    into, new = (touched.read[number] for number in numbers)
    root, own = _find_columns(dst, columns, roots)
    into_root, into_columns = _find_columns(into, columns, roots)
    new_root, new_columns = _find_columns(new, columns, roots)
    results = own[:, 0]
    if into_root != root or not np.array_equal(into_columns[:, 0], results):
        return None
    if new_root == root:
        return None  # what is folded could be a result
    each = {int(r): new_columns[results == r, 0] for r in results}
    if len({len(own) for own in each.values()}) > 1 or len(each) == len(results):
        return None
    return Fold(tree.function, dtype, np.array([[r, *own] for r, own in each.items()]))


def _find_columns(touch: Touch, columns: Columns, roots: Sequence[int]) -> tuple[int, Array]:
    """The number of an operand's store, and its columns."""
    return next((root, own) for (one, own), root in zip(columns, roots, strict=True) if one is touch)


# ---------------------------------------------------------------- operands of one trip or of many
def read_held(touch: Touch, site: Site) -> tuple[Root, Array]:
    """The bits of an operand in registers, (threads, *grid of trips, elems); once along loops in which it stays."""
    if site.together is None:
        root, flat = locate(touch.ref, touch.elems, site)
        return root, root.store.read(flat, touch.elems, site.group, site)[:, None]
    root, columns, grid = locate_held(touch, site)
    return root, root.store.read_columns(columns, site.group, site).reshape(len(site.group), *grid, touch.elems)


def locate_held(touch: Touch, site: Site) -> tuple[Root, slice | Array, tuple[int, ...]]:
    """Which elements of registers an operand is, and the grid of trips that they are of."""
    if site.together is None:
        root, flat = locate(touch.ref, touch.elems, site)
        return root, slice(flat, flat + touch.elems), (1,)
    return site.frame.places[touch.ref.memory.name].root, *site.together.find(touch)


def write_held(touch: Touch, bits: Array, site: Site) -> None:
    """Store bits (threads, trips, elems) of an operand in registers."""
    together = site.together
    if together is None:
        root, flat = locate(touch.ref, touch.elems, site)
        root.store.write(flat, bits[:, 0], site.group, site)
        return
    root = site.frame.places[touch.ref.memory.name].root
    columns, _ = together.find(touch)
    root.store.write_columns(columns, bits.reshape(len(site.group), -1), site.group, site)


def locate_trips(touch: Touch, site: Site) -> tuple[Root, Array, Group]:
    """(root, flat offsets, who) of an operand in memory: the threads of the group, once for each trip."""
    if site.together is None:
        root, flat = locate(touch.ref, touch.elems, site)
        return root, flat, site.group
    wide = _in_all_trips(site, read_address(touch.ref).names, touch.ref.memory.name)
    root, flat = locate(touch.ref, touch.elems, wide)
    return root, flat, wide.group


def _in_all_trips(site: Site, names: Set[str], memory: str = "") -> Site:
    """The site of all trips at once: the values of ``names`` and the place of ``memory`` for each thread in each trip.

    It has the threads once for each trip, one trip behind the other.
    """
    assert site.together is not None
    together, count = site.together, len(site.together)
    wide = site.enter(site.group.times(count))
    wide.together = None

    def repeat(value: Any) -> Any:
        return np.tile(site.group.pick(value), count) if isinstance(value, np.ndarray) else value

    for name in names & wide.frame.env.keys():
        wide.frame.env[name] = repeat(wide.frame.env[name])
    for var, values in zip(together.variables, zip(*together.trips, strict=True), strict=True):
        wide.frame.define(var, np.repeat(np.array(values), len(site.group)))
    if place := wide.frame.places.get(memory):
        coordinates = None if place.coordinates is None else tuple(map(repeat, place.coordinates))
        wide.frame.places[memory] = replace(place, coordinates=coordinates, flat=repeat(place.flat))
    return wide


def values_of(x: Index, site: Site) -> Array:
    """The value of an integer expression in each row of an operand: (threads * trips,)."""
    text = read_text(x)
    together = site.together
    if together is None:
        return site.group.spread(value_of(text, site))
    if not text.names & {v.name for v in together.variables}:
        return np.repeat(site.group.spread(value_of(text, site)), len(together))
    wide = _in_all_trips(site, text.names)
    values = wide.group.spread(value_of(text, wide))
    return values.reshape(len(together), -1).T.ravel()
