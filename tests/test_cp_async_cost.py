"""What cp.async costs, against what an H200 counted, against a reference written with sets, and its laws."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilegen import access
from tilegen.access import CP_ASYNC_WIDTHS, cp_async_cost, sectors, wavefronts

DATA = Path(__file__).parent / "data"
FIRST = json.loads((DATA / "h200_cp_async.json").read_text())["patterns"]
LANES = range(32)
MODES = [(kind, width) for kind, widths in CP_ASYNC_WIDTHS.items() for width in widths]


# ---- the hardware's answers
def cost_of(pattern: dict[str, Any]) -> tuple[int, int]:
    kind = pattern["kind"].removeprefix("cp.async.")
    cost = cp_async_cost(kind, pattern["width"], pattern["offsets"], pattern["global_offsets"])
    return cost.wavefronts, cost.sectors


def counted_with_tables(pattern: dict[str, Any]) -> tuple[int, int]:
    """The kernel that counted read two tables of 32 ints: one with all lanes, the other with the active ones."""
    active = {lane // 8 for lane in LANES if pattern["offsets"][lane] >= 0}
    return pattern["wavefronts_ldgsts"], pattern["sectors_with_tables"] - 4 - len(active)


def test_counted_patterns_are_all_here() -> None:
    kinds = defaultdict(int)
    for p in FIRST:
        kinds[p["kind"], p["width"]] += 1
    assert dict(kinds) == {(f"cp.async.{kind}", width): 36 for kind, width in MODES}


def test_costs_equal_what_an_h200_counted() -> None:
    wrong = [p for p in FIRST if cost_of(p) != counted_with_tables(p)]
    assert not wrong


def test_a_batch_is_its_accesses() -> None:
    for kind, width in MODES:
        of_mode = [p for p in FIRST if (p["kind"], p["width"]) == (f"cp.async.{kind}", width)]
        offsets, global_offsets = (np.array([p[side] for p in of_mode]) for side in ("offsets", "global_offsets"))
        cost = cp_async_cost(kind, width, offsets, global_offsets)
        assert list(zip(cost.wavefronts.tolist(), cost.sectors.tolist(), strict=True)) == [cost_of(p) for p in of_mode]
        assert cost.wavefronts.dtype == cost.sectors.dtype == np.int64


# ---- a reference that shares no line with the model
def count_by_sets(kind: str, width: int, to: list[int], source: list[int]) -> tuple[int, int]:
    active = [lane for lane in LANES if to[lane] >= 0]
    if kind == "cg":
        return 0, len({(source[lane] // 128, to[lane] // 32) for lane in active})
    total, size = 0, {4: 32, 8: 16, 16: 8}[width]
    for first in range(0, 32, size):
        banks = {lane: {("to", to[lane] // 4 % 32), ("from", source[lane] // 4 % 32)} for lane in active}
        lanes = [lane for lane in active if first <= lane < first + size]
        total += max((sum(bool(banks[a] & banks[b]) for b in lanes) for a in lanes), default=0)
    return total, len({source[lane] // 32 for lane in active})


@st.composite
def copies(draw: st.DrawFn) -> tuple[str, int, list[int], list[int]]:
    """A mode and two sets of 32 offsets: wild or strided, with words that lanes share, with lanes left out."""
    kind, width = draw(st.sampled_from(MODES))
    sides = []
    for most in (draw(st.sampled_from([4, 64, 14_000])), draw(st.sampled_from([4, 64, 14_000, 2**40]))):
        if draw(st.booleans()):
            offsets = draw(st.lists(st.integers(0, most), min_size=32, max_size=32))
        else:
            start, stride = draw(st.integers(0, 64)), draw(st.integers(0, 70))
            keep = draw(st.sampled_from([31, ~1 & 31, ~8 & 31]))
            offsets = [start + stride * (lane & keep) for lane in LANES]
        sides.append([width * x for x in offsets])
    to, source = sides
    for lane in draw(st.sets(st.integers(0, 31))) if draw(st.booleans()) else ():
        to[lane] = -1
    return kind, width, to, source


@settings(max_examples=400, deadline=None)
@given(copies())
def test_every_cost_equals_the_one_by_sets(case: tuple[str, int, list[int], list[int]]) -> None:
    cost = cp_async_cost(*case)
    assert (cost.wavefronts, cost.sectors) == count_by_sets(*case)


# ---- laws
@settings(max_examples=200, deadline=None)
@given(copies(), st.integers(0, 5), st.integers(0, 5))
def test_shifting_either_side_by_whole_lines_changes_nothing(
    case: tuple[str, int, list[int], list[int]], rows: int, lines: int
) -> None:
    kind, width, to, source = case
    moved = [x if x < 0 else x + 128 * rows for x in to]
    assert cp_async_cost(kind, width, moved, [x + 128 * lines for x in source]) == cp_async_cost(*case)


@settings(max_examples=200, deadline=None)
@given(copies(), st.randoms())
def test_lanes_of_a_phase_may_change_places(case: tuple[str, int, list[int], list[int]], random: Any) -> None:
    kind, width, to, source = case
    size = 32 if kind == "cg" else 128 // width  # no lane has a place in the count of cg
    order = list(LANES)
    for first in range(0, 32, size):
        group = order[first : first + size]
        random.shuffle(group)
        order[first : first + size] = group
    assert cp_async_cost(kind, width, [to[k] for k in order], [source[k] for k in order]) == cp_async_cost(*case)


@settings(max_examples=200, deadline=None)
@given(copies(), st.integers(0, 31))
def test_a_lane_less_costs_no_more(case: tuple[str, int, list[int], list[int]], lane: int) -> None:
    kind, width, to, source = case
    less = cp_async_cost(kind, width, [*to[:lane], -1, *to[lane + 1 :]], source)
    cost = cp_async_cost(*case)
    assert less.wavefronts <= cost.wavefronts and less.sectors <= cost.sectors


@settings(max_examples=200, deadline=None)
@given(copies())
def test_a_copy_costs_at_least_what_either_side_does_alone(case: tuple[str, int, list[int], list[int]]) -> None:
    kind, width, to, source = case
    cost = cp_async_cost(*case)
    read = [x if at >= 0 else -1 for x, at in zip(source, to, strict=True)]
    if kind == "ca":
        assert cost.wavefronts >= max(wavefronts("st", width, to), wavefronts("st", width, read))
        assert cost.sectors == sectors(width, read)
    else:
        assert max(sectors(16, to), len({x // 128 for x in read if x >= 0})) <= cost.sectors <= 32


def test_no_active_lane_costs_nothing() -> None:
    for kind, width in MODES:
        cost = cp_async_cost(kind, width, [-1] * 32, [0] * 32)
        assert (cost.wavefronts, cost.sectors) == (0, 0)


def test_what_an_inactive_lane_would_read_is_not_looked_at() -> None:
    to = [4 * lane if lane % 2 else -1 for lane in LANES]
    assert cp_async_cost("ca", 4, to, [lane if lane % 2 == 0 else 4 * lane for lane in LANES]).sectors == 4
    assert cp_async_cost("ca", 4, to, [-1 if lane % 2 == 0 else 4 * lane for lane in LANES]).wavefronts == 1


@pytest.mark.parametrize(("kind", "width"), MODES)
def test_batches_are_cut_without_a_seam(kind: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(width)
    to, source = rng.integers(0, 200, (37, 32)) * width, rng.integers(0, 300, (37, 32)) * width
    to[::5, 3:9] = -1
    to[7] = -1
    whole = cp_async_cost(kind, width, to, source)
    monkeypatch.setattr(access.offsets, "CHUNK", 5)
    cut = cp_async_cost(kind, width, np.asfortranarray(to.astype(np.int32)), source)
    alone = [cp_async_cost(kind, width, a, b) for a, b in zip(to, source, strict=True)]
    assert cut.wavefronts.tolist() == whole.wavefronts.tolist() == [c.wavefronts for c in alone]
    assert cut.sectors.tolist() == whole.sectors.tolist() == [c.sectors for c in alone]
    assert cp_async_cost(kind, width, to[:0], source[:0]).sectors.shape == (0,)


@pytest.mark.parametrize(
    ("kind", "width", "to", "source", "message"),
    [
        ("cs", 4, [0] * 32, [0] * 32, "unknown kind of cp.async 'cs': ca or cg"),
        ("cg", 8, [0] * 32, [0] * 32, "cp.async.cg moves 16 bytes per lane, not 8"),
        ("ca", 2, [0] * 32, [0] * 32, "cp.async.ca moves 4 or 8 or 16 bytes per lane, not 2"),
        ("ca", 4, [0] * 32, [[0] * 32], r"one shape, not \(32,\) and \(1, 32\)"),
        ("ca", 4, [0] * 31, [0] * 31, r"shared offsets have shape \(32,\) or \(n, 32\), one per lane, not \(31,\)"),
        ("ca", 4, [0.0] * 32, [0] * 32, "shared offsets are integers"),
        ("ca", 4, [0] * 32, [0.5] * 32, "global offsets are integers"),
        (
            "ca",
            8,
            [0] * 32,
            [0] * 5 + [4] + [0] * 26,
            "byte global offset 4 of lane 5 in access 0 is not a multiple of 8",
        ),
        ("ca", 8, [0] * 7 + [-2] + [0] * 24, [0] * 32, "byte shared offset -2 of lane 7 in access 0 is negative"),
        ("cg", 16, [0] * 32, [0] * 9 + [-1] + [0] * 22, "lane 9 in access 0 is active and has no global offset"),
        ("cg", 16, [1 << 24] * 32, [0] * 32, "lane 0 in access 0 writes beyond 16777216 bytes of shared memory"),
        ("cg", 16, [0] * 32, [1 << 52] * 32, "lane 0 in access 0 reads beyond 4503599627370496 bytes of global memory"),
    ],
)
def test_what_cannot_be_is_refused(kind: str, width: int, to: Any, source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cp_async_cost(kind, width, to, source)
