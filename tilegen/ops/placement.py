"""Where every buffer of a spec lies, in shared memory one behind the other, and how many CTAs have room together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilegen.arch import ARCHES
from tilegen.arch.data import registers_for, shared_for
from tilegen.decisions import RESIDENT, Choice
from tilegen.dtypes import DTYPES
from tilegen.errors import Diagnostic, SpecError
from tilegen.index import Index, mul
from tilegen.kept import keep
from tilegen.layouts.core.cells import COLUMN_BYTES
from tilegen.ops.operand import memory_of, tensor_memory_of
from tilegen.plan import ADDRESS_BYTES, BARRIER_BYTES, TMA_ALIGN_BYTES, Memory, Role, Sync, flatten
from tilegen.plan.descriptors import GROUP, WIDE_BYTES, WIDE_ELEM_BYTES, WIDE_ROW_BYTES
from tilegen.scopes import SCOPES
from tilegen.spec.data import Buffer, Spec
from tilegen.spec.outline import outline
from tilegen.spec.tensor_memory import Columns, cells_of, place_columns

# TMA asks for it; how often cp.async goes to memory is counted in lines of 128 bytes of both sides, which the model
# (access/asynchronous.py) has begin at a multiple: counted on an H200, 5 sectors for 4 where a buffer began at another.
_STREAM_ALIGN_BYTES = TMA_ALIGN_BYTES
_LAST_BARRIER = 15  # PTX ISA, barrier: 16 of them, numbered from 0


def check_scratch(spec: Spec, scratch: Sequence[Memory]) -> None:
    """Raises SpecError TG210 where ops need more shared memory of their own than is left."""
    limit = ARCHES[spec.arch].max_shared_bytes_per_cta
    own = _count_own_bytes(spec)
    for m in scratch:
        top = m.offset_bytes + int(m.span) * m.elem_bytes + own  # type: ignore[arg-type]
        if top > limit:
            message = f"with {m.name} of a reduce the shared memory takes {top} bytes; a CTA on {spec.arch} has {limit}"
            raise SpecError(Diagnostic("TG210", message, None, "let fewer warps share a result"))


def find_shared_room(spec: Spec) -> int:
    """Bytes of shared memory that a CTA may take beside its barriers, so that as many CTAs as the spec wants fit."""
    arch, each = ARCHES[spec.arch], ARCHES[spec.arch].max_shared_bytes_per_cta
    if spec.ctas_per_sm:
        share = arch.shared_bytes_per_sm // spec.ctas_per_sm // arch.shared_unit_bytes * arch.shared_unit_bytes
        each = min(each, share - arch.reserved_shared_bytes_per_cta)
    return each - _count_own_bytes(spec)


def _count_own_bytes(spec: Spec) -> int:
    """Bytes of shared memory that no buffer has: mbarriers, and where tensor memory begins."""
    slots = sum(b.slots for b in outline(spec).barriers.values())
    return slots * BARRIER_BYTES + (ADDRESS_BYTES if count_tensor_columns(spec) else 0)


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
    columns = place_columns(spec.buffers, spec.arch)
    ordered = sorted(spec.buffers, key=lambda b: (bool(spec.buffer(b.root).over), b.root != b.name))  # roots first
    for buffer in ordered:
        root = memories.get(buffer.root) if buffer.root != buffer.name else None
        if root is not None:
            memories[buffer.name] = _view_memory(buffer, root, columns.allocated)
            continue
        names = {b.name for b in spec.buffers if b.root == buffer.name} | {buffer.name}
        access = "in" if not names & seen.written else "inout" if names & seen.read else "out"
        if buffer.traits.has_cells:
            memory = tensor_memory_of(buffer, columns.first[buffer.name], columns.allocated)
            _check_columns(spec, buffer, columns)
            shares = buffer.over or buffer.name in below  # then a family says whose the cells are
            memories[buffer.name] = replace(memory, family=buffer.name) if shares else memory
            continue
        memory = memory_of(buffer, access)
        if buffer.over:
            memories[buffer.name] = _lay_over(spec, buffer, memory, memories)
            continue
        if buffer.traits.is_pooled:
            lies = [b for b in (buffer, below.get(buffer.name)) if b is not None]
            align = max(_alignment(b, spec) for b in lies)
            memory = replace(memory, family=buffer.name if buffer.name in below else "")
            memory = replace(memory, offset_bytes=-(-top // align) * align, align_bytes=align)
            top = memory.offset_bytes + int(memory.shape[0]) * memory.elem_bytes  # type: ignore[arg-type]
        memories[buffer.name] = memory
    top += _count_own_bytes(spec)
    limit = ARCHES[spec.arch].max_shared_bytes_per_cta
    if top > limit:
        last = max((b for b in spec.buffers if b.traits.is_pooled), key=lambda b: memories[b.name].offset_bytes)
        message = f"the shared buffers and barriers take {top} bytes; a CTA on {spec.arch} has {limit}"
        raise SpecError(Diagnostic("TG210", message, last.mark))
    _check_resident(spec, top)
    return {b.name: memories[b.name] for b in spec.buffers if b.name in memories}


def _lay_over(spec: Spec, buffer: Buffer, memory: Memory, memories: dict[str, Memory]) -> Memory:
    """The memory of a buffer on the bytes of others, in which it fits."""
    first, room = room_below(buffer, memories)
    size = int(memory.shape[0]) * memory.elem_bytes  # type: ignore[arg-type]
    if size > room:
        message = f"'{buffer.name}' takes {size} bytes, but {', '.join(buffer.over)} have {room}"
        raise SpecError(Diagnostic("TG310", message, buffer.mark, "let it lie over more of them, or by itself"))
    align = _alignment(buffer, spec)
    return replace(memory, offset_bytes=first, align_bytes=align, family=buffer.name)


def _check_columns(spec: Spec, buffer: Buffer, columns: Columns) -> None:
    """A tmem buffer has no more columns than those that it lies over. Raises SpecError TG310."""
    if buffer.over:
        room = max(columns.first[n] + cells_of(spec.buffer(n)).reach for n in buffer.over) - columns.first[buffer.name]
        if (taken := cells_of(buffer).reach) > room:
            message = f"'{buffer.name}' takes {taken} columns, but {', '.join(buffer.over)} have {room}"
            raise SpecError(Diagnostic("TG310", message, buffer.mark, "let it lie over more of them, or by itself"))


def room_below(buffer: Buffer, memories: Mapping[str, Memory]) -> tuple[int, int]:
    """Where the buffers that this one lies over begin, and how many bytes there are up to the end of the last."""
    others = [memories[name] for name in buffer.over]
    first = min(m.offset_bytes for m in others)
    return first, max(m.offset_bytes + int(m.shape[0]) * m.elem_bytes for m in others) - first  # type: ignore[arg-type]


def _check_resident(spec: Spec, shared_bytes: int) -> None:
    """As many CTAs as the spec wants must find room in one multiprocessor's shared memory, and in its tensor memory."""
    arch, count = ARCHES[spec.arch], spec.ctas_per_sm
    each = shared_for(arch, shared_bytes)
    if count * each > arch.shared_bytes_per_sm:
        has = f"each takes {each} bytes of shared memory, {arch.reserved_shared_bytes_per_cta} of them the system's"
        message = f"{count} CTAs do not fit on one multiprocessor: {has}; {spec.arch} has {arch.shared_bytes_per_sm}"
        hint = f"at most {arch.shared_bytes_per_sm // each} do"
        raise SpecError(Diagnostic("TG311", message, spec.ctas_per_sm_mark, hint))
    has_columns, taken = _count_columns(spec)
    if count * taken > has_columns:
        each_takes = f"each takes {taken} columns of tensor memory; {spec.arch} has {has_columns}"
        message = f"{count} CTAs do not fit on one multiprocessor: {each_takes}"
        raise SpecError(Diagnostic("TG311", message, spec.ctas_per_sm_mark, f"at most {has_columns // taken} do"))


