"""Views of buffers in tensor memory: the same cells in elements of another type, or counted in another shape."""

from __future__ import annotations

from math import prod
from typing import Any

from tilegen.dtypes import DTYPES
from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts import canonicalize, retype_cells
from tilegen.layouts.core.cells import CELL_BITS
from tilegen.spec.auto import AUTO
from tilegen.spec.data import Buffer
from tilegen.spec.findings import Findings, Flawed, shorten
from tilegen.spec.nodes import Mapping, Scalar
from tilegen.spec.placing import Setting, find_crossing, read_layout
from tilegen.spec.regions import show_shape

Retyped = tuple[str, tuple[Index, ...] | None]  # the dtype of a view, and its shape where it says one


def view_cells(key: Scalar, node: Mapping, view: Retyped, other: Buffer, seen: tuple[Setting, Findings]) -> Buffer:
    """A view of tensor memory: ``view`` is its dtype, and its shape where it says one.

    Cells keep their lanes and columns. Without a shape the last dimension has as many elements more, or fewer, as
    share a column. Raises Flawed TG115 for a view with other cells.
    """
    dtype, given = view
    _check_wide(other, dtype, node)
    shape = _count_last(other, dtype, node) if given is None else given
    old, new = (DTYPES[name].bits for name in (other.dtype, dtype))
    if _count(shape) * new != _count(other.shape) * old:
        wanted = f"{_count(other.shape) * old // new} elements of {dtype}"
        message = f"the shape {show_shape(shape)} has {_count(shape)}, and '{other.name}' has the cells of {wanted}"
        raise Flawed("TG115", message, (node.get("shape") or node["view"]).mark, "a view keeps all cells")
    if given is None and dtype == other.dtype and "layout" not in node:
        raise Flawed("TG115", f"this view is '{other.name}' again", node.mark, "give 'axes', 'shape' or 'dtype'")
    layout: Any = AUTO if other.is_auto else _retype(other, dtype, node)
    if "layout" in node:
        _check_layout(node, shape, layout, other, seen)
    crossing = None if other.is_auto else find_crossing(layout, shape)
    if crossing is not None:
        hint = f"split or join dimensions of '{other.name}'"
        raise Flawed(crossing.code, f"{crossing.message}, the shape of view '{key.text}'", node["shape"].mark, hint)
    return Buffer(
        key.text, other.scope, dtype, shape, layout, other.root, other.align_bytes, str(layout), key.mark, other.name
    )


def check_axes(axes: list[int], other: Buffer, node: Mapping) -> None:
    """The elements of a lane stay the last dimension; raises TG115."""
    if other.traits.has_cells and sorted(axes) == list(range(len(axes))) and axes[-1] != len(axes) - 1:
        message = f"the elements of a lane of '{other.name}' are its last dimension, and this view's last is another"
        fix = "views of tensor memory keep lanes and columns: copy to registers and back to move elements"
        raise Flawed("TG115", message, node["axes"].mark, fix)


def _check_wide(other: Buffer, dtype: str, node: Mapping) -> None:
    """Elements of one, two or four bytes, as cells hold them."""
    if DTYPES[dtype].bits > CELL_BITS:
        message = f"'{other.name}' is in tensor memory, whose cells of {CELL_BITS} bits hold no {dtype}"
        raise Flawed("TG109", message, node["dtype"].mark, "take two elements of 32 bits for each")


def _count_last(other: Buffer, dtype: str, node: Mapping) -> tuple[Index, ...]:
    """The shape with the last dimension in elements of the other type."""
    last, old, new = int(other.shape[-1]), DTYPES[other.dtype].bits, DTYPES[dtype].bits  # type: ignore[arg-type]
    if last * old % new:
        message = f"rows of '{other.name}', {last} elements of {other.dtype}, do not divide into elements of {dtype}"
        raise Flawed("TG115", message, node["dtype"].mark, f"give it a multiple of {new // old}")
    return (*other.shape[:-1], last * old // new)


def _retype(other: Buffer, dtype: str, node: Mapping) -> Any:
    try:
        return retype_cells(other.layout, DTYPES[other.dtype].bits, DTYPES[dtype].bits)
    except LayoutError as error:
        fix = "elements that share a column are neighbours along the last dimension"
        raise Flawed("TG115", shorten(error, 200), node["dtype"].mark, fix) from None


def _check_layout(
    node: Mapping, shape: tuple[Index, ...], layout: Any, other: Buffer, seen: tuple[Setting, Findings]
) -> None:  # fmt: skip
    """A written layout says what the view is anyway; raises TG115 for one that moves elements."""
    setting, findings = seen
    mark = node["layout"].mark
    if other.is_auto:
        message = f"the layout of '{other.root}' is still to be chosen, so nobody can say what a view of it would see"
        raise Flawed("TG115", message, mark, "leave the view's layout out, and it follows")
    found = read_layout(node["layout"], shape, setting, f"a view of '{other.name}'", findings)
    if canonicalize(found) != canonicalize(layout):
        message = f"a view of tensor memory keeps its cells, and this layout moves elements of '{other.name}'"
        raise Flawed("TG115", message, mark, f'leave it out, or write "{layout}"')


def _count(shape: tuple[Index, ...]) -> int:
    return prod(int(n) for n in shape if isinstance(n, int))
