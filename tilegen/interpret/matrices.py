"""ldmatrix and stmatrix: rows that some lanes point at, elements that all lanes of the warp hold.

Word k of lane l holds elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix k; with .trans of its column l / 4
(PTX ISA, ldmatrix and stmatrix: the fragment layouts of .m8n8). Which lane's access a byte is, is not said there, so
it is none's: neither the lane that gave the address nor the one that holds the element is ordered by program order.
"""

from __future__ import annotations

import numpy as np

from tilegen.interpret.address import locate, value_of
from tilegen.interpret.fault import MALFORMED
from tilegen.interpret.reading import read_text
from tilegen.interpret.site import Site, require_whole_warps
from tilegen.interpret.threads import Array
from tilegen.interpret.together import locate_trips, write_held
from tilegen.plan import LDMATRIX_TRANS, MATRIX_ROW_ELEMS, STMATRIX_TRANS, Effects, Move, Ref, Touch, matrices
from tilegen.spaces import Space

_LANES = 32


def load_matrices(step: Move, touched: Effects, site: Site) -> None:
    """Whole warps load 1, 2 or 4 matrices."""
    (rows,), (registers,) = touched.read, touched.written
    givers, count = _check(step, rows, registers, site), matrices(step)
    root, flat, who = locate_trips(rows, givers)
    bits = root.store.read_rows(flat, rows.elems, who, site)
    held = _held_of(bits.reshape(-1, count, MATRIX_ROW_ELEMS, MATRIX_ROW_ELEMS), step.via is LDMATRIX_TRANS)
    by_trip = held.reshape(-1, len(site.group) // _LANES, *held.shape[1:])  # warps of one trip after the other's
    write_held(registers, by_trip.transpose(1, 2, 0, 3, 4).reshape(len(site.group), -1, registers.elems), site)


def store_matrices(step: Move, touched: Effects, site: Site) -> None:
    """Whole warps store 1, 2 or 4 matrices."""
    (registers,), (rows,) = touched.read, touched.written
    givers, count = _check(step, rows, registers, site), matrices(step)
    root, flat = locate(rows.ref, rows.elems, givers)
    held_root, held_at = locate(registers.ref, registers.elems, site)
    held = held_root.store.read(held_at, registers.elems, site.group, site)
    bits = _rows_of(held.reshape(-1, _LANES, count, 2), step.via is STMATRIX_TRANS)
    root.store.write_rows(flat, bits.reshape(-1, MATRIX_ROW_ELEMS), givers.group, site)


def _check(step: Move, rows: Touch, registers: Touch, site: Site) -> Site:
    """The lanes that give rows, everything that PTX asks of the whole warp granted."""
    name, group = step.via.name, site.group
    if step.elems not in (2, 4, 8) or step.valid is not True:
        site.fail(MALFORMED, f"{name} of {step.elems} elements a lane: it takes 2, 4 or 8, without a condition")
    if {t.ref.memory.elem_bytes for t in (registers, rows)} != {2}:
        dtypes = f"{rows.ref.memory.dtype} and {registers.ref.memory.dtype}"
        site.fail(MALFORMED, f"{name} of {dtypes}: it moves 2-byte elements")
    if not _space(rows.ref, site).is_pooled or not _space(registers.ref, site).is_held:
        site.fail(MALFORMED, f"{name} moves between shared memory and registers")
    require_whole_warps(name, site)
    return site.narrow(group.where(group.pick(value_of(read_text(rows.where), site))))


def _space(ref: Ref, site: Site) -> Space:
    place = site.frame.places.get(ref.memory.name)
    return place.root.memory.traits if place is not None else ref.memory.traits


def _held_of(rows: Array, trans: bool) -> Array:
    """(warps, matrices, row, column) as (warps, lane, matrix, element of the word)."""
    rows = rows.swapaxes(2, 3) if trans else rows
    held: Array = rows.reshape(len(rows), -1, _LANES, 2).swapaxes(1, 2)
    return held


def _rows_of(held: Array, trans: bool) -> Array:
    """The inverse of ``_held_of``."""
    rows: Array = held.swapaxes(1, 2).reshape(len(held), -1, MATRIX_ROW_ELEMS, MATRIX_ROW_ELEMS)
    return np.ascontiguousarray(rows.swapaxes(2, 3) if trans else rows)
