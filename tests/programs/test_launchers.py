"""The C++ launcher of several kernels: it compiles beside them, launches them in order, and refuses what it must."""

from __future__ import annotations

from pathlib import Path

import pytest
from nvcc.compile import requires_nvcc
from specs.test_launchers import RUNTIME, cuda_includes, run
from text.run import requires_gxx

from programs.kernels import LAYERNORM, build_program, every_program
from tilegen.pipeline import build, output_texts
from tilegen.plan import arguments
from tilegen.render import host_type, launch_info


def write_files(folder: Path, path: Path) -> None:
    for name, text in output_texts(build_program(path)).items():
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.sweep(2)
@requires_nvcc
@every_program
def test_a_header_declares_what_the_kernels_are(tmp_path, path):
    """In one file behind its kernels: a type that differs would be a second function of the same C name."""
    write_files(tmp_path, path)
    (tmp_path / "all.cu").write_text(f'#include "{path.stem}.cu"\n#include "{path.stem}.h"\n')
    arch = build_program(path).plan.arch.replace("sm_", "compute_")
    run(tmp_path, "nvcc", "-Werror", "all-warnings", f"-gencode=arch={arch},code={arch}", "-ptx", "all.cu")


_LAUNCH = (
    'extern "C" cudaError_t cudaLaunchKernel(const void *k, dim3 g, dim3, void **a, size_t, cudaStream_t)\n{\n'
    '    std::printf("%s grid %u %u", k == (const void *)ROWS ? "rows" : "columns", g.x, g.y);\n'
    "    if (k == (const void *)COLUMNS) {\n"
    '        for (int n = 2; n < 4; ++n) std::printf(" %llu", *(unsigned long long *)a[n]);\n'
    '        std::printf(" %d", *(int *)a[4]);\n    }\n'
    '    std::puts("");\n    return cudaSuccess;\n}\n'
    'extern "C" cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *kernel, void **arguments)\n'
    '{\n    std::printf("overlaps ");\n'
    "    return cudaLaunchKernel(kernel, c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes, c->stream);\n}\n"
)


@requires_nvcc
@requires_gxx
def test_a_launch_hands_each_pass_its_part_of_the_workspace(tmp_path):
    """The device holds 128 CTAs at once; each workspace has a row of 4096 float32 for every CTA of the first pass."""
    built, name = build_program(LAYERNORM), LAYERNORM.stem
    write_files(tmp_path, LAYERNORM)
    arrays = [f"({host_type(m.dtype)[0]} *){(n + 1) << 36}" for n, m in enumerate(built.plan.arrays)]
    symbols = [one.plan.name for one in built.passes]
    row, base = 4096 * 4, 1 << 20
    written = next(n for n, m in enumerate(built.plan.arrays) if m.access == "out")
    twice = [*arrays[:written], arrays[0].replace(arrays[0][1:6], arrays[written][1:6]), *arrays[written + 1 :]]
    first = 1 << 36  # byte of the first array
    calls = [
        (arrays, 1000, base, 1 << 22),
        (arrays, 3, base, 98304),
        (arrays, 3, base, 98303),
        (arrays, 3, base | 128, 1 << 22),
        (arrays, 0, base, 1 << 22),
        (twice, 3, base, 1 << 22),
        (arrays, 3, first - 6 * row + 256, 1 << 22),
        (arrays, 3, first - 6 * row, 1 << 22),
    ]
    body = "".join(
        f'    std::printf("result %d\\n", (int)launch_{name}({", ".join(given)}, {m}, (void *){at}, {size}));\n'
        for given, m, at, size in calls
    )
    sizes = "".join(
        f"    {{ size_t bytes = 0; int error = workspace_of_{name}({m}, &bytes);"
        f' std::printf("%d %zu\\n", error, bytes); }}\n'
        for m in (1000, 3)
    )
    device = RUNTIME[RUNTIME.index('extern "C" cudaError_t cudaGetDevice(') :]
    own = "".join(f'__asm__(".globl {s}\\n{s}:\\n.byte 0");\n' for s in symbols)
    program = f'#include "{name}.h"\n#include <cstdio>\n{device}{_LAUNCH}{own}'
    program = program.replace("ROWS", symbols[0]).replace("COLUMNS", symbols[1])
    (tmp_path / "main.cpp").write_text(f"{program}int main()\n{{\n{sizes}{body}}}\n")
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Werror", *cuda_includes(tmp_path))
    run(tmp_path, "g++", *flags, "main.cpp", "-o", "main")
    assert run(tmp_path, "./main").splitlines() == [
        f"0 {2 * 128 * row}", f"0 {2 * 3 * row}",
        "rows grid 128 1", f"overlaps columns grid 128 2 {base} {base + 128 * row} 128", "result 0",
        "rows grid 3 1", f"overlaps columns grid 128 2 {base} {base + 3 * row} 3", "result 0",
        "result 1",  # cudaErrorInvalidValue: a byte too few
        "result 716",  # cudaErrorMisalignedAddress
        "result 1",  # M = 0
        "result 1",  # what is written is also read
        "result 1",  # the workspace ends in the first array
        "rows grid 3 1", f"overlaps columns grid 128 2 {first - 6 * row} {first - 3 * row} 3", "result 0",
    ]  # fmt: skip


