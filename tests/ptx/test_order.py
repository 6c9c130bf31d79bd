"""What PTX's memory model asks: each rule kept in a small text, and broken."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx.machine import run_text
from tilegen.dtypes import numpy_dtype
from tilegen.ptx import Launch, PtxFault, parse_kernel, run_kernel
from tilegen.ptx.asynchronous import update_elements

OUT = {"Y": np.zeros(256, np.uint32)}
SHARED = ".shared .align 1024 .b8 tile[4096];\n.shared .align 8 .b8 bar[64];"
# %r1: the thread; %r2: its word of the tile; %rd8: its word of Y.
PLACES = """mov.u32 %r1, %tid.x; mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.s32 %r2, %r3, %r4;
cvt.u64.u32 %rd7, %r4; add.s64 %rd8, %rd0, %rd7; mov.u32 %r9, bar;
"""
PUT = "st.shared.u32 [%r2], %r1;\n"
# The word of the thread before, around the CTA's 64.
TAKE = """add.s32 %r5, %r1, 63; and.b32 %r5, %r5, 63; shl.b32 %r5, %r5, 2; add.s32 %r5, %r3, %r5;
ld.shared.u32 %r6, [%r5];
"""
KEEP = "st.global.u32 [%rd8], %r6;\n"


def run(body: str, threads: int = 64, source: dict[str, np.ndarray] | None = None) -> list[int]:
    return run_text(PLACES + body, OUT | (source or {}), "Y", threads, SHARED)[:threads].tolist()


def test_a_barrier_orders_a_cta():
    assert run(PUT + "bar.sync 0;\n" + TAKE + KEEP) == [63, *range(63)]
    with pytest.raises(PtxFault, match="a race: it is read, and nothing orders that after a write"):
        run(PUT.replace("%r2", "%r2+512") + PUT + "bar.sync 0;\n" + PUT + TAKE + KEEP)


def test_all_readers_of_a_byte_are_waited_for():
    """Thread 0's word is read by all; a warp's barrier orders the write behind it after the reads of one warp alone."""
    everyone = PUT + "bar.sync 0;\nld.shared.u32 %r6, [%r3];\n"
    write = "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%r3], %r1;\n"
    assert run(everyone + "bar.sync 0;\n" + write + KEEP) == [0] * 64
    with pytest.raises(PtxFault, match="a race: it is written, and nothing orders that after a read") as found:
        run(everyone + "bar.warp.sync -1;\n" + write + KEEP)
    assert found.value.earlier is not None and found.value.earlier.op == "ld.shared.u32"


def test_lanes_of_a_warp_are_not_ordered():
    neighbours = "xor.b32 %r5, %r2, 4;\nld.shared.u32 %r6, [%r5];\n"
    assert run(PUT + "bar.warp.sync -1;\n" + neighbours + KEEP)[:4] == [1, 0, 3, 2]
    with pytest.raises(PtxFault, match="a race"):
        run(PUT + neighbours + KEEP)


def test_named_barriers_meet_those_that_they_count():
    half = "shr.u32 %r10, %r1, 5; add.s32 %r10, %r10, 1;\n"
    assert run(half + PUT + "bar.sync %r10, 32;\n" + KEEP.replace("%r6", "%r1"))[:3] == [0, 1, 2]
    with pytest.raises(PtxFault, match="barrier 3 of 32 threads is reached by 64"):
        run(PUT + "bar.sync 3, 32;\n")
    with pytest.raises(PtxFault, match="a deadlock: 32 threads, from thread 32 on"):
        run("setp.lt.u32 %p1, %r1, 32;\n@%p1 bra out;\nbar.sync 0;\nout:\n")
    with pytest.raises(PtxFault, match="a race"):
        run(half + PUT + "bar.sync %r10, 32;\n" + TAKE + KEEP)


def test_two_threads_write_one_byte():
    with pytest.raises(PtxFault, match="two threads write one byte in one instruction"):
        run("st.shared.u32 [%r3], %r3;\n")
    with pytest.raises(PtxFault, match="two threads write one byte"):
        run("st.global.u32 [%rd0], %r3;\n")


def test_reads_of_what_nothing_wrote():
    with pytest.raises(PtxFault, match="shared memory is read that nothing has written"):
        run(TAKE + KEEP)
    with pytest.raises(PtxFault, match="%r20 is read, and nothing has written it"):
        run(KEEP.replace("%r6", "%r20"))


def test_what_a_widened_load_brings_besides():
    """A compiler makes one load of three values, of four elements: the last one may be anything, if nobody uses it."""
    one = "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra out;\n"
    some = "".join(f"st.shared.u32 [%r3+{4 * k}], %r1;\n" for k in range(3))
    load = "ld.shared.v4.u32 {%r10, %r11, %r6, %r12}, [%r3];\n"
    assert run(one + some + load + KEEP + "out:\n")[0] == 0
    with pytest.raises(PtxFault, match="nothing has written"):
        run(one + some + load + "add.u32 %r6, %r6, %r12;\n" + KEEP + "out:\n")


@pytest.mark.parametrize("body, what", [
    ("ld.shared.u32 %r6, [%r3+8192];", "shared memory out of bounds"),
    ("st.global.u32 [%rd8+1024], %r1;", "global memory out of bounds: bytes 1024 to 1276 . 4 of Y"),
    ("st.global.u32 [%rd8+2], %r1;", "misaligned access: 4 bytes"),
    ("st.global.u32 [%rd1], %r1;", "a write to X, which is only read"),
])  # fmt: skip
def test_places(body, what):
    with pytest.raises(PtxFault, match=what):
        run(body, source={"X": np.zeros(64, np.uint32)})


def test_addresses_of_shared_memory_wrap():
    """A compiler folds a loop's start into the offset: the register alone may lie below 0."""
    assert run("sub.s32 %r2, %r2, 4096;\nst.shared.u32 [%r2+4096], %r1;\nld.shared.u32 %r6, [%r2+4096];\n" + KEEP)[
        :3
    ] == [0, 1, 2]


