"""Integers, floats, comparisons, logic: one value a lane."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tilegen.ptx.clocks import CLOCKS, read_clock
from tilegen.ptx.conversions import round_float
from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.rows import Row, Step, row
from tilegen.ptx.state import Lanes, numpy_type
from tilegen.ptx.text import Instruction, list_names

Function = Callable[..., Any]


def elementwise(function: Function, machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
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


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """A sum of doubles, and exactly what rounding took from it (Knuth)."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def sum_to_odd(x: Array, y: Array) -> Array:
    """A sum of doubles rounded to odd: it rounds on to fewer bits as the exact sum does."""
    total, lost = two_sum(x, y)
    bits = total.view(np.int64)
    inexact = (lost != 0) & np.isfinite(total) & (bits & 1 == 0)
    away = (lost > 0) == (total > 0)  # the neighbour on the side of what was lost
    odd: Array = np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)
    return odd


def fuse_double(a: Array, b: Array, c: Array) -> Array:
    """a b + c of doubles rounded once (Boldo and Melquiond), where nothing overflows on the way."""
    high, low = _multiply_exactly(a, b)
    t, t_low = two_sum(c, low)
    v, v_low = two_sum(high, t)
    found = v + sum_to_odd(t_low, v_low)
    return np.where(np.isfinite(found), found, a * b + c)


def _multiply_exactly(a: Array, b: Array) -> tuple[Array, Array]:
    def split(x: Array) -> tuple[Array, Array]:
        big = x * 134217729.0  # 2^27 + 1 (Veltkamp)
        high = big - (big - x)
        return high, x - high

    product = a * b
    (ah, al), (bh, bl) = split(a), split(b)
    return product, al * bl - (((product - ah * bh) - al * bh) - ah * bl)


def add_to_odd(a: Array, b: Array, c: Array) -> Array:
    """a b + c of float32, as doubles rounded to odd."""
    return sum_to_odd(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))


def _fma(a: Array, b: Array, c: Array) -> Array:
    return add_to_odd(a, b, c).astype(np.float32) if a.dtype == np.float32 else fuse_double(a, b, c)


def _fused(mode: str, kind: str) -> Function:
    """add, sub, mul, fma of float32 rounded to zero, down or up."""

    def rounded(*xs: Array) -> Array:
        one, zero = np.ones_like(xs[0]), np.full_like(xs[0], -0.0)
        ways: dict[str, Sequence[Array]] = {"fma": xs}
        ways |= {"add": (xs[0], one, xs[1]), "sub": (xs[0], one, -xs[1]), "mul": (*xs[:2], zero)}
        a, b, c = ways[kind]
        return round_float(add_to_odd(a, b, c), "f32", mode).astype(np.float32)

    return rounded


