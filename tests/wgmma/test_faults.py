"""Planted faults of wgmma: each is found, says where, and the hint repairs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.faults.steps import is_a, mutate, turn, with_steps
from tests.faults.verdicts import fault_of_run, refusal_of
from tests.wgmma.plans import Loop, Parts, Tiles, lane, parts_of, plan_loop, product_of, read_result, tx
from tests.wgmma.test_interpret import run
from tilegen.index import equal, less
from tilegen.interpret import FaultFound
from tilegen.interpret.fault import (
    IN_FLIGHT,
    MALFORMED,
    MISALIGNED,
    NEVER_AWAITED,
    OUT_OF_BOUNDS,
    PARTIAL_SYNC,
    RACE,
    REGISTERS_IN_FLIGHT,
    REGISTERS_UNFENCED,
    UNFENCED,
    UNWRITTEN,
    Fault,
)
from tilegen.plan import FILL, Commit, Fence, Map, Move, Plan, Step, Sync, Wait, Wgmma, When
from tilegen.proofs import unproven_ranges

SHARED, HELD = Tiles(k=32, swizzle=64), Tiles(k=32, swizzle=64, a_held=True)
S, R = parts_of(SHARED), parts_of(HELD)
COMMIT, DONE = Commit("mma"), Wait("mma")


def memory(parts: Parts, name: str):
    return next(m for m in parts.memories if m.name == name)


ACC, RA, SB = memory(S, "acc"), memory(R, "ra"), memory(S, "sB")
OVERWRITE = When(equal(tx, 0), (Map(FILL, memory(S, "wB")[0], (), 8, 0), Move(SB[8], memory(S, "wB")[0], 8)))


def fault_in(plan: Plan, tiles: Tiles) -> Fault | None:
    return fault_of_run(lambda: run(plan, tiles.inputs(tiles.draw())))


def of_shared(*steps: Step) -> tuple[Plan, Tiles]:
    return S.plan(*steps), SHARED


def of_held(*steps: Step) -> tuple[Plan, Tiles]:
    return R.plan(*steps), HELD


BEGIN, BEGIN_HELD = (*S.fill, *S.meet), (*R.fill, *R.meet)
FIRST, SECOND = S.products
WRITE_A = Map(FILL, RA[0], (), 8, 0)
READ_A = Move(memory(R, "wB")[0], RA[8], 8)
FAULTS: dict[str, tuple[tuple[Plan, Tiles], str, tuple[str, ...]]] = {
    # ---- registers in flight
    "the accumulator is read before its wait": (
        of_shared(*BEGIN, Fence(), *S.products, COMMIT, *S.store, DONE), REGISTERS_IN_FLIGHT, ("wait: {mma: 0}",)),
    "the accumulator is written before its wait": (
        of_shared(*BEGIN, Fence(), *S.products, COMMIT, Map(FILL, ACC[5], (), 1, 0), DONE, *S.store),
        REGISTERS_IN_FLIGHT, ("wait: {mma: 0}",)),
    "a wait for too few groups": (
        of_shared(*BEGIN, Fence(), FIRST, COMMIT, SECOND, COMMIT, Wait("mma", 1), *S.store),
        REGISTERS_IN_FLIGHT, ("wait: {mma: 0}",)),
    "no commit": (
        of_shared(*BEGIN, Fence(), *S.products, DONE, *S.store), REGISTERS_IN_FLIGHT,
        ("commit: mma", "wait: {mma: 0}")),
    "the wait stands before the commit": (
        of_shared(*BEGIN, Fence(), *S.products, DONE, COMMIT, *S.store), REGISTERS_IN_FLIGHT, ("wait: {mma: 0}",)),
    "a wait for another queue": (
        of_shared(*BEGIN, Fence(), *S.products, COMMIT, Wait("cp.async"), *S.store), REGISTERS_IN_FLIGHT,
        ("wait: {mma: 0}",)),
    "nobody waits": (of_shared(*BEGIN, Fence(), *S.products, COMMIT), NEVER_AWAITED, ("wait: {mma: 0}",)),
    "nobody commits": (
        of_shared(*BEGIN, Fence(), *S.products), NEVER_AWAITED, ("commit: mma", "wait: {mma: 0}")),
    "a in registers is written before the wait": (
        of_held(*BEGIN_HELD, Fence(), *R.products, COMMIT, WRITE_A, DONE, *R.store), REGISTERS_IN_FLIGHT,
        ("wait: {mma: 0}",)),
    "a in registers is read before the wait": (
        of_held(*BEGIN_HELD, Fence(), *R.products, COMMIT, READ_A, DONE, *R.store), REGISTERS_IN_FLIGHT,
        ("wait: {mma: 0}",)),
    # ---- fences
    "no fence": (of_shared(*BEGIN, *S.products, COMMIT, DONE, *S.store), REGISTERS_UNFENCED, ()),
    "the accumulator is written after the fence": (
        of_shared(*BEGIN, Fence(), Map(FILL, ACC[0], (), ACC.shape[0], 0), *S.products, COMMIT, DONE, *S.store),
        REGISTERS_UNFENCED, ()),
    "the accumulator is read between two groups": (
        of_shared(*BEGIN, Fence(), FIRST, COMMIT, DONE, *S.store, SECOND, COMMIT, DONE), REGISTERS_UNFENCED, ()),
    "a in registers is written after the fence": (
        of_held(*BEGIN_HELD[1:], Fence(), BEGIN_HELD[0], *R.products, COMMIT, DONE, *R.store),
        REGISTERS_UNFENCED, ()),
    "a fence of half a warpgroup": (
        of_shared(*BEGIN, When(less(tx, 64), (Fence(),)), *S.products, COMMIT, DONE, *S.store), PARTIAL_SYNC, ()),
    # ---- shared memory
    "an operand is overwritten before the wait": (
        of_shared(*BEGIN, Fence(), *S.products, COMMIT, OVERWRITE, DONE, *S.store), IN_FLIGHT, ("wait: {mma: 0}",)),
    "an operand is overwritten after the wait": (
        of_shared(*BEGIN, Fence(), *S.products, COMMIT, DONE, *S.store, OVERWRITE), "", ()),
    "stores are not fenced for the async proxy": (
        of_shared(*S.fill, Sync("cta"), Fence(), *S.products, COMMIT, DONE, *S.store), UNFENCED, ("sync: async",)),
    "stores are fenced after the sync": (
        of_shared(*S.fill, Sync("cta"), Sync("async"), Fence(), *S.products, COMMIT, DONE, *S.store),
        UNFENCED, ("sync: async",)),
    "a warp fences after the sync": (
        of_shared(*S.fill, When(less(tx, 96), (Sync("async"),)), Sync("cta"), When(less(95, tx), (Sync("async"),)),
                  Fence(), *S.products, COMMIT, DONE, *S.store),
        UNFENCED, ("sync: async",)),
    "warps have not met after their stores": (
        of_shared(*S.fill, Sync("async"), Fence(), *S.products, COMMIT, DONE, *S.store), RACE, ()),
    "only warps have met after their stores": (
        of_shared(*S.fill, Sync("async"), Sync("warp"), Fence(), *S.products, COMMIT, DONE, *S.store), RACE, ()),
    "an operand that nobody wrote": (
        of_shared(S.fill[0], *S.meet, Fence(), *S.products, COMMIT, DONE, *S.store), UNWRITTEN, ()),
    # ---- who takes part
    "half a warpgroup multiplies": (
        of_shared(*BEGIN, Fence(), When(less(tx, 64), S.products), COMMIT, DONE, *S.store), PARTIAL_SYNC, ()),
    "half of each warp multiplies": (
        of_shared(*BEGIN, Fence(), When(less(lane, 16), S.products), COMMIT, DONE, *S.store), PARTIAL_SYNC, ()),
    "a warp commits": (
        of_shared(*BEGIN, Fence(), *S.products, When(less(tx, 32), (COMMIT,)), DONE, *S.store), PARTIAL_SYNC, ()),
    "a warp waits": (
        of_shared(*BEGIN, Fence(), *S.products, COMMIT, When(less(tx, 32), (DONE,)), *S.store), PARTIAL_SYNC, ()),
    "the warps do not agree whether to add": (
        of_shared(*BEGIN, Fence(), replace(FIRST, accumulate=less(tx, 64)), SECOND, COMMIT, DONE, *S.store),
        MALFORMED, ()),
    "the accumulator is added to, and nothing is there": (
        of_shared(*BEGIN, Fence(), replace(FIRST, accumulate=True), SECOND, COMMIT, DONE, *S.store), UNWRITTEN, ()),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_planted_fault_is_found(what: str) -> None:
    (plan, tiles), code, due = FAULTS[what]
    fault = fault_in(plan, tiles)
    assert (fault.code if fault else "") == code, fault
    assert fault is None or fault.insert == due or not due


def test_what_the_faults_say() -> None:
    read = fault_in(*FAULTS["the accumulator is read before its wait"][0])
    assert read is not None and "move acc -> C" in read.message
    assert "reads register acc[0], which a wgmma is still adding to: it has not been waited for" in read.message
    late = fault_in(*FAULTS["an operand is overwritten before the wait"][0])
    assert late is not None and "which wgmma reads, as far as warp 0 knows" in late.message
    fence = fault_in(*FAULTS["no fence"][0])
    assert fence is not None and "without a fence after what was done with it before" in fence.message


# ---------------------------------------------------------------- wrong places: refused, or another product
def differs(plan: Plan, tiles: Tiles) -> str:
    """The fault's code, that of the proof of ranges, or that the product is another one; "" for a right plan."""
    drawn = tiles.draw()
    try:
        found = read_result(run(plan, tiles.inputs(drawn)), tiles.n)
    except FaultFound as wrong:
        return wrong.fault.code
    if np.array_equal(found.astype(np.float64), product_of(drawn).astype(np.float64)):
        return ""
    return "another product"


