"""permute_layout moves neighbours that both sides keep as one word: as wide elements, and never a byte of another."""

from __future__ import annotations

import random
from itertools import permutations
from math import perm

import numpy as np
import pytest

import tilegen
from tests.faults.steps import mutate
from tests.faults.verdicts import ONE_CTA
from tests.oracles.draw import draw_layout
from tests.oracles.kernels import DTYPE_OF_BYTES, choice, cost_key, permutation, strided
from tilegen.errors import ProofError
from tilegen.interpret import interpret
from tilegen.ops.permute_layout.lane_search import Side, search_lanes
from tilegen.plan import Block, Move, Ref, Step, effects, flatten
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.spaces import SHARED

VARIANTS = ["auto", "warp_vector", "warp_xor_swizzle", "warp_linear_swizzle"]


def with_fields(text: str, fields: str) -> str:
    return text.replace("src: A, dst: B", f"src: A, dst: B, {fields}", 1) if fields else text


def permute_of(text: str, fields: str = ""):
    return tilegen.explain(with_fields(text, fields))["ops"][1]


def narrowed(layout: str, word: int) -> str:
    """A layout of wide elements as one of ``word`` narrow ones each, in a dimension of their own."""
    extents, strides = (p.strip("()").split(",") for p in layout.removeprefix("S[").removesuffix("]").split(":"))
    return strided([*map(int, extents), word], [*(int(s) * word for s in strides), 1])


def wide_and_narrow(shape: list[int], size: int, word: int, src: str, dst: str) -> tuple[str, str]:
    wide = permutation(shape, DTYPE_OF_BYTES[size * word], src, dst)
    return wide, permutation([*shape, word], DTYPE_OF_BYTES[size], narrowed(src, word), narrowed(dst, word))


# ---------------------------------------------------------------- as wide elements
@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("size", "word"), [(1, 4), (2, 2), (1, 2), (2, 4)])
def test_words_take_what_wide_elements_take(variant, size, word):
    wide, narrow = wide_and_narrow([4, 32], size, word, "S[(4,32):(32,1)]", "S[(4,32):(1,4)]")
    fields = f"variant: {variant}"
    one, other = permute_of(wide, fields), permute_of(narrow, fields)
    assert cost_key(one) == cost_key(other) and one["variant"] == other["variant"]
    said, picked = choice(other, "vector_width"), choice(one, "vector_width") or {"bytes": size * word}
    assert said["bytes"] == picked["bytes"] and said["elems"] == said["bytes"] // size


def drawn() -> list[tuple[list[int], int, int, str, str]]:
    pick, cases = random.Random(8), []
    while len(cases) < 12:
        shape = [pick.choice([2, 3, 4, 8, 16, 32]) for _ in range(pick.choice([2, 3]))]
        if np.prod(shape) % 32 or np.prod(shape) > 512:
            continue
        size, word = pick.choice([(1, 2), (1, 4), (2, 2), (1, 8), (4, 2)])
        src, dst = (draw_layout(pick, shape, pick.choice([0, 0, 1, 4]), 0.8, tiled=0.2) for _ in "sd")
        cases.append((shape, size, word, src, dst))
    return cases


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "size", "word", "src", "dst"), drawn())
def test_words_of_any_layout_cost_no_more_than_wide_elements(shape, size, word, src, dst):
    wide, narrow = wide_and_narrow(shape, size, word, src, dst)
    assert cost_key(permute_of(narrow)) <= cost_key(permute_of(wide))


# ---------------------------------------------------------------- the same result
def written(text: str):
    spec = tilegen.load(text)
    plan = plan_spec(spec)
    prove(spec, plan)
    return plan, interpret(plan, ONE_CTA, {"In": lambda flat: (flat * 37 + flat // 256).astype(np.uint8)}).written[
        "Out"
    ]


def widths_of(plan) -> set[int]:
    steps = (s for role in plan.roles for s in flatten(role.steps))
    blocks = [s for s in steps if isinstance(s, Block) and s.name.startswith("permute")]
    return {s.elems for b in blocks for s in flatten(effects(b).body) if isinstance(s, Move)}


def tiny() -> list[tuple[list[int], str, str]]:
    """Every order of [2, 8, 4, 2] on one side, row-major or with pitches on the other: words of 1 to 16."""
    shape, cases = [2, 8, 4, 2], []
    for order in permutations(range(4)):
        strides, reach = [0] * 4, 1
        for d in order:
            strides[d], reach = reach, reach * shape[d]
        for row in ([64, 8, 2, 1], [80, 10, 2, 1], [72, 8, 2, 1]):
            cases.append((shape, strided(shape, row), strided(shape, strides)))
    return cases


@pytest.mark.slow
def test_words_and_elements_one_by_one_write_the_same():
    joined = 0
    for shape, src, dst in tiny():
        text = permutation(shape, "uint8", src, dst)
        (plan, one), (plain, other) = (
            written(with_fields(text, f)) for f in ("", "variant: warp_linear_swizzle, width: 1")
        )
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True)), text
        assert widths_of(plain) == {1}
        joined += min(widths_of(plan)) > 1
    assert joined >= 12  # where the last dimension, or the last two, come first on the other side too


