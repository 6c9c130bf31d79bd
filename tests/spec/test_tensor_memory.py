"""Buffers of tensor memory: lanes, columns and allocations against enumeration, and what is said of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

from tests.faults.verdicts import refusal_of
from tilegen.arch import ARCHES
from tilegen.arch.data import TensorMemory
from tilegen.cli import cli
from tilegen.dtypes import DTYPES
from tilegen.errors import LayoutError, SpecError
from tilegen.layouts import Iter, TileLayout, find_cells, is_injective, parse, tmem_datapath_layout
from tilegen.ops import ALL_OPS
from tilegen.pipeline import build, expand, explain, load
from tilegen.planner import plan_spec
from tilegen.report.tensor_memory import describe_tensor_memory, draw_map
from tilegen.spec.form import OpForm
from tilegen.spec.printing import print_spec
from tilegen.spec.tensor_memory import place_columns, suggest_placement

BAD = Path(__file__).parents[1] / "bad_specs"
PAGE = Path(__file__).parents[2] / "docs" / "layouts.md"
# An accumulator of 224 columns in two stages, and scale factors that each warp finds in its own 32 lanes.
ACCUMULATOR = """\
kernel: tmem_accumulator
arch: sm_100a
threads: 128
params: {sf_per_mma: 4}
buffers:
  acc: {scope: tmem, dtype: float32, shape: [2, 128, 112], layout: "S[(2,128,112):(112@TCol,1@TLane,1@TCol)]"}
  sf:  {scope: tmem, dtype: uint8, shape: [32, sf_per_mma], layout: "S[(32,sf_per_mma):(1@TLane,1@TCol)] + R[4:32@TLane]"}
  ld:  {scope: register, dtype: float32, shape: [128, 64], layout: "tcgen05_atom_layout('32x32b', (128, 64), 'float32')"}
