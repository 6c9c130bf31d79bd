"""Layouts that a spec writes as a mapping of Gluon's argument names."""

from __future__ import annotations

import re
from typing import Any

from tilegen.errors import LayoutError, Mark
from tilegen.index import Index
from tilegen.layouts import PaddedSharedLayout
from tilegen.spec.findings import Fault, Findings, shorten
from tilegen.spec.models import PaddedFields, check_fields
from tilegen.spec.nodes import Mapping, Node, Sequence
from tilegen.spec.unsupported import refuse_later_gluon

_PLACE = re.compile(r"(\w+)(?:\[(\d+)\])?")  # how messages about a padded layout start


def read_gluon(node: Mapping, shape: tuple[Index, ...], what: str, findings: Findings) -> PaddedSharedLayout:
    """The padded layout of a mapping: bases, or an order for none; ``shape`` is the buffer's unless it names one.

    Raises TG101 to TG103 for keys and values, TG201 for Gluon's other layouts and for what is no layout.
    """
    refuse_later_gluon(node)
    fields = check_fields(node, PaddedFields, f"the layout of {what}", findings)
    if fields is None:
        raise Fault()  # reported
    if fields.offset_bases is None and fields.order is None:
        message = f"the layout of {what} needs the key 'offset_bases' or 'order'"
        raise Fault("TG102", message, node.mark, f"rows one after the other: order: {list(range(len(shape)))[::-1]}")
    if fields.offset_bases is not None and fields.order is not None:
        message = f"the layout of {what} has 'offset_bases' and 'order'"
        raise Fault(
            "TG201", message, node.key("order").mark, "remove one: an order stands for bases that reorder nothing"
        )
    extents: Any = shape if fields.shape is None else fields.shape
    try:
        if fields.order is not None:
            return PaddedSharedLayout.with_identity_for(
                fields.interval_padding_pairs, extents, fields.order, fields.cga_layout
            )
        return PaddedSharedLayout(fields.interval_padding_pairs, fields.offset_bases, fields.cga_layout, extents)  # type: ignore[arg-type]
    except LayoutError as error:
        text = f"{shorten(error, 200)}, in the layout of {what}"
        raise Fault("TG201", text, _find_mark(node, str(error)), error.hint) from None


def _find_mark(node: Mapping, message: str) -> Mark:
    """The argument that a message starts with, and its entry, as far as the mapping writes them."""
    found = _PLACE.match(message)
    argument: Node | None = node.get(found[1]) if found else None
    if found and found[2] and isinstance(argument, Sequence) and int(found[2]) < len(argument.items):
        return argument.items[int(found[2])].mark
    return argument.mark if argument else node.mark
