"""Registers whose layout is 'auto': who owns them, by law and by brute force over threads."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilegen
from tests.auto_layout.test_auto import choice_of, load_plain, pin
from tests.faults.verdicts import refusal_of
from tests.session import examples
from tilegen.auto_layout import choose_registers
from tilegen.auto_layout.owners import are_equal, extend, lift, owners_of, project
from tilegen.errors import SpecError
from tilegen.layouts import Iter, TileLayout, counted_shape, mma_fragment, parse
from tilegen.ops import OPS
from tilegen.ops.flows import fixed
from tilegen.ops.partition_layout import MemoryTile, partition_layout
from tilegen.scopes import THREAD_AXES
from tilegen.spec.data import Spec

HEAD = """kernel: k
threads: 64
grid: {bx: 2}
buffers:
  X: {scope: global, dtype: bfloat16, shape: [2, 32, 64]}
  Y: {scope: global, dtype: float32, shape: [2, 32, 64]}
  R: {scope: global, dtype: float32, shape: [2, 32, 1]}
  p: {scope: register, dtype: bfloat16, shape: [32, 64], layout: auto}
"""


def settled(buffers: str, ops: str) -> Spec:
    return choose_registers(load_plain(spec(buffers, ops)))


def spec(buffers: str, ops: str) -> str:
    text = HEAD + "".join(f"  {line.strip()}\n" for line in buffers.strip().splitlines() if line.strip())
    return text + "ops:\n" + "".join(f"  - {line.strip()}\n" for line in ops.strip().splitlines())


def texts(spec: Spec) -> dict[str, str]:
    return {b.name: b.layout_text for b in spec.buffers if b.scope == "register"}


Q = "q: {scope: register, dtype: float32, shape: [32, 64], layout: auto}"
S = "s: {scope: register, dtype: float32, shape: [32, 1], layout: auto}"
LOAD, CAST = 'copy: {src: "X[bx]", dst: p}', "cast: {src: p, dst: q}"
SUM, SCALE = "reduce: {src: q, dst: s, axis: 1, op: sum}", 'elementwise: {dst: q, expr: "q * s"}'
STORE = 'copy: {src: q, dst: "Y[bx]"}'


# ---------------------------------------------------------------- owners as functions, against threads one by one
def holders(layout: TileLayout, shape: tuple[int, ...], threads: int) -> list[set[int]]:
    """The threads of the CTA (or of one instance) that hold each element: every thread asked by its own numbers."""
    axes = THREAD_AXES.items()
    numbers = [
        {a: t // x.unit % (x.span // x.unit) if x.span else t // x.unit for a, x in axes} for t in range(threads)
    ]
    named = {i.axis for i in (*layout.shard, *layout.replica)} | {axis for axis, _ in layout.offset}
    named -= {"m"}
    out = []
    for e in range(prod(shape)):
        at = np.unravel_index(e, shape)
        places = layout.apply(*map(int, at), shape=shape)
        wanted = [{axis: place.get(axis, 0) for axis in named} for place in places]
        out.append({t for t, own in enumerate(numbers) if any(all(own[a] == w[a] for a in named) for w in wanted)})
    return out


LAYOUTS = [
    "S[(8,16):(8@tx,1@tx)]", "S[(8,2,8):(8@tx,8,1@tx)] + R[2:64@tx]", "S[(4,2,16):(1@warpid,16@laneid,1@laneid)]",
    "S[(8,16):(16@tx,1@tx)]", "S[(4,2,16):(1@wid_in_wg,16@laneid,1@laneid)]", "S[(8,16):(1,1@laneid)] + R[4:1@warpid]",
    "S[(8,16):(1,1@laneid)]", "S[(8,16):(16,1@tx)] + R[4:32@tx]", "S[(8,16):(16,1@tx)] + R[4:32@tx] + 16@tx",
    "S[(8,4,4):(4@tx,4,1@tx)]", "S[(8,4,4):(4@laneid,4,1@laneid)]", "S[(4,2,16):(32@tx,16@tx,1@tx)]",
    "S[(8,16):(16,1)] + 3@tx", "S[(4,32):(1@warpid,1@laneid)]",
]  # fmt: skip


@pytest.mark.sweep(1)
@pytest.mark.parametrize("a", LAYOUTS)
def test_two_layouts_are_equal_where_the_same_threads_hold_each_element(a: str) -> None:
    shape = (8, 16)
    mine = owners_of(parse(a), shape, (0, 0), shape)
    assert mine is not None
    for b in LAYOUTS:
        other = owners_of(parse(b), shape, (0, 0), shape)
        assert other is not None
        same = holders(parse(a), shape, 128) == holders(parse(b), shape, 128)
        assert are_equal(mine, other, "cta", 128) == same, (a, b)


def test_the_list_of_layouts_has_pairs_that_are_written_differently_and_are_equal() -> None:
    by_threads = [tuple(map(frozenset, holders(parse(a), (8, 16), 128))) for a in LAYOUTS]
    assert len(set(by_threads)) <= len(by_threads) - 4


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from([(8, 16), (4, 12, 8), (32, 20), (2, 3, 64)]), st.sampled_from([32, 64]), st.data())
def test_what_is_stretched_is_held_by_all_threads_along_it(shape, threads, data) -> None:
    """Projected and laid out again, the result is one-to-one with its copies and held by whoever holds a part of it."""
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    layout = partition_layout(MemoryTile(shape, 4, order), threads, "tx", data.draw(st.sampled_from([1, 2, 4])))
    lost = data.draw(st.integers(0, len(shape) - 1))
    owners = owners_of(layout, shape, (0,) * len(shape), shape)
    small = tuple(1 if d == lost else n for d, n in enumerate(shape))
    dims = tuple(None if d == lost else d for d in range(len(shape)))
    assert lift(project(owners, dims, small), dims, shape) is None
    result = extend(project(owners, dims, small), (0,) * len(shape), small)
    wanted: list[set[int]] = [set() for _ in range(prod(small))]
    for e, held in enumerate(holders(layout, shape, threads)):
        at = [x for x in np.unravel_index(e, shape)]
        at[lost] = 0
        wanted[int(np.ravel_multi_index(at, small))] |= held
    assert holders(result, small, threads) == wanted
    seen = [(p.get("tx", 0), p.get("m", 0)) for e in range(prod(small))
            for p in result.apply(*map(int, np.unravel_index(e, small)), shape=small)]  # fmt: skip
    assert len(set(seen)) == len(seen)


@pytest.mark.sweep(8)
@pytest.mark.parametrize("text", LAYOUTS[:8])
@pytest.mark.parametrize("box", [((0, 0), (4, 16)), ((4, 0), (4, 16)), ((0, 8), (8, 8)), ((2, 4), (1, 4))])
def test_the_owners_of_a_part_are_those_of_its_elements(text: str, box) -> None:
    begins, lengths = box
    part = owners_of(parse(text), (8, 16), begins, lengths)
    whole = np.array(holders(parse(text), (8, 16), 128), dtype=object).reshape(8, 16)
    wanted = whole[tuple(slice(b, b + n) for b, n in zip(begins, lengths, strict=True))].ravel().tolist()
    assert part is not None
    assert holders(extend(part, (0, 0), lengths), lengths, 128) == wanted


# ---------------------------------------------------------------- flows
def test_ownership_flows_from_a_cast_through_a_reduce_and_back() -> None:
    found = settled(Q + "\n" + S, "\n".join([LOAD, CAST, SUM, SCALE, STORE]))
    assert texts(found) == {
        "p": "S[(8, 4, 16, 4):(4, 16@tx, 1@tx, 1)]",
        "q": "S[(8, 4, 16, 4):(4, 16@tx, 1@tx, 1)]",  # 4 floats are 16 bytes
        "s": "S[(8, 4):(1, 16@tx)] + R[16:1@tx]",
    }
    assert choice_of(found, "q").proof.startswith("copy partition of the copy at line 16, 16 bytes a thread; ")
    assert choice_of(found, "p").proof == "follows from q by the cast at line 13"
    assert choice_of(found, "s").proof.startswith("follows from q by the reduce at line 14")


def test_what_is_fixed_counts_before_a_copy_that_stands_first() -> None:
    pinned = 'q: {scope: register, dtype: float32, shape: [32, 64], layout: "S[(8,4,64):(1,8,1@tx)]"}'
    found = settled(pinned, "\n".join([LOAD, CAST, STORE]))
    assert texts(found)["p"] == "S[(8, 4, 64):(1, 8, 1@tx)]"  # q's threads, in the order of its registers
    assert choice_of(found, "p").proof == "follows from q by the cast at line 12"


OPS_IN_ANY_ORDER = [
    "cast: {src: p, dst: q}", "copy: {src: t, dst: q}", 'elementwise: {dst: u, expr: "t + s"}',
    "reduce: {src: u, dst: v, axis: 0, op: sum}", 'copy: {src: "Y[bx]", dst: t}',
]  # fmt: skip
MANY = """
    q: {scope: register, dtype: float32, shape: [32, 64], layout: "S[(4,8,8,8):(8,8@tx,1@tx,1)]"}
    s: {scope: register, dtype: float32, shape: [32, 1], layout: auto}
    t: {scope: register, dtype: float32, shape: [32, 64], layout: auto}
    u: {scope: register, dtype: float32, shape: [32, 64], layout: auto}
    v: {scope: register, dtype: float32, shape: [64], layout: auto}
