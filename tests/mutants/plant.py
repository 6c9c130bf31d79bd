"""Mutants of a plan: each differs from it in one place, a sync dropped or one address shifted by one element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilegen.errors import ProofError
from tilegen.index import add, mod, sub
from tilegen.interpret import corners, interpret
from tilegen.pipeline import check_meaning, inputs_of, parameter_cases, prove
from tilegen.plan import Arrive, Await, Block, Commit, Map, Move, Plan, Ref, Step, Sync, Tma, Wait
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

KINDS = (
    "sync dropped", "commit dropped", "wait dropped", "wait weakened", "other phase", "bytes announced", "box",
    "global address", "shared address",
    "register index", "base of a function",
)  # fmt: skip
EQUIVALENT = "orders nothing"


@dataclass(frozen=True)
class Mutant:
    """``kind`` is one of KINDS; ``where`` says which step, and what was done to it."""

    kind: str
    where: str
    plan: Plan


@dataclass(frozen=True)
class Verdict:
    """``found``: the code of the proof that reported the mutant; ``run``: the code that running alone gives it.

    A mutant that no proof reports has a ``reason`` why it is the same kernel; without one it survives, which is a bug.
    """

    found: str
    run: str
    reason: str = ""

    @property
    def survives(self) -> bool:
        return not (self.found or self.reason)


def plant(plan: Plan) -> Iterator[Mutant]:
    """Every mutant of a plan, in the order of its steps."""
    for number, role in enumerate(plan.roles):
        for kind, where, steps in _variants(role.steps, ""):
            roles = (*plan.roles[:number], replace(role, steps=steps), *plan.roles[number + 1 :])
            yield Mutant(kind, where, replace(plan, roles=roles))


def _variants(steps: tuple[Step, ...], path: str) -> Iterator[tuple[str, str, tuple[Step, ...]]]:
    """(kind, where, steps) with one change in the steps or below them."""
    for i, step in enumerate(steps):
        before, after = steps[:i], steps[i + 1 :]
        here = f"{path}{i}.{type(step).__name__}"
        for kind, what, changed in _changes(step):
            yield kind, f"{here}: {what}", (*before, *changed, *after)
        for kind, where, body in _variants(getattr(step, "body", ()), f"{here}/"):
            yield kind, where, (*before, replace(step, body=body), *after)  # type: ignore[call-arg]


def _changes(step: Step) -> Iterator[tuple[str, str, tuple[Step, ...]]]:
    """The mutations of one step."""
    if isinstance(step, Sync):
        yield "sync dropped", step.scope, ()
    elif isinstance(step, Commit):
        yield "commit dropped", step.queue, ()
    elif isinstance(step, Wait):
        yield "wait dropped", f"{step.queue}, {step.pending}", ()
        yield "wait weakened", f"{step.queue}, {step.pending + 1}", (replace(step, pending=step.pending + 1),)
    elif isinstance(step, Await):
        yield "wait dropped", f"for {step.slot.barrier.name}", ()
        yield "other phase", f"of {step.slot.barrier.name}", (replace(step, parity=mod(add(step.parity, 1), 2)),)
    elif isinstance(step, Arrive):
        for announced in (0, step.bytes // 2, step.bytes + 16):
            yield "bytes announced", f"{step.slot.barrier.name} {announced}", (replace(step, bytes=announced),)
    elif isinstance(step, Tma):
        for what, ref in _shifted(Ref(step.map.memory, step.at)):
            yield "box", f"{step.map.name} {what}", (replace(step, at=ref.at),)
        for what, ref in _shifted(step.shared):
            yield "shared address", what, (replace(step, shared=ref),)
    elif isinstance(step, Move):
        for side in ("dst", "src"):
            for what, ref in _shifted(getattr(step, side)):
                yield _kind(ref), f"{side} {what}", (replace(step, **{side: ref}),)
    elif isinstance(step, Map):
        for what, ref in _shifted(step.dst):
            yield _kind(ref), f"dst {what}", (replace(step, dst=ref),)
        for n, src in enumerate(step.srcs):
            for what, ref in _shifted(src):
                changed = replace(step, srcs=(*step.srcs[:n], ref, *step.srcs[n + 1 :]))
                yield _kind(ref), f"src{n or ''} {what}", (changed,)
    elif isinstance(step, Block):
        for n, (formal, actual) in enumerate(step.args):
            if isinstance(actual, Ref):
                for what, ref in _shifted(actual):
                    args: Any = (*step.args[:n], (formal, ref), *step.args[n + 1 :])
                    yield "base of a function", f"{formal.name} at {what}", (replace(step, args=args),)


def _kind(ref: Ref) -> str:
    return "register index" if ref.memory.space == "register" else f"{ref.memory.space} address"


def _shifted(ref: Ref) -> Iterator[tuple[str, Ref]]:
    """The reference with one more, and with one less, in one of its coordinates. No Index is a negative number."""
    for d, x in enumerate(ref.at):
        for what, changed in (("+ 1", add(x, 1)), ("- 1", sub(x, 1) if x != 0 else None)):
            if changed is not None:
                at = (*ref.at[:d], changed, *ref.at[d + 1 :])
                yield f"{ref.memory.name}[{d}] {what}", Ref(ref.memory, at)


# ---------------------------------------------------------------- judging
def judge(spec: Spec, plan: Plan, mutant: Mutant) -> Verdict:
    """What the proofs say of a mutant, and of one that passes them whether it is the same kernel."""
    cases = [(corners(launch_of(spec, case).grid), case) for case in parameter_cases(spec)]
    found = _code(lambda: prove(spec, mutant.plan))
    run = _code(lambda: [check_meaning(spec, mutant.plan, ctas, case) for ctas, case in cases])
    if found or mutant.kind != "sync dropped":
        return Verdict(found, run)
    same = all(_same_images(spec, plan, mutant.plan, ctas, case) for ctas, case in cases)
    return Verdict("", run, EQUIVALENT if same else "")


def _code(proof: Callable[[], object]) -> str:
    try:
        proof()
    except ProofError as error:
        return error.diagnostics[0].code
    return ""


def _same_images(
    spec: Spec, plan: Plan, other: Plan, ctas: Sequence[tuple[int, int, int]], case: dict[str, int]
) -> bool:
    """Do both plans run without a fault and write the same elements with the same bits?"""
    mine, theirs = (interpret(p, ctas, inputs_of(spec, p), case).written for p in (plan, other))
    return mine.keys() == theirs.keys() and all(
        np.array_equal(mine[n][0], theirs[n][0]) and mine[n][1].tobytes() == theirs[n][1].tobytes() for n in mine
    )
