"""Other CTAs of a cluster that threads act on: peers by rank, and the two of a pair."""

from __future__ import annotations

from math import prod

import numpy as np

from tilegen.index import Index
from tilegen.interpret.address import value_of
from tilegen.interpret.fault import MALFORMED, OUT_OF_BOUNDS
from tilegen.interpret.reading import read_text
from tilegen.interpret.site import Site
from tilegen.interpret.threads import Array


def peer_of(rank: Index, site: Site) -> Array:
    """The simulated CTA of a rank in each thread's cluster."""
    value, crew = site.group.spread(value_of(read_text(rank), site)), site.group.crew
    bad = (value < 0) | (value >= np.prod(crew.cluster))
    if bad.any():
        row = int(bad.argmax())
        site.fail(OUT_OF_BOUNDS, f"no CTA of a cluster of {crew.cluster} has rank {int(value[row])}", row)
    return crew.peer(site.group.cta, value)


def even_of(rank: Index, site: Site) -> Array:
    """The simulated CTA of a rank, which must be the even one of the pair that each thread's CTA is of.

    PTX ISA, cp.async.bulk.tensor: with ``.cta_group::2`` the mbarrier may be in the other CTA of the pair, no further.
    """
    cta, group = peer_of(rank, site), site.group
    own, named = group.crew.rank_of[group.cta], group.crew.rank_of[cta]
    bad = named != own - own % 2
    if bad.any():
        row = int(np.argmax(bad))
        what = f"CTA {int(own[row])} of a cluster reports its load to that of rank {int(named[row])}"
        site.fail(MALFORMED, f"{what}: to the even one of its pair alone it can", row)
    return cta


def find_parts(ctas: int, name: str, site: Site) -> tuple[Site, ...]:
    """Where each CTA's part of what threads start lies: their own CTA's, and that of the odd CTA of its pair.

    PTX ISA, tcgen05 "CTA Pair": two CTAs of a cluster whose ranks differ in the last bit.
    """
    group, crew, whole = site.group, site.group.crew, site.machine.plan.cta_group
    if ctas != whole:
        site.fail(MALFORMED, f"{name} is of {ctas} CTAs, in a kernel whose instructions are of {whole}")
    if ctas == 1:
        return (site,)
    refuse_odd(name, site)
    return site, site.narrow(group.reaching(crew.peer(group.cta, crew.rank_of[group.cta] + 1)))


def refuse_odd(name: str, site: Site) -> None:
    """Raise where a thread that is not of the even CTA of a pair starts what a pair does together."""
    group, crew = site.group, site.group.crew
    size, rank = prod(crew.cluster), crew.rank_of[group.cta]
    if size % 2:
        site.fail(MALFORMED, f"{name} is of pairs of CTAs, and a cluster has {size}", 0)
    if (rank % 2).any():
        row = int(np.argmax(rank % 2))
        site.fail(MALFORMED, f"{name} is started by the even CTA of a pair, not in that of rank {int(rank[row])}", row)
