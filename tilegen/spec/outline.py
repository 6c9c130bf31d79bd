"""A spec seen as a whole, computed once: its statements with the nests around them, barriers, queues, names, launch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, count
from typing import Any, get_args

import numpy as np

from tilegen.index import Index, Var, add, bound, evaluate, less, mul, names_of, sub, substitute, variables
from tilegen.kept import keep
from tilegen.plan import CP_ASYNC, MBARRIER, QUEUES, TMA_STORE, Barrier, Launch, default_values
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, GRID_LIMITS, SCOPES
from tilegen.spec.data import (
    Buffer,
    Call,
    FollowStatement,
    LetStatement,
    Loop,
    Nest,
    RoleBlock,
    Spec,
    Statement,
    WhenStatement,
    WholeCall,
)
from tilegen.spec.phases import announced_bytes_of, barriers_of, trips_of
from tilegen.spec.program import Program
from tilegen.spec.tables import Read
from tilegen.spec.terms import RoleTerms

KINDS = get_args(Statement)
_NEAR = (1 << 10, 4, 4)  # how far from the middle of a grid a CTA away from the edges is looked for


@dataclass(frozen=True)
class CountedLoop:
    """A loop of a spec: its number among all of them, its counted variable, and written out its count and variable."""

    number: int
    loop: Loop
    trip: Var
    count: Index
    value: Index


@dataclass(frozen=True)
class Meant:
    """What holds where a statement stands, written out in axes, params and counted variables of the loops around.

    ``values``: loop variables and lets. ``loops``: those around, outermost first. ``guards``: the conditions around,
    and that each counted variable is below its count.
    """

    values: Mapping[str, Index]
    loops: tuple[CountedLoop, ...]
    guards: tuple[Index, ...]


@dataclass(frozen=True)
class Placed:
    """A statement, the nests that it stands in, outermost first, and what holds there.

    ``number``: of a loop among all loops, of a call among all calls, in the order of the text; -1 for the rest.
    """

    statement: Statement
    around: tuple[Nest, ...]
    meant: Meant
    number: int = -1

    @property
    def role(self) -> str:
        """The role that it stands in, "" for all threads."""
        return next((nest.role for nest in self.around if isinstance(nest, RoleBlock)), "")


@dataclass(frozen=True)
class Outline:
    """What is asked of a spec again and again.

    ``loops`` and ``calls`` are by their numbers; plans number operations as calls are. ``queues``: those that copies
    are waited for in, by groups, of each role. ``names``: every name that it gives. ``read`` and ``written`` are names
    of buffers, ``streamed`` of the roots of those that copies work on while the threads go on. ``announced_bytes``: by
    the number of each TMA copy, those of the copies that it announces at its mbarrier; 0 where one before it does.
    """

    placed: tuple[Placed, ...]
    loops: tuple[CountedLoop, ...]
    calls: tuple[Call, ...]
    barriers: Mapping[str, Barrier]
    queues: Mapping[str, tuple[str, ...]]
    names: frozenset[str]
    read: frozenset[str]
    written: frozenset[str]
    streamed: frozenset[str]
    announced_bytes: Mapping[int, int]

    def find(self, *kinds: type[Any]) -> tuple[Any, ...]:
        """The statements of some kinds, in order."""
        return tuple(p.statement for p in self.placed if isinstance(p.statement, kinds))

    def number_of(self, call: Call) -> int:
        """The number of a call of this spec; of two equal ones each has its own."""
        return next(number for number, one in enumerate(self.calls) if one is call)


@keep
def outline(spec: Spec) -> Outline:
    """The outline of a checked spec. Raises SpecError TG305 where the phases of an mbarrier differ."""
    statements = tuple(walk_statements(spec.ops))
    calls = tuple(s for s in statements if isinstance(s, Call))
    barriers = barriers_of(spec)
    names = {spec.kernel, *barriers, *(b.name for b in spec.buffers), *(p.name for p in spec.params)}
    names |= {r.name for r in spec.roles}
    names |= names_of_integers(statements)
    streams = [call for call in calls if call.queue in (MBARRIER, TMA_STORE.queue, CP_ASYNC.queue)]
    queues: dict[str, dict[str, None]] = {}
    for call in calls:
        queues.setdefault(call.role, {}).update({call.queue: None} if call.queue in QUEUES else {})
    placed, loops = place_statements(spec.ops, frozenset(names))
    return Outline(
        placed, loops, calls, barriers, {role: tuple(own) for role, own in queues.items()}, frozenset(names),
        frozenset(r.buffer.name for call in calls for r in call.read),
        frozenset(r.buffer.name for call in calls for r in call.written),
        frozenset(r.buffer.root for call in streams for r in call.regions.values()), announced_bytes_of(spec),
    )  # fmt: skip


def walk_statements(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Every statement, each before its body. Raises TypeError for a kind of statement that nobody knows."""
    for s in statements:
        if not isinstance(s, KINDS):
            raise TypeError(f"spec/outline.py does not know {type(s).__name__}")
        yield s
        if isinstance(s, Nest):
            yield from walk_statements(s.body)