# ---- copies
X = {"X": np.arange(256, dtype=np.uint32) * 3}
SOURCE = "shl.b32 %r12, %r1, 4; cvt.u64.u32 %rd9, %r12; add.s64 %rd9, %rd1, %rd9; add.s32 %r13, %r3, %r12;\n"
COPY = "cp.async.cg.shared.global [%r13], [%rd9], 16;\n"
OWN = "ld.shared.u32 %r6, [%r13];\n"


def test_copies_land_at_the_wait_for_their_group():
    good = SOURCE + COPY + "cp.async.commit_group;\ncp.async.wait_group 0;\n" + OWN + KEEP
    assert run(good, source=X)[:3] == [0, 12, 24]
    for bad in (good.replace("wait_group 0", "wait_group 1"), good.replace("cp.async.commit_group;\n", "")):
        with pytest.raises(PtxFault, match=r"a copy of cp\.async in flight fills it"):
            run(bad, source=X)
    with pytest.raises(PtxFault, match=r"the kernel ends, and copies of cp\.async"):
        run(SOURCE + COPY, source=X)


def test_a_wait_is_no_barrier():
    tail = "cp.async.commit_group;\ncp.async.wait_group 0;\n{}ld.shared.u32 %r6, [%r2];\n" + KEEP
    assert run(SOURCE + COPY + tail.format("bar.sync 0;\n"), source=X) == [3 * k for k in range(64)]
    with pytest.raises(PtxFault, match="a race"):
        run(SOURCE + COPY + tail.format(""), source=X)


BULK = """setp.ne.u32 %p1, %r1, 0;
@%p1 bra met;
mbarrier.init.shared::cta.b64 [%r9], 1;
fence.proxy.async.shared::cta;
met:
bar.sync 0;
@%p1 bra started;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 1024;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 1024, [%r9];
started:
again:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9], 0;
@!%p2 bra again;
"""


