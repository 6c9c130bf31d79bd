"""Elements of tables as sizes: a kernel with a parameter for each element that decides something in it.

A run of a CTA depends on the elements that it reads as it depends on sizes. So each is a parameter of its range here,
and a proof takes the values at which outcomes change, beside those of all sizes. An offset is a parameter, and so is
how far behind it the next one lies. An element is the same in all trips and in all CTAs, each of which is looked at by
itself. What trips with unlike elements do to one another is shown with other contents (``tables``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tilegen.arithmetic.values import Values
from tilegen.index import (
    Index,
    Var,
    add,
    bound,
    div,
    equal,
    evaluate,
    least,
    less,
    maximum,
    mod,
    mul,
    names_of,
    select,
    sub,
    substitute,
    total,
)
from tilegen.index.linear import linear
from tilegen.ops.tables import fill_spec
from tilegen.plan import Param, Plan, default_values
from tilegen.plan.contents import COSTED, Contents, Element, content_of, fill_tables
from tilegen.proofs.composed import find_composed
from tilegen.spec.data import Spec
from tilegen.spec.outline import fresh_name, outline

Names = Mapping[str, Index]  # what names stand for, written out


@dataclass(frozen=True)
class Some:
    """Elements whose numbers have one digit of two: ``number // step % 2 == digit``."""

    step: int
    digit: int

    def holds_for(self, number: Index) -> Index:
        return equal(mod(div(number, self.step), 2), self.digit)


def size_elements(
    spec: Spec, plan: Plan, arrays: Collection[str], others: Contents = COSTED, some: Some | None = None
) -> tuple[Spec, Plan]:  # fmt: skip
    """The spec and its plan with a parameter for each element of these arrays; other tables hold other contents.

    What the plan reads is the spec's element where both have the same place, written out. With ``some``, elements of
    other numbers hold the other contents too, and so does what these name.
    """
    spec = spec if find_composed(spec) else replace(spec, before=())
    elements = _Elements(spec, frozenset(arrays), others)
    fill_spec(spec, elements.name)
    fill_tables(plan, elements.name)
    sizes = elements.settle()

    def fill(x: Element) -> tuple[Index, Index | None]:
        value, own = elements.name(x)
        return (value if own is None else elements.mix(x, substitute(value, sizes.values), some)), own

    params = (*spec.params, *sizes.params)
    filled = fill_spec(spec, fill)
    before = tuple(
        replace(one, spec=replace(one.spec, params=(*one.spec.params, *sizes.params))) for one in filled.before
    )
    names = tuple(p.name for p in sizes.params)
    sized = replace(filled, params=params, known=sizes.known, elements=names, before=before)
    return sized, replace(fill_tables(plan, fill), params=params)


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
        self.chosen: dict[str, Index] = {}  # of an element, where it is one of some

    def name(self, x: Element) -> tuple[Index, Index | None]:
        """The variable of an element, twice; for one of another array what it holds, and None."""
        if x.array not in self.arrays:
            return content_of(x.array, x.values, x.number, self.others), None
        own = self.find(x.array, x.values, x.place)
        return own, own

    def mix(self, x: Element, sized: Index, some: Some | None) -> Index:
        """The size that stands for an element where it is one of some, or one leads to it; else other contents."""
        if some is None or x.values.is_distinct:  # which are all unlike
            return sized
        own = self.find(x.array, x.values, x.place).name
        by = [self.chosen[name] for name in sorted(names_of(x.place)) if name in self.chosen]
        self.chosen[own] = by[0] if by else some.holds_for(_split(x.values, x.number)[0])
        return select(self.chosen[own], sized, content_of(x.array, x.values, x.number, self.others))

    def find(self, array: str, values: Values, number: Index) -> Var:
        """The variable of an element: the same for the same place."""
        base, behind = _split(values, number)
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
                    value = _count_up(add(number, shifts[array]), own)
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


def _split(values: Values, number: Index) -> tuple[Index, int]:
    """The number of a piece, and how many pieces behind it an offset lies; of another element its number, and 0."""
    if values.pieces is None:
        return number, 0
    terms = linear(number)
    behind = terms.pop(1, 0)
    return total((c, f) for f, c in terms.items()), behind


def _count_up(number: Index, values: Values) -> Index:
    """The number of an element as its value: each value of 0 or more once, then those that name no place, if any do."""
    low, high = values.places
    first = add(low, mul(div(add(maximum(sub(0, low), 0), values.step - 1), values.step), values.step))
    count = div(add(sub(high, first), values.step - 1), values.step)
    if least(low) >= 0:
        return add(first, mul(mod(number, count), values.step))
    return select(less(number, count), add(first, mul(number, values.step)), low)
