"""What the proofs say of a mutant; of one that they pass, whether it is the same kernel."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import pytest

from tests.faults.mutants import Mutant
from tests.faults.verdicts import proof_code
from tilegen.arithmetic import TYPED, Domain
from tilegen.index.recurrences import ALL_TRIPS
from tilegen.interpret import FaultFound, corners, interpret
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan
from tilegen.proofs import finding, floats, prove
from tilegen.proofs.fillings import fill_each
from tilegen.proofs.meaning import parameter_cases, proving_domain, proving_inputs
from tilegen.proofs.runs import check_run, list_runs
from tilegen.reference import Input
from tilegen.spec.data import Spec
from tilegen.spec.outline import is_possible, launch_of

EQUIVALENT = {
    "sync dropped": "orders nothing", "fence late": "stands before the sync that tells of it",
    "wait dropped": "nothing is in flight there",
    "wait weakened": "nothing is in flight there", "guard tightened": "asks the same of every thread",
    "half away": "fills the same elements", "one residue": "fills the same elements",
    "other lanes": "exchanges the same values",
    "step dropped": "what it writes was there or is not read",
    "trip dropped": "what it writes was there or is not read",
    "other literal": "what it sets changes no result", "other register": "holds the same values",
    "register index": "holds the same values",
    "step twice": "changes nothing the second time", "other stage": "is told at another time, and orders no less",
    "other alignment": "is accessed one element at a time", "other integer": "picks the same values",
}  # fmt: skip
_IN_ANOTHER_ORDER = "adds the same terms in another order"  # the results differ in their rounding alone
OTHER_ORDER = dict.fromkeys(("half away", "one residue", "other stage"), _IN_ANOTHER_ORDER)
WHOLE_GRID = {
    finding.UNPROVEN_MEETING, finding.UNPROVEN_RANGE, finding.UNPROVEN_ALIGNMENT, finding.UNPROVEN_CLAIM,
    finding.TWO_OWNERS, finding.NO_OWNER, finding.NOT_PARTITIONED,
}  # fmt: skip
_ALL_CTAS, _SOME_CTAS = 512, 32  # that run, to see whether a condition asks the same, and whether values are the same
_OF_SIZES = ("guard tightened", "condition flipped", "trip dropped", "register index")  # what other sizes may show
_FIRST_SIZE, _LARGER_SIZES = 40, (515, 4099)
_OTHER_SEED = 2  # of inputs that no proof has seen

EVERY = [pytest.param(4, id="a quarter of them"), pytest.param(1, id="all", marks=pytest.mark.slow)]  # for parametrize
Written = Mapping[str, Sequence[bytes]]


@dataclass(frozen=True)
class Verdict:
    """``found``: the code of the proof that reported the mutant; ``run``: the code that running alone gives it.

    A mutant that no proof reports has a ``reason`` why it is the same kernel; without one it survives, which is a bug.
    """

    found: str
    run: str
    reason: str = ""

    @property
    def survives(self) -> bool:
        return not (self.found or self.reason)


def judge(spec: Spec, plan: Plan, mutant: Mutant) -> Verdict:
    """What the proofs say of a mutant, and of one that passes them whether it is the same kernel."""
    found = run = proof_code(lambda: prove(spec, mutant.plan))
    if found in WHOLE_GRID or found == floats.BEYOND:  # else the runs said it, and nothing else came before
        each = [one for one in fill_each(spec, mutant.plan) if one.has_runs]
        run = proof_code(lambda: [check_run(f.spec, f.plan, run) for f in each for run in list_runs(f.spec, f.plan)])
    return Verdict(found, run, "" if found else find_reason(spec, plan, mutant))


def find_reason(spec: Spec, plan: Plan, mutant: Mutant) -> str:
    """Why a mutant is the same kernel: both run on inputs that no proof has seen; "" for one that is another.

    Where they read tables, with all that these are proved to hold.
    """
    if mutant.kind not in EQUIVALENT:
        return ""
    pairs = zip(fill_each(spec, plan), fill_each(spec, mutant.plan), strict=True)
    reasons = [_find_filled(one.spec, one.plan, other.plan, mutant.kind) for one, other in pairs if one.has_runs]
    return "" if not all(reasons) else reasons[-1]


def _find_filled(spec: Spec, plan: Plan, other_plan: Plan, kind: str) -> str:
    cases = parameter_cases(spec)
    sizes = _other_sizes(spec, cases[0]) if kind in _OF_SIZES else []
    for case in (*cases, *sizes):
        ctas = choose_ctas(launch_of(spec, case).grid, kind)
        for inputs in proving_inputs(spec, plan, case, _OTHER_SEED):
            mine, other = (_write(p, ctas, inputs, case, proving_domain(spec)) for p in (plan, other_plan))
            if mine != other:
                return ""
    if floats.computes(spec):  # the exact run does not see in which order terms are added
        ctas, drawn = choose_ctas(launch_of(spec, cases[0]).grid, kind), floats.float_inputs(plan, _OTHER_SEED)
        mine, other = (_write(p, ctas, drawn, cases[0], TYPED) for p in (plan, other_plan))
        if mine != other:
            return OTHER_ORDER.get(kind, "")
    return EQUIVALENT[kind]


def _other_sizes(spec: Spec, default: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Each parameter at as many sizes in a row as an access has elements, small ones too, and at two larger ones."""
    for p in spec.params:
        if p.var is not None and p.launched is None:
            for k in (*range(_FIRST_SIZE, _FIRST_SIZE + 16), *range(2, 32), *_LARGER_SIZES):
                case = {**default, p.name: k * p.var.step}
                if case[p.name] < p.var.bound and is_possible(spec, case):
                    yield case


def choose_ctas(grid: tuple[int, int, int], kind: str) -> list[Cta]:
    """Those that show whether a mutant is the same: all of a small grid, some of a large one beside its corners.

    What orders nothing in the corners orders nothing elsewhere. A condition may be another's in any CTA.
    """
    if kind in ("sync dropped", "wait dropped", "wait weakened"):
        return corners(grid)
    if prod(grid) <= (_ALL_CTAS if kind == "guard tightened" else _SOME_CTAS):
        return list(product(*map(range, grid)))  # type: ignore[arg-type]
    drawn = random.Random(0)
    some = [tuple(drawn.randrange(n) for n in grid) for _ in range(_SOME_CTAS)]
    return list(dict.fromkeys([*corners(grid), *some]))  # type: ignore[list-item]


def _write(
    plan: Plan, ctas: Sequence[Cta], inputs: Mapping[str, Input], case: Mapping[str, int], domain: Domain
) -> Written | None:
    """What CTAs write, to the bit; None for a fault."""
    try:
        written = interpret(plan, ctas, inputs, case, ALL_TRIPS, domain).written
    except FaultFound:
        return None
    return {name: [part.tobytes() for part in parts] for name, parts in written.items()}


def list_survivors(spec: Spec, plan: Plan, mutants: Sequence[Mutant]) -> list[str]:
    """Where those lie that no proof finds."""
    return [m.where for m in mutants if judge(spec, plan, m).survives]
