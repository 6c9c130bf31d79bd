"""Kernels that read tables: proved with all kinds of contents, and their places for every content that is promised.

What a table holds is not known, so ranges and alignments follow from what its array promises alone. Everything else
is shown with contents that are functions of the element (plan/contents.py): each turns the spec and its plan into ones
that read no table, of which all is proved as of any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tilegen.errors import Diagnostic
from tilegen.index import (
    Formula,
    Index,
    Var,
    add,
    bound,
    conjuncts,
    every,
    least,
    mul,
    names_of,
    sub,
    substitute,
    total,
)
from tilegen.index.bounds import is_below
from tilegen.index.contents import HOLED, LARGEST, LEAST, OFFSETS, TURNS, UPWARDS
from tilegen.index.linear import linear
from tilegen.ops.tables import value_of_read
from tilegen.plan import Plan
from tilegen.plan.contents import Contents, fill_tables, has_tables
from tilegen.proofs.finding import MAY_BE_EQUAL, Finding
from tilegen.proofs.observed import wholes_of
from tilegen.proofs.owned_boxes import Owned
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.spec.data import Call, LetStatement, Nest, Spec, Statement
from tilegen.spec.outline import deciding, outline
from tilegen.spec.tables import Read

_MOST_MARKS = 24


def fill_both(spec: Spec, plan: Plan, contents: Contents) -> tuple[Spec, Plan]:
    """The spec and its plan with contents in place of tables: neither reads one."""
    return fill_spec(spec, contents), fill_tables(plan, contents)


def fill_spec(spec: Spec, contents: Contents) -> Spec:
    """The spec with contents in place of tables."""
    return replace(spec, ops=_fill(spec, spec.ops, contents))


def _fill(spec: Spec, statements: Sequence[Statement], contents: Contents) -> tuple[Statement, ...]:
    filled: list[Statement] = []
    for s in statements:
        if isinstance(s, Nest):
            s = replace(s, body=_fill(spec, s.body, contents))
        elif isinstance(s, LetStatement):
            entries = tuple(
                (var, value_of_read(spec, x, contents) if isinstance(x, Read) else x) for var, x in s.entries
            )
            s = replace(s, entries=entries)
        filled.append(s)
    return tuple(filled)


def fill_each(spec: Spec, plan: Plan) -> list[tuple[Spec, Plan]]:
    """The spec and its plan with each of the contents that it is proved with; themselves where they read no tables."""
    if not has_tables(plan):
        return [(spec, plan)]
    return [fill_both(spec, plan, contents) for contents in choose_contents(spec)]


def choose_contents(spec: Spec) -> tuple[Contents, ...]:
    """The contents that a kernel is proved with; of tables that name nothing but places, those of one kind.

    Places move with the elements that name them. What an element decides is shown with values of all of its range, and
    near the numbers that it meets. Where a CTA reads several, all are the least, and the largest, too.
    """
    decisions = tuple(_list_deciding(spec))
    if not decisions:
        return (Contents(TURNS),)
    numbers = sorted({n for x in decisions for n in _numbers_in(x)})
    marks = sorted({m for n in numbers for m in (n - 1, n, n + 1)})
    some = marks[:: -(-len(marks) // _MOST_MARKS)] if marks else []
    tables = [read.values for _, read in list_reads(spec)]
    kinds = [TURNS]
    kinds += [LEAST, LARGEST] if _reads_several(spec) or any(t.pieces is not None for t in tables) else []
    kinds += [HOLED] if any(t.is_distinct and least(t.places[0]) < 0 for t in tables) else []
    return tuple(Contents(kind, tuple(some) if kind == TURNS else ()) for kind in kinds)


def is_decided(spec: Spec) -> bool:
    """Does what tables hold decide more than where a kernel reads and writes?"""
    return any(True for _ in _list_deciding(spec))


def list_reads(spec: Spec) -> list[tuple[Var, Read]]:
    """What the lets of a spec read, each under its variable, in the order of the text."""
    lets = outline(spec).find(LetStatement)
    return [(var, value) for s in lets for var, value in s.entries if isinstance(value, Read)]


def _reads_several(spec: Spec) -> bool:
    """May a CTA read several elements of one table?"""
    fixed = {*CTA_AXES, *CLUSTER_AXES, *(p.name for p in spec.params)}  # in a CTA
    for placed in outline(spec).placed:
        values = dict(placed.meant.values)
        for var, value in placed.statement.entries if isinstance(placed.statement, LetStatement) else ():
            if not isinstance(value, Read):
                values[var.name] = substitute(value, values)
            elif any(names_of(substitute(x, values)) - fixed for x in value.at):
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
    """Is ``x`` a sum of multiples of elements, and of what names none?"""
    return all(isinstance(f, Var | int) or names_of(f).isdisjoint(elements) for f in linear(x))


def _numbers_in(x: Index) -> frozenset[int]:
    if isinstance(x, Formula):
        return frozenset[int]().union(*map(_numbers_in, x.args))
    return frozenset([int(x)]) if isinstance(x, int) else frozenset()


def add_contents(found: Sequence[Diagnostic], kind: str) -> list[Diagnostic]:
    """What is wrong, with the contents of tables that show it."""
    return [replace(d, message=f"{d.message}, where tables hold {kind}") for d in found]


# ---------------------------------------------------------------- who owns what lies at places of tables
@dataclass(frozen=True)
class OwnersByNumber:
    """Boxes at places of tables, each moved to where the number of the table's element has it, and what is wrong.

    No two elements of a distinct table name one place. So boxes overlap exactly where those of equal numbers do.
    """

    boxes: tuple[Owned, ...]
    arrays: frozenset[str]
    wrong: tuple[Finding, ...]


def own_by_number(owns: Sequence[Owned]) -> OwnersByNumber:
    """The boxes with those at places of tables moved; all other boxes are as they were."""
    named = {o.memory.name for o in owns if o.limits or any(map(find_elements, o.start))}
    boxes: list[Owned] = []
    wrong: list[Finding] = []
    for name in dict.fromkeys(o.memory.name for o in owns):
        own = [o for o in owns if o.memory.name == name]
        moved = [found for o in own if (found := _move(o)) is not None] if name in named else []
        tables = {found.table for found in moved if isinstance(found, _Moved)}
        why = next((found for found in moved if isinstance(found, str)), "")
        if not why and len(tables) > 1:
            why = f"boxes of {name} lie at places of several tables, and nothing tells these apart"
        if why:
            message = f"two CTAs may write the same elements of {name}: {why}"
            hint = _LIMIT_HINT if any(o.limits for o in own) or "offsets" in why else _DISTINCT_HINT
            wrong.append(Finding(MAY_BE_EQUAL, message, "error", own[0].op, name, hint=hint))
            continue
        boxes += [found.box for found in moved if isinstance(found, _Moved)] if name in named else own
    return OwnersByNumber(tuple(boxes), frozenset(named), tuple(wrong))


_DISTINCT_HINT = "say 'distinct: true' of the one table that names them, if no two of its elements are equal; "
_DISTINCT_HINT += "or add to them: 'accumulate: add'"
_LIMIT_HINT = "write 'o[e] + x : +n < o[e + 1]' by names of a let, o with 'offsets', and x of 0 or more"


def find_elements(x: Index) -> frozenset[Formula]:
    """The elements of tables in an expression."""
    if not isinstance(x, Formula):
        return frozenset()
    inner = frozenset[Formula]().union(*map(find_elements, x.args))
    return inner | {x} if x.symbol == "table" else inner


@dataclass(frozen=True)
class _Moved:
    """A box where the element's number has it, and which table that is of, in which dimension."""

    box: Owned
    table: tuple[int, int]


