"""gemm whose K several CTAs share: the problem that each of them has, and what it takes to add up their sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tilegen.access import WARP_LANES
from tilegen.arch import Arch
from tilegen.arch.data import typical_device
from tilegen.cost.adding import Adding
from tilegen.index import evaluate, least, mul
from tilegen.ops.expanding import list_names
from tilegen.ops.gemm.parts import Writing, describe_terms
from tilegen.ops.gemm.problem import LISTED, WIDEST, Matrix, Problem, bytes_of, count_own_k_tiles, typical_values
from tilegen.ops.gemm.recipe import Recipe
from tilegen.spaces import WORKSPACE as SPACE
from tilegen.spec.data import Spec
from tilegen.spec.outline import fresh_name
from tilegen.spec.spelling import spell_index
from tilegen.spec.written import write_part

WORKSPACE = "sums_of_parts"
_MOST_WARPS = 4  # of a CTA that adds up
_WAVES = 4  # of such CTAs: with more of them, a thread takes more elements


def list_parts(problem: Problem, fields: Any, more: Iterable[int] = ()) -> tuple[int, ...]:
    """How many CTAs may share K: what is pinned, by default one; batches are never split by themselves.

    ``more``: numbers that are looked at for ``auto`` beside those that always are.
    """
    if fields.split != "auto":
        return (fields.split or 1,)
    return (1,) if problem.is_batched else tuple(sorted({*LISTED, *more}))


def share_k(problem: Problem, parts: int, workspace: str = WORKSPACE) -> Problem:
    """The problem of the CTAs that share K: sums of each part, with nothing made of them.

    The sums of all parts lie one after another in an array of the name ``workspace``, as the elements of d do: those
    that make d read and write along the same rows.
    """
    if parts == 1:
        return problem
    if not problem.d.runs_along_rows and problem.turned().d.runs_along_rows:
        return share_k(problem.turned(), parts, workspace).turned()
    m, n, _ = problem.sides
    sums = Matrix(workspace, problem.sums, m, n, (mul(m, n), n, 1), WIDEST, has_batch=True, rank=3)
    return replace(problem, d=sums, named={}, epilogue="", batch=parts, is_batched=True, parts=parts)


def share_spec(spec: Spec, problem: Problem, recipe: Recipe) -> Problem:
    """The problem that the CTAs of a recipe have, turned as it is; its workspace has a name that the spec has not."""
    return share_k(problem, recipe.split, fresh_name(WORKSPACE, list_names(spec)))


def describe_workspace(shared: Problem) -> dict[str, Any]:
    """The entry of the workspace among a spec's buffers; {} where nothing is shared."""
    if shared.parts == 1:
        return {}
    sums = shared.d.turned() if shared.d.is_turned else shared.d
    shape = [shared.parts, *(x if isinstance(x, int) else spell_index(x) for x in (sums.rows, sums.columns))]
    return {sums.name: {"scope": SPACE.name, "dtype": sums.dtype, "shape": shape}}


def has_parts(problem: Problem, depth: int) -> bool:
    """Has each part of K a k-tile, at every size?"""
    return problem.parts == 1 or count_own_k_tiles(least(problem.sides[2]), depth, problem.parts)[0] > 0


def say_short(problem: Problem, fields: Any) -> dict[str, str]:
    """Why no recipe splits K, by the field, if K may have fewer k-tiles than parts; {} where nothing is pinned."""
    k, parts = problem.sides[2], fields.split
    if not isinstance(parts, int) or parts == 1:
        return {}
    known = f"K is {k}" if isinstance(k, int) else f"K may be {least(k)}"
    return {"split": f"each part needs a k-tile, and {known}"}


# ---------------------------------------------------------------- the pass that adds up
@dataclass(frozen=True)
class SumBox:
    """The rows and columns of d that a CTA makes of the sums, and its threads: each has a vector of neighbours."""

    rows: int
    columns: int
    threads: int

    def count(self, p: Problem) -> int:
        """CTAs, at typical values of params."""
        m, n = _typical(p)
        return -(-m // self.rows) * -(-n // self.columns)


def choose_box(p: Problem, arch: Arch) -> SumBox:
    """Boxes whose threads read 16 bytes at once, so small that all multiprocessors have some. Of many, each thread
    takes up to 4 vectors.

    >>> from types import SimpleNamespace
    >>> from tilegen.arch import ARCHES
    >>> d = Matrix("D", "bfloat16", 128, 512, (0, 512, 1), 16)
    >>> p = Problem(d, d, d, {}, "", 1, False, "float32", "bfloat16")
    >>> choose_box(p, ARCHES["sm_90a"])
    SumBox(rows=1, columns=256, threads=64)
    """
    (_, n), multiprocessors = _typical(p), typical_device(arch.name).sm_count
    width, sizes = WIDEST // bytes_of(p.sums), [WARP_LANES * warps for warps in (_MOST_WARPS, 2, 1)]
    found: list[SumBox] = []
    for vectors, threads in [(4, sizes[0]), (2, sizes[0]), *((1, threads) for threads in sizes)]:
        columns = min(threads * width, max(width, 1 << (n - 1).bit_length()))
        found.append(SumBox(vectors * threads * width // columns, columns, threads))
        enough = multiprocessors * (_WAVES * _MOST_WARPS if vectors > 1 else 1)
        if found[-1].count(p) >= enough:
            break
    return found[-1]


def describe_adding(p: Problem, parts: int, arch: Arch) -> Adding:
    """What it takes to add up the sums of so many parts, at typical values of params."""
    (m, n), values = _typical(p), typical_values(p)
    aside = sum(int(evaluate(mul(x.rows, x.columns), values)) * bytes_of(x.dtype) for x in p.named.values())
    made, is_early = m * n * bytes_of(p.d.dtype), "dependent_launch" in arch.features
    return Adding(parts, parts * m * n * bytes_of(p.sums), made + aside, is_early)


def write_sum(w: Writing, shared: Problem, arch: Arch) -> dict[str, Any]:
    """The launch, the buffers and the statements of the pass that adds up, of a writing of the whole problem.

    ``shared``: the problem of the CTAs that share K, of sums that lie as d does.
    """
    box = choose_box(w.problem, arch)
    own = replace(w, problem=replace(w.problem, a=shared.d, b=shared.d))
    terms = vars(describe_terms(own, (box.rows, box.columns, 1), 1))
    more = {"threads": box.threads, "parts": shared.parts, "overlap": "dependent_launch" in arch.features}
    return write_part("gemm/sum.yaml", terms | more, own.names)


def _typical(p: Problem) -> tuple[int, int]:
    """M and N at typical values of params."""
    values = typical_values(p)
    return int(evaluate(p.sides[0], values)), int(evaluate(p.sides[1], values))
