"""Scatters: what they mean beside NumPy, which integers are run, and faults in places, guards, copies and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilegen import pipeline
from tilegen.arithmetic import Apply
from tilegen.arithmetic.values import Values
from tilegen.errors import ProofError
from tilegen.index import Formula, Index, Var, add, conjuncts, every, less, not_
from tilegen.interpret import interpret
from tilegen.pipeline import Built, kernels_of
from tilegen.plan import MOVE, Block, Compute, Move, Pick, Plan, Repeat, Step, When, default_values
from tilegen.proofs import prove
from tilegen.proofs.run_integers import KINDS, LARGEST, LEAST, MIXED, NEIGHBOURS, RAMP, draw_kind, find_run
from tilegen.spec.outline import launch_of

SPECS = Path(__file__).parents[2] / "specs"
Array = np.ndarray[Any, Any]


@cache
def kernels(name: str, **params: int) -> tuple[Built, ...]:
    return kernels_of(pipeline.build(SPECS / f"{name}.yaml", params=dict(params)))


def carry_out(built: tuple[Built, ...], given: Mapping[str, Array]) -> dict[str, Array]:
    """All CTAs of all passes in NumPy, in the hardware's types."""
    held = {name: values.copy() for name, values in given.items()}
    for one in built:
        case = default_values(one.spec.params)
        x, y, z = launch_of(one.spec, case).grid
        ctas = [(a, b, c) for c in range(z) for b in range(y) for a in range(x)]
        inputs = {name: values.reshape(-1).__getitem__ for name, values in held.items()}
        for name, (at, values) in interpret(one.plan, ctas, inputs, case).written.items():
            held[name].reshape(-1)[at] = np.ascontiguousarray(values).view(held[name].dtype)
    return held


