"""The short way of most calls: two arrays of the forms that the last call had, and nothing else.

All of it is one function with everything bound before that it needs. It knows the forms again, finds memory that holds
the arguments of a launch, and writes them only where they are not those that the memory holds already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.gpu.call.arrays import Match
from tilegen.gpu.call.kind_of_call import CallKind
from tilegen.gpu.call.launch_memory import FIRST_POINTER_WORD, STREAM_WORD, LaunchMemory, make_memory, write_maps

# Launches over arrays of known forms, and says whether it did: of what it leaves alone, the long way says why.
Again = Callable[[tuple[Any, ...]], bool]


def launch_nothing(arrays: tuple[Any, ...]) -> bool:
    """The short way before the first call: no form is known."""
    return False


def repeat_over_two(
    kind: CallKind, match_x: Match, match_y: Match, launch_again: Callable[[CallKind, LaunchMemory, int], None]
) -> Again:
    """The short way of calls of one kind; ``launch_again`` is told the status of a launch that failed."""
    mask, apart, reach, form, encode = kind.mask, -kind.reach, kind.reach, kind.form, kind.encode
    stream, device, launch, handle = kind.stream, kind.device, kind.launch, kind.handle
    spare: list[tuple[int, int, int, Any, Any, LaunchMemory]] = []  # that no thread is using, and what each holds

    def again(arrays: tuple[Any, ...]) -> bool:
        try:
            x, y = arrays
            x_at = match_x(x)
            if not x_at:
                return False
            y_at = match_y(y)
            if not y_at:
                return False
        except Exception:
            return False
        now = stream(device)
        try:
            ready = spare.pop()
        except IndexError:
            memory = make_memory(form)
            ready = (0, 0, 0, memory.config, memory.arguments, memory)
        x_held, y_held, held, config, arguments, memory = ready
        if x_at != x_held or y_at != y_held or now != held:
            if (x_at | y_at) & mask or apart < x_at - y_at < reach:
                spare.append(ready)
                return False
            words = memory.words
            words[STREAM_WORD] = now
            words[FIRST_POINTER_WORD] = x_at
            words[FIRST_POINTER_WORD + 1] = y_at
            if encode:
                write_maps(form, memory, encode((x_at, y_at)))
            ready = (x_at, y_at, now, config, arguments, memory)
        status = launch(config, handle, arguments, None)
        if status:
            launch_again(kind, memory, status)
        spare.append(ready)
        return True

    return again
