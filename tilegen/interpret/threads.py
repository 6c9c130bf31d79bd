"""Who executes a step: every thread of every simulated CTA lies on one NumPy axis."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from tilegen.index import evaluate
from tilegen.kept import keep
from tilegen.plan import Role
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, thread_variables

Array = np.ndarray[Any, Any]
Cta = tuple[int, int, int]


@dataclass(frozen=True)
class Agents:
    """How many agents of each kind a CTA has, which work asynchronously; their numbers follow in this order.

    ``slots``: one for each mbarrier, which brings what is reported there. ``stores``: of TMA, one for each warp.
    ``products``: of wgmma, one for each warpgroup. ``cores``: of tcgen05.mma, one for each warp. ``reads``, ``writes``:
    of tensor memory by tcgen05.ld and .st, one for each warp.
    """

    slots: int = 0
    stores: int = 0
    products: int = 0
    cores: int = 0
    reads: int = 0
    writes: int = 0

    @cached_property
    def total(self) -> int:
        return sum(astuple(self))

    @cached_property
    def has_tensor_memory(self) -> bool:
        return self.cores + self.reads + self.writes > 0

    def first(self, kind: str) -> int:
        """The number of the first agent of a kind.

        >>> Agents(slots=4, stores=2, cores=2).first("cores")
        6
        """
        names = [f.name for f in fields(self)]
        return sum(astuple(self)[: names.index(kind)])

    def kind_of(self, number: int) -> str:
        """What kind of agent has a number.

        >>> Agents(slots=4, stores=2).kind_of(4)
        'stores'
        """
        names = [f.name for f in fields(self)]
        return next(name for name in names[::-1] if self.first(name) <= number)


@dataclass(frozen=True)
class Crew:
    """The simulated CTAs and how their warps are numbered.

    A warp's number counts over all simulated CTAs; its seat counts over the warps of its cluster, and is the index of
    its entry in a vector clock. ``cluster_of`` a warp tells clusters apart: no clock reaches from one to another.
    After the warps come the agents of each CTA, so many of each kind: they have numbers and seats too.
    """

    ctas: tuple[Cta, ...]
    threads: int
    cluster: Cta
    kinds: Agents = Agents()
    roles: tuple[int, ...] = ()  # threads of each, one after the other; () for a single one
    overlaps: bool = False  # the kernels before may still run
    cases: tuple[int, ...] = ()  # of each CTA the number of its sizes, where CTAs run with different ones

    @cached_property
    def agents(self) -> int:
        """Agents of one CTA."""
        return self.kinds.total

    @cached_property
    def warps(self) -> int:
        """Warps of one CTA."""
        return -(-self.threads // 32)

    @cached_property
    def all_warps(self) -> int:
        """Warps of all simulated CTAs."""
        return len(self.ctas) * self.warps

    @cached_property
    def seats(self) -> int:
        return (self.warps + self.agents) * int(np.prod(self.cluster))

    @cached_property
    def seats_of_warps(self) -> int:
        """The first seats, those of warps."""
        return self.warps * int(np.prod(self.cluster))

    @cached_property
    def facts(self) -> int:
        """What a clock knows besides epochs: of each mbarrier of the cluster the phases that are complete, of each warp
        the waits for mbarriers that it has passed, in clusters the epoch that it has come to, and with ``overlaps``
        whether the kernels before have ended. They have the columns after the seats, in that order.
        """
        size = int(np.prod(self.cluster))
        each = self.kinds.slots * size + self.seats_of_warps * (1 if size == 1 else 2)
        return (each if self.kinds.slots else 0) + self.overlaps

    def phase_column(self, cta: Array, number: Any) -> Array:
        """The column of what is known of an mbarrier, by its number in its CTA."""
        first = self.seats + self.rank_of[cta] * self.kinds.slots
        result: Array = first + number
        return result

    @cached_property
    def first_wait(self) -> int:
        """The column of the waits that the warp in seat 0 has passed."""
        return self.seats + self.kinds.slots * int(np.prod(self.cluster))

    @cached_property
    def epochs(self) -> tuple[int, ...]:
        """The first columns of the warps' epochs: up to which their accesses are ordered, and up to which they have
        come, as far as is known. The second are columns of their own in clusters, where one CTA may hear of another
        that it has come further, and no access of it is ordered by that.
        """
        is_apart = self.kinds.slots > 0 and int(np.prod(self.cluster)) > 1
        return (0, self.first_wait + self.seats_of_warps) if is_apart else (0,)

    @cached_property
    def progress(self) -> Array | slice:
        """The columns that say how far each warp and each agent has come, as far as is known."""
        if len(self.epochs) == 1:
            return slice(self.seats)
        result: Array = np.r_[self.seats_of_warps : self.seats, self.epochs[-1] : self.epochs[-1] + self.seats_of_warps]
        return result

    @cached_property
    def rank_of(self) -> Array:
        """The rank of each simulated CTA in its cluster; ranks count cbx first, then cby."""
        x, y, z = (np.array([cta[d] % self.cluster[d] for cta in self.ctas]) for d in range(3))
        result: Array = x + self.cluster[0] * (y + self.cluster[1] * z)
        return result

    @cached_property
    def seat_of(self) -> Array:
        rank = self.rank_of[:, None]
        warps, agents = rank * self.warps + np.arange(self.warps), rank * self.agents + np.arange(self.agents)
        return np.concatenate([warps.ravel(), self.seats_of_warps + agents.ravel()])

    @cached_property
    def cluster_of(self) -> Array:
        each = (np.repeat(self.cluster_of_cta, n) for n in (self.warps, self.agents))
        return np.concatenate(list(each))

    def agent(self, cta: Any, number: Any) -> Any:
        """The number among warps and agents of agent ``number`` of a simulated CTA."""
        return self.all_warps + cta * self.agents + number

    def agent_of(self, kind: str, warp: Array) -> Array:
        """The agent of a kind of which each warp has one."""
        result: Array = self.agent(warp // self.warps, self.kinds.first(kind) + warp % self.warps)
        return result

    def kind_of(self, agent: int) -> str:
        """What kind of agent one is, by its number among warps and agents."""
        return self.kinds.kind_of((agent - self.all_warps) % self.agents)

    @cached_property
    def cta_of(self) -> Array:
        """The simulated CTA, by its number, of each warp and each agent."""
        return np.concatenate([np.repeat(np.arange(len(self.ctas)), n) for n in (self.warps, self.agents)])

    @cached_property
    def cluster_of_cta(self) -> Array:
        cases = self.case_of.tolist()
        names = [(case, *(c // n for c, n in zip(cta, self.cluster, strict=True)))
                 for case, cta in zip(cases, self.ctas, strict=True)]  # fmt: skip
        numbers = {name: i for i, name in enumerate(dict.fromkeys(names))}
        return np.array([numbers[name] for name in names])

    @cached_property
    def case_of(self) -> Array:
        """The number of the sizes that each CTA runs with."""
        return np.array(self.cases or (0,) * len(self.ctas))

    def peer(self, cta: Array, rank: Array) -> Array:
        """The simulated CTA of a rank in the cluster of each."""
        size = int(np.prod(self.cluster))
        table = np.zeros((int(self.cluster_of_cta.max()) + 1, size), np.int64)
        table[self.cluster_of_cta, self.rank_of] = np.arange(len(self.ctas))
        result: Array = table[self.cluster_of_cta[cta], rank]
        return result

    @cached_property
    def role_of(self) -> Array:
        """The role of each warp of a CTA, by its number."""
        ends = np.cumsum(self.roles or (self.threads,))
        return np.searchsorted(ends, np.arange(self.warps) * 32, side="right")

    @cached_property
    def warp_in_seat(self) -> Array:
        """The warp, or agent, in each seat of each cluster."""
        table = np.zeros((int(self.cluster_of.max()) + 1, self.seats), np.int64)
        table[self.cluster_of, self.seat_of] = np.arange(len(self.seat_of))
        return table

    @cached_property
    def lanes_of(self) -> Array:
        """Threads of each warp: 32, but for the last of a CTA whose size is no multiple of 32."""
        lanes = np.minimum(32, self.threads - 32 * np.arange(self.warps))
        return np.tile(lanes, len(self.ctas))


@dataclass(frozen=True)
class Group:
    """The threads that execute a step: ``at`` are their positions on the role's axis."""

    crew: Crew
    at: Array | slice
    thread: Array = field(repr=False)  # counted over all simulated CTAs
    cta: Array = field(repr=False)  # which simulated CTA
    warp: Array = field(repr=False)  # counted over all simulated CTAs
    lane: Array = field(repr=False)

    def __len__(self) -> int:
        return len(self.thread)

    def where(self, mask: Any) -> Group:
        """The threads for which ``mask`` (already picked for this group) holds."""
        if np.all(mask):
            return self
        keep = np.flatnonzero(np.broadcast_to(mask, self.thread.shape))
        at = keep if isinstance(self.at, slice) else self.at[keep]
        return Group(self.crew, at, self.thread[keep], self.cta[keep], self.warp[keep], self.lane[keep])

    def reaching(self, cta: Array) -> Group:
        """The same threads where they act on the memory of another CTA each."""
        return Group(self.crew, self.at, self.thread, cta, self.warp, self.lane)

    @keep
    def times(self, count: int) -> Group:
        """The threads, so often one behind the other: one group for all that ask, as it finds out about itself."""
        fields = (self.thread, self.cta, self.warp, self.lane)
        return Group(self.crew, slice(None), *(np.tile(x, count) for x in fields))

    @cached_property
    def is_everyone(self) -> bool:
        """Are all threads of all simulated CTAs here, in order?"""
        return len(self) == len(self.crew.ctas) * self.crew.threads

    @cached_property
    def by_lane(self) -> Array | slice:
        """The order in which the lanes of each warp follow one another."""
        numbers = self.warp * 32 + self.lane
        return slice(None) if (numbers[1:] > numbers[:-1]).all() else np.argsort(numbers, kind="stable")

    @cached_property
    def box(self) -> tuple[slice, slice] | None:
        """The CTAs and the threads of each, where the group is the same neighbours of neighbouring CTAs, in order."""
        if not len(self):
            return None
        first, ctas = int(self.cta[0]), int(self.cta[-1]) - int(self.cta[0]) + 1
        low, count = int(self.thread[0]) - first * self.crew.threads, len(self) // max(1, ctas)
        if ctas < 1 or count * ctas != len(self) or not 0 <= low <= low + count <= self.crew.threads:
            return None
        wanted = (np.arange(first, first + ctas) * self.crew.threads)[:, None] + np.arange(low, low + count)
        is_box = np.array_equal(self.thread, wanted.ravel())
        return (slice(first, first + ctas), slice(low, low + count)) if is_box else None

    @cached_property
    def places(self) -> tuple[Any, Any]:
        """Indices of the threads in a table over (CTAs, threads): slices where they are a box."""
        return self.box or (self.cta, self.thread - self.cta * self.crew.threads)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what ``places`` picks in such a table."""
        return tuple(s.stop - s.start for s in self.box) if self.box else (len(self),)

    def pick(self, value: Any) -> Any:
        """The group's part of a value over the role's axis."""
        return value if not isinstance(value, np.ndarray) or isinstance(self.at, slice) else value[self.at]

    def spread(self, value: Any) -> Array:
        """The group's part, one entry per thread also when the value is uniform."""
        return self.widen(self.pick(value))

    def widen(self, part: Any) -> Array:
        """A part of a value (or a uniform one), one entry per thread."""
        is_full = isinstance(part, np.ndarray) and part.shape == self.thread.shape
        return part if is_full else np.broadcast_to(part, self.thread.shape)

    @cached_property
    def seat(self) -> Array:
        result: Array = self.crew.seat_of[self.warp]
        return result

    @cached_property
    def cluster(self) -> Array:
        result: Array = self.crew.cluster_of[self.warp]
        return result

    @cached_property
    def cases(self) -> Array:
        """The numbers of the sizes that CTAs here run with, each once."""
        return np.flatnonzero(np.bincount(self.crew.case_of[self.cta]))

    @cached_property
    def whole(self) -> Array:
        """The warps that are here, each once."""
        return np.flatnonzero(np.bincount(self.warp))

    @cached_property
    def heads(self) -> Array:
        """The position of one thread of each warp that is here (``whole``)."""
        first = np.zeros(int(self.warp.max(initial=-1)) + 1, np.int64)
        first[self.warp[::-1]] = np.arange(len(self))[::-1]
        result: Array = first[self.whole]
        return result

    @cached_property
    def row_of_warp(self) -> Array:
        """Of each thread the number of its warp among ``whole``."""
        return np.searchsorted(self.whole, self.warp)

    def is_by_warp(self, values: Array) -> bool:
        """Have all threads of each warp the same of these values, one for each thread?"""
        return bool((values == values[self.heads][self.row_of_warp]).all())

    @cached_property
    def speakers(self) -> Group:
        """``heads`` as a group: enough to say what is the same for all threads of a warp."""
        fields = (self.thread, self.cta, self.warp, self.lane)
        return Group(self.crew, slice(None), *(x[self.heads] for x in fields))

    @cached_property
    def partial_warp(self) -> int | None:
        """The position of a thread whose warp is not complete here, or None."""
        if len(self) == int(self.crew.lanes_of[self.whole].sum()):
            return None
        here = np.bincount(self.warp, minlength=len(self.crew.lanes_of))
        return int(np.flatnonzero((here < self.crew.lanes_of)[self.warp])[0])


def muster(crew: Crew, role: Role, first: int) -> tuple[Group, dict[str, Any]]:
    """A role's threads in every CTA, and the values of the variables that exist at its start: it counts its own."""
    count = len(crew.ctas)
    cta = np.repeat(np.arange(count), role.threads)
    tx = np.tile(np.arange(role.threads), count)
    own = first + tx  # counted over the CTA
    group = Group(crew, slice(None), cta * crew.threads + own, cta, cta * crew.warps + own // 32, own % 32)
    axes: dict[str, Any] = {"tx": tx}
    for name, d in zip(CTA_AXES, range(3), strict=True):
        values = np.array([c[d] for c in crew.ctas])
        one = len(set(values.tolist())) == 1
        axes[name] = int(values[0]) if one else values[cta]
    for name, of, n in zip(CLUSTER_AXES, CTA_AXES, crew.cluster, strict=True):
        axes[name] = axes[of] % n
    return group, axes | {name: evaluate_axis(value, tx) for name, value in thread_variables(role.threads).items()}


def evaluate_axis(axis: Any, tx: Array) -> Any:
    """A thread axis from tx, through its printed text."""
    value = evaluate(axis, {"tx": tx})
    return value if isinstance(value, np.ndarray) else int(value)
