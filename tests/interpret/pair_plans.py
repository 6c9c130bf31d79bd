"""Plans of pairs of CTAs, written by hand: a product of tiles of 256 rows, of which each CTA brings and stores half."""

from __future__ import annotations

from dataclasses import dataclass

from tests.interpret.tensor_plans import AFTER, BEFORE, ROW_BYTES, ROWS, Gemm, elected, lies, tensor_memory, warp
from tilegen.index import Index, Var, add, equal, less, mod, mul
from tilegen.layouts import find_atom
from tilegen.plan import (
    TENSOR,
    TENSOR_LOAD,
    TENSOR_LOADS,
    TENSOR_PRODUCTS,
    Arrive,
    Await,
    Barrier,
    Memory,
    Move,
    Peers,
    Plan,
    Repeat,
    Role,
    Slot,
    Step,
    Sync,
    TensorMap,
    TensorMma,
    Tma,
    Wait,
    When,
    flat_memory,
)

CTAS = 2


@dataclass(frozen=True)
class Pairs(Gemm):
    """C[256 tiles, n] = A[256 tiles, K] B[n, K] by each pair of a cluster, a part of C's rows each.

    CTA r of a pair has 128 rows of a tile from 128 r on, of A and C, and n / 2 rows of B.
    """

    atom: str = "tcgen05.m256n64k16.f32.bf16.bf16"
    pairs: int = 1

    @property
    def rows(self) -> int:
        return ROWS * CTAS * self.tiles * self.pairs

    @property
    def cbx(self) -> Var:
        return Var("cbx", CTAS * self.pairs)

    @property
    def even(self) -> Index:
        """The rank of the even CTA of a pair."""
        return mul(self.cbx // CTAS, CTAS)

    @property
    def both(self) -> Peers:
        return Peers(0b11, self.even)

    @property
    def rank(self) -> Index:
        """Of a CTA in its pair: 0 or 1."""
        return mod(self.cbx, CTAS)

    @property
    def is_even(self) -> Index:
        return equal(self.rank, 0)


def plan_pairs(gemm: Pairs) -> Plan:
    """The even CTA multiplies for both, and announces what both bring; commits tell both, who store what is theirs."""
    n, trips, K, half = gemm.n, gemm.trips, gemm.depth * gemm.trips, gemm.n // CTAS
    A = Memory("A", gemm.dtype("A"), (gemm.rows, K), (K, 1), "global", "in")
    B = Memory("B", gemm.dtype("B"), (n, K), (K, 1), "global", "in")
    C = Memory("C", gemm.dtype("C"), (gemm.rows, n), (n, 1), "global", "out")
    sa = flat_memory("sa", A.dtype, gemm.stages * ROWS * gemm.depth, "shared", align_bytes=1024)
    at = gemm.stages * ROWS * ROW_BYTES
    sb = flat_memory("sb", B.dtype, gemm.stages * half * gemm.depth, "shared", offset_bytes=at, align_bytes=1024)
    columns = 1 << max(5, (gemm.accumulators * n - 1).bit_length())
    acc = tensor_memory("acc", C.dtype, gemm.accumulators * n, columns)
    width = min(16, n)
    h = flat_memory("h", C.dtype, width, "register", align_bytes=16)
    maps = [TensorMap(f"{m.name}_map", m, (0, 1), (rows, gemm.depth), 128) for m, rows in ((A, ROWS), (B, half))]
    full, free = Barrier("full", gemm.stages, 1), Barrier("free", gemm.stages, 1, "cluster")
    done, read = Barrier("done", gemm.accumulators, 1, "cluster"), Barrier("read", gemm.accumulators, CTAS, "cluster")
    t, k, p, tx = Var("t", gemm.tiles), Var("k", trips), Var("p", max(2, n // width)), Var("tx", ROWS)
    s = add(mul(t, trips), k)
    stage, use = mod(s, gemm.stages), s // gemm.stages
    slot, turn = mod(t, gemm.accumulators), t // gemm.accumulators
    rank, even, both = gemm.rank, gemm.even, gemm.both
    first = add(mul(add(mul(gemm.cbx // CTAS, gemm.tiles), t), ROWS * CTAS), mul(rank, ROWS))  # row of the CTA's half

    bring = (
        Await(Slot(free, stage), mod(add(use, 1), 2)),
        elected(
            When(gemm.is_even, (Arrive(Slot(full, stage), CTAS * sum(m.box_bytes for m in maps)),)),
            Tma(maps[0], (first, mul(k, gemm.depth)), sa[mul(stage, ROWS * gemm.depth)], Slot(full, stage), rank=even),
            Tma(maps[1], (mul(rank, half), mul(k, gemm.depth)), sb[mul(stage, half * gemm.depth)], Slot(full, stage),
                rank=even),
        ),
    )  # fmt: skip
    depth = find_atom(gemm.atom).shape[2]
    via = TENSOR_PRODUCTS[find_atom(gemm.atom).ptx_kind]
    products = tuple(
        TensorMma(
            via, gemm.atom, acc[0, mul(slot, n)],
            sa[add(mul(stage, ROWS * gemm.depth), step * depth)], sb[add(mul(stage, half * gemm.depth), step * depth)],
            lies(ROWS, A.dtype), lies(half, B.dtype), True if step else less(0, k), ctas=CTAS,
        )
        for step in range(gemm.depth // depth)
    )  # fmt: skip
    multiply = (
        Await(Slot(full, stage), mod(use, 2)), AFTER,
        elected(*products, Arrive(Slot(free, stage), landed=TENSOR, peers=both)),
    )  # fmt: skip
    sums = (
        Await(Slot(read, slot), mod(add(turn, 1), 2)), AFTER, Repeat(k, trips, multiply),
        elected(Arrive(Slot(done, slot), landed=TENSOR, peers=both)),
    )  # fmt: skip
    move = (
        Move(h[0], acc[mul(warp, 32), add(mul(slot, n), mul(p, width))], width, via=TENSOR_LOAD), Wait(TENSOR_LOADS),
        *(Move(C[add(first, tx), add(mul(p, width), e)], h[e], 4) for e in range(0, width, 4)),
    )  # fmt: skip
    leave = (
        Await(Slot(done, slot), mod(turn, 2)), AFTER, Repeat(p, n // width, move), BEFORE, Sync("role"),
        elected(Arrive(Slot(read, slot), rank=even), threads=ROWS),
    )  # fmt: skip
    end: tuple[Step, ...] = (Sync("cluster"),)
    roles = (
        Role("load", 32, (Repeat(t, gemm.tiles, (Repeat(k, trips, bring),)), *end)),
        Role("mma", 32, (When(gemm.is_even, (Repeat(t, gemm.tiles, sums),)), *end)),
        Role("idle", 64, end),  # so that the next begins at a warpgroup
        Role("store", ROWS, (Repeat(t, gemm.tiles, leave), *end)),
    )
    memories = (A, B, C, sa, sb, acc, h)
    return Plan(
        "pairs", "sm_100a", (CTAS * gemm.pairs, 1, 1), memories, roles, cluster=(CTAS * gemm.pairs, 1, 1),
        barriers=(full, free, done, read), tensor_columns=columns, cta_group=CTAS,
    )  # fmt: skip
