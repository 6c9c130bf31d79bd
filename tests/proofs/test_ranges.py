"""Ranges and partition over the whole grid: what must be proved is, what is wrong is found with a witness."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tilegen
from tests.faults.steps import moves, mutate
from tests.faults.verdicts import fault_of
from tests.interpret.kernels import S, kernel, put, q, r, tx, values
from tests.plans import permute_sf, transpose
from tests.session import examples
from tilegen.index import (
    Formula,
    Index,
    Var,
    any_of,
    ceil_div,
    conjuncts,
    differ,
    div,
    equal,
    evaluate,
    every,
    less,
    maximum,
    mod,
    mul,
    select,
    sub,
    substitute,
    variables,
)
from tilegen.index.bounds import (
    _drop_divisors,
    _drop_low_bits,
    _follows_from_two,
    _sides,
    _take_out,
    is_below,
    narrow,
)
from tilegen.plan import (
    FILL,
    Block,
    Let,
    Map,
    Memory,
    Move,
    Param,
    Plan,
    Repeat,
    TensorMap,
    Tma,
    When,
    flat_memory,
    let,
)
from tilegen.proofs import Finding, Owned, check_partition, find_unowned, unproven_ranges

lane, bx, k = Var("laneid", 32), Var("bx", 8), Var("k", 4)
M, N = Var("M", 65537, 4, 4), Var("N", 65537, 4, 4)
SIZES = (Param("M", "int32", 8192, M), Param("N", "int32", 8000, N))
X = Memory("X", "float32", (8, 30), (32, 1), "global", "in")


def codes(*steps, **more) -> list[str]:
    return [f.code for f in unproven_ranges(kernel(*steps, **more))]


# ---------------------------------------------------------------- whole plans
@pytest.mark.parametrize("kind, plan", [
    *((permute_sf, plan) for plan in (permute_sf.build(), permute_sf.build(0))),
    *((transpose, transpose.build(*sizes)) for sizes in ((), (16380, 16372), (4, 132), (M, N, SIZES))),
])  # fmt: skip
def test_good_plans_are_proved(kind, plan):
    assert unproven_ranges(plan) == ()
    assert check_partition(plan, kind.owned(plan)) == ()


@pytest.mark.parametrize("sizes", [{"M": 4, "N": 4}, {"M": 8192, "N": 8000}, {"M": 68, "N": 60}])
def test_partition_of_runtime_sizes(sizes):
    plan = transpose.build(M, N, SIZES)
    assert check_partition(plan, transpose.owned(plan), sizes) == ()


def test_a_missing_guard_is_found_at_the_first_cta_where_it_matters():
    plan = mutate(transpose.build(16380, 16372), moves(src="X"), lambda s: (dataclasses.replace(s, valid=True),))
    rows, columns = unproven_ranges(plan)
    assert (rows.code, rows.memory, rows.dimension, rows.op) == ("TG414", "X", 0, 0)
    assert (columns.dimension, columns.extent) == (1, "16372")
    assert (columns.witness["bx"], columns.witness.get("by", 0)) == (255, 0)
    for finding in (rows, columns):  # and the interpreter agrees
        cta = [finding.witness.get(axis, 0) for axis in ("bx", "by", "bz")]
        fault = fault_of(plan, {"X": values}, [cta])
        assert fault is not None and fault.code == "TG401"


def test_a_runtime_size_that_is_no_multiple_of_the_vector():
    m, n = Var("M", 65537, 1, 1), Var("N", 65537, 1, 1)
    found = unproven_ranges(transpose.build(m, n, (Param("M", "int32", 8192, m), Param("N", "int32", 8000, n))))
    assert {f.code for f in found} == {"TG414", "TG415"}


# ---------------------------------------------------------------- guards
def test_guards_by_conjunct():
    x, n = tx(256) * 4 + bx, 100
    small = flat_memory("S", "float32", n, "shared")
    inside = lambda *guards: unproven_ranges(  # noqa: E731
        dataclasses.replace(kernel(When(every(*guards), put(x, small)), threads=256), memories=(small, r))
    )
    assert inside(less(x, n)) == ()
    assert inside(less(x + 3, n)) == ()
    assert inside(less(bx, 4), less(x, n)) == ()
    assert inside(less(tx(256), 23)) == ()
    assert inside(less(x, n + 1)) != ()
    assert inside(less(bx, 4)) != ()


def test_a_lower_guard_keeps_a_difference_from_being_negative():
    assert codes(*put(sub(lane, 1))) == ["TG414"]
    assert codes(When(less(0, lane), put(sub(lane, 1)))) == []
    assert codes(*put(sub(lane, 1) // 2)) == ["TG416"]  # what is divided
    assert codes(*put(select(less(0, lane), sub(lane, 1) // 2, 0))) == []
    assert codes(*put(select(less(1, lane), 0, sub(lane, 1) // 2))) == ["TG416"]
    assert codes(*put(maximum(sub(lane, 1), 0) + 1)) == []
    assert codes(When(less(3, lane + k), put(sub(lane + k, 3)))) == ["TG416"]  # k is not defined
    assert codes(Repeat(k, 4, (When(less(2, lane + k), put(sub(lane + k, 3))),))) == []


def test_guards_on_one_axis_say_something_of_the_others():
    t = tx(256)
    assert codes(When(equal(Var("warpid", 8), 0), put(t * 32)), threads=256) == []
    assert codes(When(equal(Var("warpid", 8), 1), put(t * 32)), threads=256) == ["TG414"]
    assert codes(When(less(t, 16), put(lane * 64)), threads=256) == []
    assert codes(When(any_of(equal(t, 3), equal(t, 15)), put(t * 64)), threads=256) == []


def test_guards_of_other_shapes_are_tried():
    assert codes(When(equal(lane % 8, 0), put(lane * 40))) == []
    assert codes(When(differ(lane, 31), put(lane * 34))) == []
    assert codes(*put(lane * 34)) == ["TG414"]


def test_runtime_extents():
    x = Memory("X", "float32", (M, N), (N, 1), "global", "in")
    row, column = bx * 32 + lane, Var("by", 8) * 4
    at = x[row, column]
    read = lambda *guards, elems=1: unproven_ranges(  # noqa: E731
        kernel(Move(q[0], at, elems, valid=every(*guards)), memories=(x,), grid=(8, 8, 1), params=SIZES)
    )
    assert read(less(row, M), less(column, N)) == ()
    assert read(less(row, M), less(column, N), elems=4) == ()  # both are multiples of 4
    assert [f.dimension for f in read(less(row, M))] == [1]
    assert [f.dimension for f in read(less(row + 1, M))] == [1]
    (found,) = read(less(row, M + 1), less(column, N))
    assert found.dimension == 0 and found.witness is not None


def test_a_grid_of_the_runtime_size_is_a_guard():
    x = Memory("X", "float32", (N,), (1,), "global", "in")
    grid = (ceil_div(N, 4), 1, 1)
    b = Var("bx", grid[0].bound - 1)
    plan = kernel(Move(q[0], x[b * 4 + lane // 8]), memories=(x,), grid=grid, params=SIZES)
    assert unproven_ranges(plan) == ()  # bx < N / 4, and N is a multiple of 4
    assert unproven_ranges(kernel(Move(q[0], x[b * 4], 4), memories=(x,), grid=grid, params=SIZES)) == ()
    assert unproven_ranges(kernel(Move(q[0], x[b * 4 + 4]), memories=(x,), grid=grid, params=SIZES)) != ()
    ragged = (ceil_div(N, 64), 1, 1)
    b = Var("bx", ragged[0].bound - 1)
    assert unproven_ranges(kernel(Move(q[0], x[b * 64 + lane]), memories=(x,), grid=ragged, params=SIZES)) != ()


# ---------------------------------------------------------------- structure
def test_loops_bound_their_variables():
    assert codes(Repeat(k, 4, put(lane + k * 300))) == []
    assert codes(Repeat(k, 5, put(lane))) == ["TG416"]  # k claims to stay below 4
    rounds = Var("rounds", 1 << 20)
    plan = kernel(Repeat(rounds, M, (When(less(rounds, 8), put(lane + rounds * 128)),)), params=SIZES)
    assert unproven_ranges(plan) == ()
    x = Memory("X", "float32", (M,), (1,), "global", "in")
    assert unproven_ranges(kernel(Repeat(rounds, M, (Move(q[0], x[rounds]),)), memories=(x,), params=SIZES)) == ()


def test_names_keep_their_claims():
    assert codes(Let(Var("x", 16), lane)) == ["TG416"]
    assert codes(Let(Var("x", 32, 4), lane)) == ["TG416"]
    assert codes(Let(Var("x", 40, 1, 1), lane)) == ["TG416"]
    assert codes(let("x", lane * 3), *put(Var("x", 94, 3))) == []
    assert codes(*put(Var("laneid", 16))) == ["TG416"]
    assert codes(When(less(lane, 16), put(Var("laneid", 16)))) == []
    assert codes(*put(Var("nobody", 4))) == ["TG416"]


def test_formals_are_proved_in_their_actual():
    same = Memory("x", "float32", (8, 30), (32, 1), "global", "in")
    flat = flat_memory("x", "float32", 8, "global", access="in")
    by_dimension = lambda column, at: codes(  # noqa: E731
        Block("b", ((same, X[bx, column]),), (Move(q[0], same[0, at]),)), memories=(X,)
    )
    assert by_dimension(4, lane % 16) == []
    assert by_dimension(16, lane % 16) == ["TG414"]
    by_offset = lambda at: codes(Block("b", ((flat, X[bx, 4]),), (Move(q[0], flat[at]),)), memories=(X,))  # noqa: E731
    assert by_offset(lane % 16) == []
    assert by_offset(lane + 8) == ["TG414"]
    inner = Block("inner", ((flat_memory("b", "float32", 64, "shared"), flat_memory("a", "float32", 64, "shared")[8]),),
                  put(lane, flat_memory("b", "float32", 64, "shared")))  # fmt: skip
    outer = lambda start: Block("outer", ((flat_memory("a", "float32", 64, "shared"), S[start]),), (inner,))  # noqa: E731
    assert codes(outer(984)) == [] and codes(outer(985)) == ["TG414"]


# ---------------------------------------------------------------- vectors
def test_vectors_stay_in_their_row():
    read = lambda at, elems: codes(Move(q[0], at, elems), memories=(X,))  # noqa: E731
    assert read(X[lane // 4, lane % 4 * 4], 4) == []
    assert read(X[lane // 4, 28], 2) == []
    assert read(X[lane // 4, 28], 4) == ["TG414"]
    tight = dataclasses.replace(X, shape=(8, 30), pitches=(30, 1))
    assert codes(Move(q[0], tight[lane // 4, lane % 4 * 2], 2), memories=(tight,)) == []


def test_vectors_are_aligned():
    read = lambda at, elems=4, **kw: codes(Move(q[0], dataclasses.replace(X, **kw)[at], elems),  # noqa: E731
                                           memories=(dataclasses.replace(X, **kw),))  # fmt: skip
    assert read((0, lane % 4 * 4)) == []
    assert read((0, lane % 4 * 4 + 2)) == ["TG415"]
    assert read((0, lane % 4 * 4), align_bytes=8) == ["TG415"]
    assert read((0, lane % 4 * 4), 2, align_bytes=8) == []
    assert read((0, (lane & 3) * 4 ^ 8)) == []
    shifted = flat_memory("T", "float32", 64, "shared", offset_bytes=8)
    assert codes(Map(FILL, r[0], elems=4, value=0), Move(shifted[lane // 16 * 4], r[0], 4),
                 memories=(shifted,)) == ["TG415"]  # fmt: skip


def test_a_store_by_tma_takes_whole_chunks_of_rows():
    """It begins at 16 bytes of a row, and writes whole ones, though a descriptor knows where rows end."""
    tile = flat_memory("T", "float32", 256, "shared", align_bytes=1024)

    def store(columns: int, at: Index, box: tuple[int, int] = (8, 16)) -> list[str]:
        y = Memory("Y", "float32", (30, columns), (64, 1), "global", "out")
        return codes(Tma(TensorMap("Y_map", y, (0, 1), box), (0, at), tile[0], None), memories=(y, tile))

    assert store(40, bx * 16) == store(40, bx * 4) == store(21, 4) == [] and store(21, bx * 16) == ["TG414"]
    assert store(22, 8) == store(22, bx * 16, (8, 4)) == ["TG414"]
    assert store(40, bx * 2) == store(40, bx * 6) == store(21, 2) == ["TG415"]


def test_rows_that_tma_puts_apart_are_no_box():
    y = Memory("Y", "float16", (64, 64), (64, 1), "global", "out")
    assert TensorMap("Y_map", y, (0, 1), (8, 32), 64).box_bytes == TensorMap("Y_map", y, (0, 1), (8, 32)).box_bytes
    assert TensorMap("Y_map", y, (0, 1), (1, 32), 128).align_bytes == 1024
    with pytest.raises(ValueError, match="TMA puts rows 128 bytes apart"):
        TensorMap("Y_map", y, (0, 1), (8, 32), 128)


# ---------------------------------------------------------------- soundness
a, b, c = Var("a", 5), Var("b", 9, 2), Var("c", 7, 1, 2)
SMALL = {v.name: np.arange(-(-v.least // v.step) * v.step, v.bound, v.step) for v in (a, b, c)}
GRID = dict(zip(SMALL, np.meshgrid(*SMALL.values(), indexing="ij"), strict=True))
sums = st.builds(
    lambda i, j, m, n: a * i + b * j + c * m + n, *(st.integers(0, 3) for _ in range(3)), st.integers(0, 6)
)
guard = st.builds(less, sums, sums)


@settings(max_examples=examples(300), deadline=None)
@given(sums, sums, st.lists(guard, max_size=3))
def test_what_is_proved_holds(x: Index, n: Index, guards: list[Index]):
    condition = every(*guards)
    assume(condition is not False)
    holds = np.broadcast_to(evaluate(condition, GRID), GRID["a"].shape)
    truth = bool(np.all(np.broadcast_to(evaluate(x, GRID) < evaluate(n, GRID), holds.shape)[holds]))
    proved = is_below(x, n, conjuncts(condition))
    assert truth or not proved
    if {v.name for v in variables(condition)} <= {v.name for v in variables(x) | variables(n)}:
        assert proved == truth  # few values: all were tried
    sides = [c.args for c in conjuncts(condition) if isinstance(c, Formula) and c.symbol == "<"]
    assert truth or not _follows_from_two(x, n, sides)  # by that rule alone, as of variables too large to try


def test_two_guards_say_together_what_neither_says():
    """That all of a region is inside, and that a trip is one of it."""
    n, bx, i, tx = Var("n", 1 << 20), Var("bx", 1 << 14), Var("i", 2), Var("tx", 32)
    group = i * 32 + tx
    whole, held = less(bx * 100 + 102, n), less(group, 50)
    last = bx * 100 + group * 2 + 4
    assert is_below(last, n, (whole, held)) and is_below(last, n, (held, whole))
    assert not is_below(last, n, (whole,)) and not is_below(last, n, (held,))
    assert not is_below(last + 1, n, (whole, held)) and not is_below(last, n, (whole, less(group, 51)))


def test_low_bits_that_are_turned_stay_in_their_unit():
    """Where a tile ends at a whole unit, however far the guard of a trip reaches beyond it alone."""
    k, i, tx = Var("k", 1 << 16), Var("i", 3), Var("tx", 32)
    place, held = k % 3 * 80 + i * 32 + tx, (less(i * 32 + tx, 80),)
    assert is_below((place ^ tx // 8 % 2) * 8, 1913, held) and is_below((tx // 8 % 2 * 8 ^ place) * 8, 1913, held)
    assert not is_below((place ^ tx // 8 % 2) * 8, 1905, held) and not is_below((place ^ tx // 8 % 2) * 8, 1913, ())
    assert not is_below((place ^ tx % 32) * 8, 1913, held)  # 240 is no multiple of 32


@settings(max_examples=examples(300), deadline=None)
@given(sums, sums, st.integers(1, 3), st.integers(0, 3), st.integers(0, 80), st.lists(guard, max_size=3))
def test_what_is_proved_of_turned_bits_holds(p: Index, r: Index, q: int, t: int, n: int, guards: list[Index]):
    """A rule for them alone."""
    x = (p ^ r) * q + t
    held = np.broadcast_to(evaluate(every(*guards), GRID), GRID["a"].shape)
    truth = np.broadcast_to(evaluate(x, GRID) < n, held.shape)[held].all()
    for low, high in _drop_low_bits(x, n):
        simpler = np.broadcast_to(evaluate(low, GRID) < evaluate(high, GRID), held.shape)[held].all()
        assert truth or not simpler


parts = st.builds(lambda i, j, n: i * a + j * b + n, *(st.integers(0, 3) for _ in range(3)))


@settings(max_examples=examples(300), deadline=None)
@given(parts, sums, st.integers(0, 40), sums, st.lists(guard, max_size=3))
def test_what_is_proved_of_products_holds(p: Index, r: Index, q: int, s: Index, guards: list[Index]):
    """A rule for terms that a variable multiplies, alone: c is tried no more than a size of millions would be."""
    x, n = mul(p, c) + r, mul(c, q) + s
    condition = every(*guards)
    holds = np.broadcast_to(evaluate(condition, GRID), GRID["a"].shape)
    truth = np.broadcast_to(evaluate(x, GRID) < evaluate(n, GRID), holds.shape)[holds].all()
    known = narrow(guards)
    for low, high in _take_out(substitute(x, known), substitute(n, known), _sides(tuple(guards), known)):
        simpler = np.broadcast_to(evaluate(low, GRID) < evaluate(high, GRID), holds.shape)[holds].all()
        assert truth or not simpler


@settings(max_examples=examples(300), deadline=None)
@given(parts, parts, st.sampled_from(["/", "%"]), st.integers(1, 3), st.integers(-3, 12))
def test_what_is_proved_of_dividends_holds(p: Index, d: Index, symbol: str, q: int, n: int):
    """A quotient and a remainder of what is 0 or more are at most what is divided."""
    x = div(mul(div(p, d + 1) if symbol == "/" else mod(p, d + 1), q) + c, 2)
    truth = (evaluate(x, GRID) < n).all()
    for low, high in _drop_divisors(x, n):
        assert truth or not np.all(evaluate(low, GRID) < evaluate(high, GRID))


def test_a_tile_among_rows_of_tiles_is_one_of_all():
    """Of tiles in groups, a place in a group is below the number of all that there are, which a guard alone bounds."""
    trip, bx, wide, high = Var("trip", 1), Var("bx", 132), Var("wide", 17, 1, 1), Var("high", 9, 1, 1)
    tile, few = trip * 132 + bx, less(trip * 132 + bx, 80)
    assert is_below(tile % (wide * 8), 80, (few,)) and is_below(tile % (wide * 8) // high, 80, (few,))
    assert not is_below(tile % (wide * 8), 80, ()) and not is_below(tile % (wide * 8), 79, (few,))


def test_rows_and_a_place_in_the_last_are_inside_of_all_rows():
    size, bx, k, f, tx = Var("K", 1 << 16, 1, 1), Var("bx", 84), Var("k", 32), Var("f", 32), Var("tx", 512)
    row = bx // 42 * 48 + bx % 42 // 7 * 8 + (f >> 2)
    at = k * 2048 + (f & 3) * 512 + tx + 2048
    inside = less(k * 2048 + 4096, size + 1)
    assert is_below(row * size + at, size * 96, (inside,)) and not is_below(row * size + at, size * 95, (inside,))
    assert not is_below(row * size + at + 1, size * 96, (inside,)) and not is_below(row * size + at, size * 96, ())


@pytest.mark.parametrize("variant", ["shifted", "gmem_gmem", "auto"])
@pytest.mark.parametrize(("dtype", "threads", "rest"), [("int64", 32, 100), ("int64", 32, 128), ("bfloat16", 96, 256)])
def test_a_copy_of_what_a_condition_says_is_inside_is_proved(variant, dtype, threads, rest):
    """Where the last trip is not of all threads."""
    built = tilegen.build(f"""kernel: k
