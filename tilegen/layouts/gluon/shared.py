"""Gluon's shared-memory layouts by their own arguments: offset (in elements) and block to the tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilegen.errors import LayoutError
from tilegen.layouts.core.iters import flatten, split
from tilegen.layouts.gluon.bases import (
    GluonLayout,
    GluonTile,
    Rows,
    combine,
    cta_part,
    freeze,
    mangle_rows,
    require_order,
    require_powers,
    require_rank,
    row_major_order,
)
from tilegen.layouts.linear.values import LinearLayout

MOST_TMA_EXTENT = 256  # cuTensorMapEncodeTiled: boxDim[i] is at most 256 elements


@dataclass(frozen=True)
class SwizzledSharedLayout(GluonLayout):
    """Rows along ``order``, with chunks of ``vec`` elements XORed by (row / per_phase) % max_phase.

    offset(row, col) = row * columns + (col XOR vec * (row / per_phase % max_phase)) % columns, rows and columns being
    order[1] and order[0] of one CTA's part; further dimensions follow. Raises LayoutError for numbers that are no
    powers of two and a wrong order.

    >>> print(SwizzledSharedLayout(2, 1, 4, [1, 0]).to_linear([4, 8]).bases["offset"])
    [[0, 1], [0, 2], [0, 4], [1, 2], [2, 4]]
    """

    vec: int
    per_phase: int
    max_phase: int
    order: tuple[int, ...]
    cga_layout: Rows = ()

    def __post_init__(self) -> None:
        freeze(self, "order", "cga_layout")
        require_order(self.order)
        require_rank(self, len(self.order))
        require_powers(self, "vec", "per_phase", "max_phase")

    @property
    def rank(self) -> int:  # type: ignore[override]
        return len(self.order)

    @property
    def alignment_bytes(self) -> int:
        """What Triton aligns the memory to."""
        return 16

    def _linear(self, shape: tuple[int, ...]) -> LinearLayout:
        linear = combine(GluonTile(self.rank, ("offset",)), self.cga_layout, shape, self.order, drop=False)
        if self.rank == 1:
            return linear
        column, row = self.order[:2]
        columns = max((b[column] for b in linear.bases["offset"]), default=0) * 2 or 1
        swizzled = [list(b) for b in linear.bases["offset"]]
        for basis in swizzled:
            basis[column] ^= self.vec * (basis[row] // self.per_phase % self.max_phase) % columns
        return LinearLayout(shape=shape, offset=swizzled, block=linear.bases["block"])

    def mangle(self) -> str:
        """Gluon's name for the layout."""
        order, cga = "_".join(map(str, self.order)), mangle_rows(self.cga_layout)
        return f"SSS_{self.vec}_{self.per_phase}_{self.max_phase}_{order}_{cga}_SSS"


