"""Sizes that put the edge of an array at every place within a vector, one with a whole tile before the edge, and those
at which a condition on tiles turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Formula, Index, Var, conjuncts, evaluate, multiple, substitute, total, variables
from tilegen.index.bounds import highest, linear
from tilegen.proofs.observed import Observed
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.spec.data import Spec
from tilegen.spec.outline import is_possible

MOST_ELEMENTS = 16  # of an access: one of 16 bytes has no more
_MOST_VALUES = 1 << 14  # of a parameter that are looked at
_AXES = {*CTA_AXES, *CLUSTER_AXES}


@dataclass(frozen=True)
class Edge:
    """What a condition compares with places that lie ``apart`` elements from one another: the ``end`` of an array.

    ``reach``: the farthest place of a CTA from its first. ``turn``: how far behind such a place the end lies when the
    condition has just turned.
    """

    end: Index
    apart: int
    reach: int
    turn: int

    @property
    def is_of_vectors(self) -> bool:
        return self.apart <= MOST_ELEMENTS


def edge_cases(spec: Spec, asked: Sequence[Observed], default: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """For each parameter small values that put an array's end at each place within a vector, one with which a CTA's
    whole tile lies before the end, and those at which a condition on whole tiles turns; the other parameters have their
    defaults.

    The parameter itself is seen as such an end too: the plan's own may be wrong. For each place the least value is
    taken, and the least with two vectors before the end. Places that no value with these others reaches are not tried.
    """
    for p in spec.params:
        if p.var is None or p.launched is not None:
            continue
        others = {name: value for name, value in default.items() if name != p.name}
        conditions = dict.fromkeys(substitute(c, others) for q in asked for c in (*q.guards, q.x))
        found_edges = [e for c in conditions for e in find_edges(p.var, c)]
        edges = dict.fromkeys([*found_edges, *(replace(e, end=p.var) for e in found_edges if e.is_of_vectors)])
        steps = range(max(p.var.least, p.var.step), p.var.bound, p.var.step)[:_MOST_VALUES]
        found = [n for edge in edges for n in _telling_values(p.var, edge, np.array(steps, np.int64))]
        cases = ({**default, p.name: value} for value in dict.fromkeys(found))
        yield from (case for case in cases if is_possible(spec, case))


def _telling_values(v: Var, edge: Edge, values: NDArray[np.int64]) -> Iterator[int]:
    """Of a parameter's values, ascending, some for each place of the end, and of vectors one for a whole tile.

    None where the end is at one and the same place always.
    """
    ends = np.broadcast_to(evaluate(edge.end, {v.name: values}), values.shape)
    lies, told = ends % edge.apart, list(range(edge.apart))
    if not edge.is_of_vectors:  # those nearest to a turn, on either side
        lies = (ends - edge.turn) % edge.apart
        told = sorted({lies.min(initial=edge.apart), lies.max(initial=0)})
    places = [(ends > 0) & (lies == k) for k in told]
    if sum(bool(own.any()) for own in places) < 2:
        return
    for own in places:
        far = own & (ends >= 2 * edge.apart)
        yield from map(int, {*values[own][:1], *values[far][:1]})
    if edge.is_of_vectors:
        yield from map(int, values[ends > edge.reach + edge.apart][:1])


def find_edges(v: Var, condition: Index) -> Iterator[Edge]:
    """The ends, functions of a parameter, with which a condition compares the places of vectors, or of tiles.

    >>> n, tx = Var("n", 1000), Var("tx", 32)
    >>> [(str(e.end), e.apart, e.reach) for e in find_edges(n, tx * 8 + 7 < n * 3)]
    [('n * 3', 8, 255)]
    >>> [(e.apart, e.turn) for e in find_edges(n, tx * 64 + 62 < n)]  # of 63 elements of a tile all are inside
    [(64, 63)]
    >>> list(find_edges(n, tx < n))  # elements
    []
    """
    for part in conjuncts(condition):
        if not isinstance(part, Formula) or part.symbol != "<":
            continue
        merged: dict[object, int] = {}
        for side, sign in zip(part.args, (-1, 1), strict=True):
            for factor, c in linear(side, sign).items():
                merged[factor] = merged.get(factor, 0) + c
        own: dict[Index, int] = {}
        places: dict[Index, int] = {}
        for f, c in merged.items():
            if c and isinstance(f, Var | Formula):
                (own if v.name in {u.name for u in variables(f)} else places)[f] = c
        if not own or not places or any({u.name for u in variables(f)} - {v.name} for f in own):
            continue
        sign = 1 if sum(c > 0 for c in own.values()) else -1
        apart = gcd(*(c * multiple(f) for f, c in places.items()))
        if apart > 1:
            inside = total((abs(c), f) for f, c in places.items() if not {u.name for u in variables(f)} & _AXES)
            offset = merged.get(1, 0)
            turn = offset if sign < 0 else 1 - offset
            yield Edge(total((sign * c, f) for f, c in own.items()), apart, highest((inside, 1)) + abs(offset), turn)
