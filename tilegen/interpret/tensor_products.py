"""Products in tensor memory, tcgen05.mma: one thread starts each, a tensor core carries it out."""

from __future__ import annotations

import numpy as np

from tilegen.dtypes import FACTOR
from tilegen.interpret.address import value_of
from tilegen.interpret.asynchronous import names_of
from tilegen.interpret.fault import MALFORMED
from tilegen.interpret.fragments import held_as
from tilegen.interpret.matrices import Readers, find_problem, read_matrix
from tilegen.interpret.pairs import find_parts
from tilegen.interpret.reading import read_text
from tilegen.interpret.reporting import report
from tilegen.interpret.site import Site
from tilegen.interpret.tensor_copies import read_factors
from tilegen.interpret.tensor_lanes import Started, find_lanes, start_in_turns
from tilegen.interpret.tensor_memory import COLUMN_BYTES, LANES, Cells
from tilegen.interpret.threads import Array, Group
from tilegen.layouts import ATOMS, MmaAtom
from tilegen.plan import CELL_PRODUCTS, TENSOR_PRODUCTS, Effects, Ref, TensorMma, Touch

_BY_NAME = {atom.name: atom for atom in ATOMS if atom.kind == "tcgen05"}


def start_product(step: TensorMma, touched: Effects, site: Site) -> None:
    """One thread of a warp starts a product."""
    start_in_turns(_start, "product", step, touched, site)


def _start(step: TensorMma, touched: Effects, site: Site) -> None:
    """A product of at most one thread of each CTA, with its own part or with those of both CTAs of its pair."""
    group, machine = site.group, site.machine
    atom = _atom_of(step, site)
    agent, known = machine.cores.start(group, site)
    readers = Readers("tcgen05", np.arange(len(group))[:, None], agent, False, known)
    parts = find_parts(step.ctas, step.via.name, site)
    a, b = (
        np.concatenate([read_matrix(_touch_of(ref, touched), lies, atom.dtype(x), readers, part) for part in parts], 1)
        if lies
        else _read_cells(ref, atom, (agent, known), site)
        for ref, lies, x in ((step.a, step.a_lies, "A"), (step.b, step.b_lies, "B"))
    )
    if atom.factors:
        a, b = _scale(step, atom, (a, b), (agent, known), site)
    adds = group.spread(value_of(read_text(step.accumulate), site)).astype(bool)
    at = np.concatenate([_take_sums(step, atom, (agent, known, adds), part) for part in parts], axis=1)
    store = site.frame.places[step.c.memory.name].root.store
    store.tensor.add(atom, at, adds, a, b.swapaxes(1, 2))
    for part in parts[1:]:
        machine.phases.reach(part.group.cta, agent, "multiplies", site)
    flight = machine.flights.start(step.via.queue, group, Started(len(group)), site.narrow(group))
    if machine.log is not None:
        machine.log.start(flight, names_of(site, step.a, step.b, step.c), 0, site)


def _touch_of(ref: Ref, touched: Effects) -> Touch:
    return next(t for t in touched.touches if t.ref is ref)


def _scale(
    step: TensorMma, atom: MmaAtom, operands: tuple[Array, Array], by: tuple[Array, Array], site: Site
) -> tuple[Array, Array]:
    """The matrices of a product, (threads, rows, depth), by the factors of their rows."""
    factors, domain, stored = read_factors(step, by, site), site.machine.domain, site.machine.domain.stored(FACTOR)
    sides = zip(operands, ("A", "B"), ("sfa", "sfb"), strict=True)
    a, b = (domain.scale_by(x, factors[name].view(stored)[..., None], atom.dtype(side)) for x, side, name in sides)
    return a, b


