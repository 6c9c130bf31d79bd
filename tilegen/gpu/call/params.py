"""The runtime parameters of a call, from what was given by keyword and from what the arrays measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index as as_integer
from typing import Any

from tilegen.errors import Diagnostic
from tilegen.index import Formula, Index, Var, evaluate, variables
from tilegen.plan import Param


@dataclass(frozen=True)
class Measure:
    """``expression`` must be ``value``: something that an array measures, and what it is in words.

    A weak one says a value that does not matter, such as the stride of an extent of 1: it decides where nothing else
    does, and is not required.
    """

    expression: Index
    value: int
    words: str  # "X has the extent", "Y has the stride"
    is_weak: bool = False


MOST_BITS = (1 << 32) - 1  # of a uint32


def read_bits(value: Any) -> int:
    """A value of a uint32 parameter. Raises TypeError for what is no integer, OverflowError beyond the type.

    >>> read_bits(0xFFFFFFFF)
    4294967295
    """
    bits = as_integer(value)
    if not 0 <= bits <= MOST_BITS:
        raise OverflowError(f"{bits} is no uint32")
    return bits


def read_scalar(dtype: str) -> Callable[[Any], float]:
    """What reads a value of a parameter that is no size."""
    return read_bits if dtype == "uint32" else float


def solve_params(
    params: Sequence[Param], given: Mapping[str, Any], measures: Sequence[Measure], kernel: str
) -> tuple[dict[str, int | float], list[Diagnostic]]:
    """Every parameter's value, and what is wrong with them (TG704: measures that disagree; TG709: no value, or none
    that the kernel takes).
    """
    values: dict[str, Any] = {}
    found: list[Diagnostic] = []
    for p in params:
        if p.name in given:
            values[p.name], wrong = _read_given(p, given[p.name], kernel)
            found += wrong
    if found:
        return values, found
    origins = {name: f"{name} = {value} was given" for name, value in values.items()}
    _infer(measures, values, origins)
    for p in params:
        if p.name not in values and p.var is None:
            values[p.name] = p.default
        elif p.name not in values:
            found.append(_missing(p, measures, kernel))
    if not found:
        found = [*_disagreements(measures, values, origins, kernel), *_outside(params, values, kernel)]
    return values, found


def _read_given(param: Param, value: Any, kernel: str) -> tuple[Any, list[Diagnostic]]:
    wanted = (
        "an integer" if param.var else f"an integer from 0 to {MOST_BITS}" if param.dtype == "uint32" else "a number"
    )
    try:
        number = as_integer(value) if param.var else read_scalar(param.dtype)(value)
        if not param.var or -(2**63) <= number < 2**63:
            return number, []
        return 0, [Diagnostic("TG709", f"{kernel}: {param.name} is {wanted} of 64 bits, not one that large")]
    except OverflowError:
        return 0, [Diagnostic("TG709", f"{kernel}: {param.name} is {wanted}, not {value}")]
    except TypeError:
        return 0, [Diagnostic("TG709", f"{kernel}: {param.name} is {wanted}, not {type(value).__name__}")]


def _infer(measures: Sequence[Measure], values: dict[str, Any], origins: dict[str, str]) -> None:
    """Solve measures with one unknown until none is left; the weak ones once the others can say no more."""
    for weak in (False, True):
        progress = True
        while progress:
            progress = False
            for m in measures:
                unknown = [v for v in variables(m.expression) if v.name not in values]
                if m.is_weak > weak or len(unknown) != 1:
                    continue
                solved = invert(m.expression, unknown[0], m.value, values)
                if solved is not None:
                    values[unknown[0].name] = solved
                    origins[unknown[0].name] = f"{unknown[0].name} = {solved}, since {m.words} {m.value}"
                    progress = True


_RISING = ("+", "*", "/")


def invert(expression: Index, unknown: Var, value: int, values: Mapping[str, int]) -> int | None:
    """The one value of a variable for which the expression is ``value``; None where there is none, or more than one.

    >>> invert(Var("M", 1000) * 2 + 1, Var("M", 1000), 9, {}), invert(Var("M", 1000) // 4, Var("M", 1000), 9, {})
    (4, None)
    """
    if isinstance(expression, Var):
        return value  # whether it may have it is asked of every value alike
    if not _is_rising(expression):
        return None
    low, high = -(-unknown.least // unknown.step), (unknown.bound - 1) // unknown.step

    def at(k: int) -> int:
        return int(evaluate(expression, {**values, unknown.name: k * unknown.step}))

    first, last = low, high
    while first < last:  # the least k that reaches the value
        middle = (first + last) // 2
        first, last = (first, middle) if at(middle) >= value else (middle + 1, last)
    if first > high or at(first) != value or (first < high and at(first + 1) == value):
        return None
    return first * unknown.step


def _is_rising(x: Index) -> bool:
    """No operator in it falls when a variable grows (a divisor that varies would)."""
    if not isinstance(x, Formula):
        return True
    varies = x.symbol == "/" and not isinstance(x.args[1], int)
    return x.symbol in _RISING and not varies and all(map(_is_rising, x.args))


def _missing(param: Param, measures: Sequence[Measure], kernel: str) -> Diagnostic:
    names = [m.words.split()[0] for m in measures if param.name in {v.name for v in variables(m.expression)}]
    why = f"the shape of {names[0]} has no one value for it" if names else "no array's shape says it"
    return Diagnostic("TG709", f"{kernel}: {param.name} has no value: {why}", hint=f"pass {param.name}=...")


def _disagreements(
    measures: Iterable[Measure], values: Mapping[str, Any], origins: Mapping[str, str], kernel: str
) -> list[Diagnostic]:
    found = []
    for m in measures:
        wanted = int(evaluate(m.expression, values))
        if wanted != m.value and not m.is_weak:
            known = sorted(v.name for v in variables(m.expression))
            why = "; ".join(origins[name] for name in known)
            must = f"{m.expression} = {wanted}" if known else str(wanted)
            tail = f" ({why})" if why else ""
            found.append(Diagnostic("TG704", f"{kernel}: {m.words} {m.value}, but it must be {must}{tail}"))
    return found


def _outside(params: Iterable[Param], values: Mapping[str, Any], kernel: str) -> list[Diagnostic]:
    found = []
    for p in params:
        if p.var is None:
            continue
        value, step = values[p.name], p.var.step
        if not p.var.least <= value < p.var.bound:
            message = f"{kernel}: {p.name} must be from {p.var.least} to {p.var.bound - 1}, not {value}"
            found.append(Diagnostic("TG709", message, hint="the spec's 'max' allows more" if value > 0 else ""))
        elif value % step:
            message = f"{kernel}: {p.name} must be a multiple of {step}, not {value}"
            found.append(Diagnostic("TG709", message, hint="a spec without 'multiple_of' takes every size"))
    return found
