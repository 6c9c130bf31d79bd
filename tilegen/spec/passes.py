"""The key ``passes``: a spec of several kernels is read as one spec for each, and what they share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tilegen.errors import SpecError
from tilegen.index import bound
from tilegen.near_words import find_near, suggest
from tilegen.plan import RESIDENT_CTAS, CountedCtas, Param
from tilegen.scopes import COUNT_AXES, CTA_AXES
from tilegen.spaces import SPACES, Space
from tilegen.spec.accumulated import check_unordered, find_unordered
from tilegen.spec.buffers import Buffers, read_buffers
from tilegen.spec.data import Spec, WholeCall
from tilegen.spec.expressions import read_condition
from tilegen.spec.findings import Findings, Flawed, shorten
from tilegen.spec.header import read_arch, read_kernel, read_version
from tilegen.spec.loader import Reading, read_spec
from tilegen.spec.models import MOST_PASSES, PASS_KEYS, ProgramFields, report_null
from tilegen.spec.names import Names, Register, check_name
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, describe_node, list_words
from tilegen.spec.outline import written_roots
from tilegen.spec.params import Params, read_params
from tilegen.spec.program import Pass, Program
from tilegen.spec.unused import find_unnamed

_OWN_KEYS = ("name", "when", "buffers")  # of a pass, which are read here
_BESIDE = tuple(key for key in ProgramFields.model_fields if key != "buffers")
_COUNT = re.compile(r"\b([A-Za-z_]\w*)\.(b[xyz]_count)\b")


@dataclass
class _Passes:
    """The passes so far, and what later ones know of them."""

    root: Mapping
    reading: Reading
    findings: Findings
    passes: list[Pass] = field(default_factory=list)
    grids: dict[str, Mapping | None] = field(default_factory=dict)  # of passes by name, the section 'grid'
    counts: dict[str, CountedCtas] = field(default_factory=dict)  # by the param's name
    broken: set[str] = field(default_factory=set)  # passes in which something is wrong: it was reported
    unordered: frozenset[str] = frozenset()  # arrays of sums of floats whose order nobody knows


def read_program(root: Mapping, reading: Reading, findings: Findings) -> Program:
    """The checked program of a spec with ``passes``. Raises SpecError with every finding."""
    register, given = Register(), reading.given
    _check_keys(root, findings)
    kernel = read_kernel(root.get("kernel"), register, findings)
    version = read_version(root.get("version"), findings)
    target = read_arch(root, reading.arch, findings)
    params = read_params(root.get("params"), reading.overrides, register, findings)
    _check_common(root.get("buffers"), findings)
    findings.raise_all()
    state = _Passes(root, reading, findings)
    for node in _list_passes(root["passes"], findings):
        with findings.collect():
            _read_pass(kernel, node, params.names, state)
    buffers = _read_common(params, target, register, state)
    findings.raise_all()
    said = tuple((value, frozenset(list_words(value))) for value in (root["passes"], *_list_entries(root)))
    unnamed = (*find_unnamed(root, "params", "param", said), *find_unnamed(root, "buffers", "buffer", said))
    warnings = (*unnamed, *(w for one in state.passes for w in one.spec.warnings))
    return Program(
        kernel, target, tuple(params.runtime), tuple(params.constants), tuple(buffers.found.values()),
        tuple(state.passes), tuple(state.counts.values()), given.name, given.text, version,
        tuple(dict.fromkeys(warnings)),
    )  # fmt: skip


# ---------------------------------------------------------------- what all passes share
def _check_keys(root: Mapping, findings: Findings) -> None:
    known = list(ProgramFields.model_fields)
    for key, value in root.entries:
        if key.text not in known:
            message, hint = f"unknown key '{shorten(key.text)}' in the spec", suggest(key.text, known)
            if key.text in PASS_KEYS:
                message, hint = f"'{key.text}' beside 'passes'", "write it in each pass that needs it"
            findings.report("TG101", message, key.mark, hint)
        elif isinstance(value, Scalar) and value.value is None:
            report_null(key, value, findings)
    if "kernel" not in root:
        findings.report("TG102", "the spec needs the key 'kernel'", root.place.part(0), "add 'kernel: ...'")


def _check_common(node: Node | None, findings: Findings) -> None:
    """Arrays of all passes lie in global memory; registers and shared memory are a pass's own."""
    for key, value, space in _list_spaces(node):
        if space is not None and not space.is_array:
            message = f"'{shorten(key.text)}' is in {space.words}, which no two passes share"
            findings.report(
                "TG106", message, value["scope"].mark, "declare it in the 'buffers' of the pass that uses it"
            )
        for found in () if space is not None and space.is_brought else _list_counts(value):
            message = f"'{found.text}' in '{shorten(key.text)}', which the caller brings: only a launch knows it"
            findings.report("TG106", message, found.mark, "say the extent by params; workspaces may have counts")


