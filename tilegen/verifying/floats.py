"""What a kernel computes against the bounds of what its spec means, wherever the kernel ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tilegen import gpu
from tilegen.dtypes import numpy_dtype
from tilegen.index import bound, evaluate, substitute
from tilegen.index.recurrences import ALL_TRIPS
from tilegen.ops import mma
from tilegen.ops.mma.atoms import extents_of
from tilegen.pipeline import Built
from tilegen.plan import arrays, default_values
from tilegen.proofs.against import Meaning, ask_meaning
from tilegen.proofs.floats import FloatRun, compare_floats, float_inputs, run_bounded
from tilegen.proofs.nans import NanWatch, find_lasting_nans
from tilegen.reference import Array, Input
from tilegen.scopes import SCOPES
from tilegen.spec.accumulated import accumulated_arrays
from tilegen.spec.data import Call, Spec
from tilegen.spec.outline import Placed, launch_of, outline
from tilegen.verifying.images import Run, compare_images, locate
from tilegen.verifying.verified import case_text, count

Cta = tuple[int, int, int]
_BOUNDED_ELEMS = 1 << 22  # elements of outputs whose bounds are computed for one run on a GPU
_EFFORT = 1 << 28  # of the CTAs compared after one run, as count_effort has it: 8 s
_LONG = 1 << 27
_PART = 1 << 16  # elements
_PRODUCTS = 8  # multiply-adds take as long as an element that an op touches: 4 ns and 30 ns, with bounds


def say_lasting_nans(built: Built, case: Mapping[str, int], seeds: Sequence[int], watch: NanWatch) -> tuple[str, ...]:
    """A note for each array some of whose elements are NaN whatever the inputs, with the place of the first."""
    notes = []
    for found in find_lasting_nans(built.spec, built.plan, case, seeds, watch):
        place = f"{found.name}{locate(built.spec.buffer(found.name), found.offset, case)}"
        more = f", and so are {found.elements - 1} more elements of CTA {found.cta}" if found.elements > 1 else ""
        used = f" with {said}" if (said := case_text(case).strip()) else ""
        notes.append(f"{place} is NaN in each of {found.runs} runs{used}{more}")
    return tuple(notes)


def at_offsets(written: Mapping[str, tuple[Array, Array]]) -> Callable[[str, Array], Array]:
    """What gives the elements at some offsets of an array, of those that were written: of each offsets and elements."""

    def got_at(name: str, at: Array) -> Array:
        offsets, elements = written[name]
        found: Array = elements[np.searchsorted(offsets, at)]
        return found

    return got_at


def compare_run(
    built: Built, run: FloatRun, got_at: Callable[[str, Array], Array], against: Meaning | None,
    watch: NanWatch | None = None,
) -> list[str]:  # fmt: skip
    """What CTAs wrote against the bounds of what they mean; ``got_at`` gives elements of an array at some offsets."""
    spec, lines = built.spec, []
    bounds = run_bounded(spec, run)
    if watch is not None:
        watch.see(run.ctas, run.trips, {name: (at, np.asarray(want.value)) for name, (at, want) in bounds.items()})
    for name, (at, want) in sorted(bounds.items()):
        words = partial(locate, spec.buffer(name), case=run.params)
        lines.append(str(compare_floats(name, at, got_at(name, at), want, where=words)))
    if against is not None:
        meant = ask_meaning(against, spec, run.params, run.inputs, tuple(sorted(bounds)))
        if run.trips == ALL_TRIPS and len(run.ctas) == count_ctas(built, run.params):
            for m in arrays(built.plan):
                if m.access == "out" and m.name in bounds:
                    meant.compare_rest(m.name, bounds[m.name][0])
        for name, (at, want) in sorted(run_bounded(spec, run, is_tight=False).items()):
            found = meant.compare(name, at, got_at(name, at), want)
            lines.append(f"against: {found}".replace("float: ", ""))
    return lines


def verify_floats_run(
    built: Built, case: Mapping[str, int], seed: int, run: Run, against: Meaning | None, watch: NanWatch | None = None
) -> list[str]:
    """Run the kernel in any way and compare what it computes within its bounds; the rest of its bytes are untouched."""
    memories = {m.name: m for m in arrays(built.plan)}
    inputs = float_inputs(built.plan, seed, case, built.spec)
    images = {}
    for name, m in memories.items():
        elems, dtype = int(evaluate(m.span, dict(case))), numpy_dtype(m.dtype)
        poison = np.full(elems * dtype.itemsize, gpu.POISON, np.uint8).view(dtype)
        images[name] = poison if m.access == "out" else draw_image(inputs[name], elems, dtype)
    given = {n: images[n].view(np.uint8) for n, m in memories.items() if m.access != "out"}
    raw = run(given, {n: images[n].nbytes for n, m in memories.items() if m.access != "in"})
    got = {name: np.ascontiguousarray(image).view(numpy_dtype(memories[name].dtype)) for name, image in raw.items()}
    ctas = choose_ctas(built, case, sum(image.size for image in got.values()), seed)
    compared = FloatRun(ctas, inputs, case)
    lines = compare_run(built, compared, lambda name, at: got[name][at], against, watch)
    if len(ctas) == count_ctas(built, case):
        _check_untouched(built, compared, images, got)
    return [f"{line} ({count(len(ctas), 'CTA')} of {count_ctas(built, case)})" for line in lines]


def count_ctas(built: Built, case: Mapping[str, int]) -> int:
    """CTAs of a launch."""
    return prod(launch_of(built.spec, case).grid)


def choose_ctas(built: Built, case: Mapping[str, int], elems: int, seed: int) -> list[Cta]:
    """The CTAs that are compared after a run: all, or as many as are affordable, from all over the grid.

    ``elems``: of all outputs. The first and the last are always among them, and others with other seeds. An array that
    is accumulated into holds what all of them come to, so all are compared.
    """
    (x, y, _), total = launch_of(built.spec, case).grid, count_ctas(built, case)
    most = (
        total
        if accumulated_arrays(built.spec)
        else min(_BOUNDED_ELEMS // max(1, elems // total), _EFFORT // max(1, count_effort(built.spec, case)))
    )
    numbers = np.arange(total)
    if most < total:
        ends = np.linspace(1, total - 1, max(0, most - 2) + 1).astype(np.int64)  # one of each part in between
        drawn = np.random.default_rng(seed).integers(ends[:-1], np.maximum(ends[1:], ends[:-1] + 1))
        numbers = np.unique([0, *drawn, total - 1])
    return [(int(n) % x, int(n) // x % y, int(n) // (x * y)) for n in numbers]


def takes_long(built: Built, case: Mapping[str, int]) -> bool:
    """Whether comparing one run takes so long that other processes are worth starting: seconds."""
    return count_effort(built.spec, case) * count_ctas(built, case) > _LONG


def draw_image(given: Input, elems: int, dtype: np.dtype[Any]) -> Array:
    """All elements of an array, drawn a part at a time: what is on the way stays in the cache."""
    image = np.empty(elems, dtype)
    for begin in range(0, elems, _PART):
        part = np.arange(begin, min(begin + _PART, elems))
        image[part[0] : part[0] + len(part)] = given(part)
    return image


def _check_untouched(
    built: Built, run: FloatRun, before: Mapping[str, Array], got: Mapping[str, Array]
) -> None:  # fmt: skip
    """Bytes that no CTA writes are what they were. Raises ProofError TG421."""
    memories = {m.name: m for m in arrays(built.plan)}
    written = run_bounded(built.spec, run)
    for name, image in got.items():
        want = image.copy()
        free = np.ones(len(image), bool)
        if name in written:  # with some sizes nobody writes any of it
            free[written[name][0]] = False
        want[free] = before[name][free]
        compare_images(built.spec, memories[name], want, image.view(np.uint8), run.params)


def count_effort(spec: Spec, case: Mapping[str, int]) -> int:
    """Elements that the ops of a CTA touch at most, products counted as the elements that take as long."""
    values = default_values(spec.params) | dict(case)
    return sum(_count(spec, p, p.statement, values) for p in outline(spec).placed if isinstance(p.statement, Call))


def _count(spec: Spec, placed: Placed, call: Call, values: Mapping[str, int]) -> int:
    trips = prod(max(0, bound(substitute(one.count, values)) - 1) for one in placed.meant.loops)
    threads = spec.threads_of(placed.role)
    each = sum(prod(region.lengths) for region in call.regions.values())
    if call.op == mma.OP.name:
        each += prod(extents_of(call)) // _PRODUCTS
    return trips * (threads // SCOPES[call.scope].size(threads)) * each
