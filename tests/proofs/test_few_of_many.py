"""Plans that are right in all but one of many CTAs, trips or sizes. Those that a proof lets pass are marked."""

from __future__ import annotations

import pytest

import tilegen
from tests.faults.verdicts import proof_code
from tests.proofs.test_drawn_faults import all_ctas
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.meaning import check_meaning

HEAD = """kernel: few_of_many
threads: %(threads)d
%(params)sgrid: {bx: %(ctas)d}
buffers:
  X: {scope: global, dtype: float32, shape: [400, %(width)d]}
  Y: {scope: global, dtype: float32, shape: [%(rows)d, %(width)d], partial: true}
%(more)sops:
"""
A = "  A: {scope: shared, dtype: float32, shape: [%d, %d]}\n"
Z = "  Z: {scope: global, dtype: float32, shape: [410, %d], partial: true}\n"
WIDTHS = [(32, 128), (64, 64)]  # threads and elements of a row: all threads copy, or some
FEW = ["bx == 137", "bx*bx % 211 == 16"]
N = "params: {N: {default: 12, max: 40}}\n"


def head(threads: int, width: int, ctas: int = 300, more: str = "", params: str = "", rows: int = 1200) -> str:
    more = A % (2, width) + more
    return HEAD % dict(threads=threads, width=width, ctas=ctas, more=more, params=params, rows=rows)


def move(row: str, to: str, when: str = "", place: str = "A[0]", source: str = "X") -> str:
    """A row through shared memory."""
    when = when and f", when: {when}"
    return (
        f'  - copy: {{src: "{source}[{row}]", dst: "{place}"{when}}}\n  - sync: cta\n'
        f'  - copy: {{src: "A[0]", dst: "Y[{to}]"}}\n  - sync: cta\n'
    )


def assert_found(meant: str, planned: str, **case: int) -> None:
    """All CTAs show that it is wrong, and the proof finds it; the spec's own plan is proved."""
    spec, plan = tilegen.load(meant), plan_spec(tilegen.load(planned))
    assert proof_code(lambda: prove(spec, plan_spec(spec))) == ""
    assert proof_code(lambda: check_meaning(spec, plan, all_ctas(spec, case), case)) == "TG420"
    notes: list[str] = []
    code = proof_code(lambda: notes.extend(n for n in prove(spec, plan).notes if "not proven" in n))
    assert code or notes


@pytest.mark.sweep(1)
@pytest.mark.parametrize("few", FEW)
@pytest.mark.parametrize(("threads", "width"), WIDTHS)
@pytest.mark.parametrize("is_load", [True, False])
def test_a_row_that_one_cta_takes_elsewhere_beside_another_op(
    is_load: bool, threads: int, width: int, few: str
) -> None:
    row, to = ("5 + where(%s, 1, 0)", "bx*4 + 1") if is_load else ("5", "bx*4 + 1 + where(%s, 1, 0)")
    text = head(threads, width) + move("0", "bx*4") + move(row, to)
    assert_found(text % few, text % "bx < 0")


@pytest.mark.sweep(1)
@pytest.mark.parametrize("few", FEW)
@pytest.mark.parametrize(("threads", "width"), WIDTHS)
def test_a_load_of_a_written_array_that_all_ctas_but_one_can_leave_out(threads: int, width: int, few: str) -> None:
    own = '  - copy: {src: "X[bx]", dst: "Z[bx]"}\n'
    text = head(threads, width, more=Z % width) + own + move("400", "bx*4", source="Z")
    meant, planned = (text + move(f"400 + where({few}, 1, 0)", "bx*4 + 1", when, source="Z") for when in ("", "bx < 0"))
    assert_found(meant, planned)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("few", ["bx == 17", "bx*bx % 37 == 36"])
def test_a_load_through_a_view_that_all_ctas_but_one_can_leave_out(few: str) -> None:
    view = "  V: {view: X, shape: [800, 64]}\n"
    text = head(32, 128, 40, view) + move("0", "bx*4")
    meant, planned = (text + move(f"where({few}, 1, 0)", "bx*4 + 1", when, "A[0, :64]", "V") for when in ("", "bx < 0"))
    assert_found(meant, planned)


@pytest.mark.slow
def test_a_load_that_all_ctas_but_three_can_leave_out_in_a_second_pass() -> None:
    row = "t % 60 + where(bx*bx % 211 == 16 and t >= 60, 1, 0)"
    loop = '  - for: {t: 120}\n    do:\n      - copy: {src: "X[%s]", dst: "A[t %% 60]"%s}\n      - sync: cta\n'
    loop += '      - copy: {src: "A[t %% 60]", dst: "Y[bx*120 + t]"}\n      - sync: cta\n'
    text = head(32, 128, rows=36000).replace("[2, 128]", "[60, 128]") + loop
    assert_found(text % (row, ""), text % (row, ", when: t < 60"))


@pytest.mark.parametrize(("row", "planned", "n"), [
    ("3", "3 + (N + 10)*bx % 5 // 4", 4), ("3 + (N + bx + 29) % 17 // 16", "3", 4),
])  # fmt: skip
def test_a_row_that_a_plan_takes_elsewhere_at_a_few_sizes(row: str, planned: str, n: int) -> None:
    text = head(32, 128, 2, params=N)
    assert_found(text + move(row, "bx*4"), text + move(planned, "bx*4"), N=n)


def test_a_load_that_can_be_left_out_at_all_sizes_but_a_few() -> None:
    meant, planned = (
        head(32, 128, 2, params=N) + move("3", "bx*4") + move("3 + (N + bx + 29) % 17 // 16", "bx*4 + 1", when)
        for when in ("", "bx < 0")
    )
    assert_found(meant, planned, N=4)
