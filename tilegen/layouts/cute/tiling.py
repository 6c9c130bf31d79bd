"""Division into tiles, and products of a block with a layout of its copies."""

from __future__ import annotations

from collections.abc import Callable

from tilegen.layouts.cute.algebra import Tiler, as_layout, complement, composition, modes_under
from tilegen.layouts.cute.values import CuteLayout, cosize, join, modes_of, rank, size

UNIT = CuteLayout(1, 0)


# ---------------------------------------------------------------- divide
def logical_divide(layout: CuteLayout, tiler: Tiler) -> CuteLayout:
    """(tile, rest) = L o (T, T*), T* = complement(T, size(L)): the elements of a tile, then the tiles.

    A tuple of tilers divides mode by mode, None leaves a mode as it is. A tile that does not divide covers more than
    L, which then goes on along its last leaf. Raises LayoutError as composition and complement do.

    >>> print(logical_divide(CuteLayout(6, 2), CuteLayout(2, 3)))
    (2,3):(6,2)
    """
    if tiler is None:
        return layout
    if isinstance(tiler, (tuple, list)):
        return _by_mode(logical_divide, layout, tiler)
    tile = as_layout(tiler)
    return composition(layout, join([tile, complement(tile, size(layout))]))


def zipped_divide(layout: CuteLayout, tiler: Tiler) -> CuteLayout:
    """((tile modes), (rest modes)): logical_divide with the tiles' modes gathered, then the rests' and the undivided.

    For a tiler that is one layout, logical_divide itself. Raises LayoutError as logical_divide does.

    >>> print(zipped_divide(CuteLayout((8, 6)), (4, 3)))
    ((4,3),(2,2)):((1,8),(4,24))
    """
    return _gather(logical_divide(layout, tiler), tiler)


def tiled_divide(layout: CuteLayout, tiler: Tiler) -> CuteLayout:
    """((tile modes), rest, rest, ...): zipped_divide with the second mode opened.

    Raises LayoutError as logical_divide does.

    >>> print(tiled_divide(CuteLayout((8, 6)), (4, 3)))
    ((4,3),2,2):((1,8),4,24)
    """
    tile, rest = modes_of(zipped_divide(layout, tiler))
    return join([tile, *modes_of(rest)])


def flat_divide(layout: CuteLayout, tiler: Tiler) -> CuteLayout:
    """(tile, tile, ..., rest, rest, ...): zipped_divide with both modes opened.

    Raises LayoutError as logical_divide does.

    >>> print(flat_divide(CuteLayout((8, 6)), (4, 3)))
    (4,3,2,2):(1,8,4,24)
    """
    tile, rest = modes_of(zipped_divide(layout, tiler))
    return join([*modes_of(tile), *modes_of(rest)])


def _by_mode(operation: Callable[[CuteLayout, Tiler], CuteLayout], layout: CuteLayout, tiler: Tiler) -> CuteLayout:
    assert isinstance(tiler, (tuple, list))
    modes = modes_under(layout, tiler)
    return join([*map(operation, modes, tiler), *modes[len(tiler) :]])


def _gather(pairs: CuteLayout, tiler: Tiler) -> CuteLayout:
    """((a, A), (b, B), c) -> ((a, b), (A, B, c)), as deep as the tuples of the tiler go."""
    if tiler is None:
        return join([UNIT, pairs])
    if not isinstance(tiler, (tuple, list)):
        return pairs
    modes = modes_of(pairs)
    split = [modes_of(_gather(mode, part)) for mode, part in zip(modes, tiler, strict=False)]
    return join([join(first for first, _ in split), join([*(rest for _, rest in split), *modes[len(split) :]])])


# ---------------------------------------------------------------- product
def logical_product(block: CuteLayout, tiler: Tiler) -> CuteLayout:
    """(B, B* o T), B* = complement(B, size(B) * cosize(T)): copies of a block, the j-th at the T(j)-th free place.

    An int n is the layout n:1 of n copies. A tuple of tilers multiplies mode by mode, None leaves a mode as it is.
    Raises LayoutError as composition and complement do.

    >>> print(logical_product(CuteLayout(4, 1), 3))
    (4,3):(1,4)
    """
    if tiler is None:
        return block
    if isinstance(tiler, (tuple, list)):
        return _by_mode(logical_product, block, tiler)
    tile = as_layout(tiler)
    return join([block, composition(complement(block, size(block) * cosize(tile)), tile)])


def zipped_product(block: CuteLayout, tiler: Tiler) -> CuteLayout:
    """((block modes), (tiler modes)): logical_product gathered as zipped_divide is.

    Raises LayoutError as logical_product does.

    >>> print(zipped_product(CuteLayout((2, 5), (5, 1)), (3, 4)))
    ((2,5),(3,4)):((5,1),(1,5))
    """
    return _gather(logical_product(block, tiler), tiler)


def tiled_product(block: CuteLayout, tiler: Tiler) -> CuteLayout:
    """((block modes), copies, copies, ...): zipped_product with the second mode opened.

    Raises LayoutError as logical_product does.

    >>> print(tiled_product(CuteLayout((2, 5), (5, 1)), CuteLayout((3, 4))))
    ((2,5),3,4):((5,1),10,30)
    """
    inner, copies = modes_of(zipped_product(block, tiler))
    return join([inner, *modes_of(copies)])


def blocked_product(block: CuteLayout, tiler: CuteLayout) -> CuteLayout:
    """((b_0, t_0), (b_1, t_1), ...): logical_product with modes k side by side, the block fastest.

    Raises LayoutError as logical_product does.

    >>> print(blocked_product(CuteLayout((2, 5), (5, 1)), CuteLayout((3, 4))))
    ((2,3),(5,4)):((5,10),(1,30))
    """
    return join(join(pair) for pair in _pair_modes(block, tiler))


def raked_product(block: CuteLayout, tiler: CuteLayout) -> CuteLayout:
    """((t_0, b_0), (t_1, b_1), ...): blocked_product with the tiler fastest, so that the blocks interleave.

    Raises LayoutError as logical_product does.

    >>> print(raked_product(CuteLayout((2, 5), (5, 1)), CuteLayout((3, 4))))
    ((3,2),(4,5)):((10,5),(30,1))
    """
    return join(join(reversed(pair)) for pair in _pair_modes(block, tiler))


def _pair_modes(block: CuteLayout, tiler: CuteLayout) -> list[tuple[CuteLayout, CuteLayout]]:
    """The modes of block and copies side by side, the one of fewer modes filled up with units."""
    most = max(rank(block), rank(tiler))
    padded = (join([*modes_of(x), *[UNIT] * (most - rank(x))]) for x in (block, tiler))
    inner, copies = modes_of(logical_product(*padded))
    return list(zip(modes_of(inner), modes_of(copies), strict=True))
