"""shifted: rows off the vectors of a side, or of both, in whole vectors, to the last element and none beyond."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from text.run import requires_runner, run_text

import tilegen
from tests.faults.mutants import plant
from tests.faults.steps import Change, Match, each_mutant, turn
from tests.mutants.judging import EVERY, list_survivors
from tests.oracles.kernels import buffer, build, choice, kernel
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.errors import ProofError, SpecError
from tilegen.index import Formula, Index, add, less
from tilegen.ops.copy.shifted import join_words
from tilegen.ops.copy.shifted_tile import Rows, Shift
from tilegen.plan import BYTE_PERMUTE, Map, Move, Plan, Repeat, Step, When, flat_memory
from tilegen.planner import plan_spec
from tilegen.proofs import prove

N = 2**20 + 5


def tiles(
    src: str, dst: str, dtype: str, shape: str = "[N]", params: str = f"N: {N}", grid: str = "ceil((N - 1) / 4096)",
    more: str = "", threads: int = 128,
) -> str:  # fmt: skip
    """Tiles of X, and where they go in Y."""
    return f"""kernel: k
threads: {threads}
params: {{{params}}}
grid: {{bx: {grid}}}
buffers:
  X: {{scope: global, dtype: {dtype}, shape: {shape}}}
  Y: {{scope: global, dtype: {dtype}, shape: {shape}, partial: true}}
ops:
  - copy: {{src: "{src}", dst: "{dst}", edge: clip{more}}}
