"""What steps name and write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, count

from tilegen.arithmetic import Parameter
from tilegen.index import Index, Var, bound, variables
from tilegen.plan import (
    TENSOR_LOADS,
    Barrier,
    Block,
    Effects,
    Fetch,
    Let,
    Memory,
    Pick,
    Ref,
    Repeat,
    Step,
    TensorMap,
    Wait,
    effects,
    subscript,
)
from tilegen.scopes import thread_variables

Named = Var | Memory | TensorMap | Barrier | Parameter


def free_names(steps: Iterable[Step], threads: int, known: frozenset[str] = frozenset()) -> dict[str, Named]:
    """What steps of a role of so many threads use by name and do not define, in order of first use."""
    found: dict[str, Named] = {}
    for step in steps:
        touched = effects(step)
        used = _own_names(touched, threads)
        if isinstance(step, Block):
            own = {m.name for m in (*(formal for formal, _ in step.args), *step.registers)}
            used |= {n: x for n, x in free_names(touched.body, threads).items() if n not in own}
        else:
            inner = frozenset([step.var.name]) if isinstance(step, Repeat) else frozenset()
            used |= free_names(touched.body, threads, inner)
        found |= {n: x for n, x in used.items() if n not in known and n not in found}
        if isinstance(step, Let | Fetch | Pick):
            known |= {*step.names}
    return found


def _own_names(touched: Effects, threads: int) -> dict[str, Named]:
    """What a step itself names, not those of its body."""
    used: dict[str, Named] = {r.memory.name: r.memory for r in touched.refs}
    used |= {slot.barrier.name: slot.barrier for slot in touched.slots}
    used |= {m.name: m for m in touched.maps}
    used |= {p.name: p for p in touched.params}
    for x in _expressions(touched):
        used |= {v.name: v for v in sorted(variables(x), key=lambda v: v.name)}
    axes = {axis: axis_index(axis, threads) for axis in touched.axes}
    return used | {axis: x for axis, x in axes.items() if isinstance(x, Var)}


def _expressions(touched: Effects) -> Iterator[Index]:
    yield from touched.expressions
    yield from (slot.at for slot in touched.slots)
    yield from (subscript(r) for r in touched.refs)


def axis_index(axis: str, threads: int) -> Index:
    """A thread axis of a role as the variable that the kernel defines for it; a number where it is always that."""
    value = thread_variables(threads)[axis]
    return value if isinstance(value, int) else Var(axis, bound(value))


def written_names(steps: Iterable[Step]) -> frozenset[str]:
    """Names of the memories that steps write."""
    names: set[str] = set()
    for step in steps:
        touched = effects(step)
        names |= {t.ref.memory.name for t in touched.written if t.ref in touched.refs}
        inner = written_names(touched.body)
        if isinstance(step, Block):
            formals = {f.name: a.memory.name for f, a in step.args if isinstance(a, Ref)}
            inner = frozenset(formals.get(n, n) for n in inner) - {m.name for m in step.registers}
        names |= inner
    return frozenset(names)


def held_registers(steps: Iterable[Step], queue: str) -> tuple[Memory, ...]:
    """Registers that instructions of a queue take, in these steps or in functions that they call, by their names here.

    Functions that end by waiting for their loads from tensor memory have put them there when they return.

    >>> from tilegen.plan import PRODUCTS
    >>> held_registers((), PRODUCTS)
    ()
    """
    found: dict[str, Memory] = {}
    for step in steps:
        touched = effects(step)
        if touched.instruction is not None and touched.instruction.queue == queue:
            found |= {t.ref.memory.name: t.ref.memory for t in touched.touches if t.ref.memory.traits.is_held}
        if isinstance(step, Block) and queue == TENSOR_LOADS and step.body[-1:] == (Wait(TENSOR_LOADS),):
            continue
        inner = {m.name: m for m in held_registers(touched.body, queue)}
        if isinstance(step, Block):
            formals = {f.name: a.memory for f, a in step.args if isinstance(a, Ref)}
            own = {m.name for m in step.registers}
            inner = {m.name: m for m in (formals.get(n, m) for n, m in inner.items() if n not in own)}
        found |= inner
    return tuple(found.values())


def fresh(name: str, taken: Iterable[str]) -> str:
    """``name``, or with the first number that makes it new."""
    known = set(taken)
    return next(n for n in chain([name], (f"{name}{i}" for i in count(2))) if n not in known)
