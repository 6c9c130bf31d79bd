"""cvt: numbers from one type to another, rounded as the opcode says."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np

from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.rows import Row, Step, row
from tilegen.ptx.state import Lanes, numpy_type
from tilegen.ptx.text import Instruction, PtxError

# Of each format: bits of the significand with the leading 1, exponent of the least normal number, largest number.
FORMATS: dict[str, tuple[int, int, float]] = {
    "f64": (53, -1022, float(np.finfo("f8").max)), "f32": (24, -126, float(np.finfo("f4").max)),
    "tf32": (11, -126, (2 - 2.0**-10) * 2.0**127), "bf16": (8, -126, (2 - 2.0**-7) * 2.0**127),
    "f16": (11, -14, 65504.0), "e4m3": (4, -6, 448.0), "e5m2": (3, -14, 57344.0),
}  # fmt: skip
_HELD: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "tf32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
_NANS = {
    "f64": 0x7FF8000000000000,
    "f32": 0x7FFFFFFF,
    "tf32": 0x7FFFFFFF,
    "bf16": 0x7FFF,
    "f16": 0x7FFF,
    "e4m3": 0x7F,
    "e5m2": 0x7F,
}


_ROUND: dict[str, Any] = {
    "rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil, "rna": lambda v: np.trunc(v + np.copysign(0.5, v)),
}  # fmt: skip


def round_float(x: Array, name: str, mode: str = "rn", saturates: bool = False) -> Array:
    """Doubles rounded once to a format: to nearest even (rn), ties away (rna), to zero, down, up (rz, rm, rp).

    >>> round_float(np.array([1.125, 1.375, 500.0]), "e5m2").tolist()
    [1.0, 1.5, 512.0]
    """
    precision, least, most = FORMATS[name]
    _, exponent = np.frexp(x)
    ulp = np.maximum(exponent - precision, least - (precision - 1))
    scaled = np.ldexp(x, -ulp)
    whole = _ROUND[mode](scaled)
    found = np.where(np.isfinite(x), np.copysign(np.ldexp(whole, ulp), x), x)
    is_past = np.abs(found) > most
    if is_past.any():
        stays = (mode == "rz") | (mode == "rm") & (x > 0) | (mode == "rp") & (x < 0)
        limit = np.where(np.isfinite(x) & stays | saturates, most, np.inf)
        found = np.where(is_past, np.copysign(limit, x), found)
    return np.asarray(found)


def encode(x: Array, name: str) -> Array:
    """The bits of numbers that a format holds; a NaN is the one that cvt makes."""
    held = np.asarray(x, np.float64).astype(_HELD[name])
    bits = held.view(f"u{held.dtype.itemsize}")
    return np.where(np.isnan(x), bits.dtype.type(_NANS[name]), bits)


def decode(bits: Array, name: str) -> Array:
    """Doubles of the bits of a format."""
    kind = np.dtype(_HELD[name])
    found: Array = np.ascontiguousarray(bits).astype(f"u{kind.itemsize}").view(kind).astype(np.float64)
    return found


_INTEGERS = re.compile(r"[us](8|16|32|64)")


def convert(x: Array, source: str, target: str, mode: str, saturates: bool) -> Array:
    """Values of one type as the bits of another, unsigned, each of the target's own width."""
    whole_source, whole_target = bool(_INTEGERS.fullmatch(source)), bool(_INTEGERS.fullmatch(target))
    if whole_source:
        values = x.astype(f"u{numpy_type(source).itemsize}").view(numpy_type(source))
        if whole_target:
            return _fit(values, target) if saturates else _cut(values, target)
        if target in ("f32", "f64") and mode == "rn":
            held = values.astype(_HELD[target])
            return held.view(f"u{held.dtype.itemsize}")
        return encode(round_float(values.astype(np.float64), target, mode), target)
    values = decode(x, source)
    if whole_target:
        return _to_integer(values, source, target, mode)
    if mode.endswith("i"):
        whole = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](values)
        return encode(whole, target)
    rounded = round_float(values, target, mode or "rn", saturates="finite" in mode)
    if saturates:
        rounded = np.where(np.isnan(rounded), 0.0, np.clip(rounded, 0.0, 1.0))
    return encode(rounded, target)


