"""Params that are known when a kernel is built, chosen among alternatives or computed; and the version key."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilegen
from tests.faults.verdicts import refusal_of
from tests.session import examples
from tilegen.errors import SpecError
from tilegen.report.resolved import resolved_text
from tilegen.spec import load
from tilegen.spec.models import VERSION
from tilegen.spec.printing import print_spec

TEXT = "kernel: k\nparams: {{{params}}}\nthreads: 32\nops: []\n"


def constants(params: str, **overrides: int) -> dict[str, int]:
    return {c.name: c.value for c in load(TEXT.format(params=params), {}, overrides=overrides).constants}


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=8, unique=True), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_the_first_choice_is_taken_or_the_one_that_is_set(choices: list[int], data: st.DataObject) -> None:
    params = f"T: {{choices: {choices}}}"
    assert constants(params) == {"T": choices[0]}
    value = data.draw(st.integers(0, 5000))
    if value in choices:
        assert constants(params, T=value) == {"T": value}
        return
    (error,) = refusal_of(SpecError, constants, params, T=value).diagnostics
    assert error.code == "TG106" and ", ".join(map(str, choices)) in error.hint


EXPRESSIONS = st.recursive(
    st.sampled_from(["A", "B", "C", "1", "7", "64"]),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "*", "//", "%"]), inner).map(
        lambda t: f"({t[0]} {t[1]} ({t[2]} + 1))"
    ),
    max_leaves=4,
)


@given(st.lists(EXPRESSIONS, min_size=1, max_size=3), st.permutations(range(6)), st.integers(1, 99))
@settings(max_examples=examples(80), deadline=None)
def test_computed_params_are_what_python_makes_of_them(texts: list[str], order: list[int], a: int) -> None:
    """Whatever stands before what; one that is set is a number from then on, and others follow it."""
    known = {"A": str(a), "B": "{choices: [12, 8]}", "C": "A * 2 + B"}
    known |= {f"P{k}": text for k, text in enumerate(texts)}
    entries = [list(known.items())[k] for k in order if k < len(known)]
    params = ", ".join(f'{name}: "{x}"' if name[0] in "CP" else f"{name}: {x}" for name, x in entries)
    for b, set_c in ((12, None), (8, None), (12, 5)):
        values = {"A": a, "B": b}
        values["C"] = a * 2 + b if set_c is None else set_c
        wanted = values | {name: eval(text, {}, values) for name, text in known.items() if name[0] == "P"}
        overrides = {"B": b} | ({} if set_c is None else {"C": set_c})
        if all(0 <= x < 2**31 for x in wanted.values()):
            assert constants(params, **overrides) == wanted
            assert list(constants(params, **overrides)) == [name for name, _ in entries]


CHOSEN = """kernel: chosen
version: 2
params: {T: {choices: [64, 128]}, N: {default: 300}, few: T // 2}
grid: {bx: ceil(N / T)}
threads: few
buffers:
  X: {scope: global, dtype: float32, shape: [N]}
  Y: {scope: global, dtype: float32, shape: [N]}
ops:
  - copy: {src: "X[bx*T : +T]", dst: "Y[bx*T : +T]", edge: clip}
"""


@pytest.mark.parametrize("taken", [64, 128])
def test_what_is_chosen_is_printed_first(taken: int) -> None:
    """As tile ops, and as the text with its choices written out: both build to the same kernel."""
    built = tilegen.build(CHOSEN, params={"T": taken})
    spec = tilegen.load(CHOSEN, params={"T": taken})
    assert spec.threads == taken // 2
    text = print_spec(spec)
    assert f"choices: [{taken}, {192 - taken}]" in text and "version: 2" in text
    assert tilegen.load(text) == spec
    resolved = resolved_text(spec, built.plan)
    assert f"T: {{choices: [{taken}, {192 - taken}]}}" in resolved
    assert tilegen.build(resolved).source == built.source


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_every_version_is_read(version: int) -> None:
    assert tilegen.load(CHOSEN.replace("version: 2", f"version: {version}")).version == version
    assert tilegen.load(CHOSEN.replace("version: 2\n", "")).version == 0
