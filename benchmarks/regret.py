"""The search for 'auto' layouts against every layout: ``python benchmarks/regret.py [sets] [seed]``.

It prints the tables of docs/layout-chooser.md.

Access sets are drawn as tests/oracles/access_sets.py says. Regret is what the pick takes above the least that brute
force finds over the layouts of tests/oracles/layout_brute.py: both orders, padded, swizzled and none, and panels. What
an F2-linear layout would reach is found beside; a spec's notation has those only where they are swizzled tiles.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.oracles.access_sets import draw_sets
from tests.oracles.layout_regret import (
    SPECS,
    draw_specs,
    measure,
    measure_whole,
    print_linear,
    print_table,
    print_wholes,
)


def main() -> int:
    count, seed = (int(sys.argv[k]) if len(sys.argv) > k else least for k, least in ((1, 120), (2, 0)))
    rows = [measure(s) for s in draw_sets(count, seed)]
    wholes = [measure_whole(way, spec) for way, spec in draw_specs(SPECS, seed)]
    print(f"{print_table(rows)}\n\n{print_linear(rows)}\n\n{print_wholes(wholes)}")
    return 1 if any(r.cost != r.best for r in rows) or any(w.picked != w.least for w in wholes) else 0


if __name__ == "__main__":
    sys.exit(main())
