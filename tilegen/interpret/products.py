"""mma.sync: the lanes of a warp hold parts of three matrices and multiply them together."""

from __future__ import annotations

from functools import cache

import numpy as np

from tilegen.arithmetic import TFLOAT32
from tilegen.interpret.address import locate
from tilegen.interpret.fault import MALFORMED
from tilegen.interpret.site import Site, require_whole_warps
from tilegen.interpret.threads import Array
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
    order = np.argsort(group.warp * _LANES + group.lane, kind="stable")
    a, b, c = (_gather(t, o, atom, order, site) for t, o in zip((first, second, written), "ABC", strict=True))
    lane, register = _holders(atom, "C")
    held = np.empty((len(group) // _LANES, _LANES, written.elems), c.dtype)
    held[:, lane, register] = site.machine.domain.matmul(a, b, c, atom.a, atom.c)
    bits = np.empty((len(group), written.elems), site.machine.domain.bits(written.ref.memory.elem_bytes))
    bits[order] = held.reshape(bits.shape).view(bits.dtype)
    root, at = locate(written.ref, written.elems, site)
    root.store.write(at, bits, group, site)


def _gather(touch: Touch, operand: str, atom: MmaAtom, order: Array, site: Site) -> Array:
    """The matrices of an operand, (warps, rows, columns)."""
    dtype = atom.dtype(operand)
    dtype = "float32" if dtype == TFLOAT32 else dtype
    root, at = locate(touch.ref, touch.elems, site)
    if root.memory.space != "register" or touch.ref.memory.dtype != dtype:
        found = f"{root.memory.space} {touch.ref.memory.dtype}"
        site.fail(MALFORMED, f"{atom.name} takes {operand} as {dtype} in registers, not {found}")
    held = root.store.read(at, touch.elems, site.group, site)[order].view(site.machine.domain.stored(dtype))
    lane, register = _holders(atom, operand)
    result: Array = held.reshape(-1, _LANES, touch.elems)[:, lane, register]
    return result


@cache
def _holders(atom: MmaAtom, operand: str) -> tuple[Array, Array]:
    """(lane, register) of every element of an atom's operand, rows by columns."""
    m, n, k = atom.shape
    shape = {"A": (m, k), "B": (k, n), "C": (m, n)}[operand]
    place = fragment_of(atom, operand).place(tuple(np.indices(shape)), shape)
    lane, register = (np.broadcast_to(np.asarray(place.get(axis, 0)), shape) for axis in ("laneid", "m"))
    return lane, register
