"""What the chooser picks for drawn access sets, beside the least that brute force finds in each family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from tests.oracles import layout_brute
from tests.oracles.access_sets import AccessSet, draw_sets
from tilegen.auto_layout.candidates import choose_shared_layout
from tilegen.auto_layout.linear_search import find_linear
from tilegen.auto_layout.tile_access import count_floor

FAMILIES = ("none", "pad", "Swizzle")
SETS = draw_sets(240)


@dataclass(frozen=True)
class Row:
    """One access set. Costs are (wavefronts, bytes), both by brute force."""

    writer: str
    floor: int
    least: dict[str, tuple[int, int]]  # of each family that has a layout which keeps the vectors
    picked: str
    cost: tuple[int, int]
    claimed: tuple[int, int]  # what the chooser says of its pick
    linear: int  # wavefronts of the F2-linear layout; -1: none found

    @property
    def best(self) -> tuple[int, int]:
        return min(self.least.values())

    @property
    def regret(self) -> int:
        return self.cost[0] - self.best[0]


def place(layout: Any, shape: Sequence[int]) -> np.ndarray:
    """The element address of every element, from the layout alone."""
    at = np.indices(tuple(shape)).reshape(len(shape), -1)
    return np.asarray(layout.place(tuple(at), tuple(shape))["m"], np.int64)


@cache
def measure(drawn: AccessSet) -> Row:
    """The pick and every layout of the families for one set."""
    size, accesses = drawn.elem_bytes, list(drawn.accesses)
    layout, choice = choose_shared_layout(drawn.shape, size, accesses)
    mine = layout_brute.Placed(choice.picked, place(layout, drawn.shape))
    assert len(np.unique(mine.addresses)) == prod(drawn.shape)
    waves = layout_brute.count(mine.addresses, size, accesses)
    assert waves is not None, f"{choice.picked} cuts a vector"
    least: dict[str, tuple[int, int]] = {}
    for p in layout_brute.every_layout(*drawn.shape, size):
        found = layout_brute.count(p.addresses, size, accesses)
        if found is not None:
            family = next(f for f in FAMILIES if p.name.startswith(f))
            least[family] = min((found, p.span * size), least.get(family, (found, p.span * size)))
    claimed = next(c.cost for c in choice.candidates if c.verdict == "picked")
    assert claimed is not None
    return Row(
        drawn.name.split(": ")[1].split(" -> ")[0], count_floor(drawn.shape, size, accesses), least,
        {"r": "none", "S[": "pad", "Sw": "Swizzle"}[choice.picked[: 1 if choice.picked == "row" else 2]],
        (waves, mine.span * size), (claimed.wavefronts, claimed.shared_bytes),
        find_linear(drawn.shape, size, accesses).wavefronts,
    )  # fmt: skip


def print_table(rows: Sequence[Row]) -> str:
    """Per writer: wavefronts above the floor with the best of each family alone, with the pick, and what was picked."""
    lines = [
        "| writer | sets | floor | none | padding | swizzle | picked | regret | picks: none, padding, swizzle |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for writer in [*sorted({r.writer for r in rows}), "all"]:
        some = [r for r in rows if writer in ("all", r.writer)]
        above = [sum(r.least.get(f, r.least["none"])[0] - r.floor for r in some) for f in FAMILIES]
        above.append(sum(r.cost[0] - r.floor for r in some))
        figures = [str(len(some)), str(sum(r.floor for r in some)), *(f"+{n}" for n in above)]
        picks = Counter(r.picked for r in some)
        counts = ", ".join(str(picks[f]) for f in FAMILIES)
        lines.append(f"| {writer} | {' | '.join(figures)} | {sum(r.regret for r in some)} | {counts} |")
    return "\n".join(lines)


def print_linear(rows: Sequence[Row]) -> str:
    """What linear layouts would add."""
    free = sum(r.linear == r.floor for r in rows)
    better = sum(0 <= r.linear < r.best[0] for r in rows)
    return (
        f"{len(rows)} access sets. An F2-linear layout without conflicts was found for {free} of them;\n"
        f"for {better} it takes fewer wavefronts than any layout that a spec can write."
    )
