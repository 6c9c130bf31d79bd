"""Kernels that read tables, wrong in one place: what two roles read, bounds of trips, places that are another's.

Numbers are those of the design. What its other numbers name is planted in test_tables.py, test_programs_with_tables.py
and programs/faults.py, and where a table breaks its promise in text/test_lies.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilegen
from tests.faults.parts import rewrite
from tests.faults.steps import Steps, mutate, with_steps
from tests.faults.texts import change_text
from tests.faults.verdicts import build_codes, proof_code, refusal_of
from tilegen.arithmetic import Apply
from tilegen.errors import ProofError
from tilegen.index import (
    Formula,
    Index,
    Var,
    add,
    equal,
    every,
    less,
    maximum,
    minimum,
    mod,
    not_,
    select,
    substitute,
    to_c,
)
from tilegen.plan import Block, Compute, Fetch, Let, Plan, Repeat, Step, When, all_steps
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.asked_tables import find_asked
from tilegen.proofs.fillings import list_deciding_arrays
from tilegen.spec.data import Spec

Array = np.ndarray[Any, Any]
SPECS = Path(__file__).parents[2] / "specs"
PIECES = """
kernel: weighted_pieces
arch: sm_90a
params: {B: {default: 5, max: 4096}, T: {default: 300, max: 1048576}}
grid: {bx: B}
buffers:
  cu: {scope: global, dtype: int32, shape: [B + 1], offsets: T}
  W: {scope: global, dtype: float32, shape: [B, 32]}
  X: {scope: global, dtype: float32, shape: [T, 32]}
  Y: {scope: global, dtype: float32, shape: [B, 32]}
  w: {scope: shared, dtype: float32, shape: [1, 32], align: 128}
  s: {scope: shared, dtype: float32, shape: [2, 32, 32], align: 128}
  x: {scope: register, dtype: float32, shape: [32, 32], layout: auto}
  y: {scope: register, dtype: float32, shape: [1, 32], layout: auto}
roles:
  load: {threads: 32}
  add: {threads: 128}
barriers:
  has_w: {slots: 1}
  full: {slots: 2}
  free: {slots: 2, open: true}
ops:
  - let: {t0: "cu[bx]", end: "cu[bx + 1]", len: end - t0}
  - role: load
    do:
      - when: 0 < len   # load
        do:
          - copy: {src: "W[bx : +1]", dst: w, variant: tma, barrier: has_w}
          - for: {j: ceil(len / 32)}   # load
            do:
              - wait: {barrier: "free[j % 2]"}
              - copy: {src: "X[t0 + j*32 : +32]", dst: "s[j % 2]", variant: tma, barrier: "full[j % 2]", edge: clip}
  - role: add
    do:
      - fill: {scope: warpgroup, dst: y, value: 0}
      - when: 0 < len   # add
        do:
          - for: {j: ceil(len / 32)}   # add
            do:
              - wait: {barrier: "full[j % 2]"}
              - elementwise: {scope: warpgroup, dst: x, expr: "where(j*32 + index(0) < len, z, 0.0)",
                              with: {z: "s[j % 2]"}}
              - sync: warpgroup
              - arrive: {scope: warpgroup, barrier: "free[j % 2]"}
              - reduce: {scope: warpgroup, src: x, dst: y, axis: 0, op: sum, accumulate: true}
          - wait: {barrier: has_w}
          - elementwise: {scope: warpgroup, dst: y, expr: "y * v", with: {v: w}}
      - copy: {scope: warpgroup, src: y, dst: "Y[bx : +1]"}
"""
TURNS = """
kernel: heads_by_turns
arch: sm_90a
params: {B: 7, T: {default: 300, max: 1048576}, C: 3}
grid: {bx: C}
buffers:
  order: {scope: global, dtype: int32, shape: [B], values: "0 : B", distinct: true}
  cu: {scope: global, dtype: int32, shape: [B + 1], offsets: T}
  X: {scope: global, dtype: float32, shape: [T, 32]}
  Y: {scope: global, dtype: float32, shape: [B, 32], partial: true}
  s: {scope: shared, dtype: float32, shape: [2, 32, 32], align: 128}
  x: {scope: register, dtype: float32, shape: [32, 32], layout: auto}
  y: {scope: register, dtype: float32, shape: [1, 32], layout: auto}
