"""permute_layout: a warp rearranges a tile from its source layout to its destination layout, in place if need be.

Every element passes through a register: a read phase through the source layout, a warp sync, a write phase through the
destination layout, a warp sync. The variants differ in which element a lane takes at which step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tilegen import access
from tilegen.choose.digits import Digit, coordinates, fuse, is_affine, join, split_number
from tilegen.choose.lanes import LaneMap, Side, apply_vectors, search_lanes
from tilegen.index import Index, Var, add, evaluate, mod, mul, variables, xor
from tilegen.ops.dispatch import Planned, Refused, Variant
from tilegen.ops.operand import Context, Frame, Operand, allows_width, parts_of, ref_at
from tilegen.plan import Block, Candidate, Choice, Cost, Move, Repeat, Step, Sync, flat_memory
from tilegen.spec.data import Call
from tilegen.spec.form import OpFields, OpForm

_LANES = 32
_MAX_LANE_BYTES = 512  # 128 registers of 4 bytes a lane, half of what a thread can have


class PermuteLayoutFields(OpFields):
    src: str = Field(description="region read, through its buffer's layout")
    dst: str = Field(description="region written, through its buffer's layout; may be a view of the source's bytes")
    variant: Literal["auto", "warp_xor_swizzle", "warp_linear_swizzle", "warp_vector"] = Field(
        default="auto", description="pin a variant instead of taking the cheapest"
    )


FORM = OpForm("permute_layout", PermuteLayoutFields, reads=("src",), writes=("dst",))


def reference(call: Call, values: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """The logical elements of src, unchanged: only where they lie differs."""
    return values["src"]


# ---------------------------------------------------------------- the tile as numbers
@dataclass(frozen=True)
class Tile:
    """Both operands over their common digits. ``bits``: (digit, weight) of each bit of an element number, low first.

    ``odds``: (digit, weight, extent) of what remains of digits whose extent is no power of two.
    """

    src: Operand
    dst: Operand
    digits: tuple[Digit, ...]
    bits: tuple[tuple[int, int], ...]
    odds: tuple[tuple[int, int, int], ...]

    @property
    def count(self) -> int:
        return prod(d.extent for d in self.digits)

    @property
    def per_lane(self) -> int:
        return self.count // _LANES

    @property
    def odd(self) -> int:
        return prod(extent for _, _, extent in self.odds)


def _tile(call: Call, context: Context) -> Tile:
    src, dst = (context.operand(call.regions[f]) for f in ("src", "dst"))
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
    return Tile(src, dst, digits, tuple(bits), tuple(odds))


def _values_of(tile: Tile, number: Index, bits: Sequence[int], odd: Index = 0) -> tuple[Index, ...]:
    """Digits of the element whose chosen ``bits`` (positions, low first) spell ``number``."""
    values: list[Index] = [0] * len(tile.digits)
    k = 0
    while k < len(bits):
        length, (digit, weight) = 1, tile.bits[bits[k]]
        while k + length < len(bits) and tile.bits[bits[k + length]] == (digit, weight << length):
            length += 1
        part = number // (1 << k) if not isinstance(number, int) else number >> k
        values[digit] = add(values[digit], mul(mod(part, 1 << length), weight))
        k += length
    for (digit, weight, _), part in zip(tile.odds, split_number(odd, [o[2] for o in tile.odds]), strict=True):
        values[digit] = add(values[digit], mul(part, weight))
    return tuple(values)


def _merge(tile: Tile, *values: Sequence[Index]) -> tuple[Index, ...]:
    """Coordinates in the region of the sum of digit values."""
    joined = [0] * len(tile.digits)
    summed = [add_all(v[k] for v in values) for k in range(len(joined))]
    return coordinates(tile.digits, summed, len(tile.src.dims))


def add_all(values: Iterable[Index]) -> Index:
    out: Index = 0
    for v in values:
        out = add(out, v)
    return out


def _byte_addresses(tile: Tile, operand: Operand, context: Context) -> NDArray[np.int64]:
    """The byte address of every element, in row-major order of the tile, all variables of the surroundings at 0."""
    at = [Var(f"d{k}", d.extent) for k, d in enumerate(tile.digits)]
    offset = ref_at(operand, coordinates(tile.digits, at, len(operand.dims))).offset
    grids = np.indices([d.extent for d in tile.digits], dtype=np.int64).reshape(len(at), -1)
    env = {v.name: 0 for v in variables(offset)} | dict(context.launch.params)
    env |= {v.name: g for v, g in zip(at, grids, strict=True)}
    return np.broadcast_to(np.asarray(evaluate(offset, env)), (tile.count,)) * operand.elem_bytes


def _numbered(tile: Tile, addresses: NDArray[np.int64], bits: Sequence[int]) -> NDArray[np.int64]:
    """Addresses by element number over the chosen bits, everything else at 0."""
    strides = np.cumprod([1, *[d.extent for d in reversed(tile.digits)]])[:-1][::-1]
    at = np.zeros(1, np.int64)
    for b in bits:
        digit, weight = tile.bits[b]
        at = np.concatenate([at, at + weight * strides[digit]])
    return addresses[at]


# ---------------------------------------------------------------- refusals
def _refuse(call: Call, context: Context) -> str | None:
    src, dst = (call.regions[f] for f in ("src", "dst"))
    spaces = {src.buffer.scope, dst.buffer.scope}
    if call.scope != "warp":
        return f"scope is '{call.scope}', it must be 'warp'"
    if "register" in spaces:
        return "both sides must be in shared or global memory"
    if src.buffer.dtype != dst.buffer.dtype:
        return f"dtypes differ: {src.buffer.dtype} -> {dst.buffer.dtype}"
    count = prod(src.lengths)
    if count % _LANES:
        return f"{count} elements are not a multiple of 32 lanes"
    operands = [context.operand(r) for r in (src, dst)]
    if count // _LANES * operands[0].elem_bytes > _MAX_LANE_BYTES:
        return f"{count // _LANES * operands[0].elem_bytes} bytes a lane do not fit in 128 registers"
    if not is_affine(join([parts_of(o) for o in operands], operands[0].lengths)):
        return "the two layouts split the region at places that do not nest"
    tile = _tile(call, context)
    for operand in operands:
        if len(np.unique(_byte_addresses(tile, operand, context))) < count:
            return f"the layout of {operand.buffer.name} is not a bijection on the region"
    return None


# ---------------------------------------------------------------- the block
At = Callable[[Index, Index, int], tuple[Index, ...]]  # (step, row of the bundle, column) -> coordinates


def _block(
    call: Call, context: Context, tile: Tile, at: At, steps: int, rows: int, columns: int, both: bool
) -> Block:
    """Read and write phases: per step a bundle of rows x columns, rows contiguous in dst and columns in src.

    ``both``: the one row is contiguous in both (columns wide).
    """
    frame = Frame((tile.src, tile.dst), (True, True), call.scope, {context.fresh("r"), context.fresh("d")})
    dtype = tile.src.buffer.dtype
    regs = flat_memory(context.fresh("regs"), dtype, steps * rows * columns, "register")
    pack = flat_memory(context.fresh("pack"), dtype, rows, "register")
    r = Var(context.fresh("r"), steps) if steps > 1 else 0
    d = Var(context.fresh("d"), rows) if rows > 1 else 0
    slot = add(mul(r, rows * columns), mul(d, columns))
    load = Move(regs[slot], frame.see(0, ref_at(tile.src, at(r, d, 0))), columns)
    stores: list[Step] = []
    for column in [0] if both else range(columns):
        to = frame.see(1, ref_at(tile.dst, at(r, 0, column)))
        if rows > 1 and columns > 1:
            stores += _over(d, (Move(pack[d], regs[add(slot, column)]),))
            stores.append(Move(to, pack[0], rows))
        else:
            stores.append(Move(to, regs[add(mul(r, rows * columns), column)], columns if both else rows))
    body = (*_over(r, _over(d, (load,))), Sync("warp"), *_over(r, tuple(stores)), Sync("warp"))
    registers = (regs, pack) if rows > 1 and columns > 1 else (regs,)
    name = f"permute_{tile.src.buffer.name}_{tile.dst.buffer.name}"
    note = "One warp: read through the source layout, meet, write through the destination layout."
    return frame.block(name, body, context.op, registers, note)


def _over(var: Index, body: tuple[Step, ...]) -> tuple[Step, ...]:
    return (Repeat(var, var.bound, body, True),) if isinstance(var, Var) else body


# ---------------------------------------------------------------- warp_xor_swizzle
def _plan_xor(call: Call, context: Context) -> Planned:
    """Lane takes element ``lane + 32 * (r ^ ((lane >> shift) & mask))`` at step r (the seed's family, then any shift)."""
    tile = _tile(call, context)
    sides = _plain_sides(tile, context)
    found = [(k, shift, mask, _xor_cost(tile, sides, shift, mask)) for k, shift, mask in _xor_family(tile)]
    floor = _xor_floor(tile, sides)
    best = min(found, key=lambda f: (f[3].key[:2], f[0]))
    k, shift, mask, _ = best
    lane, steps = Var("laneid", _LANES), tile.per_lane
    turn = mod(lane // (1 << shift), mask + 1) if mask else 0

    def at(r: Index, d: Index, column: int) -> tuple[Index, ...]:
        values = split_number(add(lane, mul(xor(r, turn), _LANES)), [d.extent for d in tile.digits])
        return coordinates(tile.digits, values, len(tile.src.dims))

    block = _block(call, context, tile, at, steps, 1, 1, False)
    cost = context.cost((block,))
    reached = best[3].key[:2] == floor
    proof = "no conflict in either phase: the floor" if reached else f"the best of all {len(found)} (shift, mask)"
    candidates = tuple(_xor_candidate(f, best) for f in found)
    picked = {"k": k, "shift": shift, "mask": mask}
    return Planned((block,), cost, (Choice("xor_k", picked, candidates, proof), _registers(tile)))


def _xor_candidate(f: tuple[int, int, int, Cost], best: tuple[int, int, int, Cost]) -> Candidate:
    worse = f[3].key > best[3].key
    verdict = "picked" if f is best else "costs more" if worse else "the same cost, a larger k or another shift"
    return Candidate({"k": f[0], "shift": f[1], "mask": f[2]}, f[3], verdict)


def _xor_family(tile: Tile) -> list[tuple[int, int, int]]:
    """(k, shift, mask): the seed's shift = 5 - k first, then every other shift."""
    steps = tile.per_lane
    bits = min(5, (steps & -steps).bit_length() - 1)  # beyond that the XOR leaves the range of steps
    family = [(k, 5 - k, (1 << k) - 1) for k in range(bits + 1)]
    return family + [(k, s, (1 << k) - 1) for k in range(1, bits + 1) for s in range(5 - k - 1, -1, -1)]


def _plain_sides(tile: Tile, context: Context) -> list[Side]:
    size = tile.src.elem_bytes
    return [
        Side(_byte_addresses(tile, o, context), size, o.memory.space, kind)
        for o, kind in ((tile.src, "ld"), (tile.dst, "st"))
    ]


def _xor_cost(tile: Tile, sides: Sequence[Side], shift: int, mask: int) -> Cost:
    lane, step = np.arange(_LANES)[None, :], np.arange(tile.per_lane)[:, None]
    number = lane + _LANES * (step ^ ((lane >> shift) & mask))
    sectors = sum(int(np.sum(access.sectors(s.width_bytes, s.addresses[number]))) for s in sides if s.space == "global")
    waves = sum(
        int(np.sum(access.wavefronts(s.kind, s.width_bytes, s.addresses[number]))) for s in sides if s.space == "shared"
    )
    return Cost(sectors, waves, 2 * tile.per_lane)


def _xor_floor(tile: Tile, sides: Sequence[Side]) -> tuple[int, int]:
    number = np.arange(tile.count).reshape(-1, _LANES)
    sectors = sum(len(np.unique(s.addresses // 32)) for s in sides if s.space == "global")
    waves = sum(
        int(np.sum(access.phases(s.kind, s.width_bytes, s.addresses[number]))) for s in sides if s.space == "shared"
    )
    return sectors, waves


def _registers(tile: Tile) -> Choice:
    return Choice("registers_per_lane", tile.per_lane, (), f"{tile.count} elements / 32 lanes")


# ---------------------------------------------------------------- warp_linear_swizzle and warp_vector
@dataclass(frozen=True)
class Bundle:
    """Vectors of both phases: ``columns`` bits contiguous in src, ``rows`` bits contiguous in dst, the rest's lane map."""

    columns: tuple[int, ...]
    rows: tuple[int, ...]
    rest: tuple[int, ...]
    both: bool
    lane_map: LaneMap

    @property
    def is_free(self) -> bool:
        """No bank conflict in either phase."""
        return self.lane_map.cost[1] == self.lane_map.floor[1]


def _plan_linear(call: Call, context: Context) -> Planned:
    """Lane and step name an element by an invertible matrix over F2, one element an access."""
    tile = _tile(call, context)
    return _planned(call, context, tile, _search(tile, context, (), (), False))


def _plan_vector(call: Call, context: Context) -> Planned:
    """Bundles in registers, so that at least one phase moves several contiguous elements at once."""
    tile = _tile(call, context)
    shapes = [s for s in _bundle_shapes(tile) if s[0] or s[1]]
    if not shapes:
        raise Refused("neither side has two contiguous, aligned elements beside 32 lanes of others")
    best: Bundle | None = None
    for least, (columns, rows, both) in sorted(((_least_cost(tile, *s), s) for s in shapes), key=lambda x: x[0]):
        if best is not None and best.is_free and _estimate(tile, best) <= least:
            break
        found = _search(tile, context, columns, rows, both)
        if best is None or (not found.is_free, _estimate(tile, found)) < (not best.is_free, _estimate(tile, best)):
            best = found
    assert best is not None
    if not best.is_free and _search(tile, context, (), (), False).is_free:
        raise Refused("every bundle has bank conflicts, single elements have none")
    return _planned(call, context, tile, best)


def _bundle_shapes(tile: Tile) -> list[tuple[tuple[int, ...], tuple[int, ...], bool]]:
    """(columns, rows, both): bits contiguous in src and in dst, with five or more bits left for the lanes."""
    columns, rows = _contiguous_bits(tile, tile.src, 0), _contiguous_bits(tile, tile.dst, 1)
    room = len(tile.bits) - 5
    if columns and rows and columns[0] == rows[0]:
        common = [c for c, r in zip(columns, rows, strict=False) if c == r]
        return [(tuple(common[:n]), (), True) for n in range(1, min(len(common), room) + 1)]
    return [
        (tuple(columns[:c]), tuple(rows[:r]), False)
        for c in range(len(columns) + 1) for r in range(len(rows) + 1)
        if 0 < c + r <= room and not set(columns[:c]) & set(rows[:r])
    ]  # fmt: skip


def _contiguous_bits(tile: Tile, operand: Operand, side: int) -> list[int]:
    """Bits that move an operand by 1, 2, 4, ... elements, as far as one aligned access may reach."""
    out: list[int] = []
    for k, digit in enumerate(tile.digits):
        if digit.strides[side] != 1:
            continue
        weight = 2
        start = [Var(f"d{j}", d.extent) for j, d in enumerate(tile.digits)]
        while digit.extent % weight == 0:
            values: list[Index] = list(start)
            values[k] = mul(Var(f"d{k}", digit.extent // weight), weight) if digit.extent > weight else 0
            ref = ref_at(operand, coordinates(tile.digits, values, len(operand.dims)))
            if not allows_width(operand, ref, weight, digit, side, frozenset()):
                break
            out.append(tile.bits.index((k, weight // 2)))
            weight *= 2
    return out


def _least_cost(tile: Tile, columns: Sequence[int], rows: Sequence[int], both: bool) -> tuple[int, int, int]:
    """What a bundle costs at least: (sectors, wavefronts, instructions)."""
    instructions = sectors = waves = 0
    for operand, width in ((tile.src, 1 << len(columns)), (tile.dst, 1 << len(columns if both else rows))):
        accesses = tile.per_lane // width
        instructions += accesses
        if operand.memory.space == "global":
            sectors += -(-tile.count * operand.elem_bytes // 32)
        else:
            waves += accesses * max(1, width * operand.elem_bytes // 4)
    return sectors, waves, instructions


def _estimate(tile: Tile, bundle: Bundle) -> tuple[int, int, int]:
    return (*bundle.lane_map.cost, _least_cost(tile, bundle.columns, bundle.rows, bundle.both)[2])


def _search(
    tile: Tile, context: Context, columns: tuple[int, ...], rows: tuple[int, ...], both: bool
) -> Bundle:
    rest = tuple(b for b in range(len(tile.bits)) if b not in columns and b not in rows)
    size, sides = tile.src.elem_bytes, []
    widths = (len(columns), len(columns) if both else len(rows))
    inner = (0, 0) if both else (len(rows), len(columns))
    for operand, kind, width, other in zip((tile.src, tile.dst), ("ld", "st"), widths, inner, strict=True):
        addresses = _numbered(tile, _byte_addresses(tile, operand, context), rest)
        sides.append(Side(addresses, size << width, operand.memory.space, kind, tile.odd << other))
    orders = [
        tuple(range(len(rest))),
        *(tuple(sorted(range(len(rest)), key=lambda b: int(s.addresses[1 << b]))) for s in sides),  # noqa: B023
    ]
    return Bundle(columns, rows, rest, both, search_lanes(sides, tuple(dict.fromkeys(orders))))


def _planned(call: Call, context: Context, tile: Tile, bundle: Bundle) -> Planned:
    m, bits = bundle.lane_map, len(bundle.rest)
    lane = Var("laneid", _LANES)
    mine = apply_vectors(lane, m.lanes, bits)
    repeats = 1 << len(m.steps)

    def at(r: Index, d: Index, column: int) -> tuple[Index, ...]:
        step, odd = (mod(r, repeats), r // repeats) if not isinstance(r, int) else (r % repeats, r // repeats)
        number = xor(mine, apply_vectors(step, m.steps, bits))
        return _merge(
            tile, _values_of(tile, number, bundle.rest, odd), _values_of(tile, d, bundle.rows),
            _values_of(tile, column, bundle.columns),
        )  # fmt: skip

    block = _block(
        call, context, tile, at, repeats * tile.odd, 1 << len(bundle.rows), 1 << len(bundle.columns), bundle.both
    )
    return Planned((block,), context.cost((block,)), (*_bundle_choices(tile, bundle), _registers(tile)))


def _bundle_choices(tile: Tile, bundle: Bundle) -> tuple[Choice, ...]:
    m = bundle.lane_map
    load, store = 1 << len(bundle.columns), 1 << len(bundle.columns if bundle.both else bundle.rows)
    size = tile.src.elem_bytes
    lanes = Choice("lane_vectors", {"lanes": list(m.lanes), "steps": list(m.steps)}, (), m.proof)
    if load == store == 1:
        return (lanes,)
    picked = {"elems": max(load, store), "bytes": max(load, store) * size, "load_bytes": load * size}
    picked["store_bytes"] = store * size
    why = "the least wavefronts (or sectors), then instructions, of every pair of widths with 32 lanes left"
    return Choice("vector_width", picked, (), why), lanes


VARIANTS = (
    Variant("warp_vector", 30, _refuse, _plan_vector),
    Variant("warp_xor_swizzle", 20, _refuse, _plan_xor),
    Variant("warp_linear_swizzle", 10, _refuse, _plan_linear),
)
