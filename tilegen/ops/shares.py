"""Who does the work of an op that computes: the owners of its registers, or threads that share a region of memory.

A way to share says which neighbours of which array a thread has together, and how threads follow each other. The
accesses of each way are counted, as wide as they can be, and the cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import gcd

from tilegen import layouts
from tilegen.decisions import Candidate, Choice, Cost, judge, partition_key
from tilegen.index import bound
from tilegen.ops.operand import STRETCHED, Context, CountedSteps, Operand, Refused, bind
from tilegen.ops.ownership import Ownership
from tilegen.ops.partition_layout import (
    SECTOR_BYTES,
    SHARINGS,
    VECTOR_BYTES,
    MemoryTile,
    box_layout,
    lane_axis,
    partition_layout,
    vector_elems,
)
from tilegen.ops.pins import NotHad, Pin, choose, pick, say_known
from tilegen.plan import Block, Memory
from tilegen.spaces import REGISTER
from tilegen.spec.data import Buffer, Call, Region

_FAR = 1 << 62  # further than any two elements lie apart
_MOST_BOX_BYTES = 256  # of all arrays: 64 registers
_LINE_BYTES = 128  # global memory is cached by lines of four sectors: a request looks each of its lines up


@dataclass(frozen=True)
class Share:
    """A way in which threads share a region: the ``owner`` that says who has what, and its name for a pin.

    The name is "" where a register tensor of the op is the owner.
    """

    owner: Operand
    text: str = ""


@dataclass(frozen=True)
class NewPartition:
    """The layout of a new owner, the bytes of its vectors in the narrowest array, and its name."""

    layout: layouts.TileLayout
    vector_bytes: int
    text: str


@dataclass(frozen=True)
class PreparedShare:
    """A share, the elements that a thread has by it, and the function with accesses of at most so many elements.

    ``widest``: elements of the widest access of memory that it has; 0 where nothing is in memory.
    """

    share: Share
    owned: Ownership
    widest: int
    build: Callable[[int], Block]

    @property
    def caps(self) -> list[int]:
        """Elements that an access may have: powers of two, the widest first; 1 where nothing is in memory."""
        return [1 << k for k in reversed(range(max(1, self.widest).bit_length()))]


@dataclass(frozen=True)
class Taken:
    """The function that was taken, what it costs, why, and the fields that say so.

    ``counted``: each candidate that the pins allow.
    """

    block: Block
    cost: Cost
    choices: tuple[Choice, ...]
    pins: tuple[Pin, ...]
    counted: tuple[CountedSteps, ...]


# ---------------------------------------------------------------- the ways that there are
def list_shares(context: Context, call: Call, operands: Sequence[Operand], shape: tuple[int, ...]) -> tuple[Share, ...]:
    """Who may do the work: the owners of the first register tensor over all the region, or else of each partition.

    Raises Refused where no operand covers the region.
    """
    for o in operands:
        if o.memory.traits.is_held and STRETCHED not in o.dims:
            return (Share(o),)
    in_memory = [o for o in operands if not o.memory.traits.is_held]
    covering = [o for o in in_memory if STRETCHED not in o.dims]
    if not covering:
        raise Refused("no operand has an element for each of the result's")
    memory, name = covering[0], context.fresh("tile")
    found = []
    for part in list_partitions(context, call.scope, covering, shape, len(covering) < len(in_memory)):
        buffer = Buffer(name, REGISTER.name, memory.buffer.dtype, shape, part.layout, name)
        region = Region(buffer, (0,) * len(shape), shape, (True,) * len(shape), memory.region.text)
        elems = layouts.extent_of(part.layout, "m") or 1
        own_memory = Memory(name, buffer.dtype, (elems,), (1,), buffer.scope)
        found.append(Share(bind(region, own_memory, context.known), part.text))
    return tuple(found)


def list_partitions(
    context: Context, scope: str, covering: Sequence[Operand], shape: tuple[int, ...], has_stretched: bool = False
) -> tuple[NewPartition, ...]:
    """The layouts of new owners over a region that only operands in memory cover.

    Vectors lie as in one of the operands, the first first: from 16 bytes of the narrowest, as many elements as a thread
    then keeps of others, down to one. Neighbour threads follow the vectors as far as they go, or, where another operand
    is stretched over rows (``has_stretched``), as far as a sector: a warp then reads less of that again.
    """
    axis, threads = lane_axis(scope, context.launch.threads)
    narrowest = min(o.elem_bytes for o in covering)
    names = {_order_of(o, shape): o.buffer.name for o in reversed(covering)}
    orders = dict.fromkeys(_order_of(o, shape) for o in covering)
    found: dict[layouts.TileLayout, NewPartition] = {}
    for order, is_short, sharing in product(orders, (False, True)[: 1 + has_stretched], SHARINGS):
        tile, width = MemoryTile(shape, narrowest, order), VECTOR_BYTES // narrowest
        while width:
            elems = vector_elems(tile, width)
            beside = max(2, SECTOR_BYTES // (elems * narrowest)) if is_short else 0
            layout = partition_layout(tile, threads, axis, elems, sharing, beside)
            text = f"{elems} of {names[order]}'s at once"
            text += f", {beside} threads side by side" if is_short else ""
            text += f", {sharing}" if sharing != "evenly" else ""
            found.setdefault(layout, NewPartition(layout, elems * narrowest, text))
            width = elems // 2
    for box in list_boxes(covering, shape, threads):
        layout = box_layout(MemoryTile(shape, narrowest, box.order), threads, axis, box.elems, box.lanes)
        found.setdefault(layout, NewPartition(layout, max(box.elems.values()) * narrowest, box.text))
    return tuple(found.values())


@dataclass(frozen=True)
class Box:
    """Elements of a thread that are wide along the fastest dimensions of two arrays, and the threads of a warp.

    ``order``: the dimensions from the slowest to the fastest of one of the arrays. ``elems`` and ``lanes`` are by
    dimension.
    """

    order: tuple[int, ...]
    elems: Mapping[int, int]
    lanes: Mapping[int, int]
    text: str


def list_boxes(covering: Sequence[Operand], shape: tuple[int, ...], threads: int) -> Iterator[Box]:
    """Every box that two arrays which run along different dimensions allow, with the ways to lay out a warp in which an
    access fills whole sectors of each array, or of all of its fastest dimension, and meets the fewest lines.
    """
    if not shape:
        return
    by_fastest = {_order_of(o, shape)[-1]: o for o in reversed(covering) if o.memory.traits.has_sectors}
    lanes, bytes_of_all = min(32, threads), sum(o.elem_bytes for o in covering)
    for (p, one), (q, other) in combinations(reversed(by_fastest.items()), 2):
        for a, b in product(_counts_along(one, shape[p]), _counts_along(other, shape[q])):
            if a * b == 1 or a * b * bytes_of_all > _MOST_BOX_BYTES:
                continue
            found: dict[int, list[Box]] = {}
            for beside in (1 << k for k in range(lanes.bit_length())):
                across = gcd(lanes // beside, shape[q] // b)
                sides = (p, a, beside, one), (q, b, across, other)
                if lanes % beside or not all(_fills_sectors(shape[d], n, k, o) for d, n, k, o in sides):
                    continue
                text = f"{a} of {one.buffer.name}'s by {b} of {other.buffer.name}'s at once"
                text += f", {beside} by {across} threads side by side"
                box = Box(_order_of(one, shape), {p: a, q: b}, {p: beside, q: across}, text)
                lines = sum(-(-n * k * o.elem_bytes // _LINE_BYTES) * (lanes // k) for _, n, k, o in sides)
                found.setdefault(lines, []).append(box)
            yield from found[min(found)] if found else ()


def _counts_along(operand: Operand, length: int) -> list[int]:
    """Elements along an array's fastest dimension that a thread may have at once: of vectors, or all of a short one."""
    most = VECTOR_BYTES // operand.elem_bytes
    counts = [1 << k for k in reversed(range(most.bit_length())) if length % (1 << k) == 0]
    return counts if length in counts or length > most else [length, *counts]


