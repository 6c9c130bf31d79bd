"""Layouts that are 'auto', from the spec's text to the built kernel."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from specs.kernels import ROOT, build_spec

import tilegen
from tests.faults.verdicts import refusal_of
from tests.oracles.layout_regret import every_form_layout
from tilegen import spec as spec_room
from tilegen.auto_layout import choose_layouts, compare_pinned
from tilegen.auto_layout.pin import pin_layout
from tilegen.auto_layout.search import plan_with, search_layouts
from tilegen.decisions import Choice
from tilegen.dtypes import DTYPES
from tilegen.errors import SpecError
from tilegen.layouts import SwizzleLayout, row_major, swizzle_of, tile_of
from tilegen.ops import ALL_OPS, OPS
from tilegen.spec.data import Buffer, Call, Spec

TRANSPOSE = """kernel: k
threads: {threads}
buffers:
  X: {{scope: global, dtype: {dtype}, shape: [{rows}, {columns}]}}
  Y: {{scope: global, dtype: {dtype}, shape: [{columns}, {rows}]}}
  tile: {{scope: shared, dtype: {dtype}, shape: [{rows}, {columns}], layout: auto}}
  tileT: {{view: tile, axes: [1, 0]}}
ops:
  - copy: {{src: X, dst: tile}}
  - sync: cta
  - copy: {{src: tileT, dst: Y}}
"""


def load_plain(text: str) -> Spec:
    """A spec as it is before layouts are chosen."""
    return spec_room.load(text, ALL_OPS)


def transpose(dtype: str, rows: int, columns: int, threads: int = 64) -> str:
    return TRANSPOSE.format(dtype=dtype, rows=rows, columns=columns, threads=threads)


def choice_of(spec: Spec, name: str = "tile") -> Choice:
    return next(c for c in spec.choices if c.question == f"layout of {name}")


def pin(text: str, spec: Spec) -> str:
    """The text with every 'auto' replaced by what was chosen."""
    for c in spec.choices:
        name = c.question.removeprefix("layout of ")
        text, count = re.subn(rf"({name}: {{.*layout: )auto", rf'\g<1>"{c.picked}"', text)
        assert count == 1
    return text


# ---------------------------------------------------------------- the pick
@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", ["transpose_auto", "rows_auto", "permute_auto", "epilogue_panels"])
def test_pinning_what_is_printed_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    path = ROOT / "specs" / f"{name}.yaml"
    text, built = path.read_text(), build_spec(path)
    (tmp_path / path.name).write_text(pin(text, built.spec))
    pinned = tilegen.build(tmp_path / path.name)
    assert pinned.source == built.source
    assert pinned.spec.choices == () and len(built.spec.choices) == text.count("layout: auto")


LARGER = [("float32", 12, 20), ("float16", 16, 16), ("uint8", 8, 32)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "rows", "columns"),
    [("float32", 8, 16), *(pytest.param(*shape, marks=pytest.mark.slow) for shape in LARGER)],
)
def test_planning_every_layout_finds_none_that_costs_less(dtype: str, rows: int, columns: int) -> None:
    """Exhaustive: the whole spec is planned under each layout of the families, no estimate asked."""
    plain = load_plain(transpose(dtype, rows, columns))
    plain = pin_layout(plain, "tile", row_major((rows, columns)), "row")
    buffer = plain.buffer("tile")
    costs = [
        p.costed.cost.layout_key[:4]
        for f in every_form_layout((rows, columns), DTYPES[dtype].bytes)
        if not (p := plan_with(plain, buffer, f)).costed.reason
    ]
    choice = choice_of(choose_layouts(load_plain(transpose(dtype, rows, columns))))
    picked = next(c for c in choice.candidates if c.verdict == "picked")
    assert picked.cost is not None and picked.cost.layout_key[:4] == min(costs)
    # Of bytes, which have most orders to walk in, some estimates are never reached; the proof says so.
    assert "bounded" not in choice.proof or dtype == "uint8"


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("dtype", "rows", "columns"), [("float32", 64, 64), ("float16", 64, 64), ("uint8", 64, 128)])
def test_a_transpose_reads_and_writes_without_conflicts(dtype: str, rows: int, columns: int) -> None:
    spec = choose_layouts(load_plain(transpose(dtype, rows, columns, 256)))
    shared = [a for op in tilegen.explain(spec)["ops"] for a in op["accesses"] if a["space"] == "shared"]
    assert shared and all(a["wavefronts"] == a["floor"] for a in shared)
    assert "one a phase, which no layout is below" in choice_of(spec).proof


def test_the_record_shows_what_was_passed_over() -> None:
    choice = choice_of(choose_layouts(load_plain(transpose("float32", 32, 32))))
    verdicts = {c.value: c.verdict for c in choice.candidates}
    assert list(verdicts.values()).count("picked") == 1
    assert re.fullmatch(r"bank conflicts: \d+ wavefronts above the floor", verdicts["row"])
    assert any(text.startswith("S[") for text in verdicts) and any(text.startswith("Swizzle") for text in verdicts)
    assert re.search(r"all \d+ layouts were costed \(row-major, 32 paddings, 95 swizzles\)", choice.proof)


@pytest.mark.parametrize("trips", [1, 100])
def test_accesses_count_as_often_as_loops_run_them(trips: int) -> None:
    text = transpose("float32", 32, 32).replace("shape: [32, 32]}\n  tile", f"shape: [{trips}, 32, 32]}}\n  tile")
    once = "- copy: {src: tileT, dst: Y}"
    looped = f'- for: {{j: {trips}}}\n    do:\n      - copy: {{src: tileT, dst: "Y[j]"}}'
    text = text.replace(once, looped)
    picked = next(c for c in choice_of(choose_layouts(load_plain(text))).candidates if c.verdict == "picked")
    assert picked.cost is not None and picked.cost.wavefronts == 32 + 32 * trips


# ---------------------------------------------------------------- views, several buffers, nothing to choose
def test_views_follow_the_layout() -> None:
    """A transpose of a reshaped view of another type: all of them see the bytes of the one that is chosen."""
    text = """kernel: k
