"""Gathers: what they mean beside NumPy, where an index may lie, and faults in places, guards, copies and syncs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.proofs.test_scatter import carry_out, change_steps, kernels, refused
from tilegen import pipeline
from tilegen.errors import ProofError
from tilegen.index import Formula, Index, Var, add, conjuncts, every, less
from tilegen.ops import ALL_OPS
from tilegen.pipeline import kernels_of
from tilegen.plan import Let, Move, Pick, Step, When
from tilegen.proofs import prove
from tilegen.proofs.run_integers import find_run
from tilegen.spec import load

SPECS = Path(__file__).parents[2] / "specs"
Array = np.ndarray[Any, Any]


# ---------------------------------------------------------------- what they mean
@pytest.mark.parametrize("blocks", [1, 70])
def test_codes_become_the_numbers_of_the_book(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    codes = rng.integers(0, 256, (blocks, 32, 1), np.uint8)
    scales, book = rng.normal(size=(blocks, 1, 1)).astype("f4"), rng.integers(-8, 8, 16).astype("f4")
    given = {"codes": codes, "scales": np.exp2(np.rint(scales)), "book": book}
    (built,) = kernels("dequantize_nf4", B=blocks)
    found = carry_out((built,), given | {"W": np.zeros((blocks, 32, 2), _bfloat16())})["W"]
    want = book[np.concatenate([codes >> 4, codes & 15], axis=2)] * given["scales"]
    assert np.array_equal(found.astype("f4"), want)


def _bfloat16() -> Any:
    import ml_dtypes

    return ml_dtypes.bfloat16


@pytest.mark.parametrize("rows, columns", [(1, 8), (6, 1104)])
def test_columns_are_taken_in_their_order(rows: int, columns: int) -> None:
    rng = np.random.default_rng(columns)
    x, order = rng.normal(size=(rows, columns)).astype("f2"), rng.integers(0, columns, columns, np.int32)
    given = {"X": x, "order": order, "Y": np.zeros_like(x)}
    found = carry_out(kernels("permute_columns", M=rows, K=columns), given)
    assert np.array_equal(found["Y"], x[:, order])


# src, index, dst, axis: the rules of shapes, one dimension, as many dimensions, along the axis, stretched
SHAPES = [
    ((40,), (64,), (64,), None), ((40,), (8, 16), (8, 16), None), ((40,), (16,), (8, 16), None),
    ((40,), (8, 1), (8, 16), 0), ((12, 32), (32, 32), (32, 32), 0), ((12, 32), (32, 1), (32, 32), 0),
    ((12, 32), (32,), (32, 32), 0), ((8, 24), (32,), (8, 32), 1), ((8, 24), (8, 32), (8, 32), 1),
    ((8, 24), (8, 1), (8, 1), 1), ((1, 24), (8, 32), (8, 32), 1), ((2, 6, 8), (2, 16, 8), (2, 16, 8), 1),
    ((2, 6, 8), (16,), (2, 16, 8), 1), ((6, 4, 8), (1, 4, 8), (1, 4, 8), 0),
]  # fmt: skip


def write_gather(
    src: tuple[int, ...], index: tuple[int, ...], dst: tuple[int, ...], axis: int | None, kinds: str
) -> str:
    """A gather of these shapes: each of src, index and dst in (g)lobal memory, in (s)hared memory or in (r)egisters."""
    spaces = {"s": "shared", "r": "register"}
    names = [("X", "float32", src, kinds[0]), ("I", "int32", index, kinds[1]), ("Y", "float32", dst, kinds[2])]
    buffers = [f"  {n}: {{scope: global, dtype: {t}, shape: {list(s)}}}" for n, t, s, _ in names]
    near = [(n, t, s, kind) for n, t, s, kind in names if kind != "g"]
    buffers += [
        f"  {n.lower()}: {{scope: {spaces[k]}, dtype: {t}, shape: {list(s)}, layout: auto}}" for n, t, s, k in near
    ]
    own = {n: n.lower() if k != "g" else n for n, _, _, k in names}
    ops = [f"  - copy: {{src: {n}, dst: {n.lower()}}}" for n, *_ in near if n != "Y"]
    along = "" if axis is None else f", axis: {axis}"
    ops += ["  - sync: cta"] if "s" in kinds[:2] else []
    ops += [f"  - gather: {{src: {own['X']}, index: {own['I']}, dst: {own['Y']}, edge: clip{along}}}"]
    ops += ["  - sync: cta"] if kinds[2] == "s" else []
    ops += ["  - copy: {src: y, dst: Y}"] if kinds[2] != "g" else []
    return "\n".join(["kernel: k", "arch: sm_80", "threads: 64", "buffers:", *buffers, "ops:", *ops, ""])


def take(x: Array, index: Array, shape: tuple[int, ...], axis: int | None) -> Array:
    """What a gather means, by NumPy: 0 where an index names no place."""
    if x.ndim == 1:
        own = np.broadcast_to(index, shape)
        return np.where((own >= 0) & (own < len(x)), x[np.clip(own, 0, len(x) - 1)], 0)
    assert axis is not None
    own = index.reshape([-1 if d == axis else 1 for d in range(x.ndim)]) if index.ndim == 1 else index
    beside = tuple(x.shape[d] if d == axis else n for d, n in enumerate(shape))
    wide, own = np.broadcast_to(x, beside), np.broadcast_to(own, shape)
    n = x.shape[axis]
    return np.where((own >= 0) & (own < n), np.take_along_axis(wide, np.clip(own, 0, n - 1), axis), 0)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("kinds", ["ggg", "sgr", "srs", "gsg", "sgg", "ssr"])
@pytest.mark.parametrize("src, index, dst, axis", SHAPES)
def test_a_gather_is_take_along_axis(
    src: tuple[int, ...], index: tuple[int, ...], dst: tuple[int, ...], axis: int | None, kinds: str
) -> None:
    if kinds[1] == "r" and index != dst:
        kinds = kinds.replace("r", "s", 1)  # registers that are stretched have their owners of nobody
    rng = np.random.default_rng(len(src) * 100 + len(index))
    x = rng.normal(size=src).astype("f4")
    i = rng.integers(-3, src[axis or 0] + 3, index, np.int32)
    built = kernels_of(pipeline.build(write_gather(src, index, dst, axis, kinds)))
    found = carry_out(built, {"X": x, "I": i, "Y": np.full(dst, 7, "f4")})
    assert np.array_equal(found["Y"], take(x, i, dst, axis))


def test_what_is_read_by_what_was_read_is_run_on_the_way() -> None:
    """An index out of a table that an index names: both tables are run, and what they name is hashed."""
    text = (
        "kernel: k\narch: sm_80\nthreads: 64\nbuffers:\n"
        "  I: {scope: global, dtype: uint8, shape: [64]}\n"
        '  T: {scope: global, dtype: int32, shape: [256], values: "0 : 40"}\n'
        "  X: {scope: global, dtype: float32, shape: [40]}\n  Y: {scope: global, dtype: float32, shape: [64]}\n"
        "  i: {scope: register, dtype: int32, shape: [64], layout: auto}\nops:\n"
        "  - gather: {src: T, index: I, dst: i}\n  - gather: {src: X, index: i, dst: Y}\n"
    )
    assert find_run(load(text, ALL_OPS)) == {"I", "T", "i"}
    pipeline.build(text)
    with pytest.raises(ProofError) as found:
        pipeline.build(text.replace("0 : 40", "0 : 41"))
    assert [d.code for d in found.value.diagnostics] == ["TG414"]
    assert "'edge: clip'" in str(found.value)


@pytest.mark.parametrize("index, is_inside", [
    ("I & 15", True), ("I & 31", False), ("I % 16", True), ("(I >> 4) & 15", True), ("min(I, 15)", True),
    ("min(I, 16)", False), ("where(I < 16, I, 0)", True), ("I", False),
])  # fmt: skip
def test_an_index_without_clip_lies_in_src_by_what_computes_it(index: str, is_inside: bool) -> None:
    text = (
        write_gather((16,), (64,), (64,), None, "ggg")
        .replace("index: I", f'index: "{index}"')
        .replace(", edge: clip", "")
    )
    text = text.replace("I: {scope: global, dtype: int32", "I: {scope: global, dtype: uint8")
    if is_inside:
        built = pipeline.build(text)
        assert "at <" not in built.source
        return
    with pytest.raises(ProofError) as found:
        pipeline.build(text)
    assert {d.code for d in found.value.diagnostics} == {"TG414"}


def test_a_guard_is_left_out_for_types_and_never_for_promises() -> None:
    """A false promise gives 0 where an op clips: nothing that it says removes the test."""
    text = write_gather((16,), (64,), (64,), None, "ggg").replace("shape: [64]", 'shape: [64], values: "0 : 16"', 1)
    assert "(unsigned)at < 16u" in pipeline.build(text).source
    assert "at <" not in pipeline.build(text.replace("index: I", 'index: "I & 15"')).source


@pytest.mark.parametrize("edge, index, says", [
    ("", "I", ("op 1 at X",)), (", edge: clip", "I", ()), ("", '"I & 15"', ()),
])  # fmt: skip
def test_a_promise_is_rested_on_where_neither_a_clip_nor_types_keep_an_index_inside(
    edge: str, index: str, says: tuple[str, ...]
) -> None:
    text = (
        write_gather((16,), (64,), (64,), None, "ggg")
        .replace(", edge: clip", edge)
        .replace("index: I", f"index: {index}")
    )
    (built,) = kernels_of(pipeline.build(text.replace("shape: [64]", 'shape: [64], values: "0 : 16"', 1)))
    assert (built.plan.trust.undefined, built.plan.trust.dropped, built.plan.trust.elsewhere) == (says, (), ())


# ---------------------------------------------------------------- rows
@pytest.mark.parametrize("dtype, columns, access", [
    ("float32", 64, "float4"), ("float16", 64, "uint4"), ("float16", 36, "uint2"), ("float32", 33, ""),
    ("float64", 64, "double2"), ("uint8", 8, "uint2"),
])  # fmt: skip
@pytest.mark.parametrize("is_computed", [False, True])
def test_rows_are_read_in_vectors_and_their_indices_once(
    dtype: str, columns: int, access: str, is_computed: bool
) -> None:
    index = '"i // 2 + 0"' if is_computed else "i"
    text = (
        "kernel: k\narch: sm_80\nthreads: 64\ngrid: {bx: 3}\nbuffers:\n"
        f"  X: {{scope: global, dtype: {dtype}, shape: [40, {columns}]}}\n"
        '  I: {scope: global, dtype: int32, shape: [3, 32, 1], values: "0 : 40"}\n'
        f"  Y: {{scope: global, dtype: {dtype}, shape: [3, 32, {columns}]}}\nops:\n"
        f'  - gather: {{src: X, index: {index}, with: {{i: "I[bx]"}}, dst: "Y[bx]", axis: 0}}\n'
    )
    (built,) = kernels_of(pipeline.build(text))
    (load,) = {line.strip() for line in built.source.splitlines() if "X[at" in line}
    assert f"(const {access} *)&X[" in load if access else "*)&X[" not in load
    rng = np.random.default_rng(columns)
    x = rng.integers(0, 200, (40, columns)).astype(np.dtype(dtype))
    i = rng.integers(0, 40, (3, 32, 1), np.int32)
    found = carry_out((built,), {"X": x, "I": i, "Y": np.zeros((3, 32, columns), x.dtype)})
    assert np.array_equal(found["Y"], x[(i // 2 if is_computed else i)[..., 0]])


def test_a_row_that_one_index_names_in_part_is_read_in_shorter_vectors() -> None:
    """Two columns have one index, as its expression says of the column: so has no wider access."""
    text = write_gather((40, 64), (64, 64), (64, 64), 0, "ggg").replace("edge: clip, ", "")
    text = text.replace("index: I", 'index: "index(0) % 20 + index(1) // 2 % 4"').replace(", edge: clip", "")
    text = text.replace("  I: {scope: global, dtype: int32, shape: [64, 64]}\n", "")
    (built,) = kernels_of(pipeline.build(text))
    assert "float2" in built.source
    x = np.random.default_rng(1).normal(size=(40, 64)).astype("f4")
    found = carry_out((built,), {"X": x, "Y": np.zeros((64, 64), "f4")})
    rows, columns = np.arange(64)[:, None], np.arange(64)[None]
    assert np.array_equal(found["Y"], x[rows % 20 + columns // 2 % 4, columns])


# ---------------------------------------------------------------- faults in plans
def off_by_one(step: Step) -> Step:
    """The place before the one that is named, but for the first."""
    return _move_place(step, lambda at: at // 2 * 2)


def of_another_row(step: Step) -> Step:
    if isinstance(step, Move) and _names_pick(step) and len(step.src.at) > 1:
        return replace(step, src=step.src.memory[(0, *step.src.at[1:])])
    return step


def along_another_axis(step: Step) -> Step:
    """The index counts in rows, and the element of the row is that of the row."""
    if isinstance(step, Move) and _names_pick(step) and len(step.src.at) > 1:
        return replace(step, src=step.src.memory[tuple(reversed(step.src.at))])
    return step


def _move_place(step: Step, change: Callable[[Var], Index]) -> Step:
    if not isinstance(step, Move) or not _names_pick(step):
        return step
    at = tuple(change(x) if isinstance(x, Var) and x.name == "at" else x for x in step.src.at)
    return replace(step, src=step.src.memory[at])


def _names_pick(move: Move) -> bool:
    return any("at" in {v.name for v in _variables(x)} for x in move.src.at)


def _variables(x: Index) -> list[Var]:
    if isinstance(x, Var):
        return [x]
    return [v for arg in x.args for v in _variables(arg)] if isinstance(x, Formula) else []


def without_clip(step: Step) -> Step:
    return replace(step, valid=True) if isinstance(step, Move) and _names_pick(step) else step


def clip_one_too_far(step: Step) -> Step:
    return _move_clip(step, 1)


def clip_one_too_near(step: Step) -> Step:
    return _move_clip(step, -1)


def _move_clip(step: Step, by: int) -> Step:
    def move(c: Index) -> Index:
        var = c.args[0] if isinstance(c, Formula) and c.symbol == "<" else None
        is_end = isinstance(c, Formula) and isinstance(var, Var) and var.name == "at"
        return less(var, add(c.args[1], by)) if is_end else c  # type: ignore[arg-type, union-attr]

    if isinstance(step, Move) and _names_pick(step):
        return replace(step, valid=every(*map(move, conjuncts(step.valid))))
    return step


def of_another_element(step: Step) -> Step:
    """The integer of a register beside it."""
    if not isinstance(step, Pick):
        return step
    (at,) = step.src.at
    return replace(step, src=step.src.memory[at // 2 * 2 if isinstance(at, (Var, Formula)) else 0])


def by_a_name(step: Step) -> Step | tuple[Step, ...]:
    """The integer by another name, which nobody looks at for all that it may be."""
    if not isinstance(step, Move) or not _names_pick(step):
        return step
    (at,) = {v for x in step.src.at for v in _variables(x) if v.name == "at"}
    other = replace(at, name="place_of_it")
    places = tuple(other if x == at else x for x in step.src.at)
    return Let(other, at), replace(step, src=step.src.memory[places])


def by_copies_of_the_first(step: Step) -> Step:
    """Lanes that hold copies leave them as they were."""
    if isinstance(step, Move) and _names_pick(step):
        return When(less(Var("laneid", 32), 16), (step,))
    return step


_NEAR = write_gather((16,), (64,), (64,), None, "sgr")
_INSIDE = _NEAR.replace("I: {scope: global, dtype: int32", "I: {scope: global, dtype: uint8").replace(
    "index: I", 'index: "I & 15"'
)
_ROWS = write_gather((8, 24), (8, 32), (8, 32), 1, "ggg")
_SQUARE = write_gather((32, 32), (32, 32), (32, 32), 1, "ggg")
_COPIES = (
    "kernel: k\narch: sm_80\nthreads: 32\nbuffers:\n  X: {scope: global, dtype: float32, shape: [16]}\n"
    "  I: {scope: global, dtype: int32, shape: [16]}\n  Y: {scope: global, dtype: float32, shape: [2, 16]}\n"
    '  i: {scope: register, dtype: int32, shape: [16], layout: "S[16:1@laneid] + R[2:16@laneid]"}\n'
    '  y: {scope: register, dtype: float32, shape: [16], layout: "S[16:1@laneid] + R[2:16@laneid]"}\n'
    '  z: {scope: register, dtype: float32, shape: [2, 16], layout: "S[(2,16):(16@laneid,1@laneid)]"}\n'
    "ops:\n  - copy: {scope: warp, src: I, dst: i}\n  - gather: {scope: warp, src: X, index: i, dst: y, edge: clip}\n"
    '  - elementwise: {scope: warp, dst: z, expr: "y"}\n  - copy: {scope: warp, src: z, dst: Y}\n'
)
PLAN_FAULTS: dict[str, tuple[str, Callable[[Step], Step | tuple[Step, ...]], set[str]]] = {
    "the place before": (_NEAR, off_by_one, {"TG420"}),
    "the place before, in a row of an array": (_ROWS, off_by_one, {"TG420"}),
    "the clip dropped": (_NEAR, without_clip, {"TG414"}),
    "the clip dropped, of an array": (_ROWS, without_clip, {"TG414"}),
    "the clip one too far": (_NEAR, clip_one_too_far, {"TG414"}),
    "the clip one too far, of an array": (_ROWS, clip_one_too_far, {"TG414"}),
    "the clip one too near": (_NEAR, clip_one_too_near, {"TG420"}),
    "another row": (_ROWS, of_another_row, {"TG420"}),
    "another axis": (_SQUARE, along_another_axis, {"TG420"}),
    "the index of another element": (_SQUARE, of_another_element, {"TG420"}),
    "an index by another name": (_INSIDE, by_a_name, {"TG412"}),
    "copies of half of the lanes": (_COPIES, by_copies_of_the_first, {"TG404"}),
}


def test_copies_get_what_the_first_gets() -> None:
    pipeline.build(_COPIES)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("fault", PLAN_FAULTS)
def test_faults_of_gathers_are_found(fault: str) -> None:
    text, change, codes = PLAN_FAULTS[fault]
    (built,) = kernels_of(pipeline.build(text))
    plan = change_steps(built.plan, change, "gather")
    assert plan != built.plan
    with pytest.raises(ProofError) as found:
        prove(built.spec, plan)
    assert {d.code for d in found.value.diagnostics} & codes


# ---------------------------------------------------------------- faults in specs
SPEC_FAULTS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "no sync between book and gather": ("TG403", (("  - sync: cta\n", ""),)),
    "a sync of warps between them": ("TG403", (("  - sync: cta\n", "  - sync: warp\n"),)),
    "the last entry of the book is not there": ("TG404", (
        ("src: book, dst: near", 'src: "book[0 : +15]", dst: "near[0 : +15]"'),
    )),
    "a book of 15 for 16 codes": ("TG414", (
        ("near: {scope: shared, dtype: float32, shape: [16]}", "near: {scope: shared, dtype: float32, shape: [15]}"),
        ("src: book, dst: near", 'src: "book[0 : +15]", dst: near'),
        ("dst: w, edge: clip}", "dst: w}"),
        ("params: {B: {default: 300, max: 134217728}}", "params: {B: 128}"),
    )),
}  # fmt: skip


@pytest.mark.parametrize("fault", SPEC_FAULTS)
def test_faults_in_specs_of_gathers_are_found(fault: str) -> None:
    code, pairs = SPEC_FAULTS[fault]
    assert code in refused("dequantize_nf4", *pairs)


def test_what_a_gather_may_read_is_written_after_a_sync() -> None:
    """The book is filled anew: whatever the codes of this run were, another may name what is overwritten."""
    text = write_gather((64,), (64,), (64,), None, "sgg").replace(", edge: clip", "")
    text = text.replace(
        "I: {scope: global, dtype: int32, shape: [64]", 'I: {scope: global, dtype: int32, shape: [64], values: "0 : 64"'
    )
    more = "  - sync: cta\n  - fill: {dst: x, value: 0}\n"
    pipeline.build(text + more)
    with pytest.raises(ProofError) as found:
        pipeline.build(text + more.replace("  - sync: cta\n", ""))
    assert {d.code for d in found.value.diagnostics} == {"TG403"}


_FILLED = (
    "kernel: filled\narch: sm_90\nthreads: 64\nbuffers:\n  X: {scope: global, dtype: float32, shape: [4, 64]}\n"
    '  I: {scope: global, dtype: int32, shape: [4, 64], values: "0 : 64"}\n'
    "  Y: {scope: global, dtype: float32, shape: [4, 64]}\n  s: {scope: shared, dtype: float32, shape: [2, 64]}\n"
    "ops:\n  - for: {k: 4}\n    do:\n"
)
_GATHERED = '      - gather: {src: "s[k % 2]", index: "I[k]", dst: "Y[k]"}\n'
_BY_COPIES = '      - copy: {src: "X[k]", dst: "s[k % 2]"}\n      - sync: cta\n' + _GATHERED
_BY_CP_ASYNC = (
    '      - copy: {src: "X[k]", dst: "s[k % 2]", async: true}\n      - commit\n      - wait: 0\n      - sync: cta\n'
) + _GATHERED
_BY_TMA = (
    '      - copy: {src: "X[k]", dst: "s[k % 2]", variant: tma, barrier: "full[k % 2]"}\n'
    '      - wait: {barrier: "full[k % 2]"}\n'
) + _GATHERED + "      - sync: cta\n"  # fmt: skip
FILLED: dict[str, tuple[str, tuple[str, str], str]] = {
    "one slot for two, by copies": (_BY_COPIES, ("k % 2", "0"), "TG403"),
    "the slot of the trip before, by copies": (_BY_COPIES, ('src: "s[k % 2]"', 'src: "s[(k + 1) % 2]"'), "TG404"),
    "cp.async without its wait": (_BY_CP_ASYNC, ("      - wait: 0\n", ""), "TG422"),
    "cp.async without the sync": (_BY_CP_ASYNC, ("      - sync: cta\n", ""), "TG403"),
    "TMA without its wait": (_BY_TMA, ('      - wait: {barrier: "full[k % 2]"}\n', ""), "TG422"),
    "TMA fills what is still read": (_BY_TMA, ("      - sync: cta\n", ""), "TG403"),
}  # fmt: skip


@pytest.mark.sweep(3)
@pytest.mark.parametrize("fault", FILLED)
def test_what_is_gathered_from_is_filled_before_and_left_until_then(fault: str) -> None:
    body, (old, new), code = FILLED[fault]
    pipeline.build(_FILLED + body)
    with pytest.raises(ProofError) as found:
        pipeline.build(_FILLED + body.replace(old, new))
    assert code in {d.code for d in found.value.diagnostics}


def test_an_entry_that_no_code_of_a_run_names_is_looked_at() -> None:
    """One number in a million is the last: contents that are drawn need not meet it, and the proof does."""
    text = (
        "kernel: k\narch: sm_80\nthreads: 64\nbuffers:\n"
        '  I: {scope: global, dtype: int32, shape: [8], values: "0 : 4000"}\n'
        "  X: {scope: global, dtype: float32, shape: [4000]}\n  Y: {scope: global, dtype: float32, shape: [8]}\n"
        "  x: {scope: shared, dtype: float32, shape: [4000]}\n"
        "  i: {scope: register, dtype: int32, shape: [8], layout: auto}\n"
        '  j: {scope: register, dtype: int32, shape: [8], layout: auto, values: "0 : 4000"}\n'
        'ops:\n  - copy: {src: "X[0 : +2001]", dst: "x[0 : +2001]"}\n'
        '  - copy: {src: "X[2002 : +1998]", dst: "x[2002 : +1998]"}\n'
        "  - sync: cta\n  - copy: {src: I, dst: i}\n"
        '  - elementwise: {dst: j, expr: "where(i == 1777, 2001, max(i - i % 2000, 0))"}\n'
        "  - gather: {src: x, index: j, dst: Y}\n"
    )
    with pytest.raises(ProofError) as found:
        pipeline.build(text)
    assert {d.code for d in found.value.diagnostics} == {"TG404"} and "element 2001" in str(found.value)


def test_an_array_that_is_written_is_no_source_of_unknown_extent() -> None:
    text = (
        "kernel: k\narch: sm_80\nthreads: 64\ngrid: {bx: N // 64}\n"
        "params: {N: {default: 64, max: 4096, multiple_of: 64}}\n"
        'buffers:\n  I: {scope: global, dtype: int32, shape: [N], values: "0 : N"}\n'
        "  X: {scope: global, dtype: float32, shape: [N]}\n  Y: {scope: global, dtype: float32, shape: [N]}\nops:\n"
        '  - fill: {dst: "X[bx*64 : +64]", value: 0}\n  - sync: cta\n'
        '  - gather: {src: X, index: "I[bx*64 : +64]", dst: "Y[bx*64 : +64]", edge: clip}\n'
    )
    with pytest.raises(ProofError) as found:
        pipeline.build(text)
    assert {d.code for d in found.value.diagnostics} == {"TG441"}
