"""Steps that compute an element from the elements of several operands, wherever these lie.

The threads that own a register tensor do it: what lies in memory they load before and store after, in accesses as wide
as their vectors. Where nothing is in registers, threads share the region as costs least (``shares``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tilegen.arch import Arch
from tilegen.decisions import Candidate, Choice, judge, partition_key
from tilegen.index import Index, Var, add, substitute
from tilegen.index.runs import counter
from tilegen.ops.edges import load_access, may_cut, may_pass_end, see_access, store_access
from tilegen.ops.formals import Formals
from tilegen.ops.holding import check_held_alike, find_slot
from tilegen.ops.moving import Moved, join_neighbours, move_widest
from tilegen.ops.op import Planned
from tilegen.ops.operand import STRETCHED, Context, CountedSteps, Operand, Refused, ref_at
from tilegen.ops.ownership import Ownership, guard_held, own
from tilegen.ops.partition_layout import VECTOR_BYTES
from tilegen.ops.pins import NotHad, pick, say_known
from tilegen.ops.shares import PreparedShare, Share, Taken, choose_share, list_shares
from tilegen.ops.staging import IN_A_TILE, Tile, fill_or_empty, list_tiles, meet_around
from tilegen.ops.thread_loop import over
from tilegen.plan import Block, Memory, Move, Ref, Step, register_memory, when
from tilegen.spec.data import Call
from tilegen.spec.form import operand_field
from tilegen.spec.formulas import coordinate
from tilegen.spec.outline import fresh_name
from tilegen.spec.shapes import align_shapes

MakeStep = Callable[[Ref, tuple[Ref, ...], tuple[Index, ...]], Step]  # dst, sources, the integers of the place


@dataclass(frozen=True)
class Computed:
    """What is computed: ``operands`` stretched over the region ``shape``, and the integers that elements depend on."""

    shape: tuple[int, ...]
    operands: tuple[Operand, ...]
    wholes: tuple[Index, ...] = ()


@dataclass(frozen=True)
class Made:
    """An operand that is written, seen over the region, and the step that makes an element of it."""

    dst: Operand
    make: MakeStep


AnyLoop = TypeVar("AnyLoop", bound="ElementLoop")


def refuse_dtype(dtype: str, arch: Arch) -> str | None:
    """Why an arch converts no elements of a dtype, or None."""
    has_none = dtype.startswith("float8") and "mma_fp8" not in arch.features
    return f"{arch.name} has no conversion for {dtype}" if has_none else None


def stretch(operand: Operand, shape: Sequence[int]) -> Operand:
    """The operand seen over a region of this shape, as ``align_shapes`` has it, which must allow it."""
    kept = [d for d, is_kept in enumerate(operand.region.kept) if is_kept]
    aligned = align_shapes(operand.region.shape, shape)
    assert aligned is not None
    own = [STRETCHED if k is None else kept[k] for k, n in zip(aligned, shape, strict=True) if n > 1]
    return replace(operand, dims=tuple(own), extents=tuple(n for n in shape if n > 1))


def stretch_all(call: Call, context: Context, shape: tuple[int, ...], cache: str = "") -> tuple[Operand, ...]:
    """The operands of a call's expression, seen over a region of that shape."""
    assert call.expression is not None
    found = []
    for name in call.expression.operands:
        operand = context.operand(call, operand_field(name), cache)
        found.append(replace(stretch(operand, shape), op_field=name))
    return tuple(found)


@dataclass(frozen=True)
class _Way:
    """How an op is carried out: its steps and their accesses, what was chosen, and the tile that an array goes through.

    ``text``: the partition's name, "" where registers say who has what.
    """

    steps: tuple[Step, ...]
    counted: CountedSteps
    text: str
    taken: Taken
    elems: Choice
    tile: Tile | None = None


