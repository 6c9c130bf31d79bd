"""Fused runs count the same places, and no two of them could be one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilegen.index import Var, mul
from tilegen.index.runs import Run, fuse

STRIDES = st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12, 24, None])
RUNS = st.lists(st.builds(Run, st.integers(1, 4), st.tuples(STRIDES, STRIDES), st.sampled_from("ab")), max_size=6)


def places(runs: list[Run], side: int) -> list[int]:
    """Where the values lie on a side, in order; a run without a stride there counts as one that goes nowhere."""
    at = np.zeros(1, int)
    for run in runs:
        at = (at[:, None] + np.arange(run.extent) * (run.strides[side] or 0)).ravel()
    return at.tolist()


@given(RUNS)
def test_fused_runs_count_the_same_places(runs):
    fused = fuse(runs)
    assert all(places(fused, side) == places(runs, side) for side in (0, 1))


@given(RUNS)
def test_no_two_neighbours_could_be_one(runs):
    fused = fuse(runs)
    assert fuse(fused) == fused
    for outer, inner in pairwise(fused):
        steps = [None if s is None else s * inner.extent for s in inner.strides]
        assert None in steps or outer.guard != inner.guard or list(outer.strides) != steps


@given(RUNS, st.integers(0, 1))
def test_on_one_side_at_least_as_many_fuse(runs, side):
    alone = fuse(runs, side)
    assert len(alone) <= len(fuse(runs))
    assert places(alone, side) == places(runs, side)


def test_extents_of_the_launch_fuse():
    rows, columns = Var("M", 100), Var("N", 100)
    (run,) = fuse([Run(rows, (columns,)), Run(columns, (1,))])
    assert run == Run(mul(rows, columns), (1,))
