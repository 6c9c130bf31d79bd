"""Mistakes that a newcomer makes: each is one error, which names the fix."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

import tilegen
from tests.faults.verdicts import refusal_of
from tilegen.dtypes import DTYPES
from tilegen.errors import TilegenError
from tilegen.ops import OPS
from tilegen.spec.absent import WORDS

RIGHT = """kernel: k
arch: sm_90
grid: {bx: 8}
threads: 128
params: {M: 256}
buffers:
  X: {scope: global, dtype: float16, shape: [M, 64]}
  Y: {scope: global, dtype: float16, shape: [64, M]}
  s: {scope: shared, dtype: float16, shape: [32, 64], layout: auto}
  t: {view: s, axes: [1, 0]}
ops:
  - copy: {src: "X[bx*32 : +32]", dst: s}
  - sync: cta
  - copy: {src: t, dst: "Y[:, bx*32 : +32]"}
"""
LOAD, STORE = '- copy: {src: "X[bx*32 : +32]", dst: s}', '- copy: {src: t, dst: "Y[:, bx*32 : +32]"}'
MISTAKES = [  # what is written for what, the code, and a part of the fix
    ("kernel: k", "kernal: k", "TG101", "did you mean 'kernel'?"),
    ("kernel: k", "kernel: my-kernel", "TG107", "write 'my_kernel'"),
    ("kernel: k", "\tkernel: k", "TG003", "indent with spaces"),
    ("arch: sm_90", "arch: sm90", "TG109", "did you mean 'sm_90'?"),
    ("arch: sm_90", "arch: 90", "TG103", "for example 'arch: sm_90'"),
    ("grid: {bx: 8}", "grid: [8, 8]", "TG103", "write grid: {bx: 8, by: 8}"),
    ("grid: {bx: 8}", "grid: 8", "TG103", "write grid: {bx: 8}"),
    ("grid: {bx: 8}", "grid: {x: 8}", "TG101", "did you mean 'bx'?"),
    ("grid: {bx: 8}", "grid: {bx: M / 32}", "TG111", "write '//' or 'ceil(a / b)'"),
    ("grid: {bx: 8}", "grid: {bx: 9}", "TG207", "'edge: clip'"),
    ("grid: {bx: 8}", "grid: {bx: 7}", "TG418", "'bx: M // 32' reaches the end"),
    ("threads: 128", "threads: 128.0", "TG103", "write 128"),
    ("threads: 128", "threads: [128]", "TG103", "write the number without brackets"),
    ("threads: 128", "thread: 128", "TG101", "did you mean 'threads'?"),
    ("threads: 128\n", "", "TG102", "add 'threads: ...'"),
    ("params: {M: 256}", "params: [M: 256]", "TG103", "write params: {M: 4096}"),
    ("float16, shape: [M, 64]", "fp16, shape: [M, 64]", "TG109", "did you mean 'float16'?"),
    ("dtype: float16", "dtype: flaot16", "TG109", "did you mean 'float16'?"),
    ("shape: [M, 64]", "shape: 256x64", "TG103", "write [256, 64]"),
    ("shape: [M, 64]", "shape: (M, 64)", "TG006", "write a list: shape: [M, 64]"),
    ("shape: [M, 64]", "shape: 256, 64", "TG006", "write a list: shape: [256, 64]"),
    (LOAD, LOAD.replace("dst: s", "dst: s, scope: warp"), "TG408", "'scope: cta' shares it out"),
    ("arch: sm_90", "arch: hopper", "TG109", "did you mean 'sm_90a'?"),
    ("threads: 128", "threads: 2048", "TG106", "more work is more CTAs"),
    ("params: {M: 256}", "param: {M: 256}", "TG101", "did you mean 'params'?"),
    ("buffers:", "buffer:", "TG101", "did you mean 'buffers'?"),
    ("scope: shared", "scope: tensor", "TG109", "did you mean 'tmem'?"),
    (LOAD, f"- for: k in range(4)\n    do:\n      {LOAD}", "TG103", "write {k: 4}"),
    ("shape: [M, 64]", "size: [M, 64]", "TG101", "did you mean 'shape'?"),
    ("shape: [M, 64]", "shape: [m, 64]", "TG105", "did you mean 'M'?"),
    ("scope: shared", "scope: smem", "TG109", "did you mean 'shared'?"),
    ("layout: auto", "layout: swizzle", "TG200", "there are row, col, auto"),
    ("layout: auto", "layout: Swizzle(3,3,3)", "TG006", 'layout: "Swizzle(3,3,3)"'),
    ("layout: auto", 'layout: "Swizzle<3,3,3>"', "TG200", "Swizzle(3, 3, 3)"),
    ("layout: auto", 'layout: "S[(32,64):(64)]"', "TG201", "a stride for each extent"),
    ("axes: [1, 0]", "axes: [1, 2]", "TG115", "for example [1, 0]"),
    ("view: s", "view: q", "TG105", "there are X, Y, s, t"),
    ("  - sync: cta\n", "", "TG403", "insert `- sync: cta`"),
    ("sync: cta", "syncthreads", "TG114", "for example '- sync: cta'"),
    ("sync: cta", "sync: block", "TG109", "did you mean 'cta'?"),
    ("  - sync: cta", "- sync: cta", "TG003", "check the indentation"),
    ("X[bx*32 : +32]", "X[bx*32 : 32]", "TG208", "write 'lo : +length'"),
    ("X[bx*32 : +32]", "X[bx*32 : +64]", "TG207", "'edge: clip'"),
    ("X[bx*32 : +32]", "X[bx*32 : +31]", "TG212", "'lo : +32' in 'X[..]'"),
    ("X[bx*32 : +32]", "X[bx]", "TG212", "extents of 1 do not count"),
    ("X[bx*32 : +32]", "x[bx*32 : +32]", "TG105", "did you mean 'X'?"),
    ("X[bx*32 : +32]", "X[blockIdx.x*32 : +32]", "TG111", "write 'bx'"),
    ("X[bx*32 : +32]", "X[tx*32 : +32]", "TG113", "give the op 'scope: thread'"),
    ("X[bx*32 : +32]", "X[-32:]", "TG205", "count from the start"),
    (STORE, STORE.replace("src: t", "src: s"), "TG212", "s_t: {view: s, axes: [1, 0]}"),
    (STORE, STORE.replace("bx*32", "0"), "TG417", "no place in Y depends on bx"),
    (STORE, STORE.replace("bx*32", "bx*16"), "TG417", "how far the next one is"),
    (STORE, STORE.replace("src:", "from:"), "TG101", "did you mean 'src'?"),
    (STORE, "- copy: t -> Y", "TG103", "write {src: .., dst: ..}"),
    (STORE, STORE.replace('"Y[:, bx*32 : +32]"', "Y[:, bx*32 : +32]"), "TG006", "quote this value"),
    (STORE, STORE.replace("copy", "memcpy"), "TG110", "did you mean 'copy'?"),
    (LOAD, LOAD.replace("}", ", async: true}"), "TG422", "insert `- commit`, `- wait: 0`, `- sync: cta`"),
    (LOAD, f"{LOAD}\n  - wait: 0", "TG304", "write 'async: true' on the copy"),
    ("dtype: float16, shape: [32", "dtype: float32, shape: [32", "TG213", "'cast: {src: .., dst: ..}' converts"),
    (LOAD, "- fill: {dst: s, value: 1000000}", "TG214", "float16 holds up to 65504"),
]


@pytest.mark.sweep(28)
@pytest.mark.parametrize(("right", "wrong", "code", "fix"), MISTAKES, ids=[m[1].strip()[:40] for m in MISTAKES])
def test_a_mistake_is_one_error_that_names_the_fix(right: str, wrong: str, code: str, fix: str) -> None:
    assert right in RIGHT
    [finding] = refusal_of(TilegenError, tilegen.build, RIGHT.replace(right, wrong, 1)).diagnostics
    assert finding.code == code and fix in finding.hint
    assert finding.mark is not None or code == "TG418"


def test_the_spec_that_they_spoil_is_right() -> None:
    assert tilegen.build(RIGHT).warnings == ()


def test_a_commit_beside_tma_is_told_that_tma_needs_none() -> None:
    tile = "layout: \"mma_shared_layout('float16', '128B', (32, 64))\""
    spec = RIGHT.replace("layout: auto", tile).replace(LOAD, LOAD.replace("}", ", variant: tma, barrier: full}"))
    caught = refusal_of(TilegenError, tilegen.build, spec.replace("- sync: cta", "- commit\n  - wait: {barrier: full}"))
    [finding] = caught.diagnostics
    assert finding.code == "TG304" and "TMA" in finding.hint and "remove it" in finding.hint


def test_a_variant_that_refuses_is_what_is_pointed_at() -> None:
    caught = refusal_of(TilegenError, tilegen.build, RIGHT.replace(STORE, STORE.replace("}", ", variant: cp_async}")))
    [finding] = caught.diagnostics
    assert finding.code == "TG302" and finding.mark
    assert finding.mark.text[finding.mark.column - 1 :].startswith("cp_async")


RING = (Path(__file__).parents[1] / "specs" / "copy_ring.yaml").read_text(encoding="utf-8")
SCALE = """kernel: scale
threads: 64
grid: {bx: 8}
params: {N: {default: 100, max: 4096}}
buffers:
  X: {scope: global, dtype: float32, shape: [8, 64]}
  W: {scope: global, dtype: float32, shape: [64]}
  Y: {scope: global, dtype: float32, shape: [8, 64]}
  V: {scope: global, dtype: float32, shape: [N]}
  U: {scope: global, dtype: float32, shape: [N], partial: true}