roles:
  load: {threads: 32}
  add: {threads: 128}
barriers:
  full: {slots: 2}
  free: {slots: 2, open: true}
ops:
  - role: load
    do:
      - for: {t: [bx, B, C]}
        do:
          - let: {e: "order[t]", t0: "cu[e]", len: "cu[e + 1] - t0"}   # load
          - wait: {barrier: "free[t // C % 2]"}
          - copy: {src: "X[t0 : +32]", dst: "s[t // C % 2]", variant: tma, barrier: "full[t // C % 2]", edge: clip}
  - role: add
    do:
      - for: {t: [bx, B, C]}
        do:
          - let: {e: "order[t]", t0: "cu[e]", len: "cu[e + 1] - t0"}   # add
          - fill: {scope: warpgroup, dst: y, value: 0}
          - wait: {barrier: "full[t // C % 2]"}
          - elementwise: {scope: warpgroup, dst: x, expr: "where(index(0) < len, z, 0.0)", with: {z: "s[t // C % 2]"}}
          - sync: warpgroup
          - arrive: {scope: warpgroup, barrier: "free[t // C % 2]"}
          - reduce: {scope: warpgroup, src: x, dst: y, axis: 0, op: sum, accumulate: true}
          - copy: {scope: warpgroup, src: y, dst: "Y[e : +1]"}
