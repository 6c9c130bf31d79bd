"""What a multiprocessor does in a clock, and the least time that a launch takes which does so much.

Rates: floating-point operations of one multiprocessor in a clock. Fused multiply-adds: CUDA Programming Guide,
"Throughput of Native Arithmetic Instructions" (9.0): 128 of float32, 64 of float64. Tensor cores: NVIDIA H100 data
sheet divided by 132 multiprocessors at 1.83 GHz.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.arch import ARCHES
from tilegen.arch.data import occupancy, typical_device
from tilegen.cost.tally import Tally

TENSOR_RATES = {"float16": 4096, "bfloat16": 4096, "tfloat32": 2048, "int8": 8192, "float8_e4m3fn": 8192,
                "float8_e5m2": 8192, "float64": 256, "float32": 256}  # fmt: skip
# Of tcgen05, where an instruction of 128 x 256 took 128 clocks; those that it takes are others' (_TENSOR_CLOCKS).
TCGEN05_RATES = {"float16": 8192, "bfloat16": 8192, "tfloat32": 4096, "int8": 16384, "float8_e4m3fn": 16384,
                 "float8_e5m2": 16384}  # fmt: skip
SIMT_RATES = {"float32": 256, "float64": 128}
_SHARED_BYTES = 128  # of shared memory in a clock: 32 banks of 4 bytes (CUDA Programming Guide, "Shared Memory")
L2_BYTES_PER_CLOCK = 80.0  # of one multiprocessor
LAUNCH_SECONDS = 1.0e-6
LATENCY = 400  # clocks until elements are there
_FEW_REGISTERS = 40  # of a thread beside its sums, about


@dataclass(frozen=True)
class LaunchTerms:
    """What bounds how many CTAs run at once, and what leaves the memory.

    ``shared_bytes``: of a CTA. ``sums``: registers of a thread that hold what products add to. ``factors``: the type
    that products multiply, "" for none. ``array_bytes``: of the caller's arrays.
    """

    arch: str
    ctas: int
    threads: int
    shared_bytes: int
    sums: int
    factors: str
    array_bytes: int


def bound_seconds(terms: LaunchTerms, tally: Tally) -> float:
    """The least seconds of a launch: of its products, its shared memory, its L2 and its memory the one that takes the
    longest, in whole waves of CTAs.

    >>> from dataclasses import replace
    >>> one = LaunchTerms("sm_90a", 264, 256, 65536, 64, "bfloat16", 1 << 20)
    >>> many = Tally(products=1 << 34, staged=1 << 20)
    >>> bound_seconds(one, many) < bound_seconds(replace(one, ctas=265, shared_bytes=131072), many)
    True
    >>> bound_seconds(one, many) < bound_seconds(replace(one, threads=32), many)  # one warp feeds one of four units
    True
    """
    device, arch = typical_device(terms.arch), ARCHES[terms.arch]
    warps = -(-terms.threads // arch.warp_lanes)
    registers = min(arch.max_registers_per_thread, _FEW_REGISTERS + terms.sums)
    held = max(1, occupancy(arch, terms.threads, registers, terms.shared_bytes) // warps)
    at_once = device.sm_count * held
    waves = -(-terms.ctas // at_once) * at_once / max(1, terms.ctas) if terms.ctas > at_once else 1.0
    busy = min(device.sm_count, terms.ctas)
    fed = min(1.0, warps * min(held, -(-terms.ctas // busy)) / arch.sm_partitions)  # each partition has its own unit
    clocks = max(
        2 * tally.products / fed / TENSOR_RATES.get(terms.factors, SIMT_RATES["float32"]),
        (tally.staged + tally.read + tally.joined) / _SHARED_BYTES,
        sum(tally.fetched.values()) / L2_BYTES_PER_CLOCK,
    )
    inside = clocks / busy / device.clock_hz * waves
    return max(inside, terms.array_bytes / device.memory_bytes_per_s) + LAUNCH_SECONDS
