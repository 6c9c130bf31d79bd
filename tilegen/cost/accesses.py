"""The accesses of a plan: both sides of every data step, their addresses written out in base variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import gcd

from tilegen.access import RED
from tilegen.cost.asynchronous import TMA, cp_async_kind
from tilegen.index import INT_LIMIT, Index, Var, conjuncts, count_operators, equal, mod, mul, variables
from tilegen.index.linear import linear
from tilegen.plan import MatrixDescriptor, Memory, Step, Touch, UnknownStep, Visit, begin, matrices, walk
from tilegen.plan.contents import COSTED
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, SCOPES


@dataclass(frozen=True)
class Access:
    """One side of one data step: its byte address in terms of threads, CTA axes, loops and params.

    ``partner`` is the other side of an instruction that reads and writes memory at once, which is cp.async. ``needed``:
    what is loaded is used under these conditions alone, so that a compiler may load it under them. ``text_bytes``: its
    width in the kernel's text, where a compiler makes another one of it; 0 elsewhere. Of a box that TMA
    moves, ``width_bytes`` is a row and ``rows`` are the extents and byte strides around it; ``matrix`` is what wgmma
    or tcgen05 reads.
    """

    memory: Memory
    kind: str  # one of access.KINDS or cp_async.CP_ASYNC, RED, or boxes.TMA
    width_bytes: int
    byte: Index
    conditions: tuple[Index, ...]
    loops: tuple[tuple[Var, Index], ...]
    operators: int  # in the printed offset
    op: int
    threads: int  # of the role that makes it
    partner: Access | None = None
    needed: tuple[Index, ...] = ()
    text_bytes: int = 0
    rows: tuple[tuple[int, Index], ...] = ()
    writes: bool = False  # to this memory
    matrix: MatrixDescriptor | None = None
    picked_bytes: int | None = None  # memory decides its place, in multiples of so many bytes; 0: in no known ones


def find_accesses(steps: Iterable[Step], threads: int, cluster: tuple[int, int, int] = (1, 1, 1)) -> tuple[Access, ...]:
    """Every shared or global access of the steps of a role, addresses written out in base variables."""
    return tuple(a for visit in visit_role(steps, threads, cluster) for a in list_accesses(visit))


def visit_role(steps: Iterable[Step], threads: int, cluster: tuple[int, int, int]) -> Iterator[Visit]:
    """The steps of a role in their order; a CTA's place in its cluster is written out as one in the grid.

    What the places of tables cost is known for contents alone: for values of all of their range.
    """
    return walk(steps, begin(threads, _places_in(cluster), contents=COSTED))


@cache
def _places_in(cluster: tuple[int, int, int]) -> Mapping[str, Index]:
    """A CTA's place in its cluster, by its place in the grid."""
    axes = zip(CLUSTER_AXES, CTA_AXES, cluster, strict=True)
    return {inside: mod(Var(axis, INT_LIMIT), n) for inside, axis, n in axes}


def list_accesses(visit: Visit) -> Iterable[Access]:
    """The accesses of one step, by the kind of cost that its instruction has."""
    row = visit.effects.instruction
    if row is None:
        return ()
    if row.cost not in COSTS:
        raise UnknownStep("cost/accesses.py", row)
    return COSTS[row.cost](visit)


def _in_memory(visit: Visit) -> Iterator[Touch]:
    return (t for t in visit.effects.touches if not t.ref.memory.traits.is_held)


def _access(visit: Visit, touch: Touch, kind: str, operators: int, elems: int) -> Access:
    position, size = visit.position, touch.ref.memory.elem_bytes
    memory, flat = position.flat(touch.ref)
    held = tuple(position.expand(c) for c in conjuncts(touch.where))
    picked = _find_step(touch.ref.offset, position.picked)
    return Access(
        memory, kind, elems * size, mul(flat, size), (*position.guards, *held), position.loops, operators, position.op,
        position.threads, writes=touch.writes, picked_bytes=None if picked is None else picked * size,
    )  # fmt: skip


def _find_step(offset: Index, picked: frozenset[str]) -> int | None:
    """The elements that integers which threads picked move a place by: their common factor, 0 where it is not known;
    None where they have no say in it.
    """
    named = [v for v in variables(offset) if v.name in picked]
    if not named:
        return None
    factors = [c for f, c in linear(offset).items() if not isinstance(f, int) and set(named) & set(variables(f))]
    return gcd(*factors) if all(isinstance(f, Var) for f in linear(offset) if f in named) else 0


def _direction(touch: Touch) -> str:
    return "st" if touch.writes else "ld"


def _plain(visit: Visit) -> Iterator[Access]:
    for t in _in_memory(visit):
        yield _access(visit, t, _direction(t), count_operators(t.ref.offset), t.elems)


def _updates(visit: Visit) -> Iterator[Access]:
    """The side in memory of an atomic update; the other is in registers."""
    for t in _in_memory(visit):
        yield _access(visit, t, RED, count_operators(t.ref.offset), t.elems)


def _matrices(visit: Visit) -> Iterator[Access]:
    """A row for each of the lanes whose addresses are read."""
    for t in _in_memory(visit):
        kind = f"{_direction(t)}matrix{matrices(visit.step)}"  # type: ignore[arg-type]
        yield _access(visit, t, kind, count_operators(t.ref.offset), t.elems)


def _copies(visit: Visit) -> Iterator[Access]:
    """Both sides of cp.async, each the other's partner."""
    fills = any(t.where is not True for t in visit.effects.touches)
    sides = []
    for t in _in_memory(visit):
        kind = cp_async_kind(t.elems * t.ref.memory.elem_bytes, fills)
        sides.append(_access(visit, t, kind, count_operators(t.ref.offset), t.elems))
    yield from (replace(a, partner=b) for a, b in zip(sides, reversed(sides), strict=True))


def _boxes(visit: Visit) -> Iterator[Access]:
    """The box in the array and in shared memory."""
    for t in sorted(visit.effects.touches, key=lambda t: not t.ref.memory.traits.is_array):
        m = t.map
        assert m is not None
        size, row = m.memory.elem_bytes, m.box[-1]
        rows = tuple((n, mul(m.memory.pitches[d], size)) for d, n in zip(m.dims[:-1], m.box[:-1], strict=True))
        in_array = t.ref.memory.traits.is_array
        around = rows if in_array else ((t.elems // row, row * size),)
        yield replace(_access(visit, t, TMA, 0, row), rows=around)


def _described(visit: Visit) -> Iterator[Access]:
    """Matrices that tensor cores read from shared memory, each once; the first thread that starts it stands for it.

    No counter gives wgmma wavefronts, nor tcgen05. The data banks give 128 bytes a cycle, and a swizzle that a
    descriptor names has no conflicts, so that is what a matrix costs.
    """
    for t in _in_memory(visit):
        if t.matrix is None:  # sums in tensor memory
            continue
        one = _access(visit, t, t.matrix.engine, 0, t.matrix.depth)
        row = t.matrix.depth * t.ref.memory.elem_bytes
        first = equal(mod(Var("tx", visit.position.threads), SCOPES["warpgroup"].threads), 0)
        yield replace(one, rows=((t.matrix.rows, row),), conditions=(*one.conditions, first), matrix=t.matrix)


# How the two sides of an instruction are counted, by the kind of cost that its row names.
COSTS: dict[str, Callable[[Visit], Iterable[Access]]] = {
    "access": _plain, "atomic": _updates, "matrix": _matrices, "cp.async": _copies, "box": _boxes,
    "matrices": _described, "registers": lambda visit: (), "tensor": lambda visit: (),
}  # fmt: skip
