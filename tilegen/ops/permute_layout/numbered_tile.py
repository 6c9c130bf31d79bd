"""The tile that permute_layout moves: its elements numbered by bits, their addresses, and the two-phase function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index, Var, add, div, evaluate, mod, mul, variables
from tilegen.ops.digits import Digit, coordinates, fuse, join, split_number
from tilegen.ops.edges import allows_width
from tilegen.ops.operand import Context, Formals, Operand, parts_of, ref_at
from tilegen.ops.permute_layout.lane_search import Side
from tilegen.plan import Block, Move, Repeat, Step, Sync, flat_memory
from tilegen.spec.data import Call

LANES = 32
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class NumberedTile:
    """Both operands over their common digits. ``bits``: (digit, weight) of each bit of an element number, low first.

    ``odds``: (digit, weight, extent) of what remains of digits whose extent is no power of two.
    """

    src: Operand
    dst: Operand
    digits: tuple[Digit, ...]
    bits: tuple[tuple[int, int], ...]
    odds: tuple[tuple[int, int, int], ...]

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(d.extent for d in self.digits)

    @property
    def count(self) -> int:
        return prod(self.extents)

    @property
    def per_lane(self) -> int:
        return self.count // LANES

    @property
    def odd(self) -> int:
        return prod(extent for _, _, extent in self.odds)

    def at(self, values: Sequence[Index]) -> tuple[Index, ...]:
        """The region's coordinates of the element with these digits."""
        return coordinates(self.digits, values, len(self.src.dims))


def tile_of(src: Operand, dst: Operand) -> NumberedTile:
    """The tile of a permute_layout: digits lined up, bits numbered from the innermost."""
    digits = fuse(join([parts_of(src), parts_of(dst)], src.lengths))
    bits: list[tuple[int, int]] = []
    odds: list[tuple[int, int, int]] = []
    for k in range(len(digits) - 1, -1, -1):
        weight, rest = 1, digits[k].extent
        while rest % 2 == 0:
            bits.append((k, weight))
            weight, rest = weight * 2, rest // 2
        if rest > 1:
            odds.append((k, weight, rest))
    return NumberedTile(src, dst, digits, tuple(bits), tuple(odds))


# ---------------------------------------------------------------- numbers
def digits_of(tile: NumberedTile, number: Index, bits: Sequence[int], odd: Index = 0) -> list[Index]:
    """Digits of the element whose chosen ``bits`` (positions, low first) spell ``number``, and odd parts ``odd``."""
    values: list[Index] = [0] * len(tile.digits)
    k = 0
    while k < len(bits):
        length, (digit, weight) = 1, tile.bits[bits[k]]
        while k + length < len(bits) and tile.bits[bits[k + length]] == (digit, weight << length):
            length += 1
        values[digit] = add(values[digit], mul(mod(div(number, 1 << k), 1 << length), weight))
        k += length
    for (digit, weight, _), part in zip(tile.odds, split_number(odd, [o[2] for o in tile.odds]), strict=True):
        values[digit] = add(values[digit], mul(part, weight))
    return values


def byte_addresses(tile: NumberedTile, operand: Operand, context: Context) -> Ints:
    """The byte address of every element in row-major order, all variables of the surroundings at 0; shape (count,)."""
    at = [Var(f"digit{k}", extent) for k, extent in enumerate(tile.extents)]
    offset = ref_at(operand, tile.at(at)).offset
    grids = np.indices(tile.extents, dtype=np.int64).reshape(len(at), -1)
    values: dict[str, Any] = dict.fromkeys((v.name for v in variables(offset)), 0)
    values.update(context.launch.params)
    values.update((v.name, g) for v, g in zip(at, grids, strict=True))
    return np.broadcast_to(np.asarray(evaluate(offset, values)), (tile.count,)) * operand.elem_bytes


