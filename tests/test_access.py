"""The access model against what an H200 counted, against a reference written with sets, and its laws."""

from __future__ import annotations

import doctest
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session import examples
from tilegen import access
from tilegen.access import bank_table, bytes_floor, phases, sectors, wavefronts

HERE = Path(__file__).parent
COUNTED = json.loads((HERE / "data" / "h200_access_patterns.json").read_text())["patterns"]
SHARED = [p for p in COUNTED if "wavefronts" in p]
GLOBAL = [p for p in COUNTED if "sectors" in p]
LANES = range(32)


# ---- the hardware's answers
def test_counted_patterns_are_all_here() -> None:
    assert (len(SHARED), len(GLOBAL)) == (528, 72)


def test_wavefronts_equal_what_an_h200_counted() -> None:
    wrong = [p for p in SHARED if wavefronts(p["kind"], p["width"], p["offsets"]) != p["wavefronts"]]
    assert not wrong


def test_sectors_equal_what_an_h200_counted() -> None:
    wrong = [p for p in GLOBAL if sectors(p["width"], p["offsets"]) != p["sectors"]]
    assert not wrong


def test_bank_table_adds_up_to_what_an_h200_counted() -> None:
    wrong = [p for p in SHARED if bank_table(p["kind"], p["width"], p["offsets"]).wavefronts != p["wavefronts"]]
    assert not wrong


def test_a_batch_is_its_accesses() -> None:
    groups = defaultdict(list)
    for p in SHARED:
        groups[p["kind"], p["width"]].append(p)
    for (kind, width), patterns in groups.items():
        batch = np.array([p["offsets"] for p in patterns])
        assert wavefronts(kind, width, batch).tolist() == [p["wavefronts"] for p in patterns]
        assert phases(kind, width, batch).tolist() == [phases(kind, width, p["offsets"]) for p in patterns]


# ---- a reference that shares no line with the model
def served_groups(kind: str, width: int, offsets: list[int]) -> list[list[int]]:
    """Lists of active lanes that are served together."""
    if "matrix" in kind:
        groups = [list(range(8 * i, 8 * i + 8)) for i in range(int(kind[-1]))]
    else:
        size = {8: 16, 16: 8}.get(width, 32)
        groups = [list(range(i, i + size)) for i in range(0, 32, size)]
        if kind == "ld" and width >= 8 and any(all(agrees(offsets, lane, lane ^ d) for lane in LANES) for d in (1, 2)):
            groups = [a + b for a, b in zip(groups[0::2], groups[1::2], strict=True)]
    active = [[lane for lane in group if offsets[lane] >= 0] for group in groups]
    return [group for group in active if group]


def agrees(offsets: list[int], lane: int, other: int) -> bool:
    return offsets[lane] < 0 or offsets[other] < 0 or offsets[lane] == offsets[other]


