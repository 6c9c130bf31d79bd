"""What the head of a spec says, all keys but buffers and ops, as one value for those who read these."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass

from tilegen.errors import Mark
from tilegen.index import Index
from tilegen.spec.data import BarrierTerms, RoleTerms
from tilegen.spec.findings import Findings
from tilegen.spec.header import (
    read_arch,
    read_cluster,
    read_ctas_per_sm,
    read_grid,
    read_overlap,
    read_threads,
)  # fmt: skip
from tilegen.spec.names import Register
from tilegen.spec.nodes import Mapping, Node, Scalar, describe_node
from tilegen.spec.params import Params, read_params
from tilegen.spec.roles import check_registers, read_barriers, read_roles
from tilegen.spec.version import read_version


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
    kernel = _read_kernel(root.get("kernel"), register, findings)
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
    overlap = read_overlap(root.get("overlap"), findings)
    barriers = read_barriers(root.get("barriers"), params.names, register, findings)
    return Head(
        kernel, version, target, params, roles, threads, grid, cluster, ctas, ctas_mark, overlap, barriers
    )  # fmt: skip


def stop_if_unread(root: Mapping, section: str, findings: Findings) -> None:
    """Raises what was found where nobody knows the names of a section: their uses are no mistakes of their own."""
    if section in root and not isinstance(root[section], Mapping):
        findings.raise_all()


def _read_kernel(node: Node | None, register: Register, findings: Findings) -> str:
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return ""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        findings.report("TG103", f"'kernel' must be a name, not {describe_node(node)}", node.mark)
        return ""
    with findings.collect():
        return register.claim(node.passage, "kernel")
    return ""