def with_first(parts: Parts, change: Callable[[Wgmma], Wgmma]) -> Plan:
    """The plan with a change in the last of its products."""
    *before, last = parts.products
    return parts.plan(*parts.fill, *parts.meet, Fence(), *before, change(last), COMMIT, DONE, *parts.store)


def moved(step: Wgmma, elems: int) -> Wgmma:
    return replace(step, b=step.b.memory[step.b.at[0] + elems])


def lies(step: Wgmma, **changed: object) -> Wgmma:
    return replace(step, b_lies=replace(step.b_lies, **changed))  # type: ignore[arg-type]


WIDE = parts_of(Tiles(k=64))
N_TILES = Tiles("wgmma.m64n128k16.f32.bf16.bf16", k=64, along_b="mn")
N_MAJOR = parts_of(N_TILES)
PLACES = {
    "a step along K too far": (WIDE, Tiles(k=64), lambda s: moved(s, 16), {MISALIGNED}),
    "a step along K too few": (WIDE, Tiles(k=64), lambda s: moved(s, -16), {"another product"}),
    "half a chunk": (WIDE, Tiles(k=64), lambda s: moved(s, -4), {MISALIGNED}),
    "eight rows on": (WIDE, Tiles(k=64), lambda s: moved(s, 512), {OUT_OF_BOUNDS}),
    "another swizzle": (WIDE, Tiles(k=64), lambda s: lies(s, swizzle_bytes=64), {"another product", MISALIGNED}),
    "no swizzle": (WIDE, Tiles(k=64), lambda s: lies(s, swizzle_bytes=0), {"another product", OUT_OF_BOUNDS}),
    "another stride": (WIDE, Tiles(k=64), lambda s: lies(s, stride_bytes=512), {"another product"}),
    "a stride that leaves the buffer": (WIDE, Tiles(k=64), lambda s: lies(s, stride_bytes=2048), {OUT_OF_BOUNDS}),
    "a stride that is no whole chunk": (WIDE, Tiles(k=64), lambda s: lies(s, stride_bytes=1000), {MALFORMED}),
    "along N instead of K": (WIDE, Tiles(k=64), lambda s: lies(s, along="mn"), {MISALIGNED}),
    "panels of N exchanged": (
        N_MAJOR, N_TILES,
        lambda s: lies(s, leading_bytes=s.b_lies.stride_bytes, stride_bytes=s.b_lies.leading_bytes),
        {"another product", OUT_OF_BOUNDS}),
    "a row of K on, along N": (
        N_MAJOR, N_TILES, lambda s: moved(s, -64), {MISALIGNED}),
    "rows of another N": (WIDE, Tiles(k=64), lambda s: lies(s, rows=32), {REGISTERS_IN_FLIGHT}),
    "it does not add": (WIDE, Tiles(k=64), lambda s: replace(s, accumulate=False), {"another product"}),
    "other registers": (WIDE, Tiles(k=64), lambda s: replace(s, c=s.c.memory[1]), {OUT_OF_BOUNDS}),
    "nothing": (WIDE, Tiles(k=64), lambda s: s, {""}),
}  # fmt: skip


