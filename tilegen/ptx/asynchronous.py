"""Copies in flight: cp.async and its groups, bulk copies, boxes of TMA with their descriptors."""

from __future__ import annotations

import re

import numpy as np

from tilegen.dtypes import numpy_dtype
from tilegen.ptx.barriers import complete, find_barrier, land_bytes, tell_phases
from tilegen.ptx.conversions import round_float
from tilegen.ptx.held import Flight
from tilegen.ptx.launch import Array, Region, TensorMap
from tilegen.ptx.machine import Machine
from tilegen.ptx.memory import (
    check_aligned,
    find_region,
    granules_of,
    load_global,
    place_shared,
    read_address,
)
from tilegen.ptx.rows import Row, Step, row
from tilegen.ptx.state import GENERIC, PEER, Fault, Lanes
from tilegen.ptx.text import Instruction, PtxError, list_names
from tilegen.ptx.updates import find_update

SWIZZLES = {0: 0, 32: 1, 64: 3, 128: 7}  # bits of 16 bytes, from bit 4, that those three further up are added to


# ---- cp.async
def _start_copy(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    target, source = read_address(machine, one.operands[0]), read_address(machine, one.operands[1])
    size = int(one.operands[2], 0)
    length = machine.state.row(one.operands[3], np.dtype("u4")) if len(one.operands) > 3 else None
    if size not in (4, 8, 16) or (found["cache"] == "cg" and size != 16):
        raise PtxError(f"{one.op} of {size} bytes")

    def step(lanes: Lanes) -> None:
        at, byte_at = source(lanes), target(lanes)
        data = np.zeros((lanes.n, size // 4), np.uint32)
        lengths = np.full(lanes.n, size) if length is None else length[lanes.at].astype(np.int64)
        if (lengths > size).any():
            raise Fault(f"cp.async reads more than its {size} bytes")
        reads = np.flatnonzero(lengths > 0)
        if len(reads):
            if not ((lengths == size) | (lengths == 0)).all():
                raise Fault("cp.async of a part of its bytes is not carried out")
            data[reads] = load_global(machine, at[reads], 4, size // 4, machine.part(lanes, reads))
            check_aligned(at[reads], size)
        check_aligned(byte_at, size)
        byte = place_shared(machine, byte_at, lanes.idx, size)
        machine.refuse_barriers(byte, size)
        granules = granules_of(byte, size, machine.shared_shadow.granule)
        machine.shared_shadow.start_flight(lanes, granules)
        machine.shared_views[4][(byte // 4)[:, None] + np.arange(size // 4)] = data
        machine.flights.append(Flight(lanes.idx, granules, machine.committed[lanes.idx].copy()))

    return step


def _commit(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    def step(lanes: Lanes) -> None:
        machine.committed[lanes.idx] += 1

    return step


def _wait(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    pending = int(one.operands[0], 0) if one.operands else -1  # wait_all: what has not been committed, too

    def step(lanes: Lanes) -> None:
        waits = np.full(machine.state.total, -1)
        waits[lanes.idx] = machine.committed[lanes.idx] - pending
        for flight in machine.flights:
            here = (flight.group >= 0) & (flight.group < waits[flight.idx])
            if here.any():
                machine.shared_shadow.land(machine.order.column[flight.idx[here]], flight.granules[here])
                flight.group[here] = -1
        _forget(machine)

    return step


def _forget(machine: Machine) -> None:
    machine.flights = [flight for flight in machine.flights if (flight.group >= 0).any()]
    machine.shared_shadow.flights = len(machine.flights)


def _arrive_landed(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """An arrival when this lane's copies have landed: as if they landed here. Its phase tells of them alone."""
    address = read_address(machine, one.operands[0])

    def step(lanes: Lanes) -> None:
        for lane, at in zip(lanes.idx.tolist(), address(lanes).tolist(), strict=True):
            barrier = find_barrier(machine, at, lane)
            for flight in machine.flights:
                here = (flight.idx == lane) & (flight.group >= 0)
                if here.any():
                    machine.shared_shadow.land(np.array([barrier.agent]), flight.granules[here])
                    flight.group[here] = -1
            _forget(machine)
            tell_phases(machine, barrier, lane)
            if found["noinc"]:
                barrier.pending -= 1
            if barrier.pending < 0:
                raise Fault("more arrivals at an mbarrier than its phase counts")
            complete(machine, barrier)

    return step


# ---- boxes
def swizzle_bytes(at: Array, span: int) -> Array:
    """Where a byte lies: bits 4 to 6 of its address are changed by bits 7 to 9, as many as the span has."""
    found: Array = at ^ ((at >> 7 & SWIZZLES[span]) << 4)
    return found


def place_box(box: TensorMap, corner: list[int], region: Region) -> tuple[Array, Array]:
    """Of each element of a box, in order, the byte in its array, and whether it lies inside.

    >>> from tilegen.ptx.launch import place_regions
    >>> box = TensorMap("X", 2, (4, 3), (8,), (2, 2))
    >>> region = place_regions({"X": np.zeros(12, np.uint16)}, [])["X"]
    >>> place_box(box, [3, 1], region)[0].tolist(), place_box(box, [3, 1], region)[1].tolist()
    ([14, 16, 22, 24], [True, False, True, False])
    """
    byte, inside = np.zeros(1, np.int64), np.ones(1, bool)
    strides = (box.elem_bytes, *box.strides)
    for extent, start, size, stride in zip(box.dims, corner, box.box, strides, strict=True):
        along = start + np.arange(size)
        byte = (along[:, None] * stride + byte).ravel()
        inside = ((along >= 0) & (along < extent))[:, None] & inside
        inside = inside.ravel()
    if inside.any() and byte[inside].max() + box.elem_bytes > region.size:
        raise Fault(f"a descriptor reaches beyond {region.name}")
    return byte, inside


def read_box(region: Region, box: TensorMap, byte: Array, inside: Array) -> Array:
    """The bytes of a box: zeros outside of the array."""
    view = region.views[box.elem_bytes]
    values = np.where(inside, view[np.where(inside, byte, 0) // box.elem_bytes], 0).astype(view.dtype)
    if box.rounds_to_tf32:
        values = round_float(values.view(np.float32).astype(np.float64), "tf32", "rna").astype(np.float32)
    return np.ascontiguousarray(values).view(np.uint8)


def _copy_box(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """Each lane that is here starts a copy of its own: from global memory to shared, or back."""
    state = machine.state
    loads = found["to"].startswith("shared")
    where = one.operands[1] if loads else one.operands[0]
    m = re.fullmatch(r"\[\s*([%\w.$]+)\s*,\s*(\{.*\})\s*\]", where)
    if not m:
        raise PtxError(f"{where} is no box of a tensor")
    map_row = state.row(m[1], np.dtype("i8"))
    coordinates = [state.row(name, np.dtype("i4")) for name in list_names(m[2])]
    shared = read_address(machine, one.operands[0] if loads else one.operands[1])
    barrier = read_address(machine, one.operands[2]) if loads else None
    mask = state.row(one.operands[3], np.dtype("u2")) if found["multicast"] else None
    if found["multicast"] and found["group"] == "2":
        raise PtxError(f"{one.op} is not carried out: several CTAs, and mbarriers of pairs")

    def step(lanes: Lanes) -> None:
        corners = [r[lanes.at] for r in coordinates]
        places, maps = shared(lanes), map_row[lanes.at]
        signals = barrier(lanes) if barrier else places
        for k, lane in enumerate(lanes.idx.tolist()):
            box = state.maps.get(int(maps[k]) - GENERIC["param"])
            if box is None or len(box.dims) != len(corners):
                raise Fault("no descriptor of this rank lies there")
            corner = [int(c[k]) for c in corners]
            if loads:
                peers = [p for p in range(16) if int(mask[lane]) >> p & 1] if mask is not None else None
                to = int(places[k]), int(signals[k]), int(found["group"] or 1)
                _load_box(machine, lane, box, corner, to, peers)
            else:
                _store_box(machine, lane, box, corner, int(places[k]), found["reduce"] or "")

    return step


def _locate_box(machine: Machine, lane: int, box: TensorMap, at: int, count: int) -> Array:
    """Bytes of ``state.shared``, in order. A swizzle goes by the address, whatever it begins at."""
    if at % 128 or (box.swizzle and at % 128):
        raise Fault(f"a box of TMA at {at % 128} past a multiple of 128 bytes")
    size = count * box.elem_bytes
    start = int(place_shared(machine, np.array([at]), np.array([lane]), size)[0])
    inner = box.box[0] * box.elem_bytes
    if inner % 16 or (box.swizzle and inner > box.swizzle):
        raise Fault(f"a box with rows of {inner} bytes, and a swizzle of {box.swizzle}")
    pitch = box.swizzle or inner  # rows of a swizzled box lie its span apart
    if pitch != inner:
        raise Fault(f"rows of {inner} bytes in a swizzle of {box.swizzle} are not carried out")
    return start - at % (1 << PEER) + swizzle_bytes(at % (1 << PEER) + np.arange(size), box.swizzle)


def _load_box(
    machine: Machine, lane: int, box: TensorMap, corner: list[int], at: tuple[int, int, int], peers: list[int] | None
) -> None:
    """``at``: where the box goes, its mbarrier, and of how many CTAs (1, or a pair) one may report to it."""
    state, order = machine.state, machine.order
    region = state.regions[box.array]
    machine.require_previous(np.array([lane]))
    byte, inside = place_box(box, corner, region)
    data = read_box(region, box, byte, inside)
    if region.name in machine.global_shadows:
        shadow = machine.global_shadows[region.name]
        reader, granules = order.agent(("bulk", lane % order.n)), np.unique(byte[inside] // shadow.granule)
        shadow.read_async(reader, granules, order.own_row(lane), lane // order.n)
    for peer in [None] if peers is None else peers:
        to, signal = at[:2] if peer is None else tuple((x & (1 << PEER) - 1) | (peer + 1) << PEER for x in at[:2])
        if peer is not None and peer >= state.peers:
            raise Fault(f"a box is sent to CTA {peer} of a cluster of {state.peers}")
        barrier = find_barrier(machine, signal, lane)
        place = _locate_box(machine, lane, box, to, byte.size)
        machine.refuse_barriers(place[:1], place.size)
        ranks = [int(state.rank[byte // state.shared_bytes * state.padded]) for byte in (place[0], barrier.byte)]
        if ranks[0] // at[2] != ranks[1] // at[2]:
            raise Fault(f"a box for CTA {ranks[0]} of a cluster reports to an mbarrier of CTA {ranks[1]}")
        granules = np.unique(place // machine.shared_shadow.granule)
        machine.shared_shadow.write_async(barrier.agent, granules, order.own_row(lane))
        state.shared[place] = data
        land_bytes(machine, barrier, lane, data.size)


def _store_box(machine: Machine, lane: int, box: TensorMap, corner: list[int], at: int, reduce: str = "") -> None:
    """``reduce``: how each element is joined with the one that is there, atomically; else it takes its place."""
    state, order = machine.state, machine.order
    region = state.regions[box.array]
    if not region.is_writable:
        raise Fault(f"a write to {region.name}, which is only read")
    machine.require_previous(np.array([lane]))
    byte, inside = place_box(box, corner, region)
    place = _locate_box(machine, lane, box, at, byte.size)
    agent, shadow = order.agent(("bulk", lane % order.n)), machine.global_shadows[region.name]
    stamp = machine.shared_shadow.read_async(
        agent, np.unique(place // machine.shared_shadow.granule), order.own_row(lane)
    )
    values = state.shared[place].view(f"u{box.elem_bytes}")
    granules = np.unique(byte[inside] // shadow.granule)
    writer, put = order.agent(("bulk writes", lane % order.n)), shadow.update_async if reduce else shadow.write_async
    put(writer, granules, order.own_row(lane), lane // order.n)
    view, to, new = region.views[box.elem_bytes], byte[inside] // box.elem_bytes, values[inside]
    view[to] = update_elements(box.dtype, reduce, view[to], new) if reduce else new
    machine.bulk.setdefault(lane, [[]])[-1].append(stamp)


def update_elements(dtype: str, what: str, old: Array, new: Array) -> Array:
    """Elements joined as ``cp.reduce.async.bulk`` does, as bits. Raises Fault for a type that has no such update."""
    kind = {"float16": "f16", "bfloat16": "bf16"}.get(dtype, "")
    held = old.dtype if kind else numpy_dtype(dtype)
    update = find_update(what, kind)
    if update is None or (held.kind == "f" and what not in ("add", "min", "max")):
        raise Fault(f"{what} of {dtype} is not carried out")
    return np.asarray(update(old.view(held), new.view(held), new.view(held))).view(old.dtype)


def _copy_bulk(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """A copy of contiguous bytes, as a box of one row."""
    state = machine.state
    loads = found["to"].startswith("shared")
    target, source = (read_address(machine, x) for x in one.operands[:2])
    sizes = state.row(one.operands[2], np.dtype("u4"))
    barrier = read_address(machine, one.operands[3]) if loads else None

    def step(lanes: Lanes) -> None:
        there, here = (source(lanes), target(lanes)) if loads else (target(lanes), source(lanes))
        signals = barrier(lanes) if barrier else there
        for k, lane in enumerate(lanes.idx.tolist()):
            size, at = int(sizes[lanes.at][k]), int(there[k])
            region = find_region(machine, np.array([at]), size)
            if size % 16 or at % 16 or int(here[k]) % 16:
                raise Fault("a bulk copy that is no multiple of 16 bytes")
            box = TensorMap(region.name, 4, (region.size // 4,), (), (size // 4,))
            corner = [(at - region.base) // 4]
            if loads:
                _load_box(machine, lane, box, corner, (int(here[k]), int(signals[k]), state.peers), None)
            else:
                _store_box(machine, lane, box, corner, int(here[k]))

    return step


def _commit_bulk(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    def step(lanes: Lanes) -> None:
        for lane in lanes.idx.tolist():
            machine.bulk.setdefault(lane, [[]]).append([])

    return step


def _wait_bulk(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    pending = int(one.operands[0], 0)

    def step(lanes: Lanes) -> None:
        order = machine.order
        for lane in lanes.idx.tolist():
            groups = machine.bulk.get(lane, [[]])
            done = groups[: max(0, len(groups) - 1 - pending)]
            stamps = [stamp for group in done for stamp in group]
            if stamps:
                order.learn_column(np.array([lane]), order.agent(("bulk", lane % order.n)), max(stamps) + 1)
                if not found["read"]:
                    order.learn_column(np.array([lane]), order.agent(("bulk writes", lane % order.n)), max(stamps) + 2)
            machine.bulk[lane] = groups[len(done) :]

    return step


_TENSOR = r"cp\.async\.bulk\.tensor\.\dd\."
ROWS: tuple[Row, ...] = (
    row(r"cp\.async\.(?P<cache>ca|cg)\.shared(::cta)?\.global(\.L\w*::\w+)*", "9.7.9 cp.async", _start_copy),
    row(r"cp\.async\.commit_group", "9.7.9 cp.async.commit_group", _commit),
    row(r"cp\.async\.wait_(group|all)", "9.7.9 cp.async.wait_group", _wait),
    row(r"cp\.async\.mbarrier\.arrive(?P<noinc>\.noinc)?\.shared(::cta)?\.b64", "9.7.13 cp.async.mbarrier.arrive",
        _arrive_landed),
    row(_TENSOR + r"(cta_group::(?P<group>[12])\.)?(?P<to>shared::(cluster|cta))\.global(\.tile)?"
        r"\.mbarrier::complete_tx::bytes(?P<multicast>\.multicast::cluster)?(?P<reduce>!)?",
        "9.7.9 cp.async.bulk.tensor", _copy_box),
    row(r"cp\.reduce\.async\.bulk\.tensor\.\dd\.(?P<to>global)\.shared::cta\.(?P<reduce>\w+)(\.tile)?\.bulk_group"
        r"(?P<multicast>!)?(?P<group>!)?", "9.7.9 cp.reduce.async.bulk.tensor", _copy_box),
    row(_TENSOR + r"(?P<to>global)\.shared::cta(\.tile)?\.bulk_group(?P<multicast>!)?(?P<reduce>!)?(?P<group>!)?",
        "9.7.9 cp.async.bulk.tensor",
        _copy_box),
    row(r"cp\.async\.bulk\.(?P<to>shared::(cluster|cta))\.global\.mbarrier::complete_tx::bytes", "9.7.9 cp.async.bulk",
        _copy_bulk),
    row(r"cp\.async\.bulk\.(?P<to>global)\.shared::cta\.bulk_group", "9.7.9 cp.async.bulk", _copy_bulk),
    row(r"cp\.async\.bulk\.commit_group", "9.7.9 cp.async.bulk.commit_group", _commit_bulk),
    row(r"cp\.async\.bulk\.wait_group(?P<read>\.read)?", "9.7.9 cp.async.bulk.wait_group", _wait_bulk),
)  # fmt: skip
