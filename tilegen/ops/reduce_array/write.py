"""A reduction as the launch, the buffers and the statements of one kernel, from its template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.access import WARP_LANES
from tilegen.index import Index, ceil_div, multiple
from tilegen.ops.reduce_array.choose import ReduceRecipe
from tilegen.ops.reduce_array.problem import WholeReduction, identity_of, list_definitions
from tilegen.spec.data import Buffer
from tilegen.spec.outline import fresh_name
from tilegen.spec.spelling import spell_index
from tilegen.spec.written import as_given, write_part

_JOINED = {"sum": "gathered + %s", "prod": "gathered * %s", "max": "max(gathered, %s)", "min": "min(gathered, %s)"}


@dataclass(frozen=True)
class Sharing:
    """Where a kernel leaves what parts come to: the workspace, and the trips of a part."""

    workspace: str
    trips: Index


def write_kernel(
    problem: WholeReduction,
    recipe: ReduceRecipe,
    taken: frozenset[str],
    sharing: Sharing | None = None,
    overlap: bool = False,
) -> dict[str, Any]:
    """The statements of a kernel. ``taken``: names of the spec, to which the template's own give way."""
    names = _name_operands(problem, taken)
    views = _list_views(problem, taken.union(names.values()))
    trips = ceil_div(problem.reduced, recipe.reduced)
    one_trip = trips == 1 and sharing is None
    edges = _write_edges(problem, recipe)
    gathers = bool(edges["mask"]) or not (one_trip and problem.is_plain)
    values = {
        **_write_elements(problem, names), **edges, **_write_counts(problem, recipe, sharing),
        "layout": _spell_owners(problem, recipe), "bk": recipe.kept, "br": recipe.reduced, "threads": recipe.threads,
        "is_along": problem.is_along, "has_rows": problem.has_rows, "overlap": overlap, "op": problem.op,
        "sums": problem.sums, "gathers": gathers, "loops": trips != 1, "shares": sharing is not None,
        "operands": {as_given(names[n]): as_given(_name_seen(a, views)) for n, a in problem.operands.items()},
        "views": {as_given(name): terms for ways in views.values() for name, terms in ways},
        "dst": as_given(problem.dst.name if sharing is None else sharing.workspace),
        "dst_rank": len(problem.dst.shape) if sharing is None else 2, "dst_axis": problem.dst_axis,
        "is_same": sharing is not None or problem.dst.dtype == problem.sums,
    }  # fmt: skip
    seen = {name for ways in views.values() for name, _ in ways}
    return write_part("reduce/fold.yaml", values, taken.union(names.values(), seen))


def _name_seen(array: Buffer, views: Mapping[str, list[tuple[str, dict[str, Any]]]]) -> str:
    """The array, or the view through which it is seen."""
    return views[array.name][-1][0] if array.name in views else array.name


def _name_operands(problem: WholeReduction, taken: frozenset[str]) -> dict[str, str]:
    """Names of operands and intermediate values: those of the expression, or fresh ones where the spec has the name."""
    given = (*problem.operands, *list_definitions(problem.expression))
    beside = taken | frozenset(given)
    return {name: fresh_name(name or "x", beside) if not name or name in taken else name for name in given}


def _list_views(problem: WholeReduction, taken: frozenset[str]) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """The views that arrays are seen through, by the arrays: their names, and what they are, the last one seen."""
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    names = set(taken)
    for array in problem.operands.values():
        ways: list[tuple[str, dict[str, Any]]] = [("t", {"axes": [1, 0]})] if problem.is_turned else []
        ways += [("flat", {"shape": [_spell(problem.reduced)]})] if problem.is_flat else []
        seen = array.name
        for ending, terms in ways if array.name not in found else ():
            name = fresh_name(f"{array.name.rstrip('_')}_{ending}", names)
            names.add(name)
            found.setdefault(array.name, []).append((name, {"view": as_given(seen), **terms}))
            seen = name
    return found


def _spell(x: Index) -> Any:
    return x if isinstance(x, int) else as_given(spell_index(x))


