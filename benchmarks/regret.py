"""The layout chooser against every layout: ``python benchmarks/regret.py [sets] [seed]`` prints a table for docs.

Access sets are drawn as in tests/oracles/access_sets.py; regret is what the pick takes above the least that brute force
finds over every row pad of 0 to 32 words, every Swizzle(M, B, S) with M + B + S <= log2(elements), and none. What an
F2-linear layout would reach is found beside; no family of a spec's notation holds those.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.oracles import layout_brute
from tests.oracles.access_sets import AccessSet, draw_sets
from tilegen.choose.linear_layout import find_linear
from tilegen.choose.shared_layouts import choose_shared_layout
from tilegen.choose.tile_access import count_floor

FAMILIES = ("none", "pad", "Swizzle")


@dataclass(frozen=True)
class Row:
    """One access set: the writer, the floor, the least of each family, what was picked, and the linear layout."""

    writer: str
    floor: int
    least: dict[str, int]
    picked: str
    regret: int
    linear: int  # -1: none found


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 240
    rows = [measure(s) for s in draw_sets(count, int(sys.argv[2]) if len(sys.argv) > 2 else 0)]
    print("\n".join(table(rows)))
    regret = sum(r.regret for r in rows)
    free = sum(r.linear == r.floor for r in rows)
    better = sum(0 <= r.linear < min(r.least.values()) for r in rows)
    print(f"\n{len(rows)} access sets, regret {regret}; an F2-linear layout without conflicts was found for {free},")
    print(f"for {better} of them it takes fewer wavefronts than any layout that a spec can write")
    return 1 if regret else 0


def measure(drawn: AccessSet) -> Row:
    layout, choice = choose_shared_layout(drawn.shape, drawn.elem_bytes, drawn.accesses)
    rows, columns = np.indices(drawn.shape).reshape(2, -1)
    mine = np.asarray(layout.place((rows, columns), drawn.shape)["m"], np.int64)
    least: dict[str, int] = {}
    for p in layout_brute.every_layout(*drawn.shape, drawn.elem_bytes):
        found = layout_brute.count(p.addresses, drawn.elem_bytes, list(drawn.accesses))
        family = next(f for f in FAMILIES if p.name.startswith(f))
        if found is not None:
            least[family] = min(found, least.get(family, found))
    cost = layout_brute.count(mine, drawn.elem_bytes, list(drawn.accesses))
    assert cost is not None
    picked = {"r": "none", "S[": "pad", "Sw": "Swizzle"}[choice.picked[: 1 if choice.picked == "row" else 2]]
    return Row(
        drawn.name.split(": ")[1].split(" -> ")[0], count_floor(drawn.shape, drawn.elem_bytes, drawn.accesses), least,
        picked, cost - min(least.values()), find_linear(drawn.shape, drawn.elem_bytes, drawn.accesses).wavefronts,
    )  # fmt: skip


def table(rows: list[Row]) -> list[str]:
    """Per writer: wavefronts above the floor with the best of each family alone, with the pick, and the picks."""
    lines = [
        "| writer | sets | floor | none | padding | swizzle | picked | regret | picks: none, padding, swizzle |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for writer in [*sorted({r.writer for r in rows}), ""]:
        some = [r for r in rows if writer in ("", r.writer)]
        above = [sum(r.least.get(f, r.least["none"]) - r.floor for r in some) for f in FAMILIES]
        best = sum(min(r.least.values()) + r.regret - r.floor for r in some)
        picks = Counter(r.picked for r in some)
        figures = [len(some), sum(r.floor for r in some), *(f"+{n}" for n in above), f"+{best}"]
        regret = sum(r.regret for r in some)
        counts = ", ".join(str(picks[f]) for f in FAMILIES)
        lines.append(f"| {writer or 'all'} | {' | '.join(map(str, figures))} | {regret} | {counts} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
