"""A product of tcgen05 in PTX: operands laid out in shared memory by NumPy, sums compared with NumPy's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilegen.ptx import Launch, parse_kernel, run_kernel

Array = NDArray[Any]
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn, "s8": np.int8, "u8": np.uint8,
}  # fmt: skip
CODES = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1}
NARROW = {"e2m3": 6, "e3m2": 6, "e2m1": 4}
SUMS = {"f16": 0, "f32": 1, "s32": 2}
CHUNK = 16


@dataclass(frozen=True)
class Trial:
    """One product. ``swizzle``: of both operands, 0, 32, 64, 128, or 1 for 32-byte atoms; ``majors``: K or MN."""

    kind: str
    types: tuple[str, str]
    sums: str = "f32"
    m: int = 128
    n: int = 32
    group: int = 1
    swizzle: int = 128
    majors: tuple[str, str] = ("K", "K")
    adds: bool = False
    shift: int = 0
    in_cells: bool = False  # A is in tensor memory
    extra: int = 0  # bits of the instruction descriptor

    @property
    def k(self) -> int:
        return 32 // np.dtype(DTYPES[self.types[0]]).itemsize

    @property
    def is_scaled(self) -> bool:
        return self.kind.startswith("mx")


def draw(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> Array:
    """Small numbers that every type holds, with few bits: their sums are exact."""
    low = 0 if kind == "u8" else -3
    return rng.integers(low, 4, shape).astype(DTYPES[kind])


def to_bytes(x: Array, kind: str) -> Array:
    """Rows of elements as rows of bytes, [.., 16]: of narrow types, 16 are packed into the first bits of 16 bytes."""
    if kind not in NARROW:
        return np.ascontiguousarray(x).view(np.uint8)
    bits = np.unpackbits(np.ascontiguousarray(x).view(np.uint8)[..., None], axis=-1, bitorder="little")
    bits = bits[..., : NARROW[kind]].reshape(*x.shape[:-1], -1, CHUNK * NARROW[kind])
    packed = np.packbits(bits, axis=-1, bitorder="little")
    padded = np.concatenate([packed, np.full((*packed.shape[:-1], CHUNK - packed.shape[-1]), 0xEE, np.uint8)], -1)
    return padded.reshape(*x.shape[:-1], -1)


def lay_out(x: Array, kind: str, major: str, swizzle: int) -> tuple[Array, int, int, int]:
    """Bytes of an operand [mn, k], and of its descriptor the leading and stride offsets and the code of its swizzle.

    As TMA brings it: rows of the swizzle's width, 8 of them a pattern; without a swizzle, 8 rows of 16 bytes together.
    """
    rows = to_bytes(x if major == "K" else np.ascontiguousarray(x.T), kind)
    count, wide = rows.shape
    span = {0: CHUNK, 1: 128}.get(swizzle, swizzle)
    code = {0: 0, 1: 1, 128: 2, 64: 4, 32: 6}[swizzle]
    if wide < span:
        rows, wide = np.concatenate([rows, np.zeros((count, span - wide), np.uint8)], 1), span
    depth = 4 if swizzle == 1 else 8
    # [groups of rows, rows, blocks of a span, bytes] -> blocks one behind the other
    blocks = rows.reshape(count // depth, depth, wide // span, span).transpose(2, 0, 1, 3)
    step, across = depth * span, count * span
    image = np.ascontiguousarray(blocks).reshape(-1)
    unit = 32 if swizzle == 1 else CHUNK
    if swizzle:
        place = np.arange(image.size // unit)
        change = place * unit >> 7 & (span // unit - 1)
        moved = np.empty_like(image).reshape(-1, unit)
        moved[place ^ change] = image.reshape(-1, unit)
        image = moved.reshape(-1)
    if swizzle == 0:
        # Along K: to the next 16 bytes of K, to the next 8 rows. Along MN: to the next 8 of K, to the next 16 bytes.
        return (image, across, step, code) if major == "K" else (image, step, across, code)
    return (image, 0, step, code) if major == "K" else (image, across, step, code)


def describe(image_at: int, leading: int, stride: int, code: int) -> int:
    return image_at >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | code << 61


def encode(trial: Trial) -> int:
    """The instruction descriptor."""
    a, b = (CODES[x] for x in trial.types)
    majors = (trial.majors[0] == "MN") << 15 | (trial.majors[1] == "MN") << 16
    bits = a << 7 | b << 10 | majors | trial.n // 8 << 17 | trial.m // 16 << 24 | trial.extra
    return bits | (1 << 23 if trial.is_scaled else SUMS[trial.sums] << 4)


def list_copy(count: int) -> str:
    """Thread t brings ``count`` pieces of 16 bytes, 2,048 apart."""
    return "".join(
        f"ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd9+{2048 * k}];\n"
        f"st.shared.v4.u32 [%r9+{2048 * k}], {{%r20, %r21, %r22, %r23}};\n"
        for k in range(count)
    )


def write_text(trial: Trial, size: int, places: tuple[int, int, int]) -> str:
    """A kernel of 128 threads a CTA: its operands to shared memory, one product, its sums to Y [ctas, 128, 512]."""
    g, start = trial.group, 2048
    meet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" if g == 2 else "bar.sync 0;\n"
    to = "commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r8], 3;" if g == 2 else (
        "commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];")  # fmt: skip
    columns = trial.n // 2 if (trial.m, g) == (128, 2) else trial.n
    names = "{" + ", ".join(f"%w{k}" for k in range(8)) + "}"
    is_filled = trial.adds or trial.m == 64  # with M 64 half of the lanes are not written by the product
    cells = "" if not (trial.in_cells or is_filled) else f"""
