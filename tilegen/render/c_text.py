"""Pieces of C: where an element lies, declarations, constants, comments, long lines folded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilegen.arithmetic import Parameter
from tilegen.decisions import COLUMNS, printable, wrap_line
from tilegen.dtypes import DTYPES, DType, numpy_dtype
from tilegen.index import INT_LIMIT, Formula, Index, Var, bound, conjuncts, div, less, mul, multiple, to_c, wide_type
from tilegen.layouts.core.cells import CELL_BITS
from tilegen.plan import Barrier, Memory, Ref, TensorMap, subscript


def element(ref: Ref) -> str:
    """The C lvalue of an element.

    >>> from tilegen.index import Var
    >>> from tilegen.plan import Memory
    >>> element(Memory("A", "float32", (256,), (1,), "shared")[Var("s", 2) * 128])
    'A[s * 128]'
    """
    return f"{ref.memory.name}[{to_c(subscript(ref))}]"


def pointer(ref: Ref) -> str:
    """The address of an element: ``A``, or ``&A[s * 128]``; of tensor memory its number."""
    if ref.memory.traits.has_cells:
        return cell_address(ref)
    return ref.memory.name if is_zero(subscript(ref)) else f"&{element(ref)}"


def cell_address(ref: Ref) -> str:
    """The address of an element of tensor memory: its lane from bit 16 on, its column below (PTX ISA, Addressing).

    >>> from tilegen.index import Var
    >>> from tilegen.plan import Memory
    >>> acc, w = Memory("acc", "float32", (128, 256), (512, 1), "tmem"), Var("wid_in_wg", 4)
    >>> cell_address(acc[0, 0]), cell_address(acc[w * 32, Var("trip", 9) % 2 * 128 + 64])
    ('acc', 'acc + (wid_in_wg << 21) + (trip & 1) * 128 + 64')
    """
    (lane, at), bits = ref.at, DTYPES[ref.memory.dtype].bits
    assert multiple(mul(at, bits)) % CELL_BITS == 0, f"{element(ref)} begins inside of a column"
    column, text = div(mul(at, bits), CELL_BITS), ref.memory.name
    if not is_zero(lane):
        shift = (multiple(lane) & -multiple(lane)).bit_length() - 1
        first = div(lane, 1 << shift)
        inside = to_c(first) if isinstance(first, (int, Var)) else f"({to_c(first)})"
        text += f" + ({inside} << {_LANE_SHIFT + shift})"
    parts = column.args if isinstance(column, Formula) and column.symbol == "+" else (column,)
    return text if is_zero(column) else to_c(Formula("+", (Var(text, 2), *parts), bound(column) + 1))


_LANE_SHIFT = 16


def is_zero(x: Index) -> bool:
    """The constant 0: not an expression that may happen to be 0."""
    return isinstance(x, int) and x == 0


# ---------------------------------------------------------------- declarations and parameters
class Election(Var):
    """Whether the thread is the elected one of its role, 1 or 0: a variable of the text alone, there a bool."""


def declare(memory: Memory) -> str:
    """A local or shared array, aligned for the vector accesses that it can see.

    >>> declare(Memory("tmp", "float16", (4,), (1,), "register"))
    '__align__(8) half_t tmp[4]'
    """
    dtype, elems = DTYPES[memory.dtype], elems_of(memory)
    align = f"__align__({memory.begins_at}) " if memory.begins_at > dtype.bytes else ""
    return f"{align}{dtype.c} {memory.name}[{elems}]"


def elems_of(memory: Memory) -> int:
    """The number of elements that a local or shared array is declared with."""
    span = memory.span
    assert isinstance(span, int), f"{memory.name} is {memory.space} memory of no fixed size"
    return span


def parameter(x: Var | Memory | TensorMap | Barrier | Parameter, written: frozenset[str]) -> str:
    """A parameter of a __device__ function."""
    if isinstance(x, Var):
        return f"{'bool' if isinstance(x, Election) else int_type(x)} {x.name}"
    if isinstance(x, Parameter):
        return f"{DTYPES[x.type].c} {x.name}"
    if isinstance(x, TensorMap):
        return f"const TensorMap &{x.name}"
    if isinstance(x, Barrier):
        return f"unsigned long long *{x.name}"
    if x.traits.has_cells:
        return f"unsigned {x.name}"
    const, c = "" if x.name in written else "const ", DTYPES[x.dtype].c
    return f"{const}{c} (&{x.name})[{elems_of(x)}]" if x.traits.is_held else f"{const}{c} *{x.name}"


def argument(formal: Any, actual: Any, written: frozenset[str]) -> str:
    """What a call passes for ``formal``: a value, a pointer, or an array."""
    if isinstance(formal, Var):
        return to_c(actual)
    const, c, m = "" if formal.name in written else "const ", DTYPES[formal.dtype].c, actual.memory
    if formal.traits.has_cells:
        return pointer(actual)
    if not formal.traits.is_held:
        return f"({const}{c} *){pointer(actual)}" if DTYPES[m.dtype].c != c else pointer(actual)
    if DTYPES[m.dtype].c == c and elems_of(m) == elems_of(formal) and is_zero(actual.offset):
        return str(m.name)
    return f"*({const}{c} (*)[{elems_of(formal)}])&{element(actual)}"


def int_type(x: Var) -> str:
    """The C type that holds every value of a variable."""
    return "int" if x.bound <= INT_LIMIT and x.least >= -INT_LIMIT else wide_type(x)


def spell_condition(condition: Index) -> str:
    """A condition as C text; one compare of unsigned numbers says of a variable that it is 0 or more, and less.

    >>> from tilegen.index import every
    >>> to, n = Var("to", 1 << 31, 1, -(1 << 31)), Var("N", 99)
    >>> spell_condition(every(less(-1, to), less(to, n))), spell_condition(less(n, 3))
    ('(unsigned)to < (unsigned)N', 'N < 3')
    """
    parts = list(conjuncts(condition))
    texts: list[str] = []
    for part in parts:
        var = part.args[0] if isinstance(part, Formula) and part.symbol == "<" else None
        if isinstance(var, Var) and var.least < 0 and less(-1, var) in parts:
            assert isinstance(part, Formula)
            kind = "unsigned" if int_type(var) == "int" else "unsigned long long"
            texts.append(f"({kind}){var.name} < {_spell_unsigned(part.args[1], kind)}")
        elif not _is_from_zero(part, parts):
            texts.append(to_c(part))
    if len(texts) == len(parts):
        return to_c(condition)
    return " && ".join(f"({text})" if " || " in text or " ? " in text else text for text in texts)


def _is_from_zero(part: Index, parts: Sequence[Index]) -> bool:
    """Does a part say of a variable that it is 0 or more, of which another says what it is less than?"""
    if not isinstance(part, Formula) or part.symbol != "<" or part.args[0] != -1:
        return False
    below = (p for p in parts if isinstance(p, Formula) and p.symbol == "<")
    return isinstance(part.args[1], Var) and any(p.args[0] == part.args[1] for p in below)


def _spell_unsigned(x: Index, kind: str) -> str:
    if isinstance(x, int):
        return f"{x}{'u' if kind == 'unsigned' else 'ull'}"
    return f"({kind}){to_c(x)}" if isinstance(x, Var) else f"({kind})({to_c(x)})"


# ---------------------------------------------------------------- constants
COMPLEX_PART = {"complex64": DTYPES["float32"], "complex128": DTYPES["float64"]}


def literal(value: Any, dtype: str) -> tuple[str, str]:
    """A constant as C text, exact to the last bit, and what to say beside it where the text alone does not.

    >>> literal(0.1, "float32"), literal(1, "float16"), literal(-(2**31), "int32")
    (('0.1f', ''), ('0x3c00', '1.0'), ('-2147483647 - 1', ''))
    """
    d, x = DTYPES[dtype], np.asarray(0 if value is None else value).astype(numpy_dtype(dtype))[()]
    if d.kind == "bool":
        return ("true" if x else "false"), ""
    if d.kind == "complex":
        parts = [literal(v, COMPLEX_PART[dtype].name)[0] for v in (x.real, x.imag)]
        return f"{d.c}{{{', '.join(parts)}}}", ""
    if d.kind != "float":
        suffix = ("u" if d.kind == "uint" and d.bits >= 32 else "") + ("ll" if d.bits == 64 else "")
        least = d.kind == "int" and d.bits >= 32 and int(x) == -(1 << d.bits - 1)  # C has no such literal
        return (f"{int(x) + 1}{suffix} - 1" if least else f"{int(x)}{suffix}"), ""
    if d.typedef:  # held as bits
        return f"0x{int.from_bytes(x.tobytes(), 'little'):0{d.bits // 4}x}", str(float(x))
    if np.isfinite(x):
        return str(x) + ("f" if d.bits == 32 else ""), ""  # the shortest text that reads back as x
    bits = int.from_bytes(x.tobytes(), "little")
    return (f"__uint_as_float(0x{bits:08x}u)" if d.bits == 32 else f"__longlong_as_double(0x{bits:016x}ll)"), str(x)


def zero_of(dtype: DType) -> str:
    """Zero as C text."""
    return "0" if dtype.typedef else f"{dtype.c}{{}}" if dtype.kind == "complex" else literal(0, dtype.name)[0]


# ---------------------------------------------------------------- comments, and long lines folded
def comment_lines(text: str) -> list[str]:
    """Lines that may stand after ``//``: wrapped, and nothing that could end the comment or continue it."""
    lead = text[: len(text) - len(text.lstrip())]
    pieces = wrap_line(lead + printable(text).strip(), 2, COLUMNS - 3)
    return [p + "." if p.endswith("\\") else p for p in pieces] or [""]


