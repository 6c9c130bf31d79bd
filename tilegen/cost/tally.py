"""What a launch of a product does, as plain counts; ``ops/tally.py`` counts them in the statements of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BY_TMA, BY_CP_ASYNC, BY_THREADS = "tma", "cp_async", "threads"  # what brings elements into shared memory


@dataclass(frozen=True)
class Tally:
    """Sums over all CTAs of a launch. What boxes have beyond the edges of arrays counts as the rest does.

    ``fetched``: bytes of global memory brought into shared memory, by what brings them; what a multicast brings to
    several CTAs once. ``staged``: bytes that shared memory gets of it, in all of them. ``read``: bytes of shared memory
    that products take, through registers or not: what one warp (of wgmma, a warpgroup) reads, once. ``products``:
    multiply-adds. ``stored``: bytes written to global memory. ``aside``: bytes of global memory read into registers.
    ``waits``: for phases of mbarriers, each role's or CTA's once; ``arrivals`` at them by statements. ``joined``: bytes
    of sums that warps made of parts of K, read from shared memory to be added up.

    Not counted: what goes from registers through shared memory on its way out.
    """

    fetched: Mapping[str, int] = field(default_factory=dict)
    staged: int = 0
    read: int = 0
    products: int = 0
    stored: int = 0
    aside: int = 0
    waits: int = 0
    arrivals: int = 0
    joined: int = 0

    def __add__(self, other: Tally) -> Tally:
        """
        >>> (Tally({"tma": 1}, 2) + Tally({"tma": 3, "threads": 4}, 5)).fetched
        {'tma': 4, 'threads': 4}
        """
        kinds = {**self.fetched, **other.fetched}
        return Tally(
            {kind: self.fetched.get(kind, 0) + other.fetched.get(kind, 0) for kind in kinds},
            self.staged + other.staged, self.read + other.read, self.products + other.products,
            self.stored + other.stored, self.aside + other.aside, self.waits + other.waits,
            self.arrivals + other.arrivals, self.joined + other.joined,
        )  # fmt: skip
