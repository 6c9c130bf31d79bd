"""Specs that compute on rows on the GPU: right to within their bounds, timed beside a copy and PyTorch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from compute_cases import AUTOTUNED, ComputeCase
from gpu_files import hash_code
from measure_cases import describe_bug
from measure_kernels import resources
from torch_rows import compare_rows, compile_ways, exact_functions, row_functions

import tilegen
from tilegen import bench, gpu
from tilegen.bench.buffers import argument_bytes, load_kernel, moved_bytes
from tilegen.bench.libraries import load_library
from tilegen.bench.measuring import (
    Candidate,
    gb_per_s,
    make_samplers,
    measure_spread,
    paired_ratio,
    plan_rotation,
    take_turns,
    warm_up,
)
from tilegen.dtypes import numpy_dtype
from tilegen.index import evaluate
from tilegen.pipeline import Built
from tilegen.plan import arrays
from tilegen.proofs.floats import FloatRun, compare_floats, run_bounded
from tilegen.proofs.meaning import parameter_cases
from tilegen.verifying import compile_for

POISON = 0xFF  # a NaN of every float
BOUNDED_ROWS = 8  # that are held to the bounds of the spec's own meaning, from all over the grid
SECONDS = 200.0  # then no more is compiled by PyTorch, and the other cases are measured without
SEARCH_SECONDS = 150.0  # then nothing is searched


def measure_compute(
    session: bench.Session, cases: Sequence[ComputeCase], rounds: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, row) of every case, as soon as it has been measured; kernels are built in other processes meanwhile."""
    arch = "sm_{}{}".format(*session.device.compute_capability)
    begin = time.monotonic()
    with ProcessPoolExecutor(max(1, min(8, (os.cpu_count() or 2) - 2)), get_context("spawn")) as pool:
        waiting = [pool.submit(build_compute, case, arch) for case in cases]
        for case, waited in zip(cases, waiting, strict=True):
            start = time.monotonic()
            row: dict[str, Any] = {
                "spec": case.spec, "dtype": case.dtype, "rows": case.rows, "columns": case.columns,
                "params": case.params, "arch": arch,
            }  # fmt: skip
            built = waited.result()
            try:
                if isinstance(built, str):
                    row |= {"correct": False, "error": built}
                else:
                    row |= {"correct": True} | measure_rows(session, case, built, rounds, start - begin)
            except Exception as error:  # a kernel that fails leaves the error, and the others go on
                row |= {"correct": False, "error": describe_bug(error)}
            print(f"{describe_row(case.name, row)} ({time.monotonic() - start:.1f} s)", flush=True)
            yield case.name, row


def build_compute(case: ComputeCase, arch: str) -> Built | str:
    """The case's kernel, its cubin in the cache on disk, or what was said against it; runs in a process of its own."""
    try:
        built = tilegen.build(case.text, arch, case.params)
        gpu.compile_cubin(built.source, arch, built.plan.name)
    except Exception as error:
        return describe_bug(error)
    return built


# ---------------------------------------------------------------- one case
@dataclass(frozen=True)
class Buffers:
    """Sets of buffers: bytes by name for the kernel, and tensors over the same bytes in the order of the arrays."""

    images: tuple[Mapping[str, Any], ...]
    inputs: tuple[tuple[Any, ...], ...]
    outputs: tuple[tuple[Any, ...], ...]
    copies: tuple[tuple[Any, Any], ...]
    is_cold: bool


