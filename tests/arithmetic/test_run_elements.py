"""Laws of run integers: they are the machine's, they are told from hashes, no order of a sum changes them."""

from __future__ import annotations

import numpy as np
import pytest

from tilegen.arithmetic import TYPED, Apply, Element, Literal, Node, Whole
from tilegen.arithmetic.field import P
from tilegen.arithmetic.modular import make_modular
from tilegen.arithmetic.running import make_running
from tilegen.dtypes import DTYPES, numpy_dtype

DOMAIN = make_running(["int32", "float32", "uint8"])
INTEGERS = [name for name, d in DTYPES.items() if d.kind in ("int", "uint")]
REAL = [name for name, d in DTYPES.items() if d.kind != "complex"]


def numbers(dtype: str, count: int, seed: int = 0) -> np.ndarray:
    """Elements of a dtype, both ends of it and 0 among them."""
    rng = np.random.default_rng(seed)
    if DTYPES[dtype].kind == "float":
        return rng.normal(size=count).astype(numpy_dtype(dtype))
    if DTYPES[dtype].kind == "bool":
        return rng.integers(0, 2, count).astype(bool)
    info = np.iinfo(dtype)
    drawn = rng.integers(info.min, info.max, count, numpy_dtype(dtype), endpoint=True)
    drawn[:3] = info.min, info.max, 0
    return drawn


def hashes(dtype: str, count: int, seed: int = 0) -> np.ndarray:
    return DOMAIN.encode(np.random.default_rng(seed).integers(1, P, count), dtype)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("narrowest", ["uint8", "float16", "int32", "int64"])
def test_what_is_run_comes_back_bit_for_bit_and_hashes_are_told_from_it(dtype: str, narrowest: str) -> None:
    domain = make_running([narrowest, dtype])
    own = numbers(dtype, 500)
    bits = domain.encode_run(own, dtype)
    is_run, back = domain.look(bits, dtype)
    assert bits.dtype == domain.stored(dtype) and is_run.all() and same(back, own)
    symbols, modular = np.random.default_rng(1).integers(1, P, 500), make_modular([narrowest, dtype])
    drawn = domain.encode(symbols, dtype)
    assert not domain.look(drawn, dtype)[0].any()
    assert (domain.decode(drawn, dtype) == modular.decode(modular.encode(symbols, dtype), dtype)).all()


@pytest.mark.parametrize("dtype", REAL)
def test_zero_is_bytes_of_zero_in_both_and_a_number_of_the_text_has_no_dimensions(dtype: str) -> None:
    assert not np.frombuffer(DOMAIN.encode_run(np.zeros(1, numpy_dtype(dtype)), dtype).tobytes(), np.uint8).any()
    assert DOMAIN.look(DOMAIN.encode(np.zeros(1, np.int64), dtype), dtype)[0].all()
    assert DOMAIN.fill(0, dtype).shape == () and DOMAIN.look(DOMAIN.fill(1, dtype), dtype)[0].all()


