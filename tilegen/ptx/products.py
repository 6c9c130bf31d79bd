"""wgmma: products of a warpgroup from descriptors of shared memory, in flight until a wait for their group."""

from __future__ import annotations

import re

import numpy as np

from tilegen.ptx.descriptors import Reader, Tile, read_descriptor, read_elements
from tilegen.ptx.held import ProductsInFlight
from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.matrices import BITS, fragment_rows, pack, place_a, unpack
from tilegen.ptx.rows import WARPGROUPS, Row, Step, row
from tilegen.ptx.state import WARP, Fault, Lanes
from tilegen.ptx.text import Instruction, PtxError

WARPGROUP = 128


def read_matrix(machine: Machine, idx: Array, bits: int, shape: tuple[int, int], kind: str, along_k: bool) -> Array:
    """Numbers [mn, k] of shared memory, read by the warpgroup's agent."""
    order = machine.order
    reader = Reader(order.agent(("wgmma", int(idx[0]) % order.n)), order.group_row(idx), int(idx[0]))
    return read_elements(machine, reader, read_descriptor(bits), Tile(shape, kind, along_k))


def split_warpgroups(machine: Machine, lanes: Lanes, what: str) -> Array:
    """Lanes of each warpgroup. Raises Fault where not all of its threads are here."""
    if (
        lanes.n % WARPGROUP
        or (lanes.idx.reshape(-1, WARPGROUP) // WARPGROUP != lanes.idx[::WARPGROUP, None] // WARPGROUP).any()
    ):
        raise Fault(f"{what} without all threads of a warpgroup")
    return lanes.idx.reshape(-1, WARPGROUP)


def _multiply(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    n, k = int(found["n"]), int(found["k"])
    kind_d, kind_a, kind_b = found["kind_d"], found["kind_a"], found["kind_b"]
    d = fragment_rows(machine, one.operands[0], False)
    in_registers = one.operands[1].startswith("{")
    a = (
        fragment_rows(machine, one.operands[1], False)
        if in_registers
        else [machine.state.row(one.operands[1], np.dtype("u8"))]
    )
    b = machine.state.row(one.operands[2], np.dtype("u8"))
    adds = machine.state.row(one.operands[3], np.dtype(bool))
    signs = [int(x) for x in one.operands[4:6]] or [1, 1]
    majors = [int(x) for x in one.operands[6:]]
    trans_a = majors[0] if len(majors) == 2 else 0
    trans_b = majors[-1] if majors else 0
    at_a = place_a(16, BITS[kind_a], 4)
    rows, columns = _place_d(kind_d, len(d))
    if columns.max() != n - 1:
        raise PtxError(f"{one.op} takes other counts of registers")
    names = (
        frozenset(machine.names_of(one.operands[0])),
        frozenset(machine.names_of(one.operands[1]) if in_registers else ()),
    )
    shape = f"m64n{n}k{k}.{kind_d}"

    def step(lanes: Lanes) -> None:
        for idx in split_warpgroups(machine, lanes, "wgmma"):
            group = machine.warpgroup(int(idx[0]))
            check_registers(group, names, shape)
            for r in (b, adds, *([] if in_registers else a)):
                if (r[idx] != r[idx[0]]).any():
                    raise Fault("a descriptor, or whether to add, is not the same in all threads of a warpgroup")
            if in_registers:
                words = unpack(np.stack([r[idx] for r in a], -1).reshape(4, WARP, 4), kind_a)
                parts = np.zeros((4, 16, k))
                parts[:, at_a[0], at_a[1]] = words
                left = parts.reshape(64, k)
            else:
                left = read_matrix(machine, idx, int(a[0][idx[0]]), (64, k), kind_a, not trans_a)
            right = read_matrix(machine, idx, int(b[idx[0]]), (n, k), kind_b, not trans_b)
            total = (signs[0] * left) @ (signs[1] * right).T
            if adds[idx[0]]:
                total[rows, columns] += _read_sums(d, idx, kind_d)
            words = pack(total[rows, columns], kind_d)
            for j, r in enumerate(d):
                r[idx] = words[:, j]
            group.groups[-1].append((names[0] | names[1], shape, machine.order.tick()))

    return step


def _place_d(kind: str, words: int) -> tuple[Array, Array]:
    """Row and column of each element of D: [128 threads, words, elements of a word]."""
    thread = np.arange(WARPGROUP)[:, None, None]
    each = 2 if kind == "f16" else 1
    e = np.arange(words)[:, None] * each + np.arange(each)
    rows = thread // WARP * 16 + thread % WARP // 4 + 8 * (e >> 1 & 1)
    return rows, thread % 4 * 2 + (e & 1) + 8 * (e >> 2) + 0 * rows


def _read_sums(d: list[Array], idx: Array, kind: str) -> Array:
    words = np.stack([r[idx] for r in d], -1)
    return words.view(np.int32)[..., None].astype(np.float64) if kind == "s32" else unpack(words, kind)


def check_registers(group: ProductsInFlight, names: tuple[frozenset[str], frozenset[str]], shape: str) -> None:
    """A fence stands between any touch of a register and a wgmma that takes it; sums of one shape may go on."""
    if group.unfenced is None:
        raise Fault("a wgmma before any wgmma.fence")
    if group.unfenced & (names[0] | names[1]):
        name = sorted(group.unfenced & (names[0] | names[1]))[0]
        raise Fault(f"a wgmma takes {name}, which was accessed since the last wgmma.fence")
    flying = group.flying()
    if any(flying.get(name, shape) != shape for name in names[0]):
        raise Fault("a wgmma adds to registers that one of another shape is still adding to")


def touch_registers(machine: Machine, names: frozenset[str], lanes: Lanes) -> None:
    """Another instruction reads or writes registers that some wgmma takes. Raises Fault while they are in flight."""
    for first in np.unique(lanes.idx // WARPGROUP).tolist():
        group = machine.warpgroup(first * WARPGROUP)
        flying = group.flying() if any(group.groups) else {}
        if not names.isdisjoint(flying):
            raise Fault(f"{sorted(names & set(flying))[0]} is accessed, and the wgmma that it is part of is in flight")
        if group.unfenced is not None:
            group.unfenced |= names


def _fence(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    def step(lanes: Lanes) -> None:
        for idx in split_warpgroups(machine, lanes, "wgmma.fence"):
            machine.warpgroup(int(idx[0])).unfenced = set()

    return step


def _commit(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    def step(lanes: Lanes) -> None:
        for idx in split_warpgroups(machine, lanes, "wgmma.commit_group"):
            machine.warpgroup(int(idx[0])).groups.append([])

    return step


def _wait(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    pending = int(one.operands[0], 0)

    def step(lanes: Lanes) -> None:
        order = machine.order
        for idx in split_warpgroups(machine, lanes, "wgmma.wait_group"):
            group = machine.warpgroup(int(idx[0]))
            done = group.groups[: max(0, len(group.groups) - 1 - pending)]
            stamps = [stamp for one in done for _, _, stamp in one]
            if stamps:
                order.learn_column(idx, order.agent(("wgmma", int(idx[0]) % order.n)), max(stamps) + 1)
            group.groups = group.groups[len(done) :]

    return step


ROWS: tuple[Row, ...] = (
    row(r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k(?P<k>\d+)\.(?P<kind_d>\w+)\.(?P<kind_a>\w+)\.(?P<kind_b>\w+)",
        "9.7.15 wgmma.mma_async", _multiply, WARPGROUPS),
    row(r"wgmma\.fence\.sync\.aligned", "9.7.15 wgmma.fence", _fence, WARPGROUPS),
    row(r"wgmma\.commit_group\.sync\.aligned", "9.7.15 wgmma.commit_group", _commit, WARPGROUPS),
    row(r"wgmma\.wait_group\.sync\.aligned", "9.7.15 wgmma.wait_group", _wait, WARPGROUPS),
)  # fmt: skip
