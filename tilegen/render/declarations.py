"""Arrays as they are declared, parameters, and what a call passes for them."""

from __future__ import annotations

from typing import Any

from tilegen.dtypes import DTYPES
from tilegen.index import INT_LIMIT, Var, to_c
from tilegen.plan import Barrier, Memory, TensorMap
from tilegen.render.addresses import element, is_zero, pointer


def declare(memory: Memory) -> str:
    """A local or shared array, aligned for the vector accesses that it can see.

    >>> declare(Memory("tmp", "float16", (4,), (1,), "register"))
    '__align__(8) half_t tmp[4]'
    """
    dtype, elems = DTYPES[memory.dtype], elems_of(memory)
    align = memory.align_bytes if memory.space == "shared" else min(16, _power_of_two(elems * dtype.bytes))
    return f"{f'__align__({align}) ' if align > dtype.bytes else ''}{dtype.c} {memory.name}[{elems}]"


def elems_of(memory: Memory) -> int:
    """The number of elements that a local or shared array is declared with."""
    span = memory.span
    assert isinstance(span, int), f"{memory.name} is {memory.space} memory of no fixed size"
    return span


def _power_of_two(x: int) -> int:
    """The largest power of two that is at most x."""
    return 1 << max(x, 1).bit_length() - 1


def parameter(x: Var | Memory | TensorMap | Barrier, written: frozenset[str]) -> str:
    """A parameter of a __device__ function."""
    if isinstance(x, Var):
        return f"{int_type(x)} {x.name}"
    if isinstance(x, TensorMap):
        return f"const TensorMap &{x.name}"
    if isinstance(x, Barrier):
        return f"unsigned long long *{x.name}"
    const, c = "" if x.name in written else "const ", DTYPES[x.dtype].c
    return f"{const}{c} (&{x.name})[{elems_of(x)}]" if x.space == "register" else f"{const}{c} *{x.name}"


def argument(formal: Any, actual: Any, written: frozenset[str]) -> str:
    """What a call passes for ``formal``: a value, a pointer, or an array."""
    if isinstance(formal, Var):
        return to_c(actual)
    const, c, m = "" if formal.name in written else "const ", DTYPES[formal.dtype].c, actual.memory
    if formal.space != "register":
        return f"({const}{c} *){pointer(actual)}" if DTYPES[m.dtype].c != c else pointer(actual)
    if DTYPES[m.dtype].c == c and elems_of(m) == elems_of(formal) and is_zero(actual.offset):
        return str(m.name)
    return f"*({const}{c} (*)[{elems_of(formal)}])&{element(actual)}"


def int_type(x: Var) -> str:
    """The C type that holds every value of a variable."""
    return "int" if x.bound <= INT_LIMIT else "size_t"
