"""A grid of as many CTAs as fit at once: tiles are shared whatever their number, and every other stride is found."""

from __future__ import annotations

import pytest

from tests.faults.verdicts import build_codes
from tilegen.errors import SpecError
from tilegen.pipeline import load
from tilegen.planner import plan_spec
from tilegen.proofs.meaning import parameter_cases
from tilegen.render import launch_info, render, render_launcher
from tilegen.spec.outline import launch_of
from tilegen.spec.printing import print_spec

LOOP = "[bx, tiles, bx_count]"


def tiles(loop: str = LOOP, grid: str = "resident", more: str = "") -> str:
    return (
        f'kernel: by_turns\nthreads: 64\nparams: {{M: {{default: 3000, max: 65536}}}}\ngrid: {{bx: "{grid}"}}\n{more}'
        "buffers:\n  X: {scope: global, dtype: float32, shape: [M, 32]}\n"
        "  Y: {scope: global, dtype: float32, shape: [M, 32]}\n"
        f"ops:\n  - let: {{tiles: ceil(M / 8)}}\n  - for: {{t: {loop}}}\n    do:\n"
        '      - copy: {src: "X[t*8 : +8]", dst: "Y[t*8 : +8]", edge: clip}\n'
    )


@pytest.mark.sweep(2)
@pytest.mark.parametrize("grid", ["resident", "min(resident, 40)", "min(resident, ceil(M / 8))", "7", "ceil(M / 64)"])
def test_tiles_are_shared_by_any_number_of_ctas(grid: str) -> None:
    assert build_codes(tiles(grid=grid)) == set()


@pytest.mark.parametrize("layout", ["Swizzle(1,3,4)", "Swizzle(2,1,4)"])
def test_a_stage_may_be_counted_by_the_launch(layout: str) -> None:
    """Whose elements are looked at for neighbours that the compiler joins."""
    loop = """  - for: {t: [bx, tiles, bx_count]}
    do:
      - copy: {src: "X[t*8 : +8]", dst: "s[t // bx_count % 2]", edge: clip}
      - sync: cta
      - copy: {src: "s[t // bx_count % 2]", dst: "Y[t*8 : +8]", edge: clip}
      - sync: cta
"""
    text = tiles()
    text = text[: text.index("  - for:")].replace(
        "ops:", f"  s: {{scope: shared, dtype: float32, shape: [2, 8, 32], layout: '{layout}'}}\nops:"
    )
    assert build_codes(text + loop) == set()


def test_clusters_share_tiles() -> None:
    text = tiles("[bx // 2, tiles, bx_count // 2]", more="cluster: {cbx: 2}\n")
    assert build_codes(text.replace("t*8 : +8]", "t*8 + cbx*4 : +4]")) == set()


@pytest.mark.parametrize("loop, expected", [
    ("[bx, tiles, bx_count + 1]", "TG418"),  # a tile is left out
    ("[bx, tiles, 128]", "TG417 TG418"),  # right for the count that is planned for alone
    ("[bx + 1, tiles, bx_count]", "TG418"),  # the first tile is left out
    ("[0, tiles, bx_count]", "TG417 TG418"),  # all CTAs begin at the first
    ("[bx, tiles, 1]", "TG417"),  # every CTA takes all tiles after its first
])  # fmt: skip
def test_another_stride_is_found(loop: str, expected: str) -> None:
    found = build_codes(tiles(f'["{loop[1:-1]}"]'.replace(", ", '", "')))
    assert found and found <= set(expected.split()), found


def test_the_count_is_the_launch_s() -> None:
    plan = plan_spec(load(tiles(grid="min(resident, 40)")))
    text, header = render(plan), render_launcher(plan)
    assert "const int bx_count = gridDim.x;" in text and "int bx_count," not in text.split('extern "C"')[1]
    assert "cudaOccupancyMaxActiveBlocksPerMultiprocessor" in header and "min(resident, 40)" in header
    info = launch_info(plan)
    assert info["grid"] == [40, 1, 1] and [a["name"] for a in info["args"]] == ["X", "Y", "M"]
    paired = plan_spec(load(tiles(more="cluster: {cbx: 2}\n")))
    assert "cudaOccupancyMaxActiveClusters" in render_launcher(paired)


def test_what_is_printed_loads_as_the_same_spec() -> None:
    spec = load(tiles(grid="min(resident, 40)"))
    assert load(print_spec(spec)) == spec


@pytest.mark.parametrize("change, message", [
    (("grid: {bx: \"resident\"}", "grid: {bx: resident, by: resident}"), "along two axes"),
    (("t*8 : +8", "t*8 + resident : +8"), "unknown name 'resident'"),
    (("grid: {bx: \"resident\"}", "cluster: {cbx: 2}\ngrid: {bx: \"min(resident, 3)\"}"), "may be no multiple"),
    (("kernel: by_turns", "kernel: resident"), "is no name"),
])  # fmt: skip
def test_where_the_word_has_no_meaning(change: tuple[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load(tiles().replace(*change))


STAGED = (
    "kernel: staged\nthreads: 64\nparams: {M: {default: 3000, max: 65536}}\ngrid: {bx: resident}\nbuffers:\n"
    "  X: {scope: global, dtype: float32, shape: [M, 64]}\n  Y: {scope: global, dtype: float32, shape: [64, M]}\n"
    "  tile: {scope: shared, dtype: float32, shape: [64, 64], layout: auto}\n  turned: {view: tile, axes: [1, 0]}\n"
    "ops:\n  - let: {tiles: ceil(M / 64)}\n  - for: {t: [bx, tiles, bx_count]}\n    do:\n"
    '      - copy: {src: "X[t*64 : +64]", dst: tile, edge: clip}\n      - sync: cta\n'
    '      - copy: {src: turned, dst: "Y[:, t*64 : +64]", edge: clip}\n      - sync: cta\n'
)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("rows, cta", [(200, 2), (640, 8), (3000, 32)])
def test_layouts_are_chosen_for_a_cta_with_tiles(rows: int, cta: int) -> None:
    """128 CTAs are planned for: of few tiles, the middle one has none."""
    few = plan_spec(load(STAGED.replace("3000", str(rows))))
    many = plan_spec(load(STAGED.replace("3000", "64000")))
    assert [c.picked for c in few.choices] == [c.picked for c in many.choices] and few.choices
    assert launch_of(load(STAGED.replace("3000", str(rows)))).interior == (cta, 0, 0)


def test_loops_without_a_trip_are_searched() -> None:
    """The middle of the 128 CTAs would begin behind the array's end: the last one that does not stands for all."""
    spec = load(STAGED.replace("[bx, tiles, bx_count]", "[bx, M // 4096, bx_count]"))
    assert launch_of(spec).interior == (45, 0, 0) and plan_spec(spec).choices


def test_no_proof_runs_fewer_ctas_than_are_launched() -> None:
    spec = load(tiles(grid="max(resident, 40)"))
    counts = [case["bx_count"] for case in parameter_cases(spec)]
    assert counts[0] == 128 and min(counts) == 40 and {41, 42, 50} & {*counts}
    assert build_codes(tiles(grid="max(resident, 40)")) == set()
    assert 1 in [case["bx_count"] for case in parameter_cases(load(tiles()))]