threads: 64
buffers:
  X: {scope: global, dtype: float32, shape: [32, 64]}
  Y: {scope: global, dtype: int32, shape: [64, 4, 8]}
  tile: {scope: shared, dtype: float32, shape: [32, 64], layout: auto}
  cube: {view: tile, shape: [4, 8, 64]}
  turned: {view: cube, axes: [2, 0, 1]}
  bits: {view: turned, dtype: int32}
ops:
  - copy: {src: X, dst: tile}
  - sync: cta
  - copy: {src: bits, dst: Y}
"""
    spec = choose_layouts(load_plain(text))
    assert choice_of(spec).picked.startswith("Swizzle")
    assert not any(b.is_auto for b in spec.buffers)
    assert tilegen.build(spec).proof.steps > 0


@pytest.mark.slow
def test_slices_of_a_chosen_layout_are_those_of_warps() -> None:
    """A swizzle XORs warpid into an address: no base is common to a lane's elements, and the kernel is right."""
    text = """kernel: k
threads: 128
buffers:
  X: {scope: global, dtype: float32, shape: [4, 8, 32]}
  Y: {scope: global, dtype: float32, shape: [4, 32, 8]}
  tile: {scope: shared, dtype: float32, shape: [4, 8, 32], layout: LAYOUT}
  tileT: {view: tile, axes: [0, 2, 1]}
ops:
  - copy: {scope: warp, src: "X[warpid]", dst: "tile[warpid]"}
  - sync: warp
  - copy: {scope: warp, src: "tileT[warpid]", dst: "Y[warpid]"}
"""
    for layout in ("auto", '"Swizzle(0,3,5)"', '"Swizzle(0,2,8)"', '"Swizzle(2,2,7)"'):
        assert tilegen.build(text.replace("LAYOUT", layout)).proof.steps > 0


def test_several_buffers_are_bounded_and_say_so() -> None:
    spec = build_spec(ROOT / "specs" / "permute_auto.yaml").spec
    assert [c.question for c in spec.choices] == ["layout of A", "layout of B"]
    assert all("bounded: one buffer at a time" in c.proof for c in spec.choices)


def test_a_buffer_that_nothing_touches_stays_in_rows() -> None:
    choice = choice_of(tilegen.load(HEAD + "ops: []\n"))
    assert (choice.picked, choice.candidates, choice.proof) == ("row", (), "no op touches it: row-major")


