"""The kernels of ``blackwell``: compiled, run on the machine, and compared with what they should give."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.ptx.blackwell import KERNELS, PRELUDE
from tilegen.gpu import compile_cubin, print_ptx
from tilegen.gpu.cubins import Cubin
from tilegen.ptx import Launch, TensorMap, parse_kernel, run_kernel

Array = NDArray[Any]
ARCH = "sm_100a"


@dataclass(frozen=True)
class Case:
    """``inputs`` by name, ``launch``, the CTAs that run, and the meaning: what the array ``out`` should hold."""

    inputs: dict[str, Array]
    launch: Launch
    ctas: tuple[tuple[int, int, int], ...]
    want: Array
    tolerance: float


def source(name: str, change: Callable[[str], str] = str) -> str:
    """The CUDA text of a kernel."""
    return change(PRELUDE + KERNELS[name])


@cache
def compile_kernel(name: str) -> Cubin:
    return compile_cubin(source(name), ARCH, name)


def find_disassembler() -> str | None:
    """nvdisasm: of the extra ``ptx``, or of a toolkit."""
    folder = find_spec("nvidia")
    wheels = [found for path in (folder.submodule_search_locations or [] if folder else [])
              for found in Path(path).glob("*/bin/nvdisasm*")]  # fmt: skip
    return str(wheels[0]) if wheels else shutil.which("nvdisasm")


def count_instructions(image: bytes) -> Counter[str]:
    """How often each instruction stands in machine code, by its whole name."""
    program = find_disassembler()
    assert program
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "a.cubin")
        cubin.write_bytes(image)
        text = subprocess.run([program, "-c", str(cubin)], capture_output=True, text=True, check=True).stdout
    return Counter(re.findall(r"^\s+(?:/\*\w+\*/\s+)?(?:@!?U?P\w+\s+)?([A-Z][\w.]+)", text, re.M))


def boxes(name: str, a: Array, box: tuple[int, int], swizzle: int) -> TensorMap:
    size = a.dtype.itemsize
    return TensorMap(name, size, a.shape[::-1], (a.shape[1] * size,), box, swizzle)


def bfloats(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)


def product_case(pairs: bool) -> Case:
    rng, ctas = np.random.default_rng(1), 2 if pairs else 1
    a, b = bfloats(rng, 128 * ctas, 192), bfloats(rng, 192, 192)
    maps = boxes("A", a, (64, 128), 128), boxes("B", b, (64, 64 // ctas), 128)
    launch = Launch((ctas, 1, 1), 256, (*maps, "out"), (ctas, 1, 1), 49152 + 8 * 9)
    want = a.astype(np.float64) @ b.astype(np.float64).T
    return Case({"A": a, "B": b}, launch, ((0, 0, 0),), want, 1e-5)


def scaled_case() -> Case:
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((n, 512)).astype(ml_dtypes.float8_e4m3fn) for n in (128, 64))
    fa, fb = (rng.integers(122, 131, (4, 128, 4)).astype(np.uint8) for _ in range(2))
    words = {"FA": fa.view(np.uint32)[..., 0], "FB": fb.view(np.uint32)[..., 0]}
    maps = (boxes("A", a, (128, 128), 128), boxes("B", b, (128, 64), 128),
            boxes("FA", words["FA"], (128, 1), 0), boxes("FB", words["FB"], (128, 1), 0))  # fmt: skip

    def scale(x: Array, factors: Array) -> Array:
        each = factors.transpose(1, 0, 2).reshape(128, 16)[: len(x)].astype(np.float64)
        return x.astype(np.float64) * np.repeat(2.0 ** (each - 127), 32, axis=1)

    launch = Launch((1, 1, 1), 256, (*maps, "out"), (1, 1, 1), 49152 + 2048 + 64)
    want = scale(a, fa) @ scale(b, fb).T
    return Case({"A": a, "B": b, **words}, launch, ((0, 0, 0),), want, 1e-4)


def attention_case() -> Case:
    rng, tiles = np.random.default_rng(3), 4
    q, k, v = (bfloats(rng, n, 64) for n in (128, 64 * tiles, 64 * tiles))
    scale = np.float32(0.18)
    maps = boxes("Q", q, (64, 128), 128), boxes("K", k, (64, 64), 128), boxes("V", v, (64, 64), 128)
    launch = Launch((1, 1, 1), 256, (np.int32(tiles), scale, *maps, "out"), (1, 1, 1), 49152 + 8 * 15)
    p = 2.0 ** (q.astype(np.float64) @ k.astype(np.float64).T * float(scale))
    want = p / p.sum(1, keepdims=True) @ v.astype(np.float64)
    return Case({"Q": q, "K": k, "V": v}, launch, ((0, 0, 0),), want, 0.01)


CASES: dict[str, Callable[[], Case]] = {
    "one": lambda: product_case(False), "pair": lambda: product_case(True), "scaled": scaled_case,
    "attention": attention_case,
}  # fmt: skip


def run(name: str, change: Callable[[str], str] = str) -> float:
    """How far a kernel's result is from what it should be, where the CUDA text changes: right below 1."""
    return run_ptx(name, print_ptx(source(name, change), ARCH, name))


def run_ptx(name: str, text: str) -> float:
    """The largest difference of a result of PTX text from what it should be, over the tolerance."""
    case, kernel = CASES[name](), parse_kernel(text, name)
    images = {key: np.ascontiguousarray(a).reshape(-1).view(np.uint8) for key, a in case.inputs.items()}
    images["out"] = np.full(case.want.size * 4, 0xFF, np.uint8)
    ran = run_kernel(kernel, case.launch, images, ["out"], case.ctas)
    got = ran.images["out"].view(np.float32).reshape(case.want.shape)
    far = np.abs(got - case.want).max() / (case.tolerance * max(1.0, float(np.abs(case.want).max())))
    return float("inf") if np.isnan(far) else float(far)
