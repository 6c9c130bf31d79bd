"""TMA copies: boxes of a global array that one elected thread moves from or to shared memory.

A box is the innermost part of each dimension of the tile, which must lie in shared memory row by row, as TMA puts it
there; the rest of the tile is a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import prod

from tilegen.decisions import Choice
from tilegen.dtypes import DTYPES
from tilegen.errors import LayoutError
from tilegen.index import Index, Var, bound, equal, mul, multiple
from tilegen.kept import keep
from tilegen.layouts import SwizzleLayout, swizzle_of
from tilegen.layouts.constructors import find_tma_problems, swizzle_atom
from tilegen.ops.digits import Digit, spread
from tilegen.ops.edges import passing_dims
from tilegen.ops.formals import Formals
from tilegen.ops.op import Planned, plan_one
from tilegen.ops.operand import (
    Context,
    Operand,
    Refused,
    absolute,
    bind,
    is_swizzled,
    join_operands,
    memory_of,
    ref_at,
)
from tilegen.plan import (
    TMA_STORE,
    TMA_UNIT_BYTES,
    Arrive,
    Barrier,
    Commit,
    Repeat,
    Slot,
    Step,
    TensorMap,
    Tma,
    find_box_type,
    find_rows_apart,
    when,
)
from tilegen.scopes import threads_of
from tilegen.spec.clusters import count_peers, find_peers
from tilegen.spec.data import Buffer, Call, Region
from tilegen.spec.pairs import find_even_rank, is_even

MOST_DIMENSIONS = 5  # CUDA Driver API, cuTensorMapEncodeTiled
MODES = (32, 64, 128)


@dataclass(frozen=True)
class Boxes:
    """How a tile is cut: the box of each dimension of the array, and the digits of what is left, outermost first.

    Of a tile that several CTAs bring together these are the boxes of one part.
    """

    map: TensorMap
    outer: tuple[Digit, ...]
    part: tuple[int, Index] = (0, 0)  # where this CTA's part begins, in a dimension of the region

    @property
    def count(self) -> int:
        return prod(d.extent for d in self.outer)


def reject_layout(call: Call, tile: Buffer) -> str | None:
    """Why no boxes move this copy's shared buffer with the layout that ``tile`` has, or None.

    A descriptor says rows of a box one behind the other, in the order of the global array, and one of three swizzles.
    """
    regions = [call.regions[name] for name in ("src", "dst")]
    array = next(r for r in regions if r.buffer.traits.is_array)
    own = next(r for r in regions if r.buffer.name == tile.name)
    if problem := _find_problem(array):
        return problem
    try:
        swizzle_bytes_of(tile)  # most swizzles are no mode: no more need be known of them
    except Refused as refusal:
        return str(refusal)
    return _explain_cut(array, replace(own, buffer=tile)) or None


@lru_cache(maxsize=4096)
def _explain_cut(array: Region, own: Region) -> str:
    """Why no boxes move what lies in shared memory so, of which the layout is asked about again and again."""
    try:
        _cut(_bind_array(array), bind(own, memory_of(own.buffer)))
    except Refused as refusal:
        return str(refusal)
    return ""


@keep
def _bind_array(region: Region) -> Operand:
    """The operand of a region of an array, which many layouts of the other side are asked about with."""
    return bind(region, memory_of(region.buffer))


@keep
def _find_problem(region: Region) -> str:
    """Why TMA knows no such array."""
    try:
        _check_array(_bind_array(region))
    except Refused as refusal:
        return str(refusal)
    return ""


@cache
def _modes_of(dtype: str) -> dict[SwizzleLayout, int]:
    """The bytes of each mode by its swizzle."""
    return {swizzle_atom(dtype, size): size for size in MODES}


@cache
def _list_modes(dtype: str) -> str:
    return ", ".join(map(str, _modes_of(dtype)))


def swizzle_bytes_of(tile: Buffer) -> int:
    """The TMA mode that a tile's swizzle is, 0 for none; raises Refused for a swizzle that is no mode."""
    if DTYPES[tile.dtype].bits > 64:
        raise Refused(f"TMA moves elements of at most 64 bits, {tile.dtype} has more")
    try:
        swizzle = swizzle_of(tile.layout)
    except LayoutError as error:
        raise Refused(str(error)) from None
    if swizzle is None or swizzle.swizzle_len == 0:
        return 0
    modes = _modes_of(tile.dtype)
    if swizzle not in modes:
        raise Refused(f"{tile.name} has {swizzle}, which TMA has not: its modes are {_list_modes(tile.dtype)}")
    return modes[swizzle]


