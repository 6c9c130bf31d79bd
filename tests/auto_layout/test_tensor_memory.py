"""'auto' in tensor memory: what products, copies and registers ask, against written layouts and enumeration."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tilegen.layouts import canonicalize, find_cells, is_injective, parse, tmem_mma_operand_layout, tmem_scale_layout
from tilegen.ops.cells import are_same, lay_out_factors
from tilegen.pipeline import load
from tilegen.planner import plan_spec
from tilegen.spec.tensor_memory import lay_out_rows, suggest_placement

SPECS = Path(__file__).parents[2] / "specs"
WRITTEN = {  # as a person wrote them before 'auto' was there
    "hgemm_blackwell": {"acc": "S[(2, 128, 256):(256@TCol, 1@TLane, 1@TCol)]"},
    "gemm_mxfp8": {
        "acc": "S[(2, 128, 224):(224@TCol, 1@TLane, 1@TCol)]",
        "ta": "S[(4, 4, 32, 4):(16@TCol, 4@TCol, 1@TLane, 1@TCol)] + R[4:32@TLane]",
        "tb": "S[(4, 8, 32, 4):(32@TCol, 4@TCol, 1@TLane, 1@TCol)] + R[4:32@TLane]",
    },
    "attention_blackwell": {
        "s": "S[(2, 128, 128):(128@TCol, 1@TLane, 1@TCol)]", "o": "S[(128, 128):(1@TLane, 1@TCol)]",
        "p": "S[(2, 128, 128):(128@TCol, 1@TLane, 1@TCol)]",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_specs_get_the_layouts_that_were_written(name: str) -> None:
    spec = load(SPECS / f"{name}.yaml")
    assert {b.name: str(b.layout) for b in spec.buffers if b.traits.has_cells} == WRITTEN[name]
    said = {c.question: c for c in spec.choices}
    for buffer, layout in WRITTEN[name].items():
        choice = said[f"layout of {buffer}"]
        assert choice.picked == layout and " at " in choice.proof


def write(shape: str, region: str, layout: str = "auto", m: int = 128, n: int = 64) -> str:
    """A product into a part of an accumulator of this shape."""
    return f"""
kernel: k
arch: sm_100a
threads: 128
buffers:
  sa: {{scope: shared, dtype: float16, shape: [{m}, 64], layout: auto}}
  sb: {{scope: shared, dtype: float16, shape: [64, {n}], layout: auto}}
  c: {{scope: tmem, dtype: float32, shape: {shape}, layout: "{layout}"}}
barriers: {{done: {{slots: 1}}}}
ops:
  - mma: {{a: sa, b: sb, c: "{region}", accumulate: false, async: true}}
  - commit: {{barrier: done}}
