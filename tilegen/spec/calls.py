"""Ops on tiles, as a list of statements has them: fields, operands, expression, and checks of all together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as Dict
from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from typing import Any

from tilegen.arithmetic import Element
from tilegen.arithmetic import Node as Formula
from tilegen.errors import Mark
from tilegen.layouts import TileLayout, tiled_mma
from tilegen.layouts.constructors.tiled_mma import number_threads
from tilegen.scopes import OP_SCOPES, SCOPES, THREAD_AXES
from tilegen.spec.absent import refuse_later_fields
from tilegen.spec.buffer_models import MAX_RANK
from tilegen.spec.computed import Known, parse_formula
from tilegen.spec.data import Call, Expression, Region
from tilegen.spec.findings import Flawed, Passage, raise_flaw
from tilegen.spec.form import OpForm, list_fields, operand_field, result_field
from tilegen.spec.formulas import Collected
from tilegen.spec.models import check_fields, field_names, is_misspelt
from tilegen.spec.names import Names, check_name, names_in_scope
from tilegen.spec.nodes import Mapping, Node, Scalar, find_node, list_words
from tilegen.spec.pads import check_pad
from tilegen.spec.placing import last_thread, owner_scope
from tilegen.spec.ranges import Cases, check_region_range
from tilegen.spec.regions import check_limit, parse_region
from tilegen.spec.results import check_names, check_results, find_result, names_of_results
from tilegen.spec.shapes import check_apart, check_shapes
from tilegen.spec.slots import declare_slot
from tilegen.spec.surroundings import Surroundings, instance_cases
from tilegen.spec.tensor_memory import refuse_tensor_op
from tilegen.spec.terms import SlotName
from tilegen.spec.waits import read_when

_DST = "dst"  # the field whose names are those that an expression gives values to


@dataclass(frozen=True)
class _Reading:
    """An op that is being read: its fields (None where they are wrong), and what its scope knows."""

    key: Scalar
    node: Mapping
    form: OpForm
    fields: Any
    around: Surroundings  # with the op's scope
    names: Names

    def mark_at(self, place: str) -> Mark:
        """The place of a field, or of a part of it; the op's where the text has none."""
        found = find_node(self.node, place)
        return found.mark if found is not None else self.key.mark

    @property
    def edge(self) -> Node | None:
        """What the text has for the field that says whether regions may pass an edge."""
        return self.node.get(self.form.edge) if self.form.edge else None

    @property
    def clips(self) -> bool:
        return isinstance(self.edge, Scalar) and self.edge.text == "clip"


@dataclass(frozen=True)
class _Operands:
    """The regions of an op's fields. ``are_read``: all that are given; ``are_there``: all that it needs, too."""

    regions: dict[str, Region]
    are_read: bool
    are_there: bool


def read_call(key: Scalar, node: Node, form: OpForm, around: Surroundings) -> Call | None:
    """The call of an op on tiles; None where some of it was reported. Raises Flawed for what is wrong as a whole."""
    start, findings = len(around.findings.found), around.findings
    op = _open_call(key, node, form, around)
    if op is None:
        return None
    condition = read_when(op.node, op.names, findings, has_scope=True)
    conditions = {name: read_when(op.node, op.names, findings, name) for name in form.conditions}
    cases = instance_cases(around.cases, op.around.scope, around.threads or 1024, condition)
    is_sure = len(findings.found) == start  # else a region may pass its array for want of what was not read
    operands = _read_operands(op)
    barrier = _read_barrier(op)
    with findings.collect():
        around.check_peers(form.peers, op.node)
    expression = None
    if operands.are_there:
        with findings.collect():
            expression = _read_expression(op, operands.regions)
    regions = _each_region(operands.regions, expression)
    computed = expression.operands if expression is not None else {}
    named = operands.regions | {operand_field(name): region for name, region in computed.items()}
    refuse_tensor_op(form, named, op.node)
    before = len(findings.found)
    _check_regions(op, regions, cases if is_sure and around.threads else None)
    is_inside = len(findings.found) == before
    is_computed = expression is not None or not (form.index or (form.expression and form.expression in op.node))
    if is_computed:
        _check_edge(op, operands, regions)
    if op.fields is None or not operands.are_there or not is_computed:
        return None
    _check_types(op, operands.regions)
    if not is_inside:  # what is said of a region may be why shapes differ
        return None
    _check_shapes(op, operands.regions, expression)
    nodes = {name.text: value for name, value in op.node.entries}
    scope, role = op.around.scope, around.role
    call = Call(form, scope, op.fields, named, condition, key.mark, barrier, expression, conditions, role, nodes)
    check_pad(call)
    return call


