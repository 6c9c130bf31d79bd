"""The instructions of mma: a row for each atom of mma.sync, and for all of wgmma that differ in N alone."""

from __future__ import annotations

from dataclasses import replace

from tilegen.arithmetic import TFLOAT32
from tilegen.layouts import ATOMS, MmaAtom, fragment_of, size
from tilegen.plan import PRODUCTS, Instruction, OperandForm
from tilegen.plan.instructions import FRAGMENT, MATRIX, READS, UPDATES
from tilegen.spaces import REGISTER, SHARED

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
