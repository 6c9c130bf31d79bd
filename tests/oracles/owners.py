"""Who owns which elements of a spec's arrays at all sizes: the boxes that it writes as sets of isl.

Nothing is tried and nothing is counted. A relation from elements to CTAs either has one CTA for each element, whatever
the sizes are, or isl has an element with two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from tests.oracles.affine import Affine, NotAffine, ask, isl
from tilegen.index import Index, Var, mod, substitute
from tilegen.layouts import Iter, TileLayout, row_major
from tilegen.ops import ALL_OPS, expand_spec
from tilegen.plan import Param
from tilegen.proofs.owned_boxes import Owned, written_boxes
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, thread_variables
from tilegen.spec import load
from tilegen.spec.auto import AUTO
from tilegen.spec.data import Buffer, Spec


@dataclass(frozen=True)
class Owners:
    """Of an array, at all sizes: sets of sizes at which an element has two owners, or none."""

    twice: Any
    bare: Any

    @property
    def is_once(self) -> bool:
        """Has each element one owning CTA at most?"""
        return bool(self.twice.is_empty())

    @property
    def is_covered(self) -> bool:
        """Has each element an owner?"""
        return bool(self.bare.is_empty())


def read_spec(path: Path) -> Spec:
    """A spec for its global arrays alone: layouts that would be chosen, which takes long, are row-major; in tensor
    memory all is one element.
    """
    spec = expand_spec(load(path, ALL_OPS))
    buffers = (replace(b, layout=_lay_out(b)) if b.layout is AUTO else b for b in spec.buffers)
    return replace(spec, buffers=tuple(buffers))


def _lay_out(buffer: Buffer) -> TileLayout:
    return TileLayout((Iter(1, 1, "TCol"),)) if buffer.traits.has_cells else row_major(buffer.shape)


def list_owners(spec: Spec, name: str) -> Owners:
    """The owners of one array. Raises NotAffine, and TooLong."""
    owns = [o for o in written_boxes(spec) if o.memory.name == name]
    if len({(o.memory.shape, o.memory.pitches) for o in owns}) > 1:
        raise NotAffine("views of several shapes")
    return ask(lambda: _compare(spec, owns))


def _compare(spec: Spec, owns: Sequence[Owned]) -> Owners:
    shape = owns[0].memory.shape
    owned = reduce(lambda s, t: s.union(t), [_relate(spec, o) for o in owns])  # of elements to CTAs
    other = owned.apply_range(isl.Map.lex_lt(owned.get_space().range()))
    twice = owned.intersect(other).params()
    form = Affine(_names(spec.params), _elements(shape))
    array = _sizes(form, spec)
    for e, n in zip(_elements(shape), shape, strict=True):
        array = array.intersect(form.within(Var(e, 1), 0, n))
    return Owners(twice, array.subtract(owned.domain()).params())


def _names(params: Sequence[Param]) -> list[str]:
    return [p.name for p in params if p.var is not None]


def _elements(shape: Sequence[Index]) -> list[str]:
    """Dimensions of sets for an element's place."""
    return [f"e{d}" for d in range(len(shape))]


def _sizes(form: Affine, spec: Spec) -> Any:
    """All sizes with which a spec can be launched: each parameter has a value, and there are CTAs."""
    found = reduce(lambda s, v: s.intersect(form.values_of(v, 1)), [p.var for p in spec.params if p.var], form.all)
    return reduce(lambda s, n: s.intersect(form.value(n).gt_set(form.value(0))), spec.grid, found)


def _relate(spec: Spec, owned: Owned) -> Any:
    """The elements of a box, each with its CTA, over all CTAs, trips and threads."""
    numbers = thread_variables(owned.threads)
    loops = [(v, count) for v, count in owned.loops if v.name not in numbers]  # a thread's numbers all follow from tx
    clusters = zip(CLUSTER_AXES, CTA_AXES, spec.cluster, strict=True)
    known: dict[str, Index] = {c: mod(Var(axis, 1 << 31), n) for c, axis, n in clusters}
    known |= {name: x for name, x in numbers.items() if name != "tx"}
    elements, inner = _elements(owned.memory.shape), [*dict.fromkeys(v.name for v, _ in loops), "tx"]
    form = Affine(_names(spec.params), [*elements, *CTA_AXES, *inner])
    ranges = [*zip(CTA_AXES, spec.grid, strict=True), *((v.name, count) for v, count in loops), ("tx", owned.threads)]
    found = _sizes(form, spec).intersect(form.holds(substitute(owned.condition, known)))
    for name, count in ranges:
        found = found.intersect(form.within(Var(name, 1), 0, substitute(count, known)))
    for e, start, length, n in zip(elements, owned.start, owned.box, owned.memory.shape, strict=True):
        first, at = form.value(substitute(start, known)), form.value(Var(e, 1))
        inside = at.ge_set(first).intersect(at.lt_set(first.add(form.value(length))))
        found = found.intersect(inside).intersect(form.within(Var(e, 1), 0, n))
    found = found.project_out(isl.dim_type.set, len(elements) + len(CTA_AXES), len(inner))
    placed = isl.Map.from_range(found)
    return placed.move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, len(elements))
