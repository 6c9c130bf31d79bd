"""ldmatrix and stmatrix: rows that some lanes point at, elements that all lanes of the warp hold.

Word k of lane l holds elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix k; with .trans of its column l / 4
(PTX ISA, ldmatrix and stmatrix: the fragment layouts of .m8n8). Which lane's access a byte is, is not said there, so
it is none's: neither the lane that gave the address nor the one that holds the element is ordered by program order.
"""

from __future__ import annotations

import numpy as np

from tilegen.interpret.address import locate
from tilegen.interpret.fault import MALFORMED, PARTIAL_SYNC
from tilegen.interpret.site import Site
from tilegen.interpret.threads import Array
from tilegen.plan import MATRIX_ROW_ELEMS, Move, Ref, matrices

_LANES = 32
_VIAS = {"ldmatrix": (False, False), "ldmatrix.trans": (False, True), "stmatrix": (True, False),
         "stmatrix.trans": (True, True)}  # fmt: skip


def move_matrices(step: Move, site: Site) -> None:
    """Whole warps load or store 1, 2 or 4 matrices."""
    stores, trans = _check(step, site)
    registers, rows = (step.src, step.dst) if stores else (step.dst, step.src)
    count = matrices(step)
    givers = site.narrow(site.group.where(site.group.lane < MATRIX_ROW_ELEMS * count))
    root, flat = locate(rows, MATRIX_ROW_ELEMS, givers)
    held_root, held_at = locate(registers, step.elems, site)
    if stores:
        held = held_root.store.read(held_at, step.elems, site.group, site)
        bits = _rows_of(held.reshape(-1, _LANES, count, 2), trans)
        root.store.write_rows(flat, bits.reshape(-1, MATRIX_ROW_ELEMS), givers.group, site)
        return
    bits = root.store.read_rows(flat, MATRIX_ROW_ELEMS, givers.group, site)
    held = _held_of(bits.reshape(-1, count, MATRIX_ROW_ELEMS, MATRIX_ROW_ELEMS), trans)
    held_root.store.write(held_at, np.ascontiguousarray(held).reshape(-1, step.elems), site.group, site)


def _check(step: Move, site: Site) -> tuple[bool, bool]:
    """Whether it stores and transposes, everything that PTX asks of it granted."""
    if step.via not in _VIAS or step.elems not in (2, 4, 8) or step.valid is not True:
        site.fail(MALFORMED, f"{step.via} of {step.elems} elements a lane: it takes 2, 4 or 8, without a condition")
    stores, trans = _VIAS[step.via]
    registers, rows = (step.src, step.dst) if stores else (step.dst, step.src)
    if {m.memory.elem_bytes for m in (registers, rows)} != {2}:
        site.fail(
            MALFORMED, f"{step.via} of {rows.memory.dtype} and {registers.memory.dtype}: it moves 2-byte elements"
        )
    if _space(rows, site) != "shared" or _space(registers, site) != "register":
        site.fail(MALFORMED, f"{step.via} moves between shared memory and registers")
    group = site.group
    missing = group.partial_warp
    if missing is None and np.any(group.crew.lanes_of[group.whole] != _LANES):
        missing = int(np.flatnonzero((group.crew.lanes_of != _LANES)[group.warp])[0])
    if missing is not None:
        site.fail(PARTIAL_SYNC, f"{step.via} under divergence: some lanes of the warp do not reach it", missing)
    return stores, trans


def _space(ref: Ref, site: Site) -> str:
    place = site.frame.places.get(ref.memory.name)
    return place.root.memory.space if place is not None else ref.memory.space


def _held_of(rows: Array, trans: bool) -> Array:
    """(warps, matrices, row, column) as (warps, lane, matrix, element of the word)."""
    rows = rows.swapaxes(2, 3) if trans else rows
    held: Array = rows.reshape(len(rows), -1, _LANES, 2).swapaxes(1, 2)
    return held


def _rows_of(held: Array, trans: bool) -> Array:
    """The inverse of ``_held_of``."""
    rows: Array = held.swapaxes(1, 2).reshape(len(held), -1, MATRIX_ROW_ELEMS, MATRIX_ROW_ELEMS)
    return np.ascontiguousarray(rows.swapaxes(2, 3) if trans else rows)
