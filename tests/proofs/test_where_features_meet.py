"""Kernels in which features meet, that were once built, or proved, though they are wrong: each is refused now."""

from __future__ import annotations

import numpy as np
import pytest
from faults.texts import change_text
from faults.verdicts import refusal_of

from tilegen.errors import ProofError, SpecError
from tilegen.interpret import interpret
from tilegen.ops.trusting import find_trust
from tilegen.pipeline import build, kernels_of, load_kernel
from tilegen.plan import default_values
from tilegen.planner import plan_spec
from tilegen.proofs import prove

HEAD = "kernel: k\narch: sm_90\n"
SAME_PLACES = """
params: {M: {default: 9, max: 4096}}
grid: {bx: M}
threads: 128
buffers:
  kinds: {scope: global, dtype: int32, shape: [M], values: "-4 : 1000"}
  X: {scope: global, dtype: float32, shape: [M, 128]}
  Y: {scope: global, dtype: float32, shape: [128], partial: true}
  i: {scope: register, dtype: int32, shape: [128], layout: auto, distinct: true}
ops:
  - let: {kind: "kinds[bx]"}
  - elementwise: {dst: i, expr: "index(0)"}
  - scatter: {src: "X[bx]", index: i, dst: Y, edge: clip, when: kind >= 77}
"""


def test_what_a_claim_says_of_all_ctas_is_tried_where_a_table_decides_which_of_them_write() -> None:
    refused = refusal_of(ProofError, build, HEAD + SAME_PLACES)
    assert "TG405" in str(refused)


CLAIMED = """
threads: 32
buffers:
  ids: {scope: global, dtype: int32, shape: [32], values: "0 : 32", distinct: true}
  X: {scope: global, dtype: float32, shape: [32]}
  Y: {scope: global, dtype: float32, shape: [32], partial: true}
  i: {scope: register, dtype: int32, shape: [32], layout: auto, values: "0 : 32", distinct: true}
ops:
  - copy: {src: ids, dst: i}
  - scatter: {src: X, index: i, dst: Y}
"""


def test_a_register_with_values_keeps_its_claim() -> None:
    (kernel,) = kernels_of(build(HEAD + CLAIMED))
    assert [claim.buffer for claim in find_trust(kernel.spec).claimed] == ["Y"]


PARTLY_WRITTEN = """
threads: 32
buffers:
  I: {scope: global, dtype: int32, shape: [64]}
  G: {scope: global, dtype: int32, shape: [16]}
ops:
  - fill: {dst: "I[0 : +32]", value: 3}
  - sync: cta
  - scatter: {expr: 1, index: I, dst: G, accumulate: add}
"""


def test_what_a_kernel_does_not_write_of_an_array_may_hold_anything() -> None:
    assert "TG414" in str(refusal_of(ProofError, build, HEAD + PARTLY_WRITTEN))


ADDED_IN_SHARED = """
grid: {bx: 4}
threads: 32
buffers:
  X: {scope: global, dtype: TYPE, shape: [128]}
  Y: {scope: global, dtype: TYPE, shape: [128]}
  s: {scope: shared, dtype: TYPE, shape: [32]}
ops:
  - fill: {dst: s, value: NUMBER}
  - sync: cta
  - copy: {src: "X[bx*32 : +32]", dst: s, accumulate: add}
  - sync: cta
  - copy: {src: s, dst: "Y[bx*32 : +32]"}
"""
COMPUTED = """
grid: {bx: 4}
threads: 32
buffers:
  X: {scope: global, dtype: TYPE, shape: [128]}
  Y: {scope: global, dtype: TYPE, shape: [128]}
ops:
  - elementwise: {dst: "Y[bx*32 : +32]", expr: "EXPR", with: {x: "X[bx*32 : +32]"}}
"""


@pytest.mark.parametrize(("dtype", "text"), [
    ("uint32", ADDED_IN_SHARED.replace("NUMBER", "4294967295")),
    ("uint64", COMPUTED.replace("EXPR", "x + 0xFFFFFFFFFFFFFFFF")),
    ("int32", ADDED_IN_SHARED.replace("NUMBER", "2147483647")),
    ("int64", COMPUTED.replace("EXPR", "x + 1099511627776")),
    ("int64", COMPUTED.replace("EXPR", "x * 1099511627776")), ("int32", COMPUTED.replace("EXPR", "x - 2147483647")),
    ("uint32", COMPUTED.replace("EXPR", "x * 4294967295")),
])  # fmt: skip
def test_no_integer_hides_what_it_is_added_to_or_multiplied_with(dtype: str, text: str) -> None:
    text = HEAD + text.replace("TYPE", dtype)
    build(text)
    other = plan_spec(load_kernel(text.replace("X[bx*32", "X[max(bx, 1)*32")))
    assert "TG420" in str(refusal_of(ProofError, prove, load_kernel(text), other))


