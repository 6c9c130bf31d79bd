"""What goes where: data to stdout, diagnostics and progress to stderr, colour where a person reads."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from tilegen.errors import Diagnostic, InputError, format_diagnostic

BROKEN_PIPE = 141  # as a shell reports a program that a closed pipe ends
_SEVERITY = {"error": "red", "warning": "yellow"}


def wants_color(choice: str) -> bool | None:
    """always: True, never: False, auto: None (each stream decides), except where NO_COLOR is set.

    >>> wants_color("always"), wants_color("never")
    (True, False)
    """
    if choice == "auto":
        return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
    return choice == "always"


def current_color() -> bool | None:
    """The choice of the running command, or what the environment says."""
    context = click.get_current_context(silent=True)
    return context.color if context and context.color is not None else wants_color("auto")


def print_data(text: str) -> None:
    """Write text to stdout. Raises InputError where stdout takes no more; ends the process where nobody reads."""
    try:
        click.echo(text, color=current_color())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is flushed at exit
        sys.exit(BROKEN_PIPE)
    except OSError as error:
        raise InputError(Diagnostic("TG602", f"cannot write to stdout: {error.strerror}")) from None


def print_json(data: Any) -> None:
    """Write data to stdout as JSON."""
    print_data(json.dumps(data, indent=2))


def print_note(text: str) -> None:
    """Write a line for the person at the terminal to stderr."""
    click.echo(text, err=True, color=current_color())


def print_diagnostic(finding: Diagnostic, color: bool | None) -> None:
    """Write a finding to stderr, in the colours of its severity, and an empty line after it."""
    click.echo(paint_diagnostic(finding) + "\n", err=True, color=color)


def paint_diagnostic(finding: Diagnostic) -> str:
    """The text of a finding with its head, its carets and its margins in colour."""
    color = _SEVERITY.get(finding.severity, "red")
    head, *rest = format_diagnostic(finding).split("\n")
    label, colon, message = head.partition(": ")
    painted = [click.style(label, fg=color, bold=True) + click.style(colon + message, bold=True)]
    for line in rest:
        margin = re.match(r" *(\d+ \||\||-->|=)", line)
        if not margin:
            painted.append(click.style(line, dim=True))
            continue
        text = line[margin.end() :]
        marked = click.style(text, fg=color, bold=True) if re.match(r" +\^", text) else text
        painted.append(click.style(margin[0], fg="blue", bold=True) + marked)
    return "\n".join(painted)


def diagnostic_data(finding: Diagnostic) -> dict[str, Any]:
    """A finding as JSON data; what has no place has null for it.

    >>> diagnostic_data(Diagnostic("TG001", "cannot read a.yaml"))["line"] is None
    True
    """
    mark = finding.mark
    return {
        "code": finding.code,
        "message": finding.message,
        "path": mark.path if mark else None,
        "line": mark.line if mark else None,
        "column": mark.column if mark else None,
        "length": mark.length if mark else None,
        "hint": finding.hint,
        "severity": finding.severity,
    }


# ---------------------------------------------------------------- a progress bar
_PATIENCE_SECONDS = 0.5


@contextmanager
def watch_progress(total: int) -> Iterator[Callable[..., None]]:
    """Yield ``begin(label, before=0)``, to be called before a piece of work of ``total``, as ``before`` have begun.

    The bar appears once the whole has taken half a second, only on a terminal, and leaves no trace. Print nothing to
    the terminal inside of the block.
    """
    if not sys.stderr.isatty():
        yield lambda label, before=0: None
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
        self.total, self.before, self.label = total, 0, ""
        self.is_plain = is_plain
        self.lock = threading.Lock()
        self.closed = False
        self.shown: Any = None
        self.task: Any = None

    def begin(self, label: str, before: int = 0) -> None:
        with self.lock:
            self.before, self.label = before, label
            if self.shown:
                self.shown.update(self.task, completed=before, description=label)

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
            self.task = self.shown.add_task(self.label, total=self.total, completed=self.before)
            self.shown.start()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            if self.shown:
                self.shown.stop()
