"""What the templates of gemm's specs are given: arrays, counts of tiles, the epilogue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilegen.arithmetic import TFLOAT32
from tilegen.index import Index
from tilegen.ops.gemm.problem import Matrix, Problem, ceil_text, count_own_k_tiles, is_multiple
from tilegen.spec.outline import fresh_name
from tilegen.spec.spelling import spell_index
from tilegen.spec.written import as_given


@dataclass(frozen=True)
class Writing:
    """A problem, and the names that the spec has already.

    ``has_budgets``: roles of the arch may have registers of their own.
    """

    problem: Problem
    taken: frozenset[str]
    has_budgets: bool = False

    @cached_property
    def own_names(self) -> dict[str, str]:
        """What operands and values are called that the epilogue names: as there, but where the spec has that name."""
        given = (*self.problem.named, *re.findall(r"([A-Za-z_]\w*)\s*=(?!=)", self.problem.epilogue))
        beside = self.taken | frozenset(given)
        return {name: fresh_name(name, beside) if name in self.taken else name for name in given}

    @cached_property
    def views(self) -> dict[str, str]:
        """The views with the last two dimensions exchanged, by the arrays that they are called after."""
        found: dict[str, str] = {}
        for m in self.problem.matrices:
            if m.is_turned:
                beside = self.taken.union(self.own_names.values(), (v for n, v in found.items() if n != m.name))
                found[m.name] = fresh_name(f"{m.name.rstrip('_')}_t", beside)
        return found

    def name_of(self, matrix: Matrix) -> str:
        """The array, or the view of it."""
        return as_given(self.views[matrix.name] if matrix.is_turned else matrix.name)

    @property
    def names(self) -> frozenset[str]:
        """All names that a template's own give way to."""
        return self.taken.union(self.own_names.values(), self.views.values())

    def rounding(self) -> str:
        """What a TMA load of factors says: those that are multiplied as tf32 are rounded, not cut off."""
        return "round: tf32, " if self.problem.factors == TFLOAT32 else ""


@dataclass(frozen=True)
class ArrayTerms:
    """An array, or the view of it, as templates name it; ``batch`` and ``edge`` are what a copy of a tile says then."""

    name: str
    matrix: Matrix
    edge: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def dtype(self) -> str:
        return self.matrix.dtype

    @property
    def batch(self) -> str:
        return "l, " if self.matrix.has_batch else ""

    def part(self, rows: tuple[str, int], columns: tuple[str, int]) -> str:
        """The region that belongs to a tile of d, by where it begins and how long it is: all of an extent of 1."""
        x = self.matrix
        parts = ["0 : +1" if n == 1 else f"{at} : +{size}" for n, (at, size) in ((x.rows, rows), (x.columns, columns))]
        kept = parts[1:] if x.rank == 1 and not x.is_turned else parts
        return f"{self}[{self.batch}{', '.join(kept)}]"


@dataclass(frozen=True)
class EpilogueTerms:
    """An elementwise expression of ``acc`` and of operands, by the names that they have in it."""

    expression: str
    operands: Mapping[str, ArrayTerms]
    edge: str


@dataclass(frozen=True)
class GemmTerms:
    """What every template is given: texts of a spec, and the sides of a tile.

    ``tm``, ``tn``, ``kt``: how many tiles there are along M, N and K; ``batch``: a factor of their product. Where CTAs
    share K, in so many ``parts``, a CTA has part ``l``: ``kt`` are its k-tiles, and ``k0`` those before them, else "".
    ``is_known``: M and N are numbers. ``is_plain``: sums are d's elements as they are.
    """

    bm: int
    bn: int
    bk: int
    tm: str
    tn: str
    kt: str
    k0: str
    parts: int
    batch: str
    is_batched: bool
    is_known: bool
    is_known_m: bool
    views: Mapping[str, Any]
    a: ArrayTerms
    b: ArrayTerms
    d: ArrayTerms
    sums: str
    epilogue: EpilogueTerms | None
    is_plain: bool


def describe_terms(w: Writing, tile: tuple[int, int, int], cluster: int) -> GemmTerms:
    """The terms of a problem that is cut into tiles, of which so many CTAs of a cluster take one each along M."""
    p, (bm, bn, bk) = w.problem, tile
    m, n, k = p.sides
    even = bm * cluster if p.parts > 1 else bm  # the last CTA of a cluster may have no row
    tm, tn = (as_given(ceil_text(x, size)) for x, size in ((m, bm * cluster), (n, bn)))
    a, b, d = (
        ArrayTerms(w.name_of(x), x, _edge((x.rows, rows), (x.columns, columns)))
        for x, rows, columns in ((p.a, even, bk), (p.b, bk, bn), (p.d, even, bn))
    )
    return GemmTerms(
        bm, bn, bk, tm, tn, *_share_k_tiles(k, bk, p.parts), p.parts,
        f"({as_given(spell_index(p.batch))}) * " if p.is_batched else "", p.is_batched,
        isinstance(m, int) and isinstance(n, int), isinstance(m, int), _list_views(w), a, b, d, p.sums,
        _describe_epilogue(w, d), not p.epilogue and p.d.dtype == p.sums,
    )  # fmt: skip


def _share_k_tiles(k: Index, depth: int, parts: int) -> tuple[str, str]:
    """How many k-tiles a CTA has, and how many are before them: of part ``l`` of so many.

    >>> _share_k_tiles(1024, 64, 4), _share_k_tiles(1088, 64, 4)
    (('4', 'l * 4'), ('(l + 1) * 17 // 4 - k0', 'l * 17 // 4'))
    """
    if parts == 1:
        return as_given(ceil_text(k, depth)), ""
    if isinstance(k, int):
        fewest, most = count_own_k_tiles(k, depth, parts)
        if fewest == most:
            return str(most), f"l * {most}"
    count = ceil_text(k, depth)
    count = count if count.isdigit() else as_given(f"({count})")
    return f"(l + 1) * {count} // {parts} - k0", f"l * {count} // {parts}"


def _list_views(w: Writing) -> dict[str, Any]:
    """The views that turned arrays are seen through."""
    problem = w.problem
    found: dict[str, Any] = {}
    for m in problem.matrices:
        if m.is_turned and m.rank == 1:
            found[w.name_of(m)] = {"view": as_given(m.name), "shape": [as_given(spell_index(m.rows)), 1]}
        elif m.is_turned:
            found[w.name_of(m)] = {"view": as_given(m.name), "axes": [0, 2, 1] if m.has_batch else [1, 0]}
    return found


def _describe_epilogue(w: Writing, d: ArrayTerms) -> EpilogueTerms | None:
    p = w.problem
    if not p.epilogue:
        return None
    own = {name: as_given(w.own_names.get(name, name)) for name in re.findall(r"[A-Za-z_]\w*", p.epilogue)}
    own["acc"] = "acc"
    expression = re.sub(r"[A-Za-z_]\w*", lambda word: own[word[0]], p.epilogue)
    operands = {as_given(w.own_names[name]): ArrayTerms(w.name_of(m), m) for name, m in p.named.items()}
    is_sized = any(x.rows != 1 or x.columns != 1 for x in p.named.values())
    return EpilogueTerms(expression, operands, d.edge if is_sized else "")


def _edge(*extents: tuple[Any, int]) -> str:
    """What a copy says whose boxes may leave the array."""
    return "" if all(is_multiple(x, n) for x, n in extents) else "edge: clip, "
