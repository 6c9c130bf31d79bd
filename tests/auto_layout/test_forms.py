"""Other orders and panels: their numbers, what descriptors take of them, and what 'auto' makes of operands of mma."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from specs.kernels import ROOT

import tilegen
from tests.auto_layout.test_auto import choice_of, load_plain, pin
from tests.oracles import layout_brute
from tests.oracles.layout_regret import place
from tilegen import layouts
from tilegen.auto_layout.alternatives import list_indexed_dims, renumber, touched_calls
from tilegen.auto_layout.families import enumerate_form, place_elements, span_elems
from tilegen.auto_layout.forms import count_stages, list_forms, rows_form
from tilegen.auto_layout.pin import pin_layout
from tilegen.auto_layout.search import plan_with
from tilegen.auto_layout.tile_access import count_wavefronts, tile_access
from tilegen.layouts import row_major
from tilegen.ops import OPS
from tilegen.pipeline import Built

SHAPES = [
    ((16, 32), 4, 0), ((12, 24), 2, 0), ((3, 16, 40), 2, 1), ((4, 6, 8), 4, 0), ((2, 1, 8, 32), 1, 1), ((64,), 1, 0),
]  # fmt: skip


# ---------------------------------------------------------------- forms
@pytest.mark.parametrize(("shape", "size", "stages"), SHAPES)
def test_numbers_and_values_say_the_same(shape: tuple[int, ...], size: int, stages: int) -> None:
    """Each layout of each form puts an element where its value and its text put it; no two are one."""
    found = set()
    rows = rows_form(shape)
    for form in list_forms(shape, size, stages):
        numbers = rows.numbers_in(form)
        assert (form.numbers_in(rows)[numbers] == np.arange(len(numbers))).all()
        for f in enumerate_form(form, size):
            addresses = place_elements([f], form.extents, numbers)[0]
            assert (addresses == place(f.layout, shape)).all(), f.text
            assert len(np.unique(addresses)) == len(addresses) <= span_elems(f, form.extents) == addresses.max() + 1
            assert f.text == "row" or layouts.parse(f.text) == f.layout
            assert f.layout not in found
            found.add(f.layout)


@pytest.mark.parametrize("shape", [(3, 16, 32), (2, 64, 48)])
def test_stages_lie_one_behind_the_other(shape: tuple[int, ...]) -> None:
    for form in list_forms(shape, 2, 1):
        addresses = place(enumerate_form(form, 2)[0].layout, shape).reshape(shape[0], -1)
        assert (addresses[:-1].max(axis=1) < addresses[1:].min(axis=1)).all()


def test_stages_are_what_every_region_indexes() -> None:
    text = """kernel: k
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [3, 8, 8]}
  Y: {scope: global, dtype: float32, shape: [8, 8]}
  s: {scope: shared, dtype: float32, shape: [2, 3, 8, 8], layout: auto}
  t: {view: s, axes: [1, 0, 3, 2]}
ops:
  - copy: {src: X, dst: "s[0]"}
  - sync: cta
  - copy: {src: "t[1, 0]", dst: Y}
