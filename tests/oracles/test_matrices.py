"""copy's ldstmatrix: every fragment of 16-bit elements through it, both ways, and a reason wherever it cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracles.kernels import LOAD, STORE, build, choice, register_round_trip, whole

SWIZZLED = "Swizzle(3,3,3) o S[(64,64):(64,1)]"


def round_trip(
    registers: str, shape: list[int], shared: str, scope: str = "warp", dtype: str = "float16", arch: str = "sm_90",
    variant: str = "auto",
) -> list[Any]:  # fmt: skip
    text = register_round_trip(scope, dtype, shape, registers, shared, shape, whole(shape), None, variant)
    return build(text.replace("arch: sm_90", f"arch: {arch}"))[1]


def refusal(op: Any) -> str:
    return next((r["reason"] for r in op["refused"] if r["variant"] == "ldstmatrix"), "")


FRAGMENTS = [
    ("mma_fragment('m16n8k16', 'A')", [16, 16], 4), ("mma_fragment('m16n8k16', 'A', (64, 64))", [64, 64], 4),
    ("mma_fragment('m16n8k8', 'A')", [16, 8], 2), ("mma_fragment('m16n8k16', 'B')", [16, 8], 2),
    ("mma_fragment('m16n8k16', 'B', (64, 32))", [64, 32], 4), ("mma_fragment('m16n8k8', 'B')", [8, 8], 1),
    ("mma_fragment('m16n8k16', 'C')", [16, 8], 2), ("mma_fragment('m16n8k16', 'C', (32, 64))", [32, 64], 4),
    ("ldmatrix_fragment(1)", [1, 8, 8], 1), ("ldmatrix_fragment(2, trans=True)", [2, 8, 8], 2),
    ("ldmatrix_fragment(4)", [4, 8, 8], 4), ("ldmatrix_fragment(4, trans=True)", [4, 8, 8], 4),
    ("wgmma_accumulator(64)", [64, 64], 4), ("wgmma_accumulator(8)", [64, 8], 2),
    ("wgmma_operand_a('bfloat16')", [64, 16], 4),
]  # fmt: skip


@pytest.mark.sweep(6)
@pytest.mark.parametrize("turned", [False, True], ids=["row", "col"])
@pytest.mark.parametrize(("fragment", "shape", "matrices"), FRAGMENTS, ids=[f[0] for f in FRAGMENTS])
def test_a_fragment_takes_as_many_matrices_as_it_has(fragment, shape, matrices, turned):
    """Rows of 8 or more elements, contiguous along either dimension: one of the two ways round is .trans."""
    strides = [64, 1, 8] if len(shape) == 3 else [1, shape[0]]
    shared = f"S[({','.join(map(str, shape))}):({','.join(map(str, strides))})]" if turned else "row"
    scope = "warpgroup" if "wgmma" in fragment else "warp"
    ops = round_trip(fragment, shape, shared, scope, variant="ldstmatrix")
    picked = [choice(ops[k], "matrices") for k in (LOAD, STORE)]
    assert [ops[k]["variant"] for k in (LOAD, STORE)] == ["ldstmatrix"] * 2
    assert picked == [{"matrices": matrices, "trans": picked[0]["trans"]}] * 2
    is_b, is_trans = "'B'" in fragment, "trans=True" in fragment
    assert picked[0]["trans"] == ((is_b or is_trans) != turned)
    for k, kind in ((LOAD, "ld"), (STORE, "st")):
        assert [a["kind"] for a in ops[k]["accesses"]] == [f"{kind}matrix{matrices}"]


@pytest.mark.parametrize("shared", [SWIZZLED, "S[(64,64):(72,1)]"], ids=["swizzled", "padded"])
def test_it_beats_plain_accesses_without_a_conflict(shared):
    ops = round_trip("mma_fragment('m16n8k16', 'B', (64, 64))", [64, 64], shared)
    for op in (ops[LOAD], ops[STORE]):
        (access,) = op["accesses"]
        assert access["wavefronts"] == access["floor"] == access["bytes_floor"] == 64
        lost = next(r for r in op["refused"] if r["variant"] == "reg")
        assert lost["cost"]["wavefronts"] > 64 or lost["cost"]["instructions"] > op["cost"]["instructions"]


@pytest.mark.parametrize("dtype", ["bfloat16", "int16", "uint16"])
def test_every_type_of_two_bytes(dtype):
    ops = round_trip("mma_fragment('m16n8k16', 'A')", [16, 16], "row", dtype=dtype)
    assert [ops[k]["variant"] for k in (LOAD, STORE)] == ["ldstmatrix"] * 2


A = "mma_fragment('m16n8k16', 'A')"
C = "mma_fragment('m16n8k16', 'C')"
TILE, ROWS = [16, 16], "S[(16,16):(1@laneid,1)]"
REFUSED = [
    ((C, [16, 8], "row", "warp", "float32"), LOAD, "2 bytes, float32 has 4"),
    ((A, TILE, "S[(16,16):(18,1)]"), LOAD, "not 16 aligned, contiguous bytes"),
    ((A, TILE, "Swizzle(2,3,3) o S[(16,16):(16,1)]"), STORE, "its layout keeps 4 together"),
    ((A, TILE, "S[(16,2,8):(16,1,2)]"), LOAD, "no 8 x 8 fragment of rows in s"),
    (("S[(32,8):(1@laneid,1)]", [32, 8], "row"), LOAD, "no 8 x 8 fragment of rows in s"),
    ((ROWS, TILE, "row"), LOAD, "do not each hold elements of their own"),
    ((f"{ROWS} + 8@laneid", TILE, "row"), LOAD, "begins at another lane than 0"),
    (("S[(8,4,2):(4@laneid,1@laneid,4)]", [8, 8], "row"), LOAD, "one 32-bit register"),
    ((A, TILE, "row", "warp", "float16", "sm_80"), STORE, "sm_80 has no stmatrix"),
]


@pytest.mark.parametrize(("case", "number", "why"), REFUSED, ids=[r[2] for r in REFUSED])
def test_it_says_why_it_cannot(case, number, why):
    ops = round_trip(*case)  # another variant carries it out
    assert ops[number]["variant"] == "reg"
    assert why in refusal(ops[number])
