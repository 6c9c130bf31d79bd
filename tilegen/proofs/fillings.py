"""Kernels that read tables, proved with contents in place of them.

What a table holds is not known, so ranges and alignments follow from what its array promises alone. Everything else
is shown with contents that are functions of the element (plan/contents.py), and with elements that are sizes
(``sized_elements``): each turns the spec and its plan into ones that read no table, which are proved as any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tilegen.errors import Diagnostic
from tilegen.index import Formula, Index, Var, least, names_of, substitute
from tilegen.index.contents import HOLED, LARGEST, LEAST, NAMES, TURNS
from tilegen.index.linear import linear
from tilegen.ops.tables import fill_spec
from tilegen.plan import Plan
from tilegen.plan.contents import Contents, fill_tables, fill_with, has_tables
from tilegen.proofs.asked_tables import find_asked
from tilegen.proofs.observed import wholes_of
from tilegen.proofs.sized_elements import size_elements
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.spec.data import Call, LetStatement, Spec
from tilegen.spec.outline import deciding, outline
from tilegen.spec.tables import Read

_MOST_NUMBERS = 8  # of the text, that elements are near


@dataclass(frozen=True)
class Filling:
    """A spec and its plan that read no tables, in place of ones that do; ``words``: what their tables hold.

    ``has_owners``: they show who owns what. ``has_runs``: they run. ``sized``: the tables whose elements are sizes, if
    a CTA may read several of these.
    """

    spec: Spec
    plan: Plan
    words: str = ""
    has_owners: bool = True
    has_runs: bool = True
    sized: frozenset[str] = frozenset()


def fill_both(spec: Spec, plan: Plan, contents: Contents) -> tuple[Spec, Plan]:
    """The spec and its plan with contents in place of tables: neither reads one."""
    fill = fill_with(contents)
    return fill_spec(spec, fill), fill_tables(plan, fill)


def reads_tables(spec: Spec, plan: Plan) -> bool:
    """Does a let of the spec read a table, though nothing may use what it reads?"""
    return has_tables(plan) or bool(list_reads(spec))


def fill_largest(spec: Spec, plan: Plan) -> tuple[Spec, Plan]:
    """The spec and its plan with the largest elements that there may be: as much work as tables may ask for."""
    return fill_both(spec, plan, Contents(LARGEST)) if reads_tables(spec, plan) else (spec, plan)


def fill_each(spec: Spec, plan: Plan) -> list[Filling]:
    """The spec and its plan with all that they are proved with; themselves where they read no tables.

    Where a CTA reads one element of each table that decides something, elements that are sizes show all; so they do
    where all elements of a table are unlike. Trips that read others run with other contents too, and so do CTAs that
    may meet at places that no table names.
    """
    if not reads_tables(spec, plan):
        return [Filling(spec, plan)]
    arrays = list_deciding_arrays(spec) | find_asked(spec, plan)
    has_runs = not arrays or _places_by_elements(spec) or _reads_several(spec, arrays)
    owned = (
        Contents(kind, places=list_places(spec)) for kind in (TURNS, LARGEST)
    )  # loops are longest with the largest
    kinds = choose_contents(spec) if has_runs else (*owned,)
    found = [Filling(*fill_both(spec, plan, c), f"tables hold {NAMES[c.kind]}", has_runs=has_runs) for c in kinds]
    if arrays:
        words = f"each element of {' and '.join(sorted(arrays))} is as the sizes say"
        several = arrays if _reads_several(spec, arrays) else frozenset[str]()
        found.append(Filling(*size_elements(spec, plan, arrays, others_of(spec)), words, False, sized=several))
    return found


def others_of(spec: Spec) -> Contents:
    """What elements hold beside those that are sizes."""
    return Contents(TURNS, places=list_places(spec))


def _places_by_elements(spec: Spec) -> bool:
    """Does an op store where elements say? What such places claim is tried by CTAs that run together."""
    return any(call.stores_by_index for call in outline(spec).calls)


def choose_contents(spec: Spec) -> tuple[Contents, ...]:
    """The contents that a kernel is proved with; of tables that name nothing but places, those of one kind.

    Places move with the elements that name them. What an element decides is shown with values of all of its range, and
    near the numbers that it meets; and all are the least, and the largest.
    """
    decisions = tuple(_list_deciding(spec))
    places = list_places(spec)
    if not decisions:
        return (Contents(TURNS, places=places),)
    numbers = sorted({n for x in decisions for n in _numbers_in(x)})
    some = numbers[:: -(-len(numbers) // _MOST_NUMBERS)] if numbers else []
    marks = tuple(sorted({m for n in some for m in (n - 1, n, n + 1)}))
    tables = [read.values for _, read in list_reads(spec)]
    kinds = [TURNS]
    kinds += [LEAST, LARGEST]
    kinds += [HOLED] if any(t.is_distinct and least(t.places[0]) < 0 for t in tables) else []
    return tuple(Contents(kind, marks if kind == TURNS else (), places) for kind in kinds)


def is_decided(spec: Spec) -> bool:
    """Does what tables hold decide more than where a kernel reads and writes?"""
    return any(True for _ in _list_deciding(spec))


def list_deciding_arrays(spec: Spec) -> frozenset[str]:
    """The tables whose elements decide more than that."""
    origins: dict[str, frozenset[str]] = {}
    for s in outline(spec).find(LetStatement):
        for var, value in s.entries:
            own = frozenset([value.array]) if isinstance(value, Read) else frozenset[str]()
            named = [] if isinstance(value, Read) else [origins.get(name, frozenset()) for name in names_of(value)]
            origins[var.name] = origins.get(var.name, frozenset[str]()).union(own, *named)
    of = (origins.get(name, frozenset[str]()) for x in _list_deciding(spec) for name in names_of(x))
    return frozenset[str]().union(*of)


def list_places(spec: Spec) -> frozenset[str]:
    """The tables whose elements name nothing but places."""
    return frozenset(read.array for _, read in list_reads(spec)) - list_deciding_arrays(spec)


def list_reads(spec: Spec) -> list[tuple[Var, Read]]:
    """What the lets of a spec read, each under its variable, in the order of the text."""
    lets = outline(spec).find(LetStatement)
    return [(var, value) for s in lets for var, value in s.entries if isinstance(value, Read)]


def _reads_several(spec: Spec, arrays: Collection[str]) -> bool:
    """May a CTA read several elements of one of these tables, which may be the same, or not?"""
    fixed = {*CTA_AXES, *CLUSTER_AXES, *(p.name for p in spec.params)}  # in a CTA
    for placed in outline(spec).placed:
        values = dict(placed.meant.values)
        for var, value in placed.statement.entries if isinstance(placed.statement, LetStatement) else ():
            if not isinstance(value, Read):
                values[var.name] = substitute(value, values)
                continue
            is_asked = value.array in arrays and not value.values.is_distinct
            if is_asked and any(names_of(substitute(x, values)) - fixed for x in value.at):
                return True
    return False


def _list_deciding(spec: Spec) -> Iterator[Index]:
    """Expressions over elements of tables that are more than a place which moves with one."""
    elements: set[str] = set()
    for placed in outline(spec).placed:
        s = placed.statement
        if isinstance(s, LetStatement):
            for var, value in s.entries:
                if isinstance(value, Read) or not elements.isdisjoint(names_of(value)):
                    elements.add(var.name)
                if not isinstance(value, Read) and not _moves_with(value, elements):
                    yield value
            continue
        for x in (*deciding(s), *wholes_of(s)):
            if not elements.isdisjoint(names_of(x)):
                yield x
        regions = s.regions.values() if isinstance(s, Call) else ()
        yield from (x for region in regions for x in region.begins if not _moves_with(x, elements))


def _moves_with(x: Index, elements: Collection[str]) -> bool:
    """Is ``x`` a sum of multiples of elements, also of those above or below a number, and of what names none?"""
    return all(isinstance(f, Var | int) or names_of(f).isdisjoint(elements) or _is_clamped(f) for f in linear(x))


def _is_clamped(x: Formula) -> bool:
    return x.symbol in ("min", "max") and all(isinstance(a, Var | int) for a in x.args)


def _numbers_in(x: Index) -> frozenset[int]:
    if isinstance(x, Formula):
        return frozenset[int]().union(*map(_numbers_in, x.args))
    return frozenset([int(x)]) if isinstance(x, int) else frozenset()


def add_contents(found: Sequence[Diagnostic], words: str) -> list[Diagnostic]:
    """What is wrong, with the contents of tables that show it."""
    return [replace(d, message=f"{d.message}, where {words}") for d in found]
