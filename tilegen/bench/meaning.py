"""What a kernel does to whole arrays, in words that a library knows too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tilegen import layouts
from tilegen.dtypes import DTYPES
from tilegen.index import evaluate
from tilegen.spec.data import Buffer, Call, Region, Spec


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
    return len(merge_dims(meaning.shape, meaning.axes)[0]) <= 1


def derive_meaning(spec: Spec, params: Mapping[str, int]) -> Meaning | str:
    """The meaning of a spec whose only op is a copy or a permute of whole arrays, or why there is none to compare."""
    calls = [s for s in spec.ops if isinstance(s, Call)]
    if len(spec.ops) != 1 or not calls or calls[0].op not in ("copy", "permute"):
        return "the spec is not one copy or one permute of whole arrays"
    source, target = (calls[0].regions.get(name) for name in ("src", "dst"))
    if source is None or target is None or calls[0].when is not True:
        return "the spec is not one copy or one permute of whole arrays"
    for region in (source, target):
        if why := _why_not_dense(region, params):
            return why
    if source.buffer.root == target.buffer.root or source.buffer.dtype != target.buffer.dtype:
        return "the spec changes its array in place, or its element type"
    shape = _shape_of(source.buffer, params)
    axes = getattr(calls[0].fields, "axes", None)
    order = tuple(range(len(shape))) if axes is None else tuple(int(a) for a in axes)
    elem_bytes = DTYPES[source.buffer.dtype].bytes
    return Meaning(source.buffer.root, target.buffer.root, shape, order, elem_bytes)


def _why_not_dense(region: Region, params: Mapping[str, int]) -> str:
    buffer = region.buffer
    shape = _shape_of(buffer, params)
    if buffer.scope != "global" or tuple(_values(region.lengths, params)) != shape:
        return f"{region.text or buffer.name} is not a whole global array"
    if buffer.name != buffer.root:
        return f"{buffer.name} is a view"
    dense = layouts.canonicalize(layouts.row_major(shape))
    if layouts.canonicalize(layouts.bind(buffer.layout, dict(params))) != dense:
        return f"{buffer.name} is not dense and row-major"
    return ""


def _shape_of(buffer: Buffer, params: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(_values(buffer.shape, params))


def _values(expressions: Sequence[Any], params: Mapping[str, int]) -> list[int]:
    return [int(evaluate(e, dict(params))) for e in expressions]


def merge_dims(shape: Sequence[int], axes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The same permute with as few dimensions as it has: sizes of 1 dropped, neighbours that stay so fused.

    >>> merge_dims((8, 1, 16, 32), (0, 2, 3, 1))
    ((4096,), (0,))
    >>> merge_dims((8, 4, 16, 32), (2, 3, 0, 1))
    ((32, 512), (1, 0))
    """
    order = [axis for axis in axes if shape[axis] != 1]
    place = {axis: k for k, axis in enumerate(sorted(order))}  # among the dimensions that are left
    runs: list[list[int]] = []
    for axis in order:
        if runs and place[axis] == place[runs[-1][-1]] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    sources = sorted(runs)
    sizes = tuple(prod(shape[axis] for axis in run) for run in sources)
    return sizes, tuple(sources.index(run) for run in runs)


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a dense row-major array.

    >>> dense_strides((4, 8, 2))
    (16, 2, 1)
    """
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))
