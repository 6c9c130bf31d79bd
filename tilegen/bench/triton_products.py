"""What a user would write in Triton for a product. Importing this imports Triton."""

# mypy: disable-error-code="untyped-decorator,no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def place_tile(number, down, across, GROUP: tl.constexpr):
    """Row and column of a tile: GROUP rows of tiles are made together, so that the L2 holds what they share."""
    group = number // (GROUP * across)
    height = tl.minimum(down - group * GROUP, GROUP)
    inside = number % (GROUP * across)
    return group * GROUP + inside % height, inside // height


@triton.jit
def multiply_tiles(
    a, b, d, c, bias, alpha, beta, M, N, K,
    a_batch, a_row, a_col, b_batch, b_row, b_col, d_batch, d_row, d_col,
    c_batch, c_row, c_col, bias_batch, bias_row, bias_col,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SUMS: tl.constexpr,
    PRECISION: tl.constexpr, IS_EVEN: tl.constexpr, HAS_ALPHA: tl.constexpr, HAS_C: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):  # fmt: skip
    row, col = place_tile(tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN), GROUP)
    row = (row * BM).to(tl.int64)
    col = (col * BN).to(tl.int64)
    batch = tl.program_id(1).to(tl.int64)
    i = tl.arange(0, BM)[:, None]
    j = tl.arange(0, BN)[None, :]
    k = tl.arange(0, BK)
    left = a + batch * a_batch + row * a_row + (i * a_row + k[None, :] * a_col)
    right = b + batch * b_batch + col * b_col + (k[:, None] * b_row + j * b_col)
    inside_m = row + i < M
    inside_n = col + j < N
    acc = tl.zeros((BM, BN), dtype=SUMS)
    for t in range(0, tl.cdiv(K, BK)):
        if IS_EVEN:
            x = tl.load(left)
            y = tl.load(right)
        else:
            x = tl.load(left, mask=inside_m & (k[None, :] < K - t * BK), other=0.0)
            y = tl.load(right, mask=inside_n & (k[:, None] < K - t * BK), other=0.0)
        acc = tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=SUMS)
        left += BK * a_col
        right += BK * b_row
    inside = inside_m & inside_n
    if HAS_ALPHA:
        acc = acc * alpha
    if HAS_C:
        at = c + batch * c_batch + row * c_row + col * c_col + (i * c_row + j * c_col)
        acc = acc + beta * tl.load(at, mask=inside, other=0.0)
    if HAS_BIAS:
        at = bias + batch * bias_batch + row * bias_row + col * bias_col + (i * bias_row + j * bias_col)
        acc = acc + tl.load(at, mask=inside, other=0.0)
    at = d + batch * d_batch + row * d_row + col * d_col + (i * d_row + j * d_col)
    tl.store(at, acc.to(d.dtype.element_ty), mask=inside)


@triton.jit
def multiply_boxes(
    a, b, d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SUMS: tl.constexpr,
    PRECISION: tl.constexpr, A_TURNED: tl.constexpr, B_TURNED: tl.constexpr,
):  # fmt: skip
    """The same by TMA: a, b and d are descriptors, the turned ones of the transpose; programs go from tile to tile."""
    down = tl.cdiv(M, BM)
    across = tl.cdiv(N, BN)
    for number in tl.range(tl.program_id(0), down * across, tl.num_programs(0), flatten=True):
        row, col = place_tile(number, down, across, GROUP)
        acc = tl.zeros((BM, BN), dtype=SUMS)
        for t in range(0, tl.cdiv(K, BK)):
            if A_TURNED:  # noqa: SIM108 - Triton compiles the arm taken
                x = a.load([t * BK, row * BM]).T
            else:
                x = a.load([row * BM, t * BK])
            if B_TURNED:  # noqa: SIM108
                y = b.load([col * BN, t * BK]).T
            else:
                y = b.load([t * BK, col * BN])
            acc = tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=SUMS)
        d.store([row * BM, col * BN], acc.to(d.dtype))
