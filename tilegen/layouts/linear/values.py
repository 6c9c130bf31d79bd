"""LinearLayout: hardware to logical coordinates by XOR, one basis for each bit of each hardware input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import Index, add, bound, div, mod, mul, xor
from tilegen.layouts.core.iters import flatten, is_symbolic, require_index, require_shape, split
from tilegen.layouts.linear.matrices import (
    BitRun,
    Columns,
    bits_of,
    eliminate,
    image_of,
    right_inverse,
    runs,
    split_bits,
)
from tilegen.notebooks import Shown

MAX_BITS = 62  # flat positions stay inside a signed 64-bit integer
MAX_REPLICAS = 1 << 16  # places of one element that apply() lists
Bases = tuple[tuple[int, ...], ...]
RESERVED = ("shape", "outs")


@dataclass(frozen=True, init=False)
class LinearLayout(Shown):
    """The XOR-linear map from hardware to logical coordinates: x = XOR of bases[input][k] over the ones of each input.

    Each keyword is an input (register, lane, warp, block, offset, ...) and its bases, lowest bit first: the logical
    coordinates of the element that the bit alone reaches. A zero basis is a copy: the bit does not change the element.
    ``shape`` is the extents of the logical coordinates, powers of two (default: the smallest that hold all bases), and
    ``outs`` their names (default dim0, dim1, ...). Inputs keep their order; flat, the first one is the fastest.
    Raises LayoutError for bases of several lengths, bases outside the shape, and more than 62 bits on a side.

    >>> layout = LinearLayout(register=[[0, 1]], lane=[[0, 2], [1, 0]])
    >>> print(layout)
    LinearLayout(register=[[0, 1]], lane=[[0, 2], [1, 0]], shape=[2, 4])
    >>> layout.element(register=1, lane=3)
    (1, 3)
    """

    inputs: tuple[tuple[str, Bases], ...]
    shape: tuple[int, ...]
    outs: tuple[str, ...]

    def __init__(
        self,
        *,
        shape: Sequence[int] | None = None,
        outs: Sequence[str] | None = None,
        **inputs: Sequence[Sequence[int]],
    ):
        read = tuple((name, _read_bases(name, bases)) for name, bases in inputs.items())
        every = [basis for _, bases in read for basis in bases]
        shape = _smallest_shape(every, outs) if shape is None else shape
        shape = tuple(require_index(n, "an extent", 1) for n in shape)  # type: ignore[misc]
        names = tuple(outs) if outs is not None else tuple(f"dim{d}" for d in range(len(shape)))
        _check(read, shape, names)
        for field, value in (("inputs", read), ("shape", shape), ("outs", names)):
            object.__setattr__(self, field, value)

    def __str__(self) -> str:
        parts = [f"{name}={[list(basis) for basis in bases]}" for name, bases in self.inputs]
        parts.append(f"shape={list(self.shape)}")
        if self.outs != tuple(f"dim{d}" for d in range(len(self.shape))):
            parts.append(f"outs={list(self.outs)}")
        return f"LinearLayout({', '.join(parts)})"

    # ------------------------------------------------------------ as a matrix
    @property
    def bases(self) -> dict[str, list[list[int]]]:
        """Each input's bases, as lists."""
        return {name: [list(basis) for basis in bases] for name, bases in self.inputs}

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs' names."""
        return tuple(name for name, _ in self.inputs)

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of each input."""
        return tuple(len(bases) for _, bases in self.inputs)

    @property
    def in_sizes(self) -> dict[str, int]:
        """Positions of each input: 2**bits."""
        return {name: 1 << len(bases) for name, bases in self.inputs}

    @cached_property
    def out_bits(self) -> int:
        """Bits of the logical flat index."""
        return prod(self.shape).bit_length() - 1

    @cached_property
    def _most_bits(self) -> int:
        return max(self.out_bits, sum(self.widths))

    @cached_property
    def columns(self) -> Columns:
        """The matrix: for each hardware bit, first input first, the row-major flat index in ``shape``."""
        return tuple(flatten(basis, self.shape) for _, bases in self.inputs for basis in bases)

    @cached_property
    def inverse_columns(self) -> Columns | int:
        """For each bit of the logical flat index the hardware bits, or the first flat index that is held nowhere."""
        found = right_inverse(self.columns, self.out_bits)
        return found if isinstance(found, tuple) else 1 << found

    # ------------------------------------------------------------ hardware to logical
    def element(self, **place: Any) -> tuple[Any, ...]:
        """The logical coordinates of what a place holds; inputs that are not named are at 0.

        x = XOR of the bases at the ones of each position. Positions are ints or NumPy arrays. Raises LayoutError for
        an unknown input and a position outside it.

        >>> LinearLayout(offset=[[0, 1], [0, 2], [1, 1]]).element(offset=5)
        (1, 0)
        """
        if unknown := place.keys() - self.in_sizes.keys():
            raise LayoutError(f"no input {min(unknown)!r}: inputs are {', '.join(self.names) or 'none'}")
        results: list[Any] = [0] * len(self.shape)
        for name, bases in self.inputs:
            x = _narrow(place.get(name, 0), self._most_bits)
            _require_inside(x, 1 << len(bases), name)
            for d in range(len(self.shape)):
                results[d] = results[d] ^ _move(x, runs([basis[d] for basis in bases]))
        return tuple(results)

    # ------------------------------------------------------------ logical to hardware
    def apply(self, *coord: Any, shape: Sequence[int] | None = None) -> tuple[dict[str, Any], ...]:
        """Where an element lies, one {input: position} for each copy, that with the free bits at 0 first.

        One number is a flat row-major index, otherwise one coordinate for each dimension; with ``shape`` they are
        flattened in it first. Raises LayoutError for coordinates out of range, an element that is held nowhere, and
        more than 65,536 copies.

        >>> LinearLayout(lane=[[1], [0]]).apply(1)
        ({'lane': 1}, {'lane': 3})
        """
        domain = tuple(shape) if shape is not None else self.shape if len(coord) != 1 else (prod(self.shape),)
        for x, n in zip(coord, domain, strict=False):
            _require_inside(x, n, "a coordinate")
        first = self.place(coord, domain)
        free = eliminate(self.columns).kernel
        if 1 << len(free) > MAX_REPLICAS:
            raise LayoutError(f"an element has {1 << len(free)} copies, more than {MAX_REPLICAS}")
        copies = (split_bits(image_of(free, k), self.widths) for k in range(1 << len(free)))
        return tuple({name: first[name] ^ s for name, s in zip(self.names, copy, strict=True)} for copy in copies)

    __call__ = apply

    def place(self, coords: Sequence[Any], shape: Sequence[Index]) -> dict[str, Any]:
        """The first copy of the element at ``coords`` of a buffer of that ``shape``: {input: position}.

        Through the inverse: position = XOR of the inverse's columns at the ones of the flat index. Takes ints, NumPy
        arrays and Index alike and checks no range. Raises LayoutError for a shape of another size, and when elements
        are held nowhere.

        >>> LinearLayout(offset=[[0, 1], [1, 1]]).place((1, 0), (2, 2))
        {'offset': 3}
        """
        coords = self._coordinates(coords, shape)
        inverse = self.inverse_columns
        if not isinstance(inverse, tuple):
            raise LayoutError(f"{self} holds element {tuple(split(inverse, self.shape))} nowhere")
        fields = [split_bits(column, self.widths) for column in inverse]
        widths = [n.bit_length() - 1 for n in self.shape]
        place: dict[str, Any] = {}
        for i, name in enumerate(self.names):
            terms, low = [], self.out_bits
            for x, width in zip(coords, widths, strict=True):  # the last dimension has the lowest bits
                low -= width
                terms.append((x, runs([field[i] for field in fields[low : low + width]])))
            place[name] = _join(terms)
        return _broadcast(place, coords)

    def _coordinates(self, coords: Sequence[Any], shape: Sequence[Index]) -> list[Any]:
        """Coordinates in ``self.shape``."""
        if len(coords) != len(shape):
            raise LayoutError(f"{len(coords)} coordinates for a shape of {len(shape)} dimensions")
        shape = require_shape(shape)
        values = [_narrow(x, self._most_bits) for x in coords]
        if shape == self.shape:
            return values
        if any(is_symbolic(n) for n in shape) or prod(shape) != prod(self.shape):
            raise LayoutError(f"shape {tuple(map(str, shape))} has not the {prod(self.shape)} elements of {self}")
        return split(flatten(values, shape), self.shape)


class LinearFamily(Shown, ABC):
    """Linear layouts of one kind: one for every shape of a tensor, as Gluon's layouts are."""

    @abstractmethod
    def to_linear(self, shape: Sequence[int]) -> LinearLayout:
        """The layout of a tensor of that shape. Raises LayoutError where there is none."""


