"""mma.sync: the lanes of a warp hold parts of three matrices and multiply them together."""

from __future__ import annotations

from functools import cache

import numpy as np

from tilegen.arithmetic import TFLOAT32
from tilegen.interpret.fault import MALFORMED
from tilegen.interpret.site import Site, require_whole_warps
from tilegen.interpret.threads import Array
from tilegen.interpret.together import read_held, write_held
from tilegen.layouts import MmaAtom, find_atom, fragment_of
from tilegen.plan import Effects, Mma, Touch
from tilegen.scopes import SCOPES

_LANES = SCOPES["warp"].threads


def multiply_fragments(step: Mma, touched: Effects, site: Site) -> None:
    """Whole warps put the product of a and b on top of c: gathered from the lanes, multiplied, handed back."""
    atom, group = find_atom(step.via.name), site.group
    require_whole_warps(atom.name, site)
    (written,) = touched.written
    first, second, _ = touched.touches  # a and b are read, then c
    a, b, c = (_gather(t, o, atom, site) for t, o in zip((first, second, written), "ABC", strict=True))
    lane, register = _holders(atom, "C")
    product = site.machine.domain.matmul(a, b, c, atom.a, atom.c).reshape(len(c), -1, *c.shape[-2:])
    held = np.empty((len(c), _LANES, product.shape[1], written.elems), c.dtype)
    held.swapaxes(1, 2)[:, :, lane, register] = product
    bits = np.empty((len(group), *held.shape[2:]), site.machine.domain.bits(written.ref.memory.elem_bytes))
    bits[group.by_lane] = held.reshape(bits.shape).view(bits.dtype)
    write_held(written, bits, site)


def _gather(touch: Touch, operand: str, atom: MmaAtom, site: Site) -> Array:
    """The matrices of an operand, (warps, *grid of trips, rows, columns); once along loops in which it stays."""
    dtype = atom.dtype(operand)
    dtype = "float32" if dtype == TFLOAT32 else dtype
    root, bits = read_held(touch, site)
    if root.memory.space != "register" or touch.ref.memory.dtype != dtype:
        found = f"{root.memory.space} {touch.ref.memory.dtype}"
        site.fail(MALFORMED, f"{atom.name} takes {operand} as {dtype} in registers, not {found}")
    held = bits[site.group.by_lane].view(site.machine.domain.stored(dtype))
    lane, register = _holders(atom, operand)
    trips = held.reshape(len(held) // _LANES, _LANES, -1, held.shape[-1]).swapaxes(1, 2)
    result: Array = trips[:, :, lane, register].reshape(len(trips), *held.shape[1:-1], *lane.shape)
    return result


@cache
def _holders(atom: MmaAtom, operand: str) -> tuple[Array, Array]:
    """(lane, register) of every element of an atom's operand, rows by columns."""
    m, n, k = atom.shape
    shape = {"A": (m, k), "B": (k, n), "C": (m, n)}[operand]
    place = fragment_of(atom, operand).place(tuple(np.indices(shape)), shape)
    lane, register = (np.broadcast_to(np.asarray(place.get(axis, 0)), shape) for axis in ("laneid", "m"))
    return lane, register
