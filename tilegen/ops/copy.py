"""copy: the elements of one region to another of equal shape."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tilegen.spec.form import OpFields, OpForm


class CopyFields(OpFields):
    src: str = Field(description="region read")
    dst: str = Field(description="region written; its shape equals the source's after dropping extents of 1")
    variant: Literal["auto", "reg", "gmem_smem", "smem_smem", "gmem_gmem", "reg_reg", "scalar"] = Field(
        default="auto", description="pin a variant instead of taking the cheapest"
    )
    edge: Literal["error", "clip"] = Field(
        default="error", description="clip: at the edge of a global array reads give 0 and writes are dropped"
    )


FORM = OpForm("copy", CopyFields, reads=("src",), writes=("dst",))
