"""Every kernel's header compiles: for nvcc beside the kernel or after it, for g++; and it refuses what it must."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from nvcc.compile import requires_nvcc
from text.plans import build_cast, build_fill, build_pool, build_runtime_copy
from text.run import requires_gxx

from specs.kernels import SPECS, build_spec, every_spec
from tests.session import make_folder
from tilegen.calling import terms_of
from tilegen.dtypes import DTYPES
from tilegen.gpu.call.kind_of_call import pairs_of
from tilegen.pipeline import build, load
from tilegen.plan import Param, Plan, arguments, arrays, tensor_maps
from tilegen.planner import plan_spec
from tilegen.render import host_type, launch_info, render, render_launcher

PLANS = [build_pool(), *(build_fill(d, 1) for d in DTYPES), build_cast("float16", "float8_e5m2")]


def every_plan() -> list[Plan]:
    return [*(build_spec(path).plan for path in SPECS), *PLANS]


def write_files(folder: Path, plans: list[Plan]) -> list[str]:
    """Header and source of every plan in a folder; returns their names."""
    for plan in plans:
        (folder / f"{plan.name}.cu").write_text(render(plan), encoding="utf-8")
        (folder / f"{plan.name}.h").write_text(render_launcher(plan), encoding="utf-8")
    names = [plan.name for plan in plans]
    assert len(set(names)) == len(names)
    return names


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"[:4000]
    return done.stdout + done.stderr


def cuda_includes(folder: Path) -> list[str]:
    """Where nvcc finds cuda_runtime.h."""
    (folder / "empty.cu").write_text("")
    said = run(folder, "nvcc", "--dryrun", "-c", "empty.cu")
    return ["-isystem", re.search(r'INCLUDES="-I([^" ]+)', said)[1]]


@pytest.mark.slow
@requires_nvcc
def test_headers_compile_without_their_kernels(tmp_path: Path) -> None:
    names = write_files(tmp_path, every_plan())
    (tmp_path / "all.cu").write_text("".join(f'#include "{name}.h"\n' * 2 for name in names))
    run(tmp_path, "nvcc", "-Werror", "all-warnings", "-arch=sm_90", "-c", "all.cu")


@pytest.mark.slow
@requires_nvcc
def test_headers_declare_what_the_kernels_are(tmp_path: Path) -> None:
    """In one file behind their kernels: a type that differs would be a second function of the same C name."""
    alone = [plan for plan in every_plan() if plan.arch.endswith("a")]  # their code is for one generation
    for arch in dict.fromkeys(plan.arch for plan in alone):
        compile_together(tmp_path, [plan for plan in alone if plan.arch == arch], arch)
    others = [plan for plan in every_plan() if plan not in alone]
    compile_together(tmp_path, others, "sm_100" if any(p.arch.startswith("sm_10") for p in others) else "sm_90")


def compile_together(tmp_path: Path, plans: list[Plan], arch: str) -> None:
    names = write_files(tmp_path, plans)
    headers = ("cuda_runtime.h", "cuda.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "stdint.h", "algorithm")
    lines = [f"#include <{header}>" for header in headers]
    for name in names:
        lines.append(f'namespace of_{name} {{\n#include "{name}.cu"\n#include "{name}.h"\n}}')
    (tmp_path / "all.cu").write_text("\n".join(lines) + "\n")
    target = f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch.replace('sm_', 'compute_')}"
    run(tmp_path, "nvcc", "-Werror", "all-warnings", target, "-ptx", "all.cu")


@requires_nvcc
@requires_gxx
def test_a_cpp_program_links_the_kernel_and_is_refused_what_is_wrong(tmp_path: Path) -> None:
    plan = build_runtime_copy()
    write_files(tmp_path, [plan])
    pointers = [a["name"] for a in launch_info(plan)["args"] if a["kind"] == "pointer"]
    values = {p.name: p.default for p in plan.params}

    def call(misaligned: str = "", **other: int) -> str:
        places = [f"(int *){4 if name == misaligned else 256}" for name in pointers]
        given = [*places, *(str(v) for v in (values | other).values())]
        return f'std::printf("%d ", (int)launch_{plan.name}({", ".join(given)}));'

    (first, var) = next((p.name, p.var) for p in plan.params if p.var)
    calls = [*(call(misaligned=name) for name in pointers), call(**{first: 0}), call(**{first: var.bound})]
    main = f'#include "{plan.name}.h"\n#include <cstdio>\nint main() {{ {" ".join(calls)} }}\n'
    (tmp_path / "main.cpp").write_text(main)
    run(tmp_path, "g++", "-Wall", "-Wextra", "-Werror", *cuda_includes(tmp_path), "-c", "main.cpp")
    run(tmp_path, "nvcc", "-arch=sm_90", "-c", f"{plan.name}.cu")
    run(tmp_path, "nvcc", "main.o", f"{plan.name}.o", "-o", "main")
    misaligned, invalid = "716", "1"  # cudaErrorMisalignedAddress, cudaErrorInvalidValue
    assert run(tmp_path, "./main").split() == [misaligned] * len(pointers) + [invalid] * 2


@requires_gxx
def test_counts_that_pass_64_bits_are_refused_too(tmp_path: Path) -> None:
    """2**24 * 2**24 * (2**24 + 1) is 2**48 modulo 2**64, and with 2**22 * 2**21 * 2**21 nothing is left of it."""
    spec = "kernel: huge\nparams: {A: {default: 3}, B: {default: 5}, C: {default: 7}}\ngrid: {bx: A * B * C + 1}\n"
    spec += "threads: 32\nbuffers:\n  Y: {scope: global, dtype: float32, shape: [A * B * C + 1, 32]}\n"
    built = build(spec + 'ops:\n  - fill: {dst: "Y[bx]", value: 0}\n')
    (refuse,) = re.findall(r"if \((.* > 2147483647)\) return", render_launcher(built.plan).replace("\n        ", " "))
    cases = [(3, 5, 7), (1 << 22, 1 << 21, 1 << 21), (1 << 24, 1 << 24, (1 << 24) + 1), (1 << 30, 1, 1)]
    lines = "".join(f'    {{ int A = {a}, B = {b}, C = {c}; std::printf("%d ", {refuse}); }}\n' for a, b, c in cases)
    (tmp_path / "main.cpp").write_text(f"#include <cstddef>\n#include <cstdio>\nint main()\n{{\n{lines}}}\n")
    run(tmp_path, "g++", "-Wall", "-Wextra", "-Werror", "main.cpp", "-o", "main")
    assert run(tmp_path, "./main").split() == ["0", "1", "1", "0"]


# ---------------------------------------------------------------- arrays that share bytes
HALVES = """kernel: halves
threads: 32
params: {M: {default: 8}, N: {default: 8}, ldx: {default: 16, max: 512}, ldy: {default: 16, max: 512}}
grid: {bx: M}
buffers:
  X: {scope: global, dtype: float32, shape: [M, N], layout: "S[(M,N):(ldx,1)]"}
  B: {scope: global, dtype: float32, shape: [M]}
  Y: {scope: global, dtype: float32, shape: [M, N], layout: "S[(M,N):(ldy,1)]"}