def test_a_spec_without_auto_is_the_same_object() -> None:
    spec = load_plain(HEAD.replace("auto", "row") + "ops: []\n")
    assert choose_layouts(spec) is spec


def test_an_op_that_nothing_carries_out_is_reported_as_ever() -> None:
    text = HEAD + '  r: {scope: register, dtype: int32, shape: [8, 8], layout: "S[(8,8):(1@laneid,1)]"}\n'
    text += "ops:\n  - copy: {scope: warp, src: r, dst: tile}\n"
    auto, row = (refusal_of(SpecError, tilegen.build, t) for t in (text, text.replace("auto", "row")))
    assert [d.message for d in auto.diagnostics] == [d.message for d in row.diagnostics]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, buffer", [("mma_fragments_u8", "sb"), ("permute_sf_halves", "B"), ("copy_tile", "tile")]
)
def test_a_search_that_is_not_shown_has_the_same_best(name: str, buffer: str) -> None:
    """Of the first two the best of a family that was cut off is the best of all."""
    spec = choose_layouts(load_plain((ROOT / "specs" / f"{name}.yaml").read_text()))
    shown, brief = (search_layouts(spec, spec.buffer(buffer), is_shown) for is_shown in (True, False))
    assert shown.best is not None and shown.best == brief.best
    assert shown.planned[shown.best].costed == brief.planned[shown.best].costed
    assert brief.planned.keys() <= shown.planned.keys()


def test_padding_must_fit_beside_the_other_buffers() -> None:
    """64 KB and the rest of shared memory beside it: rows can be padded as far as bytes are left."""
    left = 227 * 1024 - 65536 - 2048
    text = transpose("float32", 64, 256, 256).replace(
        "ops:", f"  rest: {{scope: shared, dtype: uint8, shape: [{left}]}}\nops:"
    )
    spec = choose_layouts(load_plain(text))
    search = search_layouts(pin_layout(spec, "tile", row_major((64, 256)), "row"), spec.buffer("tile"))
    reasons = {e.layout.strides[0] - 256: e.reason for e in search.estimates if e.layout.family == "padding"}
    assert reasons[8] == "" and "bytes where 67584 are left" in reasons[16]


OVER = """kernel: over
arch: sm_80
threads: 128
buffers:
  A: {scope: global, dtype: bfloat16, shape: [768, 64]}
  B: {scope: global, dtype: bfloat16, shape: [64, 384], layout: col}
  D: {scope: global, dtype: bfloat16, shape: [256, 128]}
  sa: {scope: shared, dtype: bfloat16, shape: [3, 256, 64], layout: auto}
  sb: {scope: shared, dtype: bfloat16, shape: [3, 64, 128], layout: auto}
  out: {scope: shared, dtype: bfloat16, shape: [256, 128], layout: auto, over: [OVER]}
  a: {scope: register, dtype: bfloat16, shape: [64, 64], layout: "mma_fragment('m16n8k16', 'A', (64, 64))"}
  b: {scope: register, dtype: bfloat16, shape: [64, 32], layout: "mma_fragment('m16n8k16', 'B', (64, 32))"}
  h: {scope: register, dtype: bfloat16, shape: [64, 128], layout: "mma_fragment('m16n8k16', 'C', (64, 128))"}
ops:
  - for: {s: 3}
    do:
      - copy: {src: "A[s*256 : +256]", dst: "sa[s]", async: true}
      - copy: {src: "B[:, s*128 : +128]", dst: "sb[s]", async: true}
      - commit
      - wait: 0
      - sync: cta
      - copy: {scope: warp, src: "sa[s, warpid*64 : +64]", dst: a}
      - copy: {scope: warp, src: "sb[s, :, warpid*32 : +32]", dst: b}
  - sync: cta
  - fill: {scope: warp, dst: h, value: 1}
  - copy: {scope: warp, src: h, dst: "out[warpid*64 : +64]"}
  - sync: cta
  - copy: {src: out, dst: D}
"""