def cut_boxes(context: Context, array: Operand, tile: Operand, peers: str = "", rounds: bool = False) -> Boxes:
    """The boxes of a tile, or of this CTA's part of it where the CTAs along an axis of the cluster bring it.

    ``rounds``: float32 elements are rounded to tf32.

    Raises Refused with the first of TMA's limits that it breaks.
    """
    boxes = _cut(array, tile)
    if peers:
        boxes = _share(boxes, array, tile, Var(peers, count_peers(context.launch.cluster, peers)))
        _check_place(tile, boxes)
    name = f"{boxes.map.name}_tf32" if rounds else boxes.map.name
    return replace(boxes, map=replace(boxes.map, name=context.fresh(name), rounds=rounds))


def _cut(array: Operand, tile: Operand) -> Boxes:
    """The boxes, with a name for their descriptor that the spec may have given to something else."""
    _check_array(array)
    memory, mode = array.memory, swizzle_bytes_of(tile.buffer)
    dims = _order_dims(array)
    digits = join_operands((array, tile))
    inner = {d.places[0][0]: d for d in digits if d.places[0][1] == 1}
    box = dict.fromkeys(dims, 1) | {array.dims[k]: d.extent for k, d in inner.items()}
    _check_dense(array, tile, inner, dims)
    extents = [box[d] for d in dims]
    problems = find_tma_problems(array.buffer.dtype, extents, mode)
    problems += [apart] if (apart := find_rows_apart(extents, array.elem_bytes, mode)) else []
    if problems:
        raise Refused("; ".join(problems))
    tensor_map = TensorMap(_name_map(array, extents, mode), memory, dims, tuple(extents), mode)
    boxes = Boxes(tensor_map, tuple(d for d in digits if d not in inner.values()))
    _check_place(tile, boxes)
    return boxes


def _share(boxes: Boxes, array: Operand, tile: Operand, rank: Var) -> Boxes:
    """One of equal parts along what lies outermost in shared memory: boxes, or rows of the only one."""
    count, m = rank.bound, boxes.map
    if boxes.outer:
        far = max(range(len(boxes.outer)), key=lambda k: multiple(boxes.outer[k].strides[1] or 0))
        digit = boxes.outer[far]
        if digit.extent % count:
            raise Refused(f"{count} CTAs cannot share {digit.extent} boxes of {tile.buffer.name} equally")
        (d, weight, _), extent = digit.places[0], digit.extent // count
        part = replace(digit, extent=extent, places=((d, weight, extent),))
        outer = (*boxes.outer[:far], *([part] if extent > 1 else []), *boxes.outer[far + 1 :])
        return replace(boxes, outer=outer, part=(d, mul(rank, extent * weight)))
    j = next((j for j, n in enumerate(m.box) if n > 1), 0)
    rows = m.box[j] // count
    if m.box[j] % count or m.box_bytes // count % m.align_bytes:
        parts = f"in parts of a multiple of {m.align_bytes} bytes"
        raise Refused(f"{count} CTAs cannot share a box of {list(m.box)} of {tile.buffer.name} {parts}")
    box = [*m.box[:j], rows, *m.box[j + 1 :]]
    part_map = replace(m, name=_name_map(array, box, m.swizzle_bytes), box=tuple(box))
    return replace(boxes, map=part_map, part=(array.dims.index(m.dims[j]), mul(rank, rows)))


def _name_map(array: Operand, box: Sequence[int], mode: int) -> str:
    """A name that tells descriptors of one array apart."""
    return f"{array.buffer.name}_map_{'x'.join(map(str, box))}" + (f"_{mode}B" if mode else "")


def _check_array(array: Operand) -> None:
    name, memory = array.buffer.name, array.memory
    if memory.align_bytes % TMA_UNIT_BYTES:
        raise Refused(f"the pointer {name} is aligned to {memory.align_bytes} bytes, TMA needs {TMA_UNIT_BYTES}")
    if is_swizzled(array.buffer):
        raise Refused(f"the layout of {name} permutes addresses, TMA reads plain strides")
    split = [d for d, iters in enumerate(array.iters) if len(iters) > 1]
    if split or len(memory.shape) != len(array.iters):
        raise Refused(f"the layout of {name} splits its dimensions or has an offset, TMA reads plain strides")
    side_by_side = [d for d, pitch in enumerate(memory.pitches) if pitch == 1 and memory.shape[d] != 1]
    if len(side_by_side) > 1:
        raise Refused(f"dimensions {' and '.join(map(str, side_by_side))} of {name} have a stride of 1, TMA needs one")
    for d, pitch in enumerate(memory.pitches):
        step = multiple(mul(pitch, memory.elem_bytes))
        is_asked = memory.shape[d] != 1 or d in array.dims or d in passing_dims(array)
        if pitch not in (0, 1) and is_asked and step % TMA_UNIT_BYTES:
            known = "" if isinstance(pitch, int) else f", known to be a multiple of {step} bytes"
            need = f"TMA needs a multiple of {TMA_UNIT_BYTES} bytes"
            raise Refused(f"dimension {d} of {name} has a stride of {pitch} elements{known}: {need}")


