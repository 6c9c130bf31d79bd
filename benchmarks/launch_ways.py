"""Every way to launch a kernel, or passes: by a C++ header, by calls with CuPy arrays and torch tensors; all are right.

python benchmarks/launch_ways.py [SPEC...]        all specs by default; exits with 1 if a kernel is wrong
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gpu_files import list_kernels, list_programs
from launch_once import build_for
from program_runs import run_checked
from python_calls import AnyBuilt, Case, Start, list_arrays, start_by_cupy, start_by_torch

from tilegen import gpu
from tilegen.dtypes import numpy_dtype
from tilegen.errors import TilegenError
from tilegen.pipeline import BuiltProgram, output_texts
from tilegen.proofs.floats import computes
from tilegen.proofs.meaning import parameter_cases
from tilegen.render import host_type
from tilegen.verifying import launch_case, verify_floats_run, verify_run

ROOT = Path(__file__).resolve().parent.parent


def check_ways(builds: Sequence[AnyBuilt]) -> dict[str, dict[str, str]]:
    """Per way and kernel "ok", or what is wrong: every byte of every array, for every parameter case."""
    device = gpu.require_gpu()
    if not builds:
        return {}
    ways: dict[str, Start] = {"header": start_by_header(builds), "cupy": start_by_cupy(device, builds)}
    if importlib.util.find_spec("torch"):
        ways["torch"] = start_by_torch(device, builds)
    return {way: {b.plan.name: check_kernel(b, start) for b in builds} for way, start in ways.items()}


def check_kernel(built: AnyBuilt, start: Start) -> str:
    """The word "ok", or the first thing that is wrong. Of passes the results lie within their bounds."""
    import cupy

    names = [m.name for m in list_arrays(built)]
    try:
        if isinstance(built, BuiltProgram):
            with cupy.cuda.Stream():
                run_checked(built, start, 1)
            return "ok"
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
def start_by_header(builds: Sequence[AnyBuilt]) -> Start:
    """One library of all kernels, each with its header behind it, by one run of nvcc."""
    with tempfile.TemporaryDirectory() as folder:
        for built in builds:
            for name, text in output_texts(built).items():
                Path(folder, name).write_text(text)
        Path(folder, "all.cu").write_text(glue_text(builds))
        flags = ("-shared", "-Xcompiler", "-fPIC", "-std=c++17", target_flag(common_arch(builds)))
        subprocess.run(["nvcc", *flags, "all.cu", "-o", "all.so"], cwd=folder, check=True)
        library = ctypes.CDLL(str(Path(folder, "all.so")))

    def start(built: AnyBuilt, case: Case, given: list[Any]) -> None:
        import cupy

        pointers = (ctypes.c_void_p * len(given))(*(a.data.ptr for a in given))
        cells = [np.asarray(value) for value in list_values(built, case)]
        values = (ctypes.c_void_p * max(1, len(cells)))(*(c.ctypes.data for c in cells))
        stream = ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)
        status = getattr(library, f"run_{built.plan.name}")(pointers, values, stream)
        if status:
            raise cupy.cuda.runtime.CUDARuntimeError(status)

    return start


def list_values(built: AnyBuilt, case: Case) -> tuple[np.generic, ...]:
    """The parameters that a launcher is given, in order."""
    if isinstance(built, BuiltProgram):
        return tuple(numpy_dtype(p.dtype).type(case.get(p.name, p.default)) for p in built.plan.params)
    return launch_case(built, case).params


def common_arch(builds: Iterable[AnyBuilt]) -> str:
    """The arch for which one file of all kernels is compiled: the newest, with its own features if one needs them."""
    return max((b.plan.arch for b in builds), key=lambda arch: (int(re.sub(r"\D", "", arch)), arch))


def target_flag(arch: str) -> str:
    """What nvcc is told: of sm_90a the short form would make it try sm_90 too.

    >>> target_flag("sm_80"), target_flag("sm_90a")
    ('-arch=sm_80', '-gencode=arch=compute_90a,code=sm_90a')
    """
    number = arch.removeprefix("sm_")
    return f"-arch={arch}" if number.isdigit() else f"-gencode=arch=compute_{number},code={arch}"


def glue_text(builds: Sequence[AnyBuilt]) -> str:
    """All kernels and headers in one file, and one C function ``run_<kernel>(pointers, values, stream)`` for each."""
    headers = ("algorithm", "cuda_runtime.h", "cuda.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "stdint.h")
    lines = [f"#include <{header}>" for header in headers]
    for built in builds:
        name = built.plan.name
        values = [p for p in built.plan.params if p.launched is None]
        given = [f"({host_type(m.dtype)[0]} *)pointers[{k}]" for k, m in enumerate(list_arrays(built))]
        own = [f"*({host_type(p.dtype)[0]} *)values[{k}]" for k, p in enumerate(values)]
        launch, call = f"of_{name}::launch_{name}", [*given, *own, "stream"]
        body = f"    return {launch}({', '.join(call)});"
        if isinstance(built, BuiltProgram) and built.plan.workspaces:
            sizes = [text for text, p in zip(own, values, strict=True) if p.var]
            body = (
                "    size_t bytes = 0;\n    void *workspace = nullptr;\n"
                f"    cudaError_t error = of_{name}::workspace_of_{name}({', '.join([*sizes, '&bytes'])});\n"
                "    if (!error) error = cudaMallocAsync(&workspace, bytes, stream);\n"
                "    if (!error) error = cudaMemsetAsync(workspace, 0xA5, bytes, stream);\n"
                f"    if (!error) error = {launch}({', '.join([*call[:-1], 'workspace', 'bytes', 'stream'])});\n"
                "    if (!error) error = cudaFreeAsync(workspace, stream);\n    return error;"
            )
        lines.append(
            f'namespace of_{name} {{\n#include "{name}.cu"\n#include "{name}.h"\n}}\n'
            f'extern "C" int run_{name}(void **pointers, void **values, cudaStream_t stream)\n{{\n{body}\n}}'
        )
    return "\n".join(lines) + "\n"


def main(paths: Sequence[str]) -> int:
    device = gpu.require_gpu()
    specs = paths or [*list_kernels(), *list_programs()]
    found = check_ways([build_for(device, path) for path in specs])
    for way, kernels in found.items():
        wrong = {name: said for name, said in kernels.items() if said != "ok"}
        print(f"{way}: {len(kernels) - len(wrong)} of {len(kernels)} kernels are right, byte for byte")
        for name, said in wrong.items():
            print(f"  {name}: {said}")
    return 1 if any(said != "ok" for kernels in found.values() for said in kernels.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
