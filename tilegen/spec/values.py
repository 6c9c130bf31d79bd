"""``values: "lo : hi"``: which values the elements of an array have, as its caller promises."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tilegen.arithmetic.formats import largest, say_range
from tilegen.arithmetic.values import Values, count_integers, list_floats
from tilegen.dtypes import DTYPES, FACTOR, numpy_dtype
from tilegen.index import Index, add, bound, least, sub
from tilegen.spaces import SPACES
from tilegen.spec.buffer_models import BufferFields
from tilegen.spec.data import Buffer
from tilegen.spec.expressions import Parser, read_number
from tilegen.spec.findings import Flawed, Passage, shorten
from tilegen.spec.names import Names
from tilegen.spec.nodes import Mapping, Node, Scalar
from tilegen.spec.params import Params
from tilegen.spec.words import split_tokens

_FORM = "write 'lo : hi', as '0 : 10'"
_FLOAT = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")


def read_promise(node: Mapping, fields: BufferFields, shape: tuple[Index, ...], params: Params) -> Values | None:
    """What the caller promises of an array's elements by ``values``, ``distinct`` and ``offsets``; None for nothing.

    Raises what ``read_values`` raises, and TG106 for promises that do not go together, or not with the array.
    """
    text = node.get("values")
    if fields.offsets is not None:
        return _read_offsets(node, fields, shape, params)
    if not isinstance(text, Scalar) or fields.values is None:
        if fields.distinct:
            message = "'distinct' says how the elements of a range differ, and the array has no 'values'"
            raise Flawed("TG106", message, node["distinct"].mark, "add 'values: \"0 : N\"'")
        return None
    if fields.dtype == FACTOR:
        message = f"'values' is for what is computed with, and {fields.dtype} is a power of two that products take"
        raise Flawed("TG106", message, text.mark, "remove it")
    found = read_values(text.passage, fields.dtype, params)
    space = SPACES[fields.scope]
    if not space.is_callers and (DTYPES[fields.dtype].kind == "float" or found.step > 1):
        what = "floats" if found.step == 1 else "values in steps"
        message = f"'values' in {space.words} is proved of what is written there, and {what} are not"
        raise Flawed("TG106", message, text.mark, "write 'lo : hi' of integers, or remove it")
    if fields.distinct and DTYPES[fields.dtype].kind == "float":
        raise Flawed("TG106", "'distinct' is for integers, which name places", node["distinct"].mark, "remove it")
    return replace(found, is_distinct=fields.distinct)


def _read_offsets(node: Mapping, fields: BufferFields, shape: tuple[Index, ...], params: Params) -> Values:
    written = node["offsets"]
    for other in ("values", "distinct"):
        if other in node:
            message = f"'offsets' says which values the elements have, and '{other}' beside it says it again"
            raise Flawed("TG106", message, node[other].mark, "remove it")
    if DTYPES[fields.dtype].kind not in ("int", "uint") or len(shape) != 1 or least(shape[0]) < 2:
        message = "'offsets' is for integers in one dimension, of two elements or more"
        raise Flawed("TG106", message, written.mark, "a shape of [n + 1] holds the ends of n pieces")
    if "layout" in node:
        raise Flawed("TG106", "'offsets' lie one behind the other", node["layout"].mark, "leave 'layout' out")
    end = read_number(written, params.names, "the end of 'offsets'", is_size=True)
    found = Values(0, add(end, 1), pieces=sub(shape[0], 1))
    if isinstance(written, Scalar):
        _check_reach(found, fields.dtype, written.passage)
    return found


def read_values(text: Passage, dtype: str, params: Params) -> Values:
    """The range that a text says of elements of a dtype.

    Raises TG111 for a text that is none, TG106 for an empty one, TG214 for a bound that the dtype does not reach.
    """
    kind = DTYPES[dtype].kind
    if kind not in ("int", "uint", "float"):
        raise text.fault("TG106", f"'values' is a range of numbers, and {dtype} holds none that are ordered")
    found = _read_floats(text) if kind == "float" else _read_integers(text, params.names)
    for case in (params.defaults, params.lowest):
        _check_range(found.at(case), found, dtype, text)
    _check_reach(found, dtype, text)
    return found


def _read_floats(text: Passage) -> Values:
    parts = text.text.split(":")
    if len(parts) != 2:
        raise text.fault("TG111", "a range of floats has two ends", hint=_FORM.replace("10", "1.5"))
    at = 0
    for part in parts:
        if not _FLOAT.fullmatch(part):
            message = f"'{shorten(part.strip())}' is no number"
            raise text.fault("TG111", message, at, at + len(part), "an end of a range of floats is a finite number")
        at += len(part) + 1
    return Values(float(parts[0]), float(parts[1]))


def _read_integers(text: Passage, names: Names) -> Values:
    parser = Parser(text, names, split_tokens(text))
    low = _read_end(parser)
    parser.expect(":")
    high = _read_end(parser)
    step: Index = _read_end(parser) if parser.accept(":") else 1
    if parser.next.kind != "end":
        raise parser.misplaced()
    if not isinstance(step, int) or step < 1:
        raise text.fault("TG106", f"the step of a range is a number of at least 1, not '{shorten(step)}'")
    return Values(low, high, step)


def _read_end(parser: Parser) -> Index:
    """An integer, or a number below 0."""
    is_negative = parser.accept("-")
    value = parser.read_number(parser.advance()) if is_negative else parser.read()
    if value.is_condition:
        message = "an end of a range is a number, but this is a condition"
        raise parser.passage.fault("TG111", message, value.start, value.end, _FORM)
    return sub(0, value.index) if is_negative else value.index


def _check_range(known: Values, said: Values, dtype: str, text: Passage) -> None:
    """Is there a value of the type in the range?"""
    is_float = DTYPES[dtype].kind == "float"
    where = "" if known == said else f", here {known},"
    if not known.low < known.high:  # type: ignore[operator]
        message = f"'{text.text}'{where} holds no value: elements lie below its end"
        raise text.fault("TG106", message, hint="the end is not among them: '0 : 10' is 0 to 9")
    if is_float and _is_reached(known, dtype) and not len(list_floats(known.low, known.high, dtype)):
        raise text.fault("TG106", f"{dtype} has no value in '{text.text}'")
    assert is_float or count_integers(known) > 0


def _check_reach(values: Values, dtype: str, text: Passage) -> None:
    """Does the type hold both ends, with every value of the params?"""
    if not _is_reached(values, dtype):
        is_known = all(isinstance(x, int | float) for x in (values.low, values.high))
        hint = say_range(dtype) + ("" if is_known else ": give the params a 'max'")
        raise text.fault("TG214", f"'{text.text}' goes beyond what {dtype} holds", hint=hint)


def _is_reached(values: Values, dtype: str) -> bool:
    if DTYPES[dtype].kind == "float":
        most = largest(dtype)
        return -most <= values.low and values.high <= most  # type: ignore[operator]
    info = np.iinfo(numpy_dtype(dtype))
    return least(values.low) >= int(info.min) and bound(values.high) - 1 <= int(info.max) + 1  # type: ignore[arg-type]


def check_unwritten(written: Iterable[Buffer], node: Node | None, found: dict[str, Buffer]) -> None:
    """Raises TG106 for a range of an array that the kernel writes."""
    for buffer in written:
        root = found[buffer.root]
        section = node.get(root.name) if isinstance(node, Mapping) else None
        if root.values is not None and root.traits.is_callers and isinstance(section, Mapping):
            message = f"'values' is what a caller promises of an array, and the kernel writes '{root.name}'"
            raise Flawed("TG106", message, section["values"].mark, "remove it")
