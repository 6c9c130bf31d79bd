"""Elements of tables as names: read where they stand, compared with what their array promises where they must be."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilegen.interpret.address import check_range, locate, value_of
from tilegen.interpret.fault import MALFORMED
from tilegen.interpret.reading import read_text
from tilegen.interpret.site import Site
from tilegen.plan import Fetch, PromiseTest


def run_fetch(step: Fetch, site: Site) -> None:
    """A name for an element of a table, which lies in its array and is one of the numbers that the array promises."""
    for name in step.names:
        if name in site.frame.own:
            site.fail(MALFORMED, f"{name} is defined twice")
    group, domain = site.group, site.machine.domain
    reading = site.narrow(group.where(group.pick(value_of(read_text(step.where), site))))
    value = np.array(np.broadcast_to(value_of(read_text(step.otherwise), site), site.frame.env["tx"].shape))
    if len(reading.group):
        root, flat = locate(step.src, 1, reading)
        bits = root.store.read(reading.group.widen(flat), 1, reading.group, reading)[:, 0]
        value[reading.group.at] = domain.integers(bits.view(domain.stored(step.src.memory.dtype)), root.memory.dtype)
    if step.test is not None:
        value = _test_element(step.test, value, site)
    site.frame.define(step.var, value)
    site.frame.constants -= {*step.names}
    check_range(step.var, value, site)


def _test_element(test: PromiseTest, raw: Any, site: Site) -> Any:
    """What a kernel takes for an element: another number where it breaks the promise of its array."""
    site.frame.define(test.raw, raw)
    kept = np.broadcast_to(value_of(read_text(test.holds), site), raw.shape)
    site.frame.define(test.kept, kept.astype(raw.dtype))
    return np.where(kept, raw, value_of(read_text(test.instead), site))
