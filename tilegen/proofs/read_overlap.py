"""How boxes that the spec reads of an array lie on one another: there data of one pass for the other's.

A plan that leaves out a load, or takes another stage, is right where both boxes are the same. No plan can tell: so CTAs
in which other boxes meet behave alike, and some are right by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tilegen.index import (
    Formula,
    Index,
    Var,
    add,
    conjuncts,
    consequences,
    every,
    less,
    mul,
    names_of,
    not_,
    select,
    sub,
    substitute,
    total,
)
from tilegen.index.contents import SPREAD
from tilegen.plan import Plan, begin, walk
from tilegen.proofs.observed import Loops
from tilegen.proofs.owned_boxes import Owned, read_boxes, touched_boxes
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, thread_variables
from tilegen.spec.data import Call, Spec
from tilegen.spec.outline import outline, written_roots

_FEW = 32  # trips of a loop that are all looked at
_FAR = 1 << 40  # elements, of a row whose length sizes decide
APART = -1


@dataclass(frozen=True)
class Overlap:
    """A number for how two boxes lie, the same for the same, and -1 where they have no element in common.

    ``apart``: how far apart they begin, along each dimension that differs between runs. ``loops``: those in whose trips
    it is seen. ``is_near``: of trips between which a buffer is written anew.
    """

    x: Index
    apart: tuple[Index, ...]
    loops: Loops
    guards: tuple[Index, ...]
    is_near: bool


def list_read_overlaps(
    spec: Spec, plan: Plan, told: frozenset[str], periods: Mapping[str, int], of_written: bool = False
) -> tuple[Overlap, ...]:  # fmt: skip
    """How two boxes of an array that is only read lie in each pair of trips; ``of_written``: and a box that is read
    beside any other of an array that is written too.

    Of a box that the plan loads in every trip, trips between which buffers are written anew are enough, and the first
    ones beside the last of a loop before. ``told``: names of what differs between runs; ``periods``: of each loop after
    how many trips places in shared memory repeat, 0 where that is not known.
    """
    near = max([1, *periods.values()])
    written = written_roots(spec)
    boxes = dict.fromkeys(box for box in touched_boxes(spec) if of_written or box.memory.name not in written)
    boxes = {box: None for box in boxes if not any(map(_names_spread, box.start))}
    both = {*read_boxes(spec)}
    found: dict[Overlap, None] = {}
    for box, other in product(boxes, boxes):
        is_written = box.memory.name in written
        if box.memory.name == other.memory.name and (not is_written or not both.isdisjoint((box, other))):
            if box.memory != other.memory:
                box, other = _flatten(box), _flatten(other)
            is_renewed = box == other and not is_written and all(periods.get(v.name, 1) for v, _ in box.loops)
            is_renewed = is_renewed and _is_loaded_in_every_trip(spec, plan, box)
            for numbers in _ranks(plan):
                seen = _see(box, other, numbers, told, near if is_renewed else None)
                found |= {} if seen is None else {seen: None}
                found |= dict.fromkeys(_see_ends(box, other, numbers, told, near))
    return tuple(found)


def _names_spread(x: Index) -> bool:
    """Is it the place of an element that is unlike its neighbours? Boxes at those lie apart, which shows all."""
    if not isinstance(x, Formula):
        return False
    return (x.symbol == "table" and x.args[0] == SPREAD) or any(map(_names_spread, x.args))


def _flatten(box: Owned) -> Owned:
    """The box as a stretch of memory, from its first element to its last."""
    pitches = box.memory.pitches
    start = total((1, mul(x, pitch)) for x, pitch in zip(box.start, pitches, strict=True))
    reach = [(n - 1) * (p if isinstance(p, int) else _FAR) for n, p in zip(box.box, pitches, strict=True)]
    return replace(box, start=(start,), box=(sum(reach) + 1,))


def _is_loaded_in_every_trip(spec: Spec, plan: Plan, box: Owned) -> bool:
    """Does the plan read a box inside of all of the spec's loops, under no condition but the spec's?"""
    (meant,) = (p.meant for p in outline(spec).placed if isinstance(p.statement, Call) and p.number == box.op)
    numbers = tuple(one.number for one in meant.loops)
    threads = {"tx", *thread_variables(box.threads)}
    asked = (box.condition, *(less(one.trip, one.count) for one in meant.loops))
    allowed = {c for x in asked for c in consequences(x)}
    is_loaded = False
    for visit in (v for role in plan.roles for v in walk(role.steps, begin(role.threads)) if v.position.op == box.op):
        at = visit.position
        reads = [t for t in visit.effects.touches if t.reads and at.flat(t.ref)[0].name == box.memory.name]
        if reads and tuple(n for n in at.spec_loops if n >= 0) != numbers:
            return False
        around = [(v.name, n) for (v, _), n in zip(at.loops, at.spec_loops, strict=True)]
        trips = {name: outline(spec).loops[n].trip for name, n in around if n >= 0}
        inner = {name for name, n in around if n < 0}
        for guard in (*at.guards, *(at.expand(t.where) for t in reads)) if reads else ():
            for part in conjuncts(substitute(guard, trips)):
                if not names_of(part) <= threads | inner and part not in allowed:
                    return False
        is_loaded |= bool(reads)
    return is_loaded


def _ranks(plan: Plan) -> Iterable[Mapping[str, Index]]:
    """Of each CTA of a cluster its axes, as any other one of the cluster names them."""
    if plan.cluster == (1, 1, 1):
        return ({},)
    each = product(*(range(n) for n in plan.cluster))
    first = {b: Var(b, 1 << 31) // n * n for b, n in zip(CTA_AXES, plan.cluster, strict=True)}
    return [
        {**{b: first[b] + k for b, k in zip(CTA_AXES, rank, strict=True)}, **dict(zip(CLUSTER_AXES, rank, strict=True))}
        for rank in each
    ]


def _see(
    box: Owned, other: Owned, numbers: Mapping[str, Index], told: frozenset[str], near: int | None
) -> Overlap | None:  # fmt: skip
    """None where it is the same in all runs, or where they never meet. ``near``: within so many trips, None for all."""
    before = {v.name: Var(f"{v.name}_before", v.bound, v.step, v.least) for v, _ in other.loops}
    is_same_loop = bool(box.loops) and box.loops[:1] == other.loops[:1]
    back: dict[str, Index] = {}
    if near is not None:  # loops that have no say in it have some trip before
        asked = (box.condition, *(x for x in box.start if told & names_of(x)), *(n for _, n in box.loops))
        named = frozenset[str]().union(*map(names_of, asked))
        back = {v.name: sub(v, Var(f"{v.name}_before", near + 1)) for v, _ in box.loops if v.name in named}
        before = {v.name: v for v, _ in other.loops}
    at: dict[str, Index] = {**numbers, **before, **back}
    apart = [sub(x, substitute(y, at)) for x, y in zip(box.start, other.start, strict=True)]
    if any(isinstance(d, int) and not -n < d < m for d, m, n in zip(apart, box.box, other.box, strict=True)):
        return None
    if not any(told & names_of(x) for x in apart):
        return None
    made = [substitute(other.condition, at)]
    made += [less(at[v.name], substitute(n, at)) for v, n in other.loops if not isinstance(n, int)]
    made += [not_(less(v, 0)) for v in back.values()]
    if is_same_loop:
        trip = box.loops[0][0]
        made.append(not_(less(trip, at[trip.name])))
    loops = box.loops
    if near is None:  # all trips of the other box's loops, of which there may be fewer than at other sizes
        loops += tuple((before[v.name], substitute(n, at)) for v, n in other.loops if not isinstance(n, int))
    return Overlap(*_measure(made, apart, box, other, told), loops, (box.condition,), near is not None)


def _see_ends(
    box: Owned, other: Owned, numbers: Mapping[str, Index], told: frozenset[str], near: int
) -> Iterator[Overlap]:  # fmt: skip
    """A box in the first trips of its loops, and another in the last of those before: as many as the CTA says."""
    shared = 0
    while box.loops[: shared + 1] == other.loops[: shared + 1] and shared < len(box.loops):
        shared += 1
    for k in range(shared + 1):
        inner = min(k + 1, shared) if k < shared else k
        around, last = box.loops[:inner], dict(numbers)
        made: list[Index] = []
        for trip, _ in around[k:]:
            last[trip.name] = sub(trip, 1)
            made.append(less(0, trip))
        for v, n in other.loops[inner:]:
            own = Var(f"{v.name}_before", n if isinstance(n, int) and n <= _FEW else near)
            last[v.name] = own if own.bound == n else sub(sub(substitute(n, last), 1), own)
            made.append(not_(less(last[v.name], 0)))
        first: dict[str, Index] = {}
        for v, n in box.loops[inner:]:
            first[v.name] = Var(f"{v.name}_after", n if isinstance(n, int) and n <= _FEW else near)
            made.append(less(first[v.name], substitute(n, first)))
        made += [substitute(other.condition, last), substitute(box.condition, first)]
        apart = [sub(substitute(x, first), substitute(y, last)) for x, y in zip(box.start, other.start, strict=True)]
        counts = [n for _, n in other.loops[inner:] if not isinstance(n, int)]
        if counts and any(told & names_of(d) for d in apart):
            yield Overlap(*_measure(made, apart, box, other, told), around, (), True)


def _measure(
    made: Sequence[Index], apart: Sequence[Index], box: Owned, other: Owned, told: frozenset[str]
) -> tuple[Index, tuple[Index, ...]]:  # fmt: skip
    """The number of an overlap and how far apart the boxes begin. ``made``: when both are read."""
    number: Index = 0
    meet = [*made]
    sizes = [(d, m, n) for d, m, n in zip(apart, box.box, other.box, strict=True) if told & names_of(d)]
    for d, m, n in sizes:
        meet += [less(-n, d), less(d, m)]
        number = add(mul(number, m + n - 1), add(d, n - 1))
    return select(every(*meet), number, APART), tuple(d for d, _, _ in sizes)
