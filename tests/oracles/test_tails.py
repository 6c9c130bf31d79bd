"""Vectors at the edge of an array: as wide as inside, and of the last one only what is there."""

from __future__ import annotations

import numpy as np
import pytest

import tilegen
from tests.faults.mutants import plant
from tests.mutants.judging import EVERY, list_survivors
from tests.oracles.kernels import build
from tilegen.dtypes import DTYPES
from tilegen.index import Var, evaluate
from tilegen.planner import plan_spec
from tilegen.proofs.boundary_sizes import _telling_values, find_edges

TILE = 256
OPS = {
    "copy": "copy: {src: XR, dst: YR, edge: clip}",
    "fill": "fill: {dst: YR, value: 3, edge: clip}",
    "cast": "cast: {src: XR, dst: ZR, edge: clip}",
    "elementwise": 'elementwise: {dst: YR, expr: "x + 1", with: {x: XR}, edge: clip}',
    "load": "copy: {src: XR, dst: r, edge: clip}\n  - copy: {src: r, dst: YR, edge: clip}",
    "shared": "copy: {src: XR, dst: s, edge: clip}\n  - sync: cta\n  - copy: {src: s, dst: YR, edge: clip}",
}


def text(op: str, dtype: str = "bfloat16", default: int = 1003, row: int = 0, tile: int = TILE) -> str:
    """One op over tiles of an array whose length the launch knows; ``row``: elements of a row of it, 0 for none."""
    region = f"bx*{tile} : +{tile}" + (f", 0 : +{row}" if row else "")
    shape = f"[N, {row}]" if row else "[N]"
    written = OPS[op]
    for name in "XYZ":
        written = written.replace(f"{name}R", f'"{name}[{region}]"')
    own = {"X": dtype, "Y": dtype, "Z": "float32"}
    used = [(name, t) for name, t in own.items() if f'"{name}[' in written]
    buffers = "".join(f"  {name}: {{scope: global, dtype: {t}, shape: {shape}}}\n" for name, t in used)
    whole = f"[{tile}, {row}]" if row else f"[{tile}]"
    for name, scope in (("r", "register"), ("s", "shared")):
        if f"dst: {name}," in written:
            buffers += f"  {name}: {{scope: {scope}, dtype: {dtype}, shape: {whole}, layout: auto}}\n"
    params = f"params: {{N: {{default: {default}, max: 100000}}}}"
    return f"kernel: k\nthreads: 32\n{params}\ngrid: {{bx: ceil(N / {tile})}}\nbuffers:\n{buffers}ops:\n  - {written}\n"


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "int64"])
@pytest.mark.parametrize("op", OPS)
def test_an_edge_at_any_place_leaves_accesses_as_wide_as_they_are(op, dtype):
    """As many instructions in a CTA as with lengths that vectors divide."""
    if (op, dtype) == ("cast", "uint8"):
        pytest.skip("its floats are four times as long: what is cheapest is another question")
    _, any_length = build(text(op, dtype))
    _, whole = build(text(op, dtype, 1024).replace("max: 100000", "max: 100000, multiple_of: 16"))
    for mine, other in zip(any_length, whole, strict=True):
        wide = [a for a in mine["accesses"] if a["instructions"]]
        assert [a["width_bytes"] for a in wide] == [a["width_bytes"] for a in other["accesses"]]
        assert sum(a["instructions"] for a in wide) == sum(a["instructions"] for a in other["accesses"])


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS)
def test_every_length_is_right(op):
    """Proved for each: what a CTA writes is what the spec means, to the last element."""
    for length in (1, 7, 8, 9, 15, 16, 255, 256, 257, 271):
        built = tilegen.build(text(op, default=length))
        assert built.proof.steps > 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "int64"])
