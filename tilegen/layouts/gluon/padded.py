"""Gluon's PaddedSharedLayout: padding after every interval, over a reordering by bases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts.core.iters import quotient, require_known, require_shape
from tilegen.layouts.core.values import ShapedLayout, TileLayout
from tilegen.layouts.gluon.padded_bases import (
    MAX_ELEMS,
    Rows,
    bases_of_tile,
    check_bases,
    check_order,
    check_pairs,
    check_shape,
    held_by,
    identity_bases,
    identity_order,
    read_row,
    read_rows,
    tile_of_bases,
    tile_shape,
)

MAX_IMAGE_SLOTS = 1 << 24
MAX_DRAWN_SLOTS = 1 << 16
NAMES = "xyzwuvst"  # of dimensions, as in x2y0


@dataclass(frozen=True)
class PaddedSharedLayout(ShapedLayout):
    """Shared memory with ``padding`` elements after every ``interval`` elements, for each pair; sums where they meet.

    address = linear + sum over pairs of (linear // interval) * padding, in elements. ``linear`` is the offset whose
    bases add up to the coordinate: bit i of it moves by ``offset_bases[i]``. Bit j of a CTA's rank in the cluster
    (axis cbx) moves by ``cga_layout[j]`` CTA tiles, or not at all: then its CTAs hold the same elements. The padding
    behind the last element is not allocated. ``shape`` is that of all CTAs together. Raises LayoutError as ``verify``.

    >>> layout = PaddedSharedLayout([[2, 1], [4, 2]], [[1], [2], [4]], [], [8])
    >>> layout.apply(6), layout.allocated_elems
    (({'m': 11},), 13)
    """

    interval_padding_pairs: Rows
    offset_bases: Rows
    cga_layout: Rows
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        read = {
            "interval_padding_pairs": read_rows(
                self.interval_padding_pairs, "interval_padding_pairs", "an [interval, padding] pair"
            ),
            "offset_bases": read_rows(self.offset_bases, "offset_bases", "a list of steps"),
            "cga_layout": read_rows(self.cga_layout, "cga_layout", "a list of steps"),
            "shape": read_row(self.shape, "shape", "a list of extents"),
        }
        for name, value in read.items():
            object.__setattr__(self, name, value)
        self.verify()

    @classmethod
    def with_identity_for(
        cls, interval_padding_pairs: Any, shape: Any, order: Any, cga_layout: Any = ()
    ) -> PaddedSharedLayout:
        """The layout without reordering: dimension order[0] is the fastest.

        ``cga_layout`` divides the shape among CTAs first. Raises LayoutError as the class, and for an ``order`` that is
        no permutation.

        >>> PaddedSharedLayout.with_identity_for([[4, 1]], [2, 4], [1, 0]).offset_bases
        ((0, 1), (0, 2), (1, 0))
        """
        extents, dims = read_row(shape, "shape", "a list of extents"), read_row(order, "order", "a list of dimensions")
        ctas = read_rows(() if cga_layout is None else cga_layout, "cga_layout", "a list of steps")
        check_shape(extents)
        check_order(dims, extents)
        return cls(interval_padding_pairs, identity_bases(tile_shape(extents, ctas), dims), ctas, extents)

    def verify(self) -> None:
        """Check the layout; a value that exists has passed.

        Intervals, paddings and extents are powers of two, intervals differ, each basis moves one dimension by a power
        of two, and together the bases reach every element of the shape once. Raises LayoutError with what is wrong,
        starting with the argument's name, and a hint of what would fit.
        """
        check_pairs(self.interval_padding_pairs)
        check_shape(self.shape)
        check_bases(self.offset_bases, self.cga_layout, self.shape)
        if self.allocated_elems > MAX_ELEMS:
            raise LayoutError("interval_padding_pairs pad to more than 2**60 elements")

    # ------------------------------------------------------------ one CTA and its memory
    @property
    def blocks(self) -> int:
        """CTAs that share the shape: 2 ** len(cga_layout).

        >>> PaddedSharedLayout.with_identity_for([[8, 1]], [8, 8], [1, 0], [[1, 0]]).blocks
        2
        """
        return 1 << len(self.cga_layout)

    @property
    def block_shape(self) -> tuple[int, ...]:
        """The extents of one CTA's tile.

        >>> PaddedSharedLayout.with_identity_for([[8, 1]], [8, 8], [1, 0], [[1, 0]]).block_shape
        (4, 8)
        """
        return tile_shape(self.shape, self.cga_layout)

    @property
    def elems_per_block(self) -> int:
        """Elements of one CTA, padding left out.

        >>> PaddedSharedLayout.with_identity_for([[32, 1]], [32, 32], [1, 0]).elems_per_block
        1024
        """
        return 1 << len(self.offset_bases)

    @property
    def allocated_elems(self) -> int:
        """Elements that one CTA allocates: 1 + the address of the last one, so no padding behind it.

        >>> PaddedSharedLayout.with_identity_for([[32, 1]], [32, 32], [1, 0]).allocated_elems
        1055
        """
        return int(self.finish(self.elems_per_block - 1)) + 1

    @property
    def chunk_elems(self) -> int:
        """Elements that lie together wherever a multiple of them starts; 2**30 where nothing cuts.

        What divides every interval and its padding: aligned runs stay aligned, and none crosses a pad.

        >>> PaddedSharedLayout.with_identity_for([[32, 4]], [8, 32], [1, 0]).chunk_elems
        4
        """
        pads = [pair for pair in self.interval_padding_pairs if pair[0] < self.elems_per_block]
        return min((n for pair in pads for n in pair), default=1 << 30)

    @property
    def tile(self) -> TileLayout:
        """The layout without its padding: offset and CTA of a coordinate, one iter for each run of bits.

        >>> print(PaddedSharedLayout([[8, 1]], [[0, 1], [0, 2], [2, 0], [4, 0], [1, 0]], [], [8, 4]).tile)
        S[(4, 2, 4):(4, 16, 1)]
        """
        return tile_of_bases(self.offset_bases, self.cga_layout, self.shape)

    def finish(self, address: Any) -> Any:
        """address + sum of (address // interval) * padding, for ints, arrays and Index alike.

        >>> from tilegen.index import Var
        >>> print(PaddedSharedLayout.with_identity_for([[32, 1]], [1024], [0]).finish(Var("x", 1024)))
        x + (x >> 5)
        """
        padded = address
        for interval, padding in self.interval_padding_pairs:
            if interval < self.elems_per_block:
                padded = padded + quotient(address, interval) * padding
        return padded

    def of_one_block(self) -> PaddedSharedLayout:
        """What one CTA stores.

        >>> print(PaddedSharedLayout.with_identity_for([[8, 1]], [8, 8], [1, 0], [[1, 0]]).of_one_block())
        PaddedSharedLayout.with_identity_for([[8, 1]], [4, 8], [1, 0])
        """
        return PaddedSharedLayout(self.interval_padding_pairs, self.offset_bases, (), self.block_shape)

    def memory_image(self, block: int = 0) -> list[int | None]:
        """What each slot of a CTA's memory holds: the row-major logical index of an element, None for padding.

        Raises LayoutError for a CTA that the layout does not have and for more than 2**24 slots.

        >>> PaddedSharedLayout([[2, 2]], [[2], [1]], [], [4]).memory_image()
        [0, 2, None, None, 1, 3]
        """
        if isinstance(block, bool) or not isinstance(block, int) or not 0 <= block < self.blocks:
            raise LayoutError(f"block {block!r} is not one of the {self.blocks} CTAs of {self}")
        if self.allocated_elems > MAX_IMAGE_SLOTS:
            raise LayoutError(f"{self.allocated_elems} slots are too many for an image; at most {MAX_IMAGE_SLOTS}")
        slots: list[int | None] = [None] * self.allocated_elems
        held = held_by(block, self.offset_bases, self.cga_layout, self.shape)
        for at, element in zip(self.finish(np.arange(held.size)).tolist(), held.tolist(), strict=True):
            slots[at] = element
        return slots

    def with_tile(self, tile: TileLayout, shape: Sequence[Index] | None = None) -> PaddedSharedLayout:
        """The same padding over another linear part, which must reach every offset once; shape: default its extents.

        Raises LayoutError where no bases describe ``tile``.

        >>> from tilegen.layouts import Iter
        >>> layout = PaddedSharedLayout.with_identity_for([[4, 1]], [2, 4], [1, 0])
        >>> print(layout.with_tile(TileLayout((Iter(4, 1), Iter(2, 4)))))
        PaddedSharedLayout.with_identity_for([[4, 1]], [4, 2], [0, 1])
        """
        extents = require_shape([i.extent for i in tile.shard] if shape is None else shape)
        known = tuple(require_known(n, "an extent") for n in extents)
        bases, ctas = bases_of_tile(tile, known, len(self.cga_layout))
        return PaddedSharedLayout(self.interval_padding_pairs, bases, ctas, known)

    # ------------------------------------------------------------ texts and pictures
    def mangle(self) -> str:
        """Gluon's name of the layout in the name of a kernel.

        >>> PaddedSharedLayout([[2, 2]], [[2], [1]], [], [4]).mangle()
        'PaddedShared_[[2, 2]]_[[2], [1]]_[]_[4]_PaddedShared'
        """
        return f"PaddedShared_{'_'.join(_spell_arguments(self))}_PaddedShared"

    def format_tensor_view(self, shape: Sequence[int]) -> str:
        """The address of every element, nested as the shape is; ``block:address`` where there are several CTAs.

        Raises LayoutError for another shape than the layout's and for more than 2**16 slots.

        >>> print(PaddedSharedLayout([[2, 2]], [[2], [1]], [], [4]).format_tensor_view([4]))
        [0, 4, 1, 5]
        """
        _require_drawable(self, shape)
        place = self.place(list(np.indices(self.shape).reshape(len(self.shape), -1)), self.shape)
        texts = [str(at) for at in place["m"].tolist()]
        if self.blocks > 1:
            owners = np.broadcast_to(place.get("cbx", 0), place["m"].shape).tolist()
            texts = [f"{owner}:{text}" for owner, text in zip(owners, texts, strict=True)]
        width = max(map(len, texts))
        return _nest([text.rjust(width) for text in texts], self.shape, 1)

    def format_hardware_view(self, shape: Sequence[int]) -> str:
        """The slots of memory in order: x2y0 is the element (2, 0), p3 the fourth element of padding.

        Raises LayoutError for another shape than the layout's and for more than 2**16 slots.

        >>> print(PaddedSharedLayout([[2, 2]], [[2], [1]], [], [4]).format_hardware_view([4]))
        [x0, x2, p0, p1,
         x1, x3]
        """
        _require_drawable(self, shape)
        pictures = [_draw_block(self, block) for block in range(self.blocks)]
        if len(pictures) == 1:
            return pictures[0]
        return "\n".join(f"block {block}:\n{picture}" for block, picture in enumerate(pictures))

    def __str__(self) -> str:
        pairs, bases, ctas, shape = _spell_arguments(self)
        order = identity_order(self.offset_bases, self.block_shape)
        if order is None:
            return f"PaddedSharedLayout({pairs}, {bases}, {ctas}, {shape})"
        more = f", {ctas}" if self.cga_layout else ""
        return f"PaddedSharedLayout.with_identity_for({pairs}, {shape}, {list(order)}{more})"


def _spell_arguments(layout: PaddedSharedLayout) -> list[str]:
    rows = (layout.interval_padding_pairs, layout.offset_bases, layout.cga_layout)
    return [*(str([list(row) for row in r]) for r in rows), str(list(layout.shape))]


# ---------------------------------------------------------------- pictures
def _draw_block(layout: PaddedSharedLayout, block: int) -> str:
    elems = layout.elems_per_block
    names: list[str] = []
    pads = 0
    for element in layout.memory_image(block):
        names.append(_name_element(element, layout.shape) if element is not None else f"p{pads}")
        pads += element is None
    line = max((interval for interval, _ in layout.interval_padding_pairs if interval < elems), default=elems)
    ends = [layout.finish(at) for at in range(line, elems, line)] + [len(names)]
    lines = [", ".join(names[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    return "[" + ",\n ".join(lines) + "]"


def _name_element(flat: int, shape: Sequence[int]) -> str:
    coords = np.unravel_index(flat, tuple(shape))
    return "".join(f"{name}{x}" for name, x in zip(NAMES, coords, strict=False))


def _nest(texts: list[str], shape: Sequence[int], depth: int) -> str:
    if len(shape) == 1:
        return "[" + ", ".join(texts) + "]"
    step = len(texts) // shape[0]
    parts = [_nest(texts[k : k + step], shape[1:], depth + 1) for k in range(0, len(texts), step)]
    return "[" + (",\n" + " " * depth).join(parts) + "]"


def _require_drawable(layout: PaddedSharedLayout, shape: Sequence[int]) -> None:
    if list(shape) != list(layout.shape):
        raise LayoutError(f"{layout} is of shape {list(layout.shape)}, not {list(shape)}")
    if layout.allocated_elems * layout.blocks > MAX_DRAWN_SLOTS:
        slots = layout.allocated_elems * layout.blocks
        raise LayoutError(f"{slots} slots are too many for a picture; at most {MAX_DRAWN_SLOTS}")
