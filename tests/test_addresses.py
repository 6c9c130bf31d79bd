"""Addresses are what a person would write: a table of hand-written ones; the generated have no more operators."""

from __future__ import annotations

import random
import re

import pytest
from specs.kernels import ROOT, build_spec

from tilegen.index import compile_text

# spec: {(function, array): addresses in the order in which the function's text has them}
BY_HAND = {
    "permute_sf": {
        ("copy_In_A", "A"): ["i * 128 + laneid * 4"],
        ("copy_In_A", "In"): ["i * 128 + laneid * 4"],
        ("permute_A_B", "A"): ["d * 32 + laneid"],
        ("permute_A_B", "B"): ["laneid * 4"],
        ("permute_sf", "A"): ["s * 128"],
        ("permute_sf", "B"): ["s * 128"],
    },
    "transpose_tile": {  # row i * 4 + tx / 64, column tx % 64 of a 64x64 tile
        ("copy_X_tile", "X"): ["i * 4000"],  # from the thread's own place on: the edge guards each access
        ("copy_X_tile", "tile"): ["(i * 4 + (tx >> 6)) * 65 + (tx & 63)"],
        ("copy_tileT_Y", "tileT"): [  # four rows of a column: 8 x 4 lanes a warp, 2 x 4 warps, 16 columns a step
            "(((tx >> 5) & 1) * 32 + (tx & 7) * 4 + r) * 65 + i * 16 + (tx >> 6) * 4 + ((tx >> 3) & 3)",
        ],
        ("copy_tileT_Y", "Y"): ["i * 16384"],
        ("transpose_tile", "X"): ["(by * 64 + (tx >> 6)) * 1000 + bx * 64 + (tx & 63)"],
        ("transpose_tile", "Y"): [
            "(bx * 64 + (tx >> 6) * 4 + ((tx >> 3) & 3)) * 1024 + by * 64 + ((tx >> 5) & 1) * 32 + (tx & 7) * 4",
        ],
    },
    "mma_fragments": {  # PTX's tables: row laneid / 4 (+ 8), columns laneid % 4 * 2 (+ 8)
        ("copy_sa_a", "sa"): ["(laneid & 15) * 16 + (laneid >> 4) * 8"],  # the rows whose addresses ldmatrix takes
        ("copy_sb_b", "sb"): ["(laneid & 15) * 8"],
        ("copy_C_c", "C"): ["f * 64 + laneid * 2"],
        ("copy_a_AOut", "AOut"): ["((laneid >> 2) + (f & 1) * 8) * 16 + (laneid & 3) * 2 + (f >> 1) * 8"],
        ("copy_b_BOut", "BOut"): ["((laneid & 3) * 2 + (f & 1) + (f >> 1) * 8) * 8 + (laneid >> 2)"],
        ("copy_sa_a", "a"): ["0"],
    },
    "swizzled_tile": {  # row i * 4 + laneid / 8, chunk laneid % 8 xor row; a column of t read row by row
        ("copy_In_t", "t"): ["(i * 4 + (laneid >> 3)) * 64 + ((laneid & 7) ^ (i * 4 + (laneid >> 3))) * 8"],
        ("copy_In_t", "In"): ["i * 256 + laneid * 8"],
        ("copy_tT_Out", "tT"): ["r * 64 + ((i * 32 + laneid) ^ (r * 8))"],
        ("copy_tT_Out", "Out"): ["(i * 32 + laneid) * 8"],
    },
    "rows_any_size": {  # element i * 128 + tx of the eight rows of batch j2 of a 16x256 tile
        ("copy_X_t", "X"): ["(j2 * 8 + (i >> 1)) * ldx + (i & 1) * 128 + tx"],
        ("copy_X_t", "t"): ["j2 * 2048 + i * 128 + tx"],
        ("copy_t_Y", "Y"): ["(j2 * 8 + (i >> 1)) * N + (i & 1) * 128 + tx"],
        ("rows_any_size", "X"): ["(size_t)(bx * 16) * ldx + j * 256"],
        ("rows_any_size", "Y"): ["(size_t)(bx * 16) * N + j * 256"],
    },
    "permute_sf_bytes": {  # a lane turns a 2x2 block
        ("permute_A_B", "A"): ["((laneid >> 4) * 2 + d) * 32 + (laneid & 15) * 2"],
        ("permute_A_B", "B"): [
            "(laneid & 15) * 8 + (laneid >> 4) * 2",
            "((laneid & 15) * 2 + 1) * 4 + (laneid >> 4) * 2",
        ],
        ("permute_sf_bytes", "In"): ["(bx * 8 + warpid) * 128"],
    },
    "permute_f64": {  # rows d and columns of 8x8 blocks of 2x2 elements, the lanes along diagonals
        ("permute_A_B", "A"): ["((laneid & 7) * 2 + d) * 16 + ((laneid & 7) ^ (laneid >> 3) ^ (r * 4)) * 2"],
        ("permute_A_B", "B"): [
            "(laneid & 7) * 2 + ((laneid & 7) ^ (laneid >> 3) ^ (r * 4)) * 32",
            "(laneid & 7) * 2 + (((laneid & 7) ^ (laneid >> 3) ^ (r * 4)) * 2 + 1) * 16",
        ],
    },
    "permute_c128": {
        ("permute_A_B", "A"): [
            "((r >> 2) * 8 + (laneid & 7)) * 16 + ((laneid & 7) ^ (laneid >> 3) ^ ((r & 3) * 4))",
        ],
        ("permute_A_B", "B"): [
            "(r >> 2) * 8 + (laneid & 7) + ((laneid & 7) ^ (laneid >> 3) ^ ((r & 3) * 4)) * 16",
        ],
    },
}  # fmt: skip
RANGES = {"laneid": 32, "warpid": 8, "bx": 60, "by": 16, "s": 2, "j": 3, "N": 777, "ldx": 900}  # and tx, and loops
_TOKEN = re.compile(r"\s*(?:(?P<operator><<|>>|[-+*/%&|^])|(?P<other>\(size_t\)|\w+|[()?:<]))")
_ROWS = [(spec, *key) for spec, rows in BY_HAND.items() for key in rows]