"""


def weighted_pieces(cu: Array, W: Array, X: Array) -> Array:
    """The rows of each piece added, times its weights."""
    before = np.concatenate([np.zeros((1, X.shape[1])), np.cumsum(X, axis=0)])
    ends = before[cu.astype(np.int64)]
    return (ends[1:] - ends[:-1]) * W


def heads_by_turns(cu: Array, X: Array) -> Array:
    """Up to 32 rows of each piece added."""
    ends = cu.astype(np.int64)
    return np.stack([X[a : min(b, a + 32)].sum(axis=0) for a, b in pairwise(ends.tolist())])


MEANT: dict[str, Callable[..., Any]] = {"pieces": weighted_pieces, "turns": heads_by_turns}
TEXTS = {"pieces": PIECES, "turns": TURNS} | {
    name: (SPECS / f"{name}.yaml").read_text(encoding="utf-8") for name in ("kv_append", "embedding", "ragged_scale")
}


@pytest.mark.parametrize("name", MEANT)
def test_what_faults_are_planted_in_is_right_and_nothing_is_left_unproven(name: str) -> None:
    assert not [note for note in planned(name)[2] if note.startswith("not proven")]
    said = str(tilegen.verify(TEXTS[name], device="cpu", seeds=[1, 2], against=MEANT[name]))
    assert "against: Y: " in said


@cache
def planned(name: str) -> tuple[Spec, Plan, tuple[str, ...]]:
    spec = tilegen.load(TEXTS[name])
    plan = plan_spec(spec)
    return spec, plan, prove(spec, plan).notes


# ---------------------------------------------------------------- faults in the spec
_LET, _LOOP, _WHEN = (
    '- let: {e: "order[t]", t0: "cu[e]", len: "cu[e + 1] - t0"}   # ',
    "- for: {j: ceil(len / 32)}   # ",
    "- when: 0 < len   # ",
)
_OTHER_LENGTH = '- let: {other: "cu[%s]", more: "max(other - t0, 0)"}\n          - for: {j: ceil(more / 32)}   # '
_NO_HOLE = "      - when: slot >= 0\n        do:\n"
_P = '"slots[t]", p: "%s"}'


def _place_at(place: str) -> tuple[tuple[str, str], ...]:
    """Pages are written at another place than the one that is looked up."""
    return ('"slots[t]"}', _P % place), ('"KC[slot]"', '"KC[p]"'), ('"VC[slot]"', '"VC[p]"')


FAULTS: dict[str, tuple[str, str, tuple[tuple[str, str], ...]]] = {
    # 14: a role bounds its trips by another element.
    "load runs to the end of the next piece": ("pieces", "TG413", (
        (f"{_LOOP}load", f"{_OTHER_LENGTH % 'min(bx + 2, B)'}load"),
    )),
    "add runs to the end of the next piece": ("pieces", "TG413", (
        (f"{_LOOP}add", f"{_OTHER_LENGTH % 'min(bx + 2, B)'}add"),
    )),
    "load runs to the end of the piece before": ("pieces", "TG413", (
        (f"{_LOOP}load", f"{_OTHER_LENGTH % 'bx'}load"),
    )),
    # 15: the condition of one role.
    "load asks for no piece": ("pieces", "TG423", ((f"{_WHEN}load", "- when: 0 <= len   # load"),)),
    "add asks for no piece": ("pieces", "TG413", ((f"{_WHEN}add", "- when: 0 <= len   # add"),)),
    "load leaves out a short piece": ("pieces", "TG413", ((f"{_WHEN}load", "- when: 1 < len   # load"),)),
    "add leaves out a short piece": ("pieces", "TG423", ((f"{_WHEN}add", "- when: 1 < len   # add"),)),
    "load asks whether there are rows at all": ("pieces", "TG423", ((f"{_WHEN}load", "- when: 0 < T   # load"),)),
    # What no two CTAs may share.
    "the last two tokens have one slot": ("kv_append", "TG417", (('"slots[t]"', '"slots[min(t, max(T - 2, 0))]"'),)),
    "tokens without a slot are put into the first": ("kv_append", "TG441", (
        (_NO_HOLE, "      - when: 0 <= t\n        do:\n"), *_place_at("max(slot, 0)"),
    )),
    "the last two slots are one": ("kv_append", "TG441", _place_at("min(max(slot, 0), PAGES * 16 - 2)")),
    "two slots are one": ("kv_append", "TG441", _place_at("max(slot, 0) // 2")),
    "a slot or the next one": ("kv_append", "TG441", _place_at("min(max(slot, 0) + t % 2, PAGES * 16 - 1)")),
    "one token has a slot of its own": ("kv_append", "TG441", _place_at("where(t == 5, 0, max(slot, 0))")),
    "one piece is that of two CTAs": ("ragged_scale", "TG417", (
        ("- let: {", '- let: {e: "min(by, max(B - 2, 0))", '), ('"cu[by]"', '"cu[e]"'), ('"cu[by + 1]"', '"cu[e + 1]"'),
    )),
    "the end of a piece of another table": ("ragged_scale", "TG441", (
        ("  scale:", "  cv: {scope: global, dtype: int32, shape: [B + 1], offsets: T}\n  scale:"),
        ("cu[by + 1]", "cv[by + 1]"),
    )),
    "the row before a piece": ("ragged_scale", "TG441", (("Y[t0 + bx*64", "Y[max(t0 + bx*64 - 1, 0)"),)),
    # In the last element only.
    "the row behind the last": ("embedding", "TG207", (
        ('"ids[row]"}', '"ids[row]", p: "where(row == T - 1, id + 1, id)"}'), ('"W[id]"', '"W[p]"'),
    )),
    "the element behind the last": ("embedding", "TG207", (('"ids[row]"', '"ids[where(row == T - 1, T, row)]"'),)),
    "the row behind the last, of the last element": ("embedding", "TG207", (
        ('src: "W[id]", dst: "Y[row]"', 'src: "W[id + 1]", dst: "Y[row]", when: id + 1 < V or row == T - 1'),
        ("[T, D]}\nops", "[T, D], partial: true}\nops"),
    )),
    "a table that the pass writes under another name": ("embedding", "TG106", (
        ("  W: {", "  own: {view: ids, shape: [T]}\n  W: {"),
        ("      - copy: {", '      - fill: {scope: warp, dst: "own[row : +1]", value: 0}\n      - copy: {'),
    )),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_specs_are_refused(fault: str) -> None:
    name, code, pairs = FAULTS[fault]
    assert code in build_codes(change_text(TEXTS[name], *pairs))


# What these mean is no fault of theirs: a function beside them tells.
OTHER_MEANINGS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "13: the mask of rows past the piece dropped": ("pieces", (("where(j*32 + index(0) < len, z, 0.0)", "z"),)),
    "a mask one row too far": ("pieces", (("index(0) < len", "index(0) < len + 1"),)),
    "a mask one row too short": ("pieces", (("index(0) < len", "index(0) + 1 < len"),)),
    "1: the begin of the next piece": ("pieces", (("X[t0 + j*32 :", "X[end + j*32 :"),)),
    "roles that read the ends of two pieces": ("turns", (
        (f"{_LET}add", _LET.replace("e + 1", "min(e + 2, B)") + "add"),
    )),
    "roles that read two pieces": ("turns", ((f"{_LET}load", _LET.replace("order[t]", "order[B - 1 - t]") + "load"),)),
    "one role looks up no order": (
        "turns", ((f"{_LET}load", '- let: {first: "cu[t]"}   # load'), ('"X[t0 : +32]"', '"X[first : +32]"')),
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", OTHER_MEANINGS)
def test_specs_that_mean_another_thing_are_told_by_a_function(fault: str) -> None:
    name, pairs = OTHER_MEANINGS[fault]
    text = change_text(TEXTS[name], *pairs)
    found = refusal_of(ProofError, tilegen.verify, text, device="cpu", seeds=[1, 2], against=MEANT[name])
    assert {d.code for d in found.diagnostics} == {"TG428"}


# ---------------------------------------------------------------- faults in the plan
def fetches(*arrays: str) -> Callable[[Step], bool]:
    return lambda step: isinstance(step, Fetch) and step.src.memory.name in arrays


def fetch_next(step: Fetch) -> Steps:
    (at,) = step.src.at
    return (replace(step, number=add(step.number, 1), src=step.src.memory[add(at, 1)]),)


def fetch_apart(plan: Plan, is_behind: bool, role: int = 0) -> Plan:
    """What a role fetches in its loop is fetched before the loop, as its first trip has it, or behind it."""
    steps = plan.roles[role].steps
    (loop,) = (s for s in steps if isinstance(s, Repeat))
    own = [s for s in loop.body if isinstance(s, Let | Fetch)]
    rest = replace(loop, body=tuple(s for s in loop.body if s not in own))
    first = [] if is_behind else [rewrite(s, lambda x: 0 if x == loop.var else None) for s in own]
    return with_steps(plan, *first, rest, *(own if is_behind else []), role=role)


def fetch_late(plan: Plan) -> Plan:
    """2: the element that bounds a loop is read behind it."""
    steps = list(plan.roles[0].steps)
    late = [s for s in steps if isinstance(s, Fetch) and s.var.name == "end"]
    return with_steps(plan, *(s for s in steps if s not in late), *late)


def fetch_at_end(plan: Plan) -> Plan:
    """2: a trip is given the element of the one before."""
    (loop,) = plan.roles[0].steps
    assert isinstance(loop, Repeat)
    own = [s for s in loop.body if isinstance(s, Fetch)]
    return with_steps(plan, replace(loop, body=(*(s for s in loop.body if s not in own), *own)))


def bound_by(of: str, value: Callable[[Index], Index]) -> Callable[[Plan], Plan]:
    """14: a role's loop goes to another end."""

    def change(plan: Plan) -> Plan:
        def other(step: Repeat) -> Steps:
            return (replace(step, count=value(step.count)),)

        return mutate(plan, lambda s: isinstance(s, Repeat) and "len" in to_c(s.count), other, role=of)

    return change


