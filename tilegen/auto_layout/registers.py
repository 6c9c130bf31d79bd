"""Register buffers whose layout is 'auto': their owners follow from what is fixed, or from a copy's partition.

Ownership flows along the tiles that ops declare (``ops.flows``), from layouts that are written and from what
instructions fix, until nothing changes. What is free then takes the partition of one of its ops from or to memory, that
with which all of them cost least, one group of registers at a time, and ownership flows on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilegen import layouts
from tilegen.auto_layout.owners import Owners, are_equal, extend, lift, owners_of, owners_of_region, project
from tilegen.auto_layout.partitions import Partition, partition_as_planned, partition_tile
from tilegen.auto_layout.pin import pin_layout
from tilegen.decisions import PICKED, Candidate, Choice, Cost, judge
from tilegen.dtypes import DTYPES
from tilegen.errors import Diagnostic, Mark, SpecError
from tilegen.index import bound
from tilegen.layouts import TileLayout, row_major
from tilegen.ops import OPS
from tilegen.ops.dispatch import dispatch
from tilegen.ops.flows import Flow
from tilegen.planner import survey_calls
from tilegen.spec.data import Buffer, Call, Region, Spec
from tilegen.spec.outline import outline
from tilegen.spec.placing import MAX_REGISTER_BYTES


@dataclass(frozen=True)
class _Tile:
    """A flow of a call: both numbered in the order of the text."""

    number: int
    call_number: int
    call: Call
    flow: Flow

    def sides(self) -> Iterator[tuple[str, Region]]:
        """The register operands."""
        return ((f, self.call.regions[f]) for f in self.flow.sides if self.call.regions[f].buffer.scope == "register")


@dataclass(frozen=True)
class _Claim:
    """Owners and who says so: of a tile, or of a buffer, whose ``layout`` then is the one that they make."""

    owners: Owners
    why: str
    mark: Mark | None
    layout: TileLayout | None = None
    is_extended: bool = False  # said of a part of the buffer

    @property
    def rank(self) -> tuple[object, ...]:
        return self.is_extended, str(self.layout)


def choose_registers(spec: Spec) -> Spec:
    """The spec with a layout for every register buffer whose layout is 'auto', and a Choice for each in ``choices``.

    Raises SpecError: TG308 where two ops want different owners, TG309 where nothing says who owns a buffer, TG210 where
    a thread would hold more than it has registers.
    """
    names = [b.name for b in spec.buffers if b.scope == "register" and b.is_auto and b.root == b.name]
    if not names:
        return spec
    parted: dict[int, _Claim] = {}  # tiles whose owners are a copy's partition
    compared: dict[str, tuple[Candidate, ...]] = {}
    plain, chosen = _follow(spec, parted, names)
    while left := [name for name in names if name not in chosen]:
        options = _list_options(plain, parted, left)
        if not options:
            raise SpecError(tuple(_report_free(plain, name) for name in left))
        best = min(options, key=lambda o: (o.cost is None, o.cost.key if o.cost else ()))  # the first of equals
        compared |= _compare(options, best)
        parted |= best.parted
        plain, chosen = best.plain, chosen | best.chosen
    _check_size(plain, chosen)
    _check_owners(plain, chosen, parted)
    choices = (_explain(name, chosen[name], compared.get(name, ())) for name in names)
    return replace(plain, choices=(*spec.choices, *choices))


def _explain(name: str, claim: _Claim, candidates: tuple[Candidate, ...]) -> Choice:
    why = claim.why
    if candidates:
        costed = f"of {len(candidates)} partitions, by what the ops cost that take these registers from or to memory"
        why += f"; the first of the cheapest {costed}"
    return Choice(f"layout of {name}", str(claim.layout), candidates, why)


def _follow(spec: Spec, parted: dict[int, _Claim], names: Sequence[str]) -> tuple[Spec, dict[str, _Claim]]:
    """The spec with every layout that follows, and who said each."""
    chosen: dict[str, _Claim] = {}
    while claims := _claim_buffers(spec, _list_tiles(spec), parted, [n for n in names if n not in chosen]):
        for name, claim in claims.items():
            chosen[name] = claim
            spec = pin_layout(spec, name, claim.layout)
    return spec, chosen


def _list_tiles(spec: Spec) -> tuple[_Tile, ...]:
    calls = enumerate(outline(spec).calls)
    found = [(at, call, flow) for at, call in calls for flow in OPS[call.op].flows(call, spec.threads_of(call.role))]
    return tuple(_Tile(k, *made) for k, made in enumerate(found))


# ---------------------------------------------------------------- what follows
def _claim_buffers(
    spec: Spec, tiles: Sequence[_Tile], parted: dict[int, _Claim], left: Sequence[str]
) -> dict[str, _Claim]:
    """The next layouts that follow: of each free buffer that shares a tile with a known owner, the first by rank.

    All that is one step away is found before any of it counts, so that the order of the text makes no difference.
    """
    found: dict[str, list[_Claim]] = {}
    for tile in tiles:
        known = _claim_tile(tile, parted)
        for name, region in tile.sides():
            claim = _claim_for(spec, tile, name, known) if known and region.buffer.root in left else None
            if claim:
                found.setdefault(region.buffer.root, []).append(claim)
    return {name: min(claims, key=lambda c: c.rank) for name, claims in found.items()}


def _claim_tile(tile: _Tile, parted: dict[int, _Claim]) -> _Claim | None:
    """The owners of a tile: what the instruction fixes, a copy's partition, or those of an operand that covers it."""
    found = dict(_list_claims(tile, parted))
    return found.get("") or min(found.values(), key=lambda c: str(c.owners), default=None)


