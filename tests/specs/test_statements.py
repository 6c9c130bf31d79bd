"""let, when with do, loops of any bounds, over, ctas_per_sm: what they mean, how they print, and their faults."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilegen
from tests.faults.verdicts import refusal_of
from tilegen.errors import ProofError, SpecError
from tilegen.pipeline import load
from tilegen.planner import plan_spec
from tilegen.spec.data import LetStatement, Loop, WhenStatement
from tilegen.spec.outline import outline
from tilegen.spec.printing import print_spec

SPECS = Path(__file__).parents[2] / "specs"
HEAD = """kernel: stated
threads: 64
params: {N: {default: 70, max: 500}}
grid: {bx: 3}
buffers:
  X: {scope: global, dtype: float32, shape: [2000, 32]}
  Y: {scope: global, dtype: float32, shape: [2000, 32], partial: true}
  s: {scope: shared, dtype: float32, shape: [2, 32]}
ops:
"""
MIXED = """  - let: {four: 4, first: bx*N, most: "min(N, bx*four + 1)", row: first + warpid}
  - for: {k: [most - 3, most, "max(bx, 1)"]}
    do:
      - when: k >= 0 and bx > 0
        do:
          - let: {mine: "where(k > 0, (k - 1) // 2, 0)"}
          - copy: {src: "X[mine]", dst: "s[0]"}
          - sync: cta
      - when: warpid == 1
        do:
          - copy: {scope: warp, src: "X[row + 2]", dst: "Y[row + 2]"}
          - sync: warp
