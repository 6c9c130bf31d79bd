"""Counting by classes against counting every CTA by itself: addresses that separate, and those that do not."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tilegen.cost import classes, count
from tilegen.cost.classes import find_classes
from tilegen.cost.compiled import compiled_accesses
from tilegen.cost.count import count_access, count_unnamed
from tilegen.cost.needs import count_bytes, count_needed_sectors, group_by_array
from tilegen.errors import ProofError
from tilegen.pipeline import load
from tilegen.planner import plan_spec
from tilegen.spec.outline import launch_of

HEAD = "kernel: counted\nbuffers:\n"


def permute(dtype: str, shape: list[int], axes: list[int]) -> str:
    turned = [shape[a] for a in axes]
    return (
        f"{HEAD}  X: {{scope: global, dtype: {dtype}, shape: {shape}}}\n"
        f"  Y: {{scope: global, dtype: {dtype}, shape: {turned}}}\n"
        f"ops:\n  - permute: {{src: X, dst: Y, axes: {axes}}}\n"
    )


@pytest.mark.parametrize(
    ("dtype", "shape", "axes"),
    [("float32", [3, 1000], [1, 0]), ("uint8", [4, 9, 35, 3], [0, 3, 1, 2]), ("float16", [130, 70], [1, 0]),
     ("uint8", [5, 7, 3, 11, 3, 2], [5, 3, 1, 0, 2, 4])],
)  # fmt: skip
def test_a_grid_is_the_sum_of_its_ctas(dtype, shape, axes):
    spec = load(permute(dtype, shape, axes))
    launch, plan = launch_of(spec), plan_spec(spec)
    for a in compiled_accesses(plan):
        whole = count_access(a, launch, None)
        each = [count_access(a, launch, cta) for cta in product(*map(range, launch.grid))]
        for name in ("instructions", "wavefronts", "floor", "bytes_floor", "sectors"):
            assert getattr(whole, name) == sum(getattr(one, name) for one in each), (a, name)
    ctas = [*product(*map(range, launch.grid))]
    for group in group_by_array(compiled_accesses(plan)).values():
        assert count_needed_sectors(group, launch, None) == sum(count_needed_sectors(group, launch, c) for c in ctas)
        for a in group:
            assert count_bytes(a, launch, None) == sum(count_bytes(a, launch, c) for c in ctas)


def test_a_loop_variable_in_a_quotient_with_threads_does_not_make_every_cta_a_class(monkeypatch):
    """group = i * 128 + tx is divided by the length of a row: i is told apart, the CTA is not."""
    spec = load(permute("float32", [3, 1_000_000], [1, 0]))
    launch, seen = launch_of(spec), []
    real = count.list_classes

    def listed(*args):
        for values, counts in real(*args):
            seen.append(len(counts))
            yield values, counts

    monkeypatch.setattr(count, "list_classes", listed)
    for a in compiled_accesses(plan_spec(spec)):
        count_access(a, launch, None)
    assert max(seen) < 200 < max(launch.grid)


LOOPED = """kernel: looped
threads: 96
grid: {bx: 37, by: 11}
buffers:
  X: {scope: global, dtype: float16, shape: [11, 200, 1000]}
  Y: {scope: global, dtype: float16, shape: [11, 200, 1000]}
  A: {scope: shared, dtype: float16, shape: [4, 1024]}
ops:
  - for: {k: 150}
    do:
      - copy: {src: "X[by, k, bx*8 : +8]", dst: "A[k % 3, bx % 7 * 8 : +8]", when: "k*2 + bx < 310"}
      - sync: cta
      - copy: {src: "A[k % 3, bx % 7 * 8 : +8]", dst: "Y[by, k, bx*8 : +8]", when: "k % 5 != 1"}
      - sync: cta
"""


def assert_counts_are_alike(spec, monkeypatch):
    """Of every access, whether few values of an outer variable are picked or all are gone through."""
    launch, found = launch_of(spec), compiled_accesses(plan_spec(spec))
    counted = {}
    for most in (1 << 40, 4):
        monkeypatch.setattr(classes, "_ALL", most)
        count_unnamed.cache_clear()
        counted[most] = [count_access(a, launch, cta) for a in found for cta in (None, (0, 0, 0), launch.interior)]
    count_unnamed.cache_clear()
    assert counted[4] == counted[1 << 40]


@pytest.mark.parametrize("text", [
    LOOPED, permute("uint8", [9, 1301, 7], [2, 1, 0]), permute("float32", [3, 40_000], [1, 0]),
    permute("float16", [130, 700], [1, 0]),
])  # fmt: skip
def test_picked_values_count_what_all_values_do(text, monkeypatch):
    spec = load(text)
    assert_counts_are_alike(spec, monkeypatch)


SWIZZLED = """kernel: swizzled
arch: sm_80
threads: 64
params: {S: {default: 700, max: 4096}}
grid: {bx: 5}
buffers:
  X: {scope: global, dtype: float16, shape: [S, 64]}
  Y: {scope: global, dtype: float16, shape: [5, 2, 16, 64]}
  A: {scope: shared, dtype: float16, shape: [3, 64, 64], layout: "Swizzle(3, 3, 3) o S[(3, 64, 64):(4096, 64, 1)]"}
  r: {scope: register, dtype: float16, shape: [16, 64], layout: "S[(2, 8, 8, 4, 2):(2, 4@laneid, 4, 1@laneid, 1)]"}
