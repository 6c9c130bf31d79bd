"""Pictures for documents and notebooks: explain and layout as SVG, explain in ten lines, cells of a notebook."""

from __future__ import annotations

import base64
import doctest
import re
import shlex
import subprocess
import sys
import zlib
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from specs.kernels import SPECS as KERNELS

import tilegen
from tilegen import drawing, layouts
from tilegen.bench import Bar, BarGroup, svg_picture
from tilegen.cli import cli
from tilegen.decisions import COLUMNS
from tilegen.report import summary_lines
from tilegen.viewing import own_presets

ROOT = Path(__file__).parents[2]
SPECS = [str(ROOT / "specs" / f"{name}.yaml") for name in ("copy_staged", "hgemm_roles", "softmax_rows", "gemm")]
ABOVE = str(ROOT / "specs" / "copy_reg.yaml")  # two accesses cost more than they need
SVG = "{http://www.w3.org/2000/svg}"


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def drawn(text: str) -> ElementTree.Element:
    """An SVG that a parser takes, with a name and a description that its root refers to."""
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg" and root.get("role") == "img" and root.get("aria-labelledby") == "title desc"
    assert all(root.find(f"{SVG}{tag}").text for tag in ("title", "desc"))
    return root


def texts(root: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in root.iter(f"{SVG}text")]


# ---------------------------------------------------------------- layout --format svg
def test_a_layout_as_svg_says_what_the_drawing_says() -> None:
    root = drawn(run("layout", "--format", "svg", "--draw", "S[(2, 4):(4@laneid, 1@laneid)]").stdout)
    cells = [node.text for node in root.iter(f"{SVG}text") if node.get("class") == "c"]
    printed = run("layout", "--draw", "S[(2, 4):(4@laneid, 1@laneid)]").stdout
    assert len(cells) == 8 and all(str(text) in printed for text in cells)


def test_banks_as_svg() -> None:
    words = ("layout", "--format", "svg", "--banks", "--dtype", "float16", "Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]")
    root = drawn(run(*words).stdout)
    row = [node.text for node in root.iter(f"{SVG}text") if node.get("class") == "c"][8:16]
    assert row == ["4-7", "0-3", "12-15", "8-11", "20-23", "16-19", "28-31", "24-27"]


def test_every_cell_lies_in_the_picture() -> None:
    root = drawn(run("layout", "--format", "svg", "mma_fragment('m16n8k16', 'C')").stdout)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    keys = ("x", "y", "width", "height")
    boxes = [
        {key: float(node.get(key, 0)) for key in keys}
        for node in root.iter(f"{SVG}rect")
        if node.get("class") != "paper"
    ]
    assert len(boxes) == 128 and len({(b["x"], b["y"]) for b in boxes}) == 128
    assert all(b["x"] + b["width"] <= width and b["y"] + b["height"] <= height for b in boxes)


@pytest.mark.parametrize(
    "more", [("--at", "0,0"), ("--to", "linear"), ("--banks", "--dtype", "int8", "--access", "row")]
)
def test_svg_is_a_picture_and_nothing_else(more: tuple[str, ...]) -> None:
    result = run("layout", "--format", "svg", "S[(8, 64)]", *more)
    assert result.exit_code == 2 and "--format svg is the picture" in result.stderr


# ---------------------------------------------------------------- explain
@pytest.mark.sweep(1)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: Path(p).stem)
def test_a_summary_has_ten_lines(path: str) -> None:
    lines = run("explain", "--summary", path).stdout.splitlines()
    explained = tilegen.explain(path)
    assert len(lines) == 10 and all(len(line) <= COLUMNS for line in lines)
    assert lines[0].startswith(f"{explained['kernel']} for {explained['arch']}: grid ")
    assert f"sectors {explained['summary']['sectors']} " in lines[2]
    assert f"wavefronts {explained['summary']['wavefronts']} " in lines[3]
    assert lines[9].endswith(f"next: tilegen view {path}") or lines[9].endswith("...")


