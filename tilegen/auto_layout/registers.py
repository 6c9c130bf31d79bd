"""Register buffers whose layout is 'auto': their owners follow from what is fixed, or from a copy's partition.

Ownership flows along the tiles that ops declare (``ops.flows``), from layouts that are written and from what
instructions fix, until nothing changes. What is free then takes the partition of one of its ops from or to memory, that
with which all of them cost least, one group of registers at a time, and ownership flows on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from math import prod

from tilegen import layouts
from tilegen.auto_layout.owners import are_equal, owners_of, owners_of_region, project
from tilegen.auto_layout.partitions import Partition, is_stretched, list_covering, partitions_of
from tilegen.auto_layout.pin import pin_layout
from tilegen.auto_layout.register_flow import (
    AskedFlows,
    Claim,
    FlowTile,
    claim_tile,
    follow,
    list_claims,
    list_delivered,
    list_other_flows,
    list_read_apart,
    list_tiles,
    say_call,
)
from tilegen.decisions import PICKED, Candidate, Choice, Cost, judge, partition_key
from tilegen.dtypes import DTYPES
from tilegen.errors import Diagnostic, SpecError
from tilegen.index import bound
from tilegen.layouts import row_major
from tilegen.ops.dispatch import dispatch
from tilegen.ops.line_layout import line_layouts
from tilegen.ops.partition_layout import VECTOR_BYTES, MemoryTile, lane_axis, partition_layout
from tilegen.planner import survey_calls
from tilegen.spec.data import Buffer, Call, Region, Spec
from tilegen.spec.outline import outline
from tilegen.spec.placing import MAX_REGISTER_BYTES

_TWO_OWNERS = "TG308"
_MOST_TRIES = 64  # choices of flows that are tried where two owners meet


def choose_registers(spec: Spec) -> Spec:
    """The spec with a layout for every register buffer whose layout is 'auto', and a Choice for each in ``choices``.

    What an op delivers follows its tile, or the tile of memory that reads it where nothing else lets that op be.
    Raises SpecError: TG308 where two ops want different owners, TG309 where nothing says who owns a buffer, TG210 where
    a thread would hold more than it has registers.
    """
    names = [b.name for b in spec.buffers if b.traits.is_held and b.is_auto and b.root == b.name]
    if not names:
        return spec
    chosen = _choose_flows(spec, names)
    stuck = _find_stuck(chosen, names)
    if stuck:
        other = _choose_asked(spec, names, AskedFlows(loose=stuck))
        return chosen if _find_stuck(other, names) else other
    return chosen


def _choose_flows(spec: Spec, names: Sequence[str]) -> Spec:
    """The layouts with the flows that each op has by itself, or the first others with which nobody has two owners."""
    try:
        return _choose_asked(spec, names, AskedFlows())
    except SpecError as error:
        if {d.code for d in error.diagnostics} != {_TWO_OWNERS}:
            raise
        for asked in islice(list_other_flows(spec), _MOST_TRIES):
            with suppress(SpecError):
                return _choose_asked(spec, names, asked)
        raise


def _find_stuck(spec: Spec, names: Sequence[str]) -> frozenset[str]:
    """What some op delivers, and another reads beside memory alone that cannot be carried out."""
    delivered = list_delivered(spec) & set(names)
    found: set[str] = set()
    plain = _settle_for_a_look(spec)
    for at, roots in list_read_apart(spec) if delivered else ():
        if roots & delivered:
            try:
                dispatch(*survey_calls(plain)[at])
            except SpecError:
                found |= roots & delivered
    return frozenset(found)


def _choose_asked(spec: Spec, names: Sequence[str], asked: AskedFlows) -> Spec:
    """``choose_registers`` of these registers, with one choice of flows."""
    parted: dict[int, Claim] = {}  # tiles whose owners are a copy's partition
    compared: dict[str, tuple[Candidate, ...]] = {}
    plain, chosen = follow(spec, parted, names, asked)
    while left := [name for name in names if name not in chosen]:
        options = _list_options(plain, parted, left, asked)
        if not options:
            raise SpecError(tuple(_report_free(plain, name) for name in left))
        options = _narrow(plain, parted, left, options, asked)
        best = _cheapest(options)
        compared |= _compare(options, best)
        parted |= best.parted
        plain, chosen = best.plain, chosen | best.chosen
    _check_size(plain, chosen)
    _check_owners(plain, chosen, parted, asked)
    choices = (_explain(name, chosen[name], compared.get(name, ())) for name in names)
    return replace(plain, choices=(*spec.choices, *choices))


def _explain(name: str, claim: Claim, candidates: tuple[Candidate, ...]) -> Choice:
    why = claim.why
    if candidates:
        costed = f"of {len(candidates)} partitions, by what the ops cost that take these registers from or to memory"
        why += f"; the first of the cheapest {costed}"
    return Choice(f"layout of {name}", str(claim.layout), candidates, why)


# ---------------------------------------------------------------- a copy's partition
@dataclass(frozen=True)
class _Option:
    """A copy's partition of a tile, the spec with what follows from it, and what it costs; None where it cannot be."""

    parted: dict[int, Claim]
    plain: Spec
    chosen: dict[str, Claim]
    cost: Cost | None = None

    @property
    def layouts(self) -> dict[str, str]:
        return {name: str(claim.layout) for name, claim in self.chosen.items()}


