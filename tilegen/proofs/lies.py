"""``edge: clip`` where a table holds what it must not: every access at such a place asks whether the promise is kept.

Ranges rest on what arrays promise, so they show nothing of elements that break it. Two things do. A tested element has
a value of its promise, whatever memory holds (its ``Fetch``, compared in ``terms``): no place leaves its array. And no
access at a place that it enters is made where it is not what memory holds, which is shown here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilegen.index import Formula, Index, conjuncts, least, sub
from tilegen.ops.lies import conditions_of
from tilegen.ops.placement import place_memories
from tilegen.ops.tables import list_tests
from tilegen.plan import Fetch, Plan, Tma, Touch, Visit, begin, walk
from tilegen.proofs.finding import UNPROVEN_CLAIM, Finding
from tilegen.spec.data import Spec
from tilegen.spec.outline import outline
from tilegen.spec.pads import is_clipped
from tilegen.spec.tested import find_uses

_NOWHERE = -1  # of a step that belongs to no op
Asked = Mapping[int, Mapping[str, Index]]  # by op and array: the condition that elements keep their promise


def check_lies(spec: Spec, plan: Plan) -> tuple[Finding, ...]:
    """An error for each access of a clipped op that a false promise would move to another place."""
    asked = _list_asked(spec)
    return tuple(_find_unasked(plan, asked)) if asked else ()


def _list_asked(spec: Spec) -> Asked:
    uses, tests, memories = find_uses(spec), list_tests(spec), place_memories(spec)
    found: dict[int, Mapping[str, Index]] = {}
    for number, call in enumerate(outline(spec).calls):
        if is_clipped(call) and (asked := conditions_of(call, uses.of_call(number), tests, memories)):
            found[number] = asked
    return found


def _find_unasked(plan: Plan, asked: Asked) -> Iterator[Finding]:
    of_any: dict[str, Index] = {name: c for one in asked.values() for name, c in one.items()}
    for role in plan.roles:
        for visit in walk(role.steps, begin(role.threads)):
            wanted = of_any if visit.position.op == _NOWHERE else asked.get(visit.position.op, {})
            if isinstance(visit.step, Fetch) or not wanted:
                continue
            for touch in visit.effects.touches:
                name = _name_array(visit, touch)
                if name in wanted and not _is_asked(visit, touch, wanted[name]):
                    message = (
                        f"an op with 'edge: clip' accesses {name} at a place of a table, "
                        "without the condition that the element keeps its promise"
                    )
                    yield Finding(UNPROVEN_CLAIM, message, "error", visit.position.op, name)


def _name_array(visit: Visit, touch: Touch) -> str:
    if touch.map is not None and touch.ref.memory.traits.is_array:
        return touch.map.memory.name
    root = visit.position.find(touch.ref).root
    return root.name if root.traits.is_array else ""


def _is_asked(visit: Visit, touch: Touch, wanted: Index) -> bool:
    held = {*visit.position.guards, *conjuncts(visit.position.expand(touch.where))}
    asked = conjuncts(visit.position.expand(wanted))
    step = visit.step
    if isinstance(step, Tma) and touch.reads and isinstance(step.at[0], Formula) and step.at[0].symbol == "?":
        condition, _, outside = step.at[0].args
        extent = step.map.memory.shape[step.map.dims[0]]
        if least(sub(outside, extent)) >= 0:
            held |= {*conjuncts(visit.position.expand(condition))}
    return all(c in held for c in asked)
