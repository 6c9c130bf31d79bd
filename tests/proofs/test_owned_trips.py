"""Whether two trips of a loop write an element of an array, by the boxes of a spec."""

from __future__ import annotations

import pytest

from tilegen.pipeline import load
from tilegen.planner import plan_spec
from tilegen.proofs.meaning import parameter_cases
from tilegen.proofs.owned_trips import are_owned_apart

HEAD = """
kernel: rows
arch: sm_90
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [2048]}
  Y: {scope: global, dtype: float32, shape: [2112]}
ops:
"""
LOOP = """  - for: {k: 64}
    do:
      - copy: {src: "X[k*32 : +32]", dst: "Y[AT : +32]"}
"""
OUTSIDE = """  - copy: {src: "X[0 : +32]", dst: "Y[0 : +32]"}
"""


@pytest.mark.parametrize(
    ("body", "is_apart"),
    [
        (LOOP.replace("AT", "k*32"), True),
        (LOOP.replace("AT", "k*16"), False),
        (LOOP.replace("AT", "k*32") * 2, False),  # a trip of each writes the same elements
        (LOOP.replace("AT", "k*32") + OUTSIDE, False),
    ],
)
def test_trips_are_apart_where_one_loop_writes_each_element_once(body: str, is_apart: bool) -> None:
    spec = load(HEAD + body)
    assert are_owned_apart(spec, plan_spec(spec), "Y", "k", parameter_cases(spec)[0]) is is_apart
