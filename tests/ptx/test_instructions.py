"""Instructions against NumPy and exact arithmetic of Python; conversions over all values of small types."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.ptx.machine import run_lanes
from tilegen.ptx import PtxError, parse_kernel
from tilegen.ptx.schedule import TABLE, find_row

RNG = np.random.default_rng(7)
EDGES = np.array([0, 1, 2, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x8000, 0xFFFF, 31, 32, 33], np.uint32)
WORDS = np.concatenate([np.repeat(EDGES, len(EDGES)), RNG.integers(0, 1 << 32, 2000, np.uint32)])
OTHERS = np.concatenate([np.tile(EDGES, len(EDGES)), RNG.integers(0, 1 << 32, 2000, np.uint32)])
FLOATS = np.concatenate([
    np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, 1e-38, 3e38, 0.5, 1.5, 2.5, -2.5], np.float32),
    RNG.standard_normal(2000).astype(np.float32), (10.0 ** RNG.uniform(-45, 38, 2000)).astype(np.float32),
])  # fmt: skip


def signed(x: np.ndarray) -> list[int]:
    return x.view(np.int32).tolist()


WHOLE = {
    "add.s32": lambda a, b: a + b, "sub.s32": lambda a, b: a - b, "mul.lo.s32": lambda a, b: a * b,
    "mul.hi.s32": lambda a, b: a * b >> 32, "min.s32": min, "max.s32": max, "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b, "xor.b32": lambda a, b: a ^ b,
    "div.s32": lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else -1,
    "shr.s32": lambda a, b: a >> min(b & 0xFFFFFFFF, 31),
}  # fmt: skip


@pytest.mark.parametrize("op", WHOLE)
def test_whole_numbers(op):
    got = run_lanes(f"{op} %d, %a, %b;", [WORDS, OTHERS], "u4")
    want = [WHOLE[op](a, b) & 0xFFFFFFFF for a, b in zip(signed(WORDS), signed(OTHERS), strict=True)]
    assert got.tolist() == want


UNSIGNED = {
    "mul.hi.u32": lambda a, b: a * b >> 32, "min.u32": min, "max.u32": max, "div.u32": lambda a, b: a // b if b else -1,
    "rem.u32": lambda a, b: a % b if b else a, "shl.b32": lambda a, b: a << b if b < 32 else 0,
    "shr.u32": lambda a, b: a >> b if b < 32 else 0,
}  # fmt: skip


@pytest.mark.parametrize("op", UNSIGNED)
def test_unsigned_numbers(op):
    got = run_lanes(f"{op} %d, %a, %b;", [WORDS, OTHERS], "u4")
    want = [UNSIGNED[op](a, b) & 0xFFFFFFFF for a, b in zip(WORDS.tolist(), OTHERS.tolist(), strict=True)]
    assert got.tolist() == want


def test_wide_and_long_numbers():
    long = RNG.integers(0, 1 << 64, 500, np.uint64)
    other = np.roll(long, 3)
    wide = run_lanes("mul.wide.s32 %d, %a, %b;", [WORDS, OTHERS], "i8")
    assert wide.tolist() == [a * b for a, b in zip(signed(WORDS), signed(OTHERS), strict=True)]
    high = run_lanes("mul.hi.u64 %d, %a, %b;", [long, other], "u8")
    assert high.tolist() == [a * b >> 64 for a, b in zip(long.tolist(), other.tolist(), strict=True)]
    quotient = run_lanes("div.u64 %d, %a, %b;", [long, other], "u8")
    assert quotient.tolist() == [a // b for a, b in zip(long.tolist(), other.tolist(), strict=True)]


@pytest.mark.parametrize("count", [0, 1, 4, 31, 32, 40])
def test_fields_of_bits(count):
    start = 5
    got = run_lanes(f"bfi.b32 %d, %a, %b, {start}, {count};", [WORDS, OTHERS], "u4")
    mask = ((1 << count) - 1) << start & 0xFFFFFFFF
    want = [b & ~mask | a << start & mask for a, b in zip(WORDS.tolist(), OTHERS.tolist(), strict=True)]
    assert got.tolist() == want
    taken = run_lanes(f"bfe.u32 %d, %a, {start}, {count};", [WORDS], "u4")
    assert taken.tolist() == [a >> start & (1 << min(count, 32)) - 1 for a in WORDS.tolist()]


def test_bits_are_counted():
    for op, want in (("popc", int.bit_count), ("clz", lambda x: 32 - x.bit_length())):
        assert run_lanes(f"{op}.b32 %d, %a;", [WORDS], "u4").tolist() == [want(x) for x in WORDS.tolist()]
    assert run_lanes("brev.b32 %d, %a;", [WORDS], "u4").tolist() == [int(f"{x:032b}"[::-1], 2) for x in WORDS.tolist()]


def test_prmt_over_all_selectors():
    a, b = 0x83828100, 0x07068504
    selectors = np.arange(1 << 16, dtype=np.uint32)
    got = run_lanes(f"prmt.b32 %d, {a}, {b}, %a;", [selectors], "u4")
    parts = [(b << 32 | a) >> 8 * k & 255 for k in range(8)]
    table = [*parts, *(255 * (p >> 7) for p in parts)]
    nibbles = selectors[:, None] >> np.arange(0, 16, 4, dtype=np.uint32) & 15
    want = (np.array(table, np.uint32)[nibbles] << np.arange(0, 32, 8, dtype=np.uint32)).sum(1, dtype=np.uint32)
    assert (got == want).all()


@pytest.mark.parametrize("table", [0xE8, 0x96, 0x1B, 0x00, 0xFF])
def test_lop3_is_its_table(table):
    c = np.roll(WORDS, 5)
    got = run_lanes(f"lop3.b32 %d, %a, %b, %c, {table};", [WORDS, OTHERS, c], "u4")
    bits = [(x >> np.arange(32, dtype=np.uint32)[:, None] & 1) for x in (WORDS, OTHERS, c)]
    picked = table >> (bits[0] * 4 + bits[1] * 2 + bits[2]) & 1
    assert (got == (picked << np.arange(32, dtype=np.uint32)[:, None]).sum(0, dtype=np.uint32)).all()


def test_fma_rounds_once():
    a, b, c = FLOATS[:3000], np.roll(FLOATS, 11)[:3000], np.roll(FLOATS, 501)[:3000]
    got = run_lanes("fma.rn.f32 %d, %a, %b, %c;", [a.view("u4"), b.view("u4"), c.view("u4")], "f4")
    for x, y, z, d in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        if not np.isfinite([x, y, z]).all():
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        nearest = [
            np.float32(d),
            np.nextafter(np.float32(d), np.float32(np.inf)),
            np.nextafter(np.float32(d), np.float32(-np.inf)),
        ]
        if np.isfinite(nearest).all():
            assert min(abs(Fraction(float(n)) - exact) for n in nearest) == abs(Fraction(d) - exact)


def test_fma_of_doubles_rounds_once():
    a, b, c = RNG.standard_normal((3, 1500)) * 10.0 ** RNG.integers(-9, 9, (3, 1500))
    c[:700] = -(a * b)[:700]  # all that is left is what the product lost
    got = run_lanes("fma.rn.f64 %d, %a, %b, %c;", [a.view("u8"), b.view("u8"), c.view("u8")], "f8")
    want = [
        float(Fraction(x) * Fraction(y) + Fraction(z))
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    assert got.tolist() == want


@pytest.mark.parametrize("mode, aim", [("rz", 0), ("rm", -1), ("rp", 1)])
def test_products_round_as_they_say(mode, aim):
    a, b = RNG.standard_normal((2, 2000)).astype(np.float32)
    got = run_lanes(f"mul.{mode}.f32 %d, %a, %b;", [a.view("u4"), b.view("u4")], "f4")
    for x, y, d in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y)
        way = aim or (-1 if exact > 0 else 1)
        assert (Fraction(d) - exact) * way >= 0
        back = np.nextafter(np.float32(d), np.float32(-way * np.inf))
        assert Fraction(d) == exact or (Fraction(float(back)) - exact) * way < 0


def test_comparisons_and_nans():
    a, b = np.repeat(FLOATS[:14], 14), np.tile(FLOATS[:14], 14)
    ordered = {"eq": a == b, "ne": (a != b) & ~np.isnan(a) & ~np.isnan(b), "lt": a < b, "ge": a >= b}
    nan = np.isnan(a) | np.isnan(b)
    cases = ordered | {f"{name}u": value | nan for name, value in ordered.items()} | {"num": ~nan, "nan": nan}
    for name, want in cases.items():
        got = run_lanes(f"setp.{name}.f32 %p|%q, %a, %b; selp.u32 %d, 1, 0, %p;", [a.view("u4"), b.view("u4")], "u4")
        assert (got.astype(bool) == want).all(), name


def test_extremes_pass_over_nans():
    a, b = np.repeat(FLOATS[:14], 14), np.tile(FLOATS[:14], 14)
    got = run_lanes("max.f32 %d, %a, %b;", [a.view("u4"), b.view("u4")], "f4")
    both = np.isnan(a) & np.isnan(b)
    assert np.isnan(got[both]).all() and (got[~both] == np.fmax(a, b)[~both]).all()
    zeros = (a == 0) & (b == 0)
    assert (np.signbit(got[zeros]) == (np.signbit(a) & np.signbit(b))[zeros]).all()


# ---- conversions
def halves() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16)


def same_floats(got: np.ndarray, want: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):  # NaNs that signal
        got, want = got.astype(np.float64), want.astype(np.float64)
    return bool(((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)).all())


@pytest.mark.parametrize("name, kind", [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_every_half_becomes_a_float(name, kind):
    assert same_floats(run_lanes(f"cvt.f32.{name} %d, %a;", [halves()], "f4"), halves().view(kind).astype(np.float32))


@pytest.mark.parametrize("name, kind", [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_floats_around_every_half_round_to_nearest_even(name, kind):
    """Each half's float, those next to it, and the middle to the next half with those next to that."""
    exact = halves().view(kind).astype(np.float32)
    after = (halves() + np.uint16(1)).view(kind).astype(np.float32)
    with np.errstate(all="ignore"):
        middle = ((exact.astype(np.float64) + after) / 2).astype(np.float32)
        near = [
            x
            for e in (exact, middle)
            for x in (e, np.nextafter(e, np.float32(9e38)), np.nextafter(e, np.float32(-9e38)))
        ]
        x = np.concatenate(near)
        got = run_lanes(f"cvt.rn.{name}.f32 %d, %a;", [x.view("u4")], "u2").view(kind)
        assert same_floats(got, x.astype(kind))


