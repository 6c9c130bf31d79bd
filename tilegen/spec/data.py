"""What a spec says, as plain frozen data: every name resolved, every layout parsed, every region measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from tilegen.arithmetic import Node
from tilegen.arithmetic.values import Values
from tilegen.decisions import Choice
from tilegen.errors import Diagnostic, Mark
from tilegen.index import Index, Var, minimum
from tilegen.kept import keep
from tilegen.layouts import counted_shape
from tilegen.plan import Param
from tilegen.spaces import SPACES, Space
from tilegen.spec.auto import Auto
from tilegen.spec.form import OpForm, WholeForm, list_fields, operand_field
from tilegen.spec.nodes import Node as WrittenNode
from tilegen.spec.nodes import Scalar, find_node
from tilegen.spec.tables import Read
from tilegen.spec.terms import BarrierTerms, RoleTerms, SlotName


@dataclass(frozen=True)
class Buffer:
    """A declared buffer. ``layout`` is a tilegen.layouts value over ``shape``, never None.

    A view shares the bytes of ``root`` (the buffer at the end of its chain of views), else ``root`` is its own name.
    Extents of arrays may be runtime Vars; all others are ints. The layout of a shared or register buffer, and of views
    that follow it (``parent``, and ``axes`` where they transpose it), is AUTO until it is chosen.
    """

    name: str
    scope: str  # a row of spaces.SPACES
    dtype: str
    shape: tuple[Index, ...]
    layout: Any
    root: str
    align_bytes: int = 16
    layout_text: str = ""  # as the user wrote it ("" for the default)
    mark: Mark | None = field(default=None, compare=False)
    parent: str = ""  # of a view that has no layout of its own but follows another buffer's: that buffer
    axes: tuple[int, ...] = ()  # of such a view: a transpose, () for none
    partial: bool = False  # of an output: elements may be left unwritten
    is_distinct: bool = False  # no value of 0 or more stands twice: promised of an array, claimed of registers
    over: tuple[str, ...] = ()  # of a shared buffer: those on whose bytes it lies; of a tmem buffer, on whose columns
    values: Values | None = None  # of a global array: what its caller promises of every element
    is_unwritten: bool = False  # of a workspace: no pass before this one writes it

    @property
    def traits(self) -> Space:
        """What its space is. Raises KeyError for a scope that is none."""
        return SPACES[self.scope]

    @property
    def is_auto(self) -> bool:
        return isinstance(self.layout, Auto)

    @property
    def counted_shape(self) -> tuple[Index, ...]:
        """The extents that the layout counts: the shape, and more where threads share registers unevenly."""
        return self.shape if not self.traits.is_held or self.is_auto else counted_shape(self.layout, self.shape)


@dataclass(frozen=True)
class Region:
    """A box of a buffer: a begin (an Index over loops, params and axes) and a constant length per dimension.

    ``kept[d]`` is False where an index dropped the dimension. ``shape`` is the lengths of the kept dimensions.
    ``limits``: of dimensions that have one, what lies there or beyond counts as past the array's end. ``open``:
    dimensions of which all is meant though the launch alone knows how much that is; their length here is 1.
    """

    buffer: Buffer
    begins: tuple[Index, ...]
    lengths: tuple[int, ...]
    kept: tuple[bool, ...]
    text: str = field(default="", compare=False)
    mark: Mark | None = field(default=None, compare=False)
    limits: tuple[tuple[int, Index], ...] = ()
    open: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n for n, k in zip(self.lengths, self.kept, strict=True) if k)

    @property
    def ends(self) -> tuple[Index, ...]:
        """Where each dimension ends: the array's extent, or a limit before it."""
        limits = dict(self.limits)
        return tuple(minimum(limits[d], n) if d in limits else n for d, n in enumerate(self.buffer.shape))


@dataclass(frozen=True)
class Expression:
    """What an op computes: ``trees``, one a result, over elements of ``operands``, by name and in order, and over the
    integers ``wholes``, in which ``formulas.coordinate(d)`` stands for index(d)."""

    trees: tuple[Node, ...]
    wholes: tuple[Index, ...]
    operands: Mapping[str, Region] = field(hash=False)
    text: str = field(default="", compare=False)

    @property
    def tree(self) -> Node:
        """What the only result is. Raises ValueError where there are several."""
        (tree,) = self.trees
        return tree


