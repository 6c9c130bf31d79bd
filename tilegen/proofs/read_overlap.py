"""Which boxes that the spec reads of an array lie on one another, and how: there data of one pass for the other's.

A plan that leaves out a load, or takes another stage, is right where both boxes are the same. So CTAs in which other
boxes meet are not alike, although each box goes along with the spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from tilegen.index import Index, Var, every, less, maximum, minimum, not_, select, sub, substitute, variables
from tilegen.plan import Plan
from tilegen.proofs.observed import Loops
from tilegen.proofs.owned_boxes import Owned, touched_boxes
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.spec.data import Spec
from tilegen.spec.outline import written_roots

_FEW = 32  # trips of a loop that are all looked at

Overlap = tuple[tuple[Index, ...], Loops, tuple[Index, ...]]  # what is seen, in which loops, and where it holds


def list_read_overlaps(spec: Spec, plan: Plan, told: set[str], near: int) -> Iterator[tuple[Overlap, Overlap]]:
    """How far apart two boxes begin, as far as they overlap, in each pair of trips; and of trips that are near only,
    should the former be too many.

    ``told``: names of what differs between runs. ``near``: within so many trips. Of arrays that are only read.
    """
    written = written_roots(spec)
    boxes = dict.fromkeys(box for box in touched_boxes(spec) if box.memory.name not in written)
    for box, other in product(boxes, boxes):
        if box.memory == other.memory:
            for numbers in _ranks(plan):
                for end in _see_ends(box, other, numbers, told, near):
                    yield end, end
                whole = _see(box, other, numbers, told, None)
                if whole is not None:
                    yield whole, _see(box, other, numbers, told, near) or whole


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


def _see(box: Owned, other: Owned, numbers: Mapping[str, Index], told: set[str], near: int | None) -> Overlap | None:
    """None where it is the same in all runs, or where they never meet."""
    before = {v.name: Var(f"{v.name}_before", v.bound, v.step, v.least) for v, _ in other.loops}
    is_same_loop = bool(box.loops) and box.loops[:1] == other.loops[:1]
    back: dict[str, Index] = {}
    if near is not None:
        if box.loops != other.loops:
            return None
        back = {v.name: sub(v, Var(f"{v.name}_before", near + 1)) for v, _ in box.loops}
    at: dict[str, Index] = {**numbers, **before, **back}
    apart = [sub(x, substitute(y, at)) for x, y in zip(box.start, other.start, strict=True)]
    if any(isinstance(d, int) and not -n < d < m for d, m, n in zip(apart, box.box, other.box, strict=True)):
        return None
    asked = [x for x in apart if told & {v.name for v in variables(x)}]
    if not asked:
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
    return tuple(_within(every(*made), apart, box.box, other.box, told)), loops, (box.condition,)


def _see_ends(
    box: Owned, other: Owned, numbers: Mapping[str, Index], told: set[str], near: int
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
        if counts and any(told & {v.name for v in variables(d)} for d in apart):
            yield tuple(_within(every(*made), apart, box.box, other.box, told)), around, ()


def _within(
    made: Index, apart: Sequence[Index], box: Sequence[int], other: Sequence[int], told: set[str]
) -> Iterator[Index]:  # fmt: skip
    """Along each dimension how far apart they begin, clipped where they no longer meet."""
    for d, m, n in zip(apart, box, other, strict=True):
        if told & {v.name for v in variables(d)}:
            yield select(made, minimum(maximum(d, -n), m), m)
