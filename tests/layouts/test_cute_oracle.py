"""tilegen's cute against what pycute and the CuTe C++ headers answered.

Every case passes with identical shapes and strides; there is no exception. Where the two peers part, tilegen goes by
the law (the tests at the end hold each):
* composition refuses what would break (A o B)(i) = A(B(i)); CuTe C++, and pycute where modes carry, return it.
* logical_product(layout, int) multiplies; pycute's divides.
* left_inverse of a strided layout keeps gaps injective, as pycute; where a gap is no whole number of strides pycute
  breaks the law, and tilegen answers as CuTe C++. A stride of 0 has no left inverse; both return one.
* right_inverse passes over strides of 0, as CuTe C++; pycute stops at them.
* A mode of one element places nothing; its stride in a composition is chosen as CuTe chooses it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tilegen.errors import LayoutError
from tilegen.layouts import cute

from .recorded import load_cases, load_document, parameters

ALGEBRA, VECTORS = "cute_algebra.json", "cute_vectorize.json"
OPERATIONS = {
    "coalesce_profile": "coalesce",
    "logical_divide_bymode": "logical_divide",
    "logical_product_int": "logical_product",
    "complement_nondivisible": "complement",
}


def recorded(swizzles: bool) -> list[Any]:
    return parameters(c for c in load_cases(ALGEBRA) if c["op"].startswith("swizzle") == swizzles)


def build(value: Any) -> Any:
    """Layouts of {shape, stride}, tuples of lists; ints stay."""
    if isinstance(value, dict):
        return cute.CuteLayout(value["shape"], value["stride"])
    return tuple(map(build, value)) if isinstance(value, list) else value


def answer(case: dict[str, Any]) -> Any:
    if case["op"] == "swizzle":
        return cute.Swizzle(*case["args"][0])
    return getattr(cute, OPERATIONS.get(case["op"], case["op"]))(*map(build, case["args"]))


def digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, separators=(",", ":")).encode()).hexdigest()


@pytest.mark.parametrize("case", recorded(swizzles=False))
def test_algebra(case: dict[str, Any]) -> None:
    result = answer(case)
    assert result == build(case["result"])
    if image := case.get("image"):
        assert [result(i) for i in range(cute.size(result))] == image
    assert cute.parse(str(result)) == result


@pytest.mark.parametrize("case", recorded(swizzles=True))
def test_swizzle(case: dict[str, Any]) -> None:
    swizzle = cute.Swizzle(*case["args"][0])
    if case["op"] == "swizzle":
        values = [swizzle(x) for x in range(case["size"])]
        assert swizzle.size == case["size"]
        assert {int(x): values[int(x)] for x in case["sample"]} == {int(x): y for x, y in case["sample"].items()}
        assert digest(values) == case["sha256"]
        assert (sorted(values) == list(range(case["size"]))) == case["bijective"]
        return
    composed = cute.composition(swizzle, build(case["args"][1]))
    height, width = composed.layout.shape
    rows = [[composed(i, j) for j in range(width)] for i in range(height)]
    assert [row[:16] for row in rows] == case["first_rows"]
    assert digest(rows) == case["sha256_rows"]


@pytest.mark.parametrize("case", parameters(load_document(ALGEBRA)["about"]["negative_and_traps"]))
def test_traps(case: dict[str, Any]) -> None:
    if str(case.get("expect")).startswith("reject"):
        with pytest.raises(LayoutError):
            answer(case)
        return
    expected = case["result"] if "result" in case else case["expect"]
    assert answer(case) == build(expected)


@pytest.mark.parametrize("case", parameters(load_cases(VECTORS)))
def test_vectors(case: dict[str, Any]) -> None:
    src, dst, bits = build(case["src"]), build(case["dst"]), case["elem_bits"]
    assert cute.max_common_vector(src, dst) == case["max_common_vector"]
    assert str(cute.max_common_layout(src, dst)) == case["max_common_layout"]
    assert cute.max_alignment(src) == case["max_alignment_src"]
    assert cute.max_alignment(dst) == case["max_alignment_dst"]
    assert cute.common_vector_bits(src, dst, bits) == case["vec_bits_cap128"]


# ---------------------------------------------------------------- known answers of CuTe C++ (CUTLASS 4.2)
@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("composition(P('(4,2,8):(3,12,97)'), P('3:3'))", "3:9"),  # docs: an apparent violation of divisibility
        ("composition(P('(10,2):(16,4)'), P('3:4'))", "3:64"),
        ("composition(P('(4,2):(1,5)'), P('(4,2):(0,4)'))", "(4,2):(0,5)"),
        ("composition(P('(4,2):(1,5)'), P('(1,2):(2,4)'))", "(1,2):(5,5)"),
        ("complement(P('(2,2):(1,3)'), 40)", "7:6"),
        ("right_inverse(P('(2,4):(0,1)'))", "4:2"),
        ("right_inverse(P('(4,2,2):(1,2,4)'))", "4:1"),
        ("left_inverse(P('(4,2):(1,10)'))", "(10,2):(1,4)"),
        ("left_inverse(P('(4,2,3):(1,10,20)'))", "(10,6):(1,4)"),
        ("logical_divide(P('(8,6)'), (None, 3))", "(8,(3,2)):(1,(8,24))"),
        ("logical_divide(P('(8,1):(1,0)'), P('3:1'))", "(3,3):(1,3)"),
        ("zipped_divide(P('(8,6)'), (4,))", "((4),(2,6)):((1),(4,8))"),
        ("tiled_divide(P('(8,6)'), (4, 3))", "((4,3),2,2):((1,8),4,24)"),
        ("tiled_divide(P('(8,6)'), P('4:1'))", "(4,12):(1,4)"),
        ("flat_divide(P('(8,6)'), (4, 3))", "(4,3,2,2):(1,8,4,24)"),
        ("logical_product(P('(2,5):(5,1)'), (3, 4))", "((2,3),(5,4)):((5,1),(1,5))"),
        ("zipped_product(P('(2,5):(5,1)'), (3, 4))", "((2,5),(3,4)):((5,1),(1,5))"),
        ("tiled_product(P('(2,5):(5,1)'), P('(3,4)'))", "((2,5),3,4):((5,1),10,30)"),
        ("blocked_product(P('(2,5):(5,1)'), P('(3,4)'))", "((2,3),(5,4)):((5,10),(1,30))"),
        ("blocked_product(P('4:1'), P('(3,4)'))", "((4,3),(1,4)):((1,4),(0,12))"),
        ("raked_product(P('(2,5):(5,1)'), P('(3,4)'))", "((3,2),(4,5)):((10,5),(30,1))"),
        ("coalesce(P('(2,1,1):(1,5,2)'), (1, (1,)))", "(2,(1),1):(1,(0),2)"),
    ],
)
def test_cute_cpp(expression: str, text: str) -> None:
    assert str(eval(expression, {"P": cute.parse, **vars(cute)})) == text


# ---------------------------------------------------------------- where the peers part from the law, or from each other
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("(4,6,8):(2,3,5)", "6:3"),
        ("(6,2):(1,7)", "(3,2):(2,3)"),
        ("(4,2,8):(3,15,97)", "3:3"),
        ("(10,2):(16,4)", "6:4"),  # CuTe C++ returns (3,2):(64,4): at 3 that is 4, but A(12) = 36
        ("(4,6):(2,3)", "2:6"),  # CuTe C++ returns 2:6, but A(6) = 7
        ("(3,2):(1,18)", "8:1"),  # pycute returns six elements
    ],
)
def test_unlawful_compositions_are_refused(a: str, b: str) -> None:
    with pytest.raises(LayoutError):
        cute.composition(cute.parse(a), cute.parse(b))


def test_left_inverses_keep_gaps_injective() -> None:
    assert str(cute.left_inverse(cute.parse("4:2"))) == "(2,4):(4,1)"  # CuTe C++: (2,4):(0,1)
    assert str(cute.left_inverse(cute.parse("(4,2):(1,16)"))) == "(4,4,2):(1,8,4)"  # CuTe C++: (16,2):(1,4)
    with pytest.raises(LayoutError, match="stride of 0"):
        cute.left_inverse(cute.parse("(4,3):(0,1)"))  # pycute: 1:0, CuTe C++: 3:4
