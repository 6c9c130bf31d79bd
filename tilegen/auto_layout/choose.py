"""Which layout every 'auto' buffer of a spec gets, and what 'auto' would have given to the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tilegen.auto_layout.alternatives import list_ways, tiles_of, touched_calls, views_of
from tilegen.auto_layout.explain import compare_with, explain_search
from tilegen.auto_layout.pin import can_follow, pin_layout
from tilegen.auto_layout.search import (
    Search,
    cost_plans,
    forms_of,
    layouts_of,
    plan_calls,
    room_bytes,
    search_layouts,
)
from tilegen.decisions import Choice
from tilegen.errors import SpecError
from tilegen.layouts import Layout, row_major
from tilegen.side_by_side import run_tasks
from tilegen.spec.data import Buffer, Spec


@dataclass(frozen=True)
class _Picked:
    """The layout of one buffer with its text, and why it is this one."""

    layout: Layout
    text: str
    choice: Choice


def choose_layouts(spec: Spec, processes: int = 1) -> Spec:
    """The spec with a layout for every buffer whose layout is 'auto', and a Choice for each in ``choices``.

    Those that share an op are chosen one after the other, the others as good as known so far, and once more where a
    layout that they depend on then changed. Those that share none are looked for side by side in ``processes``, with
    the same outcome. A spec without any is returned as it is.
    """
    names = [b.name for b in spec.buffers if b.is_auto and b.root == b.name]
    plain = spec
    for name in names:
        plain = pin_layout(plain, name, row_major(spec.buffer(name).shape), "row")
    for name in names:
        plain = _begin(plain, name)
    begun, groups = plain, _group(plain, names)
    tasks = [partial(_pick_group, begun, group, names) for group in groups]
    picked = run_tasks(tasks, processes) if processes > 1 else [{}] * len(groups)
    chosen: dict[str, Choice] = {}
    for group, found in zip(groups, picked, strict=True):
        rooms = [[room_bytes(one, one.buffer(name)) for name in group] for one in (begun, plain)]
        for name, own in (found if found and rooms[0] == rooms[1] else _pick_group(plain, group, names)).items():
            plain, chosen[name] = pin_layout(plain, name, own.layout, own.text), own.choice
    return replace(plain, choices=(*spec.choices, *(chosen[name] for name in names))) if names else spec


def _group(spec: Spec, names: Sequence[str]) -> list[list[str]]:
    """The names, those together whose layouts depend on one another, however many lie between them."""
    groups: list[list[str]] = []
    for name in names:
        met = [group for group in groups if _meet(spec, name, group)]
        groups = [group for group in groups if group not in met] + [[*(n for group in met for n in group), name]]
    return sorted(([n for n in names if n in group] for group in groups), key=lambda group: names.index(group[0]))


def _pick_group(spec: Spec, group: Sequence[str], names: Sequence[str]) -> dict[str, _Picked]:
    """The best layouts for buffers of which each shares an op with another, or for one: all others as they are."""
    picked: dict[str, _Picked] = {}
    todo = list(group)
    for _ in range(2):
        changed = set()
        for name in todo:
            before = spec.buffer(name)
            picked[name] = _pick_one(spec, name, names)
            spec = pin_layout(spec, name, picked[name].layout, picked[name].text)
            changed |= _meet(spec, name, group) if picked[name].layout != before.layout else set()
        todo = [name for name in group if name in changed]
    return picked


def _begin(spec: Spec, name: str) -> Spec:
    """The spec with the first layout of a buffer that all its calls take which only take some; else in rows.

    Without it the layout of another operand of such a call could not be chosen: nothing would carry out the call.
    """
    buffer = spec.buffer(name)
    demands = []
    for call, context in touched_calls(spec, name):
        ways = list_ways(call, context)
        if ways and all(v.constrain for v in ways):
            demands.append((call, ways, views_of(spec, buffer, call)))
    if not demands:
        return spec
    for form in forms_of(spec, buffer):
        tiles = [tiles_of(form, buffer, views) for *_, views in demands]
        for f, *of_calls in zip(layouts_of(form, buffer), *tiles, strict=True):
            tried = zip(demands, of_calls, strict=True)
            if all(any(not v.constrain or v.constrain(call, t) is None for v in ways) for (call, ways, _), t in tried):
                return pin_layout(spec, name, f.layout, f.text)
    return spec


def _meet(spec: Spec, name: str, names: Sequence[str]) -> set[str]:
    """Those of ``names`` that take part in an op together with this buffer: their best layouts depend on it."""
    calls = [{r.buffer.root for r in call.regions.values()} for call, _ in touched_calls(spec, name)]
    return {n for n in names if n != name and any(n in roots for roots in calls)}


def _pick_one(spec: Spec, name: str, names: Sequence[str]) -> _Picked:
    """The best layout for one buffer, all others as they are; those of ``names`` are chosen too."""
    question = f"layout of {name}"
    search = _search(spec, name)
    if search is None or search.best is None:
        none = row_major(spec.buffer(name).shape)
        if search is None:
            return _Picked(none, "row", Choice(question, "row", (), "no op touches it: row-major"))
        begun = spec.buffer(name)  # so that what is wrong with another operand is said of that one
        why = "its ops cannot be carried out: what they might take of it"
        return _Picked(begun.layout, begun.layout_text, Choice(question, begun.layout_text, (), why))
    best = search.planned[search.best].costed.layout
    choice = explain_search(spec, spec.buffer(name), search, bool(_meet(spec, name, names)))
    return _Picked(best.layout, best.text, choice)


def _search(spec: Spec, name: str, is_shown: bool = True) -> Search | None:
    """The search for a buffer's layout; None where no op touches it or its memory has no place at all."""
    try:
        return search_layouts(spec, spec.buffer(name), is_shown) if touched_calls(spec, name) else None
    except SpecError:
        return None


# ---------------------------------------------------------------- layouts that were written
def compare_pinned(spec: Spec, processes: int = 1) -> tuple[Choice, ...]:
    """For every shared buffer whose layout the spec writes: what it costs, and what 'auto' would have given.

    No search waits for another; with ``processes``, which are forked, they go side by side.
    """
    chosen = {c.question for c in spec.choices}
    pinned = [
        b
        for b in spec.buffers
        if b.traits.has_banks and b.root == b.name and f"layout of {b.name}" not in chosen and can_follow(spec, b.name)
    ]
    choices = run_tasks([partial(_compare_one, spec, b) for b in pinned], processes)
    return tuple(choice for choice in choices if choice is not None)


def _compare_one(spec: Spec, buffer: Buffer) -> Choice | None:
    search = _search(spec, buffer.name, is_shown=False)
    if search is None or search.best is None:
        return None
    cost = cost_plans(spec, buffer.name, plan_calls(spec, buffer.name))
    return compare_with(f"layout of {buffer.name}", buffer, cost, search)
