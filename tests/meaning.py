"""What each spec of specs/ that computes is for: a function of float64 NumPy arrays, by the spec's name (rule P3).

The reference of a spec of tile ops is the spec itself, so that a wrong formula proves itself right. Nothing here knows
of tiles. A function takes what it names among the spec's inputs, whole, as float64, and its params; it returns the
output, or outputs by name, as ``tilegen verify --against tests.meaning:softmax_rows`` has it. ``@means`` adds it to the
table, with the sizes at which test_what_specs_mean runs it beside the kernel: params and values, small, corners among
them (rows of one, a row less than a vector, every loop at as few trips as it can make).

A row of inputs holds -inf and ``largest`` too; less where float32 cannot square it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.element_cases import draw_philox

Array = NDArray[np.float64]
Sizes = Mapping[str, int]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Meaning:
    """A spec's function and the sizes at which it is compared with the kernel; the largest number among its inputs."""

    function: Function
    sizes: tuple[Sizes, ...]
    largest: float


MEANINGS: dict[str, Meaning] = {}


def means(*sizes: Sizes, largest: float = 1e30) -> Callable[[Function], Function]:
    """The function below is what the spec of its name computes."""

    def add(function: Function) -> Function:
        assert function.__name__ not in MEANINGS, f"two meanings of {function.__name__}"
        MEANINGS[function.__name__] = Meaning(function, sizes or ({},), largest)
        return function

    return add


# ---------------------------------------------------------------- rows
@means({"M": 5, "N": 512, "T": 64}, {"M": 2, "N": 63, "T": 32}, {"M": 1, "N": 1, "T": 32}, {"M": 2, "N": 24, "T": 96})
def softmax_rows(X: Array) -> Array:
    return softmax(X)


@means({"M": 9, "N": 63}, {"M": 1, "N": 1}, {"M": 4, "N": 1024}, {"M": 5, "N": 33})
def softmax_short_rows(X: Array) -> Array:
    return softmax(X)


