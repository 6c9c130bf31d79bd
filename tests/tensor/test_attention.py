"""Attention in tensor memory (specs/attention_blackwell.yaml): right values, and what is too early or too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.faults.steps import Change, Match, drop, is_a, mutate, turn
from tests.faults.texts import change_text
from tests.faults.verdicts import ONE_CTA, fault_of_run, refusal_of
from tests.nvcc.compile import compile_text, requires_nvcc
from tilegen.dtypes import numpy_dtype
from tilegen.errors import SpecError
from tilegen.index import Index, Var, add, div, equal, mul
from tilegen.interpret import Fault, interpret
from tilegen.pipeline import load
from tilegen.plan import TENSOR_STORES, Await, Block, Plan, Step, Sync, TensorFence, TensorMma, Wait, When
from tilegen.planner import plan_spec
from tilegen.render import render

SPEC = Path(__file__).parents[2] / "specs" / "attention_blackwell.yaml"
ROWS, HEAD = 384, 128  # three blocks: the third meets slots that the first has had
SIZES = {"BH": 1, "S": ROWS}
SCALE = np.float32(0.12751743)
Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


@cache
def plan_attention() -> Plan:
    return plan_spec(load(SPEC, params=SIZES))


@cache
def draw() -> dict[str, Array]:
    random = np.random.default_rng(53)
    return {name: random.normal(size=(1, ROWS, HEAD)).astype(np.float32) for name in "QKV"}


def run(plan: Plan) -> Array:
    """O of the first CTA, 128 rows."""
    kind = numpy_dtype("bfloat16")
    drawn = {name: x.astype(kind).reshape(-1) for name, x in draw().items()}
    given = {name: x.__getitem__ for name, x in drawn.items()}
    _, values = interpret(plan, ONE_CTA, given, {}).written["O"]
    return np.asarray(values).astype(np.float32).reshape(HEAD, HEAD)


def attention() -> Array:
    """The same in float64, of inputs that are rounded as they are there."""
    kind = numpy_dtype("bfloat16")
    q, k, v = (draw()[name][0].astype(kind).astype(np.float64) for name in "QKV")
    weights = np.exp2(q[:HEAD] @ k.T * SCALE)
    return (weights / weights.sum(1, keepdims=True) @ v).astype(np.float32)


def test_values() -> None:
    assert np.abs(run(plan_attention()) - attention()).max() < 2**-7


# ---------------------------------------------------------------- planted faults
def at(name: str) -> Match:
    return lambda step: isinstance(step, Await) and step.slot.barrier.name == name


def calls(name: str) -> Match:
    return lambda step: isinstance(step, Block) and step.name == name


def only_in_trip_1(step: Step) -> tuple[Step, ...]:
    """What follows finds something there, and later trips do not wait for theirs."""
    return (When(equal(Var("j", ROWS // HEAD + 1), 1), (step,)),)


def take_out(match: Match) -> Change:
    """Of the steps inside: without those that match."""
    return lambda step: (replace(step, body=tuple(s for s in step.body if not match(s))),)


def wait_for_stores_late(plan: Plan, name: str) -> Plan:
    """Stores by a function are waited for at the end of the trip, when they have been told of."""
    early = mutate(plan, calls(name), take_out(lambda s: isinstance(s, Wait)))
    return mutate(early, calls("copy_top_m"), lambda s: (s, Wait(TENSOR_STORES)))


def use_one_slot_of_weights(step: Block) -> tuple[Step, ...]:
    """The weights of all blocks lie in p[0]."""
    return (replace(step, args=tuple((f, a.memory[0, 0] if f.name == "p" else a) for f, a in step.args)),)


def is_fence(side: str) -> Match:
    return lambda step: isinstance(step, TensorFence) and step.side == side


def is_second_product(step: Step) -> bool:
    return isinstance(step, TensorMma) and step.a_lies is None


def aim_a(change: Callable[[Index, Index], tuple[Index, Index]]) -> Change:
    """The second product with A elsewhere."""
    return lambda step: (replace(step, a=step.a.memory[change(*step.a.at)]),)


Planted = tuple[Callable[[Plan], Plan], str, str]
FAULTS: dict[str, Planted] = {
    # those of the design, by their numbers
    "26 o is scaled while its product runs": (
        lambda plan: mutate(plan, at("odone"), only_in_trip_1, 0, "softmax"), "TG403", "adds to tmem o"),
    "27 no wait::st before p is multiplied": (
        lambda plan: wait_for_stores_late(plan, "store_w_p"), "TG403", "follows its tcgen05.wait::st"),
    "27 no wait::st before o is added to": (
        lambda plan: wait_for_stores_late(plan, "store_y_o"), "TG438", "which a tcgen05.st still reads"),
    "32 the first product adds to what nothing wrote": (
        lambda plan: mutate(plan, is_second_product, turn(accumulate=True)), "TG404", "reads tmem o"),
    # others
    "p is multiplied before it is told of": (
        lambda plan: mutate(plan, at("pdone"), only_in_trip_1, None, "mma"), "TG403", "reads tmem p"),
    "p is multiplied before it was ever written": (
        lambda plan: mutate(plan, at("pdone"), drop, None, "mma"), "TG404", "reads tmem p"),
    "weights of all blocks in one slot": (
        lambda plan: mutate(plan, lambda s: calls("store_w_p")(s) or calls("mma_p_sv_o")(s), use_one_slot_of_weights),
        "TG403", "reads tmem p"),
    "one thread arrives for a role that has not met": (
        lambda plan: mutate(plan, is_a(Sync), drop, 0, "softmax"), "TG403", "reads tmem p"),
    "no fence after the wait for p": (
        lambda plan: mutate(plan, is_fence("after"), drop, 3, "mma"), "TG403",
        "no tcgen05.fence::after_thread_sync follows"),
    "a begins in lane 32": (
        lambda plan: mutate(plan, is_second_product, aim_a(lambda lane, e: (32, e))), "TG402", "begin at lane 32"),
    "a begins inside of a unit of columns": (
        lambda plan: mutate(plan, is_second_product, aim_a(lambda lane, e: (lane, add(e, 2)))), "TG402",
        "begin at lane 0, column 385"),
}  # fmt: skip


def find_fault(plan: Plan) -> Fault | None:
    return fault_of_run(lambda: run(plan))


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found(name: str) -> None:
    change, code, said = FAULTS[name]
    fault = find_fault(change(plan_attention()))
    assert fault is not None and fault.code == code and said in fault.message, fault


@requires_nvcc
def test_it_compiles_and_spills_nothing() -> None:
    report = compile_text(render(plan_attention()), "sm_100a")
    assert (report.stack, report.spills) == (0, 0), report


def test_a_step_along_k_that_is_too_short_gives_other_values() -> None:
    """The columns of two steps overlap, which nothing but the values shows."""
    change = aim_a(lambda lane, e: (lane, mul(div(e, 16), 8)))
    assert np.abs(run(mutate(plan_attention(), is_second_product, change)) - attention()).max() > 2**-5


# ---------------------------------------------------------------- weights on the columns of their scores
WHOLE = """          - copy: {src: "s[j % 2]", dst: x}                 # 4 times tcgen05.ld 32x32b.x32, or once x128
          - reduce: {src: x, dst: top, axis: 1, op: max}
