"""Memory is aligned as its text declares it: faults of that, of where it lies, of what a step says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.parts import align_shared, change_memories, change_parts
from tests.faults.verdicts import proof_code
from tests.interpret.kernels import S, kernel, put, q, r, tx
from tests.mutants.table import SPECS, load_spec
from tests.session import once
from tilegen.index import Var, add
from tilegen.ops.mma.atoms import ROWS
from tilegen.plan import (
    BYTE_PERMUTE,
    LDMATRIX,
    Barrier,
    Block,
    Map,
    Memory,
    Mma,
    Move,
    Plan,
    Ref,
    Repeat,
    Shuffle,
    Step,
    all_steps,
    flat_memory,
)
from tilegen.proofs import prove, unproven_ranges
from tilegen.proofs.runs import check_run, list_runs
from tilegen.render.launch import plan_shared
from tilegen.spec.data import Spec

planned = once(load_spec)
PRODUCT = ROWS["mma.m16n8k16.f32.f16.f16.f32"]
UNALIGNED, MISALIGNED, UNKNOWN = "TG415", "TG402", "TG416"


def plan_of(name: str) -> tuple[Spec, Plan]:
    return planned(next(p for p in SPECS if p.stem == name))


def codes_of(plan: Plan) -> set[str]:
    return {f.code for f in unproven_ranges(plan)}


# ---------------------------------------------------------------- what is declared
ACCESSED = {  # what the accesses of a spec's shared memory ask for, in bytes; a box or a matrix by its swizzle
    "transpose_auto": 16, "softmax_rows": 16, "ldmatrix_fragments": 16, "gemm_odd": 16, "copy_ring": 128,
    "copy_tma": 1024, "transpose_tma": 1024, "wgmma_tile": 1024,
}  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "name", ["transpose_auto", "copy_tma", "ldmatrix_fragments", "copy_ring", "wgmma_tile", "gemm_odd"]
)
def test_shared_memory_that_is_declared_for_single_elements(name):
    spec, plan = plan_of(name)
    wrong = align_shared(plan, 1)
    assert proof_code(lambda: prove(spec, wrong)) == UNALIGNED
    assert proof_code(lambda: [check_run(spec, wrong, run) for run in list_runs(spec, wrong)]) == MISALIGNED


@pytest.mark.parametrize("name", ACCESSED)
def test_shared_memory_is_declared_for_the_widest_access_and_need_not_be_for_more(name):
    _, plan = plan_of(name)
    assert codes_of(plan) == set()
    if {m.align_bytes for m in plan.memories if m.space == "shared"} != {ACCESSED[name]}:
        assert codes_of(align_shared(plan, ACCESSED[name])) == set()
    assert codes_of(align_shared(plan, ACCESSED[name] // 2)) == {UNALIGNED}


def test_shared_memory_of_single_elements_is_declared_as_one():
    assert codes_of(align_shared(plan_of("rows_any_size")[1], 1)) == set()


def test_one_of_several_shared_memories_that_is_declared_for_less():
    _, plan = plan_of("wgmma_tile")
    names = [m.name for m in plan.memories if m.space == "shared"]
    assert len(names) > 1
    assert all(codes_of(align_shared(plan, 16, name)) == {UNALIGNED} for name in names)


def test_a_pool_is_aligned_for_its_mbarriers():
    """They are eight bytes each, which nothing else in the pool may ask for."""
    bytes_ = flat_memory("t", "uint8", 64 * 1024, "shared", align_bytes=1)
    move = Move(flat_memory("b", "uint8", 4, "register")[0], bytes_[tx(32)])
    plan = replace(kernel(move, memories=(bytes_,)), barriers=(Barrier("full", 1, 1),))
    assert plan_shared(plan).pool and plan_shared(plan).align == 8


# ---------------------------------------------------------------- where it lies
def test_shared_memory_that_lies_off_its_accesses():
    _, plan = plan_of("transpose_auto")
    off = change_memories(plan, lambda m: replace(m, offset_bytes=m.offset_bytes + 4) if m.space == "shared" else m)
    assert codes_of(off) == {UNALIGNED}


def test_single_elements_are_aligned_too():
    odd = flat_memory("T", "float32", 64, "shared", offset_bytes=2)
    assert codes_of(kernel(*put(tx(32), odd), memories=(odd,))) == {UNALIGNED}
    narrow = replace(odd, offset_bytes=0, align_bytes=2)
    assert codes_of(kernel(*put(tx(32), narrow), memories=(narrow,))) == {UNALIGNED}


# ---------------------------------------------------------------- what a step says of it
def test_a_step_cannot_promise_more_than_is_declared():
    """The text declares the plan's memory, whatever the step that uses it calls it."""
    narrow = replace(S, align_bytes=4)
    plan = replace(kernel(Move(narrow[tx(32) * 4], q[0], 4)), memories=(narrow, r, q))
    assert codes_of(plan) == {UNALIGNED}
    promised = change_parts(plan, lambda x: Ref(S, x.at) if isinstance(x, Ref) and x.memory == narrow else None)
    assert codes_of(promised) == {UNKNOWN}
    formal = flat_memory("f", "float32", 1024, "shared")
    call = Block("write", ((formal, S[0]),), (Move(formal[tx(32) * 4], q[0], 4),))
    assert codes_of(replace(plan, roles=kernel(call).roles)) == {UNKNOWN}


