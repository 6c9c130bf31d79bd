"""What layouts of one form cost, by the alternatives of the ops: all of them at once, none planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tilegen.auto_layout.alternatives import Alternative, shape_of, tiles_of
from tilegen.auto_layout.families import FamilyLayout, Ints, span_elems
from tilegen.auto_layout.forms import Form
from tilegen.auto_layout.tile_access import count_costs, count_floor, count_least_sectors
from tilegen.decisions import Cost
from tilegen.dtypes import DTYPES
from tilegen.index import Index, count_operators
from tilegen.index.runs import counter
from tilegen.spec.data import Buffer

_SECTORS, _WAVEFRONTS, _SHARED_BYTES = (
    [f.name for f in fields(Cost)].index(name) for name in ("sectors", "wavefronts", "shared_bytes")
)

_CUT, _NOT_COUNTED = -1, -2  # a layout that cuts a vector, and one that nobody has asked about yet

Counts = dict[tuple[object, ...], Ints]  # by all that an access is: wavefronts and sectors of each layout, (2, layouts)


@dataclass(frozen=True)
class Costed:
    """A layout with its cost; ``reason`` says why it cannot serve, if so, and there is no cost then."""

    layout: FamilyLayout
    cost: Cost
    reason: str = ""


def sort_estimates(buffer: Buffer, estimates: Sequence[Costed]) -> list[int]:
    """The numbers of the layouts that can serve: the least estimate first, among equals rows before other forms.

    Among the best in rows come first those with the plainest addresses, then those in other forms likewise.
    """
    order = sorted((k for k, e in enumerate(estimates) if not e.reason), key=lambda k: estimates[k].cost.layout_key)
    equal = sum(estimates[k].cost.layout_key == estimates[order[0]].cost.layout_key for k in order)
    best = sorted(order[:equal], key=lambda k: _plainness(estimates[k].layout, shape_of(buffer)))
    return [*best, *order[equal:]]


def _plainness(f: FamilyLayout, shape: tuple[int, ...]) -> tuple[bool, int]:
    return not f.form.is_rows, count_place_operators(f, shape, 1)


def estimate_layouts(
    buffer: Buffer, layouts: Sequence[FamilyLayout], alternatives: Sequence[Alternative], room_bytes: int
) -> list[Costed]:
    """For every layout of one form the sum over the calls of the least alternative, or why it cannot serve.

    ``layouts``: all of the form.
    """
    form, size = layouts[0].form, DTYPES[buffer.dtype].bytes
    spans = [span_elems(f, form.extents) * size for f in layouts]
    reasons = [f"{n} bytes where {room_bytes} are left" * (n > room_bytes) for n in spans]
    total = np.zeros((len(layouts), len(fields(Cost))), np.int64)
    total[:, _SHARED_BYTES] = spans
    counted = _known_counts(form, size)
    for _, group in groupby(alternatives, key=lambda a: a.number):
        ways = list(group)
        least, serves = np.full_like(total, np.iinfo(np.int64).max), np.zeros(len(layouts), bool)
        refused: dict[str, list[str]] = {}
        bounds = [bound_alternative(form, size, a).key for a in ways]
        for k in sorted(range(len(ways)), key=bounds.__getitem__):
            asked = ~serves | _is_less(np.broadcast_to(bounds[k], least.shape), least)
            if not asked.any():
                break  # neither this one nor those after it are less under any layout
            own, fits = _count_alternative(buffer, layouts, ways[k], asked, counted, refused)
            better = fits & (~serves | _is_less(own, least))
            least[better] = own[better]
            serves |= fits
        total[serves] += least[serves]
        for k in np.flatnonzero(~serves).tolist():
            reasons[k] = reasons[k] or _why_not(layouts[k], ways[0], k, counted, refused)
    return [Costed(f, Cost(*row), why) for f, row, why in zip(layouts, total.tolist(), reasons, strict=True)]


def bound_alternative(form: Form, elem_bytes: int, a: Alternative) -> Cost:
    """What an alternative costs at least, under whatever layout of a form: without a conflict."""
    least = Cost(count_least_sectors(elem_bytes, a.accesses), count_floor(form.extents, elem_bytes, a.accesses))
    return add_costs(a.rest, least)


@lru_cache(maxsize=64)
def _known_counts(form: Form, elem_bytes: int) -> Counts:
    """What accesses of such a tile cost under every layout of its form, filled as they are counted."""
    return {}


def _is_less(a: Ints, b: Ints) -> NDArray[np.bool_]:
    """Which rows of ``a`` come before those of ``b``, their first columns compared first."""
    differs = a != b
    first = differs.argmax(axis=1)
    each = np.arange(len(a))
    return np.asarray(differs.any(axis=1) & (a[each, first] < b[each, first]))


def _count_alternative(
    buffer: Buffer, layouts: Sequence[FamilyLayout], a: Alternative, asked: NDArray[np.bool_], counted: Counts,
    refused: dict[str, list[str]],
) -> tuple[Ints, NDArray[np.bool_]]:  # fmt: skip
    """The cost of one alternative under every layout (the fields of Cost, a row each), and under which of the layouts
    that are ``asked`` about it is one.

    What is known of accesses and of variants is in ``counted`` and ``refused``, and is put there.
    """
    shape, size = layouts[0].form.extents, DTYPES[buffer.dtype].bytes
    costs = np.tile(np.array(a.rest.key, np.int64), (len(layouts), 1))
    fits = asked.copy()
    if a.variant.adapts:
        costs[:, _WAVEFRONTS] += count_floor(shape, size, a.accesses)
    else:
        for one in a.accesses:
            if one.everything not in counted:
                counted[one.everything] = np.full((2, len(layouts)), _NOT_COUNTED, np.int64)
            both = counted[one.everything]
            missing = np.flatnonzero(asked & (both[0] == _NOT_COUNTED))
            if len(missing):
                both[:, missing] = np.stack(count_costs([layouts[k] for k in missing.tolist()], shape, size, [one]))[
                    :, :, 0
                ]
            fits &= both[0] >= 0
            costs[:, _WAVEFRONTS] += both[0]
            costs[:, _SECTORS] += both[1]
    if a.variant.constrain:
        if a.variant.name not in refused:
            whys = (a.variant.constrain(a.call, tile) for tile in tiles_of(layouts[0].form, buffer, a.views))
            refused[a.variant.name] = [why or "" for why in whys]
        fits &= ~np.array(refused[a.variant.name], bool)
    return costs, fits


def _why_not(f: FamilyLayout, a: Alternative, k: int, counted: Counts, refused: Mapping[str, Sequence[str]]) -> str:
    """Why layout number ``k`` cannot serve an alternative: a vector that it cuts, or what the variant says."""
    if not a.variant.adapts:
        for one in a.accesses:
            if counted[one.everything][0, k] == _CUT:
                return f"it cuts a vector of {one.width_elems} elements"
    return refused[a.variant.name][k]


def add_costs(a: Cost, b: Cost) -> Cost:
    return Cost(*(x + y for x, y in zip(a.key, b.key, strict=True)))


def count_place_operators(f: FamilyLayout, shape: tuple[int, ...], width_elems: int) -> int:
    """Operators in the address of the vector at row-major coordinates, as it would be printed.

    >>> from tilegen.auto_layout.families import enumerate_layouts
    >>> [count_place_operators(f, (32, 32), 1) for f in enumerate_layouts((32, 32), 4)[:2]]
    [2, 2]
    """
    at: list[Index] = [counter(f"x{d}", n) for d, n in enumerate(shape)]
    if width_elems > 1 and shape[-1] % width_elems == 0:
        vectors = shape[-1] // width_elems
        at[-1] = counter("vector", vectors, width_elems)
    return count_operators(f.layout.place(at, shape)["m"])
