"""From every other layout to bases, where the map is XOR-linear, and back to iters, where there are some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from operator import or_

from tilegen.errors import LayoutError
from tilegen.layouts.core.iters import AXES, THREADS_IN, Iter, require_known, require_shape, split
from tilegen.layouts.core.rows import fuse_neighbours
from tilegen.layouts.core.values import (
    ComposeLayout,
    ShapedLayout,
    SwizzleLayout,
    TileLayout,
    over_shape,
    permute_address,
    size,
    tile_of,
)
from tilegen.layouts.linear.matrices import bits_of, eliminate, right_inverse, set_bits
from tilegen.layouts.linear.values import LinearFamily, LinearLayout, linear_from_columns, name_bits

REGISTERS = {"m": "register", "cbx": "block"}
MEMORY = {"m": "offset", "cbx": "block"}
_AXES = {"register": "m", "offset": "m", "lane": "laneid", "warp": "warpid", "block": "cbx"}
LANES = THREADS_IN["warp"]


def to_linear(layout: object, shape: Sequence[int] | None = None) -> LinearLayout:
    """The layout as bases, over a buffer of ``shape`` (which a linear or padded layout knows itself).

    Exists exactly when logical to hardware is XOR-linear and reaches every place: L(x ^ y) = L(x) ^ L(y).
    Thread axes become lane and warp, memory axis m register (beside thread axes) or offset, cbx block, other axes keep
    their names. Replicas become copies (zero bases). Raises LayoutError with the index at which linearity fails:
    carries, padding, an offset, extents that are no powers of two; or with a place that holds no element.

    >>> from tilegen.layouts.notation import parse
    >>> print(to_linear(parse("S[(4, 2):(1@laneid, 1)] + R[2:1@warpid]"), (4, 2)))
    LinearLayout(register=[[0, 1]], lane=[[1, 0], [2, 0]], warp=[[0, 0]], block=[], shape=[4, 2])
    >>> to_linear(parse("S[(4, 4):(5, 1)]"), (4, 4))
    Traceback (most recent call last):
        ...
    tilegen.errors.LayoutError: S[(4, 4):(5, 1)] is not XOR-linear at index (1, 1): m is 6 there, the XOR gives 4
    """
    if isinstance(layout, LinearFamily):
        return layout.to_linear(_require_shape_of(layout, shape))
    if isinstance(layout, LinearLayout):
        return _reshape(layout, shape)
    if not isinstance(layout, (TileLayout, SwizzleLayout, ComposeLayout, ShapedLayout)):
        raise LayoutError(f"{layout} is no layout")
    if shape is None and isinstance(layout, ShapedLayout):
        shape = layout.shape
    return _convert(layout, _require_powers(layout, _require_shape_of(layout, shape)))


def _require_shape_of(layout: object, shape: Sequence[int] | None) -> Sequence[int]:
    if shape is None:
        raise LayoutError(f"{layout} does not know the shape of its buffer: give one")
    return shape


def _reshape(layout: LinearLayout, shape: Sequence[int] | None) -> LinearLayout:
    shape = layout.shape if shape is None else _require_powers(layout, shape)
    if shape == layout.shape:
        return layout
    if prod(shape) != prod(layout.shape):
        raise LayoutError(f"shape {list(shape)} has {prod(shape)} elements, {layout} has {prod(layout.shape)}")
    return linear_from_columns(layout.columns, dict(zip(layout.names, layout.widths, strict=True)), shape)


def _require_powers(layout: object, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape; an index n of an extent n that is no power of two is the XOR of indices that exist."""
    extents = tuple(require_known(n, "an extent of a linear layout") for n in require_shape(shape))
    for d, n in enumerate(extents):
        if n & (n - 1):
            high = 1 << (n.bit_length() - 1)
            raise LayoutError(
                f"{layout} is not XOR-linear at index {high} XOR {n ^ high} = {n} of dimension {d} of {n}",
                hint="linear layouts have extents that are powers of two",
            )
    return extents


# ---------------------------------------------------------------- logical to hardware, bit by bit
@dataclass
class _Moves:
    """What each bit of the flat index, then of each replica, adds on each axis: lists of one value for each bit."""

    bits: int
    axes: dict[str, list[int]] = field(default_factory=dict)

    def put(self, bit: int, axis: str, value: int) -> None:
        self.axes.setdefault(axis, [0] * self.bits)[bit] += value


