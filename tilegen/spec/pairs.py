"""Pairs of CTAs, 2 i and 2 i + 1 along cbx: which of the two is meant, and who of a cluster runs a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilegen.index import Index, Var, add, bound, conjuncts, div, equal, mod, mul, substitute, variables
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.spec.data import Call, Spec

PAIR = 2
Cluster = tuple[int, int, int]
_ALONG = CLUSTER_AXES[0]


def is_of_pair(spec: Spec, call: Call) -> bool:
    """Is a call a product that a pair of CTAs makes, started in the even one?"""
    return spec.cta_group == PAIR and call.op == "mma" and call.regions["c"].buffer.traits.has_cells


def is_shared(spec: Spec, barrier: str) -> bool:
    """Do the mbarriers of this name in the even CTA serve both of a pair?"""
    return any(b.pair for b in spec.barriers if b.name == barrier)


def is_even(cluster: Cluster) -> Index:
    """The condition that a CTA is the even one of its pair.

    >>> print(is_even((4, 1, 1)))
    (cbx & 1) == 0
    """
    return equal(mod(Var(_ALONG, cluster[0]), PAIR), 0)


def find_rank(cluster: Cluster, places: Mapping[str, Index]) -> Index:
    """The rank of a CTA of the cluster: at ``places`` along these axes, along the others beside the own one.

    Ranks count cbx first.

    >>> print(find_rank((2, 4, 1), {"cby": 0}), "and", find_rank((2, 4, 1), {"cbx": 1}))
    cbx and cby * 2 + 1
    """
    rank: Index = 0
    step = 1
    for name, count in zip(CLUSTER_AXES, cluster, strict=True):
        own: Index = Var(name, count) if count > 1 else 0
        rank = add(rank, mul(places.get(name, own), step))
        step *= count
    return rank


def find_even_rank(cluster: Cluster) -> Index:
    """The rank in its cluster of the even CTA of the own pair.

    >>> print(find_even_rank((2, 1, 1)), "and", find_even_rank((4, 2, 1)))
    0 and cby * 4 + (cbx >> 1) * 2
    """
    return find_rank(cluster, {_ALONG: mul(div(Var(_ALONG, cluster[0]), PAIR), PAIR)})


def runs_in_odd(conditions: Sequence[Index], cluster: Cluster) -> bool:
    """May the odd CTA of a pair run what stands under these conditions, as far as they are on cbx and bx?"""
    return count_places(conditions, 0, cluster, range(1, cluster[0], PAIR)) > 0


def count_places(conditions: Sequence[Index], axis: int, cluster: Cluster, places: range) -> int:
    """At how many of these places along an axis of a cluster conditions may hold, as far as the place decides them.

    >>> count_places([equal(mod(Var("bx", 8), 2), 0)], 0, (4, 1, 1), range(4))
    2
    """
    parts = [one for condition in conditions for one in conjuncts(condition)]
    return sum(not any(at_place(one, axis, place, cluster) is False for one in parts) for place in places)


def at_place(x: Index, axis: int, place: Index, cluster: Cluster) -> Index:
    """An expression in the CTAs that lie at this place of their cluster along an axis."""
    values: dict[str, Index] = {CLUSTER_AXES[axis]: place}
    for v in variables(x):
        if v.name == CTA_AXES[axis]:
            clusters = Var(f"{v.name}_of_cluster", -(-bound(v) // cluster[axis]))
            values[v.name] = add(mul(clusters, cluster[axis]), place)
    return substitute(x, values)
