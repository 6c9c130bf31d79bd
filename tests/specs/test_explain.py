"""explain says what other programs rely on, and its totals are those of counting every warp access on its own."""

from __future__ import annotations

from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specs.kernels import ROOT, build_spec, every_spec, most_trips, small_spec
from tests.session import once
from tilegen import access
from tilegen.cost.accesses import Access
from tilegen.cost.compiled import compiled_accesses
from tilegen.index import evaluate
from tilegen.pipeline import explain
from tilegen.plan import Launch
from tilegen.report import explain_plan
from tilegen.scopes import thread_variables
from tilegen.spec.outline import launch_of

COST = {"sectors", "wavefronts", "instructions", "shared_bytes", "address_ops"}
KINDS = {"shared_ld", "shared_st", "shared_ldsm", "shared_stsm", "global_ld", "global_st"}
ASYNC = ({"shared_ldgsts", "global_ldgsts"}, {"shared_tma", "global_tma"})  # where a kernel has cp.async, TMA
TOTALS = {"instructions", "wavefronts", "floor", "sectors"} | {"least_sectors"}
# Names that other programs read (keep them) | names that came since.
TOP = {"kernel", "arch", "ops", "grid_totals"} | {"grid", "threads", "params", "choices", "summary", "roles", "trust"}
OP = {"op", "variant", "scope", "refused", "choices", "accesses"} | {"text", "line", "cost", "traffic", "threads"}
REFUSED = {"variant", "reason"} | {"cost", "choices"}
CHOICE = {"question", "picked", "candidates", "proof"} | {"variant"}
CANDIDATE = {"value", "cost", "verdict"}
ACCESS = {
    "buffer", "kind", "width_bytes", "instructions", "wavefronts", "floor", "bytes_floor", "sectors",
} | {"space", "threads", "idle_warps", "sectors_floor", "text_width_bytes"}  # fmt: skip
DECIDED = {"worst", "decided_by_memory"}  # where memory decides places
TRAFFIC = {"buffer", "direction", "bytes", "sectors", "sectors_floor"}
SUMMARY = {
    "read_bytes", "written_bytes", "sectors", "sectors_floor", "wavefronts", "wavefronts_floor", "instructions",
    "threads", "bound_by", "aside", "clocks", "device",
}  # fmt: skip


@once
def _explain(path: Path) -> dict[str, Any]:
    return explain(build_spec(path).spec)


DERIVED = {"functions", "derivation", "mma", "descriptors", "started"}  # that explain alone says, of some ops
UNUSED = {"unused"}  # what the arch has that the kernel does not use, where there is something


@pytest.mark.sweep(3)
@every_spec
def test_keys(path):
    data = _explain(path)
    assert set(data) - DERIVED - UNUSED == TOP
    assert set(data["summary"]) == SUMMARY
    shown = set(data["grid_totals"]) - {"shared_wgmma", "shared_tcgen05", "shared_red", "global_red"}
    assert shown in (KINDS, KINDS | ASYNC[0], KINDS | ASYNC[1], KINDS.union(*ASYNC))
    assert all(set(total) == TOTALS for total in data["grid_totals"].values())
    for choice in data["choices"]:
        assert set(choice) == CHOICE
        assert all(set(c) == CANDIDATE for c in choice["candidates"])
        picked = [c["value"] for c in choice["candidates"] if c["verdict"] == "picked"]
        if choice["candidates"] and choice["question"].startswith("layout of "):
            assert picked == [choice["picked"]]
        assert len(picked) <= 1  # a permute's tile is picked among estimates, which its candidates hold too
    for op in data["ops"]:
        assert set(op) - DERIVED == OP
        assert set(op["cost"]) == COST
        assert all(set(r) == REFUSED for r in op["refused"])
        assert all(set(a) - DECIDED == ACCESS for a in op["accesses"])
        assert all(set(t) - DECIDED == TRAFFIC for t in op["traffic"])
        for choice in [*op["choices"], *(c for r in op["refused"] for c in r["choices"])]:
            assert set(choice) == CHOICE
            assert all(set(c) == CANDIDATE for c in choice["candidates"])
            assert all(c["cost"] is None or set(c["cost"]) == COST for c in choice["candidates"])