def _refuse_limit(array: Operand) -> None:
    """TMA clips at the ends of the whole array."""
    if array.region.limits:
        name = array.buffer.name
        message = f"TMA clips at the ends of {name}, not at a limit: copy by TMA 'when' all of it is before the limit"
        raise Refused(f"{message}, and by threads else")


def _order_dims(array: Operand) -> tuple[int, ...]:
    """The array's dimensions longer than 1 along which places differ, those of the tile, and those that it may pass an
    end of, outermost first.
    """
    shape, pitches = array.memory.shape, array.memory.pitches
    _refuse_limit(array)
    own = {*array.dims, *passing_dims(array)}
    dims = [d for d, n in enumerate(shape) if (n != 1 and pitches[d] != 0) or d in own] or [len(shape) - 1]
    dims.sort(key=lambda d: -bound(pitches[d]))
    if pitches[dims[-1]] != 1:
        raise Refused(f"no dimension of {array.buffer.name} is contiguous, and TMA needs one")
    if len(dims) > MOST_DIMENSIONS:
        raise Refused(f"{array.buffer.name} has {len(dims)} dimensions longer than 1, TMA knows {MOST_DIMENSIONS}")
    return tuple(dims)


def _check_dense(array: Operand, tile: Operand, inner: dict[int, Digit], dims: tuple[int, ...]) -> None:
    """In shared memory a box is row-major, in the order of the array's dimensions."""
    region_dim = {d: k for k, d in enumerate(array.dims)}
    expected = 1
    for d in reversed(dims):
        digit = inner.get(region_dim.get(d, -1))
        if digit is None:
            continue
        stride = digit.strides[1]
        if stride != expected:
            where = f"{tile.buffer.name} has neighbours of dimension {d} of {array.buffer.name}"
            apart = "at no one distance" if stride is None else f"{stride} elements apart"
            raise Refused(f"{where} {apart}, TMA puts them {expected} apart: a box is row-major in shared memory")
        expected *= digit.extent


def _check_place(tile: Operand, boxes: Boxes) -> None:
    align, size = boxes.map.align_bytes, tile.elem_bytes
    ref = ref_at(tile, _relative(boxes, len(tile.dims), _counters(boxes, "i")))
    if multiple(ref.offset) * size % align or tile.memory.offset_bytes % align:
        known = multiple(ref.offset) * size
        why = f"a box of {tile.buffer.name} begins at a multiple of {known} bytes"
        mode = f"with a {boxes.map.swizzle_bytes}-byte swizzle" if boxes.map.swizzle_bytes else "without a swizzle"
        raise Refused(f"{why}, TMA needs {align} {mode}")


def _counters(boxes: Boxes, name: str) -> list[Var]:
    """A loop variable for each digit outside the box."""
    return [Var(f"{name}{k}" if k else name, d.extent) for k, d in enumerate(boxes.outer)]


def _relative(boxes: Boxes, rank: int, counters: list[Var]) -> list[Index]:
    """Where a box begins, in coordinates of the region."""
    at: list[Index] = [0] * rank
    at[boxes.part[0]] = boxes.part[1]
    for digit, counter in zip(boxes.outer, counters, strict=True):
        at = spread(counter, digit.places, at)
    return at


# ---------------------------------------------------------------- copies
def plan_load(context: Context, call: Call, array: Operand, tile: Operand, barrier: Barrier) -> Planned:
    """The elected thread announces the bytes at the mbarrier, those of the next copies too, and starts the boxes."""
    if array.memory.access != "in":
        raise Refused(f"the kernel also writes {array.buffer.name}, and no sync orders TMA's loads after that")
    boxes = cut_boxes(context, array, tile, call.peers, call.fields.round is not None)
    assert call.barrier is not None
    slot = Slot(barrier, call.barrier.index)
    formals, counters = _frame(context, call, tile, boxes)
    step = _box(formals, array, tile, boxes, counters, slot)
    if call.peers:
        step = replace(step, peers=find_peers(context.launch.cluster, call.peers))
    announce: tuple[Step, ...] = (Arrive(slot, context.announced_bytes),) if context.announced_bytes else ()
    if barrier.pair:  # the even CTA announces the bytes of both, and both report to it
        cluster = context.launch.cluster
        step = replace(step, rank=find_even_rank(cluster))
        announce = when(is_even(cluster), *announce) if announce else ()
    body = when(_elected(context, call), *announce, *_walk(boxes, counters, step))
    return _planned(context, formals.block(f"load_{array.buffer.name}_{tile.buffer.name}", body, context.op), boxes)


