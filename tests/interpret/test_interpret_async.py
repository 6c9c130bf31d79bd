"""cp.async: a planted fault, and its repair, for every rule of docs/order-model.md about copies in flight."""

from __future__ import annotations

import numpy as np
import pytest

from tests.faults.verdicts import fault_of
from tests.interpret.kernels import S, get, kernel, put, q, tx, values, values_at
from tilegen.index import Index, Var, equal, less
from tilegen.interpret import interpret
from tilegen.plan import CP_ASYNC, FILL, Commit, Map, Memory, Move, Plan, Repeat, Step, Sync, Wait, When

X = Memory("X", "float32", (4096,), (1,), "global", "in")
G = Memory("G", "float32", (4096,), (1,), "global", "inout")
t = tx(64)
DONE = (Commit("cp.async"), Wait("cp.async", 0))


def start(to: Index, of: Index, elems: int = 4, valid: Index = True, src: Memory = X) -> Step:
    return Move(S[to], src[of], elems, valid, via=CP_ASYNC)


def plan_of(*steps: Step | tuple[Step, ...], **more) -> Plan:
    flat = [s for part in steps for s in (part if isinstance(part, tuple) else (part,))]
    return kernel(*flat, threads=64, memories=(X, G), **more)


def check(code: str, insert: tuple[str, ...], *steps, **more) -> None:
    fault = fault_of(plan_of(*steps, **more), {"X": values, "G": values})
    assert fault is not None, "not found"
    assert (fault.code, fault.insert) == (code, insert), fault


def accept(*steps, **more) -> None:
    fault = fault_of(plan_of(*steps, **more), {"X": values, "G": values})
    assert fault is None, fault


def test_data_lands_at_the_wait():
    check("TG422", ("commit", "wait: 0"), start(t * 4, t * 4), get(t * 4))
    check("TG422", ("wait: 0",), start(t * 4, t * 4), Commit("cp.async"), get(t * 4))
    accept(start(t * 4, t * 4), DONE, get(t * 4))


def test_a_sync_is_no_wait():
    check("TG422", ("wait: 0",), start(t * 4, t * 4), Commit("cp.async"), Sync("cta"), get(t * 4))


def test_a_wait_is_no_sync():
    """The copy is then as if its thread had written: other threads meet it first."""
    steps = (start(t * 4, t * 4), *DONE)
    fault = fault_of(plan_of(*steps, get((t * 4 + 128) % 256)), {"X": values})
    assert fault and (fault.code, fault.needs_sync) == ("TG403", "cta")
    accept(*steps, Sync("cta"), get((t * 4 + 128) % 256))


def test_a_sync_before_the_wait_does_not_help_others():
    steps = (start(t * 4, t * 4), Commit("cp.async"), Sync("cta"), Wait("cp.async", 0))
    fault = fault_of(plan_of(*steps, get((t * 4 + 128) % 256)), {"X": values})
    assert fault and (fault.code, fault.needs_sync) == ("TG403", "cta")


def test_others_are_told_of_the_wait_and_the_sync():
    check("TG422", ("wait: 0", "sync: cta"), start(t * 4, t * 4), Commit("cp.async"), get((t * 4 + 128) % 256))
    check("TG422", ("wait: 0", "sync: warp"), start(t * 4, t * 4), Commit("cp.async"), get(t * 4 ^ 4))


def test_groups_land_in_order_the_oldest_first():
    three = [step for n in range(3) for step in (start(t * 4 + 256 * n, t * 4), Commit("cp.async"))]
    accept(*three, Wait("cp.async", 2), get(t * 4), Wait("cp.async", 0))
    check("TG422", ("wait: 1",), *three, Wait("cp.async", 2), get(t * 4 + 256), Wait("cp.async", 0))
    accept(*three, Wait("cp.async", 1), get(t * 4 + 256), Wait("cp.async", 0))


def test_empty_groups_count():
    steps = (start(t * 4, t * 4), Commit("cp.async"), Commit("cp.async"))
    accept(*steps, Wait("cp.async", 1), get(t * 4))
    check("TG422", ("wait: 1",), *steps, Wait("cp.async", 2), get(t * 4))


def test_groups_are_those_of_each_thread():
    """Warp 1 starts nothing and commits nothing; what warp 0 waits for is its own."""
    warp = t // 32
    only_first = equal(warp, 0)
    body = (start(t * 4, t * 4), Commit("cp.async"), start(t * 4 + 512, t * 4), Commit("cp.async"))
    accept(When(only_first, body), Wait("cp.async", 1), When(only_first, get(t * 4)), Wait("cp.async", 0))
    late = (When(only_first, body), When(less(0, warp), (Wait("cp.async", 0),)), When(only_first, get(t * 4)))
    check("TG422", ("wait: 1",), *late)


