"""What CTAs write and read of global arrays, taken from the spec's regions: boxes over CTAs, loops and threads.

What is accumulated into has no owner: any CTAs may update an element, in any order, and none reads or writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tilegen.index import Formula, Index, Var, conjuncts, evaluate, every, less, substitute, variables
from tilegen.kept import keep
from tilegen.ops.indexed import promised_index
from tilegen.ops.placement import logical_memory, place_memories
from tilegen.plan import Memory
from tilegen.scopes import CTA_AXES, thread_variables
from tilegen.spec.data import Call, Region, Spec
from tilegen.spec.outline import Meant, outline, written_roots
from tilegen.spec.spelling import spell_index


@dataclass(frozen=True)
class Owned:
    """A box of a global array that a CTA writes, or reads: start and extent per dimension of the memory.

    ``loops`` are the variables other than the CTA's that the start ranges over, each with its count; ``threads``
    those of the role that does, whose thread axes the start may name.
    """

    memory: Memory
    start: tuple[Index, ...]
    box: tuple[int, ...]
    loops: tuple[tuple[Var, Index], ...] = ()
    condition: Index = True
    op: int = -1  # the number of the call, and of the plan's operation
    threads: int = 1024
    limits: tuple[tuple[int, Index], ...] = ()  # of dimensions in which the box ends earlier


@keep
def written_boxes(spec: Spec) -> tuple[Owned, ...]:
    """Every box that the spec writes, in the order of its ops."""
    return _list_boxes(spec, lambda call: () if call.accumulates else call.written, by_index=True)


@keep
def touched_boxes(spec: Spec) -> tuple[Owned, ...]:
    """Every box that it reads or writes."""
    return _list_boxes(spec, lambda call: [*call.sources, *(() if call.accumulates else call.written)])


@keep
def read_boxes(spec: Spec) -> tuple[Owned, ...]:
    """Every box that it reads of an array that it writes too: nobody but the CTA that reads one may own it."""
    return _list_boxes(spec, lambda call: [r for r in call.sources if r.buffer.root in written_roots(spec)])


def say_short_grid(spec: Spec, name: str, case: Mapping[str, int]) -> str:
    """How many CTAs along an axis the boxes of an array ask for, where the grid has fewer of them; "" elsewhere.

    Boxes that lie side by side along the axis are looked at: each begins where the one before it ends.
    """
    for axis, count in zip(CTA_AXES, spec.grid, strict=True):
        ctas = int(evaluate(count, dict(case)))
        for owned in (o for o in written_boxes(spec) if o.memory.name == name):
            for start, length, extent in zip(owned.start, owned.box, owned.memory.shape, strict=True):
                values = {v.name: v.least for v in variables(start)} | dict(case)
                begins = [int(evaluate(start, values | {axis: i})) for i in (0, 1)]
                elems = int(evaluate(extent, dict(case)))
                if axis in values and begins == [0, length] and ctas * length < elems:
                    said = _name_extent(spec, extent)
                    needed = f"ceil({said} / {length})" if elems % length else f"{said} // {length}"
                    clip = " with 'edge: clip'" if elems % length else ""
                    return f"the grid ends at {ctas * length} of {elems}: '{axis}: {needed}'{clip} reaches the end"
    return ""


def _name_extent(spec: Spec, extent: Index) -> str:
    """An extent as the spec has it: constants are folded, so one of this value is taken for it."""
    named = [c.name for c in spec.constants if c.value == extent]
    return named[0] if named and isinstance(extent, int) else spell_index(extent)


def _list_boxes(
    spec: Spec, regions_of: Callable[[Call], Sequence[Region]], by_index: bool = False
) -> tuple[Owned, ...]:  # fmt: skip
    """The boxes of regions, but of what is written where an index says: no box tells which places these are.

    ``by_index``: in its place the box of an index of which the caller promises that no value stands twice. Who owns an
    element of it owns what it names, in the row of dst that the region names (``check_scattered`` asks for the rest).
    """
    found: list[Owned] = []
    memories = place_memories(spec)
    for placed in outline(spec).placed:
        call, meant = placed.statement, placed.meant
        for region in regions_of(call) if isinstance(call, Call) else ():
            assert isinstance(call, Call)
            named, rows = "", dict[int, Index]()
            if call.stores_by_index and region is call.indexed:
                index = promised_index(call) if by_index and region.buffer.traits.is_array else None
                if index is None:
                    continue
                rows, named, region = _list_rows(region, meant), region.buffer.root, index
            if region.buffer.traits.is_array:
                memory = logical_memory(region.buffer, memories[region.buffer.name])
                memory = _add_rows(memory, named, call.regions["dst"], rows) if named else memory
                start = (*(substitute(x, meant.values) for x in region.begins), *rows.values())
                threads = spec.threads_of(call.role)
                axes = {v for x in start for v in variables(x) if v.name in thread_variables(threads)}
                loops = tuple((one.trip, one.count) for one in meant.loops)
                loops += tuple((v, v.bound) for v in sorted(axes, key=lambda v: v.name))
                condition = _condition_of(call, meant)
                limits = tuple((d, substitute(x, meant.values)) for d, x in region.limits)
                box = (*region.lengths, *(1 for _ in rows))
                found.append(Owned(memory, start, box, loops, condition, placed.number, threads, limits))
    return tuple(found)


def _list_rows(dst: Region, meant: Meant) -> dict[int, Index]:
    """The places, written out, of the dimensions in which a region of dst is one element, but for those of tables."""
    rows = {d: substitute(x, meant.values) for d, x in enumerate(dst.begins) if not dst.kept[d]}
    return {d: x for d, x in rows.items() if not find_elements(x)}


def _add_rows(memory: Memory, name: str, dst: Region, rows: Collection[int]) -> Memory:
    """The memory of an index by the name of what is written, with a dimension for each of these of dst."""
    shape, pitches = (dst.buffer.shape[d] for d in rows), (0 for _ in rows)
    return replace(memory, name=name, shape=(*memory.shape, *shape), pitches=(*memory.pitches, *pitches))


def find_elements(x: Index) -> frozenset[Formula]:
    """The elements of tables in an expression."""
    if not isinstance(x, Formula):
        return frozenset()
    inner = frozenset[Formula]().union(*map(find_elements, x.args))
    return inner | {x} if x.symbol == "table" else inner


def _condition_of(call: Call, meant: Meant) -> Index:
    """When the call runs, without what its loops ask of their trips: a box says that itself."""
    of_loops = [less(one.trip, one.count) for one in meant.loops if not isinstance(one.count, int)]
    asked = [*meant.guards, substitute(call.when, meant.values)]
    return every(*(part for x in asked for part in conjuncts(x) if part not in of_loops))
