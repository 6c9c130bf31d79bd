"""Mutants of every spec, judged: ``python -m tests.mutants.table`` writes docs/mutants.md (in an hour).

``python -m tests.mutants.table NAME ..`` judges specs of these names alone, and keeps the rows of all others.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import tilegen
from tests.faults.mutants import KINDS, plant, sample_mutants
from tests.mutants.judging import Verdict, judge
from tests.programs.kernels import PROGRAMS, SLOW, SMALL
from tests.specs.kernels import SPECS
from tilegen.pipeline.programs import list_specs
from tilegen.plan import Plan
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.spec.data import Spec
from tilegen.spec.program import Program

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "mutants.md"
# What takes seconds a mutant is planned for a few CTAs, three of them along x. Loops are long enough to be steady,
# those of gemm_w8a16 and sgemm_step1 so long that the proofs run some of the trips only.
SIZES = {
    "attention": {"BH": 2, "S": 300, "D": 64}, "attention_hopper": {"BH": 1, "S": 300, "D": 64},
    "attention_varlen": {"B": 2, "T": 300, "MAXQ": 256, "H": 2, "HK": 1, "D": 64},
    "conv3x3": {"B": 1, "H": 9, "W": 17, "C": 64, "F": 128},
    "dropout": {"N": 5000}, "dropout_f32": {"N": 5000},
    "gemm": {"M": 128, "N": 256, "K": 704}, "gemm_batched": {"L": 2, "M": 72, "N": 64, "K": 704},
    "gemm_double": {"M": 72, "N": 64, "K": 104}, "gemm_f32": {"M": 70, "N": 66, "K": 230},
    "gemm_few_tiles": {"M": 21, "N": 11, "K": 1101}, "hgemm_shared_k": {"M": 32, "N": 32, "K": 640},
    "gemm_choices": {"M": 256, "N": 128, "K": 192},
    "gemm_mma": {"M": 200, "N": 136, "K": 448}, "gemm_odd": {"M": 33, "N": 35, "K": 17},
    "gemm_pairs": {"M": 256, "N": 256, "K": 512}, "gemm_quantized": {"M": 80, "N": 96, "K": 1408},
    "gemm_residual": {"M": 80, "N": 96, "K": 704}, "gemm_silu": {"M": 80, "N": 64, "K": 1408},
    "gemm_step1": {"M": 128, "N": 256, "K": 40}, "gemm_step4": {"M": 128, "N": 256, "K": 128},
    "gemm_bias_gelu": {"M": 256, "N": 384, "K": 320}, "gemm_fp8": {"M": 256, "N": 512, "K": 768, "C": 3},
    "gemm_int8_rows": {"M": 128, "N": 384, "K": 512},
    "gemm_w8a16": {"M": 128, "N": 384, "K": 1280},
    "hgemm_blackwell_pair": {"M": 768, "N": 256, "K": 448, "C": 2}, "hgemm_cluster": {"M": 512, "N": 512, "K": 320},
    "hgemm_persistent": {"M": 256, "N": 512, "K": 384, "C": 3}, "hgemm_ring": {"M": 256, "N": 512, "K": 320, "C": 3},
    "hgemm_roles": {"M": 384, "N": 256, "K": 640},
    "hgemm_step4": {"M": 256, "N": 384, "K": 160}, "sgemm_step1": {"M": 256, "N": 384, "K": 160},
}  # fmt: skip
MOST = 10**6  # mutants of a spec that are judged
MOST_OF_LARGE = 80  # and of one of SIZES
MOST_OF_PASS = 12  # and of a pass
JUDGED_PROGRAMS = [path for path in PROGRAMS if path.stem not in SLOW]
# Rings of their products are filled more than once.
SIZES_OF_PASSES = {"gemm_split": {"N": 64, "K": 4096}, "gemm_split_k": {"N": 512, "K": 2048}}
OF_PASSES = "\n## Passes\n"


_HEAD = """# Mutants

Every spec's plan, changed in one place at a time.

