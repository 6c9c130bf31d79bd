"""What of a run on a GPU is compared where NumPy cannot afford all of it."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from specs.kernels import build_spec

import tilegen
from tilegen.ops.mma.atoms import extents_of
from tilegen.proofs.floats import float_inputs
from tilegen.proofs.nans import NanWatch
from tilegen.spec.outline import launch_of, outline
from tilegen.verifying import floats
from tilegen.verifying.floats import count_effort

PRODUCT = "specs/gemm_batched.yaml"


def test_all_ctas_are_compared_where_that_is_affordable() -> None:
    built = build_spec("specs/rmsnorm.yaml")
    x, y, z = launch_of(built.spec, {}).grid
    chosen = floats.choose_ctas(built, {}, 1 << 20, 1)
    assert chosen == [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]


@pytest.mark.parametrize("limit", ["_EFFORT", "_BOUNDED_ELEMS"])
@pytest.mark.parametrize("wanted", [0, 2, 3, 7, 40])
def test_the_first_the_last_and_others_with_each_seed(limit: str, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build_spec(PRODUCT)
    grid = launch_of(built.spec, {}).grid
    total = prod(grid)
    each = count_effort(built.spec, {}) if limit == "_EFFORT" else 10
    monkeypatch.setattr(floats, limit, wanted * each)
    seen = [floats.choose_ctas(built, {}, 10 * total, seed) for seed in (1, 2, 3)]
    for chosen in seen:
        assert chosen[0] == (0, 0, 0) and chosen[-1] == tuple(n - 1 for n in grid)
        assert len(chosen) == len(set(chosen)) == max(2, wanted)
        assert all(0 <= i < n for cta in chosen for i, n in zip(cta, grid, strict=True))
    assert seen[0] == floats.choose_ctas(built, {}, 10 * total, 1)
    assert wanted < 7 or len(set().union(*map(set, seen))) > len(seen[0])


def test_effort_is_what_instances_touch_in_all_trips() -> None:
    """Two warps copy 64 elements each in a trip, there and back; a product counts as eight of its multiply-adds."""
    x = {"scope": "global", "dtype": "int8", "shape": ["N", 4, 64]}
    copy = {"copy": {"scope": "warp", "src": "X[k, bx * 2 + warpid]", "dst": "Y[k, bx * 2 + warpid]"}}
    spec = {"kernel": "rows", "threads": 64, "grid": {"bx": 2}, "params": {"N": {"default": 8, "max": 64}},
            "buffers": {"X": x, "Y": x}, "ops": [{"for": {"k": "N"}, "do": [copy]}]}  # fmt: skip
    loaded = tilegen.load(spec)
    assert [count_effort(loaded, {"N": n}) for n in (0, 1, 8)] == [0, 256, 2048]
    tile = tilegen.load("specs/mma_tile.yaml")
    calls = [call for call in outline(tile).calls if call.op == "mma"]
    assert calls and count_effort(tile, {}) >= sum(prod(extents_of(call)) // 8 for call in calls)


def test_an_image_is_drawn_in_parts_as_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floats, "_PART", 100)
    for given in float_inputs(build_spec("specs/rmsnorm.yaml").plan, 3).values():
        whole = given(np.arange(1234))
        assert np.array_equal(floats.draw_image(given, 1234, whole.dtype), whole)
    assert floats.draw_image(given, 0, whole.dtype).size == 0


def test_nans_of_runs_that_were_watched_elsewhere_are_those_of_ctas_in_all_of_them() -> None:
    one, other = (
        NanWatch({"Y": np.array(at)}, ctas) for at, ctas in (((1, 4, 9), [(0, 0, 0), (2, 0, 0)]), ((4, 7), [(0, 0, 0)]))
    )
    watch = NanWatch()
    watch.join(one)
    watch.join(other)
    assert list(watch.suspects["Y"]) == [4] and watch.ctas == ((0, 0, 0),)
