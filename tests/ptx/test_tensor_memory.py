"""Loads and stores of tensor memory, columns, waits and fences, in small texts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx.machine import run_text
from tilegen.layouts.constructors.tensor_memory import tcgen05_atom_layout
from tilegen.ptx import PtxError, PtxFault
from tilegen.ptx.schedule import find_row
from tilegen.ptx.tensor_moves import place_registers

EACH = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}  # registers of a repetition
WIDE = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}  # columns
MOST = {"32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32, "16x32bx2": 128}
HEAD = ".shared .align 16 .b8 base[64];\n.reg .b32 %v<129>;\n.reg .b32 %w<129>;\n.reg .b32 %x<65>;\n"
# %r2: the columns; %r4: those of the warp's lanes; %r1: the warp; %rd8: the thread's 64 words of Y.
TAKE = """mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; setp.eq.u32 %p0, %r1, 0; mov.u32 %r10, base;
@%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r10], 128;
bar.sync 0;
ld.shared.u32 %r2, [%r10]; and.b32 %r3, %r1, 3; shl.b32 %r3, %r3, 21; add.u32 %r4, %r2, %r3;
mul.wide.u32 %rd7, %r0, 256; add.s64 %rd8, %rd0, %rd7;
"""
GIVE = """tcgen05.fence::before_thread_sync;
bar.sync 0;
@%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 128;
"""
WAIT_LD, WAIT_ST = "tcgen05.wait::ld.sync.aligned;\n", "tcgen05.wait::st.sync.aligned;\n"
AFTER, BEFORE = "tcgen05.fence::after_thread_sync;\n", "tcgen05.fence::before_thread_sync;\n"


def names(register: str, count: int) -> str:
    return "{" + ", ".join(f"%{register}{k}" for k in range(count)) + "}"


def run(body: str, threads: int = 128) -> np.ndarray:
    out = np.zeros(threads * 64, np.uint32)
    return run_text(TAKE + body + GIVE, {"Y": out}, "Y", threads, HEAD).reshape(threads, 64)


def fill(columns: int) -> str:
    """Cells of all lanes hold lane << 16 | column."""
    lines = [f"shl.b32 %r5, %r0, 16;\nadd.u32 %v{k}, %r5, {k};" for k in range(columns)]
    return "\n".join([*lines, f"tcgen05.st.sync.aligned.32x32b.x{columns}.b32 [%r4], {names('v', columns)};\n"])


def keep(count: int) -> str:
    return "".join(f"st.global.u32 [%rd8+{4 * k}], %w{k};\n" for k in range(count))


def load(shape: str, count: int, register: str = "w", at: str = "%r4", apart: int = 0) -> str:
    second = f", {apart}" if shape == "16x32bx2" else ""
    return f"tcgen05.ld.sync.aligned.{shape}.x{count}.b32 {names(register, EACH[shape] * count)}, [{at}]{second};\n"


@pytest.mark.parametrize("shape", EACH)
def test_registers_are_those_of_the_layouts(shape):
    """Two readings of PTX's figures: the formulas here, and the layouts that plans are made of."""
    count = 2
    columns = WIDE[shape] * count * (2 if shape == "16x32bx2" else 1)
    rows = 128 if shape == "32x32b" else 64
    r, c = np.indices((rows, columns))
    found = tcgen05_atom_layout(shape, (rows, columns), "float32").place((r, c), (rows, columns))
    thread = found.get("tid_in_wg", 0) + 32 * found.get("wid_in_wg", 0) + found.get("laneid", 0)
    lane_rows, lane_columns = place_registers(shape, count)
    lane, register = np.asarray(thread) % 32, np.broadcast_to(found["m"], r.shape)
    at_row = lane_rows[lane, register] + np.asarray(thread) // 32 * (rows // 4)
    at_column = lane_columns[lane, register] + (columns // 2 * (lane >= 16) if shape == "16x32bx2" else 0)
    assert (at_row == r).all() and (at_column == c).all()


@pytest.mark.parametrize("shape, slab", [("32x32b", 0), *((shape, slab) for shape in EACH if shape != "32x32b"
                                                          for slab in (0, 16))])  # fmt: skip
def test_loads_take_what_the_cells_hold(shape, slab):
    """The upper 16 lanes of a warp too, for shapes of 16."""
    count, apart = 4, 16
    body = fill(64) + WAIT_ST + load(shape, count, "w", f"%r4+{slab << 16}", apart) + WAIT_LD
    got = run(body + keep(EACH[shape] * count))[:, : EACH[shape] * count]
    thread = np.arange(128)[:, None]
    rows, columns = (np.tile(x, (4, 1)) for x in place_registers(shape, count))
    columns = columns + apart * (thread % 32 >= 16) * (shape == "16x32bx2")
    assert (got == (thread // 32 * 32 + slab + rows << 16) + columns).all()


@pytest.mark.parametrize("shape", EACH)
@pytest.mark.parametrize("narrow", [False, True])
def test_what_was_stored_is_loaded(shape, narrow):
    """A store and a load of one shape. ``unpack`` puts each half in a column of its own; ``pack`` takes it there."""
    count = 2
    size = EACH[shape] * count
    lines = "".join(f"mad.lo.s32 %v{k}, %r0, 65599, {k * 70001};\n" for k in range(size))
    second = ", 32" if shape == "16x32bx2" else ""
    store = f"tcgen05.st.sync.aligned.{shape}.x{count}.b32 [%r4]{second}, {names('v', size)};\n"
    taken = load(shape, count, "w", "%r4", 32)
    if narrow:
        store, taken = (text.replace(".b32", f".{how}::16b.b32") for text, how in ((store, "unpack"), (taken, "pack")))
    got = run(lines + store + WAIT_ST + taken + WAIT_LD + keep(size))[:, :size]
    want = np.arange(128)[:, None] * 65599 + np.arange(size) * 70001
    assert (got == want).all()
    if shape == "32x32b" and narrow:
        halves = run(lines + store + WAIT_ST + load("32x32b", 4) + WAIT_LD + keep(4))[0, :4]
        assert [int(x) & 0xFFFF for x in halves] == [0, 0, 70001 & 0xFFFF, 70001 >> 16]


@pytest.mark.parametrize("shape", MOST)
def test_the_largest_number_of_repetitions(shape):
    size = EACH[shape] * MOST[shape]
    assert size == 128
    second = ", 0" if shape == "16x32bx2" else ""
    good = f"tcgen05.st.sync.aligned.{shape}.x{MOST[shape]}.b32 [%r4]{second}, {names('v', 128)};\n"
    first = "".join(f"mov.u32 %v{k}, %r0;\n" for k in range(128))
    if WIDE[shape] * MOST[shape] > 128:
        with pytest.raises(PtxFault, match=r"columns 256 to 511|column \d+ of tensor memory is not allocated|columns"):
            run(first + good + WAIT_ST)
    else:
        run(first + good + WAIT_ST)
    with pytest.raises(PtxError, match=r"counts of registers|no instruction"):
        run(first + good.replace(f"x{MOST[shape]}.", f"x{MOST[shape] // 2}.") + WAIT_ST)


ORDERS = {
    "no wait::st before a load": (
        fill(8) + load("32x32b", 8) + WAIT_LD, "is read, and nothing orders that after a write"),
    "no wait::st before a store": (fill(8) + fill(8) + WAIT_ST, "is written, and nothing orders that after a write"),
    "no wait::ld before a store": (
        fill(8) + WAIT_ST + load("32x32b", 8) + fill(8) + WAIT_ST + WAIT_LD,
        "is written, and nothing orders that after a read",
    ),
    "no wait::ld before a use": (fill(8) + WAIT_ST + load("32x32b", 8) + keep(8), "a load may still fill it"),
    "no wait::ld before another load": (
        fill(8) + WAIT_ST + load("32x32b", 8) + load("32x32b", 8), "a load may still fill it"),
    "cells that nothing has written": (load("32x32b", 8) + WAIT_LD, "nothing has written: lane 0, column 384"),
    "columns of nobody": (load("32x32b", 8, "w", "%r4+128") + WAIT_LD, "columns 512 to 519"),
    "lanes of another warp": (
        fill(8) + WAIT_ST + load("32x32b", 8, "w", "%r2") + WAIT_LD, "a warp that reaches lanes 32 to 63"),
    "lanes that no slab begins at": (load("16x64b", 4, "w", f"%r4+{8 << 16}") + WAIT_LD, "a warp that reaches lanes"),
    "another address in some lanes": ("add.u32 %r4, %r4, %r0;\n" + load("32x32b", 1) + WAIT_LD, "not the same"),
}  # fmt: skip


@pytest.mark.parametrize("fault", ORDERS)
def test_faults_of_a_warp(fault):
    body, said = ORDERS[fault]
    with pytest.raises(PtxFault, match=said):
        run(body)


# Warps w and w + 4 reach the same lanes: the first four store, the others load.
HALF = "setp.lt.u32 %p1, %r0, 128;\n@!%p1 bra reads;\n" + fill(8) + WAIT_ST + BEFORE + "reads:\nbar.sync 0;\n"
HALF += "@%p1 bra done;\n" + AFTER + load("32x32b", 8) + WAIT_LD + keep(8) + "done:\n"


def test_fences_order_two_warps():
    got = run(HALF, 256)[128:, :8]
    assert (got == (np.arange(128, 256)[:, None] - 128 << 16) + np.arange(8)).all()


@pytest.mark.parametrize("dropped", [BEFORE, AFTER, WAIT_ST, "bar.sync 0;\n"])
def test_each_step_between_two_warps_is_needed(dropped):
    at = HALF.index(dropped, 0 if dropped != AFTER else HALF.index("reads:"))
    with pytest.raises(PtxFault, match="tensor memory is read"):
        run(HALF[:at] + HALF[at + len(dropped) :], 256)


def test_a_store_after_the_loads_of_another_warp():
    tail = BEFORE + "bar.sync 0;\n@!%p1 bra out;\n" + AFTER + fill(8) + WAIT_ST + "out:\n"
    run(HALF + tail, 256)
    for dropped in (BEFORE, AFTER):
        with pytest.raises(PtxFault, match="is written, and nothing orders that after a read"):
            run(HALF + tail.replace(dropped, ""), 256)


ALLOC = "@%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r10+4], {};\n"
COLUMNS = {
    "48": ("tcgen05.alloc of 48 columns", ALLOC.format(48)),
    "more than before": ("more columns than an allocation before it", ALLOC.format(256)),
    "after the permit is given up": (
        "after tcgen05.relinquish_alloc_permit",
        "@%p0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" + ALLOC.format(32)),
    "more than there are": ("a deadlock", "".join(ALLOC.format(128).replace("+4", f"+{8 * k}") for k in range(1, 5))),
    "never given back": ("32 columns of tensor memory have not been freed", ALLOC.format(32)),
    "by one lane": ("a part of a warp", "setp.eq.u32 %p0, %r0, 0;\n" + ALLOC.format(32)),
    "a second group": ("cta_group::2", ALLOC.format(32).replace("group::1", "group::2")),
}  # fmt: skip


@pytest.mark.parametrize("fault", COLUMNS)
def test_faults_of_columns(fault):
    said, body = COLUMNS[fault]
    with pytest.raises((PtxFault, PtxError), match=said):
        run(body)


def test_columns_are_used_again():
    """What a second allocation holds is nothing, and its columns are those that were given back."""
    free = "@%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 64;\nbar.sync 0;\n"
    take = ALLOC.format(64) + "bar.sync 0;\nld.shared.u32 %r6, [%r10+4]; add.u32 %r7, %r6, %r3;\n"
    put = fill(8).replace("[%r4]", "[%r7]") + WAIT_ST + BEFORE + "bar.sync 0;\n"
    again = take + put + free + take
    run(again + put + free)
    with pytest.raises(PtxFault, match="nothing has written"):
        run(again + load("32x32b", 8, "w", "%r7") + WAIT_LD + BEFORE + "bar.sync 0;\n" + free)
    with pytest.raises(PtxFault, match=r"nothing orders the use of columns after tcgen05\.alloc"):
        run(TAKE.split("\n")[1].replace("[%r10]", "[%r10+8]").replace(", 128", ", 32") + "add.u32 %r7, %r3, 352;\n"
            + fill(8).replace("[%r4]", "[%r7]") + WAIT_ST)  # fmt: skip


def test_loads_are_waited_for_before_columns_are_given_back():
    free = "@%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 128;\n"
    with pytest.raises(PtxFault, match="tensor memory is freed, and nothing orders that after a read"):
        run_text(TAKE + fill(8) + WAIT_ST + BEFORE + load("32x32b", 8) + "bar.sync 0;\n" + free,
                 {"Y": np.zeros(128 * 64, np.uint32)}, "Y", 128, HEAD)  # fmt: skip


@pytest.mark.parametrize("op", [
    "tcgen05.mma.ws.cta_group::1.kind::f16", "tcgen05.mma.sp.cta_group::1.kind::f16",
    "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X",
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::2X",
    "tcgen05.mma.cta_group::1.kind::f16.ashift", "tcgen05.mma.cta_group::1.kind::f16.collector::a::use",
    "tcgen05.shift.cta_group::1.down", "tcgen05.cp.cta_group::1.32x128b", "tcgen05.cp.cta_group::1.64x128b.warpx4",
    "tcgen05.cp.cta_group::1.128x128b.b8x16.b6x16_p32", "tcgen05.ld.red.sync.aligned.32x32b.x8.min.u32",
    "tcgen05.ld.sync.aligned.16x256b.x64.f32", "tcgen05.alloc.cta_group::1.sync.aligned.b32",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64",
])  # fmt: skip
def test_what_is_not_carried_out_is_named(op):
    with pytest.raises(PtxError, match=f"no instruction {op}"):
        find_row(op)