* **What is ordered**: each sync, commit and wait dropped, each wait for one group fewer or for the other phase, each
  arrival dropped, other bytes announced, one CTA of a cluster forgotten, each fence for the async
  proxy one step later, each barrier of a cluster that orders its own CTA alone.
* **Where**: each address (of every access, of every operand of registers, of every box, of every function's base
  pointer or array) one element further and one back in each of its coordinates; half an array away, round its end; each
  base so in one CTA of three; each swizzle dropped on one side; each stage of a ring, and each slot of an mbarrier, as
  the one after it; each operand in registers as other registers of its type; each shared memory declared with the
  alignment of one element; each box a row on and as much back.
* **Whether and how often**: each condition that asks for one more, which leaves out the last row, and each turned into
  its opposite; each step that moves or computes left out; each that takes in what it changes done twice; each loop with
  one trip fewer, such as a sum that forgets an element; each atomic update a store, or made by all threads that hold
  the element.
* **What is computed**: each function as another, two arguments exchanged, each number and each integer of the place
  another, each floating param a number, its default; each exchange between other lanes.

The proofs of `tilegen build` must report every mutant, unless it is the same kernel. `python -m tests.mutants.table`
writes this page.

* **planted** are all of a spec. **judged** are as many; of the large specs a sample with every kind that the spec has.
* **found**: reported. **found by** says which proof came first: TG414 to TG416 are the ranges and alignments that are
  proved for the whole grid, TG401 to TG413 the interpreter's, TG420 the comparison with the spec's own meaning.
* **by running alone**: reported by the interpreter or the comparison when the proofs of ranges are left out. So an
  address that is wrong is found twice.
* **equivalent**: a sync that orders nothing or a wait for nothing (the interpreter, which knows what every sync orders,
  finds no two accesses that need it), a condition that asks the same of every thread, a step whose result nobody
  reads, an mbarrier of another stage that is told no sooner. Both plans write the same elements with the same bits, for
  inputs that no proof has seen: hashes that tell all elements apart, and floats. Where floats differ, since the same
  terms are added in another order, that is said.
* **surviving**: would be a bug.

The large specs are planned for small sizes, whose plans are alike:
"""


COLUMNS = ("planted", "judged", "found", "by running alone", "equivalent", "surviving", "found by")
Cells = tuple[str, ...]  # of a row of a table


@dataclass(frozen=True)
class Row:
    """A mutant that was judged: its spec, what was done to it, and what came of it."""

    spec: str
    kind: str
    where: str
    verdict: Verdict


@dataclass(frozen=True)
class Judged:
    """What was planted in a spec, by kind, and the mutants of it that were judged."""

    planted: Counter[str]
    rows: tuple[Row, ...]


def load_spec(path: Path) -> tuple[Spec, Plan]:
    """A spec at the sizes at which it is judged, and its plan; CTAs of a product make two tiles, or more.

    What a CTA tells after its last tile nobody waits for. Warps share K where they do at the spec's own sizes.
    """
    params = SIZES.get(path.stem)
    source = yaml.safe_load(path.read_text(encoding="utf-8"))
    gemm = next((op["gemm"] for op in source["ops"] if "gemm" in op), None)
    if params and gemm is not None:
        gemm["k_parts"] = _pick(tilegen.load(path)).get("k_parts", 1)
    spec = tilegen.load(source, params=params)
    picked = _pick(spec)
    if gemm is not None and picked.get("ctas", 0) > 1:
        gemm |= picked | {"ctas": picked["ctas"] // 2}
        spec = tilegen.load(source, params=params)
    return spec, plan_spec(spec)


def _pick(spec: Spec) -> dict[str, Any]:
    """What was chosen for a gemm; nothing of another spec."""
    return next((c.picked for c in spec.choices if c.question == "gemm"), {})


def judge_spec(path: Path) -> Judged:
    """Its mutants, or a sample of them with every kind."""
    warnings.simplefilter("ignore")  # what a mutant computes may overflow
    spec, plan = load_spec(path)
    prove(spec, plan)  # of a plan that is refused as it is, a mutant that is found shows nothing
    mutants = list(plant(plan))
    sample = sample_mutants(path.stem, mutants, MOST_OF_LARGE if path.stem in SIZES else MOST)
    rows = tuple(Row(path.stem, m.kind, m.where, judge(spec, plan, m)) for m in sample)
    return Judged(Counter(m.kind for m in mutants), rows)


def load_passes(path: Path) -> tuple[tuple[Spec, Plan], ...]:
    """The passes of a program at a small size."""
    loaded = tilegen.load(path, params=SIZES_OF_PASSES.get(path.stem, SMALL[path.stem][0]))
    assert isinstance(loaded, Program)
    return tuple((spec, plan_spec(spec)) for spec in list_specs(loaded))


def judge_passes(path: Path) -> dict[str, Judged]:
    """A sample of the mutants of each pass, by its kernel's name."""
    warnings.simplefilter("ignore")
    found = {}
    for spec, plan in load_passes(path):
        prove(spec, plan)
        mutants = list(plant(plan))
        sample = sample_mutants(plan.name, mutants, MOST_OF_PASS)
        rows = tuple(Row(plan.name, m.kind, m.where, judge(spec, plan, m)) for m in sample)
        found[plan.name] = Judged(Counter(m.kind for m in mutants), rows)
    return found


