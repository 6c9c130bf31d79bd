"""Kernels of specs/ on the machine; the tests need the NVRTC whose text they were written for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.session import once
from tilegen.gpu import find_compilers
from tilegen.pipeline import Built, BuiltProgram, build, kernels_of

SPECS = Path(__file__).parents[2] / "specs"
PINNED = "NVRTC 13.5"  # as the extra ``ptx`` of pyproject.toml has it: another release prints other PTX
_FIRST = str(find_compilers()[0].version) if find_compilers() else "no compiler"
requires_nvrtc = pytest.mark.skipif(PINNED not in _FIRST, reason=f"these tests are for {PINNED}; here is {_FIRST}")


@once
def build_whole(stem: str) -> Built | BuiltProgram:
    """A spec's kernel, or its program's."""
    return build(SPECS / f"{stem}.yaml")


def list_kernels(stem: str) -> tuple[Built, ...]:
    """The kernel of a spec, or those of its passes."""
    return tuple(kernels_of(build_whole(stem)))
