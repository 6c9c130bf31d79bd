"""Index expressions: the printed text means what was built, and what is known of a value is true."""

from __future__ import annotations

import pickle
import random
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session import examples
from tilegen.index import (
    Formula,
    Index,
    Var,
    add,
    any_of,
    bound,
    ceil_div,
    conjuncts,
    count_operators,
    div,
    equal,
    evaluate,
    every,
    least,
    less,
    mod,
    mul,
    multiple,
    not_,
    select,
    sub,
    substitute,
    to_c,
    variables,
    xor,
)  # fmt: skip
from tilegen.index.bounds import is_below

VARS = (Var("a", 32), Var("b", 7), Var("c", 64, 8), Var("d", 1024, 128), Var("e", 3), Var("f", 40, 4, 12))
DIVISORS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64)


def samples(seed: int, n: int = 64) -> dict[str, np.ndarray]:
    """Random values of every variable, its least and largest among them."""
    rng = np.random.default_rng(seed)
    values = {}
    for v in VARS:
        legal = np.arange(-(-v.least // v.step) * v.step, v.bound, v.step)
        values[v.name] = np.concatenate([[legal[0], legal[-1]], rng.choice(legal, n - 2)])
    return values


VALUES = samples(1)


def grow(pick, depth: int, values):
    """A random expression and its value computed directly. ``pick(options)`` chooses."""
    if depth == 0:
        leaf = pick([*VARS, 0, 1, 3, 7, 12, 40])
        return (leaf, values[leaf.name]) if isinstance(leaf, Var) else (leaf, leaf)
    x, i = grow(pick, depth - 1, values)
    symbol = pick(["+", "*", "/", "%", ">>", "&", "^", "-", "+x", "^x"])
    if symbol in ("+x", "^x", "-"):
        y, j = grow(pick, depth - 1, values)
        if symbol == "+x":
            return x + y, i + j
        if symbol == "^x":
            return x ^ y, i ^ j
        top = bound(y) + pick([0, 1, 5])
        return sub(add(x, top), y), i + top - j
    n = pick(DIVISORS)
    if symbol == "+":
        return x + n, i + n
    if symbol == "*":
        return x * n, i * n
    if symbol == "/":
        return x // n, i // n
    if symbol == "%":
        return x % n, i % n
    if symbol == "^":
        return x ^ n, i ^ n
    n = pick([0, 1, 2, 3, 4])
    return (x >> n, i >> n) if symbol == ">>" else (x & 2**n - 1, i & 2**n - 1)


@st.composite
def expressions(draw, most: int = 4):
    return grow(lambda options: draw(st.sampled_from(options)), draw(st.integers(0, most)), VALUES)


# ---------------------------------------------------------------- laws
@pytest.mark.slow
@settings(max_examples=examples(1500), deadline=None)
@given(expressions())
def test_printed_text_has_the_value_and_the_value_is_as_known(pair):
    x, direct = pair
    assert np.all(evaluate(x, VALUES) == direct), to_c(x)
    assert np.max(direct) < bound(x), to_c(x)
    assert np.min(direct) >= least(x), to_c(x)
    m = multiple(x)
    assert np.all(direct == 0) if m == 0 else not np.any(direct % m), to_c(x)


@settings(max_examples=examples(500), deadline=None)
@given(expressions(3), expressions(2), st.sampled_from(VARS))
def test_substitute_is_evaluation_with_another_value(pair, replacement, var):
    (x, _), (y, j) = pair, replacement
    inside = substitute(y % var.bound, {})  # a value that the variable could have, its step apart
    if var.step > 1 or var.least:
        inside, j = VALUES[var.name][3].item(), VALUES[var.name][3]
    else:
        j = j % var.bound
    assert np.all(evaluate(substitute(x, {var.name: inside}), VALUES) == evaluate(x, {**VALUES, var.name: j})), to_c(x)


@settings(max_examples=examples(300), deadline=None)
@given(expressions(3))
def test_substituting_nothing_changes_nothing(pair):
    x, direct = pair
    assert substitute(x, {}) is x
    renamed = substitute(x, {v.name: Var(v.name + "_", v.bound, v.step, v.least) for v in VARS})
    assert np.all(evaluate(renamed, {k + "_": v for k, v in VALUES.items()}) == direct)
    assert {v.name for v in variables(renamed)} <= {v.name + "_" for v in VARS}


@settings(max_examples=examples(300), deadline=None)
@given(expressions(3))
def test_all_fixed_gives_the_number(pair):
    x, _ = pair
    for i in (0, 1, 17):
        fixed = {k: int(v[i]) for k, v in VALUES.items()}
        assert substitute(x, fixed) == evaluate(x, fixed)


@settings(max_examples=examples(600), deadline=None)
@given(expressions(2), expressions(2), expressions(2))
def test_conditions(one, two, three):
    (x, i), (y, j), (z, k) = one, two, three
    for made, direct in [
        (less(x, y), i < j), (equal(x, y), i == j), (not_(less(x, y)), i >= j), (not_(equal(x, y)), i != j),
        (every(less(x, y), less(y, z)), (i < j) & (j < k)), (any_of(less(x, y), equal(y, z)), (i < j) | (j == k)),
        (not_(every(less(x, y), equal(y, z))), np.logical_not((i < j) & (j == k))),
        (every(any_of(less(x, y), less(z, y)), less(x, z)), ((i < j) | (k < j)) & (i < k)),
    ]:  # fmt: skip
        assert np.all(np.asarray(evaluate(made, VALUES)).astype(bool) == np.asarray(direct, bool)), to_c(made)
        assert every(*conjuncts(made)) == made


@settings(max_examples=examples(400), deadline=None)
@given(expressions(2), expressions(2))
def test_arithmetic_between_expressions(one, two):
    (x, i), (y, j) = one, two
    assert np.all(evaluate(mul(x, y), VALUES) == i * j)
    divisor = add(y, 1)
    assert np.all(evaluate(div(x, divisor), VALUES) == i // (j + 1))
    assert np.all(evaluate(mod(x, divisor), VALUES) == i % (j + 1))
    assert np.all(evaluate(ceil_div(x, divisor), VALUES) == -(-i // (j + 1)))
    for made, direct in ((mul(x, y), i * j), (div(x, divisor), i // (j + 1)), (mod(x, divisor), i % (j + 1))):
        assert least(made) <= np.min(direct) and np.max(direct) < bound(made), to_c(made)
        m = multiple(made)
        assert np.all(direct == 0) if m == 0 else not np.any(direct % m), to_c(made)


# ---------------------------------------------------------------- what is printed
@pytest.mark.parametrize("x, text", [
    (Var("a", 32) * 4 + Var("b", 4) - 0, "a * 4 + b"),
    (Var("t", 256) // 32 ^ Var("r", 8) % 4, "(t >> 5) ^ (r & 3)"),
    ((Var("t", 256) // 16 * 16) + Var("t", 256) % 16, "t"),
    (sub(Var("a", 32) + 8, Var("b", 8) + 1), "a + 7 - b"),
    (sub(100, Var("a", 32) + Var("b", 8)), "100 - (a + b)"),
    (Var("row", 1 << 20) * 8192, "(size_t)row * 8192"),
    (Var("a", 9) // 3 * 5, "a / 3 * 5"),
    (every(less(Var("a", 9), 5), any_of(equal(Var("b", 9), 1), less(Var("c", 9), 3))), "a < 5 && (b == 1 || c < 3)"),
])  # fmt: skip
def test_text(x: Index, text: str):
    assert to_c(x) == text


def test_division_through_an_offset_that_cannot_carry():
    d = Var("d", 1024, 128)
    assert div(d * 1 + Var("a", 32), 128) == div(d, 128)
    assert mod(Var("bx", 9) * 128 + Var("a", 32), 64) == Var("a", 32)
    assert xor(Var("a", 32), 0) == Var("a", 32)


def test_operators_are_counted_as_printed():
    a, b = Var("a", 32), Var("b", 7)
    assert [count_operators(x) for x in (3, a, a + b, a * 4 + b, (a ^ b) * 4 + 1)] == [0, 0, 1, 2, 3]


def test_what_exceeds_an_int_is_widened():
    row = Var("row", 1 << 20)
    for x in (row * 8192, row * 8192 + Var("a", 32), Var("a", 32) + row * 8192, row * Var("n", 1 << 14)):
        assert "(size_t)" in to_c(x)
    assert "size_t" not in to_c(row * 2047)


# ---------------------------------------------------------------- the compiler's opinion
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_a_compiler_computes_the_same(tmp_path):
    """C precedence, shifts, masks and size_t as g++ reads them, for 200 random expressions at once."""
    rng = random.Random(7)
    wide = Var("w", 1 << 22)
    made = [grow(rng.choice, rng.randint(1, 4), VALUES)[0] for _ in range(180)]
    made += [wide * rng.choice([1 << 12, 5000]) + rng.choice(made) for _ in range(10)]
    made += [every(less(x, y), any_of(equal(x, z), less(z, y))) for x, y, z in (rng.sample(made, 3) for _ in range(10))]
    made = [x for x in made if isinstance(x, (Var, Formula))]
    values = {**VALUES, "w": np.random.default_rng(2).integers(0, 1 << 22, 64)}
    names = sorted(values)
    rows = ",\n".join("{" + ", ".join(str(int(values[n][i])) for n in names) + "}" for i in range(64))
    prints = "\n".join(f'    printf("%llu\\n", (unsigned long long)({to_c(x)}));' for x in made)
    unpack = " ".join(f"const int {n} = v[{i}];" for i, n in enumerate(names))
    source = f"""#include <cstdio>
#include <cstddef>
static const int values[64][{len(names)}] = {{{rows}}};
int main() {{
  for (const auto &v : values) {{
    {unpack}
{prints}
  }}
}}
"""
    (tmp_path / "x.cpp").write_text(source)
    subprocess.run(["g++", "-w", "-O0", "-o", tmp_path / "x", tmp_path / "x.cpp"], check=True)
    printed = subprocess.run([tmp_path / "x"], check=True, capture_output=True, text=True).stdout.split()
    got = np.array(printed, dtype=np.uint64).reshape(64, len(made))
    for i, x in enumerate(made):
        want = np.broadcast_to(np.asarray(evaluate(x, values)).astype(np.uint64), (64,))
        assert np.array_equal(got[:, i], want), to_c(x)


def test_a_formula_leaves_its_hash_behind() -> None:
    """Texts hash otherwise in another process, where equal formulas must still be found."""
    x = Var("tx", 64) * 4 + Var("i", 4)
    assert hash(x) == hash(pickle.loads(pickle.dumps(x)))
    assert "_hash" in vars(x) and "_hash" not in vars(pickle.loads(pickle.dumps(x)))


def test_a_selection_is_the_same_in_what_is_asked_and_in_guards() -> None:
    """Though a guard narrows a variable of it: what is asked is then written with the narrower one."""
    down, rows, cta = Var("down", 64), Var("rows", 64, 1, 1), Var("cta", 8)
    row = select(less(cta, 1), down, sub(sub(rows, 1), down))
    assert is_below(row, rows, (less(0, down), less(row, rows)))
    assert not is_below(row, rows, (less(0, down),))