def plan_computed(
    context: Context, call: Call, results: Sequence[Made], computed: Computed, name: str
) -> Planned:  # fmt: skip
    """The function that computes every element of each result: the cheapest of the ways to share the work, and of the
    widths of access that all of it allows. Raises Refused where threads hold a result that have no part in it.

    An array that no partition takes whole may go through shared memory of the op's own, if that costs less.
    """
    pinned = call.fields.partition
    is_tiled = pinned is not None and IN_A_TILE in pinned
    plain = _choose_way(context, _pin(call, None, None) if is_tiled else call, results, computed, name)
    ways = [plain, *_list_tiled(context, call, plain, results, computed, name)] if plain.text else [plain]
    allowed = [w for w in ways if pinned in (None, w.text)]
    if not allowed:
        known = [w.text for w in ways[1:]]
        tiles = f"arrays go through shared memory as {say_known(map(repr, known))}" if known else ""
        raise NotHad("partition", tiles or "no array goes through shared memory here", known)
    best, why_pinned = pick(ways, lambda w: w in allowed, lambda w: w.counted.cost, partition_key)
    choices = _say_ways(ways, best, why_pinned) if len(ways) > 1 else best.taken.choices
    pins = tuple((key, best.text if key == "partition" else value) for key, value in best.taken.pins)
    counted = tuple(c for w in allowed for c in (w.taken.counted if w.tile is None else (w.counted,)))
    scratch = (best.tile.memory,) if best.tile else ()
    return Planned(best.steps, best.counted.cost, (*choices, best.elems), pins, scratch, counted)


def _pin(call: Call, partition: str | None, width: int | None) -> Call:
    fields: Any = call.fields
    return replace(call, fields=fields.model_copy(update={"partition": partition, "width": width}))


def _say_ways(ways: Sequence[_Way], best: _Way, why_pinned: str) -> tuple[Choice, ...]:
    """The choices of the best way, those of others among the candidates of its partition."""
    own = {c.question: c for c in ways[0].taken.choices}
    found = [(c.value, c.cost) for c in own["partition"].candidates if c.cost]
    found += [(w.text, w.counted.cost) for w in ways[1:]]
    least = best.counted.cost
    candidates = tuple(Candidate(v, c, judge(c, least, v == best.text, partition_key)) for v, c in found)
    pinned_there = "" if own["partition"].proof.startswith("the cheapest") else own["partition"].proof
    why = why_pinned or pinned_there or f"the cheapest of {len(found)}; a sector counts as two instructions"
    choice = Choice("partition", best.text, candidates, why)
    return (choice, *(c for c in best.taken.choices if c.question != "partition"))


def _list_tiled(
    context: Context, call: Call, plain: _Way, results: Sequence[Made], computed: Computed, name: str
) -> Iterator[_Way]:
    """The ways in which one array goes through a tile; those with pins of their own where these are of such a way."""
    operands = (*(result.dst for result in results), *computed.operands)
    pinned, width = call.fields.partition, call.fields.width
    for tile in list_tiles(context, call, operands, plain.counted):
        if operands[tile.number].via.function:  # of a tile no atomic update is made
            continue
        staged, k = operands[tile.number], tile.number - len(results)
        said, is_written = tile.say(staged), k < 0
        made = [replace(r, dst=tile.operand) if n == tile.number else r for n, r in enumerate(results)]
        given = tuple(tile.operand if n == k else o for n, o in enumerate(computed.operands))
        is_mine = pinned is not None and pinned.endswith(said)
        own = pinned.removesuffix(said) if is_mine and pinned else None
        try:
            way = _choose_way(
                context, _pin(call, own, width if is_mine or pinned is None else None), made,
                replace(computed, operands=given), name,
            )  # fmt: skip
            copied = fill_or_empty(context, call, staged, tile, is_written)
        except Refused:
            continue
        steps = meet_around(call, copied.steps, way.steps, is_written)
        yield replace(way, steps=steps, counted=context.count(*steps), text=way.text + said, tile=tile)


def _choose_way(context: Context, call: Call, results: Sequence[Made], computed: Computed, name: str) -> _Way:
    """The cheapest way with every operand where it lies. Raises Refused, and NotHad, as ``choose_share`` does."""
    operands = (*(result.dst for result in results), *computed.operands)
    others = [o for o in operands if not o.memory.traits.is_held]

    def prepare(share: Share) -> PreparedShare:
        owned = own(context, share.owner, others)
        for result in results:
            if result.dst.memory.traits.is_held and result.dst != share.owner:
                check_held_alike(context, call.scope, owned, own(context, result.dst, []))
        return prepare_share(
            share, lambda cap: ElementLoop(context, call, owned, operands, cap),
            lambda loop: _compute_all(loop, computed, [result.make for result in results], name),
        )  # fmt: skip

    best, taken = choose_share(context, call, list_shares(context, call, operands, computed.shape), prepare)
    owner = best.share.owner.buffer
    whose = owner.name if owner.mark else "this partition"
    elems = Choice("elements_per_thread", best.owned.count, (), f"what {whose} gives to one")
    return _Way((taken.block,), context.count(taken.block), best.share.text, taken, elems)


