"""Every way in which a spec's ops could access a shared buffer, read off the plans that their variants consider.

The ops are planned with stand-ins for the layout, one for each width of vectors that layouts keep whole; whatever a
variant hands over to be costed is an alternative. Addresses become element numbers again, which mean the same under
every layout: an op never describes its accesses twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from math import prod

import numpy as np

from tilegen.auto_layout.families import FamilyLayout, Ints, enumerate_layouts, place_elements, span_elems
from tilegen.auto_layout.pin import family_of, pin_layout
from tilegen.auto_layout.tile_access import TileAccess, fold
from tilegen.cost.accesses import Access, find_accesses
from tilegen.cost.boxes import TMA
from tilegen.cost.count import Counted, cost_of, list_lanes
from tilegen.decisions import Cost
from tilegen.dtypes import DTYPES
from tilegen.layouts import ComposeLayout, TileLayout
from tilegen.ops import OPS
from tilegen.ops.dispatch import attempt
from tilegen.ops.op import Variant
from tilegen.ops.operand import Context
from tilegen.plan import Launch, Step
from tilegen.planner import survey_calls
from tilegen.spec.data import Buffer, Call, Spec

_VECTOR_BYTES = 16  # the widest access of one thread


@dataclass(frozen=True, eq=False)
class Alternative:
    """One variant's plan of one call: its accesses of the buffer, and the costs that no layout of it changes."""

    call: Call
    number: int  # of the call
    variant: Variant
    accesses: tuple[TileAccess, ...]
    rest: Cost

    @property
    def widest_elems(self) -> int:
        return max((a.width_elems for a in self.accesses), default=1)


def list_alternatives(spec: Spec, buffer: Buffer) -> tuple[Alternative, ...]:
    """The alternatives of every call that touches the buffer (or a view of it), over all widths of vectors."""
    found: list[Alternative] = []
    for _, group in groupby(_stand_ins(shape_of(buffer), DTYPES[buffer.dtype].bytes), key=lambda s: s.family):
        widest = None
        for s in group:  # wide vectors first: where the widest are not used, forbidding them changes nothing
            if widest is None or s.kept_elems < widest:
                heard = _listen(pin_layout(spec, buffer.name, s.layout), buffer, s, adapting=not found)
                widest = max((a.widest_elems for a in heard if not a.variant.adapts), default=1)
                found += heard
    return _drop_repeated(found)


def touched_calls(spec: Spec, name: str) -> tuple[tuple[Call, Context], ...]:
    """The calls that touch a buffer or a view of it, with their surroundings."""
    family = family_of(spec, name)
    return tuple(
        (call, context)
        for call, context in survey_calls(spec)
        if family & {r.buffer.name for r in call.regions.values()}
    )


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    """The extents of a shared buffer: numbers."""
    return tuple(int(n) for n in buffer.shape)  # type: ignore[arg-type]


def list_accesses(
    spec: Spec, context: Context, steps: Iterable[Step], buffer: Buffer, f: FamilyLayout
) -> list[TileAccess]:
    """The accesses that the planned steps of a call make of a buffer with layout ``f``."""
    names, stand_in = family_of(spec, buffer.name), _stand_in(f, shape_of(buffer), f.family, 1)
    accesses = find_accesses(context.enclose(tuple(steps)), context.launch.threads, context.launch.cluster)
    own = (_to_elements(a, context.launch, stand_in) for a in accesses if _depends(a, names))
    return [a for a in own if a.instructions]


# ---------------------------------------------------------------- stand-ins
@dataclass(frozen=True, eq=False)
class _StandIn:
    """A layout, taken to keep aligned vectors of up to ``kept_elems``, and the element at each of its addresses."""

    family: str
    kept_elems: int
    layout: TileLayout | ComposeLayout
    shape: tuple[int, ...]
    elements: Ints
    known: dict[tuple[Access, Launch], TileAccess] = field(default_factory=dict)


