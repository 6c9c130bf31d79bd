"""What a compiler makes of a plan's accesses: one of neighbours, less of what is cut down, later what only some need.

nvcc 13 does five things to the loads and stores of a kernel's text that a hardware counter shows, and that the text
does not say. They were seen in its machine code, and counted on an H200 (docs/access-model.md):

* neighbours in shared memory that one thread touches in one unrolled loop become one access, as wide as is aligned;
* what one thread loads twice from one place there is loaded once, as a row of a stencil above one and below another
  (an H100, 2026-11-28: 65 loads of the 80 in specs/stencil.yaml);
* of a 64-bit integer that is only ever converted to a narrower one, the low bytes alone are loaded, one by one;
* what is loaded from an array and used under a condition alone may be loaded under it. Whether it is, is the
  compiler's choice, so both are counted: ``Access.needed`` holds the condition;
* what an op loads again from an array that is only read may be left out, its choice too (``list_needed``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tilegen.cost.accesses import Access, list_accesses, visit_role
from tilegen.dtypes import DTYPES
from tilegen.index import Index, Var, add, bound, evaluate, multiple, substitute, terms, variables
from tilegen.kept import keep
from tilegen.plan import (
    CAST,
    MOVE,
    Compute,
    Let,
    Map,
    Memory,
    Move,
    Plan,
    Repeat,
    Role,
    Step,
    Visit,
    flatten,
    trip_name,
)

_WIDEST_BYTES = 16
_UNROLLED_UNASKED = 64  # steps of a loop without a pragma; 48 were seen unrolled
_MOST_COPIES = 256  # of one access in unrolled loops; kernels unroll at most 16 trips of at most 16 elements


@keep
def compiled_accesses(plan: Plan) -> tuple[Access, ...]:
    """Every shared or global access of a plan as the compiler carries it out, role by role, in the plan's order."""
    return tuple(a for role in plan.roles for a in _of_role(plan, role))


def list_needed(accesses: Iterable[Access]) -> list[Access]:
    """The accesses that no compiler leaves out: of loads those that something uses, and each place of one array once.

    What an op loads again from an array that is only read, the compiler may have in registers from an op before. Of
    five kernels in benchmarks/mixed_widths.py it had, of specs/rotary.yaml it had not (an H100, 2026-11-28).
    """
    made: dict[tuple[Any, ...], int] = {}
    out = []
    for a in accesses:
        if a.kind == "ld" and a.memory.access == "in":
            place = a.memory, a.width_bytes, a.byte, a.conditions, a.loops
            if made.setdefault(place, a.op) != a.op:
                continue
        out.append(replace(a, conditions=(*a.conditions, *a.needed)) if a.needed else a)
    return out


def _of_role(plan: Plan, role: Role) -> Iterator[Access]:
    visits = list(visit_role(role.steps, role.threads, plan.cluster))
    uses = _find_uses(visits)
    for stretch in _list_stretches(visits):
        found = [(a, visit) for visit in stretch.visits for a in list_accesses(visit)]
        yield from _join(stretch, [b for a, visit in found for b in _narrow(_defer(a, visit, uses), visit, uses)])


# ---------------------------------------------------------------- what becomes of registers
@dataclass
class _Uses:
    """Of one register array: under which conditions its elements are read, and which bytes of them."""

    guards: list[tuple[Index, ...]] = field(default_factory=list)
    bytes: set[int] = field(default_factory=set)


def _find_uses(visits: Iterable[Visit]) -> dict[Memory, _Uses]:
    found: dict[Memory, _Uses] = defaultdict(_Uses)
    for visit in visits:
        for touch in visit.effects.read:
            memory, _ = visit.position.flat(touch.ref)
            if memory.traits.is_held:
                found[memory].guards.append(visit.position.guards)
                found[memory].bytes.add(_bytes_kept(visit.step, memory))
    return found


def _bytes_kept(step: Step, memory: Memory) -> int:
    """Bytes of an element that a step needs: of an integer that becomes a narrower one, the low ones."""
    if isinstance(step, Map) and step.fn is CAST:
        to = DTYPES[step.dst.memory.dtype]
        if all(d.kind in ("int", "uint") for d in (to, DTYPES[memory.dtype])):
            return min(to.bytes, memory.elem_bytes)
    return memory.elem_bytes


