"""Elements at places that an index names: shapes of the index and its regions, errors in them, values of the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic import Element, Node, find_elements
from tilegen.dtypes import DTYPES
from tilegen.errors import Flaw
from tilegen.index import Index
from tilegen.ops.op import Array, Here
from tilegen.spec.data import Call, Expression, Region
from tilegen.spec.form import operand_field


def axis_of(call: Call) -> int:
    """The dimension, among those that the region keeps in which the index counts, along which it does."""
    return axis_along(call.fields)


def axis_along(fields: Any) -> int:
    return fields.axis or 0


def shape_of(fields: Any, dst: Region, operands: Sequence[Region]) -> tuple[int, ...]:
    """The shape of the index of a scatter, and of what is written by it: what index(d) counts in.

    Where dst has one dimension it is any. Else it is dst's, but along the axis; a shape of one dimension lies there.
    """
    rank = max((len(r.shape) for r in operands), default=0)
    padded = [(1,) * (rank - len(r.shape)) + r.shape for r in operands]
    own = tuple(max(extents) for extents in zip(*padded, strict=True))
    into, axis = dst.shape, axis_along(fields)
    if len(into) <= 1 or axis >= len(into):
        return own
    along = own[0] if len(own) == 1 else own[axis] if len(own) == len(into) else 1
    return tuple(along if d == axis else n for d, n in enumerate(into))


def align(own: Sequence[int], shape: Sequence[int], axis: int, is_flat: bool) -> tuple[int | None, ...] | None:
    """For each dimension of ``shape`` the one of an operand that lies on it, None where that is stretched.

    A shape of one dimension lies along the axis, one of as many as the index has lies on it; all else, and where the
    index counts in a region of one dimension (``is_flat``), does not fit. None for a shape that does not fit.

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
    """The shape that index(d) counts in: that of the index of a scatter, of dst where elements are read by it."""
    assert call.expression is not None
    dst = call.regions["dst"]
    if not call.stores_by_index:
        return dst.shape
    return shape_of(call.fields, dst, tuple(call.expression.operands.values()))


def align_in_call(call: Call, region: Region) -> tuple[int | None, ...]:
    found = align(region.shape, shape_of_call(call), axis_of(call), len(call.indexed.shape) == 1)
    assert found is not None
    return found


def index_dtype(tree: Node) -> str:
    """The type that an index is held in: that of its elements, or that of what computes it."""
    return tree.dtype if isinstance(tree, Element) else tree.type


