"""The fields of buffers and views, as pydantic models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tilegen.spec.launch_models import Fields as _Fields

MAX_RANK = 24  # dimensions of a buffer; NumPy has 32, and instances and copies of elements take some


class BufferFields(_Fields):
    """A buffer of its own bytes."""

    scope: Literal["global", "shared", "register", "tmem", "workspace"] = Field(
        description="where it lives; workspace: global memory that the launcher brings, of a spec of passes; tmem: "
        "Blackwell's tensor memory, which mma, copy and cast touch"
    )
    dtype: str = Field(description="the type of an element, e.g. float32")
    shape: list[int | str] = Field(
        min_length=1, max_length=MAX_RANK, description="extents: integers or expressions over params"
    )
    layout: str | dict[str, Any] = Field(
        default="row",
        description="where each element lies: row, col, auto, layout notation such as S[(32,8):(33,1)], "
        "or a mapping of Gluon's argument names: interval_padding_pairs, offset_bases, cga_layout. In tmem auto, "
        "tmem_datapath_layout(..) or strides on TLane and TCol",
    )
    partial: bool = Field(default=False, description="whether elements of an output may be left unwritten")
    values: str | None = Field(
        default=None,
        description="of a global array that the kernel only reads, the range 'lo : hi' of every element, hi excluded; "
        "of integers with params, and a step as 'lo : hi : step'. The caller promises it; verify and bench draw it. Of "
        "integers in another space: what all that is written there is proved to be",
    )
    distinct: bool = Field(
        default=False,
        description="of an array, beside 'values': no value of 0 or more stands twice, as the caller promises; of "
        "registers: so the author claims of all that a launch scatters by them",
    )
    offsets: int | str | None = Field(
        default=None,
        description="of an integer array [n + 1], the end E of what its elements part in n pieces: the first is 0, the "
        "last E, and none is less than the one before, as the caller promises",
    )
    over: list[str] | None = Field(
        default=None, min_length=1, max_length=64,
        description="shared buffers (or tmem buffers), neighbours, on which this one lies once they are not needed",
    )  # fmt: skip
    align: int = Field(
        default=16, ge=1, le=1024, description="bytes that the kernel's pointer is aligned to; a power of two"
    )


class PaddedFields(_Fields):
    """A padded layout by Gluon's argument names."""

    interval_padding_pairs: list[list[int]] = Field(
        max_length=64, description="[interval, padding]: so many elements of padding after every so many; powers of two"
    )
    offset_bases: list[list[int]] | None = Field(
        default=None, max_length=64, description="what each bit of an offset adds to the coordinates"
    )
    order: list[int] | None = Field(
        default=None, max_length=MAX_RANK,
        description="instead of bases that reorder nothing: dimensions, the fastest first",
    )  # fmt: skip
    cga_layout: list[list[int]] = Field(
        default=[], max_length=64, description="what each bit of a CTA's rank adds, in CTA tiles: [], as in one CTA"
    )
    shape: list[int] | None = Field(
        default=None, min_length=1, max_length=MAX_RANK, description="the layout's shape; the buffer's is the default"
    )


class ViewFields(_Fields):
    """Another buffer's bytes, seen differently."""

    view: str = Field(description="the buffer whose bytes these are")
    layout: str | dict[str, Any] | None = Field(default=None, description="another layout of the same bytes")
    axes: list[int] | None = Field(
        default=None, min_length=1, max_length=MAX_RANK,
        description="a transpose: dimension i is dimension axes[i] of the other",
    )  # fmt: skip
    shape: list[int | str] | None = Field(
        default=None, min_length=1, max_length=MAX_RANK, description="another shape of as many bytes"
    )
    dtype: str | None = Field(default=None, description="another type of element")