def _loaded_registers(visit: Visit) -> Memory | None:
    """The registers that a load fills."""
    if not isinstance(visit.step, Move) or visit.step.via is not MOVE:
        return None
    memory, _ = visit.position.flat(visit.step.dst)
    return memory if memory.traits.is_held else None


def _narrow(a: Access, visit: Visit, uses: dict[Memory, _Uses]) -> list[Access]:
    """The loads of 64-bit integers of which only low words are used: one of a word for each."""
    memory = _loaded_registers(visit)
    if memory is None or memory.elem_bytes != 8 or a.kind != "ld":
        return [a]
    kept = max(uses[memory].bytes, default=8)
    if kept == 8:
        return [a]
    low = replace(a, width_bytes=kept, text_bytes=a.width_bytes)
    return [replace(low, byte=add(a.byte, k)) for k in range(0, a.width_bytes, 8)]


def _defer(a: Access, visit: Visit, uses: dict[Memory, _Uses]) -> Access:
    """A load from an array that is only read, with what all uses of it ask for beside what it asks for itself."""
    memory = _loaded_registers(visit)
    if memory is None or a.memory.access != "in" or not uses[memory].guards:
        return a
    known = {v.name for c in (a.byte, *a.conditions) for v in variables(c)} | {v.name for v, _ in a.loops}
    first, *others = uses[memory].guards
    common = [c for c in first if all(c in guards for guards in others) and c not in a.conditions]
    own = tuple(c for c in common if not any("__" in v.name and v.name not in known for v in variables(c)))
    return replace(a, needed=own)


# ---------------------------------------------------------------- neighbours
@dataclass
class _Stretch:
    """Visits that nothing stands between: no condition begins, nobody meets. ``unrolled``: names of loops' trips."""

    visits: list[Visit] = field(default_factory=list)
    unrolled: set[str] = field(default_factory=set)


def _list_stretches(visits: Iterable[Visit]) -> Iterator[_Stretch]:
    stretch = _Stretch()
    for visit in visits:
        step = visit.step
        if isinstance(step, Repeat) and _is_straight(step):
            stretch.unrolled.add(trip_name(step.var, len(visit.position.loops)))
        elif not _is_plain(step) and stretch.visits:
            yield stretch
            stretch = _Stretch()
        stretch.visits.append(visit)
    if stretch.visits:
        yield stretch


def _is_straight(step: Repeat) -> bool:
    """Is it unrolled (short ones are unasked), and then one run of plain moves and functions of registers?

    A load of the next trip moves before what this trip computes, unless the loop stores between them.
    """
    is_unrolled = isinstance(step.count, int) and (step.unroll or _count_copies(step) <= _UNROLLED_UNASKED)
    steps = list(flatten(step.body))
    if any(isinstance(s, Compute) for s in steps) and any(isinstance(s, Move) and _stores(s) for s in steps):
        return False
    return is_unrolled and all(map(_is_straight_part, step.body))


def _is_straight_part(step: Step) -> bool:
    return _is_plain(step) or isinstance(step, Compute) or (isinstance(step, Repeat) and _is_straight(step))


def _stores(move: Move) -> bool:
    return not move.dst.memory.traits.is_held


def _count_copies(step: Step) -> int:
    if not isinstance(step, Repeat):
        return 1
    return (bound(step.count) - 1) * sum(map(_count_copies, step.body))


def _is_plain(step: Step) -> bool:
    return isinstance(step, (Let, Map)) or (isinstance(step, Move) and step.via is MOVE)


def _join(stretch: _Stretch, accesses: Sequence[Access]) -> list[Access]:
    """The accesses of a stretch, neighbours as one."""
    groups: dict[tuple[Any, ...], list[Access]] = defaultdict(list)
    for a in accesses:
        groups[_group_of(stretch, a)].append(a)
    kinds = {m: {a.kind for a in accesses if a.memory == m} for m in {a.memory for a in accesses}}
    out: list[Access] = []
    for group in groups.values():
        # a load that moved past a store of the same memory could read another value
        is_free = group[0].memory.traits.is_pooled and len(kinds[group[0].memory]) == 1
        out += (_join_group(stretch, group) if is_free else None) or group
    return out


def _group_of(stretch: _Stretch, a: Access) -> tuple[Any, ...]:
    around = tuple(loop for loop in a.loops if loop[0].name not in stretch.unrolled)
    return a.memory, a.kind, a.width_bytes, a.conditions, around, a.op