@pytest.mark.slow
def test_a_word_is_as_wide_as_both_sides_and_the_lanes_allow():
    """16 bytes that both sides keep; 64 words of 2; pitches that cut words; a swizzle's chunk."""
    for shape, src, dst, most in (
        ([8, 8, 16], "S[(8,8,16):(128,16,1)]", "S[(8,8,16):(16,128,1)]", 16),
        ([4, 32, 16], "S[(4,32,16):(512,16,1)]", "S[(4,32,16):(20,80,1)]", 4),
        ([4, 8, 4], "S[(4,8,4):(32,4,1)]", "S[(4,8,4):(4,16,1)]", 4),
        ([2, 8, 4], "S[(2,8,4):(32,4,1)]", "S[(2,8,4):(4,8,1)]", 2),
        ([4, 32, 8], "S[(4,32,8):(256,8,1)]", "Swizzle(2, 2, 4) o S[(4,32,8):(8,32,1)]", 4),
        ([4, 32, 6], "S[(4,32,6):(192,6,1)]", "S[(4,32,6):(6,24,1)]", 2),
    ):
        op = permute_of(permutation(shape, "uint8", src, dst), "variant: warp_linear_swizzle")
        known = [c["value"]["elems"] for q in op["choices"] if q["question"] == "vector_width" for c in q["candidates"]]
        assert max(known) == most, (shape, dst, known)


# ---------------------------------------------------------------- planted faults
def exchanged(step: Move) -> tuple[Step, ...]:
    """The halves of a word, each in the other's place."""
    half = step.elems // 2
    return tuple(
        Move(_further(step.dst, to), _further(step.src, half - to), half, step.valid, step.via) for to in (0, half)
    )


def half_left(step: Move) -> tuple[Step, ...]:
    return (Move(step.dst, step.src, step.elems // 2, step.valid, step.via),)


def of_next(step: Move) -> tuple[Step, ...]:
    """The second half that of the word's first: one byte of a joined word is another's."""
    half = step.elems // 2
    return tuple(Move(_further(step.dst, to), step.src, half, step.valid, step.via) for to in (0, half))


def _further(ref: Ref, by: int) -> Ref:
    return Ref(ref.memory, (*ref.at[:-1], ref.at[-1] + by))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("fault", [exchanged, half_left, of_next])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_word_that_is_torn_is_found(fault, variant):
    text = permutation([4, 32, 4], "uint8", "S[(4,32,4):(128,4,1)]", "S[(4,32,4):(4,16,1)]")
    spec = tilegen.load(with_fields(text, f"variant: {variant}"))
    plan = plan_spec(spec)
    prove(spec, plan)

    def is_word(step: Step) -> bool:
        names = {step.src.memory.name, step.dst.memory.name} if isinstance(step, Move) else set()
        return bool(names & {"A", "B"}) and "regs" in names and step.elems in (4, 16)

    words = sum(is_word(s) for role in plan.roles for s in flatten(role.steps))
    assert words >= 2  # of both phases
    for nth in range(words):
        with pytest.raises(ProofError):
            prove(spec, mutate(plan, is_word, fault, nth))


# ---------------------------------------------------------------- what was not searched
def sides(*addresses: np.ndarray) -> list[Side]:
    return [Side(a, 4, SHARED, kind) for a, kind in zip(addresses, ("ld", "st"), strict=True)]


def test_a_search_says_what_it_left_out():
    n, order = np.arange(128), [tuple(range(7))]
    assert search_lanes(sides(n * 4, n * 4), order).proof.endswith("than its floor")
    no_way = search_lanes(sides(n * 4, n * 128), order).proof
    assert f"of {perm(7, 5)} choices of five bits" in no_way and "none of all sums of bits" in no_way
    carries = search_lanes(sides(n * 12, n * 128), order).proof
    assert "sums of bits were not tried, since addresses are no XOR of bits" in carries
    wide = np.arange(4096)
    many = search_lanes(sides(wide * 12, wide * 128), [tuple(range(12))]).proof
    assert f"300 of {perm(12, 5)} choices of five bits" in many


def test_widths_say_which_were_no_candidates():
    wide, narrow = wide_and_narrow([4, 32], 1, 4, "S[(4,32):(32,1)]", "S[(4,32):(1,4)]")
    for text, narrower in ((wide, False), (narrow, True)):
        (proof,) = (c["proof"] for c in permute_of(text)["choices"] if c["question"] == "vector_width")
        assert "3 wider pairs leave lanes idle" in proof
        assert ("of words narrower than 4 elements no vectors were searched" in proof) == narrower
