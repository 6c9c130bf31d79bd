"""What a compiler makes of accesses, against machine code of nvcc 13 and counts of an H200."""

from __future__ import annotations

import json
import sys
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import pytest

import tilegen
from tilegen.arithmetic import Apply, Element
from tilegen.cost.compiled import compiled_accesses
from tilegen.cost.count import count_access
from tilegen.index import Var, evaluate
from tilegen.plan import Block, Compute, Move, Plan, Repeat, Role, flat_memory
from tilegen.planner import plan_spec
from tilegen.report import explain_access, explain_plan
from tilegen.spec.outline import launch_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from mixed_widths import draw_mixed

CASES = json.loads((Path(__file__).parents[1] / "data" / "nvcc_joined.json").read_text(encoding="utf-8"))["cases"]
DTYPES = {1: "uint8", 2: "uint16", 4: "float32"}
ODD = ("st", 1, [1, 2, 3])  # nvcc stores three bytes behind an even one apart, and joins them in 16-bit elements


def build_moves(case: dict[str, Any]) -> Plan:
    width, elements = case["width"], case["elements"]
    t = flat_memory("t", DTYPES[width], 1024, "shared")
    regs = flat_memory("regs", DTYPES[width], 8, "register")
    tx = Var("tx", 128)
    pairs = [(t[tx * 8 + e], regs[k]) for k, e in enumerate(elements)]
    moves = tuple(Move(a, b) if case["kind"] == "st" else Move(b, a) for a, b in pairs)
    return Plan("k", "sm_90", (1, 1, 1), (t,), (Role("all", 128, (Block("f", (), moves, (regs,)),)),))


def widths_of(plan: Plan, kind: str, space: str = "shared") -> list[int]:
    return sorted(
        a.width_bytes for a in compiled_accesses(plan) if (a.kind, a.memory.space) == (kind, space)
        for _ in range(prod(int(n) for _, n in a.loops))  # type: ignore[call-overload]
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['kind']}{c['width']}-{''.join(map(str, c['elements']))}")
def test_neighbours_become_the_accesses_that_nvcc_makes(case):
    found = widths_of(build_moves(case), case["kind"])
    if (case["kind"], case["width"], case["elements"]) == ODD:
        assert found != case["accesses"]  # when nvcc or this changes, so must docs/access-model.md
    else:
        assert found == case["accesses"]


def test_what_is_read_and_written_in_one_run_stays_apart():
    """A load that moved past a store of the same array could read another value."""
    t, regs = flat_memory("t", "float32", 1024, "shared"), flat_memory("regs", "float32", 4, "register")
    tx, i = Var("tx", 128), Var("i", 4)
    body = (Repeat(i, 4, (Move(regs[i], t[tx * 4 + i]), Move(t[tx * 4 + i + 512], regs[i])), True),)
    plan = Plan("k", "sm_90", (1, 1, 1), (t,), (Role("all", 128, (Block("f", (), body, (regs,)),)),))
    assert widths_of(plan, "ld") == [4] * 4 and widths_of(plan, "st") == [4] * 4


def build_sums(count: int, is_stored: bool) -> Plan:
    """A loop that adds up ``count`` neighbours in each of its trips, and leaves the sum if ``is_stored``."""
    t, regs, total = (flat_memory(name, "float32", n, space) for name, n, space in (
        ("t", 1024, "shared"), ("regs", 8, "register"), ("total", 16, "register"),
    ))  # fmt: skip
    f, w, later = Var("f", 4), Var("w", count), Var("w", count - 1)
    both = Apply("+", (Element(0, "float32"), Element(1, "float32")), "float32")
    sums = Repeat(later, count - 1, (Compute(total[f], both, (total[f], regs[later + 1])),), True)
    steps = (Repeat(w, count, (Move(regs[w], t[f * count + w]),), True), Move(total[f], regs[0]), sums)
    body = Repeat(f, 4, (*steps, *((Move(t[f + 512], total[f]),) if is_stored else ())), True)
    return Plan("k", "sm_90", (1, 1, 1), (t,), (Role("all", 32, (Block("f", (), (body,), (regs, total)),)),))


def test_sums_between_the_loads_of_a_loop_do_not_part_them_unless_they_are_stored():
    assert widths_of(build_sums(3, False), "ld") == [16] * 3
    assert widths_of(build_sums(2, False), "ld") == [16] * 2
    assert widths_of(build_sums(3, True), "ld") != [16] * 3


# LDS of a warp in the machine code of nvcc 13.0 and NVRTC 13.5 for sm_90, all of them of 16 bytes, and warps that load.
SUMMED = {3: (8, 2), 9: (12, 3), 21: (4, 2), 27: (12, 6), 28: (1, 1)}


@pytest.mark.parametrize("seed", SUMMED)
def test_parts_of_sums_are_loaded_as_the_machine_code_does(seed):
    spec = tilegen.load(draw_mixed(seed))
    plan, launch = plan_spec(spec), launch_of(spec)
    loads = [a for a in compiled_accesses(plan) if (a.kind, a.memory.space) == ("ld", "shared")]
    loads_of_a_warp, warps = SUMMED[seed]
    assert {a.width_bytes for a in loads} == {16}
    assert sum(count_access(a, launch, launch.interior).instructions for a in loads) == loads_of_a_warp * warps


