"""How a loop goes on from trip to trip where no rule is known for what is inside: by looking at every trip.

An expression that is the same in two trips next to each other, whatever the other variables are, goes on there; where
it is not, the loop turns. A place in an array is seen from where the spec is in it: what goes along with the spec is
right in every trip if it is so in one, in whatever order the trips take their places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index, Var, bound, evaluate, mod, sub, substitute, variables
from tilegen.index.bounds import highest
from tilegen.interpret.threads import Cta
from tilegen.plan import plain_name
from tilegen.proofs.dependence_distance import ArrayTouch
from tilegen.proofs.observed import ALIGNED, NEVER, Loops, part_naming
from tilegen.scopes import CLUSTER_AXES, CTA_AXES

Ints = NDArray[np.int64]

MOST_SEEN = 1 << 23  # outcomes of one expression
_MOST_TURNS = 4  # a loop of which more than one trip in so many turns is as well run in full


@dataclass(frozen=True)
class Crowd:
    """CTAs that are looked at together: the axes of each, and the parameters that all have.

    ``axes``: of each axis its value in every CTA, in one order.
    """

    case: Mapping[str, int]
    axes: Mapping[str, Ints]

    def columns(self, names: set[str]) -> dict[str, Ints]:
        """The axes of those names, each way in which CTAs have them once."""
        own = [name for name in self.axes if name in names]
        if not own:
            return {}
        rows = np.unique(np.stack([self.axes[name] for name in own], axis=1), axis=0)
        return {name: rows[:, n] for n, name in enumerate(own)}


def numbers_of(cta: Cta, cluster: Cta, case: Mapping[str, int]) -> dict[str, int]:
    """The axes of a CTA beside the parameters."""
    own = dict(zip(CTA_AXES, cta, strict=True))
    return {**case, **own, **{c: own[b] % n for c, b, n in zip(CLUSTER_AXES, CTA_AXES, cluster, strict=True)}}


def crowd_of(places: Sequence[Mapping[str, Any]]) -> Crowd:
    """CTAs that run, with the same parameters."""
    axes = (*CTA_AXES, *CLUSTER_AXES)
    case = {name: value for name, value in places[0].items() if name not in axes}
    return Crowd(case, {name: np.array([numbers[name] for numbers in places], np.int64) for name in axes})


def whole_grid(grid: Sequence[int], cluster: Sequence[int], case: Mapping[str, int]) -> Crowd | None:
    """Every CTA of a grid; None for too many to look at."""
    if prod(grid) > MOST_SEEN:
        return None
    at = [x.ravel().astype(np.int64) for x in np.indices(tuple(grid))]
    ranks = [x % n for x, n in zip(at, cluster, strict=True)]
    return Crowd(case, dict(zip((*CTA_AXES, *CLUSTER_AXES), (*at, *ranks), strict=True)))


@dataclass(frozen=True)
class Place:
    """A place in a global array inside of ``loops``, whose variable ``v`` a loop's trips give; ``flat``: its offset.

    ``begins``: what has to move on by a constant where a rule is known. ``guards``: it is touched only where they hold.
    ``is_meant``: the spec has it so.
    """

    begins: tuple[Index, ...]
    flat: Index
    v: Var
    loops: Loops
    guards: tuple[Index, ...]
    is_meant: bool


def find_turns(
    seen: Sequence[Index], v: Var, loops: Loops, guards: Sequence[Index], crowd: Crowd
) -> tuple[int, ...] | None:  # fmt: skip
    """The trips in which an expression is not what it was before, in any CTA, where the guards hold; None for too much
    to look at, or for so many turns that it may as well not be known. Guards are looked at themselves.
    """
    values = SeenValues(v, loops, crowd, [substitute(x, crowd.case) for x in seen])
    if values.size * len(seen) > MOST_SEEN:
        return None
    turns: Ints = np.zeros(0, np.int64)
    is_asked = values.of(1).astype(bool)
    for guard in (substitute(g, crowd.case) for g in guards):
        if {u.name for u in variables(guard)} <= values.axes.keys():
            is_asked &= values.of(guard).astype(bool)
    last = np.maximum.accumulate(np.where(is_asked, np.arange(values.trips)[:, None], 0), axis=1)
    for x in values.seen:
        found = np.take_along_axis(np.where(is_asked, values.of(x), NEVER), last, axis=1)
        differ = (found[:, 1:] != found[:, :-1]).any(axis=2) & values.is_made[:, 1:]
        turns = np.union1d(turns, np.flatnonzero(differ.any(axis=0)) + 1)
    return tuple(turns.tolist()) if len(turns) <= max(2, values.trips // _MOST_TURNS) else None


def goes_along(place: Place, meant: Place, crowd: Crowd) -> tuple[int, ...] | None:
    """The trips in which a place is not as far from the one that the spec means as it was, or not as aligned."""
    trips = {plain_name(trip.name): trip for trip, _ in reversed(place.loops)}  # of two of a name the outer one
    own, spec = (substitute(x, crowd.case) for x in (place.flat, substitute(meant.flat, trips)))
    moved = part_naming(own, {place.v.name})
    seen = [sub(moved, part_naming(spec, {place.v.name})), mod(moved, ALIGNED)]
    return find_turns(seen, place.v, place.loops, place.guards, crowd)


def are_apart(touches: Sequence[ArrayTouch], loop: str, crowd: Crowd) -> bool:
    """Does no CTA touch an element of an array in two trips of a loop, nor outside of it? False, too, if not known.

    The boxes around what the trips touch must be tiles of one size, no two at the same place.
    """
    if len({t.form for t in touches}) > 1 or not all(loop in [a.loop for a in t.loops] for t in touches):
        return False
    repeats: dict[int, list[ArrayTouch]] = {}
    for t in touches:
        repeats.setdefault(next(a.repeat for a in t.loops if a.loop == loop), []).append(t)
    found = [_boxes_of_trips(own, loop, crowd) for own in repeats.values()]
    boxes = [box for box in found if box is not None]
    if len(boxes) < len(found):
        return False
    cta, low, high = (np.concatenate(parts) for parts in zip(*boxes, strict=True))
    sizes = (high - low).max(axis=0)
    if ((low - low.min(axis=0)) % sizes).any():
        return False
    tiles = np.column_stack([cta, (low - low.min(axis=0)) // sizes])
    return len(np.unique(tiles, axis=0)) == len(tiles)


def _boxes_of_trips(touches: Sequence[ArrayTouch], loop: str, crowd: Crowd) -> tuple[Ints, Ints, Ints] | None:
    """The CTA, and both corners of a box around what it touches, for each trip of each CTA; None for too many."""
    names = {*CTA_AXES, *CLUSTER_AXES}
    lows, highs = [], []
    for t in touches:
        v = next(a.v for a in t.loops if a.loop == loop)
        loops = tuple((a.v, a.count) for a in t.loops)
        first, last = [], []
        for x, size in zip(t.at, t.box, strict=True):
            x, size = substitute(x, crowd.case), substitute(size, crowd.case)
            moved = part_naming(x, {*names, v.name})
            rest = sub(x, moved)
            values = SeenValues(v, loops, crowd, [moved], all_ctas=True)
            if values.size > MOST_SEEN or {u.name for u in variables(rest)} & {*names, v.name}:
                return None
            found = values.of(values.seen[0])
            first.append(found.min(axis=2) - highest((rest, -1)))
            last.append(found.max(axis=2) + highest((rest, 1), (size, 1)))
        lows.append(np.stack(first, axis=2))
        highs.append(np.stack(last, axis=2))
        is_made = values.is_made
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    cta = np.broadcast_to(np.arange(len(low))[:, None], is_made.shape)
    return cta[is_made], low[is_made], high[is_made]


class SeenValues:
    """Expressions in every CTA, every trip of a loop, and for all values of the other variables."""

    def __init__(
        self, v: Var, loops: Loops, crowd: Crowd, seen: Sequence[Index], all_ctas: bool = False, most: int = MOST_SEEN
    ):
        counts = {trip.name: substitute(count, crowd.case) for trip, count in loops}
        self.seen, count = seen, counts[v.name]
        named: dict[str, int] = {}
        for u in (u for x in (*seen, count) for u in variables(x)):
            named[u.name] = max(u.bound, named.get(u.name, 0))
        columns = crowd.columns({*CTA_AXES, *CLUSTER_AXES} if all_ctas else {*named})
        others = {name: most for name, most in named.items() if name != v.name and name not in columns}
        for name in others.keys() & counts.keys():
            others[name] = max(1, min(others[name], bound(counts[name]) - 1))
        self.loop_axes = tuple(2 + n for n, name in enumerate(others) if name in counts)
        self.trips = max(1, bound(count) - 1)
        self.ctas = len(next(iter(columns.values()), [0]))
        self.shape = (self.ctas, self.trips, *others.values())
        self.size = prod(self.shape)
        self.axes: dict[str, Ints] = {}
        if self.size <= most:
            ends = (1,) * len(others)
            self.axes = {name: column.reshape(-1, 1, *ends) for name, column in columns.items()}
            own = np.indices(self.shape, np.int64, sparse=True)
            self.axes |= dict(zip((v.name, *others), own[1:], strict=True))
            self.is_made = self._made(count, own[1])

    def _made(self, count: Index, trip: Ints) -> NDArray[np.bool_]:
        """Which trips each CTA makes, in any of the outer loops' trips."""
        made: NDArray[np.bool_] = np.broadcast_to(trip < evaluate(count, self.axes), self.shape)
        return np.asarray(made.reshape(self.ctas, self.trips, -1).any(axis=2))

    def whole(self, x: Index) -> Ints:
        """(CTAs, trips, each other variable)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # where a loop does not get
            return np.broadcast_to(np.asarray(evaluate(x, self.axes)).astype(np.int64), self.shape)

    def of(self, x: Index) -> Ints:
        """(CTAs, trips, all else)."""
        return self.whole(x).reshape(self.ctas, self.trips, -1)
