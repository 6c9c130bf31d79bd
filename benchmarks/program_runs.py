"""One launch of a spec with passes on the GPU: its inputs, and its results beside what all passes together mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from python_calls import Start

from tilegen import gpu
from tilegen.dtypes import numpy_dtype
from tilegen.index import evaluate
from tilegen.pipeline import BuiltProgram
from tilegen.plan import default_values
from tilegen.proofs.floats import compare_floats
from tilegen.verifying.floats import draw_image
from tilegen.verifying.programs import draw_inputs, mean_together

Images = dict[str, Any]  # the bytes of arrays, by name


def draw_images(built: BuiltProgram, seed: int) -> Images:
    """The arrays that the passes read."""
    elems, drawn = count_elements(built), draw_inputs(built, seed)
    dtypes = {m.name: numpy_dtype(m.dtype) for m in built.plan.arrays}
    return {name: draw_image(one, elems[name], dtypes[name]).view(np.uint8) for name, one in drawn.items()}


def count_elements(built: BuiltProgram) -> dict[str, int]:
    """Elements of each of the caller's arrays, gaps of its layout too, at the defaults."""
    values = default_values(built.spec.params)
    return {m.name: int(evaluate(m.span, values)) for m in built.plan.arrays}


def output_bytes(built: BuiltProgram) -> dict[str, int]:
    """Bytes of each array that the passes write."""
    elems = count_elements(built)
    return {m.name: elems[m.name] * m.elem_bytes for m in built.plan.arrays if m.access != "in"}


def run_checked(built: BuiltProgram, start: Start, seed: int) -> Images:
    """What a launch leaves in each array that it writes, every element within its bound, at the defaults.

    Raises ProofError where one is not, or where the launch writes elsewhere or faults.
    """
    case, images = default_values(built.spec.params), draw_images(built, seed)
    begin = lambda given: start(built, case, given)  # noqa: E731
    names = [m.name for m in built.plan.arrays]
    found = gpu.run_guarded(built.plan.name, names, begin, images, output_bytes(built))
    meant = mean_together(built, draw_inputs(built, seed))
    for m in built.plan.arrays:
        if m.access != "in":
            at, bound = meant[m.name]
            compare_floats(m.name, at, np.ascontiguousarray(found[m.name]).view(numpy_dtype(m.dtype))[at], bound)
    return found
