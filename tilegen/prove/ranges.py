"""Every access inside its memory and aligned, for every CTA and every runtime size: no sampling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd

from tilegen.index import Index, Op, Var, add, bound, conjuncts, less, mul, multiple, substitute, to_c, variables
from tilegen.plan import (
    CLUSTER_AXES,
    CTA_AXES,
    MATRIX_ROW_ELEMS,
    Arrive,
    Await,
    Block,
    Let,
    Map,
    Memory,
    Move,
    Plan,
    Ref,
    Repeat,
    Slot,
    Step,
    Tma,
    When,
    matrices,
    thread_variables,
)  # fmt: skip
from tilegen.prove.bounds import is_below, undecided
from tilegen.prove.finding import UNPROVEN_ALIGNMENT, UNPROVEN_CLAIM, UNPROVEN_RANGE, Finding
from tilegen.prove.witness import find_witness


@dataclass(frozen=True)
class Spot:
    """What a memory's name stands for: a root and where in it the name begins."""

    root: Memory
    coordinates: tuple[Index, ...] | None
    flat: Index


@dataclass(frozen=True)
class Scope:
    """What is known at a step: names in terms of base variables, the guards that hold, where memories lie."""

    plan: Plan
    values: Mapping[str, Index]  # Lets, in base variables
    known: Mapping[str, Var]  # every name's definition
    spots: Mapping[str, Spot]  # of formals, and of the registers of the Block
    guards: tuple[Index, ...] = ()
    op: int = -1

    def expand(self, x: Index) -> Index:
        return substitute(x, self.values)

    def guarded(self, *conditions: Index) -> Scope:
        more = tuple(c for condition in conditions for c in conjuncts(self.expand(condition)))
        return replace(self, guards=self.guards + more)

    def is_below(self, x: Index, n: Index) -> bool:
        if is_below(x, n, self.guards):
            return True
        axes = thread_variables(self.plan.threads)  # laneid and warpid know of each other through tx
        x, n = substitute(x, axes), substitute(n, axes)
        return is_below(x, n, tuple(substitute(g, axes) for g in self.guards))

    def find(self, ref: Ref) -> Spot:
        spot = self.spots.get(ref.memory.name) or spot_of(ref.memory)
        own, flat = tuple(self.expand(x) for x in ref.at), self.expand(ref.offset)
        both: tuple[Index, ...] | None = None
        if spot.coordinates is not None and ref.memory.pitches == spot.root.pitches:
            both = tuple(add(a, b) for a, b in zip(spot.coordinates, own, strict=True))
        elif len(spot.root.shape) == 1:
            both = (add(spot.flat, flat),)
        return Spot(spot.root, both, add(spot.flat, flat))

    def report(self, code: str, memory: str, d: int, x: Index, n: Index, message: str, wrong: Index) -> Finding:
        witness = find_witness(self.plan, (wrong, *self.guards))
        if witness is not None:
            message += "; it is wrong for " + ", ".join(f"{k} = {v}" for k, v in witness.items())
        return Finding(code, message, "error", self.op, memory, d, to_c(x), to_c(n), witness)


def spot_of(memory: Memory) -> Spot:
    """A memory as it stands."""
    return Spot(memory, (0,) * len(memory.shape), 0)


def unproven_ranges(plan: Plan) -> tuple[Finding, ...]:
    """Every access that is not proved inside its memory and aligned, for every CTA and every runtime size."""
    known = {name: Var(name, bound(value)) for name, value in thread_variables(plan.threads).items()}
    known |= {name: Var(name, bound(n) - 1) for name, n in zip(CTA_AXES, plan.grid, strict=True)}
    known |= {name: Var(name, n) for name, n in zip(CLUSTER_AXES, plan.cluster, strict=True)}
    known |= {p.var.name: p.var for p in plan.params if p.var is not None}
    inside = tuple(less(known[a], n) for a, n in zip(CTA_AXES, plan.grid, strict=True) if not isinstance(n, int))
    scope = Scope(plan, {}, known, {}).guarded(*inside)
    found: dict[Finding, None] = {}
    for role in plan.roles:
        found.update(dict.fromkeys(_visit(role.steps, scope)))
    return tuple(found)