# ---------------------------------------------------------------- what they mean
@pytest.mark.parametrize("count", [1, 40000, 70001])
@pytest.mark.parametrize("kind", ["random", "one byte", "neighbours"])
def test_a_histogram_counts_as_numpy_does(count: int, kind: str) -> None:
    rng = np.random.default_rng(count)
    x = rng.integers(0, 256, count, np.uint8) if kind != "one byte" else np.full(count, 255, np.uint8)
    x = np.repeat(x[: -(-count // 3)], 3)[:count] if kind == "neighbours" else x
    found = carry_out(kernels("histogram", N=count), {"X": x, "H": np.full(256, 77, np.uint32)})
    assert np.array_equal(found["H"], np.bincount(x, minlength=256))


@pytest.mark.parametrize("count", [1, 1000, 1500])
def test_an_inverse_permutation_is_argsort(count: int) -> None:
    p = np.random.default_rng(count).permutation(count).astype(np.int32)
    found = carry_out(kernels("inverse_permutation", N=count), {"P": p, "Q": np.zeros(count, np.int32)})
    assert np.array_equal(found["Q"], np.argsort(p))


@pytest.mark.parametrize("count", [1, 700])
def test_pairs_are_sorted_by_expert_and_stay_in_their_order(count: int) -> None:
    ids = np.random.default_rng(count).integers(0, 64, count, np.int32)
    blocks = -(-count // 256)
    arrays = {"ids": ids, "offsets": np.zeros(65, np.int32), "to": np.zeros(count, np.int32)}
    arrays |= {"of": np.zeros(count, np.int32)} | {name: np.zeros((64, blocks), np.int32) for name in ("hist", "base")}
    found = carry_out(kernels("moe_permute", T=count), arrays)
    order = np.argsort(ids, kind="stable")
    assert np.array_equal(found["of"], order) and np.array_equal(found["to"][order], np.arange(count))
    assert np.array_equal(found["offsets"], np.searchsorted(ids[order], np.arange(65)))


# ---------------------------------------------------------------- integers that are run
def test_what_reaches_a_place_is_run_and_nothing_else() -> None:
    clear, route = kernels("moe_route")
    assert find_run(clear.spec) == frozenset()
    assert find_run(route.spec) == {"X", "x", "i", "j", "bin"}
    count = kernels("histogram")[1]
    assert find_run(count.spec) == {"X", "x", "y", "bin"}


@pytest.mark.parametrize("kind", [*KINDS, MIXED])
@pytest.mark.parametrize("values", [Values(-1, 12), Values(5, 6), Values(0, 64, 8), None])
def test_contents_keep_what_is_promised_and_are_what_they_are_called(kind: str, values: Values | None) -> None:
    found = draw_kind(values, "int32", "ids", kind, 1, 10)(np.arange(3000))
    low, high = (-3, 14) if values is None else (int(str(values.low)), int(str(values.high)))
    step = 1 if values is None else values.step
    if values is not None:
        assert found.min() >= low and found.max() < high and not ((found - low) % step).any()
    ends = (low, high - step)
    if kind in (LEAST, LARGEST):
        assert (found == ends[kind == LARGEST]).all()
    elif kind == RAMP:
        assert np.isin(np.diff(found), (step, low - ends[1])).all()
    else:
        assert set(ends) <= set(found.tolist())
    if kind == NEIGHBOURS:
        assert (np.diff(found) == 0).mean() > 0.4


def test_distinct_contents_are_distinct_in_each_kind() -> None:
    for kind in (*KINDS, MIXED):
        found = draw_kind(Values(-1, 500, is_distinct=True), "int32", "slots", kind, 1, 500)(np.arange(300))
        assert len(np.unique(found[found >= 0])) == (found >= 0).sum()


# ---------------------------------------------------------------- faults in plans
def change_steps(plan: Plan, change: Callable[[Step], Step | tuple[Step, ...]], block: str = "scatter") -> Plan:
    """A plan whose steps inside of the functions of that name are others: the first that changes, and its copies."""

    def visit(steps: tuple[Step, ...], inside: bool) -> tuple[Step, ...]:
        out: list[Step] = []
        for s in steps:
            if isinstance(s, Block | When | Repeat):
                s = replace(s, body=visit(s.body, inside or (isinstance(s, Block) and block in s.name)))
            found = change(s) if inside else s
            out += found if isinstance(found, tuple) else [found]
        return tuple(out)

    return replace(plan, roles=tuple(replace(role, steps=visit(role.steps, False)) for role in plan.roles))


def _holds_pick(step: Step) -> bool:
    return isinstance(step, Pick) or any(map(_holds_pick, getattr(step, "body", ())))


def by_all_copies(step: Step) -> Step | tuple[Step, ...]:
    """21: each replica adds."""
    return step.body if isinstance(step, When) and _holds_pick(step) else step


def without_guard(step: Step) -> Step | tuple[Step, ...]:
    """22: what lies outside of dst is not dropped."""
    return step.body if isinstance(step, When) and any(isinstance(s, Move) for s in step.body) else step


def with_guard_one_too_far(step: Step) -> Step:
    def widen(c: Index) -> Index:
        var = c.args[0] if isinstance(c, Formula) and c.symbol == "<" else None
        if not (isinstance(c, Formula) and isinstance(var, Var) and var.name.startswith("to")):
            return c
        return less(var, add(c.args[1], 1))

    if isinstance(step, When) and any(isinstance(s, Move) for s in step.body):
        return replace(step, condition=every(*map(widen, conjuncts(step.condition))))
    return step


def as_plain_store(step: Step) -> Step:
    """25, 26: of lanes with one index all but one are lost."""
    return replace(step, via=MOVE) if isinstance(step, Move) and step.via.function else step


def twice(step: Step) -> Step | tuple[Step, ...]:
    return (step, step) if isinstance(step, Move) and step.via.function else step


def of_another_element(step: Step) -> Step:
    """The integer of the register beside it."""
    if not isinstance(step, Pick):
        return step
    (at,) = step.src.at
    return replace(step, src=step.src.memory[at // 2 * 2 if isinstance(at, Var) else 0])


def without_some(step: Step) -> Step:
    """The add of one lane is lost."""
    is_add = isinstance(step, Move) and bool(step.via.function)
    return When(not_(less(Var("laneid", 32), 1)), (step,)) if is_add else step


def to_the_next_place(step: Step) -> Step:
    if not isinstance(step, Move) or not step.via.function:
        return step
    ref = step.dst
    return replace(step, dst=ref.memory[(*ref.at[:-1], add(ref.at[-1], 1))])


PLAN_FAULTS: dict[str, tuple[str, int, Callable[[Step], Step | tuple[Step, ...]], set[str]]] = {
    "each replica adds": ("moe_route", 1, by_all_copies, {"TG420"}),
    "the mask of what is clipped dropped": ("histogram", 1, without_guard, {"TG414"}),
    "the mask one too far": ("histogram", 1, with_guard_one_too_far, {"TG414"}),
    "an atomic as a plain store": ("histogram", 1, as_plain_store, {"TG403", "TG408"}),
    "added twice": ("histogram", 1, twice, {"TG420"}),
    "the index of another element": ("histogram", 1, of_another_element, {"TG420"}),
    "the add of one lane lost": ("histogram", 1, without_some, {"TG420"}),
    "the next place": ("histogram", 1, to_the_next_place, {"TG414"}),
    "an index outside of dst is stored": ("inverse_permutation", 0, without_guard, {"TG414"}),
}


SIZES: dict[str, dict[str, int]] = {  # fixed, so that few runs show a fault
    "histogram": {"N": 40001}, "moe_route": {"T": 100}, "inverse_permutation": {"N": 1500}, "top2_rows": {"M": 70},
}  # fmt: skip


@pytest.mark.sweep(3)
@pytest.mark.parametrize("fault", PLAN_FAULTS)
def test_faults_of_scatters_are_found(fault: str) -> None:
    name, number, change, codes = PLAN_FAULTS[fault]
    built = kernels(name, **SIZES[name])[number]
    plan = change_steps(built.plan, change)
    assert plan != built.plan
    with pytest.raises(ProofError) as found:
        prove(built.spec, plan)
    assert {d.code for d in found.value.diagnostics} & codes


def last_of_equals(step: Step) -> Step:
    """27: argmax takes the last of equals."""
    if isinstance(step, Compute) and isinstance(step.tree, Apply) and step.tree.function == "min":
        return replace(step, tree=replace(step.tree, function="max"))
    return step


def in_another_numbering(step: Step) -> Step:
    """28: where an element lies as another lane numbers it."""
    if isinstance(step, Compute) and step.wholes and not isinstance(step.wholes[-1], int):
        return replace(step, wholes=(*step.wholes[:-1], step.wholes[-1] // 2 * 2))
    return step


def nothing(step: Step) -> tuple[Step, ...]:
    """29: the first is not taken out before the second is looked for."""
    return () if isinstance(step, Compute | Repeat) else (step,)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name, number", [("top2_rows", 0), ("moe_route", 1)])
@pytest.mark.parametrize("change, block", [
    (last_of_equals, "argmax"), (in_another_numbering, "argmax"), (nothing, "elementwise_i_x"),
])  # fmt: skip
def test_faults_of_what_names_a_place_are_found(
    name: str, number: int, change: Callable[[Step], Step | tuple[Step, ...]], block: str
) -> None:
    built = kernels(name, **SIZES[name])[number]
    plan = change_steps(built.plan, change, block)
    assert plan != built.plan
    with pytest.raises(ProofError) as found:
        prove(built.spec, plan)
    assert "TG420" in {d.code for d in found.value.diagnostics}


def test_a_plan_that_takes_less_of_an_index_for_granted_is_refused() -> None:
    """What is known of the integer is checked beside the spec: no run has to meet a value that breaks it."""
    (built,) = kernels("inverse_permutation")

    def narrow(step: Step) -> Step:
        return replace(step, var=replace(step.var, bound=1 << 20)) if isinstance(step, Pick) else step

    with pytest.raises(ProofError) as found:
        prove(built.spec, change_steps(built.plan, narrow))
    assert {d.code for d in found.value.diagnostics} == {"TG414"}


# ---------------------------------------------------------------- faults in specs
def refused(name: str, *pairs: tuple[str, str]) -> set[str]:
    text = (SPECS / f"{name}.yaml").read_text()
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    with pytest.raises(ProofError) as found:
        pipeline.build(text)
    return {d.code for d in found.value.diagnostics}


_LAYOUT = "S[(256, 4):(1@tx, 1)]"
_REGISTER = (
    "  Q: {", f'  i: {{scope: register, dtype: int32, shape: [1024], layout: "{_LAYOUT}", distinct: true}}\n  Q: {{',
)  # fmt: skip
SPEC_FAULTS: dict[str, tuple[str, str, tuple[tuple[str, str], ...]]] = {
    "an index past its range in the last element": ("inverse_permutation", "TG414", (
        ('"0 : N"', '"0 : N + 1"'), (", edge: clip", ""), ("ceil(N / 1024)", "N // 1024"),
        ("default: 5000", "default: 4096, multiple_of: 1024"),
    )),
    "two CTAs read one part of a distinct index": ("inverse_permutation", "TG417", (
        ('"P[bx*1024 : +1024]"', '"P[bx // 2 * 1024 : +1024]"'),
    )),
    "a claim that equal neighbours break": ("inverse_permutation", "TG444", (
        (", distinct: true", ""), _REGISTER,
        ("  - scatter", '  - copy: {src: "P[bx*1024 : +1024]", dst: i, edge: clip}\n  - scatter'),
        ('index: "P[bx*1024 : +1024]"', "index: i"),
    )),
    "a claim that two CTAs break": ("inverse_permutation", "TG444", (
        (", values: \"0 : N\", distinct: true", ""), _REGISTER,
        ("  - scatter", '  - elementwise: {dst: i, expr: "index(0)"}\n  - scatter'),
        ('index: "P[bx*1024 : +1024]"', "index: i"), ("  P: {scope: global, dtype: int32, shape: [N]}\n", ""),
    )),
    "what is scattered to is read": ("inverse_permutation", "TG441", (
        ("  - scatter", '  - scatter'), ("  Q: {", "  Y: {scope: global, dtype: int32, shape: [N]}\n  Q: {"),
        ("cache: stream}", 'cache: stream}\n  - sync: cta\n  - copy: {src: "Q[bx*1024 : +1024]", '
         'dst: "Y[bx*1024 : +1024]", edge: clip}'),
    )),
    "no sync between clear and add": ("moe_route", "TG403", (
        ("      - fill: {dst: hist, value: 0}\n      - sync: cta\n", "      - fill: {dst: hist, value: 0}\n"),
    )),
    "no sync between add and read": ("moe_route", "TG403", (
        ("      - sync: cta\n      - copy: {src: hist", "      - copy: {src: hist"),
    )),
    "places of a pass before that are one too far": ("moe_permute", "TG444", (
        ("pos + first, -1", "pos + first // 2, -1"),
    )),
}  # fmt: skip


@pytest.mark.sweep(3)
@pytest.mark.parametrize("fault", SPEC_FAULTS)
def test_faults_in_specs_of_scatters_are_found(fault: str) -> None:
    name, code, pairs = SPEC_FAULTS[fault]
    found = refused(name, *pairs)
    races = {
        "TG403",
        "TG405",
        "TG408",
    }  # of two stores to one place, before claims are looked at
    assert code in found or (code == "TG444" and found & races)


# ---------------------------------------------------------------- ranges of indices
def _count(expr: str, buffers: str = "", before: str = "") -> str:
    return (
        "kernel: k\narch: sm_80\nthreads: 64\nbuffers:\n"
        "  X: {scope: global, dtype: int32, shape: [64]}\n"
        "  H: {scope: global, dtype: int32, shape: [8]}\n"
        '  i: {scope: register, dtype: int32, shape: [64], layout: "S[64:1@tx]"}\n'
        f'{buffers}ops:\n{before}  - elementwise: {{dst: i, expr: "{expr}"}}\n'
        "  - scatter: {expr: 1, index: i, dst: H, accumulate: add}\n"
    )


@pytest.mark.parametrize("expr, is_inside", [
    ("X % 8", True), ("X % 9", False), ("min(max(X, 0), 7)", True), ("min(max(X, 0), 8)", False), ("max(X, 0)", False),
    ("where(X < 8 and X >= 0, X, 7)", True),
])  # fmt: skip
def test_an_index_without_clip_lies_in_dst_by_what_computes_it(expr: str, is_inside: bool) -> None:
    if is_inside:
        pipeline.build(_count(expr))
        return
    with pytest.raises(ProofError) as found:
        pipeline.build(_count(expr))
    assert {d.code for d in found.value.diagnostics} == {"TG414"}


def test_what_a_scatter_leaves_as_it_was_counts_in_the_range_of_a_buffer() -> None:
    """It stores some elements: the range of the others stays."""
    buffers = (
        "  s: {scope: shared, dtype: int32, shape: [64]}\n"
        '  j: {scope: register, dtype: int32, shape: [64], layout: "S[64:1@tx]", distinct: true}\n'
    )
    before = (
        "  - fill: {dst: s, value: 9}\n  - sync: cta\n"
        '  - elementwise: {dst: j, expr: "63 - index(0)"}\n'
        "  - scatter: {expr: 1, index: j, dst: s, edge: clip}\n  - sync: cta\n"
    )
    with pytest.raises(ProofError) as found:
        pipeline.build(_count("s", buffers, before).replace("  X: {scope: global, dtype: int32, shape: [64]}\n", ""))
    assert {d.code for d in found.value.diagnostics} == {"TG414"}