"""


def code(text: str) -> str:
    return refusal_of((ProofError, SpecError), tilegen.build, text).diagnostics[0].code


# ---------------------------------------------------------------- what is read, and printed
def test_what_is_read_and_printed_is_read_again() -> None:
    spec = load(HEAD + MIXED)
    assert load(print_spec(spec)) == spec
    kinds = [type(p.statement) for p in outline(spec).placed]
    assert (kinds.count(LetStatement), kinds.count(WhenStatement), kinds.count(Loop)) == (2, 2, 1)
    naming = outline(spec).find(LetStatement)[0]
    assert [var.name for var, _ in naming.entries] == ["four", "first", "most", "row"]
    assert print_spec(spec).count("four") == 1  # a number is folded where it is named


@pytest.mark.slow
def test_a_let_is_a_constant_of_the_text_if_it_is_used() -> None:
    source = tilegen.build(HEAD + MIXED).source
    assert "const int most = min(N, bx * 4 + 1);" in source
    assert "const int mine = 0 < k ? (k - 1) >> 1 : 0;" in source
    assert "first = " in source and "four" not in source.split("extern")[1]
    unused = '  - let: {idle: laneid + 1}\n  - copy: {src: "X[bx]", dst: "Y[bx]"}\n'
    text = tilegen.build(HEAD + unused).source
    assert "idle" not in text


def test_lets_of_lists_side_by_side_may_share_a_name() -> None:
    block = '  - when: true\n    do:\n      - let: {a: bx + N}\n      - copy: {src: "X[a]", dst: "Y[a + %d]"}\n'
    source = tilegen.build(HEAD + block % 1 + block % 1).source
    assert source.count("const int a = ") == 2


def test_a_barrier_that_is_waited_for_under_a_condition_counts_where_it_holds() -> None:
    load_it = '      - copy: {src: "X[bx*32 : +2]", dst: s, variant: tma, barrier: full}\n'
    block = f"  - when: bx > 0\n    do:\n{load_it}      - wait: {{barrier: full}}\n      - sync: cta\n"
    last = block.replace("bx > 0", "N > 1") + '      - copy: {src: s, dst: "Y[bx*32 : +2]"}\n'
    source = tilegen.build(HEAD + block + last).source
    assert "mbarrier_wait(full, 0);" in source and "mbarrier_wait(full, 0 < bx & 1)" not in source
    assert "0 < bx ? 1 : 0" in source  # the second wait is for phase 1 only where the first was met


# ---------------------------------------------------------------- what must hold
@pytest.mark.parametrize(("ops", "wanted"), [
    ('  - copy: {src: "X[bx + N - 1]", dst: "Y[bx]"}\n', ""),
    ('  - copy: {src: "X[N - 2]", dst: "Y[bx]"}\n', "TG207"),  # N may be 1
    ('  - copy: {src: "X[N - 2]", dst: "Y[bx]", when: N > 1}\n', ""),
    ('  - when: N > 1\n    do:\n      - copy: {src: "X[N - 2]", dst: "Y[bx]"}\n', ""),
    ('  - copy: {src: "X[(N - 2) // 3]", dst: "Y[bx]"}\n', "TG207"),
    ('  - copy: {src: "X[where(N > 1, (N - 2) // 3, 0)]", dst: "Y[bx]"}\n', ""),
    ('  - copy: {src: "X[max(N - 2, 0) // 3]", dst: "Y[bx]"}\n', ""),
    ('  - for: {k: [bx - 1, 4]}\n    do:\n      - copy: {src: "X[k]", dst: "Y[k*3 + bx]"}\n', "TG207"),
    ('  - for: {k: [bx - 1, 4]}\n    do:\n      - copy: {src: "X[k]", dst: "Y[k*3 + bx]", when: k >= 0}\n', ""),
    ('  - for: {k: [bx, 0]}\n    do:\n      - copy: {src: "X[k]", dst: "Y[k]"}\n', ""),  # no trip in any CTA
    ('  - copy: {src: "X[(N * 7919 % 13 + 1) - bx*bx]", dst: "Y[bx]"}\n', "TG207"),
])  # fmt: skip
def test_indices_and_dividends_are_never_negative(ops: str, wanted: str) -> None:
    if wanted:
        assert code(HEAD + ops) == wanted
    else:
        tilegen.build(HEAD + ops)


def test_a_condition_asks_for_whole_scopes() -> None:
    ops = "  - when: warpid == 0\n    do:\n      - sync: cta\n"
    assert code(HEAD + ops) == "TG113"


# ---------------------------------------------------------------- on others' bytes
OVER = (SPECS / "over_tiles.yaml").read_text(encoding="utf-8")
WRITE = '  - copy: {scope: warp, src: ra, dst: "out[:, warpid*16 : +16]"}\n'


def test_memory_that_lies_over_others_counts_once() -> None:
    built = tilegen.build(OVER)
    assert f"{2 * 32 * 32 * 4} bytes of static shared memory" in built.source
    assert "__launch_bounds__(64, 3)" in built.source


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("old", "new", "wanted"), [
    ("  - sync: cta\n" + WRITE, WRITE, "TG403"),  # others still read what lay there
    ('  - copy: {scope: warp, src: rb, dst: "out[:, 32 + warpid*16 : +16]"}\n', "", "TG404"),
    ("  - copy: {src: out, dst", "  - copy: {src: sa, dst: sb}\n  - sync: cta\n  - copy: {src: out, dst", "TG404"),
    ("  - sync: cta\n" + WRITE, '  - copy: {src: "X[0 : +32]", dst: sa, async: true}\n  - sync: cta\n' + WRITE, "TG4"),
    ("shape: [32, 64], over", 'shape: [32, 64], layout: "S[(32,64):(65,1)]", over', "TG310"),
    ("ctas_per_sm: 3", "ctas_per_sm: 30", "TG311"),
])  # fmt: skip
def test_faults_of_memory_over_others(old: str, new: str, wanted: str) -> None:
    assert old in OVER
    assert code(OVER.replace(old, new)).startswith(wanted)


def test_a_plan_says_how_many_ctas_fit() -> None:
    plan = plan_spec(load(OVER))
    (choice,) = [c for c in plan.choices if c.question == "ctas_per_sm"]
    assert choice.picked == 3 and "255 registers" in choice.proof and "9216 bytes" in choice.proof


VIEWED_FIRST = """kernel: viewed_first
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [32, 16]}
  Y: {scope: global, dtype: float32, shape: [16, 32]}
  t: {view: s, axes: [1, 0]}
  s: {scope: shared, dtype: float32, shape: [32, 16]}
ops:
  - copy: {src: X, dst: s}
  - sync: cta
  - copy: {src: t, dst: Y}
"""


def test_a_view_that_stands_before_its_buffer_is_the_same_memory() -> None:
    shared = [m.name for m in tilegen.build(VIEWED_FIRST).plan.memories if m.space == "shared"]
    assert shared == ["s"]
