"""Spec -> Plan: memories are placed, statements walked, every op dispatched in its surroundings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tilegen.arch import ARCHES
from tilegen.barriers import barriers_of, count_waits, parity_of, step_waits
from tilegen.choices import Operation
from tilegen.choose.count import Launch
from tilegen.dtypes import DTYPES
from tilegen.errors import Diagnostic, SpecError, TilegenError
from tilegen.index import Index, Var, add, bound, ceil_div, evaluate, mul, sub, substitute, variables
from tilegen.ops import QUEUES as OP_QUEUES
from tilegen.ops import VARIANTS
from tilegen.ops.dispatch import Planned, dispatch
from tilegen.ops.operand import Context, fresh_name, memory_of
from tilegen.plan import (
    BARRIER_BYTES,
    QUEUES,
    TMA_ALIGN_BYTES,
    TMA_LOAD,
    TMA_STORE,
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
    when,
)
from tilegen.scopes import thread_variables
from tilegen.spec.data import Buffer, Call, Closing, Loop, Meeting, Region, SlotName, Spec, Statement, Waiting

Enclose = Callable[[tuple[Step, ...]], tuple[Step, ...]]


def launch_of(spec: Spec, params: Mapping[str, int] | None = None) -> Launch:
    """The launch of a spec with its default parameters, or with ``params`` in their place."""
    values = {p.name: int(p.default) for p in spec.params if p.var is not None} | dict(params or {})
    x, y, z = (int(evaluate(g, values)) for g in spec.grid)
    return Launch(spec.threads, (x, y, z), tuple(values.items()), spec.cluster)


def plan_spec(spec: Spec) -> Plan:
    """The plan of a checked spec whose layouts are all known (``resolve.resolve_spec`` chooses those that are 'auto').

    Raises SpecError (TG3xx) for ops that no variant carries out, all at once.
    """
    memories = place_memories(spec)
    builder = _Builder(spec, memories, launch_of(spec))
    steps = builder.statements(spec.ops, lambda inner: inner)
    if builder.errors:
        raise SpecError(tuple(d for e in builder.errors for d in e.diagnostics))
    forms = tuple(dict.fromkeys(memories.values()))  # an array and its views: several forms of one name
    return Plan(
        spec.kernel, spec.arch, spec.grid, forms, (Role("all", spec.threads, steps),), spec.params,
        spec.cluster, tuple(builder.owns), tuple(builder.operations), choices=spec.choices, notes=spec.notes,
        barriers=tuple(builder.barriers.values()),
    )  # fmt: skip


# ---------------------------------------------------------------- memories
def place_memories(spec: Spec) -> dict[str, Memory]:
    """The memory of every buffer. Shared buffers lie in order of appearance; a view lies on its root.

    Raises SpecError TG210 when they need more shared memory than the arch has.
    """
    written, read = touched(spec.ops)
    boxed = tma_roots(spec.ops)
    memories: dict[str, Memory] = {}
    top = 0
    for buffer in spec.buffers:
        root = memories.get(buffer.root) if buffer.root != buffer.name else None
        if root is not None:
            memories[buffer.name] = _view_memory(buffer, root)
            continue
        names = {b.name for b in spec.buffers if b.root == buffer.name} | {buffer.name}
        access = "in" if not names & written else "inout" if names & read else "out"
        memory = memory_of(buffer, access)
        if buffer.scope == "shared":
            align = max(_alignment(buffer), TMA_ALIGN_BYTES if buffer.name in boxed else 1)
            memory = replace(memory, offset_bytes=-(-top // align) * align, align_bytes=align)
            top = memory.offset_bytes + int(memory.shape[0]) * memory.elem_bytes  # type: ignore[arg-type]
        memories[buffer.name] = memory
    top += sum(b.slots for b in barriers_of(spec).values()) * BARRIER_BYTES
    limit = ARCHES[spec.arch].max_shared_bytes_per_cta
    if top > limit:
        last = max((b for b in spec.buffers if b.scope == "shared"), key=lambda b: memories[b.name].offset_bytes)
        message = f"the shared buffers and barriers take {top} bytes; a CTA on {spec.arch} has {limit}"
        raise SpecError(Diagnostic("TG210", message, last.mark))
    return memories


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


def touched(statements: Sequence[Statement]) -> tuple[set[str], set[str]]:
    """Names of the buffers that the statements write and read."""
    written: set[str] = set()
    read: set[str] = set()
    for s in statements:
        if isinstance(s, Loop):
            inner = touched(s.body)
            written |= inner[0]
            read |= inner[1]
        elif isinstance(s, Call):
            for field, region in s.regions.items():
                (written if field == "dst" else read).add(region.buffer.name)
    return written, read


def names_of(spec: Spec) -> frozenset[str]:
    """Every name that a spec gives: kernel, buffers, params and loop variables."""
    names = set(barriers_of(spec)) | {spec.kernel} | {b.name for b in spec.buffers} | {p.name for p in spec.params}
    return frozenset(names | _loop_names(spec.ops))


def _loop_names(statements: Sequence[Statement]) -> set[str]:
    loops = [s for s in statements if isinstance(s, Loop)]
    return {s.var.name for s in loops}.union(*(_loop_names(s.body) for s in loops))


def tma_roots(statements: Sequence[Statement]) -> set[str]:
    """The shared buffers whose bytes TMA copies."""
    found: set[str] = set()
    for s in statements:
        if isinstance(s, Loop):
            found |= tma_roots(s.body)
        elif isinstance(s, Call) and s.op in OP_QUEUES and OP_QUEUES[s.op](s) in (TMA_LOAD.queue, TMA_STORE.queue):
            found |= {r.buffer.root for r in s.regions.values()}
    return found


def queues_of(statements: Sequence[Statement]) -> tuple[str, ...]:
    """The queues that the asynchronous copies of the statements are in."""
    found: dict[str, None] = {}
    for s in statements:
        if isinstance(s, Loop):
            found |= dict.fromkeys(queues_of(s.body))
        elif isinstance(s, Call) and s.op in OP_QUEUES and (queue := OP_QUEUES[s.op](s)):
            found[queue] = None
    return tuple(found)


# ---------------------------------------------------------------- statements
class _Builder:
    """Walks statements in order, numbering ops and collecting what the plan records beside its steps."""

    def __init__(self, spec: Spec, memories: dict[str, Memory], launch: Launch):
        self.spec, self.memories, self.launch = spec, memories, launch
        self.operations: list[Operation] = []
        self.owns: list[Owned] = []
        self.errors: list[TilegenError] = []
        self.loops: tuple[tuple[Var, Index], ...] = ()  # counted variables of the loops around, with their counts
        self.taken = names_of(spec)
        self.queues = tuple(q for q in queues_of(spec.ops) if q in QUEUES)
        self.barriers = barriers_of(spec)
        self.waited: dict[str, Index] = {}  # waits for each mbarrier before this place
        self.values: dict[str, Index] = {}  # loop variables that are functions of those

    def statements(self, statements: Sequence[Statement], enclose: Enclose) -> tuple[Step, ...]:
        out: list[Step] = []
        for s in statements:
            if isinstance(s, Meeting):
                out.extend(self.meeting(s))
            elif isinstance(s, Waiting) and s.barrier:
                out.extend(self.phase(s, s.barrier))
            elif isinstance(s, Closing | Waiting):
                out.extend(self.queue(s))
            elif isinstance(s, Loop):
                out.extend(self.loop(s, enclose))
            elif isinstance(s, Call):
                out.extend(self.call(s, enclose))
        return tuple(out)

    def meeting(self, s: Meeting) -> tuple[Step, ...]:
        if s.scope == "async" and "tma" not in ARCHES[self.spec.arch].features:
            message = f"'sync: async' orders stores before TMA, which {self.spec.arch} has not"
            self.errors.append(SpecError(Diagnostic("TG307", message, s.mark, "remove it")))
        return when(s.when, Sync(s.scope))

    def phase(self, s: Waiting, name: SlotName) -> tuple[Step, ...]:
        """A wait for the next phase of an mbarrier."""
        barrier, before = self.barriers[name.name], self.waited.get(name.name, 0)
        self.waited = step_waits(self.waited, {name.name: 1}, 1)
        return when(s.when, Await(Slot(barrier, name.index), parity_of(s, barrier, before)))

    def queue(self, s: Closing | Waiting) -> tuple[Step, ...]:
        """A commit or a wait, for every queue that the kernel's copies are in."""
        queues = [q for q in self.queues if isinstance(s, Waiting) or not QUEUES[q].closes_itself]
        if not queues:
            what = "commit closes" if isinstance(s, Closing) else "wait waits for"
            message = f"this {what} groups of asynchronous copies, and the kernel has none"
            self.errors.append(SpecError(Diagnostic("TG304", message, s.mark, "write 'async: true' on the copy")))
        return when(s.when, *(Commit(q) if isinstance(s, Closing) else Wait(q, s.pending) for q in queues))

    def loop(self, loop: Loop, enclose: Enclose) -> tuple[Step, ...]:
        wrap, trip, count, value = _loop_steps(loop, self.taken)
        loops, values, waited = self.loops, self.values, self.waited
        each = count_waits(loop.body)
        self.waited = step_waits(waited, each, trip)
        self.loops = (*loops, (trip, substitute(count, values)))
        self.values = {**values, loop.var.name: substitute(value, values)}
        body = self.statements(loop.body, lambda inner: enclose(wrap(inner)))
        self.loops, self.values, self.waited = loops, values, step_waits(waited, each, count)
        return wrap(body)

    def call(self, call: Call, enclose: Enclose) -> tuple[Step, ...]:
        context = self.context(call, enclose)
        try:
            planned, operation = dispatch(call, VARIANTS[call.op], context)
        except SpecError as error:
            self.errors.append(error)
            planned, operation = Planned((), None, ()), Operation(call.op, "", call.scope, "", 0, None)  # type: ignore[arg-type]
        self.operations.append(operation)
        destination = call.regions["dst"]
        if destination.buffer.scope == "global":
            self.owns.append(self.owned(destination, call, context.op))
        return when(call.when, *planned.steps)

    def context(self, call: Call, enclose: Enclose) -> Context:
        guard: Enclose = lambda inner: enclose(when(call.when, *inner))  # noqa: E731
        return Context(
            self.spec, ARCHES[self.spec.arch], self.launch, self.memories, guard, len(self.operations), self.taken,
            call.when, self.barriers,
        )

    def owned(self, region: Region, call: Call, op: int) -> Owned:
        instances = _instances(self.spec.threads, region)
        start = tuple(substitute(x, self.values) for x in region.begins)
        condition = substitute(call.when, self.values)
        memory = logical_memory(region.buffer, self.memories[region.buffer.name])
        return Owned(memory, start, region.lengths, self.loops + instances, condition, op)


