"""row_vectors: rows of a global array that begin at any element, in whole vectors, to the last element."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from text.run import requires_runner, run_text

import tilegen
from tests.faults.mutants import plant
from tests.mutants.judging import EVERY, list_survivors
from tests.oracles.kernels import build, choice
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.errors import SpecError
from tilegen.planner import plan_spec


def stores(
    dtype: str, shape: tuple[int, int], box: tuple[int, int], threads: int = 64, more: str = ", variant: row_vectors",
    tile: str = "row",
) -> str:  # fmt: skip
    """Boxes of X through shared memory to the same places of Y, the stores as ``more`` says."""
    (rows, columns), (high, wide) = shape, box
    region = f"by*{high} : +{high}, bx*{wide} : +{wide}"
    return f"""kernel: k
threads: {threads}
grid: {{bx: {-(-columns // wide)}, by: {-(-rows // high)}}}
buffers:
  X: {{scope: global, dtype: {dtype}, shape: [{rows}, {columns}]}}
  Y: {{scope: global, dtype: {dtype}, shape: [{rows}, {columns}]}}
  t: {{scope: shared, dtype: {dtype}, shape: [{high}, {wide}], layout: "{tile}"}}
ops:
  - copy: {{src: "X[{region}]", dst: t, edge: clip}}
  - sync: cta
  - copy: {{src: t, dst: "Y[{region}]", edge: clip{more}}}
"""


def loads(dtype: str, rows: int, columns: int, first: int) -> str:
    """The columns of X from the first on by shared memory to Y."""
    arrays = "".join(
        f"  {name}: {{scope: {scope}, dtype: {dtype}, shape: [{rows}, {wide}]}}\n"
        for name, scope, wide in (
            ("X", "global", columns), ("Y", "global", columns - first), ("t", "shared", columns - first),
        )
    )  # fmt: skip
    ops = f'  - copy: {{src: "X[:, {first}:]", dst: t, variant: row_vectors}}\n'
    ops += "  - sync: cta\n  - copy: {src: t, dst: Y}\n"
    return f"kernel: k\nthreads: 64\nbuffers:\n{arrays}ops:\n{ops}"


def drawn() -> list[Any]:
    """Boxes of any size in arrays of any pitch."""
    pick, cases = random.Random(20261128), []
    for n in range(40):
        dtype = pick.choice(["int8", "bool", "float16", "bfloat16", "uint16"])
        shape = pick.randrange(1, 60), pick.randrange(33, 300)
        box = pick.choice([1, 2, 7, 16, 32]), pick.choice([16, 31, 32, 37, 64, 128])
        tile = pick.choice(["row", "row", f"S[({box[0]},{box[1]}):(1,{box[0]})]"])
        cases.append(pytest.param(dtype, shape, box, pick.choice([32, 64, 96]), tile, id=f"{n}-{dtype}-{shape}-{box}"))
    return cases


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("dtype", "shape", "box", "threads", "tile"), drawn())
def test_rows_at_any_place_are_exact(dtype, shape, box, threads, tile):
    """The proofs compare every element; what is refused has rows at whole words, or short ones."""
    try:
        built = tilegen.build(stores(dtype, shape, box, threads, tile=tile))
    except SpecError as error:
        assert "whole words" in str(error) or "too few vectors" in str(error)
        return
    assert built.manifest["ops"][1]["variant"] == "row_vectors"


def test_a_row_whose_head_is_the_number_of_its_cta_is_moved() -> None:
    """The CTAs of a row begin at bx * 31, in pairs of elements: bx % 2 is bx, which the region's begin has 31 times."""
    _, (_, op) = build(stores("uint16", (5, 52), (1, 31)))
    assert op["variant"] == "row_vectors"


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("dtype", "rows", "columns", "first"), [("int8", 9, 131, 1), ("float16", 5, 77, 3)])
def test_loads_of_rows_are_exact(dtype, rows, columns, first):
    _, ops = build(loads(dtype, rows, columns, first))
    widest = max(a["width_bytes"] for a in ops[0]["accesses"] if a["buffer"] == "X")
    assert widest == choice(ops[0], "row_vectors")["bytes"] > DTYPES[dtype].bytes


@pytest.mark.sweep(1)
@requires_runner
@pytest.mark.parametrize(("dtype", "shape", "box"), [
    ("int8", (37, 101), (16, 32)), ("int8", (20, 259), (32, 128)), ("float16", (19, 143), (8, 64)),
])  # fmt: skip
def test_the_text_moves_every_element(dtype, shape, box):
    """Executed as C++: Y is X, and nothing beside it is written."""
    plan = plan_spec(tilegen.load(stores(dtype, shape, box)))
    x = np.random.default_rng(1).integers(1, 256, shape[0] * shape[1] * DTYPES[dtype].bytes, np.uint8)
    got = run_text(plan, {"X": x.view(numpy_dtype(dtype))})["Y"].view(np.uint8)
    assert (got == x).all()


# ---------------------------------------------------------------- what it costs
@pytest.mark.sweep(2)
@pytest.mark.parametrize("columns", [3667, 3669, 3670, 2993])
@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_the_sectors_that_rank_widths_are_those_that_are_counted(dtype, columns):
    """Where the threads of a warp take whole rows of vectors, so that an access is no more than some of them."""
    size = DTYPES[dtype].bytes
    if columns * size % 4 == 0:
        return
    _, (_, op) = build(stores(dtype, (256, columns), (128, 128 // size), threads=256))
    picked, said = (op["choices"][-1][key] for key in ("picked", "proof"))
    assert f"{op['cost']['sectors']} with {picked['bytes']} bytes" in said


def test_sectors_are_written_whole_but_for_the_ends_of_rows():
    """Of 128 bytes at any place: what one byte a lane takes in 1024 sectors takes no more than six a row."""
    _, (_, op) = build(stores("int8", (256, 3667), (128, 128), 512, more=""))
    assert op["variant"] == "row_vectors" and op["cost"]["sectors"] <= 6 * 128
    narrow = next(r for r in op["refused"] if r["variant"] == "gmem_smem")
    assert "1008 sectors" in narrow["reason"]


@pytest.mark.parametrize(("dtype", "columns"), [("int8", 3667), ("int8", 3670), ("float16", 2993)])
@pytest.mark.parametrize("threads", [128, 512])
def test_vectors_are_made_of_whole_words(dtype: str, columns: int, threads: int) -> None:
    """Five words, or four where rows begin at words, and byte permutes; only ends of rows go one by one."""
    size = DTYPES[dtype].bytes
    built = tilegen.build(stores(dtype, (64, columns), (64, 128 // size), threads, more=""))
    op = built.manifest["ops"][1]
    loads = [a for a in op["accesses"] if a["buffer"] == "t"]
    assert op["variant"] == "row_vectors" and {a["width_bytes"] for a in loads} == {4, size}
    singles = sum(a["instructions"] for a in loads if a["width_bytes"] == size)
    words = sum(a["instructions"] for a in loads if a["width_bytes"] == 4)
    picked = op["choices"][-1]["picked"]
    assert singles <= 64 * picked["bytes"] // size // 32
    assert words <= 64 * picked["vectors"] * (picked["bytes"] // 4 + 1) // 32
    assert "__byte_perm" in built.source


def test_without_whole_words_vectors_are_taken_one_by_one() -> None:
    """Columns of the tile lie side by side, so no four elements of a row do."""
    built = tilegen.build(stores("int8", (32, 259), (32, 64), tile="S[(32,64):(1,32)]"))
    assert "__byte_perm" not in built.source and built.manifest["ops"][1]["variant"] == "row_vectors"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_elements_are_refused(dtype):
    with pytest.raises(SpecError, match="4 bytes and more"):
        tilegen.build(stores(dtype, (8, 101), (8, 32)))


def test_what_begins_elsewhere_in_each_cta_is_taken_where_it_is_written():
    text = stores("int8", (60, 101), (15, 37), more="")
    _, (_, op) = build(text)
    assert op["variant"] != "row_vectors"
    assert any("begin elsewhere in each CTA" in r["reason"] for r in op["refused"])


def test_rows_that_are_one_run_at_a_word_are_refused():
    with pytest.raises(SpecError, match="whole words"):
        tilegen.build(loads("int8", 9, 131, 0))


def test_loads_past_an_edge_are_refused():
    text = stores("int8", (60, 101), (16, 32), more="").replace("t, edge: clip", "t, edge: clip, variant: row_vectors")
    with pytest.raises(SpecError, match="read as its pad"):
        tilegen.build(text)


# ---------------------------------------------------------------- faults
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("dtype", "shape", "box"), [("int8", (20, 101), (16, 32)), ("float16", (9, 143), (8, 64))])
@pytest.mark.parametrize("every", EVERY)
def test_mutants_are_found(dtype, shape, box, every):
    """A vector at another place, an end that is left out, an edge that is looser or tighter."""
    spec = tilegen.load(stores(dtype, shape, box))
    plan = plan_spec(spec)
    mutants = list(plant(plan))
    assert {"guard tightened", "condition flipped", "step dropped", "global address"} <= {m.kind for m in mutants}
    assert list_survivors(spec, plan, mutants[::every]) == []
