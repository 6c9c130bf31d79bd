"""A grid of as many CTAs as fit at once: tiles are shared whatever their number, and every other stride is found."""

from __future__ import annotations

import pytest

from tilegen.errors import SpecError, TilegenError
from tilegen.pipeline import build, load
from tilegen.planner import plan_spec
from tilegen.render import launch_info, render, render_launcher
from tilegen.spec.printing import print_spec

LOOP = "[bx, tiles, bx_count]"


def tiles(loop: str = LOOP, grid: str = "resident", more: str = "") -> str:
    return (
        f"kernel: by_turns\nthreads: 64\nparams: {{M: {{default: 3000, max: 65536}}}}\ngrid: {{bx: \"{grid}\"}}\n{more}"
        "buffers:\n  X: {scope: global, dtype: float32, shape: [M, 32]}\n"
        "  Y: {scope: global, dtype: float32, shape: [M, 32]}\n"
        f"ops:\n  - let: {{tiles: ceil(M / 8)}}\n  - for: {{t: {loop}}}\n    do:\n"
        '      - copy: {src: "X[t*8 : +8]", dst: "Y[t*8 : +8]", edge: clip}\n'
    )


def codes(text: str) -> set[str]:
    try:
        build(text)
    except TilegenError as error:
        return {d.code for d in error.diagnostics}
    return set()


@pytest.mark.parametrize("grid", ["resident", "min(resident, 40)", "min(resident, ceil(M / 8))", "7", "ceil(M / 64)"])
def test_tiles_are_shared_by_any_number_of_ctas(grid: str) -> None:
    assert codes(tiles(grid=grid)) == set()


def test_clusters_share_tiles() -> None:
    text = tiles("[bx // 2, tiles, bx_count // 2]", more="cluster: {cbx: 2}\n")
    assert codes(text.replace("t*8 : +8]", "t*8 + cbx*4 : +4]")) == set()


@pytest.mark.parametrize("loop, expected", [
    ("[bx, tiles, bx_count + 1]", "TG418"),  # a tile is left out
    ("[bx, tiles, 128]", "TG417 TG418"),  # right for the count that is planned for alone
    ("[bx + 1, tiles, bx_count]", "TG418"),  # the first tile is left out
    ("[0, tiles, bx_count]", "TG417 TG418"),  # all CTAs begin at the first
    ("[bx, tiles, 1]", "TG417"),  # every CTA takes all tiles after its first
])  # fmt: skip
def test_another_stride_is_found(loop: str, expected: str) -> None:
    found = codes(tiles(f'["{loop[1:-1]}"]'.replace(", ", '", "')))
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
