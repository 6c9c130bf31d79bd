"""What Gluon's layouts share: bases that grow bit by bit, the parts of CTAs, checks, names and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.errors import LayoutError
from tilegen.layouts.core.iters import flatten, split
from tilegen.layouts.linear.matrices import bits_of
from tilegen.layouts.linear.values import LinearFamily, LinearLayout, linear_from_bases

Rows = tuple[tuple[int, ...], ...]
Extents = Sequence[int] | Mapping[int, int]


# ---------------------------------------------------------------- bases that grow
class GluonTile:
    """Bases under construction: each new bit steps over everything that its dimension has reached."""

    def __init__(self, rank: int, inputs: Sequence[str]):
        self.bases: dict[str, list[list[int]]] = {name: [] for name in inputs}
        self.sizes = [1] * rank

    def grow(self, name: str, extents: Extents, order: Sequence[int], copied: int | None = None) -> GluonTile:
        """extents[d] positions of an input along each dimension, in order; along ``copied`` they are copies."""
        for d in order:
            for _ in range(bits_of(extents[d])):
                basis = [0] * len(self.sizes)
                if d != copied:
                    basis[d] = self.sizes[d]
                    self.sizes[d] *= 2
                self.bases[name].append(basis)
        return self

    def grow_to(self, name: str, shape: Sequence[int], order: Sequence[int]) -> GluonTile:
        """Repeated over ``name`` until no dimension is smaller than the shape."""
        return self.grow(name, [max(1, n // reached) for n, reached in zip(shape, self.sizes, strict=True)], order)


def combine(
    tile: GluonTile, cga_layout: Rows, shape: tuple[int, ...], order: Sequence[int], drop: bool
) -> LinearLayout:
    """The tile of a CTA repeated or cut to its part of the shape, then one such part for each block.

    The first input repeats. ``drop`` leaves out its bits that reach past the shape, otherwise they become copies.
    """
    repeating = next(iter(tile.bases))
    part = cta_part(shape, cga_layout)
    cga_sizes = [n // p for n, p in zip(shape, part, strict=True)]
    tile.grow_to(repeating, part, order)
    bases = {name: [_cut(b, part) for b in found] for name, found in tile.bases.items()}
    if drop:
        kept = zip(tile.bases[repeating], bases[repeating], strict=True)
        bases[repeating] = [after for before, after in kept if any(after) or not any(before)]
    bases["block"] = [[x * n for x, n in zip(_cut(b, cga_sizes), part, strict=True)] for b in cga_layout]
    return linear_from_bases(bases, shape)


def cta_part(shape: Sequence[int], cga_layout: Rows) -> list[int]:
    """The extents that one CTA holds: those of the tensor over the CTAs along each dimension.

    >>> cta_part((32, 64), ((1, 0), (2, 0)))
    [8, 64]
    """
    ctas = (1 << max((b[d].bit_length() for b in cga_layout), default=0) for d in range(len(shape)))
    return [n // min(c, n) for c, n in zip(ctas, shape, strict=True)]


def _cut(basis: Sequence[int], shape: Sequence[int]) -> list[int]:
    return [x if x < n else 0 for x, n in zip(basis, shape, strict=True)]


def row_major_order(rank: int) -> list[int]:
    return list(range(rank - 1, -1, -1))


# ---------------------------------------------------------------- values
class GluonLayout(LinearFamily):
    rank: int

    def to_linear(self, shape: Sequence[int]) -> LinearLayout:
        """The layout of a tensor of that shape as bases.

        Raises LayoutError for extents that are no powers of two, another rank, and a shape that the layout cannot tile.
        """
        shape = tuple(shape)
        if len(shape) != self.rank:
            raise LayoutError(f"{self} has rank {self.rank}, shape {list(shape)} has {len(shape)} dimensions")
        for n in shape:
            bits_of(n, "an extent of the shape")
        return self._linear(shape)

    def _linear(self, shape: tuple[int, ...]) -> LinearLayout:
        raise NotImplementedError

    def format_tensor_view(self, shape: Sequence[int]) -> str:
        """Who holds each element, as Gluon prints it: threads and registers, or the memory in the tensor's shape."""
        return tensor_view(self.to_linear(shape))

    def format_hardware_view(self, shape: Sequence[int]) -> str:
        """What each place holds, as Gluon prints it: a line for each register of a warp, or for each offset."""
        return hardware_view(self.to_linear(shape))

    def __str__(self) -> str:
        values = ((f.name, getattr(self, f.name)) for f in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={_spell(v)}' for name, v in values)})"


def _spell(value: Any) -> str:
    return f"[{', '.join(map(_spell, value))}]" if isinstance(value, tuple) else str(value)


def freeze(layout: Any, *names: str) -> None:
    """Lists of numbers and of bases as tuples."""
    for name in names:
        value = getattr(layout, name)
        if not isinstance(value, (list, tuple)):
            raise LayoutError(f"{name} is a list, not {value!r}")
        frozen = tuple(tuple(x) if isinstance(x, (list, tuple)) else x for x in value)
        object.__setattr__(layout, name, frozen)
        for n in (n for x in frozen for n in (x if isinstance(x, tuple) else (x,))):
            if not isinstance(n, int) or isinstance(n, bool) or n < 0:
                raise LayoutError(f"{name} holds integers that are not negative, not {n!r}")


def require_rank(layout: Any, rank: int, *names: str) -> None:
    for name in names:
        if len(getattr(layout, name)) != rank:
            raise LayoutError(f"{name} has {len(getattr(layout, name))} entries for a rank of {rank}")
    for basis in layout.cga_layout:
        if not isinstance(basis, tuple) or len(basis) != rank:
            raise LayoutError(f"a basis of cga_layout has {rank} coordinates, not {basis}")


def require_powers(layout: Any, *names: str) -> None:
    for name in names:
        value = getattr(layout, name)
        for n in value if isinstance(value, tuple) else (value,):
            bits_of(n, f"an entry of {name}" if isinstance(value, tuple) else name)


def require_order(order: tuple[int, ...]) -> None:
    if sorted(order) != list(range(len(order))):
        raise LayoutError(f"order {list(order)} is no permutation of the dimensions")


def mangle_rows(rows: Rows) -> str:
    return "_".join("~".join(map(str, row)) for row in rows)


def mangle_numbers(*values: tuple[int, ...]) -> str:
    return "_".join("_".join(map(str, v)) for v in values)


# ---------------------------------------------------------------- the two pictures that Gluon prints
def tensor_view(linear: LinearLayout) -> str:
    """Who holds each element: ``T<thread>:<register>`` of every copy, or what each offset of shared memory holds.

    One line for each row, brackets for each dimension; ``B<block>:`` comes first where there are several blocks.

    >>> layout = LinearLayout(register=[[0, 1]], lane=[[1, 0]], warp=[], block=[])
    >>> print(tensor_view(layout), end="")
    [[T0:0, T0:1]
    [ T1:0, T1:1]]
    """
    if "offset" in linear.names:
        return _bracket(_memory_entries(linear), linear.shape, ",")
    return _bracket(_owner_entries(linear), linear.shape, ", ")


def hardware_view(linear: LinearLayout) -> str:
    """What each place holds: a line for each register with the elements of all lanes, or one for each offset.

    >>> layout = LinearLayout(register=[[0, 1]], lane=[[1, 0]], warp=[], block=[])
    >>> print(hardware_view(layout), end="")
    Warp0:
    (0,0), (1,0)
    (0,1), (1,1)
    """
    return "".join(_memory_lines(linear) if "offset" in linear.names else _register_lines(linear))


def _elements(linear: LinearLayout, *names: str) -> NDArray[Any]:
    """The flat index of the element at every place, one dimension for each of the inputs ``names``."""
    counts = [linear.in_sizes.get(name, 1) for name in names]
    place = {name: x for name, x in zip(names, np.indices(counts), strict=True) if name in linear.names}
    return np.broadcast_to(flatten(linear.element(**place), linear.shape), counts)


def _owner_entries(linear: LinearLayout) -> list[str]:
    held = _elements(linear, "block", "warp", "lane", "register")
    blocks, _, lanes, _ = held.shape
    owners: list[list[str]] = [[] for _ in range(prod(linear.shape))]
    for (block, warp, lane, register), element in np.ndenumerate(held):
        prefix = f"B{block}:" if blocks > 1 else ""
        owners[element].append(f"{prefix}T{warp * lanes + lane}:{register}")
    width = max(len(name) for names in owners for name in names)
    return ["|".join(name.rjust(width) for name in names) for names in owners]


def _spell_element(linear: LinearLayout, flat: int, separator: str) -> str:
    pairs = zip(split(int(flat), linear.shape), linear.shape, strict=True)
    return f"({separator.join(str(x).rjust(len(str(n - 1))) for x, n in pairs)})"


def _memory_entries(linear: LinearLayout) -> list[str]:
    return [_spell_element(linear, x, ":") for x in _elements(linear, "block", "offset").ravel()[: prod(linear.shape)]]


def _bracket(entries: list[str], shape: Sequence[int], separator: str) -> str:
    """Entries as nested lists, one line for each row."""
    parts, rank = [], len(shape)
    for i in range(prod(shape)):
        opened = _trailing(split(i, shape), [0] * rank)
        closed = _trailing(split(i, shape), [n - 1 for n in shape])
        parts.append("[" * opened + (" " * (rank - opened) if opened else "") + entries[i] + "]" * closed)
        parts.append("\n" if closed else separator)
    return "".join(parts)


def _trailing(coord: Sequence[int], ends: Sequence[int]) -> int:
    """How many of the fastest coordinates are at an end, without a gap."""
    count = 0
    while count < len(coord) and coord[-1 - count] == ends[-1 - count]:
        count += 1
    return count


def _memory_lines(linear: LinearLayout) -> Iterator[str]:
    for block, held in enumerate(_elements(linear, "block", "offset")):
        yield f"Block: {block}:\n"
        for offset, element in enumerate(held):
            yield f"Offset: {offset} -> {_spell_element(linear, element, ',')}\n"


def _register_lines(linear: LinearLayout) -> Iterator[str]:
    held = _elements(linear, "block", "warp", "register", "lane")
    for block, warps in enumerate(held):
        if len(held) > 1:
            yield f"Block{block}:\n"
        for warp, registers in enumerate(warps):
            yield f"Warp{warp}:\n"
            for lanes in registers:
                yield ", ".join(_spell_element(linear, element, ",") for element in lanes) + "\n"
