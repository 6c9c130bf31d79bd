"""What explain and the head of a CUDA file say is so: held against the plan, and against NumPy without choosers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specs.kernels import ROOT, build_spec, every_spec, most_trips
from tests.oracles import brute
from tests.oracles.kernels import elem_bytes, tile_round_trip
from tests.oracles.test_copy_tile import generated
from tests.specs.test_explain import _explain, _offsets_of
from tilegen import layouts
from tilegen.arch import ARCHES
from tilegen.cost import needs
from tilegen.cost.accesses import Access
from tilegen.cost.compiled import compiled_accesses
from tilegen.dtypes import DTYPES
from tilegen.index import evaluate
from tilegen.pipeline import build, explain
from tilegen.plan import Launch
from tilegen.report import explain_text
from tilegen.scopes import thread_variables
from tilegen.spec.outline import launch_of

COLUMNS = 110
Choice = dict[str, Any]


# ---------------------------------------------------------------- whose choices they are
def check_variants(explained: dict[str, Any]) -> None:
    """Choices are those of the variant that they are listed under; of a variant that lost, nothing is picked."""
    assert all(c["variant"] == "" for c in explained["choices"])
    for op in explained["ops"]:
        questions = [c["question"] for c in op["choices"]]
        assert len(set(questions)) == len(questions), questions
        assert all(c["variant"] == op["variant"] for c in op["choices"])
        for r in op["refused"]:
            assert all(c["variant"] == r["variant"] for c in r["choices"])
            assert (r["cost"] is None) <= (not r["choices"])
            assert all(v["verdict"] != "picked" for c in r["choices"] for v in c["candidates"])


@pytest.mark.sweep(6)
@every_spec
def test_a_choice_is_of_the_variant_that_it_is_listed_under(path: Path) -> None:
    check_variants(_explain(path))


@pytest.mark.sweep(6)
@every_spec
def test_what_lost_is_only_named_under_lost(path: Path) -> None:
    """The page has the winner's choices in order, each once, and no other."""
    explained = _explain(path)
    asked = [c["question"] for c in explained["choices"]]
    asked += [c["question"] for op in explained["ops"] for c in op["choices"]]
    page = page_of(path).partition("\nproved, ")[0].replace("\n  variant ", "\n")  # what it rests on says no choice
    assert re.findall(r"^  (\w[\w ]*): ", page, re.M) == asked


# ---------------------------------------------------------------- widths
def widths_said(choice: Choice) -> tuple[int, int]:
    """Bytes of a load and of a store, as a vector_width or a register_tile says them."""
    picked = choice["picked"]
    return picked.get("load_bytes", picked.get("bytes")), picked.get("store_bytes", picked.get("bytes"))


def check_widths(explained: dict[str, Any], sizes: Mapping[str, int]) -> None:
    """``sizes``: bytes of an element by buffer; of an op that computes no access has more elements than it says."""
    for op in explained["ops"]:
        for choice in op["choices"]:
            if choice["question"] == "vector_width" and set(choice["picked"]) == {"elems"}:
                most = max(a["text_width_bytes"] / sizes[a["buffer"]] for a in op["accesses"] if a["buffer"] in sizes)
                assert most <= choice["picked"]["elems"], (op["text"], choice["picked"], op["accesses"])
            elif choice["question"] in ("vector_width", "register_tile"):
                for kind, said in zip(("ld", "st"), widths_said(choice), strict=True):
                    made = {a["text_width_bytes"] for a in op["accesses"] if a["kind"] in (kind, *ASYNC)}
                    assert made <= {said}, (op["text"], choice["picked"], op["accesses"])


ASYNC = tuple(f"cp.async.{cache}{fill}" for cache in ("ca", "cg") for fill in ("", ".zfill"))


@pytest.mark.sweep(6)
@every_spec
def test_the_width_that_is_printed_is_that_of_the_accesses(path: Path) -> None:
    check_widths(_explain(path), {b.name: DTYPES[b.dtype].bytes for b in build_spec(path).spec.buffers})


def half_of_them() -> list[Any]:
    """The others take as long again, in `make slow`."""
    return [
        p if k % 2 == 0 else pytest.param(*p.values, id=p.id, marks=pytest.mark.slow) for k, p in enumerate(generated())
    ]