# ---------------------------------------------------------------- reading
def _read_bases(name: str, bases: Sequence[Sequence[int]]) -> Bases:
    if not isinstance(bases, (list, tuple)) or not all(isinstance(basis, (list, tuple)) for basis in bases):
        raise LayoutError(f"the bases of {name} are a list of coordinates, as [[0, 1], [0, 2]], not {bases!r}")
    return tuple(tuple(_read_number(x, name) for x in basis) for basis in bases)


def _read_number(x: Any, name: str) -> int:
    number = require_index(x, f"a basis of {name}", 0)
    if not isinstance(number, int):
        raise LayoutError(f"a basis of {name} is known at build time, not {number}")
    return number


def _smallest_shape(every: list[tuple[int, ...]], outs: Sequence[str] | None) -> tuple[int, ...]:
    if not every and outs is None:
        raise LayoutError("a LinearLayout without bases needs a shape")
    rank = len(every[0]) if every else len(outs or ())
    return tuple(1 << max((b[d].bit_length() for b in every if d < len(b)), default=0) for d in range(rank))


def _check(inputs: tuple[tuple[str, Bases], ...], shape: tuple[int, ...], outs: tuple[str, ...]) -> None:
    for n in shape:
        bits_of(n, "an extent of a LinearLayout")
    if len(outs) != len(shape) or len(set(outs)) != len(outs):
        raise LayoutError(f"{len(shape)} extents but the names {', '.join(outs)}: one name for each extent")
    for name, bases in inputs:
        for basis in bases:
            if len(basis) != len(shape):
                raise LayoutError(f"basis {list(basis)} of {name} has {len(basis)} coordinates, not {len(shape)}")
            if any(x >= n for x, n in zip(basis, shape, strict=True)):
                raise LayoutError(f"basis {list(basis)} of {name} is outside shape {list(shape)}")
    if max(sum(len(bases) for _, bases in inputs), prod(shape).bit_length() - 1) > MAX_BITS:
        raise LayoutError(f"a LinearLayout has at most {MAX_BITS} bits on either side")


