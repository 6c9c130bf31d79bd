"""What an op must say of itself so that the spec loader can read a call of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ScopeName = Literal["thread", "warp", "warpgroup", "cta"]


class OpFields(BaseModel):
    """The fields that every op has; an op's model adds its own. Operands are fields of type str holding a region."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    scope: ScopeName = Field(
        default="cta", description="who runs the op: every thread, warp, warpgroup, or the block once"
    )
    when: str | bool | int | None = Field(default=None, description="run only where this expression holds")


@dataclass(frozen=True)
class OpForm:
    """An op's name, the model of its fields, and which of them are regions that it reads or writes.

    ``barrier``: the field that names an mbarrier, "" if there is none.
    """

    name: str
    model: type[OpFields]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    barrier: str = ""