ops:
  - for: {k: "min(ceil(S / 64), bx + 3)"}
    do:
      - copy: {src: "X[k*64 : +64]", dst: "A[k % 3]", async: true, edge: clip, when: "k*3 + bx < 14"}
      - commit
      - wait: 0
      - sync: cta
      - for: {i: 4}
        unroll: true
        do:
          - copy: {scope: warp, src: "A[(k + i) % 3, i*16 : +16]", dst: r, variant: VARIANT}
      - sync: cta
  - copy: {scope: warp, src: r, dst: "Y[bx, warpid]"}
"""


@pytest.mark.parametrize("variant", ["reg", "ldstmatrix"])
@pytest.mark.parametrize("dtype", ["float16", "int16"])
def test_classes_count_what_every_value_by_itself_does(variant, dtype, monkeypatch):
    """Stages, steps and registers move a swizzled address by multiples of what it XORs: they are no classes."""
    spec = load(SWIZZLED.replace("VARIANT", variant).replace("float16", dtype))
    launch, found = launch_of(spec), compiled_accesses(plan_spec(spec))
    ctas = (None, (0, 0, 0), (4, 0, 0))
    seen: dict[int, list[int]] = {0: [], 1: []}
    counted = {}
    real, listed = classes._keys, count.list_classes
    for k, keys in enumerate((real, lambda *args: None)):
        monkeypatch.setattr(classes, "_keys", keys)

        def listen(*args, own=seen[k]):
            for values, counts in listed(*args):
                own.append(len(counts))
                yield values, counts

        monkeypatch.setattr(count, "list_classes", listen)
        count_unnamed.cache_clear()
        counted[k] = [count_access(a, launch, cta) for a in found for cta in ctas]
    count_unnamed.cache_clear()
    assert counted[0] == counted[1]
    assert max(seen[0]) * 8 < max(seen[1])


@pytest.mark.parametrize("spans", [(3, 5), (1 << 40, 3), (1 << 40, 1 << 41, 7), (1, 1)])
def test_classes_are_numpys_unique_rows(spans):
    rng = np.random.default_rng(0)
    pool = [rng.integers(0, span, 6) for span in spans]
    keys = [rng.choice(some, 500) - 2 for some in pool]
    index, counts = find_classes(keys)
    _, wanted, wanted_counts = np.unique(np.stack(keys, 1), axis=0, return_index=True, return_counts=True)
    assert (index == wanted).all() and (counts == wanted_counts).all()


TRIANGLE = """kernel: triangle
threads: 64
params: {S: {default: 130, max: 4096}}
grid: {bx: 2}
buffers:
  X: {scope: global, dtype: float16, shape: [4, 64]}
  Y: {scope: global, dtype: float16, shape: [4, 64]}
  A: {scope: shared, dtype: float16, shape: [3, 64]}
ops:
  - for: {k: K}
    do:
      - for: {j: COUNT}
        do:
          - copy: {src: "X[j % 4]", dst: "A[(j + k) % 3]", when: WHEN}
          - sync: cta
          - copy: {src: "A[(j + k) % 3]", dst: "Y[j // 2 % 4]"}
"""


@pytest.mark.parametrize(("count_of_j", "when"), [
    ("k", "j < 70"), ("k + 3", "bx + j*2 < 200"), ("S - k", "k % 5 != 1"), ("k // 2 + bx", "j * k % 7 < 3"),
    ("[k // 2, k, 3]", "true"), ("'min(k, 80)'", "j + k < 150"),
])  # fmt: skip
def test_trips_that_an_outer_loop_gives_are_counted_as_if_gone_through(count_of_j, when, monkeypatch):
    spec = load(TRIANGLE.replace("K}", "140}").replace("COUNT", count_of_j).replace("WHEN", f'"{when}"'))
    assert_counts_are_alike(spec, monkeypatch)


@pytest.mark.slow
def test_trips_of_a_long_triangle_are_a_sum():
    spec = load(TRIANGLE.replace("K}", "1000000}").replace("COUNT", "k").replace("WHEN", "true"))
    launch = launch_of(spec)
    (_, _, _, last) = compiled_accesses(plan_spec(spec))
    assert count_access(last, launch, (0, 0, 0)).instructions == 1_000_000 * 999_999 // 2


def test_what_would_be_gone_through_for_hours_is_refused_at_its_place():
    deep = TRIANGLE.replace("K}", "100000}").replace("COUNT", "k").replace("WHEN", "j * k % 7 < 3")
    with pytest.raises(ProofError, match=r"^<text>:14:13: TG426: counting .* k \(100000\) and j \(99999\)"):
        plan_spec(load(deep))
