"""Programs called from Python on a GPU that is none: g++'s kernels run over memory of this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from calls.pretended import Cupy, Interface, PretendedDriver, aligned
from specs.kernels import PROGRAMS
from text.run import requires_gxx

from programs.kernels import build_small
from tests.meaning import PASSES
from tilegen.calling import program_terms, terms_of
from tilegen.errors import CallError
from tilegen.gpu import Cubin, device
from tilegen.gpu.call import Kernel, ProgramKernel
from tilegen.gpu.driver import Driver
from tilegen.pipeline import BuiltProgram, build

SUM_ALL = next(path for path in PROGRAMS if path.stem == "sum_all")
LAYERNORM = next(path for path in PROGRAMS if path.stem == "layernorm_backward")


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


def pretend_program(built: BuiltProgram, runs: bool = True) -> Pretended:
    drivers = []
    kernels = []
    for one in built.passes:
        terms = terms_of(one.spec, one.plan)
        driver = PretendedDriver(terms, one if runs else None)
        cubin = Cubin(one.plan.name, one.plan.arch, "g++", b"", "", 0, 0, 0, 0, 0)
        kernels.append(Kernel(terms, cubin, one.source, _always(driver)))
        drivers.append(driver)
    whole = ProgramDriver(None, drivers[0].launch, [])
    return Pretended(
        ProgramKernel(program_terms(built), kernels, built.source, lambda: whole), tuple(drivers), whole.capturing
    )


def _always(driver: Driver) -> Callable[[], Driver]:
    return lambda: driver


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cupy]:
    pretended = Cupy()
    monkeypatch.setitem(sys.modules, "cupy", pretended)  # type: ignore[arg-type]
    device.load_cupy.cache_clear()
    yield pretended
    device.load_cupy.cache_clear()


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    array = aligned(shape)
    array[...] = rng.standard_normal(shape)
    return array


@requires_gxx
def test_a_call_runs_all_passes_over_one_workspace(cupy):
    program = pretend_program(build_small(SUM_ALL, 0))
    rng = np.random.default_rng(1)
    for n in (9000, 1, 40_000):
        x = floats(rng, n)
        y = program.kernel(cupy.array(x))
        assert np.allclose(y.array, x.sum(dtype=np.float64), rtol=1e-5, atol=1e-3)
    names = [launch["grid"] for launch in program.launched]
    assert len(names) == 6


@requires_gxx
def test_counts_of_ctas_that_a_launch_decides_reach_the_passes_behind(cupy):
    """The pretended GPU holds 3 CTAs at once: the workspace has three numbers, and the second pass is told so."""
    program = pretend_program(build_small(SUM_ALL, 0))
    program.kernel(cupy.array(floats(np.random.default_rng(2), 40_000)))
    first, second = (driver.seen[-1] for driver in program.drivers)
    assert first["grid"] == (3, 1, 1)
    assert second["arguments"][-1] == 3
    program.kernel(cupy.array(floats(np.random.default_rng(2), 4097)))
    assert program.drivers[0].seen[-1]["grid"] == (2, 1, 1)
    assert program.drivers[1].seen[-1]["arguments"][-1] == 2


@requires_gxx
def test_several_workspaces_lie_apart(cupy):
    built = build_small(LAYERNORM, 0)
    program, rng = pretend_program(built), np.random.default_rng(3)
    m, n = 9, 512
    given = [floats(rng, m, n), floats(rng, m, n), floats(rng, n), floats(rng, m), floats(rng, m) + 1]
    bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in given[:3]]
    arrays = []
    for array in [*bits, *given[3:]]:
        own = aligned(array.shape, array.dtype)
        own[...] = array
        arrays.append(own)
    rounded = [(x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for x in bits]
    dx, dw, db = program.kernel(*map(cupy.array, arrays))
    want = PASSES["layernorm_backward"](*rounded, *(x.astype(np.float64) for x in given[3:]))
    for got, name in ((dx, "dX"), (dw, "dW"), (db, "dB")):
        values = (got.array.astype(np.uint32) << 16).view(np.float32)
        assert np.allclose(values, want[name], rtol=0.02, atol=0.05), name


def test_each_stream_has_the_workspace_of_its_library_and_a_graph_keeps_its_own(cupy):
    made = []
    allocate = cupy.cuda.alloc
    cupy.cuda.alloc = lambda size: made.append((cupy.stream, size)) or allocate(size)
    program = pretend_program(build_small(SUM_ALL, 0), runs=False)
    x, y = cupy.array(aligned(9000)), cupy.array(aligned(1))
    for stream in (7, 8, 7):
        cupy.stream = stream
        program.kernel(x, y)
    assert made == [(7, 256), (8, 256), (7, 256)]
    assert {launch["stream"] for launch in program.launched} == {7, 8}
    assert program.kernel._captured == []
    program.capturing.append(8)
    cupy.stream = 8
    program.kernel(x, y)
    assert len(program.kernel._captured) == 1


def test_arrays_of_a_library_that_allocates_nothing_are_refused():
    program = pretend_program(build_small(SUM_ALL, 0), runs=False)
    with pytest.raises(CallError, match="needs a workspace"):
        program.kernel(Interface(aligned(9000)), Interface(aligned(1)))
    assert program.launched == []


def test_a_wrong_argument_launches_nothing(cupy):
    program = pretend_program(build_small(SUM_ALL, 0), runs=False)
    x = cupy.array(aligned(9000))
    for wrong in ((x, cupy.array(aligned(2))), (cupy.array(aligned(9000, at=4)), cupy.array(aligned(1))), (x, x)):
        with pytest.raises(CallError):
            program.kernel(*wrong)
    assert program.launched == []


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


@requires_gxx
def test_a_pass_is_launched_only_where_its_condition_holds(cupy):
    built = build(WHEN)
    assert isinstance(built, BuiltProgram)
    program, rng = pretend_program(built), np.random.default_rng(4)
    for n, sign in ((64, 1), (96, -1)):
        x = floats(rng, n)
        assert np.array_equal(program.kernel(cupy.array(x)).array, sign * x)
    assert [len(driver.seen) for driver in program.drivers] == [2, 1]