def _visit(steps: Iterable[Step], scope: Scope) -> Iterator[Finding]:
    for step in steps:
        if isinstance(step, Let):
            yield from _claims((step.value,), scope)
            scope = replace(scope, values={**scope.values, step.var.name: scope.expand(step.value)},
                            known={**scope.known, step.var.name: step.var})  # fmt: skip
            yield from _claim(step.var, scope)
        elif isinstance(step, Repeat):
            yield from _visit_repeat(step, scope)
        elif isinstance(step, When):
            yield from _claims((step.condition,), scope)
            yield from _visit(step.body, scope.guarded(step.condition))
        elif isinstance(step, Block):
            yield from _visit_block(step, scope)
        elif isinstance(step, Move):
            yield from _access(step.src, *_reach(step, step.src, scope.guarded(step.valid)))
            yield from _access(step.dst, *_reach(step, step.dst, scope))
        elif isinstance(step, Tma):
            yield from _claims(step.at, scope)
            yield from _box(step, scope)
            if step.done:
                yield from _slot(step.done, scope)
        elif isinstance(step, Arrive | Await):
            yield from _claims((step.parity,) if isinstance(step, Await) else (), scope)
            yield from _slot(step.slot, scope)
        elif isinstance(step, Map):
            for ref in (step.dst, *step.srcs):
                yield from _access(ref, step.elems, scope)


def _reach(move: Move, ref: Ref, scope: Scope) -> tuple[int, Scope]:
    """How many elements one side touches from its Ref on, and where: a matrix row, for the lanes that give rows."""
    if not matrices(move) or ref.memory.space == "register":
        return move.elems, scope
    return MATRIX_ROW_ELEMS, scope.guarded(less(Var("laneid", 32), MATRIX_ROW_ELEMS * matrices(move)))


def _visit_repeat(step: Repeat, scope: Scope) -> Iterator[Finding]:
    yield from _claims((step.count,), scope)
    count, var = scope.expand(step.count), step.var
    values = {k: v for k, v in scope.values.items() if k != var.name}
    rounds = Var(var.name, max(1, bound(count) - 1))
    inner = replace(scope, values={**values, var.name: rounds}, known={**scope.known, var.name: var})
    yield from _claim(var, inner)
    yield from _visit(step.body, inner.guarded(True if isinstance(count, int) else less(rounds, count)))


def _claims(expressions: Iterable[Index], scope: Scope) -> Iterator[Finding]:
    """The ranges that variables of an expression claim, and its differences, which must not be negative."""
    for x in expressions:
        for var in variables(x):
            if var is not scope.known.get(var.name) and var != scope.known.get(var.name):
                yield from _claim(var, scope)
        for difference in _differences(x):
            up, down = (scope.expand(part) for part in difference.args)
            if not scope.is_below(down, add(up, 1)):
                message = f"{to_c(difference)} may be negative"
                yield scope.report(UNPROVEN_CLAIM, "", -1, difference, 0, message, undecided(up, down))


def _differences(x: Index) -> list[Op]:
    if not isinstance(x, Op):
        return []
    return [d for a in x.args for d in _differences(a)] + ([x] if x.symbol == "-" else [])


def _claim(var: Var, scope: Scope) -> Iterator[Finding]:
    """least <= value < bound in steps of step, for a variable as it stands in an expression."""
    if var.name not in scope.known:
        yield Finding(UNPROVEN_CLAIM, f"{var.name} is not defined here", op=scope.op, expression=var.name)
        return
    value = scope.expand(scope.known[var.name])
    is_high_enough = var.least == 0 or scope.is_below(var.least - 1, value)
    if not scope.is_below(value, var.bound) or not is_high_enough:
        message = f"{var.name} = {to_c(value)} is not proved to lie in [{var.least}, {var.bound})"
        yield scope.report(UNPROVEN_CLAIM, "", -1, value, var.bound, message, undecided(var.bound - 1, value))
    step = value.step if isinstance(value, Var) else multiple(value)
    if step % var.step:
        message = f"{var.name} = {to_c(value)} is not proved to be a multiple of {var.step}"
        yield scope.report(UNPROVEN_CLAIM, "", -1, value, var.bound, message, undecided(0, value % var.step))


def _visit_block(step: Block, scope: Scope) -> Iterator[Finding]:
    spots, inner = {m.name: spot_of(m) for m in step.registers}, scope
    for formal, actual in step.args:
        if isinstance(actual, Ref):
            yield from _claims(actual.at, scope)
            spots[formal.name] = scope.find(actual)
        else:
            yield from _claims((actual,), scope)
            inner = replace(inner, values={**inner.values, formal.name: scope.expand(actual)},
                            known={**inner.known, formal.name: formal})  # fmt: skip
            yield from _claim(formal, inner)
    op = step.op if step.op >= 0 else scope.op
    yield from _visit(step.body, replace(inner, spots={**inner.spots, **spots}, op=op))


