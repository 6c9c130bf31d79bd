"""Elements of tables: as a kernel fetches them, and as contents stand for them where none are at hand."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.index import Index, Var, select
from tilegen.ops.operand import bind, ref_at
from tilegen.plan import Fetch, Let, Memory
from tilegen.plan.contents import COSTED, Contents, content_of, number_of
from tilegen.spec.data import LetStatement, Region, Spec
from tilegen.spec.tables import Read


def value_of_read(spec: Spec, read: Read, contents: Contents = COSTED) -> Index:
    """What a let reads where tables hold these contents."""
    number = number_of(read.at, spec.buffer(read.array).shape)
    return select(read.when, content_of(read.array, read.values, number, contents), read.otherwise)


def name_values(spec: Spec, s: LetStatement) -> tuple[Let, ...]:
    """The names of a let whose values are not numbers, as ops that are costed see them."""
    named = ((var, x) for var, x in s.entries if not isinstance(x, int))
    return tuple(Let(var, value_of_read(spec, x) if isinstance(x, Read) else x) for var, x in named)


def define_names(spec: Spec, memories: Mapping[str, Memory], s: LetStatement) -> tuple[Let | Fetch, ...]:
    """The names of a let whose values are not numbers, as the kernel defines them."""
    return tuple(
        fetch_element(spec, memories, var, x) if isinstance(x, Read) else Let(var, x)
        for var, x in s.entries
        if not isinstance(x, int)
    )


def known_of_reads(s: LetStatement) -> tuple[Index, ...]:
    """What holds of the elements that a let reads, beyond what their variables say."""
    return tuple(c for _, x in s.entries if isinstance(x, Read) for c in x.known)


def fetch_element(spec: Spec, memories: Mapping[str, Memory], var: Var, read: Read) -> Fetch:
    """An element of a table as the kernel reads it."""
    array = spec.buffer(read.array)
    region = Region(array, read.at, (1,) * len(read.at), (False,) * len(read.at))
    src = ref_at(bind(region, memories[array.name]), ())
    number = number_of(read.at, array.shape)
    return Fetch(var, src, number, read.values, read.when, read.otherwise, read.known)
