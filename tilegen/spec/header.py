"""The head of a spec: all keys but buffers and ops, as one value for those who read these."""

from __future__ import annotations

import re
from collections.abc import Mapping as Dict
from contextlib import suppress
from dataclasses import dataclass
from math import gcd, prod

from tilegen.arch import ARCHES, DEFAULT_ARCH, WITH_TENSOR_MEMORY
from tilegen.errors import Mark
from tilegen.index import Formula, Index, Var, bound, evaluate, least, mod, multiple, variables
from tilegen.near_words import suggest
from tilegen.plan import MOST_RESIDENT, RESIDENT_CTAS, Param
from tilegen.scopes import CLUSTER_AXES, COUNT_AXES, CTA_AXES, GRID_LIMITS, THREAD_AXES
from tilegen.spec.absent import refuse_later, suggest_arch
from tilegen.spec.expressions import read_constant, read_number
from tilegen.spec.findings import Findings, Flawed, shorten
from tilegen.spec.launch_models import ClusterFields, GridFields
from tilegen.spec.models import VERSION, report_null
from tilegen.spec.names import Names, Register
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, describe_node
from tilegen.spec.pairs import PAIR
from tilegen.spec.params import Params, read_params
from tilegen.spec.roles import MAX_THREADS, check_registers, read_barriers, read_roles
from tilegen.spec.terms import BarrierTerms, RoleTerms

_NOT_LAUNCHED = "'{name}' is not known here: the launch is a function of params only"


@dataclass(frozen=True)
class Head:
    """Name, target, params and launch of a kernel; what was wrong has its default here, and was reported.

    ``threads``: of a CTA, idle ones between roles too; 0 where they are wrong. ``barriers``: those that are declared,
    by name. ``ctas_per_sm`` is 0, and a mark None, without the key.
    """

    kernel: str
    version: int
    arch: str
    params: Params
    roles: tuple[RoleTerms, ...]
    threads: int
    grid: tuple[Index, Index, Index]
    cluster: tuple[int, int, int]
    cta_group: int
    ctas_per_sm: int
    ctas_per_sm_mark: Mark | None
    overlap_mark: Mark | None
    barriers: Dict[str, BarrierTerms]

    @property
    def most_threads(self) -> int:
        """The threads of the widest role, of a CTA without roles."""
        return max((r.threads for r in self.roles), default=self.threads)


def read_head(
    root: Mapping, arch: str | None, overrides: Dict[str, int | float], register: Register, findings: Findings
) -> Head:
    """The head of a spec; ``arch`` and ``overrides`` stand over what it says.

    Raises SpecError with what was found where ``params`` declares no names.
    """
    kernel = read_kernel(root.get("kernel"), register, findings)
    version = read_version(root.get("version"), findings)
    target = read_arch(root, arch, findings)
    params = read_params(root.get("params"), overrides, register, findings)
    stop_if_unread(root, "params", findings)
    roles, role_threads = read_roles(root, params.names, target, register, findings)
    threads = role_threads if "roles" in root else read_threads(root.get("threads"), params.names, findings)
    grid = read_grid(root.get("grid"), root.get("cluster"), params, findings)
    ctas, ctas_mark = read_ctas_per_sm(root.get("ctas_per_sm"), params.names, target, threads, findings)
    check_registers(roles, threads, target, ctas, findings)
    cluster = read_cluster(root.get("cluster"), params, target, grid, findings)
    cta_group = read_cta_group(root.get("cta_group"), target, cluster, findings)
    overlap = read_overlap(root.get("overlap"), findings)
    barriers = read_barriers(root.get("barriers"), params.names, register, findings)
    return Head(
        kernel, version, target, params, roles, threads, grid, cluster, cta_group, ctas, ctas_mark, overlap, barriers
    )  # fmt: skip


def stop_if_unread(root: Mapping, section: str, findings: Findings) -> None:
    """Raises what was found where nobody knows the names of a section: their uses are no mistakes of their own."""
    if section in root and not isinstance(root[section], Mapping):
        findings.raise_all()


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


