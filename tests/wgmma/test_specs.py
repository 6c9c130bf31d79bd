"""mma by wgmma in specs: which layouts it takes, what it says of the others, and that its kernels are right."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.faults.verdicts import refusal_of
from tests.text.run import compile_plans, requires_runner
from tests.wgmma.kernels import SPECS, auto, by_cp_async, by_tma, draw, make, operands_of, ring
from tilegen import build
from tilegen.arithmetic import cut_to_tfloat32, round_to_tfloat32
from tilegen.errors import ProofError, SpecError
from tilegen.interpret import interpret
from tilegen.pipeline import Built, load
from tilegen.plan import PRODUCTS, Commit, Fence, Wait, Wgmma, all_steps
from tilegen.planner import plan_spec
from tilegen.proofs.trips import choose_trips
from tilegen.reference import run_reference
from tilegen.spec.printing import print_spec


@cache
def built(name: str) -> Built:
    return build(deepcopy(SPECS[name]))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", SPECS)
def test_it_is_proved(name: str) -> None:
    plan = built(name).plan
    steps = list(all_steps(plan))
    queued = [type(s) for s in steps if isinstance(s, Commit | Wait) and s.queue == PRODUCTS]
    kinds = [type(s) for s in steps]
    assert kinds.count(Fence) == 1 and queued == [Commit, Wait] and Wgmma in kinds


CHOSEN = {
    "auto": {"a": "Swizzle(3, 3, 3) o S[(64, 64):(64, 1)]", "sb": "Swizzle(3, 3, 3) o S[(64, 64):(64, 1)]"},
    "auto, shallow": {"a": "Swizzle(3, 1, 3) o S[(64, 16):(16, 1)]", "sb": "Swizzle(3, 1, 3) o S[(32, 16):(16, 1)]"},
    "auto, b along n": {"sb": "Swizzle(3, 3, 3) o S[(64, 2, 64):(64, 4096, 1)]"},
    "auto, bytes along n": {"sb": "Swizzle(4, 2, 3) o S[(64, 32):(1, 64)]"},
    "auto, by tma": {
        "a": "Swizzle(3, 3, 3) o S[(64, 2, 64):(64, 4096, 1)]", "sb": "Swizzle(3, 3, 3) o S[(96, 2, 64):(64, 6144, 1)]",
    },
    "auto, by tma, b along n": {"sb": "Swizzle(3, 3, 3) o S[(64, 3, 64):(64, 4096, 1)]"},
    "auto, by tma, a in registers": {"sb": "Swizzle(3, 2, 3) o S[(64, 32):(32, 1)]"},
}  # fmt: skip


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", CHOSEN)
def test_shared_operands_get_layouts_that_descriptors_say(name: str) -> None:
    choices = {c.question: c.picked for c in built(name).spec.choices}
    assert {buffer: choices[f"layout of {buffer}"] for buffer in CHOSEN[name]} == CHOSEN[name]


def test_a_tile_that_is_multiplied_by_itself_has_one_layout_for_both() -> None:
    spec = auto(make())
    del spec["buffers"]["a"], spec["buffers"]["A"]
    (product,) = (op["mma"] for op in spec["ops"] if "mma" in op)
    product["a"] = "sb"
    proved = build(spec | {"ops": spec["ops"][1:]})
    assert str(proved.spec.buffer("sb").layout) == "Swizzle(3, 3, 3) o S[(64, 64):(64, 1)]"


@pytest.mark.slow
@requires_runner
def test_texts_run() -> None:
    plans = [built(name).plan for name in SPECS]
    for name, runner in zip(SPECS, compile_plans(plans), strict=True):
        drawn = draw(SPECS[name])
        a, b = operands_of(SPECS[name], drawn)
        found = runner.run(drawn)["C"].reshape(SPECS[name]["buffers"]["C"]["shape"]).astype(np.float64)
        assert np.array_equal(found, a @ b), name


@requires_runner
def test_tf32_drops_the_last_bits_of_a_float32() -> None:
    """Of numbers that have them; the reference of the op, the interpreter and what runs the text agree."""
    proved, random = built("tf32"), np.random.default_rng(5)
    a, b = (random.normal(size=shape).astype(np.float32) for shape in ((64, 64), (16, 64)))
    cut, whole = (x(a).astype(np.float64) @ x(b).astype(np.float64).T for x in (cut_to_tfloat32, round_to_tfloat32))
    (runner,) = compile_plans([proved.plan])
    given = {"A": lambda at: a.reshape(-1)[at], "B": lambda at: b.reshape(-1)[at]}
    meant = run_reference(proved.spec, [(0, 0, 0)], given, {})["C"][1].view(np.float32)
    simulated = interpret(proved.plan, [(0, 0, 0)], given).written["C"][1].view(np.float32)
    for found in (runner.run({"A": a, "B": b})["C"], simulated, meant):
        error = np.abs(found.reshape(64, 16) - cut)
        assert error.max() < 3e-5 < np.abs(cut - whole).max() / 50


# ---------------------------------------------------------------- what is refused
def refused(spec: dict[str, Any]) -> str:
    return " ".join(d.message for d in refusal_of(SpecError, build, spec).diagnostics)


def changed(spec: dict[str, Any], buffer: str, **fields: Any) -> dict[str, Any]:
    new = deepcopy(spec)
    new["buffers"][buffer] |= fields
    return new


def by_cta(spec: dict[str, Any]) -> dict[str, Any]:
    """All of it at the scope of the CTA."""
    ops = [{name: {f: x for f, x in fields.items() if f != "scope"} if name != "sync" else fields}
           for op in spec["ops"] for name, fields in op.items()]  # fmt: skip
    return spec | {"ops": ops}


REFUSED = {
    "rows as they are": (changed(make(), "sb", layout="row"), "no descriptor of wgmma says how the tile lies"),
    "padded rows": (changed(make(), "sb", layout="S[(64, 64):(72, 1)]"), "no descriptor of wgmma"),
    "bytes along n": (
        make(dtype="int8", c="int32", n=128, k=32, b_along_n=True, a_held=True),
        "only elements of 2 bytes may lie along M or N"),
    "an arch without it": ({**make(), "arch": "sm_90"}, "sm_90 has no wgmma, which is sm_90a's"),
    "bytes along n, auto, by tma": (
        by_tma(auto(make(dtype="int8", c="int32", n=128, k=32, b_along_n=True, a_held=True))),
        "no descriptor of wgmma says how the tile lies"),
    "a CTA of two warpgroups": (
        by_cta(make()) | {"threads": 256}, "a warpgroup of 128 threads multiplies together"),
    "rows that are no multiple of 64": (make(m=32), "divides a product of 32 x 64 x 64"),
    "tf32": (make(dtype="float32", n=16, k=32), "no atom of wgmma multiplies float32"),
    "tf32 along n": (
        make(dtype="float32", n=32, k=32, b_along_n=True, mma={"atom": "wgmma.m64n16k8"}),
        "only elements of 2 bytes may lie along M or N"),
    "an atom that does not divide": (
        make(mma={"atom": "wgmma.m64n48k16"}), "the atom wgmma.m64n48k16 does not divide a product of 64 x 64 x 64"),
    "c that lies by rows": (make(acc="wg_local_layout(64, 64)"), "c"),
    "a commit of copies or products": (by_cp_async("commit", {"wait": {"mma": 0}}), "has copies and products"),
    "a wait for copies or products": (by_cp_async({"commit": "mma"}, {"wait": 0}), "has copies and products"),
    "a commit of no product": (make(after=({"commit": "mma"},)), "closes groups of asynchronous products"),
    "a wait for no product": (make(after=({"wait": {"mma": 0}},)), "waits for groups of asynchronous products"),
    "a wait for no copy": (make(after=({"wait": {"cp_async": 0}},)), "waits for groups of asynchronous copies"),
    "async by mma.sync": (
        {"kernel": "k", "arch": "sm_90", "threads": 32, "buffers": {
            "a": {"scope": "register", "dtype": "float16", "shape": [16, 16], "layout": "auto"},
            "b": {"scope": "register", "dtype": "float16", "shape": [16, 8], "layout": "auto"},
            "c": {"scope": "register", "dtype": "float32", "shape": [16, 8], "layout": "auto"}},
         "ops": [{"fill": {"dst": x, "value": 0}} for x in "abc"]
            + [{"mma": {"a": "a", "b": "b", "c": "c", "async": True}}, "commit", {"wait": 0}]},
        "only wgmma and tcgen05 are asynchronous"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_says_why(what: str) -> None:
    spec, reason = REFUSED[what]
    assert reason in refused(spec)


# ---------------------------------------------------------------- what is wrong
def without(spec: dict[str, Any], *ops: Any) -> dict[str, Any]:
    return spec | {"ops": [op for op in spec["ops"] if op not in ops]}


WRONG = {
    "nobody fences the stores": (without(make(), {"sync": "async"}), "TG424", "sync: async"),
    "nobody meets": (without(make(), {"sync": "cta"}), "TG403", "sync: cta"),
    "nobody waits": (make(mma={"async": True}, after=("commit",)), "TG438", "wait: {mma: 0}"),
    "nobody commits": (make(mma={"async": True}, after=({"wait": 0},)), "TG438", "commit: mma"),
    "it waits for too few": (make(mma={"async": True}, after=("commit", {"wait": 1})), "TG438", "wait: {mma: 0}"),
    "b is overwritten": (
        make(mma={"async": True}, after=({"copy": {"src": "B", "dst": "sb"}}, "commit", {"wait": 0})), "TG422",
        "wait: {mma: 0}"),
    "a in registers is overwritten": (
        make(a_held=True, mma={"async": True},
             after=({"fill": {"scope": "warpgroup", "dst": "a", "value": 0}}, "commit", {"wait": 0})), "TG438", "mma"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_found_and_the_hint_says_what_to_insert(what: str) -> None:
    spec, code, hint = WRONG[what]
    (found,) = refusal_of(ProofError, build, spec).diagnostics
    assert found.code == code and hint in (found.hint or "") + found.message


# ---------------------------------------------------------------- groups in flight from trip to trip
def test_a_group_stays_in_flight_over_trips() -> None:
    proved = build(ring())
    waits = [s.pending for s in all_steps(proved.plan) if isinstance(s, Wait)]
    assert waits == [1, 0]
    assert build(print_spec(proved.spec)).plan.roles == proved.plan.roles


@pytest.mark.sweep(2)
@pytest.mark.parametrize("trips", [40, 41, 42, 43])
def test_few_trips_of_many_show_it(trips: int) -> None:
    spec = load(ring(trips=trips))
    cut = choose_trips(spec, plan_spec(spec), [(0, 0, 0)], {})
    assert cut.trips.loops and not cut.uncut
    build(ring(trips=trips))


@pytest.mark.sweep(1)
@pytest.mark.parametrize("trips", [6, 40])
def test_a_ring_that_is_too_short_is_found(trips: int) -> None:
    with pytest.raises(ProofError, match=r"TG422.*wgmma reads"):
        build(ring(stages=3, trips=trips))
    with pytest.raises(ProofError, match=r"TG422.*wgmma reads"):
        build(ring(pending=2, trips=trips))
    assert build(ring(stages=3, pending=0, trips=trips)) and build(ring(stages=5, pending=2, trips=trips))


def test_the_last_group_is_waited_for() -> None:
    with pytest.raises(ProofError, match="TG438"):
        build(ring(last=1))
