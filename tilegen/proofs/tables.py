"""Who owns what lies at places of tables: boxes are moved to where the number of the table's element has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from tilegen.index import Formula, Index, add, bound, conjuncts, every, least, mul, sub, total
from tilegen.index.bounds import is_below
from tilegen.index.contents import OFFSETS, SPREAD, TURNS, UPWARDS
from tilegen.index.linear import linear
from tilegen.proofs.finding import MAY_BE_EQUAL, Finding
from tilegen.proofs.owned_boxes import Owned, find_elements


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


@dataclass(frozen=True)
class _Moved:
    """A box where the element's number has it, and which table that is of, in which dimension."""

    box: Owned
    table: tuple[int, int]


def _move(owned: Owned) -> _Moved | str | None:
    """A box moved to its element's number; why it cannot be, in words; None with contents that repeat in other ways
    than TURNS, which are shown first.
    """
    if owned.limits or any(_is_offset(element) for _, element in _list_elements(owned)):
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
    Where e is an element itself, boxes of all pieces are taken for those of one: no two may meet whatever e is.
    """
    found = [(d, f) for d, x in enumerate(owned.start) for f in linear(x) if _is_offset(f)]
    if len(found) != 1:
        return "a limit of what is written is not the end of a piece of 'offsets' that begins where the box does"
    d, first = found[0]
    kind, key, number, *rest = first.args
    terms = linear(owned.start[d])
    scale = terms.pop(first, 0)
    conditions = tuple(conjuncts(owned.condition))
    within = _drop_constants(total((c, f) for f, c in terms.items()), number, conditions)
    places = [x for k, x in enumerate(owned.start) if k != d]
    if within is None or any(map(find_elements, places)):
        return "a box lies at places of several tables, and nothing tells these apart"
    at = within.place
    if scale != 1 or not (within.is_behind or least(at) >= 0 or is_below(-1, at, conditions)):
        return "a box does not begin in a piece of offsets, at a place of 0 or more in it"
    end = replace(first, args=(kind, key, add(number, 1), *rest))
    if owned.limits != ((d, end),) and (owned.limits or not _ends_before(owned, d, end)):
        return "nothing says that a box ends in the piece of offsets that it begins in"
    memory, piece = owned.memory, 0 if find_elements(number) else number
    shape = (bound(number), *(bound(at) + owned.box[d] if k == d else n for k, n in enumerate(memory.shape)))
    start = (piece, *(at if k == d else x for k, x in enumerate(owned.start)))
    memory = replace(memory, shape=shape, pitches=(0, *memory.pitches))
    box, condition = (1, *owned.box), _without_elements(owned)
    return _Moved(replace(owned, memory=memory, start=start, box=box, condition=condition, limits=()), (key, d))


def _is_offset(x: object) -> TypeGuard[Formula]:
    return isinstance(x, Formula) and x.symbol == "table" and x.args[0] == OFFSETS


@dataclass(frozen=True)
class _Within:
    """Where a box lies in its piece, but for what is the same for all boxes of the piece; is it 0 or more with that?"""

    place: Index
    is_behind: bool = False


def _drop_constants(x: Index, number: Index, conditions: tuple[Index, ...]) -> _Within | None:
    """A place in a piece without elements that the number of the piece decides; None where others are in it.

    ``max(x - b, 0)`` is ``x - b`` where b <= x is a condition.
    """
    terms, is_behind = dict[Any, int](), least(x) >= 0
    for f, c in linear(x).items():
        if isinstance(f, Formula) and f.symbol == "max" and f.args[1] == 0 and is_below(-1, f.args[0], conditions):
            for g, k in linear(f.args[0]).items():
                terms[g] = terms.get(g, 0) + c * k
        else:
            terms[f] = terms.get(f, 0) + c
    kept = {f: c for f, c in terms.items() if not _is_of_piece(f, number)}
    if any(find_elements(f) for f in kept if isinstance(f, Formula)):
        return None
    return _Within(total((c, f) for f, c in kept.items()), is_behind)


def _is_of_piece(x: object, number: Index) -> bool:
    """Is it an element of a table that the number of a piece alone names?"""
    return isinstance(x, Formula) and x.symbol == "table" and x.args[2] == number and not isinstance(number, int)


def _list_elements(owned: Owned) -> list[tuple[int, Formula]]:
    """The elements of tables that name where a box lies, each with the dimension."""
    return [(d, found) for d, x in enumerate(owned.start) for found in find_elements(x)]


def _without_elements(owned: Owned) -> Index:
    """The conditions of a box that name no element of a table."""
    return every(*(c for c in conjuncts(owned.condition) if not find_elements(c)))


def _ends_before(owned: Owned, d: int, end: Index) -> bool:
    """Does a box end before a place wherever it is written?"""
    return is_below(add(owned.start[d], owned.box[d] - 1), end, tuple(conjuncts(owned.condition)))
