"""reduce_array: the sum, product, maximum or minimum of whole arrays along rows, columns or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from pydantic import Field

from tilegen.dtypes import DTYPES
from tilegen.errors import Flaw
from tilegen.ops.op import WholeHere, WholeOp, fields_picked, find_uncomputed
from tilegen.ops.reduce_array.axes import find_order, is_dense, list_axes
from tilegen.ops.strided import plain_strides
from tilegen.spec.data import Buffer, Spec, WholeCall
from tilegen.spec.form import WholeFields
from tilegen.spec.program import Program
from tilegen.spec.spelling import spell_shape

MOST_PARTS = 1024
_LATER = {"index": "take the tile op 'reduce', whose argmax and argmin give the index"}


class ReduceArrayFields(WholeFields):
    src: str | None = Field(default=None, description="the array read: [M, N], or [N]")
    expr: str | None = Field(
        default=None, description="in place of src: what is reduced, an expression of 'with' names and params"
    )
    named: dict[str, str] = Field(default={}, alias="with", description="name: array, for names that expr uses")
    dst: str = Field(description="the array written: the source's shape without the axes, or with extents of 1 there")
    axis: int | list[int] | Literal["all"] = Field(
        description="what is reduced: 1, along each row; 0, along each column; [0, 1] or all, every element"
    )
    op: Literal["sum", "max", "min", "prod"] = Field(description="what is made of the elements")
    threads: int | None = Field(default=None, ge=32, le=1024, description="threads of a CTA, instead of those chosen")
    parts: Annotated[int, Field(ge=1, le=MOST_PARTS)] | Literal["auto"] = Field(
        default="auto",
        description="CTAs that share the elements of a result, and a second pass takes what they leave; 1: one pass",
    )


# ---------------------------------------------------------------- what is wrong with a call
def _check(fields: ReduceArrayFields, arrays: Mapping[str, Buffer]) -> Flaw | None:
    """What is wrong with a call."""
    sources = {name: array for name, array in arrays.items() if name != "dst"}
    if ("src" in sources) == (fields.expr is not None):
        return Flaw("TG212", "reduce_array takes one of 'src' and 'expr'", "expr", "write 'src: X', or 'expr: x * x'")
    if not sources:
        return Flaw("TG212", "no array is reduced", "expr", "name one: 'with: {x: X}'")
    if fields.named and fields.expr is None:
        return Flaw("TG302", "no expression names these arrays", "with", "remove 'with', or write 'expr'")
    return (
        _check_sources(sources)
        or _check_axis(fields, next(iter(sources.values())))
        or _check_result(fields, sources, arrays["dst"])
        or _check_types(sources, arrays["dst"])
    )


def _check_sources(sources: Mapping[str, Buffer]) -> Flaw | None:
    """What is wrong with the arrays that are read: their ranks, and shapes that differ."""
    first = next(iter(sources.values()))
    for name, array in sources.items():
        rank = len(array.shape)
        if rank > 2:
            message = (
                f"reduce_array of {rank} dimensions is not yet supported: '{array.name}' has {spell_shape(array.shape)}"
            )
            return Flaw("TG190", message, name, "declare it with dimensions that lie together as one, [B*M, N]")
        if plain_strides(array) is None:
            return Flaw("TG301", f"reduce_array takes arrays with one stride a dimension, not {array.layout}", name)
        if array.shape != first.shape:
            own, other = spell_shape(array.shape), spell_shape(first.shape)
            message = f"'{array.name}' has the shape {own}, '{first.name}' has {other}"
            return Flaw("TG212", message, name, "arrays of an expression have one shape")
    return None


def _check_axis(fields: ReduceArrayFields, source: Buffer) -> Flaw | None:
    """What is wrong with the axis, of arrays of one or two dimensions."""
    rank = len(source.shape)
    given = fields.axis if isinstance(fields.axis, list) else [] if fields.axis == "all" else [fields.axis]
    for axis in given:
        if not isinstance(axis, int) or not 0 <= axis < rank:
            known = "0, 1 or all" if rank == 2 else "0 or all"
            near = f"'{axis + rank}' counts from the first; " if isinstance(axis, int) and -rank <= axis < 0 else ""
            message = f"'axis' is {axis}, and '{source.name}' has {rank} dimension{'s' * (rank > 1)}"
            return Flaw("TG106", message, "axis", f"{near}it is {known}")
    if isinstance(fields.axis, list) and (not given or len(set(given)) < len(given)):
        return Flaw("TG106", f"a list of axes has each axis once, not {given}", "axis", "write 'axis: all' for all")
    return None


def _check_result(fields: ReduceArrayFields, sources: Mapping[str, Buffer], dst: Buffer) -> Flaw | None:
    """What is wrong with the array that is written, and with reading all elements of arrays that have gaps."""
    source = next(iter(sources.values()))
    axes = list_axes(fields, len(source.shape))
    kept = tuple(n for d, n in enumerate(source.shape) if d not in axes)
    held = tuple(1 if d in axes else n for d, n in enumerate(source.shape))
    known = [kept or (1,), held]
    if dst.shape not in known:
        shapes = " or ".join(dict.fromkeys(map(spell_shape, known)))
        message = f"'{dst.name}' has the shape {spell_shape(dst.shape)}, and {shapes} is left of '{source.name}'"
        return Flaw("TG212", message, "dst", f"give '{dst.name}' the shape {spell_shape(known[0])}")
    for name, array in {**sources, "dst": dst}.items():
        if name != "dst" and array.name == dst.name:
            message = f"'{dst.name}' cannot be reduced into itself: CTAs would read what others wrote"
            return Flaw("TG205", message, "dst")
        if plain_strides(array) is None:
            return Flaw("TG301", f"reduce_array takes arrays with one stride a dimension, not {array.layout}", name)
        if name != "dst" and len(axes) == len(array.shape) and not is_dense(array):
            message = f"reduce_array of all elements of '{array.name}', which has gaps, is not yet supported"
            return Flaw("TG190", message, name, "reduce its rows, and then these in a spec of its own")
        if name != "dst" and len(axes) == 2 and find_order(array) != find_order(source):
            message = f"'{array.name}' lies by other dimensions than '{source.name}'"
            return Flaw("TG212", message, name, "give both one layout, or reduce one axis")
    if fields.threads is not None and fields.threads % 32:
        return Flaw("TG106", f"'threads' must be a multiple of 32, not {fields.threads}", "threads")
    return None


def _check_types(sources: Mapping[str, Buffer], dst: Buffer) -> Flaw | None:
    """What is wrong with element types: floats are reduced to floats, integers to integers."""
    if flaw := find_uncomputed({**sources, "dst": dst}):
        return flaw
    for name, array in {**sources, "dst": dst}.items():
        if array.dtype == "bool":
            return Flaw("TG212", f"'{array.name}': reduce_array takes numbers, not bool", name, "declare it as uint8")
    if "src" in sources and (DTYPES[sources["src"].dtype].kind == "float") != (DTYPES[dst.dtype].kind == "float"):
        message = f"reduce_array does not turn {sources['src'].dtype} into {dst.dtype}"
        wanted = "float32" if DTYPES[sources["src"].dtype].kind == "float" else "int32"
        return Flaw("TG212", message, "dst", f"give '{dst.name}' {wanted}")
    return None


# ---------------------------------------------------------------- the op
def _divides(fields: ReduceArrayFields) -> str:
    return "" if fields.parts in (1, "auto") else "parts"


def _expand(spec: Spec, call: WholeCall) -> Spec | Program:
    from tilegen.ops.reduce_array.expand import expand_reduction  # specs that are only read do without

    return expand_reduction(spec, call)


def _reference(call: WholeCall, offsets: NDArray[Any], here: WholeHere) -> dict[str, NDArray[Any]]:
    from tilegen.ops.reduce_array.meant import reduce_whole

    return reduce_whole(call, offsets, here)


OP = WholeOp(
    "reduce_array", ReduceArrayFields, ("src",), ("dst",), _check, optional=("src",), later=_LATER, divides=_divides,
    joined={"parts": 1}, on_tiles="reduce", named="named", expand=_expand, reference=_reference, pins=fields_picked,
)  # fmt: skip