"""
WEIGHTS = """          - elementwise: {dst: x, expr: "exp2(fma(x, scale, -top))"}
          - elementwise: {dst: l, expr: "l * m"}
          - reduce: {src: x, dst: l, axis: 1, op: sum, accumulate: true}
          - cast: {src: x, dst: w}
          - copy: {src: w, dst: "p[j % 2]"}                 # p[j % 2] was read: odone of j - 2 came a trip ago
"""
MAXIMUM_BY_PARTS = """          - fill: {dst: top, value: -inf}
          - for: {c: 4}
            do:
              - copy: {src: "s[j % 2, :, c*32 : +32]", dst: y}
              - reduce: {src: y, dst: top, axis: 1, op: max, accumulate: true}
"""
WEIGHTS_BY_PARTS = """          - elementwise: {dst: l, expr: "l * m"}
          - for: {e: 4}
            do:
              - let: {c: ORDER}
              - copy: {src: "s[j % 2, :, c*32 : +32]", dst: y}
              - elementwise: {dst: y, expr: "exp2(fma(y, scale, -top))"}
              - reduce: {src: y, dst: l, axis: 1, op: sum, accumulate: true}
              - cast: {src: y, dst: h}
              - copy: {src: h, dst: "p[j % 2, :, c*32 : +32]"}
"""
STAGE = """              - wait: {barrier: "fk[j % 2]"}
"""
READ = """              - when: j > 1                                 # the weights on these columns were multiplied
                do:
                  - wait: {barrier: "odone[(j - 2) % 1]"}
"""
WIDE = ("  x: {scope: register", "  w: {scope: register")


def lay_over(is_waited: bool = True, order: str = "") -> str:
    """The spec with p over s, and both by parts of 32 columns in that ``order``, if one is given."""
    layout = '"S[(2, 128, 128):(256@TCol, 1@TLane, 1@TCol)]"'
    text = change_text(
        SPEC.read_text(encoding="utf-8"),
        ("auto}          # 384 to 511, two elements a column", f"{layout}, over: [s]}}"),
    )
    text = change_text(text, (STAGE, STAGE + READ)) if is_waited else text
    if not order:
        return text
    text = "\n".join(line for line in text.split("\n") if not line.startswith(WIDE))
    return change_text(text, (WHOLE, MAXIMUM_BY_PARTS), (WEIGHTS, WEIGHTS_BY_PARTS.replace("ORDER", order)))


@pytest.mark.parametrize("order", ["", "e"])
def test_weights_may_lie_on_the_scores_that_they_are_made_of(order: str) -> None:
    plan = plan_spec(load(lay_over(order=order), params=SIZES))
    places = {m.name: m.offset_bytes for m in plan.memories if m.traits.has_cells}
    assert places == {"s": 0, "o": 4 * 256, "p": 0}
    assert np.abs(run(plan) - attention()).max() < 2**-7


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (lay_over(order="3 - e"), "TG404", "which nothing wrote since 'p' was written on these bytes"),
        (lay_over(is_waited=False), "TG422", "writes tmem s (lane 0, element 0), which tcgen05 reads"),
    ],
    ids=["25 p is stored over s before s is loaded", "scores on weights that are still multiplied"],
)
def test_faults_of_two_buffers_on_the_same_columns(text: str, code: str, said: str) -> None:
    fault = find_fault(plan_spec(load(text, params=SIZES)))
    assert fault is not None and fault.code == code and said in fault.message, fault


def test_a_buffer_stays_on_the_columns_of_those_that_it_lies_on() -> None:
    of = '[{0}, 128, 128], layout: "S[({0}, 128, 128):(256@TCol'
    text = change_text(lay_over(), (of.format(2), of.format(3)))
    (found,) = refusal_of(SpecError, load, text, params=SIZES).diagnostics
    assert (found.code, found.message) == ("TG310", "'p' takes 320 columns, but s have 256")
