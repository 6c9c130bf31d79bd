"""Registers of a matrix as the fragments of an atom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilegen.layouts import MmaAtom, fragment_of
from tilegen.layouts.constructors.mma_atoms import OPERANDS
from tilegen.ops.held import Held, Numbers
from tilegen.ops.operand import Refused
from tilegen.scopes import THREAD_AXES


@dataclass(frozen=True, eq=False)
class Fragments:
    """A region as fragments of an atom: ``rows`` (groups, fragments, rows of the atom) and ``columns`` alike.

    ``at``: the register of each fragment's first element, counted from the region's.
    """

    rows: Numbers
    columns: Numbers
    at: tuple[int, ...]


@lru_cache(maxsize=256)
def _fragment_places(atom: MmaAtom, operand: str) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """(row, column) of each register of each thread of an atom, (thread, register) of each element."""
    shape = (atom.shape[OPERANDS[operand][0]], atom.shape[OPERANDS[operand][1]])
    row, column = np.indices(shape, np.int64)
    place = fragment_of(atom, operand).place((row, column), shape)
    warp = np.asarray(place.get("wid_in_wg", 0), np.int64) * THREAD_AXES["wid_in_wg"].unit
    thread = np.broadcast_to(np.asarray(place.get("laneid", 0), np.int64) + warp, shape)
    register = np.broadcast_to(np.asarray(place.get("m", 0), np.int64), shape)
    rows = np.zeros((atom.threads, int(register.max()) + 1), np.int64)
    columns = np.zeros_like(rows)
    rows[thread, register], columns[thread, register] = row, column
    return rows, columns, thread, register


def read_fragments(held: Held, atom: MmaAtom, operand: str) -> Fragments:
    """The fragments that a region consists of, whichever of its rows and columns each has. Raises Refused.

    Every thread holds the elements of a fragment in neighbouring registers, in the order of the instruction.
    """
    name, what = held.operand.buffer.name, f"operand {operand} of {atom.stem}"
    rows, columns, thread, register = _fragment_places(atom, operand)
    elems = rows.shape[1]
    padded = np.pad(held.elements, ((0, 0), (0, -held.elements.shape[1] % elems)), constant_values=-1)
    table = padded.reshape(-1, atom.threads, padded.shape[1] // elems, elems).swapaxes(1, 2)  # group, fragment
    filled = np.count_nonzero(table >= 0, axis=(2, 3))
    present: NDArray[np.bool_] = filled == atom.threads * elems
    if np.any((filled > 0) != present):
        first = int(np.nonzero((filled > 0) != present)[1][0]) * elems
        raise Refused(f"registers {first} to {first + elems - 1} of {name} are not filled by a fragment of {what}")
    if not (filled.sum(1) > 0).all():
        group = int(np.argmin(filled.sum(1)))
        raise Refused(f"{'warp' if atom.threads > 1 else 'thread'} {group} holds nothing of {name}")
    if np.any(present != present[0]):
        raise Refused(f"not all threads hold the same number of elements of {name}")
    table = table[:, np.flatnonzero(present[0])]
    found = table[:, :, thread, register]  # (groups, fragments, rows, columns of the atom)
    down, across = found[:, :, :, 0] // held.shape[1], found[:, :, 0, :] % held.shape[1]
    if np.any(down[:, :, rows] * held.shape[1] + across[:, :, columns] != table):
        raise Refused(f"the registers of {name} are no fragments of {what}")
    return Fragments(down, across, tuple(int(q) * elems for q in np.flatnonzero(present[0])))
