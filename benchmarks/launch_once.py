"""Launch each spec's kernel, or passes, once, for a profiler or a checker: ``launch_once.py [--sanitized] SPEC...``.

Passes are launched by Python's call, each workspace in memory of its own: no pool hands on what another has written.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from program_runs import draw_images, output_bytes
from python_calls import AnyBuilt, start_by_cupy
from unproved import build_unproved, open_workers

import tilegen
from tilegen import gpu
from tilegen.arch import ARCHES
from tilegen.pipeline import Built, BuiltProgram
from tilegen.plan import arrays, default_values
from tilegen.proofs.meaning import parameter_cases
from tilegen.verifying import compile_for, launch_case, make_image

FEW = 8  # specs that are built one after another
# Sizes at which large specs are verified and counted; the products of measure_products are of their own.
COUNTED_AT = {
    "attention": {"BH": 2, "S": 1000}, "gemm_bias_gelu": {"M": 512, "N": 512, "K": 512},
    "gemm_int8_rows": {"M": 512, "N": 512, "K": 512}, "gemm_w8a16": {"M": 512, "N": 512, "K": 512},
    "hgemm_step4": {"M": 512, "N": 512, "K": 512}, "sgemm_step1": {"M": 512, "N": 512, "K": 512},
    "layernorm_backward": {"M": 100},  # as many CTAs as rows, however many the GPU holds
}  # fmt: skip
# Sizes at which they are sanitized: a few CTAs, trips enough that every stage is filled again.
SANITIZED_AT = {
    "attention": {"BH": 1, "S": 300}, "gemm_bias_gelu": {"M": 256, "N": 256, "K": 320},
    "gemm_int8_rows": {"M": 256, "N": 256, "K": 320}, "gemm_w8a16": {"M": 256, "N": 256, "K": 320},
    "hgemm_step4": {"M": 256, "N": 256, "K": 256}, "sgemm_step1": {"M": 256, "N": 256, "K": 64},
    "attention_backward": {"BH": 1, "causal": 1}, "gemm_split": {"N": 64, "K": 1088},
    "gemm_split_k": {"N": 512, "K": 1088}, "layernorm_backward": {"M": 300}, "max_columns": {"M": 2049, "N": 96},
}  # fmt: skip


def build_for(
    device: gpu.Device, path: str, sizes: Mapping[str, Mapping[str, int]] = COUNTED_AT, proved: bool = False
) -> AnyBuilt:
    """The spec's kernel, or its passes; one for an arch that the device does not have is built for the device's own.

    Its proofs are left to the tests, which build every spec, unless ``proved``.
    """
    params = sizes.get(Path(path).stem, {})
    spec = tilegen.load(Path(path), params=params)
    if ARCHES[spec.arch].compute_capability > device.compute_capability:
        spec = tilegen.load(Path(path), "sm_{}{}".format(*device.compute_capability), params)
    if proved:
        return tilegen.build(spec)
    return build_unproved(spec, Path(path).name)


def build_all(
    device: gpu.Device, paths: Sequence[str], sizes: Mapping[str, Mapping[str, int]] = COUNTED_AT, proved: bool = False
) -> list[AnyBuilt]:
    """The kernels of specs; of many, in as many processes as there are CPUs."""
    build = partial(build_for, device, sizes=sizes, proved=proved)
    if len(paths) < FEW:
        return [build(path) for path in paths]
    with open_workers() as pool:
        return list(pool.map(build, paths))


def launch_kernel(device: gpu.Device, built: Built) -> None:
    """Launch a kernel over drawn arrays."""
    case = parameter_cases(built.spec)[0]
    memories = arrays(built.plan)
    images = {m.name: make_image(built.spec, m, case, 1) for m in memories}
    cubin = compile_for(device, built)
    inputs = {m.name: images[m.name].view(np.uint8) for m in memories if m.access != "out"}
    outputs = {m.name: images[m.name].nbytes for m in memories if m.access != "in"}
    gpu.run_images(cubin, launch_case(built, case), inputs, outputs)


def launch_program(device: gpu.Device, built: BuiltProgram) -> None:
    """Launch all passes over drawn arrays."""
    import cupy

    start, images, sizes = start_by_cupy(device, [built]), draw_images(built, 1), output_bytes(built)
    with cupy.cuda.using_allocator(None):
        given = [
            cupy.asarray(images[m.name]) if m.name in images else cupy.empty(sizes[m.name], cupy.uint8)
            for m in built.plan.arrays
        ]
        start(built, default_values(built.spec.params), given)
        cupy.cuda.Device().synchronize()


def main(arguments: list[str]) -> None:
    device = gpu.require_gpu()
    sizes = SANITIZED_AT if "--sanitized" in arguments else COUNTED_AT
    for built in build_all(device, [a for a in arguments if a != "--sanitized"], sizes):
        if isinstance(built, BuiltProgram):
            launch_program(device, built)
        else:
            launch_kernel(device, built)


if __name__ == "__main__":
    main(sys.argv[1:])
