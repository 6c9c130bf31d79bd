"""Integers of expressions, executed: each against Python's own reading of the same text, with Python's precedence."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

from text.run import compile_changed, compile_plans, requires_runner
from tilegen.arithmetic import evaluate_typed
from tilegen.arithmetic.intervals import range_of_type
from tilegen.dtypes import numpy_dtype
from tilegen.pipeline import Built, build
from tilegen.spec.outline import outline

pytestmark = requires_runner
TYPES = ("int32", "uint32", "int64", "uint64")
COUNT = 64  # elements of an array
RESULTS = 6  # of a kernel, each an expression


# ---------------------------------------------------------------- integers as the page has them, in Python
@dataclass(frozen=True)
class Word:
    """An integer of a type, which wraps; a number of the text takes the type that it meets."""

    value: int
    type: str

    @property
    def bits(self) -> int:
        return int(self.type[-2:])

    def of(self, value: int) -> Word:
        low = range_of_type(self.type).numbers[0]
        return Word((value - low) % (1 << self.bits) + low, self.type)

    def meet(self, other: object, function: Callable[[int, int], int]) -> Word:
        return self.of(function(self.value, number_of(other)))

    def apply(self, name: str, other: object, is_right: bool = False) -> Word:
        """An operator of two words, or of a word and a number of the text on either side."""
        own, count = self.value, number_of(self.of(number_of(other)))
        a, b = (count, own) if is_right else (own, count)
        if name in ("<<", ">>"):
            b %= 1 << self.bits
            return self.of((a << b if b < self.bits else 0) if name == "<<" else a >> min(b, self.bits))
        functions: dict[str, Callable[[int, int], int]] = {
            "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
            "&": operator.and_, "|": operator.or_, "^": operator.xor,
        }  # fmt: skip
        return self.of(functions[name](a, b))

    def __invert__(self) -> Word:
        return self.of(~self.value)

    def __neg__(self) -> Word:
        return self.of(-self.value)

    def __lt__(self, other: object) -> bool:
        return self.value < number_of(other)

    def __le__(self, other: object) -> bool:
        return self.value <= number_of(other)

    def __gt__(self, other: object) -> bool:
        return self.value > number_of(other)

    def __ge__(self, other: object) -> bool:
        return self.value >= number_of(other)

    def __eq__(self, other: object) -> bool:
        return self.value == number_of(other)

    __hash__ = None  # type: ignore[assignment]


for _name, _sign in {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^", "lshift": "<<",
    "rshift": ">>",
}.items():  # fmt: skip
    setattr(Word, f"__{_name}__", lambda self, other, sign=_sign: self.apply(sign, other))
    setattr(Word, f"__r{_name}__", lambda self, other, sign=_sign: self.apply(sign, other, True))


def number_of(x: object) -> int:
    return x.value if isinstance(x, Word) else int(x)  # type: ignore[call-overload]


def known_words(type_: str) -> dict[str, Any]:
    """The functions of the language, of words of a type."""
    bits, mask = int(type_[-2:]), (1 << int(type_[-2:])) - 1
    convert = {t: lambda x, t=t: Word(0, t).of(number_of(x)) for t in TYPES}
    return convert | {
        "min": lambda a, b: Word(min(number_of(a), number_of(b)), type_),
        "max": lambda a, b: Word(max(number_of(a), number_of(b)), type_),
        "where": lambda c, a, b: Word(0, type_).of(number_of(a if c else b)),
        "mulhi": lambda a, b: Word(0, type_).of(number_of(a) * number_of(b) >> bits),
        "popcount": lambda x: Word((number_of(x) & mask).bit_count(), type_),
        "clz": lambda x: Word(bits - (number_of(x) & mask).bit_length(), type_),
    }


# ---------------------------------------------------------------- expressions without parentheses where none are needed
def draw_text(random: Random, type_: str, depth: int) -> str:
    """An expression over x, y, z of a type: operators stand side by side, so that their precedence shows."""
    if depth == 0 or random.random() < 0.1:
        return random.choice(["x", "y", "z", "x", "y", "z", "3", "0x1F", "7", *(["-5"] if type_[0] == "i" else [])])
    kind = random.randrange(12)

    def inner() -> str:
        found = draw_text(random, type_, depth - 1)
        return found if re.search(r"\b[xyz]\b", found) else draw_typed(random)

    if kind < 7:
        right = random.choice(["3", "0x1F", "7", "1", "~7"]) if random.random() < 0.2 else inner()
        words = f"{inner()} {random.choice(['+', '-', '*', '&', '|', '^', '<<', '>>'])} {right}"
        return words if random.random() < 0.6 else f"({words})"
    if kind == 7:
        return f"{random.choice('~-')}({inner()})"
    if kind == 8:
        return f"({inner()}) {random.choice(['//', '%'])} {random.choice(['3', '8', '0x11'])}"
    if kind == 9:
        return f"{random.choice(['min', 'max', 'mulhi'])}({draw_typed(random)}, {inner()})"
    if kind == 10:
        return f"{random.choice(['popcount', 'clz'])}({draw_typed(random)})"
    compared = (
        f"{inner()} {random.choice(['<', '<=', '>', '>=', '==', '!='])} {random.choice(['x * y', '5', '(y ^ z)'])}"
    )
    return f"where({compared}, {draw_typed(random)}, {inner()})"


def draw_typed(random: Random) -> str:
    return random.choice(["x", "y", "z", "x ^ y", "y - z", "~x"])


def build_drawn(type_: str, texts: list[str]) -> Built:
    arrays = {n: {"scope": "global", "dtype": type_, "shape": [COUNT]} for n in "xyz"}
    arrays |= {f"R{k}": {"scope": "global", "dtype": type_, "shape": [COUNT]} for k in range(len(texts))}
    ops = [{"elementwise": {"dst": f"R{k}", "expr": text}} for k, text in enumerate(texts)]
    built = build({"kernel": "k", "threads": 32, "buffers": arrays, "ops": ops})
    assert isinstance(built, Built)
    return built


def draw_inputs(random: Random, type_: str) -> dict[str, Any]:
    """Numbers near the ends of a type, near 0, near the counts of bits, and any."""
    low, top = range_of_type(type_).numbers
    near = [low, low + 1, top, top - 1, 0, 1, 2, 31, 32, 33, 63, 64, 65, max(low, -1), max(low, -7), top // 2 + 1]
    return {
        n: np.array([random.choice(near) if random.random() < 0.5 else random.randint(low, top) for _ in range(COUNT)],
                    numpy_dtype(type_))
        for n in "xyz"
    }  # fmt: skip


def draw_texts(seed: int, type_: str) -> list[str]:
    random = Random(f"integers {type_} {seed}")
    found: list[str] = []
    while len(found) < RESULTS:
        text = draw_text(random, type_, 3)
        if re.search(r"\b[xyz]\b", text) and len(text) > 1:
            found.append(text)
    return found


@pytest.mark.parametrize("type_", TYPES)
def test_drawn_expressions(type_: str) -> None:
    drawn = [draw_texts(seed, type_) for seed in range(6)]
    built = [build_drawn(type_, texts) for texts in drawn]
    runners = compile_plans([b.plan for b in built])
    for seed, (texts, one, runner) in enumerate(zip(drawn, built, runners, strict=True)):
        inputs = draw_inputs(Random(f"inputs {type_} {seed}"), type_)
        got = runner.run(inputs)
        for k, text in enumerate(texts):
            want = [read_by_python(text, type_, inputs, at) for at in range(COUNT)]
            assert got[f"R{k}"].tolist() == want, text
            call = outline(one.spec).calls[k]
            assert call.expression is not None
            elements = [inputs[name] for name in call.expression.operands]
            assert evaluate_typed(call.expression.tree, elements, [], {}, type_).tolist() == want, text


def read_by_python(text: str, type_: str, inputs: dict[str, Any], at: int) -> int:
    """The value of a text as Python parses it, of the elements at one place."""
    words = {name: Word(int(own[at]), type_) for name, own in inputs.items()}
    found = eval(" ".join(text.split()), {"__builtins__": {}}, known_words(type_) | words)
    return number_of(Word(0, type_).of(number_of(found)))


# ---------------------------------------------------------------- shift counts
@pytest.mark.parametrize("type_", TYPES)
def test_shifts_take_any_count(type_: str) -> None:
    """As PTX has them: the count has no sign, and from the type's bits on all are shifted out."""
    bits, low = int(type_[-2:]), range_of_type(type_).numbers[0]
    texts = [f"x {sign} {n}" for sign in ("<<", ">>") for n in (0, 1, bits - 1, bits, bits + 1)]
    texts += ["x << y", "x >> y"]
    built = build_drawn(type_, texts)
    inputs = draw_inputs(Random("shifts"), type_)
    inputs["y"] = np.resize(np.array([0, 1, bits - 1, bits, bits + 1, 255, max(low, -1), 1 << bits - 2]), COUNT)
    inputs["y"] = inputs["y"].astype(numpy_dtype(type_))
    got = compile_plans([built.plan])[0].run(inputs)
    for k, text in enumerate(texts):
        assert got[f"R{k}"].tolist() == [read_by_python(text, type_, inputs, at) for at in range(COUNT)], text