def test_numbers_beyond_an_int_are_told_apart() -> None:
    text = HEAD + COMPUTED.replace("TYPE", "int64")
    spec, other = (text.replace("EXPR", f"x + {number}") for number in (1 << 40, 1 << 41))
    assert "TG420" in str(refusal_of(ProofError, prove, load_kernel(spec), plan_spec(load_kernel(other))))


INDEX_OF_A_TABLE = """
grid: {bx: 2}
threads: 32
buffers:
  T: {scope: global, dtype: int32, shape: [2], values: "0 : 4"}
  I: {scope: global, dtype: int32, shape: [4, 32], values: "5 : 16"}
  G: {scope: global, dtype: int32, shape: [16]}
ops:
  - let: {t: "T[bx]"}
  - scatter: {expr: 1, index: "I[t]", dst: G, accumulate: add, edge: clip}
"""


@pytest.mark.parametrize(("second", "updated"), [(1, 2), (9, 1), (-1, 1)])
def test_an_index_that_lies_where_a_lie_says_names_no_place(second: int, updated: int) -> None:
    (kernel,) = kernels_of(build(HEAD + INDEX_OF_A_TABLE))
    given = {
        "T": np.array([0, second], np.int32).__getitem__, "I": np.full(128, 7, np.int32).__getitem__,
        "G": np.zeros(16, np.int32).__getitem__,
    }  # fmt: skip
    found = interpret(kernel.plan, [(0, 0, 0), (1, 0, 0)], given, default_values(kernel.spec.params))
    assert [int(at) for at in found.updates["G"][0]] == [7] * updated


SAID_TWICE = """
threads: 32
buffers:
  X: {scope: global, dtype: int32, shape: [32]}
  G: {scope: global, dtype: int32, shape: [16]}
  i: {scope: register, dtype: int32, shape: [32], layout: auto}
ops:
  - elementwise: {dst: i, expr: "x & 15", with: {x: X}}
  - scatter: {expr: 1, index: i, dst: G, accumulate: add}
  - elementwise: {dst: i, expr: "x & 31", with: {x: X}}
  - scatter: {expr: 1, index: i, dst: G, accumulate: add}
"""


def test_of_two_equal_scatters_each_has_the_range_of_its_own_index() -> None:
    refused = refusal_of(ProofError, build, HEAD + SAID_TWICE)
    assert "TG414" in str(refused) and "0 to 31" in str(refused)


PROMISED = """
grid: {bx: 2}
threads: 64
buffers:
  X: {scope: global, dtype: float32, shape: [128]}
  P: {scope: global, dtype: int32, shape: [128], values: "0 : 65536", distinct: true}
  Q: {scope: global, dtype: int32, shape: [128], values: "70000 : 135536", distinct: true}
  Y: {scope: global, dtype: float32, shape: [2, 140000], partial: true}
ops:
  - scatter: {src: "X[bx*64 : +64]", index: "P[bx*64 : +64]", dst: "Y[0, 0 : +136000]"}
"""
SECOND = '  - scatter: {src: "X[bx*64 : +64]", index: "P[bx*64 : +64]", dst: "Y[0, 0 : +136000]"}\n'


@pytest.mark.parametrize("pairs", [(("P[bx", "Q[bx"),), (("0, 0", "0, 3"), ("P[bx*64", "P[64 - bx*64"))])
def test_no_promise_tells_places_of_two_arrays_or_of_two_begins_apart(pairs: tuple[tuple[str, str], ...]) -> None:
    """Whatever is drawn for them: here two arrays never hold one number."""
    refused = refusal_of(ProofError, build, HEAD + PROMISED + change_text(SECOND, *pairs))
    assert {d.code for d in refused.diagnostics} == {"TG441"}


@pytest.mark.parametrize("begin", ["bx", "bx*32", "(1 - bx)*64"])
def test_no_promise_tells_places_apart_that_count_from_where_the_cta_says(begin: str) -> None:
    refused = refusal_of(ProofError, build, HEAD + PROMISED.replace("Y[0, 0", f"Y[0, {begin}"))
    assert {d.code for d in refused.diagnostics} == {"TG441"}


