"""Tasks that do not depend on each other, shared out over forked processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

_tasks: Sequence[Callable[[], object]] = ()  # what forked processes find


def run_tasks(tasks: Sequence[Callable[[], Result]], processes: int) -> list[Result]:
    """Their results in order; the error of the first that fails. Tasks begin in order: put long ones first.

    With one process, or where processes cannot be forked, they run here one after another, up to the first error.

    >>> run_tasks([lambda: 1 + 1, lambda: 2 * 3], processes=2)
    [2, 6]
    """
    global _tasks
    wanted = min(processes, len(tasks))
    if wanted < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return [task() for task in tasks]
    _tasks = tasks
    try:
        with ProcessPoolExecutor(wanted, multiprocessing.get_context("fork")) as pool:
            futures = [pool.submit(_run_task, k) for k in range(len(tasks))]
            try:
                return [future.result() for future in futures]  # type: ignore[misc]
            finally:
                pool.shutdown(cancel_futures=True)
    finally:
        _tasks = ()


def _run_task(k: int) -> object:
    return _tasks[k]()
