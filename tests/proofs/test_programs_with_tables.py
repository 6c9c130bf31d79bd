"""Integers that one pass writes and the next reads in a let, and parts of a workspace: faults in the text, found."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.texts import change_text
from faults.verdicts import refusal_of

from tests.meaning import Array
from tilegen import pipeline
from tilegen.errors import ProofError, SpecError
from tilegen.pipeline import BuiltProgram, build
from tilegen.verifying.programs import run_together

SPECS = Path(__file__).parents[2] / "specs"
GATHER = """
kernel: gathered
arch: sm_90
params: {N: {default: 300, max: 65536}, D: 64}
buffers:
  kinds: {scope: global, dtype: int32, shape: [N], values: "0 : 1000"}
  X: {scope: global, dtype: float32, shape: [N, D]}
  Y: {scope: global, dtype: float32, shape: [N, D]}
  place: {scope: workspace, dtype: int32, shape: [N], values: "0 : N"}
passes:
  - name: choose
    grid: {bx: ceil(N / 256)}
    threads: 256
    overlap: previous
    ops:
      - wait: previous
      - let: {b: bx*256}
      - elementwise: {dst: "place[b : +256]", expr: "min(k * 7, N - 1)", with: {k: "kinds[b : +256]"}, edge: clip}
  - name: gather
    grid: {bx: ceil(N / 8)}
    threads: 256
    overlap: previous
    ops:
      - wait: previous
      - let: {row: bx*8 + warpid}
      - when: row < N
        do:
          - let: {at: "place[row]"}
          - copy: {scope: warp, src: "X[at]", dst: "Y[row]"}
"""
_LET = '          - let: {at: "place[row]"}\n'
_WAIT = "      - wait: previous\n      - let: {row"


def mean_gathered(kinds: Array, X: Array, N: int) -> Array:
    found: Array = X[[min(int(k) * 7, int(N) - 1) for k in kinds]]
    return found


def test_a_pass_reads_what_the_pass_before_wrote() -> None:
    built = pipeline.build(GATHER)
    assert isinstance(built, BuiltProgram)
    for seed in (1, 2):
        lines = run_together(built, seed, against=mean_gathered)
        assert lines[0] == "float: Y: exact" and lines[1].startswith("against: Y: ")
    text = built.source[built.source.index("gathered_gather(") :]
    head, body = text[: text.index("{")], text[text.index("{") :]
    assert "const int *place" in head and "__restrict__" not in head  # else a compiler may read it before the wait
    assert body.index("wait_previous") < body.index("place[row]")


FAULTS = {
    "no values": ("TG126", (', values: "0 : N"}\npasses', "}\npasses")),
    "values that are not shown": ("TG442", ("min(k * 7, N - 1)", "k * 7")),
    "an end off by one": ("TG442", ("min(k * 7, N - 1)", "min(k * 7, N)")),
    "a promise of a workspace": ("TG106", ('values: "0 : N"}\npasses', 'values: "0 : N", distinct: true}\npasses')),
    "an array of the caller that a pass writes": ("TG106", ("place: {scope: workspace", "place: {scope: global")),
    "elements that nobody wrote": ("TG429", ("grid: {bx: ceil(N / 256)}", "grid: {bx: ceil(N / 512)}")),
    "a pass that may be skipped": ("TG429", ("  - name: choose\n", "  - name: choose\n    when: N > 5\n")),
    "a read before the wait": ("TG440", (_WAIT, '      - let: {early: "place[0]"}\n' + _WAIT)),
    "the pass itself writes it": (
        "TG126", (_LET, _LET + '          - fill: {scope: warp, dst: "place[row : +1]", value: 0}\n'),
    ),
    "the guard of the index dropped": ("TG207", ("when: row < N", "when: row < N + 1")),
    "written where it is read": ("TG441", ('src: "X[at]", dst: "Y[row]"', 'src: "X[row]", dst: "Y[at]"')),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_tables_between_passes_are_found(name: str) -> None:
    code, (old, new) = FAULTS[name]
    assert GATHER.count(old) == 1, old
    with pytest.raises((SpecError, ProofError)) as found:
        pipeline.build(GATHER.replace(old, new))
    assert code in {d.code for d in found.value.diagnostics}


PARTS = """
kernel: parts
arch: sm_80
params: {B: {default: 5, max: 4096}, P: 8}
buffers:
  lens: {scope: global, dtype: int32, shape: [B], values: "1 : 9"}
  X: {scope: global, dtype: float32, shape: [B, P, 64]}
  Y: {scope: global, dtype: float32, shape: [B, 64]}
  part: {scope: workspace, dtype: float32, shape: [B, P, 64]}
