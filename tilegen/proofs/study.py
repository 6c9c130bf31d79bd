"""What is inside of long loops, of the spec and of the plan, and how it goes on from trip to trip."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from tilegen.errors import Mark
from tilegen.index import Formula, Index, Var, add, least, less, minimum, names_of, sub, substitute, variables
from tilegen.index.recurrences import Recurrence, join_recurrences, recurrence
from tilegen.index.runs import counter
from tilegen.plan import Block, Let, Plan, Repeat, Step, Sync, Tma, Visit, begin, effects, flatten, walk
from tilegen.proofs.dependence_distance import Around, ArrayTouch, Places, find_distance, spot_of_touch
from tilegen.proofs.described_faults import mark_of
from tilegen.proofs.looking import Crowd, Place, are_apart, find_turns, goes_along
from tilegen.proofs.observed import peers_of, sides_of, slots_of, wholes_of
from tilegen.proofs.owned_trips import are_owned_apart
from tilegen.proofs.stale_data import Late, find_exposed
from tilegen.spec.data import Call, Region, Spec
from tilegen.spec.outline import Placed, deciding


@dataclass(frozen=True)
class Uncut:
    """Why a long loop runs in full: what stands in the way, and where the spec says it."""

    loop: str
    what: str
    mark: Mark | None = None
    hint: str = (
        "places in shared memory, slots and conditions that repeat, such as `E % n`, let it run a few trips only"
    )


@dataclass(frozen=True)
class Within:
    """The loops around a statement or a step, the outermost first, and what holds there."""

    loops: tuple[Around, ...]
    guards: tuple[Index, ...]

    def under(self, condition: Index) -> Within:
        """The same place, where a condition holds too."""
        return self if condition is True or condition == 1 else replace(self, guards=(*self.guards, condition))

    @property
    def trips(self) -> tuple[tuple[Var, Index], ...]:
        """The variable and the count of each loop."""
        return tuple((a.v, a.count) for a in self.loops)


_MAY_MEET = "trips may write the same elements of {}"  # of the array
_MANY = 8  # one trip in so many is worth being looked for
_LONG = 32  # a period of so many trips is, too


def plain(x: object) -> str:
    """An expression as a message has it."""
    return str(x).replace("(size_t)", "").replace("(long long)", "")


# ---------------------------------------------------------------- what a loop variable has a hand in
@dataclass(frozen=True)
class Said:
    """What a note calls an expression ("" for its text), and where the spec has it."""

    text: str
    mark: Mark | None


@dataclass
class Study:
    """What is found out of the loops whose trips are named in ``long``, as expressions are looked at.

    ``most``: of each loop the most trips that a CTA makes. ``crowd``: the CTAs that run, ``grid``: all (None: nothing
    is looked at). ``spots``: places in an array inside of a loop. ``meant_outside``: an array that the spec touches
    outside of a loop, too. ``meant_loops``: the loops of one name inside of which it does. ``apart``: an array, and a
    loop of which no two trips touch one element that is written. ``late``: of each loop the arrays without a rule.
    """

    long: set[str]
    places: Places
    most: Mapping[str, int]
    crowd: Crowd | None
    grid: Crowd | None
    courses: dict[str, list[Recurrence]] = field(default_factory=dict)
    reach: dict[str, int] = field(default_factory=dict)  # periods within which two trips can touch one place
    uncut: dict[str, Uncut] = field(default_factory=dict)
    seen: set[object] = field(default_factory=set)
    spots: dict[tuple[str, str], dict[Place, Said]] = field(default_factory=dict)
    meant_outside: set[tuple[str, str]] = field(default_factory=set)
    meant_loops: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    late: dict[str, list[Late]] = field(default_factory=dict)
    apart: set[tuple[str, str]] = field(default_factory=set)

    def look(
        self, x: Index, within: Within, said: Said, names_only: bool = False, finer: Index | None = None
    ) -> None:  # fmt: skip
        """Take an expression into account, which must repeat, or turn in few trips.

        ``names_only``: others name it and are looked at themselves. ``finer``: what must be the same where no rule is
        known.
        """
        named = names_of(x)
        for a in within.loops:
            key = x, a.v, names_only, within.trips, within.guards
            if not self.is_asked(a) or a.v.name not in named or key in self.seen:
                continue
            self.seen.add(key)
            found = self.courses_of((x,), a.v)
            is_known = None not in found and (names_only or not any(c.rise for c in found if c))
            common = join_recurrences(found) if is_known else None
            turns: Iterable[int] | None = None
            if self.is_late(common, a.loop):
                turns = () if names_only and self.crowd else self.find_turns(x if finer is None else finer, a, within)
            if not self.take(a.loop, common, found, turns):
                self.refuse_for(found, a.loop, said.text or plain(x), said.mark)

    def take(
        self, loop: str, common: Recurrence | None, found: Iterable[Recurrence | None], turns: Iterable[int] | None
    ) -> bool:  # fmt: skip
        """Take the better of a rule and of what was seen into account; False if there is neither."""
        seen = None if turns is None else Recurrence(breakpoints=tuple((n, n) for n in sorted(turns)))
        if seen is not None and (common is None or len(seen.breakpoints) <= len(common.breakpoints)):
            self.courses.setdefault(loop, []).append(seen)
        elif common is not None:
            self.courses.setdefault(loop, []).extend(c for c in found if c)
        else:
            return False
        return True

    def is_asked(self, a: Around) -> bool:
        """Of a loop of one trip nothing is left out."""
        return a.loop in self.long and a.v.bound - a.v.least > 1

    def courses_of(self, expressions: Iterable[Index], v: Var) -> set[Recurrence | None]:
        """How they go on in each of the CTAs."""
        return {
            recurrence(substitute(x, numbers), v)
            for x in expressions for numbers in self.numbers_for({u.name for u in variables(x)})
        }  # fmt: skip

    def is_late(self, common: Recurrence | None, loop: str) -> bool:
        """Is no rule known, or one by which many trips would run?"""
        if common is None or common.period > _LONG:
            return True
        return common.period > 1 and _MANY * common.period >= self.most[loop]

    def find_turns(self, x: Index, a: Around, within: Within) -> tuple[int, ...] | None:
        """The trips in which it is not what it was a trip before; None where that is not known."""
        return None if self.crowd is None else find_turns((x,), a.v, within.trips, within.guards, self.crowd)

    def numbers_for(self, named: set[str]) -> Iterable[Mapping[str, Index]]:
        """The numbers of each CTA, once for all that are alike in what is named."""
        return {tuple(n.get(name) for name in sorted(named)): n for n in self.places}.values()

    def refuse(self, name: str, what: str, mark: Mark | None) -> None:
        """The loop runs in full."""
        self.uncut.setdefault(name, Uncut(name, what, mark))

    def refuse_for(self, found: set[Recurrence | None], name: str, text: str, mark: Mark | None) -> None:
        way = "follows no rule that the proof knows" if None in found else "does not repeat as it runs"
        self.refuse(name, f"'{plain(text)}' {way}", mark)

    def note_place(
        self, array: str, begins: Sequence[Index], flat: Index, within: Within, said: Said, is_meant: bool = False
    ) -> None:  # fmt: skip
        """Remember a place in a global array, to be looked at beside all others there."""
        if is_meant:
            self.meant_outside |= {(array, loop) for loop in self.long - {a.loop for a in within.loops}}
        for a in filter(self.is_asked, within.loops):
            if is_meant:
                self.meant_loops.setdefault((array, a.loop), set()).add(a.repeat)
            place = Place(tuple(begins), flat, a.v, within.trips, within.guards, is_meant)
            self.spots.setdefault((array, a.loop), {}).setdefault(place, said)

    def settle_places(
        self, touches: Mapping[str, Sequence[ArrayTouch]], is_owned_apart: Callable[[str, str], bool]
    ) -> None:  # fmt: skip
        """Places in an array must all move on by constants, or all go along with the spec.

        ``touches``: of each array by the plan. ``is_owned_apart``: does the spec write no element of an array in two
        trips of a loop?
        """
        for (array, loop), spots in self.spots.items():
            courses = {p: self.courses_of([x for x in p.begins if p.v in variables(x)], p.v) for p in spots}
            known: set[Recurrence | None] = set().union(*courses.values())
            common = join_recurrences(known)
            turns, why = None, ""
            if self.is_late(common, loop):
                turns, why = self._goes_along(list(spots)), self._meets(touches.get(array, ()), loop)
                if why == _MAY_MEET and is_owned_apart(array, loop):  # places that go along lie in the spec's boxes
                    why = ""
            if why and common is None:
                self.refuse(loop, why.format(array), None)
            elif not self.take(loop, common, known, None if why else turns):
                said = next(said for p, said in spots.items() if None in courses[p])
                self.refuse_for(known, loop, said.text, said.mark)
            elif turns is not None and not why:
                self.apart.add((array, loop))
                own, meant = ([p for p in spots if p.is_meant == wanted] for wanted in (False, True))
                is_hoisted = self._is_hoisted(array, loop, touches.get(array, ()))
                self.late.setdefault(loop, []).append(Late(tuple(own), tuple(meant), is_hoisted))

    def _is_hoisted(self, array: str, loop: str, touches: Sequence[ArrayTouch]) -> bool:
        """Does the plan touch an array in fewer loops of that name than the spec, or outside of them alone?"""
        inside = {a.repeat for t in touches for a in t.loops if a.loop == loop}
        is_outside = any(loop not in [a.loop for a in t.loops] for t in touches)
        meant, meant_outside = self.meant_loops[array, loop], (array, loop) in self.meant_outside
        return len(inside) < len(meant) or (is_outside and not meant_outside)

    def find_exposed(self, loop: str, common: Recurrence, head: int) -> Recurrence | None:
        """What the trips that show data of another trip add to how a loop goes on; None for too much to look at."""
        found: set[int] = set()
        for late in self.late.get(loop, ()):
            exposed = None if self.crowd is None else find_exposed(late, common, head, self.crowd)
            if exposed is None:
                return None
            found |= exposed
        return Recurrence(breakpoints=tuple((n, n) for n in sorted(found)))

    def _meets(self, touches: Sequence[ArrayTouch], loop: str) -> str:
        """Why two trips may do something to each other in an array '{}'; "" if they cannot."""
        if not any(t.is_written for t in touches):
            return ""
        if any(t.is_read for t in touches):
            return "{} is read and written in an order without a rule"
        is_apart = self.grid is not None and are_apart(touches, loop, self.grid)
        return "" if is_apart else _MAY_MEET

    def _goes_along(self, places: Sequence[Place]) -> set[int] | None:
        """The trips in which some place does not go along with what the spec means; None where that is not known."""
        meant = next((p for p in places if p.is_meant), None)
        if meant is None or self.grid is None:
            return None
        found: set[int] = set()
        for p in places:
            turns = goes_along(p, meant, self.grid)
            if turns is None:
                return None
            found.update(turns)
        return found


def study_statement(study: Study, placed: Placed) -> None:
    """What the spec's own statement says of the loops around it."""
    s, values = placed.statement, placed.meant.values
    loops = (
        Around(one.number, "" if one.loop.unroll else one.trip.name, one.trip, one.count, one.number)
        for one in placed.meant.loops
    )
    within = Within(tuple(loops), placed.meant.guards)
    mark = getattr(s, "mark", None)
    for x in (*deciding(s), *wholes_of(s), *slots_of(s)):
        study.look(substitute(x, values), within, Said(str(x), mark))
    for region in s.regions.values() if isinstance(s, Call) else ():
        assert isinstance(s, Call)
        _study_region(study, region, values, within.under(substitute(s.when, values)))


