"""Kernels that accumulate, from a few words each."""

from __future__ import annotations

COUNTED = """kernel: counted
arch: {arch}
grid: {{bx: 4}}
threads: 64
buffers:
  X: {{scope: global, dtype: {dtype}, shape: [16, 64]}}
  S: {{scope: global, dtype: {dtype}, shape: [64]}}
  Y: {{scope: global, dtype: {dtype}, shape: [4, 64]}}
  x: {{scope: register, dtype: {dtype}, shape: [4, 64], layout: "S[(4, 64):(1, 1@tx)]"}}
  s: {{scope: shared, dtype: {dtype}, shape: [64]}}
ops:
  - copy: {{src: "X[bx*4 : +4]", dst: x}}
{ops}"""
CLEAR = "  - fill: {dst: s, value: 0}\n"
SYNC = "  - sync: cta\n"
PUT = "".join(f'  - copy: {{src: "x[{row}]", dst: s, accumulate: add}}\n' for row in range(4))
READ = '  - copy: {src: s, dst: "Y[bx]"}\n'
SHARED = """kernel: shared
arch: {arch}
grid: {{bx: 4}}
threads: 64
buffers:
  X: {{scope: global, dtype: {dtype}, shape: [16, 16]}}
  Y: {{scope: global, dtype: {dtype}, shape: [4, 16]}}
  x: {{scope: register, dtype: {dtype}, shape: [4, 16], layout: "S[(4, 16):(16@tx, 1@tx)]"}}
  s: {{scope: shared, dtype: {dtype}, shape: [16]}}
ops:
  - copy: {{src: "X[bx*4 : +4]", dst: x}}
{ops}"""


def shared_sums(ops: str = CLEAR + SYNC + PUT + SYNC + READ, dtype: str = "float32", arch: str = "sm_90") -> str:
    """Each CTA adds four rows up in shared memory, each of 16 threads of its own."""
    return SHARED.format(arch=arch, dtype=dtype, ops=ops)


def global_sums(function: str = "add", dtype: str = "float32", arch: str = "sm_90", more: str = "") -> str:
    """Each CTA puts four rows to one row of an array, from registers."""
    ops = "".join(f'  - copy: {{src: "x[{row}]", dst: S, accumulate: {function}{more}}}\n' for row in range(4))
    return COUNTED.format(arch=arch, dtype=dtype, ops=ops)


ROWS = """kernel: rows
arch: {arch}
params: {{T: {{default: 37}}, V: 9, D: 128}}
grid: {{bx: ceil(T / 4)}}
threads: 128
buffers:
  ids: {{scope: global, dtype: int32, shape: [T], values: "0 : V"}}
  X: {{scope: global, dtype: {dtype}, shape: [T, D]}}
  Y: {{scope: global, dtype: {dtype}, shape: [V, D]}}
ops:
  - let: {{row: bx*4 + warpid}}
  - when: row < T
    do:
      - let: {{id: "ids[row]"}}
      - copy: {{scope: warp, src: "X[row]", dst: "Y[id]", accumulate: {function}}}
"""


def rows_by_index(function: str = "add", dtype: str = "bfloat16", arch: str = "sm_90") -> str:
    """A warp a row, put to the row that a table names."""
    return ROWS.format(arch=arch, dtype=dtype, function=function)


BOXES = """kernel: boxes
arch: sm_90
grid: {{bx: 4, by: 2}}
threads: 128
buffers:
  X: {{scope: global, dtype: {dtype}, shape: [128, 64]}}
  S: {{scope: global, dtype: {dtype}, shape: [64, 64]}}
  s: {{scope: shared, dtype: {dtype}, shape: [32, 32]}}
ops:
  - copy: {{src: "X[bx*32 : +32, by*32 : +32]", dst: s}}
{fence}  - sync: cta
  - copy: {{src: s, dst: "S[bx % 2 * 32 : +32, by*32 : +32]", variant: tma, async: true, accumulate: {function}}}
  - wait: 0
"""


def boxes_by_tma(function: str = "add", dtype: str = "float32", fence: str = "  - sync: async\n") -> str:
    """A CTA puts a box of shared memory to that of an array by TMA; two CTAs to each."""
    return BOXES.format(dtype=dtype, function=function, fence=fence)
