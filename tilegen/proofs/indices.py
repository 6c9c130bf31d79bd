"""What a spec indexes with, and what it divides, is never negative where the statement runs, in any CTA at any size.

But for regions of global arrays that their op clips: these may begin before the array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilegen.errors import Diagnostic, Mark
from tilegen.index import Formula, Index, dividends, least, substitute, variables
from tilegen.index.bounds import undecided
from tilegen.plan import Plan
from tilegen.proofs.accesses import ProofPlace, say
from tilegen.proofs.finding import UNPROVEN_RANGE
from tilegen.proofs.ranges import begin_role
from tilegen.spec.data import Call, LetStatement, Nest, Spec, Statement
from tilegen.spec.findings import shorten
from tilegen.spec.outline import Placed, deciding, outline
from tilegen.spec.pads import is_clipped
from tilegen.spec.spelling import spell_index
from tilegen.spec.tables import Read

_CONDITION = "a condition around it says that it is"
_CLAMP = "'max(a - b, 0)' has a range, 'max(a, b) - b' has none"
_LONGEST = 200  # characters of an expression whose names are written out, in a message


def unproven_indices(spec: Spec, plan: Plan) -> tuple[Diagnostic, ...]:
    """Every begin of a region, slot and dividend that may be negative as far as ranges and guards tell.

    Guards are the conditions around, the statement's own, and the counts of the loops around.
    """
    starts = {role.name: begin_role(plan, role) for role in plan.roles}
    first = starts[plan.roles[0].name]
    found = [d for placed in outline(spec).placed for d in _check(placed, starts.get(placed.role, first))]
    clamp = say_clamp(spec) or _CLAMP
    return tuple(dict.fromkeys(replace(d, hint=clamp) if d.hint == _CLAMP else d for d in found))


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
            place_text = f"{shorten(say(x), _LONGEST)} in dimension {d} of '{region.buffer.name}'"
            what = f"'{region.text}', which begins at {place_text},"
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
            said = f"{shorten(say(part), _LONGEST)}, which is divided in {what.rstrip(',')},"
            yield _say(here, part, f"{said} is not proved to be 0 or more", mark)


def _say(place: ProofPlace, x: Index, message: str, mark: Mark | None) -> Diagnostic:
    finding = place.report(UNPROVEN_RANGE, message, x, 0, undecided(x, 0))
    return Diagnostic(finding.code, finding.message, mark, _CLAMP if find_clamp(x) else _CONDITION)


def find_clamp(x: Index) -> tuple[Formula, Formula] | None:
    """The first ``max(a, c) - b`` of an expression: it, and its ``max``; None where there is none.

    >>> from tilegen.index import Var, maximum
    >>> a, b = Var("a", 9), Var("b", 9)
    >>> [str(part) for part in find_clamp((maximum(a, b) - b) * 4 + 1)]
    ['max(a, b) - b', 'max(a, b)']
    """
    if not isinstance(x, Formula):
        return None
    if x.symbol == "-" and isinstance(x.args[0], Formula) and x.args[0].symbol == "max" and variables(x.args[1]):
        return x, x.args[0]
    parts: list[Index] = list(x.args)
    if x.symbol == "max" and any(isinstance(a, int) for a in parts):  # what stands in it is clamped
        parts = [inside for a in parts if isinstance(a, Formula) for inside in (a.args if a.symbol == "-" else (a,))]
    return next((found for part in parts if (found := find_clamp(part)) is not None), None)


def say_clamp(spec: Spec) -> str:
    """What to write for the first ``max(a, b) - b`` of a spec, which has no range; "" where it has none."""
    for placed in outline(spec).placed:
        for x in _list_written(placed.statement):
            if (found := find_clamp(x)) is not None:
                difference, greatest = found
                taken = difference.args[1]
                others = [a for a in greatest.args if a != taken]
                rest = others[0] if len(others) < len(greatest.args) else greatest
                clamped = spell_index(replace(difference, args=(rest, taken)))
                said = f"'{spell_index(difference)}' has no range"
                return f"{said}: write 'max({clamped}, 0)', or put a 'when' around"
    return ""


def _list_written(s: Statement) -> Iterator[Index]:
    """The expressions of a statement that may be a place, a count or a name."""
    yield from deciding(s)
    if isinstance(s, LetStatement):
        yield from (value for _, value in s.entries if not isinstance(value, Read))
    if isinstance(s, Call):
        yield from (x for region in s.regions.values() for x in region.begins)
    slot = getattr(s, "barrier", None)
    if slot is not None:
        yield slot.index