def test_what_lies_over_others_takes_no_room_beside_them() -> None:
    """144 KB of stages and 64 KB on their bytes: 163 KB are enough, and every tile is filled and read by 16 bytes."""
    spec = choose_layouts(load_plain(OVER.replace("[OVER]", "[sa]")))
    picked = {c.question: c.picked for c in spec.choices}
    assert picked["layout of sa"] == "Swizzle(3, 3, 3) o S[(3, 256, 64):(16384, 64, 1)]"
    assert picked["layout of sb"] == "Swizzle(3, 3, 3) o S[(3, 64, 128):(8192, 1, 64)]"
    reasons = [e.reason for e in search_layouts(spec, spec.buffer("sa")).estimates]
    assert any(f"bytes where {163 * 1024 - 49152} are left" in r for r in reasons)


def test_a_layout_fits_into_what_the_buffer_lies_over() -> None:
    """As many bytes as the tile: no padding has room, although the rest of shared memory does."""
    text = re.sub(r"over: \[OVER\]", "over: [sb]", OVER).replace("[3, 64, 128]", "[4, 64, 128]")
    spec = choose_layouts(load_plain(text))
    reasons = {e.reason for e in search_layouts(spec, spec.buffer("out")).estimates if e.layout.family == "padding"}
    assert reasons and all("bytes where 65536 are left" in r for r in reasons)
    assert swizzle_of(spec.buffer("out").layout) is not None


HEAD = """kernel: k
threads: 32
buffers:
  tile: {scope: shared, dtype: float32, shape: [8, 8], layout: auto}
"""


# ---------------------------------------------------------------- what ops demand
def test_a_variant_may_constrain_the_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a descriptor would: only dense rows, or a swizzle of 128 bytes; nothing else may be picked or planned."""
    accepted = {None, SwizzleLayout(2, 3, 3)}

    def constrain(call: Call, buffer: Buffer) -> str | None:
        layout = buffer.layout
        is_dense = all(i.stride in (1, 32) for i in tile_of(layout).shard)
        return None if is_dense and swizzle_of(layout) in accepted else "no descriptor mode has it"

    variants = tuple(replace(v, constrain=constrain) for v in OPS["copy"].variants)
    monkeypatch.setitem(OPS, "copy", replace(OPS["copy"], variants=variants))
    choice = choice_of(choose_layouts(load_plain(transpose("float32", 32, 32))))
    assert choice.picked == "Swizzle(2, 3, 3) o S[(32, 32):(32, 1)]"
    assert any(c.verdict == "no descriptor mode has it" for c in choice.candidates)


# ---------------------------------------------------------------- layouts that are written
def test_explain_says_what_auto_would_have_given() -> None:
    path = ROOT / "specs" / "transpose_tile.yaml"
    (choice,) = tilegen.explain(path)["choices"]
    assert choice["picked"] == "S[(64,64):(65,1)]"
    assert [c["verdict"] for c in choice["candidates"]] == ["picked", "what 'auto' gives"]
    assert re.fullmatch(r"the spec's: \d+ instructions against \d+ with 'auto'", choice["proof"])
    assert build_spec(path).manifest["choices"] == [], "a build does not ask"


def test_explain_says_where_auto_gives_the_same() -> None:
    spec = choose_layouts(load_plain(transpose("float32", 32, 32)))
    (choice,) = compare_pinned(load_plain(pin(transpose("float32", 32, 32), spec)))
    assert choice.proof == "the spec's, and what 'auto' gives"


def test_views_of_bytes_keep_a_layout_from_being_compared() -> None:
    text = HEAD.replace("auto", "row") + "  halves: {view: tile, dtype: float16}\nops: []\n"
    assert compare_pinned(load_plain(text)) == ()


@pytest.mark.slow
def test_wavefronts_that_no_access_of_a_buffer_takes_are_said() -> None:
    arrays = {name: {"scope": "global", "dtype": "bfloat16", "shape": [512, 512]} for name in "ABD"}
    spec = {"kernel": "g", "buffers": arrays, "ops": [{"gemm": {"a": "A", "b": "B", "d": "D", "variant": "mma_sync"}}]}
    choices = {c["question"]: c for c in tilegen.explain(spec)["choices"]}
    choice = choices["layout of sa"]
    picked = next(c["cost"]["wavefronts"] for c in choice["candidates"] if c["verdict"] == "picked")
    own, others = (int(n) for n in re.findall(r"(\d+)(?: more of its ops')? wavefronts", choice["proof"]))
    assert own + others == picked
