"""Launch each spec's kernel once, for a profiler that counts: ``python benchmarks/launch_once.py SPEC...``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tilegen
from tilegen import gpu
from tilegen.pipeline import parameter_cases
from tilegen.verify import launch_case, make_image


def main(paths: list[str]) -> None:
    for path in paths:
        built = tilegen.build(Path(path))
        case = parameter_cases(built.spec)[0]
        memories = [m for m in built.plan.memories if m.space == "global"]
        images = {m.name: make_image(built.spec, m, case, 1) for m in memories}
        cubin = gpu.compile_cubin(built.source, built.plan.arch, built.plan.name)
        inputs = {m.name: images[m.name].view(np.uint8) for m in memories if m.access != "out"}
        outputs = {m.name: images[m.name].nbytes for m in memories if m.access != "in"}
        gpu.run_images(cubin, launch_case(built, case), inputs, outputs)


if __name__ == "__main__":
    main(sys.argv[1:])