ops: []
"""  # noqa: E501
HAS = TensorMemory()


def write(*buffers: tuple[str, tuple[int, ...], str], head: str = "") -> str:
    """A spec of tmem buffers a, b, ..., each a dtype, a shape and a layout."""
    lines = (
        f'  {chr(97 + k)}: {{scope: tmem, dtype: {dtype}, shape: {list(shape)}, layout: "{layout}"}}\n'
        for k, (dtype, shape, layout) in enumerate(buffers)
    )
    return f"kernel: k\narch: sm_100a\nthreads: 128\n{head}buffers:\n{''.join(lines)}ops: []\n"


def run(tmp_path: Path, *words: str) -> Result:
    path = tmp_path / "accumulator.yaml"
    path.write_text(ACCUMULATOR, encoding="utf-8")
    return CliRunner().invoke(cli, [*words, str(path)])


# ---------------------------------------------------------------- the seed's accumulator and scale factors
def test_the_accumulator_and_its_factors_share_one_allocation() -> None:
    found = explain(ACCUMULATOR)["tensor_memory"]
    accumulator, scales = found.pop("buffers")
    assert found == {
        "lanes": 128, "columns": 512, "least_columns": 32, "taken": 225, "allocated": 256,
        "allocator": {"warp": 0, "role": "", "warp_in_role": 0}, "cta_group": 1,
    }  # fmt: skip
    assert accumulator == {
        "buffer": "acc", "dtype": "float32", "shape": [2, 128, 112], "lanes": [[0, 127]], "columns": [[0, 223]],
        "first_column": 0, "taken": 224, "copies": 1, "packed": 1, "written_by": [], "read_by": [],
    }  # fmt: skip
    assert scales == {
        "buffer": "sf", "dtype": "uint8", "shape": [32, 4], "lanes": [[0, 127]], "columns": [[0, 0]],
        "first_column": 224, "taken": 1, "copies": 4, "packed": 4, "written_by": [], "read_by": [],
    }  # fmt: skip


def test_explain_shows_lanes_columns_and_copies(tmp_path: Path) -> None:
    result = run(tmp_path, "explain")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert (
        result.exit_code == 0 and "tensor memory: 225 of 512 columns taken, one allocation of 256, by warp 0" in lines
    )
    assert "type in lanes in columns copies written by read by" in lines
    assert "acc float32 0-127 0-223 1 no op no op" in lines
    assert "sf uint8 0-127 224 4 no op no op" in lines
    assert "4 of uint8" in result.stdout
    as_data = json.loads(run(tmp_path, "explain", "--format", "json").stdout)
    assert as_data["tensor_memory"] == explain(ACCUMULATOR)["tensor_memory"]


def test_the_page_shows_what_explain_says() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Tensor memory\n")[1].split("\n## ")[0]
    spec, shown = (re.search(f"```{kind}\n(.*?)\n```", section, re.S) for kind in ("yaml", "text"))
    assert spec is not None and shown is not None
    explained = CliRunner().invoke(cli, ["explain", "-"], input=f"{spec[1]}\n").stdout
    assert shown[1] in explained.split("\n\n")


def test_specs_without_such_buffers_say_nothing_of_it() -> None:
    assert "tensor_memory" not in explain("kernel: k\narch: sm_100a\nthreads: 32\nops: []\n")


def test_the_spec_is_printed_and_read_back(tmp_path: Path) -> None:
    spec = load(ACCUMULATOR)
    assert load(print_spec(expand(ACCUMULATOR))) == spec == load(run(tmp_path, "explain", "--expanded").stdout)
    resolved = run(tmp_path, "explain", "--resolved").stdout
    assert load(resolved) == spec and yaml.safe_load(resolved) == yaml.safe_load(ACCUMULATOR)
    assert [b.scope for b in spec.buffers] == ["tmem", "tmem", "register"]


def test_there_is_nothing_to_build() -> None:
    (found,) = refusal_of(SpecError, build, ACCUMULATOR).diagnostics
    assert found.code == "TG303" and found.hint and found.mark is not None
    assert (found.mark.line, found.mark.column) == (9, 6)


def test_a_kernel_whose_ops_leave_it_alone_is_built() -> None:
    arrays = "".join(f"  {name}: {{scope: global, dtype: int32, shape: [128]}}\n" for name in "XY")
    text = ACCUMULATOR.replace("buffers:\n", f"buffers:\n{arrays}").replace("[]", "[copy: {src: X, dst: Y}]")
    built = build(text)
    assert {m["name"] for m in built.manifest["args"]} == {"X", "Y"}
    said = {d.message: d.hint for d in built.warnings}
    assert {said[f"nothing uses the buffer '{name}'"] for name in ("acc", "sf", "ld")} == {"remove it"}
    assert "tcgen05" not in built.source


# ---------------------------------------------------------------- cells, counted one by one
def draw(random: Random) -> TileLayout:
    """Strides of any kind on both axes, with replicas and offsets now and then; at most 128 lanes of 2048 elements."""
    while True:
        shard = [draw_iter(random) for _ in range(random.randint(1, 4))]
        replica = [draw_iter(random) for _ in range(random.choice((0, 0, 1, 2)))]
        offset = {axis: random.choice((0, 0, 5, 16)) for axis in ("TLane", "TCol")}
        ends = {a: offset[a] + sum((i.extent - 1) * i.stride for i in shard + replica if i.axis == a) for a in offset}
        if ends["TLane"] < 128 and ends["TCol"] < 2048:
            return TileLayout.from_iters(shard, replica, offset)


def draw_iter(random: Random) -> Iter:
    axis = random.choice(("TLane", "TCol"))
    return Iter(random.choice((1, 2, 3, 4, 7, 8)), random.choice((0, 1, 2, 3, 4, 8, 16, 32)), axis)


def enumerate_cells(layout: TileLayout, bits: int) -> tuple[set[tuple[int, int]], int]:
    """(lane, column) of every copy of every element, and how many places the first element has."""
    count = 1
    for i in layout.shard:
        count *= int(i.extent)
    places = [layout.apply(x, shape=(count,)) for x in range(count)]
    spots = [{(place.get("TLane", 0), place.get("TCol", 0)) for place in found} for found in places]
    return {(lane, x * bits // 32) for found in spots for lane, x in found}, len(spots[0])


@pytest.mark.parametrize("seed", range(60))
def test_cells_are_those_that_enumeration_finds(seed: int) -> None:
    random = Random(seed)
    layout, bits = draw(random), random.choice((8, 16, 32))
    cells, (spots, copies) = find_cells(layout, bits), enumerate_cells(layout, bits)
    assert set(cells.lanes) == {lane for lane, _ in spots} and set(cells.columns) == {column for _, column in spots}
    assert list(cells.lanes) == sorted(set(cells.lanes)) and list(cells.columns) == sorted(set(cells.columns))
    assert (cells.copies, cells.packed, cells.reach) == (copies, 32 // bits, max(column for _, column in spots) + 1)


@pytest.mark.parametrize("datapath", "ABCDEFG")
def test_every_datapath_holds_its_accumulator(datapath: str) -> None:
    table = {"A": (128, 1), "B": (64, 2), "C": (64, 1), "D": (128, 1), "E": (64, 2), "F": (64, 1), "G": (32, 4)}
    rows, groups = table[datapath]
    cells = find_cells(tmem_datapath_layout(datapath, rows, 64), 32)
    assert (len(cells.lanes), len(cells.columns)) == (rows * groups, 64 // groups)


@pytest.mark.parametrize(
    ("layout", "bits", "why"),
    [
        ("S[8:1@TCol]", 64, "8, 16 or 32 bits"),
        ("S[(8,2):(1@TLane,1)]", 32, "TLane and TCol, not m"),
        ("S[8:1@TLane] + 1@laneid", 32, "not laneid"),
        ("Swizzle(3,3,3) o S[(8,64):(64,1)]", 16, "no swizzles"),
        ("PaddedSharedLayout.with_identity_for([[32, 4]], [8, 32], [1, 0])", 16, "no padding"),
        ("S[2:65536@TCol]", 32, "TCol reaches 65536"),
    ],
)
def test_what_lies_in_no_cells_is_refused(layout: str, bits: int, why: str) -> None:
    with pytest.raises(LayoutError, match=why):
        find_cells(parse(layout), bits)


# ---------------------------------------------------------------- allocations
def test_an_allocation_is_the_least_power_of_two() -> None:
    for columns in range(1, 513):
        taken = HAS.allocate(columns)
        assert taken in (32, 64, 128, 256, 512) and taken >= columns and (taken == 32 or taken // 2 < columns)


@pytest.mark.parametrize("seed", range(40))
def test_buffers_load_where_their_allocations_fit(seed: int) -> None:
    """From multiples of 4 columns on, in the order of the text; refused where they pass column 512, and only there."""
    random = Random(seed)
    buffers, sizes = [], []
    for _ in range(random.randint(1, 5)):
        dtype, columns = random.choice(("uint8", "float16", "float32")), random.choice((1, 8, 32, 33, 100, 128, 200))
        count = columns * 32 // DTYPES[dtype].bits
        buffers.append((dtype, (128, count), f"S[(128,{count}):(1@TLane,1@TCol)]"))
        sizes.append(columns)
    firsts, taken = [], 0
    for columns in sizes:
        firsts.append((taken + 3) // 4 * 4)
        taken = firsts[-1] + columns
    if taken > 512:
        with pytest.raises(SpecError, match="TG210"):
            load(write(*buffers))
        return
    found = place_columns(load(write(*buffers)).buffers, "sm_100a")
    assert list(found.first.items()) == [(chr(97 + k), first) for k, first in enumerate(firsts)]
    assert found.taken == taken and found.allocated == min(n for n in (32, 64, 128, 256, 512) if n >= taken)


def test_the_seeds_accumulators_and_factors_fit() -> None:
    """Two accumulators of 224 columns, factors of 16 and of 32: 496 columns of one allocation of 512."""
    text = write(
        ("float32", (2, 128, 224), "S[(2,128,224):(224@TCol,1@TLane,1@TCol)]"),
        ("uint8", (4, 128, 4), "S[(4,4,32,4):(16@TCol,4@TCol,1@TLane,1@TCol)] + R[4:32@TLane]"),
        ("uint8", (4, 256, 4), "S[(4,8,32,4):(32@TCol,4@TCol,1@TLane,1@TCol)] + R[4:32@TLane]"),
    )
    found = place_columns(load(text).buffers, "sm_100a")
    assert dict(found.first) == {"a": 0, "b": 448, "c": 464} and (found.taken, found.allocated) == (496, 512)


@pytest.mark.parametrize(
    ("buffer", "code"),
    [
        (("float32", (128, 512), "S[(128,512):(1@TLane,1@TCol)]"), ""),
        (("float16", (128, 1024), "S[(128,1024):(1@TLane,1@TCol)]"), ""),
        (("uint8", (128, 2048), "S[(128,2048):(1@TLane,1@TCol)]"), ""),
        (("uint8", (128, 2049), "S[(128,2049):(1@TLane,1@TCol)]"), "TG210"),
        (("float32", (8, 1), "S[(8,1):(1@TLane,1@TCol)] + 511@TCol"), ""),
        (("float32", (8, 1), "S[(8,1):(1@TLane,1@TCol)] + 512@TCol"), "TG210"),
        (("float32", (8, 1), "S[(8,1):(1@TLane,1@TCol)] + 120@TLane"), ""),
        (("float32", (8, 1), "S[(8,1):(1@TLane,1@TCol)] + 121@TLane"), "TG210"),
        (("float32", (8,), "S[8:0@TCol] + R[2000000000:1@TCol]"), "TG210"),
        (("float32", (64, 8), "tmem_datapath_layout('F', 64, 8, 1)"), ""),
    ],
)
def test_the_last_lane_and_column_are_the_hardwares(buffer: tuple[str, tuple[int, ...], str], code: str) -> None:
    if not code:
        assert load(write(buffer)).buffer("a").layout_text == buffer[2]
        return
    assert [d.code for d in refusal_of(SpecError, load, write(buffer)).diagnostics] == [code]


@pytest.mark.parametrize(("columns", "ctas", "fits"), [(128, 4, 4), (129, 2, 2), (129, 3, 2), (1, 16, 16), (1, 17, 16)])
def test_the_ctas_of_a_multiprocessor_share_its_columns(columns: int, ctas: int, fits: int) -> None:
    arrays = "".join(f"  {name}: {{scope: global, dtype: int32, shape: [32]}}\n" for name in "XY")
    text = write(("float32", (128, columns), f"S[(128,{columns}):(1@TLane,1@TCol)]"), head=f"ctas_per_sm: {ctas}\n")
    text = text.replace("buffers:\n", f"buffers:\n{arrays}").replace("[]", "[copy: {src: X, dst: Y}]")
    text = text.replace("threads: 128", "threads: 32")
    if ctas <= fits:
        taken = 512 // fits if columns > 1 else 32
        (said,) = (c["proof"] for c in explain(text)["choices"] if c["question"] == "ctas_per_sm")
        assert said.endswith(f"; {taken} columns of tensor memory each, of 512")
        return
    (found,) = refusal_of(SpecError, explain, text).diagnostics
    assert (found.code, found.hint) == ("TG311", f"at most {fits} do") and found.mark is not None
    assert "columns of tensor memory; sm_100a has 512" in found.message


# ---------------------------------------------------------------- what errors propose
@pytest.mark.parametrize("seed", range(60))
def test_the_layout_that_is_proposed_loads(seed: int) -> None:
    random = Random(seed)
    shape = tuple(random.choice((1, 2, 3, 32, 100, 128, 200, 257, 384)) for _ in range(random.randint(1, 3)))
    dtype = random.choice(("uint8", "bfloat16", "float32"))
    text = suggest_placement(shape, dtype)
    if text:
        layout = load(write((dtype, shape, text))).buffer("a").layout
        assert is_injective(layout) and find_cells(layout, DTYPES[dtype].bits).copies == 1
    else:  # not even where every lane is used
        rows = shape[-2] if len(shape) > 1 else 1
        others = 1
        for n in shape[:-2]:
            others *= n
        across = -(-rows // max(n for n in range(1, 129) if rows % n == 0)) * others * shape[-1]
        assert across * DTYPES[dtype].bits > 512 * 32


def test_every_op_that_computes_is_refused_by_name() -> None:
    """Of those that take regions: the broken spec has each of them, and its text is compared in test_bad_specs.py."""
    ops = yaml.safe_load((BAD / "later_tmem_ops.yaml").read_text(encoding="utf-8"))["ops"]
    refused = {n for n, form in ALL_OPS.items() if isinstance(form, OpForm) and not form.tensor}
    assert refused <= {name for op in ops for name in op}
    text = (BAD / "later_tmem_ops.txt").read_text(encoding="utf-8")
    assert all(f"error[TG190]: {name} with 'acc'" in text for name in refused)
    assert all(f"error[TG190]: {name} with" in text for op in ops for name in op)
    assert text.count("error[") == len({name for op in ops for name in op})


@pytest.mark.parametrize("arch", ARCHES)
def test_only_archs_with_tensor_memory_take_it(arch: str) -> None:
    if ARCHES[arch].tensor_memory:
        assert load(ACCUMULATOR, arch).arch == arch
        return
    (found,) = refusal_of(SpecError, load, ACCUMULATOR, arch).diagnostics  # one for both buffers
    assert (found.code, found.hint) == ("TG106", "archs that have it: sm_100a") and found.mark is not None


# ---------------------------------------------------------------- drawn
@pytest.mark.parametrize("seed", range(30))
def test_the_map_is_what_enumeration_fills(seed: int) -> None:
    """Every character by counting the cells of its 16 lanes x 8 columns one by one."""
    random = Random(seed)
    buffers: list[tuple[str, tuple[int, ...], str]] = []
    while not buffers or (random.random() < 0.6 and len(buffers) < 4):
        layout = draw(random)
        dtype = random.choice(("uint8", "float16", "float32"))
        if is_injective(layout) and find_cells(layout, DTYPES[dtype].bits).reach <= 128:
            buffers.append((dtype, tuple(int(i.extent) for i in layout.shard), str(layout)))
    spec = load(write(*buffers))
    places = place_columns(spec.buffers, spec.arch)
    expected = [["." if column * 8 < places.allocated else "_" for column in range(64)] for _ in range(8)]
    for k, (name, first) in reversed(list(enumerate(places.first.items()))):  # the first has the character
        buffer = spec.buffer(name)
        spots, _ = enumerate_cells(buffer.layout, DTYPES[buffer.dtype].bits)
        for row in range(8):
            for column in range(64):
                cells = [(lane, column * 8 + c - first) for lane in range(16 * row, 16 * row + 16) for c in range(8)]
                if filled := sum(cell in spots for cell in cells):
                    expected[row][column] = chr((65 if filled == 128 else 97) + k)
    drawn = [""] * 8
    for line in draw_map(describe_tensor_memory(spec, plan_spec(spec))["tensor_memory"])[1:]:
        label, text = re.fullmatch(r"lanes (\d+-\d+) +(\S{64})", line).groups()  # type: ignore[union-attr]
        start, end = map(int, label.split("-"))
        drawn[start // 16 : end // 16 + 1] = [text] * ((end + 1 - start) // 16)
    assert drawn == ["".join(row) for row in expected]


@pytest.mark.parametrize("name", ["acc", "sf"])
def test_its_layouts_are_drawn(name: str) -> None:
    buffer = load(ACCUMULATOR).buffer(name)
    words = ["layout", str(buffer.layout), "--shape", ",".join(map(str, buffer.shape)), "--draw", "--format", "json"]
    picture = json.loads(CliRunner().invoke(cli, words).stdout)["picture"]
    assert picture["cell"] == "each cell: TLane:TCol"
    for row, cells in enumerate(picture["cells"]):
        for column, text in enumerate(cells):
            coord = np.unravel_index(row * len(cells) + column, buffer.shape)
            place = buffer.layout.apply(*map(int, coord), shape=buffer.shape)[0]
            assert text == f"{place['TLane']}:{place['TCol']}"
