"""Matrices in shared memory that products find by descriptors: wgmma's, and those of tcgen05."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NoReturn

import numpy as np

from tilegen.access import distinct
from tilegen.interpret.address import check_start, find
from tilegen.interpret.asynchronous import SharedAccess, refuse_unfenced
from tilegen.interpret.clashes import TOGETHER
from tilegen.interpret.fault import MALFORMED, MISALIGNED, OUT_OF_BOUNDS
from tilegen.interpret.fragments import HELD_AS
from tilegen.interpret.pooled import Shared
from tilegen.interpret.reporting import report
from tilegen.interpret.site import Site
from tilegen.interpret.threads import Array, Group
from tilegen.layouts import MmaAtom
from tilegen.plan import MatrixDescriptor, Touch
from tilegen.plan.descriptors import CHUNK_BYTES
from tilegen.scopes import SCOPES

_LANES = SCOPES["warp"].threads
TEAM = SCOPES["warpgroup"].threads


@dataclass(frozen=True)
class Readers:
    """Teams that read matrices, each by an agent: warpgroups, or single threads.

    ``members``: the row of a thread of each of its warps in the group of the step, (teams, warps). ``known``: what the
    reads are ordered after, a row for each warp; None: what warps know.
    """

    name: str
    members: Array
    agent: Array
    is_team: bool = True
    known: Array | None = None

    @property
    def firsts(self) -> Array:
        """The row of each team's first thread."""
        result: Array = self.members[:, 0]
        return result


def of_warpgroups(agent: Array, site: Site) -> Readers:
    """The warpgroups of a step; ``agent`` has that of each thread."""
    rows = np.arange(len(site.group))[site.group.by_lane].reshape(-1, TEAM)[:, ::_LANES]
    return Readers("wgmma", rows, agent[rows[:, 0]])


def same_in_a_team(value: Any, what: str, site: Site) -> Array:
    """A value of each thread that all of a warpgroup must have."""
    values = site.group.spread(value)
    teams = values[site.group.by_lane].reshape(-1, TEAM)
    if (teams != teams[:, :1]).any():
        site.fail(MALFORMED, f"{what} differs between threads of a warpgroup")
    return values


def find_problem(matrix: MatrixDescriptor, rows: int, atom: MmaAtom) -> str:
    """Why a matrix is none that an atom multiplies so many rows of; "" where it is."""
    if matrix.engine != atom.kind:
        return f"its descriptor is one of {matrix.engine}"
    if (matrix.rows, matrix.depth) != (rows, atom.shape[2]):
        return f"it multiplies {rows} rows of {atom.shape[2]}, not {matrix.rows} of {matrix.depth}"
    return matrix.problem()