def _list_options(spec: Spec, parted: dict[int, Claim], left: Sequence[str], asked: AskedFlows) -> list[_Option]:
    """The partitions that different ops give the next registers that nobody owns yet, in the order of the text but for
    that of the first tile, which says whose they are: those that give all of the same buffers layouts. Where none of
    these can be, those that give more buffers layouts.
    """
    tiles = list_tiles(spec, asked)
    nobodys = [t for t in tiles if _memory_of(t) and claim_tile(t, parted) is None]
    first = _next_tile(tiles, nobodys, left)
    options: list[_Option] = []
    wider: list[_Option] = []
    sources = sorted(nobodys, key=lambda t: t != first) if first else ()
    parts = [(t, c) for t in sources for c in _part(_settle_for_a_look(spec), t)]
    for tile, claim in (*parts, *_list_lines(spec, tiles, parted, left)):
        found = {tile.number: claim}
        option = _Option(found, *follow(spec, parted | found, left, asked))
        is_of_all = not options or option.chosen.keys() == options[0].chosen.keys()
        if is_of_all and all(option.layouts != o.layouts for o in options):
            options.append(option)
        elif not is_of_all and option.chosen.keys() > options[0].chosen.keys():
            wider.append(option)
    if len(options) == 1 and not wider:
        return options
    options = [replace(o, cost=_cost(o, parted, asked)) for o in options]
    if all(o.cost is None for o in options):
        costed = (replace(o, cost=_cost(o, parted, asked)) for o in wider)
        options = [o for o in costed if o.cost is not None] or options
    return options


def _cheapest(options: Sequence[_Option]) -> _Option:
    """The first of equals."""
    return min(options, key=lambda o: (o.cost is None, o.cost.partition_key if o.cost else ()))


def _narrow(
    spec: Spec, parted: dict[int, Claim], left: Sequence[str], options: list[_Option], asked: AskedFlows
) -> list[_Option]:
    """The options, and those with narrower vectors than the cheapest, where arrays differ in what vectors ask of them.

    Of an array that is wider, or stretched, vectors that are narrow in another one may take fewer sectors.
    """
    if not _have_arrays_that_differ(list_tiles(spec, asked), options[0]):
        return options
    options = [replace(o, cost=o.cost or _cost(o, parted, asked)) for o in options]
    ((number, claim),) = _cheapest(options).parted.items()
    plain, most = _settle_for_a_look(spec), claim.vector_bytes // 2
    tile = next(t for t in list_tiles(spec, asked) if t.number == number)
    while most:
        for claim in _part(plain, tile, most):
            option = _Option({number: claim}, *follow(spec, parted | {number: claim}, left, asked))
            if all(option.layouts != o.layouts for o in options):
                options.append(replace(option, cost=_cost(option, parted, asked)))
        most //= 2
    return options


