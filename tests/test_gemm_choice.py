"""gemm's choice in two levels: closed forms count what the statements do, and statements are counted right."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any, get_args

import pytest

import tilegen
from tests.test_gemm import ORDERS, array, spec_of
from tilegen.arch import ARCHES
from tilegen.cost.tally import Tally
from tilegen.cost.time import _UNITS, count_work
from tilegen.errors import Diagnostic, SpecError
from tilegen.index import Var
from tilegen.layouts import TileLayout
from tilegen.ops import ALL_OPS, tally
from tilegen.ops.gemm import choose, expand, op, tiles
from tilegen.ops.gemm.choose import choose_recipe, rank_recipes
from tilegen.ops.gemm.expand import expand_recipe
from tilegen.ops.gemm.problem import Problem, read_problem, typical_values
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.gemm.recipes import VARIANTS
from tilegen.ops.tally import tally_spec
from tilegen.planner import plan_spec
from tilegen.spec import OwnData
from tilegen.spec import load as read_spec
from tilegen.spec.data import Spec, WholeCall

TYPES = (("bfloat16", ""), ("float16", "float32"), ("float32", ""), ("float64", ""), ("int8", "int32"),
         ("float8_e4m3fn", "bfloat16"))  # fmt: skip
PINNED = ("auto", "wgmma", "mma_sync", "simt")


def draw_call(draw: random.Random) -> tuple[Spec, WholeCall, Problem]:
    """A gemm of any type, storage orders, batch, arch and epilogue; sizes divide or not, or are known at the launch."""
    dtype, result = draw.choice(TYPES)
    step = draw.choice([1, 8, 16, 64])
    m, n, k = (step * draw.randint(1, max(1, 700 // step)) for _ in range(3))
    orders = tuple(draw.choice(ORDERS) for _ in range(3))
    arch = draw.choice(["sm_90a", "sm_90", "sm_89"] if dtype.startswith("float8") else ["sm_80", "sm_90", "sm_90a"])
    fields: dict[str, Any] = {"overlap": "previous"} if arch > "sm_90" and draw.random() < 0.2 else {}
    more = {}
    if draw.random() < 0.4:
        shapes = [(n,), (m, 1), (1, n), (m, n), (1, 1)]
        fields |= {"epilogue": "acc * x + y", "with": {"x": "X", "y": "Y"}}
        more = {"X": array("float32", *draw.choice(shapes)), "Y": array("float32", *draw.choice(shapes))}
        result = "bfloat16" if dtype == "int8" else result
    batch = draw.choice([0, 0, 0, 3])
    given = spec_of(m, n, k, dtype, result, orders, batch, arch, more, **fields)
    if not batch and draw.random() < 0.3:
        sizes = {size: name for name, size in (("M", m), ("N", n), ("K", k))}
        for buffer in given["buffers"].values():
            buffer["shape"] = [sizes.get(size, size) for size in buffer["shape"]]
        terms = {"multiple_of": step, "max": draw.choice([1024, 8192])}
        given["params"] = {name: {"default": size, **terms} for size, name in sizes.items()}
    spec = read_spec(given, ALL_OPS)
    (call,) = spec.ops
    assert isinstance(call, WholeCall)
    return spec, call, read_problem(call)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_closed_forms_count_what_statements_do(seed: int) -> None:
    """Of 50 random recipes each, all that a launch does."""
    draw, counted, kinds = random.Random(seed), 0, Counter[str]()
    while counted < 50 or len(kinds) < 3 or not kinds["shared"]:
        spec, call, problem = draw_call(draw)
        fields = call.fields.model_copy(
            update={"variant": draw.choice(PINNED), "k_parts": draw.choice([None, None, None, 3, 8])}
        )
        ranked, _ = rank_recipes(problem, ARCHES[spec.arch], fields)
        for one in draw.sample(ranked, min(5, len(ranked))):
            own = problem.turned() if one.recipe.is_turned else problem
            expanded = expand_recipe(spec, call, own, one.recipe)
            assert tally_spec(expanded, typical_values(problem)) == count_work(one.work), one.recipe
            counted += 1
            kinds[one.recipe.variant] += 1
            kinds["shared"] += one.recipe.k_parts > 1


def test_a_variant_has_a_word_recipes_and_a_model() -> None:
    words = get_args(op.GemmFields.model_fields["variant"].annotation)
    assert set(words) == {"auto", *VARIANTS}
    assert set(VARIANTS) == set(_UNITS)


@pytest.mark.parametrize(("m", "n"), [(655, 1), (1, 700), (1, 1)])
@pytest.mark.parametrize("orders", [("row", "row", "row"), ("col", "col", "row")])
def test_closed_forms_count_sums_of_threads(m: int, n: int, orders: tuple[str, str, str]) -> None:
    given = spec_of(m, n, 943, "float32", "", orders, variant="rows")
    spec = read_spec(given, ALL_OPS)
    (call,) = spec.ops
    assert isinstance(call, WholeCall)
    problem = read_problem(call)
    ranked, _ = rank_recipes(problem, ARCHES[spec.arch], call.fields)
    assert ranked
    for one in ranked:
        own = problem.turned() if one.recipe.is_turned else problem
        assert tally_spec(expand_recipe(spec, call, own, one.recipe), typical_values(problem)) == count_work(one.work)


SPEC = """
kernel: counted
arch: sm_90a
grid: {bx: 6}
cluster: {cbx: 2}
roles: {load: {threads: 32}, math: {threads: 256}}
barriers: {full: {slots: 2}, free: {slots: 2, open: true}}
buffers:
  A: {scope: global, dtype: bfloat16, shape: [768, 320]}
  B: {scope: global, dtype: bfloat16, shape: [320, 64]}
  D: {scope: global, dtype: float32, shape: [768, 64]}
  sa: {scope: shared, dtype: bfloat16, shape: [2, 128, 64], layout: auto}
  sb: {scope: shared, dtype: bfloat16, shape: [2, 64, 64], layout: auto}
  c: {scope: register, dtype: float32, shape: [64, 64], layout: auto}
