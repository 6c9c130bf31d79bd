"""fill: one value to every element of a region."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tilegen.spec.form import OpFields, OpForm


class FillFields(OpFields):
    dst: str = Field(description="region written")
    value: int | float | bool = Field(description="the value, exactly representable in the buffer's dtype")
    edge: Literal["error", "clip"] = Field(default="error", description="clip: writes past the edge of a global array are dropped")


FORM = OpForm("fill", FillFields, reads=(), writes=("dst",))
