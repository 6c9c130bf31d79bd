"""What a gemm is asked for: sizes, types, where elements lie, and what is made of each sum."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from tilegen.arithmetic import TFLOAT32
from tilegen.dtypes import DTYPES
from tilegen.index import Index, evaluate, mul, multiple, variables
from tilegen.ops.strided import plain_strides
from tilegen.spec.data import Buffer, WholeCall
from tilegen.spec.form import operand_field
from tilegen.spec.spelling import spell_index

WIDEST = 16  # bytes of an access, and what TMA's rows are a multiple of
LINE = 128  # bytes of a line of the L2
MOST_PARTS = 64  # CTAs that may share K
LISTED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, MOST_PARTS)  # numbers of them that are looked at for ``auto``
SUMS = {"float64": "float64", "int8": "int32", "uint8": "int32", "int32": "int32"}  # else float32


@dataclass(frozen=True)
class Matrix:
    """An array as [batch,] rows, columns.

    ``strides``: in elements, of the batch (0 where all share one), rows and columns. ``has_batch``: the array has a
    dimension for it. ``is_turned``: it is declared with the last two dimensions the other way round. ``rank``: 1 where
    it is declared as a row alone.
    """

    name: str
    dtype: str
    rows: Index
    columns: Index
    strides: tuple[Index, Index, Index]
    align_bytes: int
    has_batch: bool = False
    is_turned: bool = False
    rank: int = 2

    @property
    def runs_along_rows(self) -> bool:
        """Do neighbours of a row lie side by side?"""
        return self.strides[2] == 1 and not (self.strides[1] == 1 and self.columns == 1)

    @property
    def is_dense(self) -> bool:
        """Do neighbours of a row, or of a column, lie side by side?"""
        return 1 in self.strides[1:]

    @property
    def unit_bytes(self) -> int:
        """The widest access, up to 16 bytes, to which every row (or column) is aligned."""
        size, (batch, row, column) = DTYPES[self.dtype].bytes, self.strides
        pitches = [batch, row if self.runs_along_rows else column]
        return gcd(WIDEST, self.align_bytes, *(multiple(mul(p, size)) for p in pitches if p not in (0,)))

    def count_lines(self, values: Mapping[str, int]) -> float:
        """Lines of 128 bytes that 128 bytes of a row (or a column) lie in, on average over rows. ``values``: of params.

        >>> [Matrix("A", "bfloat16", 8, n, (0, n, 1), 16).count_lines({}) for n in (64, 32, 1000)]
        [1.0, 1.5, 1.875]
        """
        pitch = self.strides[1] if self.runs_along_rows else self.strides[2]
        apart = LINE // gcd(LINE, int(evaluate(pitch, values)) * DTYPES[self.dtype].bytes)
        return 2 - 1 / apart

    @property
    def whole_bytes(self) -> int:
        """The same of what rows (or columns) consist of to their ends: beyond these there may be other elements."""
        size, extent = DTYPES[self.dtype].bytes, self.columns if self.runs_along_rows else self.rows
        return gcd(self.unit_bytes, multiple(mul(extent, size))) if self.is_dense else size

    @property
    def comes_singly(self) -> bool:
        """Do rows (or columns) begin anywhere, so that threads load elements one by one?"""
        return self.unit_bytes < 2 * DTYPES[self.dtype].bytes

    def turned(self) -> Matrix:
        """The same elements, rows as columns."""
        batch, row, column = self.strides
        return replace(
            self, rows=self.columns, columns=self.rows, strides=(batch, column, row), is_turned=not self.is_turned
        )


@dataclass(frozen=True)
class Problem:
    """d = epilogue of a b: ``a`` is M x K, ``b`` K x N, ``d`` M x N.

    ``named``: what the epilogue may name beside ``acc``, by name: each stretched over M x N. ``epilogue``: "" where
    sums are only rounded to d's type. ``batch``: how many products there are, 1 where none of the arrays has a
    dimension for it. ``sums``: the type of the accumulators. ``factors``: the type as which a and b are multiplied.
    ``parts``: CTAs of a tile that share K; with more than one, d is [parts, M, N] and holds the sums of each.
    """

    a: Matrix
    b: Matrix
    d: Matrix
    named: Mapping[str, Matrix]
    epilogue: str
    batch: Index
    is_batched: bool
    sums: str
    factors: str
    parts: int = 1

    @property
    def sides(self) -> tuple[Index, Index, Index]:
        """M, N and K."""
        return self.d.rows, self.d.columns, self.a.columns

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        return self.a, self.b, self.d, *self.named.values()

    @property
    def types(self) -> tuple[str, str, str]:
        """As which a and b are multiplied, and the sums' type: what an instruction is looked up by."""
        return self.factors, self.factors if self.a.dtype == self.b.dtype else self.b.dtype, self.sums

    def turned(self) -> Problem:
        """The same product of the transposes: rows of d are its columns."""
        named = {name: m.turned() for name, m in self.named.items()}
        return replace(self, a=self.b.turned(), b=self.a.turned(), d=self.d.turned(), named=named)

    @property
    def is_read_again(self) -> bool:
        """Does the epilogue read the array that is written?"""
        return any(m.name == self.d.name for m in self.named.values())


