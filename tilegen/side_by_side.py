"""Tasks that do not depend on each other, shared out over forked processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

_tasks: Sequence[Callable[[], object]] = ()  # what forked processes find


def run_tasks(
    tasks: Sequence[Callable[[], Result]], processes: int, begin: Callable[[int], None] = lambda k: None
) -> list[Result]:
    """Their results in order; the error of the first that fails. Tasks begin in order: put long ones first.

    With one process, or where processes cannot be forked, they run here one after another, up to the first error.
    ``begin(k)`` is called before task k is run here, or waited for: all before it are done.

    >>> run_tasks([lambda: 1 + 1, lambda: 2 * 3], processes=2)
    [2, 6]
    """
    global _tasks
    wanted = min(processes, len(tasks))
    if wanted < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return [_begin_task(k, task, begin) for k, task in enumerate(tasks)]
    _tasks = tasks
    try:
        with ProcessPoolExecutor(wanted, multiprocessing.get_context("fork"), _end_when_interrupted) as pool:
            futures = [pool.submit(_run_task, k) for k in range(len(tasks))]
            try:
                return [_begin_task(k, future.result, begin) for k, future in enumerate(futures)]  # type: ignore[misc]
            finally:
                pool.shutdown(cancel_futures=True)
    finally:
        _tasks = ()


def _begin_task(k: int, task: Callable[[], Result], begin: Callable[[int], None]) -> Result:
    begin(k)
    return task()


def _end_when_interrupted() -> None:
    """Ctrl-C reaches these processes too: they end at once, and the one that forked them says so."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _run_task(k: int) -> object:
    return _tasks[k]()
