"""Index expressions as isl's functions: piecewise affine, exact for all values of their variables at once.

isl decides statements over integers with quotients and remainders by numbers. A product of two variables, or a
quotient by one, is none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import pytest

from tilegen.index import Index, Var, bound, least

isl = pytest.importorskip("islpy", reason="islpy, the oracle of who owns what at all sizes, is not installed")

MOST_OPERATIONS = 20_000_000  # of isl, for one question: some seconds


class NotAffine(Exception):
    """An expression that isl has no form for; its text says which operator."""


class TooLong(Exception):
    """A question that takes isl more than ``MOST_OPERATIONS``."""


def ask(question: Callable[[], Any]) -> Any:
    """What isl answers, within a number of operations that is the same on all machines."""
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(MOST_OPERATIONS)
    try:
        return question()
    except isl.Error as error:
        if "maximal number of operations" in str(error):
            raise TooLong from error
        raise
    finally:
        context.set_max_operations(0)
        context.reset_operations()


class Affine:
    """Values and conditions over some parameters and the dimensions of a set, as isl has them.

    >>> k, n = Var("k", 100), Var("N", 1000)
    >>> form = Affine(["N"], ["k"])
    >>> bool(form.holds(k % 4 + 1 < 5).is_equal(form.all)), bool(form.holds(k < n).is_empty())
    (True, False)
    """

    def __init__(self, params: Sequence[str], dims: Sequence[str]) -> None:
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=list(dims), params=list(params))
        self.all, self.none = isl.Set.universe(space), isl.Set.empty(space)
        self._local = isl.LocalSpace.from_space(space)
        self._places = {name: (isl.dim_type.param, k) for k, name in enumerate(params)}
        self._places |= {name: (isl.dim_type.set, k) for k, name in enumerate(dims)}
        self._known: dict[Any, Any] = {}

    def value(self, x: Index) -> Any:
        """An expression as a function; a condition is 1 where it holds, else 0."""
        if isinstance(x, int):
            zero = isl.Aff.zero_on_domain(self._local)
            return isl.PwAff.from_aff(zero.set_constant_val(isl.Val(int(x))))
        if x not in self._known:
            self._known[x] = self._convert(x)
        return self._known[x]

    def holds(self, x: Index) -> Any:
        """The set in which a condition holds."""
        if isinstance(x, int):
            return self.all if x else self.none
        symbol = None if isinstance(x, Var) else x.symbol
        if symbol in ("<", "==", "!="):
            a, b = map(self.value, x.args)
            return {"<": a.lt_set, "==": a.eq_set, "!=": a.ne_set}[symbol](b)
        if symbol == "&&":
            return reduce(lambda s, part: s.intersect(self.holds(part)), x.args, self.all)
        if symbol == "||":
            return reduce(lambda s, part: s.union(self.holds(part)), x.args, self.none)
        return self.value(x).ne_set(self.value(0))

    def within(self, x: Index, first: Index, stop: Index) -> Any:
        """The set in which ``first <= x < stop``."""
        value = self.value(x)
        return value.ge_set(self.value(first)).intersect(value.lt_set(self.value(stop)))

    def values_of(self, v: Var, first: int = 0) -> Any:
        """The set in which a variable has one of its values, and at least ``first``."""
        steps = self.value(v).mod_val(isl.Val(v.step)).eq_set(self.value(0))
        return self.within(v, max(v.least, first), v.bound).intersect(steps)

    def _convert(self, x: Any) -> Any:
        if isinstance(x, Var):
            return isl.PwAff.from_aff(isl.Aff.var_on_domain(self._local, *self._places[x.name]))
        if x.symbol in ("<", "==", "!=", "&&", "||"):
            return self._pick(self.holds(x), 1, 0)
        if x.symbol == "?":
            return self._pick(self.holds(x.args[0]), *x.args[1:])
        if x.symbol == "*" and sum(not isinstance(a, int) for a in x.args) > 1:
            raise NotAffine("a product of variables")
        if x.symbol in ("/", "%", "&") and not isinstance(x.args[1], int):
            raise NotAffine(f"'{x.symbol}' by a variable")
        rule = _RULES.get(x.symbol)
        if rule is None:
            raise NotAffine(f"'{x.symbol}'")
        return rule(self, x.args)

    def _pick(self, where: Any, yes: Index, no: Index) -> Any:
        first = self.value(yes).intersect_domain(where)
        return first.union_add(self.value(no).intersect_domain(self.all.subtract(where)))

    def fold(self, args: Iterable[Index], join: Callable[[Any, Any], Any]) -> Any:
        return reduce(join, map(self.value, args))

    def bit(self, x: Index, k: int) -> Any:
        """Bit ``k`` of a value that is not negative."""
        return _quotient(self.value(x), 1 << k).mod_val(isl.Val(2))


def _quotient(value: Any, n: int) -> Any:
    return value.scale_down_val(isl.Val(n)).floor()


def _masked(form: Affine, args: Sequence[Any]) -> Any:
    """The bits of a mask, each by itself."""
    x, mask = args
    bits = [k for k in range(mask.bit_length()) if mask >> k & 1]
    return reduce(lambda s, k: s.add(form.bit(x, k).scale_val(isl.Val(1 << k))), bits, form.value(0))


def _exclusive(form: Affine, args: Sequence[Any]) -> Any:
    """The wider side, with each bit that the other has turned over: 1 becomes 0, and 0 becomes 1."""
    narrow, wide = sorted(args, key=bound)
    if least(narrow) < 0 or least(wide) < 0:
        raise NotAffine("'^' of a value that may be negative")
    found = form.value(wide)
    for k in range((bound(narrow) - 1).bit_length()):
        own, other = form.bit(wide, k), form.bit(narrow, k)
        found = found.add(own.add(other).mod_val(isl.Val(2)).sub(own).scale_val(isl.Val(1 << k)))
    return found


_RULES: Mapping[str, Callable[[Affine, Sequence[Any]], Any]] = {
    "+": lambda form, args: form.fold(args, lambda a, b: a.add(b)),
    "-": lambda form, args: form.fold(args, lambda a, b: a.sub(b)),
    "*": lambda form, args: form.fold(args, lambda a, b: a.mul(b)),
    "/": lambda form, args: _quotient(form.value(args[0]), args[1]),
    "%": lambda form, args: form.value(args[0]).mod_val(isl.Val(args[1])),
    "min": lambda form, args: form.fold(args, lambda a, b: a.min(b)),
    "max": lambda form, args: form.fold(args, lambda a, b: a.max(b)),
    "&": _masked, "^": _exclusive,
}  # fmt: skip