"""


NEXT = ("X[bx*4096 + 1 : +4096]", "Y[bx*4096 : +4096]")
BEFORE = ("X[bx*4096 : +4096]", "Y[bx*4096 + 1 : +4096]")
ALIKE = ("X[bx*4096 + 3 : +4096]", "Y[bx*4096 + 3 : +4096]")


def moved(op: dict[str, Any]) -> dict[tuple[str, int], int]:
    """Instructions of a CTA, by kind and bytes a lane."""
    found: dict[tuple[str, int], int] = {}
    for a in op["accesses"]:
        if a["instructions"]:
            found[a["kind"], a["width_bytes"]] = found.get((a["kind"], a["width_bytes"]), 0) + a["instructions"]
    return found


# ---------------------------------------------------------------- what it costs
@pytest.mark.sweep(1)
@pytest.mark.parametrize(("dtype", "word"), [("uint8", 4), ("float16", 4), ("float32", 4), ("int64", 8)])
def test_a_shift_by_one_goes_in_vectors(dtype, word):
    """A load and a store for each vector, and for each warp one word that its last lane lacks."""
    _, (op,) = build(tiles(*NEXT, dtype))
    vectors = 4096 * DTYPES[dtype].bytes // 512  # of warps
    assert op["variant"] == "shifted" and choice(op, "shift")["bytes"] == 16
    assert moved(op) == {("ld", 16): vectors, ("ld", word): vectors, ("st", 16): vectors}
    assert op["cost"]["sectors"] == vectors * (16 + 1 + 16)


@pytest.mark.parametrize("dtype", ["uint8", "float16"])
def test_a_shift_back_gets_its_words_from_the_lane_before(dtype):
    built, (op,) = build(tiles(*BEFORE, dtype))
    elems = 16 // DTYPES[dtype].bytes
    assert choice(op, "shift") == {
        "bytes": 16, "shift_bytes": 16 - DTYPES[dtype].bytes, "vectors": 4096 // elems - 1, "ends": elems,
    }  # fmt: skip
    assert built.source.count("__shfl_up_sync") == 1 and "__shfl_down_sync" not in built.source


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_both_sides_off_alike_move_vectors_as_they_are(dtype):
    """The ends of all rows are one load and one store of a warp."""
    built, (op,) = build(tiles(*ALIKE, dtype))
    size = DTYPES[dtype].bytes
    vectors, ends = -(-(4096 * size // 16 - 1) // 32), choice(op, "shift")["ends"]
    assert (ends, choice(op, "shift")["shift_bytes"]) == (16 // size, 0)
    assert moved(op) == {("ld", 16): vectors, ("st", 16): vectors, ("ld", size): 1, ("st", size): 1}
    assert "__shfl" not in built.source and "__byte_perm" not in built.source


def test_columns_from_the_fourth_on():
    _, (op,) = build(tiles("X[bx, 3:]", "Y[bx, :997]", "float16", "[R, 1000]", "R: 64", "R"))
    assert choice(op, "shift") == {"bytes": 16, "shift_bytes": 6, "vectors": 124, "ends": 5}
    assert moved(op) == {("ld", 16): 4, ("ld", 8): 4, ("st", 16): 4, ("ld", 2): 1, ("st", 2): 1}


def test_rows_that_lie_together_are_one_row():
    """Rows of 37: the next row begins 37 elements on, 5 behind a vector. The last words would end beyond the array."""
    _, (op,) = build(tiles("X[bx*64 + 1 : +64, :]", "Y[bx*64 : +64, :]", "uint8", "[R, 37]", "R: 6401", "100"))
    assert choice(op, "shift") == {"bytes": 16, "shift_bytes": 5, "vectors": 147, "ends": 16}


REFUSED = {
    "whole vectors": ("X[bx*4096 : +4096]", "Y[bx*4096 : +4096]", "[N]", 128),
    "no constant place": ("X[bx*3 : +64]", "Y[bx*64 : +64]", "[N]", 128),
    "whole warps": (*NEXT, "[N]", 24),
    "whole vector": ("X[bx : +3]", "Y[bx : +3]", "[N]", 32),
    "no common dimension": ("X[bx*8 : +8, :7]", "T[bx*8 : +8, :7]", "[64, 7]", 32),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused(reason):
    src, dst, shape, threads = REFUSED[reason]
    text = tiles(src, dst, "float32", shape, threads=threads, grid="8", more=", variant: shifted")
    text = text.replace(
        "ops:", "  Z: {scope: global, dtype: float32, shape: [7, 64]}\n  T: {view: Z, axes: [1, 0]}\nops:"
    )
    with pytest.raises(SpecError, match=reason):
        tilegen.build(text)


# ---------------------------------------------------------------- every element, and none beyond
def drawn() -> list[Any]:
    """Regions of rows at any place, between any two memories: where lies what is around them."""
    pick, cases = random.Random(20261124), []
    for n in range(60):
        dtype = pick.choice(["uint8", "bool", "float16", "float32", "int64", "complex64"])
        rows, pitch = pick.choice([1, 1, 2, 3, 8]), pick.choice([32, 37, 64, 96, 100, 160, 200])
        other = pick.choice([pitch, pitch, (pitch + 15) // 16 * 16])
        first = pick.randrange(0, 20)
        begin = pick.choice([first, 0, 0, pick.randrange(0, 20)])
        most = min(pitch - first, other - begin)
        length = pick.choice([most, most, pick.randrange(1, most + 1)])
        row, to = pick.choice([0, 0, 1]), pick.choice([0, 0, 1])
        src = f"X[{row} : +{rows}, {first} : +{length}]"
        dst = f"Y[{to} : +{rows}, {begin} : +{length}]"
        shapes = [rows + row, pitch], [rows + to, other]
        spaces = pick.choice(["global", "shared"]), pick.choice(["global", "shared"])
        cases.append(
            pytest.param(dtype, src, dst, shapes, spaces, pick.choice([32, 64, 128]), id=f"{n}-{dtype}-{src}-{dst}")
        )
    return cases


def through(dtype: str, src: str, dst: str, shapes: Any, spaces: Any, threads: int) -> str:
    """X's region to Y's, by way of shared memory on either side."""
    buffers = [
        buffer("X", "global", dtype, shapes[0]),
        buffer("Y", "global", dtype, shapes[1]).replace("}", ", partial: true}"),
        *(buffer(name, "shared", dtype, shape) for name, shape, space in zip("st", shapes, spaces, strict=True)
          if space == "shared"),
    ]  # fmt: skip
    ops, from_, into = [], src, dst
    if spaces[0] == "shared":
        ops, from_ = ["copy: {src: X, dst: s}", "sync: cta"], src.replace("X", "s")
    if spaces[1] == "shared":
        into = dst.replace("Y", "t")
    ops.append(f'copy: {{src: "{from_}", dst: "{into}", variant: shifted}}')
    ops += ["sync: cta", f'copy: {{src: "{into}", dst: "{dst}"}}'] if into != dst else []
    return kernel(threads, buffers, ops)


@pytest.mark.sweep(11)
@pytest.mark.parametrize(("dtype", "src", "dst", "shapes", "spaces", "threads"), drawn())
def test_rows_at_any_place_are_exact(dtype, src, dst, shapes, spaces, threads):
    """Its proofs compare every element; where it refuses, rows hold no vector or begin at no constant place."""
    try:
        built = tilegen.build(through(dtype, src, dst, shapes, spaces, threads))
    except SpecError as error:
        assert "no row holds a whole vector" in str(error) or "nothing to shift" in str(error)
        return
    assert built.proof.steps > 0


def test_words_beyond_a_region_that_others_write_are_not_read():
    """In place, each warp reads its own elements alone; of an array that is only read, the words around them too."""
    text = tiles("X[1:257]", "X[513:769]", "float16", "[1024]", "N: 1024", "1", ", variant: shifted")
    (op,) = build(text.replace("  Y: {scope: global, dtype: float16, shape: [1024], partial: true}\n", ""))[1]
    assert choice(op, "shift")["ends"] == 8
    (op,) = build(tiles("X[1:257]", "Y[512:768]", "float16", "[1024]", "N: 1024", "1", ", variant: shifted"))[1]
    assert choice(op, "shift")["ends"] == 0
    text = tiles("Z[1:257]", "Y[512:768]", "float16", "[1024]", "N: 1024", "1", ", variant: shifted")
    text = text.replace("ops:", "  Z: {scope: global, dtype: float16, shape: [257]}\nops:")
    (op,) = build(re.sub("  X: .*\n", "", text))[1]
    assert choice(op, "shift")["ends"] == 8  # the word that the last vector lacks ends beyond the array


@pytest.mark.sweep(1)
@requires_runner
@pytest.mark.parametrize(("dtype", "off"), [("uint8", 1), ("uint8", 13), ("float16", 1), ("int64", 1), ("float32", 2)])
def test_the_text_moves_every_length(dtype, off):
    """Executed as C++: what lies next, and zeros behind the end, whatever the length is."""
    text = tiles(f"X[bx*512 + {off} : +512]", "Y[bx*512 : +512]", dtype, params="N: {default: 1003, max: 100000}",
                 grid="ceil(N / 512)", more=", variant: shifted", threads=64)  # fmt: skip
    plan = plan_spec(tilegen.load(text))
    for n in (1, 2, 15, 16, 17, 31, 33, 511, 512, 513, 514, 527, 1003, 1024):
        x = np.random.default_rng(n).integers(1, 256, n * DTYPES[dtype].bytes, np.uint8)
        got = run_text(plan, {"X": x.view(numpy_dtype(dtype))}, {"N": n})["Y"].view(np.uint8)
        size = DTYPES[dtype].bytes
        wanted = np.concatenate([x[off * size :], np.zeros(off * size, np.uint8)])[: n * size]
        assert (got == wanted).all(), n


# ---------------------------------------------------------------- faults
EDGES = {
    "next": (NEXT, "float16"), "before": (BEFORE, "uint8"), "alike": (ALIKE, "uint8"),
    "halves": (("X[bx*4096 + 7 : +4096]", "Y[bx*4096 : +4096]"), "uint8"),
}  # fmt: skip


def at_an_edge(what: str) -> tuple[Any, Plan]:
    """A small kernel whose last tile an array's end cuts anywhere."""
    (src, dst), dtype = EDGES[what]
    src, dst = (x.replace("4096", "512") for x in (src, dst))
    text = tiles(src, dst, dtype, params="N: {default: 1003, max: 100000}", grid="ceil(N / 512)",
                 more=", variant: shifted", threads=64)  # fmt: skip
    spec = tilegen.load(text)
    return spec, plan_spec(spec)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("what", EDGES)
