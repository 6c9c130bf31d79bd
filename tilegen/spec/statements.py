"""Statements: ops, loops and syncs, with the names that hold where they stand."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from tilegen.errors import Mark
from tilegen.index import Formula, Index, Var, bound, least, multiple
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, OP_SCOPES, SCOPES, THREAD_AXES, thread_variables
from tilegen.spec.buffers import Buffers
from tilegen.spec.data import (
    Buffer,
    Call,
    Expression,
    Loop,
    Meeting,
    Nest,
    Region,
    Statement,
    WholeCall,
    operand_field,
)
from tilegen.spec.expressions import read_constant, read_number
from tilegen.spec.findings import Findings, Flaw, Passage, shorten, suggest
from tilegen.spec.form import Form, OpForm, WholeForm
from tilegen.spec.formulas import parse_formula
from tilegen.spec.models import OPS, LoopFields, SyncFields, check_fields, field_names, refuse_later, refuse_later_op
from tilegen.spec.names import Names, Register, check_name, names_in_scope
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, describe_node
from tilegen.spec.placing import owner_scope
from tilegen.spec.ranges import Cases, Range, check_region_range
from tilegen.spec.regions import parse_region
from tilegen.spec.waits import declare_slot, read_commit, read_wait, read_when, span
from tilegen.spec.whole import read_whole

MAX_RANK = 8  # dimensions of a buffer, as the model has it


@dataclass(frozen=True)
class Surroundings:
    """All that a statement may refer to."""

    forms: Dict[str, Form]
    buffers: Buffers
    names: Names  # params, CTA axes and the loops around
    cases: Cases
    register: Register
    findings: Findings
    cluster_ctas: int = 1


def read_statements(node: Node, around: Surroundings) -> tuple[Statement, ...]:
    """The statements of a list, without those that were reported."""
    if not isinstance(node, Sequence):
        if not (isinstance(node, Scalar) and node.value is None):
            message = f"a list of statements is due here, not {describe_node(node)}"
            around.findings.report("TG103", message, node.mark, "for example '- sync: cta'")
        return ()
    statements: list[Statement] = []
    for item in node.items:
        with around.findings.collect():
            statement = _read_statement(item, around)
            if statement is not None:
                statements.append(statement)
    return tuple(statements)


def _read_statement(node: Node, around: Surroundings) -> Statement | None:
    if isinstance(node, Scalar) and node.text in OPS:
        raise refuse_later(f"the op '{node.text}'", node)
    if isinstance(node, Scalar) and node.text == "commit":
        return read_commit(node, around.names, around.findings)
    if not isinstance(node, Mapping) or not node.entries:
        raise Flaw(
            "TG114", f"a statement is 'op: {{...}}', not {describe_node(node)}", node.mark, "for example '- sync: cta'"
        )
    op = next((key for key, _ in node.entries if key.text in around.forms or key.text in OPS), None)
    if op is None and "for" in node:
        return _read_loop(node, around)
    if op is None and "sync" in node:
        return _read_meeting(node, around)
    if op is None and ("commit" in node or "wait" in node):
        names = names_in_scope(around.names, "warp", around.buffers.threads or 1024)
        if "commit" in node:
            return read_commit(node, names, around.findings)
        return read_wait(node, around.names, names, around.findings, around.register)
    key = op or node.entries[0][0]
    refuse_later_op(key)
    if op is None:
        known = [*around.forms, "sync", "for", "commit", "wait"]
        raise Flaw("TG110", f"unknown op '{shorten(key.text)}'", key.mark, suggest(key.text, known))
    others = [other for other, _ in node.entries if other is not op]
    if others:
        is_field = others[0].text in field_names(around.forms[op.text].model)
        hint = f"move it into the braces of {op.text}" if is_field else "start a new list item with '- '"
        message = f"'{shorten(others[0].text)}' stands beside the op '{op.text}'"
        raise Flaw("TG114", message, others[0].mark, hint)
    form = around.forms[op.text]
    if isinstance(form, WholeForm):
        return read_whole(op, node[op.text], form, around.buffers, around.findings)
    return _read_call(op, node[op.text], form, around)


# ---------------------------------------------------------------- ops
def _read_call(key: Scalar, node: Node, form: OpForm, around: Surroundings) -> Call | None:
    fields = check_fields(node, form.model, key.text, around.findings, key.mark)
    if not isinstance(node, Mapping):
        return None
    scope = _read_scope(node)
    if scope is None:
        return None
    threads = around.buffers.threads
    names = names_in_scope(around.names, scope, threads or 1024)
    with around.findings.collect():
        _check_unit(scope, threads, node.key("scope").mark if "scope" in node else key.mark, key.text)
    condition = read_when(node, names, around.findings)
    cases = instance_cases(around.cases, scope, threads or 1024, condition)
    regions: dict[str, Region] = {}
    for name in form.operands:
        with around.findings.collect():
            region = _read_operand(name, node, names, around)
            if region is not None:
                regions[name] = region
    barrier = None
    if form.barrier and isinstance(named := node.get(form.barrier), Scalar) and isinstance(named.value, str):
        with around.findings.collect():
            barrier = declare_slot(named.passage, names, around.register)
    edge = node.get(form.edge) if form.edge else None
    clips = isinstance(edge, Scalar) and edge.text == "clip"
    expression = None
    if form.expression and form.expression in node and len(regions) == sum(name in node for name in form.operands):
        with around.findings.collect():
            expression = _read_expression(node, form, fields, regions, names, around)
    for region in _each_region(regions, expression):
        with around.findings.collect():
            if threads:
                is_global = region.buffer.scope == "global"
                hint = "clip at the edge with 'edge: clip'" if is_global and form.edge else ""
                check_region_range(region, cases, clips and is_global, hint)
            _check_owner(region, scope, key.text, around.buffers)
    are_all_read = len(regions) >= sum(name in node for name in form.operands)
    are_local = are_all_read and all(r.buffer.scope != "global" for r in _each_region(regions, expression))
    if clips and regions and are_local and edge is not None:
        message = "'edge: clip' clips at the edge of a global array, but none is used here"
        around.findings.report("TG212", message, edge.mark, "remove it")
    needed = [name for name in form.operands if name not in form.optional]
    if fields is None or any(name not in regions for name in needed):
        return None
    if form.expression and form.expression in node and expression is None:
        return None
    if form.check is None:
        _check_shapes(form, regions, key.mark)
    elif (wrong := form.check(fields, regions, expression)) is not None:
        message, place, hint = wrong
        raise Flaw("TG212", message, node[place].mark if place in node else key.mark, hint)
    if expression is not None:
        regions |= {operand_field(name): region for name, region in expression.operands.items()}
    return Call(form, scope, fields, regions, condition, key.mark, barrier, expression)


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
    dst = regions.get("dst")

    def operand(name: str) -> Region | None:
        if name in named:
            return named[name]
        if dst is not None and name == dst.buffer.name:
            return dst
        if name not in around.buffers.found and name not in around.buffers.broken:
            return None
        passage = Passage(name, lambda start, end: text.mark)
        return parse_region(passage, around.buffers.found, frozenset(around.buffers.broken), names)

    params = {p.name: p for p in around.buffers.params.runtime}
    most = (1 << 30,) * MAX_RANK
    first = parse_formula(text.passage, names, operand, params, most)
    extents = form.extents(fields, regions, tuple(first.operands.values()))
    return parse_formula(text.passage, names, operand, params, extents)


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
                raise Flaw("TG108", f"'{key.text}' already names a buffer", key.mark, "give the region another name")
            if key.text in names.values:
                raise Flaw("TG108", f"'{key.text}' already names an integer", key.mark, "give the region another name")
            if isinstance(value, Scalar) and isinstance(value.value, str):
                broken = frozenset(around.buffers.broken)
                found[key.text] = parse_region(value.passage, around.buffers.found, broken, names)
    return found if len(found) == len(node.entries) else None


def _read_scope(node: Mapping) -> str | None:
    scope = node.get("scope")
    if scope is None:
        return "cta"
    return scope.text if isinstance(scope, Scalar) and scope.text in OP_SCOPES else None


def _check_unit(scope: str, threads: int, mark: Mark, op: str) -> None:
    unit = SCOPES[scope].threads
    if unit and threads % unit:
        message = f"{op} of scope {scope} needs 'threads' to be a multiple of {unit}, not {threads}"
        raise Flaw("TG106", message, mark)


def _read_operand(name: str, node: Mapping, names: Names, around: Surroundings) -> Region | None:
    operand = node.get(name)
    if not isinstance(operand, Scalar) or not isinstance(operand.value, str):
        return None  # reported with the fields
    return parse_region(operand.passage, around.buffers.found, frozenset(around.buffers.broken), names)


def _check_owner(region: Region, scope: str, op: str, buffers: Buffers) -> None:
    """A register tensor exists once per instance of one scope, and the ops on it have that scope; raises TG211."""
    if region.buffer.scope != "register":
        return
    if region.buffer.is_auto:
        first, mark = buffers.scopes.setdefault(region.buffer.root, (scope, region.mark))
        if first != scope:
            at = f" ({mark.spot})" if mark else ""
            message = f"the registers '{region.buffer.name}' exist once per {first}, the scope of their first op{at}"
            raise Flaw("TG211", f"{message}, but this {op} has scope {scope}", region.mark, f"write 'scope: {first}'")
        return
    owner = owner_scope(region.buffer.layout)
    if owner != scope:
        message = f"the registers '{region.buffer.name}' exist once per {owner}, but this {op} has scope {scope}"
        raise Flaw("TG211", message, region.mark, f"write 'scope: {owner}'")


def _check_shapes(form: OpForm, regions: Dict[str, Region], mark: Mark) -> None:
    """All operands have one shape, extents of 1 aside; raises TG212."""
    named = list(regions.items())
    (first, reference), rest = named[0], named[1:]
    for name, region in rest:
        if drop_ones(region.shape) != drop_ones(reference.shape):
            message = (
                f"{form.name} needs equal shapes: {first} has {list(reference.shape)}, {name} has {list(region.shape)}"
            )
            raise Flaw("TG212", message, region.mark or mark, "extents of 1 do not count")


def drop_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its extents of 1.

    >>> drop_ones((2, 1, 32))
    (2, 32)
    """
    return tuple(n for n in shape if n != 1)


