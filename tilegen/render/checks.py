"""Kernels that check what a caller promises: one for each array, beside the kernels that rest on it.

They find the least element, row by row, that breaks its promise: the same whatever order threads run in. A range, a
step and offsets are looked at where an element lies. That no value stands twice takes a table of as many numbers as
there are elements, twice over: two accesses of it an element, and 16 to 32 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilegen.dtypes import DTYPES, DType
from tilegen.index import Index, Var, least, sub, substitute, to_c
from tilegen.plan import CHECKING_THREADS, Promise, PromiseCheck
from tilegen.render.c_text import comment_lines, fold_line, int_type
from tilegen.render.names import fresh
from tilegen.render.page import templates

_OWN = ("first", "slots", "mask", "turn", "count", "stride", "value", "kept", "slot", "other", "at")
_LIMIT = 1 << 63


def render_checks(checks: Sequence[PromiseCheck], linkage: str = 'extern "C"') -> str:
    """The kernels that check, as one header-free CUDA text; "" where nothing is promised."""
    if not checks:
        return ""
    described = [_describe(one) for one in checks]
    decodes = any(_is_narrow(DTYPES[one.promise.dtype]) for one in checks)
    text = templates().get_template("checks.cu.j2").render(
        checks=described, linkage=linkage, threads=CHECKING_THREADS, helpers=[_DECODE] if decodes else []
    )  # fmt: skip
    return "\n".join(folded for line in text.strip().splitlines() for folded in fold_line(line)) + "\n"


_DECODE = """#ifndef TILEGEN_DECODE_FLOAT
#define TILEGEN_DECODE_FLOAT
// A float of few bits, exactly.
static __device__ __forceinline__ double decode_float(unsigned bits, int width, int mantissa, bool has_infinities)
{
    const int most = (1 << (width - 1 - mantissa)) - 1, bias = most >> 1;
    const int exponent = (int)(bits >> mantissa) & most, rest = (int)bits & ((1 << mantissa) - 1);
    if (exponent == most && (has_infinities || rest == (1 << mantissa) - 1)) {
        return nan("");  // infinite, or no number: in no range
    }
    const double whole = exponent ? rest + (1 << mantissa) : rest;
    const double size = ldexp(whole, (exponent ? exponent : 1) - bias - mantissa);
    return bits >> (width - 1) ? -size : size;
}
#endif"""
_FORMATS = {"float16": (16, 10, True), "bfloat16": (16, 7, True), "float8_e4m3fn": (8, 3, False),
            "float8_e5m2": (8, 2, True)}  # fmt: skip


def _is_narrow(dtype: DType) -> bool:
    return dtype.name in _FORMATS


def _describe(check: PromiseCheck) -> dict[str, Any]:
    """What the template takes of one check."""
    promise, dtype = check.promise, DTYPES[check.promise.dtype]
    taken = {promise.array, check.promise.elem.name, *(p.name for p in check.params)}
    own = {name: fresh(name, taken) for name in _OWN} | {"elem": check.promise.elem.name}
    storage = dtype.storage
    words = [f"unsigned long long *{own['first']}", f"unsigned long long *{own['slots']}",
             f"unsigned long long {own['mask']}", f"int {own['turn']}"]  # fmt: skip
    given = [f"{int_type(p.var)} {p.name}" for p in check.params if p.var is not None]
    value, elem = own["value"], check.promise.elem.name
    low = promise.values.low
    negative = isinstance(low, float) or least(low) < 0
    notes = [f"{promise.array} holds {promise.says}?"]
    notes += [f"*{own['first']} becomes the least number of an element that breaks it, row by row."]
    if check.is_distinct:
        table = f"{own['slots']}: a table of {own['mask']} + 1 numbers of elements, by their values."
        turns = f"{own['turn']}: 0 enters all, 1 looks at all, 2 puts behind *{own['first']} the first of that value."
        notes += [table, turns]
    return {
        "notes": [line for note in notes for line in comment_lines(note)],
        "name": check.name, "own": own, "is_distinct": check.is_distinct,
        "declared": [f"const {storage} *__restrict__ {promise.array}", *words, *given],
        "count": count_elements(promise), "c": _wide_type(dtype),
        "element": _element(check, elem), "other": _element(check, own["other"]),
        "holds": " && ".join(_conditions(check, value, elem)), "may_repeat": f" && {value} >= 0" if negative else "",
    }  # fmt: skip


def count_elements(promise: Promise) -> str:
    """The number of an array's elements, in C."""
    return " * ".join(["1ull", *(f"({to_c(n)})" for n in promise.shape)])


def _wide_type(dtype: DType) -> str:
    if dtype.kind == "float":
        return "double"
    return "unsigned long long" if dtype.kind == "uint" and dtype.bits == 64 else "long long"


def _element(check: PromiseCheck, number: str) -> str:
    """An element by its number, as wide as it is compared."""
    dtype = DTYPES[check.promise.dtype]
    place = to_c(substitute(check.promise.place, {check.promise.elem.name: Var(number, check.promise.elem.bound)}))
    text = f"{check.promise.array}[{place}]"
    if _is_narrow(dtype):
        width, mantissa, infinite = _FORMATS[dtype.name]
        return f"decode_float({text}, {width}, {mantissa}, {'true' if infinite else 'false'})"
    return f"({_wide_type(dtype)}){text}"


def _conditions(check: PromiseCheck, value: str, elem: str) -> list[str]:
    """What holds of an element that keeps its promise."""
    v, dtype = check.promise.values, DTYPES[check.promise.dtype]
    if dtype.kind == "float":
        return [f"{value} >= {_double(v.low)}", f"{value} < {_double(v.high)}"]
    c, (low, high) = _wide_type(dtype), v.places
    is_least = c.startswith("unsigned") and isinstance(low, int) and low == 0
    found = [] if is_least else [f"{value} >= {_integer(low, c)}"]
    found.append(f"{value} <= {_integer(sub(high, 1), c)}")
    if v.step > 1:
        found.append(f"((unsigned long long){value} - (unsigned long long){_integer(low, c)}) % {v.step} == 0")
    if v.pieces is not None:
        before = _element(check, f"{elem}_before")
        before = before.replace(f"{elem}_before", f"({elem} - 1)")
        found += [f"({elem} != 0 || {value} == 0)", f"({elem} == 0 || {value} >= {before})"]
        found.append(f"({elem} != (unsigned long long)({to_c(v.pieces)}) || {value} == {_integer(sub(high, 1), c)})")
    return found


def _integer(x: Index, c: str) -> str:
    """A number as wide as an element is compared: C reads no least integer, and reads what is beyond as unsigned."""
    if isinstance(x, int):
        if x == -_LIMIT:
            return f"(-{_LIMIT - 1}ll - 1)"
        return f"{x}ull" if x >= _LIMIT or c.startswith("unsigned") else f"{x}ll"
    return f"({c})({to_c(x)})"


def _double(x: Any) -> str:
    return repr(float(x))