def unasked(of: str) -> Callable[[Plan], Plan]:
    """15: what a role does under a condition it does always."""
    return lambda plan: mutate(
        plan, lambda s: isinstance(s, When) and to_c(s.condition) == "0 < len", lambda s: s.body, role=of
    )  # type: ignore[attr-defined]


def unmasked(plan: Plan) -> Plan:
    """13: rows past the piece count."""

    def is_mask(step: Step) -> bool:
        return isinstance(step, Compute) and isinstance(step.tree, Apply) and step.tree.function == "where"

    return mutate(plan, is_mask, lambda s: (replace(s, tree=s.tree.args[1]),))


def one_length_is(n: int, other: int) -> Callable[[Plan], Plan]:
    """Load takes a piece of one length for one of another."""

    def change(step: Let) -> Steps:
        return (replace(step, value=select(equal(step.value, n), other, step.value)),)

    return lambda plan: mutate(plan, lambda s: isinstance(s, Let) and s.var.name == "len", change, role="load")


PLAN_FAULTS: dict[str, tuple[str, Callable[[Plan], Plan], set[str]]] = {
    "1: the begin of the next piece": ("pieces", lambda p: mutate(p, fetches("cu"), fetch_next, nth=0), {"TG416"}),
    "the ends of two pieces, by two roles": (
        "pieces", lambda p: mutate(p, fetches("cu"), fetch_next, nth=1, role="add"), {"TG416"},
    ),
    "two elements, by two roles": ("turns", lambda p: mutate(p, fetches("order"), fetch_next, role="load"), {"TG416"}),
    "2: the end is read behind the loop": ("pieces", fetch_late, {"TG416"}),
    "2: elements are read once, before the loop": ("turns", lambda p: fetch_apart(p, False), {"TG416"}),
    "2: elements are read once, behind the loop": ("turns", lambda p: fetch_apart(p, True), {"TG416"}),
    "2: elements are read at the end of a trip": ("turns", fetch_at_end, {"TG416"}),
    "13: the mask dropped": ("pieces", unmasked, {"TG420"}),
    "14: load has a trip more": ("pieces", bound_by("load", lambda n: minimum(add(n, 1), 32768)), {"TG413", "TG423"}),
    "14: add has a trip more": ("pieces", bound_by("add", lambda n: minimum(add(n, 1), 32768)), {"TG413"}),
    "14: load has four trips at most": ("pieces", bound_by("load", lambda n: minimum(n, 4)), {"TG413"}),
    "14: add has four trips at most": ("pieces", bound_by("add", lambda n: minimum(n, 4)), {"TG420", "TG423"}),
    "15: load asks for no piece": ("pieces", unasked("load"), {"TG423"}),
    "15: add asks for no piece": ("pieces", unasked("add"), {"TG413"}),
    "14: a piece of 96 rows is one of 97": ("pieces", one_length_is(96, 97), {"TG413", "TG423"}),
    "14: a piece of 97 rows is one of 96": ("pieces", one_length_is(97, 96), {"TG413"}),
    "15: a piece of one row is none": ("pieces", one_length_is(1, 0), {"TG413"}),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLAN_FAULTS)
