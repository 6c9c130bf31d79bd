"""What a user would write in Triton for a copy and a permute. Importing this imports Triton."""

# mypy: disable-error-code="untyped-decorator,no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def copy_flat(source, target, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(target + at, tl.load(source + at, mask=inside), mask=inside)


@triton.jit
def permute_tiles(
    source, target, rows, cols, source_row, source_col, target_row, target_col,
    n0, n1, n2, n3, n4, n5, s0, s1, s2, s3, s4, s5, t0, t1, t2, t3, t4, t5,
    ROWS: tl.constexpr, COLS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(cols, COLS)
    down = tl.cdiv(rows, ROWS)
    plane = tl.program_id(0) // (across * down)
    row = (tl.program_id(0) // across % down).to(tl.int64) * ROWS
    col = (tl.program_id(0) % across).to(tl.int64) * COLS
    read = source + row * source_row + col * source_col
    write = target + row * target_row + col * target_col

    i0 = (plane % n0).to(tl.int64)
    plane = plane // n0
    i1 = (plane % n1).to(tl.int64)
    plane = plane // n1
    i2 = (plane % n2).to(tl.int64)
    plane = plane // n2
    i3 = (plane % n3).to(tl.int64)
    plane = plane // n3
    i4 = (plane % n4).to(tl.int64)
    i5 = (plane // n4).to(tl.int64)  # what is left is less than n5
    read += i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3 + i4 * s4 + i5 * s5
    write += i0 * t0 + i1 * t1 + i2 * t2 + i3 * t3 + i4 * t4 + i5 * t5

    i = tl.arange(0, ROWS)[:, None]
    j = tl.arange(0, COLS)[None, :]
    inside = (row + i < rows) & (col + j < cols)
    if WIDE:
        i = i.to(tl.int64)
        j = j.to(tl.int64)
    tile = tl.load(read + (i * source_row + j * source_col), mask=inside)
    tl.store(write + (i * target_row + j * target_col), tile, mask=inside)
