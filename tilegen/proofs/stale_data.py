"""Trips of a loop without a rule that show data of an earlier trip to be taken for a trip's own.

That a place goes along with the spec (``looking``) says where a trip loads, and not whose data it uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index, substitute, variables
from tilegen.index.recurrences import Recurrence, pick_values
from tilegen.plan import plain_name
from tilegen.proofs.looking import Crowd, Ints, Place, SeenValues
from tilegen.proofs.observed import part_naming
from tilegen.scopes import CLUSTER_AXES, CTA_AXES

_MOST_TOUCHED = 1 << 22  # outcomes of an expression that says which threads touch an array


@dataclass(frozen=True)
class Late:
    """An array inside of a loop where no rule says how its places move on: all of them go along with the spec.

    ``own``: places of the plan; ``meant``: of the spec. ``is_hoisted``: the plan touches outside of the loop what the
    spec touches inside.
    """

    own: tuple[Place, ...]
    meant: tuple[Place, ...]
    is_hoisted: bool


def find_exposed(late: Late, common: Recurrence, head: int, crowd: Crowd) -> set[int] | None:
    """Trips that show data of an earlier trip to be taken for their own: where the spec's place is another one.

    A plan that loads in some trips alone, or reads the wrong slot, is right as long as the place is the same. So in
    each stretch between turns, at each residue of the period, a trip has to run in which the place is not what it was
    some trips before, and one in which a thread does not touch the array that does in others. Where none of those that
    run anyway is one, the first that is. None for too much to look at.
    """
    found: set[int] = set()
    for meant in late.meant:
        asked: dict[Index | None, Place] = {g: p for p in late.own for g in p.guards} | {None: meant}
        if late.is_hoisted or not late.own:
            asked[0] = meant
        for touched, place in asked.items():
            moves = _Moves(place, meant, touched, crowd)
            if moves.is_large:
                return None
            every = np.arange(moves.values.trips)
            run = pick_values(len(every), common, head)[0]
            if moves.is_same or len(run) == len(every):
                continue
            shown = [_number_ways(own, run, common) for own in moves.list_exposed(run, common.period)]
            ways = np.unique(_number_ways(moves.find_meant(every), every, common))
            if not all(np.isin(ways, own).all() for own in shown):
                exposed = moves.list_exposed(every, common.period)
                found |= set().union(*(_find_unshown(x, own, common) for x, own in zip(exposed, shown, strict=True)))
    return found


class _Moves:
    """In which trips of which CTAs the spec's place is another one, and whether a thread touches the array there.

    ``touched``: one of the guards of ``place``; 0: nothing in the loop touches it; None: all that there is.
    """

    def __init__(self, place: Place, meant: Place, touched: Index | None, crowd: Crowd):
        trips = {plain_name(trip.name): trip for trip, _ in reversed(place.loops)}
        of_spec = [substitute(substitute(x, trips), crowd.case) for x in (meant.flat, *meant.guards)]
        self.moved = part_naming(of_spec[0], {place.v.name})
        self.own = None if touched is None else substitute(touched, crowd.case)
        around = {place.v.name, *CTA_AXES, *CLUSTER_AXES, *(trip.name for trip, _ in place.loops)}
        self.guards = [g for g in of_spec[1:] if not around.isdisjoint(u.name for u in variables(g))]
        self.is_same = bool(self.own) and around.isdisjoint(u.name for u in variables(self.own or 0))
        seen = [self.moved, *self.guards, *([] if self.own is None else [self.own])]
        self.values = SeenValues(place.v, place.loops, crowd, seen, most=_MOST_TOUCHED)
        self.is_large = not self.is_same and self.values.size > _MOST_TOUCHED

    def find_meant(self, run: NDArray[np.intp]) -> NDArray[np.bool_]:
        """(CTAs, trips): those in which the spec touches the array, in the CTA or in another of its cluster."""
        is_meant = self._find_own(run)
        return np.broadcast_to(is_meant.any(axis=0), is_meant.shape) if self._is_shared() else is_meant

    def _find_own(self, run: NDArray[np.intp]) -> NDArray[np.bool_]:
        values = self.values
        holds = np.all([values.whole(1), *map(values.whole, self.guards)], axis=0)[:, run]
        return np.asarray(_any_of_rest(holds) & values.is_made[:, run])

    def _is_shared(self) -> bool:
        return bool(self.values.axes.keys() & {*CLUSTER_AXES})

    def list_exposed(self, run: NDArray[np.intp], period: int) -> Iterator[NDArray[np.bool_]]:
        """(CTAs, trips), of one way after another in which data of an earlier trip are seen not to be a trip's own.

        ``run``: the trips that are made, one after another. What a buffer holds that each trip writes is at most a
        period old: then its place is written again.
        """
        values = self.values
        at, is_meant = values.whole(self.moved)[:, run], self._find_own(run)
        if self.own is None:
            for apart in range(1, min(period + 1, values.trips)):
                yield is_meant & _any_of_rest(_is_another(at, apart))
            return
        touches = values.whole(self.own).astype(bool)[:, run]
        misses = ~touches & (touches.any(axis=(0, 1, *values.loop_axes), keepdims=True) | (self.own == 0))
        trip = np.arange(len(run)).reshape(-1, *(1,) * (at.ndim - 2))
        last = np.maximum.accumulate(np.where(touches, trip, 0), axis=1)
        yield is_meant & _any_of_rest(misses & (at != np.take_along_axis(at, last, axis=1)))
        if self._is_shared():  # another CTA of the cluster may have loaded it
            yield _any_of_rest(misses) & (is_meant & _any_of_rest(_is_another(at, 1))).any(axis=0)


def _any_of_rest(x: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(CTAs, trips): does it hold for any value of the other variables?"""
    return np.asarray(x.reshape(*x.shape[:2], -1).any(axis=2))


def _is_another(at: Ints, apart: int) -> NDArray[np.bool_]:
    """Is the place not what it was so many trips before?"""
    found: NDArray[np.bool_] = np.zeros(at.shape, np.bool_)
    found[:, apart:] = at[:, apart:] != at[:, :-apart]
    return found


def _find_unshown(exposed: NDArray[np.bool_], shown: NDArray[np.intp], common: Recurrence) -> set[int]:
    """Of each CTA the first exposed trip of each stretch and residue of which none that runs is exposed."""
    trips = np.arange(exposed.shape[1])
    ways, firsts = np.unique(_number_ways(exposed, trips, common), return_index=True)  # trips of one CTA ascend
    return {*np.nonzero(exposed)[1][firsts[~np.isin(ways, shown)]].tolist()}


def _number_ways(exposed: NDArray[np.bool_], trips: NDArray[np.intp], common: Recurrence) -> NDArray[np.intp]:
    """A number for the CTA, the stretch and the residue of each trip that is exposed."""
    starts = np.array([0, *sorted(n for _, n in common.breakpoints)])
    stretch = np.searchsorted(starts, trips, side="right")
    cta, at = np.nonzero(exposed)
    return np.asarray((cta * (len(starts) + 1) + stretch[at]) * common.period + trips[at] % common.period)
