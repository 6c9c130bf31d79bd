"""Reading ``ids[row]`` in a let: which arrays may be read, and the variable that stands for each element."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd

import numpy as np

from tilegen.arithmetic.values import Values
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.errors import Mark
from tilegen.index import Index, Var, add, bound, every, least, less, multiple, sub, substitute
from tilegen.near_words import suggest
from tilegen.spec.data import Buffer
from tilegen.spec.findings import Flawed, shorten
from tilegen.spec.outline import fresh_name
from tilegen.spec.tables import Read

_SMALL_BYTES = 1  # elements of so many bytes need no 'values': all of their range is few numbers


@dataclass
class Reads:
    """The reads of one let, in the order of the text, each with the variable that has its value.

    ``taken``: names that a variable may not have. ``arms``: the conditions under which the expression at hand counts.
    """

    buffers: Mapping[str, Buffer]
    broken: Collection[str]  # arrays that were reported
    taken: Collection[str]
    found: list[tuple[Var, Read]] = field(default_factory=list)
    arms: list[Index] = field(default_factory=list)

    def find(self, word: str, mark: Mark | None) -> Buffer:
        """The array of a name. Raises Flawed TG105 for none, and without a message for one that was reported."""
        if word in self.broken:
            raise Flawed()
        if word not in self.buffers:
            raise Flawed("TG105", f"unknown buffer '{shorten(word)}'", mark, suggest(word, self.buffers))
        return self.buffers[word]

    def take(self, array: Buffer, at: tuple[Index, ...], mark: Mark | None) -> Var:
        """The variable of an element: the one that it has already, or a new one.

        Raises Flawed TG126 for an array whose elements are no places, TG206 for another number of indices.
        """
        values = values_of_table(array, mark)
        if len(at) != len(array.shape):
            rank = len(array.shape)
            message = f"'{array.name}' has {rank} dimension{'s' * (rank > 1)}, but {len(at)} are indexed"
            raise Flawed("TG206", message, mark, "a let reads one element")
        when = every(*self.arms)
        for var, known in self.found:
            if (known.array, known.at, known.when) == (array.name, at, when):
                return var
        var = variable_of(fresh_name(f"{array.name}_read", {*self.taken, *(v.name for v, _ in self.found)}), values)
        self.found.append((var, Read(array.name, at, values, when, _bounds(var, values), mark=mark)))
        return var

    def name_only(self, name: str, value: Index) -> Var | None:
        """The variable under the let's own name where all of the value is one element; None where it is not."""
        if len(self.found) != 1 or value != self.found[0][0]:
            return None
        (old, read), var = self.found[0], replace(self.found[0][0], name=name)
        known = tuple(substitute(c, {old.name: var}) for c in read.known)
        self.found[0] = (var, replace(read, known=known, is_inside=False))
        return var


def _bounds(var: Var, values: Values) -> tuple[Index, ...]:
    """What the range of an array says of an element of it, beyond what its variable says."""
    low, high = values.places
    return tuple(c for c in (less(sub(low, 1), var), less(var, high)) if c is not True)


def values_of_table(array: Buffer, mark: Mark | None) -> Values:
    """The range of an array's elements as places: its ``values``, or all that a byte holds.

    A caller promises them; of a workspace the build shows them. Raises Flawed TG126 for an array that is none of
    integers of the grid, or whose elements may be any number.
    """
    kind, what = DTYPES[array.dtype], f"'{array.name}'"
    if not array.traits.is_array or kind.kind not in ("int", "uint"):
        held = f"of {array.dtype}" if array.traits.is_array else f"in {array.traits.words}"
        message = f"a let reads global arrays and workspaces of integers, and {what} is {held}"
        raise Flawed("TG126", message, mark, "an op takes its elements: name a region of it there")
    if array.values is not None:
        return array.values
    if kind.bytes > _SMALL_BYTES:
        message = f"'{array.name}' has no 'values', so its elements may be any {array.dtype}"
        raise Flawed("TG126", message, mark, f"say which they are: '{array.name}: {{.., values: \"0 : N\"}}'")
    info = np.iinfo(numpy_dtype(array.dtype))
    return Values(int(info.min), int(info.max) + 1)


def variable_of(name: str, values: Values) -> Var:
    """The variable of an element of those values."""
    low, high = values.places
    step = gcd(multiple(low), values.step)
    return Var(name, max(bound(high) - 1, least(low) + 1), max(1, step), least(low))


def order_offsets(var: Var, read: Read, before: Iterable[tuple[Var, Read]]) -> tuple[Index, ...]:
    """What holds between an offset and those read before: the offset of a later element is not less."""
    found: list[Index] = []
    for other, known in before:
        if read.values.pieces is None or known.array != read.array or read.when is not True or known.when is not True:
            continue
        apart = sub(read.at[0], known.at[0])
        found += [less(other, add(var, 1))] if least(apart) >= 0 else []
        found += [less(var, add(other, 1))] if bound(apart) <= 1 else []
    return tuple(c for c in found if c is not True)
