"""Kernels that read tables: contents by their law, faults in what they name, and what they mean with real contents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen import pipeline
from tilegen.errors import ProofError, SpecError
from tilegen.index import Var, add, evaluate, table_value
from tilegen.index.contents import HOLED, LARGEST, LEAST, OFFSETS, SPREAD, TURNS, UPWARDS
from tilegen.index.recurrences import recurrence
from tilegen.interpret import interpret
from tilegen.pipeline import Built
from tilegen.plan import Block, Fetch, Repeat, Step, When, default_values
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.floats import float_inputs
from tilegen.reference import run_reference
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

SPECS = Path(__file__).parents[2] / "specs"


# ---------------------------------------------------------------- contents
@given(
    st.sampled_from([TURNS, LEAST, LARGEST, UPWARDS, HOLED, SPREAD]), st.integers(0, 1 << 20), st.integers(-9, 9),
    st.integers(1, 70), st.integers(1, 4), st.integers(1, 5), st.integers(0, 7),
)  # fmt: skip
def test_contents_lie_in_their_range_and_go_on_as_their_rule_says(
    kind: int, key: int, low: int, count: int, step: int, scale: int, first: int
) -> None:
    v = Var("v", 200)
    x = table_value((kind, key), v * scale + first, low, low + count * step, step, (3, 17) if kind == TURNS else ())
    values = np.asarray(evaluate(x, {"v": np.arange(200)}))
    assert np.all((low <= values) & (values < low + count * step) & ((values - low) % step == 0))
    rule = recurrence(x, v)
    if rule is None:
        return
    is_said = np.ones(200 - rule.period, bool) if rule.period < 200 else np.zeros(0, bool)
    for a, b in rule.breakpoints:
        is_said[max(0, a - rule.period) : b] = False
    moved = values[rule.period :] - values[: -rule.period] if rule.period < 200 else values[:0]
    assert np.all(moved[is_said] == rule.rise)


@given(st.integers(0, 1 << 20), st.integers(-5, 4), st.integers(1, 3))
def test_contents_of_distinct_tables_name_each_place_once(key: int, low: int, step: int) -> None:
    for kind in (UPWARDS, HOLED):
        x = table_value((kind, key), Var("v", 99), low, low + 120 * step, step)
        values = np.asarray(evaluate(x, {"v": np.arange(99)}))
        places = values[values >= 0] if low < 0 else values
        assert len(np.unique(places)) == len(places)


@given(st.integers(1, 40), st.integers(0, 500), st.lists(st.integers(0, 60), min_size=1, max_size=5))
def test_contents_of_offsets_rise_from_0_to_their_end(pieces: int, end: int, lengths: list[int]) -> None:
    x = table_value((OFFSETS, 1), Var("v", 99), 0, end + 1, 1, (pieces, *lengths))
    values = np.asarray(evaluate(x, {"v": np.arange(pieces + 1)}))
    assert values[0] == 0 and values[-1] == end and np.all(np.diff(values) >= 0)


# ---------------------------------------------------------------- what a kernel means with real contents
@pytest.mark.parametrize("name, params", [
    ("embedding", {"T": 37, "V": 50, "D": 64}), ("kv_append", {"T": 37, "PAGES": 4}),
    ("cross_entropy", {"M": 5, "V": 600}), ("ragged_scale", {"B": 6, "T": 300, "MAXN": 192}),
])  # fmt: skip
@pytest.mark.parametrize("seed", [1, 2])
def test_the_plan_means_what_the_spec_means_with_drawn_contents(name: str, params: dict[str, int], seed: int) -> None:
    built = pipeline.build(SPECS / f"{name}.yaml", params=params)
    assert isinstance(built, Built)
    case = default_values(built.spec.params)
    x, y, z = launch_of(built.spec, case).grid
    ctas = [(a, b, c) for c in range(z) for b in range(y) for a in range(x)]
    inputs = float_inputs(built.plan, seed, case)
    did = interpret(built.plan, ctas, inputs, case).written
    meant = run_reference(built.spec, ctas, inputs, case)
    assert did.keys() == meant.keys() and did
    for array, (at, values) in meant.items():
        assert np.array_equal(did[array][0], at)
        own = np.ascontiguousarray(did[array][1]).view(values.dtype)
        assert np.array_equal(own, values) or np.allclose(own.astype(float), values.astype(float), rtol=1e-2, atol=1e-2)


# ---------------------------------------------------------------- faults in the spec
def _change(name: str, *pairs: tuple[str, str]) -> str:
    text = (SPECS / f"{name}.yaml").read_text()
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


_FILL = '      - fill: {scope: warp, dst: "ids[row : +1]", value: 0}'
FAULTS = {
    "distinct dropped": ("kv_append", "TG441", (", distinct: true", "")),
    "an element used by two values of by": ("kv_append", "TG417", ("when: by == 0", "when: by <= 1")),
    "two tokens read one slot": ("kv_append", "TG408", ('"slots[t]"', '"slots[t // 2]"')),
    "tokens of two CTAs read one slot": ("kv_append", "TG417", ('"slots[t]"', '"slots[bx % 20 * 8 + warpid]"')),
    "the guard of the index dropped": ("embedding", "TG207", ("when: row < T", "when: row < T + 1")),
    "the guard of -1 dropped": ("kv_append", "TG207", ("when: slot >= 0", "when: slot >= 0 - 1")),
    "the end of a range off by one": ("embedding", "TG207", ('"0 : V"', '"0 : V + 1"')),
    "the next element": ("kv_append", "TG207", ('"slots[t]"', '"slots[t + 1]"')),
    "limit dropped on the store": ("ragged_scale", "TG441", ("Y[t0 + bx*64 : +64 < end]", "Y[t0 + bx*64 : +64]")),
    "limit one too far": ("ragged_scale", "TG441", ("Y[t0 + bx*64 : +64 < end]", "Y[t0 + bx*64 : +64 < end + 1]")),
    "offsets at e and e + 2": ("ragged_scale", "TG441", ("cu[by + 1]", "cu[min(by + 2, B)]")),
    "tiles of one piece overlap": ("ragged_scale", "TG417", ("Y[t0 + bx*64", "Y[t0 + bx*32")),
    "no promise at all": ("ragged_scale", "TG126", (", offsets: T", "")),
    "places of a table that are not said to be partial": ("ragged_scale", "TG418", (", partial: true", "")),
    "a table that the kernel writes": ("embedding", "TG106", ('dst: "Y[row]"}', 'dst: "Y[row]"}\n' + _FILL)),
    "a read outside of a let": ("embedding", "TG126", ('src: "W[id]"', 'src: "W[ids[row]]"')),
    "a ragged tile by TMA": ("attention_varlen", "TG207", ("when: row + 64 <= len}", "when: row < len}")),
    "whole tiles one row too early": (
        "attention_varlen", "TG441", ("when: row + 64 <= len}", "when: row + 63 <= len}"),
    ),
    "no limit on the ragged store": (
        "attention_varlen", "TG207", ('"O[t0 + row : +64 < end, by]", edge: clip', '"O[t0 + row : +64, by]"'),
    ),
    "pages beyond the sequence": ("decode_paged", "TG414", ("min(each, np - first)", "min(each, np - first + 1)")),
    "the clamp of -1 dropped": (
        "decode_paged", "TG207", ('"max(0, pages[bz, first + j*4 + warpid])"', '"pages[bz, first + j*4 + warpid]"'),
    ),
    "the guard of tiles that a map names": ("grouped_gemm", "TG441", ("when: prior <= x ", "when: 0 <= x ")),
    "a ragged tile of an expert by TMA": (
        "grouped_gemm", "TG207", ("variant: tma, when: r + 64 <= end}", "variant: tma, when: r < end}"),
    ),
    "limit without clip": ("ragged_scale", "TG212", (", edge: clip", "")),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_tables_are_found(name: str) -> None:
    spec, code, change = FAULTS[name]
    text = _change(spec, change)
    with pytest.raises((SpecError, ProofError)) as found:
        pipeline.build(text)
    assert code in {d.code for d in found.value.diagnostics}


# ---------------------------------------------------------------- faults in the plan
def _change_fetches(steps: tuple[Step, ...], change: Callable[[Fetch], Fetch]) -> tuple[Step, ...]:
    out: list[Step] = []
    for s in steps:
        if isinstance(s, Repeat | When | Block):
            out.append(replace(s, body=_change_fetches(s.body, change)))
        else:
            out.append(change(s) if isinstance(s, Fetch) else s)
    return tuple(out)


def _read_the_next(step: Fetch) -> Fetch:
    (at,) = step.src.at
    return replace(step, number=add(step.number, 1), src=step.src.memory[add(at, 1)])


PLAN_FAULTS: dict[str, Callable[[Fetch], Fetch]] = {
    "the next element": _read_the_next,
    "the first element always": lambda step: replace(step, number=0, src=step.src.memory[0]),
    "a wider range than is promised": lambda step: replace(step, var=replace(step.var, bound=step.var.bound - 1)),
}


@pytest.mark.parametrize("name", PLAN_FAULTS)
def test_a_plan_that_reads_another_element_is_refused(name: str) -> None:
    spec = pipeline.load(SPECS / "embedding.yaml", params={"T": 100, "V": 40, "D": 64})
    assert isinstance(spec, Spec)
    plan = plan_spec(spec)
    roles = tuple(replace(r, steps=_change_fetches(r.steps, PLAN_FAULTS[name])) for r in plan.roles)
    prove(spec, plan)
    with pytest.raises(ProofError):
        prove(spec, replace(plan, roles=roles))
