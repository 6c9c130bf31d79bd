"""What a reduction of whole arrays is, whatever carries it out: results, elements of each, and how they lie."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.arithmetic import Element, Node, common_type, to_type, type_of_element
from tilegen.dtypes import DTYPES
from tilegen.errors import Mark, SpecError
from tilegen.index import Index, mul
from tilegen.layouts import row_major
from tilegen.ops.reduce_array.axes import find_order, list_axes, name_operands
from tilegen.plan import Param
from tilegen.scopes import CLUSTER_AXES, COUNT_AXES, CTA_AXES, THREAD_AXES
from tilegen.spaces import GLOBAL
from tilegen.spec.computed import Known, parse_formula
from tilegen.spec.data import Buffer, Expression, Region, WholeCall
from tilegen.spec.findings import Flawed, Passage
from tilegen.spec.form import operand_field
from tilegen.spec.names import Names

FUNCTIONS = {"sum": "+", "prod": "*", "max": "max", "min": "min"}
_LIMITS = {
    "int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1), "uint32": (0, (1 << 32) - 1),
    "uint64": (0, (1 << 64) - 1),
}  # fmt: skip
_PLACES = (*THREAD_AXES, *CTA_AXES, *CLUSTER_AXES, *COUNT_AXES)


@dataclass(frozen=True)
class WholeReduction:
    """``kept`` results, each of ``reduced`` elements. ``op``: sum, prod, max or min, in the type ``sums``.

    ``operands``: arrays by the names that ``expression`` has for them; without one there is one array, of the name "".
    ``is_along``: elements of one result are neighbours in memory, so that arrays are seen as [kept, reduced]; others as
    [reduced, kept]. ``is_turned``: they are seen with dimensions exchanged; ``is_flat``: as one dimension.
    ``has_rows``: arrays are seen with two dimensions, else with the reduced one. ``dst_axis``: the dimension of ``dst``
    that has the results. ``is_plain``: the elements have the type ``sums`` by themselves.
    """

    operands: Mapping[str, Buffer]
    expression: str
    kept: Index
    reduced: Index
    is_along: bool
    is_turned: bool
    is_flat: bool
    has_rows: bool
    op: str
    sums: str
    is_plain: bool
    dst: Buffer
    dst_axis: int

    @property
    def most_bytes(self) -> int:
        """Of an element of the array with the widest ones."""
        return max(DTYPES[array.dtype].bytes for array in self.operands.values())


@dataclass(frozen=True)
class Elements:
    """What is reduced: ``tree`` over an element of each array of ``names``, in the type ``sums``."""

    tree: Node
    names: tuple[str, ...]
    sums: str


def read_problem(call: WholeCall, scalars: Mapping[str, str]) -> WholeReduction:
    """The problem of a call. Raises SpecError for an expression that is none, at its characters."""
    arrays = {name: call.arrays[field] for name, field in name_operands(call).items()}
    first, dst = next(iter(arrays.values())), call.arrays["dst"]
    elements = read_elements(call, scalars)
    rank, order = len(first.shape), find_order(first)
    axes = list_axes(call.fields, rank)
    kept = [d for d in range(rank) if d not in axes]
    reduced: Index = 1
    for d in axes:
        reduced = mul(reduced, first.shape[d])
    return WholeReduction(
        arrays, call.fields.expr or "", first.shape[kept[0]] if kept else 1, reduced,
        is_along=not kept or axes[0] == order[-1], is_turned=order == (1, 0), is_flat=not kept and rank == 2,
        has_rows=bool(kept), op=call.fields.op, sums=elements.sums,
        is_plain=elements.tree.type == elements.sums, dst=dst, dst_axis=kept[0] if kept and len(dst.shape) == 2 else 0,
    )  # fmt: skip


def read_elements(call: WholeCall, scalars: Mapping[str, str]) -> Elements:
    """What is reduced, and in which type.

    ``scalars``: the types of the params that it may name. Raises SpecError for what is no expression of these, at its
    characters of the field.
    """
    if call.fields.expr is None:
        tree: Node = Element(0, call.arrays["src"].dtype)
        names: tuple[str, ...] = ("",)
    else:
        found = _parse(call, scalars)
        tree, names = found.tree, tuple(found.operands)
    dst = type_of_element(call.arrays["dst"].dtype)
    sums = common_type([tree.type, dst] if dst in ("float64", "int64", "uint64") else [tree.type])
    return Elements(to_type(tree, sums), names, sums)


def _parse(call: WholeCall, scalars: Mapping[str, str]) -> Expression:
    types = {name: call.arrays[field].dtype for name, field in name_operands(call).items()}
    params = {name: Param(name, dtype, 1.0) for name, dtype in scalars.items()}

    def operand(name: str) -> Region | None:
        if name not in types:
            return None
        buffer = Buffer(name, GLOBAL.name, types[name], (1, 1), row_major((1, 1)), name)
        return Region(buffer, (0, 0), (1, 1), (True, True), name)

    def locate(start: int, end: int) -> Mark:
        mark = call.mark_of("expr", start, end)
        assert mark is not None  # calls that are checked come from a text
        return mark

    passage = Passage(call.fields.expr, locate)
    names = Names({}, beside=(*types, *params)).forbid(
        _PLACES, "what is reduced knows no place", lambda name: "write it with tile ops"
    )
    try:
        found = parse_formula(passage, Known(names, operand, params, takes_parts=False), (1 << 30,) * 2)
        if found.wholes:
            raise passage.fault("TG302", "what is reduced knows no place", hint="write it with tile ops")
        if found.tree.type == "bool":
            raise passage.fault("TG111", "a condition is no number", hint="write 'where(CONDITION, 1, 0)'")
        if unused := [name for name in types if name not in found.operands]:
            mark = call.mark_of(operand_field(unused[0]))
            raise Flawed("TG302", f"the expression does not name '{unused[0]}'", mark, "remove it")
        return found
    except Flawed as flaw:
        assert flaw.diagnostic is not None
        raise SpecError(flaw.diagnostic) from None


def list_definitions(expression: str) -> list[str]:
    """The names that an expression gives to values on its way.

    >>> list_definitions("t = x - 1; t * t == 4")
    ['t']
    """
    return re.findall(r"([A-Za-z_]\w*)\s*=(?!=)", expression)


def identity_of(op: str, sums: str) -> float | int:
    """What changes no result: what a part without elements leaves.

    >>> identity_of("sum", "float32"), identity_of("max", "float32"), identity_of("min", "int32")
    (0, -inf, 2147483647)
    """
    if op in ("sum", "prod"):
        return 0 if op == "sum" else 1
    if sums in _LIMITS:
        return _LIMITS[sums][0 if op == "max" else 1]
    return float("-inf" if op == "max" else "inf")
