"""From bases back to tile layouts, swizzled or not, where there is one."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.errors import LayoutError
from tilegen.layouts.core.iters import AXES, Iter, split
from tilegen.layouts.core.rows import fuse_neighbours
from tilegen.layouts.core.values import ComposeLayout, SwizzleLayout, TileLayout, permute_address
from tilegen.layouts.linear.converting import to_linear
from tilegen.layouts.linear.matrices import eliminate, set_bits
from tilegen.layouts.linear.values import LinearLayout, name_bits

_AXES = {"register": "m", "offset": "m", "lane": "laneid", "warp": "warpid", "block": "cbx"}
Moves = list[dict[str, int]]  # what each bit of the flat index, highest first, and each copy adds on each axis


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


def _find_swizzle(linear: LinearLayout, moves: Moves) -> SwizzleLayout | None:
    """The one swizzle whose XOR explains every index bit that moves two address bits."""
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
