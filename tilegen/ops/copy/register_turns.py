"""Register tiles turned over: what a thread has loaded by rows, ordered by columns, by byte permutes where elements are
smaller than a register.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.index import Index, Var, add, mul
from tilegen.index.runs import counter
from tilegen.ops.copy.register_tiles import WORD_BYTES, Shape, word_elems
from tilegen.ops.thread_loop import over
from tilegen.plan import BYTE_PERMUTE, Map, Memory, Move, Ref, Step

_NIBBLE = 4  # bits of a selector that name a byte
# Selectors of __byte_perm (CUDA Math API, Integer Intrinsics): nibble k names the byte that becomes byte k, 0 to 3 of
# the first word and 4 to 7 of the second.
_LOW_HALVES, _HIGH_HALVES = 0x5410, 0x7632
_LOW_BYTES, _HIGH_BYTES = 0x5140, 0x7362  # bytes 0 and 1, or 2 and 3, of the two words in turn


@dataclass(frozen=True)
class TurnRegisters:
    """Of a thread that turns register tiles: elements as loaded, 16 bytes on the way, and elements as stored."""

    loaded: Memory
    pairs: Memory
    pack: Memory


def block_elems(elem_bytes: int, rows: int, columns: int) -> int:
    """The side of the square blocks that are turned at once: the elements of a word, or 1 where they do not fit.

    >>> block_elems(2, 8, 8), block_elems(1, 16, 2), block_elems(4, 4, 4)
    (2, 1, 1)
    """
    side = word_elems(elem_bytes)
    return side if rows % side == 0 and columns % side == 0 else 1


def turn_columns(registers: TurnRegisters, shape: Shape, column: Index, row: str) -> tuple[Step, ...]:
    """``pack[k * rows + r] = loaded[r * columns + column + k]`` for as many columns k as ``block_elems`` says.

    ``row`` names the loop variable over (blocks of) rows.
    """
    loaded, pack = registers.loaded, registers.pack
    side = block_elems(loaded.elem_bytes, shape.rows, shape.columns)
    r: Index = Var(row, shape.rows // side) if shape.rows > side else 0
    if side == 1:
        body: tuple[Step, ...] = (Move(pack[r], loaded[add(mul(r, shape.columns), column)]),)
    else:
        body = _turn_block(registers, shape, column, mul(r, side))
    return over(r, body)


def turns_by_columns(shape: Shape, elem_bytes: int) -> bool:
    """Are columns turned over one after the other, each stored before the next?

    Not where dst is one run, which takes elements of all columns. Nor where src is one and a word holds no square block
    of rows and columns: the words of a run are then taken apart together.
    """
    if shape.store != shape.rows:
        return False
    return shape.load == shape.columns or block_elems(elem_bytes, shape.rows, shape.columns) * elem_bytes >= WORD_BYTES


def turn_run(registers: TurnRegisters, shape: Shape, first: Index, block: str) -> tuple[Step, ...]:
    """``pack[c * rows + r] = loaded[first + r * columns + c]`` for the whole tile, word after word of the result.

    The words are made in blocks, each as the one before from registers further on: a word of each column, or, where dst
    is one run, as many words of it as there are rows. ``block`` names the variable that counts them.
    """
    loaded = registers.loaded
    per = word_elems(loaded.elem_bytes)
    rows, columns = shape.rows, shape.columns
    if shape.store == rows:  # of each column the next rows
        count, came, made = rows // per, per * columns, per
        words = [[(k, c) for k in range(per)] for c in range(columns)]
    else:  # of each row the next columns, which follow one another in the run
        count, came, made = columns // per, per, per * rows
        words = [[((w * per + k) % rows, (w * per + k) // rows) for k in range(per)] for w in range(rows)]
    b = counter(block, count)
    body: list[Step] = []
    for elems in words:
        (row, column), sources = elems[0], [r * columns + c for r, c in elems]
        into = registers.pack[add(mul(b, made), column * rows + row)]
        body += _gather(into, loaded, add(first, mul(b, came)), sources)
    return over(b, tuple(body))


def _gather(into: Ref, regs: Memory, first: Index, sources: Sequence[int]) -> tuple[Step, ...]:
    """A word of the elements ``regs[first + source]``: one permute for two words that it is made of, one more for each
    further one. ``first`` is the beginning of a word.
    """
    per = len(sources)
    if per == 1:
        return (Move(into, regs[add(first, sources[0])]),)
    size = regs.elem_bytes
    first_word, *others = dict.fromkeys(s // per for s in sources)
    placed = {k for k, s in enumerate(sources) if s // per == first_word}
    before, steps = regs[add(first, first_word * per)], list[Step]()
    for n, word in enumerate(others or [first_word]):
        names = [0] * per  # of the elements that a permute puts in order; 0 for one that comes with a later word
        for k, source in enumerate(sources):
            if source // per == word and k not in placed:
                names[k] = per + source % per
            elif k in placed:
                names[k] = k if n else source % per
        placed |= {k for k, s in enumerate(sources) if s // per == word}
        selector = sum((name * size + byte) << _NIBBLE * (k * size + byte)
                       for k, name in enumerate(names) for byte in range(size))  # fmt: skip
        steps.append(_permute(into, before, regs[add(first, word * per)], selector))
        before = into
    return tuple(steps)


def _turn_block(registers: TurnRegisters, shape: Shape, column: Index, first: Index) -> tuple[Step, ...]:
    """The block of rows ``first``.. and of ``column``..: a word of each row in, a word of each column out."""
    loaded, rows, columns = registers.loaded, shape.rows, shape.columns
    side = block_elems(loaded.elem_bytes, rows, columns)
    words = [loaded[add(mul(first, columns), add(column, k * columns))] for k in range(side)]
    out = [registers.pack[add(first, k * rows)] for k in range(side)]
    if side == 2:
        return _permute(out[0], words[0], words[1], _LOW_HALVES), _permute(out[1], words[0], words[1], _HIGH_HALVES)
    half = [registers.pairs[WORD_BYTES * k] for k in range(4)]
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