def test_a_slot_that_is_filled_may_not_be_written():
    check("TG422", ("wait: 0",), start(t * 4, t * 4), Commit("cp.async"), put(t * 4))
    check("TG422", ("wait: 0",), start(t * 4, t * 4), Commit("cp.async"), start(t * 4, t * 4), DONE)
    accept(start(t * 4, t * 4), DONE, start(t * 4, t * 4), DONE)


def test_a_slot_that_others_still_read_may_not_be_filled():
    stage = (*put(t * 4), Sync("cta"), *get((t * 4 + 128) % 256))
    fault = fault_of(plan_of(*stage, start(t * 4, t * 4), *DONE), {"X": values})
    assert fault and (fault.code, fault.needs_sync) == ("TG403", "cta")
    accept(*stage, Sync("cta"), start(t * 4, t * 4), DONE)


def test_the_source_may_not_be_written_before_the_copy_has_landed():
    copy = start(t * 4, t * 4, src=G)
    check("TG422", ("wait: 0",), copy, Commit("cp.async"), put(t * 4, G), Wait("cp.async", 0))
    accept(copy, DONE, put(t * 4, G))
    swapped = (copy, Commit("cp.async"), Sync("cta"), Wait("cp.async", 0), *put(t * 4 ^ 128, G))
    fault = fault_of(plan_of(*swapped), {"G": values})
    assert fault and (fault.code, fault.needs_sync) == ("TG403", "cta"), "the read counts as made at the wait"


def test_what_was_written_before_is_what_is_copied():
    through = (start(t * 4, t * 4, 1, src=G), *DONE, Move(q[0], S[t * 4]), Move(G[t * 4 + 512], q[0]))
    out = interpret(plan_of(put(t * 4, G), *through), [(0, 0, 0)], {"G": values})
    assert all(values_at(out, "G")[512 + 4 * n] == 1.0 for n in range(64))


def test_past_the_edge_are_zeros():
    steps = (start(t * 4, t * 4, 4, less(t, 50)), *DONE, Move(q[0], S[t * 4], 4), Move(G[t * 4], q[0], 4))
    got = values_at(interpret(plan_of(*steps), [(0, 0, 0)], {"X": values}), "G")
    assert [got[n] for n in range(256)] == [float(values(np.int64(n))) if n < 200 else 0.0 for n in range(256)]


def test_the_kernel_ends_with_nothing_in_flight():
    check("TG423", ("wait: 0",), start(t * 4, t * 4), Commit("cp.async"))
    check("TG423", ("commit", "wait: 0"), start(t * 4, t * 4))
    check("TG423", ("wait: 0",), start(t * 4, t * 4), Commit("cp.async"), Wait("cp.async", 1))


def test_double_buffering_in_a_loop():
    k = Var("k", 6)
    slot, ahead = k % 2 * 256, (k + 1) % 2 * 256
    body = (
        When(less(k + 1, 6), (start(ahead + t * 4, (k + 1) * 256 + t * 4),)), Commit("cp.async"), Wait("cp.async", 1),
        Sync("cta"), *get(slot + (t * 4 + 128) % 256), Sync("cta"),
    )  # fmt: skip
    first = (start(t * 4, t * 4), Commit("cp.async"))
    accept(*first, Repeat(k, 6, body))
    for missing, code in ((1, "TG422"), (2, "TG422"), (3, "TG403"), (5, "TG403")):
        steps = (*first, Repeat(k, 6, body[:missing] + body[missing + 1 :]))
        fault = fault_of(plan_of(*steps), {"X": values})
        assert fault and fault.code == code, (missing, fault)


@pytest.mark.parametrize(("elems", "src"), [(1, S), (4, S), (3, X)])
def test_what_cp_async_cannot_move(elems, src):
    fault = fault_of(plan_of(put(t * 4), Move(S[512 + t * 4], src[t * 4], elems, via=CP_ASYNC)), {"X": values})
    assert fault and fault.code == "TG412"


def test_a_queue_that_is_none():
    for step in (Commit("mail"), Wait("mail", 0)):
        fault = fault_of(plan_of(step), {})
        assert fault and fault.code == "TG412"


def test_copies_of_registers_need_no_wait():
    accept(Map(FILL, q[0], value=1.0), Wait("cp.async", 0))
