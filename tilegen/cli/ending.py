"""How a command ends: every exception becomes words on the right stream and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, TextIO

import click

from tilegen.cli.configuration import KEYS, read_configuration
from tilegen.cli.console import current_color, diagnostic_data, print_diagnostic, print_json, wants_color
from tilegen.errors import Diagnostic, TilegenError

USAGE, BUG, INTERRUPTED = 2, 70, 130


class Bug(TilegenError):
    """What no input should cause, met at one spec of several (TG690)."""

    exit_code = BUG


class SeveralFailed(Exception):
    """Specs failed: all their errors, in the order of the specs; ``were_printed`` as they came, or are to be."""

    def __init__(self, errors: Sequence[TilegenError], were_printed: bool = False):
        self.errors, self.were_printed = tuple(errors), were_printed
        super().__init__("\n".join(map(str, errors)))


def worst_code(codes: Iterable[int]) -> int:
    """The exit code of several results: what is wrong with a spec before what is wrong with the machine.

    >>> worst_code([0, 3, 1]), worst_code([0, 0])
    (1, 0)
    """
    return min((code for code in codes if code), default=0)


def end_safely(words: Sequence[str], run: Callable[[], Any]) -> int:
    """Run a command line and return its exit code."""
    sys.stdout = sys.stdout or _open_nothing()  # None where the shell has closed it
    sys.stderr = sys.stderr or _open_nothing()
    try:
        code = int(run() or 0)
        sys.stdout.flush()
        return code
    except click.Abort:  # ctrl-C, as click reports it
        return _interrupted()
    except KeyboardInterrupt:
        return _interrupted()
    except click.ClickException as error:
        return _end_usage(words, error)
    except TilegenError as error:
        return _end_errors(words, [error])
    except SeveralFailed as failed:
        return _end_errors(words, failed.errors, failed.were_printed)
    except Exception as error:
        return _end_bug(words, error)


def _open_nothing() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _interrupted() -> int:
    click.echo("interrupted", err=True)
    return INTERRUPTED


def _end_errors(words: Sequence[str], errors: Sequence[TilegenError], were_printed: bool = False) -> int:
    if not were_printed:
        _report([d for error in errors for d in error.diagnostics], words)
    return worst_code(error.exit_code for error in errors)


def _end_usage(words: Sequence[str], error: click.ClickException) -> int:
    if _wants_json(words):
        _report([Diagnostic("TG601", error.format_message())], words)
    else:
        error.show()
    return USAGE


def _end_bug(words: Sequence[str], error: Exception) -> int:
    if os.environ.get("TILEGEN_DEBUG") == "1":
        traceback.print_exception(error)
    message = f"internal error: {describe_bug(error)}; this is a bug in tilegen"
    if _wants_json(words):
        _report([Diagnostic("TG690", message)], words)
    else:
        click.echo(f"{message} (TILEGEN_DEBUG=1 shows the traceback)", err=True)
    return BUG


def describe_bug(error: BaseException) -> str:
    """An unexpected exception on one line: its type, its first words, and the line of tilegen that it left."""
    package = Path(__file__).parents[1]
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if Path(f.filename).is_relative_to(package)]
    where = f" at tilegen/{Path(ours[-1].filename).relative_to(package)}:{ours[-1].lineno}" if ours else ""
    said = next(iter(str(error).splitlines()), "")[:160]
    return f"{type(error).__name__}{where}" + (f" ({said})" if said else "")


def print_errors(errors: Iterable[TilegenError]) -> None:
    """Print errors to stderr, for a command that goes on."""
    for error in errors:
        for finding in error.diagnostics:
            print_diagnostic(finding, current_color())


def _report(findings: Iterable[Diagnostic], words: Sequence[str]) -> None:
    if _wants_json(words):
        print_json({"errors": [diagnostic_data(d) for d in findings]})
        return
    color = wants_color(_last_value(words, "--color") or "auto")
    for finding in findings:
        print_diagnostic(finding, color)


def _wants_json(words: Sequence[str]) -> bool:
    typed = _last_value(words, "--format")
    return (typed or _configured_format(words)) == "json"


def _configured_format(words: Sequence[str]) -> str:
    """What pyproject.toml says where the command line says nothing; "" where that cannot be read either."""
    if not set(words) & set(KEYS["format"]):
        return ""
    try:
        return str(read_configuration(Path.cwd()).get("format", ""))
    except (TilegenError, OSError):
        return ""


def _last_value(words: Sequence[str], option: str) -> str:
    """What an option was given on a command line that may not even be one."""
    found = ""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if word == option:
            found = following
        elif word.startswith(f"{option}="):
            found = word.removeprefix(f"{option}=")
    return found