def _convert(layout: TileLayout | SwizzleLayout | ComposeLayout | ShapedLayout, shape: tuple[int, ...]) -> LinearLayout:
    if not isinstance(layout, SwizzleLayout) and size(layout) != prod(shape):
        raise LayoutError(f"shape {list(shape)} has {prod(shape)} elements, {layout} has {size(layout)}")
    whole = over_shape(layout, shape)
    tile = tile_of(whole)
    for axis, value in tile.offset:
        raise LayoutError(f"{layout} is not XOR-linear at index {_spell(0, shape)}: {axis} is {value} there, not 0")
    elements = prod(shape).bit_length() - 1
    steps = list(_steps(tile.shard))
    copies = [(axis, value) for axis, value in _steps(tile.replica) if value]
    moves = _Moves(len(steps) + len(copies))
    for bit, (axis, value) in enumerate((*steps, *copies)):
        moves.put(bit, axis, value)
    _require_no_carry(layout, moves, shape, elements)
    if isinstance(whole, ShapedLayout) and "m" in moves.axes:
        moves.axes["m"] = [int(whole.finish(value)) for value in moves.axes["m"]]
        _require_no_carry(layout, moves, shape, elements)
    if isinstance(whole, ComposeLayout) and "m" in moves.axes:
        moves.axes["m"] = [permute_address(whole.swizzle, value) for value in moves.axes["m"]]
    return _invert(layout, _name_inputs(layout, moves), moves.bits, shape, elements)


def _steps(iters: Sequence[Iter]) -> Iterator[tuple[str, int]]:
    """(axis, value) for each bit of a flat index over iters, lowest first."""
    for i in reversed(iters):
        extent = require_known(i.extent, "an extent of a linear layout")
        stride = require_known(i.stride, "a stride of a linear layout")
        for k in range(bits_of(extent, f"the extent of {i}")):
            yield i.axis, stride << k


def _spell(flat: int, shape: tuple[int, ...]) -> str:
    coord = split(flat, shape)
    return f"({', '.join(map(str, coord))})" if len(coord) != 1 else str(coord[0])


def _require_no_carry(layout: object, moves: _Moves, shape: tuple[int, ...], elements: int) -> None:
    """A sum is a XOR exactly when no two bits of the index add the same bit of a position."""
    met = (
        (1 << i | 1 << j, axis, values[i], values[j])
        for axis, values in moves.axes.items()
        for j in range(len(values))
        for i in range(j)
        if values[i] & values[j]
    )
    if first := min(met, default=None):
        index, axis, a, b = first
        flat, copy = index & ((1 << elements) - 1), index >> elements
        where = f"index {_spell(flat, shape)}" + (f" of copy {copy}" if copy else "")
        raise LayoutError(f"{layout} is not XOR-linear at {where}: {axis} is {a + b} there, the XOR gives {a ^ b}")


# ---------------------------------------------------------------- hardware inputs
def _name_inputs(layout: object, moves: _Moves) -> dict[str, list[int]]:
    """The values by Triton's inputs, in its order; thread axes are cut into lane and warp."""
    threaded = any(AXES[axis].kind == "thread" for axis in moves.axes)
    names = REGISTERS if threaded else MEMORY
    order = ("register", "lane", "warp") if threaded else ("offset",) if "m" in moves.axes else ()
    inputs: dict[str, list[int]] = {name: [0] * moves.bits for name in order}
    others = [names.get(axis, axis) for axis in moves.axes if AXES[axis].kind != "thread"]
    for name in (*(n for n in others if n != "block"), "block"):
        inputs.setdefault(name, [0] * moves.bits)
    for axis, values in moves.axes.items():
        taken = {name: reduce(or_, found) for name, found in inputs.items() if found}
        for bit, value in enumerate(values):
            for name, part in _parts(layout, axis, value, names):
                if taken[name] & part:
                    raise LayoutError(f"axes of {layout} count the same {name}s twice")
                inputs[name][bit] |= part
    return inputs


