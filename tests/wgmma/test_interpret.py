"""wgmma in the interpreter: what it multiplies, and every way to be too early, too late or in the wrong place."""

from __future__ import annotations

import numpy as np
import pytest

from tests.wgmma.plans import Array, Loop, Tiles, parts_of, plan_loop, product_of, read_result
from tilegen.arithmetic import TYPED
from tilegen.arithmetic.modular import make_modular
from tilegen.interpret import interpret
from tilegen.plan import Plan
from tilegen.proofs import unproven_ranges

CTA = [(0, 0, 0)]


def run(plan: Plan, inputs: dict[str, Array], domain=TYPED) -> Array:
    given = {name: (lambda at, x=x: x.reshape(-1)[at]) for name, x in inputs.items()}
    at, values = interpret(plan, CTA, given, domain=domain).written["C"]
    assert np.array_equal(at, np.arange(len(at)))
    return values


KINDS = {
    "bf16": Tiles(), "f16": Tiles("wgmma.m64n40k16.f32.f16.f16", 32, 64),
    "f16 into f16": Tiles("wgmma.m64n16k16.f16.f16.f16", 32, 32),
    "tf32": Tiles("wgmma.m64n8k8.f32.tf32.tf32", 32), "e4m3": Tiles("wgmma.m64n32k32.f32.e4m3.e4m3", 128),
    "e5m2 by e4m3": Tiles("wgmma.m64n24k32.f16.e5m2.e4m3", 64, 64), "s8": Tiles("wgmma.m64n48k32.s32.s8.s8", 128),
    "u8 by s8": Tiles("wgmma.m64n256k32.s32.u8.s8", 64, 32),
    "no swizzle": Tiles(swizzle=0), "32 bytes": Tiles(swizzle=32), "64 bytes": Tiles(swizzle=64),
    "a along m": Tiles(along_a="mn"), "b along n": Tiles("wgmma.m64n128k16.f32.bf16.bf16", along_b="mn"),
    "both, no swizzle": Tiles(swizzle=0, along_a="mn", along_b="mn"),
    "both, 32 bytes": Tiles(swizzle=32, along_a="mn", along_b="mn"),
    "both, 64 bytes": Tiles(swizzle=64, along_a="mn", along_b="mn"),
    "a in registers": Tiles(a_held=True), "a in registers, b along n": Tiles(a_held=True, along_b="mn"),
    "f32 a in registers": Tiles("wgmma.m64n16k8.f32.tf32.tf32", 32, a_held=True),
    "s8 a in registers": Tiles("wgmma.m64n16k32.s32.s8.u8", 64, 64, a_held=True),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_products_of_every_type_and_lie(kind: str) -> None:
    tiles = KINDS[kind]
    parts, drawn = parts_of(tiles), tiles.draw()
    plan = parts.plan(*parts.right)
    assert not unproven_ranges(plan)
    found = read_result(run(plan, tiles.inputs(drawn)), tiles.n)
    assert np.array_equal(found.astype(np.float64), product_of(drawn).astype(np.float64))


@pytest.mark.parametrize("kind", ["bf16", "a in registers, b along n", "s8"])
def test_products_of_opaque_values(kind: str) -> None:
    tiles = KINDS[kind]
    parts, drawn = parts_of(tiles), tiles.draw()
    domain = make_modular(m.dtype for m in parts.memories)
    stored = {}
    for operand, values in drawn.items():
        index = np.arange(values.size).reshape(values.shape)
        stored[operand] = domain.draw(operand, tiles.dtype(operand), index)
    plan = parts.plan(*parts.right)
    found = read_result(run(plan, tiles.inputs(stored), domain), tiles.n)
    out = next(m.dtype for m in parts.memories if m.name == "C")
    expected = domain.matmul(stored["A"][None], stored["B"].T[None], None, tiles.dtype("A"), out)[0]
    assert np.array_equal(domain.decode(found, out), domain.decode(expected, out))


def test_a_loop_over_tiles_that_tma_brings() -> None:
    loop = Loop()
    plan, drawn = plan_loop(loop), loop.draw()
    assert not unproven_ranges(plan)
    assert np.array_equal(run(plan, drawn).reshape(64, loop.n), product_of(drawn))