ops:
  - elementwise: {dst: "Y[bx, 0 : +64]", expr: x + b, with: {x: "X[bx, 0 : +64]", b: "B[bx]"}, edge: clip}
"""
_FAR = 1 << 30
# Bytes from a base at which X, B and Y begin, M, N, ldx, ldy, and whether a launch is refused. Rows of 8 are 32 bytes.
_PLACED = {
    "far apart": ((0, _FAR, 2 * _FAR, 4, 8, 16, 16), 0),
    "halves of one matrix's columns": ((0, _FAR, 32, 4, 8, 16, 16), 0),
    "the halves the other way round": ((32, _FAR, 0, 4, 8, 16, 16), 0),
    "halves, the one rows before": ((0, _FAR, 5 * 64 - 32, 9, 8, 16, 16), 0),
    "the same array": ((0, _FAR, 0, 4, 8, 16, 16), 1),
    "parts of columns that meet": ((0, _FAR, 16, 4, 8, 16, 16), 1),
    "rows that end in the next row of the other": ((0, _FAR, 48, 4, 8, 16, 16), 1),
    "rows of 16 and rows of 12": ((0, _FAR, 32, 4, 8, 16, 12), 1),
    "one behind the other": ((0, _FAR, 3 * 64 + 32, 4, 8, 16, 16), 0),
    "one element too early": ((0, _FAR, 3 * 32 + 16, 4, 8, 8, 8), 1),
    "inputs that are one array": ((0, 0, _FAR, 4, 8, 16, 16), 0),
    "a vector inside of what is written": ((_FAR, 64, 0, 4, 8, 16, 16), 1),
    "a vector right before what is written": ((_FAR, 0, 16, 4, 8, 16, 16), 0),
    "a vector that ends in what is written": ((_FAR, 0, 16, 5, 8, 16, 16), 1),
}


@requires_nvcc
@requires_gxx
def test_arrays_that_share_bytes_are_refused_where_one_is_written(tmp_path: Path) -> None:
    plan = plan_spec(load(HALVES))
    write_files(tmp_path, [plan])
    launch = 'extern "C" cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t)'
    places = [[f"(float *)({at} + {1 << 20})" for at in given[:3]] for given, _ in _PLACED.values()]
    sizes = [map(str, given[3:]) for given, _ in _PLACED.values()]
    calls = [f"launch_halves({', '.join([*at, *n])})" for at, n in zip(places, sizes, strict=True)]
    main = f'#include "halves.h"\n#include <cstdio>\n{launch} {{ return cudaSuccess; }}\n'
    main += '__asm__(".globl halves\\nhalves:");\n'
    main += "int main()\n{\n" + "".join(f'    std::printf("%d ", (int){call});\n' for call in calls) + "}\n"
    (tmp_path / "main.cpp").write_text(main)
    (tmp_path / "none.cpp").write_text(f"#define TILEGEN_OVERLAP(a, a_bytes, b, b_bytes) 0\n{main}")
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Werror", *cuda_includes(tmp_path))
    for name in ("main", "none"):
        run(tmp_path, "g++", *flags, f"{name}.cpp", "-o", name)
    said = dict(zip(_PLACED, map(int, run(tmp_path, "./main").split()), strict=True))
    assert said == {name: result for name, (_, result) in _PLACED.items()}
    assert set(run(tmp_path, "./none").split()) == {"0"}, "whoever knows better may say so"


@every_spec
def test_python_and_cpp_refuse_the_same_pairs(path: Path) -> None:
    """Every two of which one is written, once each."""
    built = build_spec(path)
    text = " ".join(render_launcher(built.plan).split())
    found = {frozenset(pair) for pair in re.findall(r"if \(TILEGEN_OVERLAP\((\w+), .*?, (\w+), ", text)}
    given = terms_of(built.spec, built.plan).arrays
    pairs = pairs_of(given, [0] * len(given))
    assert found == {frozenset((given[i].name, given[j].name)) for i, j, *_ in pairs}


# ---------------------------------------------------------------- descriptors
TMA_SPECS = [path for path in SPECS if "variant: tma" in path.read_text(encoding="utf-8")]
every_tma_spec = pytest.mark.parametrize("path", TMA_SPECS, ids=lambda path: path.stem)
LINKED = [
    pytest.param(path, ("h",), marks=[pytest.mark.slow] if k % 3 else [], id=f"{path.stem}-h")
    for k, path in enumerate(TMA_SPECS)
]
INCLUDED = [(TMA_SPECS[0], ("cu", "h")), (TMA_SPECS[-1], ("h", "cu"))]  # the order is one of two texts, whose ever


APART = 1 << 36  # bytes from the beginning of one array to that of the next


def call_text(plan: Plan, first_at: int = APART) -> str:
    """A call of the launcher, each array ``first_at`` bytes behind the one before, and the defaults."""
    given = [f"({host_type(m.dtype)[0]} *){(k + 1) * first_at}" for k, m in enumerate(arrays(plan))]
    return f"launch_{plan.name}({', '.join([*given, *(str(p.default) for p in arguments(plan.params))])})"


@pytest.mark.slow
@requires_nvcc
@requires_gxx
@pytest.mark.parametrize(("path", "order"), [*LINKED, *INCLUDED], ids=lambda x: getattr(x, "stem", x))
def test_a_kernel_with_descriptors_is_included_or_linked(tmp_path: Path, path: Path, order: tuple[str, ...]) -> None:
    """Nothing but CUDA's runtime is linked, and the program starts without a driver."""
    plan = build_spec(path).plan
    write_files(tmp_path, [plan])
    lines = "".join(f'#include "{plan.name}.{ending}"\n' for ending in order)
    program = f'{lines}#include <cstdio>\nint main() {{ std::printf("%d", (int){call_text(plan, 4)}); }}\n'
    (tmp_path / "main.cu").write_text(program)
    (tmp_path / "main.cpp").write_text(program)
    given = ["main.cu"]
    if "cu" not in order:
        run(tmp_path, "g++", "-Wall", "-Wextra", "-Werror", *cuda_includes(tmp_path), "-c", "main.cpp")
        given = ["main.o", f"{plan.name}.cu"]
    target = f"-gencode=arch={plan.arch.replace('sm_', 'compute_')},code={plan.arch}"
    run(tmp_path, "nvcc", "-Werror", "all-warnings", target, *given, "-o", "main")
    assert run(tmp_path, "./main") == "716"  # cudaErrorMisalignedAddress


