"""What the renderer promises: addresses are the plan's, functions stand alone, nothing escapes a comment."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from text.plans import build_cast, build_permute_sf, build_pool, build_runtime_copy, build_transpose
from text.run import compile_by_gxx, requires_gxx
from tilegen.decisions import Choice, Cost, Operation
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.index import INT_LIMIT, Var, bound, compile_text, evaluate
from tilegen.plan import Block, Memory, Move, Plan, Repeat, Role, Sync, flat_memory, subscript, when
from tilegen.render import declare, element, fold_line, launch_info, literal, pointer, render

NAMES = ("bx", "row", "col", "v", "N", "M")


@st.composite
def refs(draw):
    """A reference into a global array of one to four dimensions, pitches constant or known at launch."""
    variables = {n: Var(n, draw(st.sampled_from([2, 32, 4096, 1 << 20])), draw(st.sampled_from([1, 4]))) for n in NAMES}

    def term():
        x = variables[draw(st.sampled_from(NAMES))]
        x = draw(st.sampled_from([x, x // 4, x % 8, x ^ 3, x * 3]))
        return x * draw(st.integers(0, 64))

    def coordinate():
        return sum((term() for _ in range(draw(st.integers(0, 2)))), draw(st.integers(0, 9)))

    rank = draw(st.integers(1, 4))
    pitches = [
        draw(st.sampled_from([1, 7, 64, 8000, variables["N"], variables["N"] + 3, variables["M"] * variables["N"]]))
        for _ in range(rank)
    ]
    if rank == 1:
        pitches = [1]
    return Memory("X", "float32", (9,) * rank, tuple(pitches), "global")[
        tuple(coordinate() for _ in range(rank))
    ], variables


def fill_tile(elems: int, threads: int) -> Plan:
    """Each thread copies an element of a tile, as often as all of it takes."""
    tile, source = (flat_memory(name, "int32", elems, "global") for name in ("tile", "source"))
    trip, tx = Var("i", -(-elems // threads)), Var("tx", threads)
    at = trip * threads + tx
    body = when(at < elems, Move(tile[at], source[at]))
    filling = Repeat(trip, trip.bound, body, True)
    return Plan("filled", "sm_90", (1, 1, 1), (tile, replace(source, access="in")), (Role("all", threads, (filling,)),))


def test_a_compiler_is_told_how_many_threads_there_are_where_the_last_trip_leaves_some_idle():
    assert "__builtin_assume(tx < 96);" in render(fill_tile(1000, 96))
    assert "assume" not in render(fill_tile(960, 96))  # whole trips ask nothing
    assert "assume" not in render(build_transpose())  # what an edge of an array asks depends on the CTA


@requires_gxx
def test_what_a_compiler_is_told_is_asked_where_text_runs_on_the_cpu(monkeypatch):
    plan = fill_tile(1000, 96)
    compile_by_gxx([plan])[0].run({"source": np.arange(1000, dtype="int32")})
    text = render(plan).replace("assume(tx < 96)", "assume(tx < 95)")
    monkeypatch.setattr("text.run.render", lambda plan, prelude: text)
    with pytest.raises(AssertionError, match="is told what does not hold"):
        compile_by_gxx([plan])[0].run({"source": np.arange(1000, dtype="int32")})


@given(refs(), st.integers(0, 2**32))
def test_printed_addresses_are_the_plans(drawn, seed):
    ref, variables = drawn
    rng = np.random.default_rng(seed)
    values = {n: int(rng.integers(0, v.bound) // v.step * v.step) for n, v in variables.items()}
    text = element(ref)[len("X[") : -1]
    address = eval(compile_text(text), {"__builtins__": {}}, values)
    assert address == evaluate(ref.offset, values)
    assert address < max(1, bound(subscript(ref)))
    if bound(ref.offset) > INT_LIMIT:
        assert "(size_t)" in text


def test_addresses_as_a_person_writes_them():
    X = Memory("X", "float32", (6400, 8000), (8000, 1), "global")
    big = Memory("X", "float32", (1 << 20, 1 << 14), (1 << 14, 1), "global")
    by, row, col = Var("by", 100), Var("row", 64), Var("col", 64)
    assert element(X[by * 64 + row, Var("bx", 125) * 64 + col]) == "X[(by * 64 + row) * 8000 + bx * 64 + col]"
    assert element(X[row, col]) == "X[row * 8000 + col]"
    assert element(X[by * 64, 0]) == "X[by * 512000]"
    assert element(X[0, col]) == "X[col]"
    assert pointer(X[0, 0]) == "X"
    assert element(big[Var("m", 1 << 20), col]) == "X[(size_t)m * 16384 + col]"
    assert element(big[Var("m", 1 << 19) + 1, col]) == "X[(size_t)(m + 1) * 16384 + col]"


def test_declarations_are_aligned_for_their_widest_access():
    assert declare(flat_memory("x", "float32", 4, "register")) == "__align__(16) float x[4]"
    assert declare(flat_memory("x", "float32", 1, "register")) == "float x[1]"
    assert declare(flat_memory("x", "uint8", 6, "register")) == "__align__(4) unsigned char x[6]"
    assert declare(flat_memory("x", "float32", 64, "shared", align_bytes=128)) == "__align__(128) float x[64]"


@given(st.floats(width=32), st.floats(), st.integers(-(2**63), 2**63 - 1))
def test_literals_read_back(single, double, whole):
    if np.isfinite(single):
        assert np.float32(literal(single, "float32")[0].removesuffix("f")).tobytes() == np.float32(single).tobytes()
    if np.isfinite(double):
        assert np.float64(literal(double, "float64")[0]).tobytes() == np.float64(double).tobytes()
    assert eval(literal(whole, "int64")[0].replace("ll", "")) == whole


def test_rendering_is_deterministic_and_quick():
    assert render(build_transpose()) == render(build_transpose())


def two_blocks(first, second):
    A = flat_memory("A", "float32", 64, "shared")
    dst, tmp, tx = (
        flat_memory("dst", "float32", 32, "shared"),
        flat_memory("tmp", "float32", 1, "register"),
        Var("tx", 32),
    )

    def block(at, shift, note):
        body = (Move(tmp[0], dst[tx + shift]), Sync("warp"), Move(dst[tx], tmp[0]))
        return Block("twice", ((dst, A[at]),), body, (tmp,), note=note)

    blocks = [block(*first), block(*second)]
    return render(Plan("k", "sm_90", (1, 1, 1), (A,), (Role("all", 32, tuple(blocks)),)))


def test_equal_bodies_share_a_function():
    text = two_blocks((0, 0, "Reads."), (32, 0, "Reads."))
    assert text.count("__device__") == 1
    assert "twice(tx, A);\n    twice(tx, &A[32]);" in text
    assert text.count("// Reads.") == 1


def test_another_body_gets_a_number():
    text = two_blocks((0, 0, ""), (32, 1, ""))
    assert "void twice(int tx, float *dst)" in text and "void twice_2(int tx, float *dst)" in text
    assert "twice(tx, A);\n    twice_2(tx, &A[32]);" in text


def test_functions_name_what_they_need_and_nothing_else():
    text = render(build_pool())
    assert "void load(int wgid, int tid_in_wg, int i, const unsigned *In, unsigned *dst)" in text
    assert "sync_warpgroup(wgid);" in text
    assert "extern __shared__ __align__(1024) unsigned char smem[];  // 65536 bytes" in text
    assert "float *const B = (float *)(smem + 0);  // A again" in text
    assert "int M" in (copy := render(build_runtime_copy())).split("runtime_copy(")[1]
    assert "void copy_row(int laneid, int bx, int by, int N, const int *src, int *dst)" in copy


def test_only_what_is_used_is_there():
    text = render(build_transpose())
    assert "typedef" not in text and "laneid" not in text and "asm" not in text
    assert "asm" in render(build_cast("float16", "float32")) and "asm" not in render(
        build_cast("float16", "float32"), prelude=False
    )


NASTY = "copy\nIn -> A */ \\\n int x; \u2028 \\"


def test_a_comment_holds_whatever_it_is_given():
    plan = build_permute_sf()
    operation = Operation("copy", NASTY, "warp", NASTY, 1, Cost(), choices=(Choice(NASTY, NASTY, (), NASTY),))
    plan = replace(
        plan, operations=(operation,) * 3, notes=(NASTY,), memories=tuple(replace(m, note=NASTY) for m in plan.memories)
    )
    clean, nasty = render(build_permute_sf()), render(plan)
    strip = lambda text: [re.sub(r"\s*//.*", "", line) for line in text.splitlines() if not line.startswith("//")]  # noqa: E731
    assert strip(nasty) == strip(clean)
    assert not any(line.endswith("\\") for line in nasty.splitlines())


def test_roles_and_clusters():
    A, tx = flat_memory("A", "float32", 256, "global", access="out"), Var("tx", 64)
    x = flat_memory("x", "float32", 1, "register")
    roles = tuple(Role(n, 32, (Move(A[tx], x[0]),)) for n in ("producer", "consumer", "idle"))
    text = render(Plan("k", "sm_90", (4, 1, 1), (A, x), roles, cluster=(2, 1, 1)))
    assert "__cluster_dims__(2, 1, 1) __launch_bounds__(96)" in text
    assert "    if (threadIdx.x < 32) {  // producer: 32 threads\n        const int tx = threadIdx.x;\n" in text
    second = "    } else if (threadIdx.x < 64) {  // consumer: 32 threads\n        const int tx = threadIdx.x - 32;\n"
    assert second in text
    assert "    } else {  // idle: 32 threads\n        const int tx = threadIdx.x - 64;\n" in text


def test_a_move_of_other_element_types_copies_bits():
    A, B = flat_memory("A", "float32", 64, "global", access="in"), flat_memory("B", "int32", 64, "global", access="out")
    tx = Var("tx", 32)
    text = render(
        Plan("k", "sm_90", (1, 1, 1), (A, B), (Role("all", 32, (Move(B[tx], A[tx]), Move(B[tx * 2], A[tx * 2], 2))),))
    )
    assert "*(unsigned *)&B[tx] = *(const unsigned *)&A[tx];" in text
    assert "*(uint2 *)&B[tx * 2] = *(const uint2 *)&A[tx * 2];" in text


def test_guarded_elements_have_a_zero_of_their_type():
    tx = Var("tx", 32)
    for dtype, zero in (
        ("float32", "0.0f"),
        ("float64", "0.0"),
        ("float16", "0"),
        ("bool", "false"),
        ("complex64", "float2{}"),
        ("uint64", "0ull"),
    ):
        A, x = flat_memory("A", dtype, 64, "global", access="in"), flat_memory("x", dtype, 1, "register")
        text = render(Plan("k", "sm_90", (1, 1, 1), (A, x), (Role("all", 32, (Move(x[0], A[tx], valid=tx < 7),)),)))
        assert f"x[0] = (tx < 7) ? A[tx] : {zero};" in text


def test_launch_info_has_what_a_caller_needs():
    info = launch_info(build_runtime_copy(), {"M": 4, "N": 33})
    assert info["grid"] == [2, 4, 1] and info["grid_expression"] == ["(N + 31) >> 5", "M", "1"]
    assert [a["name"] for a in info["args"]] == ["X", "Y", "M", "N"]
    assert info["args"][0]["bytes"] == (3 * 36 + 33) * 4
    assert launch_info(build_pool())["dynamic_shared_bytes"] == 65536
    assert launch_info(build_permute_sf())["static_shared_bytes"] == 2048


def test_lines_fold_between_arguments_and_operators():
    line = "    " + "f(" + ", ".join(f"argument_{i}" for i in range(20)) + ");  // note"
    folded = fold_line(line)
    assert all(len(part.split("  //")[0]) <= 110 for part in folded)
    assert " ".join(p.strip() for p in folded) == line.strip()


@pytest.mark.parametrize("name", list(DTYPES))
def test_every_element_type_has_a_zero(name):
    assert literal(0, name) and numpy_dtype(name).itemsize == DTYPES[name].bytes