def plan_store(context: Context, call: Call, tile: Operand, array: Operand) -> Planned:
    """The elected thread starts the boxes and commits them as one group."""
    function = call.accumulates
    if array.memory.access != "out" and not function:
        raise Refused(f"the kernel also reads {array.buffer.name}, and no sync orders that after TMA's stores")
    if array.early:
        _refuse_early(array)
    boxes = cut_boxes(context, array, tile)
    if function:
        kind = find_box_type(function, array.buffer.dtype)
        name = context.fresh(f"{boxes.map.name}_{function}")
        boxes = replace(boxes, map=replace(boxes.map, name=name, type=kind))
    formals, counters = _frame(context, call, tile, boxes)
    step = replace(_box(formals, array, tile, boxes, counters, None), function=function)
    if not boxes.map.keeps_to_ends(step.at[-1]):
        _refuse_ends(array, boxes.map)
    store = _walk(boxes, counters, step)
    body = when(_elected(context, call), *store, Commit(TMA_STORE.queue))
    verb = f"{function}_boxes" if function else "store"
    return _planned(context, formals.block(f"{verb}_{tile.buffer.name}_{array.buffer.name}", body, context.op), boxes)


def _refuse_early(array: Operand) -> None:
    """A GPU ends the launch at a box that is stored from before its array. Source: docs/access-model.md, "TMA"."""
    where = ", ".join(f"dimension {d}" for d in sorted(array.early))
    raise Refused(f"the region may begin before {array.buffer.name} in {where}: TMA stores no such box, threads do")


def _refuse_ends(array: Operand, tensor_map: TensorMap) -> None:
    d, size = tensor_map.dims[-1], array.elem_bytes
    name, extent = array.buffer.name, array.memory.shape[d]
    known = f"dimension {d} of {name} has {extent} elements of {size} bytes"
    raise Refused(f"{known}: TMA stores whole {TMA_UNIT_BYTES} bytes, some of them behind its end")


def _frame(context: Context, call: Call, tile: Operand, boxes: Boxes) -> tuple[Formals, list[Var]]:
    counters = _counters(boxes, context.fresh("i"))
    return Formals((tile,), (True,), call.scope, [c.name for c in counters]), counters


def _box(
    formals: Formals, array: Operand, tile: Operand, boxes: Boxes, counters: list[Var], done: Slot | None
) -> Tma:  # fmt: skip
    relative = _relative(boxes, len(tile.dims), counters)
    at = absolute(array, relative)
    if not boxes.map.begins_whole(at[boxes.map.dims[-1]]):
        _refuse_start(array, boxes.map, at[boxes.map.dims[-1]])
    return Tma(boxes.map, tuple(at[d] for d in boxes.map.dims), formals.see(0, ref_at(tile, relative)), done)


def _refuse_start(array: Operand, tensor_map: TensorMap, at: Index) -> None:
    d, known = tensor_map.dims[-1], multiple(at) * array.elem_bytes
    where = f"boxes begin at multiples of {known} bytes of dimension {d} of {array.buffer.name}"
    needs = f"a multiple of {TMA_UNIT_BYTES} bytes, {TMA_UNIT_BYTES // array.elem_bytes} elements"
    raise Refused(f"{where}: TMA needs {needs}")


def _walk(boxes: Boxes, counters: list[Var], step: Step) -> tuple[Step, ...]:
    body: tuple[Step, ...] = (step,)
    for counter in reversed(counters):
        body = (Repeat(counter, counter.bound, body, True),)
    return body


def _elected(context: Context, call: Call) -> Index:
    """The condition that holds in one thread of each instance of the op."""
    if call.scope == "thread":
        raise Refused("one thread of a warp, warpgroup or CTA starts a TMA copy; of scope thread, each would")
    return equal(threads_of(call.scope, context.launch.threads)[0], 0)


def _planned(context: Context, block: Step, boxes: Boxes) -> Planned:
    m = boxes.map
    picked = {
        "box": list(m.box), "count": boxes.count, "bytes": m.box_bytes, "swizzle": m.swizzle_bytes or "none",
    }  # fmt: skip
    proof = "the innermost part of each dimension; such a box lies in shared memory row by row, as TMA puts it there"
    return plan_one(context, block, (Choice("tma_box", picked, (), proof),))