def widest_in_runs(side: np.ndarray, run: int, size: int, most: int) -> int:
    """Elements of the widest access that is legal in every run of so many neighbours."""
    rows = side.reshape(-1, run)
    return brute.widest_in_rows([rows.ravel()], 1, size, min(most, run & -run))


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("threads", "dtype", "g", "s"), half_of_them())
def test_no_wider_access_is_allowed_where_explain_says_so(threads: int, dtype: str, g: Any, s: Any) -> None:
    explained = explain(tile_round_trip(threads, dtype, *g, *s))
    check_variants(explained)
    check_widths(explained, {})
    size = elem_bytes(dtype)
    sides = {"In": g, "s": s, "Out": g}
    for op, names in zip(explained["ops"], (("In", "s"), ("s", "Out")), strict=True):
        picked = {c["question"]: c for c in op["choices"]}
        width = picked.get("vector_width")
        claim = re.match(r"the widest in runs of (\d+)(?: and (\d+))?;", width["proof"]) if width else None
        if claim is None or "together" in picked["partition"]["picked"]["order"]:
            continue
        runs = int(claim[1]), int(claim[2] or claim[1])
        order = order_of(picked["partition"]["picked"]["order"], sides)
        for name, said, run in zip(names, widths_said(width), runs, strict=True):
            shape, layout, box = sides[name]
            walked = brute.offsets(layout, shape, box)[order]
            legal = widest_in_runs(walked, run, size, brute.chunk(layout) if name == "s" else 1 << 30)
            assert said == legal * size, (op["text"], name, width)


def order_of(name: str, sides: dict[str, Any]) -> np.ndarray:
    """The box's elements, numbered row by row, in the order of a partition."""
    count = prod(b - a for a, b in sides["In"][2])
    if name == "row-major":
        return np.arange(count)
    shape, layout, box = sides[name.removesuffix("'s strides")]
    plain = layouts.tile_of(layouts.parse(layout))  # a swizzle has no say in strides
    grids = np.meshgrid(*(np.arange(a, b) for a, b in box), indexing="ij")
    return np.argsort(plain.place([x.ravel() for x in grids], tuple(shape))["m"], kind="stable")


@pytest.mark.sweep(6)
@every_spec
def test_figures_in_reasons_are_those_of_the_candidates(path: Path) -> None:
    """'The cheapest of 3' has three candidates, of which none costs less."""
    for op in _explain(path)["ops"]:
        for choice in [*op["choices"], *(c for r in op["refused"] for c in r["choices"])]:
            said = re.match(r"the cheapest of (\d+)", choice["proof"])
            costs = [tuple(c["cost"].values()) for c in choice["candidates"] if c["cost"]]
            if said and choice["question"] in ("vector_width", "partition", "matrices", "lanes"):
                assert int(said[1]) == len(choice["candidates"]) == len(costs)
            if "every pair was searched" in choice["proof"]:
                assert int(re.findall(r"\d+", choice["proof"])[0]) == len(choice["candidates"])
            searched = re.match(r"(\d+) of (\d+) pairs", choice["proof"])
            assert searched is None or len(choice["candidates"]) == int(searched[1]) < int(searched[2])
            kept = [tuple(c["cost"].values()) for c in choice["candidates"] if "pick" in c["verdict"] and c["cost"]]
            if said and kept:
                assert kept == [min(costs)]


@pytest.mark.sweep(6)
@every_spec
def test_where_no_access_is_above_its_floor_none_is(path: Path) -> None:
    for op in _explain(path)["ops"]:
        if any("no access has more wavefronts or sectors than its floor" in c["proof"] for c in op["choices"]):
            assert all(a["wavefronts"] == a["floor"] and a["sectors"] == a["sectors_floor"] for a in op["accesses"])


def padded_permute(pick: random.Random) -> str:
    """Tiles of a loop that begin anywhere: what holds for the first need not hold for the others."""
    rows, columns = pick.choice([(4, 8), (8, 8), (4, 32), (16, 4), (8, 32), (16, 16), (2, 16)])
    dtype, tiles = pick.choice(["uint8", "float16", "float32", "int64"]), pick.choice([2, 3, 4])
    pad = pick.choice([0, 1, 4])
    pitch, other = rows * (columns + pad) + pick.choice([0, 1, 3, 4]), rows * columns + pick.choice([0, 0, 1, 5])
    shape = f"dtype: {dtype}, shape: [{tiles}, {rows}, {columns}]"
    return f"""kernel: k
threads: 32
buffers:
  In: {{scope: global, {shape}}}
  Out: {{scope: global, {shape}}}
  A: {{scope: shared, {shape}, layout: "S[({tiles},{rows},{columns}):({pitch},{columns + pad},1)]"}}
  B: {{scope: shared, {shape}, layout: "S[({tiles},{rows},{columns}):({other},1,{rows})]"}}
ops:
  - copy: {{scope: warp, src: In, dst: A}}
  - sync: warp
  - for: {{s: {tiles}}}
    do:
      - permute_layout: {{scope: warp, src: "A[s]", dst: "B[s]"}}
  - copy: {{scope: warp, src: B, dst: Out}}
"""


