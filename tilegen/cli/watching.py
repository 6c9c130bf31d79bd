"""tilegen build --watch: what changed is built again, until Ctrl-C."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from tilegen.cli.console import print_note
from tilegen.cli.ending import SeveralFailed, print_errors
from tilegen.decisions import count_words
from tilegen.errors import TilegenError

_PAUSE_SECONDS = 0.2


def watch(specs: Sequence[str], make: Callable[[Sequence[str]], object]) -> int:
    """Call ``make`` with all specs, and with those that changed whenever some did. Ctrl-C ends it, with exit code 0.

    Errors are printed, and wait for the next change.
    """
    names = tuple(dict.fromkeys(specs))
    built: dict[str, tuple[int, int] | None] = {}
    try:
        while True:
            found = {name: _stamp(name) for name in names}
            changed = [name for name in names if name not in built or found[name] != built[name]]
            if changed:
                built = found  # as it was before: what changes meanwhile is built again
                _make(changed, make)
                print_note(f"watching {count_words(len(names), 'spec', 'specs')}; Ctrl-C ends")
            time.sleep(_PAUSE_SECONDS)
    except KeyboardInterrupt:
        print_note("stopped")
        return 0


def _make(specs: Sequence[str], make: Callable[[Sequence[str]], object]) -> None:
    try:
        make(specs)
    except TilegenError as error:
        print_errors([error])
    except SeveralFailed:
        pass  # what is wrong was printed as it was found


def _stamp(path: str) -> tuple[int, int] | None:
    """When a file was written last, and its size; None where there is none, as between an editor's two steps."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
