"""Which partition a tile gets: every order and pair of widths costed, the cheapest taken, or what a spec pins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from tilegen.decisions import Candidate, Choice, Cost, judge
from tilegen.ops.op import Planned
from tilegen.ops.operand import Context, CountedSteps, Operand, Refused
from tilegen.ops.ordered_tile import OrderedTile
from tilegen.ops.partition import Fill, may_be_cut, orders_of, tile_block, widest
from tilegen.ops.pins import NotHad, pick, write_width
from tilegen.plan import MOVE, Block, Instruction


@dataclass(frozen=True)
class TilePins:
    """What a spec says itself: elements of a load and of a store, and the order in which threads walk the tile."""

    widths: tuple[int, int] | None = None
    order: str | None = None

    def has(self, tile: OrderedTile, widths: tuple[int, int]) -> bool:
        return self.widths in (None, widths) and self.order in (None, tile.order)


NO_PINS = TilePins()


@dataclass(frozen=True)
class _Plan:
    """One order and pair of widths, as steps with their cost."""

    tile: OrderedTile
    widths: tuple[int, int]
    block: Block
    cost: Cost
    counted: CountedSteps


def plan_tile(
    context: Context,
    operands: Sequence[Operand],
    scope: str,
    name: str,
    source: Fill | None = None,
    scalar: bool = False,
    via: Instruction = MOVE,
    pins: TilePins = NO_PINS,
) -> Planned:
    """The cheapest order and widths for a tile (only one element at a time if ``scalar``), every candidate costed.

    ``via``: a plain move, or cp.async. Raises Refused if no width is one that the instruction has, NotHad if no
    candidate is as ``pins`` say.
    """
    tiles = orders_of(context, operands, scope)

    def plan(tile: OrderedTile, widths: tuple[int, int]) -> _Plan:
        block = tile_block(context, tile, widths, name, scope, source, via)
        counted = context.count(block)
        cost = counted.cost
        if may_be_cut(tile, widths):
            uncut = tile_block(context, tile, widths, name, scope, source, via, is_cut=False)
            cost = _leave_out_cut(operands, cost, context.count(uncut).cost)
        return _Plan(tile, widths, block, cost, counted)

    found = [
        plan(tile, widths)
        for tile in tiles
        for widths in ([(1, 1)] if scalar else _async_widths(tile, via) if via.queue else _widths(tile, source))
    ]
    if not found:
        raise Refused(_too_narrow(context, operands, scope))
    allowed = [f for f in found if pins.has(f.tile, f.widths)]
    if not allowed:  # widths that are not worth costing else
        own = [(t, w) for t in tiles for w in _allowed(t) if pins.has(t, w) and not scalar and not via.queue]
        if not own:
            raise _miss(tiles, found, pins, scalar, via)
        allowed = [plan(*one) for one in own]
        found.append(min(allowed, key=lambda f: f.cost.key))
    best, why_pinned = pick(found, lambda f: pins.has(f.tile, f.widths), lambda f: f.cost)
    why = "this variant takes one element at a time" if scalar else _say_widths(found, best, via)
    choices = _width_choice(found, best, why_pinned or why), _partition_choice(tiles, found, best, why_pinned)
    written = ("width", write_width(*best.widths)), ("partition", best.tile.order)
    return Planned((best.block,), best.cost, choices, written, counted=tuple(f.counted for f in allowed))


def _leave_out_cut(operands: Sequence[Operand], cost: Cost, uncut: Cost) -> Cost:
    """The cost of a candidate without what an edge makes of its accesses.

    Elements that are moved one by one ask for sectors of their vector again. Where the launch alone knows how long the
    arrays are, whether the CTA that is counted has an edge says nothing of others.
    """
    if all(isinstance(n, int) for o in operands for n in o.buffer.shape):
        return replace(cost, sectors=min(cost.sectors, uncut.sectors))
    return uncut


def _allowed(tile: OrderedTile) -> list[tuple[int, int]]:
    """Every pair of widths that an order allows, wide ones first; a side alone has one width."""
    sides = [[1 << k for k in reversed(range(widest(tile, s).bit_length()))] for s in range(len(tile.operands))]
    return list(product(sides[0], sides[1])) if len(sides) == 2 else [(w, w) for w in sides[0]]


def _miss(
    tiles: Sequence[OrderedTile], found: Sequence[_Plan], pins: TilePins, scalar: bool, via: Instruction
) -> NotHad:
    """Which pin cannot be had, and what can be in its place; a partition is believed before a width."""
    orders = dict.fromkeys(f.tile.order for f in found)
    if pins.order is not None and pins.order not in orders:
        return NotHad("partition", f"partitions are {', '.join(orders)}", orders)
    if scalar:
        return NotHad("width", "it moves one element at a time", [1])
    own = [t for t in tiles if pins.order in (None, t.order)]
    if via.queue:
        known = dict.fromkeys(f.widths[0] for f in found if f.tile in own)
        return NotHad("width", f"{via.name} moves {' or '.join(map(str, known))} elements here", known)
    each = []
    for tile in own:
        sides = enumerate(("loads", "stores")[-len(tile.operands) :])
        most = (f"{what} of up to {widest(tile, side)}" for side, what in sides)
        each.append(f"{tile.order} has {', '.join(most)}")
    known_widths = [write_width(*widths) for tile in own for widths in _allowed(tile)]
    return NotHad("width", f"{'; '.join(each)} elements, powers of two", known_widths)


def _widths(tile: OrderedTile, source: Fill | None) -> list[tuple[int, int]]:
    """Widths worth costing: each side's widest, the widest that both allow, half of it, and one element."""
    if source:
        top = widest(tile, 0)
        return list(dict.fromkeys([(top, top), (max(1, top // 2),) * 2, (1, 1)]))
    load, store = widest(tile, 0), widest(tile, 1)
    both = min(load, store)
    return list(dict.fromkeys([(load, store), (both, both), (max(1, both // 2),) * 2, (1, 1)]))


def _async_widths(tile: OrderedTile, via: Instruction) -> list[tuple[int, int]]:
    """The widths of an asynchronous copy that both sides allow, wide ones first."""
    both, size = min(widest(tile, side, False) for side in (0, 1)), tile.operands[0].elem_bytes
    return [(n // size,) * 2 for n in reversed(via.widths_bytes) if n % size == 0 and n // size <= both]


def _too_narrow(context: Context, operands: Sequence[Operand], scope: str) -> str:
    size = operands[0].elem_bytes
    tiles = orders_of(context, operands, scope)
    most = max(min(widest(tile, side, False) for side in (0, 1)) for tile in tiles) * size
    return f"cp.async moves 4, 8 or 16 bytes, and here both sides are contiguous and aligned for {most} at most"


def _width_choice(found: Sequence[_Plan], best: _Plan, why: str) -> Choice:
    size = best.tile.operands[0].elem_bytes
    candidates = tuple(
        Candidate(_width_value(f.widths, size), f.cost, judge(f.cost, best.cost, f is best))
        for f in found
        if f.tile is best.tile
    )
    return Choice("vector_width", _width_value(best.widths, size), candidates, why)


def _say_widths(found: Sequence[_Plan], best: _Plan, via: Instruction) -> str:
    """Why these widths: the widest there are, or else the cheapest of those that were costed."""
    tile = best.tile
    extents = dict.fromkeys(tile.innermost(side).extent for side in range(len(tile.operands)))
    runs = f"in runs of {' and '.join(map(str, extents))}"
    edges = "not across an edge" if via.queue else "one by one what an edge cuts"
    rule = f"contiguous, aligned for every thread and step, inside one chunk, {edges}, 16 bytes at most; "
    rule += "runs are neighbours in this order that lie equally far apart on that side"
    allowed = [widest(tile, side, not via.queue) for side in range(len(tile.operands))]
    costed = [f.widths for f in found if f.tile is tile]
    if via.queue and best.widths == max(costed):
        return f"the widest of {via.name} {runs}; {rule}"
    if not via.queue and best.widths == (allowed[0], allowed[-1]):
        return f"the widest {runs}; {rule}"
    most = " and ".join(str(n * tile.operands[0].elem_bytes) for n in allowed)
    return f"the cheapest of {len(costed)} that were costed; this order allows up to {most} bytes"


def _width_value(widths: tuple[int, int], size: int) -> dict[str, int]:
    load, store = widths
    value = {"elems": max(widths), "bytes": max(widths) * size}
    return value if load == store else value | {"load_bytes": load * size, "store_bytes": store * size}


def _partition_choice(tiles: Sequence[OrderedTile], found: Sequence[_Plan], best: _Plan, why_pinned: str) -> Choice:
    tile, bundle = best.tile, max(best.widths)
    outer = -(-tile.count // bundle // tile.threads)
    picked = {"outer": outer, "threads": tile.threads, "elems": bundle, "order": tile.order}
    costed = [own for t in tiles if (own := [f for f in found if f.tile is t])]
    cheapest = [min(own, key=lambda f: f.cost.key) for own in costed]
    if why_pinned:
        cheapest = [best, *(f for f in cheapest if f.tile is not tile)]
    candidates = tuple(Candidate(f.tile.order, f.cost, judge(f.cost, best.cost, f is best)) for f in cheapest)
    if why_pinned:
        why = why_pinned
    elif len(tiles) == 1:
        why = "all orders are this one; row-major, by each side's strides, and with neighbours together"
    elif len(cheapest) == len(tiles):
        why = f"the cheapest of {len(tiles)} orders; row-major, by each side's strides, and with neighbours together"
    else:
        why = f"the cheapest of {len(cheapest)} orders; in {len(tiles) - len(cheapest)} more no access is wide enough"
    return Choice("partition", picked, candidates, why)
