"""What whole warps do with matrices that their lanes hold: mma.sync, ldmatrix and stmatrix.

Word k of lane l holds elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix k; with .trans of its column l / 4
(PTX ISA, ldmatrix and stmatrix: the fragment layouts of .m8n8). Which lane's access a byte is, is not said there, so
it is none's: neither the lane that gave the address nor the one that holds the element is ordered by program order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from tilegen.arithmetic import TFLOAT32, Domain
from tilegen.interpret.address import locate, value_of
from tilegen.interpret.fault import MALFORMED
from tilegen.interpret.memory import MOST_OWED, Registers
from tilegen.interpret.reading import Root, read_text
from tilegen.interpret.site import Site, require_whole_warps
from tilegen.interpret.threads import Array, Group
from tilegen.interpret.together import locate_held, locate_trips, read_held, write_held
from tilegen.layouts import MmaAtom, find_atom, fragment_of
from tilegen.plan import LDMATRIX_TRANS, MATRIX_ROW_ELEMS, STMATRIX_TRANS, Effects, Mma, Move, Ref, Touch, matrices
from tilegen.scopes import SCOPES
from tilegen.spaces import Space

HELD_AS = {TFLOAT32: "float32"}  # what holds the elements of a type
_LANES = SCOPES["warp"].threads


# ---------------------------------------------------------------- mma.sync
def multiply_fragments(step: Mma, touched: Effects, site: Site) -> None:
    """Whole warps put the product of a and b on top of c, when somebody looks at it."""
    atom, group = find_atom(step.via.name), site.group
    require_whole_warps(atom.name, site)
    (written,) = touched.written
    first, second, _ = touched.touches  # a and b are read, then c
    a, b = (_gather(touch, operand, atom, site) for touch, operand in ((first, "A"), (second, "B")))
    root, columns, grid = locate_held(written, site)
    require_registers(root, written, "C", atom, site)
    root.store.check_columns(columns, group, site)
    owed = root.store.owed
    if not isinstance(owed, FragmentSum) or not owed.goes_on(atom, group, columns, a, b):
        owed = FragmentSum(atom, site.machine.domain, group, root.store, columns, grid)
        root.store.owe(owed)
    owed.left.append(a)
    owed.right.append(b)
    if not owed.domain.adds_freely:
        root.store.pay()


def _gather(touch: Touch, operand: str, atom: MmaAtom, site: Site) -> Array:
    """The matrices of an operand, (warps, *grid of trips, rows, columns); once along loops in which it stays."""
    root, bits = read_held(touch, site)
    require_registers(root, touch, operand, atom, site)
    return _of_warps(bits, atom, operand, site.group, site.machine.domain)


def _of_warps(bits: Array, atom: MmaAtom, operand: str, group: Group, domain: Domain) -> Array:
    """The matrices that warps hold, (warps, *grid, rows, columns), from the bits (threads, *grid, elements)."""
    held = bits[group.by_lane].view(domain.stored(held_as(atom, operand)))
    lane, register = holders(atom, operand)
    trips = held.reshape(len(held) // _LANES, _LANES, -1, held.shape[-1]).swapaxes(1, 2)
    result: Array = trips[:, :, lane, register].reshape(len(trips), *held.shape[1:-1], *lane.shape)
    return result


def held_as(atom: MmaAtom, operand: str) -> str:
    return HELD_AS.get(atom.dtype(operand), atom.dtype(operand))


def require_registers(root: Root, touch: Touch, operand: str, atom: MmaAtom, site: Site) -> None:
    dtype = held_as(atom, operand)
    if not root.memory.traits.is_held or touch.ref.memory.dtype != dtype:
        found = f"{root.memory.space} {touch.ref.memory.dtype}"
        site.fail(MALFORMED, f"{atom.name} takes {operand} as {dtype} in registers, not {found}")


@dataclass
class FragmentSum:
    """Accumulators of warps, with the products of ``left`` and ``right`` that are still to be added.

    Both are (warps, *grid, rows, columns). One product of matrices put side by side along K is their sum, where the
    domain adds freely.
    """

    atom: MmaAtom
    domain: Domain
    group: Group
    store: Registers
    columns: slice | Array
    grid: tuple[int, ...]
    left: list[Array] = field(default_factory=list)
    right: list[Array] = field(default_factory=list)

    def goes_on(self, atom: MmaAtom, group: Group, columns: slice | Array, a: Array, b: Array) -> bool:
        """Whether a product of these threads is one more of its own."""
        if atom is not self.atom or len(self.left) >= MOST_OWED:
            return False
        is_alike = (a.shape, b.shape) == (self.left[0].shape, self.right[0].shape)
        return is_alike and _are_same(columns, self.columns) and np.array_equal(group.thread, self.group.thread)

    def total(self) -> Array:
        """The bits of the accumulators, (threads, elements)."""
        atom, group = self.atom, self.group
        bits = self.store.held(self.columns, group).reshape(len(group), *self.grid, -1)
        c = _of_warps(bits, atom, "C", group, self.domain)
        a, b = (x[0] if len(x) == 1 else np.concatenate(x, k) for x, k in ((self.left, -1), (self.right, -2)))
        product = self.domain.matmul(a, b, c, atom.a, atom.c).reshape(len(c), -1, *c.shape[-2:])
        lane, register = holders(atom, "C")
        held = np.empty((len(c), _LANES, product.shape[1], bits.shape[-1]), c.dtype)
        held.swapaxes(1, 2)[:, :, lane, register] = product
        result = np.empty((len(group), *held.shape[2:]), bits.dtype)
        result[group.by_lane] = held.reshape(result.shape).view(bits.dtype)
        return result.reshape(len(group), -1)


def _are_same(one: slice | Array, other: slice | Array) -> bool:
    """Are they the same columns? Trips of other loops may name another number of them."""
    if isinstance(one, slice) or isinstance(other, slice):
        return type(one) is type(other) and one == other
    return np.array_equal(one, other)


@cache
def holders(atom: MmaAtom, operand: str) -> tuple[Array, Array]:
    """(lane, register) of every element of an atom's operand, rows by columns; lanes count over a warpgroup's warps."""
    m, n, k = atom.shape
    shape = {"A": (m, k), "B": (k, n), "C": (m, n)}[operand]
    place = fragment_of(atom, operand).place(tuple(np.indices(shape)), shape)
    axes = ("laneid", "wid_in_wg", "m")
    lane, warp, register = (np.broadcast_to(np.asarray(place.get(axis, 0)), shape) for axis in axes)
    return lane + _LANES * warp, register


# ---------------------------------------------------------------- ldmatrix and stmatrix
def load_matrices(step: Move, touched: Effects, site: Site) -> None:
    """Whole warps load 1, 2 or 4 matrices."""
    (rows,), (registers,) = touched.read, touched.written
    givers, count = _require_rows(step, rows, registers, site), matrices(step)
    root, flat, who = locate_trips(rows, givers)
    bits = root.store.read_rows(flat, rows.elems, who, site)
    held = _held_of(bits.reshape(-1, count, MATRIX_ROW_ELEMS, MATRIX_ROW_ELEMS), step.via is LDMATRIX_TRANS)
    by_trip = held.reshape(-1, len(site.group) // _LANES, *held.shape[1:])  # warps of one trip after the other's
    write_held(registers, by_trip.transpose(1, 2, 0, 3, 4).reshape(len(site.group), -1, registers.elems), site)


def store_matrices(step: Move, touched: Effects, site: Site) -> None:
    """Whole warps store 1, 2 or 4 matrices."""
    (registers,), (rows,) = touched.read, touched.written
    givers, count = _require_rows(step, rows, registers, site), matrices(step)
    root, flat = locate(rows.ref, rows.elems, givers)
    held_root, held_at = locate(registers.ref, registers.elems, site)
    held = held_root.store.read(held_at, registers.elems, site.group, site)
    bits = _rows_of(held.reshape(-1, _LANES, count, 2), step.via is STMATRIX_TRANS)
    root.store.write_rows(flat, bits.reshape(-1, MATRIX_ROW_ELEMS), givers.group, site)


def _require_rows(step: Move, rows: Touch, registers: Touch, site: Site) -> Site:
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