def _have_arrays_that_differ(tiles: Sequence[FlowTile], option: _Option) -> bool:
    """Do ops take an option's registers from or to arrays of several widths, or beside one that is stretched?"""
    sizes: set[int] = set()
    for tile in tiles:
        if any(r.buffer.root in option.chosen and not _is_stretched(tile, f) for f, r in tile.sides()):
            in_memory = [f for f in tile.flow.sides if not tile.call.regions[f].buffer.traits.is_held]
            sizes |= {
                DTYPES[tile.call.regions[f].buffer.dtype].bytes * (-1 if _is_stretched(tile, f) else 1)
                for f in in_memory
            }
    return len(sizes) > 1


def _next_tile(tiles: Sequence[FlowTile], nobodys: Sequence[FlowTile], left: Sequence[str]) -> FlowTile | None:
    """The largest tile, of equals the first, that nobody owns yet and that memory takes part in: small ones may follow.

    Buffers that are only stretched over a tile, and that other free registers will decide, wait for these.
    """
    free = {tile: [f for f, region in tile.sides() if region.buffer.root in left] for tile in nobodys}
    known = [tile for tile, fields in free.items() if fields]
    ready = [tile for tile in known if not all(_waits(tiles, tile, f) for f in free[tile])]
    return max(ready or known, key=lambda tile: prod(tile.flow.lengths), default=None)


def _cost(option: _Option, parted: dict[int, Claim], asked: AskedFlows) -> Cost | None:
    """Sectors, wavefronts and instructions of the ops that take an option's registers from or to memory.

    None where some op cannot take these registers, one between registers too.
    """
    plain, names = _settle_for_a_look(option.plain), option.chosen
    costs = []
    try:
        _check_size(option.plain, names)
        _check_owners(option.plain, names, parted | option.parted, asked)
        for call, context in survey_calls(plain):
            buffers = [r.buffer for r in call.regions.values()]
            if any(b.root in names for b in buffers) and not _waits_for(call, option.plain):
                cost = dispatch(call, context)[1].cost
                costs += [cost] if not all(b.traits.is_held for b in buffers) else []
    except SpecError:
        return None
    return Cost(*(sum(figures) for figures in zip(*(c.key[:3] for c in costs), strict=True)))


def _waits_for(call: Call, spec: Spec) -> bool:
    """Does an op without memory have registers that are still to be chosen, so that nothing can be said of it yet?"""
    buffers = [spec.buffer(r.buffer.name) for r in call.regions.values()]
    return all(b.traits.is_held for b in buffers) and any(b.is_auto for b in buffers)


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
    return judge(option.cost, best.cost, option is best, partition_key)


def _part(plain: Spec, tile: FlowTile, most_bytes: int = VECTOR_BYTES) -> tuple[Claim, ...]:
    """The owners that a copy's partition gives the tile, in a spec with all layouts known, in all ways to share it."""
    call, context = survey_calls(plain)[tile.call_number]
    return tuple(_claim_part(tile, part) for part in partitions_of(context, call, tile.flow, most_bytes))


def _claim_part(tile: FlowTile, part: Partition) -> Claim:
    lengths = tile.flow.lengths
    owners = owners_of(part.layout, lengths, (0,) * len(lengths), lengths)
    assert owners is not None
    why = f"copy partition of {say_call(tile.call)}, {part.vector_bytes} bytes a thread"
    if layouts.counted_shape(part.layout, lengths) != lengths:
        why += ", shared unevenly"
    return Claim(owners, why, tile.call.mark, vector_bytes=part.vector_bytes)


def _list_lines(
    spec: Spec, tiles: Sequence[FlowTile], parted: dict[int, Claim], left: Sequence[str]
) -> Iterator[tuple[FlowTile, Claim]]:  # fmt: skip
    """The layouts that free registers may have where an op asks for neighbours along a dimension."""
    for tile in tiles:
        line, lengths = tile.flow.line, tile.flow.lengths
        if line is None or claim_tile(tile, parted) or not any(r.buffer.root in left for _, r in tile.sides()):
            continue
        axis, threads = lane_axis(tile.call.scope, spec.threads_of(tile.call.role))
        for layout in line_layouts(lengths, line, threads, axis):
            owners = owners_of(layout, lengths, (0,) * len(lengths), lengths)
            if owners is not None:
                why = f"neighbours along axis {line} of {say_call(tile.call)}"
                yield tile, Claim(owners, why, tile.call.mark)


