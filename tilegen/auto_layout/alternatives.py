"""Every way in which a spec's ops could access a shared buffer, read off the plans that their variants consider.

The ops are planned with stand-ins for the layout, one for each form and each width of vectors that layouts keep whole;
whatever a variant hands over to be costed is an alternative. Addresses become element numbers again, which mean the
same under every layout of the form: an op never describes its accesses twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby

import numpy as np

from tilegen.access import RED
from tilegen.auto_layout.families import (
    VECTOR_BYTES,
    FamilyLayout,
    Ints,
    enumerate_form,
    place_elements,
    span_elems,
)
from tilegen.auto_layout.forms import Form
from tilegen.auto_layout.pin import family_of, follow, list_views, pin_layout, trace_dims
from tilegen.auto_layout.tile_access import TileAccess, fold, merge_rows
from tilegen.cost.accesses import Access, find_accesses
from tilegen.cost.asynchronous import WHOLE
from tilegen.cost.count import cost_of, list_lanes
from tilegen.decisions import Cost
from tilegen.dtypes import DTYPES
from tilegen.errors import SpecError
from tilegen.layouts import ComposeLayout, TileLayout
from tilegen.ops import OPS
from tilegen.ops.dispatch import attempt, refuse_pins
from tilegen.ops.op import Variant
from tilegen.ops.operand import Context, CountedSteps
from tilegen.ops.placement import place_memories
from tilegen.plan import Launch, Step
from tilegen.planner import survey_calls
from tilegen.spec.auto import AUTO
from tilegen.spec.data import Buffer, Call, Spec
from tilegen.spec.outline import outline


@dataclass(frozen=True, eq=False)
class Alternative:
    """One variant's plan of one call: its accesses of the buffer, and the costs that no layout of it changes."""

    call: Call
    number: int  # of the call
    variant: Variant
    accesses: tuple[TileAccess, ...]
    rest: Cost
    views: tuple[Buffer, ...] = ()  # from the buffer to the view that the call names
    raw: tuple[TileAccess, ...] = ()  # the accesses, none left out but what is the same once more

    @property
    def widest_elems(self) -> int:
        return max((a.width_elems for a in self.accesses), default=1)


def list_alternatives(
    spec: Spec, buffer: Buffer, form: Form, near: tuple[Form, Sequence[Alternative]] | None = None,
    is_enough: Callable[[Sequence[Alternative]], bool] = lambda found: False,
) -> tuple[Alternative, ...]:  # fmt: skip
    """The alternatives of every call that touches the buffer (or a view of it), over all widths of vectors.

    ``near``: a form with its alternatives, in place of asking those variants again that take any layout. ``is_enough``
    may end it after any width, the widest first, by what was found so far. It ends at a call that nothing carries out.
    """
    found: list[Alternative] = []
    ops = dict.fromkeys(call.op for call in outline(spec).calls)
    asked = [v for op in ops for v in OPS[op].variants if near is None or v.constrain]
    groups = [list(group) for _, group in groupby(_stand_ins(form, DTYPES[buffer.dtype].bytes), key=lambda s: s.change)]
    pinned: dict[TileLayout | ComposeLayout, Spec] = {}
    for group in groups:
        widest = None
        for s in group:  # wide vectors first: where the widest are not used, forbidding them changes nothing
            if widest is None or s.kept_elems < widest:
                some = [v for v in asked if not (found and v.adapts)]  # these need not be asked again
                if s.layout not in pinned:
                    pinned[s.layout] = pin_layout(spec, buffer.name, s.layout)
                if group is not groups[0] and not _has_place(pinned[s.layout]):
                    continue  # padded it has no room beside the other buffers
                heard: list[Alternative] = []
                for call, context, own in _listen(pinned[s.layout], buffer, s, some):
                    heard += own
                    is_first = near is None and len(groups) == 1 and widest is None
                    if is_first and not own and not list_hopes(call, context):
                        return _drop_repeated(heard)
                widest = max((a.widest_elems for a in heard if not a.variant.adapts), default=1)
                found += heard
                if is_enough(_drop_repeated(found)):
                    return _drop_repeated(found)
    found += _listen_for_taken(spec, buffer, form, found)
    if near is not None:
        before, others = near
        free = (_move(a, before, form, DTYPES[buffer.dtype].bytes) for a in others if not a.variant.constrain)
        found += [a for a in free if a is not None]
    return _drop_repeated(found)


