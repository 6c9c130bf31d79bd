"""Products with scale factors: right values against NumPy alone, and every wrong place, byte and order of a factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.steps import Change, Match, double, drop, is_a, mutate, turn
from tests.faults.verdicts import ONE_CTA, build_codes, proof_code, refusal_of
from tests.specs.kernels import Draft, draft
from tests.tensor.scaled import Scaled
from tilegen.dtypes import numpy_dtype, powers_of_two
from tilegen.errors import TilegenError
from tilegen.interpret import interpret
from tilegen.pipeline import build
from tilegen.plan import Plan, TensorCopy, TensorMma
from tilegen.proofs import prove

ROOT = Path(__file__).parents[2]
SIZES = {"M": 128, "N": 448, "K": 640, "C": 1}  # two tiles of five trips, so that slots come again
TEXT = (ROOT / "specs" / "gemm_mxfp8.yaml").read_text(encoding="utf-8")


@cache
def drafted() -> Draft:
    return draft(TEXT, params=dict(SIZES))


# ---------------------------------------------------------------- values
@cache
def drawn() -> dict[str, Any]:
    """Small integers, powers of two, and what their product is, rounded once."""
    m, n, k = SIZES["M"], SIZES["N"], SIZES["K"]
    random = np.random.default_rng(1)
    a, b = (random.integers(-3, 4, (rows, k)).astype(numpy_dtype("float8_e4m3fn")) for rows in (m, n))
    sfa, sfb = (powers_of_two(random.integers(0, 8, (rows, k // 32))) for rows in (m, n))
    order = lambda x: np.ascontiguousarray(x.reshape(-1, 32, k // 128, 4).transpose(2, 0, 1, 3)).reshape(-1)  # noqa: E731
    given = {"A": a.reshape(-1), "B": b.reshape(-1), "FA": order(sfa), "FB": order(sfb)}
    wide = [x.astype(np.float64) * np.repeat(f.astype(np.float64), 32, 1) for x, f in ((a, sfa), (b, sfb))]
    wanted = (wide[0] @ wide[1].T).astype(np.float32).astype(numpy_dtype("bfloat16"))
    return given | {"D": wanted.reshape(-1)}


def run(plan: Plan) -> bool:
    """Whether the interpreter gets what NumPy does; raises what stops it."""
    inputs = {name: (lambda at, x=x: x[at]) for name, x in drawn().items() if name != "D"}
    at, values = interpret(plan, ONE_CTA, inputs).written["D"]
    wanted = drawn()["D"]
    return np.array_equal(at, np.arange(wanted.size)) and np.array_equal(values.view("u2"), wanted.view("u2"))


def test_values_are_those_of_scaled_matrices() -> None:
    assert run(drafted().plan)


SHAPES = {
    "64 columns": Scaled(128, 64, 128), "24 columns, steps in two columns": Scaled(128, 24, 256, "float8_e5m2"),
    "two rows of sums": Scaled(256, 128, 256), "three products along N": Scaled(128, 384, 128, b="float8_e5m2"),
}  # fmt: skip


@pytest.mark.parametrize("what", SHAPES)
def test_values_of_products_of_other_shapes(what: str) -> None:
    scaled = SHAPES[what]
    given = scaled.draw()
    inputs = {name: (lambda at, x=x: x[at]) for name, x in given.items()}
    own = draft(scaled.spec())
    at, values = interpret(own.plan, ONE_CTA, inputs).written["D"]
    assert np.array_equal(at, np.arange(scaled.m * scaled.n))
    assert np.array_equal(values.view("u2"), given["D"].view("u2"))
    prove(own.spec, own.plan)


def test_factors_of_products_along_n_begin_at_4_columns() -> None:
    assert "128 x 128 of several along N" in str(refusal_of(TilegenError, build, Scaled(128, 448, 128).spec()))


# ---------------------------------------------------------------- faults of the plan
def of_product(number: int) -> Match:
    """The products of one step along K."""
    return lambda step: isinstance(step, TensorMma) and step.factor == number


def swap_sides(step: Any) -> tuple[Any, ...]:
    return (replace(step, sfa=step.sfb, sfb=step.sfa),)


def move_rows(by: int) -> Change:
    """A copy that takes what lies so many elements on."""
    return lambda s: (replace(s, src=replace(s.src, at=(s.src.at[0] + by,))),)


def move_columns(by: int) -> Change:
    return lambda s: (replace(s, dst=replace(s.dst, at=(s.dst.at[0], s.dst.at[1] + by))),)


def stride(step_bytes: int) -> Change:
    return lambda s: (replace(s, src_lies=replace(s.src_lies, stride_bytes=step_bytes)),)


COPY, PRODUCT = is_a(TensorCopy), is_a(TensorMma)
OTHERS = "other values"
OF_PLANS: dict[str, tuple[Match, Change, int | None, str]] = {
    "20 the byte of another step along K": (of_product(1), turn(factor=0), None, OTHERS),
    "factors of b for a, and of a for b": (PRODUCT, swap_sides, None, "TG404"),
    "rows of the neighbour": (COPY, move_rows(16), 0, "TG403"),
    "rows that begin inside of 16 bytes": (COPY, move_rows(4), 0, "TG402"),
    "columns of another place": (COPY, move_columns(16), 0, "TG404"),
    "columns that are none of 4": (COPY, move_columns(4), 0, "TG402"),
    "groups of rows at one place": (COPY, stride(0), None, OTHERS),
    "groups of rows twice as far apart": (COPY, stride(256), 1, "TG403"),
    "a descriptor of wgmma": (
        COPY, lambda s: (replace(s, src_lies=replace(s.src_lies, engine="wgmma")),), None, "TG412"),
    "a byte that no column has": (PRODUCT, turn(factor=4), None, "TG412"),
    "the same columns copied twice": (COPY, double, 0, "TG422"),
    "no copy of the factors of a": (COPY, drop, 0, "TG404"),
    "no copy of the factors of b": (COPY, drop, 1, "TG404"),
}  # fmt: skip


@pytest.mark.parametrize("what", OF_PLANS)
def test_a_planted_fault_of_a_plan_is_found(what: str) -> None:
    match, change, nth, code = OF_PLANS[what]
    planted, is_right = mutate(drafted().plan, match, change, nth), [False]

    def see() -> None:
        is_right[0] = run(planted)

    assert (proof_code(see) or OTHERS) == code and not is_right[0], what
    assert proof_code(lambda: prove(drafted().spec, planted)), what


# ---------------------------------------------------------------- faults of the spec
def line(words: str) -> str:
    (found,) = [x for x in TEXT.splitlines(keepends=True) if words in x]
    return found


COPY_A, MULTIPLY = line('dst: "ta[s % 4]"'), line("- mma: {a")
OF_SPECS: dict[str, tuple[Callable[[str], str], str]] = {
    "15 the copy behind the product that needs it": (
        lambda s: s.replace(COPY_A, "").replace(MULTIPLY, MULTIPLY + COPY_A), "TG404"),
    "16 the copy into a slot that a product in flight reads": (
        lambda s: s.replace('"ta[s % 4]"', '"ta[0]"'), "TG422"),
    "17 no sync: async behind turning": (lambda s: s.replace(line("- sync: async    "), ""), "TG424"),
    "18 turned without the warp's sync": (lambda s: s.replace(line("- sync: warp"), ""), "TG424"),
    "nobody waits until factors are turned": (
        lambda s: s.replace(line('- wait: {barrier: "turned[s % 4]"}'), ""), "TG422"),
    "factors of the stage before": (
        lambda s: s.replace('sfa: "ta[s % 4]"', 'sfa: "ta[(s + 3) % 4]"'), "TG404"),
    "a stage is freed before its copies": (
        lambda s: s.replace(line('commit: {barrier: "free'), "").replace(
            COPY_A, line('commit: {barrier: "free') + COPY_A), "TG422"),
}  # fmt: skip


@pytest.mark.parametrize("what", OF_SPECS)
def test_a_planted_fault_of_a_spec_is_found(what: str) -> None:
    change, code = OF_SPECS[what]
    planted = change(TEXT)
    assert planted != TEXT
    assert build_codes(_sized(planted)) == {code}, what


def _sized(text: str) -> str:
    first = line("params: {")
    return text.replace(first, f"params: {{{', '.join(f'{n}: {x}' for n, x in SIZES.items())}}}\n")


def by_two_roles(waits: bool) -> str:
    """One role copies factors and commits, another multiplies when it has heard of that."""
    text = Scaled(128, 64, 128).spec()
    copies = "".join(x for x in text.splitlines(keepends=True) if "dst: t" in x)
    wait = '      - wait: {barrier: "full[0]"}\n'
    told = '      - commit: {barrier: "copied[0]"}\n'
    role = f"  - role: bring\n    do:\n{wait}{copies}{told}"
    heard = '      - wait: {barrier: "copied[0]"}\n' if waits else ""
    text = text.replace(copies, heard).replace("  store: {threads", "  bring: {threads: 32}\n  store: {threads")
    text = text.replace("  done: {slots", "  copied: {slots: 1}\n  done: {slots")
    return text.replace("  - role: mma\n", f"{role}  - role: mma\n")


def test_factors_of_another_thread_need_its_commit() -> None:
    assert build_codes(by_two_roles(True)) == set()
    codes = build_codes(by_two_roles(False))
    assert codes and codes <= {"TG403", "TG404", "TG422"}, codes


# ---------------------------------------------------------------- copies that there are not
REFUSED = {
    "not asynchronous": (lambda s: s.replace('"ta[s % 4]", async: true}', '"ta[s % 4]"}'), "'async: true'"),
    "by the rows of a warp each": (
        lambda s: s.replace('"ta[s % 4]", async: true}', '"ta[s % 4]", async: true, scope: thread}'),
        "one thread starts a copy"),
    "19 factors in one group of lanes": (
        lambda s: s.replace('src: "fa_rows[s % 4]", dst: "ta[s % 4]"', 'src: "fa_rows[s % 4]", dst: "one[s % 4]"')
        .replace("  h: {", '  one: {scope: tmem, dtype: float8_e8m0fnu, shape: [4, 128, 4], layout: '
                           '"S[(4, 4, 32, 4):(16@TCol, 4@TCol, 1@TLane, 1@TCol)]"}\n  h: {'),
        "writes all four groups of lanes"),
    "factors that nobody turned": (
        lambda s: s.replace('src: "fa_rows[s % 4]"', 'src: "plain[s % 4]"')
        .replace("  h: {", "  plain: {view: fa, shape: [4, 128, 4]}\n  h: {"),
        "lies 128 bytes from where a copy begins"),
    "half of the columns": (
        lambda s: s.replace('src: "fa_rows[s % 4]", dst: "ta[s % 4]"',
                            'src: "fa_rows[s % 4, 0 : 64]", dst: "ta[s % 4, 0 : 64]"'),
        "does not have whole ones"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_copy_that_there_is_not_is_refused(what: str) -> None:
    change, words = REFUSED[what]
    planted = change(TEXT)
    assert planted != TEXT
    said = str(refusal_of(TilegenError, build, planted))
    assert words in said, said