def test_rows_of_an_array_may_be_named_by_one_index_each() -> None:
    rows = change_text(PROMISED, ("P[bx*64 : +64]", "P[0 : +64]"), ("Y[0,", "Y[bx,"))
    build(HEAD + rows)
    assert "TG417" in str(refusal_of(ProofError, build, HEAD + rows.replace("Y[bx,", "Y[bx // 2,")))


IN_SHARED = """
threads: 64
buffers:
  X: {scope: global, dtype: float32, shape: [512]}
  P: {scope: global, dtype: int32, shape: [256], values: "0 : 4096", distinct: true}
  Q: {scope: global, dtype: int32, shape: [256], values: "0 : 4096", distinct: true}
  s: {scope: shared, dtype: float32, shape: [4096]}
  Y: {scope: global, dtype: float32, shape: [4096]}
ops:
  - fill: {dst: s, value: 0}
  - sync: cta
  - scatter: {src: "X[0 : +256]", index: P, dst: s}
  - sync: cta
  - scatter: {src: "X[256 : +256]", index: Q, dst: s}
  - sync: cta
  - copy: {src: s, dst: Y}
"""


@pytest.mark.parametrize("left", ["", "  - sync: warp\n"])
def test_two_promised_arrays_that_hold_one_number_need_a_sync_between_their_stores(left: str) -> None:
    build(HEAD + IN_SHARED)
    first = '  - scatter: {src: "X[0 : +256]", index: P, dst: s}\n'
    wrong = change_text(IN_SHARED, (first + "  - sync: cta\n", first + left))
    assert "TG403" in str(refusal_of(ProofError, build, HEAD + wrong))


BY_ANOTHER = """
threads: 64
buffers:
  I: {scope: global, dtype: int32, shape: [64], values: "0 : 4096"}
  r: {scope: register, dtype: int32, shape: [64], layout: auto, distinct: true}
  Y: {scope: global, dtype: float32, shape: [4096], partial: true}
ops:
  - elementwise: {dst: r, expr: "index(0)"}
  - scatter: {expr: r, index: "i + 0", with: {i: I}, dst: Y}
"""


def test_what_is_scattered_says_nothing_of_where_it_goes() -> None:
    assert "TG218" in str(refusal_of(SpecError, build, HEAD + BY_ANOTHER))


UPDATED_IN_SHARED = """
grid: {bx: 2}
threads: 64
buffers:
  I: {scope: global, dtype: int32, shape: [128], values: "0 : 16"}
  Z: {scope: global, dtype: int32, shape: [16]}
  H: {scope: global, dtype: int32, shape: [2, 16]}
  h: {scope: shared, dtype: int32, shape: [16]}
ops:
  - copy: {src: Z, dst: h}
  - sync: cta
  - scatter: {expr: "5 + index(0)", index: "I[bx*64 : +64]", dst: h, accumulate: FUNCTION}
  - sync: cta
  - copy: {src: h, dst: "H[bx]"}
"""


@pytest.mark.parametrize("function", ["min", "max", "and", "or", "xor"])
def test_numbers_of_the_text_may_be_put_to_any_elements(function: str) -> None:
    """No order of them counts; whether one is put twice, or left out, does."""
    text = HEAD + UPDATED_IN_SHARED.replace("FUNCTION", function)
    build(text)
    for other in ("4 + index(0)", "5 + index(0) // 2", "max(5 + index(0), 6)"):
        plan = plan_spec(load_kernel(text.replace("5 + index(0)", other)))
        assert "TG420" in str(refusal_of(ProofError, prove, load_kernel(text), plan))


TAKEN_OUT = """
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [128]}
  C: {scope: global, dtype: float32, shape: [128]}
  Y: {scope: global, dtype: float32, shape: [128]}
ops:
  - elementwise: {dst: Y, expr: "where(c > 0.5, ARMS)", with: {c: C, x: X}}
"""


@pytest.mark.parametrize("arms", ["-inf, x", "x, -inf", "inf, x", "x, inf"])
def test_an_infinite_arm_hides_no_other(arms: str) -> None:
    """Which of the two is chosen, no proof knows: both count."""
    text = HEAD + TAKEN_OUT.replace("ARMS", arms)
    build(text)
    for wrong in (("x: X}", "x: C}"), ("0.5", "0.25"), ("inf", "9.0")):
        plan = plan_spec(load_kernel(change_text(text, wrong)))
        assert "TG420" in str(refusal_of(ProofError, prove, load_kernel(text), plan))
