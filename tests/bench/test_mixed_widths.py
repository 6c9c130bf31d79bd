"""Ops whose arrays have several widths: their sectors beside the floor, and what they compute."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tilegen
from tilegen.report import resolved_text

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from mixed_widths import SEEDS, count_sectors, draw_mixed


@pytest.mark.sweep(6)
@pytest.mark.parametrize("seed", SEEDS)
def test_sectors_are_at_most_a_tenth_over_their_floor(seed: int) -> None:
    sectors, floor = count_sectors(draw_mixed(seed))
    assert sectors <= 1.1 * floor


@pytest.mark.sweep(2)
@pytest.mark.parametrize("seed", range(100, 106))
def test_drawn_kernels_are_proved_and_written_out_as_they_are(seed: int) -> None:
    """One of each kind, of seeds that nothing else names: built, resolved with its pins, and built again."""
    built = tilegen.build(draw_mixed(seed))
    again = tilegen.build(resolved_text(built.spec, built.plan))
    assert again.source == built.source
