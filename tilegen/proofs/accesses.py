"""What can be proved where a step stands: of integers that the text relies on, and of one access of memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import gcd

from tilegen.index import (
    Index,
    Var,
    add,
    bound,
    dividends,
    least,
    mul,
    multiple,
    substitute,
    to_c,
    total,
    variables,
)
from tilegen.index.bounds import is_below, undecided
from tilegen.index.linear import has_room, linear
from tilegen.index.remainders import remainder
from tilegen.plan import (
    Memory,
    Plan,
    Position,
    Ref,
    Spot,
    Touch,
    plain_name,
    subscript,
)
from tilegen.proofs.finding import UNPROVEN_ALIGNMENT, UNPROVEN_CLAIM, UNPROVEN_RANGE, Finding, find_witness
from tilegen.scopes import thread_variables


@dataclass(frozen=True)
class ProofPlace:
    """Where a step stands in a role of a plan, and what can be proved there."""

    plan: Plan
    position: Position

    def at(self, position: Position) -> ProofPlace:
        return ProofPlace(self.plan, position)

    def is_below(self, x: Index, n: Index) -> bool:
        guards = self.position.guards
        if bound(x) <= least(n) or is_below(x, n, guards):
            return True
        axes = thread_variables(self.position.threads)  # laneid and warpid know of each other through tx
        x, n = substitute(x, axes), substitute(n, axes)
        return is_below(x, n, tuple(substitute(g, axes) for g in guards))

    def report(
        self, code: str, message: str, x: Index, n: Index, wrong: Index, of: tuple[str, int] = ("", -1)
    ) -> Finding:
        """``x`` is not proved to be as ``n`` asks, with a case in which ``wrong`` holds. ``of``: memory, dimension."""
        found = find_witness(self.plan, self.position.threads, (wrong, *self.position.guards))
        witness = None if found is None else {plain_name(k): v for k, v in found.items()}
        if witness is not None:
            message += "; it is wrong for " + ", ".join(f"{k} = {v}" for k, v in witness.items())
        return Finding(code, message, "error", self.position.op, *of, say(x), say(n), witness)


def say(x: Index) -> str:
    """The C text of an expression, its loop variables called what the kernel calls them."""
    return re.sub(r"\b(\w+?)__\d+\b", r"\1", to_c(x))


def claims(expressions: Iterable[Index], place: ProofPlace) -> Iterator[Finding]:
    """The ranges that variables of an expression claim, and what of it is divided, which must not be negative."""
    position = place.position
    for x in expressions:
        for var in variables(x):
            known = position.known.get(var.name)
            if known is None:
                message = f"{var.name} is not defined here"
                yield Finding(UNPROVEN_CLAIM, message, op=position.op, expression=var.name)
            elif var is not known and var != known:
                yield from claim(var, position.expand(known), place)
        for dividend, condition in dividends(x):
            here, part = place.at(position.under(condition)), position.expand(dividend)
            if not here.is_below(-1, part):
                message = f"{to_c(dividend)} may be negative"
                yield here.report(UNPROVEN_CLAIM, message, dividend, 0, undecided(part, 0))


def claim(var: Var, value: Index, place: ProofPlace) -> Iterator[Finding]:
    """least <= value < bound in steps of step, for a variable as it stands in an expression."""
    is_high_enough = place.is_below(var.least - 1, value)
    if not place.is_below(value, var.bound) or not is_high_enough:
        message = f"{var.name} = {say(value)} is not proved to lie in [{var.least}, {var.bound})"
        yield place.report(UNPROVEN_CLAIM, message, value, var.bound, undecided(var.bound - 1, value))
    step = value.step if isinstance(value, Var) else multiple(value)
    if step % var.step:
        message = f"{var.name} = {say(value)} is not proved to be a multiple of {var.step}"
        yield place.report(UNPROVEN_CLAIM, message, value, var.bound, undecided(0, value % var.step))


def access_findings(touch: Touch, place: ProofPlace) -> Iterator[Finding]:
    """Each thread's consecutive elements, where it touches them."""
    ref, elems, place = touch.ref, touch.elems, place.at(place.position.under(touch.where))
    yield from claims(ref.at, place)
    yield from memory_findings(ref, place)
    spot = place.position.find(ref)
    memory, name = spot.root, spot.root.name
    if spot.coordinates is None:
        span = total((c, factor) for factor, c in linear(memory.span).items())
        last = 0 if _steps_by(spot.flat, span, elems) else elems - 1
        if not place.is_below(add(spot.flat, last), span):
            yield outside(place, name, -1, spot.flat, span, last + 1)
        if not place.is_below(-1, spot.flat):
            yield before(place, name, -1, spot.flat)
    else:
        flat = len(memory.shape) == 1
        for d, (x, n) in enumerate(zip(spot.coordinates, memory.shape, strict=True)):
            last = elems - 1 if flat and not _steps_by(x, n, elems) else 0
            if not place.is_below(add(x, last), n):
                yield outside(place, name, d, x, n, last + 1)
            if not place.is_below(-1, x):
                yield before(place, name, d, x)
        if elems > 1 and not flat:
            yield from _vector(spot, elems, place)
    if not memory.traits.is_held:
        yield from _alignment(spot, elems * memory.elem_bytes, place)
    elif touch.word_bytes > memory.elem_bytes:
        yield from _alignment(spot, touch.word_bytes, place)


