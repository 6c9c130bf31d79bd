"""The layout of a shared tile, chosen by what its accesses cost: wavefronts, then bytes, then operators in addresses.

    Cost = (global sectors, shared wavefronts, instructions, shared bytes, address operations)

Instructions are the accesses' own, and so are sectors, but for those of cp.async: no layout changes them. Every layout
of the families is costed, in one batch; what is searched and what the floor is goes into the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tilegen.auto_layout.families import FAMILIES, FamilyLayout, enumerate_layouts, span_elems
from tilegen.auto_layout.linear_search import find_linear
from tilegen.auto_layout.tile_access import TileAccess, count_costs, count_floor, fold
from tilegen.choices import Candidate, Choice, Cost
from tilegen.index import Index, Var, count_operators, mul

Constrain = Callable[[Any], "str | None"]  # why a layout cannot serve, or None
_RUNNERS_UP = 3  # layouts shown beside the best of each family


@dataclass(frozen=True)
class Costed:
    """A layout with its cost; ``reason`` says why it cannot serve, if so, and there is no cost then."""

    layout: FamilyLayout
    cost: Cost
    reason: str = ""


def choose_shared_layout(
    shape: Sequence[int],
    elem_bytes: int,
    accesses: Sequence[TileAccess],
    constrain: Constrain | None = None,
    most_bytes: int | None = None,
    name: str = "tile",
) -> tuple[Any, Choice]:
    """The layout with the least cost for a tile of ``shape``, and the Choice that says why.

    Every vector of ``accesses`` must stay contiguous and aligned; ``constrain`` may refuse layouts with a reason;
    ``most_bytes`` is what the tile may take. Raises ValueError where no layout of the families serves.

    >>> from tilegen.auto_layout.tile_access import tile_access
    >>> rows = tile_access("st", 1, [[32 * row + lane for lane in range(32)] for row in range(32)])
    >>> columns = tile_access("ld", 1, [[32 * lane + column for lane in range(32)] for column in range(32)])
    >>> layout, choice = choose_shared_layout((32, 32), 4, [rows, columns])
    >>> print(layout)
    Swizzle(0, 5, 5) o S[(32, 32):(32, 1)]
    """
    folded = [fold(a) for a in accesses]
    costed = cost_layouts(enumerate_layouts(shape, elem_bytes), shape, elem_bytes, folded, constrain, most_bytes)
    serving = [c for c in costed if not c.reason]
    if not serving:
        raise ValueError(f"no layout serves: {costed[0].layout.text} {costed[0].reason}")
    best = pick_least(serving, shape, folded)
    floor = count_floor(shape, elem_bytes, folded)
    shown = [with_operators(c, shape, folded) for c in select_shown(best, costed)]
    candidates = list_candidates(best, shown, floor)
    if best.cost.wavefronts > floor:
        candidates += (cost_linear(shape, elem_bytes, folded, replace(best.cost, wavefronts=0)),)
    return best.layout.layout, Choice(f"layout of {name}", best.layout.text, candidates, _proof(best, costed, floor))


def cost_layouts(
    layouts: Sequence[FamilyLayout],
    shape: Sequence[int],
    elem_bytes: int,
    accesses: Sequence[TileAccess],
    constrain: Constrain | None = None,
    most_bytes: int | None = None,
) -> list[Costed]:
    """Every layout with its cost (address operations left at 0), or the reason why it cannot serve."""
    waves, sectors = count_costs(layouts, shape, elem_bytes, accesses)
    instructions = sum(a.instructions for a in accesses)
    out = []
    for f, row, read in zip(layouts, waves.tolist(), sectors.tolist(), strict=True):
        bytes_ = span_elems(f, shape) * elem_bytes
        cost = Cost(sum(read), sum(row), instructions, bytes_)
        reason = constrain(f.layout) if constrain else None
        if -1 in row:
            reason = f"it cuts a vector of {accesses[row.index(-1)].width_elems} elements"
        elif most_bytes is not None and bytes_ > most_bytes:
            reason = f"it takes {bytes_} bytes where {most_bytes} are left"
        out.append(Costed(f, cost, reason or ""))
    return out


def pick_least(serving: Sequence[Costed], shape: Sequence[int], accesses: Sequence[TileAccess]) -> Costed:
    """The least cost; among equals the one with the fewest address operations, then the simplest."""
    least = min(c.cost.key for c in serving)
    equal = [with_operators(c, shape, accesses) for c in serving if c.cost.key == least]
    return min(equal, key=lambda c: c.cost.key)


def with_operators(c: Costed, shape: Sequence[int], accesses: Sequence[TileAccess]) -> Costed:
    """The same with its address operations: those of one address in row and column, for each instruction."""
    if c.reason:
        return c
    operators = sum(a.instructions * count_place_operators(c.layout, tuple(shape), a.width_elems) for a in accesses)
    return Costed(c.layout, replace(c.cost, address_ops=operators))


def count_place_operators(f: FamilyLayout, shape: tuple[int, ...], width_elems: int) -> int:
    """Operators in the address of the vector at row-major coordinates, as it would be printed.

    >>> [count_place_operators(f, (32, 32), 1) for f in enumerate_layouts((32, 32), 4)[:2]]
    [2, 2]
    """
    at: list[Index] = [Var(f"x{d}", n) if n > 1 else 0 for d, n in enumerate(shape)]
    if width_elems > 1 and shape[-1] % width_elems == 0:
        vectors = shape[-1] // width_elems
        at[-1] = mul(Var("vector", vectors), width_elems) if vectors > 1 else 0
    return count_operators(f.layout.place(at, shape)["m"])


# ---------------------------------------------------------------- why
def select_shown(best: Costed, costed: Sequence[Costed]) -> list[Costed]:
    """The picked one, the least of each family and the next few, in the order of the families."""
    ranked = sorted(range(len(costed)), key=lambda k: (bool(costed[k].reason), costed[k].cost.key, k))
    kept = {next(k for k, c in enumerate(costed) if c.layout == best.layout)}
    for family in FAMILIES:
        kept.update([k for k in ranked if costed[k].layout.family == family][:1])
    kept.update(ranked[:_RUNNERS_UP])
    return [costed[k] for k in sorted(kept)]


def list_candidates(best: Costed, shown: Sequence[Costed], floor: int) -> tuple[Candidate, ...]:
    """What is shown, as candidates of a Choice with verdicts; ``floor``: the wavefronts that nothing is below."""
    return tuple(Candidate(c.layout.text, None if c.reason else c.cost, say_verdict(c, best, floor)) for c in shown)


def say_verdict(c: Costed, best: Costed, floor: int) -> str:
    """Why a layout was not picked, by the first figure in which it costs more."""
    if c.layout == best.layout:
        return "picked"
    if c.reason:
        return c.reason
    mine, least = c.cost, best.cost
    if mine.sectors == least.sectors and mine.wavefronts > least.wavefronts:
        return f"bank conflicts: {mine.wavefronts - floor} wavefronts above the floor"
    for name in ("sectors", "instructions", "shared_bytes", "address_ops"):
        if getattr(mine, name) != getattr(least, name):
            return f"more {name.replace('ops', 'operations').replace('_', ' ')}"
    return "the same cost, not plainer"


def cost_linear(shape: Sequence[int], elem_bytes: int, accesses: Sequence[TileAccess], rest: Cost) -> Candidate:
    """What an F2-linear layout would reach; ``rest`` is the cost of everything but the wavefronts of the accesses."""
    found = find_linear(shape, elem_bytes, accesses)
    if found.layout is None:
        return Candidate("LinearLayout", None, f"reported beside: {found.reason}")
    wavefronts = rest.wavefronts + found.wavefronts
    cost = replace(rest, wavefronts=wavefronts, shared_bytes=elem_bytes * prod(shape), address_ops=0)
    return Candidate(str(found.layout), cost, "reported beside: its addresses are not generated")


def say_searched(costed: Sequence[Costed]) -> str:
    """How many layouts of which families were costed."""
    counts = {name: sum(c.layout.family == name for c in costed) for name in FAMILIES}
    unfit = sum(bool(c.reason) for c in costed)
    refused = f", of which {unfit} cannot serve" if unfit else ""
    families = f"row-major, {counts['padding']} paddings, {counts['swizzle']} swizzles"
    return f"all {len(costed)} layouts were costed ({families}{refused})"


def _proof(best: Costed, costed: Sequence[Costed], floor: int) -> str:
    """What was searched, and whether anything could be below."""
    if best.cost.wavefronts == floor:
        return f"the floor of {floor} wavefronts, one a phase, which no layout is below; {say_searched(costed)}"
    return f"{say_searched(costed)}; the least is {best.cost.wavefronts} wavefronts against a floor of {floor}"