"""


@pytest.mark.slow
def test_the_order_of_the_text_makes_no_difference_to_what_follows() -> None:
    found = {tuple(sorted(texts(settled(MANY, "\n".join(ops))).items())) for ops in permutations(OPS_IN_ANY_ORDER)}
    assert len(found) == 1
    assert dict(found.pop())["v"] == "S[(8, 8):(1@tx, 1)] + R[8:8@tx]"


def test_copies_decide_by_what_all_of_them_cost_in_whatever_order() -> None:
    """Owners of 8 floats store twice as many sectors as there are; owners of 4 bfloat16 load as many."""
    for ops in permutations([LOAD, CAST, STORE]):
        found = settled(Q, "\n".join(ops))
        assert texts(found)["q"] == texts(found)["p"] == "S[(8, 4, 16, 4):(4, 16@tx, 1@tx, 1)]"
        (asked,) = (c for c in found.choices if c.candidates)
        sectors = {c.value: (c.cost.sectors, c.cost.instructions) for c in asked.candidates}
        assert sectors["S[(8, 4, 16, 4):(4, 16@tx, 1@tx, 1)]"] == (128 + 256, 32)
        assert sectors["S[(4, 8, 8, 8):(8, 8@tx, 1@tx, 1)]"] == (128 + 512, 24)


def test_of_equals_the_first_in_the_text_decides() -> None:
    """A square by rows or by columns: as much either way."""
    text = """kernel: k
