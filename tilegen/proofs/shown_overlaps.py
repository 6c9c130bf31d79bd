"""CTAs of a class in which stale data show, since the boxes that the spec reads lie apart there.

No plan can tell how boxes lie on one another, so CTAs of a class use the same data, and in trips with the same
observations in a window before. Data of another box are wrong wherever the two do not lie as the plan has them: boxes
that lie apart show that, and so does one of two ways to lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilegen.index.recurrences import Recurrence
from tilegen.index.rows import Ints
from tilegen.proofs.columns import Observations
from tilegen.proofs.observed import NEVER
from tilegen.proofs.read_overlap import APART
from tilegen.proofs.table import Namer, Table, number_rows

# The numbers of a window of trips, of an observation and of a pair of boxes in it, and how these lie.
ShownOverlap = tuple[int, int, int, int]

_MOST_SHOWN = 1 << 16  # of one observation
_SOME = 4  # CTAs from either end of those that show one and the same
_MOST_CELLS = 1 << 24  # of the windows of trips

Levels = Mapping[tuple[str, ...], Ints]  # by the loops around: numbers over CTAs and trips, -1 where none is made


def find_shown_overlaps(
    table: Table, observed: Observations, classes: Ints, levels: Levels, namer: Namer
) -> list[set[ShownOverlap]] | None:  # fmt: skip
    """Of each CTA of the table the pairs of boxes that lie apart there; or, where they do in none of the same class and
    the same observations, those that lie in the least and in the largest way. None for too many.
    """
    many = len(classes)
    shown: list[set[ShownOverlap]] = [set() for _ in range(many)]
    windows: dict[tuple[tuple[str, ...], tuple[int, ...]], Ints | None] = {}
    for n, o in enumerate(observed.each):
        if not o.is_overlap:
            continue
        (c,) = o.options
        filled, is_made = table.fill(c), table.find_made(c.loops)
        if filled is None or is_made is None:
            return None
        lies = np.where(is_made[..., None], table.repeat(filled.values, filled.row), NEVER)
        place = filled.loops, lies.shape[1:-1]
        if place not in windows:
            windows[place] = _number_windows(*place, classes, levels, observed.steady, namer)
        window = windows[place]
        found = None if window is None else _pick_lies(lies.reshape(window.size, -1), window.ravel(), many)
        if found is None:
            return None
        for cta, key, cell, how in found:
            shown[cta].add((key, n, cell, how))
    return shown


def _pick_lies(lies: Ints, window: Ints, many: int) -> list[tuple[int, int, int, int]] | None:
    """(CTA, window, cell, how it lies); None for too many."""
    keys, which = np.unique(window, return_inverse=True)
    cells = lies.shape[1]
    pair = which.reshape(-1, 1) * cells + np.arange(cells)
    is_asked = lies != NEVER
    least = np.full(len(keys) * cells, np.iinfo(np.int64).max)
    largest = np.full(len(keys) * cells, NEVER)
    np.minimum.at(least, pair[is_asked], lies[is_asked])
    np.maximum.at(largest, pair[is_asked], lies[is_asked])
    is_picked = is_asked & ((lies == least[pair]) | ((lies == largest[pair]) & (least[pair] != APART)))
    row, cell = np.nonzero(is_picked)
    cta = row * many // len(lies)
    is_largest = lies[row, cell] != least[pair[row, cell]]
    number = np.unique((pair[row, cell] * 2 + is_largest) * many + cta)
    firsts = np.flatnonzero(np.diff(number // many, prepend=-1))
    each = np.diff([*firsts, len(number)])
    nth = np.arange(len(number)) - np.repeat(firsts, each)
    number = number[(nth < _SOME) | (nth >= np.repeat(each, each) - _SOME)]
    if len(number) > _MOST_SHOWN:
        return None
    of, cta = np.divmod(number, many)
    own = of // 2
    how = np.where(of % 2, largest[own], least[own])
    return list(zip(cta.tolist(), keys[own // cells].tolist(), (own % cells).tolist(), how.tolist(), strict=True))


def _number_windows(
    loops: Sequence[str],
    shape: Sequence[int],
    classes: Ints,
    levels: Levels,
    steady: Mapping[str, Recurrence | None],
    namer: Namer,
) -> Ints | None:
    """(CTAs, *trips): a number for what is observed in a trip and in as many before it as buffers hold; None for too
    much to look at.
    """
    whole = (len(classes), *shape)
    parts = [classes.reshape(-1, *[1] * len(shape))]
    for d, name in enumerate(loops, 1):
        rule = steady.get(name)
        parts.append(_number_trips(whole[d], rule).reshape([-1 if k == d else 1 for k in range(len(whole))]))
        ids = levels.get(tuple(loops[:d]))
        if ids is not None:
            before = (_trips_before(ids, whole[: d + 1], back) for back in range(1 if rule is None else rule.period))
            parts += [x.reshape(*x.shape, *[1] * (len(shape) - d)) for x in before]
    if np.prod(whole) * len(parts) > _MOST_CELLS:
        return None
    rows = np.stack([np.broadcast_to(x, whole).ravel() for x in parts], axis=1)
    return number_rows(rows, ("window", tuple(loops)), namer).reshape(whole)


def _number_trips(many: int, rule: Recurrence | None) -> Ints:
    """A number for where a trip stands: the residue within a stretch of trips that go on, and how near to its start."""
    trip = np.arange(many)
    if rule is None:
        return trip
    edges = np.array([0, *sorted({x for first, stop in rule.breakpoints for x in range(first, stop + 1)})])
    stretch = np.searchsorted(edges, trip, side="right") - 1
    since = np.minimum(trip - edges[stretch], rule.period)
    return np.asarray((stretch * (rule.period + 1) + since) * rule.period + trip % rule.period)


def _trips_before(ids: Ints, shape: Sequence[int], back: int) -> Ints:
    """The numbers of so many trips before, -1 where there is none, for as many trips as the shape has."""
    found = np.full(shape, -1, np.int64)
    part = ids[tuple(slice(n) for n in shape)]
    part = part[..., : max(0, min(part.shape[-1], shape[-1] - back))]
    found[(*(slice(n) for n in part.shape[:-1]), slice(back, back + part.shape[-1]))] = part
    return found
