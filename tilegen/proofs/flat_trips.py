"""Loops whose trips CTAs share by turns, as one loop over the work that all of them share.

A CTA ``b`` of ``c`` takes work ``trip * c + b``, while that is less than all there is. Each piece of work is one trip
of one CTA, whatever ``c`` is. So what names trip and CTA only by their piece of work comes out as that does, and each
count of CTAs shows all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tilegen.index import (
    Formula,
    Index,
    Var,
    add,
    bound,
    consequences,
    div,
    less,
    maximum,
    mod,
    mul,
    multiple,
    names_of,
    rebuild,
    replace_part,
    sub,
    total,
)
from tilegen.index.bounds import is_below
from tilegen.index.comparisons import COMPARING
from tilegen.index.linear import linear
from tilegen.proofs.observed import compared_in, parts_with

Inner = Sequence[tuple[Var, Index]]  # variables that count from 0, each with its count


@dataclass(frozen=True)
class Joined:
    """Expressions whose joint outcomes depend on sizes, and the variables beside sizes, each with its count.

    ``counted``: those of ``seen`` that only counts of loops make.
    """

    seen: tuple[Index, ...]
    inner: tuple[tuple[Var, Index], ...] = ()
    counted: frozenset[Index] = frozenset()


def flatten_trips(
    seen: Sequence[Index], inner: Inner, counted: Set[Index] = frozenset()
) -> tuple[list[Index], list[tuple[Var, Index]]]:
    """What is seen, and the variables that it names, with one variable for a trip and a CTA that share work by turns.

    ``counted``: what only counts of loops compare. Of a trip that there is, its loop's count says no more.

    Nothing changes where something names the trip, or the CTA, in another way.

    >>> trip, bx, n, c = Var("trip", 99), Var("bx", 9), Var("n", 99), Var("c", 10, 1, 1)
    >>> count = (maximum(sub(n, bx), 0) + (c - 1)) // c
    >>> flat, of = flatten_trips([less(trip * c + bx + 7, n), less(trip, count)], [(trip, count), (bx, c)])
    >>> [str(x) for x in flat], [(v.name, str(count)) for v, count in of]
    (['trip__work + 7 < n', '1'], [('trip__work', 'n')])
    >>> flatten_trips([less(trip, n)], [(trip, count), (bx, c)])[1] == [(trip, count), (bx, c)]
    True
    """
    seen, inner = [*seen], [*inner]
    for one in _find_shared(inner):
        own = counted & {c for x in compare_trip(one.trip, one.count) for c in compared_in(x)}
        flat = [1 if x in own else _flatten(x, one) for x in seen]
        counts = [(v, _flatten(n, one)) for v, n in inner if v not in (one.trip, one.cta)]
        flat = [*_drop_known(flat, consequences(less(one.piece, one.work)))]
        told = {one.trip.name, one.cta.name}
        if not any(told & names_of(x) for x in (*flat, *(n for _, n in counts), one.work)) and not _is_dealt(flat, one):
            at = [v for v, _ in inner if v != one.cta].index(one.trip)
            seen, inner = _split(flat, [*counts[:at], (one.piece, one.work), *counts[at:]], at)
    return seen, inner


def _is_dealt(flat: Sequence[Index], one: _Shared) -> bool:
    """Is a piece of work divided by the number of CTAs again? That is the trip, or the CTA: few of either show all."""
    divided = (part for x in flat for part in parts_with(x, ("/", "%")))
    return any(names_of(part.args[1]) & names_of(one.ctas) for part in divided)


def compare_trip(trip: Var, count: Index) -> tuple[Index, ...]:
    """That there is a trip, and what follows."""
    return consequences(less(trip, count))


def _split(seen: list[Index], inner: list[tuple[Var, Index]], at: int) -> tuple[list[Index], list[tuple[Var, Index]]]:
    """The same with the quotient and the remainder of a piece of work, where all name it by these."""
    piece, work = inner[at]
    each = multiple(work)
    whole, rest = Var(f"{piece.name}__whole", -(-bound(work) // each)), Var(f"{piece.name}__rest", each)
    split = [replace_part(replace_part(x, div(piece, each), whole), mod(piece, each), rest) for x in seen]
    named = frozenset[str]().union(*map(names_of, (*split, *(n for _, n in inner))))
    if each == 1 or piece.name in named:
        return seen, inner
    parts = [*([(rest, each)] if rest.name in named else []), (whole, div(work, each))]  # which says that there is work
    return split, [*inner[:at], *parts, *inner[at + 1 :]]


@dataclass(frozen=True)
class _Shared:
    """A loop whose trips CTAs share: the variable of its trips, with their count, that of the CTAs, and how many."""

    trip: Var
    count: Index
    cta: Var
    ctas: Index
    work: Index

    @property
    def piece(self) -> Var:
        """Which piece of the work it is, from 0 on."""
        return Var(f"{self.trip.name}__work", bound(self.work))  # no name of a spec has two underscores


def _find_shared(inner: Inner) -> Iterator[_Shared]:
    """The loops that have as many trips as is left of some work from the CTA's number on, in steps of all CTAs."""
    for trip, count in inner:
        if not isinstance(count, Formula) or count.symbol != "/":
            continue
        above, ctas = count.args
        for cta, extent in inner:
            if extent == ctas:
                rest = _sum(linear(above), linear(ctas, -1), {1: 1})
                most = rest.args if isinstance(rest, Formula) and rest.symbol == "max" else (rest, 0)
                work = _sum(linear(most[0]), {cta: 1})
                if most[1] == 0 and names_of(work).isdisjoint([trip.name, cta.name]):
                    yield _Shared(trip, count, cta, ctas, work)


