"""Tables without contents: what a kernel does with those that are taken in their place (index/contents.py).

A table is an integer array whose elements are places, counts or conditions of a kernel. For proofs it is an unknown
function: each kind of contents is one, and a kernel is run with all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilegen.arithmetic.values import Values
from tilegen.index import Index, add, least, maximum, mul, select, table_value
from tilegen.index.contents import TURNS
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


def content_of(values: Values, number: Index, kind: int, marks: tuple[int, ...] = ()) -> Index:
    """The value of an element of this number, with contents of a kind of index.contents.

    >>> from tilegen.index import evaluate
    >>> [int(evaluate(content_of(Values(10, 14), k, TURNS), {})) for k in range(4)]
    [10, 13, 11, 12]
    """
    low, high = values.low, values.high
    assert not isinstance(low, float) and not isinstance(high, float)
    return table_value(kind, number if least(number) >= 0 else maximum(number, 0), low, high, values.step, marks)


def value_of_fetch(step: Fetch, kind: int) -> Index:
    """What a step fetches where its table has contents of a kind."""
    return select(step.where, content_of(step.values, step.number, kind), step.otherwise)


def has_tables(plan: Plan) -> bool:
    """Does a step of the plan read a table?"""
    return any(_find_fetches(role.steps) for role in plan.roles)


def fill_tables(plan: Plan, kind: int) -> Plan:
    """The plan with contents of a kind in place of its tables: it reads none."""
    return replace(plan, roles=tuple(replace(role, steps=_fill(role.steps, kind)) for role in plan.roles))


def _find_fetches(steps: Sequence[Step]) -> bool:
    return any(isinstance(s, Fetch) or _find_fetches(_body(s)) for s in steps)


def _body(step: Step) -> tuple[Step, ...]:
    return step.body if isinstance(step, Repeat | When | Block) else ()


def _fill(steps: Sequence[Step], kind: int) -> tuple[Step, ...]:
    filled: list[Any] = []
    for step in steps:
        if isinstance(step, Fetch):
            filled.append(Let(step.var, value_of_fetch(step, kind)))
        elif isinstance(step, Repeat | When | Block):
            filled.append(replace(step, body=_fill(step.body, kind)))
        else:
            filled.append(step)
    return tuple(filled)
