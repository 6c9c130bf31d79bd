"""Who owns what of a tile that many atoms multiply: CuTe's TiledMMA as ordinary layouts.

Position y along a mode is a + atom * (w + atoms * r): element a of an atom, the w-th atom, its r-th round. The element
there is pi(y) = permutation(y mod P) + P * (y div P). Every digit of y is one of a lane, of a warp or of a register,
and every digit of pi's argument a stride of the element: where the two ways to cut y into digits have a common
refinement, ownership is a TileLayout.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.errors import LayoutError
from tilegen.layouts import cute
from tilegen.layouts.constructors.mma_atoms import OPERANDS, MmaAtom, fragment_of, require_operand
from tilegen.layouts.constructors.mma_tiling import (
    MOST_THREADS,
    MmaMode,
    MmaTiling,
    count_atoms,
    modes_of_tiling,
    tile_mma,
)
from tilegen.layouts.core.canonical import canonicalize, split_axis
from tilegen.layouts.core.dimensions import group
from tilegen.layouts.core.iters import Iter, Iters, require_known
from tilegen.layouts.core.rows import drop_units, fuse_neighbours
from tilegen.layouts.core.values import TileLayout, size, tile_of
from tilegen.layouts.cute import CuteLayout
from tilegen.layouts.cute.values import Modes, flat_modes


def _element_digits(mode: MmaMode) -> Modes:
    """pi as digits of y, fastest first: (extent, stride of the element)."""
    if not isinstance(mode.permutation, CuteLayout):
        return [(mode.covered, 1)]
    if mode.covered % mode.period:
        raise LayoutError(
            f"the permutation {mode.permutation} of {mode.name} rearranges {mode.period}, which is no multiple of the "
            f"{mode.native} that the atoms cover: its last round reaches half of a period",
            hint=f"a size that {mode.native} divides",
        )
    return [*flat_modes(mode.permutation), (mode.covered // mode.period, mode.period)]


_Owner = tuple[int, int, str]  # extent, stride, axis


def _meet(owners: Sequence[_Owner], elements: Modes, mode: MmaMode) -> Iters:
    """Both sequences of digits of y cut until they agree, as iters by falling stride of the element."""
    waiting = [digit for digit in reversed(elements) if digit[0] != 1]
    found: list[tuple[int, Iter]] = []
    for extent, stride, axis in owners:
        while extent != 1:
            n, step = waiting.pop()
            part = min(n, extent)
            if n % part or extent % part:
                raise LayoutError(
                    f"ownership along {mode.name} is no layout: the permutation {mode.permutation} cuts {extent} "
                    f"positions of one owner's digit after {n}",
                    hint=f"extents of which one divides the other: {mode.atom} and {mode.atoms.shape} are the atoms'",
                )
            found.append((step, Iter(part, stride, axis)))
            extent, stride = extent // part, stride * part
            if n != part:
                waiting.append((n // part, step * part))
    return tuple(i for _, i in sorted(found, key=lambda pair: -pair[0]))


# ---------------------------------------------------------------- all modes
def tiled_mma(atom: Any, atoms: Any, permutation: Any, operand: str, tile: Any) -> TileLayout:
    """Who owns which element of A [M, K], B [K, N] or C [M, N] of a tile (M, N, K): CuTe's TiledMMA as a layout.

    m(t, v, r) = pi(aM(lane, v) + atomM * (warpM(t) + AM * r)), n and k alike; pi(i) = perm(i mod P) + P * (i div P), or
    the identity for an int and None. Threads are on tx (simt), on laneid and warpid, or on laneid, wid_in_wg and wgid
    (wgmma); m counts registers, an atom's first, then rounds along M (of B: N), then along K (of C: N). Threads along a
    mode that the operand has not are replicas; along K of C each holds a sum of its own. A tile that the atoms and
    periods do not divide is covered by a larger one, as in CuTe: the layout is over ``covered_shape``, and
    ``count_outside`` says how many registers lie past the end. Arguments are those of ``tile_mma``. Raises LayoutError
    for what these refuse, for B of wgmma, and where the permutation's digits cross those of the atoms.

    >>> print(tiled_mma("mma.m16n8k16", (2, 2, 1), None, "C", (32, 32, 16)))
    S[(2, 2, 8, 2, 2, 4, 2):(1@warpid, 2, 4@laneid, 4, 2@warpid, 1@laneid, 1)]
    >>> print(tiled_mma("fma.f32", "(16,16,1):(16,1,0)", ("R=4", "R=4", None), "A", (128, 128, 1)))
    S[(2, 16, 4):(4, 16@tx, 1)] + R[16:1@tx]
    """
    require_operand(operand)
    return lay_out_mma(tile_mma(atom, atoms, permutation, tile), operand)


def number_threads(layout: TileLayout, scope: str) -> TileLayout:
    """Owners among the threads, and warps, of an instance of a scope, which ``tiled_mma`` numbers as if they were all.

    >>> print(number_threads(tiled_mma("fma.f32", (4, 8), None, "C", (8, 8, 1)), "warp"))
    S[(2, 4, 8):(1, 1@laneid, 4@laneid)]
    """
    names = {"warp": {"tx": "laneid"}, "warpgroup": {"tx": "tid_in_wg", "warpid": "wid_in_wg"}}.get(scope, {})
    shard, replica = (
        tuple(Iter(i.extent, i.stride, names.get(i.axis, i.axis)) for i in part)
        for part in (layout.shard, layout.replica)
    )
    return TileLayout(shard, replica, layout.offset)


@lru_cache(maxsize=1024)
def lay_out_mma(tiling: MmaTiling, operand: str) -> TileLayout:
    """``tiled_mma`` of arguments that are read. Raises LayoutError as it does.

    >>> print(lay_out_mma(tile_mma("mma.m16n8k16", (1, 2, 1), None, (16, 16, 16)), "A"))
    S[(2, 8, 2, 4, 2):(2, 4@laneid, 4, 1@laneid, 1)] + R[2:1@warpid]
    """
    require_operand(operand)
    modes, places = modes_of_tiling(tiling), _place_atoms(tiling)
    rows, columns = OPERANDS[operand]
    shape = tiling.atom.shape[rows], tiling.atom.shape[columns]
    grouped, ends = group(fragment_of(tiling.atom, operand), shape)
    fragment, registers = tile_of(grouped).shard, require_known(size(grouped, "m"), "registers")
    strides, step = {}, registers
    for d in sorted((rows, columns)):  # rounds along M or N come before those along K
        strides[d], step = step, step * modes[d].rounds
    shard: Iters = ()
    for d, (begin, end) in zip((rows, columns), pairwise(ends), strict=True):
        inside = [(*_on_tx(i), i.axis if i.axis == "m" else "tx") for i in reversed(fragment[begin:end])]
        outside = [(n, stride, "tx") for n, stride in flat_modes(places[d])]
        owners = [*inside, *outside, (modes[d].rounds, strides[d], "m")]
        shard += fuse_neighbours(_meet(owners, _element_digits(modes[d]), modes[d]))
    (other,) = {0, 1, 2} - {rows, columns}
    copies = tuple(Iter(n, stride, "tx") for n, stride in flat_modes(places[other]))
    return _spell_threads(tiling.atom, TileLayout(shard or (Iter(1, 1),), drop_units(copies)))


def _on_tx(i: Iter) -> tuple[int, int]:
    threads = {"laneid": 1, "wid_in_wg": 32, "m": 1}[i.axis]
    return require_known(i.extent, "an extent"), require_known(i.stride, "a stride") * threads


def _place_atoms(tiling: MmaTiling) -> tuple[CuteLayout, CuteLayout, CuteLayout]:
    """The first thread of each atom along M, N and K: the atoms on the threads that one atom leaves free."""
    if tiling.atom.kind == "simt":
        m, n, k = cute.modes_of(tiling.atoms)
    else:
        m, n, k = cute.modes_of(cute.modes_of(cute.logical_product(tiling.atom.places, tiling.atoms))[1])
    return m, n, k


def _spell_threads(atom: MmaAtom, layout: TileLayout) -> TileLayout:
    """tx of simt; of a warp's atoms warpid and laneid, of a warpgroup's wgid, wid_in_wg and laneid."""
    splits = {"simt": (), "wgmma": (("tx", "wgid", "tid_in_wg", 128), ("tid_in_wg", "wid_in_wg", "laneid", 32))}
    for split in splits.get(atom.kind, (("tx", "warpid", "laneid", 32),)):
        layout = split_axis(layout, *split) or layout
    return TileLayout(layout.shard, tile_of(canonicalize(layout)).replica)


# ---------------------------------------------------------------- what is covered
def covered_shape(tiling: MmaTiling, operand: str) -> tuple[int, int]:
    """Rows and columns that the layout of an operand is over: those of the tile, or more where it does not divide.

    >>> covered_shape(tile_mma("fma.f32", (16, 16, 1), ("R=3", "R=3"), (128, 128, 8)), "C")
    (144, 144)
    """
    require_operand(operand)
    modes = modes_of_tiling(tiling)
    rows, columns = OPERANDS[operand]
    return modes[rows].covered, modes[columns].covered


def count_outside(tiling: MmaTiling, operand: str) -> int:
    """Registers of all threads that hold nothing of the tile: those of the covered shape that lie past its end.

    >>> count_outside(tile_mma("fma.f32", (16, 16, 1), ("R=3", "R=3"), (128, 128, 8)), "C")
    4352
    """
    rows, columns = OPERANDS[operand]
    (other,) = {0, 1, 2} - {rows, columns}
    inside = tiling.tile[rows] * tiling.tile[columns]
    return (prod(covered_shape(tiling, operand)) - inside) * count_atoms(tiling.atoms)[other]


def suggest_whole(tiling: MmaTiling, operand: str) -> str:
    """How a tile that is covered by a larger one would be whole: the nearest period or extent; "" where it is whole.

    >>> suggest_whole(tile_mma("fma.f32", (16, 16, 1), ("R=3", "R=4"), (128, 128, 8)), "C")
    'M: 128 is no whole number of periods of 48; 32 divides it'
    >>> suggest_whole(tile_mma("mma.m16n8k16", (2, 2, 1), None, (100, 128, 32)), "A")
    'M: 100 is no whole number of periods of 32; 96 or 128 would be'
    """
    parts = []
    for mode in (modes_of_tiling(tiling)[d] for d in OPERANDS[operand]):
        if mode.covered == mode.tile:
            continue
        most = min(mode.tile // mode.native, MOST_THREADS)
        periods = [mode.native * e for e in range(1, most + 1) if mode.tile % (mode.native * e) == 0]
        down = mode.tile // mode.native * mode.native
        wholes = " or ".join(str(n) for n in (down, down + mode.native) if n)
        fix = f"{min(periods, key=mode.distance_to)} divides it" if periods else f"{wholes} would be"
        parts.append(f"{mode.name}: {mode.tile} is no whole number of periods of {mode.period}; {fix}")
    return ", ".join(parts)


def count_registers(tiling: MmaTiling, operand: str) -> int:
    """Elements of an operand that each thread holds.

    >>> count_registers(tile_mma("mma.m16n8k16", (2, 2, 1), (32, 32, 16), (128, 128, 32)), "C")
    128
    """
    modes = modes_of_tiling(tiling)
    rounds = prod(modes[d].rounds for d in OPERANDS[operand])
    return require_known(size(fragment_of(tiling.atom, operand), "m"), "registers") * rounds


def list_owned(tiling: MmaTiling, operand: str) -> NDArray[np.int64]:
    """(threads, registers, 2): row and column that each register of each thread holds, -1 for threads without any.

    Threads are numbered by tx. Rows and columns count past the tile where it is covered by a larger one.

    >>> list_owned(tile_mma("mma.m16n8k16", (1, 1, 1), None, (16, 8, 16)), "C")[5].tolist()
    [[1, 2], [1, 3], [9, 2], [9, 3]]
    """
    layout, shape = lay_out_mma(tiling, operand), covered_shape(tiling, operand)
    axes = {"tx": 1, "laneid": 1, "warpid": 32, "wid_in_wg": 32, "wgid": 128}
    rows, columns = (x.reshape(-1) for x in np.indices(shape))
    place = layout.place((rows, columns), shape)
    thread = sum((place[axis] * n for axis, n in axes.items() if axis in place), np.zeros(len(rows), np.int64))
    register = place.get("m", np.zeros(len(rows), np.int64))
    copies = np.zeros(1, np.int64)
    for i in layout.replica:
        steps = np.arange(require_known(i.extent, "")) * require_known(i.stride, "") * axes[i.axis]
        copies = (copies[:, None] + steps).reshape(-1)
    owned = np.full((int(thread.max() + copies.max()) + 1, count_registers(tiling, operand), 2), -1, np.int64)
    for copy in copies:
        owned[thread + copy, register] = np.stack((rows, columns), 1)
    return owned
