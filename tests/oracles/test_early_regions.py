"""Regions that begin before their array read zeros there, and write nothing: by every op and way to move data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest

import tilegen
from tests.faults.mutants import plant
from tests.faults.parts import change_parts
from tests.faults.verdicts import proof_code
from tests.mutants.judging import EVERY, list_survivors
from tilegen.index import Formula, conjuncts, every
from tilegen.plan import Move, Plan, When, all_steps
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.spec.data import Spec
from tilegen.verifying import verify_built

Array = np.ndarray[Any, Any]
HEAD = "kernel: early\narch: {arch}\nthreads: {threads}\ngrid: {{bx: {grid}}}\nbuffers:\n"


@dataclass(frozen=True)
class Window:
    """Tiles of ``tile`` columns, each with ``before`` more columns and ``after``, of an array [rows, columns].

    ``pitch``: elements from row to row of X; ``up``: rows before the first.
    """

    dtype: str
    rows: int
    columns: int
    tile: int
    before: int
    after: int
    up: int = 0
    pitch: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Of what a CTA reads."""
        return self.rows + 2 * self.up, self.tile + self.before + self.after

    @property
    def grid(self) -> int:
        return -(-self.columns // self.tile)

    @property
    def source(self) -> str:
        rows = f"-{self.up}" if self.up else "0"
        begin = f"bx*{self.tile} - {self.before}"
        return f"{rows} : +{self.shape[0]}, {begin} : +{self.shape[1]}"

    def arrays(self) -> str:
        layout = f', layout: "S[({self.rows},{self.columns}):({self.pitch},1)]"' if self.pitch else ""
        return (
            f"  X: {{scope: global, dtype: {self.dtype}, shape: [{self.rows}, {self.columns}]{layout}}}\n"
            f"  Y: {{scope: global, dtype: {self.dtype}, shape: [{self.grid}, {self.shape[0]}, {self.shape[1]}]}}\n"
        )

    def expected(self, x: Array) -> Array:
        """Every tile with its neighbourhood."""
        padded = np.pad(x, ((self.up, self.up), (self.before, self.after + self.tile)))
        tiles = [padded[:, k * self.tile : k * self.tile + self.shape[1]] for k in range(self.grid)]
        return np.stack(tiles)


def draw_window(draw: Random, dtypes: tuple[str, ...] = ("uint8", "float16", "float32", "float64")) -> Window:
    """Widths that vectors divide, and others; arrays shorter than what is read of them."""
    step = draw.choice([1, 1, 2, 4, 8])
    tile, before, after = (draw.randint(*ends) * step for ends in ((4, 24), (0, 6), (0, 6)))
    columns = draw.choice([draw.randint(1, 90), draw.randint(1, 12) * step, tile * 2])
    rows, up = draw.randint(1, 4), draw.choice([0, 0, 1, 2])
    pitch = draw.choice([0, 0, columns + draw.randint(0, 5)])
    return Window(draw.choice(dtypes), rows, columns, tile, max(before, step if not up else 0), after, up, pitch)


COPIES = {
    "from array to array": '  - copy: {src: "X[SOURCE]", dst: "Y[bx]", edge: clip}\n',
    "one by one": '  - copy: {src: "X[SOURCE]", dst: "Y[bx]", edge: clip, variant: scalar}\n',
    "into shared memory": (
        '  - copy: {src: "X[SOURCE]", dst: t, edge: clip}\n  - sync: cta\n  - copy: {src: t, dst: "Y[bx]"}\n'
    ),
    "by cp.async": (
        '  - copy: {src: "X[SOURCE]", dst: t, edge: clip, async: true}\n  - commit\n  - wait: 0\n  - sync: cta\n'
        '  - copy: {src: t, dst: "Y[bx]"}\n'
    ),
    "into registers": '  - copy: {src: "X[SOURCE]", dst: r, edge: clip}\n  - copy: {src: r, dst: "Y[bx]"}\n',
    "by elementwise": '  - elementwise: {dst: "Y[bx]", expr: "x", with: {x: "X[SOURCE]"}, edge: clip}\n',
    "by a cast": '  - cast: {src: "X[SOURCE]", dst: "Y[bx]", edge: clip}\n',
    "turned over": '  - copy: {src: "X[SOURCE]", dst: "turned[bx]", edge: clip}\n',
}


def reading(window: Window, how: str, threads: int = 32) -> str:
    """A kernel that reads the windows and writes each as a whole."""
    scopes = {"t": "shared", "r": "register"}
    own = "".join(
        f"  {name}: {{scope: {scope}, dtype: {window.dtype}, shape: {list(window.shape)}, layout: auto}}\n"
        for name, scope in scopes.items() if f"dst: {name}," in COPIES[how]
    )  # fmt: skip
    arrays = window.arrays()
    if how == "turned over":
        rows, columns = window.shape
        arrays = arrays.replace(f"{rows}, {columns}]}}", f"{columns}, {rows}]}}")
        own += "  turned: {view: Y, axes: [0, 2, 1]}\n"
    head = HEAD.format(arch="sm_80", threads=threads, grid=window.grid)
    return head + arrays + own + "ops:\n" + COPIES[how].replace("SOURCE", window.source)


@pytest.mark.sweep(10)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("how", COPIES)
def test_what_lies_before_an_array_reads_as_zeros(how: str, seed: int) -> None:
    """Built, proved, and compared with an array that is padded in NumPy."""
    draw = Random(f"{how} {seed}")
    window = draw_window(draw, ("float16", "float32", "float64"))
    if how == "by cp.async":
        window = replace(window, dtype="float32")
    built = tilegen.build(reading(window, how, draw.choice([32, 64, 128])))

    def meant(X: Array) -> Array:
        found = window.expected(X)
        return found.transpose(0, 2, 1) if how == "turned over" else found

    verify_built(built, "cpu", (5,), meant)


ARRAYS = {
    "a turned view": ("shape: [50, 2]", "V[0 : +2, bx*16 - 4 : +24]", "axes: [1, 0]"),
    "dimensions that are split": ('shape: [2, 48], layout: "S[(2,6,8):(8,16,1)]"', "X[0 : +2, bx*16 - 4 : +24]", ""),
    "a swizzle": ('shape: [2, 64], layout: "Swizzle(2,2,3) o S[(2,64):(64,1)]"', "X[0 : +2, bx*16 - 4 : +24]", ""),
    "an offset": ('shape: [2, 48], layout: "S[(2,48):(64,1)] + 3@m"', "X[0 : +2, bx*16 - 3 : +24]", ""),
    "an index": ("shape: [3, 2, 24]", "X[bx - 1, :, :]", ""),
    "a view of more dimensions": ("shape: [96]", "V[bx - 2 : +2, :]", "shape: [4, 24]"),
    "rows of three": ("shape: [10, 3]", "V[bx*4 - 3 : +16, :]", "shape: [10, 3]"),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("what", ARRAYS)
def test_every_kind_of_array_may_begin_late(what: str) -> None:
    """What is divided for a place in it is never negative: nothing is accessed there."""
    array, source, view = ARRAYS[what]
    shape = "[4, 16, 3]" if what == "rows of three" else "[4, 2, 24]"
    buffers = (
        f"  X: {{scope: global, dtype: float32, {array}}}\n  Y: {{scope: global, dtype: float32, shape: {shape}}}\n"
    )
    buffers += f"  V: {{view: X, {view}}}\n" if view else ""
    text = HEAD.format(arch="sm_80", threads=32, grid=4) + buffers
    built = tilegen.build(f'{text}ops:\n  - copy: {{src: "{source}", dst: "Y[bx]", edge: clip}}\n')
    verify_built(built, "cpu", (3, 4))


WRITES = {
    "fill": '  - fill: {dst: "Y[PLACE]", value: 3, edge: clip}\n',
    "copy": '  - copy: {src: "X[bx]", dst: "Y[PLACE]", edge: clip}\n',
    "elementwise": '  - elementwise: {dst: "Y[PLACE]", expr: "x + 1", with: {x: "X[bx]"}, edge: clip}\n',
    "from registers": '  - copy: {src: "X[bx]", dst: r}\n  - copy: {src: r, dst: "Y[PLACE]", edge: clip}\n',
    "from shared memory": (
        '  - copy: {src: "X[bx]", dst: t}\n  - sync: cta\n  - copy: {src: t, dst: "Y[PLACE]", edge: clip}\n'
    ),
}
WRITTEN = {"fill": lambda x: x * 0 + 3, "elementwise": lambda x: x + 1}


@pytest.mark.sweep(6)
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("how", WRITES)
def test_what_lies_before_an_array_is_not_written(how: str, seed: int) -> None:
    """Tiles that begin ``before`` elements early share an array out; every element has its owner."""
    draw = Random(f"{how} {seed}")
    step = draw.choice([1, 2, 4, 8])
    tile, rows = draw.randint(4, 20) * step, draw.randint(1, 3)
    columns, before = draw.randint(1, 90), min(draw.randint(1, 8) * step, tile - 1)
    grid, dtype = -(-(columns + before) // tile), draw.choice(["float16", "float32", "float64"])
    read = how != "fill"
    buffers = f"  X: {{scope: global, dtype: {dtype}, shape: [{grid}, {rows}, {tile}]}}\n" * read
    buffers += f"  Y: {{scope: global, dtype: {dtype}, shape: [{rows}, {columns}]}}\n"
    for name, scope in (("t", "shared"), ("r", "register")):
        if f"dst: {name}}}" in WRITES[how]:
            buffers += f"  {name}: {{scope: {scope}, dtype: {dtype}, shape: [{rows}, {tile}], layout: auto}}\n"
    place = f"0 : +{rows}, bx*{tile} - {before} : +{tile}"
    text = HEAD.format(arch="sm_90", threads=32, grid=grid) + buffers + "ops:\n" + WRITES[how].replace("PLACE", place)

    def meant(**given: Array) -> Array:
        x = given.get("X", np.zeros((grid, rows, tile)))
        return np.asarray(WRITTEN.get(how, lambda x: x)(np.concatenate(list(x), axis=1)[:, before : before + columns]))

    verify_built(tilegen.build(text), "cpu", (5,), meant)


SUMMED = """kernel: summed
threads: 32
params: {N: {default: 21, max: 200}}
grid: {bx: "ceil(N / 8)"}
buffers:
  X: {scope: global, dtype: float32, shape: [N]}
  Y: {scope: global, dtype: float32, shape: ["ceil(N / 8)"]}
  one: {scope: register, dtype: float32, shape: [1], layout: auto}
ops:
  - reduce: {src: "X[bx*8 - 5 : +16]", dst: one, axis: 0, op: sum, edge: clip}
  - copy: {src: one, dst: "Y[bx : +1]"}
"""


def test_a_sum_of_windows_begins_with_zeros() -> None:
    def meant(X: Array, N: int) -> Array:
        padded = np.pad(X, (5, 16))
        return np.array([padded[k * 8 : k * 8 + 16].sum() for k in range(-(-N // 8))])

    verify_built(tilegen.build(SUMMED), "cpu", (3,), meant)


# ---------------------------------------------------------------- TMA
BOXES = """kernel: boxes
arch: sm_90
threads: 64
grid: {{bx: {grid}}}
barriers: {{full: {{}}}}
buffers:
  X: {{scope: global, dtype: float32, shape: [{rows}, {columns}]}}
  Y: {{scope: global, dtype: float32, shape: [{rows}, {columns}], partial: true}}
  t: {{scope: shared, dtype: float32, shape: [8, 32]}}
ops:
  - copy: {{src: "X[{row} : +8, {column} : +32]", dst: t, barrier: full, edge: clip}}
  - wait: {{barrier: full}}
  - copy: {{src: t, dst: "Y[{row} : +8, {column} : +32]", edge: clip}}
"""


def boxes(row: str = "bx*8 - 3", column: str = "-8", rows: int = 13, columns: int = 20, grid: int = 2) -> str:
    return BOXES.format(row=row, column=column, rows=rows, columns=columns, grid=grid)


@pytest.mark.parametrize(("row", "column"), [("bx*8 - 3", "0"), ("bx*8 - 8", "4"), ("bx*8", "-8"), ("bx*8 - 7", "-28")])
def test_boxes_begin_before_an_array(row: str, column: str) -> None:
    """TMA asks each dimension itself: what another row has at that place is not read. Threads store the tile."""
    built = tilegen.build(boxes(row, column))
    load = next(op for op in built.manifest["ops"] if op["op"] == "copy")
    assert {a["kind"] for a in load["accesses"] if a["instructions"]} == {"tma"}
    verify_built(built, "cpu", (2, 3))


def test_tma_stores_no_box_that_begins_before_its_array() -> None:
    """A GPU ends the launch there, so the variant is refused, and threads are named."""
    by_tma = boxes().replace('+32]", edge: clip}\n', '+32]", edge: clip, variant: tma}\n  - wait: {tma: 0}\n')
    with pytest.raises(
        tilegen.SpecError, match="may begin before Y in dimension 0, dimension 1: TMA stores no such box"
    ):
        tilegen.build(by_tma)


# ---------------------------------------------------------------- wrong plans
SPECS = {
    "halo": reading(Window("float32", 1, 50, 16, 1, 1), "into shared memory"),
    "vectors": reading(Window("float32", 2, 48, 16, 4, 4, 1), "from array to array"),
    "cut vectors": reading(Window("float32", 1, 50, 16, 3, 5, 0, 0), "from array to array"),
    "cp.async": reading(Window("float32", 2, 48, 16, 4, 4, 1), "by cp.async"),
    "registers": reading(Window("float16", 2, 50, 16, 3, 3), "into registers"),
    "elementwise": reading(Window("float32", 2, 50, 16, 2, 2), "by elementwise"),
    "any size": SUMMED,
    "boxes": boxes(),
}


def low_guards(plan: Plan) -> Iterator[Formula]:
    """The conditions of a plan that ask for a place behind a beginning: a constant below a sum."""
    found: dict[Formula, None] = {}

    def look(x: Any) -> Any:
        for part in conjuncts(x) if isinstance(x, Formula) else ():
            if isinstance(part, Formula) and part.symbol == "<" and isinstance(part.args[0], int):
                found[part] = None

    for step in all_steps(plan):
        for x in (getattr(step, name, None) for name in ("valid", "condition")):
            look(x)
    yield from found


def without(plan: Plan, guard: Formula) -> Plan:
    """The plan that does not ask for it."""

    def drop_guard(x: Any) -> Any:
        if isinstance(x, Formula) and guard in conjuncts(x):
            return every(*(c for c in conjuncts(x) if c != guard))
        return None

    return change_parts(plan, drop_guard)


def refused(spec: Spec, plan: Plan) -> str:
    return proof_code(lambda: prove(spec, plan))


@pytest.mark.parametrize("what", [name for name in SPECS if name != "boxes"])
def test_a_plan_that_reads_before_the_beginning_is_refused(what: str) -> None:
    """Whichever of its guards is left out, there is a place before the array."""
    spec = tilegen.load(SPECS[what])
    plan = plan_spec(spec)
    guards = list(low_guards(plan))
    assert guards
    for guard in guards:
        assert refused(spec, without(plan, guard)) in ("TG414", "TG420"), guard


@pytest.mark.sweep(3)
@pytest.mark.parametrize("what", SPECS)
def test_a_plan_that_moves_the_data_is_refused(what: str) -> None:
    """A beginning of max(.., 0) is another window; so is one that is a little off."""
    text = SPECS[what]
    (begin,) = set(re.findall(r"bx\*\d+ - \d+", text))
    spec, own = tilegen.load(text), plan_spec(tilegen.load(text))
    assert refused(spec, own) == ""
    for other in (f"max({begin}, 0)", f"{begin} + 4", f"max({begin}, 1 - {begin.split()[-1]})"):
        assert refused(spec, plan_spec(tilegen.load(text.replace(begin, other)))) != "", other


@pytest.mark.parametrize("what", [name for name in SPECS if name != "boxes"])
def test_a_plan_that_leaves_what_was_there_is_refused(what: str) -> None:
    """Where nothing is read, zeros are due: a load that is skipped leaves registers, or shared memory, as they were."""
    spec = tilegen.load(SPECS[what])
    plan = plan_spec(spec)

    def skip(x: Any) -> Any:
        if isinstance(x, Move) and x.valid is not True and x.src.memory.space == "global":
            return When(x.valid, (replace(x, valid=True),))
        return None

    assert refused(spec, change_parts(plan, skip)) != ""


@pytest.mark.sweep(3)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("what", SPECS)
@pytest.mark.parametrize("every_one", EVERY)
def test_mutants_of_early_regions_are_found(what: str, every_one: int) -> None:
    spec = tilegen.load(SPECS[what])
    plan = plan_spec(spec)
    assert list_survivors(spec, plan, list(plant(plan))[::every_one]) == []


ANYWHERE = """kernel: anywhere
threads: 32
params: {P: {default: 3, max: 20}}
grid: {bx: 4}
buffers:
  X: {scope: global, dtype: float32, shape: [2, 50]}
  Y: {scope: global, dtype: float32, shape: [4, 2, 24]}
ops:
  - copy: {src: "X[0 : +2, bx*16 - P : +24]", dst: "Y[bx]", edge: clip}
"""


@pytest.mark.parametrize("other", [
    "max(bx*16 - P, 0)", "bx*16 - P + 1", "bx*16 - min(P, 19)", "where(P == 7, bx*16 - 6, bx*16 - P)",
    "where(bx == 1 and P == 17, 0, bx*16 - P)",
])  # fmt: skip
def test_a_beginning_that_a_param_says_is_proved_for_each(other: str) -> None:
    """A plan that is wrong for one value of it, or in one CTA, is refused."""
    spec = tilegen.load(ANYWHERE)
    assert refused(spec, plan_spec(spec)) == ""
    assert refused(spec, plan_spec(tilegen.load(ANYWHERE.replace("bx*16 - P", other)))) == "TG420"


# ---------------------------------------------------------------- how wide
def test_accesses_are_as_wide_as_beginning_and_end_allow() -> None:
    """16 bytes where four elements divide both; where they do not, an edge cuts the vectors there."""
    for before, columns, cut in ((4, 1024, False), (8, 1024, False), (4, 1026, True)):
        built = tilegen.build(reading(Window("float32", 1, columns, 256, before, 4), "from array to array"))
        (op,) = built.manifest["ops"]
        assert {a["width_bytes"] for a in op["accesses"] if a["instructions"]} == {16}
        assert ("for (int e" in built.source) == cut, built.source
