"""Expressions and their arithmetic.

Every value ``v`` of an expression satisfies ``least <= v < bound`` and is a multiple of ``multiple``. Parts may be
negative, but for what is divided, and for what XOR and AND take: proofs hold all users to that. Constructors simplify
as they build, so an address prints as a person would write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, isqrt
from typing import Any, Union

from tilegen.index.text import to_c
from tilegen.index.trees import Name, Tree, bound, has_signs, is_element_below, least, multiple, span_of_product


class _Operators:
    """Python's operators on expressions."""

    def __getstate__(self: Any) -> dict[str, Any]:
        """The fields alone, without what is kept beside them: the hash of a text is another one in another process."""
        return {f: getattr(self, f) for f in self.__dataclass_fields__}

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
        return mod(self, other + 1) if other & (other + 1) == 0 else masked(self, other)

    def __xor__(self: Any, other: Any) -> Index:
        return xor(self, other)

    __rxor__ = __xor__

    def __lt__(self: Any, other: Any) -> Index:
        return less(self, other)


@dataclass(frozen=True)
class Var(_Operators, Name):
    """A C variable: ``least <= value < bound``, always a multiple of ``step``."""

    name: str
    bound: int
    step: int = 1
    least: int = 0

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Formula(_Operators, Tree):
    """An operator applied to expressions; build it with the functions below, which simplify."""

    symbol: str
    args: tuple[Any, ...]
    bound: int

    def __str__(self) -> str:
        return to_c(self)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def terms(self) -> _Terms:
        if self.symbol == "+":
            return tuple(t for a in self.args for t in terms(a))
        c = self.args[1] if self.symbol == "*" else None
        return ((c, self.args[0]),) if isinstance(c, int) else ((1, self),)


_Terms = tuple[tuple[int, Any], ...]  # of a sum: coefficient, factor
Index = Union[int, Var, Formula]  # noqa: UP007 - a runtime alias; conditions are Index too, True when they always hold


# ---------------------------------------------------------------- sums of terms
def terms(x: Index) -> _Terms:
    """``x`` as a sum of (coefficient, factor); the constant has factor 1."""
    if isinstance(x, int):
        return ((int(x), 1),) if x else ()
    return x.terms if isinstance(x, Formula) else ((1, x),)


def total(pairs: Iterable[tuple[int, Any]]) -> Index:
    """The sum of coefficient * factor, equal factors merged and digits of one number joined.

    Terms stand in falling order of their strides, as a person writes them; what is taken off stands behind.

    >>> print(total([(1, Var("tx", 64)), (128, Var("i", 4)), (3, 1)]))
    i * 128 + tx + 3
    """
    return _sum(tuple(pairs))


@lru_cache(maxsize=1 << 16)
def _sum(pairs: tuple[tuple[int, Any], ...]) -> Index:
    merged: dict[Any, int] = {}
    for c, f in pairs:
        merged[f] = merged.get(f, 0) + c
    if any(map(_is_quotient, merged)):
        merged = _rejoin(merged)
    if any(c < 0 for c in merged.values()):
        up, down = (_sum(tuple((s * c, f) for f, c in merged.items() if s * c > 0)) for s in (1, -1))
        return up - down if isinstance(up, int) and isinstance(down, int) else _difference(up, down)
    constant = merged.pop(1, 0)
    ordered = sorted(merged.items(), key=_stride, reverse=True) if len(merged) > 1 else merged.items()
    parts = [_times(f, c) for f, c in ordered if c] + ([constant] if constant else [])
    if len(parts) < 2:
        return parts[0] if parts else 0
    return Formula("+", tuple(parts), sum(bound(p) - 1 for p in parts) + 1)


def _stride(term: tuple[Any, int]) -> int:
    """How far a step of the term moves; a runtime pitch counts as longer than any constant."""
    factor, c = term
    is_product = isinstance(factor, Formula) and factor.symbol == "*"
    return c << 40 if is_product else c


def _rejoin(merged: dict[Any, int]) -> dict[Any, int]:
    """Digits of one number that stand side by side in a sum, as one: ``y / n * n + y % n`` is y, and with the lowest
    digit of the quotient alone, ``y / n % m``, it is ``y % (n * m)``; so with all of it times a constant, or a factor.
    """
    waiting = [f for f in merged if _is_quotient(f)]
    while waiting:
        f = waiting.pop()
        for y, m, by, rest in _readings(f, merged[f]) if merged[f] else ():
            is_there = all(merged.get(g) == c for c, g in rest if g != 1)
            whole = terms(mul(mod(y, m) if m else y, by)) if is_there else ()
            if is_there and sum(_divisions(g) for _, g in whole) < sum(_divisions(g) for _, g in rest) + _divisions(f):
                merged[f] = 0
                for c, g in [*whole, *((-c, g) for c, g in rest)]:
                    merged[g] = merged.get(g, 0) + c
                waiting += [g for _, g in whole if _is_quotient(g)]
                break
    return merged