def _study_region(study: Study, region: Region, values: Mapping[str, Index], within: Within) -> None:
    begins, said = [substitute(x, values) for x in region.begins], Said(region.text, region.mark)
    if not region.buffer.traits.is_array:
        for x in begins:
            study.look(x, within, said)
        return
    for x, length, extent in zip(begins, region.lengths, region.buffer.shape, strict=True):
        _study_side(study, x, length, extent, within, said)
    elements = [counter(f"element{d}", n) for d, n in enumerate(region.lengths)]
    at = [add(x, e) for x, e in zip(begins, elements, strict=True)]
    for flat in region.buffer.layout.place(at, region.buffer.shape).values():
        study.note_place(region.buffer.root, begins, flat, within, said, is_meant=True)


def _study_side(study: Study, at: Index, size: int, extent: Index, within: Within, said: Said) -> None:
    """What lies beyond the edges of an array is not read, nor written."""
    is_inside, part = less(add(at, size), add(extent, 1)), minimum(size, sub(extent, at))
    if isinstance(is_inside, Formula | Var):
        study.look(is_inside, within, said, finer=part)
    else:  # cut wherever it lies, or nowhere
        study.look(part, within, said)
    if least(at) < 0:
        study.look(less(at, 0), within, said, finer=minimum(at, 0))