def _write_elements(problem: WholeReduction, names: Mapping[str, str]) -> dict[str, Any]:
    """What is reduced, as text: values on the way, the element, and how it joins those before."""
    own = {name: as_given(given) for name, given in names.items()}
    head, _, last = problem.expression.rpartition(";")

    def rename(text: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda word: own.get(word[0], word[0]), text).strip()

    element = rename(last) if problem.expression else own[""]
    is_single = not problem.expression or re.fullmatch(r"\s*\w+\s*", last)
    inner = "(%s)" if problem.op in ("sum", "prod") and not is_single else "%s"
    joined = _JOINED[problem.op].replace("%s", inner)
    return {"definitions": f"{rename(head)}; " if head else "", "element": element, "joined": joined}


def _write_edges(problem: WholeReduction, recipe: ReduceRecipe) -> dict[str, Any]:
    """What ops say where boxes may leave arrays: past the last element lies what changes no result."""
    clips_kept, clips = (multiple(n) % size != 0 for n, size in _extents(problem, recipe))
    identity = identity_of(problem.op, problem.sums)
    is_zero = identity == 0 and not problem.expression
    is_padded = not problem.expression and all(_holds_identity(a.dtype) for a in problem.operands.values())
    is_masked = clips and not is_zero and not is_padded
    pad = f"pad: {_say_yaml(identity)}, " if clips and not is_zero and not is_masked else ""
    return {
        "clips_kept": clips_kept, "edge": f"edge: clip, {pad}" if clips or clips_kept else "", 
        "mask": as_given(spell_index(problem.reduced)) if is_masked else "", "identity": _say_yaml(identity),
    }  # fmt: skip


def _extents(problem: WholeReduction, recipe: ReduceRecipe) -> tuple[tuple[Index, int], tuple[Index, int]]:
    return (problem.kept, recipe.kept), (problem.reduced, recipe.reduced)


def _holds_identity(dtype: str) -> bool:
    """Has the type of elements the numbers that change no result, as the type of results has them?"""
    return dtype in ("float16", "bfloat16", "float32", "float64", "int32", "int64")


def _say_yaml(number: float | int) -> str:
    return {float("inf"): ".inf", float("-inf"): "-.inf"}.get(number, str(number))


def _spell_owners(problem: WholeReduction, recipe: ReduceRecipe) -> str:
    """The layout of results: those that several warps share go to one thread each, which reads the parts of all warps
    once. Chosen by their elements every thread of a result would read them.
    """
    results = recipe.kept
    sharing = recipe.threads // results if problem.is_along else recipe.threads
    if sharing <= WARP_LANES or results > recipe.threads:
        return "auto"
    if results == 1:
        return '"S[1:1@tx]"'
    return f'"S[({results}, 1):(1@tx, 1)]"' if problem.is_along else f'"S[(1, {results}):(1, 1@tx)]"'


def _write_counts(problem: WholeReduction, recipe: ReduceRecipe, sharing: Sharing | None) -> dict[str, Any]:
    """How many tiles of results there are, and trips to all elements, or to those of a part."""
    trips, tiles = (_count(n, size) for n, size in reversed(_extents(problem, recipe)))
    has_tiles = tiles != "1"
    if sharing is None:
        return {"tiles": as_given(tiles), "has_tiles": has_tiles, "count": as_given(trips), "trips": "", "parts": 1}
    own = _spell(sharing.trips) if isinstance(sharing.trips, int) else as_given(f"({spell_index(sharing.trips)})")
    all_trips = trips if trips.isdigit() else f"({trips})"
    is_even = trips.isdigit() and sharing.trips * recipe.parts == int(trips)
    count = f"{own}" if is_even else f"min({own}, max({as_given(all_trips)} - first, 0))"
    return {"tiles": as_given(tiles), "has_tiles": has_tiles, "count": count, "trips": str(own), "parts": recipe.parts}


def _count(x: Index, size: int) -> str:
    """How many parts of a size there are, as a spec says it."""
    if isinstance(x, int):
        return str(-(-x // size))
    if size == 1:
        return spell_index(x)
    return f"ceil({spell_index(x)} / {size})" if multiple(x) % size else f"({spell_index(x)}) // {size}"
