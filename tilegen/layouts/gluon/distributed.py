"""Gluon's distributed layouts by their own arguments; ``to_linear(shape)`` gives the bases that Triton gives.

They map register, lane, warp and block to the tensor. A tile smaller than the tensor is repeated over registers; what
reaches past the tensor becomes a copy (a zero basis). ``cga_layout`` holds one basis for each bit of the block, counted
in CTA tiles. All extents are powers of two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilegen.errors import LayoutError
from tilegen.layouts.gluon.bases import (
    GluonLayout,
    GluonTile,
    Rows,
    combine,
    freeze,
    mangle_numbers,
    mangle_rows,
    require_order,
    require_powers,
    require_rank,
    row_major_order,
)
from tilegen.layouts.linear.values import LinearLayout, linear_from_bases

DISTRIBUTED = ("register", "lane", "warp")


def _mma_tile(tile: GluonTile, extents: Mapping[int, int], k_width: int, order: Sequence[int]) -> GluonTile:
    """One tensor-core tile: k_width registers and 4 lanes inside, 8 lanes outside, then the tile's repeats.

    The figures are those of the PTX ISA, matrix fragments for mma.m16n8: groupID = lane / 4 selects the row.
    """
    inner, outer = order[0], order[1]
    if extents[outer] % 8 or extents[inner] % (4 * k_width):
        raise LayoutError(f"a tile of {extents[outer]} x {extents[inner]} is no multiple of 8 x {4 * k_width}")
    tile.grow("register", {inner: k_width}, (inner,)).grow("lane", {inner: 4, outer: 8}, (inner, outer))
    repeats = {outer: extents[outer] // 8, inner: extents[inner] // (4 * k_width)}
    return tile.grow("register", repeats, (outer, inner))


@dataclass(frozen=True)
class BlockedLayout(GluonLayout):
    """A block of elements for each thread, of threads for each warp, of warps for the CTA; order[0] is the fastest.

    Raises LayoutError for extents that are no powers of two, lists of different lengths, and a wrong order.

    >>> print(BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]).to_linear([16, 32]).bases["lane"])
    [[0, 4], [0, 8], [0, 16], [1, 0], [2, 0]]
    """

    size_per_thread: tuple[int, ...]
    threads_per_warp: tuple[int, ...]
    warps_per_cta: tuple[int, ...]
    order: tuple[int, ...]
    cga_layout: Rows = ()

    def __post_init__(self) -> None:
        freeze(self, "size_per_thread", "threads_per_warp", "warps_per_cta", "order", "cga_layout")
        require_order(self.order)
        require_rank(self, len(self.order), "size_per_thread", "threads_per_warp", "warps_per_cta")
        require_powers(self, "size_per_thread", "threads_per_warp", "warps_per_cta")

    @property
    def rank(self) -> int:  # type: ignore[override]
        return len(self.order)

    def _linear(self, shape: tuple[int, ...]) -> LinearLayout:
        tile = GluonTile(self.rank, DISTRIBUTED)
        tile.grow("register", self.size_per_thread, self.order)
        tile.grow("lane", self.threads_per_warp, self.order).grow("warp", self.warps_per_cta, self.order)
        return combine(tile, self.cga_layout, shape, self.order, drop=True)

    def _operand(self, shape: tuple[int, ...], k: int, cga_layout: Rows) -> LinearLayout:
        """An operand of a dot product in scalar code: each thread holds all of k."""
        tile = GluonTile(self.rank, DISTRIBUTED)
        held = [shape[d] if d == k else n for d, n in enumerate(self.size_per_thread)]
        tile.grow("register", held, self.order)
        tile.grow("lane", self.threads_per_warp, self.order, copied=k)
        tile.grow("warp", self.warps_per_cta, self.order, copied=k)
        return combine(tile, cga_layout, shape, self.order, drop=False)

    def mangle(self) -> str:
        """Gluon's name for the layout."""
        parts = mangle_numbers(self.size_per_thread, self.threads_per_warp, self.warps_per_cta, self.order)
        return f"B{parts}_{mangle_rows(self.cga_layout)}B"


