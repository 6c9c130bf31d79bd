"""tilegen's layouts against what Apache TVM TIRx answered. An error or a null there is a refusal here.

Where tilegen answers otherwise, on purpose (the tests at the end hold each):
* apply names every axis of the layout in every replica; TIRx answers for replica 0, without axes that only R has.
* Coordinates out of range and shapes of another size are refused; TIRx computes on.
* Offsets of zero are not kept, and canonicalize drops replica iters of extent 1, which copy nothing.
* span counts from the smallest coordinate to the largest; TIRx adds the offset, which tilegen's extent_of does.
* span of a swizzled layout is that of the swizzled addresses; TIRx answers for the tile below.
* span without an axis refuses several memory axes; TIRx adds their distances.
* wgid with wid_in_wg fuse to warpid = 4 * wgid + wid_in_wg; TIRx leaves 4 * wgid on an axis called wgid.
* tile stretches the replicas and the offset of the outer layout by the span of the inner one, as it does its strides;
  TIRx leaves both, so that copies of the inner layout may meet, and its own is_tile_inner then does not give it back.
* tile_to refuses an extent that is no whole number of tiles; TIRx rounds down to another size.
* is_tile_inner and is_tile_outer want each replica of the part in the whole; TIRx takes those away that are there.
  They read tx as 32 * warpid + laneid without a target.
* is_direct_sum_left gives the swizzled right part of a swizzled sum, of which direct_sum makes it; TIRx has none.
* pack and unpack change strides, replicas and offsets of one memory axis; TIRx changes strides alone, of thread axes
  too, and rounds down in pack.
* tcgen05_atom_layout also has 8-bit elements and 16x32bx2; swizzled operands of several blocks whose columns or rows
  are no whole number of atoms are refused, where TIRx rounds down.
* A slice across an iter's end must have a next position on the slower iter, and a stride >= 0; TIRx checks neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tilegen.errors import LayoutError
from tilegen.layouts import (
    ComposeLayout,
    Layout,
    SwizzleLayout,
    TileLayout,
    bank_and_line,
    canonicalize,
    direct_sum,
    extent_of,
    get_scope,
    group,
    is_direct_sum_left,
    is_direct_sum_right,
    is_tile_inner,
    is_tile_outer,
    mma_shared_layout,
    pack,
    parse,
    permute_dims,
    size,
    slice_layout,
    span,
    storage,
    swizzle_atom,
    swizzle_atom_shape,
    tcgen05_atom_layout,
    tile,
    tile_of,
    tile_to,
    tmem_datapath_layout,
    unpack,
    verify,
    wg_local_layout,
)
from tilegen.layouts.core.iters import flatten, split

from .recorded import load_cases, select

FILE = "tirx_layouts.json"
SWIZZLE_BYTES = {0: 0, 1: 32, 2: 64, 3: 128}
BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1, "int8": 1}


def comparable(layout: Layout) -> Any:
    """Replica iters compare as a set, zero offsets do not count."""
    tile = tile_of(layout)
    head = layout.swizzle if isinstance(layout, ComposeLayout) else None
    return head, tile.shard, frozenset(tile.replica), tile.offset


def without_units(tile: TileLayout) -> Any:
    """The stride of an iter of extent 1 means nothing."""
    return tuple(i if i.extent != 1 else 1 for i in tile.shard), frozenset(tile.replica), tile.offset


@pytest.mark.parametrize("case", select(FILE, "apply"))
def test_apply(case: dict[str, Any]) -> None:
    layout = parse(case["layout"])
    place = layout.apply(*case["coord"], shape=case.get("shape"))[0]  # TIRx answers for replica 0 alone
    only_replicated = {i.axis: 0 for i in tile_of(layout).replica}  # and leaves out the axes that only it has
    assert place == only_replicated | case["expect"]
    if shape := case.get("shape"):
        assert layout.place(case["coord"], shape) == place


@pytest.mark.parametrize("case", select(FILE, "apply_set"))
def test_apply_set(case: dict[str, Any]) -> None:
    places = parse(case["layout"]).apply(*case["coord"], shape=case["shape"])
    assert sorted(map(str, places)) == sorted(str({k: e[k] for k in places[0]}) for e in case["expect"])


@pytest.mark.parametrize("case", select(FILE, "apply_to_shape"))
def test_apply_to_shape(case: dict[str, Any]) -> None:
    extents = [i.extent for i in tile_of(parse(case["layout"])).shard]
    assert split(flatten(case["coord"], case["shape"]), extents) == case["expect"]


@pytest.mark.parametrize("case", select(FILE, "canonicalize"))
def test_canonicalize(case: dict[str, Any]) -> None:
    fuse = "cta" if case.get("target") == "cuda" else None
    result = canonicalize(parse(case["layout"]), fuse_threads=fuse)
    assert comparable(result) == comparable(parse(case["expect"]))


@pytest.mark.parametrize("case", select(FILE, "group"))
def test_group(case: dict[str, Any]) -> None:
    layout = parse(case["layout"])
    if case.get("expect") is None:
        with pytest.raises(LayoutError):
            group(layout, case["shape"])
        return
    grouped, separators = group(layout, case["shape"])
    assert list(separators) == case["separators"]
    assert without_units(tile_of(grouped)) == without_units(tile_of(parse(case["expect"])))


@pytest.mark.parametrize("case", select(FILE, "slice"))
def test_slice(case: dict[str, Any]) -> None:
    layout, region = parse(case["layout"]), [tuple(r) for r in case["region"]]
    if case.get("expect") is None:
        with pytest.raises(LayoutError):
            slice_layout(layout, case["shape"], region)
        return
    sliced = slice_layout(layout, case["shape"], region)
    assert comparable(canonicalize(sliced)) == comparable(canonicalize(parse(case["expect"])))


@pytest.mark.parametrize("case", select(FILE, "size"))
def test_size(case: dict[str, Any]) -> None:
    assert size(parse(case["layout"]), case.get("axis")) == case["expect"]


@pytest.mark.parametrize("case", select(FILE, "span"))
def test_span(case: dict[str, Any]) -> None:
    assert span(parse(case["layout"]), case.get("axis")) == case["expect"]


@pytest.mark.parametrize("case", select(FILE, "storage"))
def test_storage(case: dict[str, Any]) -> None:
    assert storage(parse(case["layout"])) == parse(case["expect"])


@pytest.mark.parametrize("case", select(FILE, "permute_dims"))
def test_permute_dims(case: dict[str, Any]) -> None:
    layout = parse(case["layout"])
    shape = [i.extent for i in tile_of(layout).shard]
    assert permute_dims(layout, shape, case["args"][0]) == parse(case["expect"])


@pytest.mark.parametrize("case", select(FILE, "get_scope"))
def test_get_scope(case: dict[str, Any]) -> None:
    assert get_scope(parse(case["layout"])) == tuple(case["expect"])


@pytest.mark.parametrize("case", select(FILE, "verify_well_formed"))
def test_get_scope_refuses_what_does_not_connect(case: dict[str, Any]) -> None:
    layout = parse(case["layout"])
    if "error" in case:
        with pytest.raises(LayoutError, match="do not connect"):
            get_scope(layout)
        assert any("do not connect" in reason for reason in verify(layout))
    else:
        assert get_scope(layout) is not None
        assert verify(layout) == []


@pytest.mark.parametrize("case", select(FILE, "wg_local"))
def test_wg_local(case: dict[str, Any]) -> None:
    assert wg_local_layout(case["cols"], case["rows"]) == parse(case["expect"])


@pytest.mark.parametrize("case", select(FILE, "bank_column"))
def test_bank_column(case: dict[str, Any]) -> None:
    rows, columns = case["tile"]
    swizzle = ", ".join(map(str, case["swizzle"]))
    layout = parse(f"Swizzle({swizzle}) o S[({rows}, {columns})]")
    at = [(row, case["column"]) for row in range(rows)]
    banks = [bank_and_line(layout, c, (rows, columns), BYTES[case["dtype"]])[0] for c in at]
    assert banks == case["expect_bank_of_first_word"]
    assert len(set(banks)) == case["distinct"]


def answer(call: Callable[[], Layout | None]) -> Layout | None:
    """What tilegen answers; None where it refuses."""
    try:
        return call()
    except LayoutError:
        return None


def assert_same(result: Layout | None, case: dict[str, Any]) -> None:
    """The canonical form of both answers is one; an error or a null of TIRx is a refusal."""
    if case.get("expect") is None:
        assert result is None
    else:
        assert result is not None
        assert comparable(canonicalize(result)) == comparable(canonicalize(parse(case["expect"])))


@pytest.mark.parametrize("case", select(FILE, "swizzle_atom"))
def test_swizzle_atom(case: dict[str, Any]) -> None:
    """An atom of 8 rows is one period of its swizzle: rows of 16 * 2**mode bytes."""
    e, args = case["expect"], (case["dtype"], SWIZZLE_BYTES[case["mode"]])
    layout = swizzle_atom(*args)
    assert layout == SwizzleLayout(e["per_element"], e["swizzle_len"], e["atom_len"])
    if "atom_shape" in case:
        assert list(swizzle_atom_shape(*args)) == case["atom_shape"]
        assert math.prod(case["atom_shape"]) == size(layout)
    else:
        with pytest.raises(LayoutError):
            swizzle_atom_shape(*args)


@pytest.mark.parametrize("case", select(FILE, "mma_shared_layout"))
def test_mma_shared_layout(case: dict[str, Any]) -> None:
    assert_same(answer(lambda: mma_shared_layout(case["dtype"], SWIZZLE_BYTES[case["mode"]], case["shape"])), case)


def assert_points(layout: Layout | None, case: dict[str, Any], shape: Sequence[int]) -> None:
    """TIRx leaves out an axis whose only iter has extent 1: it is at 0."""
    for coord, place in case.get("points", ()):
        assert layout is not None
        assert layout.apply(*coord, shape=shape) == (dict.fromkeys((i.axis for i in tile_of(layout).shard), 0) | place,)


@pytest.mark.parametrize("case", select(FILE, "tmem_datapath"))
def test_tmem_datapath(case: dict[str, Any]) -> None:
    rows, cols = case["rows"], case["cols"]
    layout = answer(lambda: tmem_datapath_layout(case["datapath"], rows, cols, case["sub_slab"]))
    assert_same(layout, case)
    assert_points(layout, case, (rows, cols))


@pytest.mark.parametrize("case", select(FILE, "tcgen05_atom"))
def test_tcgen05_atom(case: dict[str, Any]) -> None:
    shape = tuple(case["tensor_shape"])
    layout = answer(lambda: tcgen05_atom_layout(case["instr_shape"], shape, case["dtype"]))
    assert_same(layout, case)
    assert_points(layout, case, shape)
    if layout is not None:
        assert str(layout) == case["expect"]
        fused = canonicalize(layout, fuse_threads="cta")
        assert comparable(fused) == comparable(parse(case["canonical_cuda"]))
        assert span(storage(layout), "m") == case["storage_span_regs"]


@pytest.mark.parametrize("case", select(FILE, "tile"))
def test_tile(case: dict[str, Any]) -> None:
    outer, inner = parse(case["outer"]), parse(case["inner"])
    result = answer(lambda: tile(outer, case["outer_shape"], inner, case["inner_shape"]))
    assert_same(result, case)
    assert result is None or str(result) == str(parse(case["expect"]))


@pytest.mark.parametrize("case", select(FILE, "tile_to"))
def test_tile_to(case: dict[str, Any]) -> None:
    assert_same(answer(lambda: tile_to(parse(case["layout"]), case["to_shape"], case["current_shape"])), case)


@pytest.mark.parametrize("case", select(FILE, "direct_sum"))
def test_direct_sum(case: dict[str, Any]) -> None:
    left, right = parse(case["left"]), parse(case["right"])
    assert_same(answer(lambda: direct_sum(left, case["left_shape"], right, case["right_shape"])), case)


INVERSES = {f.__name__: f for f in (is_tile_inner, is_tile_outer, is_direct_sum_left, is_direct_sum_right)}


@pytest.mark.parametrize("case", [c for kind in INVERSES for c in select(FILE, kind)])
def test_parts_of_tiles_and_sums(case: dict[str, Any]) -> None:
    find, layout, tiled = INVERSES[case["kind"]], parse(case["layout"]), parse(case["tiled"])
    assert_same(answer(lambda: find(layout, tiled, case["tiled_shape"], case["part_shape"])), case)


@pytest.mark.parametrize("case", [*select(FILE, "pack"), *select(FILE, "unpack")])
def test_pack_and_unpack(case: dict[str, Any]) -> None:
    change = pack if case["kind"] == "pack" else unpack
    result = answer(lambda: change(parse(case["layout"]), *case["args"]))
    assert str(result) == str(parse(case["expect"]))


def test_deviations() -> None:
    assert parse("S[2:1] + R[2:4@warpid]").apply(1) == ({"m": 1, "warpid": 0}, {"m": 1, "warpid": 4})
    assert str(parse("S[8:1] + 0@laneid + 0")) == "S[8:1]"
    assert str(canonicalize(parse("S[8:1] + R[(1, 2):(3, 8)]"))) == "S[8:1] + R[2:8]"
    offset = parse("S[8:1] + 5")
    assert (span(offset), extent_of(offset)) == (8, 13)
    swizzled = parse("Swizzle(0, 2, 2) o S[(3, 1):(5, 1)]")  # 0, 5 ^ 1, 10 ^ 2
    assert (span(swizzled), span(tile_of(swizzled))) == (9, 11)
    with pytest.raises(LayoutError):
        span(parse("S[(8, 8):(1@P, 1@F)]"))
    assert str(canonicalize(parse("S[(2, 4):(1@wgid, 1@wid_in_wg)]"), fuse_threads="cta")) == "S[8:1@warpid]"
    backwards = parse("S[(2, 4):(1, 8)]")
    with pytest.raises(LayoutError):
        slice_layout(backwards, [8], [(2, 6)])
    assert str(slice_layout(parse("S[(2, 4):(40, 8)]"), [8], [(2, 6)])) == "S[(2, 2):(24, 8)] + 16"
    last = parse("S[(2, 2, 4):(1, 100, 8)]")
    with pytest.raises(LayoutError):
        slice_layout(last, [16], [(6, 10)])


def test_deviations_of_tiles_and_packing() -> None:
    copied = tile(parse("S[2:1] + R[2:4] + 3"), (2,), parse("S[8:1]"), (8,))
    assert str(copied) == "S[16:1] + R[2:32] + 24"
    assert str(is_tile_inner(parse("S[8:1]"), copied, (16,), (8,))) == "S[2:1] + R[2:4] + 3"
    with pytest.raises(LayoutError, match="whole number"):
        tile_to(parse("S[8:1]"), (12,), (8,))
    assert is_tile_inner(parse("S[8:1] + R[2:64]"), parse("S[16:1]"), (16,), (8,)) is None
    assert str(is_tile_inner(parse("S[32:1@laneid]"), parse("S[128:1@tx]"), (128,), (32,))) == "S[4:1@warpid]"
    swizzled = direct_sum(parse("S[2:8]"), (2,), parse("Swizzle(0,1,1) o S[8:1]"), (8,))
    assert str(is_direct_sum_left(parse("S[2:8]"), swizzled, (2, 8), (2,))) == "Swizzle(0, 1, 1) o S[8:1]"
    lanes = parse("S[(32, 4):(1@laneid, 1)] + 4")
    assert str(unpack(lanes, 2)) == "S[(32, 4, 2):(1@laneid, 2, 1)] + 8"
    assert str(pack(lanes, 2)) == "S[(32, 2):(1@laneid, 1)] + 2"
    with pytest.raises(LayoutError, match="stride 3"):
        pack(parse("S[(8, 2):(3, 1)]"), 2)
    assert span(tcgen05_atom_layout("16x32bx2", (64, 32), "int8"), "m") == 16
    with pytest.raises(LayoutError, match="inside one"):
        mma_shared_layout("float16", 128, (12, 128))


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and ("S[" in value or "Swizzle(" in value):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from texts(v)


ALL_TEXTS = sorted({t for c in load_cases(FILE) for k, v in c.items() if not k.startswith("error") for t in texts(v)})


def test_every_layout_text_survives_printing() -> None:
    for text in ALL_TEXTS:
        layout = parse(text)
        assert parse(str(layout)) == layout, text
        if text.startswith("S[") and " + " not in text:
            assert str(layout) == text
