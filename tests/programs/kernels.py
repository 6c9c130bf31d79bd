"""Every spec of specs/ that has passes, built once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.session import once
from tests.specs.kernels import PROGRAMS
from tilegen.pipeline import BuiltProgram, build

# Sizes at which all CTAs of all passes run in NumPy, corners among them.
SMALL: dict[str, tuple[Mapping[str, int], ...]] = {
    "layernorm_backward": ({"M": 9, "N": 512, "T": 64}, {"M": 1, "N": 512, "T": 64}, {"M": 130, "N": 512, "T": 64}),
    "gemm_split_k": ({"N": 512, "K": 512}, {"N": 512, "K": 384, "P": 2}, {"N": 512, "K": 1088, "P": 16}),
    "gemm_split": ({"N": 64, "K": 512}, {"M": 100, "N": 72, "K": 1088}),
    "sum_all": ({"N": 9000}, {"N": 1, "T": 32}, {"N": 4096, "T": 512}),
    "histogram": ({"N": 40_000}, {"N": 1}, {"N": 32_768}),
    "moe_permute": ({"T": 600}, {"T": 1}, {"T": 256}),
    "moe_route": ({"T": 100}, {"T": 1}),
    "scan": ({"N": 20_000}, {"N": 1}, {"N": 8192}),
    "offsets_of_counts": ({"N": 20_000}, {"N": 3}),
    "max_columns": ({"M": 3000, "N": 64}, {"M": 1, "N": 32}, {"M": 2049, "N": 96}),
    "column_sum_atomic": ({"M": 300, "N": 256}, {"M": 1, "N": 256}, {"M": 513, "N": 512}),
    "squared_error": ({"M": 300, "N": 7}, {"M": 1, "N": 1}, {"M": 64, "N": 1025}),
    "attention_backward": ({"BH": 1, "S": 130}, {"BH": 1, "S": 190, "causal": 1}),
    "grouped_gemm": ({"T": 300, "E": 3, "N": 256, "K": 128}, {"T": 1, "E": 1, "N": 256, "K": 64}),
    "decode_paged": ({"B": 2, "MAXP": 12, "PAGES": 40, "HK": 1}, {"B": 1, "MAXP": 1, "PAGES": 1, "HK": 1}),
}


SLOW = {"attention_backward", "decode_paged", "grouped_gemm"}  # half a minute to prove
BY_NAME = {path.stem: path for path in PROGRAMS}
SUM_ALL, LAYERNORM = BY_NAME["sum_all"], BY_NAME["layernorm_backward"]


def every_program(test: Callable[..., None]) -> Callable[..., None]:
    """The test over every spec with passes."""
    paths = [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else []) for path in PROGRAMS
    ]
    marked: Callable[..., None] = pytest.mark.parametrize("path", paths)(test)
    return marked


@once
def build_program(path: Path) -> BuiltProgram:
    """The proved kernels of a spec, for its own arch and sizes."""
    built = build(path)
    assert isinstance(built, BuiltProgram)
    return built


@once
def build_small(path: Path, number: int) -> BuiltProgram:
    """The same at a small size."""
    built = build(path, params=SMALL[path.stem][number])
    assert isinstance(built, BuiltProgram)
    return built
