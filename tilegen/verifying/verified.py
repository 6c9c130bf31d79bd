"""What a verification found."""

from __future__ import annotations

from dataclasses import dataclass


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
