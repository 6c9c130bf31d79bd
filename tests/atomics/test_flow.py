"""Where sums of floats in any order may go: into floats, and into nothing that decides (TG217)."""

from __future__ import annotations

import re

import pytest

import tilegen
from tests.faults.verdicts import build_codes
from tilegen.spec.accumulated import accumulated_arrays, find_unordered, list_unordered
from tilegen.spec.program import Program

ONE = """kernel: one
arch: sm_90
threads: 64
grid: {bx: 4}
buffers:
  X: {scope: global, dtype: DTYPE, shape: [4, 64]}
  Y: {scope: global, dtype: float32, shape: [4, 64]}
  K: {scope: global, dtype: int32, shape: [4, 64]}
  s: {scope: shared, dtype: DTYPE, shape: [64]}
  t: {scope: register, dtype: float32, shape: [64], layout: auto}
  m: {scope: register, dtype: float32, shape: [1], layout: auto}
  i: {scope: register, dtype: int32, shape: [1], layout: auto}
ops:
  - fill: {dst: s, value: 0}
  - sync: cta
  - copy: {src: "X[bx]", dst: s, accumulate: add}
  - sync: cta
"""
STORE_T = '  - copy: {src: t, dst: "Y[bx]"}\n'
FINE = {
    "a product": '  - elementwise: {dst: t, expr: "s * 2.0 + exp(s)"}\n' + STORE_T,
    "a maximum": '  - elementwise: {dst: t, expr: "max(s, 0.0)"}\n' + STORE_T,
    "a choice by the place": '  - elementwise: {dst: t, expr: "where(index(0) < 3, s, 0.0)"}\n' + STORE_T,
    "a comparison of others": '  - elementwise: {dst: t, expr: "where(x > 0.0, s, 0.0)", with: {x: "X[bx]"}}\n'
    + STORE_T,
    "a maximum of all": '  - reduce: {src: s, dst: m, axis: 0, op: max}\n  - copy: {src: m, dst: "Y[bx, 0 : +1]"}\n',
}  # fmt: skip
WRONG = {
    "a comparison": '  - elementwise: {dst: t, expr: "where(s > 0.0, 1.0, 0.0)"}\n' + STORE_T,
    "a comparison further on": '  - elementwise: {dst: t, expr: "s + 1.0"}\n'
    '  - elementwise: {dst: "Y[bx]", expr: "where(t > 0.0, 1.0, 0.0)"}\n',
    "an integer": '  - cast: {src: s, dst: "K[bx]"}\n',
    "an integer by an expression": '  - elementwise: {dst: "K[bx]", expr: "s * 2.0"}\n',
    "the place of the largest": "  - reduce: {src: s, dst: m, index: i, axis: 0, op: argmax}\n"
    '  - copy: {src: i, dst: "K[bx, 0 : +1]"}\n',
    "in the trip after": '  - fill: {dst: t, value: 0}\n  - for: {k: 2}\n    do:\n'
    '      - elementwise: {dst: "Y[bx]", expr: "where(t > 0.0, 1.0, 0.0)"}\n      - copy: {src: s, dst: t}\n',
}  # fmt: skip


def _write(ops: str) -> str:
    """The spec of these operations, with no register tile that none of them names."""
    unused = [f"  {name}: {{scope: register" for name in "tmi" if not re.search(rf"\b{name}\b", ops)]
    return "".join(line for line in ONE.splitlines(keepends=True) if not line.startswith(tuple(unused))) + ops


@pytest.mark.parametrize("flow", FINE)
def test_what_stays_a_float_is_fine(flow: str) -> None:
    found = build_codes(_write(FINE[flow]).replace("DTYPE", "float32"))
    assert "TG217" not in found and found <= {"TG418"}, found  # of an output a part may be left


@pytest.mark.parametrize("flow", WRONG)
def test_what_decides_is_refused(flow: str) -> None:
    assert "TG217" in build_codes(_write(WRONG[flow]).replace("DTYPE", "float32"))


def test_sums_of_integers_may_decide() -> None:
    text = _write('  - elementwise: {dst: "K[bx]", expr: "where(s > 3, s, 0)"}\n')
    assert build_codes(text.replace("DTYPE", "int32")) <= {"TG418"}


PASSES = """kernel: passes
arch: sm_90
buffers:
  X: {scope: global, dtype: float32, shape: [8, 32]}
  W: {scope: workspace, dtype: float32, shape: [32]}
  V: {scope: workspace, dtype: float32, shape: [32]}
  Y: {scope: global, dtype: float32, shape: [32]}
passes:
  - name: clear
    threads: 32
    ops:
      - fill: {dst: W, value: 0}
  - name: add
    grid: {bx: 8}
    threads: 32
    ops:
      - copy: {src: "X[bx]", dst: W, accumulate: add}
  - name: scale
    threads: 32
    ops:
      - elementwise: {dst: V, expr: "W * 0.5"}
  - name: last
    threads: 32
    ops:
      - elementwise: {dst: Y, expr: "EXPR"}
"""


def test_passes_hand_it_on() -> None:
    program = tilegen.load(PASSES.replace("EXPR", "V + 1.0"))
    assert isinstance(program, Program)
    assert list_unordered(program) == {"W", "V", "Y"} and build_codes(PASSES.replace("EXPR", "V + 1.0")) == set()
    assert [find_unordered(one.spec) for one in program.passes] == [set(), {"W"}, set(), set()]
    assert [accumulated_arrays(one.spec) for one in program.passes] == [set(), {"W"}, set(), set()]
    assert build_codes(PASSES.replace("EXPR", "where(V > 1.0, 1.0, 0.0)")) == {"TG217"}


def test_a_workspace_is_cleared_before() -> None:
    clear = PASSES[PASSES.index("  - name: clear") : PASSES.index("  - name: add")]
    assert build_codes(PASSES.replace("EXPR", "V + 1.0").replace(clear, "")) & {"TG404", "TG429"}
    half = clear.replace("dst: W", 'dst: "W[0:16]"')
    assert build_codes(PASSES.replace("EXPR", "V + 1.0").replace(clear, half)) == {"TG429"}
