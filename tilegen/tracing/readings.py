"""Stamps as the buffer has them, read by thread: where it ran, and when each stamp was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
RECORD_BYTES = 8
_LOW = 1 << 32


@dataclass(frozen=True)
class Reading:
    """What one thread stamped, in order: ``numbers`` of sites, ``clocks`` of its SM.

    ``team``: which warpgroup of its role the thread is the first of. ``begin`` and ``end``: the clock, and the timer of
    the GPU in ns. ``left_out``: stamps that the thread had no place for, behind these.
    """

    cta: Cta
    role: str
    team: int
    sm: int
    begin: tuple[int, int]
    end: tuple[int, int]
    numbers: Array
    clocks: Array
    left_out: int = 0

    def clock_at(self, k: int) -> int:
        """The clock of stamp ``k``, or the thread's last where there are no more."""
        return int(self.clocks[k]) if k < len(self.clocks) else self.end[0]

    @property
    def is_full(self) -> bool:
        return self.left_out > 0


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
    words = np.ascontiguousarray(image).view("<u4").reshape(len(ctas), len(stampers), -1, 2).astype(np.int64)
    return [
        _read_part(cta, role, team, words[i, j])
        for i, cta in enumerate(ctas)
        for j, (role, team) in enumerate(stampers)
    ]


def _read_part(cta: Cta, role: str, team: int, part: Array) -> Reading:
    sm, count = map(int, part[0])
    begin, end = (_wide(part[2]), _wide(part[1])), (_wide(part[4]), _wide(part[3]))
    if not begin[1] or not end[1]:
        what = "never began" if not begin[1] else "began, and never ended"
        raise ProofError(Diagnostic(DAMAGED, f"the stamps of role {role} of CTA {cta} say that it {what}"))
    own = part[HEAD_RECORDS:][:count]
    steps = np.diff(own[:, 1], prepend=begin[0] % _LOW) % _LOW  # a clock's low half begins anew every 2 s
    return Reading(cta, role, team, sm, begin, end, own[:, 0], begin[0] + np.cumsum(steps), count - len(own))


def _wide(halves: Array) -> int:
    return int(halves[0]) + int(halves[1]) * _LOW


# ---------------------------------------------------------------- one time for all SMs
@dataclass(frozen=True)
class Scale:
    """How clocks become times, in ns from the begin of the first thread: ``ghz`` is cycles in a ns.

    ``starts``: of each SM a clock, and its time. ``resolution_ns``: the least step of the timer that was seen.
    """

    ghz: float
    starts: Mapping[int, tuple[int, float]]
    resolution_ns: int

    def time_at(self, sm: int, clock: int) -> float:
        first, start = self.starts[sm]
        return start + (clock - first) / self.ghz


def fit_scale(readings: Sequence[Reading]) -> Scale:
    """The scale that fits the timers of all readings: one frequency, and a start for each SM.

    Timers count from 1970 and clocks from when the GPU was powered up: a float64 has no place for the ns of either, so
    the first of each is taken away before.

    >>> none, now = np.array([], np.int64), 1_790_000_000_123_456_789
    >>> reading = Reading((0, 0, 0), "all", 0, 7, (9 << 50, now), ((9 << 50) + 2000, now + 1000), none, none)
    >>> fit_scale([reading]).time_at(7, (9 << 50) + 202)
    101.0
    """
    origin = min(r.begin[1] for r in readings)
    pairs: dict[int, list[tuple[int, int]]] = {}
    for r in readings:
        pairs.setdefault(r.sm, []).extend((r.begin, r.end))
    cycles = sum(r.end[0] - r.begin[0] for r in readings)
    ns = sum(r.end[1] - r.begin[1] for r in readings)
    ghz = cycles / ns if cycles > 0 and ns > 0 else 1.0
    starts = {}
    for sm, own in pairs.items():
        first = own[0][0]
        offsets = [timer - origin - (clock - first) / ghz for clock, timer in own]
        starts[sm] = first, float(np.mean(offsets))
    seen = np.unique([timer - origin for own in pairs.values() for _, timer in own])
    return Scale(ghz, starts, int(np.diff(seen).min()) if len(seen) > 1 else 1)
