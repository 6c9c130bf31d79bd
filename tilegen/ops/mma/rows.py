"""The instructions of mma: a row for each atom of mma.sync."""

from __future__ import annotations

from tilegen.arithmetic import TFLOAT32
from tilegen.layouts import ATOMS, MmaAtom, fragment_of, size
from tilegen.plan import Instruction, OperandForm
from tilegen.plan.instructions import FRAGMENT, READS, UPDATES

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
        return OperandForm(name, use, FRAGMENT, ("register",), elems, word)

    return Instruction(
        atom.name, (operand("c", UPDATES), operand("a", READS), operand("b", READS)), "registers",
        feature=atom.feature, warp=True, prelude=atom.name.replace(".", "_"),
    )  # fmt: skip


ROWS = {atom.name: _make_row(atom) for atom in ATOMS if atom.kind == "mma_sync"}
