"""Ownership of registers flows along the tiles that ops declare (``ops.flows``), until nothing changes.

The flows are each op's own, or others that are asked for, where with those an element has two owners.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product

from tilegen import layouts
from tilegen.auto_layout.owners import Owners, extend, lift, owners_of, owners_of_region, project
from tilegen.auto_layout.partitions import is_stretched, list_covering
from tilegen.auto_layout.pin import pin_layout
from tilegen.errors import Mark
from tilegen.layouts import TileLayout
from tilegen.ops import OPS
from tilegen.ops.flows import Flow
from tilegen.spec.data import Buffer, Call, Region, Spec
from tilegen.spec.outline import outline

_MOST_RANKS = 4096  # choices of flows that are ranked


@dataclass(frozen=True)
class AskedFlows:
    """Which flows are taken: others than an op's own for some calls, by their numbers; none delivers ``loose``."""

    loose: frozenset[str] = frozenset()
    others: Mapping[int, tuple[Flow, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class FlowTile:
    """A flow of a call: both numbered in the order of the text."""

    number: int
    call_number: int
    call: Call
    flow: Flow

    def sides(self) -> Iterator[tuple[str, Region]]:
        """The register operands."""
        return ((f, self.call.regions[f]) for f in self.flow.sides if self.call.regions[f].buffer.traits.is_held)


@dataclass(frozen=True)
class Claim:
    """Owners and who says so: of a tile, or of a buffer, whose ``layout`` then is the one that they make."""

    owners: Owners
    why: str
    mark: Mark | None
    layout: TileLayout | None = None
    is_extended: bool = False  # said of a part of the buffer
    vector_bytes: int = 0  # of a copy's partition, what a thread takes at once

    @property
    def rank(self) -> tuple[object, ...]:
        return self.is_extended, str(self.layout)


def follow(
    spec: Spec, parted: dict[int, Claim], names: Sequence[str], asked: AskedFlows
) -> tuple[Spec, dict[str, Claim]]:
    """The spec with every layout that follows, and who said each."""
    chosen: dict[str, Claim] = {}
    while claims := _claim_buffers(spec, list_tiles(spec, asked), parted, [n for n in names if n not in chosen]):
        for name, claim in claims.items():
            chosen[name] = claim
            spec = pin_layout(spec, name, claim.layout)
    return spec, chosen


def list_tiles(spec: Spec, asked: AskedFlows) -> tuple[FlowTile, ...]:
    """The tiles of all calls, without the sides that are delivered to what is loose."""
    tiles: list[FlowTile] = []
    for at, call in enumerate(outline(spec).calls):
        flows = asked.others.get(at) or OPS[call.op].flows(call, spec.threads_of(call.role))
        for flow in flows:
            tiles.append(FlowTile(len(tiles), at, call, _loosen(call, flow, asked.loose)))
    return tuple(tiles)


def _loosen(call: Call, flow: Flow, loose: frozenset[str]) -> Flow:
    free = [f for f in flow.delivered if call.regions[f].buffer.root in loose]
    return replace(flow, sides={f: dims for f, dims in flow.sides.items() if f not in free}) if free else flow


def list_other_flows(spec: Spec) -> Iterator[AskedFlows]:
    """Flows of several calls together, those first of which fewer are worse than what each has by itself."""
    others: dict[int, tuple[tuple[Flow, ...], ...]] = {}
    for at, call in enumerate(outline(spec).calls):
        if found := OPS[call.op].other_flows(call, spec.threads_of(call.role)):
            others[at] = found
    ranks = product(*(range(len(found) + 1) for found in others.values()))
    for picked in sorted(islice(ranks, 1, _MOST_RANKS), key=sum):
        yield AskedFlows(others={at: found[k - 1] for (at, found), k in zip(others.items(), picked, strict=True) if k})


def list_delivered(spec: Spec) -> frozenset[str]:
    """The registers that some op brings to every owner, whoever these are."""
    tiles = list_tiles(spec, AskedFlows())
    return frozenset(tile.call.regions[f].buffer.root for tile in tiles for f in tile.flow.delivered)


def list_read_apart(spec: Spec) -> tuple[tuple[int, frozenset[str]], ...]:
    """The calls, by number, that read registers beside memory that alone covers their tile; and those registers."""
    found = []
    for tile in list_tiles(spec, AskedFlows()):
        held = [name for name, _ in tile.sides()]
        if held and list_covering(tile.call, tile.flow) and all(is_stretched(tile.flow, name) for name in held):
            found.append((tile.call_number, frozenset(tile.call.regions[name].buffer.root for name in held)))
    return tuple(found)


def _claim_buffers(
    spec: Spec, tiles: Sequence[FlowTile], parted: dict[int, Claim], left: Sequence[str]
) -> dict[str, Claim]:
    """The next layouts that follow: of each free buffer that shares a tile with a known owner, the first by rank.

    All that is one step away is found before any of it counts, so that the order of the text makes no difference.
    """
    found: dict[str, list[Claim]] = {}
    for tile in tiles:
        known = claim_tile(tile, parted)
        for name, region in tile.sides():
            claim = _claim_for(spec, tile, name, known) if known and region.buffer.root in left else None
            if claim:
                found.setdefault(region.buffer.root, []).append(claim)
    return {name: min(claims, key=lambda c: c.rank) for name, claims in found.items()}


def claim_tile(tile: FlowTile, parted: dict[int, Claim]) -> Claim | None:
    """The owners of a tile: what the instruction fixes, a copy's partition, or those of an operand that covers it."""
    found = dict(list_claims(tile, parted))
    return found.get("") or min(found.values(), key=lambda c: str(c.owners), default=None)


def list_claims(tile: FlowTile, parted: dict[int, Claim]) -> Iterator[tuple[str, Claim]]:
    """Who says how a tile is owned: "" for the op itself, and the operands that cover it."""
    lengths, mark = tile.flow.lengths, tile.call.mark
    if tile.number in parted:
        yield "", parted[tile.number]
    if tile.flow.layout is not None:
        owners = owners_of(tile.flow.layout, lengths, (0,) * len(lengths), lengths)
        assert owners is not None, f"{tile.call.op} fixes owners that cannot be told"
        yield "", Claim(owners, f"what {tile.flow.atom} asks for, {say_call(tile.call)}", mark)
    for name, region in tile.sides():
        own = None if region.buffer.is_auto else owners_of_region(region)
        lifted = lift(own, tile.flow.sides[name], lengths) if own else None
        if lifted:
            yield name, Claim(lifted, f"follows from {region.buffer.name} by {say_call(tile.call)}", mark)


def _claim_for(spec: Spec, tile: FlowTile, name: str, known: Claim) -> Claim | None:
    """A tile's owners as the layout of the buffer behind one of its operands; None where they say nothing of it."""
    region = tile.call.regions[name]
    owners = project(known.owners, tile.flow.sides[name], region.lengths)
    layout = extend(owners, region.begins, _extents(region.buffer))
    root = _as_root(spec, region.buffer, layout) if layout is not None else None
    if root is None:
        return None
    return replace(known, owners=owners, layout=root, is_extended=region.lengths != region.buffer.shape)


def _as_root(spec: Spec, view: Buffer, layout: TileLayout) -> TileLayout | None:
    """The layout of the buffer at the end of a chain of views that follow it, from that of the view."""
    while view.name != view.root:
        if view.axes:
            inverse = tuple(view.axes.index(d) for d in range(len(view.axes)))
            counted = layouts.counted_shape(layout, view.shape)
            layout = layouts.permute_dims(layout, counted, inverse)  # type: ignore[assignment]
        view = spec.buffer(view.parent)
    return layout


def _extents(buffer: Buffer) -> tuple[int, ...]:
    return tuple(int(n) for n in buffer.shape)  # type: ignore[arg-type]


def say_call(call: Call) -> str:
    return f"the {call.op} at {call.mark.spot}" if call.mark else f"a {call.op}"