ops:
  - elementwise: {dst: "Y[bx]", expr: "x * weight", with: {x: "X[bx]", weight: W}}
  - copy: {src: "V[0:1]", dst: "U[0:1]", when: bx == 0}
"""
PRODUCT = """kernel: product
arch: sm_89
params: {s: {dtype: float32, default: 1.0}}
buffers:
  A: {scope: global, dtype: float8_e4m3fn, shape: [64, 64]}
  B: {scope: global, dtype: float8_e4m3fn, shape: [64, 64]}
  v: {scope: global, dtype: float32, shape: [64]}
  D: {scope: global, dtype: float16, shape: [64, 64]}
ops:
  - gemm: {a: A, b: B, d: D, epilogue: "s * acc + bias", bias: v}
"""
OVERLAP = """kernel: shift
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [64], partial: true}
  s: {scope: shared, dtype: float32, shape: [32]}
ops:
  - copy: {src: "X[0:32]", dst: s}
  - sync: cta
  - copy: {src: s, dst: "X[16:48]"}
"""
SUM = """kernel: sum
threads: 64
grid: {bx: 8}
buffers:
  X: {scope: global, dtype: float32, shape: [8, 4, 64, 2]}
  Y: {scope: global, dtype: float32, shape: [8, 64]}
  s: {scope: register, dtype: float32, shape: [64], layout: auto}
