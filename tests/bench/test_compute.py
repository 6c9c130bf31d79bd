"""The measured computations on rows: each is a spec, PyTorch's functions are what it means, and a row says what was."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import DEVICE, FakeWatch, fake_gpu

import tilegen
from tilegen import bench
from tilegen.dtypes import numpy_dtype
from tilegen.interpret import interpret
from tilegen.plan import arrays

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import measure_compute  # noqa: E402
import results_page  # noqa: E402
from compute_cases import SHAPES, SPECS, ComputeCase, compute_cases  # noqa: E402
from torch_rows import compare_rows, exact_functions, row_functions  # noqa: E402

needs_torch = pytest.mark.skipif(not find_spec("torch"), reason="torch is absent")
SMALL = [ComputeCase(spec, 1024, dtype, rows=4) for spec, dtype in product(SPECS, SHAPES)]
every_small = pytest.mark.parametrize("case", SMALL, ids=lambda c: f"{c.spec}-{c.dtype}")


@every_small
def test_a_case_is_a_spec_of_its_type(case: ComputeCase) -> None:
    spec = tilegen.load(case.text, "sm_90", case.params)
    assert spec.threads == case.shape.threads and spec.buffers[0].dtype == case.dtype
    assert spec.buffer("x" if any(b.name == "x" for b in spec.buffers) else "X").shape[-1] in (1024, 2048)
    assert {p.name for p in spec.params} <= {"M", "eps"}


def test_every_size_is_measured_once() -> None:
    names = [case.name for case in compute_cases()]
    assert len(names) == len(set(names)) == len(SPECS) * sum(map(len, SHAPES.values()))


# ---------------------------------------------------------------- a run on the CPU: the interpreter is the kernel
def pretend(monkeypatch: pytest.MonkeyPatch, case: ComputeCase, spoil: Callable[[Any], None]) -> bench.Session:
    import torch

    watch = FakeWatch(stream=SimpleNamespace(ptr=1))
    plan = tilegen.build(case.text, "sm_90", case.params).plan

    def kernel(*images: Any) -> None:
        watch.spend(100.0)
        given = [images[k].view(numpy_dtype(m.dtype)) for k, m in enumerate(arrays(plan))]
        inputs = {m.name: given[k].__getitem__ for k, m in enumerate(arrays(plan)) if m.access == "in"}
        ctas = [(i, 0, 0) for i in range(case.rows // max(case.shape.rows, 1))]
        run = interpret(plan, ctas, inputs, {"M": case.rows})
        for k, m in enumerate(arrays(plan)):
            if m.name in run.written:
                at, values = run.written[m.name]
                given[k][at] = values
                spoil(given[k])

    fake_gpu(monkeypatch, watch, kernel)
    from tilegen.gpu import Cubin

    cubin = Cubin("k", "sm_90", "pretended", b"", "", 32, 0, 0, 0, 4096)
    monkeypatch.setattr(measure_compute, "compile_for", lambda *_: cubin)
    monkeypatch.setattr(measure_compute.gpu, "arguments_of", lambda how, images: tuple(images))
    monkeypatch.setattr(measure_compute, "plan_rotation", lambda *_: measure_compute.bench.measuring.Rotation(2))
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda pointer: pointer)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    return bench.Session(DEVICE, watch, 4000.0)  # type: ignore[arg-type]


@needs_torch
@every_small
def test_a_case_becomes_a_row(case: ComputeCase, monkeypatch: pytest.MonkeyPatch) -> None:
    session = pretend(monkeypatch, case, lambda image: None)
    built = tilegen.build(case.text, "sm_90", case.params)
    row = measure_compute.measure_rows(session, case, built, 2, 0.0)
    assert row["absent"] == {} and set(row["peers"]) == {"copy", "torch", "torch.compile"}
    assert row["median_us"] == 100.0 and row["peers"]["copy"]["ratio"] == 1.0 and 0 < row["error_part"] < 1
    assert all(re.search("(of its bound|: exact).* \\(4 rows\\)", line) for line in row["checked"]), row["checked"]
    late = measure_compute.measure_rows(session, case, built, 2, 1e9)
    assert late["absent"] == {"torch.compile": "no time is left"}
    whole = {"correct": True, "params": case.params} | row
    json.dumps(whole)
    assert f"| {case.name} | 128 | 100.0 |" in results_page.compute_table({case.name: whole})


@pytest.mark.sweep(2)
@needs_torch
@every_small
def test_one_element_that_is_wrong_is_found(case: ComputeCase, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(image: Any) -> None:
        image[-1] = np.nan

    session = pretend(monkeypatch, case, spoil)
    with pytest.raises(ValueError, match="output 0 is nan, not"):
        measure_compute.measure_rows(session, case, tilegen.build(case.text, "sm_90", case.params), 1, 0.0)


@needs_torch
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", SHAPES)
def test_a_function_that_is_a_little_off_is_found(spec: str, dtype: str) -> None:
    import torch

    x = torch.randn(5, 2048).to(getattr(torch, dtype))
    inputs = [x, *(torch.randn(2048).to(x.dtype) for _ in range({"rmsnorm": 1, "layernorm": 2}.get(spec, 0)))]
    outputs, exact = row_functions(torch)[spec](*inputs), exact_functions(torch)[spec]
    dtypes = ["float8_e4m3fn", "float32"] if spec == "quantize_rows" else [dtype]
    assert compare_rows(torch, exact, inputs, outputs, dtypes)[0] == ""
    off = [(o.float() * 1.3).to(o.dtype) for o in outputs]
    assert "output 0" in compare_rows(torch, exact, inputs, off, dtypes)[0]


def test_a_wrong_row_is_in_the_table() -> None:
    rows = {"k": {"correct": False, "error": "no", "params": {"T": 128}}}
    assert "| k | 128 | WRONG |" in results_page.compute_table(rows) and results_page.compute_table({}) == ""
