"""Spec -> Plan: memories are placed, statements walked, every op dispatched in its surroundings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilegen.arch import ARCHES
from tilegen.arch.data import registers_for, shared_for
from tilegen.decisions import RESIDENT, Choice, Operation
from tilegen.dtypes import DTYPES
from tilegen.errors import Diagnostic, SpecError, TilegenError
from tilegen.index import Index, Var, every, mul, substitute, variables
from tilegen.kept import keep
from tilegen.ops.dispatch import dispatch
from tilegen.ops.op import Planned
from tilegen.ops.operand import Context, memory_of
from tilegen.plan import (
    BARRIER_BYTES,
    PRODUCTS,
    QUEUES,
    TMA_ALIGN_BYTES,
    Await,
    Commit,
    Let,
    Memory,
    Owned,
    Plan,
    Repeat,
    Role,
    Slot,
    Step,
    Sync,
    Wait,
    When,
    names_used,
    when,
)
from tilegen.scopes import thread_variables
from tilegen.spec.data import Buffer, Call, Closing, Guarded, Loop, Meeting, Naming, Region, Spec, Statement, Waiting
from tilegen.spec.outline import launch_of, outline, trip_of
from tilegen.spec.phases import count_waits, parity_of, step_waits, trips_of

Enclose = Callable[[tuple[Step, ...]], tuple[Step, ...]]


def plan_spec(spec: Spec) -> Plan:
    """The plan of a checked spec whose layouts are all known (room ``auto_layout`` chooses those that are 'auto').

    Raises SpecError (TG3xx) for ops that no variant carries out, all at once.
    """
    memories = place_memories(spec)
    builder = _Builder(spec, memories)
    steps = builder.statements(spec.ops, lambda inner: inner)
    if builder.errors:
        raise SpecError(tuple(d for e in builder.errors for d in e.diagnostics))
    _check_scratch(spec, builder.scratch)
    forms = tuple(dict.fromkeys((*memories.values(), *builder.scratch)))  # views: several forms of one array's name
    return Plan(
        spec.kernel, spec.arch, spec.grid, forms, (Role("all", spec.threads, steps),), spec.params,
        spec.cluster, tuple(builder.owns), tuple(builder.operations), spec.notes,
        (*spec.choices, *_resident(spec, memories)), tuple(outline(spec).barriers.values()), spec.ctas_per_sm,
    )  # fmt: skip


# ---------------------------------------------------------------- memories
def _check_scratch(spec: Spec, scratch: Sequence[Memory]) -> None:
    """Raises SpecError TG210 where ops need more shared memory of their own than is left."""
    limit = ARCHES[spec.arch].max_shared_bytes_per_cta
    barriers = sum(b.slots for b in outline(spec).barriers.values()) * BARRIER_BYTES
    for m in scratch:
        top = m.offset_bytes + int(m.span) * m.elem_bytes + barriers  # type: ignore[arg-type]
        if top > limit:
            message = f"with {m.name} of a reduce the shared memory takes {top} bytes; a CTA on {spec.arch} has {limit}"
            raise SpecError(Diagnostic("TG210", message, None, "let fewer warps share a result"))


@keep
def place_memories(spec: Spec) -> dict[str, Memory]:
    """The memory of every buffer. Shared buffers lie in order of appearance; a view lies on its root.

    One that lies ``over`` others begins where the first of them does. Raises SpecError: TG210 when they need more
    shared memory than the arch has, TG310 for a buffer that leaves those that it lies over, TG311 for CTAs that one
    multiprocessor does not hold together.
    """
    seen = outline(spec)
    memories: dict[str, Memory] = {}
    top = 0
    below = {name: b for b in spec.buffers for name in b.over}  # who lies over a buffer
    ordered = sorted(spec.buffers, key=lambda b: bool(spec.buffer(b.root).over))
    for buffer in ordered:
        root = memories.get(buffer.root) if buffer.root != buffer.name else None
        if root is not None:
            memories[buffer.name] = _view_memory(buffer, root)
            continue
        names = {b.name for b in spec.buffers if b.root == buffer.name} | {buffer.name}
        access = "in" if not names & seen.written else "inout" if names & seen.read else "out"
        memory = memory_of(buffer, access)
        if buffer.over:
            memories[buffer.name] = _lay_over(spec, buffer, memory, memories)
            continue
        if buffer.scope == "shared":
            lies = [b for b in (buffer, below.get(buffer.name)) if b is not None]
            align = max(max(_alignment(b), TMA_ALIGN_BYTES if b.name in seen.boxed else 1) for b in lies)
            memory = replace(memory, family=buffer.name if buffer.name in below else "")
            memory = replace(memory, offset_bytes=-(-top // align) * align, align_bytes=align)
            top = memory.offset_bytes + int(memory.shape[0]) * memory.elem_bytes  # type: ignore[arg-type]
        memories[buffer.name] = memory
    top += sum(b.slots for b in seen.barriers.values()) * BARRIER_BYTES
    limit = ARCHES[spec.arch].max_shared_bytes_per_cta
    if top > limit:
        last = max((b for b in spec.buffers if b.scope == "shared"), key=lambda b: memories[b.name].offset_bytes)
        message = f"the shared buffers and barriers take {top} bytes; a CTA on {spec.arch} has {limit}"
        raise SpecError(Diagnostic("TG210", message, last.mark))
    _check_resident(spec, top)
    return {b.name: memories[b.name] for b in spec.buffers}


def _lay_over(spec: Spec, buffer: Buffer, memory: Memory, memories: dict[str, Memory]) -> Memory:
    """The memory of a buffer on the bytes of others, in which it fits."""
    first, room = room_below(buffer, memories)
    size = int(memory.shape[0]) * memory.elem_bytes  # type: ignore[arg-type]
    if size > room:
        message = f"'{buffer.name}' takes {size} bytes, but {', '.join(buffer.over)} have {room}"
        raise SpecError(Diagnostic("TG310", message, buffer.mark, "let it lie over more of them, or by itself"))
    return replace(memory, offset_bytes=first, align_bytes=_alignment(buffer), family=buffer.name)


def room_below(buffer: Buffer, memories: Mapping[str, Memory]) -> tuple[int, int]:
    """Where the buffers that this one lies over begin, and how many bytes there are up to the end of the last."""
    others = [memories[name] for name in buffer.over]
    first = min(m.offset_bytes for m in others)
    return first, max(m.offset_bytes + int(m.shape[0]) * m.elem_bytes for m in others) - first  # type: ignore[arg-type]


def _check_resident(spec: Spec, shared_bytes: int) -> None:
    """As many CTAs as the spec wants must find room in one multiprocessor's shared memory."""
    arch, count = ARCHES[spec.arch], spec.ctas_per_sm
    each = shared_for(arch, shared_bytes)
    if count * each > arch.shared_bytes_per_sm:
        has = f"each takes {each} bytes of shared memory, {arch.reserved_shared_bytes_per_cta} of them the system's"
        message = f"{count} CTAs do not fit on one multiprocessor: {has}; {spec.arch} has {arch.shared_bytes_per_sm}"
        hint = f"at most {arch.shared_bytes_per_sm // each} do"
        raise SpecError(Diagnostic("TG311", message, spec.ctas_per_sm_mark, hint))


