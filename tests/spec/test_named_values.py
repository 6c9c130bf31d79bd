"""Values that an expression names: the same tree as with each name's value written in its place."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

import tilegen
from tilegen.pipeline import load
from tilegen.proofs.runs import check_run, list_runs
from tilegen.spec.data import Call
from tilegen.spec.outline import outline

LEAVES = ("x", "y", "s", "index(0)", "2.0", "bx + 1")
FORMS = ("({} + {})", "({} * {})", "max({}, {})", "where({} < {}, x, s)", "({} - {})", "exp({}) + {}")


def draw_values(seed: int) -> tuple[str, str]:
    """An expression with names for values, and the same with the values written out."""
    rng = random.Random(seed)
    known: list[tuple[str, str]] = [(leaf, f"({leaf})") for leaf in LEAVES]
    text = ""
    count = rng.randint(1, 4)
    for k in range(count):
        (a, a_out), (b, b_out) = (rng.choice(known) if k == 0 or rng.random() < 0.5 else known[-1] for _ in range(2))
        form = rng.choice(FORMS)
        text += f"t{k} = {form.format(a, b)};{' ' * rng.randint(0, 2)}"
        known.append((f"t{k}", f"({form.format(a_out, b_out)})"))
    names, written = zip(*known[len(LEAVES) :], strict=True)
    return f"p = x * y; {text}p + {' + '.join(names)}", f"x * y + {' + '.join(written)}"


def kernel(expr: str, op: str) -> dict[str, Any]:
    said = {"expr": expr, "with": {"x": "X[bx]", "y": "Z[bx]"}}
    compute = {"elementwise": {**said, "dst": "Y[bx]"}}
    if op == "reduce":
        compute = {"reduce": {**said, "dst": "r", "axis": 0, "op": "sum"}}
    arrays = {name: {"scope": "global", "dtype": "float32", "shape": [2, 64]} for name in "XYZ"}
    registers = {"r": {"scope": "register", "dtype": "float32", "shape": [1], "layout": "auto"}}
    store = {"copy": {"src": "r", "dst": "Y[bx, 0 : +1]"}}
    if op == "reduce":
        arrays["Y"]["shape"] = [2, 1]
    return {
        "kernel": "named", "threads": 64, "grid": {"bx": 2}, "params": {"s": {"dtype": "float32", "default": 0.5}},
        "buffers": arrays | (registers if op == "reduce" else {}), "ops": [compute, *[store] * (op == "reduce")],
    }  # fmt: skip


def tree_of(spec: dict[str, Any]) -> Any:
    call = outline(load(spec)).calls[0]
    assert isinstance(call, Call) and call.expression is not None
    return call.expression.tree, call.expression.wholes


@pytest.mark.sweep(6)
@pytest.mark.parametrize("op", ["elementwise", "reduce"])
@pytest.mark.parametrize("seed", range(12))
def test_a_name_stands_for_its_value(seed: int, op: str) -> None:
    named, written = draw_values(seed)
    assert tree_of(kernel(named, op)) == tree_of(kernel(written, op))


@pytest.mark.parametrize("op", ["elementwise", "reduce"])
def test_kernels_with_named_values_are_proved(op: str) -> None:
    built = tilegen.build(kernel("t = x + y; u = t * t; where(t > s, u, -u) + u", op))
    for run in list_runs(built.spec, built.plan):
        check_run(built.spec, built.plan, run, 2)


def test_an_epilogue_names_values_whatever_the_expansion_calls_its_own() -> None:
    """gelu of acc + bias, said once; t, k and g are names of the tiles' order, too."""

    def product(epilogue: str) -> dict[str, Any]:
        shapes = {"A": [64, 64], "B": [64, 64], "D": [64, 64], "v": [64]}
        buffers = {
            n: {"scope": "global", "dtype": "float32" if n == "v" else "float16", "shape": s} for n, s in shapes.items()
        }
        gemm = {"a": "A", "b": "B", "d": "D", "bias": "v", "alpha": 2.0, "epilogue": epilogue}
        return {"kernel": "gelu", "arch": "sm_90a", "buffers": buffers, "ops": [{"gemm": gemm}]}

    named = tilegen.build(product("t = alpha * acc + bias; k = 0.5 * t; g = t * 0.7071; k * (1.0 + erf(g))"))
    t = "(alpha * acc + bias)"
    written = tilegen.build(product(f"0.5 * {t} * (1.0 + erf({t} * 0.7071))"))
    bodies = [built.source.split("__device__", 1)[1] for built in (named, written)]
    assert re.sub(r"\b([tkg])2(_trip)?\b", r"\1\2", bodies[0]) == bodies[1]