# ---------------------------------------------------------------- wrong texts
FAULTS = {
    "mulhi signed": ("mulhi(x, y)", ("__umulhi(", "(unsigned)__mulhi(")),
    "shift count 32": ("x << y", ("shift_left(x", "shift_by_modulo(x")),
    "logical shift as arithmetic": ("x >> 5", ("x_vals[f] >> 5u", "(int)x_vals[f] >> 5")),
    "compared as signed": ("where(x < y, x, y)", ("x_vals[f] < y_vals[f]", "(int)x_vals[f] < (int)y_vals[f]")),
    "rotated the other way": ("x << 13 | x >> 19", ("<< 13u", "<< 19u"), (">> 19u", ">> 13u")),
    "minimum as signed": ("min(x, y)", ("min(", "signed_least(")),
    "quotient as signed": ("x // 3", ("x_vals[f] / 3u", "(int)x_vals[f] / 3")),
    "wraps at 64 bits": ("(x + y) // 2", ("x_vals[f] + y_vals[f]", "(unsigned long long)x_vals[f] + y_vals[f]")),
}
BEFORE = """__device__ unsigned shift_by_modulo(unsigned x, unsigned n) { return x << n % 32; }
__device__ int signed_least(int x, int y) { return x < y ? x : y; }
"""


@pytest.mark.parametrize("name", FAULTS)
def test_wrong_texts_are_found(name: str) -> None:
    """Each fault of a text is told from the right one by the elements that are drawn here."""
    text, *pairs = FAULTS[name]
    built = build_drawn("uint32", [str(text)])
    inputs = draw_inputs(Random("faults"), "uint32")
    want = [read_by_python(str(text), "uint32", inputs, at) for at in range(COUNT)]
    assert compile_plans([built.plan])[0].run(inputs)["R0"].tolist() == want
    wrong = compile_changed(built.plan, *pairs, before=BEFORE)  # type: ignore[arg-type]
    assert wrong.run(inputs)["R0"].tolist() != want
