"""How wide the accesses of a permutation are: words that both sides keep together, alone or several in a vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilegen.decisions import Candidate, Choice, Cost, compare_costs, count_words, judge
from tilegen.ops.operand import Context
from tilegen.ops.permute_layout.lane_search import LANE_BITS, LaneMap, Side, measure_pinned, search_lanes
from tilegen.ops.permute_layout.numbered_tile import (
    LANES,
    NumberedTile,
    byte_addresses,
    contiguous_bits,
    numbered,
)
from tilegen.ops.pins import NotHad, pick, say_known, write_width

Widths = tuple[int, int]  # elements of a load and of a store


@dataclass(frozen=True)
class AccessShape:
    """A tile in words, and the bits of their numbers inside vectors: ``columns`` contiguous in src, ``rows`` in dst."""

    tile: NumberedTile
    columns: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()

    @property
    def widths(self) -> Widths:
        return self.tile.word << len(self.columns), self.tile.word << len(self.rows)

    @property
    def is_scalar(self) -> bool:
        return self.widths == (1, 1)


@dataclass(frozen=True)
class Found:
    """A shape with its lane map over the ``rest`` of the bits. ``estimate``: (sectors, wavefronts, instructions)."""

    shape: AccessShape
    rest: tuple[int, ...]
    lane_map: LaneMap
    estimate: tuple[int, int, int]


def words_alone(tiles: Sequence[NumberedTile]) -> list[AccessShape]:
    """One word an access, of every width."""
    return [AccessShape(tile) for tile in tiles]


def vectors_of_words(tiles: Sequence[NumberedTile]) -> list[AccessShape]:
    """Every pair of widths, not both one element, that has a vector for every lane: words alone, and of the widest
    words several in a vector.
    """
    alone = [s for s in words_alone(tiles) if not s.is_scalar]
    return alone + [s for s in _vectors(tiles[-1]) if _leaves_lanes(s)]


def say_left_out(tiles: Sequence[NumberedTile]) -> str:
    """The pairs of widths that ``vectors_of_words`` has not, as clauses to put behind what was searched."""
    idle = sum(not _leaves_lanes(s) for s in _vectors(tiles[-1]))
    clauses = [f"; {count_words(idle, 'wider pair leaves', 'wider pairs leave')} lanes idle"] if idle else []
    if len(tiles) > 1:
        clauses.append(f"; of words narrower than {tiles[-1].word} elements no vectors were searched")
    return "".join(clauses)


def _vectors(tile: NumberedTile) -> Iterator[AccessShape]:
    """Several words in a vector on one side or both, none of them on both."""
    columns, rows = contiguous_bits(tile, tile.src, 0), contiguous_bits(tile, tile.dst, 1)
    for c in range(len(columns) + 1):
        for r in range(len(rows) + 1):
            if c + r and not set(columns[:c]) & set(rows[:r]):
                yield AccessShape(tile, tuple(columns[:c]), tuple(rows[:r]))


def _leaves_lanes(shape: AccessShape) -> bool:
    return len(shape.columns) + len(shape.rows) <= len(shape.tile.bits) - LANE_BITS


# ---------------------------------------------------------------- searching
def search_shapes(shapes: Sequence[AccessShape], context: Context) -> list[Found]:
    """Each shape with its lane map, in the order of what they cost at least; those that cannot cost less than one that
    was found at its floor are left out.
    """
    tried: list[Found] = []
    for least, _, shape in sorted((_least_cost(s), k, s) for k, s in enumerate(shapes)):
        if any(f.lane_map.reaches_floor and f.estimate <= least for f in tried):
            break
        tried.append(search(shape, context))
    return tried


def search(shape: AccessShape, context: Context, pinned: Sequence[int] | None = None) -> Found:
    """A shape with the cheapest lane map found for it, or with that of ``pinned`` lane vectors."""
    tile = shape.tile
    rest = tuple(b for b in range(len(tile.bits)) if b not in shape.columns and b not in shape.rows)
    sides = []
    others = len(shape.rows), len(shape.columns)  # bits of the other side's vectors
    for operand, kind, width, other in zip((tile.src, tile.dst), ("ld", "st"), shape.widths, others, strict=True):
        addresses = numbered(tile, byte_addresses(tile, operand, context), rest)
        sides.append(Side(addresses, operand.elem_bytes * width, operand.memory.traits, kind, tile.odd << other))
    orders = [tuple(range(len(rest)))]
    for side in sides:
        by_address = np.argsort(side.addresses[1 << np.arange(len(rest))], kind="stable")
        orders.append(tuple(int(b) for b in by_address))
    lane_map = search_lanes(sides, tuple(dict.fromkeys(orders)))
    if pinned is not None:
        lane_map = measure_pinned(sides, len(rest), tuple(pinned), lane_map)
    elif tile.odds and not lane_map.reaches_floor:
        lane_map = replace(lane_map, proof=f"{lane_map.proof}; lanes differ in powers of two of the extents alone")
    return Found(shape, rest, lane_map, (*lane_map.cost, _least_cost(shape)[2]))


def _least_cost(shape: AccessShape) -> tuple[int, int, int]:
    """What a shape costs at least: (sectors, wavefronts, instructions)."""
    instructions = sectors = waves = 0
    elems = shape.tile.count * shape.tile.word
    for operand, width in zip((shape.tile.src, shape.tile.dst), shape.widths, strict=True):
        accesses = elems // LANES // width
        instructions += accesses
        if operand.memory.traits.has_sectors:
            sectors += -(-elems * operand.elem_bytes // 32)
        else:
            waves += accesses * max(1, width * operand.elem_bytes // 4)
    return sectors, waves, instructions


# ---------------------------------------------------------------- choosing
def _take_widths(shapes: Sequence[AccessShape], tried: list[Found], widths: Widths, context: Context) -> Found:
    """The shape with these widths and its lane map, put with those that were tried. Raises NotHad without."""
    shape = _with_widths(shapes, widths)
    found = next((f for f in tried if f.shape == shape), None)
    if found is None:
        found = search(shape, context)
        tried.append(found)
    return found


def choose_shape(
    shapes: Sequence[AccessShape], tried: list[Found], widths: Widths | None, context: Context
) -> tuple[Found, Choice]:  # fmt: skip
    """The cheapest of those that were tried, of those of the widest words without bank conflicts where there are any;
    or what is pinned.
    """
    free = [f for f in tried if f.lane_map.reaches_floor and f.shape.tile == shapes[-1].tile]
    cheapest = min(free or tried, key=lambda f: f.estimate)
    best = cheapest if widths in (None, cheapest.shape.widths) else _take_widths(shapes, tried, widths, context)
    candidates = tuple(Candidate(width_value(f.shape), Cost(*f.estimate), _judge(f, best)) for f in tried)
    if best is not cheapest:
        proof = f"beside a pin, at {compare_costs(Cost(*best.estimate), Cost(*cheapest.estimate)) or 'the same cost'}"
    elif len(tried) < len(shapes):
        proof = f"{len(tried)} of {len(shapes)} pairs of widths were searched; the others cost at least as much"
    else:
        least = best.estimate == min(f.estimate for f in tried)
        proof = f"the cheapest of {len(shapes)} pairs of widths" if least else "the cheapest without bank conflicts"
        proof += "; every pair was searched" if least else f"; all {len(shapes)} pairs of widths were searched"
    return best, Choice("vector_width", width_value(best.shape), candidates, proof)


def choose_word(
    shapes: Sequence[AccessShape], costs: Sequence[Cost], widths: Widths | None
) -> tuple[AccessShape, Choice]:
    """The word, alone in an access, that costs least; or that of these widths. Raises NotHad where none has them."""
    pinned = _with_widths(shapes, widths) if widths else None
    of = dict(zip(shapes, costs, strict=True))
    best, why = pick(shapes, lambda s: pinned in (None, s), lambda s: of[s])
    candidates = tuple(Candidate(width_value(s), of[s], judge(of[s], of[best], s is best)) for s in shapes)
    proof = why or f"the cheapest of {len(shapes)} widths of a word; all turns of each were searched"
    return best, Choice("vector_width", width_value(best), candidates, proof)


def _with_widths(shapes: Sequence[AccessShape], widths: Widths) -> AccessShape:
    found = next((s for s in shapes if s.widths == widths), None)
    if found is None:
        known = [write_width(*s.widths) for s in shapes]
        raise NotHad("width", f"widths, or [load, store], are {say_known(known)}", known)
    return found


def _judge(found: Found, best: Found) -> str:
    if best.lane_map.reaches_floor and not found.lane_map.reaches_floor:
        return "bank conflicts"
    return judge(Cost(*found.estimate), Cost(*best.estimate), found is best)


def width_value(shape: AccessShape) -> dict[str, int]:
    """The widths as explain's data has them."""
    size, (load, store) = shape.tile.src.elem_bytes, shape.widths
    return {
        "elems": max(load, store),
        "bytes": max(load, store) * size,
        "load_bytes": load * size,
        "store_bytes": store * size,
    }
