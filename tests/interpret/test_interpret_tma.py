"""TMA and mbarriers: a planted fault, and its repair, for every rule of docs/order-model.md about them."""

from __future__ import annotations

import dataclasses
from itertools import product

import numpy as np
import pytest

from tests.faults.verdicts import fault_of
from tests.interpret.kernels import S, get, kernel, put, q, tx, values, values_at
from tilegen.index import Index, Var, equal, evaluate, less, select, sub
from tilegen.interpret import interpret
from tilegen.plan import (
    Arrive,
    Await,
    Barrier,
    Commit,
    Memory,
    Move,
    Plan,
    Ref,
    Repeat,
    Slot,
    Step,
    Sync,
    TensorMap,
    Tma,
    Wait,
    When,
    flat_memory,
)
from tilegen.proofs import unproven_ranges

X = Memory("X", "float32", (30, 40), (40, 1), "global", "in")
Y = Memory("Y", "float32", (30, 40), (40, 1), "global", "out")
IN, OUT = (TensorMap(f"{m.name}_map", m, (0, 1), (8, 16)) for m in (X, Y))
FULL = Barrier("full", 2, 1)
BYTES = IN.box_bytes
t = tx(64)
first = equal(t, 0)


def elected(*steps: Step) -> Step:
    return When(first, steps)


def load(to: int = 0, slot: Index = 0, announced: int = BYTES, row: Index = 0) -> Step:
    done = Slot(FULL, slot)
    return elected(Arrive(done, announced), Tma(IN, (row, 0), S[to], done))


def store(of: int = 0, row: Index = 0, column: Index = 0) -> Step:
    return elected(Tma(OUT, (row, column), S[of]), Commit("bulk"))


def arrived(slot: Index = 0, parity: Index = 0) -> Step:
    return Await(Slot(FULL, slot), parity)


def plan_of(*steps: Step | tuple[Step, ...]) -> Plan:
    flat = [s for part in steps for s in (part if isinstance(part, tuple) else (part,))]
    return kernel(*flat, threads=64, memories=(X, Y), barriers=(FULL,))


def check(code: str, insert: tuple[str, ...], *steps) -> None:
    fault = fault_of(plan_of(*steps), {"X": values})
    assert fault is not None, "not found"
    assert (fault.code, fault.insert) == (code, insert), fault


def accept(*steps) -> None:
    fault = fault_of(plan_of(*steps), {"X": values})
    assert fault is None, fault


WROTE = (*put(t * 2), *put(t * 2 + 1))
SENT = (Wait("bulk", 0),)


# ---- loads
def test_a_load_lands_at_the_wait_for_its_phase():
    check("TG422", ("wait: {barrier: full}",), load(), get(t))
    check("TG422", ("wait: {barrier: full}",), load(), Sync("cta"), get(t))
    accept(load(), arrived(), get(t))


def test_the_wrong_parity_is_of_another_phase():
    """Hardware lets threads by while the phase before is the current one, and then holds them for ever."""
    check("TG413", (), load(), arrived(parity=1), get(t))


def test_another_slot_says_nothing():
    both = (load(), load(128, slot=1), arrived(1))
    check("TG422", ("wait: {barrier: full}",), *both, get(t))
    accept(*both, get(t + 128), arrived())


def test_who_waited_may_tell_others_by_a_sync():
    only = When(less(t, 32), (arrived(),))
    check("TG422", ("wait: {barrier: full}",), load(), only, get(t))
    accept(load(), only, Sync("cta"), get(t))


def test_a_box_that_is_filled_may_not_be_touched():
    check("TG422", ("wait: {barrier: full}",), load(), put(t), arrived())
    check("TG422", ("wait: {barrier: full}",), load(), load(slot=1), arrived(), arrived(1))
    accept(load(), arrived(), Sync("cta"), load(slot=1), arrived(1))


def test_a_box_that_others_still_read_may_not_be_filled():
    again = (load(slot=1), arrived(1))
    fault = fault_of(plan_of(load(), arrived(), get(t), *again), {"X": values})
    assert fault and (fault.code, fault.needs_sync) == ("TG403", "cta")
    accept(load(), arrived(), get(t), Sync("cta"), *again)