ld.global.v4.u32 {{%w0, %w1, %w2, %w3}}, [%rd8]; ld.global.v4.u32 {{%w4, %w5, %w6, %w7}}, [%rd8+16];
tcgen05.st.sync.aligned.32x32b.x8.b32 [%r4+256], {names};
""" + "".join(f"ld.global.u32 %w0, [%rd8+{32 + 4 * k}];\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%r4+{k}], {{%w0}};\n"
              for k in range(columns if is_filled else 0)) + "tcgen05.wait::st.sync.aligned;\n"  # fmt: skip
    kind = f"cta_group::{g}.kind::{trial.kind}" + (".block_scale.scale_vec::1X" if trial.is_scaled else "")
    factors = ", [%r30], [%r31]" if trial.is_scaled else ""
    copies = "".join(f"mov.u64 %rd12, %rd{k};\ntcgen05.cp.cta_group::{g}.32x128b.warpx4 [%r2+{at}], %rd12;\n"
                     for k, at in ((13, 264), (14, 268), (15, 272))) if trial.is_scaled else ""  # fmt: skip
    rows = 128 >> 4 << 32 | 1 << 46
    descriptors = "".join(f"add.s64 %rd{13 + k}, %rd11, {rows + (places[2] + 512 * k >> 4)};\n" for k in range(3))
    a = "[%r5]" if trial.in_cells else "%rd5"
    return f""".version 9.0
.target sm_100a
.shared .align 1024 .b8 tile[{size}];
.shared .align 16 .b8 bar[32];
.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1, .param .u64 k_param_2, .param .u64 k_param_3,
    .param .u64 k_param_4, .param .u32 k_param_5)
