"""Shared memory of an op's own, in which threads leave what others of them take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tilegen.dtypes import DTYPES
from tilegen.index import Index, add, div, mod, mul
from tilegen.ops.operand import Context, align_shared
from tilegen.plan import Memory, Ref
from tilegen.scopes import instance_of

PART_BYTES = 16  # of what was left that a thread takes at once


@dataclass(frozen=True)
class Scratch:
    """Shared memory of the op, of which each instance of its scope has ``elems`` elements of its own.

    Instances take chunks of 16 bytes in turn: they run apart, and an op of the same scope that needs more or less then
    still finds each of them in its own bytes. ``first``: where it begins, in bytes behind that of the scope.
    """

    context: Context
    scope: str
    dtype: str
    elems: int
    first: int = 0

    @property
    def chunk(self) -> int:
        return PART_BYTES // DTYPES[self.dtype].bytes

    @cached_property
    def instance(self) -> tuple[Index, int]:
        return instance_of(self.scope, self.context.launch.threads)

    @cached_property
    def memory(self) -> Memory:
        _, instances = self.instance
        elems = self.elems if instances == 1 else -(-self.elems // self.chunk) * self.chunk * instances
        return self.context.scratch(self.dtype, elems, self.scope, self.first)

    @property
    def end(self) -> int:
        """Where the next one may begin, as ``first`` is."""
        return self.first + align_shared(int(self.memory.span) * self.memory.elem_bytes)  # type: ignore[arg-type]

    def __getitem__(self, at: Index) -> Ref:
        instance, instances = self.instance
        if instances == 1:
            return self.memory[at]
        turn = add(mul(div(at, self.chunk), instances), instance)
        return self.memory[add(mul(turn, self.chunk), mod(at, self.chunk))]
