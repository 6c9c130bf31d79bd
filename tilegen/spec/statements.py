"""Statements: ops, loops and syncs, with the names that hold where they stand."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import replace
from typing import Any

from tilegen.errors import Mark
from tilegen.index import Index
from tilegen.layouts import TileLayout, tiled_mma
from tilegen.layouts.constructors.tiled_mma import number_threads
from tilegen.near_words import suggest
from tilegen.scopes import CLUSTER_AXES, COUNT_AXES, CTA_AXES, OP_SCOPES, THREAD_AXES
from tilegen.spec.computed import parse_formula
from tilegen.spec.data import (
    Buffer,
    Call,
    Expression,
    Nest,
    Region,
    Statement,
    SyncStatement,
    WholeCall,
)
from tilegen.spec.findings import Flawed, Passage, raise_flaw, shorten
from tilegen.spec.form import OpForm, WholeForm, list_fields, operand_field
from tilegen.spec.later import refuse_later
from tilegen.spec.models import MAX_RANK, SyncFields, check_fields, field_names, is_misspelt
from tilegen.spec.names import Names, check_name, names_in_scope
from tilegen.spec.nests import foresee_lets, read_let, read_loop, read_role_block, read_when_statement
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, describe_node, find_node, list_words
from tilegen.spec.pads import check_pad
from tilegen.spec.placing import last_thread, owner_scope
from tilegen.spec.ranges import check_region_range
from tilegen.spec.regions import parse_region
from tilegen.spec.results import check_names, check_results, find_result, list_operands, names_of_results
from tilegen.spec.shapes import check_apart, check_shapes
from tilegen.spec.slots import declare_slot
from tilegen.spec.surroundings import Surroundings, instance_cases
from tilegen.spec.tensor_memory import refuse_tensor_op
from tilegen.spec.waits import read_arrive, read_commit, read_follow, read_wait, read_when, span
from tilegen.spec.whole import read_whole

STATEMENTS = ("sync", "for", "let", "when", "role", "commit", "wait", "arrive")  # beside ops


def read_statements(node: Node, around: Surroundings) -> tuple[Statement, ...]:
    """The statements of a list, without those that were reported."""
    if not isinstance(node, Sequence):
        if not (isinstance(node, Scalar) and node.value is None):
            message = f"a list of statements is due here, not {describe_node(node)}"
            around.findings.report("TG103", message, node.mark, "for example '- sync: cta'")
        return ()
    statements: list[Statement] = []
    claimed: list[str] = []
    around = replace(around, names=foresee_lets(node.items, around.names))
    for item in node.items:
        with around.findings.collect():
            if isinstance(item, Mapping) and "let" in item and not any(k.text in around.forms for k, _ in item.entries):
                naming, around = read_let(item, around, claimed)
                statements += [naming] if naming else []
                continue
            statement = _read_statement(item, around)
            if statement is not None:
                statements.append(statement)
    for name in claimed:
        around.register.release(name)
    return tuple(statements)


def _read_statement(node: Node, around: Surroundings) -> Statement | None:
    if isinstance(node, Scalar) and node.text == "commit":
        _refuse_outside("a commit", node, around)
        around.check_agree("warp", "a commit", node.mark)
        return read_commit(node, around.names, around.findings)
    if not isinstance(node, Mapping) or not node.entries:
        raise Flawed(
            "TG114", f"a statement is 'op: {{...}}', not {describe_node(node)}", node.mark, "for example '- sync: cta'"
        )
    op = next((key for key, _ in node.entries if key.text in around.forms), None)
    if op is None and "for" in node:
        return read_loop(node, around, read_statements)
    if op is None and "role" in node:
        return read_role_block(node, around, read_statements)
    if op is None and "sync" in node:
        return _read_sync(node, around)
    if op is None and "arrive" in node:
        _refuse_outside("an arrival", node, around)
        return read_arrive(node, around)
    if op is None and "wait" in node and isinstance(node["wait"], Scalar) and node["wait"].text == "previous":
        return read_follow(node, around)
    if op is None and ("commit" in node or "wait" in node):
        _refuse_outside("a commit or a wait", node, around)
        around.check_agree("warp", "a commit or a wait", node.entries[0][0].mark)
        names = names_in_scope(around.names, "warp", around.threads or 1024)
        if "commit" in node:
            return read_commit(node, names, around.findings)
        return read_wait(node, names, around)
    if op is None and "when" in node and ("do" in node or len(node.entries) == 1):
        return read_when_statement(node, around, read_statements)
    key = op or node.entries[0][0]
    if op is None:
        known = [*around.forms, *STATEMENTS]
        around.register.unread.update(list_words(node))
        raise Flawed("TG110", f"unknown op '{shorten(key.text)}'", key.mark, suggest(key.text, known))
    others = [other for other, _ in node.entries if other is not op]
    if others:
        is_field = others[0].text in field_names(around.forms[op.text].model)
        hint = f"move it into the braces of {op.text}" if is_field else "start a new list item with '- '"
        message = f"'{shorten(others[0].text)}' stands beside the op '{op.text}'"
        raise Flawed("TG114", message, others[0].mark, hint)
    form = around.forms[op.text]
    if isinstance(form, WholeForm):
        return read_whole(op, node[op.text], form, around.buffers, around.findings)
    _refuse_outside(f"the op '{op.text}'", node, around)
    return _read_call(op, node[op.text], form, around)


def _refuse_outside(what: str, node: Node, around: Surroundings) -> None:
    """Raises TG190 for what all threads of all roles would do together."""
    if around.is_outside:
        raise refuse_later(f"{what} beside role blocks", node, "put it into a role; names and syncs may stand here")


# ---------------------------------------------------------------- ops
def _read_call(key: Scalar, node: Node, form: OpForm, around: Surroundings) -> Call | None:
    start = len(around.findings.found)
    fields = check_fields(node, form.model, key.text, around.findings, key.mark)
    if fields is None:
        around.register.unread.update(list_words(node))
    if not isinstance(node, Mapping) or ("scope" not in node and is_misspelt("scope", node, field_names(form.model))):
        return None
    word = node.get("scope")
    if word is not None and not (isinstance(word, Scalar) and word.text in (*OP_SCOPES, "role")):
        return None  # reported with the fields
    scope, threads = around.check_scope(word.text if isinstance(word, Scalar) else "", word, key.mark), around.threads
    around = replace(around, scope=scope)
    names = names_in_scope(around.names, scope, threads or 1024)
    with around.findings.collect():
        around.check_unit(scope, node.key("scope").mark if "scope" in node else key.mark, key.text)
    with around.findings.collect():
        around.check_agree(scope, key.text, key.mark)
    condition = read_when(node, names, around.findings, has_scope=True)
    conditions = {name: read_when(node, names, around.findings, name) for name in form.conditions}
    cases = instance_cases(around.cases, scope, threads or 1024, condition)
    is_sure = len(around.findings.found) == start  # else a region may pass its array for want of what was not read
    regions: dict[str, Region] = {}
    taken = {"a buffer": around.buffers.found, "a number": names.values}
    are_named = check_names(form, node, taken, around.findings)
    operands = dict(list_operands(form, node))
    for name, operand in operands.items():
        with around.findings.collect():
            if isinstance(operand, Scalar) and isinstance(operand.value, str):  # all else is reported with the fields
                regions[name] = _parse_region(operand.passage, names, around)
    barrier = None
    if form.barrier and isinstance(named := node.get(form.barrier), Scalar) and isinstance(named.value, str):
        with around.findings.collect():
            barrier = declare_slot(named.passage, names, around.register, around.terms)
    with around.findings.collect():
        around.check_peers(form.peers, node)
    edge = node.get(form.edge) if form.edge else None
    clips = isinstance(edge, Scalar) and edge.text == "clip"
    needed = [name for name in form.operands if name not in form.optional and not list_fields(operands, (name,))]
    are_all_read = len(regions) == len(operands)
    are_there = are_all_read and are_named and not needed
    expression = None
    has_names = not form.named or form.named in node or not is_misspelt(form.named, node, field_names(form.model))
    if form.expression and form.expression in node and are_there and has_names:
        with around.findings.collect():
            expression = _read_expression(node, form, fields, regions, names, around)
    refuse_tensor_op(key.text, _each_region(regions, expression))
    before = len(around.findings.found)
    for region in _each_region(regions, expression):
        with around.findings.collect():
            if threads and is_sure:
                is_global = region.buffer.scope == "global"
                hint = "clip at the edge with 'edge: clip'" if is_global and form.edge else ""
                check_region_range(region, cases, clips and is_global, hint)
            _check_owner(region, scope, key.text, around)
    is_inside = len(around.findings.found) == before
    are_local = are_all_read and all(r.buffer.scope != "global" for r in _each_region(regions, expression))
    if clips and regions and are_local and edge is not None and fields is not None:
        message = "'edge: clip' clips at the edge of a global array, but none is used here"
        around.findings.report("TG212", message, edge.mark, "remove it")
    if fields is None or not are_there:
        return None
    if form.expression and form.expression in node and expression is None:
        return None

    def mark_at(place: str) -> Mark:
        found = find_node(node, place)
        return found.mark if found is not None else key.mark

    raise_flaw(form.check_fields(fields), mark_at)
    cause = " ".join(sorted({r.buffer.dtype for r in regions.values()}))  # of one buffer, at each op that uses it
    raise_flaw(form.check_dtypes(fields, regions), mark_at, cause if " " in cause else "")
    if not is_inside:  # what is said of a region may be why shapes differ
        return None
    if form.check is None:
        check_shapes(form, regions, key.mark)
        check_apart(form, regions, key.mark)
    else:
        raise_flaw(form.check(fields, regions, expression), mark_at)
    check_results(form, regions, node, key.mark)
    if expression is not None:
        regions |= {operand_field(name): region for name, region in expression.operands.items()}
    nodes = {name.text: value for name, value in node.entries}
    call = Call(form, scope, fields, regions, condition, key.mark, barrier, expression, conditions, around.role, nodes)
    check_pad(call)
    return call


def _each_region(regions: Dict[str, Region], expression: Expression | None) -> list[Region]:
    operands = expression.operands.values() if expression else ()
    return [*regions.values(), *(r for r in operands if all(r is not other for other in regions.values()))]


def _read_expression(
    node: Mapping, form: OpForm, fields: Any, regions: Dict[str, Region], names: Names, around: Surroundings
) -> Expression | None:
    """What an op computes: every name is an operand, a param or an integer of the place."""
    text = node[form.expression]
    if not isinstance(text, Scalar) or not isinstance(text.value, (str, int, float)) or isinstance(text.value, bool):
        return None  # reported with the fields
    named = _read_named(node.get(form.named) if form.named else None, names, around)
    if named is None:
        return None

    def operand(name: str) -> Region | None:
        if name in named:
            return named[name]
        if (written := find_result(name, regions, text.mark)) is not None:
            return written
        if name not in around.buffers.found and name not in around.buffers.broken:
            return None
        passage = Passage(name, lambda start, end: text.mark)
        return _parse_region(passage, names, around)

    params = {p.name: p for p in around.buffers.params.runtime}
    names = replace(names, beside=(*named, *around.buffers.found, *params)).advise(THREAD_AXES, lambda axis: _PLACE)
    most = (1 << 30,) * MAX_RANK
    results = names_of_results(form, regions)
    first = parse_formula(text.passage, names, operand, params, most, results=results)
    extents = form.extents(fields, regions, tuple(first.operands.values()))
    return parse_formula(text.passage, names, operand, params, extents, results=results)


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


def _parse_region(passage: Passage, names: Names, around: Surroundings) -> Region:
    """A region that an op names: the first says whose threads a ``tiled_mma`` numbers."""
    buffers = around.buffers
    region = parse_region(passage, buffers.found, frozenset(buffers.broken), names)
    buffer = region.buffer
    if buffer.scope != "register" or buffer.is_auto or buffer.root in buffers.scopes:
        return region
    buffers.scopes[buffer.root] = around.scope, region.mark
    if not buffers.found[buffer.root].layout_text.lstrip().startswith(tiled_mma.__name__):
        return region
    for view in [b for b in buffers.found.values() if b.root == buffer.root and isinstance(b.layout, TileLayout)]:
        buffers.found[view.name] = replace(view, layout=number_threads(view.layout, around.scope))
    return replace(region, buffer=buffers.found[buffer.name])


def _check_owner(region: Region, scope: str, op: str, around: Surroundings) -> None:
    """A register tensor exists once per instance of one scope, and the ops on it have that scope; raises TG211."""
    if region.buffer.scope != "register":
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
    if owner != scope:
        message = f"the registers '{region.buffer.name}' exist once per {owner}, but this {op} has scope {scope}"
        raise Flawed("TG211", message, region.mark, f"write 'scope: {owner}'")


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


# ---------------------------------------------------------------- syncs
def _read_sync(node: Mapping, around: Surroundings) -> SyncStatement | None:
    fields = check_fields(node, SyncFields, "this sync", around.findings)
    scope = node["sync"]
    if isinstance(scope, Sequence) and fields:
        around.check_agree("role", "a sync", scope.mark)
        condition = read_when(node, names_in_scope(around.names, "role", around.threads or 1024), around.findings)
        return SyncStatement("roles", condition, span(node.key("sync").mark, scope.mark), _read_roles(scope, around))
    if not isinstance(scope, Scalar) or scope.text not in (*OP_SCOPES[1:], "role", "cluster", "async"):
        return None
    _check_place(scope, around)
    if around.threads and scope.text not in ("warp", "async"):
        around.check_unit(scope.text, scope.mark, "a sync")
    if scope.text == "cluster" and around.cluster == (1, 1, 1):
        raise Flawed(
            "TG106", "'sync: cluster' needs a cluster", scope.mark, "add 'cluster: {cbx: 2}', or write 'sync: cta'"
        )
    inner = "warp" if scope.text == "async" else scope.text
    around.check_agree(inner, f"sync: {scope.text}", scope.mark)
    condition = read_when(node, names_in_scope(around.names, inner, around.threads or 1024), around.findings)
    return SyncStatement(scope.text, condition, span(node.key("sync").mark, scope.mark)) if fields else None


def _read_roles(node: Sequence, around: Surroundings) -> tuple[str, ...]:
    """The roles that meet, in the spec's order. Raises TG119 where this place's is none of them, or the only one."""
    named = [item.text for item in node.items if isinstance(item, Scalar)]
    for item, name in zip(node.items, named, strict=False):
        if name not in around.roles:
            if name in around.broken_roles:
                raise Flawed()
            raise Flawed("TG105", f"unknown role '{shorten(name)}'", item.mark, suggest(name, around.roles))
    if len(named) < 2 or len(set(named)) < len(named):
        raise Flawed(
            "TG119", "a list of who meets has several roles, each once", node.mark, "write 'sync: role' for one"
        )
    if around.role not in named:
        where = f"in role '{around.role}'" if around.role else "outside of roles"
        raise Flawed("TG119", f"a sync of {' and '.join(named)} {where}", node.mark, "it stands in each of these roles")
    return tuple(name for name in around.roles if name in named)


def _check_place(scope: Scalar, around: Surroundings) -> None:
    """In a role its own threads meet, beside roles all; raises TG119 and TG190."""
    if scope.text in ("cta", "cluster") and around.role:
        message = f"'sync: {scope.text}' in role '{around.role}': other roles do not come here"
        raise Flawed("TG119", message, scope.mark, "write 'sync: role', or put it beside the role blocks")
    if scope.text == "role" and not around.role:
        raise Flawed("TG119", "'sync: role' outside of a role", scope.mark, "write 'sync: cta'")
    if scope.text not in ("cta", "cluster") and around.is_outside:
        raise refuse_later(f"'sync: {scope.text}' beside role blocks", scope, "put it into a role")


def written_buffers(statements: tuple[Statement, ...]) -> dict[str, Buffer]:
    """The buffers that any op writes, by name."""
    written: dict[str, Buffer] = {}
    for s in statements:
        if isinstance(s, Nest):
            written |= written_buffers(s.body)
        elif isinstance(s, Call):
            written |= {r.buffer.name: r.buffer for r in s.written}
        elif isinstance(s, WholeCall):
            written |= {s.arrays[name].name: s.arrays[name] for name in s.form.writes}
    return written


def cta_names(values: Dict[str, Index], grid: tuple[Index, Index, Index], names: Names) -> Names:
    """What all statements may use: params, the axes of the CTA, and how many CTAs there are."""
    counts = dict(zip(COUNT_AXES, grid, strict=True))
    return names.with_values({name: values[name] for name in (*CTA_AXES, *CLUSTER_AXES)} | counts)
