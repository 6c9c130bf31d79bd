"""A plan of pairs of CTAs as a spec gives it: functions, fences at each meeting, two accumulators, stores by TMA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.interpret.pair_plans import Pairs
from tests.interpret.tensor_plans import AFTER, BEFORE, ROWS, elected, lies, tensor_memory, warp
from tilegen.dtypes import DTYPES
from tilegen.index import Index, Var, add, div, less, mod, mul, xor
from tilegen.layouts import find_atom
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
    Plan,
    Ref,
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

PANEL, SWIZZLE = 32, 128  # columns that leave at a time; bytes
row = Var("tid_in_wg", ROWS)


def barriers_of(pairs: Pairs) -> tuple[Barrier, ...]:
    """full, free, done, read: the first and the last are used in the even CTA."""
    each = (("full", pairs.stages, 1), ("free", pairs.stages, 1), ("done", 2, 1), ("read", 2, 2))
    return tuple(Barrier(*one, "cluster") for one in each)


def arrays_of(pairs: Pairs) -> tuple[Memory, Memory, Memory]:
    depth, size = pairs.trips * pairs.depth, (pairs.rows, pairs.n)
    A, B = (Memory(x, pairs.dtype(x), (rows, depth), (depth, 1), "global", "in")
            for x, rows in zip("AB", size, strict=True))  # fmt: skip
    return A, B, Memory("C", pairs.dtype("C"), size, (pairs.n, 1), "global", "out")


def plan_pair(pairs: Pairs) -> Plan:
    """A warp loads, a thread of the even CTA multiplies for both, a warpgroup stores; 64 threads are idle."""
    (A, B, C), shared, at = arrays_of(pairs), [], 0
    stages = ("sa", A, ROWS * pairs.depth, pairs.stages), ("sb", B, pairs.n // 2 * pairs.depth, pairs.stages)
    for name, array, elems, count in (*stages, ("out", C, ROWS * PANEL, 2)):
        shared.append(flat_memory(name, array.dtype, elems * count, "shared", offset_bytes=at, align_bytes=1024))
        at += -(-elems * count * DTYPES[array.dtype].bytes // 1024) * 1024
    columns = max(32, 1 << (2 * pairs.n - 1).bit_length())
    acc = tensor_memory("acc", C.dtype, 2 * pairs.n, columns)
    held = flat_memory("x", C.dtype, PANEL, "register", align_bytes=16)
    meet, end = (Sync("cluster"),), (BEFORE, Sync("cluster"), AFTER)
    roles = (
        Role("load", 32, (*load_steps(pairs, shared[:2]), *meet)),
        Role("mma", 32, (*multiply_steps(pairs, shared[:2], acc), *end)),
        Role("idle", 64, meet),
        Role("store", ROWS, (*store_steps(pairs, acc, shared[2], held), *end)),
    )
    size = 2 * pairs.pairs
    return Plan(
        "pair", "sm_100a", (size, 1, 1), (A, B, C, *shared, acc, held), roles, cluster=(size, 1, 1),
        barriers=barriers_of(pairs), tensor_columns=columns, cta_group=2,
    )  # fmt: skip


def names_of(pairs: Pairs) -> tuple[Var, Var, Var]:
    """The tile, the box of K, and how many boxes came before."""
    t, k = Var("t", pairs.tiles + 1), Var("k", pairs.trips + 1)
    return t, k, let("s", add(mul(t, pairs.trips), k)).var


def first_row(pairs: Pairs, t: Index) -> Index:
    """Of a tile's rows, the first that a CTA has."""
    return add(mul(add(mul(div(pairs.cbx, 2), pairs.tiles), t), 2 * ROWS), mul(pairs.rank, ROWS))


def per_tile(pairs: Pairs, *body: Step) -> Repeat:
    return Repeat(names_of(pairs)[0], pairs.tiles, body)


def per_trip(pairs: Pairs, *body: Step) -> Repeat:
    t, k, _ = names_of(pairs)
    return Repeat(k, pairs.trips, (let("s", add(mul(t, pairs.trips), k)), *body))


