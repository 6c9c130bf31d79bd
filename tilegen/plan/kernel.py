"""Plan: a whole kernel as plain frozen data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tilegen.decisions import Choice, Operation
from tilegen.index import Index, Var, substitute
from tilegen.plan.effects import effects, flatten
from tilegen.plan.memories import Barrier, Memory, TensorMap
from tilegen.plan.products import TensorMma
from tilegen.plan.steps import Step
from tilegen.plan.trust import Trust
from tilegen.scopes import SCOPES


@dataclass(frozen=True)
class Role:
    """Consecutive warps that run one list of steps; ``registers`` of a thread from its start on, 0: the launch's."""

    name: str
    threads: int
    steps: tuple[Step, ...]
    registers: int = 0


@dataclass(frozen=True)
class Param:
    """A runtime parameter of the kernel: an int (``var``), passed by value after the pointers.

    ``launched``: of an extent of the grid that is known at the launch alone, its value over params and RESIDENT_CTAS.
    It is no argument: threads read it of the launch.
    """

    name: str
    dtype: str
    default: int | float
    var: Var | None = None
    launched: Index | None = None


RESIDENT_CTAS = "resident"  # the CTAs that a GPU holds at once, a multiple of the cluster
MOST_RESIDENT = 65535  # as many as a grid has along y and z; no GPU holds more


def arguments(params: Iterable[Param]) -> tuple[Param, ...]:
    """The parameters that a launch passes."""
    return tuple(p for p in params if p.launched is None)


def default_values(params: Iterable[Param]) -> dict[str, int]:
    """The defaults of the parameters that an index may name: a float is in none, and may be infinite.

    >>> default_values([Param("M", "int32", 8, Var("M", 9)), Param("scale", "float32", float("inf"))])
    {'M': 8}
    """
    return {p.name: int(p.default) for p in params if p.var is not None}


@dataclass(frozen=True)
class Plan:
    """The whole kernel. ``builtins`` names the variables that exist at its start: tx, laneid, ..., bx, by, bz."""

    name: str
    arch: str
    grid: tuple[Index, Index, Index]
    memories: tuple[Memory, ...]
    roles: tuple[Role, ...]
    params: tuple[Param, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    operations: tuple[Operation, ...] = ()
    notes: tuple[str, ...] = field(default=())
    choices: tuple[Choice, ...] = ()  # for the kernel as a whole, such as the layouts of shared buffers
    barriers: tuple[Barrier, ...] = ()
    ctas_per_sm: int = 0  # that must fit at once, which caps registers; 0: as many as do
    overlaps: bool = False  # launched while the kernel before may still run
    trust: Trust = field(default=Trust())
    tensor_columns: int = 0  # of tensor memory, allocated once for all of its memories; 0: none
    cta_group: int = 1  # of all instructions that touch tensor memory; 2: CTAs 2 i and 2 i + 1 of a cluster are a pair
    stamps: int = 0  # for how many each thread that stamps has place in the buffer; 0: nobody stamps

    @property
    def threads(self) -> int:
        return sum(r.threads for r in self.roles)

    @property
    def launched_grid(self) -> tuple[Index, Index, Index]:
        """The grid over params and RESIDENT_CTAS."""
        counts = {p.name: p.launched for p in self.params if p.launched is not None}
        x, y, z = (substitute(n, counts) for n in self.grid)
        return x, y, z


def arrays(plan: Plan) -> tuple[Memory, ...]:
    """The kernel's global arrays, in order. A view is another form of the array whose name it has, after it."""
    found: dict[str, Memory] = {}
    for memory in plan.memories:
        if memory.traits.is_passed:
            found.setdefault(memory.name, memory)
    return tuple(found.values())


def tensor_maps(plan: Plan) -> tuple[TensorMap, ...]:
    """The descriptors that the plan's steps use, in order of first use."""
    return tuple(dict.fromkeys(m for step in all_steps(plan) for m in effects(step).maps))


def all_steps(plan: Plan) -> Iterator[Step]:
    """Every step of every role, depth first."""
    for role in plan.roles:
        yield from flatten(role.steps)


def find_allocator(plan: Plan) -> int:
    """The warp of the CTA that takes tensor memory and frees it.

    The first of the first role that multiplies there, else of the first that touches it, else the first of all.
    """
    for holds in (_multiplies, _touches):
        first = 0
        for role in plan.roles:
            if holds(role):
                return first // SCOPES["warp"].threads
            first += role.threads
    return 0


def _multiplies(role: Role) -> bool:
    return any(isinstance(step, TensorMma) for step in flatten(role.steps))


def _touches(role: Role) -> bool:
    return any(t.ref.memory.traits.has_cells for step in flatten(role.steps) for t in effects(step).touches)


@dataclass(frozen=True)
class Launch:
    """Numbers that a plan's text leaves open: threads, grid, and the values of the runtime parameters."""

    threads: int
    grid: tuple[int, int, int]
    params: tuple[tuple[str, int], ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    interior: tuple[int, int, int] = (0, 0, 0)  # a CTA with work away from the edges, where there is one
