"""A user's float64 function, and whether a kernel computes it: what `tilegen verify --against` compares.

The reference of a spec of tile ops is the spec itself, so nothing else says that it is a softmax. The function takes
whole input arrays by name, as float64, and params by name; it returns the outputs by name, or the only one. A kernel's
value must lie as near the function's as the spec's own bound says that a right kernel lies to the mathematics: every
rounding, of literals too, and sums in any order (``Bounded``, not tight). What float64 rounds on both sides is added:
2^-40 of the value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilegen.arithmetic.bounds import Bound, find_beyond
from tilegen.errors import Diagnostic, InputError, ProofError
from tilegen.index import evaluate
from tilegen.plan import arguments
from tilegen.proofs.differing import describe_difference, places_of
from tilegen.proofs.floats import Closeness, compare_floats
from tilegen.reference import Array, Input
from tilegen.spec.data import Buffer, Spec
from tilegen.spec.outline import written_roots
from tilegen.spec.program import Program

CANNOT_USE, DIFFERS = "TG604", "TG428"
_MOST_ELEMENTS = 1 << 26  # of all arrays together, in float64
_OWN = 2.0**-40
_EXACT = "the function must be exact mathematics: float64 all along, nothing rounded to the kernel's types"
Meaning = Callable[..., Any]


@dataclass(frozen=True)
class Claims:
    """What a function says that arrays hold: by name, sorted offsets and values there."""

    values: Mapping[str, tuple[Array, Array]]
    function: str
    specs: Mapping[str, Spec]  # the kernel that writes an array last
    params: Mapping[str, int]

    def compare(self, name: str, at: Array, got: Array, bound: Bound) -> Closeness:
        """Raise ProofError TG428 at the first element further from the function's value than the spec's bound.

        ``at``: offsets of the elements ``got``. The error names the function, the element, the op and the CTA that
        wrote it, and what the elements that differ have in common.
        """
        offsets, values = self.values[name]
        meant = values[np.searchsorted(offsets, at)]
        with np.errstate(all="ignore"):
            room = bound.error + np.where(np.isfinite(meant), _OWN * np.abs(meant), 0.0)
        want = Bound(meant, room)
        wrong, _ = find_beyond(got, want)
        if wrong.any():
            raise self._refuse(name, at, got, want, wrong)
        return compare_floats(name, at, got, want)

    def compare_rest(self, name: str, at: Array) -> None:
        """Raise ProofError TG428 at the first element that the function has a number for, and that no CTA writes.

        ``at``: sorted offsets of the elements that all CTAs write.
        """
        offsets, values = self.values[name]
        left = offsets[~np.isin(offsets, at) & ~np.isnan(values)]
        if len(left):
            seen = describe_difference(self.specs[name], self.params, name, left, offsets)
            value = float(values[np.searchsorted(offsets, left[0])])
            message = f"{seen.element} is written by no CTA, and {self.function} says {value!r}; {seen.pattern}"
            hint = "write it; or let the function return nan for it, if it is to be left as it is"
            raise ProofError(Diagnostic(DIFFERS, message, seen.mark, hint))

    def _refuse(self, name: str, at: Array, got: Array, want: Bound, wrong: Array) -> ProofError:
        first = int(wrong.argmax())
        seen = describe_difference(self.specs[name], self.params, name, at[wrong], at)
        value, error = float(want.value[first]), float(want.error[first])
        said = f"{seen.element} is {float(got[first])!r}, and {self.function} says {value!r} +- {error:.3g}"
        wrote = f", written by {seen.writer}" if seen.writer else ""
        message = f"{said}{wrote}; {seen.pattern} {'differ' if wrong.sum() > 1 else 'differs'}"
        return ProofError(Diagnostic(DIFFERS, message, seen.mark, _EXACT))


def ask_meaning(
    function: Meaning,
    spec: Spec | Program,
    params: Mapping[str, int],
    inputs: Mapping[str, Input],
    outputs: tuple[str, ...],
) -> Claims:
    """Call the function with the inputs' elements in their logical shapes. Raises InputError TG604."""
    count = sum(prod(_shape(spec.buffer(n), params)) for n in (*inputs, *outputs))
    if count > _MOST_ELEMENTS:
        sizes = f"{count} elements, more than the {_MOST_ELEMENTS} that fit"
        raise refuse(f"the arrays have {sizes}", "set smaller params, as --set M=64")
    given: dict[str, Any] = {}
    for name, values in inputs.items():
        given[name] = values(places_of(spec.buffer(name), params)).astype(np.float64)
    given |= {c.name: c.value for c in spec.constants}
    given |= {p.name: params.get(p.name, p.default) for p in arguments(spec.params)}
    result = _call(function, choose_given(function, given))
    if isinstance(result, Mapping):
        found = dict(result)
    elif len(outputs) == 1:
        found = {outputs[0]: result}
    else:
        raise refuse(f"it returns one array, and the kernel writes {', '.join(outputs)}", "return a dict by name")
    if set(found) != set(outputs):
        raise refuse(f"it returns {', '.join(map(str, found)) or 'nothing'}", f"the kernel writes {', '.join(outputs)}")
    laid_out = {name: _lay_out(spec.buffer(name), params, found[name]) for name in outputs}
    return Claims(laid_out, _name_function(function), {name: _find_writer(spec, name) for name in outputs}, params)


def _find_writer(spec: Spec | Program, name: str) -> Spec:
    """The kernel that writes an array, of several the last."""
    if isinstance(spec, Spec):
        return spec
    return next(one.spec for one in reversed(spec.passes) if name in written_roots(one.spec))


def _name_function(function: Meaning) -> str:
    """A function as ``--against`` names it, module:name."""
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{getattr(function, '__module__', '')}:{name}"


def refuse(message: str, hint: str = "") -> InputError:
    """A function that cannot be used."""
    return InputError(Diagnostic(CANNOT_USE, f"--against: {message}", None, hint))


def choose_given(function: Meaning, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a function takes of what there is, by name. Raises InputError TG604 where it takes what is not there.

    >>> choose_given(lambda X, eps=1: X, {"X": 3, "W": 4})
    {'X': 3}
    """
    try:
        asked = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise refuse(f"{function!r:.60} is no function", "write --against module:function") from None
    takes_all = any(p.kind is p.VAR_KEYWORD for p in asked)
    for p in asked:
        if p.name not in given and p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            raise refuse(f"it takes '{p.name}', which is no input or param", f"there are {', '.join(given)}")
    names = {p.name for p in asked}
    return {n: x for n, x in given.items() if takes_all or n in names}


def _call(function: Meaning, given: Mapping[str, Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return function(**given)
    except Exception as error:
        raise refuse(f"it raises {type(error).__name__}: {error}") from error


def _lay_out(buffer: Buffer, params: Mapping[str, int], result: Any) -> tuple[Array, Array]:
    shape = _shape(buffer, params)
    try:
        values = np.asarray(result, np.float64)
    except (TypeError, ValueError):
        raise refuse(f"what it returns for {buffer.name} is no array of numbers") from None
    if values.shape != shape:
        raise refuse(f"what it returns for {buffer.name} has the shape {list(values.shape)}, not {list(shape)}")
    offsets = places_of(buffer, params).ravel()
    order = np.argsort(offsets, kind="stable")
    return offsets[order], values.ravel()[order]


def _shape(buffer: Buffer, params: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(evaluate(n, params)) for n in buffer.shape)
