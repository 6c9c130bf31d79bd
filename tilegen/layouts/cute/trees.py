"""Nested tuples of ints: the shapes, strides and coordinates of CuTe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Union

import numpy as np

from tilegen.errors import LayoutError

IntTree = Union[int, tuple["IntTree", ...]]  # noqa: UP007 - a runtime alias

MAX_DEPTH = 32  # of nesting
MAX_VALUE = 1 << 62


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