def test_faults_in_plans_are_refused(fault: str) -> None:
    name, change, codes = PLAN_FAULTS[fault]
    spec, plan, _ = planned(name)
    wrong = change(plan)
    assert proof_code(lambda: prove(spec, wrong)) in codes


# ---------------------------------------------------------------- what a plan asks of an element, and the spec does not
ROWS = """
kernel: rows
arch: sm_80
params: {T: 24, V: 1000}
threads: 128
grid: {bx: 3}
buffers:
  ids: {scope: global, dtype: int32, shape: [T], values: "0 : V"}
  X: {scope: global, dtype: float32, shape: [V, 128]}
  Y: {scope: global, dtype: float32, shape: [T, 128], partial: true}
  s: {scope: shared, dtype: float32, shape: [128]}
ops:
  - for: {t: 8}
    do:
      - let: {e: "ids[bx*8 + t]"}
      - copy: {src: "X[e]", dst: s}
      - sync: cta
      - copy: {src: s, dst: "Y[bx*8 + t]", when: 0 <= t}
      - sync: cta
"""
DECIDED = change_text(ROWS, ("when: 0 <= t", "when: 5 <= e"))
DISTINCT = change_text(ROWS, ('"0 : V"', '"0 : V", distinct: true'))
CLAMPED = change_text(ROWS, ('"0 : V"', '"-1 : V"'), ('"X[e]"', '"X[max(e, 0)]"'))
RUNS = change_text(ROWS, ('"ids[bx*8 + t]"', '"ids[(bx*8 + t) // 3]"'))
E, T = Var("e", 1000), Var("t", 8)


