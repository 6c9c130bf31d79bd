"""Registers turned over: rows x columns elements that were loaded row by row, made ready to be stored column by column.

Elements of 4 bytes and more only change their names: the moves of an unrolled loop cost nothing. Of smaller ones a
register holds several, so that square blocks of them are turned by byte permutes: 2 x 2 elements of 2 bytes in two
instructions, 4 x 4 bytes in eight, which is as few as there are (each gives one word of a result from two words).
"""

from __future__ import annotations

from tilegen.index import Index, Var, add, mul
from tilegen.plan import BYTE_PERMUTE, Map, Memory, Move, Ref, Repeat, Step

WORD_BYTES = 4
# Selectors of __byte_perm (CUDA Math API, Integer Intrinsics): nibble k names the byte that becomes byte k, 0 to 3 of
# the first word and 4 to 7 of the second.
_LOW_HALVES, _HIGH_HALVES = 0x5410, 0x7632
_LOW_BYTES, _HIGH_BYTES = 0x5140, 0x7362  # bytes 0 and 1, or 2 and 3, of the two words in turn


def block_elems(elem_bytes: int, rows: int, columns: int) -> int:
    """The side of the square blocks that are turned at once: the elements of a word, or 1 where they do not fit.

    >>> block_elems(2, 8, 8), block_elems(1, 16, 2), block_elems(4, 4, 4)
    (2, 1, 1)
    """
    side = WORD_BYTES // elem_bytes if elem_bytes in (1, 2) else 1
    return side if rows % side == 0 and columns % side == 0 else 1


def turn_columns(
    regs: Memory, pack: Memory, pairs: Memory, rows: int, columns: int, column: Index, row: str
) -> tuple[Step, ...]:
    """``pack[k * rows + r] = regs[r * columns + column + k]`` for as many columns k as ``block_elems`` says.

    ``row`` names the loop variable over (blocks of) rows; ``pairs`` holds 16 bytes on the way.
    """
    side = block_elems(regs.elem_bytes, rows, columns)
    r: Index = Var(row, rows // side) if rows > side else 0
    if side == 1:
        body: tuple[Step, ...] = (Move(pack[r], regs[add(mul(r, columns), column)]),)
    else:
        body = _turn_block(regs, pack, pairs, rows, columns, column, mul(r, side))
    return over(r, body)


def over(var: Index, body: tuple[Step, ...]) -> tuple[Step, ...]:
    """``body`` for each value of ``var``, unrolled; once where ``var`` is no variable."""
    return (Repeat(var, var.bound, body, True),) if isinstance(var, Var) else body


def _turn_block(
    regs: Memory, pack: Memory, pairs: Memory, rows: int, columns: int, column: Index, first: Index
) -> tuple[Step, ...]:
    """The block of rows ``first``.. and of ``column``..: a word of each row in, a word of each column out."""
    side = block_elems(regs.elem_bytes, rows, columns)
    words = [regs[add(mul(first, columns), add(column, k * columns))] for k in range(side)]
    out = [pack[add(first, k * rows)] for k in range(side)]
    if side == 2:
        return _permute(out[0], words[0], words[1], _LOW_HALVES), _permute(out[1], words[0], words[1], _HIGH_HALVES)
    half = [pairs[WORD_BYTES * k] for k in range(4)]
    return (
        _permute(half[0], words[0], words[1], _LOW_BYTES),
        _permute(half[1], words[2], words[3], _LOW_BYTES),
        _permute(half[2], words[0], words[1], _HIGH_BYTES),
        _permute(half[3], words[2], words[3], _HIGH_BYTES),
        _permute(out[0], half[0], half[1], _LOW_HALVES),
        _permute(out[1], half[0], half[1], _HIGH_HALVES),
        _permute(out[2], half[2], half[3], _LOW_HALVES),
        _permute(out[3], half[2], half[3], _HIGH_HALVES),
    )


def _permute(dst: Ref, first: Ref, second: Ref, selector: int) -> Map:
    return Map(BYTE_PERMUTE, dst, (first, second), WORD_BYTES // dst.memory.elem_bytes, selector)