@dataclass(frozen=True)
class NVMMADistributedLayout(GluonLayout):
    """Accumulators of a tensor core: version [2, 0] is mma.sync, [3, 0] wgmma; ``instr_shape`` is M, N (and K).

    Lane l holds rows l / 4 and l / 4 + 8 and column pairs 2 (l % 4), of each 16 x 8 part (PTX ISA, matrix fragments
    of mma.m16n8 and of wgmma). Raises LayoutError for other versions and extents.

    >>> print(NVMMADistributedLayout([2, 0], [1, 1], [16, 8]).to_linear([16, 8]).bases["register"])
    [[0, 1], [8, 0]]
    """

    version: tuple[int, ...]
    warps_per_cta: tuple[int, ...]
    instr_shape: tuple[int, ...]
    cga_layout: Rows = ()

    def __post_init__(self) -> None:
        freeze(self, "version", "warps_per_cta", "instr_shape", "cga_layout")
        if self.version[:1] not in ((2,), (3,)):
            raise LayoutError(f"version {list(self.version)} is neither [2, 0] (mma.sync) nor [3, 0] (wgmma)")
        if self.rank < 2 or len(self.instr_shape) < (2 if self.is_wgmma else self.rank):
            raise LayoutError(f"instr_shape {list(self.instr_shape)} does not give M and N of rank {self.rank}")
        require_rank(self, self.rank)
        require_powers(self, "warps_per_cta")

    @property
    def rank(self) -> int:  # type: ignore[override]
        return len(self.warps_per_cta)

    @property
    def is_wgmma(self) -> bool:
        """Whether warps go down the rows first, as the four of a warpgroup do."""
        return self.version[0] == 3

    @property
    def _warp_order(self) -> list[int]:
        return list(range(self.rank)) if self.is_wgmma else row_major_order(self.rank)

    def _linear(self, shape: tuple[int, ...]) -> LinearLayout:
        order = row_major_order(self.rank)
        tile_shape = self.instr_shape[:2] if self.is_wgmma else self.instr_shape[: self.rank]
        extents = dict(enumerate(tile_shape, self.rank - len(tile_shape)))
        tile = _mma_tile(GluonTile(self.rank, DISTRIBUTED), extents, 2, order)
        tile.grow("warp", self.warps_per_cta, self._warp_order)
        return combine(tile, self.cga_layout, shape, order, drop=False)

    def _operand(self, shape: tuple[int, ...], k: int, cga_layout: Rows, k_width: int) -> LinearLayout:
        if k == self.rank - 2 and self.is_wgmma:
            raise LayoutError("wgmma reads operand B from shared memory, not from registers")
        other = 2 * self.rank - 3 - k
        extents = {k: 8 * k_width, other: 16 if k == self.rank - 1 else 8}
        order = [k, other, *range(self.rank - 3, -1, -1)]
        tile = _mma_tile(GluonTile(self.rank, DISTRIBUTED), extents, k_width, order)
        tile.grow("warp", self.warps_per_cta, self._warp_order, copied=k)
        return combine(tile, cga_layout, shape, order, drop=False)

    def mangle(self) -> str:
        """Gluon's name for the layout."""
        numbers = (list(v) for v in (self.version, self.warps_per_cta, self.instr_shape))
        return f"MMA_{'_'.join(map(str, numbers))}_{mangle_rows(self.cga_layout)}_MMA"


