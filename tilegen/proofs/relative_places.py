"""Places in global arrays that go along with the spec's: in every CTA and trip within the box that the spec names.

Then what a CTA takes, or leaves, in a trip is what the spec has it take, wherever that lies. A CTA that is right shows
that another is, whose boxes lie elsewhere, if the trips whose boxes share elements are the same (``rewriting``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Formula, Index, add, evaluate, every, mul, names_of, sub, substitute, total, variables
from tilegen.index.linear import linear
from tilegen.plan import plain_name
from tilegen.proofs.observed import Observed, elements_in, part_naming
from tilegen.scopes import CLUSTER_AXES, CTA_AXES

AXES = frozenset((*CTA_AXES, *CLUSTER_AXES))
_MOST_VALUES = 1 << 20


@dataclass(frozen=True)
class Apart:
    """How far a place is from where the spec's box begins in the same trip: what depends on the CTA, and what does not.

    ``own``: the part of the place that names an axis of CTAs; ``box``: the offsets of the box's elements; ``guards``:
    which threads are at the place.
    """

    own: Index
    differing: Index
    rest: Index
    box: Index
    guards: tuple[Index, ...] = ()


def take_apart(q: Observed, meant: Observed, params: Collection[str]) -> Apart | None:
    """None where the parts cannot be told apart, or where the rest depends on trips of the spec's loops."""
    trips = {plain_name(trip.name): trip for trip, _ in q.loops}
    loops = {trip.name for trip, _ in meant.loops}
    axes = AXES | elements_in(q.x, meant.x)
    inside = {v.name for v in variables(meant.x)} - axes - {*params}
    place, spec = (
        distribute(q.x),
        distribute(substitute(meant.x, {name: trips.get(name, 0) for name in inside & loops})),
    )
    begin = substitute(spec, {name: 0 for name in inside - loops})
    own, of_begin, of_spec = (part_naming(x, {*axes}) for x in (place, begin, spec))
    rest, of_rest, whole = sub(place, own), sub(begin, of_begin), sub(spec, of_spec)
    differing, same = sub(own, of_begin), sub(rest, of_rest)
    if axes.isdisjoint(v.name for v in variables(differing)):
        differing, same = 0, add(differing, same)
    threads = names_of(same)
    guards = tuple(g for g in q.guards if names_of(g) <= threads)
    found = Apart(own, differing, same, sub(whole, of_rest), guards)
    left = {v.name for x in (rest, of_rest, found.rest, whole, found.box) for v in variables(x)}
    told = {plain_name(v.name) for x in (found.rest, found.box) for v in variables(x)}
    is_moved = not (inside - loops).isdisjoint(v.name for v in variables(of_spec))
    return None if left & axes or told & loops or is_moved else found


def distribute(x: Index) -> Index:
    """The same as a sum of products: what is multiplied by a size may be a sum.

    >>> from tilegen.index import Var
    >>> bx, tx, n = Var("bx", 9), Var("tx", 32), Var("n", 99)
    >>> str(distribute((bx * 4 + tx) * n))
    'tx * n + bx * n * 4'
    """
    if not isinstance(x, Formula) or x.symbol not in ("+", "-", "*"):
        return x
    parts = [distribute(a) for a in x.args]
    if x.symbol == "-":
        return sub(*parts)
    if x.symbol == "+":
        return reduce(add, parts)
    terms: list[Index] = [1]
    for part in parts:
        addends = [mul(f, c) for f, c in linear(part).items()]
        terms = [mul(t, a) for t in terms for a in addends]
    return total((1, t) for t in terms)


def stays_within(apart: Apart, case: Mapping[str, int]) -> bool:
    """Is a place, but for the part that depends on the CTA, always that of an element of the spec's box?"""
    rest, guards = substitute(apart.rest, case), [substitute(g, case) for g in apart.guards]
    named = names_of(rest)  # with some sizes it is the same for all values of a variable
    return _is_within(rest, tuple(g for g in guards if names_of(g) <= named), substitute(apart.box, case))


@lru_cache(maxsize=1 << 12)
def _is_within(rest: Index, guards: tuple[Index, ...], box: Index) -> bool:
    offsets, places = _values(box), _values(rest, guards)
    return offsets is not None and places is not None and bool(np.isin(places, offsets).all())


@lru_cache(maxsize=1 << 8)
def _values(x: Index, guards: tuple[Index, ...] = ()) -> NDArray[np.int64] | None:
    """All that an expression can be where the guards hold; None for too many."""
    named = {v.name: v.bound for v in variables(x)}
    if prod(named.values()) > _MOST_VALUES:
        return None
    axes = dict(zip(named, np.indices((*named.values(),), np.int64, sparse=True), strict=True))
    found, is_asked = np.asarray(evaluate(x, axes)), every(*guards)
    return np.unique(found[np.broadcast_to(np.asarray(evaluate(is_asked, axes), bool), found.shape)])