def _open_call(key: Scalar, node: Node, form: OpForm, around: Surroundings) -> _Reading | None:
    """An op's fields and scope; None where it is no mapping, or its scope was reported."""
    refuse_later_fields(node, form.later, key.text)
    fields = check_fields(node, form.model, key.text, around.findings, key.mark)
    if fields is None:
        around.register.unread.update(list_words(node))
    if not isinstance(node, Mapping) or ("scope" not in node and is_misspelt("scope", node, field_names(form.model))):
        return None
    word = node.get("scope")
    if word is not None and not (isinstance(word, Scalar) and word.text in (*OP_SCOPES, "role")):
        return None  # reported with the fields
    scope = around.check_scope(word.text if isinstance(word, Scalar) else "", word, key.mark)
    around = replace(around, scope=scope)
    names = names_in_scope(around.names, scope, around.threads or 1024)
    with around.findings.collect():
        around.check_unit(scope, node.key("scope").mark if "scope" in node else key.mark, key.text)
    with around.findings.collect():
        around.check_agree(scope, key.text, key.mark)
    return _Reading(key, node, form, fields, around, names)


def _read_operands(op: _Reading) -> _Operands:
    around, regions = op.around, dict[str, Region]()
    taken = {"a buffer": around.buffers.found, "a number": op.names.values}
    are_named = check_names(op.form, op.node, taken, around.findings)
    operands = dict(list_operands(op.form, op.node))
    for name, operand in operands.items():
        with around.findings.collect():
            if isinstance(operand, Scalar) and isinstance(operand.value, str):  # all else is reported with the fields
                regions[name] = _parse_region(operand.passage, op.names, around, name == op.form.indexed)
    wanted = (name for name in op.form.operands if name not in op.form.optional)
    are_read = len(regions) == len(operands)
    are_there = are_read and are_named and all(list_fields(operands, (name,)) for name in wanted)
    return _Operands(regions, are_read, are_there)


def _read_barrier(op: _Reading) -> SlotName | None:
    named = op.node.get(op.form.barrier) if op.form.barrier else None
    if isinstance(named, Scalar) and isinstance(named.value, str):
        with op.around.findings.collect():
            return declare_slot(named.passage, op.names, op.around.register, op.around.terms)
    return None


def _check_regions(op: _Reading, regions: Items[Region], cases: Cases | None) -> None:
    """Reports regions that leave their buffers in some of the cases, which may not be known, and owners of others."""
    for region in regions:
        with op.around.findings.collect():
            if cases is not None:
                is_global = region.buffer.traits.is_array
                hint = "clip at the edge with 'edge: clip'" if is_global and op.form.edge else ""
                check_limit(region, op.clips)
                check_region_range(region, cases, op.clips and is_global, hint)
            _check_owner(region, op.around.scope, op.key.text, op.around)


def _check_edge(op: _Reading, operands: _Operands, regions: Items[Region]) -> None:
    """Reports TG212 where nothing has an edge to clip at."""
    are_local = operands.are_read and not op.form.index and not any(r.buffer.traits.is_array for r in regions)
    if op.clips and operands.regions and are_local and op.edge is not None and op.fields is not None:
        message = "'edge: clip' clips at the edge of a global array, but none is used here"
        op.around.findings.report("TG212", message, op.edge.mark, "remove it")


def _check_types(op: _Reading, regions: Dict[str, Region]) -> None:
    """Raises what the op finds wrong with its fields, and with the types of its operands."""
    raise_flaw(op.form.check_fields(op.fields), op.mark_at)
    cause = " ".join(sorted({r.buffer.dtype for r in regions.values()}))  # of one buffer, at each op that uses it
    raise_flaw(op.form.check_dtypes(op.fields, regions), op.mark_at, cause if " " in cause else "")


