"""Values that a caller promises: whatever is drawn of a range lies in it, and the kernel's runs draw nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilegen
from tests.session import examples
from tilegen.arithmetic.formats import FLOAT_FORMATS, largest, reject_value
from tilegen.arithmetic.values import Values, count_integers, draw_values, list_floats
from tilegen.dtypes import DTYPES, FACTOR, numpy_dtype
from tilegen.plan import arrays
from tilegen.proofs.floats import float_inputs
from tilegen.spec.printing import print_spec
from tilegen.verifying import make_image, verify_built

INTEGERS = [name for name, d in DTYPES.items() if d.kind in ("int", "uint")]
INDEX = np.arange(4000)


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(INTEGERS), st.data())
def test_drawn_integers_lie_in_their_range_and_reach_its_ends(dtype: str, data: st.DataObject) -> None:
    info = np.iinfo(numpy_dtype(dtype))
    low = data.draw(st.integers(int(info.min), int(info.max)))
    high = data.draw(st.integers(low + 1, int(info.max) + 1))
    values = Values(low, high, data.draw(st.integers(1, max(1, min(high - low, 1 << 40)))))
    drawn = [int(x) for x in draw_values(values, dtype, "X", 3)(INDEX)]
    assert all(low <= x < high and (x - low) % values.step == 0 for x in drawn)
    assert min(drawn) == low and max(drawn) == low + (count_integers(values) - 1) * values.step


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(sorted(FLOAT_FORMATS.keys() - {FACTOR})), st.floats(-1, 1), st.floats(-1, 1), st.integers(0, 30))
def test_drawn_floats_lie_in_their_range(dtype: str, a: float, b: float, digits: int) -> None:
    """Small and large ranges: where the type has a value in it, one is drawn; where it has none, none is."""
    low, high = (x * largest(dtype) / 2.0**digits for x in sorted((a, b)))
    if not low < high:
        return
    found = list_floats(low, high, dtype).astype(np.float64)
    assert ((low <= found) & (found < high)).all()
    inside = [x for x in (low, (low + high) / 2) if low <= float(np.array(x).astype(numpy_dtype(dtype))) < high]
    assert len(found) or not inside


LABELS = """kernel: labels
threads: 32
params: {N: {default: 50, max: 500}}
grid: {bx: ceil(N / 32)}
buffers:
  P: {scope: global, dtype: float32, shape: [N], values: "0.25 : 4.0"}
  L: {scope: global, dtype: int32, shape: [N], values: "-1 : N"}
  S: {scope: global, dtype: int64, shape: [N], values: "0 : N*8 : 8"}
  Y: {scope: global, dtype: float32, shape: [N]}
ops:
  - elementwise:
      dst: "Y[bx*32 : +32]"
      expr: "where(l < 0, 0.0, log(p)) + s"
      with: {p: "P[bx*32 : +32]", l: "L[bx*32 : +32]", s: "S[bx*32 : +32]"}
      edge: clip
"""


def test_runs_draw_what_is_promised() -> None:
    """Floats of a proof, and the images that a GPU gets, at each size."""
    built = tilegen.build(LABELS)
    for case in ({"N": 50}, {"N": 3}):
        ends = {"P": (0.25, 4.0), "L": (-1, case["N"]), "S": (0, case["N"] * 8)}
        inputs = float_inputs(built.plan, 5, case)
        memories = {m.name: m for m in arrays(built.plan)}
        for name, (low, high) in ends.items():
            for drawn in (inputs[name](INDEX), make_image(built.spec, memories[name], case, 7)):
                assert ((low <= drawn) & (drawn < high)).all(), name
        assert {int(x) for x in inputs["L"](INDEX)} >= {-1, case["N"] - 1}
        assert (inputs["S"](INDEX) % 8 == 0).all()
    assert "PROMISED by the caller: values -1 : N" in built.source


def test_a_meaning_gets_what_is_promised() -> None:
    """Without the range a logarithm of what is negative would be no number."""

    def meant(P: np.ndarray, L: np.ndarray, S: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        assert (P >= 0.25).all() and (L >= -1).all()
        return np.where(L < 0, 0.0, np.log(P)) + S

    found = verify_built(tilegen.build(LABELS), "cpu", (2, 3), meant)
    assert not any("without a bound" in line for line in found.lines)


def test_ranges_are_printed_and_read_again() -> None:
    spec = tilegen.load(LABELS)
    text = print_spec(spec)
    assert 'values: "-1 : N"' in text and 'values: "0 : N * 8 : 8"' in text and 'values: "0.25 : 4.0"' in text
    assert tilegen.load(text) == spec


@pytest.mark.parametrize(
    ("value", "dtype", "is_one"),
    [(1, "bool", True), (0.1, "float8_e4m3fn", True), (1e9, "float16", False), (-1, "uint32", False)],
)
def test_numbers_of_a_type(value: float, dtype: str, is_one: bool) -> None:
    assert (reject_value(value, dtype) is None) == is_one
