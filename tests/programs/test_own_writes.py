"""A CTA reads of a workspace, or of an array, what it wrote itself behind a sync; nothing else that its pass writes."""

from __future__ import annotations

from itertools import product

import pytest

from tilegen.errors import ProofError, SpecError
from tilegen.pipeline import build
from tilegen.pipeline.programs import BuiltProgram
from tilegen.verifying.programs import run_together

CTAS = 40
TURNED = """kernel: own
params: {N: 40}
buffers:
  X: {scope: global, dtype: float32, shape: [N, 8, 8]}
  T: {scope: SPACE, dtype: float32, shape: [N, 8, 8]}
  Y: {scope: global, dtype: float32, shape: [N, 8, 8]}
  turned: {view: T, axes: [0, 2, 1]}
passes:
  - name: turn
    grid: {bx: N}
    threads: 64
    ops:
      - copy: {src: "X[bx]", dst: "T[bx]"}
      - sync: cta
      - elementwise: {dst: "Y[bx]", expr: t * 2, with: {t: "turned[bx]"}}
"""


def refused(text: str) -> tuple[str, str]:
    """Code and message of the first error of a spec, ("", "") where it is built."""
    try:
        build(text)
    except (ProofError, SpecError) as error:
        first = error.diagnostics[0]
        assert first.mark is not None
        return first.code, first.message
    return "", ""


@pytest.mark.parametrize("space", ["global", "workspace"])
def test_a_cta_reads_what_it_wrote_behind_a_sync(space: str) -> None:
    text = TURNED.replace("SPACE", space)
    built = build(text)
    assert isinstance(built, BuiltProgram) and built.warnings == ()
    assert run_together(built, 1)
    code, message = refused(text.replace("      - sync: cta\n", ""))
    assert code == "TG403" and "nothing orders the two" in message


@pytest.mark.parametrize("space", ["global", "workspace"])
@pytest.mark.parametrize("other", ["N - 1 - bx", "(bx + 1) % N", "min(bx, 5)"])
def test_what_another_cta_wrote_is_refused(space: str, other: str) -> None:
    code, message = refused(TURNED.replace("SPACE", space).replace("turned[bx]", f"turned[{other}]"))
    assert code == "TG405" and "no sync orders CTAs" in message


@pytest.mark.parametrize("space", ["global", "workspace"])
def test_tma_never_reads_what_the_pass_wrote(space: str) -> None:
    by_tma = (
        '      - copy: {src: "T[bx]", dst: s, variant: tma, barrier: full}\n      - wait: {barrier: full}\n'
        '      - copy: {src: s, dst: "Y[bx]"}\n'
    )
    text = TURNED.replace("SPACE", space).replace("  turned: {view: T, axes: [0, 2, 1]}\n", "")
    text = text.replace('      - elementwise: {dst: "Y[bx]", expr: t * 2, with: {t: "turned[bx]"}}\n', by_tma)
    text = text.replace(
        "    ops:\n",
        "    barriers: {full: {slots: 1}}\n    buffers:\n"
        "      s: {scope: shared, dtype: float32, shape: [8, 8]}\n    ops:\n",
    )
    for synced in (text, text.replace("      - sync: cta\n", "      - sync: async\n      - sync: cta\n")):
        code, message = refused(synced)
        assert code == "TG302" and "no sync orders TMA's loads after that" in message


@pytest.mark.parametrize("when", ["bx != 7", "bx < N - 1", "bx * bx < 900", "bx % 8 != 3", "bx > 0"])
def test_what_the_cta_did_not_write_is_refused(when: str) -> None:
    """Of a workspace: what an array holds before is its caller's."""
    text = TURNED.replace("SPACE", "workspace").replace('dst: "T[bx]"', f'dst: "T[bx]", when: {when}')
    code, message = refused(text)
    assert code == "TG404" and "which nothing wrote" in message
    assert not refused(text.replace('{t: "turned[bx]"}', f'{{t: "turned[bx]"}}, when: {when}').replace(
        "  Y: {scope: global,", "  Y: {scope: global, partial: true,"
    ))[0]  # fmt: skip


def test_a_read_that_comes_before_the_write_is_refused() -> None:
    lines = TURNED.replace("SPACE", "workspace").splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if "- copy:" in line)
    assert refused("".join([*lines[:at], lines[at + 2], lines[at + 1], lines[at]]))[0] == "TG404"


def test_what_only_a_pass_before_wrote_in_part_is_refused_as_before() -> None:
    text = TURNED.replace("SPACE", "workspace").replace(
        "passes:\n",
        "passes:\n  - name: some\n    grid: {bx: N - 1}\n    threads: 64\n    ops:\n"
        '      - fill: {dst: "T[bx]", value: 1}\n',
    )
    code, message = refused(text)
    assert code == "TG429" and "pass 'some' leaves T[39, 0, 0] unwritten" in message


# ---------------------------------------------------------------- drawn
LOOPS = """kernel: drawn
params: {N: 40}
buffers:
  X: {scope: global, dtype: float32, shape: [N, 512, 32]}
  T: {scope: workspace, dtype: float32, shape: [N, 512, 32]}
  Y: {scope: global, partial: true, dtype: float32, shape: [N, 512, 32]}
passes:
  - name: steps
    grid: {bx: N}
    threads: 32
    ops:
      - for: {k: "WRITES"}
        do:
          - copy: {src: "X[bx, k]", dst: "T[bx, k]"}
          - elementwise: {dst: "Y[bx, k]", expr: t * 2, with: {t: "T[bx, READS]"}}
"""
COUNTS = ("24", "3 + bx % 5", "min(bx + 1, 9)", "300")
PLACES = (
    "k", "k // 2", "max(k - 3, 0)", "k + k // 250", "k - k // 200", "k + bx // 37", "max(k - 1, bx // 38)", "bx % 4"
)  # fmt: skip
DRAWN = [*product(COUNTS, PLACES)]


def is_right(count: str, place: str) -> bool:
    """Does each CTA have written what it reads, in every trip? Python's own arithmetic over all of them."""
    for bx in range(CTAS):
        for k in range(eval(count, {"bx": bx, "min": min})):
            if not 0 <= eval(place, {"bx": bx, "k": k, "max": max}) <= k:
                return False
    return True


@pytest.mark.sweep(8)
@pytest.mark.parametrize(("count", "place"), DRAWN, ids=lambda x: x.replace(" ", ""))
def test_the_verdict_is_that_of_all_ctas_and_trips(count: str, place: str) -> None:
    code, message = refused(LOOPS.replace("WRITES", count).replace("READS", place))
    assert (code == "") == is_right(count, place), (code, message)
    assert code in ("", "TG404")


SIZED = LOOPS.replace("params: {N: 40}", "params: {N: {default: 40, max: 100}, K: {default: 24, max: 500}}")


@pytest.mark.parametrize(("place", "code"), [
    ("k", ""), ("max(k - 2, 0)", ""), ("k + K // 300", "TG404"), ("min(k + K // 300, K - 1)", "TG404"),
    ("k + N // 90", "TG404"), ("k - min(k, N // 90)", ""),
])  # fmt: skip
def test_the_verdict_is_that_of_all_sizes(place: str, code: str) -> None:
    """Some are wrong from 300 trips or 90 CTAs on, which the defaults do not have."""
    found, message = refused(SIZED.replace("WRITES", "K").replace("READS", place))
    assert found == code, message
