"""Integer index expressions with known range and divisibility. One text: C prints it, the interpreter evaluates it.

Every value ``v`` of an expression satisfies ``least <= v < bound`` and is a multiple of ``multiple``; no part of one
is ever negative. Constructors simplify as they build, so an address prints as a person would write it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from math import gcd
from typing import Any, Union

INT_LIMIT = 2**31  # values from here on do not fit a C int

# C's operator precedence, strongest highest.
_PRECEDENCE = {
    "*": 10, "/": 10, "%": 10, "+": 9, "-": 9, ">>": 8, "<": 7, "==": 6, "!=": 6, "&": 5, "^": 4, "&&": 2, "||": 1,
}  # fmt: skip
_UNFAMILIAR = {8, 5, 4}  # shifts and bit operators always get parentheses beside other operators


class _Operators:
    """Python's operators on expressions."""

    def __add__(self: Any, other: Any) -> Index:
        return add(self, other)

    __radd__ = __add__

    def __sub__(self: Any, other: Any) -> Index:
        return sub(self, other)

    def __rsub__(self: Any, other: Any) -> Index:
        return sub(other, self)

    def __mul__(self: Any, other: Any) -> Index:
        return mul(self, other)

    __rmul__ = __mul__

    def __floordiv__(self: Any, other: Any) -> Index:
        return div(self, other)

    def __mod__(self: Any, other: Any) -> Index:
        return mod(self, other)

    def __rshift__(self: Any, other: int) -> Index:
        return div(self, 1 << other)

    def __lshift__(self: Any, other: int) -> Index:
        return mul(self, 1 << other)

    def __and__(self: Any, other: int) -> Index:
        return mod(self, other + 1) if other & (other + 1) == 0 else _masked(self, other)

    def __xor__(self: Any, other: Any) -> Index:
        return xor(self, other)

    __rxor__ = __xor__

    def __lt__(self: Any, other: Any) -> Index:
        return less(self, other)


@dataclass(frozen=True)
class Var(_Operators):
    """A C variable: ``least <= value < bound``, always a multiple of ``step``."""

    name: str
    bound: int
    step: int = 1
    least: int = 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Op(_Operators):
    """An operator applied to expressions; build it with the functions below, which simplify."""

    symbol: str
    args: tuple[Any, ...]
    bound: int

    @property
    def _key(self) -> int:
        return hash((self.symbol, self.args))

    def __hash__(self) -> int:
        try:
            return self.__dict__["_hash"]  # type: ignore[no-any-return]
        except KeyError:
            object.__setattr__(self, "_hash", self._key)
            return self.__dict__["_hash"]  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return to_c(self)


Index = Union[int, Var, Op]  # noqa: UP007 - a runtime alias; conditions are Index too, True when they always hold


# ---------------------------------------------------------------- what is known of an expression
def bound(x: Index) -> int:
    """One more than the largest value.

    >>> bound(Var("laneid", 32) // 8)
    4
    """
    return int(x) + 1 if isinstance(x, int) else x.bound


def least(x: Index) -> int:
    """A value that ``x`` never goes below (>= 0)."""
    if isinstance(x, int):
        return int(x)
    if isinstance(x, Var):
        return x.least
    if x.symbol == "+":
        return sum(least(a) for a in x.args)
    if x.symbol == "*":
        return least(x.args[0]) * least(x.args[1])
    if x.symbol == "/":
        return least(x.args[0]) // max(1, bound(x.args[1]) - 1)
    if x.symbol == "-":
        return max(0, least(x.args[0]) - (bound(x.args[1]) - 1))
    return 0


def multiple(x: Index) -> int:
    """The largest known divisor of every value (0 for the constant 0).

    >>> multiple(Var("bx", 8) * 64 + Var("c", 64, 4))
    4
    """
    if isinstance(x, int):
        return int(x)
    if isinstance(x, Var):
        return x.step
    parts = [multiple(a) for a in x.args]
    if x.symbol == "*":
        return parts[0] * parts[1]
    if x.symbol in ("+", "-", "%"):
        return gcd(*parts)
    if x.symbol == "/" and parts[1] and parts[0] % parts[1] == 0 and isinstance(x.args[1], int):
        return parts[0] // parts[1]
    if x.symbol == "^":
        return gcd(gcd(*parts), 1 << 62)
    return 1


def variables(x: Index) -> frozenset[Var]:
    """The variables of an expression."""
    if isinstance(x, Var):
        return frozenset([x])
    return frozenset().union(*(variables(a) for a in x.args)) if isinstance(x, Op) else frozenset()


def count_operators(x: Index) -> int:
    """Operators in the printed text: the address operations of a cost."""
    return len(x.args) - 1 + sum(count_operators(a) for a in x.args) if isinstance(x, Op) else 0