# ---------------------------------------------------------------- what the plan does
def study_plan(study: Study, spec: Spec, plan: Plan) -> None:
    spots: dict[str, list[ArrayTouch]] = {}
    _study_signals(study, plan)
    numbers = count()
    for role in plan.roles:
        repeats: list[tuple[int, Repeat]] = []
        for visit in walk(role.steps, begin(role.threads)):
            loops = visit.position.loops
            del repeats[len(loops) :]
            around = (
                Around(number, "" if r.unroll else r.var.name, *n, r.loop)
                for (number, r), n in zip(repeats, loops, strict=True)
            )
            within = Within(tuple(around), visit.position.guards)
            _study_step(study, visit, within, mark_of(spec, visit.position.op), spots)
            repeats += [(next(numbers), visit.step)] if isinstance(visit.step, Repeat) else []
    study.settle_places(
        spots, lambda array, loop: study.grid is not None and are_owned_apart(spec, plan, array, loop, study.grid.case)
    )
    for name, touches in spots.items():
        if any(t.is_written for t in touches):
            _study_array(study, name, touches)


def _study_signals(study: Study, plan: Plan) -> None:
    """Roles that meet trips at an mbarrier or a sync have to leave out the same trips, of a loop of that name."""
    for name in study.long:
        bodies = {r.name: list(_bodies(r.steps, name)) for r in plan.roles}
        met = {x for own in bodies.values() for body in own for x in _signals(body)}
        for role in [r for r in plan.roles if not bodies[r.name]]:
            for place in sorted(met & _signals(role.steps))[:1]:
                study.refuse(name, f"role {role.name} meets it at {place}, and has no loop of that name", None)


