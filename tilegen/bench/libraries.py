"""The libraries that peers are made of: loaded where they are there, on the stopwatch's stream, the fastest taken."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from tilegen.bench.meaning import NotApplicable, Prepared, Task

_TRIES = 5


def load_library(name: str) -> Any:
    """A module of torch or triton. Raises ImportError where it is not installed or does not start."""
    try:
        return import_module(name)
    except ImportError:
        raise
    except Exception as error:  # a broken installation shows in many ways, all of them at import
        raise ImportError(f"{name} does not start: {error}") from error


def on_stream(torch: Any, task: Task, work: Callable[[int], object]) -> Callable[[int], None]:
    """The work with torch's current stream the stopwatch's."""
    stream = torch.cuda.ExternalStream(task.watch.stream.ptr)

    def run(k: int) -> None:
        with torch.cuda.stream(stream):
            work(k)

    return run


def pick_fastest(torch: Any, task: Task, made: Iterable[tuple[str, Callable[[int], object]]]) -> Prepared:
    """The candidate with the least median time; those that do not compile are passed over unless all are.

    Raises what the first of them raised then, and NotApplicable without any.
    """
    best: tuple[float, Prepared] | None = None
    failed: Exception | None = None
    for detail, work in made:
        candidate = on_stream(torch, task, work)
        try:
            taken = _time_shortly(task, candidate)
        except Exception as error:  # a tile that needs more shared memory than there is, for example
            failed = failed or error
            continue
        if best is None or taken < best[0]:
            best = (taken, Prepared(candidate, detail))
    if best is None:
        raise failed or NotApplicable("no tile fits")
    return best[1]


def _time_shortly(task: Task, candidate: Callable[[int], None]) -> float:
    candidate(0)
    times: list[float] = [task.watch.time_us(lambda k=k: candidate(k)) for k in range(_TRIES)]
    return statistics.median(times)
