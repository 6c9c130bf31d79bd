"""tcgen05.mma, cp and commit against NumPy: kinds, majors, swizzles, pairs; what is in order, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx.machine import run_text
from tests.ptx.products import Trial, run_product, write_text
from tests.ptx.test_tensor_memory import AFTER, BEFORE, HEAD, TAKE, WAIT_LD, keep, load
from tilegen.layouts.constructors.tensor_memory import tmem_datapath_layout
from tilegen.ptx import PtxError, PtxFault
from tilegen.ptx.descriptors import read_instruction, read_tcgen05_descriptor
from tilegen.ptx.state import Fault
from tilegen.ptx.tensor_products import place_copy, place_sums

BF16, F16, E4M3 = ("bf16", "bf16"), ("f16", "f16"), ("e4m3", "e4m3")
MAJORS = [("K", "K"), ("K", "MN"), ("MN", "K"), ("MN", "MN")]


def check(trial: Trial) -> None:
    got, want = run_product(trial)
    assert (got == want).all()


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("majors", MAJORS, ids="-".join)
@pytest.mark.parametrize("kind, types", [("f16", BF16), ("f8f6f4", ("e4m3", "e5m2"))], ids=["f16", "f8f6f4"])
def test_majors_and_swizzles(kind, types, majors, swizzle):
    check(Trial(kind, types, n=64, swizzle=swizzle, majors=majors))


KINDS = (
    Trial("f16", ("f16", "bf16")), Trial("f16", F16, m=64), Trial("f16", F16, "f16", adds=True),
    Trial("f16", BF16, n=256), Trial("f16", BF16, n=8), Trial("f16", F16, adds=True, shift=2),
    Trial("f16", F16, extra=1 << 13), Trial("f16", F16, adds=True, extra=1 << 14),
    Trial("tf32", ("tf32", "tf32"), n=16), Trial("tf32", ("tf32", "tf32"), n=64, swizzle=1, majors=("MN", "MN")),
    Trial("tf32", ("tf32", "tf32"), n=64, adds=True, shift=1, m=64),
    Trial("i8", ("s8", "u8"), "s32"), Trial("i8", ("u8", "s8"), "s32", adds=True, m=64),
    Trial("i8", ("s8", "s8"), "s32", n=24),
    *(Trial("f8f6f4", (x, y)) for x in ("e5m2", "e2m3", "e3m2", "e2m1") for y in ("e4m3", x)),
    Trial("f8f6f4", ("e4m3", "e2m1"), "f16", swizzle=0), Trial("f8f6f4", ("e2m1", "e3m2"), n=128, majors=("MN", "MN")),
    *(Trial("mxf8f6f4", E4M3, extra=i << 29 | j << 4) for i, j in ((0, 0), (1, 2), (3, 3))),
    Trial("mxf8f6f4", ("e2m1", "e5m2"), n=136, adds=True),
    *(Trial("f16", x, in_cells=True, m=m) for x in (F16, BF16) for m in (64, 128)),
    Trial("tf32", ("tf32", "tf32"), in_cells=True), Trial("i8", ("s8", "s8"), "s32", in_cells=True, adds=True),
    Trial("f8f6f4", ("e4m3", "e5m2"), in_cells=True), Trial("mxf8f6f4", E4M3, in_cells=True),
    Trial("f16", BF16, group=2, m=256), Trial("f16", BF16, group=2, m=128, n=64, adds=True),
    Trial("f16", BF16, group=2, m=256, in_cells=True, adds=True),
    Trial("i8", ("s8", "s8"), "s32", group=2, m=256, n=64),
    Trial("f8f6f4", E4M3, group=2, m=256, n=64, majors=("MN", "MN")), Trial("mxf8f6f4", E4M3, group=2, m=256, n=256),
)  # fmt: skip


@pytest.mark.parametrize("trial", KINDS, ids=str)
def test_kinds(trial):
    check(trial)


def test_sums_of_whole_numbers_saturate_where_it_is_asked():
    """Sums that wrap, and that stop at the largest number."""
    start = np.int32(2**31 - 100)
    change = ("tcgen05.wait::st", f"mov.u32 %w0, {start};\n{PUT}tcgen05.wait::st")
    for extra, want in ((0, lambda x: (x + 2**31) % 2**32 - 2**31), (1 << 3, lambda x: np.minimum(x, 2**31 - 1))):
        trial = Trial("i8", ("u8", "u8"), "s32", n=8, adds=True, extra=extra)
        got, product = run_product(trial, change=change)
        bare = run_product(Trial("i8", ("u8", "u8"), "s32", n=8))[1]
        assert product.shape == got.shape and (got == want(bare + float(start))).all()


PUT = "tcgen05.wait::st.sync.aligned;\n" + "".join(
    f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4+{k}], {{%w0}};\n" for k in range(8)
)


# ---- descriptors
@pytest.mark.parametrize("bits, kind, group, m, n, types, majors", [
    (0x4020490, "f16", 1, 64, 8, BF16, (False, False)),  # Triton
    (0x8400490, "f16", 1, 128, 256, BF16, (False, False)),  # CUTLASS
    (0x10400490, "f16", 2, 256, 256, BF16, (False, False)),
    (0x4040910, "tf32", 1, 64, 16, ("tf32", "tf32"), (False, False)),
    (0x10058010, "f8f6f4", 1, 256, 16, None, None),  # M of a pair
    (0x8A00000, "mxf8f6f4", 1, 128, 128, E4M3, (False, False)),
])  # fmt: skip
def test_instruction_descriptors(bits, kind, group, m, n, types, majors):
    """Values that other compilers write for their shapes."""
    if types is None:
        with pytest.raises(Fault, match="is no shape"):
            read_instruction(bits, kind, group)
        return
    found = read_instruction(bits, kind, group)
    assert (found.m, found.n, found.types, found.mn_majors) == (m, n, types, majors)


@pytest.mark.parametrize("kind, bits, said", [
    ("f16", 0x8400494, "sparse"), ("f16", 0x8400490 | 3 << 7, "types that the kind has not"),
    ("f16", 0x8400480, "sums of bf16 are f32"), ("f16", 0x8400490 | 1 << 23, "no meaning"),
    ("f16", 0x8400490 | 1 << 6, "no meaning"), ("f16", 0x8400490 | 1 << 3, "no meaning"),
    ("f16", 0x2400490, "M of 64 or 128"), ("f16", 0x8000490, "N by 8"), ("mxf8f6f4", 0x8200000, "ue8m0"),
    ("i8", 0x8060020 | 1 << 13, "no meaning"), ("i8", 0x80E0020, "N by 16"), ("f8f6f4", 0x8030010, "N by 16"),
])  # fmt: skip
def test_instruction_descriptors_that_are_none(kind, bits, said):
    with pytest.raises(Fault, match=said):
        read_instruction(bits, kind, 1)


@pytest.mark.parametrize("bits, said", [
    (0x4000004000000040, "version 0"), (0x4002404000000040, "base offset"), (0x6000404000000040, "no meaning"),
    (0x4010404000000040, "base offset"),
    (0x4000404000000048, "begins at 1152, 128 bytes inside"), (0x2000402000000048, "begins at 1152, 128 bytes inside"),
    (0xC000401000000042, "begins at 1056, 32 bytes inside"), (0x4020404000000040, "no meaning"),
])  # fmt: skip
def test_matrix_descriptors_that_are_none(bits, said):
    with pytest.raises(Fault, match=said):
        read_tcgen05_descriptor(bits)


@pytest.mark.parametrize(
    "m, n, group, datapath", [(256, 64, 2, "A"), (128, 64, 2, "B"), (128, 64, 1, "D"), (64, 64, 1, "F")]
)
def test_sums_lie_where_the_layouts_say(m, n, group, datapath):
    rows = m // group
    r, c = np.indices((rows, n))
    found = tmem_datapath_layout(datapath, rows, n).place((r, c), (rows, n))
    lanes, columns = place_sums(m, n, group)
    assert (found["TLane"] == lanes).all() and (found["TCol"] == columns).all()


# ---- order
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];\n"
MMA = "tcgen05.mma.cta_group::1.kind::f16 [{}], %rd5, %rd16, %r33, {};\n"
BOTH = "setp.eq.u32 %p6, %r33, %r33; setp.ne.u32 %p7, %r33, %r33;\n"
SCALED = "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%r2], %rd5, %rd16, %r33, {}, %p6;\n"
WAITED = "again:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p5, [%r8], 0;\n@!%p5 bra again;\n"
FACTORS = "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r2+264], %rd12;\n"
HALF_OF_N = 12 << 17  # what changes N of 64 to 32 in the instruction's descriptor


def test_products_of_one_shape_add_in_order():
    got, want = run_product(Trial("f16", BF16), change=(COMMIT, BOTH + MMA.format("%r2", "%p6") + COMMIT))
    assert (got == 2 * want).all()
    got, want = run_product(Trial("f16", BF16), change=(COMMIT, BOTH + MMA.format("%r2", "%p7") + COMMIT))
    assert (got == want).all()


FAULTS = {
    "sums of another shape": (
        Trial("f16", BF16, n=64), COMMIT,
        BOTH + f"xor.b32 %r33, %r33, {HALF_OF_N};\n" + MMA.format("%r2", "%p6") + COMMIT),
    "sums that begin elsewhere": (Trial("f16", BF16), COMMIT, BOTH + MMA.format("%r2+8", "%p7") + COMMIT),
    "a copy over factors that a product reads": (Trial("mxf8f6f4", E4M3), COMMIT, FACTORS + COMMIT),
    "a copy over another copy": (Trial("mxf8f6f4", E4M3), "tcgen05.mma", FACTORS + "tcgen05.mma"),
    "a copy over sums": (Trial("mxf8f6f4", E4M3), COMMIT, FACTORS.replace("+264", "+0") + COMMIT),
    "factors that a product has summed": (
        Trial("mxf8f6f4", E4M3), COMMIT, BOTH + SCALED.format("[%r2], [%r31]") + COMMIT),
    "sums over A": (Trial("f16", BF16, in_cells=True), COMMIT, BOTH + MMA.format("%r2+248", "%p7") + COMMIT),
    "a load without a wait": (Trial("f16", BF16), WAITED, ""),
    "a load without a fence": (Trial("f16", BF16), WAITED + AFTER, WAITED),
    "sums that another thread tells of": (
        Trial("f16", BF16), COMMIT + "wait:\n", "wait:\nsetp.eq.u32 %p6, %r0, 32;\n@%p6 " + COMMIT),
    "A without wait::st": (Trial("f16", BF16, in_cells=True), "tcgen05.wait::st.sync.aligned;\n", ""),
    "A without a fence before": (
        Trial("f16", BF16, in_cells=True), BEFORE + "bar.sync 0;\n\n" + AFTER, "bar.sync 0;\n" + AFTER),
    "A without a fence after": (
        Trial("f16", BF16, in_cells=True), BEFORE + "bar.sync 0;\n\n" + AFTER, BEFORE + "bar.sync 0;\n"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_in_order(fault):
    trial, old, new = FAULTS[fault]
    with pytest.raises(PtxFault, match=r"memory is (read|written), and nothing orders that after a|it is read, and"):
        run_product(trial, change=(old, new))


def test_operands_are_seen_behind_a_proxy_fence():
    with pytest.raises(PtxFault, match="the async proxy does not see a write"):
        run_product(Trial("f16", BF16), change=("fence.proxy.async.shared::cta;\n", ""))


def test_factors_lie_in_all_groups_of_lanes():
    """A warp stores another factor over its own lanes: the four groups are not the same any more."""
    old = BEFORE + "bar.sync 0;\n\n" + AFTER
    store = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4+264], {%r0};\n"
    trial = Trial("mxf8f6f4", E4M3)
    copies = "mov.u64 %rd12, %rd13;\ntcgen05.cp.cta_group::1.32x128b.warpx4 [%r2+264], %rd12;\n"
    text = write_text(trial, 65536, (0, 0, 0))
    assert old in text and copies in text
    four = "".join(store.replace("264", str(264 + k)) for k in range(4))
    with pytest.raises(PtxFault, match="not the same in all four groups"):
        run_product(trial, change=(old, four + "tcgen05.wait::st.sync.aligned;\n" + old), drop=copies)


@pytest.mark.parametrize("trial, old, new, error, said", [
    (Trial("f16", BF16), ", %r33, %p4", ", %r33, {%r33, %r33, %r33, %r33}, %p4", PtxError, "disable-output-lane"),
    (Trial("f16", BF16), "%p4;", "%p4, 16;", PtxError, "scale-input-d"),
    (Trial("f16", BF16), "[%r2], %rd5", "[%r4+65536], %rd5", PtxFault, "begin at lane"),
    (Trial("f16", BF16, swizzle=1, majors=("MN", "MN"), n=64), "", "", PtxFault, "32-byte atoms"),
    (Trial("f16", BF16, in_cells=True, group=2, n=64), "", "", PtxFault, "is not carried out"),
    (Trial("f16", BF16), "%rd3, %rd11;", "%rd3, %rd11; add.s64 %rd16, %rd16, 34359738368;", PtxFault, "no multiples"),
    (Trial("f16", BF16, n=128, majors=("K", "MN")), "%rd3, %rd11;", "%rd3, %rd11; add.s64 %rd16, %rd16, 524288;",
     PtxFault, "no multiples"),
    (Trial("f8f6f4", ("e2m1", "e4m3"), in_cells=True), "", "", PtxFault, "is not carried out"),
    (Trial("mxf8f6f4", E4M3, group=2, n=64), "", "", PtxFault, "factors of 64 rows"),
])  # fmt: skip
def test_what_is_not_carried_out(trial, old, new, error, said):
    with pytest.raises(error, match=said):
        run_product(trial, change=(old, new))


# ---- copies
SHAPES = {
    "128x256b": ("", lambda r: [r]), "4x256b": ("", lambda r: [32 * r]), "128x128b": ("", lambda r: [r]),
    "64x128b": (".warpx2::02_13", lambda r: [r, r + 64]),
    "64x128b ": (".warpx2::01_23", lambda r: [r // 32 * 64 + r % 32, r // 32 * 64 + r % 32 + 32]),
    "32x128b": (".warpx4", lambda r: [r, r + 32, r + 64, r + 96]),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_copies_place_rows(name):
    """Rows of 16 bytes, 8 together, then the next 16 bytes of all rows. The lanes: as TIRx tests them on a B200."""
    shape, (cast, lanes) = name.strip(), SHAPES[name]
    rows, words = int(shape.split("x")[0]), int(shape.split("x")[1][:-1]) // 32
    tall = max(rows, 8)
    descriptor = (tall * 16 >> 4) << 16 | 128 >> 4 << 32 | 1 << 46
    head = HEAD + ".shared .align 1024 .b8 tile[4096];\n.shared .align 8 .b8 bar[8];\n"
    body = TAKE + """mov.u32 %r11, tile; shl.b32 %r12, %r0, 4; add.u32 %r13, %r11, %r12; mov.u32 %r15, bar;