def test_what_one_thread_loads_twice_from_one_place_is_loaded_once():
    """Rows two apart, and those one below: of eight loads the last three rows of one are the first of the other."""
    t, regs = flat_memory("t", "float32", 2048, "shared"), flat_memory("regs", "float32", 8, "register")
    tx, i = Var("tx", 128), Var("i", 4)
    loops = [Repeat(i, 4, (Move(regs[i + first], t[i * 256 + tx + row]),), True) for first, row in ((0, 0), (4, 256))]
    plan = Plan("k", "sm_90", (1, 1, 1), (t,), (Role("all", 128, (Block("f", (), tuple(loops), (regs,)),)),))
    assert widths_of(plan, "ld") == [4] * 5
    stores = [Repeat(i, 4, (Move(t[i * 256 + tx + row], regs[i + first]),), True) for first, row in ((0, 0), (4, 256))]
    plan = Plan("k", "sm_90", (1, 1, 1), (t,), (Role("all", 128, (Block("f", (), tuple(stores), (regs,)),)),))
    assert widths_of(plan, "st") == [4] * 8


CAST = """kernel: k
threads: 32
buffers:
  X: {{scope: global, dtype: {src}, shape: [128]}}
  Y: {{scope: global, dtype: {dst}, shape: [128]}}
  Z: {{scope: global, dtype: {src}, shape: [128]}}
  q: {{scope: register, dtype: {src}, shape: [4]}}
  h: {{scope: register, dtype: {dst}, shape: [4]}}
ops:
  - copy: {{scope: thread, src: "X[tx*4 : +4]", dst: q}}
  - cast: {{scope: thread, src: q, dst: h}}
  - copy: {{scope: thread, src: h, dst: "Y[tx*4 : +4]"}}
  - copy: {{scope: thread, src: q, dst: "Z[tx*4 : +4]"}}
"""


@pytest.mark.parametrize(
    ("src", "dst", "widths"),
    [("int64", "int32", [4] * 4), ("uint64", "int8", [1] * 4), ("int64", "float32", [16, 16]), ("int32", "int8", [16]),
     ("float64", "float32", [16, 16]), ("int32", "int64", [16])],
)  # fmt: skip
def test_of_a_64_bit_integer_that_is_cut_down_the_low_bytes_are_loaded(src, dst, widths):
    text = "".join(line for line in CAST.format(src=src, dst=dst).splitlines(True) if "Z" not in line)
    assert widths_of(tilegen.build(text).plan, "ld", "global") == widths


def test_what_an_op_loads_again_may_be_left_out():
    """Of an array that is only read: least_sectors counts it once. What is written may be another value by then."""
    text = """kernel: twice
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [32]}
  Y: {scope: global, dtype: float32, shape: [2, 32]}
ops:
  - elementwise: {dst: "Y[0]", expr: x + 1.0, with: {x: X}}
  - elementwise: {dst: "Y[1]", expr: x + 2.0, with: {x: %s}}
"""
    for source, least in (("X", 4), ('"Y[0]"', 8)):
        totals = tilegen.explain(text % source)["grid_totals"]["global_ld"]
        assert (totals["sectors"], totals["least_sectors"]) == (8, least)


def test_access_n_is_the_one_that_is_listed_as_n():
    text = CAST.format(src="int64", dst="int32")
    built = tilegen.build("".join(line for line in text.splitlines(True) if "Z" not in line))
    launch = launch_of(built.spec)
    listed = [a for op in explain_plan(built.plan, launch)["ops"] for a in op["accesses"]]
    shown = [explain_access(built.plan, launch, n + 1) for n in range(len(listed))]
    assert len(listed) == 3  # two loads of low words, of which the text has one, and a store
    for name in ("buffer", "kind", "width_bytes"):
        assert [a[name] for a in shown] == [a[name] for a in listed], name
    with pytest.raises(ValueError, match="accesses 1 to 3"):
        explain_access(built.plan, launch, 4)


def test_an_integer_that_is_also_kept_is_loaded_whole():
    assert widths_of(tilegen.build(CAST.format(src="int64", dst="int32")).plan, "ld", "global") == [16, 16]


def test_loads_that_only_some_warps_need_are_counted_both_ways():
    built = tilegen.build(
        "kernel: k\nthreads: 128\nbuffers:\n"
        "  X: {scope: global, dtype: float32, shape: [4, 32]}\n"
        "  Y: {scope: global, dtype: float32, shape: [4, 32], partial: true}\n"
        '  q: {scope: register, dtype: float32, shape: [32], layout: "S[32:1@laneid]"}\n'
        'ops:\n  - copy: {scope: warp, src: "X[warpid]", dst: q}\n'
        '  - copy: {scope: warp, src: q, dst: "Y[warpid]", when: warpid == 1}\n'
    )
    total = explain_plan(built.plan, launch_of(built.spec))["grid_totals"]["global_ld"]
    assert (total["sectors"], total["least_sectors"]) == (16, 4)


def test_joined_accesses_move_what_the_single_ones_did():
    """Bytes per thread, access by access: nothing is lost or doubled where elements are neighbours."""
    for case in CASES:
        plan = build_moves(case)
        asked = Counter(case["elements"])
        seen = Counter()
        for a in compiled_accesses(plan):
            first = int(evaluate(a.byte, {"tx": 0})) // case["width"]
            seen.update(range(first, first + a.width_bytes // case["width"]))
        assert asked.keys() <= seen.keys() and (case["kind"] == "ld" or seen == asked)


def test_sums_of_a_cta_are_loaded_by_the_threads_that_add_them():
    """As many as an H200 counted when all threads had the sums, and one of each set of replicas added them."""
    program = tilegen.load(Path(__file__).parents[2] / "specs" / "column_sum_atomic.yaml")
    _, add = (one.spec for one in program.passes)
    assert explain_plan(plan_spec(add), launch_of(add))["grid_totals"]["shared_ld"]["wavefronts"] == 4096
