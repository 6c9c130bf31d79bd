"""Where what a kernel wrote differs: the element, who wrote it, and what the elements that differ have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilegen import layouts
from tilegen.errors import Mark
from tilegen.index import bound, evaluate, variables
from tilegen.proofs.described_faults import mark_of
from tilegen.proofs.owned_boxes import Owned, written_boxes
from tilegen.reference import Array
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.spec.data import Buffer, Spec
from tilegen.spec.outline import outline

_MOST_PLACES = 1 << 22  # CTAs times trips among which a writer is looked for
_FEW = 4  # elements that are named one by one


@dataclass(frozen=True)
class Mismatch:
    """The first element that differs: in words, the op that wrote it, its CTA, and the pattern of all that differ."""

    element: str
    writer: str
    pattern: str
    mark: Mark | None


def describe_difference(
    spec: Spec, case: Mapping[str, int], name: str, wrong: Array, compared: Array
) -> Mismatch:  # fmt: skip
    """What is known of elements that differ, by their offsets; ``compared``: those of all that were looked at."""
    buffer = spec.buffer(name)
    shape = tuple(int(evaluate(n, dict(case))) for n in buffer.shape)
    offsets = places_of(buffer, case).ravel()
    order = np.argsort(offsets, kind="stable")
    flat = order[np.searchsorted(offsets[order], wrong)]
    every = order[np.searchsorted(offsets[order], compared)]
    first = tuple(int(x) for x in np.unravel_index(flat[0], shape))
    found = find_writer(spec, name, first, case)
    writer, mark = "", buffer.mark
    if found is not None:
        op, cta = found
        mark = mark_of(spec, op)
        writer = f"op {op + 1}, {outline(spec).calls[op].op}, of CTA {cta}"
    coordinates = np.stack(np.unravel_index(flat, shape)), np.stack(np.unravel_index(every, shape))
    return Mismatch(f"{name}{list(first)}", writer, say_pattern(*coordinates), mark)


def places_of(buffer: Buffer, case: Mapping[str, int]) -> Array:
    """The offset of each element of a buffer, in its logical shape."""
    shape = tuple(int(evaluate(n, dict(case))) for n in buffer.shape)
    place = layouts.bind(buffer.layout, dict(case)).place(list(np.indices(shape, sparse=True)), shape)
    return np.broadcast_to(np.asarray(place["m"], np.int64), shape)


def find_writer(
    spec: Spec, name: str, element: Sequence[int], case: Mapping[str, int]
) -> tuple[int, tuple[int, int, int]] | None:
    """The last call, by its number, whose box has an element, and the first CTA of which that is so.

    None where no box is of the array itself, where tables say where boxes lie, or where there are too many to look at.
    """
    for owned in reversed([o for o in written_boxes(spec) if o.memory.name == name and len(o.start) == len(element)]):
        if (cta := _first_cta(spec, owned, element, case)) is not None:
            return owned.op, cta
    return None


def _first_cta(
    spec: Spec, owned: Owned, element: Sequence[int], case: Mapping[str, int]
) -> tuple[int, int, int] | None:
    params = dict(case)
    if any(v.name not in params for n in spec.grid for v in variables(n)):  # a launch decides how many CTAs there are
        return None
    grid = [int(evaluate(n, params)) for n in spec.grid]
    counts = [*grid[::-1], *(int(bound(count)) - 1 for _, count in owned.loops)]
    if prod(counts) > _MOST_PLACES:
        return None
    axes = np.meshgrid(*(np.arange(n) for n in counts), indexing="ij", sparse=True)
    names = [*CTA_AXES[::-1], *(var.name for var, _ in owned.loops)]
    env: dict[str, Any] = {**params, **dict(zip(names, axes, strict=True))}
    env |= {c: env[axis] % n for axis, c, n in zip(CTA_AXES, CLUSTER_AXES, spec.cluster, strict=True)}
    placed = (*owned.start, *(count for _, count in owned.loops))
    if any(v.name not in env for x in placed for v in variables(x)):  # an element of a table says where it lies
        return None
    holds: Any = np.ones(counts, bool)
    for start, length, at in zip(owned.start, owned.box, element, strict=True):
        begin = evaluate(start, env)
        holds = holds & (begin <= at) & (at < begin + length)
    for var, count in owned.loops:
        holds = holds & (env[var.name] < evaluate(count, env))
    if all(v.name in env for v in variables(owned.condition)):
        holds = holds & np.asarray(evaluate(owned.condition, env), bool)
    if not holds.any():
        return None
    z, y, x, *_ = np.unravel_index(int(np.argmax(holds)), holds.shape)
    return int(x), int(y), int(z)


def say_pattern(wrong: Array, compared: Array) -> str:
    """What the coordinates of elements that differ have in common, a column for each element.

    >>> every = np.stack(np.unravel_index(np.arange(64), (8, 8)))
    >>> say_pattern(every[:, 8:16], every), say_pattern(every[:, 1::2], every)
    ('8 of 64 elements: all of [1, :]', '32 of 64 elements: all of [:, 1::2]')
    >>> say_pattern(every, every), say_pattern(every[:, [3, 12]], every)
    ('all 64 elements', '2 of 64 elements: [0, 3], [1, 4]')
    """
    count, total = wrong.shape[1], compared.shape[1]
    if count == total:
        return f"all {total} elements" if total > 1 else "the only element"
    runs = [_say_run(w, np.unique(c)) for w, c in zip(map(np.unique, wrong), compared, strict=True)]
    box = np.ones(total, bool)
    for own, all_of in zip(wrong, compared, strict=True):
        box &= np.isin(all_of, np.unique(own))
    said = f"{count} of {total} elements"
    if count == 1:
        return said
    if all(runs) and box.sum() == count:
        return f"{said}: all of [{', '.join(runs)}]"
    if count <= _FEW:
        return f"{said}: {', '.join(str([int(x) for x in column]) for column in wrong.T)}"
    return f"{said}, from {[int(x) for x in wrong.min(1)]} to {[int(x) for x in wrong.max(1)]}"


def _say_run(own: Array, every: Array) -> str:
    """Values along a dimension as a slice, ':' where they are all that there are; "" where they are no slice."""
    if len(own) == len(every):
        return ":"
    if len(own) == 1:
        return str(int(own[0]))
    steps = np.diff(own)
    if (steps != steps[0]).any():
        return ""
    step, last = int(steps[0]), int(own[-1])
    first = str(int(own[0])) if own[0] > every[0] else ""
    stop = "" if last + step > every[-1] else str(last + 1)
    return f"{first}:{stop}" + (f":{step}" if step > 1 else "")