def test_stores_before_a_load_over_them_are_fenced():
    check("TG424", ("sync: async",), WROTE, Sync("cta"), load(), arrived())
    accept(WROTE, Sync("async"), Sync("cta"), load(), arrived())


def test_phases_alternate():
    k = Var("k", 5)
    body = (load(row=k * 2), arrived(parity=k % 2), *get(t), Sync("cta"))
    accept(Repeat(k, 5, body))
    check("TG413", (), Repeat(k, 5, (load(row=k * 2), arrived(), *get(t), Sync("cta"))))


def test_missing_bytes_and_missing_copies_are_a_deadlock():
    for steps in ((load(announced=BYTES + 16), arrived()), (arrived(),)):
        fault = fault_of(plan_of(*steps), {"X": values})
        assert fault and (fault.code, fault.barrier) == ("TG413", "full"), fault


def test_bytes_that_were_not_announced_are_not_waited_for():
    check("TG422", ("wait: {barrier: full}",), load(announced=0), arrived(), get(t))


def test_bytes_of_a_phase_come_after_the_phase_before():
    """They count for the phase that is not complete: who loads knows which one that is, whoever announces."""
    other = When(equal(t, 32), (Tma(IN, (1, 0), S[128], Slot(FULL, 0)),))
    rest = (elected(Arrive(Slot(FULL, 0), BYTES)), arrived(parity=1))
    check("TG434", (), load(), other, arrived(), Sync("cta"), *rest)
    accept(load(), arrived(), Sync("cta"), other, *rest)


def test_an_arrival_too_many():
    check("TG425", (), elected(Arrive(Slot(FULL, 0), BYTES), Arrive(Slot(FULL, 0), BYTES)))


def test_a_load_that_nobody_waits_for():
    check("TG423", ("wait: {barrier: full}",), load())


def test_a_wait_under_divergence():
    fault = fault_of(plan_of(load(), When(less(t, 40), (arrived(),))), {"X": values})
    assert fault and fault.code == "TG406"


# ---- stores
def test_stores_are_fenced_and_then_met():
    check("TG424", ("sync: async",), WROTE, Sync("cta"), store(), SENT)
    fault = fault_of(plan_of(WROTE, Sync("async"), store(), SENT), {})
    assert fault and (fault.code, fault.needs_sync) == ("TG403", "cta")
    check("TG424", ("sync: async",), WROTE, Sync("cta"), Sync("async"), *put(t), Sync("cta"), store(), SENT)
    accept(WROTE, Sync("async"), Sync("cta"), store(), SENT)


def test_the_fence_is_of_those_that_wrote():
    """The elected thread's own fence after the sync is not theirs."""
    check("TG424", ("sync: async",), WROTE, Sync("cta"), elected(Sync("async")), store(), SENT)


def test_a_fence_where_nothing_is_brought_or_sent_orders_nothing():
    steps = (*put(t), Sync("async"), Sync("cta"), *get(t + 1 - t % 2 * 2))
    assert fault_of(kernel(*steps, threads=64), {}) is None


def test_what_a_load_brought_needs_no_fence():
    accept(load(), arrived(), store(), SENT)


def test_a_box_that_is_sent_may_not_be_written():
    sent = (WROTE, Sync("async"), Sync("cta"), store())
    check("TG422", ("wait: 0", "sync: cta"), *sent, put(t * 2), SENT)
    check("TG422", ("wait: 0", "sync: cta"), *sent, SENT, put(t * 2))
    check("TG422", ("wait: 0", "sync: cta"), *sent, Sync("cta"), SENT, put(t * 2))
    accept(*sent, SENT, Sync("cta"), put(t * 2))
    accept(*sent, *get(t * 2), SENT)


def test_only_groups_that_were_waited_for_are_sent():
    two = (WROTE, Sync("async"), Sync("cta"), store(), store(row=8))
    check("TG422", ("wait: 0", "sync: cta"), *two, Wait("bulk", 1), Sync("cta"), put(t * 2), SENT)
    accept(*two, Wait("bulk", 0), Sync("cta"), put(t * 2))


def test_a_store_that_nobody_waits_for():
    check("TG423", ("wait: 0",), WROTE, Sync("async"), Sync("cta"), store())