threads: 64
buffers:
  A: {scope: global, dtype: float32, shape: [32, 32]}
  B: {scope: global, dtype: float32, shape: [32, 32], layout: "S[(32, 32):(1, 32)]"}
  a: {scope: register, dtype: float32, shape: [32, 32], layout: auto}
ops:
"""
    rows, columns = "  - copy: {src: A, dst: a}\n", "  - copy: {src: a, dst: B}\n"
    found = [choose_registers(load_plain(text + ops)) for ops in (rows + columns, columns + rows)]
    for one in found:
        first, second = choice_of(one, "a").candidates
        assert first.cost == second.cost and texts(one)["a"] == first.value
    assert texts(found[0]) != texts(found[1])


def aligned_to(bytes_of_y: int, shape: str, dtypes: tuple[str, str]) -> str:
    x, y = dtypes
    return f"""kernel: k
threads: 64
buffers:
  X: {{scope: global, dtype: {x}, shape: {shape}}}
  Y: {{scope: global, dtype: {y}, shape: {shape}, align: {bytes_of_y}}}
  a: {{scope: register, dtype: {x}, shape: {shape}, layout: auto}}
  b: {{scope: register, dtype: {y}, shape: {shape}, layout: auto}}
ops:
  - copy: {{src: X, dst: a}}
  - cast: {{src: a, dst: b}}
  - copy: {{src: b, dst: Y}}