# ---------------------------------------------------------------- sums of terms
def terms(x: Index) -> list[tuple[int, Any]]:
    """``x`` as a sum of (coefficient, factor); the constant has factor 1."""
    if isinstance(x, int):
        return [(int(x), 1)] if x else []
    if isinstance(x, Op) and x.symbol == "+":
        return [t for a in x.args for t in terms(a)]
    if isinstance(x, Op) and x.symbol == "*" and isinstance(x.args[1], int):
        return [(x.args[1], x.args[0])]
    return [(1, x)]


def total(pairs: Iterable[tuple[int, Any]]) -> Index:
    """The sum of coefficient * factor, equal factors merged and ``(x / n) * n + x % n`` rejoined to ``x``."""
    merged: dict[Any, int] = {}
    for c, f in pairs:
        merged[f] = merged.get(f, 0) + c
    if any(isinstance(f, Op) and f.symbol == "%" for f in merged):
        merged = _rejoin(merged)
    constant = merged.pop(1, 0)
    parts = [_times(f, c) for f, c in merged.items() if c] + ([constant] if constant else [])
    if len(parts) < 2:
        return parts[0] if parts else 0
    return Op("+", tuple(parts), sum(bound(p) - 1 for p in parts) + 1)


def _rejoin(merged: dict[Any, int]) -> dict[Any, int]:
    for f in [f for f in merged if isinstance(f, Op) and f.symbol == "%" and isinstance(f.args[1], int)]:
        x, n = f.args
        quotient, c = div(x, n), merged[f]
        if c and isinstance(quotient, (Var, Op)) and merged.get(quotient) == c * n:
            merged[f] = merged[quotient] = 0
            for k, g in terms(x):
                merged[g] = merged.get(g, 0) + c * k
    return merged


def _times(f: Any, c: int) -> Index:
    if isinstance(f, int):
        return f * c
    if c == 1:
        return f  # type: ignore[no-any-return]
    return Op("*", (f, c), (bound(f) - 1) * c + 1)


# ---------------------------------------------------------------- arithmetic
def add(a: Index, b: Index) -> Index:
    """a + b."""
    return total(terms(a) + terms(b))