def _resident(spec: Spec, memories: Mapping[str, Memory]) -> tuple[Choice, ...]:
    """What it takes that the CTAs that the spec wants on one multiprocessor fit."""
    if not spec.ctas_per_sm:
        return ()
    arch, shared = ARCHES[spec.arch], [m for m in memories.values() if m.space == "shared"]
    ends = [m.offset_bytes + int(m.shape[0]) * m.elem_bytes for m in shared]  # type: ignore[arg-type]
    slots = sum(b.slots for b in outline(spec).barriers.values())
    each = shared_for(arch, max(ends, default=0) + slots * BARRIER_BYTES)
    registers = registers_for(arch, spec.threads, spec.ctas_per_sm)
    said = f"{each} bytes of shared memory each, of {arch.shared_bytes_per_sm}, the system's counted"
    return (Choice(RESIDENT, spec.ctas_per_sm, proof=f"at most {registers} registers a thread; {said}"),)


def _view_memory(buffer: Buffer, root: Memory) -> Memory:
    """The root's own memory, unless the view reads the same bytes as another element type or as a larger span."""
    mine = memory_of(buffer, root.access, root.offset_bytes)
    if root.space == "global":
        return replace(mine, name=root.name, align_bytes=root.align_bytes)
    if mine.dtype == root.dtype:
        return root
    return replace(mine, align_bytes=root.align_bytes)


def _alignment(buffer: Buffer) -> int:
    """16 bytes, or the bytes after which a swizzle repeats (at most 1024), so that its chunks keep their banks."""
    swizzle = getattr(buffer.layout, "swizzle", None)
    if swizzle is None:
        return 16
    period: int = DTYPES[buffer.dtype].bytes << (swizzle.per_element + swizzle.swizzle_len + swizzle.atom_len)
    return max(16, min(1024, period))


