"""What an op must say of itself so that the spec loader can read a call of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tilegen.errors import Flaw

ScopeName = Literal["thread", "warp", "warpgroup", "role", "cta"]


class OpFields(BaseModel):
    """The fields that every op has; an op's model adds its own. Operands are fields of type str holding a region."""

    # A spec uses a few models: the others are never made ready.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    scope: ScopeName = Field(
        default="cta",
        description="who runs the op: every thread, warp, warpgroup, or the block once; in a role that is 'role'",
    )
    when: str | bool | int | None = Field(default=None, description="run only where this expression holds")


@dataclass(frozen=True)
class OpForm:
    """What the loader reads of an op: its name, the model of its fields, and which of them are regions.

    ``updates`` are regions that are read and written. ``barrier``, ``peers``, ``edge`` and ``pad``: the fields that
    name an mbarrier and an axis of the cluster, that say whether a region may pass an edge of its array, and what is
    read there, "" if the op has none. ``queue(call)``: where a call's data is waited for, a row of ``plan.QUEUES`` or
    MBARRIER, "" if it is done when its threads go on.

    ``expression`` is the field that holds what the op computes, ``named`` the one that gives names to regions there.
    ``several``: of what is written, the fields that may be a mapping of names to regions, one for each result.
    ``optional`` are operands that may be left out; ``takes_written(fields)``: what is written is read before.
    ``accumulates``: the field that says by which function what is written is updated atomically, "" if the op has none.
    ``tensor``: the operands that may be in tensor memory. ``conditions`` are fields that hold one.
    ``check_fields(fields)`` gives what is wrong, at a field, or None; ``check(fields, regions, expression)`` what is
    wrong with the shapes: without one, all are equal but for extents of 1; ``check_dtypes(fields, regions)`` what is
    wrong with the types of elements. ``extents`` is the shape that index(d) counts in. ``index``: the field that says
    which places of the region ``indexed`` are meant, a region of integers or an expression. Of an op that writes there
    ``source`` names the region that may stand in the place of ``expression``, and what it computes is two trees, of the
    elements and of their places; of one that reads there it is the tree of the places. ``later``: by name, fields that
    this version has not, and what to write until it has.
    """

    name: str
    model: type[OpFields]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    barrier: str = ""
    peers: str = ""
    edge: str = ""
    pad: str = ""
    accumulates: str = ""
    tensor: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    check_fields: Callable[[Any], Flaw | None] = field(default=lambda fields: None, compare=False)
    queue: Callable[[Any], str] = field(default=lambda call: "", compare=False)
    expression: str = ""
    named: str = ""
    index: str = ""
    indexed: str = ""
    source: str = ""
    several: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    check: Callable[[Any, Mapping[str, Any], Any], Flaw | None] | None = field(default=None, compare=False)
    check_dtypes: Callable[[Any, Mapping[str, Any]], Flaw | None] = field(
        default=lambda fields, regions: None, compare=False
    )
    takes_written: Callable[[Any], bool] = field(default=lambda fields: False, compare=False)
    later: Mapping[str, str] = field(default_factory=dict, compare=False)
    extents: Callable[[Any, Mapping[str, Any], Any], tuple[int, ...]] = field(
        default=lambda fields, regions, operands: regions["dst"].shape, compare=False
    )

    @property
    def operands(self) -> tuple[str, ...]:
        """Every field that is a region, what is read first."""
        return (*self.reads, *self.updates, *self.writes)


def operand_field(name: str) -> str:
    """The field of an operand that an expression names, which no model has.

    >>> operand_field("x")
    'expr.x'
    """
    return f"expr.{name}"


def result_field(field: str, name: str) -> str:
    """The field of one of several results, by its name in the mapping that ``field`` is.

    >>> result_field("dst", "even")
    'dst.even'
    """
    return f"{field}.{name}"


def name_of_result(field: str) -> str:
    """The name of one of several results, "" of the only one, which has none.

    >>> name_of_result("dst.even"), name_of_result("dst")
    ('even', '')
    """
    return field.partition(".")[2]


def list_fields(regions: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """The fields of ``regions`` that are among ``names``, and those of the several results that a name has.

    >>> list_fields(["src", "dst.low", "dst.high", "expr.x"], ["dst", "src"])
    ('dst.low', 'dst.high', 'src')
    """
    heads = [(f, f.partition(".")[0]) for f in regions]
    return tuple(f for name in names for f, head in heads if head == name)


class WholeFields(BaseModel):
    """What the ops on whole arrays have in common: their operands are names of global buffers."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


@dataclass(frozen=True)
class WholeForm:
    """What the loader reads of an op on whole arrays: its name, the model of its fields, and which of them are arrays.

    ``optional`` are arrays that may be left out; ``named``: the field that gives names to more of them, which are read;
    ``taken``: names that it may not give.
    ``check(fields, arrays)`` gives what is wrong with a call, at a field, or None. ``later``: by name, fields that this
    version has not, and what to write until it has. ``divides(fields)``: the field by which a call asks for several
    passes, "" if it does not. ``joined``: the fields with which it is one kernel, where it may be several unasked.
    ``on_tiles``: the op that does the same to tiles, "" if none does.
    """

    name: str
    model: type[WholeFields]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    check: Callable[[Any, Mapping[str, Any]], Flaw | None] = field(compare=False)
    optional: tuple[str, ...] = ()
    named: str = ""
    taken: tuple[str, ...] = ()
    later: Mapping[str, str] = field(default_factory=dict, compare=False)
    divides: Callable[[Any], str] = field(default=lambda fields: "", compare=False)
    joined: Mapping[str, Any] = field(default_factory=dict, compare=False)
    on_tiles: str = ""

    @property
    def operands(self) -> tuple[str, ...]:
        return (*self.reads, *self.writes)


Form = OpForm | WholeForm