@pytest.mark.parametrize("what", PLACES)
def test_a_wrong_place_is_found(what: str) -> None:
    parts, tiles, change, codes = PLACES[what]
    assert differs(with_first(parts, change), tiles) in codes


@pytest.mark.parametrize(
    "what",
    [
        "a step along K too far",
        "half a chunk",
        "eight rows on",
        "along N instead of K",
        "a stride that leaves the buffer",
        "a row of K on, along N",
        "other registers",
    ],
)
def test_the_proof_of_ranges_finds_it_too(what: str) -> None:
    parts, _, change, _ = PLACES[what]
    assert unproven_ranges(with_first(parts, change))
    assert not unproven_ranges(with_first(parts, lambda s: s))


def test_a_buffer_that_is_not_aligned_to_the_pattern() -> None:
    parts = parts_of(Tiles(k=64))
    old = memory(parts, "sB")
    for new in (replace(old, offset_bytes=old.offset_bytes + 128), replace(old, align_bytes=128)):
        products = (replace(p, b=new[p.b.at]) for p in parts.products)
        plan = parts.plan(*parts.fill, *parts.meet, Fence(), *products, COMMIT, DONE, *parts.store)
        plan = replace(plan, memories=tuple(new if m == old else m for m in plan.memories))
        assert {f.memory for f in unproven_ranges(plan)} >= {"sB"}


