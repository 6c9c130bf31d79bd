"""The table and the picture of a made-up result, byte for byte. UPDATE_GOLDEN=1 writes them anew."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tilegen.bench import Result, Row, group_of, result_data, result_text, svg_picture
from tilegen.bench.measuring import Spread
from tilegen.bench.peers import Absent
from tilegen.bench.picture import TEXT_CELLS, draw_bar

GOLDEN = Path(__file__).with_name("golden")


def spread(median: float, rel: float = 0.01) -> Spread:
    return Spread(median * (1 - rel), median, median * (1 + rel))


LARGE = Result(
    "transpose", "transpose.yaml", "sm_90", "Pretended GPU", {"M": 8192, "N": 8192}, "ab" * 32,
    "permute (1,0) of 8192 x 8192, 4 bytes each", "every byte against a plain loop on the GPU", 2 << 28, 1, 30, 2,
    False, 4190.0, Row("tilegen", spread(132.0), spread(1.0, 0)),
    (
        Row("copy", spread(128.9), spread(0.9765)),
        Row("torch", spread(464.8), spread(3.521)),
        Row("triton", spread(134.4), spread(1.018), "64 x 64 tiles, 4 warps"),
    ),
    (Absent("cupy", "RuntimeError: <no> compiler"),),
)  # fmt: skip
SMALL = replace(
    LARGE, kernel="odd", params={}, moved_bytes=5320, launches=20, sets=256, is_cold=True,
    mine=Row("tilegen", spread(2.1), spread(1.0, 0)), peers=(Row("copy", spread(1.9), spread(0.905)),), absent=(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("large.txt", result_text(LARGE) + "\n"),
        ("small.txt", result_text(SMALL) + "\n"),
        ("both.svg", svg_picture([group_of(LARGE), group_of(SMALL)], "GB/s on <one> & all")),
    ],
)
def test_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == text


def test_the_table_fits_a_terminal_and_says_who_was_there() -> None:
    text = result_text(LARGE)
    assert max(map(len, text.splitlines())) <= 130
    assert "absent: cupy (RuntimeError: <no> compiler)" in text and "triton: 64 x 64 tiles, 4 warps" in text


@pytest.mark.parametrize("share", [0.0, 0.2, 0.503, 0.99, 1.0, 1.7])
def test_a_bar_is_as_long_as_its_share(share: float) -> None:
    bar = draw_bar(share)
    assert len(bar) <= TEXT_CELLS and abs(len(bar) - min(1.0, share) * TEXT_CELLS) <= 1


def test_the_picture_is_xml_and_its_bars_are_in_proportion() -> None:
    root = ElementTree.fromstring(svg_picture([group_of(LARGE)], "a < b"))
    _, *boxes = (e for e in root.iter() if e.tag.endswith("rect"))  # the first is the paper
    widths = [float(e.attrib["width"]) for e in boxes]
    assert [e.attrib["class"] for e in boxes] == ["m", "b", "b", "b"]
    times = [132.0, 128.9, 464.8, 134.4]
    for width, us in zip(widths, times, strict=True):
        assert width / widths[0] == pytest.approx(times[0] / us, rel=0.01)
    assert "a < b" in [e.text for e in root.iter()]


def test_the_data_has_what_the_table_has() -> None:
    data = result_data(LARGE)
    assert data["gb_per_s"] == round((2 << 28) / 132.0 / 1e3, 1)
    assert data["of_ceiling"] == pytest.approx(data["gb_per_s"] / 4190, abs=1e-4)
    assert data["peers"]["triton"]["detail"] == "64 x 64 tiles, 4 warps" and data["peers"]["torch"]["ratio"] == 3.521
    assert data["absent"] == {"cupy": "RuntimeError: <no> compiler"}
