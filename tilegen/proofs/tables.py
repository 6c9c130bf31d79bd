"""Kernels that read tables: proved with all kinds of contents, and their places for every content that is promised.

What a table holds is not known, so ranges and alignments follow from what its array promises alone. Everything else
is shown with contents that are functions of the element (plan/contents.py): each turns the spec and its plan into ones
that read no table, of which all is proved as of any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilegen.errors import Diagnostic
from tilegen.index import Index, select
from tilegen.plan import Plan
from tilegen.plan.contents import content_of, fill_tables, number_of
from tilegen.spec.data import LetStatement, Nest, Spec, Statement
from tilegen.spec.tables import Read


def fill_both(spec: Spec, plan: Plan, kind: int) -> tuple[Spec, Plan]:
    """The spec and its plan with contents of a kind in place of tables: neither reads one."""
    return replace(spec, ops=_fill(spec, spec.ops, kind)), fill_tables(plan, kind)


def _fill(spec: Spec, statements: Sequence[Statement], kind: int) -> tuple[Statement, ...]:
    filled: list[Statement] = []
    for s in statements:
        if isinstance(s, Nest):
            s = replace(s, body=_fill(spec, s.body, kind))  # noqa: PLW2901 - the same statement, filled
        elif isinstance(s, LetStatement):
            entries = tuple((var, _value_of(spec, x, kind) if isinstance(x, Read) else x) for var, x in s.entries)
            s = replace(s, entries=entries)  # noqa: PLW2901
        filled.append(s)
    return tuple(filled)


def _value_of(spec: Spec, read: Read, kind: int) -> Index:
    number = number_of(read.at, spec.buffer(read.array).shape)
    return select(read.when, content_of(read.values, number, kind), read.otherwise)


def add_contents(found: Sequence[Diagnostic], kind: str) -> list[Diagnostic]:
    """What is wrong, with the contents of tables that show it."""
    return [replace(d, message=f"{d.message}, where tables hold {kind}") for d in found]
