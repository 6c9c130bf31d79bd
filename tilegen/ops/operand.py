"""Operands: a region and the memory behind it, as addresses that builders put into steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import prod

from tilegen import layouts
from tilegen.arch import Arch
from tilegen.arch.data import TensorMemory
from tilegen.cost.accesses import Access, find_accesses
from tilegen.cost.count import Counted, cost_of, count_access
from tilegen.decisions import Cost
from tilegen.dtypes import DTYPES
from tilegen.index import (
    Index,
    add,
    bound,
    conjuncts,
    consequences,
    least,
    maximum,
    sub,
    substitute,
)
from tilegen.index.bounds import is_below
from tilegen.layouts import Iter
from tilegen.layouts.core.cells import CELL_AXES, CELL_BITS, COLUMN_BYTES
from tilegen.layouts.core.rows import drop_units, fuse_neighbours
from tilegen.ops.digits import Digit, DigitPart, join, split_dimension, split_number
from tilegen.plan import (
    MOVE,
    RED,
    Barrier,
    Instruction,
    Launch,
    Memory,
    Ref,
    Step,
    Sync,
    begin,
    flat_memory,
    list_updates,
)
from tilegen.spaces import SHARED
from tilegen.spec.data import Buffer, Call, Region
from tilegen.spec.outline import Meant, fresh_name
from tilegen.spec.pads import is_clipped, pad_of

STRETCHED = -1  # in Operand.dims: no dimension of the operand's own


@dataclass(frozen=True)
class CountedSteps:
    """Every access of some steps with its figures, over one interior CTA with every loop around the op."""

    accesses: tuple[tuple[Access, Counted], ...] = ()

    @cached_property
    def cost(self) -> Cost:
        return cost_of(counted for _, counted in self.accesses)


class Refused(Exception):
    """A variant found while planning that it cannot carry out the op; the text is the reason."""


@dataclass(frozen=True)
class Context:
    """What an op may know of its surroundings. ``enclose`` wraps steps in the loops and guards around the op.

    ``kept_elems``: for buffers whose layout is being chosen, the elements that it is taken to keep together.
    ``announced_bytes``: what a TMA copy announces at its mbarrier, for itself and for those after it; 0 where one
    before it does. ``meant``: what holds where the call stands. ``scratch_bases``: by scope, where shared memory of
    ops' own begins, in bytes behind all shared buffers; ``shared_room``: bytes that it may reach, so that as many CTAs
    as the spec wants fit. ``inside``: what holds of the place of a CTA in the grid.
    """

    arch: Arch
    launch: Launch
    memories: dict[str, Memory]
    enclose: Callable[[tuple[Step, ...]], tuple[Step, ...]]
    op: int
    taken: frozenset[str]
    condition: Index = True  # the op's own ``when``
    barriers: Mapping[str, Barrier] = field(default_factory=dict)
    kept_elems: Mapping[str, int] = field(default_factory=dict)
    announced_bytes: int = 0
    meant: Meant | None = field(default=None, compare=False)
    scratch_bases: Mapping[str, int] = field(default_factory=dict)
    inside: tuple[Index, ...] = ()
    shared_room: int = 0

    @property
    def known(self) -> tuple[Index, ...]:
        """What holds wherever the op runs: its own condition, and that the CTA is one of the grid."""
        held = (*self.inside, *conjuncts(self.condition))
        return tuple(dict.fromkeys(one for c in held for one in consequences(c)))

    def count(self, *steps: Step) -> CountedSteps:
        """The steps as they are where the op stands."""
        accesses = find_accesses(self.enclose(steps), self.launch.threads, self.launch.cluster)
        return CountedSteps(tuple((a, count_access(a, self.launch, self.launch.interior)) for a in accesses))

    def seen_by(self, call: Call) -> tuple[object, ...]:
        """All that a variant can see of a call's surroundings, to compare them by."""
        regions = [call.regions[name] for name in sorted(call.regions)]
        operands = tuple(
            (r.buffer, self.memories[r.buffer.name], self.kept_elems.get(r.buffer.name), self.early_dims(call, r))
            for r in regions
        )
        return operands, self.barriers[call.barrier.name] if call.barrier else None, self.around

    @property
    def around(self) -> tuple[object, ...]:
        """The surroundings without the operands, to compare them by."""
        loops = self.enclose((Sync("thread"),))
        bases = tuple(self.scratch_bases.items())
        return self.arch.name, self.launch, loops, self.op, self.taken, self.known, self.announced_bytes, bases

    def fresh(self, name: str) -> str:
        """``name``, or with a number behind it where the spec has something of that name."""
        return fresh_name(name, self.taken)

    def scratch(self, dtype: str, elems: int, scope: str, first: int = 0) -> Memory:
        """Shared memory of an op's own, behind all shared buffers; all ops of one scope have it in the same place, from
        byte ``first`` on.
        """
        base = self.scratch_bases.get(scope, 0) + first
        name = self.fresh(f"scratch_{dtype}_{elems}" + (f"_from_{base}" if base else ""))
        return flat_memory(name, dtype, elems, SHARED.name, offset_bytes=self.shared_top + base)

    @property
    def shared_top(self) -> int:
        """The byte behind all shared buffers."""
        shared = (m for m in self.memories.values() if m.traits.is_pooled)
        return align_shared(max((m.offset_bytes + (bound(m.span) - 1) * m.elem_bytes for m in shared), default=0))

    def early_dims(self, call: Call, region: Region) -> frozenset[int]:
        """The dimensions in which a region of a global array, which the call clips, may begin before the array."""
        may_be_early = is_clipped(call) and region.buffer.traits.is_array
        found = [d for d, x in enumerate(region.begins) if may_be_early and least(x) < 0]
        if found and self.meant:
            values = self.meant.values
            position = begin(self.launch.threads).under(*self.meant.guards, substitute(call.when, values))
            found = [d for d in found if not is_below(-1, substitute(region.begins[d], values), position.guards)]
        return frozenset(found)

    def operand(self, call: Call, name: str, cache: str = "") -> Operand:
        """The operand in a field of a call.

        ``cache``: "stream" is for arrays that the kernel reads or writes, not both.
        """
        region = call.regions[name]
        memory = self.memories[region.buffer.name]
        streams = cache == "stream" and memory.traits.has_sectors and memory.access != "inout"
        kept = self.kept_elems.get(region.buffer.name)
        operand = bind(region, memory, self.known, self.early_dims(call, region))
        operand = replace(operand, op_field=name, cache="stream" if streams else "", kept_elems=kept, pad=pad_of(call))
        return self._see_updated(operand, call.accumulates) if name in call.fields_written else operand

    def _see_updated(self, operand: Operand, function: str) -> Operand:
        """An operand that is written, or updated by a function."""
        if not function:
            return operand
        buffer = operand.buffer
        forms = list_updates(function, buffer.dtype, buffer.traits.state, self.arch.features)
        return replace(operand, via=RED[function], updated_elems=tuple(forms))


