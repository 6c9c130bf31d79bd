"""The peers of products on the CPU, where torch and Triton are installed: their own code, on NumPy's memory."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import contextlib, sys
from dataclasses import replace
from types import SimpleNamespace
import numpy as np
import torch
import tilegen
from fakes import FakeWatch
from tilegen.bench import torch_products, tuned_products
from tilegen.bench.accuracy import Exact, find_beyond, measure_accuracy
from tilegen.bench.meaning import NotApplicable, Task
from tilegen.bench.products import derive_product, evaluate_exactly, read_rows
from tilegen.dtypes import numpy_dtype

peer, cases = sys.argv[1], sys.argv[2:]
if peer == "tuned":
    tuned_products.TILES = tuned_products.TILES[-4:]
    tuned_products.WIDE_TILES = tuned_products.WIDE_TILES[-1:]
if peer == "boxes":
    tuned_products.TILES = tuned_products.TILES[-1:]
    tuned_products._bind_tiles = lambda *_: None  # cannot be called, and is passed over
prepare = tuned_products.prepare_triton if peer in ("tuned", "boxes") else getattr(torch_products, f"prepare_{peer}")
is_available = torch.cuda.is_available
torch.cuda.ExternalStream = lambda pointer: pointer
torch.cuda.stream = lambda stream: contextlib.nullcontext()
torch.cuda.get_device_properties = lambda device: SimpleNamespace(multi_processor_count=3)
watch = FakeWatch(stream=SimpleNamespace(ptr=1))


def draw(array, seed):
    values = np.random.default_rng(seed).standard_normal(array.span)
    dtype = numpy_dtype(array.dtype)
    return (np.rint(40 * values).clip(-127, 127) if dtype.kind in "iu" else values).astype(dtype).view(np.uint8)


for case in cases:
    spec = tilegen.load(case)
    product = derive_product(spec, {p.name: int(p.default) for p in spec.params if p.var is not None})
    m, n, k = product.sizes
    sets = tuple({x.name: draw(x, 10 * s + i) for i, x in enumerate(product.arrays)} for s in range(2))
    rows = range(product.d.shape[0] * m)

    def matrix(array, count, extents):
        at = np.indices((count, *extents), sparse=True)
        steps = [0 if e == 1 else s for e, s in zip(array.shape, array.strides)]
        elements = sets[0][array.name].view(numpy_dtype(array.dtype))
        return elements[sum(i * s for i, s in zip(at, steps))].astype(np.float64)

    count = product.d.shape[0]
    sums = (matrix(product.a, count, (m, k)) @ matrix(product.b, count, (k, n))).reshape(-1, n)
    named = {name: read_rows(sets[0][x.name], x, product, rows) for name, x in product.named.items()}
    exact = Exact(product, tuple(rows), sums, evaluate_exactly(product, sums, named), named)
    start = sets[0][product.d.name].copy()
    torch.cuda.is_available = lambda: True
    try:
        prepared = prepare(Task(product, (), (), watch, sets))
    except NotApplicable as error:
        print("absent", error)
        continue
    torch.cuda.is_available = is_available
    prepared.candidate(1)
    sets[0][product.d.name][:] = start
    got = prepared.read(exact.rows)
    wrong = find_beyond(exact, got, prepared.is_whole, rounds_sums=True)
    assert not wrong, (case, prepared.detail, wrong)
    whole = "whole" if prepared.is_whole else "alone"
    is_near = measure_accuracy(exact, got, prepared.is_whole).rms < 0.01
    print(whole, prepared.detail.split(":")[0].split(",")[0], is_near, *["TMA"] * prepared.detail.endswith("TMA"))
"""
needs_torch = pytest.mark.skipif(not (find_spec("torch") and find_spec("triton")), reason="torch and triton are absent")
SMALL = """kernel: product
arch: sm_80
params: {{M: 48, N: 32, K: 64, s: {{dtype: float32, default: 2.5}}}}
buffers:
  A: {{scope: global, dtype: {a}, shape: [{batch}M, K]}}
  B: {{scope: global, dtype: {a}, shape: [K, N], layout: {order}}}
  C: {{scope: global, dtype: {d}, shape: [M, N]}}
  z: {{scope: global, dtype: {d}, shape: [N]}}
  D: {{scope: global, dtype: {d}, shape: [{batch}M, N]}}
ops:
  - gemm: {{a: A, b: B, d: D{rest}}}
"""
CASES = {
    "plain": ("bfloat16", "bfloat16", "", ""),
    "wide": ("bfloat16", "float32", "", ""),
    "float": ("float32", "float32", "", ""),
    "bias": ("bfloat16", "bfloat16", ", bias: z", ""),
    "added": ("float16", "float16", ", c: C, beta: 0.5, alpha: s", ""),
    "both": ("float16", "float16", ", c: C, bias: z", ""),
    "in_place": ("float32", "float32", ", c: D, beta: 0.5", ""),
    "gelu": ("bfloat16", "bfloat16", ", epilogue: '0.5 * acc * (1.0 + erf(acc * 0.7071067811865476))'", ""),
    "words": ("float16", "float16", ", bias: z, epilogue: 'where(acc > 0.0, acc, exp(min(acc, 0.0)) - 1.0) * s + "
              "max(bias, 0.0)'", ""),
    "batch": ("bfloat16", "bfloat16", "", "3, "),
    "batch_added": ("float32", "float32", ", c: C, alpha: 2", "3, "),
    "half": ("float16", "float32", "", ""),
    "half_row": ("float16", "float16", "", ""),
    "integers": ("int8", "int32", "", ""),
    "scaled": ("int8", "float32", ", epilogue: 'acc * 0.01 + bias', bias: z", ""),
}  # fmt: skip


