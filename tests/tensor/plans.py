"""Small plans with tensor memory: a product by roles that TMA feeds, and registers that go there and come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.interpret.tensor_plans import tensor_memory
from tilegen.dtypes import DTYPES
from tilegen.index import Index, Var, add, div, equal, less, mod, mul, xor
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
    Commit,
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

WARP, WARPGROUP = 32, 128
ROWS = 128  # of a product: as many lanes as tensor memory has
SWIZZLE = 128  # bytes
tx, wid_in_wg = Var("tx", WARPGROUP), Var("wid_in_wg", 4)


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
    boxed: bool = False  # C leaves by TMA

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
    if gemm.boxed:
        shared.append(flat_memory("out", gemm.c, ROWS * 32, "shared", offset_bytes=at, align_bytes=1024))
    acc = tensor_memory("acc", gemm.c, n, gemm.columns)
    held = flat_memory("x", gemm.c, 32, "register", align_bytes=16)
    full, free, done = Barrier("full", stages, 1), Barrier("free", stages, 1), Barrier("done", 1, 1)
    roles = (
        Role("load", WARP, load_steps(gemm, (A, B), shared[:2], (full, free))),
        Role("mma", WARP, multiply_steps(gemm, shared[:2], acc, (full, free, done))),
        Role("idle", 2 * WARP, ()),
        Role("store", WARPGROUP, (send_steps if gemm.boxed else store_steps)(gemm, acc, (C, *shared[2:], held), done)),
    )
    memories = (A, B, C, *shared, acc, held) if gemm.boxed else (A, B, C, *shared, acc)
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
    lies = [MatrixDescriptor(rows, size, "k", SWIZZLE, 16, 8 * SWIZZLE, "tcgen05") for rows in (ROWS, gemm.n)]
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


def store_steps(gemm: Gemm, acc: Memory, others: Sequence[Memory], done: Barrier) -> tuple[Step, ...]:
    """Thread r has row r: 32 columns at a time, or as many as there are."""
    (C, held), width = others, min(32, gemm.n)
    p, x, row = Var("p", max(2, gemm.n // width)), replace(held, shape=(width,)), Var("tid_in_wg", WARPGROUP)
    vector = 16 // held.elem_bytes
    moves = tuple(Move(C[row, add(mul(p, width), e)], x[e], vector) for e in range(0, width, vector))
    load = Move(x[0], acc[mul(wid_in_wg, 32), mul(p, width)], width, via=TENSOR_LOAD)
    store = Block("store", (), (load, Wait(TENSOR_LOADS), *moves), (x,))
    return (Await(Slot(done, 0), 0), TensorFence("after"), Repeat(p, gemm.n // width, (store,), True))


def send_steps(gemm: Gemm, acc: Memory, others: Sequence[Memory], done: Barrier) -> tuple[Step, ...]:
    """Through a panel of 32 columns in shared memory, which TMA stores; chunks of 4 trade places as it has them."""
    (C, out, held), row = others, Var("tid_in_wg", WARPGROUP)
    p = Var("p", max(2, gemm.n // 32))
    box = TensorMap("C_map", C, (0, 1), (ROWS, 32), SWIZZLE)
    load = Move(held[0], acc[mul(wid_in_wg, 32), mul(p, 32)], 32, via=TENSOR_LOAD)
    fill = tuple(Move(out[add(mul(row, 32), mul(xor(c, mod(row, 8)), 4))], held[4 * c], 4) for c in range(8))
    send = When(equal(tx, 0), (Tma(box, (0, mul(p, 32)), out[0]), Commit("bulk")))
    body = (
        Block("fetch", ((held, held[0]),), (load, Wait(TENSOR_LOADS))),
        Wait("bulk"), Sync("role"), *fill, Sync("async"), Sync("role"), send,
    )  # fmt: skip
    last = (Wait("bulk"),)
    return (Await(Slot(done, 0), 0), TensorFence("after"), Repeat(p, gemm.n // 32, body, True), *last)


def plan_alone(trips: int) -> Plan:
    """The product of a Gemm by a single role of 128 threads: a stage is loaded, then multiplied, then the next."""
    gemm = Gemm(trips=trips, stages=1)
    plan = plan_gemm(gemm)
    load, mma, _, store = plan.roles
    wait, fence, multiply, freed = mma.steps[0].body  # type: ignore[union-attr]
    k = Var("k", trips + 1)
    meet = (TensorFence("before"), Sync("cta"), TensorFence("after"))
    body = (*load.steps[0].body[1:], wait, fence, multiply, freed, Await(freed.body[0].slot, mod(k, 2)), *meet)  # type: ignore[union-attr]
    steps = (Repeat(k, trips, body), *store.steps[2:])
    return replace(plan, name="alone", roles=(Role("all", WARPGROUP, steps),), barriers=plan.barriers[:2])


# ---------------------------------------------------------------- registers to tensor memory and back
def plan_round_trip(dtype: str = "float32", elems: int = 64, first: int = 0, parts: int = 2) -> Plan:
    """Y = X, [128, elems]: row r goes to lane r of tensor memory, from a column on, and comes back; in parts."""
    X, Y = (Memory(n, dtype, (ROWS, elems), (elems, 1), "global", use) for n, use in (("X", "in"), ("Y", "out")))
    columns = max(32, 1 << (first + elems * X.elem_bytes // 4 - 1).bit_length())
    t = tensor_memory("t", dtype, elems, columns, first)
    x, y = (flat_memory(name, dtype, elems, "register", align_bytes=16) for name in "xy")
    vector, lane, part = min(16 // X.elem_bytes, elems), mul(wid_in_wg, 32), elems // parts
    steps: tuple[Step, ...] = (
        *(Move(x[e], X[tx, e], vector) for e in range(0, elems, vector)),
        *(Move(t[lane, e], x[e], part, via=TENSOR_STORE) for e in range(0, elems, part)),
        Wait(TENSOR_STORES),
        TensorFence("before"),
        Sync("cta"),
        TensorFence("after"),
        *(Move(y[e], t[lane, e], part, via=TENSOR_LOAD) for e in range(0, elems, part)),
        Wait(TENSOR_LOADS),
        *(Move(Y[tx, e], y[e], vector) for e in range(0, elems, vector)),
    )
    role = Role("all", WARPGROUP, steps)
    return Plan("round_trip", "sm_100a", (1, 1, 1), (X, Y, t, x, y), (role,), tensor_columns=columns)


GEMMS = {
    "bf16": Gemm(), "f16": Gemm(a="float16", b="float16", types="f32.f16.f16"), "wide": Gemm(n=256, stages=3, trips=5),
    "tf32": Gemm(kind="tf32", a="float32", b="float32", types="f32.tf32.tf32"),
    "e4m3 by e5m2": Gemm(kind="f8f6f4", a="float8_e4m3fn", b="float8_e5m2", types="f32.e4m3.e5m2"),
    "s8 by u8": Gemm(kind="i8", a="int8", b="uint8", c="int32", types="s32.s8.u8"), "by TMA": Gemm(boxed=True),
    "of 8 columns": Gemm(n=8),
}  # fmt: skip
