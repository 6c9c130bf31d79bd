"""Parts of the specs that carry out a gemm: names, regions, the order of tiles, the epilogue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilegen.arithmetic import TFLOAT32
from tilegen.dtypes import DTYPES
from tilegen.ops.gemm.problem import Matrix, Problem, ceil_text, is_multiple
from tilegen.ops.gemm.recipe import Recipe
from tilegen.spec.outline import fresh_name
from tilegen.spec.spelling import spell_index

Statements = list[Any]  # dicts and words, as YAML holds them


@dataclass(frozen=True)
class Writing:
    """A problem, how it is carried out, and the names that the spec has already.

    ``has_budgets``: roles of the arch may have registers of their own.
    """

    problem: Problem
    recipe: Recipe
    taken: frozenset[str]
    has_budgets: bool = False

    @cached_property
    def own_names(self) -> dict[str, str]:
        """What operands and values are called that the epilogue names: as there, but where the spec has that name."""
        given = (*self.problem.named, *re.findall(r"([A-Za-z_]\w*)\s*=(?!=)", self.problem.epilogue))
        beside = self.taken | frozenset(given)
        return {name: fresh_name(name, beside) if name in self.taken else name for name in given}

    def fresh(self, name: str) -> str:
        """``name``, or one like it that neither the spec nor the epilogue has."""
        return fresh_name(name, self.taken.union(self.own_names.values()))

    def name_of(self, matrix: Matrix) -> str:
        """The array, or the view of it with the last two dimensions exchanged."""
        return self.fresh(f"{matrix.name}_t") if matrix.is_turned else matrix.name

    def rounding(self) -> dict[str, str]:
        """What a TMA load of factors says: those that are multiplied as tf32 are rounded, not cut off."""
        return {"round": "tf32"} if self.problem.factors == TFLOAT32 else {}

    def views(self) -> dict[str, Any]:
        """The views that turned arrays are seen through."""
        problem = self.problem
        found: dict[str, Any] = {}
        for m in (problem.a, problem.b, problem.d, *problem.named.values()):
            if m.is_turned and m.rank == 1:
                found[self.name_of(m)] = {"view": m.name, "shape": [spell_index(m.rows), 1]}
            elif m.is_turned:
                found[self.name_of(m)] = {"view": m.name, "axes": [0, 2, 1] if m.has_batch else [1, 0]}
        return found

    def stretched(self, matrix: Matrix, rows: tuple[str, int], columns: tuple[str, int]) -> str:
        """The part of an operand of the epilogue that belongs to a tile of d: all of an extent of 1."""
        one = ("0", 1)
        return self.region(matrix, one if matrix.rows == 1 else rows, one if matrix.columns == 1 else columns)

    def region(self, matrix: Matrix, rows: tuple[str, int], columns: tuple[str, int]) -> str:
        """A tile of an array, by where it begins and how long it is."""
        parts = [f"{at} : +{length}" for at, length in (rows, columns)]
        if matrix.rank == 1 and not matrix.is_turned:
            parts = parts[1:]
        if matrix.has_batch:
            parts = [self.fresh("l"), *parts]
        return f"{self.name_of(matrix)}[{', '.join(parts)}]"

    def edge(self, *extents: tuple[Any, int]) -> dict[str, str]:
        """What a copy says whose boxes may leave the array."""
        return {} if all(is_multiple(x, n) for x, n in extents) else {"edge": "clip"}


def number_tiles(w: Writing, t: str, pairs: int = 1) -> tuple[dict[str, str], dict[str, str]]:
    """Names for how many tiles there are, and for which one number ``t`` is: in groups of rows of tiles.

    ``pairs``: tiles along M that CTAs of a cluster take together.
    """
    problem, (bm, bn, bk) = w.problem, w.recipe.tile
    m, n, k = problem.sides
    counts = {w.fresh("tm"): ceil_text(m, bm * pairs), w.fresh("tn"): ceil_text(n, bn), w.fresh("kt"): ceil_text(k, bk)}
    tm, tn, group = w.fresh("tm"), w.fresh("tn"), w.recipe.group
    place: dict[str, str] = {}
    if problem.is_batched:
        place[w.fresh("l")] = f"{t} // ({tm} * {tn})"
        place[w.fresh("u")] = f"{t} % ({tm} * {tn})"
        t = w.fresh("u")
    g, i, rows = w.fresh("g"), w.fresh("i"), w.fresh("rows")
    some = f"min({group}, {tm} - {g}*{group})"
    place |= {g: f"{t} // ({group} * {tn})", i: f"{t} % ({group} * {tn})"}
    place[rows] = some if isinstance(m, int) and isinstance(n, int) else f"max({some}, 1)"
    row = f"{g}*{group} + {i} % {rows}"
    if t != "bx" and not isinstance(m, int):  # it is below anyway: said so that it is proved of any number of tiles
        row = f"min({row}, {tm} - 1)"
    place |= {w.fresh("m"): f"({row})*{pairs} + cbx" if pairs > 1 else row, w.fresh("n"): f"{i} // {rows}"}
    return counts, place


def count_tiles(w: Writing) -> str:
    """How many tiles there are (or pairs of them), in the names of ``number_tiles``."""
    each = f"{w.fresh('tm')} * {w.fresh('tn')}"
    return f"({spell_index(w.problem.batch)}) * {each}" if w.problem.is_batched else each


def count_ctas(w: Writing) -> str:
    """A CTA for each tile, in numbers and params alone."""
    counts, _ = number_tiles(w, "bx")
    each = " * ".join(f"({counts[w.fresh(x)]})" for x in ("tm", "tn"))
    return f"({spell_index(w.problem.batch)}) * {each}" if w.problem.is_batched else each


def finish(
    w: Writing, scope: str, sums: str, rows: tuple[str, int], columns: tuple[str, int], dst: str
) -> dict[str, Any]:
    """The op that turns sums into elements of d: an expression of them, or a cast."""
    said = {} if scope == "cta" else {"scope": scope}
    problem = w.problem
    if not problem.epilogue:
        return {"cast": {**said, "src": sums, "dst": dst}}
    own = {"acc": w.fresh("acc"), **w.own_names}
    expression = re.sub(r"[A-Za-z_]\w*", lambda word: own.get(word[0], word[0]), problem.epilogue)
    named = {own["acc"]: sums} | {own[name]: w.stretched(m, rows, columns) for name, m in problem.named.items()}
    m, n, _ = problem.sides
    sized = any(x.rows != 1 or x.columns != 1 for x in problem.named.values())
    edge = w.edge((m, w.recipe.tile[0]), (n, w.recipe.tile[1])) if sized else {}
    return {"elementwise": {**said, "dst": dst, "expr": expression, "with": named, **edge}}


def tile_buffer(space: str, dtype: str, shape: Sequence[int], layout: str = "auto", **more: Any) -> dict[str, Any]:
    return {"scope": space, "dtype": dtype, "shape": list(shape), "layout": layout, **more}


def count_staged_bytes(recipe: Recipe, p: Problem) -> int:
    """Of the k-tiles of all stages: the room over which may lie what leaves a tile, once nobody reads them any more."""
    bm, bn, bk = recipe.tile
    return recipe.stages * bk * (bm * bytes_of(p.a.dtype) + bn * bytes_of(p.b.dtype))


def bytes_of(dtype: str) -> int:
    return DTYPES[dtype].bytes
