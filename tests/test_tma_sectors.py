"""What TMA moves, against what an H200 counted for 162 boxes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilegen.access import tma_sectors

COUNTED = json.loads((Path(__file__).parent / "data" / "h200_tma.json").read_text())["boxes"]
PITCH_BYTES = 4096
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}


def chunks_of(box: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Where the box's 16-byte chunks lie: packed rows without a swizzle, one row per span with one."""
    span = SPANS[box["swizzle"]]
    shared, source = [], []
    for row in range(box["rows"]):
        for x in range(0, box["width_bytes"], 16):
            at = row * (span or box["width_bytes"]) + x
            flips = at >> 7 & (span // 16 - 1) if span else 0  # XORed into the chunk's index: stays in the row's line
            shared.append(at ^ flips << 4)
            source.append(row * PITCH_BYTES + x)
    return shared, source


def test_counted_boxes_are_all_here() -> None:
    assert len(COUNTED) == 162
    assert {box["swizzle"] for box in COUNTED} == set(SPANS)


def test_sectors_equal_what_an_h200_counted() -> None:
    assert not [box for box in COUNTED if tma_sectors(*chunks_of(box)) != box["sectors"]]


def test_every_word_is_written_or_read_once() -> None:
    """Whatever the swizzle: the banks see each word of the box once, and no conflict."""
    assert all(box["bank_words"] == box["width_bytes"] * box["rows"] // 4 for box in COUNTED)


def test_only_what_parts_a_sector_costs_more() -> None:
    row = [16 * k for k in range(8)]
    assert tma_sectors(row, row) == 4
    assert tma_sectors([128 + x for x in row], [256 + x for x in row]) == 4
    assert tma_sectors([16 + x for x in row], row) == 5  # the last chunk lies in the next line, its sector moves twice


@pytest.mark.parametrize(
    ("shared", "source", "message"),
    [
        ([0, 16], [0], "2 and 1 chunks are not"),
        ([0, 8], [0, 16], "shared byte offset 8 is negative or not a multiple of 16"),
        ([0], [-16], "global byte offset -16 is negative"),
        ([[0]], [[0]], r"shared offsets are integers of shape \(n,\), one per chunk"),
        ([0.0], [0], "shared offsets are integers"),
    ],
)
def test_what_cannot_be_is_refused(shared: Any, source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tma_sectors(shared, source)
