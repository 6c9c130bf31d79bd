"""What ops say about owners: which operands one thread must own alike, and what an instruction fixes.

A flow is a tile with one owner for each element. An operand lies on it dimension for dimension; one that is stretched
along a dimension is owned by all threads along it. So ownership goes from a tile to each of its operands, and from an
operand that is not stretched to the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilegen.layouts import TileLayout
from tilegen.spec.data import Call, Region
from tilegen.spec.shapes import align_shapes

Dims = tuple[int | None, ...]


@dataclass(frozen=True)
class Flow:
    """A tile of ``lengths`` and the operands on it.

    ``sides``: for each field, the dimension of its buffer that is dimension d of the tile, or None where it is
    stretched along d (or d has one element). ``layout``: the owners over ``lengths`` that an instruction asks for, and
    ``atom`` its name; None and "" where they are free. ``delivered``: fields that the op also brings to other owners
    than those of the tile, at a cost. ``line``: the dimension along which a thread's elements must be neighbours.
    """

    lengths: tuple[int, ...]
    sides: Mapping[str, Dims] = field(hash=False)
    layout: TileLayout | None = None
    atom: str = ""
    delivered: tuple[str, ...] = ()
    line: int | None = None


Flows = Callable[[Call, int], tuple[Flow, ...]]  # of a call in a CTA of so many threads


def no_flows(call: Call, threads: int) -> tuple[Flow, ...]:
    """Of an op that says nothing about owners."""
    return ()


def pair_up(call: Call, *fields: str) -> tuple[Flow, ...]:
    """Operands of equal shapes but for extents of 1, which do not count: a copy, a cast. None if shapes differ."""
    dims = [tuple(d for d, n in enumerate(call.regions[f].lengths) if n > 1) for f in fields]
    shapes = [tuple(call.regions[f].lengths[d] for d in own) for f, own in zip(fields, dims, strict=True)]
    return (Flow(shapes[0], dict(zip(fields, dims, strict=True))),) if len(set(shapes)) == 1 else ()


def broadcast(call: Call, fields: Sequence[str], shape: tuple[int, ...]) -> tuple[Flow, ...]:
    """Operands stretched over a shape, as ``align_shapes`` has it. None if one does not fit."""
    sides = {f: _align(call.regions[f], shape) for f in fields}
    known = {f: dims for f, dims in sides.items() if dims is not None}
    return (Flow(shape, known),) if len(known) == len(sides) > 0 else ()


def span_shapes(regions: Sequence[Region]) -> tuple[int, ...]:
    """The shape that regions stretch to together, right-aligned."""
    rank = max((len(r.shape) for r in regions), default=0)
    padded = [(1,) * (rank - len(r.shape)) + r.shape for r in regions]
    return tuple(max(extents) for extents in zip(*padded, strict=True))


def _align(region: Region, shape: Sequence[int]) -> Dims | None:
    """The dimensions of a region's buffer that lie on those of a shape; None where they do not fit."""
    kept = [d for d, is_kept in enumerate(region.kept) if is_kept]
    aligned = align_shapes(region.shape, shape)
    return None if aligned is None else tuple(None if k is None else kept[k] for k in aligned)


def reduced(call: Call, sources: Sequence[str], written: Sequence[str], axis: int) -> tuple[Flow, ...]:
    """Operands over their common shape, and what is written, which is that without ``axis``, there with an extent of 1
    or not.

    The threads along the axis hold copies of a result; other owners get it through shared memory. None if shapes
    differ.
    """
    for flow in broadcast(call, sources, span_shapes([call.regions[f] for f in sources])):
        sides, rank = dict(flow.sides), len(flow.lengths)
        left = [d for d in range(rank) if d != axis % rank and flow.lengths[d] > 1]
        for name in written:
            lengths = call.regions[name].lengths
            own = [d for d, n in enumerate(lengths) if n > 1]
            if [flow.lengths[d] for d in left] != [lengths[d] for d in own]:
                return ()
            of_tile = dict(zip(left, own, strict=True))
            sides[name] = tuple(of_tile.get(d) for d in range(rank))
        return (Flow(flow.lengths, sides, delivered=tuple(written)),)
    return ()


def fixed(call: Call, name: str, layout: TileLayout, atom: str) -> Flow:
    """One operand whose owners an instruction fixes: ``layout`` over the region's dimensions that are kept."""
    region = call.regions[name]
    dims = _align(region, region.shape)
    assert dims is not None
    return Flow(region.shape, {name: dims}, layout, atom)
