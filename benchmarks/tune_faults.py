"""A GPU on which some kernels go wrong: one never ends, one writes to no memory, one takes its process with it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from tilegen.bench.measuring import Session
from tilegen.gpu.device import load_cupy
from tilegen.tuning.gpu_bench import GpuBench, GpuMeter
from tilegen.tuning.meters import Asked, Guard, Timing

HANG = 'extern "C" __global__ void hang(volatile int* p) { while (*p == 0) { } }'
FAULT = 'extern "C" __global__ void fault(int* p) { p[1ull << 44] = 1; }'


@dataclass(frozen=True)
class WrongMeter(GpuMeter):
    """``wrongs``: by the name of a candidate, what happens to it: hang, fault, kill. ``log``: the names of what ran."""

    wrongs: tuple[tuple[str, str], ...] = ()
    log: str = ""

    def open(self) -> GpuBench:
        return WrongBench(super().open().session, self)


class WrongBench(GpuBench):
    def __init__(self, session: Session, meter: WrongMeter):
        super().__init__(session)
        self.meter = meter

    def time(self, asked: Asked, guard: Guard) -> Timing:
        name = asked.kernels[0].name
        if self.meter.log and asked.most_times < float("inf"):
            with Path(self.meter.log).open("a", encoding="utf-8") as file:
                file.write(name + "\n")
        self.wrong = dict(self.meter.wrongs).get(name, "")
        return super().time(asked, guard)

    def _time(self, asked: Asked, guard: Guard) -> Timing:
        if not self.wrong:
            return super()._time(asked, guard)
        if self.wrong == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        cupy = load_cupy()
        guard.begin("its first launch", asked.limit_seconds)
        memory = cupy.zeros(16, cupy.int32)
        kernel = cupy.RawKernel(HANG if self.wrong == "hang" else FAULT, self.wrong)
        kernel((1,), (1,), (memory,))
        cupy.cuda.get_current_stream().synchronize()
        raise AssertionError("a kernel that goes wrong has ended well")
