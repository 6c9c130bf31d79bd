"""Who owns what lies at places of tables: boxes are moved to where the number of the table's element has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilegen.index import Formula, Index, add, bound, conjuncts, every, least, mul, sub, total
from tilegen.index.bounds import is_below
from tilegen.index.contents import OFFSETS, SPREAD, TURNS, UPWARDS
from tilegen.index.linear import linear
from tilegen.proofs.finding import MAY_BE_EQUAL, Finding
from tilegen.proofs.owned_boxes import Owned


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
    if kind not in (UPWARDS, TURNS, SPREAD):
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