def measure_rows(
    session: bench.Session, case: ComputeCase, built: Built, rounds: int, elapsed: float
) -> dict[str, Any]:
    """Everything is checked, then timed in turns, in samples of one launch each over rotated buffers."""
    torch = load_library("torch")
    params = parameter_cases(built.spec)[0]
    buffers = lay_out_rows(session, torch, built, params)
    kernel = load_kernel(session, built, params, buffers.images)
    checked, part = check_kernel(torch, case, built, params, kernel, buffers)
    candidates: dict[str, Candidate] = {
        "tilegen": kernel, "copy": lambda k: gpu.copy_bytes(*buffers.copies[k % len(buffers.copies)]),
    }  # fmt: skip
    absent, seconds = {}, {}
    function = row_functions(torch)[case.spec]
    for name, make in compile_ways(torch, function, case.columns in AUTOTUNED).items():
        if elapsed > limit_of(name):
            absent[name] = "no time is left"
            continue
        start = time.monotonic()
        try:
            candidate = on_stream(torch, session, make(), buffers)
            wrong = check_peer(session, torch, case, built, candidate, buffers)
        except Exception as error:
            wrong = describe_bug(error)
        seconds[name] = round(time.monotonic() - start, 2)
        if wrong:
            absent[name] = wrong
        else:
            candidates[name] = candidate
    for candidate in candidates.values():
        warm_up(session.watch, candidate)
    samplers = {name: make_samplers(session.watch, c, len(buffers.images), 1) for name, c in candidates.items()}
    times = take_turns(session.watch, samplers, rounds, 1, buffers.is_cold).rounds
    moved = moved_bytes(built, params)
    mine = times["tilegen"]
    row = describe_times(mine, moved, session.ceiling_gb_per_s) | {
        "code_sha256": hash_code(built.source), "bytes": moved, "sets": len(buffers.images), "cold": buffers.is_cold,
        "rounds": rounds, "checked": checked, "error_part": round(part, 4), "absent": absent,
        "compile_s": {name: s for name, s in seconds.items() if name != "torch"},
        "peers": {
            name: describe_times(taken, moved, session.ceiling_gb_per_s)
            | {"ratio": round(paired_ratio(mine, taken).median, 4)}
            for name, taken in times.items() if name != "tilegen"
        },
    }  # fmt: skip
    return row | resources(compile_for(session.device, built))


def limit_of(name: str) -> float:
    """Seconds since the beginning after which a peer takes no part any more."""
    return {"torch": float("inf"), "torch.compile": SECONDS}.get(name, SEARCH_SECONDS)


def describe_times(times: Sequence[float], moved: int, ceiling: float) -> dict[str, Any]:
    """Microseconds and rates."""
    us = measure_spread(times)
    rate = gb_per_s(moved, us.median)
    return {
        "median_us": round(us.median, 3), "quartiles_us": [round(us.lower, 3), round(us.upper, 3)],
        "gb_per_s": round(rate, 1), "of_ceiling": round(rate / ceiling, 4),
    }  # fmt: skip


def describe_row(name: str, row: Mapping[str, Any]) -> str:
    """A row on one line, for whoever watches."""
    if not row["correct"]:
        return f"{name:40s} WRONG {row['error']}"
    peers = "".join(f", {peer} {data['ratio']:.3f}" for peer, data in row["peers"].items())
    return f"{name:40s} ok, {row['median_us']:.1f} us, {row['gb_per_s']} GB/s{peers}"


# ---------------------------------------------------------------- buffers
def lay_out_rows(session: bench.Session, torch: Any, built: Built, params: Mapping[str, int]) -> Buffers:
    """Normal numbers in, poison out, as many sets as are four times the L2."""
    gpu.free_memory()
    sizes, moved = argument_bytes(built, params), moved_bytes(built, params)
    rotation = plan_rotation(moved, session.device.l2_bytes, session.device.memory_bytes)
    torch.cuda.empty_cache()
    torch.manual_seed(1)
    images, inputs, outputs = [], [], []
    with torch.cuda.stream(torch.cuda.ExternalStream(session.watch.stream.ptr)):
        for _ in range(rotation.sets):
            image = {name: gpu.allocate_bytes(size) for name, size in sizes.items()}
            tensors = {m.name: tensor_of(torch, built, m, image[m.name], params) for m in arrays(built.plan)}
            for m in arrays(built.plan):
                if m.access == "in":
                    tensors[m.name].normal_()
                else:
                    gpu.fill_bytes(image[m.name], POISON)
            images.append(image)
            inputs.append(tuple(tensors[m.name] for m in arrays(built.plan) if m.access == "in"))
            outputs.append(tuple(tensors[m.name] for m in arrays(built.plan) if m.access != "in"))
    half = moved // 2
    copies = tuple((gpu.allocate_bytes(half), gpu.allocate_bytes(half)) for _ in range(rotation.sets))
    for source, _ in copies:
        gpu.fill_random(session.watch.instruments, source, 1)
    session.watch.synchronize()
    return Buffers(tuple(images), tuple(inputs), tuple(outputs), copies, rotation.is_cold)


