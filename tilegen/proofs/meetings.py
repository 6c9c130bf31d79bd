"""What threads carry out together is reached by all of them or by none, in every CTA and at every runtime size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilegen.index import Formula, Index, Var, add, div, mul, multiple, names_of, substitute
from tilegen.index.runs import counter
from tilegen.plan import Plan, Step, Sync, Visit, walk
from tilegen.plan.contents import COSTED
from tilegen.proofs.accesses import say
from tilegen.proofs.finding import UNPROVEN_MEETING, Finding
from tilegen.proofs.ranges import begin_role
from tilegen.scopes import SCOPES, thread_variables

_MEMBER = "member__"  # which of the threads that meet: a name that no spec may give


def unproven_meetings(plan: Plan) -> tuple[Finding, ...]:
    """Every instruction of a warp, and every sync, under a condition or in a loop that its threads may not agree on.

    Undefined on a GPU even where what the missing lanes had is not used: a shuffle names all lanes of its warp.
    """
    found: dict[Finding, None] = {}
    for role in plan.roles:
        start = replace(begin_role(plan, role).position, contents=COSTED)  # an element is one function of its place
        for visit in walk(role.steps, start):
            found.update(dict.fromkeys(_check(visit)))
    return tuple(found)


def _check(visit: Visit) -> Iterator[Finding]:
    name, scope = _together(visit)
    position = visit.position
    count = SCOPES[scope].size(position.threads) if scope else 0
    for x in (*position.guards, *(trips for _, trips in position.loops)) if scope else ():
        if not agree(x, position.threads, count):
            message = f"{name} is carried out by {SCOPES[scope].one} together, whose threads may differ on {say(x)}"
            yield Finding(UNPROVEN_MEETING, message, "error", position.op, expression=say(x))


def _together(visit: Visit) -> tuple[str, str]:
    """The step and the scope whose threads carry it out together; "" for what each thread does for itself."""
    step: Step = visit.step
    if isinstance(step, Sync):
        return f"sync: {step.who}", step.scope if step.scope in SCOPES else ""
    instruction = visit.effects.instruction
    return (instruction.name, "warp") if instruction and instruction.warp else ("", "")


def agree(x: Index, threads: int, count: int) -> bool:
    """Is ``x``, over the axes of a role of so many threads, the same in each ``count`` neighbours of them?

    >>> tx, n = Var("tx", 128), Var("n", 1 << 20)
    >>> agree(tx // 32 < n, 128, 32), agree(tx < 64, 128, 32), agree(tx < 48, 128, 32), agree(tx < n, 128, 32)
    (True, True, False, False)
    """
    teams = -(-threads // count)
    team = counter("team__", teams)
    tx = add(mul(team, count), Var(_MEMBER, count))
    axes = {name: substitute(axis, {"tx": tx}) for name, axis in thread_variables(threads).items()}
    return _is_same(substitute(x, axes))


def _is_same(x: Index) -> bool:
    """Does ``x`` not depend on the member? What is below a multiple of n is so with all that begin in the same n."""
    if _MEMBER not in names_of(x):
        return True
    if not isinstance(x, Formula):
        return False
    if x.symbol in ("&&", "||"):
        return all(map(_is_same, x.args))
    if x.symbol != "<":
        return False
    a, b = x.args
    return (_is_same(div(a, max(1, multiple(b)))) and _is_same(b)) or (
        _is_same(div(b, max(1, multiple(add(a, 1))))) and _is_same(a)
    )
