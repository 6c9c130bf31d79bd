"""Who runs: scopes of threads from narrow to wide, and the axes that number threads and CTAs.

A kernel's threads belong to roles, often to a single one. Inside a role every thread axis counts its own threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.index import Index, Var, bound, less

CTA_AXES = ("bx", "by", "bz")
CLUSTER_AXES = ("cbx", "cby", "cbz")
COUNT_AXES = ("bx_count", "by_count", "bz_count")  # how many CTAs there are along each
Cta = tuple[int, int, int]  # by its place in the grid
GRID_LIMITS = (2**31 - 1, 65535, 65535)  # CTAs in x, y, z: CUDA Programming Guide, technical specifications, all archs


@dataclass(frozen=True)
class ThreadAxis:
    """A number of a thread: counts groups of ``unit`` threads inside of ``span`` threads (0: of all of its role)."""

    name: str
    unit: int
    span: int = 0


THREAD_AXES = {
    axis.name: axis
    for axis in (
        ThreadAxis("tx", 1), ThreadAxis("warpid", 32), ThreadAxis("laneid", 1, 32), ThreadAxis("wgid", 128),
        ThreadAxis("tid_in_wg", 1, 128), ThreadAxis("wid_in_wg", 32, 128),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Scope:
    """Threads that do something together.

    ``threads``: how many one instance has, 0 where the kernel says that. ``one`` names an instance in messages.
    ``lane`` is the axis that numbers the threads of an instance, "" if none does. ``axes`` number the instances, the
    first of them without a gap: they are equal in all threads of one.
    """

    name: str
    one: str
    threads: int
    lane: str
    axes: tuple[str, ...]

    def size(self, role_threads: int) -> int:
        """Threads of an instance in a role of so many threads.

        >>> SCOPES["warp"].size(256), SCOPES["cta"].size(256)
        (32, 256)
        """
        return self.threads or role_threads

    @property
    def inner(self) -> frozenset[str]:
        """The thread axes that differ between the threads of an instance."""
        return frozenset(THREAD_AXES) - frozenset(self.axes)


SCOPES = {
    scope.name: scope
    for scope in (
        Scope("thread", "a thread", 1, "", tuple(THREAD_AXES)),
        Scope("warp", "a warp", 32, "laneid", ("warpid", "wgid", "wid_in_wg")),
        Scope("warpgroup", "a warpgroup", 128, "tid_in_wg", ("wgid",)),
        Scope("role", "the role", 0, "tx", ()),
        Scope("roles", "several roles", 0, "", ()),
        Scope("cta", "the CTA", 0, "tx", ()),
        Scope("cluster", "the cluster", 0, "", ()),
    )
}
OP_SCOPES = ("thread", "warp", "warpgroup", "cta")  # those that an op of a spec may have


def cta_variables(grid: Sequence[Index], cluster: Sequence[int] = (1, 1, 1)) -> dict[str, Var]:
    """The axes that number CTAs, as variables: bx by bz over the grid, cbx cby cbz over the cluster.

    A grid that depends on params reaches no further than CUDA launches: launchers refuse what is longer.

    >>> cta_variables((125, 1, 1))["bx"]
    Var(name='bx', bound=125, step=1, least=0)
    """
    reaches = (max(1, min(bound(n) - 1, most)) for n, most in zip(grid, GRID_LIMITS, strict=True))
    sizes = (*reaches, *cluster)
    return {axis: Var(axis, size) for axis, size in zip((*CTA_AXES, *CLUSTER_AXES), sizes, strict=True)}


def inside_grid(grid: Sequence[Index], cluster: Sequence[int] = (1, 1, 1)) -> tuple[Index, ...]:
    """What holds in every CTA: its place along each axis is below an extent that depends on params.

    >>> [str(condition) for condition in inside_grid((Var("M", 1000), 4, 1))]
    ['bx < M']
    """
    axes = cta_variables(grid, cluster)
    return tuple(less(axes[a], n) for a, n in zip(CTA_AXES, grid, strict=True) if not isinstance(n, int))


def thread_variables(threads: int) -> dict[str, Index]:
    """The axes that number the threads of a role, as functions of tx: the variables of its part of the kernel.

    >>> str(thread_variables(256)["wid_in_wg"])
    '(tx >> 5) & 3'
    """
    tx = Var("tx", threads)
    return {axis.name: _number(tx, axis) for axis in THREAD_AXES.values()}


def _number(tx: Var, axis: ThreadAxis) -> Index:
    group = tx // axis.unit if axis.unit > 1 else tx
    return group % (axis.span // axis.unit) if axis.span else group


def threads_of(scope: str, role_threads: int) -> tuple[Index, int]:
    """The variable that numbers the threads of an instance of a scope (0 for one thread), and how many they are.

    >>> threads_of("warp", 256)
    (Var(name='laneid', bound=32, step=1, least=0), 32)
    """
    row = SCOPES[scope]
    count = row.size(role_threads)
    return (Var(row.lane, count) if row.lane else 0), count


def instance_of(scope: str, role_threads: int) -> tuple[Index, int]:
    """The variable that numbers the instances of a scope (0 for a single one), and how many they are.

    >>> instance_of("warpgroup", 256)
    (Var(name='wgid', bound=2, step=1, least=0), 2)
    """
    row = SCOPES[scope]
    count = -(-role_threads // row.size(role_threads))
    return (Var(row.axes[0], count) if count > 1 else 0), count


def whole_clusters(ctas: Sequence[Sequence[int]], cluster: Cta) -> tuple[Cta, ...]:
    """The CTAs, missing axes 0, with every other CTA of their clusters: a cluster barrier waits for all.

    >>> whole_clusters([(3,)], (2, 1, 1))
    ((2, 0, 0), (3, 0, 0))
    """
    padded = [(*cta, 0, 0, 0)[:3] for cta in ctas]
    if cluster == (1, 1, 1):
        return tuple({(x, y, z): None for x, y, z in padded})
    offsets = [(x, y, z) for z in range(cluster[2]) for y in range(cluster[1]) for x in range(cluster[0])]
    found: dict[Cta, None] = {}
    for cta in padded:
        for offset in offsets:
            x, y, z = (c // n * n + o for c, n, o in zip(cta, cluster, offset, strict=True))
            found[x, y, z] = None
    return tuple(found)
