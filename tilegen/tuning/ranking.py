"""The model's order of candidates: recipes by their model of time, values of params by the least time of a launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod

from tilegen.cost.rates import LaunchTerms, bound_seconds
from tilegen.dtypes import DTYPES
from tilegen.errors import SpecError
from tilegen.index import evaluate
from tilegen.ops import WHOLE_OPS
from tilegen.ops.tally import tally_spec
from tilegen.plan import default_values
from tilegen.scopes import SCOPES
from tilegen.spec.data import Call, Spec
from tilegen.spec.outline import launch_of, outline
from tilegen.spec.pinning import Pins
from tilegen.spec.program import Program
from tilegen.spec.sources import NamedText
from tilegen.tuned import read_spec
from tilegen.tuning.candidates import Candidate, LeftOut, candidate_of, find_whole, name_pins, read_pinned

MOST_RECIPES = 512  # of one assignment of params


def rank_assignments(
    base: NamedText, arch: str | None, settings: Mapping[str, int | float], assignments: Sequence[Mapping[str, int]]
) -> list[Candidate | LeftOut]:  # fmt: skip
    """The candidates of some assignments of params, in any order, and what cannot be built of them.

    ``base``: the spec; ``settings``: other params that were set.
    """
    spec = read_spec(base, arch, settings)
    found: list[Candidate | LeftOut] = []
    for assignment in assignments:
        keys = {"arch": spec.arch} if arch else {}
        pins = Pins(keys, {**settings, **assignment})
        try:
            found += _list_of(spec, pins, assignment)
        except SpecError as error:
            found.append(LeftOut(name_pins(assignment, {}), error.diagnostics[0].message))
    return found


def _list_of(base: Spec | Program, pins: Pins, assignment: Mapping[str, int]) -> list[Candidate | LeftOut]:
    name, spec = name_pins(assignment, {}), read_pinned(base, pins)
    call = None if isinstance(spec, Program) else find_whole(spec)
    recipes = [] if call is None or isinstance(spec, Program) else WHOLE_OPS[call.op].candidates(call, spec)
    if call is None or not recipes:
        return [candidate_of(spec, pins, name, estimate_us(spec))]
    found: list[Candidate | LeftOut] = []
    for fields, seconds in recipes[:MOST_RECIPES]:
        own = Pins(pins.keys, pins.params, ops=[(call.op, fields)])
        name = name_pins(assignment, fields)
        try:
            found.append(candidate_of(read_pinned(base, own), own, name, seconds * 1e6))
        except SpecError as error:
            found.append(LeftOut(name, error.diagnostics[0].message))
    return found


def estimate_us(spec: Spec | Program) -> float | None:
    """The least microseconds that a launch of tile ops takes, by what its statements do; None where nobody counts them.

    Raises nothing: a spec whose statements ``tally_spec`` does not know has no estimate.
    """
    if isinstance(spec, Program):
        return None
    try:
        tally = tally_spec(spec)
    except (TypeError, NameError):  # moves, or tables, that no tally knows
        return None
    values = default_values(spec.params)
    sizes = {b.name: prod(int(evaluate(n, values)) for n in b.shape) * DTYPES[b.dtype].bytes for b in spec.buffers}
    arrays = sum(sizes[b.name] for b in spec.buffers if b.traits.is_callers and b.root == b.name)
    shared = sum(sizes[b.name] for b in spec.buffers if b.traits.is_pooled and b.root == b.name)
    products = [c for c in outline(spec).calls if c.op == "mma"]
    factors = next((c.regions["a"].buffer.dtype for c in products), "")
    sums = {c.regions["c"].buffer.root: _count_sums(spec, c) for c in products}
    terms = LaunchTerms(
        spec.arch, max(1, prod(launch_of(spec).grid)), max(1, spec.threads), shared, sum(sums.values()), factors, arrays
    )
    return bound_seconds(terms, tally) * 1e6


def _count_sums(spec: Spec, call: Call) -> int:
    """32-bit registers of a thread that a product adds to."""
    region = call.regions["c"]
    size = prod(region.lengths) * DTYPES[region.buffer.dtype].bytes
    return -(-size // 4 // SCOPES[call.scope].size(spec.threads_of(call.role)))


def sort_candidates(found: Sequence[Candidate], first: str) -> list[Candidate]:
    """The model's order: by estimate, equal ones and those without any as they come; what a plain build is, first.

    ``first``: the key of that one. Candidates of one key are one.
    """
    unique = list({c.key: c for c in reversed(found)}.values())[::-1]
    ordered = sorted(unique, key=lambda c: round(c.estimate_us, 1) if c.estimate_us is not None else inf)
    return sorted(ordered, key=lambda c: c.key != first)
