"""What whole warps do together: products of fragments, matrices to and from registers, exchanges of lanes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tilegen.ptx.conversions import decode, encode, round_float
from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.memory import check_aligned, granules_of, place_shared, read_address
from tilegen.ptx.rows import WARPS, Row, Step, row
from tilegen.ptx.state import WARP, Lanes
from tilegen.ptx.text import Instruction, PtxError, list_names

_LANE = np.arange(WARP)
_GROUP, _IN_GROUP = _LANE // 4, _LANE % 4
BITS = {"f64": 64, "tf32": 32, "f32": 32, "s32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}


def place_a(m: int, bits: int, words: int) -> tuple[Array, Array]:
    """Row and column of each element of A's fragment: [lanes, words, elements of a word] (PTX ISA, mma: fragments).

    >>> rows, columns = place_a(16, 16, 4)
    >>> rows[5, 1].tolist(), columns[5, 2].tolist()
    ([9, 9], [10, 11])
    """
    each = max(1, 32 // bits)
    r, h = np.arange(words)[:, None], np.arange(each)
    down, right = (r & 1, r >> 1) if m == 16 else (0 * r, r)
    rows = _GROUP[:, None, None] + 8 * down + 0 * h
    return rows, _IN_GROUP[:, None, None] * each + h + 4 * each * right


def place_b(bits: int, words: int) -> tuple[Array, Array]:
    """Row (along K) and column of each element of B's fragment."""
    each = max(1, 32 // bits)
    r, h = np.arange(words)[:, None], np.arange(each)
    rows = _IN_GROUP[:, None, None] * each + h + 4 * each * r
    return rows, _GROUP[:, None, None] + 0 * rows


def place_c(m: int, bits: int, words: int) -> tuple[Array, Array]:
    """Row and column of each element of C's fragment; of 16 bits, two lie in a word."""
    each = 2 if bits == 16 else 1
    e = np.arange(words)[:, None] * each + np.arange(each)
    rows = _GROUP[:, None, None] + (8 * (e >> 1) if m == 16 else 0 * e)
    return rows, _IN_GROUP[:, None, None] * 2 + (e & 1) + 0 * rows


def unpack(words: Array, name: str) -> Array:
    """Numbers of 32-bit words (or of doubles), [.., elements of a word], as doubles."""
    if name == "f64":
        return words.view(np.float64)[..., None]
    parts = np.ascontiguousarray(words)[..., None].view(f"u{BITS[name] // 8}")
    if name in ("s8", "u8"):
        return parts.view("i1" if name == "s8" else "u1").astype(np.float64)
    if name == "tf32":
        return (parts & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    return decode(parts, name)


def pack(values: Array, name: str) -> Array:
    """Words of numbers [.., elements of a word], rounded once; integers wrap."""
    if name == "f64":
        return np.ascontiguousarray(values[..., 0])
    if name == "s32":
        return values[..., 0].astype(np.int64).astype(np.uint64).astype(np.uint32)
    bits = encode(values if name == "f32" else round_float(values, name), name)
    return np.ascontiguousarray(bits).view(np.uint32)[..., 0]


def fragment_rows(machine: Machine, operand: str, is_double: bool) -> list[Array]:
    return [machine.state.row(name, np.dtype("f8" if is_double else "u4")) for name in list_names(operand)]


def take(rows: list[Array], lanes: Lanes, width: int = WARP) -> Array:
    """[groups of lanes, lanes, words]."""
    return np.stack([r[lanes.at] for r in rows], -1).reshape(-1, width, len(rows))


def _mma(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    m, n, k = (int(found[x]) for x in "mnk")
    kinds = {x: found[f"kind_{x}"] for x in "dabc"}
    rows = {x: fragment_rows(machine, one.operands["dabc".index(x)], kinds[x] == "f64") for x in "dabc"}
    at_a = place_a(m, BITS[kinds["a"]], len(rows["a"]))
    at_b, at_c = place_b(BITS[kinds["b"]], len(rows["b"])), place_c(m, BITS[kinds["c"]], len(rows["c"]))
    if at_a[1].max() != k - 1 or at_b[0].max() != k - 1:
        raise PtxError(f"{one.op} takes other counts of registers")

    def step(lanes: Lanes) -> None:
        a, b = (unpack(take(rows[x], lanes), kinds[x]) for x in "ab")
        words = take(rows["c"], lanes)
        c = words.view(np.int32)[..., None].astype(np.float64) if kinds["c"] == "s32" else unpack(words, kinds["c"])
        left, right, total = (np.zeros((len(a), *shape)) for shape in ((m, k), (k, n), (m, n)))
        left[:, at_a[0], at_a[1]], right[:, at_b[0], at_b[1]], total[:, at_c[0], at_c[1]] = a, b, c
        total += left @ right
        words = pack(total[:, at_c[0], at_c[1]], kinds["d"])
        for r, word in zip(rows["d"], np.moveaxis(words, -1, 0), strict=True):
            r[lanes.at] = word.reshape(-1)

    return step


def _matrices(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """ldmatrix, stmatrix: lane 8 k + r gives the address of row r of matrix k."""
    loads, count, transposes = one.op.startswith("ld"), int(found["count"]), bool(found["trans"])
    address = read_address(machine, one.operands[1 if loads else 0])
    rows = fragment_rows(machine, one.operands[0 if loads else 1], False)
    if len(rows) != count:
        raise PtxError(f"{one.op} of {len(rows)} registers")

    def step(lanes: Lanes) -> None:
        at = address(lanes).reshape(-1, WARP)[:, : 8 * count]
        idx = lanes.idx.reshape(-1, WARP)
        check_aligned(at, 16)
        byte = place_shared(machine, at.ravel(), idx[:, : 8 * count].ravel(), 16).reshape(at.shape)
        machine.refuse_barriers(byte.ravel(), 16)
        shadow = machine.shared_shadow
        cells = (byte // 4)[..., None] + np.arange(4)
        words = np.zeros((len(idx), count, WARP), np.uint32)
        if not loads:
            words = _transpose(np.moveaxis(take(rows, lanes), 2, 1), transposes)
        granules = granules_of(byte.ravel(), 16, shadow.granule).reshape(len(idx), -1)
        (shadow.read_together if loads else shadow.write_together)(idx[:, 0] // WARP, granules)
        if loads:
            words = _transpose(machine.shared_views[4][cells].reshape(len(idx), count, WARP), transposes)
            for r, word in zip(rows, np.moveaxis(words, 1, 0), strict=True):
                r[lanes.at] = word.reshape(-1)
        else:
            machine.shared_views[4][cells] = words.reshape(len(idx), 8 * count, 4)

    return step


def _transpose(words: Array, is_asked: bool) -> Array:
    """Matrices of 8 x 8 halves in 32 words: word 4 r + c has row r."""
    if not is_asked:
        return words
    halves = np.ascontiguousarray(words).view(np.uint16).reshape(*words.shape[:-1], 8, 8)
    return np.ascontiguousarray(np.swapaxes(halves, -1, -2)).reshape(*words.shape[:-1], 64).view(np.uint32)


def _shuffle(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    state, u4, mode = machine.state, np.dtype("u4"), found["mode"]
    target, *valid = [name.strip() for name in one.operands[0].split("|")]
    d = state.row(target, u4)
    p = state.row(valid[0], np.dtype(bool)) if valid and valid[0] != "_" else None
    a, b, c, mask = (state.row(name, u4) for name in one.operands[1:5])

    def step(lanes: Lanes) -> None:
        at, lane = lanes.at, lanes.idx % WARP
        by, clamp = (b[at] & np.uint32(31)).astype(np.int64), (c[at] & np.uint32(31)).astype(np.int64)
        segment = (c[at] >> np.uint32(8) & np.uint32(31)).astype(np.int64)
        low, high = lane & segment, (lane & segment) | (clamp & ~segment)
        source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": low | (by & ~segment)}[mode]
        inside = source >= high if mode == "up" else source <= high
        source = np.where(inside, source, lane)
        machine.check_mask(lanes, mask[at], source)
        whole = np.zeros(state.total, np.uint32)
        whole[lanes.idx] = a[at]
        d[at] = whole[lanes.idx - lane + source]
        if p is not None:
            p[at] = inside

    return step


def each_warp(lanes: Lanes) -> list[Array]:
    """Positions among ``lanes`` of each warp's."""
    return np.split(np.arange(lanes.n), np.flatnonzero(np.diff(lanes.idx // WARP)) + 1)


def _collect(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """vote, match, redux, elect, activemask: a function of the values of a warp's lanes that are here."""
    state, kind = machine.state, found["kind"]
    parts = [name.strip() for name in one.operands[0].split("|")]
    is_bool = kind in ("all", "any", "uni")
    d = None if parts[0] == "_" else state.row(parts[0], np.dtype(bool if is_bool else "u4"))
    p = state.row(parts[1], np.dtype(bool)) if len(parts) > 1 else None
    votes = one.op.startswith("vote")
    name = one.operands[1] if len(one.operands) > 2 else ""
    held = (
        state.row(name.lstrip("!"), np.dtype(bool) if votes else np.dtype("i4" if found["signed"] else "u4"))
        if name
        else None
    )

    def step(lanes: Lanes) -> None:
        x = np.ones(lanes.n, bool) if held is None else held[lanes.at]
        x = ~x if name.startswith("!") else x
        for here in each_warp(lanes):
            bits = np.uint32(1) << (lanes.idx[here] % WARP).astype(np.uint32)
            value, predicate = _TOGETHER[kind](x[here], bits)
            if d is not None:
                d[lanes.idx[here]] = (
                    np.asarray(value).astype(d.dtype)
                    if kind not in ("min", "max", "add")
                    else np.asarray(value).astype(x.dtype).view(d.dtype)
                )
            if p is not None:
                p[lanes.idx[here]] = predicate

    return step


def _match_any(x: Array, bits: Array) -> tuple[Any, Any]:
    return np.array([bits[x == v].sum() for v in x], np.uint32), True


def _match_all(x: Array, bits: Array) -> tuple[Any, Any]:
    same = bool((x == x[0]).all())
    return bits.sum() if same else 0, same


_TOGETHER: dict[str, Callable[[Array, Array], tuple[Any, Any]]] = {
    "all": lambda x, bits: (x.all(), 0), "any": lambda x, bits: (x.any(), 0),
    "uni": lambda x, bits: (x.all() or not x.any(), 0),
    "ballot": lambda x, bits: (bits[x].sum(), 0), "match.any": _match_any, "match.all": _match_all,
    "add": lambda x, bits: (x.sum(dtype=np.int64) & 0xFFFFFFFF, 0),
    "min": lambda x, bits: (x.min(), 0), "max": lambda x, bits: (x.max(), 0),
    "and": lambda x, bits: (np.bitwise_and.reduce(x), 0), "or": lambda x, bits: (np.bitwise_or.reduce(x), 0),
    "xor": lambda x, bits: (np.bitwise_xor.reduce(x), 0),
    "elect": lambda x, bits: (int(bits[0]).bit_length() - 1, bits == bits[0]),
    "activemask": lambda x, bits: (bits.sum(), 0),
}  # fmt: skip

ROWS: tuple[Row, ...] = (
    row(r"mma\.sync\.aligned\.m(?P<m>\d+)n(?P<n>8)k(?P<k>\d+)\.row\.col\.(?P<kind_d>\w+)\.(?P<kind_a>\w+)\.(?P<kind_b>\w+)\.(?P<kind_c>\w+)",
        "9.7.14 mma", _mma, WARPS),
    row(r"(ld|st)matrix\.sync\.aligned\.m8n8\.x(?P<count>[124])(?P<trans>\.trans)?\.shared(::cta)?\.b16", 
        "9.7.14 ldmatrix, stmatrix", _matrices, WARPS),
    row(r"shfl\.sync\.(?P<mode>up|down|bfly|idx)\.b32", "9.7.9 shfl.sync", _shuffle, WARPS),
    row(r"vote\.sync\.(?P<kind>all|any|uni|ballot)\.(pred|b32)(?P<signed>!)?", "9.7.13 vote.sync", _collect, WARPS),
    row(r"(?P<kind>match\.(any|all))\.sync\.b32(?P<signed>!)?", "9.7.13 match.sync", _collect, WARPS),
    row(r"redux\.sync\.(?P<kind>add|min|max|and|or|xor)\.(?P<signed>s32)?([ub]32)?", "9.7.13 redux.sync",
        _collect, WARPS),
    row(r"(?P<kind>elect)\.sync(?P<signed>!)?", "9.7.13 elect.sync", _collect, WARPS),
    row(r"(?P<kind>activemask)\.b32(?P<signed>!)?", "9.7.13 activemask", _collect),
)  # fmt: skip