def read_problem(call: WholeCall) -> Problem:
    """The problem of a checked call."""
    arrays, fields = call.arrays, call.fields
    a, b, d = (_matrix(arrays[name]) for name in ("a", "b", "d"))
    is_batched = len(arrays["d"].shape) == 3
    named = {name: _matrix(arrays[operand_field(name)]) for name in fields.named}
    for name in ("c", "bias"):
        if name in arrays:
            named[name] = _matrix(arrays[name])
    batch = arrays["d"].shape[0] if is_batched else 1
    factors = a.dtype if fields.math == "exact" else TFLOAT32
    text, _ = spell_epilogue(fields, named)
    used = {name: m for name, m in named.items() if re.search(rf"\b{name}\b", text)}
    is_plain = text.strip() == "acc"
    return Problem(a, b, d, used, "" if is_plain else text, batch, is_batched, sums_of(a.dtype), factors)


def sums_of(dtype: str) -> str:
    """The type in which products of a type are added up."""
    return SUMS.get(dtype, "float32")


def spell_epilogue(fields: Any, named: Iterable[str]) -> tuple[str, tuple[tuple[str, int] | None, ...]]:
    """The expression of ``acc`` with alpha and beta written out, and where each of its characters stands: a field and
    the place in its text, None for what no field has.

    ``named``: which of c and bias there are.

    >>> from types import SimpleNamespace
    >>> text, origins = spell_epilogue(SimpleNamespace(epilogue="beta * acc", alpha=1, beta="x"), [])
    >>> text, origins[0], origins[4]
    ('x * acc', ('beta', 0), ('epilogue', 7))
    """
    own = {"alpha": fields.alpha, "beta": fields.beta}
    terms = [["acc"] if own["alpha"] == 1 else ["alpha", " * acc"]]
    terms += [] if "c" not in named else [["c"] if own["beta"] == 1 else ["beta", " * ", "c"]]
    terms += [["bias"]] if "bias" in named else []
    plain = [piece for term in terms for piece in (" + ", *term)][1:]
    written = fields.epilogue if fields.epilogue is not None else "".join(plain)
    text, origins, at = "", list[tuple[str, int] | None](), 0
    for found in [*re.finditer(r"\b(?:alpha|beta|c|bias)\b", written), None]:
        end = found.start() if found else len(written)
        text += written[at:end]
        origins += [None if fields.epilogue is None else ("epilogue", k) for k in range(at, end)]
        if found:
            value = own.get(found[0], found[0])
            said = f"({value})" if isinstance(value, int | float) else str(value)
            is_given = fields.epilogue is not None and found[0] not in own
            origins += [("epilogue", end + k) if is_given else (found[0], k) for k in range(len(said))]
            text, at = text + said, found.end()
    return text, tuple(origins)


def _matrix(buffer: Buffer) -> Matrix:
    """An array of one to three dimensions; of one it is a row."""
    strides = plain_strides(buffer)
    assert strides is not None
    shape = (*(1,) * (3 - len(buffer.shape)), *buffer.shape)
    padded = (*(0,) * (3 - len(strides)), *(0 if n == 1 else s for n, s in zip(buffer.shape, strides, strict=True)))
    return Matrix(
        buffer.name,
        buffer.dtype,
        shape[1],
        shape[2],
        (padded[0], padded[1], padded[2] or (1 if shape[2] == 1 else 0)),
        buffer.align_bytes,
        len(buffer.shape) == 3,
        rank=len(buffer.shape),
    )


def typical_values(problem: Problem) -> dict[str, int]:
    """A value for each param that sizes are functions of, for which times are compared: 4096, of batches 16, or the
    nearest that it can have."""
    found: dict[str, int] = {}
    for size, wanted in ((problem.batch, 16), *((side, 4096) for side in problem.sides)):
        for v in variables(size):
            most = max(v.least, v.bound - 1)
            found.setdefault(v.name, max(v.least, min(wanted, most) // v.step * v.step, min(v.step, most)))
    return found


def typical_sides(problem: Problem) -> tuple[int, int, int]:
    """M, N and K at typical values of params."""
    values = typical_values(problem)
    m, n, k = (int(evaluate(x, values)) for x in problem.sides)
    return m, n, k


def typical_batch(problem: Problem) -> int:
    """How many products there are, at typical values of params."""
    return int(evaluate(problem.batch, typical_values(problem)))


def count_tiles(problem: Problem, bm: int, bn: int) -> int:
    """How many tiles of so many rows and columns there are of d, at typical values of params."""
    m, n, _ = typical_sides(problem)
    return -(-m // bm) * -(-n // bn) * typical_batch(problem)


def count_own_k_tiles(k: int, depth: int, parts: int) -> tuple[int, int]:
    """The fewest and the most k-tiles of so many elements that a CTA multiplies, where so many CTAs share K.

    >>> count_own_k_tiles(1000, 64, 1), count_own_k_tiles(1088, 64, 4)
    ((16, 16), (4, 5))
    """
    k_tiles = -(-k // depth)
    return k_tiles // parts, -(-k_tiles // parts)


def bytes_of(dtype: str) -> int:
    return DTYPES[dtype].bytes


def ceil_text(x: Index, size: int) -> str:
    """How many parts of a size there are, as a spec says it."""
    if isinstance(x, int):
        return str(-(-x // size))
    return f"ceil({spell_index(x)} / {size})" if multiple(x) % size else f"({spell_index(x)}) // {size}"


def is_multiple(x: Index, size: int) -> bool:
    """Is it a multiple for every value of the params?"""
    return multiple(x) % size == 0