def sub(a: Index, b: Index) -> Index:
    """a - b, which must never be negative (the interpreter checks it)."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    merged: dict[Any, int] = {}
    for c, f in [*terms(a), *((-c, f) for c, f in terms(b))]:
        merged[f] = merged.get(f, 0) + c
    up = total((c, f) for f, c in merged.items() if c > 0)
    down = total((-c, f) for f, c in merged.items() if c < 0)
    return up if down == 0 and not isinstance(down, Op) else Op("-", (up, down), bound(up))


def mul(a: Index, b: Index) -> Index:
    """a * b. A sum is distributed over a constant, never over a variable."""
    if isinstance(a, int):
        a, b = b, a
    if isinstance(a, int):
        return a * b
    if isinstance(b, int):
        return total([(c * b, f) for c, f in terms(a)]) if b else 0
    (ca, fa), (cb, fb) = (ts[0] if len(ts := terms(x)) == 1 else (1, x) for x in (a, b))
    return _times(Op("*", (fa, fb), (bound(fa) - 1) * (bound(fb) - 1) + 1), ca * cb)


def div(x: Index, n: Index) -> Index:
    """x / n: ``(a*n + b) / n == a + b/n`` for non-negative a and b; b/n goes when b < n.

    >>> print(div(Var("tx", 256) * 4 + Var("v", 4), 64))
    tx >> 4
    """
    if isinstance(x, int) and isinstance(n, int):
        return int(x) // n
    if not isinstance(n, int):
        return 0 if bound(x) <= least(n) else Op("/", (x, n), (bound(x) - 1) // max(1, least(n)) + 1)
    if n == 1:
        return x
    high = total((c // n, f) for c, f in terms(x) if c % n == 0)
    low = total(t for t in terms(x) if t[0] % n)
    if bound(low) <= n:
        return high
    if bound(total((c % n, f) for c, f in terms(low))) <= n:  # 9 * x / 8 is x where x < 8
        return add(high, total((c // n, f) for c, f in terms(low)))
    if isinstance(low, Op) and low.symbol == "/" and isinstance(low.args[1], int):
        return add(high, div(low.args[0], n * low.args[1]))
    g = gcd(n, *(c for c, _ in terms(low)))
    if g > 1:
        return add(high, div(total((c // g, f) for c, f in terms(low)), n // g))
    coarse, fine = _split_fine(low, n)
    if not isinstance(fine, int) or fine:
        return add(high, div(coarse, n))
    if isinstance(low, int):
        return add(high, low // n)
    if isinstance(low, Op) and low.symbol == "^" and n & (n - 1) == 0:
        return add(high, xor(div(low.args[0], n), div(low.args[1], n)))
    return add(high, Op("/", (low, n), (bound(low) - 1) // n + 1))


def mod(x: Index, n: Index) -> Index:
    """x % n: every term that is a multiple of n goes.

    >>> print(mod(Var("bx", 9) * 128 + Var("laneid", 32), 64))
    laneid
    """
    if isinstance(x, int) and isinstance(n, int):
        return x % n
    if not isinstance(n, int):
        return x if bound(x) <= least(n) else Op("%", (x, n), min(bound(x), bound(n) - 1))
    if n == 1:
        return 0
    low = total((c % n, f) for c, f in terms(x) if c * multiple(f) % n)
    if bound(low) <= n:
        return low
    if isinstance(low, Op) and low.symbol == "%" and isinstance(low.args[1], int) and low.args[1] % n == 0:
        return mod(low.args[0], n)
    if isinstance(low, Op) and low.symbol == "/" and isinstance(low.args[1], int):
        y, k = low.args  # (y / k) % n sees only y mod n*k
        seen = total((c, f) for c, f in terms(y) if c * multiple(f) % (n * k))
        if isinstance(seen, Op) and seen.symbol == "%" and _is_multiple(seen.args[1], n * k):
            seen = seen.args[0]
        if seen != y:
            return mod(div(seen, k), n)
    if isinstance(low, Op) and low.symbol == "^" and n & (n - 1) == 0:
        return xor(mod(low.args[0], n), mod(low.args[1], n))
    coarse, fine = _split_fine(low, n)
    if not isinstance(fine, int) or fine:
        return add(mod(coarse, n), fine)
    g = gcd(n, *(c for c, _ in terms(low)))
    if g > 1:
        return mul(mod(total((c // g, f) for c, f in terms(low)), n // g), g)
    return Op("%", (low, n), n)


def _is_multiple(x: Index, n: int) -> bool:
    return isinstance(x, int) and x % n == 0


def _split_fine(x: Index, n: int) -> tuple[Index, Index]:
    """``x`` as a multiple of some d | n plus a part below d, which carries into no quotient by n; (x, 0) if none."""
    pairs = terms(x)
    for d in sorted({gcd(n, c * multiple(f)) for c, f in pairs}, reverse=True):
        fine = total(t for t in pairs if t[0] * multiple(t[1]) % d)
        if d > 1 and bound(fine) <= d and not (isinstance(fine, int) and fine == 0):
            return total(t for t in pairs if t[0] * multiple(t[1]) % d == 0), fine
    return x, 0


def _masked(x: Index, mask: int) -> Index:
    return x & mask if isinstance(x, int) else Op("&", (x, mask), min(bound(x) - 1, mask) + 1)


def xor(a: Index, b: Index) -> Index:
    """a ^ b. Bits that only one side can have are kept out of the operator."""
    if isinstance(a, int) and isinstance(b, int):
        return a ^ b
    for x, y in ((a, b), (b, a)):
        if isinstance(x, int) and x == 0:
            return y
    for x, y in ((a, b), (b, a)):  # x = high * 2**k + low with y < 2**k: only low changes
        k = (bound(y) - 1).bit_length()
        high = total(t for t in terms(x) if t[0] * multiple(t[1]) % (1 << k) == 0)
        low = total(t for t in terms(x) if t[0] * multiple(t[1]) % (1 << k))
        if not isinstance(high, int) and bound(low) <= 1 << k:
            return add(high, xor(low, y))
    g = gcd(gcd(multiple(a), multiple(b)), 1 << 62)
    if g > 1:
        return mul(xor(div(a, g), div(b, g)), g)
    return Op("^", (a, b), 1 << max((bound(a) - 1).bit_length(), (bound(b) - 1).bit_length()))


def ceil_div(x: Index, n: Index) -> Index:
    """ceil(x / n)."""
    return div(add(x, sub(n, 1)), n)


# ---------------------------------------------------------------- conditions
def less(a: Index, b: Index) -> Index:
    """a < b; True or False when the ranges decide it."""
    if bound(a) <= least(b):
        return True
    if least(a) >= bound(b) - 1:
        return False
    return Op("<", (a, b), 2)


def equal(a: Index, b: Index) -> Index:
    """a == b; decided when the ranges do not meet."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return False if bound(a) <= least(b) or bound(b) <= least(a) else Op("==", (a, b), 2)


def differ(a: Index, b: Index) -> Index:
    """a != b."""
    return not_(equal(a, b))


