"""The tile that permute_layout moves: its words numbered by bits, their addresses, and the two-phase function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index, Var, add, evaluate, mul, variables
from tilegen.index.runs import counter, fuse
from tilegen.ops.digits import Digit, Place, coordinates, fuse_places, spread
from tilegen.ops.edges import is_aligned
from tilegen.ops.formals import Formals
from tilegen.ops.operand import Context, Operand, join_operands, ref_at
from tilegen.ops.permute_layout.lane_search import Side
from tilegen.ops.thread_loop import over
from tilegen.plan import Block, Move, Step, Sync, register_memory
from tilegen.spec.data import Call

LANES = 32
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class NumberedTile:
    """Both operands over their common digits, taken in words: neighbours on both sides that move together.

    ``within``: how many values of each digit one word has. ``bits``: (digit, weight) of each bit of a word's number,
    low first, in words. ``odds``: (digit, weight, extent) of what remains of digits whose extent is no power of two.
    """

    src: Operand
    dst: Operand
    digits: tuple[Digit, ...]
    within: tuple[int, ...]
    bits: tuple[tuple[int, int], ...]
    odds: tuple[Place, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(d.extent // n for d, n in zip(self.digits, self.within, strict=True))

    @property
    def word(self) -> int:
        """Elements of a word."""
        return prod(self.within)

    @property
    def count(self) -> int:
        """Words of the tile."""
        return prod(self.extents)

    @property
    def per_lane(self) -> int:
        """Words that a lane moves."""
        return self.count // LANES

    @property
    def odd(self) -> int:
        return prod(extent for _, _, extent in self.odds)

    def at(self, values: Sequence[Index]) -> tuple[Index, ...]:
        """The region's coordinates of the first element of the word with these digits."""
        firsts = [mul(value, n) for value, n in zip(values, self.within, strict=True)]
        return coordinates(self.digits, firsts, len(self.src.dims))


def tiles_of(src: Operand, dst: Operand) -> tuple[NumberedTile, ...]:
    """The tile of a permute_layout in words of 1, 2, 4, ... elements, as far as both sides keep them together and give
    each of the 32 lanes as many.
    """
    tile = _in_words(src, dst, fuse(join_operands((src, dst))), ())
    tiles, within = [tile], list(tile.within)
    for bit, other in zip(contiguous_bits(tile, src, 0), contiguous_bits(tile, dst, 1), strict=False):
        if bit != other:
            break
        within[tile.bits[bit][0]] *= 2
        tiles.append(_in_words(src, dst, tile.digits, tuple(within)))
    return tuple(t for t in tiles if t.count % LANES == 0)


def _in_words(src: Operand, dst: Operand, digits: tuple[Digit, ...], within: tuple[int, ...]) -> NumberedTile:
    """The tile with its bits numbered from the innermost. ``within``: of a word; () of one element."""
    within = within or (1,) * len(digits)
    bits: list[tuple[int, int]] = []
    odds: list[Place] = []
    for k in range(len(digits) - 1, -1, -1):
        weight, rest = 1, digits[k].extent // within[k]
        while rest % 2 == 0:
            bits.append((k, weight))
            weight, rest = weight * 2, rest // 2
        if rest > 1:
            odds.append((k, weight, rest))
    return NumberedTile(src, dst, digits, within, tuple(bits), tuple(odds))


# ---------------------------------------------------------------- numbers
def digits_of(tile: NumberedTile, number: Index, bits: Sequence[int], odd: Index = 0) -> list[Index]:
    """Digits of the word whose chosen ``bits`` (positions, low first) spell ``number``, and odd parts ``odd``."""
    chosen = fuse_places((*tile.bits[b], 2) for b in reversed(bits))
    return spread(odd, tile.odds, spread(number, chosen, [0] * len(tile.digits)))


def byte_addresses(tile: NumberedTile, operand: Operand, context: Context) -> Ints:
    """The byte address of every word in row-major order, all variables of the surroundings at 0; shape (count,)."""
    at = [Var(f"digit{k}", extent) for k, extent in enumerate(tile.extents)]
    offset = ref_at(operand, tile.at(at)).offset
    grids = np.indices(tile.extents, dtype=np.int64).reshape(len(at), -1)
    values: dict[str, Any] = dict.fromkeys((v.name for v in variables(offset)), 0)
    values.update(context.launch.params)
    values.update((v.name, g) for v, g in zip(at, grids, strict=True))
    return np.broadcast_to(np.asarray(evaluate(offset, values)), (tile.count,)) * operand.elem_bytes


