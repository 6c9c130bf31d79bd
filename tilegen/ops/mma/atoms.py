"""Atoms of mma: their instructions, which of them can carry out a call, and the layouts that operands would need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from tilegen.arch import Arch
from tilegen.arithmetic import TFLOAT32
from tilegen.errors import LayoutError
from tilegen.kept import keep
from tilegen.layouts import ATOMS, Iter, MmaAtom, TileLayout, extent_of, find_atom, fragment_of, size, tiled_mma
from tilegen.ops.held import Held, matrix_of, table_of
from tilegen.ops.operand import Refused
from tilegen.plan import CELL_PRODUCTS, PRODUCTS, TENSOR_PRODUCTS, Instruction, OperandForm
from tilegen.plan.descriptors import TCGEN05, WGMMA
from tilegen.plan.instructions import FRAGMENT, MATRIX, READS, UPDATES
from tilegen.spaces import REGISTER, SHARED
from tilegen.spec.data import Call, Region

SIMT, MMA_SYNC = "simt", "mma_sync"  # with WGMMA and TCGEN05 the kinds of atoms, and the variants that take them
FACTORS = {"sfa": "a", "sfb": "b"}  # fields of scale factors, and of what they are
_LATER = {"quad_pair": "no GPU since Volta has the instruction"}
_WORDS = {"float32": "float", "float64": "double", "int32": "int"}  # of registers that hold one element each


def element_type(atom: MmaAtom, operand: str) -> str:
    """The type of the registers that hold operand A, B or C: those of tfloat32 hold float32.

    >>> from tilegen.layouts import find_atom
    >>> element_type(find_atom("mma.m16n8k8.tf32"), "A")
    'float32'
    """
    dtype = atom.dtype(operand)
    return "float32" if dtype == TFLOAT32 else dtype


def _make_row(atom: MmaAtom) -> Instruction:
    """Every lane's elements of the three fragments; of narrow types four bytes are one register."""

    def operand(name: str, use: str) -> OperandForm:
        elems = size(fragment_of(atom, name.upper()), "m")
        assert isinstance(elems, int)
        word = _WORDS.get(element_type(atom, name.upper()), "unsigned")
        return OperandForm(name, use, FRAGMENT, (REGISTER.state,), elems, word)

    return Instruction(
        atom.name, (operand("c", UPDATES), operand("a", READS), operand("b", READS)), "registers",
        feature=atom.feature, warp=True, prelude=atom.name.replace(".", "_"),
    )  # fmt: skip


ROWS = {atom.name: _make_row(atom) for atom in ATOMS if atom.kind == "mma_sync"}


# ---------------------------------------------------------------- wgmma
def _of_wgmma(atom: MmaAtom, held: bool) -> Instruction:
    """The row of every N: a from registers (``held``) or, as b always, from shared memory. Its step says N."""
    name = atom.name.replace(f"n{atom.shape[1]}", "nN")
    word = _WORDS.get(atom.c, "unsigned")
    c = OperandForm("c", UPDATES, FRAGMENT, (REGISTER.state,), 0, word)
    b = OperandForm("b", READS, MATRIX, (SHARED.state,))
    a = replace(b, field="a")
    if held:
        elems = size(fragment_of(atom, "A"), "m")
        assert isinstance(elems, int)
        a = OperandForm("a", READS, FRAGMENT, (REGISTER.state,), elems)
    return Instruction(
        f"{name}.registers" if held else name, (c, a, b), "matrices", feature=atom.feature, warp=True, queue=PRODUCTS,
        proxy="async", prelude=name.replace(".", "_"),
    )  # fmt: skip


WGMMA_ROWS = {
    row.name: row
    for atom in ATOMS
    if atom.kind == "wgmma" and atom.shape[1] == 64
    for row in (_of_wgmma(atom, False), _of_wgmma(atom, True))
}


def wgmma_row(atom: MmaAtom, held: bool) -> Instruction:
    """The row of an atom of wgmma, with a from registers or from shared memory.

    >>> from tilegen.layouts import find_atom
    >>> wgmma_row(find_atom("wgmma.m64n128k16.f32.bf16.bf16"), True).name
    'wgmma.m64nNk16.f32.bf16.bf16.registers'
    """
    name = atom.name.replace(f"n{atom.shape[1]}", "nN")
    return WGMMA_ROWS[f"{name}.registers" if held else name]


def tensor_row(atom: MmaAtom, in_cells: bool = False) -> Instruction:
    """The row of an atom of tcgen05, by its kind; ``in_cells``: with a in tensor memory.

    >>> from tilegen.layouts import find_atom
    >>> tensor_row(find_atom("tcgen05.m128n256k16.f32.bf16.bf16")).name
    'tcgen05.mma.f16'
    """
    return (CELL_PRODUCTS if in_cells else TENSOR_PRODUCTS)[atom.ptx_kind]


