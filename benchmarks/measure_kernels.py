"""A spec on the GPU: right for every parameter case, the resources of its kernels, its time beside its peers."""

from __future__ import annotations

from typing import Any

from gpu_files import hash_code
from launch_once import build_for
from python_calls import AnyBuilt

from tilegen import bench, gpu
from tilegen.errors import TilegenError
from tilegen.pipeline import Built, BuiltProgram, kernels_of
from tilegen.proofs.floats import computes
from tilegen.verifying import compile_for, verify_built

LARGE = (  # sizes at which time says something
    ("specs/transpose_tile.yaml", {"M": 8192, "N": 8000}), ("specs/copy_tile.yaml", {"M": 8192, "N": 8192}),
    ("specs/copy_staged.yaml", {"M": 16384, "N": 8192}), ("specs/copy_tma.yaml", {"M": 8192, "N": 8192}),
    ("specs/copy_ring.yaml", {"M": 65536, "N": 1024}), ("specs/permute_ring.yaml", {"B": 64, "M": 1024, "N": 1024}),
)  # fmt: skip
SAYING_BYTES = 16 << 20  # below, launch overhead is all that a ratio to a copy would show
TIMED = ("bytes", "launches", "sets", "cold", "median_us", "quartiles_us", "gb_per_s", "of_ceiling")


def check_kernel(device: gpu.Device, built: AnyBuilt) -> dict[str, Any]:
    """Correctness over two seeds and every parameter case, and registers; ``error`` where it is wrong.

    Of a spec with passes each is compared, then all of them in a row; ``passes`` has the registers of each kernel.
    """
    row: dict[str, Any] = {"code_sha256": hash_code(built.source)}
    try:
        verified = verify_built(built, "gpu", [1, 2])
        taken = {one.plan.name: resources(compile_for(device, one)) for one in kernels_of(built)}
    except (TilegenError, gpu.CompileError) as error:
        return row | {"correct": False, "error": str(error)[:400]}
    exact = {} if any(computes(one.spec) for one in kernels_of(built)) else {"max_error": 0}
    own = {"passes": taken} if isinstance(built, BuiltProgram) else taken[built.plan.name]
    return row | {"correct": True} | exact | {"cases": list(verified.lines)} | own


def build_and_check(path: str) -> tuple[AnyBuilt, dict[str, Any]]:
    """What a spec is built to, and its row without times; runs in a process of its own."""
    device = gpu.require_gpu()
    built = build_for(device, path)
    return built, check_kernel(device, built)


def time_kernel(session: bench.Session, built: Built) -> dict[str, Any]:
    """The median time and the ratios to peers of a kernel that is right."""
    return timing(bench.bench_built(session, built, bench.BenchWishes(is_verified=True)))


def resources(cubin: gpu.Cubin) -> dict[str, int]:
    return {
        "registers": cubin.registers, "stack_bytes": cubin.stack_bytes, "shared_bytes": cubin.shared_bytes,
        "spill_bytes": cubin.spill_store_bytes + cubin.spill_load_bytes,
    }  # fmt: skip


def timing(result: bench.Result) -> dict[str, Any]:
    """What a row of the results keeps: times, and a ratio to each peer that took part."""
    data = bench.result_data(result)
    kept = {key: data[key] for key in TIMED}
    kept["ratios"] = {name: peer["ratio"] for name, peer in data["peers"].items()}
    if data["bytes"] >= SAYING_BYTES:
        kept["ratio_to_copy"] = data["peers"]["copy"]["ratio"]
    return kept


def summary(name: str, row: dict[str, Any]) -> str:
    """A row on one line, for whoever watches."""
    state = "ok" if row["correct"] else f"WRONG {row['error']}"
    speed = f"{row['median_us']:.1f} us, {row['gb_per_s']} GB/s" if "median_us" in row else "not timed"
    ratios = "".join(f", {peer} {ratio:.3f}" for peer, ratio in row.get("ratios", {}).items())
    return f"{name:44s} {state}, {speed}{ratios}"