def test_a_view_of_an_array_cannot_promise_more_than_the_array():
    array = Memory("X", "float32", (256,), (1,), "global", "in", align_bytes=4)
    view = Memory("X", "float32", (8, 32), (32, 1), "global", "in")
    read = Move(q[0], view[0, tx(32) // 4 * 4], 4)
    assert codes_of(kernel(read, memories=(array, view))) == {UNKNOWN}
    assert codes_of(kernel(read, memories=(replace(array, align_bytes=32), view))) == set()


@pytest.mark.parametrize("name", ["copy_tma", "wgmma_tile"])
def test_a_box_or_a_matrix_cannot_promise_more_than_is_declared(name):
    _, plan = plan_of(name)
    low = align_shared(plan, 16)
    assert codes_of(replace(plan, memories=low.memories)) == {UNKNOWN}


# ---------------------------------------------------------------- registers
def grow_registers(plan: Plan, by: int = 1) -> Plan:
    """The registers of functions with room in front: every reference so many elements on."""
    own = {m.name for s in all_steps(plan) if isinstance(s, Block) for m in s.registers}

    def move(x: object) -> object:
        if isinstance(x, Ref) and x.memory.space == "register" and x.memory.name in own:
            return Ref(grow(x.memory), (add(x.at[0], by),))
        return grow(x) if isinstance(x, Memory) and x.space == "register" and x.name in own else None

    def grow(m: Memory) -> Memory:
        return replace(m, shape=(m.shape[0] + 16,))

    return change_parts(plan, move, "roles", "memories")


@pytest.mark.parametrize("name", ["permute_sf", "transpose_registers", "transpose_auto"])
def test_registers_that_are_accessed_as_words_begin_at_one(name):
    spec, plan = plan_of(name)
    assert codes_of(grow_registers(plan, 16)) == set()
    assert codes_of(grow_registers(plan)) == {UNALIGNED}
    assert proof_code(lambda: prove(spec, grow_registers(plan))) == UNALIGNED


HALF = flat_memory("h", "float16", 16, "register")
BYTES = flat_memory("b", "uint8", 16, "register")
ODD = flat_memory("o", "float32", 3, "register")
GLOBAL = Memory("X", "float32", (64,), (1,), "global", "in")
T = flat_memory("T", "float16", 512, "shared")
LANE = Var("laneid", 32)


def of_registers(step: Step) -> set[str]:
    return codes_of(kernel(step, memories=(HALF, BYTES, ODD, GLOBAL, T)))


@pytest.mark.parametrize(("right", "wrong"), [
    (Move(q[4], GLOBAL[0], 4), Move(q[2], GLOBAL[0], 4)),
    (Move(q[2], r[4], 2), Move(q[2], r[1], 2)),
    (Move(HALF[2], T[LANE * 8], 2, via=LDMATRIX), Move(HALF[1], T[LANE * 8], 2, via=LDMATRIX)),
    (Move(HALF[2], T[LANE * 8], 8, via=LDMATRIX), Move(HALF[3], T[LANE * 8], 8, via=LDMATRIX)),
    (
        Map(BYTE_PERMUTE, BYTES[8], (BYTES[0], BYTES[4]), 4, 0x5410),
        Map(BYTE_PERMUTE, BYTES[8], (BYTES[0], BYTES[2]), 4, 0x5410),
    ),
    (Shuffle(HALF[2], HALF[0], 1, 2), Shuffle(HALF[2], HALF[3], 1, 2)),
    (Mma(PRODUCT, q[1], HALF[2], HALF[10]), Mma(PRODUCT, q[1], HALF[1], HALF[10])),
    (Move(ODD[0], GLOBAL[0], 2), Move(ODD[1], GLOBAL[0], 2)),
])  # fmt: skip
def test_words_of_registers(right, wrong):
    assert of_registers(right) == set()
    assert of_registers(wrong) == {UNALIGNED}


def test_registers_too_few_to_be_declared_for_a_word():
    """Six bytes are declared for words of four."""
    few = flat_memory("few", "float16", 3, "register")
    assert few.begins_at == 4
    assert codes_of(kernel(Move(few[0], T[0], 2), memories=(few, T))) == set()
    assert UNALIGNED in codes_of(kernel(Move(few[0], T[0], 4), memories=(few, T)))


def test_an_unrolled_index_of_whole_words_is_aligned():
    i = Var("i", 4)
    assert of_registers(Repeat(i, 4, (Move(q[i * 4], GLOBAL[0], 4),), True)) == set()
    assert of_registers(Repeat(i, 4, (Move(q[i * 2], GLOBAL[0], 4),), True)) == {UNALIGNED}
