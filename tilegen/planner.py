"""Spec -> Plan: memories are placed, statements walked, every op dispatched in its surroundings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilegen.arch import ARCHES
from tilegen.decisions import Operation
from tilegen.errors import Diagnostic, SpecError, TilegenError
from tilegen.index import Index, Var, add, conjuncts, equal, less, mul, sub, substitute
from tilegen.kept import keep
from tilegen.ops.accumulating import say_unordered
from tilegen.ops.dispatch import dispatch
from tilegen.ops.lies import Kept, conditions_of, drop_lies
from tilegen.ops.op import Planned
from tilegen.ops.operand import Context, align_shared
from tilegen.ops.placement import (
    check_named_barriers,
    check_scratch,
    choose_resident,
    count_tensor_columns,
    find_shared_room,
    place_memories,
)
from tilegen.ops.queued import explain_arrival, explain_crossing, explain_queue, find_queues
from tilegen.ops.tables import define_names, known_of_reads, list_tests, name_values
from tilegen.ops.tensor_moves import fence_of
from tilegen.ops.trusting import find_trust
from tilegen.plan import (
    Arrive,
    Await,
    Commit,
    Follow,
    Let,
    Memory,
    PassPlan,
    Plan,
    ProgramPlan,
    Repeat,
    Role,
    Slot,
    Step,
    Sync,
    Wait,
    When,
    drop_unused,
    join_memories,
    when,
)
from tilegen.scopes import inside_grid, threads_of
from tilegen.spec.clusters import count_peers, find_peers
from tilegen.spec.data import (
    ArriveStatement,
    Call,
    CommitStatement,
    FollowStatement,
    LetStatement,
    Loop,
    RoleBlock,
    Spec,
    Statement,
    SyncStatement,
    WaitStatement,
    WhenStatement,
)
from tilegen.spec.outline import Placed, fresh_name, launch_of, outline, parts_of_cta, trip_of
from tilegen.spec.pads import is_clipped, pad_of
from tilegen.spec.pairs import find_even_rank
from tilegen.spec.phases import count_waits, counted_barriers, parity_of, step_waits, trips_of
from tilegen.spec.program import Program
from tilegen.spec.terms import RoleTerms
from tilegen.spec.tested import find_uses

Enclose = Callable[[tuple[Step, ...]], tuple[Step, ...]]


def plan_spec(spec: Spec) -> Plan:
    """The plan of a checked spec whose layouts are all known (room ``auto_layout`` chooses those that are 'auto').

    Raises SpecError (TG3xx) for ops that no variant carries out, all at once.
    """
    memories = place_memories(spec)
    planned = _plan_parts(spec, memories, {})
    if len(bases := _place_scratch([b for b, _ in planned])) > 1:
        planned = _plan_parts(spec, memories, bases)
    builders = [b for b, _ in planned]
    scratch = [m for b in builders for found in b.scratch.values() for m in found]
    check_scratch(spec, scratch)
    roles = tuple(Role(b.part.name or "all", b.part.threads, steps, b.part.registers) for b, steps in planned)
    check_named_barriers(spec, roles)
    forms = tuple(dict.fromkeys((*memories.values(), *scratch)))  # views: several forms of one array's name
    operations = dict(sorted(found for b in builders for found in b.operations.items()))
    return Plan(
        spec.kernel, spec.arch, spec.grid, forms, roles, spec.params,
        spec.cluster, tuple(operations.values()), (*spec.notes, *say_unordered(spec)),
        (*spec.choices, *choose_resident(spec, memories)), tuple(outline(spec).barriers.values()), spec.ctas_per_sm,
        spec.overlaps, find_trust(spec), count_tensor_columns(spec), spec.cta_group,
    )  # fmt: skip


def plan_loaded(loaded: Spec | Program) -> Plan | ProgramPlan:
    """The plan of what ``load`` gives, one kernel or several. Raises SpecError (TG3xx)."""
    return plan_program(loaded) if isinstance(loaded, Program) else plan_spec(loaded)


def plan_program(program: Program) -> ProgramPlan:
    """The plans of all passes, and what a launch of them takes. Raises SpecError with the errors of all passes."""
    plans, errors = list[Plan](), list[Diagnostic]()
    for one in program.passes:
        try:
            plans.append(plan_spec(one.spec))
        except SpecError as error:
            errors += error.diagnostics
    if errors:
        raise SpecError(tuple(dict.fromkeys(errors)))
    return chain_plans(program, plans)


def chain_plans(program: Program, plans: Sequence[Plan]) -> ProgramPlan:
    """What a launch of all passes takes; ``plans``: those of the passes, in their order."""
    passes = tuple(PassPlan(one.name, plan, one.when) for one, plan in zip(program.passes, plans, strict=True))
    given, brought = ([b.name for b in found] for found in (program.arrays, program.workspaces))
    names, partial = [b.name for b in program.buffers], {b.name for b in program.buffers if b.partial}
    memories = join_memories(passes, names, program.counts, partial)
    return ProgramPlan(
        program.kernel, program.arch, passes, program.params,
        tuple(m for m in memories if m.name in given), tuple(m for m in memories if m.name in brought), program.counts,
    )  # fmt: skip


def _list_parts(spec: Spec) -> tuple[RoleTerms, ...]:
    """The roles and idle warps; where there are no roles, all threads."""
    return parts_of_cta(spec) or (RoleTerms("", spec.threads),)


def _plan_parts(
    spec: Spec, memories: dict[str, Memory], bases: Mapping[tuple[str, str], int]
) -> list[tuple[_Builder, tuple[Step, ...]]]:
    """The steps of each role, with what was found on the way. Raises SpecError with all errors of all roles."""
    builders = [_Builder(spec, memories, part, bases) for part in _list_parts(spec)]
    planned = [(b, b.statements(spec.ops, lambda inner: inner)) for b in builders]
    for b, steps in planned:
        b.errors += map(SpecError, explain_crossing(steps, b.queues, b.outline.calls))
    if errors := [e for b in builders for e in b.errors]:
        raise SpecError(tuple(d for e in errors for d in e.diagnostics))
    return planned


def _place_scratch(builders: Sequence[_Builder]) -> dict[tuple[str, str], int]:
    """By role and scope, where the shared memory of their ops' own begins, in bytes behind that of the first.

    Ops of one scope meet before they write there again. Those of another scope, or role, do not meet them.
    """
    bases, top = {}, 0
    for builder in builders:
        for scope, memories in builder.scratch.items():
            bases[builder.part.name, scope] = top
            first = min(m.offset_bytes for m in memories)
            end = max(m.offset_bytes + int(m.span) * m.elem_bytes for m in memories)  # type: ignore[arg-type]
            top += align_shared(end - first)
    return bases


# ---------------------------------------------------------------- statements
class _Builder:
    """Walks statements in order, numbering ops and collecting what the plan records beside its steps."""

    def __init__(
        self, spec: Spec, memories: dict[str, Memory], part: RoleTerms, bases: Mapping[tuple[str, str], int]
    ):  # fmt: skip
        self.spec, self.memories, self.outline, self.part = spec, memories, outline(spec), part
        self.launch = replace(launch_of(spec), threads=part.threads)
        self.inside = inside_grid(spec.grid, spec.cluster)
        self.shared_room = find_shared_room(spec)
        self.places = iter([p for p in self.outline.placed if p.role in ("", part.name)])
        self.place: Placed  # of the statement that is planned
        self.operations: dict[int, Operation] = {}
        self.scratch: dict[str, list[Memory]] = {}  # by scope, the shared memory of ops' own
        self.scratch_bases = {scope: base for (role, scope), base in bases.items() if role == part.name}
        self.errors: list[TilegenError] = []
        self.queues = self.outline.queues.get(part.name, ())
        self.counted = counted_barriers(spec)
        self.fence = fence_of(call for call in self.outline.calls if call.role in ("", part.name))
        self.waited: dict[str, Index] = {}  # waits for each of these before this place

    def statements(self, statements: Sequence[Statement], enclose: Enclose) -> tuple[Step, ...]:
        """The steps of a list; names that nothing after them uses are left out."""
        around, named = self.inside, list[Let]()
        planned: list[tuple[Step, ...]] = []
        for s in statements:
            self.place = next(self.places)
            assert self.place.statement is s
            steps = PLANNED[type(s)](self, s, _after(named, enclose))
            named += name_values(self.spec, s) if isinstance(s, LetStatement) else ()
            self.inside += known_of_reads(s) if isinstance(s, LetStatement) else ()
            planned.append(steps)
        self.inside = around
        return drop_unused([step for steps in planned for step in steps])

    def let(self, s: LetStatement, enclose: Enclose) -> tuple[Step, ...]:
        return define_names(self.spec, self.memories, s)

    def guarded(self, s: WhenStatement, enclose: Enclose) -> tuple[Step, ...]:
        """A block of its own even where its condition always holds, if it names anything."""
        names = any(isinstance(inner, LetStatement) for inner in s.body)
        wrap: Enclose = lambda body: (When(s.when, body),) if names and s.when is True else when(s.when, *body)  # noqa: E731
        waited, values, around = self.waited, self.place.meant.values, self.inside
        self.inside = (*around, *conjuncts(s.when))
        body = self.statements(s.body, lambda inner: enclose(wrap(inner)))
        self.inside = around
        each = {name: substitute(x, values) for name, x in count_waits((s,), self.counted).items()}
        self.waited = step_waits(waited, each, 1)
        return wrap(body)

    def role_block(self, s: RoleBlock, enclose: Enclose) -> tuple[Step, ...]:
        return self.statements(s.body, enclose) if s.role == self.part.name else ()

    def sync(self, s: SyncStatement, enclose: Enclose) -> tuple[Step, ...]:
        if s.scope == "async" and "tma" not in ARCHES[self.spec.arch].features:
            message = f"'sync: async' orders stores before TMA, which {self.spec.arch} has not"
            self.errors.append(SpecError(Diagnostic("TG307", message, s.mark, "remove it")))
        return when(s.when, *self.fence(Sync(s.scope, line_of(s), s.roles)))

    def wait(self, s: WaitStatement, enclose: Enclose) -> tuple[Step, ...]:
        """A wait for groups of copies, or for the next phase of an mbarrier."""
        name = s.barrier
        if name is None:
            return self.queue(s, enclose)
        barrier, before = self.outline.barriers[name.name], self.waited.get(name.name, 0)
        is_open = any(b.open for b in self.spec.barriers if b.name == name.name)
        self.waited = step_waits(self.waited, {name.name: 1}, 1)
        step = Await(Slot(barrier, name.index), parity_of(s, barrier, before, is_open), line_of(s))
        return when(s.when, *self.fence(step))

    def arrival(self, s: ArriveStatement, enclose: Enclose) -> tuple[Step, ...]:
        """Every thread arrives, or the first of each instance."""
        slot, line = Slot(self.outline.barriers[s.barrier.name], s.barrier.index), line_of(s)
        self.errors += map(SpecError, explain_arrival(s, self.queues, self.part.name))
        thread, count = threads_of(s.scope, self.part.threads)
        first: Index = True if s.scope == "thread" else equal(thread, 0)
        if not s.to:
            rank = find_even_rank(self.spec.cluster) if slot.barrier.pair and not s.landed else None
            arrive = Arrive(slot, landed=s.landed, rank=rank, line=line)
            return when(s.when, *when(first, *((arrive,) if s.landed else self.fence(arrive))))
        peers = find_peers(self.spec.cluster, s.to)
        if s.landed:
            return when(s.when, *when(first, Arrive(slot, landed=s.landed, line=line, peers=peers)))
        (rank, *more), many = peers.ranks(), count_peers(self.spec.cluster, s.to)
        step = sub(more[0], rank)
        if count >= many:  # the first threads tell a CTA each
            return when(s.when, *when(less(thread, many), Arrive(slot, 0, add(rank, mul(thread, step)), line=line)))
        peer = Var(fresh_name("peer", self.outline.names), many)
        told = Repeat(peer, many, (Arrive(slot, 0, add(rank, mul(peer, step)), line=line),), True)
        return when(s.when, *when(first, told))

    def queue(self, s: CommitStatement | WaitStatement, enclose: Enclose) -> tuple[Step, ...]:
        """A commit or a wait, for the queue that it names or every one that is used there."""
        queues = find_queues(s, self.queues)
        has_barriers = any(call.role == self.part.name and call.barrier for call in self.outline.calls)
        self.errors += map(SpecError, explain_queue(s, self.queues, self.part.name, has_barriers))
        line = line_of(s)
        return when(
            s.when, *(Wait(q, s.pending, line) if isinstance(s, WaitStatement) else Commit(q, line) for q in queues)
        )

    def loop(self, loop: Loop, enclose: Enclose) -> tuple[Step, ...]:
        trip, count, value = trip_of(loop, self.outline.names)
        number, values = self.place.number, self.place.meant.values
        wrap = _wrap_in(loop, number, trip, count, value)
        waited = self.waited
        each = {name: substitute(x, values) for name, x in count_waits(loop.body, self.counted).items()}
        self.waited = step_waits(waited, each, trip)
        around, self.inside = self.inside, (*self.inside, *conjuncts(less(loop.var, loop.stop)))
        body = self.statements(loop.body, lambda inner: enclose(wrap(inner)))
        self.inside = around
        all_trips = substitute(trips_of(loop), values)
        self.waited = step_waits(waited, each, all_trips)
        return () if isinstance(count, int) and count <= 0 else wrap(body)

    def call(self, call: Call, enclose: Enclose) -> tuple[Step, ...]:
        context = self.context(call, enclose)
        try:
            planned, operation = dispatch(call, context)
        except SpecError as error:
            self.errors.append(error)
            planned, operation = Planned((), None, ()), Operation(call.op, "", call.scope, "", 0, None)  # type: ignore[arg-type]
        self.operations[context.op] = operation
        if planned.scratch:
            self.scratch.setdefault(call.scope, []).extend(planned.scratch)
        is_open = is_clipped(call)
        steps = drop_lies(planned.steps, self.kept_of(call, context.op), pad_of(call)) if is_open else planned.steps
        return when(call.when, *steps)

    def kept_of(self, call: Call, number: int) -> Kept:
        """By array, the condition that elements of tables which enter its places keep their promise."""
        uses, tests = find_uses(self.spec), list_tests(self.spec)
        return conditions_of(call, uses.of_call(number), tests, self.memories)

    def context(self, call: Call, enclose: Enclose) -> Context:
        guard: Enclose = lambda inner: enclose(when(call.when, *inner))  # noqa: E731
        return Context(
            ARCHES[self.spec.arch],
            self.launch,
            self.memories,
            guard,
            self.place.number,
            self.outline.names,
            call.when,
            self.outline.barriers,
            announced_bytes=self.outline.announced_bytes.get(self.place.number, 0),
            meant=self.place.meant,
            scratch_bases=self.scratch_bases,
            inside=self.inside,
            shared_room=self.shared_room,
        )


PLANNED: dict[type, Callable[[Any, Any, Enclose], tuple[Step, ...]]] = {
    Call: lambda builder, s, enclose: builder.call(s, enclose),
    Loop: _Builder.loop,
    WhenStatement: _Builder.guarded,
    RoleBlock: _Builder.role_block,
    LetStatement: lambda builder, s, enclose: builder.let(s, enclose),
    SyncStatement: _Builder.sync,
    CommitStatement: _Builder.queue,
    WaitStatement: _Builder.wait,
    FollowStatement: lambda builder, s, enclose: (Follow(),),
    ArriveStatement: _Builder.arrival,
}


class _Surveyor(_Builder):
    """Walks statements as the builder does and plans none: what each call's variants would be given."""

    def __init__(self, spec: Spec, memories: dict[str, Memory], part: RoleTerms):
        super().__init__(spec, memories, part, {})
        self.found: list[Context] = []

    def call(self, call: Call, enclose: Enclose) -> tuple[Step, ...]:
        self.found.append(self.context(call, enclose))
        return ()

    def let(self, s: LetStatement, enclose: Enclose) -> tuple[Step, ...]:
        return ()


