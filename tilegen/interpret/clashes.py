"""Accesses that nothing orders: who made the earlier one, and what would order the two."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tilegen.interpret.clocks import Clocks
from tilegen.interpret.tensor_clocks import MOVES
from tilegen.interpret.threads import Array, Crew
from tilegen.scopes import SCOPES

NOBODY, TOGETHER = -1, -3  # lanes: TOGETHER, one that no lane equals, not even itself later
AGENTS = {  # what each kind of agent is called
    "slots": "TMA", "stores": "TMA", "products": "wgmma", "cores": "tcgen05", "reads": "tcgen05.ld",
    "writes": "tcgen05.st",
}  # fmt: skip
REACHES = (*(name for name in SCOPES if name != "thread"), "")  # scopes that syncs have; "": none reaches that far


@dataclass(frozen=True)
class Clash:
    """An access that nothing orders after an earlier one; ``entry`` is its index in the access's granules."""

    entry: int
    other: str  # in words: who touched it before
    other_op: int
    needs: str  # one of REACHES
    in_flight: bool = False  # the other is an asynchronous copy that has not been waited for
    agent: int = NOBODY  # which agent makes it, if one does that is waited for by statements of its own
    tick: int = 0  # of the agent
    is_unheard: bool = False  # it was waited for, but a fence of tensor memory is missing


def clash_with_agent(clocks: Clocks, found: Clash, warp: int) -> Clash:
    """What an agent does, ``found.other`` in a word, of which a warp does not know."""
    crew = clocks.crew
    kind, agent = crew.kind_of(found.agent), f"warp {warp % crew.warps}"
    name = "cp.async" if found.agent in clocks.copiers else AGENTS[kind]
    verb = "writes" if found.other == "fills" and name.startswith("tcgen05") else found.other
    before, seat = clocks.before, crew.seat_of[found.agent]
    if before is not None and before[warp, seat] >= found.tick:
        other = f"{name} {verb}: {agent} has waited for that, but no tcgen05.fence::after_thread_sync follows"
        return replace(found, other=other, needs="", agent=NOBODY, is_unheard=True)
    if clocks.tensor is not None and kind in MOVES:
        return _clash_with_move(clocks, replace(found, other=f"{name} of warp %d {verb}"), kind, warp)
    other = f"{name} {verb}, as far as {agent} knows: it has not waited for that"
    return replace(found, other=other, needs="", in_flight=True)


def say_if_unheard(clocks: Clocks, found: Clash, writer: tuple[int, int], warp: int) -> Clash:
    """What a warp did in an epoch: a fence is missing where another knows of it, and yet its products are not ordered.

    ``writer``: that warp, and the epoch.
    """
    if clocks.before is None or clocks.before[warp, clocks.crew.seat_of[writer[0]]] < writer[1] + (writer[0] == warp):
        return found
    heard = f"warp {warp % clocks.crew.warps} has heard of that, but no tcgen05.fence::after_thread_sync follows"
    return replace(found, other=f"{found.other}: {heard}", needs="", is_unheard=True)


def _clash_with_move(clocks: Clocks, found: Clash, kind: str, warp: int) -> Clash:
    """A load or a store of tensor memory by a warp, of which another warp, or a thread of it, does not know."""
    crew = clocks.crew
    own = (found.agent - crew.all_warps) % crew.agents - crew.kinds.first(kind)
    own += (found.agent - crew.all_warps) // crew.agents * crew.warps
    assert clocks.tensor is not None
    lacks = clocks.tensor.missing(kind, own, found.tick)
    wait = f"tcgen05.wait::{'ld' if kind == 'reads' else 'st'}"
    needs = REACHES[int(find_reach(crew, np.array([own]), np.array([warp]))[0])]
    other = found.other % (own % crew.warps)
    if lacks == "wait":
        is_role = crew.role_of[own % crew.warps] == crew.role_of[warp % crew.warps]
        needs = needs if is_role and own != warp else ""
        return replace(found, other=f"{other}: no {wait} stands between", needs=needs, in_flight=True, agent=NOBODY)
    if lacks == "fence":
        other = f"{other}: no tcgen05.fence::before_thread_sync follows its {wait}"
        return replace(found, other=other, needs="", agent=NOBODY, is_unheard=True)
    return replace(found, other=other, needs=needs, agent=NOBODY)


def find_reach(crew: Crew, a: Array, b: Array) -> Array:
    """Which of REACHES is the narrowest that holds both warps."""
    warps = crew.warps
    same_cta, reach = a // warps == b // warps, np.full(len(a), REACHES.index(""))
    reach[crew.cluster_of[a] == crew.cluster_of[b]] = REACHES.index("cluster")
    reach[same_cta] = REACHES.index("cta")
    together = same_cta & (crew.role_of[a % warps] == crew.role_of[b % warps])
    if len(crew.roles) > 1:
        reach[together] = REACHES.index("role")
    if crew.threads % 128 == 0 and crew.threads > 128:  # a CTA that is one warpgroup is called a CTA
        reach[together & (a % warps // 4 == b % warps // 4)] = REACHES.index("warpgroup")
    reach[a == b] = REACHES.index("warp")
    reach[a >= crew.all_warps] = len(REACHES) - 1  # an agent: no sync alone orders it
    return reach
