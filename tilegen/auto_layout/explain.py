"""A search for a layout as a Choice: the best of each family with what it costs, and what was searched."""

from __future__ import annotations

from dataclasses import fields, replace

from tilegen.auto_layout.alternatives import list_accesses, shape_of
from tilegen.auto_layout.candidates import Costed, cost_linear, list_candidates, say_searched, select_shown
from tilegen.auto_layout.search import Search
from tilegen.auto_layout.tile_access import count_floor, count_wavefronts
from tilegen.choices import Candidate, Choice, Cost
from tilegen.describe import count_words
from tilegen.dtypes import DTYPES
from tilegen.spec.data import Buffer


def explain_search(question: str, search: Search, buffer: Buffer, shares: bool) -> Choice:
    """The Choice of the search's best layout; ``shares``: an op takes it together with another that is chosen."""
    assert search.best is not None
    best, steps = search.planned[search.best].costed, search.planned[search.best].steps
    accesses = [a for context, made in steps for a in list_accesses(context, made, buffer, best.layout)]
    shape, size = shape_of(buffer), DTYPES[buffer.dtype].bytes
    own = int(count_wavefronts([best.layout], shape, size, accesses).sum())
    floor = count_floor(shape, size, accesses)
    rest = replace(best.cost, wavefronts=best.cost.wavefronts - own)
    candidates = list_candidates(best, select_shown(best, _known(search)), rest.wavefronts + floor)
    if own > floor:
        candidates += (cost_linear(shape, size, accesses, rest),)
    return Choice(question, best.layout.text, candidates, _proof(search, own, floor, shares))


def compare_with(question: str, buffer: Buffer, cost: Cost, search: Search) -> Choice:
    """The Choice of a layout that the spec writes, beside the one that the search gives."""
    assert search.best is not None
    auto, text = search.planned[search.best].costed, buffer.layout_text or "row"
    pinned = Candidate(text, cost, "picked")
    if auto.layout.layout == buffer.layout:
        return Choice(question, text, (pinned,), "written in the spec, and what 'auto' gives")
    candidates = (pinned, Candidate(auto.layout.text, auto.cost, "what 'auto' gives"))
    return Choice(question, text, candidates, f"written in the spec: {_against(cost, auto.cost)} with 'auto'")


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


def _proof(search: Search, wavefronts: int, floor: int, shares: bool) -> str:
    """Why nothing is better, as far as it was searched."""
    ways = count_words(len(search.alternatives), "plan", "plans")
    searched = f"{say_searched(search.estimates)} under {ways} of its ops, {len(search.planned)} were planned anew"
    if wavefronts == floor:
        said = [f"its accesses take {floor} wavefronts, one a phase, which no layout is below; {searched}"]
    else:
        said = [f"{searched}; its accesses take {wavefronts} wavefronts against a floor of {floor}"]
    if search.equals_left:
        said.append(f"{search.equals_left} more are estimated alike, address operations aside, and were not")
    if search.others_left:
        said.append(f"bounded: {search.others_left} whose estimates are no worse were not planned")
    if shares:
        said.append("bounded: one buffer at a time, the others' layouts as chosen so far, looked at twice")
    return "; ".join(said)