@keep
def survey_calls(spec: Spec) -> tuple[tuple[Call, Context], ...]:
    """Every op of a spec, in order, with its surroundings: what ``dispatch`` takes."""
    memories, calls = place_memories(spec), outline(spec).calls
    return tuple((calls[context.op], replace(context, memories=memories)) for context in find_surroundings(spec))


@keep
def find_surroundings(spec: Spec) -> tuple[Context, ...]:
    """The surroundings of every op, in order, without memories: the same whatever layouts the buffers have."""
    found: list[Context] = []
    for part in _list_parts(spec):
        surveyor = _Surveyor(spec, {}, part)
        surveyor.statements(spec.ops, lambda inner: inner)
        found += surveyor.found
    return tuple(sorted(found, key=lambda context: context.op))


def line_of(statement: SyncStatement | CommitStatement | WaitStatement | ArriveStatement) -> int:
    """The line of the spec that a statement stands in, 0 where it has none."""
    return statement.mark.line if statement.mark else 0


def _after(named: Sequence[Let], enclose: Enclose) -> Enclose:
    """How a list's names stand before what comes after them."""
    if not named:
        return enclose
    before = tuple(named)
    return lambda inner: enclose((*before, *inner))


def _wrap_in(loop: Loop, number: int, trip: Var, count: Index, value: Index) -> Enclose:
    """How a loop of this number wraps its body."""
    if trip == loop.var:
        return lambda body: (Repeat(loop.var, count, body, loop.unroll, number),)
    return lambda body: (Repeat(trip, count, drop_unused((Let(loop.var, value), *body)), loop.unroll, number),)