threads: {threads}
params: {{N: {{default: 1003, max: 1048576}}}}
grid: {{bx: ceil(N / {rest})}}
buffers:
  X: {{scope: global, dtype: {dtype}, shape: [N]}}
  Y: {{scope: global, dtype: {dtype}, shape: [N], partial: true}}
ops:
  - copy: {{src: "X[bx*{rest} + 3 : +{rest}]", dst: "Y[bx*{rest} + 1 : +{rest}]", variant: {variant},
            when: bx*{rest} + {rest + 3} <= N}}
""")
    assert len(re.findall(r"< N\b", built.source)) == 1  # asked once, by the condition


# ---------------------------------------------------------------- partition
Y = Memory("Y", "float32", (100, 60), (60, 1), "global", "out")


def grid_plan(grid=(4, 3, 1), **more) -> Plan:
    return kernel(memories=(Y,), grid=grid, **more)


def judge(*owns: Owned, **more) -> tuple[Finding, ...]:
    """What is said of those who own parts of Y."""
    return check_partition(grid_plan(**more), owns)


def tiles(start=None, box=(32, 16), **more) -> Owned:
    return Owned(Y, start or (Var("by", 4) * 32, Var("bx", 4) * 16), box, **more)


def test_tiles_clipped_at_the_edges_are_a_partition():
    assert judge(tiles(), grid=(4, 4, 1)) == ()


def test_elements_without_owner_are_counted():
    (note,) = judge(tiles())
    assert (note.code, note.severity) == ("TG418", "note")
    assert note.message == "240 of 6000 elements of Y have no owner"
    assert find_unowned(grid_plan(), [tiles()], "Y", {}) == [96, 0]


def test_two_owners_are_named():
    (found,) = judge(tiles(box=(32, 17)), grid=(4, 4, 1))
    assert (found.code, found.severity) == ("TG417", "error")
    assert found.message == "Y[0, 16] is owned by CTA (0, 0, 0) and by CTA (1, 0, 0)"


def test_one_cta_may_own_an_element_twice():
    assert judge(tiles(), tiles(), grid=(4, 4, 1)) == ()
    (found,) = judge(tiles(), tiles(start=(0, 0), box=(1, 1)), grid=(4, 4, 1))
    assert found.code == "TG417"


def test_loops_threads_and_conditions():
    i, t = Var("i", 25), Var("tx", 32)
    rows = tiles(start=(i * 4 + Var("by", 4), Var("bx", 4) * 16), box=(1, 16), loops=((i, 25),))
    assert judge(rows, grid=(4, 4, 1)) == ()
    by_lane = tiles(start=(Var("by", 100), t * 2), box=(1, 2), condition=less(t, 30))
    assert judge(by_lane, grid=(1, 100, 1)) == ()
    by_warp = tiles(start=(Var("by", 100), Var("warpid", 2) * 30), box=(1, 30))
    assert judge(by_warp, grid=(1, 100, 1), threads=64) == ()
    other = tiles(start=(Var("by", 100), Var("bx", 2) * 30), box=(1, 30), condition=less(Var("bx", 2), 1))
    (note,) = judge(other, grid=(2, 100, 1))
    assert note.message.startswith("3000 of")


def test_views_are_compared_by_flat_offset():
    flat = Memory("Y", "float32", (6000,), (1,), "global", "out")
    top = Owned(flat, (Var("bx", 4) * 750,), (750,))  # rows 0..49
    rest = lambda row: Owned(Y, (Var("bx", 4) * 12 + row, 0), (12, 60), condition=less(Var("bx", 4), 5))  # noqa: E731
    plan, short = kernel(memories=(flat, Y), grid=(4, 1, 1)), (top, rest(50))
    (note,) = check_partition(plan, short)
    assert note.message == "120 of 6000 elements of Y have no owner"  # rows 98 and 99
    assert find_unowned(plan, short, "Y", {}) == [5880]
    (found,) = check_partition(plan, (top, rest(49)))
    assert found.message == "Y[2940] is owned by CTA (0, 0, 0) and by CTA (3, 0, 0)"


PADDED = Memory("Y", "float32", (4, 32), (40, 1), "global", "out")
PADDED_TURNED = Memory("Y", "float32", (32, 4), (1, 40), "global", "out")
# Two CTAs that own parts of a 4x32 array whose rows lie 40 elements apart, and of its transpose.
PADDED_ROWS = kernel(memories=(PADDED, PADDED_TURNED), grid=(2, 1, 1))


def test_gaps_between_rows_are_no_elements_that_views_leave_out():
    bx = Var("bx", 2)
    top, rest = Owned(PADDED, (bx, 0), (1, 32)), Owned(PADDED_TURNED, (0, bx + 2), (32, 1))
    assert check_partition(PADDED_ROWS, (top, rest)) == ()
    short = (top, replace(rest, box=(20, 1)))
    (note,) = check_partition(PADDED_ROWS, short)
    assert note.message == "24 of 128 elements of Y have no owner"
    assert find_unowned(PADDED_ROWS, short, "Y", {}) == [2, 20]  # as Y's coordinates, whatever the view's are
    alone = [Owned(PADDED_TURNED, (bx * 16, 0), (15, 4))]
    assert find_unowned(PADDED_ROWS, alone, "Y", {}) == [0, 15]
    (found,) = check_partition(PADDED_ROWS, (top, replace(rest, start=(0, bx + 1))))
    assert found.message == "Y at element offset 40 is owned by CTA (0, 0, 0) and by CTA (1, 0, 0)"


def test_a_memory_that_the_plan_does_not_have():
    assert codes(Move(q[0], X[0, 0])) == ["TG416"]
    assert codes(Move(q[0], dataclasses.replace(X, shape=(9, 30))[8, 0]), memories=(X,)) == ["TG416"]


def test_too_many_boxes_are_not_compared():
    crossed = tiles(start=(Var("by", 1 << 10) * Var("bx", 1 << 20), 0))  # it moves by another step along each row
    (note,) = judge(crossed, grid=(1 << 20, 1 << 10, 1))
    assert (note.code, note.severity) == ("TG419", "note")
    assert note.message == f"not proven: {1 << 30} boxes of Y"


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))
def test_partition_equals_painting(gx: int, gy: int, step_x: int, step_y: int, box_x: int, box_y: int):
    y = Memory("Y", "float32", (13, 11), (11, 1), "global", "out")
    owned = Owned(y, (Var("by", gy) * step_y, Var("bx", gx) * step_x), (box_y, box_x))
    owners = np.zeros((13, 11), int)
    for by, bx_ in product(range(gy), range(gx)):
        owners[by * step_y : by * step_y + box_y, bx_ * step_x : bx_ * step_x + box_x] += 1
    found = check_partition(kernel(memories=(y,), grid=(gx, gy, 1)), [owned])
    if owners.max() > 1:
        assert [f.code for f in found] == ["TG417"]
    elif owners.min() == 0:
        assert found[0].message.startswith(f"{int((owners == 0).sum())} of 143")
    else:
        assert found == ()