def count_by_sets(kind: str, width: int, offsets: list[int]) -> int:
    total = 0
    for group in served_groups(kind, width, offsets):
        banks = defaultdict(set)
        for lane in group:
            for byte in range(offsets[lane], offsets[lane] + width):
                banks[byte // 4 % 32].add(byte // 4)
        total += max(len(words) for words in banks.values())
    return total


@st.composite
def accesses(draw: st.DrawFn) -> tuple[str, int, list[int]]:
    """A kind, a width and 32 offsets: wild or strided, in pairs that merge or nearly so, with lanes left out."""
    kind = draw(st.sampled_from(access.KINDS))
    width = 16 if "matrix" in kind else draw(st.sampled_from(access.WIDTHS))
    most = draw(st.sampled_from([4, 64, 14_000, 2**31, 2**33]))
    if draw(st.booleans()):
        offsets = draw(st.lists(st.integers(0, most), min_size=32, max_size=32))
    else:
        start, stride = draw(st.integers(0, 64)), draw(st.integers(0, 70))
        offsets = [start + stride * lane for lane in LANES]
    keep = draw(st.sampled_from([31, ~1 & 31, ~2 & 31]))
    offsets = [width * offsets[lane & keep] for lane in LANES]
    if "matrix" not in kind and draw(st.booleans()):
        for lane in draw(st.sets(st.integers(0, 31))):
            offsets[lane] = -1
    if draw(st.booleans()):
        offsets[draw(st.integers(0, 31))] = 0
    return kind, width, offsets


@settings(max_examples=examples(400), deadline=None)
@given(accesses())
def test_every_count_equals_the_one_by_sets(case: tuple[str, int, list[int]]) -> None:
    kind, width, offsets = case
    touched = {byte for x in offsets if x >= 0 for byte in range(x, x + width)}
    groups = served_groups(kind, width, offsets)
    assert wavefronts(kind, width, offsets) == count_by_sets(kind, width, offsets)
    assert phases(kind, width, offsets) == len(groups)
    assert sectors(width, offsets) == len({byte // 32 for byte in touched})
    assert bytes_floor(width, offsets) == -(-len(touched) // 128)
    table = bank_table(kind, width, offsets)
    assert table.wavefronts == wavefronts(kind, width, offsets)
    assert [list(phase.lanes) for phase in table.phases] == groups


# ---- laws
@settings(max_examples=examples(200), deadline=None)
@given(accesses(), st.integers(0, 5))
def test_shifting_by_whole_bank_rows_changes_nothing(case: tuple[str, int, list[int]], rows: int) -> None:
    kind, width, offsets = case
    moved = [x if x < 0 else x + 128 * rows for x in offsets]
    assert wavefronts(kind, width, moved) == wavefronts(kind, width, offsets)
    assert sectors(width, moved) == sectors(width, offsets)


@settings(max_examples=examples(200), deadline=None)
@given(accesses())
def test_the_floor_is_below(case: tuple[str, int, list[int]]) -> None:
    kind, width, offsets = case
    assert phases(kind, width, offsets) <= wavefronts(kind, width, offsets) <= 32


@settings(max_examples=examples(200), deadline=None)
@given(accesses(), st.randoms())
def test_lanes_of_a_phase_may_change_places(case: tuple[str, int, list[int]], random: object) -> None:
    kind, width, offsets = case
    size = min(32, 128 // width)
    if kind == "ld" and width > 4:
        kind = "st"  # a load's merging looks at the order of the lanes
    order = list(LANES)
    for first in range(0, 32, size):
        group = order[first : first + size]
        random.shuffle(group)  # type: ignore[attr-defined]
        order[first : first + size] = group
    assert wavefronts(kind, width, [offsets[lane] for lane in order]) == wavefronts(kind, width, offsets)


@pytest.mark.parametrize("width", access.WIDTHS)
def test_batches_are_cut_without_a_seam(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(width)
    batch = rng.integers(0, 200, (37, 32)) * width
    batch[::3] = batch[::3, np.arange(32) & ~1]
    batch[::5, 3:9] = -1
    batch[7] = -1
    whole = [f(batch) for f in counters(width)]
    monkeypatch.setattr(access.warp, "CHUNK", 5)
    for f, expected in zip(counters(width), whole, strict=True):
        assert f(batch).tolist() == expected.tolist() == [f(one) for one in batch]
        assert f(np.asfortranarray(batch.astype(np.int32))).tolist() == expected.tolist()
        assert f(batch[:0]).shape == (0,)


def counters(width: int) -> list:  # type: ignore[type-arg]
    return [
        lambda b: wavefronts("ld", width, b),
        lambda b: wavefronts("st", width, b),
        lambda b: phases("ld", width, b),
        lambda b: sectors(width, b),
        lambda b: bytes_floor(width, b),
    ]


def test_no_active_lane_costs_nothing() -> None:
    nobody = [-1] * 32
    for kind in access.KINDS:
        assert wavefronts(kind, 16, nobody) == phases(kind, 16, nobody) == 0
    assert sectors(4, nobody) == bytes_floor(4, nobody) == 0
    assert bank_table("ld", 4, nobody).wavefronts == 0


def test_counts_are_plain_ints_and_int64_arrays() -> None:
    offsets = [4 * lane for lane in LANES]
    assert type(wavefronts("ld", 4, offsets)) is int
    assert wavefronts("ld", 4, [offsets]).dtype == np.int64
    assert wavefronts("ld", 4, np.array(offsets, np.uint8)) == 1


def test_matrix_kinds_read_only_their_row_addresses() -> None:
    rows = [16 * lane for lane in range(8)] + [-1] * 24
    assert wavefronts("ldmatrix1", 16, rows) == 1
    assert wavefronts("ldmatrix1", 16, rows[:8] + [3] * 24) == 1


@pytest.mark.parametrize(
    ("kind", "width", "offsets", "message"),
    [
        ("load", 4, [0] * 32, "unknown kind of access 'load'"),
        ("ld", 3, [0] * 32, "ld moves 1 or 2 or 4 or 8 or 16 bytes per lane, not 3"),
        ("ldmatrix4", 4, [0] * 32, "ldmatrix4 moves 16 bytes per lane, not 4"),
        ("ld", 4, [0] * 31, r"shape \(32,\) or \(n, 32\), one per lane, not \(31,\)"),
        ("ld", 4, [[[0] * 32]], r"not \(1, 1, 32\)"),
        ("ld", 4, [0.0] * 32, "offsets are integers"),
        ("ld", 4, [0] * 7 + [6] + [0] * 24, "byte offset 6 of lane 7 in access 0 is not a multiple of 4"),
        ("st", 8, [[0] * 32, [-1] * 5 + [-8] + [0] * 26], "byte offset -8 of lane 5 in access 1 is negative"),
        ("ldmatrix2", 16, [0, -1] * 16, "needs the row addresses of lanes 0 to 15: all active, or none"),
    ],
)
def test_what_cannot_be_is_refused(kind: str, width: int, offsets: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wavefronts(kind, width, offsets)


def test_a_misaligned_access_far_into_a_batch_is_named() -> None:
    batch = np.zeros((5000, 32), np.int64)
    batch[4321, 9] = 2
    with pytest.raises(ValueError, match="byte offset 2 of lane 9 in access 4321 is not a multiple of 4"):
        sectors(4, batch)


def test_a_bank_table_is_of_one_access() -> None:
    with pytest.raises(ValueError, match="of one access"):
        bank_table("ld", 4, [[0] * 32])


def test_examples_of_the_page_hold() -> None:
    page = HERE.parent / "docs" / "access-model.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 10 and found.failed == 0