def _list_claims(tile: _Tile, parted: dict[int, _Claim]) -> Iterator[tuple[str, _Claim]]:
    """Who says how a tile is owned: "" for the op itself, and the operands that cover it."""
    lengths, mark = tile.flow.lengths, tile.call.mark
    if tile.number in parted:
        yield "", parted[tile.number]
    if tile.flow.layout is not None:
        owners = owners_of(tile.flow.layout, lengths, (0,) * len(lengths), lengths)
        assert owners is not None, f"{tile.call.op} fixes owners that cannot be told"
        yield "", _Claim(owners, f"what {tile.flow.atom} asks for, {_at(tile.call)}", mark)
    for name, region in tile.sides():
        own = None if region.buffer.is_auto else owners_of_region(region)
        lifted = lift(own, tile.flow.sides[name], lengths) if own else None
        if lifted:
            yield name, _Claim(lifted, f"follows from {region.buffer.name} by {_at(tile.call)}", mark)


def _claim_for(spec: Spec, tile: _Tile, name: str, known: _Claim) -> _Claim | None:
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


def _at(call: Call) -> str:
    return f"the {call.op} at {call.mark.spot}" if call.mark else f"a {call.op}"


# ---------------------------------------------------------------- a copy's partition
@dataclass(frozen=True)
class _Option:
    """A copy's partition of a tile, the spec with what follows from it, and what it costs; None where it cannot be."""

    parted: dict[int, _Claim]
    plain: Spec
    chosen: dict[str, _Claim]
    cost: Cost | None = None

    @property
    def layouts(self) -> dict[str, str]:
        return {name: str(claim.layout) for name, claim in self.chosen.items()}


def _list_options(spec: Spec, parted: dict[int, _Claim], left: Sequence[str]) -> list[_Option]:
    """The partitions that different ops give the next registers that nobody owns yet, in the order of the text but for
    that of the first tile, which says whose they are: those that give all of the same buffers layouts. Where none of
    these can be, those that give more buffers layouts.
    """
    nobodys = [t for t in _list_tiles(spec) if _memory_of(t) and _claim_tile(t, parted) is None]
    first = _next_tile(_list_tiles(spec), nobodys, left)
    options: list[_Option] = []
    wider: list[_Option] = []
    tiles = sorted(nobodys, key=lambda t: t != first) if first else ()
    for tile, claim in ((t, c) for t in tiles for c in _part(_settle_for_a_look(spec), t)):
        found = {tile.number: claim}
        option = _Option(found, *_follow(spec, parted | found, left))
        is_of_all = not options or option.chosen.keys() == options[0].chosen.keys()
        if is_of_all and all(option.layouts != o.layouts for o in options):
            options.append(option)
        elif not is_of_all and option.chosen.keys() > options[0].chosen.keys():
            wider.append(option)
    if len(options) == 1 and not wider:
        return options
    options = [replace(o, cost=_cost(o, parted)) for o in options]
    if all(o.cost is None for o in options):
        costed = (replace(o, cost=_cost(o, parted)) for o in wider)
        options = [o for o in costed if o.cost is not None] or options
    return options


