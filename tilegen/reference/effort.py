"""How long the meaning of a spec takes in NumPy, without running it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilegen.index import bound, substitute
from tilegen.ops import mma
from tilegen.ops.mma.atoms import extents_of
from tilegen.plan import default_values
from tilegen.scopes import SCOPES
from tilegen.spec.data import Call, Spec
from tilegen.spec.outline import Placed, outline

_PRODUCTS = 8  # multiply-adds take as long as an element that an op touches: 4 ns and 30 ns, with bounds


def count_effort(spec: Spec, case: Mapping[str, int]) -> int:
    """Elements that the ops of a CTA touch at most, products counted as the elements that take as long."""
    values = default_values(spec.params) | dict(case)
    return sum(_count(spec, p, p.statement, values) for p in outline(spec).placed if isinstance(p.statement, Call))


def _count(spec: Spec, placed: Placed, call: Call, values: Mapping[str, int]) -> int:
    trips = prod(max(0, bound(substitute(one.count, values)) - 1) for one in placed.meant.loops)
    threads = spec.threads_of(placed.role)
    each = sum(prod(region.lengths) for region in call.regions.values())
    if call.op == mma.OP.name:
        each += prod(extents_of(call)) // _PRODUCTS
    return trips * (threads // SCOPES[call.scope].size(threads)) * each
