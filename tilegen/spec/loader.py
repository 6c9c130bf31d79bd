"""The parts of a text to the Spec of one kernel, or one SpecError with everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass, field, replace

from tilegen import layouts
from tilegen.errors import LayoutError
from tilegen.index import Var, bound
from tilegen.near_words import find_near, suggest
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, cta_variables
from tilegen.spaces import Space
from tilegen.spec.accumulated import check_accumulated, check_unordered
from tilegen.spec.buffers import Buffers, read_buffers
from tilegen.spec.clusters import check_clusters, check_pairs
from tilegen.spec.data import Spec, Statement
from tilegen.spec.dependent import check_overlap, check_tables
from tilegen.spec.findings import Findings, Flawed, shorten
from tilegen.spec.form import Form, WholeForm
from tilegen.spec.header import Head, read_head, stop_if_unread
from tilegen.spec.models import SpecFields, is_misspelt, report_null
from tilegen.spec.names import Names, Register
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence
from tilegen.spec.params import Params
from tilegen.spec.ranges import Cases, Range
from tilegen.spec.sources import NamedText
from tilegen.spec.statements import STATEMENTS, cta_names, read_statements, written_buffers
from tilegen.spec.surroundings import Surroundings
from tilegen.spec.unused import find_unused, find_written_back
from tilegen.spec.values import check_unwritten
from tilegen.spec.whole import check_alone


@dataclass(frozen=True)
class Reading:
    """What a text is read with.

    ``forms``: the ops by name. ``arch`` overrides the spec's; ``overrides`` sets compile-time params and the defaults
    of runtime ones.
    """

    given: NamedText
    forms: Dict[str, Form]
    arch: str | None = None
    overrides: Dict[str, int | float] = field(default_factory=dict)


def read_spec(root: Mapping, reading: Reading, findings: Findings, is_pass: bool = False) -> Spec:
    """The checked spec of one kernel; arrays of a pass may be workspaces. Raises SpecError with every finding."""
    forms, register = reading.forms, Register()
    _check_keys(root, forms, findings)
    root = _mend_keys(root)
    head = read_head(root, reading.arch, reading.overrides, register, findings)
    buffers = Buffers(head.params, head.most_threads, head.arch, is_pass)
    read_buffers(root.get("buffers"), buffers, register, findings)
    stop_if_unread(root, "buffers", findings)
    around = _surround(root, head, forms, buffers, register, findings)
    ops = read_statements(root["ops"], around) if "ops" in root else ()
    check_alone(root, ops, findings)
    _check_written(root, ops, buffers, findings)
    findings.raise_all()
    spec = _make_spec(root, head, buffers, ops, reading.given)
    check_clusters(spec, findings)
    check_pairs(spec, findings)
    check_overlap(spec, findings)
    check_tables(spec, findings)
    check_accumulated(spec, findings)
    check_unordered(spec, findings)
    findings.raise_all()
    return spec


def _surround(
    root: Mapping, head: Head, forms: Dict[str, Form], buffers: Buffers, register: Register, findings: Findings
) -> Surroundings:
    """What holds for every statement of ``ops``."""
    names = cta_names(cta_variables(head.grid, head.cluster), head.grid, head.params.names)
    given = root.get("roles")
    named_roles = frozenset(k.text for k, _ in given.entries) if isinstance(given, Mapping) else frozenset[str]()
    return Surroundings(
        forms, buffers, _hide_objects(names, buffers), _list_cases(head), register, findings,
        head.threads, head.cluster, {r.name: r for r in head.roles}, head.barriers, named_roles,
    )  # fmt: skip


def _make_spec(root: Mapping, head: Head, buffers: Buffers, ops: tuple[Statement, ...], given: NamedText) -> Spec:
    params = head.params
    return Spec(
        head.kernel, head.arch, head.threads, head.grid, head.cluster, tuple(params.runtime), tuple(params.constants),
        tuple(buffers.found.values()), ops, given.name, given.text,
        ctas_per_sm=head.ctas_per_sm, ctas_per_sm_mark=head.ctas_per_sm_mark, roles=head.roles,
        barriers=tuple(head.barriers.values()), cta_group=head.cta_group,
        overlaps=head.overlap_mark is not None, overlaps_mark=head.overlap_mark,
        warnings=(*find_unused(root, head.threads), *find_written_back(ops)),
        ops_mark=root["ops"].mark if "ops" in root else None, version=head.version,
    )  # fmt: skip


def _check_keys(root: Mapping, forms: Dict[str, Form], findings: Findings) -> None:
    """The keys of the spec itself: unknown, missing, or without a value."""
    fields = SpecFields.model_fields
    for key, value in root.entries:
        if key.text not in fields:
            findings.report(
                "TG101", f"unknown key '{shorten(key.text)}' in the spec", key.mark, suggest(key.text, fields)
            )
        elif isinstance(value, Scalar) and value.value is None:
            report_null(key, value, findings)
    needed = [name for name, field in fields.items() if field.is_required()]
    if not _may_choose_launch(root, forms) and _find_meant(root, "roles") is None:
        needed.append("threads")
    for name in needed:
        if name not in root and not is_misspelt(name, root, fields):
            hint = "a spec without ops says 'ops: []'" if name == "ops" else f"add '{name}: ...'"
            hint += _suggest_whole(root, forms) if name == "threads" else ""
            findings.report("TG102", f"the spec needs the key '{name}'", root.place.part(0), hint)


def _mend_keys(root: Mapping) -> Mapping:
    """The spec with keys that are nearly right as what they were meant to be: reported once, and read all the same."""
    fields = SpecFields.model_fields
    found: list[tuple[Scalar, Node]] = []
    for key, value in root.entries:
        near = "" if key.text in fields else find_near(key.text, fields)
        is_meant = near and near not in root
        found.append((replace(key, text=near, value=near) if is_meant else key, value))
    return replace(root, entries=tuple(found))


def _find_meant(root: Mapping, name: str) -> Node | None:
    """The value of a key of the spec, misspelt or not; None where it has none."""
    fields = SpecFields.model_fields
    meant = {key.text if key.text in fields else find_near(key.text, fields): value for key, value in root.entries}
    return meant.get(name)


def _may_choose_launch(root: Mapping, forms: Dict[str, Form]) -> bool:
    """Is there an op on whole arrays, which chooses the grid and the threads itself, or one that may be misspelt?"""
    meant = [name if name in forms else find_near(name, (*forms, *STATEMENTS)) for name in _list_ops(root)]
    return any(not name or isinstance(forms.get(name), WholeForm) for name in meant)


def _list_ops(root: Mapping) -> list[str]:
    """The first word of each statement of the spec."""
    ops = _find_meant(root, "ops")
    items = ops.items if isinstance(ops, Sequence) else ()
    return [op.entries[0][0].text for op in items if isinstance(op, Mapping) and op.entries]


def _suggest_whole(root: Mapping, forms: Dict[str, Form]) -> str:
    """Names the op on whole arrays that does what a tile op of a spec without threads does; "" if there is none."""
    names = _list_ops(root)
    whole = (form for form in forms.values() if isinstance(form, WholeForm) and form.on_tiles)
    return next((f", or write '{form.name}', which takes whole arrays" for form in whole if form.on_tiles in names), "")


def _list_cases(head: Head) -> Cases:
    """Every CTA of every launch; a CTA's place in its cluster follows from its place in the grid."""
    walks = tuple(Range(name, 0, extent) for name, extent in zip(CTA_AXES, head.grid, strict=True))
    places = zip(CLUSTER_AXES, CTA_AXES, head.grid, head.cluster, strict=True)
    derived = tuple((inner, Var(outer, bound(extent)) % size) for inner, outer, extent, size in places)
    return Cases(tuple(head.params.runtime), walks, derived)


