"""What mends a fault at an mbarrier, in the words of the spec: slots as it writes them, and who has to arrive."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilegen.spec.data import ArriveStatement, Call, RoleBlock, Spec, SyncStatement, WaitStatement
from tilegen.spec.outline import outline
from tilegen.spec.terms import SlotName


def say_stuck(spec: Spec, name: str) -> str:
    """What completes the phase that threads wait for in vain."""
    idle = [r.name for r in spec.roles if r.name not in {block.role for block in outline(spec).find(RoleBlock)}]
    if idle:
        return f"role '{idle[0]}' runs nothing: name its block 'role: {idle[0]}'"
    arriving, waiting = _roles_at(spec, name, ArriveStatement), _roles_at(spec, name, WaitStatement)
    if not arriving:
        return "start the copies that it waits for before it, in every trip"
    is_open = any(b.open for b in spec.barriers if b.name == name)
    is_of_products = any(a.landed for a in outline(spec).find(ArriveStatement) if a.barrier.name == name)
    filled, awaited = _named_by(spec, waiting, ArriveStatement, Call), _named_by(spec, arriving, WaitStatement)
    if not (is_open or is_of_products) and set(filled) & set(awaited):
        return f"declare '{name}' with 'open: true': its first round is then free"
    return f"arrive at '{name}' before it, in every trip"


def say_unwaited(spec: Spec, name: str) -> tuple[str, ...]:
    """The wait by which those who arrive at a barrier learn that its phase before was waited for, if one can be told.

    It is for what those who wait for that phase arrive at, where those who fill it do not wait for that.
    """
    filling = _roles_at(spec, name, ArriveStatement, Call)
    back = _named_by(spec, _roles_at(spec, name, WaitStatement) - filling, ArriveStatement)
    missing = [n for n in back if n not in _named_by(spec, filling, WaitStatement)]
    return (f"wait: {{barrier: {missing[0]}}}",) if missing else ()


def say_arrival(spec: Spec, earlier: Call, later: Call) -> str:
    """How the role of one call tells that of another that it is done: by a sync, where an arrival stands alone."""
    first, second = earlier.role, later.role
    waits, done = set(_named_by(spec, {second}, WaitStatement)), False
    for s in (p.statement for p in outline(spec).placed if p.role == first):
        if done and isinstance(s, SyncStatement):
            break
        if done and isinstance(s, ArriveStatement) and s.barrier.name in waits and s.mark:
            why = "an arrival, that of each thread too, speaks for what a sync before it ordered"
            return f"insert `- sync: {'warp' if s.scope == 'thread' else s.scope}` before {s.mark.spot}: {why}"
        done = done or s is earlier
    return f"in {first} a sync and then an arrival, for which {second} waits; or `- sync: [{first}, {second}]` in both"


def spell_slots(spec: Spec, statements: Sequence[str]) -> tuple[str, ...]:
    """Statements in which waits for barriers of several slots name the slot, as whoever arrives there does."""
    return tuple(re.sub(r"barrier: (\w+)", lambda m: f"barrier: {_spell(spec, m[1])}", s) for s in statements)


def _spell(spec: Spec, name: str) -> str:
    marks = [slot.mark for _, slot in _naming(spec, Call, ArriveStatement, WaitStatement) if slot.name == name]
    text = next((m.text[m.column - 1 : m.column - 1 + m.length] for m in marks if m), name)
    return text if text == name else f'"{text}"'


def _roles_at(spec: Spec, name: str, *kinds: type) -> set[str]:
    """The roles in which statements of some kinds name a barrier."""
    return {role for role, slot in _naming(spec, *kinds) if slot.name == name}


def _named_by(spec: Spec, roles: set[str], *kinds: type) -> list[str]:
    """The barriers that statements of some kinds name in some roles."""
    return [slot.name for role, slot in _naming(spec, *kinds) if role in roles]


def _naming(spec: Spec, *kinds: type) -> list[tuple[str, SlotName]]:
    """The barriers that statements of some kinds name, each with the statement's role."""
    found = [(p.role, p.statement) for p in outline(spec).placed if isinstance(p.statement, kinds)]
    name_one = (Call, ArriveStatement, WaitStatement)
    return [(role, s.barrier) for role, s in found if isinstance(s, name_one) and s.barrier]