def softmax(x: Array) -> Array:
    """Along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


NORMS = ({"M": 5, "N": 512, "T": 64}, {"M": 2, "N": 63, "T": 32}, {"M": 3, "N": 1, "T": 32})


@means(*NORMS, largest=1e15)
def rmsnorm(X: Array, W: Array, eps: float) -> Array:
    return X / np.sqrt((X**2).mean(1, keepdims=True) + eps) * W


@means(*NORMS, largest=1e15)
def layernorm(X: Array, W: Array, B: Array, eps: float) -> Array:
    return (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + eps) * W + B


@means({"M": 5, "N": 512, "T": 64}, {"M": 2, "N": 63, "T": 32}, {"M": 3, "N": 1, "T": 32})
def quantize_rows(X: Array) -> dict[str, Array]:
    scale = np.maximum(np.abs(X).max(1), 1e-12) / 448
    return {"Q": X / scale[:, None], "S": scale}


@means({"M": 5, "N": 512, "T": 64}, {"M": 2, "N": 63, "T": 32}, {"M": 3, "N": 1, "T": 32})
def swiglu(X: Array, N: int) -> Array:
    gate, value = X[:, :N], X[:, N:]
    return gate / (1 + np.exp(-gate)) * value


@means(*NORMS, largest=1e15)
def row_statistics(X: Array) -> dict[str, Array]:
    places = np.where(np.isnan(X), -np.inf, X).argmax(1)
    return {
        "Mean": X.mean(1), "Variance": X.var(1), "Least": np.fmin.reduce(X, 1), "Most": np.fmax.reduce(X, 1),
        "Place": places,
    }  # fmt: skip


@means({"B": 2, "S": 5, "H": 3, "D": 64}, {"B": 1, "S": 1, "H": 1, "D": 2})
def rotary(Q: Array, C: Array, N: Array, D: int) -> Array:
    a, b = Q[..., : D // 2], Q[..., D // 2 :]
    c, s = C[:, None], N[:, None]
    return np.concatenate([a * c - b * s, a * s + b * c], -1)


@means({"M": 600, "N": 64}, {"M": 512, "N": 32}, {"M": 256, "N": 32}, {"M": 257, "N": 32}, {"M": 1, "N": 32})
def column_sum(X: Array) -> Array:
    return X.sum(0)


def column_sum_atomic(X: Array) -> Array:
    return X.sum(0)


@means({"T": 19, "V": 5, "D": 64}, {"T": 1, "V": 1, "D": 8}, {"T": 40, "V": 3, "D": 256})
def index_add(ids: Array, X: Array, Y: Array) -> Array:
    total = Y.copy()
    np.add.at(total, ids.astype(np.int64), X)
    return total


@means({"M": 9, "N": 63}, {"M": 1, "N": 1}, {"M": 300, "N": 8}, {"M": 2, "N": 5000})
def sum_rows(X: Array) -> Array:
    return X.sum(1)


@means({"M": 3, "N": 1024}, {"M": 2, "N": 3072})
def scan_rows(X: Array) -> Array:
    return X.cumsum(1)


# ---------------------------------------------------------------- casts
@means()
def cast_rows_auto(X: Array, W: Array) -> Array:
    return X * W


# ---------------------------------------------------------------- products
@means({"K": 8}, {"K": 16}, {"K": 64})
def sgemm_small(A: Array, B: Array) -> Array:
    return A @ B


@means()
def mma_tile(A: Array, B: Array) -> Array:
    return A @ B


@means({"M": 64, "N": 256, "K": 64}, {"M": 128, "N": 128, "K": 192}, largest=1e15)
def wgmma_tile(A: Array, B: Array) -> Array:
    return A @ B.T


@means({"M": 64, "N": 256, "K": 128}, {"M": 64, "N": 128, "K": 448}, largest=1e15)
def wgmma_ring(A: Array, B: Array) -> Array:
    return A @ B


@means({"M": 128, "N": 256, "K": 64}, {"M": 256, "N": 256, "K": 384}, largest=1e15)
def hgemm_roles(A: Array, B: Array) -> Array:
    return A @ B


@means(
    {"M": 128, "N": 256, "K": 64, "C": 2}, {"M": 256, "N": 512, "K": 128, "C": 3},
    {"M": 384, "N": 256, "K": 320, "C": 2}, largest=1e15,
)  # fmt: skip
def hgemm_persistent(A: Array, B: Array) -> Array:
    return A @ B


@means({"M": 128, "N": 256, "K": 64, "C": 1}, {"M": 256, "N": 512, "K": 128, "C": 3}, largest=1e15)
def hgemm_blackwell(A: Array, B: Array) -> Array:
    return A @ B


@means({"M": 256, "N": 256, "K": 64, "C": 2}, {"M": 512, "N": 512, "K": 128, "C": 4}, largest=1e15)
def hgemm_blackwell_pair(A: Array, B: Array) -> Array:
    return A @ B


@means({"M": 128, "N": 224, "K": 128, "C": 1}, {"M": 256, "N": 448, "K": 256, "C": 3}, largest=1e30)
def gemm_mxfp8(A: Array, B: Array, FA: Array, FB: Array) -> Array:
    """Four factors along K for each of 32 rows lie side by side."""

    def spread(factors: Array) -> Array:
        k, rows, _ = factors.shape
        return factors.reshape(k, rows, 32, 4).transpose(1, 2, 0, 3).reshape(rows * 32, k * 4).repeat(32, axis=1)

    return (A * spread(FA)) @ (B * spread(FB).T)


@means({"M": 256, "N": 256, "K": 64}, {"M": 512, "N": 512, "K": 192}, {"M": 768, "N": 256, "K": 320}, largest=1e15)
def hgemm_cluster(A: Array, B: Array) -> Array:
    return A @ B


@means(
    {"M": 256, "N": 128, "K": 64, "C": 2}, {"M": 512, "N": 256, "K": 128, "C": 3},
    {"M": 256, "N": 384, "K": 320, "C": 2}, largest=1e15,
)  # fmt: skip
def hgemm_ring(A: Array, B: Array) -> Array:
    return A @ B


@means(
    {"M": 128, "N": 256, "K": 128, "C": 2}, {"M": 256, "N": 512, "K": 256, "C": 3},
    {"M": 384, "N": 256, "K": 640, "C": 2}, largest=1e3,
)  # fmt: skip
def gemm_fp8(A: Array, B: Array, a_scale: Array, b_scale: Array) -> Array:
    return A @ B * (a_scale * b_scale)


@means({"M": 256, "N": 128, "K": 64}, {"M": 256, "N": 128, "K": 128}, {"M": 256, "N": 256, "K": 320}, largest=1e3)
def gemm_bias_gelu(A: Array, B: Array, bias: Array) -> Array:
    x = A @ B + bias
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


erf = np.vectorize(math.erf, otypes=[np.float64])


@means({"M": 128, "N": 128, "K": 64}, {"M": 128, "N": 128, "K": 128}, {"M": 128, "N": 256, "K": 320}, largest=1e3)
def gemm_w8a16(A: Array, W: Array, scale: Array) -> Array:
    return A @ W * scale


@means({"M": 128, "N": 128, "K": 128}, {"M": 128, "N": 128, "K": 256}, {"M": 128, "N": 128, "K": 512}, largest=1e3)
def gemm_int8_rows(A: Array, B: Array, row_scale: Array, col_scale: Array) -> Array:
    return A @ B * row_scale[:, None] * col_scale


@means({"M": 16, "N": 16, "K": 256}, {"M": 32, "N": 16, "K": 768}, {"M": 16, "N": 32, "K": 1280}, largest=1e15)
def hgemm_shared_k(A: Array, B: Array) -> Array:
    return A @ B


@means({"M": 128, "N": 128, "K": 8}, {"M": 128, "N": 128, "K": 16}, {"M": 128, "N": 128, "K": 40}, largest=1e15)
def sgemm_step1(A: Array, B: Array) -> Array:
    return A @ B


@means({"M": 128, "N": 128, "K": 32}, {"M": 128, "N": 128, "K": 64}, {"M": 128, "N": 128, "K": 160}, largest=100)
def hgemm_step4(A: Array, B: Array, bias: Array) -> Array:
    return np.fmax(A @ B + bias, 0)  # of a NaN and 0 it is 0


@means({"M": 128, "N": 128, "K": 32}, {"M": 384, "N": 256, "K": 96}, {"M": 128, "N": 128, "K": 192}, largest=100)
def gemm_choices(A: Array, B: Array) -> Array:
    return A @ B


# ---------------------------------------------------------------- attention
@means(
    {"BH": 1, "S": 1}, {"BH": 1, "S": 63, "causal": 1}, {"BH": 2, "S": 65}, {"BH": 1, "S": 150, "causal": 1},
    {"BH": 1, "S": 200, "D": 64}, {"BH": 1, "S": 130, "D": 64, "causal": 1}, largest=1e3,
)  # fmt: skip
def attention(Q: Array, K: Array, V: Array, scale: float, causal: int) -> Array:
    scores = Q @ K.swapaxes(1, 2) * (scale * np.log(2))
    if causal:
        scores = np.where(np.tri(Q.shape[1], dtype=bool), scores, -np.inf)
    return softmax(scores) @ V


@means(
    {"BH": 1, "S": 1}, {"BH": 1, "S": 127, "causal": 1}, {"BH": 2, "S": 129}, {"BH": 1, "S": 300, "causal": 1},
    {"BH": 1, "S": 200, "D": 128}, {"BH": 1, "S": 130, "D": 128, "causal": 1}, largest=1e3,
)  # fmt: skip
def attention_hopper(Q: Array, K: Array, V: Array, scale: float, causal: int) -> Array:
    return attention(Q, K, V, scale, causal)


@means({"BH": 1, "S": 128}, {"BH": 2, "S": 256}, {"BH": 1, "S": 384}, largest=1e3)
def attention_blackwell(Q: Array, K: Array, V: Array, scale: float) -> Array:
    return attention(Q, K, V, scale, 0)


# ---------------------------------------------------------------- windows
@means({"M": 1, "N": 4}, {"M": 33, "N": 132}, {"M": 70, "N": 128}, {"M": 32, "N": 12})
def stencil(X: Array, c: float) -> Array:
    """One step of diffusion, zeros around the array."""
    p = np.pad(X, 1)
    return X + c * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * X)


@means({"B": 1, "H": 9, "W": 17, "C": 64, "F": 128}, {"B": 2, "H": 8, "W": 16, "C": 128, "F": 128}, largest=100)
def conv3x3(X: Array, Wt: Array) -> Array:
    """Sums over the nine neighbours of a pixel and its channels, zeros around the image."""
    p = np.pad(X, ((0, 0), (1, 1), (1, 1), (0, 0)))
    _, h, w, _ = X.shape
    places = [(r, s) for r in range(3) for s in range(3)]
    return sum(p[:, r : r + h, s : s + w] @ Wt[:, r * 3 + s].T for r, s in places)  # type: ignore[return-value]


# ---------------------------------------------------------------- passes
def layernorm_backward(X: Array, dY: Array, W: Array, mean: Array, rstd: Array) -> dict[str, Array]:
    x, g = (X - mean[:, None]) * rstd[:, None], dY * W
    inner = g - g.mean(axis=1, keepdims=True) - x * (g * x).mean(axis=1, keepdims=True)
    return {"dX": inner * rstd[:, None], "dW": (dY * x).sum(axis=0), "dB": dY.sum(axis=0)}


def gemm_split(A: Array, B: Array, bias: Array) -> Array:
    return A @ B + bias


def gemm_split_k(A: Array, B: Array, bias: Array) -> Array:
    return A @ B + bias


def sum_all(X: Array) -> Array:
    return X.sum(keepdims=True)


def scan(X: Array) -> Array:
    return X.cumsum()


def offsets_of_counts(counts: Array) -> Array:
    return counts.cumsum() - counts


def max_columns(X: Array) -> Array:
    return np.abs(X).max(0, keepdims=True)


def squared_error(X: Array, Y: Array) -> Array:
    return ((X - Y) ** 2).sum(keepdims=True).reshape(1)


def attention_backward(
    Q: Array, K: Array, V: Array, O: Array, dO: Array, LSE: Array, causal: int, scale: float  # noqa: E741
) -> dict[str, Array]:  # fmt: skip
    """Of whatever O and LSE are given: P is exp2(scale * Q K^T - LSE), as the forward pass left it."""
    s = scale * np.einsum("bik,bjk->bij", Q, K)
    p = np.exp2(s - LSE[:, :, None])
    if causal:
        p = np.where(np.arange(Q.shape[1])[:, None] >= np.arange(Q.shape[1])[None, :], p, 0.0)
    ds = p * (np.einsum("bik,bjk->bij", dO, V) - (O * dO).sum(axis=2)[:, :, None])
    natural = scale * math.log(2)
    return {
        "dQ": natural * np.einsum("bij,bjk->bik", ds, K), "dK": natural * np.einsum("bij,bik->bjk", ds, Q),
        "dV": np.einsum("bij,bik->bjk", p, dO),
    }  # fmt: skip


def decode_paged(Q: Array, KC: Array, VC: Array, pages: Array, lens: Array, scale: float) -> Array:
    """One query token a sequence, whose keys lie in pages; a slot of -1 is taken for page 0."""
    out = np.zeros(Q.shape)
    for b, n in enumerate(lens.astype(np.int64)):
        own = np.maximum(pages[b, : -(-n // 16)], 0).astype(np.int64)
        k, v = (cache[own].reshape(-1, *cache.shape[2:])[:n] for cache in (KC, VC))
        s = np.einsum("hgd,nhd->hgn", Q[b], k) * scale
        p = np.exp2(s - s.max(axis=2, keepdims=True))
        out[b] = np.einsum("hgn,nhd->hgd", p / p.sum(axis=2, keepdims=True), v)
    return out


def grouped_gemm(offsets: Array, A: Array, B: Array) -> Array:
    """The rows of each expert times the transpose of its matrix."""
    ends = offsets.astype(np.int64)
    return np.concatenate([A[i:j] @ b.T for (i, j), b in zip(pairwise(ends.tolist()), B, strict=True)])


def histogram(X: Array) -> Array:
    return np.bincount(X.astype(np.int64), minlength=256).astype(np.float64)


def moe_route(X: Array) -> dict[str, Array]:
    """Two experts of 64 for each token, the larger logit first, and how many tokens each has."""
    ids = np.argsort(-X, axis=1, kind="stable")[:, :2]
    a, b = np.take_along_axis(X, ids, 1).T
    second = 1 / (1 + np.exp(a - b))
    counts = np.bincount(ids.ravel(), minlength=64).astype(np.float64)
    return {"ids": ids, "weights": np.stack([1 - second, second], 1), "counts": counts}


def moe_permute(ids: Array) -> dict[str, Array]:
    order = np.argsort(ids, kind="stable")
    to = np.empty(len(ids))
    to[order] = np.arange(len(ids))
    offsets = np.searchsorted(np.sort(ids), np.arange(65)).astype(np.float64)
    return {"of": order, "to": to, "offsets": offsets}


PASSES = {
    f.__name__: f
    for f in (
        layernorm_backward, gemm_split_k, gemm_split, sum_all, max_columns, squared_error, attention_backward, scan,
        offsets_of_counts, column_sum_atomic, decode_paged, grouped_gemm, histogram, moe_route, moe_permute,
    )
}  # fmt: skip


# ---------------------------------------------------------------- places that tables name
@means({"M": 5, "V": 700}, {"M": 2, "V": 4100}, {"M": 1, "V": 1}, largest=100.0)
def cross_entropy(X: Array, labels: Array, V: int) -> dict[str, Array]:
    top = X.max(1)
    lse = top + np.log(np.exp(X - top[:, None]).sum(1))
    own = X[np.arange(len(X)), np.maximum(labels, 0).astype(np.int64)]
    return {"loss": np.where(labels >= 0, lse - own, 0.0), "lse": lse}


@means({"B": 3, "T": 100, "MAXN": 128}, {"B": 1, "T": 1, "MAXN": 64}, {"B": 7, "T": 40, "MAXN": 64})
def ragged_scale(cu: Array, scale: Array, X: Array) -> Array:
    piece = np.searchsorted(cu, np.arange(len(X)), side="right") - 1
    return X * scale[piece]


@means({"B": 3, "T": 150, "MAXQ": 256}, {"B": 1, "T": 1, "MAXQ": 1}, {"B": 4, "T": 40, "MAXQ": 128}, largest=4.0)
def attention_varlen(
    cu: Array, Q: Array, K: Array, V: Array, scale: float, causal: int
) -> dict[str, Array]:  # fmt: skip
    out, lse, group = np.zeros(Q.shape), np.zeros((Q.shape[1], Q.shape[0])), Q.shape[1] // K.shape[1]
    for first, end in pairwise(cu.astype(np.int64).tolist()):
        k, v = (np.repeat(x[first:end], group, axis=1) for x in (K, V))
        s = np.einsum("qhd,khd->hqk", Q[first:end], k) * scale
        s = np.where(np.tri(end - first, dtype=bool) | (not causal), s, -np.inf)
        top = s.max(axis=2, keepdims=True, initial=-np.inf)
        p = np.exp2(s - top)
        out[first:end] = np.einsum("hqk,khd->qhd", p / p.sum(axis=2, keepdims=True), v)
        lse[:, first:end] = (top + np.log2(p.sum(axis=2, keepdims=True)))[..., 0]
    return {"O": out, "LSE": lse}


# ---------------------------------------------------------------- counts, routes, random words
@means({"M": 5}, {"M": 1}, {"M": 70})
def top2_rows(X: Array) -> dict[str, Array]:
    places = np.argsort(-X, axis=1, kind="stable")[:, :2]
    return {"values": np.take_along_axis(X, places, 1), "places": places}


@means({"N": 5}, {"N": 1}, {"N": 3000})
def inverse_permutation(P: Array) -> Array:
    return np.argsort(P).astype(np.float64)


@means({"B": 3}, {"B": 1}, {"B": 70})
def dequantize_nf4(codes: Array, scales: Array, book: Array) -> Array:
    """The code in the high half of a byte comes first."""
    pairs = np.concatenate([codes // 16, codes % 16], axis=2).astype(np.int64)
    return book[pairs] * scales


@means({"N": 8}, {"N": 2056}, {"N": 4096})
def dropout(X: Array, seed: int, stream: int, offset: int, keep: int, scale: float) -> Array:
    """Of Philox's words, four of each block, those that are less than ``keep`` keep their elements."""
    return np.where(draw_philox(len(X), seed, stream, offset) < keep, X * scale, 0.0)


@means({"N": 4}, {"N": 1028}, {"N": 2048})
def dropout_f32(X: Array, seed: int, stream: int, offset: int, keep: int, scale: float) -> Array:
    return dropout(X, seed, stream, offset, keep, scale)