def run(peer: str, names: list[str], tmp_path: Path) -> dict[str, str]:
    """What the peer said of each case: absent and why, or whether it was whole, how it was done, whether it is near."""
    paths = []
    for name in names:
        a, d, rest, batch = CASES[name]
        paths.append(tmp_path / f"{name}.yaml")
        paths[-1].write_text(
            SMALL.format(a=a, d=d, rest=rest, batch=batch, order="row" if "row" in name else "col"), encoding="utf-8"
        )
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'bench'}", "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", RUN, peer, *map(str, paths)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(names, done.stdout.splitlines(), strict=True))


@needs_torch
def test_cublas(tmp_path: Path) -> None:
    found = run("cublas", list(CASES), tmp_path)
    assert found == {
        "plain": "whole torch.mm True", "wide": "whole torch.mm True", "float": "whole torch.mm True",
        "bias": "whole torch.addmm True", "added": "whole torch.addmm True", "both": "alone torch.mm True",
        "in_place": "whole torch.addmm True", "gelu": "alone torch.mm True", "words": "alone torch.mm True",
        "batch": "whole torch.matmul True", "batch_added": "whole torch.baddbmm True",
        "half": "whole torch.mm True", "half_row": "whole torch.mm True",
        "integers": "whole torch._int_mm True", "scaled": "alone torch._int_mm True",
    }  # fmt: skip


@needs_torch
@pytest.mark.parametrize("peer", ["eager", "compiled"])
def test_whole_expressions(peer: str, tmp_path: Path) -> None:
    names = list(CASES) if peer == "eager" else ["plain", "gelu", "words", "scaled"]
    found = run(peer, names, tmp_path)
    plain = {"plain", "wide", "float", "half", "half_row", "batch", "integers"}
    for name, said in found.items():
        if peer == "eager" and name in plain:
            assert said == "absent without an epilogue it is what cublas is"
        else:
            assert said.startswith("whole ") and said.endswith("True"), (name, said)


@needs_torch
def test_triton_in_its_interpreter(tmp_path: Path) -> None:
    """Of all types but bfloat16, whose products the interpreter does not make."""
    found = run("tuned", [name for name, case in CASES.items() if case[0] != "bfloat16"], tmp_path)
    for name, said in found.items():
        assert said.startswith("alone " if name in ("gelu", "words", "scaled") else "whole "), (name, said)
        assert said.endswith("True"), (name, said)


@needs_torch
def test_triton_by_tma_in_its_interpreter(tmp_path: Path) -> None:
    """B lies by column and by row; the one tile that is tried is wider than the product."""
    assert run("boxes", ["half", "half_row"], tmp_path) == dict.fromkeys(
        ("half", "half_row"), "whole 64 x 16 x 256 bytes True TMA"
    )
