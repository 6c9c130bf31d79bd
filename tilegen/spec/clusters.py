"""What CTAs of a cluster do for one another: who is reached, that all do it alike, that none ends before the others."""

from __future__ import annotations

from math import prod

from tilegen.index import Index, Var, substitute, variables
from tilegen.plan import MBARRIER, Peers
from tilegen.scopes import CLUSTER_AXES
from tilegen.spec.data import ArriveStatement, Call, Spec, Statement, SyncStatement, WaitStatement
from tilegen.spec.findings import Findings, Flawed
from tilegen.spec.outline import Placed, names_of_integers, place_statements, walk_statements
from tilegen.spec.pairs import PAIR, Cluster, at_place, count_places, find_rank, is_of_pair, is_shared, runs_in_odd


def find_peers(cluster: Cluster, axis: str) -> Peers:
    """The CTAs along an axis of the cluster, the own one too.

    >>> find_peers((2, 1, 1), "cbx")
    Peers(bits=3, first=0)
    >>> print(find_peers((2, 4, 1), "cby").first, bin(find_peers((2, 4, 1), "cby").bits))
    cbx 0b1010101
    """
    at = CLUSTER_AXES.index(axis)
    step = prod(cluster[:at])
    return Peers(sum(1 << k * step for k in range(cluster[at])), find_rank(cluster, {axis: 0}))


def count_peers(cluster: Cluster, axis: str) -> int:
    """How many CTAs are reached along an axis; the own one alone without an axis."""
    return dict(zip(CLUSTER_AXES, cluster, strict=True)).get(axis, 1)


def check_clusters(spec: Spec, findings: Findings) -> None:
    """Reports TG120 where CTAs would not do alike what they do together, and TG121 where one may end too early."""
    reaching = _find_reaching(spec)
    for placed in reaching:
        if isinstance(placed.statement, Call) and placed.statement.peers:
            with findings.collect():
                _check_alike(spec, placed, findings)
    last = spec.ops[-1] if spec.ops else None
    if reaching and not (isinstance(last, SyncStatement) and last.scope == "cluster" and last.when is True):
        message = "other CTAs of the cluster are reached here, and may have ended: the last statement is no meeting"
        findings.report("TG121", message, reaching[-1].statement.mark, "end 'ops' with '- sync: cluster'")


def _find_reaching(spec: Spec) -> list[Placed]:
    """The statements that reach other CTAs."""
    if not any(_reaches(spec, s) for s in walk_statements(spec.ops)):
        return []
    return [placed for placed in _place_all(spec) if _reaches(spec, placed.statement)]


def _place_all(spec: Spec) -> tuple[Placed, ...]:
    """Every statement with what is around it, whatever is wrong with barriers."""
    names = {p.name for p in spec.params} | names_of_integers(tuple(walk_statements(spec.ops)))
    return place_statements(spec.ops, frozenset(names))[0]  # a counted variable takes none of the names


def _reaches(spec: Spec, s: Statement) -> bool:
    if isinstance(s, Call) and (s.peers or is_of_pair(spec, s)):
        return True
    return isinstance(s, Call | ArriveStatement) and (bool(getattr(s, "to", "")) or _tells_even(spec, s))


def _tells_even(spec: Spec, s: Call | ArriveStatement) -> bool:
    return s.barrier is not None and is_shared(spec, s.barrier.name)


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
    own = Var(axis, count_peers(spec.cluster, axis))
    return any(v.name == axis for v in variables(at_place(x, CLUSTER_AXES.index(axis), own, spec.cluster)))


# ---------------------------------------------------------------- pairs
def check_pairs(spec: Spec, findings: Findings) -> None:
    """Reports TG212 for a product of other extents than its CTAs have, TG106 for what is of pairs where there are none,
    TG120 for what the even CTA alone may do, and TG190 for what comes later.
    """
    if spec.cta_group < PAIR:
        for barrier in spec.barriers:
            if barrier.pair:
                message = f"'{barrier.name}' is one for both CTAs of a pair, and there are no pairs"
                findings.report("TG106", message, barrier.mark, "add 'cta_group: 2' and 'cluster: {cbx: 2}'")
        if not any(b.traits.has_cells for b in spec.buffers):
            return
    for placed in _place_all(spec):
        s = placed.statement
        with findings.collect():
            if isinstance(s, Call) and s.op == "mma" and s.regions["c"].buffer.traits.has_cells:
                _check_columns(spec, s)
            if isinstance(s, Call) and is_of_pair(spec, s):
                _check_product(spec, placed, s)
            elif isinstance(s, Call | ArriveStatement) and _tells_even(spec, s):
                _check_telling(s)
                if isinstance(s, Call):
                    _check_both(spec, placed, s)
            elif isinstance(s, WaitStatement) and s.barrier is not None and is_shared(spec, s.barrier.name):
                _check_even(spec, placed, s, f"'{s.barrier.name}' is the even CTA's, which alone waits for it")


