"""Faults of a persistent GEMM that show in one late trip only, among trips that are all right: each is found.

Operands are read, sums are made and accesses recorded for many at once; what one of them does otherwise must not be
lost in that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.faults.steps import Change, Match, change_steps, drop, is_a, is_sync, mutate, turn
from tests.faults.verdicts import refusal_of
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
from tilegen.plan import Arrive, Await, Block, Fence, Plan, Ref, Repeat, Step, Wait, Wgmma, When, flatten
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


def otherwise(when: Index, *wrong: Step) -> Change:
    return lambda step: (When(not_(when), (step,)), When(when, wrong))


def multiplies(step: Step) -> bool:
    return isinstance(step, Block) and any(isinstance(s, Wgmma) for s in flatten(step.body))


def late_block(match: Match, change: Change, k: int) -> Change:
    """The block of products with steps changed in one trip of the second tile."""

    def wrong(step: Block) -> Sequence[Step]:
        return otherwise(late(k), replace(step, body=change_steps(step.body, match, change)))(step)

    return wrong


def products(change: Change, k: int = TRIPS - 1) -> Change:
    return late_block(is_a(Wgmma), change, k)


def shifted(ref: Ref, elems: int) -> Ref:
    return Ref(ref.memory, (add(ref.at[0], elems),))


def freed_too_early(step: Step) -> tuple[Step, ...]:
    """The slot of this trip in place of that of the trip before."""
    assert isinstance(step, Arrive)
    slot = replace(step.slot, at=mod(add(step.slot.at, 1), 4))
    return otherwise(late(TRIPS - 1), replace(step, slot=slot))(step)


def waits(queue: str, pending: int) -> Match:
    return lambda step: isinstance(step, Wait) and (step.queue, step.pending) == (queue, pending)


def awaits(name: str) -> Match:
    return lambda step: isinstance(step, Await) and step.slot.barrier.name == name


def frees(step: Step) -> bool:
    return isinstance(step, Arrive) and step.slot.barrier.name == "free"


WRONG_VALUE = "TG420"
FAULTS: dict[str, tuple[Callable[[], Plan], str]] = {
    "a is read a chunk too far": (
        lambda: edited(multiplies, products(lambda s: (replace(s, a=shifted(s.a, 64 * 64)),))), WRONG_VALUE),
    "b is read a step along K too far": (
        lambda: edited(multiplies, products(lambda s: (replace(s, b=shifted(s.b, 8)),))), WRONG_VALUE),
    "a sum begins anew": (
        lambda: edited(multiplies, products(turn(accumulate=False))), WRONG_VALUE),
    "a sum goes on from the tile before": (
        lambda: edited(multiplies, products(turn(accumulate=True), 0)), WRONG_VALUE),
    "a product is made twice": (
        lambda: edited(multiplies, lambda s: (s, When(late(TRIPS - 1), (s,)))), WRONG_VALUE),
    "a product is left out": (lambda: edited(multiplies, otherwise(late(TRIPS - 1))), WRONG_VALUE),
    "no fence after the registers were read": (
        lambda: edited(multiplies, late_block(is_a(Fence), drop, 0)), REGISTERS_UNFENCED),
    "the sum is read before its wait": (
        lambda: edited(waits("mma", 0), otherwise(late())), REGISTERS_IN_FLIGHT),
    "operands are read before they have come": (
        lambda: edited(awaits("full"), otherwise(late(TRIPS - 1))), IN_FLIGHT),
    "a slot is filled while it is read": (
        lambda: edited(awaits("free"), otherwise(load_late(1))), IN_FLIGHT),
    "a slot is freed a trip too early": (lambda: edited(frees, freed_too_early, 0), PHASE_UNKNOWN),
    "a slot is freed while products read it": (
        lambda: edited(waits("mma", 1), otherwise(every(equal(loop("t_trip"), 0), equal(loop("k"), 3)))), IN_FLIGHT),
    "what TMA stores was not fenced": (lambda: edited(is_sync("async"), otherwise(late(p=1))), UNFENCED),
    "what TMA stores is overwritten before its wait": (
        lambda: edited(waits("bulk", 0), otherwise(late(p=1)), 0), IN_FLIGHT),
    "the last stores are not awaited": (lambda: edited(waits("bulk", 0), drop, 1), NEVER_AWAITED),
}  # fmt: skip


def load_late(k: int) -> Index:
    """That of the second tile, in role load, whose loops have their own variables."""
    role = planned()[1].roles[0]
    found = {s.var.name: s.var for s in flatten(role.steps) if isinstance(s, Repeat)}
    return every(equal(found["t_trip"], 1), equal(found["k"], k))


def edited(match: Match, change: Change, nth: int | None = None) -> Plan:
    return mutate(planned()[1], match, change, nth)


def test_the_plan_is_right() -> None:
    spec, plan = planned()
    check_meaning(spec, plan, CTAS, {})


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", FAULTS)
def test_a_late_fault_is_found(name: str) -> None:
    spec, _ = planned()
    plan, code = FAULTS[name]
    assert refusal_of(ProofError, check_meaning, spec, plan(), CTAS, {}).diagnostics[0].code == code


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
