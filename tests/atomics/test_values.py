"""What kernels that accumulate come to, against NumPy's own sums, and by which instructions."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from tests.atomics.kernels import boxes_by_tma, global_sums, rows_by_index, shared_sums
from tests.faults.verdicts import refusal_of
from tilegen.arithmetic import TYPED, UPDATES
from tilegen.arithmetic.bounded import make_bounded
from tilegen.arithmetic.modular import make_modular
from tilegen.dtypes import numpy_dtype
from tilegen.errors import SpecError
from tilegen.interpret import interpret
from tilegen.pipeline import Built, build
from tilegen.plan import Move, find_updates, flatten, list_updates
from tilegen.reference import run_reference
from tilegen.render import render, render_launcher
from tilegen.report import explain_plan
from tilegen.spec.outline import launch_of

INTEGERS = ("int32", "uint32", "int64", "uint64")
OF_NUMPY = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
            "xor": np.bitwise_xor}  # fmt: skip
CASES = [(f, d) for d in INTEGERS for f in UPDATES] + [
    ("add", d) for d in ("float16", "bfloat16", "float32", "float64")
]
CTAS = [(x, 0, 0) for x in range(4)]


def draw(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """All bits of integers; floats whose sums every dtype holds exactly."""
    rng = np.random.default_rng(seed)
    if dtype in INTEGERS:
        return rng.integers(0, 256, (*shape, numpy_dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]
    return rng.integers(-4, 5, shape).astype(numpy_dtype(dtype))


def updates_of(built: Built) -> set[tuple[str, int]]:
    """The functions of atomic updates of a kernel, each with how many elements it updates at once."""
    steps = [s for role in built.plan.roles for s in flatten(role.steps) if isinstance(s, Move)]
    return {(s.via.function, s.elems) for s in steps if s.via.function}


@pytest.mark.parametrize(("function", "dtype"), CASES)
def test_global_sums_are_numpys(function: str, dtype: str) -> None:
    built = build(global_sums(function, dtype))
    x, before = draw(dtype, (16, 64), 1), draw(dtype, (64,), 2)
    given = {"X": lambda at: x.ravel()[at], "S": lambda at: before[at]}
    want = before.copy()
    for row in x:
        want = OF_NUMPY[function](want, row).astype(want.dtype)
    for at, got in (
        interpret(built.plan, CTAS, given).written["S"], run_reference(built.spec, CTAS, given, {})["S"],
    ):  # fmt: skip
        assert at.tolist() == list(range(64))
        assert np.array_equal(np.ascontiguousarray(got).view(want.dtype), want)
    assert updates_of(built) == {(function, 1)}, "a row of 64 threads, one element each"


@pytest.mark.parametrize("function", UPDATES)
def test_shared_sums_are_numpys(function: str) -> None:
    text = shared_sums(dtype="uint32").replace("accumulate: add", f"accumulate: {function}")
    built, x = build(text), draw("uint32", (16, 16), 3)
    at, got = interpret(built.plan, CTAS, {"X": lambda at: x.ravel()[at]}).written["Y"]
    want = np.zeros((4, 16), np.uint32)
    for row in range(4):
        want = OF_NUMPY[function](want, x.reshape(4, 4, 16)[:, row])
    assert np.array_equal(got, want.ravel()) and len(at) == 64


WIDEST = {
    ("float32", "sm_90"): 4, ("float32", "sm_80"): 1, ("bfloat16", "sm_90"): 8, ("float16", "sm_90"): 8,
    ("float16", "sm_80"): 2, ("float64", "sm_90"): 1, ("int32", "sm_90"): 1, ("int64", "sm_80"): 1,
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "arch"), WIDEST)
def test_the_widest_that_the_arch_has_is_taken(dtype: str, arch: str) -> None:
    """A warp has rows of 128 elements; a candidate that no instruction has is none."""
    built = build(rows_by_index(dtype=dtype, arch=arch))
    assert updates_of(built) == {("add", WIDEST[dtype, arch])}
    costed = built.plan.operations[0].choices
    widths = next(c for c in costed if c.question == "vector_width")
    forms = list_updates("add", dtype, "global", {"red_vectors", "red_bf16"} if arch == "sm_90" else set())
    stored = {c.value.get("store_bytes", c.value["bytes"]) // numpy_dtype(dtype).itemsize for c in widths.candidates}
    assert stored <= set(forms)


def test_rows_by_index_meet_in_one_row() -> None:
    built = build(rows_by_index("add", "int32"))
    ids, x = np.arange(37) % 3 * 4, draw("int32", (37, 128), 4)
    before = draw("int32", (9, 128), 5)
    given = {"ids": lambda at: ids.astype(np.int32)[at], "X": lambda at: x.ravel()[at],
             "Y": lambda at: before.ravel()[at]}  # fmt: skip
    at, got = interpret(built.plan, [(k, 0, 0) for k in range(10)], given, {"T": 37}).written["Y"]
    want = before.copy()
    np.add.at(want, ids, x)
    assert np.array_equal(got, want.ravel()[at]) and set(at // 128) == {0, 4, 8}


@pytest.mark.parametrize(
    ("function", "dtype"), [("add", "float32"), ("add", "int64"), ("max", "int64"), ("xor", "int32")]
)
def test_boxes_are_numpys(function: str, dtype: str) -> None:
    built = build(boxes_by_tma(function, dtype))
    x, before = draw(dtype, (128, 64), 6), draw(dtype, (64, 64), 7)
    given = {"X": lambda at: x.ravel()[at], "S": lambda at: before.ravel()[at]}
    _, got = interpret(built.plan, [(a, b, 0) for a in range(4) for b in range(2)], given).written["S"]
    want = before
    for half in (x[:64], x[64:]):
        want = OF_NUMPY[function](want, half)
    assert np.array_equal(got, want.ravel())
    kinds = {"float32": "FLOAT32", "int32": "UINT32", "int64": "UINT64" if function == "add" else "INT64"}
    assert f"CU_TENSOR_MAP_DATA_TYPE_{kinds[dtype]}" in render_launcher(built.plan)


# ---------------------------------------------------------------- what archs lack
REFUSED = {
    "bfloat16 on sm_80": (
        global_sums(dtype="bfloat16", arch="sm_80"),
        "sm_80 has no atomic 'add' of bfloat16, which came with sm_90",
    ),
    "float64 by TMA": (boxes_by_tma(dtype="float64"), "TMA has no 'add' of float64"),
    "cp.async": (global_sums(more=", variant: cp_async, async: true"), "it does not update memory atomically"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_there_is_refused(case: str) -> None:
    text, said = REFUSED[case]
    assert re.search(said, str(refusal_of(SpecError, build, text)))


def test_every_form_has_its_registers() -> None:
    for function in UPDATES:
        for dtype in ("float16", "bfloat16", "float32", "float64", *INTEGERS):
            for state in ("global", "shared"):
                for form in find_updates(function, dtype, state):
                    size = {"r": 4, "l": 8, "f": 4, "d": 8, "h": 2}[form.mark]
                    assert form.count * size == form.elems * numpy_dtype(dtype).itemsize
                    assert form.elems * numpy_dtype(dtype).itemsize <= 16 and (state == "global" or form.count == 1)


# ---------------------------------------------------------------- domains
def test_updates_of_the_exact_domain_are_in_no_order_and_twice_is_not_once() -> None:
    domain = make_modular(["int32"])
    x = domain.draw("x", "int32", np.arange(300)).reshape(3, 100)
    for function in UPDATES:
        a, b, c = x

        def join(one: np.ndarray, other: np.ndarray, function: str = function) -> np.ndarray:
            return domain.update(function, one, other, "int32")

        assert np.array_equal(join(join(a, b), c), join(a, join(b, c))), function
        assert np.array_equal(join(a, b), join(b, a)) and not (join(a, b) == join(join(a, b), b)).any(), function
    found = [domain.update(f, x[0], x[1], "int32") for f in UPDATES]
    assert all((found[i] != found[k]).all() for i in range(6) for k in range(i)), "no two functions are the same"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_bound_holds_in_any_order(dtype: str) -> None:
    """Sums with cancellation, in drawn orders and groups, rounded after each step."""
    domain, rng = make_bounded([dtype, "float32"]), np.random.default_rng(8)
    x = (rng.standard_normal((40, 50)) * 10.0 ** rng.integers(-3, 3, (40, 50))).astype(numpy_dtype(dtype))
    x[20:] = -x[:20]
    held = np.zeros(50, numpy_dtype(dtype))
    places = np.tile(np.arange(50), 40)
    stored = domain.accumulate("add", domain.given(held, dtype), domain.given(x.ravel(), dtype), places, dtype)
    bound = domain.decode(stored, dtype)
    exact = [float(sum(Fraction(float(v)) for v in column)) for column in x.T]
    assert np.allclose(np.asarray(bound.value), exact, rtol=1e-9, atol=1e-9)
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(40)
        total = held.copy()
        for row in x[order]:
            total = TYPED.update("add", total, row, dtype)
        assert (np.abs(total.astype(np.float64) - bound.value) <= bound.error).all()
    fold = TYPED.accumulate("add", held, x.ravel(), places, dtype)
    assert (np.abs(fold.astype(np.float64) - bound.value) <= bound.error).all()
    assert (bound.error < 1e3).all(), "the bound says something"


def test_explain_says_that_two_runs_may_differ() -> None:
    for text, is_said in ((global_sums(), True), (global_sums(dtype="int32"), False), (boxes_by_tma(), True)):
        built = build(text)
        explained = explain_plan(built.plan, launch_of(built.spec, {}))
        said = [c for op in explained["ops"] for c in op["choices"] if c["question"] == "order of sums"]
        assert bool(said) == is_said and all("two runs may differ" in c["proof"] for c in said)
        assert ("two runs may differ" in render(built.plan).replace("\n// ", " ")) == is_said
