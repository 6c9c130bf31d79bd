"""Tensor memory in the interpreter: right values, and every way to be too early, too late or in the wrong place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.faults.steps import Change, Match, drop, is_a, mutate, turn
from tests.faults.verdicts import ONE_CTA, fault_of_run
from tests.interpret.tensor_plans import AFTER, BEFORE, Array, Gemm, Sums, elected, lies, plan_gemm, product_of, warp
from tilegen.index import Index, Var, equal, less, mul
from tilegen.index.recurrences import ALL_TRIPS, Recurrence, Trips
from tilegen.interpret import Fault, interpret, record
from tilegen.interpret.fault import Unsteady
from tilegen.plan import (
    FILL,
    TENSOR,
    TENSOR_LOAD,
    TENSOR_LOADS,
    TENSOR_PRODUCTS,
    TENSOR_STORES,
    Arrive,
    Await,
    Map,
    Move,
    Plan,
    Repeat,
    Step,
    Sync,
    TensorMma,
    Wait,
    When,
)

CARRIED = ("wait: {tmem: 0}",)  # what lands a load or a store
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
    "u8 by s8": Gemm("tcgen05.m128n32k32.s32.u8.s8", 1, 2), 
    "one of each": Gemm(tiles=2, trips=2, stages=1, accumulators=1), "four stages": Gemm(tiles=5, trips=4, stages=4),
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
        plant(is_a(Wait), role="store"), "TG438", "which a tcgen05.ld still fills", CARRIED),
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
ALL_LANES = Sums()
PARTS, M = ALL_LANES.parts, ALL_LANES.memories
tx, lane = Var("tx", 128), Var("laneid", 32)


def test_a_product_adds_to_what_was_stored() -> None:
    drawn = ALL_LANES.draw()
    _, values = run(ALL_LANES.plan(), drawn).written["C"]
    assert np.array_equal(values.reshape(128, ALL_LANES.n), product_of(drawn) + drawn["X"])


def text(**changed: tuple[Step, ...]) -> Callable[[], Plan]:
    return lambda: ALL_LANES.text(**changed)


def first_of(part: str) -> tuple[Step, ...]:
    """The step of a part that one thread does."""
    (when,) = PARTS[part]
    return when.body


def only(condition: Index, part: str) -> tuple[Step, ...]:
    return (When(condition, PARTS[part]),)


(PUT,), (GET,), (PRODUCT, *_) = PARTS["put"], PARTS["get"], first_of("multiply")
WINDOW, SMALL = mul(warp, 32), replace(ALL_LANES, columns=32)
NARROW = replace(PRODUCT, atom="tcgen05.m128n16k16.f32.bf16.bf16", b_lies=lies(16, "bfloat16"))
WRITE_H = (Map(FILL, M["h"][3], (), 1, 0),)
WRITE_A = (Map(FILL, M["w"][0], (), 8, 0), Move(M["sa"][tx * 8], M["w"][0], 8))
OF_SUMS: dict[str, tuple[Callable[[], Plan], str, str, tuple[str, ...]]] = {
    # ---- the faults of the design, by their numbers
    "9 another thread commits": (
        text(commit=(When(equal(tx, 1), first_of("commit")),)), "TG412", "a commit speaks for one thread's alone", ()),
    "9 a thread of another warp commits": (
        text(commit=(When(equal(tx, 32), first_of("commit")),)), "TG422", "which tcgen05 writes",
        ("wait: {barrier: done}",)),
    "17 stores to an operand are not fenced for the async proxy": (
        text(full=(*PARTS["full"], Sync("cta"), *WRITE_A, Sync("cta"))), "TG424", "tcgen05 may not see that",
        ("sync: async",)),
    "21 descriptors are wgmma's": (
        text(multiply=(elected(replace(PRODUCT, b_lies=replace(lies(32, "bfloat16"), engine="wgmma")), threads=128),)),
        "TG412", "its descriptor is one of wgmma", ()),
    "24 a warp reads another's lanes": (
        text(get=(replace(GET, src=M["acc"][96 - WINDOW, 0]),)), "TG401",
        "warp 0 of its CTA names lanes 96 to 127 of acc, and reaches 0 to 31 alone", ()),
    "27 no wait::st before the product": (
        text(wait_st=()), "TG422", "tcgen05.st of warp 0 writes: no tcgen05.wait::st stands between",
        CARRIED),
    "30 a column too few": (
        lambda: SMALL.text(get=(replace(PUT, dst=SMALL.memories["other"][WINDOW, 0], elems=16),)), "TG401",
        "column 47 of tensor memory, of which 32 are allocated", ()),
    "30 lanes of another allocation": (
        lambda: replace(ALL_LANES.plan(), tensor_columns=128), "TG411", "64 columns, of which 128 are allocated", ()),
    "columns that are no power of two": (
        lambda: replace(ALL_LANES.plan(), tensor_columns=96), "TG412", "96 columns of tensor memory", ()),
    "32 adds in the first trip": (
        text(put=(), wait_st=()), "TG404", "which nothing wrote", ()),
    # ---- loads and stores
    "a load of what nothing wrote": (
        text(get=(Move(M["h"][0], M["other"][WINDOW, 0], 16, via=TENSOR_LOAD),)), "TG404", "tmem other", ()),
    "a load into registers that a store in flight reads": (
        text(put=(replace(PUT, dst=M["other"][WINDOW, 0], elems=16), Wait(TENSOR_STORES), *PARTS["put"]), wait_st=(
            Move(M["h"][0], M["other"][WINDOW, 0], 16, via=TENSOR_LOAD),)),
        "TG438", "writes register h[0], which a tcgen05.st still reads", CARRIED),
    "a load of what a store in flight writes": (
        text(wait_st=(replace(GET, dst=M["g"][0]),)), "TG422", "no tcgen05.wait::st stands between",
        CARRIED),
    "registers of a load before its wait": (
        text(wait_ld=()), "TG438", "reads register h[0], which a tcgen05.ld still fills", CARRIED),
    "a wait for stores lands no loads": (
        text(wait_ld=(Wait(TENSOR_STORES),)), "TG438", "a tcgen05.ld still fills", CARRIED),
    "registers written under a store": (
        text(wait_st=(*WRITE_H, *PARTS["wait st"])), "TG438", "a tcgen05.st still reads", CARRIED),
    "registers loaded twice at once": (
        text(wait_ld=(GET, *PARTS["wait ld"])), "TG438", "still fills", CARRIED),
    "nobody waits for a load": (
        text(wait_ld=(), leave=()), "TG423", "no wait lands it", CARRIED),
    "half of a warp loads": (text(get=only(less(lane, 16), "get")), "TG406", "under divergence", ()),
    "half of a warp waits": (text(wait_ld=only(less(lane, 16), "wait ld")), "TG406", "under divergence", ()),
    "lanes name other columns": (
        text(get=(replace(GET, src=M["acc"][WINDOW, (lane % 2) * 4], elems=16),)), "TG412",
        "a warp names one place", ()),
    "elements behind the end": (
        text(get=(replace(GET, src=M["acc"][WINDOW, 16]),)), "TG401", "element 16 .. 47 of acc, which has 32", ()),
    "24 columns at once": (text(get=(replace(GET, elems=24),)), "TG412", "not 96", ()),
    "a plain move from tensor memory": (
        text(get=(Move(M["h"][0], M["acc"][WINDOW, 0], 4),)), "TG412", "tcgen05.ld and tcgen05.st", ()),
    "a wait that leaves loads in flight": (
        text(wait_ld=(Wait(TENSOR_LOADS, 1),)), "TG412", "for all of it", ()),
    "a wait for products as if they were copies": (
        text(done=(Wait(TENSOR),)), "TG412", "has no wait of its own", ()),
    # ---- products
    "nobody commits": (
        text(commit=(), done=()), "TG422", "which tcgen05 writes",
        ("commit: {barrier: NAME}", "wait: {barrier: NAME}")),
    "nobody waits for a commit": (
        text(done=(), hear=(), get=(), wait_ld=(), leave=()), "TG423", "no thread has waited for this commit",
        ("wait: {barrier: done}",)),
    "nobody loads, waits or commits": (
        text(commit=(), done=(), hear=(), get=(), wait_ld=(), leave=()), "TG423", "this product is still in flight",
        ("commit: {barrier: NAME}", "wait: {barrier: NAME}")),
    "a product before its operands": (
        text(full=()), "TG422", "reads shared sa (element 0, byte 0), which TMA fills", ("wait: {barrier: full}",)),
    "another shape goes on with sums in flight": (
        text(multiply=(elected(PRODUCT, NARROW, threads=128),)), "TG422", "adds to tmem acc",
        ("wait: {barrier: done}",)),
    "another accumulator over sums in flight": (
        text(multiply=(elected(PRODUCT, replace(NARROW, c=M["acc"][0, 16]), threads=128),)), "TG422",
        "adds to tmem acc (lane 0, element 16), which tcgen05 writes", ("wait: {barrier: done}",)),
    "threads of two warps add to one accumulator": (
        text(multiply=(When(equal(lane, 0), (PRODUCT,)),)), "TG422", "adds to tmem acc", ("wait: {barrier: done}",)),
    "a warp starts a product": (
        text(multiply=(When(less(tx, 32), (PRODUCT,)),)), "TG412", "tcgen05.mma is started by one thread", ()),
    "two threads of a warp start products": (
        text(multiply=(elected(PRODUCT, threads=128), When(equal(tx, 1), (PRODUCT,)))), "TG412",
        "another thread of its warp has started some", ()),
    "sums begin between columns": (
        text(multiply=(elected(replace(NARROW, c=M["acc"][0, 2]), threads=128),)), "TG402", "lane 0, column 2", ()),
    "sums begin below lane 0": (
        text(multiply=(elected(replace(PRODUCT, c=M["acc"][32, 0]), threads=128),)), "TG402", "lane 32, column 0", ()),
    "a kind that the atom is not of": (
        text(multiply=(elected(replace(PRODUCT, via=TENSOR_PRODUCTS["tf32"]), threads=128),)), "TG412",
        "does not carry out", ()),
    # ---- fences and syncs
    "no fence before the sync": (text(before=()), "TG403", "no tcgen05.fence::before_thread_sync", ()),
    "one thread alone fences before the sync": (
        text(before=(elected(BEFORE, threads=128),)), "TG403", "no tcgen05.fence::before_thread_sync", ()),
    "a fence before the wait::st": (
        text(wait_st=PARTS["before"], before=PARTS["wait st"]), "TG403", "no tcgen05.fence::before_thread_sync", ()),
    "the sync stands before the fence": (
        text(before=PARTS["sync"], sync=PARTS["before"]), "TG403", "tcgen05.st of warp 0 writes", ()),
    "no sync": (text(sync=()), "TG403", "tcgen05.st of warp 0 writes", ()),
    "warps alone sync": (text(sync=(Sync("warp"),)), "TG403", "tcgen05.st of warp 1 writes", ()),
    "no fence after the sync": (text(after=()), "TG403", "no tcgen05.fence::after_thread_sync", ()),
    "the fence after stands before the sync": (
        text(before=(BEFORE, *PARTS["full"], AFTER), full=(), after=()), "TG403",
        "tcgen05.st writes: warp 0 has waited for that, but no tcgen05.fence::after_thread_sync follows", ()),
    "no fence after the sync that tells of stores to an operand": (
        text(before=(BEFORE, *PARTS["full"], AFTER, Sync("cta"), *WRITE_A, Sync("async")), full=(), after=()), "TG403",
        "warp 0 has heard of that, but no tcgen05.fence::after_thread_sync follows", ()),
    "another thread fences after the sync": (
        text(after=(When(equal(tx, 1), (AFTER,)),)), "TG403", "no tcgen05.fence::after_thread_sync", ()),
    "no fence after the wait for a commit": (text(hear=()), "TG403", "no tcgen05.fence::after_thread_sync", ()),
    "half of each warp fences after the wait": (
        text(hear=only(less(lane, 16), "hear")), "TG403", "no tcgen05.fence::after_thread_sync", ()),
    "an operand is overwritten before the commit is waited for": (
        text(done=(*WRITE_A, *PARTS["done"])), "TG422", "which tcgen05 reads", ("wait: {barrier: done}",)),
}  # fmt: skip


@pytest.mark.parametrize("what", OF_SUMS)
def test_a_fault_of_a_warpgroup_is_found(what: str) -> None:
    planted, code, words, due = OF_SUMS[what]
    fault = fault_of_run(lambda: run(planted(), ALL_LANES.draw()))
    assert fault is not None, "not found"
    assert (fault.code, fault.insert) == (code, due), fault
    assert words in fault.message, fault


def test_a_commit_tells_of_its_products_and_of_nothing_else() -> None:
    """Who waits for it knows of the loads that filled their operands, and of no access by the thread."""
    fill = (Map(FILL, M["w"][0], (), 8, 0),)
    wrote = elected(*fill, Move(M["spare"][0], M["w"][0], 8), threads=128)
    look = Move(M["w"][0], M["spare"][0], 8)
    fault = fault_of_run(lambda: run(ALL_LANES.text(commit=(wrote, *PARTS["commit"]), leave=(look,)), ALL_LANES.draw()))
    assert fault is not None and fault.code == "TG403" and "warp 0 lane 0 wrote" in fault.message
    assert (
        fault_of_run(lambda: run(ALL_LANES.text(hear=(*PARTS["hear"], *fill, *WRITE_A[1:])), ALL_LANES.draw())) is None
    )


def test_trips_are_left_out_where_nothing_more_is_in_flight() -> None:
    trips = Trips({"k": (Recurrence(4), 8)})
    gemm = Gemm(tiles=1, trips=40)
    given = {name: (lambda at, x=x: x.reshape(-1)[at]) for name, x in gemm.draw().items()}
    whole, cut = (interpret(plan_gemm(gemm), ONE_CTA, given, trips=t).steps for t in (ALL_TRIPS, trips))
    assert cut < whole / 2


def test_trips_are_not_left_out_where_products_pile_up() -> None:
    k = Var("k", 40)
    plan = ALL_LANES.text(multiply=(Repeat(k, 40, PARTS["multiply"]),))
    given = {name: (lambda at, x=x: x.reshape(-1)[at]) for name, x in ALL_LANES.draw().items()}
    interpret(plan, ONE_CTA, given)
    with pytest.raises(Unsteady):
        interpret(plan, ONE_CTA, given, trips=Trips({"k": (Recurrence(2), 4)}))


def test_a_log_has_products_commits_and_loads() -> None:
    drawn = ALL_LANES.draw()
    found = record(ALL_LANES.plan(), ONE_CTA, {name: (lambda at, x=x: x.reshape(-1)[at]) for name, x in drawn.items()})
    assert found.fault is None
    told = [(e.what, e.scope or e.barrier, e.threads) for e in found.events if e.what != "sync"]
    assert told == [
        ("arrive", "full", 1), *[("copy started", "mbarrier", 1), ("copy landed", "full", 1)] * 2,
        ("copy started", "tcgen05.st", 128), ("copies waited for", "tcgen05.st", 128), ("wait", "full", 128),
        *[("products started", "tcgen05", 1)] * 4, ("arrive", "done", 1), ("wait", "done", 128),
        ("copy started", "tcgen05.ld", 128), ("copies waited for", "tcgen05.ld", 128),
    ]  # fmt: skip
    waits = {e.scope: e.by for e in found.events if e.what == "copies waited for"}
    assert all(len(by) == 1 for by in waits.values())