"""


@pytest.mark.sweep(5)
@pytest.mark.parametrize("align", [4, 8, 16])
@pytest.mark.parametrize("dtypes", [("float32", "float32"), ("float16", "float32"), ("float32", "float16")])
@pytest.mark.parametrize("shape", ["[4, 256]", "[32, 24]"])
def test_no_other_candidate_makes_a_cheaper_kernel(align: int, dtypes: tuple[str, str], shape: str) -> None:
    """Each written into the spec, and the whole kernel costed: sectors first, then instructions."""
    text = aligned_to(align, shape, dtypes)
    if dtypes[0] == dtypes[1]:
        text = text.replace("cast:", "copy:")
    found = choose_registers(load_plain(text))
    costs = {}
    for candidates in ([c.value for c in choice.candidates] for choice in found.choices if choice.candidates):
        for layout in candidates:
            written = text.replace("layout: auto", f'layout: "{layout}"')
            ops = tilegen.explain(written)["ops"]
            costs[layout] = tuple(sum(op["cost"][unit] for op in ops) for unit in ("sectors", "instructions"))
    if costs:
        assert costs[texts(found)["a"]] == min(costs.values()), costs
    else:
        elems = 16 // {"float32": 4, "float16": 2}[dtypes[0]], align // {"float32": 4, "float16": 2}[dtypes[1]]
        assert elems[0] == elems[1]  # a thread takes as many of both


def test_a_narrow_store_decides_where_a_wide_load_would_multiply_its_sectors() -> None:
    found = choose_registers(load_plain(aligned_to(4, "[4, 256]", ("float16", "float32"))))
    (chosen,) = (c for c in found.choices if c.candidates)
    best, worst = sorted(c.cost.sectors for c in chosen.candidates)
    assert worst >= 2.5 * best
    assert next(c for c in chosen.candidates if c.verdict == "picked").cost.sectors == best


def test_a_row_that_is_stretched_waits_for_the_tile_that_it_is_stretched_over() -> None:
    ops = "\n".join(['copy: {src: "R[bx]", dst: s}', LOAD, CAST, SCALE, STORE])
    found = settled(Q + "\n" + S, ops)
    assert texts(found)["s"] == "S[(8, 4):(1, 16@tx)] + R[16:1@tx]"


def test_dimensions_that_every_op_indexes_are_copies_of_the_tile() -> None:
    stages = "a: {scope: register, dtype: bfloat16, shape: [3, 32, 64], layout: auto}"
    found = settled(
        stages, 'copy: {src: "X[bx]", dst: p}\ncopy: {src: "X[0]", dst: "a[1]"}\ncopy: {src: p, dst: "a[2]"}'
    )
    layout = found.buffer("a").layout
    one = texts(found)["p"]
    assert texts(found)["a"] == "S[(3, 4, 8, 8, 8):(32, 8, 8@tx, 1@tx, 1)]" and one.endswith("(8, 8@tx, 1@tx, 1)]")
    assert [i.axis for i in layout.shard if i.extent == 3] == ["m"]


def test_views_follow_and_lead() -> None:
    views = (
        Q
        + "\nturned: {view: q, axes: [1, 0]}\n"
        + ('w: {scope: register, dtype: float32, shape: [64, 32], layout: "S[(64,32):(1@tx,1)]"}')
    )
    found = settled(views, "copy: {src: turned, dst: w}\n" + LOAD)
    assert texts(found)["q"] == texts(found)["turned"] == "S[(32, 64):(1, 1@tx)]"
    assert str(found.buffer("turned").layout) == "S[(64, 32):(1@tx, 1)]"


def test_an_instruction_fixes_its_operands_and_what_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """As mma does: here fill asks for the fragment of an accumulator."""
    layout = mma_fragment("m16n8k16", "C")
    asks = lambda call, threads: (fixed(call, "dst", layout, "m16n8k16"),)  # noqa: E731
    monkeypatch.setitem(OPS, "fill", replace(OPS["fill"], flows=asks))
    more = """c: {scope: register, dtype: float32, shape: [16, 8], layout: auto}
    h: {scope: register, dtype: float16, shape: [16, 8], layout: auto}
    H: {scope: global, dtype: float16, shape: [2, 16, 8]}"""
    found = settled(more, "fill: {scope: warp, dst: c, value: 0}\ncast: {scope: warp, src: c, dst: h}\n" + LOAD)
    assert texts(found)["c"] == texts(found)["h"]
    assert holders(found.buffer("h").layout, (16, 8), 32) == holders(layout, (16, 8), 32)
    assert choice_of(found, "c").proof == "what m16n8k16 asks for, the fill at line 13"
    copy = 'copy: {scope: warp, src: "H[bx]", dst: h}'
    both = settled(more, copy + "\nfill: {scope: warp, dst: c, value: 0}\ncast: {scope: warp, src: c, dst: h}\n" + LOAD)
    assert texts(both) == texts(found)
    wrong = more.replace(
        "[16, 8], layout: auto}\n    H", '[16, 8], layout: "S[(16,2,4):(2@laneid,1@laneid,1)]"}\n    H'
    )
    with pytest.raises(SpecError, match=r"TG308: this fill .* and what m16n8k16 asks for, the fill at line 13"):
        settled(wrong, "fill: {scope: warp, dst: c, value: 0}\ncast: {scope: warp, src: c, dst: h}\n" + LOAD)


# ---------------------------------------------------------------- the kernel
@pytest.mark.parametrize("scope", ["cta", "warp", "thread"])
def test_a_pinned_text_builds_the_same_bytes(scope: str, tmp_path) -> None:
    at, rows = {
        "cta": ("bx", 32),
        "warp": ("bx, warpid*16 : +16", 16),
        "thread": ("bx, tx // 2, tx % 2 * 32 : +32", 1),
    }[scope]
    columns = 32 if scope == "thread" else 64
    text = HEAD.replace("[32, 64], layout: auto", f"[{rows}, {columns}], layout: auto")
    text += f"  q: {{scope: register, dtype: float32, shape: [{rows}, {columns}], layout: auto}}\nops:\n"
    for op in (f'copy: {{scope: {scope}, src: "X[{at}]", dst: p}}', f"cast: {{scope: {scope}, src: p, dst: q}}",
               f'copy: {{scope: {scope}, src: q, dst: "Y[{at}]"}}'):  # fmt: skip
        text += f"  - {op}\n"
    path = tmp_path / "k.yaml"
    path.write_text(text)
    built = tilegen.build(path)
    widths = [c.picked["bytes"] for o in built.plan.operations for c in o.choices if c.question == "vector_width"]
    assert widths == ([16, 16] if scope == "thread" else [8, 16])  # bytes of 4 bfloat16 and of 4 floats
    path.write_text(pin(text, built.spec))
    pinned = tilegen.build(path)
    assert pinned.source == built.source and pinned.spec.choices == ()
    assert [c["question"] for c in tilegen.explain(built.spec)["choices"]] == ["layout of p", "layout of q"]


def test_a_vector_is_no_wider_than_memory_allows_every_thread() -> None:
    """Rows of 66 floats, from the third on: they begin at multiples of 8 bytes, so a thread takes two floats."""
    text = spec(Q, 'copy: {src: q, dst: "Y[bx, 0:32, 2:66]"}\n' + CAST)
    found = choose_registers(load_plain(text.replace("float32, shape: [2, 32, 64]}", "float32, shape: [2, 32, 66]}")))
    assert choice_of(found, "q").proof.endswith("8 bytes a thread") and texts(found)["q"].endswith("1@tx, 1)]")
    assert texts(found)["q"] == str(partition_layout(MemoryTile((32, 64), 4), 64, "tx", 2))


def test_a_column_major_array_gives_vectors_along_its_columns() -> None:
    columns = 'bfloat16, shape: [2, 32, 64], layout: "S[(2,32,64):(2048,1,32)]"}'
    found = choose_registers(load_plain(spec("", LOAD).replace("bfloat16, shape: [2, 32, 64]}", columns)))
    assert texts(found)["p"] == str(partition_layout(MemoryTile((32, 64), 2, (1, 0)), 64, "tx"))
    assert choice_of(found, "p").proof.endswith("16 bytes a thread")


def test_threads_share_unevenly_what_they_cannot_divide() -> None:
    """628 is 4 times 157: 128 threads take a vector of four each, and 29 of them another."""
    buffers = {
        "X": {"scope": "global", "dtype": "float32", "shape": [628]},
        "Y": {"scope": "global", "dtype": "float32", "shape": [628]},
        "x": {"scope": "register", "dtype": "float32", "shape": [628], "layout": "auto"},
    }
    ops = [{"copy": {"src": "X", "dst": "x"}}, {"elementwise": {"dst": "Y", "expr": "x + 1"}}]
    built = tilegen.build({"kernel": "k", "threads": 128, "buffers": buffers, "ops": ops})
    assert str(built.spec.buffer("x").layout) == "S[(2, 128, 4):(4, 1@tx, 1)]"
    assert choice_of(built.spec, "x").proof.startswith(
        "copy partition of the copy at ops[0].copy, 16 bytes a thread, shared unevenly"
    )


def test_a_value_of_a_row_follows_from_the_row_that_is_loaded_after_it() -> None:
    """By its own load one thread would own it, and the reduce would want all of them."""
    buffers = {
        "X": {"scope": "global", "dtype": "float32", "shape": [4, 512]},
        "S": {"scope": "global", "dtype": "float32", "shape": [4, 1]},
        "Y": {"scope": "global", "dtype": "float32", "shape": [4, 1]},
        **{name: {"scope": "register", "dtype": "float32", "shape": [1, 1], "layout": "auto"} for name in ("s", "top")},
        "x": {"scope": "register", "dtype": "float32", "shape": [1, 512], "layout": "auto"},
    }
    ops = [
        {"copy": {"src": "S[bx : +1]", "dst": "s"}}, {"copy": {"src": "X[bx : +1]", "dst": "x"}},
        {"reduce": {"src": "x", "dst": "top", "axis": 1, "op": "max"}},
        {"elementwise": {"dst": "Y[bx : +1]", "expr": "top - s"}},
    ]  # fmt: skip
    built = tilegen.build({"kernel": "k", "grid": {"bx": 4}, "threads": 128, "buffers": buffers, "ops": ops})
    assert str(built.spec.buffer("s").layout) == str(built.spec.buffer("top").layout) == "S[1:1] + R[128:1@tx]"


@pytest.mark.slow
def test_rows_that_threads_share_unevenly_are_moved_and_reduced_whole() -> None:
    """Rows of primes, in registers from global memory to shared and back: proved, and no thread reads past an end."""
    for rows, columns, threads in ((1, 257, 128), (3, 257, 64), (2, 781, 96), (7, 61, 32)):
        row = f"bx*{rows} : +{rows}"
        buffers = {
            "X": {"scope": "global", "dtype": "bfloat16", "shape": [2 * rows, columns]},
            "Y": {"scope": "global", "dtype": "float32", "shape": [2 * rows, columns]},
            "s": {"scope": "shared", "dtype": "float32", "shape": [rows, columns]},
            "x": {"scope": "register", "dtype": "float32", "shape": [rows, columns], "layout": "auto"},
            "sum": {"scope": "register", "dtype": "float32", "shape": [rows, 1], "layout": "auto"},
        }
        ops = [
            {"cast": {"src": f"X[{row}]", "dst": "x"}}, {"copy": {"src": "x", "dst": "s"}}, {"sync": "cta"},
            {"fill": {"dst": "x", "value": 0.0}}, {"copy": {"src": "s", "dst": "x"}},
            {"reduce": {"src": "x", "dst": "sum", "axis": 1, "op": "sum"}},
            {"elementwise": {"dst": f"Y[{row}]", "expr": "x * sum"}},
        ]  # fmt: skip
        spec = {"kernel": "k", "grid": {"bx": 2}, "threads": threads, "buffers": buffers, "ops": ops}
        built = tilegen.build(spec)
        layout = built.spec.buffer("x").layout
        assert counted_shape(layout, (rows, columns)) != (rows, columns)
        again = {**buffers, "x": {**buffers["x"], "layout": str(layout)}}  # written out, it is read as it was meant
        assert tilegen.build({**spec, "buffers": again}).spec.buffer("x").counted_shape == counted_shape(
            layout, (rows, columns)
        )


def test_two_registers_that_are_stretched_over_one_tile_meet_in_its_owners() -> None:
    """What the copy of one alone would say is nothing that the tile takes: then the tile decides, for both."""
    buffers = {
        "A": {"scope": "global", "dtype": "float32", "shape": [12, 23]},
        "B": {"scope": "global", "dtype": "float32", "shape": [1, 23]},
        "C": {"scope": "global", "dtype": "float32", "shape": [12, 1]},
        "Y": {"scope": "global", "dtype": "float32", "shape": [12, 23]},
        "row": {"scope": "register", "dtype": "float32", "shape": [1, 23], "layout": "auto"},
        "column": {"scope": "register", "dtype": "float32", "shape": [12, 1], "layout": "auto"},
    }
    copies = [{"copy": {"src": "B", "dst": "row"}}, {"copy": {"src": "C", "dst": "column"}}]
    added = {"elementwise": {"dst": "Y", "expr": "x + row + column", "with": {"x": "A"}}}
    tilegen.build({"kernel": "k", "threads": 96, "buffers": buffers, "ops": [*copies, added]})


@pytest.mark.parametrize(
    ("scope", "layout", "is_had"),
    [
        ("register", "S[(3, 128):(1, 1@tx)]", True),
        ("register", "S[(4, 128):(1, 1@tx)]", False),  # the last step has nothing in it
        ("register", "S[(2, 128):(1, 1@tx)]", False),
        ("shared", "S[(3, 128):(128, 1)]", False),
    ],
)
def test_only_registers_pass_an_end_and_by_less_than_a_step(scope: str, layout: str, is_had: bool) -> None:
    buffers = {
        "X": {"scope": "global", "dtype": "float32", "shape": [257]},
        "x": {"scope": scope, "dtype": "float32", "shape": [257], "layout": layout},
    }
    spec = {"kernel": "k", "threads": 128, "buffers": buffers, "ops": [{"copy": {"src": "X", "dst": "x"}}]}
    if is_had:
        assert tilegen.load(spec).buffer("x").counted_shape == (384,)
        return
    assert [d.code for d in refusal_of(SpecError, tilegen.load, spec).diagnostics] == ["TG202"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3))
def test_the_extents_that_a_layout_counts_are_read_off_it(dims: list[tuple[int, int, int]]) -> None:
    """Each dimension in steps of the iters below, the last of which may not be whole; the shape alone tells them."""
    dims = [(max(n, a * b), a, b) for n, a, b in dims]
    iters = [(-(-n // (a * b)), a, b) for n, a, b in dims]
    layout = TileLayout(tuple(Iter(extent, 1) for row in iters for extent in row))
    assert counted_shape(layout, tuple(n for n, *_ in dims)) == tuple(prod(row) for row in iters)
