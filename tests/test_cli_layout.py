"""`tilegen layout`: what it prints, as text and as JSON, its errors with carets, and its exit codes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tilegen import drawing, layouts
from tilegen.cli import cli
from tilegen.dtypes import DTYPES
from tilegen.errors import LayoutError, mark_text

SWIZZLED = "Swizzle(3,3,3) o S[(8,64):(64,1)]"
REGISTERS = "S[(8, 4, 2):(4@laneid, 1@laneid, 1)]"
PADDED = "PaddedSharedLayout.with_identity_for([[32, 1]], [32, 32], [1, 0])"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("TILEGEN_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["layout", *words])


def shown(*words: str) -> str:
    result = run(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def data(*words: str) -> Any:
    return json.loads(shown(*words, "--format", "json"))


# ---------------------------------------------------------------- the page
def test_the_page_says_what_is_known() -> None:
    text = shown(REGISTERS + " + R[2:4@warpid] + 5@warpid", "--shape", "8,8")
    assert text.splitlines()[0] == f"{REGISTERS} + R[2:4@warpid] + 5@warpid"
    assert "kind       TileLayout" in text and "8 x 8: 64 elements, 2 copies of each" in text
    assert "scope      threads of a cta" in text and "injective  yes" in text
    assert re.search(r"^warpid +warps of a cta +10 +5$", text, re.M)
    assert re.search(r"^laneid +threads of a warp +32 +32$", text, re.M)


def test_the_page_as_data() -> None:
    described = data(SWIZZLED)
    assert described["layout"] == "Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]"
    assert (described["kind"], described["shape"], described["elements"]) == ("ComposeLayout", [8, 64], 512)
    assert described["axes"] == [
        {"axis": "m", "kind": "memory", "scope": None, "sub": None, "extent": 512, "span": 512}
    ]  # fmt: skip
    assert described["scope"] is None and described["injective"] is True


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("S[(8, 2):(1, 1)]", "no: some place holds two elements"),
        ("S[(2, 2):(1@wgid, 1@laneid)]", "do not connect"),
        ("S[(4096, 4096):(3, 2)]", "not decided"),
    ],
)
def test_the_page_of_odd_layouts(text: str, word: str) -> None:
    assert word in shown(text)


def test_a_bare_swizzle_takes_any_shape() -> None:
    assert data("Swizzle(3, 3, 3)")["shape"] == [512]
    assert data("Swizzle(3, 3, 3)", "--shape", "16x64")["axes"][0]["extent"] == 1024


# ---------------------------------------------------------------- --at
def test_the_bank_column_of_the_seed() -> None:
    """seeds/layout_api.txt, Worked Example: column 0 of an (8, 64) float16 tile."""
    at = [word for i in range(8) for word in ("--at", f"{i},0")]
    banks = [found["places"][0]["bank"] for found in data(SWIZZLED, "--dtype", "float16", *at)["at"]]
    assert banks == [0, 4, 8, 12, 16, 20, 24, 28]
    plain = [found["places"][0]["bank"] for found in data("S[(8,64)]", "--dtype", "float16", *at)["at"]]
    assert plain == [0] * 8


def test_at_lists_every_copy() -> None:
    found = data(f"{REGISTERS} + R[2:4@warpid] + 5@warpid", "--shape", "8,8", "--at", "3,5")["at"]
    assert found == [
        {"coord": [3, 5], "places": [{"warpid": w, "laneid": 14, "m": 1} for w in (5, 9)]}
    ]  # fmt: skip
    assert shown(f"{REGISTERS} + R[2:4@warpid]", "--shape", "8,8", "--at", "3,5").count("\n") == 3


def test_at_takes_a_flat_index() -> None:
    assert data("S[(4, 8)]", "--at", "9")["at"] == [{"coord": [1, 1], "places": [{"m": 9}]}]


def test_at_in_half_bytes() -> None:
    assert data("S[64:1]", "--at", "9", "--dtype", "float4_e2m1fn")["at"][0]["places"][0]["byte"] == 4


# ---------------------------------------------------------------- other layouts
@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["S[(8, 1, 4, 2):(4@laneid, 2, 1@laneid, 1)]", "--canonical"], "S[(32, 2):(1@laneid, 1)]"),
        (["S[(2, 32):(1@warpid, 1@laneid)]", "--canonical", "--fuse", "cta"], "S[64:1@tx]"),
        (["S[(4, 2):(8@laneid, 32)]", "--group", "2,4"], "S[(2, 2, 2):(16@laneid, 8@laneid, 32)]"),
        (["S[(64, 64)]", "--slice", "8:12,16:24"], "S[(4, 8):(64, 1)] + 528"),
        ([SWIZZLED, "--to", "cute"], "Sw<3,3,3> elements o 0 o (8,64):(64,1)"),
        (["(8,(2,4)):(2,(1,16))", "--to", "tile"], "S[(8, 4, 2):(2, 16, 1)]"),
        (["Swizzle(3, 3, 3)", "--shape", "8,64", "--to", "tile"], "Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]"),
    ],
)
def test_other_layouts(words: list[str], first: str) -> None:
    assert shown(*words).splitlines()[0] == first


def test_group_says_which_iters_each_dimension_has() -> None:
    assert data("S[(4, 2):(8@laneid, 32)]", "--group", "2,4")["separators"] == [0, 1, 3]
    assert shown("S[(4, 2):(8@laneid, 32)]", "--group", "2,4").endswith(
        "dimension 0: iter 0\ndimension 1: iters 1 to 2\n"
    )


def test_a_view_shows_the_changed_layout() -> None:
    text = shown("S[(64, 64)]", "--slice", "8:10,16:20", "--at", "1,2")
    assert "S[(2, 4):(64, 1)] + 528" in text and re.search(r"^1,2 +594$", text, re.M)


def test_cute_keeps_coordinates() -> None:
    cute, tile = "(8,(2,4)):(2,(1,16))", "S[(8, 4, 2):(2, 16, 1)]"
    for i, j in ((0, 1), (3, 5), (7, 7)):
        at = ("--at", f"{i},{j}")
        assert data(cute, *at)["at"] == data(tile, "--shape", "8,8", *at)["at"]
    assert data(cute)["kind"] == "cute.CuteLayout"


def test_to_gluon_names_its_general_layouts() -> None:
    wanted = (
        "DistributedLinearLayout(reg_bases=[[0, 1], [8, 0]], lane_bases=[[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], "
        "warp_bases=[], block_bases=[], shape=[16, 8])"
    )
    assert shown("mma_fragment('m16n8k16', 'C')", "--shape", "16,8", "--to", "gluon") == wanted + "\n"
    wanted = "SharedLinearLayout(offset_bases=[[0, 1], [0, 2], [1, 0], [2, 0]], block_bases=[])"
    assert shown("S[(4, 4)]", "--to", "gluon") == wanted + "\n"
    assert shown(PADDED, "--to", "gluon") == PADDED + "\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("S[(3, 5)]", "--to", "linear"), "not XOR-linear at index"),
        (("S[(4, 4):(5, 1)]", "--to", "linear"), "not XOR-linear"),
        (("S[(4, 4):(4@TLane, 1@TCol)]", "--to", "gluon"), ""),
        (("S[(4, 2):(1@laneid, 1)]", "--to", "gluon"), "32 lanes"),
        ((PADDED, "--to", "linear"), "not XOR-linear"),
    ],
)
def test_to_linear_says_where_linearity_fails(words: tuple[str, ...], why: str) -> None:
    result = run(*words)
    assert (result.exit_code, result.stdout) == (1, "") and why in result.stderr


# ---------------------------------------------------------------- banks
@pytest.mark.parametrize(
    ("text", "dtype", "access", "sums"),
    [
        ("S[(8, 64)]", "float16", "column", [512]),
        (SWIZZLED, "float16", "column", [64]),
        ("S[(8, 64)]", "float16", "row", [16]),
        ("S[(8, 64)]", "float16", "ldmatrix", [64, 64, 64]),
        (SWIZZLED, "float16", "ldmatrix", [8, 8, 8]),
        ("S[(32, 32)]", "float32", "column", [32 * 32]),
        (PADDED, "float32", "column", [32]),
        ("S[(16, 8)]", "float16", "ldmatrix", [2, 2]),
    ],
)
def test_wavefronts_of_a_tile(text: str, dtype: str, access: str, sums: list[int]) -> None:
    found = data(text, "--banks", "--dtype", dtype, "--access", access)["banks"]
    assert [counted["wavefronts"]["sum"] for counted in found["instructions"]] == sums


def test_banks_draw_the_chunks_that_stay_together() -> None:
    text = shown(SWIZZLED, "--banks", "--dtype", "float16")
    assert "1024 bytes, 8 lines of 128 bytes" in text
    assert re.search(r"^5 +20-23 +16-19 +28-31 +24-27 +4-7 +0-3 +12-15 +8-11$", text, re.M)
    assert re.search(r"^ +0-1 +2-3 ", shown("S[(8, 64):(66, 1)]", "--banks", "--dtype", "float16"), re.M)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((REGISTERS, "--banks", "--dtype", "float16"), "shared memory"),
        (("S[(8, 64):(1, 8)]", "--banks", "--dtype", "float16", "--access", "ldmatrix"), "lie together"),
        (("S[(7, 64)]", "--banks", "--dtype", "float16", "--access", "ldmatrix"), "ldmatrix reads 8 x 8"),
        (("S[64:1]", "--banks", "--dtype", "int4", "--access", "row"), "whole bytes"),
        (("S[(4096, 4096)]", "--banks", "--dtype", "int8"), "too many"),
    ],
)
def test_banks_refuse_with_a_reason(words: tuple[str, ...], why: str) -> None:
    result = run(*words)
    assert (result.exit_code, result.stdout) == (1, "") and why in result.stderr


# ---------------------------------------------------------------- pictures
def test_a_picture_of_registers() -> None:
    lines = shown(REGISTERS, "--shape", "8,8", "--draw").splitlines()
    assert lines[0] == "each cell: lane.register"
    assert lines[2].split() == ["0", "0.0", "0.1", "1.0", "1.1", "2.0", "2.1", "3.0", "3.1"]
    assert len(lines) == 10


def test_a_picture_is_plain_without_a_terminal_and_coloured_on_demand() -> None:
    assert "\x1b" not in shown(SWIZZLED, "--draw")
    assert "\x1b[30m\x1b[4" in shown(SWIZZLED, "--draw", "--color", "always")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown(SWIZZLED, "--draw", "--color", "always"))
    assert plain == shown(SWIZZLED, "--draw")


def test_a_wide_picture_is_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = shown("S[(100, 64):(1, 100)]", "--draw").splitlines()
    assert max(map(len, lines[:-2])) <= 60
    assert lines[-2:] == ["(36 more rows are not drawn)", "(columns from 9 on are cut off: 60 characters are full)"]


def test_a_line_is_drawn_in_lines_of_16() -> None:
    lines = shown("S[40:1]", "--draw").splitlines()
    assert lines[-1].split() == ["32", *map(str, range(32, 40))]


def test_a_wide_tile_in_memory_is_drawn_by_what_lies_together() -> None:
    row = shown(SWIZZLED, "--draw").splitlines()[3].split()
    assert row == ["1", "72-79", "64-71", "88-95", "80-87", "104-111", "96-103", "120-127", "112-119"]


def test_a_padded_layout_shows_its_memory_too() -> None:
    """seeds/padded_shared_layout.txt marks padding with p."""
    text = shown("PaddedSharedLayout([[2, 2]], [[2], [1]], [], [4])", "--draw")
    assert text.endswith("memory in order, p is padding:\n[x0, x2, p0, p1,\n x1, x3]\n")
    assert "memory in order" not in shown(PADDED, "--draw")  # too wide


def test_copies_are_noted() -> None:
    assert "each element has 2 copies" in shown("S[(4, 2):(2, 1)] + R[2:8]", "--draw")


def test_a_picture_as_data() -> None:
    picture = data("S[(2, 2):(1@laneid, 1)]", "--draw")["picture"]
    assert picture["cells"] == [["0.0", "0.1"], ["1.0", "1.1"]] and picture["cell"] == "each cell: lane.register"


# ---------------------------------------------------------------- errors
def caret(stderr: str) -> str:
    """What the carets underline."""
    source, marks = re.findall(r"\| (.*)", stderr)[-2:]
    return source[marks.index("^") : marks.index("^") + marks.count("^")]


@pytest.mark.parametrize(
    ("text", "code", "under"),
    [
        ("S[(8, 2):(4@lanid, 1)]", "TG104", "lanid"),
        ("S[(8, 2):(4@laneid)]", "TG201", "S[(8, 2):(4@laneid)]"),
        ("S[8 & 2]", "TG200", "&"),
        ("T[8:1]", "TG200", "T"),
        ("Swizzle(3, 3, 1)", "TG201", "Swizzle(3, 3, 1)"),
        ("(4,2):(1)", "TG201", "(4,2):(1)"),
        ("S[\n(8, 2):(4@lanid, 1)]", "TG104", "lanid"),
    ],
)
def test_errors_of_the_text_have_carets(text: str, code: str, under: str) -> None:
    result = run(text)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error[{code}]: ") and "--> <layout>:" in result.stderr
    assert caret(result.stderr) == under


def test_errors_stay_json() -> None:
    result = run("S[(8, 2):(4@lanid, 1)]", "--format", "json")
    (error,) = json.loads(result.stdout)["errors"]
    assert (result.exit_code, result.stderr) == (1, "")
    assert (error["code"], error["path"], error["column"], error["length"]) == ("TG104", "<layout>", 13, 5)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("S[(3, 5)]", "--shape", "4,4"), "--shape"),
        (("S[(3, 5)]", "--group", "4,4"), "--group"),
        (("S[(3, 5)]", "--slice", "0:4,0:5"), "--slice"),
        (("S[8:1]", "--at", "8"), "--at"),
        (("S[(2, 2):(1, 1@laneid)]", "--to", "cute"), "--to cute"),
        ((PADDED, "--to", "tile"), "--to tile"),
        (("S[(1024, 1024)]", "--draw"), "--draw"),
        (("S[8:1] + R[100000:1]", "--at", "0"), "--at"),
    ],
)
def test_what_cannot_be_names_the_option(words: tuple[str, ...], option: str) -> None:
    result = run(*words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error[TG201]: {option}: ")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("S[8:1]", "--at", "x"), ("S[8:1]", "--shape", "0"), ("S[8:1]", "--slice", "3"), ("S[8:1]", "--slice", "3:2"),
        ("S[8:1]", "--fuse", "cta"), ("S[8:1]", "--access", "row"), ("S[8:1]", "--banks"), ("S[8:1]", "--to", "triton"),
        ("S[8:1]", "--dtype", "floot16"), ("S[8:1]", "--shape", "9" * 30),
    ],
)  # fmt: skip
def test_wrong_options_are_usage(words: tuple[str, ...]) -> None:
    assert run(*words).exit_code == 2


@pytest.mark.parametrize(
    "text", ["", " ", "(", "S", "S[", "Sw<", "\x1b[31m", "S[8:1]]", "9" * 5000, "S[(99999999999,):(1,)]"]
)
def test_any_text_ends_in_words(text: str) -> None:
    result = run(text)
    assert result.exit_code in (0, 1) and "internal error" not in result.output and "\x1b" not in result.stderr


def test_marks_stay_on_their_line() -> None:
    mark = mark_text("S[(8,\n 2)]", 2, 9)
    assert (mark.line, mark.column, mark.length, mark.text) == (1, 3, 3, "S[(8,")


# ---------------------------------------------------------------- what is shown is what the layout says
@pytest.mark.parametrize("text", [REGISTERS, "S[(4, 2, 3, 4):(2@warpid, 1@warpid, 4@laneid, 1@laneid)] + 8@laneid"])
def test_every_cell_is_where_its_element_lies(text: str) -> None:
    layout = layouts.parse(text)
    shape = (8, layouts.size(layout) // 8)
    picture = data(text, "--shape", f"8,{shape[1]}", "--draw")["picture"]
    for i, row in enumerate(picture["cells"]):
        for j, cell in enumerate(row):
            place = layout.apply(i, j, shape=shape)[0]
            assert [int(x) for x in re.split(r"[.:]", cell)] == list(dict(sorted(place.items(), key=_order)).values())


def _order(item: tuple[str, int]) -> int:
    return ("warpid", "laneid", "m").index(item[0])


@pytest.mark.parametrize("text", [SWIZZLED, "S[(16, 32):(40, 1)]", "S[(16, 8):(1, 16)]", "S[(8, 12):(13, 1)] + 3"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_banks_and_wavefronts_against_brute_force(text: str, dtype: str) -> None:
    width, layout = DTYPES[dtype].bytes, layouts.parse(text)
    shape = tuple(int(i.extent) for i in layouts.tile_of(layout).shard)  # type: ignore[arg-type]
    at = [[layout.apply(i, j)[0]["m"] * width for j in range(shape[1])] for i in range(shape[0])]
    picture = data(text, "--banks", "--dtype", dtype)["picture"]
    firsts = [int(name.split("-")[0]) for name in picture["columns"]]
    for row, cells in zip(at, picture["cells"], strict=True):
        assert [int(cell.split("-")[0]) for cell in cells] == [row[j] // 4 % 32 for j in firsts]
    found = data(text, "--banks", "--dtype", dtype, "--access", "column")["banks"]["instructions"][0]
    assert found["wavefronts"]["sum"] == sum(_rounds([row[j] for row in at], width) for j in range(shape[1]))


def _rounds(offsets: list[int], width: int) -> int:
    """Wavefronts of one load of up to 32 lanes: per phase of 128 bytes, the most words in one bank; no lane repeats."""
    lanes = 128 // max(4, width)
    return sum(
        max(
            len(
                {
                    w
                    for at in offsets[k : k + lanes]
                    for w in range(at // 4, (at + width - 1) // 4 + 1)
                    if w % 32 == bank
                }
            )
            for bank in range(32)
        )
        for k in range(0, len(offsets), lanes)
    )


# ---------------------------------------------------------------- Gluon's layouts, which need a shape
def test_gluons_registers_are_described_and_drawn() -> None:
    blocked = layouts.BlockedLayout([1, 2], [8, 4], [1, 1], [1, 0])
    with pytest.raises(LayoutError, match="say which"):
        drawing.take_subject(blocked)
    subject = drawing.take_subject(blocked, (8, 8))
    described = drawing.describe_layout(subject)
    assert (described["kind"], described["scope"], described["copies"]) == ("BlockedLayout", ["thread", "warp"], 1)
    assert "LinearLayout(" in drawing.layout_text(described)
    tile = drawing.take_subject(layouts.parse(REGISTERS), (8, 8))
    assert drawing.draw_layout(subject).cells == drawing.draw_layout(tile).cells
    assert drawing.convert(subject, "gluon") is blocked
    assert str(drawing.convert(subject, "tile")) == "S[(32, 2):(1@laneid, 1)]"
    with pytest.raises(LayoutError, match="shared memory"):
        drawing.find_banks(subject, 16)


def test_gluons_swizzle_has_the_banks_of_ours() -> None:
    theirs = drawing.take_subject(layouts.SwizzledSharedLayout(8, 1, 8, [1, 0]), (8, 64))
    ours = drawing.read_subject(SWIZZLED)
    assert drawing.bank_picture(theirs, 16) == drawing.bank_picture(ours, 16)
    assert drawing.find_banks(theirs, 16, "ldmatrix") == drawing.find_banks(ours, 16, "ldmatrix")
    assert drawing.locate(theirs, (5, 0), 16)["places"][0]["bank"] == 20
    assert str(drawing.convert(theirs, "cute")) == "Sw<3,3,3> elements o 0 o (8,64):(64,1)"


@pytest.mark.parametrize("option", [("--canonical",), ("--group", "2,2"), ("--slice", "0:1,0:1")])
def test_linear_layouts_have_no_iters(option: tuple[str, ...]) -> None:
    """Read as text where the notation has them, refused as any other text where not yet."""
    result = run("LinearLayout(lane=[[0, 1], [1, 0]])", *option)
    assert (result.exit_code, result.stdout) == (1, "") and result.stderr.startswith("error[TG201]: ")


def test_a_linear_layout_that_holds_not_all_says_so() -> None:
    subject = drawing.take_subject(layouts.LinearLayout(lane=[[0, 1], [1, 1], [1, 0]], shape=[4, 2]))
    text = drawing.layout_text(drawing.describe_layout(subject))
    assert "4 x 2: 8 elements, 2 copies of each, some held nowhere" in text
    with pytest.raises(LayoutError, match="nowhere"):
        drawing.draw_layout(subject)
    with pytest.raises(LayoutError, match="no axis"):
        drawing.draw_layout(drawing.take_subject(layouts.LinearLayout(shape=[1])))


# ---------------------------------------------------------------- tiled_mma
MMA = "tiled_mma('fma.f32', '(16,16,1):(16,1,0)', (R=4, R=4, null), 'C', (128, 128, 8))"


def test_a_tiled_mma_shows_how_it_follows() -> None:
    text = shown(MMA)
    assert re.search(r"^shape +128 x 128: 16384 elements$", text, re.M)
    assert re.search(r"^M +1 +16 +16 +\(16,4\):\(4,1\) +64 +2 +4 x 2 +4 +128$", text, re.M)
    assert re.search(r"^4\* +0-3 64-67 +4 x 2 .* 12 of 12$", text, re.M)


def test_a_tiled_mma_as_data() -> None:
    described = data(MMA)
    assert described["shape"] == [128, 128] and described["mma"]["modes"][0]["run"] == 4
    assert "mma" not in data(MMA, "--at", "5,5") and "mma" not in data("S[(8, 8)]")


def test_a_tiled_mma_is_drawn_over_its_tile() -> None:
    """warp 1 is the next block of rows, warp 2 of columns: atoms are column-major, as in CuTe."""
    cells = data("tiled_mma('mma.m16n8k16', (2, 2, 1), None, 'C', (32, 32, 16))", "--draw")["picture"]["cells"]
    assert (len(cells), len(cells[0])) == (32, 32)
    assert [cells[16][0], cells[0][8], cells[0][16]] == ["1:0.0", "2:0.0", "0:0.4"]
    assert shown(MMA, "--shape", "64,256", "--at", "0,1").count("\n") == 2  # a shape that is asked for is taken


def test_a_tiled_mma_that_cannot_be_has_its_place() -> None:
    result = run(MMA.replace("R=4, R=4", "R=4, 'R5'"))
    assert result.exit_code == 1 and "the permutation of N, 'R5'" in result.stderr and "^^^^" in result.stderr
