"""The layout kinds: frozen values that map logical coordinates to named hardware coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as combinations
from typing import Any, Union

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import Index, count_operators, div, mod, mul, xor
from tilegen.layouts.axes import AXIS_ORDER, require_axis
from tilegen.layouts.iters import (
    Iter,
    Iters,
    drop_units,
    extent_reached,
    flatten,
    fuse_neighbours,
    group_iters,
    is_symbolic,
    product,
    require_index,
    require_shape,
    row_major_strides,
    spell_at,
    spell_iters,
    split,
)

ADDRESS_BITS = 62  # addresses stay inside a signed 64-bit integer


class _Mapping:
    """What every layout can do: ``apply`` (checked, all replicas) and ``place`` (replica 0, symbolic too)."""

    def apply(self, *coord: Any, shape: Sequence[int] | None = None) -> tuple[dict[str, Any], ...]:
        """Where a logical coordinate lands, one {axis: position} for each replica, replica 0 first.

        L(x) = { D(x) + r + O | r in R }. One number is a flat row-major index, as many as there are shard iters are
        their components, and with ``shape`` they are flattened row-major in it first. Raises LayoutError for
        coordinates out of range and for a shape of another size.

        >>> TileLayout((Iter(8, 4, "laneid"), Iter(2, 1))).apply(5)
        ({'laneid': 8, 'm': 1},)
        """
        return _apply(self, coord, shape)  # type: ignore[arg-type]

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
        return _place(self, coords, shape)  # type: ignore[arg-type]


@dataclass(frozen=True)
class TileLayout(_Mapping):
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
class SwizzleLayout(_Mapping):
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
class ComposeLayout(_Mapping):
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


Layout = Union[TileLayout, SwizzleLayout, ComposeLayout]  # noqa: UP007 - a runtime alias


# ---------------------------------------------------------------- finish(sum c_k * s_k + offset)
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
    return layout.tile if isinstance(layout, ComposeLayout) else layout


def swizzle_of(layout: Layout) -> SwizzleLayout | None:
    """The swizzle of a layout, None when it has none.

    >>> swizzle_of(TileLayout((Iter(8, 1),))) is None
    True
    """
    if isinstance(layout, ComposeLayout):
        return layout.swizzle
    return layout if isinstance(layout, SwizzleLayout) else None


def with_tile(layout: Layout, tile: TileLayout) -> TileLayout | ComposeLayout:
    """``tile`` under the swizzle of ``layout``, when it has one.

    >>> print(with_tile(SwizzleLayout(3, 3, 3), TileLayout((Iter(64, 1),))))
    Swizzle(3, 3, 3) o S[64:1]
    """
    swizzle = swizzle_of(layout)
    return tile if swizzle is None else ComposeLayout(swizzle, tile)


def finish_of(layout: Layout) -> Callable[[Any], Any] | None:
    """What turns the affine address into the final one, None for the identity: m = finish(sum c_k * s_k + offset).

    >>> finish_of(SwizzleLayout(3, 3, 3))(64)
    72
    """
    swizzle = swizzle_of(layout)
    return None if swizzle is None else lambda address: permute_address(swizzle, address)


def permute_address(swizzle: SwizzleLayout, address: Any) -> Any:
    """The swizzled address of an int, an array or an Index, in elements.

    With x = address >> M: ((x ^ ((x >> S) % 2**B)) << M) | address % 2**M, and for ``inner=False`` the term
    (x % 2**B) << S is XORed in instead.

    >>> permute_address(SwizzleLayout(0, 2, 3, inner=False), 3)
    27
    """
    if swizzle.swizzle_len == 0:
        return address
    if is_symbolic(address):
        return _permute_index(swizzle, address)
    mask, low = (1 << swizzle.swizzle_len) - 1, swizzle.per_element
    if swizzle.inner:
        return address ^ (((address >> (low + swizzle.atom_len)) & mask) << low)
    return address ^ (((address >> low) & mask) << (low + swizzle.atom_len))


def _permute_index(swizzle: SwizzleLayout, address: Index) -> Index:
    """The expression with the fewer operators: XOR on the part above the low M bits, or on the whole address."""
    unit = 1 << swizzle.per_element
    x = div(address, unit)
    if swizzle.inner:
        mask = mod(div(x, 1 << swizzle.atom_len), 1 << swizzle.swizzle_len)
    else:
        mask = mul(mod(x, 1 << swizzle.swizzle_len), 1 << swizzle.atom_len)
    apart = mul(xor(x, mask), unit) + mod(address, unit)
    whole = xor(address, mul(mask, unit))
    return whole if count_operators(whole) < count_operators(apart) else apart


# ---------------------------------------------------------------- place
@lru_cache(maxsize=4096)
def _rows(shard: Iters, shape: tuple[Index, ...]) -> tuple[Iters, ...] | None:
    """Fused iters per dimension, or None where dimensions and iters do not align and the flat index must be split."""
    try:
        fused = fuse_neighbours(drop_units(shard)) or shard
        return tuple(drop_units(fuse_neighbours(row)) for row in group_iters(fused, shape))
    except LayoutError:
        if product(i.extent for i in shard) != product(shape):
            raise
        return None


def _place(layout: Layout, coords: Sequence[Any], shape: Sequence[Index]) -> dict[str, Any]:
    if len(coords) != len(shape):
        raise LayoutError(f"{len(coords)} coordinates for a shape of {len(shape)} dimensions")
    shape = require_shape(shape)
    layout = over_shape(layout, shape)
    tile, swizzle = tile_of(layout), swizzle_of(layout)
    coords, arrays = _prepare(coords, shape, tile)
    result = _place_tile(tile, coords, shape)
    if swizzle is not None:
        result = {"m": permute_address(swizzle, result["m"])}
    if arrays is None:
        return result
    return {axis: v if isinstance(v, np.ndarray) else np.broadcast_to(v, arrays) for axis, v in result.items()}


def over_shape(layout: Layout, shape: Sequence[Index]) -> TileLayout | ComposeLayout:
    """The layout as that of a buffer of ``shape``: a bare swizzle acts on the row-major address, others are themselves.

    >>> print(over_shape(SwizzleLayout(3, 3, 3), (16, 64)))
    Swizzle(3, 3, 3) o S[(16, 64):(64, 1)]
    """
    if not isinstance(layout, SwizzleLayout):
        return layout
    extents, strides = (tuple(shape), row_major_strides(shape)) if shape else ((1,), [1])
    return ComposeLayout(layout, TileLayout(tuple(Iter(n, s) for n, s in zip(extents, strides, strict=True))))


def _place_tile(tile: TileLayout, coords: Sequence[Any], shape: tuple[Index, ...]) -> dict[str, Any]:
    rows = _rows(tile.shard, shape)
    if rows is None:
        coords, rows = [flatten(coords, shape)], (fuse_neighbours(drop_units(tile.shard)),)
    result: dict[str, Any] = {i.axis: 0 for i in (*tile.shard, *tile.replica)}
    for x, row in zip(coords, rows, strict=True):
        for i, component in zip(row, split(x, [i.extent for i in row]), strict=False):
            result[i.axis] = result[i.axis] + component * i.stride
    for axis, value in tile.offset:
        result[axis] = result.get(axis, 0) + value
    return result


def _prepare(coords: Sequence[Any], shape: tuple[Index, ...], tile: TileLayout) -> tuple[list[Any], Any]:
    """Arrays as int32 where every intermediate fits, else int64; NumPy ints as ints; and the arrays' common shape."""
    if not any(isinstance(x, np.ndarray) for x in coords):
        return [int(x) if isinstance(x, np.integer) else x for x in coords], None
    largest = extent_reached((*tile.shard, *tile.replica)) + product(shape) + sum(value for _, value in tile.offset)
    if not isinstance(largest, int):
        raise LayoutError("a layout with runtime extents places arrays only after bind() gave them values")
    if largest >= 2**63:
        raise LayoutError(f"positions up to {largest} do not fit 64 bits")
    if any(np.asarray(x).dtype.kind not in "iu" for x in coords):
        raise LayoutError("coordinates beside arrays are integers")
    inside = all(_is_inside(x, n) for x, n in zip(coords, shape, strict=True))
    dtype = np.int32 if inside and largest < 2**31 else np.int64
    arrays = [np.asarray(x).astype(dtype, copy=False) for x in coords]
    return list(arrays), np.broadcast_shapes(*(a.shape for a in arrays))


