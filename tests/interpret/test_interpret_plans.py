"""permute_sf and the transpose: accepted as they are, and every planted fault is found."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.faults.steps import aim, drop, is_sync, moves, mutate
from tests.faults.verdicts import ONE_CTA, fault_of
from tests.interpret.kernels import values
from tests.plans import permute_sf, transpose
from tilegen.index import Var, ceil_div
from tilegen.interpret import corners, interpret
from tilegen.plan import FILL, Map, Memory, Move, Param, Plan, Ref, Repeat, Sync, When
from tilegen.proofs import check_partition

PERMUTED = values(np.arange(256)).reshape(2, 4, 32).transpose(0, 2, 1).reshape(256)
lane, r = Var("laneid", 32), Var("r", 4)


def permutes(plan: Plan) -> bool:
    flat, got = interpret(plan, ONE_CTA, {"In": values}).written["Out"]
    return np.array_equal(flat, np.arange(256)) and np.array_equal(got, PERMUTED)


def transposes(plan: Plan, rows: int, columns: int, **params: int) -> bool:
    grid = (-(-columns // 64), -(-rows // 64), 1)
    outcome = interpret(plan, corners(grid), {"X": values}, params)
    flat, got = outcome.written["Y"]
    n, m = np.divmod(flat, rows)
    tiles = [(min(64, columns - x * 64), min(64, rows - y * 64)) for x, y, _ in outcome.ctas]
    return len(flat) == sum(a * b for a, b in tiles) and np.array_equal(got, values(m * columns + n))


# ---------------------------------------------------------------- good plans
@pytest.mark.parametrize("offset_bytes", [1024, 0])
def test_permute_is_right(offset_bytes):
    assert permutes(permute_sf.build(offset_bytes))  # 0: in place


@pytest.mark.parametrize("rows, columns", [(16384, 16384), (16380, 16372), (64, 64), (60, 4), (4, 132)])
def test_transpose_is_right(rows, columns):
    assert transposes(transpose.build(rows, columns), rows, columns)


@pytest.mark.parametrize("rows, columns", [(8192, 8000), (4, 4), (68, 60)])
def test_transpose_with_runtime_sizes_is_right(rows, columns):
    m, n = Var("M", 65537, 4, 4), Var("N", 65537, 4, 4)
    params = (Param("M", "int32", 8192, m), Param("N", "int32", 8000, n))
    assert transposes(transpose.build(m, n, params), rows, columns, M=rows, N=columns)


def test_needless_syncs_may_go():
    # Where B is not A, nothing that a lane writes is read by another lane, so the sync between the phases orders
    # nothing; and after the permute each lane loads the very elements that it wrote itself.
    assert permutes(mutate(permute_sf.build(), is_sync("warp"), drop, 1))
    assert permutes(mutate(permute_sf.build(), is_sync("warp"), drop, 2))


# ---------------------------------------------------------------- permute faults
def permute_fault(plan: Plan) -> str:
    fault = fault_of(plan, {"In": values})
    if fault is None:
        return "" if permutes(plan) else "wrong values"
    return f"{fault.code} {fault.needs_sync} {fault.op} {fault.other_op}".strip()


def at(ref: Ref, *coordinates) -> Ref:
    return Ref(ref.memory, coordinates)


def test_no_sync_after_the_load():
    assert permute_fault(mutate(permute_sf.build(), is_sync("warp"), drop, 0)) == "TG403 warp 2 0"


def test_in_place_without_the_middle_sync():
    plan = mutate(permute_sf.build(0), is_sync("warp"), drop, 1)
    assert permute_fault(plan) == "TG403 warp 2 2"


def test_shift_two_on_one_side_only():
    element = lane + (r ^ ((lane >> 2) & 3)) * 32
    other = element // 32 + element % 32 * 4
    plan = mutate(permute_sf.build(), moves(dst="dst"), aim(dst=[other]))
    assert permute_fault(plan) == "wrong values"


def test_vectors_at_eight_bytes():
    off = lambda s: (dataclasses.replace(s, src=at(s.src, s.src.at[0], s.src.at[1] + 2)),)  # noqa: E731
    assert permute_fault(mutate(permute_sf.build(), moves(src="In"), off)).startswith("TG402")


def test_one_buffer_too_small():
    def shrink(ref: Ref) -> Ref:
        return Ref(dataclasses.replace(ref.memory, shape=(252,)), ref.at) if ref.memory.name == "A" else ref

    plan = permute_sf.build()
    small = dataclasses.replace(plan, memories=tuple(shrink(m[0]).memory for m in plan.memories))
    assert permute_fault(small).startswith("TG411")  # the steps use another A than the plan declares


def test_rolled_register_loop():
    plan = mutate(permute_sf.build(), lambda s: isinstance(s, Repeat) and s.var.name == "r",
                  lambda s: (dataclasses.replace(s, unroll=False),))  # fmt: skip
    assert permute_fault(plan).startswith("TG407")


def test_loads_dropped():
    assert permute_fault(mutate(permute_sf.build(), moves(dst="A"), drop)).startswith("TG404")
    assert permute_fault(mutate(permute_sf.build(), moves(dst="regs"), drop)).startswith("TG404")


def test_one_address_for_all_lanes():
    plan = mutate(permute_sf.build(), moves(dst="A"), aim(dst=[Var("i", 2) * 128]))
    assert permute_fault(plan).startswith("TG408")


# ---------------------------------------------------------------- transpose faults
ROWS, COLUMNS = 16380, 16372


def transpose_fault(match, change, nth=None) -> str:
    plan = mutate(transpose.build(ROWS, COLUMNS), match, change, nth)
    fault = fault_of(plan, {"X": values}, corners((256, 256, 1)))
    if fault is None:
        return "" if transposes(plan, ROWS, COLUMNS) else "wrong values"
    return f"{fault.code} {fault.needs_sync}".strip()


def test_transpose_without_its_sync():
    assert transpose_fault(is_sync("cta"), drop) == "TG403 cta"


@pytest.mark.parametrize("scope", ["warp", "warpgroup"])
def test_transpose_with_a_narrower_sync(scope):
    assert transpose_fault(is_sync("cta"), lambda s: (Sync(scope),)) == "TG403 cta"


def test_transpose_with_a_sync_for_half_of_the_lanes():
    assert transpose_fault(is_sync("cta"), lambda s: (When(lane < 16, (s,)),)) == "TG406"


def test_load_predicate_dropped():
    assert transpose_fault(moves(src="X"), lambda s: (dataclasses.replace(s, valid=True),)) == "TG401"


def test_store_predicate_dropped():
    assert transpose_fault(lambda s: isinstance(s, When), lambda s: s.body) == "TG401"


def test_registers_not_transposed():
    i, j = Var("i", 4), Var("j", 4)
    assert transpose_fault(moves(dst="t"), aim(src=[j * 4 + i])) == "wrong values"


def test_another_swizzle_on_the_read_side():
    row, b = Var("row", 64), Var("b", 16)
    swizzled = row * 64 + (b ^ row % 8) * 4
    assert transpose_fault(moves(src="tile"), aim(src=[swizzled])) == "wrong values"


def test_wrong_column_of_the_output():
    change = lambda s: (dataclasses.replace(s, dst=at(s.dst, s.dst.at[0], s.dst.at[1] + 2)),)  # noqa: E731
    assert transpose_fault(moves(dst="Y"), change) == "TG402"


def test_wrong_pitch_of_the_output():
    def widen(step: Move) -> tuple[Move, ...]:
        memory = dataclasses.replace(step.dst.memory, pitches=(ROWS + 2, 1))
        return (dataclasses.replace(step, dst=Ref(memory, step.dst.at)),)

    assert transpose_fault(moves(dst="Y"), widen) == "TG411"


def test_every_cta_writes_the_first_tile():
    change = aim(dst=[Var("row", 64), Var("b", 16) * 4])
    assert transpose_fault(moves(dst="Y"), change) == "TG405"


def test_accumulators_of_another_type():
    def halve(step: Move) -> tuple[Move, ...]:
        return (dataclasses.replace(step, src=Ref(dataclasses.replace(step.src.memory, dtype="float16"), step.src.at)),)

    assert transpose_fault(moves(src="tile"), halve) == "TG412"


def test_a_map_in_between_is_seen():
    zero = lambda s: (Map(FILL, s.dst, elems=s.elems, value=0),)  # noqa: E731
    assert transpose_fault(moves(src="X"), zero) == "wrong values"


def test_a_grid_one_column_short_leaves_elements_without_owner():
    plan = transpose.build(ROWS, COLUMNS)
    short = dataclasses.replace(plan, grid=(ceil_div(COLUMNS, 64) - 1, plan.grid[1], 1))
    (note,) = check_partition(short, transpose.owned(plan))
    assert note.severity == "note" and note.message.startswith(f"{(COLUMNS - 255 * 64) * ROWS} of ")
    assert isinstance(plan.memories[0], Memory) and not check_partition(plan, transpose.owned(plan))
