"""Plans of tensor memory, written by hand: a product of tiles that TMA brings, and small ones of a warpgroup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.index import Var, add, equal, less, mod, mul
from tilegen.layouts import find_atom
from tilegen.ops.mma.atoms import element_type
from tilegen.plan import (
    TENSOR,
    TENSOR_LOAD,
    TENSOR_LOADS,
    TENSOR_PRODUCTS,
    TENSOR_STORE,
    TENSOR_STORES,
    Arrive,
    Await,
    Barrier,
    MatrixDescriptor,
    Memory,
    Move,
    Plan,
    Repeat,
    Role,
    Slot,
    Step,
    Sync,
    TensorFence,
    TensorMap,
    TensorMma,
    Tma,
    Wait,
    When,
    flat_memory,
)

Array = np.ndarray[Any, Any]
ROW_BYTES, ROWS = 128, 128  # of a tile: rows of a 128-byte swizzle, lanes of tensor memory
BEFORE, AFTER = TensorFence("before"), TensorFence("after")
warp = Var("wid_in_wg", 4)


def tensor_memory(name: str, dtype: str, elems: int, columns: int, first: int = 0) -> Memory:
    """So many elements in each lane, from a column on, of so many that are allocated."""
    size = DTYPES[dtype].bytes
    return Memory(name, dtype, (ROWS, elems), (columns * 4 // size, 1), "tmem", offset_bytes=4 * first)


def lies(rows: int, dtype: str) -> MatrixDescriptor:
    """A tile of so many rows of 128 bytes along K, 128B swizzle."""
    return MatrixDescriptor(rows, DTYPES[dtype].bytes, "k", 128, 16, 1024, "tcgen05")


@dataclass(frozen=True)
class Gemm:
    """C[128 tiles, n] = A[128 tiles, K] B[n, K]: a role loads, one multiplies, a warpgroup stores."""

    atom: str = "tcgen05.m128n64k16.f32.bf16.bf16"
    tiles: int = 3
    trips: int = 3
    stages: int = 2
    accumulators: int = 2

    @property
    def n(self) -> int:
        return find_atom(self.atom).shape[1]

    def dtype(self, operand: str) -> str:
        return element_type(find_atom(self.atom), operand)

    @property
    def rows(self) -> int:
        return ROWS * self.tiles

    @property
    def depth(self) -> int:
        """Elements of a tile along K."""
        return ROW_BYTES // DTYPES[self.dtype("A")].bytes

    def draw(self, seed: int = 1) -> dict[str, Array]:
        """Small whole numbers, whose products no order of sums rounds."""
        random, found = np.random.default_rng(seed), {}
        for operand, rows in (("A", self.rows), ("B", self.n)):
            dtype = self.dtype(operand)
            values = random.integers(0 if dtype == "uint8" else -3, 4, (rows, self.depth * self.trips))
            found[operand] = values.astype(numpy_dtype(dtype))
        return found


def product_of(drawn: Mapping[str, Array]) -> Array:
    wide = np.int64 if drawn["A"].dtype.kind in "iu" else np.float64
    return np.asarray(drawn["A"].astype(wide) @ drawn["B"].astype(wide).T)


def elected(*steps: Step, threads: int = 32) -> Step:
    return When(equal(Var("tx", threads), 0), steps)


def plan_gemm(gemm: Gemm) -> Plan:
    """Stages are freed by a commit, accumulators given back by an arrival of the warpgroup that has loaded them."""
    n, trips, K = gemm.n, gemm.trips, gemm.depth * gemm.trips
    A = Memory("A", gemm.dtype("A"), (ROWS * gemm.tiles, K), (K, 1), "global", "in")
    B = Memory("B", gemm.dtype("B"), (n, K), (K, 1), "global", "in")
    C = Memory("C", gemm.dtype("C"), (ROWS * gemm.tiles, n), (n, 1), "global", "out")
    sa = flat_memory("sa", A.dtype, gemm.stages * ROWS * gemm.depth, "shared", align_bytes=1024)
    at = gemm.stages * ROWS * ROW_BYTES
    sb = flat_memory("sb", B.dtype, gemm.stages * n * gemm.depth, "shared", offset_bytes=at, align_bytes=1024)
    columns = 1 << max(5, (gemm.accumulators * n - 1).bit_length())
    acc = tensor_memory("acc", C.dtype, gemm.accumulators * n, columns)
    width = min(16, n)
    h = flat_memory("h", C.dtype, width, "register", align_bytes=16)
    maps = [TensorMap(f"{m.name}_map", m, (0, 1), (rows, gemm.depth), 128) for m, rows in ((A, ROWS), (B, n))]
    full, free = Barrier("full", gemm.stages, 1), Barrier("free", gemm.stages, 1)
    done, read = (Barrier(name, gemm.accumulators, 1) for name in ("done", "read"))
    t, k, p, tx = Var("t", gemm.tiles), Var("k", trips), Var("p", max(2, n // width)), Var("tx", ROWS)
    s = add(mul(t, trips), k)
    stage, use = mod(s, gemm.stages), s // gemm.stages
    slot, turn = mod(t, gemm.accumulators), t // gemm.accumulators

    bring = (
        Await(Slot(free, stage), mod(add(use, 1), 2)),
        elected(
            Arrive(Slot(full, stage), sum(m.box_bytes for m in maps)),
            Tma(maps[0], (mul(t, ROWS), mul(k, gemm.depth)), sa[mul(stage, ROWS * gemm.depth)], Slot(full, stage)),
            Tma(maps[1], (0, mul(k, gemm.depth)), sb[mul(stage, n * gemm.depth)], Slot(full, stage)),
        ),
    )
    depth, kind = find_atom(gemm.atom).shape[2], find_atom(gemm.atom).instruction.rpartition("::")[2]
    products = tuple(
        TensorMma(
            TENSOR_PRODUCTS[kind], gemm.atom, acc[0, mul(slot, n)],
            sa[add(mul(stage, ROWS * gemm.depth), step * depth)], sb[add(mul(stage, n * gemm.depth), step * depth)],
            lies(ROWS, A.dtype), lies(n, B.dtype), True if step else less(0, k),
        )
        for step in range(gemm.depth // depth)
    )  # fmt: skip
    multiply = (
        Await(Slot(full, stage), mod(use, 2)), AFTER, elected(*products, Arrive(Slot(free, stage), landed=TENSOR)),
    )  # fmt: skip
    sums = (
        Await(Slot(read, slot), mod(add(turn, 1), 2)), AFTER, Repeat(k, trips, multiply),
        elected(Arrive(Slot(done, slot), landed=TENSOR)),
    )  # fmt: skip
    row = add(mul(t, ROWS), tx)
    move = (
        Move(h[0], acc[mul(warp, 32), add(mul(slot, n), mul(p, width))], width, via=TENSOR_LOAD), Wait(TENSOR_LOADS),
        *(Move(C[row, add(mul(p, width), e)], h[e], 4) for e in range(0, width, 4)),
    )  # fmt: skip
    leave = (
        Await(Slot(done, slot), mod(turn, 2)), AFTER, Repeat(p, n // width, move), BEFORE, Sync("role"),
        elected(Arrive(Slot(read, slot)), threads=ROWS),
    )  # fmt: skip
    roles = (
        Role("load", 32, (Repeat(t, gemm.tiles, (Repeat(k, trips, bring),)),)),
        Role("mma", 32, (Repeat(t, gemm.tiles, sums),)),
        Role("idle", 64, ()),  # so that the next begins at a warpgroup
        Role("store", ROWS, (Repeat(t, gemm.tiles, leave),)),
    )
    memories = (A, B, C, sa, sb, acc, h)
    return Plan(
        "gemm", "sm_100a", (1, 1, 1), memories, roles, barriers=(full, free, done, read), tensor_columns=columns
    )  # fmt: skip


# ---------------------------------------------------------------- sums that begin with what a warpgroup has stored
@dataclass(frozen=True)
class Sums:
    """C[128, n] = X[128, n] + A[128, 64] B[n, 64], all by one warpgroup: the parts of its text."""

    n: int = 32
    columns: int = 64

    @property
    def memories(self) -> dict[str, Memory]:
        n = self.n
        found = (
            Memory("A", "bfloat16", (ROWS, 64), (64, 1), "global", "in"),
            Memory("B", "bfloat16", (n, 64), (64, 1), "global", "in"),
            Memory("X", "float32", (ROWS, n), (n, 1), "global", "in"),
            Memory("C", "float32", (ROWS, n), (n, 1), "global", "out"),
            flat_memory("sa", "bfloat16", ROWS * 64, "shared", align_bytes=1024),
            flat_memory("sb", "bfloat16", n * 64, "shared", offset_bytes=ROWS * ROW_BYTES, align_bytes=1024),
            tensor_memory("acc", "float32", n, self.columns),
            tensor_memory("other", "float32", 16, self.columns, first=n),
            flat_memory("spare", "bfloat16", 8, "shared", offset_bytes=(ROWS + n) * ROW_BYTES),
            flat_memory("h", "float32", n, "register", align_bytes=16),
            flat_memory("g", "float32", n, "register", align_bytes=16),
            flat_memory("w", "bfloat16", 8, "register"),
        )  # fmt: skip
        return {m.name: m for m in found}

    @property
    def barriers(self) -> dict[str, Barrier]:
        return {name: Barrier(name, 1, 1) for name in ("full", "done")}

    def draw(self) -> dict[str, Array]:
        drawn = Gemm(f"tcgen05.m128n{self.n}k16.f32.bf16.bf16", 1, 1).draw()
        return drawn | {"X": np.arange(ROWS * self.n, dtype=np.float32).reshape(ROWS, self.n)}

    @property
    def parts(self) -> dict[str, tuple[Step, ...]]:
        """Statements by their names, in the order in which they are right."""
        m, n, tx, full, done = (
            self.memories,
            self.n,
            Var("tx", ROWS),
            Slot(self.barriers["full"], 0),
            Slot(self.barriers["done"], 0),
        )
        row, window = m["acc"][mul(warp, 32), 0], range(0, n, 4)
        maps = [TensorMap(f"{x}_map", m[x], (0, 1), (rows, 64), 128) for x, rows in (("A", ROWS), ("B", n))]
        product = tuple(
            TensorMma(
                TENSOR_PRODUCTS["f16"], f"tcgen05.m128n{n}k16.f32.bf16.bf16", m["acc"][0, 0], m["sa"][16 * s],
                m["sb"][16 * s], lies(ROWS, "bfloat16"), lies(n, "bfloat16"), True,
            )
            for s in range(4)
        )  # fmt: skip
        return {
            "bring": (elected(
                Arrive(full, sum(x.box_bytes for x in maps)), Tma(maps[0], (0, 0), m["sa"][0], full),
                Tma(maps[1], (0, 0), m["sb"][0], full), threads=ROWS,
            ),),
            "take x": tuple(Move(m["h"][e], m["X"][tx, e], 4) for e in window),
            "put": (Move(row, m["h"][0], n, via=TENSOR_STORE),), "wait st": (Wait(TENSOR_STORES),),
            "before": (BEFORE,), "sync": (Sync("cta"),), "full": (Await(full, 0),), "after": (AFTER,),
            "multiply": (elected(*product, threads=ROWS),),
            "commit": (elected(Arrive(done, landed=TENSOR), threads=ROWS),),
            "done": (Await(done, 0),), "hear": (AFTER,), "get": (Move(m["h"][0], row, n, via=TENSOR_LOAD),),
            "wait ld": (Wait(TENSOR_LOADS),), "leave": tuple(Move(m["C"][tx, e], m["h"][e], 4) for e in window),
        }  # fmt: skip

    def plan(self, *steps: Step) -> Plan:
        """A plan of the right memories with these steps; none: of all parts."""
        steps = steps or tuple(s for part in self.parts.values() for s in part)
        return Plan(
            "sums", "sm_100a", (1, 1, 1), tuple(self.memories.values()), (Role("all", ROWS, steps),),
            barriers=tuple(self.barriers.values()), tensor_columns=self.columns,
        )  # fmt: skip

    def text(self, **changed: tuple[Step, ...]) -> Plan:
        """The plan with parts exchanged, by their names with _ for blanks."""
        parts = self.parts
        assert {name.replace("_", " ") for name in changed} <= set(parts), "no part has this name"
        return self.plan(*(s for name, part in parts.items() for s in changed.get(name.replace(" ", "_"), part)))
