"""Atomic updates of elements: kept until somebody looks at the elements, as their order does not count.

So a sum of floats is one sum, whatever the ops that it is made of, and its bound holds for every order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilegen.arithmetic import Domain
from tilegen.dtypes import DTYPES
from tilegen.interpret.updated import join_contributions
from tilegen.reference.machine import Array, CtaBatch, Input, Writes
from tilegen.reference.places import Elements, Put, block_of, find_elements
from tilegen.spec.data import Region


def accumulate(
    machine: CtaBatch, region: Region, env: Mapping[str, Any], values: Array, function: str,
    found: Elements | None = None,
) -> None:  # fmt: skip
    """Put elements to those of a region by a function, or to ``found`` in its buffer."""
    buffer, found = region.buffer, find_elements(machine, region, env) if found is None else found
    values = np.ascontiguousarray(values).view(machine.domain.bits(DTYPES[buffer.dtype].bytes))
    at = np.broadcast_to(found.at, values.shape)
    inside = ... if found.inside is None else np.broadcast_to(found.inside, values.shape)
    if buffer.traits.is_array:
        offsets, new, cta = (x[inside].ravel() for x in (at, values, block_of(env, values)))
        machine.written.setdefault(buffer.root, []).append(Writes(offsets, new, cta, function))
    else:
        put = Put(buffer, function, at[inside].ravel(), values[inside].ravel())
        machine.put.setdefault(buffer.root, []).append(put)


def join_updates(writes: Sequence[Writes], domain: Domain, dtype: str) -> Writes:
    """What each CTA puts to each element of an array by itself: each offset once for a CTA."""
    (function,) = {one.function for one in writes}
    found = join_contributions([(o.at, o.bits, o.cta) for o in writes], function, domain, dtype)
    return Writes(found.at, found.values, found.cta, function)


def lay_updates(writes: Sequence[Writes], given: Input, domain: Domain, dtype: str) -> tuple[Array, Array]:
    """Sorted offsets, and what the elements there come to: ``given`` is what they were."""
    (function,) = {one.function for one in writes}
    stored = domain.stored(dtype)
    where, places = np.unique(np.concatenate([one.at for one in writes]), return_inverse=True)
    new = np.concatenate([one.bits for one in writes]).view(stored)
    return where, domain.accumulate(function, np.asarray(given(where), stored), new, places, dtype)
