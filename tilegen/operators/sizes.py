"""The runtime parameters of a kernel as formulas of the tensors that it is given, and shapes as formulas of those.

Nothing here asks what a size is: integers go through, and so do symbols that stand for them while a graph is traced.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from tilegen.gpu.call import ArrayArgument
from tilegen.index import Formula, Index, Var, mul, names_of, terms, total

Size = Any  # an int, or what stands for one


@dataclass(frozen=True)
class TensorForm:
    """Shape and strides of a tensor, in elements."""

    shape: tuple[Size, ...]
    strides: tuple[Size, ...]


@dataclass(frozen=True)
class Measured:
    """A parameter as a tensor says it: what it measures is ``scale * param + rest``.

    ``tensor``: its number among those that a call gives; ``is_stride``: it is the stride of ``dimension`` that
    measures, not the extent. ``scale`` and ``rest`` name parameters that were measured before.
    """

    param: str
    tensor: int
    dimension: int
    is_stride: bool
    scale: Index
    rest: Index


def form_of(array: ArrayArgument) -> TensorForm:
    """An array's form over parameters: a layout that no strides describe comes as its physical image, flat."""
    if array.strides is None:
        return TensorForm((array.span,), (1,))
    return TensorForm(array.shape, array.strides)


def measure_params(given: Sequence[ArrayArgument], names: Sequence[str]) -> tuple[Measured, ...]:
    """How each parameter follows from extents, and where these say nothing, from strides; in an order to solve them in.

    Parameters that follow from neither are left out.

    >>> from tilegen.index import Var
    >>> M, N = Var("M", 100), Var("N", 100)
    >>> x = ArrayArgument("X", "float32", "in", 16, (M * 2, N + 1), (N + 1, 1), M * (N + 1) * 2, "")
    >>> [(m.param, m.dimension, m.scale, m.rest) for m in measure_params([x], ["M", "N"])]
    [('M', 0, 2, 0), ('N', 1, 1, 1)]
    """
    found: dict[str, Measured] = {}
    forms = [form_of(array) for array in given]
    for is_stride in (False, True):
        sides = [
            (k, d, side)
            for k, form in enumerate(forms)
            for d, side in enumerate(form.strides if is_stride else form.shape)
        ]
        progress = True
        while progress:
            progress = False
            for k, d, side in sides:
                unknown = names_of(side) - set(found)
                if len(unknown) != 1 or not unknown <= set(names):
                    continue
                (name,) = unknown
                parts = split_linear(side, name)
                if parts is not None:
                    found[name] = Measured(name, k, d, is_stride, *parts)
                    progress = True
    return tuple(found.values())


def split_linear(x: Index, name: str) -> tuple[Index, Index] | None:
    """``x`` as (scale, rest) with x = scale * name + rest, both without it; None where it is no such sum.

    >>> M, N = Var("M", 100), Var("N", 100, least=1)
    >>> [str(part) for part in split_linear(M * N * 3 + N + 2, "M")], split_linear((M + 3) // 4, "M")
    (['N * 3', 'N + 2'], None)
    """
    scales, rest = list[tuple[int, Any]](), list[tuple[int, Any]]()
    for coefficient, factor in terms(x):
        if isinstance(factor, int) or name not in names_of(factor):
            rest.append((coefficient, factor))
            continue
        factors = _factors(factor)
        own = [f for f in factors if isinstance(f, Var) and f.name == name]
        others = [f for f in factors if not (isinstance(f, Var) and f.name == name)]
        if len(own) != 1 or any(name in names_of(f) for f in others):
            return None
        scale: Index = 1
        for other in others:
            scale = mul(scale, other)
        scales.append((coefficient, scale))
    return total(scales), total(rest)


def _factors(x: Index) -> tuple[Index, ...]:
    if isinstance(x, Formula) and x.symbol == "*":
        return tuple(f for arg in x.args for f in _factors(arg))
    return (x,)


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv, "%": operator.mod,
}  # fmt: skip
_PICKING = ("min", "max")


def can_compute(x: Index) -> bool:
    """Whether ``compute`` knows every operator of a formula."""
    if not isinstance(x, Formula):
        return True
    return (x.symbol in _ARITHMETIC or x.symbol in _PICKING) and all(map(can_compute, x.args))


def compute(
    x: Index, values: Mapping[str, Size], smaller: Callable[..., Size] = min, larger: Callable[..., Size] = max
) -> Size:
    """A formula over sizes by Python's own operators, which symbols have too. Raises KeyError for another operator.

    >>> M = Var("M", 100)
    >>> compute((M + 3) // 4 * 2, {"M": 9})
    6
    """
    if isinstance(x, int):
        return int(x)
    if isinstance(x, Var):
        return values[x.name]
    picks = dict(zip(_PICKING, (smaller, larger), strict=True))
    return reduce((_ARITHMETIC | picks)[x.symbol], (compute(a, values, smaller, larger) for a in x.args))


def solve_sizes(
    measures: Sequence[Measured], tensors: Sequence[TensorForm], given: Mapping[str, Size]
) -> dict[str, Size]:
    """Every parameter's value, of those given and of what tensors measure; nothing is compared.

    >>> x = Measured("M", 0, 0, False, 2, 1)
    >>> solve_sizes([x], [TensorForm((9, 4), (4, 1))], {"k": 5})
    {'k': 5, 'M': 4}
    """
    values = dict(given)
    for m in measures:
        form = tensors[m.tensor]
        found = (form.strides if m.is_stride else form.shape)[m.dimension]
        rest, scale = compute(m.rest, values), compute(m.scale, values)
        values[m.param] = _divide(found - rest if m.rest != 0 else found, scale)
    return values


def _divide(size: Size, scale: Size) -> Size:
    """Symbols stay short: nobody divides by 1, nor by the 0 of a tensor without elements, which no kernel takes."""
    if isinstance(scale, int) and scale in (0, 1):
        return size if scale else 0
    return size // scale