def not_(c: Index) -> Index:
    """The opposite of a condition."""
    if isinstance(c, (bool, int)):
        return not c
    assert isinstance(c, Op)
    if c.symbol == "<":
        return less(c.args[1], add(c.args[0], 1))
    if c.symbol in ("==", "!="):
        return Op("!=" if c.symbol == "==" else "==", c.args, 2)
    return (any_of if c.symbol == "&&" else every)(*(not_(a) for a in c.args))


def every(*conditions: Index) -> Index:
    """Conjunction; conditions that always hold are dropped."""
    left = tuple(dict.fromkeys(p for c in conditions for p in conjuncts(c)))
    if any(isinstance(c, bool) and not c for c in left):
        return False
    return True if not left else left[0] if len(left) == 1 else Op("&&", left, 2)


def any_of(*conditions: Index) -> Index:
    """Disjunction; True if one always holds."""
    left = tuple(dict.fromkeys(c for c in conditions if c is not False))
    if any(c is True for c in left):
        return True
    return False if not left else left[0] if len(left) == 1 else Op("||", left, 2)


def conjuncts(c: Index) -> tuple[Index, ...]:
    """The conditions that ``c`` joins with and."""
    return () if c is True else c.args if isinstance(c, Op) and c.symbol == "&&" else (c,)


# ---------------------------------------------------------------- substitution
def _fold(function: Callable[[Index, Index], Index]) -> Callable[..., Index]:
    return lambda *args: reduce(function, args)


_REBUILD: dict[str, Callable[..., Index]] = {
    "+": lambda *args: total(t for a in args for t in terms(a)), "-": sub, "*": _fold(mul), "/": div, "%": mod,
    "^": xor, "&": _masked, "<": less, "==": equal, "!=": differ, "&&": every, "||": any_of,
}  # fmt: skip


def substitute(x: Index, values: Mapping[str, Index]) -> Index:
    """``x`` with variables replaced by name, simplified again."""
    if isinstance(x, Var):
        return values.get(x.name, x)
    if not isinstance(x, Op):
        return x
    args = [substitute(a, values) for a in x.args]
    return x if all(a is b for a, b in zip(args, x.args, strict=True)) else _REBUILD[x.symbol](*args)


# ---------------------------------------------------------------- text
def _spelling(x: Op) -> tuple[str, tuple[Any, ...]]:
    """Powers of two as shifts and masks: on an int, nvcc must otherwise correct for negative values."""
    n = x.args[1] if x.symbol in "/%" else 0
    if not isinstance(n, int) or not n or n & (n - 1):
        return x.symbol, x.args
    return (">>", (x.args[0], n.bit_length() - 1)) if x.symbol == "/" else ("&", (x.args[0], n - 1))


@lru_cache(maxsize=None, typed=True)
def to_c(x: Index) -> str:
    """The C text of ``x``; what may exceed an int is computed in size_t.

    >>> to_c((Var("tx", 256) // 32) ^ (Var("r", 8) % 4))
    '(tx >> 5) ^ (r & 3)'
    >>> to_c(Var("row", 1 << 20) * 8192)
    '(size_t)row * 8192'
    """
    if isinstance(x, bool):
        return "true" if x else "false"
    if not isinstance(x, Op):
        return str(x)
    symbol, (first, *rest) = _spelling(x)
    widen = symbol in "+*" and x.bound > INT_LIMIT and all(bound(a) <= INT_LIMIT for a in x.args)
    head = _operand(first, symbol, False)
    if widen:
        head = f"(size_t)({head})" if isinstance(first, Op) and not head.startswith("(") else f"(size_t){head}"
    return f" {symbol} ".join([head, *(_operand(a, symbol, True) for a in rest)])


def _operand(arg: Index, parent: str, is_right: bool) -> str:
    if not isinstance(arg, Op):
        return to_c(arg)
    inner, outer = _PRECEDENCE[_spelling(arg)[0]], _PRECEDENCE[parent]
    unfamiliar = inner != outer and outer > 2 and min(inner, outer) in _UNFAMILIAR
    mixed = outer <= 2 and inner <= 2 and inner != outer
    parenthesise = unfamiliar or mixed or inner < outer or (inner == outer and is_right)
    return f"({to_c(arg)})" if parenthesise else to_c(arg)


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


def evaluate(x: Index, values: Mapping[str, Any]) -> Any:
    """The value of the *printed text* of ``x``: a printing bug is a wrong value. ``values``: ints or NumPy arrays.

    >>> evaluate(Var("laneid", 32) // 8 ^ 1, {"laneid": 9})
    0
    """
    return eval(compile_text(to_c(x)), {"__builtins__": {}}, dict(values)) if isinstance(x, (Var, Op)) else x
