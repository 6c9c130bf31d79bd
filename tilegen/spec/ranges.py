"""Whether a region stays inside its buffer: decided by ranges where they suffice, else by a search for a bad case.

A case found is an error of the spec. A region for which none is found and no range decides is left to the proofs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tilegen.errors import Mark
from tilegen.index import Index, add, any_of, dividends, equal, evaluate, every, least, less, variables
from tilegen.plan import Param
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Region
from tilegen.spec.findings import Flawed, shorten
from tilegen.spec.spelling import spell_index

MAX_CASES = 3000  # tried for one region
MAX_CASES_OF_A_SPEC = 60_000  # then regions that no range decides are left to the proofs
_FEW = 6  # counts up to this are tried whole


@dataclass(frozen=True)
class Range:
    """A variable that runs over range(start, stop, step); the three may name variables that come before it."""

    name: str
    start: Index
    stop: Index
    step: Index = 1


@dataclass
class Budget:
    """How many cases may still be tried."""

    left: int = MAX_CASES_OF_A_SPEC


@dataclass(frozen=True)
class Cases:
    """All that a statement may run with: runtime params, then variables, then names that follow from them."""

    params: tuple[Param, ...] = ()
    walks: tuple[Range, ...] = ()
    derived: tuple[tuple[str, Index], ...] = ()
    threaded: tuple[tuple[str, Index, frozenset[str]], ...] = ()  # names whose values differ along those thread axes
    condition: Index = True
    budget: Budget = field(default_factory=Budget)

    def walk(self, *walks: Range) -> Cases:
        """These cases, with more variables."""
        return replace(self, walks=self.walks + walks)


def check_region_range(region: Region, cases: Cases, may_clip: bool, hint: str = "") -> None:
    """Raises TG207, naming the first case where the region leaves its buffer; ``hint`` is what would mend that."""
    for dimension, (begin, length) in enumerate(zip(region.begins, region.lengths, strict=True)):
        check_dividends(begin, cases, region.mark, "TG207")
        extent = region.buffer.shape[dimension]
        if may_clip or (least(begin) >= 0 and less(add(begin, length - 1), extent) is True):
            continue
        case = find_case(any_of(less(begin, 0), less(extent, add(begin, length))), cases)
        if case is not None:
            raise _explain(region, dimension, case, cases, hint)


def check_dividends(x: Index, cases: Cases, mark: Mark | None, code: str = "TG112") -> None:
    """Raises Flawed of ``code``, naming the first case where something in ``x`` is divided that is negative."""
    for part, condition in dividends(x):
        case = find_case(every(less(part, 0), condition), cases)
        if case is not None:
            message = f"'{shorten(part)}' is {int(evaluate(part, case))}: what is divided is never negative"
            raise Flawed(code, message + _name_case((part, condition), case, cases), mark)


def find_case(condition: Index, cases: Cases) -> dict[str, int] | None:
    """Values of the variables for which a condition holds, the first ones if that is monotone; None if none is met."""

    def holds(values: dict[str, int]) -> bool:
        try:
            return bool(evaluate(cases.condition, values)) and bool(evaluate(condition, values))
        except ZeroDivisionError:
            return False

    for values in _sample(cases, _needed((condition,), cases)):
        if holds(values):
            return _move_first(values, cases, holds)
    return None


def _needed(asked: Iterable[Index], cases: Cases) -> set[str]:
    """The variables that matter: others stay at their first value."""
    needed = {v.name for x in (*asked, cases.condition) for v in variables(x)}
    for name, formula in reversed(cases.derived):
        if name in needed:
            needed |= {v.name for v in variables(formula)}
    for walk in reversed(cases.walks):
        if walk.name in needed:
            needed |= {v.name for x in (walk.start, walk.stop, walk.step) for v in variables(x)}
    return needed


def _sample(cases: Cases, needed: set[str]) -> Iterator[dict[str, int]]:
    """Some of the cases: every corner, and few more."""
    last = max(0, cases.budget.left - MAX_CASES)
    for params in _sample_params(cases.params):
        for values in _sample_walks(cases, 0, params, needed):
            if cases.budget.left <= last:
                return
            cases.budget.left -= 1
            yield values


def _sample_params(params: tuple[Param, ...]) -> Iterator[dict[str, int]]:
    ints = [(p.var, int(p.default)) for p in params if p.var is not None]
    yield {var.name: default for var, default in ints}
    if ints:
        yield {var.name: var.least for var, _ in ints}
        yield {var.name: min(var.least + var.step, var.bound - 1) for var, _ in ints}


def _sample_walks(cases: Cases, at: int, values: dict[str, int], needed: set[str]) -> Iterator[dict[str, int]]:
    if at == len(cases.walks):
        yield _derive(cases, values)
        return
    walk = cases.walks[at]
    steps = _range_of(walk, values)
    for index in _pick(len(steps)) if walk.name in needed else range(min(1, len(steps))):
        yield from _sample_walks(cases, at + 1, {**values, walk.name: steps[index]}, needed)


def _range_of(walk: Range, values: dict[str, int]) -> range:
    try:
        start, stop, step = (int(evaluate(x, values)) for x in (walk.start, walk.stop, walk.step))
        return range(start, stop, max(1, step))
    except (ZeroDivisionError, NameError):
        return range(0)


def _pick(count: int) -> Iterable[int]:
    if count <= _FEW:
        return range(count)
    return dict.fromkeys((0, 1, 2, count // 2, count - 2, count - 1))


def _derive(cases: Cases, values: dict[str, int]) -> dict[str, int]:
    found = dict(values)
    for name, formula in cases.derived:
        found[name] = int(evaluate(formula, found))
    return found


def _move_first(values: dict[str, int], cases: Cases, leaves: Any) -> dict[str, int]:
    """Each variable in turn as low as it can be, by bisection (exact where leaving is monotone)."""
    for walk in cases.walks:
        steps = _range_of(walk, values)
        if values[walk.name] not in steps:
            continue
        low, high = 0, steps.index(values[walk.name])
        while low < high:
            middle = (low + high) // 2
            trial = _derive(cases, values | {walk.name: steps[middle]})
            if _is_case(trial, cases) and leaves(trial):
                high = middle
            else:
                low = middle + 1
        values = _derive(cases, values | {walk.name: steps[high]})
    return values


def _is_case(values: dict[str, int], cases: Cases) -> bool:
    return all(values[w.name] in _range_of(w, values) for w in cases.walks)


def _explain(region: Region, dimension: int, case: dict[str, int], cases: Cases, hint: str) -> Flawed:
    begin, extent = region.begins[dimension], region.buffer.shape[dimension]
    at, size = int(evaluate(begin, case)), int(evaluate(extent, case))
    name = f"dimension {dimension} of '{region.buffer.name}'"
    stop = at + region.lengths[dimension]
    if at < 0:
        message = f"the region starts at {at}, before {name}"
    else:
        message = f"the region ends at {stop}, past the end of {name}, which has {size}"
    where = _name_case((begin, extent), case, cases)
    if at >= 0 and (fits := _find_fitting(region, dimension, cases)) is not None:
        piece = f"{spell_index(begin)} : +{region.lengths[dimension]}"
        hint = f"'{piece}' fits dimension {fits} exactly: are the two exchanged?"
    cause = where if set(CTA_AXES) & {v.name for v in variables(begin)} else ""  # too many CTAs leave more than one
    return Flawed("TG207", message + where, region.mark, hint, cause)


def _find_fitting(region: Region, dimension: int, cases: Cases) -> int | None:
    """Another dimension of the buffer at whose end the last box along ``dimension`` ends, where that is no other's."""
    begin, length = region.begins[dimension], region.lengths[dimension]
    others = [d for d in range(len(region.begins)) if d != dimension and region.begins[d] != begin]
    own = _needed((begin,), cases)
    if not own:
        return None
    for d in others:
        extent = region.buffer.shape[d]
        end = add(begin, length)
        leaves = any_of(less(begin, 0), less(extent, end))
        if find_case(leaves, cases) is None and find_case(equal(end, extent), cases) is not None:
            return d
    return None


def _name_case(asked: Iterable[Index], case: dict[str, int], cases: Cases) -> str:
    """The values that matter, in words."""
    used = _needed(asked, cases)
    walks = [f"{w.name} = {case[w.name]}" for w in cases.walks if w.name in used]
    params = [f"{p.name} = {case[p.name]}" for p in cases.params if p.name in used]
    return (f", first at {', '.join(walks)}" if walks else "") + (f", with {', '.join(params)}" if params else "")
