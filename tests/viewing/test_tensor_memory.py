"""The page's map of tensor memory: frames touch the cells of each op's regions, and the page shows and plays them."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.viewing.browser import AXE, Open, needs_axe, needs_browser, write_pages
from tilegen.dtypes import DTYPES
from tilegen.index import evaluate, variables
from tilegen.layouts.core.cells import CELL_BITS
from tilegen.pipeline import load
from tilegen.planner import plan_spec
from tilegen.spec.data import Region, Spec
from tilegen.spec.outline import outline
from tilegen.spec.tensor_memory import place_columns
from tilegen.viewing import spec_page
from tilegen.viewing.tensor_memory import draw_tensor_memory

ROOT = Path(__file__).parents[2]
SPECS = ("hgemm_blackwell", "gemm_mxfp8", "attention_blackwell")


def cells_of_region(region: Region, spec: Spec) -> set[tuple[int, int]]:
    """(lane, column) of every copy of each element, where all variables are 0."""
    buffer, first = region.buffer, place_columns(spec.buffers, spec.arch).first[region.buffer.root]
    begins = [int(evaluate(x, {v.name: 0 for v in variables(x)})) for x in region.begins]
    packed, found = CELL_BITS // DTYPES[buffer.dtype].bits, set()
    for step in product(*map(range, region.lengths)):
        coord = [b + s for b, s in zip(begins, step, strict=True)]
        for place in buffer.layout.apply(*coord, shape=buffer.shape):
            found.add((place.get("TLane", 0), first + place.get("TCol", 0) // packed))
    return found


def cells_of_boxes(boxes: list[list[int]]) -> set[tuple[int, int]]:
    return {
        (lane, column) for first, lanes, begin, wide in boxes for lane in range(first, first + lanes)
        for column in range(begin, begin + wide)
    }  # fmt: skip


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", SPECS)
def test_frames_touch_the_cells_of_each_region(name: str) -> None:
    spec = load(ROOT / "specs" / f"{name}.yaml")
    drawn = draw_tensor_memory(spec, plan_spec(spec))
    assert drawn is not None
    for number, call in enumerate(outline(spec).calls, 1):
        frames = [f for f in drawn["frames"] if f["op"] == number]
        for side, fields in (("writes", call.fields_written), ("reads", call.fields_read)):
            regions = [call.regions[f] for f in fields if call.regions[f].buffer.traits.has_cells]
            if side == "reads":  # a sum is written, and not read by itself
                regions = [r for r in regions if r not in [call.regions[f] for f in call.fields_written]]
            wanted = set[tuple[int, int]]().union(*(cells_of_region(r, spec) for r in regions))
            found = set[tuple[int, int]]().union(*(cells_of_boxes(f[side]) for f in frames))
            assert found == wanted, (call.op, number, side)


def test_products_follow_one_another_in_shared_memory() -> None:
    spec = load(ROOT / "specs" / "hgemm_blackwell.yaml")
    drawn = draw_tensor_memory(spec, plan_spec(spec))
    assert drawn is not None
    own = [f for f in drawn["frames"] if f["instruction"] == "tcgen05.mma.f16"]
    assert [(f["number"], f["count"]) for f in own] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [f["shared"] for f in own] == [
        [{"buffer": "sa", "byte": 32 * k}, {"buffer": "sb", "byte": 32 * k}] for k in range(4)
    ]  # fmt: skip


def test_other_kernels_have_no_map() -> None:
    spec = load(ROOT / "specs" / "copy_staged.yaml")
    assert draw_tensor_memory(spec, plan_spec(spec)) is None


# ---------------------------------------------------------------- the page
@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    page = spec_page(str(ROOT / "specs" / "gemm_mxfp8.yaml"))[1]
    return write_pages(tmp_path_factory.mktemp("pages"), {"gemm_mxfp8": page})


@needs_browser
def test_the_map_is_drawn_and_its_steps_are_played(open_page: Open) -> None:
    page: Any = open_page("gemm_mxfp8")
    page.get_by_role("tab", name="Tensor memory").click()
    panel = page.locator("#panel-tmem")
    assert "512 of 512 columns are allocated, in all of 128 lanes" in panel.inner_text()
    keys = panel.get_by_label("Colours of the cells").locator("li").all_inner_texts()
    assert keys == ["acc", "ta", "tb", "allocated, and empty", "free"]
    grid = panel.get_by_label("Lanes and columns of tensor memory")
    grid.press("Control+End")
    assert "lane 127, column 511: allocated, and empty" in panel.inner_text()
    grid.press("Control+Home")
    assert "lane 0, column 0: acc, element 0, 0, 0" in panel.inner_text()
    step = panel.get_by_label("Step", exact=True)
    step.select_option(label="op 8, 2 of 2: copy fb_rows[s % 4] -> tb[s % 4]")
    assert "by tcgen05.cp: writes columns 468 to 471 in lanes 0 to 127; in shared memory fb from byte 512." in (
        panel.inner_text()
    )
    panel.get_by_role("button", name="Step after").click()
    said = panel.inner_text()
    assert "by tcgen05.mma.mxf8f6f4: writes columns 0 to 223 in lanes 0 to 127; reads columns 448 to 451" in said
    panel.get_by_role("button", name="Play the steps").click()
    panel.get_by_role("button", name="Stop").click()
    assert step.input_value() == "5"
    page.locator("#tab-code").click()
    page.locator(".chip", has_text="sa shared tcgen05").first.click()
    assert "a matrix that tcgen05 reads" in page.get_by_role("region", name="Picture of the access").inner_text()


@needs_axe
@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_map_is_for_all_readers_and_widths(open_page: Open, scheme: str) -> None:
    page: Any = open_page("gemm_mxfp8", "#v=tmem&f=4", color_scheme=scheme, bypass_csp=True)
    page.add_script_tag(path=str(AXE))
    assert page.evaluate("axe.run().then(r => r.violations.map(v => [v.id, v.nodes[0].html]))") == []
    for width in (380, 800, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(50)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    panel = page.locator("#panel-tmem")
    box, most = panel.locator("canvas").first.bounding_box(), panel.bounding_box()
    assert box["width"] <= most["width"]
