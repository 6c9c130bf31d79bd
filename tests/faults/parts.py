"""A plan with what it is made of replaced, wherever it stands: in memories, barriers, steps and owned boxes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from tests.faults.steps import NOT_PLANTED
from tilegen.index import Formula, Var
from tilegen.plan import Barrier, Instruction, Memory, Plan

T = TypeVar("T")
_LEAVES = (str, int, float, complex, type(None), Var, Formula, Instruction)


def rewrite(x: T, change: Callable[[Any], Any]) -> T:
    """``x`` with every part for which ``change`` gives another (None: the part is looked into).

    >>> from tilegen.plan import flat_memory
    >>> s = flat_memory("s", "float32", 8, "shared")
    >>> rewrite((s[0], s[1]), lambda x: flat_memory("t", "float32", 8, "shared") if x == s else None)[1].memory.name
    't'
    """
    found = change(x)
    if found is not None:
        return found  # type: ignore[no-any-return]
    if isinstance(x, tuple):
        return tuple(rewrite(y, change) for y in x)  # type: ignore[return-value]
    if isinstance(x, _LEAVES) or not dataclasses.is_dataclass(x):
        return x
    parts = {f.name: (getattr(x, f.name), rewrite(getattr(x, f.name), change)) for f in dataclasses.fields(x) if f.init}
    changed = {name: new for name, (old, new) in parts.items() if new is not old}
    return replace(x, **changed) if changed else x  # type: ignore[type-var]


def change_parts(plan: Plan, change: Callable[[Any], Any], *names: str) -> Plan:
    """The plan with parts of some of its fields changed, of its steps if none is named."""
    changed = replace(plan, **{name: rewrite(getattr(plan, name), change) for name in names or ("roles",)})
    assert changed != plan, NOT_PLANTED
    return changed


def change_memories(plan: Plan, change: Callable[[Memory], Memory]) -> Plan:
    """The plan with other memories, which all of it names."""

    def other(x: Any) -> Any:
        return change(x) if isinstance(x, Memory) else None

    return change_parts(plan, other, "memories", "roles")


def order_only_ctas(plan: Plan, name: str) -> Plan:
    """The plan with arrivals and waits at a barrier that order a CTA alone: their text is without ``.cluster``."""

    def weaken(x: Any) -> Any:
        return replace(x, order="cta") if isinstance(x, Barrier) and x.name == name else None

    return change_parts(plan, weaken, "barriers", "roles")


def align_shared(plan: Plan, align_bytes: int, *names: str) -> Plan:
    """Shared memories, or those of these names, declared for accesses of so many bytes and no more."""

    def align(m: Memory) -> Memory:
        is_meant = m.space == "shared" and (not names or m.name in names)
        return replace(m, align_bytes=max(align_bytes, m.elem_bytes)) if is_meant else m

    return change_memories(plan, align)
