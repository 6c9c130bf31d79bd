"""Trees evaluated as the hardware does: every node in its own type, every function rounded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic.functions import FUNCTIONS
from tilegen.arithmetic.tree import Element, Literal, Node, Parameter, Whole
from tilegen.dtypes import DTYPES, numpy_dtype

Array = NDArray[Any]


_SATURATED = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}  # the largest number, which takes what lies beyond


def evaluate_typed(
    tree: Node, elements: Sequence[Array], wholes: Sequence[Any], params: Mapping[str, float], dtype: str
) -> Array:
    """The value of a tree as elements of ``dtype``.

    ``elements``: typed arrays, one for each operand; ``wholes``: the integers by number; ``params``: those of floating
    type by name. All broadcast.

    >>> from tilegen.arithmetic import Apply
    >>> x = np.array([1.0, 2.5], np.float32)
    >>> evaluate_typed(Apply("+", (Element(0, "float32"), Literal(1.0, "float32")), "float32"), [x], [], {}, "int8")
    array([2, 4], dtype=int8)
    """
    with np.errstate(all="ignore"):
        return round_to(np.asarray(_value(tree, elements, wholes, params)), dtype)


def _value(node: Node, elements: Sequence[Array], wholes: Sequence[Any], params: Mapping[str, float]) -> Any:
    if isinstance(node, Element):
        return np.asarray(elements[node.number]).astype(node.type)
    if isinstance(node, Whole):
        return np.asarray(wholes[node.number]).astype(node.type)
    if isinstance(node, Parameter):
        return np.asarray(params[node.name]).astype(node.type)
    if isinstance(node, Literal):
        return np.asarray(node.value).astype(node.type)
    args = [_value(arg, elements, wholes, params) for arg in node.args]
    return apply_typed(node.function, args, node.type)


def apply_typed(function: str, args: Sequence[Any], type_: str) -> Any:
    """A function of typed arrays: computed in double precision where it rounds, and rounded once."""
    row = FUNCTIONS[function]
    if type_ == "float32" and row.ulps and function not in ("+", "-", "*", "/", "neg"):
        args = [np.asarray(a, np.float64) if np.asarray(a).dtype != bool else a for a in args]
    return np.asarray(row.exact(*args)).astype(type_)


def round_to(values: Array, dtype: str) -> Array:
    """Numbers as elements of a dtype: to nearest even; integers and 8-bit floats take their last value beyond it.

    >>> round_to(np.array([300.0, -0.5, 2.5]), "int8").tolist(), round_to(np.array([1e9]), "float8_e4m3fn").tolist()
    ([127, 0, 2], [448.0])
    """
    kind, target = DTYPES[dtype].kind, numpy_dtype(dtype)
    if kind in ("int", "uint"):
        return _to_integer(values, target, np.rint)
    if most := _SATURATED.get(dtype):
        values = np.where(np.isnan(values), values, np.clip(values, -most, most))
    return values.astype(target)


def cast_to(values: Array, src: str, dst: str) -> Array:
    """Elements of one dtype as another, as the op ``cast`` has it: floats to integers cut off, else to nearest even.

    What lies beyond an integer type is its last value if it was a float, and taken modulo the type's size if not.

    >>> cast_to(np.array([300.0, -0.5, 2.5]), "float64", "uint8").tolist(), cast_to(np.array([300]), "int64", "uint8")
    ([255, 0, 2], array([44], dtype=uint8))
    """
    with np.errstate(all="ignore"):
        if DTYPES[src].kind == "float" and DTYPES[dst].kind in ("int", "uint"):
            return _to_integer(values.astype(np.float64), numpy_dtype(dst), np.trunc)
        return values.astype(numpy_dtype(dst))


def _to_integer(values: Array, target: np.dtype[Any], rounding: Callable[[Array], Array]) -> Array:
    """Saturated; a NaN is 0."""
    info = np.iinfo(target)
    if values.dtype.kind in "iu":
        own = np.iinfo(values.dtype)  # a number beyond it is no end of the range for NumPy
        return np.clip(values, max(info.min, own.min), min(info.max, own.max)).astype(target)
    if values.dtype.kind != "f":
        return np.clip(values, info.min, info.max).astype(target)
    rounded = rounding(values.astype(np.float64))
    inside = np.where(np.isnan(rounded), 0.0, np.clip(rounded, float(info.min), float(info.max)))
    if info.bits < 64:
        return inside.astype(target)
    most = float(info.max)  # 2^63 or 2^64, beyond the type: float64 has no other number so near
    result = np.where(inside >= most, info.max, np.where(inside < most, inside, 0).astype(target))
    return result.astype(target)
