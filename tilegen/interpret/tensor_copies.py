"""Copies from shared to tensor memory, tcgen05.cp, and the scale factors that products read there."""

from __future__ import annotations

import numpy as np

from tilegen.dtypes import FACTOR
from tilegen.interpret.asynchronous import names_of
from tilegen.interpret.fault import MALFORMED
from tilegen.interpret.matrices import Readers, read_matrix
from tilegen.interpret.pairs import find_parts
from tilegen.interpret.reporting import report
from tilegen.interpret.site import Site
from tilegen.interpret.tensor_lanes import Lanes, Started, find_lanes, start_in_turns
from tilegen.interpret.tensor_memory import LANES
from tilegen.interpret.threads import Array
from tilegen.plan import Effects, MatrixDescriptor, TensorCopy, TensorMma, count_factors
from tilegen.plan.descriptors import CHUNK_BYTES, TCGEN05
from tilegen.scopes import SCOPES

_ROWS = SCOPES["warp"].threads  # of a copy: the lanes that one warp reaches
_GROUPS = LANES // _ROWS  # of lanes, which a copy all writes, and of which each has all factors
_COLUMN = 4  # factors that share a column


def start_cell_copy(step: TensorCopy, touched: Effects, site: Site) -> None:
    """One thread of a warp starts a copy of 32 rows of 16 bytes to each 32 lanes (``.32x128b`` with ``.warpx4``)."""
    start_in_turns(_start, "copy", step, touched, site)


def _start(step: TensorCopy, touched: Effects, site: Site) -> None:
    """A copy of at most one thread of each CTA."""
    group, machine, lies = site.group, site.machine, step.src_lies
    find_parts(1, step.via.name, site)
    _check_rows(lies, step, site)
    agent, known = machine.cores.start(group, site)
    readers = Readers("tcgen05", np.arange(len(group))[:, None], agent, False, known)
    rows = read_matrix(touched.read[0], lies, step.src.memory.dtype, readers, site)
    to = find_lanes(step.dst, lies.depth, f"what {step.via.name} writes", site)
    store, words = to.store, to.store.pool.cells[to.store.size]
    store.settle(to.at)
    view, own = store.pool.shadow.seen_with(known), site.narrow(to.each)
    clash = view.write_by_agent(to.granules, to.each, to.repeat(agent), site.op)
    report(store.pool.shadow, clash, "writes", to.granules, store.where, own)
    store.tensor.chain[to.granules] = to.repeat(_number_copies(to, site))[:, None]
    store.own(to.granules)
    words[to.at] = np.tile(rows, (1, _GROUPS, 1)).reshape(-1, lies.depth).view(words.dtype)
    flight = machine.flights.start(step.via.queue, group, Started(len(group)), site.narrow(group))
    if machine.log is not None:
        machine.log.start(flight, names_of(site, step.src, step.dst), _ROWS * CHUNK_BYTES, site)


def _check_rows(lies: MatrixDescriptor, step: TensorCopy, site: Site) -> None:
    if (lies.rows, lies.depth_bytes, lies.engine, lies.swizzle_bytes) != (_ROWS, CHUNK_BYTES, TCGEN05, 0):
        what = f"{lies.rows} rows of {lies.depth_bytes} bytes, swizzled by {lies.swizzle_bytes}, for {lies.engine}"
        site.fail(MALFORMED, f"{step.via.name} copies {_ROWS} rows of {CHUNK_BYTES} bytes, not {what}")
    if problem := lies.problem():
        site.fail(MALFORMED, f"{step.via.name}: {problem}")
    if step.src.memory.elem_bytes != step.dst.memory.elem_bytes:
        dtypes = f"{step.src.memory.dtype} to {step.dst.memory.dtype}"
        site.fail(MALFORMED, f"{step.via.name} copies {dtypes}: sizes differ")


def _number_copies(lanes: Lanes, site: Site) -> Array:
    """The number of each thread's copies, as ``TensorMemory.chain`` has it: no accumulator has it."""
    found = [lanes.store.tensor.number(("copy", thread)) for thread in site.group.thread.tolist()]
    return np.array(found, np.int32)


def read_factors(step: TensorMma, by: tuple[Array, Array], site: Site) -> dict[str, Array]:
    """By field, the scale factor of each row, (threads, rows), which agents read; ``by``: these, and what they follow.

    What the same thread has copied there is ordered before: PTX ISA, "Implicitly pipelined tcgen05 instructions". The
    four groups of lanes must hold the same.
    """
    return {name: _read_side(step, name, by, site) for name in step.factors}


def _read_side(step: TensorMma, name: str, by: tuple[Array, Array], site: Site) -> Array:
    (ref, rows), (agent, known) = step.factors[name], by
    if ref.memory.dtype != FACTOR or not 0 <= step.factor < _COLUMN:
        found = f"{ref.memory.dtype} of byte {step.factor}"
        site.fail(MALFORMED, f"{step.via.name} takes factors of {FACTOR}, byte 0 to 3 of a column, not {found}")
    lanes = find_lanes(ref, count_factors(rows), f"the factors of {step.via.name}", site)
    store, own = lanes.store, site.narrow(lanes.each)
    store.settle(lanes.at)
    store.refuse_unwritten(lanes.granules, own)
    numbers = lanes.repeat(_number_copies(lanes, site))[:, None]
    view = store.pool.shadow.seen_with(known)
    is_copied = store.tensor.chain[lanes.granules] == numbers
    clash = view.read_by_agent(lanes.granules, lanes.each, lanes.repeat(agent), site.op, is_copied)
    report(store.pool.shadow, clash, "reads", lanes.granules, store.where, own)
    store.refuse_others(lanes.granules, own)
    words = store.pool.cells[store.size].take(lanes.at)
    table = words.reshape(len(site.group), _GROUPS, _ROWS, -1, _COLUMN)[..., step.factor]
    if (table != table[:, :1]).any():
        thread = int(np.nonzero(table != table[:, :1])[0][0])
        site.fail(MALFORMED, f"the groups of {_ROWS} lanes of {store.name} hold other factors than one another", thread)
    result: Array = table[:, 0].swapaxes(1, 2).reshape(len(site.group), -1)[:, :rows]
    return result
