"""The one way through a plan: every step in its order, with what names stand for there and which conditions hold.

Let, Repeat, When and Block are resolved on the way: a place or an expression can be written out in base variables,
which are the axes of threads and CTAs, the runtime parameters, and one variable for each loop around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilegen.index import Index, Var, add, bound, consequences, less, substitute
from tilegen.plan.contents import Contents, value_of_fetch
from tilegen.plan.effects import Effects, UnknownStep, effects
from tilegen.plan.memories import Memory, Ref
from tilegen.plan.steps import Block, Fetch, Let, Pick, Repeat, Step, When


@dataclass(frozen=True)
class Spot:
    """What a memory's name stands for: a memory of the plan (or of a function), and where in it the name begins.

    ``coordinates`` is None where only the flat offset is known.
    """

    root: Memory
    coordinates: tuple[Index, ...] | None
    flat: Index


@dataclass(frozen=True)
class Position:
    """Where a step stands, in a role of so many ``threads``, everything written out in base variables.

    ``values``: names that stand for expressions. ``known``: each name's definition, whose range the text relies on.
    ``spots``: of formals, and of the registers of functions. ``loops``: a variable and a count for each loop around.
    ``spec_loops``: the number of the spec's loop that each of those is, -1 for none. ``contents``: what tables hold;
    None: that is not known, and an element is a base variable. ``is_open``: so is an integer that a thread picks; else
    one number stands for all that it may be, which places and guards then depend on by all else.
    """

    threads: int
    values: Mapping[str, Index]
    known: Mapping[str, Var]
    spots: Mapping[str, Spot]
    guards: tuple[Index, ...] = ()
    loops: tuple[tuple[Var, Index], ...] = ()
    op: int = -1
    spec_loops: tuple[int, ...] = ()
    contents: Contents | None = None
    is_open: bool = False
    picked: frozenset[str] = frozenset()  # names for which one number stands so

    def expand(self, x: Index) -> Index:
        """``x`` in base variables."""
        return substitute(x, self.values)

    def under(self, *conditions: Index) -> Position:
        """The same place where these conditions hold too."""
        more = tuple(c for condition in conditions for c in consequences(self.expand(condition)))
        return replace(self, guards=self.guards + more) if more else self

    def flat(self, ref: Ref) -> tuple[Memory, Index]:
        """The memory of the plan that a place is in, and its element offset there."""
        spot, offset = self.spots.get(ref.memory.name), self.expand(ref.offset)
        return (ref.memory, offset) if spot is None else (spot.root, add(spot.flat, offset))

    def find(self, ref: Ref) -> Spot:
        """The place that a Ref is, by its coordinates too where the names on the way keep those."""
        spot = self.spots.get(ref.memory.name) or spot_of(ref.memory)
        own, flat = tuple(self.expand(x) for x in ref.at), self.expand(ref.offset)
        both: tuple[Index, ...] | None = None
        if spot.coordinates is not None and ref.memory.pitches == spot.root.pitches:
            both = tuple(add(a, b) for a, b in zip(spot.coordinates, own, strict=True))
        elif spot.root.pitches == (1,):
            both = (add(spot.flat, flat),)
        return Spot(spot.root, both, add(spot.flat, flat))

    def define(self, var: Var, value: Index) -> Position:
        """After ``var`` was defined as a value that is already written out."""
        return replace(self, values={**self.values, var.name: value}, known={**self.known, var.name: var})

    def fetch(self, step: Fetch) -> Position:
        """After an element of a table was read."""
        if self.contents is not None:  # which keep what is promised
            named = self.define(step.var, self.expand(value_of_fetch(step, self.contents)))
            return named.define(step.test.kept, 1) if step.test else named
        named = self.define(step.test.kept, step.test.kept) if step.test else self
        return named.define(step.var, step.var).under(*step.known)

    def pick(self, step: Pick) -> Position:
        """After a thread took an integer that it holds for a place."""
        if self.is_open:
            return self.define(step.var, step.var).under(*step.known)
        inside = self.define(step.var, min(max(step.var.least, 0), step.var.bound - 1))
        return replace(inside, picked=self.picked | {step.var.name})


def spot_of(memory: Memory) -> Spot:
    """A memory as it stands."""
    return Spot(memory, (0,) * len(memory.shape), 0)


def begin(
    threads: int, values: Mapping[str, Index] | None = None, known: Mapping[str, Var] | None = None,
    contents: Contents | None = None, is_open: bool = False,
) -> Position:  # fmt: skip
    """The start of a role: its threads, names that are written out as others, what is known of the kernel's variables,
    what tables hold, and whether integers that threads pick are base variables.
    """
    return Position(threads, dict(values or {}), dict(known or {}), {}, contents=contents, is_open=is_open)


@dataclass(frozen=True)
class Visit:
    """A step, what it touches, and where it stands (before it has defined anything)."""

    step: Step
    effects: Effects
    position: Position


def walk(steps: Iterable[Step], position: Position) -> Iterator[Visit]:
    """Every step, depth first, each before its body. Raises UnknownStep for a kind of step that nobody knows."""
    for step in steps:
        found = effects(step)
        yield Visit(step, found, position)
        if isinstance(step, Let):
            position = position.define(step.var, position.expand(step.value))
        elif isinstance(step, Fetch):
            position = position.fetch(step)
        elif isinstance(step, Pick):
            position = position.pick(step)
        enter = ENTER.get(type(step))
        if found.body and enter is None:
            raise UnknownStep("plan/walk.py", step)
        if enter is not None:
            yield from walk(found.body, enter(step, position))


# ---------------------------------------------------------------- bodies
def enter_repeat(step: Repeat, position: Position) -> Position:
    """Inside a loop: its variable is a base variable of its own, told from others of that name by its depth."""
    count = position.expand(step.count)
    trip = Var(trip_name(step.var, len(position.loops)), max(1, bound(count) - 1))
    inside = position.define(step.var, trip)
    inside = replace(inside, loops=(*position.loops, (trip, count)), spec_loops=(*position.spec_loops, step.loop))
    return inside if isinstance(count, int) else inside.under(less(trip, count))


def trip_name(var: Var, depth: int) -> str:
    """The base variable of a loop: a name that no spec may give."""
    return f"{var.name}__{depth}"


def plain_name(name: str) -> str:
    """The name that a base variable has in the kernel.

    >>> plain_name("k__0"), plain_name("k__trip__1"), plain_name("bx")
    ('k', 'k__trip', 'bx')
    """
    plain, _, depth = name.rpartition("__")
    return plain if depth.isdecimal() and plain else name


def _enter_block(step: Block, position: Position) -> Position:
    spots, inside = {m.name: spot_of(m) for m in step.registers}, position
    for formal, actual in step.args:
        if isinstance(actual, Ref):
            spots[formal.name] = position.find(actual)
        else:
            inside = inside.define(formal, position.expand(actual))
    op = step.op if step.op >= 0 else position.op
    return replace(inside, spots={**inside.spots, **spots}, op=op)


ENTER: dict[type, Callable[[Any, Position], Position]] = {
    Repeat: enter_repeat,
    When: lambda step, position: position.under(step.condition),
    Block: _enter_block,
}