def _list_spaces(node: Node | None) -> Iterator[tuple[Scalar, Mapping, Space | None]]:
    """The buffers of a section that are mappings, each with its memory space, None where it says none that there is."""
    for key, value in node.entries if isinstance(node, Mapping) else ():
        if isinstance(value, Mapping):
            scope = value.get("scope")
            yield key, value, SPACES.get(scope.text) if isinstance(scope, Scalar) else None


def _list_entries(root: Mapping) -> Iterator[Node]:
    for section in ("params", "buffers"):
        node = root.get(section)
        yield from (value for _, value in node.entries) if isinstance(node, Mapping) else ()


def _read_common(params: Params, arch: str, register: Register, state: _Passes) -> Buffers:
    """The shared arrays by themselves, also those that no pass names; counts of CTAs are runtime params here."""
    known = replace(params, runtime=[*params.runtime, *(c.param for c in state.counts.values())])
    buffers = Buffers(known, 1, arch, is_pass=True)
    node = state.root.get("buffers")
    if node is not None:
        with state.findings.collect():
            read_buffers(_write_counts(node, "", state), buffers, register, state.findings)
    return buffers


# ---------------------------------------------------------------- one pass
def _list_passes(node: Node, findings: Findings) -> Iterator[Mapping]:
    if not isinstance(node, Sequence):
        findings.report("TG103", f"'passes' must be a list of kernels, not {describe_node(node)}", node.mark)
        return
    if not 1 <= len(node.items) <= MOST_PASSES:
        message = f"'passes' has {len(node.items)} kernels: at least 1, at most {MOST_PASSES} are possible"
        findings.report("TG106", message, node.mark)
        return
    for item in node.items:
        if isinstance(item, Mapping):
            yield item
        else:
            hint = "write '- name: NAME', and under it the launch and the ops"
            findings.report("TG103", f"a pass must be a mapping, not {describe_node(item)}", item.mark, hint)


def _read_pass(kernel: str, node: Mapping, names: Names, state: _Passes) -> None:
    name = _read_name(node, state)
    for found in _list_counts(node["when"]) if "when" in node else ():
        message = f"'when' of a pass is over params, and '{found.text}' names CTAs of a pass"
        raise Flawed("TG112", message, found.mark, "only the launch knows them")
    when = read_condition(node["when"], names) if "when" in node else True
    for key, value, space in _list_spaces(node.get("buffers")):
        if space is not None and space.is_array:
            message = f"'{shorten(key.text)}' is declared in a pass, and {space.words} is every pass's"
            raise Flawed("TG106", message, value["scope"].mark, "declare it in the 'buffers' beside 'passes'")
    root = _build_root(kernel, name, node, state)
    own = Findings()
    try:
        reading = replace(state.reading, overrides=_choose_overrides(root, state))
        spec = read_spec(root, reading, own, is_pass=True)
    except SpecError as error:
        raw = [d for d in own.found if d.severity == "error"]  # one mistake may show in several passes
        state.findings.found.extend(raw or error.diagnostics)
        state.broken.add(name)
        return
    _refuse_passes(spec)
    if state.unordered:
        check_unordered(spec, state.findings, state.unordered)
    state.unordered |= find_unordered(spec, state.unordered)
    spec = _mark_unwritten(spec, [one.spec for one in state.passes])
    for p in spec.params:
        if p.launched is not None and p.var is not None:
            known = f"{name}_{p.name}"
            given = replace(p, name=known, var=replace(p.var, name=known), launched=None)
            state.counts[known] = CountedCtas(given, name, COUNT_AXES.index(p.name))
    state.passes.append(Pass(name, spec, when, node.mark))


