"""A layout that is not chosen yet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Auto:
    """The layout of a buffer that is no array until the room ``auto_layout`` has chosen one."""

    def __str__(self) -> str:
        return "auto"


AUTO = Auto()