def _parts(layout: object, axis: str, value: int, names: dict[str, str]) -> list[tuple[str, int]]:
    """One axis' value as (input, value): tx = lane + 32 * warp, wgid = 4 warps."""
    sub, scope = AXES[axis].sub, AXES[axis].scope
    if AXES[axis].kind != "thread":
        return [(names.get(axis, axis), value)]
    threads = value * THREADS_IN[sub]
    if scope in THREADS_IN and threads >= THREADS_IN[scope]:
        raise LayoutError(f"{layout} puts elements at {axis} = {value}, but a {scope} has {THREADS_IN[scope]} threads")
    return [(name, x) for name, x in (("lane", threads % LANES), ("warp", threads // LANES)) if x]


def _invert(
    layout: object, inputs: dict[str, list[int]], bits: int, shape: tuple[int, ...], elements: int
) -> LinearLayout:
    """Hardware to logical: the inverse of (element, replica) to place, with the replica left out."""
    widths = {name: max((v.bit_length() for v in values), default=0) for name, values in inputs.items()}
    columns, low = [0] * bits, 0
    for name, values in inputs.items():
        columns = [column | value << low for column, value in zip(columns, values, strict=True)]
        low += widths[name]
    if meet := eliminate(columns).kernel:
        one = min(meet) & ((1 << elements) - 1)
        raise LayoutError(f"{layout} puts elements {_spell(0, shape)} and {_spell(one, shape)} at one place")
    found = right_inverse(columns, low)
    if not isinstance(found, tuple):
        at = _locate(found, widths)
        raise LayoutError(f"{layout} puts no element at {at}: a linear layout has no holes")
    mask = (1 << elements) - 1
    return linear_from_columns([x & mask for x in found], widths, shape)


def _locate(bit: int, widths: dict[str, int]) -> str:
    """The place of one hardware bit alone; below the first bit out of reach, every position of its input is reached."""
    for name, width in widths.items():
        if bit < width:
            return f"{name} {1 << bit}"
        bit -= width
    raise AssertionError("a bit beyond the inputs")


# ---------------------------------------------------------------- from bases back to iters
def to_tile(linear: LinearLayout) -> TileLayout | ComposeLayout:
    """The same map from logical to hardware as iters: each bit of the index is a stride, zero bases are replicas.

    register and offset become axis m, lane laneid, warp warpid, block cbx; other inputs are axes by their name. Bits
    of m that are the XOR of two index bits become a swizzle, where one of SwizzleLayout's does it. Raises LayoutError
    with the bit that no tile layout describes, elements that are held nowhere, and copies that are no zero bases.

    >>> print(to_tile(LinearLayout(register=[[0, 1]], lane=[[1, 0], [2, 0]], warp=[[0, 0]])))
    S[(4, 2):(1@laneid, 1)] + R[2:1@warpid]
    >>> print(to_tile(LinearLayout(offset=[[0, 1], [0, 2], [1, 1], [2, 2]])))
    Swizzle(0, 2, 2) o S[16:1]
    """
    found = linear.inverse_columns
    if not isinstance(found, tuple):
        raise LayoutError(f"no tile layout is {linear}: it holds element {tuple(split(found, linear.shape))} nowhere")
    axes = _name_axes(linear)
    copies = tuple(reversed(eliminate(linear.columns).kernel))
    moves = [_rename(name_bits(linear, column), axes) for column in (*reversed(found), *copies)]
    swizzle = _find_swizzle(linear, moves)
    if swizzle is not None:
        if others := sorted({axis for move in moves for axis in move} - {"m"}):
            raise LayoutError(f"no tile layout is {linear}: a swizzle is of m alone, not also of {', '.join(others)}")
        moves = [{axis: permute_address(swizzle, x) if axis == "m" else x for axis, x in m.items()} for m in moves]
    for k, move in enumerate(moves):
        if len(move) != 1 or not _is_power(next(iter(move.values()))):
            what = "a copy" if k >= len(found) else f"index {tuple(split(1 << (len(found) - 1 - k), linear.shape))}"
            raise LayoutError(f"no tile layout is {linear}: {what} moves {_spell_move(move)} at once")
    steps = [Iter(2, x, axis) for move in moves for axis, x in move.items()]
    shard = fuse_neighbours(tuple(steps[: len(found)])) or (Iter(1, 1),)
    tile = TileLayout(shard, fuse_neighbours(tuple(steps[len(found) :])))
    return tile if swizzle is None else ComposeLayout(swizzle, tile)


def as_buffer_layout(linear: object, shape: Sequence[int]) -> TileLayout | ComposeLayout:
    """The layout of a buffer of ``shape`` that a linear or a Gluon layout is, as TileLayout or ComposeLayout.

    Raises LayoutError as ``to_linear`` and ``to_tile``.

    >>> print(as_buffer_layout(LinearLayout(offset=[[0, 1], [1, 0]]), (2, 2)))
    S[4:1]
    """
    return to_tile(to_linear(linear, shape))


def _name_axes(linear: LinearLayout) -> dict[str, str]:
    axes = {name: _AXES.get(name, name) for name, width in zip(linear.names, linear.widths, strict=True) if width}
    for name, axis in axes.items():
        if axis not in AXES:
            raise LayoutError(f"no tile layout is {linear}: there is no axis for the input {name}")
    if len(set(axes.values())) < len(axes):
        raise LayoutError(f"no tile layout is {linear}: two inputs count positions of one axis")
    return axes


def _rename(place: dict[str, int], axes: dict[str, str]) -> dict[str, int]:
    return {axes[name]: x for name, x in place.items()}


def _find_swizzle(linear: LinearLayout, moves: list[dict[str, int]]) -> SwizzleLayout | None:
    """The one swizzle whose XOR explains every index bit that moves two address bits; a move is {axis: value}."""
    pairs = [tuple(set_bits(move.get("m", 0))) for move in moves]
    pairs = [pair for pair in pairs if len(pair) > 1]
    if not pairs:
        return None
    lows, distances = [pair[0] for pair in pairs], {pair[1] - pair[0] for pair in pairs}
    most = max(len(pair) for pair in pairs)
    first, count = min(lows), max(lows) - min(lows) + 1
    if most > 2 or len(distances) > 1 or min(distances) < count:
        raise LayoutError(f"no tile layout is {linear}: no swizzle XORs its address bits {pairs}")
    for inner in (True, False):
        swizzle = SwizzleLayout(first, count, min(distances), inner)
        if all(_is_power(permute_address(swizzle, move["m"])) for move in moves if "m" in move):
            return swizzle
    raise LayoutError(f"no tile layout is {linear}: no swizzle XORs its address bits {pairs}")


def _is_power(x: int) -> bool:
    return x > 0 and x & (x - 1) == 0


def _spell_move(move: dict[str, int]) -> str:
    return " and ".join(f"{axis} by {x}" for axis, x in move.items())
