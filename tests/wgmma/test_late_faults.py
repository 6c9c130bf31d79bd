"""Faults of a persistent GEMM that show in one late trip only, among trips that are all right: each is found.

Operands are read, sums are made and accesses recorded for many at once; what one of them does otherwise must not be
lost in that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.interpret.edits import mutate
from tilegen.errors import ProofError
from tilegen.index import Index, Var, add, equal, every, mod, not_
from tilegen.interpret.fault import (
    IN_FLIGHT,
    NEVER_AWAITED,
    PHASE_UNKNOWN,
    REGISTERS_IN_FLIGHT,
    REGISTERS_UNFENCED,
    UNFENCED,
    Fault,
    FaultFound,
)
from tilegen.pipeline import load
from tilegen.plan import Arrive, Await, Block, Fence, Plan, Ref, Repeat, Step, Sync, Wait, Wgmma, When, flatten
from tilegen.planner import plan_spec
from tilegen.proofs import Proof, prove
from tilegen.proofs.meaning import check_meaning
from tilegen.spec.data import Spec

SPEC = Path(__file__).parents[2] / "specs" / "hgemm_persistent.yaml"
TRIPS, CTAS = 5, [(0, 0, 0), (1, 0, 0)]  # of each tile's loop; each CTA makes two tiles


@cache
def planned() -> tuple[Spec, Plan]:
    spec = load(SPEC, params={"M": 256, "N": 512, "K": 64 * TRIPS, "C": 2})
    return spec, plan_spec(spec)


def loop(name: str) -> Var:
    """The variable of role math's loop of that name."""
    math = planned()[1].roles[-1]
    return next(s.var for s in flatten(math.steps) if isinstance(s, Repeat) and s.var.name == name)


def late(k: int | None = None, p: int | None = None) -> Index:
    """The second tile of a CTA, and there one trip of the loops inside."""
    found = equal(loop("t_trip"), 1)
    for name, value in (("k", k), ("p", p)):
        found = found if value is None else every(found, equal(loop(name), value))
    return found


def otherwise(when: Index, *wrong: Step) -> Callable[[Step], tuple[Step, ...]]:
    return lambda step: (When(not_(when), (step,)), When(when, wrong))


def multiplies(step: Step) -> bool:
    return isinstance(step, Block) and any(isinstance(s, Wgmma) for s in flatten(step.body))


