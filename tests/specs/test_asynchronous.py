"""Asynchronous copies that cannot be say which limit they break; mistakes of order say what to write, and where."""

from __future__ import annotations

import pytest

from tests.faults.verdicts import refusal_of
from tilegen.errors import TilegenError
from tilegen.pipeline import build, load
from tilegen.spec.outline import outline


def kernel(
    *ops: str, arch: str = "sm_90", x: str = "shape: [64, 64]", s: str = "shape: [32, 64]", dtype: str = "float32"
) -> str:  # fmt: skip
    return "\n".join([
        "kernel: k", f"arch: {arch}", "threads: 64", "buffers:",
        f"  X: {{scope: global, dtype: {dtype}, {x}}}",
        f"  Y: {{scope: global, partial: true, dtype: {dtype}, shape: [32, 64]}}",
        f"  s: {{scope: shared, dtype: {dtype}, {s}}}", "ops:", *ops,
    ])  # fmt: skip


def found(text: str) -> tuple[str, str, str]:
    d = refusal_of(TilegenError, build, text).diagnostics[0]
    return d.code, d.message, d.hint


LOAD = '  - copy: {src: "X[0:32]", dst: s, variant: tma, barrier: full}'
STORE = "  - copy: {src: s, dst: Y, variant: tma}"
START = '  - copy: {src: "X[0:32]", dst: s, async: true}'
PLAIN = '  - copy: {src: "X[0:32]", dst: s}'
OUT = "  - copy: {src: s, dst: Y}"
ROWS_CUT = 'shape: [32, 63], layout: "S[(32,63):(64,1)]"}'
FULL, DONE, SYNC = "  - wait: {barrier: full}", "  - wait: 0", "  - sync: cta"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (kernel(LOAD, arch="sm_80"), "sm_80 has no TMA"),
        (kernel(LOAD, s='shape: [32, 64], layout: "S[(32,64):(65,1)]"'), "65 elements apart, TMA puts them 64 apart"),
        (kernel(LOAD, s='shape: [32, 64], layout: "Swizzle(2,3,4)"'), "which TMA has not: its modes are"),
        (kernel(LOAD, s='shape: [32, 64], layout: "Swizzle(2,3,3)"'), "a row of the box is 256 bytes, a 128"),
        (kernel(LOAD, x='shape: [64, 64], layout: "S[(64,64):(66,1)]"'), "stride of 66 elements: TMA needs"),
        (kernel(LOAD, x="shape: [64, 64], align: 4"), "the pointer X is aligned to 4 bytes, TMA needs 16"),
        (kernel(LOAD, x="shape: [64, 64], layout: col"), "a box is row-major in shared memory"),
        (kernel(LOAD.replace("X[0:32]", "X[0:32, 0:32]"), dtype="float16",
                s='shape: [32, 32], layout: "Swizzle(3,3,3) o S[(32,32):(32,1)]"'), "TMA puts rows 128 bytes apart"),
        (kernel(STORE.replace("dst: Y", 'dst: "Y[:, 0:64]", edge: clip')).replace("shape: [32, 64]}", ROWS_CUT, 1),
         "dimension 1 of Y has 63 elements of 4 bytes: TMA stores whole 16 bytes, some of them behind its end"),
        (kernel(LOAD.replace("X[0:32]", "X[0:32, 2 : +64]"), x="shape: [64, 72]"),
         "boxes begin at multiples of 8 bytes of dimension 1 of X: TMA needs a multiple of 16 bytes"),
        (kernel(LOAD, x='shape: [64, 64], layout: "S[(64,64):(1,1)]"'), "dimensions 0 and 1 of X have a stride of 1"),
        (kernel(LOAD, dtype="complex128"), "TMA moves elements of at most 64 bits"),
        (kernel('  - copy: {src: "X[0:32, 0:6]", dst: "s[:, 0:6]", variant: tma, barrier: full}'), "64 elements apart"),
        (kernel('  - copy: {src: "X[0:1, 0:6]", dst: "s[0:1, 0:6]", variant: tma, barrier: full}'), "24 bytes, not a"),
        (kernel('  - copy: {src: "X[0]", dst: "s[0]", variant: tma, barrier: full, scope: thread}'), "of scope thread"),
        (kernel('  - copy: {src: "X[0, 0:32]", dst: "s[0, 8:40]", variant: tma, barrier: full}'), "TMA needs 128"),
        (kernel('  - copy: {src: "X[0:32]", dst: s, variant: tma}'), "a TMA load reports to an mbarrier"),
        (kernel(STORE.replace("tma}", "tma, barrier: full}")), "a TMA store is waited for with 'wait: N'"),
        (kernel(LOAD, FULL, OUT.replace("dst: Y", 'dst: "X[32:64]"')), "the kernel also writes X"),
        (kernel(STORE, "  - copy: {src: Y, dst: s}"), "the kernel also reads Y"),
        (kernel(START.replace("async: true", "async: true, variant: gmem_smem")), "it is not asynchronous"),
        (kernel("  - copy: {src: s, dst: Y, variant: cp_async}"), "global -> shared, not shared -> global"),
        (kernel(START, dtype="float16", x="shape: [64, 64], align: 2"), "for 2 at most"),
        (kernel(START.replace("true", "true, cache: stream")), "cp_async: 'cache: stream' is for copies that threads"),
        (kernel(LOAD.replace("tma", "tma, cache: stream")), "'cache: stream' is for copies that threads carry out"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_why(text, reason):
    code, message, _ = found(text)
    assert code in ("TG301", "TG302") and reason in message, message


@pytest.mark.parametrize(
    ("ops", "code", "hint"),
    [
        ((START, "  - commit", SYNC, OUT), "TG422", "insert `- wait: 0` before line 12"),
        ((START, "  - commit", OUT.replace("src: s", 'src: "s[31:32]"').replace("dst: Y", 'dst: "Y[31:32]"')),
         "TG422", "insert `- wait: 0`, `- sync: cta` before line 11"),
        ((START, SYNC, OUT), "TG422", "insert `- commit`, `- wait: 0` before line 11"),
        ((START, "  - commit"), "TG423", "insert `- wait: 0` after line 9"),
        ((LOAD, OUT), "TG422", "insert `- wait: {barrier: full}` before line 10"),
        ((LOAD, FULL, FULL, OUT), "TG413", "start the copies that it waits for before it, in every trip"),
        ((PLAIN, SYNC, STORE, DONE), "TG424", "insert `- sync: async` after line 9, before the sync"),
        ((PLAIN, "  - sync: async", SYNC, STORE), "TG423", "insert `- wait: 0` after line 12"),
    ],
)  # fmt: skip
def test_mistakes_of_order_say_what_to_write(ops, code, hint):
    got, message, said = found(kernel(*ops))
    assert (got, said) == (code, hint), message


def test_columns_wider_than_the_swizzle_are_several_boxes():
    wide = "shape: [32, 64], layout: \"mma_shared_layout('float32', '128B', (32, 64))\""
    built = build(kernel(LOAD, FULL, OUT, s=wide))
    picked = {c["question"]: c["picked"] for c in built.manifest["ops"][0]["choices"]}
    assert picked["tma_box"] == {"box": [32, 32], "count": 2, "bytes": 4096, "swizzle": 128}
    assert built.manifest["ops"][0]["cost"]["instructions"] == 2


SECOND = LOAD.replace("X[0:32]", "X[32:64]").replace("dst: s", "dst: u")
TWO_TILES = "  u: {scope: shared, dtype: float32, shape: [32, 64]}\nops:"


def _announced(text: str) -> tuple[int, list[int]]:
    """The arrivals of the only mbarrier, and the bytes that each copy announces."""
    seen = outline(load(text.replace("ops:", TWO_TILES)))
    return seen.barriers["full"].arrivals, [seen.announced_bytes[number] for number in range(2)]


def test_neighbouring_copies_are_one_arrival_that_announces_the_bytes_of_all():
    assert _announced(kernel(LOAD, SECOND, FULL, OUT)) == (1, [2 * 32 * 64 * 4, 0])


@pytest.mark.parametrize("other", ["scope: warp, when: warpid == 0, ", "when: b < 7, "])
def test_copies_of_other_threads_or_conditions_arrive_for_themselves(other: str):
    text = kernel(LOAD, SECOND.replace("copy: {", "copy: {" + other), FULL, OUT)
    text = text.replace("threads: 64", "threads: 64\nparams: {b: {default: 3}}")
    assert _announced(text) == (2, [32 * 64 * 4] * 2)


def test_commits_and_waits_are_not_blamed_for_a_copy_that_was_refused() -> None:
    text = kernel('  - copy: {src: "s[0:4]", dst: "s[4:8]", async: true}', "  - commit", "  - wait: 0", OUT)
    (only,) = refusal_of(TilegenError, build, text).diagnostics
    assert only.code == "TG301" and only.message.endswith("reg_reg, scalar: it is not asynchronous")


def test_shared_memory_that_mbarriers_overflow_is_said_at_a_buffer() -> None:
    load, out = LOAD.replace("dst: s", 'dst: "s[0:32]"'), OUT.replace("src: s", 'src: "s[0:32]"')
    # 232448 bytes, all that there is
    (only,) = refusal_of(TilegenError, build, kernel(load, FULL, out, s="shape: [908, 64]")).diagnostics
    assert only.code == "TG210" and "buffers and barriers take 232456 bytes" in only.message and only.mark