# ---------------------------------------------------------------- atoms of a call
def extents_of(call: Call) -> tuple[int, int, int]:
    """M, N and K of a call; of a pair of CTAs those of the whole product, to which each brings half of a and of b."""
    (m, k), n = call.regions["a"].shape, call.regions["b"].shape[1]
    ctas = ctas_of(call)
    return ctas * m, ctas * n, k


def ctas_of(call: Call) -> int:
    """How many CTAs share a call's product: c has the columns of all their b."""
    return int(call.regions["c"].shape[1]) // int(call.regions["b"].shape[1])


def has_factors(call: Call) -> bool:
    """Does a call multiply by scale factors too?"""
    return any(name in call.regions for name in FACTORS)


def list_atoms(call: Call, kind: str) -> tuple[MmaAtom, ...]:
    """The atoms of a kind for the operands' types, the largest K first; with scale factors where the call has some.

    Where ``atom`` names none, float32 is multiplied as it is: as tf32 only where the atom says so.
    """
    dtypes = {name: call.regions[name].buffer.dtype for name in ("a", "b", "c")}
    rows = [row for row in _list_rows(kind, tuple(dtypes.items())) if (row.factors != "") == has_factors(call)]
    named = {row.a for row in rows if call.fields.atom != "auto" and is_named(row, call.fields.atom)}
    taken = [row for row in rows if row.a in (named or {dtypes["a"]}) and row.ctas == ctas_of(call)]
    return tuple(sorted(taken, key=lambda row: (-row.shape[2], -row.shape[0])))


@cache
def _list_rows(kind: str, dtypes: tuple[tuple[str, str], ...]) -> tuple[MmaAtom, ...]:
    return tuple(row for row in ATOMS if row.kind == kind and is_for_types(row, dict(dtypes)))


def is_for_types(atom: MmaAtom, dtypes: Mapping[str, str]) -> bool:
    """Whether an atom takes registers of these types, by the operands' fields.

    >>> is_for_types(find_atom("mma.m16n8k8.tf32"), {"a": "float32", "b": "float32", "c": "float32"})
    True
    """
    return all(element_type(atom, name.upper()) == dtype for name, dtype in dtypes.items())


def is_named(atom: MmaAtom, name: str) -> bool:
    """Whether a name, which may leave out types, means an atom; auto means any.

    >>> is_named(find_atom("mma.m16n8k8.tf32"), "mma.m16n8k8"), is_named(find_atom("fma.f64"), "fma.f32")
    (True, False)
    """
    if name == "auto":
        return True
    try:
        return find_atom(name, atom.a, atom.b, atom.c) == atom
    except LayoutError:
        return False


@keep
def named_atom(call: Call) -> MmaAtom:
    """The atom that a call names, for its operands' types where the name leaves them out."""
    dtypes = tuple((name, call.regions[name].buffer.dtype) for name in ("a", "b", "c"))
    rows = (row for kind in (MMA_SYNC, SIMT, WGMMA, TCGEN05) for row in _list_rows(kind, dtypes))
    fitting = next((row for row in rows if is_named(row, call.fields.atom)), None)
    return fitting or find_atom(call.fields.atom)


def refuse_types(call: Call, kind: str) -> str | None:
    """Why no atom of a kind multiplies what a call has; None where one does."""
    if list_atoms(call, kind):
        return None
    a, b, c = (call.regions[name].buffer.dtype for name in ("a", "b", "c"))
    hint = ": as tf32 it does where 'atom' says so" if (a, b, c) == ("float32",) * 3 else ""
    return f"no atom of {kind} multiplies {a} by {b} into {c}{hint}"


def list_dividing(call: Call, kind: str) -> list[MmaAtom]:
    """The atoms of a kind that divide a call's product."""
    extents = extents_of(call)
    return [a for a in list_atoms(call, kind) if not any(n % part for n, part in zip(extents, a.shape, strict=True))]


def choose_largest(call: Call, fitting: Sequence[MmaAtom], none: str) -> MmaAtom:
    """Of atoms the one that a call names, or that with the largest M, then N.

    Raises Refused where there is none; ``none``: which ones there are not.
    """
    named = [a for a in fitting if is_named(a, call.fields.atom)]
    if not named:
        m, n, k = extents_of(call)
        what = none if call.fields.atom == "auto" else f"the atom {call.fields.atom} does not divide"
        raise Refused(f"{what} a product of {m} x {n} x {k}")
    return max(named, key=lambda a: a.shape[:2])


