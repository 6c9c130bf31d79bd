"""A search for a layout as a Choice: the best of each family with what it costs, and what was searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from math import prod

from tilegen.auto_layout.alternatives import list_accesses
from tilegen.auto_layout.estimates import Costed
from tilegen.auto_layout.families import FAMILIES
from tilegen.auto_layout.linear_search import find_linear
from tilegen.auto_layout.search import Search
from tilegen.auto_layout.tile_access import TileAccess, count_floor, count_wavefronts
from tilegen.decisions import Candidate, Choice, Cost, count_words
from tilegen.dtypes import DTYPES
from tilegen.spec.data import Buffer, Spec

_RUNNERS_UP = 3  # layouts shown beside the best of each family


def explain_search(spec: Spec, buffer: Buffer, search: Search, shares: bool) -> Choice:
    """The Choice of the search's best layout; ``shares``: an op takes it together with another that is chosen."""
    assert search.best is not None
    best, steps = search.planned[search.best].costed, search.planned[search.best].steps
    accesses = [a for context, made in steps for a in list_accesses(spec, context, made, buffer, best.layout)]
    shape, size = best.layout.form.extents, DTYPES[buffer.dtype].bytes
    own = int(count_wavefronts([best.layout], shape, size, accesses).sum())
    floor = count_floor(shape, size, accesses)
    rest = replace(best.cost, wavefronts=best.cost.wavefronts - own)
    candidates = _list_candidates(best, _select_shown(best, _known(search)), rest.wavefronts + floor)
    if own > floor and best.layout.form.is_rows:
        candidates += (_cost_linear(shape, size, accesses, rest),)
    return Choice(
        f"layout of {buffer.name}", best.layout.text, candidates, _proof(search, own, floor, rest.wavefronts, shares)
    )


def compare_with(question: str, buffer: Buffer, cost: Cost, search: Search) -> Choice:
    """The Choice of a layout that the spec writes, beside the one that the search gives."""
    assert search.best is not None
    auto, text = search.planned[search.best].costed, buffer.layout_text or "row"
    pinned = Candidate(text, cost, "picked")
    if auto.layout.layout == buffer.layout:
        return Choice(question, text, (pinned,), "the spec's, and what 'auto' gives")
    candidates = (pinned, Candidate(auto.layout.text, auto.cost, "what 'auto' gives"))
    return Choice(question, text, candidates, f"the spec's: {_against(cost, auto.cost)} with 'auto'")


def _against(mine: Cost, other: Cost) -> str:
    """The first figure in which two costs differ."""
    for f in fields(Cost):
        a, b = getattr(mine, f.name), getattr(other, f.name)
        if a != b:
            return f"{a} {f.name.replace('_ops', '_operations').replace('_', ' ')} against {b}"
    return "the same cost as"


def _known(search: Search) -> list[Costed]:
    """Layouts with the costs of real plans, and those that cannot serve."""
    planned = {k: p.costed for k, p in search.planned.items()}
    return [planned.get(k, e) for k, e in enumerate(search.estimates) if k in planned or e.reason]


def _proof(search: Search, wavefronts: int, floor: int, others: int, shares: bool) -> str:
    """Why nothing is better, as far as it was searched; ``others``: wavefronts that its accesses do not take."""
    ways = count_words(len(search.alternatives), "plan", "plans")
    searched = f"{_say_searched(search.estimates)} under {ways} of its ops, {len(search.planned)} were planned anew"
    fewer = _say_fewer_wavefronts(search)
    if wavefronts == floor:
        least = "" if fewer else ", which no layout is below"
        said = [f"its accesses take {floor} wavefronts, one a phase{least}; {searched}"]
    else:
        said = [f"{searched}; its accesses take {wavefronts} wavefronts against a floor of {floor}"]
    said += [fewer] if fewer else []
    if others:
        said.append(f"{others} more of its ops' wavefronts are of TMA's boxes and of other buffers")
    if search.is_settled:
        said.append("no other order and no panels were searched: each access moves 16 bytes a lane without a conflict")
    elif search.above:
        forms = count_words(search.above, "order or cut into panels is", "orders and cuts into panels are")
        said.append(f"{forms} no better even without conflicts")
    if search.equals_left:
        said.append(f"{search.equals_left} more are estimated alike, address operations aside, and were not")
    if search.others_left:
        said.append(f"bounded: {search.others_left} whose estimates are no worse were not planned")
    if shares:
        said.append("bounded: one buffer at a time, the others' layouts as chosen so far, looked at twice")
    return "; ".join(said)


