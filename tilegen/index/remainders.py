"""What a sum is modulo a number, remainders among its terms taken apart."""

from __future__ import annotations

from math import gcd

from tilegen.index import Formula, Index, mod, terms, total


def remainder(x: Index, n: int) -> Index:
    """``x % n``, where a term that is a remainder itself counts as its dividend if only multiples of n lie between.

    >>> from tilegen.index import Var
    >>> row = Var("row", 128)
    >>> print(mod(row * 3 + mod(row * 13, 16), 16))
    (row * 3 + ((row * 13) & 15)) & 15
    >>> remainder(row * 3 + mod(row * 13, 16), 16)
    0
    """
    found: list[tuple[int, Index]] = []
    stack = list(terms(x))
    while stack:
        c, factor = stack.pop()
        if isinstance(factor, Formula) and factor.symbol == "%" and _divides(n // gcd(c, n), factor.args[1]):
            stack += [(c * own, inner) for own, inner in terms(factor.args[0])]
        else:
            found.append((c % n, factor))
    return mod(total(found), n)


def _divides(n: int, x: Index) -> bool:
    return isinstance(x, int) and x % n == 0
