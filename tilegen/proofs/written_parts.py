"""What a pass reads of a workspace that a pass before writes in part: the same term says on both sides which part.

The writer writes ``w[.., bx, ..]`` where ``bx < used``, and all of ``w`` if that were not asked. The reader reads along
that dimension what lies before ``used``. Both terms are compared written out, elements of tables as one function of
their place, with the writer's axes replaced by the reader's places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tilegen.index import Formula, Index, Var, conjuncts, every, names_of, substitute
from tilegen.index.contents import TURNS
from tilegen.ops.tables import fill_spec
from tilegen.plan import Plan
from tilegen.plan.contents import Contents, fill_tables, fill_with
from tilegen.proofs.fillings import list_reads
from tilegen.proofs.finding import NO_OWNER
from tilegen.proofs.owned_boxes import Owned, written_boxes
from tilegen.proofs.owners import check_owners
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Call, Spec
from tilegen.spec.outline import outline, written_roots

_ONE_FUNCTION = fill_with(Contents(TURNS))  # an element is one function of its place, whatever that is


@dataclass(frozen=True)
class _Part:
    """Of a workspace what lies before ``end`` along dimension ``d``; ``axes``: the axis that each dimension is."""

    d: int
    end: Index
    axes: Mapping[str, int]


def is_part_written(writer: Spec, plan: Plan, reader: Spec, name: str) -> bool:
    """Is all that a pass reads of a workspace written by another, which writes a part? False if nothing says so."""
    tables = {read.array for spec in (writer, reader) for _, read in list_reads(spec)}
    if tables & (written_roots(writer) | written_roots(reader)):
        return False
    filled, same_plan = fill_spec(writer, _ONE_FUNCTION), fill_tables(plan, _ONE_FUNCTION)
    of_name = [o for o in written_boxes(filled) if o.memory.name == name]
    parts = list(_list_parts(of_name[0])) if len(of_name) == 1 else []
    return any(_reads_within(reader, name, p) and _is_whole_but_for(filled, same_plan, of_name[0], p) for p in parts)


def _list_parts(owned: Owned) -> Iterator[_Part]:
    """The parts that the conditions of a box may say: an axis that is a dimension's place is below an end."""
    places = {x.name: d for d, x in enumerate(owned.start) if isinstance(x, Var) and x.name in CTA_AXES}
    for c in conjuncts(owned.condition):
        if isinstance(c, Formula) and c.symbol == "<" and isinstance(c.args[0], Var):
            d = places.get(c.args[0].name, -1)
            others = {axis: k for axis, k in places.items() if k != d}
            if d >= 0 and owned.box[d] == 1 and names_of(c.args[1]).isdisjoint({*CTA_AXES} - {*others}):
                yield _Part(d, c.args[1], others)


def _is_whole_but_for(filled: Spec, plan: Plan, owned: Owned, part: _Part) -> bool:
    """Would the box be all of the workspace, at every size, if nothing asked for the part?"""
    axis = owned.start[part.d]
    left = [c for c in conjuncts(owned.condition) if not (isinstance(c, Formula) and c.args == (axis, part.end))]
    counted = check_owners(filled, plan, (replace(owned, condition=every(*left)),))
    name = owned.memory.name
    is_sure = name not in dict(counted.unsure) and not any(f.memory == name for f in counted.unlooked)
    return is_sure and not any(f.code == NO_OWNER or f.severity == "error" for _, f in counted.found)


def _reads_within(reader: Spec, name: str, part: _Part) -> bool:
    """Does a pass read of a workspace nothing but the part?"""
    filled = fill_spec(reader, _ONE_FUNCTION)
    for placed in outline(filled).placed:
        call, meant = placed.statement, placed.meant
        if not isinstance(call, Call):
            continue
        for region in (r for r in call.read if r.buffer.root == name):
            begins = [substitute(x, meant.values) for x in region.begins]
            if region.buffer.name != name:
                return False
            end = substitute(part.end, {axis: begins[k] for axis, k in part.axes.items()})
            one = all(region.lengths[k] == 1 for k in part.axes.values() if _names(part.end, part.axes, k))
            limits = {d: substitute(x, meant.values) for d, x in region.limits}
            guards = (*meant.guards, *conjuncts(substitute(call.when, meant.values)))
            is_guarded = region.lengths[part.d] == 1 and Formula("<", (begins[part.d], end), 2) in guards
            if not one or not (limits.get(part.d) == end or is_guarded):
                return False
    return not any(read.array == name for _, read in list_reads(reader))


def _names(end: Index, axes: Mapping[str, int], d: int) -> bool:
    return any(k == d and axis in names_of(end) for axis, k in axes.items())
