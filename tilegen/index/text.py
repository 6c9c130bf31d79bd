"""The C text of an expression, and its value: what a C compiler would compute from that text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np

from tilegen.index.contents import content
from tilegen.index.trees import Name, Text, Tree, has_signs, least

INT_LIMIT = 2**31  # values from here on do not fit a C int


# ---------------------------------------------------------------- an expression as C text
# C's operator precedence, strongest highest.
_PRECEDENCE = {
    "*": 10, "/": 10, "%": 10, "+": 9, "-": 9, ">>": 8, "<": 7, "==": 6, "!=": 6, "&": 5, "^": 4, "&&": 2, "||": 1,
}  # fmt: skip
_PICK = 0  # of c ? a : b
_ASSOCIATIVE = {"^", "&&", "||"}
_UNFAMILIAR = {8, 5, 4}  # shifts and bit operators always get parentheses beside other operators


def _spelling(x: Tree) -> tuple[str, tuple[Any, ...]]:
    """Powers of two as shifts and masks: on an int, nvcc must otherwise correct for negative values."""
    n = x.args[1] if x.symbol in "/%" else 0
    if not isinstance(n, int) or not n or n & (n - 1):
        return x.symbol, x.args
    return (">>", (x.args[0], n.bit_length() - 1)) if x.symbol == "/" else ("&", (x.args[0], n - 1))


@lru_cache(maxsize=None, typed=True)
def to_c(x: Text) -> str:
    """The C text of ``x``; what may exceed an int is computed in size_t, or in long long where a part may be negative.

    >>> from tilegen.index import Var
    >>> to_c((Var("tx", 256) // 32) ^ (Var("r", 8) % 4))
    '(tx >> 5) ^ (r & 3)'
    >>> to_c(Var("row", 1 << 20) * 8192)
    '(size_t)row * 8192'
    >>> to_c(Var("row", 1 << 20) * Var("pitch", 1 << 10) * 8)
    '(size_t)row * pitch * 8'
    >>> to_c(Var("row", 1 << 20) * 8192 - Var("n", 1 << 20))
    '(long long)row * 8192 - n'
    >>> from tilegen.index import minimum
    >>> to_c(minimum(Var("row", 1 << 20) * Var("n", 1 << 20, 1) // 4096, 7))
    'min(((size_t)row * n) >> 12, (size_t)7)'
    """
    return _text(x, wide_type(x))


def wide_type(x: Text) -> str:
    """The C type of what does not fit an int, in an expression that holds ``x``."""
    return "long long" if has_signs(x) else "size_t"


def is_wide(x: Text) -> bool:
    """Is ``x``, or a part of it, computed in more than an int?"""
    return f"({wide_type(x)})" in to_c(x)


def _text(x: Text, wide: str) -> str:
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, Name):
        return x.name if wide == "size_t" or _fits(x) else f"({wide}){x.name}"
    if not isinstance(x, Tree):
        return str(x)
    symbol, (first, *rest) = _spelling(x)
    if symbol in ("min", "max"):
        return f"{symbol}({', '.join(_of_one_type(x.args, wide))})"
    if symbol == "table":  # nothing prints it: proofs evaluate it
        return f"{symbol}({', '.join(_text(a, wide) for a in x.args)})"
    if symbol == "?":
        condition, yes, no = (_operand(a, symbol, True, wide) for a in x.args)
        return f"{condition} ? {yes} : {no}"
    widen = symbol in "+-*" and not _fits(x) and all(map(_fits, x.args))
    head = _widened(first, wide) if widen else _operand(first, symbol, False, wide)
    return f" {symbol} ".join([head, *(_operand(a, symbol, True, wide) for a in rest)])


def _of_one_type(args: tuple[Any, ...], wide: str) -> list[str]:
    """The texts of arguments, all wide where one is: C++ has no min and max of two types."""
    if not all(map(_fits, args)):
        return [_widened(a, wide) for a in args]
    texts = [_text(a, wide) for a in args]
    are_wide = [f"({wide})" in text for text in texts]
    if all(are_wide) or not any(are_wide):
        return texts
    return [text if has_cast else _widened(a, wide) for a, text, has_cast in zip(args, texts, are_wide, strict=True)]


def _fits(x: Text) -> bool:
    """Every value fits a C int."""
    return (x < INT_LIMIT if isinstance(x, int) else x.bound <= INT_LIMIT) and least(x) >= -INT_LIMIT


def _widened(x: Text, wide: str) -> str:
    """``x`` in the wide type; a product from its first factor on: nvcc loses the alignment of a widened int."""
    if isinstance(x, Tree) and x.symbol == "*":
        first, *rest = x.args
        return " * ".join([_widened(first, wide), *(_operand(a, "*", True, wide) for a in rest)])
    name = x.name if isinstance(x, Name) else str(x)
    return f"({wide})({_text(x, wide)})" if isinstance(x, Tree) else f"({wide}){name}"


def _operand(arg: Text, parent: str, is_right: bool, wide: str) -> str:
    symbol = _spelling(arg)[0] if isinstance(arg, Tree) else ""
    if not isinstance(arg, Tree) or symbol in ("min", "max", "table"):
        return _text(arg, wide)
    inner, outer = _PRECEDENCE.get(symbol, _PICK), _PRECEDENCE.get(parent, _PICK)
    unfamiliar = inner != outer and outer > 2 and min(inner, outer) in _UNFAMILIAR
    mixed = outer <= 2 and inner <= 2 and inner != outer
    same = inner == outer and is_right and parent not in _ASSOCIATIVE
    parenthesise = unfamiliar or mixed or inner < outer or same
    return f"({_text(arg, wide)})" if parenthesise else _text(arg, wide)


# ---------------------------------------------------------------- what a C compiler would compute
_TOKEN = re.compile(r"\s*(?:(\d+|[A-Za-z_]\w*)|(\((?:size_t|long long)\))|(&&|\|\||==|!=|>>|[-+*/%<&^()?:,]))")
_PYTHON = {"/": "//", "&&": "&", "||": "|"}


def _to_python(text: str) -> str:
    """C text as fully parenthesised Python, read with C's precedence: what a C compiler would compute."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match, f"unexpected text in an index expression: {text[at:]!r}"
        tokens.append((match[1] or "", match[3] or "") if not match[2] else ("", "cast"))
        at = match.end()
    tokens.append(("", "end"))
    position = 0

    def advance() -> tuple[str, str]:
        nonlocal position
        position += 1
        return tokens[position - 1]

    def primary() -> str:
        name, symbol = advance()
        if symbol == "cast":
            return primary()
        if symbol == "-":
            return f"(-{primary()})"
        if symbol == "(":
            inside = whole()
            assert advance()[1] == ")", f"unbalanced parentheses: {text!r}"
            return inside
        if name in ("min", "max", "table"):
            advance()
            args = [whole()]
            while advance()[1] == ",":
                args.append(whole())
            return f"{name}__({', '.join(args)})"
        return {"true": "True", "false": "False"}.get(name, name)

    def whole() -> str:
        condition = expression(0)
        if tokens[position][1] != "?":
            return condition
        advance()
        yes = whole()
        advance()
        return f"pick__({condition}, lambda: {yes}, lambda: {whole()})"

    def expression(weakest: int) -> str:
        left = primary()
        while (symbol := tokens[position][1]) in _PRECEDENCE and _PRECEDENCE[symbol] > weakest:
            advance()
            left = f"({left} {_PYTHON.get(symbol, symbol)} {expression(_PRECEDENCE[symbol])})"
        return left

    return whole()


@cache
def compile_text(text: str) -> Any:
    """C text as a code object, read with C's precedence."""
    return compile(_to_python(text), text, "eval")


def evaluate(x: Text, values: Mapping[str, Any]) -> Any:
    """The value of the *printed text* of ``x``: a printing bug is a wrong value. ``values``: ints or NumPy arrays.

    >>> from tilegen.index import Var
    >>> evaluate(Var("laneid", 32) // 8 ^ 1, {"laneid": 9})
    0
    """
    if not isinstance(x, (Name, Tree)):
        return x
    code = _code_of(x)
    if "pick__" in code.co_names:  # its arms are functions, which see globals alone
        return eval(code, {**_CALLS, **values})
    return eval(code, _CALLS, values)


@lru_cache(maxsize=None, typed=True)
def _code_of(x: Text) -> Any:
    return compile_text(to_c(x))


def _smaller(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def _larger(a: Any, b: Any) -> Any:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def _pick(condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """The arm that is taken; of arrays both are computed, and what is not taken counts for nothing."""
    if not isinstance(condition, np.ndarray):
        return yes() if condition else no()
    return np.where(condition, yes(), no())


# Names that no spec gives: of two underscores.
_CALLS: dict[str, Any] = {
    "__builtins__": {}, "min__": _smaller, "max__": _larger, "pick__": _pick, "table__": content,
}  # fmt: skip
