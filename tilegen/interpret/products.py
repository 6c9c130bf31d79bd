"""Products of matrices that a warpgroup starts: wgmma. Beside them the table of all products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tilegen.arithmetic import TFLOAT32, TFLOAT32_CUT, Domain
from tilegen.interpret.address import locate, value_of
from tilegen.interpret.asynchronous import names_of
from tilegen.interpret.clocks import Clocks
from tilegen.interpret.fault import MALFORMED
from tilegen.interpret.fragments import held_as, holders, multiply_fragments, require_registers
from tilegen.interpret.matrices import TEAM, find_problem, of_warpgroups, read_matrix, same_in_a_team
from tilegen.interpret.memory import MOST_OWED
from tilegen.interpret.order import Shadow
from tilegen.interpret.reading import read_text
from tilegen.interpret.site import Site, require_whole_warpgroups
from tilegen.interpret.threads import Array, Group
from tilegen.interpret.watched import Watched
from tilegen.layouts import ATOMS, MmaAtom
from tilegen.plan import Effects, Fence, Touch, Wgmma


@cache
def _elements_of_holders(atom: MmaAtom, elems: int) -> Array:
    """Which element of its sum, row after row, each register of each thread of a warpgroup holds."""
    lane, register = holders(atom, "C")
    held = np.full((TEAM, elems), -1)
    held[lane, register] = np.arange(lane.size).reshape(lane.shape)
    assert held.min() == 0 and lane.size == held.size, f"{atom.name}: not every register holds an element of its own"
    return held.ravel()


@dataclass(frozen=True)
class Multiplying:
    """The products of one step, until each thread has waited for its group.

    ``parts``: registers, their columns, and whether they are A. What is read of shared memory, the agent reads.
    ``facts``: what the warps of each warp's warpgroup knew when all of them had started it.
    """

    clocks: Clocks
    agent: Array
    ticks: Array
    parts: tuple[tuple[Watched, slice, bool], ...]
    facts: Array

    def land(self, rows: Array, who: Group, op: int) -> None:
        some = who.where(rows)
        self.clocks.learn(some.whole, self.agent[rows][some.heads], self.ticks[rows][some.heads])
        self.clocks.learn_facts(some.whole, self.facts[np.searchsorted(who.whole, some.whole)])
        for store, columns, as_a in self.parts:
            store.land(columns, as_a, some)

    def touches(self, shadow: Shadow, granule: int) -> Array:
        return np.zeros(len(self.agent), bool)  # the agent is known by its clock

    def holds(self, store: object, element: int) -> bool:
        return any(own is store and columns.start <= element < columns.stop for own, columns, _ in self.parts)


def fence_registers(step: Fence, site: Site) -> None:
    """What the threads of whole warpgroups did with their registers is done before their wgmmas after this."""
    require_whole_warpgroups("fence", site)
    site.machine.fence_registers(site.group)


def start_product(step: Wgmma, touched: Effects, site: Site) -> None:
    """Whole warpgroups start products. Operands are read now, and nobody may look at the sum until it has been waited
    for.
    """
    group, machine = site.group, site.machine
    require_whole_warpgroups(step.via.name, site)
    atom = _atom_of(step, site)
    (written,) = touched.written
    first, second = (next(t for t in touched.touches if t.ref is ref) for ref in (step.a, step.b))
    agent = machine.phases.multiplier_of(group)
    readers = of_warpgroups(agent, site)
    site.clocks.ticks[readers.agent] += 1
    adds = same_in_a_team(value_of(read_text(step.accumulate), site), "accumulate", site).astype(bool)
    c_store, c_columns = _watched(written, atom, "C", site)
    parts = [(c_store, c_columns, False)]
    if first.matrix is None:
        a_store, a_columns = _watched(first, atom, "A", site)
        parts.append((a_store, a_columns, True))
        a = _of_team(a_store.lend(a_columns, group, site), atom, "A", group, machine.domain)
    else:
        a = read_matrix(first, first.matrix, atom.dtype("A"), readers, site)
    assert second.matrix is not None
    b = read_matrix(second, second.matrix, atom.dtype("B"), readers, site).swapaxes(1, 2)
    shape = machine.shapes.setdefault(atom.name, len(machine.shapes) + 1)
    c_store.sum_up(c_columns, shape, group, site)
    _add_product(a, b, adds, _Accumulators(atom, c_store, c_columns), site)
    facts = site.clocks.facts(group.whole, agent[group.heads])
    cargo = Multiplying(site.clocks, agent, site.clocks.ticks[agent], tuple(parts), facts)
    flight = machine.flights.start(step.via.queue, group, cargo, site.narrow(group))
    if machine.log is not None:
        machine.log.start(flight, names_of(site, step.a, step.b, step.c), 0, site)


@dataclass
class Sum:
    """Accumulators of warpgroups, as they were ``before``, with the products of ``left`` and ``right`` that are still
    to be added.

    One product of matrices put side by side along K is their sum, where the domain adds freely.
    """

    atom: MmaAtom
    domain: Domain
    group: Group
    columns: slice
    before: Array
    left: list[Array] = field(default_factory=list)
    right: list[Array] = field(default_factory=list)

    def goes_on(self, atom: MmaAtom, group: Group, columns: slice) -> bool:
        """Whether a product of these threads is one more of its own."""
        is_own = atom is self.atom and columns == self.columns
        return is_own and (group is self.group or np.array_equal(group.thread, self.group.thread))

    def total(self) -> Array:
        """The bits of the accumulator, (threads, elements)."""
        atom, group = self.atom, self.group
        c = _of_team(self.before, atom, "C", group, self.domain)
        dtype = TFLOAT32_CUT if atom.a == TFLOAT32 else atom.a  # no instruction rounds them before
        a, b = (x[0] if len(x) == 1 else np.concatenate(x, k) for x, k in ((self.left, 2), (self.right, 1)))
        product = self.domain.matmul(a, b, c, dtype, atom.c)
        held = product.reshape(len(product), -1).take(_elements_of_holders(atom, self.before.shape[1]), axis=1)
        bits = np.empty_like(self.before)
        bits[group.by_lane] = held.reshape(bits.shape).view(bits.dtype)
        return bits


@dataclass(frozen=True)
class _Accumulators:
    """Where an atom's product of each warpgroup is added: columns of registers."""

    atom: MmaAtom
    store: Watched
    columns: slice