def _mark_unwritten(spec: Spec, before: Iterable[Spec]) -> Spec:
    """The pass, told which of its workspaces no pass before it writes: what it reads there it wrote itself.

    A view lies on the bytes of its root. Of an op on whole arrays every array counts as written.
    """
    written = {root for other in before for root in written_roots(other)}
    written |= {b.root for other in before for s in other.ops if isinstance(s, WholeCall) for b in s.arrays.values()}
    buffers = [replace(b, is_unwritten=b.traits.is_brought and b.root not in written) for b in spec.buffers]
    return replace(spec, buffers=tuple(buffers))


def _refuse_passes(spec: Spec) -> None:
    """Raises TG116 for an op on whole arrays that would be several passes."""
    for call in (s for s in spec.ops if isinstance(s, WholeCall)):
        if field := call.form.divides(call.fields):
            message = f"'{field}' makes passes of {call.op}, and this is one"
            raise Flawed(
                "TG116", message, call.mark_of(field), f"leave '{field}' out, or give {call.op} a spec of its own"
            )


def _read_name(node: Mapping, state: _Passes) -> str:
    """The name of a pass, which no other has. Raises TG102, TG103, TG107, TG108."""
    given = node.get("name")
    if near := next(
        (key for key, _ in node.entries if given is None and find_near(key.text, PASS_KEYS) == "name"), None
    ):
        raise Flawed("TG101", f"unknown key '{shorten(near.text)}' in a pass", near.mark, suggest(near.text, PASS_KEYS))
    if given is None:
        raise Flawed("TG102", "a pass needs the key 'name'", node.place.part(node.place.column), "add '- name: ...'")
    if not isinstance(given, Scalar) or not isinstance(given.value, str):
        raise Flawed("TG103", f"the name of a pass must be a text, not {describe_node(given)}", given.mark)
    name = check_name(given.passage, "pass")
    if name in state.grids:
        raise Flawed("TG108", f"'{name}' already names a pass", given.mark)
    grid = node.get("grid")
    state.grids[name] = _write_counts(grid, name, state) if isinstance(grid, Mapping) else None  # type: ignore[assignment]
    return name


def _build_root(kernel: str, name: str, node: Mapping, state: _Passes) -> Mapping:
    """The spec that a pass is: what all share as far as the pass names it, and its own keys."""
    misplaced = [key for key, _ in node.entries if key.text in _BESIDE]
    for key in misplaced:
        state.findings.report("TG101", f"'{key.text}' in a pass", key.mark, "write it beside 'passes', once for all")
    shared = [(key, value) for key, value in state.root.entries if key.text in ("version", "arch")]
    title, at = f"{kernel}_{name}", node["name"]
    entries: list[tuple[Scalar, Node]] = [
        (Scalar(at.place, "kernel", "kernel"), Scalar(at.place, title, title)),
        *shared,
    ]
    own = [(key, value) for key, value in node.entries if key.text not in (*_OWN_KEYS, *_BESIDE)]
    own = [(key, _write_counts(value, name, state)) for key, value in own]
    buffers = _choose_buffers(name, node, state)
    words = {word for value in (*(v for _, v in own), *(v for _, v in buffers)) for word in list_words(value)}
    params = _choose_params(words, node, state)
    for section, found in (("params", params), ("buffers", buffers)):
        if found:
            place = (state.root.get(section) or node.get(section) or node).place
            entries.append((Scalar(place, section, section), Mapping(place, tuple(found))))
    return Mapping(node.place, (*entries, *own), node.is_flow, node.is_torn)


def _choose_buffers(name: str, node: Mapping, state: _Passes) -> list[tuple[Scalar, Node]]:
    """The shared arrays that a pass names, and those of which they are views, before its own buffers."""
    found = _choose_named(state.root.get("buffers"), set(list_words(node)))
    own = node.get("buffers")
    if own is not None and not isinstance(own, Mapping) and not (isinstance(own, Scalar) and own.value is None):
        message = f"'buffers' must be a mapping of names, not {describe_node(own)}"
        state.findings.report("TG103", message, own.mark, "write x: {scope: register, dtype: float32, shape: [64]}")
    found += own.entries if isinstance(own, Mapping) else ()
    return [(key, _write_counts(value, name, state)) for key, value in found]