def _has_place(spec: Spec) -> bool:
    """Do the spec's shared buffers fit?"""
    try:
        place_memories(spec)
    except SpecError:
        return False
    return True


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


def list_indexed_dims(spec: Spec, buffer: Buffer) -> list[set[int]]:
    """For each region of the buffer or of a view of it: the buffer's dimensions of which it has one element."""
    found = []
    for call, _ in touched_calls(spec, buffer.name):
        for r in call.regions.values():
            if r.buffer.root == buffer.name:
                dims = trace_dims(buffer, list_views(spec, r.buffer.name))
                found.append({d for d, n in zip(dims, r.lengths, strict=True) if n == 1 and d >= 0})
    return found


def list_accesses(
    spec: Spec, context: Context, steps: Iterable[Step], buffer: Buffer, f: FamilyLayout
) -> list[TileAccess]:
    """The accesses that the planned steps of a call make of a buffer with layout ``f``, in the numbers of its form."""
    names, stand_in = family_of(spec, buffer.name), _stand_in(f, 1)
    accesses = find_accesses(context.enclose(tuple(steps)), context.launch.threads, context.launch.cluster)
    own = (_to_elements(a, context.launch, stand_in)[1] for a in accesses if _depends(a, names))
    return [a for a in own if a.instructions]


def find_taken(
    buffer: Buffer, form: Form, variant: Variant, call: Call, views: Sequence[Buffer]
) -> FamilyLayout | None:  # fmt: skip
    """The first layout of a form that a variant which takes some layouts alone takes for a call."""
    assert variant.constrain is not None
    tried = zip(enumerate_form(form, DTYPES[buffer.dtype].bytes), tiles_of(form, buffer, views), strict=True)
    return next((f for f, tile in tried if variant.constrain(call, tile) is None), None)


def tiles_of(form: Form, buffer: Buffer, views: Sequence[Buffer]) -> tuple[Buffer, ...]:
    """The last view of a buffer with each layout of a form."""
    bare, *others = (replace(b, layout=AUTO, layout_text="") for b in (buffer, *views))
    return _make_tiles(form, bare, tuple(others))