ops:
  - role: load
    do:
      - for: {k: [0, 5]}
        do:
          - wait: {barrier: "free[k % 2]"}
          - copy: {src: "A[bx*128 : +128, k*64 : +64]", dst: "sa[k % 2]", variant: tma, barrier: "full[k % 2]"}
          - copy: {src: "B[k*64 : +64]", dst: "sb[k % 2]", variant: tma, barrier: "full[k % 2]", multicast: cbx}
  - role: math
    do:
      - for: {k: 5}
        do:
          - wait: {barrier: "full[k % 2]"}
          - mma: {scope: warpgroup, a: "sa[k % 2, wgid*64 : +64]", b: "sb[k % 2]", c: c, accumulate: k > 0, async: true}
          - commit: mma
          - wait: {mma: 1}
          - arrive: {scope: warpgroup, barrier: "free[(k + 1) % 2]", to: cbx, when: k > 0}
      - wait: {mma: 0}
      - arrive: {scope: warpgroup, barrier: "free[4 % 2]", to: cbx}
      - copy: {scope: warpgroup, src: c, dst: "D[bx*128 + wgid*64 : +64]"}
  - sync: cluster
"""


def test_statements_are_counted_as_a_person_would() -> None:
    """Six CTAs of two warpgroups in pairs that share B, five k-tiles of 64."""
    found = tally_spec(read_spec(SPEC, ALL_OPS))
    a, b = 128 * 64 * 2, 64 * 64 * 2
    assert found == Tally(
        {"tma": 6 * 5 * (a + b // 2)}, staged=6 * 5 * (a + b), read=6 * 5 * (a + 2 * b), products=768 * 320 * 64,
        stored=768 * 64 * 4, waits=6 * 5 * 2, arrivals=6 * 2 * 5 * 2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (("when: k > 0", "when: k > bx"), {"arrivals": 2 * 2 * sum(max(0, 4 - bx) + 1 for bx in range(6))}),
        (("for: {k: [0, 5]}", "for: {k: [bx // 2, 5, 2]}"), {"waits": 6 * 5 + 3 + 3 + 2 + 2 + 2 + 2}),
        (("- for: {k: 5}", "- for: {k: bx // 2}"), {"products": 128 * 64 * 64 * (0 + 0 + 1 + 1 + 2 + 2)}),
    ],
)
def test_trips_and_conditions_of_each_cta_are_counted(change: tuple[str, str], counts: dict[str, int]) -> None:
    before, after = change
    assert SPEC.count(before) == 1
    found = tally_spec(read_spec(SPEC.replace(before, after), ALL_OPS))
    assert {name: getattr(found, name) for name in counts} == counts


def test_a_move_that_nobody_knows_is_an_error() -> None:
    text = "kernel: k\nthreads: 32\nbuffers:\n"
    text += "".join(f"  {x}: {{scope: global, dtype: float32, shape: [64]}}\n" for x in "XY")
    with pytest.raises(TypeError, match="from global memory to global"):
        tally_spec(read_spec(f"{text}ops:\n  - copy: {{src: X, dst: Y}}\n", ALL_OPS))


def test_recipes_whose_statements_are_refused_are_not_taken() -> None:
    spec, call, problem = draw_call(random.Random(3))
    ranked, _ = rank_recipes(problem, ARCHES[spec.arch], call.fields)
    best = ranked[0].recipe
    tried: list[Recipe] = []

    def expand(recipe: Recipe) -> Spec:
        tried.append(recipe)
        if recipe == best:
            raise SpecError(Diagnostic("TG202", "no"))
        return expand_recipe(spec, call, problem.turned() if recipe.is_turned else problem, recipe)

    picked = choose_recipe(call, problem, ARCHES[spec.arch], expand)
    assert len(ranked) > 1 and tried[0] == best and picked.recipe == ranked[1].recipe
    assert "the statements of 1 recipe are refused" in picked.choices[0].proof

    def refuse(recipe: Recipe) -> Spec:
        raise SpecError(Diagnostic("TG202", f"not {recipe}"))

    with pytest.raises(SpecError, match=f"not {best}"):
        choose_recipe(call, problem, ARCHES[spec.arch], refuse)


def test_the_pick_is_that_of_what_statements_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements that do more than closed forms say lose."""
    given = spec_of(512, 512, 512)
    first = tilegen.load(given)
    tile = first.choices[0].picked["tile"]

    def count(spec: Spec, params: dict[str, int]) -> Tally:
        found = tally_spec(spec, params)
        sums = next(b for b in spec.buffers if b.name == "sums")
        return replace(found, products=100 * found.products) if sums.shape[1] == tile[1] else found

    monkeypatch.setattr(choose, "tally_spec", count)
    assert tilegen.load(given).choices[0].picked["tile"][1] != tile[1]


