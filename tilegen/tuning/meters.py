"""Protocols of devices that measure kernels: the GPU has one, and a test brings its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tilegen.pipeline import Built, BuiltProgram
from tilegen.tuned import Environment


class Faulted(Exception):
    """The device runs nothing more in this process: a kernel has faulted. The text says how."""


@dataclass(frozen=True)
class Prepared:
    """A candidate that was built, proved and compiled; or, without ``built``, its ``outcome`` and why.

    ``key``: of the candidate. ``seconds``: that it took.
    """

    key: str
    name: str
    built: Built | BuiltProgram | None
    outcome: str = ""
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Asked:
    """Kernels of one problem to be timed in turns, the first of which is new; in so many rounds. ``seed``: of the data.

    One that takes ``most_times`` as long as the others, or longer, is timed in few rounds. ``limit_seconds``: for what
    runs on the device.
    """

    problem: str
    kernels: tuple[Prepared, ...]
    rounds: int
    seed: int
    limit_seconds: float
    most_times: float = 2.0


@dataclass(frozen=True)
class Timing:
    """Microseconds of each round, by key. ``outcome``: not "" where the new one has none, with the ``message``."""

    rounds: Mapping[str, tuple[float, ...]]
    outcome: str = ""
    message: str = ""


class Guard(Protocol):
    """Ends the process where what runs inside takes longer than so many seconds."""

    def begin(self, what: str, seconds: float) -> None: ...

    def end(self) -> None: ...


class Bench(Protocol):
    """A device that is ready, in the process that measures."""

    def time(self, asked: Asked, guard: Guard) -> Timing:
        """Check what is new, then time all in turns. Raises Faulted, and ProofError for wrong elements."""
        ...


class Meter(Protocol):
    """A kind of device. It goes to other processes, so its class is one that they can import."""

    def describe(self) -> Environment:
        """In a process that measures: what is there. Raises EnvironmentLack."""
        ...

    def prepare(self, built: Built | BuiltProgram) -> None:
        """In a process that builds: what can be done ahead. Raises TilegenError, CompileError."""
        ...

    def open(self) -> Bench: ...
