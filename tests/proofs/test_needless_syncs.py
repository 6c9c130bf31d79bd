"""TG430: a sync that orders nothing is named, one that orders something never is."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilegen
from tilegen.planner import plan_spec
from tilegen.proofs import needless_syncs, prove

SPECS = Path(__file__).resolve().parents[2] / "specs"


def kernel(*ops: str, threads: int = 64) -> str:
    """Ops over a tile: X and Y lie row by row, Z column by column, so whoever writes Z reads what others wrote."""
    return "\n".join([
        "kernel: k", "arch: sm_90", f"threads: {threads}", "params: {rounds: 2}", "buffers:",
        "  X: {scope: global, dtype: float32, shape: [64, 32]}",
        "  Y: {scope: global, dtype: float32, shape: [64, 32]}",
        '  Z: {scope: global, dtype: float32, shape: [64, 32], layout: "S[(64,32):(1,64)]"}',
        "  s: {scope: shared, dtype: float32, shape: [64, 32]}",
        '  u: {scope: shared, dtype: float32, shape: [64, 32], layout: "S[(64,32):(1,64)]"}',
        "ops:", *ops,
    ])  # fmt: skip


def warned(text: str) -> list[int]:
    """Lines of the syncs that the proof warns of, counted from the first op (1)."""
    spec = tilegen.load(text)
    first = next(n for n, line in enumerate(text.splitlines(), 1) if line == "ops:")
    found = prove(spec, plan_spec(spec)).warnings
    for d in found:
        assert (d.code, d.severity) == ("TG430", "warning")
        assert d.mark is not None and d.message.endswith(f" at line {d.mark.line} orders nothing")
    return [d.mark.line - first for d in found if d.mark]


IN, OUT, TURN = "  - copy: {src: X, dst: s}", "  - copy: {src: s, dst: Y}", "  - copy: {src: s, dst: Z}"
SYNC = "  - sync: cta"


def test_a_sync_between_write_and_read_by_others_orders_them():
    assert warned(kernel(IN, SYNC, TURN)) == []


def test_a_sync_where_every_thread_reads_what_it_wrote_orders_nothing():
    assert warned(kernel(IN, SYNC, OUT)) == [2]


def test_one_of_two_syncs_orders_nothing():
    assert warned(kernel(IN, SYNC, SYNC, TURN)) == [2]


def test_a_sync_at_either_end_orders_nothing():
    assert warned(kernel(SYNC, IN, OUT, SYNC)) == [1, 4]


def test_syncs_in_loops_and_under_conditions():
    loop = [
        "  - for: {j: rounds}", "    do:", "      - copy: {src: X, dst: s}", "      - sync: cta",
        "      - copy: {src: s, dst: Z}", "      - sync: cta",
    ]  # fmt: skip
    assert warned(kernel(*loop)) == []
    assert warned(kernel(*loop, "  - {sync: cta, when: rounds > 1}")) == [7]
    assert warned(kernel(*loop).replace("rounds: 2", "rounds: 1")) == [6], "with one trip nothing follows"


def test_a_condition_that_never_holds_leaves_no_sync_to_drop():
    assert warned(kernel("  - {sync: cta, when: rounds > 2}", IN, SYNC, OUT)) == [3]


def test_the_syncs_inside_an_op_are_its_own():
    ops = [
        "  - copy: {scope: warp, src: \"X[warpid*32 : +32]\", dst: \"s[warpid*32 : +32]\"}", "  - sync: warp",
        "  - permute_layout: {scope: warp, src: \"s[warpid*32 : +32]\", dst: \"u[warpid*32 : +32]\"}",
        "  - copy: {scope: warp, src: \"u[warpid*32 : +32]\", dst: \"Y[warpid*32 : +32]\"}",
    ]  # fmt: skip
    assert warned(kernel(*ops)) == []
    assert warned(kernel(*ops[:3], "  - sync: warp", ops[3])) == [4], "permute_layout ends with its own"


def test_waits_that_land_nothing():
    start, done = "  - copy: {src: X, dst: s, async: true}", "  - wait: 0"
    assert warned(kernel(start, "  - commit", done, SYNC, TURN)) == []
    assert warned(kernel(start, "  - commit", done, SYNC, TURN, done)) == [6]
    assert warned(kernel(start, "  - commit", "  - wait: 1", done, SYNC, TURN)) == [3]


def test_no_warning_when_proving_again_is_long(monkeypatch):
    monkeypatch.setattr(needless_syncs, "_WORK", 1)
    assert warned(kernel(IN, SYNC, OUT)) == []


@pytest.mark.parametrize("name", ["permute_sf", "copy_reg", "masked_halo", "column_to_row", "swizzled_tile"])
def test_specs_whose_syncs_all_matter(name):
    spec = tilegen.load(SPECS / f"{name}.yaml")
    assert prove(spec, plan_spec(spec)).warnings == ()
