"""What a kernel does to whole arrays, in words that a library knows too, and what a peer is asked to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tilegen import layouts
from tilegen.bench.accuracy import Accuracy
from tilegen.bench.measuring import Candidate
from tilegen.bench.products import Doubles, Product, derive_product, is_product
from tilegen.dtypes import DTYPES
from tilegen.gpu.call.arrays import dense_strides
from tilegen.index import evaluate
from tilegen.index.runs import Run, fuse
from tilegen.ops import OPS, WHOLE_OPS
from tilegen.spec.data import Buffer, Call, Spec, WholeCall
from tilegen.spec.program import Program

_NO_MEANING = "the spec is not one copy or one permute of whole arrays, and no gemm"


@dataclass(frozen=True)
class Meaning:
    """Dimension d of the dense array ``target`` is dimension ``axes[d]`` of the dense array ``source`` of ``shape``.

    The whole of both; with the axes in order it is a copy.
    """

    source: str
    target: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    elem_bytes: int

    @property
    def target_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.axes)

    @property
    def array_bytes(self) -> int:
        """Bytes of the source, and of the target."""
        return prod(self.shape) * self.elem_bytes

    def __str__(self) -> str:
        if is_copy(self):
            return f"copy of {prod(self.shape)} elements of {self.elem_bytes} bytes"
        axes = ",".join(map(str, self.axes))
        return f"permute ({axes}) of {' x '.join(map(str, self.shape))}, {self.elem_bytes} bytes each"


def is_copy(meaning: Meaning) -> bool:
    """Whether the target's bytes are the source's in the same order.

    >>> is_copy(Meaning("X", "Y", (1, 8, 1, 4), (1, 2, 0, 3), 4))
    True
    """
    return len(merged_dims(meaning.shape, meaning.axes)) <= 1


def derive_meaning(spec: Spec | Program, params: Mapping[str, int]) -> Meaning | Product | str:
    """What a spec does that multiplies or permutes whole arrays, or copies one in one op; or why there is nothing.

    Several kernels together mean a product where they were made of one gemm, else nothing that has a name here.
    """
    if is_product(spec):
        return derive_product(spec, params)
    found = _NO_MEANING if isinstance(spec, Program) else _find_arrays(spec, params)
    if isinstance(found, str):
        return found
    source, target, axes = found
    for buffer in (source, target):
        if why := _why_not_dense(buffer, params):
            return why
    if source.name == target.name or source.dtype != target.dtype:
        return "the spec changes its array in place, or its element type"
    shape = _shape_of(source, params)
    order = tuple(range(len(shape))) if axes is None else axes
    return Meaning(source.name, target.name, shape, order, DTYPES[source.dtype].bytes)


def _find_arrays(spec: Spec, params: Mapping[str, int]) -> tuple[Buffer, Buffer, tuple[int, ...] | None] | str:
    """Source, target and axes (None: a copy) of the spec's only op, or why there are none."""
    op = spec.whole or (spec.ops[0] if len(spec.ops) == 1 else None)
    if isinstance(op, WholeCall):
        if (axes := WHOLE_OPS[op.op].axes(op)) is None:
            return _NO_MEANING
        (source,), (target,) = ([op.arrays[n] for n in names] for names in (op.form.reads, op.form.writes))
        return source, target, axes
    if not isinstance(op, Call) or op.when is not True or (axes := OPS[op.op].axes(op)) is None:
        return _NO_MEANING
    regions = (*op.read, *op.written)
    for region in regions:
        if tuple(region.lengths) != _shape_of(region.buffer, params):
            return f"{region.text or region.buffer.name} is not a whole array"
    return regions[0].buffer, regions[1].buffer, None


def _why_not_dense(buffer: Buffer, params: Mapping[str, int]) -> str:
    if not buffer.traits.is_callers:
        return f"{buffer.name} is not a global array"
    if buffer.name != buffer.root:
        return f"{buffer.name} is a view"
    dense = layouts.canonicalize(layouts.row_major(_shape_of(buffer, params)))
    if layouts.canonicalize(layouts.bind(buffer.layout, dict(params))) != dense:
        return f"{buffer.name} is not dense and row-major"
    return ""