# ---------------------------------------------------------------- statements
class _Builder:
    """Walks statements in order, numbering ops and collecting what the plan records beside its steps."""

    def __init__(self, spec: Spec, memories: dict[str, Memory]):
        self.spec, self.memories, self.launch, self.outline = spec, memories, launch_of(spec), outline(spec)
        self.operations: list[Operation] = []
        self.owns: list[Owned] = []
        self.scratch: list[Memory] = []  # shared memory of ops' own
        self.errors: list[TilegenError] = []
        self.loops: tuple[tuple[Var, Index], ...] = ()  # counted variables of the loops around, with their counts
        self.waited: dict[str, Index] = {}  # waits for each mbarrier before this place
        self.values: dict[str, Index] = {}  # loop variables that are functions of those, and lets
        self.conditions: tuple[Index, ...] = ()  # around, written out

    def statements(self, statements: Sequence[Statement], enclose: Enclose) -> tuple[Step, ...]:
        """The steps of a list; names that nothing after them uses are left out."""
        named: list[Let] = []
        planned: list[tuple[Step, ...]] = []
        outside = self.values
        for s in statements:
            steps = PLANNED[type(s)](self, s, _after(named, enclose))
            named += [step for step in steps if isinstance(step, Let)] if isinstance(s, Naming) else []
            planned.append(steps)
        self.values = outside
        return drop_unused([step for steps in planned for step in steps])

    def naming(self, s: Naming, enclose: Enclose) -> tuple[Step, ...]:
        self.values = dict(self.values)
        for var, value in s.entries:
            self.values[var.name] = substitute(value, self.values)
        return tuple(Let(var, value) for var, value in s.entries if not isinstance(value, int))

    def guarded(self, s: Guarded, enclose: Enclose) -> tuple[Step, ...]:
        """A block of its own even where its condition always holds, if it names anything."""
        names = any(isinstance(inner, Naming) for inner in s.body)
        wrap: Enclose = lambda body: (When(s.when, body),) if names and s.when is True else when(s.when, *body)  # noqa: E731
        conditions, waited = self.conditions, self.waited
        self.conditions = (*conditions, substitute(s.when, self.values))
        body = self.statements(s.body, lambda inner: enclose(wrap(inner)))
        each = {name: substitute(x, self.values) for name, x in count_waits((s,)).items()}
        self.conditions, self.waited = conditions, step_waits(waited, each, 1)
        return wrap(body)

    def meeting(self, s: Meeting, enclose: Enclose) -> tuple[Step, ...]:
        if s.scope == "async" and "tma" not in ARCHES[self.spec.arch].features:
            message = f"'sync: async' orders stores before TMA, which {self.spec.arch} has not"
            self.errors.append(SpecError(Diagnostic("TG307", message, s.mark, "remove it")))
        return when(s.when, Sync(s.scope))

    def wait(self, s: Waiting, enclose: Enclose) -> tuple[Step, ...]:
        """A wait for groups of copies, or for the next phase of an mbarrier."""
        name = s.barrier
        if name is None:
            return self.queue(s, enclose)
        barrier, before = self.outline.barriers[name.name], self.waited.get(name.name, 0)
        self.waited = step_waits(self.waited, {name.name: 1}, 1)
        return when(s.when, Await(Slot(barrier, name.index), parity_of(s, barrier, before)))

    def queue(self, s: Closing | Waiting, enclose: Enclose) -> tuple[Step, ...]:
        """A commit or a wait, for the queue that it names or every one that the kernel uses."""
        used = [q for q in self.outline.queues if s.queue in ("", q)]
        queues = [q for q in used if isinstance(s, Waiting) or not QUEUES[q].closes_itself]
        what = "commit closes" if isinstance(s, Closing) else "wait waits for"
        if not queues:
            started, op = ("products", "mma") if s.queue == PRODUCTS else ("copies", "copy")
            message = f"this {what} groups of asynchronous {started}, and the kernel has none"
            self.errors.append(SpecError(Diagnostic("TG304", message, s.mark, f"write 'async: true' on the {op}")))
        if len(queues) > 1 and PRODUCTS in queues:
            message = f"this {what} groups of one queue, and the kernel has copies and products in flight"
            hint = "commit: mma" if isinstance(s, Closing) else "wait: {mma: N}, wait: {cp_async: N} or wait: {tma: N}"
            self.errors.append(SpecError(Diagnostic("TG304", message, s.mark, hint)))
        return when(s.when, *(Commit(q) if isinstance(s, Closing) else Wait(q, s.pending) for q in queues))

    def loop(self, loop: Loop, enclose: Enclose) -> tuple[Step, ...]:
        trip, count, value = trip_of(loop, self.outline.names)
        wrap = _wrap_in(loop, trip, count, value)
        loops, values, waited = self.loops, self.values, self.waited
        each = {name: substitute(x, values) for name, x in count_waits(loop.body).items()}
        self.waited = step_waits(waited, each, trip)
        self.loops = (*loops, (trip, substitute(count, values)))
        self.values = {**values, loop.var.name: substitute(value, values)}
        body = self.statements(loop.body, lambda inner: enclose(wrap(inner)))
        all_trips = substitute(trips_of(loop), values)
        self.loops, self.values, self.waited = loops, values, step_waits(waited, each, all_trips)
        return () if isinstance(count, int) and count <= 0 else wrap(body)

    def call(self, call: Call, enclose: Enclose) -> tuple[Step, ...]:
        context = self.context(call, enclose)
        try:
            planned, operation = dispatch(call, context)
        except SpecError as error:
            self.errors.append(error)
            planned, operation = Planned((), None, ()), Operation(call.op, "", call.scope, "", 0, None)  # type: ignore[arg-type]
        self.operations.append(operation)
        self.scratch += planned.scratch
        self.owns += [self.owned(r, call, context.op) for r in call.written if r.buffer.scope == "global"]
        return when(call.when, *planned.steps)

    def context(self, call: Call, enclose: Enclose) -> Context:
        guard: Enclose = lambda inner: enclose(when(call.when, *inner))  # noqa: E731
        return Context(
            ARCHES[self.spec.arch], self.launch, self.memories, guard, len(self.operations),
            self.outline.names, call.when, self.outline.barriers,
        )

    def owned(self, region: Region, call: Call, op: int) -> Owned:
        start = tuple(substitute(x, self.values) for x in region.begins)
        instances = _instances(self.spec.threads, start)
        condition = every(*self.conditions, substitute(call.when, self.values))
        memory = logical_memory(region.buffer, self.memories[region.buffer.name])
        return Owned(memory, start, region.lengths, self.loops + instances, condition, op, self.spec.threads)


