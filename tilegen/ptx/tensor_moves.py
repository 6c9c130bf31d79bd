"""Tensor memory and registers: columns taken and given back, loads and stores of warps, waits and fences."""

from __future__ import annotations

import re

import numpy as np

from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.matrices import each_warp, fragment_rows
from tilegen.ptx.memory import check_aligned, granules_of, place_shared, read_address
from tilegen.ptx.rows import CONTROL, WARPS, Row, Step, row
from tilegen.ptx.state import WARP, Fault, Lanes
from tilegen.ptx.tensor_memory import COLUMNS, LANES, UNKNOWN_HALF, Allocation, list_cells
from tilegen.ptx.text import Instruction, PtxError, list_names

GROUP = r"cta_group::(?P<group>[12])"  # of the names of instructions
LEAST_COLUMNS = 32
_MOST = {"32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32, "16x32bx2": 128}


def require_group(machine: Machine, found: re.Match[str]) -> int:
    """The cta_group of an instruction, which all of a kernel's name. Raises PtxError for a second one."""
    group = int(found["group"])
    if machine.tensor.group not in (0, group):
        raise PtxError(f"cta_group::{group}, and the kernel has cta_group::{machine.tensor.group} too")
    if group == 2 and machine.state.peers % 2:
        raise PtxError(f"cta_group::2 in clusters of {machine.state.peers}")
    machine.tensor.group = group
    return group


def list_pair(machine: Machine, cta: int, group: int) -> list[int]:
    """The CTAs that an instruction works on, the even one first."""
    return [cta] if group == 1 else [cta - machine.state.rank[cta * machine.state.padded] % 2 + k for k in range(2)]


# ---- columns
def _come(machine: Machine, what: str, cta: int, group: int, value: int) -> int | None:
    """A CTA of a pair comes, with a value; what was granted to it, or None until the other one has come."""
    tensor = machine.tensor
    granted = tensor.granted[what].pop(cta, None)
    if granted is not None:
        return granted
    came = tensor.came[what]
    came[cta] = value
    members = list_pair(machine, cta, group)
    if not all(one in came for one in members):
        return None
    values = [came[one] for one in members]
    if len(set(values)) > 1:
        raise Fault(f"tcgen05.{what} of {values[0]} columns in one CTA of a pair, of {values[1]} in the other")
    answer = 0
    if what == "alloc":
        place = _find_columns(machine, members, value)
        if place is None:
            return None
        answer = place
    for one in members:
        del came[one]
        tensor.granted[what][one] = answer
    machine.wake()
    return tensor.granted[what].pop(cta)


def _find_columns(machine: Machine, members: list[int], count: int) -> int | None:
    """Free columns of all these CTAs, the last ones: a kernel that takes them to begin at 0 is seen."""
    taken = (machine.tensor.owner[members] > 0).sum(0)
    free = [k for k in range(0, COLUMNS, count) if not taken[k : k + count].any()]
    return free[-1] if free else None


def _allocate(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    state, tensor, order = machine.state, machine.tensor, machine.order
    group, address = require_group(machine, found), read_address(machine, one.operands[0])
    counts = state.row(one.operands[1], np.dtype("u4"))

    def step(lanes: Lanes) -> Array:
        passed = np.zeros(lanes.n, bool)
        for here in _whole_warps(lanes, one.op) * 2:  # the second time, what the other one of a pair was waited for
            idx = lanes.idx[here]
            cta, count = int(state.cta[idx[0]]), int(counts[lanes.at][here][0])
            if passed[here].all():
                continue
            if count not in (32, 64, 128, 256, 512):
                raise Fault(f"tcgen05.alloc of {count} columns: a power of two from {LEAST_COLUMNS} to {COLUMNS}")
            if cta in tensor.relinquished:
                raise Fault("tcgen05.alloc after tcgen05.relinquish_alloc_permit")
            if count > tensor.smallest.get(cta, COLUMNS):
                raise Fault("tcgen05.alloc of more columns than an allocation before it")
            _require_pair(machine, idx, cta, group)
            first = _come(machine, "alloc", cta, group, count)
            if first is None:
                continue
            at = address(lanes)[here][:1]
            check_aligned(at, 4)
            byte = place_shared(machine, at, idx[:1], 4)
            machine.refuse_barriers(byte, 4)
            tensor.smallest[cta] = count
            tensor.allocate(cta, Allocation(first, count, int(idx[0]), order.tick()))
            shadow = machine.shared_shadow
            shadow.write_together(idx[:1] // WARP, granules_of(byte, 4, shadow.granule))
            machine.shared_views[4][byte // 4] = first
            passed[here] = True
        return passed

    return step


def _require_pair(machine: Machine, idx: Array, cta: int, group: int) -> None:
    """Both CTAs of a pair must have started: a barrier of the cluster tells that they have."""
    state, order = machine.state, machine.order
    for other in list_pair(machine, cta, group):
        first = other % state.peers * state.padded
        if other != cta and (order.know[idx, first] == 0).any():
            raise Fault("tcgen05.alloc by a pair whose CTAs have not met: the other one may not have started")


def _whole_warps(lanes: Lanes, op: str) -> list[Array]:
    if not lanes.whole:
        raise Fault(f"{op} by a part of a warp")
    return each_warp(lanes)


def _free(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    state, tensor = machine.state, machine.tensor
    group = require_group(machine, found)
    addresses, counts = (state.row(name, np.dtype("u4")) for name in one.operands)

    def step(lanes: Lanes) -> Array:
        passed = np.zeros(lanes.n, bool)
        for here in _whole_warps(lanes, one.op) * 2:
            idx = lanes.idx[here]
            if passed[here].all():
                continue
            cta, first, count = (int(x) for x in (state.cta[idx[0]], addresses[idx[0]], counts[idx[0]]))
            if cta not in tensor.granted["dealloc"]:
                _judge_free(machine, idx, (first, count), list_pair(machine, cta, group))
            if _come(machine, "dealloc", cta, group, count) is not None:
                tensor.release(cta, first)
                machine.wake()
                passed[here] = True
        return passed

    return step


def _judge_free(machine: Machine, idx: Array, place: tuple[int, int], members: list[int]) -> None:
    """Raises Fault where columns that are given back are no allocation, or somebody may still use them."""
    tensor, order = machine.tensor, machine.order
    first, count = place
    for cta in members:
        held = tensor.allocations.get((cta, first))
        if held is None or held.columns != count:
            raise Fault(f"tcgen05.dealloc of {count} columns from {first} on, which no tcgen05.alloc gave")
        tensor.check_columns(idx, cta, first, first + count - 1)
        row, columns = tensor.warp_row(idx, order.know), np.arange(first, first + count)
        tensor.judge(list_cells(cta, np.arange(LANES)[:, None], columns), row, "dealloc")


def _relinquish(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    require_group(machine, found)

    def step(lanes: Lanes) -> None:
        machine.tensor.relinquished |= set(machine.state.cta[lanes.idx].tolist())

    return step


# ---- loads and stores
def place_registers(shape: str, count: int) -> tuple[Array, Array]:
    """Row and column of each register, [lanes, registers], of an instruction that repeats a shape ``count`` times.

    PTX ISA, tcgen05: Data Movement Shape.

    >>> rows, columns = place_registers("16x256b", 1)
    >>> rows[5].tolist(), columns[5].tolist()
    ([1, 1, 9, 9], [2, 3, 2, 3])
    """
    lane = np.arange(WARP)[:, None]
    each = {"16x128b": 2, "16x256b": 4}.get(shape, 1)
    r = np.arange(each * count)
    if shape == "32x32b":
        rows, columns = lane, r
    elif shape == "16x32bx2":
        rows, columns = lane % 16, r
    elif shape == "16x64b":
        rows, columns = lane // 4 + 8 * (lane % 2), 2 * r + lane // 2 % 2
    elif shape == "16x128b":
        rows, columns = lane // 4 + 8 * (r % 2), 4 * (r // 2) + lane % 4
    else:
        rows, columns = lane // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (lane % 4) + r % 2
    found = np.broadcast_arrays(rows, columns)
    return found[0], found[1]


def _move(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """ld and st: ``packs`` is for two halves of neighbouring columns in one register."""
    state, tensor = machine.state, machine.tensor
    shape, count, is_load, packs = found["shape"], int(found["count"]), one.op.startswith("tcgen05.ld"), found["pack"]
    where, *apart = one.operands[1:] if is_load else one.operands[:-1]
    names = one.operands[0 if is_load else -1]
    registers, address = fragment_rows(machine, names, False), read_address(machine, where)
    rows, columns = place_registers(shape, count)
    second = int(apart[0], 0) if apart else 0
    if count > _MOST[shape] or rows.shape[1] != len(registers):
        raise PtxError(f"{one.op} takes other counts of registers")
    columns = columns * (2 if packs else 1) + second * (np.arange(WARP)[:, None] >= 16)
    taken = frozenset(list_names(names)) if is_load else frozenset()

    def step(lanes: Lanes) -> None:
        at = address(lanes)
        for here in each_warp(lanes):
            idx = lanes.idx[here]
            cells = [_place_window(machine, idx, at[here], rows, columns + k) for k in range(2 if packs else 1)]
            if is_load:
                values = [tensor.read(idx, one) for one in cells]
                words = values[0] & 0xFFFF | values[1] << 16 if packs else values[0]
                for r, word in zip(registers, words.T, strict=True):
                    r[idx] = word
                tensor.loading.setdefault(int(idx[0]) // WARP, set()).update(taken)
            else:
                words = np.stack([r[idx] for r in registers], 1)
                for k, one_half in enumerate(cells):
                    half = words >> 16 * k & 0xFFFF | UNKNOWN_HALF
                    tensor.write(idx, one_half, half if packs else words)

    return step


def _place_window(machine: Machine, idx: Array, at: Array, rows: Array, columns: Array) -> Array:
    """The cells of a warp, which reaches 32 lanes by its number, at one address."""
    state = machine.state
    if (at != at[0]).any():
        raise Fault("an address of tensor memory that is not the same in all lanes of a warp")
    lane, column = divmod(int(at[0]), 1 << 16)
    window = int(idx[0]) % state.padded // WARP % 4
    low = lane + int(rows.max())
    if lane // WARP != window or low // WARP != window or lane % 16:
        raise Fault(f"a warp that reaches lanes {WARP * window} to {WARP * window + 31} asks for {lane} to {low}")
    cta = int(state.cta[idx[0]])
    machine.tensor.check_columns(idx, cta, column + int(columns.min()), column + int(columns.max()))
    return list_cells(cta, lane + rows, column + columns)[: len(idx)]


def touch_loads(machine: Machine, names: frozenset[str], lanes: Lanes) -> None:
    """Another instruction reads or writes registers that a load may still fill. Raises Fault."""
    for warp in np.unique(lanes.idx // WARP).tolist():
        flying = machine.tensor.loading.get(warp)
        if flying and not names.isdisjoint(flying):
            raise Fault(
                f"{sorted(names & flying)[0]} is accessed before tcgen05.wait::ld, and a load may still fill it"
            )


def _wait(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    is_store = found["what"] == "st"

    def step(lanes: Lanes) -> None:
        machine.tensor.finish(lanes.idx, is_store)
        if not is_store:
            for warp in np.unique(lanes.idx // WARP).tolist():
                machine.tensor.loading.pop(warp, None)

    return step


def _fence(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    tensor = machine.tensor
    act = tensor.fence_before if found["when"] == "before" else tensor.fence_after

    def step(lanes: Lanes) -> None:
        act(lanes.idx)

    return step


_SHAPE = r"(?P<shape>32x32b|16x64b|16x128b|16x256b|16x32bx2)\.x(?P<count>1|2|4|8|16|32|64|128)"
ROWS: tuple[Row, ...] = (
    row(rf"tcgen05\.alloc\.{GROUP}\.sync\.aligned\.shared::cta\.b32", "9.7.16 tcgen05.alloc", _allocate, CONTROL),
    row(rf"tcgen05\.dealloc\.{GROUP}\.sync\.aligned\.b32", "9.7.16 tcgen05.dealloc", _free, CONTROL),
    row(rf"tcgen05\.relinquish_alloc_permit\.{GROUP}\.sync\.aligned", "9.7.16 tcgen05.relinquish_alloc_permit",
        _relinquish, WARPS),
    row(rf"tcgen05\.ld\.sync\.aligned\.{_SHAPE}(?P<pack>\.pack::16b)?\.b32", "9.7.16 tcgen05.ld", _move, WARPS),
    row(rf"tcgen05\.st\.sync\.aligned\.{_SHAPE}(?P<pack>\.unpack::16b)?\.b32", "9.7.16 tcgen05.st", _move, WARPS),
    row(r"tcgen05\.wait::(?P<what>ld|st)\.sync\.aligned", "9.7.16 tcgen05.wait", _wait, WARPS),
    row(r"tcgen05\.fence::(?P<when>before|after)_thread_sync", "9.7.16 tcgen05.fence", _fence),
)  # fmt: skip