@dataclass(frozen=True)
class Operand:
    """A region of a shared, global or register buffer. ``dims`` are the dimensions longer than 1, in order.

    ``known`` holds wherever the region is used. ``early``: the dimensions of the buffer in which it may begin
    before a global array; ``pad``: what is read there, and past its end. Stretched over a larger region (``stretch``),
    STRETCHED stands in ``dims`` for the dimensions along which the element is always the same, and ``extents`` are
    those of that region. ``via``: what stores to it; an atomic update is of as many elements as ``updated_elems`` says.
    """

    region: Region
    memory: Memory
    iters: tuple[tuple[Iter, ...], ...]  # of every dimension of the buffer, outermost first
    dims: tuple[int, ...]
    known: tuple[Index, ...] = ()
    early: frozenset[int] = frozenset()
    pad: float = 0
    op_field: str = ""
    cache: str = ""  # as of the Memory that a function sees
    kept_elems: int | None = field(default=None, compare=False)  # where the layout is being chosen
    extents: tuple[int, ...] = ()
    via: Instruction = MOVE
    updated_elems: tuple[int, ...] = ()

    @property
    def buffer(self) -> Buffer:
        return self.region.buffer

    @property
    def lengths(self) -> tuple[int, ...]:
        return self.extents or tuple(self.region.lengths[d] for d in self.dims)

    @property
    def counted_lengths(self) -> tuple[int, ...]:
        """``lengths`` as the layout counts them: more where threads share the end of a dimension unevenly."""
        if self.buffer.counted_shape == self.buffer.shape:
            return self.lengths
        return tuple(n if d == STRETCHED else self._count(d) for d, n in zip(self.dims, self.lengths, strict=True))

    def _count(self, d: int) -> int:
        begin, n = self.region.begins[d], self.region.lengths[d]
        is_last = add(begin, n) == self.buffer.shape[d] and isinstance(begin, int)
        return int(sub(self.buffer.counted_shape[d], begin)) if is_last else n  # type: ignore[arg-type]

    @property
    def elem_bytes(self) -> int:
        return DTYPES[self.buffer.dtype].bytes

    @property
    def chunk_elems(self) -> int:
        """Elements that the layout certainly keeps together: a swizzle's chunk, or what padding never cuts."""
        own = layouts.chunk_of(self.buffer.layout)
        return own if self.kept_elems is None else min(own, self.kept_elems)


