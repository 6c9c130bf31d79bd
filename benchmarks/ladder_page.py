"""The ladder of GEMMs of docs/hopper.md: what each moves and multiplies, what follows from that, what was measured."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

from tilegen.arch import ARCHES
from tilegen.arch.data import typical_device
from tilegen.cost.compiled import compiled_accesses
from tilegen.cost.count import count_access
from tilegen.cost.needs import count_bytes
from tilegen.pipeline import load
from tilegen.planner import plan_spec
from tilegen.spec.outline import launch_of

ROOT = Path(__file__).resolve().parent.parent
RUNGS = (
    "sgemm_step1 4096", "hgemm_step4 4096", "hgemm_roles 4096", "hgemm_persistent 4096", "hgemm_cluster 4096",
    "hgemm_ring 8192", "hgemm_roles 8192", "hgemm_persistent 8192", "hgemm_cluster 8192",
)  # fmt: skip
# Floating-point operations of one multiprocessor in a clock. simt: a multiply-add of each of 128 lanes (CUDA
# Programming Guide, "Throughput of Native Arithmetic Instructions", 9.0). Tensor cores, 16-bit operands: 989 TFLOP/s
# of 132 multiprocessors at 1.83 GHz (NVIDIA H100 data sheet); mma.sync cannot be faster than that.
RATES = {"simt": 256, "mma_sync": 4096, "wgmma": 4096}
HEAD = ("kernel, sides", "GFLOP", "GiB read", "arithmetic, us", "shared memory, us", "bound by", "measured, us",
        "of the bound", "TFLOP/s", "t_cublas / t")  # fmt: skip


def ladder_table(name: str, result: dict[str, Any]) -> str:
    """A row for each rung: counts of all CTAs, least times at the device's clock, and the product's measurement."""
    rows = [ladder_row(rung, result["products"][rung]) for rung in RUNGS if rung in result.get("products", {})]
    if not rows:
        return f"Not measured on {result['device']} yet."
    where = f"Measured on {result['device']}, driver {result['driver']}, {result['date']}: `docs/results/{name}`."
    lines = [where, "", f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def ladder_row(rung: str, row: dict[str, Any]) -> tuple[str, ...]:
    """What one rung should take at least, and took."""
    if not row["correct"]:
        return (rung, *[""] * (len(HEAD) - 2), "WRONG")
    spec = load(ROOT / "specs" / f"{row['spec']}.yaml", row["arch"], row["params"])
    plan, launch = plan_spec(spec), launch_of(spec)
    sides = {c.name: c.value for c in spec.constants}
    accesses = compiled_accesses(plan)
    wavefronts = sum(count_access(a, launch, None).wavefronts for a in accesses)
    read = sum(count_bytes(a, launch, None) for a in accesses if a.memory.space == "global" and not a.writes)
    flops, device = 2.0 * prod(sides[name] for name in "MNK"), typical_device(row["arch"])
    (variant,) = {o.variant for o in plan.operations if o.op == "mma"}
    clocks = {
        "arithmetic": flops / RATES[variant] / device.sm_count,
        "shared memory": wavefronts / ARCHES[row["arch"]].wavefronts_per_clock / device.sm_count,
    }
    times = {what: n / device.clock_hz * 1e6 for what, n in clocks.items()}
    bound = max(times, key=lambda what: times[what])
    return (
        f"`{row['spec']}` {sides['M']}", f"{flops / 1e9:.0f}", f"{read / 2**30:.2f}",
        *(f"{times[what]:.0f}" for what in ("arithmetic", "shared memory")), bound, f"{row['median_us']}",
        f"{times[bound] / row['median_us']:.2f}", f"{row['tflops']}", f"{row['peers']['cublas']['ratio']:.3f}",
    )  # fmt: skip
