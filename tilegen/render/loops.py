"""Loops as a person writes them: over the values that the body uses, not over the numbers of trips."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.index import INT_LIMIT, Formula, Index, Var, add, bound, mul, sub, substitute
from tilegen.plan import Let, Repeat
from tilegen.render.names import free_names
from tilegen.spec.phases import count_trips


@dataclass(frozen=True)
class Counter:
    """for (var = start; var < stop; var += step)"""

    var: Var
    start: Index
    stop: Index
    step: Index


def find_counter(loop: Repeat, threads: int) -> Counter | None:
    """What a loop of a role of so many threads counts, where its body begins with that as a function of the trip.

    None where the body uses the number of the trip for more, where the trips are not those of a start, a stop and a
    step, and where a number of trips begins at a place that is not one.

    >>> from tilegen.index import Var
    >>> trip, tile = Var("trip", 3), Var("tile", 16)
    >>> count = find_counter(Repeat(trip, 3, (Let(tile, add(mul(trip, 5), 2)),)), 32)
    >>> (count.start, count.stop, count.step)
    (2, 17, 5)
    """
    first, *rest = loop.body or (None,)
    if not isinstance(first, Let) or loop.var.name in free_names(rest, threads):
        return None
    start, second = (substitute(first.value, {loop.var.name: trip}) for trip in (0, 1))
    if isinstance(loop.count, int) and not isinstance(start, int):
        return None  # no stop of its own
    step = sub(second, start)
    stop = _stop(start, _distance(loop.count, step))
    is_same = first.value == add(start, mul(loop.var, step)) and count_trips(start, stop, step) == loop.count
    is_int = bound(stop) + bound(step) <= INT_LIMIT
    return Counter(first.var, start, stop, step) if is_same and is_int else None


def _distance(count: Index, step: Index) -> Index:
    """How far so many steps go, at most: ``d`` where the count is ``d`` or ``max(d, 0)`` by the step, rounded up."""
    if not isinstance(count, Formula) or count.symbol != "/":
        return mul(count, step)
    distance: Index = sub(count.args[0], sub(step, 1))
    if isinstance(distance, Formula) and distance.symbol == "max" and distance.args[1] == 0:
        distance = distance.args[0]
    return distance


def _stop(start: Index, distance: Index) -> Index:
    if isinstance(distance, Formula) and distance.symbol == "-" and distance.args[1] == start:
        stop: Index = distance.args[0]
        return stop
    return add(start, distance)
