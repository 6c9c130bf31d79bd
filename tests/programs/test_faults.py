"""Wrong programs: what one pass leaves and another takes is checked, and each fault is named with its place."""

from __future__ import annotations

import pytest

from programs.faults import (
    ATTENTION,
    BUILT,
    COMPARED,
    GROUPED,
    LEAVE,
    MEANT,
    PLANTED,
    SAME,
    SUM,
    TWO_WAYS,
    change,
)
from tests.faults.verdicts import proof_code, refusal_of
from tests.session import once
from tilegen.errors import TilegenError
from tilegen.pipeline import BuiltProgram, build
from tilegen.proofs import prove
from tilegen.verifying.programs import run_together

LONG = (ATTENTION, GROUPED)  # half a minute to prove
OF_TEXTS = {**BUILT, **COMPARED}
CASES = [
    pytest.param(name, marks=[pytest.mark.slow] if fault.right in LONG else []) for name, fault in OF_TEXTS.items()
]


@once
def build_text(text: str) -> BuiltProgram:
    """The proved program of a text that is right."""
    built = build(text)
    assert isinstance(built, BuiltProgram)
    return built


def find(text: str) -> list[tuple[str, str]]:
    """The codes and messages that a build ends with."""
    return [(d.code, d.message) for d in refusal_of(TilegenError, build, text).diagnostics]


def compare(text: str) -> list[tuple[str, str]]:
    """The codes and messages that a build, or else a comparison of all passes with a function, ends with."""
    try:
        built = build(text)
        run_together(built, 1, against=MEANT[built.spec.kernel])  # type: ignore[arg-type, union-attr]
    except TilegenError as error:
        return [(d.code, d.message) for d in error.diagnostics]
    return []


def swap_passes(text: str) -> str:
    head, first, second = text.replace("  - name:", "@  - name:").split("@")
    return head + second + first


@once
def compare_repaired(text: str) -> list[tuple[str, str]]:
    """What is found of a text that faults are planted in, which many share."""
    return compare(text)


# ---------------------------------------------------------------- faults of the text, of the plan
@pytest.mark.sweep(8)
@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_and_named_and_its_repair_is_right(name):
    fault = OF_TEXTS[name]
    found = compare(fault.wrong) if name not in BUILT else find(fault.wrong)
    assert any(code == fault.code and fault.said in message for code, message in found), found
    assert compare_repaired(fault.right) == []


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if SAME[name].right in LONG else []) for name in SAME]
)
def test_another_order_of_the_parts_is_the_same_sum(name):
    assert compare(SAME[name].wrong) == compare_repaired(SAME[name].right) == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_of_one_passs_plan_is_found(name):
    fault = PLANTED[name]
    passes = build_text(fault.text).passes
    (one,) = (kernel for kernel in passes if kernel.plan.name.endswith(f"_{fault.of}"))
    assert proof_code(lambda: prove(one.spec, fault.change(one.plan))) == fault.code
    assert proof_code(lambda: prove(one.spec, one.plan)) == ""


# ---------------------------------------------------------------- outputs
AGAIN = """  - name: again
    grid: {bx: N // 32}
    threads: 32
    ops: [{elementwise: {scope: cta, dst: "Y[bx*32 : +32]", expr: "-y", with: {y: "Y[bx*32 : +32]"}}}]
"""
COVERED = {
    "N > 96": True, "N >= 32": True, "N * N > 9216": True, "not (N <= 96)": True, "N % 64 == 32 or N > 120": True,
    "N > 128": "with N = 128 pass", "N != 160": "with N = 160 pass", "N % 64 == 32": "with N = 128 pass",
    "false": "pass 'many' is never launched",
}  # fmt: skip


@pytest.mark.parametrize("when", COVERED)
def test_an_output_is_written_at_every_size(when):
    """By a launch, and before a pass reads it."""
    text, wanted = change(TWO_WAYS, ("when: N > 96", f"when: {when}")), COVERED[when]
    for more, said in (("", "a launch may leave 'Y' unwritten: "), (AGAIN, "pass 'again' reads 'Y', but ")):
        if wanted is True:
            assert {m.name: m.access for m in build(text + more).plan.arrays} == {"X": "in", "Y": "out"}
        else:
            ((code, message),) = find(text + more)
            assert code == "TG418" and message.startswith(said) and wanted in message
            build(change(text, ("Y: {", "Y: {partial: true, ")) + more)


def test_an_output_is_written_where_no_rule_tells_when():
    """Opposite conditions are seen to be so, others of that kind are not."""
    text = change(TWO_WAYS, ("when: N <= 96", "when: N * N % 7 < 3"), ("when: N > 96", "when: N * N % 7 >= 3"))
    build(text)
    ((code, message),) = find(change(text, (">= 3", "> 1")))
    assert code == "TG418" and "nothing shows" in message


def test_an_array_that_is_read_first_is_the_callers():
    text = change(TWO_WAYS, ("passes:\n", f"passes:\n{AGAIN}"), ("when: N > 96", "when: N > 128"))
    assert {m.name: m.access for m in build(text).plan.arrays} == {"X": "in", "Y": "inout"}


def test_a_reader_comes_behind_a_pass_that_has_written():
    """Between the two ways only where the first was taken."""
    between = change(TWO_WAYS, ("  - name: many\n", f"{AGAIN}  - name: many\n"))
    ((code, message),) = find(between)
    assert code == "TG418" and message.startswith("pass 'again' reads 'Y', but with N = 128 pass 'few' is launched")
    build(change(between, ("name: again\n", "name: again\n    when: N <= 64\n")))


# ---------------------------------------------------------------- workspaces
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
