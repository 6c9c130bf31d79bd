"""Views of tensor memory: the same cells in other types, proved, run and compiled, and faults between both."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from tests.faults.steps import drop, mutate
from tests.faults.texts import change_text
from tests.faults.verdicts import ONE_CTA, build_codes, fault_of_run
from tests.nvcc.compile import compile_text, requires_nvcc
from tests.ptx.kernels import requires_nvrtc
from tests.tensor.test_attention import READ, SIZES, SPEC, STAGE, attention, find_fault, run
from tilegen.dtypes import numpy_dtype
from tilegen.errors import LayoutError
from tilegen.interpret import interpret
from tilegen.layouts import Iter, TileLayout, is_injective, parse, retype_cells
from tilegen.pipeline import build, load
from tilegen.plan import TENSOR_STORES, Plan, Wait
from tilegen.planner import plan_spec
from tilegen.render import render
from tilegen.spec.printing import print_spec
from tilegen.verifying.devices import verify

BITS = (8, 16, 32)
# What is stored in one type is loaded in another, both ways; p has the halves of t's elements.
PUNNED = """kernel: v
arch: sm_100a
threads: 128
buffers:
  X: {scope: global, dtype: uint32, shape: [128, 64]}
  H: {scope: global, dtype: bfloat16, shape: [128, 128]}
  Y: {scope: global, dtype: bfloat16, shape: [128, 128]}
  Z: {scope: global, dtype: uint32, shape: [128, 64]}
  t: {scope: tmem, dtype: uint32, shape: [2, 128, 64], layout: LAYOUT}
  p: {view: t, dtype: bfloat16}
  q: {view: p, shape: [2, 128, 4, 32]}
  x: {scope: register, dtype: uint32, shape: [128, 64], layout: auto}
  h: {scope: register, dtype: bfloat16, shape: [128, 128], layout: auto}
  g: {scope: register, dtype: bfloat16, shape: [128, 32], layout: auto}
ops:
  - copy: {src: X, dst: x}
  - copy: {src: x, dst: "t[1]"}
  - copy: {src: "p[1]", dst: h}
  - copy: {src: h, dst: Y}
  - for: {i: 4}
    do:
      - copy: {src: "H[:, i*32 : +32]", dst: g}
      - copy: {src: g, dst: "q[0, :, i]"}
  - copy: {src: "t[0]", dst: x}
  - copy: {src: x, dst: Z}