def _directed(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    return _float_op(_fused(found["mode"], found["kind"]), machine, one, found)


def _divide(a: Array, b: Array) -> Array:
    """Integers: cut off; by zero all bits are set, as hardware has it (PTX leaves it open)."""
    kind = object if a.dtype.itemsize == 8 else np.int64
    x, y = a.astype(kind), np.where(b == 0, b.dtype.type(1), b).astype(kind)
    quotient = np.abs(x) // np.abs(y)
    signed = np.where((a < 0) != (b < 0), -quotient, quotient) & ((1 << 8 * a.dtype.itemsize) - 1)
    found: Array = np.where(b == 0, ~np.zeros_like(a), signed.astype(f"u{a.dtype.itemsize}").view(a.dtype))
    return found


def _remainder(a: Array, b: Array) -> Array:
    return np.asarray(a - _divide(a, b) * b)


def _multiply_high(a: Array, b: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    kind = object if bits == 64 else np.int64 if a.dtype.kind == "i" else np.uint64
    high = (a.astype(kind) * b.astype(kind)) >> (bits if kind is not np.uint64 else np.uint64(bits))
    if kind is object:
        high = high & (1 << 64) - 1
        return np.asarray(high.astype(np.uint64).view(a.dtype))
    return np.asarray(high.astype(a.dtype))


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
    """p|q: the comparison and its contrary, each joined with a third predicate where one is named."""
    dtype, names = numpy_type(found["type"]), [name.strip() for name in one.operands[0].split("|")]
    targets = [machine.state.row(name, np.dtype(bool)) if name != "_" else None for name in names]
    a, b = (machine.state.row(name, dtype) for name in one.operands[1:3])
    third = [_predicate(machine, name) for name in one.operands[3:]]
    combine: Function = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.get(
        found["combine"] or "", lambda x: x
    )

    def step(lanes: Lanes) -> None:
        at = lanes.at
        value, more = compare(found["compare"], a[at], b[at]), [held(at) for held in third]
        for target, result in zip(targets, (value, ~value), strict=False):
            if target is not None:
                target[at] = combine(result, *more)

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
    return elementwise(_flushing(rounded) if found["ftz"] else rounded, machine, one, found)


def _float_op(function: Function, machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    return elementwise(_flushing(function) if found["ftz"] else function, machine, one, found)


def _move(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """A value; or several registers as parts of one, the first the lowest."""
    state, dtype = machine.state, numpy_type(found["type"].replace("f", "b"))
    target, source = one.operands
    if source in CLOCKS:
        return read_clock(machine, state.row(target, dtype))
    if not (target.startswith("{") or source.startswith("{")):
        return elementwise(lambda x: x, machine, one, found)
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


_as = partial
ROWS: tuple[Row, ...] = (
    row(r"add\." + _INTEGER, "9.7.1 add", _as(elementwise, np.add)),
    row(r"sub\." + _INTEGER, "9.7.1 sub", _as(elementwise, np.subtract)),
    row(r"mul\.lo\." + _INTEGER, "9.7.1 mul", _as(elementwise, np.multiply)),
    row(r"mul\.hi\." + _INTEGER, "9.7.1 mul", _as(elementwise, _multiply_high)),
    row(r"(mul|mad)\.wide\.(?P<type>[us](16|32))", "9.7.1 mul", _multiply_wide),
    row(r"mad\.lo\." + _INTEGER, "9.7.1 mad", _as(elementwise, lambda a, b, c: a * b + c)),
    row(r"mad\.hi\." + _INTEGER, "9.7.1 mad", _as(elementwise, lambda a, b, c: _multiply_high(a, b) + c)),
    row(r"div\." + _INTEGER, "9.7.1 div", _as(elementwise, _divide)),
    row(r"rem\." + _INTEGER, "9.7.1 rem", _as(elementwise, _remainder)),
    row(r"abs\.(?P<type>s(16|32|64))", "9.7.1 abs", _as(elementwise, np.abs)),
    row(r"neg\.(?P<type>s(16|32|64))", "9.7.1 neg", _as(elementwise, np.negative)),
    row(r"min\." + _INTEGER, "9.7.1 min", _as(elementwise, np.minimum)),
    row(r"max\." + _INTEGER, "9.7.1 max", _as(elementwise, np.maximum)),
    row(r"add(\.rn)?" + _FLOAT, "9.7.3 add", _as(_float_op, np.add)),
    row(r"sub(\.rn)?" + _FLOAT, "9.7.3 sub", _as(_float_op, np.subtract)),
    row(r"mul(\.rn)?" + _FLOAT, "9.7.3 mul", _as(_float_op, np.multiply)),
    row(r"fma\.rn" + _FLOAT, "9.7.3 fma", _as(_float_op, _fma)),
    row(r"(?P<kind>add|sub|mul|fma)\.(?P<mode>rz|rm|rp)(?P<ftz>\.ftz)?\.(?P<type>f32)", "9.7.3 add, fma", _directed),
    row(r"div\.rn" + _FLOAT, "9.7.3 div", _as(_float_op, np.divide)),
    row(r"rcp\.rn" + _FLOAT, "9.7.3 rcp", _as(_float_op, lambda x: x.dtype.type(1) / x)),
    row(r"sqrt\.rn" + _FLOAT, "9.7.3 sqrt", _as(_float_op, np.sqrt)),
    row(r"(?P<name>ex2|lg2|rcp|sqrt|rsqrt|sin|cos|tanh)\.approx(?P<ftz>\.ftz)?\.(?P<type>f32|f64)", "9.7.3 ex2, rcp",
        _approximate),
    row(r"(?P<name>div)\.(approx|full)(?P<ftz>\.ftz)?\.(?P<type>f32)", "9.7.3 div", _approximate),
    row(r"abs" + _FLOAT, "9.7.3 abs", _as(_float_op, np.abs)),
    row(r"neg" + _FLOAT, "9.7.3 neg", _as(_float_op, np.negative)),
    row(r"copysign\.(?P<type>f32|f64)", "9.7.3 copysign", _as(elementwise, lambda a, b: np.copysign(b, a))),
    row(r"min" + _FLOAT, "9.7.3 min", _as(_float_op, partial(_min_max, np.fmin))),
    row(r"max" + _FLOAT, "9.7.3 max", _as(_float_op, partial(_min_max, np.fmax))),
    row(r"setp\.(?P<compare>\w+)(\.(?P<combine>and|or|xor))?(\.ftz)?\.(?P<type>[busf](16|32|64))", "9.7.6 setp",
        _set_predicate),
    row(r"selp\.(?P<type>[busf](16|32|64))", "9.7.6 selp", _select),
    row(r"mov\.(?P<type>[busf](16|32|64)|pred)", "9.7.9 mov", _move),
)  # fmt: skip
