"""Logic, shifts, fields of bits, bytes: one value a lane."""

from __future__ import annotations

import re
from functools import partial

import numpy as np

from tilegen.ptx.arithmetic import Function, elementwise
from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.rows import Row, Step, row
from tilegen.ptx.state import Lanes, numpy_type
from tilegen.ptx.text import Instruction


def _shift(to_left: bool, machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """By at least the width: zeros, or signs."""
    dtype = numpy_type(found["type"])
    d, a = (machine.state.row(name, dtype) for name in one.operands[:2])
    by, bits = machine.state.row(one.operands[2], np.dtype("u4")), 8 * dtype.itemsize
    past = dtype.type(0) if dtype.kind == "u" or to_left else None

    def step(lanes: Lanes) -> None:
        x, n = a[lanes.at], by[lanes.at]
        near = np.minimum(n, bits - 1).astype(dtype)
        y = x << near if to_left else x >> near
        d[lanes.at] = y if past is None else np.where(n < bits, y, past)

    return step


def _logic3(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    d, a, b, c = (machine.state.row(name, np.dtype("u4")) for name in one.operands[:4])
    table = int(one.operands[4], 0)

    def step(lanes: Lanes) -> None:
        x, y, z = a[lanes.at], b[lanes.at], c[lanes.at]
        result = np.zeros_like(x)
        for k in range(8):
            if table >> k & 1:
                result |= (x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z)
        d[lanes.at] = result

    return step


def _funnel(to_left: bool, clamps: bool, a: Array, b: Array, count: Array) -> Array:
    """shf: 32 bits of b:a shifted, the high ones to the left, the low ones to the right."""
    both = (b.astype(np.uint64) << np.uint64(32)) | a
    n = (np.minimum(count, 32) if clamps else count & np.uint32(31)).astype(np.uint64)
    return ((both << n) >> np.uint64(32) if to_left else both >> n).astype(np.uint32)


def _funnel_shift(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    return elementwise(partial(_funnel, found["way"] == "l", found["mode"] == "clamp"), machine, one, found)


def permute_bytes(a: Array, b: Array, selector: Array) -> Array:
    """prmt in its plain mode: nibble k names the byte of b:a that byte k becomes; its top bit spreads the sign."""
    both = (b.astype(np.uint64) << np.uint64(32)) | a
    result = np.zeros_like(a)
    for k in range(4):
        nibble = (selector >> np.uint32(4 * k)) & np.uint32(15)
        byte = ((both >> (np.uint64(8) * (nibble & np.uint32(7)))) & np.uint64(255)).astype(np.uint32)
        sign = np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0))
        result |= np.where(nibble & np.uint32(8), sign, byte) << np.uint32(8 * k)
    return result


def _bit_field_insert(a: Array, b: Array, start: Array, length: Array) -> Array:
    one = b.dtype.type(1)
    bits = 8 * b.dtype.itemsize
    s, n = np.minimum(start & b.dtype.type(255), bits), np.minimum(length & b.dtype.type(255), bits)
    mask = np.where(n >= bits, ~b.dtype.type(0), (one << np.minimum(n, bits - 1).astype(b.dtype)) - one)
    moved, placed = (
        np.where(s >= bits, 0, x << np.minimum(s, bits - 1).astype(b.dtype)).astype(b.dtype) for x in (mask, a & mask)
    )
    return np.asarray((b & ~moved) | placed)


def _bit_field(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    dtype, small = numpy_type(found["type"]), np.dtype("u4")
    d, *sources = (machine.state.row(x, dtype) for x in one.operands[:-2])
    by = [machine.state.row(x, small) for x in one.operands[-2:]]
    function = _bit_field_insert if one.op.startswith("bfi") else _bit_field_extract

    def step(lanes: Lanes) -> None:
        at = lanes.at
        d[at] = function(*(x[at] for x in sources), *(x[at].astype(f"u{dtype.itemsize}") for x in by))

    return step


def _bit_field_extract(a: Array, start: Array, length: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    s, n = (start & 255).astype(np.int64), np.minimum((length & 255).astype(np.int64), bits)
    plain = a.view(f"u{a.dtype.itemsize}").astype(object)
    found = [(int(x) >> min(int(i), bits)) & ((1 << int(k)) - 1) for x, i, k in zip(plain, s, n, strict=True)]
    if a.dtype.kind == "i":
        signs = [
            int(x) >> min(int(i) + int(k) - 1, bits - 1) & 1 if k else 0 for x, i, k in zip(plain, s, n, strict=True)
        ]
        found = [v | (-1 << int(k)) if sign else v for v, sign, k in zip(found, signs, n, strict=True)]
    return np.array([v & (1 << bits) - 1 for v in found], f"u{a.dtype.itemsize}").view(a.dtype)


def _count_bits(x: Array) -> Array:
    return np.asarray(np.unpackbits(np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1), axis=1).sum(1))


def _leading_zeros(x: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1)[:, ::-1], axis=1)
    return np.asarray(np.where(bits.any(1), bits.argmax(1), bits.shape[1]))


def _reverse_bits(x: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1)[:, ::-1], axis=1)
    return np.asarray(np.packbits(bits[:, ::-1], axis=1)[:, ::-1].copy().view(x.dtype)[:, 0])


def _counting(function: Function, machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    d, a = (
        machine.state.row(one.operands[0], np.dtype("u4")),
        machine.state.row(one.operands[1], numpy_type(found["type"])),
    )

    def step(lanes: Lanes) -> None:
        d[lanes.at] = function(a[lanes.at])

    return step


ROWS: tuple[Row, ...] = (
    row(r"popc\.(?P<type>b(32|64))", "9.7.1 popc", partial(_counting, _count_bits)),
    row(r"clz\.(?P<type>b(32|64))", "9.7.1 clz", partial(_counting, _leading_zeros)),
    row(r"brev\.(?P<type>b(32|64))", "9.7.1 brev", partial(elementwise, _reverse_bits)),
    row(r"bfi\.(?P<type>b(32|64))", "9.7.1 bfi", _bit_field),
    row(r"bfe\.(?P<type>[us](32|64))", "9.7.1 bfe", _bit_field),
    row(r"and\.(?P<type>b(16|32|64)|pred)", "9.7.8 and", partial(elementwise, np.bitwise_and)),
    row(r"or\.(?P<type>b(16|32|64)|pred)", "9.7.8 or", partial(elementwise, np.bitwise_or)),
    row(r"xor\.(?P<type>b(16|32|64)|pred)", "9.7.8 xor", partial(elementwise, np.bitwise_xor)),
    row(r"not\.(?P<type>b(16|32|64)|pred)", "9.7.8 not", partial(elementwise, np.invert)),
    row(r"lop3\.b32", "9.7.8 lop3", _logic3),
    row(r"shl\.(?P<type>b(16|32|64))", "9.7.8 shl", partial(_shift, True)),
    row(r"shr\.(?P<type>[bus](16|32|64))", "9.7.8 shr", partial(_shift, False)),
    row(r"shf\.(?P<way>[lr])\.(?P<mode>wrap|clamp)\.(?P<type>b32)", "9.7.8 shf", _funnel_shift),
    row(r"prmt\.(?P<type>b32)", "9.7.9 prmt", partial(elementwise, permute_bytes)),
)  # fmt: skip