"""
LAYOUTS = ("auto", '"S[(2, 128, 64):(64@TCol, 1@TLane, 1@TCol)]"')


# ---------------------------------------------------------------- the layout
def bytes_of(layout: TileLayout, count: int, bits: int) -> list[set[tuple[int, int]]]:
    """(lane, byte of it) of the first byte of each copy of each element."""
    places = [layout.apply(x, shape=(count,)) for x in range(count)]
    return [{(p.get("TLane", 0), p.get("TCol", 0) * bits // 8) for p in found} for found in places]


def draw(random: Random) -> TileLayout:
    shard = [Iter(random.choice((1, 2, 3, 4)), random.choice((1, 2, 4, 8, 12)), random.choice(("TLane", "TCol")))
             for _ in range(random.randint(1, 3))]  # fmt: skip
    replica = [Iter(2, random.choice((8, 32)), random.choice(("TLane", "TCol")))] if random.random() < 0.3 else []
    offset = {"TCol": 4} if random.random() < 0.3 else {}
    return TileLayout.from_iters([*shard, Iter(random.choice((2, 4, 8)), 1, "TCol")], replica, offset)


@pytest.mark.parametrize("seed", range(40))
def test_every_element_keeps_its_bytes(seed: int) -> None:
    """Narrower elements are the parts of each in order, wider ones their first; and back again is the same."""
    random = Random(seed)
    layout = draw(random)
    count = int(np.prod([i.extent for i in layout.shard]))
    for bits, new in product(BITS, BITS):
        own = bytes_of(layout, count, bits)
        if new <= bits:
            times = bits // new
            found = bytes_of(retype_cells(layout, bits, new), count * times, new)
            for e, part in product(range(count), range(times)):
                assert found[e * times + part] == {(lane, byte + part * new // 8) for lane, byte in own[e]}
            again = retype_cells(retype_cells(layout, bits, new), new, bits)
            assert bytes_of(again, count, bits) == own
            continue
        times = new // bits
        try:
            wide = retype_cells(layout, bits, new)
        except LayoutError:
            whole = [{(lane, byte + k * bits // 8) for lane, byte in own[e]}
                     for e in range(0, count, times) for k in range(times)]  # fmt: skip
            aligned = all(byte % (new // 8) == 0 for e in range(0, count, times) for _, byte in own[e])
            assert count % times or whole != own or not aligned, "there is one"
        else:
            assert bytes_of(wide, count // times, new) == own[::times]
            assert is_injective(wide) or not is_injective(layout)


def test_elements_apart_are_no_wider_ones() -> None:
    for text in (
        "S[(64, 2):(1@TCol, 64@TCol)]",
        "S[(128, 3):(1@TLane, 1@TCol)]",
        "S[(128, 4):(1@TLane, 1@TCol)] + 1@TCol",
    ):
        with pytest.raises(LayoutError, match="share no column"):
            retype_cells(parse(text), 16, 32)  # type: ignore[arg-type]


# ---------------------------------------------------------------- kernels
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_view_reads_what_was_written_in_another_type(layout: str) -> None:
    built = build(PUNNED.replace("LAYOUT", layout))
    random = np.random.default_rng(7)
    x, h = (random.integers(0, 1 << 16, (128, n)).astype(np.uint32) for n in (64, 128))
    words, halves = (x << 16 | x[:, ::-1]).astype(np.uint32), h.astype(np.uint16)
    given = {"X": words.reshape(-1), "H": halves.reshape(-1).view(numpy_dtype("bfloat16"))}
    written = interpret(built.plan, ONE_CTA, {n: v.__getitem__ for n, v in given.items()}, {}).written
    y, z = (np.asarray(written[n][1]) for n in "YZ")
    assert np.array_equal(y.view(np.uint16).reshape(128, 128), words.view(np.uint16).reshape(128, 128))
    assert np.array_equal(z.reshape(128, 64), halves.view(np.uint32).reshape(128, 64))


def test_the_spec_is_printed_and_read_back() -> None:
    spec = load(PUNNED.replace("LAYOUT", "auto"))
    assert load(print_spec(spec)) == spec
    assert str(spec.buffer("p").layout) == "S[(2, 128, 128):(128@TCol, 1@TLane, 1@TCol)]"
    assert plan_spec(spec).tensor_columns == 128  # views take none of their own


@requires_nvrtc
def test_the_machine_runs_it() -> None:
    assert verify(PUNNED.replace("LAYOUT", "auto"), device="ptx", seeds=[1]).device == "ptx"


@requires_nvcc
def test_it_compiles_and_spills_nothing() -> None:
    report = compile_text(render(plan_spec(load(PUNNED.replace("LAYOUT", "auto")))), "sm_100a")
    assert (report.stack, report.spills) == (0, 0), report


def test_what_nothing_wrote_is_refused_through_a_view() -> None:
    text = change_text(PUNNED.replace("LAYOUT", "auto"), ('  - copy: {src: x, dst: "t[1]"}\n', ""))
    assert build_codes(text) == {"TG404"}


def test_a_store_in_flight_is_seen_through_a_view() -> None:
    plan = plan_spec(load(PUNNED.replace("LAYOUT", "auto")))
    unwaited: Plan = mutate(plan, lambda s: isinstance(s, Wait) and s.queue == TENSOR_STORES, drop, 0)
    zeros = {"X": np.zeros(128 * 64, np.uint32), "H": np.zeros(128 * 128, numpy_dtype("bfloat16"))}
    given = {name: x.__getitem__ for name, x in zeros.items()}
    fault = fault_of_run(lambda: interpret(unwaited, ONE_CTA, given, {}))
    assert fault is not None and fault.code == "TG422" and "no tcgen05.wait::st stands between" in fault.message


# ---------------------------------------------------------------- the weights of attention are a view of its scores
def view_scores(is_waited: bool = True) -> str:
    """The spec with p as bfloat16 on the columns of s, the first half of each stage."""
    lines = SPEC.read_text(encoding="utf-8").split("\n")
    at = next(k for k, line in enumerate(lines) if line.startswith("  p: {scope: tmem"))
    lines[at] = "  p: {view: s, dtype: bfloat16}"
    text = change_text(
        "\n".join(lines), ('a: "p[(j - 1) % 2]"', 'a: "p[(j - 1) % 2, :, 0 : 128]"'),
        ('dst: "p[j % 2]"', 'dst: "p[j % 2, :, 0 : 128]"'),
    )  # fmt: skip
    return change_text(text, (STAGE, STAGE + READ)) if is_waited else text


def test_weights_are_multiplied_from_the_columns_of_their_scores() -> None:
    plan = plan_spec(load(view_scores(), params=SIZES))
    assert {m.name: m.offset_bytes for m in plan.memories if m.traits.has_cells} == {"s": 0, "o": 4 * 256, "p": 0}
    assert np.abs(run(plan) - attention()).max() < 2**-7


def test_scores_come_too_early_over_the_weights() -> None:
    fault = find_fault(plan_spec(load(view_scores(is_waited=False), params=SIZES)))
    assert fault is not None and fault.code == "TG422" and "writes tmem s" in fault.message, fault


@requires_nvcc
def test_attention_with_a_view_compiles_and_spills_nothing() -> None:
    report = compile_text(render(plan_spec(load(view_scores(), params=SIZES))), "sm_100a")
    assert (report.stack, report.spills) == (0, 0), report