class _Surveyor(_Builder):
    """Walks statements as the builder does and plans none: what each call's variants would be given."""

    def __init__(self, spec: Spec, memories: dict[str, Memory], launch: Launch):
        super().__init__(spec, memories, launch)
        self.found: list[tuple[Call, Context]] = []

    def call(self, call: Call, enclose: Enclose) -> tuple[Step, ...]:
        self.found.append((call, self.context(call, enclose)))
        return ()


def survey_calls(spec: Spec) -> tuple[tuple[Call, Context], ...]:
    """Every op of a spec, in order, with its surroundings: what ``dispatch`` takes."""
    surveyor = _Surveyor(spec, place_memories(spec), launch_of(spec))
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


def _instances(threads: int, region: Region) -> tuple[tuple[Var, Index], ...]:
    """The thread axes that a region's begins name: the op's instances."""
    named = {v for x in region.begins for v in variables(x)}
    axes = thread_variables(threads)
    return tuple((v, v.bound) for v in sorted(named, key=lambda v: v.name) if v.name in axes)


def _loop_steps(loop: Loop, taken: frozenset[str]) -> tuple[Enclose, Var, Index, Index]:
    """How a loop wraps its body; its counted variable, its count, and the loop variable as a function of the former."""
    if isinstance(loop.start, int) and loop.start == 0 and loop.step == 1:
        return lambda body: (Repeat(loop.var, loop.stop, body, loop.unroll),), loop.var, loop.stop, loop.var
    count = ceil_div(sub(loop.stop, loop.start), loop.step)
    trip = Var(fresh_name(f"{loop.var.name}_trip", taken), max(1, bound(count) - 1))
    value = add(loop.start, mul(trip, loop.step))
    return lambda body: (Repeat(trip, count, (Let(loop.var, value), *body), loop.unroll),), trip, count, value
