"""Operands of tcgen05.mma that lie in shared memory in every way that a descriptor says: the sums are right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.faults.verdicts import ONE_CTA
from tests.interpret.tensor_plans import AFTER, ROWS, Array, elected, tensor_memory, warp
from tilegen.arithmetic import TYPED, Domain
from tilegen.arithmetic.modular import make_modular
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.index import Var, mul
from tilegen.interpret import interpret
from tilegen.layouts import Layout, find_atom, mma_shared_layout, parse
from tilegen.ops.mma.atoms import element_type
from tilegen.ops.mma.descriptors import describe_tile
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
    Plan,
    Repeat,
    Role,
    Slot,
    Step,
    Sync,
    TensorMma,
    Wait,
    flat_memory,
)

WIDE = 1  # the swizzle of 128-byte rows whose chunks are 32 bytes


@dataclass(frozen=True)
class Tiles:
    """C[128, n] = A[128, k] B[n, k]: threads copy the images of both operands into shared memory, one multiplies."""

    atom: str = "tcgen05.m128n64k16.f32.bf16.bf16"
    k: int = 64
    swizzle: int = 128
    along_a: str = "k"
    along_b: str = "k"

    def rows(self, operand: str) -> int:
        return ROWS if operand == "A" else find_atom(self.atom).shape[1]

    def shape(self, operand: str) -> tuple[int, int]:
        """Of the buffer in shared memory: (rows, k), or (k, rows) where it does not lie along k."""
        along = self.along_a if operand == "A" else self.along_b
        return (self.rows(operand), self.k) if along == "k" else (self.k, self.rows(operand))

    def layout(self, operand: str) -> Layout:
        if self.swizzle == WIDE:  # rows of 32 floats, panels one behind the other, 32-byte chunks trade places
            depth, rows = self.shape(operand)
            return parse(f"Swizzle(3, 2, 2) o S[({depth}, {rows // 32}, 32):(32, {32 * depth}, 1)]")
        return mma_shared_layout(element_type(find_atom(self.atom), operand), self.swizzle, self.shape(operand))

    def image(self, operand: str, values: Array) -> Array:
        """What the shared memory of an operand holds, of values (rows, k)."""
        shape = self.shape(operand)
        place = np.broadcast_to(self.layout(operand).place(tuple(np.indices(shape)), shape)["m"], shape)
        found = np.zeros(values.size, values.dtype)
        found[place] = values if shape[0] == values.shape[0] else values.T
        return found


def plan_tiles(tiles: Tiles) -> Plan:
    atom, tx, done = find_atom(tiles.atom), Var("tx", ROWS), Slot(Barrier("done", 1, 1), 0)
    n, at, steps, starts, lies = atom.shape[1], 0, list[Step](), [], []
    memories: list[Memory] = []
    for operand in "AB":
        dtype, shape, rows = element_type(atom, operand), tiles.shape(operand), tiles.rows(operand)
        elems, chunk = rows * tiles.k, 16 // DTYPES[dtype].bytes
        array = Memory(operand, dtype, (elems,), (1,), "global", "in")
        shared = flat_memory(f"s{operand}", dtype, elems, "shared", offset_bytes=at, align_bytes=1024)
        word = flat_memory(f"w{operand}", dtype, chunk, "register")
        at += -(-elems * DTYPES[dtype].bytes // 1024) * 1024
        trips = elems // (chunk * ROWS)
        assert trips > 1 and trips * chunk * ROWS == elems
        t = Var(f"t{operand}", trips)
        place = mul(t, chunk * ROWS) + tx * chunk
        steps.append(Repeat(t, trips, (Move(word[0], array[place], chunk), Move(shared[place], word[0], chunk))))
        found = describe_tile(tiles.layout(operand), shape, dtype, rows, shape[0] != rows, "tcgen05")
        lies.append(found.descriptor)
        starts.append([shared[start] for start in found.starts[0]])
        memories += [array, shared, word]
    acc, out = tensor_memory("acc", atom.c, n, 512), Memory("C", atom.c, (ROWS, n), (n, 1), "global", "out")
    h = flat_memory("h", atom.c, n, "register", align_bytes=16)
    kind = TENSOR_PRODUCTS[atom.instruction.rpartition("::")[2]]
    products = [
        TensorMma(kind, atom.name, acc[0, 0], a, b, *lies, k > 0) for k, (a, b) in enumerate(zip(*starts, strict=True))
    ]
    steps += [
        Sync("async"), Sync("cta"), AFTER, elected(*products, Arrive(done, landed=TENSOR), threads=ROWS),
        Await(done, 0), AFTER, Move(h[0], acc[mul(warp, 32), 0], n, via=TENSOR_LOAD), Wait(TENSOR_LOADS),
        *(Move(out[tx, e], h[e], 4) for e in range(0, n, 4)),
    ]  # fmt: skip
    role = Role("all", ROWS, tuple(steps))
    return Plan(
        "tiles", "sm_100a", (1, 1, 1), (*memories, acc, out, h), (role,), barriers=(done.barrier,), tensor_columns=512
    )  # fmt: skip


def run(tiles: Tiles, drawn: dict[str, Array], domain: Domain = TYPED) -> Array:
    images = {operand: tiles.image(operand, values) for operand, values in drawn.items()}
    given = {name: (lambda at, x=x: x[at]) for name, x in images.items()}
    found = interpret(plan_tiles(tiles), ONE_CTA, given, domain=domain).written["C"][1]
    return found.reshape(ROWS, -1)


LIES = {
    "bf16": Tiles(), "64 bytes": Tiles(swizzle=64), "32 bytes": Tiles(swizzle=32), "none": Tiles(swizzle=0),
    "a along m": Tiles(along_a="mn"), "b along n": Tiles(along_b="mn"),
    "both, 64 bytes": Tiles(swizzle=64, along_a="mn", along_b="mn"),
    "both, none": Tiles(swizzle=0, along_a="mn", along_b="mn"),
    "e4m3 along k": Tiles("tcgen05.m128n32k32.f32.e4m3.e4m3", 128),
    "e4m3 along m and n": Tiles("tcgen05.m128n128k32.f32.e4m3.e4m3", 64, 128, "mn", "mn"),
    "s8 along n": Tiles("tcgen05.m128n64k32.s32.s8.s8", 64, 64, "k", "mn"),
    "tf32": Tiles("tcgen05.m128n32k8.f32.tf32.tf32", 32),
    "tf32 along m and n": Tiles("tcgen05.m128n64k8.f32.tf32.tf32", 16, WIDE, "mn", "mn"),
}  # fmt: skip


@pytest.mark.parametrize("what", LIES)
def test_sums_of_operands_that_lie_in_any_way(what: str) -> None:
    tiles = LIES[what]
    random, drawn = np.random.default_rng(1), {}
    for operand in "AB":
        dtype = element_type(find_atom(tiles.atom), operand)
        drawn[operand] = random.integers(-3, 4, (tiles.rows(operand), tiles.k)).astype(numpy_dtype(dtype))
    a, b = (x.astype(np.float64) for x in drawn.values())
    assert np.array_equal(run(tiles, drawn).astype(np.float64), a @ b.T)


@pytest.mark.parametrize("what", ["bf16", "e4m3 along m and n"])
def test_sums_of_opaque_values(what: str) -> None:
    tiles = LIES[what]
    dtype, out = element_type(find_atom(tiles.atom), "A"), find_atom(tiles.atom).c
    domain, drawn = make_modular({dtype, out}), {}
    for operand in "AB":
        shape = (tiles.rows(operand), tiles.k)
        drawn[operand] = domain.draw(operand, dtype, np.arange(np.prod(shape)).reshape(shape))
    expected = domain.matmul(drawn["A"][None], drawn["B"].T[None], None, dtype, out)[0]
    assert np.array_equal(domain.decode(run(tiles, drawn, domain), out), domain.decode(expected, out))
