"""CTAs that run with different sizes, all at once: what costs time is a step, hardly how many threads carry it out.

No CTA meets one that runs with other sizes: its cluster is another one, and so are the elements of its arrays, which
lie ``apart`` in the stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilegen.arithmetic import Domain
from tilegen.index import names_of
from tilegen.index.recurrences import ALL_TRIPS
from tilegen.interpret.machine import Machine
from tilegen.interpret.memory import Input
from tilegen.interpret.run import Outcome, gather, run_to_end
from tilegen.interpret.threads import Array, Cta
from tilegen.interpret.updated import Contributions
from tilegen.plan import Plan, default_values


@dataclass(frozen=True)
class SizedCtas:
    """CTAs, and the runtime parameters that they run with."""

    ctas: Sequence[Cta]
    params: Mapping[str, int]


def may_join_sizes(plan: Plan) -> bool:
    """May CTAs of a plan run with different sizes at once? Not where a memory of their own depends on these."""
    others = [m for m in plan.memories if not m.traits.is_array]
    sizes = {p.name for p in plan.params if p.var is not None}
    return all(sizes.isdisjoint(names_of(x)) for m in others for x in (*m.shape, *m.pitches, m.span))


def interpret_sizes(
    plan: Plan, runs: Sequence[SizedCtas], inputs: Mapping[str, Input], domain: Domain
) -> list[Outcome]:  # fmt: skip
    """What ``interpret`` says of each of the runs, all trips of which are carried out.

    ``inputs``: the same for all sizes. Raises FaultFound for a fault of any, in words that mean nothing: the run alone
    says what is wrong.
    """
    crews = [gather(plan, run.ctas) for run in runs]
    counts = [len(crew.ctas) for crew in crews]
    cases = tuple(np.repeat(np.arange(len(runs)), counts).tolist())
    crew = replace(crews[0], ctas=tuple(cta for own in crews for cta in own.ctas), cases=cases)
    values = [default_values(plan.params) | dict(run.params) for run in runs]
    params = {name: np.repeat([own[name] for own in values], counts) for name in values[0]}
    machine = Machine(plan, crew, inputs, params, ALL_TRIPS, domain)
    run_to_end(machine)
    found = {name: store.written() for name, store in machine.outputs.items()}
    put = machine.updates()
    outcomes = []
    for k, (own, first) in enumerate(zip(crews, np.cumsum([0, *counts]).tolist(), strict=False)):
        mine = {name: at // machine.apart == k for name, (at, _, _) in found.items()}
        written = {name: (at[mine[name]] % machine.apart, bits[mine[name]]) for name, (at, bits, _) in found.items()}
        writers = {name: cta[mine[name]] - first for name, (_, _, cta) in found.items()}
        updates = {name: _pick(of, of.at // machine.apart == k, machine.apart, first) for name, of in put.items()}
        outcomes.append(Outcome(written, writers, own.ctas, int(machine.steps_of[k]), updates))
    return outcomes


def _pick(found: Contributions, mine: Array, apart: int, first: int) -> Contributions:
    """The contributions of one size, by the offsets and the numbers of CTAs that it has alone."""
    at, values, cta, function = found
    return Contributions(at[mine] % apart, values[mine], cta[mine] - first, function)