@pytest.mark.sweep(6)
@every_spec
def test_the_picked_candidate_is_among_the_candidates_and_none_costs_less(path):
    for op in _explain(path)["ops"]:
        for choice in op["choices"]:
            picked = [c for c in choice["candidates"] if c["verdict"] == "picked"]
            assert len(picked) <= 1, choice["question"]
            costs = [tuple(c["cost"].values())[:2] for c in choice["candidates"] if c["cost"]]
            if picked and picked[0]["cost"] and not _is_pinned(op):
                assert tuple(picked[0]["cost"].values())[:2] == min(costs), choice["question"]


def _is_pinned(op: dict[str, Any]) -> bool:
    return any("is pinned" in r["reason"] for r in op["refused"])


@pytest.mark.sweep(6)
@every_spec
def test_no_access_is_below_its_floor(path):
    for op in _explain(path)["ops"]:
        for a in op["accesses"]:
            assert a["floor"] <= a["wavefronts"], (op["text"], a)
            assert a["bytes_floor"] <= a["floor"], (op["text"], a)
            assert (a["wavefronts"] == 0) == (a["space"] == "global"), a
            assert (a["sectors"] > 0) <= (a["space"] == "global"), a
            assert a["sectors_floor"] <= a["sectors"], a
        for t in op["traffic"]:
            mine = [a for a in op["accesses"] if (a["buffer"], a["space"]) == (t["buffer"], "global")]
            assert max(a["sectors_floor"] for a in mine) <= t["sectors_floor"] <= t["sectors"], t


@pytest.mark.sweep(6)
@every_spec
def test_every_operation_that_is_printed_is_one_of_the_plan(path):
    built = build_spec(path)
    assert [(o["op"], o["variant"]) for o in _explain(path)["ops"]] == [
        (o.op, o.variant) for o in built.plan.operations
    ]
    plain = [{key: value for key, value in op.items() if key not in DERIVED} for op in _explain(path)["ops"]]
    assert built.manifest["ops"] == plain
    assert built.manifest["grid_totals"] == _explain(path)["grid_totals"]
    assert built.manifest["summary"] == _explain(path)["summary"]


@pytest.mark.sweep(6)
@every_spec
def test_grid_totals_are_the_sum_over_every_warp_access(path):
    """The product counts one access of each class and multiplies; here every CTA and every loop trip is counted."""
    spec, plan = small_spec(path).spec, small_spec(path).plan
    predicted = explain_plan(plan, launch_of(spec))["grid_totals"]
    totals = {kind: np.zeros(4, np.int64) for kind in predicted}
    for a in compiled_accesses(plan):
        totals[f"{a.memory.space}_{_counter_of(a.kind)}"] += _count_one_by_one(a, launch_of(spec))
    names = ("instructions", "wavefronts", "floor", "sectors")
    found = {k: {name: total[name] for name in names} for k, total in predicted.items()}
    assert {k: dict(zip(names, map(int, t), strict=True)) for k, t in totals.items()} == found


def _counter_of(kind: str) -> str:
    """ldmatrix is counted as LDSM, stmatrix as STSM, cp.async as LDGSTS."""
    return f"{kind[:2]}sm" if "matrix" in kind else "ldgsts" if kind.startswith("cp.async") else kind