def numbered(tile: NumberedTile, addresses: Ints, bits: Sequence[int]) -> Ints:
    """Addresses by element number over the chosen bits, everything else at 0."""
    strides = np.cumprod([1, *reversed(tile.extents)])[:-1][::-1]
    at = np.zeros(1, np.int64)
    for b in bits:
        digit, weight = tile.bits[b]
        at = np.concatenate([at, at + weight * strides[digit]])
    return addresses[at]


def plain_sides(tile: NumberedTile, context: Context) -> list[Side]:
    """Both phases, one element an access, elements in row-major order."""
    return [
        Side(byte_addresses(tile, o, context), o.elem_bytes, o.memory.space, kind)
        for o, kind in ((tile.src, "ld"), (tile.dst, "st"))
    ]


def contiguous_bits(tile: NumberedTile, operand: Operand, side: int) -> list[int]:
    """Bits that move an operand by 1, 2, 4, ... elements, as far as one aligned access may reach."""
    out: list[int] = []
    for k, digit in enumerate(tile.digits):
        weight = 2
        while digit.strides[side] == 1 and digit.extent % weight == 0:
            values: list[Index] = [Var(f"digit{j}", extent) for j, extent in enumerate(tile.extents)]
            values[k] = mul(Var(f"digit{k}", digit.extent // weight), weight) if digit.extent > weight else 0
            if not allows_width(operand, ref_at(operand, tile.at(values)), weight, digit, side, frozenset()):
                break
            out.append(tile.bits.index((k, weight // 2)))
            weight *= 2
    return out


# ---------------------------------------------------------------- the function
@dataclass(frozen=True)
class Bundle:
    """What a lane holds per step: ``rows`` contiguous in dst times ``columns`` contiguous in src.

    ``both``: the columns are contiguous in both, and there is one row. ``at`` gives the region's coordinates of an
    element by (step, row, column).
    """

    steps: int
    rows: int
    columns: int
    both: bool
    at: Callable[[Index, Index, int], tuple[Index, ...]]


def permute_block(call: Call, context: Context, tile: NumberedTile, bundle: Bundle) -> Block:
    """Read all bundles through src, meet, write them through dst, meet."""
    rows, columns = bundle.rows, bundle.columns
    step, row = context.fresh("r"), context.fresh("d")
    formals = Formals((tile.src, tile.dst), (True, True), call.scope, {step, row})
    dtype = tile.src.buffer.dtype
    regs = flat_memory(context.fresh("regs"), dtype, bundle.steps * rows * columns, "register")
    pack = flat_memory(context.fresh("pack"), dtype, rows, "register")
    r: Index = Var(step, bundle.steps) if bundle.steps > 1 else 0
    d: Index = Var(row, rows) if rows > 1 else 0
    first = mul(r, rows * columns)
    slot = add(first, mul(d, columns))
    load = Move(regs[slot], formals.see(0, ref_at(tile.src, bundle.at(r, d, 0))), columns)
    stores: list[Step] = []
    targets = [ref_at(tile.dst, bundle.at(r, 0, column)) for column in ([0] if bundle.both else range(columns))]
    formals.share_base(1, targets)
    for column, target in enumerate(targets):
        to = formals.see(1, target)
        if rows > 1 and columns > 1:
            stores += _over(d, (Move(pack[d], regs[add(slot, column)]),))
            stores.append(Move(to, pack[0], rows))
        else:
            stores.append(Move(to, regs[add(first, column)], columns if bundle.both else rows))
    body = (*_over(r, _over(d, (load,))), Sync("warp"), *_over(r, tuple(stores)), Sync("warp"))
    registers = (regs, pack) if rows > 1 and columns > 1 else (regs,)
    name = f"permute_{tile.src.buffer.name}_{tile.dst.buffer.name}"
    note = "One warp: read through the source layout, meet, write through the destination layout."
    return formals.block(name, body, context.op, registers, note)


def _over(var: Index, body: tuple[Step, ...]) -> tuple[Step, ...]:
    return (Repeat(var, var.bound, body, True),) if isinstance(var, Var) else body
