"""A plan of pairs of CTAs, by hand: each has half of a product's rows, and brings half of its columns of B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.interpret.tensor_plans import AFTER, BEFORE, lies, tensor_memory
from tests.tensor.plans import ROWS, SWIZZLE, WARP, WARPGROUP
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.index import Index, Var, add, div, equal, less, mod, mul, xor
from tilegen.plan import (
    TENSOR,
    TENSOR_LOAD,
    TENSOR_LOADS,
    TENSOR_PRODUCTS,
    Arrive,
    Await,
    Barrier,
    Block,
    Commit,
    Memory,
    Move,
    Peers,
    Plan,
    Repeat,
    Role,
    Step,
    Sync,
    TensorMap,
    TensorMma,
    Tma,
    Wait,
    When,
    flat_memory,
    let,
)

PANEL = 32  # columns that leave at a time
tx, row, warp = Var("tx", WARPGROUP), Var("tid_in_wg", WARPGROUP), Var("wid_in_wg", 4)


@dataclass(frozen=True)
class PairGemm:
    """C[256 pairs, n tiles] = A B: the pair i of a cluster has rows 256 i on, and goes from tile to tile along N.

    A tile is 256 x n, and two of them are in tensor memory at a time. Boxes as wide as a swizzle come along K.
    """

    n: int = 64
    tiles: int = 3
    trips: int = 3
    stages: int = 2
    pairs: int = 1
    kind: str = "f16"
    a: str = "bfloat16"
    b: str = "bfloat16"
    c: str = "float32"
    types: str = "f32.bf16.bf16"

    @property
    def tile(self) -> int:
        """Elements of a box along K."""
        return SWIZZLE // DTYPES[self.a].bytes

    @property
    def depth(self) -> int:
        """Elements of an instruction along K."""
        return 32 // DTYPES[self.a].bytes

    @property
    def columns(self) -> int:
        """Of the allocation: a power of two from 32 on."""
        return max(32, 1 << (2 * self.n - 1).bit_length())

    @property
    def cbx(self) -> Var:
        """The CTA in its cluster."""
        return Var("cbx", 2 * self.pairs)

    @property
    def even(self) -> Index:
        """The rank of the even CTA of one's own pair."""
        return mul(div(self.cbx, 2), 2)

    @property
    def is_even(self) -> Index:
        return equal(mod(self.cbx, 2), 0)

    @property
    def arrays(self) -> tuple[Memory, Memory, Memory]:
        depth, rows, columns = self.trips * self.tile, 2 * ROWS * self.pairs, self.n * self.tiles
        return (
            Memory("A", self.a, (rows, depth), (depth, 1), "global", "in"),
            Memory("B", self.b, (columns, depth), (depth, 1), "global", "in"),
            Memory("C", self.c, (rows, columns), (columns, 1), "global", "out"),
        )

    @property
    def barriers(self) -> tuple[Barrier, Barrier, Barrier, Barrier]:
        """full, free, done, read: the first and the last are used in the even CTA."""
        each = (("full", self.stages, 1), ("free", self.stages, 1), ("done", 2, 1), ("read", 2, 2))
        full, free, done, read = (Barrier(*one, "cluster") for one in each)
        return full, free, done, read


