"""At which sizes no pass that writes an output is launched: what is said beside every size tried."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

from tilegen.index import Index, Var, add, any_of, differ, div, equal, evaluate, every, less, mod, mul, not_
from tilegen.proofs.workspaces import _say_unlaunched

N, M = Var("N", 201, 1, 1), Var("M", 161, 8, 8)
SIZES = {name: x.ravel() for name, x in zip("NM", np.meshgrid(range(1, 201), range(8, 161, 8)), strict=True)}
EACH = 20


def draw_term(rng: random.Random) -> Index:
    v = rng.choice((N, M))
    drawn = (v, mod(v, rng.choice((2, 3, 7, 32))), mul(v, rng.randrange(1, 4)), div(v, rng.choice((4, 5))))
    return rng.choice((*drawn, add(N, M), mul(N, M)))


def draw_condition(rng: random.Random, depth: int = 0) -> Index:
    if depth < 2 and rng.random() < 0.35:
        return rng.choice((every, any_of))(draw_condition(rng, depth + 1), draw_condition(rng, depth + 1))
    sides = draw_term(rng), rng.choice((rng.randrange(220), draw_term(rng)))
    return rng.choice((less, equal, differ))(*rng.sample(sides, 2))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("part", range(8))
def test_what_is_said_is_so(part):
    """A size at which none is launched is never missed. Where one always is, at most that nothing shows it is said."""
    rng, shown = random.Random(part), 0
    for _ in range(EACH):
        whens = [draw_condition(rng) for _ in range(rng.randrange(1, 4))]
        whens += [not_(any_of(*whens))] if rng.random() < 0.3 else []
        said = _say_unlaunched([SimpleNamespace(name="p", when=when) for when in whens], False)  # type: ignore[misc]
        always = bool(np.all(evaluate(any_of(*whens), SIZES)))
        assert always or said, [str(when) for when in whens]
        assert not always or not said or "nothing shows" in said, [str(when) for when in whens]
        shown += not said or said.startswith("with ")
    assert shown >= EACH // 2