def test_a_box_of_what_nothing_wrote():
    check("TG404", (), put(t), Sync("async"), Sync("cta"), store(), SENT)


# ---- memories that lie on the same bytes
OWN, OTHER = (flat_memory(name, "float32", 1024, "shared", align_bytes=1024) for name in ("own", "other"))
OWN, OTHER = (dataclasses.replace(m, offset_bytes=4096, family=m.name) for m in (OWN, OTHER))


def over(*steps: Step | tuple[Step, ...]) -> Plan:
    flat = [s for part in steps for s in (part if isinstance(part, tuple) else (part,))]
    return kernel(*flat, threads=64, memories=(X, Y, OWN, OTHER), barriers=(FULL,))


@pytest.mark.parametrize("rows", [8, 4])  # 4: half a pattern of the swizzle
def test_what_a_load_brought_is_its_memorys_own(rows):
    done, box = Slot(FULL, 0), dataclasses.replace(IN, swizzle_bytes=64, box=(rows, 16))
    brought = (elected(Arrive(done, box.box_bytes), Tma(box, (0, 0), OWN[0], done)), arrived())
    assert fault_of(over(brought, get(t, OWN)), {"X": values}) is None
    fault = fault_of(over(brought, get(t, OTHER)), {"X": values})
    assert fault and fault.code == "TG404" and "since 'own' was written on these bytes" in fault.message


def test_a_box_of_what_another_memory_wrote_is_not_sent():
    sent = (Sync("async"), Sync("cta"), elected(Tma(OUT, (0, 0), OWN[0]), Commit("bulk")), *SENT)
    write = lambda to: (*put(t * 2, to), *put(t * 2 + 1, to))  # noqa: E731
    assert fault_of(over(write(OWN), sent), {"X": values}) is None
    fault = fault_of(over(write(OTHER), sent), {"X": values})
    assert fault and fault.code == "TG404" and "since 'other' was written on these bytes" in fault.message


# ---- what is moved
def test_boxes_are_clipped_at_the_edges():
    """Rows 24.. and columns 32..: 6 of 8 rows and 8 of 16 columns are inside."""
    done = Slot(FULL, 0)
    steps = (elected(Arrive(done, BYTES), Tma(IN, (24, 32), S[0], done)), arrived(), store(row=24, column=32), SENT)
    got = values_at(interpret(plan_of(*steps), [(0, 0, 0)], {"X": values}), "Y")
    at = [r * 40 + c for r in range(24, 30) for c in range(32, 40)]
    assert sorted(got) == at and all(got[n] == float(values(np.int64(n))) for n in at)
    through = (*steps[:2], Move(q[0], S[t]), When(less(t, 40), (Move(Y[0, t], q[0]),)))
    first_row = values_at(interpret(plan_of(*through), [(0, 0, 0)], {"X": values}), "Y")
    assert [first_row[n] for n in range(8, 16)] == [0.0] * 8, "columns 40.. are read as zeros"


@pytest.mark.parametrize(
    ("row", "column"), [(1, sub(0, 40)), (sub(0, 1), 40), (select(less(tx(64), 1), 1, 0), sub(8, 16))]
)
def test_a_box_that_is_loaded_may_begin_before_its_array(row, column):
    """TMA reads zeros there, also where the offset is that of an element."""
    done = Slot(FULL, 0)
    start = (Arrive(done, BYTES), Tma(IN, (row, column), S[0], done))
    plan = plan_of(elected(*start), arrived(), store(), SENT)
    got = values_at(interpret(plan, [(0, 0, 0)], {"X": values}), "Y")
    first = [int(evaluate(x, {"tx": 0})) for x in (row, column)]
    wanted = {}
    for r, c in product(range(8), range(16)):
        source = (first[0] + r, first[1] + c)
        is_there = all(0 <= x < n for x, n in zip(source, (30, 40), strict=True))
        wanted[r * 40 + c] = float(values(np.int64(source[0] * 40 + source[1]))) if is_there else 0.0
    assert got == wanted
    assert unproven_ranges(plan) == ()


