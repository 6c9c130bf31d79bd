"""Specs that compute: a plan of another meaning is found exactly, a function that rounds too much by its bound."""

from __future__ import annotations

import numpy as np
import pytest

import tilegen
from tests.faults.verdicts import refusal_of
from tilegen.arithmetic import functions, typed
from tilegen.errors import ProofError
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.floats import check_floats, computes, draw_floats
from tilegen.proofs.meaning import check_meaning
from tilegen.spec.data import Spec

SOFTMAX = """
kernel: softmax
arch: sm_90
params: {M: {default: 9}, N: {default: 100, max: 128, multiple_of: 4}}
grid: {bx: ceil(M / 4)}
threads: 128
buffers:
  X: {scope: global, dtype: float32, shape: [M, N]}
  Y: {scope: global, dtype: float32, shape: [M, N]}
  x: {scope: register, dtype: float32, shape: [1, 128], layout: "S[(1, 32, 4) : (1, 1@laneid, 1@m)]"}
  most: {scope: register, dtype: float32, shape: [1, 1], layout: "S[(1, 1) : (1, 1)] + R[32 : 1@laneid]"}
  sum: {scope: register, dtype: float32, shape: [1, 1], layout: "S[(1, 1) : (1, 1)] + R[32 : 1@laneid]"}
ops:
  - copy: {scope: warp, src: "X[bx*4 + warpid : +1, 0 : +128]", dst: x, edge: clip}
  - elementwise: {scope: warp, dst: x, expr: "where(index(1) < N, x, -inf)"}
  - reduce: {scope: warp, src: x, dst: most, axis: 1, op: max}
  - elementwise: {scope: warp, dst: x, expr: "exp2((x - most) * 1.4426950408889634)"}
  - reduce: {scope: warp, src: x, dst: sum, axis: 1, op: sum}
  - elementwise: {scope: warp, dst: "Y[bx*4 + warpid : +1, 0 : +128]", expr: "x / sum", edge: clip}
"""
CTAS = [(0, 0, 0), (2, 0, 0)]
CASE = {"M": 9, "N": 100}

OTHERS = {
    "swapped operands": ('"x / sum"', '"sum / x"'),
    "a difference turned": ("(x - most)", "(most - x)"),
    "another function": ("exp2(", "exp("),
    "another reduction": ("op: max", "op: min"),
    "a maximum that is missing": ("(x - most)", "x"),
    "another constant": ("1.4426950408889634", "1.4426950408889"),
    "a mask off by one": ("index(1) < N", "index(1) < N - 1"),
    "a mask off by one the other way": ("index(1) < N", "index(1) <= N"),
    "no mask": ("where(index(1) < N, x, -inf)", "x + 0.0"),
    "a mask with zeros": ("x, -inf)", "x, 0)"),
    "a sum that takes its elements twice": ("src: x, dst: sum", "expr: x + x, dst: sum"),
    "a product in place of a quotient": ('"x / sum"', '"x * sum"'),
    "a rounding that is missing": ("dst: x, edge: clip}", "dst: x, edge: clip}\n  - elementwise: {scope: warp, dst: x,"
                                   " expr: floor(x)}"),
}  # fmt: skip


def load(text: str) -> Spec:
    return tilegen.load(text)


def test_the_kernel_itself_is_right_and_says_how_near_it_came() -> None:
    built = tilegen.build(SOFTMAX)
    (note,) = (n for n in built.proof.notes if n.startswith("float"))
    assert "Y: largest error" in note and "of its bound" in note
    assert computes(built.spec)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("change", OTHERS.values(), ids=list(OTHERS))
def test_a_plan_of_another_meaning_is_found(change: tuple[str, str]) -> None:
    spec, other = load(SOFTMAX), load(SOFTMAX.replace(*change))
    assert spec.ops != other.ops
    plan = tilegen.build(other).plan
    with pytest.raises(ProofError, match="TG420"):
        check_meaning(spec, plan, CTAS, CASE)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("change", ["other sum", "other maximum"])
