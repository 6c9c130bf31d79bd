"""CTAs of a cluster that fill one another's shared memory: right ones are proved, every planted fault is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.faults.parts import order_only_ctas
from tests.faults.steps import Change, Match, drop, is_a, is_sync, mutate, turn
from tests.faults.verdicts import build_codes, proof_code
from tilegen.errors import ProofError
from tilegen.interpret import interpret
from tilegen.pipeline import load
from tilegen.plan import Arrive, Plan, Tma
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.meaning import proving_inputs
from tilegen.proofs.runs import check_run, list_runs
from tilegen.render import render

ORDERS = ("load move", "move load")
THREADS = {"load": 32, "move": 64}
WAIT_FREE = '          - wait: {barrier: "free[k % 2]"}\n'
FILL = (
    '          - copy: {src: "X[bx // 2, k]", dst: "s[k % 2]", variant: tma, barrier: "full[k % 2]", multicast: cbx}\n'
)
WAIT_FULL = '          - wait: {barrier: "full[k % 2]"}\n'
READ = '          - copy: {src: "s[k % 2]", dst: "Y[bx, k]"}\n'
MET = "          - sync: role\n"
RELEASE = '          - arrive: {barrier: "free[k % 2]", to: cbx}\n'
END = "  - sync: cluster\n"


def shared_ring(
    order: str, load: str = WAIT_FREE + FILL, move: str = WAIT_FULL + READ + MET + RELEASE, end: str = END,
    trips: str = "7", cluster: str = "cbx: 2",
) -> str:  # fmt: skip
    """One warp of each of two CTAs fills half a stage of both, two warps of each empty it."""
    loop = "  - role: {}\n    do:\n      - for: {{k: {}}}\n        do:\n{}"
    roles = "".join(f"  {name}: {{threads: {THREADS[name]}}}\n" for name in order.split())
    return (
        f"kernel: shared_ring\narch: sm_90a\ngrid: {{bx: 4}}\ncluster: {{{cluster}}}\nroles:\n{roles}"
        "barriers:\n  full: {slots: 2}\n  free: {slots: 2, open: true}\n"
        "buffers:\n  X: {scope: global, dtype: float32, shape: [2, 7, 256]}\n"
        "  Y: {scope: global, dtype: float32, shape: [4, 7, 256], partial: true}\n"
        "  s: {scope: shared, dtype: float32, shape: [2, 256]}\n"
        f"ops:\n{loop.format('load', trips, load)}{loop.format('move', '7', move)}{end}"
    )


every_order = pytest.mark.parametrize("order", ORDERS)


@every_order
def test_a_ring_of_two_ctas_is_proved(order: str) -> None:
    assert build_codes(shared_ring(order)) == set()
    by_warps = MET.replace("role", "warp") + RELEASE.replace("to: cbx", "to: cbx, scope: warp")
    assert build_codes(shared_ring(order, move=WAIT_FULL + READ + by_warps)) == set()
    by_threads = MET.replace("role", "warp") + RELEASE.replace("to: cbx", "to: cbx, scope: thread")
    assert build_codes(shared_ring(order, move=WAIT_FULL + READ + by_threads)) == set()


HALVED = FILL.replace("k]", "k, cbx*128 : +128]", 1).replace("s[k % 2]", "s[k % 2, 0 : +128]", 1)
FAULTS = {
    "the source differs": ({"load": WAIT_FREE + FILL.replace("bx // 2", "cbx")}, "TG120"),
    "the place of the source differs": ({"load": WAIT_FREE + HALVED}, "TG120"),
    "the trips differ": ({"trips": "7 - cbx"}, "TG120"),
    "one CTA leaves a copy out": ({"load": WAIT_FREE + FILL.replace("cbx}", "cbx, when: k + cbx < 7}")}, "TG120"),
    "nobody meets at the end": ({"end": ""}, "TG121"),
    "they meet sometimes at the end": ({"end": END + "    when: bx < 2\n"}, "TG121"),
    "the peer's slot is freed for the peer alone": (
        {"move": WAIT_FULL + READ + MET + RELEASE.replace(", to: cbx", "")}, "TG403 TG422 TG434"),
    "the slot is freed before it is read": ({"move": WAIT_FULL + MET + RELEASE + READ}, "TG403"),
    "the slot is freed before all have read": ({"move": WAIT_FULL + READ + RELEASE}, "TG403"),
    "nobody waits for the peer's slot": ({"load": FILL}, "TG434"),
    "nobody waits for the data": ({"move": READ + MET + RELEASE}, "TG422 TG404"),
    "one CTA frees no slot": (
        {"move": WAIT_FULL + READ + MET + RELEASE.replace("cbx}", "cbx, when: cbx == 0}")}, "TG413 TG434"),
    "the peer's wait is for the phase after": (
        {"load": WAIT_FREE.replace("k %", "(k + 2*cbx) %") + FILL}, "TG413 TG433"),
    "an arrival too many": (
        {"move": WAIT_FULL + READ + MET + RELEASE + "          - sync: warp\n" + RELEASE}, "TG413 TG434"),
}  # fmt: skip


@every_order
@pytest.mark.parametrize("wrong", FAULTS, ids=str)
def test_a_fault_between_ctas_is_found(order: str, wrong: str) -> None:
    changed, expected = FAULTS[wrong]
    found = build_codes(shared_ring(order, **changed))
    assert found and found <= set(expected.split()), found


# ---------------------------------------------------------------- faults that no spec can say
MEETS = is_sync("cluster")
PLANTED: dict[str, tuple[Match, Change, str]] = {
    "bytes of one part are announced": (
        is_a(Arrive), lambda step: (replace(step, bytes=step.bytes // 2),), "TG413 TG422 TG434"),
    "a part is brought to one CTA": (
        lambda step: isinstance(step, Tma) and step.peers is not None,
        lambda step: (replace(step, peers=replace(step.peers, bits=1)),), "TG413 TG422"),
    "one CTA is told twice": (
        lambda step: isinstance(step, Arrive) and step.rank is not None, turn(rank=0), "TG403 TG413 TG425 TG434"),
    "nobody meets": (MEETS, drop, "TG435"),
}  # fmt: skip


@every_order
@pytest.mark.parametrize("wrong", PLANTED)
def test_a_fault_in_the_plan_is_found(order: str, wrong: str) -> None:
    match, change, expected = PLANTED[wrong]
    assert run(shared_ring(order), lambda plan: mutate(plan, match, change)) in expected.split()


@every_order
@pytest.mark.parametrize("who", THREADS)
def test_a_role_that_does_not_meet_the_cluster_is_waited_for(order: str, who: str) -> None:
    assert run(shared_ring(order), lambda plan: mutate(plan, MEETS, drop, role=who)) == "TG413"


def run(text: str, change: Callable[[Plan], Plan]) -> str:
    """The code of what the interpreter finds in a plan, "" for nothing."""
    spec = load(text)
    plan = plan_spec(spec)
    inputs = next(iter(proving_inputs(spec, plan, {})))
    interpret(plan, [(0, 0, 0)], inputs)
    return proof_code(lambda: interpret(change(plan), [(0, 0, 0)], inputs))


# ---------------------------------------------------------------- how far arrivals order
BY_WARPS = MET.replace("role", "warp") + RELEASE.replace("to: cbx", "to: cbx, scope: warp")
RELEASES = {
    "by role": MET + RELEASE,
    "by warps": BY_WARPS,
    "by threads": BY_WARPS.replace("scope: warp", "scope: thread"),
}


def orders_of(text: str) -> dict[str, str]:
    return {b.name: b.order for b in plan_spec(load(text)).barriers}


@every_order
@pytest.mark.parametrize("by", RELEASES)
def test_an_arrival_of_the_cta_orders_no_read_before_the_peers_fill(order: str, by: str) -> None:
    text = shared_ring(order, move=WAIT_FULL + READ + RELEASES[by])
    assert run(text, lambda plan: order_only_ctas(plan, "free")) == "TG403"
    assert orders_of(text)["full"] == "cta"


RELAYED = (  # the role that fills tells the peers that the other has read
    '          - wait: {barrier: "done[k % 2]"}\n' + RELEASE + WAIT_FREE + FILL,
    WAIT_FULL + READ + MET + '          - arrive: {barrier: "done[k % 2]"}\n',
)


@every_order
def test_one_role_tells_the_peers_what_another_has_read(order: str) -> None:
    text = shared_ring(order, *RELAYED).replace(
        "free: {slots: 2, open: true}", "free: {slots: 2}\n  done: {slots: 2, open: true}"
    )
    assert build_codes(text) == set()
    assert run(text, lambda plan: order_only_ctas(plan, "free")) == "TG403"
    assert orders_of(text) == {"full": "cta", "free": "cluster", "done": "cta"}, "it is told within the CTA"


@every_order
def test_what_tma_alone_reads_needs_no_order_of_the_cluster(order: str) -> None:
    sent = '          - copy: {src: "s[k % 2]", dst: "Y[bx, k]", variant: tma}\n          - wait: {tma: 0}\n'
    assert build_codes(shared_ring(order, move=WAIT_FULL + sent + MET + RELEASE)) == set()


ORDERS_OF_SPECS = {
    "broadcast_cluster": ["cta", "cluster"],
    "gemm_pairs": ["cta", "cta"],
    "hgemm_cluster": ["cta", "cta"],
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", ORDERS_OF_SPECS)
def test_each_barrier_of_a_spec_that_orders_the_cluster_has_to(name: str) -> None:
    spec = load(f"specs/{name}.yaml")
    plan = plan_spec(spec)
    prove(spec, plan)
    assert [b.order for b in plan.barriers] == ORDERS_OF_SPECS[name]
    for barrier in plan.barriers:
        if barrier.order == "cluster":
            weak = order_only_ctas(plan, barrier.name)
            with pytest.raises(ProofError, match="TG403"):
                [check_run(spec, weak, run) for run in list_runs(spec, weak)]


# ---------------------------------------------------------------- parts and ranks
def test_who_is_told_is_a_rank_of_the_cluster() -> None:
    text = shared_ring("load move", cluster="cbx: 2, cby: 2").replace("{bx: 4}", "{bx: 4, by: 2}")
    text = text.replace(READ, "")
    source = render(plan_spec(load(text)))
    assert "mbarrier_arrive_peer" in source and "3 << (cby * 2)" in source and "cby * 2 + tx" in source


def test_arrivals_are_released_to_the_cluster_where_threads_read_what_peers_fill() -> None:
    text = shared_ring("load move")
    assert "mbarrier_arrive_peer_released(" in render(plan_spec(load(text)))
    sent = '          - copy: {src: "s[k % 2]", dst: "Y[bx, k]", variant: tma}\n          - wait: {tma: 0}\n'
    source = render(plan_spec(load(shared_ring("load move", move=WAIT_FULL + sent + RELEASE))))
    assert "mbarrier_arrive_peer(" in source and "acquire" not in source


def test_a_part_is_whole_atoms() -> None:
    small = shared_ring("load move").replace("256", "32")
    assert build_codes(small) == {"TG302"}