RUNTIME = """
#include <cstdio>
#include <cstring>
static void print(const char *name, const void *list, int count, int bytes)
{
    std::printf("%s", name);
    for (int i = 0; i < count; i++) {
        unsigned long long value = 0;
        std::memcpy(&value, (const char *)list + i * bytes, bytes);
        std::printf(" %llu", value);
    }
    std::puts("");
}
static CUresult status = CUDA_SUCCESS;
static bool known = true;
static CUresult encode(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *place, const cuuint64_t *dims,
    const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    const unsigned given[] = { type, rank, interleave, swizzle, promotion, fill };
    print("given", given, 6, 4);
    print("place", &place, 1, 8);
    print("dims", dims, rank, 8);
    print("strides", strides, rank - 1, 8);
    print("box", box, rank, 4);
    print("steps", steps, rank, 4);
    std::memset(map, 0, sizeof *map);
    std::memcpy(map, &place, sizeof place);
    return status;
}
extern "C" cudaError_t cudaGetDriverEntryPointByVersion(
    const char *name, void **found, unsigned version, unsigned long long, cudaDriverEntryPointQueryResult *)
{
    const bool right = known && !std::strcmp(name, "cuTensorMapEncodeTiled") && version == 12000;
    *found = right ? (void *)encode : nullptr;
    return cudaSuccess;
}
extern "C" cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *) { return cudaSuccess; }
extern "C" cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
extern "C" cudaError_t cudaGetDevice(int *device) { *device = 0; return cudaSuccess; }
extern "C" cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) { *value = 64; return cudaSuccess; }
extern "C" cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *, int, size_t)
{
    *count = 2;
    return cudaSuccess;
}
extern "C" cudaError_t cudaOccupancyMaxActiveClusters(int *count, const void *, const cudaLaunchConfig_t *config)
{
    *count = 128 / config->attrs->val.clusterDim.x;  // CTAs that are planned for
    return cudaSuccess;
}
"""


