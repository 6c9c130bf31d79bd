"""gemm: what its recipes mean, what they print, what is chosen, and wrong ones that a proof has to find."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

import tilegen
from tests.mutants.judging import proof_code
from tilegen.arch import ARCHES
from tilegen.cost.compiled import compiled_accesses
from tilegen.cost.needs import count_bytes
from tilegen.errors import SpecError
from tilegen.ops.gemm.choose import rank_recipes
from tilegen.ops.gemm.problem import read_problem
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.spec.outline import launch_of
from tilegen.spec.printing import print_spec

ORDERS = ("row", "col")


def spec_of(
    m: int = 96, n: int = 80, k: int = 64, dtype: str = "bfloat16", result: str = "",
    orders: tuple[str, ...] = ("row",) * 3, batch: int = 0, arch: str = "sm_90a", more: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:  # fmt: skip
    """A product of matrices; ``orders`` of A, B and D, ``more`` arrays."""
    buffers: dict[str, Any] = {}
    shapes = {"A": (m, k), "B": (k, n), "D": (m, n)}
    for (name, shape), order in zip(shapes.items(), orders, strict=True):
        rows, columns = shape
        strides = f"{columns},1" if order == "row" else f"1,{rows}"
        full = f"S[({batch},{rows},{columns}):({rows * columns},{strides})]" if batch else order
        kind = result or dtype if name == "D" else dtype
        buffers[name] = array(kind, *([batch] if batch else []), *shape) | {"layout": full}
    given = {"a": "A", "b": "B", "d": "D"} | fields
    spec = {"kernel": "product", "arch": arch, "buffers": buffers | (more or {}), "ops": [{"gemm": given}]}
    return spec | ({"params": params} if params else {})


def array(dtype: str, *shape: int) -> dict[str, Any]:
    return {"scope": "global", "dtype": dtype, "shape": [*shape]}


# ---------------------------------------------------------------- problems of all kinds
def draw_problem(seed: int) -> dict[str, Any]:
    """A problem that some variant carries out: types, orders, sizes that divide and that do not, batches, epilogues."""
    draw = random.Random(seed)
    dtype, result, step = draw.choice([
        ("bfloat16", "", 8), ("float16", "float32", 8), ("float16", "", 1), ("float32", "", 1), ("float64", "", 2),
        ("int8", "int32", 16), ("int8", "bfloat16", 16), ("float8_e4m3fn", "bfloat16", 16),
    ])  # fmt: skip
    m, n, k = (step * draw.randint(1, 160 // step) for _ in range(3))
    orders = tuple(draw.choice(ORDERS) for _ in range(3))
    arch = draw.choice(["sm_90a", "sm_90", "sm_89"] if dtype.startswith("float8") else ["sm_80", "sm_90", "sm_90a"])
    fields: dict[str, Any] = {}
    more = {}
    if draw.random() < 0.5 and dtype != "float64":
        fields |= {"epilogue": "max(acc * x + bias, 0.0)", "with": {"x": "rows"}, "bias": "bias"}
        more = {"rows": array("float32", m, 1), "bias": array("float32", n)}
        result = "bfloat16" if dtype == "int8" else result
    batch = draw.choice([0, 0, 2])
    return spec_of(m, n, k, dtype, result, orders, batch, arch, more, **fields)


@pytest.mark.parametrize("seed", range(16))
def test_problems_of_all_kinds_are_proved(seed: int) -> None:
    """``build`` compares the tiles with the op itself, with all of K."""
    built = tilegen.build(draw_problem(seed))
    assert built.spec.whole is not None and built.proof.runs


# ---------------------------------------------------------------- wrong ones
ROWS = {"rows": array("float32", 96, 1), "c": array("bfloat16", 96, 96)}
RIGHT = {"m": 96, "n": 96, "k": 96, "epilogue": "acc * x + c", "with": {"x": "rows"}, "c": "c", "more": ROWS}
WRONG: dict[str, dict[str, Any]] = {
    "another epilogue": {"epilogue": "acc * x - c"},
    "a factor twice": {"epilogue": "acc * x * x + c"},
    "B turned": {"orders": ("row", "col", "row")},
    "A turned": {"orders": ("col", "row", "row")},
    "D turned": {"orders": ("row", "row", "col")},
    "scales of columns": {"more": ROWS | {"rows": array("float32", 1, 96)}},
    "C turned": {"more": ROWS | {"c": array("bfloat16", 96, 96) | {"layout": "col"}}},
}


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("wrong", WRONG)
def test_tiles_of_another_product_are_found(wrong: str, arch: str) -> None:
    """The statements are right by themselves, but they are not what the op means."""
    meant, other = tilegen.load(spec_of(**RIGHT, arch=arch)), tilegen.load(spec_of(**RIGHT | WRONG[wrong], arch=arch))
    assert proof_code(lambda: prove(meant, plan_spec(meant))) == ""
    mixed = replace(other, whole=meant.whole)
    assert proof_code(lambda: prove(mixed, plan_spec(mixed))) == "TG420"


@pytest.mark.parametrize("change", ["k - 1", "first", "m and n"])
def test_statements_that_leave_out_or_exchange_are_found(change: str) -> None:
    spec = tilegen.load(spec_of(256, 256, 256, tile=[64, 64, 64], ctas=4))
    text = print_spec(tilegen.expand(spec))
    rules = {
        "k - 1": ("- for: {k: 4}", "- for: {k: 3}"), "first": ('dst: "D[m*64', 'dst: "D[(3 - m)*64'),
        "m and n": ('"A[m*64 : +64, k*64 : +64]"', '"A[n*64 : +64, k*64 : +64]"'),
    }  # fmt: skip
    before, after = rules[change]
    changed = "\n".join(line.replace(before, after) if before in line else line for line in text.splitlines()) + "\n"
    assert changed != text
    other = tilegen.load(changed)
    mixed = replace(other, whole=spec.whole)
    assert proof_code(lambda: prove(mixed, plan_spec(mixed))) in ("TG420", "TG413", "TG433", "TG418")


# ---------------------------------------------------------------- what is chosen and printed
@pytest.mark.parametrize("seed", range(4))
def test_what_is_printed_is_the_same_kernel(seed: int) -> None:
    spec = tilegen.load(draw_problem(seed))
    expanded = tilegen.expand(spec)
    text = print_spec(expanded)
    again = tilegen.load(text)
    assert again == expanded
    assert plan_spec(again).roles == plan_spec(spec).roles


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"variant": "wgmma", "arch": "sm_80"}, "wgmma: sm_80 has no wgmma"),
        ({"variant": "simt"}, "fused multiply-adds are of float32 and float64, not bfloat16"),
        ({"variant": "wgmma", "n": 81}, "aligned to 2 bytes, TMA needs 16"),
        ({"variant": "wgmma", "dtype": "int8", "result": "int32"}, "along K alone"),
        ({"tile": [128, 256, 64], "stages": 9}, "no recipe carries out this gemm with what is pinned"),
    ],
)
def test_pins_that_cannot_be_say_why(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match="TG302") as caught:
        tilegen.load(spec_of(**fields))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"more": {"bias": array("float32", 81)}, "bias": "bias"}, "TG212"), ({"d": "A"}, "TG212"),
        ({"more": {"E": array("bfloat16", 80, 64)}, "b": "E"}, "TG212"), ({"math": "tf32"}, "TG302"),
        ({"more": {"E": array("float16", 64, 80)}, "b": "E"}, "TG212"), ({"epilogue": "acc + nobody"}, "TG105"),
        ({"dtype": "int16"}, "TG301"), ({"bias": "missing"}, "TG105"), ({"tile": [128, 128]}, "TG106"),
        ({"epilogue": "acc + bx"}, "TG302"), ({"epilogue": "acc + kt"}, "TG105"),
    ],
)  # fmt: skip
def test_calls_that_cannot_be_are_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(SpecError) as caught:
        tilegen.load(spec_of(**fields))
    assert caught.value.diagnostics[0].code == code, str(caught.value)


@pytest.mark.parametrize("seed", range(6))
def test_closed_forms_count_what_a_plan_reads(seed: int) -> None:
    """Of random recipes, the bytes that all CTAs bring: k-tiles times a tile's rows of A and columns of B."""
    draw = random.Random(seed)
    m, n, k = (64 * draw.randint(4, 12) for _ in range(3))
    given = spec_of(m - m % 256 or 256, n - n % 256 or 256, k)
    call = tilegen.load(given).whole
    assert call is not None
    ranked, _ = rank_recipes(read_problem(call), ARCHES["sm_90a"], call.fields)
    recipe = draw.choice(ranked).recipe
    given["ops"][0]["gemm"] |= recipe.fields()
    spec = tilegen.load(given)
    plan, launch = plan_spec(spec), launch_of(spec)
    read = [a for a in compiled_accesses(plan) if a.memory.space == "global" and not a.writes]
    (bm, bn, bk), (m, n, k) = recipe.tile, read_problem(call).sides
    tiles = -(-m // bm) * -(-n // bn) * -(-k // bk)
    assert sum(count_bytes(a, launch, None) for a in read) == tiles * bk * (bm + bn // recipe.cluster) * 2
