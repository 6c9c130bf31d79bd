"""Integers, floats, comparisons, logic: one value a lane."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilegen.ptx.conversions import round_float
from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.rows import Row, Step, row
from tilegen.ptx.state import Lanes, numpy_type
from tilegen.ptx.text import Instruction, list_names

Function = Callable[..., Any]


def _elementwise(function: Function, machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """d = function(a, ..), all of the type that the opcode ends in."""
    dtype = numpy_type(found["type"])
    d, *sources = (machine.state.row(name, dtype) for name in one.operands)
    if len(sources) == 1:
        (a,) = sources

        def step(lanes: Lanes) -> None:
            d[lanes.at] = function(a[lanes.at])

    elif len(sources) == 2:
        a, b = sources

        def step(lanes: Lanes) -> None:
            at = lanes.at
            d[at] = function(a[at], b[at])

    else:

        def step(lanes: Lanes) -> None:
            d[lanes.at] = function(*(x[lanes.at] for x in sources))

    return step


def flush(x: Array) -> Array:
    """Subnormal floats as zeros of their sign."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def add_to_odd(a: Array, b: Array, c: Array) -> Array:
    """a b + c of float32 as doubles, rounded to odd: they round on to float32 as the exact sum does."""
    product = a.astype(np.float64) * b.astype(np.float64)  # exact
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)  # Knuth: what the sum of doubles lost, exactly
    bits = total.view(np.int64)
    inexact = (lost != 0) & np.isfinite(total) & (bits & 1 == 0)
    away = (lost > 0) == (total > 0)  # to odd: the neighbour on the side of what was lost
    odd: Array = np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)
    return odd


def _fma(a: Array, b: Array, c: Array) -> Array:
    if a.dtype == np.float32:
        return add_to_odd(a, b, c).astype(np.float32)
    return (a.astype(np.longdouble) * b + c).astype(a.dtype)


def _fused(mode: str, kind: str) -> Function:
    """add, sub, mul, fma of float32 rounded to zero, down or up."""

    def rounded(*xs: Array) -> Array:
        one, zero = np.ones_like(xs[0]), np.full_like(xs[0], -0.0)
        a, b, c = {"add": lambda: (xs[0], one, xs[1]), "sub": lambda: (xs[0], one, -xs[1]), "mul": lambda: (*xs, zero),
                   "fma": lambda: xs}[kind]()  # fmt: skip
        return round_float(add_to_odd(a, b, c), "f32", mode).astype(np.float32)

    return rounded