PLANNED: dict[type, Callable[[Any, Any, Enclose], tuple[Step, ...]]] = {
    Call: lambda builder, s, enclose: builder.call(s, enclose),
    Loop: _Builder.loop,
    Guarded: _Builder.guarded,
    Naming: _Builder.naming,
    Meeting: _Builder.meeting,
    Closing: _Builder.queue,
    Waiting: _Builder.wait,
}


class _Surveyor(_Builder):
    """Walks statements as the builder does and plans none: what each call's variants would be given."""

    def __init__(self, spec: Spec, memories: dict[str, Memory]):
        super().__init__(spec, memories)
        self.found: list[tuple[Call, Context]] = []

    def call(self, call: Call, enclose: Enclose) -> tuple[Step, ...]:
        self.found.append((call, self.context(call, enclose)))
        return ()


@keep
def survey_calls(spec: Spec) -> tuple[tuple[Call, Context], ...]:
    """Every op of a spec, in order, with its surroundings: what ``dispatch`` takes."""
    surveyor = _Surveyor(spec, place_memories(spec))
    surveyor.statements(spec.ops, lambda inner: inner)
    return tuple(surveyor.found)


def logical_memory(buffer: Buffer, memory: Memory) -> Memory:
    """A global array by its logical dimensions; boxes are of those, also where its layout splits them.

    The pitches of split dimensions are no layout's: such an array is compared with itself, not with views of it.
    """
    if len(memory.shape) == len(buffer.shape):
        return memory
    pitches: list[Index] = [1]
    for n in reversed(buffer.shape[1:]):
        pitches.append(mul(pitches[-1], n))
    return replace(memory, shape=buffer.shape, pitches=tuple(reversed(pitches)))


def _instances(threads: int, begins: Sequence[Index]) -> tuple[tuple[Var, Index], ...]:
    """The thread axes that a region's begins name: the op's instances."""
    named = {v for x in begins for v in variables(x)}
    axes = thread_variables(threads)
    return tuple((v, v.bound) for v in sorted(named, key=lambda v: v.name) if v.name in axes)


def _after(named: Sequence[Let], enclose: Enclose) -> Enclose:
    """How a list's names stand before what comes after them."""
    if not named:
        return enclose
    before = tuple(named)
    return lambda inner: enclose((*before, *inner))


def drop_unused(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps without names that none after them uses."""
    if not any(isinstance(step, Let) for step in steps):
        return tuple(steps)
    kept: list[Step] = []
    used: frozenset[str] = frozenset()
    for step in reversed(steps):
        if not isinstance(step, Let) or step.var.name in used:
            kept.append(step)
            used |= names_used((step,))
    return tuple(reversed(kept))


def _wrap_in(loop: Loop, trip: Var, count: Index, value: Index) -> Enclose:
    """How a loop wraps its body."""
    if trip == loop.var:
        return lambda body: (Repeat(loop.var, count, body, loop.unroll),)
    return lambda body: (Repeat(trip, count, drop_unused((Let(loop.var, value), *body)), loop.unroll),)