def _is_inside(x: Any, n: Any) -> bool:
    x = np.asarray(x)
    return x.size == 0 or bool(x.min() >= 0 and x.max() < n)


# ---------------------------------------------------------------- apply
def _apply(layout: Layout, coord: tuple[Any, ...], shape: Sequence[int] | None) -> tuple[dict[str, Any], ...]:
    domain = _domain(layout, coord, shape)
    if len(coord) != len(domain):
        raise LayoutError(f"{len(coord)} coordinates for {len(domain)} extents of {layout}")
    for x, n in zip(coord, domain, strict=True):
        _require_inside(x, n, layout)
    if isinstance(layout, SwizzleLayout):
        address = flatten(coord, shape) if shape is not None else coord[0]
        return ({"m": permute_address(layout, address)},)
    swizzle, tile = swizzle_of(layout), tile_of(layout)
    first = _place(tile, coord, domain)
    results = (_shift(first, tile.replica, steps) for steps in combinations(*(range(i.extent) for i in tile.replica)))  # type: ignore[arg-type]
    if swizzle is None:
        return tuple(results)
    return tuple({"m": permute_address(swizzle, r["m"])} for r in results)


def _domain(layout: Layout, coord: tuple[Any, ...], shape: Sequence[int] | None) -> tuple[Any, ...]:
    """The extents that the coordinates count in; None where an extent has no end."""
    if shape is not None:
        extents = require_shape(shape)
        if not isinstance(layout, SwizzleLayout) and product(extents) != size(layout):
            raise LayoutError(f"shape {extents} has {product(extents)} elements, {layout} has {size(layout)}")
        return extents
    if isinstance(layout, SwizzleLayout):
        return (None,)
    shard = tile_of(layout).shard
    return (size(layout),) if len(coord) == 1 else tuple(i.extent for i in shard)