@pytest.mark.parametrize("name, kind", [("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)])
def test_every_eighth_and_back(name, kind):
    pairs = halves()
    wide = run_lanes(f"cvt.rn.f16x2.{name}x2 %d, %a;", [pairs], "u4")
    want = pairs.view(np.uint8).view(kind).astype(np.float16)
    assert same_floats(wide.view(np.float16), want)
    x = np.concatenate([FLOATS, pairs.view(np.float16).astype(np.float32)])
    y = np.roll(x, 1)
    narrow = run_lanes(f"cvt.rn.satfinite.{name}x2.f32 %d, %a, %b;", [x.view("u4"), y.view("u4")], "u2")
    most = float(ml_dtypes.finfo(kind).max)
    with np.errstate(all="ignore"):
        high, low = (np.where(np.isnan(v), np.nan, np.clip(v, -most, most)).astype(kind) for v in (x, y))
    assert same_floats((narrow >> 8).astype(np.uint8).view(kind), high)
    assert same_floats((narrow & 255).astype(np.uint8).view(kind), low)


def test_tf32_rounds_ties_away():
    x = FLOATS.view("u4")
    got = run_lanes("cvt.rna.tf32.f32 %d, %a;", [x], "u4")
    finite = np.isfinite(FLOATS)
    want = (x[finite] + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    assert (got[finite] == want).all()


@pytest.mark.parametrize("target", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("mode", ["rni", "rzi"])
def test_floats_become_whole_numbers(target, mode):
    bits, least = int(target[1:]), -(1 << int(target[1:]) - 1) if target[0] == "s" else 0
    most = least + (1 << bits) - 1
    width = max(bits, 16)
    got = run_lanes(
        f"cvt.{mode}.{target}.f32 %d, %a;", [FLOATS.view("u4")], f"{'i' if target[0] == 's' else 'u'}{width // 8}"
    )
    none = 0 if bits <= 32 else -(1 << 63) if target[0] == "s" else 1 << 63
    whole = np.rint if mode == "rni" else np.trunc
    ends = {np.inf: most, -np.inf: least}
    want = [
        none if np.isnan(x) else ends[x] if x in ends else min(max(int(whole(x)), least), most) for x in FLOATS.tolist()
    ]
    assert got.tolist() == want


def test_whole_numbers_become_others():
    assert run_lanes("cvt.s32.s8 %d, %a;", [halves()], "i4").tolist() == halves().astype(np.int8).tolist()
    assert run_lanes("cvt.u32.u8 %d, %a;", [halves()], "u4").tolist() == (halves() & 255).tolist()
    assert run_lanes("cvt.u16.u32 %d, %a;", [WORDS], "u2").tolist() == (WORDS & 0xFFFF).tolist()
    assert run_lanes("cvt.rn.f32.s32 %d, %a;", [WORDS], "f4").tolist() == WORDS.view("i4").astype(np.float32).tolist()
    assert run_lanes("cvt.sat.s8.s32 %d, %a;", [WORDS], "i2").tolist() == np.clip(WORDS.view("i4"), -128, 127).tolist()


# ---- the table
def test_each_row_has_its_section():
    assert all(row.section[:4] == "9.7." and row.section.partition(" ")[2] for row in TABLE)


@pytest.mark.parametrize(
    "op", ["add.sat.s32", "ldu.global.u32", "tcgen05.mma", "mbarrier.test_wait.shared.b64", "fma.rn.relu.f16"]
)
def test_unknown_instructions_are_named(op):
    with pytest.raises(PtxError, match=f"no instruction {op}"):
        find_row(op)


def test_no_opcode_has_two_rows():
    examples = [
        "add.s32", "add.f32", "mov.b32", "mov.pred", "cvt.rn.f16.f32", "ld.global.nc.v4.u32", "red.global.add.f32",
        "bar.sync", "bar.warp.sync", "redux.sync.add.s32", "cp.async.commit_group", "cp.async.bulk.commit_group",
    ]  # fmt: skip
    assert {op: sum(bool(row.pattern.fullmatch(op)) for row in TABLE) for op in examples} == dict.fromkeys(examples, 1)


def test_text_is_read():
    text = """.version 9.0
.target sm_90a
.visible .entry two(.param .u64 two_param_0) .maxntid 64, 1, 1 { ret; }
.visible .entry k(
    .param .u64 k_param_0, .param .align 64 .b8 k_param_1[128]
)
.maxntid 128, 1, 1
{
    .reg .pred %p<2>;
    .shared .align 16 .b8 tile[64];
    .loc 1 10 5
    .loc 1 3 1, function_name $x, inlined_at 1 10 5
    @!%p1 bra done; // a comment; with a semicolon
    { .reg .pred %p1; { .reg .b32 q; mov.b32 q, 1; }
again:
    @%p1 bra again; }
done:
    ret;
}
"""
    kernel = parse_kernel(text, "k")
    assert [v.size for v in kernel.params] == [8, 128] and kernel.variables[0].size == 64
    first, second, third, _ = kernel.code
    assert (first.lines, first.is_negated, kernel.labels[first.operands[0]]) == ((3, 10), True, 3)
    assert second.operands[0] != "q" and third.guard != "%p1" and kernel.labels[third.operands[0]] == 2
    assert parse_kernel(text, "two").directives["maxntid"] == (64, 1, 1)
    with pytest.raises(PtxError, match="no kernel 'three'"):
        parse_kernel(text, "three")


def test_a_branch_to_no_label_is_refused():
    for target in ("out", "inner"):
        with pytest.raises(PtxError, match=f"line 1: no label {target} is in scope"):
            parse_kernel(f".entry k() {{ bra {target}; {{ inner: }} ret; }}", "k")
