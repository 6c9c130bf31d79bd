"""Trips that are carried out together give, bit for bit, what they give one after the other; so do their faults."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from specs.kernels import SPECS, small_spec

from tests.faults.verdicts import ONE_CTA
from tests.interpret.kernels import kernel
from tilegen.arithmetic import TYPED, Apply, Element, Whole
from tilegen.arithmetic.modular import make_modular
from tilegen.index import Index, Var, add, less, mod, mul
from tilegen.index.recurrences import ALL_TRIPS
from tilegen.interpret import FaultFound, interpret, steps
from tilegen.plan import CAST, FILL, Compute, Map, Move, Plan, Repeat, Step, When, flat_memory
from tilegen.proofs.fillings import fill_each
from tilegen.proofs.meaning import parameter_cases, proving_domain, proving_inputs
from tilegen.spec.outline import launch_of

DOMAINS = {"typed": TYPED, "modular": make_modular(["float16", "float32"])}
lane = Var("laneid", 32)
X = flat_memory("X", "float32", 1024, "global", access="in")
G = flat_memory("G", "float32", 4096, "global", access="out")
a, b = (flat_memory(name, "float32", 16, "register") for name in "ab")
h = flat_memory("h", "float16", 16, "register")


def outcome(plan: Plan, *args: Any) -> object:
    """What a plan writes and how many steps it takes, or how it fails."""
    try:
        found = interpret(plan, *args)
    except FaultFound as fault:
        return str(fault)
    return found.steps, {name: [x.tobytes() for x in pair] for name, pair in found.written.items()}


def outcomes(monkeypatch: pytest.MonkeyPatch, plan: Plan, *args: Any) -> tuple[object, object, int]:
    """Together, one after the other, and how many loops were carried out together."""
    find, wide = steps.find_together, 0

    def counted(step: Repeat, site: Any) -> Any:
        nonlocal wide
        found = find(step, site)
        wide += found is not None
        return found

    with monkeypatch.context() as patch:
        patch.setattr(steps, "find_together", counted)
        one = outcome(plan, *args)
        patch.setattr(steps, "find_together", lambda step, site: None)
        return one, outcome(plan, *args), wide


@pytest.mark.sweep(1)
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_runs_alike(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = fill_each(small_spec(path).spec, small_spec(path).plan)[0]
    spec, plan = filled.spec, filled.plan
    case = parameter_cases(spec)[-1]
    x, y, z = launch_of(spec, case).grid
    ctas = [(0, 0, 0), (x - 1, y - 1, z - 1)][: 1 if x * y * z == 1 else 2]
    one, other, _ = outcomes(monkeypatch, plan, ctas, proving_inputs(spec, plan, case)[0], case, ALL_TRIPS,
                             proving_domain(spec))  # fmt: skip
    assert one == other


# ---------------------------------------------------------------- random loops
def places(draw: random.Random, loops: list[Var], room: int) -> Index:
    """An element of a register array of 16, mostly inside."""
    at: Index = draw.randrange(room)
    for v in loops:
        at = add(at, mul(v, draw.choice([0, 0, 1, 1, 2, 4])))
    return mod(at, 16) if draw.random() < 0.8 else at


def random_step(draw: random.Random, loops: list[Var]) -> Step:
    kind = draw.choice(["fill", "cast", "widen", "move", "load", "fold", "fma", "whole", "guarded"])
    dst, src, third = (draw.choice([a, b]) for _ in range(3))
    at, of, also = (places(draw, loops, 4) for _ in range(3))
    zero, one = Element(0, "float32"), Element(1, "float32")
    if kind == "fill":
        return Map(FILL, dst[at], (), draw.choice([1, 2]), 3.0)
    if kind == "cast":
        return Map(CAST, h[at], (src[of],))
    if kind == "widen":
        return Map(CAST, dst[at], (h[of],))
    if kind == "move":
        return Move(dst[at], src[of], draw.choice([1, 2]))
    if kind == "load":
        return Move(dst[at], X[add(mul(lane, 16), of)])
    if kind == "fold":
        taken = (zero, one) if draw.random() < 0.5 else (one, zero)
        order = (dst[at], src[of]) if taken[0] is zero else (src[of], dst[at])
        return Compute(dst[at], Apply(draw.choice(["+", "*", "max", "min"]), taken, "float32"), order)
    if kind == "fma":
        tree = Apply("fma", (zero, one, Element(2, "float32")), "float32")
        return Compute(dst[at], tree, (src[of], third[also], dst[at]))
    if kind == "whole":
        tree = Apply("where", (Apply("<", (Whole(0), Whole(1)), "bool"), zero, one), "float32")
        return Compute(dst[at], tree, (src[of], third[also]), (add(lane, of), 20))
    return When(less(lane, 7), (Move(dst[at], src[of]),))


def random_plan(seed: int) -> Plan:
    draw = random.Random(seed)
    written = 16 if draw.random() < 0.8 else 12
    body: list[Step] = [Move(m[k], X[add(mul(lane, 16), k)]) for m in (a, b) for k in range(written)]
    body += [Map(CAST, h[k], (a[k],)) for k in range(written)]
    for _ in range(3):
        loops = [Var(name, draw.choice([2, 3, 4])) for name in draw.choice([["f"], ["f", "g"], ["f", "g", "i"]])]
        inner: tuple[Step, ...] = tuple(random_step(draw, loops) for _ in range(draw.choice([1, 1, 1, 2])))
        for v in reversed(loops):
            inner = (Repeat(v, v.bound, inner, unroll=True),)
        body += [When(less(lane, 19), inner)] if draw.random() < 0.3 else inner
    body += [Move(G[add(mul(lane, 32), 16 * n + k)], m[k]) for n, m in enumerate((a, b)) for k in range(12)]
    return kernel(*body, memories=(X, G, a, b, h))


@pytest.mark.slow
@pytest.mark.parametrize("name", DOMAINS)
def test_random_loops_run_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    domain, wide, faults = DOMAINS[name], 0, 0
    for seed in range(120):

        def values(flat: Any, seed: int = seed) -> Any:
            return domain.encode((flat * 7 + seed) % 23, "float32")

        one, other, count = outcomes(monkeypatch, random_plan(seed), ONE_CTA, {"X": values}, {}, ALL_TRIPS, domain)
        assert one == other, seed
        wide += count
        faults += isinstance(one, str)
    assert wide > 100 and 10 < faults < 80
