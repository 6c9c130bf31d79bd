"""A product that is cut into tiles, and what a launch of it does, as plain counts.

``ops/tally.py`` counts them in the statements of a spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BY_TMA, BY_CP_ASYNC, BY_THREADS = "tma", "cp_async", "threads"  # what brings elements into shared memory


@dataclass(frozen=True)
class Work:
    """A product and how it is cut: sides M, N and K, tiles of a CTA, element bytes of factors and results.

    ``threads``: of a CTA. ``reads``: elements of a and of b that warps (of wgmma, warpgroups) read in all for one
    column of a tile's K. ``arrivers``: those of them that say at mbarriers that a k-tile is read, 0 without roles.
    ``panels``: parts in which a tile of d leaves. ``by_tma``: whether TMA writes them. ``aside_bytes``: of other arrays
    that a tile's epilogue reads. ``unused_reads``: elements of a and b that warps read after a tile's last k-tile.
    ``k_parts``: warps that share K and add up sums of ``sum_bytes`` each at the end. ``singles``: elements of a and b
    that threads load one by one for one column of a tile's K. ``copies``: by which cp.async brings that column.
    ``stores_singly``: threads write elements of results one by one, those of a column of a tile side by side.
    ``in_pairs``: the CTAs of a cluster have half of b's tile each, and one of them starts the products of both.
    ``lines``: of 128 bytes, that 128 bytes of a row of a or b lie in, on average: 1 where all rows begin at lines.
    """

    variant: str
    factors: str
    sides: tuple[int, int, int]
    batch: int
    tile: tuple[int, int, int]
    factor_bytes: int
    result_bytes: int
    stages: int
    ctas: int
    cluster: int
    threads: int
    reads: int
    arrivers: int = 0
    load: str = BY_TMA
    panels: int = 1
    by_tma: bool = True
    aside_bytes: int = 0
    unused_reads: int = 0
    k_parts: int = 1
    sum_bytes: int = 4
    singles: int = 0
    copies: float = 0
    lines: float = 1.0
    stores_singly: bool = False
    in_pairs: bool = False

    @property
    def own_columns(self) -> int:
        """Columns of b's tile that a CTA keeps."""
        return self.tile[1] // 2 if self.in_pairs else self.tile[1]

    @property
    def tiles(self) -> int:
        """Tiles of d: along M as many as the CTAs of a cluster take together, some of them beyond the edge."""
        (m, n, _), (bm, bn, _) = self.sides, self.tile
        return -(-m // (bm * self.cluster)) * self.cluster * -(-n // bn) * self.batch


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
