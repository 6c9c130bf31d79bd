"""Stamps as the buffer has them, read by thread: where it ran, and when each stamp was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.errors import Diagnostic, ProofError
from tilegen.plan import Plan
from tilegen.render.stamps import HEAD_RECORDS, buffer_records, count_stampers

Array = NDArray[Any]
Cta = tuple[int, int, int]
DAMAGED = "TG495"
RECORD_BYTES = 16
_LOW = 1 << 32


@dataclass(frozen=True)
class Reading:
    """What one thread stamped, in order: ``numbers`` of sites, ``clocks`` of its SM, ``timers`` of the GPU in ns or 0.

    ``team``: which warpgroup of its role the thread is the first of. ``begin`` and ``end``: a clock and a timer each.
    ``is_full``: the thread had no place for more stamps than these.
    """

    cta: Cta
    role: str
    team: int
    sm: int
    begin: tuple[int, int]
    end: tuple[int, int]
    numbers: Array
    clocks: Array
    timers: Array
    is_full: bool = False

    def clock_at(self, k: int) -> int:
        """The clock of stamp ``k``, or the thread's last where there are no more."""
        return int(self.clocks[k]) if k < len(self.clocks) else self.end[0]

    def timer_at(self, k: int) -> int:
        """The timer of stamp ``k``, in ns, or the thread's last where there are no more."""
        return int(self.timers[k]) if k < len(self.timers) else self.end[1]


@dataclass(frozen=True)
class Tracing:
    """Which clusters of a launch are traced: every so many-th, by the order of the grid."""

    grid: Cta
    cluster: Cta
    every: int

    @property
    def clusters(self) -> int:
        return prod(self.grid) // prod(self.cluster)

    @property
    def traced(self) -> int:
        """How many clusters are."""
        return -(-self.clusters // self.every)

    def list_ctas(self) -> list[Cta]:
        """The traced CTAs, in the order of the buffer."""
        side = [n // c for n, c in zip(self.grid, self.cluster, strict=True)]
        found = []
        for k in range(0, self.clusters, self.every):
            base = k % side[0], k // side[0] % side[1], k // side[0] // side[1]
            for rank in range(prod(self.cluster)):
                x, y = rank % self.cluster[0], rank // self.cluster[0] % self.cluster[1]
                at = (x, y, rank // self.cluster[0] // self.cluster[1])
                i, j, n = (b * c + a for b, c, a in zip(base, self.cluster, at, strict=True))
                found.append((i, j, n))
        return found


def choose_clusters(grid: Sequence[int], cluster: Cta, ctas: int) -> Tracing:
    """Clusters from all over the grid, with so many CTAs at least, or all.

    How far apart they are has no divisor in common with the grid, so that no column of it is left out.

    >>> choose_clusters((64, 1, 1), (2, 1, 1), 32)
    Tracing(grid=(64, 1, 1), cluster=(2, 1, 1), every=1)
    >>> choose_clusters((4, 2, 1), (1, 1, 1), 2).list_ctas()
    [(0, 0, 0), (3, 0, 0), (2, 1, 0)]
    """
    x, y, z = grid
    clusters = prod(grid) // prod(cluster)
    most = max(1, clusters // -(-ctas // prod(cluster)))
    return Tracing((x, y, z), cluster, next(n for n in range(most, 0, -1) if gcd(n, clusters) == 1))


def buffer_bytes(plan: Plan, tracing: Tracing) -> int:
    """The size of the buffer of a launch."""
    return buffer_records(plan, tracing.traced) * RECORD_BYTES


def read_buffer(plan: Plan, tracing: Tracing, image: Array) -> list[Reading]:
    """The readings of a buffer, by CTA, role and warpgroup. ``image``: its bytes.

    Raises ProofError TG495 for a buffer that the kernel of this plan cannot have written.
    """
    stampers = [(role, team) for role, (_, count) in count_stampers(plan).items() for team in range(count)]
    ctas = tracing.list_ctas()
    words = np.ascontiguousarray(image).view("<u4").reshape(len(ctas), len(stampers), plan.stamps, 4).astype(np.int64)
    return [
        _read_part(cta, role, team, words[i, j])
        for i, cta in enumerate(ctas)
        for j, (role, team) in enumerate(stampers)
    ]


def _read_part(cta: Cta, role: str, team: int, part: Array) -> Reading:
    count, is_full = int(part[3, 0]), bool(part[3, 1])
    who = f"role {role} of CTA {cta}"
    begin, end = (_wide(part[1, :2]), _wide(part[0, 2:])), (_wide(part[2, :2]), _wide(part[2, 2:]))
    if not begin[1] or not end[1]:
        what = "never began" if not begin[1] else "began, and never ended"
        raise ProofError(Diagnostic(DAMAGED, f"the stamps of {who} say that it {what}"))
    if not 0 <= count <= len(part) - HEAD_RECORDS:
        raise ProofError(Diagnostic(DAMAGED, f"{who} says that it wrote {count} stamps, and has place for fewer"))
    own = part[HEAD_RECORDS : HEAD_RECORDS + count]
    steps = np.diff(own[:, 1], prepend=begin[0] % _LOW) % _LOW  # a clock's low half begins anew every 2 s
    timers = own[:, 2] + own[:, 3] * _LOW
    clocks = begin[0] + np.cumsum(steps)
    return Reading(cta, role, team, int(part[0, 0]), begin, end, own[:, 0], clocks, timers, is_full)


def _wide(halves: Array) -> int:
    return int(halves[0]) + int(halves[1]) * _LOW


# ---------------------------------------------------------------- one time for all SMs
@dataclass(frozen=True)
class Scale:
    """How clocks become times: ``ghz`` is cycles in a ns, ``starts`` the time of each SM's cycle 0, in ns.

    ``resolution_ns``: the least step of the timer that was seen.
    """

    ghz: float
    starts: dict[int, float]
    resolution_ns: int

    def time_at(self, sm: int, clock: int) -> float:
        return self.starts[sm] + clock / self.ghz


def fit_scale(readings: Sequence[Reading]) -> Scale:
    """The scale that fits the timers of all readings: one frequency, and a start for each SM."""
    pairs: dict[int, list[tuple[int, int]]] = {}
    for r in readings:
        pairs.setdefault(r.sm, []).extend(_list_pairs(r))
    cycles = sum(r.end[0] - r.begin[0] for r in readings)
    ns = sum(r.end[1] - r.begin[1] for r in readings)
    ghz = cycles / ns if cycles > 0 and ns > 0 else 1.0
    starts = {}
    for sm, own in pairs.items():
        clocks, timers = np.array(own, np.float64).T
        starts[sm] = float(np.mean(timers - clocks / ghz))
    seen = np.unique([timer for own in pairs.values() for _, timer in own])
    return Scale(ghz, starts, int(np.diff(seen).min()) if len(seen) > 1 else 1)


def _list_pairs(reading: Reading) -> Iterator[tuple[int, int]]:
    yield reading.begin
    yield from ((int(c), int(t)) for c, t in zip(reading.clocks, reading.timers, strict=True) if t)
    yield reading.end