def test_what_is_the_same_number_is_the_same_value(change: str) -> None:
    """Elements in another order, by a layout in which lanes own other ones."""
    text = SOFTMAX.replace("S[(1, 32, 4) : (1, 1@laneid, 1@m)]", "S[(1, 4, 32) : (1, 1@m, 1@laneid)]")
    plan = tilegen.build(text).plan
    assert plan != tilegen.build(SOFTMAX).plan
    assert check_meaning(load(SOFTMAX), plan, CTAS, CASE) > 0
    assert check_floats(load(SOFTMAX), plan, CTAS, CASE)


@pytest.mark.parametrize("name,off,is_found", [("*", 3e-5, True), ("/", 3e-5, True), ("exp2", 1e-8, False),
                                               ("+", 1e-3, True)])  # fmt: skip
def test_a_function_that_rounds_too_much_is_found(
    name: str, off: float, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's function is off by so much of its value; the table says nothing of it."""
    apply = typed.apply_typed

    def worse(function: str, args: object, type_: str) -> object:
        exact = apply(function, args, type_)  # type: ignore[arg-type]
        return (exact * (1 + off)).astype(type_) if function == name and type_ == "float32" else exact

    monkeypatch.setattr(typed, "apply_typed", worse)
    if not is_found:
        tilegen.build(SOFTMAX)
        return
    (found,) = refusal_of(ProofError, tilegen.build, SOFTMAX).diagnostics
    assert found.code == "TG427" and found.message.startswith("Y is ") and "element offset" in found.message


def test_every_function_has_a_spread() -> None:
    """A row whose error nobody knows how to carry on fails at its first use, by name."""
    row = functions._rounded("cube", 1, lambda x: x**3, {"float32": "{0}"})
    from tilegen.arithmetic.bounded import _spread_by_ends
    from tilegen.arithmetic.bounds import Bound

    with pytest.raises(ValueError, match="cube"):
        _spread_by_ends(row, np.zeros(1), Bound(np.zeros(1), np.ones(1)))


def test_what_is_drawn_is_normal() -> None:
    floats = draw_floats("X", "float64")(np.arange(20000))
    assert abs(floats.mean()) < 0.03 and abs(floats.std() - 1) < 0.03
    assert (floats[:100] == draw_floats("X", "float64")(np.arange(100))).all()
    assert (floats[:100] != draw_floats("Y", "float64")(np.arange(100))).all()
    assert set(draw_floats("X", "int8")(np.arange(2000)).tolist()) == set(range(-8, 8))
    assert set(draw_floats("X", "bool")(np.arange(100)).tolist()) == {False, True}


TIES = """
kernel: ties
threads: 128
grid: {bx: 4}
buffers:
  X: {scope: global, dtype: DTYPE, shape: [1024]}
  Z: {scope: global, dtype: DTYPE, shape: [1024]}
  Y: {scope: global, dtype: float32, shape: [1024]}
ops:
  - elementwise: {dst: "Y[bx*256 : +256]", expr: "EXPR", with: {x: "X[bx*256 : +256]", z: "Z[bx*256 : +256]"}}
"""


@pytest.mark.sweep(6)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    ("meant", "planned"),
    [
        ("x > z", "x >= z"),
        ("x <= z", "x < z"),
        ("x > 0.0 and z < 9.0", "x >= 0.0 and z < 9.0"),
        ("x == z", "x > z and x < z"),
    ],
)
def test_what_two_equal_floats_decide_is_told(meant, planned, dtype):
    spec, other = (
        load(TIES.replace("DTYPE", dtype).replace("EXPR", f"where({c}, 1.0, 0.5)")) for c in (meant, planned)
    )
    prove(spec, plan_spec(spec))
    with pytest.raises(ProofError):
        prove(spec, plan_spec(other))
