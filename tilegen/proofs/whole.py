"""Ops on whole arrays: what the tiles that carry one out write is what the op itself means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilegen.errors import Diagnostic, ProofError
from tilegen.index import Index, Var, evaluate, substitute, variables
from tilegen.index.courses import Course, Trips
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan
from tilegen.proofs.looking import MOST_SEEN, whole_grid
from tilegen.proofs.meaning import compare_whole, proving_domain, proving_inputs
from tilegen.reference import Array, run_reference
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Call, Loop, Region, Spec
from tilegen.spec.outline import Placed, launch_of, outline, trip_of, write_out

_WINDOWS, _WINDOW = 8, 512  # parts of what was written, and elements of each, that are compared
_ONE_TRIP = (Course(1), 1)


def check_whole(spec: Spec, plan: Plan, case: Mapping[str, int]) -> list[str]:
    """The spec of an op that computes, with all of K and these params, against the op: of the first and last CTA some
    elements.

    Of the tiles that a CTA goes through the first and the last are made; all others go along, as ``check_tiles`` says.
    Returns a note where it does not. Raises ProofError TG420.
    """
    are_looked_at = check_tiles(spec, case)
    call = spec.whole
    assert call is not None
    domain = proving_domain(spec)
    (inputs,) = proving_inputs(spec, plan, case)
    ctas = _whole_of(spec, case)
    written = run_reference(spec, ctas, inputs, case, Trips(dict.fromkeys(_tile_loops(spec), _ONE_TRIP)), domain)
    compare_whole(spec, call, {name: _sample(*found) for name, found in written.items()}, inputs, case, domain)
    return [] if are_looked_at else ["not proven: that all tiles do as the first and the last, which are too many"]


def _whole_of(spec: Spec, case: Mapping[str, int]) -> list[Cta]:
    """The first and the last CTA, with those of their clusters."""
    grid = launch_of(spec, case).grid
    found: list[Cta] = []
    for cta in (corners(grid)[0], corners(grid)[-1]):
        first = [x // n * n for x, n in zip(cta, spec.cluster, strict=True)]
        found += [(first[0] + i, first[1], first[2]) for i in range(spec.cluster[0])]
    return list(dict.fromkeys(found))


def _tile_loops(spec: Spec) -> dict[str, Index]:
    """Loops over tiles, which begin where the CTA says: the count of each by the name of its counted variable."""
    found: dict[str, Index] = {}
    for placed in outline(spec).placed:
        s = placed.statement
        if isinstance(s, Loop) and not isinstance(s.start, int) and {v.name for v in variables(s.start)} & {*CTA_AXES}:
            trip, count, _ = trip_of(s, outline(spec).names)
            found[trip.name] = substitute(count, write_out(placed, outline(spec).names).values)
    return found


def _sample(at: Array, values: Array) -> tuple[Array, Array]:
    """A few windows of what was written, in order."""
    if len(at) <= _WINDOWS * _WINDOW:
        return at, values
    firsts: Sequence[int] = np.linspace(0, len(at) - _WINDOW, _WINDOWS).astype(np.int64).tolist()
    picked = np.unique(np.concatenate([np.arange(first, first + _WINDOW) for first in firsts]))
    return at[picked], values[picked]


# ---------------------------------------------------------------- all other tiles
def check_tiles(spec: Spec, case: Mapping[str, int]) -> bool:
    """Every tile reads what is as far from what it writes as in the first one, which ``check_whole`` compares.

    Where a region that it reads begins stays as it is from tile to tile, or goes along with a dimension of what it
    writes. False where they are too many to look at. Raises ProofError TG420.
    """
    tiles = _list_tiles(spec, case)
    if tiles is None:
        return False
    placed = [(p, p.statement) for p in outline(spec).placed if isinstance(p.statement, Call)]
    for others in (_first, _second, _last):
        begins = [(call, _begins_of(spec, p, call.read, others, tiles)) for p, call in placed]
        written = [x for p, call in placed for x in _begins_of(spec, p, call.written, others, tiles)]
        for call, read in begins:
            for begin in read:
                ways = [begin, *(begin - x for x in written)]
                turns = [np.flatnonzero(way != way[0]) for way in ways]
                if all(len(turn) for turn in turns):
                    first = min(int(turn[0]) for turn in turns if len(turn) == min(map(len, turns)))
                    cta = tuple(int(tiles[axis][first]) for axis in CTA_AXES)
                    message = (
                        f"CTA {cta} reads from {begin[first]} on, elsewhere beside what it writes than the first tile"
                    )
                    raise ProofError(Diagnostic("TG420", message, call.mark))
    return True


def _list_tiles(spec: Spec, case: Mapping[str, int]) -> dict[str, Array] | None:
    """Of every tile of every CTA the axes, and the trips that lead to it; None for too many to look at."""
    crowd = whole_grid(launch_of(spec, case).grid, spec.cluster, case)
    if crowd is None:
        return None
    tiles: dict[str, Array] = dict(crowd.axes)
    for name, count in _tile_loops(spec).items():
        counts = np.broadcast_to(np.asarray(evaluate(substitute(count, case), tiles)), tiles["bx"].shape)
        if counts.sum() > MOST_SEEN:
            return None
        tiles = {axis: np.repeat(values, counts) for axis, values in tiles.items()}
        tiles[name] = np.concatenate([np.arange(n) for n in counts.tolist()])
    return tiles | {name: np.array(value) for name, value in case.items()}


def _begins_of(
    spec: Spec, placed: Placed, regions: Sequence[Region], others: Callable[[Var], int], tiles: Mapping[str, Array]
) -> list[Array]:
    """Where regions of global arrays begin along each dimension, in every tile; ``others``: what is no tile's."""
    values = write_out(placed, outline(spec).names).values
    found = []
    for region in (r for r in regions if r.buffer.scope == "global"):
        for x in (substitute(begin, values) for begin in region.begins):
            at = {v.name: others(v) for v in variables(x) if v.name not in tiles}
            found.append(np.broadcast_to(np.asarray(evaluate(x, {**at, **tiles})), tiles["bx"].shape))
    return found


def _first(v: Var) -> int:
    return v.least


def _second(v: Var) -> int:
    return min(v.least + v.step, v.bound - 1)


def _last(v: Var) -> int:
    return (v.bound - 1) // v.step * v.step