@lru_cache(maxsize=1 << 16)
def _is_quotient(f: Any) -> bool:
    """Is it a quotient, a digit of one, or a product with either?"""
    return isinstance(f, Formula) and (f.symbol == "/" or (f.symbol in "*%" and any(map(_is_quotient, f.args))))


@lru_cache(maxsize=1 << 16)
def _readings(f: Formula, c: int) -> tuple[tuple[Index, int, int, _Terms], ...]:
    """Ways (y, m, by, rest) to see ``c * f`` as ``y % m * by - rest``, or with m 0 as ``y * by - rest``: of a quotient
    y / n, as what is left of c / n * y over y % n.
    """
    if f.symbol == "*":
        return tuple(_readings_of_product(f, c))
    x, a, m = _digit(f)
    if not m and has_signs(x):  # nothing would be left that divides x, by which proofs hold it to be no less than 0
        return ()
    ways = ((div(x, a // n), n) for n in _divisors(gcd(a, c)))
    return tuple((y, n * m, c // n, terms(mul(mod(y, n), c // n))) for y, n in ways)


@lru_cache(maxsize=1 << 12)
def _divisors(n: int) -> tuple[int, ...]:
    """Those over 1, the largest first."""
    small = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return tuple(sorted({d for s in small for d in (s, n // s)} - {1}, reverse=True))


def _readings_of_product(f: Formula, c: int) -> Iterator[tuple[Index, int, int, _Terms]]:
    """Those of a quotient times the runtime number that it is by, and of one factor times the other."""
    for k, (q, by) in enumerate((f.args, f.args[::-1])):
        if not _is_quotient(q):
            continue
        if q.symbol == "/" and q.args[1] == by and not has_signs(q.args[0]):
            yield q.args[0], 0, c, terms(mul(mod(*q.args), c))
        for y, m, times, rest in _readings(q, c):
            whole, left = mul(mod(y, m) if m else y, times), total(rest)
            yield mul(by, whole) if k else mul(whole, by), 0, 1, terms(mul(by, left) if k else mul(left, by))


def _digit(f: Any) -> tuple[Index, int, int]:
    """(x, a, m) with f == x / a % m for x >= 0; m is 0 where all of x / a is meant."""
    if not isinstance(f, Formula) or f.symbol not in "/%" or not isinstance(f.args[1], int):
        return f, 1, 0
    n = f.args[1]
    x, a, m = _digit(f.args[0])
    if f.symbol == "%":
        return (x, a, n) if m % n == 0 else (f.args[0], 1, n)
    return (x, a * n, m // n) if m % n == 0 else (f.args[0], n, 0)


@lru_cache(maxsize=1 << 16)
def _divisions(x: Any) -> int:
    return sum(map(_divisions, x.args)) + (x.symbol in "/%") if isinstance(x, Formula) else 0


@lru_cache(maxsize=1 << 16, typed=True)
def _times(f: Any, c: int) -> Index:
    if isinstance(f, int):
        return f * c
    if c == 1:
        return f  # type: ignore[no-any-return]
    return Formula("*", (f, c), span_of_product(f, c)[1] + 1)


# ---------------------------------------------------------------- arithmetic
@lru_cache(maxsize=1 << 16, typed=True)
def add(a: Index, b: Index) -> Index:
    """a + b."""
    return total(terms(a) + terms(b))


@lru_cache(maxsize=1 << 16, typed=True)
def sub(a: Index, b: Index) -> Index:
    """a - b."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    merged: dict[Any, int] = {}
    for c, f in (*terms(a), *((-c, f) for c, f in terms(b))):
        merged[f] = merged.get(f, 0) + c
    up = total((c, f) for f, c in merged.items() if c > 0)
    down = total((-c, f) for f, c in merged.items() if c < 0)
    if isinstance(up, int) and isinstance(down, int):
        return up - down
    return up if isinstance(down, int) and down == 0 else _difference(up, down)


def _difference(up: Index, down: Index) -> Index:
    return Formula("-", (up, down), bound(up) - least(down))


@lru_cache(maxsize=1 << 16, typed=True)
def mul(a: Index, b: Index) -> Index:
    """a * b. A sum is distributed over a constant, never over a variable."""
    if isinstance(a, int):
        a, b = b, a
    if isinstance(a, int):
        return a * b
    if isinstance(b, int):
        return total([(c * b, f) for c, f in terms(a)]) if b else 0
    (ca, fa), (cb, fb) = (ts[0] if len(ts := terms(x)) == 1 else (1, x) for x in (a, b))
    return total([(ca * cb, Formula("*", (fa, fb), span_of_product(fa, fb)[1] + 1))])


@lru_cache(maxsize=1 << 16, typed=True)
def div(x: Index, n: Index) -> Index:
    """x / n, rounded down: ``(a*n + b) / n == a + b/n`` for non-negative a and b; b/n goes when b < n.

    >>> print(div(Var("tx", 256) * 4 + Var("v", 4), 64))
    tx >> 4
    """
    if isinstance(x, int) and isinstance(n, int):
        return int(x) // n
    if not isinstance(n, int) or has_signs(x):
        is_below = least(x) >= 0 and bound(x) <= least(n)
        return 0 if is_below else x if n == 1 else Formula("/", (x, n), (bound(x) - 1) // max(1, least(n)) + 1)
    if n == 1:
        return x
    high = total((c // n, f) for c, f in terms(x) if c % n == 0)
    low = total(t for t in terms(x) if t[0] % n)
    if bound(low) <= n:
        return high
    if bound(total((c % n, f) for c, f in terms(low))) <= n:  # 9 * x / 8 is x where x < 8
        return add(high, total((c // n, f) for c, f in terms(low)))
    if isinstance(low, Formula) and low.symbol == "/" and isinstance(low.args[1], int):
        return add(high, div(low.args[0], n * low.args[1]))
    g = gcd(n, *(c for c, _ in terms(low)))
    if g > 1:
        return add(high, div(total((c // g, f) for c, f in terms(low)), n // g))
    coarse, fine = _split_fine(low, n)
    if not isinstance(fine, int) or fine:
        return add(high, div(coarse, n))
    if isinstance(low, int):
        return add(high, low // n)
    if isinstance(low, Formula) and low.symbol == "^" and n & (n - 1) == 0:
        return add(high, xor(div(low.args[0], n), div(low.args[1], n)))
    return add(high, Formula("/", (low, n), (bound(low) - 1) // n + 1))


@lru_cache(maxsize=1 << 16, typed=True)
def mod(x: Index, n: Index) -> Index:
    """x % n: every term that is a multiple of n goes.

    >>> print(mod(Var("bx", 9) * 128 + Var("laneid", 32), 64))
    laneid
    """
    if isinstance(x, int) and isinstance(n, int):
        return x % n
    if not isinstance(n, int) or has_signs(x):
        is_below = least(x) >= 0 and bound(x) <= least(n)
        return x if is_below else 0 if n == 1 else Formula("%", (x, n), max(1, min(bound(x), bound(n) - 1)))
    if n == 1:
        return 0
    low = total((c % n, f) for c, f in terms(x) if c * multiple(f) % n)
    if bound(low) <= n:
        return low
    if isinstance(low, Formula) and low.symbol == "%" and isinstance(low.args[1], int) and low.args[1] % n == 0:
        return mod(low.args[0], n)
    if isinstance(low, Formula) and low.symbol == "/" and isinstance(low.args[1], int):
        y, k = low.args  # (y / k) % n sees only y mod n*k
        seen = total((c, f) for c, f in terms(y) if c * multiple(f) % (n * k))
        if isinstance(seen, Formula) and seen.symbol == "%" and _is_multiple(seen.args[1], n * k):
            seen = seen.args[0]
        if seen != y:
            return mod(div(seen, k), n)
    if isinstance(low, Formula) and low.symbol == "^" and n & (n - 1) == 0:
        return xor(mod(low.args[0], n), mod(low.args[1], n))
    coarse, fine = _split_fine(low, n)
    if not isinstance(fine, int) or fine:
        return add(mod(coarse, n), fine)
    g = gcd(n, *(c for c, _ in terms(low)))
    if g > 1:
        return mul(mod(total((c // g, f) for c, f in terms(low)), n // g), g)
    return Formula("%", (low, n), n)


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


def masked(x: Index, mask: int) -> Index:
    return x & mask if isinstance(x, int) else Formula("&", (x, mask), max(0, min(bound(x) - 1, mask)) + 1)


@lru_cache(maxsize=1 << 16, typed=True)
def xor(a: Index, b: Index) -> Index:
    """a ^ b. Bits that only one side can have are kept out of the operator."""
    if isinstance(a, int) and isinstance(b, int):
        return a ^ b
    for x, y in ((a, b), (b, a)):
        if isinstance(x, int) and x == 0:
            return y
    if has_signs(a) or has_signs(b):
        return _exclusive(a, b)
    for x, y in ((a, b), (b, a)):  # x = high * 2**k + low with y < 2**k: only low changes
        k = (bound(y) - 1).bit_length()
        high = total(t for t in terms(x) if t[0] * multiple(t[1]) % (1 << k) == 0)
        low = total(t for t in terms(x) if t[0] * multiple(t[1]) % (1 << k))
        if not isinstance(high, int) and bound(low) <= 1 << k:
            return add(high, xor(low, y))
    g = gcd(gcd(multiple(a), multiple(b)), 1 << 62)
    if g > 1:
        return mul(xor(div(a, g), div(b, g)), g)
    return _exclusive(a, b)


def _exclusive(a: Index, b: Index) -> Index:
    return Formula("^", (a, b), 1 << max(0, bound(a) - 1, bound(b) - 1).bit_length())


def ceil_div(x: Index, n: Index) -> Index:
    """ceil(x / n)."""
    return div(add(x, sub(n, 1)), n)


@lru_cache(maxsize=1 << 16, typed=True)
def less(a: Index, b: Index) -> Index:
    """a < b; True or False when the ranges decide it, or what an element of a table is."""
    if bound(a) <= least(b) or is_element_below(a, b):
        return True
    if least(a) >= bound(b) - 1:
        return False
    return Formula("<", (a, b), 2)