@lru_cache(maxsize=64)
def _make_tiles(form: Form, buffer: Buffer, views: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
    """``tiles_of``, whatever layouts the buffers have: the same for all variants and calls."""
    found = enumerate_form(form, DTYPES[buffer.dtype].bytes)
    return tuple(follow(replace(buffer, layout=f.layout), views) for f in found)


# ---------------------------------------------------------------- stand-ins
@dataclass(frozen=True, eq=False)
class _StandIn:
    """A layout, taken to keep aligned vectors of up to ``kept_elems``, and the element at each of its addresses."""

    change: str
    kept_elems: int
    layout: TileLayout | ComposeLayout
    form: Form
    elements: Ints
    known: dict[tuple[Access, Launch], tuple[TileAccess, TileAccess]] = field(default_factory=dict)


@lru_cache(maxsize=64)
def _stand_ins(form: Form, size: int) -> list[_StandIn]:
    """A form dense and padded, each for every width that one of its layouts keeps; wide ones first.

    Where the innermost digit is whole vectors, dense and padded tiles allow the same accesses, and the dense ones speak
    for both.
    """
    most = max(1, VECTOR_BYTES // size)
    dense, *others = enumerate_form(form, size)
    dense_one = _stand_in(dense, most)
    narrow = sorted({min(most, 1 << f.bits[0]) for f in others if f.change == "swizzle"} - {most}, reverse=True)
    found = [dense_one, *(replace(dense_one, kept_elems=kept) for kept in narrow)]
    if form.extents[-1] % most == 0:
        return found
    padded = {_kept_by_strides(f, most): f for f in reversed(others) if f.change == "padding"}
    return found + [_stand_in(padded[k], k) for k in sorted(padded, reverse=True)]


def _kept_by_strides(f: FamilyLayout, most: int) -> int:
    """The widest power of two, up to ``most``, that divides every stride but the last."""
    together = int(np.gcd.reduce([most, *f.strides[:-1]]))
    return together & -together


def _stand_in(f: FamilyLayout, kept: int) -> _StandIn:
    extents = f.form.extents
    numbers = np.arange(f.form.elems)
    elements = np.full(span_elems(f, extents), -1, np.int64)
    elements[place_elements([f], extents, numbers)[0]] = numbers
    return _StandIn(f.change, kept, f.layout, f.form, elements)


# ---------------------------------------------------------------- listening
def _listen(
    spec: Spec, buffer: Buffer, stand_in: _StandIn, asked: Sequence[Variant], only: int | None = None
) -> Iterator[tuple[Call, Context, list[Alternative]]]:
    """What the variants that are asked cost with a stand-in, one call after the other, or of one call ``only``."""
    names = family_of(spec, buffer.name)
    kept = dict.fromkeys(names, stand_in.kept_elems)
    for number, (call, context) in enumerate(touched_calls(spec, buffer.name)):
        if only not in (None, number):
            continue
        context, found = replace(context, kept_elems=kept), list[Alternative]()
        views = views_of(spec, buffer, call)
        for variant in [v for v in OPS[call.op].variants if v in asked]:
            for counted in _hear(call, context, variant):
                both = [_to_elements(a, context.launch, stand_in) for a, _ in counted.accesses if _depends(a, names)]
                both = [(raw, few) for raw, few in both if few.instructions]  # the costed CTA may make none
                raws, folded = (tuple(side) for side in zip(*both, strict=True)) if both else ((), ())
                found.append(Alternative(call, number, variant, folded, _cost_beside(counted, names), views, raws))
        yield call, context, found


def _listen_for_taken(
    spec: Spec, buffer: Buffer, form: Form, found: Sequence[Alternative]
) -> Iterator[Alternative]:  # fmt: skip
    """What variants cost that take some layouts alone, and of this form not the dense one: with the first they take."""
    heard = {(a.number, a.variant.name) for a in found}
    for number, (call, context) in enumerate(touched_calls(spec, buffer.name)):
        for variant in list_hopes(call, context):
            if variant.constrain and (number, variant.name) not in heard:
                f = find_taken(buffer, form, variant, call, views_of(spec, buffer, call))
                if f is not None:
                    stand_in = _stand_in(f, max(1, VECTOR_BYTES // DTYPES[buffer.dtype].bytes))
                    pinned = pin_layout(spec, buffer.name, f.layout)
                    yield from (a for *_, own in _listen(pinned, buffer, stand_in, [variant], number) for a in own)


def views_of(spec: Spec, buffer: Buffer, call: Call) -> tuple[Buffer, ...]:
    """From a buffer to the view of it that a call names."""
    return list_views(spec, next(r.buffer.name for r in call.regions.values() if r.buffer.root == buffer.name))


def list_hopes(call: Call, context: Context) -> list[Variant]:
    """What may carry out a call that nothing does with the dense layout of a form, with another one of it or with its
    panels: variants that make their accesses for the layout, and those that take some layouts alone.
    """
    return [v for v in list_ways(call, context) if v.adapts or v.constrain]


def list_ways(call: Call, context: Context) -> list[Variant]:
    """The variants that may carry out a call, for all that is known before any layout is looked at."""
    return [v for v in OPS[call.op].variants if _is_allowed(call, v) and v.refuse(call, context) is None]


def _is_allowed(call: Call, variant: Variant) -> bool:
    return getattr(call.fields, "variant", "auto") in ("auto", variant.name) and refuse_pins(call, variant) is None


def _hear(call: Call, context: Context, variant: Variant) -> Sequence[CountedSteps]:
    """What a variant has costed on its way to a plan; nothing if it refuses, or another one is pinned."""
    if not _is_allowed(call, variant):
        return ()
    planned = attempt(variant, call, context).planned
    return planned.counted or (CountedSteps(),) if planned else ()


def _depends(a: Access, names: frozenset[str]) -> bool:
    """Whether an access is the buffer's own and costs what its layout makes of it; TMA's boxes cost the same in all."""
    return a.memory.name in names and a.kind not in WHOLE


def _to_elements(a: Access, launch: Launch, stand_in: _StandIn) -> tuple[TileAccess, TileAccess]:
    """The access in elements of the stand-in's form: each warp's, and folded."""
    if (a, launch) not in stand_in.known:
        (offsets, *sources), weights = list_lanes(a, launch, launch.interior)
        size = a.memory.elem_bytes
        inside = offsets // size % len(stand_in.elements)  # past the end too: a proof refuses that
        elements = np.where(offsets >= 0, stand_in.elements[inside], -1)
        kind = "st" if a.kind == RED else a.kind  # a layout has no say in which lanes update one element
        raw = merge_rows(TileAccess(kind, a.width_bytes // size, elements, weights, sources[0] if sources else None))
        stand_in.known[a, launch] = raw, fold(raw, stand_in.form.extents, size)
    return stand_in.known[a, launch]


def renumber(a: TileAccess, before: Form, after: Form, elem_bytes: int) -> TileAccess | None:
    """The same access in the numbers of another form, folded; None where that cuts a vector.

    >>> from tilegen.auto_layout.tile_access import tile_access
    >>> rows, columns = Form((4, 8), (0, 1)), Form((4, 8), (1, 0))
    >>> first = [8 * (lane % 4) for lane in range(32)]
    >>> renumber(tile_access("ld", 1, first), rows, columns, 4).elements[0, :5].tolist()
    [0, 1, 2, 3, 0]
    >>> renumber(tile_access("ld", 4, first), rows, columns, 4)
    """
    to = before.numbers_in(after)
    starts = a.elements[a.elements >= 0]
    vectors = to[starts[:, None] + np.arange(a.width_elems)]
    if (np.diff(vectors, axis=1) != 1).any():
        return None
    return fold(replace(a, elements=np.where(a.elements >= 0, to[a.elements], -1)), after.extents, elem_bytes)


def _move(a: Alternative, before: Form, after: Form, elem_bytes: int) -> Alternative | None:
    """An alternative in the numbers of another form, or None where that cuts one of its vectors."""
    moved = [renumber(one, before, after, elem_bytes) for one in a.raw]
    if None in moved:
        return None
    return replace(a, accesses=tuple(one for one in moved if one is not None))


def _cost_beside(counted: CountedSteps, names: frozenset[str]) -> Cost:
    """The cost of everything but the wavefronts of the buffer's own accesses, and the sectors that cp.async reads."""
    whole = counted.cost
    own = cost_of(c for a, c in counted.accesses if any(side and _depends(side, names) for side in (a, a.partner)))
    return Cost(whole.sectors - own.sectors, whole.wavefronts - own.wavefronts, whole.instructions)


def _drop_repeated(found: Iterable[Alternative]) -> tuple[Alternative, ...]:
    """Alternatives of one call that do the same at the same cost, once; those of one call side by side."""
    kept: dict[tuple[object, ...], Alternative] = {}
    for a in found:
        kept.setdefault((a.number, a.variant.name, a.rest.key, tuple(one.everything for one in a.accesses)), a)
    return tuple(sorted(kept.values(), key=lambda a: a.number))
