"""For every kind of step and every instruction: the smallest kernel that it is in, and the same kernel with a fault.

A function of registers needs no entry: its kernel is made from its row, and the fault is a source that nothing wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from tests.faults.steps import drop, is_a, mutate
from tests.interpret.tensor_plans import Gemm, Sums, plan_gemm
from tests.specs.kernels import draft
from tests.tensor.scaled import Scaled
from tests.tensor.test_cells import KINDS, write_product
from tests.wgmma.plans import Tiles, parts_of
from tilegen.arithmetic import Apply, Element, Whole
from tilegen.arithmetic.values import Values
from tilegen.dtypes import DTYPES
from tilegen.index import Var, equal, less, mod
from tilegen.layouts import find_atom
from tilegen.ops.mma.atoms import ROWS as PRODUCTS
from tilegen.ops.mma.atoms import WGMMA_ROWS, element_type
from tilegen.pipeline import load
from tilegen.plan import (
    BYTE_PERMUTE,
    CELL_PRODUCTS,
    COMPUTE,
    CP_ASYNC,
    FILL,
    LDMATRIX,
    LDMATRIX_TRANS,
    MOVE,
    RED,
    SCALED_KINDS,
    SHUFFLE,
    STMATRIX,
    STMATRIX_TRANS,
    TENSOR_COPY,
    TENSOR_LOAD,
    TENSOR_PRODUCTS,
    TENSOR_STORE,
    TENSOR_STORES,
    TMA_LOAD,
    TMA_MULTICAST,
    TMA_REDUCE,
    TMA_STORE,
    Arrive,
    Await,
    Barrier,
    Block,
    Commit,
    Compute,
    Fence,
    Fetch,
    Follow,
    Instruction,
    Let,
    Map,
    Memory,
    Mma,
    Move,
    Peers,
    Pick,
    Plan,
    Ref,
    Repeat,
    Role,
    Shuffle,
    Slot,
    Stamp,
    Step,
    Sync,
    TensorCopy,
    TensorFence,
    TensorMap,
    TensorMma,
    Tma,
    Wait,
    Wgmma,
    When,
    find_box_type,
    flat_memory,
    let,
)
from tilegen.planner import plan_spec


@dataclass(frozen=True)
class Example:
    """A right plan, a wrong one of the same kind, and the code of the proof that finds what is wrong."""

    right: Plan
    wrong: Plan
    code: str


THREADS = 64
tx, lane, k = Var("tx", THREADS), Var("laneid", 32), Var("k", 2)
X = Memory("X", "float32", (8, 16), (16, 1), "global", "in")
Y = Memory("Y", "float32", (8, 16), (16, 1), "global", "out")
P = Memory("P", "int32", (64,), (1,), "global", "in", values=Values(0, 8))
H = Memory("H", "uint16", (512,), (1,), "global", "in")
G = Memory("G", "uint16", (512,), (1,), "global", "out")
S = flat_memory("S", "float32", 128, "shared", align_bytes=128)
T = flat_memory("T", "uint16", 512, "shared", offset_bytes=512)
r = flat_memory("r", "float32", 8, "register")
h = flat_memory("h", "uint16", 8, "register")
n = flat_memory("n", "int32", 2, "register")
IN, OUT = (TensorMap(f"{m.name}_map", m, (0, 1), (8, 16)) for m in (X, Y))
FULL = Barrier("full", 1, 1)
ROW, COLUMN = tx // 16, tx % 16


def plan(*steps: Step, barriers: tuple[Barrier, ...] = ()) -> Plan:
    memories = (X, Y, H, G, S, T, r, h, n, P)
    return Plan("k", "sm_90", (1, 1, 1), memories, (Role("all", THREADS, steps),), barriers=barriers)


def example(right: tuple[Step, ...], wrong: tuple[Step, ...], code: str, *barriers: Barrier) -> Example:
    return Example(plan(*right, barriers=barriers), plan(*wrong, barriers=barriers), code)


# ---------------------------------------------------------------- what the examples are made of
LOAD, STORE = Move(r[0], X[ROW, COLUMN]), Move(Y[ROW, COLUMN], r[0])
TURNED = tx // 32 * 32 + (31 - lane)  # the element of another lane
WRITE, READ = Move(S[tx], r[0]), Move(r[1], S[TURNED])
SEND = Move(Y[ROW, COLUMN], r[1])
START = Move(S[tx * 2], X[tx // 8, tx % 8 * 2], 2, via=CP_ASYNC)
FETCH = (Move(r[1], S[tx * 2]), SEND)
ARRIVE = Arrive(Slot(FULL, 0), IN.box_bytes)
ELECTED = When(equal(tx, 0), (ARRIVE, Tma(IN, (0, 0), S[0], Slot(FULL, 0))))
AWAIT = Await(Slot(FULL, 0), 0)
SENT = When(equal(tx, 0), (Tma(OUT, (0, 0), S[0]), Commit("bulk")))
WRITE_ALL = (LOAD, Move(S[tx], r[0]), Move(S[tx + 64], r[0]))
WHOLE = Apply("float32", (Whole(0),), "float32")
ROWS = T[Var("warpid", 2) * 256 + lane * 8]
MINE = tx * 8  # a lane's elements of the warp's four matrices, as ldmatrix hands them out
FILLED = (Move(h[0], H[MINE], 8), Move(T[MINE], h[0], 8), Sync("warp"))


SQUARE = Compute(
    r[0], Apply("+", (Apply("*", (Element(0, "float32"), Element(0, "float32")), "float32"), WHOLE), "float32"),
    (r[0],), (ROW + 1,),
)  # fmt: skip


def overlapping(*steps: Step) -> Plan:
    return replace(plan(*steps), overlaps=True)


def multicast() -> Example:
    """Two CTAs bring a half of an array each to both, and write the half that the other brought."""
    part, cta, rank = TensorMap("X_part", X, (0, 1), (4, 16)), Var("bx", 2), Var("cbx", 2)
    load = Tma(part, (rank * 4, 0), S[rank * 64], Slot(FULL, 0), Peers(3))
    start = When(equal(tx, 0), (Arrive(Slot(FULL, 0), 2 * part.box_bytes), load))
    other = mod(cta + 1, 2)
    fetch = (Move(r[1], S[other * 64 + tx]), Move(Y[other * 4 + ROW, COLUMN], r[1]), Sync("cluster"))

    def of(*steps: Step) -> Plan:
        return replace(plan(*steps, barriers=(FULL,)), arch="sm_90a", grid=(2, 1, 1), cluster=(2, 1, 1))

    return Example(of(start, AWAIT, *fetch), of(start, *fetch), "TG422")


def matrices(load: Instruction | None, store: Instruction | None) -> Example:
    """Four matrices a warp, through registers; the fault is a warp of which half takes part."""
    move: Step = Move(h[0], ROWS, 8, via=load) if load else Move(ROWS, h[0], 8, via=store or STMATRIX)
    after: tuple[Step, ...] = (Move(G[MINE], h[0], 8),)
    if not load:
        after = (Sync("warp"), Move(h[0], T[MINE], 8), *after)
    return example((*FILLED, move, *after), (*FILLED, When(less(lane, 16), (move,)), *after), "TG406")


def loop(index: object) -> tuple[Step, ...]:
    return (Repeat(k, 2, (Move(r[index], X[k * 4 + ROW, COLUMN]),), True),)  # type: ignore[index]


def fetch(bound: int) -> tuple[Step, ...]:
    """Rows of X whose numbers a table has, which are below ``bound``."""
    row = Var("row", bound)
    return (Fetch(row, P[tx], tx, Values(0, 8)), Move(r[0], X[row, COLUMN]), STORE)


def pick(bound: int) -> tuple[Step, ...]:
    """Rows of X whose numbers threads hold, which are below ``bound``."""
    row = Var("row", bound)
    return (Move(n[0], P[tx]), Pick(row, n[0]), Move(r[0], X[row, COLUMN]), STORE)


INSTRUCTIONS: dict[str, Example] = {
    "fetch": example(fetch(8), fetch(7), "TG410"),
    "pick": example(pick(8), pick(7), "TG410"),
    MOVE.name: example((LOAD, WRITE, Sync("warp"), READ, SEND), (LOAD, WRITE, READ, SEND), "TG403"),
    CP_ASYNC.name: example((START, Commit("cp.async"), Wait("cp.async"), *FETCH), (START, *FETCH), "TG422"),
    LDMATRIX.name: matrices(LDMATRIX, None),
    LDMATRIX_TRANS.name: matrices(LDMATRIX_TRANS, None),
    STMATRIX.name: matrices(None, STMATRIX),
    STMATRIX_TRANS.name: matrices(None, STMATRIX_TRANS),
    TMA_LOAD.name: example((ELECTED, AWAIT, *FETCH), (ELECTED, *FETCH), "TG422", FULL),
    TMA_MULTICAST.name: multicast(),
    TMA_STORE.name: example(
        (*WRITE_ALL, Sync("async"), Sync("cta"), SENT, Wait("bulk")), (*WRITE_ALL, Sync("cta"), SENT, Wait("bulk")),
        "TG424",
    ),
    COMPUTE.name: example((LOAD, SQUARE, STORE), (SQUARE, LOAD, STORE), "TG404"),
    SHUFFLE.name: example(
        (LOAD, Shuffle(r[1], r[0], 5), SEND), (LOAD, When(less(lane, 16), (Shuffle(r[1], r[0], 5),)), SEND), "TG406",
    ),
    FILL.name: example((Map(FILL, r[0], value=1.0), STORE), (Map(FILL, S[tx], value=1.0), STORE), "TG412"),
}  # fmt: skip


A = Memory("A", "int32", (64,), (1,), "global", "in")
K = Memory("K", "int32", (64,), (1,), "global", "out")
N = flat_memory("N", "int32", 32, "shared", align_bytes=16)
n = flat_memory("n", "int32", 2, "register")


def update(row: Instruction) -> Example:
    """Each element of shared memory from two warps, read by a third thread; the fault is a sync that is missing."""
    clear = When(less(tx, 32), (Move(n[1], A[tx]), Move(N[tx], n[1])))
    put = Move(N[lane], n[0], via=row)
    seen = (Move(n[0], N[31 - lane]), Move(K[tx], n[0]))
    start = (Move(n[0], A[tx]), clear, Sync("cta"), put)

    def of(*steps: Step) -> Plan:
        return replace(plan(*steps), memories=(A, K, N, n))

    return Example(of(*start, Sync("cta"), *seen), of(*start, *seen), "TG403")


INSTRUCTIONS |= {row.name: update(row) for row in RED.values()}


def reduce_box(row: Instruction) -> Example:
    """A box of shared memory put to that of an array; the fault is a fence that is missing."""
    array = Memory("B", "int32", (8, 16), (16, 1), "global", "inout")
    tile = flat_memory("N", "int32", 128, "shared", align_bytes=128)
    kind = find_box_type(row.function, "int32")
    box = TensorMap("B_map", array, (0, 1), (8, 16), type=kind)
    fill = (Move(n[0], A[tx]), Move(tile[tx], n[0]), Move(tile[tx + 64], n[0]))
    sent = When(equal(tx, 0), (Tma(box, (0, 0), tile[0], function=row.function), Commit("bulk")))

    def of(*steps: Step) -> Plan:
        return replace(plan(*steps), memories=(A, array, tile, n))

    return Example(
        of(*fill, Sync("async"), Sync("cta"), sent, Wait("bulk")), of(*fill, Sync("cta"), sent, Wait("bulk")), "TG424"
    )


INSTRUCTIONS |= {row.name: reduce_box(row) for row in TMA_REDUCE.values()}


def product(row: Instruction) -> Example:
    """Fragments from memory, each lane's elements side by side, and their product; the fault is half a warp."""
    atom = find_atom(row.name)
    arrays, steps, held = [], [], {}
    for operand in row.operands:
        dtype = element_type(atom, operand.field.upper())
        array = Memory(operand.field.upper(), dtype, (THREADS * operand.elems,), (1,), "global", "in")
        held[operand.field] = flat_memory(f"r{operand.field}", dtype, operand.elems, "register")
        arrays.append(array)
        steps += [Move(held[operand.field][n], array[tx * operand.elems + n]) for n in range(operand.elems)]
    target = replace(arrays[0], name="Z", access="out")
    mma = Mma(row, held["c"][0], held["a"][0], held["b"][0])
    count = row.operands[0].elems
    stores = [Move(target[tx * count + n], held["c"][n]) for n in range(count)]

    def of(*body: Step) -> Plan:
        memories = (*arrays, target, *held.values())
        return Plan("k", "sm_90", (1, 1, 1), memories, (Role("all", THREADS, (*steps, *body, *stores)),))

    return Example(of(mma), of(When(less(lane, 16), (mma,))), "TG406")