def judge_programs(names: Container[str]) -> dict[str, dict[str, Judged]]:
    """Every pass of these programs, the programs side by side."""
    paths = [path for path in JUDGED_PROGRAMS if path.stem in names]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip((path.stem for path in paths), pool.map(judge_passes, paths), strict=True))


def judge_specs(names: Container[str]) -> dict[str, Judged]:
    """These specs by name, in as many processes as there are cores; those of SIZES, which take longest, first."""
    paths = [path for path in SPECS if path.stem in names]
    order = sorted(paths, key=lambda path: path.stem not in SIZES)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip((path.stem for path in order), pool.map(judge_spec, order), strict=True))


@dataclass(frozen=True)
class Page:
    """What docs/mutants.md holds: rows by spec and kind, by pass, and a line for each equivalent mutant of either."""

    by_kind: tuple[Cells, ...]
    equivalent: tuple[str, ...]
    by_pass: tuple[Cells, ...]
    same_passes: tuple[str, ...]


def read_page(text: str) -> Page:
    """The inverse of ``write_page``."""
    of_specs, _, of_passes = text.partition(OF_PASSES)
    rows, passes = (
        [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in part.splitlines() if line[:1] == "|"]
        for part in (of_specs, of_passes)
    )
    by_kind = tuple(row for row in rows if len(row) == len(COLUMNS) + 2 and row[2].isdigit())
    by_pass = tuple(row for row in passes if row[1].isdigit() and row[0] != "all")
    lines = of_specs.partition(_SAME)[2].splitlines(), of_passes.splitlines()
    equivalent, same = (tuple(line for line in part if line.startswith("* ")) for part in lines)
    return Page(by_kind, equivalent, by_pass, same)


def put_in(old: Page, specs: dict[str, Judged], programs: dict[str, dict[str, Judged]]) -> Page:
    """The page with what was judged in place of what it says of these, in the order of their names."""
    passes = {name: judged for one in programs.values() for name, judged in one.items()}
    rows = [
        _row((name, kind), judged.planted[kind], (r for r in judged.rows if r.kind == kind))
        for name, judged in specs.items() for kind in KINDS if judged.planted[kind]
    ]  # fmt: skip
    by_pass = [_row((name,), judged.planted.total(), judged.rows) for name, judged in passes.items()]

    def order(row: Cells) -> str:
        return row[0]

    def is_other(line: str, names: Container[str]) -> bool:
        return line.removeprefix("* ").partition(",")[0] not in names

    def join(lines: Sequence[str], judged: dict[str, Judged]) -> tuple[str, ...]:
        new = [
            f"* {r.spec}, {r.where}: {r.verdict.reason}" for j in judged.values() for r in j.rows if r.verdict.reason
        ]
        kept = [line for line in lines if is_other(line, judged)]
        return tuple(sorted([*kept, *new], key=lambda line: line.partition(",")[0]))

    return Page(
        tuple(sorted([*(r for r in old.by_kind if r[0] not in specs), *rows], key=order)), join(old.equivalent, specs),
        tuple(sorted([*(r for r in old.by_pass if r[0] not in passes), *by_pass], key=order)),
        join(old.same_passes, passes),
    )  # fmt: skip


