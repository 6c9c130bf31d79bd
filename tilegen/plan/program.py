"""Several kernels that one launch runs one after another, as plain frozen data."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tilegen.index import Index, Var, substitute
from tilegen.plan.kernel import Param, Plan, arrays
from tilegen.plan.memories import Memory
from tilegen.plan.trust import Trust, join_trust
from tilegen.scopes import COUNT_AXES

WORKSPACE_ALIGN_BYTES = 256  # of each workspace in the bytes that a launch is given, as cudaMalloc aligns


@dataclass(frozen=True)
class PassPlan:
    """A kernel of a program, and the condition over the program's parameters under which it is launched."""

    name: str
    plan: Plan
    when: Index = True


@dataclass(frozen=True)
class CountedCtas:
    """A parameter of later kernels, such as rows_bx_count: how many CTAs the pass ``owner`` has along an axis (0: x).

    Its launch alone knows that.
    """

    param: Param
    owner: str
    axis: int

    @property
    def inside(self) -> str:
        """The parameter of the owner's own plan that says the same."""
        return COUNT_AXES[self.axis]


@dataclass(frozen=True)
class ProgramPlan:
    """Kernels in their order, and what a launch of all of them takes.

    ``arrays`` and ``workspaces`` are as all kernels together ask for them; the launcher brings workspaces.
    ``params``: those that the caller gives. Kernels may have more of them: ``counts``.
    """

    name: str
    arch: str
    passes: tuple[PassPlan, ...]
    params: tuple[Param, ...]
    arrays: tuple[Memory, ...]
    workspaces: tuple[Memory, ...]
    counts: tuple[CountedCtas, ...] = ()

    @property
    def plans(self) -> tuple[Plan, ...]:
        return tuple(one.plan for one in self.passes)

    @property
    def trust(self) -> Trust:
        """What all kernels together rest on."""
        return join_trust({one.plan.name: one.plan.trust for one in self.passes})


def join_memories(
    passes: Sequence[PassPlan], names: Sequence[str], counts: Sequence[CountedCtas], partial: Collection[str] = ()
) -> tuple[Memory, ...]:  # fmt: skip
    """The global memories of those names that any kernel touches, each as all kernels ask for it.

    An array is "out" where the first kernel that touches it only writes it, "in" where none writes it. One of
    ``partial``, of which elements may be left unwritten, is "out" only where that kernel always runs and none reads it.
    Extents that are a count of CTAs are so by the name that the program has for it.
    """
    uses: dict[str, list[tuple[PassPlan, Memory]]] = {name: [] for name in names}
    for one in passes:
        known = {c.inside: c.param.var for c in counts if c.owner == one.name and c.param.var is not None}
        for memory in arrays(one.plan):
            uses[memory.name].append((one, _rename(memory, known)))
    return tuple(_join(found, name in partial) for name, found in uses.items() if found)


def _rename(memory: Memory, known: Mapping[str, Var]) -> Memory:
    extents = tuple(substitute(n, known) for n in memory.shape)
    note = memory.note
    for inside, var in known.items():
        note = re.sub(rf"\b{inside}\b", var.name, note)
    return replace(memory, shape=extents, pitches=tuple(substitute(n, known) for n in memory.pitches), note=note)


def _join(uses: Sequence[tuple[PassPlan, Memory]], is_partial: bool) -> Memory:
    (first, memory), accesses = uses[0], {m.access for _, m in uses}
    is_surely_written = not is_partial or (first.when is True and accesses == {"out"})
    is_out = memory.access == "out" and is_surely_written
    access = "in" if accesses == {"in"} else "out" if is_out else "inout"
    note = next((m.note for _, m in uses if m.note), "")
    return replace(memory, access=access, align_bytes=max(m.align_bytes for _, m in uses), note=note)