def _directed(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    return _float_op(_fused(found["mode"], found["kind"]), machine, one, found)


def _divide(a: Array, b: Array) -> Array:
    """Integers: cut off; by zero all bits are set, as hardware has it (PTX leaves it open)."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    quotient = np.abs(a.astype(object)) // np.abs(safe.astype(object)) if a.dtype.itemsize == 8 else None
    if quotient is None:
        wide = np.abs(a.astype(np.int64)) // np.abs(safe.astype(np.int64))
        signed = np.where((a < 0) != (b < 0), -wide, wide)
    else:
        signed = np.where((a < 0) != (b < 0), -quotient, quotient)
        signed = (signed & (1 << 64) - 1).astype(np.uint64)
    return np.where(b == 0, ~np.zeros_like(a), signed.astype(np.uint64).astype(a.dtype) if quotient is not None
                    else signed.astype(a.dtype))  # fmt: skip


def _remainder(a: Array, b: Array) -> Array:
    return a - _divide(a, b) * b


def _multiply_high(a: Array, b: Array) -> Array:
    if a.dtype.itemsize <= 4:
        wide = a.astype(np.int64) * b.astype(np.int64)
        return (wide.view(np.uint64) >> np.uint64(8 * a.dtype.itemsize)).astype(a.dtype) if a.dtype.kind == "u" else (
            wide >> 8 * a.dtype.itemsize).astype(a.dtype)  # fmt: skip
    product = (a.astype(object) * b.astype(object)) >> 64
    return (product & (1 << 64) - 1).astype(np.uint64).view(a.dtype)


def _multiply_wide(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    narrow = numpy_type(found["type"])
    wide = np.dtype(f"{narrow.kind}{2 * narrow.itemsize}")
    rows = [machine.state.row(name, narrow) for name in one.operands[1:3]]
    more = [machine.state.row(name, wide) for name in one.operands[3:]]
    d = machine.state.row(one.operands[0], wide)

    def step(lanes: Lanes) -> None:
        a, b = (x[lanes.at].astype(wide) for x in rows)
        d[lanes.at] = a * b + more[0][lanes.at] if more else a * b

    return step


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


_COMPARE: dict[str, Function] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def compare(name: str, a: Array, b: Array) -> Array:
    """A comparison by its name in PTX; with ``u`` behind it also true of NaNs, without it never, ``ne`` too."""
    is_float = a.dtype.kind == "f"
    if name in ("num", "nan"):
        unordered = np.isnan(a) | np.isnan(b)
        return unordered if name == "nan" else ~unordered
    if is_float and name.endswith("u") and name[:-1] in _COMPARE:
        return np.asarray(_COMPARE[name[:-1]](a, b)) | np.isnan(a) | np.isnan(b)
    found = np.asarray(_COMPARE[name](a, b))
    return found & ~(np.isnan(a) | np.isnan(b)) if is_float and name == "ne" else found


def _set_predicate(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    dtype, pred = numpy_type(found["type"]), np.dtype(bool)
    names = [name.strip() for name in one.operands[0].split("|")]
    p, *q = (machine.state.row(name, pred) if name != "_" else np.zeros(machine.state.total, bool) for name in names)
    a, b = (machine.state.row(name, dtype) for name in one.operands[1:3])
    with_ = [_predicate(machine, name) for name in one.operands[3:]]
    combine = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.get(found["combine"] or "")

    def step(lanes: Lanes) -> None:
        at = lanes.at
        value = compare(found["compare"], a[at], b[at])
        c = with_[0](at) if combine else None
        if q:
            q[0][at] = combine(~value, c) if combine else ~value
        p[at] = combine(value, c) if combine else value

    return step


def _predicate(machine: Machine, name: str) -> Callable[[Any], Array]:
    held = machine.state.row(name.lstrip("!"), np.dtype(bool))
    return (lambda at: ~held[at]) if name.startswith("!") else lambda at: held[at]


def _select(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    d, a, b = (machine.state.row(name, numpy_type(found["type"])) for name in one.operands[:3])
    p = machine.state.row(one.operands[3], np.dtype(bool))

    def step(lanes: Lanes) -> None:
        at = lanes.at
        d[at] = np.where(p[at], a[at], b[at])

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


def permute_bytes(a: Array, b: Array, selector: Array) -> Array:
    """prmt in its plain mode: byte k of the result is that of b:a which nibble k names; its top bit spreads the sign."""
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
    return (b & ~moved) | placed


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


def _min_max(function: Function, a: Array, b: Array) -> Array:
    """Of -0 and +0 the least is -0 (PTX ISA, min)."""
    found = function(a, b)
    if a.dtype.kind == "f":
        zeros = (a == 0) & (b == 0)
        sign = np.signbit(a) | np.signbit(b) if function is np.fmin else np.signbit(a) & np.signbit(b)
        found = np.where(zeros, np.where(sign, a.dtype.type(-0.0), a.dtype.type(0.0)), found)
        found = np.where(np.isnan(found), np.array([0x7FFFFFFF], "u4").view("f4")[0].astype(a.dtype), found)
    return np.asarray(found)


def _flushing(function: Function) -> Function:
    return lambda *xs: flush(np.asarray(function(*(flush(x) for x in xs))))


def _approximate(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """Rounded from doubles: within the error that PTX allows, which hardware uses in another way."""
    function: Function = _APPROXIMATE[found["name"]]
    rounded: Function = lambda *xs: np.asarray(function(*(x.astype(np.float64) for x in xs))).astype(xs[0].dtype)  # noqa: E731
    return _elementwise(_flushing(rounded) if found["ftz"] else rounded, machine, one, found)


def _float_op(function: Function, machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    return _elementwise(_flushing(function) if found["ftz"] else function, machine, one, found)


def _move(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """A value; or several registers as parts of one, the first the lowest."""
    state, dtype = machine.state, numpy_type(found["type"].replace("f", "b"))
    target, source = one.operands
    if not (target.startswith("{") or source.startswith("{")):
        return _elementwise(lambda x: x, machine, one, found)
    parts = list_names(target if target.startswith("{") else source)
    narrow = np.dtype(f"u{dtype.itemsize // len(parts)}")
    rows = [None if name == "_" else state.row(name, narrow) for name in parts]
    whole = state.row(source if target.startswith("{") else target, dtype)
    bits = 8 * narrow.itemsize

    def split(lanes: Lanes) -> None:
        x = whole[lanes.at]
        for k, r in enumerate(rows):
            if r is not None:
                r[lanes.at] = (x >> dtype.type(bits * k)).astype(narrow)

    def join(lanes: Lanes) -> None:
        x = np.zeros(lanes.n, dtype)
        for k, r in enumerate(rows):
            x |= (0 if r is None else r[lanes.at].astype(dtype)) << dtype.type(bits * k)
        whole[lanes.at] = x

    return split if target.startswith("{") else join


_INTEGER = r"(?P<type>[usb](16|32|64))"
_FLOAT = r"(?P<ftz>\.ftz)?\.(?P<type>f32|f64)"
_APPROXIMATE: dict[str, Function] = {
    "ex2": np.exp2, "lg2": np.log2, "rcp": lambda x: 1 / x, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "div": np.divide,
}  # fmt: skip


def _count_bits(x: Array) -> Array:
    return np.unpackbits(np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1), axis=1).sum(1)


def _leading_zeros(x: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1)[:, ::-1], axis=1)
    return np.where(bits.any(1), bits.argmax(1), bits.shape[1])


def _reverse_bits(x: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1)[:, ::-1], axis=1)
    return np.packbits(bits[:, ::-1], axis=1)[:, ::-1].copy().view(x.dtype)[:, 0]


def _counting(function: Function, machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    d, a = (
        machine.state.row(one.operands[0], np.dtype("u4")),
        machine.state.row(one.operands[1], numpy_type(found["type"])),
    )

    def step(lanes: Lanes) -> None:
        d[lanes.at] = function(a[lanes.at])

    return step


_as = partial
ROWS: tuple[Row, ...] = (
    row(r"add\." + _INTEGER, "9.7.1 add", _as(_elementwise, np.add)),
    row(r"sub\." + _INTEGER, "9.7.1 sub", _as(_elementwise, np.subtract)),
    row(r"mul\.lo\." + _INTEGER, "9.7.1 mul", _as(_elementwise, np.multiply)),
    row(r"mul\.hi\." + _INTEGER, "9.7.1 mul", _as(_elementwise, _multiply_high)),
    row(r"(mul|mad)\.wide\.(?P<type>[us](16|32))", "9.7.1 mul", _multiply_wide),
    row(r"mad\.lo\." + _INTEGER, "9.7.1 mad", _as(_elementwise, lambda a, b, c: a * b + c)),
    row(r"mad\.hi\." + _INTEGER, "9.7.1 mad", _as(_elementwise, lambda a, b, c: _multiply_high(a, b) + c)),
    row(r"div\." + _INTEGER, "9.7.1 div", _as(_elementwise, _divide)),
    row(r"rem\." + _INTEGER, "9.7.1 rem", _as(_elementwise, _remainder)),
    row(r"abs\.(?P<type>s(16|32|64))", "9.7.1 abs", _as(_elementwise, np.abs)),
    row(r"neg\.(?P<type>s(16|32|64))", "9.7.1 neg", _as(_elementwise, np.negative)),
    row(r"min\." + _INTEGER, "9.7.1 min", _as(_elementwise, np.minimum)),
    row(r"max\." + _INTEGER, "9.7.1 max", _as(_elementwise, np.maximum)),
    row(r"popc\.(?P<type>b(32|64))", "9.7.1 popc", _as(_counting, _count_bits)),
    row(r"clz\.(?P<type>b(32|64))", "9.7.1 clz", _as(_counting, _leading_zeros)),
    row(r"brev\.(?P<type>b(32|64))", "9.7.1 brev", _as(_elementwise, _reverse_bits)),
    row(r"bfi\.(?P<type>b(32|64))", "9.7.1 bfi", _bit_field),
    row(r"bfe\.(?P<type>[us](32|64))", "9.7.1 bfe", _bit_field),
    row(r"add(\.rn)?" + _FLOAT, "9.7.3 add", _as(_float_op, np.add)),
    row(r"sub(\.rn)?" + _FLOAT, "9.7.3 sub", _as(_float_op, np.subtract)),
    row(r"mul(\.rn)?" + _FLOAT, "9.7.3 mul", _as(_float_op, np.multiply)),
    row(r"fma\.rn" + _FLOAT, "9.7.3 fma", _as(_float_op, _fma)),
    row(r"(?P<kind>add|sub|mul|fma)\.(?P<mode>rz|rm|rp)(?P<ftz>\.ftz)?\.(?P<type>f32)", "9.7.3 add, sub, mul, fma", _directed),
    row(r"div\.rn" + _FLOAT, "9.7.3 div", _as(_float_op, np.divide)),
    row(r"rcp\.rn" + _FLOAT, "9.7.3 rcp", _as(_float_op, lambda x: x.dtype.type(1) / x)),
    row(r"sqrt\.rn" + _FLOAT, "9.7.3 sqrt", _as(_float_op, np.sqrt)),
    row(r"(?P<name>ex2|lg2|rcp|sqrt|rsqrt|sin|cos|tanh)\.approx(?P<ftz>\.ftz)?\.(?P<type>f32|f64)", "9.7.3 ex2, lg2, rcp, sqrt, rsqrt, sin, cos, tanh",
        _approximate),
    row(r"(?P<name>div)\.(approx|full)(?P<ftz>\.ftz)?\.(?P<type>f32)", "9.7.3 div", _approximate),
    row(r"abs" + _FLOAT, "9.7.3 abs", _as(_float_op, np.abs)),
    row(r"neg" + _FLOAT, "9.7.3 neg", _as(_float_op, np.negative)),
    row(r"copysign\.(?P<type>f32|f64)", "9.7.3 copysign", _as(_elementwise, lambda a, b: np.copysign(b, a))),
    row(r"min" + _FLOAT, "9.7.3 min", _as(_float_op, partial(_min_max, np.fmin))),
    row(r"max" + _FLOAT, "9.7.3 max", _as(_float_op, partial(_min_max, np.fmax))),
    row(r"setp\.(?P<compare>\w+)(\.(?P<combine>and|or|xor))?(\.ftz)?\.(?P<type>[busf](16|32|64))", "9.7.6 setp", _set_predicate),
    row(r"selp\.(?P<type>[busf](16|32|64))", "9.7.6 selp", _select),
    row(r"and\.(?P<type>b(16|32|64)|pred)", "9.7.8 and", _as(_elementwise, np.bitwise_and)),
    row(r"or\.(?P<type>b(16|32|64)|pred)", "9.7.8 or", _as(_elementwise, np.bitwise_or)),
    row(r"xor\.(?P<type>b(16|32|64)|pred)", "9.7.8 xor", _as(_elementwise, np.bitwise_xor)),
    row(r"not\.(?P<type>b(16|32|64)|pred)", "9.7.8 not", _as(_elementwise, np.invert)),
    row(r"lop3\.b32", "9.7.8 lop3", _logic3),
    row(r"shl\.(?P<type>b(16|32|64))", "9.7.8 shl", _as(_shift, True)),
    row(r"shr\.(?P<type>[bus](16|32|64))", "9.7.8 shr", _as(_shift, False)),
    row(r"prmt\.(?P<type>b32)", "9.7.9 prmt", _as(_elementwise, permute_bytes)),
    row(r"mov\.(?P<type>[busf](16|32|64)|pred)", "9.7.9 mov", _move),
)  # fmt: skip