def warpgroup_product(row: Instruction) -> Example:
    """One wgmma of tiles in shared memory; the fault is half a warp."""
    name = row.name.removesuffix(".registers")
    tiles = Tiles(name.replace("nN", "n8"), int(name.split("k")[1].split(".")[0]), 0, a_held=name != row.name)
    parts = parts_of(tiles)
    half = (*parts.fill, *parts.meet, Fence(), When(less(lane, 16), parts.products), Commit("mma"), Wait("mma"))
    return Example(parts.plan(*parts.right), parts.plan(*half, *parts.store), "TG406")


def without_fence(row: Instruction) -> Example:
    """The same product; the fault is that no fence stands before it."""
    found = warpgroup_product(row)
    return Example(found.right, mutate(found.right, is_a(Fence), drop), "TG439")


# ---------------------------------------------------------------- tensor memory
_SUMS = Sums()
_OF_KINDS = {
    "f16": "k16.f32.bf16.bf16", "tf32": "k8.f32.tf32.tf32", "i8": "k32.s32.s8.s8", "f8f6f4": "k32.f32.e4m3.e4m3",
}  # fmt: skip


def tensor_product(row: Instruction) -> Example:
    """A product of a tile by TMA; the fault is that nobody waits for the tile."""
    if row.name.rpartition(".")[2] in SCALED_KINDS:
        return scaled_product()
    right = plan_gemm(Gemm(f"tcgen05.m128n16{_OF_KINDS[row.name.rpartition('.')[2]]}", 1, 1, 1, 1))
    waits = is_a(Await)
    return Example(right, mutate(right, lambda step: waits(step) and step.slot.barrier.name == "full", drop), "TG422")


