"""Tasks that do not depend on each other, shared out over this process and forked ones."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkContext, ForkProcess

Result = TypeVar("Result")


def run_tasks(tasks: Sequence[Callable[[], Result]], processes: int) -> list[Result]:
    """Their results in order; the error of the first that fails. Tasks begin in order: put long ones first.

    This process takes its turn with ``processes - 1`` that it forks, and keeps what its own tasks find out on the way.
    Where processes cannot be forked, it carries all out alone. Raises RuntimeError where a forked process dies.

    >>> run_tasks([lambda: 1 + 1, lambda: 2 * 3], processes=2)
    [2, 6]
    """
    count = min(processes, len(tasks)) - 1
    context = find_context() if count > 0 else None
    if context is None:
        return [task() for task in tasks]
    turns = _Turns(context.Value("i", 0), len(tasks))
    helpers = [_start_helper(context, tasks, turns) for _ in range(count)]
    try:
        found = _take_all(tasks, turns)
        for helper in helpers:
            found |= _receive(helper)
    finally:
        for helper in helpers:
            helper.process.terminate()  # one that has answered has nothing left to do
            helper.process.join()
    for k in sorted(found):
        if isinstance(failed := found[k], _Failed):
            raise failed.error
    return [found[k] for k in range(len(tasks))]


@dataclass(frozen=True)
class _Failed:
    error: Exception


@dataclass(frozen=True)
class _Helper:
    """A forked process, and where it sends what it has found once no task is left."""

    process: ForkProcess
    answer: Connection


def find_context() -> ForkContext | None:
    """What forks processes, where this machine can."""
    import multiprocessing  # here: it loads sockets and more, and most commands fork nothing

    return multiprocessing.get_context("fork") if "fork" in multiprocessing.get_all_start_methods() else None


@dataclass(frozen=True)
class _Turns:
    """The number of the task that comes next, in all processes, of ``count``."""

    next: Any
    count: int


def _take(turns: _Turns) -> int | None:
    """The number of a task that no other process carries out; None where none is left."""
    with turns.next.get_lock():
        k: int = turns.next.value
        turns.next.value = k + 1
    return k if k < turns.count else None


def _stop(turns: _Turns) -> None:
    with turns.next.get_lock():
        turns.next.value = turns.count


def _take_all(tasks: Sequence[Callable[[], Any]], turns: _Turns) -> dict[int, Any]:
    """What this process has found, by the number of the task; once a task fails, none after it begins."""
    found: dict[int, Any] = {}
    while (k := _take(turns)) is not None:
        try:
            found[k] = tasks[k]()
        except Exception as error:
            found[k] = _Failed(error)
            _stop(turns)
    return found


def _start_helper(context: ForkContext, tasks: Sequence[Callable[[], Any]], turns: _Turns) -> _Helper:
    answer, end = context.Pipe(duplex=False)
    process = context.Process(target=_help, args=(tasks, turns, end))
    process.start()
    end.close()
    return _Helper(process, answer)


def _help(tasks: Sequence[Callable[[], Any]], turns: _Turns, end: Connection) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C reaches it too, and the one that forked it says so
        signal.signal(number, signal.SIG_DFL)
    found = _take_all(tasks, turns)
    for failed in (x for x in found.values() if isinstance(x, _Failed)):  # what is sent leaves its traceback behind
        failed.error.add_note("".join(["in another process:\n", *traceback.format_tb(failed.error.__traceback__)]))
    with suppress(BrokenPipeError):  # whoever asked has died
        end.send(found)


def _receive(helper: _Helper) -> dict[int, Any]:
    try:
        found: dict[int, Any] = helper.answer.recv()
    except EOFError:
        helper.process.join()
        raise RuntimeError(f"a process that was forked ended with {helper.process.exitcode}") from None
    return found
