"""Small plans with tensor memory: a product by roles that TMA feeds, and registers that go there and come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilegen.dtypes import DTYPES
from tilegen.index import Index, Var, add, div, equal, less, mod, mul
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
    Block,
    MatrixDescriptor,
    Memory,
    Move,
    Plan,
    Ref,
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

WARP, WARPGROUP = 32, 128
ROWS = 128  # of a product: as many lanes as tensor memory has
SWIZZLE = 128  # bytes
tx, wid_in_wg = Var("tx", WARPGROUP), Var("wid_in_wg", 4)


def tensor_memory(name: str, dtype: str, elems: int, columns: int, first: int = 0) -> Memory:
    """A buffer of so many elements a lane from a column on, of an allocation of so many columns."""
    pitch = columns * 4 // DTYPES[dtype].bytes
    return Memory(name, dtype, (ROWS, elems), (pitch, 1), "tmem", offset_bytes=4 * first)


# ---------------------------------------------------------------- a product
@dataclass(frozen=True)
class Gemm:
    """C[128, n] = A[128, K] B[n, K] of one CTA: tiles as wide as a swizzle along K come by TMA, into ``stages``."""

    n: int = 64
    trips: int = 3
    stages: int = 2
    kind: str = "f16"
    a: str = "bfloat16"
    b: str = "bfloat16"
    c: str = "float32"
    types: str = "f32.bf16.bf16"

    @property
    def tile(self) -> int:
        """Elements of a tile along K."""
        return SWIZZLE // DTYPES[self.a].bytes

    @property
    def depth(self) -> int:
        """Elements of an instruction along K."""
        return 32 // DTYPES[self.a].bytes

    @property
    def columns(self) -> int:
        """Of the allocation: a power of two from 32 on."""
        return max(32, 1 << (self.n - 1).bit_length())


def plan_gemm(gemm: Gemm) -> Plan:
    """A warp loads, a thread of another multiplies, a warpgroup stores; 64 threads are idle."""
    n, trips, stages, tile = gemm.n, gemm.trips, gemm.stages, gemm.tile
    A = Memory("A", gemm.a, (ROWS, tile * trips), (tile * trips, 1), "global", "in")
    B = Memory("B", gemm.b, (n, tile * trips), (tile * trips, 1), "global", "in")
    C = Memory("C", gemm.c, (ROWS, n), (n, 1), "global", "out")
    shared, at = [], 0
    for name, array, rows in (("sa", A, ROWS), ("sb", B, n)):
        elems = stages * rows * tile
        shared.append(flat_memory(name, array.dtype, elems, "shared", offset_bytes=at, align_bytes=1024))
        at += -(-elems * array.elem_bytes // 1024) * 1024
    acc = tensor_memory("acc", gemm.c, n, gemm.columns)
    held = flat_memory("x", gemm.c, 32, "register", align_bytes=16)
    full, free, done = Barrier("full", stages, 1), Barrier("free", stages, 1), Barrier("done", 1, 1)
    roles = (
        Role("load", WARP, load_steps(gemm, (A, B), shared, (full, free))),
        Role("mma", WARP, multiply_steps(gemm, shared, acc, (full, free, done))),
        Role("idle", 2 * WARP, ()),
        Role("store", WARPGROUP, store_steps(gemm, acc, C, done, held)),
    )
    memories = (A, B, C, *shared, acc)
    barriers = full, free, done
    return Plan("gemm", "sm_100a", (1, 1, 1), memories, roles, barriers=barriers, tensor_columns=gemm.columns)


def load_steps(
    gemm: Gemm, arrays: Sequence[Memory], shared: Sequence[Memory], barriers: Sequence[Barrier]
) -> tuple[Step, ...]:
    """Each stage, when it is free."""
    k, (full, free) = Var("k", gemm.trips + 1), barriers
    slot, parts = mod(k, gemm.stages), []
    maps = [TensorMap(f"{m.name}_map", m, (0, 1), (int(m.shape[0]), gemm.tile), SWIZZLE) for m in arrays]  # type: ignore[arg-type]
    announced = sum(m.box_bytes for m in maps)
    for box, tile in zip(maps, shared, strict=True):
        formal = replace(tile, shape=(int(tile.shape[0]) // gemm.stages,))  # type: ignore[arg-type]
        first = (Arrive(full[slot], announced),) if box is maps[0] else ()
        start = When(equal(tx, 0), (*first, Tma(box, (0, mul(k, gemm.tile)), formal[0], full[slot])))
        parts.append(Block(f"load_{tile.name}", ((formal, tile[mul(slot, int(formal.shape[0]))]),), (start,)))  # type: ignore[call-overload]
    wait = Await(free[slot], mod(add(div(k, gemm.stages), 1), 2))
    return (Repeat(k, gemm.trips, (wait, *parts)),)


def multiply_steps(gemm: Gemm, shared: Sequence[Memory], acc: Memory, barriers: Sequence[Barrier]) -> tuple[Step, ...]:
    """Each stage, when it has come: one instruction for each step along K."""
    k, s, (full, free, done) = Var("k", gemm.trips + 1), Var("s", 4), barriers
    slot, size = mod(k, gemm.stages), DTYPES[gemm.a].bytes
    formals = [replace(m, shape=(int(m.shape[0]) // gemm.stages,)) for m in shared]  # type: ignore[arg-type]
    lies = [MatrixDescriptor(rows, size, "k", SWIZZLE, 16, 8 * SWIZZLE) for rows in (ROWS, gemm.n)]
    adds: Index = less(0, add(mul(k, 4), s))
    atom = f"tcgen05.m{ROWS}n{gemm.n}k{gemm.depth}.{gemm.types}"
    a, b = (m[mul(s, gemm.depth)] for m in formals)
    product = TensorMma(TENSOR_PRODUCTS[gemm.kind], atom, acc[0, 0], a, b, lies[0], lies[1], adds)
    multiply = Block(
        "multiply",
        ((acc, acc[0, 0]), *((f, m[mul(slot, int(f.shape[0]))]) for f, m in zip(formals, shared, strict=True))),  # type: ignore[call-overload]
        (When(equal(tx, 0), (Repeat(s, 4, (product,), True),)),),
    )
    freed = When(equal(tx, 0), (Arrive(free[slot], landed=TENSOR),))
    body = (Await(full[slot], mod(div(k, gemm.stages), 2)), TensorFence("after"), multiply, freed)
    return (Repeat(k, gemm.trips, body), When(equal(tx, 0), (Arrive(Slot(done, 0), landed=TENSOR),)))


def store_steps(gemm: Gemm, acc: Memory, C: Memory, done: Barrier, held: Memory) -> tuple[Step, ...]:
    """Thread r has row r: 32 columns at a time, or as many as there are."""
    width = min(32, gemm.n)
    p, x, row = Var("p", max(2, gemm.n // width)), replace(held, shape=(width,)), Var("tid_in_wg", WARPGROUP)
    part: tuple[Ref, Ref] = acc[mul(wid_in_wg, 32), mul(p, width)], C[row, mul(p, width)]  # type: ignore[assignment]
    source, target = part
    vector = 16 // held.elem_bytes
    moves = tuple(Move(target.memory[row, add(mul(p, width), e)], x[e], vector) for e in range(0, width, vector))
    body = (Move(x[0], source, width, via=TENSOR_LOAD), Wait(TENSOR_LOADS), *moves)
    store = Block("store", (), body, (x,))
    return (Await(Slot(done, 0), 0), TensorFence("after"), Repeat(p, gemm.n // width, (store,), True))


# ---------------------------------------------------------------- registers to tensor memory and back
def plan_round_trip(dtype: str = "float32", elems: int = 64, first: int = 0) -> Plan:
    """Y = X, [128, elems]: thread r moves row r to lane r of tensor memory, and the lanes' first row comes back."""
    X, Y = (Memory(n, dtype, (ROWS, elems), (elems, 1), "global", use) for n, use in (("X", "in"), ("Y", "out")))
    columns = max(32, 1 << (first + elems * X.elem_bytes // 4 - 1).bit_length())
    t = tensor_memory("t", dtype, elems, columns, first)
    x, y = (flat_memory(name, dtype, elems, "register", align_bytes=16) for name in "xy")
    row, vector, lane = Var("tid_in_wg", WARPGROUP), 16 // X.elem_bytes, mul(wid_in_wg, 32)
    half = elems // 2
    steps: tuple[Step, ...] = (
        *(Move(x[e], X[tx, e], vector) for e in range(0, elems, vector)),
        *(Move(t[lane, e], x[e], half, via=TENSOR_STORE) for e in (0, half)),
        Wait(TENSOR_STORES),
        TensorFence("before"),
        Sync("cta"),
        TensorFence("after"),
        *(Move(y[e], t[lane, e], half, via=TENSOR_LOAD) for e in (0, half)),
        Wait(TENSOR_LOADS),
        *(Move(Y[tx, e], y[e], vector) for e in range(0, elems, vector)),
    )
    assert row.bound == ROWS
    role = Role("all", WARPGROUP, steps)
    return Plan("round_trip", "sm_100a", (1, 1, 1), (X, Y, t, x, y), (role,), tensor_columns=columns)