@pytest.mark.parametrize(
    ("row", "column"), [(1, sub(0, 40)), (sub(0, 1), 0), (select(less(tx(64), 1), 1, 0), sub(8, 16))]
)
def test_a_box_that_is_stored_does_not_begin_before_its_array(row, column):
    """The GPU ends the launch with an illegal instruction: an H100, 2026-11-28."""
    start = (Arrive(Slot(FULL, 0), BYTES), Tma(IN, (0, 0), S[0], Slot(FULL, 0)))
    plan = plan_of(elected(*start), arrived(), store(row=row, column=column), SENT)
    fault = fault_of(plan, {"X": values})
    assert fault is not None and "a box that TMA stores begins at -" in fault.message
    assert {f.code for f in unproven_ranges(plan)} == {"TG414"}


def test_coordinates_of_a_box_are_ints():
    far = plan_of(elected(Arrive(Slot(FULL, 0), BYTES), Tma(IN, (sub(0, 1 << 40), 0), S[0], Slot(FULL, 0))), arrived())
    assert [f.code for f in unproven_ranges(far)] == ["TG414"]


@pytest.mark.parametrize("is_load", [True, False])
def test_a_box_begins_at_whole_chunks_of_a_row(is_load):
    """TMA takes no other: the GPU ends the launch with an illegal instruction."""
    done = Slot(FULL, 0)
    start = (Arrive(done, BYTES), Tma(IN, (3, 2) if is_load else (0, 0), S[0], done))
    steps = (elected(*start), arrived(), *((store(),) if is_load else (store(row=3, column=2),)), SENT)
    plan = plan_of(*steps)
    fault = fault_of(plan, {"X": values})
    assert fault is not None and "begins at 2 of dimension 1, which is no multiple of 16 bytes" in fault.message
    assert [f.code for f in unproven_ranges(plan)] == ["TG415"]


def test_a_box_may_begin_behind_its_array_as_far_as_an_int_reaches():
    far, done = Var("bx", 1 << 22), Slot(FULL, 0)

    def codes(column: Index) -> list[str]:
        steps = (elected(Arrive(done, BYTES), Tma(IN, (0, column), S[0], done)), arrived(), store(), SENT)
        return [f.code for f in unproven_ranges(dataclasses.replace(plan_of(*steps), grid=(1 << 22, 1, 1)))]

    assert codes(far * 16) == []
    assert codes(far * 1024) == ["TG414"]


@pytest.mark.parametrize("swizzle", [0, 32, 64])
def test_a_swizzle_trades_16_byte_chunks(swizzle):
    """The driver's definition on bytes: b ^ (b >> 7 & swizzle / 16 - 1) << 4."""
    done, tensor = Slot(FULL, 0), dataclasses.replace(IN, swizzle_bytes=swizzle, box=(8, swizzle // 4 or 16))
    steps = (elected(Arrive(done, tensor.box_bytes), Tma(tensor, (0, 0), S[0], done)), arrived(),
             When(less(t, 40), (Move(q[0], S[t]), Move(Y[0, t], q[0]))))  # fmt: skip
    got = values_at(interpret(plan_of(*steps), [(0, 0, 0)], {"X": values}), "Y")
    width = tensor.box[1]
    for n in range(40):
        byte = 4 * n
        place = (byte ^ ((byte >> 7) & max(0, swizzle // 16 - 1)) << 4) // 4
        assert got[n] == float(values(np.int64(place // width * 40 + place % width))), n


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (Tma(IN, (0, 0), S[0], Slot(FULL, 0)), "TG412"),  # by every thread
        (elected(Tma(IN, (0, 0), S[1000], Slot(FULL, 0))), "TG401"),
        (elected(Tma(IN, (0, 0), S[0], Slot(FULL, 2))), "TG401"),
        (elected(Tma(IN, (0, 0), Ref(Y, (0, 0)), Slot(FULL, 0))), "TG412"),
        (elected(Tma(dataclasses.replace(OUT, memory=Y), (0, 0), S[0], Slot(FULL, 0))), "TG412"),
        (elected(Arrive(Slot(Barrier("empty", 1, 1), 0))), "TG412"),
        (elected(Arrive(Slot(FULL, 0), 1 << 20)), "TG425"),
    ],
)
def test_what_tma_cannot_do(step, code):
    fault = fault_of(plan_of(step, store(), SENT), {"X": values})
    assert fault and fault.code == code, fault
