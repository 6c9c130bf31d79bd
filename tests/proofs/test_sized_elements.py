"""Elements of tables as sizes: a plan that goes wrong at some lengths of a sequence, or some values, is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen import pipeline
from tilegen.errors import ProofError
from tilegen.index import Formula, Index, Var, add, equal, evaluate, less, minimum, mul, select, substitute, to_c
from tilegen.index.outcomes import find_outcomes
from tilegen.plan import Block, Fetch, Let, Plan, Repeat, Step, When, default_values
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.fillings import fill_each
from tilegen.proofs.sized_elements import size_elements
from tilegen.proofs.terms import check_terms
from tilegen.spec.data import Spec
from tilegen.spec.outline import is_possible

RAGGED = """
kernel: ragged
arch: sm_80
params: {B: {default: 5, max: 65535}, T: {default: 700, max: 16777216}, MAXN: {default: 256, max: 1048576}, D: 32}
grid: {bx: ceil(MAXN / 96), by: B}
threads: 256
buffers:
  cu: {scope: global, dtype: int32, shape: [B + 1], offsets: T}
  X: {scope: global, dtype: float32, shape: [T, D]}
  Y: {scope: global, dtype: float32, shape: [T, D], partial: true}
ops:
  - let: {b: by + 0 * bx, t0: "cu[b]", end: "cu[b + 1]", len: end - t0}
  - when: bx*96 < len
    do:
      - copy: {src: "X[t0 + bx*96 : +96]", dst: "Y[t0 + bx*96 : +96]", when: bx*96 + 96 <= len}
      - copy: {src: "X[t0 + bx*96 : +96 < end]", dst: "Y[t0 + bx*96 : +96 < end]", edge: clip, when: bx*96 + 96 > len}
"""
LABELS = """
kernel: labelled
arch: sm_80
params: {M: {default: 9, max: 4096}}
grid: {bx: M}
threads: 128
buffers:
  kinds: {scope: global, dtype: int32, shape: [M], values: "-4 : 1000"}
  X: {scope: global, dtype: float32, shape: [M, 128]}
  Y: {scope: global, dtype: float32, shape: [M, 128]}
ops:
  - let: {kind: "kinds[bx]"}
  - elementwise: {dst: "Y[bx]", expr: "x * 2", with: {x: "X[bx]"}, when: kind >= 77}
  - elementwise: {dst: "Y[bx]", expr: "x * 3", with: {x: "X[bx]"}, when: kind < 77}
"""


@cache
def planned(text: str) -> tuple[Spec, Plan]:
    spec = pipeline.load(text)
    assert isinstance(spec, Spec)
    return spec, plan_spec(spec)


def change(steps: tuple[Step, ...], by: Callable[[Any], Any]) -> tuple[Step, ...]:
    inner = (replace(s, body=change(s.body, by)) if isinstance(s, Repeat | When | Block) else s for s in steps)
    return tuple(by(s) for s in inner)


def in_conditions(name: str, value: Callable[[Var], Index]) -> Callable[[Any], Any]:
    """Conditions ask another value for that of a name."""

    def by(step: Any) -> Any:
        own = Var(name, 1 << 24)
        is_asked = isinstance(step, When) and name in to_c(step.condition)
        return replace(step, condition=substitute(step.condition, {name: value(own)})) if is_asked else step

    return by


def where(n: int, then: int) -> Callable[[Var], Index]:
    return lambda own: select(Formula("==", (own, n), 2), then, own)


FAULTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a tile is whole one row too early": (RAGGED, in_conditions("len", lambda n: add(n, 1))),
    "a tile is whole 95 rows too early": (RAGGED, in_conditions("len", lambda n: add(n, 95))),
    "a length that is a row short of a tile": (RAGGED, in_conditions("len", where(95, 96))),
    "a length of a tile and a row": (RAGGED, in_conditions("len", where(97, 96))),
    "a length a row short of two tiles": (RAGGED, in_conditions("len", where(191, 192))),
    "a length a row beyond two tiles": (RAGGED, in_conditions("len", where(193, 192))),
    "a length of one row": (RAGGED, in_conditions("len", where(1, 0))),
    "the limit one too far": (RAGGED, in_conditions("end", lambda n: add(n, 1))),
    "a number that one kind is, and another": (LABELS, in_conditions("kind", where(77, 76))),
    "the number before": (LABELS, in_conditions("kind", where(76, 77))),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_plan_that_is_wrong_at_one_value_is_refused(name: str) -> None:
    text, by = FAULTS[name]
    spec, plan = planned(text)
    wrong = replace(plan, roles=tuple(replace(r, steps=change(r.steps, by)) for r in plan.roles))
    assert wrong != plan
    with pytest.raises(ProofError) as found:
        prove(spec, wrong)
    assert {d.code for d in found.value.diagnostics} <= {"TG420", "TG416"}


@pytest.mark.parametrize("text", [RAGGED, LABELS])
def test_the_plan_itself_is_right_and_nothing_is_left_unproven(text: str) -> None:
    spec, plan = planned(text)
    proof = prove(spec, plan)
    assert not [note for note in proof.notes if note.startswith("not proven")]


def test_names_that_stand_for_other_values_read_other_elements() -> None:
    """The plan's text of the element is the spec's, but the name in it is another number."""
    spec, plan = planned(RAGGED)

    def by(step: Any) -> Any:
        is_named = isinstance(step, Let) and step.var.name == "b"
        return replace(step, value=minimum(step.value, 40)) if is_named else step

    assert not check_terms(spec, plan)
    wrong = replace(plan, roles=(replace(plan.roles[0], steps=change(plan.roles[0].steps, by)),))
    assert wrong != plan
    with pytest.raises(ProofError) as found:
        prove(spec, wrong)
    assert {d.code for d in found.value.diagnostics} == {"TG416"}


def test_elements_of_one_table_keep_its_promise_at_every_size() -> None:
    spec, plan = planned(RAGGED)
    sized, own = size_elements(spec, plan, {"cu"})
    assert sized.elements == ("cu_element", "cu_further") and own.params == sized.params
    assert is_possible(sized, default_values(sized.params))
    assert not is_possible(sized, default_values(sized.params) | {"cu_element": 500, "cu_further": 201})
    assert not any(isinstance(s, Fetch) for s in own.roles[0].steps)


def test_the_default_sizes_run_every_ctas_cluster_by_itself() -> None:
    spec, plan = planned(LABELS)
    words = {one.words for one in fill_each(spec, plan) if one.has_runs}
    assert words == {"each element of kinds is as the sizes say"}


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 60))
def test_outcomes_where_a_condition_always_holds(most: int, scale: int, end: int) -> None:
    n, k = Var("n", most + 1), Var("k", most + 1)
    holds = less(add(mul(n, scale), k), most + 1)
    seen = [x for x in (less(mul(n, scale), end), less(add(n, k), end), equal(k, end)) if isinstance(x, Formula)]
    if not seen or not isinstance(holds, Formula):
        return
    found = find_outcomes(seen, [], [n, k], holds=[holds])
    points = np.stack(np.meshgrid(np.arange(most + 1), np.arange(most + 1)), axis=-1).reshape(-1, 2)
    at = {"n": points[:, 0], "k": points[:, 1]}
    kept = np.asarray(evaluate(holds, at), bool)
    rows = {tuple(map(int, row)) for row in np.stack([np.asarray(evaluate(x, at))[kept] for x in seen], axis=1)}
    assert {tuple(map(int, row)) for row in found.rows.tolist()} == rows
    assert all(evaluate(holds, {"n": a, "k": b}) for own in found.shown for a, b in own.tolist())