def align_shared(end: int) -> int:
    """Where shared memory may begin that lies behind byte ``end``.

    >>> align_shared(0), align_shared(20)
    (0, 32)
    """
    return SHARED.round_up(end)


def bind(
    region: Region, memory: Memory, known: tuple[Index, ...] = (), early: frozenset[int] = frozenset()
) -> Operand:  # fmt: skip
    """The operand of a region."""
    lengths = region.lengths
    dims = tuple(d for d, n in enumerate(lengths) if n > 1)
    return Operand(region, memory, dimension_iters(region.buffer), dims, known, early)


def dimension_iters(buffer: Buffer) -> tuple[tuple[Iter, ...], ...]:
    """The iters of each dimension of a buffer's layout, outermost first; an empty dimension has one of stride 0."""
    tile, extents = layouts.tile_of(buffer.layout), buffer.counted_shape
    if [i.extent for i in tile.shard] == list(extents):
        return tuple((i,) for i in tile.shard)
    grouped, separators = layouts.group_fused(tile, extents)
    shard = layouts.tile_of(grouped).shard
    return tuple(fuse_neighbours(drop_units(shard[a:b])) or (Iter(1, 0),) for a, b in pairwise(separators))


def parts_of(operand: Operand, lengths: Sequence[int] = ()) -> tuple[tuple[DigitPart, ...], ...]:
    """Each dimension of the region (longer than 1) as parts, for ``digits.join``.

    ``lengths``: as another operand over the region counts it, which may pass its end.
    """
    begins = operand.region.begins
    return tuple(
        split_dimension(begins[d], n, operand.iters[d]) if d != STRETCHED else (DigitPart(1, n, 0),)
        for d, n in zip(operand.dims, lengths or operand.lengths, strict=True)
    )


def join_operands(
    operands: Sequence[Operand], lengths: Sequence[int] = (), guarded: frozenset[int] = frozenset()
) -> tuple[Digit, ...]:
    """The digits of the region that all operands are over, row-major; ``guarded`` dimensions keep their own.

    ``lengths``: as the operands count them, which may pass the region's end.
    """
    return join([parts_of(o, lengths) for o in operands], lengths or operands[0].lengths, guarded)


def absolute(operand: Operand, relative: Sequence[Index]) -> tuple[Index, ...]:
    """Coordinates in the buffer of coordinates in the region (one per dimension longer than 1)."""
    at = list(operand.region.begins)
    for d, x in zip(operand.dims, relative, strict=True):
        if d != STRETCHED:
            at[d] = add(at[d], x)
    return tuple(at)