"""


@pytest.mark.parametrize(
    ("shape", "region", "m", "layout"),
    [
        ("[128, 64]", "c", 128, "S[(128, 64):(1@TLane, 1@TCol)]"),
        ("[3, 2, 128, 64]", "c[1, 0]", 128, "S[(3, 2, 128, 64):(128@TCol, 64@TCol, 1@TLane, 1@TCol)]"),
        ("[256, 64]", "c", 256, "S[(2, 128, 64):(64@TCol, 1@TLane, 1@TCol)]"),
        ("[2, 256, 64]", "c[1]", 256, "S[(2, 2, 128, 64):(128@TCol, 64@TCol, 1@TLane, 1@TCol)]"),
        ("[128, 2, 64]", "c[:, 1]", 128, "S[(128, 2, 64):(1@TLane, 64@TCol, 1@TCol)]"),
        ("[128, 192]", "c[:, 64 : +64]", 128, "S[(128, 192):(1@TLane, 1@TCol)]"),
        ("[128, 64, 4]", "c[:, :, 2]", 128, "S[(128, 64, 4):(1@TLane, 1@TCol, 64@TCol)]"),
    ],
)
def test_an_accumulator_lies_as_the_product_writes_it(shape: str, region: str, m: int, layout: str) -> None:
    spec = load(write(shape, region, m=m))
    assert str(spec.buffer("c").layout) == layout
    (mma, *_) = plan_spec(spec).operations
    assert mma.variant == "tcgen05"
    assert plan_spec(load(write(shape, region, layout, m))).roles == plan_spec(spec).roles


def test_rows_are_in_lanes_and_nothing_meets() -> None:
    """Element by element: row r in lane r modulo 128, columns neighbours, every cell for one element, none left out."""
    for outer, rows, columns in product((1, 2, 3), (32, 64, 96, 128, 256, 384), (8, 24, 64)):
        for order in ((0, 1, 2), (1, 0, 2), (1, 2, 0)):
            extents = {0: outer, 1: rows, 2: columns}
            shape = tuple(extents[d] for d in order)
            layout = lay_out_rows(shape, order.index(1), order.index(2))
            places = layout.place(tuple(np.indices(shape)), shape)
            lane, column = (np.broadcast_to(places.get(axis, 0), shape) for axis in ("TLane", "TCol"))
            lane, column = (x.transpose([order.index(d) for d in (0, 1, 2)]) for x in (lane, column))
            lanes = int(lane.max()) + 1
            assert (lane == np.arange(rows)[:, None] % lanes).all() and rows % lanes == 0
            assert (np.diff(column, axis=2) == 1).all()
            cells = set(zip(lane.ravel().tolist(), column.ravel().tolist(), strict=True))
            assert len(cells) == lane.size == lanes * (int(column.max()) + 1)
            if order == (0, 1, 2) and (text := suggest_placement(shape, "float32")):
                assert are_same(layout, parse(text))


def test_operands_are_those_of_the_constructors() -> None:
    for cols in (8, 64, 256):
        assert are_same(lay_out_rows((128, cols), 0, 1), tmem_mma_operand_layout("C", 128, cols))
        assert are_same(lay_out_rows((128, cols), 0, 1), tmem_mma_operand_layout("A", 128, cols))
    for rows, steps in product((128, 256, 384), (4, 8, 16)):
        found = lay_out_factors((rows, steps))
        assert found is not None and canonicalize(found) == canonicalize(tmem_scale_layout(rows, steps))
    for rows, steps in product((32, 96, 224), (1, 2, 4, 8)):
        found = lay_out_factors((3, rows, steps))
        assert found is not None and is_injective(found) and find_cells(found, 8).copies == 4
    assert lay_out_factors((48, 4)) is lay_out_factors((128, 6)) is lay_out_factors((4,)) is None


COPIED = """
kernel: k
arch: sm_100a
threads: 128
buffers:
  X: {scope: global, dtype: float32, shape: [128, 64]}
  Y: {scope: global, dtype: float32, shape: [128, 64]}
  t: {scope: tmem, dtype: float32, shape: [2, 128, 64], layout: auto}
  more: {scope: tmem, dtype: bfloat16, shape: [128, 32], layout: auto}
  h: {scope: register, dtype: float32, shape: [128, 64], layout: auto}
ops:
  - copy: {src: X, dst: h}
  - copy: {src: h, dst: "t[1]"}
  - copy: {src: "t[1]", dst: h}
  - copy: {src: h, dst: Y}
"""


def test_registers_alone_put_rows_in_lanes() -> None:
    spec = load(COPIED)
    assert str(spec.buffer("t").layout) == "S[(2, 128, 64):(64@TCol, 1@TLane, 1@TCol)]"
    assert str(spec.buffer("more").layout) == "S[(128, 32):(1@TLane, 1@TCol)]"
    said = {c.question: c.proof for c in spec.choices}
    assert said["layout of more"].startswith("no op touches it")
    assert plan_spec(spec).tensor_columns == 256  # 128 and 16


def test_what_a_product_needs_comes_before_what_a_copy_takes() -> None:
    """A copy to registers in the text before the product would do with other dimensions as rows."""
    text = write("[128, 2, 128]", "c[:, 1]", n=128)
    text = text.replace("ops:", "ops:\n  - copy: {src: 'c[0]', dst: h, scope: warpgroup}")
    registers = "  h: {scope: register, dtype: float32, shape: [2, 128], layout: 'S[(2, 128):(1, 1@tid_in_wg)]'}\n"
    found = load(text.replace("barriers", f"{registers}barriers")).buffer("c")
    assert str(found.layout) == "S[(128, 2, 128):(1@TLane, 128@TCol, 1@TCol)]"
