"""What a verification found, and what its lines say alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilegen.decisions import count_words
from tilegen.plan import Plan, arrays


@dataclass(frozen=True)
class Verified:
    """What was verified, where: one line a parameter case. ``device`` is ``cpu`` or the GPU's name.

    ``notes``: what is right and may not be meant, as elements that are NaN whatever the inputs.
    """

    kernel: str
    arch: str
    device: str
    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        notes = (f"note: {note}" for note in self.notes)
        return "\n  ".join([f"{self.kernel}: verified on {self.device}, {self.arch}", *self.lines, *notes])


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