@dataclass(frozen=True)
class NVMMASharedLayout(GluonLayout):
    """Shared memory as TMA writes it and tensor cores read it: 8-row atoms of ``swizzle_byte_width`` bytes.

    Chunks of 16 bytes are XORed by (row / (128 / width)) % (width / 16). Atoms stack along the rows of a TMA box (at
    most 256 elements a dimension, one atom wide), boxes follow. ``transposed`` makes dimension 0 the contiguous one;
    ``fp4_padded`` leaves 8 of each 16 bytes empty (copies, as bases). Raises LayoutError for other widths and for
    shapes smaller than an atom.

    >>> print(NVMMASharedLayout(32, 32).to_linear([16, 8]).bases["offset"])
    [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 4], [8, 0]]
    """

    swizzle_byte_width: int
    element_bitwidth: int
    rank: int = 2
    transposed: bool = False
    fp4_padded: bool = False
    cga_layout: Rows = ()

    def __post_init__(self) -> None:
        freeze(self, "cga_layout")
        require_rank(self, self.rank)
        if self.swizzle_byte_width not in (0, 32, 64, 128) or self.element_bitwidth not in (8, 16, 32, 64):
            raise LayoutError("swizzle_byte_width is 0, 32, 64 or 128, element_bitwidth 8, 16, 32 or 64")
        if self.fp4_padded and (self.swizzle_byte_width, self.element_bitwidth) != (128, 8):
            raise LayoutError("fp4_padded needs a swizzle of 128 bytes and elements of 8 bits")

    @property
    def alignment_bytes(self) -> int:
        """What Triton aligns the memory to: 8 rows of the swizzle, 128 without one."""
        return 8 * self.swizzle_byte_width or 128

    def _linear(self, shape: tuple[int, ...]) -> LinearLayout:
        part = cta_part(shape, self.cga_layout)
        box = [min(n, MOST_TMA_EXTENT) for n in part]
        if self.swizzle_byte_width == 0:
            order = row_major_order(self.rank)
            rotated = [0, *order[:-1]] if self.transposed else order
            tile = GluonTile(self.rank, ("offset",)).grow("offset", box, rotated)
            return combine(tile, self.cga_layout, shape, order, drop=False)
        contiguous = 0 if self.transposed else self.rank - 1
        atom = self._atom()
        width = atom.sizes[1]
        if self.rank < 2 or part[contiguous] < width:
            raise LayoutError(f"{self} needs {width} elements along dimension {contiguous}, not {part[contiguous]}")
        box[contiguous] = width
        rows, columns = (box[-1], prod(box[:-1])) if self.transposed else (prod(box[:-1]), box[-1])
        if rows < 8:
            raise LayoutError(f"{self} needs 8 rows, not {rows}")
        atom.grow_to("offset", (rows, columns), (0, 1))
        tile = GluonTile(self.rank, ("offset",))
        tile.sizes = box
        tile.bases["offset"] = [self._unfold(flatten(b, (rows, columns)), box) for b in atom.bases["offset"]]
        return combine(tile, self.cga_layout, shape, range(self.rank), drop=False)

    def _atom(self) -> GluonTile:
        """8 rows of one swizzle width as (row, column); padded fp4 has 8 elements in each 16 bytes."""
        chunk = 128 // self.element_bitwidth
        per_phase, max_phase = 128 // self.swizzle_byte_width, self.swizzle_byte_width // 16
        atom = GluonTile(2, ("offset",))
        columns = 8 * self.swizzle_byte_width // self.element_bitwidth
        if self.fp4_padded:
            atom.grow("offset", {1: 8}, (1,)).grow("offset", {1: 2}, (1,), copied=1)
            columns //= 16
        atom.grow("offset", {1: columns, 0: 8}, (1, 0))
        for basis in atom.bases["offset"]:
            basis[1] ^= (chunk // 2 if self.fp4_padded else chunk) * (basis[0] // per_phase % max_phase)
        return atom

    def _unfold(self, flat: int, box: list[int]) -> list[int]:
        """The coordinates of an element of the box, which is rotated to put a transposed dimension 0 last."""
        if not self.transposed:
            return split(flat, box)
        rotated = split(flat, [*box[1:], box[0]])
        return [rotated[-1], *rotated[:-1]]

    def mangle(self) -> str:
        """Gluon's name for the layout."""
        values = (self.swizzle_byte_width, self.element_bitwidth, self.rank, self.transposed, self.fp4_padded)
        return f"NVMMA_{'_'.join(map(str, values))}_{mangle_rows(self.cga_layout)}_NVMMA"


def shared_linear(
    offset_bases: Sequence[Sequence[int]], block_bases: Sequence[Sequence[int]] = (), alignment: int = 16
) -> LinearLayout:
    """Gluon's SharedLinearLayout, which is a LinearLayout of offset and block; a layout has no alignment.

    >>> print(shared_linear([[1], [2]]))
    LinearLayout(offset=[[1], [2]], block=[], shape=[4])
    """
    return LinearLayout(offset=offset_bases, block=block_bases)