def _count_one_by_one(a: Access, launch: Launch) -> np.ndarray:
    """Instructions, wavefronts, floor and sectors of an access, summed over CTAs and trips without classes."""
    loops = [v.name for v, _ in a.loops]
    trips = [*map(range, most_trips(a, launch))]
    tx = np.arange(-(-a.threads // 32) * 32)
    threads = {n: evaluate(x, {"tx": tx}) for n, x in thread_variables(a.threads).items()}
    points = np.array([*product(*trips)], np.int64).reshape(prod(map(len, trips)), len(loops))
    total = np.zeros(4, np.int64)
    for cta in product(*map(range, launch.grid)):
        env = dict(launch.params) | dict(zip(("bx", "by", "bz"), cta, strict=True))
        env |= threads | {name: points[:, k, None] for k, name in enumerate(loops)}
        sides = [_offsets_of(side, env, (len(points), len(tx)), a.threads) for side in (a, a.partner) if side]
        issued = np.any([(side >= 0).any(1) for side in sides], axis=0)
        if not issued.any():
            continue
        offsets, other = sides[0][issued], sides[-1][issued]
        total[0] += len(offsets)
        if a.kind in ("tma", "wgmma"):
            total[1:] += _count_boxes(a, offsets.max(1), dict(launch.params))
        elif a.partner:
            total += _count_cp_async(a, offsets, other)
        elif a.memory.space == "global":
            total[3] += access.sectors(a.width_bytes, offsets).sum()
        else:
            total[1] += access.wavefronts(a.kind, a.width_bytes, offsets).sum()
            total[2] += access.phases(a.kind, a.width_bytes, offsets).sum()
    return total


def _count_cp_async(a: Access, offsets: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Wavefronts with the fills of cg, floor of the shared side; the other's sectors.

    A cg that every lane reads costs its fills alone (docs/access-model.md).
    """
    _, _, cache, *fill = a.kind.split(".")
    on_global = a.memory.space == "global"
    shared, source = (other, offsets) if on_global else (offsets, other)
    cost = access.cp_async_cost(cache, a.width_bytes, shared, source, zero_fill=bool(fill))
    if on_global:
        return np.array([0, 0, 0, cost.sectors.sum()])
    has_own = ((shared >= 0) & (source < 0)).any(1) & bool(fill) if cache == "cg" else np.ones(len(shared), bool)
    own = (access.phases("st", a.width_bytes, shared) * has_own).sum()
    lines = sum(len({x // 128 for x in row if x >= 0}) for row in source.tolist()) if cache == "cg" else 0
    return np.array([0, (cost.wavefronts * has_own).sum() + cost.fills.sum(), own + lines, 0])


def _count_boxes(a: Access, starts: np.ndarray, params: dict[str, int]) -> np.ndarray:
    """Wavefronts, floor and sectors of boxes that begin at these bytes: pairs of sector and shared line, by bytes."""
    sizes = [(n, int(evaluate(stride, params))) for n, stride in a.rows]
    rows = [sum(i * s for i, (_, s) in zip(at, sizes, strict=True)) for at in product(*(range(n) for n, _ in sizes))]
    if a.memory.space == "shared":
        return np.array([1, 1, 0]) * len(starts) * -(-len(rows) * a.width_bytes // 128)
    box = np.array([row + k for row in rows for k in range(a.width_bytes)], np.int64)
    line = np.arange(len(box)) // 128
    at, counts = np.unique(starts % 32, return_counts=True)  # where in a sector it begins is all that matters
    met = [len(set(zip(((s + box) // 32).tolist(), line.tolist(), strict=True))) for s in at]
    return np.array([0, 0, int(np.dot(met, counts))])


def _offsets_of(a: Access, env: dict[str, Any], shape: tuple[int, int], threads: int) -> np.ndarray:
    """Byte offsets, 32 lanes a row, -1 where a lane is inactive."""
    active = np.broadcast_to(np.arange(shape[1]) < threads, shape).copy()
    for condition in a.conditions:
        active &= np.broadcast_to(np.asarray(evaluate(condition, env), bool), shape)
    return np.where(active, np.broadcast_to(evaluate(a.byte, env), shape), -1).reshape(-1, 32)


def test_the_seeds_numbers():
    """4x32 float32: four registers a lane, k = 2, shift 3, mask 3, no conflict; a warp's 32x8: vectors of 4, twice."""
    root = ROOT / "specs"
    permute = next(o for o in _explain(root / "permute_sf.yaml")["ops"] if o["op"] == "permute_layout")
    lost = next(r for r in permute["refused"] if r["variant"] == "warp_xor_swizzle")
    picked = {c["question"]: c["picked"] for c in [*permute["choices"], *lost["choices"]]}
    assert picked["xor_k"] == {"k": 2, "shift": 3, "mask": 3}
    assert picked["registers_per_lane"] == 4
    assert all(a["wavefronts"] == a["floor"] for a in permute["accesses"])
    register = [o for o in _explain(root / "copy_reg.yaml")["ops"] if o["variant"] == "reg"]
    for op in register:
        picked = {c["question"]: c["picked"] for c in op["choices"]}
        assert picked["vector_width"] == {"elems": 4, "bytes": 16}
        assert (picked["outer"], picked["registers_per_thread"]) == (2, 8)