ops:
  - fill: {dst: s, value: 0}
  - for: {k: 4}
    do:
      - reduce: {src: "X[bx, k]", dst: s, axis: 1, op: sum, accumulate: true}
  - copy: {src: s, dst: "Y[bx]"}
"""
ROWS = """kernel: rows
threads: 64
grid: {bx: ceil(N / 64)}
params: {N: 1000}
buffers:
  X: {scope: global, dtype: uint8, shape: [N]}
  Y: {scope: global, dtype: float32, shape: [N]}
  Z: {scope: global, dtype: float32, shape: [N], partial: true}
  m: {scope: register, dtype: float32, shape: [64], layout: "S[64:1@tx]"}
ops:
  - elementwise: {dst: "Y[bx*64 : +64]", expr: "x + 1", with: {x: "X[bx*64 : +64]"}, edge: clip}
  - fill: {dst: m, value: 0}
"""
TILE = """kernel: tile
grid: {bx: 4, by: 2}
threads: 64
params: {N: 256, M: 128}
buffers:
  X: {scope: global, dtype: float32, shape: [N, M]}
  Y: {scope: global, dtype: float32, shape: [N, M]}
ops:
  - copy: {src: "X[bx*64 : +64, by*64 : +64]", dst: "Y[bx*64 : +64, by*64 : +64]"}
"""
TURNED = """kernel: turned
buffers:
  A: {scope: global, dtype: float16, shape: [128, 64]}
  B: {scope: global, dtype: float16, shape: [64, 256]}
  DECLARED
ops:
  - gemm: {a: A, b: B, d: D}
