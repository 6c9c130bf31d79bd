"""How long a second kernel takes that adds up sums of parts of K. Fitted to docs/results/programs (H200)."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.arch.data import typical_device
from tilegen.cost.rates import LATENCY, LAUNCH_SECONDS

_EARLY_LAUNCH = 0.3e-6  # of a kernel whose CTAs are there when the one before ends
_PART, _SUMS_BYTES_PER_CLOCK = 160, 1000  # clocks of adding a part; sums are written, and read again, by all CTAs


@dataclass(frozen=True)
class Adding:
    """What a second kernel does that adds up sums of parts of K.

    ``parts``: of K. ``sum_bytes``: of all sums, each read once. ``other_bytes``: of the result, and of what its
    epilogue reads. ``is_early``: whether its launch overlaps the kernel before.
    """

    parts: int
    sum_bytes: int
    other_bytes: int
    is_early: bool


def estimate_sum(adding: Adding, arch: str) -> float:
    """Seconds that parts of K take beside their products: sums are written and read, and parts are added in order.

    >>> few, many = (estimate_sum(Adding(4, 4 << n, 1 << n, True), "sm_90a") for n in (20, 26))
    >>> round(few * 1e6, 1), round(many * 1e6, 1)
    (3.1, 136.6)
    """
    device = typical_device(arch)
    clocks = 2 * LATENCY + _PART * adding.parts + adding.sum_bytes / _SUMS_BYTES_PER_CLOCK
    leaves = adding.other_bytes / device.memory_bytes_per_s
    return max(clocks / device.clock_hz, leaves) + (_EARLY_LAUNCH if adding.is_early else LAUNCH_SECONDS)