def test_a_summary_names_what_is_above_its_floor() -> None:
    explained = tilegen.explain(ABOVE)
    accesses = [a for op in explained["ops"] for a in op["accesses"]]
    above = [n for n, a in enumerate(accesses, 1) if a["wavefronts"] > a["floor"] or a["sectors"] > a["sectors_floor"]]
    last = summary_lines(explained, "it.yaml")[9]
    listed = ", ".join(f"#{n} {accesses[n - 1]['buffer']}" for n in above)
    counted = f"{len(above)} of {len(accesses)} accesses above their floor ({listed})"
    assert above and last == f"above      {counted}; next: tilegen view it.yaml"


@pytest.mark.sweep(1)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: Path(p).stem)
def test_explain_as_svg_has_a_bar_for_each_cost(path: str) -> None:
    root = drawn(run("explain", "--format", "svg", path).stdout)
    explained, said = tilegen.explain(path), texts(root)
    _, *bars = root.iter(f"{SVG}rect")  # the first is the paper
    costs = [op["cost"][name] for op in explained["ops"] for name in ("sectors", "wavefronts") if op["cost"][name]]
    assert len(bars) == len(costs) and all(str(cost) in said for cost in costs)
    assert all(any(text.startswith(f"{k}. ") for text in said) for k in range(1, len(explained["ops"]) + 1))
    assert all(float(bar.get("width", 0)) <= 160 for bar in bars)


def test_every_svg_has_paper_of_its_own_in_light_and_dark() -> None:
    bars = BarGroup("a kernel", (Bar("tilegen", 0.5, "1 GB/s", True),))
    explained = run("explain", SPECS[0], "--format", "svg").stdout
    layout = run("layout", "S[(8, 64)]", "--draw", "--format", "svg").stdout
    for text in (explained, layout, svg_picture([bars])):
        first = next(iter(drawn(text).iter(f"{SVG}rect")))
        assert (first.get("class"), first.get("width"), first.get("height")) == ("paper", "100%", "100%")
        light, _, dark = text.partition("@media(prefers-color-scheme:dark)")
        assert ".paper{fill:#fff}" in light and dark.startswith("{.paper{fill:#14171b}")
        assert "text{" in dark, "ink for dark paper"


def test_explain_as_html_is_the_page_of_view(tmp_path: Path) -> None:
    path = SPECS[0]
    page = run("explain", "--format", "html", path).stdout
    run("view", path, "-o", str(tmp_path / "page.html"))
    assert page.startswith("<!doctype html>") and page.rstrip() == (tmp_path / "page.html").read_text().rstrip()


@pytest.mark.parametrize("more", [("--access", "1"), ("--events",), ("--compile",), ("--resolved",), ("--expanded",)])
@pytest.mark.parametrize("form", ["--summary", "svg", "html"])
def test_they_stand_alone(form: str, more: tuple[str, ...]) -> None:
    asked = ("--summary",) if form == "--summary" else ("--format", form)
    result = run("explain", SPECS[0], *asked, *more)
    assert result.exit_code == 2 and "stands alone" in result.stderr


def test_a_wrong_spec_has_its_error_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("kernel: k\nthreads: none\nops: []\n")
    for words in (("--summary",), ("--format", "svg"), ("--format", "html")):
        result = run("explain", str(path), *words)
        assert result.exit_code == 1 and not result.stdout and f"{path}:2:10" in result.stderr


# ---------------------------------------------------------------- view
def test_view_opens_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: bool(opened.append(url)) or True)
    path = tmp_path / "page.html"
    result = run("view", "S[(8, 64)]", "-o", str(path), "--open")
    assert result.exit_code == 0 and result.stdout == f"{path}\n" and opened == [path.as_uri()]
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    assert f"no browser could be started: open {path} in one" in run("view", "-o", str(path), "--open").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("S[(8, 64)]", "--arch", "sm_90"), "--arch, --set and --pass are of a SPEC"),
        (("--shape", "8,64"), "--shape goes with a LAYOUT"),
        ((SPECS[0], "--shape", "8,64"), "a spec's buffers have their own"),
        (("S[(8, 64)]", "-o", "-", "--open"), "take one of them"),
    ],
)
def test_view_refuses_what_does_not_go_together(words: tuple[str, ...], said: str) -> None:
    result = run("view", *words)
    assert result.exit_code == 2 and said in result.stderr


def test_view_says_where_a_layout_is_wrong() -> None:
    result = run("view", "S[(8, 2):(4@lanid, 1)]", "-o", "-")
    assert result.exit_code == 1 and "'laneid'" in result.stderr and "^^^^^" in result.stderr


