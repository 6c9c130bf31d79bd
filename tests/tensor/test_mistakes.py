"""What people write at first with tensor memory: one error each, at its place, with what to write."""

from __future__ import annotations

import pytest

import tilegen
from tests.faults.verdicts import refusal_of
from tilegen.errors import TilegenError

COMMIT = "      - commit: {barrier: done}\n"
MMA = "      - mma: {a: sa, b: sb, c: acc, accumulate: false, async: true}\n"
RIGHT = f"""kernel: k
arch: sm_100a
grid: {{bx: 1}}
buffers:
  A: {{scope: global, dtype: bfloat16, shape: [128, 64]}}
  B: {{scope: global, dtype: bfloat16, shape: [64, 64], layout: col}}
  D: {{scope: global, dtype: float32, shape: [128, 64]}}
  sa: {{scope: shared, dtype: bfloat16, shape: [128, 64], layout: auto}}
  sb: {{scope: shared, dtype: bfloat16, shape: [64, 64], layout: auto}}
  acc: {{scope: tmem, dtype: float32, shape: [128, 64], layout: "S[(128, 64):(1@TLane, 1@TCol)]"}}
  h: {{scope: register, dtype: float32, shape: [128, 64], layout: auto}}
roles:
  store: {{threads: 128}}
  load: {{threads: 32}}
  mma: {{threads: 32}}
barriers: {{full: {{slots: 1}}, done: {{slots: 1}}}}
ops:
  - role: load
    do:
      - copy: {{src: A, dst: sa, variant: tma, barrier: full}}
      - copy: {{src: B, dst: sb, variant: tma, barrier: full}}
  - role: mma
    do:
      - wait: {{barrier: full}}
{MMA}{COMMIT}  - role: store
    do:
      - wait: {{barrier: done}}
      - copy: {{src: acc, dst: h}}
      - copy: {{src: h, dst: D}}
"""
ARRIVE = "      - arrive: {barrier: done}\n"
MISTAKES = [  # what is right, what was written, the code, its line, part of the fix
    (COMMIT, "      - commit: mma\n" + ARRIVE, "TG304", "commit: mma", "write 'commit: {barrier: NAME}'"),
    (COMMIT, "      - commit\n" + ARRIVE, "TG304", "commit", "write 'commit: {barrier: NAME}'"),
    (COMMIT, "      - wait: {mma: 0}\n" + ARRIVE, "TG304", "wait: {mma", "write 'wait: {barrier: NAME}'"),
    (COMMIT, "      - wait: 0\n" + ARRIVE, "TG304", "wait: 0", "write 'wait: {barrier: NAME}'"),
    (MMA, "", "TG304", "commit:", "write it in the role of the mma"),
    (f"{COMMIT}  - role: store\n    do:\n", f"  - role: store\n    do:\n{COMMIT}", "TG304", "commit:", "'arrive: {bar"),
    (", async: true", "", "TG102", "c: acc", "write 'async: true'"),
    ("src: acc", "scope: warp, src: acc", "TG190", "scope: warp", "'scope: warpgroup'"),
    ("copy: {src: acc, dst: h}", "elementwise: {dst: h, expr: acc * 2.0}", "TG190", "acc * 2.0", "to registers first"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "code", "at", "fix"), MISTAKES, ids=[f"{m[2]}, {m[3]}" for m in MISTAKES])
def test_a_mistake_is_one_error_that_names_the_fix(right: str, wrong: str, code: str, at: str, fix: str) -> None:
    assert RIGHT.count(right) == 1
    spec = RIGHT.replace(right, wrong)
    caught = refusal_of(TilegenError, tilegen.build, spec)
    [finding] = caught.diagnostics
    assert finding.code == code and fix in finding.hint
    assert finding.mark is not None and at in spec.splitlines()[finding.mark.line - 1]


def test_the_spec_that_they_spoil_is_right() -> None:
    assert tilegen.build(RIGHT).warnings == ()