# ---------------------------------------------------------------- moving bits
def _require_inside(x: Any, n: int, what: str) -> None:
    if is_symbolic(x):
        return  # ranges of expressions are proved where they are used
    values = np.asarray(x)
    if values.dtype.kind not in "iu":
        raise LayoutError(f"{what} is an integer, not {x!r}")
    if values.size and (values.min() < 0 or values.max() >= n):
        raise LayoutError(f"{what} is in [0, {n}), not {values.min() if values.min() < 0 else values.max()}")


def _narrow(x: Any, bits: int) -> Any:
    """NumPy ints as ints, arrays as the narrowest signed type that holds ``bits``."""
    if isinstance(x, np.ndarray):
        return x.astype(np.int32 if bits < 31 else np.int64, copy=False)
    return int(x) if isinstance(x, np.integer) else x


def _move(x: Any, moves: Sequence[BitRun]) -> Any:
    return _join([(x, moves)])


def _join(terms: Sequence[tuple[Any, Sequence[BitRun]]]) -> Any:
    """XOR of bit fields; of expressions, those that share no bit with the sum so far are added."""
    total: Any = 0
    support = 0
    for x, moves in terms:
        for run in moves:
            piece, mask = _cut(x, run), ((1 << run.length) - 1) << run.target
            symbolic = is_symbolic(piece) or is_symbolic(total)
            total = (add(total, piece) if not support & mask else xor(total, piece)) if symbolic else total ^ piece
            support |= mask
    return total


def _cut(x: Any, run: BitRun) -> Any:
    mask = (1 << run.length) - 1
    if not is_symbolic(x):
        return ((x >> run.source) & mask) << run.target
    shifted = div(x, 1 << run.source)
    cut = shifted if bound(shifted) <= mask + 1 else mod(shifted, mask + 1)
    return mul(cut, 1 << run.target)


def _broadcast(place: Mapping[str, Any], coords: Sequence[Any]) -> dict[str, Any]:
    arrays = [x.shape for x in coords if isinstance(x, np.ndarray)]
    if not arrays:
        return dict(place)
    whole = np.broadcast_shapes(*arrays)
    return {name: np.broadcast_to(x, whole) for name, x in place.items()}


def linear_from_bases(
    bases: Mapping[str, Sequence[Sequence[int]]], shape: Sequence[int], outs: Sequence[str] | None = None
) -> LinearLayout:
    """The layout of bases that are already at hand by name.

    Raises LayoutError as the class does, and for inputs named shape and outs.

    >>> print(linear_from_bases({"lane": [[1], [2]]}, (4,)))
    LinearLayout(lane=[[1], [2]], shape=[4])
    """
    if reserved := [name for name in bases if name in RESERVED or not name.isidentifier()]:
        raise LayoutError(f"{reserved[0]!r} is not a name for an input")
    return LinearLayout(shape=shape, outs=outs, **dict(bases))


def linear_from_columns(
    columns: Sequence[int], inputs: Mapping[str, int], shape: Sequence[int], outs: Sequence[str] | None = None
) -> LinearLayout:
    """The layout of a matrix: ``inputs`` gives each input's bits, columns are row-major flat indices in ``shape``.

    Raises LayoutError as the class does.

    >>> print(linear_from_columns((1, 2, 7), {"offset": 3}, (2, 4)))
    LinearLayout(offset=[[0, 1], [0, 2], [1, 3]], shape=[2, 4])
    """
    left = iter(columns)
    bases = {name: [tuple(split(next(left), shape)) for _ in range(bits)] for name, bits in inputs.items()}
    return linear_from_bases(bases, shape, outs)


def name_bits(layout: LinearLayout, flat: int) -> dict[str, int]:
    """The place that one number spells, the first input in its lowest bits; inputs that are 0 are left out.

    >>> name_bits(LinearLayout(register=[[1]], lane=[[2]]), 2)
    {'lane': 1}
    """
    fields = split_bits(flat, layout.widths)
    return {name: x for name, x in zip(layout.names, fields, strict=True) if x}
