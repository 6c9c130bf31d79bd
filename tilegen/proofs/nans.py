"""NaN that elements are whatever the inputs: what verify notes, with the first place.

Inputs are finite, so a NaN in each of many runs comes of the kernel: of a row of which all is masked, 0 / 0. A NaN of
some runs, as sqrt gives of negative numbers, says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilegen.index.recurrences import ALL_TRIPS, Trips
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan
from tilegen.proofs.floats import FloatRun, float_inputs, run_bounded
from tilegen.reference import Array
from tilegen.spec.data import Spec

MORE_RUNS = 16  # of the meaning of one CTA, each with inputs of its own
_MOST_CTAS = 4  # that are looked at, of those in which an element was NaN in each run


@dataclass
class NanWatch:
    """Elements that were NaN in each of the runs so far: by array, sorted offsets."""

    suspects: dict[str, Array] = field(default_factory=dict)
    ctas: Sequence[Cta] = ()
    trips: Trips = ALL_TRIPS

    def see(self, ctas: Sequence[Cta], trips: Trips, values: Mapping[str, tuple[Array, Array]]) -> None:
        """One more run: by array sorted offsets and what was meant there."""
        own = {name: at[np.isnan(value)] for name, (at, value) in values.items()}
        self.join(NanWatch(own, ctas, trips))

    def join(self, other: NanWatch) -> None:
        """Runs that were watched elsewhere. Of CTAs that were not in all runs nothing is known."""
        self.ctas = tuple(cta for cta in self.ctas if cta in set(other.ctas)) if self.ctas else tuple(other.ctas)
        self.trips = other.trips
        for name, own in other.suspects.items():
            self.suspects[name] = np.intersect1d(self.suspects[name], own) if name in self.suspects else own


@dataclass(frozen=True)
class LastingNan:
    """Elements of an array that are NaN in each of so many runs: how many of a CTA, and the offset of the first."""

    name: str
    offset: int
    elements: int
    cta: Cta
    runs: int


def find_lasting_nans(
    spec: Spec, plan: Plan, case: Mapping[str, int], seeds: Sequence[int], watch: NanWatch
) -> tuple[LastingNan, ...]:
    """Of each array the first elements that are NaN with more inputs too, those of the ``seeds`` having been seen."""
    found = (_find_lasting(spec, plan, case, seeds, watch, name) for name in sorted(watch.suspects))
    return tuple(one for one in found if one is not None)


def _find_lasting(
    spec: Spec, plan: Plan, case: Mapping[str, int], seeds: Sequence[int], watch: NanWatch, name: str
) -> LastingNan | None:
    suspects, ctas, trips = watch.suspects[name], watch.ctas, watch.trips
    more = [max(seeds) + 1 + n for n in range(MORE_RUNS)]
    for _ in range(_MOST_CTAS):
        if not len(suspects):
            return None
        offset = int(suspects[0])
        cta = _find_cta(ctas, lambda some: _writes(_run(spec, plan, some, case, trips, 1).get(name), offset))  # noqa: B023
        stays, written = suspects, suspects[:0]
        for seed in more:
            written, value = _run(spec, plan, (cta,), case, trips, seed)[name]
            stays = np.intersect1d(stays, written[np.isnan(value)])
            if not len(stays):
                break
        if len(stays):
            return LastingNan(name, int(stays[0]), len(stays), cta, len(seeds) + len(more))
        suspects = np.setdiff1d(suspects, written)
    return None


def _find_cta(ctas: Sequence[Cta], write_it: Callable[[Sequence[Cta]], bool]) -> Cta:
    """The CTA, one of several, that writes an element: halves of them are run."""
    while len(ctas) > 1:
        half = ctas[: len(ctas) // 2]
        ctas = half if write_it(half) else ctas[len(half) :]
    return ctas[0]


def _writes(written: tuple[Array, Array] | None, offset: int) -> bool:
    return written is not None and offset in written[0]


def _run(
    spec: Spec, plan: Plan, ctas: Sequence[Cta], case: Mapping[str, int], trips: Trips, seed: int
) -> dict[str, tuple[Array, Array]]:
    """What CTAs mean with the inputs of a seed: by array sorted offsets and values."""
    found = run_bounded(spec, FloatRun(ctas, float_inputs(plan, seed), case, trips))
    return {name: (at, np.asarray(bound.value)) for name, (at, bound) in found.items()}
