"""The table of verdicts: what an earlier proof found this one finds, and what all CTAs, trips and sizes show."""

from __future__ import annotations

from tests.proofs.verdicts import NOTED, RIGHT, read_table

ROWS = read_table()


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
