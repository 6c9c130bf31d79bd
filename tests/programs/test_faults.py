"""Wrong programs: what one pass leaves and another takes is checked, and each fault is named with its place."""

from __future__ import annotations

from functools import partial

import pytest

from tests.faults.texts import change_text
from tests.faults.verdicts import refusal_of
from tests.programs.kernels import PROGRAMS
from tilegen.errors import TilegenError
from tilegen.pipeline import build

SUM = next(path for path in PROGRAMS if path.stem == "sum_all").read_text(encoding="utf-8")
SUM = change_text(SUM, ("default: 100000", "default: 9000"))
LEAVE = '- copy: {src: s, dst: "parts[bx : +1]"}'
SPLIT = next(path for path in PROGRAMS if path.stem == "gemm_split_k").read_text(encoding="utf-8")
SPLIT = change_text(SPLIT, ("N: 512, K: 4096", "N: 128, K: 512"), ("N // 512", "1"))
SPLIT = change_text(SPLIT, ("bx*512 : +512", "bx*128 : +128"), ("512]", "128]"))
change = partial(change_text, most=1)


def find(text: str) -> list[tuple[str, str]]:
    """The codes and messages that a build ends with."""
    return [(d.code, d.message) for d in refusal_of(TilegenError, build, text).diagnostics]


def swap_passes(text: str) -> str:
    head, first, second = text.replace("  - name:", "@  - name:").split("@")
    return head + second + first


def test_the_programs_that_are_spoilt_here_are_right():
    build(SUM)
    build(SPLIT)


FAULTS = {
    "a pass that is skipped and read": (
        change(SUM, ("  - name: tiles\n", "  - name: tiles\n    when: N > 5000\n")),
        "TG429", "pass 'total' reads the workspace 'parts', but pass 'tiles' is launched only where 5000 < N",
    ),
    "a pass that reads under a condition of its own": (
        change(
            SUM, ("  - name: tiles\n", "  - name: tiles\n    when: N > 5000\n"),
            ("  - name: total\n", "  - name: total\n    when: N > 4000\n"),
        ),
        "TG429", "pass 'tiles' is launched only where",
    ),
    "an element that no CTA writes": (
        change(SUM, (LEAVE, LEAVE.replace("}", ", when: bx > 0}"))),
        "TG429", "pass 'tiles' leaves parts[0] unwritten",
    ),
    "a last element that no CTA writes": (
        change(
            SUM, ("[tiles.bx_count]}", "[tiles.bx_count + 1]}"),
            ("ceil(tiles.bx_count / 1024)", "ceil((tiles.bx_count + 1) / 1024)"),
        ),
        "TG429", "unwritten",
    ),
    "a workspace that nobody writes": (
        change(SUM, ('dst: "parts[bx : +1]"', 'dst: "Y[0 : +1]", when: bx == 0')),
        "TG429", "no pass before it writes it",
    ),
    "no wait for the pass before": (
        change(SUM, ("      - wait: previous\n", "")), "TG122", "nothing waits for the kernels before",
    ),
    "a read before the wait": (
        change(
            SUM, ("      - wait: previous\n", ""),
            ("      - copy: {src: s, dst: Y}\n", "      - wait: previous\n      - copy: {src: s, dst: Y}\n"),
        ),
        "TG440", "parts",
    ),
    "a part that two CTAs write": (
        change(SPLIT, ('dst: "sums[bz, by*128', 'dst: "sums[bz // 2, by*128')), "TG417", "sums",
    ),
    "parts that leave one of the sums out": (
        change(SPLIT, ("grid: {bx: N // 128, by: M // 128, bz: P}", "grid: {bx: N // 128, by: M // 128, bz: P - 1}")),
        "TG429", "pass 'parts' leaves sums[3, 0, 0] unwritten",
    ),
    "sums of a part past the last": (
        change(SPLIT, ("- for: {p: [1, P]}", "- for: {p: [1, P + 1]}")), "TG207", "sums",
    ),
}  # fmt: skip


@pytest.mark.sweep(4)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_named(fault):
    text, code, said = FAULTS[fault]
    found = find(text)
    assert code in {c for c, _ in found}, found
    assert any(said in message for c, message in found if c == code), found


