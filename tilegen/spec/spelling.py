"""Expressions as a spec writes them: what the loader reads back as the same data."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.index import Formula, Index, ceil_div, sub
from tilegen.spec.expressions import BINDING

_WORDS = {"/": "//", "&&": "and", "||": "or"} | {symbol: symbol for symbol in ("+", "-", "*", "%", "<", "==", "!=")}
_CALLS = {"min": "min", "max": "max", "?": "where", "table": "table"}
_STRONGEST = max(BINDING.values()) + 1  # of a name, a number and ceil(a / b)


def spell_index(x: Index) -> str:
    """The text of an expression or a condition, with no parentheses but those that it needs.

    Raises ValueError for what the language has no word for: operators on bits.

    >>> from tilegen.index import Var
    >>> M, k = Var("M", 1 << 20, 1, 1), Var("k", 8)
    >>> spell_index(ceil_div(M, 64) * 3 + k % 3), spell_index((k + 2) * 64 % M < M - (k + 1))
    ('ceil(M / 64) * 3 + k % 3', '(k * 64 + 128) % M < M - (k + 1)')
    """
    return _spell(x)[0]


def spell_shape(shape: Iterable[Index | str]) -> str:
    """Extents as a shape of the text; those that are text already stay.

    >>> spell_shape((4, "N"))
    '[4, N]'
    """
    return f"[{', '.join(n if isinstance(n, str) else spell_index(n) for n in shape)}]"


def _spell(x: Index) -> tuple[str, int]:
    """The text, and how strongly its outermost operator binds."""
    if isinstance(x, bool):
        return ("true" if x else "false"), _STRONGEST
    if not isinstance(x, Formula):
        if isinstance(x, int) and x < 0:
            return f"0 - {-x}", BINDING["-"]
        return str(x), _STRONGEST
    if x.symbol in _CALLS:
        return f"{_CALLS[x.symbol]}({', '.join(_spell(a)[0] for a in x.args)})", _STRONGEST
    if x.symbol not in _WORDS:
        raise ValueError(f"a spec has no operator '{x.symbol}', as in {x}")
    if (top := _ceil_top(x)) is not None:
        return f"ceil({_operand(top, BINDING['*'])} / {_operand(x.args[1], _STRONGEST)})", _STRONGEST
    word = _WORDS[x.symbol]
    own = BINDING[word]
    first, *rest = x.args
    left = own + (own == BINDING["<"])  # comparisons do not chain
    return f" {word} ".join([_operand(first, left), *(_operand(a, own + 1) for a in rest)]), own


def _operand(x: Index, weakest: int) -> str:
    """In parentheses if it binds less strongly than ``weakest``."""
    text, binding = _spell(x)
    return text if binding >= weakest else f"({text})"


def _ceil_top(x: Formula) -> Index | None:
    """What is divided and rounded up, if ``x`` is that."""
    if x.symbol != "/":
        return None
    top = sub(x.args[0], sub(x.args[1], 1))
    return None if isinstance(top, int) or ceil_div(top, x.args[1]) != x else top