@cache
def scaled_product() -> Example:
    """A product with scale factors, which copies bring to tensor memory; the fault is that nobody waits for any."""
    right = draft(Scaled(128, 16, 128).spec()).plan
    waits = is_a(Await)
    wrong = mutate(right, lambda step: waits(step) and step.slot.barrier.name == "full", drop, role="mma")
    return Example(right, wrong, "TG422")


def product_of_cells(row: Instruction) -> Example:
    """A product whose a was stored to tensor memory; the fault is that nobody waits for the stores."""
    a, b, c, _, atom = KINDS[_OF_CELLS[row.name.split(".")[2]]]
    right = plan_spec(load(write_product(a, b, c, 32 // DTYPES[a].bytes, atom)))  # one instruction along K
    stores = is_a(Wait)
    return Example(right, mutate(right, lambda step: stores(step) and step.queue == TENSOR_STORES, drop), "TG422")


_OF_CELLS = {"f16": "f16", "tf32": "tf32", "i8": "s8", "f8f6f4": "e4m3 by e5m2"}
TENSOR_EXAMPLES = {
    **{row.name: product_of_cells(row) for row in CELL_PRODUCTS.values()},
    TENSOR_COPY.name: scaled_product(),
    TENSOR_LOAD.name: Example(_SUMS.text(), _SUMS.text(done=()), "TG422"),
    TENSOR_STORE.name: Example(_SUMS.text(), _SUMS.text(wait_st=()), "TG422"),
    **{row.name: tensor_product(row) for row in TENSOR_PRODUCTS.values()},
}

ONE = let("row", ROW)
FUNCTION = flat_memory("src", "float32", 128, "shared")
CALL = Block("read", ((FUNCTION, S[0]),), (Move(r[1], FUNCTION[TURNED]),))
STEPS: dict[type, Example] = {
    Let: example(
        (ONE, Move(r[0], X[ONE.var, COLUMN]), STORE), (Let(Var("row", 2), ROW), Move(r[0], X[Var("row", 2), COLUMN])),
        "TG410",
    ),
    Fetch: INSTRUCTIONS["fetch"],
    Pick: INSTRUCTIONS["pick"],
    Repeat: example(
        (*loop(k), STORE), (Repeat(k, 2, (Move(r[k], X[k * 4 + ROW, COLUMN]),)), STORE), "TG407",
    ),
    When: example(
        (LOAD, When(less(ROW, 4), (STORE,))), (LOAD, When(less(lane, 4), (Sync("cta"),)), STORE), "TG406",
    ),
    Block: example((LOAD, WRITE, Sync("warp"), CALL, SEND), (LOAD, WRITE, CALL, SEND), "TG403"),
    Move: INSTRUCTIONS[MOVE.name],
    Map: INSTRUCTIONS[FILL.name],
    Compute: INSTRUCTIONS[COMPUTE.name],
    Shuffle: INSTRUCTIONS[SHUFFLE.name],
    Mma: product(PRODUCTS[find_atom("mma.m16n8k16").name]),
    Wgmma: warpgroup_product(WGMMA_ROWS["wgmma.m64nNk16.f32.bf16.bf16"]),
    Fence: without_fence(WGMMA_ROWS["wgmma.m64nNk16.f32.bf16.bf16"]),
    TensorMma: TENSOR_EXAMPLES["tcgen05.mma.f16"],
    TensorCopy: TENSOR_EXAMPLES[TENSOR_COPY.name],
    TensorFence: Example(_SUMS.text(), _SUMS.text(hear=()), "TG403"),
    Tma: INSTRUCTIONS[TMA_LOAD.name],
    Sync: INSTRUCTIONS[MOVE.name],
    Commit: example(
        (START, Commit("cp.async"), Wait("cp.async"), *FETCH), (START, Wait("cp.async"), *FETCH), "TG422",
    ),
    Wait: INSTRUCTIONS[CP_ASYNC.name],
    Arrive: example(
        (ELECTED, AWAIT, *FETCH),
        (When(equal(tx, 0), (Arrive(Slot(FULL, 0), 0), Tma(IN, (0, 0), S[0], Slot(FULL, 0)))), AWAIT, *FETCH), "TG422",
        FULL,
    ),
    Await: INSTRUCTIONS[TMA_LOAD.name],
    Stamp: Example(
        replace(plan(LOAD, Stamp(1), STORE), stamps=16), plan(LOAD, When(less(lane, 16), (Stamp(1),)), STORE), "TG406"
    ),
    Follow: Example(overlapping(Follow(), LOAD, STORE), overlapping(LOAD, Follow(), STORE), "TG440"),
}  # fmt: skip


def example_of(row: Instruction) -> Example | None:
    """The example of a row of the table; that of a function of registers is made."""
    if row.name in PRODUCTS:
        return product(row)
    if row.name in WGMMA_ROWS:
        return warpgroup_product(row)
    if row.name in TENSOR_EXAMPLES:
        return TENSOR_EXAMPLES[row.name]
    if row.name in INSTRUCTIONS or not row.compute:
        return INSTRUCTIONS.get(row.name)
    count = len(row.operands) - 1
    word = flat_memory("w", "uint8", 16, "register")
    registers, elems = (word, 4) if row.widths_bytes else (r, 1)
    source = Memory("W", registers.dtype, (THREADS * elems,), (1,), "global", "in")
    target = Memory("Z", registers.dtype, (THREADS * elems,), (1,), "global", "out")
    loads = tuple(Move(registers[n * elems], source[tx * elems], elems) for n in range(count))
    sources = tuple(Ref(registers, (n * elems,)) for n in range(count))
    value = 0x5410 if row is BYTE_PERMUTE else None
    result = registers[count * elems]
    steps = (Map(row, result, sources, elems, value), Move(target[tx * elems], result, elems))
    memories = (source, target, word, r)

    def of(*body: Step) -> Plan:
        return Plan("k", "sm_90", (1, 1, 1), memories, (Role("all", THREADS, body),))

    return Example(of(*loads, *steps), of(*loads[1:], *steps), "TG404")
