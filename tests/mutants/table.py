"""Every mutant of every spec, judged: ``python -m tests.mutants.table`` writes docs/mutants.md (in seconds)."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import tilegen
from tests.mutants.plant import KINDS, Mutant, Verdict, judge, plant
from tilegen.planner import plan_spec

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "mutants.md"
# Specs that the page does not judge yet; they may only become fewer. The large ones take seconds a mutant.
UNJUDGED = {
    "attention", "cast_rows_auto", "column_sum", "epilogue_panels", "gemm_bias_gelu", "gemm_int8_rows",
    "gemm_w8a16", "hgemm_step4", "layernorm", "mma_tile", "quantize_rows", "register_view", "rmsnorm", "rotary",
    "sgemm_small", "sgemm_step1", "softmax_rows", "softmax_short_rows", "swiglu",
}  # fmt: skip
SPECS = sorted(p for p in (REPOSITORY / "specs").glob("*.yaml") if p.stem not in UNJUDGED)
Judged = list[tuple[str, Mutant, Verdict]]

_HEAD = """# Mutants

Every spec's plan, changed in one place at a time: each sync, commit and wait dropped, each wait for one group fewer
or for the other phase, other bytes announced, each address (of every Move, of every Map, of every box, of every
function's base pointer or array) one element further and one back in each of its coordinates. And what no range shows:
each address half an array away, round its end; each base so in one CTA of three; each swizzle dropped on one side; each
condition that asks for one more, which leaves out the last row. The proofs of `tilegen build` must report every mutant,
unless it is the same kernel. `python -m tests.mutants.table` writes this page.

* **found**: reported. **found by** says which proof came first: TG414 to TG416 are the ranges and alignments that are
  proved for the whole grid, TG401 to TG413 the interpreter's, TG420 the comparison with the spec's own meaning.
* **by running alone**: reported by the interpreter or the comparison when the proofs of ranges are left out. So an
  address that is wrong is found twice.
* **equivalent**: a sync that orders nothing (the interpreter, which knows what every sync orders, finds no two accesses
  that need it), a condition that asks the same of every thread, a constant that fills the same elements: both plans
  write the same elements with the same bits, for inputs that tell all elements apart.
* **surviving**: would be a bug.
"""


def judge_all() -> Iterator[tuple[str, Mutant, Verdict]]:
    """(spec, mutant, verdict) of everything that is planted."""
    for path in SPECS:
        spec = tilegen.load(path)
        plan = plan_spec(spec)
        for mutant in plant(plan):
            yield path.stem, mutant, judge(spec, plan, mutant)


def page(judged: Judged) -> str:
    """docs/mutants.md."""
    totals = [_row((kind,), [j for j in judged if j[1].kind == kind]) for kind in KINDS]
    totals.append(_row(("all",), judged))
    rows = [
        _row((name, kind), mine)
        for name in dict.fromkeys(j[0] for j in judged)
        for kind in KINDS
        if (mine := [j for j in judged if j[:1] == (name,) and j[1].kind == kind])
    ]
    columns = ("planted", "found", "by running alone", "equivalent", "surviving", "found by")
    same = [f"* {name}, {m.where}: {v.reason}" for name, m, v in judged if v.reason]
    return "\n".join([
        _HEAD, "## Totals\n", *_table(("kind", *columns), totals), "\n## By spec\n",
        *_table(("spec", "kind", *columns), rows), "\n## Equivalent mutants\n",
        "Steps are numbered within their body; a function's body follows its name.\n", *same, "",
    ])  # fmt: skip


def _row(names: tuple[str, ...], judged: Judged) -> tuple[str, ...]:
    verdicts = [v for _, _, v in judged]
    codes = Counter(v.found for v in verdicts if v.found)
    counts = (
        len(verdicts), sum(codes.values()), sum(bool(v.run) for v in verdicts), sum(bool(v.reason) for v in verdicts),
        sum(v.survives for v in verdicts),
    )  # fmt: skip
    return (*names, *map(str, counts), ", ".join(f"{code} {n}" for code, n in sorted(codes.items())))


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows)]


def main() -> int:
    warnings.simplefilter("ignore")  # what a mutant computes may overflow
    judged = list(judge_all())
    PAGE.write_text(page(judged), encoding="utf-8")
    surviving = [(name, m.where) for name, m, v in judged if v.survives]
    print(f"{PAGE.relative_to(REPOSITORY)}: {len(judged)} mutants, {len(surviving)} surviving", file=sys.stderr)
    for name, where in surviving:
        print(f"survives: {name}: {where}", file=sys.stderr)
    return 1 if surviving else 0


if __name__ == "__main__":
    sys.exit(main())
