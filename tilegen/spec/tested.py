"""Which elements of tables a kernel compares with what their array promises: those that a clipped place rests on.

``edge: clip`` drops what lies outside of an array, whatever memory holds. A place that an element enters is inside
because its array promises which values it has. So the element is tested where it is read: one that breaks the promise
is replaced by one that keeps it, and what is read or written at its places is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tilegen.index import Index, Var, names_of, substitute
from tilegen.kept import keep
from tilegen.spec.data import Call, LetStatement, Region, Spec
from tilegen.spec.outline import Placed, deciding, outline
from tilegen.spec.pads import is_clipped
from tilegen.spec.tables import Read


@dataclass(frozen=True)
class PlaceOfTable:
    """A region of a global array at a place that elements of tables enter.

    An element enters by its value, or as the end of a loop over places. ``call``: the number of the op. ``reads``:
    names of the elements, those first that decide which others are read.
    """

    call: int
    field: str
    region: Region
    reads: tuple[str, ...]
    is_clipped: bool


@dataclass(frozen=True)
class Uses:
    """Where elements of tables go: ``tables`` is the array of each by its name, ``indexed`` the elements by which
    others are found, ``tested`` what a clipped place rests on. ``under``: the numbers of the ops that elements decide
    whether, or how often, they run.
    """

    tables: Mapping[str, str]
    indexed: Mapping[str, tuple[str, ...]]
    places: tuple[PlaceOfTable, ...]
    tested: frozenset[str]
    under: frozenset[int] = frozenset()

    def of_call(self, number: int) -> tuple[PlaceOfTable, ...]:
        """The places of one op."""
        return tuple(p for p in self.places if p.call == number)


@keep
def find_uses(spec: Spec) -> Uses:
    """Where the elements that the lets of a spec read enter places."""
    placed = outline(spec).placed
    tables = {var.name: read.array for p in placed for var, read, _ in _list_reads(p)}
    indexed: dict[str, tuple[str, ...]] = {}
    for p in placed:
        for var, read, values in _list_reads(p):
            around = _named((*read.at, read.when), values, tables)
            indexed[var.name] = (*indexed.get(var.name, ()), *around)
    places: list[PlaceOfTable] = []
    tested: set[str] = set()
    under: set[int] = set()
    for p in placed:
        if not isinstance(p.statement, Call):
            continue
        found = list(_list_places(p, p.statement, tables, indexed))
        places += found
        around = _named((*p.meant.guards, *_bounds(p), *deciding(p.statement)), p.meant.values, tables)
        under |= {p.number} if around else set()
        if is_clipped(p.statement) and any(r.buffer.traits.is_array for r in p.statement.regions.values()):
            tested |= {*_with_indices(around, indexed), *(n for x in found for n in x.reads)}
    return Uses(tables, indexed, tuple(places), frozenset(tested), frozenset(under))


def _list_reads(placed: Placed) -> Iterator[tuple[Var, Read, Mapping[str, Index]]]:
    """What a let reads: the variable, the read, and what the names before it mean."""
    if not isinstance(placed.statement, LetStatement):
        return
    values = dict(placed.meant.values)
    for var, value in placed.statement.entries:
        values.pop(var.name, None)
        if isinstance(value, Read):
            yield var, value, dict(values)
        else:
            values[var.name] = substitute(value, values)


def _list_places(
    placed: Placed, call: Call, tables: Mapping[str, str], indexed: Mapping[str, tuple[str, ...]]
) -> Iterator[PlaceOfTable]:
    for field, region in call.regions.items():
        if region.buffer.traits.is_array:
            written = [substitute(x, placed.meant.values) for x in (*region.begins, *(end for _, end in region.limits))]
            walked = frozenset[str]().union(*map(names_of, written))
            counts = (one.count for one in placed.meant.loops if one.trip.name in walked)
            names = _named((*written, *counts), placed.meant.values, tables)
            if names:
                reads = _with_indices(names, indexed)
                yield PlaceOfTable(placed.number, field, region, reads, is_clipped(call))


def _bounds(placed: Placed) -> Iterator[Index]:
    """How often the loops around run, and where they begin."""
    for one in placed.meant.loops:
        yield one.count
        yield one.value


def _named(of: Iterable[Index], values: Mapping[str, Index], tables: Mapping[str, str]) -> tuple[str, ...]:
    """The elements that expressions name, themselves or by names for them."""
    names = (n for x in of for n in sorted(names_of(substitute(x, values))))
    return tuple(dict.fromkeys(n for n in names if n in tables and n not in values))


def _with_indices(names: Iterable[str], indexed: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The elements, behind those by which they are found."""
    found: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting += indexed.get(name, ())
    return tuple(reversed(found))