def memory_findings(ref: Ref, place: ProofPlace) -> Iterator[Finding]:
    """The text of a place is its offset; its memory is one of the plan's, or what a function calls it.

    A memory of the plan is aligned as the first of its name is declared.
    """
    if not is_printed(ref):
        text = to_c(subscript(ref))
        message = f"{ref.memory.name}[{text}] is not proved to be at the offset {say(ref.offset)}"
        yield Finding(UNPROVEN_CLAIM, message, "error", place.position.op, ref.memory.name, -1, text)
    memory, position = ref.memory, place.position
    if memory.name in position.spots:
        return
    declared = next((m for m in place.plan.memories if m.name == memory.name), memory)
    if memory not in place.plan.memories or declared.align_bytes % memory.align_bytes:
        message = f"{memory.name} is used as {_say_memory(memory)}, which the plan does not have"
        yield Finding(UNPROVEN_CLAIM, message, "error", position.op, memory.name)


def is_printed(ref: Ref) -> bool:
    """Is what stands between the brackets the offset, for all values, and computed in a type that holds it?

    Both are written out anew, with each variable under another name.
    """
    printed, offset = subscript(ref), ref.offset
    if printed == offset:
        return True
    renamed: dict[str, Index] = {v.name: replace(v, name=f"{v.name}'") for x in (printed, offset) for v in variables(x)}
    sums = [linear(substitute(x, renamed)) for x in (printed, offset)]
    return has_room(printed) and {f: c for f, c in sums[0].items() if c} == {f: c for f, c in sums[1].items() if c}


def _say_memory(memory: Memory) -> str:
    lies = f" at byte {memory.offset_bytes}" if memory.traits.is_pooled else ""
    return f"{memory.shape}:{memory.pitches}{lies}, aligned to {memory.align_bytes} bytes"


def _steps_by(x: Index, n: Index, elems: int) -> bool:
    """x < n is enough for a vector: both are multiples of its length."""
    return multiple(x) % elems == 0 and multiple(n) % elems == 0


def outside(place: ProofPlace, name: str, d: int, x: Index, n: Index, elems: int) -> Finding:
    text = say(x) + (f" .. + {elems - 1}" if elems > 1 else "")
    message = f"{_part_of(name, d)}: {text} is not proved to stay below {say(n)}"
    return place.report(UNPROVEN_RANGE, message, x, n, undecided(n, add(x, elems)), (name, d))


def before(place: ProofPlace, name: str, d: int, x: Index, low: int = 0) -> Finding:
    message = f"{_part_of(name, d)}: {say(x)} is not proved to be {low} or more"
    return place.report(UNPROVEN_RANGE, message, x, low, undecided(x, low), (name, d))


def _part_of(name: str, d: int) -> str:
    return f"dimension {d} of {name}" if d >= 0 else f"offset of {name}"


def _vector(spot: Spot, elems: int, place: ProofPlace) -> Iterator[Finding]:
    """A vector stays in the rows that lie densely around its first element."""
    memory, coordinates = spot.root, spot.coordinates
    assert coordinates is not None
    run, size = dense_run(memory)
    position: Index = 0
    for d in run:
        position = add(position, mul(coordinates[d], memory.pitches[d]))
    if _steps_by(position, size, elems) or place.is_below(add(position, elems - 1), size):
        return
    if not run:
        message = f"{elems} consecutive elements of {memory.name}, whose elements never touch"
        yield Finding(UNPROVEN_RANGE, message, "error", place.position.op, memory.name, expression=say(spot.flat))
    elif not place.is_below(add(coordinates[run[0]], elems - 1), memory.shape[run[0]]):
        yield outside(place, memory.name, run[0], coordinates[run[0]], memory.shape[run[0]], elems)


def _alignment(spot: Spot, width: int, place: ProofPlace) -> Iterator[Finding]:
    """What is accessed in words of so many bytes begins at a multiple of them."""
    memory, name, elems = spot.root, spot.root.name, width // spot.root.elem_bytes
    yield from misplaced(memory, width, f"{width}-byte access", place)
    parts = multiple(spot.flat)
    if spot.coordinates is not None:
        by_dimension = (multiple(x) * multiple(p) for x, p in zip(spot.coordinates, memory.pitches, strict=True))
        parts = max(parts, gcd(*by_dimension), key=lambda m: gcd(m, elems))
    if parts % elems and not place.is_below(rest := remainder(spot.flat, elems), 1):
        message = f"{width}-byte access of {name}: offset {say(spot.flat)} is not proved to be a multiple of {elems}"
        yield place.report(UNPROVEN_ALIGNMENT, message, spot.flat, elems, undecided(0, rest), (name, -1))


def misplaced(memory: Memory, width: int, what: str, place: ProofPlace) -> Iterator[Finding]:
    """A memory begins at a multiple of ``width`` bytes, as it is declared and where it lies in the pool."""
    lies = {"is aligned to": memory.begins_at, "starts at": memory.offset_bytes}
    for how, bytes_ in lies.items():
        if bytes_ % width:
            message = f"{what} of {memory.name}, which {how} {bytes_} bytes: {width} are asked for"
            yield Finding(UNPROVEN_ALIGNMENT, message, "error", place.position.op, memory.name, -1, "", str(width))


def dense_run(memory: Memory) -> tuple[tuple[int, ...], Index]:
    """The dimensions that lie densely from pitch 1 on, innermost first, and how many elements they hold.

    >>> dense_run(Memory("x", "float32", (8, 4, 32), (200, 32, 1), "global"))
    ((2, 1), 128)
    """
    run: list[int] = []
    size: Index = 1
    while True:
        found = [d for d, p in enumerate(memory.pitches) if d not in run and p == size and memory.shape[d] != 1]
        if not found:
            return tuple(run), size
        run.append(found[0])
        size = mul(memory.shape[found[0]], size)