@pytest.mark.slow
def test_a_pass_that_comes_before_what_it_reads():
    text = change(SUM, ("shape: [tiles.bx_count]}", "shape: [64]}"), ("ceil(tiles.bx_count / 1024)", "1"))
    text = change(text, ('grid: {bx: "min(resident, ceil(N / 4096))"}', "grid: {bx: 64}"), ("bx_count]", "64]"))
    build(text)
    found = find(swap_passes(text))
    assert [code for code, _ in found] == ["TG429"]
    assert found[0][1] == "pass 'total' reads the workspace 'parts', but no pass before it writes it"


@pytest.mark.slow
def test_a_pass_that_reads_only_what_it_wrote_itself():
    text = change(
        SUM, ('          - copy: {src: "parts[i*1024 : +1024]"', '          - copy: {src: "X[i*1024 : +1024]"')
    )
    again = f'{LEAVE}\n      - sync: cta\n      - copy: {{src: "parts[bx : +1]", dst: s}}'
    build(change(text, (LEAVE, again)))
    found = find(change(text, (LEAVE, again.replace('src: "parts[bx :', 'src: "parts[bx_count - 1 - bx :'))))
    assert "TG405" in {code for code, _ in found}, found


BASE = """
kernel: base
params: {M: {default: 64, multiple_of: 32, max: 65536}}
buffers:
  X: {scope: global, dtype: float32, shape: [M]}
  Y: {scope: global, dtype: float32, shape: [M]}
  w: {scope: workspace, dtype: float32, shape: [M]}
passes:
  - name: a
    grid: {bx: M // 32}
    threads: 32
    ops:
      - copy: {scope: cta, src: "X[bx*32 : +32]", dst: "w[bx*32 : +32]"}
  - name: b
    grid: {bx: M // 32}
    threads: 32
    ops:
      - copy: {scope: cta, src: "w[bx*32 : +32]", dst: "Y[bx*32 : +32]"}
"""


def test_a_workspace_is_written_only_where_that_is_shown_at_every_size():
    """At M = 8320 nothing is written, which no size that is tried shows."""
    at_one = change(
        BASE, ('dst: "w[bx*32 : +32]"}', 'dst: "w[bx*32 : +32]", when: "(M // 32) * (M // 32) % 2003 != 1501"}')
    )
    found = find(at_one)
    assert [code for code, _ in found] == ["TG429"] and "may leave elements unwritten" in found[0][1]


def test_an_output_that_may_stay_unwritten_is_given_where_a_later_pass_reads_it():
    text = change(
        BASE,
        ("scope: workspace, dtype: float32, shape: [M]", "scope: global, dtype: float32, shape: [M], partial: true"),
    )
    access = {m.name: m.access for m in build(text).plan.arrays}
    assert access == {"X": "in", "w": "inout", "Y": "out"}


def test_a_pass_that_is_never_launched():
    found = find(change(BASE, ("  - name: a\n", "  - name: a\n    when: false\n")))
    assert found[0][1] == "pass 'b' reads the workspace 'w', but pass 'a' is never launched"


REFUSED = {
    "Y: {scope: global, dtype: float32, shape: [a.bx_count]}": "which the caller brings: only a launch knows it",
    "    grid: {bx: a.bx_count}": "the grid of 'a' is what 'a.bx_count' counts",
    "    when: a.bx_count > 3": "'when' of a pass is over params",
    "    buffers: hello": "'buffers' must be a mapping of names",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_no_pass_can_say(line):
    old = "  Y: {scope: global, dtype: float32, shape: [M]}\n" if line.startswith("Y") else "    grid: {bx: M // 32}\n"
    found = find(change(BASE, (old, f"  {line}\n" if line.startswith("Y") else f"{line}\n")))
    assert any(REFUSED[line] in message for _, message in found), found


def test_a_param_that_is_named_like_the_ctas_that_fit():
    build(BASE.replace("M: {", "resident_rows: {").replace("M //", "resident_rows //").replace("[M]", "[resident_rows]")
          .replace("shape: [resident_rows]}\npasses", "shape: [32 * a.bx_count]}\npasses"))  # fmt: skip