def _move(owned: Owned) -> _Moved | str | None:
    """A box moved to its element's number; why it cannot be, in words; None with contents that repeat in other ways
    than TURNS, which are shown first.
    """
    if owned.limits or any(element.args[0] == OFFSETS for _, element in _list_elements(owned)):
        return _move_piece(owned)
    elements = _list_elements(owned)
    if len(elements) != 1:
        return "a box lies at places of two tables" if elements else "one box lies at a place of a table, another not"
    ((d, element),) = elements
    kind, key, number, _, _, step, *_ = element.args
    if kind not in (UPWARDS, TURNS):
        return None
    if kind != UPWARDS:
        return "a table names the places, and nothing says that no two of its elements are the same"
    terms = linear(owned.start[d])
    scale = terms.pop(element, 0)
    rest = total((c, f) for f, c in terms.items())
    if scale < 1 or any(map(find_elements, terms)):
        return f"the place in dimension {d} is no multiple of a table's element and a number"
    if bound(rest) - 1 - least(rest) + owned.box[d] > scale * step:
        return f"the places that a table names are {scale * step} apart, and boxes reach {owned.box[d]} elements"
    start = add(mul(number, scale * step), sub(rest, least(rest)))
    shape = tuple(mul(bound(number), scale * step) if k == d else n for k, n in enumerate(owned.memory.shape))
    places = tuple(start if k == d else x for k, x in enumerate(owned.start))
    memory = replace(owned.memory, shape=shape)
    return _Moved(replace(owned, memory=memory, start=places, condition=_without_elements(owned)), (key, d))