@pytest.mark.slow
def test_lanes_are_at_their_floor_wherever_the_tile_lies_or_explain_says_where() -> None:
    pick, bounded = random.Random(3), 0
    for _ in range(6):
        op = explain(padded_permute(pick))["ops"][1]
        (proof,) = (c["proof"] for c in op["choices"] if c["question"] in ("lane_vectors", "xor_k"))
        bounded += proof.startswith("where the tile lies first: ")
        if "no access has more wavefronts" in proof and not proof.startswith("where"):
            assert all(a["wavefronts"] == a["floor"] for a in op["accesses"]), op
    assert bounded


# ---------------------------------------------------------------- threads, sectors, bytes
def trips_of(a: Access, launch: Launch) -> np.ndarray:
    counts = most_trips(a, launch)
    return np.array([*product(*map(range, counts))], np.int64).reshape(prod(counts), len(counts))


def offsets_of(a: Access, launch: Launch, cta: tuple[int, int, int]) -> np.ndarray:
    """Byte offsets of every trip and thread of a CTA, -1 where a thread takes no part."""
    tx, points = np.arange(-(-a.threads // 32) * 32), trips_of(a, launch)
    env: dict[str, Any] = dict(launch.params) | dict(zip(("bx", "by", "bz"), cta, strict=True))
    env |= {n: evaluate(x, {"tx": tx}) for n, x in thread_variables(a.threads).items()}
    env |= {v.name: points[:, k, None] for k, (v, _) in enumerate(a.loops)}
    return _offsets_of(a, env, (len(points), len(tx)), a.threads).reshape(len(points), -1)


def sectors_of(accesses: Iterable[Access], launch: Launch, cta: tuple[int, int, int]) -> int:
    """How many sectors the accesses touch together."""
    each = [sectors_of_access(a, launch, cta) for a in accesses]
    return len(np.unique(np.concatenate(each))) if each else 0


def sectors_of_access(a: Access, launch: Launch, cta: tuple[int, int, int]) -> np.ndarray:
    offsets = offsets_of(a, launch, cta)
    starts = np.unique(offsets[offsets >= 0])
    if a.kind != "tma":
        return np.unique(starts // 32)
    sizes = [(n, int(evaluate(stride, dict(launch.params)))) for n, stride in a.rows]
    rows = [sum(i * s for i, (_, s) in zip(at, sizes, strict=True)) for at in product(*(range(n) for n, _ in sizes))]
    boxes = starts[:, None, None] + np.array(rows)[:, None] + np.arange(a.width_bytes)
    return np.unique(boxes // 32)


@pytest.mark.sweep(6)
@every_spec
def test_threads_and_the_floor_of_sectors_are_those_of_every_thread_and_trip(path: Path) -> None:
    built = build_spec(path)
    launch, found = launch_of(built.spec), compiled_accesses(built.plan)
    for k, op in enumerate(_explain(path)["ops"]):
        own = [a for a in found if a.op == k]
        for a, said in zip(own, op["accesses"], strict=True):
            taking = (offsets_of(a, launch, launch.interior) >= 0).any(axis=0)
            idle = (~taking.reshape(-1, 32).any(axis=1)).sum()
            assert (said["threads"], said["idle_warps"]) == (taking.sum(), idle)
            if said["space"] == "global":
                assert said["sectors_floor"] == sectors_of([a], launch, launch.interior)
        for t in op["traffic"]:
            mine = [a for a in own if (a.memory.name, a.memory.space) == (t["buffer"], "global")]
            mine = [a for a in mine if a.writes == (t["direction"] == "written")]
            assert t["sectors_floor"] == sectors_of(mine, launch, launch.interior)


@pytest.mark.sweep(6)
@every_spec
def test_the_summary_is_that_of_every_cta(path: Path) -> None:
    built = build_spec(path)
    launch, summary = launch_of(built.spec), _explain(path)["summary"]
    if prod(launch.grid) > 64:
        pytest.skip("too many CTAs to look at each")
    groups = needs.group_by_array(compiled_accesses(built.plan)).values()
    ctas = [*product(*map(range, launch.grid))]
    assert summary["sectors_floor"] == sum(sectors_of(group, launch, c) for group in groups for c in ctas)
    totals = _explain(path)["grid_totals"]
    assert summary["sectors"] == sum(t["sectors"] for t in totals.values())
    assert summary["wavefronts"] == sum(t["wavefronts"] for t in totals.values())
    assert summary["wavefronts_floor"] == sum(t["floor"] for t in totals.values())


@pytest.mark.sweep(6)
@every_spec
def test_what_bounds_a_kernel_is_what_takes_longest(path: Path) -> None:
    """A sector takes 32 bytes of an SM's share of the bandwidth, a wavefront a clock, an instruction a quarter."""
    data = _explain(path)
    summary, totals = data["summary"], data["grid_totals"]
    issued = sum(t["instructions"] for n, t in totals.items() if n not in ("global_ldgsts", "global_tma"))
    assert summary["instructions"] == issued
    assert summary["clocks"]["shared"] == summary["wavefronts"] and summary["clocks"]["issue"] == issued / 4
    if summary["device"] == "H200":
        assert summary["clocks"]["memory"] == pytest.approx(summary["sectors"] * 32 * 132 * 1.98e9 / 4.8e12, rel=1e-3)
    assert summary["clocks"][summary["bound_by"]] == max(summary["clocks"].values())


def test_idle_warps_and_sectors_above_their_floor_are_seen() -> None:
    text = """kernel: uneven
threads: 96
buffers:
  X: {scope: global, dtype: float32, shape: [40, 64], layout: col}
  Y: {scope: global, dtype: float32, shape: [40, 64]}
  s: {scope: shared, dtype: float32, shape: [40]}
ops:
  - copy: {src: "X[:, 0]", dst: s, variant: scalar}
  - sync: cta
  - for: {k: 64}
    do:
      - copy: {src: s, dst: "Y[:, k]", variant: scalar}
"""
    page = explain_text(explain(text), ARCHES["sm_90"])
    assert re.search(r"#1  X +global load +4 B +40 of 96 ", page)
    assert "    idle: 1 of 3 warps in #1, #2\n" in page
    assert "    warning: 2560 sectors of Y are written, and 320 hold what is touched: each is moved 8.00 times" in page


@pytest.mark.slow
def test_a_floor_that_is_not_counted_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    needs.count_needed_sectors.cache_clear()
    monkeypatch.setattr(needs, "MOST_ADDRESSES", 16)
    explained = explain(ROOT / "specs" / "permute_sf.yaml")
    needs.count_needed_sectors.cache_clear()
    assert explained["summary"]["sectors_floor"] is None
    assert {t["sectors_floor"] for op in explained["ops"] for t in op["traffic"]} == {None}
    page, short = (explain_text(explained, ARCHES["sm_90"], shows_all) for shows_all in (True, False))
    assert all("floor not counted, for over" in " ".join(text.split()) for text in (page, short))
    assert "In: its sectors' floor was not counted" in page and "In: its" not in short


# ---------------------------------------------------------------- lines
@cache
def page_of(path: Path) -> str:
    return explain_text(_explain(path), ARCHES[build_spec(path).spec.arch])


def head_of(source: str) -> list[str]:
    return source.split("\n\n")[0].splitlines()


@pytest.mark.sweep(6)
@every_spec
def test_no_line_is_too_long(path: Path) -> None:
    assert max(map(len, page_of(path).splitlines())) <= COLUMNS
    assert max(map(len, head_of(build_spec(path).source))) <= COLUMNS


@pytest.mark.sweep(6)
@every_spec
def test_the_head_names_each_op_and_its_variant_or_counts_it(path: Path) -> None:
    built = build_spec(path)
    head = head_of(built.source)
    named = [line for line in head if re.match(r"// \d+\. ", line)]
    more = [int(found[1]) for line in head if (found := re.match(r"// \((\d+) more ops?\)", line))]
    assert len(named) + sum(more) == len(built.plan.operations)
    for number, (line, operation) in enumerate(zip(named, built.plan.operations, strict=False), 1):
        said = f"// {number}. {operation.text}, scope {operation.scope}, variant {operation.variant}"
        is_cut = len(said) > COLUMNS and said.startswith(line.removesuffix(" ..."))
        assert is_cut or line.endswith(f"variant {operation.variant}"), line


def test_long_names_are_folded() -> None:
    text = (ROOT / "specs" / "transpose_auto.yaml").read_text(encoding="utf-8")
    text = re.sub(r"^kernel: \w+", f"kernel: {'k' * 60}", text, flags=re.M)
    for name in ("tile", "X", "Y"):
        text = re.sub(rf"\b{name}\b", f"{name}_{'n' * (60 - len(name))}", text)
    built = build(text)
    page = explain_text(explain(text), ARCHES["sm_90"])
    assert max(map(len, page.splitlines())) <= COLUMNS
    assert max(map(len, head_of(built.source))) <= COLUMNS
