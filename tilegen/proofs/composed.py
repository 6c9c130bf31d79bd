"""Integers that name places and that passes before have made: a pass is run with what those make of drawn contents.

What an index is made of has to be what the passes before leave, or claims of it would be false for no reason. All CTAs
of those passes are carried out as the spec means them, in the domain of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tilegen.arithmetic import Domain
from tilegen.arithmetic.running import Running
from tilegen.dtypes import DTYPES
from tilegen.index import evaluate
from tilegen.kept import keep
from tilegen.plan import Memory, default_values
from tilegen.proofs.run_integers import Drawn, find_run, list_contents
from tilegen.reference import Array, run_reference
from tilegen.spec.data import Buffer, Spec
from tilegen.spec.outline import launch_of, written_roots

_MOST_THREADS = 1 << 17  # of all CTAs of the passes before


class TooMany(Exception):
    """The passes before have more CTAs than NumPy carries out."""


@keep
def find_composed(spec: Spec) -> frozenset[str]:
    """The arrays that hold what leads to a place, and that passes before this one write."""
    written = frozenset[str]().union(*(written_roots(one.spec) for one in spec.before))
    arrays = {b.root for b in spec.buffers if b.traits.is_array}
    return find_run(spec) & written & arrays


def compose_inputs(
    spec: Spec, given: Mapping[str, Drawn], params: Mapping[str, int], domain: Domain
) -> dict[str, Drawn]:  # fmt: skip
    """Elements of those arrays, stored, by offset, as the passes before make them of what is ``given``.

    ``given``: elements of the caller's arrays by name, of all that any of the passes reads. Raises TooMany.
    """
    wanted = find_composed(spec)
    held: dict[str, Drawn] = {}
    for one in spec.before if wanted else ():
        case = default_values(one.spec.params) | {k: v for k, v in params.items() if k in _names(one.spec)}
        if not evaluate(one.when, dict(params) | case):
            continue
        grid = launch_of(one.spec, case).grid
        if prod(grid) * one.spec.threads > _MOST_THREADS:
            raise TooMany
        inputs = {b.name: held.get(b.name) or given.get(b.name) or _blank(b, domain) for b in _list_arrays(one.spec)}
        written = run_reference(one.spec, _list_ctas(grid), inputs, case, domain=domain)
        for name, (at, bits) in written.items():
            held[name] = _lay_over(inputs[name], at, bits.view(domain.stored(one.spec.buffer(name).dtype)))
    return {name: held[name] for name in wanted if name in held}


def draw_contents(
    spec: Spec, read: Sequence[Memory], params: Mapping[str, int], domain: Running, seed: int
) -> list[dict[str, Drawn]]:  # fmt: skip
    """Inputs of each kind of contents for the arrays that are read; none where passes before have too many CTAs."""
    contents = list_contents(spec, domain, read, params, seed)
    try:
        return [one | compose_inputs(spec, one, params, replace(domain, run=None)) for one in contents]
    except TooMany:
        return []


def _list_ctas(grid: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    return [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]


def _names(spec: Spec) -> frozenset[str]:
    return frozenset(p.name for p in spec.params)


def _list_arrays(spec: Spec) -> list[Buffer]:
    return [b for b in spec.buffers if b.traits.is_array and b.root == b.name]


def _blank(buffer: Buffer, domain: Domain) -> Drawn:
    """Elements that nobody wrote."""
    stored = domain.stored(buffer.dtype)

    def read(index: Array) -> Array:
        shape = np.shape(index)
        raw = np.zeros((int(prod(shape)), DTYPES[buffer.dtype].bytes * domain.scale), np.uint8)
        found: Any = raw.view(stored).reshape(shape)
        return np.asarray(found)

    return read


def _lay_over(before: Drawn, at: Array, values: Array) -> Drawn:
    """Elements with those at sorted offsets in the place of others."""
    if not len(at):
        return before

    def read(index: Array) -> Array:
        near = np.minimum(np.searchsorted(at, index), len(at) - 1)
        result = np.array(before(index))
        hit = at[near] == index
        result[hit] = values[near[hit]]
        return result

    return read
