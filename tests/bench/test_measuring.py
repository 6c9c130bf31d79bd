"""Turns, graphs and rotation with a stopwatch whose times are told; laws of the ratios."""

from __future__ import annotations

import pytest
from fakes import FakeWatch
from hypothesis import given
from hypothesis import strategies as st

from tilegen.bench.measuring import (
    COLD_L2S,
    GRAPH_LAUNCHES,
    MOST_SETS,
    choose_launches,
    make_samplers,
    measure_spread,
    paired_ratio,
    plan_rotation,
    take_turns,
    warm_up,
)

times = st.lists(st.floats(0.5, 1e4), min_size=1, max_size=40)
pairs = st.lists(st.tuples(st.floats(0.5, 1e4), st.floats(0.5, 1e4)), min_size=1, max_size=40)


# ---------------------------------------------------------------- statistics
@given(times)
def test_against_itself_the_ratio_is_one(mine: list[float]) -> None:
    spread = paired_ratio(mine, mine)
    assert (spread.lower, spread.median, spread.upper) == (1.0, 1.0, 1.0)


@given(pairs, st.floats(0.01, 100))
def test_a_slower_peer_has_a_larger_ratio(sample: list[tuple[float, float]], factor: float) -> None:
    mine, other = ([p[k] for p in sample] for k in (0, 1))
    slower = paired_ratio(mine, [factor * t for t in other]).median
    assert slower == pytest.approx(factor * paired_ratio(mine, other).median)


@given(pairs, st.data())
def test_what_changes_a_whole_round_is_not_in_the_ratio(sample: list[tuple[float, float]], data: st.DataObject) -> None:
    drift = data.draw(st.lists(st.floats(0.1, 10), min_size=len(sample), max_size=len(sample)))
    mine, other = ([p[k] for p in sample] for k in (0, 1))
    moved = paired_ratio([t * d for t, d in zip(mine, drift, strict=True)],
                         [t * d for t, d in zip(other, drift, strict=True)])  # fmt: skip
    assert moved.median == pytest.approx(paired_ratio(mine, other).median)


@given(pairs.filter(lambda p: len(p) % 2 == 1))
def test_the_ratio_the_other_way_round_is_its_inverse(sample: list[tuple[float, float]]) -> None:
    mine, other = ([p[k] for p in sample] for k in (0, 1))
    assert paired_ratio(mine, other).median == pytest.approx(1 / paired_ratio(other, mine).median)


@given(times)
def test_quartiles_are_in_order_and_do_not_depend_on_the_rounds_order(sample: list[float]) -> None:
    spread = measure_spread(sample)
    assert min(sample) <= spread.lower <= spread.median <= spread.upper <= max(sample)
    assert spread == measure_spread(sorted(sample))


def test_rounds_must_be_paired() -> None:
    with pytest.raises(ValueError):
        paired_ratio([1.0, 2.0], [1.0])


# ---------------------------------------------------------------- buffers
@given(st.integers(1, 1 << 36), st.integers(1 << 20, 1 << 27), st.integers(1 << 33, 1 << 38))
def test_buffers_pass_the_l2_or_the_l2_is_emptied(set_bytes: int, l2_bytes: int, memory_bytes: int) -> None:
    rotation = plan_rotation(set_bytes, l2_bytes, memory_bytes)
    assert 1 <= rotation.sets <= MOST_SETS
    assert rotation.is_cold == (rotation.sets * set_bytes < COLD_L2S * l2_bytes)
    assert rotation.sets == 1 or rotation.sets * set_bytes <= memory_bytes // 6


def test_the_largest_transpose_fits_an_h100() -> None:
    rotation = plan_rotation(2 << 30, 50 << 20, 80 << 30)
    assert 2 * rotation.sets * (2 << 30) + (1 << 30) < 60e9  # the sets, the copy's own, and what is expected


# ---------------------------------------------------------------- turns
def test_every_candidate_has_each_place_and_the_first_round_is_dropped() -> None:
    watch, order = FakeWatch(), []

    def candidate(name: str, us: float) -> object:
        def run() -> None:
            order.append(name)
            watch.spend(us)

        return run

    samplers = {name: (candidate(name, us),) for name, us in (("a", 10.0), ("b", 30.0), ("c", 20.0))}
    timed = take_turns(watch, samplers, 3, 1)  # type: ignore[arg-type]
    assert order == ["a", "b", "c", "b", "c", "a", "c", "a", "b", "a", "b", "c"]
    assert timed.rounds == {"a": (10.0,) * 3, "b": (30.0,) * 3, "c": (20.0,) * 3}


def test_successive_samples_work_on_successive_buffers() -> None:
    watch, used = FakeWatch(), []
    samplers = {name: make_samplers(watch, lambda k, n=name: used.append(k), 5, 1) for name in "ab"}
    take_turns(watch, samplers, 4, 1)
    assert used == [k % 5 for k in range(10)]


def test_short_launches_are_timed_in_graphs_over_all_buffers() -> None:
    watch, used = FakeWatch(), []

    def candidate(k: int) -> None:
        used.append(k)
        watch.spend(3.0)

    samplers = make_samplers(watch, candidate, 45, GRAPH_LAUNCHES)
    assert len(samplers) == 2 and watch.log == [("captured 20", False)] * 2
    assert used == list(range(40)) and watch.now_us == 0
    assert take_turns(watch, {"a": samplers}, 2, GRAPH_LAUNCHES, is_cold=True).rounds == {"a": (3.0, 3.0)}
    assert watch.log[2:] == [("timed", True)] * 3


def test_few_buffers_come_again_within_a_graph() -> None:
    watch, used = FakeWatch(), []
    assert len(make_samplers(watch, used.append, 3, GRAPH_LAUNCHES)) == 1
    assert used == [k % 3 for k in range(GRAPH_LAUNCHES)]


def test_one_short_candidate_puts_all_into_graphs() -> None:
    assert choose_launches([400.0, 49.9]) == GRAPH_LAUNCHES and choose_launches([50.0]) == 1


def test_the_estimate_is_what_a_launch_takes_when_warm() -> None:
    watch = FakeWatch()
    costs = iter([9000.0, 70.0, 70.0, 71.0, 69.0, 70.0])
    assert warm_up(watch, lambda _: watch.spend(next(costs))) == 70.0