shl.b32 %r14, %r0, 2;
""" + "".join(f"add.u32 %v{k}, %r14, {512 * half + k};\n" + (
        f"st.shared.v4.u32 [%r13+{2048 * half}], {{%v0, %v1, %v2, %v3}};\n" if k == 3 else "")
        for half in range(2) for k in range(4)) + """
setp.eq.u32 %p2, %r0, 0;
@%p2 mbarrier.init.shared::cta.b64 [%r15], 1;
fence.proxy.async.shared::cta;
shl.b32 %r16, %r0, 16; mov.u32 %v4, 305419896;
""" + "".join(f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4+{k}], {{%v4}};\n" for k in range(8)) + f"""
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
shr.u32 %r11, %r11, 4; cvt.u64.u32 %rd11, %r11; add.s64 %rd12, %rd11, {descriptor};
@%p2 tcgen05.cp.cta_group::1.{shape}{cast} [%r2], %rd12;
@%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r15];
again:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r15], 0;
@!%p3 bra again;
tcgen05.fence::after_thread_sync;
""" + load("32x32b", 8) + WAIT_LD + keep(8) + """tcgen05.fence::before_thread_sync;
bar.sync 0;
@%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 128;
"""  # fmt: skip
    got = run_text(body, {"Y": np.zeros(128 * 64, np.uint32)}, "Y", 128, head).reshape(128, 64)[:, :8]
    want = np.full((128, 8), 305419896)
    for row in range(rows):
        for word in range(words):
            for lane in lanes(row):
                want[lane, word] = (row * 16 + word % 4 * 4 + word // 4 * tall * 16) // 4
    assert (got == want).all()
    assert place_copy(shape, cast[1:])[0].shape[1:] == (rows, words)
