"""What names of memories stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilegen.plan import Memory


@dataclass(frozen=True)
class Root:
    """A memory that exists, its extents as numbers."""

    memory: Memory
    store: Any
    shape: tuple[int, ...]
    pitches: tuple[int, ...]

    @property
    def span(self) -> int:
        return sum((n - 1) * p for n, p in zip(self.shape, self.pitches, strict=True)) + 1


@dataclass(frozen=True)
class Place:
    """What a memory's name stands for: a root, and where in it the name begins (per role axis)."""

    root: Root
    coordinates: tuple[Any, ...] | None  # None: known only by its flat offset
    flat: Any
    is_formal: bool = True  # bound by a Block


def form(memory: Memory) -> tuple[object, ...]:
    """What two views of one array differ by."""
    return memory.name, memory.elem_bytes, memory.shape, memory.pitches
