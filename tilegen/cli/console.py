"""What goes where: data to stdout, diagnostics to stderr, colour where a person reads."""

from __future__ import annotations

import json
import os
import re
import sys
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
