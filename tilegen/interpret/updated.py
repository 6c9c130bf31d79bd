"""A global array that CTAs update atomically: what each puts to its elements.

Nothing reads or writes an array that a kernel updates, so what its elements were is put to them when somebody asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tilegen.arithmetic import Domain
from tilegen.interpret.fault import TWO_CTAS, UNWRITTEN
from tilegen.interpret.memory import Input, fetch
from tilegen.interpret.reporting import Reporter
from tilegen.interpret.threads import Array, Group
from tilegen.plan import Memory


class Contributions(NamedTuple):
    """What CTAs put to elements of an array by a function: sorted flat offsets, values, CTAs by number.

    Each offset stands there once for each CTA.
    """

    at: Array
    values: Array
    cta: Array
    function: str


class Updated:
    """A global array that the plan updates atomically: what each CTA puts to each element, and what they come to."""

    def __init__(self, memory: Memory, values: Input | None, domain: Domain):
        self.memory, self.name, self.values, self.domain = memory, memory.name, values, domain.of(memory.name)
        self.function = self.proxy = ""
        self.parts: list[tuple[Array, Array, Array]] = []

    def read(self, flat: Array, elems: int, group: Group, site: Reporter) -> Array:
        site.fail(TWO_CTAS, f"reads {self.name}, which threads update atomically: no sync orders CTAs")

    def write(self, flat: Array, bits: Array, group: Group, site: Reporter) -> None:
        site.fail(TWO_CTAS, f"writes {self.name}, which threads update atomically: no sync orders CTAs")

    def read_later(self, flat: Array, elems: int, group: Group, site: Reporter) -> tuple[Array, Array | None]:
        return self.read(flat, elems, group, site), None

    def write_later(self, flat: Array, bits: Array, group: Group, site: Reporter) -> None:
        self.write(flat, bits, group, site)

    def update(
        self, flat: Array, bits: Array, function: str, group: Group, site: Reporter, proxy: str = "generic"
    ) -> None:  # fmt: skip
        """Put ``bits`` (threads, elems) to elements at flat offsets.

        Operations through two proxies are never morally strong (PTX ISA 8.7), so an array is updated through one.
        """
        if self.proxy and proxy != self.proxy:
            site.fail(TWO_CTAS, f"updates {self.name} through the {proxy} proxy, others through the {self.proxy} one")
        self.proxy = proxy
        if self.function and function != self.function:
            message = f"updates {self.name} by {function}, which others update by {self.function}: no sync orders CTAs"
            site.fail(TWO_CTAS, message)
        if self.values is None:
            site.fail(UNWRITTEN, f"updates global {self.name}, which nothing wrote and is no input")
        self.function = function
        at = flat[:, None] + np.arange(bits.shape[1])
        cta = np.broadcast_to(group.cta[:, None], at.shape)
        self.parts.append((at.ravel(), np.ascontiguousarray(bits).ravel(), cta.ravel()))

    def contributions(self) -> Contributions:
        """What each CTA puts to each element, without what the element was."""
        return join_contributions(self.parts, self.function, self.domain, self.memory.dtype)

    def written(self) -> tuple[Array, Array, Array]:
        """(sorted flat offsets, values, CTAs by number) of every element that was updated, by which CTA first."""
        at, new, cta, _ = self.contributions()
        assert self.values is not None
        where, first, places = np.unique(at, return_index=True, return_inverse=True)
        before = fetch(self.memory, self.values, where, self.domain).view(new.dtype)
        return where, self.domain.accumulate(self.function, before, new, places, self.memory.dtype), cta[first]


def join_contributions(
    parts: Sequence[tuple[Array, Array, Array]], function: str, domain: Domain, dtype: str
) -> Contributions:  # fmt: skip
    """What each CTA puts to each element by itself; ``parts``: offsets, raw bits, and CTAs by number."""
    if not parts:
        none = np.zeros(0, np.int64)
        return Contributions(none, np.zeros(0, domain.stored(dtype)), none, function)
    at, bits, cta = (np.concatenate(each) for each in zip(*parts, strict=True))
    values = bits.view(domain.stored(dtype))
    order = np.lexsort((cta, at))
    at, values, cta = at[order], values[order], cta[order]
    is_first = np.append(True, (np.diff(at) != 0) | (np.diff(cta) != 0))
    first = np.flatnonzero(is_first)
    places = np.cumsum(is_first) - 1
    total = domain.accumulate(function, values[first], values[~is_first], places[~is_first], dtype)
    return Contributions(at[first], total, cta[first], function)
