"""copy between registers and memory: the widest legal vector, registers in order, every thread at its own elements."""

from __future__ import annotations

import random
import re
from math import prod
from typing import Any

import numpy as np
import pytest

from tests.layouts.recorded import load_cases, select
from tests.oracles import brute
from tests.oracles.draw import draw_layout
from tests.oracles.kernels import LOAD, STORE, build, choice, elem_bytes, register_round_trip, whole, widths
from tilegen.cost.accesses import find_accesses
from tilegen.index import evaluate
from tilegen.plan import Block, Move, flatten
from tilegen.scopes import thread_variables
from tilegen.spec.outline import launch_of

GENERATED = 70
ROWS = {"warp": (32, "laneid"), "warpgroup": (128, "tid_in_wg"), "cta": (64, "tx"), "thread": (4, "")}


def check(
    scope: str, dtype: str, shape: list[int], registers: str, shared: str, shared_shape: list[int],
    box: list[list[int]], oracle: int | None = None, threads: int | None = None,
) -> tuple[Any, list[dict[str, Any]]]:  # fmt: skip
    """Build the round trip; both directions have the brute force's width and touch the layouts' own elements."""
    text = register_round_trip(scope, dtype, shape, registers, shared, shared_shape, box, threads, "reg")
    built, ops = build(text)
    size = elem_bytes(dtype)
    thread, register = brute.owners(registers, shape)
    table = brute.by_register(thread, register, brute.offsets(shared, shared_shape, box))
    widest = brute.widest_in_registers(table, size, brute.chunk(shared))
    assert oracle is None or oracle == widest, "the brute force is wrong"
    for number, kind in ((LOAD, "ld"), (STORE, "st")):
        op = ops[number]
        assert op["variant"] == "reg"
        assert choice(op, "vector_width") == {"elems": widest, "bytes": widest * size}, (kind, text)
        assert widths(op, kind) == {widest * size}
        assert choice(op, "registers_per_thread") == table.shape[1]
        assert choice(op, "outer") == table.shape[1] // widest
        assert_registers_in_order(built, number, widest, table.shape[1])
        assert_addresses(built, number, table[:, ::widest] * size)
    return built, ops


def blocks(built: Any, number: int) -> list[Block]:
    return [s for s in flatten(built.plan.roles[0].steps) if isinstance(s, Block) and s.op == number]