def _next_tile(tiles: Sequence[_Tile], nobodys: Sequence[_Tile], left: Sequence[str]) -> _Tile | None:
    """The first tile that nobody owns yet and that memory takes part in.

    Buffers that are only stretched over a tile, and that other free registers will decide, wait for these.
    """
    for waits in (True, False):
        for tile in nobodys:
            free = [f for f, region in tile.sides() if region.buffer.root in left]
            if free and not (waits and all(_waits(tiles, tile, f) for f in free)):
                return tile
    return None


def _cost(option: _Option, parted: dict[int, _Claim]) -> Cost | None:
    """Sectors, wavefronts and instructions of the ops that take an option's registers from or to memory."""
    plain, names = _settle_for_a_look(option.plain), option.chosen
    costs = []
    try:
        _check_size(option.plain, names)
        _check_owners(option.plain, names, parted | option.parted)
        for call, context in survey_calls(plain):
            buffers = [r.buffer for r in call.regions.values()]
            if any(b.root in names for b in buffers) and any(b.scope != "register" for b in buffers):
                costs.append(dispatch(call, context)[1].cost)
    except SpecError:
        return None
    return Cost(*(sum(figures) for figures in zip(*(c.key[:3] for c in costs), strict=True)))


def _compare(options: Sequence[_Option], best: _Option) -> dict[str, tuple[Candidate, ...]]:
    """The layouts that were costed, of each buffer that some partition was of."""
    if len(options) < 2:
        return {}
    return {
        name: tuple(Candidate(o.layouts[name], o.cost, _judge(o, best)) for o in options)
        for name, claim in best.chosen.items() if claim.why in {c.why for c in best.parted.values()}
    }  # fmt: skip


def _judge(option: _Option, best: _Option) -> str:
    if option.cost is None or best.cost is None:
        return PICKED if option is best else "some op cannot take it"
    return judge(option.cost, best.cost, option is best)


def _part(plain: Spec, tile: _Tile) -> tuple[_Claim, ...]:
    """The owners that a copy's partition gives the tile, in a spec with all layouts known.

    Where threads that share the tile evenly would have more vectors each than others, both.
    """
    call, context = survey_calls(plain)[tile.call_number]
    memory = _memory_of(tile)
    held = [name for name, _ in tile.sides()]
    if held and all(_is_stretched(tile, name) for name in held):
        covering = [call.regions[f] for f in _list_covering(tile)]
        parts = [partition_as_planned(context, call.scope, tile.flow, covering)]
    else:
        widest = max((DTYPES[r.buffer.dtype].bytes for f, r in tile.sides() if not _is_stretched(tile, f)), default=1)
        of_tile = context, call.scope, tile.flow, call.regions[memory], tile.flow.sides[memory], widest
        parts = [partition_tile(*of_tile, unevenly=unevenly) for unevenly in (False, True)]
    return tuple(_claim_part(tile, part) for part in dict.fromkeys(parts))


def _claim_part(tile: _Tile, part: Partition) -> _Claim:
    lengths = tile.flow.lengths
    owners = owners_of(part.layout, lengths, (0,) * len(lengths), lengths)
    assert owners is not None
    why = f"copy partition of {_at(tile.call)}, {part.vector_bytes} bytes a thread"
    if layouts.counted_shape(part.layout, lengths) != lengths:
        why += ", shared unevenly"
    return _Claim(owners, why, tile.call.mark)


def _is_stretched(tile: _Tile, name: str) -> bool:
    return any(d is None and n > 1 for d, n in zip(tile.flow.sides[name], tile.flow.lengths, strict=True))