def test_bulk_copies_complete_a_phase():
    assert run(BULK + TAKE + KEEP, source=X)[1:4] == [0, 3, 6]


ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%r9];\n"
BROKEN = {
    "no fence": ("fence.proxy.async.shared::cta;\n", "", "the async proxy does not see mbarrier.init"),
    "no meeting": ("bar.sync 0;\n", "", "nothing orders the use of an mbarrier after mbarrier.init"),
    "too few bytes": ("_, [%r9], 1024", "_, [%r9], 512", "a deadlock"),
    "another parity": ("[%r9], 0;\n@!", "[%r9], 1;\n@!", "a deadlock"),
    "two arrivals": ("_, [%r9], 1024;", f"_, [%r9], 1024;\n{ARRIVE}", "more arrivals"),
    "a wait that is not tried again": ("@!%p2 bra again;\n", "", "it is read, and nothing orders that after a write"),
    "the other barrier": ("parity.shared::cta.b64 %p2, [%r9]", "parity.shared::cta.b64 %p2, [%r9+8]", "no mbarrier"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_faults_of_a_phase(fault):
    old, new, said = BROKEN[fault]
    assert old in BULK
    with pytest.raises(PtxFault, match=said):
        run(BULK.replace(old, new) + TAKE + KEEP, source=X)


def test_a_store_is_seen_by_tma_behind_a_fence():
    start = "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra done;\n"
    send = "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r3], 256;\ncp.async.bulk.commit_group;\n"
    wait = "cp.async.bulk.wait_group.read 0;\n"
    good = PUT + "fence.proxy.async.shared::cta;\nbar.sync 0;\n" + start + send + wait + "done:\n"
    assert run(good) == list(range(64))
    late = PUT + "bar.sync 0;\n" + start + "fence.proxy.async.shared::cta;\n" + send + wait + "done:\n"
    for bad in (good.replace("fence.proxy.async.shared::cta;\n", ""), late):
        with pytest.raises(PtxFault, match="the async proxy does not see a write"):
            run(bad)
    with pytest.raises(PtxFault, match="bulk copies have not been waited for"):
        run(good.replace(wait, ""))
    over = good.replace("done:\n", "done:\nbar.sync 0;\n" + PUT)
    assert run(over) == list(range(64))
    with pytest.raises(PtxFault, match="it is written, and nothing orders that after a read"):
        run(over.replace(wait, ""))


# ---- warps
def test_shuffles_ask_for_their_lanes():
    good = "shfl.sync.bfly.b32 %r6|%p1, %r1, 1, 31, -1;\n" + KEEP
    assert run(good)[:4] == [1, 0, 3, 2]
    for mask, said in (("65535", "not in its membermask"), ("0x55555555", "membermask")):
        with pytest.raises(PtxFault, match=said):
            run(good.replace("-1", mask))
    with pytest.raises(PtxFault, match="a deadlock"):
        run("and.b32 %r5, %r1, 1; setp.eq.u32 %p2, %r5, 0;\n@%p2 bra out;\n" + good + "out:\n")


def test_modes_of_shuffles():
    for mode, want in (("up", [0, 0, 1, 2]), ("down", [1, 2, 3, 4]), ("idx", [1, 1, 1, 1])):
        clamp = 0 if mode == "up" else 31
        assert run(f"shfl.sync.{mode}.b32 %r6|%p1, %r1, 1, {clamp}, -1;\n" + KEEP)[:4] == want


def test_what_a_warp_collects():
    odd = "and.b32 %r5, %r1, 1; setp.ne.u32 %p1, %r5, 0;\n"
    keep = {"vote.sync.ballot.b32 %r6, %p1, -1;": 0xAAAAAAAA, "redux.sync.add.s32 %r6, %r5, -1;": 16,
            "redux.sync.max.u32 %r6, %r5, -1;": 1, "match.any.sync.b32 %r6, %r5, -1;": 0x55555555,
            "activemask.b32 %r6;": 0xFFFFFFFF}  # fmt: skip
    assert {op: run(odd + op + "\n" + KEEP)[0] for op in keep} == keep
    assert run("elect.sync %r7|%p1, -1; selp.u32 %r6, 1, 0, %p1;\n" + KEEP) == [1, *[0] * 31] * 2


# ---- atomics
def test_atomics_meet_at_one_place():
    assert run("red.global.add.u32 [%rd0], %r1;\n")[0] == sum(range(64))
    before = run("atom.global.add.u32 %r6, [%rd0+128], 1;\nbar.warp.sync -1;\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 " + KEEP)
    assert sorted(before[:32]) == list(range(32))
    with pytest.raises(PtxFault, match="a race"):
        run("red.global.add.u32 [%rd0], %r1;\nld.global.u32 %r6, [%rd0];\n" + KEEP.replace("[%rd8]", "[%rd8+256]"))


SEVERAL = """.target sm_90
.visible .entry k(.param .u64 k_param_0)
{{ .reg .b32 %r<4>; .reg .b64 %rd<4>; ld.param.u64 %rd1, [k_param_0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
{} ret; }}
"""


@pytest.mark.parametrize("body, said", [
    ("red.relaxed.gpu.global.add.u32 [%rd1], %r1;", ""),
    ("mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r1;", "a race"),
    ("red.relaxed.cta.global.add.u32 [%rd1], %r1;", "a CTA's scope"),
])  # fmt: skip
def test_nothing_orders_two_ctas(body, said):
    """In one batch, and in two: more lanes than run side by side."""
    kernel = parse_kernel(SEVERAL.format(body), "k")
    for threads in (32, 1024):
        images = {"Y": np.zeros(4 * threads, np.uint8)}
        launch, ctas = Launch((3, 1, 1), threads, ("Y",)), [(0, 0, 0), (2, 0, 0)]
        if said:
            with pytest.raises(PtxFault, match=said):
                run_kernel(kernel, launch, images, ["Y"], ctas)
        else:
            total = run_kernel(kernel, launch, images, ["Y"], ctas).images["Y"].view(np.uint32)[0]
            assert total == threads * (threads - 1)


@pytest.mark.parametrize("dtype, what, want", [
    ("int32", "max", [5, 2]), ("float32", "add", [4.5, 0.5]), ("float16", "add", [4.5, 0.5]),
    ("bfloat16", "min", [-0.5, -1.5]),
])  # fmt: skip
def test_elements_are_joined(dtype, what, want):
    kind = numpy_dtype(dtype)
    old, new = (np.array(x).astype(kind) for x in ([5, -1.5], [-0.5, 2]))
    bits = f"u{kind.itemsize}"
    assert update_elements(dtype, what, old.view(bits), new.view(bits)).view(kind).tolist() == want


# ---- atomics beside plain accesses, and in shared memory
CLEAR = "mov.u32 %r6, 0;\nst.shared.u32 [%r2], %r6;\n"
ADD = "red.shared.add.u32 [%r3], %r1;\n"
READ = "ld.shared.u32 %r6, [%r3];\n"
FIRST_WARP = "setp.lt.u32 %p1, %r1, 32;\n"
PUT_FIRST = "st.shared.u32 [%r3], %r1;\n"
WARP_ALONE = ADD + "bar.warp.sync -1;"
COUNTED = CLEAR + "bar.sync 0;\n" + ADD + "bar.sync 0;\n" + READ + KEEP


def test_updates_are_ordered_with_all_else():
    assert run(COUNTED)[0] == sum(range(64))


@pytest.mark.parametrize("said, body", [
    ("nothing has written", COUNTED.replace(CLEAR, "")),
    # The thread that cleared the word is the first that adds to it: of the others nothing orders that after the clear.
    ("it is updated, and nothing orders that after a write", COUNTED.replace(CLEAR + "bar.sync 0;", CLEAR)),
    ("it is read, and nothing orders that after an update", COUNTED.replace(ADD + "bar.sync 0;", ADD)),
    # Both warps add, and the second one alone meets itself: the last update is known, the first is not.
    ("it is read, and nothing orders that after an update",
     COUNTED.replace(ADD + "bar.sync 0;", WARP_ALONE).replace(READ, FIRST_WARP + "@%p1 bra out;\n" + READ + "out:\n")),
    ("it is written, and nothing orders that after an update",
     COUNTED.replace(ADD + "bar.sync 0;\n" + READ, WARP_ALONE + "\nsetp.eq.u32 %p1, %r1, 63;\n@%p1 " + PUT_FIRST)),
    # A reader between two updates.
    ("it is updated, and nothing orders that after a read", COUNTED.replace(READ, READ + FIRST_WARP + "@%p1 " + ADD)),
])  # fmt: skip
def test_updates_that_nothing_orders(said, body):
    with pytest.raises(PtxFault, match=said):
        run(body)


def test_barriers_are_told_apart_by_their_number():
    """All threads come to one instruction, each warp for a barrier of its own."""
    half = "shr.u32 %r10, %r1, 5;\n"
    with pytest.raises(PtxFault, match="a deadlock"):
        run(half + PUT + "bar.sync %r10;\n" + TAKE + KEEP)
    with pytest.raises(PtxFault, match="a CTA has 16 barriers"):
        run("mov.u32 %r10, 16;\nbar.sync %r10;\n")
    with pytest.raises(PtxFault, match="several numbers of threads"):
        run(half + "add.u32 %r10, %r10, 1; shl.b32 %r10, %r10, 5;\nbar.sync 1, %r10;\n")


def test_what_a_kernel_writes_is_not_constant():
    body = "ld.global.nc.u32 %r6, [%rd1];\n" + KEEP
    assert run(body, source={"X": np.full(4, 7, np.uint32)})[:2] == [7, 7]
    with pytest.raises(PtxFault, match="an array that the kernel writes"):
        run(body.replace("%rd1", "%rd8"))


def test_a_cta_adds_to_a_peer_with_the_cluster_in_its_scope():
    text = """.target sm_90a
.visible .entry k(.param .u64 k_param_0)
{ .reg .b32 %r<5>; .reg .b64 %rd<2>; .shared .align 16 .b8 tile[16];
ld.param.u64 %rd1, [k_param_0]; mov.u32 %r1, 0; mov.u32 %r2, tile; st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mapa.shared::cluster.u32 %r3, %r2, 0; red.relaxed.cluster.shared::cluster.add.u32 [%r3], 1;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ld.shared.u32 %r4, [%r2]; mov.u32 %r1, %cluster_ctarank;
mad.wide.u32 %rd1, %r1, 4, %rd1; st.global.u32 [%rd1], %r4; ret; }
"""
    launch, images = Launch((2, 1, 1), 1, ("Y",), (2, 1, 1)), {"Y": np.zeros(8, np.uint8)}
    found = run_kernel(parse_kernel(text, "k"), launch, images, ["Y"], [(0, 0, 0)]).images["Y"].view(np.uint32)
    assert found.tolist() == [2, 0]
    with pytest.raises(PtxFault, match="a CTA's scope on shared memory"):
        run_kernel(
            parse_kernel(text.replace("relaxed.cluster", "relaxed.cta"), "k"), launch, images, ["Y"], [(0, 0, 0)]
        )


ARRIVE_ALL = "barrier.cluster.arrive.aligned;"


def test_a_thread_waits_for_a_meeting_before_the_next():
    text = f".entry k() {{ {ARRIVE_ALL} WAIT {ARRIVE_ALL} barrier.cluster.wait.aligned; ret; }}"
    launch = Launch((2, 1, 1), 32, (), (2, 1, 1))
    run_kernel(parse_kernel(text.replace("WAIT", "barrier.cluster.wait.aligned;"), "k"), launch, {}, [], [(0, 0, 0)])
    with pytest.raises(PtxFault, match="a thread arrives twice"):
        run_kernel(parse_kernel(text.replace("WAIT", ""), "k"), launch, {}, [], [(0, 0, 0)])