@pytest.mark.parametrize("dtype,other", [("int32", "uint32"), ("int32", "float32"), ("int8", "uint8")])
def test_bytes_of_another_type_or_of_two_elements_are_not_run(dtype: str, other: str) -> None:
    own = numbers(dtype, 2000)
    own[own == 0] = 1
    bits = DOMAIN.encode_run(own, dtype)
    assert not DOMAIN.look(bits, other)[0].any()
    size = bits.dtype.itemsize
    raw = bits.view(np.uint8).reshape(-1, size)
    mixed = np.concatenate([raw[:1000, : size // 2], raw[1000:, size // 2 :]], 1).copy().view(bits.dtype)[:, 0]
    differ = own[:1000] != own[1000:]
    assert not DOMAIN.look(mixed, dtype)[0][differ].any()
    with pytest.raises(TypeError, match="no number"):
        DOMAIN.integers(mixed[differ], dtype)


def trees(rng: np.random.Generator, depth: int) -> Node:
    """A tree of integers over two elements and a number of the place."""
    if depth == 0:
        number = Literal(int(rng.integers(-9, 9)), "int32")
        leaves: list[Node] = [Element(0, "int32"), Element(1, "int32"), Whole(0), number]
        return leaves[rng.integers(len(leaves))]
    name = str(rng.choice(["+", "-", "*", "min", "max", "//", "where", "neg", "abs"]))
    one, two = trees(rng, depth - 1), trees(rng, depth - 1)
    if name == "where":
        compared = Apply(str(rng.choice(["<", "<=", "==", "!="])), (trees(rng, depth - 1), one), "bool")
        return Apply("where", (compared, one, two), "int32")
    return Apply(name, (one,) if name in ("neg", "abs") else (one, two), "int32")


@pytest.mark.parametrize("seed", range(30))
def test_integers_are_computed_with_as_the_machine_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree, a, b = trees(rng, 3), numbers("int32", 64, seed), rng.integers(-3, 3, 64).astype(np.int32)
    for dtype in ("int32", "int64", "uint8", "float32"):
        want = TYPED.compute(tree, [a, b], [np.arange(64)], {}, dtype)
        got = DOMAIN.compute(tree, [DOMAIN.encode_run(x, "int32") for x in (a, b)], [np.arange(64)], {}, dtype)
        is_run, own = DOMAIN.look(got, dtype)
        assert is_run.all() and same(np.broadcast_to(own, want.shape).copy(), want)


@pytest.mark.parametrize("seed", range(30))
def test_of_run_and_hashed_elements_each_result_is_what_it_is_alone(seed: int) -> None:
    """No element has a say in what another one becomes: so plan and spec may compute them in any groups."""
    rng = np.random.default_rng(seed)
    tree, a = trees(rng, 3), DOMAIN.encode_run(numbers("int32", 40, seed), "int32")
    b = np.where(rng.random(40) < 0.5, DOMAIN.encode_run(rng.integers(-3, 3, 40).astype(np.int32), "int32"),
                 hashes("int32", 40, seed))  # fmt: skip
    got = np.broadcast_to(DOMAIN.compute(tree, [a, b], [np.arange(40)], {}, "int32"), (40,))
    for k in range(40):
        alone = DOMAIN.compute(tree, [a[k : k + 1], b[k : k + 1]], [np.arange(k, k + 1)], {}, "int32")
        assert np.ravel(alone)[0] == got[k]


def test_hashed_elements_are_computed_with_as_modular_does() -> None:
    modular = make_modular(["int8"])  # of the same scale or another: symbols are what is compared
    x, y = (np.random.default_rng(k).integers(1, P, 50) for k in (1, 2))
    a, b = Element(0, "float32"), Element(1, "float32")
    for tree in (
        Apply("+", (a, Apply("exp", (b,), "float32")), "float32"), Apply("max", (a, b), "float32"),
        Apply("where", (Apply("<", (a, b), "bool"), a, b), "float32"),
    ):  # fmt: skip
        found = [
            d.decode(d.compute(tree, [d.encode(v, "float32") for v in (x, y)], [], {}, "float32"), "float32")
            for d in (DOMAIN, modular)
        ]
        assert (found[0] == found[1]).all()


@pytest.mark.parametrize("function", ["+", "*", "max", "min"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_fold_of_run_integers_is_the_same_in_any_order(function: str, dtype: str) -> None:
    bits = DOMAIN.encode_run(numbers(dtype, 17), dtype)
    want = DOMAIN.fold(function, bits[None], 1, dtype)
    assert DOMAIN.look(want, dtype)[0].all()
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(17)
        assert (DOMAIN.fold(function, bits[order][None], 1, dtype) == want).all()


def test_floats_are_compared_and_chosen_as_they_are_and_their_sums_are_hashed() -> None:
    own = np.array([1.5, -2.0, 0.25, 1.5], np.float32)
    x, y = DOMAIN.encode_run(own, "float32"), DOMAIN.encode_run(own[::-1].copy(), "float32")
    a, b = Element(0, "float32"), Element(1, "float32")
    for name in ("max", "min"):
        is_run, got = DOMAIN.look(DOMAIN.combine(name, x, y, "float32"), "float32")
        assert is_run.all() and same(got, TYPED.combine(name, own, own[::-1].copy(), "float32"))
    first = Apply("where", (Apply("==", (a, b), "bool"), Whole(0), Literal(9, "int32")), "int32")
    found = DOMAIN.compute(first, [x, x[:1]], [np.arange(4)], {}, "int32")
    assert DOMAIN.integers(found, "int32").tolist() == [0, 9, 9, 3]
    total = DOMAIN.combine("+", x, y, "float32")
    assert not DOMAIN.look(total, "float32")[0].any()
    assert (DOMAIN.fold("+", x[None], 1, "float32") == DOMAIN.fold("+", x[::-1][None], 1, "float32")).all()