.maxntid 128, 1, 1
{{
.reg .pred %p<8>; .reg .b32 %r<40>; .reg .b32 %w<16>; .reg .b64 %rd<32>;
ld.param.u64 %rd0, [k_param_0]; ld.param.u64 %rd1, [k_param_1]; ld.param.u64 %rd2, [k_param_2];
ld.param.u64 %rd3, [k_param_3]; ld.param.u64 %rd4, [k_param_4]; ld.param.u32 %r33, [k_param_5];
mov.u32 %r0, %tid.x; mov.u32 %r32, %cluster_ctarank; shr.u32 %r1, %r0, 5; mov.u32 %r8, bar; mov.u32 %r10, tile;
shl.b32 %r6, %r0, 4; add.u32 %r9, %r10, %r6; mul.wide.u32 %rd9, %r32, {size}; add.s64 %rd9, %rd9, %rd0;
cvt.u64.u32 %rd10, %r6; add.s64 %rd9, %rd9, %rd10;
mad.lo.s32 %r7, %r32, 128, %r0; mul.wide.u32 %rd6, %r7, 2048; add.s64 %rd7, %rd4, %rd6; add.s64 %rd8, %rd1, %rd6;
setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r32, 0; and.pred %p3, %p0, %p2;
@%p0 mbarrier.init.shared::cta.b64 [%r8], 1;
@%p0 fence.mbarrier_init.release.cluster;
{meet}
@%p1 tcgen05.alloc.cta_group::{g}.sync.aligned.shared::cta.b32 [%r8+16], 512;
{list_copy(size // start)}
fence.proxy.async.shared::cta;
bar.sync 0;
ld.shared.u32 %r2, [%r8+16]; shl.b32 %r3, %r1, 21; add.u32 %r4, %r2, %r3; add.u32 %r5, %r2, 256;
{cells}
tcgen05.fence::before_thread_sync;
{meet}
tcgen05.fence::after_thread_sync;
shr.u32 %r11, %r10, 4; cvt.u64.u32 %rd11, %r11; add.s64 %rd5, %rd2, %rd11; add.s64 %rd16, %rd3, %rd11;
{descriptors}
add.u32 %r30, %r2, 264; add.u32 %r31, %r2, 268; setp.eq.u32 %p4, 0, {0 if trial.adds else 1};
@!%p3 bra wait;
{copies}
tcgen05.mma.{kind} [%r2], {a}, %rd16, %r33{factors}, %p4{f", {trial.shift}" if trial.shift else ""};
tcgen05.{to}
wait:
again:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p5, [%r8], 0;
@!%p5 bra again;
tcgen05.fence::after_thread_sync;
""" + "".join(
        f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {names}, [%r4+{c}];\ntcgen05.wait::ld.sync.aligned;\n"
        + "".join(f"st.global.u32 [%rd7+{4 * (c + j)}], %w{j};\n" for j in range(8))
        for c in range(0, columns, 8)
    ) + f"""tcgen05.fence::before_thread_sync;
{meet}
@%p1 tcgen05.dealloc.cta_group::{g}.sync.aligned.b32 %r2, 512;
ret;
}}
"""  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """The operands of a trial. ``d``: the sums before it; ``factors``: of A, of B, [256 rows, 4]."""

    a: Array
    b: Array
    d: Array
    factors: Array


def draw_operands(trial: Trial, seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    a, b = draw(rng, trial.types[0], (trial.m, trial.k)), draw(rng, trial.types[1], (trial.n, trial.k))
    d = rng.integers(-50, 50, (trial.m, trial.n)) * (1 << trial.shift)
    return Drawn(a, b, d, rng.integers(125, 130, (2, 256, 4)).astype(np.uint8))


def place_images(trial: Trial, drawn: Drawn, rank: int) -> tuple[Array, tuple[int, int, int], list[int]]:
    """Shared memory of a CTA; where A, B and factors begin; the descriptors of A and B."""
    parts = [x[rank * len(x) // trial.group : (rank + 1) * len(x) // trial.group] for x in (drawn.a, drawn.b)]
    forms = zip(parts, trial.types, trial.majors, strict=True)
    laid = [lay_out(x, kind, major, trial.swizzle) for x, kind, major in forms]
    first = -(-laid[0][0].size // 1024) * 1024
    tables = [drawn.factors[0, rank * 128 :][:128], drawn.factors[1, :128], drawn.factors[1, 128:]]
    turned = np.concatenate(
        [t.reshape(4, 32, 4).transpose(1, 0, 2).ravel() for t in tables]
    )  # words [4, 32] to [32, 4]
    places = 0, first, first + -(-laid[1][0].size // 1024) * 1024
    image = np.zeros(places[2] + (2048 if trial.is_scaled else 0), np.uint8)
    for at, part in zip(places, (laid[0][0], laid[1][0], turned), strict=True):
        image[at : at + part.size] = part[: image.size - at]
    described = [describe(at, *x[1:]) for at, x in zip(places, laid, strict=False)]
    return np.pad(image, (0, -image.size % 2048)), places, described


def list_lanes(trial: Trial, rank: int) -> tuple[Array, Array]:
    """The lanes of a CTA that have rows of the product, and which rows."""
    lanes = np.arange(trial.m // trial.group)
    return (lanes // 16 * 32 + lanes % 16 if (trial.m, trial.group) == (64, 1) else lanes), lanes + rank * len(lanes)


def fold(trial: Trial, sums: Array) -> Array:
    """With M 128 of a pair, the right half of N lies in lanes 64 to 127."""
    return np.concatenate(np.split(sums, 2, axis=1)) if (trial.m, trial.group) == (128, 2) else sums


def run_product(trial: Trial, change: tuple[str, str] = ("", ""), drop: str = "", seed: int = 0) -> tuple[Array, Array]:
    """What the machine gives, and NumPy: [m, n], as doubles. A part of the text changes, another one is dropped."""
    drawn = draw_operands(trial, seed)
    made = [place_images(trial, drawn, r) for r in range(trial.group)]
    held = np.zeros((trial.group, 128, 512), np.uint32)
    for r in range(trial.group):
        lanes, rows = list_lanes(trial, r)
        if trial.in_cells:
            held[r, lanes, :8] = to_bytes(drawn.a, trial.types[0]).view(np.uint32)[rows]
        sums = fold(trial, encode_sums(drawn.d[rows], trial.sums))
        held[r, lanes if len(sums) == len(lanes) else slice(None), 8 : 8 + sums.shape[1]] = sums
    text = write_text(trial, made[0][0].size, made[0][1])
    assert change[0] in text and drop in text, change[0]
    kernel = parse_kernel(text.replace(*change).replace(drop, "") if drop else text.replace(*change), "k")
    arguments = ("X", "C", *(np.uint64(x) for x in made[0][2]), "Y", np.uint32(encode(trial)))
    launch = Launch((trial.group, 1, 1), 128, arguments, (trial.group, 1, 1))
    images = {"X": np.concatenate([one[0] for one in made]), "C": held.view(np.uint8).ravel()}
    images["Y"] = np.zeros(held.nbytes, np.uint8)
    words = run_kernel(kernel, launch, images, ["Y"], [(0, 0, 0)]).images["Y"].view(np.uint32).reshape(held.shape)
    got = np.zeros((trial.m, trial.n))
    for r in range(trial.group):
        lanes, rows = list_lanes(trial, r)
        mine = words[r, lanes, : trial.n]
        if (trial.m, trial.group) == (128, 2):
            mine = np.concatenate(np.split(words[r, :, : trial.n // 2], 2), axis=1)
        got[rows] = decode_sums(mine, trial.sums)
    return got, mean(trial, drawn)


def mean(trial: Trial, drawn: Drawn) -> Array:
    """What the product means."""
    left, right = drawn.a.astype(np.float64), drawn.b.astype(np.float64)
    if trial.is_scaled:
        ids = trial.extra >> 29 & 3, trial.extra >> 4 & 3
        scale = 2.0 ** (drawn.factors.astype(np.float64) - 127)
        left, right = left * scale[0, : trial.m, ids[0], None], right * scale[1, : trial.n, ids[1], None]
    sign = (1 - 2 * (trial.extra >> 13 & 1)) * (1 - 2 * (trial.extra >> 14 & 1))
    return np.asarray(sign * left @ right.T + (drawn.d / (1 << trial.shift) if trial.adds else 0))


def encode_sums(d: Array, kind: str) -> Array:
    if kind == "f16":
        return d.astype(np.float16).view(np.uint16).astype(np.uint32)
    return np.ascontiguousarray(d.astype(np.float32 if kind == "f32" else np.int32)).view(np.uint32)


def decode_sums(words: Array, kind: str) -> Array:
    words = np.ascontiguousarray(words)
    if kind == "f16":
        return words.astype(np.uint16).view(np.float16).astype(np.float64)
    return words.view(np.float32 if kind == "f32" else np.int32).astype(np.float64)
