"""The text of tensor memory: how it reads, that it compiles without a spill, and no loops around what one starts."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.parts import change_parts
from tests.nvcc.compile import compile_text, requires_nvcc
from tests.ptx.blackwell_runs import find_disassembler
from tests.tensor.plans import GEMMS, Gemm, plan_alone, plan_gemm, plan_round_trip, tensor_memory, wid_in_wg
from tests.text.run import requires_gxx
from tilegen.gpu import compile_cubin, find_compilers
from tilegen.index import Index, Var, add, mul
from tilegen.pipeline import load
from tilegen.plan import (
    TENSOR_LOADS,
    Barrier,
    Block,
    MatrixDescriptor,
    Move,
    Plan,
    Role,
    Step,
    Wait,
    find_allocator,
    flat_memory,
)
from tilegen.plan.descriptors import TCGEN05
from tilegen.planner import plan_spec
from tilegen.render import launch_info, render, render_prelude
from tilegen.render.c_text import cell_address

ROOT = Path(__file__).parents[2]
SWIZZLES = (0, 32, 64, 128)
LINES = 'extern "C" __global__'
DISASSEMBLER = shutil.which("cuobjdump") or find_disassembler()
requires_disassembler = pytest.mark.skipif(
    DISASSEMBLER is None or shutil.which("nvcc") is None, reason="nvcc, and cuobjdump or nvdisasm, are not here"
)
every_gemm = pytest.mark.parametrize("name", GEMMS)
PLANS = {"gemm": plan_gemm(Gemm()), "float32": plan_round_trip(), "bfloat16": plan_round_trip("bfloat16", 64, 4)}


def kernel_of(text: str) -> str:
    return text[text.index(LINES) :]


# ---------------------------------------------------------------- how it reads
def test_one_warp_takes_columns_and_frees_them_when_all_are_done() -> None:
    text = kernel_of(render(PLANS["gemm"]))
    first, roles = text.split("    if (threadIdx.x < 32) {  // load: 32 threads")
    last = roles[roles.index("    }\n\n") :]
    assert first.endswith(
        "    if (threadIdx.x / 32 == 1) {\n        tmem_alloc<64>(tmem_base);\n        tmem_alloc_done();\n    }\n"
        "    tmem_fence_before();\n    __syncthreads();\n    tmem_fence_after();\n"
        "    const unsigned acc = *tmem_base;\n\n"
    )
    assert first.count("__syncthreads") == 1 and first.index("fence_async") < first.index("tmem_alloc")
    assert last == (
        "    }\n\n    __syncwarp();\n    tmem_fence_before();\n    __syncthreads();\n    tmem_fence_after();\n"
        "    if (threadIdx.x / 32 == 1) {\n        tmem_free<64>(*tmem_base);\n    }\n}\n"
    )
    assert "return" not in roles


def test_the_address_of_tensor_memory_is_counted_as_shared_memory() -> None:
    stages, barriers = 2 * (128 + 64) * 128, 5 * 8
    assert launch_info(PLANS["gemm"])["dynamic_shared_bytes"] == stages + barriers + 4
    assert launch_info(PLANS["float32"])["static_shared_bytes"] == 4
    assert f"unsigned *const tmem_base = (unsigned *)(smem + {stages + barriers});" in render(PLANS["gemm"])
    assert "__shared__ unsigned tmem_base[1];" in render(PLANS["float32"])
    assert launch_info(replace(PLANS["float32"], tensor_columns=0))["static_shared_bytes"] == 0


def test_names_of_a_kernel_are_not_taken_again() -> None:
    plan = plan_gemm(Gemm())
    rename = {"full": "tmem_base", "free": "elected"}
    text = kernel_of(render(rename_barriers(plan, rename)))
    assert "unsigned long long *const tmem_base = " in text and "tmem_alloc<64>(tmem_base2);" in text
    assert "const bool elected2 = is_elected();" in text and "*const elected = " in text


def rename_barriers(plan: Plan, names: dict[str, str]) -> Plan:
    def other(x: object) -> object:
        return replace(x, name=names[x.name]) if isinstance(x, Barrier) and x.name in names else None

    return change_parts(plan, other, "barriers", "roles")


@pytest.mark.parametrize(
    ("lane", "at", "dtype", "text"),
    [
        (0, 0, "float32", "t"),
        (0, 7, "float32", "t + 7"),
        (96, 0, "float32", "t + (3 << 21)"),
        (mul(wid_in_wg, 32), 4, "float32", "t + (wid_in_wg << 21) + 4"),
        (add(mul(wid_in_wg, 32), 16), 0, "float32", "t + ((wid_in_wg * 2 + 1) << 20)"),
        (0, mul(Var("p", 4), 64), "bfloat16", "t + p * 32"),
        (0, 8, "float8_e4m3fn", "t + 2"),
        (0, Var("k", 9) % 2, "float32", "t + (k & 1)"),
        (0, add(Var("k", 9) % 2 * 128, Var("p", 4) * 32), "float32", "t + (k & 1) * 128 + p * 32"),
    ],
)
def test_cells_are_addressed_by_lane_and_column(lane: Index, at: Index, dtype: str, text: str) -> None:
    assert cell_address(tensor_memory("t", dtype, 128, 128)[lane, at]) == text


def test_an_element_inside_of_a_column_has_no_address() -> None:
    with pytest.raises(AssertionError, match="begins inside of a column"):
        cell_address(tensor_memory("t", "bfloat16", 128, 128)[0, Var("e", 8)])


def test_a_buffer_begins_at_its_column() -> None:
    assert "const unsigned t = *tmem_base + 4;" in render(PLANS["bfloat16"])
    assert "tmem_store_16((const unsigned *)&x[0], t + (wid_in_wg << 21));" in render(PLANS["bfloat16"])
    assert "tmem_store_16((const unsigned *)&x[32], t + (wid_in_wg << 21) + 16);" in render(PLANS["bfloat16"])


@pytest.mark.parametrize(
    ("name", "form", "said"),
    [
        ("bf16", "0x08100490u", "m128n64k16, f32 of bf16 and bf16"),
        ("f16", "0x08100010u", "m128n64k16, f32 of f16 and f16"),
        ("wide", "0x08400490u", "m128n256k16, f32 of bf16 and bf16"),
        ("tf32", "0x08100910u", "m128n64k8, f32 of tf32 and tf32"),
        ("e4m3 by e5m2", "0x08100410u", "m128n64k32, f32 of e4m3 and e5m2"),
        ("s8 by u8", "0x081000a0u", "m128n64k32, s32 of s8 and u8"),
        ("of 8 columns", "0x08020490u", "m128n8k16, f32 of bf16 and bf16"),
    ],
)
def test_a_product_says_its_shape_and_types(name: str, form: str, said: str) -> None:
    text, gemm = render(plan_gemm(GEMMS[name])), GEMMS[name]
    assert re.search(rf"// {said}\n +tcgen05_mma_{gemm.kind}\(acc, [^;]*, {form}, 0 < k \* 4 \+ s\);", text)
    assert f"tcgen05.mma.cta_group::1.kind::{gemm.kind} [%0], %1, %2, %3, adds;" in text
    assert "tcgen05_descriptor<16, 1024, 128>(sa) + s * 2" in text


LIES = [
    *(MatrixDescriptor(128, 2, along, swizzle, 4096, 1024, TCGEN05) for along in ("k", "mn") for swizzle in SWIZZLES),
    MatrixDescriptor(128, 4, "mn", 128, 8192, 1024, TCGEN05, 32),
    MatrixDescriptor(64, 1, "k", 0, 128, 262128, TCGEN05),
]


@requires_gxx
def test_the_preludes_descriptor_is_the_one_that_is_proved(tmp_path: Path) -> None:
    """The function of the prelude, compiled for the CPU, against MatrixDescriptor.encode."""
    starts, plan = (0, 1024, 0x2020, 0x38000 - 16), plan_gemm(Gemm())
    calls = [call_of(replace(plan, name="k"), lies) for lies in LIES]
    shown = "".join(f'std::printf("%llx\\n", {call}((const void *){at}ul));' for call in calls for at in starts)
    source = tmp_path / "descriptors.cpp"
    source.write_text(
        "#include <cstdio>\n#define __device__\n#define __forceinline__ inline\n"
        "static unsigned long long __cvta_generic_to_shared(const void *p) { return (unsigned long long)p; }\n"
        f"{render_prelude(plan)['tcgen05_descriptor']}\nint main() {{ {shown} }}\n"
    )
    subprocess.run(["g++", "-std=c++17", str(source), "-o", str(tmp_path / "run")], check=True)
    printed = subprocess.run([tmp_path / "run"], capture_output=True, text=True, check=True).stdout.split()
    assert [int(x, 16) for x in printed] == [lies.encode(at) for lies in LIES for at in starts]


def call_of(plan: Plan, lies: MatrixDescriptor) -> str:
    """What a product of an operand that lies so calls."""

    def other(x: object) -> object:
        return replace(lies, rows=128) if isinstance(x, MatrixDescriptor) and x.rows == 128 else None

    found = re.search(r"(tcgen05_descriptor<[^>]*>)\(sa\)", render(change_parts(plan, other)))
    assert found
    return found[1]


def test_registers_stay_behind_the_wait_that_brings_them() -> None:
    """Whoever waits: the function that loads, the one that uses them, or one that does nothing else."""
    text = render(PLANS["gemm"])
    assert "tmem_wait_load();\n    keep_registers<32>(x);\n" in text
    plan = PLANS["float32"]
    x = flat_memory("x", "float32", 64, "register", align_bytes=16)
    steps = list(plan.roles[0].steps)
    at = next(i for i, s in enumerate(steps) if isinstance(s, Wait) and s.queue == TENSOR_LOADS)
    alone = Block("wait", (), (steps[at],))
    assert "wait();\n    keep_registers<64>(y);\n" in render(with_steps(plan, [*steps[:at], alone, *steps[at + 1 :]]))
    stores = tuple(replace(s, src=x[s.src.at]) for s in steps[at + 1 :] if isinstance(s, Move))
    y = next(m for m in plan.memories if m.name == "y")
    use = Block("use", ((x, y[0]),), (steps[at], *stores))
    text = render(with_steps(plan, [*steps[:at], use]))
    assert "{\n    tmem_wait_load();\n    keep_registers<64>((float *)x);\n" in text
    assert text.count("keep_registers<64>") == 1


def with_steps(plan: Plan, steps: list[Step]) -> Plan:
    return replace(plan, roles=(replace(plan.roles[0], steps=tuple(steps)),))


def test_who_takes_columns() -> None:
    plan = plan_gemm(Gemm())
    load, mma, idle, store = plan.roles
    assert find_allocator(plan) == 1 and find_allocator(replace(plan, roles=(load, idle, mma, store))) == 3
    assert find_allocator(replace(plan, roles=(load, idle, store))) == 3
    assert find_allocator(replace(plan, roles=(load, idle))) == 0
    assert find_allocator(plan_round_trip()) == 0


def test_a_kernel_without_tensor_memory_has_nothing_of_it() -> None:
    X, x = PLANS["float32"].memories[0], flat_memory("x", "float32", 4, "register")
    plan = Plan("k", "sm_100a", (1, 1, 1), (X, x), (Role("all", 128, (Move(x[0], X[0, 0], 4),)),))
    assert not re.search("tmem|tcgen05|elect", render(plan))


# ---------------------------------------------------------------- compilers
@pytest.mark.skipif(not find_compilers(), reason="neither NVRTC nor nvcc is here")
@pytest.mark.sweep(3)
@every_gemm
def test_every_kind_compiles(name: str) -> None:
    plan = plan_gemm(GEMMS[name])
    cubin = compile_cubin(render(plan), plan.arch, plan.name)
    assert (cubin.stack_bytes, cubin.spill_store_bytes, cubin.spill_load_bytes) == (0, 0, 0)


@pytest.mark.sweep(2)
@requires_nvcc
@pytest.mark.parametrize("columns", [1, 2, 4, 8, 16, 32, 64, 128])
def test_every_width_of_a_move_compiles(columns: int) -> None:
    text = render(plan_round_trip("uint32", columns, parts=1))
    assert f"tcgen05.ld.sync.aligned.32x32b.x{columns}.b32" in text
    assert f"tcgen05.st.sync.aligned.32x32b.x{columns}.b32" in text
    report = compile_text(text, "sm_100a")
    assert (report.stack, report.spills, report.shared) == (0, 0, 4)


def read_sass(text: str, folder: Path) -> str:
    source, cubin = folder / "kernel.cu", folder / "kernel.cubin"
    source.write_text(text)
    command = ["nvcc", "-Werror", "all-warnings", "-arch=sm_100a", "-cubin", str(source), "-o", str(cubin)]
    subprocess.run(command, check=True, capture_output=True)
    shown = [str(DISASSEMBLER), *(["-sass"] if "cuobjdump" in str(DISASSEMBLER) else ["-c"]), str(cubin)]
    return subprocess.run(shown, check=True, capture_output=True, text=True).stdout


@pytest.mark.sweep(3)
@requires_nvcc
@every_gemm
def test_nvcc_warns_of_nothing_and_spills_nothing(name: str) -> None:
    plan = plan_gemm(GEMMS[name])
    report = compile_text(render(plan), plan.arch)
    assert (report.stack, report.spills) == (0, 0), report


_LOOP = "BRA.U.ANY"  # ptxas's loop over the threads that may start what only one can


@requires_disassembler
@pytest.mark.parametrize("name", ["bf16", "by TMA", "s8 by u8"])
def test_what_one_thread_starts_stands_in_no_loop(name: str, tmp_path: Path) -> None:
    sass = read_sass(render(plan_gemm(GEMMS[name])), tmp_path)
    product = "UTCIMMA" if name == "s8 by u8" else "UTCHMMA"
    assert sass.count(product) == 4 and sass.count("UTCBAR") == 2 and sass.count("UTMALDG.2D") == 2
    assert sass.count("LDTM.x32") == 2 and sass.count("UTMASTG.2D") == (2 if name == "by TMA" else 0)
    assert _LOOP not in sass and "STL" not in sass


@requires_disassembler
def test_nor_in_a_role_of_many_warps(tmp_path: Path) -> None:
    text = render(plan_alone(3))
    assert "    const bool elected = is_elected() && threadIdx.x < 32;\n" in text and "multiply(elected, " in text
    sass = read_sass(text, tmp_path)
    assert sass.count("UTCHMMA") == 4 and sass.count("UTCBAR") == 1 and sass.count("UTMALDG.2D") == 2
    assert _LOOP not in sass and "STL" not in sass


@requires_disassembler
def test_thread_0_would_stand_in_loops(tmp_path: Path) -> None:
    """The other test can fail: this is what it looks for."""
    text = render(plan_gemm(Gemm()))
    text = text.replace("bool elected = is_elected()", "bool elected = threadIdx.x % 32 == 0")
    assert read_sass(text, tmp_path).count(_LOOP) == 8


@requires_disassembler
def test_the_gemm_of_a_spec_has_the_instructions_of_one_by_hand(tmp_path: Path) -> None:
    """As nvcc makes them of a kernel written by hand: none in a loop over threads, no spill, all of a tile at once."""
    plan = plan_spec(load(ROOT / "specs" / "hgemm_blackwell.yaml"))
    text = render(plan)
    report, sass = compile_text(text, plan.arch), read_sass(text, tmp_path)
    assert (report.stack, report.spills) == (0, 0), report
    wanted = {"UTCHMMA": 4, "UTCBAR": 2, "UTMALDG.2D": 2, "UTMASTG.2D": 4, "LDTM.x64": 4, "STTM": 0, _LOOP: 0, "STL": 0}
    assert {name: sass.count(name) for name in wanted} == wanted