def names_of_integers(statements: Sequence[Statement]) -> set[str]:
    """The names that these statements give to integers: loop variables and lets."""
    loops = {s.var.name for s in statements if isinstance(s, Loop)}
    return loops | {var.name for s in statements if isinstance(s, LetStatement) for var, _ in s.entries}


def place_statements(
    statements: Sequence[Statement], taken: frozenset[str]
) -> tuple[tuple[Placed, ...], tuple[CountedLoop, ...]]:
    """Every statement with what is around it, and the loops by their numbers; ``taken``: the names of the spec.

    Raises TypeError as above.
    """
    placing = _Placing(taken)
    placed = tuple(placing.place(statements, (), Meant({}, (), ())))
    return placed, tuple(placing.loops)


class _Placing:
    """Walks statements and numbers their loops and calls."""

    def __init__(self, taken: frozenset[str]):
        self.taken, self.calls = taken, 0
        self.loops: list[CountedLoop] = []

    def place(self, statements: Sequence[Statement], around: tuple[Nest, ...], meant: Meant) -> Iterator[Placed]:
        for s in statements:
            number = self.number(s, meant)
            yield Placed(s, around, meant, number)
            if isinstance(s, Nest):
                yield from self.place(s.body, (*around, s), self.enter(s, number, meant))
            elif isinstance(s, LetStatement):
                meant = _define(s, meant)

    def number(self, s: Statement, meant: Meant) -> int:
        if isinstance(s, Call):
            self.calls += 1
            return self.calls - 1
        if not isinstance(s, Loop):
            return -1
        trip, count, value = trip_of(s, self.taken)
        number, values = len(self.loops), meant.values
        self.loops.append(CountedLoop(number, s, trip, substitute(count, values), substitute(value, values)))
        return number

    def enter(self, nest: Nest, number: int, meant: Meant) -> Meant:
        """What holds inside of a nest. Raises TypeError as above."""
        if isinstance(nest, RoleBlock):
            return meant
        if isinstance(nest, WhenStatement):
            return replace(meant, guards=(*meant.guards, substitute(nest.when, meant.values)))
        if not isinstance(nest, Loop):
            raise TypeError(f"spec/outline.py does not know {type(nest).__name__}")
        one = self.loops[number]
        below = () if isinstance(one.count, int) else (less(one.trip, one.count),)
        return Meant({**meant.values, nest.var.name: one.value}, (*meant.loops, one), (*meant.guards, *below))


def _define(naming: LetStatement, meant: Meant) -> Meant:
    """What holds after names were given."""
    values, guards = dict(meant.values), list(meant.guards)
    for var, value in naming.entries:
        values.pop(var.name, None)
        if isinstance(value, Read):
            guards += [substitute(c, values) for c in value.known]
        else:
            values[var.name] = substitute(value, values)
    return replace(meant, values=values, guards=tuple(guards))


def map_calls(statements: Sequence[Statement], change: Callable[[Call], Call]) -> tuple[Statement, ...]:
    """The statements with every call changed."""
    out: list[Statement] = []
    for s in statements:
        if isinstance(s, Nest):
            out.append(replace(s, body=map_calls(s.body, change)))
        else:
            out.append(change(s) if isinstance(s, Call) else s)
    return tuple(out)