def _require_inside(x: Any, n: Any, layout: Layout) -> None:
    if is_symbolic(x) or is_symbolic(n):
        return  # ranges of expressions are proved where they are used
    values = np.asarray(x)
    if values.dtype.kind not in "iu":
        raise LayoutError(f"a coordinate is an integer, not {x!r}")
    if values.size and (values.min() < 0 or (n is not None and values.max() >= n)):
        outside = values.min() if values.min() < 0 else values.max()
        limit = "is negative" if n is None or outside < 0 else f"is not below {n}"
        raise LayoutError(f"coordinate {outside} {limit} in {layout}")


def _shift(first: dict[str, Any], replica: Iters, steps: tuple[int, ...]) -> dict[str, Any]:
    result = dict(first)
    for i, step in zip(replica, steps, strict=True):
        result[i.axis] = result[i.axis] + step * i.stride
    return result


def size(layout: Layout, axis: str | None = None) -> Index:
    """Logical elements: the product of the shard extents (on ``axis`` alone when given); of a swizzle one period.

    Raises LayoutError for an unknown axis.

    >>> size(TileLayout((Iter(8, 4, "laneid"), Iter(2, 1)))), size(SwizzleLayout(3, 3, 3))
    (16, 512)
    """
    if axis is not None:
        require_axis(axis)
    return product(i.extent for i in tile_of(layout).shard if axis in (None, i.axis))