def _is_stretched(tile: FlowTile, name: str) -> bool:
    return is_stretched(tile.flow, name)


def _waits(tiles: Sequence[FlowTile], tile: FlowTile, name: str) -> bool:
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


def _memory_of(tile: FlowTile) -> str:
    """The first operand in memory that covers the tile; "" for none."""
    return next(iter(list_covering(tile.call, tile.flow)), "")


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
    hint = _say_fitting_layout(spec, buffer, calls)
    return Diagnostic("TG309", f"nothing says which threads own '{name}': {has}", buffer.mark, hint)


def _say_fitting_layout(spec: Spec, buffer: Buffer, calls: Sequence[Call]) -> str:
    """A layout that fits a register buffer, to copy: each element once, dealt out to the threads of its first op."""
    scope, role = (calls[0].scope, calls[0].role) if calls else ("cta", "")
    axis, threads = lane_axis(scope, spec.threads_of(role))
    tile = MemoryTile(tuple(n for n in buffer.shape if isinstance(n, int)), DTYPES[buffer.dtype].bytes)
    layout = partition_layout(tile, threads, axis, 1)
    return f'write its layout, for example "{layout}"'


def _check_size(spec: Spec, chosen: dict[str, Claim]) -> None:
    for name, claim in chosen.items():
        buffer = spec.buffer(name)
        size = int(bound(layouts.extent_of(buffer.layout, "m")) - 1) * DTYPES[buffer.dtype].bytes
        if size > MAX_REGISTER_BYTES:
            message = f"buffer '{name}' takes {size} bytes as {buffer.layout_text} ({claim.why}); a thread has"
            hint = "take a smaller tile, more threads, or extents that they share evenly"
            raise SpecError(Diagnostic("TG210", f"{message} {MAX_REGISTER_BYTES}", buffer.mark, hint))


def _check_owners(spec: Spec, chosen: dict[str, Claim], parted: dict[int, Claim], asked: AskedFlows) -> None:
    """Raises TG308 for the ops in which a chosen layout and another owner of the tile differ, one for each buffer."""
    found: dict[frozenset[str], Diagnostic] = {}
    for tile in list_tiles(spec, asked):
        threads = spec.threads_of(tile.call.role)
        for name, region in tile.sides():
            root = region.buffer.root
            own = owners_of_region(region) if root in chosen else None
            if own is None:
                continue
            for other, claim in list_claims(tile, parted):
                wanted = project(claim.owners, tile.flow.sides[name], region.lengths)
                is_delivered = {name, other} & set(tile.flow.delivered)
                if other != name and not is_delivered and not are_equal(own, wanted, tile.call.scope, threads):
                    pair = frozenset({root, tile.call.regions[other].buffer.root if other else ""})
                    says = _say_layout(tile.call.regions[other].buffer, chosen) if other else claim.why
                    found.setdefault(pair, _report_two(tile, region, chosen, says))
    if found:
        raise SpecError(tuple(found.values()))


def _report_two(tile: FlowTile, region: Region, chosen: dict[str, Claim], other: str) -> Diagnostic:
    mine = _say_layout(region.buffer, chosen)
    return Diagnostic(
        _TWO_OWNERS, f"this {tile.call.op} needs one owner of each element, and has two: {mine}, and {other}",
        region.mark or tile.call.mark, "take one of them through shared memory, or write its layout",
    )  # fmt: skip


def _say_layout(buffer: Buffer, chosen: dict[str, Claim]) -> str:
    why = f" ({chosen[buffer.root].why})" if buffer.root in chosen else ""
    return f"'{buffer.name}' is {buffer.layout_text or 'row'}{why}"