@every_program
def test_a_header_says_what_a_launch_takes(path):
    built, name = build_program(path), path.stem
    text = output_texts(built)[f"{name}.h"]
    for m in built.plan.arrays:
        assert f"// {m.name}: {m.dtype}" in text
    assert all(len(line) <= 120 for line in text.splitlines())
    for one in built.passes:
        grid = ", ".join(launch_info(one.plan)["grid_expression"])
        assert f"dim3 grid({grid}), block({one.plan.threads})" in text
        for p in arguments(one.plan.params):
            assert p.name in text


ODD = """
kernel: odd
params: {M: {default: 64, multiple_of: 32, max: 65536}, Q: {default: 7}, scale: {dtype: float32, default: 2.0}}
buffers:
  X: {scope: global, dtype: float32, shape: [M]}
  Y: {scope: global, dtype: float32, shape: [M]}
  w: {scope: workspace, dtype: float32, shape: ["max(M, 64)"]}
  n: {scope: workspace, dtype: float32, shape: [a.bx_count]}
passes:
  - name: a
    grid: {bx: "min(resident, M // 32)"}
    threads: 32
    ops:
      - fill: {scope: cta, dst: "n[bx : +1]", value: 1}
  - name: b
    when: max(Q, 4) % 3 > 1
    grid: {bx: "max(M, 64) // 32", by: M // 32}
    threads: 32
    ops:
      - {fill: {scope: cta, dst: "w[bx*32 : +32]", value: 0, when: by == 0}}
  - name: c
    grid: {bx: M // 32, by: a.bx_count * 40}
    threads: 32
    ops:
      - elementwise: {scope: cta, dst: "Y[bx*32 : +32]", expr: x * scale, with: {x: "X[bx*32 : +32]"}, when: by == 0}
"""


@requires_nvcc
@requires_gxx
def test_sizes_and_conditions_of_any_form_compile_and_are_checked_first(tmp_path):
    texts = output_texts(build(ODD))
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "main.cpp").write_text('#include "odd.h"\n')
    run(tmp_path, "g++", "-Wall", "-Wextra", "-Werror", *cuda_includes(tmp_path), "-c", "main.cpp")
    header = texts["odd.h"]
    launch = header[header.index("static inline cudaError_t launch_odd(") :]
    assert launch.index("a_bx_count * 40 > 65535") < launch.index("launch_odd_a(")
    assert (
        "if (M < 32 || M > 65536 || M % 32) return cudaErrorInvalidValue;"
        in header[header.index("workspace_of_odd(int") :]
    )
    assert "\n// M: 32 to 65536 in steps of 32\n" in header
