"""The rendered text of every spec, executed on the CPU, writes what the spec means: every byte of every array."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from text.run import HAS_NVRTC, POISON, requires_runner, runner_of

from specs.kernels import Draft, every_spec, small_spec
from tilegen.dtypes import bits_dtype, numpy_dtype
from tilegen.index import evaluate
from tilegen.interpret import corners
from tilegen.plan import Memory
from tilegen.proofs.floats import FloatRun, compare_floats, computes, float_inputs, run_bounded
from tilegen.proofs.meaning import inputs_of, parameter_cases
from tilegen.reference import Input, run_reference
from tilegen.scopes import whole_clusters
from tilegen.spec.outline import launch_of

pytestmark = requires_runner
_MOST_CTAS = 64


@pytest.mark.sweep(2)
@every_spec
def test_text_writes_what_the_spec_means(path):
    built = small_spec(path)
    if computes(built.spec):
        _compare_floats(built)
        return
    for patterns in (inputs_of(built.spec, built.plan, seed=2), _other_patterns(built)):
        for case in parameter_cases(built.spec):
            grid = launch_of(built.spec, case).grid
            _compare(built, patterns, case, _ctas(grid, built.plan.cluster))


def _compare_floats(built: Draft) -> None:
    """What a spec computes, within the bounds of the functions, those of the C++ library where g++ runs it."""
    patterns = float_inputs(built.plan, seed=2)
    arrays = {m.name: m for m in built.plan.memories if m.space == "global"}
    for case in parameter_cases(built.spec):
        ctas = _ctas(launch_of(built.spec, case).grid, built.plan.cluster)
        given = {n: f(np.arange(int(evaluate(arrays[n].span, case)))) for n, f in patterns.items()}
        images = runner_of(Path(built.spec.path)).run(given, case, ctas)
        wanted = run_bounded(built.spec, FloatRun(ctas, patterns, case), is_host=not HAS_NVRTC)
        assert set(wanted) == set(images)
        for name, image in images.items():
            at, bound = wanted[name]
            compare_floats(name, at, image[at], bound)
            before = given[name] if name in given else np.full(image.nbytes, POISON, np.uint8).view(image.dtype)
            raw = bits_dtype(image.dtype.itemsize)
            free = np.ones(len(image), bool)
            free[at] = False
            assert (image.view(raw)[free] == before.view(raw)[free]).all(), name


def _other_patterns(built: Draft) -> dict[str, Input]:
    """Any bits, NaNs and all; eighths below 128 (and above -128) where casts give some bits no one meaning."""
    if not any(operation.op == "cast" for operation in built.plan.operations):
        return _bit_patterns(built)
    dtypes = {m.name: numpy_dtype(m.dtype) for m in built.plan.memories}
    return {name: partial(_eighths, dtypes[name]) for name in inputs_of(built.spec, built.plan)}


def _eighths(dtype: np.dtype, index: np.ndarray) -> np.ndarray:
    values = (index * 37 % 2047 - 1023) / 8
    return (abs(values) if dtype.kind in "bu" else values).astype(dtype)


def _ctas(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """All CTAs of a small grid; of a large one the clusters of the corners and of the one in the middle."""
    if int(np.prod(grid)) <= _MOST_CTAS:
        return [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
    x, y, z = (n // 2 for n in grid)
    return list(whole_clusters([*corners(grid), (x, y, z)], cluster))


def _compare(built: Draft, patterns: dict[str, Input], case: dict[str, int], ctas: list[tuple[int, int, int]]) -> None:
    """What the spec does not read is poison: of an array of which a few CTAs read little, little is made."""
    arrays = {m.name: m for m in built.plan.memories if m.space == "global"}
    read: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in patterns}
    wanted = run_reference(built.spec, ctas, {n: partial(_note, read[n], f) for n, f in patterns.items()}, case)
    given = {name: _poisoned(arrays[name], case) for name in patterns}
    for name, image in given.items():
        for at, values in read[name]:
            image[at] = values
    images = runner_of(Path(built.spec.path)).run(given, case, ctas)
    assert set(wanted) == set(images)
    for name, image in images.items():
        raw = bits_dtype(numpy_dtype(arrays[name].dtype).itemsize)
        expected = (given[name] if name in given else _poisoned(arrays[name], case)).view(raw)
        at, values = wanted[name]
        expected[at] = values
        wrong = np.flatnonzero(image.view(raw) != expected)
        assert not len(wrong), f"{name}[{wrong[0]}] and {len(wrong) - 1} more elements differ, parameters {case}"


def _note(read: list[tuple[np.ndarray, np.ndarray]], pattern: Input, index: np.ndarray) -> np.ndarray:
    values = pattern(index)
    read.append((index, values))
    return values


def _poisoned(array: Memory, case: dict[str, int]) -> np.ndarray:
    dtype = numpy_dtype(array.dtype)
    return np.full(int(evaluate(array.span, case)) * dtype.itemsize, POISON, np.uint8).view(dtype)


def _bit_patterns(built: Draft) -> dict[str, Input]:
    """For every input a function from element offsets to arbitrary bits: NaNs, subnormals and all."""

    def pattern(name: str, dtype: np.dtype) -> Callable[[np.ndarray], np.ndarray]:
        salt = np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))

        def values(index: np.ndarray) -> np.ndarray:
            words = np.arange(max(1, dtype.itemsize // 8), dtype=np.uint64)
            flat = np.ascontiguousarray(index, np.uint64)[..., None] * np.uint64(len(words)) + words
            with np.errstate(over="ignore"):
                mixed = (flat + salt) * np.uint64(0x9E3779B97F4A7C15)
                mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(32)
            if dtype == np.bool_:
                return (mixed[..., 0] & np.uint64(1)).astype(bool)
            if dtype.itemsize >= 8:
                return mixed.view(dtype)[..., 0]
            return mixed[..., 0].astype(bits_dtype(dtype.itemsize)).view(dtype)

        return values

    arrays = {m.name: numpy_dtype(m.dtype) for m in built.plan.memories}
    return {name: pattern(name, arrays[name]) for name in inputs_of(built.spec, built.plan)}
