"""What the roles of a plan's first CTA do, run as a proof runs it: a log to look at, and no proof."""

from __future__ import annotations

from tilegen.interpret import Record, record
from tilegen.plan import Plan
from tilegen.proofs.meaning import parameter_cases, proving_domain, proving_inputs
from tilegen.spec.data import Spec


def record_events(spec: Spec, plan: Plan, rows: int) -> Record:
    """So many rows of events of the first CTA and its cluster, at the default parameters; a fault ends them."""
    case = parameter_cases(spec)[0]
    inputs = next(iter(proving_inputs(spec, plan, case)))
    return record(plan, (0, 0, 0), inputs, case, rows, proving_domain(spec))
