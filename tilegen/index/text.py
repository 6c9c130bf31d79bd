"""The C text of an expression, and its value: what a C compiler would compute from that text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Union

INT_LIMIT = 2**31  # values from here on do not fit a C int


# ---------------------------------------------------------------- what has a text
class Name:
    """A C variable as printing sees it; ``bound`` is one more than its largest value."""

    name: str
    bound: int

    def __str__(self) -> str:
        return self.name


class Tree:
    """An operator between texts as printing sees it; ``bound`` is one more than its largest value."""

    symbol: str
    args: tuple[Any, ...]
    bound: int

    def __str__(self) -> str:
        return to_c(self)


Text = Union[int, Name, Tree]  # noqa: UP007 - a runtime alias


# ---------------------------------------------------------------- an expression as C text
# C's operator precedence, strongest highest.
_PRECEDENCE = {
    "*": 10, "/": 10, "%": 10, "+": 9, "-": 9, ">>": 8, "<": 7, "==": 6, "!=": 6, "&": 5, "^": 4, "&&": 2, "||": 1,
}  # fmt: skip
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
    """The C text of ``x``; what may exceed an int is computed in size_t.

    >>> from tilegen.index import Var
    >>> to_c((Var("tx", 256) // 32) ^ (Var("r", 8) % 4))
    '(tx >> 5) ^ (r & 3)'
    >>> to_c(Var("row", 1 << 20) * 8192)
    '(size_t)row * 8192'
    >>> to_c(Var("row", 1 << 20) * Var("pitch", 1 << 10) * 8)
    '(size_t)row * pitch * 8'
    """
    if isinstance(x, bool):
        return "true" if x else "false"
    if not isinstance(x, Tree):
        return str(x)
    symbol, (first, *rest) = _spelling(x)
    widen = symbol in "+*" and not _fits(x) and all(map(_fits, x.args))
    head = _widened(first) if widen else _operand(first, symbol, False)
    return f" {symbol} ".join([head, *(_operand(a, symbol, True) for a in rest)])


def _fits(x: Text) -> bool:
    """Every value fits a C int."""
    return x < INT_LIMIT if isinstance(x, int) else x.bound <= INT_LIMIT


def _widened(x: Text) -> str:
    """``x`` in size_t; a product from its first factor on, for nvcc loses the alignment of an int that is widened."""
    if isinstance(x, Tree) and x.symbol == "*":
        first, *rest = x.args
        return " * ".join([_widened(first), *(_operand(a, "*", True) for a in rest)])
    return f"(size_t)({to_c(x)})" if isinstance(x, Tree) else f"(size_t){to_c(x)}"


def _operand(arg: Text, parent: str, is_right: bool) -> str:
    if not isinstance(arg, Tree):
        return to_c(arg)
    inner, outer = _PRECEDENCE[_spelling(arg)[0]], _PRECEDENCE[parent]
    unfamiliar = inner != outer and outer > 2 and min(inner, outer) in _UNFAMILIAR
    mixed = outer <= 2 and inner <= 2 and inner != outer
    same = inner == outer and is_right and parent not in _ASSOCIATIVE
    parenthesise = unfamiliar or mixed or inner < outer or same
    return f"({to_c(arg)})" if parenthesise else to_c(arg)


# ---------------------------------------------------------------- what a C compiler would compute
_TOKEN = re.compile(r"\s*(?:(\d+|[A-Za-z_]\w*)|(\(size_t\))|(&&|\|\||==|!=|>>|[-+*/%<&^()]))")
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
        if symbol == "(":
            inside = expression(0)
            assert advance()[1] == ")", f"unbalanced parentheses: {text!r}"
            return inside
        return {"true": "True", "false": "False"}.get(name, name)

    def expression(weakest: int) -> str:
        left = primary()
        while (symbol := tokens[position][1]) in _PRECEDENCE and _PRECEDENCE[symbol] > weakest:
            advance()
            left = f"({left} {_PYTHON.get(symbol, symbol)} {expression(_PRECEDENCE[symbol])})"
        return left

    return expression(0)


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
    return eval(compile_text(to_c(x)), {"__builtins__": {}}, dict(values)) if isinstance(x, (Name, Tree)) else x
