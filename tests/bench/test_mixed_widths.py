"""Ops whose arrays have several widths: their sectors beside the floor, and what they compute."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tilegen
from tilegen.pipeline import Built
from tilegen.proofs.runs import check_run, list_runs
from tilegen.report import resolved_text

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from mixed_widths import SEEDS, count_sectors, count_traffic, draw_mixed, draw_turned


def assert_builds_again(built: Built) -> None:
    """A kernel's resolved spec, with its pins, builds the same source."""
    again = tilegen.build(resolved_text(built.spec, built.plan))
    assert again.source == built.source


@pytest.mark.sweep(6)
@pytest.mark.parametrize("seed", SEEDS)
def test_sectors_are_at_most_a_tenth_over_their_floor(seed: int) -> None:
    sectors, floor = count_sectors(draw_mixed(seed))
    assert sectors <= 1.1 * floor


@pytest.mark.sweep(2)
@pytest.mark.parametrize("seed", range(100, 106))
def test_drawn_kernels_are_proved_and_written_out_as_they_are(seed: int) -> None:
    """One of each kind, of seeds that nothing else names: built, resolved with its pins, and built again."""
    assert_builds_again(tilegen.build(draw_mixed(seed)))


@pytest.mark.sweep(6)
@pytest.mark.parametrize("seed", SEEDS)
def test_turned_arrays_pairs_and_pixels_take_the_sectors_that_hold_them(seed: int) -> None:
    sectors, floor = count_traffic(draw_turned(seed))
    assert sectors <= 1.1 * floor


@pytest.mark.sweep(4)
@pytest.mark.parametrize("seed", range(100, 116))
def test_drawn_boxes_and_pairs_are_proved_and_run_as_they_mean(seed: int) -> None:
    """Of seeds that nothing else names: proved, run beside the meaning, resolved with its pins, and built again."""
    built = tilegen.build(draw_turned(seed))
    for run in list_runs(built.spec, built.plan):
        check_run(built.spec, built.plan, run, 2)
    assert_builds_again(built)