def _atom_of(step: TensorMma, site: Site) -> MmaAtom:
    """The row of layouts' table that a step carries out, for whose operands its descriptors are."""
    atom = _BY_NAME.get(step.atom)
    if atom is None:
        site.fail(MALFORMED, f"there is no {step.atom}")
    forms = CELL_PRODUCTS if step.a_lies is None else TENSOR_PRODUCTS
    if step.via is not forms.get(atom.ptx_kind):
        site.fail(MALFORMED, f"{step.via.name} does not carry out {atom.name}, which is {atom.instruction}")
    m, n, _ = atom.shape
    if atom.ctas != step.ctas:
        site.fail(MALFORMED, f"{atom.name} is of {atom.ctas} CTAs, not of {step.ctas}")
    if m != LANES * step.ctas or (step.ctas > 1 and (step.a_lies is None or atom.factors)):
        what = f"products of {m} rows" if m != LANES * step.ctas else "products of pairs with these operands"
        site.fail(MALFORMED, f"{atom.name}: {what} are not carried out, only those of {LANES} rows of each CTA")
    for matrix, rows in ((step.a_lies, m // step.ctas), (step.b_lies, n // step.ctas)):
        if matrix and (problem := find_problem(matrix, rows, atom)):
            site.fail(MALFORMED, f"{atom.name}: {problem}")
    return atom


def _take_sums(step: TensorMma, atom: MmaAtom, by: tuple[Array, Array, Array], site: Site) -> Array:
    """The agents take a CTA's part of the accumulators, one each: where its elements lie in words, (accumulators,
    lanes * N).

    ``by``: the agents, what their products are ordered after, and whether they add.
    """
    store = _store_of(step.c, atom, "C", site)
    if store.size != COLUMN_BYTES:
        site.fail(MALFORMED, f"{atom.name}: sums of {store.size} bytes are not carried out, only those of a column")
    lanes = find_lanes(step.c, atom.shape[1], f"the sums of {atom.name}", site)
    _order_sums(store, atom, (lanes.granules, lanes.each), by, site)
    return lanes.at.reshape(len(site.group), -1)


def _read_cells(ref: Ref, atom: MmaAtom, by: tuple[Array, Array], site: Site) -> Array:
    """A in tensor memory, (products, M, K), which the agents read until they are waited for.

    Row r lies in lane r, packed: PTX ISA, tcgen05.mma, "Packing formats used in Tensor Memory" of A. ``by``: the
    agents, and what their products are ordered after.
    """
    (agent, known), dtype = by, held_as(atom, "A")
    store = _store_of(ref, atom, "A", site)
    lanes = find_lanes(ref, atom.shape[2], f"the columns of A of {atom.name}", site)
    store.settle(lanes.at)
    own, granules = site.narrow(lanes.each), lanes.granules
    store.refuse_unwritten(granules, own)
    clash = store.pool.shadow.seen_with(known).read_by_agent(granules, lanes.each, lanes.repeat(agent), site.op)
    report(store.pool.shadow, clash, "reads", granules, store.where, own)
    store.refuse_others(granules, own)
    store.tensor.chain[granules] = -np.abs(store.tensor.chain[granules])
    words = store.pool.cells[store.size].take(lanes.at).view(site.machine.domain.stored(dtype))
    result: Array = words.reshape(len(site.group), LANES, -1)
    return result


def _store_of(ref: Ref, atom: MmaAtom, operand: str, site: Site) -> Cells:
    """The cells that an operand of a product lies in."""
    place, dtype = site.frame.places.get(ref.memory.name), held_as(atom, operand)
    if place is None or not place.root.memory.traits.has_cells or ref.memory.dtype != dtype:
        found = f"{place.root.memory.space if place else ref.memory.space} {ref.memory.dtype}"
        does = "adds up" if operand == "C" else f"takes {operand} as"
        site.fail(MALFORMED, f"{atom.name} {does} {dtype} in tensor memory, not {found}")
    store: Cells = place.root.store
    return store


def _order_sums(
    store: Cells, atom: MmaAtom, cells: tuple[Array, Group], by: tuple[Array, Array, Array], site: Site
) -> None:
    """Each accumulator, a row of granules for each lane, is written after all that touched it.

    One product goes on where the last one of the same accumulator stopped: PTX ISA, "Implicitly pipelined tcgen05
    instructions": of one thread, of the same accumulator, shape and kind.
    """
    (granules, each), (agent, known, adds), group = cells, by, site.group
    lanes, chain = len(granules) // len(group), store.tensor.chain
    first = granules[::lanes, 0].tolist()
    own = zip(group.thread.tolist(), first, strict=True)
    numbers = np.array([store.tensor.number((thread, at, atom.name, store.family)) for thread, at in own], np.int32)
    number, agents = np.repeat(numbers, lanes)[:, None], np.repeat(agent, lanes)
    before, shadow = chain[granules], store.pool.shadow
    if not (before == number).all():
        view = shadow.seen_with(known)
        if adds.any():
            some = np.repeat(adds, lanes)
            adding = site.narrow(each.where(some))
            store.refuse_unwritten(granules[some], adding)
            store.refuse_others(granules[some], adding)
        clash = view.write_by_agent(granules, each, agents, site.op, np.abs(before) == number)
        report(shadow, clash, "adds to" if adds.all() else "writes", granules, store.where, site.narrow(each))
        chain[granules] = number
        store.own(granules)
    else:
        shadow.take_for_agent(granules, agents[:, None], site.op)