@dataclass(frozen=True)
class Call:
    """One op: ``fields`` is an instance of the op's pydantic model; ``regions`` its operands by field name.

    Of several results each has a field of its own (``result_field``), as operands of its expression do. ``conditions``:
    what the fields say that hold conditions, by name. ``nodes``: what the text has for each field that it gives.
    """

    form: OpForm
    scope: str  # one of scopes.OP_SCOPES
    fields: Any = field(hash=False)
    regions: Mapping[str, Region] = field(hash=False)
    when: Index = True
    mark: Mark | None = field(default=None, compare=False)
    barrier: SlotName | None = None
    expression: Expression | None = None
    conditions: Mapping[str, Index] = field(default_factory=dict, hash=False)
    role: str = ""  # that it stands in
    nodes: Mapping[str, WrittenNode] = field(default_factory=dict, compare=False, repr=False)

    @property
    def op(self) -> str:
        """The op's name."""
        return self.form.name

    def mark_of(self, name: str) -> Mark | None:
        """The place of a field's value; the op's where the field is not given, or not by the text that has the op."""
        node = find_node(self.nodes, name)
        own, given = self.mark, node.mark if node is not None else None
        is_there = own and given and given.path == own.path and given.keys.startswith(own.keys)
        return given if is_there else own

    @property
    def peers(self) -> str:
        """The axis of the cluster along which all CTAs get what the call brings, "" for its own CTA alone."""
        return (getattr(self.fields, self.form.peers) or "") if self.form.peers else ""

    @property
    def accumulates(self) -> str:
        """The function by which what the call writes is updated atomically, one of ``arithmetic.UPDATES``, or ""."""
        return (getattr(self.fields, self.form.accumulates) or "") if self.form.accumulates else ""

    @property
    def indexed(self) -> Region:
        """The region in which the call's index counts. Raises KeyError for a call without one."""
        return self.regions[self.form.indexed]

    @property
    def stores_by_index(self) -> bool:
        """Does an index say where what the call writes goes?"""
        return bool(self.form.index) and self.form.indexed in self.form.writes

    @property
    def read(self) -> tuple[Region, ...]:
        """The regions that the call reads."""
        return tuple(self.regions[name] for name in self.fields_read)

    @property
    def fields_read(self) -> tuple[str, ...]:
        """The fields of the regions that the call reads, those of its expression last."""
        return _list_read(self)

    @property
    def sources(self) -> tuple[Region, ...]:
        """The regions that the call reads, without those that it accumulates into."""
        updated = self.fields_written if self.accumulates else ()
        return tuple(self.regions[name] for name in self.fields_read if name not in updated)

    @property
    def written(self) -> tuple[Region, ...]:
        """The regions that the call writes."""
        return tuple(self.regions[name] for name in self.fields_written)

    @property
    def fields_written(self) -> tuple[str, ...]:
        """The fields of the regions that the call writes, those of several results in the order of the text."""
        return list_fields(self.regions, (*self.form.updates, *self.form.writes))

    @property
    def queue(self) -> str:
        """Where the call's data is waited for, "" if it is done when its threads go on."""
        return self.form.queue(self)


@keep
def _list_read(call: Call) -> tuple[str, ...]:
    form = call.form
    takes = form.takes_written(call.fields) or call.accumulates
    named = (*form.reads, *form.updates, *(form.writes if takes else ()))
    computed = call.expression.operands if call.expression else ()
    return (*list_fields(call.regions, named), *map(operand_field, computed))


@dataclass(frozen=True)
class Nest:
    """Statements inside a statement. Its body is run by the threads, and as often, as the kind of nest says."""

    body: tuple[Statement, ...] = field(kw_only=True, default=())


@dataclass(frozen=True)
class Loop(Nest):
    """for var in range(start, stop, step): body. The step is at least 1; there may be no trip."""

    var: Var
    start: Index
    stop: Index
    step: Index
    unroll: bool = False
    mark: Mark | None = field(default=None, compare=False)


@dataclass(frozen=True)
class WhenStatement(Nest):
    """when: a condition; do: body, run by the threads for which it holds."""

    when: Index
    mark: Mark | None = field(default=None, compare=False)


@dataclass(frozen=True)
class RoleBlock(Nest):
    """role: a name; do: body, run by the threads of the role while others run what is theirs."""

    role: str
    mark: Mark | None = field(default=None, compare=False)


@dataclass(frozen=True)
class LetStatement:
    """let: names for values, each known to those after it, to the rest of the list, and inside of that."""

    entries: tuple[tuple[Var, Index | Read], ...]
    mark: Mark | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SyncStatement:
    """sync: warp | warpgroup | role | cta | cluster | async (where nobody meets), or roles: those of ``roles``."""

    scope: str
    when: Index = True
    mark: Mark | None = field(default=None, compare=False)
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class WholeCall:
    """An op on whole global arrays: the only one of its spec, which then has no grid and no threads of its own.

    ``arrays``: its operands by field name. ``ops`` turns it into the statements that carry it out, tile by tile.
    ``nodes``: what the text has for each field that it gives.
    """

    form: WholeForm
    fields: Any
    arrays: Mapping[str, Buffer] = field(hash=False)
    mark: Mark | None = field(default=None, compare=False)
    nodes: Mapping[str, WrittenNode] = field(default_factory=dict, compare=False, repr=False)

    def mark_of(self, name: str, start: int = 0, end: int | None = None) -> Mark | None:
        """The place of a field's value, or of some characters of a text; the op's where the field is not given."""
        node = self.nodes.get(name)
        if isinstance(node, Scalar) and end is not None:
            return node.locate(start, end)
        return node.mark if node is not None else self.mark

    @property
    def op(self) -> str:
        """The op's name."""
        return self.form.name