def products(change: Callable[[Wgmma], Wgmma]) -> Callable[[Step], tuple[Step, ...]]:
    """The block of products, changed in the last trip of the second tile."""

    def edit(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        edited = (replace(s, body=edit(s.body)) if isinstance(s, Repeat) else s for s in steps)
        return tuple(change(s) if isinstance(s, Wgmma) else s for s in edited)

    def wrong(step: Step) -> tuple[Step, ...]:
        assert isinstance(step, Block)
        return otherwise(late(TRIPS - 1), replace(step, body=edit(step.body)))(step)

    return wrong


def shifted(ref: Ref, elems: int) -> Ref:
    return Ref(ref.memory, (add(ref.at[0], elems),))


def without_fence(step: Step) -> tuple[Step, ...]:
    assert isinstance(step, Block)
    body = tuple(s for s in step.body if not isinstance(s, Fence))
    return otherwise(late(0), replace(step, body=body))(step)


def freed_too_early(step: Step) -> tuple[Step, ...]:
    """The slot of this trip in place of that of the trip before."""
    assert isinstance(step, Arrive)
    slot = replace(step.slot, at=mod(add(step.slot.at, 1), 4))
    return otherwise(late(TRIPS - 1), replace(step, slot=slot))(step)


def waits(queue: str, pending: int) -> Callable[[Step], bool]:
    return lambda step: isinstance(step, Wait) and (step.queue, step.pending) == (queue, pending)


def awaits(name: str) -> Callable[[Step], bool]:
    return lambda step: isinstance(step, Await) and step.slot.barrier.name == name


def frees(step: Step) -> bool:
    return isinstance(step, Arrive) and step.slot.barrier.name == "free"


def is_fence(step: Step) -> bool:
    return isinstance(step, Sync) and step.scope == "async"


WRONG_VALUE = "TG420"
FAULTS: dict[str, tuple[Callable[[], Plan], str]] = {
    "a is read a chunk too far": (
        lambda: edited(multiplies, products(lambda s: replace(s, a=shifted(s.a, 64 * 64)))), WRONG_VALUE),
    "b is read a step along K too far": (
        lambda: edited(multiplies, products(lambda s: replace(s, b=shifted(s.b, 8)))), WRONG_VALUE),
    "a sum begins anew": (
        lambda: edited(multiplies, products(lambda s: replace(s, accumulate=False))), WRONG_VALUE),
    "a sum goes on from the tile before": (
        lambda: edited(multiplies, goes_on), WRONG_VALUE),
    "a product is made twice": (
        lambda: edited(multiplies, lambda s: (s, When(late(TRIPS - 1), (s,)))), WRONG_VALUE),
    "a product is left out": (lambda: edited(multiplies, otherwise(late(TRIPS - 1))), WRONG_VALUE),
    "no fence after the registers were read": (lambda: edited(multiplies, without_fence), REGISTERS_UNFENCED),
    "the sum is read before its wait": (
        lambda: edited(waits("mma", 0), otherwise(late())), REGISTERS_IN_FLIGHT),
    "operands are read before they have come": (
        lambda: edited(awaits("full"), otherwise(late(TRIPS - 1))), IN_FLIGHT),
    "a slot is filled while it is read": (
        lambda: edited(awaits("free"), otherwise(load_late(1))), IN_FLIGHT),
    "a slot is freed a trip too early": (lambda: edited(frees, freed_too_early, 0), PHASE_UNKNOWN),
    "a slot is freed while products read it": (
        lambda: edited(waits("mma", 1), otherwise(every(equal(loop("t_trip"), 0), equal(loop("k"), 3)))), IN_FLIGHT),
    "what TMA stores was not fenced": (lambda: edited(is_fence, otherwise(late(p=1))), UNFENCED),
    "what TMA stores is overwritten before its wait": (
        lambda: edited(waits("bulk", 0), otherwise(late(p=1)), 0), IN_FLIGHT),
    "the last stores are not awaited": (lambda: edited(waits("bulk", 0), lambda s: (), 1), NEVER_AWAITED),
}  # fmt: skip


def goes_on(step: Step) -> tuple[Step, ...]:
    return otherwise(late(0), replace(step, body=all_add(step.body)))(step)


def all_add(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    inner = (replace(s, body=all_add(s.body)) if isinstance(s, Repeat) else s for s in steps)
    return tuple(replace(s, accumulate=True) if isinstance(s, Wgmma) else s for s in inner)


def load_late(k: int) -> Index:
    """That of the second tile, in role load, whose loops have their own variables."""
    role = planned()[1].roles[0]
    found = {s.var.name: s.var for s in flatten(role.steps) if isinstance(s, Repeat)}
    return every(equal(found["t_trip"], 1), equal(found["k"], k))


def edited(match: Callable[[Step], bool], change: Callable[[Step], tuple[Step, ...]], nth: int | None = None) -> Plan:
    return mutate(planned()[1], match, change, nth)


def test_the_plan_is_right() -> None:
    spec, plan = planned()
    check_meaning(spec, plan, CTAS, {})


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", FAULTS)
def test_a_late_fault_is_found(name: str) -> None:
    spec, _ = planned()
    plan, code = FAULTS[name]
    with pytest.raises(ProofError) as found:
        check_meaning(spec, plan(), CTAS, {})
    assert found.value.diagnostics[0].code == code


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", ["", "a product is left out", "no fence after the registers were read"])
def test_plan_and_meaning_side_by_side_say_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["tilegen.proofs.prove"], "_SHARED_WORK", 0)
    spec, right = planned()
    plan = FAULTS[name][0]() if name else right
    said = []
    for processes in (1, 2):
        try:
            said.append(prove(spec, plan, processes))
        except ProofError as wrong:
            said.append(wrong.diagnostics)
    assert said[0] == said[1] and isinstance(said[0], Proof) == (not name)


@pytest.mark.parametrize("processes", [1, 2])
def test_wrong_floats_are_told_by_other_processes(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*of: object, **more: object) -> None:
        raise FaultFound(Fault("TG427", "wrong"))

    prover = sys.modules["tilegen.proofs.prove"]
    monkeypatch.setattr(prover, "_SHARED_WORK", 0)
    monkeypatch.setattr(prover, "check_floats", fail)
    with pytest.raises(ProofError, match="TG427"):
        prove(*planned(), processes)
