"""The GPU that an arch's kernels usually run on: what the models of time take where no device is at hand.

Models rank candidates with these numbers; nothing that is proved or counted rests on them. Sources: the vendor's
datasheets and architecture white papers of the products named here (memory bandwidth, L2 size, multiprocessors, boost
clock).
"""

from __future__ import annotations

from dataclasses import dataclass

MB = 1 << 20


@dataclass(frozen=True)
class Device:
    """A product: multiprocessors, bytes of L2, bytes per second of its memory, cycles per second under load."""

    product: str
    sm_count: int
    l2_bytes: int
    memory_bytes_per_s: float
    clock_hz: float


_TYPICAL = {
    "sm_80": Device("A100 80 GB", 108, 40 * MB, 2.04e12, 1.41e9),
    "sm_86": Device("A40", 84, 6 * MB, 0.696e12, 1.74e9),
    "sm_89": Device("L40S", 142, 96 * MB, 0.864e12, 2.52e9),
    "sm_90": Device("H200", 132, 60 * MB, 4.8e12, 1.98e9),
    "sm_100": Device("B200", 148, 126 * MB, 8.0e12, 1.96e9),
    "sm_120": Device("RTX 5090", 170, 96 * MB, 1.79e12, 2.41e9),
}


def typical_device(arch: str) -> Device:
    """The product that stands for an arch.

    >>> typical_device("sm_90a").product
    'H200'
    """
    return _TYPICAL[arch.rstrip("a")]