def element_of(plan: Plan) -> Var:
    """The plan's own name for the element, which knows its range."""
    return next(s.var for s in all_steps(plan) if isinstance(s, Fetch))


def is_left_out(of: str, condition: Index) -> Callable[[Plan], Plan]:
    """A copy is not made where a condition holds."""

    def change(plan: Plan) -> Plan:
        own = not_(substitute(condition, {"e": element_of(plan)}))
        return mutate(plan, lambda s: isinstance(s, Block) and s.name.startswith(of), lambda s: (When(own, (s,)),))

    return change


def lies_at(place: Callable[[Var], Index]) -> Callable[[Plan], Plan]:
    """A row is read where the plan has it."""

    def change(plan: Plan) -> Plan:
        own = {"e": place(element_of(plan))}

        def move(step: Block) -> Steps:
            return (rewrite(step, lambda x: substitute(x, own) if isinstance(x, Var | Formula) else None),)

        return mutate(plan, lambda s: isinstance(s, Block) and s.name.startswith("copy_X"), move)

    return change


ASKED: dict[str, Callable[[Plan], Plan]] = {
    "a row is never read": is_left_out("copy_X", equal(E, 77)),
    "a row is never written": is_left_out("copy_s", equal(E, 77)),
    "the last row is never read": is_left_out("copy_X", equal(E, 999)),
    "rows from one on are never read": is_left_out("copy_X", less(700, E)),
    "a row of one remainder is never read": is_left_out("copy_X", equal(mod(E, 400), 399)),
    "a row is what the trip before had": is_left_out("copy_X", every(equal(E, 77), less(0, T))),
    "two rows are what the trip before had": is_left_out("copy_X", every(less(76, E), less(E, 79), less(0, T))),
    "the last row is what the trip before had": is_left_out("copy_X", every(equal(E, 999), less(0, T))),
    "in the last trip a row is what the trip before had": is_left_out("copy_X", every(equal(E, 77), equal(T, 7))),
    "in the second trip a row is what the trip before had": is_left_out("copy_X", every(equal(E, 77), equal(T, 1))),
    "rows past one are that one": lies_at(lambda e: minimum(e, 500)),
    "rows before one are that one": lies_at(lambda e: maximum(e, 1)),
    "rows lie in a circle": lies_at(lambda e: mod(e, 512)),
    "a row is the one before it": lies_at(lambda e: select(equal(e, 77), 76, e)),
}  # fmt: skip


KINDS = {"rows": ROWS, "decided": DECIDED, "distinct": DISTINCT, "clamped": CLAMPED, "runs": RUNS}
EQUIVALENT = {("rows before one are that one", "decided")}  # rows before 5 are not written
ASKED_OF = [(fault, kind) for fault in ASKED for kind in KINDS if (fault, kind) not in EQUIVALENT]


@pytest.mark.parametrize("fault,kind", ASKED_OF)
def test_what_a_plan_asks_of_an_element_alone_is_found(fault: str, kind: str) -> None:
    spec = tilegen.load(KINDS[kind])
    wrong = ASKED[fault](plan_spec(spec))
    codes = ("TG404", "TG420", "TG416") if kind == "clamped" else ("TG404", "TG420")  # of -1 there is no remainder
    assert proof_code(lambda: prove(spec, wrong)) in codes


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_tables_name_are_right_as_they_are_planned(kind: str) -> None:
    spec = tilegen.load(KINDS[kind])
    assert not [note for note in prove(spec, plan_spec(spec)).notes if note.startswith("not proven")]


@pytest.mark.parametrize("name", ["embedding", "index_add", "kv_append", "ragged_scale", "cross_entropy"])
def test_plans_ask_no_more_of_elements_than_their_specs(name: str) -> None:
    """So that proofs of places that move with an element stay short."""
    spec = tilegen.load((SPECS / f"{name}.yaml").read_text(encoding="utf-8"))
    assert find_asked(spec, plan_spec(spec)) <= list_deciding_arrays(spec)