def ref_at(operand: Operand, relative: Sequence[Index]) -> Ref:
    """The element at these coordinates of the region.

    A coordinate that may lie before the array's beginning is divided as if it were 0: what is divided is never
    negative, and nothing is accessed there.
    """
    at = absolute(operand, relative)
    early = operand.early
    if not operand.memory.traits.is_array or is_swizzled(operand.buffer):
        inside = [maximum(x, 0) if d in early else x for d, x in enumerate(at)]
        return operand.memory[offset_at(operand.buffer, inside)]
    digits: list[Index] = []
    for d, (x, iters) in enumerate(zip(at, operand.iters, strict=True)):
        digits.extend(_split(maximum(x, 0) if d in early and len(iters) > 1 else x, iters))
    rank = len(operand.memory.shape)
    offset = operand.memory.shape[len(digits) :]  # a layout's own offset is one more dimension, always at its end
    return Ref(operand.memory, tuple(digits) + tuple(add(n, -1) for n in offset if rank > len(digits)))


def _split(x: Index, iters: Sequence[Iter]) -> tuple[Index, ...]:
    if len(iters) == 1:
        return (x,)
    return split_number(x, [int(i.extent) for i in iters])  # type: ignore[arg-type]


def offset_at(buffer: Buffer, at: Sequence[Index]) -> Index:
    """The element offset on axis m that the buffer's layout gives to absolute coordinates."""
    return buffer.layout.place(at, buffer.counted_shape).get("m", 0)  # type: ignore[no-any-return]


# ---------------------------------------------------------------- memories behind buffers
def memory_of(buffer: Buffer, access: str = "inout", offset_bytes: int = 0) -> Memory:
    """The memory of a buffer: flat, but for global arrays, which keep the dimensions of their layout."""
    note = f"{buffer.layout_text or 'row'} [{', '.join(map(str, buffer.shape))}]"
    promised = buffer.values if buffer.traits.is_callers else None
    if buffer.values:
        note += f", PROMISED by the caller: {promised.promise}" if promised else f", proved: values {buffer.values}"
    if buffer.traits.is_array and not is_swizzled(buffer):
        tile = layouts.tile_of(buffer.layout)
        iters = [i for dimension in dimension_iters(buffer) for i in dimension]
        shape, pitches = [i.extent for i in iters], [i.stride for i in iters]
        offset = tile.place([0] * len(buffer.shape), buffer.shape).get("m", 0)
        if not isinstance(offset, int) or offset:
            shape, pitches = [*shape, add(offset, 1)], [*pitches, 1]
        return Memory(
            buffer.name, buffer.dtype, tuple(shape), tuple(pitches), buffer.scope, access, 0, buffer.align_bytes, note,
            values=promised, is_unwritten=buffer.is_unwritten,
        )  # fmt: skip
    elems = layouts.extent_of(buffer.layout, "m") or 1  # a register layout of thread axes alone holds one element
    access, offset_bytes = (access, 0) if buffer.traits.is_array else ("inout", offset_bytes)
    return Memory(
        buffer.name, buffer.dtype, (elems,), (1,), buffer.scope, access, offset_bytes,
        buffer.traits.align_bytes or buffer.align_bytes, note, values=promised,
        is_unwritten=buffer.is_unwritten,
    )  # fmt: skip


def tensor_memory_of(buffer: Buffer, column: int, allocated: int) -> Memory:
    """The memory of a tmem buffer that begins at a column of an allocation: by lane, and element of a lane.

    A lane has the bytes of all columns of the allocation, one lane behind the other.
    """
    lanes, elems = (max(1, bound(layouts.extent_of(buffer.layout, axis)) - 1) for axis in CELL_AXES)
    pitch = allocated * CELL_BITS // DTYPES[buffer.dtype].bits
    note = f"{buffer.layout_text} [{', '.join(map(str, buffer.shape))}], columns {column} on"
    return Memory(
        buffer.name, buffer.dtype, (lanes, elems), (pitch, 1), buffer.scope, offset_bytes=column * COLUMN_BYTES,
        align_bytes=4, note=note,
    )  # fmt: skip


def bind_alone(region: Region) -> Operand:
    """A region of tensor memory, as if its buffer had all columns."""
    return bind(region, tensor_memory_of(region.buffer, 0, TensorMemory().columns))


def is_swizzled(buffer: Buffer) -> bool:
    """Whether a layout is more than strides: a global array that has one is addressed by its flat offset."""
    return not isinstance(buffer.layout, layouts.TileLayout)


def elements(operand: Operand) -> int:
    """Elements of the region."""
    return prod(operand.region.lengths)