# ---------------------------------------------------------------- loops
def test_groups_overlap_where_each_has_its_own_operands() -> None:
    """Two groups in flight add to one accumulator in order; a wait for the older alone leaves both unread."""
    steps = (*BEGIN, Fence(), FIRST, COMMIT, SECOND, COMMIT, Wait("mma", 1), DONE, *S.store)
    assert not differs(S.plan(*steps), SHARED)


def test_wgmmas_of_other_shapes_are_fenced_apart() -> None:
    """PTX ISA, wgmma.fence: only wgmmas of one shape go on with an accumulator without a fence."""
    narrow = lies(SECOND, rows=32)
    steps = (*BEGIN, Fence(), FIRST, COMMIT, DONE, narrow, COMMIT, DONE, *S.store)
    assert fault_in(S.plan(*steps), SHARED).code == REGISTERS_UNFENCED  # type: ignore[union-attr]
    flying = (*BEGIN, Fence(), FIRST, COMMIT, Fence(), narrow, COMMIT, DONE, *S.store)
    assert fault_in(S.plan(*flying), SHARED).code == REGISTERS_IN_FLIGHT  # type: ignore[union-attr]
    apart = (*BEGIN, Fence(), FIRST, COMMIT, DONE, Fence(), narrow, COMMIT, DONE, *S.store)
    assert fault_in(S.plan(*apart), SHARED) is None


def test_the_next_tile_may_not_come_before_the_wait() -> None:
    loop = Loop(n=32, trips=2)
    drawn = loop.draw()
    plan = plan_loop(loop)
    (over, store) = plan.roles[0].steps
    load, landed, multiply, commit, done, meet = over.body
    for body, code in (
        ((load, landed, multiply, commit, done), ""),  # a group is the warpgroup's: a wait of one warp says all
        ((load, landed, multiply, commit, meet), IN_FLIGHT),  # nobody has waited
        ((load, multiply, commit, done, meet), IN_FLIGHT),  # the box is not there
        ((load, landed, multiply, done, commit, meet), IN_FLIGHT),
        ((load, landed, multiply, commit, replace(done, pending=1), meet), IN_FLIGHT),
        ((load, landed, multiply, commit, done, meet), ""),
    ):
        changed = with_steps(plan, replace(over, body=body), store)
        try:
            found = run(changed, drawn)
        except FaultFound as fault:
            assert fault.fault.code == code, fault
        else:
            assert code == "" and np.array_equal(found.reshape(64, loop.n), product_of(drawn))


def test_the_first_k_step_clears() -> None:
    loop = Loop(n=32, trips=2)
    drawn, plan = loop.draw(), plan_loop(loop)
    over, _ = plan.roles[0].steps

    def changed(accumulate: object) -> Plan:
        return mutate(plan, is_a(Wgmma), turn(accumulate=accumulate))

    assert refusal_of(FaultFound, run, changed(True), drawn).fault.code == UNWRITTEN
    assert not np.array_equal(run(changed(less(0, over.body[2].body[1].var)), drawn).reshape(64, 32), product_of(drawn))
