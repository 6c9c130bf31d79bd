"""How a thread finds the place that an integer of its own names: what scatter and gather have in common in a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tilegen.arithmetic import Element, Node
from tilegen.index import Index, Var, add, bound, evaluate, every, less, names_of, sub
from tilegen.index.runs import counter
from tilegen.ops.computing import Computed, ElementLoop, prepare_share
from tilegen.ops.edges import edge_guard, guard_at, is_aligned, late_dims, may_pass_end
from tilegen.ops.elementwise import measure_trees, name_of
from tilegen.ops.flows import Dims
from tilegen.ops.indexed import align_in_call, axis_of, find_extent, index_dtype, shape_of_call
from tilegen.ops.op import Planned
from tilegen.ops.operand import STRETCHED, Context, Operand, ref_at
from tilegen.ops.ownership import Ownership, own
from tilegen.ops.shares import PreparedShare, Share, choose_share, list_shares
from tilegen.ops.thread_loop import over
from tilegen.plan import Block, Compute, Memory, Pick, Ref, Step, when
from tilegen.spec.data import Call, Region
from tilegen.spec.form import operand_field
from tilegen.spec.formulas import coordinate
from tilegen.spec.pads import is_clipped


def lie_on_index(call: Call, region: Region) -> Dims:
    """For each dimension of the index the one of an operand's buffer that lies on it; None where it is stretched."""
    kept = [d for d, is_kept in enumerate(region.kept) if is_kept]
    return tuple(None if k is None else kept[k] for k in align_in_call(call, region))


def see_operand(call: Call, context: Context, name: str) -> Operand:
    """An operand of the expression seen over the shape of the index."""
    operand = context.operand(call, operand_field(name), call.fields.cache)
    shape = shape_of_call(call)
    lies = lie_on_index(call, operand.region)
    dims = tuple(STRETCHED if d is None else d for d, n in zip(lies, shape, strict=True) if n > 1)
    return replace(operand, dims=dims, extents=tuple(n for n in shape if n > 1), op_field=name.removeprefix("."))


@dataclass(frozen=True)
class Target:
    """The region in which an index counts, seen by the dimensions that it keeps, and how far the index counts in it.

    ``extent``: of the dimension that the index counts along. ``index``: the variable that a thread picks.
    """

    operand: Operand
    axis: int
    extent: Index
    index: Var
    clips: bool

    @property
    def inside(self) -> Var:
        """The index where it is known to lie in the region."""
        return replace(self.index, bound=self.most, least=0)

    @property
    def most(self) -> int:
        """A number that the index is below where it lies in the region."""
        return self.extent if isinstance(self.extent, int) else bound(self.extent) - 1

    @property
    def holds(self) -> Index:
        """The condition that the index lies in the region."""
        return every(less(-1, self.index), less(self.index, self.extent))

    @property
    def known(self) -> tuple[Index, ...]:
        """What holds of the index beside the range of its variable."""
        return () if self.clips or isinstance(self.extent, int) else (less(self.index, self.extent),)

    def at(self, own: Sequence[Index]) -> list[Index]:
        """The coordinates in the region of an element at coordinates of the index's shape."""
        lengths, rank = self.operand.region.shape, len(self.operand.dims)
        named = [d == self.axis or rank == 1 for d in range(rank)]
        return [self.inside if named[d] else own[d] if lengths[d] > 1 else 0 for d in range(rank)]

    def guard(self, coordinates: Sequence[Index]) -> Index:
        """The condition that an element lies in the region, and in its array."""
        operand, d = self.operand, self.operand.dims[self.axis]
        holds = self.holds if self.clips else True
        if not may_pass_end(operand):
            return holds
        edge = edge_guard(operand, coordinates, d).both
        ends = add(operand.region.begins[d], self.index)
        is_late = d in late_dims(operand) and d not in operand.region.open
        before = less(ends, operand.region.ends[d]) if is_late else True
        after = less(-1, ends) if d in operand.early else True
        return every(holds, edge, after, before)


def name_pick(call: Call, context: Context) -> str:
    """What a thread calls the index of an element."""
    return context.fresh("to" if call.stores_by_index else "at")


