"""A proof says of a drawn kernel with a drawn fault what all CTAs, trips and sizes say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import NamedTuple

import pytest

import tilegen
from tests.faults.verdicts import proof_code
from tests.mutants.judging import WHOLE_GRID
from tests.proofs.drawn_faults import draw
from tilegen.errors import TilegenError
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan, default_values
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.meaning import check_meaning
from tilegen.spec.data import Spec
from tilegen.spec.outline import is_possible, launch_of


class Judged(NamedTuple):
    """What all CTAs show to be wrong, and what the proof says, with what it leaves unproven.

    ``corners``: what the CTAs at the ends of the default grid show. Every proof runs these.
    """

    seed: int
    kind: str
    fault: str
    corners: str
    all: str
    proof: str
    unproven: tuple[str, ...]

    @property
    def is_missed(self) -> bool:
        return bool(self.all) and not self.proof and not self.unproven

    @property
    def is_false_alarm(self) -> bool:
        """Proofs of ranges and owners look at the whole grid without a run."""
        return not self.all and bool(self.proof) and self.proof not in WHOLE_GRID


def judge(seed: int) -> Judged | None:
    """None where no kernel is drawn."""
    drawn = draw(Random(seed))
    try:
        if drawn is None:
            return None
        spec, plan = tilegen.load(drawn.meant), plan_spec(tilegen.load(drawn.planned))
    except TilegenError:
        return None
    default = default_values(spec.params)
    plain = proof_code(lambda: check_meaning(spec, plan, corners(launch_of(spec, default).grid), default))
    if plain:
        return Judged(seed, drawn.kind, drawn.fault, plain, plain, plain, ())
    truth, notes = proof_code(lambda: run_all(spec, plan)), list[str]()
    said = proof_code(lambda: notes.extend(n for n in prove(spec, plan).notes if "not proven" in n))
    return Judged(seed, drawn.kind, drawn.fault, "", truth, said, tuple(notes))


def run_all(spec: Spec, plan: Plan) -> None:
    """All CTAs with all trips, at every size."""
    for case in all_sizes(spec):
        check_meaning(spec, plan, all_ctas(spec, case), case)


def all_sizes(spec: Spec) -> Iterator[dict[str, int]]:
    own = [(p.name, p.var.bound) for p in spec.params if p.var is not None]
    for values in product(*(range(1, most) for _, most in own)):
        case = dict(zip((name for name, _ in own), values, strict=True))
        if is_possible(spec, case):
            yield case


def all_ctas(spec: Spec, case: Mapping[str, int]) -> list[Cta]:
    x, y, z = launch_of(spec, case).grid
    return [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]


# Faults that proofs passed until sizes were asked of counts, of places in any form, of what bounds CTAs and trips, of
# written boxes, and of two things at once.
ONCE_PASSED = [40000041, 40000355, 52000116, 56000087, 61000057]
ALSO_PASSED = [40000160, 40000372, 40000555, 40000767, 59000054, 59000210, 60000070, 60000262, 62000139, 84000007]
SEEDS = [
    range(4),
    pytest.param(range(4, 12), marks=pytest.mark.slow),
    pytest.param(ONCE_PASSED, marks=pytest.mark.slow),
    pytest.param(ALSO_PASSED, marks=pytest.mark.slow),
    pytest.param(range(1000, 1020), marks=pytest.mark.slow),
    *(pytest.param(range(n, n + 20), marks=pytest.mark.slow) for n in range(1020, 1100, 20)),
]


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_a_proof_says_what_all_ctas_say(seeds: Sequence[int]) -> None:
    judged = [found for found in map(judge, seeds) if found is not None]
    assert not [j for j in judged if j.is_missed or j.is_false_alarm]
    assert len(judged) > len(seeds) // 2