def coordinates_in(call: Call, index: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """For each dimension that the region keeps in which the index counts, where in it an element is; ``index``:
    (instances, \\*shape). A dimension of one place is stretched.
    """
    shape, extents, axis = shape_of_call(call), call.indexed.shape, axis_of(call)
    if len(extents) == 1:
        return [index]
    axes = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij", sparse=True)
    own = [np.zeros_like(x) if n == 1 else x for x, n in zip(axes, extents, strict=True)]
    return [index if d == axis else np.broadcast_to(x[None], index.shape) for d, x in enumerate(own)]


def find_extent(region: Region, d: int) -> Index:
    """How many places there are along a dimension of a region."""
    return region.buffer.shape[d] if d in region.open else region.lengths[d]


def promised_index(call: Call) -> Region | None:
    """The region of an array that is the index as it is, and of whose values the caller promises that none is twice."""
    assert call.expression is not None
    tree = call.expression.trees[-1]
    if not isinstance(tree, Element):
        return None
    region = list(call.expression.operands.values())[tree.number]
    return region if region.buffer.is_distinct and region.buffer.traits.is_callers else None


def is_apart(expression: Expression) -> bool:
    """Does the author claim, or the caller promise, that no two elements are the same which the index is made of?"""
    operands = list(expression.operands.values())
    return any(operands[e.number].buffer.is_distinct for e in find_elements(expression.trees[-1]))


# ---------------------------------------------------------------- what is wrong
def check_axis(fields: Any, region: Region, field: str) -> Flaw | None:
    """An error in the region in which an index counts, or in the axis along which it does; None where there is none."""
    if not region.shape:
        message = f"'{region.text}' is one element, and an index counts along a dimension"
        return Flaw("TG212", message, field, "keep a dimension: 'lo : +length'")
    if fields.axis is None and len(region.shape) > 1:
        message = f"'{region.text}' has {len(region.shape)} dimensions, and nothing says along which the index counts"
        return Flaw("TG212", message, field, "add 'axis: 0'")
    if fields.axis is not None and fields.axis >= len(region.shape):
        message = f"'axis' is {fields.axis}, and '{region.text}' has the shape {list(region.shape)}"
        return Flaw("TG212", message, "axis", f"0 to {len(region.shape) - 1}")
    kept = [d for d, is_kept in enumerate(region.kept) if is_kept]
    if beside := [d for d in region.open if d != kept[axis_along(fields)]]:
        extent = region.buffer.shape[beside[0]]
        message = (
            f"'{region.buffer.name}' has {extent} places in dimension {beside[0]}, as the launch alone knows, and no "
        )
        hint = "write 'lo : +length' with a constant length there"
        return Flaw("TG208", f"{message}index counts along these", field, hint)
    return None


def check_index(expression: Expression) -> Flaw | None:
    """An error in the type of an index, None where there is none."""
    dtype = index_dtype(expression.trees[-1])
    if DTYPES[dtype].kind not in ("int", "uint"):
        return Flaw("TG212", f"an index is an integer, and this one is {dtype}", "index", "cast it: 'dtype: int32'")
    if dtype == "uint64":
        return Flaw("TG212", "an index of uint64 has no place that is told from others", "index", "cast it to int64")
    return None


def check_operands(
    fields: Any, dst: Region, shape: tuple[int, ...], operands: Mapping[str, Region], flat_rule: str
) -> Flaw | None:  # fmt: skip
    """The first operand that does not fit ``shape``, in which index(d) counts, as an error; None where all do.

    ``flat_rule``: what shape one has where the index counts in a region of one dimension, "" where that has several.
    """
    axis = axis_along(fields)
    for name, region in operands.items():
        if align(region.shape, shape, axis, bool(flat_rule)) is None:
            field = name.removeprefix(".") if name.startswith(".") else "index"
            along = "" if flat_rule else f" along axis {axis}"
            message = f"'{region.text}' has the shape {list(region.shape)}, which does not fit '{dst.text}' of "
            rule = flat_rule or "one dimension, along the axis; or as many as dst, equal but along it, 1 stretches"
            return Flaw("TG212", f"{message}{list(dst.shape)}{along}", field, f"it has {rule}")
    return None


# ---------------------------------------------------------------- what an index comes to
def evaluate_tree(call: Call, tree: Node, values: Mapping[str, Array], here: Here, dtype: str) -> Array:
    """A tree of a call with an index over the shape that index(d) counts in, instances first, in ``dtype``."""
    expression, shape = call.expression, shape_of_call(call)
    assert expression is not None
    elements = []
    for name, region in expression.operands.items():
        aligned = align_in_call(call, region)
        lengths = [1 if k is None else n for k, n in zip(aligned, shape, strict=True)]
        elements.append(values[operand_field(name)].reshape(-1, *lengths))
    if isinstance(tree, Element) and tree.dtype == dtype:
        return here.stretch(elements[tree.number], shape)
    return here.compute(tree, elements, expression.wholes, shape, dtype)


def evaluate_index(call: Call, values: Mapping[str, Array], here: Here) -> Array:
    """The index of each element, over the shape that index(d) counts in, as its domain stores integers."""
    assert call.expression is not None
    index = call.expression.trees[-1]
    return evaluate_tree(call, index, values, here, index_dtype(index))
