"""The layout kinds: frozen values that map logical coordinates to named hardware coordinates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from typing import Any, Union

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts.core.iters import (
    AXIS_ORDER,
    Iter,
    Iters,
    flatten,
    is_symbolic,
    product,
    require_axis,
    require_index,
    require_shape,
    row_major_strides,
    spell_at,
    spell_iters,
    xor_bits,
)
from tilegen.layouts.core.rows import extent_reached, narrow_arrays, place_iters, require_inside
from tilegen.notebooks import Shown

ADDRESS_BITS = 62  # addresses stay inside a signed 64-bit integer


class Mapped(Shown):
    """What every layout can do: ``apply`` (checked, all replicas) and ``place`` (replica 0, symbolic too)."""

    def apply(self, *coord: Any, shape: Sequence[int] | None = None) -> tuple[dict[str, Any], ...]:
        """Where a logical coordinate lands, one {axis: position} for each replica, replica 0 first.

        L(x) = { D(x) + r + O | r in R }. One number is a flat row-major index, as many as there are shard iters are
        their components, and with ``shape`` they are flattened row-major in it first. Raises LayoutError for
        coordinates out of range and for a shape of another size.

        >>> TileLayout((Iter(8, 4, "laneid"), Iter(2, 1))).apply(5)
        ({'laneid': 8, 'm': 1},)
        """
        layout: Layout = self  # type: ignore[assignment]  # Layout is all that is Mapped
        domain = _domain(layout, coord, shape)
        if len(coord) != len(domain):
            raise LayoutError(f"{len(coord)} coordinates for {len(domain)} extents of {layout}")
        for x, n in zip(coord, domain, strict=True):
            require_inside(x, n, layout)
        if isinstance(layout, SwizzleLayout):
            address = flatten(coord, shape) if shape is not None else coord[0]
            return ({"m": permute_address(layout, address)},)
        finish, tile = finish_of(layout), tile_of(layout)
        places = _copies(tile.place(coord, domain), tile.replica)
        return tuple(places) if finish is None else tuple({**place, "m": finish(place["m"])} for place in places)

    __call__ = apply

    def place(self, coords: Sequence[Any], shape: Sequence[Index]) -> dict[str, Any]:
        """Replica 0 of the element at ``coords`` of a buffer of that ``shape``, offset included: {axis: position}.

        An axis that is not named is at 0. Takes ints, NumPy arrays and Index alike and checks no range. Each dimension
        is split on its own where the layout allows it, and the slowest component of a split is not reduced. Raises
        LayoutError when the shape has another size than the layout.

        >>> from tilegen.index import Var
        >>> swizzle = SwizzleLayout(3, 3, 3)
        >>> print(swizzle.place((Var("i", 8), Var("q", 8) * 8), (8, 64))["m"])
        i * 64 + (q ^ i) * 8
        """
        if len(coords) != len(shape):
            raise LayoutError(f"{len(coords)} coordinates for a shape of {len(shape)} dimensions")
        shape = require_shape(shape)
        layout = over_shape(self, shape)  # type: ignore[arg-type]
        if not any(isinstance(x, np.ndarray) for x in coords):
            return _place(layout, [int(x) if isinstance(x, np.integer) else x for x in coords], shape)
        arrays = narrow_arrays(coords, shape, _largest(layout, shape))
        whole = np.broadcast_shapes(*(x.shape for x in arrays))
        places = _place(layout, arrays, shape).items()
        return {axis: v if isinstance(v, np.ndarray) else np.broadcast_to(v, whole) for axis, v in places}


@dataclass(frozen=True)
class TileLayout(Mapped):
    """An affine placement on named axes: L(x) = { D(x) + r + O | r in R }.

    D splits the flat index over the ``shard`` iters, row-major, and adds component * stride on each iter's axis;
    ``replica`` iters enumerate further copies; ``offset`` is (axis, value) pairs or a mapping, zeros dropped.
    Raises LayoutError for an empty shard, unknown axes and negative values.

    >>> print(TileLayout((Iter(8, 4, "laneid"), Iter(2, 1)), (Iter(2, 4, "warpid"),), {"warpid": 5}))
    S[(8, 2):(4@laneid, 1)] + R[2:4@warpid] + 5@warpid
    """

    shard: Iters
    replica: Iters = ()
    offset: tuple[tuple[str, Index], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shard", tuple(self.shard))
        object.__setattr__(self, "replica", tuple(self.replica))
        object.__setattr__(self, "offset", _normalise_offset(self.offset))
        if not self.shard:
            raise LayoutError("a TileLayout has at least one shard iter")

    @classmethod
    def from_iters(
        cls, shard: Iterable[Iter], replica: Iterable[Iter] = (), offset: Mapping[str, Index] | None = None
    ) -> TileLayout:
        """The layout of these iters.

        Raises LayoutError as the class does.

        >>> print(TileLayout.from_iters([Iter(8, 1)], offset={"warpid": 5}))
        S[8:1] + 5@warpid
        """
        return cls(tuple(shard), tuple(replica), _normalise_offset(offset or {}))

    def __str__(self) -> str:
        parts = [spell_iters("S", self.shard)]
        parts += [spell_iters("R", self.replica)] if self.replica else []
        return " + ".join([*parts, *(spell_at(value, axis) for axis, value in self.offset)])


def _normalise_offset(offset: Any) -> tuple[tuple[str, Index], ...]:
    """Sorted by axis, equal axes added up, zeros dropped: equal offsets are equal values."""
    total: dict[str, Index] = {}
    for axis, value in offset.items() if isinstance(offset, Mapping) else offset:
        require_axis(axis)
        total[axis] = total.get(axis, 0) + require_index(value, "an offset", 0)
    kept = ((axis, value) for axis, value in total.items() if is_symbolic(value) or value)
    return tuple(sorted(kept, key=lambda pair: AXIS_ORDER[pair[0]]))


@dataclass(frozen=True)
class SwizzleLayout(Mapped):
    """An XOR permutation of linear element addresses, M = per_element, B = swizzle_len, S = atom_len (all in bits).

    On x = address >> M, the bits [S, S+B) are XORed into the bits [0, B) (``inner``), or the other way round; the low
    M bits stay. Defined on every address >= 0, it permutes each aligned period of 2**(M+B+S) elements. As the layout
    of a buffer it acts on the row-major address. Raises LayoutError unless S >= B >= 0 and M >= 0.

    >>> SwizzleLayout(3, 3, 3).apply(64)
    ({'m': 72},)
    """

    per_element: int
    swizzle_len: int
    atom_len: int
    inner: bool = True

    def __post_init__(self) -> None:
        for name in ("per_element", "swizzle_len", "atom_len"):
            bits = require_index(getattr(self, name), name, 0)
            if not isinstance(bits, int):
                raise LayoutError(f"{name} is a number of bits known at build time, not {bits}")
            object.__setattr__(self, name, bits)
        if self.atom_len < self.swizzle_len:
            raise LayoutError(
                f"atom_len {self.atom_len} is less than swizzle_len {self.swizzle_len}: the bit groups would overlap",
                hint=f"atom_len is at least {self.swizzle_len}",
            )
        if self.per_element + self.swizzle_len + self.atom_len > ADDRESS_BITS:
            raise LayoutError(f"a swizzle acts on at most {ADDRESS_BITS} address bits")

    def __str__(self) -> str:
        order = "" if self.inner else ", inner=False"
        return f"Swizzle({self.per_element}, {self.swizzle_len}, {self.atom_len}{order})"


@dataclass(frozen=True)
class ComposeLayout(Mapped):
    """The tile first, then the swizzle: m = swizzle(tile(x)).

    Raises LayoutError when the tile maps to an axis other than m.

    >>> print(ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout((Iter(8, 64), Iter(64, 1)))))
    Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]
    """

    swizzle: SwizzleLayout
    tile: TileLayout

    def __post_init__(self) -> None:
        if not isinstance(self.swizzle, SwizzleLayout) or not isinstance(self.tile, TileLayout):
            raise LayoutError("a ComposeLayout is a SwizzleLayout over a TileLayout")
        axes = {i.axis for i in (*self.tile.shard, *self.tile.replica)} | {axis for axis, _ in self.tile.offset}
        if other := sorted(axes - {"m"}):
            raise LayoutError(f"a swizzle permutes addresses on axis m, but the tile also maps to {', '.join(other)}")

    def __str__(self) -> str:
        return f"{self.swizzle} o {self.tile}"


class ShapedLayout(Mapped, ABC):
    """A layout that knows the shape of its buffer: a tile, whose addresses on axis m are then finished."""

    shape: tuple[int, ...]

    @property
    @abstractmethod
    def tile(self) -> TileLayout:
        """The affine part."""

    @property
    @abstractmethod
    def allocated_elems(self) -> int:
        """1 + the largest finished address."""

    @property
    @abstractmethod
    def chunk_elems(self) -> int:
        """Elements that stay together wherever a multiple of them starts; 2**30 where nothing cuts."""

    @abstractmethod
    def finish(self, address: Any) -> Any:
        """The final address of an affine one; an int, an array or an Index."""

    @abstractmethod
    def of_one_block(self) -> ShapedLayout:
        """What one CTA stores."""

    @abstractmethod
    def with_tile(self, tile: TileLayout, shape: Sequence[Index] | None = None) -> ShapedLayout:
        """The same finish over another affine part. Raises LayoutError where there is no such layout."""


Layout = Union[TileLayout, SwizzleLayout, ComposeLayout, ShapedLayout]  # noqa: UP007 - a runtime alias


# ---------------------------------------------------------------- finish(sum c_k * s_k + offset)
def permute_address(swizzle: SwizzleLayout, address: Any) -> Any:
    """The swizzled address of an int, an array or an Index, in elements.

    With x = address >> M: ((x ^ ((x >> S) % 2**B)) << M) | address % 2**M, and for ``inner=False`` the term
    (x % 2**B) << S is XORed in instead.

    >>> permute_address(SwizzleLayout(0, 2, 3, inner=False), 3)
    27
    """
    low, high = swizzle.per_element, swizzle.per_element + swizzle.atom_len
    return xor_bits(address, *((high, low) if swizzle.inner else (low, high)), swizzle.swizzle_len)


def period(swizzle: SwizzleLayout) -> int:
    """Elements of one aligned block that the swizzle permutes: 2**(M+B+S).

    >>> period(SwizzleLayout(3, 3, 3))
    512
    """
    return 1 << (swizzle.per_element + swizzle.swizzle_len + swizzle.atom_len)


def tile_of(layout: Layout) -> TileLayout:
    """The affine part of a layout; of a bare swizzle, one period.

    >>> print(tile_of(SwizzleLayout(3, 3, 3)))
    S[512:1]
    """
    if isinstance(layout, SwizzleLayout):
        return TileLayout((Iter(period(layout), 1),))
    return layout if isinstance(layout, TileLayout) else layout.tile


def swizzle_of(layout: Layout) -> SwizzleLayout | None:
    """The swizzle of a layout, None when it has none.

    Raises LayoutError for a padded layout: an operation that knows tiles and swizzles alone would lose its padding.

    >>> swizzle_of(TileLayout((Iter(8, 1),))) is None
    True
    """
    if isinstance(layout, ComposeLayout):
        return layout.swizzle
    if isinstance(layout, ShapedLayout):
        raise LayoutError(f"{layout} is no tile layout, swizzled or not")
    return layout if isinstance(layout, SwizzleLayout) else None


def with_tile(layout: Layout, tile: TileLayout, shape: Sequence[Index] | None = None) -> Layout:
    """``tile`` under what ``layout`` does to addresses: its swizzle or its padding, when it has one.

    A padded layout takes ``shape`` (default: the tile's extents). Raises LayoutError where no padded layout has that
    linear part.

    >>> print(with_tile(SwizzleLayout(3, 3, 3), TileLayout((Iter(64, 1),))))
    Swizzle(3, 3, 3) o S[64:1]
    """
    if isinstance(layout, TileLayout):
        return tile
    if isinstance(layout, (SwizzleLayout, ComposeLayout)):
        return ComposeLayout(layout if isinstance(layout, SwizzleLayout) else layout.swizzle, tile)
    return layout.with_tile(tile, shape)


def finish_of(layout: Layout) -> Callable[[Any], Any] | None:
    """What turns the affine address into the final one, None for the identity: m = finish(sum c_k * s_k + offset).

    >>> finish_of(SwizzleLayout(3, 3, 3))(64)
    72
    """
    if isinstance(layout, TileLayout):
        return None
    if isinstance(layout, (SwizzleLayout, ComposeLayout)):
        swizzle = layout if isinstance(layout, SwizzleLayout) else layout.swizzle
        return lambda address: permute_address(swizzle, address)
    return layout.finish


def over_shape(layout: Layout, shape: Sequence[Index]) -> TileLayout | ComposeLayout | ShapedLayout:
    """The layout as that of a buffer of ``shape``: a bare swizzle acts on the row-major address, others are themselves.

    >>> print(over_shape(SwizzleLayout(3, 3, 3), (16, 64)))
    Swizzle(3, 3, 3) o S[(16, 64):(64, 1)]
    """
    if not isinstance(layout, SwizzleLayout):
        return layout
    extents, strides = (tuple(shape), row_major_strides(shape)) if shape else ((1,), [1])
    return ComposeLayout(layout, TileLayout(tuple(Iter(n, s) for n, s in zip(extents, strides, strict=True))))


def size(layout: Layout, axis: str | None = None) -> Index:
    """Logical elements: the product of the shard extents (on ``axis`` alone when given); of a swizzle one period.

    Raises LayoutError for an unknown axis.

    >>> size(TileLayout((Iter(8, 4, "laneid"), Iter(2, 1)))), size(SwizzleLayout(3, 3, 3))
    (16, 512)
    """
    if axis is not None:
        require_axis(axis)
    return product(i.extent for i in tile_of(layout).shard if axis in (None, i.axis))


# ---------------------------------------------------------------- where elements lie
def _place(layout: Layout, coords: list[Any], shape: tuple[Index, ...]) -> dict[str, Any]:
    tile, finish = tile_of(layout), finish_of(layout)
    place = place_iters(tile.shard, coords, shape)
    for i in tile.replica:
        place.setdefault(i.axis, 0)
    for axis, value in tile.offset:
        place[axis] = place.get(axis, 0) + value
    if finish is not None:
        place["m"] = finish(place["m"])
    return place


def _largest(layout: Layout, shape: tuple[Index, ...]) -> Index:
    """No number on the way from coordinates to positions is larger."""
    tile = tile_of(layout)
    largest = extent_reached((*tile.shard, *tile.replica)) + product(shape) + sum(value for _, value in tile.offset)
    return largest + layout.allocated_elems if isinstance(layout, ShapedLayout) else largest  # padding comes on top


def _domain(layout: Layout, coord: tuple[Any, ...], shape: Sequence[int] | None) -> tuple[Any, ...]:
    """The extents that the coordinates count in; None where an extent has no end."""
    if shape is not None:
        extents = require_shape(shape)
        if not isinstance(layout, SwizzleLayout) and product(extents) != size(layout):
            raise LayoutError(f"shape {extents} has {product(extents)} elements, {layout} has {size(layout)}")
        return extents
    if isinstance(layout, SwizzleLayout):
        return (None,)
    if len(coord) == 1:
        return (size(layout),)
    return layout.shape if isinstance(layout, ShapedLayout) else tuple(i.extent for i in tile_of(layout).shard)


def _copies(first: dict[str, Any], replica: Iters) -> Iterator[dict[str, Any]]:
    """The places of an element's replicas, replica 0 first."""
    for steps in combinations(*(range(i.extent) for i in replica)):  # type: ignore[arg-type]
        place = dict(first)
        for i, step in zip(replica, steps, strict=True):
            place[i.axis] = place[i.axis] + step * i.stride
        yield place
