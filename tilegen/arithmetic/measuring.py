"""The range of what a tree computes, from those of what it reads: sound for every content within these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilegen.arithmetic.intervals import (
    ValueRange,
    apply_to_ranges,
    between,
    fit_range,
    has_range,
    is_empty,
    join_ranges,
    meet_ranges,
    range_of_type,
)
from tilegen.arithmetic.tree import Apply, Element, Literal, Node, Whole
from tilegen.index import Formula, Index, add, bound, conjuncts, least, names_of, not_, sub, substitute
from tilegen.index.bounds import narrow

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_DENIED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


@dataclass(frozen=True)
class Known:
    """What is known where a tree is computed.

    ``elements``: the range of each operand, None for one of floats; ``wholes``: the integers of the place; ``params``:
    the names that ends may keep. ``rises``: of pairs of operands, what the first has more than the second. ``facts``
    and ``guards``: what conditions around a part of the tree say of nodes, and of integers of the place.
    """

    elements: Sequence[ValueRange | None]
    wholes: Sequence[Index] = ()
    params: frozenset[str] = frozenset()
    rises: Mapping[tuple[int, int], ValueRange] = field(default_factory=dict)
    facts: Mapping[Node, ValueRange] = field(default_factory=dict)
    guards: tuple[Index, ...] = ()


def measure_tree(node: Node, known: Known) -> ValueRange | None:
    """The range of a tree's value in its own type; None where that is a float.

    >>> clamped = Apply("min", (Element(0, "int32"), Literal(63, "int32")), "int32")
    >>> print(measure_tree(clamped, Known([ValueRange(0, 1 << 20)])))
    0 : 64
    """
    if not has_range(node.type):
        return None
    found = _measure(node, known)
    fact = known.facts.get(node)
    return found if fact is None else meet_ranges(found, fact)


def _measure(node: Node, known: Known) -> ValueRange:
    if isinstance(node, Element):
        own = known.elements[node.number]
        return range_of_type(node.dtype) if own is None else fit_range(own, node.type)
    if isinstance(node, Literal):
        return ValueRange(int(node.value), int(node.value) + 1)
    if isinstance(node, Whole):
        return fit_range(_measure_whole(known.wholes[node.number], known), node.type)
    if not isinstance(node, Apply):
        return range_of_type(node.type)
    if node.function == "where":
        return _measure_choice(node, known)
    if node.function == "-" and (rise := _find_rise(node, known)) is not None:
        return rise
    args = [measure_tree(arg, known) for arg in node.args]
    if any(arg is None for arg in args):  # a comparison of floats, or a conversion of one
        return range_of_type(node.type)
    return apply_to_ranges(node.function, [arg for arg in args if arg is not None], node.type)


def _measure_whole(x: Index, known: Known) -> ValueRange:
    """Of an integer of the place: itself where params alone decide it, else from where to where it goes."""
    if isinstance(x, bool):
        return ValueRange(int(x), int(x) + 1)
    if names_of(x) <= known.params:
        return ValueRange(x, add(x, 1))
    narrowed = substitute(x, narrow(known.guards)) if known.guards else x
    found = ValueRange(max(least(x), least(narrowed)), min(bound(x), bound(narrowed)))
    for guard in known.guards:
        if isinstance(guard, Formula) and guard.symbol == "<":
            low, high = guard.args
            if low == x and names_of(high) <= known.params:
                found = meet_ranges(found, ValueRange(found.low, high))
            if high == x and names_of(low) <= known.params:
                found = meet_ranges(found, ValueRange(add(low, 1), found.high))
    return found


def _find_rise(node: Apply, known: Known) -> ValueRange | None:
    """What one element has more than another, where that is known of both."""
    a, b = (list(_list_same(arg))[-1] for arg in node.args)
    if not (isinstance(a, Element) and isinstance(b, Element)):
        return None
    found = known.rises.get((a.number, b.number))
    return None if found is None else fit_range(found, node.type)


def _keeps_value(node: Node) -> bool:
    """Is a node a conversion to a type that has all that its argument's has?"""
    if not (isinstance(node, Apply) and node.function == node.type and has_range(node.args[0].type)):
        return False
    own, of = range_of_type(node.type).numbers, range_of_type(node.args[0].type).numbers
    return own[0] <= of[0] and of[1] <= own[1]


# ---------------------------------------------------------------- conditions
def _measure_choice(node: Apply, known: Known) -> ValueRange:
    """Of ``where``: of each arm with what the condition says there; an arm that nothing reaches does not count."""
    condition, *arms = node.args
    found = []
    for arm, holds in zip(arms, (True, False), strict=True):
        there = _learn(condition, holds, known)
        if there is not None and (own := measure_tree(arm, there)) is not None and not is_empty(own):
            found.append(own)
    return join_ranges(found) if found else range_of_type(node.type)


def _learn(condition: Node, holds: bool, known: Known) -> Known | None:
    """What is known where a condition holds, or does not; None where it never does."""
    if isinstance(condition, Literal):
        return known if bool(condition.value) == holds else None
    if isinstance(condition, Whole):
        return _learn_of_place(known.wholes[condition.number], holds, known)
    if not isinstance(condition, Apply):
        return known
    if condition.function == "not":
        return _learn(condition.args[0], not holds, known)
    if condition.function == ("and" if holds else "or"):
        one = _learn(condition.args[0], holds, known)
        return None if one is None else _learn(condition.args[1], holds, one)
    if condition.function not in _DENIED:
        return known
    comparison = condition.function if holds else _DENIED[condition.function]
    facts = dict(known.facts)
    first, second = condition.args
    for a, b, word in ((first, second, comparison), (second, first, _TURNED[comparison])):
        own, other = measure_tree(a, known), measure_tree(b, known)
        if own is None or other is None:
            return known
        narrowed = _narrow(own, word, other)
        if is_empty(narrowed):
            return None
        for same in _list_same(a):
            facts[same] = meet_ranges(facts[same], narrowed) if same in facts else narrowed
    return replace(known, facts=facts)


def _learn_of_place(condition: Index, holds: bool, known: Known) -> Known | None:
    said = condition if holds else not_(condition)
    if said is False or (isinstance(said, int) and not said):
        return None
    return replace(known, guards=(*known.guards, *conjuncts(said)))


def _narrow(x: ValueRange, comparison: str, other: ValueRange) -> ValueRange:
    """The values of ``x`` that may compare so with some of ``other``."""
    (low, top), (least_other, most_other) = x.ends, other.ends
    if comparison in ("<", "<="):
        return meet_ranges(x, between(low, sub(most_other, 1) if comparison == "<" else most_other))
    if comparison in (">", ">="):
        return meet_ranges(x, between(add(least_other, 1) if comparison == ">" else least_other, top))
    if comparison == "==":
        return meet_ranges(x, other)
    if least_other == most_other and low == least_other:
        return between(add(low, 1), top)
    if least_other == most_other and top == least_other:
        return between(low, sub(top, 1))
    return x


def _list_same(node: Node) -> Iterator[Node]:
    """The node, and what it is a conversion of that keeps the value."""
    yield node
    if isinstance(node, Apply) and _keeps_value(node):
        yield from _list_same(node.args[0])
