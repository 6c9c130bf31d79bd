"""What a GPU's multipliers reach: loops of nothing but products of random numbers, on every multiprocessor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilegen.arithmetic import TFLOAT32
from tilegen.gpu.cubins import compile_cubin
from tilegen.gpu.device import Device, load_cupy
from tilegen.gpu.instruments import Instruments, fill_normal
from tilegen.gpu.run import allow_shared
from tilegen.gpu.timing import allocate_bytes

SOURCE = Path(__file__).with_name("ceilings.cu")
THREADS = 256  # as in the text
_STAGES_BYTES = 4 * (2 * 64 + 256) * 128  # what wgmma's loop has in shared memory
_ALIGNMENT = 1024
_NEVER = np.float64(float("inf"))  # no sum of finite numbers that are far from the largest ones
_TRIAL_TRIPS, _WARMING = 200, 3


@dataclass(frozen=True)
class CeilingLoop:
    """A loop of the text: ``line`` makes a kernel of it.

    ``name``: the instruction. ``factors``: the element types of A and B. ``flops`` of a CTA in a trip, where a product
    and its addition count as two. ``capability``: the least that a GPU must have, ``suffix`` what its arch's name ends
    with, which is then of that generation alone. ``shared_bytes`` are dynamic.
    """

    kernel: str
    name: str
    factors: tuple[str, str]
    line: str
    flops: int
    capability: tuple[int, int]
    suffix: str = ""
    shared_bytes: int = 0

    @property
    def source(self) -> str:
        return f"{SOURCE.read_text(encoding='utf-8')}{self.line}\n"

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Does a GPU have the instruction?"""
        return capability == self.capability if self.suffix else capability >= self.capability


_PTX = {
    "bfloat16": "bf16", "float16": "f16", TFLOAT32: "tf32", "int8": "s8", "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2", "float64": "f64", "float32": "f32",
}  # fmt: skip
_DEPTHS = {"bfloat16": 16, "float16": 16, TFLOAT32: 8}  # of an instruction; else 32
_EIGHTS = ("float8_e4m3fn", "float8_e5m2")
_PAIRS = [(t, t) for t in ("bfloat16", "float16", TFLOAT32, "int8")] + [(a, b) for a in _EIGHTS for b in _EIGHTS]


def _mma(a: str, b: str) -> CeilingLoop:
    x, y, depth = _PTX[a], _PTX[b], _DEPTHS.get(a, 32)
    c, adds = ("s32", "int, ADDS_INT") if a == "int8" else ("f32", "float, ADDS_FLOAT")
    shape, kernel = f"m16n8k{depth}", f"mma_{x}_{y}"
    line = f'MMA_LOOP({kernel}, "{shape}.row.col.{c}.{x}.{y}.{c}", unsigned, WORD, {adds}, 4, 4)'
    capability = (8, 9) if a in _EIGHTS else (8, 0)
    flops = THREADS // 32 * 4 * 4 * 4 * 2 * 16 * 8 * depth  # 4 x 4 products, for each of 4 turns of A
    return CeilingLoop(kernel, f"mma.{shape}.{c}.{x}.{y}.{c}", (a, b), line, flops, capability)


def _wgmma(a: str, b: str) -> CeilingLoop:
    x, y, depth = _PTX[a], _PTX[b], _DEPTHS.get(a, 32)
    c, adds = ("s32", "int, ADDS_INT") if a == "int8" else ("f32", "float, ADDS_FLOAT")
    signs = "" if a == "int8" else ", 1, 1, 0, 0" if depth == 16 else ", 1, 1"
    shape, kernel = f"m64n256k{depth}", f"wgmma_{x}_{y}"
    line = f'WGMMA_LOOP({kernel}, "{shape}.{c}.{x}.{y}", {adds}, "{signs}")'
    flops = THREADS // 128 * 4 * 4 * 2 * 64 * 256 * depth  # 4 stages of 4 instructions
    shared = _STAGES_BYTES + _ALIGNMENT
    return CeilingLoop(kernel, f"wgmma.{shape}.{c}.{x}.{y}", (a, b), line, flops, (9, 0), "a", shared)


LOOPS = (
    *(_wgmma(a, b) for a, b in _PAIRS),
    *(_mma(a, b) for a, b in _PAIRS),
    CeilingLoop("mma_f64_f64", "mma.m16n8k8.f64.f64.f64.f64", ("float64", "float64"),
         'MMA_LOOP(mma_f64_f64, "m16n8k8.row.col.f64.f64.f64.f64", double, DOUBLE, double, ADDS_DOUBLE, 2, 4)',
         THREADS // 32 * 2 * 2 * 4 * 2 * 16 * 8 * 8, (9, 0)),
    CeilingLoop("fma_f32", "fma.rn.f32", ("float32", "float32"), "FMA_LOOP(fma_f32, float, __fmaf_rn, 8)",
         THREADS * 8 * 8 * 8 * 2, (8, 0)),
    CeilingLoop("fma_f64", "fma.rn.f64", ("float64", "float64"), "FMA_LOOP(fma_f64, double, __fma_rn, 4)",
         THREADS * 4 * 4 * 4 * 2, (8, 0)),
)  # fmt: skip


@dataclass(frozen=True)
class Ceiling:
    """A loop that is ready: ``run`` enqueues so many trips of it, each of ``flops`` on all multiprocessors."""

    name: str
    flops: int
    run: Callable[[int], None]


def list_loops(capability: tuple[int, int], factors: tuple[str, str]) -> list[CeilingLoop]:
    """What a GPU can multiply these types with, the fastest first.

    >>> [loop.name for loop in list_loops((9, 0), ("bfloat16", "bfloat16"))]
    ['wgmma.m64n256k16.f32.bf16.bf16', 'mma.m16n8k16.f32.bf16.bf16.f32']
    >>> [loop.name for loop in list_loops((8, 0), ("float64", "float64"))]
    ['fma.rn.f64']
    """
    return [loop for loop in LOOPS if loop.factors == factors and loop.runs_on(capability)]


def prepare_ceiling(device: Device, instruments: Instruments, loop: CeilingLoop) -> Ceiling:
    """Compile and load a loop, with random normal operands. Raises EnvironmentLack, CompileError."""
    cupy = load_cupy()
    major, minor = device.compute_capability
    kernel = f"ceiling_{loop.kernel}"
    module = cupy.cuda.function.Module()
    module.load(compile_cubin(loop.source, f"sm_{major}{minor}{loop.suffix}", kernel).image)
    function = module.get_function(kernel)
    allow_shared(function, loop.shared_bytes)
    operands = allocate_bytes(_STAGES_BYTES)  # more than any other loop reads
    fill_normal(instruments, operands, "float32" if loop.factors[0] == TFLOAT32 else loop.factors[0], 1)
    found = allocate_bytes(8)

    def run(trips: int) -> None:
        arguments = (operands, np.int64(trips), _NEVER, found)
        function((device.sm_count, 1, 1), (THREADS, 1, 1), arguments, shared_mem=loop.shared_bytes)

    return Ceiling(loop.name, loop.flops * device.sm_count, run)


def count_trips(time_us: Callable[[Callable[[], Any]], float], ceiling: Ceiling, wanted_us: float) -> int:
    """How many trips take about as long as is wanted, by a trial; ``time_us`` is a stopwatch's."""
    for _ in range(_WARMING):
        taken = time_us(lambda: ceiling.run(_TRIAL_TRIPS))
    return max(1, round(_TRIAL_TRIPS * wanted_us / taken))
