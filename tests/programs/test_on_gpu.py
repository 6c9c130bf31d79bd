"""`verify --device gpu` of a program, without a GPU: g++'s kernels stand for the device's."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from text.run import compile_plans, requires_runner

from programs.kernels import SUM_ALL, build_small
from tests.meaning import PASSES
from tilegen import gpu
from tilegen.pipeline import BuiltProgram
from tilegen.plan import arguments
from tilegen.scopes import COUNT_AXES
from tilegen.verifying import devices, on_gpu


def pretend_access(built: BuiltProgram) -> gpu.GpuAccess:
    """Runs by name, as the process that runs the GPU for others does them."""
    runners = {one.plan.name: compile_plans([one.plan])[0] for one in built.passes}

    def run(cubin: Any, launch: gpu.GpuLaunch, images: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
        runner = runners[launch.kernel]
        given = zip(arguments(runner.plan.params), launch.params, strict=True)
        params = {p.name: value.item() for p, value in given}
        params |= {name: launch.grid[d] for d, name in enumerate(COUNT_AXES)}
        found = runner.run(images, params)
        return {name: np.ascontiguousarray(found[name]).view(np.uint8) for name in sizes}

    device = SimpleNamespace(name="pretended", compute_capability=(9, 0))
    return gpu.GpuAccess(lambda arch: device, run)


@requires_runner
def test_passes_run_one_over_what_the_other_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    built = build_small(SUM_ALL, 0)
    monkeypatch.setattr(on_gpu, "compile_for", lambda device, kernel: None)
    verified = devices.verify_built(built, "gpu", [1, 2], PASSES["sum_all"], pretend_access(built))
    assert verified.device == "pretended"
    together = [line for line in verified.lines if line.startswith("together: ")]
    assert len(together) == 2 and "against: Y" in together[1]