def read_matrix(touch: Touch, matrix: MatrixDescriptor, dtype: str, readers: Readers, site: Site) -> Array:
    """A matrix in shared memory, (teams, rows, depth), which the agents read until they are waited for."""
    place, group = find(touch.ref, site), site.group
    shared, held = place.root.store, HELD_AS.get(dtype, dtype)
    if not place.root.memory.traits.is_pooled or touch.ref.memory.dtype != held:
        found = f"{place.root.memory.space} {touch.ref.memory.dtype}"
        site.fail(MALFORMED, f"{readers.name} reads {held} in shared memory by a descriptor, not {found}")
    where = f"where {touch.ref.memory.name} is read"
    flat = same_in_a_team(place.flat, where, site) if readers.is_team else group.spread(place.flat)
    start, firsts = flat * shared.size + shared.offset, readers.firsts
    off = start % matrix.pattern_bytes >= matrix.room_bytes
    if (off | (start % 16 > 0)).any():
        bad = int(np.argmax(off | (start % 16 > 0)))
        where = f"byte {int(start[bad])}, {int(start[bad]) % matrix.pattern_bytes} from a multiple of"
        site.fail(MISALIGNED, f"a matrix of {shared.name} begins at {where} {matrix.pattern_bytes}", bad)
    check_start(place.root.memory, matrix.pattern_bytes, "a matrix", site)
    byte = matrix.swap_chunks(start[firsts][:, None] + _chunks_of(matrix))
    inside = (byte >= shared.offset) & (byte + CHUNK_BYTES <= shared.offset + place.root.span * shared.size)
    if not inside.all():
        _refuse_outside(shared, place.root.span, matrix, start[firsts], firsts, site)
    byte += group.cta[firsts][:, None] * shared.pool.bytes
    _borrow_all(shared, byte, readers, site)
    bits = shared.pool.chunks.take(byte // CHUNK_BYTES, axis=0).view(site.machine.domain.stored(held))
    parts = bits.reshape(len(firsts), *_chunk_table(matrix), -1)
    result: Array = parts if matrix.along == "k" else parts.swapaxes(2, 3)
    return result.reshape(len(firsts), matrix.rows, matrix.depth)


def _chunk_table(matrix: MatrixDescriptor) -> tuple[int, int]:
    """The chunks of a matrix by rows and depth: they have neighbours along K, or along its rows."""
    elems = CHUNK_BYTES // matrix.elem_bytes
    return (matrix.rows, matrix.depth // elems) if matrix.along == "k" else (matrix.rows // elems, matrix.depth)


@cache
def _chunks_of(matrix: MatrixDescriptor) -> Array:
    """Where the chunks of a matrix lie from its start, before they trade places: all that the hardware reads."""
    elems, offsets = CHUNK_BYTES // matrix.elem_bytes, matrix.offsets()
    chunks = offsets[:, ::elems] if matrix.along == "k" else offsets[::elems]
    inside = np.arange(elems) * matrix.elem_bytes
    parts = chunks[:, :, None] + inside if matrix.along == "k" else chunks[:, None] + inside[:, None]
    assert np.array_equal(parts.reshape(offsets.shape), offsets) and not (chunks % CHUNK_BYTES).any()
    result: Array = chunks.ravel()
    return result


def _refuse_outside(
    shared: Shared, span: int, matrix: MatrixDescriptor, start: Array, firsts: Array, site: Site
) -> NoReturn:  # fmt: skip
    """Report the first element that a descriptor reaches beyond a buffer."""
    byte = matrix.swap_chunks(start[:, None, None] + matrix.offsets())
    inside = (byte >= shared.offset) & (byte < shared.offset + span * shared.size)
    row = int(np.flatnonzero(~inside.all((1, 2)))[0])
    element = (int(byte[row][~inside[row]][0]) - shared.offset) // shared.size
    message = f"the descriptor reaches element {element} of {shared.name}, which has {span}"
    site.fail(OUT_OF_BOUNDS, message, int(firsts[row]))


def _borrow_all(shared: Shared, byte: Array, readers: Readers, site: Site) -> None:
    """The agent of each team reads chunks, a row for each, from now on.

    Mostly all is well, which is seen at once; else one team after the other says what is not.
    """
    shadow, group = shared.pool.shadow.seen_with(readers.known), site.group
    granules = (byte[:, :, None] // shared.pool.grain + np.arange(CHUNK_BYTES // shared.pool.grain)).reshape(
        len(byte), -1
    )
    is_own = not (shared.pool.holds.take(granules) != shared.family).any()
    if is_own and shadow.is_open(granules, group.warp[readers.members]):
        shadow.take_by_agents(granules, readers.agent, site.op)
        return
    for team in range(len(byte)):
        _borrow(shared, distinct(granules[team]), readers, team, site)


def _borrow(shared: Shared, granules: Array, readers: Readers, team: int, site: Site) -> None:
    """The agent of a team reads granules from now on; every warp of the team must be ordered after who wrote them."""
    shadow, group = shared.pool.shadow.seen_with(readers.known), site.group
    own = site.narrow(_repeat(group, int(readers.firsts[team]), len(granules), False))
    shared.refuse_unwritten(granules[:, None], own)
    shared.refuse_others(granules[:, None], own)
    rows, agent = readers.members[team].tolist(), np.full(len(granules), readers.agent[team])
    each = [_repeat(group, row, len(granules), readers.is_team) for row in rows]
    for row, who in zip(rows, each, strict=True):
        clash = shadow.read_by_agent(granules[:, None], who, agent, site.op)
        report(shared.pool.shadow, clash, "reads", granules[:, None], partial(_where, shared, row), site)
    for row, who in zip(rows, each, strict=True):
        refuse_unfenced(SharedAccess(shared, granules, who, row, readers.known), "reads", site, readers.name)


def _repeat(group: Group, row: int, times: int, is_warp: bool) -> Group:
    """The thread in a row so often, or its whole warp, no lane told from another."""
    each = np.full(times, row)
    lanes = np.full(times, TOGETHER) if is_warp else group.lane[each]
    return Group(group.crew, slice(None), group.thread[each], group.cta[each], group.warp[each], lanes)


def _where(shared: Shared, row: int, entry: int, granules: Array) -> tuple[int, str]:
    """``Shared.where`` for granules that one warp reads, of which one thread stands in row ``row``."""
    return row, shared.where(entry, granules)[1]
