"""Statements that hold others, or name what others use: for, let, when, role."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as Dict
from dataclasses import replace
from math import gcd

from tilegen.errors import Flaw, Mark
from tilegen.index import Formula, Index, Var, add, bound, conjuncts, every, least, multiple
from tilegen.index.bounds import is_below
from tilegen.near_words import find_near, suggest
from tilegen.scopes import THREAD_AXES
from tilegen.spec.data import LetStatement, Loop, Region, RoleBlock, Statement, WhenStatement
from tilegen.spec.expressions import read_number
from tilegen.spec.findings import Flawed, shorten
from tilegen.spec.models import LetFields, LoopFields, RoleBlockFields, WhenFields, check_fields
from tilegen.spec.names import FORBIDDEN, Names, instance_variables
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence
from tilegen.spec.ranges import Cases, Range, check_dividends, check_region_range
from tilegen.spec.reads import Reads, order_offsets
from tilegen.spec.surroundings import Surroundings, instance_cases
from tilegen.spec.tables import Read
from tilegen.spec.waits import read_when

ReadBody = Callable[[Node, Surroundings], tuple[Statement, ...]]


# ---------------------------------------------------------------- loops
def read_loop(node: Mapping, around: Surroundings, read_body: ReadBody) -> Loop | None:
    """``for: {k: 8, j: [start, stop, step]}`` with ``do:``; several variables nest in order."""
    model = check_fields(node, LoopFields, "this loop", around.findings, node.key("for").mark)
    variables = node["for"]
    if not isinstance(variables, Mapping):
        return None
    if not variables.entries:
        raise Flawed("TG114", "a loop needs a variable", variables.mark, "for example 'for: {k: 8}'")
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
    body = read_body(do, replace(inner, is_top=False, is_nested=True)) if isinstance(do, Sequence) else ()
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
    step: Index = 1
    if isinstance(node, Sequence):
        if not 2 <= len(node.items) <= 3:
            raise Flawed("TG114", f"a loop is 'count' or [start, stop, step], not {len(node.items)} numbers", node.mark)
        start = read_number(node.items[0], names, f"the start of '{name}'", may_be_negative=True)
        stop = read_number(node.items[1], names, f"the end of '{name}'", may_be_negative=True)
        if len(node.items) == 3:
            step = read_number(node.items[2], names, f"the step of '{name}'", may_be_negative=True)
            if least(step) < 1:
                has = f"not {step}" if isinstance(step, int) else f"but '{shorten(step)}' may be {least(step)}"
                hint = "" if isinstance(step, int) else f"max({shorten(step)}, 1) is"
                raise Flawed("TG106", f"the step of '{name}' must be at least 1, {has}", node.items[2].mark, hint)
    else:
        stop = read_number(node, names, f"the count of '{name}'", may_be_negative=True)
    for x in (start, stop, step):
        check_dividends(x, around.cases, node.mark)
    return Loop(_make_variable(name, start, stop, step), start, stop, step)


def _make_variable(name: str, start: Index, stop: Index, step: Index) -> Var:
    """What is known of the variable inside of the loop, where there is a trip."""
    last = max(bound(stop) - 2, least(start))
    if isinstance(start, int) and isinstance(step, int):
        last = start + (last - start) // step * step
    divisor = gcd(multiple(start), multiple(step))
    return Var(name, last + 1, max(1, divisor), least(start))


# ---------------------------------------------------------------- names and conditions
def read_let(node: Mapping, around: Surroundings, claimed: list[str]) -> tuple[LetStatement | None, Surroundings]:
    """``let: {m: E}``, and the surroundings of what follows it."""
    fields = check_fields(node, LetFields, "this let", around.findings, node.key("let").mark)
    entries = node["let"]
    if not isinstance(entries, Mapping):
        return None, around
    if not entries.entries:
        raise Flawed("TG114", "a let needs a name", entries.mark, "for example 'let: {m: bx * 64}'")
    made: list[tuple[Var, Index | Read]] = []
    is_whole = fields is not None
    for key, written in entries.entries:
        before = len(around.findings.found)
        with around.findings.collect():
            name = around.register.claim(key.passage, "let")
            claimed.append(name)
            around = _name_value(name, written, around, made)
            claimed += [var.name for var, _ in made if var.name not in claimed]
        if len(around.findings.found) > before or not made or made[-1][0].name != key.text:
            around, is_whole = replace(around, names=around.names.with_broken([key.text])), False
    return (LetStatement(tuple(made), node.key("let").mark) if is_whole else None), around


def foresee_lets(items: tuple[Node, ...], names: Names) -> Names:
    """The names of a list's statements, which say of every let in it that it stands further down."""
    lets = [item["let"] for item in items if isinstance(item, Mapping) and "let" in item]
    entries = {key.text: (key, value) for let in lets if isinstance(let, Mapping) for key, value in let.entries}
    given = {n: _words_of(value) & set(entries) for n, (_, value) in entries.items()}
    later: dict[str, Flaw] = {}
    for name, (key, _) in entries.items():
        message, hint = f"'{name}' is given further down, on {key.mark.spot}", "give it before this"
        if circle := _find_circle(name, given):
            message, hint = f"'{name}' is given by itself: {' -> '.join(circle)}", "give one of them by other names"
        later[name] = Flaw(FORBIDDEN, message, hint=hint)
    later = {name: flaw for name, flaw in later.items() if name not in names.values}
    pairs = (pair for item in items if isinstance(item, Mapping) for pair in item.entries)
    misspelt = [value for key, value in pairs if key.text != "let" and find_near(key.text, ("let", "wait")) == "let"]
    broken = (key.text for value in misspelt if isinstance(value, Mapping) for key, _ in value.entries)
    return replace(names.with_broken(broken), forbidden={**names.forbidden, **later})


