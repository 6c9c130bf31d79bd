"""All lanes of tensor memory, as products and copies by one thread name them: who starts these, and where they lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.interpret.fault import MALFORMED, MISALIGNED
from tilegen.interpret.order import Shadow
from tilegen.interpret.site import Site
from tilegen.interpret.tensor_memory import COLUMN_BYTES, LANES, Cells
from tilegen.interpret.tensor_moves import find_cells
from tilegen.interpret.threads import Array, Group
from tilegen.plan import Effects, Ref

_FIRST_COLUMN = 4  # what one thread names begins at a multiple of so many columns


@dataclass(frozen=True)
class Started:
    """What is in flight of one step until its threads have a commit: all else the clock of their agent says."""

    rows: int

    def land(self, rows: Array, who: Group, op: int) -> None:
        pass

    def touches(self, shadow: Shadow, granule: int) -> Array:
        return np.zeros(self.rows, bool)

    def holds(self, store: object, element: int) -> bool:
        return False


@dataclass(frozen=True)
class Lanes:
    """Runs of elements in all lanes, a row for each lane of each thread that names them.

    ``at``: their indices in cells of their size; ``each``: the thread of every row.
    """

    store: Cells
    at: Array
    granules: Array
    each: Group

    def repeat(self, values: Array) -> Array:
        """A value of each thread, for each of its rows."""
        result: Array = np.repeat(values, LANES)
        return result


def start_in_turns(start: Callable[..., None], what: str, step: Any, touched: Effects, site: Site) -> None:
    """One thread of a warp starts a step; one CTA's after the other where several warps of it do."""
    if len(site.group) != len(site.group.whole):
        name = ".".join(step.via.name.split(".")[:2])
        site.fail(MALFORMED, f"several threads of a warp start one {what}: {name} is started by one thread", 0)
    turn = np.zeros(len(site.group), np.int64)
    for cta in np.unique(site.group.cta):
        own = site.group.cta == cta
        turn[own] = np.arange(own.sum())
    for k in range(int(turn.max()) + 1):
        start(step, touched, site.narrow(site.group.where(turn == k)))


def find_lanes(ref: Ref, elems: int, what: str, site: Site) -> Lanes:
    """All lanes of a place that each thread names, ``elems`` elements of each, from a multiple of 4 columns on."""
    place, group = site.frame.places.get(ref.memory.name), site.group
    if place is None or not place.root.memory.traits.has_cells:
        site.fail(MALFORMED, f"{what} lie in tensor memory, not in {ref.memory.traits.words}")
    store: Cells = place.root.store
    lane, first = find_cells(ref, elems, site)
    byte = store.offset + first * store.size
    off = (lane != 0) | (byte % (_FIRST_COLUMN * COLUMN_BYTES) != 0)
    if off.any():
        row = int(np.argmax(off))
        begins = f"lane {int(lane[row])}, column {int(byte[row]) // COLUMN_BYTES}"
        site.fail(MISALIGNED, f"{what} begin at {begins}, not in lane 0 at a multiple of {_FIRST_COLUMN} columns", row)
    rows = np.repeat(np.arange(len(group)), LANES)
    each = Group(group.crew, slice(None), group.thread[rows], group.cta[rows], group.warp[rows], group.lane[rows])
    at, granules = store.place(np.tile(np.arange(LANES), len(group)), first[rows], elems, each)
    return Lanes(store, at, granules, each)
