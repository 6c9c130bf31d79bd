"""CTAs of a cluster in a batch: who reaches whom, and what the two of a pair multiply together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tilegen.ops import OPS
from tilegen.ops.op import Here
from tilegen.reference.machine import Array, CtaBatch
from tilegen.reference.places import gather, scatter
from tilegen.scopes import Cta, whole_clusters
from tilegen.spec.data import Call, Spec
from tilegen.spec.pairs import PAIR


def find_along(machine: CtaBatch, axis: int) -> Array:
    """Of each CTA of a batch, (CTAs, count), those along an axis of its cluster; itself in place of one not there."""
    numbers = {cta: k for k, cta in enumerate(machine.ctas)}
    count = machine.spec.cluster[axis]
    found = np.empty((len(machine.ctas), count), np.int64)
    for k, cta in enumerate(machine.ctas):
        first = cta[axis] // count * count
        own = list(cta)
        for i in range(count):
            own[axis] = first + i
            found[k, i] = numbers.get((own[0], own[1], own[2]), k)
    return found


def find_partners(machine: CtaBatch) -> Array:
    """Of each CTA of a batch, (CTAs, 2), the two of its pair, the even one first. Raises KeyError for half a pair."""
    numbers = {cta: k for k, cta in enumerate(machine.ctas)}
    pairs = [[(x // PAIR * PAIR + i, y, z) for i in range(PAIR)] for x, y, z in machine.ctas]
    return np.array([[numbers[cta] for cta in pair] for pair in pairs], np.int64)


def list_whole(spec: Spec, ctas: Sequence[Cta]) -> tuple[list[Cta], int]:
    """The CTAs, all of each cluster where those of one need each other, in order; and how many are one's."""
    if spec.cta_group < PAIR:
        return list(ctas), 1
    return list(whole_clusters(ctas, spec.cluster)), prod(spec.cluster)


def _list_both(machine: CtaBatch, env: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The numbers of both CTAs' parts of what even CTAs start, the even ones first; and of odd ones' alone.

    All other numbers are those of the even CTA.
    """
    odd = find_partners(machine)[env["block"], 1]
    apart = (odd - env["block"]) * machine.threads
    other = {**env, "block": odd, "instance": env["instance"] + apart}
    count = len(env["block"])
    both = {
        name: np.concatenate([x, other[name]]) if isinstance(x, np.ndarray) and x.shape[:1] == (count,) else x
        for name, x in env.items()
    }
    return both, other


def multiply_in_pairs(machine: CtaBatch, call: Call, env: Mapping[str, Any]) -> None:
    """What even CTAs start: each CTA of a pair multiplies its own rows of a by the columns of both CTAs' b."""
    both, odd = _list_both(machine, env)
    a, c = (gather(machine, call.regions[name], both) for name in ("a", "c"))
    b = np.concatenate([gather(machine, call.regions["b"], each) for each in (env, odd)], axis=-1)
    here = Here(both, machine.scalars, machine.domain)
    values = {"a": a, "b": np.concatenate([b, b]), "c": c}
    result = OPS[call.op].reference(call, values, here)["c"]
    scatter(machine, call.regions["c"], both, result.reshape(len(both["block"]), *call.regions["c"].lengths))
