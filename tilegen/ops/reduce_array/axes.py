"""Which dimensions of arrays are reduced, how arrays lie, and what their elements are called."""

from __future__ import annotations

from typing import Any

from tilegen import layouts
from tilegen.ops.strided import plain_strides
from tilegen.spec.data import Buffer, WholeCall
from tilegen.spec.form import operand_field


def list_axes(fields: Any, rank: int) -> tuple[int, ...]:
    """The dimensions that are reduced, in order.

    >>> from types import SimpleNamespace
    >>> list_axes(SimpleNamespace(axis="all"), 2), list_axes(SimpleNamespace(axis=1), 2)
    ((0, 1), (1,))
    """
    if fields.axis == "all":
        return tuple(range(rank))
    return tuple(sorted(fields.axis)) if isinstance(fields.axis, list) else (fields.axis,)


def find_order(array: Buffer) -> tuple[int, ...]:
    """Its dimensions, those whose neighbours lie far apart first."""
    strides = plain_strides(array) or ()
    is_turned = len(strides) == 2 and strides[0] == 1 and array.shape[1] != 1 and strides[1] != 1
    return (1, 0) if is_turned else tuple(range(len(strides)))


def is_dense(array: Buffer) -> bool:
    """Do its elements lie one after another, by rows or by columns?"""
    return array.layout in (layouts.row_major(array.shape), layouts.column_major(array.shape))


def name_operands(call: WholeCall) -> dict[str, str]:
    """The fields of the arrays that are read, by the names that an expression has for them; "" is the source's."""
    return {"": "src"} if "src" in call.arrays else {name: operand_field(name) for name in call.fields.named}
