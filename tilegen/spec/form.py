"""What an op must say of itself so that the spec loader can read a call of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tilegen.spec.data import Buffer

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


class WholeFields(BaseModel):
    """What the ops on whole arrays have in common: their operands are names of global buffers."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


@dataclass(frozen=True)
class WholeForm:
    """An op on whole arrays: the model of its fields, and which of them are arrays that it reads or writes.

    ``check(fields, arrays)`` gives what is wrong with a call as (code, message, field, hint), or None.
    """

    name: str
    model: type[WholeFields]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    check: Callable[[Any, Mapping[str, Buffer]], tuple[str, str, str, str] | None]


Form = OpForm | WholeForm