def tensor_of(torch: Any, built: Built, memory: Any, image: Any, params: Mapping[str, int]) -> Any:
    """Bytes as a dense tensor of an array's shape and type."""
    shape = tuple(int(evaluate(n, dict(params))) for n in built.spec.buffer(memory.name).shape)
    raw = torch.from_dlpack(gpu.view_elems(image, shape, memory.elem_bytes))
    return raw.view(getattr(torch, memory.dtype))


def on_stream(
    torch: Any, session: bench.Session, function: Callable[..., Any], buffers: Buffers
) -> Callable[[int], Any]:
    """A function of tensors as a candidate: it returns tensors of its own, from PyTorch's pool."""
    stream = torch.cuda.ExternalStream(session.watch.stream.ptr)

    def run(k: int) -> Any:
        with torch.cuda.stream(stream), torch.no_grad():
            return function(*buffers.inputs[k % len(buffers.inputs)])

    return run


# ---------------------------------------------------------------- is it right?
def check_kernel(
    torch: Any, case: ComputeCase, built: Built, params: Mapping[str, int], kernel: Candidate, buffers: Buffers
) -> tuple[list[str], float]:
    """What was compared, and the largest error in parts of what ``torch_rows`` allows. Raises ProofError, ValueError.

    All sets: every element against float64; of the first, some rows against the bounds of the spec's own meaning.
    """
    dtypes = [m.dtype for m in arrays(built.plan) if m.access != "in"]
    worst = 0.0
    for k, (inputs, outputs) in enumerate(zip(buffers.inputs, buffers.outputs, strict=True)):
        kernel(k)
        torch.cuda.synchronize()
        wrong, part = compare_rows(torch, exact_functions(torch)[case.spec], inputs, outputs, dtypes)
        if wrong:
            raise ValueError(wrong)
        worst = max(worst, part)
    names = [m.name for m in arrays(built.plan) if m.access == "in"]
    read = {n: partial(read_elements, torch, t, built.spec.buffer(n).dtype)
            for n, t in zip(names, buffers.inputs[0], strict=True)}  # fmt: skip
    written = {m.name: t for m, t in zip((m for m in arrays(built.plan) if m.access != "in"), buffers.outputs[0],
                                         strict=True)}  # fmt: skip
    rows = np.unique(np.linspace(0, case.rows - 1, BOUNDED_ROWS).astype(int))
    found = run_bounded(built.spec, FloatRun([(int(r), 0, 0) for r in rows], read, dict(params)))
    said = []
    for name, (at, want) in sorted(found.items()):
        got = read_elements(torch, written[name], built.spec.buffer(name).dtype, at)
        said.append(f"{compare_floats(name, at, got, want)} ({len(rows)} rows)")
    return said, worst


def check_peer(
    session: bench.Session, torch: Any, case: ComputeCase, built: Built, candidate: Callable[[int], Any],
    buffers: Buffers,
) -> str:  # fmt: skip
    """What is wrong with what a peer returns for the first set, or nothing."""
    outputs = candidate(0)
    session.watch.synchronize()
    dtypes = [m.dtype for m in arrays(built.plan) if m.access != "in"]
    wrong, _ = compare_rows(torch, exact_functions(torch)[case.spec], buffers.inputs[0], outputs, dtypes)
    return wrong


def read_elements(torch: Any, tensor: Any, dtype: str, index: Any) -> Any:
    """Elements of a dense tensor at flat offsets, as a NumPy array."""
    target = numpy_dtype(dtype)
    flat = tensor.view(getattr(torch, f"int{8 * target.itemsize}")).reshape(-1)
    at = torch.as_tensor(np.array(index, np.int64), device=tensor.device)
    return flat[at].cpu().numpy().view(target)
