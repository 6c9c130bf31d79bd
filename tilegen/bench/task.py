"""What a peer is asked to do, and what it answers: data between the room's modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilegen.bench.meaning import Meaning
from tilegen.bench.measuring import Candidate


class NotApplicable(Exception):
    """A peer cannot do what the kernel does; the message is the reason."""


@dataclass(frozen=True)
class Task:
    """The buffers of every set, as arrays of bytes, and what is to be done with them.

    ``pairs``: (source, target) of the meaning, none without one. ``copies``: two arrays whose bytes are together those
    that the kernel reads and writes.
    """

    meaning: Meaning | str
    pairs: tuple[tuple[Any, Any], ...]
    copies: tuple[tuple[Any, Any], ...]
    watch: Any  # a tilegen.gpu.Stopwatch


@dataclass(frozen=True)
class Prepared:
    """A peer that is ready: its candidate, and how it does it where that was searched."""

    candidate: Candidate
    detail: str = ""


@dataclass(frozen=True)
class Peer:
    """What a user would call instead of the kernel.

    ``prepare`` raises NotApplicable, ImportError, or whatever its library does. ``is_asked`` peers are slow to start
    and run only where they are named. What ``writes_target`` is compared with what the kernel's target must hold.
    """

    name: str
    what: str
    prepare: Callable[[Task], Prepared]
    is_asked: bool = False
    writes_target: bool = True


def require_meaning(task: Task) -> Meaning:
    """The meaning; raises NotApplicable with the reason where there is none."""
    if isinstance(task.meaning, str):
        raise NotApplicable(task.meaning)
    return task.meaning