def deciding(statement: Statement) -> tuple[Index, ...]:
    """The expressions that decide whether, how often and how a statement runs: its conditions, a loop's bounds."""
    if isinstance(statement, Loop):
        return statement.start, statement.stop, statement.step
    if isinstance(statement, Call):
        return statement.when, *statement.conditions.values()
    return () if isinstance(statement, WholeCall | LetStatement | RoleBlock | FollowStatement) else (statement.when,)


def trip_of(loop: Loop, taken: frozenset[str]) -> tuple[Var, Index, Index]:
    """A loop's counted variable, its count, and the loop variable as a function of the former."""
    if isinstance(loop.start, int) and loop.start == 0 and isinstance(loop.step, int) and loop.step == 1:
        return loop.var, loop.stop, loop.var
    count = trips_of(loop)
    trip = Var(fresh_name(f"{loop.var.name}_trip", taken), max(1, bound(count) - 1))
    return trip, count, add(loop.start, mul(trip, loop.step))


def fresh_name(name: str, taken: Collection[str]) -> str:
    """``name``, or with the first number behind it that makes it new.

    >>> fresh_name("i", frozenset({"i", "i2"}))
    'i3'
    """
    return next(n for n in chain([name], (f"{name}{i}" for i in count(2))) if n not in taken)


def declared_buffers(spec: Spec | Program) -> dict[str, Buffer]:
    """The buffers by name; an array of an op on whole arrays as its caller declares it, not as tile ops see it."""
    return {b.name: b for b in (*spec.buffers, *(spec.whole.arrays.values() if spec.whole else ()))}


def parts_of_cta(spec: Spec) -> tuple[RoleTerms, ...]:
    """The roles in the order of their threads, and idle ones where there are gaps; () without roles."""
    parts: list[RoleTerms] = []
    end = 0
    taken = {r.name for r in spec.roles}
    for r in (*spec.roles, RoleTerms("", 0, first=spec.threads)):
        if r.first > end:
            name = fresh_name("idle", frozenset(taken))
            taken.add(name)
            beside = [x for x in (*parts, r) if x.threads and _share_warpgroup(x, end, r.first)]
            parts.append(RoleTerms(name, r.first - end, beside[0].registers if beside else 0, end))
        end = r.first + r.threads
        parts += [r] if r.threads else []
    return tuple(parts) if spec.roles else ()


def _share_warpgroup(r: RoleTerms, first: int, end: int) -> bool:
    size = SCOPES["warpgroup"].threads
    return r.first // size <= (end - 1) // size and first // size <= (r.first + r.threads - 1) // size


def launch_of(spec: Spec, params: Mapping[str, int] | None = None) -> Launch:
    """The launch of a spec with its default parameters, or with ``params`` in their place."""
    values = default_values(spec.params) | dict(params or {})
    x, y, z = (int(evaluate(g, values)) for g in spec.grid)
    launch = Launch(spec.threads, (x, y, z), tuple(values.items()), spec.cluster)
    return replace(launch, interior=_find_interior(launch, _shared_loops(spec), _list_margins(spec)))


@lru_cache(maxsize=1 << 10)
def _find_interior(launch: Launch, counts: tuple[Index, ...], margins: tuple[Index, ...]) -> tuple[int, int, int]:
    """The CTA in the middle; where a loop has no trips there that has some in CTA 0, that of the grid halved until it
    has; of those near it the next in which most regions lie within their arrays.

    ``counts``: of loops; ``margins``: what is negative where a region passes an end.
    """

    def trips(cta: tuple[int, int, int]) -> list[bool]:
        return [int(evaluate(count, _env(launch, *cta))) > 0 for count in counts]

    busy, first = launch.grid, trips((0, 0, 0)) if counts else []
    while not all(there or not here for here, there in zip(first, trips(_middle(busy)), strict=True)):
        busy = _halve(busy)
    middle = _middle(busy)
    if all(int(evaluate(x, _env(launch, *middle))) >= 0 for x in margins):
        return middle
    near = [np.arange(max(0, at - most), min(n, at + most)) for at, n, most in
            zip(middle, launch.grid, _NEAR, strict=True)]  # fmt: skip
    at = np.stack([x.ravel() for x in np.meshgrid(*near, indexing="ij")])
    env = _env(launch, *at)
    works = [np.asarray(evaluate(count, env)) > 0 for count, here in zip(counts, first, strict=True) if here]
    inside = np.sum([np.zeros(at.shape[1]), *(np.asarray(evaluate(x, env)) >= 0 for x in margins)], axis=0)
    inside = np.where(np.all([inside >= 0, *works], axis=0), inside, -1)
    far = np.abs(at - np.array(middle)[:, None]).sum(axis=0)
    x, y, z = at[:, np.lexsort([far, -inside])[0]].tolist()
    return x, y, z