@dataclass(frozen=True)
class DotOperandLayout(GluonLayout):
    """Operand A (0) or B (1) of the matrix product whose result lies as ``parent``; ``k_width`` elements in 32 bits.

    Raises LayoutError for other operands and parents.

    >>> mma = NVMMADistributedLayout([2, 0], [1, 1], [16, 8])
    >>> print(DotOperandLayout(1, mma, 1).to_linear([8, 8]).bases["register"])
    [[4, 0]]
    """

    operand_index: int
    parent: BlockedLayout | NVMMADistributedLayout
    k_width: int

    def __post_init__(self) -> None:
        if self.operand_index not in (0, 1):
            raise LayoutError(f"operand_index is 0 (A) or 1 (B), not {self.operand_index!r}")
        if not isinstance(self.parent, (BlockedLayout, NVMMADistributedLayout)) or self.parent.rank < 2:
            raise LayoutError(f"the parent of a DotOperandLayout is the layout of a matrix product, not {self.parent}")
        if isinstance(self.parent, NVMMADistributedLayout):
            require_powers(self, "k_width")

    @property
    def rank(self) -> int:  # type: ignore[override]
        return self.parent.rank

    @property
    def cga_layout(self) -> Rows:
        """That of the parent, with copies along k."""
        k = self._k
        return tuple((*b[:k], 0, *b[k + 1 :]) for b in self.parent.cga_layout)

    @property
    def _k(self) -> int:
        return self.rank - 1 if self.operand_index == 0 else self.rank - 2

    def _linear(self, shape: tuple[int, ...]) -> LinearLayout:
        if isinstance(self.parent, BlockedLayout):
            return self.parent._operand(shape, self._k, self.cga_layout)
        return self.parent._operand(shape, self._k, self.cga_layout, self.k_width)

    def mangle(self) -> str:
        """Gluon's name for the layout."""
        return f"DO{self.operand_index}_{self.parent.mangle()}_{self.k_width}DO"


@dataclass(frozen=True)
class SliceLayout(GluonLayout):
    """A distributed layout without dimension ``dim``: what is left of it when the tensor is 1 wide there.

    Registers that differ only along ``dim`` are one. Raises LayoutError for a dimension that the parent does not have.

    >>> print(SliceLayout(1, BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])).to_linear([16]).bases["warp"])
    [[4], [8]]
    """

    dim: int
    parent: BlockedLayout | NVMMADistributedLayout | DotOperandLayout | SliceLayout

    def __post_init__(self) -> None:
        distributed = (BlockedLayout, NVMMADistributedLayout, DotOperandLayout, SliceLayout)
        if not isinstance(self.parent, distributed) or self.parent.rank < 2:
            raise LayoutError(f"the parent of a slice is distributed and has two or more dimensions, not {self.parent}")
        if not isinstance(self.dim, int) or not 0 <= self.dim < self.parent.rank:
            raise LayoutError(f"{self.parent} has no dimension {self.dim}")

    @property
    def rank(self) -> int:  # type: ignore[override]
        return self.parent.rank - 1

    def _linear(self, shape: tuple[int, ...]) -> LinearLayout:
        whole = self.parent.to_linear((*shape[: self.dim], 1, *shape[self.dim :]))
        bases = {n: [(*b[: self.dim], *b[self.dim + 1 :]) for b in found] for n, found in whole.inputs}
        bases["register"] = [b for b in bases["register"] if any(b)]
        return linear_from_bases(bases, shape)

    def mangle(self) -> str:
        """Gluon's name for the layout."""
        return f"SL{self.dim}_{self.parent.mangle()}SL"


def distributed_linear(
    reg_bases: Sequence[Sequence[int]],
    lane_bases: Sequence[Sequence[int]],
    warp_bases: Sequence[Sequence[int]],
    block_bases: Sequence[Sequence[int]],
    shape: Sequence[int],
) -> LinearLayout:
    """Gluon's DistributedLinearLayout, which is a LinearLayout of register, lane, warp and block.

    >>> print(distributed_linear([[1]], [[2]], [], [], [4]))
    LinearLayout(register=[[1]], lane=[[2]], warp=[], block=[], shape=[4])
    """
    return LinearLayout(register=reg_bases, lane=lane_bases, warp=warp_bases, block=block_bases, shape=shape)