def _cut(values: Array, target: str) -> Array:
    return values.astype(np.int64 if values.dtype.kind == "i" else np.uint64).astype(f"u{numpy_type(target).itemsize}")


def _fit(values: Array, target: str) -> Array:
    ends = np.iinfo(numpy_type(target))
    return np.array([min(max(int(v), ends.min), ends.max) & (1 << ends.bits) - 1 for v in values], f"u{ends.bits // 8}")


def _to_integer(values: Array, source: str, target: str, mode: str) -> Array:
    """Beyond the type its end; a NaN is 0 where float32 goes to at most 32 bits, else the top bit."""
    ends = np.iinfo(numpy_type(target))
    whole = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](values)
    # 2^63 and 2^64 are doubles, the ends below them are not.
    low, high = whole <= float(ends.min), whole >= float(ends.max)
    inside = np.where(low | high | np.isnan(whole), 0.0, whole)
    kind = np.int64 if ends.min < 0 else np.uint64
    found = np.where(low, kind(ends.min), np.where(high, kind(ends.max), inside.astype(kind)))
    none = 0 if source == "f32" and ends.bits <= 32 else 1 << (ends.bits - 1)
    bits = found.astype(np.uint64 if kind is np.uint64 else np.int64).astype(f"u{ends.bits // 8}")
    return np.where(np.isnan(values), bits.dtype.type(none), bits)


def _convert(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    state, source, target, mode = machine.state, found["source"], found["target"], (found["mode"] or "").lstrip(".")
    if found["relu"] or (found["ftz"] and source != "f32"):
        raise PtxError(f"{one.op} is not carried out")
    saturates, finite = bool(found["sat"]), bool(found["satfinite"])
    pairs = target.endswith("x2"), source.endswith("x2")
    target_one, source_one = target.removesuffix("x2"), source.removesuffix("x2")
    d = state.wide_row(one.operands[0], "i" if target_one.startswith("s") else "u")
    sources = [state.wide_row(name, "u") if name in state.rows or name in state.specials else
               state.row(name, numpy_type(source_one)).view(f"u{numpy_type(source_one).itemsize}")
               for name in one.operands[1:]]  # fmt: skip

    def once(x: Array) -> Array:
        if finite:
            return encode(round_float(decode(x, source_one), target_one, mode, saturates=True), target_one)
        return convert(x, source_one, target_one, mode, saturates)

    def step(lanes: Lanes) -> None:
        at = lanes.at
        if pairs[0]:
            parts = [sources[1][at], sources[0][at]] if len(sources) == 2 else _halves(sources[0][at], source_one)
            low, high = (once(x) for x in parts)
            bits = 8 * low.dtype.itemsize
            d[at] = low.astype(d.dtype) | (high.astype(d.dtype) << d.dtype.type(bits))
            return
        value = once(sources[0][at])
        d[at] = value.view(f"i{value.dtype.itemsize}") if d.dtype.kind == "i" else value

    return step


def _halves(x: Array, name: str) -> list[Array]:
    bits = 8 * np.dtype(_HELD[name]).itemsize
    return [x & x.dtype.type((1 << bits) - 1), x >> x.dtype.type(bits)]


_TYPE = r"(?:[us](?:8|16|32|64)|f16x2|bf16x2|e4m3x2|e5m2x2|f16|bf16|tf32|f32|f64)"
ROWS: tuple[Row, ...] = (
    row(rf"cvt(?P<mode>\.r(?:n|z|m|p|na)i?)?(?P<ftz>\.ftz)?(?P<sat>\.sat)?(?P<satfinite>\.satfinite)?(?P<relu>\.relu)?"
        rf"\.(?P<target>{_TYPE})\.(?P<source>{_TYPE})", "9.7.9 cvt", _convert),
)  # fmt: skip