@pytest.mark.parametrize("op", ["copy", "fill", "shared"])
def test_a_launch_of_one_cta_that_an_edge_cuts_has_accesses_as_wide(op, dtype):
    """What is counted then is the CTA with the edge, which says nothing of the others of a longer array."""
    for tile, length in ((1024, 1003), (1024, 1021), (512, 509), (256, 131)):
        _, ops = build(text(op, dtype, length, tile=tile))
        assert {max(a["width_bytes"] for a in o["accesses"] if a["instructions"]) for o in ops} == {16}, (tile, length)


def test_what_an_edge_cuts_off_both_sides_does_not_wait_for_the_vectors():
    """It goes from array to array between the loads of vectors and their stores, through no register of theirs."""
    built, _ = build(text("copy", "float32", tile=1024))
    load, cut, store = (built.source.index(t) for t in ("&regs[i", "= X[", "&Y["))
    assert load < cut < store and "regs[i * 4 + e]" not in built.source
    two = text("copy", "float32", tile=1024).replace("{N:", "{M: {default: 990, max: 100000}, N:")
    x = "  X: {scope: global, dtype: float32, shape: [N]}"
    built, _ = build(two.replace(x, x.replace("[N]", "[M]")))
    assert "regs[i * 4 + e]" in built.source  # of arrays that end at other places each edge is its own


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("dtype", "row"), [("uint8", 33), ("float16", 3), ("float32", 33), ("int64", 5)])
def test_rows_that_both_sides_keep_together_are_one_run(dtype, row):
    """A row ends anywhere in a vector, and the array does too."""
    built, (op,) = build(text("copy", dtype, 101, row, 16))
    elems = 16 // DTYPES[dtype].bytes
    assert {a["width_bytes"] for a in op["accesses"] if a["instructions"]} == {16}
    assert sum(a["instructions"] for a in op["accesses"]) == 2 * -(-16 * row // elems // 32)
    assert f"/ {row}" not in built.source and f"% {row}" not in built.source


RUNTIME = {
    "rows by 8": ("[N, 5]", "bx*32 : +32, 0 : +5", "int64", 24, 8, "copy"),
    "rows by 8, filled": ("[N, 8, 48]", "bx*5 : +5, 0 : +8, 0 : +48", "bool", 32, 8, "fill"),
    "rows by 4": ("[N, 3]", "bx*16 : +16, 0 : +3", "float32", 40, 4, "copy"),
    "rows of a matrix in a batch": ("[7, N, 6]", "3, bx*16 : +16, 0 : +6", "float16", 33, 1, "copy"),
    "columns known at the launch": ("[5, N]", "0 : +5, bx*16 : +16", "float32", 33, 1, "copy"),
}


@pytest.mark.parametrize("what", RUNTIME)
def test_runs_of_any_length_are_proved(what):
    """What a promise of multiples leaves unguarded, and where rows have a length that the launch alone knows."""
    shape, region, dtype, default, step, op = RUNTIME[what]
    tile = int(region.split("bx*")[1].split()[0])
    said = f'copy: {{src: "X[{region}]", dst: "Y[{region}]", edge: clip}}'
    said = f'fill: {{dst: "Y[{region}]", value: 1, edge: clip}}' if op == "fill" else said
    source = f"  X: {{scope: global, dtype: {dtype}, shape: {shape}}}\n" if op == "copy" else ""
    built = tilegen.build(
        f"kernel: k\nthreads: 32\nparams: {{N: {{default: {default}, max: 4096, multiple_of: {step}}}}}\n"
        f"grid: {{bx: ceil(N / {tile})}}\nbuffers:\n{source}"
        f"  Y: {{scope: global, dtype: {dtype}, shape: {shape}, partial: true}}\nops:\n  - {said}\n"
    )
    assert len(built.proof.runs) > 1


@pytest.mark.parametrize(("shape", "most"), [([32, 33], 20), ([7, 5, 3], 8), ([1056], 18)])
def test_a_copy_sees_memory_and_no_shape(shape, most):
    spec = f"""kernel: k
threads: 32
buffers:
  X: {{scope: global, dtype: float32, shape: {shape}}}
  Y: {{scope: global, dtype: float32, shape: {shape}}}
ops: [copy: {{src: X, dst: Y}}]
"""
    built, (op,) = build(spec)
    assert sum(a["instructions"] for a in op["accesses"]) <= most
    body = built.source.split("__device__", 1)[-1]
    assert "/" not in body.replace("//", "") and "%" not in body


SIZES = {
    "a product": ({"N": "default: 11, max: 4096", "M": "default: 13, max: 4096"}, "N * M", "bfloat16", 64),
    "a half": ({"N": "default: 101, max: 4096"}, "N // 2 + 1", "bfloat16", 64),
    "a third, rounded up": ({"N": "default: 101, max: 4096"}, "ceil(N / 3)", "uint8", 128),
    "a small one": ({"N": "default: 11, max: 31"}, "N", "uint8", 64),
    "less than a tile": ({"N": "default: 101, max: 100000"}, "N", "bfloat16", 2048),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("what", SIZES)
@pytest.mark.parametrize("every", EVERY)
def test_mutants_are_found_whatever_the_length_is_of(what, every):
    """Products, parts and small lengths: each puts the edge at places of its own."""
    params, length, dtype, tile = SIZES[what]
    said = ", ".join(f"{name}: {{{terms}}}" for name, terms in params.items())
    region = f"bx*{tile} : +{tile}"
    spec = tilegen.load(
        f"kernel: k\nthreads: 32\nparams: {{{said}}}\ngrid: {{bx: ceil(({length}) / {tile})}}\nbuffers:\n"
        f"  X: {{scope: global, dtype: {dtype}, shape: [{length}]}}\n"
        f"  Y: {{scope: global, dtype: {dtype}, shape: [{length}]}}\n"
        f'ops:\n  - copy: {{src: "X[{region}]", dst: "Y[{region}]", edge: clip, width: {16 // DTYPES[dtype].bytes}}}\n'
    )
    plan = plan_spec(spec)
    assert list_survivors(spec, plan, list(plant(plan))[::every]) == []


@pytest.mark.sweep(1)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("op", "row"), [*((op, 0) for op in OPS), ("copy", 33)])
@pytest.mark.parametrize("every", EVERY)
def test_mutants_of_a_tail_are_found(op, row, every):
    """A condition that is off by one is wrong at one length of 8 or 16: proofs try as many in a row."""
    spec = tilegen.load(text(op, "uint8" if row else "bfloat16", 101 if row else 1003, row, 16 if row else TILE))
    plan = plan_spec(spec)
    mutants = list(plant(plan))
    assert {"guard tightened", "condition flipped", "trip dropped"} <= {m.kind for m in mutants}
    assert list_survivors(spec, plan, mutants[::every]) == []


def test_the_places_of_vectors_are_what_an_end_is_compared_with():
    tx, i, n = Var("tx", 32), Var("i", 4), Var("n", 1 << 20)
    assert [e.apart for e in find_edges(n, i * 256 + tx * 8 + 7 < n)] == [8]
    assert [(str(e.end), e.apart) for e in find_edges(n, i * 512 + tx * 16 + 15 < n * 33)] == [("n * 33", 16)]
    assert [str(e.end) for e in find_edges(n, n // 2 + 1 < tx * 8 + 8)] == ["n >> 1"]
    assert not list(find_edges(n, tx < n))


def test_conditions_on_tiles_turn_where_the_end_passes_a_tile():
    """Whatever is compared: one size just before the turn and one just behind it, also of sizes that go in steps."""
    k = Var("k", 40)
    for step in (1, 8):
        n = Var("n", 5000, step=step)
        for offset in (-8, -1, 0, 1, 8):
            for condition in (k * 128 + 128 + offset < n + 1, n < k * 128 + 128 + offset):
                (edge,) = find_edges(n, condition)
                values = np.arange(step, 5000, step)
                told = set(_telling_values(n, edge, values))
                holds = {v: bool(evaluate(condition, {"n": v, "k": 1})) for v in values.tolist()}
                turn = next(v for v in holds if holds[v] != holds[step])
                assert {v % 128 for v in told} == {turn % 128, (turn - step) % 128}