def instance_cases(cases: Cases, scope: str, threads: int, condition: Index) -> Cases:
    """The cases of one statement: those around it, each instance of its scope, where its condition holds."""
    axes = thread_variables(threads)
    if not SCOPES[scope].axes:
        return replace(cases, condition=condition)
    free = SCOPES[scope].axes[0]
    derived = dict(cases.derived)
    if scope == "thread":
        derived |= {name: axes[name] for name in THREAD_AXES if name != "tx"}
    elif scope == "warp":
        warp = Var("warpid", bound(axes["warpid"]))
        derived |= {"wgid": warp // 4, "wid_in_wg": warp % 4}
    walks = (*cases.walks, Range(free, 0, bound(axes[free])))
    return replace(cases, walks=walks, derived=tuple(derived.items()), condition=condition)


# ---------------------------------------------------------------- syncs
def _read_meeting(node: Mapping, around: Surroundings) -> Meeting | None:
    fields = check_fields(node, SyncFields, "this sync", around.findings)
    scope = node["sync"]
    if not isinstance(scope, Scalar) or scope.text not in (*OP_SCOPES[1:], "cluster", "async"):
        return None
    if around.buffers.threads and scope.text not in ("warp", "async"):
        _check_unit(scope.text, around.buffers.threads, scope.mark, "a sync")
    if scope.text == "cluster" and around.cluster_ctas == 1:
        raise Flaw(
            "TG106", "'sync: cluster' needs a cluster", scope.mark, "add 'cluster: {cbx: 2}', or write 'sync: cta'"
        )
    inner = "warp" if scope.text == "async" else scope.text
    condition = read_when(node, names_in_scope(around.names, inner, around.buffers.threads or 1024), around.findings)
    return Meeting(scope.text, condition, span(node.key("sync").mark, scope.mark)) if fields else None


# ---------------------------------------------------------------- loops
def _read_loop(node: Mapping, around: Surroundings) -> Loop | None:
    model = check_fields(node, LoopFields, "this loop", around.findings, node.key("for").mark)
    variables = node["for"]
    if not isinstance(variables, Mapping):
        return None
    if not variables.entries:
        raise Flaw("TG114", "a loop needs a variable", variables.mark, "for example 'for: {k: 8}'")
    made: list[Loop] = []
    inner = around
    claimed: list[str] = []
    for key, bounds in variables.entries:
        before = len(around.findings.found)
        with around.findings.collect():
            name = around.register.claim(key.passage, "loop variable")
            claimed.append(name)
            loop = _read_range(name, key, bounds, inner)
            made.append(loop)
            walk = Range(name, loop.start, loop.stop, loop.step)
            inner = replace(inner, names=inner.names.with_values({name: loop.var}), cases=inner.cases.walk(walk))
        if len(around.findings.found) > before or not made or made[-1].var.name != key.text:
            inner = replace(inner, names=inner.names.with_broken([key.text]))
    do = node.get("do")
    body = read_statements(do, inner) if isinstance(do, Sequence) else ()
    for name in claimed:
        around.register.release(name)
    if model is None or len(made) < len(variables.entries):
        return None
    return _nest(made, body, model.unroll, node.mark)


def _nest(loops: list[Loop], body: tuple[Statement, ...], unroll: bool, mark: Mark) -> Loop:
    nested = replace(loops[-1], body=body, unroll=unroll, mark=mark)
    for loop in reversed(loops[:-1]):
        nested = replace(loop, body=(nested,), unroll=unroll, mark=mark)
    return nested


def _read_range(name: str, key: Scalar, node: Node, around: Surroundings) -> Loop:
    """``k: stop`` or ``k: [start, stop, step]``."""
    reason = "'{name}' differs between threads, and all of them take part in a loop"
    names = around.names.forbid(THREAD_AXES, reason)
    start: Index = 0
    step = 1
    if isinstance(node, Sequence):
        if not 2 <= len(node.items) <= 3:
            raise Flaw("TG114", f"a loop is 'count' or [start, stop, step], not {len(node.items)} numbers", node.mark)
        start = read_number(node.items[0], names, f"the start of '{name}'")
        stop = read_number(node.items[1], names, f"the end of '{name}'")
        if len(node.items) == 3:
            step = read_constant(node.items[2], names, f"the step of '{name}'")
            if step < 1:
                raise Flaw("TG106", f"the step of '{name}' must be at least 1, not {step}", node.items[2].mark)
    else:
        stop = read_number(node, names, f"the count of '{name}'")
    return Loop(_make_variable(name, start, stop, step, node.mark), start, stop, step)


def _make_variable(name: str, start: Index, stop: Index, step: int, mark: Mark) -> Var:
    if bound(stop) - 1 <= least(start):
        raise Flaw(
            "TG106", f"the loop over '{name}' never runs: it goes from {shorten(start)} to {shorten(stop)}", mark
        )
    last = bound(stop) - 2
    if not isinstance(start, (Var, Formula)):
        last = start + (last - start) // step * step
    divisor = gcd(multiple(start), step)
    return Var(name, last + 1, max(1, divisor), least(start))


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


def cta_names(values: Dict[str, Index], names: Names) -> Names:
    """What all statements may use: params and the axes of the CTA."""
    return names.with_values({name: values[name] for name in (*CTA_AXES, *CLUSTER_AXES)})
