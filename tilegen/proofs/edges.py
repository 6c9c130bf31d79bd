"""Sizes at which the edge of an array lies at every place within a vector: one for each residue of a parameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, lcm

from tilegen.index import Formula, Index, Var, conjuncts, multiple, variables
from tilegen.index.bounds import linear
from tilegen.proofs.questions import Question
from tilegen.spec.data import Spec
from tilegen.spec.outline import is_possible

MOST_ELEMENTS = 16  # of an access: one of 16 bytes has no more


def edge_cases(spec: Spec, asked: Sequence[Question], default: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Small values of each parameter that conditions compare with the places of vectors, one for each residue.

    Vectors lie ``n`` elements apart, so the edge is at the same place in one after every n; what is right at each of n
    places in a row is right at all. The other parameters have their defaults.
    """
    for p in spec.params:
        if p.var is None or p.launched is not None:
            continue
        period = find_period(p.var, [c for q in asked for c in (*q.guards, q.x)])
        first = 2 * period * p.var.step
        for value in range(first, first + period * p.var.step, p.var.step) if period > 1 else ():
            case = {**default, p.name: value}
            if value < p.var.bound and is_possible(spec, case):
                yield case


def find_period(v: Var, conditions: Sequence[Index]) -> int:
    """After how many steps of a parameter its comparisons with the places of vectors are as they were.

    >>> n, tx = Var("n", 1000), Var("tx", 32)
    >>> find_period(n, [tx * 8 + 7 < n, tx < n]), find_period(n, [tx * 64 < n])
    (8, 1)
    """
    found = 1
    for condition in dict.fromkeys(conditions):
        for part in conjuncts(condition):
            apart = _steps_apart(v, part)
            if apart <= MOST_ELEMENTS:  # what is coarser are tiles, and CTAs are taken for those
                found = lcm(found, apart)
    return found


def _steps_apart(v: Var, condition: Index) -> int:
    """How many steps of a parameter the places are apart that a condition compares with a multiple of it."""
    if not isinstance(condition, Formula) or condition.symbol != "<":
        return 1
    merged: dict[object, int] = {}
    for side, sign in zip(condition.args, (1, -1), strict=True):
        for factor, c in linear(side, sign).items():
            merged[factor] = merged.get(factor, 0) + c
    own = sum(c for f, c in merged.items() if isinstance(f, Var) and f.name == v.name)
    others = {f: c for f, c in merged.items() if c and isinstance(f, Var | Formula) and f != v}
    if not own or any(v.name in {u.name for u in variables(f)} for f in others):
        return 1
    apart = gcd(*(c * multiple(f) for f, c in others.items())) if others else 1
    return apart // gcd(apart, own * v.step)
