"""The keys that say how a kernel is launched, as pydantic models."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Fields(BaseModel):
    # A spec uses a few models: the others are never made ready.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True, populate_by_name=False)


class GridFields(Fields):
    """How many CTAs are launched."""

    bx: int | str = Field(default=1, description="CTAs in x: an integer or an expression over params")
    by: int | str = Field(default=1, description="CTAs in y")
    bz: int | str = Field(default=1, description="CTAs in z")


class ClusterFields(Fields):
    """How many CTAs form a cluster."""

    cbx: int | str = Field(default=1, description="CTAs of a cluster in x")
    cby: int | str = Field(default=1, description="CTAs of a cluster in y")
    cbz: int | str = Field(default=1, description="CTAs of a cluster in z")


class ParamFields(Fields):
    """A parameter whose value is known when the kernel is launched."""

    dtype: Literal["int32", "float32", "uint32"] = Field(
        default="int32",
        description="the type of the kernel's argument: an int32 is a size, of 1 or more; float32 and uint32 "
        "stand in 'expr' alone, and may be 0",
    )
    default: int | float = Field(description="the value that verify and bench use")
    multiple_of: int = Field(
        default=1, ge=1, description="every value is a multiple of this; vector widths follow from it"
    )
    max: int = Field(default=2**31 - 1, ge=1, le=2**31 - 1, description="the largest value")


class ChoiceFields(Fields):
    """A parameter that is known when the kernel is built, and its alternatives."""

    choices: list[int] = Field(
        min_length=1, max_length=64, description="the values that it may have, the first is taken"
    )
