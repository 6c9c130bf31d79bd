"""Launch each spec's kernel once, for a profiler that counts: ``python benchmarks/launch_once.py SPEC...``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tilegen
from tilegen import gpu
from tilegen.arch import ARCHES
from tilegen.pipeline import Built
from tilegen.plan import arrays
from tilegen.proofs.meaning import parameter_cases
from tilegen.verifying import compile_for, launch_case, make_image


def build_for(device: gpu.Device, path: str) -> Built:
    """The spec's kernel; one for an arch that the device does not have is built for the device's own."""
    spec = tilegen.load(Path(path))
    major, minor = device.compute_capability
    newer = ARCHES[spec.arch].compute_capability > device.compute_capability
    return tilegen.build(Path(path), arch=f"sm_{major}{minor}") if newer else tilegen.build(spec)


def main(paths: list[str]) -> None:
    device = gpu.require_gpu()
    for path in paths:
        built = build_for(device, path)
        case = parameter_cases(built.spec)[0]
        memories = arrays(built.plan)
        images = {m.name: make_image(built.spec, m, case, 1) for m in memories}
        cubin = compile_for(device, built)
        inputs = {m.name: images[m.name].view(np.uint8) for m in memories if m.access != "out"}
        outputs = {m.name: images[m.name].nbytes for m in memories if m.access != "in"}
        gpu.run_images(cubin, launch_case(built, case), inputs, outputs)


if __name__ == "__main__":
    main(sys.argv[1:])
