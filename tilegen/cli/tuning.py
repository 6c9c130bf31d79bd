"""tilegen tune: a table or a picture of what was measured, a bar while it is, and the best as a spec."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilegen.cli.console import current_color, print_data, print_json, print_note
from tilegen.cli.several import read_spec
from tilegen.cli.writing import write_together
from tilegen.tuned import read_spec as load_spec
from tilegen.tuning import TuneResult, TuneWishes, tune
from tilegen.tuning.showing import HEAD, result_data, summary_lines, table_rows, tune_picture

if TYPE_CHECKING:
    from tilegen.tuning.running import State

_WIDTH = 120


@dataclass(frozen=True)
class TuneOptions:
    """What ``tilegen tune`` was asked for. ``results``: the file of results, "" for the kernel's name."""

    spec: str
    results: str
    form: str
    write: str


def tune_command(options: TuneOptions, wishes: TuneWishes) -> int:
    """Tune one spec. Raises what ``tune`` raises, and InputError where the best cannot be written."""
    source = read_spec(options.spec)
    path = options.results or f"{load_spec(source, wishes.arch, wishes.settings).kernel}.tune.jsonl"
    with _watch(wishes) as watch:
        result = tune(source, path, wishes, watch=watch)
    if options.write:
        target = Path(options.write)
        write_together({target.name: result.text}, target.parent)
    if options.form == "json":
        print_json(result_data(result))
    elif options.form == "svg":
        print_data(tune_picture(result))
    else:
        print_data(_draw_table(result))
        for line in summary_lines(result):
            print_data(line)
        print_note(f"{path}: `tilegen build {options.spec} --tuned {path}` takes the best")
        if options.write:
            print_note(f"{options.write}: written")
    return 0


def _draw_table(result: TuneResult) -> str:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in HEAD[:-1]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(HEAD[-1], overflow="fold")
    for row in table_rows(result):
        table.add_row(*row)
    out = StringIO()
    Console(file=out, width=_WIDTH, markup=False, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))


# ---------------------------------------------------------------- while it runs
@contextmanager
def _watch(wishes: TuneWishes) -> Iterator[Any]:
    """A bar on a terminal: candidates that are done, the best so far, the time left."""
    if not sys.stderr.isatty():
        yield lambda state: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = [TextColumn("{task.description}", markup=False), BarColumn()]  # a narrow terminal has no bar
    console = Console(stderr=True, no_color=True if current_color() is False else None)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("starting", total=None)

        def show(state: State) -> None:
            bar.update(task, completed=state.done, total=state.done + state.left, description=say_state(state))

        yield show


def say_state(state: State) -> str:
    """How many are done, the best so far, what a plain build takes, and the time left, at first the budget's."""
    said = [f"{state.done} of {state.done + state.left}"]
    if state.best is not None:
        said.append(f"best {state.best.median_us:.2f} us")
    if state.first is not None and state.first.us:
        said.append(f"plain {state.first.median_us:.2f} us")
    if state.is_last:
        said.append("the best few once more")
    elif state.seconds_left < float("inf"):
        seconds = int(state.seconds_left)
        said.append(f"{seconds // 60}:{seconds % 60:02} {'left' if state.done else 'at most'}")
    return ", ".join(said)
