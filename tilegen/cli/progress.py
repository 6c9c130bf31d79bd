"""A progress bar on stderr, for work that takes long, where a person watches."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tilegen.cli.console import current_color

_PATIENCE_SECONDS = 0.5


@contextmanager
def watch_progress(total: int) -> Iterator[Callable[[str], None]]:
    """Yield ``begin(label)``, to be called before each of ``total`` pieces of work.

    The bar appears once the whole has taken half a second, only on a terminal, and leaves no trace. Print nothing to
    the terminal inside of the block.
    """
    if not sys.stderr.isatty():
        yield lambda label: None
        return
    bar = _Bar(total, current_color() is False)
    timer = threading.Timer(_PATIENCE_SECONDS, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar.begin
    finally:
        timer.cancel()
        bar.close()


class _Bar:
    """What the timer's thread shows of the state that the work's thread sets."""

    def __init__(self, total: int, is_plain: bool):
        self.total, self.begun, self.label = total, 0, ""
        self.is_plain = is_plain
        self.lock = threading.Lock()
        self.closed = False
        self.shown: Any = None
        self.task: Any = None

    def begin(self, label: str) -> None:
        with self.lock:
            self.begun, self.label = self.begun + 1, label
            if self.shown:
                self.shown.update(self.task, completed=self.begun - 1, description=label)

    def show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()]
        if self.total > 1:
            columns[2:2] = [BarColumn(), MofNCompleteColumn()]
        console = Console(stderr=True, no_color=self.is_plain or None)
        with self.lock:
            if self.closed:
                return
            self.shown = Progress(*columns, console=console, transient=True, redirect_stdout=False)
            self.task = self.shown.add_task(self.label, total=self.total, completed=max(0, self.begun - 1))
            self.shown.start()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            if self.shown:
                self.shown.stop()
