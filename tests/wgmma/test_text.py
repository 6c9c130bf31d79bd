"""The text of wgmma: run on the CPU by a second reading of PTX, and assembled without a warning or a spill."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.faults.steps import with_steps
from tests.nvcc.compile import requires_nvcc
from tests.text.run import compile_plans, requires_runner, run_text
from tests.wgmma.plans import Loop, Tiles, parts_of, plan_loop, product_of, read_result
from tests.wgmma.test_interpret import KINDS
from tilegen.plan import Commit, Fence, Wait, Wgmma
from tilegen.ptx import PtxFault
from tilegen.render import render


@requires_runner
def test_texts_of_every_type_and_lie_run() -> None:
    cases = [(tiles, parts_of(tiles)) for tiles in KINDS.values()]
    for (tiles, _), runner in zip(cases, compile_plans([p.plan(*p.right) for _, p in cases]), strict=True):
        drawn = tiles.draw()
        found = read_result(runner.run(tiles.inputs(drawn))["C"], tiles.n)
        assert np.array_equal(found.astype(np.float64), product_of(drawn).astype(np.float64)), tiles


@requires_runner
@pytest.mark.parametrize("n", [8, 128])
def test_a_loop_with_tma_runs(n: int) -> None:
    loop = Loop(n=n)
    drawn = loop.draw()
    assert np.array_equal(run_text(plan_loop(loop), drawn)["C"].reshape(64, n), product_of(drawn))


@requires_runner
def test_texts_that_do_not_wait_are_wrong() -> None:
    """g++ leaves poison where a product is in flight, and reads what is multiplied at the wait; the machine refuses."""
    tiles = Tiles(k=32, swizzle=64)
    parts = parts_of(tiles)
    begin, last = (*parts.fill, *parts.meet, Fence()), parts.products[-1]
    b = last.b.memory[last.b.at[0] + 16 * 64]
    wrong = [
        (*begin, *parts.products, Commit("mma"), *parts.store, Wait("mma")),
        (*begin, *parts.products, Wait("mma"), Commit("mma"), *parts.store, Wait("mma")),
        (*begin, parts.products[0], Commit("mma"), last, Commit("mma"), Wait("mma", 1), *parts.store, Wait("mma")),
        (*begin, *parts.products, Commit("mma"), *parts.fill[:0], *_overwrite(parts), Wait("mma"), *parts.store),
        (*begin, parts.products[0], replace(last, b=b.memory[16 * 8]), Commit("mma"), Wait("mma"), *parts.store),
        (*begin, *(replace(p, accumulate=False) for p in parts.products), Commit("mma"), Wait("mma"), *parts.store),
        (*begin, *(_other_swizzle(p) for p in parts.products), Commit("mma"), Wait("mma"), *parts.store),
    ]
    drawn = tiles.draw()
    for runner in compile_plans([parts.plan(*steps) for steps in wrong]):
        with suppress(PtxFault):
            assert not np.array_equal(read_result(runner.run(tiles.inputs(drawn))["C"], tiles.n), product_of(drawn))


def _overwrite(parts):
    """The images once more, one chunk further on."""
    fill = parts.fill[-1]
    load, store = fill.body
    return (replace(fill, body=(load, replace(store, dst=parts.memories[1][(store.dst.at[0] + 8) % 2048]))),)


def _other_swizzle(step: Wgmma) -> Wgmma:
    return replace(step, b_lies=replace(step.b_lies, swizzle_bytes=32))


# ---------------------------------------------------------------- nvcc
def assemble(text: str, folder: Path) -> str:
    path = folder / "kernel.cu"
    path.write_text(text)
    command = ["nvcc", "-Werror", "all-warnings", "-arch=sm_90a", "-cubin", "-Xptxas", "-v", str(path), "-o",
               str(path.with_suffix(".cubin"))]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    log = done.stdout + done.stderr
    assert done.returncode == 0, log[:4000]
    return log


def check_log(log: str) -> None:
    assert not re.search(r"C75\d\d|warning|serializ", log), log
    assert "0 bytes spill stores, 0 bytes spill loads" in log, log


@pytest.mark.sweep(1)
@requires_nvcc
@pytest.mark.parametrize("n", [64, 256])
def test_a_loop_assembles_without_warnings(n: int, tmp_path: Path) -> None:
    check_log(assemble(render(plan_loop(Loop(n=n))), tmp_path))


@pytest.mark.sweep(1)
@requires_nvcc
@pytest.mark.parametrize(
    "kind",
    ["a in registers, b along n", "f16 into f16", "s8 a in registers", "tf32", "both, no swizzle", "e5m2 by e4m3"],
)
def test_every_form_assembles(kind: str, tmp_path: Path) -> None:
    parts = parts_of(KINDS[kind])
    check_log(assemble(render(parts.plan(*parts.right)), tmp_path))


def test_the_text_reads_well() -> None:
    text = render(plan_loop(Loop(n=64)))
    assert "wgmma_m64n64k16_f32_bf16_bf16(c, matrix_descriptor<16, 1024, 128>(a) + s * 2," in text
    assert "keep_registers<32>(acc);" in text and "wgmma_wait<0>();" in text and "wgmma_fence();" in text
    assert "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16" in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert with_steps(plan_loop(Loop()), Fence())