# ---------------------------------------------------------------- one access
def _access(ref: Ref, elems: int, scope: Scope) -> Iterator[Finding]:
    yield from _claims(ref.at, scope)
    if ref.memory.name not in scope.spots and ref.memory not in scope.plan.memories:
        message = f"{ref.memory.name} is used as {ref.memory.shape}:{ref.memory.pitches}, which the plan does not have"
        yield Finding(UNPROVEN_CLAIM, message, "error", scope.op, ref.memory.name)
    spot = scope.find(ref)
    memory, name = spot.root, spot.root.name
    if spot.coordinates is None:
        span = memory.span
        if not isinstance(span, int):
            message = f"{name} has runtime extents: an access by flat offset is not proved"
            yield Finding(UNPROVEN_RANGE, message, "error", scope.op, name, -1, to_c(spot.flat), to_c(span))
        elif not scope.is_below(add(spot.flat, elems - 1), span):
            yield _outside(scope, name, -1, spot.flat, span, elems)
    else:
        flat = len(memory.shape) == 1
        for d, (x, n) in enumerate(zip(spot.coordinates, memory.shape, strict=True)):
            last = elems - 1 if flat and not _steps_by(x, n, elems) else 0
            if not scope.is_below(add(x, last), n):
                yield _outside(scope, name, d, x, n, last + 1)
        if elems > 1 and not flat:
            yield from _vector(spot, elems, scope)
    if elems > 1 and memory.space != "register":
        yield from _alignment(spot, elems, scope)


def _box(step: Tma, scope: Scope) -> Iterator[Finding]:
    """A box lies inside its shared memory, and begins where TMA can put it."""
    yield from _claims(step.shared.at, scope)
    spot = scope.find(step.shared)
    memory, elems = spot.root, step.map.box_bytes // spot.root.elem_bytes
    if not scope.is_below(add(spot.flat, elems - 1), memory.span):
        yield _outside(scope, memory.name, -1, spot.flat, memory.span, elems)
    align = step.map.align_bytes
    if memory.offset_bytes % align or multiple(spot.flat) * memory.elem_bytes % align:
        message = f"a box of {memory.name} begins at offset {to_c(spot.flat)}: not proved a multiple of {align} bytes"
        yield Finding(UNPROVEN_ALIGNMENT, message, "error", scope.op, memory.name, -1, to_c(spot.flat), str(align))


def _slot(slot: Slot, scope: Scope) -> Iterator[Finding]:
    yield from _claims((slot.at,), scope)
    if not scope.is_below(scope.expand(slot.at), slot.barrier.slots):
        yield _outside(scope, slot.barrier.name, -1, slot.at, slot.barrier.slots, 1)


def _steps_by(x: Index, n: Index, elems: int) -> bool:
    """x < n is enough for a vector: both are multiples of its length."""
    return multiple(x) % elems == 0 and multiple(n) % elems == 0


def _outside(scope: Scope, name: str, d: int, x: Index, n: Index, elems: int) -> Finding:
    where = f"dimension {d} of {name}" if d >= 0 else f"offset of {name}"
    text = to_c(x) + (f" .. + {elems - 1}" if elems > 1 else "")
    message = f"{where}: {text} is not proved to stay below {to_c(n)}"
    return scope.report(UNPROVEN_RANGE, name, d, x, n, message, undecided(n, add(x, elems)))


def _vector(spot: Spot, elems: int, scope: Scope) -> Iterator[Finding]:
    """A vector stays in the rows that lie densely around its first element."""
    memory, coordinates = spot.root, spot.coordinates
    assert coordinates is not None
    run, size = dense_run(memory)
    position: Index = 0
    for d in run:
        position = add(position, mul(coordinates[d], memory.pitches[d]))
    if _steps_by(position, size, elems) or scope.is_below(add(position, elems - 1), size):
        return
    if not run:
        message = f"{elems} consecutive elements of {memory.name}, whose elements never touch"
        yield Finding(UNPROVEN_RANGE, message, "error", scope.op, memory.name, expression=to_c(spot.flat))
    elif not scope.is_below(add(coordinates[run[0]], elems - 1), memory.shape[run[0]]):
        yield _outside(scope, memory.name, run[0], coordinates[run[0]], memory.shape[run[0]], elems)


def _alignment(spot: Spot, elems: int, scope: Scope) -> Iterator[Finding]:
    memory, name = spot.root, spot.root.name
    width = elems * memory.elem_bytes
    start = memory.align_bytes if memory.space == "global" else memory.offset_bytes
    if start % width:
        what = "is aligned to" if memory.space == "global" else "starts at"
        message = f"{width}-byte access of {name}, which {what} {start} bytes"
        yield Finding(UNPROVEN_ALIGNMENT, message, "error", scope.op, name, -1, to_c(spot.flat), str(width))
    parts = multiple(spot.flat)
    if spot.coordinates is not None:
        by_dimension = (multiple(x) * multiple(p) for x, p in zip(spot.coordinates, memory.pitches, strict=True))
        parts = max(parts, gcd(*by_dimension), key=lambda m: gcd(m, elems))
    if parts % elems and not scope.is_below(spot.flat % elems, 1):
        message = f"{width}-byte access of {name}: offset {to_c(spot.flat)} is not proved to be a multiple of {elems}"
        wrong = undecided(0, spot.flat % elems)
        yield scope.report(UNPROVEN_ALIGNMENT, name, -1, spot.flat, elems, message, wrong)


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
