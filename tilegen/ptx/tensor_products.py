"""tcgen05.mma, cp and commit: what one thread starts, in flight until the arrival of a commit is known."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from tilegen.ptx.barriers import complete, find_barrier, know_phase, mark_remote, require_seen, tell_phases
from tilegen.ptx.descriptors import (
    KINDS,
    NARROW,
    Product,
    Reader,
    Tile,
    find_bytes,
    place_matrix,
    read_bytes,
    read_elements,
    read_instruction,
    read_tcgen05_descriptor,
)
from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.matrices import BITS, pack, unpack
from tilegen.ptx.memory import Address, read_address
from tilegen.ptx.rows import Row, Step, row
from tilegen.ptx.state import PEER, Fault, Lanes
from tilegen.ptx.tensor_memory import CP, OPERAND, UNKNOWN_HALF, list_cells
from tilegen.ptx.tensor_moves import GROUP, list_pair, require_group
from tilegen.ptx.text import Instruction, PtxError


@dataclass(frozen=True)
class Operands:
    """What one lane gives to a product: addresses of tensor memory, descriptors, whether to add, the shift of D."""

    d: int
    a: int
    b: int
    factors: tuple[int, ...]
    adds: bool
    shift: int
    a_in_cells: bool


def split_address(at: int) -> tuple[int, int]:
    """Lane and column of an address of tensor memory."""
    return at >> 16, at & 0xFFFF


def place_rows(m: int, group: int) -> Array:
    """The lane of each row of D, and of A in tensor memory, that one CTA has (PTX ISA, tcgen05: Data path layouts).

    >>> place_rows(64, 1)[[0, 15, 16, 63]].tolist(), len(place_rows(256, 2))
    ([0, 15, 32, 111], 128)
    """
    rows = np.arange(m // group)
    return rows // 16 * 32 + rows % 16 if (m, group) == (64, 1) else rows


def place_sums(m: int, n: int, group: int) -> tuple[Array, Array]:
    """Lane and column of each of the sums [rows, n] that one CTA has. Of a pair with M 128 they are two halves of N.

    >>> lanes, columns = place_sums(128, 64, 2)
    >>> lanes[3, [0, 40]].tolist(), columns[3, [0, 40]].tolist()
    ([3, 67], [0, 8])
    """
    column = np.arange(n)
    if (m, group) == (128, 2):
        return np.arange(64)[:, None] + 64 * (column >= n // 2), np.arange(64)[:, None] * 0 + column % (n // 2)
    found = np.broadcast_arrays(place_rows(m, group)[:, None], column)
    return found[0], found[1]


def _multiply(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    state, kind = machine.state, found["kind"]
    group, scaled = require_group(machine, found), KINDS[found["kind"]].is_scaled
    d = read_address(machine, one.operands[0])
    a_in_cells = one.operands[1].startswith("[")
    a = read_address(machine, one.operands[1]) if a_in_cells else _read_wide(machine, one.operands[1])
    b, bits = _read_wide(machine, one.operands[2]), state.row(one.operands[3], np.dtype("u4"))
    factors = [read_address(machine, x) for x in one.operands[4:6]] if scaled else []
    rest = one.operands[6 if scaled else 4 :]
    if not rest or rest[0].startswith("{"):
        raise PtxError(f"{one.op} with disable-output-lane is not carried out")
    adds, shift = state.row(rest[0], np.dtype(bool)), int(rest[1], 0) if len(rest) > 1 else 0
    if shift and (kind not in ("f16", "tf32") or not 0 <= shift <= 15):
        raise PtxError(f"{one.op} with scale-input-d {shift}")

    def step(lanes: Lanes) -> None:
        values = [address(lanes) for address in (d, a, b, *factors)]
        for k, lane in enumerate(lanes.idx.tolist()):
            to, left, right, *scales = (int(x[k]) for x in values)
            given = Operands(to, left, right, tuple(scales), bool(adds[lane]), shift, a_in_cells)
            multiply(machine, lane, read_instruction(int(bits[lane]), kind, group), (kind, group), given)

    return step


def _read_wide(machine: Machine, name: str) -> Address:
    held = machine.state.row(name, np.dtype("u8"))
    return lambda lanes: held[lanes.at]


def multiply(machine: Machine, lane: int, one: Product, way: tuple[str, int], given: Operands) -> None:
    """D = A B, or D + A B, in all CTAs of the group. ``way``: the kind and the cta_group."""
    (kind, group), tensor = way, machine.tensor
    members = list_pair(machine, int(machine.state.cta[lane]), group)
    lanes, columns = place_sums(one.m, one.n, group)
    row, column = split_address(given.d)
    if row not in ((0, 16) if (one.m, group) == (64, 1) else (0,)):
        raise Fault(f"the sums of a product with M of {one.m} begin at lane {row}")
    sums = [
        list_cells(cta, row + lanes, _check(machine, lane, cta, column, int(columns.max()) + 1) + columns)
        for cta in members
    ]
    a_cells = [_find_a(machine, lane, cta, (one, group), given.a) for cta in members] if given.a_in_cells else []
    f_cells = [_find_factors(machine, lane, cta, one.m // group, one.n, given.factors) for cta in members]
    op = ("mma", given.d, one.m, one.n, one.sums, kind, group)
    agent, _ = tensor.queue(lane)
    reader = Reader(agent, tensor.start_row(lane), lane)
    for cells in (*a_cells, *(f for fs in f_cells for f in fs)):
        tensor.start_read(lane, OPERAND, cells)
    for cells in sums:
        if given.adds:
            tensor.start_read(lane, op, cells)
        tensor.start_write(lane, op, cells)
    right = np.concatenate(
        [_read_shared(machine, _at(reader, machine, cta), one, 1, given.b, one.n // group) for cta in members]
    )
    for k, cta in enumerate(members):
        if given.a_in_cells:
            left = one.signs[0] * unpack(tensor.cells[a_cells[k]], one.types[0]).reshape(one.m // group, one.k)
        else:
            left = _read_shared(machine, _at(reader, machine, cta), one, 0, given.a, one.m // group)
        scales = [_read_factors(tensor.cells[c], one.ids[j]) for j, c in enumerate(f_cells[k])] or [np.ones(1)] * 2
        total = (left * scales[0][:, None]) @ (right * scales[1][:, None]).T
        if given.adds:
            total += _read_sums(tensor.cells[sums[k]], one.sums) / (1 << given.shift)
        tensor.cells[sums[k]] = _pack_sums(total, one)


def _at(reader: Reader, machine: Machine, cta: int) -> Reader:
    return replace(reader, rank=int(machine.state.rank[cta * machine.state.padded]))


def _check(machine: Machine, lane: int, cta: int, column: int, count: int) -> int:
    """A column, whose ``count`` columns from there on this lane knows to be taken."""
    machine.tensor.check_columns(np.array([lane]), cta, column, column + count - 1)
    return column


def _read_shared(machine: Machine, reader: Reader, one: Product, which: int, bits: int, rows: int) -> Array:
    """A (``which`` 0) or B (1) of one CTA, [mn, k], with its sign."""
    matrix, kind, along_k = read_tcgen05_descriptor(bits), one.types[which], not one.mn_majors[which]
    if (matrix.atom == 32) != (kind == "tf32" and not along_k):
        raise Fault("a swizzle of 32-byte atoms is for tf32 along M or N, which has no other")
    has_blocks = not along_k and rows * BITS.get(kind, 8) // 8 > matrix.span
    if matrix.span and (matrix.stride % matrix.pattern or (has_blocks and matrix.leading % matrix.pattern)):
        raise Fault(f"a matrix descriptor whose offsets are no multiples of {matrix.pattern}, its swizzle's pattern")
    return one.signs[which] * read_elements(machine, reader, matrix, Tile((rows, one.k), kind, along_k))


def _find_a(machine: Machine, lane: int, cta: int, way: tuple[Product, int], at: int) -> Array:
    """Cells [rows, 8] of A in tensor memory, with elements side by side (PTX ISA, tcgen05: Packing formats)."""
    one, group = way
    row, column = split_address(at)
    if (one.m, group) == (128, 2) or one.types[0] in NARROW:
        raise Fault(
            f"A of {one.types[0]} in tensor memory, with M of {one.m} and cta_group::{group}, is not carried out"
        )
    if one.mn_majors[0] or row not in ((0, 16) if one.m == 64 else (0,)):
        raise Fault(f"A in tensor memory lies along K, from lane 0 on, not {row}")
    count = one.k * BITS[one.types[0]] // 32
    _check(machine, lane, cta, column, count)
    return list_cells(cta, row + place_rows(one.m, group)[:, None], column + np.arange(count))


def _find_factors(machine: Machine, lane: int, cta: int, m: int, n: int, factors: tuple[int, ...]) -> list[Array]:
    """Cells [4, rows] of the factors of A and of B: row r in lane r mod 32 of each 32, column r / 32."""
    found = []
    if factors and m != 128:
        raise Fault(f"factors of {m} rows of A, in each CTA of a pair, are not carried out")
    for at, count in zip(factors, (m, n), strict=False):
        rows = np.arange(count)
        row, column = split_address(at)
        if row:
            raise Fault(f"factors begin at lane {row}: they lie in all lanes")
        _check(machine, lane, cta, column, (count + 31) // 32)
        found.append(list_cells(cta, rows % 32 + 32 * np.arange(4)[:, None], column + rows // 32))
    return found


def _read_factors(cells: Array, which: int) -> Array:
    """Numbers of ue8m0. Raises Fault where lanes 32, 64, 96 further on hold other ones."""
    bits = cells >> 8 * which & 255
    if (bits != bits[0]).any():
        raise Fault("scale factors are not the same in all four groups of 32 lanes")
    return np.where(bits[0] == 255, np.nan, np.ldexp(1.0, bits[0].astype(np.int64) - 127))


def _read_sums(cells: Array, kind: str) -> Array:
    if kind == "s32":
        return cells.view(np.int32).astype(np.float64)
    return unpack(cells, kind)[..., 0]


def _pack_sums(total: Array, one: Product) -> Array:
    """Words of D; a half lies in the low bits of its cell."""
    if one.sums == "f16":
        return pack(np.stack([total, 0 * total], -1), "f16") & np.uint32(0xFFFF) | UNKNOWN_HALF
    if one.saturates:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return pack(total[..., None], one.sums)


# ---- cp
def place_copy(shape: str, cast: str) -> tuple[Array, Array]:
    """The lane of each word of shared memory [copies, rows, words], and its column (PTX ISA, tcgen05.cp).

    >>> place_copy("64x128b", "warpx2::01_23")[0][:, [0, 31, 32], 0].tolist()
    [[0, 31, 64], [32, 63, 96]]
    """
    rows, bits = (int(x) for x in shape.removesuffix("b").split("x"))
    row = np.arange(rows)
    lanes = {
        "": row[None] * (32 if rows == 4 else 1),
        "warpx4": row + 32 * np.arange(4)[:, None],
        "warpx2::02_13": row + 64 * np.arange(2)[:, None],
        "warpx2::01_23": row // 32 * 64 + row % 32 + 32 * np.arange(2)[:, None],
    }[cast]
    found = np.broadcast_arrays(lanes[..., None], np.arange(bits // 32))
    return found[0], found[1]


def _copy(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    group, shape, cast = require_group(machine, found), found["shape"], found["cast"] or ""
    to, bits = read_address(machine, one.operands[0]), _read_wide(machine, one.operands[1])
    lanes_of, columns = place_copy(shape, cast)
    size = lanes_of.shape[1], 4 * lanes_of.shape[2]

    def step(lanes: Lanes) -> None:
        for lane, at, source in zip(lanes.idx.tolist(), to(lanes).tolist(), bits(lanes).tolist(), strict=True):
            members = list_pair(machine, int(machine.state.cta[lane]), group)
            down, column = split_address(at)
            if down + int(lanes_of.max()) > 127:
                raise Fault(f"tcgen05.cp.{shape} from lane {down} on")
            cells = [
                list_cells(cta, down + lanes_of, _check(machine, lane, cta, column, columns.shape[2]) + columns)
                for cta in members
            ]
            tensor, matrix = machine.tensor, read_tcgen05_descriptor(source)
            reader = Reader(tensor.queue(lane)[0], tensor.start_row(lane), lane)
            for cta, here in zip(members, cells, strict=True):
                tensor.start_write(lane, CP, here)
                its = _at(reader, machine, cta)
                byte = find_bytes(machine, its, place_matrix(matrix, size, 1, True), 1)
                read_bytes(machine, its, byte)
                words = machine.state.shared[byte].view(np.uint32)
                tensor.cells[here] = np.broadcast_to(words, here.shape)

    return step


# ---- commit
def _commit(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    require_group(machine, found)
    address = read_address(machine, one.operands[0])
    mask = machine.state.row(one.operands[1], np.dtype("u2")) if found["multicast"] else None

    def step(lanes: Lanes) -> None:
        for lane, at in zip(lanes.idx.tolist(), address(lanes).tolist(), strict=True):
            peers = [p for p in range(16) if int(mask[lane]) >> p & 1] if mask is not None else None
            for peer in [None] if peers is None else peers:
                if peer is not None and peer >= machine.state.peers:
                    raise Fault(f"a commit is sent to CTA {peer} of a cluster of {machine.state.peers}")
                _arrive(machine, lane, at if peer is None else at & (1 << PEER) - 1 | peer + 1 << PEER)

    return step


def _arrive(machine: Machine, lane: int, at: int) -> None:
    """One arrival, after all that the lane has started: it tells of that, and of what that came after."""
    order, state = machine.order, machine.state
    barrier = find_barrier(machine, at, lane)
    require_seen(machine, barrier, lane)
    know_phase(machine, barrier, lane, "a commit")
    agent, queue = machine.tensor.queue(lane)
    told = queue.row.copy()
    told[agent] = order.tick()
    if state.cta[lane] == barrier.byte // state.shared_bytes:
        np.maximum(barrier.own, told, out=barrier.own)
    np.maximum(barrier.wide, told, out=barrier.wide)
    tell_phases(machine, barrier, lane)
    mark_remote(machine, barrier, lane)
    barrier.pending -= 1
    if barrier.pending < 0:
        raise Fault("more arrivals at an mbarrier than its phase counts")
    complete(machine, barrier)


ROWS: tuple[Row, ...] = (
    row(rf"tcgen05\.mma\.{GROUP}\.kind::(?P<kind>f16|tf32|i8|f8f6f4)", "9.7.16 tcgen05.mma", _multiply),
    row(rf"tcgen05\.mma\.{GROUP}\.kind::(?P<kind>mxf8f6f4)\.block_scale(\.scale_vec::1X|\.block32)?",
        "9.7.16 tcgen05.mma", _multiply),
    row(rf"tcgen05\.cp\.{GROUP}\.(?P<shape>128x256b|4x256b|128x128b)(?P<cast>!)?", "9.7.16 tcgen05.cp", _copy),
    row(rf"tcgen05\.cp\.{GROUP}\.(?P<shape>64x128b)\.(?P<cast>warpx2::(02_13|01_23))", "9.7.16 tcgen05.cp", _copy),
    row(rf"tcgen05\.cp\.{GROUP}\.(?P<shape>32x128b)\.(?P<cast>warpx4)", "9.7.16 tcgen05.cp", _copy),
    row(rf"tcgen05\.commit\.{GROUP}\.mbarrier::arrive::one\.shared::cluster(?P<multicast>\.multicast::cluster)?\.b64",
        "9.7.16 tcgen05.commit", _commit),
)  # fmt: skip
