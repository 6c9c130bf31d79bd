"""What a scan of whole arrays means, and what each of its passes does: every element from those before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic import Element, to_type
from tilegen.dtypes import DTYPES
from tilegen.index import evaluate
from tilegen.ops.expanding import mean_pass
from tilegen.ops.op import WholeHere
from tilegen.ops.reduce_array.problem import identity_of
from tilegen.ops.scan_array.problem import WholeScan, read_problem
from tilegen.ops.strided import find_coordinates, find_offsets
from tilegen.spec.data import Buffer, WholeCall

Array = NDArray[Any]

_PIECE = 1 << 18  # elements that are scanned at a time


@dataclass(frozen=True)
class ChunkFields:
    """``whole``: the scan. A chunk has ``elements`` of each line, the last one fewer."""

    whole: WholeCall
    elements: int


def scan_whole(call: WholeCall, offsets: Array, here: WholeHere) -> dict[str, Array]:
    """The elements at flat offsets of dst, each from all before it."""
    problem = read_problem(call)
    kept, at = _split(problem, find_coordinates(problem.dst, offsets, here.params))
    length = int(evaluate(problem.line, dict(here.params)))
    return {"dst": _scan_blocks(problem, (kept, at), length, here, lambda kept, block: _nothing(problem, here))}


def _split(problem: WholeScan, at: list[Array]) -> tuple[Array, Array]:
    """Coordinates as the number of a line, and a place along it."""
    return (at[1 - problem.axis] if problem.has_rows else np.zeros_like(at[0])), at[problem.axis]


def _join(problem: WholeScan, kept: Array, along: Array) -> list[Array]:
    """The inverse of ``_split``."""
    if not problem.has_rows:
        return [along]
    return [along, kept] if problem.axis == 0 else [kept, along]


def _nothing(problem: WholeScan, here: WholeHere) -> Array:
    return here.domain.fill(identity_of(problem.op, problem.sums), problem.sums)


def _scan_blocks(
    problem: WholeScan, at: tuple[Array, Array], length: int, here: WholeHere,
    first: Callable[[Array, Array], Array],
) -> Array:  # fmt: skip
    """The elements of some places of lines, each from those before it in its block of ``length``, and from what
    ``first`` says lies before that."""
    domain, (kept, along) = here.domain, at
    count = int(evaluate(problem.line, dict(here.params)))
    keys, which = np.unique(np.stack([kept, along // length]), axis=1, return_inverse=True)
    which = which.reshape(-1)
    values = np.zeros(kept.shape, domain.bits(DTYPES[problem.dst.dtype].bytes))
    some = max(1, _PIECE // length)
    for begin in range(0, keys.shape[1], some):
        rows, blocks = keys[:, begin : begin + some]
        mine = np.flatnonzero((which >= begin) & (which < begin + some))
        start, end = blocks * length, np.minimum(count, (blocks + 1) * length)
        steps = np.arange(length)[None, :]
        places = end[:, None] - 1 - steps if problem.reverse else start[:, None] + steps
        places = np.clip(places, start[:, None], end[:, None] - 1)
        read = find_offsets(problem.src, _join(problem, rows[:, None], places), here.params)
        read = np.ascontiguousarray(np.broadcast_to(read, places.shape))
        tree = to_type(Element(0, problem.src.dtype), problem.sums)
        joined = np.empty((len(rows), length + 1), domain.stored(problem.sums))
        joined[:, 0] = first(rows, blocks)
        joined[:, 1:] = domain.compute(tree, [here.inputs["src"](read)], [], {}, problem.sums)
        found = domain.scan(problem.function, joined, 1, problem.sums)
        group = which[mine] - begin
        own = end[group] - 1 - along[mine] if problem.reverse else along[mine] - start[group]
        taken = np.ascontiguousarray(found[group, own + (not problem.exclusive)])
        values[mine] = np.ascontiguousarray(domain.convert(taken, problem.sums, problem.dst.dtype)).view(values.dtype)
    return values


# ---------------------------------------------------------------- passes
def mean_chunks(call: WholeCall, elements: int, totals: Buffer) -> WholeCall:
    """The first of three passes as an op on whole arrays, which leaves ``totals``."""
    return WholeCall(CHUNKS, ChunkFields(call, elements), {"src": call.arrays["src"], "dst": totals}, call.mark)


def mean_results(call: WholeCall, elements: int, before: Buffer) -> WholeCall:
    """The last of three passes as an op on whole arrays, which reads ``before``."""
    return WholeCall(RESULTS, ChunkFields(call, elements), {**call.arrays, "before": before}, call.mark)


def _sum_chunks(call: WholeCall, offsets: Array, here: WholeHere) -> dict[str, Array]:
    fields, totals, domain = call.fields, call.arrays["dst"], here.domain
    problem = read_problem(fields.whole)
    kept, chunk = _split(problem, find_coordinates(totals, offsets, here.params))
    count = int(evaluate(problem.line, dict(here.params)))
    steps = np.arange(fields.elements)[None, :]
    values = np.zeros(offsets.shape, domain.bits(DTYPES[totals.dtype].bytes))
    some = max(1, _PIECE // fields.elements)
    tree = to_type(Element(0, problem.src.dtype), problem.sums)
    for begin in range(0, len(offsets), some):
        mine = slice(begin, begin + some)
        places = chunk[mine, None] * fields.elements + steps
        at = _join(problem, kept[mine, None], np.minimum(places, count - 1))
        read = np.ascontiguousarray(np.broadcast_to(find_offsets(problem.src, at, here.params), places.shape))
        elements = domain.compute(tree, [here.inputs["src"](read)], [], {}, problem.sums)
        inside = np.broadcast_to(_nothing(problem, here), elements.shape).copy()
        inside[places < count] = elements[places < count]
        found = domain.fold(problem.function, inside, 1, problem.sums)
        values[mine] = np.ascontiguousarray(found[:, 0]).view(values.dtype)
    return {"dst": values}


def _write_results(call: WholeCall, offsets: Array, here: WholeHere) -> dict[str, Array]:
    fields = call.fields
    problem, before = read_problem(fields.whole), call.arrays["before"]

    def first(kept: Array, block: Array) -> Array:
        return here.inputs["before"](find_offsets(before, _join(problem, kept, block), here.params))

    at = _split(problem, find_coordinates(problem.dst, offsets, here.params))
    return {"dst": _scan_blocks(problem, at, fields.elements, here, first)}


# Chunk by chunk what is read lies a chunk further away, while what is written is the next element; and the other way.
CHUNKS = mean_pass(
    "scan_array_chunks", ("src",), ("dst",), _sum_chunks,
    strides=lambda call: (call.fields.whole.fields.axis, call.fields.elements),
)  # fmt: skip
RESULTS = mean_pass(
    "scan_array_results", ("src", "before"), ("dst",), _write_results,
    shares=lambda call: (call.fields.whole.fields.axis, call.fields.elements),
)  # fmt: skip
