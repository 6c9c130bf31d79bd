"""How far apart two trips of a loop can lie and touch one element of an array that is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilegen.index import Index, Var, add, mul, substitute
from tilegen.index.bounds import highest
from tilegen.index.recurrences import join_recurrences, recurrence
from tilegen.index.runs import counter
from tilegen.plan import Touch, Visit
from tilegen.scopes import CLUSTER_AXES, CTA_AXES

Places = Sequence[Mapping[str, Index]]  # of each CTA that runs: its axes and the parameters, as numbers


@dataclass(frozen=True)
class Around:
    """A loop around a step or a statement.

    ``repeat``: the number of the plan's Repeat, or of a statement its own. ``loop``: the name of its trips, "" where
    unrolled. ``v`` and ``count``: its variable and how many trips it has. ``number``: of the spec's loop that it is, -1
    for none.
    """

    repeat: int
    loop: str
    v: Var
    count: Index
    number: int = -1


@dataclass(frozen=True)
class ArrayTouch:
    """A touch of a global array: a box from ``at`` on, inside of ``loops`` (the outermost first).

    ``at`` and ``box`` are by the dimensions of the array (``form``), or flat, where those are not known.
    """

    form: tuple[object, ...]
    at: tuple[Index, ...]
    box: tuple[Index, ...]
    loops: tuple[Around, ...]
    is_read: bool
    is_written: bool


def spot_of_touch(visit: Visit, touch: Touch, around: Sequence[Around]) -> ArrayTouch:
    found = visit.position.find(touch.ref)
    memory, uses = found.root, (tuple(around), touch.reads, touch.writes)
    rows = [d for d, pitch in enumerate(memory.pitches) if pitch == 1]
    if found.coordinates is not None and touch.map is not None:
        sizes = dict(zip(touch.map.dims, touch.map.box, strict=True))
        box = tuple(sizes.get(d, 1) for d in range(len(memory.shape)))
        return ArrayTouch((memory.shape, memory.pitches), found.coordinates, box, *uses)
    if found.coordinates is not None and (rows or touch.elems == 1):
        box = tuple(touch.elems if [d] == rows[-1:] else 1 for d in range(len(memory.shape)))
        return ArrayTouch((memory.shape, memory.pitches), found.coordinates, box, *uses)
    return _flat_spot(found.flat, touch, *uses)


def _flat_spot(flat: Index, touch: Touch, loops: tuple[Around, ...], is_read: bool, is_written: bool) -> ArrayTouch:
    span: Index = touch.elems
    if touch.map is not None:
        span = 1
        for d, size in zip(touch.map.dims, touch.map.box, strict=True):
            span = add(span, mul(touch.map.memory.pitches[d], size - 1))
    return ArrayTouch((), (flat,), (span,), loops, is_read, is_written)


def find_distance(touches: Sequence[ArrayTouch], which: int, v: Var, places: Places) -> int | str:
    """The periods of a loop (``which`` Repeat, its variable ``v``) within which two trips can touch one element.

    All places that the loop moves must move alike, and what stands outside of the loop must stay clear of them; if not,
    in words what is so, of the array '{}'.
    """
    inside = [t for t in touches if which in [a.repeat for a in t.loops]]
    outside = [t for t in touches if which not in [a.repeat for a in t.loops]]
    reach = 0
    for numbers in places if _is_write_only(touches) else [_without_ctas(n) for n in places[:1]]:
        found = _reach(inside, outside, which, v, numbers)
        if isinstance(found, str):
            return found
        reach = max(reach, found)
    return reach


def _is_write_only(touches: Sequence[ArrayTouch]) -> bool:
    """No CTA reads it: then it is enough to look at each by itself, as the partition tells CTAs apart."""
    return not any(t.is_read for t in touches)


def _without_ctas(numbers: Mapping[str, Index]) -> dict[str, Index]:
    return {k: x for k, x in numbers.items() if k not in (*CTA_AXES, *CLUSTER_AXES)}


def _reach(
    inside: Sequence[ArrayTouch], outside: Sequence[ArrayTouch], which: int, v: Var, numbers: Mapping[str, Index]
) -> int | str:
    """The periods; or, of the array '{}', why they are not known."""
    if len({t.form for t in (*inside, *outside)}) > 1:
        return "{} is touched as arrays of several shapes"
    courses = [[recurrence(substitute(x, numbers), v) for x in t.at] for t in inside]
    common = join_recurrences(c for row in courses for c in row)
    if common is None:
        return "the places in {} follow no rule that the proof knows"
    if common.breakpoints:  # two trips may touch one element from either side of a turn, however far apart they are
        return "the places in {} turn as the loop runs"
    moves = {tuple(c.over(common.period) for c in row if c) for row in courses}
    if len(moves) > 1:
        return "places in {} move by different steps from trip to trip"
    (rises,) = moves
    if not any(rises):
        return 0
    ranges = [_range(inside, d, numbers) for d in range(len(rises))]
    for t in outside:
        own = [_range([t], d, numbers) for d in range(len(rises))]
        if all(low < stop and first < high for (first, stop), (low, high) in zip(ranges, own, strict=True)):
            return "{} is touched outside of the loop too"
    fixed = {**numbers, **_fix_outer(inside, which, numbers)}
    fixed[v.name] = counter(v.name, common.period)
    near = [_range(inside, d, fixed) for d in range(len(rises))]
    return min(-(-(high - low) // abs(rise)) for (low, high), rise in zip(near, rises, strict=True) if rise)


def _fix_outer(inside: Sequence[ArrayTouch], which: int, numbers: Mapping[str, Index]) -> dict[str, Index]:
    """Outer loops whose trips never touch one element: two trips of an inner loop that do are in the same of theirs."""
    (outer,) = {t.loops[: [a.repeat for a in t.loops].index(which)] for t in inside}
    fixed: dict[str, Index] = {}
    for v in [a.v for a in outer]:
        courses = [[recurrence(substitute(x, {**numbers, **fixed}), v) for x in t.at] for t in inside]
        if any(c is None or c.period > 1 or c.breakpoints for row in courses for c in row):
            break
        moves = {tuple(c.rise for c in row if c) for row in courses}
        ends = [_range(inside, d, {**numbers, **fixed, v.name: 0}) for d in range(len(inside[0].at))]
        if len(moves) > 1 or not any(0 < high - low <= abs(m) for (low, high), m in zip(ends, *moves, strict=True)):
            break
        fixed[v.name] = 0
    return fixed


def _range(spots: Sequence[ArrayTouch], d: int, numbers: Mapping[str, Index]) -> tuple[int, int]:
    """The first coordinate in dimension ``d`` that any of them can touch, and one more than the last."""
    pairs = [(substitute(t.at[d], numbers), substitute(t.box[d], numbers)) for t in spots]
    return min(-highest((x, -1)) for x, _ in pairs), max(highest((x, 1), (n, 1)) for x, n in pairs)
