"""Seeded cp.async accesses on which rules for their cost disagree; run as a script, it lists how many of each kind.

A pattern is what one warp does with one instruction: ``offsets`` into shared and ``global_offsets`` into global memory,
bytes per lane, -1 in ``offsets`` where a lane is inactive. Both start at a multiple of 128 bytes. ``src_bytes`` (where
a lane copies fewer bytes than its width, the rest being zero-filled) and ``repeats`` (the instruction runs so often, so
that only the first finds a cold cache) are there only where they are not the usual thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 20261121
LANES = 32
LINE_BYTES = 128
SHARED_BYTES = 48 << 10
GLOBAL_BYTES = 4 << 20
MODES = (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16))

Lanes = NDArray[np.int64]
Pair = tuple[Lanes, Lanes]  # units of the width: where each lane writes, where it reads
lanes = np.arange(LANES)


def make_patterns(name: str, seed: int = SEED) -> list[dict[str, Any]]:
    """The patterns of one set, in an order that puts a bit of every family into each stretch of the list."""
    rng = np.random.default_rng(seed)
    found = list(SETS[name](rng))
    return [found[k] for k in rng.permutation(len(found))]


def _mixed(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Every mode and family, some with zero-filled lanes, some repeated."""
    for mode in MODES:
        yield from _of_mode(rng, *mode)