@dataclass(frozen=True)
class CommitStatement:
    """commit: what was started asynchronously since the last commit becomes one group of a queue ("": the only one).

    That of products in tensor memory is an arrival: ArriveStatement.
    """

    when: Index = True
    mark: Mark | None = field(default=None, compare=False)
    queue: str = ""


@dataclass(frozen=True)
class WaitStatement:
    """wait: until at most ``pending`` groups of what runs by itself are in flight, or for a phase of ``barrier``.

    ``queue``: whose groups; "" for those of all queues that are used there.
    """

    pending: int
    when: Index = True
    mark: Mark | None = field(default=None, compare=False)
    barrier: SlotName | None = None
    queue: str = ""


@dataclass(frozen=True)
class FollowStatement:
    """wait: previous: until the kernels launched before have ended and all that they wrote is there."""

    mark: Mark | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ArriveStatement:
    """arrive: one thread of each instance of ``scope`` arrives at its CTA's mbarrier, at those of all along ``to``.

    ``landed``: a queue, and it does not arrive itself but what it has started there does, when that is done: a commit.
    """

    barrier: SlotName
    scope: str
    when: Index = True
    mark: Mark | None = field(default=None, compare=False)
    to: str = ""
    landed: str = ""


Statement = Union[  # noqa: UP007
    Call, Loop, WhenStatement, RoleBlock, LetStatement, SyncStatement, CommitStatement, WaitStatement, FollowStatement,
    ArriveStatement, WholeCall,
]  # fmt: skip


@dataclass(frozen=True)
class Constant:
    """A compile-time parameter. ``choices``: what it may be, the one that is taken first; () where nothing is said."""

    name: str
    value: int
    choices: tuple[int, ...] = ()


@dataclass(frozen=True)
class Spec:
    """A checked spec. ``params`` are the runtime ones, in order; constants are folded into every expression.

    ``whole`` is the op on whole arrays that ``ops`` carry out, once it has been expanded. ``choices``: what was chosen
    for the kernel as a whole before its ops were planned, such as the layouts of shared buffers. Two specs are equal
    that say the same kernel: where a spec comes from (``path``, ``text``, ``whole``) and why it is as it is
    (``choices``, ``notes``) do not count, and no more does what runs ``before``.
    """

    kernel: str
    arch: str
    threads: int
    grid: tuple[Index, Index, Index]
    cluster: tuple[int, int, int]
    params: tuple[Param, ...]
    constants: tuple[Constant, ...]
    buffers: tuple[Buffer, ...]
    ops: tuple[Statement, ...]
    path: str = field(default="<text>", compare=False)
    text: str = field(default="", repr=False, compare=False)
    choices: tuple[Choice, ...] = field(default=(), compare=False)
    whole: WholeCall | None = field(default=None, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)  # for the head of the CUDA file
    ctas_per_sm: int = 0  # that must fit at once; 0: as many as do
    ctas_per_sm_mark: Mark | None = field(default=None, compare=False)
    roles: tuple[RoleTerms, ...] = ()  # in the order of their threads; () where all do the same
    barriers: tuple[BarrierTerms, ...] = ()  # those that are declared
    cta_group: int = 1  # 2: CTAs 2 i and 2 i + 1 along cbx are a pair
    overlaps: bool = False  # starts while the kernel before still runs
    overlaps_mark: Mark | None = field(default=None, compare=False)
    ops_mark: Mark | None = field(default=None, compare=False)
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    version: int = field(default=0, compare=False)  # of the language, as the text says; 0 where it does not
    before: tuple[Any, ...] = field(default=(), repr=False, compare=False)  # the passes that run before it
    known: tuple[Index, ...] = ()  # conditions on params that hold in every launch; a text has none, proofs do
    elements: tuple[str, ...] = ()  # params that stand for elements of tables, where proofs take these for sizes

    def threads_of(self, role: str) -> int:
        """The threads that run what stands in a role ("": outside of all)."""
        return {r.name: r.threads for r in self.roles}.get(role, self.threads)

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name (KeyError if there is none)."""
        return _buffers_by_name(self)[name]


@keep
def _buffers_by_name(spec: Spec) -> dict[str, Buffer]:
    return {b.name: b for b in spec.buffers}
