"""The mbarriers of a spec: how many threads arrive for a phase, how many slots there are, which phase a wait is for.

Copies that follow one another and name one mbarrier fill one phase of it. A wait is for the next phase that no wait
before it was for: of a single mbarrier, the number of waits before it; of slot ``E % n``, round ``E / n``. Both are
closed forms of loop variables, so nothing counts in the kernel. The interpreter proves that they are right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tilegen.errors import Diagnostic, Mark, SpecError
from tilegen.index import (
    Formula,
    Index,
    Var,
    add,
    bound,
    ceil_div,
    conjuncts,
    div,
    evaluate,
    maximum,
    mod,
    mul,
    select,
    sub,
    substitute,
    variables,
)
from tilegen.plan import Barrier
from tilegen.scopes import SCOPES, thread_variables
from tilegen.spec.data import Call, Guarded, Loop, Naming, Nest, SlotName, Statement, Waiting


def barriers_of(statements: Sequence[Statement], threads: int) -> dict[str, Barrier]:
    """Every mbarrier that a copy names, of a role of so many threads.

    Raises SpecError TG305 where its phases need different numbers of arrivals.
    """
    arrivals: dict[str, tuple[int, Mark | None]] = {}
    for calls in _phases(statements):
        slot = calls[0].barrier
        assert slot is not None
        here = sum(_instances(call, threads) for call in calls)
        before, mark = arrivals.setdefault(slot.name, (here, calls[0].mark))
        if here != before:
            line = mark.spot if mark else "before"
            message = f"a phase of '{slot.name}' is filled by {here} here, and by {before} on {line}: it has one number"
            hint = "copies that follow one another fill one phase"
            raise SpecError(Diagnostic("TG305", message, calls[0].mark, hint))
    slots = {name: max(bound(s.index) for s in _slots(statements) if s.name == name) for name in arrivals}
    return {name: Barrier(name, slots[name], arrivals[name][0]) for name in arrivals}


def _phases(statements: Sequence[Statement]) -> Iterator[list[Call]]:
    """The calls that fill one phase together: neighbours that name one slot."""
    run: list[Call] = []
    for s in [s for s in statements if not (isinstance(s, Call) and s.when is False)]:
        if isinstance(s, Call) and run and s.barrier == run[0].barrier:
            run.append(s)
            continue
        if run:
            yield run
        run = [s] if isinstance(s, Call) and s.barrier else []
        if isinstance(s, Nest):
            yield from _phases(s.body)
    if run:
        yield run


def _slots(statements: Sequence[Statement]) -> Iterator[SlotName]:
    for s in statements:
        if isinstance(s, Nest):
            yield from _slots(s.body)
        elif isinstance(s, Call | Waiting) and s.barrier:
            yield s.barrier


def _instances(call: Call, threads: int) -> int:
    """How many instances of the call run, as far as its condition is one on them."""
    first = np.arange(0, threads, SCOPES[call.scope].size(threads))
    axes = {name: evaluate(x, {"tx": first}) for name, x in thread_variables(threads).items()}
    runs = np.ones(len(first), bool)
    for condition in conjuncts(call.when):
        if {v.name for v in variables(condition)} <= set(axes):
            runs &= np.broadcast_to(np.asarray(evaluate(condition, axes), bool), runs.shape)
    return int(runs.sum())


# ---------------------------------------------------------------- phases
def parity_of(wait: Waiting, barrier: Barrier, before: Index) -> Index:
    """The parity of the phase that a wait is for; ``before``: how many waits for a single mbarrier came before it.

    Raises SpecError TG306 for a slot from which the phase cannot be read.

    >>> k = Var("k", 64)
    >>> print(parity_of(Waiting(0, barrier=SlotName("full", k % 3)), Barrier("full", 3, 1), 0))
    (k / 3) & 1
    """
    slot = wait.barrier
    assert slot is not None
    if barrier.slots == 1:
        return mod(before, 2)
    index = slot.index
    if isinstance(index, Formula) and index.symbol == "%" and index.args[1] == barrier.slots:
        return mod(div(index.args[0], barrier.slots), 2)
    if isinstance(index, int | Var):
        return 0  # below the number of slots, so the first round
    message = f"which phase of '{slot.name}' this waits for cannot be read from its slot, {index}"
    hint = f"write it as E % {barrier.slots}, where E counts the waits"
    raise SpecError(Diagnostic("TG306", message, slot.mark, hint))


def count_waits(statements: Sequence[Statement]) -> dict[str, Index]:
    """How often each mbarrier is waited for in the statements, whatever conditions on the waits themselves say.

    Raises SpecError TG306 for a loop around a wait whose trips depend on an outer loop.
    """
    found: dict[str, Index] = {}
    values: dict[str, Index] = {}  # what the lets of this list stand for: nobody knows them after it
    for s in statements:
        if isinstance(s, Waiting) and s.barrier:
            found[s.barrier.name] = add(found.get(s.barrier.name, 0), 1)
        elif isinstance(s, Naming):
            for var, value in s.entries:
                values[var.name] = substitute(value, values)
        elif isinstance(s, Guarded):
            for name, each in count_waits(s.body).items():
                found[name] = add(found.get(name, 0), substitute(select(s.when, each, 0), values))
        elif isinstance(s, Loop):
            for name, each in count_waits(s.body).items():
                if not isinstance(each, int) and s.var.name in {v.name for v in variables(each)}:
                    message = f"how often '{name}' is waited for differs from trip to trip of '{s.var.name}'"
                    raise SpecError(Diagnostic("TG306", message, s.mark, "wait as often in every trip"))
                found[name] = add(found.get(name, 0), substitute(mul(trips_of(s), each), values))
    return found


def trips_of(loop: Loop) -> Index:
    """How often a loop's body runs."""
    return ceil_div(maximum(sub(loop.stop, loop.start), 0), loop.step)


def step_waits(before: Mapping[str, Index], each: Mapping[str, Index], trips: Index) -> dict[str, Index]:
    """The waits so far, after ``trips`` rounds of ``each``."""
    return {name: add(before.get(name, 0), mul(trips, each.get(name, 0))) for name in {*before, *each}}