"""
    spec = load_plain(text)
    spec = pin_layout(spec, "s", row_major((2, 3, 8, 8)), "row")
    indexed = list_indexed_dims(spec, spec.buffer("s"))
    assert indexed == [{0}, {0, 1}] and count_stages(4, indexed) == 1


@pytest.mark.parametrize("width", [1, 2, 4])
def test_an_access_costs_in_every_form_what_its_addresses_do(width: int) -> None:
    """Counted by the form's numbers, and by the model on the addresses that the layout gives to the elements."""
    shape, size = (16, 32), 4
    lanes = np.arange(32)
    accesses = [tile_access("ld", width, 32 * (lanes % 16) + width * (lanes // 16) + 8 * k) for k in range(3)]
    for form in list_forms(shape, size):
        moved = [renumber(a, rows_form(shape), form, size) for a in accesses]
        family = enumerate_form(form, size)
        counted = [count_wavefronts(family, form.extents, size, [a])[:, 0] for a in moved if a is not None]
        brute = [[layout_brute.count(place(f.layout, shape), size, [a]) for f in family] for a in accesses]
        for own, wanted in zip(counted, brute, strict=True) if counted else ():
            assert own.tolist() == [-1 if n is None else n for n in wanted]
        assert counted or all(n is None for row in brute for n in row)


# ---------------------------------------------------------------- what TMA can say
TMA = """kernel: moved
arch: sm_90
threads: 32
buffers:
  X: {{scope: global, dtype: {dtype}, shape: [2, {rows}, {columns}]{layout}}}
  Y: {{scope: global, dtype: {dtype}, shape: [2, {rows}, {columns}]}}
  s: {{scope: shared, dtype: {dtype}, shape: [2, {rows}, {columns}], layout: auto}}
ops:
  - for: {{j: 2}}
    do:
      - copy: {{src: "X[j]", dst: "s[j]", variant: tma, barrier: "full[j]"}}
  - wait: {{barrier: "full[0]"}}
  - copy: {{src: "s[0]", dst: "Y[0]"}}
"""


@pytest.mark.sweep(1)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("dtype", "rows", "columns"), [("float16", 64, 128), ("float32", 8, 48), ("uint8", 16, 32)])
def test_what_tma_is_said_to_take_is_what_is_planned(dtype: str, rows: int, columns: int, turned: bool) -> None:
    """``constrain`` against the planner, under every layout: modes none, 32, 64 and 128 B, either order, panels."""
    layout = f', layout: "S[(2,{rows},{columns}):({rows * columns},1,{rows})]"' if turned else ""
    spec = load_plain(TMA.format(dtype=dtype, rows=rows, columns=columns, layout=layout))
    spec = pin_layout(spec, "s", row_major((2, rows, columns)), "row")
    call, _ = touched_calls(spec, "s")[0]
    constrain = next(v for v in OPS["copy"].variants if v.name == "tma").constrain
    assert constrain is not None
    taken = []
    size = {"float16": 2, "float32": 4, "uint8": 1}[dtype]
    for form in list_forms((2, rows, columns), size, 1):
        for f in enumerate_form(form, size):
            buffer = pin_layout(spec, "s", f.layout).buffer("s")
            reason = constrain(call, buffer)
            if reason is None:
                taken.append(f)
            if reason is None or f.change != "swizzle" or f.bits[2] == 3:  # of other swizzles the mode is what is said
                planned = plan_with(spec, spec.buffer("s"), f).costed.reason
                assert (reason in planned) if reason else not planned, (f.text, reason, planned)
    assert taken and all(f.form.axes == ((0, 2, 1) if turned else (0, 1, 2)) for f in taken)
    assert not any(f.change == "padding" and f.strides[1] != f.form.extents[2] for f in taken)


# ---------------------------------------------------------------- operands of mma
HEAD = """kernel: operand
arch: sm_90
threads: 128
grid: {{bx: 2}}
buffers:
  X: {{scope: global, dtype: bfloat16, shape: [2, 64, 128]{layout}}}
  Y: {{scope: global, dtype: bfloat16, shape: [2, 4, {shape}]}}
  s: {{scope: shared, dtype: bfloat16, shape: [64, 128], layout: auto}}
  f: {{scope: register, dtype: bfloat16, shape: [{shape}], layout: "mma_fragment('m16n8k16', '{name}', ({shape}))"}}
ops:
{fill}
  - copy: {{scope: warp, src: "s[{part}]", dst: f}}
  - copy: {{scope: warp, src: f, dst: "Y[bx, warpid]"}}
"""
COLUMNS = ', layout: "S[(2,64,128):(8192,1,64)]"'
OPERANDS = {
    "row-major A": dict(layout="", shape="16, 64", name="A", part="warpid*16 : +16, 0 : +64"),
    "col-major B": dict(layout=COLUMNS, shape="64, 16", name="B", part=":, warpid*16 : +16"),
    "row-major B": dict(layout="", shape="64, 16", name="B", part=":, warpid*16 : +16"),
}
FILLS = {
    "threads": '  - copy: {src: "X[bx]", dst: s}\n  - sync: cta',
    "cp.async": '  - copy: {src: "X[bx]", dst: s, async: true}\n  - commit\n  - wait: 0\n  - sync: cta',
    "TMA": '  - copy: {src: "X[bx]", dst: s, variant: tma, barrier: full}\n  - wait: {barrier: full}',
}
PICKS = {  # where something else is wanted than any layout without conflicts
    ("row-major A", "TMA"): "Swizzle(3, 3, 3) o S[(64, 2, 64):(64, 4096, 1)]",
    ("row-major B", "TMA"): "Swizzle(3, 3, 3) o S[(64, 2, 64):(64, 4096, 1)]",
    **{("col-major B", fill): "Swizzle(3, 3, 3) o S[(64, 128):(1, 64)]" for fill in FILLS},
}


def shared_accesses(built: Built) -> list[dict[str, int | str]]:
    return [a for op in built.manifest["ops"] for a in op["accesses"] if a["space"] == "shared"]


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("operand", "fill"), [*product(OPERANDS, FILLS)])
def test_operands_are_filled_and_loaded_without_a_conflict(operand: str, fill: str) -> None:
    text = HEAD.format(fill=FILLS[fill], **OPERANDS[operand])
    built = tilegen.build(text)
    moved = shared_accesses(built)
    assert [a["kind"] for a in moved][1:] == ["ldmatrix4"]
    assert (".trans" in built.source) == (operand == "row-major B")
    assert all(a["wavefronts"] == a["floor"] for a in moved)
    picked = choice_of(built.spec, "s").picked
    assert picked == PICKS.get((operand, fill), picked) and picked != "row"
    if fill != "threads":
        assert tilegen.build(pin(text, built.spec)).source == built.source


def test_stages_of_a_column_major_operand_are_filled_by_16_bytes() -> None:
    """cp.async takes 16 bytes along k, which is contiguous in global memory: rows of the tile it cannot fill at all."""
    text = """kernel: staged
arch: sm_90
threads: 128
buffers:
  X: {scope: global, dtype: bfloat16, shape: [256, 128], layout: "S[(256,128):(1,256)]"}
  Y: {scope: global, dtype: bfloat16, shape: [4, 4, 64, 32]}
  s: {scope: shared, dtype: bfloat16, shape: [3, 64, 128], layout: auto}
  b: {scope: register, dtype: bfloat16, shape: [64, 32], layout: "mma_fragment('m16n8k16', 'B', (64, 32))"}
ops:
  - for: {j: 4}
    do:
      - copy: {src: "X[j*64 : +64]", dst: "s[j % 3]", async: true}
      - commit
      - wait: 0
      - sync: cta
      - copy: {scope: warp, src: "s[j % 3, :, warpid*32 : +32]", dst: b}
      - copy: {scope: warp, src: b, dst: "Y[j, warpid]"}
"""
    built = tilegen.build(text)
    choice = choice_of(built.spec, "s")
    assert choice.picked == "Swizzle(3, 3, 3) o S[(3, 64, 128):(8192, 1, 64)]"
    assert [a["kind"] for a in shared_accesses(built)] == ["cp.async.cg", "ldmatrix4"]
    assert all(a["wavefronts"] == a["floor"] for a in shared_accesses(built))
    assert any(c.value == "row" and "cp.async" in c.verdict for c in choice.candidates)


# ---------------------------------------------------------------- panels
def test_panels_of_the_epilogue() -> None:
    """One box for each panel, none of which conflicts; rows, which TMA takes unswizzled, are shown beside."""
    told = tilegen.explain(ROOT / "specs" / "epilogue_panels.yaml")
    (choice,) = [c for c in told["choices"] if c["question"] == "layout of s"]
    costs = {c["value"]: (c["verdict"], c["cost"] and c["cost"]["wavefronts"]) for c in choice["candidates"]}
    picked = "Swizzle(3, 3, 3) o S[(64, 2, 64):(64, 4096, 1)]"
    assert costs[picked] == ("picked", 256)
    assert costs["row"] == ("bank conflicts: 896 wavefronts above the floor", 1152)
    (box,) = [c for op in told["ops"] for c in op["choices"] if c["question"] == "tma_box"]
    assert (box["picked"]["box"], box["picked"]["count"]) == ([64, 64], 2)
    assert re.search(r"[1-9] of panels", choice["proof"])


def test_a_load_announces_every_panel_at_one_barrier() -> None:
    built = tilegen.build(HEAD.format(fill=FILLS["TMA"], **OPERANDS["row-major A"]))
    assert re.findall(r"mbarrier_expect\(full, (\d+)\);", built.source) == ["16384"], "two boxes of 8192 bytes"
    (box,) = [c for op in built.manifest["ops"] for c in op["choices"] if c["question"] == "tma_box"]
    assert (box["picked"]["count"], box["picked"]["bytes"]) == (2, 8192)
    assert "__align__(1024) bfloat16_t s" in built.source


def test_rows_are_kept_where_nothing_costs_less() -> None:
    """Of a copy in and out every form is without conflicts: plain rows, and no other form is asked for."""
    for name in ("copy_tile", "copy_staged"):
        choice = choice_of(tilegen.load(ROOT / "specs" / f"{name}.yaml"))
        assert choice.picked == "row" and "no other order and no panels were searched" in choice.proof
