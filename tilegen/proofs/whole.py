"""Ops on whole arrays: what the tiles that carry one out write is what the op itself means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tilegen.index import variables
from tilegen.index.courses import Course, Trips
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan
from tilegen.proofs.meaning import compare_whole, proving_domain, proving_inputs
from tilegen.reference import Array, run_reference
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Loop, Spec
from tilegen.spec.outline import launch_of, outline, trip_of

_WINDOWS, _WINDOW = 8, 512  # parts of what was written, and elements of each, that are compared
_ONE_TRIP = (Course(1), 1)


def check_whole(spec: Spec, plan: Plan, case: Mapping[str, int]) -> None:
    """The spec of an op that computes, with all of K and these params, against the op: of the first and last CTA some
    elements.

    Of the tiles that a CTA goes through the first and the last are made. Raises ProofError TG420.
    """
    call = spec.whole
    assert call is not None
    domain = proving_domain(spec)
    (inputs,) = proving_inputs(spec, plan, case)
    ctas = _whole_of(spec, case)
    written = run_reference(spec, ctas, inputs, case, Trips(dict.fromkeys(_tile_loops(spec), _ONE_TRIP)), domain)
    compare_whole(spec, call, {name: _sample(*found) for name, found in written.items()}, inputs, case, domain)


def _whole_of(spec: Spec, case: Mapping[str, int]) -> list[Cta]:
    """The first and the last CTA, with those of their clusters."""
    grid = launch_of(spec, case).grid
    found: list[Cta] = []
    for cta in (corners(grid)[0], corners(grid)[-1]):
        first = [x // n * n for x, n in zip(cta, spec.cluster, strict=True)]
        found += [(first[0] + i, first[1], first[2]) for i in range(spec.cluster[0])]
    return list(dict.fromkeys(found))


def _tile_loops(spec: Spec) -> Iterator[str]:
    """Loops over tiles: those that begin where the CTA says."""
    for placed in outline(spec).placed:
        s = placed.statement
        if isinstance(s, Loop) and not isinstance(s.start, int) and {v.name for v in variables(s.start)} & {*CTA_AXES}:
            yield trip_of(s, outline(spec).names)[0].name


def _sample(at: Array, values: Array) -> tuple[Array, Array]:
    """A few windows of what was written, in order."""
    if len(at) <= _WINDOWS * _WINDOW:
        return at, values
    firsts: Sequence[int] = np.linspace(0, len(at) - _WINDOW, _WINDOWS).astype(np.int64).tolist()
    picked = np.unique(np.concatenate([np.arange(first, first + _WINDOW) for first in firsts]))
    return at[picked], values[picked]