def _check_shapes(op: _Reading, regions: Dict[str, Region], expression: Expression | None) -> None:
    """Raises what is wrong with the shapes of operands, and with places that results have in common."""
    if op.form.check is None:
        check_shapes(op.form, regions, op.key.mark)
        check_apart(op.form, regions, op.key.mark)
    else:
        raise_flaw(op.form.check(op.fields, regions, expression), op.mark_at)
    check_results(op.form, regions, op.node, op.key.mark)


def _each_region(regions: Dict[str, Region], expression: Expression | None) -> list[Region]:
    operands = expression.operands.values() if expression else ()
    return [*regions.values(), *(r for r in operands if all(r is not other for other in regions.values()))]


def _read_expression(op: _Reading, regions: Dict[str, Region]) -> Expression | None:
    """What an op computes, if anything: every name is an operand, a param or an integer of the place."""
    node, form, names, around = op.node, op.form, op.names, op.around
    text = node.get(form.expression) if form.expression else None
    if form.named and form.named not in node and is_misspelt(form.named, node, field_names(form.model)):
        return None
    is_text = (
        isinstance(text, Scalar) and isinstance(text.value, (str, int, float)) and not isinstance(text.value, bool)
    )
    if not is_text and not form.index:
        return None  # reported with the fields
    mark = op.key.mark if text is None else text.mark
    named = _read_named(node.get(form.named) if form.named else None, names, around)
    if named is None:
        return None

    def operand(name: str) -> Region | None:
        if name in named:
            return named[name]
        if (written := find_result(name, regions, mark)) is not None:
            return written
        if name not in around.buffers.found and name not in around.buffers.broken:
            return None
        passage = Passage(name, lambda start, end: mark)
        return _parse_region(passage, names, around)

    params = {p.name: p for p in around.buffers.params.runtime}
    names = replace(names, beside=(*named, *around.buffers.found, *params)).advise(THREAD_AXES, lambda axis: _PLACE)
    most = (1 << 30,) * MAX_RANK
    known, results = Known(names, operand, params), names_of_results(form, regions)
    if form.index:
        return _read_indexed(op, regions, known)
    assert isinstance(text, Scalar)
    first = parse_formula(text.passage, known, most, results)
    extents = form.extents(op.fields, regions, tuple(first.operands.values()))
    return parse_formula(text.passage, known, extents, results)


def _read_indexed(op: _Reading, regions: Dict[str, Region], known: Known) -> Expression | None:
    """Each element that is written at a place, and each place, as trees over the same operands; a region is an operand
    that no name has.

    Raises TG212 where elements are given twice, or not at all.
    """
    form, given = op.form, [name for name in (op.form.source, op.form.expression) if name in op.node]
    if form.expression and len(given) != 1:
        message = f"{form.name} takes one of '{form.source}' and '{form.expression}'"
        raise Flawed("TG212", message, op.key.mark, f"write '{form.source}: x' or '{form.expression}: 1'")
    texts = [(name, op.node.get(name)) for name in (*given, form.index)]
    extents: tuple[int, ...] = (1 << 30,) * MAX_RANK
    for _ in range(2):  # the operands say which shape index(d) counts in
        collected, trees = Collected(), list[Formula]()
        for name, text in texts:
            if not isinstance(text, Scalar) or isinstance(text.value, bool):
                return None  # reported with the fields
            if name == form.source or (name == form.index and _names_region(text.text, op.around)):
                region = _parse_region(text.passage, op.names, op.around)
                collected.operands[f".{name}"] = region
                trees.append(Element(list(collected.operands).index(f".{name}"), region.buffer.dtype))
            else:
                trees += parse_formula(text.passage, known, extents, (), collected).trees
        extents = form.extents(op.fields, regions, tuple(collected.operands.values()))
    return Expression(tuple(trees), tuple(collected.wholes), dict(collected.operands))


def _names_region(text: str, around: Surroundings) -> bool:
    """Is a text a region, and no expression of several?"""
    found = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(\[[^\]]*\])?\s*", text)
    return found is not None and (found[1] in around.buffers.found or found[1] in around.buffers.broken)


_PLACE = "index(d) is the place along dimension d of what is written"


