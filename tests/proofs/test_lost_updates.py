"""Updates that are lost, as two read a sum before either has stored it: in specs, and in plans of three steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tilegen
from tests.faults.steps import Steps, mutate
from tests.faults.texts import change_text
from tests.faults.verdicts import build_codes, proof_code
from tilegen.arithmetic import Apply, Element
from tilegen.plan import MOVE, Block, Compute, Move, Plan, Step, register_memory
from tilegen.planner import plan_spec
from tilegen.proofs import prove

SUMS = """
kernel: sums
arch: sm_80
threads: 64
grid: {bx: 4}
buffers:
  X: {scope: global, dtype: float32, shape: [4, 4, 64]}
  Y: {scope: global, dtype: float32, shape: [4, 64]}
  s: {scope: shared, dtype: float32, shape: [64]}
ops:
  - fill: {dst: s, value: 0}
  - sync: cta
  - for: {k: 2}
    do:
      - elementwise: {scope: warp, dst: "s[warpid*32 : +32]", expr: "a + x",
                      with: {a: "s[warpid*32 : +32]", x: "X[bx, k*2, warpid*32 : +32]"}}
      - sync: cta
      - let: {other: 1 - warpid}
      - elementwise: {scope: warp, dst: "s[other*32 : +32]", expr: "a + x",
                      with: {a: "s[other*32 : +32]", x: "X[bx, k*2 + 1, other*32 : +32]"}}
      - sync: cta
  - copy: {src: s, dst: "Y[bx]"}
"""
BINS = """
kernel: bins
arch: sm_80
threads: 64
grid: {bx: 3}
buffers:
  X: {scope: global, dtype: uint8, shape: [192]}
  H: {scope: global, dtype: int32, shape: [256]}
  x: {scope: register, dtype: uint8, shape: [64], layout: "S[64:1@tx]"}
  i: {scope: register, dtype: int32, shape: [64], layout: "S[64:1@tx]"}
ops:
  - copy: {src: "X[bx*64 : +64]", dst: x}
  - elementwise: {dst: i, expr: "int32(x)"}
  - scatter: {expr: 1, index: i, dst: H, accumulate: add}
"""
_ADD = 'copy: {src: s, dst: "Y[bx]"}'
FAULTS = {
    "two warps, without a sync": ("TG403", (("      - sync: cta\n      - let", "      - let"),)),
    "two trips, without a sync": ("TG403", (("      - sync: cta\n  - copy", "  - copy"),)),
    "two warps add to one place": ("TG403", (
        ('dst: "s[warpid*32 : +32]"', 'dst: "s[0 : +32]"'), ('{a: "s[warpid*32 : +32]"', '{a: "s[0 : +32]"'),
    )),
    "two CTAs add to one array": ("TG417", (
        (_ADD, 'elementwise: {dst: "Y[bx // 2]", expr: "y + a", with: {y: "Y[bx // 2]", a: s}}'),
    )),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_updates_that_specs_lose_are_refused(fault: str) -> None:
    code, pairs = FAULTS[fault]
    assert build_codes(SUMS) == set()
    assert code in build_codes(change_text(SUMS, *pairs))


def in_three_steps(plan: Plan) -> Plan:
    """An element is loaded, added to and stored, where the plan adds to it at once."""
    old = register_memory("old_sum", "int32", 1)

    def is_update(step: Step) -> bool:
        return isinstance(step, Move) and bool(step.via.function)

    def change(step: Move) -> Steps:
        total = Apply("+", (Element(0, "int32"), Element(1, "int32")), "int32")
        load = replace(step, dst=old[0], src=step.dst, via=MOVE)
        return (load, Compute(old[0], total, (old[0], step.src)), Move(step.dst, old[0]))

    def is_scatter(step: Step) -> bool:
        return isinstance(step, Block) and "scatter" in step.name

    def with_register(block: Block) -> Steps:
        return (replace(block, registers=(*block.registers, old)),)

    return mutate(mutate(plan, is_update, change), is_scatter, with_register)


@pytest.mark.parametrize("where,code", [("global", "TG405"), ("shared", "TG403")])
def test_an_update_in_three_steps_is_refused(where: str, code: str) -> None:
    text = BINS
    if where == "shared":
        text = change_text(
            BINS, ("  x: {", "  h: {scope: shared, dtype: int32, shape: [256]}\n  x: {"), ("dst: H,", "dst: h,"),
            ("  H: {scope: global, dtype: int32, shape: [256]}", "  H: {scope: global, dtype: int32, shape: [3, 256]}"),
            ("  - copy: {src: \"X", "  - fill: {dst: h, value: 0}\n  - sync: cta\n  - copy: {src: \"X"),
        ) + '  - sync: cta\n  - copy: {src: h, dst: "H[bx]"}\n'  # fmt: skip
    spec = tilegen.load(text)
    plan = plan_spec(spec)
    prove(spec, plan)
    assert proof_code(lambda: prove(spec, in_three_steps(plan))) == code