def find_target(call: Call, context: Context) -> Target:
    """The region in which a call's index counts."""
    operand, axis = context.operand(call, call.form.indexed), axis_of(call)
    region = operand.region
    kept = tuple(d for d, is_kept in enumerate(region.kept) if is_kept)
    extents = tuple(max(2, bound(find_extent(region, d)) - 1) for d in kept)
    assert call.expression is not None
    clips = is_clipped(call)
    extent, name = find_extent(region, kept[axis]), name_pick(call, context)
    most = extent if isinstance(extent, int) else bound(extent) - 1
    dtype = np.iinfo(index_dtype(call.expression.trees[-1]))
    is_asked = clips and not is_inside_by_types(call)
    index = Var(name, int(dtype.max) + 1, 1, int(dtype.min)) if is_asked else Var(name, most)
    return Target(replace(operand, dims=kept, extents=extents), axis, extent, index, is_asked)


def is_inside_by_types(call: Call) -> bool:
    """Does an index lie in its region by the types of its elements? What is promised of any plays no part in it."""
    expression, region = call.expression, call.indexed
    assert expression is not None
    extent = find_extent(region, [d for d, is_kept in enumerate(region.kept) if is_kept][axis_of(call)])
    if not isinstance(extent, int):
        return False
    own = {coordinate(d, n).name for d, n in enumerate(shape_of_call(call)) if n > 1}
    if any(not names_of(x) <= own for x in expression.wholes):
        return False
    found = measure_trees(call, dict.fromkeys(map(operand_field, expression.operands)), frozenset())[-1]
    return found is not None and found.numbers[0] >= 0 and found.numbers[1] < extent


