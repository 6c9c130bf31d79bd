"""What CTAs of a cluster do for one another: who is reached, that all do it alike, that none ends before the others."""

from __future__ import annotations

from tilegen.index import Index, Var, add, bound, mul, substitute, variables
from tilegen.plan import Peers
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.spec.data import ArriveStatement, Call, Spec, Statement, SyncStatement
from tilegen.spec.findings import Findings
from tilegen.spec.outline import Placed, names_of_integers, place_statements, walk_statements

Cluster = tuple[int, int, int]


def find_peers(cluster: Cluster, axis: str) -> Peers:
    """The CTAs along an axis of the cluster, the own one too.

    >>> find_peers((2, 1, 1), "cbx")
    Peers(bits=3, first=0)
    >>> print(find_peers((2, 4, 1), "cby").first, bin(find_peers((2, 4, 1), "cby").bits))
    cbx 0b1010101
    """
    rank: Index = 0
    step, steps = 1, {}
    for name, count in zip(CLUSTER_AXES, cluster, strict=True):
        steps[name] = step
        if name != axis and count > 1:
            rank = add(rank, mul(Var(name, count), step))
        step *= count
    count = dict(zip(CLUSTER_AXES, cluster, strict=True))[axis]
    return Peers(sum(1 << k * steps[axis] for k in range(count)), rank)


def count_peers(cluster: Cluster, axis: str) -> int:
    """How many CTAs are reached along an axis; the own one alone without an axis."""
    return dict(zip(CLUSTER_AXES, cluster, strict=True)).get(axis, 1)


def check_clusters(spec: Spec, findings: Findings) -> None:
    """Reports TG120 where CTAs would not do alike what they do together, and TG121 where one may end too early."""
    reaching = _find_reaching(spec)
    for placed in reaching:
        if isinstance(placed.statement, Call):
            with findings.collect():
                _check_alike(spec, placed, findings)
    last = spec.ops[-1] if spec.ops else None
    if reaching and not (isinstance(last, SyncStatement) and last.scope == "cluster" and last.when is True):
        message = "other CTAs of the cluster are reached here, and may have ended: the last statement is no meeting"
        findings.report("TG121", message, reaching[-1].statement.mark, "end 'ops' with '- sync: cluster'")


def _find_reaching(spec: Spec) -> list[Placed]:
    """The statements that reach other CTAs."""
    statements = tuple(walk_statements(spec.ops))
    if not any(map(_reaches, statements)):
        return []
    names = {p.name for p in spec.params} | names_of_integers(statements)  # a counted variable takes none of them
    return [placed for placed in place_statements(spec.ops, frozenset(names))[0] if _reaches(placed.statement)]


def _reaches(s: Statement) -> bool:
    return bool((isinstance(s, Call) and s.peers) or (isinstance(s, ArriveStatement) and s.to))


def _check_alike(spec: Spec, placed: Placed, findings: Findings) -> None:
    """A copy to all CTAs along an axis is of one region, and is made equally often by each of them."""
    call = placed.statement
    assert isinstance(call, Call)
    meant, axis = placed.meant, call.peers
    array = next(r for r in call.regions.values() if r.buffer.traits.is_array)
    begins = [(x, f"the source begins at {x}") for x in array.begins]
    asked = [(one.count, f"the trips of '{one.loop.var.name}' are {one.count}") for one in meant.loops]
    asked += [(guard, f"it is run where {guard}") for guard in (*meant.guards, call.when)]
    for x, said in (*begins, *asked):
        if _depends(substitute(x, meant.values), axis, spec):
            message = f"all CTAs along {axis} make this copy together, each a part of it, and {said}: that differs"
            hint = f"it may not depend on {axis}; b{axis[-1]} // {count_peers(spec.cluster, axis)} is equal in all"
            findings.report("TG120", message, (array.mark if (x, said) in begins else None) or call.mark, hint)
            return


def _depends(x: Index, axis: str, spec: Spec) -> bool:
    """Does an expression differ along an axis of the cluster, as far as can be seen?"""
    count, cta = count_peers(spec.cluster, axis), CTA_AXES[CLUSTER_AXES.index(axis)]
    own = Var(axis, count)
    whole = {v.name: v for v in variables(x)}.get(cta)
    if whole is not None:
        x = substitute(x, {cta: add(mul(Var(f"{cta}_of_cluster", -(-bound(whole) // count) + 1), count), own)})
    return any(v.name == axis for v in variables(x))
