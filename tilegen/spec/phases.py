"""The mbarriers of a spec: how many threads arrive for a phase, how many slots there are, which phase a wait is for.

Copies that follow one another and name one mbarrier fill one phase of it; those of TMA that the same thread starts
arrive once, and the first announces the bytes of all. A wait is for the next phase that no wait
before it was for: of a single mbarrier, the number of waits before it; of slot ``E % n``, round ``E / n``. Both are
closed forms of loop variables, so nothing counts in the kernel. The interpreter proves that they are right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import UnionType

import numpy as np

from tilegen.dtypes import DTYPES
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
    every,
    maximum,
    mod,
    mul,
    select,
    sub,
    substitute,
    variables,
)
from tilegen.kept import keep
from tilegen.plan import CP_ASYNC, MBARRIER, TMA_STORE, Barrier
from tilegen.scopes import CLUSTER_AXES, SCOPES, thread_variables
from tilegen.spec.data import (
    ArriveStatement,
    Call,
    LetStatement,
    Loop,
    Nest,
    Region,
    RoleBlock,
    Spec,
    Statement,
    WaitStatement,
    WhenStatement,
)
from tilegen.spec.pairs import PAIR, count_places, is_shared
from tilegen.spec.tables import Read
from tilegen.spec.terms import SlotName


@dataclass(frozen=True)
class _Filling:
    """Neighbours that name one slot and fill one phase of it together, and the conditions around them.

    ``numbers``: of the calls among all calls, in the order of the text; an arrival has that of the next call.
    """

    statements: tuple[Call | ArriveStatement, ...]
    conditions: tuple[Index, ...]
    numbers: tuple[int, ...]

    @property
    def slot(self) -> SlotName:
        slot = self.statements[0].barrier
        assert slot is not None
        return slot


@keep
def barriers_of(spec: Spec) -> dict[str, Barrier]:
    """Every mbarrier that a copy or an arrival names: a phase takes what each role's places bring, which is one number.

    Raises SpecError TG305 where places of a role bring different numbers, and for a declared one that none brings any.
    """
    needs: dict[str, int] = {}
    for role in [r.name for r in spec.roles] or [""]:
        own = [s for s in spec.ops if not isinstance(s, RoleBlock) or s.role == role]
        for name, count in _arrivals_of(own, spec.threads_of(role), spec).items():
            needs[name] = needs.get(name, 0) + count
    wanted = {b.name for b in spec.barriers} | _named(spec.ops, WaitStatement)
    for name in wanted & _named(spec.ops, Call | ArriveStatement):
        needs.setdefault(name, 1)  # what arrives there never runs: no phase completes
    slots = {s.name: 0 for s in _slots(spec.ops) if s.name in needs}
    for s in _slots(spec.ops):
        if s.name in slots:
            slots[s.name] = max(slots[s.name], bound(s.index))
    for terms in spec.barriers:
        if terms.name not in needs:
            message = f"nothing arrives at '{terms.name}': nobody could wait for it"
            raise SpecError(
                Diagnostic("TG305", message, terms.mark, "remove it, or let a copy, 'arrive' or 'commit' name it")
            )
        slots[terms.name] = terms.slots
    order = [*(b.name for b in spec.barriers), *needs]
    return {
        name: Barrier(name, slots[name], needs[name], _order_of(spec, name), is_shared(spec, name))
        for name in dict.fromkeys(order)
    }


def _order_of(spec: Spec, name: str) -> str:
    """How far arrivals at a barrier order: to other CTAs where threads of any role touch what those fill: one role may
    arrive for what it has heard of another. Arrivals at a pair's barrier, and commits to other CTAs, order the cluster.

    Where TMA and tensor cores alone do (no mma has threads read shared memory), a wait for them has ordered that.
    """
    if is_shared(spec, name) or any(a.to and a.landed and a.barrier.name == name for a in _arriving(spec.ops)):
        return "cluster"
    if not any(a.to and a.barrier.name == name for a in _arriving(spec.ops)):
        return "cta"
    filled = {r.buffer.root for call in _calls(spec.ops) if call.peers for r in call.written}
    filled |= {b.root for b in spec.buffers if filled & set(b.over)}
    by_threads = (c for c in _calls(spec.ops) if c.queue not in (MBARRIER, TMA_STORE.queue) and c.op != "mma")
    is_touched = any(r.buffer.root in filled for call in by_threads for r in call.regions.values())
    return "cluster" if is_touched else "cta"


def _calls(statements: Sequence[Statement]) -> Iterator[Call]:
    return (s for s in _walk(statements) if isinstance(s, Call))


def _arriving(statements: Sequence[Statement]) -> Iterator[ArriveStatement]:
    return (s for s in _walk(statements) if isinstance(s, ArriveStatement))


def _walk(statements: Sequence[Statement]) -> Iterator[Statement]:
    for s in statements:
        yield s
        if isinstance(s, Nest):
            yield from _walk(s.body)


def _arrivals_of(statements: Sequence[Statement], threads: int, spec: Spec) -> dict[str, int]:
    """The arrivals for a phase of each mbarrier that a role of so many threads brings."""
    arrivals: dict[str, tuple[int, Mark | None]] = {}
    for filling in _phases(statements):
        first, name = filling.statements[0], filling.slot.name
        here = sum(
            _instances(s[0], threads, filling.conditions)
            * count_arrivals(s[0], threads)
            * _count_senders(s[0], filling.conditions, spec)
            for s in _group_arrivals(filling.statements)
        )
        before, mark = arrivals.setdefault(name, (here, first.mark))
        if here != before:
            line = mark.spot if mark else "before"
            message = f"a phase of '{name}' is filled by {here} here, and by {before} on {line}: it has one number"
            hint = "copies and arrivals that follow one another fill one phase"
            raise SpecError(Diagnostic("TG305", message, first.mark, hint))
    return {name: count for name, (count, _) in arrivals.items()}


def _phases(
    statements: Sequence[Statement], around: tuple[Index, ...] = (), first: int = 0
) -> Iterator[_Filling]:  # fmt: skip
    """The statements that fill one phase together; ``first``: the number of the first call among them."""
    run: list[tuple[Call | ArriveStatement, int]] = []
    for s in statements:
        number, first = first, first + sum(1 for _ in _calls((s,)))
        if isinstance(s, Call | ArriveStatement) and s.when is False:
            continue
        if isinstance(s, Call | ArriveStatement) and run and s.barrier == run[0][0].barrier:
            run.append((s, number))
            continue
        if run:
            yield _fill(run, around)
        run = [(s, number)] if isinstance(s, Call | ArriveStatement) and s.barrier else []
        if isinstance(s, WhenStatement) and s.when is not False:  # else it never fills any
            yield from _phases(s.body, (*around, s.when), number)
        elif isinstance(s, Nest) and not isinstance(s, WhenStatement):
            yield from _phases(s.body, around, number)
    if run:
        yield _fill(run, around)


def _fill(run: Sequence[tuple[Call | ArriveStatement, int]], around: tuple[Index, ...]) -> _Filling:
    statements, numbers = zip(*run, strict=True)
    return _Filling(statements, around, numbers)


def _group_arrivals(statements: Sequence[Call | ArriveStatement]) -> list[list[Call | ArriveStatement]]:
    """The statements of a phase, those together that are one arrival: TMA copies of one scope and condition."""
    groups: list[list[Call | ArriveStatement]] = []
    for s in statements:
        before = groups[-1][-1] if groups else None
        if _is_tma(s) and before and _is_tma(before) and (s.scope, s.when) == (before.scope, before.when):
            groups[-1].append(s)
        else:
            groups.append([s])
    return groups


def _is_tma(s: Call | ArriveStatement) -> bool:
    return isinstance(s, Call) and s.queue == MBARRIER


def announced_bytes_of(spec: Spec) -> dict[int, int]:
    """The bytes that each TMA copy announces, by its number: all of its arrival, 0 if it is not the first there.

    At the mbarrier of a pair those of both CTAs.
    """
    found: dict[int, int] = {}
    for filling in _phases(spec.ops):
        ctas = PAIR if is_shared(spec, filling.slot.name) else 1
        numbers = iter(filling.numbers)
        for group in _group_arrivals(filling.statements):
            first, *rest = [next(numbers) for _ in group]
            if _is_tma(group[0]):
                found |= dict.fromkeys(rest, 0)
                found[first] = ctas * sum(_bytes_of(s.regions["dst"]) for s in group if isinstance(s, Call))
    return found


def _bytes_of(region: Region) -> int:
    return prod(region.lengths) * DTYPES[region.buffer.dtype].bytes


def _slots(statements: Sequence[Statement]) -> Iterator[SlotName]:
    for s in statements:
        if isinstance(s, Nest):
            yield from _slots(s.body)
        elif isinstance(s, Call | WaitStatement | ArriveStatement) and s.barrier:
            yield s.barrier


def _named(statements: Sequence[Statement], kind: type | UnionType) -> set[str]:
    """The mbarriers that statements of a kind name, whether they run or not."""
    found: set[str] = set()
    for s in statements:
        if isinstance(s, Nest):
            found |= _named(s.body, kind)
        elif isinstance(s, kind) and (slot := getattr(s, "barrier", None)) is not None:
            found.add(slot.name)
    return found


def count_arrivals(s: Call | ArriveStatement, threads: int) -> int:
    """The arrivals that an instance of a statement brings to each barrier that it tells; of cp.async a thread is one.

    ``threads``: of its role.
    """
    is_each = isinstance(s, Call) and s.queue == CP_ASYNC.queue
    return SCOPES[s.scope].size(threads) if is_each else 1


def _count_senders(s: Call | ArriveStatement, around: Sequence[Index], spec: Spec) -> int:
    """How many CTAs of a cluster arrive at one barrier by a statement: those that run it, and tell all along an axis or
    the even one of their pair. For what both of a pair copy by TMA the even one arrives.
    """
    assert s.barrier is not None
    conditions = (*around, s.when)
    if isinstance(s, ArriveStatement) and s.to:
        axis = CLUSTER_AXES.index(s.to)
        return count_places(conditions, axis, spec.cluster, range(spec.cluster[axis]))
    if isinstance(s, ArriveStatement) and is_shared(spec, s.barrier.name):  # of the pair that has most
        evens = range(0, spec.cluster[0], PAIR)
        return max(count_places(conditions, 0, spec.cluster, range(even, even + PAIR)) for even in evens)
    return 1


def _instances(s: Call | ArriveStatement, threads: int, around: Sequence[Index]) -> int:
    """How many instances of the statement run, as far as its condition and those around are ones on them."""
    first = np.arange(0, threads, SCOPES[s.scope].size(threads))
    axes = {name: evaluate(x, {"tx": first}) for name, x in thread_variables(threads).items()}
    runs = np.ones(len(first), bool)
    for condition in conjuncts(every(s.when, *around)):
        if {v.name for v in variables(condition)} <= set(axes):
            runs &= np.broadcast_to(np.asarray(evaluate(condition, axes), bool), runs.shape)
    return int(runs.sum())


# ---------------------------------------------------------------- phases
def parity_of(wait: WaitStatement, barrier: Barrier, before: Index, is_open: bool = False) -> Index:
    """The parity of the phase that a wait is for; ``before``: how many waits for a single mbarrier came before it.

    Of an open one it is that of the phase before: the first of all is complete when the kernel starts.

    Raises SpecError TG306 for a slot from which the phase cannot be read.

    >>> k = Var("k", 64)
    >>> print(parity_of(WaitStatement(0, barrier=SlotName("full", k % 3)), Barrier("full", 3, 1), 0))
    (k / 3) & 1
    """
    phase = _phase_of(wait, barrier, before)
    return mod(add(phase, 1) if is_open else phase, 2)


def _phase_of(wait: WaitStatement, barrier: Barrier, before: Index) -> Index:
    slot = wait.barrier
    assert slot is not None
    if slot.count is not None and slot.slots == barrier.slots:
        return div(slot.count, slot.slots)
    if barrier.slots == 1:
        return before
    index = slot.index
    if isinstance(index, Formula) and index.symbol == "%" and index.args[1] == barrier.slots:
        return div(index.args[0], barrier.slots)
    if isinstance(index, int | Var):
        return 0  # below the number of slots, so the first round
    message = f"which phase of '{slot.name}' this waits for cannot be read from its slot, {index}"
    hint = f"write it as E % {barrier.slots}, where E counts the waits"
    raise SpecError(Diagnostic("TG306", message, slot.mark, hint))


def counted_barriers(spec: Spec) -> frozenset[str]:
    """The mbarriers of which a wait says no phase: it is the number of waits before."""
    waits = [s.barrier for s in _walk(spec.ops) if isinstance(s, WaitStatement) and s.barrier]
    return frozenset(slot.name for slot in waits if slot.count is None)


def count_waits(statements: Sequence[Statement], names: frozenset[str]) -> dict[str, Index]:
    """How often mbarriers of these names are waited for, whatever conditions on the waits themselves say.

    Raises SpecError TG306 for a loop around a wait whose trips depend on an outer loop.
    """
    found: dict[str, Index] = {}
    values: dict[str, Index] = {}  # what the lets of this list stand for: nobody knows them after it
    for s in statements:
        if isinstance(s, WaitStatement) and s.barrier and s.barrier.name in names:
            found[s.barrier.name] = add(found.get(s.barrier.name, 0), 1)
        elif isinstance(s, LetStatement):
            for var, value in s.entries:
                if not isinstance(value, Read):
                    values[var.name] = substitute(value, values)
        elif isinstance(s, WhenStatement):
            for name, each in count_waits(s.body, names).items():
                found[name] = add(found.get(name, 0), substitute(select(s.when, each, 0), values))
        elif isinstance(s, Loop):
            for name, each in count_waits(s.body, names).items():
                if not isinstance(each, int) and s.var.name in {v.name for v in variables(each)}:
                    message = f"how often '{name}' is waited for differs from trip to trip of '{s.var.name}'"
                    raise SpecError(Diagnostic("TG306", message, s.mark, "wait as often in every trip"))
                found[name] = add(found.get(name, 0), substitute(mul(trips_of(s), each), values))
    return found


def trips_of(loop: Loop) -> Index:
    """How often a loop's body runs."""
    return count_trips(loop.start, loop.stop, loop.step)


def count_trips(start: Index, stop: Index, step: Index) -> Index:
    """How many values there are from start to below stop, by step: none where start is beyond."""
    return ceil_div(maximum(sub(stop, start), 0), step)


def step_waits(before: Mapping[str, Index], each: Mapping[str, Index], trips: Index) -> dict[str, Index]:
    """The waits so far, after ``trips`` rounds of ``each``."""
    return {name: add(before.get(name, 0), mul(trips, each.get(name, 0))) for name in {*before, *each}}
