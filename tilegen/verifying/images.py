"""Whole physical images of a kernel's arrays: what they start as, what the spec means, and where they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from tilegen import gpu, layouts
from tilegen.arithmetic.hashes import mix, salt
from tilegen.dtypes import bits_dtype, numpy_dtype
from tilegen.errors import Diagnostic, ProofError
from tilegen.index import evaluate
from tilegen.ops import OPS
from tilegen.ops.op import MOVES
from tilegen.pipeline import Built
from tilegen.plan import Memory, arrays
from tilegen.proofs.floats import draw_elements, draw_floats
from tilegen.proofs.meaning import exact_limit, input_pattern
from tilegen.reference import Array, run_batches
from tilegen.spec.data import Buffer, Spec
from tilegen.spec.outline import launch_of, outline

Run = Callable[[Mapping[str, gpu.Image], Mapping[str, int]], Mapping[str, gpu.Image]]


def verify_run(built: Built, case: Mapping[str, int], seed: int, run: Run) -> int:
    """Run the kernel in any way and compare every byte; returns how many elements the spec writes.

    ``run(inputs, outputs)`` takes bytes of inputs and sizes of outputs, and returns the bytes of the outputs. Raises
    ProofError (TG421) at the first element that differs.
    """
    memories = {m.name: m for m in arrays(built.plan)}
    images = {name: make_image(built.spec, m, case, seed) for name, m in memories.items()}
    inputs = {n: images[n].view(np.uint8) for n, m in memories.items() if m.access != "out"}
    outputs = {n: images[n].nbytes for n, m in memories.items() if m.access != "in"}
    got = run(inputs, outputs)
    want, elems = reference_images(built.spec, memories, images, case)
    for name in outputs:
        compare_images(built.spec, memories[name], want[name], got[name], case)
    return elems


def make_image(spec: Spec, memory: Memory, case: Mapping[str, int], seed: int) -> Array:
    """The whole physical image of a global array: random bits, or numbers where the spec converts them, or says which
    there are.

    Half of these are integers, as many as every type of the spec holds, and half floats, which conversions round.
    """
    elems = int(evaluate(memory.span, dict(case)))
    dtype = numpy_dtype(memory.dtype)
    if memory.access == "out":
        return np.full(elems * dtype.itemsize, gpu.POISON, np.uint8).view(dtype)
    values = memory.values or spec.buffer(memory.name).values  # promised, or proved of what passes before leave
    if values is not None:
        return draw_elements(replace(memory, values=values), case, seed)(np.arange(elems))
    if any(OPS[c.op].exactness_of(c) != MOVES for c in outline(spec).calls):
        index = np.arange(elems)
        whole = input_pattern(memory.name, memory.dtype, seed, exact_limit(spec))(index)
        is_whole = mix(index.astype(np.uint64), salt(f"whole {seed}")) % np.uint64(2) == 0
        return np.where(is_whole, whole, draw_floats(memory.name, memory.dtype, seed)(index))
    rng = np.random.default_rng([seed, *memory.name.encode()])
    raw = rng.integers(0, 2 if memory.dtype == "bool" else 256, elems * dtype.itemsize, np.uint8)
    return raw.view(dtype)


def reference_images(
    spec: Spec, memories: Mapping[str, Memory], images: Mapping[str, Array], case: Mapping[str, int]
) -> tuple[dict[str, Array], int]:
    """The images after the whole grid has run, by the spec's own meaning, and how many elements it wrote."""
    out = {n: images[n].copy() for n, m in memories.items() if m.access != "in"}
    inputs = {n: images[n].__getitem__ for n, m in memories.items() if m.access != "out"}
    ctas = list_ctas(launch_of(spec, case).grid)
    elems = 0
    for written in run_batches(spec, ctas, inputs, dict(case)):
        for name, writes in written.items():
            raw = out[name].view(bits_dtype(out[name].dtype.itemsize))
            for offsets, values, *_ in writes:
                raw[offsets] = values
                elems += offsets.size
    return out, elems


def list_ctas(grid: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """Every CTA of a grid, x the fastest.

    >>> list_ctas((2, 1, 2))
    [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)]
    """
    x, y, z = grid
    return [(i, j, k) for k, j, i in product(range(z), range(y), range(x))]


def compare_images(
    spec: Spec, memory: Memory, want: Array, got: Array, case: Mapping[str, int], place: str = "on the GPU"
) -> None:
    """Every byte of an image. Raises ProofError TG421 at the first element that differs; ``place``: where it ran."""
    size = memory.elem_bytes
    different = (want.view(np.uint8) != got).reshape(-1, size).any(1)
    if not different.any():
        return
    at = int(different.argmax())
    bits = want.view(bits_dtype(size))[at], got.view(bits_dtype(size))[at]
    where = locate(spec.buffer(memory.name), at, case)
    raise ProofError(
        Diagnostic(
            "TG421",
            f"{memory.name}{where} (element offset {at}, byte {at * size}) is {bits[1]!r} {place}, not {bits[0]!r};"
            f" {int(different.sum())} of {len(different)} elements differ",
        )
    )


def locate(buffer: Buffer, offset: int, case: Mapping[str, int]) -> str:
    """The logical coordinates that lie at a physical offset, as ``[i, j]``; a note where none does."""
    shape = tuple(int(evaluate(n, dict(case))) for n in buffer.shape)
    layout = layouts.bind(buffer.layout, dict(case))
    rows = max(1, (1 << 22) // max(1, int(np.prod(shape[1:]))))
    for first in range(0, shape[0], rows):
        at = np.indices((min(rows, shape[0] - first), *shape[1:]), sparse=True)
        place = np.asarray(layout.place([at[0] + first, *at[1:]], shape)["m"])
        hit = np.argwhere(np.broadcast_to(place, (min(rows, shape[0] - first), *shape[1:])) == offset)
        if len(hit):
            return str([int(hit[0][0]) + first, *map(int, hit[0][1:])])
    return " between the layout's elements"
