"""Everything but order: bounds, alignment, indices, ranges, shapes of steps."""

from __future__ import annotations

import dataclasses
import time
from itertools import pairwise

import numpy as np
import pytest

from tests.faults.verdicts import ONE_CTA, fault_of
from tests.interpret.kernels import S, get, kernel, put, q, r, values, values_at
from tilegen.index import Formula, Var, add, equal, less, sub
from tilegen.interpret import corners, interpret
from tilegen.plan import (
    BYTE_PERMUTE,
    CAST,
    FILL,
    Block,
    Instruction,
    Let,
    Map,
    Memory,
    Move,
    Ref,
    Repeat,
    Shuffle,
    Sync,
    UnknownStep,
    When,
    flat_memory,
    let,
)

lane, bx, k = Var("laneid", 32), Var("bx", 8), Var("k", 4)
X = Memory("X", "float32", (8, 30), (32, 1), "global", "in")  # rows of 30 in a pitch of 32
G = Memory("G", "float32", (4096,), (1,), "global", "out")
H = flat_memory("H", "float16", 64, "shared", offset_bytes=8)


def code(*steps, inputs=None, ctas=ONE_CTA, **more) -> str:
    fault = fault_of(kernel(*steps, **more), {"X": values, "G": values} | (inputs or {}), ctas)
    return fault.code if fault else ""


# ---------------------------------------------------------------- places
def test_outside_shared_memory():
    assert code(*put(lane + 993)) == "TG401"
    assert code(*put(lane + 992)) == ""