def end_comment(text: str) -> str:
    """A comment at the end of a line."""
    return f"  // {' '.join(comment_lines(text))}" if text else ""


def with_note(memory: Memory) -> Memory:
    """The memory, its note as the comment beside its declaration."""
    return replace(memory, note=end_comment(memory.note))


WIDEST = COLUMNS + 10  # columns of a line of the prelude, or of a statement with the comment at its end


def fold_line(line: str, columns: int = COLUMNS) -> list[str]:
    """A long statement on several lines, broken where the least is open: after ``=`` or a comma, before an operator.

    A comment at its end stands there if no line then has more than ten columns on top, and else above.

    >>> fold_line("    dst[row * 8 + column] = src[column * 8 + row];", 40)
    ['    dst[row * 8 + column] =', '        src[column * 8 + row];']
    >>> fold_line("    put(A, B);  // B -> A, where it is needed", 30)
    ['    // B -> A, where it is', '    //   needed', '    put(A, B);']
    """
    code, _, comment = line.partition("  // ")
    if not code.strip():
        return [line]
    folded = _fold_code(code, columns)
    if not comment:
        return folded
    if len(folded[-1]) + len(comment) + 5 <= columns + WIDEST - COLUMNS:
        return [*folded[:-1], f"{folded[-1]}  // {comment}"]
    lead = " " * (len(code) - len(code.lstrip()))
    above = wrap_line(" ".join(comment.split()), 2, columns - len(lead) - 3)
    return [*(f"{lead}// {piece}" for piece in above), *folded]