def _move_piece(owned: Owned) -> _Moved | str:
    """A box in a piece of offsets, moved to where the number of the piece has it, and its place in the piece.

    A box from ``o[e] + x`` on, x >= 0, that ends before ``o[e + 1]`` lies in piece e, and pieces share no element.
    """
    elements = _list_elements(owned)
    first = elements[0][1] if len(elements) == 1 else None
    if first is None or first.args[0] != OFFSETS:
        return "a limit of what is written is not the end of a piece of 'offsets' that begins where the box does"
    d, (kind, key, number, *rest) = elements[0][0], first.args
    terms = linear(owned.start[d])
    scale = terms.pop(first, 0)
    within = total((c, f) for f, c in terms.items())
    conditions = conjuncts(owned.condition)
    if scale != 1 or not (least(within) >= 0 or is_below(-1, within, conditions)):
        return "a box does not begin in a piece of offsets, at a place of 0 or more in it"
    end = replace(first, args=(kind, key, add(number, 1), *rest))
    if owned.limits != ((d, end),) and (owned.limits or not _ends_before(owned, d, end)):
        return "nothing says that a box ends in the piece of offsets that it begins in"
    memory = owned.memory
    shape = (bound(number), *(bound(within) + owned.box[d] if k == d else n for k, n in enumerate(memory.shape)))
    places = (number, *(within if k == d else x for k, x in enumerate(owned.start)))
    memory = replace(memory, shape=shape, pitches=(0, *memory.pitches))
    box = (1, *owned.box)
    condition = _without_elements(owned)
    return _Moved(replace(owned, memory=memory, start=places, box=box, condition=condition, limits=()), (key, d))


def _list_elements(owned: Owned) -> list[tuple[int, Formula]]:
    """The elements of tables that name where a box lies, each with the dimension."""
    return [(d, found) for d, x in enumerate(owned.start) for found in find_elements(x)]


def _without_elements(owned: Owned) -> Index:
    """The conditions of a box that name no element of a table."""
    return every(*(c for c in conjuncts(owned.condition) if not find_elements(c)))


def _ends_before(owned: Owned, d: int, end: Index) -> bool:
    """Does a box end before a place wherever it is written?"""
    return is_below(add(owned.start[d], owned.box[d] - 1), end, tuple(conjuncts(owned.condition)))