def test_outside_one_dimension_though_inside_the_array():
    assert code(Move(q[0], X[0, lane]), memories=(X,)) == "TG401"
    assert code(Move(q[0], X[lane // 4, lane % 4]), memories=(X,)) == ""


def test_a_vector_must_not_leave_its_row():
    assert code(Move(q[0], X[lane // 4, 28], 4), memories=(X,)) == "TG401"
    assert code(Move(q[0], X[lane // 4, 28], 2), memories=(X,)) == ""


def test_a_vector_may_run_on_where_rows_touch():
    bytes_ = Memory("X", "uint8", (8, 4), (4, 1), "global", "in")
    words = flat_memory("w", "uint8", 16, "register")
    move = Move(words[0], bytes_[lane // 16 * 4, 0], 16)
    assert code(move, memories=(bytes_, words), inputs={"X": lambda i: i.astype(np.uint8)}) == ""


def test_registers_have_bounds():
    assert code(Repeat(k, 4, (Map(FILL, r[k * 5], value=0),), unroll=True)) == ""
    assert code(Repeat(k, 4, (Map(FILL, r[k * 6], value=0),), unroll=True)) == "TG401"


def test_misaligned_vectors():
    assert code(Map(FILL, r[0], elems=4, value=0), Move(S[lane * 4 + 2], r[0], 4)) == "TG402"
    halves = flat_memory("h", "float16", 8, "register")
    move = (Map(FILL, halves[0], elems=8, value=0), Move(H[lane // 31 * 8], halves[0], 8))
    assert code(*move, memories=(H, halves)) == "TG402"  # H starts at byte 8


def test_a_pointer_that_is_aligned_to_less():
    assert code(Move(q[0], X[0, lane // 31 * 4], 4), memories=(dataclasses.replace(X, align_bytes=8),)) == "TG402"


def test_an_access_has_a_width_that_exists():
    assert code(Map(FILL, r[0], elems=3, value=0), Move(S[lane * 3], r[0], 3)) == "TG412"


def test_the_message_says_where():
    fault = fault_of(kernel(Repeat(k, 4, (Block("b", (), put(lane + k * 400), op=6),))))
    assert fault is not None
    assert (fault.op, fault.cta, fault.warp, fault.lane, fault.loops) == (6, (0, 0, 0), 0, 0, {"k": 3})
    where = "move r -> S (op 7, CTA (0, 0, 0), warp 0, lane 0, k = 3)"
    assert fault.message == f"{where}: index 0 of S is 1200, outside [0, 1024)"


def test_printed_offset_and_coordinates_agree(monkeypatch):
    honest = Ref.offset.func
    monkeypatch.setattr(Ref, "offset", property(lambda ref: add(honest(ref), 1)))
    assert code(Move(q[0], X[0, lane // 4]), memories=(X,)) == "TG411"


# ---------------------------------------------------------------- variables
def test_a_variable_keeps_the_range_that_was_printed():
    assert code(*put(Var("laneid", 16))) == "TG410"
    assert code(*put(Var("laneid", 32, 2))) == "TG410"
    assert code(Let(Var("x", 16), lane), *put(Var("x", 16))) == "TG410"
    assert code(Let(Var("x", 64, 1, 1), lane)) == "TG410"
    assert code(let("x", lane * 2), *put(Var("x", 63, 2))) == ""


def test_a_narrower_variable_is_good_where_a_guard_holds():
    assert code(When(less(lane, 16), put(Var("laneid", 16)))) == ""


def test_a_difference_is_never_negative():
    assert code(*put(sub(lane, 1) // 4)) == "TG410"
    assert code(When(less(0, lane), put(sub(lane, 1)))) == ""


def test_names_are_defined_once_and_before_use():
    assert code(*put(Var("nobody", 4))) == "TG412"
    assert code(let("x", lane), let("x", lane)) == "TG412"
    assert code(Repeat(k, 2, (let("x", lane + k),)), *put(Var("x", 8))) == "TG412"
    assert code(let("x", lane), Block("b", (), (let("x", lane * 2),))) == ""


def test_an_int_must_not_overflow():
    wide = Memory("G", "float32", (1 << 34,), (1,), "global", "out")
    lie = Formula("*", (Var("bx", 1 << 17), 1 << 16), 10)  # a bound that makes the printer forget size_t
    only = When(equal(lane, 0), put(Formula("^", (lie, 1), 10), wide))
    assert code(only, memories=(wide,), ctas=[(60000, 0, 0)], grid=(1 << 17, 1, 1)) == "TG409"
    honest = Var("bx", 1 << 17) * (1 << 16) + lane
    assert code(*put(honest, wide), memories=(wide,), ctas=[(60000, 0, 0)], grid=(1 << 17, 1, 1)) == ""
    row = let("row", Var("bx", 1 << 17) * (1 << 16))  # a size_t, and so is what is computed with it
    assert code(row, *put(row.var + lane, wide), memories=(wide,), ctas=[(60000, 0, 0)], grid=(1 << 17, 1, 1)) == ""


# ---------------------------------------------------------------- registers
def test_a_register_index_is_an_unrolled_constant():
    def loop(unroll, *body):
        return code(Repeat(k, 4, body, unroll=unroll))

    fill = Map(FILL, r[k], value=1)
    assert loop(True, fill) == ""
    assert loop(False, fill) == "TG407"
    assert code(Map(FILL, r[lane // 4], value=1)) == "TG407"
    assert code(Map(FILL, r[bx], value=1)) == "TG407"
    j = let("j", k * 2)
    assert loop(True, j, Map(FILL, r[j.var], value=1)) == ""
    assert loop(False, j, Map(FILL, r[j.var], value=1)) == "TG407"


def test_views_of_one_array_share_its_elements():
    flat = Memory("G", "float32", (256,), (1,), "global", "inout")
    rows = Memory("G", "float32", (8, 32), (32, 1), "global", "inout")
    write = (*put(lane, flat), Sync("warp"), Move(q[0], rows[0, lane]), Sync("warp"), Move(rows[1, lane], q[0]))
    plan = kernel(*write, memories=(flat, rows))
    assert set(values_at(interpret(plan, ONE_CTA, {"G": values}), "G")) == set(range(64))
    assert code(*write[:3], memories=(flat, rows)) == ""
    assert code(*put(lane, flat), Move(q[0], rows[0, lane ^ 1]), memories=(flat, rows)) == "TG403"
    columns = dataclasses.replace(rows, pitches=(1, 8))
    assert code(Move(q[0], columns[0, lane]), memories=(flat, rows)) == "TG411"


def test_registers_of_a_block_are_fresh_in_every_call():
    own = flat_memory("own", "float32", 1, "register")
    once = Block("b", (), (When(less(k, 1), (Map(FILL, own[0], value=1),)), Move(S[lane], own[0])), registers=(own,))
    assert code(Repeat(k, 2, (once,))) == "TG404"
    assert code(Repeat(k, 1, (once,))) == ""


# ---------------------------------------------------------------- shapes of steps
def test_steps_that_mean_nothing():
    assert code(Map(FILL, r[0], value=1), Move(S[lane], r[0], valid=less(lane, 4))) == "TG412"
    assert code(Move(q[0], H[lane]), memories=(H,)) == "TG412"
    with pytest.raises(UnknownStep, match="frobnicate"):
        code(Map(Instruction("frobnicate", FILL.operands, "registers"), r[0]))
    assert code(Map(FILL, S[lane], value=1)) == "TG412"
    assert code(*put(lane, flat_memory("elsewhere", "float32", 64, "shared"))) == "TG412"
    read_only = dataclasses.replace(G, access="in")
    assert code(*put(lane, read_only), memories=(read_only,)) == "TG412"


# ---------------------------------------------------------------- meaning
def test_invalid_elements_are_not_read_and_become_zero():
    x = dataclasses.replace(X, shape=(5, 30))
    loads = (Move(q[0], x[lane // 4, lane % 4], valid=less(lane, 20)), Move(G[lane], q[0]))
    plan = kernel(*loads, memories=(x, G))
    got = values_at(interpret(plan, ONE_CTA, {"X": values}), "G")
    assert got == {i: float(values(np.array(i // 4 * 32 + i % 4))) if i < 20 else 0.0 for i in range(32)}


def test_cast_rounds_to_nearest_even():
    half = flat_memory("half", "float16", 1, "register")
    out = Memory("G", "float16", (32,), (1,), "global", "out")
    plan = kernel(Move(q[0], X[0, 0]), Map(CAST, half[0], (q[0],)), Move(out[lane], half[0]), memories=(X, out, half))
    got = values_at(interpret(plan, ONE_CTA, {"X": lambda i: np.full(i.shape, 2049, np.float32)}), "G")
    assert set(got.values()) == {2048.0}


@pytest.mark.parametrize("selector", [0x5410, 0x7632, 0x5140, 0x7362, 0x0123])
def test_byte_permute_takes_the_bytes_that_the_nibbles_name(selector):
    """CUDA Math API, __byte_perm: nibble k of the selector names byte k of the result."""
    b, out = flat_memory("b", "uint8", 12, "register"), Memory("G", "uint8", (128,), (1,), "global", "out")
    bytes_ = Memory("X", "uint8", (8,), (1,), "global", "in")
    steps = (
        Move(b[0], bytes_[0], 8),
        Map(BYTE_PERMUTE, b[8], (b[0], b[4]), 4, selector),
        Move(out[lane * 4], b[8], 4),
    )
    plan = kernel(*steps, memories=(bytes_, b, out))
    got = values_at(interpret(plan, ONE_CTA, {"X": lambda i: (i + 40).astype(np.uint8)}), "G")
    assert [got[k] - 40 for k in range(4)] == [int(nibble) for nibble in f"{selector:04x}"[::-1]]


def test_byte_permute_takes_words():
    assert code(Map(BYTE_PERMUTE, r[0], (r[1], r[2]), 2, 0x5410)) == "TG412"
    with pytest.raises(ValueError, match="byte_permute takes 2 sources, not 1"):
        code(Map(BYTE_PERMUTE, r[0], (r[1],), 1, 0x5410))


def test_written_elements_show_through_an_inout_array():
    inout = dataclasses.replace(G, access="inout")
    plan = kernel(*put(lane * 2, inout), Sync("warp"), *get(lane, inout), Sync("warp"), Move(inout[lane + 64], q[0]),
                  memories=(inout,))  # fmt: skip
    got = values_at(interpret(plan, ONE_CTA, {"G": values}), "G")
    assert [got[64 + i] for i in range(32)] == [1.0 if i % 2 == 0 else float(values(np.array(i))) for i in range(32)]


def test_formals_add_coordinates_or_flat_offsets():
    same = Memory("x", "float32", (8, 30), (32, 1), "global", "in")
    flat = flat_memory("x", "float32", 8, "global", access="in")
    read = (Move(q[0], same[0, lane % 2]), Move(G[lane], q[0]))
    plan = kernel(Block("b", ((same, X[bx, 4]),), read), memories=(X, G))
    assert values_at(interpret(plan, [(2, 0, 0)], {"X": values}), "G")[1] == values(np.array(2 * 32 + 5))
    assert fault_of(kernel(Block("b", ((same, X[bx, 29]),), read), memories=(X, G)), {"X": values}).code == "TG401"
    read = (Move(q[0], flat[lane % 2]), Move(G[lane], q[0]))
    plan = kernel(Block("b", ((flat, X[bx, 4]),), read), memories=(X, G))
    assert values_at(interpret(plan, [(2, 0, 0)], {"X": values}), "G")[1] == values(np.array(2 * 32 + 5))


def test_variables_are_formals_too():
    n = Var("n", 64)
    assert code(Block("b", ((n, lane * 2),), put(n))) == ""
    assert code(Block("b", ((n, lane * 4),), put(n))) == "TG410"
    assert code(Repeat(k, 4, (Block("b", ((n, k),), (Map(FILL, r[n], value=1),)),), unroll=True)) == ""
    assert code(Block("b", ((n, lane),), (Map(FILL, r[n], value=1),))) == "TG407"


def test_formals_have_names_of_their_own():
    a = flat_memory("a", "float32", 64, "shared")
    assert code(Block("b", ((a, S[0]), (a, S[64])), put(lane, a))) == "TG412"


def test_formals_of_formals():
    a, b = (flat_memory(n, "float32", 64, "shared") for n in "ab")
    inner = Block("inner", ((b, a[8]),), put(lane, b))
    plan = kernel(Block("outer", ((a, S[100]),), (inner,)), *get(lane + 108), Move(G[lane], q[0]), memories=(G,))
    assert values_at(interpret(plan, ONE_CTA, {}), "G")[31] == 1.0


def test_runtime_parameters():
    n = Var("n", 1025)
    x = Memory("X", "float32", (n,), (1,), "global", "in")
    plan = kernel(Move(q[0], x[lane], valid=less(lane, n)), Move(G[lane], q[0]), memories=(x, G))
    got = values_at(interpret(plan, ONE_CTA, {"X": values}, {"n": 5}), "G")
    assert [i for i, v in got.items() if v] == [1, 2, 3, 4]
    careless = kernel(Move(q[0], x[lane]), memories=(x,))
    assert fault_of(careless, {"X": values}, n=32) is None
    assert fault_of(careless, {"X": values}, n=31).code == "TG401"


def test_rounds_may_differ_by_thread():
    j = Var("j", 4)
    plan = kernel(Map(FILL, q[0], value=0), Repeat(j, lane % 4 + 1, (Move(q[0], X[j, 0]),)), Move(G[lane], q[0]),
                  memories=(X, G))  # fmt: skip
    got = values_at(interpret(plan, ONE_CTA, {"X": values}), "G")
    assert [got[i] for i in range(4)] == [float(values(np.array(32 * i))) for i in range(4)]


def test_enormous_arrays_cost_what_is_touched():
    n = 10**11
    big = Memory("X", "float32", (n,), (1,), "global", "in")
    out = Memory("G", "float32", (n,), (1,), "global", "out")
    grid = (n // 4096, 1, 1)
    at = Var("bx", grid[0]) * 4096 + lane
    plan = kernel(Move(q[0], big[at]), Move(out[at], q[0]), memories=(big, out), grid=grid)
    start = time.perf_counter()
    outcome = interpret(plan, corners(grid), {"X": values})
    assert time.perf_counter() - start < 0.5
    flat, got = outcome.written["G"]
    assert len(flat) == 128 and flat[-1] == (grid[0] - 1) * 4096 + 31
    assert np.array_equal(got, values(flat))


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float8_e4m3fn", "complex64", "complex128", "bool", "int64"])
def test_bits_travel_unchanged(dtype):
    from tilegen.dtypes import DTYPES, numpy_dtype

    size = DTYPES[dtype].bytes
    elems = min(4, 16 // size)
    count = 32 * elems
    mem = flat_memory("T", dtype, count, "shared")
    src, dst = (Memory(n, dtype, (count,), (1,), "global", a) for n, a in (("X", "in"), ("G", "out")))
    reg, at = flat_memory("w", dtype, elems, "register"), lane * elems

    def pattern(flat):
        raw = (flat[..., None] * 37 + np.arange(size) * 11) % 251
        if dtype == "bool":
            raw = raw % 2
        return raw.astype(np.uint8).view(numpy_dtype(dtype))[..., 0]

    way = (src[at], reg[0], mem[at], reg[0], dst[at])
    moves = (Move(to, source, elems) for source, to in pairwise(way))
    plan = kernel(*moves, memories=(mem, src, dst, reg))
    flat, got = interpret(plan, ONE_CTA, {"X": pattern}).written["G"]
    assert got.dtype == numpy_dtype(dtype) and got.tobytes() == pattern(flat).tobytes()


def test_corners():
    assert corners((1, 1, 1)) == [(0, 0, 0)]
    assert corners((9, 2, 1)) == [(x, y, 0) for y in (0, 1) for x in (0, 1, 7, 8)]


WAYS = {"xor": lambda n: n ^ 3, "down": lambda n: n + 3, "up": lambda n: n - 3}


@pytest.mark.parametrize("way", WAYS)
def test_a_shuffle_takes_words_of_the_lane_that_is_so_far_away(way):
    """CUDA C++ Programming Guide, Warp Shuffle Functions: where there is no such lane, a lane's own."""
    taken = WAYS[way]
    out = Memory("G", "uint8", (128,), (1,), "global", "out")
    b, bytes_ = flat_memory("b", "uint8", 8, "register"), Memory("X", "uint8", (128,), (1,), "global", "in")
    steps = (Move(b[0], bytes_[lane * 4], 4), Shuffle(b[4], b[0], 3, 4, way), Move(out[lane * 4], b[4], 4))
    plan = kernel(*steps, memories=(bytes_, b, out))
    got = values_at(interpret(plan, ONE_CTA, {"X": lambda i: i.astype(np.uint8)}), "G")
    lanes = [taken(n) if 0 <= taken(n) < 32 else n for n in range(32)]
    assert [got[k] for k in range(128)] == [4 * n + k for n in lanes for k in range(4)]


def test_a_shuffle_takes_words_alone():
    assert code(Shuffle(r[1], r[0], 32)) == "TG412"
    b = flat_memory("b", "uint8", 8, "register")
    assert code(Shuffle(b[4], b[0], 1, 2, "up")) == "TG412"
