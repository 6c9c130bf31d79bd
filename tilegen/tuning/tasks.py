"""What the processes of tuning carry out, one task at a time: they build, or they measure.

A process whose kernel hangs, or whose CUDA context a fault has ended, says so to the scheduler and leaves by
``os._exit``; its Nanny starts the next one. Such a process would go on answering else.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

from distributed import get_worker

from tilegen import __version__, gpu
from tilegen.errors import EnvironmentLack, ProofError, TilegenError
from tilegen.gpu import CompileError
from tilegen.pipeline import build
from tilegen.tuned import Environment
from tilegen.tuning.candidates import Candidate, vary
from tilegen.tuning.meters import Asked, Bench, Faulted, Meter, Prepared, Timing

TOPIC = "tilegen-tune"  # of events: the last words of a process that leaves
_HUNG, _FAULTED = 3, 4  # exit codes
_OPEN_SECONDS = 120.0
_SECONDS_FOR_WORDS = 1.0  # until the scheduler has them, once they are sent
_MOST_SECONDS_TO_SEND = 10.0  # where other processes have the processor
_BACKSTOP_SECONDS = 5.0  # later, where no thread of Python runs any more
_benches: dict[Meter, Bench] = {}  # of this process


def describe_process() -> dict[str, str]:
    """The versions that have to agree with those of who asks."""
    import distributed

    python = ".".join(map(str, sys.version_info[:2]))
    return {"tilegen": __version__, "distributed": distributed.__version__, "python": python}


def describe_meter(meter: Meter) -> Environment | EnvironmentLack:
    """What a measuring process has."""
    try:
        return meter.describe()
    except EnvironmentLack as lack:
        return lack


def vary_task(candidate: Candidate) -> list[Candidate]:
    """``vary``; nothing where the candidate is refused, as no measured one is."""
    try:
        return vary(candidate)
    except TilegenError:
        return []


def build_task(candidate: Candidate, meter: Meter) -> Prepared:
    """A candidate built, proved and compiled, or why not."""
    begun = time.perf_counter()

    def say(built: Any, outcome: str = "", message: str = "") -> Prepared:
        return Prepared(candidate.key, candidate.name, built, outcome, message, time.perf_counter() - begun)

    try:
        built = build(candidate.text)
        meter.prepare(built)
    except TilegenError as error:
        return say(None, "refused", str(error).partition("\n")[0])
    except CompileError as error:
        return say(None, "failed", str(error).partition("\n")[0])
    return say(built)


def time_task(asked: Asked, meter: Meter, *kernels: Prepared) -> Timing:
    """Times of kernels on the device of this process, the first of which is new. It may not return: see above.

    ``kernels`` go beside what else is asked, so that they come straight from the processes that built them.
    """
    new = kernels[0]
    if new.built is None:
        return Timing({}, new.outcome, new.message)
    words = partial(_leave, get_worker(), new.key)
    guard = Watchdog(words)
    try:
        if meter not in _benches:
            guard.begin("opening the device", _OPEN_SECONDS)
            _benches[meter] = meter.open()
        return _benches[meter].time(replace(asked, kernels=kernels), guard)
    except ProofError as error:
        if error.diagnostics[0].code == gpu.FAULT:
            words("faulted", str(error), _FAULTED)
        return Timing({}, "wrong", str(error).partition("\n")[0])
    except Faulted as error:
        words("faulted", str(error), _FAULTED)
    except (TilegenError, CompileError) as error:
        return Timing({}, "failed", str(error).partition("\n")[0])
    finally:
        guard.end()
    raise AssertionError("the process has ended")


class Watchdog:
    """A thread that ends the process where work takes longer than it may: it says ``leave(outcome, why, code)``."""

    def __init__(self, leave: Callable[[str, str, int], None]):
        self.leave = leave
        self.timer: threading.Timer | None = None

    def begin(self, what: str, seconds: float) -> None:
        """Watch what begins now, and nothing else any more."""
        self.end()
        self.timer = threading.Timer(seconds, self.leave, ("hung", f"no end of {what} within {seconds:g} s", _HUNG))
        self.timer.daemon = True
        self.timer.start()
        faulthandler.dump_traceback_later(seconds + _BACKSTOP_SECONDS, exit=True, file=_open_nothing())

    def end(self) -> None:
        """Watch nothing."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
            faulthandler.cancel_dump_traceback_later()


@cache
def _open_nothing() -> Any:
    return open(os.devnull, "w")  # faulthandler keeps its number: it stays open


def _wait_for_sending(worker: Any) -> None:
    """Until the loop of a worker has sent what it was given to send, but not for ever."""
    until, is_given = time.monotonic() + _MOST_SECONDS_TO_SEND, threading.Event()
    worker.loop.add_callback(is_given.set)  # behind what was logged
    is_given.wait(_MOST_SECONDS_TO_SEND)
    while worker.batched_stream.buffer and time.monotonic() < until:
        time.sleep(_SECONDS_FOR_WORDS / 20)


def _leave(worker: Any, key: str, outcome: str, message: str, code: int) -> None:
    """Say why, and end the process at once: nothing here waits for a device that does not answer."""
    try:
        worker.log_event(TOPIC, {"key": key, "outcome": outcome, "message": message})
        _wait_for_sending(worker)
        time.sleep(_SECONDS_FOR_WORDS)
    finally:
        os._exit(code)
