"""Expressions that compute: what a text becomes."""

from __future__ import annotations

import numpy as np
import pytest

from tilegen.arithmetic import evaluate_typed
from tilegen.ops import ALL_OPS
from tilegen.spec import load

SPEC = """kernel: k
threads: 32
buffers:
  x: {{scope: register, dtype: float32, shape: [32], layout: "S[32:1@laneid]"}}
  y: {{scope: register, dtype: float32, shape: [32], layout: "S[32:1@laneid]"}}
  z: {{scope: register, dtype: float32, shape: [32], layout: "S[32:1@laneid]"}}
ops:
  - elementwise: {{scope: warp, dst: z, expr: "{text}"}}
"""


TEXTS = ["(x - y) * 2.0", "2.0 * (x)", "((x - y)) * (y - x)", "-(x + y)", "(x < y) and (y > x)"]


@pytest.mark.parametrize("text", TEXTS)
def test_parentheses_keep_what_is_inside(text: str) -> None:
    wanted = f"where({text}, x, y)" if "and" in text else text
    call = load(SPEC.format(text=wanted), ALL_OPS).ops[0]
    x, y = np.float32([1, 5, -3]), np.float32([2, 1, 7])
    by_name = {"x": x, "y": y}
    elements = [by_name[name] for name in call.expression.operands]
    found = evaluate_typed(call.expression.tree, elements, [], {}, "float32")
    python = np.where((x < y) & (y > x), x, y) if "and" in text else eval(text, {}, by_name)
    assert np.array_equal(found, python)
