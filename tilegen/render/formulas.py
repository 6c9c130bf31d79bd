"""Trees of an expression as C: every node by its row of the table of functions, parentheses where C needs them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilegen.arithmetic import FUNCTIONS, Apply, Element, Literal, Node, Parameter, Whole
from tilegen.dtypes import DTYPES
from tilegen.render.c_text import literal
from tilegen.render.page import Page

_CALL, _UNARY = 99, 15  # how tightly a call and a sign bind, in the table's scale
_BITS = ("&", "|", "^", "<<", ">>")  # beside others parentheses say what C's precedence hides
_SATURATED = {"float8_e4m3fn": "float_to_e4m3_saturated", "float8_e5m2": "float_to_e5m2_saturated"}


def render_tree(page: Page, tree: Node, elements: Sequence[str], wholes: Sequence[str], dtype: str) -> str:
    """The C text of a tree rounded to an element of ``dtype``.

    ``elements``: the C text of each operand's element; ``wholes``: those of the integers, safe beside any operator.
    """
    text, binding = _text(page, tree, elements, wholes)
    return _narrow(page, text, binding, tree.type, dtype)


def _text(page: Page, node: Node, elements: Sequence[str], wholes: Sequence[str]) -> tuple[str, int]:
    """The text of a node and how tightly it binds."""
    if isinstance(node, Element):
        x = elements[node.number]
        if DTYPES[node.dtype].c == DTYPES[node.type].c:
            return x, _CALL
        widened = str(page.macros("casts.cu.j2").cast(x, DTYPES[node.dtype], DTYPES[node.type], None, None)).strip()
        return widened, _CALL if widened.endswith(")") and not widened.startswith("(") else _UNARY
    if isinstance(node, Whole):
        return wholes[node.number], _CALL
    if isinstance(node, Parameter):
        return node.name, _CALL
    if isinstance(node, Literal):
        if node.type == "float64" and page.hides(node.value):
            return f"{page.use('hidden_zero')}()", _CALL
        text = literal(node.value, node.type)[0]
        return text, _UNARY if text.startswith("-") else _CALL
    return _apply(page, node, elements, wholes)


def _apply(page: Page, node: Apply, elements: Sequence[str], wholes: Sequence[str]) -> tuple[str, int]:
    if node.function == "-" and node.args[0] in (Literal(0, "int32"), Literal(0, "uint32")):
        node = Apply("neg", node.args[1:], node.type)
    row = FUNCTIONS[node.function]
    template = f"{{0}} {row.name} {{1}}" if _is_near_shift(node) else row.c[node.args[-1].type]
    is_call = template.startswith("{use:")
    template = re.sub(r"\{use:(\w+)\}", lambda m: page.use(m[1]), template)
    args = []
    for k, arg in enumerate(node.args):
        text, binding = _text(page, arg, elements, wholes)
        strict = k > 0 or row.sources == 3 or row.binding == _UNARY or _is_compared(row.name)
        needs = row.binding and not is_call and (binding < row.binding or (binding == row.binding and strict))
        needs = needs or (row.name in _BITS and binding < _UNARY and _function_of(arg) != row.name)
        args.append(f"({text})" if needs else text)
    return template.format(*args), (0 if is_call else row.binding) or (13 if "/" in template else _CALL)


def _is_near_shift(node: Apply) -> bool:
    """Is it a shift by a number of fewer bits than the type has, as C has shifts?"""
    count = node.args[-1]
    bits = DTYPES[node.type].bits
    return node.function in ("<<", ">>") and isinstance(count, Literal) and 0 <= count.value < bits


def _function_of(node: Node) -> str:
    return node.function if isinstance(node, Apply) else ""


def _is_compared(name: str) -> bool:
    return name in ("<", "<=", ">", ">=", "==", "!=")


def _narrow(page: Page, text: str, binding: int, type_: str, dtype: str) -> str:
    """A value of a node's type as an element: to nearest even, saturated where the type has an end."""
    target = DTYPES[dtype]
    if target.c == DTYPES[type_].c:
        return text
    if target.kind in ("int", "uint"):
        kind = {"float64": "double", "float32": "float", "uint64": "uint"}.get(type_, "int")
        return f"{page.use_as(f'{kind}_to_{dtype}', 'to_integer', kind, dtype, 'rn')}({text})"
    if dtype in _SATURATED:
        whole = text if type_ == "float32" else f"(float)({text})"
        return f"{page.use(_SATURATED[dtype])}({whole})"
    is_call = target.typedef and (type_ == "float32" or (type_, dtype) == ("float64", "float16"))
    inside = text if binding >= _UNARY or is_call else f"({text})"
    return str(page.macros("casts.cu.j2").cast(inside, DTYPES[type_], target, None, None)).strip()
