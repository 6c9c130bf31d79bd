"""Questions over sizes that are asked of fewer variables: the sizes that come out show all that any sizes show."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Any

import pytest

from tilegen.index import Index, Var, add, evaluate, less, maximum, minimum, mul, sub, variables
from tilegen.plan import Param
from tilegen.proofs.boundary_sizes import _find_outcomes
from tilegen.proofs.flat_trips import Joined, flatten_trips
from tilegen.proofs.observed import compared_in
from tilegen.proofs.spare_sizes import narrow

C, N, P, Q = Var("c", 5, 1, 1), Var("n", 8, 1, 1), Var("p", 6), Var("q", 7)
TRIP, BX = Var("trip", 40), Var("bx", 5)
DEFAULT = {"c": 2, "n": 5, "p": 3, "q": 6}


@dataclass(frozen=True)
class Sizes:
    """What is asked of a spec: its parameters, those that are elements of tables, and what holds of them."""

    params: tuple[Param, ...] = tuple(Param(v.name, "int32", DEFAULT[v.name], v) for v in (C, N, P, Q))
    elements: tuple[str, ...] = ("p", "q")
    known: tuple[Index, ...] = field(default=())


def draw_question(random: Random) -> tuple[Joined, Sizes]:
    """Comparisons of a piece of work with sizes, within a loop that CTAs share, of one or several tiles in a column."""
    columns = random.choice([1, 1, 2, 3])
    rows = random.choice([N, minimum(N, Q), add(N, 1), minimum(Q, add(N, 2))])
    work = mul(rows, columns)
    count = add(maximum(sub(work, BX), 0), sub(C, 1)) // C
    piece = TRIP * C + BX
    x = random.choice([piece, piece // columns, piece // columns])
    sides: list[Any] = [x, x, sub(x, P), maximum(sub(x, P), 0), sub(x, P), P, N, Q, 0, 2, piece % columns]
    if random.random() < 0.2:
        sides += [TRIP, BX, TRIP % 2]
    seen = []
    while len(seen) < 3:
        c = less(mul(random.choice(sides), random.choice([1, 1, 2])), add(random.choice(sides), random.randrange(3)))
        seen += [] if isinstance(c, int) else [c]
    asked = [less(TRIP, count), *seen] if random.random() < 0.5 else seen
    counted = frozenset(compared_in(count)) | {less(TRIP, count)}
    seen_too = [c for c in compared_in(count) if random.random() < 0.3]
    known = (less(Q, add(N, 4)),) if random.random() < 0.3 else ()
    group = Joined((*asked, *seen_too), ((TRIP, count), (BX, C)), counted - {*seen})
    return group, replace(Sizes(), known=known)


def show(group: Joined, case: dict[str, int], told: frozenset[Index] = frozenset()) -> set[tuple[bool, ...]]:
    """What all trips of all CTAs show with some sizes, but for what only counts compare."""
    (_, count), _ = group.inner
    left = [x for x in group.seen if x not in told]
    return {
        tuple(bool(evaluate(x, at)) for x in left)
        for bx in range(case["c"])
        for trip in range(int(evaluate(count, case | {"bx": bx})))
        for at in [case | {"bx": bx, "trip": trip}]
    }


@pytest.mark.sweep(40)
@pytest.mark.parametrize("seed", range(400))
def test_the_sizes_that_come_out_show_all_that_any_sizes_show(seed):
    group, spec = draw_question(Random(seed))
    ranges = [range(v.least, v.bound) for v in (C, N, P, Q)]
    cases = [dict(zip(DEFAULT, at, strict=True)) for at in product(*ranges)]
    cases = [case for case in cases if all(evaluate(x, case) for x in spec.known)]
    meant = set().union(*(show(group, case, group.counted) for case in cases))
    found = set(show(group, DEFAULT, group.counted))
    for part in narrow(spec, group, DEFAULT):  # type: ignore[arg-type]
        if not part.outer:
            found |= show(group, {**DEFAULT, **part.fixed}, group.counted)
            continue
        assert {v.name for x in part.seen for v in variables(x)} <= {*part.names, *(v.name for v, _ in part.inner)}
        outcomes = _find_outcomes(spec, part, [], {})  # type: ignore[arg-type]
        assert outcomes is not None
        if outcomes.undecided or not outcomes.are_all:
            return  # which is said in a note
        for values in outcomes.shown:
            for row in values[:1].tolist():
                case = {**DEFAULT, **part.fixed, **dict(zip(part.names, row, strict=True))}
                found |= show(group, case, group.counted)
    assert meant <= found


def test_most_questions_are_of_the_piece_of_work_alone():
    """Else the test above would say nothing."""
    drawn = [draw_question(Random(seed))[0] for seed in range(400)]
    flat = [flatten_trips(g.seen, g.inner, g.counted)[1] for g in drawn]
    assert sum(all(v not in (TRIP, BX) for v, _ in inner) for inner in flat) > 200