class ElementLoop:
    """The parts of a function that walks the elements of ``owned``: loads, places of an element, stores.

    ``operands`` are numbered, those that the call writes first; what of them lies in memory has registers of its own
    (``registers``), loaded before and stored after in accesses of at most ``cap`` elements.
    """

    def __init__(self, context: Context, call: Call, owned: Ownership, operands: Sequence[Operand], cap: int):
        self.context, self.call, self.owned, self.operands = context, call, owned, tuple(operands)
        moves = [move_widest(owned, one, cap) for part in self.parts for one in join_neighbours(operands, part)]
        self.loaded = {k: moved for moved in moves for k in moved.joined.members}
        seen = {k: moved.joined.operand for k, moved in self.loaded.items()}
        self.distinct = _distinct([seen.get(k, o) for k, o in enumerate(operands)], moves)
        self.e = context.fresh("e")
        own = owned.names | {self.e, *self.picked}
        self.formals = Formals(self.distinct, [*map(self.is_flat, self.distinct)], call.scope, own)
        self.taken = {m.name for m in self.formals.formals}
        self.held = {moved: self._hold(moved) for moved in moves}

    @property
    def parts(self) -> tuple[range, ...]:
        """The numbers of operands that are moved before, and of those that are moved after what is computed."""
        written = len(self.call.fields_written)
        return range(written), range(written, len(self.operands))

    @property
    def picked(self) -> tuple[str, ...]:
        """Names of integers that a thread takes out of its registers, as parts of places."""
        return ()

    def is_flat(self, operand: Operand) -> bool:
        """Does the function see an operand by one flat offset?"""
        return operand.memory.traits.is_held or not (may_pass_end(operand) or bool(self.owned.limits))

    @property
    def registers(self) -> tuple[Memory, ...]:
        return tuple(self.held.values())

    @property
    def widest(self) -> int:
        """Elements of the widest access of memory, 0 where nothing is in memory."""
        return max((moved.width for moved in self.held), default=0)

    @property
    def number(self) -> Index:
        """The number of an element among those of its thread, in the order of registers."""
        return self.owned.number()

    def _hold(self, moved: Moved) -> Memory:
        formal = self.formals.formals[self.distinct.index(moved.joined.operand)]
        return self.new_registers(f"{formal.name.lower()}_vals", formal.dtype, moved.count)

    def new_registers(self, name: str, dtype: str, count: int) -> Memory:
        """Registers of a thread, under a name that nothing else has in the function."""
        name = fresh_name(name, self.taken | self.context.taken)
        self.taken.add(name)
        return register_memory(name, dtype, count)

    def access(self, numbers: Sequence[int], is_load: bool) -> tuple[Step, ...]:
        """All accesses of those of these operands that lie in memory, in order."""
        moved = dict.fromkeys(self.loaded[k] for k in numbers if k in self.loaded)
        return tuple(step for one in moved for step in self._access(one, is_load))

    def _access(self, moved: Moved, is_load: bool) -> tuple[Step, ...]:
        operand, width, held = moved.joined.operand, moved.width, self.held[moved]
        steps = moved.count // width
        number = counter(self.owned.step, steps, width)
        side = self.distinct.index(operand)
        is_cut = may_cut(operand, width, moved.run)
        one = see_access(
            width, lambda k: guard_held(self.owned, operand, moved.at(add(number, k))),
            lambda k: self.formals.see(side, ref_at(operand, moved.at(add(number, k)))),
            Var(self.e, width) if is_cut else None, operand,
        )  # fmt: skip
        moves = (load_access if is_load else store_access)(one, lambda k: held[add(number, k)])
        return over(counter(self.owned.step, steps), moves)

    def see(self, k: int, at: Index | None = None) -> Ref:
        """The register that holds operand ``k``'s element for element number ``at``, by default the loop's."""
        operand, number = self.operands[k], self.number if at is None else at
        if (moved := self.loaded.get(k)) is not None:
            return self.held[moved][moved.number_of(number, k)]
        if operand.memory == self.owned.operand.memory and operand.region == self.owned.operand.region:
            slot = self.owned.element(number)[1]
        else:
            slot = find_slot(self.context, self.owned, operand, self.call.scope, number)
        side = next(n for n, o in enumerate(self.distinct) if o.memory == operand.memory)
        return self.formals.see(side, operand.memory[slot])

    def repeat(self, body: tuple[Step, ...]) -> tuple[Step, ...]:
        """``body`` for every element that the thread has of the region."""
        at, _ = self.owned.element(self.number)
        return over(self.number, when(self.owned.holds(at), *body))

    def wholes(self, computed: Computed, number: Index | None = None) -> tuple[Index, ...]:
        """The integers of the place of an element, by default the loop's, with index(d) written out."""
        at, _ = self.owned.element(self.number if number is None else number)
        return tuple(substitute(x, coordinates_of(computed.shape, at)) for x in computed.wholes)


