"""Matrices over F2 (the integers mod 2) as their columns: column k is an int whose bit j says that bit k reaches bit j.

A column is a Python int, a vector the same; addition is XOR. Everything here is exact and costs O(columns**2) XORs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tilegen.errors import LayoutError

Columns = tuple[int, ...]


def bits_of(n: int, what: str = "an extent") -> int:
    """log2 of a power of two.

    Raises LayoutError for other numbers: bits count in powers of two only.

    >>> bits_of(64)
    6
    """
    if not isinstance(n, int) or n < 1 or n & (n - 1):
        raise LayoutError(f"{what} is a power of two, not {n}")
    return n.bit_length() - 1


def set_bits(x: int) -> Iterator[int]:
    """The positions of the ones of x, lowest first.

    >>> list(set_bits(0b1010))
    [1, 3]
    """
    while x:
        low = x & -x
        yield low.bit_length() - 1
        x ^= low


def image_of(columns: Sequence[int], x: int) -> int:
    """The matrix applied to a vector: the XOR of the columns at the ones of x.

    >>> image_of((1, 2, 5), 0b110)
    7
    """
    result = 0
    for k in set_bits(x):
        result ^= columns[k]
    return result


def multiply(outer: Sequence[int], inner: Sequence[int]) -> Columns:
    """The columns of outer * inner: inner first.

    >>> multiply((1, 3), (2, 3))
    (3, 2)
    """
    return tuple(image_of(outer, column) for column in inner)


class Echelon(NamedTuple):
    """Columns eliminated in order: what they span, which of them do, and which combinations vanish."""

    rows: dict[int, tuple[int, int]]  # highest bit -> (vector, the columns whose XOR it is); never a dependent column
    kernel: Columns  # combinations of columns that XOR to 0, one for each column that depends on earlier ones


def eliminate(columns: Iterable[int]) -> Echelon:
    """Gaussian elimination over F2, first columns first.

    >>> eliminate((1, 2, 3)).kernel
    (7,)
    """
    rows: dict[int, tuple[int, int]] = {}
    kernel = []
    for k, column in enumerate(columns):
        vector, combination = _reduce(rows, column)
        combination ^= 1 << k
        if vector:
            rows[vector.bit_length() - 1] = vector, combination
        else:
            kernel.append(combination)
    return Echelon(rows, tuple(kernel))


def _reduce(rows: dict[int, tuple[int, int]], vector: int) -> tuple[int, int]:
    """(what is left of a vector, the combination of columns taken from it)."""
    combination = 0
    while vector and (row := rows.get(vector.bit_length() - 1)):
        vector, combination = vector ^ row[0], combination ^ row[1]
    return vector, combination


def rank_of(columns: Iterable[int]) -> int:
    """The dimension of the columns' span.

    >>> rank_of((1, 2, 3))
    2
    """
    return len(eliminate(columns).rows)


def span_basis(vectors: Iterable[int]) -> Columns:
    """The reduced basis of a span, smallest first: equal spans give equal bases.

    >>> span_basis((6, 5)), span_basis((3, 6))
    ((3, 5), (3, 5))
    """
    basis: list[int] = []
    for vector in sorted(v for v, _ in eliminate(vectors).rows.values()):
        for lower in basis:  # their highest bits are not in it afterwards
            if vector >> (lower.bit_length() - 1) & 1:
                vector ^= lower
        basis.append(vector)
    return tuple(basis)


def right_inverse(columns: Sequence[int], bits: int) -> Columns | int:
    """Columns with columns * result = identity on ``bits`` bits, or the first bit that is out of reach.

    Columns that depend on earlier ones are not used: free variables are 0.

    >>> right_inverse((2, 0, 1), 2), right_inverse((2, 0), 2)
    ((4, 1), 0)
    """
    rows = eliminate(columns).rows
    result = []
    for j in range(bits):
        left, combination = _reduce(rows, 1 << j)
        if left:
            return j
        result.append(combination)
    return tuple(result)


class BitRun(NamedTuple):
    """``length`` bits from ``source`` that all move to ``target``: ((x >> source) % 2**length) << target."""

    source: int
    target: int
    length: int


def runs(columns: Sequence[int]) -> tuple[BitRun, ...]:
    """The matrix as a XOR of shifted bit fields, the longest first along each diagonal.

    >>> runs((1, 2, 4 | 1))
    (BitRun(source=0, target=0, length=3), BitRun(source=2, target=0, length=1))
    """
    left = {(k, j) for k, column in enumerate(columns) for j in set_bits(column)}
    found = []
    for k, j in sorted(left):
        length = 0
        while (k + length, j + length) in left:
            left.remove((k + length, j + length))
            length += 1
        if length:
            found.append(BitRun(k, j, length))
    return tuple(found)


def split_bits(x: Any, widths: Sequence[int]) -> list[Any]:
    """Fields of x, the first from the lowest bits.

    >>> split_bits(0b1101, (1, 3))
    [1, 6]
    """
    fields = []
    for width in widths:
        fields.append(x & ((1 << width) - 1))
        x = x >> width
    return fields


def join_bits(fields: Sequence[int], widths: Sequence[int]) -> int:
    """The inverse of ``split_bits``.

    >>> join_bits((1, 6), (1, 3))
    13
    """
    result = position = 0
    for field, width in zip(fields, widths, strict=True):
        result |= field << position
        position += width
    return result
