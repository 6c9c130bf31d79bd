"""Programs called from Python on a GPU that is none: g++'s kernels run over memory of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from calls.pretended import Cupy, PretendedDriver, aligned, read_launch

from tilegen.calling import program_terms, terms_of
from tilegen.gpu import POISON, Cubin
from tilegen.gpu.call import Kernel, ProgramKernel
from tilegen.gpu.call.signature import KernelSignature
from tilegen.gpu.driver import Driver
from tilegen.pipeline import Built, BuiltProgram

WHEN = """
kernel: halves
params: {N: {default: 64, multiple_of: 32, max: 4096}}
buffers:
  X: {scope: global, dtype: float32, shape: [N]}
  Y: {scope: global, dtype: float32, shape: [N]}
passes:
  - name: copy
    grid: {bx: N // 32}
    threads: 32
    ops: [{copy: {scope: cta, src: "X[bx*32 : +32]", dst: "Y[bx*32 : +32]"}}]
  - name: negate
    when: N > 64
    grid: {bx: N // 32}
    threads: 32
    ops: [{elementwise: {scope: cta, dst: "Y[bx*32 : +32]", expr: "-x", with: {x: "X[bx*32 : +32]"}}}]
"""


Queued = tuple[int, Callable[[], object]]  # the stream of a launch, and what runs it


@dataclass(frozen=True)
class ProgramDriver(Driver):
    """What a program asks of the driver itself: whether a stream is captured."""

    capturing: list[int]

    def is_capturing(self, stream: int) -> bool:
        return stream in self.capturing

    def device_of(self, pointer: int) -> int | None:
        return 0


@dataclass(frozen=True)
class Pretended:
    kernel: ProgramKernel
    drivers: tuple[PretendedDriver, ...]
    capturing: list[int]

    @property
    def launched(self) -> list[dict[str, Any]]:
        return [seen for driver in self.drivers for seen in driver.seen]


class QueuingDriver(PretendedDriver):
    """Launches wait in ``queue``, each with its stream, until somebody runs them."""

    def __init__(self, terms: KernelSignature, built: Built, queue: list[Queued]):
        super().__init__(terms, built)
        self.__dict__["queue"] = queue

    def start(self, config: Any, handle: Any, arguments: Any, extra: Any) -> int:
        launched = read_launch(config, arguments, self.terms)
        self.seen.append(launched)
        cells = [(ctypes.c_float if isinstance(x, float) else ctypes.c_uint64)(x) for x in launched["arguments"]]
        held = (ctypes.c_void_p * len(cells))(*map(ctypes.addressof, cells))
        self.queue.append((launched["stream"], lambda: (cells, self.run(launched, ctypes.byref(held)))))
        return 0


def run_queued(queue: list[Queued], order: Sequence[int]) -> None:
    """Run what waits, the streams in this order: of each its launches in a row."""
    assert sorted(order) == sorted(stream for stream, _ in queue)
    for stream in order:
        at = next(k for k, one in enumerate(queue) if one[0] == stream)
        queue.pop(at)[1]()


def pretend_program(built: BuiltProgram, runs: bool = True, queue: list[Queued] | None = None) -> Pretended:
    """A program on the pretended GPU; without ``runs`` launches are only noted, with a ``queue`` they wait there."""
    drivers = list[PretendedDriver]()
    kernels = []
    for one in built.passes:
        terms = terms_of(one.spec, one.plan)
        driver = PretendedDriver(terms, one if runs else None) if queue is None else QueuingDriver(terms, one, queue)
        cubin = Cubin(one.plan.name, one.plan.arch, "g++", b"", "", 0, 0, 0, 0, 0)
        kernels.append(Kernel(terms, cubin, one.source, _always(driver)))
        drivers.append(driver)
    whole = ProgramDriver(None, drivers[0].launch, [])
    return Pretended(
        ProgramKernel(program_terms(built), kernels, built.source, lambda: whole), tuple(drivers), whole.capturing
    )


def _always(driver: Driver) -> Callable[[], Driver]:
    return lambda: driver


def allocate_poisoned(size: int) -> np.ndarray[Any, Any]:
    """Memory that holds nothing."""
    memory = aligned(size, np.uint8)
    memory[...] = POISON
    return memory


class Pool:
    """A library's memory for workspaces of ``size`` bytes: what a stream has given back it gets again, or any stream
    where that ``is_shared``.
    """

    def __init__(self, cupy: Cupy, size: int, is_shared: bool = False):
        self.cupy, self.size, self.is_shared = cupy, size, is_shared
        self.kept: dict[int, np.ndarray[Any, Any]] = {}

    def allocate(self, size: int) -> np.ndarray[Any, Any]:
        if size != self.size:
            return allocate_poisoned(size)
        return self.kept.setdefault(0 if self.is_shared else self.cupy.stream, allocate_poisoned(size))
