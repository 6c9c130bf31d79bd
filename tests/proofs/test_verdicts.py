"""The table of verdicts: what an earlier proof found this one finds, and what all CTAs, trips and sizes show."""

from __future__ import annotations

from tests.proofs.verdicts import NOTED, RIGHT, read_table

# Tests whose faults are known to pass, each marked where it stands.
OPEN = (
    "test_a_row_that_one_cta_takes_elsewhere_beside_another_op",
    "test_a_load_of_a_written_array_that_all_ctas_but_one_can_leave_out",
    "test_a_load_through_a_view_that_all_ctas_but_one_can_leave_out",
    "test_a_load_that_all_ctas_but_three_can_leave_out_in_a_second_pass",
    "test_a_row_that_a_plan_takes_elsewhere_at_a_few_sizes",
    "test_a_load_that_can_be_left_out_at_all_sizes_but_a_few",
)
OPEN_DRAWN = "test_a_proof_says_what_all_ctas_say[range(1000, 1020)]", "2"  # seed 1009
ROWS = [row for row in read_table() if row["fault"].partition("::")[2].partition("[")[0] not in OPEN
        and (row["fault"].partition("::")[2], row["number"]) != OPEN_DRAWN]  # fmt: skip


def is_found(verdict: str) -> bool:
    return verdict.startswith("TG")


def test_what_all_ctas_show_is_found() -> None:
    assert not [row for row in ROWS if is_found(row["all"]) and row["now"] == RIGHT]
    assert sum(is_found(row["all"]) for row in ROWS) > 150


def test_what_an_earlier_proof_found_is_found() -> None:
    """Or a note names what is not proven."""
    assert not [row for row in ROWS if is_found(row["step 0, runs"]) and row["now, runs"] == RIGHT]
    more = [row for row in ROWS if row["step 0"] in (RIGHT, NOTED) and is_found(row["now"])]
    assert len(more) > 30
