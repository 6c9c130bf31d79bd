"""Elements that go where other elements say: how the shape of the index, and of what goes there, lies on what is
written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic import Element, Node, find_elements
from tilegen.index import Index
from tilegen.spec.data import Call, Expression, Region


def axis_of(call: Call) -> int:
    """The dimension of dst, among those that its region keeps, along which the index counts."""
    return axis_along(call.fields, call.regions["dst"])


def axis_along(fields: Any, dst: Region) -> int:
    return fields.axis or 0


def shape_of(fields: Any, dst: Region, operands: Sequence[Region]) -> tuple[int, ...]:
    """The shape of the index, and of what is written by it: what index(d) counts in.

    Where dst has one dimension it is any. Else it is dst's, but along the axis; a shape of one dimension lies there.
    """
    rank = max((len(r.shape) for r in operands), default=0)
    padded = [(1,) * (rank - len(r.shape)) + r.shape for r in operands]
    own = tuple(max(extents) for extents in zip(*padded, strict=True))
    into, axis = dst.shape, axis_along(fields, dst)
    if len(into) <= 1 or axis >= len(into):
        return own
    along = own[0] if len(own) == 1 else own[axis] if len(own) == len(into) else 1
    return tuple(along if d == axis else n for d, n in enumerate(into))


def align(own: Sequence[int], shape: Sequence[int], axis: int, is_flat: bool) -> tuple[int | None, ...] | None:
    """For each dimension of ``shape`` the one of an operand that lies on it, None where that is stretched.

    A shape of one dimension lies along the axis, one of as many as the index has lies on it; all else, and where dst
    has one dimension (``is_flat``), does not fit. None for a shape that does not fit.

    >>> align((8,), (8, 4), 0, False), align((8, 1), (8, 4), 0, False), align((4,), (8, 4), 0, False)
    ((0, None), (0, None), None)
    """
    if not own:
        return (None,) * len(shape)
    if len(own) == 1 and len(shape) > 1 and not is_flat:
        own = tuple(own[0] if d == axis else 1 for d in range(len(shape)))
        places: tuple[int, ...] = tuple(0 for _ in shape)
    else:
        spare = len(shape) - len(own)
        if spare < 0 or (spare and not is_flat):
            return None
        places = tuple(d - spare for d in range(len(shape)))
        own = (1,) * spare + tuple(own)
    if any(n not in (1, m) for n, m in zip(own, shape, strict=True)):
        return None
    return tuple(k if n > 1 else None for k, n in zip(places, own, strict=True))


def shape_of_call(call: Call) -> tuple[int, ...]:
    assert call.expression is not None
    return shape_of(call.fields, call.regions["dst"], tuple(call.expression.operands.values()))


def align_in_call(call: Call, region: Region) -> tuple[int | None, ...]:
    found = align(region.shape, shape_of_call(call), axis_of(call), len(call.regions["dst"].shape) == 1)
    assert found is not None
    return found


def index_dtype(tree: Node) -> str:
    """The type that an index is held in: that of its elements, or that of what computes it."""
    return tree.dtype if isinstance(tree, Element) else tree.type


def coordinates_in(call: Call, index: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """For each dimension that dst's region keeps, where in it an element goes; ``index``: (instances, \\*shape)."""
    shape, rank, axis = shape_of_call(call), len(call.regions["dst"].shape), axis_of(call)
    if rank == 1:
        return [index]
    axes = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij", sparse=True)
    return [index if d == axis else np.broadcast_to(axes[d][None], index.shape) for d in range(rank)]


def find_extent(region: Region, d: int) -> Index:
    """How many places there are along a dimension of a region."""
    return region.buffer.shape[d] if d in region.open else region.lengths[d]


def promised_index(call: Call) -> Region | None:
    """The region of an array that is the index as it is, and of whose values the caller promises that none is twice."""
    assert call.expression is not None
    tree = call.expression.trees[1]
    if not isinstance(tree, Element):
        return None
    region = list(call.expression.operands.values())[tree.number]
    return region if region.buffer.is_distinct and region.buffer.traits.is_callers else None


def is_apart(expression: Expression) -> bool:
    """Does the author claim, or the caller promise, that no two elements are the same which the index is made of?"""
    operands = list(expression.operands.values())
    return any(operands[e.number].buffer.is_distinct for e in find_elements(expression.trees[-1]))