def plan_pair(gemm: PairGemm) -> Plan:
    """A warp loads, a thread of the even CTA multiplies for both, a warpgroup stores; 64 threads are idle."""
    shared, at = [], 0
    each = ("sa", gemm.a, ROWS * gemm.tile), ("sb", gemm.b, gemm.n // 2 * gemm.tile)
    for name, dtype, elems, stages in (*((*one, gemm.stages) for one in each), ("out", gemm.c, ROWS * PANEL, 2)):
        shared.append(flat_memory(name, dtype, elems * stages, "shared", offset_bytes=at, align_bytes=1024))
        at += -(-elems * stages * DTYPES[dtype].bytes // 1024) * 1024
    acc, held = tensor_memory("acc", gemm.c, 2 * gemm.n, gemm.columns), flat_memory("x", gemm.c, PANEL, "register")
    meet, end = (Sync("cluster"),), (BEFORE, Sync("cluster"), AFTER)
    roles = (
        Role("load", WARP, (*load_steps(gemm, shared[:2]), *meet)),
        Role("mma", WARP, (*multiply_steps(gemm, shared[:2], acc), *end)),
        Role("idle", 2 * WARP, meet),
        Role("store", WARPGROUP, (*store_steps(gemm, acc, shared[2], replace(held, align_bytes=16)), *end)),
    )
    size = 2 * gemm.pairs
    return Plan(
        "pair", "sm_100a", (size, 1, 1), (*gemm.arrays, *shared, acc, held), roles, cluster=(size, 1, 1),
        barriers=gemm.barriers, tensor_columns=gemm.columns, cta_group=2,
    )  # fmt: skip


def per_tile(gemm: PairGemm, *body: Step) -> Repeat:
    return Repeat(Var("t", gemm.tiles + 1), gemm.tiles, body)


def per_trip(gemm: PairGemm, *body: Step) -> Repeat:
    count = let("s", add(mul(Var("t", gemm.tiles + 1), gemm.trips), Var("k", gemm.trips + 1)))
    return Repeat(Var("k", gemm.trips + 1), gemm.trips, (count, *body))


def names(gemm: PairGemm) -> tuple[Var, Var, Var]:
    """The tile, the box of K, and how many boxes came before."""
    t, k = Var("t", gemm.tiles + 1), Var("k", gemm.trips + 1)
    return t, k, let("s", add(mul(t, gemm.trips), k)).var


def load_steps(gemm: PairGemm, shared: Sequence[Memory]) -> tuple[Step, ...]:
    """Each stage, when it is free: the CTA's rows of A and half of the columns of B, reported to the even CTA."""
    (t, k, s), (full, free, _, _), parts = names(gemm), gemm.barriers, []
    A, B, _ = gemm.arrays
    maps = [TensorMap(f"{m.name}_map", m, (0, 1), (rows, gemm.tile), SWIZZLE)
            for m, rows in ((A, ROWS), (B, gemm.n // 2))]  # fmt: skip
    slot, half = mod(s, gemm.stages), mod(gemm.cbx, 2)
    firsts = mul(gemm.cbx, ROWS), add(mul(t, gemm.n), mul(half, gemm.n // 2))
    announced = When(gemm.is_even, (Arrive(full[slot], 2 * sum(m.box_bytes for m in maps)),))
    for box, stages, first in zip(maps, shared, firsts, strict=True):
        formal = one_of(stages, gemm.stages)
        start = Tma(box, (first, mul(k, gemm.tile)), formal[0], full[slot], rank=gemm.even)
        body = When(equal(tx, 0), (*((announced,) if box is maps[0] else ()), start))
        parts.append(Block(f"load_{stages.name}", ((formal, place(formal, stages, slot)),), (body,)))
    wait = Await(free[slot], mod(add(div(s, gemm.stages), 1), 2))
    return (per_tile(gemm, per_trip(gemm, wait, *parts)),)


def one_of(stages: Memory, count: int) -> Memory:
    """What a function knows of one stage of so many."""
    return replace(stages, shape=(int(stages.shape[0]) // count,))  # type: ignore[call-overload]


def place(formal: Memory, stages: Memory, slot: Index) -> Any:
    return stages[mul(slot, formal.shape[0])]


def multiply_steps(gemm: PairGemm, shared: Sequence[Memory], acc: Memory) -> tuple[Step, ...]:
    """Each stage, when both halves of it have come; what is done is told to both CTAs."""
    (t, k, s), (full, free, done, read), j = names(gemm), gemm.barriers, Var("j", 4)
    formals, both = [one_of(m, gemm.stages) for m in shared], Peers(3, gemm.even)
    slot, sums = mod(s, gemm.stages), replace(acc, shape=(ROWS, gemm.n))
    a, b = (m[mul(j, gemm.depth)] for m in formals)
    atom = f"tcgen05.m256n{gemm.n}k{gemm.depth}.{gemm.types}"
    product = TensorMma(
        TENSOR_PRODUCTS[gemm.kind], atom, sums[0, 0], a, b, lies(ROWS, gemm.a), lies(gemm.n // 2, gemm.b),
        less(0, add(mul(k, 4), j)), ctas=2,
    )  # fmt: skip
    given = [(f, place(f, m, slot)) for f, m in zip(formals, shared, strict=True)]
    multiply = Block(
        "multiply",
        ((sums, acc[0, mul(mod(t, 2), gemm.n)]), *given),
        (When(equal(tx, 0), (Repeat(j, 4, (product,), True),)),),
    )
    tell = [When(equal(tx, 0), (Arrive(x, landed=TENSOR, peers=both),)) for x in (free[slot], done[mod(t, 2)])]
    trips = per_trip(gemm, Await(full[slot], mod(div(s, gemm.stages), 2)), AFTER, multiply, tell[0])
    wait = Await(read[mod(t, 2)], mod(add(div(t, 2), 1), 2))
    return (When(gemm.is_even, (per_tile(gemm, wait, AFTER, trips, tell[1]),)),)


def store_steps(gemm: PairGemm, acc: Memory, out: Memory, held: Memory) -> tuple[Step, ...]:
    """The CTA's rows by panels, which TMA stores; chunks of 4 trade places as it has them."""
    (t, _, _), (_, _, done, read), p = names(gemm), gemm.barriers, Var("p", max(2, gemm.n // PANEL))
    box, panel = TensorMap("C_map", gemm.arrays[2], (0, 1), (ROWS, PANEL), SWIZZLE), one_of(out, 2)
    load = Move(held[0], acc[mul(warp, 32), add(mul(mod(t, 2), gemm.n), mul(p, PANEL))], PANEL, via=TENSOR_LOAD)
    fill = [Move(panel[add(mul(row, PANEL), mul(xor(c, mod(row, 8)), 4))], held[4 * c], 4) for c in range(8)]
    to = mul(gemm.cbx, ROWS), add(mul(t, gemm.n), mul(p, PANEL))
    target = ((panel, place(panel, out, mod(p, 2))),)
    meet = (BEFORE, Sync("role"), AFTER)
    panels = (
        Block("fetch", ((held, held[0]),), (load, Wait(TENSOR_LOADS))),
        Wait("bulk", 1), *meet,
        Block("fill", (*target, (held, held[0])), tuple(fill)),
        Sync("async"), *meet,
        Block("send", target, (When(equal(tx, 0), (Tma(box, to, panel[0]), Commit("bulk"))),)),
    )  # fmt: skip
    told = When(equal(tx, 0), (BEFORE, Arrive(read[mod(t, 2)], rank=gemm.even)))
    wait = Await(done[mod(t, 2)], mod(div(t, 2), 2))
    return (per_tile(gemm, wait, AFTER, Repeat(p, gemm.n // PANEL, panels, True), told), Wait("bulk"))


def draw(gemm: PairGemm) -> tuple[dict[str, Any], Any]:
    """A and B of small whole numbers that no order of sums rounds, and their product."""
    random = np.random.default_rng(1)
    drawn = {m.name: random.integers(-3, 4, m.shape).astype(numpy_dtype(m.dtype)) for m in gemm.arrays[:2]}
    return drawn, drawn["A"].astype(np.float64) @ drawn["B"].astype(np.float64).T


PAIRS = {
    "bf16": PairGemm(), "wide": PairGemm(n=256, tiles=2, stages=3, trips=4), "two pairs": PairGemm(pairs=2, tiles=2),
    "f16": PairGemm(a="float16", b="float16", types="f32.f16.f16", tiles=1),
    "tf32": PairGemm(kind="tf32", a="float32", b="float32", types="f32.tf32.tf32", tiles=1),
    "e4m3 by e5m2": PairGemm(kind="f8f6f4", a="float8_e4m3fn", b="float8_e5m2", types="f32.e4m3.e5m2", tiles=1),
    "s8 by u8": PairGemm(kind="i8", a="int8", b="uint8", c="int32", types="s32.s8.u8", tiles=1),
}  # fmt: skip