_SAME = "\n## Equivalent mutants\n"


def write_page(page: Page) -> str:
    """docs/mutants.md."""
    totals = [_add((kind,), [r for r in page.by_kind if r[1] == kind], 2) for kind in KINDS]
    names = dict.fromkeys(r[0] for r in page.by_kind)
    by_spec = [_add((name,), [r for r in page.by_kind if r[0] == name], 2) for name in names]
    sizes = [f"* {name}: {', '.join(f'{k} = {v}' for k, v in own.items())}" for name, own in SIZES.items()]
    said = "The plan of each pass of a spec with passes, at a small size: a sample with every kind that the pass has."
    said += f" Those of {' and '.join(sorted(SLOW))}, whose proofs take long, are not among them.\n"
    return "\n".join([
        _HEAD, *sizes, "\n## By kind\n", *_table(("kind", *COLUMNS), [*totals, _add(("all",), page.by_kind, 2)]),
        "\n## By spec\n", *_table(("spec", *COLUMNS), by_spec),
        "\n## By spec and kind\n", *_table(("spec", "kind", *COLUMNS), page.by_kind), _SAME,
        "Steps are numbered within their body; a function's body follows its name.\n", *page.equivalent,
        OF_PASSES, said,
        *_table(("pass", *COLUMNS), [*page.by_pass, _add(("all",), page.by_pass, 1)]), "", *page.same_passes, "",
    ])  # fmt: skip


def _row(names: Cells, planted: int, rows: Iterable[Row]) -> Cells:
    verdicts = [row.verdict for row in rows]
    codes = Counter(v.found for v in verdicts if v.found)
    counts = (
        planted, len(verdicts), sum(codes.values()), sum(bool(v.run) for v in verdicts),
        sum(bool(v.reason) for v in verdicts), sum(v.survives for v in verdicts),
    )  # fmt: skip
    return (*names, *map(str, counts), _say_codes(codes))


def _add(names: Cells, rows: Sequence[Cells], first: int) -> Cells:
    """The sum of rows whose counts begin at column ``first``."""
    codes: Counter[str] = Counter()
    for row in rows:
        codes.update({code: int(n) for code, n in (one.split() for one in row[-1].split(", ") if one)})
    counts = [sum(int(row[first + k]) for row in rows) for k in range(len(COLUMNS) - 1)]
    return (*names, *map(str, counts), _say_codes(codes))


def _say_codes(codes: Counter[str]) -> str:
    return ", ".join(f"{code} {n}" for code, n in sorted(codes.items()))


def _table(head: Cells, rows: Sequence[Cells]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows)]


def main() -> int:
    every = [path.stem for path in (*SPECS, *JUDGED_PROGRAMS)]
    names = sys.argv[1:] or every
    if unknown := set(names) - set(every):
        sys.exit(f"no spec is judged of the name {', '.join(sorted(unknown))}")
    old = read_page(PAGE.read_text(encoding="utf-8")) if sys.argv[1:] else Page((), (), (), ())
    judged, of_passes = judge_specs(names), judge_programs(names)
    PAGE.write_text(write_page(put_in(old, judged, of_passes)), encoding="utf-8")
    passes = (j for one in of_passes.values() for j in one.values())
    rows = [row for j in (*judged.values(), *passes) for row in j.rows]
    surviving = [row for row in rows if row.verdict.survives]
    print(f"{PAGE.relative_to(REPOSITORY)}: {len(rows)} mutants, {len(surviving)} surviving", file=sys.stderr)
    for row in surviving:
        print(f"survives: {row.spec}: {row.where}", file=sys.stderr)
    return 1 if surviving else 0


if __name__ == "__main__":
    sys.exit(main())
