"""Gluon's PaddedSharedLayout: padding after every interval, over a reordering by bases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts.core.iters import Iter, quotient, require_known, require_shape
from tilegen.layouts.core.rows import drop_units, fuse_neighbours, group_iters
from tilegen.layouts.core.values import ShapedLayout, TileLayout
from tilegen.layouts.gluon.padded_bases import (
    MAX_ELEMS,
    Rows,
    check_bases,
    check_order,
    check_pairs,
    check_shape,
    is_power_of_two,
    read_row,
    read_rows,
)

CTA_AXIS = "cbx"  # the rank of a CTA in its cluster, when the cluster is a row


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
        return cls(interval_padding_pairs, _identity_bases(_tile_shape(extents, ctas), dims), ctas, extents)

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
        return _tile_shape(self.shape, self.cga_layout)

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
        return _linear_tile(self)

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
        from tilegen.layouts.gluon.padded_views import image_memory

        return image_memory(self, block)

    def with_tile(self, tile: TileLayout, shape: Sequence[Index] | None = None) -> PaddedSharedLayout:
        """The same padding over another linear part, which must reach every offset once; shape: default its extents.

        Raises LayoutError where no bases describe ``tile``.

        >>> layout = PaddedSharedLayout.with_identity_for([[4, 1]], [2, 4], [1, 0])
        >>> print(layout.with_tile(TileLayout((Iter(4, 1), Iter(2, 4)))))
        PaddedSharedLayout.with_identity_for([[4, 1]], [4, 2], [0, 1])
        """
        return _rebuild(self, tile, [i.extent for i in tile.shard] if shape is None else shape)

    # ------------------------------------------------------------ texts
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
        from tilegen.layouts.gluon.padded_views import draw_tensor

        return draw_tensor(self, shape)

    def format_hardware_view(self, shape: Sequence[int]) -> str:
        """The slots of memory in order: x2y0 is the element (2, 0), p3 the fourth element of padding.

        Raises LayoutError for another shape than the layout's and for more than 2**16 slots.

        >>> print(PaddedSharedLayout([[2, 2]], [[2], [1]], [], [4]).format_hardware_view([4]))
        [x0, x2, p0, p1,
         x1, x3]
        """
        from tilegen.layouts.gluon.padded_views import draw_hardware

        return draw_hardware(self, shape)

    def __str__(self) -> str:
        pairs, bases, ctas, shape = _spell_arguments(self)
        order = _identity_order(self)
        if order is None:
            return f"PaddedSharedLayout({pairs}, {bases}, {ctas}, {shape})"
        more = f", {ctas}" if self.cga_layout else ""
        return f"PaddedSharedLayout.with_identity_for({pairs}, {shape}, {list(order)}{more})"


def _spell_arguments(layout: PaddedSharedLayout) -> list[str]:
    rows = (layout.interval_padding_pairs, layout.offset_bases, layout.cga_layout)
    return [*(str([list(row) for row in r]) for r in rows), str(list(layout.shape))]


def _identity_bases(tile_shape: Sequence[int], order: Sequence[int]) -> Rows:
    rank = len(tile_shape)
    return tuple(
        tuple(1 << bit if e == d else 0 for e in range(rank))
        for d in order for bit in range(tile_shape[d].bit_length() - 1)
    )  # fmt: skip


def _identity_order(layout: PaddedSharedLayout) -> tuple[int, ...] | None:
    """The order that with_identity_for would take, dimensions of extent 1 last; None when the bases are no identity."""
    moved = [next(d for d, step in enumerate(basis) if step) for basis in layout.offset_bases]
    order = tuple(dict.fromkeys([*moved, *range(len(layout.shape))[::-1]]))
    return order if _identity_bases(layout.block_shape, order) == layout.offset_bases else None


def _tile_shape(shape: Sequence[int], cga_layout: Rows) -> tuple[int, ...]:
    """The extents that one CTA keeps; what does not divide is left for ``check_bases`` to refuse."""
    if any(len(basis) != len(shape) for basis in cga_layout):
        return tuple(shape)
    ctas = [1 << sum(1 for basis in cga_layout if basis[d]) for d in range(len(shape))]
    return tuple(n // c if n % c == 0 else n for n, c in zip(shape, ctas, strict=True))


# ---------------------------------------------------------------- bases as iters, and back
@lru_cache(maxsize=1024)
def _linear_tile(layout: PaddedSharedLayout) -> TileLayout:
    shard: list[Iter] = []
    for d in range(len(layout.shape)):
        bits = {basis[d]: 1 << k for k, basis in enumerate(layout.offset_bases) if basis[d]}
        ctas = {basis[d]: 1 << k for k, basis in enumerate(layout.cga_layout) if basis[d]}
        row = [Iter(2, ctas[step], CTA_AXIS) for step in sorted(ctas, reverse=True)]
        row += [Iter(2, bits[step]) for step in sorted(bits, reverse=True)]
        shard += fuse_neighbours(tuple(row)) or (Iter(1, 1),)
    if all(i.axis != "m" for i in shard):
        shard.append(Iter(1, 1))
    copies = (Iter(2, 1 << k, CTA_AXIS) for k, basis in reversed(list(enumerate(layout.cga_layout))) if not any(basis))
    return TileLayout(tuple(shard), fuse_neighbours(tuple(copies)))


def _rebuild(layout: PaddedSharedLayout, tile: TileLayout, shape: Sequence[Index]) -> PaddedSharedLayout:
    """Each bit of a dimension becomes the basis of the bit of an offset, or of a CTA's rank, that it moves."""
    extents = tuple(require_known(n, "an extent") for n in require_shape(shape))
    if tile.offset:
        raise _no_bases(tile, "it does not start at offset 0")
    found: dict[tuple[str, int], tuple[int, int]] = {}  # (axis, bit) -> (dimension, step)
    for d, row in enumerate(group_iters(tile.shard, extents)):
        step = 1
        for i in reversed(drop_units(row)):
            extent, stride = require_known(i.extent, "an extent"), require_known(i.stride, "a stride")
            if not (is_power_of_two(extent) and is_power_of_two(stride)):
                raise _no_bases(tile, "not every extent and stride is a power of two")
            for k in range(extent.bit_length() - 1):
                if (key := (i.axis, stride.bit_length() - 1 + k)) in found:
                    raise _no_bases(tile, "two elements would lie in one place")
                found[key] = (d, step)
                step *= 2
    offset_bits = sum(axis == "m" for axis, _ in found)
    if any(("m", k) not in found for k in range(offset_bits)):
        raise _no_bases(tile, "it steps over elements that are not its own")
    inside = [1] * len(extents)  # extents of one CTA's tile
    for (axis, _), (d, _) in found.items():
        inside[d] *= 2 if axis == "m" else 1
    bases = [_basis(len(extents), *found["m", k]) for k in range(offset_bits)]
    return PaddedSharedLayout(
        layout.interval_padding_pairs, tuple(bases), _rebuild_ctas(tile, found, inside, len(layout.cga_layout)), extents
    )


def _rebuild_ctas(
    tile: TileLayout, found: dict[tuple[str, int], tuple[int, int]], inside: list[int], count: int
) -> Rows:
    if any(axis not in ("m", CTA_AXIS) or (axis == CTA_AXIS and k >= count) for axis, k in found):
        raise _no_bases(tile, "it maps to other axes")
    ctas = []
    for k in range(count):
        d, step = found.get((CTA_AXIS, k), (0, 0))  # no step: these CTAs hold the same elements
        if step % inside[d]:
            raise _no_bases(tile, "the elements of a CTA are no tile")
        ctas.append(_basis(len(inside), d, step // inside[d]))
    return tuple(ctas)


def _basis(rank: int, d: int, step: int) -> tuple[int, ...]:
    return tuple(step if e == d else 0 for e in range(rank))


def _no_bases(tile: TileLayout, why: str) -> LayoutError:
    return LayoutError(f"no PaddedSharedLayout has the linear part {tile}: {why}")
