"""What a spec indexes with, and what it divides, is never negative where the statement runs, in any CTA at any size.

But for regions of global arrays that their op clips: these may begin before the array.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.errors import Diagnostic, Mark
from tilegen.index import Index, dividends, least, substitute
from tilegen.index.bounds import undecided
from tilegen.plan import Plan
from tilegen.proofs.finding import UNPROVEN_RANGE
from tilegen.proofs.ranges import ProofPlace, begin_role, say
from tilegen.spec.data import Call, LetStatement, Nest, Spec
from tilegen.spec.outline import Placed, deciding, outline
from tilegen.spec.pads import is_clipped
from tilegen.spec.tables import Read


def unproven_indices(spec: Spec, plan: Plan) -> tuple[Diagnostic, ...]:
    """Every begin of a region, slot and dividend that may be negative as far as ranges and guards tell.

    Guards are the conditions around, the statement's own, and the counts of the loops around.
    """
    starts = {role.name: begin_role(plan, role) for role in plan.roles}
    first = starts[plan.roles[0].name]
    found = (d for placed in outline(spec).placed for d in _check(placed, starts.get(placed.role, first)))
    return tuple(dict.fromkeys(found))


def _check(placed: Placed, start: ProofPlace) -> Iterator[Diagnostic]:
    s, meant = placed.statement, placed.meant
    mark: Mark | None = getattr(s, "mark", None)
    place = start.at(start.position.under(*meant.guards))
    values = dict(meant.values)
    for x in deciding(s):
        yield from _dividends(substitute(x, values), place, str(x), mark)
    if isinstance(s, LetStatement):
        for var, value in s.entries:
            if isinstance(value, Read):
                inside = start.at(place.position.under(substitute(value.when, values)))
                for d, x in enumerate(value.at):
                    what = f"dimension {d} of the element of '{value.array}' that is read"
                    yield from _index(substitute(x, values), inside, what, value.mark or mark)
                place = start.at(place.position.under(*(substitute(c, values) for c in value.known)))
                continue
            values[var.name] = substitute(value, values)
            yield from _dividends(values[var.name], place, f"{var.name} = {value}", mark)
    if isinstance(s, Nest | LetStatement):
        return
    inside = start.at(place.position.under(*(substitute(c, values) for c in deciding(s))))
    slot = getattr(s, "barrier", None)
    if slot is not None:
        what = f"slot {slot.index} of '{slot.name}'"
        yield from _index(substitute(slot.index, values), inside, what, slot.mark or mark)
        if slot.count is not None:
            what = f"{slot.count}, which counts the phases of '{slot.name}',"
            yield from _index(substitute(slot.count, values), inside, what, slot.mark or mark)
    if not isinstance(s, Call):
        return
    for region in s.regions.values():
        may_be_early = is_clipped(s) and region.buffer.traits.is_array
        for d, x in enumerate(region.begins):
            what = f"'{region.text}', which begins at {say(x)} in dimension {d} of '{region.buffer.name}',"
            yield from _index(substitute(x, values), inside, what, region.mark or mark, may_be_early)


def _index(
    x: Index, place: ProofPlace, what: str, mark: Mark | None, may_be_early: bool = False
) -> Iterator[Diagnostic]:  # fmt: skip
    if least(x) < 0 and not may_be_early and not place.is_below(-1, x):
        yield _say(place, x, f"{what} is not proved to be 0 or more", mark)
    yield from _dividends(x, place, what, mark)


def _dividends(x: Index, place: ProofPlace, what: str, mark: Mark | None) -> Iterator[Diagnostic]:
    for part, condition in dividends(x):
        here = place.at(place.position.under(condition))
        if not here.is_below(-1, part):
            message = f"{say(part)}, which is divided in {what}, is not proved to be 0 or more"
            yield _say(here, part, message, mark)


def _say(place: ProofPlace, x: Index, message: str, mark: Mark | None) -> Diagnostic:
    finding = place.report(UNPROVEN_RANGE, message, x, 0, undecided(x, 0))
    hint = "a condition around it says that it is"
    return Diagnostic(finding.code, finding.message, mark, hint)
