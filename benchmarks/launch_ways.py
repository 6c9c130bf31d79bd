"""Every way to launch a kernel, against verify's images: its C++ header, and calls with CuPy arrays and torch tensors.

python benchmarks/launch_ways.py [SPEC...]        all specs by default; exits with 1 if a kernel is wrong
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gpu_files import list_kernels
from launch_once import build_for

from tilegen import gpu
from tilegen.calling import terms_of
from tilegen.errors import TilegenError
from tilegen.gpu.call import Kernel
from tilegen.gpu.call.kind_of_call import form_of_output
from tilegen.pipeline import Built
from tilegen.plan import Plan, arrays
from tilegen.proofs.floats import computes
from tilegen.proofs.meaning import parameter_cases
from tilegen.render import host_type, render_launcher
from tilegen.verifying import compile_for, launch_case, verify_floats_run, verify_run

ROOT = Path(__file__).resolve().parent.parent
Case = Mapping[str, int]
Start = Callable[[Built, Case, list[Any]], None]  # starts a kernel over CuPy arrays of raw bytes


def check_ways(builds: Sequence[Built]) -> dict[str, dict[str, str]]:
    """Per way and kernel "ok", or what is wrong: every byte of every array, for every parameter case."""
    device = gpu.require_gpu()
    if not builds:
        return {}
    ways: dict[str, Start] = {"header": start_by_header(builds), "cupy": start_by_cupy(device, builds)}
    if importlib.util.find_spec("torch"):
        ways["torch"] = start_by_torch(device, builds)
    return {way: {b.plan.name: check_kernel(b, start) for b in builds} for way, start in ways.items()}


def check_kernel(built: Built, start: Start) -> str:
    """The word "ok", or the first thing that is wrong."""
    import cupy

    names = [m.name for m in arrays(built.plan)]
    try:
        for case in parameter_cases(built.spec):

            def run(inputs: Any, outputs: Any, case: Case = case) -> Any:
                begin = lambda given: start(built, case, given)  # noqa: E731
                with cupy.cuda.Stream():  # torch takes the pointer of the default stream, 0, for a stream of its pool
                    return gpu.run_guarded(built.plan.name, names, begin, inputs, outputs)

            if computes(built.spec):
                verify_floats_run(built, case, 1, run, None)
            else:
                verify_run(built, case, 1, run)
    except TilegenError as error:
        return str(error)[:400]
    return "ok"


# ---------------------------------------------------------------- the header
def start_by_header(builds: Sequence[Built]) -> Start:
    """One library of all kernels, each with its header behind it, by one run of nvcc."""
    with tempfile.TemporaryDirectory() as folder:
        for built in builds:
            Path(folder, f"{built.plan.name}.cu").write_text(built.source)
            Path(folder, f"{built.plan.name}.h").write_text(render_launcher(built.plan))
        Path(folder, "all.cu").write_text(glue_text([b.plan for b in builds]))
        flags = ("-shared", "-Xcompiler", "-fPIC", "-std=c++17", target_flag(common_arch(builds)))
        subprocess.run(["nvcc", *flags, "all.cu", "-o", "all.so"], cwd=folder, check=True)
        library = ctypes.CDLL(str(Path(folder, "all.so")))

    def start(built: Built, case: Case, given: list[Any]) -> None:
        import cupy

        how = launch_case(built, case)
        pointers = (ctypes.c_void_p * len(given))(*(a.data.ptr for a in given))
        cells = [np.asarray(value) for value in how.params]
        values = (ctypes.c_void_p * max(1, len(cells)))(*(c.ctypes.data for c in cells))
        stream = ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)
        status = getattr(library, f"run_{built.plan.name}")(pointers, values, stream)
        if status:
            raise cupy.cuda.runtime.CUDARuntimeError(status)

    return start


def common_arch(builds: Iterable[Built]) -> str:
    """The arch for which one file of all kernels is compiled: the newest, with its own features if one needs them."""
    return max((b.plan.arch for b in builds), key=lambda arch: (int(re.sub(r"\D", "", arch)), arch))


def target_flag(arch: str) -> str:
    """What nvcc is told: of sm_90a the short form would make it try sm_90 too.

    >>> target_flag("sm_80"), target_flag("sm_90a")
    ('-arch=sm_80', '-gencode=arch=compute_90a,code=sm_90a')
    """
    number = arch.removeprefix("sm_")
    return f"-arch={arch}" if number.isdigit() else f"-gencode=arch=compute_{number},code={arch}"


def glue_text(plans: Sequence[Plan]) -> str:
    """All kernels and headers in one file, and one C function ``run_<kernel>(pointers, values, stream)`` for each."""
    headers = ("algorithm", "cuda_runtime.h", "cuda.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "stdint.h")
    lines = [f"#include <{header}>" for header in headers]
    for plan in plans:
        name = plan.name
        given = [f"({host_type(m.dtype)[0]} *)pointers[{k}]" for k, m in enumerate(arrays(plan))]
        given += [f"*({'int' if p.var else 'float'} *)values[{k}]" for k, p in enumerate(plan.params)
                  if p.launched is None]  # fmt: skip
        lines.append(
            f'namespace of_{name} {{\n#include "{name}.cu"\n#include "{name}.h"\n}}\n'
            f'extern "C" int run_{name}(void **pointers, void **values, cudaStream_t stream)\n'
            f"{{\n    return of_{name}::launch_{name}({', '.join([*given, 'stream'])});\n}}"
        )
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- calls from Python
def compile_kernels(device: gpu.Device, builds: Sequence[Built]) -> dict[str, Kernel]:
    return {b.plan.name: Kernel(terms_of(b.spec, b.plan), compile_for(device, b), b.source) for b in builds}


def start_by_cupy(device: gpu.Device, builds: Sequence[Built]) -> Start:
    """``kernel(x, y)``, runtime parameters from the shapes where they say them all."""
    kernels = compile_kernels(device, builds)

    def start(built: Built, case: Case, given: list[Any]) -> None:
        import cupy

        typed = []
        for raw, (dtype, shape, strides) in zip(given, forms(kernels[built.plan.name], case), strict=True):
            steps = tuple(n * np.dtype(dtype).itemsize for n in strides)
            typed.append(cupy.ndarray(shape, dtype, raw.data, steps))
        kernels[built.plan.name](*typed, **given_by_caller(built, case))

    return start


def start_by_torch(device: gpu.Device, builds: Sequence[Built]) -> Start:
    """The same with tensors over the same memory, on CuPy's stream."""
    kernels = compile_kernels(device, builds)

    def start(built: Built, case: Case, given: list[Any]) -> None:
        import cupy
        import torch

        kernel = kernels[built.plan.name]
        typed = []
        for raw, terms, (_, shape, strides) in zip(given, kernel.terms.arrays, forms(kernel, case), strict=True):
            flat = torch.as_tensor(raw, device="cuda").view(getattr(torch, terms.dtype))
            typed.append(flat.as_strided(shape, strides))
        with torch.cuda.stream(torch.cuda.ExternalStream(cupy.cuda.get_current_stream().ptr)):
            kernel(*typed, **given_by_caller(built, case))

    return start


def given_by_caller(built: Built, case: Case) -> dict[str, int]:
    """Parameters without those that the launchers find out: how many CTAs there are."""
    found = {p.name for p in built.plan.params if p.launched is not None}
    return {name: value for name, value in case.items() if name not in found}


def forms(kernel: Kernel, case: Case) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """A dtype that CuPy has, shape and strides of each array."""
    bits = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
    return [(bits.get(a.dtype, a.dtype), *form_of_output(a, case)) for a in kernel.terms.arrays]


def main(paths: Sequence[str]) -> int:
    device = gpu.require_gpu()
    specs = paths or list_kernels()
    found = check_ways([build_for(device, path) for path in specs])
    for way, kernels in found.items():
        wrong = {name: said for name, said in kernels.items() if said != "ok"}
        print(f"{way}: {len(kernels) - len(wrong)} of {len(kernels)} kernels are right, byte for byte")
        for name, said in wrong.items():
            print(f"  {name}: {said}")
    return 1 if any(said != "ok" for kernels in found.values() for said in kernels.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
