"""Tasks that answer as they end, each in a process of its own: one that dies takes no other with it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from tilegen.side_by_side.tasks import find_context

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkContext, ForkProcess

Result = TypeVar("Result")
_LOOKS_SECONDS = 0.1  # between two calls of ``idle``
_PATIENCE_SECONDS = 2.0  # for processes that were asked to end


@dataclass(frozen=True)
class Died:
    """A process that ended before it answered.

    >>> Died(-9).why, Died(3).why
    ('it was killed by signal 9', 'it ended with code 3')
    """

    exit_code: int

    @property
    def why(self) -> str:
        code = self.exit_code
        return f"it was killed by signal {-code}" if code < 0 else f"it ended with code {code}"


@dataclass(frozen=True)
class _Running:
    """The process that carries out a task, and where its answer comes from."""

    number: int
    process: ForkProcess
    answer: Connection


def stream_tasks(
    tasks: Sequence[Callable[[], Result]], processes: int, begin: Callable[[int], None] = lambda k: None,
    idle: Callable[[], object] = lambda: None,
) -> Generator[tuple[int, Result | Died], None, None]:  # fmt: skip
    """The number and the result of each task as it ends. Tasks begin in order and raise nothing: errors are results.

    Each has a process of its own, forked when its turn comes, and ``processes`` of them run at a time. A process that
    dies, as where memory runs out, is the result of its task alone. With one task, or one process, or where processes
    cannot be forked, tasks are carried out here, one after another. ``begin(k)`` is called as task k begins, and
    ``idle`` ten times a second while others work. Close the iterator, and all processes end.

    >>> sorted(stream_tasks([lambda: 1 + 1, lambda: 2 * 3], processes=2))
    [(0, 2), (1, 6)]
    """
    context = find_context() if min(processes, len(tasks)) > 1 else None
    if context is None:
        for k, task in enumerate(tasks):
            begin(k)
            yield k, task()
        return
    from multiprocessing.connection import wait  # here: as it is loaded where processes are forked, and only there

    left = enumerate(tasks)
    running: dict[Any, _Running] = {}
    with _note_interrupts() as came:
        try:
            while True:
                for k, task in islice(left, processes - len(running)):
                    begin(k)
                    one = _start(context, k, task)
                    running[one.answer] = one
                if not running:
                    return
                for answer in wait(list(running), _LOOKS_SECONDS):
                    one = running.pop(answer)
                    yield one.number, _receive(one)
                idle()
                if came:
                    raise KeyboardInterrupt
        finally:
            end_processes(one.process for one in running.values())


@contextmanager
def _note_interrupts() -> Iterator[list[int]]:
    """The signals of Ctrl-C that come meanwhile. Python drops the exception where a finalizer runs, and goes on."""
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield came
        return

    def note(number: int, frame: Any) -> None:
        came.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def end_processes(processes: Iterable[ForkProcess]) -> None:
    """Have processes end, and wait until they have: at once where they take no notice."""
    asked = tuple(processes)
    for process in asked:
        process.terminate()
    for process in asked:
        process.join(_PATIENCE_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


def leave_ending_to_its_parent() -> None:
    """Of a forked process: Ctrl-C reaches its parent too, which ends it; what it has forked itself ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def _start(context: ForkContext, number: int, task: Callable[[], Any]) -> _Running:
    answer, end = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(task, end))
    process.start()
    end.close()
    return _Running(number, process, answer)


def _answer(task: Callable[[], Any], end: Connection) -> None:
    leave_ending_to_its_parent()
    with suppress(BrokenPipeError):  # whoever asked has been killed
        end.send(task())


def _receive(one: _Running) -> Any:
    try:
        found = one.answer.recv()
    except EOFError:
        one.process.join()
        return Died(one.process.exitcode or 0)
    finally:
        one.answer.close()
    one.process.join()
    return found
