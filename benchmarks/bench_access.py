"""Accesses per second of the access model: ``python benchmarks/bench_access.py [accesses]``.

Wanted on a 2-core machine, in one process: 500,000/s up to 4 bytes a lane, 200,000/s at 16 bytes. Median of 5.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from tilegen.access import WIDTHS, bytes_floor, phases, sectors, wavefronts

MEASURED: dict[str, Callable[[int, np.ndarray], object]] = {
    "wavefronts ld": lambda width, offsets: wavefronts("ld", width, offsets),
    "wavefronts st": lambda width, offsets: wavefronts("st", width, offsets),
    "phases ld": lambda width, offsets: phases("ld", width, offsets),
    "sectors": sectors,
    "bytes_floor": bytes_floor,
}


def make_offsets(count: int, width: int) -> dict[str, np.ndarray]:
    """Random accesses within 48 KB: all lanes active, one lane in 32 off, lanes in equal pairs."""
    rng = np.random.default_rng(width)
    everyone = rng.integers(0, 48 * 1024 // width, (count, 32)) * width
    some = everyone.copy()
    some[rng.random(everyone.shape) < 1 / 32] = -1
    return {"all lanes": everyone, "some inactive": some, "pairs": everyone[:, np.arange(32) & ~1].copy()}


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print(f"{'':32}" + "".join(f"{width:>7} B" for width in WIDTHS) + "   thousand accesses per second")
    for pattern in ("all lanes", "some inactive", "pairs"):
        for name, function in MEASURED.items():
            rates = [measure_rate(function, width, make_offsets(count, width)[pattern]) for width in WIDTHS]
            print(f"{name:14} {pattern:17}" + "".join(f"{rate / 1e3:9.0f}" for rate in rates))


def measure_rate(function: Callable[[int, np.ndarray], object], width: int, offsets: np.ndarray) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        function(width, offsets)
        times.append(time.perf_counter() - start)
    return len(offsets) / statistics.median(times)


if __name__ == "__main__":
    main()
