"""What a plan touches, before it runs: how wide, and whether it reads or writes."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.plan import Plan, Touch, begin, walk

CHUNK_BYTES = 16  # TMA moves whole chunks of shared memory


@dataclass(frozen=True)
class Use:
    """How a plan touches a memory: the fewest elements in one access, and whether it reads and writes."""

    least_elems: int = 1
    is_read: bool = False
    is_written: bool = False


def survey(plan: Plan) -> dict[str, Use]:
    """How each memory is touched, through the formals of Blocks.

    An access never has fewer bytes than its memory's least, so that is the grain of the races.
    """
    uses: dict[str, Use] = {}
    for role in plan.roles:
        for visit in walk(role.steps, begin(role.threads)):
            for t in visit.effects.touches:
                spot = visit.position.spots.get(t.ref.memory.name)
                name, elems = spot.root.name if spot else t.ref.memory.name, _grain_elems(t)
                old = uses.get(name, Use(elems))
                uses[name] = Use(min(old.least_elems, elems), old.is_read or t.reads, old.is_written or t.writes)
    return uses


def _grain_elems(touch: Touch) -> int:
    """The elements that an access never has fewer of; of a box in an array, which is cut at its edges, one."""
    if touch.map is None:
        return touch.elems
    memory = touch.ref.memory
    return 1 if memory.space == "global" else max(1, CHUNK_BYTES // memory.elem_bytes)