def _waits(tiles: Sequence[_Tile], tile: _Tile, name: str) -> bool:
    """Is an operand stretched here, or its buffer over another tile that free registers cover, which decide?"""
    root = tile.call.regions[name].buffer.root
    if _is_stretched(tile, name):
        return True
    for other in tiles:
        mine = [f for f, r in other.sides() if r.buffer.root == root]
        free = [f for f, r in other.sides() if r.buffer.root != root and r.buffer.is_auto]
        if any(_is_stretched(other, f) for f in mine) and any(not _is_stretched(other, f) for f in free):
            return True
    return False


def _memory_of(tile: _Tile) -> str:
    """The first operand in memory that covers the tile; "" for none."""
    return next(iter(_list_covering(tile)), "")


def _list_covering(tile: _Tile) -> list[str]:
    """The operands in memory that cover the tile, what is written before what is read."""
    fields = [f for f in tile.flow.sides if tile.call.regions[f].buffer.scope != "register"]
    written = (*tile.call.form.writes, *tile.call.form.updates)
    return sorted((f for f in fields if not _is_stretched(tile, f)), key=lambda f: f not in written)


def _settle_for_a_look(spec: Spec) -> Spec:
    """The spec with rows wherever a layout is still to be chosen, so that its calls have surroundings."""
    for b in spec.buffers:
        if b.is_auto and b.root == b.name:
            spec = pin_layout(spec, b.name, row_major(b.shape), "row")
    return spec


# ---------------------------------------------------------------- what is refused
def _report_free(spec: Spec, name: str) -> Diagnostic:
    buffer = spec.buffer(name)
    calls = [c for c in outline(spec).calls if any(r.buffer.root == name for r in c.regions.values())]
    has = "no op takes it to or from memory, or meets it with registers whose layout is known"
    has = has if calls else "no op uses it"
    return Diagnostic("TG309", f"nothing says which threads own '{name}': {has}", buffer.mark, "write its layout")


def _check_size(spec: Spec, chosen: dict[str, _Claim]) -> None:
    for name, claim in chosen.items():
        buffer = spec.buffer(name)
        size = int(bound(layouts.extent_of(buffer.layout, "m")) - 1) * DTYPES[buffer.dtype].bytes
        if size > MAX_REGISTER_BYTES:
            message = f"buffer '{name}' takes {size} bytes as {buffer.layout_text} ({claim.why}); a thread has"
            hint = "take a smaller tile, more threads, or extents that they share evenly"
            raise SpecError(Diagnostic("TG210", f"{message} {MAX_REGISTER_BYTES}", buffer.mark, hint))


def _check_owners(spec: Spec, chosen: dict[str, _Claim], parted: dict[int, _Claim]) -> None:
    """Raises TG308 for the ops in which a chosen layout and another owner of the tile differ, one for each buffer."""
    found: dict[frozenset[str], Diagnostic] = {}
    for tile in _list_tiles(spec):
        threads = spec.threads_of(tile.call.role)
        for name, region in tile.sides():
            root = region.buffer.root
            own = owners_of_region(region) if root in chosen else None
            if own is None:
                continue
            for other, claim in _list_claims(tile, parted):
                wanted = project(claim.owners, tile.flow.sides[name], region.lengths)
                if other != name and not are_equal(own, wanted, tile.call.scope, threads):
                    pair = frozenset({root, tile.call.regions[other].buffer.root if other else ""})
                    says = _say_layout(tile.call.regions[other].buffer, chosen) if other else claim.why
                    found.setdefault(pair, _report_two(tile, region, chosen, says))
    if found:
        raise SpecError(tuple(found.values()))


def _report_two(tile: _Tile, region: Region, chosen: dict[str, _Claim], other: str) -> Diagnostic:
    mine = _say_layout(region.buffer, chosen)
    return Diagnostic(
        "TG308", f"this {tile.call.op} needs one owner of each element, and has two: {mine}, and {other}",
        region.mark or tile.call.mark, "take one of them through shared memory, or write its layout",
    )  # fmt: skip


def _say_layout(buffer: Buffer, chosen: dict[str, _Claim]) -> str:
    why = f" ({chosen[buffer.root].why})" if buffer.root in chosen else ""
    return f"'{buffer.name}' is {buffer.layout_text or 'row'}{why}"
