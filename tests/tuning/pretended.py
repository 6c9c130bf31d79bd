"""A device that is none: it sleeps for a time that is drawn from a candidate's name, and can go wrong as one can."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilegen.tuned import Environment
from tilegen.tuning.meters import Asked, Faulted, Guard, Timing

HERE = Environment("a pretended device", "CUDA 0.0", "no compiler", "0")

MOVE = """\
kernel: move
params: {M: {default: 64}, N: 512, T: {choices: CHOICES}}
grid: {bx: M}
threads: T
buffers:
  X: {scope: global, dtype: float32, shape: [M, N]}
  Y: {scope: global, dtype: float32, shape: [M, N]}
ops:
  - copy: {src: "X[bx : +1]", dst: "Y[bx : +1]"}
"""


def draw_us(name: str) -> float:
    """From 10 to 200 microseconds, by the name alone."""
    return 10 + int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 1900 / 10


@dataclass(frozen=True)
class Pretended:
    """``wrongs``: by a part of a name, what happens to who has it: hang, fault, kill. ``log``: a file of what ran.

    ``once``: a folder in which each wrong leaves a mark, so that it happens once. ``seconds``: that each takes.
    ``slow``: the threads of what takes 8 s to be compiled.
    """

    log: str
    wrongs: tuple[tuple[str, str], ...] = ()
    once: str = ""
    seconds: float = 0.01
    here: Environment = HERE
    slow: int = 0

    def describe(self) -> Environment:
        return self.here

    def prepare(self, built: Any) -> None:
        if built.plan.threads == self.slow:
            time.sleep(8)

    def open(self) -> PretendedBench:
        return PretendedBench(self)


@dataclass
class PretendedBench:
    meter: Pretended
    seen: list[str] = field(default_factory=list)

    def time(self, asked: Asked, guard: Guard) -> Timing:
        new = asked.kernels[0]
        if asked.most_times < float("inf"):  # not the last round
            with Path(self.meter.log).open("a") as log:
                log.write(json.dumps({"name": new.name, "pid": os.getpid(), "beside": len(asked.kernels)}) + "\n")
        guard.begin("its launches", asked.limit_seconds)
        time.sleep(self.meter.seconds)
        for part, what in self.meter.wrongs:
            if part in new.name and self.may(what):
                if what == "hang":
                    time.sleep(3600)
                if what == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if what == "fault":
                    raise Faulted("an illegal memory access was encountered")
        guard.end()
        return Timing({one.key: (draw_us(one.name),) * asked.rounds for one in asked.kernels})

    def may(self, what: str) -> bool:
        if not self.meter.once:
            return True
        mark = Path(self.meter.once, what)
        if mark.exists():
            return False
        mark.touch()
        return True