def reject_atom(atom: MmaAtom, call: Call, arch: Arch) -> str | None:
    """What speaks against an atom before any register is looked at."""
    if arch.compute_capability < atom.capability:
        return f"it needs sm_{atom.capability[0]}{atom.capability[1]}, {arch.name} has it not"
    for name, extent, part in zip("MNK", extents_of(call), atom.shape, strict=True):
        if extent % part:
            return f"{name} is {extent}, no multiple of {part}"
    return None


def explain_later(name: str) -> str:
    """Why a kind of atom that exists is not used; "" for those that are.

    >>> explain_later("mma.m8n8k4.nt")
    'no GPU since Volta has the instruction'
    """
    return "" if name == "auto" else _LATER.get(find_atom(name).kind, "")


# ---------------------------------------------------------------- the layouts that would fit
@dataclass(frozen=True)
class AtomTiling:
    """How many atoms lie along M, N and K, and the permutations: the arguments of ``tiled_mma``."""

    atom: MmaAtom
    atoms: Any
    permutation: Any

    def write(self, operand: str, tile: tuple[int, int, int]) -> str:
        """The layout of an operand as text.

        >>> print(AtomTiling(find_atom("fma.f32"), (2, 2, 1), None).write("A", (8, 8, 1)))
        tiled_mma('fma.f32', (2, 2, 1), None, 'A', (8, 8, 1))
        """
        atoms = tuple(self.atoms) if isinstance(self.atoms, list) else self.atoms
        permutation = None if self.permutation is None else tuple(self.permutation)
        return f"tiled_mma({self.atom.name!r}, {atoms!r}, {permutation!r}, {operand!r}, {tile})"

    def layout(self, operand: str, tile: tuple[int, int, int]) -> TileLayout:
        return tiled_mma(self.atom, self.atoms, self.permutation, operand, tile)


def choose_tiling(call: Call, atom: MmaAtom, groups: int, held: dict[str, Held]) -> AtomTiling | None:
    """The call's own ``atoms``; else those that c's registers are, else those with the fewest registers of a and b.

    None where no number of atoms along M and N divides the tile.
    """
    found = list_tilings(call, atom, groups)
    if call.fields.atoms == "auto" and "c" in held:
        return next((t for t in found if _owns(t, held["c"], extents_of(call))), next(iter(found), None))
    return next(iter(found), None)


def list_tilings(call: Call, atom: MmaAtom, groups: int) -> tuple[AtomTiling, ...]:
    """The call's own ``atoms``, or all numbers of atoms along M and N that divide the tile, those with the fewest
    registers of a and b first.
    """
    fields, (m, n, _) = call.fields, extents_of(call)
    if fields.atoms != "auto":
        return (AtomTiling(atom, fields.atoms, fields.permutation),)
    found = []
    for along_m in (d for d in range(1, groups + 1) if groups % d == 0):
        along_n = groups // along_m
        if m % (along_m * atom.shape[0]) or n % (along_n * atom.shape[1]):
            continue
        tiling = AtomTiling(atom, (along_m, along_n, 1), fields.permutation)
        found.append((m // along_m + n // along_n, along_n, tiling))
    return tuple(tiling for *_, tiling in sorted(found, key=lambda f: f[:2]))


def _owns(tiling: AtomTiling, held: Held, tile: tuple[int, int, int]) -> bool:
    """Is c's function that of a tiling, whatever registers it begins at?"""
    try:
        layout = tiling.layout("C", tile)
    except LayoutError:
        return False
    return is_function_of(held, layout)


def is_function_of(held: Held, layout: TileLayout) -> bool:
    """Does every thread hold the same elements in the same order as under ``layout``, over the region's shape?"""
    wanted = table_of(layout, held.shape, len(held.elements))
    mine = held.elements[:, (held.elements >= 0).any(0)]
    return wanted is not None and np.array_equal(mine, wanted[:, (wanted >= 0).any(0)])


def write_layout(tiling: AtomTiling, call: Call, field: str) -> str:
    """The layout, as text, of a field's whole buffer; of one with more dimensions, copies of the registers."""
    region, (m, n, k) = call.regions[field], extents_of(call)
    rows, columns = (_extent(region, d) for d in matrix_of(region))
    tile = {"a": (rows, n, columns), "b": (m, columns, rows), "c": (rows, columns, k)}[field]
    if len(region.buffer.shape) == 2:
        return tiling.write(field.upper(), tile)
    layout = tiling.layout(field.upper(), tile)
    registers: Any = extent_of(layout, "m")
    outer: list[Iter] = []
    for d in reversed([d for d in range(len(region.buffer.shape)) if d not in matrix_of(region)]):
        outer.insert(0, Iter(_extent(region, d), registers))
        registers *= _extent(region, d)
    return str(TileLayout((*outer, *layout.shard), layout.replica))


def _extent(region: Region, d: int) -> int:
    extent = region.buffer.shape[d]
    assert isinstance(extent, int)
    return extent
