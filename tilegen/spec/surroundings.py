"""What holds where a statement stands: names, the nests around it, and the cases that it may run with."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass, field, replace

from tilegen.errors import Mark
from tilegen.index import Index, Var, bound, every
from tilegen.scopes import CLUSTER_AXES, SCOPES, THREAD_AXES, thread_variables
from tilegen.spec.buffers import Buffers
from tilegen.spec.findings import Findings, Flawed
from tilegen.spec.form import Form
from tilegen.spec.names import Names, Register
from tilegen.spec.nodes import Mapping, Node, Scalar
from tilegen.spec.ranges import Cases, Range
from tilegen.spec.tables import Read
from tilegen.spec.terms import BarrierTerms, RoleTerms


@dataclass(frozen=True)
class Surroundings:
    """All that a statement may refer to."""

    forms: Dict[str, Form]
    buffers: Buffers
    names: Names  # params, CTA axes and the loops around
    cases: Cases
    register: Register
    findings: Findings
    threads: int  # that run it, or it is run by a scope of: the CTA's, or in a role the role's; 0 where they are wrong
    cluster: tuple[int, int, int] = (1, 1, 1)
    roles: Dict[str, RoleTerms] = field(default_factory=dict)
    terms: Dict[str, BarrierTerms] = field(default_factory=dict)  # of the declared barriers
    broken_roles: frozenset[str] = frozenset()  # reported before
    role: str = ""  # that it stands in
    scope: str = "cta"  # of the op that is read
    is_top: bool = True  # in the list of the spec itself
    is_nested: bool = False  # inside of a loop or a condition
    reads: tuple[tuple[Var, Read], ...] = ()  # of lets so far, in sight
    conditions: tuple[tuple[frozenset[str], Mark], ...] = ()  # around, that differ between threads: along which axes

    def check_agree(self, scope: str, what: str, mark: Mark) -> None:
        """Raises TG113 where threads that run this together differ on a condition around it."""
        for axes, place in self.conditions:
            if not axes <= set(SCOPES[scope].axes):
                differing = ", ".join(sorted(axes - set(SCOPES[scope].axes)))
                message = f"{what} is run by {SCOPES[scope].one} together, but stands under a condition on {differing}"
                raise Flawed("TG113", message, mark, f"the condition is on {place.spot}")

    @property
    def is_outside(self) -> bool:
        """Does it stand beside role blocks, and all threads run it?"""
        return bool(self.roles) and not self.role

    def check_peers(self, key: str, node: Mapping) -> str:
        """The axis of the cluster that a field names, "" if there is none; raises TG106 where it has but one CTA."""
        named = node.get(key)
        if not isinstance(named, Scalar) or named.text not in CLUSTER_AXES:
            return ""  # reported with the fields
        if dict(zip(CLUSTER_AXES, self.cluster, strict=True))[named.text] == 1:
            message = f"'{key}: {named.text}' is for several CTAs along {named.text}, and clusters here have one"
            raise Flawed("TG106", message, named.mark, f"add 'cluster: {{{named.text}: 2}}'")
        return named.text

    def check_scope(self, scope: str, place: Node | None, mark: Mark) -> str:
        """The scope, or where none is given the widest; raises TG119 for cta in a role, and for role in none."""
        if not scope:
            return "role" if self.role else "cta"
        at = place.mark if place else mark
        if scope == "cta" and self.role:
            message = f"scope cta in role '{self.role}': other roles do not run this"
            raise Flawed("TG119", message, at, "write 'scope: role', or nothing, which means that")
        if scope == "role" and not self.role:
            raise Flawed("TG119", "scope role outside of a role", at, "write 'scope: cta'")
        return scope

    def check_unit(self, scope: str, mark: Mark, what: str) -> None:
        """Raises TG106 where the threads are no whole number of instances."""
        unit = SCOPES[scope].threads
        if unit and self.threads % unit:
            whose = f"the threads of role '{self.role}'" if self.role else "'threads'"
            message = f"{what} of scope {scope} needs {whose} to be a multiple of {unit}, not {self.threads}"
            raise Flawed("TG106", message, mark)


def instance_cases(cases: Cases, scope: str, threads: int, condition: Index) -> Cases:
    """The cases of one statement: those around it, each instance of its scope, where its condition holds."""
    axes, known = thread_variables(threads), set(SCOPES[scope].axes)
    condition = every(cases.condition, condition)
    if not known:
        return replace(cases, condition=condition)
    free = SCOPES[scope].axes[0]
    derived = dict(cases.derived)
    if scope == "thread":
        derived |= {name: axes[name] for name in THREAD_AXES if name != "tx"}
    elif scope == "warp":
        warp = Var("warpid", bound(axes["warpid"]))
        derived |= {"wgid": warp // 4, "wid_in_wg": warp % 4}
    derived |= {name: value for name, value, own in cases.threaded if own <= known}
    walks = (*cases.walks, Range(free, 0, bound(axes[free])))
    return replace(cases, walks=walks, derived=tuple(derived.items()), condition=condition)