def _say_fewer_wavefronts(search: Search) -> str:
    """Of what was costed the layout that has fewer wavefronts than the best, but takes more clocks; "" if none has."""
    assert search.best is not None
    best = search.planned[search.best].costed.cost
    planned = {k: p.costed for k, p in search.planned.items()}
    costed = [planned.get(k, e) for k, e in enumerate(search.estimates)]
    fewest = min((c.cost for c in costed if not c.reason), key=lambda cost: cost.key)
    if fewest.sectors != best.sectors or fewest.wavefronts >= best.wavefronts:
        return ""
    both = (f"{count_words(c.wavefronts, 'wavefront', 'wavefronts')} and {c.instructions}" for c in (fewest, best))
    return "{} instructions would take longer than {}, a clock each".format(*both)


# ---------------------------------------------------------------- what is shown
def _select_shown(best: Costed, costed: Sequence[Costed]) -> list[Costed]:
    """The picked one, the least of each family and the next few, in the order of the families."""
    ranked = sorted(range(len(costed)), key=lambda k: (bool(costed[k].reason), costed[k].cost.layout_key, k))
    kept = {next(k for k, c in enumerate(costed) if c.layout == best.layout)}
    for family in FAMILIES:
        kept.update([k for k in ranked if costed[k].layout.family == family][:1])
    kept.update(ranked[:_RUNNERS_UP])
    return [costed[k] for k in sorted(kept)]


def _list_candidates(best: Costed, shown: Sequence[Costed], floor: int) -> tuple[Candidate, ...]:
    """What is shown, as candidates of a Choice with verdicts; ``floor``: the wavefronts that nothing is below."""
    return tuple(Candidate(c.layout.text, None if c.reason else c.cost, _say_verdict(c, best, floor)) for c in shown)


def _say_verdict(c: Costed, best: Costed, floor: int) -> str:
    """Why a layout was not picked, by the first figure in which it costs more."""
    if c.layout == best.layout:
        return "picked"
    if c.reason:
        return c.reason
    mine, least = c.cost, best.cost
    if mine.sectors == least.sectors and mine.wavefronts > least.wavefronts:
        return f"bank conflicts: {mine.wavefronts - floor} wavefronts above the floor"
    for name in ("sectors", "instructions", "shared_bytes", "address_ops"):
        if getattr(mine, name) != getattr(least, name):
            return f"more {name.replace('ops', 'operations').replace('_', ' ')}"
    return "the same cost, not plainer"


def _cost_linear(shape: Sequence[int], elem_bytes: int, accesses: Sequence[TileAccess], rest: Cost) -> Candidate:
    """What an F2-linear layout would reach; ``rest`` is the cost of everything but the wavefronts of the accesses."""
    found = find_linear(shape, elem_bytes, accesses)
    if found.layout is None:
        return Candidate("LinearLayout", None, f"reported beside: {found.reason}")
    wavefronts = rest.wavefronts + found.wavefronts
    cost = replace(rest, wavefronts=wavefronts, shared_bytes=elem_bytes * prod(shape), address_ops=0)
    return Candidate(str(found.layout), cost, "reported beside: its addresses are not generated")


def _say_searched(costed: Sequence[Costed]) -> str:
    """How many layouts of which families were costed."""
    counts = {name: sum(c.layout.family == name for c in costed) for name in FAMILIES}
    unfit = sum(bool(c.reason) for c in costed)
    refused = f", of which {unfit} cannot serve" if unfit else ""
    others = {"order": "of other orders", "panels": "of panels"}
    found = [f"{counts[name]} {text}" for name, text in others.items() if counts[name]]
    families = ", ".join([f"row-major, {counts['padding']} paddings, {counts['swizzle']} swizzles", *found])
    return f"all {len(costed)} layouts were costed ({families}{refused})"