def numbered(tile: NumberedTile, addresses: Ints, bits: Sequence[int]) -> Ints:
    """Addresses by a word's number over the chosen bits, everything else at 0."""
    strides = np.cumprod([1, *reversed(tile.extents)])[:-1][::-1]
    at = np.zeros(1, np.int64)
    for b in bits:
        digit, weight = tile.bits[b]
        at = np.concatenate([at, at + weight * strides[digit]])
    return addresses[at]


def plain_sides(tile: NumberedTile, context: Context) -> list[Side]:
    """Both phases, one word an access, words in row-major order."""
    return [
        Side(byte_addresses(tile, o, context), o.elem_bytes * tile.word, o.memory.traits, kind)
        for o, kind in ((tile.src, "ld"), (tile.dst, "st"))
    ]


def contiguous_bits(tile: NumberedTile, operand: Operand, side: int) -> list[int]:
    """Bits that move an operand by 1, 2, 4, ... words, whichever digits they are of, as far as one aligned access may
    reach.
    """
    out: list[int] = []
    values = [counter(f"digit{k}", extent) for k, extent in enumerate(tile.extents)]
    while True:
        reach = tile.word << len(out)
        bit = next((b for b, (k, weight) in enumerate(tile.bits) if _moves_by(tile, side, k, weight) == reach), None)
        if bit is None:
            return out
        k, weight = tile.bits[bit]
        values[k] = counter(f"digit{k}", tile.extents[k] // (weight * 2), weight * 2)
        if not is_aligned(operand, ref_at(operand, tile.at(values)), reach * 2):
            return out
        out.append(bit)


def _moves_by(tile: NumberedTile, side: int, digit: int, weight: int) -> Index | None:
    """Elements by which ``weight`` of a digit moves an operand, None where it is not affine in it."""
    stride = tile.digits[digit].strides[side]
    return None if stride is None else mul(stride, tile.within[digit] * weight)


# ---------------------------------------------------------------- the function
@dataclass(frozen=True)
class Bundle:
    """What a lane holds per step: ``rows`` words contiguous in dst times ``columns`` contiguous in src.

    ``at`` gives the region's coordinates of a word's first element by (step, row, column).
    """

    steps: int
    rows: int
    columns: int
    at: Callable[[Index, Index, int], tuple[Index, ...]]


def permute_block(call: Call, context: Context, tile: NumberedTile, bundle: Bundle) -> Block:
    """Read all bundles through src, meet, write them through dst, meet."""
    rows, columns, word = bundle.rows, bundle.columns, tile.word
    step, row = context.fresh("r"), context.fresh("d")
    formals = Formals((tile.src, tile.dst), (True, True), call.scope, {step, row})
    dtype = tile.src.buffer.dtype
    regs = register_memory(context.fresh("regs"), dtype, bundle.steps * rows * columns * word)
    pack = register_memory(context.fresh("pack"), dtype, rows * word)
    r, d = counter(step, bundle.steps), counter(row, rows)
    first = mul(r, rows * columns * word)
    slot = add(first, mul(d, columns * word))
    load = Move(regs[slot], formals.see(0, ref_at(tile.src, bundle.at(r, d, 0))), columns * word)
    stores: list[Step] = []
    targets = [ref_at(tile.dst, bundle.at(r, 0, column)) for column in range(columns)]
    formals.share_base(1, targets)
    for column, target in enumerate(targets):
        to = formals.see(1, target)
        if rows > 1 and columns > 1:
            stores += over(d, (Move(pack[mul(d, word)], regs[add(slot, column * word)], word),))
            stores.append(Move(to, pack[0], rows * word))
        else:
            stores.append(Move(to, regs[add(first, column * word)], rows * word))
    body = (*over(r, over(d, (load,))), Sync("warp"), *over(r, tuple(stores)), Sync("warp"))
    registers = (regs, pack) if rows > 1 and columns > 1 else (regs,)
    name = f"permute_{tile.src.buffer.name}_{tile.dst.buffer.name}"
    note = "One warp: read through the source layout, meet, write through the destination layout."
    return formals.block(name, body, context.op, registers, note)
