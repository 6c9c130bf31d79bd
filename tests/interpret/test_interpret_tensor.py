"""Tensor memory in the interpreter: right values, and every way to be too early, too late or in the wrong place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.faults.steps import Change, Match, drop, is_a, mutate, turn
from tests.faults.verdicts import ONE_CTA, fault_of_run
from tests.interpret.tensor_plans import AFTER, BEFORE, Array, Gemm, Sums, elected, lies, plan_gemm, product_of, warp
from tilegen.index import Var, equal, less, mul
from tilegen.interpret import Fault, interpret, record
from tilegen.plan import TENSOR, TENSOR_LOAD, Arrive, Await, Move, Plan, Step, Sync, TensorFence, TensorMma, Wait

GEMM = Gemm()
PLAN = plan_gemm(GEMM)


def run(plan: Plan, drawn: dict[str, Array], ctas=ONE_CTA):
    given = {name: (lambda at, x=x: x.reshape(-1)[at]) for name, x in drawn.items()}
    return interpret(plan, ctas, given)


def fault_in(plan: Plan, gemm: Gemm = GEMM) -> Fault | None:
    return fault_of_run(lambda: run(plan, gemm.draw()))


# ---- values
KINDS = {
    "bf16": GEMM, "f16": Gemm("tcgen05.m128n8k16.f32.f16.f16", 1, 2),
    "tf32": Gemm("tcgen05.m128n16k8.f32.tf32.tf32", 2, 2), "e4m3": Gemm("tcgen05.m128n32k32.f32.e4m3.e4m3", 1, 3),
    "e5m2 by e4m3": Gemm("tcgen05.m128n256k32.f32.e5m2.e4m3", 1, 1), "s8": Gemm("tcgen05.m128n48k32.s32.s8.s8", 2, 3),
    "u8 by s8": Gemm("tcgen05.m128n32k32.s32.u8.s8", 1, 2), "one of each": Gemm(tiles=2, trips=2, stages=1, accumulators=1),
    "four stages": Gemm(tiles=5, trips=4, stages=4),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_products_of_every_kind(kind: str) -> None:
    gemm = KINDS[kind]
    drawn = gemm.draw()
    _, values = run(plan_gemm(gemm), drawn).written["C"]
    assert np.array_equal(values.astype(np.float64).reshape(-1, gemm.n), product_of(drawn).astype(np.float64))


# ---- planted faults of the whole product
def at(name: str) -> Match:
    """Waits and arrivals at a barrier."""
    return lambda step: isinstance(step, (Await, Arrive)) and step.slot.barrier.name == name


def is_load(step: Step) -> bool:
    return isinstance(step, Move) and step.via is TENSOR_LOAD


def swap_first(match: Match) -> Change:
    """Of the steps inside: those that match come first."""
    return lambda step: (replace(step, body=tuple(sorted(step.body, key=lambda s: not match(s)))),)


def holds(match: Match) -> Match:
    return lambda step: any(match(s) for s in getattr(step, "body", ()))


def plant(match: Match, change: Change = drop, nth: int | None = None, role: str = "") -> Callable[[], Plan]:
    return lambda: mutate(PLAN, match, change, nth, role)


ACC = next(m for m in PLAN.memories if m.name == "acc")


def use_one_accumulator() -> Plan:
    """What two are indexed for lies in one."""
    multiplied = mutate(PLAN, is_a(TensorMma), turn(c=ACC[0, 0]))
    return mutate(multiplied, is_load, lambda s: (replace(s, src=ACC[s.src.at[0], s.src.at[1] % GEMM.n]),))


FAULTS: dict[str, tuple[Callable[[], Plan], str, str, tuple[str, ...]]] = {
    # the faults of the design, by their numbers
    "1 nobody waits before the load": (
        plant(at("done"), role="store"), "TG422", "reads tmem acc", ("wait: {barrier: done}",)),
    "2 the arrival stands before wait::ld": (
        plant(is_a(Wait), role="store"), "TG438", "which a tcgen05.ld still fills", ("wait: {tmem: 0}",)),
    "3 the arrival without the sync of its scope": (
        plant(is_a(Sync)), "TG403", "tcgen05.ld of warp", ()),
    "4 no fence before": (
        plant(lambda s: s == BEFORE), "TG403", "no tcgen05.fence::before_thread_sync follows its tcgen05.wait::ld", ()),
    "5 no fence after, before the load": (
        plant(lambda s: s == AFTER, role="store"), "TG403", "no tcgen05.fence::after_thread_sync follows", ()),
    "5 no fence after, behind the wait for a stage": (
        plant(lambda s: s == AFTER, drop, 1, "mma"), "TG403", "no tcgen05.fence::after_thread_sync follows", ()),
    "6 the product starts before read": (
        plant(at("read"), role="mma"), "TG403", "tcgen05.ld of warp", ()),
    "7 one accumulator where two are indexed": (
        use_one_accumulator, "TG422", "which tcgen05 writes", ("wait: {barrier: done}",)),
    "8 a stage is freed before its products": (
        plant(holds(is_a(TensorMma)), swap_first(at("free"))), "TG422", "fills shared sa",
        ("wait: {barrier: full}",)),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_planted_fault_is_found(what: str) -> None:
    planted, code, words, due = FAULTS[what]
    fault = fault_in(planted())
    assert fault is not None, "not found"
    assert (fault.code, fault.insert) == (code, due), fault
    assert words in fault.message, fault


# ---- what a warpgroup stores, a product goes on with
SUMS = Sums()
PARTS, M = SUMS.parts, SUMS.memories
tx, lane = Var("tx", 128), Var("laneid", 32)


def test_a_product_adds_to_what_was_stored() -> None:
    drawn = SUMS.draw()
    _, values = run(SUMS.plan(), drawn).written["C"]
    assert np.array_equal(values.reshape(128, SUMS.n), product_of(drawn) + drawn["X"])
