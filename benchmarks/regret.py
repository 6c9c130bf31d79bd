"""The layout chooser against every layout: ``python benchmarks/regret.py [sets] [seed]`` prints the table of the docs.

Access sets are drawn as tests/oracles/access_sets.py says. Regret is what the pick takes above the least that brute
force finds over every row pad of 0 to 32 words, every Swizzle(M, B, S) with M + B + S <= log2(elements), and none. What
an F2-linear layout would reach is found beside; a spec's notation has those only where they are swizzled tiles.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.oracles.access_sets import draw_sets
from tests.oracles.layout_regret import measure, print_linear, print_table


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 240
    rows = [measure(s) for s in draw_sets(count, int(sys.argv[2]) if len(sys.argv) > 2 else 0)]
    print(f"{print_table(rows)}\n\n{print_linear(rows)}")
    return 1 if any(r.cost != r.best for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