def one_of(stages: Memory, count: int) -> Memory:
    """What a function knows of one stage of so many."""
    return replace(stages, shape=(int(stages.shape[0]) // count,))  # type: ignore[call-overload]


def place(formal: Memory, stages: Memory, slot: Index) -> tuple[Memory, Ref]:
    return formal, stages[mul(slot, formal.shape[0])]


def load_steps(pairs: Pairs, shared: Sequence[Memory]) -> tuple[Step, ...]:
    """Each stage, when it is free: the CTA's rows of A and half of the columns of B, reported to the even CTA."""
    (t, k, s), (full, free, *_), parts = names_of(pairs), barriers_of(pairs), []
    A, B, _ = arrays_of(pairs)
    maps = [TensorMap(f"{m.name}_map", m, (0, 1), (rows, pairs.depth), SWIZZLE)
            for m, rows in ((A, ROWS), (B, pairs.n // 2))]  # fmt: skip
    slot, firsts = mod(s, pairs.stages), (first_row(pairs, t), mul(pairs.rank, pairs.n // 2))
    announced = When(pairs.is_even, (Arrive(full[slot], 2 * sum(m.box_bytes for m in maps)),))
    for box, stages, first in zip(maps, shared, firsts, strict=True):
        formal = one_of(stages, pairs.stages)
        start = Tma(box, (first, mul(k, pairs.depth)), formal[0], full[slot], rank=pairs.even)
        body = elected(*((announced,) if box is maps[0] else ()), start)
        parts.append(Block(f"load_{stages.name}", (place(formal, stages, slot),), (body,)))
    wait = Await(free[slot], mod(add(div(s, pairs.stages), 1), 2))
    return (per_tile(pairs, per_trip(pairs, wait, *parts)),)


def multiply_steps(pairs: Pairs, shared: Sequence[Memory], acc: Memory) -> tuple[Step, ...]:
    """Each stage, when both halves of it have come; what is done is told to both CTAs."""
    (t, k, s), (full, free, done, read), j = names_of(pairs), barriers_of(pairs), Var("j", 4)
    atom, formals = find_atom(pairs.atom), [one_of(m, pairs.stages) for m in shared]
    slot, sums = mod(s, pairs.stages), replace(acc, shape=(ROWS, pairs.n))
    a, b = (m[mul(j, atom.shape[2])] for m in formals)
    product = TensorMma(
        TENSOR_PRODUCTS[atom.ptx_kind], pairs.atom, sums[0, 0], a, b, lies(ROWS, shared[0].dtype),
        lies(pairs.n // 2, shared[1].dtype), less(0, add(mul(k, 4), j)), ctas=2,
    )  # fmt: skip
    given = [place(f, m, slot) for f, m in zip(formals, shared, strict=True)]
    multiply = Block(
        "multiply", ((sums, acc[0, mul(mod(t, 2), pairs.n)]), *given), (elected(Repeat(j, 4, (product,), True)),)
    )
    tell = [elected(Arrive(x, landed=TENSOR, peers=pairs.both)) for x in (free[slot], done[mod(t, 2)])]
    trips = per_trip(pairs, Await(full[slot], mod(div(s, pairs.stages), 2)), AFTER, multiply, tell[0])
    wait = Await(read[mod(t, 2)], mod(add(div(t, 2), 1), 2))
    return (When(pairs.is_even, (per_tile(pairs, wait, AFTER, trips, tell[1]),)),)


def store_steps(pairs: Pairs, acc: Memory, out: Memory, held: Memory) -> tuple[Step, ...]:
    """The CTA's rows by panels, which TMA stores; chunks of 4 trade places as it has them."""
    (t, *_), (_, _, done, read), p = names_of(pairs), barriers_of(pairs), Var("p", max(2, pairs.n // PANEL))
    box, panel = TensorMap("C_map", arrays_of(pairs)[2], (0, 1), (ROWS, PANEL), SWIZZLE), one_of(out, 2)
    load = Move(held[0], acc[mul(warp, 32), add(mul(mod(t, 2), pairs.n), mul(p, PANEL))], PANEL, via=TENSOR_LOAD)
    fill = [Move(panel[add(mul(row, PANEL), mul(xor(c, mod(row, 8)), 4))], held[4 * c], 4) for c in range(8)]
    store = Tma(box, (first_row(pairs, t), mul(p, PANEL)), panel[0]), Commit("bulk")
    target, meet = (place(panel, out, mod(p, 2)),), (BEFORE, Sync("role"), AFTER)
    panels = (
        Block("fetch", ((held, held[0]),), (load, Wait(TENSOR_LOADS))),
        Wait("bulk", 1), *meet,
        Block("fill", (*target, (held, held[0])), tuple(fill)),
        Sync("async"), *meet,
        Block("send", target, (elected(*store, threads=ROWS),)),
    )  # fmt: skip
    told = elected(BEFORE, Arrive(read[mod(t, 2)], rank=pairs.even), threads=ROWS)
    wait = Await(done[mod(t, 2)], mod(div(t, 2), 2))
    return (per_tile(pairs, wait, AFTER, Repeat(p, pairs.n // PANEL, panels, True), told), Wait("bulk"))


ONE_PAIR = Pairs()
PAIRS = {
    "bf16": ONE_PAIR, "wide": Pairs("tcgen05.m256n256k16.f32.bf16.bf16", 2, 4, 3), "two pairs": Pairs(tiles=2, pairs=2),
    "f16": Pairs("tcgen05.m256n64k16.f32.f16.f16", 1), "tf32": Pairs("tcgen05.m256n64k8.f32.tf32.tf32", 1),
    "e4m3 by e5m2": Pairs("tcgen05.m256n64k32.f32.e4m3.e5m2", 1),
    "s8 by u8": Pairs("tcgen05.m256n64k32.s32.s8.u8", 1),
}  # fmt: skip
