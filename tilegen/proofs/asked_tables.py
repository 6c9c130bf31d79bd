"""Tables of whose elements a plan asks more than where the spec has it read and write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilegen.index import Formula, Index, bound, least, names_of, sub, substitute
from tilegen.index.contents import SPREAD
from tilegen.ops.tables import fill_spec
from tilegen.plan import Plan, plain_name
from tilegen.plan.contents import Element, fill_tables
from tilegen.proofs.observed import Observed, ask_plan, ask_spec, elements_in, hide_elements, meant_places
from tilegen.proofs.relative_places import distribute
from tilegen.spec.data import Spec


def find_asked(spec: Spec, plan: Plan) -> frozenset[str]:
    """The tables whose elements decide something in the plan: a condition, a count, a slot, a place in shared memory,
    or a place in an array that lies otherwise beside the spec's where the element is another.

    What the plan fetches is the spec's own (``terms``).
    """
    tables: dict[int, str] = {}

    def stand_for(x: Element) -> tuple[Index, None]:
        key = int.from_bytes(x.array.encode(), "big")
        tables[key] = x.array
        low, high = x.values.places
        most = max(bound(high) - 1, least(low) + 1)
        return Formula("table", (SPREAD, key, x.number, low, high, x.values.step), most), None

    meant = meant_places([*ask_spec(fill_spec(spec, stand_for))])
    filled = fill_tables(plan, stand_for)
    asked = (q for q in ask_plan(filled) if not q.is_named and _decides(q, meant.get(q.array, ()), {*tables.values()}))
    return frozenset(tables[key] for q in asked for key in _list_keys(q.x))


def _list_keys(x: Index) -> Iterator[int]:
    """The tables that an expression names elements of; not those that only say which elements."""
    if isinstance(x, Formula) and x.symbol == "table":
        yield x.args[1]
    elif isinstance(x, Formula):
        for part in x.args:
            yield from _list_keys(part)


def _decides(q: Observed, meant: Iterable[Observed], tables: set[str]) -> bool:
    """May what is asked come out otherwise with other elements? Of a place, beside those that the spec ``meant``."""
    if not q.array:
        return True
    meant = [*meant]
    if not meant and q.array in tables:  # a fetch
        return False
    return all(elements_in(_find_distance(q, m)) for m in meant)


def _find_distance(q: Observed, meant: Observed) -> Index:
    """How far a place of the plan is from one that the spec names in the same trips."""
    trips = {plain_name(trip.name): trip for trip, _ in q.loops}
    loops = {trip.name for trip, _ in meant.loops}
    place = hide_elements(meant.x)
    begin = substitute(place, {name: trips[name] for name in names_of(place) & loops & trips.keys()})
    return sub(distribute(hide_elements(q.x)), distribute(begin))
