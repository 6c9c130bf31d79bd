"""Tiles from shared to tensor memory by tcgen05.cp, which one thread starts and a tensor core carries out.

Source: PTX ISA, tcgen05.cp: the shape .32x128b with .warpx4 takes 32 rows of 16 bytes to all four groups of 32 lanes;
"Matrix descriptors" for how rows are found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilegen.decisions import Choice
from tilegen.index import Index, Var, add, equal, multiple
from tilegen.index.runs import counter
from tilegen.layouts import TileLayout, tile_of
from tilegen.ops.cells import GROUP, GROUPS
from tilegen.ops.formals import Formals
from tilegen.ops.held import find_region_places
from tilegen.ops.op import Planned, plan_one
from tilegen.ops.operand import Context, Operand, Refused
from tilegen.plan import TENSOR_COPY, MatrixDescriptor, Step, TensorCopy, When, repeat
from tilegen.plan.descriptors import CHUNK_BYTES
from tilegen.plan.descriptors import GROUP as ROWS
from tilegen.plan.descriptors import TCGEN05 as ENGINE
from tilegen.scopes import SCOPES, threads_of
from tilegen.spec.data import Buffer, Call

_SHAPE = "32x128b.warpx4"
_LATER = "128x256b, 4x256b, 128x128b and 64x128b"
_COPIES = frozenset(GROUP * k for k in range(GROUPS))


@dataclass(frozen=True)
class _Copies:
    """The copies that make up a tile: how each lies in shared memory, and where they begin on both sides, in elements
    from where the regions do."""

    lies: MatrixDescriptor
    src: tuple[int, ...]
    dst: tuple[int, ...]


def refuse_tensor_copy(call: Call, context: Context) -> str | None:
    """Why tcgen05.cp cannot carry out a call, before any layout is looked at."""
    src, dst = (call.regions[name].buffer for name in ("src", "dst"))
    if not TENSOR_COPY.moves(src.traits, dst.traits):
        return f"it moves shared -> tmem, not {src.scope} -> {dst.scope}"
    if TENSOR_COPY.feature not in context.arch.features:
        return f"{context.arch.name} has no tensor memory"
    if call.barrier is not None:
        return "it reports to no mbarrier itself: 'commit: {barrier: ..}' behind it does"
    if not call.fields.asynchronous:
        return "the copy is done when its thread hears so: 'async: true', and 'commit: {barrier: ..}' behind it"
    if call.accumulates or call.fields.cache == "stream" or call.peers or call.fields.round:
        return "it moves elements as they are, and its fields are 'src', 'dst', 'async', 'scope' and 'when'"
    if SCOPES[call.scope].size(context.launch.threads) != context.launch.threads:
        return f"one thread starts a copy, and there are several {call.scope}s here: 'scope: role', or none"
    return None


def plan_tensor_copy(context: Context, call: Call) -> Planned:
    """A copy for each 4 columns, started by the first thread. Raises Refused."""
    src, dst = (context.operand(call, name) for name in ("src", "dst"))
    found = _find_copies(src, dst)
    base = tile_of(src.buffer.layout).place(src.region.begins, src.buffer.counted_shape).get("m", 0)
    lane, column = begin_of(dst)
    for what, at, region in (("16 bytes", base, src.region), ("4 columns", column, dst.region)):
        if multiple(at) * src.elem_bytes % CHUNK_BYTES:
            raise Refused(f"{region.text} is not known to begin at a multiple of {what}")
    count = len(found.dst)
    rises = [at[1] - at[0] if count > 1 else 0 for at in (found.src, found.dst)]
    is_even = all(
        at == tuple(at[0] + k * rise for k in range(count))
        for at, rise in zip((found.src, found.dst), rises, strict=True)
    )
    var = counter(context.fresh("part"), count) if is_even else 0
    names = [var.name] if isinstance(var, Var) else []
    formals = Formals((dst, src), (False, True), call.scope, names)

    def start(at: tuple[Index, Index]) -> Step:
        to = formals.see(0, dst.memory[lane, add(column, at[1])])
        return TensorCopy(TENSOR_COPY, to, formals.see(1, src.memory[add(base, at[0])]), found.lies)

    if is_even:
        first, second = (add(at[0], var * rise) for at, rise in zip((found.src, found.dst), rises, strict=True))
        one = start((first, second))
        body = repeat(var, (one,)) if isinstance(var, Var) else (one,)
    else:
        body = tuple(start(at) for at in zip(found.src, found.dst, strict=True))
    block = formals.block(f"copy_{src.buffer.name}_{dst.buffer.name}", body, context.op)
    chosen = equal(threads_of(call.scope, context.launch.threads)[0], 0)
    choices = (
        Choice("instruction", f"{TENSOR_COPY.name} {_SHAPE}", (), "32 rows of 16 bytes, to each group of 32 lanes"),
        Choice("copies", count, (), "of one thread, done when what it commits has arrived"),
    )
    return plan_one(context, When(chosen, (block,)), choices)


def _find_copies(src: Operand, dst: Operand) -> _Copies:
    """The copies of 32 lanes by 16 bytes, which have all elements of the tile, each once. Raises Refused."""
    if not is_replicated(dst.buffer):
        why = f"tcgen05.cp.{_SHAPE} writes all four groups of lanes: {dst.buffer.name} needs R[4:32@TLane]"
        raise Refused(f"{why}; the shapes {_LATER} are not yet supported")
    if src.lengths != dst.lengths:
        raise Refused(f"{src.region.text} and {dst.region.text} have other dimensions longer than 1 than one another")
    size, zero = src.elem_bytes, np.zeros(src.lengths, np.int64)
    per = CHUNK_BYTES // size
    cells, given = find_region_places(dst), find_region_places(src)
    lane, column, at = (x.ravel() for x in (cells.get("TLane", zero), cells.get("TCol", zero), given.get("m", zero)))
    key = (column // per * GROUP + lane) * per + column % per
    order = np.argsort(key)
    whole = np.add.outer(np.unique(column // per) * GROUP * per, np.arange(GROUP * per)).ravel()
    if begin_of(dst)[0] != 0 or lane.max() >= GROUP or not np.array_equal(key[order], whole):
        raise Refused(f"a copy fills 4 columns of 32 lanes, and {dst.region.text} does not have whole ones")
    table = at[order].reshape(-1, GROUP, per)
    if not isinstance(src.buffer.layout, TileLayout):
        raise Refused(f"{src.region.text}: tcgen05.cp reads rows of {CHUNK_BYTES} bytes, which no swizzle has moved")
    stride = int(table[0, ROWS, 0] - table[0, 0, 0])
    lies = MatrixDescriptor(GROUP, size, "k", 0, 0, stride * size, ENGINE, depth_bytes=CHUNK_BYTES)
    if problem := lies.problem():
        raise Refused(f"{src.region.text}: {problem}")
    starts = table[:, :1, :1]
    wanted = starts + lies.offsets() // size
    if (table != wanted).any():
        part, row, element = (int(x[0]) for x in np.nonzero(table != wanted))
        from_start = [int(x[part, row, element] - starts[part, 0, 0]) * size for x in (wanted, table)]
        what = f"what goes to lane {row} lies {from_start[1]} bytes from where a copy begins"
        raise Refused(f"{src.region.text}: {what}, and tcgen05.cp takes it {from_start[0]} bytes from there")
    if (starts * size % CHUNK_BYTES).any():
        raise Refused(f"{src.region.text}: a copy begins at a multiple of {CHUNK_BYTES} bytes")
    first = np.unique(column // per) * per
    return _Copies(lies, tuple(map(int, starts.ravel())), tuple(map(int, first)))


# ---------------------------------------------------------------- where a region lies
def begin_of(operand: Operand) -> tuple[Index, Index]:
    """The lane and the element of it where a region in tensor memory begins."""
    place = operand.buffer.layout.place(operand.region.begins, operand.buffer.counted_shape)
    return place.get("TLane", 0), place.get("TCol", 0)


def is_replicated(buffer: Buffer) -> bool:
    """Does a layout of tensor memory put each element in one lane of all four groups?

    A copy by tcgen05.cp with .warpx4 writes them so.
    """
    places: set[tuple[int, int]] = {(0, 0)}  # lanes, and elements of a lane
    for i in tile_of(buffer.layout).replica:
        steps = [k * int(i.stride) for k in range(int(i.extent))]  # type: ignore[arg-type]
        places = {(a + s * (i.axis == "TLane"), b + s * (i.axis != "TLane")) for a, b in places for s in steps}
    return places == {(copy, 0) for copy in _COPIES}