passes:
  - name: scale
    grid: {bx: P, by: B}
    threads: 64
    ops:
      - let: {used: "lens[by]"}
      - when: bx < used
        do:
          - elementwise: {dst: "part[by, bx]", expr: "x * 2", with: {x: "X[by, bx]"}}
  - name: add
    grid: {bx: B}
    threads: 64
    buffers: {y: {scope: register, dtype: float32, shape: [1, 64], layout: auto}}
    ops:
      - let: {many: "lens[bx]"}
      - reduce: {src: "part[bx, 0 : +P < many]", dst: y, axis: 0, op: sum, edge: clip}
      - copy: {src: y, dst: "Y[bx : +1]"}
"""
PART_FAULTS = {
    "no limit where it is read": (" < many]", "]"),
    "a limit one too far": ("< many]", "< many + 1]"),
    "the term of another sequence": ('"lens[bx]"', '"lens[B - 1 - bx]"'),
    "a term that is equal to it": ("bx < used", "bx * 2 < used * 2"),
    "all but the last part": ("bx < used", "bx < used - 1"),
    "another row's part": ('dst: "part[by, bx]"', 'dst: "part[B - 1 - by, bx]"'),
}  # fmt: skip


def test_a_part_that_one_term_names_on_both_sides() -> None:
    assert isinstance(pipeline.build(PARTS), BuiltProgram)


@pytest.mark.parametrize("name", PART_FAULTS)
def test_a_part_that_is_read_under_another_term_is_refused(name: str) -> None:
    old, new = PART_FAULTS[name]
    assert PARTS.count(old) == 1, old
    with pytest.raises((SpecError, ProofError)) as found:
        pipeline.build(PARTS.replace(old, new))
    assert "TG429" in {d.code for d in found.value.diagnostics}


BOTH_READ = """
kernel: both
arch: sm_90
buffers:
  T: {scope: global, dtype: int32, shape: [4], values: "0 : 100"}
  X: {scope: global, dtype: float32, shape: [128]}
  Y: {scope: global, dtype: float32, shape: [128]}
  W: {scope: workspace, dtype: int32, shape: [128]}
passes:
  - name: one
    grid: {bx: 4}
    threads: 32
    ops:
      - let: {t: "T[bx]"}
      - elementwise: {dst: "W[bx*32 : +32]", expr: "index(0) + t*32"}
  - name: two
    grid: {bx: 4}
    threads: 32
    buffers:
      i: {scope: register, dtype: int32, shape: [32], layout: auto, distinct: true}
    ops:
      - let: {t: "T[bx]"}
      - elementwise: {dst: i, expr: "w - t*32 + bx*32", with: {w: "W[bx*32 : +32]"}}
      - scatter: {src: "X[bx*32 : +32]", index: i, dst: Y, edge: clip, when: t < 200}
"""


@pytest.mark.parametrize("when", ["", ", when: t < 200"])
def test_passes_that_make_places_read_the_same_tables(when: str) -> None:
    text = change_text(BOTH_READ, (", when: t < 200", when))
    build(text)
    wrong = change_text(text, ("w - t*32 + bx*32", "w - t*32"))
    assert "TG405" in str(refusal_of(ProofError, build, wrong))
