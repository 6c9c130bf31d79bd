"""Integers that threads take for places, and loads from there: whatever these are, a load is in order, and inside.

A run has one number in each register, and the next launch another. So each such load counts as a load of every place
that its integer may name. A write of one of them that no sync orders before, or after, is then a race in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tilegen.index import Index, conjuncts, every, names_of, to_c
from tilegen.interpret.address import check_range, locate, value_of
from tilegen.interpret.fault import MALFORMED, NO_NUMBER, RANGE
from tilegen.interpret.memory import Virtual
from tilegen.interpret.pooled import crowd
from tilegen.interpret.reading import read_address, read_text
from tilegen.interpret.site import Site
from tilegen.interpret.threads import Array
from tilegen.plan import MOVE, Effects, Pick, Touch


def run_pick(step: Pick, site: Site) -> None:
    """A name for an integer that each thread holds, which is in the range that the printed text relies on."""
    if step.var.name in site.frame.own:
        site.fail(MALFORMED, f"{step.var.name} is defined twice")
    domain, dtype = site.machine.domain, step.src.memory.dtype
    value = np.full(site.frame.env["tx"].shape, max(step.var.least, min(0, step.var.bound - 1)), np.int64)
    root, flat = locate(step.src, 1, site)
    bits = root.store.read(flat, 1, site.group, site)[:, 0].view(domain.stored(dtype))
    try:
        value[site.group.at] = domain.integers(bits, dtype)
    except TypeError:
        site.fail(NO_NUMBER, f"{step.src.memory.name} names a place, and comes of floats that are computed with")
    site.frame.define(step.var, value)
    site.frame.constants -= {step.var.name}
    site.frame.picked[step.var.name] = step.var
    check_range(step.var, value, site)
    for condition in step.known:
        holds = np.broadcast_to(site.group.pick(value_of(read_text(condition), site)), len(site.group))
        if not holds.all():
            thread = int(np.argmin(holds))
            site.fail(
                RANGE, f"{step.var.name} = {value[site.group.at][thread]}: {to_c(condition)} does not hold", thread
            )


def look_anywhere(touched: Effects, site: Site) -> None:
    """Look at every place that the loads of a step may have by the integers that threads have picked."""
    for touch in touched.touches:
        names = read_address(touch.ref).names & site.frame.picked.keys()
        if touch.writes or touch.ref.memory.traits.is_held or not names:
            continue
        if touched.instruction is not MOVE or len(names) > 1:
            site.fail(MALFORMED, f"reads {touch.ref.memory.name} at a place of {', '.join(sorted(names))}")
        _read_anywhere(touch, next(iter(names)), site)


def _read_anywhere(touch: Touch, name: str, site: Site) -> None:
    root = site.frame.places[touch.ref.memory.name].root
    if isinstance(root.store, Virtual):  # nothing ever writes there, and ranges are proved
        return
    values = _list_values(touch, name, int(np.max(root.span)))
    always = [c for c in conjuncts(touch.where) if name not in names_of(c)]
    mine = _where(site, every(*always))
    asked = every(*(c for c in conjuncts(touch.where) if name in names_of(c)))
    for one, is_many in _list_speakers(touch, name, mine):
        wide = _where(_with_each(one, touch, name, values), asked)
        if not len(wide.group):
            continue
        found, flat = locate(touch.ref, touch.elems, wide)
        who = crowd(wide.group) if is_many else wide.group
        found.store.read(wide.group.widen(flat), touch.elems, who, wide)


def _list_values(touch: Touch, name: str, most: int) -> Array:
    """The numbers that a picked integer may be at a place of a memory of so many elements."""
    own = [v for x in touch.ref.at for v in read_text(x).variables if v.name == name]
    low, high = max(0, *(v.least for v in own)), min(most, *(v.bound for v in own))
    return np.arange(low, max(low, high))


def _where(site: Site, condition: Index) -> Site:
    """The threads for which a condition holds."""
    if condition is True:
        return site
    return site.narrow(site.group.where(site.group.pick(value_of(read_text(condition), site))))


def _list_speakers(touch: Touch, name: str, site: Site) -> Iterator[tuple[Site, bool]]:
    """Threads that read what all do together: of each warp one for each place where it begins; True: for several."""
    group, place = site.group, site.frame.places[touch.ref.memory.name]
    parts = [site.frame.env.get(n) for n in sorted(read_address(touch.ref).names - {name})]
    parts += [place.flat, *(place.coordinates or ())]
    rows = [group.spread(x) for x in parts if isinstance(x, np.ndarray)]
    table = np.stack([group.warp, *rows], axis=1)
    _, first, counts = np.unique(table, axis=0, return_index=True, return_counts=True)
    for is_many in (True, False):
        chosen = np.zeros(len(group), bool)
        chosen[first[(counts > 1) == is_many]] = True
        if chosen.any():
            yield site.narrow(group.where(chosen)), is_many


def _with_each(site: Site, touch: Touch, name: str, values: Array) -> Site:
    """The threads with each of the values in turn, all at once."""
    group, count = site.group, len(values)
    wide = site.enter(group.times(count))

    def repeat(x: object) -> object:
        return np.tile(group.pick(x), count) if isinstance(x, np.ndarray) else x

    wide.frame.env |= {n: repeat(x) for n, x in wide.frame.env.items()}
    wide.frame.define(site.frame.picked[name], np.repeat(values, len(group)))
    place = wide.frame.places[touch.ref.memory.name]
    at = None if place.coordinates is None else tuple(map(repeat, place.coordinates))
    wide.frame.places[touch.ref.memory.name] = replace(place, coordinates=at, flat=repeat(place.flat))
    return wide