"""
PIXELS = """kernel: pixels
arch: sm_90a
threads: 128
buffers:
  A: {scope: global, dtype: float16, shape: [8, 8, 16]}
  B: {scope: global, dtype: float16, shape: [16, 8]}
  a: {scope: shared, dtype: float16, shape: [8, 8, 16], layout: auto}
  a_rows: {view: a, shape: [64, 16]}
  b: {scope: shared, dtype: float16, shape: [16, 8], layout: auto}
  c: {scope: register, dtype: float32, shape: [64, 8], layout: auto}
  D: {scope: global, dtype: float32, shape: [64, 8]}
ops:
  - copy: {src: A, dst: a}
  - copy: {src: B, dst: b}
  - sync: async
  - sync: cta
  - mma: {a: a_rows, b: b, c: c, accumulate: false}
  - copy: {src: c, dst: D}
"""
AUTO = "layout: auto"
ATOMS = "layout: \"mma_shared_layout('float16', '128B', (32, 64))\""
FILL = "  - fill: {dst: s, value: 0}\n"
BOTH = '  - copy: {src: "X[0:32]", dst: s}\n  - sync: cta\n  - copy: {src: s, dst: "X[16:48]"}\n'
WAIT_FULL, WAIT_FREE = '          - wait: {barrier: "full[k % 3]"}\n', '          - wait: {barrier: "free[k % 3]"}\n'
ONE = '- copy: {src: "V[0:1]", dst: "U[0:1]", when: bx == 0}'
TILES = """- for: {k: ceil(N / 64)}
    do:
      - copy: {src: "V[k*64 : +64]", dst: "U[k*64 : +64]", edge: clip, when: bx == 0}"""
APPLIED = [  # a spec, what is right in it, what is written for it, the code, the fix, and what it makes of that
    (RING, ", open: true", "", "TG413", "declare 'free' with 'open: true'", ", open: true"),
    (RING, "- role: move", "- role: load", "TG413", "name its block 'role: move'", "- role: move"),
    (RING, WAIT_FULL, "", "TG422", f"insert `{WAIT_FULL.strip()}` before line 30", WAIT_FULL),
    (RING, WAIT_FREE, "", "TG434", f"insert `{WAIT_FREE.strip()}` before line 24", WAIT_FREE),
    (SUM, FILL, "", "TG404", "insert `- fill: {dst: s, value: 0}` before line 9", FILL),
    (
        SUM,
        "  - copy",
        "  - if: bx < 8\n    do:\n     - copy",
        "TG110",
        "'when'",
        "  - when: bx < 8\n    do:\n     - copy",
    ),
    (SCALE, "V[0:1]", "V[bx - 1 : +1]", "TG207", "begin at 'max(bx - 1, 0)'", "V[max(bx - 1, 0) : +1]"),
    (SCALE, "x * weight", "x ** 2 * weight", "TG111", "write 'x * x'", "x * x * weight"),
    (OVERLAP, BOTH, '  - copy: {src: "X[0:32]", dst: "X[16:48]"}\n', "TG403", "write into another buffer", BOTH),
    (SCALE, "x * weight", "relu(x)* weight", "TG111", "write 'max(x, 0)'", "max(x, 0)* weight"),
    (SCALE, "x * weight", "sqr(x) * weight", "TG111", "write 'x * x'", "x * x * weight"),
    (SCALE, "x * weight", "float32(x) * weight", "TG111", "leave it out", "x * weight"),
    (SCALE, "x * weight", "ceil(x) * weight", "TG111", "write '-floor(-x)'", "-floor(-x) * weight"),
    (SCALE, "x * weight", "x * wieght", "TG105", "did you mean 'weight'?", "x * weight"),
    (SCALE, "x * weight", "x * weight + tx", "TG113", "index(d) is the place", "x * weight + index(0)"),
    (SCALE, "x * weight", "x * weight * 2.0f", "TG111", "write 2.0", "x * weight * 2.0"),
    (SCALE, ", when: bx == 0", ", when: tx == 0 and bx == 0", "TG113", "leave it out", ", when: bx == 0"),
    (SCALE, ONE, ONE.replace("[0:1]", "[0 : +N]"), "TG208", "'k*64 : +64' in 'for: {k: ceil(N / 64)}'", TILES),
    (PRODUCT, "sm_89", "sm_80", "TG301", "'arch: sm_89'", "sm_89"),
    (PRODUCT, "acc + bias", "ac + bias", "TG105", "did you mean 'acc'?", "acc + bias"),
    (PRODUCT, ", bias: v", "", "TG105", "give gemm 'bias: ARRAY'", ", bias: v"),
    (PRODUCT, 'bias", bias: v', 'shift"', "TG105", "'with: {shift: ARRAY}'", 'shift", with: {shift: v}'),
    (RIGHT, AUTO, "layout: 128B", "TG200", ATOMS.removeprefix("layout: "), ATOMS),
    (RIGHT, AUTO, "layout: swizzle_128B", "TG200", '"Swizzle(3, 3, 3)"', 'layout: "Swizzle(3, 3, 3)"'),
    (RIGHT, "[64, M]", "[64, M], layout: row_major", "TG200", "did you mean 'row'?", "[64, M], layout: row"),
    (RIGHT, "X[bx*32", "X[(bx & 7)*32", "TG111", "write '% 8'", "X[(bx % 8)*32"),
    (RIGHT, "X[bx*32", "X[(bx << 5)", "TG111", "write '* 32'", "X[(bx * 32)"),
    (SCALE, "x * weight", "max(x, weight, 0)", "TG111", "write 'max(max(x, weight), 0)'", "max(max(x, weight), 0)"),
    (SCALE, "x * weight", "x if x > 0 else 0", "TG111", "'where(x > 0, x, 0)'", "where(x > 0, x, 0) * weight"),
    (SCALE, "x * weight", "relu(x + 1)* weight", "TG111", "'max((x + 1), 0)'", "max((x + 1), 0)* weight"),
    (ROWS, "dtype: uint8", "dtype: int4", "TG109", "'x % 16' and 'x // 16'", "dtype: uint8"),
    (ROWS, "ceil(N / 64)", "N // 64", "TG418", "'bx: ceil(N / 64)' with 'edge: clip'", "ceil(N / 64)"),
    (ROWS, '"S[64:1@tx]"', "auto", "TG309", '"S[64:1@tx]"', '"S[64:1@tx]"'),
    (TILE, "{bx: 4, by: 2}", "{bx: 2, by: 4}", "TG207", "fits dimension 0 exactly", "{bx: 4, by: 2}"),
    (PIXELS, "a: a_rows", "a: a", "TG212", "a_rows: {view: a, shape: [64, 16]}", "a: a_rows"),
    (PRODUCT, "arch: sm_89", "arch: sm_89\nthreads: 128", "TG116", "remove it", "arch: sm_89"),
]


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("spec", "right", "wrong", "code", "fix", "mended"), APPLIED, ids=[a[4][:40] for a in APPLIED])
def test_the_fix_of_a_mistake_mends_it(spec: str, right: str, wrong: str, code: str, fix: str, mended: str) -> None:
    assert right in spec
    caught = refusal_of(TilegenError, tilegen.build, spec.replace(right, wrong))
    assert {finding.code for finding in caught.diagnostics} == {code}
    assert fix in caught.diagnostics[0].hint
    tilegen.build(spec.replace(right, mended))


@pytest.mark.slow
def test_a_view_that_a_product_is_written_into_is_an_array_of_that_layout() -> None:
    d = "D: {scope: global, dtype: float16, shape: [256, 128]}"
    caught = refusal_of(
        TilegenError,
        tilegen.build,
        TURNED.replace("DECLARED", d + "\n  E: {view: D, axes: [1, 0]}").replace("d: D", "d: E"),
    )
    [finding] = caught.diagnostics
    assert finding.code == "TG205"
    _, _, declared = finding.hint.partition("write 'D': ")
    assert declared.endswith("shape: [128, 256], layout: col}")
    tilegen.build(TURNED.replace("DECLARED", declared))


@pytest.mark.parametrize("kind", WORDS)
def test_what_is_not_here_is_no_word_of_the_language(kind: str) -> None:
    known = {"dtype": set(DTYPES), "op": set(_choices("reduce", "op")), "edge": set(_choices("copy", "edge"))}
    assert not WORDS[kind].keys() & known[kind]


def _choices(op: str, field: str) -> tuple[str, ...]:
    return get_args(OPS[op].model.model_fields[field].annotation)