def _middle(grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """Of two CTAs the first, as tiles are cut at the far end."""
    x, y, z = (n // 2 if n > 2 else 0 for n in grid)
    return x, y, z


def _halve(grid: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, z = (-(-n // 2) for n in grid)
    return x, y, z


def _env(launch: Launch, *cta: Any) -> dict[str, Any]:
    """The values of all that a grid's CTAs differ in, of one of them or of many."""
    places = {c: at % n for c, at, n in zip(CLUSTER_AXES, cta, launch.cluster, strict=True)}
    return dict(launch.params) | dict(zip(CTA_AXES, cta, strict=True)) | places


@keep
def _list_margins(spec: Spec) -> tuple[Index, ...]:
    """How far the regions of global arrays lie from the ends of these, where CTAs differ in it: in first trips."""
    found: dict[Index, None] = {}
    for placed in outline(spec).placed:
        regions = placed.statement.regions.values() if isinstance(placed.statement, Call) else ()
        for region in (r for r in regions if r.buffer.traits.is_array):
            for begin, length, extent in zip(region.begins, region.lengths, region.buffer.shape, strict=True):
                at = substitute(begin, placed.meant.values)
                at = substitute(at, {v.name: v.least for v in variables(at) if v.name not in _known_at_launch(spec)})
                found |= dict.fromkeys((at, sub(extent, add(at, length))))
    return tuple(x for x in found if names_of(x) & {*CTA_AXES, *CLUSTER_AXES})


@keep
def _shared_loops(spec: Spec) -> tuple[Index, ...]:
    """The counts of loops that CTAs share among them: functions of params and of which CTA it is, of nothing else."""
    places, known = {*CTA_AXES, *CLUSTER_AXES}, _known_at_launch(spec)
    counts = dict.fromkeys(one.count for one in outline(spec).loops)
    named = {count: names_of(count) for count in counts}
    return tuple(count for count, names in named.items() if names & places and names <= known)


def _known_at_launch(spec: Spec) -> set[str]:
    """What a CTA's place and the parameters are called."""
    return {*CTA_AXES, *CLUSTER_AXES, *(p.name for p in spec.params)}


@keep
def written_roots(spec: Spec) -> frozenset[str]:
    """The buffers that calls write, by the names of their memories."""
    return frozenset(region.buffer.root for call in outline(spec).calls for region in call.written)


def is_possible(spec: Spec, case: Mapping[str, int]) -> bool:
    """Are pitches of what is written at least as long as its rows with these parameters, does what is known of them
    hold, and can the grid be launched?

    Strides that the layout fixes are what the user wants, also where they are 0 or overlap; so is what is only read.
    """
    arrays = written_roots(spec)
    for b in spec.buffers:
        if not b.traits.is_array or b.root not in arrays:
            continue
        iters = getattr(b.layout, "shard", ())
        sizes = [(int(evaluate(i.stride, case)), int(evaluate(i.extent, case)), i.stride) for i in iters]
        reach = 1
        for stride, extent, written in sorted((s for s in sizes if s[1] > 1), key=lambda s: s[:2]):
            if stride < reach and not isinstance(written, int):
                return False
            reach = max(reach, stride * extent)
    holds = all(evaluate(c, case) for c in spec.known)
    return holds and all(0 < int(evaluate(g, case)) <= most for g, most in zip(spec.grid, GRID_LIMITS, strict=True))