def _fold_code(line: str, columns: int) -> list[str]:
    """A statement without a comment."""
    if len(line) <= columns or '"' in line or line.lstrip().startswith(("//", "#")):
        return [line]
    code = line
    lead = len(line) - len(line.lstrip())
    places, depth = [], 0
    for i, c in enumerate(code):
        depth += (c in "([{") - (c in ")]}")
        depth += (c == "<" and code[i + 1 : i + 2].isdigit()) - (c == ">" and code[i - 1].isdigit())  # template<1, 2>
        is_reference = code[i + 1 : i + 2] == "&" and code[i + 2 : i + 3] not in (" ", "&")
        is_operator = code[i + 1 : i + 2] in tuple("?:+&") and not is_reference
        if c == " " and lead + 8 < i <= columns and (code[i - 1] in ",=" or is_operator):
            places.append((depth, code[i - 1] != "=", -i))
    if not places:
        return [line]
    at = -min(places)[2]
    rest = " " * (lead + 4) + line[at + 1 :]
    return [line[:at], *(_fold_code(rest, columns) if len(rest) < len(line) else [rest])]


def fold_intrinsic(text: str) -> str:
    """A function of the prelude without lines longer than WIDEST: between operands, or where a line of PTX ends.

    >>> print(fold_intrinsic('int f() { asm("' + "nop;" * 26 + '" :: "r"(x)); }'))
    int f()
    {
        asm("nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;nop;"
            :: "r"(x));
    }
    """
    return "\n".join(piece for line in text.splitlines() for piece in _fold_intrinsic(line))


def _fold_intrinsic(line: str) -> list[str]:
    one_line = re.fullmatch(r"(\S.*?\)) \{ (.*) \}", line) if len(line) > WIDEST else None
    if '"' not in line and not line.startswith("//") and not one_line:
        return fold_line(line)
    if len(line) <= WIDEST:
        return [line]
    if line.startswith("// "):
        return [f"// {piece}" for piece in wrap_line(line[3:], 0, WIDEST - 3)]
    if one_line:
        return [one_line[1], "{", *_fold_intrinsic(f"    {one_line[2]}"), "}"]
    lead = len(line) - len(line.lstrip())
    opened = re.match(r" *asm(?: volatile)?\(", line)
    rest = " " * (opened.end() if opened else lead if line[lead] in '":' else lead + 4)
    outside, inside = _places_to_fold(line, lead + 8)
    if outside:
        return [line[: outside[-1]], *_fold_intrinsic(rest + line[outside[-1] :].lstrip())]
    if inside:
        return [f'{line[: inside[-1]]}"', *_fold_intrinsic(f'{rest}"{line[inside[-1] :]}')]
    return [line]


def _places_to_fold(line: str, first: int) -> tuple[list[int], list[int]]:
    """Where a line may end between operands, and inside of a text of PTX."""
    outside, inside, is_quoted = [], [], False
    for i, c in enumerate(line[:WIDEST]):
        is_quoted ^= c == '"'
        if i >= first and not is_quoted and c == " " and (line[i - 1] == "," or line[i + 1] == ":"):
            outside.append(i)
        if i >= first and is_quoted and line.startswith("\\n\\t", i - 4) and i < WIDEST:
            inside.append(i)
    return outside, inside
