"""Questions over sizes, asked of as few of them as show every outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from tilegen.index import Formula, Index, Var, add, names_of, substitute
from tilegen.index.bounds import is_below
from tilegen.index.comparisons import COMPARING
from tilegen.proofs.flat_trips import Inner, Joined, flatten_trips
from tilegen.spec.data import Spec


@dataclass(frozen=True)
class Narrowed:
    """What is seen, an expression for each of the question; the variables beside sizes, each with its count; the sizes
    that outcomes are looked for in, and the values of all others.
    """

    seen: tuple[Index, ...]
    inner: tuple[tuple[Var, Index], ...]
    outer: tuple[Var, ...]
    fixed: Mapping[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(v.name for v in self.outer)


def narrow(spec: Spec, group: Joined, default: Mapping[str, int]) -> Iterator[Narrowed]:
    """The question of a group in parts, over fewer sizes: together they have all of its outcomes.

    Parameters that a part does not name have their defaults.
    """
    flat, counted = flatten_trips(group.seen, group.inner, group.counted)
    most = {name: default[name] for name in _find_bounding(spec, flat, counted, default)}
    counted = [(v, substitute(n, most)) for v, n in counted]
    for seen, inner, lowest in _lower_together(spec, flat, counted):
        named = frozenset[str]().union(*map(names_of, (*seen, *(n for _, n in inner))))
        named -= _find_shifts(spec, seen, inner, named)
        outer = tuple(p.var for p in spec.params if p.var is not None and p.name in named)
        fixed = {**default, **_find_weakest(spec, named), **lowest}
        fixed = {name: value for name, value in fixed.items() if name not in named}
        yield Narrowed(
            tuple(substitute(x, fixed) for x in seen), tuple((v, substitute(n, fixed)) for v, n in inner), outer, fixed
        )  # fmt: skip


def _find_weakest(spec: Spec, named: Set[str]) -> dict[str, int]:
    """The least values of elements of tables that a question does not name, and that sizes which it names must leave
    room for: with these all sizes do.
    """
    tied = [c for c in spec.known if isinstance(c, Formula) and not named.isdisjoint(names_of(c))]
    least_of = {p.name: p.var.least for p in spec.params if p.var is not None and p.name in spec.elements}
    return {name: low for name, low in least_of.items() if any(name in names_of(c) for c in tied)}


def _lower_together(
    spec: Spec, seen: Sequence[Index], inner: Inner
) -> Iterator[tuple[Sequence[Index], Inner, dict[str, int]]]:
    """The question with an element of a table at 0, then with a trip at 0, if only how far these lie apart counts; else
    as it is. Both go down together until one of them is 0, and nothing comes out otherwise.
    """
    for v, n in inner:
        counts = [(u, m) for u, m in inner if u != v]
        for p in (p for p in spec.params if p.name in spec.elements and p.var is not None and p.var.least == 0):
            others = frozenset[str]().union(*map(names_of, (n, *(m for _, m in counts), *spec.known)))
            both = {v.name, p.name}
            is_apart = p.name in frozenset[str]().union(*map(names_of, seen)) and both.isdisjoint(others)
            if is_apart and all(find_shift(x, both) == 0 for x in seen) and is_below(0, n, ()):
                yield [substitute(x, {p.name: 0}) for x in seen], inner, {p.name: 0}
                yield [substitute(x, {v.name: 0}) for x in seen], counts, {}
                return
    yield seen, inner, {}


def _find_shifts(spec: Spec, seen: Sequence[Index], inner: Inner, named: Set[str]) -> set[str]:
    """The elements of tables of a group that only shift a size, of which any value shows all: as where a piece begins,
    if nothing but how far it lies from the end of the array counts.
    """
    asked = [*seen, *(n for _, n in inner)]
    asked += [c for c in spec.known if not named.isdisjoint(names_of(c))]
    sizes = {p.name for p in spec.params if p.var is not None and p.name in named} - {*spec.elements}
    return {
        element for element in spec.elements
        if element in named and any(all(find_shift(x, {element, size}) == 0 for x in asked) for size in sizes)
    }  # fmt: skip


def _find_bounding(
    spec: Spec, seen: Sequence[Index], inner: Inner, default: Mapping[str, int]
) -> set[str]:  # fmt: skip
    """The parameters that only say how far something counts, and farthest with their defaults, which show all then."""
    named = frozenset[str]().union(*map(names_of, (*seen, *spec.known)))
    counts = [n for _, n in inner]
    return {
        p.name for p in spec.params
        if p.var is not None and p.name not in named and not any(p.name in names_of(n) and not is_below(
            n, add(substitute(n, {p.name: default[p.name]}), 1), ()) for n in counts)
    }  # fmt: skip


def find_shift(x: Index, names: Set[str]) -> int | None:
    """By how much an expression grows where each of some variables is one more; None where no rule says.

    >>> from tilegen.index import less
    >>> n, k = Var("n", 99), Var("k", 9)
    >>> find_shift(Formula("min", (k + 8, n), 99), {"n", "k"}), find_shift(less(k + 8, n), {"n", "k"})
    (1, 0)
    >>> find_shift(less(8, n), {"n"})
    """
    if isinstance(x, Var):
        return int(x.name in names)
    if not isinstance(x, Formula) or names.isdisjoint(names_of(x)):
        return 0
    parts = [find_shift(a, names) for a in x.args]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    if x.symbol == "+":
        return sum(known)
    if x.symbol == "-":
        return known[0] - known[1]
    if x.symbol == "*" and isinstance(x.args[1], int):
        return known[0] * x.args[1]
    arms = known[1:] if x.symbol == "?" and known[0] == 0 else known
    if len({*arms}) > 1:
        return None
    return 0 if x.symbol in COMPARING or not arms[0] else arms[0] if x.symbol in ("min", "max", "?") else None