def _join_group(stretch: _Stretch, group: Sequence[Access]) -> list[Access] | None:
    """The group's accesses with neighbours joined; None if there are none."""
    one = group[0]
    inner = [[(v, bound(n) - 1) for v, n in a.loops if v.name in stretch.unrolled] for a in group]
    count = sum(prod(n for _, n in loops) for loops in inner)
    if one.kind not in ("ld", "st") or one.width_bytes >= _WIDEST_BYTES or not 1 < count <= _MOST_COPIES:
        return None
    if any(v in variables(c) for loops in inner for v, _ in loops for c in one.conditions):
        return None
    if not _may_meet(list(zip(group, inner, strict=True)), one):
        return None
    rows: dict[frozenset[Any], dict[int, Index]] = defaultdict(dict)  # what varies -> constant -> the whole
    for a, loops in zip(group, inner, strict=True):
        for trip in product(*(range(n) for _, n in loops)):
            byte = substitute(a.byte, {v.name: k for (v, _), k in zip(loops, trip, strict=True)})
            parts = terms(byte)
            rows[frozenset((c, f) for c, f in parts if not isinstance(f, int))][
                sum(c * f for c, f in parts if isinstance(f, int))
            ] = byte
    around = tuple(loop for loop in one.loops if loop[0].name not in stretch.unrolled)
    plain = replace(one, loops=around)
    wide = replace(plain, text_bytes=plain.width_bytes)
    runs = [run for row in rows.values() for run in _list_runs(row, plain)]
    joined = [replace(plain if w == plain.width_bytes else wide, byte=b, width_bytes=w) for b, w in runs]
    is_fewer = one.kind == "ld" and sum(map(len, rows.values())) < count
    return joined if is_fewer or any(a.text_bytes for a in joined) else None


def _may_meet(group: Sequence[tuple[Access, list[tuple[Var, int]]]], one: Access) -> bool:
    """Whether any two lie side by side in one thread, or two loads at one place: a quick look, at the least of all
    other variables.
    """
    found = []
    for a, loops in group:
        shape = [n for _, n in loops]
        trips = np.indices(shape).reshape(len(shape), -1) if shape else np.zeros((0, 1), np.int64)
        env: dict[str, Any] = {v.name: v.least for v in variables(a.byte)}
        env |= {v.name: k for (v, _), k in zip(loops, trips, strict=True)}
        found.append(np.broadcast_to(np.asarray(evaluate(a.byte, env)), (prod(shape),)))
    apart = np.diff(np.sort(np.concatenate(found)))
    return bool((apart == one.width_bytes).any() or (one.kind == "ld" and (apart == 0).any()))


def _list_runs(row: dict[int, Index], a: Access) -> Iterator[tuple[Index, int]]:
    """The first byte and the width of each access that takes the places in ``row``: as wide as is aligned.

    A load may bring what nobody asked for: three words of an aligned four, and odd runs of narrower elements.
    """
    places, k = sorted(row), 0
    while k < len(places):
        first, width = places[k], a.width_bytes
        while _is_aligned(row[first], 2 * width, a) and _takes(row, first, 2 * width, a):
            width *= 2
        if a.kind == "ld" and a.width_bytes == 4 and width < _WIDEST_BYTES:
            low = first - next((d for d in (0, 4) if _is_aligned(add(row[first], -d), _WIDEST_BYTES, a)), 8)
            if first - low < 8 and sum(low <= x < low + _WIDEST_BYTES for x in places[k:]) == 3:
                yield add(row[first], low - first), _WIDEST_BYTES
                k += 3
                continue
        yield row[first], width
        k += sum(first <= x < first + width for x in places)


def _is_aligned(byte: Index, width: int, a: Access) -> bool:
    return width <= _WIDEST_BYTES and multiple(byte) % width == 0 and a.memory.align_bytes % width == 0


def _takes(row: dict[int, Index], first: int, width: int, a: Access) -> bool:
    """Whether the compiler reads or writes a run from ``first`` on with one access of that width."""
    there = [x in row for x in range(first, first + width, a.width_bytes)]
    count = there.index(False) if False in there else len(there)
    if count == len(there):
        return True
    is_odd = count % 2 == 1 or (count, a.width_bytes) == (6, 2)
    return a.kind == "ld" and is_odd and count > len(there) // 2 and not any(there[count:])