def _fills_sectors(length: int, elems: int, lanes: int, operand: Operand) -> bool:
    along = elems * lanes
    return length % along == 0 and (along == length or along * operand.elem_bytes % SECTOR_BYTES == 0)


def _order_of(operand: Operand, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of the region from the slowest in memory to the fastest."""
    long = [k for k, n in enumerate(shape) if n > 1]
    strides = dict(zip(long, (_stride(operand, d) for d in operand.dims), strict=True))
    return tuple(sorted(range(len(shape)), key=lambda k: (-strides.get(k, _FAR), k)))


def _stride(operand: Operand, d: int) -> int:
    return bound(operand.iters[d][-1].stride) - 1


# ---------------------------------------------------------------- the cheapest of them
def choose_share(
    context: Context, call: Call, shares: Sequence[Share], prepare: Callable[[Share], PreparedShare]
) -> tuple[PreparedShare, Taken]:
    """The cheapest of the shares that can be, by accesses as wide as can be, and of its widths the cheapest.

    Raises Refused, as ``prepare`` does, where no share can be, and NotHad where none is as the call's ``partition`` and
    ``width`` say.
    """
    if not shares[0].text:
        if call.fields.partition is not None:
            owner = shares[0].owner.buffer.name
            raise NotHad("partition", f"the threads that own {owner} have its elements")
        only = prepare(shares[0])
        return only, choose_widths(context, only, call.fields.width)
    found: list[tuple[CountedSteps, PreparedShare]] = []
    reasons: list[Refused] = []
    for share in shares:
        try:
            made = prepare(share)
            block = made.build(made.caps[0])
        except Refused as reason:
            reasons.append(reason)
            continue
        found.append((context.count(block), made))
    if not found:
        raise reasons[0]
    allowed = tuple(counted for counted, made in found if _has_pins(call, made))
    if not allowed:
        raise _miss(call, [made for _, made in found])
    (taken_share, best), why_pinned = pick(found, lambda f: _has_pins(call, f[1]), lambda f: f[0].cost, partition_key)
    least = taken_share.cost
    taken = choose_widths(context, best, call.fields.width)
    candidates = tuple(
        Candidate(m.share.text, c.cost, judge(c.cost, least, m is best, partition_key)) for c, m in found
    )
    why = why_pinned or f"the cheapest of {len(found)}; a sector counts as two instructions"
    choice = Choice("partition", best.share.text, candidates, why)
    pins = ("partition", best.share.text), *taken.pins
    return best, Taken(taken.block, taken.cost, (choice, *taken.choices), pins, (*allowed, *taken.counted))


def _has_pins(call: Call, made: PreparedShare) -> bool:
    partition, width = call.fields.partition, call.fields.width
    return partition in (None, made.share.text) and (width is None or width in made.caps)


def _miss(call: Call, found: Sequence[PreparedShare]) -> NotHad:
    """Which pin cannot be had, and what can be in its place; a partition is believed before a width."""
    partition, known = call.fields.partition, [made.share.text for made in found]
    if partition is not None and partition not in known:
        return NotHad("partition", f"partitions are {'; '.join(known)}", known)
    own = [made for made in found if partition in (None, made.share.text)]
    caps = sorted({cap for made in own for cap in made.caps}, reverse=True)
    return NotHad("width", f"accesses have up to {say_known(caps)} elements", caps)


def choose_widths(context: Context, made: PreparedShare, pinned: int | None) -> Taken:
    """The cheapest function of those with accesses of at most so many elements.

    Where nothing is in memory, nothing is chosen. Raises NotHad where ``pinned`` is not such a number.
    """
    if pinned is not None and not made.widest:
        raise NotHad("width", "nothing of it is in memory")
    if pinned not in (None, *made.caps):
        raise NotHad("width", f"accesses have up to {say_known(made.caps)} elements", made.caps)
    chosen = choose(context, made.caps, made.build, lambda n: pinned in (None, n), lambda n: {"elems": n})
    if not made.widest:
        return Taken(chosen.block, chosen.cost, (), (), chosen.counted)
    cap = chosen.value
    is_widest = cap == made.caps[0]
    why = "the widest that any operand in memory allows" if is_widest else f"the cheapest of {len(made.caps)}"
    choice = Choice("vector_width", {"elems": cap}, chosen.candidates, chosen.why_pinned or why)
    return Taken(chosen.block, chosen.cost, (choice,), (("width", cap),), chosen.counted)