def _check_columns(spec: Spec, call: Call) -> None:
    """c has the columns of b, in pairs those of both CTAs' b. Raises TG212."""
    (m, k), n, c = call.regions["a"].shape, call.regions["b"].shape[1], call.regions["c"].shape
    if c == (m, n * spec.cta_group):
        return
    if spec.cta_group < PAIR:
        message = f"the product of a, {[m, k]}, and b, {[k, n]}, is {[m, n]}, but c has {list(c)}"
        raise Flawed("TG212", message, call.mark_of("c"), "'cta_group: 2' multiplies by b of two CTAs")
    what = f"of a, {[m, k]}, and b, {[k, n]}, in each CTA, is {[m, PAIR * n]}"
    hint = "b has half of c's columns: the other CTA of the pair has the rest"
    raise Flawed("TG212", f"a pair's product {what} in each, but c has {list(c)}", call.mark_of("c"), hint)


def _check_product(spec: Spec, placed: Placed, call: Call) -> None:
    """One CTA starts a pair's product, with operands at the same places in both. Raises TG120, TG190."""
    for name, region in call.regions.items():
        later = {"sfa": "scale factors", "sfb": "scale factors"}.get(name, "")
        if name == "a" and region.buffer.traits.has_cells:
            later = "a in tensor memory"
        if later:
            message = f"a product of a pair of CTAs with {later} is not yet supported"
            raise Flawed("TG190", message, region.mark, "one of a CTA has it: 'cta_group: 1'")
        if any(_depends(substitute(x, placed.meant.values), CLUSTER_AXES[0], spec) for x in region.begins):
            message = f"a pair's product takes the same places in both CTAs, and {region.text} differs between them"
            raise Flawed("TG120", message, region.mark, "it may not depend on cbx; bx // 2 is equal in both")
    _check_even(spec, placed, call, "a pair's product is started by the even CTA alone")


def _check_telling(s: Call | ArriveStatement) -> None:
    """At a barrier of pairs arrive threads, products and plain loads of TMA. Raises TG190."""
    assert s.barrier is not None
    if isinstance(s, ArriveStatement):
        later = "'to'" if s.to else ""
    else:
        later = "'multicast'" if s.peers else "" if s.queue == MBARRIER else "a copy by cp.async"
    if later:
        message = f"{later} at '{s.barrier.name}', which is one for both CTAs of a pair, is not yet supported"
        raise Flawed("TG190", message, s.barrier.mark or s.mark, "declare it without 'pair'")


def _check_both(spec: Spec, placed: Placed, call: Call) -> None:
    """Both CTAs of a pair load for a barrier of theirs, as the even one announces the bytes of both. Raises TG120."""
    guards = (*placed.meant.guards, substitute(call.when, placed.meant.values))
    evens = range(0, spec.cluster[0], PAIR)
    if any(count_places(guards, 0, spec.cluster, range(even, even + PAIR)) == 1 for even in evens):
        message = "the even CTA announces the bytes that both of a pair load, and one of them does not load here"
        raise Flawed("TG120", message, call.mark, "leave the condition out, and choose the region by cbx")


def _check_even(spec: Spec, placed: Placed, s: Call | WaitStatement, why: str) -> None:
    """What odd CTAs may not do stands under a condition that never holds there. Raises TG120."""
    conditions = (*placed.meant.guards, substitute(s.when, placed.meant.values))
    if runs_in_odd(conditions, spec.cluster):
        raise Flawed("TG120", f"{why}, and an odd CTA may come here too", s.mark, "put it under 'when: cbx % 2 == 0'")
