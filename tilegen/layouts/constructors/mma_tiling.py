"""A tile under many copies of an atom: the arguments of tiled_mma read and checked, and each mode's extents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Union

from tilegen.errors import LayoutError
from tilegen.layouts import cute
from tilegen.layouts.constructors.arguments import require_extents
from tilegen.layouts.constructors.mma_atoms import MODES, MmaAtom, find_atom
from tilegen.layouts.core.iters import require_index, require_known
from tilegen.layouts.cute import CuteLayout
from tilegen.layouts.cute.values import Modes, flat_modes

MOST_THREADS = 1024  # of a CTA: CUDA Programming Guide, "Compute Capabilities"
Permutation = Union[int, CuteLayout, None]  # noqa: UP007 - a runtime alias
_RUN = re.compile(r"\s*R\s*=\s*(\d{1,9})\s*", re.ASCII)
_IDENTITY = ("null", "None", "_")


@dataclass(frozen=True)
class MmaTiling:
    """A tile (M, N, K) under ``atoms`` copies of an atom, each mode rearranged by a permutation; made by ``tile_mma``.

    ``atoms`` has three modes, its places are those of the atoms among the CTA's threads. A permutation is an int (a
    period, the order stays), a layout, or None.
    """

    atom: MmaAtom
    atoms: CuteLayout
    permutation: tuple[Permutation, Permutation, Permutation]
    tile: tuple[int, int, int]

    @property
    def threads(self) -> int:
        """Threads that take part."""
        return self.atom.threads * cute.size(self.atoms)


def tile_mma(atom: Any, atoms: Any, permutation: Any, tile: Any) -> MmaTiling:
    """The arguments of ``tiled_mma``, read and checked.

    ``atom``: a row of the table or a name of one. ``atoms``: how many along M, N and K (the first the fastest, as in
    CuTe), or a CuTe layout or its text, whose places are 0 to n - 1. ``permutation``: for each mode an int, a CuTe
    layout or its text, 'R=4' (4 neighbours of each of F atoms stay together: (atom, F, R):(1, atom * R, atom)) or None;
    or None for all. Modes that are missing at the end have one atom and no permutation. Raises LayoutError.

    >>> tiling = tile_mma("fma.f32", "(16,16,1):(16,1,0)", ("R=4", "R=4", None), (128, 128, 8))
    >>> print(tiling.threads, *map(str, tiling.permutation))
    256 (16,4):(4,1) (16,4):(4,1) None
    """
    row = atom if isinstance(atom, MmaAtom) else find_atom(atom)
    if row.kind == "tcgen05":
        hint = "its operands lie in shared and tensor memory: leave out atoms and permutation"
        raise LayoutError(f"one thread starts {row.stem} for a whole tile: atoms of it share no tile", hint=hint)
    layout = _read_atoms(atoms)
    if row.threads * cute.size(layout) > MOST_THREADS:
        what = f"{cute.size(layout)} atoms of {row.threads} threads"
        raise LayoutError(f"{what} are {row.threads * cute.size(layout)} threads, a CTA has at most {MOST_THREADS}")
    if row.kind == "quad_pair" and row.threads * cute.size(layout) > 32 and cute.size(layout) % 4:
        raise LayoutError("quad pairs fill warps: atoms are 1, 2, or a multiple of 4")
    m, n, k = require_extents(tile, 3, "a tile (M, N, K)")
    given = [None] * 3 if permutation is None else permutation
    if not isinstance(given, (tuple, list)) or not 0 < len(given) <= 3:
        raise LayoutError(f"a permutation has an entry for M, N and K, not {given!r}")
    counts = count_atoms(layout)
    padded = [*given, *[None] * (3 - len(given))]
    read = tuple(_read_permutation(padded[d], MODES[d], row.shape[d], counts[d]) for d in range(3))
    return MmaTiling(row, layout, read, (m, n, k))  # type: ignore[arg-type]


def _read_atoms(atoms: Any) -> CuteLayout:
    """Three modes; places 0 to n - 1, each once."""
    layout = _read_cute(atoms, "atoms") if isinstance(atoms, str) else atoms
    if isinstance(layout, (tuple, list)):
        layout = CuteLayout(tuple(layout))
    if not isinstance(layout, CuteLayout):
        raise LayoutError(
            f"atoms is how many atoms lie along M, N and K, not {atoms!r}", hint="(2, 2, 1) or '(16,16,1):(16,1,0)'"
        )
    modes = cute.modes_of(layout)
    if len(modes) > 3:
        raise LayoutError(f"atoms has the modes M, N and K, {layout} has {len(modes)}")
    layout = cute.join([*modes, *[CuteLayout(1, 0)] * (3 - len(modes))])
    if not _is_dense(flat_modes(layout)):
        hint = f"its extents column-major: {CuteLayout(layout.shape)}"
        raise LayoutError(f"atoms {layout} does not put {cute.size(layout)} atoms on places 0 to n - 1 each", hint=hint)
    return layout


def _is_dense(modes: Modes) -> bool:
    """Whether the places are 0 to n - 1, each once: by rising stride, every mode continues the ones before."""
    moving = sorted(((d, n) for n, d in modes if n != 1))
    return all(d == covered for (d, _), covered in zip(moving, _reached(moving), strict=False))


def _reached(moving: Sequence[tuple[int, int]]) -> list[int]:
    return [prod(n for _, n in moving[:i]) for i in range(len(moving))]


def count_atoms(atoms: CuteLayout) -> tuple[int, ...]:
    """Atoms along M, N and K.

    >>> count_atoms(CuteLayout(((2, 2), 2, 1)))
    (4, 2, 1)
    """
    return tuple(cute.size(mode) for mode in cute.modes_of(atoms))


def _read_cute(text: str, what: str) -> CuteLayout:
    try:
        layout = cute.parse(text)
    except LayoutError as error:
        raise LayoutError(f"{what} {text!r}: {error}", hint="CuTe's shape:stride, as '(16,4):(4,1)'") from None
    if not isinstance(layout, CuteLayout):
        raise LayoutError(f"{what} {text!r} is a swizzle, not shape:stride")
    return layout


def _read_permutation(given: Any, mode: str, atom: int, count: int) -> Permutation:
    what = f"the permutation of {mode}"
    if given is None or (isinstance(given, str) and given.strip() in _IDENTITY):
        return None
    if isinstance(given, str) and (found := _RUN.fullmatch(given)):
        return group_runs(atom, count, require_index(int(found[1]), "R", 1))  # type: ignore[arg-type]
    if isinstance(given, str):
        given = _read_cute(given, f"{what},")
    if not isinstance(given, CuteLayout):
        hint = "a number, a CuTe layout such as '(16,4):(4,1)', 'R=4' or None"
        if isinstance(given, (str, bool, float, tuple, list, dict)):
            raise LayoutError(f"{what} is {given!r}, which is none", hint=hint)
        return require_known(require_index(given, what, 1), what)
    if not _is_dense(flat_modes(given)):
        n = cute.size(given)
        raise LayoutError(f"{what}, {given}, does not put {n} positions on 0 to {n - 1} each")
    return given


def group_runs(atom: int, count: int, run: int) -> CuteLayout:
    """The permutation R=run: (atom, F, R):(1, atom * R, atom); of an atom of one element (F, R):(R, 1).

    >>> print(group_runs(1, 16, 4), group_runs(8, 2, 2))
    (16,4):(4,1) (8,2,2):(1,16,8)
    """
    if atom == 1:
        return CuteLayout((count, run), (run, 1))
    return CuteLayout((atom, count, run), (1, atom * run, atom))


# ---------------------------------------------------------------- one mode
@dataclass(frozen=True)
class MmaMode:
    """One mode (M, N or K) of a tiling, in elements.

    ``native`` = atom * atoms is what all atoms cover at once, ``period`` P what the permutation rearranges, ``rounds``
    how often each atom comes, ``covered`` = native * rounds, at least ``tile``.
    """

    name: str
    atom: int
    atoms: CuteLayout
    permutation: Permutation
    tile: int

    @property
    def native(self) -> int:
        """Elements that the atoms cover at once."""
        return self.atom * cute.size(self.atoms)

    @property
    def period(self) -> int:
        """Elements that the permutation rearranges among themselves; the native coverage without one."""
        if isinstance(self.permutation, CuteLayout):
            return cute.size(self.permutation)
        return self.permutation or self.native

    @property
    def repetitions(self) -> int:
        """Periods that cover the tile."""
        return -(-self.tile // self.period)

    @property
    def rounds(self) -> int:
        """Atoms of one thread along the mode: ceil(ceil(tile / P) * P / native)."""
        return -(-self.repetitions * self.period // self.native)

    @property
    def covered(self) -> int:
        """Elements that the rounds reach."""
        return self.rounds * self.native

    def distance_to(self, period: int) -> int:
        """How far another period is from this one."""
        return abs(period - self.period)


def modes_of_tiling(tiling: MmaTiling) -> tuple[MmaMode, MmaMode, MmaMode]:
    """The modes M, N and K.

    >>> m, n, k = modes_of_tiling(tile_mma("mma.m16n8k16", (2, 2, 1), (32, 32, 16), (128, 128, 32)))
    >>> n.native, n.period, n.rounds, n.covered
    (16, 32, 8, 128)
    """
    parts = zip(MODES, tiling.atom.shape, cute.modes_of(tiling.atoms), tiling.permutation, tiling.tile, strict=True)
    m, n, k = (MmaMode(*part) for part in parts)
    return m, n, k
