"""The page in a real Chromium: every control, with mouse and keyboard, at three widths, light and dark."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from specs.kernels import SPECS as KERNELS

import tilegen
from tests.viewing.browser import AXE, Open, needs_axe, needs_browser, write_pages
from tilegen import layouts as layouts_room
from tilegen.viewing import layout_page, own_presets, spec_page

pytestmark = needs_browser
ROOT = Path(__file__).parents[2]
SPECS = ("gemm", "hgemm_roles", "copy_staged", "transpose_tile", "rotary")
TABS = ("choices", "code", "time", "layout", "mma", "about")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    texts = {"layouts": layout_page(None, None, ["specs/gemm.yaml"])}
    texts |= {"product": layout_page("tiled_mma('mma.m16n8k16', (2, 2, 1), None, 'C', (128, 256, 32))")}
    texts |= {name: spec_page(str(ROOT / "specs" / f"{name}.yaml"))[1] for name in SPECS}
    return write_pages(tmp_path_factory.mktemp("pages"), texts)


@pytest.fixture
def layouts(open_page: Open) -> Any:
    return open_page("layouts")


def read_pixel(page: Any, png: bytes) -> list[int]:
    """Red, green and blue of a picture, three pixels from its corner."""
    script = """async (url) => {
        const image = new Image(); image.src = url; await image.decode();
        const context = document.createElement("canvas").getContext("2d");
        context.drawImage(image, 0, 0);
        return [...context.getImageData(3, 3, 1, 1).data].slice(0, 3);
    }"""
    found: list[int] = page.evaluate(script, f"data:image/png;base64,{base64.b64encode(png).decode()}")
    return found


def details(page: Any) -> str:
    return str(page.locator(".details").inner_text())


def field(page: Any, label: str) -> Any:
    return page.get_by_label(label, exact=True).and_(page.locator("input, select, textarea")).first


def link(page: Any) -> str:
    """The hash of the URL once the page has written it; it does so at most four times a second."""
    page.wait_for_timeout(400)
    return str(page.evaluate("location.hash"))


# ---------------------------------------------------------------- the explorer
@pytest.mark.slow
def test_every_preset_opens(layouts: Any) -> None:
    for group in own_presets():
        for preset in group.layouts:
            field(layouts, "Preset").select_option(preset.key)
            assert field(layouts, "Layout").input_value() == preset.text
            assert layouts.locator(".error").inner_text() == ""
            layouts.get_by_label("Elements of the layout").press("End")
            assert "Element (" in details(layouts), preset.name


def test_tensor_memory_has_224_columns_and_scale_factors_four_copies(layouts: Any) -> None:
    field(layouts, "Preset").select_option("tmem_224")
    field(layouts, "Go to element").fill("1, 127, 111")
    field(layouts, "Go to element").press("Enter")
    assert "TLane\t127" in details(layouts) and "TCol\t223" in details(layouts)
    field(layouts, "Preset").select_option("scales")
    field(layouts, "Go to element").fill("5, 3")
    field(layouts, "Go to element").press("Enter")
    assert "TLane\t5\t37\t69\t101" in details(layouts)


def test_terms_of_the_form_change_the_text(layouts: Any) -> None:
    field(layouts, "S, the shard").fill("(8, 4, 2):(4@laneid, 1@laneid, 1)")
    field(layouts, "R, replicas").fill("2:4@warpid")
    field(layouts, "Offset").fill("5@warpid")
    field(layouts, "Shape").fill("8, 8")
    text = "S[(8, 4, 2):(4@laneid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid"
    assert field(layouts, "Layout").input_value() == text
    field(layouts, "Go to element").fill("3, 5")
    field(layouts, "Go to element").press("Enter")
    assert "laneid\t14\t14" in details(layouts) and "warpid\t5\t9" in details(layouts)


@pytest.mark.slow
def test_swizzle_modes_numbers_and_padding(layouts: Any) -> None:
    for mode, bits in (("32", "1"), ("64", "2"), ("128", "3")):
        field(layouts, "Mode").select_option(mode)
        assert field(layouts, "Layout").input_value() == f"Swizzle(3, {bits}, 3) o S[(8, 64):(64, 1)]"
    field(layouts, "Go to element").fill("5, 0")
    field(layouts, "Go to element").press("Enter")
    for row in ("m\t360", "byte\t720", "bank\t20", "line\t5"):
        assert row in details(layouts)
    layouts.get_by_label("M, bits that stay").fill("2")
    assert field(layouts, "Layout").input_value().startswith("Swizzle(2, 3, 3) o ")
    assert field(layouts, "Mode").input_value() == "custom"
    field(layouts, "Type").select_option("float32")  # for 4-byte elements that is the 128-byte mode
    assert field(layouts, "Mode").input_value() == "128"
    field(layouts, "Mode").select_option("0")
    assert field(layouts, "Layout").input_value() == "S[(8, 64):(64, 1)]"
    layouts.get_by_role("button", name="Pad", exact=True).click()
    assert field(layouts, "Layout").input_value().startswith("PaddedSharedLayout.with_identity_for([[64, 8]], [8, 64]")
    layouts.get_by_role("button", name="Row-major").click()
    assert field(layouts, "Layout").input_value() == "S[(8, 64)]"


def wrong(page: Any, label: str) -> str:
    """What a field says below itself."""
    control = field(page, label)
    said = page.locator(f"#{control.get_attribute('aria-describedby')}").text_content()
    assert control.get_attribute("aria-invalid") == str(said != "").lower()
    return str(said)


@pytest.mark.slow
def test_the_mode_of_a_swizzle_stays_when_the_type_changes(layouts: Any) -> None:
    field(layouts, "Preset").select_option("swizzled")
    for mode in ("32", "64", "128"):
        field(layouts, "Mode").select_option(mode)
        for dtype, per in (("float32", 2), ("int8", 4), ("float64", 1), ("float16", 3)):
            field(layouts, "Type").select_option(dtype)
            assert field(layouts, "Mode").input_value() == mode
            assert field(layouts, "Layout").input_value().startswith(f"Swizzle({per}, ")
            assert field(layouts, "Shape").input_value() == "8, 64"


@pytest.mark.slow
def test_an_element_that_is_not_there_is_an_error(open_page: Open, layouts: Any) -> None:
    field(layouts, "Preset").select_option("row")
    for text, said in (
        ("99, 0", "no such element: the shape is 8 x 64, so coordinate 0 is 0 to 7"),
        ("5", "1 coordinate, but the shape 8 x 64 has 2 dimensions"), ("5, x", "found 'x'"), ("-1, 3", "found '-1'"),
    ):  # fmt: skip
        field(layouts, "Go to element").fill(text)
        field(layouts, "Go to element").press("Enter")
        assert said in wrong(layouts, "Go to element") and "Element (" not in details(layouts)
    again = open_page("layouts", link(layouts))
    assert "found '-1'" in wrong(again, "Go to element")
    field(layouts, "Go to element").fill("5, 3")
    field(layouts, "Go to element").press("Enter")
    assert wrong(layouts, "Go to element") == "" and "Element (5, 3)" in details(layouts)


def test_a_wrong_shape_is_an_error_at_its_field(layouts: Any) -> None:
    field(layouts, "Preset").select_option("row")
    for text, said in (
        ("8, x", "8, x\n   ^\nexpected an extent, found 'x'"), ("8 x", "found the end"), ("0, 64", "at least 1"),
        ("8, 32", "shape 8 x 32 has 256 elements, the layout has 512"),
    ):  # fmt: skip
        field(layouts, "Shape").fill(text)
        assert said in wrong(layouts, "Shape") and layouts.locator(".error").inner_text() == ""
    for text in ("8 x 64", "(8, 64)", "16, 32", ""):
        field(layouts, "Shape").fill(text)
        assert wrong(layouts, "Shape") == ""
    field(layouts, "Layout").fill("row")
    field(layouts, "Shape").fill("")
    assert "say which" in wrong(layouts, "Shape")


@pytest.mark.slow
def test_a_preset_that_was_changed_says_so(layouts: Any) -> None:
    preset = field(layouts, "Preset")
    shown = "n => n.selectedOptions[0].textContent"
    changes = (("Type", "float32"), ("Mode", "64"), ("Mode", "0"))
    for label, value in changes:
        preset.select_option("swizzled")
        assert preset.evaluate(shown) == "8 x 64 under the 128-byte swizzle"
        field(layouts, label).select_option(value)
        assert preset.evaluate(shown) == "8 x 64 under the 128-byte swizzle, changed"
    preset.select_option("swizzled")
    for text, suffix in (("(8, 64)", ""), ("16, 32", ", changed"), ("8 x 64", "")):
        field(layouts, "Shape").fill(text)
        assert preset.evaluate(shown) == f"8 x 64 under the 128-byte swizzle{suffix}"


@pytest.mark.slow
def test_colours_have_a_legend(open_page: Open, layouts: Any) -> None:
    keys = layouts.get_by_label("Colours of the elements", exact=True)
    assert keys.locator("li").all_inner_texts()[:2] == ["0 to 3", "4 to 7"]
    layouts.get_by_role("combobox", name="Colours").select_option("line")
    assert keys.locator("li").all_inner_texts() == [str(line) for line in range(8)]
    banks = layouts.get_by_label("Colours of the banks", exact=True)
    assert "further ones, of a bank conflict" in banks.first.inner_text()
    layouts.get_by_role("tab", name="Tiled mma").click()
    assert layouts.get_by_label("Colours of the threads").locator("li").first.inner_text() == "thread 0"
    page = open_page("gemm", "#v=code&x=3&y=a5")
    for label in ("Colours of the code", "Colours of the box", "Colours of the elements"):
        assert page.locator("#panel-code").get_by_label(label, exact=True).is_visible(), label


def test_pasted_text_and_errors_with_carets(layouts: Any) -> None:
    for text in ("(8,(2,4)):(2,(1,16))", "Sw<3,3,3> o (8,64):(64,1)", "LinearLayout(offset=[[0, 1], [0, 2], [1, 1]])"):
        field(layouts, "Layout").fill(text)
        assert layouts.locator(".error").inner_text() == ""
    field(layouts, "Shape").fill("")
    field(layouts, "Layout").fill("S[(8, 2):(4@lanid, 1)]")
    error = layouts.locator(".error").inner_text()
    assert "there is no axis 'lanid'" in error and "            ^^^^^" in error
    field(layouts, "Layout").fill("mma_fragment('m16n8k16', 'C')")
    assert "tilegen view" in layouts.locator(".error").inner_text()


def test_mouse_and_keyboard_find_elements_and_places(layouts: Any) -> None:
    field(layouts, "Preset").select_option("fragment")
    grid = layouts.get_by_label("Elements of the layout")
    box = grid.locator("canvas.overlay").bounding_box()
    layouts.mouse.move(box["x"] + 60, box["y"] + 30)
    assert "Element (0, 0)" in details(layouts)
    grid.focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowDown", "End"):
        grid.press(key)
    assert "Element (3, 15)" in details(layouts) and "laneid\t15" in details(layouts)
    live = layouts.locator(".grid p[aria-live]").first.inner_text()
    assert live == "element 3, 15: warpid 1, laneid 15, m 1"
    places = layouts.get_by_label("Places that hold the elements")
    places.focus()
    places.press("Home")
    places.press("Enter")
    assert "warp 0, lane 0, register 0" in details(layouts) and "(0, 0)" in details(layouts)
    box = places.locator("canvas.overlay").bounding_box()
    layouts.mouse.click(box["x"] + 60, box["y"] + 22)
    assert "all of warp 0, lane 0" in details(layouts)
    for color in layouts.get_by_role("combobox", name="Colours").locator("option").all():
        layouts.get_by_role("combobox", name="Colours").select_option(color.get_attribute("value"))


@pytest.mark.slow
def test_the_url_holds_what_is_shown(open_page: Open, layouts: Any) -> None:
    field(layouts, "Preset").select_option("swizzled")
    field(layouts, "Access").select_option("ldmatrix1")
    field(layouts, "Go to element").fill("7, 63")
    field(layouts, "Go to element").press("Enter")
    hash = link(layouts)
    again = open_page("layouts", hash)
    assert "Element (7, 63)" in details(again)
    assert field(again, "Access").input_value() == "ldmatrix1"


# ---------------------------------------------------------------- banks
def figures(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".banks .figure").all_inner_texts()]


@pytest.mark.slow
def test_the_bank_map_before_and_after(layouts: Any) -> None:
    field(layouts, "Preset").select_option("swizzled")
    field(layouts, "Access").select_option("column")
    assert figures(layouts) == ["8 wavefronts in 1 phase", "1 wavefront in 1 phase"]
    field(layouts, "Access").select_option("ldmatrix4")
    assert figures(layouts) == ["32 wavefronts in 4 phases", "4 wavefronts in 4 phases"]
    field(layouts, "Beside it").select_option("pitch")
    assert figures(layouts)[1] == "4 wavefronts in 4 phases"
    for other in ("32", "64", "128", "plain", "none", "auto"):
        field(layouts, "Beside it").select_option(other)
    field(layouts, "Which").press("End")
    assert "column 32" in layouts.locator(".banks output").inner_text()
    field(layouts, "Access").select_option("row")
    assert "row 0, columns 0 to 31" in layouts.locator(".banks output").inner_text()


@pytest.mark.slow
def test_phases_play_step_by_step(open_page: Open) -> None:
    start = "#p=swizzled&t=Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]&a=ldmatrix4"
    page = open_page("layouts", start)
    page.get_by_role("button", name="Phase after").click()
    assert page.locator(".banks p[aria-live]").inner_text().startswith("Phase 1 of 4: 8 lanes take 8")
    page.get_by_role("button", name="Phase before").click()
    assert "Phase 4 of 4" in page.locator(".banks p[aria-live]").inner_text()
    page.get_by_role("button", name="Play the phases").click()
    page.get_by_text("Phase 3 of 4").wait_for()
    page.get_by_role("button", name="Stop").click()
    still = open_page("layouts", start, reduced_motion="reduce")
    still.get_by_role("button", name="Play the phases").click()
    still.wait_for_timeout(1200)
    assert "Phase 1 of 4" in still.locator(".banks p[aria-live]").inner_text()


# ---------------------------------------------------------------- specs as presets
@pytest.mark.slow
def test_every_spec_is_a_preset(layouts: Any) -> None:
    """Each shows a buffer of its own with one of its accesses, or, where all its arrays are in global memory, that."""
    names = {path.stem for path in KERNELS}
    options = layouts.get_by_label("Spec", exact=True).evaluate("n => [...n.options].map(o => o.value)")
    assert set(options) == {"", *names}
    for name in ("attention_hopper", "copy_reg", "permute_sf", "rotary", "wgmma_tile"):
        layouts.get_by_label("Spec", exact=True).select_option(name)
        assert layouts.locator(".error").inner_text() == "" and figures(layouts), name
        assert name in str(field(layouts, "Access").evaluate("n => [...n.children].map(o => o.label).join()"))


def test_an_access_of_a_spec_in_another_layout(layouts: Any) -> None:
    layouts.get_by_label("Spec", exact=True).select_option("copy_reg")
    field(layouts, "Access").select_option("a3")
    field(layouts, "Beside it").select_option("none")
    assert figures(layouts) == ["8 wavefronts in 4 phases"]  # as explain says it
    layouts.get_by_role("button", name="Phase after").click()
    assert layouts.locator(".banks p[aria-live]").inner_text().startswith("Phase 2 of 4: 8 lanes take 2")
    given = field(layouts, "Layout").input_value()
    field(layouts, "Type").select_option("float32")
    field(layouts, "Layout").fill(f"Swizzle(2, 3, 3) o {given.partition(' o ')[2] or given}")
    assert len(figures(layouts)) == 2 and layouts.locator(".banks figcaption").first.inner_text().startswith(given)


def test_boxes_and_matrices_are_drawn(layouts: Any) -> None:
    layouts.get_by_label("Spec", exact=True).select_option("wgmma_tile")
    kinds = field(layouts, "Access").evaluate("n => [...n.options].map(o => [o.value, o.text])")
    for key, text in kinds:
        if "wgmma" in text:
            field(layouts, "Access").select_option(key)
            assert "128 bytes a wavefront, without conflicts" in figures(layouts)[0]
            assert "row 63" in layouts.locator(".banks table").first.inner_text()
    assert any("wgmma" in text for _, text in kinds)


@pytest.mark.slow
def test_a_short_link_names_a_spec_or_a_preset(open_page: Open) -> None:
    for hash, text in (("#p=tmem_224", "S[(2, 128, 112)"), ("#g=copy_staged", "S[(3, 64, 64)")):
        page = open_page("layouts", hash)
        assert field(page, "Layout").input_value().startswith(text)


# ---------------------------------------------------------------- tiled products
@pytest.mark.slow
def test_r_is_a_slider_and_a_table(layouts: Any) -> None:
    layouts.get_by_role("tab", name="Tiled mma").click()
    rows = layouts.locator(".prices tbody tr")
    assert rows.count() == 4
    slider = field(layouts, "R, consecutive elements of a thread")
    slider.press("Home")
    assert "R = 1" in layouts.locator(".mma output").inner_text()
    assert "2048 of 2048" in rows.nth(0).inner_text() and "16 of 16" in rows.nth(0).inner_text()
    slider.press("End")
    assert "R = 8" in layouts.locator(".mma output").inner_text() and "20 of 12" in rows.nth(3).inner_text()
    layouts.get_by_label("R = 2", exact=True).check()
    assert slider.get_attribute("aria-valuetext") == "R = 2"
    field(layouts, "Thread").fill("17")
    assert "Thread 17 owns the 64" in layouts.locator(".mma .legend").inner_text()
    field(layouts, "Thread").fill("256")
    assert "there is no thread 256: threads are 0 to 255" in wrong(layouts, "Thread")
    field(layouts, "Thread").fill("17")
    field(layouts, "Tiling").select_option("mma")
    assert "Thread 0 owns the 128" in layouts.locator(".mma .legend").inner_text()
    layouts.get_by_label("Elements of C and the threads that own them").press("Enter")


def test_a_product_opens_in_its_own_tab(open_page: Open) -> None:
    page = open_page("product")
    assert page.locator("#panel-mma").is_visible() and not page.locator("#panel-layout").is_visible()
    assert "elements of 128 x 256" in page.locator(".mma .legend").inner_text()
    page.get_by_role("tab", name="Layout").click()
    assert field(page, "Shape").input_value() == "128, 256"


# ---------------------------------------------------------------- a spec
@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", SPECS)
def test_the_kernel_is_in_sight_when_the_code_opens(open_page: Open, name: str) -> None:
    page = open_page(name)
    page.locator("#tab-code").click()
    page.wait_for_timeout(100)
    row = page.locator("pre[aria-label=CUDA] .line", has_text="__global__").first.bounding_box()
    pre = page.locator("pre[aria-label=CUDA]").bounding_box()
    assert pre["y"] <= row["y"] and row["y"] + row["height"] <= min(pre["y"] + pre["height"], 900)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_every_tab_of_a_spec(open_page: Open, name: str) -> None:
    page = open_page(name)
    for tab in TABS:
        page.locator(f"#tab-{tab}").click()
        assert page.locator(f"#panel-{tab}").is_visible()


@pytest.mark.slow
def test_a_gemm_shows_its_tile_ops_and_its_recipes(open_page: Open) -> None:
    page = open_page("gemm")
    first = page.locator(".choice", has_text="variant = wgmma").first
    assert "microseconds" in first.inner_text() and first.locator("tr.chosen .bar-fill").count() >= 5
    page.locator("#tab-code").click()
    page.locator(".op-button", has_text="mma sa").click()
    lit = page.locator("#panel-code pre[aria-label=Spec]:not([hidden]) .line.lit")
    assert "- mma:" in lit.inner_text()
    page.get_by_role("button", name="As it was written").click()
    assert "- gemm: {a: A, b: B, d: D}" in lit.inner_text()
    page.locator(".chip", has_text="sb shared wgmma").click()
    assert all(text.startswith("sb") for text in page.locator(".address").all_inner_texts())
    picture = page.get_by_role("region", name="Picture of the access")
    assert "128 bytes a wavefront" in picture.inner_text() and picture.locator("canvas").count() == 2
    page.get_by_role("button", name="Draw access 7, out").click()
    assert "Phase 1 of 4: 8 lanes take" in page.locator("#panel-layout .banks").inner_text()
    page.get_by_role("button", name="Its line and its CUDA").click()
    assert "stmatrix" in page.locator("#panel-code [aria-pressed=true].chip").inner_text()


def test_steps_say_what_each_op_reads_and_writes(open_page: Open) -> None:
    page = open_page("copy_staged", "#v=time")
    row = page.locator(".steps tbody tr", has_text="copy tile[k % 3]")
    assert [cell.strip() for cell in row.inner_text().split("\t")][2:] == ["", "writes", "reads"]
    row.get_by_role("button").click()
    assert "copy_tile_Y" in "".join(page.locator("#panel-code .line.lit").all_inner_texts())


def test_memories_lie_side_by_side(open_page: Open) -> None:
    page = open_page("gemm")
    text = page.locator("#panel-choices").inner_text()
    assert "212992 bytes of shared memory" in text and "65536 to 196607" in text


def test_spec_cuda_and_picture_are_linked(open_page: Open) -> None:
    page = open_page("copy_staged")
    page.locator("#tab-code").click()
    page.locator(".op-button").first.click()
    lit = page.locator("#panel-code .line.lit")
    assert any("cp_async_16(&tile[" in text for text in lit.all_inner_texts())
    assert any("async: true" in text for text in lit.all_inner_texts())
    page.locator(".chip", has_text="tile").first.hover()
    texts = set(page.locator(".address").all_inner_texts())
    assert "tile[i * 1024 + tx * 8]" in texts and not any(text.startswith("X[") for text in texts)
    page.locator("#panel-code .line.lit", has_text="cp_async_16").locator("[data-buffer=X]").first.hover()
    assert all(text.startswith("X[") for text in page.locator(".address").all_inner_texts())
    page.get_by_role("button", name="Draw access").first.click()
    assert page.locator("#panel-layout").is_visible()
    assert figures(page)[0] == "4 wavefronts in 4 phases, of a store"  # cp.async


def test_the_timeline_says_who_waits_for_whom(open_page: Open) -> None:
    page = open_page("hgemm_roles", "#v=time")
    page.locator(".event", has_text="wait full[0] phase 0").first.click()
    said = page.locator("#panel-time p[aria-live]").inner_text()
    assert "It waited for load: announce" in said and "are in sa: full[0] phase 0" in said
    assert page.locator(".arrows path.cause").count() >= 2
    page.locator(".event.arrives", has_text="arrive").first.focus()
    assert "For it waited load" in page.locator("#panel-time p[aria-live]").inner_text()


def test_choices_show_rejected_candidates_with_their_costs(open_page: Open) -> None:
    page = open_page("copy_staged")
    text = page.locator("#panel-choices").text_content()
    assert (
        "S[(3, 64, 64):(4160, 64, 1)]" in text
        and "costs more" in text
        and "sm_80 has no TMA" in text
        and "Because the widest" in text
    )
    page.get_by_role("button", name="Draw tile").click()
    assert field(page, "Layout").input_value().startswith("S[(3, 64, 64)")


@pytest.mark.slow
def test_a_frame_of_a_notebook_is_the_page(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    built = tilegen.build(ROOT / "specs" / "gemm_mma.yaml")
    path.write_text(f"<!doctype html><title>a notebook</title>{built._repr_html_()}")
    page = open_page(path)
    frame = page.frame_locator("iframe")
    frame.get_by_role("tab", name="Code").click()
    assert "gemm_mma" in frame.locator(".code").first.inner_text()
    frame.get_by_role("tab", name="Tiled mma").click()
    assert frame.locator(".prices tbody tr").count() > 0


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "paper"), [("light", [255, 255, 255]), ("dark", [20, 23, 27])])
def test_a_layout_of_a_notebook_is_a_picture_in_light_and_dark(
    open_page: Open, tmp_path: Path, scheme: str, paper: list[int]
) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>a notebook</title>{layouts_room.parse('S[(8, 64)]')._repr_html_()}")
    page = open_page(path, color_scheme=scheme)
    image = page.get_by_role("img", name="The layout S[(8, 64):(64, 1)]")
    assert image.evaluate("image => image.complete && image.naturalWidth > 100")
    assert read_pixel(page, image.screenshot()) == paper


# ---------------------------------------------------------------- manners
@pytest.mark.slow
@pytest.mark.parametrize("width", [380, 2560])
@pytest.mark.parametrize("name", ["layouts", "gemm"])
def test_no_width_is_too_narrow_or_too_wide(open_page: Open, name: str, width: int) -> None:
    page = open_page(name, viewport={"width": width, "height": 800})
    for tab in page.get_by_role("tab").all():
        tab.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, tab.inner_text()


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["layouts", "gemm"])
def test_axe_finds_nothing(open_page: Open, name: str, scheme: str) -> None:
    page = open_page(name, color_scheme=scheme, bypass_csp=True)
    page.add_script_tag(path=str(AXE))
    for tab in page.get_by_role("tab").all():
        tab.click()
        found = page.evaluate("axe.run().then(r => r.violations.map(v => [v.id, v.nodes[0].html]))")
        assert found == [], tab.inner_text()


def test_light_and_dark(open_page: Open) -> None:
    page = open_page("layouts", color_scheme="dark")
    shade = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(shade)
    page.get_by_role("button", name="Switch to light").click()
    assert page.evaluate(shade) == "rgb(255, 255, 255)" != dark
    page.get_by_role("button", name="Switch to dark").click()
    assert page.evaluate(shade) == dark


def test_canvases_and_the_button_follow_the_system(open_page: Open) -> None:
    page = open_page("layouts", color_scheme="light")
    drawn = "document.querySelector('canvas').toDataURL()"
    light = page.evaluate(drawn)
    page.emulate_media(color_scheme="dark")
    page.get_by_role("button", name="Switch to light").wait_for()
    assert page.evaluate(drawn) != light


@pytest.mark.slow
@pytest.mark.parametrize("width", [420, 1400])
def test_a_tile_of_128_by_256_fits(open_page: Open, width: int) -> None:
    for hash, label in (
        ("#p=wide", "Elements of the layout"), ("#p=tmem", "Places that hold the elements"),
        ("#v=mma", "Elements of C and the threads that own them"),
    ):  # fmt: skip
        page = open_page("product" if "mma" in hash else "layouts", hash, viewport={"width": width, "height": 900})
        room = page.get_by_label(label).evaluate(
            "n => [n.scrollWidth - n.clientWidth, n.scrollHeight - n.clientHeight]"
        )
        assert room == [0, 0], label
