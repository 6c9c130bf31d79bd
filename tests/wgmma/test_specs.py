"""mma by wgmma in specs: which layouts it takes, what it says of the others, and that its kernels are right."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.text.run import compile_plans, requires_gxx
from tilegen import build
from tilegen.dtypes import numpy_dtype
from tilegen.errors import ProofError, SpecError
from tilegen.pipeline import Built, load
from tilegen.plan import PRODUCTS, Commit, Fence, Wait, Wgmma, all_steps
from tilegen.planner import plan_spec
from tilegen.proofs.trips import choose_trips
from tilegen.spec.printing import print_spec


def make(
    m: int = 64, n: int = 64, k: int = 64, dtype: str = "bfloat16", c: str = "float32", swizzle: int = 128,
    b_along_n: bool = False, a_held: bool = False, acc: str = "auto", mma: dict[str, Any] | None = None,
    after: tuple[Any, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """C = A B by one warpgroup from tiles that its threads store into shared memory."""
    shape = [k, n] if b_along_n else [n, k]
    a_shape, swizzled = [m, k], "mma_shared_layout('{}', {}, {})"
    buffers = {
        "A": {"scope": "global", "dtype": dtype, "shape": a_shape},
        "B": {"scope": "global", "dtype": dtype, "shape": shape},
        "C": {"scope": "global", "dtype": c, "shape": [m, n]},
        "sb": {"scope": "shared", "dtype": dtype, "shape": shape,
               "layout": swizzled.format(dtype, swizzle, tuple(shape))},
        "acc": {"scope": "register", "dtype": c, "shape": [m, n], "layout": acc},
    }  # fmt: skip
    if not b_along_n:
        buffers["sbT"] = {"view": "sb", "axes": [1, 0]}
    if a_held:
        buffers["a"] = {"scope": "register", "dtype": dtype, "shape": a_shape, "layout": "auto"}
    else:
        layout = swizzled.format(dtype, swizzle, tuple(a_shape))
        buffers["a"] = {"scope": "shared", "dtype": dtype, "shape": a_shape, "layout": layout}
    product = {"scope": "warpgroup", "a": "a", "b": "sb" if b_along_n else "sbT", "c": "acc", "accumulate": False}
    ops = [
        {"copy": {"src": "A", "dst": "a", **({"scope": "warpgroup"} if a_held else {})}},
        {"copy": {"src": "B", "dst": "sb"}}, {"sync": "async"}, {"sync": "cta"}, {"mma": product | (mma or {})}, *after,
        {"copy": {"scope": "warpgroup", "src": "acc", "dst": "C"}},
    ]  # fmt: skip
    return {"kernel": "product", "arch": "sm_90a", "threads": 128, "buffers": buffers, "ops": ops}


def auto(spec: dict[str, Any]) -> dict[str, Any]:
    """With the layouts of shared buffers left to be chosen."""
    new = deepcopy(spec)
    for buffer in new["buffers"].values():
        if buffer.get("scope") == "shared":
            buffer["layout"] = "auto"
    return new


def by_tma(spec: dict[str, Any]) -> dict[str, Any]:
    """The same from tiles that TMA brings."""
    new = deepcopy(spec)
    product = [op for op in new["ops"] if "mma" in op or op.get("copy", {}).get("dst") == "C"]
    names = [name for name, buffer in new["buffers"].items() if buffer.get("scope") == "shared"]
    load = [{"copy": {"src": "A" if n == "a" else "B", "dst": n, "variant": "tma", "barrier": "full"}} for n in names]
    held = [{"copy": {"src": "A", "dst": "a", "scope": "warpgroup"}}] if "a" not in names else []
    return new | {"ops": [*load, *held, {"wait": {"barrier": "full"}}, *product]}


def by_cp_async(*after: Any) -> dict[str, Any]:
    """The same from tiles that cp.async brings, then products in flight."""
    new = make(mma={"async": True}, after=after)
    for op in new["ops"][:2]:
        op["copy"]["async"] = True
    return new | {"ops": [*new["ops"][:2], {"commit": "cp_async"}, {"wait": {"cp_async": 0}}, *new["ops"][2:]]}


SPECS = {
    "bf16": make(), "two rows of atoms": make(m=128, n=32), "two columns of atoms": make(n=320),
    "three": make(n=24, k=32, swizzle=64), "f16": make(dtype="float16", c="float16", n=96, k=128),
    "s8": make(dtype="int8", c="int32", n=32, k=128), "e4m3": make(dtype="float8_e4m3fn", n=16, k=64, swizzle=32),
    "b along n": make(b_along_n=True), "b along n, wide": make(b_along_n=True, n=192, k=32, swizzle=64),
    "no swizzle": make(swizzle=0), "a in registers": make(a_held=True, n=128),
    "a in registers, b along n": make(a_held=True, b_along_n=True, m=128),
    "written accumulator": make(acc="wgmma_accumulator(64)"),
    "a named atom": make(mma={"atom": "wgmma.m64n32k16"}),
    "async": make(mma={"async": True}, after=("commit", {"wait": 0})),
    "async, named": make(mma={"async": True}, after=({"commit": "mma"}, {"wait": {"mma": 0}})),
    "copies and products": by_cp_async({"commit": "mma"}, {"wait": {"mma": 0}}),
    "auto": auto(make()), "auto, deep": auto(make(n=96, k=128)), "auto, shallow": auto(make(n=32, k=16)),
    "auto, b along n": auto(make(n=128, b_along_n=True)),
    "auto, bytes along n": auto(make(dtype="int8", c="int32", n=32, k=64, b_along_n=True)),
    "auto, s8": auto(make(dtype="int8", c="int32", n=32, k=128)), "auto, by tma": by_tma(auto(make(n=96, k=128))),
    "auto, by tma, b along n": by_tma(auto(make(m=128, n=192, b_along_n=True))),
    "auto, by tma, a in registers": by_tma(auto(make(a_held=True, k=32))),
}  # fmt: skip


@cache
def built(name: str) -> Built:
    return build(deepcopy(SPECS[name]))


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


@requires_gxx
def test_texts_run() -> None:
    plans = [built(name).plan for name in SPECS]
    for name, runner in zip(SPECS, compile_plans(plans), strict=True):
        random = np.random.default_rng(3)
        shapes = {b: tuple(SPECS[name]["buffers"][b]["shape"]) for b in "ABC"}
        dtype = SPECS[name]["buffers"]["A"]["dtype"]
        a, b = (random.integers(-3, 4, shapes[x]).astype(numpy_dtype(dtype)) for x in "AB")
        wide = b.astype(np.float64) if "along n" in name else b.astype(np.float64).T
        found = runner.run({"A": a, "B": b})["C"].reshape(shapes["C"]).astype(np.float64)
        assert np.array_equal(found, a.astype(np.float64) @ wide), name


# ---------------------------------------------------------------- what is refused
def refused(spec: dict[str, Any]) -> str:
    with pytest.raises(SpecError) as caught:
        build(spec)
    return " ".join(d.message for d in caught.value.diagnostics)


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
    "tf32 that is named": (
        make(dtype="float32", n=16, k=32, mma={"atom": "wgmma.m64n16k8"}), "wgmma cuts float32 off"),
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
        "only wgmma is asynchronous"),
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
    "nobody meets": (without(make(), {"sync": "cta"}), "TG403", "sync: warpgroup"),
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
    with pytest.raises(ProofError) as caught:
        build(spec)
    (found,) = caught.value.diagnostics
    assert found.code == code and hint in (found.hint or "") + found.message


# ---------------------------------------------------------------- groups in flight from trip to trip
def ring(stages: int = 4, pending: int = 1, trips: int = 6, last: int = 0) -> dict[str, Any]:
    """A ring of stages that TMA fills two trips ahead, with a group of products in flight from one trip to the next."""
    stage = "mma_shared_layout('bfloat16', 128, ({}, {}, 64))"
    buffers = {
        "A": {"scope": "global", "dtype": "bfloat16", "shape": [64, 64 * trips]},
        "B": {"scope": "global", "dtype": "bfloat16", "shape": [32, 64 * trips]},
        "C": {"scope": "global", "dtype": "float32", "shape": [64, 32]},
        "sa": {"scope": "shared", "dtype": "bfloat16", "shape": [stages, 64, 64], "layout": stage.format(stages, 64)},
        "sb": {"scope": "shared", "dtype": "bfloat16", "shape": [stages, 32, 64], "layout": stage.format(stages, 32)},
        "sbT": {"view": "sb", "axes": [0, 2, 1]},
        "acc": {"scope": "register", "dtype": "float32", "shape": [64, 32], "layout": "auto"},
    }

    def load(k: str) -> list[Any]:
        each = {"variant": "tma", "barrier": f"full[({k}) % {stages}]"}
        return [
            {"copy": {"src": f"{x}[:, ({k})*64 : +64]", "dst": f"s{x.lower()}[({k}) % {stages}]"} | each} for x in "AB"
        ]

    product = {
        "scope": "warpgroup", "a": f"sa[k % {stages}]", "b": f"sbT[k % {stages}]", "c": "acc", "accumulate": "k > 0",
        "async": True,
    }  # fmt: skip
    ops = [
        {"for": {"p": 2}, "do": load("p")},
        {"for": {"k": trips}, "do": [
            {"when": f"k + 2 < {trips}", "do": load("k + 2")}, {"wait": {"barrier": f"full[k % {stages}]"}},
            {"mma": product}, {"commit": "mma"}, {"wait": {"mma": pending}}, {"sync": "cta"},
        ]},
        {"wait": {"mma": last}}, {"copy": {"scope": "warpgroup", "src": "acc", "dst": "C"}},
    ]  # fmt: skip
    return {"kernel": "ring", "arch": "sm_90a", "threads": 128, "buffers": buffers, "ops": ops}


def test_a_group_stays_in_flight_over_trips() -> None:
    proved = build(ring())
    waits = [s.pending for s in all_steps(proved.plan) if isinstance(s, Wait)]
    assert waits == [1, 0]
    assert build(print_spec(proved.spec)).plan.roles == proved.plan.roles


@pytest.mark.parametrize("trips", [40, 41, 42, 43])
def test_few_trips_of_many_show_it(trips: int) -> None:
    spec = load(ring(trips=trips))
    cut = choose_trips(spec, plan_spec(spec), [(0, 0, 0)], {})
    assert cut.trips.loops and not cut.uncut
    build(ring(trips=trips))


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
