"""Elements of tables: as a kernel fetches them, and as contents stand for them where none are at hand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilegen.dtypes import numpy_dtype
from tilegen.index import Index, Var, equal, evaluate, every, less, maximum, mod, select, sub, substitute, variables
from tilegen.kept import keep
from tilegen.ops.operand import bind, ref_at
from tilegen.plan import Fetch, Let, Memory, PromiseTest
from tilegen.plan.contents import COSTED, Contents, Element, Fill, content_of, number_of
from tilegen.spec.data import LetStatement, Loop, Nest, Region, Spec, Statement
from tilegen.spec.outline import fresh_name, outline, trip_of
from tilegen.spec.tables import Read
from tilegen.spec.tested import find_uses


def value_of_read(spec: Spec, read: Read, contents: Contents = COSTED) -> Index:
    """What a let reads where tables hold these contents."""
    number = number_of(read.at, spec.buffer(read.array).shape)
    return select(read.when, content_of(read.array, read.values, number, contents), read.otherwise)


def fill_spec(spec: Spec, fill: Fill) -> Spec:
    """The spec with something else in place of each element of a table; so are the passes before it, which read the
    same tables.
    """
    before = tuple(replace(one, spec=fill_spec(one.spec, fill)) for one in spec.before)
    return replace(spec, ops=_fill(spec, spec.ops, fill, {}), before=before)


def _fill(
    spec: Spec, statements: Sequence[Statement], fill: Fill, names: Mapping[str, Index]
) -> tuple[Statement, ...]:  # fmt: skip
    filled, names = list[Statement](), dict(names)
    for s in statements:
        if isinstance(s, Nest):
            trip = {s.var.name: substitute(trip_of(s, outline(spec).names)[2], names)} if isinstance(s, Loop) else {}
            s = replace(s, body=_fill(spec, s.body, fill, names | trip))
        elif isinstance(s, LetStatement):
            entries = list[tuple[Var, Index | Read]]()
            for var, x in s.entries:
                if isinstance(x, Read):
                    number = number_of(x.at, spec.buffer(x.array).shape)
                    value, known = fill(Element(x.array, x.values, number, names))
                    entries.append((var, select(x.when, value, x.otherwise)))
                    where = substitute(x.when, names)
                    names[var.name] = var if known is None else select(where, known, x.otherwise)
                else:
                    entries.append((var, x))
                    names[var.name] = substitute(x, names)
            s = replace(s, entries=tuple(entries))
        filled.append(s)
    return tuple(filled)


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
    test = test_of_element(spec, var, read)
    return Fetch(var, src, number, read.values, read.when, read.otherwise, read.known, test)


# ---------------------------------------------------------------- elements that are not trusted
def test_of_element(spec: Spec, var: Var, read: Read) -> PromiseTest | None:
    """How the element is compared with the promise of its array; None where no clipped place rests on it, or its type
    holds no number that breaks the promise.
    """
    uses = find_uses(spec)
    if var.name not in uses.tested:
        return None
    info, taken = np.iinfo(numpy_dtype(spec.buffer(read.array).dtype)), outline(spec).names
    raw = Var(fresh_name(f"{var.name}_read", taken), int(info.max) + 1, 1, int(info.min))
    lower, upper = _list_neighbours(var, read, uses.tables)
    low, high = read.values.places
    holds = every(less(sub(low, 1), raw), less(raw, high), *(less(sub(x, 1), raw) for x in lower))
    holds = every(holds, *(less(raw, x + 1) for x in upper))
    if read.values.step > 1:
        holds = every(holds, equal(mod(sub(maximum(raw, low), low), read.values.step), 0))
    if holds is True:
        return None
    instead: Index = low
    for x in lower:
        instead = maximum(instead, x)
    return PromiseTest(raw, Var(fresh_name(f"{var.name}_kept", taken), 2), holds, instead)


@keep
def list_tests(spec: Spec) -> Mapping[str, Index]:
    """The condition that an element keeps its promise, by its name, of those that are tested."""
    found: dict[str, Index] = {}
    for s in outline(spec).find(LetStatement):
        for var, read in s.entries:
            if isinstance(read, Read) and (test := test_of_element(spec, var, read)) is not None:
                found[var.name] = test.is_kept
    return found


def _list_neighbours(var: Var, read: Read, tables: Collection[str]) -> tuple[list[Var], list[Var]]:
    """The offsets read before that are at most this one, and those that are at least this one, for the proofs."""
    lower, upper = list[Var](), list[Var]()
    for c in read.known:
        for other in sorted((v for v in variables(c) if v.name in tables and v != var), key=lambda v: v.name):
            (lower if evaluate(c, {var.name: 1, other.name: 0}) else upper).append(other)
    return lower, upper
