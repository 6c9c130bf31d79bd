"""Tables without contents: what a kernel does with those that are taken in their place (index/contents.py).

A table is an integer array whose elements are places, counts or conditions of a kernel. For proofs it is an unknown
function: each kind of contents is one, and a kernel is run with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilegen.arithmetic.values import Values
from tilegen.index import Index, add, least, maximum, mul, select, substitute, table_value
from tilegen.index.contents import HOLED, LARGEST, LEAST, OFFSETS, SPREAD, TURNS, UPWARDS
from tilegen.plan.kernel import Plan
from tilegen.plan.steps import Block, Fetch, Let, Repeat, Step, When


def number_of(at: Sequence[Index], shape: Sequence[Index]) -> Index:
    """Which element it is, counted row by row.

    >>> number_of((2, 3), (8, 10))
    23
    """
    number: Index = 0
    for x, n in zip(at, shape, strict=True):
        number = add(mul(number, n), x)
    return number


@dataclass(frozen=True)
class Contents:
    """What all tables of a kernel hold: a kind of index.contents, and numbers that values are near.

    ``places``: tables that name nothing but places, of which each element is another.
    """

    kind: int
    marks: tuple[int, ...] = ()
    places: frozenset[str] = frozenset()


COSTED = Contents(TURNS)  # what costs are counted with


def content_of(table: str, values: Values, number: Index, contents: Contents = COSTED) -> Index:
    """The value of an element of this number, with contents that the promise of its table allows.

    >>> from tilegen.index import evaluate
    >>> [int(evaluate(content_of("ids", Values(10, 14), k, Contents(LARGEST)), {})) for k in range(3)]
    [13, 13, 13]
    """
    kind, marks = contents.kind, contents.marks
    low, high = values.places
    number, key = number if least(number) >= 0 else maximum(number, 0), int.from_bytes(table.encode(), "big")
    if values.pieces is not None:
        lengths = (0, 1, *(n for n in marks if n > 1)) if kind == TURNS and marks else _LENGTHS[kind]
        return table_value((OFFSETS, key), number, low, high, 1, (values.pieces, *lengths))
    may_miss = least(low) < 0
    if values.is_distinct and not (kind == LEAST and may_miss):
        return table_value((HOLED if kind == HOLED and may_miss else UPWARDS, key), number, low, high, values.step)
    if table in contents.places:
        return table_value((SPREAD, key), number, low, high, values.step)
    kind = TURNS if kind == HOLED else kind
    return table_value((kind, key), number, low, high, values.step, marks if kind == TURNS else ())


_LENGTHS = {  # of pieces in turn, for each kind of contents; in turns also those near numbers of the text
    TURNS: (0, 1, 127, 128, 129, 64), LEAST: (0,), LARGEST: (1 << 40,), HOLED: (63, 65, 0, 1),
}  # fmt: skip


def value_of_fetch(step: Fetch, contents: Contents) -> Index:
    """What a step fetches with these contents."""
    return select(step.where, content_of(step.src.memory.name, step.values, step.number, contents), step.otherwise)


def let_element(step: Fetch, value: Index) -> tuple[Let, ...]:
    """What stands for a step that fetches a value: one that keeps the promise of its array."""
    kept = (Let(step.test.kept, 1),) if step.test else ()
    return (*kept, Let(step.var, value))


def has_tables(plan: Plan) -> bool:
    """Does a step of the plan read a table?"""
    return any(_find_fetches(role.steps) for role in plan.roles)


@dataclass(frozen=True)
class Element:
    """An element of a table where a kernel reads it; ``names``: what names stand for there, written out."""

    array: str
    values: Values
    number: Index
    names: Mapping[str, Index]

    @property
    def place(self) -> Index:
        """Its number, written out."""
        return substitute(self.number, self.names)


Fill = Callable[[Element], tuple[Index, Index | None]]  # what stands for an element; and written out, None: its name


def fill_with(contents: Contents) -> Fill:
    """What stands for elements of tables that hold these contents."""
    return lambda x: (content_of(x.array, x.values, x.number, contents), None)


def fill_tables(plan: Plan, fill: Fill) -> Plan:
    """The plan with something else in place of each element of a table: it reads none."""
    return replace(plan, roles=tuple(replace(role, steps=_fill(role.steps, fill, {})) for role in plan.roles))


def _find_fetches(steps: Sequence[Step]) -> bool:
    return any(isinstance(s, Fetch) or _find_fetches(_body(s)) for s in steps)


def _body(step: Step) -> tuple[Step, ...]:
    return step.body if isinstance(step, Repeat | When | Block) else ()


def _fill(steps: Sequence[Step], fill: Fill, names: Mapping[str, Index]) -> tuple[Step, ...]:
    filled, names = list[Any](), dict(names)
    for step in steps:
        if isinstance(step, Fetch):
            value, known = fill(Element(step.src.memory.name, step.values, step.number, names))
            filled += let_element(step, select(step.where, value, step.otherwise))
            where = substitute(step.where, names)
            names[step.var.name] = step.var if known is None else select(where, known, step.otherwise)
        elif isinstance(step, Repeat | When | Block):
            inner = {name: x for name, x in names.items() if not isinstance(step, Repeat) or name != step.var.name}
            filled.append(replace(step, body=_fill(step.body, fill, inner)))
        else:
            if isinstance(step, Let):
                names[step.var.name] = substitute(step.value, names)
            filled.append(step)
    return tuple(filled)