def _choose_params(words: set[str], node: Mapping, state: _Passes) -> list[tuple[Scalar, Node]]:
    """The params that a pass names, those from which they are computed, and counts of CTAs of passes before."""
    counts = [count.param for name, count in state.counts.items() if name in words]
    return _choose_named(state.root.get("params"), words) + [_write_param(p, node) for p in counts]


def _choose_named(section: Node | None, words: set[str]) -> list[tuple[Scalar, Node]]:
    """The entries of a section that words name, and those that these name, in the order of the text."""
    entries = section.entries if isinstance(section, Mapping) else ()
    named = set(words)
    while True:
        found = [(key, value) for key, value in entries if key.text in named]
        more = {word for _, value in found for word in list_words(value)}
        if more <= named:
            return found
        named |= more


def _write_param(param: Param, node: Mapping) -> tuple[Scalar, Node]:
    """A count of CTAs as an entry of ``params``."""
    assert param.var is not None
    fields = {"default": int(param.default), "multiple_of": param.var.step, "max": bound(param.var) - 1}
    place = node["name"].place
    entries = ((Scalar(place, key, key), Scalar(place, str(value), value)) for key, value in fields.items())
    return Scalar(place, param.name, param.name), Mapping(place, tuple(entries))


def _choose_overrides(root: Mapping, state: _Passes) -> dict[str, int | float]:
    section = root.get("params")
    return {k: v for k, v in state.reading.overrides.items() if isinstance(section, Mapping) and k in section}


# ---------------------------------------------------------------- CTAs of another pass
def _write_counts(node: Node, reader: str, state: _Passes) -> Node:
    """A part of the text with ``rows.bx_count`` as what it is: an extent of the grid of rows, or a param of the launch.

    ``reader``: the pass that says it, "" where all read it. Raises TG105 for a pass that is not there, or comes later,
    and a Flawed without a diagnostic where something else is wrong with that pass.
    """
    if isinstance(node, Sequence):
        return replace(node, items=tuple(_write_counts(item, reader, state) for item in node.items))
    if isinstance(node, Mapping):
        return replace(node, entries=tuple((key, _write_counts(value, reader, state)) for key, value in node.entries))
    if not isinstance(node.value, str) or not _COUNT.search(node.text):
        return node
    text = _COUNT.sub(lambda found: _say_count(found, node, reader, state), node.text)
    return replace(node, text=text, value=text)


def _list_counts(node: Node) -> Iterator[Scalar]:
    """The values that name CTAs of a pass."""
    if isinstance(node, Scalar):
        if isinstance(node.value, str) and _COUNT.search(node.text):
            yield node
        return
    for one in node.items if isinstance(node, Sequence) else (value for _, value in node.entries):
        yield from _list_counts(one)


def _say_count(found: re.Match[str], node: Scalar, reader: str, state: _Passes) -> str:
    owner, count = found.groups()
    if owner == reader and owner not in state.grids:
        raise Flawed("TG105", f"the grid of '{owner}' is what '{found[0]}' counts", node.locate(*found.span()))
    if owner not in state.grids:
        message = (
            f"'{owner}' is no pass" if owner not in _names_of_passes(state.root) else f"pass '{owner}' comes later"
        )
        raise Flawed("TG105", message, node.locate(*found.span()), suggest(owner, state.grids))
    grid, axis = state.grids[owner], CTA_AXES[COUNT_AXES.index(count)]
    extent = grid.get(axis) if grid is not None else None
    if not isinstance(extent, Scalar):
        return "1"
    if not re.search(rf"\b{RESIDENT_CTAS}\b", extent.text):
        return f"({extent.text})" if not extent.text.isalnum() else extent.text
    if owner == reader:
        return count
    if owner in state.broken:
        raise Flawed()
    return f"{owner}_{count}"


def _names_of_passes(root: Mapping) -> set[str]:
    node = root["passes"]
    items = node.items if isinstance(node, Sequence) else ()
    names = (item.get("name") for item in items if isinstance(item, Mapping))
    return {name.text for name in names if isinstance(name, Scalar)}
