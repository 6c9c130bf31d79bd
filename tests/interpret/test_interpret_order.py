"""One planted fault, and its repair, for every rule of docs/order-model.md."""

from __future__ import annotations

import dataclasses

import pytest

from tests.faults.verdicts import fault_of
from tests.interpret.kernels import S, get, kernel, put, q, tx, values
from tilegen.index import Var, equal, less
from tilegen.interpret import interpret
from tilegen.plan import FILL, Block, Map, Memory, Move, Plan, Repeat, Role, Sync, When, flat_memory

G = Memory("G", "float32", (4096,), (1,), "global", "inout")
cluster2 = {"cluster": (2, 1, 1)}
bx, lane = Var("bx", 8), Var("laneid", 32)


def check(plan: Plan, code: str, needs: str = "", ctas=((0, 0, 0),)) -> None:
    fault = fault_of(plan, {"G": values}, ctas)
    assert fault is not None, "not found"
    assert (fault.code, fault.needs_sync) == (code, needs), fault.message


def accept(plan: Plan, ctas=((0, 0, 0),)) -> None:
    fault = fault_of(plan, {"G": values}, ctas)
    assert fault is None, fault


def test_program_order_orders_a_thread_with_itself():
    accept(kernel(*put(tx(64)), *get(tx(64)), *put(tx(64)), threads=64))


def test_lanes_of_one_warp_are_not_ordered():
    check(kernel(*put(lane), *get(lane ^ 1)), "TG403", "warp")
    accept(kernel(*put(lane), Sync("warp"), *get(lane ^ 1)))


def test_warp_sync_orders_only_its_warp():
    t = tx(128)
    check(kernel(*put(t), Sync("warp"), *get((t + 32) % 128), threads=128), "TG403", "cta")
    accept(kernel(*put(t), Sync("warp"), *get(t ^ 5), threads=128))


def test_warpgroup_sync_orders_128_threads():
    t = tx(256)
    other = t ^ 32  # of another warp, of the same warpgroup
    check(kernel(*put(t), *get(other), threads=256), "TG403", "warpgroup")
    accept(kernel(*put(t), Sync("warpgroup"), *get(other), threads=256))


def test_where_a_warpgroup_is_the_cta_the_sync_named_is_ctas():
    t = tx(128)
    check(kernel(*put(t), *get((t + 32) % 128), threads=128), "TG403", "cta")
    accept(kernel(*put(t), Sync("warpgroup"), *get((t + 32) % 128), threads=128))


def test_warpgroup_sync_does_not_reach_the_next_warpgroup():
    t = tx(256)
    check(kernel(*put(t), Sync("warpgroup"), *get((t + 128) % 256), threads=256), "TG403", "cta")
    accept(kernel(*put(t), Sync("cta"), *get((t + 128) % 256), threads=256))


def test_the_widest_pair_decides_which_sync_is_named():
    t = tx(256)  # most pairs are in one warpgroup, a few are not
    check(kernel(*put(t), *get((t + 1) % 256), threads=256), "TG403", "cta")


def test_without_whole_warpgroups_only_the_cta_sync_is_named():
    t = tx(64)
    check(kernel(*put(t), *get((t + 32) % 64), threads=64), "TG403", "cta")
    accept(kernel(*put(t), Sync("cta"), *get((t + 32) % 64), threads=64))


def test_cta_sync_does_not_reach_the_cluster():
    mine, other = bx * 32 + lane, (bx ^ 1) * 32 + lane
    steps = (*put(mine, G), Sync("cta"), *get(other, G))
    plan = kernel(*steps, memories=(G,), **cluster2)
    check(plan, "TG403", "cluster")
    accept(kernel(*put(mine, G), Sync("cluster"), *get(other, G), memories=(G,), **cluster2))


