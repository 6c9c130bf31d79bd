"""The text form: parse reads what str writes, and refuses the rest at a place, fast."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen.errors import LayoutError
from tilegen.index import Var
from tilegen.layouts import Iter, Layout, SwizzleLayout, TileLayout, mma_fragment, parse, row_major, wg_local_layout

from .strategies import LAYOUTS, law


@law
@given(LAYOUTS)
def test_parse_inverts_str(layout: Layout) -> None:
    assert parse(str(layout)) == layout


@pytest.mark.parametrize(
    ("text", "expect"),
    [
        ("S[8:1]", "S[8:1]"),
        ("S[(8,8)]", "S[(8, 8):(8, 1)]"),
        ("S[8]", "S[8:1]"),
        (" S [ ( 8 , 2 ) : ( 4 @ laneid , 1 ) ] ", "S[(8, 2):(4@laneid, 1)]"),
        ("S[(8,64):(64@m,1@m)]", "S[(8, 64):(64, 1)]"),
        ("S[(8,)]", "S[8:1]"),
        ("S[(32,4):(1@TLane,1@TCol)]+R[4:32@TLane]", "S[(32, 4):(1@TLane, 1@TCol)] + R[4:32@TLane]"),
        ("S[8:1] + R[(2,2):(8,16)] + R[2:1@warpid]", "S[8:1] + R[(2, 2, 2):(8, 16, 1@warpid)]"),
        ("S[8:1] + 3 + 5@warpid", "S[8:1] + 5@warpid + 3"),
        ("S[8:1] + 2*3@warpid + 1@warpid", "S[8:1] + 7@warpid"),
        ("S[(2*4, 9 - 1):((4+4)*1@laneid, 7 // 2 % 2)]", "S[(8, 8):(8@laneid, 1)]"),
        ("S[(2+2)*2:1]", "S[8:1]"),
        ("Swizzle(3,3,3)", "Swizzle(3, 3, 3)"),
        ("Swizzle(0, 3, 3, inner=False)", "Swizzle(0, 3, 3, inner=False)"),
        ("SwizzleLayout(per_element=3, swizzle_len=3, atom_len=3)", "Swizzle(3, 3, 3)"),
        ("Swizzle(3,3,3) o S[(8,64):(64,1)]", "Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]"),
        ("Compose(Swizzle(3,3,3), S[(8,64)] + 128)", "Swizzle(3, 3, 3) o S[(8, 64):(64, 1)] + 128"),
        ("ComposeLayout(SwizzleLayout(3,3,3), S[(8,64)])", "Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]"),
        ("wg_local_layout(16)", str(wg_local_layout(16))),
        ("wg_local_layout(cols=16, rows=64)", str(wg_local_layout(16, 64))),
        ("mma_fragment('m16n8k16','A')", str(mma_fragment("m16n8k16", "A"))),
        ('mma_fragment("m16n8k16", "B", (32, 16))', str(mma_fragment("m16n8k16", "B", (32, 16)))),
    ],
)
def test_forms(text: str, expect: str) -> None:
    assert str(parse(text)) == expect


def test_names() -> None:
    assert parse("S[(32, chunks*4):(1@TLane, 1@TCol)]", {"chunks": 2}) == parse("S[(32, 8):(1@TLane, 1@TCol)]")
    m, n = Var("M", 4096, 1, 1), Var("N", 4096, 8, 1)
    layout = parse("S[(M, N // 8, 8):(N + 8, 8, 1)]", {"M": m, "N": n})
    assert layout == TileLayout((Iter(m, n + 8), Iter(n // 8, 8), Iter(8, 1)))
    assert parse(str(layout), {"M": m, "N": n}) == layout
    assert parse("S[(M, N)]", {"M": m, "N": n}) == row_major((m, n))


SEED = "PaddedSharedLayout([[2, 2]], [[2], [1]], [], [8])"  # seeds/padded_shared_layout.txt, second example, as printed
ERRORS = [
    ("S[8:1@lane_id]", "TG104", "lane_id", "laneid"),
    ("S[8:1] + 5@warp", "TG104", "warp", "warpid"),
    ("S[8:1] + R[2:1@TLanes]", "TG104", "TLanes", "TLane"),
    ("S[8:1@zzz]", "TG104", "zzz", "laneid"),
    ("S[(8, 2):(1)]", "TG201", "S[(8, 2):(1)]", ""),
    ("S[8:(1, 2)]", "TG201", "S[8:(1, 2)]", ""),
    ("S[(8, 0):(1, 1)]", "TG201", "S[(8, 0):(1, 1)]", ""),
    ("S[8:-1]", "TG201", "S[8:-1]", ""),
    ("S[8:1] + (0 - 1)@m", "TG201", "S[8:1] + (0 - 1)@m", ""),
    ("S[M:1]", "TG201", "M", "none here"),
    ("S[8 // 0:1]", "TG201", "//", ""),
    ("S[9999999999999999999999:1]", "TG201", "9999999999999999999999", ""),
    ("S[99999999999 * 99999999999:1]", "TG201", "*", ""),
    ("Swizzle(3, 3, 2)", "TG201", "Swizzle(3, 3, 2)", "at least 3"),
    ("Swizzle(3, 3)", "TG105", "Swizzle(3, 3)", "Swizzle(3, 3, 3)"),
    ("Swizzle(3, 3, 3, outer=True)", "TG105", "outer", "inner"),
    ("Swizzle(3, 3, 3) o Swizzle(3, 3, 3)", "TG105", "Swizzle", ""),
    ("Swizzle(3, 3, 3) o S[8:1@laneid]", "TG201", "S[8:1@laneid]", ""),
    ("PaddedSharedLayout([[32, 4]])", "TG105", "PaddedSharedLayout([[32, 4]])", ""),
    (SEED, "TG201", SEED, "[4]"),
    (SEED.replace("[[2, 2]]", "[[3, 2]]"), "TG201", SEED.replace("[[2, 2]]", "[[3, 2]]"), "2 and 4"),
    ("PaddedSharedLayout([[32, 4], order=[0])", "TG201", "order", "none here"),
    ("PaddedSharedLayout.identity([[32, 4]])", "TG105", "PaddedSharedLayout.identity", "with_identity_for"),
    ("PaddedSharedLayout(" + "[" * 40 + "]" * 40 + ")", "TG105", "[", ""),
    ("Swizle(3, 3, 3)", "TG105", "Swizle", "Swizzle"),
    ("T[8:1]", "TG105", "T", "S"),
    ("S[8:1", "TG105", "", ""),
    ("S[8:1]]", "TG105", "]", ""),
    ("S[8:1] S[8:1]", "TG105", "S", ""),
    ("S[8;1]", "TG105", ";", ""),
    ("S[8:1@]", "TG105", "]", ""),
    ("S[(8, (2, 2)):(1, 8)]", "TG105", ",", ""),
    ("S[((8), 2):(1, 8)", "TG105", "", ""),
    ("S[:1]", "TG105", ":", ""),
    ("S[8:1] +", "TG105", "", ""),
    ("", "TG105", "", "a layout starts"),
    ("mma_fragment('m16n8k512', 'A')", "TG201", "mma_fragment('m16n8k512', 'A')", "m16n8k16"),
    ("mma_fragment('m16n8k16', 'A', (24, 16))", "TG201", "mma_fragment('m16n8k16', 'A', (24, 16))", ""),
    ("wg_local_layout()", "TG105", "wg_local_layout()", ""),
    ("wg_local_layout(16, 129)", "TG201", "wg_local_layout(16, 129)", ""),
    ("__import__('os')", "TG105", "__import__", ""),
]


@pytest.mark.parametrize("text", ["8:1", "(8, 8):(8, 1)"])
def test_later_kinds_say_so(text: str) -> None:
    with pytest.raises(LayoutError, match="not yet supported"):
        parse(text)


@pytest.mark.parametrize(("text", "code", "marked", "hint"), ERRORS)
def test_errors_have_a_place_and_a_code(text: str, code: str, marked: str, hint: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse(text)
    error = caught.value
    assert error.code == code
    assert error.span is not None
    assert text[slice(*error.span)] == marked
    assert hint in error.hint


HOSTILE = [
    "(" * 100_000, "S[" + "(" * 2000 + "8" + ")" * 2000 + ":1]", "S[" + "-" * 3000 + "1:1]", "S[8:1]" + " + 1" * 900,
    "S[(" + "8," * 1500 + "8)]", "S[" + "9" * 3000 + ":1]", "S[" + "*".join(["9999999999"] * 300) + ":1]",
    "S[" + "*".join(["M"] * 1500) + ":1]", "S[" + "*".join(["B"] * 1500) + ":1]", "Swizzle(" * 400,
    "Compose(" * 400, "S[8:1] + R[" * 300, "S[" + "+".join(["M"] * 1500) + ":1]", "'" * 4000, "Swizzle(3,3,9999999999)",
    "wg_local_layout(" + "1," * 1500 + ")", "\x00", "S[8:1]\u0661", "S[(" + "(" * 1300 + ")" * 1300, "S[8:1] o " * 300,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: t[:24])
def test_hostile_text_takes_few_calls(text: str) -> None:
    calls = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        with suppress(LayoutError):
            parse(text, {"M": Var("M", 8, 1, 1), "B": Var("B", 2)})
    finally:
        sys.setprofile(before)
    assert calls < 30 * len(text) + 10_000


@law
@given(st.text(alphabet="S[](),:+@*%/-o8 1RMlaneid'=", max_size=40))
def test_any_text_is_a_layout_or_a_layout_error(text: str) -> None:
    for attempt in (text, f"S[{text}]", f"S[8:1]{text}"):
        try:
            layout = parse(attempt, {"M": 4})
        except LayoutError as error:
            assert error.span is not None and error.code in ("TG104", "TG105", "TG201")
        else:
            assert isinstance(layout, (TileLayout, SwizzleLayout)) or layout.tile
