"""What the hardware does not take, or leaves undefined, although every value and place is right."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.arch import ARCHES
from tilegen.index import bound, least, mul, multiple, sub
from tilegen.index.linear import has_room
from tilegen.layouts import find_tma_problems
from tilegen.plan import TMA_UNIT_BYTES, Await, Map, Plan, TensorMap, Visit, tensor_maps, walk
from tilegen.proofs.accesses import ProofPlace, say
from tilegen.proofs.finding import UNPROVEN_CLAIM, UNPROVEN_RANGE, Finding
from tilegen.proofs.ranges import begin_role
from tilegen.render.launch import plan_shared


def untaken_steps(plan: Plan) -> tuple[Finding, ...]:
    """An error for each step, descriptor and size of memory that no GPU of the plan's arch takes as it is meant."""
    found: dict[Finding, None] = dict.fromkeys(_check_room(plan))
    for tensor_map in tensor_maps(plan):
        found.update(dict.fromkeys(_check_map(tensor_map)))
    for role in plan.roles:
        start = begin_role(plan, role)
        for visit in walk(role.steps, start.position):
            place = start.at(visit.position)
            checks = _check_sums(visit), _check_parity(visit, place), _check_registers(visit), _check_cache(visit)
            found.update(dict.fromkeys(finding for check in checks for finding in check))
    return tuple(found)


def _check_room(plan: Plan) -> Iterator[Finding]:
    """Shared memory that a CTA has."""
    bytes_, most = plan_shared(plan).bytes, ARCHES[plan.arch].max_shared_bytes_per_cta
    if bytes_ > most:
        yield Finding(UNPROVEN_RANGE, f"shared memory takes {bytes_} bytes; a CTA on {plan.arch} has {most}")


def _check_map(m: TensorMap) -> Iterator[Finding]:
    """What the driver encodes in a descriptor; of an array whose sizes are known at a launch, what is known of it."""
    problems = find_tma_problems(m.memory.dtype, m.box, m.swizzle_bytes)
    for d in m.dims[:-1]:
        step = mul(m.memory.pitches[d], m.memory.elem_bytes)
        if m.memory.shape[d] != 1 and multiple(step) % TMA_UNIT_BYTES:
            problems.append(f"dimension {d} has a stride of {say(step)} bytes, not a multiple of {TMA_UNIT_BYTES}")
    yield from (Finding(UNPROVEN_RANGE, f"{m.name}: {problem}", memory=m.memory.name) for problem in problems)


def _check_sums(visit: Visit) -> Iterator[Finding]:
    """Sums and products are computed in a type that holds them: their text takes it from the bounds that they claim."""
    for x in visit.effects.expressions:
        if not has_room(x):
            message = f"{say(x)} may be larger than it claims to be, and than the type that it is computed in"
            yield Finding(UNPROVEN_CLAIM, message, op=visit.position.op, expression=say(x))


def _check_parity(visit: Visit, place: ProofPlace) -> Iterator[Finding]:
    """A phase is even or odd: a wait for another parity is none (PTX ISA, mbarrier.try_wait.parity)."""
    if isinstance(visit.step, Await):
        parity = place.position.expand(visit.step.parity)
        if not (place.is_below(-1, parity) and place.is_below(parity, 2)):
            message = f"a wait for a phase of parity {say(parity)}, which is not proved to be 0 or 1"
            yield Finding(UNPROVEN_RANGE, message, op=place.position.op, expression=say(parity))


def _check_registers(visit: Visit) -> Iterator[Finding]:
    """What a function of several registers reads is not what it has written a moment before: its text is a loop."""
    step = visit.step
    if not isinstance(step, Map):
        return
    written = visit.position.find(step.dst)
    for src in step.srcs:
        read = visit.position.find(src)
        apart = sub(written.flat, read.flat)
        is_safe = bound(apart) <= 1 or least(apart) >= step.elems
        if read.root.name == written.root.name and not is_safe:
            message = f"{step.fn.name} reads registers of {read.root.name} {say(apart)} before those that it writes"
            yield Finding(UNPROVEN_CLAIM, message, op=visit.position.op, memory=read.root.name)


def _check_cache(visit: Visit) -> Iterator[Finding]:
    """Streamed loads take a path that does not see what the kernel writes (PTX ISA, ld.global.nc)."""
    for touch in visit.effects.read:
        root = visit.position.find(touch.ref).root
        if touch.ref.memory.cache == "stream" and root.access != "in":
            message = f"{root.name} is streamed, which is for arrays that a kernel only reads, and it is written"
            yield Finding(UNPROVEN_CLAIM, message, op=visit.position.op, memory=root.name)
