"""What may be tried of a spec: values of its params, recipes of its op on whole arrays, and ways of single ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import Any

from tilegen.decisions import Choice
from tilegen.errors import Diagnostic, InputError, SpecError
from tilegen.near_words import suggest
from tilegen.ops import find_op
from tilegen.ops.op import Op
from tilegen.pipeline import settle
from tilegen.planner import plan_spec
from tilegen.spec.data import Call, Spec, WholeCall
from tilegen.spec.outline import outline
from tilegen.spec.pinning import Pins, pin_text, spell
from tilegen.spec.program import Program
from tilegen.spec.sources import NamedText
from tilegen.tuned import key_of, read_spec

MOST_ASSIGNMENTS = 4096  # of values to params, those nearest to the first ones
_LAYOUT = "layout of "  # a question of auto_layout
_PARTITION = "partition"
_ASIDE = "reported beside"  # how verdicts begin on layouts that no spec says


@dataclass(frozen=True)
class Candidate:
    """One way to build a spec: its pins, the text with them, its key, and the model's microseconds where it has some.

    ``params``: the values of params that are tried, which ``pins`` has among others.
    """

    name: str
    pins: Pins
    text: NamedText
    key: str
    estimate_us: float | None = None


@dataclass(frozen=True)
class LeftOut:
    """What cannot be built of a spec, and why: the first line of the error."""

    name: str
    why: str


def list_choices(spec: Spec | Program, over: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """The values that params may have, the one that a plain build takes first.

    ``over``: of params that are known when the kernel is built, instead of their choices. Raises InputError TG610 for
    another param.
    """
    known = {c.name: c for c in spec.constants}
    found = {c.name: c.choices for c in spec.constants if len(c.choices) > 1}
    for name, values in over.items():
        if name in known:
            own = known[name].value
            found[name] = (*(v for v in values if v == own), *(v for v in dict.fromkeys(values) if v != own))
            continue
        if any(p.name == name for p in spec.params):
            message = f"--over {name}: '{name}' is given at the launch, so no kernel is built anew for it"
            hint = f"`--set {name}=N` measures at another size; --over takes what is known when a kernel is built"
        else:
            message, hint = f"--over {name}: there is no param '{name}'", suggest(name, list(known))
        raise InputError(Diagnostic("TG610", message, hint=hint))
    return found


def list_assignments(choices: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """One value for each param, those first that differ least from the first values; MOST_ASSIGNMENTS at most.

    >>> list_assignments({"T": (64, 128), "R": (1, 2)})
    [{'T': 64, 'R': 1}, {'T': 64, 'R': 2}, {'T': 128, 'R': 1}, {'T': 128, 'R': 2}]
    """
    near = islice(_list_near([len(values) for values in choices.values()]), MOST_ASSIGNMENTS)
    return [{n: choices[n][k] for n, k in zip(choices, at, strict=True)} for at in near]


def count_assignments(choices: Mapping[str, Sequence[int]]) -> int:
    """How many there are.

    >>> count_assignments({"T": (64, 128), "R": (1, 2)})
    4
    """
    return prod(len(values) for values in choices.values())


def _list_near(extents: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Places in a box by the sum of their coordinates, without going through all of them first."""
    for total in range(sum(n - 1 for n in extents) + 1):
        yield from _list_with_sum(extents, total)


def _list_with_sum(extents: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    if not extents:
        if total == 0:
            yield ()
        return
    most = sum(n - 1 for n in extents[1:])
    for first in range(max(0, total - most), min(extents[0] - 1, total) + 1):
        yield from ((first, *rest) for rest in _list_with_sum(extents[1:], total - first))


def find_whole(spec: Spec) -> WholeCall | None:
    """The op on whole arrays that a spec is, or None."""
    return next((s for s in spec.ops if isinstance(s, WholeCall)), None)


def _has_partition(call: Call) -> bool:
    op = find_op(call.op)
    return isinstance(op, Op) and _PARTITION in type(call.fields).model_fields


# ---------------------------------------------------------------- a candidate of pins
def read_pinned(base: Spec | Program, pins: Pins) -> Spec | Program:
    """The spec with these pins in its text. Raises SpecError where that is refused."""
    return read_spec(NamedText(base.path, pin_text(base.text, pins)))


def candidate_of(spec: Spec | Program, pins: Pins, name: str, estimate_us: float | None) -> Candidate:
    """The candidate that a spec is which has its pins in its text."""
    return Candidate(name, pins, NamedText(spec.path, spec.text), key_of(spec), estimate_us)


def name_pins(params: Mapping[str, int], fields: Mapping[str, Any]) -> str:
    """Values of params and fields of an op, in a line.

    >>> name_pins({"T": 64}, {"tile": [64, 128, 64], "stages": 4})
    'T = 64, tile: [64, 128, 64], stages: 4'
    """
    said = [f"{name} = {value}" for name, value in params.items()]
    return ", ".join([*said, *(f"{name}: {spell(value)}" for name, value in fields.items())]) or "as it is built"


# ---------------------------------------------------------------- one op or layout more
def vary(candidate: Candidate) -> list[Candidate]:
    """The same with one more op, or one more layout, taken otherwise: those that a chooser costed, the cheapest first.

    Of kernels of tile ops alone: of an op on whole arrays, and of passes, there are none.
    """
    spec = read_spec(candidate.text)
    if isinstance(spec, Program) or find_whole(spec) is not None:
        return []
    settled = settle(spec)
    plan = plan_spec(settled)
    calls = outline(spec).calls
    said = dict(enumerate(dict(fields) for _, fields in candidate.pins.ops)) or {k: {} for k in range(len(calls))}
    found: list[tuple[tuple[int, ...], Pins, str]] = []
    for name, text, cost in _list_layouts(settled.choices):
        if name not in candidate.pins.layouts:
            pins = replace(candidate.pins, layouts={**candidate.pins.layouts, name: text})
            found.append((cost, pins, f"{name}: {text}"))
    for number, operation in enumerate(plan.operations):
        if not _has_partition(calls[number]) or _PARTITION in said[number]:
            continue
        for order, cost in _list_partitions(operation.choices):
            fields = {k: own | ({_PARTITION: order} if k == number else {}) for k, own in said.items()}
            pins = replace(candidate.pins, ops=[(calls[k].op, fields[k]) for k in range(len(calls))])
            found.append((cost, pins, f"op {number + 1} {_PARTITION}: {order}"))
    out: dict[str, Candidate] = {}
    for _, pins, words in sorted(found, key=lambda one: one[0]):
        try:
            name = f"{candidate.name}; {words}"
            one = candidate_of(read_pinned(spec, pins), pins, name, candidate.estimate_us)
        except SpecError:
            continue  # what one op could be alone, this spec refuses
        out.setdefault(one.key, one)
    return list(out.values())


def _list_layouts(choices: Sequence[Choice]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Layouts of shared buffers that were costed and not taken."""
    for choice in choices:
        if choice.question.startswith(_LAYOUT):
            name = choice.question.removeprefix(_LAYOUT)
            for c in choice.candidates:
                if c.cost is not None and c.value != choice.picked and not c.verdict.startswith(_ASIDE):
                    yield name, str(c.value), c.cost.layout_key


def _list_partitions(choices: Sequence[Choice]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Orders in which threads may take elements, that were costed and not taken."""
    for choice in choices:
        if choice.question == _PARTITION and isinstance(choice.picked, Mapping):
            for c in choice.candidates:
                if c.cost is not None and c.value != choice.picked.get("order"):
                    yield str(c.value), c.cost.partition_key