def _words_of(node: Node) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", node.text)) if isinstance(node, Scalar) else set()


def _find_circle(name: str, given: Dict[str, set[str]]) -> list[str]:
    """The way from a name over what it is given by back to itself; empty if there is none."""
    ways, seen = [[name]], {name}
    for way in ways:
        for other in sorted(given[way[-1]]):
            if other == name:
                return [*way, name]
            if other not in seen:
                seen.add(other)
                ways.append([*way, other])
    return []


def _name_value(name: str, node: Node, around: Surroundings, made: list[tuple[Var, Index | Read]]) -> Surroundings:
    reads = Reads(around.buffers.found, around.buffers.broken, around.register.owners)
    value = read_number(node, _with_threads(around), f"'{name}'", may_be_negative=True, reads=reads)
    whole = reads.name_only(name, value)
    for var, found in reads.found:
        read = replace(found, known=(*found.known, *order_offsets(var, found, around.reads)))
        around = _keep_read(var, read, around)
        made.append((var, read))
    if whole is not None:
        return around
    axes = _with_threads(around).axes_of(value)
    low = least(value)
    if low < 0 and is_below(-1, value, tuple(conjuncts(around.cases.condition))):
        low = 0  # a difference of offsets
    var = Var(name, bound(value), max(1, multiple(value)), low)
    made.append((var, value))
    cases = around.cases
    check_dividends(value, _cases_of_threads(around, axes), node.mark)
    if isinstance(value, Var | Formula):
        if axes:
            cases = replace(cases, threaded=(*cases.threaded, (name, value, axes)))
        else:
            cases = cases.walk(Range(name, value, add(value, 1)))
    known = var if isinstance(value, Var | Formula) else value
    return replace(around, names=around.names.with_let(name, known, axes), cases=cases)


def _keep_read(var: Var, read: Read, around: Surroundings) -> Surroundings:
    """What follows a read: its variable is known, and may be any of the array's values. Raises TG207 for a place
    outside of the array.
    """
    names, array = _with_threads(around), around.buffers.found[read.array]
    axes = frozenset[str]().union(*(names.axes_of(x) for x in (*read.at, read.when)))
    place = Region(array, read.at, (1,) * len(read.at), (False,) * len(read.at), mark=read.mark)
    cases = _cases_of_threads(around, axes)
    inside = replace(cases, condition=every(cases.condition, read.when))
    check_region_range(place, inside, False, "read under a condition that keeps the place inside")
    walked = around.cases.walk(Range(var.name, *read.values.places, read.values.step))
    walked = replace(walked, condition=every(walked.condition, *read.known))
    around.register.owners.setdefault(var.name, ("read of a let", read.mark or array.mark))  # type: ignore[arg-type]
    names = around.names.with_let(var.name, var, axes)
    return replace(around, names=names, cases=walked, reads=(*around.reads, (var, read)))


def _cases_of_threads(around: Surroundings, axes: frozenset[str]) -> Cases:
    """The cases here, those of each thread where these axes, or the conditions around, are of threads."""
    if not axes and not around.conditions:
        return around.cases
    return instance_cases(around.cases, "thread", around.threads or 1024, True)


def _with_threads(around: Surroundings) -> Names:
    """The names around, and the thread axes, which count a role's own threads: beside roles there are none."""
    if around.is_outside:
        return around.names.forbid(THREAD_AXES, "'{name}' counts the threads of a role, and this stands in none")
    return around.names.with_values(dict(instance_variables(around.threads or 1024))).over(THREAD_AXES)


def read_role_block(node: Mapping, around: Surroundings, read_body: ReadBody) -> RoleBlock | None:
    """``role: NAME`` with ``do:``, in the list of the spec itself."""
    key, name = node.key("role"), node["role"]
    model = check_fields(node, RoleBlockFields, "this role block", around.findings, key.mark)
    if not around.is_top:
        raise Flawed("TG119", "a role block stands inside of another statement", key.mark, "they stand in 'ops' itself")
    if model is None or not isinstance(name, Scalar):
        return None
    terms = around.roles.get(name.text)
    if terms is None:
        if name.text in around.broken_roles:
            raise Flawed()
        hint = suggest(name.text, around.roles) or "roles: {load: {threads: 32}, math: {threads: 256}}"
        raise Flawed("TG105", f"unknown role '{shorten(name.text)}'", name.mark, hint)
    inner = replace(around, role=terms.name, threads=terms.threads, is_top=False)
    do = node.get("do")
    body = read_body(do, inner) if isinstance(do, Sequence) else ()
    return RoleBlock(terms.name, key.mark, body=body)


def read_when_statement(node: Mapping, around: Surroundings, read_body: ReadBody) -> WhenStatement | None:
    """``when: COND`` with ``do:``, whose threads must agree wherever they do something together."""
    model = check_fields(node, WhenFields, "this block", around.findings, node.key("when").mark)
    threads = around.threads or 1024
    names = _with_threads(around)
    condition = read_when(node, names, around.findings)
    axes, mark = names.axes_of(condition), node.key("when").mark
    with around.findings.collect():
        check_dividends(condition, instance_cases(around.cases, "thread", threads, True), mark)
    cases = replace(around.cases, condition=every(around.cases.condition, condition))
    inner = replace(around, cases=cases, conditions=(*around.conditions, *([(axes, mark)] if axes else [])))
    do = node.get("do")
    body = read_body(do, replace(inner, is_top=False, is_nested=True)) if isinstance(do, Sequence) else ()
    return WhenStatement(condition, mark, body=body) if model else None