def test_explain_has_terms_of_the_pick_and_of_the_best_losers() -> None:
    choices = {c.question: c for c in tilegen.load(spec_of(512, 512, 512)).choices}
    assert 1 < len(choices["gemm"].candidates) <= 8
    assert choices["gemm"].candidates[0].value == choices["gemm"].picked
    assert all("us: multiply" in c.verdict for c in choices["gemm"].candidates)
    assert choices["a launch"].picked["products"] >= 512**3


@pytest.mark.parametrize("seed", range(6))
def test_own_data_are_read_as_a_text_is(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a recipe writes, read without YAML and with it, is the same spec."""
    spec, call, problem = draw_call(random.Random(seed))
    ranked, _ = rank_recipes(problem, ARCHES[spec.arch], call.fields)
    recipe = random.Random(seed).choice(ranked).recipe
    own = problem.turned() if recipe.is_turned else problem
    read = expand_recipe(spec, call, own, recipe)
    monkeypatch.setattr(expand, "OwnData", dict)
    assert expand_recipe(spec, call, own, recipe) == read


def test_errors_of_own_data_name_keys() -> None:
    with pytest.raises(SpecError, match=r"buffers.A.shape\[0\]: TG\d\d\d"):
        read_spec(OwnData({"kernel": "k", "threads": 32, "ops": [], "buffers": {"A": array("int8", -1)}}), ALL_OPS)
    with pytest.raises(TypeError, match="holds no Var"):
        read_spec(OwnData({"kernel": "k", "threads": 32, "ops": [], "grid": {"bx": Var("x", 3)}}), ALL_OPS)


def test_tallies_of_one_spec_do_not_depend_on_what_was_counted_before() -> None:
    spec = read_spec(SPEC, ALL_OPS)
    first = tally_spec(spec)
    tally._count_owned.cache_clear()
    assert tally_spec(spec) == first


def ranked_of(*sizes: int, **more: Any) -> list[choose.Ranked]:
    spec = read_spec(spec_of(*sizes, **more), ALL_OPS)
    (call,) = spec.ops
    assert isinstance(call, WholeCall)
    return rank_recipes(read_problem(call), ARCHES[spec.arch], call.fields)[0]


@pytest.mark.parametrize(("m", "picked"), [(1, "rows"), (16, "wgmma")])
def test_a_row_is_summed_up_where_that_takes_less_time(m: int, picked: str) -> None:
    ranked = ranked_of(m, 7168, 16384, orders=("row", "col", "row"))
    variants = {r.recipe.variant for r in ranked}
    assert ranked[0].recipe.variant == picked and "wgmma" in variants and ("rows" in variants) == (m == 1)


def test_of_a_long_k_at_odd_addresses_each_multiprocessor_may_make_one_tile() -> None:
    """Tiles of other sizes than powers of two are there where they are at most as many as multiprocessors."""
    orders = ("col", "col", "row")
    ranked = ranked_of(907, 1288, 1232, orders=orders)
    others = [r for r in ranked if any(n & (n - 1) for n in r.recipe.tile[:2])]
    assert others and all(r.work.tiles <= 132 for r in others)
    assert ranked[0] in others and ranked[0].work.tiles > 88  # which 128 x 128 makes
    for sizes in ((907, 1288, 200), (2907, 1288, 1232)):  # of a short K, and of many tiles
        assert not any(n & (n - 1) for r in ranked_of(*sizes, orders=orders) for n in r.recipe.tile[:2])


STORED = tuple((a, b, "row") for a in ("row", "col") for b in ("row", "col"))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8"])
def test_few_k_tiles_take_few_stages(dtype: str, seed: int) -> None:
    """No recipe has more stages than a CTA has k-tiles, but roles, which have two; one that is pinned has its own."""
    draw = random.Random(seed)
    m, n, k = draw.randint(1, 40) * 16, draw.randint(1, 40) * 16, draw.choice([16, 32, 48, 64, 96, 160, 320])
    orders = draw.choice(STORED)
    ranked = ranked_of(m, n, k, dtype=dtype, result="int32" if dtype == "int8" else "", orders=orders)
    assert ranked
    for one in ranked:
        r = one.recipe
        each = -(-one.work.tiles // r.ctas) if r.ctas else 1
        assert r.stages <= max(-(-k // r.tile[2]) * each, 2 if r.load == "tma" else 1), r
    pinned = ranked_of(m, n, 16, dtype=dtype, result="int32" if dtype == "int8" else "", orders=orders, stages=3)
    assert all(one.recipe.stages == 3 for one in pinned)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("orders", STORED)
@pytest.mark.parametrize(("dtype", "k"), [("float32", 5), ("float32", 20), ("float64", 8), ("bfloat16", 12)])
def test_products_of_one_or_two_k_tiles_are_proved(dtype: str, k: int, orders: tuple[str, str, str]) -> None:
    built = tilegen.build(spec_of(136, 72, k, dtype, orders=orders, load="cp_async"))
    picked = built.spec.choices[0].picked
    assert picked["stages"] == -(-k // picked["tile"][2]) and built.proof.runs


@pytest.mark.slow
@pytest.mark.parametrize("orders", STORED)
def test_fused_multiply_adds_find_rows_of_k_whatever_lies_side_by_side(
    orders: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of shared memory, whose addresses are constants away from a thread's own: with no more wavefronts than the
    layouts that the chooser would take, and fewer operators where some elements come one by one. What comes one by one
    lies along a tile's shorter side.
    """
    picked = tilegen.load(spec_of(4096, 4096, 4096, "float32", orders=orders)).choices[0].picked
    bm, bn, _ = picked["tile"]
    singly = (orders[0] == "row", orders[1] == "col")
    assert singly[0] == singly[1] or bm == bn or (bm < bn) == singly[0]
    for bk in (8, 16):
        given = spec_of(512, 512, 64, "float32", orders=orders, variant="simt", tile=[128, 256, bk])
        rows = tilegen.load(given)
        assert all(isinstance(b.layout, TileLayout) for b in rows.buffers if b.scope == "shared")
        with monkeypatch.context() as patch:
            patch.setattr(tiles, "lay_out_k_tiles", lambda recipe, p: ("auto", "auto"))
            chosen = tilegen.load(given)
        own, other = ([o.cost for o in plan_spec(spec).operations] for spec in (rows, chosen))
        assert sum(c.wavefronts for c in own) <= sum(c.wavefronts for c in other)
        assert not any(singly) or sum(c.address_ops for c in own) < sum(c.address_ops for c in other)
