"""Small plans of one warpgroup that multiplies: of tiles that lie in any way, and of a loop with TMA loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.index import Index, Var, add, equal, less, mod, mul
from tilegen.layouts import Layout, find_atom, mma_shared_layout
from tilegen.ops.mma.atoms import element_type, wgmma_row
from tilegen.ops.mma.descriptors import describe_tile
from tilegen.plan import (
    Arrive,
    Await,
    Barrier,
    Block,
    Commit,
    Fence,
    Memory,
    Move,
    Plan,
    Ref,
    Repeat,
    Role,
    Slot,
    Step,
    Sync,
    TensorMap,
    Tma,
    Wait,
    Wgmma,
    When,
    flat_memory,
)

THREADS = 128
tx, lane, warp = Var("tx", THREADS), Var("laneid", 32), Var("wid_in_wg", 4)
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tiles:
    """C[64, n] = A[64, k] B[n, k], all of it by one warpgroup from tiles that lie in shared memory.

    ``along_a`` and ``along_b``: "k" or "mn"; ``a_held``: A comes from registers. ``plus``: C is what it was and that.
    """

    atom: str = "wgmma.m64n64k16.f32.bf16.bf16"
    k: int = 64
    swizzle: int = 128
    along_a: str = "k"
    along_b: str = "k"
    a_held: bool = False

    @property
    def n(self) -> int:
        return find_atom(self.atom).shape[1]

    def shape(self, operand: str) -> tuple[int, int]:
        """Of the buffer in shared memory: (rows, k), or (k, rows) where it does not lie along k."""
        rows, along = (64, self.along_a) if operand == "A" else (self.n, self.along_b)
        return (rows, self.k) if along == "k" else (self.k, rows)

    def dtype(self, operand: str) -> str:
        return element_type(find_atom(self.atom), operand)

    def layout(self, operand: str) -> Layout:
        return mma_shared_layout(self.dtype(operand), self.swizzle, self.shape(operand))

    def draw(self, seed: int = 1) -> dict[str, Array]:
        """Small whole numbers, A (64, k) and B (n, k), whose products no order of sums rounds."""
        random, found = np.random.default_rng(seed), {}
        for operand, rows in (("A", 64), ("B", self.n)):
            low = 0 if self.dtype(operand) == "uint8" else -3
            found[operand] = random.integers(low, 4, (rows, self.k)).astype(numpy_dtype(self.dtype(operand)))
        return found

    def image(self, operand: str, values: Array) -> Array:
        """What the shared memory of an operand holds, element by element."""
        shape = self.shape(operand)
        logical = values if shape[0] == values.shape[0] else values.T
        place = np.broadcast_to(self.layout(operand).place(tuple(np.indices(shape)), shape)["m"], shape)
        found = np.zeros(int(place.max()) + 1, values.dtype)
        found[place] = logical
        return found

    def inputs(self, drawn: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays of ``plan``: images of the tiles, A's fragments where those are in registers."""
        a = self.fragments(drawn["A"]) if self.a_held else self.image("A", drawn["A"])
        return {"A": a, "B": self.image("B", drawn["B"])}

    def fragments(self, a: Array) -> Array:
        """A as each thread's elements one behind the other: (thread, step, element), PTX ISA, Register Fragments."""
        depth = find_atom(self.atom).shape[2]
        v = 4 // DTYPES[self.dtype("A")].bytes
        thread, step, e = np.indices((THREADS, self.k // depth, 4 * v))
        row = thread // 32 * 16 + thread % 32 // 4 + e // v % 2 * 8
        column = step * depth + thread % 4 * v + e % v + e // (2 * v) * 4 * v
        return np.ascontiguousarray(a[row, column])


def product_of(drawn: Mapping[str, Array]) -> Array:
    wide = np.int64 if drawn["A"].dtype.kind in "iu" else np.float64
    return np.asarray(drawn["A"].astype(wide) @ drawn["B"].astype(wide).T)


def read_result(flat: Array, n: int) -> Array:
    """C as a matrix from each thread's elements one behind the other (PTX ISA, Register Fragments of D)."""
    thread, e = np.indices((THREADS, n // 2))
    found = np.zeros((64, n), flat.dtype)
    row, column = thread // 32 * 16 + thread % 32 // 4 + e // 2 % 2 * 8, e // 4 * 8 + thread % 4 * 2 + e % 2
    found[row, column] = flat.reshape(THREADS, n // 2)
    return found


@dataclass(frozen=True)
class Parts:
    """The steps of ``plan_tiles``, for tests to leave out or to exchange."""

    fill: tuple[Step, ...]
    meet: tuple[Step, ...]
    products: tuple[Wgmma, ...]
    store: tuple[Step, ...]
    memories: tuple[Memory, ...]

    def plan(self, *steps: Step) -> Plan:
        return Plan("tiles", "sm_90a", (1, 1, 1), self.memories, (Role("all", THREADS, steps),))

    @property
    def right(self) -> tuple[Step, ...]:
        return (*self.fill, *self.meet, Fence(), *self.products, Commit("mma"), Wait("mma"), *self.store)


def parts_of(tiles: Tiles) -> Parts:
    """The images are copied into shared memory, a wgmma for each step along K, each thread stores what it holds."""
    atom = find_atom(tiles.atom)
    depth, memories, fill, at = atom.shape[2], [], [], 0
    sources: dict[str, list[Ref]] = {}
    lies: dict[str, Any] = {"A": None, "B": None}
    for operand, rows in (("A", 64), ("B", tiles.n)):
        dtype, size = tiles.dtype(operand), DTYPES[tiles.dtype(operand)].bytes
        if operand == "A" and tiles.a_held:
            count = (16 // size) * (tiles.k // depth)
            array = Memory("A", dtype, (THREADS * count,), (1,), "global", "in")
            held = flat_memory("ra", dtype, count, "register", align_bytes=16)
            chunk = 16 // size
            fill += [Move(held[i], array[tx * count + i], chunk) for i in range(0, count, chunk)]
            sources["A"] = [held[s * chunk] for s in range(tiles.k // depth)]
            memories += [array, held]
            continue
        elems = rows * tiles.k
        array = Memory(operand, dtype, (elems,), (1,), "global", "in")
        shared = flat_memory(f"s{operand}", dtype, elems, "shared", offset_bytes=at, align_bytes=1024)
        at += -(-elems * size // 1024) * 1024
        chunk = 16 // size
        word = flat_memory(f"w{operand}", dtype, chunk, "register")
        trips = -(-elems // (chunk * THREADS))
        t, place = Var(f"t{operand}", max(trips, 2)), tx * chunk
        if trips > 1:
            place = add(mul(t, THREADS * chunk), place)
        moves: tuple[Step, ...] = (Move(word[0], array[place], chunk), Move(shared[place], word[0], chunk))
        if elems % (chunk * THREADS):
            moves = (When(less(place, elems), moves),)
        fill += [Repeat(t, trips, moves)] if trips > 1 else moves
        found = describe_tile(tiles.layout(operand), tiles.shape(operand), dtype, rows, tiles.shape(operand)[0] != rows)
        lies[operand] = found.descriptor
        sources[operand] = [shared[start] for start in found.starts[0]]
        memories += [array, shared, word]
    acc = flat_memory("acc", atom.c, tiles.n // 2, "register", align_bytes=16)
    out = Memory("C", atom.c, (THREADS * (tiles.n // 2),), (1,), "global", "out")
    row = wgmma_row(atom, tiles.a_held)
    products = tuple(
        Wgmma(row, acc[0], a, b, lies["B"], lies["A"], step > 0)
        for step, (a, b) in enumerate(zip(sources["A"], sources["B"], strict=True))
    )
    width = 4 // acc.elem_bytes * 2
    store = tuple(Move(out[tx * (tiles.n // 2) + i], acc[i], width) for i in range(0, tiles.n // 2, width))
    memories += [acc, out]
    return Parts(tuple(fill), (Sync("async"), Sync("cta")), products, store, tuple(memories))


# ---------------------------------------------------------------- a loop over k-tiles, loaded by TMA
@dataclass(frozen=True)
class Loop:
    """C[64, n] = A[64, 64 trips] B[n, 64 trips] of bfloat16: tiles of 64 along K come by TMA, into ``stages``."""

    n: int = 128
    trips: int = 3

    def draw(self) -> dict[str, Array]:
        return Tiles(f"wgmma.m64n{self.n}k16.f32.bf16.bf16", 64 * self.trips).draw()


def plan_loop(loop: Loop, pending: int = 0) -> Plan:
    """One stage: load, wait, multiply, wait, meet. The result is stored as the registers lie, rows of C."""
    n, trips = loop.n, loop.trips
    A = Memory("A", "bfloat16", (64, 64 * trips), (64 * trips, 1), "global", "in")
    B = Memory("B", "bfloat16", (n, 64 * trips), (64 * trips, 1), "global", "in")
    C = Memory("C", "float32", (64, n), (n, 1), "global", "out")
    sa = flat_memory("sa", "bfloat16", 64 * 64, "shared", align_bytes=1024)
    sb = flat_memory("sb", "bfloat16", n * 64, "shared", offset_bytes=64 * 64 * 2, align_bytes=1024)
    acc = flat_memory("acc", "float32", n // 2, "register", align_bytes=16)
    full = Barrier("full", 1, 1)
    maps = [TensorMap(f"{m.name}_map", m, (0, 1), (m.shape[0], 64), 128) for m in (A, B)]  # type: ignore[arg-type]
    k, s, i = Var("k", trips + 1), Var("s", 4), Var("i", n // 8)
    row = wgmma_row(find_atom(f"wgmma.m64n{n}k16.f32.bf16.bf16"), False)
    a, b = (
        describe_tile(mma_shared_layout("bfloat16", 128, (rows, 64)), (rows, 64), "bfloat16", rows).descriptor
        for rows in (64, n)
    )
    fa, fb = flat_memory("a", "bfloat16", 64 * 64, "shared"), flat_memory("b", "bfloat16", n * 64, "shared")
    fc = flat_memory("c", "float32", n // 2, "register")
    load = When(
        equal(tx, 0),
        (
            Arrive(Slot(full, 0), sum(m.box_bytes for m in maps)),
            Tma(maps[0], (0, mul(k, 64)), sa[0], Slot(full, 0)), Tma(maps[1], (0, mul(k, 64)), sb[0], Slot(full, 0)),
        ),
    )  # fmt: skip
    adds: Index = less(0, add(mul(k, 4), s))
    multiply = Block(
        "multiply", ((fc, acc[0]), (fa, sa[0]), (fb, sb[0])),
        (Fence(), Repeat(s, 4, (Wgmma(row, fc[0], fa[mul(s, 16)], fb[mul(s, 16)], b, a, adds),), True)),
    )  # fmt: skip
    body = (load, Await(Slot(full, 0), mod(k, 2)), multiply, Commit("mma"), Wait("mma", pending), Sync("cta"))
    column = add(mul(i, 8), mul(mod(lane, 4), 2))
    store = tuple(
        Move(C[add(add(mul(warp, 16), lane // 4), 8 * half), column], acc[add(mul(i, 4), 2 * half)], 2)
        for half in (0, 1)
    )
    steps = (Repeat(k, trips, body), Repeat(i, n // 8, store, True))
    role = Role("all", THREADS, steps)
    return Plan("gemm", "sm_90a", (1, 1, 1), (A, B, C, sa, sb, acc), (role,), barriers=(full,))
