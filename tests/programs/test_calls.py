"""Programs called from Python on a GPU that is none: g++'s kernels run over memory of this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from calls.pretended import Cupy, Interface, aligned, draw_floats, pretend_cupy
from text.run import requires_gxx

from programs.kernels import LAYERNORM, SUM_ALL, build_small
from programs.pretended import (
    WHEN,
    Pool,
    Pretended,
    Queued,
    allocate_poisoned,
    pretend_program,
    run_queued,
)
from tests.meaning import PASSES
from tests.session import once
from tilegen.errors import CallError
from tilegen.gpu.call import ProgramKernel, ProgramSignature
from tilegen.pipeline import BuiltProgram, build

cupy = pytest.fixture(pretend_cupy)


@once
def build_when() -> BuiltProgram:
    built = build(WHEN)
    assert isinstance(built, BuiltProgram)
    return built


# ---------------------------------------------------------------- results, right or not
def sums_rightly(program: Pretended, cupy: Cupy, *sizes: int) -> bool:
    """Whether ``sum_all`` is right for arrays of these sizes."""
    given = [draw_floats(n) for n in sizes]
    found = [program.kernel(cupy.array(x)).array for x in given]
    return all(map(is_sum, found, given))


def is_sum(found: Any, x: Any) -> bool:
    return bool(np.allclose(found, x.sum(dtype=np.float64), rtol=1e-5, atol=1e-3))


def has_right_gradients(program: Pretended, cupy: Cupy) -> bool:
    """Whether ``layernorm_backward`` is."""
    m, n = 9, 512
    given = [draw_floats(*shape, seed=k) for k, shape in enumerate(((m, n), (m, n), (n,), (m,), (m,)))]
    given[4] += 1
    arrays = [aligned(x.shape, np.uint16) for x in given[:3]]
    for array, x in zip(arrays, given, strict=False):
        array[...] = x.view(np.uint32) >> 16
    results = program.kernel(*map(cupy.array, [*arrays, *given[3:]]))
    want = PASSES["layernorm_backward"](*map(widen, arrays), *(x.astype(np.float64) for x in given[3:]))
    found = dict(zip(("dX", "dW", "dB"), results, strict=True))
    return all(np.allclose(widen(found[name].array), want[name], rtol=0.02, atol=0.05) for name in want)


def widen(bits: Any) -> Any:
    """bfloat16 as float64."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def negates_above_64(program: Pretended, cupy: Cupy) -> bool:
    """Whether ``halves`` is right."""
    found = []
    for n, sign in ((64, 1), (96, -1)):
        x = draw_floats(n)
        found.append(np.array_equal(program.kernel(cupy.array(x)).array, sign * x))
    return all(found)


@requires_gxx
def test_a_call_runs_all_passes_over_one_workspace(cupy):
    program = pretend_program(build_small(SUM_ALL, 0))
    assert sums_rightly(program, cupy, 9000, 1, 40_000)
    assert len(program.launched) == 6


@requires_gxx
def test_counts_of_ctas_that_a_launch_decides_reach_the_passes_behind(cupy):
    """The pretended GPU holds 3 CTAs at once: the workspace has three numbers, and the second pass is told so."""
    program = pretend_program(build_small(SUM_ALL, 0))
    program.kernel(cupy.array(draw_floats(40_000)))
    first, second = (driver.seen[-1] for driver in program.drivers)
    assert first["grid"] == (3, 1, 1)
    assert second["arguments"][-1] == 3
    program.kernel(cupy.array(draw_floats(4097)))
    assert program.drivers[0].seen[-1]["grid"] == (2, 1, 1)
    assert program.drivers[1].seen[-1]["arguments"][-1] == 2


@requires_gxx
def test_several_workspaces_lie_apart(cupy):
    assert has_right_gradients(pretend_program(build_small(LAYERNORM, 0)), cupy)


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


@requires_gxx
def test_a_pass_is_launched_only_where_its_condition_holds(cupy):
    program = pretend_program(build_when())
    assert negates_above_64(program, cupy)
    assert [len(driver.seen) for driver in program.drivers] == [2, 1]


# ---------------------------------------------------------------- faults of a launcher
def turn_round(kernel: ProgramKernel) -> ProgramSignature:
    kernel.kernels = kernel.kernels[::-1]
    return replace(kernel.program, passes=kernel.program.passes[::-1])


def launch_where(kernel: ProgramKernel, when: bool) -> ProgramSignature:
    first, second = kernel.program.passes
    return replace(kernel.program, passes=(first, replace(second, when=when)))


def lay_first_on_second(kernel: ProgramKernel) -> ProgramSignature:
    (name, _), second = kernel.program.workspaces
    return replace(kernel.program, workspaces=((name, 0), second))


Judge = Callable[[Pretended, Cupy], bool]
FAULTS: dict[str, tuple[Callable[[], BuiltProgram], Judge, Callable[[ProgramKernel], ProgramSignature]]] = {
    "two workspaces at one place": (lambda: build_small(LAYERNORM, 0), has_right_gradients, lay_first_on_second),
    "the passes turned round": (lambda: build_small(SUM_ALL, 0), lambda *on: sums_rightly(*on, 9000), turn_round),
    "a pass whatever its condition says": (build_when, negates_above_64, lambda k: launch_where(k, True)),
    "a pass left out": (build_when, negates_above_64, lambda k: launch_where(k, False)),
}


@requires_gxx
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_launcher_shows_in_results(cupy, fault):
    """As it does on a GPU, where a launch of all passes is compared with its passes one by one."""
    built, is_right, spoil = FAULTS[fault]
    program = pretend_program(built())
    cupy.cuda.alloc = allocate_poisoned
    assert is_right(program, cupy)
    spoilt = pretend_program(built())
    spoilt.kernel.program = spoil(spoilt.kernel)
    assert not is_right(spoilt, cupy)


@requires_gxx
@pytest.mark.parametrize("is_shared", [False, True])
def test_two_streams_have_a_workspace_each(cupy, is_shared):
    """In every order of their passes both sums are right; with one workspace for both, in some order one is not."""
    built, wrong = build_small(SUM_ALL, 0), 0
    inputs = [draw_floats(40_000, seed=seed) for seed in (1, 2)]
    for order in sorted(set(permutations((7, 7, 8, 8)))):
        cupy.cuda.alloc = Pool(cupy, 256, is_shared).allocate
        queue = list[Queued]()
        program = pretend_program(built, queue=queue)
        found = []
        for cupy.stream, x in zip((7, 8), inputs, strict=True):
            found.append(program.kernel(cupy.array(x)))
        run_queued(queue, order)
        wrong += not all(is_sum(y.array, x) for y, x in zip(found, inputs, strict=True))
    assert bool(wrong) == is_shared