def _read_named(node: Node | None, names: Names, around: Surroundings) -> dict[str, Region] | None:
    """The regions that an op gives names to; None where one is wrong."""
    if node is None:
        return {}
    if not isinstance(node, Mapping):
        return None  # reported with the fields
    found: dict[str, Region] = {}
    for key, value in node.entries:
        with around.findings.collect():
            check_name(key.passage, "operand")
            if key.text in around.buffers.found:
                raise Flawed("TG108", f"'{key.text}' already names a buffer", key.mark, "give the region another name")
            if key.text in names.values:
                raise Flawed(
                    "TG108", f"'{key.text}' already names an integer", key.mark, "give the region another name"
                )
            if isinstance(value, Scalar) and isinstance(value.value, str):
                found[key.text] = _parse_region(value.passage, names, around)
    return found if len(found) == len(node.entries) else None


def _parse_region(passage: Passage, names: Names, around: Surroundings, may_be_open: bool = False) -> Region:
    """A region that an op names: the first says whose threads a ``tiled_mma`` numbers."""
    buffers = around.buffers
    region = parse_region(passage, buffers.found, frozenset(buffers.broken), names, may_be_open)
    buffer = region.buffer
    if not buffer.traits.is_held or buffer.is_auto or buffer.root in buffers.scopes:
        return region
    buffers.scopes[buffer.root] = around.scope, region.mark
    if not buffers.found[buffer.root].layout_text.lstrip().startswith(tiled_mma.__name__):
        return region
    for view in [b for b in buffers.found.values() if b.root == buffer.root and isinstance(b.layout, TileLayout)]:
        buffers.found[view.name] = replace(view, layout=number_threads(view.layout, around.scope))
    return replace(region, buffer=buffers.found[buffer.name])


def _check_owner(region: Region, scope: str, op: str, around: Surroundings) -> None:
    """A register tensor exists once per instance of one scope, and the ops on it have that scope; raises TG211."""
    if not region.buffer.traits.is_held:
        return
    buffers = around.buffers
    if around.role:
        _check_role(region, around)
    if region.buffer.is_auto:
        first, mark = buffers.scopes.setdefault(region.buffer.root, (scope, region.mark))
        if first != scope:
            at = f" ({mark.spot})" if mark else ""
            message = f"the registers '{region.buffer.name}' exist once per {first}, the scope of their first op{at}"
            raise Flawed("TG211", f"{message}, but this {op} has scope {scope}", region.mark, f"write 'scope: {first}'")
        return
    owner = owner_scope(region.buffer.layout)
    owner = "role" if owner == "cta" and around.role else owner
    if owner != scope and not _is_same(owner, scope, around.threads):
        message = f"the registers '{region.buffer.name}' exist once per {owner}, but this {op} has scope {scope}"
        raise Flawed("TG211", message, region.mark, f"write 'scope: {owner}'")


def _is_same(owner: str, scope: str, threads: int) -> bool:
    """Is the one warp, or warpgroup, that a role or a CTA of so many threads has, all of it?"""
    return SCOPES[owner].threads == threads == SCOPES[scope].size(threads)


def _check_role(region: Region, around: Surroundings) -> None:
    """Registers belong to the role that names them first, and to threads that it has; raises TG211 and TG203."""
    buffer = region.buffer
    first, mark = around.buffers.roles.setdefault(buffer.root, (around.role, region.mark))
    if first != around.role:
        at = f" ({mark.spot})" if mark else ""
        message = f"the registers '{buffer.name}' belong to role '{first}'{at}, and this is role '{around.role}'"
        raise Flawed("TG211", message, region.mark, "roles give one another data in shared memory")
    if not buffer.is_auto and (last := last_thread(buffer.layout)) >= around.threads:
        message = f"'{buffer.name}' has elements of thread {last}, and role '{around.role}' has {around.threads}"
        raise Flawed("TG203", message, region.mark, "a role's threads are numbered from 0")


def list_operands(form: OpForm, node: Mapping) -> Iterator[tuple[str, Node]]:
    """The fields of a call that are regions, with what the text has there; one for each of several results."""
    for name in (name for name in form.operands if name in node):
        value = node[name]
        if name in form.several and isinstance(value, Mapping):
            yield from ((result_field(name, key.text), one) for key, one in value.entries)
        else:
            yield name, value