def _bodies(steps: Sequence[Step], name: str) -> Iterable[tuple[Step, ...]]:
    return (s.body for s in flatten(steps) if isinstance(s, Repeat) and s.var.name == name)


def _signals(steps: Sequence[Step]) -> set[str]:
    """The mbarriers and syncs at which steps meet those of other roles."""
    found = {slot.barrier.name for s in flatten(steps) for slot in effects(s).slots}
    syncs = (s for s in flatten(steps) if isinstance(s, Sync))
    return found | {f"sync: {s.who}" for s in syncs if s.scope in ("roles", "cta", "cluster")}


def _study_step(
    study: Study, visit: Visit, within: Within, mark: Mark | None, spots: dict[str, list[ArrayTouch]]
) -> None:  # fmt: skip
    found, position = visit.effects, visit.position
    names_only = isinstance(visit.step, Let | Block | Tma)  # what they name is looked at where it is used
    for x in (*found.expressions, *(s.at for s in found.slots)):
        study.look(position.expand(x), within, Said("", mark), names_only)
    for x in peers_of(visit.step):
        study.look(position.expand(x), within, Said("", mark))
    for touch in found.touches:
        memory, flat = position.flat(touch.ref)
        said = Said(f"the place in {memory.name}", mark)
        where = position.expand(touch.where)
        study.look(where, within, Said("", mark))
        there = within.under(where)
        if memory.traits.is_array:
            study.note_place(memory.name, (flat,), flat, there, said)
            spots.setdefault(memory.name, []).append(spot_of_touch(visit, touch, within.loops))
        else:
            study.look(flat, there, said)
        for side in sides_of(visit, touch):
            _study_side(study, *side, there, Said(f"the box of {memory.name}", mark))


def _study_array(study: Study, name: str, touches: Sequence[ArrayTouch]) -> None:
    """The reach of each long loop around what touches an array that is written."""
    for a in dict.fromkeys(around for t in touches for around in t.loops if around.loop in study.long):
        if (name, a.loop) in study.apart:
            continue
        found = find_distance(touches, a.repeat, a.v, study.places)
        if isinstance(found, str):
            study.refuse(a.loop, found.format(name), None)
        else:
            study.reach[a.loop] = max(study.reach.get(a.loop, 0), found)
