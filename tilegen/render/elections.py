"""Which thread starts copies by TMA, products and commits: the one that elect.sync finds, where nobody can tell.

Where thread 0 starts one of these, ptxas may make a loop over the threads around it. Where the thread that elect.sync
has found does, there is none: seen in SASS of nvcc 13.0 and NVRTC 13.5 for sm_100a. PTX leaves open which thread is
found, but each time it is the same one (PTX ISA, elect.sync). A plan is proved with thread 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tilegen.index import Formula, Index, Var, conjuncts, every, variables
from tilegen.plan import (
    TENSOR,
    Arrive,
    Await,
    Block,
    Commit,
    Fetch,
    Let,
    Pick,
    Ref,
    Repeat,
    Role,
    Step,
    Sync,
    TensorCopy,
    TensorFence,
    TensorMma,
    Tma,
    Wait,
    When,
    effects,
    flatten,
)
from tilegen.plan.effects import names_used
from tilegen.render.c_text import Election
from tilegen.scopes import THREAD_AXES, thread_variables

_BULK = "bulk"  # the queue of TMA's stores, whose groups are a thread's own
_OF_CORES = (TensorMma, TensorCopy)
# nobody learns from these what is done: an arrival tells others (PTX ISA, mbarrier.arrive: .release)
_STARTS = (Tma, *_OF_CORES, Commit, TensorFence, Arrive, Let, Repeat, When, Block)
_MAY_DO = (*_STARTS, Await, Wait, Sync)
OWN, ELECTED = "own", "elected"  # what thread 0 did as all do, and what the elected one learned, since all met


def elect(role: Role, name: str) -> Role:
    """The role with the work that thread 0 does alone given to the elected thread, a variable of this name.

    The role stays as it was where nothing is gained, and where the thread may matter: the work takes registers or the
    thread's number; thread 0 has done something as one of many, and the threads have not met since; or thread 0 goes on
    with what the work has told it before they meet.
    """
    axes = frozenset(n for n, x in thread_variables(role.threads).items() if x == Var("tx", role.threads))
    alone = [s for s in flatten(role.steps) if isinstance(s, When) and _split(s, axes)[0]]
    if not any(_has_loop(s) for w in alone for s in flatten(w.body)):
        return role
    if _Search(axes).follow(role.steps, frozenset()) is None:
        return role
    return replace(role, steps=_give(role.steps, axes, Election(name, 2)))


def _split(step: When, axes: frozenset[str]) -> tuple[bool, list[Index]]:
    """Whether a condition says that a thread is the first of its role, and the other parts of the condition."""
    parts = list(conjuncts(step.condition))
    rest = [c for c in parts if not _is_zero_of(c, axes)]
    return len(rest) < len(parts), rest


def _is_zero_of(x: Index, axes: frozenset[str]) -> bool:
    if not isinstance(x, Formula) or x.symbol != "==":
        return False
    a, b = x.args
    return isinstance(a, Var) and a.name in axes and isinstance(b, int) and b == 0


def _give(steps: Iterable[Step], axes: frozenset[str], elected: Election) -> tuple[Step, ...]:
    given: list[Step] = []
    for step in steps:
        is_first, rest = _split(step, axes) if isinstance(step, When) else (False, [])
        if isinstance(step, When) and is_first:
            given.append(replace(step, condition=every(elected, *rest)))
        elif isinstance(step, Repeat | When | Block):
            given.append(replace(step, body=_give(step.body, axes, elected)))
        else:
            given.append(step)
    return tuple(given)


def _has_loop(step: Step) -> bool:
    return isinstance(step, (Tma, *_OF_CORES)) or _is_tensor_commit(step)


def _is_tensor_commit(step: Step) -> bool:
    return isinstance(step, Arrive) and step.landed == TENSOR


def _is_of_thread(step: Step) -> bool:
    """Does a step speak for what its thread alone has started?"""
    if isinstance(step, Commit | Wait):
        return step.queue == _BULK
    return isinstance(step, (Tma, *_OF_CORES)) or _is_tensor_commit(step)


@dataclass
class _Search:
    """A way through a role that looks for what may tell thread 0 from the elected one.

    ``axes``: those that number its threads as tx does. ``varied``: names of values that differ between threads.
    """

    axes: frozenset[str]
    varied: set[str] = field(default_factory=lambda: set(THREAD_AXES))

    def follow(self, steps: Iterable[Step], pending: frozenset[str] | None) -> frozenset[str] | None:
        """What is pending after the steps, None where it matters who does it."""
        for step in steps:
            if pending is None:
                return None
            pending = self._pass(step, pending)
        return pending

    def _pass(self, step: Step, pending: frozenset[str]) -> frozenset[str] | None:
        if isinstance(step, Let | Fetch | Pick):
            if isinstance(step, Pick) or self._varies((step,), step.names):
                self.varied |= {*step.names}
            return pending
        if isinstance(step, Repeat):
            if self._names_varied(step.count):
                return self._pass_apart(step, pending)
            once = self.follow(step.body, pending)
            again = self.follow(step.body, once)
            return None if once is None or again is None else pending | once | again
        if isinstance(step, When):
            return self._pass_when(step, pending)
        if isinstance(step, Block):
            self.varied |= {f.name for f, x in step.args if not isinstance(x, Ref) and self._names_varied(x)}
            return self.follow(step.body, pending)
        if isinstance(step, Sync) and step.scope != "async":
            return frozenset()
        return self._pass_other(step, pending)

    def _pass_when(self, step: When, pending: frozenset[str]) -> frozenset[str] | None:
        is_first, rest = _split(step, self.axes)
        if not is_first:
            if self._names_varied(step.condition):
                return self._pass_apart(step, pending)
            after = self.follow(step.body, pending)
            return None if after is None else pending | after
        inside = list(flatten(step.body))
        is_plain = all(isinstance(s, _MAY_DO) and not _holds(s) and _may_do(s) for s in inside)
        if OWN in pending or not is_plain or self._varies(step.body) or any(map(self._names_varied, rest)):
            return None
        learns = any(not isinstance(s, _STARTS) for s in inside)
        return pending | {ELECTED} if learns else pending

    def _pass_apart(self, step: Repeat | When, pending: frozenset[str]) -> frozenset[str] | None:
        """Steps that threads carry out each as its number says: what they do is their own."""
        inside = list(flatten(step.body))
        if any(_is_of_thread(s) or (isinstance(s, When) and _split(s, self.axes)[0]) for s in inside):
            return None
        return self._do(pending)

    def _pass_other(self, step: Step, pending: frozenset[str]) -> frozenset[str] | None:
        if isinstance(step, Wait) and step.queue == _BULK:  # each for its own groups, which the elected one has alone
            return pending | {ELECTED}
        if _is_of_thread(step):
            return None
        touched = effects(step)
        is_quiet = all(t.ref.memory.traits.is_held for t in touched.touches) and not isinstance(step, Arrive)
        return pending if is_quiet else self._do(pending)

    def _do(self, pending: frozenset[str]) -> frozenset[str] | None:
        return None if ELECTED in pending else pending | {OWN}

    def _varies(self, steps: Iterable[Step], besides: Iterable[str] = ()) -> bool:
        return not self.varied.isdisjoint(names_used(tuple(steps)) - {*besides})

    def _names_varied(self, x: Index) -> bool:
        return not self.varied.isdisjoint(v.name for v in variables(x))


def _holds(step: Step) -> bool:
    return any(t.ref.memory.traits.is_held for t in effects(step).touches)


def _may_do(step: Step) -> bool:
    """What speaks for a thread's own copies must speak for those of TMA; a thread alone does not meet others."""
    if isinstance(step, Commit | Wait):
        return step.queue == _BULK
    if isinstance(step, Arrive):
        return step.landed in ("", TENSOR)
    return not isinstance(step, Sync) or step.scope == "async"