class IndexLoop(ElementLoop):
    """The loop over the elements of the index; the last operand is the region in which it counts, which no order of
    elements has a say in.

    ``together``: neighbours that one index names, and one access reads: a part of a row that is taken whole.
    """

    def __init__(
        self, context: Context, call: Call, owned: Ownership, operands: Sequence[Operand], cap: int, target: Target
    ):  # fmt: skip
        self.together, self.target = 1, target
        super().__init__(context, call, owned, (*operands, target.operand), cap)
        while not call.stores_by_index and self.together * 2 <= cap and self._reads_together(self.together * 2):
            self.together *= 2

    @property
    def number(self) -> Index:
        return self.owned.number(self.together)

    @property
    def widest(self) -> int:
        return max(super().widest, self.together) if self.together > 1 else super().widest

    @property
    def computed(self) -> Computed:
        """The shape that index(d) counts in, and the integers of the place of an element."""
        assert self.call.expression is not None
        return Computed(shape_of_call(self.call), (), self.call.expression.wholes)

    def repeat(self, body: tuple[Step, ...]) -> tuple[Step, ...]:
        at, _ = self.owned.element(self.number)
        trips = counter(self.owned.step, self.owned.count // self.together)
        return over(trips, when(self.owned.holds(at), *body))

    def locate(self, number: Index) -> list[Index]:
        """The coordinates in the region in which the index counts of an element by its number."""
        shape, numbers = self.computed.shape, self.owned.element(number)[0]
        at = dict(zip((d for d, n in enumerate(shape) if n > 1), numbers, strict=True))
        return self.target.at([at.get(d, 0) for d in range(len(shape))])

    def guard(self, number: Index) -> Index:
        """The condition that an element has a place: all that is read for it is inside, and its index is."""
        numbers = self.owned.element(number)[0]
        read_inside = (guard_at(self.operands[k], numbers).both for k in self.parts[1])
        return every(*read_inside, self.target.guard(self.locate(number)))

    def _reads_together(self, width: int) -> bool:
        """Do so many neighbours have one index, and lie side by side where they are read and where they are held?"""
        if self.owned.limits or self.owned.count % width:
            return False
        first = self.owned.number(width)
        start, slot = ref_at(self.target.operand, self.locate(first)), self.see(0, first).offset
        slots = evaluate(slot, {self.owned.step: np.arange(self.owned.count // width)})
        if not is_aligned(self.target.operand, start, width) or np.any(slots % width):
            return False
        return all(self._follows(first, k, add(start.offset, k), slot) for k in range(1, width))

    def _follows(self, first: Index, k: int, place: Index, slot: Index) -> bool:
        """Has element ``k`` after the first its index, and does it lie at ``place``, and as far behind its register?"""
        number, sources = add(first, k), [self.operands[n] for n in self.parts[1]]
        own, other = (self.owned.element(n)[0] for n in (first, number))
        moved = [d for d, (x, y) in enumerate(zip(own, other, strict=True)) if x != y]
        wholes, guards = ([f(n) for n in (first, number)] for f in (partial(self.wholes, self.computed), self.guard))
        if any(o.dims[d] != STRETCHED for o in sources for d in moved) or wholes[0] != wholes[1]:
            return False
        away = evaluate(sub(self.see(0, number).offset, slot), {self.owned.step: np.arange(self.owned.count)})
        lies_beside = ref_at(self.target.operand, self.locate(number)).offset == place
        return guards[0] == guards[1] and lies_beside and bool(np.all(away == k))

    @property
    def parts(self) -> tuple[range, ...]:
        written = 0 if self.call.stores_by_index else 1
        return range(written), range(written, len(self.operands) - 1)

    @property
    def picked(self) -> tuple[str, ...]:
        return (name_pick(self.call, self.context),)

    def is_flat(self, operand: Operand) -> bool:
        return super().is_flat(operand) and (operand is not self.operands[-1] or not operand.memory.traits.is_array)


@dataclass(frozen=True)
class Named:
    """The place of an element: the step that takes its index, where it is, and whether the region has such a place."""

    pick: Pick
    ref: Ref
    guard: Index


class TreeHolder:
    """The registers of a loop's function that have what trees come to: ``registers``, filled by ``steps``."""

    def __init__(self, loop: IndexLoop):
        self.loop, self.steps = loop, list[Step]()
        self.read, self.wholes = tuple(map(loop.see, loop.parts[1])), loop.wholes(loop.computed)
        self.registers: list[Memory] = list(loop.registers)

    def hold(self, tree: Node, what: str, dtype: str) -> Ref:
        """The register that has what a tree comes to."""
        if isinstance(tree, Element) and tree.dtype == dtype:
            return self.read[tree.number]
        self.registers.append(self.loop.new_registers(what, dtype, 1))
        self.steps.append(Compute(self.registers[-1][0], tree, self.read, self.wholes))
        return self.registers[-1][0]

    def hold_index(self) -> Ref:
        """The register that has the index of an element."""
        assert self.loop.call.expression is not None
        index = self.loop.call.expression.trees[-1]
        return self.hold(index, "place", index_dtype(index))


def find_place(loop: IndexLoop, index: Ref) -> Named:
    """The place that the loop's element has by an index in a register. What is read outside of an array has none."""
    target = loop.target
    side = loop.distinct.index(target.operand)
    ref = loop.formals.see(side, ref_at(target.operand, loop.locate(loop.number)))
    return Named(Pick(target.index, index, target.known), ref, loop.guard(loop.number))


def plan_by_index(
    context: Context, call: Call, operands: Sequence[Operand], target: Target,
    build: Callable[[IndexLoop, str], Block], check: Callable[[Operand, Ownership], None] = lambda owner, owned: None,
) -> Planned:  # fmt: skip
    """The cheapest way to share the elements of an index out, and the function that ``build`` makes of their loop.

    ``check``: of who owns the elements, and as what, raises Refused where another operand is held otherwise.
    """
    others, name = [o for o in operands if not o.memory.traits.is_held], name_of(call)

    def prepare(share: Share) -> PreparedShare:
        owned = own(context, share.owner, others)
        check(share.owner, owned)
        return prepare_share(
            share, lambda cap: IndexLoop(context, call, owned, operands, cap, target), lambda loop: build(loop, name)
        )

    _, taken = choose_share(context, call, list_shares(context, call, operands, shape_of_call(call)), prepare)
    return Planned((taken.block,), taken.cost, taken.choices, taken.pins, (), taken.counted)