def read_version(node: Node | None, findings: Findings) -> int:
    """The version that a spec says, 0 where it says none: then it is in the newest.

    Reports TG103 for no integer, TG106 for a version that is not known here.
    """
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return 0
    if not isinstance(node, Scalar) or not isinstance(node.value, int) or isinstance(node.value, bool):
        message = f"'version' must be an integer, not {describe_node(node)}"
        findings.report("TG103", message, node.mark, f"write 'version: {VERSION}'")
    elif not 1 <= node.value <= VERSION:
        message = f"version {node.value} of the language is not known here: this tilegen reads 1 to {VERSION}"
        findings.report("TG106", message, node.mark, "a newer tilegen reads it" if node.value > VERSION else "")
    else:
        return node.value
    return 0


def read_arch(root: Mapping, override: str | None, findings: Findings) -> str:
    """The arch of the spec, or the one that overrides it; ``sm_90`` where it is wrong."""
    node = root.get("arch")
    written = node.text if isinstance(node, Scalar) else ""
    if node is not None and (not isinstance(node, Scalar) or not isinstance(node.value, str)):
        if not (isinstance(node, Scalar) and node.value is None):
            findings.report(
                "TG103", f"'arch' must be a text, not {describe_node(node)}", node.mark, "for example 'arch: sm_90'"
            )
        written = ""
    elif node is not None and written not in ARCHES:
        findings.report("TG109", f"unknown arch '{shorten(written)}'", node.mark, suggest_arch(written))
    if override is not None and override not in ARCHES:
        message = f"unknown arch '{shorten(override)}' (--arch, or arch in Python)"
        findings.report("TG109", message, None, suggest_arch(override))
    chosen = override or written or DEFAULT_ARCH
    return chosen if chosen in ARCHES else DEFAULT_ARCH


