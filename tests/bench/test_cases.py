"""The measured permutes: the odd ones are those that seed 0 draws, and every case is a spec of its own."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise
from math import prod
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from cases import (
    BYTES,
    LARGEST_SIZE,
    LEAST_BYTES,
    MOST_BYTES,
    ODD_FILE,
    RAGGED_BYTES,
    Case,
    all_cases,
    cases_of,
    draw_odd,
    odd_cases,
    odd_text,
    ragged_cases,
    spec_text,
)

every_case = pytest.mark.parametrize("case", all_cases(), ids=lambda c: c.name)


def test_the_odd_shapes_are_the_drawn_ones() -> None:
    assert ODD_FILE.read_text(encoding="utf-8") == odd_text(draw_odd())
    assert draw_odd() != draw_odd(seed=1)


def test_the_odd_shapes_are_what_they_are_said_to_be() -> None:
    cases = odd_cases()
    assert len(cases) == len(set(cases)) == 40
    assert {len(c.shape) for c in cases} == {2, 3, 4, 5} and {c.dtype for c in cases} == set(BYTES)
    sizes = {n for c in cases for n in c.shape}
    assert min(sizes) == 1 and max(sizes) == LARGEST_SIZE
    assert all(LEAST_BYTES <= c.array_bytes <= MOST_BYTES for c in cases)
    assert any(n % 2 and n > 100 for n in sizes) and not any(list(c.axes) == sorted(c.axes) for c in cases)


def test_the_ragged_ones_are_drawn_alike_and_have_the_reported_ones() -> None:
    cases = ragged_cases()
    assert cases == ragged_cases() != ragged_cases(seed=1) and len(cases) == len(set(cases)) == 40
    assert {len(c.shape) for c in cases} == {2, 3, 4, 5, 6}
    assert {c.dtype for c in cases} == set(RAGGED_BYTES)
    shortest = [min(c.shape[-1] % 16, c.shape[c.axes[-1]] % 16) for c in cases]
    assert sum(1 for n in shortest if n) >= 30
    text = spec_text(cases[4])
    assert "X: {scope: global, dtype: int8, shape: [34, 17, 19, 9, 49, 10]}" in text and "[3, 1, 5, 4, 0, 2]" in text


def test_the_cases_of_the_goals_are_there() -> None:
    found = {(c.group, c.axes, BYTES[c.dtype]) for c in all_cases()}
    assert {("transpose", (1, 0), size) for size in (1, 2, 4)} <= found
    for axes in ((0, 2, 1), (0, 2, 1, 3), (2, 1, 0, 3), (3, 2, 1, 0)):
        assert {("permute", axes, 4), ("permute", axes, 2)} <= found
    assert all(c.array_bytes == 256 << 20 for c in all_cases() if c.group == "permute")
    assert len({c.name for c in all_cases()}) == len(all_cases()) == 54 + 57 + 20


def test_the_set_of_ttc_is_what_it_is_said_to_be() -> None:
    """57 arrays of about 200 MiB of float32, nineteen permutations three times, none with dimensions to be joined."""
    cases = cases_of("ttc")
    assert len(cases) == 57 and Counter(c.dtype for c in cases) == {"float32": 38, "float16": 11, "float64": 8}
    assert all(190 << 20 < prod(c.shape) * 4 < 232 << 20 for c in cases)
    assert [cases[k].axes for k in range(0, 57, 3)] == [cases[k + 2].axes for k in range(0, 57, 3)]
    assert not any(b == a + 1 for c in cases for a, b in pairwise(c.axes))
    assert cases[0].shape == (7248, 7248) and cases[-1].shape == (112, 15, 15, 15, 5, 32)


def test_the_set_of_tensors_has_what_programs_move() -> None:
    cases = cases_of("tensor")
    assert len(cases) == 20 and {c.dtype for c in cases} == {"uint8", "float16", "float32", "float64"}
    assert all(8 << 20 < c.array_bytes < 1 << 30 for c in cases)


@every_case
def test_a_case_is_a_spec(case: Case) -> None:
    spec = yaml.safe_load(spec_text(case))
    assert spec["kernel"].isidentifier()
    source, target = spec["buffers"]["X"], spec["buffers"]["Y"]
    assert tuple(source["shape"]) == case.shape
    assert target["shape"] == [case.shape[a] for a in case.axes] and target["dtype"] == source["dtype"]
    assert prod(source["shape"]) * BYTES[case.dtype] == case.array_bytes
    assert spec["ops"] == [{"permute": {"src": "X", "dst": "Y", "axes": list(case.axes)}}]
