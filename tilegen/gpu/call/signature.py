"""What a kernel asks of a call: its arrays and parameters in order, and how it is launched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilegen.errors import Mark
from tilegen.index import Index
from tilegen.plan import Param

# (pointers of all arrays in order, parameter values) -> the tensor maps that the kernel takes after its parameters
EncodeMaps = Callable[[Sequence[int], Mapping[str, int | float]], Sequence[bytes]]


@dataclass(frozen=True)
class ArrayArgument:
    """A global buffer as an argument. ``shape``, ``strides`` and ``span`` count elements and may name parameters.

    ``strides`` has one for each dimension, or is None where the layout is no matter of strides: such an array comes
    as its physical image, ``span`` elements in a row.
    """

    name: str
    dtype: str
    access: str  # in | out | inout
    align_bytes: int
    shape: tuple[Index, ...]
    strides: tuple[Index, ...] | None
    span: Index
    layout_text: str
    mark: Mark | None = None
    promise: str = ""  # what the caller promises of its elements, in words

    @property
    def is_row(self) -> bool:
        """Whether it is dense and row-major: then no other form than its own shape is taken."""
        return self.layout_text in ("", "row")


@dataclass(frozen=True)
class KernelSignature:
    """A kernel as its callers see it; ``dynamic_bytes`` of shared memory are asked for at each launch."""

    kernel: str
    arch: str
    arrays: tuple[ArrayArgument, ...]
    params: tuple[Param, ...]
    grid: tuple[Index, Index, Index]
    cluster: tuple[int, int, int]
    threads: int
    dynamic_bytes: int
    tensor_maps: int = 0
    encode_maps: EncodeMaps | None = None
    overlaps: bool = False  # starts while the kernel before still runs
