"""Sizes that a proof takes beside the usual: the largest that there are, and those that show each outcome of what is
asked of parameters alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilegen.index import Var, evaluate
from tilegen.spec.data import Spec
from tilegen.spec.outline import is_possible

_MOST_ELEMENTS = 1 << 45  # of an array that is counted; no GPU holds more


def largest_cases(spec: Spec, default: Mapping[str, int], with_counts: bool = False) -> list[dict[str, int]]:
    """Each parameter alone as large as it may be, as an array can be, then all of them.

    ``with_counts``: counts of CTAs that the launch knows are among them.
    """
    own = {p.name: p.var for p in spec.params if p.var is not None and (with_counts or p.launched is None)}
    cases = [_grow(spec, default, {name: var}) for name, var in own.items()]
    cases.append(_grow(spec, default, own))
    return [case for k, case in enumerate(cases) if case != default and case not in cases[:k]]


def _grow(spec: Spec, default: Mapping[str, int], grown: Mapping[str, Var]) -> dict[str, int]:
    """The largest values of some parameters, halved together until they can be launched; at least the defaults."""
    values = {name: (var.bound - 1) // var.step * var.step for name, var in grown.items()}
    while values and not is_sized(spec, {**default, **values}):
        halves = {name: value // 2 // grown[name].step * grown[name].step for name, value in values.items()}
        values = {name: value for name, value in halves.items() if value > default[name]}
    return {**default, **values}


def is_sized(spec: Spec, case: Mapping[str, int]) -> bool:
    """Can it be launched, on arrays that NumPy can count?"""
    sizes = (prod(int(evaluate(n, case)) for n in b.shape) for b in spec.buffers if b.scope == "global")
    return is_possible(spec, case) and all(size <= _MOST_ELEMENTS for size in sizes)


def say_case(case: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in case.items())
