"""cp.async that reports to an mbarrier: its threads arrive by themselves, when what they have started has landed."""

from __future__ import annotations

import pytest

from specs.test_roles import ORDERS, ring
from tests.faults.steps import Change, double, drop, mutate, turn
from tests.faults.verdicts import build_codes, proof_code
from tilegen.interpret import interpret
from tilegen.pipeline import build
from tilegen.plan import Arrive, all_steps
from tilegen.render import render

WAIT_FREE, WAIT_FULL = '          - wait: {barrier: "free[k % 2]"}\n', '          - wait: {barrier: "full[k % 2]"}\n'
FILL = '          - copy: {src: "X[k]", dst: "s[k % 2]", variant: cp_async, barrier: "full[k % 2]"}\n'
READ = '          - copy: {src: "s[k % 2]", dst: "Y[k]"}\n'
RELEASE = '          - sync: warp\n          - arrive: {barrier: "free[k % 2]", scope: warp}\n'
every_order = pytest.mark.parametrize("order", ORDERS)


def text(order: str, load: str = WAIT_FREE + FILL, move: str = WAIT_FULL + READ + RELEASE, more: str = "") -> str:
    return ring(order, load, move).replace("ops:\n", f"{more}ops:\n", 1)


@every_order
def test_a_ring_is_proved(order: str) -> None:
    assert build_codes(text(order)) == set()
    parts = ("0:128", "128:256")
    halves = "".join(FILL.replace('"X[k]"', f'"X[k, {p}]"').replace('k % 2]", v', f'k % 2, {p}]", v') for p in parts)
    assert build_codes(text(order, WAIT_FREE + halves)) == set(), "two copies fill one phase"


@every_order
def test_by_warps(order: str) -> None:
    """Each warp of the loading role brings a part of the slot."""
    part = FILL.replace("{src", "{scope: warp, src").replace('"X[k]"', '"X[k, warpid*256 : +256]"')
    assert build_codes(text(order, WAIT_FREE + part)) == set()


def test_how_many_arrive() -> None:
    plan = build(text("load move")).plan
    assert {b.name: b.arrivals for b in plan.barriers} == {"full": 32, "free": 2}
    landed = [s for s in all_steps(plan) if isinstance(s, Arrive) and s.landed]
    assert [s.landed for s in landed] == ["cp.async"]
    assert "cp_async_arrive(&full[k & 1]);" in render(plan)


FAULTS = {
    "nobody waits for the data": ({"move": READ + RELEASE}, "TG422 TG404"),
    "nobody waits for a free slot": ({"load": FILL}, "TG422"),
    "a slot is freed by one lane before the others have read": (
        {"move": WAIT_FULL + READ + RELEASE.partition("\n")[2]},
        "TG403",
    ),
    "the slot is freed before it is read": ({"move": WAIT_FULL + RELEASE + READ}, "TG403"),
    "the wait is for the other slot": ({"move": WAIT_FULL.replace("k %", "(k + 1) %") + READ + RELEASE}, "TG422"),
}


@every_order
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, order: str) -> None:
    changes, code = FAULTS[fault]
    found = build_codes(text(order, **changes))  # type: ignore[arg-type]
    assert found and found <= set(code.split())


@every_order
def test_the_phase_tells_of_the_copies_alone(order: str) -> None:
    """What the loading threads wrote themselves is not ordered by an arrival that comes by itself."""
    kinds = (("u", "shared"), ("Z", "global"))
    more = "".join(f"  {n}: {{scope: {of}, dtype: float32, shape: [7, 32]}}\n" for n, of in kinds)
    write = '          - fill: {dst: "u[k]", value: 1}\n'
    read = '          - copy: {scope: warp, src: "u[k]", dst: "Z[k]", when: warpid == 0}\n'
    own = text(order, WAIT_FREE + write + FILL, WAIT_FULL + READ + read + RELEASE, more)
    assert build_codes(own) == {"TG403"}
    by_tma = FILL.replace("cp_async", "tma")
    met = text(order, WAIT_FREE + write + "          - sync: warp\n" + by_tma, WAIT_FULL + READ + read + RELEASE, more)
    assert build_codes(met) == set(), "the thread that starts TMA arrives itself"


@every_order
def test_tma_does_not_see_what_cp_async_brought(order: str) -> None:
    """No fence stands between a write that lands by itself and TMA's read of it."""
    store = ('          - copy: {src: "s[k % 2]", dst: "Y[k]", variant: tma}\n          - wait: {tma: 0}\n'
             '          - sync: role\n          - arrive: {barrier: "free[k % 2]"}\n')  # fmt: skip
    assert build_codes(text(order, move=WAIT_FULL + store)) == {"TG424"}


def test_only_where_it_is_written() -> None:
    """Without the variant a copy that reports to an mbarrier is TMA's, which arrives once."""
    spec = text("load move")
    plan = build(spec.replace("variant: cp_async", "async: true")).plan
    assert [o.variant for o in plan.operations] == ["tma", "gmem_smem"] and plan.barriers[0].arrivals == 1
    pair = spec.replace("roles:", "arch: sm_90a\ngrid: {bx: 2}\ncluster: {cbx: 2}\nroles:", 1) + "  - sync: cluster\n"
    assert build_codes(pair.replace("variant: cp_async", "variant: cp_async, multicast: cbx")) == {"TG302"}


@pytest.mark.parametrize(("change", "code"), [
    (turn(landed=""), "TG422"), (drop, "TG413"), (double, "TG434"),
], ids=["arrives at once", "never", "twice"])  # fmt: skip
def test_a_wrong_plan_is_found(change: Change, code: str) -> None:
    plan = mutate(build(text("load move")).plan, lambda s: isinstance(s, Arrive) and bool(s.landed), change)
    assert proof_code(lambda: interpret(plan, [(0,)], {"X": lambda at: at.astype("float32")})) == code