def assert_registers_in_order(built: Any, number: int, width: int, registers: int) -> None:
    """Access f moves registers f * width and the width - 1 that follow."""
    (block,) = blocks(built, number)
    (move,) = [s for s in flatten(block.body) if isinstance(s, Move)]
    (side,) = [r for r in (move.dst, move.src) if r.memory.space == "register"]
    (base,) = [actual for formal, actual in block.args if formal.name == side.memory.name]
    steps = np.arange(registers // width)
    names = {v.name for v in getattr(side.offset, "args", ()) if hasattr(v, "bound")} | {"f"}
    got = np.broadcast_to(evaluate(side.offset, dict.fromkeys(names, steps)), steps.shape)
    assert base.offset == 0 and move.elems == width
    assert got.tolist() == (steps * width).tolist()


def assert_addresses(built: Any, number: int, wanted: Any) -> None:
    """Thread t's access f starts at byte ``wanted[t, f]``."""
    (role,) = built.plan.roles
    accesses = find_accesses(role.steps, role.threads)
    found = [a for a in accesses if a.op == number and a.memory.space == "shared"]
    assert len(found) == 1
    threads = launch_of(built.spec).threads
    tx = np.arange(threads)[:, None]
    env = {name: evaluate(x, {"tx": tx}) for name, x in thread_variables(threads).items()}
    env |= {var.name: np.arange(wanted.shape[1])[None, :] for var, _ in found[0].loops}
    got = np.broadcast_to(evaluate(found[0].byte, env), (threads, wanted.shape[1]))
    active = np.ones(threads, bool)
    for c in found[0].conditions:
        active &= np.broadcast_to(np.asarray(evaluate(c, env), bool), (threads, 1))[:, 0]
    assert np.array_equal(got[active], wanted[np.flatnonzero(active) % len(wanted)])


def repeated(layout: str, shape: list[int]) -> str:
    """TIRx repeats a swizzle of n elements over a larger buffer, which here is the swizzle without its n elements."""
    atom = re.fullmatch(r"Compose\((Swizzle\([\d, ]+\)), S\[(\d+):1\]\)", layout)
    return atom[1] if atom and int(atom[2]) < prod(shape) else layout


@pytest.mark.sweep(9)
@pytest.mark.parametrize("case", select("tirx_ops.json", "copy_reg"))
def test_recorded_copies(case):
    shape = case["shape"]
    shared_shape = case.get("sshape", shape)
    box = case.get("region_s", whole(shared_shape))
    shared = repeated(case["s_layout"], shared_shape)
    _, ops = check(case["scope"], case["dtype"], shape, case["r_layout"], shared, shared_shape, box, case["oracle_vec"])
    theirs = case.get("expect", {}).get("vec")  # where it differs from the oracle, the file calls it a defect of TIRx
    assert theirs in (None, case["oracle_vec"]) or "tirx_defect" in case
    if "expect" in case and theirs == case["oracle_vec"]:
        assert choice(ops[LOAD], "outer") == case["expect"]["outer"]
        assert choice(ops[LOAD], "registers_per_thread") == case["expect"]["regs_per_thread"]


def test_the_tirx_defects_are_known():
    """Where TIRx's vector is wider than the oracle's, it is one of the recorded defects."""
    cases = [c for c in load_cases("tirx_ops.json") if c["kind"] == "copy_reg"]
    wider = [c["id"] for c in cases if c.get("expect", {}).get("vec", 0) > c["oracle_vec"]]
    assert wider == [c["id"] for c in cases if "tirx_defect" in c]


@pytest.mark.parametrize(("dtype", "k", "vec", "outer"), [
    ("float32", 8, 4, 2), ("float32", 16, 4, 4), ("float16", 8, 8, 1), ("float16", 16, 8, 2),
])  # fmt: skip
def test_the_seed_s_table(dtype, k, vec, outer):
    shape = [32, k]
    _, ops = check("warp", dtype, shape, f"S[(32,{k}):(1@laneid,1)]", f"S[(32,{k}):({k},1)]", shape, whole(shape))
    for op in ops[LOAD], ops[STORE]:
        assert choice(op, "vector_width") == {"elems": vec, "bytes": 16}
        assert choice(op, "registers_per_thread") == k and choice(op, "outer") == outer


def generated() -> list[Any]:
    """Ownerships of the kinds above over padded, turned, swizzled and sliced memories, in every element size."""
    pick = random.Random(20240502)
    cases = []
    while len(cases) < GENERATED:
        scope = pick.choice(["warp", "warp", "warp", "warpgroup", "cta", "thread"])
        dtype = pick.choice(["uint8", "int16", "float16", "bfloat16", "float32", "int64", "float64", "complex128"])
        rows, axis = ROWS[scope]
        k = pick.choice([1, 2, 3, 4, 6, 8, 8, 12, 16, 16, 24, 32])
        shape, registers = pick.choice(_ownerships(rows, axis, k))
        if prod(shape) // (1 if scope == "thread" else rows) * elem_bytes(dtype) > 256:
            continue
        box, shared_shape = [], []
        for d, n in enumerate(shape):
            begin = pick.choice([0, 0, 1, 2, 4, 8]) if d == len(shape) - 1 or pick.random() < 0.2 else 0
            box.append([begin, begin + n])
            shared_shape.append(begin + n + pick.choice([0, 0, 1, 4]))
        if pick.random() < 0.25:  # what a swizzle covers is a power of two
            shared_shape = [1 << (n - 1).bit_length() for n in shared_shape]
            tile = draw_layout(pick, shared_shape, 0, 0.2, tiled=0)
            shared = f"Compose(Swizzle({pick.randint(0, 4)},{pick.randint(1, 3)},3), {tile})"
        else:
            shared = draw_layout(pick, shared_shape, pick.choice([0, 0, 1, 2, 3, 4, 8]), 0.2, tiled=0)
        if prod(n + 8 for n in shared_shape) * elem_bytes(dtype) * 2 > 200_000:
            continue
        name = f"{scope}-{dtype}-{'x'.join(map(str, shape))}-{len(cases)}"
        threads = 64 if scope == "cta" else None
        cases.append(pytest.param((scope, dtype, shape, registers, shared, shared_shape, box, threads), id=name))
    return cases


def _ownerships(rows: int, axis: str, k: int) -> list[tuple[list[int], str]]:
    """Register layouts over ``rows`` threads of ``k`` registers (or more), as (shape, layout)."""
    if not axis:
        return [([rows, k], f"S[({rows},{k}):({k},1)]"), ([rows, k], f"S[({rows},{k}):(1,{rows})]"), ([k], f"S[{k}:1]")]
    return [
        ([rows, k], f"S[({rows},{k}):(1@{axis},1)]"),
        ([k, rows], f"S[({k},{rows}):(1,1@{axis})]"),
        ([rows, 2, k], f"S[({rows},2,{k}):(1@{axis},{k},1)]"),
        ([rows, 2, k], f"S[({rows},2,{k}):(1@{axis},1,2)]"),
        ([2, rows, k], f"S[(2,{rows},{k}):({k},1@{axis},1)]"),
        ([rows // 4, 4 * k], f"S[({rows // 4},4,{k}):(4@{axis},1@{axis},1)]"),
        ([rows // 4, 4 * k], f"S[({rows // 4},4,{k}):(1@{axis},{rows // 4}@{axis},1)]"),
    ]


@pytest.mark.sweep(6)
@pytest.mark.parametrize("case", generated())
def test_generated_copies(case):
    *tensors, threads = case
    check(*tensors, threads=threads)
