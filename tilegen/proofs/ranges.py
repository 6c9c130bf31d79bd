"""Every access inside its memory and aligned, for every CTA and every runtime size: no sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from tilegen.arch.data import TensorMemory
from tilegen.index import (
    INT_LIMIT,
    Index,
    Var,
    add,
    bound,
    mod,
    mul,
    multiple,
)
from tilegen.layouts.core.cells import COLUMN_BYTES
from tilegen.plan import (
    Arrive,
    Block,
    Let,
    Plan,
    Ref,
    Repeat,
    Role,
    Slot,
    Step,
    TensorMap,
    Tma,
    Touch,
    UnknownStep,
    Visit,
    begin,
    walk,
)
from tilegen.plan.descriptors import CHUNK_BYTES
from tilegen.plan.instructions import ALL_LANES, BOX, FRAGMENT, LANES, MATRIX, ROWS, THREAD
from tilegen.plan.walk import enter_repeat
from tilegen.proofs.accesses import (
    ProofPlace,
    access_findings,
    before,
    claim,
    claims,
    memory_findings,
    misplaced,
    outside,
    say,
)
from tilegen.proofs.finding import UNPROVEN_ALIGNMENT, Finding
from tilegen.scopes import SCOPES, cta_variables, inside_grid, thread_variables


def unproven_ranges(plan: Plan) -> tuple[Finding, ...]:
    """Every access that is not proved inside its memory and aligned, for every CTA and every runtime size."""
    found: dict[Finding, None] = {}
    for role in plan.roles:
        start = begin_role(plan, role)
        for visit in walk(role.steps, start.position):
            found.update(dict.fromkeys(_check(visit, start.at(visit.position))))
    return tuple(found)


def begin_role(plan: Plan, role: Role) -> ProofPlace:
    """The first step of a role: what its variables are known to be."""
    known = {name: Var(name, bound(value)) for name, value in thread_variables(role.threads).items()}
    known |= cta_variables(plan.grid, plan.cluster)
    known |= {p.var.name: p.var for p in plan.params if p.var is not None}
    return ProofPlace(plan, begin(role.threads, known=known, is_open=True).under(*inside_grid(plan.grid, plan.cluster)))


def _check(visit: Visit, place: ProofPlace) -> Iterator[Finding]:
    """What is not proved of one step; its body is visited by itself."""
    yield from claims(visit.effects.expressions, place)
    for base in visit.effects.bases:
        yield from claims(base.at, place)
        yield from memory_findings(base, place)
    for touch in visit.effects.touches:
        if touch.lies not in TOUCHES:
            raise UnknownStep("proofs of ranges", visit.effects.instruction)
        yield from TOUCHES[touch.lies](touch, place)
    for slot in visit.effects.slots:
        yield from _slot(slot, place)
    step, position = visit.step, visit.position
    yield from _ranks(step, place)
    if isinstance(step, Let):
        yield from claim(step.var, position.expand(step.value), place)
    elif isinstance(step, Repeat):
        inside = enter_repeat(step, position)
        yield from claim(step.var, inside.values[step.var.name], place.at(inside))
    elif isinstance(step, Block):
        for formal, actual in step.args:
            if not isinstance(actual, Ref):
                yield from claim(formal, position.expand(actual), place)


# ---------------------------------------------------------------- what lies in memory in other ways
def _box(touch: Touch, place: ProofPlace) -> Iterator[Finding]:
    """A box lies inside its shared memory, and begins where TMA can put it; its coordinates in the array are ints.

    Outside of it TMA reads zeros, and writes nothing behind its end; no store begins before it (docs/access-model.md).
    """
    assert touch.map is not None
    if touch.ref.memory.traits.is_array:
        yield from claims(touch.ref.at, place)
        yield from memory_findings(touch.ref, place)
        yield from misplaced(touch.ref.memory, CHUNK_BYTES, "a box", place)
        for d, x in enumerate(touch.ref.at):
            c, first = place.position.expand(x), 0 if touch.writes else -INT_LIMIT
            if not place.is_below(first - 1, c):
                yield before(place, touch.ref.memory.name, d, c, first)
            if not place.is_below(c, INT_LIMIT):
                yield outside(place, touch.ref.memory.name, d, c, INT_LIMIT, 1)
        yield from _along_rows(touch.map, place.position.expand(touch.ref.at[touch.map.dims[-1]]), touch.writes, place)
        return
    yield from claims(touch.ref.at, place)
    yield from memory_findings(touch.ref, place)
    spot = place.position.find(touch.ref)
    memory, elems = spot.root, touch.elems
    if not place.is_below(add(spot.flat, elems - 1), memory.span):
        yield outside(place, memory.name, -1, spot.flat, memory.span, elems)
    if not place.is_below(-1, spot.flat):
        yield before(place, memory.name, -1, spot.flat)
    align = touch.map.align_bytes
    yield from misplaced(memory, align, "a box", place)
    if multiple(spot.flat) * memory.elem_bytes % align:
        message = f"a box of {memory.name} begins at offset {say(spot.flat)}: not proved a multiple of {align} bytes"
        op = place.position.op
        yield Finding(UNPROVEN_ALIGNMENT, message, "error", op, memory.name, -1, say(spot.flat), str(align))


def _along_rows(m: TensorMap, at: Index, writes: bool, place: ProofPlace) -> Iterator[Finding]:
    """A box begins at whole chunks of a row; one that TMA stores ends where its array does, or before."""
    name, d, extent, last = m.memory.name, m.dims[-1], m.memory.shape[m.dims[-1]], add(at, m.box[-1] - 1)
    if not m.begins_whole(at):
        message = f"a box of {name} begins at {say(at)} of dimension {d}: not proved a multiple of {CHUNK_BYTES} bytes"
        yield Finding(UNPROVEN_ALIGNMENT, message, "error", place.position.op, name, d, say(at), str(CHUNK_BYTES))
    if writes and not m.keeps_to_ends(at) and not place.is_below(last, extent):
        yield outside(place, name, d, at, extent, m.box[-1])


def _matrix(touch: Touch, place: ProofPlace) -> Iterator[Finding]:
    """A matrix that wgmma reads lies inside its shared memory, and begins where its chunks trade places as described.

    Chunks trade places inside of ``swizzle_bytes`` alone: what begins and ends on those is left by none of them.
    """
    assert touch.matrix is not None
    yield from claims(touch.ref.at, place)
    yield from memory_findings(touch.ref, place)
    spot, matrix = place.position.find(touch.ref), touch.matrix
    memory, size, pattern = spot.root, spot.root.elem_bytes, matrix.pattern_bytes
    elems = matrix.span_bytes // size
    if not place.is_below(add(spot.flat, elems - 1), memory.span):
        yield outside(place, memory.name, -1, spot.flat, memory.span, elems)
    if not place.is_below(-1, spot.flat):
        yield before(place, memory.name, -1, spot.flat)
    byte = mul(spot.flat, size)
    whole = isinstance(memory.span, int) and memory.span * size % max(1, matrix.swizzle_bytes) == 0
    lies = memory.offset_bytes % pattern == 0 and memory.align_bytes % pattern == 0 and whole
    begins = multiple(byte) % pattern == 0 or (
        multiple(byte) % CHUNK_BYTES == 0 and place.is_below(mod(byte, pattern), matrix.room_bytes)
    )
    if not lies or not begins:
        where = f"a matrix of {memory.name} begins at offset {say(spot.flat)}"
        message = f"{where}: not proved a multiple of {pattern} bytes"
        op = place.position.op
        yield Finding(UNPROVEN_ALIGNMENT, message, "error", op, memory.name, -1, say(spot.flat), str(pattern))


def _cells(touch: Touch, place: ProofPlace) -> Iterator[Finding]:
    """What a warp moves, or a product sums up, lies in the lanes and columns of its buffer of tensor memory.

    A warp's window is 32 lanes from a multiple of 32 on, what a product has begins in lane 0, each lane at whole
    columns.
    """
    yield from claims(touch.ref.at, place)
    yield from memory_findings(touch.ref, place)
    spot, op = place.position.find(touch.ref), place.position.op
    name, rows = spot.root.name, SCOPES["warp"].threads if touch.lies == LANES else 1
    assert spot.coordinates is not None  # a memory of two dimensions, and so is what a function calls it
    for d, (x, n, elems) in enumerate(zip(spot.coordinates, spot.root.shape, (rows, touch.elems), strict=True)):
        if not place.is_below(add(x, elems - 1), n):
            yield outside(place, name, d, x, n, elems)
        if not place.is_below(-1, x):
            yield before(place, name, d, x)
    lane, first = spot.coordinates
    unit = rows if touch.lies == LANES else TensorMemory().lanes
    for d, x, size, of in ((0, lane, 1, unit), (1, first, spot.root.elem_bytes, COLUMN_BYTES)):
        if multiple(x) * size % of:
            what = f"a multiple of lane {of}" if d == 0 else "whole columns"
            message = f"an access of {name} begins at {say(x)} of dimension {d}: not proved {what}"
            yield Finding(UNPROVEN_ALIGNMENT, message, "error", op, name, d, say(x), str(of))


TOUCHES: dict[str, Callable[[Touch, ProofPlace], Iterator[Finding]]] = {
    THREAD: access_findings, ROWS: access_findings, FRAGMENT: access_findings, BOX: _box, MATRIX: _matrix,
    LANES: _cells, ALL_LANES: _cells,
}  # fmt: skip


def _slot(slot: Slot, place: ProofPlace) -> Iterator[Finding]:
    yield from claims((slot.at,), place)
    if not place.is_below(place.position.expand(slot.at), slot.barrier.slots):
        yield outside(place, slot.barrier.name, -1, slot.at, slot.barrier.slots, 1)
    if not place.is_below(-1, place.position.expand(slot.at)):
        yield before(place, slot.barrier.name, -1, place.position.expand(slot.at))


def _ranks(step: Step, place: ProofPlace) -> Iterator[Finding]:
    """Other CTAs that a step names are CTAs of its cluster."""
    if not isinstance(step, Arrive | Tma):
        return
    for rank in (*(step.peers.ranks() if step.peers else ()), *(() if step.rank is None else (step.rank,))):
        at = place.position.expand(rank)
        if not place.is_below(at, prod(place.plan.cluster)):
            yield outside(place, "the cluster", -1, rank, prod(place.plan.cluster), 1)
        if not place.is_below(-1, at):
            yield before(place, "the cluster", -1, at)
