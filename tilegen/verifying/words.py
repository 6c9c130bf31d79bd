"""What the lines of a verification say alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilegen.decisions import count_words
from tilegen.plan import Plan, arrays


def reads_arrays(plan: Plan) -> bool:
    """Whether a kernel has inputs: without any, one run shows as much as many, and seeds say nothing."""
    return any(memory.access != "out" for memory in arrays(plan))


def count_inputs(plan: Plan, seeds: Sequence[int]) -> str:
    """``3 inputs``: one for each seed."""
    return count(len(seeds), "input") if reads_arrays(plan) else "no inputs"


def count(n: int, what: str) -> str:
    """A number of things, in words."""
    return count_words(n, what, f"{what}s")


def case_text(case: Mapping[str, int]) -> str:
    """The parameters, each followed by a space."""
    return "".join(f"{name}={value} " for name, value in case.items())
