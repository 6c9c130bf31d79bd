"""What steps name and write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import Any

from tilegen.index import Index, Var, variables
from tilegen.plan import (
    Arrive,
    Await,
    Barrier,
    Block,
    Let,
    Map,
    Memory,
    Move,
    Ref,
    Repeat,
    Slot,
    Step,
    Sync,
    TensorMap,
    Tma,
    When,
)  # fmt: skip
from tilegen.render.addresses import subscript

Named = Var | Memory | TensorMap | Barrier


def refs_of(step: Step) -> Iterator[Ref]:
    """The Refs of a step, the one it writes first (not those of its body)."""
    if isinstance(step, Move):
        yield from (step.dst, step.src)
    elif isinstance(step, Map):
        yield from (step.dst, *step.srcs)
    elif isinstance(step, Tma):
        yield step.shared
    elif isinstance(step, Block):
        yield from (actual for _, actual in step.args if isinstance(actual, Ref))


def _expressions(step: Step) -> Iterator[Any]:
    """The index expressions that a step prints itself (not those of its body)."""
    if isinstance(step, Let):
        yield step.value
    elif isinstance(step, Repeat):
        yield step.count
    elif isinstance(step, When):
        yield step.condition
    elif isinstance(step, Move):
        yield step.valid
    elif isinstance(step, Tma):
        yield from step.at
    elif isinstance(step, Await):
        yield step.parity
    elif isinstance(step, Block):
        yield from (actual for _, actual in step.args if not isinstance(actual, Ref))
    yield from (slot.at for slot in _slots_of(step))
    yield from (subscript(r) for r in refs_of(step))


def _slots_of(step: Step) -> list[Slot]:
    """The mbarriers that a step names."""
    slot = step.slot if isinstance(step, (Arrive, Await)) else step.done if isinstance(step, Tma) else None
    return [slot] if slot else []


def free_names(steps: Iterable[Step], wgid: Index, known: frozenset[str] = frozenset()) -> dict[str, Named]:
    """What steps use by name and do not define, in order of first use."""
    found: dict[str, Named] = {}
    for step in steps:
        inner: Iterable[Step] = getattr(step, "body", ())
        used: dict[str, Named] = {r.memory.name: r.memory for r in refs_of(step)}
        used |= {slot.barrier.name: slot.barrier for slot in _slots_of(step)}
        if isinstance(step, Tma):
            used[step.map.name] = step.map
        for x in (*_expressions(step), *([wgid] if isinstance(step, Sync) and step.scope == "warpgroup" else [])):
            used |= {v.name: v for v in sorted(variables(x), key=lambda v: v.name)}
        if isinstance(step, Block):
            own = {m.name for m in (*(formal for formal, _ in step.args), *step.registers)}
            used |= {n: x for n, x in free_names(inner, wgid).items() if n not in own}
        else:
            used |= free_names(inner, wgid, frozenset([step.var.name]) if isinstance(step, Repeat) else frozenset())
        found |= {n: x for n, x in used.items() if n not in known and n not in found}
        if isinstance(step, Let):
            known |= {step.var.name}
    return found


def written_names(steps: Iterable[Step]) -> frozenset[str]:
    """Names of the memories that steps write."""
    names: set[str] = set()
    for step in steps:
        if isinstance(step, (Move, Map)):
            names.add(step.dst.memory.name)
        elif isinstance(step, Tma):
            names |= {step.shared.memory.name} if step.done else set()
        elif isinstance(step, Block):
            inner, formals = written_names(step.body), {f.name: a for f, a in step.args}
            names |= {formals[n].memory.name if n in formals else n for n in inner} - {m.name for m in step.registers}
        else:
            names |= written_names(getattr(step, "body", ()))
    return frozenset(names)


def fresh(name: str, taken: Iterable[str]) -> str:
    """``name``, or with the first number that makes it new."""
    known = set(taken)
    return next(n for n in chain([name], (f"{name}{i}" for i in count(2))) if n not in known)