def prepare_share(share: Share, walk: Callable[[int], AnyLoop], build: Callable[[AnyLoop], Block]) -> PreparedShare:
    """A share by the loops over its elements with accesses of at most so many, and the function made of one."""
    widest = walk(VECTOR_BYTES)
    return PreparedShare(share, widest.owned, widest.widest, lambda cap: build(walk(cap)))


def _compute_all(loop: ElementLoop, computed: Computed, makes: Sequence[MakeStep], name: str) -> Block:
    """The function that sets every element of the first operands, one for each of ``makes``.

    All results of an element are made of what its sources held before: one that comes after another, and reads where
    that is written, has it still.
    """
    results, sources = range(len(makes)), range(len(makes), len(loop.operands))
    read = tuple(map(loop.see, sources))
    body, late = list[Step](), list[Step]()
    new = list[Memory]()
    for k, make in enumerate(makes):
        dst = loop.see(k)
        if k < results[-1] and _is_read(loop, k, sources):
            new.append(loop.new_registers(f"{loop.operands[k].buffer.name}_new", dst.memory.dtype, 1))
            late.append(Move(dst, new[-1][0]))
            dst = new[-1][0]
        body.append(make(dst, read, loop.wholes(computed)))
    inside = (*loop.access(sources, is_load=True), *loop.repeat((*body, *late)))
    return end_block(loop, inside, name, (*loop.registers, *new))


def end_block(loop: ElementLoop, inside: tuple[Step, ...], name: str, registers: Sequence[Memory]) -> Block:
    """The function that has done ``inside``, and then stores those results that lie in memory: the first of copies
    does.
    """
    results, _ = loop.parts
    stores = loop.access(results, is_load=False)
    if all(k in loop.loaded for k in results):
        inside = loop.owned.guard((*inside, *stores), stores=True)
    else:
        inside = loop.owned.guard((*inside, *loop.owned.leave_to_first(stores)))
    return loop.formals.block(name, inside, loop.context.op, tuple(registers))


def _is_read(loop: ElementLoop, k: int, sources: Sequence[int]) -> bool:
    """Is what operand ``k`` is written to, registers of the spec, among the sources?"""
    root = loop.operands[k].buffer.root
    return k not in loop.loaded and any(loop.operands[n].buffer.root == root for n in sources)


def coordinates_of(shape: Sequence[int], at: Sequence[Index]) -> Mapping[str, Index]:
    """What index(d) is for an element at these coordinates, one for each dimension longer than 1."""
    long = [d for d, n in enumerate(shape) if n > 1]
    return {coordinate(d, shape[d]).name: x for d, x in zip(long, at, strict=True)}


def _distinct(operands: Sequence[Operand], moves: Sequence[Moved]) -> tuple[Operand, ...]:
    """The operands that are parameters of the function: of those in the same registers, or moved together, one."""
    later = {k for moved in moves for k in moved.joined.members if k != min(moved.joined.members)}
    found: list[Operand] = []
    for k, o in enumerate(operands):
        is_held = o.memory.traits.is_held
        if k not in later and not (is_held and any(o.memory == other.memory for other in found)):
            found.append(o)
    return tuple(found)
