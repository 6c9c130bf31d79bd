"""What a scan of whole arrays asks for, apart from how it is carried out: lines, elements of each, and how they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilegen.arithmetic import common_type, type_of_element
from tilegen.dtypes import DTYPES
from tilegen.index import Index
from tilegen.ops.reduce_array.axes import find_order
from tilegen.spec.data import Buffer, WholeCall

FUNCTIONS = {"sum": "+", "prod": "*", "max": "max", "min": "min"}


@dataclass(frozen=True)
class WholeScan:
    """``kept`` lines of ``line`` elements each, along dimension ``axis``, in the type ``sums``.

    ``is_along``: elements of a line are neighbours in memory. ``has_rows``: arrays have two dimensions, not only that.
    """

    src: Buffer
    dst: Buffer
    kept: Index
    line: Index
    axis: int
    is_along: bool
    op: str
    sums: str
    exclusive: bool
    reverse: bool

    @property
    def has_rows(self) -> bool:
        return len(self.src.shape) == 2

    @property
    def function(self) -> str:
        return FUNCTIONS[self.op]

    @property
    def most_bytes(self) -> int:
        """Of an element, of the widest of what is read, computed and written."""
        return max(DTYPES[name].bytes for name in (self.src.dtype, self.sums, self.dst.dtype))


def read_problem(call: WholeCall) -> WholeScan:
    """The problem of a call."""
    src, dst, fields = call.arrays["src"], call.arrays["dst"], call.fields
    kept: Index = 1 if len(src.shape) == 1 else src.shape[1 - fields.axis]
    return WholeScan(
        src, dst, kept, src.shape[fields.axis], fields.axis, fields.axis == find_order(src)[-1], fields.op,
        find_type(src, dst), fields.exclusive, fields.reverse,
    )  # fmt: skip


def find_type(src: Any, dst: Any) -> str:
    """The type that is computed in: that of the elements as C has it, or of wider ones that are written.

    >>> from types import SimpleNamespace
    >>> half, wide = SimpleNamespace(dtype="float16"), SimpleNamespace(dtype="float64")
    >>> find_type(half, half), find_type(half, wide)
    ('float32', 'float64')
    """
    read, written = type_of_element(src.dtype), type_of_element(dst.dtype)
    return common_type([read, written] if written in ("float64", "int64") else [read])
