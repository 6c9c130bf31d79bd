"""The domains' laws: no order of a sum changes it modulo a prime, functions tell their arguments apart, floats computed
in any order lie within their bounds, and the bounds are not loose beyond use."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tilegen.arithmetic import (
    FUNCTIONS,
    TFLOAT32,
    TFLOAT32_CUT,
    TYPED,
    Apply,
    Element,
    Literal,
    Node,
    Whole,
    apply_typed,
    round_to,
)
from tilegen.arithmetic.bounded import make_bounded
from tilegen.arithmetic.bounds import Bound, find_beyond
from tilegen.arithmetic.field import NAN, NEG, POS, P
from tilegen.arithmetic.formats import holds_all
from tilegen.arithmetic.modular import make_modular
from tilegen.dtypes import DTYPES, numpy_dtype

MODULAR = make_modular(["float32"])
BOUNDED = make_bounded(["float32"])
F32 = "float32"


def e(k: int, dtype: str = F32) -> Element:
    return Element(k, dtype)


def call(name: str, *args: Node, type_: str = F32) -> Apply:
    return Apply(name, args, type_)


def symbols(values: object) -> np.ndarray:
    return MODULAR.encode(np.asarray(values), F32)


def run(tree: Node, *values: object, wholes: tuple[object, ...] = (), dtype: str = F32) -> np.ndarray:
    """A tree over symbols, as symbols."""
    return MODULAR.decode(MODULAR.compute(tree, [symbols(v) for v in values], wholes, {}, dtype), dtype)


def drawn(count: int, seed: int = 0, special: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, P, count)
    if special:
        values[rng.random(count) < 0.2] = NEG
    return values


# ---------------------------------------------------------------- modular: storage
@pytest.mark.parametrize("scale", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "float16", "int8"])
def test_what_is_stored_comes_back_and_zero_is_zero(dtype: str, scale: int) -> None:
    if DTYPES[dtype].bytes * scale < 4:
        return
    domain = make_modular(["int8" if scale == 4 else "float16" if scale == 2 else "float32"])
    values = np.array([0, 1, P - 1, NEG, POS, NAN, 12345])
    bits = domain.encode(values, dtype)
    assert bits.dtype == domain.stored(dtype) and bits.dtype.itemsize == DTYPES[dtype].bytes * scale
    assert (domain.decode(bits, dtype) == values).all()
    assert not np.frombuffer(bits[:1].tobytes(), np.uint8).any()
    assert int(domain.decode(domain.fill(0, dtype), dtype)) == 0


@pytest.mark.parametrize("dtype,narrowest", [("float32", "float32"), ("float32", "float16"), ("float64", "float32"),
                                             ("float64", "float64"), ("int8", "int8")])  # fmt: skip
def test_bytes_of_two_elements_are_neither_of_them(dtype: str, narrowest: str) -> None:
    domain = make_modular([narrowest])
    raw = domain.encode(drawn(2000), dtype)
    size = raw.dtype.itemsize
    one, two = (np.frombuffer(x.tobytes(), np.uint8).reshape(-1, size) for x in (raw[:1000], raw[1000:]))
    mixed = np.concatenate([one[:, : size // 2], two[:, size // 2 :]], 1).copy().view(raw.dtype)[:, 0]
    got = domain.decode(mixed, dtype)
    away = (got != domain.decode(raw[:1000], dtype)) & (got != domain.decode(raw[1000:], dtype))
    assert away.all() and ((got >= 0) & (got <= NAN)).all()


# ---------------------------------------------------------------- modular: sums and products
@pytest.mark.parametrize("seed", range(5))
def test_a_sum_is_the_same_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = symbols(drawn(40, seed, special=bool(seed % 2)))
    want = MODULAR.fold("+", values[None], 1, F32)[0, 0]
    for _ in range(10):
        left = list(values[rng.permutation(40)])
        while len(left) > 1:
            at = int(rng.integers(len(left) - 1))
            left[at : at + 2] = [MODULAR.combine("+", left[at], left[at + 1], F32)]
        assert left[0] == want


@pytest.mark.parametrize("function", ["*", "max", "min"])
def test_other_folds_are_the_same_in_any_order(function: str) -> None:
    values = symbols([*drawn(20, 3), POS, 5])
    want = MODULAR.fold(function, values[None], 1, F32)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(values))
        assert MODULAR.fold(function, values[order][None], 1, F32) == want
        result = values[order[0]]
        for k in order[1:]:
            result = MODULAR.combine(function, result, values[k], F32)
        assert result == want[0, 0]


@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("count", [2, 7, 300])
def test_whatever_is_left_out_of_an_extreme_is_missed(function: str, count: int) -> None:
    """Not only the largest: a kernel that forgets any one element takes another maximum."""
    values = drawn(count, 5)
    whole = MODULAR.fold(function, symbols(values)[None], 1, F32)[0, 0]
    without = [MODULAR.fold(function, symbols(np.delete(values, k))[None], 1, F32)[0, 0] for k in range(count)]
    assert whole not in without and len(np.unique(without)) == count
    none = NEG if function == "max" else POS
    padded = symbols([*values, none, none, NAN])
    assert MODULAR.fold(function, padded[None], 1, F32)[0, 0] == whole
    assert run(call(function, e(0), e(1)), NAN, NAN) == NAN and run(call(function, e(0), e(1)), none, NAN) == none
    assert run(call(function, e(0), e(1)), POS if function == "max" else NEG, 7) == (POS if function == "max" else NEG)
    assert (run(call("max", e(0), e(1)), 5, values) != run(call("min", e(0), e(1)), 5, values)).all()


def test_products_of_matrices_are_exact_and_may_be_cut_anywhere() -> None:
    a, b = drawn(3 * 5 * 1300).reshape(3, 5, 1300), drawn(1300 * 7, 1).reshape(1300, 7)
    want = np.array((a.astype(object) @ b.astype(object)) % P, np.int64)
    whole = MODULAR.matmul(symbols(a), symbols(b), None, F32, F32)
    assert (MODULAR.decode(whole, F32) == want).all()
    half = MODULAR.matmul(symbols(a[..., 300:]), symbols(b[300:]), None, F32, F32)
    assert (MODULAR.matmul(symbols(a[..., :300]), symbols(b[:300]), half, F32, F32) == whole).all()
    twice = MODULAR.matmul(symbols(a[..., 300:]), symbols(b[300:]), whole, F32, F32)
    assert not (twice == whole).any()


@pytest.mark.parametrize("seed", range(3))
def test_products_of_matrices_with_infinities_are_sums_of_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, P, (4, 6)), rng.integers(0, P, (6, 5))
    for x in (a, b):
        for kind in (NEG, POS, NAN):
            x[tuple(rng.integers(0, n) for n in x.shape)] = kind
    want = symbols(np.zeros((4, 5), np.int64))
    for k in range(6):
        term = MODULAR.combine("*", symbols(a[:, k, None]), symbols(b[None, k]), F32)
        want = MODULAR.combine("+", want, term, F32)
    assert (MODULAR.matmul(symbols(a), symbols(b), None, F32, F32) == want).all()


def test_what_numbers_compare_to_is_known_by_no_arm() -> None:
    """However a comparison is written, it chooses the same, and that is neither of both."""

    def chosen(function: str, first: int, second: int, yes: int, no: int) -> int:
        condition = call(function, e(first), e(second), type_="bool")
        return int(run(call("where", condition, e(yes), e(no)), 5, 3))

    one = chosen("<", 0, 1, 0, 1)
    assert one not in (5, 3) and chosen(">", 1, 0, 0, 1) == one
    assert chosen(">=", 0, 1, 1, 0) == chosen("<=", 1, 0, 1, 0) == one != chosen("<", 1, 0, 0, 1)
    assert chosen("==", 0, 1, 0, 1) == chosen("==", 1, 0, 0, 1) == chosen("!=", 0, 1, 1, 0) not in (5, 3, one)
    both = call("and", call("<", e(0), e(1), type_="bool"), call("==", e(0), e(0), type_="bool"), type_="bool")
    assert int(run(call("where", both, e(0), e(1)), 5, 3)) == one


def test_no_number_is_as_the_rules_say() -> None:
    x = 77
    assert run(call("exp", e(0)), NEG) == 0 and run(call("exp2", e(0)), NEG) == 0
    assert run(call("+", e(0), e(1)), NEG, x) == NEG and run(call("*", e(0), e(1)), x, NEG) == NEG
    assert run(call("max", e(0), e(1)), NEG, x) == x and run(call("min", e(0), e(1)), NEG, x) == NEG
    assert run(call("-", e(0), e(1)), NEG, NEG) == NAN and run(call("neg", e(0)), NEG) == POS
    assert run(call("max", e(0), e(1)), NAN, x) == x and run(call("exp", e(0)), NAN) == NAN
    less = call("<", e(0), e(1), type_="bool")
    assert run(call("where", less, e(0), e(1)), NEG, 0) == NEG and run(call("where", less, e(0), e(1)), 5, 5) == 5
    assert run(call("where", less, e(0), e(1)), POS, 3) == 3 and run(call("where", less, e(0), e(1)), NAN, 3) == 3
    assert run(call("where", less, e(0), e(1)), POS, P - 1) == P - 1


def test_integers_of_the_place_are_what_they_are() -> None:
    index, n = np.arange(10), 7
    inside = call("<", Whole(0), Whole(1), type_="bool")
    tree = call("where", inside, e(0), Literal(float("-inf"), F32))
    assert (run(tree, np.full(10, 5), wholes=(index, n)) == np.where(index < n, 5, NEG)).all()
    remainder = call("float32", call("%", call("-", Whole(0), Whole(1), type_="int32"), Whole(1), type_="int32"))
    assert (run(remainder, wholes=(index, n)) == (index - n) % n).all()
    assert run(call("+", e(0), Literal(1.0, F32)), P - 1) == 0 and run(call("*", e(0), Literal(-1.0, F32)), 3) == P - 3
    assert run(Literal(0.5, F32)) == run(Literal(0.5, F32)) != run(Literal(0.25, F32))


# ---------------------------------------------------------------- modular: opaque functions
OPAQUE = [n for n, r in FUNCTIONS.items() if F32 in r.takes and r.gives == "same"
          and n not in ("+", "-", "*", "neg", "fma", "where", "min", "max")]  # fmt: skip


@pytest.mark.parametrize("name", OPAQUE)
def test_an_opaque_function_tells_arguments_and_names_apart(name: str) -> None:
    sources = FUNCTIONS[name].sources
    args = [np.arange(1, 5001) + 6000 * k for k in range(sources)]
    got = run(call(name, *map(e, range(sources))), *args)
    assert len(np.unique(got)) > 4980  # 5000 of 4 million: three meet by chance
    for other in OPAQUE:
        if other != name and FUNCTIONS[other].sources == sources:
            assert (run(call(other, *map(e, range(sources))), *args) == got).mean() < 0.01
    if sources == 2:
        assert (run(call(name, e(1), e(0)), *args) == got).mean() < 0.01


def test_conversions_that_cannot_round_are_the_identity() -> None:
    values = drawn(100)
    for src, dst in product(("bfloat16", "float16", "float32", "float64", "int8", "int32"), repeat=2):
        domain = make_modular(["int8"])
        got = domain.decode(domain.convert(domain.encode(values, src), src, dst), dst)
        assert (got == values).all() == holds_all(dst, src)
        assert (got == domain.decode(domain.convert(domain.encode(values, src), src, dst), dst)).all()


NAMES = ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int16")


@pytest.mark.parametrize("dst,src", list(product(NAMES, repeat=2)))
def test_a_type_holds_all_of_another_where_every_number_comes_back(dst: str, src: str) -> None:
    size = min(DTYPES[src].bytes, 2)
    bits = np.arange(1 << 8 * size, dtype=f"u{size}")
    numbers = bits.view(numpy_dtype(src)) if DTYPES[src].bytes == size else bits.astype(np.uint32).view("f4")
    if src == "float32":
        numbers = np.ldexp(np.float32(1 + bits % 8192 / 8192), (bits.astype(int) % 250) - 124).astype("f4")
    with np.errstate(all="ignore"):
        numbers = numbers[np.isfinite(numbers.astype(np.float64))]
    with np.errstate(all="ignore"):
        there = round_to(numbers, dst).astype(np.float64)
    assert holds_all(dst, src) == bool((there == numbers.astype(np.float64)).all())


# ---------------------------------------------------------------- bounded
def near(got: np.ndarray, bits: np.ndarray, dtype: str = F32) -> float:
    """The most of its bound that any element takes; checks that none takes more."""
    wrong, part = find_beyond(got, BOUNDED.decode(bits, dtype))
    assert not wrong.any()
    return float(part.max())


def given(values: np.ndarray) -> np.ndarray:
    return BOUNDED.given(values, F32)


@pytest.mark.parametrize("count", [2, 33, 1000])
def test_sums_in_any_order_are_within_their_bound(count: int) -> None:
    rng = np.random.default_rng(count)
    values = rng.normal(size=(50, count)).astype("f4")
    bound = BOUNDED.fold("+", given(values), 1, F32)
    worst = 0.0
    for _ in range(5):
        mixed = rng.permuted(values, axis=1)
        worst = max(worst, near(np.cumsum(mixed, 1, dtype="f4")[:, -1:], bound))
        worst = max(worst, near(mixed.sum(1, keepdims=True), bound))
    assert worst > (0.01 if count < 100 else 1e-4)  # what happens grows as the root of what may


@pytest.mark.parametrize("dtype,acc", [("float16", F32), ("bfloat16", F32), (F32, F32), ("float8_e4m3fn", F32)])
def test_products_of_matrices_are_within_their_bound(dtype: str, acc: str) -> None:
    rng = np.random.default_rng(1)
    domain = make_bounded([dtype, acc])
    a, b = (round_to(rng.normal(size=s), dtype) for s in ((16, 64), (64, 24)))
    c = rng.normal(size=(16, 24)).astype("f4")
    want = domain.matmul(domain.given(a, dtype), domain.given(b, dtype), domain.given(c, acc), dtype, acc)
    parts = []
    for order in (np.arange(64), np.arange(64)[::-1], rng.permutation(64)):
        wrong, part = find_beyond(TYPED.matmul(a[:, order], b[order], c, dtype, acc), domain.decode(want, acc))
        assert not wrong.any()
        parts.append(part.max())
    assert max(parts) > (1e-3 if dtype != "float8_e4m3fn" else 1e-6)  # tensor cores sum 8-bit floats coarsely


@pytest.mark.parametrize("dtype", [TFLOAT32, TFLOAT32_CUT])
@pytest.mark.parametrize("depth", [1, 64])
def test_products_as_tfloat32_are_within_their_bound(dtype: str, depth: int) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=s).astype("f4") for s in ((64, depth), (depth, 64)))
    none = np.zeros((64, 64), "f4")
    want = BOUNDED.matmul(given(a), given(b), None, dtype, F32)
    assert near(TYPED.matmul(a, b, none, dtype, F32), want) > (0.8 if depth == 1 else 0.1)
    assert near(TYPED.matmul(a, b, none, F32, F32), want) < 0.01  # the numbers themselves are what is meant
    if dtype == TFLOAT32 and depth == 1:  # dropped bits are further away than rounded ones
        assert find_beyond(TYPED.matmul(a, b, none, TFLOAT32_CUT, F32), BOUNDED.decode(want, F32))[0].any()


def test_products_of_integers_are_exact() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, s).astype("i1") for s in ((8, 32), (32, 8)))
    domain = make_bounded(["int8", "int32"])
    known = domain.given(a, "int8"), domain.given(b, "int8")
    want = domain.decode(domain.matmul(*known, None, "int8", "int32"), "int32")
    assert not want.error.any() and (TYPED.matmul(a, b, None, "int8", "int32") == want.value).all()


TREES = [
    call("+", call("*", e(0), e(1)), e(2)), call("fma", e(0), e(1), e(2)), call("/", e(0), call("+", e(1), e(2))),
    call("exp", call("-", e(0), call("max", e(1), e(2)))), call("sqrt", call("abs", call("*", e(0), e(1)))),
    call("sigmoid", call("-", call("*", e(0), e(1)), e(2))), call("tanh", call("-", e(0), e(1))),
    call("rsqrt", call("+", call("*", e(0), e(0)), Literal(0.001, F32))), call("erf", call("/", e(0), e(1))),
    call("log", call("abs", e(0))), call("log2", call("exp2", call("*", e(0), e(1)))), call("min", e(0), e(1)),
    call("floor", call("*", e(0), Literal(10.0, F32))),
    call("where", call("<", call("*", e(0), e(1)), e(2), type_="bool"), e(0), call("neg", e(1))),
]  # fmt: skip


def inexactly(tree: Node, values: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """A tree in float32, each function off by as much as the table allows, at random."""
    if isinstance(tree, Element):
        return values[tree.number]
    if isinstance(tree, Literal):
        return np.float32(tree.value)
    assert isinstance(tree, Apply)
    args = [inexactly(a, values, rng) for a in tree.args]
    exact = apply_typed(tree.function, args, tree.type)
    ulps = FUNCTIONS[tree.function].ulps.get(F32, 0)
    if tree.type != F32 or ulps <= 0.5:
        return exact
    most = int(ulps - 0.5)  # beside the rounding
    off = rng.integers(-most, most + 1, exact.shape) * np.spacing(exact).astype("f8")
    return (exact.astype("f8") + off).astype("f4")


@pytest.mark.parametrize("tree", TREES, ids=lambda t: t.function)
@pytest.mark.parametrize("dtype", [F32, "float16", "int8"])
def test_trees_are_within_their_bound_and_bounds_are_of_use(tree: Node, dtype: str) -> None:
    rng = np.random.default_rng(7)
    values = [rng.normal(size=4000).astype("f4") for _ in range(3)]
    domain = make_bounded([F32, dtype])
    stored = [domain.given(v, F32) for v in values]
    want = domain.decode(domain.compute(tree, stored, [], {}, dtype), dtype)
    got = round_to(inexactly(tree, values, rng), dtype)
    wrong, part = find_beyond(got, want)
    assert not wrong.any()
    assert not find_beyond(TYPED.compute(tree, values, [], {}, dtype), want)[0].any()
    claimed = np.isfinite(want.error)
    assert claimed.mean() > 0.99
    assert not want.error[claimed].any() or part.max() > 0.01


def test_what_may_go_either_way_is_bounded_by_both() -> None:
    x = BOUNDED.encode(Bound(np.array([1.0, 1.0]), np.array([0.5, 0.01])), F32)
    tree = call("where", call("<", e(0), Literal(1.25, F32), type_="bool"), Literal(5.0, F32), Literal(9.0, F32))
    got = BOUNDED.decode(BOUNDED.compute(tree, [x], [], {}, F32), F32)
    assert got.value.tolist() == [5.0, 5.0] and got.error.tolist() == [4.0, 0.0]
    inside = call("and", call("<", e(0), Literal(1.25, F32), type_="bool"), Literal(False, "bool"), type_="bool")
    got = BOUNDED.decode(BOUNDED.compute(call("where", inside, e(0), Literal(0.0, F32)), [x], [], {}, F32), F32)
    assert got.value.tolist() == [0.0, 0.0] and got.error.tolist() == [0.0, 0.0]


def test_infinities_and_nans_are_themselves() -> None:
    inf, nan = float("inf"), float("nan")
    x = given(np.array([inf, -inf, nan, 0.0, 200.0], "f4"))
    got = BOUNDED.decode(BOUNDED.compute(call("exp", e(0)), [x], [], {}, F32), F32)
    assert np.array_equal(got.value, [inf, 0, nan, 1, inf], equal_nan=True) and (got.error[[0, 2, 4]] == 0).all()
    wrong, _ = find_beyond(np.array([inf, 0, nan, 1, 3e38], "f4"), got)
    assert wrong.tolist() == [False, False, False, False, True]
    quotient = BOUNDED.decode(BOUNDED.compute(call("/", e(0), e(0)), [x], [], {}, F32), F32)
    assert np.isnan(quotient.value[[0, 1, 2, 3]]).all() and quotient.value[4] == 1


def test_a_sum_that_may_leave_its_type_claims_nothing() -> None:
    values = np.array([[3e38, 3e38, -3e38]], "f4")
    got = BOUNDED.decode(BOUNDED.fold("+", given(values), 1, F32), F32)
    assert np.isinf(got.error).all()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("function", ["+", "*"])
def test_sums_and_products_of_integers_are_modulo_their_type(function: str, dtype: str) -> None:
    domain, target = make_bounded([dtype]), numpy_dtype(dtype)
    values = np.full((3, 40), 3, target)
    values[1, 1:] = np.iinfo(target).max // 2 + 1 if function == "+" else -1
    values[2, 5:] = 1
    got = domain.decode(domain.fold(function, domain.given(values, dtype), 1, dtype), dtype)
    with np.errstate(over="ignore"):
        want = (values.sum if function == "+" else values.prod)(1, dtype=target, keepdims=True)
    claimed = np.isfinite(got.error)
    assert (got.error[claimed] == 0).all() and (got.value[claimed] == want.astype(np.float64)[claimed]).all()
    assert claimed.all() or (dtype == "int64" and (np.abs(want[~claimed].astype(np.float64)) > 2.0**53).all())
    assert claimed[2]


@pytest.mark.parametrize(("values", "errors", "dtype"), [
    ([2.0**63, -(2.0**63)], [0, 0], "int64"), ([2.0**62, -(2.0**62)], [0, 0], "int64"),
    ([2.0**31 - 1, 0], [1, 2], "int32"),
])  # fmt: skip
def test_of_integers_that_float64_does_not_hold_or_that_may_wrap_nothing_is_claimed(
    values: list[float], errors: list[float], dtype: str
) -> None:
    domain = make_bounded([dtype])
    found = domain.fold("+", domain.encode(Bound(np.array([values]), np.array([errors])), dtype), 1, dtype)
    assert np.isinf(domain.decode(found, dtype).error).all()


def test_a_product_of_integers_that_are_unsure_has_a_bound() -> None:
    domain = make_bounded(["int32"])
    factors = domain.encode(Bound(np.array([[2.0, 3.0], [2.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 0.0]])), "int32")
    got = domain.decode(domain.fold("*", factors, 1, "int32"), "int32")
    assert got.value.tolist() == [[6], [0]] and got.error.tolist() == [[2], [0]]


def test_how_many_conditions_hold_is_off_by_those_that_are_unsure() -> None:
    domain = make_bounded([F32, "int32"])
    left = domain.encode(Bound(np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.5, 0.0])), F32)
    tree = call("int32", call("<", e(0), Literal(2.0, F32), type_="bool"), type_="int32")
    found = domain.compute(tree, [left], [], {}, "int32")
    got = domain.decode(domain.fold("+", found[None], 1, "int32"), "int32")
    assert (got.value.tolist(), got.error.tolist()) == ([[1]], [[1]])


@pytest.mark.parametrize(("value", "error", "ends"), [(3.5, 0.0, (4, 4)), (3.4999, 0.001, (3, 4)), (2.5, 1.0, (2, 4))])
def test_an_integer_is_every_one_that_its_float_may_round_to(value: float, error: float, ends: tuple[int, int]) -> None:
    """After sums and products with it too, which take it as a whole number."""
    domain = make_bounded([F32, "int32"])
    given = domain.encode(Bound(np.array([value]), np.array([error])), F32)
    found = domain.compute(e(0), [given], [], {}, "int32")
    for tree, times, more in ((call("+", e(0, "int32"), Literal(7, "int32"), type_="int32"), 1, 7),
                              (call("*", e(0, "int32"), Literal(3, "int32"), type_="int32"), 3, 0)):  # fmt: skip
        got = domain.decode(domain.compute(tree, [found], [], {}, "int32"), "int32")
        for end in ends:
            assert abs(end * times + more - got.value[0]) <= got.error[0]
        assert got.error[0] <= (ends[1] - ends[0]) * times, "a bound that is of use"


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_ends_of_an_integer_type_are_infinite(dtype: str) -> None:
    domain, info = make_modular([dtype]), np.iinfo(dtype)
    ends = [int(domain.decode(domain.fill(int(x), dtype), dtype)) for x in (info.min, info.max, 7)]
    assert ends == [NEG, POS, 7]


@pytest.mark.parametrize("dst", ["bool", "int8", "uint8", "int16", "uint32", "int64", "float16", "float8_e4m3fn"])
@pytest.mark.parametrize("src", ["int32", "int64", "float32", "float64"])
def test_whatever_an_element_may_be_is_converted_within_its_bound(src: str, dst: str) -> None:
    rng = np.random.default_rng(1)
    scale = np.where(rng.random(2000) < 0.5, 4.0, 400.0)
    value, error = np.rint(rng.normal(size=2000) * scale), np.rint(rng.random(2000) * scale) * (rng.random(2000) < 0.7)
    value[:3], error[:3] = (np.nan, np.nan, 2.0) if src.startswith("float") else (0, 1, 2), (0, np.inf, np.inf)
    domain = make_bounded([src, dst])
    stored = domain.encode(Bound(value, error), src)
    for op in ("cast", "elementwise"):
        own = Element(0, src)
        made = domain.convert(stored, src, dst) if op == "cast" else domain.compute(own, [stored], [], {}, dst)
        bound = domain.decode(made, dst)
        for share in (-1, -0.5, 0, 0.3, 1):
            with np.errstate(invalid="ignore"):
                moved = np.where(error > 0, np.rint(np.where(np.isinf(error), 7, error) * share), 0)
                true = np.where(np.isnan(value) & (error > 0), 3, value + moved).astype(src)
            got = TYPED.convert(true, src, dst) if op == "cast" else TYPED.compute(own, [true], [], {}, dst)
            difference = np.abs(got.astype(np.float64) - bound.value)
            assert (~(difference > bound.error)).all(), (op, true[difference > bound.error][:3])
