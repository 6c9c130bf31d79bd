"""One spec or many, files or standard input: many run side by side, each in a process of its own, told of at once."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TypeVar

from tilegen.cli.console import print_note
from tilegen.cli.ending import Bug, SeveralFailed, describe_bug, print_errors
from tilegen.cli.options import Manner
from tilegen.cli.progress import watch_progress
from tilegen.errors import Diagnostic, EnvironmentLack, InputError, TilegenError
from tilegen.side_by_side import Died, stream_tasks
from tilegen.spec import NamedText
from tilegen.spec.sources import MAX_BYTES, decode_text

Result = TypeVar("Result")
STDIN = "<stdin>"
Word = str | NamedText


def do_all(
    specs: Sequence[str], work: Callable[[str], Result], manner: Manner, show: Callable[[Result], object],
    tend: Callable[[], object] = lambda: None,
) -> list[Result]:  # fmt: skip
    """The results of ``try_all``, in the specs' order. Raises SeveralFailed once all have been tried."""
    found: list[Result | TilegenError] = try_all(specs, work, manner, show, tend)
    return sort_out(found, manner)


def try_all(
    specs: Sequence[str], work: Callable[[str], Result], manner: Manner, show: Callable[[Result], object],
    tend: Callable[[], object] = lambda: None,
) -> list[Result | TilegenError]:  # fmt: skip
    """``work(spec)`` for every spec as it was named: results, or what was raised, in the specs' order.

    As each ends, in any order, its result is shown, or its errors are printed; JSON is for the caller to print, once
    all is there. What is wrong with one spec, a bug of tilegen among it, stops no other. ``tend`` is called ten times a
    second while other processes work. Of one spec alone, which no other process is started for, a bug is raised as it
    is.
    """
    is_alone = len(specs) == 1
    is_elsewhere = not is_alone and manner.jobs > 1
    if is_elsewhere:
        _load_what_builds()
    tasks = [partial(_attempt, work, name, is_alone, manner.jobs) for name in specs]
    found: dict[int, Result | TilegenError] = {}
    with watch_progress(len(specs), is_elsewhere) as bar:

        def idle() -> None:
            bar.look()
            tend()

        outcomes = stream_tasks(tasks, manner.jobs, lambda k: bar.begin(specs[k], len(found)), idle)
        with closing(outcomes):
            for k, outcome in outcomes:
                one = found[k] = _explain_death(specs[k], outcome, manner.jobs)
                if not manner.is_json:
                    with bar.give_way():
                        print_errors([one]) if isinstance(one, TilegenError) else show(one)
    return [found[k] for k in range(len(specs))]


def sort_out(found: Sequence[Result | TilegenError], manner: Manner) -> list[Result]:
    """What ``try_all`` found, where there is no error in it. Raises SeveralFailed."""
    if errors := [one for one in found if isinstance(one, TilegenError)]:
        raise SeveralFailed(errors, were_printed=not manner.is_json)
    return [one for one in found if not isinstance(one, TilegenError)]


def read_specs(words: Sequence[str]) -> dict[str, Word]:
    """Each spec as it was named, once, and what that stands for; other processes have no standard input."""
    return {word: read_spec(word) for word in dict.fromkeys(words)}


def take_tuned(
    sources: dict[str, Word], tuned: str, arch: str | None, settings: Mapping[str, int | float]
) -> dict[str, Word]:
    """The specs with the best of a file of results written in; a note names it, and what of the file did not count.

    As they are where no file is named. Raises InputError TG614 for a spec that the file has nothing of.
    """
    if not tuned:
        return sources
    from tilegen.tuned import find_tuned

    found: dict[str, Word] = {}
    for name, source in sources.items():
        one = find_tuned(source, tuned, arch, settings)
        found[name] = one.source
        skipped = f"; skipped: {one.skipped}" if str(one.skipped) else ""
        print_note(f"{name}: tuned, {one.record.name}, {one.record.median_us:.2f} us when measured{skipped}")
    return found


def _load_what_builds() -> None:
    """What a build loads when it needs it: forked processes share it."""
    import tilegen.proofs
    import tilegen.render  # noqa: F401


def _attempt(work: Callable[[str], Result], name: str, is_alone: bool, jobs: int) -> Result | TilegenError:
    try:
        return work(name)
    except TilegenError as error:
        return error
    except MemoryError as error:
        if is_alone:
            raise
        return _lack_memory(name, str(error) or "no memory is left", jobs)
    except Exception as error:
        if is_alone:
            raise
        if os.environ.get("TILEGEN_DEBUG") == "1":
            traceback.print_exception(error, file=sys.stderr)
        return Bug(Diagnostic("TG690", f"{name}: internal error: {describe_bug(error)}; this is a bug in tilegen"))


def _explain_death(name: str, outcome: Result | TilegenError | Died, jobs: int) -> Result | TilegenError:
    """The outcome itself, or the error that a process is gone."""
    if not isinstance(outcome, Died):
        return outcome
    return _lack_memory(name, f"the process that worked on it is gone: {outcome.why}", jobs)


def _lack_memory(name: str, why: str, jobs: int) -> TilegenError:
    fewer = f"`-j {max(1, jobs // 2)}` has fewer kernels in memory at a time"
    return EnvironmentLack(Diagnostic("TG505", f"{name}: {why}", hint=f"memory may have run out: {fewer}"))


def read_spec(word: str) -> Word:
    """The path, or for ``-`` the text of standard input. Raises InputError (TG001, TG002) where there is none."""
    if word != "-":
        return word
    if sys.stdin is None:
        raise InputError(Diagnostic("TG001", f"cannot read {STDIN}: it is closed"))
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(Diagnostic("TG001", f"cannot read {STDIN}: {error.strerror or error}")) from None
    return decode_text(data, STDIN)