def _count_columns(spec: Spec) -> tuple[int, int]:
    """Columns of tensor memory that a multiprocessor has, and those that a CTA takes."""
    has = ARCHES[spec.arch].tensor_memory
    return (has.columns, place_columns(spec.buffers, spec.arch).allocated) if has else (0, 0)


def count_tensor_columns(spec: Spec) -> int:
    """The columns of tensor memory that the kernel allocates: none where no op touches any."""
    used = any(r.buffer.traits.has_cells for call in outline(spec).calls for r in call.regions.values())
    return place_columns(spec.buffers, spec.arch).allocated if used else 0


def check_named_barriers(spec: Spec, roles: Sequence[Role]) -> None:
    """Raises SpecError TG190 where syncs of warpgroups and roles would take more barriers than a CTA has.

    Number 0 is the CTA's; then each warpgroup has one, each role, and each set of roles.
    """
    syncs = [step for role in roles for step in flatten(role.steps) if isinstance(step, Sync)]
    sets = {step.roles for step in syncs if step.roles}
    meet = any(step.scope in ("role", "roles") for step in syncs)
    last = -(-spec.threads // SCOPES["warpgroup"].threads) + len(roles) + len(sets)
    if meet and last > _LAST_BARRIER:
        who = f"'sync: role' among {len(roles)} roles"
        who += f" and {len(sets)} sets of them" if sets else ""
        message = f"{who} of {spec.threads} threads is not yet supported"
        hint = f"it would take barrier {last}; a CTA has {_LAST_BARRIER} beside that of 'sync: cta'"
        raise SpecError(Diagnostic("TG190", message, None, hint))


def choose_resident(spec: Spec, memories: Mapping[str, Memory]) -> tuple[Choice, ...]:
    """What it takes that the CTAs that the spec wants on one multiprocessor fit."""
    if not spec.ctas_per_sm:
        return ()
    arch, shared = ARCHES[spec.arch], [m for m in memories.values() if m.traits.is_pooled]
    ends = [m.offset_bytes + int(m.shape[0]) * m.elem_bytes for m in shared]  # type: ignore[arg-type]
    each = shared_for(arch, max(ends, default=0) + _count_own_bytes(spec))
    registers = registers_for(arch, spec.threads, spec.ctas_per_sm)
    said = f"{each} bytes of shared memory each, of {arch.shared_bytes_per_sm}, the system's counted"
    has_columns, taken = _count_columns(spec)
    said += f"; {taken} columns of tensor memory each, of {has_columns}" if taken else ""
    return (Choice(RESIDENT, spec.ctas_per_sm, proof=f"at most {registers} registers a thread; {said}"),)


def _view_memory(buffer: Buffer, root: Memory, allocated: int) -> Memory:
    """The root's own memory, unless the view reads the same bytes as another element type or as a larger span."""
    if buffer.traits.has_cells:
        own = tensor_memory_of(buffer, root.offset_bytes // COLUMN_BYTES, allocated)
        return root if buffer.dtype == root.dtype else replace(own, family=root.family)
    mine = memory_of(buffer, root.access, root.offset_bytes)
    if root.traits.is_array:
        return replace(mine, name=root.name, align_bytes=root.align_bytes)
    if mine.dtype == root.dtype:
        return root
    return replace(mine, align_bytes=root.align_bytes)


def _alignment(buffer: Buffer, spec: Spec) -> int:
    """16 bytes, what TMA needs, or those after which a swizzle repeats (at most 1024): its chunks keep their banks.

    Descriptors of tcgen05 begin at 8 rows, though 32-byte chunks of elements of 4 bytes repeat after 4.
    """
    least = _STREAM_ALIGN_BYTES if buffer.name in outline(spec).streamed else 16
    swizzle = getattr(buffer.layout, "swizzle", None)
    if swizzle is None:
        return least
    size = DTYPES[buffer.dtype].bytes
    period: int = size << (swizzle.per_element + swizzle.swizzle_len + swizzle.atom_len)
    chunk, row = size << swizzle.per_element, size << swizzle.per_element + swizzle.swizzle_len
    has_cells = any(b.traits.has_cells for b in spec.buffers)
    if has_cells and (size, chunk, row) == (WIDE_ELEM_BYTES, WIDE_BYTES, WIDE_ROW_BYTES):
        period = max(period, GROUP * WIDE_ROW_BYTES)
    return max(least, min(1024, period))


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