@cache
def make_launcher(path: Path) -> Path:
    """The folder of a spec's launcher in a C++ program, CUDA replaced by what prints."""
    folder, plan = Path(make_folder()), build_spec(path).plan
    write_files(folder, [plan])
    sizes = [8 if k < len(arrays(plan)) else 4 for k in range(len(arrays(plan)) + len(arguments(plan.params)))]
    sizes += [128 for _ in tensor_maps(plan)]
    printed = "".join(f'    print("argument", arguments[{k}], 1, {min(size, 8)});\n' for k, size in enumerate(sizes))
    program = (
        f'#include "{plan.name}.h"\n{RUNTIME}extern "C" cudaError_t cudaLaunchKernel(\n'
        "    const void *, dim3 grid, dim3 block, void **arguments, size_t, cudaStream_t)\n{\n"
        f'    print("grid", &grid, 3, 4);\n    print("block", &block, 3, 4);\n{printed}    return cudaSuccess;\n}}\n'
        'extern "C" cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *kernel, void **arguments)'
        "\n{\n"
        "    const bool overlaps = c->numAttrs == 1 && c->attrs->val.programmaticStreamSerializationAllowed == 1\n"
        "        && c->attrs->id == cudaLaunchAttributeProgrammaticStreamSerialization;\n"
        '    std::printf("overlaps %d\\n", overlaps);\n'
        "    return cudaLaunchKernel(kernel, c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes, c->stream);\n}\n"
        # the kernel's own symbol: its address is all that is asked for
        f'__asm__(".globl {plan.name}\\n{plan.name}:");\n'
        "int main(int count, char **words)\n{\n"
        '    if (count > 1 && !std::strcmp(words[1], "refusing")) status = CUDA_ERROR_INVALID_VALUE;\n'
        '    known = count < 2 || std::strcmp(words[1], "old");\n'
        f'    std::printf("result %d\\n", (int){call_text(plan)});\n}}\n'
    )
    (folder / "main.cpp").write_text(program)
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Werror", *cuda_includes(folder))
    run(folder, "g++", *flags, "main.cpp", "-o", "main")
    return folder


