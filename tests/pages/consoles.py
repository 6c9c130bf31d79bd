"""A page that is followed as a reader would: files are saved, lines are edited, commands are typed.

``<!-- file: NAME -->`` before a fence: it is saved as NAME. ``<!-- edit: NAME -->`` before a diff: its lines with - are
in NAME, and are replaced by those with +. In a console fence, lines with ``$ `` are commands, and what follows is what
they print; ``...`` on a line of its own stands for any lines, inside of one for anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from click.testing import CliRunner

from tilegen.cli import cli

_FENCE = re.compile(r"(?:<!-- (file|edit): (\S+) -->\n)?^```(\w+)\n(.*?)^```$", re.S | re.M)


@dataclass(frozen=True)
class Command:
    """A command of a page, what the page says that it prints, and what it printed."""

    line: str
    said: str
    printed: str

    @property
    def agrees(self) -> bool:
        return re.fullmatch(_pattern(self.said), self.printed) is not None


def follow_page(text: str, folder: Path) -> Iterator[Command]:
    """Do what a page says, in the working directory ``folder``."""
    for kind, name, language, body in _FENCE.findall(text):
        if kind == "file":
            (folder / name).write_text(body, encoding="utf-8")
        elif kind == "edit":
            _edit(folder / name, body)
        elif language == "console":
            for command, said in _split(body):
                yield Command(command, said, run_command(command))


def run_command(line: str) -> str:
    """What a command prints on both streams. Only tilegen is typed here."""
    program, *words = shlex.split(line)
    assert program == "tilegen", f"{line}: not a command that this test knows"
    return CliRunner(env={"COLUMNS": "110", "NO_COLOR": "1"}).invoke(cli, words).output.strip("\n") + "\n"


def rewrite_page(text: str, commands: list[Command]) -> str:
    """The page with what commands print now; what stood for any lines stands where it stood."""
    for command in commands:
        before = f"$ {command.line}\n{command.said}"
        assert before in text
        text = text.replace(before, f"$ {command.line}\n{_excerpt(command)}", 1)
    return text


def _excerpt(command: Command) -> str:
    """The passages of what is printed that are most like those on the page."""
    if command.agrees:
        return command.said
    printed, start, lines = command.printed.splitlines(), 0, []
    for passage in re.split(r"^(\.\.\.\n)", command.said, flags=re.M):
        if passage == "...\n":
            lines.append("...")
        elif passage:
            size = min(len(passage.splitlines()), len(printed) - start)
            windows = range(start, len(printed) - size + 1)
            begin = max(windows, key=lambda k: SequenceMatcher(None, "\n".join(printed[k : k + size]), passage).ratio())
            lines += printed[begin : begin + size]
            start = begin + size
    return "\n".join(lines) + "\n"


def _split(body: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        line, _, said = part.partition("\n")
        yield line, said


def _edit(path: Path, diff: str) -> None:
    lines = diff.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line.startswith("-"))
    new = "".join(line[1:] for line in lines if line.startswith("+"))
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path.name} does not hold, once:\n{old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def _pattern(said: str) -> str:
    """A regular expression for what is printed."""
    lines = []
    for line in said.splitlines():
        if line == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append(".*".join(map(re.escape, line.rstrip().split("..."))) + r"[ ]*\n")
    return "".join(lines)
