"""Pairs of CTAs in the interpreter: right values, and what goes wrong between the two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.faults.steps import Change, Match, drop, is_a, is_sync, list_steps, mutate, turn, with_steps
from tests.faults.verdicts import ONE_CTA, fault_of_run
from tests.interpret.pair_plans import Pairs, plan_pairs
from tests.interpret.tensor_plans import AFTER, BEFORE, Array, elected, lies, product_of
from tilegen.index import Index, equal
from tilegen.index.recurrences import ALL_TRIPS, Recurrence, Trips
from tilegen.interpret import Fault, interpret, record
from tilegen.plan import TENSOR_LOAD, Arrive, Await, Launch, Move, Plan, Repeat, Slot, Step, TensorMma, Tma, When
from tilegen.report.events import events_data, events_text, list_cells

PAIRS = Pairs()
PLAN = plan_pairs(PAIRS)
EVEN, ODD = PAIRS.is_even, equal(PAIRS.rank, 1)


def run(plan: Plan, drawn: dict[str, Array]):
    given = {name: (lambda at, x=x: x.reshape(-1)[at]) for name, x in drawn.items()}
    return interpret(plan, ONE_CTA, given)


def fault_in(plan: Plan) -> Fault | None:
    return fault_of_run(lambda: run(plan, PAIRS.draw()))


# ---- values
KINDS = {
    "bf16": PAIRS, "f16, all columns": Pairs("tcgen05.m256n256k16.f32.f16.f16", 1, 2),
    "tf32": Pairs("tcgen05.m256n16k8.f32.tf32.tf32", 2, 2), "e4m3": Pairs("tcgen05.m256n32k32.f32.e4m3.e4m3", 5, 4, 4),
    "s8": Pairs("tcgen05.m256n64k32.s32.s8.s8", 2, 3), "two pairs of a cluster": Pairs(pairs=2),
    "one of each": Pairs(tiles=2, trips=2, stages=1, accumulators=1),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_products_of_every_kind(kind: str) -> None:
    pairs = KINDS[kind]
    drawn = pairs.draw()
    _, values = run(plan_pairs(pairs), drawn).written["C"]
    assert np.array_equal(values.astype(np.float64).reshape(-1, pairs.n), product_of(drawn).astype(np.float64))


def test_bytes_may_come_before_they_are_announced() -> None:
    """The odd CTA loads first: the count of its phase is below zero until the even one announces the bytes of both."""
    late = mutate(PLAN, around(in_even), announce_last, role="load")
    _, values = run(late, PAIRS.draw()).written["C"]
    assert np.array_equal(values.reshape(-1, PAIRS.n), product_of(PAIRS.draw()))


# ---- planted faults
def at(*names: str) -> Match:
    """Waits and arrivals at barriers."""
    return lambda step: isinstance(step, (Await, Arrive)) and step.slot.barrier.name in names


def commits(*names: str) -> Match:
    return lambda step: at(*names)(step) and isinstance(step, Arrive) and bool(step.landed)


def around(match: Match) -> Match:
    """Steps that have a matching one directly inside."""
    return lambda step: any(match(s) for s in getattr(step, "body", ()))


def tells_the_even(step: Step) -> bool:
    return isinstance(step, Arrive) and step.rank is not None


def announces(step: Step) -> bool:
    return isinstance(step, Arrive) and step.bytes > 0


def in_even(step: Step) -> bool:
    return isinstance(step, When) and step.condition == EVEN


def loads_cells(step: Step) -> bool:
    return isinstance(step, Move) and step.via is TENSOR_LOAD


def tell_first(step: When) -> tuple[Step, ...]:
    """Commits stand before the products."""
    return (replace(step, body=tuple(sorted(step.body, key=lambda s: not isinstance(s, Arrive)))),)


def announce_last(step: When) -> tuple[Step, ...]:
    return (replace(step, body=(*step.body[1:], step.body[0])),)


def announce_half(step: Arrive) -> tuple[Step, ...]:
    return (replace(step, bytes=step.bytes // 2),)


def only_in(condition: Index) -> Change:
    return lambda step: (When(condition, (step,)),)


def unless_odd(*steps: Step) -> Change:
    """The odd CTA does these in place of a step."""
    return lambda step: (When(EVEN, (step,)), When(ODD, steps))


def in_odd(**fields: object) -> Change:
    """In the odd CTA a step has other fields."""
    return lambda step: unless_odd(replace(step, **fields))(step)


def plant(match: Match, change: Change = drop, nth: int | None = None, role: str = "") -> Callable[[], Plan]:
    return lambda: mutate(PLAN, match, change, nth, role)


def enter_both(*changes: tuple[Match, Change]) -> Callable[[], Plan]:
    """The odd CTA runs through the products too, but for waits and what is changed."""
    changed = mutate(PLAN, in_even, lambda s: s.body, role="mma")
    for match, change in ((is_a(Await), only_in(EVEN)), *changes):
        changed = mutate(changed, match, change, role="mma")
    return lambda: changed


def with_barrier(name: str, *others: tuple[Match, Change], plan: Plan = PLAN, **fields: object) -> Callable[[], Plan]:
    """A barrier with other fields, wherever a step names it, and steps changed."""
    renewed = next(replace(b, **fields) for b in plan.barriers if b.name == name)  # type: ignore[arg-type]
    changed = mutate(plan, at(name), lambda s: (replace(s, slot=replace(s.slot, barrier=renewed)),))
    for match, change in others:
        changed = mutate(changed, match, change)
    return lambda: replace(changed, barriers=tuple(renewed if b.name == name else b for b in plan.barriers))


def use_one_accumulator() -> Plan:
    multiplied = mutate(PLAN, is_a(TensorMma), lambda s: (replace(s, c=s.c.memory[0, 0]),))
    return mutate(
        multiplied, loads_cells, lambda s: (replace(s, src=s.src.memory[s.src.at[0], s.src.at[1] % PAIRS.n]),)
    )


FULL, FREE = (Slot(b, 0) for b in PLAN.barriers[:2])
WAITED = "as far as warp {} knows: it has not waited for that"
FAULTS: dict[str, tuple[Callable[[], Plan], str, str, tuple[str, ...]]] = {
    # ---- who multiplies, and who commits
    "11 both CTAs multiply, and wait alike": (plant(in_even, lambda s: s.body, role="mma"), "TG413", "full[0]", ()),
    "11 both CTAs multiply": (
        enter_both(), "TG412", "tcgen05.mma.f16 is started by the even CTA of a pair, not in that of rank 1", ()),
    "the odd CTA multiplies": (enter_both((is_a(TensorMma), only_in(ODD))), "TG412", "by the even CTA of a pair", ()),
    "both CTAs commit": (
        enter_both((is_a(TensorMma), only_in(EVEN))), "TG412", "tcgen05.commit is started by the even CTA", ()),
    # ---- what is told to whom
    "12 the odd CTA waits at the barrier of the pair": (
        plant(is_a(Repeat), lambda s: (When(ODD, (Await(FULL, 0),)), s), 0, "store"), "TG413", "full[0]", ()),
    "10 free is told to the even CTA alone": (plant(commits("free"), turn(peers=None)), "TG413", "free[0]", ()),
    "10 done is told to the even CTA alone": (plant(commits("done"), turn(peers=None)), "TG413", "done[0]", ()),
    "free is told to the odd CTA alone": (
        plant(commits("free"), turn(peers=replace(PAIRS.both, bits=2))), "TG413", "free[0]", ()),
    "14 read counts the even CTA": (
        with_barrier("read", (tells_the_even, only_in(EVEN)), arrivals=1), "TG403",
        "in CTA (1, 0, 0), t = 2, k = 0): writes tmem acc", ()),
    "read counts the odd CTA": (
        with_barrier("read", (tells_the_even, only_in(ODD)), arrivals=1), "TG403", "tcgen05.ld of warp 4 reads", ()),
    "read counts one of two": (with_barrier("read", arrivals=1), "TG425", "more than 1 threads arrive at read", ()),
    "free orders a CTA alone": (
        with_barrier("free", order="cta"), "TG422", "TMA A -> sa (CTA (1, 0, 0)", ("wait: {barrier: full}",)),
    "done orders a CTA alone": (
        with_barrier("done", order="cta"), "TG422", "tcgen05.ld acc -> h (CTA (1, 0, 0)", ("wait: {barrier: done}",)),
    "read orders a CTA alone": (
        with_barrier("read", order="cta"), "TG403", "in CTA (1, 0, 0), t = 2, k = 0): writes tmem acc", ()),
    "the odd CTA tells itself that it has read": (plant(tells_the_even, in_odd(rank=1)), "TG413", "read[0]", ()),
    # ---- bytes
    "13 the even CTA announces its own bytes": (
        plant(announces, announce_half), "TG425",
        "brings 12288 bytes more than phase 0 of full[0] waits for", ()),
    "13 the even CTA announces its own bytes, after they come": (
        lambda: mutate(mutate(PLAN, around(in_even), announce_last, role="load"), announces, announce_half),
        "TG413", "-20480 bytes", ()),
    "the even CTA announces too much": (
        plant(announces, lambda s: (replace(s, bytes=s.bytes * 2),)), "TG413", "40960 bytes are missing", ()),
    "both CTAs announce": (plant(in_even, lambda s: s.body, role="load"), "TG425", "more than 1 threads arrive", ()),
    "the odd CTA announces in the odd CTA": (plant(in_even, turn(condition=ODD), role="load"), "TG413", "", ()),
    "the odd CTA reports to itself": (
        plant(is_a(Tma), turn(rank=PAIRS.cbx)), "TG412", "to the even one of its pair alone it can", ()),
    "the odd CTA reports without a rank": (plant(is_a(Tma), turn(rank=None)), "TG413", "20480 bytes are missing", ()),
    "the even CTA reports to the odd one": (plant(is_a(Tma), turn(rank=1)), "TG412", "to that of rank 1", ()),
    "no such CTA": (plant(is_a(Tma), turn(rank=2)), "TG401", "no CTA of a cluster of (2, 1, 1) has rank 2", ()),
    "one box of the odd CTA is reported to another slot": (
        plant(is_a(Tma), in_odd(done=Slot(FULL.barrier, 1)), 1), "TG434",
        "brings bytes of phase 1 of full[1] in another CTA, and has not waited for what completes the one before", ()),
    # ---- stages
    "the odd CTA fills before free": (
        plant(at("free"), only_in(EVEN), role="load"), "TG422", WAITED.format(0), ("wait: {barrier: full}",)),
    "the even CTA fills before free": (
        plant(at("free"), only_in(ODD), role="load"), "TG434", "has not waited for what completes the one before", ()),
    "no CTA waits for free": (plant(at("free"), role="load"), "TG434", "arrives for phase 1 of full[0]", ()),
    "the odd CTA waits for another stage": (
        plant(at("free"), in_odd(slot=Slot(FREE.barrier, 1)), role="load"), "TG434",
        "arrives for phase 1 of free[0]", ()),
    "free is told before the products": (
        plant(around(is_a(TensorMma)), tell_first), "TG422",
        "fills shared sa (element 0, byte 0), which TMA fills", ("wait: {barrier: full}",)),
    "the products start before full": (
        plant(at("full"), role="mma"), "TG422", WAITED.format(1), ("wait: {barrier: full}",)),
    "the odd CTA's b lies elsewhere": (
        plant(is_a(Tma), lambda s: in_odd(shared=s.shared.memory[32 * 64])(s), 1), "TG422",
        "fills shared sb (element 2048, byte 36864), which TMA fills", ("wait: {barrier: full}",)),
    "the odd CTA brings no b": (plant(is_a(Tma), only_in(EVEN), 1), "TG413", "4096 bytes are missing", ()),
    # ---- sums
    "the odd CTA loads before done": (
        plant(at("done"), only_in(EVEN), role="store"), "TG422", WAITED.format(4), ("wait: {barrier: done}",)),
    "the odd CTA does not fence behind done": (
        plant(lambda s: s == AFTER, only_in(EVEN), role="store"), "TG403",
        "CTA (1, 0, 0), warp 4, lane 0, t = 0, p = 0): reads tmem acc (lane 0, element 0), which tcgen05 writes: "
        "warp 4 has waited for that, but no tcgen05.fence::after_thread_sync follows", ()),
    "the odd CTA does not fence before read": (
        plant(lambda s: s == BEFORE, only_in(EVEN), role="store"), "TG403",
        "no tcgen05.fence::before_thread_sync follows its tcgen05.wait::ld", ()),
    "the odd CTA tells before all of it have loaded": (
        plant(is_sync("role"), only_in(EVEN)), "TG403", "in CTA (1, 0, 0), t = 2, k = 0): writes tmem acc", ()),
    "the products start before read": (plant(at("read"), role="mma"), "TG403", "tcgen05.ld of warp 4 reads", ()),
    "no fence behind full": (
        plant(lambda s: s == AFTER, drop, 1, "mma"), "TG403", "no tcgen05.fence::after_thread_sync follows", ()),
    "one accumulator where two are indexed": (
        use_one_accumulator, "TG422", "which tcgen05 writes", ("wait: {barrier: done}",)),
    # ---- the end
    "nobody meets at the end": (plant(is_sync("cluster")), "TG435", "arrives in CTA (0, 0, 0), which may have ended",
        ("sync: cluster",)),
    # ---- what is no pair
    "instructions of one CTA": (
        lambda: replace(PLAN, cta_group=1), "TG412", "is of 2 CTAs, in a kernel whose instructions are of 1", ()),
    "an atom of one CTA": (
        plant(is_a(TensorMma), turn(atom="tcgen05.m128n64k16.f32.bf16.bf16")), "TG412", "is of 1 CTAs, not of 2", ()),
    "a step of one CTA": (plant(is_a(TensorMma), turn(ctas=1)), "TG412", "is of 2 CTAs, not of 1", ()),
    "all of b in each CTA": (
        plant(is_a(TensorMma), lambda s: (replace(s, b_lies=lies(PAIRS.n, "bfloat16")),)), "TG412",
        "it multiplies 32 rows of 16, not 64 of 16", ()),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_planted_fault_is_found(what: str) -> None:
    planted, code, words, due = FAULTS[what]
    fault = fault_in(planted())
    assert fault is not None, "not found"
    assert (fault.code, fault.insert) == (code, due), fault
    assert words in fault.message, fault


@pytest.mark.parametrize(("waited", "code"), [(True, None), (False, "TG435")])
def test_a_cta_ends_after_all_that_is_done_there(waited: bool, code: str | None) -> None:
    """Where nobody meets at the end, the odd CTA waits for its sums, or does not and has none."""
    one = Pairs(tiles=1, trips=2, accumulators=1)
    alone = mutate(plan_pairs(one), is_sync("cluster"), drop)
    alone = (
        mutate(alone, tells_the_even, only_in(EVEN))
        if waited
        else mutate(alone, is_a(Repeat), only_in(EVEN), 0, "store")
    )
    fault = fault_of_run(lambda: run(with_barrier("read", plan=alone, arrivals=1)(), one.draw()))
    assert (fault.code if fault else None) == code, fault
    if fault:
        assert fault.insert == ("sync: cluster",) and "loads in CTA (1, 0, 0), which may have ended" in fault.message


def test_trips_are_left_out_where_nothing_more_is_in_flight() -> None:
    long = Pairs(tiles=1, trips=40)
    given = {name: (lambda at, x=x: x.reshape(-1)[at]) for name, x in long.draw().items()}
    trips = Trips({"k": (Recurrence(4), 8)})
    whole, cut = (interpret(plan_pairs(long), ONE_CTA, given, trips=t).steps for t in (ALL_TRIPS, trips))
    assert cut < whole / 2


def test_a_log_says_whose_barrier_a_load_reports_to() -> None:
    one = Pairs(tiles=1, trips=1, stages=1, accumulators=1)
    given = {name: (lambda at, x=x: x.reshape(-1)[at]) for name, x in one.draw().items()}
    found = record(plan_pairs(one), ONE_CTA, given)
    assert found.fault is None
    even, odd = (0, 0, 0), (1, 0, 0)
    told = [(e.what, e.cta, e.there, e.names[0]) for e in found.events if e.what.startswith("copy ") and e.barrier]
    assert told == [
        (what, own, there, name) for name in "AB" for what in ("copy started", "copy landed")
        for own, there in ((even, (even,)), (odd, (odd if what == "copy started" else even,)))
    ]  # fmt: skip
    commits_to = [(e.cta, e.there) for e in found.events if e.what == "arrive" and e.barrier == "done"]
    assert commits_to == [(even, (even,)), (even, (odd,))]
    waits = {(e.cta, e.barrier): {found.events[n].cta for n in e.by} for e in found.events if e.what == "wait"}
    assert waits[even, "full"] == {even, odd} and waits[odd, "done"] == {even}
    data = events_data(plan_pairs(one), Launch(256, (2, 1, 1), (), (2, 1, 1)), found)
    said = {cell["text"] for cell in list_cells(data)}
    assert {"multiply sa by sb into acc, 4 times", "arrive: done phase 0 of CTAs 0 and 1"} <= said, said
    assert events_text(data)
    print(events_text(data))


def test_a_cluster_without_a_pair() -> None:
    product = next(s for role in PLAN.roles for _, s in list_steps(role.steps) if isinstance(s, TensorMma))
    first = replace(product, c=product.c.memory[0, 0], a=product.a.memory[0], b=product.b.memory[0], accumulate=False)
    alone = replace(PLAN, cluster=(1, 1, 1), grid=(1, 1, 1), roles=tuple(replace(r, steps=()) for r in PLAN.roles))
    fault = fault_in(with_steps(alone, elected(first), role=1))
    assert fault is not None and fault.code == "TG412", fault
    assert "is of pairs of CTAs, and a cluster has 1" in fault.message