def _sum(*parts: Mapping[Any, int]) -> Index:
    return total((c, f) for part in parts for f, c in part.items())


def _drop_known(seen: Sequence[Index], holds: tuple[Index, ...]) -> Iterator[Index]:
    """What is seen, with 1 in place of what comes out one way where conditions hold, or as another does."""
    found: set[Any] = set()
    for x in seen:
        if not isinstance(x, Formula) or x.symbol != "<":
            yield x
            continue
        a, b = x.args
        ways = {_sum_of(sub(a, b)), _sum_of(sub(sub(b, a), 1))}  # a < b, and whether b < a + 1
        is_told = is_below(a, b, holds) or is_below(b, add(a, 1), holds)
        yield 1 if is_told or ways & found else x
        found |= ways


def _sum_of(x: Index) -> frozenset[tuple[Any, int]]:
    return frozenset((f, c) for f, c in linear(x).items() if c)


def _flatten(x: Index, one: _Shared) -> Index:
    """An expression of trips that there are, over the piece of work."""
    left = sub(one.work, one.cta)  # 1 or more, as the trip is one of those that there are
    for part, known in ((less(one.trip, one.count), 1), (less(left, 0), 0), (maximum(left, 0), left)):
        x = replace_part(x, part, known) if isinstance(part, Formula) else x
    return _take_pieces(x, one)


def _take_pieces(x: Index, one: _Shared) -> Index:
    """An expression with the piece of work in place of each sum that names it by trip and CTA."""
    if not isinstance(x, Formula) or names_of(x).isdisjoint([one.trip.name, one.cta.name]):
        return x
    if x.symbol in COMPARING:  # sides are compared by their difference
        merged = _join_terms(linear(sub(*x.args)), one)
        return rebuild(x, [total((s * c, f) for f, c in merged.items() if s * c > 0) for s in (1, -1)])
    merged = linear(x)
    if [*merged] != [x]:
        return total((c, f) for f, c in _join_terms(merged, one).items())
    return rebuild(x, [_take_pieces(part, one) for part in x.args])


def _join_terms(merged: Mapping[Any, int], one: _Shared) -> dict[Any, int]:
    """The terms of a sum, of which trip and CTA are one where they name a piece of work."""
    joined: dict[Any, int] = {}
    for f, c in merged.items():
        part = _take_pieces(f, one)
        joined[part] = joined.get(part, 0) + c
    ((stride, each),) = linear(mul(one.trip, one.ctas)).items()
    many = joined.get(one.cta, 0)
    if many and joined.get(stride, 0) == many * each:
        joined = {f: c for f, c in joined.items() if f not in (stride, one.cta)}
        joined[one.piece] = many
    return {f: c for f, c in joined.items() if c}