def _add_product(a: Array, b: Array, adds: Array, c: _Accumulators, site: Site) -> None:
    """An accumulator is a b, and what it was before for the threads whose product adds to that."""
    group, domain, atom, store, columns = site.group, site.machine.domain, c.atom, c.store, c.columns
    owed = store.owed
    if not isinstance(owed, Sum) or not owed.goes_on(atom, group, columns):
        owed = None
    elif not adds.any():
        owed = store.owed = None  # nobody has looked at that sum
    if owed is None or not adds.all() or len(owed.left) >= MOST_OWED:
        before = np.zeros((len(group), columns.stop - columns.start), store.bits.dtype)
        some = group.where(adds)
        if adds.any():
            before[adds] = store.known_of(columns, some, site.narrow(some))
        owed = Sum(atom, domain, group, columns, before)
        store.settle(columns, before, group)
        store.owe(owed)
    owed.left.append(a)
    owed.right.append(b)
    if not domain.adds_freely:
        store.pay()


def _atom_of(step: Wgmma, site: Site) -> MmaAtom:
    """The row of layouts' table that a step carries out, for whose operands its descriptors are."""
    name = step.via.name.removesuffix(".registers").replace("nN", f"n{step.b_lies.rows}")
    atom = _BY_NAME.get(name)
    if atom is None:
        site.fail(MALFORMED, f"there is no {name}")
    for matrix, rows in ((step.a_lies, 64), (step.b_lies, atom.shape[1])):
        if matrix is not None and (problem := find_problem(matrix, rows, atom)):
            site.fail(MALFORMED, f"{name}: {problem}")
    return atom


def _of_team(bits: Array, atom: MmaAtom, operand: str, group: Group, domain: Domain) -> Array:
    """The matrices that warpgroups hold, (warpgroups, rows, columns), from the bits of each thread."""
    stored = domain.stored(held_as(atom, operand))
    held = np.ascontiguousarray(bits[group.by_lane]).view(stored).reshape(-1, TEAM * bits.shape[1])
    lane, register = holders(atom, operand)
    result: Array = held.take(lane * bits.shape[1] + register, axis=1)
    return result


def _watched(touch: Touch, atom: MmaAtom, operand: str, site: Site) -> tuple[Watched, slice]:
    """The registers of an operand, and which of them."""
    root, flat = locate(touch.ref, touch.elems, site)
    require_registers(root, touch, operand, atom, site)
    assert isinstance(root.store, Watched)
    return root.store, slice(flat, flat + touch.elems)


_BY_NAME = {atom.name: atom for atom in ATOMS if atom.kind == "wgmma"}
# What products mean, by the rows of the table of instructions: those of wgmma are of every N.
PRODUCTS: dict[str, Callable[[Any, Effects, Any], None]] = {
    **{atom.name: multiply_fragments for atom in ATOMS if atom.kind == "mma_sync"},
    **{
        f"{atom.name.replace('n64', 'nN')}{form}": start_product
        for atom in _BY_NAME.values() if atom.shape[1] == 64
        for form in ("", ".registers")
    },
}  # fmt: skip