def run_launcher(path: Path, *driver: str) -> list[list[str]]:
    """What it prints with a driver that is well, refusing or old: the words of each line, the last line the result."""
    return [line.split() for line in run(make_launcher(path), "./main", *driver).splitlines()]


@pytest.mark.sweep(2)
@requires_nvcc
@every_tma_spec
@requires_gxx
def test_a_launcher_encodes_what_the_manifest_says(path: Path) -> None:
    plan = build_spec(path).plan
    info = launch_info(plan)
    places = {m.name: APART * (k + 1) for k, m in enumerate(arrays(plan))}
    maps = [a for a in info["args"] if a["kind"] == "tensor_map"]
    wanted: list[list[object]] = []
    for a in maps:
        swizzle, data_type = [0, 32, 64, 128].index(a["swizzle_bytes"]), {1: 0, 2: 1, 4: 2, 8: 4}[a["elem_bytes"]]
        wanted += [
            ["given", data_type, len(a["dims"]), 0, swizzle, 2, 0], ["place", places[a["array"]]], ["dims", *a["dims"]],
            ["strides", *a["strides_bytes"]], ["box", *a["box"]], ["steps", *a["element_strides"]],
        ]  # fmt: skip
    wanted += [["overlaps", 1]] if plan.overlaps else []
    wanted += [["grid", *info["grid"]], ["block", *info["block"]]]
    given = [*places.values(), *map(_word_of, arguments(plan.params)), *(places[a["array"]] for a in maps)]
    wanted += [*(["argument", value] for value in given), ["result", 0]]
    assert run_launcher(path) == [[str(word) for word in line] for line in wanted]


def _word_of(param: Param) -> int:
    """The default of a parameter, as the 4 bytes that it is passed as."""
    return int(param.default if param.var else np.float32(param.default).view(np.uint32))


@pytest.mark.sweep(3)
@requires_nvcc
@every_tma_spec
@requires_gxx
def test_a_launcher_returns_what_the_driver_says(path: Path) -> None:
    invalid, unsupported = "1", "801"  # cudaErrorInvalidValue, cudaErrorNotSupported
    lines = run_launcher(path, "refusing")
    assert [line for line in lines if line[0] in ("grid", "result")] == [["result", invalid]]
    assert run_launcher(path, "old") == [["result", unsupported]]


@every_spec
def test_a_header_says_what_the_manifest_says(path: Path) -> None:
    built = build_spec(path)
    text = render_launcher(built.plan)
    assert f"generated by tilegen for {built.plan.arch}." in " ".join(re.sub(r"\n// +", " ", text).split())
    for arg in built.manifest["args"]:
        assert re.search(rf"^// {arg['name']}: ", text, re.M)
    assert f"dim3 grid({', '.join(built.manifest['grid_expression'])}), block({built.plan.threads})" in text
    assert ("cudaFuncSetAttribute" in text) == (built.manifest["dynamic_shared_bytes"] > 0)
    assert all(len(line) <= 120 for line in text.splitlines())


def test_a_header_promises_no_size_that_the_grid_cannot_have() -> None:
    spec = """kernel: g
threads: 128
params: {M: {default: 256}, N: {default: 4}}
grid: {bx: N, by: ceil(M / 32)}
buffers:
  X: {scope: global, dtype: float16, shape: [N, M, 64]}
  Y: {scope: global, dtype: float16, shape: [N, M, 64]}
ops:
  - copy: {src: "X[bx, by*32 : +32]", dst: "Y[bx, by*32 : +32]", edge: clip}
"""
    header = render_launcher(plan_spec(load(spec)))
    assert f"// M: 1 to {65535 * 32}\n// N: 1 to {2**31 - 1}\n" in header