def _of_mode(rng: np.random.Generator, cache: str, width: int) -> Iterator[dict[str, Any]]:
    for name, (family, count) in FAMILIES.items():
        for k in range(count):
            to, at = family(rng, width, k)
            offsets, global_offsets = width * np.asarray(to), width * np.asarray(at)
            assert offsets.max() + width <= SHARED_BYTES and global_offsets.max() + width <= GLOBAL_BYTES
            pattern: dict[str, Any] = {"family": name, "kind": f"cp.async.{cache}", "width": width}
            active = _active_lanes(rng, k)
            pattern["offsets"] = [int(x) if on else -1 for x, on in zip(offsets, active, strict=True)]
            pattern["global_offsets"] = [int(x) for x in global_offsets]
            yield pattern
            if k % 6 == 0:
                yield pattern | {"src_bytes": _source_bytes(rng, width, k // 6)}
            if k % 6 == 3:
                yield pattern | {"repeats": 3}


def _active_lanes(rng: np.random.Generator, k: int) -> Lanes:
    """All lanes in two of three patterns; else a random few, or whole groups of lanes left out."""
    if k % 3 != 2:
        return np.ones(LANES, np.int64)
    choice = int(rng.integers(5))
    if choice == 4:
        return np.repeat(rng.integers(0, 2, 8), 4) | (lanes == rng.integers(LANES))
    return (rng.random(LANES) < (0.1, 0.5, 0.75, 0.95)[choice]) | (lanes == rng.integers(LANES))


def _source_bytes(rng: np.random.Generator, width: int, k: int) -> list[int]:
    """How many bytes each lane copies: all or none at random, a ragged edge, or any number of whole elements."""
    if k % 3 == 0:
        return [int(x) for x in width * rng.integers(0, 2, LANES)]
    if k % 3 == 1:
        edge = int(rng.integers(LANES))
        return [width if lane < edge else width // 2 if lane == edge else 0 for lane in range(LANES)]
    return [int(x) for x in rng.integers(0, width + 1, LANES)]


# ---- families: units of the width, so that every offset is aligned
def _scatter(rng: np.random.Generator, width: int, k: int) -> Pair:
    """Distinct units of a small or a large region on either side."""
    to = rng.permutation(LANES * (1, 2, 8, 1, 32, 4)[k % 6])[:LANES]
    at = rng.permutation(LANES * (1, 2, 4, 32, 1024, 8)[k // 2 % 6])[:LANES]
    return to, at


def _pitches(rng: np.random.Generator, width: int, k: int) -> Pair:
    """Rows of a tile with a padded pitch in shared and any pitch in global memory."""
    row = min(LANES, (LINE_BYTES // width) // (1, 2, 4, 8)[k % 4] or 1)
    pad = int(rng.integers(0, 9))
    pitch = int(rng.integers(row, 40 * LINE_BYTES // width))
    return lanes // row * (row + pad) + lanes % row, lanes // row * pitch + lanes % row


def _swizzles(rng: np.random.Generator, width: int, k: int) -> Pair:
    """Rows whose 16-byte chunks (or units) are XORed with the row, as Swizzle(M, B, S) places them."""
    row = (2, 4, 8, 16)[k % 4]
    mask = int(rng.choice([1, 3, 7, 15])) & (row - 1)
    unit = lanes ^ (lanes // row & mask) << int(rng.integers(0, 2))
    pitch = int(rng.choice([row, 2 * row, 8 * row, 1000 * row + int(rng.integers(0, 5))]))
    return unit, lanes // row * pitch + lanes % row


def _transposed(rng: np.random.Generator, width: int, k: int) -> Pair:
    """A column of global memory to a row of shared memory, or a row to a padded column."""
    pitch = int(rng.integers(1, 60))
    return (lanes, lanes * pitch) if k % 2 else (lanes * pitch, lanes)


def _few_sources(rng: np.random.Generator, width: int, k: int) -> Pair:
    """Lanes that share what they read."""
    region = LANES * (1, 4, 64)[k % 3]
    few = rng.permutation(region)[: (1, 2, 4, 8, 16, 24)[k % 6]]
    return rng.permutation(LANES * (1, 2, 1)[k % 3])[:LANES], few[rng.integers(0, len(few), LANES)]


def _few_targets(rng: np.random.Generator, width: int, k: int) -> Pair:
    """Lanes that share what they write; with one source for each target in half of the patterns."""
    few = rng.permutation(LANES * (1, 4, 16)[k % 3])[: (1, 2, 4, 8, 16, 24)[k % 6]]
    pick = rng.integers(0, len(few), LANES)
    at = rng.permutation(LANES * (1, 8)[k % 2])[:LANES]
    return few[pick], at[pick] if k % 4 < 2 else at


def _pairs(rng: np.random.Generator, width: int, k: int) -> Pair:
    """Lane l and l ^ 1, or l ^ 2, agree on one side or on both: what makes loads merge."""
    keep = (~1, ~2, ~4, ~16)[k // 3 % 4]
    to, at = rng.permutation(4 * LANES)[:LANES], rng.permutation(4 * LANES)[:LANES]
    return (to if k % 3 == 0 else to[lanes & keep]), (at if k % 3 == 1 else at[lanes & keep])


def _crossed(rng: np.random.Generator, width: int, k: int) -> Pair:
    """Each phase a regular bipartite graph of banks read and banks written: a greedy schedule needs more than the most
    of either side, a perfect one does not."""
    size = min(LANES, LINE_BYTES // width)
    degree = min(size, (2, 3, 4, 5, 8)[k % 5])
    to, at = [], []
    for phase in range(LANES // size):
        bank_to, bank_at = (rng.permutation(size)[: -(-size // degree)] for _ in range(2))
        row = rng.permutation(16)
        edges = rng.permutation(np.arange(size))
        to += [row[j % degree] * size + bank_to[j // degree] for j in range(size)]
        at += [(16 * phase + e % degree) * size + bank_at[e // degree] for e in edges]
    return np.array(to), np.array(at)


def _banks(rng: np.random.Generator, width: int, k: int) -> Pair:
    """A chosen number of banks on each side, rows and lines at random: conflicts of every degree meet each other."""
    size = min(LANES, LINE_BYTES // width)

    def side(number: int, rows: int) -> Lanes:
        return rng.permutation(size)[rng.integers(0, number, LANES)] + size * rng.integers(0, rows, LANES)

    return side(int(rng.integers(1, size + 1)), 32), side(int(rng.integers(1, size + 1)), (8, 32, 2000)[k % 3])


def _lines(rng: np.random.Generator, width: int, k: int) -> Pair:
    """Many global lines, no bank twice in a phase: would cost more only if lines did."""
    size = min(LANES, LINE_BYTES // width)
    lines = (2, 3, 4, 6, 8, 16, 32)[k % 7]
    at = lanes % size + size * rng.permutation(2000)[rng.integers(0, lines, LANES)]
    return lanes, at if k % 2 else (at - lanes % size) + (lanes + int(rng.integers(size))) % size


def _halves(rng: np.random.Generator, width: int, k: int) -> Pair:
    """Neighbours in memory stay neighbours, but are moved by lanes far apart, or lie in other halves of a sector."""
    order = (lanes * (1, 17, 5, 9)[k % 4]) % LANES if k % 2 else rng.permutation(LANES)
    to, at = order + int(rng.integers(0, 4)), order + int(rng.integers(0, 4))
    if k % 3 == 1:
        to = to ^ 1
    if k % 3 == 2:
        at = rng.permutation(64)[at // 2] * 2 + at % 2
    return to, at


def _line_to_sectors(rng: np.random.Generator, width: int, k: int) -> Pair:
    """Few global lines and few 32-byte sectors of shared memory, met at random: which pairs of them count as one?"""
    sector = max(1, 32 // width)
    line = LINE_BYTES // width
    targets, sources = (2, 4, 8, 16)[k % 4], (1, 2, 4, 8)[k // 4 % 4]
    to = rng.permutation(64)[rng.integers(0, targets, LANES)] * sector + rng.integers(0, sector, LANES)
    at = rng.permutation(64)[rng.integers(0, sources, LANES)] * line + rng.integers(0, line, LANES)
    return to, at


def _merge(rng: np.random.Generator, width: int, k: int) -> Pair:
    """Target and source move together in units of 16, 32, 64 or 128 bytes that are placed at random."""
    unit = max(1, (16, 32, 64, 128)[k % 4] // width)
    blocks = -(-LANES // unit)
    to = rng.permutation(2 * blocks)[lanes // unit] * unit + lanes % unit
    at = rng.permutation(16 * blocks)[lanes // unit] * unit + (lanes % unit ^ (int(rng.integers(unit)) if k % 2 else 0))
    shuffle = rng.permutation(LANES) if k % 3 == 0 else lanes
    return to[shuffle], at[shuffle]


FAMILIES: dict[str, tuple[Callable[[np.random.Generator, int, int], Pair], int]] = {
    "scatter": (_scatter, 18),
    "pitches": (_pitches, 12),
    "swizzles": (_swizzles, 12),
    "transposed": (_transposed, 6),
    "few_sources": (_few_sources, 12),
    "few_targets": (_few_targets, 12),
    "pairs": (_pairs, 12),
    "crossed": (_crossed, 10),
    "banks": (_banks, 15),
    "lines": (_lines, 7),
    "halves": (_halves, 12),
    "line_to_sectors": (_line_to_sectors, 16),
    "merge": (_merge, 12),
}


def _zero_fill(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """cp.async.cg with a source size, every target another one: what the form for edges costs. Some come twice."""
    for name in ("scatter", "pitches", "swizzles", "few_sources", "lines", "halves", "merge", "line_to_sectors"):
        for k in range(24):
            to, at = (16 * np.asarray(side) for side in FAMILIES[name][0](rng, 16, k))
            first = np.isin(lanes, np.unique(to, return_index=True)[1])
            keep = (_active_lanes(rng, k // 4) > 0) & first
            share = (0.0, 0.1, 0.5, 1.0)[k % 4]
            copied = np.where(rng.random(LANES) < share, 0, 16) if k % 8 < 6 else _source_bytes(rng, 16, k)
            yield from [_zero_filled(name, to, at, keep, np.asarray(copied))] * (2 if k % 6 == 0 else 1)


def _zero_filled(name: str, to: Lanes, at: Lanes, keep: NDArray[np.bool_], copied: Lanes) -> dict[str, Any]:
    offsets = [int(x) if on else -1 for x, on in zip(to, keep, strict=True)]
    sizes = [int(x) for x in copied]
    pattern = {"family": name, "kind": "cp.async.cg", "width": 16, "offsets": offsets}
    return pattern | {"global_offsets": [int(x) for x in at], "src_bytes": sizes}


def _races(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """cp.async.cg with lanes that write the same place: which one's sector is asked for?"""
    for k in range(160):
        chunks, lines = (1, 2, 3, 4, 8, 12, 16, 24)[k % 8], (1, 2, 4, 8, 32)[k // 8 % 5]
        to = 16 * (rng.permutation(64)[rng.integers(0, chunks, LANES)])
        at = LINE_BYTES * rng.permutation(2000)[rng.integers(0, lines, LANES)] + 16 * rng.integers(0, 8, LANES)
        active = _active_lanes(rng, k // 8)
        yield {
            "family": "races",
            "kind": "cp.async.cg",
            "width": 16,
            "offsets": [int(x) if on else -1 for x, on in zip(to, active, strict=True)],
            "global_offsets": [int(x) for x in at],
        }


SETS: dict[str, Callable[[np.random.Generator], Iterator[dict[str, Any]]]] = {
    "mixed": _mixed,
    "zero_fill": _zero_fill,
    "races": _races,
}


def list_patterns() -> None:
    patterns = [p for name in SETS for p in make_patterns(name)]
    kinds = Counter((p["family"], p["kind"], p["width"]) for p in patterns)
    for (family, kind, width), number in sorted(kinds.items()):
        print(f"{family:16s} {kind} {width:2d} bytes  {number}")
    print(len(patterns), "patterns")


if __name__ == "__main__":
    list_patterns()