# ---------------------------------------------------------------- notebooks
def unpack_page(frame: str | None) -> str:
    """The page in a notebook's frame, as the browser unpacks it."""
    assert frame is not None and frame.startswith("<iframe ") and 'sandbox="allow-scripts"' in frame
    packed = re.search(r'atob\("([^"]*)"\)', unescape(frame.partition('srcdoc="')[2].partition('"')[0]))
    assert packed
    return zlib.decompress(base64.b64decode(packed[1])).decode()


def read_image(image: str | None) -> ElementTree.Element:
    """The picture in a notebook."""
    assert image is not None and image.startswith('<img alt="The layout ')
    return ElementTree.fromstring(base64.b64decode(image.partition("base64,")[2].partition('"')[0]))


@pytest.mark.parametrize(
    "text",
    [
        "S[(8, 64)]", "Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]", "(8,(2,4)):(2,(1,16))", "Sw<3,3,3> o (8,64):(64,1)",
        "PaddedSharedLayout.with_identity_for([[32, 1]], [32, 32], [1, 0])", "mma_fragment('m16n8k16', 'C')",
        "LinearLayout(register=[[0, 1], [0, 2]], lane=[[1, 0], [2, 0]])", "Swizzle(3, 3, 3)",
    ],
)  # fmt: skip
def test_a_layout_in_a_notebook(text: str) -> None:
    image = drawing.read_layout(text)._repr_html_()
    root = read_image(image)
    assert image and len(image.encode()) < 40_000
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) > 8
    assert "prefers-color-scheme:dark" in "".join(root.itertext())


@pytest.mark.parametrize("text", ["S[(256, 256)]", "S[(1, 65536)]", "S[(65536, 1)]", "S[(32, 64):(2@laneid, 1)]"])
def test_a_layout_of_many_elements_shows_as_many_as_a_notebook_takes(text: str) -> None:
    image = drawing.read_layout(text)._repr_html_()
    assert image and len(image.encode()) < 40_000
    assert "more rows" in "".join(read_image(image).itertext()) or "a part: " in "".join(read_image(image).itertext())


def test_layouts_without_a_picture_stand_as_text() -> None:
    assert layouts.BlockedLayout([1], [32], [1], [0])._repr_html_() is None  # of any shape


def test_a_build_in_a_notebook() -> None:
    spec = tilegen.load(SPECS[2])
    built = tilegen.build(spec)
    frame = built._repr_html_()
    page = unpack_page(frame)
    assert "softmax_rows" in page and '"cuda":["' in page
    assert frame and len(frame.encode()) < 80_000
    assert repr(built) == "<Built softmax_rows for sm_80: 256 x 1 x 1 CTAs of 256 threads, 6 ops>"


@pytest.mark.slow
def test_nothing_of_the_viewer_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys\nfrom tilegen.layouts import parse\nlayout = parse('S[(8, 64)]')\n"
        "assert 'tilegen.viewing' not in sys.modules\nlayout._repr_html_()\nassert 'tilegen.viewing' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


# ---------------------------------------------------------------- docs/viewer.md
@pytest.mark.slow
def test_every_command_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "viewer.md").read_text(encoding="utf-8")
    commands = [shlex.split(line, comments=True)[1:] for line in text.splitlines() if line.startswith("tilegen view")]
    assert len(commands) >= 5
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: bool(opened.append(url)) or True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").symlink_to(ROOT / "specs")
    for words in commands:
        result = run(*words)
        assert result.exit_code == 0, (words, result.stderr)
        assert (tmp_path / result.stdout.strip()).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert opened == [(tmp_path / "gemm.html").as_uri()]


def test_the_python_of_the_page_runs() -> None:
    failed, tried = doctest.testfile(str(ROOT / "docs" / "viewer.md"), module_relative=False)
    assert (failed, tried) == (0, 2)


def test_keys_of_links_on_the_page_are_presets() -> None:
    text = (ROOT / "docs" / "viewer.md").read_text(encoding="utf-8")
    keys = {preset.key for group in own_presets() for preset in group.layouts}
    names = {path.stem for path in KERNELS}
    assert set(re.findall(r"#p=(\w+)", text)) <= keys and set(re.findall(r"#g=(\w+)", text)) <= names
