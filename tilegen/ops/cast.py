"""cast: convert the elements of one register tensor into another of a different dtype, owned alike."""

from __future__ import annotations

from pydantic import Field

from tilegen.spec.form import OpFields, OpForm


class CastFields(OpFields):
    src: str = Field(description="register region read")
    dst: str = Field(description="register region written, whose threads own the same elements")


FORM = OpForm("cast", CastFields, reads=("src",), writes=("dst",))