@lru_cache(maxsize=16)
def _stand_ins(shape: tuple[int, ...], size: int) -> list[_StandIn]:
    """Dense rows and padded ones, each for every width that a layout of the families keeps; wide ones first.

    Where rows are whole vectors, dense and padded rows allow the same accesses, and the dense ones speak for both.
    """
    most = max(1, _VECTOR_BYTES // size)
    dense, *others = enumerate_layouts(shape, size)
    dense_one = _stand_in(dense, shape, "dense", most)
    narrow = sorted({min(most, 1 << f.bits[0]) for f in others if f.family == "swizzle"} - {most}, reverse=True)
    found = [dense_one, *(replace(dense_one, kept_elems=kept) for kept in narrow)]
    if shape[-1] % most == 0:
        return found
    padded = {_kept_by_strides(f, most): f for f in reversed(others) if f.family == "padding"}
    return found + [_stand_in(padded[k], shape, "padding", k) for k in sorted(padded, reverse=True)]


def _kept_by_strides(f: FamilyLayout, most: int) -> int:
    """The widest power of two, up to ``most``, that divides every stride but the last."""
    together = int(np.gcd.reduce([most, *f.strides[:-1]]))
    return together & -together


def _stand_in(f: FamilyLayout, shape: tuple[int, ...], family: str, kept: int) -> _StandIn:
    elements = np.full(span_elems(f, shape), -1, np.int64)
    elements[place_elements([f], shape, np.arange(prod(shape)))[0]] = np.arange(prod(shape))
    return _StandIn(family, kept, f.layout, shape, elements)


# ---------------------------------------------------------------- listening
def _listen(spec: Spec, buffer: Buffer, stand_in: _StandIn, adapting: bool) -> list[Alternative]:
    """What all variants cost with a stand-in; those that adapt to layouts, ``adapting``, are not asked every time."""
    names, found = family_of(spec, buffer.name), []
    kept = dict.fromkeys(names, stand_in.kept_elems)
    for number, (call, context) in enumerate(touched_calls(spec, buffer.name)):
        context = replace(context, kept_elems=kept)
        for variant in [v for v in OPS[call.op].variants if adapting or not v.adapts]:
            for heard in _hear(call, context, variant):
                own = (_to_elements(a, context.launch, stand_in) for a, _ in heard if _depends(a, names))
                accesses = tuple(a for a in own if a.instructions)  # the CTA that is costed may make none
                found.append(Alternative(call, number, variant, accesses, _cost_beside(heard, names)))
    return found


def _hear(call: Call, context: Context, variant: Variant) -> Sequence[tuple[tuple[Access, Counted], ...]]:
    """What a variant has costed on its way to a plan; nothing if it refuses, or another one is pinned."""
    if getattr(call.fields, "variant", "auto") not in ("auto", variant.name):
        return ()
    made = attempt(variant, call, context)
    return made.heard if made.planned else ()


def _depends(a: Access, names: frozenset[str]) -> bool:
    """Whether an access is the buffer's own and costs what its layout makes of it; TMA's boxes cost the same in all."""
    return a.memory.name in names and a.kind != TMA


def _to_elements(a: Access, launch: Launch, stand_in: _StandIn) -> TileAccess:
    if (a, launch) not in stand_in.known:
        (offsets, *sources), weights = list_lanes(a, launch, launch.interior)
        size = a.memory.elem_bytes
        elements = np.where(offsets >= 0, stand_in.elements[offsets // size], -1)
        raw = TileAccess(a.kind, a.width_bytes // size, elements, weights, sources[0] if sources else None)
        stand_in.known[a, launch] = fold(raw, stand_in.shape, size)
    return stand_in.known[a, launch]


def _cost_beside(heard: Sequence[tuple[Access, Counted]], names: frozenset[str]) -> Cost:
    """The cost of everything but the wavefronts of the buffer's own accesses, and the sectors that cp.async reads."""
    whole = cost_of(c for _, c in heard)
    own = cost_of(c for a, c in heard if any(side and _depends(side, names) for side in (a, a.partner)))
    return Cost(whole.sectors - own.sectors, whole.wavefronts - own.wavefronts, whole.instructions)


def _drop_repeated(found: Iterable[Alternative]) -> tuple[Alternative, ...]:
    """Alternatives of one call that do the same at the same cost, once; those of one call side by side."""
    kept: dict[tuple[object, ...], Alternative] = {}
    for a in found:
        kept.setdefault((a.number, a.variant.name, a.rest.key, tuple(one.everything for one in a.accesses)), a)
    return tuple(sorted(kept.values(), key=lambda a: a.number))
