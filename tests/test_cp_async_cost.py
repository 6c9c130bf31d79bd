"""What cp.async costs, against what an H200 counted, against a reference written with sets, and its laws."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session import examples
from tilegen import access
from tilegen.access import CP_ASYNC_WIDTHS, CpAsyncCost, cp_async_cost, sectors, wavefronts
from tilegen.cost.asynchronous import count_cp_async, cp_async_kind

DATA = Path(__file__).parent / "data"
LANES = range(32)
COUNTS = ("wavefronts", "sectors", "l2_sectors", "fills")
MODES = [(kind, width) for kind, widths in CP_ASYNC_WIDTHS.items() for width in widths]


def read_patterns(name: str) -> list[dict[str, Any]]:
    return list(json.loads((DATA / f"h200_cp_async{name}.json").read_text())["patterns"])


def races(pattern: dict[str, Any]) -> bool:
    """Lanes of a cg that write one place: what is counted then depends on whose data stays."""
    written = [x for x in pattern["offsets"] if x >= 0]
    return pattern["kind"] == "cp.async.cg" and len(set(written)) < len(written)


FIRST, MORE, ZERO_FILL, RACES = (read_patterns(name) for name in ("", "_more", "_zero_fill", "_races"))
RACE_FREE = [p for p in MORE + ZERO_FILL if not races(p)]


# ---- the hardware's answers
def cost_of(pattern: dict[str, Any]) -> CpAsyncCost:
    kind, source = pattern["kind"].removeprefix("cp.async."), pattern["global_offsets"]
    copied = pattern.get("src_bytes", [1] * 32)
    source = [x if size else -1 for x, size in zip(source, copied, strict=True)]
    return cp_async_cost(kind, pattern["width"], pattern["offsets"], source, zero_fill="src_bytes" in pattern)


def counted_with_tables(pattern: dict[str, Any]) -> tuple[int, int]:
    """The first kernel that counted read two tables of 32 ints: one with all lanes, the other with the active ones."""
    active = {lane // 8 for lane in LANES if pattern["offsets"][lane] >= 0}
    return pattern["wavefronts_ldgsts"], pattern["sectors_with_tables"] - 4 - len(active)


def counted_sectors(pattern: dict[str, Any]) -> int:
    return int(pattern["sectors"] if "sectors" in pattern else counted_with_tables(pattern)[1])


def counted_wavefronts(pattern: dict[str, Any], cost: CpAsyncCost) -> int:
    """What the counter of shared wavefronts gives: the fills of a cg with a source size are in it."""
    fills = cost.fills if "src_bytes" in pattern else 0
    return int(cost.wavefronts + fills) * int(pattern.get("repeats", 1))


def test_counted_patterns_are_all_here() -> None:
    kinds = Counter((p["kind"], p["width"]) for p in FIRST)
    assert dict(kinds) == {(f"cp.async.{kind}", width): 36 for kind, width in MODES}
    assert (len(MORE), len(ZERO_FILL), len(RACES)) == (700, 224, 160)
    assert sum(map(races, FIRST)) == 0
    assert len(RACE_FREE) == 864
    assert sum("src_bytes" in p for p in RACE_FREE) == 309


def test_costs_equal_what_an_h200_counted() -> None:
    counted = {n: counted_with_tables(p) for n, p in enumerate(FIRST)}
    model = {n: (cost_of(p).wavefronts, cost_of(p).sectors) for n, p in enumerate(FIRST)}
    assert model == counted


def test_wavefronts_equal_what_an_h200_counted_on_patterns_made_to_tell_rules_apart() -> None:
    assert not [p for p in RACE_FREE if counted_wavefronts(p, cost_of(p)) != p["wavefronts_ldgsts"]]


def test_sectors_equal_what_an_h200_counted_on_patterns_made_to_tell_rules_apart() -> None:
    assert not [p for p in RACE_FREE if cost_of(p).sectors * p.get("repeats", 1) != p["sectors"]]


def test_what_l2_sends_equals_what_an_h200_counted() -> None:
    assert not [p for p in ZERO_FILL if cost_of(p).l2_sectors != p["l2_sectors"]]


def test_what_a_race_costs_is_the_pairs_of_those_whose_data_stays() -> None:
    """The model does not know them, and takes all lanes."""
    for p in RACES:
        stays = [x if landed else -1 for x, landed in zip(p["offsets"], p["landed"], strict=True)]
        cost = cost_of(p | {"offsets": stays})
        assert (cost.sectors, cost.l2_sectors) == (p["sectors"], p["l2_sectors"])


def test_fills_show_where_the_kernel_reads_the_tile_afterwards() -> None:
    """The plain cg: 0 in the kernel of the first sets, its fills in the kernel of the races."""
    assert not any(p["wavefronts_ldgsts"] for p in FIRST + MORE if p["kind"] == "cp.async.cg" and "src_bytes" not in p)
    alone = [p for p in RACES if not races(p)]
    assert [cost_of(p).fills for p in alone] == [p["wavefronts_ldgsts"] for p in alone] and len(alone) == 3


def test_what_the_model_misses_is_known() -> None:
    """Races in cg, and nothing else: it says more sectors than were counted there, and never fewer."""
    for patterns, racing, missed in ((FIRST, 0, 0), (MORE, 60, 45), (ZERO_FILL, 0, 0), (RACES, 157, 124)):
        more = [cost_of(p).sectors * p.get("repeats", 1) - counted_sectors(p) for p in patterns]
        assert all(extra == 0 or (extra > 0 and races(p)) for extra, p in zip(more, patterns, strict=True))
        assert (sum(map(races, patterns)), sum(extra > 0 for extra in more)) == (racing, missed)


# ---- under predicates, as the text of kernels has it
GUARDED = json.loads((DATA / "h200_cp_async_guarded.json").read_text())["rows"]


def offsets_of(row: dict[str, Any], is_deaf: bool) -> tuple[np.ndarray, np.ndarray]:
    """Shared and global offsets of each warp in this round; ``is_deaf``: as if every lane read that may."""
    chunk = (row["round"] * row["threads"] + np.arange(row["threads"])).reshape(-1, 32)
    at, column = chunk // row["columns"] * row["pitch"] + chunk % row["columns"], chunk % row["columns"]
    source = (chunk // row["columns"] * row["source_pitch"] + column + row["shift"]) * 16
    on = chunk < row["rows"] * row["columns"]
    reads = on & (is_deaf | (row["reads"] == "") | (column < row["limit"]))
    return np.where(on, (at ^ (at >> 3 & row["swizzle"])) * 16, -1), np.where(reads, source, -1)


def count_guarded(row: dict[str, Any], is_deaf: bool = False) -> int:
    kind = cp_async_kind(16, row["reads"] != "")
    return int(count_cp_async(kind, 16, *offsets_of(row, is_deaf))[0].sum())


def test_lanes_that_are_out_and_lanes_that_read_nothing_cost_what_was_counted() -> None:
    heard = [row for row in GUARDED if "P0" not in (row["guard"], row["reads"])]
    assert [count_guarded(row) for row in heard] == [row["wavefronts"] for row in heard] and len(heard) == 50


def test_the_counter_takes_no_notice_of_the_predicate_p0() -> None:
    """A lane that P0 keeps from reading counts as reading, one that P0 turns off with what its registers hold."""
    reading = [row for row in GUARDED if row["reads"] == "P0" and row["guard"] != "P0"]
    assert [count_guarded(row, is_deaf=True) for row in reading] == [row["wavefronts"] for row in reading]
    assert any(count_guarded(row) != row["wavefronts"] for row in reading) and len(reading) == 14
    off = [row for row in GUARDED if row["guard"] == "P0" and row["threads_on"] < 32 * row["instructions"]]
    assert all(row["wavefronts"] > count_guarded(row) for row in off) and len(off) == 15


def test_a_batch_is_its_accesses() -> None:
    for kind, width in MODES:
        of_mode = [p for p in FIRST if (p["kind"], p["width"]) == (f"cp.async.{kind}", width)]
        offsets, global_offsets = (np.array([p[side] for p in of_mode]) for side in ("offsets", "global_offsets"))
        cost = cp_async_cost(kind, width, offsets, global_offsets)
        for name in COUNTS:
            assert getattr(cost, name).tolist() == [getattr(cost_of(p), name) for p in of_mode]
            assert getattr(cost, name).dtype == np.int64


# ---- a reference that shares no line with the model
def count_by_sets(kind: str, width: int, to: list[int], source: list[int], zero_fill: bool) -> CpAsyncCost:
    active = [lane for lane in LANES if to[lane] >= 0]
    moves = [(source[lane], to[lane]) for lane in active if source[lane] >= 0]
    total, size = 0, {4: 32, 8: 16, 16: 8}[width]
    for first in range(0, 32, size):
        lanes = [lane for lane in active if first <= lane < first + size]
        banks = {k: {("to", to[k] // 4 % 32), ("from", source[k] // 4 % 32 if source[k] >= 0 else ~k)} for k in lanes}
        total += max((sum(bool(banks[a] & banks[b]) for b in lanes) for a in lanes), default=0)
    if kind == "ca":
        blocks = len({x // 32 for x, _ in moves})
        return CpAsyncCost(total, blocks, blocks, 0)
    pairs = {(x // 128, y // 32) for x, y in moves}
    sent = {(x // 32, y // 32, x // 16 % 2 == y // 16 % 2) for x, y in moves}
    return CpAsyncCost(total if zero_fill else 0, len(pairs), len(sent), fills_by_sets(moves))


def fills_by_sets(moves: list[tuple[int, int]]) -> int:
    """Requests (sector to sector, straight or crossed), then those of one line to one line that can go together."""
    requests = defaultdict(set)
    for x, y in moves:
        requests[x // 32, y // 32, (x ^ y) >> 4 & 1].add(x // 16 % 2)
    together = defaultdict(list)
    for (sector, place, crossed), halves in requests.items():
        together[sector // 4, place // 4, crossed, (sector ^ place) & 1, frozenset(halves)].append(sector)
    return sum(max(Counter(sectors).values()) for sectors in together.values())


Case = tuple[str, int, list[int], list[int], bool]


@st.composite
def copies(draw: st.DrawFn) -> Case:
    """A mode and two sets of 32 offsets: wild or strided, words that lanes share, lanes left out or zero-filled."""
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
    zero_fill = draw(st.booleans())
    for lane in draw(st.sets(st.integers(0, 31))) if zero_fill else ():
        source[lane] = -1
    return kind, width, to, source, zero_fill


@settings(max_examples=examples(400), deadline=None)
@given(copies())
def test_every_cost_equals_the_one_by_sets(case: Case) -> None:
    assert cp_async_cost(*case) == count_by_sets(*case)


# ---- laws
@settings(max_examples=examples(200), deadline=None)
@given(copies(), st.integers(0, 5), st.integers(0, 5))
def test_shifting_either_side_by_whole_lines_changes_nothing(case: Case, rows: int, lines: int) -> None:
    kind, width, to, source, zero_fill = case
    moved = [x if x < 0 else x + 128 * rows for x in to]
    source = [x if x < 0 else x + 128 * lines for x in source]
    assert cp_async_cost(kind, width, moved, source, zero_fill) == cp_async_cost(*case)


@settings(max_examples=examples(200), deadline=None)
@given(copies(), st.randoms())
def test_lanes_of_a_phase_may_change_places(case: Case, random: Any) -> None:
    kind, width, to, source, zero_fill = case
    size = 32 if kind == "cg" and not zero_fill else 128 // width  # no lane has a place in the count of cg
    order = list(LANES)
    for first in range(0, 32, size):
        group = order[first : first + size]
        random.shuffle(group)
        order[first : first + size] = group
    to, source = [to[k] for k in order], [source[k] for k in order]
    assert cp_async_cost(kind, width, to, source, zero_fill) == cp_async_cost(*case)


@settings(max_examples=examples(200), deadline=None)
@given(copies(), st.integers(0, 31))
def test_a_lane_less_costs_no_more(case: Case, lane: int) -> None:
    kind, width, to, source, zero_fill = case
    less = cp_async_cost(kind, width, [*to[:lane], -1, *to[lane + 1 :]], source, zero_fill)
    cost = cp_async_cost(*case)
    assert less.wavefronts <= cost.wavefronts
    assert less.sectors <= cost.sectors and less.l2_sectors <= cost.l2_sectors


@settings(max_examples=examples(200), deadline=None)
@given(copies())
def test_a_copy_costs_at_least_what_either_side_does_alone(case: Case) -> None:
    kind, width, to, source, zero_fill = case
    cost = cp_async_cost(*case)
    read = [x if at >= 0 else -1 for x, at in zip(source, to, strict=True)]
    written = [at if x >= 0 else -1 for x, at in zip(source, to, strict=True)]
    if kind == "ca" or zero_fill:
        assert cost.wavefronts >= max(wavefronts("st", width, to), wavefronts("st", width, read))
    if kind == "ca":
        assert cost.sectors == cost.l2_sectors == sectors(width, read) and cost.fills == 0
    else:
        assert max(sectors(16, written), len({x // 128 for x in read if x >= 0})) <= cost.sectors
        assert max(cost.sectors, cost.fills) <= cost.l2_sectors <= 32


def test_halves_that_part_cost_traffic_and_fills() -> None:
    """A row of 128 bytes: where it lies in shared memory, down to the half of a sector, is what cg pays for."""
    row = [16 * k if k < 8 else -1 for k in LANES]

    def cost(to: list[int]) -> tuple[int, int, int]:
        found = cp_async_cost("cg", 16, to, row)
        return found.sectors, found.l2_sectors, found.fills

    assert cost(row) == (4, 4, 1)
    assert cost([x ^ 16 * 5 if x >= 0 else -1 for x in row]) == (4, 4, 1)  # any XOR keeps the halves together
    assert cost([x + 32 if x >= 0 else -1 for x in row]) == (4, 4, 2)  # the last sector lies in the next line
    assert cost([x + 16 if x >= 0 else -1 for x in row]) == (5, 8, 3)


def test_no_active_lane_costs_nothing() -> None:
    for kind, width in MODES:
        for zero_fill in (False, True):
            assert cp_async_cost(kind, width, [-1] * 32, [0] * 32, zero_fill) == CpAsyncCost(0, 0, 0, 0)


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
    monkeypatch.setattr(access.warp, "CHUNK", 5)
    cut = cp_async_cost(kind, width, np.asfortranarray(to.astype(np.int32)), source)
    alone = [cp_async_cost(kind, width, a, b) for a, b in zip(to, source, strict=True)]
    none = cp_async_cost(kind, width, to[:0], source[:0])
    for name in COUNTS:
        assert getattr(cut, name).tolist() == getattr(whole, name).tolist() == [getattr(c, name) for c in alone]
        assert getattr(none, name).shape == (0,)


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
        ("ca", 8, [0] * 32, [4] * 32, "byte global offset 4 of lane 0 in access 0 is not a multiple of 8"),
        ("ca", 8, [0] * 7 + [-2] + [0] * 24, [0] * 32, "byte shared offset -2 of lane 7 in access 0 is negative"),
        ("cg", 16, [0] * 32, [0] * 9 + [-1] + [0] * 22, "lane 9 in access 0 is active and has no global offset: only"),
        ("cg", 16, [1 << 24] * 32, [0] * 32, "lane 0 in access 0 writes beyond 16777216 bytes of shared memory"),
        ("cg", 16, [0] * 32, [1 << 52] * 32, "lane 0 in access 0 reads beyond 4503599627370496 bytes of global memory"),
    ],
)
def test_what_cannot_be_is_refused(kind: str, width: int, to: Any, source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cp_async_cost(kind, width, to, source)