@pytest.mark.parametrize("every", EVERY)
def test_mutants_are_found(what, every):
    """A word of the wrong neighbour, a lane that loads none for itself, a tail that is left out."""
    spec, plan = at_an_edge(what)
    mutants = list(plant(plan))
    assert {"guard tightened", "condition flipped", "step dropped"} <= {m.kind for m in mutants}
    assert list_survivors(spec, plan, mutants[::every]) == []


def joins_words(step: Step) -> bool:
    return isinstance(step, Map) and step.fn is BYTE_PERMUTE


def other_bytes(step: Map) -> tuple[Step]:
    """A byte further on."""
    return (replace(step, value=(step.value + 0x1111) % 0x8888),)


def word_again(step: Map) -> tuple[Step]:
    """The first word twice, instead of its neighbour."""
    return (replace(step, srcs=(step.srcs[0], step.srcs[0])),)


def is_guarded(step: Step) -> bool:
    return isinstance(step, Move) and step.elems != 1 and step.valid is not True


def reads_beyond(step: Move) -> tuple[Step]:
    """A vector or a word that need not be inside, if the two vectors before it are."""
    return (replace(step, valid=_loosen(step.valid, 32 // step.src.memory.elem_bytes)),)


def _loosen(condition: Index, by: int) -> Index:
    if isinstance(condition, Formula) and condition.symbol == "&&":
        return replace(condition, args=tuple(_loosen(c, by) for c in condition.args))
    if isinstance(condition, Formula) and condition.symbol == "<":
        return less(add(condition.args[0], -by), condition.args[1])
    return condition


def is_tail(step: Step) -> bool:
    """What an edge cuts."""
    return isinstance(step, When) and any(isinstance(s, Repeat) for s in step.body)


FAULTS: dict[str, tuple[Match, Change, int]] = {
    "other_bytes": (joins_words, other_bytes, 4), "word_again": (joins_words, word_again, 4),
    "reads_beyond": (is_guarded, reads_beyond, 2), "no_tail": (is_tail, turn(body=()), 1),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("what", ["next", "before", "halves"])
def test_planted_faults_are_found(what, fault):
    spec, plan = at_an_edge(what)
    match, change, least = FAULTS[fault]
    found = list(each_mutant(plan, match, change))
    assert len(found) >= least
    for mutant in found:
        with pytest.raises(ProofError):
            prove(spec, mutant)


# ---------------------------------------------------------------- in registers
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_words_are_joined_at_every_shift(dtype):
    """Of two neighbours, by bytes: what each result word takes, run by hand."""
    elems, size = 16 // DTYPES[dtype].bytes, DTYPES[dtype].bytes
    both = list(range(32))
    for shift in range(1, elems):
        it = Shift(_ROWS[size], elems, shift, 0, 1)
        own, taken, out = (
            flat_memory(n, dtype, c, "register") for n, c in (("o", elems), ("n", it.lacking), ("r", elems))
        )
        held = {own: both[:16] if it.takes_next else both[16:]}
        held[taken] = both[16 : 16 + it.lacking * size] if it.takes_next else both[16 - it.lacking * size : 16]
        result = [-1] * 16
        for step in join_words(it, own, 0, taken, out):
            refs = step.srcs if isinstance(step, Map) else (step.src,)
            words = [held[r.memory][r.at[0] * size : r.at[0] * size + 4] for r in refs]
            at = step.dst.at[0] * size
            pair = [b for word in words for b in word]
            picked = [step.value >> 4 * k & 7 for k in range(4)] if isinstance(step, Map) else range(4)
            result[at : at + 4] = [pair[k] for k in picked]
        assert result == both[shift * size : shift * size + 16], shift


class _Sized:
    """Rows of which only the element's size is asked."""

    def __init__(self, size: int):
        self.tile = type("Tile", (), {"operands": (type("Operand", (), {"elem_bytes": size})(),)})()


_ROWS: dict[int, Rows] = {size: _Sized(size) for size in (1, 2, 4)}  # type: ignore[misc]
