"""Ops on whole arrays: what the tiles that carry one out write is what the op itself means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from tilegen.errors import Diagnostic, ProofError
from tilegen.index import Index, Var, div, evaluate, mul, names_of, sub, substitute, variables
from tilegen.index.recurrences import ALL_TRIPS, Recurrence, Trips, recurrence
from tilegen.index.rows import distinct_rows
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta
from tilegen.kept import keep
from tilegen.ops import WHOLE_OPS
from tilegen.ops.strided import find_coordinates, find_offsets
from tilegen.plan import Plan
from tilegen.proofs.looking import MOST_SEEN, whole_grid
from tilegen.proofs.meaning import compare_whole, proving_domain, proving_inputs
from tilegen.proofs.observed import decisions_of, slots_of
from tilegen.proofs.runs import ProofRun
from tilegen.reference import Array, run_reference
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, whole_clusters
from tilegen.spec.data import Call, Loop, Region, Spec
from tilegen.spec.outline import Placed, launch_of, outline
from tilegen.spec.pairs import PAIR

_FEW = 16  # coordinates of each dimension that are compared in tiles that are not looked into
_MOST_MORE = 8  # CTAs whose first tiles are compared beside those
_MOST_TRIPS = 16  # of a loop over tiles, after which what they do repeats


def check_whole(spec: Spec, plan: Plan, run: ProofRun) -> list[str]:
    """The spec of an op on whole arrays, with all of K and a run's params, against the op: a tile, and of some others
    a few elements.

    All other tiles go along, as ``check_tiles`` says, and do the same. Returns a note where that is not known. Raises
    ProofError TG420.
    """
    case, call = run.case, spec.whole
    assert call is not None
    are_looked_at = check_tiles(spec, case)
    shown, domain = choose_tiles(spec, run), proving_domain(spec)
    for inputs in proving_inputs(spec, plan, case):
        written = run_reference(spec, shown.ctas, inputs, case, shown.trips, domain)
        written = {name: _sample(spec, name, *found, shown.looked_into, case) for name, found in written.items()}
        compare_whole(spec, call, written, inputs, case, domain)
    are_all = are_looked_at and shown.are_all
    return [] if are_all else ["not proven: that all tiles do as those that are compared with the op"]


def _ends_of(spec: Spec, case: Mapping[str, int]) -> tuple[Cta, ...]:
    """The first and the last CTA, with those of their clusters."""
    grid = launch_of(spec, case).grid
    return whole_clusters((corners(grid)[0], corners(grid)[-1]), spec.cluster)


@keep
def _tile_loops(spec: Spec) -> dict[str, Index]:
    """Loops over tiles, which begin where the CTA says: the count of each by the name of its counted variable."""
    return {one.trip.name: one.count for one in outline(spec).loops if _begins_by_cta(one.loop)}


def _begins_by_cta(loop: Loop) -> bool:
    return not isinstance(loop.start, int) and bool({v.name for v in variables(loop.start)} & {*CTA_AXES})


def _sample(
    spec: Spec, name: str, at: Array, values: Array, tiles: Mapping[str, Array], case: Mapping[str, int]
) -> tuple[Array, Array]:  # fmt: skip
    """Of what was written of an array all that lies in these tiles; elsewhere a few coordinates of each dimension."""
    coordinates = find_coordinates(spec.buffer(name), at, case)
    few = [unique[np.linspace(0, len(unique) - 1, _FEW).astype(np.int64)] for unique in map(np.unique, coordinates)]
    picked = np.all([np.isin(x, some) for x, some in zip(coordinates, few, strict=True)], axis=0)
    picked |= np.isin(at, _offsets_in(spec, name, tiles, case))
    return at[picked], values[picked]


def _offsets_in(spec: Spec, name: str, tiles: Mapping[str, Array], case: Mapping[str, int]) -> Array:
    """Where the elements of an array lie that these tiles write, and maybe more."""
    array, found = spec.buffer(name), [np.zeros(0, np.int64)]
    for _, region, begins in _global_regions(spec, lambda call: call.written):
        if region.buffer.root == name:
            at = _values_of(begins, tiles)
            boxes = np.unique(at.reshape(len(at), -1), axis=1)
            steps = np.indices(region.lengths).reshape(len(region.lengths), 1, -1)
            found.append(find_offsets(array, [*(boxes[:, :, None] + steps)], case).ravel())
    return np.concatenate(found)


# ---------------------------------------------------------------- all other tiles
def check_tiles(spec: Spec, case: Mapping[str, int]) -> bool:
    """Every tile reads what is as far from what it writes as in the first one, which ``check_whole`` compares.

    Where a region that it reads begins stays as it is from tile to tile, or goes along with a dimension of what it
    writes, in strides where the op says so. Where the op keeps tiles ``apart``, that is so among those of one
    coordinate. False where they are too many to look at. Raises ProofError TG420.
    """
    own = {*CTA_AXES, *CLUSTER_AXES, *_tile_loops(spec)}
    written = _list_written(spec)
    left = [
        (call, x)
        for call, _, begins in _global_regions(spec, lambda call: call.read)
        for x in begins
        if all(own & {v.name for v in variables(sub(x, w))} for w in (0, *written))
    ]
    tiles = _list_tiles(spec, case) if left else None
    if tiles is None:
        return not left
    places, firsts = _written_begins(spec, tiles), _first_of_each(spec, tiles)
    for call, x in (one for one in left if _are_few(one[1], tiles)):
        begins = _values_of([x], tiles)[0]
        turns = np.array([(way != way[firsts]).any(axis=0) for way in (begins - w[:, None] for w in places)])
        if (wrong := turns.all(axis=0)).any():
            at = begins[:, int(wrong.argmax())]
            first = int((at != at[firsts]).argmax())
            where = f"CTA {_name_cta(tiles, first)} reads from {at[first]} on"
            message = f"{where}, elsewhere beside what it writes than the first tile"
            raise ProofError(Diagnostic("TG420", message, call.mark))
    return all(_are_few(x, tiles) for _, x in left)


def _global_regions(
    spec: Spec, regions: Callable[[Call], Sequence[Region]]
) -> Iterator[tuple[Call, Region, list[Index]]]:  # fmt: skip
    """Regions of global arrays, with the calls that name them and where they begin, written out."""
    for placed in outline(spec).placed:
        if isinstance(call := placed.statement, Call):
            for region in (r for r in regions(call) if r.buffer.traits.is_array):
                yield call, region, [substitute(x, placed.meant.values) for x in region.begins]


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


def _list_written(spec: Spec) -> list[Index]:
    """Where regions begin that are written of global arrays, along each dimension, and in strides or parts of what is
    read.
    """
    begins = [begins for _, _, begins in _global_regions(spec, lambda call: call.written)]
    call = spec.whole
    strides = None if call is None else WHOLE_OPS[call.op].strides(call)
    shares = None if call is None else WHOLE_OPS[call.op].shares(call)
    scaled = [] if strides is None else [mul(own[strides[0]], strides[1]) for own in begins]
    scaled += [] if shares is None else [div(own[shares[0]], shares[1]) for own in begins]
    return [*(x for own in begins for x in own), *scaled]


def _written_begins(spec: Spec, tiles: Mapping[str, Array]) -> list[Array]:
    """Where what a tile writes of global arrays begins along each dimension, in every tile, whatever else it names;
    before these, zeros.
    """
    found = [np.zeros(len(tiles["bx"]), np.int64)]
    for x in _list_written(spec):
        others = {v.name: v.least for v in _others_in([x], tiles)}
        found.append(np.broadcast_to(np.asarray(evaluate(x, {**others, **tiles}), np.int64), found[0].shape))
    return [*{x.tobytes(): x for x in found}.values()]


# ---------------------------------------------------------------- tiles that show what all of them do
@dataclass(frozen=True)
class ShownTiles:
    """CTAs, and trips of the loops over tiles, that are compared with the op.

    ``looked_into``: the tiles of which every element is, by their axes and trips. ``are_all``: no tile does anything
    else than one of those.
    """

    ctas: tuple[Cta, ...]
    trips: Trips
    looked_into: Mapping[str, Array]
    are_all: bool


def choose_tiles(spec: Spec, run: ProofRun) -> ShownTiles:
    """The first and the last tiles of the first and the last CTA, and the first ones of CTAs that show what these do
    not. Of loops over tiles so many trips run as it takes until all is the same number again.
    """
    ends, loops = _ends_of(spec, run.case), _tile_loops(spec)
    tiles = _list_tiles(spec, run.case)
    told = None if tiles is None else _tell_apart(spec, tiles)
    if tiles is None or told is None:
        first = dict.fromkeys((*CTA_AXES, *CLUSTER_AXES, *loops), np.zeros(1, np.int64))
        return ShownTiles(ends, ALL_TRIPS, first | {name: np.array(n) for name, n in run.case.items()}, False)
    period = _find_period(tiles, told[0], list(loops))
    trips = Trips({name: (Recurrence(period), period) for name in loops}) if period else ALL_TRIPS
    most = _MOST_MORE + len(np.unique(_keep_apart(spec, tiles)))
    more = _find_more(tiles, told, loops, _are_run(tiles, loops, ends, trips), most)
    ctas = tuple(dict.fromkeys((*ends, *whole_clusters(more, spec.cluster))))
    runs = _are_run(tiles, loops, ctas, trips)
    one_of_each = np.flatnonzero(runs)[np.unique(told[0][runs], return_index=True)[1]]
    looked_into = {name: x[one_of_each] if x.ndim else x for name, x in tiles.items()}
    return ShownTiles(ctas, trips, looked_into, _show_all(told, runs))


def _find_period(tiles: Mapping[str, Array], ways: Array, loops: Sequence[str]) -> int | None:
    """After how many trips of a loop over tiles each CTA does the same again; None where it does not soon.

    Trips that are left out must be as many: what mbarriers count goes on from there.
    """
    if len(loops) > 1:
        return None
    cta = distinct_rows(np.stack([tiles[axis] for axis in CTA_AXES], axis=1))[1]  # trips of one stand in a row
    for period in range(1, _MOST_TRIPS + 1):
        is_same = (ways[period:] == ways[:-period]) | (cta[period:] != cta[:-period])
        if is_same.all():
            return period
    return None


def _find_more(
    tiles: Mapping[str, Array], told: Sequence[Array], loops: Iterable[str], runs: Array, most: int
) -> list[Cta]:  # fmt: skip
    """A few CTAs, ``most``, whose first tiles do what none of those does that run."""
    begun = np.all([tiles["bx"] >= 0, *(tiles[name] == 0 for name in loops)], axis=0)
    more: list[Cta] = []
    for ways in told:
        missing = np.setdiff1d(ways[begun], ways[runs])
        for way in missing[: most - len(more)]:
            k = int((begun & (ways == way)).argmax())
            more.append(_name_cta(tiles, k))
            runs[k] = True
    return more


def _show_all(told: Sequence[Array], runs: Array) -> bool:
    """Whether the tiles that run do all that tiles do."""
    return all(len(np.setdiff1d(ways, ways[runs])) == 0 for ways in told)


def _name_cta(tiles: Mapping[str, Array], k: int) -> Cta:
    x, y, z = (int(tiles[axis][k]) for axis in CTA_AXES)
    return x, y, z


def _are_run(tiles: Mapping[str, Array], loops: Iterable[str], ctas: Sequence[Cta], trips: Trips) -> Array:
    """Which tiles run where these CTAs make these trips."""
    at = np.stack([tiles[axis] for axis in CTA_AXES], axis=1)
    runs: Array = (at[:, None] == np.array(ctas)).all(axis=2).any(axis=1)
    for name in loops:
        count = int(tiles[name][runs].max()) + 1
        runs &= np.isin(tiles[name], [k for some in trips.stretches(name, count) for k in some])
    return runs


def _tell_apart(spec: Spec, tiles: Mapping[str, Array]) -> list[Array] | None:
    """Numbers for every tile, by each of which tiles may differ; None where that is not known.

    What a tile does: all that decides, every place in shared memory and registers, and slots of mbarriers. Then where
    it writes.
    """
    does = [np.zeros(len(tiles["bx"]), np.int64)]
    for placed in outline(spec).placed:
        for x in dict.fromkeys(_drop_still(x, tiles) for x in _asked_of(spec, placed)):
            if {*tiles} & names_of(x):
                ways = _ways_of(x, tiles)
                if ways is None:
                    return None
                does.append(ways)
    does.append(_keep_apart(spec, tiles))
    return [distinct_rows(np.stack(does, axis=1))[1], *_tell_places(spec, tiles)]


def _tell_places(spec: Spec, tiles: Mapping[str, Array]) -> list[Array]:
    """Whether a tile writes elsewhere along a dimension than the first one, and whether two are as far apart there.

    What is read may go along with one of them instead of another, and only tiles in which these differ show that.
    """
    return [x - y != x[0] - y[0] for x, y in combinations(_written_begins(spec, tiles), 2)]


def _asked_of(spec: Spec, placed: Placed) -> list[Index]:
    """What a statement asks, beside places in global arrays."""
    s, values = placed.statement, placed.meant.values
    regions = s.regions.values() if isinstance(s, Call) else ()
    begins = [x for r in regions if not r.buffer.traits.is_array for x in r.begins]
    return [*decisions_of(spec, placed), *(substitute(x, values) for x in (*begins, *slots_of(s)))]


def _drop_still(x: Index, tiles: Mapping[str, Array]) -> Index:
    """The expression without those axes and trips of tiles along which it stays what it is."""
    for v in [v for v in variables(x) if v.name in tiles]:
        x = substitute(x, {v.name: v.least}) if recurrence(x, v) == Recurrence() else x
    return x


def _ways_of(x: Index, tiles: Mapping[str, Array]) -> Array | None:
    """A number for each tile: tiles with the same one have the same values of an expression, whatever else it names.

    None where these are too many to look at.
    """
    return distinct_rows(_values_of([x], tiles)[0])[1] if _are_few(x, tiles) else None


def _first_of_each(spec: Spec, tiles: Mapping[str, Array]) -> Array:
    """For every tile the number of the first one from which it is not kept apart."""
    _, first, which = np.unique(_keep_apart(spec, tiles), return_index=True, return_inverse=True)
    found: Array = first[which.reshape(-1)]
    return found


def _keep_apart(spec: Spec, tiles: Mapping[str, Array]) -> Array:
    """For every tile where what it writes begins along the dimension that keeps tiles apart, 0 where none does.

    Tiles of the two CTAs of a pair, each of which brings its part of what both multiply, are apart too: these are twice
    as many numbers.
    """
    call = spec.whole
    dimension = None if call is None else WHOLE_OPS[call.op].apart
    found = [np.zeros(len(tiles["bx"]), np.int64)]
    if call is not None and dimension is not None:
        names = {call.arrays[name].name for name in call.form.writes}
        regions = _global_regions(spec, lambda call: call.written)
        at = [begins[dimension] for _, region, begins in regions if region.buffer.root in names]
        found += [_values_of([x], tiles)[0].min(axis=1) for x in at]
    return found[-1] if spec.cta_group < PAIR else PAIR * found[-1] + tiles[CLUSTER_AXES[0]] % PAIR


def _are_few(x: Index, tiles: Mapping[str, Array]) -> bool:
    """Whether the values of an expression are so few that all can be looked at."""
    return len(tiles["bx"]) * prod(len(_range_of(v)) for v in _others_in([x], tiles)) <= MOST_SEEN


def _values_of(asked: Sequence[Index], tiles: Mapping[str, Array]) -> Array:
    """The values of expressions in every tile, for all values of what else they name: (expressions, tiles, those)."""
    others = _others_in(asked, tiles)
    ranges = [_range_of(v) for v in others]
    at = {v.name: x.ravel() for v, x in zip(others, np.meshgrid(*ranges, indexing="ij"), strict=True)}
    at |= {name: x[:, None] if x.ndim else x for name, x in tiles.items()}
    shape = len(tiles["bx"]), prod(map(len, ranges))
    with np.errstate(divide="ignore"):
        return np.stack([np.broadcast_to(np.asarray(evaluate(x, at), np.int64), shape) for x in asked])


def _others_in(asked: Sequence[Index], tiles: Mapping[str, Array]) -> list[Var]:
    """The variables that are no tile's."""
    return sorted({v for x in asked for v in variables(x) if v.name not in tiles}, key=lambda v: v.name)


def _range_of(v: Var) -> Array:
    return np.arange(v.least, v.bound, v.step)