@pytest.mark.parametrize(("spec", "function", "array"), _ROWS, ids=["-".join(row) for row in _ROWS])
def test_no_more_operators_than_by_hand(spec, function, array):
    built = build_spec(ROOT / "specs" / f"{spec}.yaml")
    body = function_body(built.source, function)
    loops = {name: int(n) for name, n in re.findall(r"for \(int (\w+) = 0; \1 < (\d+);", body)}
    generated, by_hand = find_addresses(body, array), BY_HAND[spec][function, array]
    assert len(generated) == len(by_hand), generated
    for mine, theirs in zip(generated, by_hand, strict=True):
        ranges = RANGES | {"tx": built.plan.threads} | loops
        assert same_address(mine, theirs, ranges), f"the table is wrong: {theirs} is not {mine}"
        assert count_operators(mine) <= count_operators(theirs), f"{mine} has more operators than {theirs}"


def function_body(source: str, function: str) -> str:
    """What stands between the braces of a function."""
    match = re.search(rf"\b{function}\([^;{{]*\)\n{{\n(.*?)\n}}\n", source, re.S)
    assert match, f"no function {function}"
    return "\n".join(line.split("//")[0] for line in match[1].splitlines() if "__shared__" not in line)


def find_addresses(body: str, array: str) -> list[str]:
    """The subscripts of an array, in order.

    >>> find_addresses("*(uint4 *)&A[i * 4] = A[lane];", "A")
    ['i * 4', 'lane']
    """
    return [" ".join(text.split()) for text in re.findall(rf"\b{array}\[([^]]*)\]", body)]


def count_operators(text: str) -> int:
    """Arithmetic operators of a C expression.

    >>> count_operators("(size_t)(bx * 16) * ldx + (tx >> 2)")
    4
    """
    count, at = 0, 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token, f"no C token at {text[at:]!r}"
        count += token["operator"] is not None
        at = token.end()
    return count


def same_address(a: str, b: str, ranges: dict[str, int]) -> bool:
    """Equal at 300 random points of the variables' ranges."""
    rng = random.Random(7)
    codes = [compile_text(text) for text in (a, b)]
    points = ({name: rng.randrange(n) for name, n in ranges.items()} for _ in range(300))
    return all(len({eval(code, {"__builtins__": {}}, dict(p)) for code in codes}) == 1 for p in points)
