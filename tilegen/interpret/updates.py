"""What an atomic update of memory means: of shared memory it is made at once, of a global array it is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilegen.arch import ARCHES
from tilegen.interpret.address import locate
from tilegen.interpret.fault import MALFORMED, UNWRITTEN
from tilegen.interpret.pooled import Shared
from tilegen.interpret.reporting import report
from tilegen.interpret.site import Site
from tilegen.interpret.threads import Array
from tilegen.interpret.updated import Updated
from tilegen.interpret.updaters import number_of
from tilegen.plan import Effects, Move, Tma, find_box_type, list_updates
from tilegen.plan.instructions import READS


def update(step: Move, touched: Effects, site: Site) -> None:
    """Each thread puts its elements to those of memory, each of which is updated by itself."""
    src = next(t for t in touched.touches if t.use == READS)
    dst = next(t for t in touched.touches if t.use != READS)
    memory, function = dst.ref.memory, step.via.function
    if memory.traits.is_held or not src.ref.memory.traits.is_held:
        site.fail(MALFORMED, f"{step.via.name} takes registers to memory")
    if src.ref.memory.dtype != memory.dtype:
        site.fail(MALFORMED, f"{step.via.name} puts {src.ref.memory.dtype} to {memory.dtype}")
    arch = ARCHES[site.machine.plan.arch]
    if dst.elems not in list_updates(function, memory.dtype, memory.traits.state, arch.features):
        site.fail(
            MALFORMED, f"{arch.name} has no {step.via.name} of {dst.elems} {memory.dtype} in {memory.traits.words}"
        )
    source, first = locate(src.ref, src.elems, site)
    bits = source.store.read(first, src.elems, site.group, site)
    root, flat = locate(dst.ref, dst.elems, site)
    if root.memory.access == "in":
        site.fail(MALFORMED, f"updates {root.memory.name}, which is an input")
    if isinstance(root.store, Updated):
        root.store.update(flat, bits, function, site.group, site)
    else:
        _update_shared(root.store, flat, bits, function, memory.dtype, site)


def _update_shared(store: Shared, flat: Array, bits: Array, function: str, dtype: str, site: Site) -> None:
    pool, group = store.pool, site.group
    granules = store.granules(flat, bits.shape[1], group)
    shadow, domain = pool.shadow, pool.domain
    unwritten = shadow.is_unwritten(granules)
    if unwritten.any():
        thread, what = store.where(int(np.flatnonzero(unwritten)[0]), granules)
        site.fail(UNWRITTEN, f"updates {what}, which nothing wrote", thread)
    report(shadow, shadow.update(granules, group, site.op, number_of(function)), "updates", granules, store.where, site)
    if store.family:
        store.refuse_others(granules, site)
    cells = pool.cells[store.size]
    first = (group.cta * pool.bytes + store.offset) // store.size + flat
    at, places = np.unique((first[:, None] + np.arange(bits.shape[1])).ravel(), return_inverse=True)
    stored = domain.stored(dtype)
    held, new = cells[at].view(stored), np.ascontiguousarray(bits).ravel().view(stored)
    total = domain.of(store.name).accumulate(function, held, new, places.ravel(), dtype)
    cells[at] = total.view(cells.dtype)


def check_box_update(step: Tma, store: Any, site: Site) -> None:
    """TMA computes with elements as the descriptor has their type."""
    name, dtype = step.map.memory.name, step.map.memory.dtype
    wanted = find_box_type(step.function, dtype)
    if not wanted or step.map.type != wanted:
        kind = step.map.type or "bits"
        site.fail(MALFORMED, f"TMA updates {name} ({dtype}) by {step.function} as {kind}, not as {wanted or 'it can'}")
    if not isinstance(store, Updated):
        site.fail(MALFORMED, f"TMA updates {name}, which the kernel also writes")
