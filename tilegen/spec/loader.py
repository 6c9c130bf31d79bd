"""The parts of a text to the Spec of one kernel, or one SpecError with everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass, field, replace

from tilegen import layouts
from tilegen.errors import LayoutError
from tilegen.index import Index, Var, bound
from tilegen.near_words import find_near, suggest
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, cta_variables
from tilegen.spaces import Space
from tilegen.spec.buffers import Buffers, read_buffers
from tilegen.spec.clusters import check_clusters
from tilegen.spec.data import Spec
from tilegen.spec.dependent import check_overlap
from tilegen.spec.findings import Findings, Flaw, shorten
from tilegen.spec.form import Form, WholeForm
from tilegen.spec.header import (
    read_arch,
    read_cluster,
    read_ctas_per_sm,
    read_grid,
    read_overlap,
    read_threads,
)  # fmt: skip
from tilegen.spec.models import SpecFields, is_misspelt, report_null
from tilegen.spec.names import Names, Register
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, describe_node
from tilegen.spec.params import Params, read_params
from tilegen.spec.ranges import Cases, Range
from tilegen.spec.roles import check_registers, read_barriers, read_roles
from tilegen.spec.sources import NamedText
from tilegen.spec.statements import STATEMENTS, cta_names, read_statements, written_buffers
from tilegen.spec.surroundings import Surroundings
from tilegen.spec.unused import find_unused, find_written_back
from tilegen.spec.values import check_unwritten
from tilegen.spec.version import read_version
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
    given, forms = reading.given, reading.forms
    _check_keys(root, forms, findings)
    root = _mend_keys(root)
    register = Register()
    kernel = read_kernel(root.get("kernel"), register, findings)
    version = read_version(root.get("version"), findings)
    target = read_arch(root, reading.arch, findings)
    params = read_params(root.get("params"), reading.overrides, register, findings)
    _stop_if_unread(root, "params", findings)
    roles, role_threads = read_roles(root, params.names, target, register, findings)
    threads = role_threads if "roles" in root else read_threads(root.get("threads"), params.names, findings)
    grid = read_grid(root.get("grid"), root.get("cluster"), params, findings)
    resident = read_ctas_per_sm(root.get("ctas_per_sm"), params.names, target, threads, findings)
    check_registers(roles, threads, target, resident[0], findings)
    cluster = read_cluster(root.get("cluster"), params, target, grid, findings)
    overlap = read_overlap(root.get("overlap"), findings)
    terms = read_barriers(root.get("barriers"), params.names, register, findings)
    buffers = Buffers(params, max((r.threads for r in roles), default=threads), target, is_pass=is_pass)
    read_buffers(root.get("buffers"), buffers, register, findings)
    _stop_if_unread(root, "buffers", findings)
    axes = cta_variables(grid, cluster)
    cases = _list_cases(params, grid, cluster)
    names = cta_names(axes, grid, params.names)
    given_roles = root.get("roles")
    around = Surroundings(
        forms, buffers, _hide_objects(names, buffers), cases, register, findings, threads, cluster,
        {r.name: r for r in roles}, terms,
        frozenset(k.text for k, _ in given_roles.entries) if isinstance(given_roles, Mapping) else frozenset(),
    )  # fmt: skip
    ops = read_statements(root["ops"], around) if "ops" in root else ()
    check_alone(root, ops, findings)
    with findings.collect():
        check_unwritten(written_buffers(ops).values(), root.get("buffers"), buffers.found)
    for name, buffer in written_buffers(ops).items():
        with findings.collect():
            _check_no_overlap(name, buffers, buffer.traits)
    findings.raise_all()
    spec = Spec(
        kernel, target, threads, grid, cluster, tuple(params.runtime), tuple(params.constants),
        tuple(buffers.found.values()), ops, given.name, given.text,
        ctas_per_sm=resident[0], ctas_per_sm_mark=resident[1], roles=roles, barriers=tuple(terms.values()),
        overlaps=overlap is not None, overlaps_mark=overlap,
        warnings=(*find_unused(root, threads), *find_written_back(ops)),
        ops_mark=root["ops"].mark if "ops" in root else None, version=version,
    )  # fmt: skip
    check_clusters(spec, findings)
    check_overlap(spec, findings)
    findings.raise_all()
    return spec


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
            findings.report("TG102", f"the spec needs the key '{name}'", root.place.part(0), hint)


def _stop_if_unread(root: Mapping, section: str, findings: Findings) -> None:
    """Raises what was found where nobody knows the names of a section: their uses are no mistakes of their own."""
    if section in root and not isinstance(root[section], Mapping):
        findings.raise_all()


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
    ops = _find_meant(root, "ops")
    if not isinstance(ops, Sequence):
        return False
    names = [op.entries[0][0].text for op in ops.items if isinstance(op, Mapping) and op.entries]
    meant = [name if name in forms else find_near(name, (*forms, *STATEMENTS)) for name in names]
    return any(not name or isinstance(forms.get(name), WholeForm) for name in meant)


def read_kernel(node: Node | None, register: Register, findings: Findings) -> str:
    """The name of a kernel; "" where it is wrong."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return ""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        findings.report("TG103", f"'kernel' must be a name, not {describe_node(node)}", node.mark)
        return ""
    with findings.collect():
        return register.claim(node.passage, "kernel")
    return ""


def _list_cases(params: Params, grid: tuple[Index, Index, Index], cluster: tuple[int, int, int]) -> Cases:
    """Every CTA of every launch; a CTA's place in its cluster follows from its place in the grid."""
    walks = tuple(Range(name, 0, extent) for name, extent in zip(CTA_AXES, grid, strict=True))
    places = zip(CLUSTER_AXES, CTA_AXES, grid, cluster, strict=True)
    derived = tuple((inner, Var(outer, bound(extent)) % size) for inner, outer, extent, size in places)
    return Cases(tuple(params.runtime), walks, derived)


def _hide_objects(names: Names, buffers: Buffers) -> Names:
    """Buffers are no numbers: say so where one is used as such."""
    return names.forbid([*buffers.found, *buffers.broken], "'{name}' is a buffer, not a number")


def _check_no_overlap(name: str, buffers: Buffers, space: Space) -> None:
    """Two elements in one place of a buffer that is written: raises TG204."""
    if space.is_held or buffers.found[name].is_auto:
        return
    buffer, node = buffers.found[name], buffers.layout_nodes[name]
    try:
        overlaps = _overlaps(buffer.layout, buffers.params)
    except LayoutError as error:
        raise Flaw("TG201", f"{shorten(error, 200)}, in the layout of '{name}'", node.mark) from None
    if overlaps:
        message = f"the layout of '{name}' puts two elements in one place, but '{name}' is written"
        raise Flaw("TG204", message, node.mark, "strides must step over what lies inside")


def _overlaps(layout: layouts.Layout, params: Params) -> bool:
    """Whether two elements share a place, at the defaults of the runtime params where it depends on them."""
    return not layouts.is_injective(layout) and not layouts.is_injective(layouts.bind(layout, dict(params.defaults)))
