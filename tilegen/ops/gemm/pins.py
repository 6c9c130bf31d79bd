"""What the fields of a gemm pin: whether a recipe has it, and, where none has, which pin is at fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilegen.errors import Diagnostic, LayoutError, SpecError
from tilegen.layouts.constructors import find_atom, tile_mma
from tilegen.ops.gemm.problem import Problem
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.pins import distance, say_pin
from tilegen.spec.data import WholeCall

# Fields that say what is multiplied; and those that say how, in the order in which they are believed.
_ASKED = frozenset({"a", "b", "d", "c", "bias", "alpha", "beta", "epilogue", "named", "math"})
_PINS = (
    "variant", "turned", "overlap", "split", "k_parts", "tile", "atom", "atoms", "permutation", "load", "cluster",
    "stages", "panel", "ctas", "order",
)  # fmt: skip
_FAR = 8  # how far from a number others are tried, before those of recipes
# Where a recipe does not say it.
UNSAID = {"cluster": 1, "turned": False, "split": 1, "k_parts": 1, "permutation": [None] * 3}


def read_pins(fields: Any) -> dict[str, Any]:
    """What is pinned, by field. Raises TypeError for a field that is part of neither the problem nor a recipe.

    >>> from tilegen.ops.gemm.op import GemmFields
    >>> read_pins(GemmFields(a="A", b="B", d="D", stages=3, turned=False))
    {'turned': False, 'stages': 3}
    """
    unknown = set(type(fields).model_fields) - _ASKED - set(_PINS)
    if unknown:
        raise TypeError(f"ops/gemm/pins.py does not know {', '.join(sorted(unknown))}")
    return {name: value for name in _PINS if (value := getattr(fields, name)) not in (None, "auto")}


def has_pins(recipe: Recipe, fields: Any) -> bool:
    """Does a recipe say all that the fields pin?"""
    said = UNSAID | recipe.fields()
    return all(said.get(name) == value for name, value in read_pins(fields).items())


def unpin(fields: Any, names: Sequence[str]) -> Any:
    """The same fields without some pins.

    >>> from tilegen.ops.gemm.op import GemmFields
    >>> read_pins(unpin(GemmFields(a="A", b="B", d="D", stages=3, order=8), ["stages"]))
    {'order': 8}
    """
    return fields.model_copy(update={name: type(fields).model_fields[name].default for name in names})


def check_pins(call: WholeCall, problem: Problem) -> None:
    """Raises SpecError, at the field, for an atom that there is not or that does not multiply the types (TG302), and
    for atoms or a permutation that are none."""
    fields, every = call.fields, (1 << 10,) * 3
    p = problem
    if fields.atom != "auto":
        _check_layout(call, "atom", lambda: find_atom(fields.atom))
        types = p.factors, p.factors if p.a.dtype == p.b.dtype else p.b.dtype, p.sums
        try:
            find_atom(fields.atom, *types)
        except LayoutError as error:
            a, b, c = types
            message = f"{fields.atom} does not multiply {a} by {b} into {c}"
            raise SpecError(Diagnostic("TG302", message, call.mark_of("atom"), error.hint)) from None
    if fields.atoms is not None:
        _check_layout(call, "atoms", lambda: tile_mma("fma.f32", read_atoms(fields.atoms), None, every))
    if fields.permutation is not None:
        one = "fma.f32", (1, 1, 1), fields.permutation, every
        _check_layout(call, "permutation", lambda: tile_mma(*one))


def _check_layout(call: WholeCall, field: str, read: Callable[[], Any]) -> None:
    try:
        read()
    except LayoutError as error:
        raise SpecError(Diagnostic(error.code, str(error), call.mark_of(field), error.hint)) from None


def read_atoms(given: Any) -> Any:
    """Atoms side by side as a recipe has them: a text, or numbers."""
    return tuple(given) if isinstance(given, list) else given


def refuse_pins(call: WholeCall, refusals: Mapping[str, str], rank: Callable[[Any], Sequence[Recipe]]) -> Diagnostic:
    """What is wrong where no recipe has all pins: one that cannot be had beside those believed before it.

    ``rank(fields)``: the recipes that have what fields pin, the best first. ``refusals``: why variants carry out none.
    """
    pins, reasons = read_pins(call.fields), "".join(f"; {name}: {reason}" for name, reason in refusals.items())
    kept: list[str] = []
    for name in pins:
        if rank(unpin(call.fields, [n for n in pins if n not in (*kept, name)])):
            kept.append(name)
            continue
        free = unpin(call.fields, [n for n in pins if n not in kept])
        nearest = _find_nearest(name, pins[name], free, rank)
        beside = ", ".join(say_pin(n, pins[n]) for n in kept)
        message = f"no recipe carries out this gemm with {say_pin(name, pins[name])}"
        message += f" beside {beside}" if beside else ""
        return Diagnostic("TG302", message + reasons, call.mark_of(name), nearest)
    return Diagnostic("TG302", f"no recipe carries out this gemm{reasons}", call.mark)


def _find_nearest(name: str, value: Any, free: Any, rank: Callable[[Any], Sequence[Recipe]]) -> str:
    """What to write instead: the nearest value that a recipe has beside what ``free`` pins, the best recipe's first."""
    if isinstance(value, int) and not isinstance(value, bool):
        around = (near for far in range(1, _FAR) for near in (value - far, value + far) if near > 0)
        found: Sequence[Recipe] = next((r for near in around if (r := rank(_pin(free, name, near)))), ())
    else:
        found = ()
    found = found or rank(_pin(free, name, "auto") if name == "split" else free)
    if not found:
        return ""
    nearest = min(found, key=lambda recipe: distance(value, (UNSAID | recipe.fields()).get(name)))
    said = (UNSAID | nearest.fields()).get(name)
    if said is None or said == UNSAID.get(name, ()):
        return f"leave '{name}' out"
    return f"the nearest that can be is {say_pin(name, said)}"


def _pin(fields: Any, name: str, value: Any) -> Any:
    return fields.model_copy(update={name: value})
