"""Every control of the page is operated in a real Chromium, and what takes how long at 128 x 256 is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.viewing.browser import Open, Watched, needs_browser, write_pages
from tilegen.dtypes import DTYPES
from tilegen.viewing import layout_page, spec_page

pytestmark = needs_browser
ROOT = Path(__file__).parents[2]
CONTROLS = "button, select, input, textarea, summary, a[href], [role=application]"
LEAST = {"layouts": 22, "gemm": 150, "copy_staged": 78}  # controls that are operated: fewer, and some were not found
KEYS = ("Home", "End", "ArrowDown", "PageDown", "ArrowUp", "ArrowRight", "Control+End", "Control+Home", "Enter")
MOST_MS = 50


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    texts = {name: spec_page(str(ROOT / "specs" / f"{name}.yaml"))[1] for name in ("gemm", "copy_staged")}
    return write_pages(tmp_path_factory.mktemp("controls"), {**texts, "layouts": layout_page()})


def operate(control: Any) -> None:
    """What a person could do with a control, each of it: every option, both ends of a slider, texts that cannot be."""
    tag, kind, role = control.evaluate("n => [n.tagName, n.type ?? '', n.getAttribute('role') ?? '']")
    if tag == "SELECT":
        for value in control.evaluate("n => [...n.options].map(o => o.value)"):
            control.select_option(value)
    elif role == "application":
        control.focus()
        for key in KEYS:
            control.press(key)
    elif kind == "range":
        for key in ("End", "ArrowLeft", "Home"):
            control.press(key)
    elif kind == "number":
        given = control.input_value()
        for text in ("1", "", "7", given):
            control.fill(text)
    elif tag == "TEXTAREA" or kind == "text":
        given = control.input_value()
        for text in ("", "[", "3:1@", "8, 64", "5@warpid", given):
            control.fill(text)
        control.press("Enter")
    else:
        control.click()


def seen(page: Any) -> str:
    """What the tab says, with what folds folded, nothing playing, and without what was said to a screen reader."""
    if page.get_by_role("button", name="Stop", exact=True).is_visible():
        page.get_by_role("button", name="Stop", exact=True).click()
    page.evaluate("document.querySelectorAll('details').forEach(n => { n.open = false; })")
    page.evaluate("document.querySelectorAll('.grid [aria-live]').forEach(n => { n.textContent = ''; })")
    return str(page.locator("[role=tabpanel]:not([hidden])").inner_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "layouts", *(pytest.param(name, marks=pytest.mark.slow) for name in ("copy_staged", "gemm")),
])  # fmt: skip
def test_every_control_and_a_link_to_what_it_left(browser: Any, pages: dict[str, Path], name: str) -> None:
    opened, operated = Watched(browser, pages[name]), 0
    page = opened.page
    for tab in [str(t.get_attribute("id")) for t in page.get_by_role("tab").all()]:
        panel = page.locator(f"#{tab.replace('tab', 'panel')}")
        page.locator(f"#{tab}").click()
        for number in range(panel.locator(CONTROLS).count()):
            if panel.get_attribute("hidden") is not None:  # the control before led to another tab
                page.locator(f"#{tab}").click()
            control = panel.locator(CONTROLS).nth(number)
            if control.count() and control.is_visible() and control.is_enabled():
                operate(control)
                operated += 1
                assert opened.said == [], control.evaluate("n => n.outerHTML")[:200]
        page.locator(f"#{tab}").click()
        page.mouse.move(2, 2)
        left = seen(page).splitlines()
        page.wait_for_timeout(400)  # the URL is written at most four times a second
        again = Watched(browser, pages[name], page.evaluate("location.hash"))
        assert seen(again.page).splitlines() == left and again.said == []
        again.page.close()
    assert operated >= LEAST[name]
    page.close()


@pytest.mark.slow
def test_types_are_those_of_tilegen(open_page: Open) -> None:
    page = open_page("layouts")
    select = page.get_by_label("Type", exact=True)
    assert set(select.evaluate("n => [...n.options].map(o => o.value)")) == {*DTYPES, "float4_e2m1"}
    for name, dtype in DTYPES.items():  # the last element of the row says how wide they are
        select.select_option(name)
        page.get_by_label("Go to element").fill("0, 63")
        page.get_by_label("Go to element").press("Enter")
        assert f"byte\t{63 * dtype.bytes}\n" in page.locator(".details").inner_text(), name


# ---------------------------------------------------------------- at 128 x 256
_MEASURE = """() => {
  const labels = [...document.querySelectorAll("label")];
  const labelled = (text) => document.getElementById(labels.find((l) => l.textContent === text).htmlFor);
  const give = (node, value, kind) => {
    node.value = value;
    node.dispatchEvent(new Event(kind));
  };
  const pick = (label, value) => give(labelled(label), value, "change");
  const write = (label, value) => give(labelled(label), value, "input");
  const point = (node, kind, k) => {
    const { x, y } = node.getBoundingClientRect();
    const at = { clientX: x + 60 + 7 * k, clientY: y + 40 + 3 * k };
    node.dispatchEvent(new PointerEvent(kind, { ...at, bubbles: true }));
  };
  pick("Preset", "wide");
  const [elements, places] = document.querySelectorAll("canvas.overlay");
  const after = [...document.querySelectorAll("button")].find((b) => b.textContent === "Phase after");
  const right = () => new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true });
  const acts = {
    "hover an element": (k) => point(elements, "pointermove", k),
    "choose an element": (k) => point(elements, "click", k),
    "hover a place": (k) => point(places, "pointermove", k),
    "choose a place": (k) => point(places, "click", k),
    "arrow key": () => document.querySelector(".grid-frame").dispatchEvent(right()),
    "swizzle": (k) => pick("Mode", ["0", "32", "64", "128"][k % 4]),
    "type": (k) => pick("Type", ["float16", "float32", "int8"][k % 3]),
    "access": (k) => pick("Access", ["row", "column", "ldmatrix4"][k % 3]),
    "beside it": (k) => pick("Beside it", ["128", "plain", "pitch", "64"][k % 4]),
    "which access": (k) => write("Which", String(k)),
    "phase": () => after.click(),
    "colours": (k) => give(document.querySelector(".inline select"), ["line", "m", "bank"][k % 3], "change"),
    "text": (k) => write("Layout", `Swizzle(3, 3, 3) o S[(128, 4, 64):(64, ${8192 + 64 * k}, 1)]`),
  };
  const found = {};
  for (const [name, act] of Object.entries(acts)) {
    const times = Array.from({ length: 12 }, (_, k) => {
      const begun = performance.now();
      act(k);
      document.body.getBoundingClientRect();
      return performance.now() - begun;
    }).slice(2).sort((a, b) => a - b);
    found[name] = [times[0], times[times.length >> 1], times.at(-1)];
  }
  return found;
}"""


@pytest.mark.slow
def test_a_large_tile_answers_at_once(open_page: Open, capsys: Any) -> None:
    """The least of ten is held, for the machine may have other things to do; the median and the most are printed."""
    found = open_page("layouts").evaluate(_MEASURE)
    with capsys.disabled():
        print("\n128 x 256, median and most of ten, ms:", end=" ")
        print(", ".join(f"{name} {median:.0f} {most:.0f}" for name, (_, median, most) in found.items()))
    assert {name: least for name, (least, _, _) in found.items() if least > MOST_MS} == {}