def test_cluster_sync_orders_reads_before_writes_too():
    mine, other = bx * 32 + lane, (bx ^ 1) * 32 + lane
    check(kernel(*get(other, G), Sync("cta"), *put(mine, G), memories=(G,), **cluster2), "TG403", "cluster")
    accept(kernel(*get(other, G), Sync("cluster"), *put(mine, G), memories=(G,), **cluster2))


def test_the_rest_of_a_cluster_runs_too():
    plan = kernel(*put(bx * 32 + lane, G), Sync("cluster"), memories=(G,), **cluster2)
    assert interpret(plan, [(3, 0, 0)], {"G": values}).ctas == ((2, 0, 0), (3, 0, 0))


def test_nothing_orders_ctas_of_different_clusters():
    plan = kernel(*put(bx * 32 + lane, G), Sync("cluster"), *get((bx ^ 2) * 32 + lane, G), memories=(G,), **cluster2)
    check(plan, "TG405", ctas=((0, 0, 0), (2, 0, 0)))
    reads_first = kernel(*get((bx ^ 1) * 32 + lane, G), Sync("cta"), *put(bx * 32 + lane, G), memories=(G,))
    check(reads_first, "TG405", ctas=((0, 0, 0), (1, 0, 0)))


def test_two_ctas_write_one_byte():
    check(kernel(*put(lane, G), memories=(G,)), "TG405", ctas=((0, 0, 0), (1, 0, 0)))
    accept(kernel(*put(lane, G), memories=(G,)))


def test_write_after_read_by_another_lane():
    steps = (*put(lane), Sync("warp"), *get(lane ^ 1))
    check(kernel(*steps, *put(lane)), "TG403", "warp")
    accept(kernel(*steps, Sync("warp"), *put(lane)))


def test_write_after_read_across_loop_iterations():
    k = Var("k", 3)
    body = (*put(lane), Sync("warp"), *get(lane ^ 1))
    check(kernel(Repeat(k, 3, body)), "TG403", "warp")
    accept(kernel(Repeat(k, 3, (*body, Sync("warp")))))


def test_double_buffering_needs_no_second_sync():
    k, t = Var("k", 4), tx(64)
    stage = k % 2 * 64
    body = (*put(t + stage), Sync("cta"), *get((t + 32) % 64 + stage))
    accept(kernel(Repeat(k, 4, body), threads=64))
    check(kernel(Repeat(k, 4, (*put(t), Sync("cta"), *get((t + 32) % 64))), threads=64), "TG403", "cta")


def test_write_after_write_by_another_lane():
    check(kernel(*put(lane), *put(lane ^ 1)), "TG403", "warp")
    accept(kernel(*put(lane), Sync("warp"), *put(lane ^ 1)))


def test_reads_of_many_lanes_are_all_waited_for():
    steps = (When(equal(lane, 0), put(0)), Sync("warp"), *get(0))
    check(kernel(*steps, When(equal(lane, 5), put(0))), "TG403", "warp")
    accept(kernel(*steps, Sync("warp"), When(equal(lane, 5), put(0))))


def test_an_old_read_by_another_warp_is_still_a_hazard():
    t, w = tx(64), Var("warpid", 2)
    reads = When(equal(w, 1), get(lane))
    writes = When(equal(w, 0), put(lane))
    check(kernel(writes, Sync("cta"), reads, Sync("warp"), reads, writes, threads=64), "TG403", "cta")
    accept(kernel(writes, Sync("cta"), reads, Sync("cta"), writes, threads=64))
    accept(kernel(*put(t), *get(t), threads=64))