def _shape_of(buffer: Buffer, params: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(evaluate(n, dict(params))) for n in buffer.shape)


def merged_dims(shape: Sequence[int], axes: Sequence[int]) -> tuple[Run[int], ...]:
    """The fewest dimensions of the same permute, in the source's order: sizes of 1 dropped, neighbours that stay fused.

    Their strides are those in the source and in the target, in elements.

    >>> merged_dims((8, 1, 16, 32), (0, 2, 3, 1))
    (Run(extent=4096, strides=(1, 1), guard=None),)
    >>> [(d.extent, d.strides) for d in merged_dims((8, 4, 16, 32), (2, 3, 0, 1))]
    [(32, (512, 1)), (512, (1, 32))]
    """
    target = dict(zip(axes, dense_strides([shape[axis] for axis in axes]), strict=True))
    every = enumerate(zip(shape, dense_strides(shape), strict=True))
    return fuse(Run(n, (stride, target[axis])) for axis, (n, stride) in every if n != 1)


# ---------------------------------------------------------------- what a peer is asked, and answers
class NotApplicable(Exception):
    """A peer cannot do what the kernel does; the message is the reason."""


@dataclass(frozen=True)
class Task:
    """The buffers of every set, as arrays of bytes, and what is to be done with them.

    ``pairs``: (source, target) of the meaning, none without one. ``copies``: two arrays whose bytes are together those
    that the kernel reads and writes; none of a product. ``sets``: all arrays by name.
    """

    meaning: Meaning | Product | str
    pairs: tuple[tuple[Any, Any], ...]
    copies: tuple[tuple[Any, Any], ...]
    watch: Any  # a tilegen.gpu.Stopwatch
    sets: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Prepared:
    """A peer that is ready: its candidate, and how it does it where that is worth a word.

    Of a product: ``read`` runs it once on the first set and gives rows of its result, of all batches in order, as
    float64; not ``is_whole``: it leaves the epilogue out. ``accuracy``: what was found of it.
    """

    candidate: Candidate
    detail: str = ""
    read: Callable[[Sequence[int]], Doubles] | None = None
    is_whole: bool = True
    accuracy: Accuracy | None = None


@dataclass(frozen=True)
class Peer:
    """What a user would call instead of the kernel.

    ``prepare`` raises NotApplicable, ImportError, or whatever its library does; so does ``multiply``, which is for
    products. Each is None where the peer has no such thing. ``is_asked`` peers are slow to start and run only where
    they are named. What ``writes_target`` is compared with what the kernel's target must hold.
    """

    name: str
    what: str
    prepare: Callable[[Task], Prepared] | None
    is_asked: bool = False
    writes_target: bool = True
    multiply: Callable[[Task], Prepared] | None = None


def require_meaning(task: Task) -> Meaning:
    """The meaning; raises NotApplicable with the reason where there is none."""
    if not isinstance(task.meaning, Meaning):
        raise NotApplicable(str(task.meaning))
    return task.meaning


def require_product(task: Task) -> Product:
    """The product; raises NotApplicable where the task is another, or has no meaning."""
    if not isinstance(task.meaning, Product):
        raise NotApplicable(task.meaning if isinstance(task.meaning, str) else "it multiplies no matrices")
    return task.meaning


def prepare_peer(peer: Peer, task: Task) -> Prepared:
    """A peer made ready for a task. Raises NotApplicable for what it never does, else what its own function raises."""
    make = peer.multiply if isinstance(task.meaning, Product) else peer.prepare
    if make is None:
        other = "it is no peer of a product" if isinstance(task.meaning, Product) else "it is a peer of products alone"
        raise NotApplicable(task.meaning if isinstance(task.meaning, str) else other)
    return make(task)
