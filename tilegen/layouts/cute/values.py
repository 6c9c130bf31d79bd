"""CuteLayout: a shape and a stride, nested tuples of ints; a map from column-major coordinates to an integer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Union

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import runs
from tilegen.layouts.core.iters import is_symbolic, quotient, remainder
from tilegen.notebooks import Shown

IntTree = Union[int, tuple["IntTree", ...]]  # noqa: UP007 - a runtime alias

MAX_DEPTH = 32  # of nesting
MAX_VALUE = 1 << 62
Modes = list[tuple[int, int]]  # (extent, stride), fastest first


# ---------------------------------------------------------------- nested tuples
def require_tree(x: Any, what: str, at_least: int, depth: int = 0) -> IntTree:
    """``x`` as an int or nested tuples of ints (lists become tuples), every leaf at least ``at_least``.

    Raises LayoutError for other leaves, empty tuples and nesting deeper than 32.

    >>> require_tree([4, (2, 3)], "an extent", 1)
    (4, (2, 3))
    """
    if isinstance(x, (tuple, list)):
        if not x or depth == MAX_DEPTH:
            raise LayoutError(f"{what} is missing in ()" if not x else f"nesting is at most {MAX_DEPTH} deep")
        return tuple(require_tree(branch, what, at_least, depth + 1) for branch in x)
    if isinstance(x, bool) or not isinstance(x, (int, np.integer)):
        raise LayoutError(f"{what} is an integer, not {x!r}")
    if not at_least <= x <= MAX_VALUE:
        raise LayoutError(f"{what} is at least {at_least} and at most 2**62, not {x}")
    return int(x)


def leaves(tree: IntTree) -> Iterator[int]:
    """The ints of a tree from left to right.

    >>> list(leaves((4, (2, 3))))
    [4, 2, 3]
    """
    if isinstance(tree, int):
        yield tree
    else:
        for branch in tree:
            yield from leaves(branch)


def branches(tree: IntTree) -> tuple[IntTree, ...]:
    """The top level of a tree; an int is its own only branch.

    >>> branches((4, (2, 3))), branches(4)
    ((4, (2, 3)), (4,))
    """
    return (tree,) if isinstance(tree, int) else tree


def product_of(tree: IntTree) -> int:
    """The product of the leaves.

    >>> product_of((4, (2, 3)))
    24
    """
    return prod(leaves(tree))


def is_congruent(a: IntTree, b: IntTree) -> bool:
    """Whether two trees nest alike.

    >>> is_congruent((4, (2, 3)), (1, (0, 5))), is_congruent((4, 2), 8)
    (True, False)
    """
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int)
    return len(a) == len(b) and all(map(is_congruent, a, b))


def map_leaves(function: Callable[..., int], *trees: IntTree) -> IntTree:
    """The tree of function(leaf of each tree), for congruent trees.

    >>> map_leaves(lambda n, d: n * d, (4, (2, 3)), (1, (5, 0)))
    (4, (10, 0))
    """
    if isinstance(trees[0], int):
        return function(*trees)
    return tuple(map_leaves(function, *parts) for parts in zip(*map(branches, trees), strict=True))


def column_major_strides(shape: IntTree) -> IntTree:
    """Dense strides, the leftmost leaf fastest: d_k = n_0 * ... * n_(k-1).

    >>> column_major_strides((4, (2, 3)))
    (1, (4, 8))
    """
    step = 1

    def take(extent: int) -> int:
        nonlocal step
        stride, step = step, step * extent
        return stride

    return map_leaves(take, shape)


def spell_tree(tree: IntTree) -> str:
    """The text of a tree, as CuTe writes it; parentheses always mean a tuple.

    >>> spell_tree((4, (2, 3))), spell_tree((4,)), spell_tree(4)
    ('(4,(2,3))', '(4)', '4')
    """
    return str(tree) if isinstance(tree, int) else f"({','.join(map(spell_tree, tree))})"


# ---------------------------------------------------------------- layouts
@dataclass(frozen=True)
class CuteLayout(Shown):
    """``shape:stride``, two nested tuples of ints that nest alike: L(c) = sum of c_k * d_k over the leaves.

    Without a stride, the dense column-major layout of the shape. Strides count elements. Raises LayoutError for
    extents < 1, strides < 0 and trees that nest differently.

    >>> layout = CuteLayout((4, (2, 3)), (2, (1, 8)))
    >>> print(layout, layout(5), layout(1, 1), layout(1, (1, 0)))
    (4,(2,3)):(2,(1,8)) 3 3 3
    """

    shape: IntTree
    stride: IntTree = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        shape = require_tree(self.shape, "an extent", 1)
        stride = column_major_strides(shape) if self.stride is None else require_tree(self.stride, "a stride", 0)
        if not is_congruent(shape, stride):
            raise LayoutError(f"shape {spell_tree(shape)} and stride {spell_tree(stride)} do not nest alike")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    def __call__(self, *coord: Any) -> Any:
        """The place of a coordinate: one int, one for each mode, or nested like the shape.

        An int is split column-major, the first mode fastest, in every (sub)shape that it meets. Takes ints, NumPy
        arrays and Index alike. One int alone may run past the size, where the last leaf that is no unit goes on
        counting, as compositions and divisions with a remainder need; inside a tuple it may not. Raises LayoutError
        for coordinates that are negative, outside, or nest differently.
        """
        if len(coord) != 1:
            return crd2idx(coord, self.shape, self.stride)
        return crd2idx(coord[0], self.shape, self.stride)

    def __str__(self) -> str:
        return f"{spell_tree(self.shape)}:{spell_tree(self.stride)}"


def crd2idx(coord: Any, shape: IntTree, stride: IntTree) -> Any:
    """sum of c_k * d_k over the leaves, after each int is split column-major in the subshape that it meets.

    Raises LayoutError as calling a CuteLayout does.

    >>> crd2idx((3, 5), (4, (2, 3)), (2, (1, 8)))
    23
    """
    if not isinstance(coord, (tuple, list)):
        _require_inside(coord, None)
        return _fold(coord, fuse_digits(zip(leaves(shape), leaves(stride), strict=True)))
    shapes, strides = branches(shape), branches(stride)
    if len(coord) != len(shapes):
        raise LayoutError(f"{len(coord)} coordinates for the {len(shapes)} modes of shape {spell_tree(shape)}")
    for x, n in zip(coord, shapes, strict=True):
        if not isinstance(x, (tuple, list)):
            _require_inside(x, product_of(n))
    return sum(crd2idx(*part) for part in zip(coord, shapes, strides, strict=True))


def _fold(x: Any, digits: Modes) -> Any:
    place: Any = 0
    for extent, stride in digits[:-1]:
        place = place + remainder(x, extent) * stride
        x = quotient(x, extent)
    return place + x * digits[-1][1]


def _require_inside(x: Any, end: int | None) -> None:
    if is_symbolic(x):
        return  # ranges of expressions are proved where they are used
    values = np.asarray(x)
    if values.dtype.kind not in "iu":
        raise LayoutError(f"a coordinate is an integer, not {x!r}")
    if values.size and (values.min() < 0 or (end is not None and values.max() >= end)):
        outside = values.min() if values.min() < 0 else values.max()
        raise LayoutError(f"coordinate {outside} is not inside [0, {'...' if end is None else end})")


def idx2crd(i: int, shape: IntTree) -> IntTree:
    """The nested coordinate of a column-major index: c_k = (i // (n_0 * ... * n_(k-1))) % n_k.

    Raises LayoutError for an index outside the shape.

    >>> idx2crd(13, (4, (2, 3)))
    (1, (1, 1))
    """
    _require_inside(i, product_of(shape))
    return map_leaves(lambda extent, step: i // step % extent, shape, column_major_strides(shape))


# ---------------------------------------------------------------- what a layout is
def size(layout: CuteLayout) -> int:
    """The number of coordinates: the product of the extents.

    >>> size(CuteLayout((4, (2, 3))))
    24
    """
    return product_of(layout.shape)


def cosize(layout: CuteLayout) -> int:
    """What to allocate: 1 + the largest place = 1 + sum of (n_k - 1) * d_k.

    >>> cosize(CuteLayout((4, 2), (1, 10)))
    14
    """
    return 1 + sum((extent - 1) * stride for extent, stride in flat_modes(layout))


def rank(layout: CuteLayout) -> int:
    """The number of modes on the top level.

    >>> rank(CuteLayout((4, (2, 3)))), rank(CuteLayout(8))
    (2, 1)
    """
    return len(branches(layout.shape))


def depth(layout: CuteLayout) -> int:
    """How deep the shape nests: 0 for an int.

    >>> depth(CuteLayout((4, (2, 3)))), depth(CuteLayout(8))
    (2, 0)
    """
    return _depth(layout.shape)


def _depth(tree: IntTree) -> int:
    return 0 if isinstance(tree, int) else 1 + max(map(_depth, tree))


def flat_modes(layout: CuteLayout) -> Modes:
    """The (extent, stride) of the leaves, fastest first.

    >>> flat_modes(CuteLayout((4, (2, 3)), (2, (1, 8))))
    [(4, 2), (2, 1), (3, 8)]
    """
    return list(zip(leaves(layout.shape), leaves(layout.stride), strict=True))


def modes_of(layout: CuteLayout) -> tuple[CuteLayout, ...]:
    """The modes of the top level as layouts; an int shape is its own only mode.

    >>> print(*modes_of(CuteLayout((4, (2, 3)))))
    4:1 (2,3):(4,8)
    """
    return tuple(map(CuteLayout, branches(layout.shape), branches(layout.stride)))


# ---------------------------------------------------------------- layouts of modes
def join(layouts: Iterable[CuteLayout]) -> CuteLayout:
    """The layout whose modes are these: L(c_0, c_1, ...) = L_0(c_0) + L_1(c_1) + ...

    Raises LayoutError for none.

    >>> print(join([CuteLayout(4), CuteLayout((2, 3), (4, 8))]))
    (4,(2,3)):(1,(4,8))
    """
    parts = tuple(layouts)
    return CuteLayout(tuple(part.shape for part in parts), tuple(part.stride for part in parts))


def from_modes(modes: Iterable[tuple[int, int]]) -> CuteLayout:
    """The flat layout of (extent, stride) pairs: 1:0 for none, no tuple for one.

    >>> print(from_modes([]), from_modes([(4, 2)]), from_modes([(4, 2), (2, 1)]))
    1:0 4:2 (4,2):(2,1)
    """
    pairs = tuple(modes) or ((1, 0),)
    if len(pairs) == 1:
        return CuteLayout(*pairs[0])
    return CuteLayout(tuple(extent for extent, _ in pairs), tuple(stride for _, stride in pairs))


def fuse(modes: Iterable[tuple[int, int]]) -> Modes:
    """Neighbours (n_0, d), (n_1, n_0 * d) become (n_0 * n_1, d): the same function of the flat index.

    >>> fuse([(2, 1), (2, 2), (4, 5)])
    [(4, 1), (4, 5)]
    """
    fused = runs.fuse(runs.Run(extent, (stride,)) for extent, stride in reversed(tuple(modes)))
    return [(run.extent, run.strides[0]) for run in reversed(fused)]


def fuse_digits(modes: Iterable[tuple[int, int]]) -> Modes:
    """The digits of a flat index, fused and without units; the last one is not bounded. Of units alone, the last unit.

    >>> fuse_digits([(2, 1), (4, 2), (3, 9), (1, 5)]), fuse_digits([(1, 0), (1, 5)])
    ([(8, 1), (3, 9)], [(1, 5)])
    """
    every = list(modes)
    return fuse(mode for mode in every if mode[0] != 1) or every[-1:]


def coalesce(layout: CuteLayout, profile: Any = 1) -> CuteLayout:
    """The shortest flat layout of the same function of the flat index; units dropped, neighbours fused.

    With a tuple as ``profile``, each mode that it reaches is coalesced for itself, by its part of the profile; modes
    past its end stay. Raises LayoutError for a profile of more modes than the layout.

    >>> print(coalesce(CuteLayout((2, (1, 6)), (1, (6, 2)))))
    12:1
    >>> print(coalesce(CuteLayout((2, (1, 6)), (1, (6, 2))), profile=(1, 1)))
    (2,6):(1,2)
    """
    if not isinstance(profile, (tuple, list)):
        return from_modes(fuse(mode for mode in flat_modes(layout) if mode[0] != 1))
    modes = modes_of(layout)
    if not 0 < len(profile) <= len(modes):
        raise LayoutError(f"a profile of {len(profile)} modes for the {len(modes)} of {layout}")
    return join([*map(coalesce, modes, profile), *modes[len(profile) :]])


def filter_zeros(layout: CuteLayout) -> CuteLayout:
    """The layout with every extent of stride 0 made 1: the same places, each broadcast counted once.

    >>> print(filter_zeros(CuteLayout((4, 3), (0, 1))))
    (1,3):(0,1)
    """
    shape = map_leaves(lambda extent, stride: extent if stride else 1, layout.shape, layout.stride)
    return CuteLayout(shape, layout.stride)
