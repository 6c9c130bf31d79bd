"""The measured products: the odd ones are those that seed 1 draws, every one is a spec of the op gemm, and where many
recipes of one were measured, the pick is about as fast as the best."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from gemm_cases import ODD_COUNT, ODD_FILE, Product, all_products, draw_odd, odd_products, odd_text
from gemm_page import find_pick_and_best
from sweep_gemm import find_shapes, list_pins

from tilegen.ops import ALL_OPS
from tilegen.spec import load


def test_the_odd_products_are_the_drawn_ones() -> None:
    assert ODD_FILE.read_text(encoding="utf-8") == odd_text(draw_odd())
    assert odd_products() == draw_odd() != draw_odd(seed=2)


def test_the_odd_products_are_what_they_are_said_to_be() -> None:
    products = odd_products()
    assert len(products) == len(set(products)) == ODD_COUNT
    assert any(p.k == 17 for p in products) and any(p.batch for p in products)
    assert any(min(p.m, p.n) < 40 for p in products) and {p.dtype for p in products} >= {"bfloat16", "float32"}
    assert any(p.n % 8 for p in products) and any(p.n % 8 == 0 for p in products)


def test_names_tell_products_apart() -> None:
    assert len({p.name for p in all_products()}) == len(all_products())


@pytest.mark.parametrize("product", [p for p in all_products() if p.batch or "col" in p.orders[::2]], ids=str)
def test_a_product_is_a_spec(product: Product) -> None:
    spec = load(product.spec(), ALL_OPS)
    assert [call.op for call in spec.ops] == ["gemm"] and {b.name: b.shape for b in spec.buffers} == product.shapes


SWEEPS = Path(__file__).resolve().parents[2] / "docs" / "results" / "gemm"
SWEPT = [
    pytest.param(name, rows, id=name)
    for path in sorted(SWEEPS.glob("*.json"))
    for name, rows in json.loads(path.read_text(encoding="utf-8")).get("shapes", {}).items()
    if any("ratio" in row for row in rows)
]
NEARLY = 1.05  # how much faster the best may be


@pytest.mark.parametrize(("name", "rows"), SWEPT)
def test_the_pick_is_nearly_the_best_that_was_measured(name: str, rows: list[dict[str, Any]]) -> None:
    (product,) = find_shapes([name])
    pins, _ = list_pins(product)[0]
    found = find_pick_and_best(rows)
    assert found is not None and found[0]["pins"] == pins
    assert found[1]["ratio"] <= NEARLY * found[0]["ratio"]
