"""Elements of tables as sizes: a kernel with a parameter for each element that decides something in it.

A run of a CTA depends on the elements that it reads as it depends on sizes. So each is a parameter of its range here,
and a proof takes the values at which outcomes change, beside those of all sizes. An offset is a parameter, and so is
how far behind it the next one lies. An element is the same in all trips and in all CTAs, each of which is looked at by
itself. What trips with unlike elements do to one another is shown with other contents (``tables``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilegen.arithmetic.values import Values
from tilegen.index import (
    Index,
    Var,
    add,
    bound,
    evaluate,
    least,
    less,
    mul,
    select,
    sub,
    substitute,
    table_value,
    total,
)
from tilegen.index.contents import UPWARDS
from tilegen.index.linear import linear
from tilegen.ops.tables import value_of_read
from tilegen.plan import Block, Fetch, Let, Param, Plan, Repeat, Step, When, default_values
from tilegen.plan.contents import COSTED, Contents, let_element, number_of, value_of_fetch
from tilegen.spec.data import LetStatement, Loop, Nest, Spec, Statement
from tilegen.spec.outline import fresh_name, outline, trip_of
from tilegen.spec.tables import Read

Names = Mapping[str, Index]  # what names stand for, written out


def size_elements(
    spec: Spec, plan: Plan, arrays: Collection[str], others: Contents = COSTED
) -> tuple[Spec, Plan]:  # fmt: skip
    """The spec and its plan with a parameter for each element of these arrays; other tables hold other contents.

    What the plan reads is the spec's element where both have the same place, written out.
    """
    elements = _Elements(spec, frozenset(arrays), others)
    _fill_spec(spec.ops, {}, elements)
    for role in plan.roles:
        _fill_plan(role.steps, {}, elements)
    sizes = elements.settle()
    ops = _fill_spec(spec.ops, {}, elements, sizes.values)
    roles = tuple(replace(role, steps=_fill_plan(role.steps, {}, elements, sizes.values)) for role in plan.roles)
    params = (*spec.params, *sizes.params)
    names = tuple(p.name for p in sizes.params)
    sized = replace(spec, ops=ops, params=params, known=sizes.known, elements=names)
    return sized, replace(plan, roles=roles, params=params)


@dataclass(frozen=True)
class _Sizes:
    """The parameters, the conditions that hold of them, and what stands for each element."""

    params: tuple[Param, ...]
    known: tuple[Index, ...]
    values: Names


class _Elements:
    """Elements by their places, each with a variable until all are known."""

    def __init__(self, spec: Spec, arrays: frozenset[str], others: Contents):
        self.spec, self.arrays, self.others = spec, arrays, others
        self.taken, self.default = {*outline(spec).names}, default_values(spec.params)
        self.found: dict[tuple[str, Index], dict[int, tuple[Var, Values]]] = {}
        self.params: list[Param] = []
        self.known: list[Index] = []

    def find(self, array: str, values: Values, number: Index) -> Var:
        """The variable of an element: the same for the same place."""
        base, behind = number, 0
        if values.pieces is not None:
            terms = linear(number)
            behind = terms.pop(1, 0)
            base = total((c, f) for f, c in terms.items())
        group = self.found.setdefault((array, base), {})
        if behind not in group:
            low, high = values.places
            name = f"element {sum(map(len, self.found.values()))} of {array}"
            group[behind] = Var(name, bound(high), 1, least(low)), values
        return group[behind][0]

    def settle(self) -> _Sizes:
        """Parameters for all elements."""
        values: dict[str, Index] = {}
        shifts: dict[str, Index] = {}
        for (array, number), group in self.found.items():
            value: Index = 0
            for k, (_, (var, own)) in enumerate(sorted(group.items())):
                low, high = own.places
                if own.is_distinct:
                    if array not in shifts:
                        shifts[array] = self._add_param(f"{array}_shift", own, 4)
                    value = table_value((UPWARDS, 0), add(number, shifts[array]), low, high, own.step)
                elif k == 0:
                    value = add(low, mul(self._add_param(f"{array}_element", own, 4), own.step))
                else:
                    value = add(value, self._add_param(f"{array}_further", own, 2))
                values[var.name] = value
            if not own.is_distinct:
                self.known += [c for c in [less(value, high)] if c is not True]
        return _Sizes(tuple(self.params), tuple(self.known), values)

    def _add_param(self, name: str, values: Values, part: int) -> Var:
        """A parameter of as many values as a range has; at the defaults of sizes a part of that."""
        low, high = values.places
        name = fresh_name(name, self.taken)
        self.taken.add(name)
        count = evaluate(sub(high, low), self.default)
        var = Var(name, max(1, -(-(bound(high) - 1 - least(low)) // values.step)))
        self.params.append(Param(name, "int32", (int(count) - 1) // values.step // part, var))
        return var


def _fill_spec(
    statements: Sequence[Statement], names: Names, elements: _Elements, values: Names | None = None
) -> tuple[Statement, ...]:  # fmt: skip
    """The statements with what stands for elements in place of these; without ``values`` elements are looked for."""
    filled, names = list[Statement](), dict(names)
    for s in statements:
        if isinstance(s, Nest):
            inner = dict(names)
            if isinstance(s, Loop):
                inner[s.var.name] = substitute(trip_of(s, outline(elements.spec).names)[2], names)
            s = replace(s, body=_fill_spec(s.body, inner, elements, values))
        elif isinstance(s, LetStatement):
            entries = list[tuple[Var, Index | Read]]()
            for var, x in s.entries:
                entry: Index | Read = x
                if isinstance(x, Read):
                    number = number_of(x.at, elements.spec.buffer(x.array).shape)
                    own, entry = _find(x.array, x.values, number, names, elements, values)
                    entry = (
                        value_of_read(elements.spec, x, elements.others)
                        if own is None
                        else select(x.when, entry, x.otherwise)
                    )
                    names[var.name] = var if own is None else select(substitute(x.when, names), own, x.otherwise)
                else:
                    names[var.name] = substitute(x, names)
                entries.append((var, entry))
            s = replace(s, entries=tuple(entries))
        filled.append(s)
    return tuple(filled)


def _find(
    array: str, of: Values, number: Index, names: Names, elements: _Elements, values: Names | None
) -> tuple[Var | None, Index]:  # fmt: skip
    """The variable of an element, and what stands for it; None for one of another array."""
    if array not in elements.arrays:
        return None, 0
    own = elements.find(array, of, substitute(number, names))
    return own, own if values is None else values[own.name]


def _fill_plan(
    steps: Sequence[Step], names: Names, elements: _Elements, values: Names | None = None
) -> tuple[Step, ...]:  # fmt: skip
    filled, names = list[Any](), dict(names)
    for step in steps:
        if isinstance(step, Fetch):
            array = step.src.memory.name
            own, entry = _find(array, step.values, step.number, names, elements, values)
            where = substitute(step.where, names)
            names[step.var.name] = step.var if own is None else select(where, own, step.otherwise)
            entry = value_of_fetch(step, elements.others) if own is None else select(step.where, entry, step.otherwise)
            filled += let_element(step, entry)
        elif isinstance(step, Repeat | When | Block):
            inner = {name: x for name, x in names.items() if not isinstance(step, Repeat) or name != step.var.name}
            filled.append(replace(step, body=_fill_plan(step.body, inner, elements, values)))
        else:
            if isinstance(step, Let):
                names[step.var.name] = substitute(step.value, names)
            filled.append(step)
    return tuple(filled)