def test_two_threads_write_one_byte_in_one_step():
    check(kernel(*put(lane // 2)), "TG408")
    check(kernel(*put(tx(64) % 32), threads=64), "TG408")


def test_shared_memories_that_overlap_race():
    alias = flat_memory("T", "float32", 32, "shared", offset_bytes=64)  # T[i] is S[i + 16]
    check(kernel(*put(lane), *get(lane % 16, alias), memories=(alias,)), "TG403", "warp")


def test_global_memory_races_like_shared():
    check(kernel(*put(lane, G), *get(lane ^ 1, G), memories=(G,)), "TG403", "warp")
    accept(kernel(*put(lane, G), Sync("warp"), *get(lane ^ 1, G), memories=(G,)))
    check(kernel(*get(lane ^ 1, G), *put(lane, G), memories=(G,)), "TG403", "warp")


def test_a_wide_access_races_with_a_narrow_one():
    wide = (Map(FILL, r4[0], elems=4, value=1.0), Move(S[lane * 4], r4[0], 4))
    check(kernel(*wide, *get(lane), memories=(r4,)), "TG403", "warp")
    accept(kernel(*wide, *get(lane * 4 + 3), memories=(r4,)))


r4 = flat_memory("r4", "float32", 4, "register")


# ---------------------------------------------------------------- who must reach a sync
@pytest.mark.parametrize("scope", ["warp", "cta"])
def test_sync_under_divergence(scope):
    check(kernel(When(less(lane, 16), (Sync(scope),))), "TG406")


def test_cta_sync_reached_by_part_of_the_cta():
    w = Var("warpid", 2)
    check(kernel(When(equal(w, 0), (Sync("cta"),)), threads=64), "TG406")
    accept(kernel(When(equal(w, 0), (Sync("warp"),)), threads=64))


def test_warpgroup_sync_without_a_whole_warpgroup():
    check(kernel(Sync("warpgroup"), threads=64), "TG406")
    check(kernel(When(less(Var("warpid", 4), 2), (Sync("warpgroup"),)), threads=128), "TG406")
    accept(kernel(When(equal(Var("wgid", 2), 1), (Sync("warpgroup"),)), threads=256))


def test_sync_in_a_loop_that_threads_leave_early():
    k = Var("k", 32)
    check(kernel(Repeat(k, lane + 1, (Sync("warp"),))), "TG406")


def test_the_last_warp_may_be_short():
    accept(kernel(*put(tx(48)), Sync("cta"), *get(47 - tx(48)), threads=48))


# ---------------------------------------------------------------- roles
def roles(first: tuple, second: tuple) -> Plan:
    both = (Role("producer", 32, first), Role("consumer", 32, second))
    return dataclasses.replace(kernel(), roles=both)


def test_roles_meet_at_a_cta_sync():
    accept(roles((*put(lane), Sync("cta")), (Sync("cta"), *get(lane))))
    accept(roles((Sync("cta"), *put(lane), Sync("cta")), (Sync("cta"), Sync("cta"), *get(lane))))
    check(roles((*put(lane), Sync("cta")), (*get(lane), Sync("cta"))), "TG403", "cta")


def test_a_role_that_never_comes_is_a_deadlock():
    fault = fault_of(roles((*put(lane), Sync("cta")), ()))
    assert fault is not None and fault.code == "TG413" and "consumer" in fault.message


def test_both_ops_of_a_hazard_are_named():
    plan = kernel(Block("a", (), put(lane), op=3), Block("b", (), get(lane ^ 1), op=5))
    fault = fault_of(plan)
    assert fault is not None and (fault.op, fault.other_op, fault.needs_sync) == (5, 3, "warp")
    assert (fault.cta, fault.warp, fault.lane) == ((0, 0, 0), 0, 0)
    late = kernel(Block("a", (), (*put(lane), Sync("warp")), op=3), Block("b", (), get(lane ^ 1), op=5),
                  Block("c", (), put(lane), op=7))  # fmt: skip
    fault = fault_of(late)
    assert fault is not None and (fault.op, fault.other_op) == (7, 5)


def test_reads_of_what_nothing_wrote():
    check(kernel(*get(lane)), "TG404")
    check(kernel(Move(S[lane], q[3])), "TG404")
    out = dataclasses.replace(G, access="out")
    check(kernel(*put(lane, out), *get(lane + 64, out), memories=(out,)), "TG404")
    accept(kernel(*put(lane, G), *get(lane + 64, G), memories=(G,)))
