"""The bar that a terminal shows while work goes on. It gives way to what is printed, and leaves no trace."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilegen.cli.console import current_color

_PATIENCE_SECONDS = 0.5


class Progress:
    """A bar that nobody sees: where there is no terminal."""

    def begin(self, label: str, before: int = 0) -> None:
        """To be called before a piece of work, as ``before`` have begun."""

    def look(self) -> None:
        """Of work in other processes: to be called some times a second."""

    @contextmanager
    def give_way(self) -> Iterator[None]:
        """What is printed inside of the block has the terminal to itself."""
        yield


@contextmanager
def watch_progress(total: int, is_elsewhere: bool = False) -> Iterator[Progress]:
    """The bar of ``total`` pieces of work. Print inside of ``give_way`` alone.

    The bar appears once the whole has taken half a second, only on a terminal. A thread draws it while this process
    works. Where the work ``is_elsewhere``, in forked processes, there is no thread, and ``look`` draws it.
    """
    if not sys.stderr.isatty():
        yield Progress()
        return
    bar = _Bar(total, current_color() is False, not is_elsewhere)
    timer = threading.Timer(_PATIENCE_SECONDS, bar.show)
    timer.daemon = True
    if not is_elsewhere:
        timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        bar.close()


@contextmanager
def watch_one(label: str) -> Iterator[None]:
    """The bar of one piece of work, which the block is."""
    with watch_progress(1) as bar:
        bar.begin(label)
        yield


class _Bar(Progress):
    """What a thread, or ``look``, shows of the state that the work sets."""

    def __init__(self, total: int, is_plain: bool, has_thread: bool):
        self.total, self.before, self.label = total, 0, ""
        self.is_plain, self.has_thread = is_plain, has_thread
        self.due = time.monotonic() + _PATIENCE_SECONDS
        self.lock = threading.Lock()
        self.closed = False
        self.shown: Any = None
        self.task: Any = None

    def begin(self, label: str, before: int = 0) -> None:
        with self.lock:
            self.before, self.label = before, label
            if self.shown:
                self.shown.update(self.task, completed=before, description=label)

    def look(self) -> None:
        if self.shown:
            self.shown.refresh()
        elif time.monotonic() >= self.due:
            self.show()

    @contextmanager
    def give_way(self) -> Iterator[None]:
        with self.lock:
            if self.shown:
                self.shown.stop()
            yield
            if self.shown:
                self.shown.start()

    def show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()]
        if self.total > 1:
            columns[2:2] = [BarColumn(), MofNCompleteColumn()]
        console = Console(stderr=True, no_color=self.is_plain or None)
        with self.lock:
            if self.closed:
                return
            self.shown = RichProgress(
                *columns, console=console, transient=True, redirect_stdout=False, auto_refresh=self.has_thread
            )
            self.task = self.shown.add_task(self.label, total=self.total, completed=self.before)
            self.shown.start()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            if self.shown:
                self.shown.stop()
