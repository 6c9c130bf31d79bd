"""Fields of an op by which a spec says itself what is chosen else: they leave the candidates that have it.

All candidates are costed whatever is pinned, so that a pin of what is taken anyway changes no word of what is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator, Field

from tilegen.arithmetic.formats import NUMBER_WORDS, read_word
from tilegen.decisions import Candidate, Cost, Key, compare_costs, judge
from tilegen.ops.operand import Context, CountedSteps, Refused
from tilegen.plan import Block
from tilegen.spec.pinning import spell

Found = TypeVar("Found")
Value = TypeVar("Value")
Pin = tuple[str, Any]  # a field of an op, and its value
FAR = 1e6  # between values that have nothing in common

_Elems = Annotated[int, Field(ge=1)]
_Pair = Annotated[list[int], Field(min_length=2, max_length=2)]
# Widths of accesses, as fields of ops. ``None``: the cheapest.
CopyWidth = Annotated[
    _Elems | _Pair | None,
    Field(description="elements that a load and a store move at once, instead of the cheapest: 8, or [load, store]"),
]
OneWidth = Annotated[
    _Elems | None, Field(description="elements that an access of memory moves, instead of the cheapest number")
]
MostWidth = Annotated[
    _Elems | None,
    Field(description="elements that an access of memory moves at most, instead of the cheapest number"),
]
Partition = Annotated[
    str | None,
    Field(description="the order in which threads take the elements, as explain names it: row-major, or A's strides"),
]
SharePin = Annotated[
    str | None,
    Field(description="how threads share what lies in memory alone, as explain names it: 8 of Y's at once"),
]


# Regions by the names of results.
Several = Annotated[dict[str, str], Field(min_length=1)]


# A number of the text, and what an op's reads give past the edge of an array.
Constant = Annotated[int | float | bool, BeforeValidator(read_word)]
CONSTANT_SCHEMA: dict[str, Any] = {"anyOf": [{"type": ["integer", "number", "boolean"]}, {"enum": [*NUMBER_WORDS]}]}
Pad = Annotated[
    Constant | None,
    Field(
        description="with 'edge: clip': what reads give past the edge of an array instead of 0, where threads load",
        json_schema_extra=CONSTANT_SCHEMA,
    ),
]


class NotHad(Refused):
    """No candidate of a variant is as the op's fields pin it; the text says what can be had.

    ``pin``: the field at fault. ``known``: what it may be beside the others, as a spec has it; () where nothing.
    """

    def __init__(self, pin: str, reason: str, known: Iterable[Any] = ()):
        super().__init__(reason)
        self.pin, self.known = pin, tuple(known)


def read_width(width: int | Sequence[int] | None) -> tuple[int, int] | None:
    """Elements of a load and of a store.

    >>> read_width(8), read_width([4, 8]), read_width(None)
    ((8, 8), (4, 8), None)
    """
    if width is None:
        return None
    load, store = (width, width) if isinstance(width, int) else width
    return load, store


def write_width(load: int, store: int) -> int | list[int]:
    """The field that says so.

    >>> write_width(8, 8), write_width(4, 8)
    (8, [4, 8])
    """
    return load if load == store else [load, store]


def pick(
    found: Sequence[Found], has: Callable[[Found], bool], cost: Callable[[Found], Cost],
    key: Key = lambda cost: cost.key,
) -> tuple[Found, str]:  # fmt: skip
    """The cheapest of the candidates that have what is pinned; and why it is that one, "" where it is so anyway.

    At least one must have it. The words are the same whichever of its fields are pinned, and so is what is built of a
    spec in which all of them are.

    >>> pick(["aa", "b", "cc"], lambda text: len(text) == 2, lambda text: Cost(instructions=3 - len(text)))
    ('aa', '')
    >>> pick(["aa", "b"], lambda text: len(text) == 1, lambda text: Cost(instructions=3 - len(text)))
    ('b', 'beside a pin, at 2 instructions against 1')
    """
    cheapest = min(found, key=lambda f: key(cost(f)))
    best = min((f for f in found if has(f)), key=lambda f: key(cost(f)))
    if best is cheapest:
        return best, ""
    return best, f"beside a pin, at {compare_costs(cost(best), cost(cheapest)) or 'the same cost'}"


@dataclass(frozen=True)
class Chosen(Generic[Value]):
    """The candidate that is taken, its function and cost; all candidates as they are judged beside it.

    ``why_pinned``: "" where it is taken anyway. ``counted``: each candidate that has what is pinned.
    """

    value: Value
    block: Block
    cost: Cost
    candidates: tuple[Candidate, ...]
    why_pinned: str
    counted: tuple[CountedSteps, ...]


def choose(
    context: Context, values: Iterable[Value], build: Callable[[Value], Block], has: Callable[[Value], bool],
    show: Callable[[Value], Any],
) -> Chosen[Value]:  # fmt: skip
    """The cheapest function of those that are built for each value, all counted; at least one value ``has`` the pins.

    ``show``: a value as explain's data has it.
    """
    tried = [(value, block, context.count(block)) for value in values for block in [build(value)]]
    (best, block, counted), why_pinned = pick(tried, lambda t: has(t[0]), lambda t: t[2].cost)
    candidates = tuple(
        Candidate(show(value), c.cost, judge(c.cost, counted.cost, value == best)) for value, _, c in tried
    )
    return Chosen(
        best, block, counted.cost, candidates, why_pinned, tuple(c for value, _, c in tried if has(value))
    )  # fmt: skip


def say_pin(name: str, value: Any) -> str:
    """A field and its value, as YAML has them.

    >>> say_pin("width", [4, 8]), say_pin("lanes", {"inner": "src"})
    ("'width: [4, 8]'", "'lanes: {inner: src}'")
    """
    return f"'{name}: {spell(value)}'"


def distance(a: Any, b: Any) -> float:
    """How far two values are apart: numbers by their difference, lists and dicts by entry, others by what they share.

    >>> distance(8, 2), distance([2, 4], 4), distance("A", "a's") > distance("A's stride", "A's strides")
    (6, 2, True)
    """
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return sum(distance(a.get(name), b.get(name)) for name in {**a, **b})
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        one, other = (x if isinstance(x, (list, tuple)) else [x] * 2 for x in (a, b))
        if len(one) == len(other):
            return sum(distance(x, y) for x, y in zip(one, other, strict=True))
    if isinstance(a, int) and isinstance(b, int):
        return abs(a - b)
    if isinstance(a, str) and isinstance(b, str):
        return FAR * (1 - SequenceMatcher(None, a, b).ratio())
    return 0 if a == b else FAR


def suggest_pin(name: str, value: Any, known: Sequence[Any]) -> str:
    """What to write in place of a pin that cannot be had: the nearest of what can.

    >>> suggest_pin("width", 16, [1, 2, 4]), suggest_pin("tile", [4, 4], [])
    ("the nearest that can be is 'width: 4'", "leave 'tile' out")
    """
    if not known:
        return f"leave '{name}' out"
    return f"the nearest that can be is {say_pin(name, min(known, key=lambda v: distance(value, v)))}"


def say_known(values: Iterable[object]) -> str:
    """What can be had, each once.

    >>> say_known([8, 4, 8, [2, 4]])
    '8, 4, [2, 4]'
    """
    return ", ".join(dict.fromkeys(map(str, values)))