def read_threads(node: Node | None, names: Names, findings: Findings) -> int:
    """Threads of a CTA; 0 where they are wrong."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return 0
    with findings.collect():
        threads = read_constant(node, names, "'threads'")
        if 1 <= threads <= MAX_THREADS:
            return threads
        message = f"'threads' must be from 1 to {MAX_THREADS}, not {threads}"
        hint = "more work is more CTAs, or more for each thread" if threads > MAX_THREADS else "for example 128"
        raise Flawed("TG106", message, node.mark, hint)
    return 0


def read_ctas_per_sm(
    node: Node | None, names: Names, arch: str, threads: int, findings: Findings
) -> tuple[int, Mark | None]:
    """CTAs that one multiprocessor must hold at once, as far as threads go; 0 without the key, or where it is wrong."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return 0, None
    with findings.collect():
        count, gpu = read_constant(node, names, "'ctas_per_sm'"), ARCHES[arch]
        most = min(gpu.max_ctas_per_sm, gpu.max_warps_per_sm // max(1, -(-threads // gpu.warp_lanes)))
        if 1 <= count <= most:
            return count, node.mark
        hint = "" if most == gpu.max_ctas_per_sm else f"it holds {gpu.max_warps_per_sm * gpu.warp_lanes} threads"
        message = f"'ctas_per_sm' must be from 1 to {most} on {arch} with {threads} threads, not {count}"
        raise Flawed("TG106", message, node.mark, hint)
    return 0, None


def read_cta_group(node: Node | None, arch: str, cluster: tuple[int, int, int], findings: Findings) -> int:
    """How many CTAs share a product in tensor memory; 1 without the key, or where it is wrong.

    Reports TG103 for another number; TG106 for pairs on an arch without tensor memory, and where clusters have an odd
    number along cbx.
    """
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return 1
    with findings.collect():
        if not isinstance(node, Scalar) or isinstance(node.value, bool) or node.value not in (1, PAIR):
            message = f"'cta_group' must be 1 or 2, not {describe_node(node)}"
            raise Flawed("TG103", message, node.mark, "2 makes pairs of CTAs along cbx, which share products")
        if node.value == 1:
            return 1
        if ARCHES[arch].tensor_memory is None:
            message = f"'cta_group: 2' is of products in tensor memory, which {arch} has not"
            raise Flawed("TG106", message, node.mark, f"archs that have it: {', '.join(WITH_TENSOR_MEMORY)}")
        if cluster[0] % PAIR:
            message = f"'cta_group: 2' makes pairs of CTAs along cbx, and clusters here have {cluster[0]}"
            raise Flawed("TG106", message, node.mark, f"add 'cluster: {{cbx: {cluster[0] + 1}}}'")
        return PAIR
    return 1


def read_overlap(node: Node | None, findings: Findings) -> Mark | None:
    """Where the spec says that the kernel starts while the one before it still runs, if it does."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    if not isinstance(node, Scalar) or node.value != "previous":
        with findings.collect():
            said = describe_node(node)
            raise Flawed("TG103", f"'overlap' must be previous, not {said}", node.mark, "write 'overlap: previous'")
    return node.mark


def read_grid(
    node: Node | None, cluster: Node | None, params: Params, findings: Findings
) -> tuple[Index, Index, Index]:
    """CTAs in x, y and z. One of them may be known at the launch alone: then it is a runtime parameter."""
    resident = _resident_in(cluster, params)
    names = params.names.forbid((*CTA_AXES, *CLUSTER_AXES, *THREAD_AXES), _NOT_LAUNCHED)
    extents: list[Index] = [1, 1, 1]
    if node is None or not _is_section(node, "grid", findings):
        return (1, 1, 1)
    assert isinstance(node, Mapping)
    _check_axes(node, GridFields, "grid", findings)
    for d, axis in enumerate(CTA_AXES):
        value = node.get(axis)
        if value is None or (isinstance(value, Scalar) and value.value is None):
            continue
        with findings.collect():
            asks = isinstance(value, Scalar) and RESIDENT_CTAS in value.text
            known = names.with_values({resident.name: resident}) if asks else names
            extents[d] = read_number(value, known, f"grid.{axis}", is_size=True)
            if resident in variables(extents[d]):
                extents[d] = _launch(extents[d], d, resident, value, params)
            _check_extent(extents[d], axis, value, params, GRID_LIMITS[d])
    return (extents[0], extents[1], extents[2])


_SOME_RESIDENT = 128  # CTAs that are planned for


def _resident_in(cluster: Node | None, params: Params) -> Var:
    """The CTAs that a GPU holds at once, whole clusters of them."""
    size = 1
    for _, value in cluster.entries if isinstance(cluster, Mapping) else ():
        with suppress(Flawed):  # it is reported where the cluster is read
            size *= read_constant(value, params.names, "cluster")
    size = max(1, size)
    return Var(RESIDENT_CTAS, MOST_RESIDENT + 1, size, size)


def _launch(extent: Index, d: int, resident: Var, node: Node, params: Params) -> Var:
    """The runtime parameter that an extent is which is known at the launch; raises TG190 for a second one."""
    if any(p.launched is not None for p in params.runtime):
        raise refuse_later(f"'{RESIDENT_CTAS}' along two axes", node)
    low = max(1, least(extent))
    default = int(evaluate(extent, params.defaults | {resident.name: _SOME_RESIDENT // resident.step * resident.step}))
    step = gcd(multiple(extent), resident.step)
    var = Var(COUNT_AXES[d], min(bound(extent), GRID_LIMITS[d] + 1), step, -(-low // step) * step)
    params.runtime.append(Param(var.name, "int32", default, var, extent))
    return var


def _check_extent(extent: Index, axis: str, node: Node, params: Params, limit: int) -> None:
    """A launch needs 1 to ``limit`` CTAs, at the defaults and at the smallest values of the params."""
    for values in (params.lowest, params.defaults):
        count = int(evaluate(extent, values))
        used = ", ".join(f"{n} = {v}" for n, v in values.items() if isinstance(extent, (Var, Formula)))
        where = f" with {used}" if used else ""
        if count < 1:
            hint = _say_nothing(node, axis, params)
            raise Flawed("TG106", f"grid.{axis} is {count}{where}: a launch needs at least 1", node.mark, hint)
        if count > limit and values is not params.lowest:
            raise Flawed("TG106", f"grid.{axis} is {count}{where}; at most {limit} can be launched", node.mark)


def _say_nothing(node: Node, axis: str, params: Params) -> str:
    """What makes a grid of no CTAs one of some: a param that is not 0, or a division that rounds up."""
    text = node.text if isinstance(node, Scalar) else ""
    empty = [c.name for c in params.constants if c.value == 0 and re.search(rf"\b{c.name}\b", text)]
    if empty:
        return f"'{empty[0]}' is 0: give it at least 1"
    return "round up: ceil(a / b)" if "//" in text else f"write 1, or leave '{axis}' out"


def read_cluster(
    node: Node | None, params: Params, arch: str, grid: tuple[Index, Index, Index], findings: Findings
) -> tuple[int, int, int]:
    """CTAs of a cluster in x, y and z."""
    if node is None or not _is_section(node, "cluster", findings):
        return (1, 1, 1)
    assert isinstance(node, Mapping)
    _check_axes(node, ClusterFields, "cluster", findings)
    sizes = [1, 1, 1]
    for d, axis in enumerate(CLUSTER_AXES):
        value = node.get(axis)
        if value is None or (isinstance(value, Scalar) and value.value is None):
            continue
        with findings.collect():
            size = read_constant(value, params.names, f"cluster.{axis}")
            sizes[d] = size if 1 <= size <= 8 else 2  # what follows reads on as if it were a cluster
            if sizes[d] != size:
                raise Flawed("TG106", f"cluster.{axis} must be from 1 to 8, not {size}", value.mark)
            _check_whole_clusters(grid[d], size, axis, value.mark)
    if max(sizes) <= 8 < prod(sizes):
        findings.report("TG106", f"a cluster has at most 8 CTAs, not {prod(sizes)}", node.mark)
    if prod(sizes) > 1 and ARCHES[arch].compute_capability < (9, 0):
        findings.report("TG106", f"{arch} has no clusters", node.mark, "they came with sm_90")
    return (sizes[0], sizes[1], sizes[2])


def _check_whole_clusters(count: Index, size: int, axis: str, mark: Mark) -> None:
    """Whole clusters make up the CTAs along an axis, at every launch. Raises TG106."""
    if isinstance(count, int):
        if count % size:
            near = next(k for k in range(size - 1, 0, -1) if count % k == 0)
            raise Flawed("TG106", f"cluster.{axis} = {size} does not divide the grid's {count}", mark, f"{near} does")
    elif mod(count, size) != 0:
        message = f"the grid's '{axis[1:]}' may be no multiple of cluster.{axis} = {size}"
        hint = f"ceil(.. / {size}) * {size}, or params of which it is made with 'multiple_of: {size}'"
        if isinstance(count, Var) and count.name in COUNT_AXES:
            hint = f"'{RESIDENT_CTAS}' is one, and so is min({RESIDENT_CTAS}, 128)"
        raise Flawed("TG106", message, mark, hint)


def _is_section(node: Node, name: str, findings: Findings) -> bool:
    if isinstance(node, Mapping):
        return True
    if not (isinstance(node, Scalar) and node.value is None):
        message = f"'{name}' must be a mapping of axes, not {describe_node(node)}"
        findings.report("TG103", message, node.mark, f"write {name}: {{{_name_axes(node, name)}}}")
    return False


def _name_axes(node: Node, section: str) -> str:
    """What a list, or one value, of extents is in a mapping of axes."""
    items = node.items if isinstance(node, Sequence) else (node,)
    words = [i.text for i in items if isinstance(i, Scalar) and i.text][: len(CTA_AXES)] or ["1"]
    axes = CTA_AXES if section == "grid" else CLUSTER_AXES
    return ", ".join(f"{axis}: {word}" for axis, word in zip(axes, words, strict=False))


def _check_axes(node: Mapping, model: type[GridFields] | type[ClusterFields], what: str, findings: Findings) -> None:
    known = list(model.model_fields)
    for key, value in node.entries:
        if key.text not in known:
            message = f"unknown key '{shorten(key.text)}' in '{what}'"
            meant = f"{known[0][:-1]}{key.text}"  # x is bx of a grid
            findings.report("TG101", message, key.mark, suggest(meant if meant in known else key.text, known))
        elif isinstance(value, Scalar) and value.value is None:
            report_null(key, value, findings)
