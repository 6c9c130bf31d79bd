"""A scan as the launch, the buffers and the statements of its kernels, from their templates."""

from __future__ import annotations

from typing import Any

from tilegen.index import Index, ceil_div, multiple
from tilegen.ops.reduce_array.problem import identity_of
from tilegen.ops.scan_array.choose import ScanRecipe
from tilegen.ops.scan_array.problem import WholeScan
from tilegen.spec.spelling import spell_index
from tilegen.spec.written import as_given, write_part

_MOST_THREADS = 1024  # of a CTA


def write_lines(
    problem: WholeScan, recipe: ScanRecipe, taken: frozenset[str], overlap: bool = False
) -> dict[str, Any]:  # fmt: skip
    """The statements of a kernel that has whole lines. ``taken``: names of the spec."""
    step = recipe.elements * recipe.ahead
    chunks = count_parts(problem.line, recipe.elements)
    trips = count_parts(problem.line, step)
    if recipe.ahead > 1 and not (chunks.isdigit() and int(chunks) % recipe.ahead == 0):
        chunks = f"({trips})*{recipe.ahead}" if not trips.isdigit() else str(int(trips) * recipe.ahead)
    values = {
        **_write_common(problem, recipe), "trips": as_given(trips), "loops": trips != "1", "per": recipe.ahead,
        "chunks": as_given(chunks if chunks.isdigit() else f"({chunks})"), "overlap": overlap,
        **_mask(problem, problem.reverse and _clips(problem.line, step)),
        "clips": _clips(problem.line, step) or _clips(problem.kept, recipe.kept),
    }  # fmt: skip
    return write_part("scan/lines.yaml", values, taken)


def write_chunks(problem: WholeScan, recipe: ScanRecipe, taken: frozenset[str], totals: str) -> dict[str, Any]:
    """The first of three passes, which leaves what chunks come to in the workspace ``totals``."""
    clips, clips_kept = _clips(problem.line, recipe.elements), _clips(problem.kept, recipe.kept)
    values = {
        **_write_common(problem, recipe), "chunks": as_given(count_parts(problem.line, recipe.elements)),
        "threads": min(_MOST_THREADS, 2 * recipe.threads), "totals": as_given(totals), "clips": clips or clips_kept,
        "clips_kept": clips_kept, **_mask(problem, clips),
    }  # fmt: skip
    return write_part("scan/chunks.yaml", values, taken)


def write_results(
    problem: WholeScan, recipe: ScanRecipe, taken: frozenset[str], before: str, overlap: bool
) -> dict[str, Any]:  # fmt: skip
    """The last of three passes, which reads what lies before chunks in the workspace ``before``."""
    clips = _clips(problem.line, recipe.elements)
    values = {
        **_write_common(problem, recipe), "chunks": as_given(count_parts(problem.line, recipe.elements)),
        "before": as_given(before), "overlap": overlap, "clips": clips, "clips_kept": _clips(problem.kept, recipe.kept),
        "per": recipe.ahead, **_mask(problem, clips and problem.reverse),
    }  # fmt: skip
    return write_part("scan/write.yaml", values, taken)


def _write_common(problem: WholeScan, recipe: ScanRecipe) -> dict[str, Any]:
    tiles = count_parts(problem.kept, recipe.kept)
    return {
        "src": as_given(problem.src.name), "dst": as_given(problem.dst.name), "axis": problem.axis, "op": problem.op,
        "sums": problem.sums, "exclusive": problem.exclusive, "reverse": problem.reverse, "threads": recipe.threads,
        "bk": recipe.kept, "elements": recipe.elements, "has_rows": problem.has_rows, "tiles": as_given(tiles),
        "has_tiles": tiles != "1", "identity": _say_yaml(identity_of(problem.op, problem.sums)),
        "loads_same": problem.src.dtype == problem.sums, "stores_same": problem.dst.dtype == problem.sums,
    }  # fmt: skip


def _clips(n: Index, size: int) -> bool:
    return multiple(n) % size != 0


def _say_yaml(number: float | int) -> str:
    return {float("inf"): ".inf", float("-inf"): "-.inf"}.get(number, str(number))


def _mask(problem: WholeScan, clips: bool) -> dict[str, Any]:
    """What is said of elements past the end: nothing, a pad that changes no result, or a mask where the type of what is
    read has no such number.
    """
    identity, wide = identity_of(problem.op, problem.sums), problem.src.dtype in (problem.sums, "float16", "bfloat16")
    is_pad = problem.op in ("sum", "prod") or wide
    return {
        "pad": _say_yaml(identity) if clips and is_pad and identity != 0 else "",
        "mask": as_given(spell_index(problem.line)) if clips and not is_pad else "",
    }  # fmt: skip


def count_parts(x: Index, size: int) -> str:
    """How many parts of a size there are, as a spec says it."""
    if isinstance(x, int):
        return str(-(-x // size))
    if size == 1:
        return spell_index(x)
    return f"ceil({spell_index(x)} / {size})" if multiple(x) % size else f"({spell_index(x)}) // {size}"


def count_chunks(problem: WholeScan, recipe: ScanRecipe) -> Index:
    """Chunks of a line."""
    return ceil_div(problem.line, recipe.elements)