def _hide_objects(names: Names, buffers: Buffers) -> Names:
    """Buffers are no numbers: say so where one is used as such."""
    return names.forbid([*buffers.found, *buffers.broken], "'{name}' is a buffer, not a number")


def _check_written(root: Mapping, ops: tuple[Statement, ...], buffers: Buffers, findings: Findings) -> None:
    """Reports buffers that are written and may not be, or of which two elements share a place."""
    written = written_buffers(ops)
    with findings.collect():
        check_unwritten(written.values(), root.get("buffers"), buffers.found)
    for name, buffer in written.items():
        with findings.collect():
            _check_no_overlap(name, buffers, buffer.traits)


def _check_no_overlap(name: str, buffers: Buffers, space: Space) -> None:
    """Two elements in one place of a buffer that is written: raises TG204."""
    if space.is_held or buffers.found[name].is_auto:
        return
    buffer, node = buffers.found[name], buffers.layout_nodes[name]
    try:
        overlaps = _overlaps(buffer.layout, buffers.params)
    except LayoutError as error:
        raise Flawed("TG201", f"{shorten(error, 200)}, in the layout of '{name}'", node.mark) from None
    if overlaps:
        message = f"the layout of '{name}' puts two elements in one place, but '{name}' is written"
        raise Flawed("TG204", message, node.mark, "strides must step over what lies inside")


def _overlaps(layout: layouts.Layout, params: Params) -> bool:
    """Whether two elements share a place, at the defaults of the runtime params where it depends on them."""
    return not layouts.is_injective(layout) and not layouts.is_injective(layouts.bind(layout, dict(params.defaults)))
