"""Mistakes that a person makes in a kernel of pairs: each is refused, by the proof or before it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilegen
from tests.faults.verdicts import refusal_of
from tilegen.errors import TilegenError
from tilegen.pipeline import Built

SPEC = (Path(__file__).parents[2] / "specs" / "hgemm_blackwell_pair.yaml").read_text(encoding="utf-8")
FREE, DONE, READ = "free[s % 6]", "done[trip % 2]", "read[trip % 2]"
SAYS, FREED = f'arrive: {{barrier: "{READ}"', f'wait: {{barrier: "{FREE}"}}'
FAULTS = {  # what is written instead of what, and the code that says so
    "a stage is freed in the even CTA alone": (f'"{FREE}", to: cbx', f'"{FREE}"', "TG413"),
    "the odd CTA never hears of its sums": (f'"{DONE}", to: cbx', f'"{DONE}"', "TG413"),
    "only the even CTA says that it has read": (SAYS, f"{SAYS}, when: cbx == 0", "TG403"),
    "only the odd CTA says that it has read": (SAYS, f"{SAYS}, when: cbx == 1", "TG403"),
    "sums are written before they are read": (f'- wait: {{barrier: "{READ}"}}', "- let: {unused: 0}", "TG403"),
    "a stage is filled before it is free": (FREED, "let: {unused: 0}", "TG434"),
    "the odd CTA fills early": (FREED, f"{{{FREED}, when: cbx == 0}}", "TG422"),
    "each CTA has its own full": ("full: {slots: 6, pair: true}", "full: {slots: 6}", "TG422"),
    "each CTA has its own read": ("open: true, pair: true", "open: true", "TG403"),
    "one accumulator": ('c: "acc[trip % 2]"', 'c: "acc[0]"', "TG422"),
    "two even CTAs of three": ("cluster: {cbx: 2}", "cluster: {cbx: 3}", "TG106"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_mistake_with_pairs_is_refused(what: str) -> None:
    right, wrong, code = FAULTS[what]
    assert right in SPEC
    found = refusal_of(TilegenError, tilegen.build, SPEC.replace(right, wrong))
    assert code in {d.code for d in found.diagnostics}, found


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "right").glob("*.yaml")), ids=lambda p: p.stem)
def test_what_is_right_with_clusters_is_proved(path: Path) -> None:
    """Products of one CTA that share b and tell both what they are done with; the even CTA and arrivals by bx."""
    assert isinstance(tilegen.build(path), Built)
