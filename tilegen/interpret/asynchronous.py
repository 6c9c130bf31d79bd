"""What asynchronous steps mean: cp.async with its groups. The data lands at the wait, not before."""

from __future__ import annotations

import numpy as np

from tilegen.dtypes import bits_dtype
from tilegen.interpret.address import locate, value_of
from tilegen.interpret.fault import MALFORMED
from tilegen.interpret.flights import Copies
from tilegen.interpret.memory import Holding
from tilegen.interpret.site import Site
from tilegen.interpret.threads import Array
from tilegen.plan import QUEUES, Commit, Effects, Move, Touch, Wait


def start_copy(step: Move, touched: Effects, site: Site) -> None:
    """cp.async: each thread starts a copy from global to shared memory; zeros where the source is not read."""
    (src,), (dst,) = touched.read, touched.written
    spaces = src.ref.memory.space, dst.ref.memory.space
    width = src.elems * src.ref.memory.elem_bytes
    if spaces != ("global", "shared") or width not in step.via.widths_bytes:
        what = f"{width} bytes {spaces[0]} -> {spaces[1]}"
        site.fail(MALFORMED, f"cp.async moves 4, 8 or 16 bytes global -> shared, not {what}")
    if dst.ref.memory.elem_bytes != src.ref.memory.elem_bytes:
        site.fail(MALFORMED, f"moves {src.ref.memory.dtype} elements to {dst.ref.memory.dtype}: sizes differ")
    bits, holding = _fetch(src, site)
    root, flat = locate(dst.ref, dst.elems, site)
    filling = root.store.write_later(flat, bits, site.group, site)
    site.machine.flights.start(step.via.queue, site.group, Copies(filling, holding), site.narrow(site.group))


def _fetch(src: Touch, site: Site) -> tuple[Array, Holding | None]:
    """The bits of every thread, and what nobody may write until they have landed."""
    group = site.group
    bits = np.zeros((len(group), src.elems), bits_dtype(src.ref.memory.elem_bytes))
    holds = group.spread(True if src.where is True else value_of(site.text(src.where), site))
    some = site.narrow(group.where(holds))
    if not len(some.group):
        return bits, None
    root, flat = locate(src.ref, src.elems, some)
    at = np.flatnonzero(holds)
    bits[at], granules = root.store.read_later(flat, src.elems, some.group, some)
    return bits, None if granules is None else Holding(root.store.shadow, granules, at)


def commit(step: Commit, site: Site) -> None:
    """Each thread closes its open group."""
    _check_queue(step.queue, site)
    site.machine.flights.commit(step.queue, site.group)


def wait(step: Wait, site: Site) -> None:
    """The older groups of each thread have landed: for this thread, as if it had made the copies now."""
    _check_queue(step.queue, site)
    site.machine.flights.land(step.queue, step.pending, site.group)


def _check_queue(queue: str, site: Site) -> None:
    if queue not in QUEUES:
        site.fail(MALFORMED, f"no queue is called {queue}")
