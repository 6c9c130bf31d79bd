"""What the search for 'auto' layouts picks, beside the least that brute force finds.

Twice: drawn access sets, whose estimates and order are those by which a build plans layouts, against every layout of
the families counted from its definition; and drawn specs, built as they are, against a plan under every layout.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from tests.oracles import layout_brute
from tests.oracles.access_sets import DTYPE_BYTES, AccessSet, draw_sets
from tilegen import spec as spec_room
from tilegen.auto_layout import choose_layouts
from tilegen.auto_layout.alternatives import Alternative, renumber
from tilegen.auto_layout.estimates import Costed, estimate_layouts, sort_estimates
from tilegen.auto_layout.families import FamilyLayout, enumerate_form
from tilegen.auto_layout.forms import list_forms, rows_form
from tilegen.auto_layout.linear_search import find_linear
from tilegen.auto_layout.pin import pin_layout
from tilegen.auto_layout.search import plan_with
from tilegen.auto_layout.tile_access import TileAccess, count_floor
from tilegen.decisions import Cost
from tilegen.layouts import row_major
from tilegen.ops import ALL_OPS
from tilegen.ops.op import Planned, Variant
from tilegen.spec.data import Buffer, Call, Spec

FAMILIES = ("none", "pad", "Swizzle", "order", "panels")
SETS = draw_sets(120)
SPECS = 8  # drawn and built as wholes


@dataclass(frozen=True)
class Row:
    """One access set. Costs are (wavefronts, bytes), both by brute force."""

    writer: str
    floor: int
    least: dict[str, tuple[int, int]]  # of each family that has a layout which keeps the vectors
    picked: str
    cost: tuple[int, int]
    claimed: tuple[int, int]  # what the chooser says of its pick
    linear: int  # wavefronts of the F2-linear layout; -1: none found

    @property
    def best(self) -> tuple[int, int]:
        return min(self.least.values())

    @property
    def regret(self) -> int:
        return self.cost[0] - self.best[0]


def place(layout: Any, shape: Sequence[int]) -> np.ndarray:
    """The element address of every element, from the layout alone."""
    at = np.indices(tuple(shape)).reshape(len(shape), -1)
    return np.asarray(layout.place(tuple(at), tuple(shape))["m"], np.int64)


def rank_drawn(
    shape: Sequence[int], dtype: str, accesses: Sequence[TileAccess],
    constrain: Callable[[Call, Buffer], str | None] | None = None, room_bytes: int = 1 << 30,
) -> list[Costed]:  # fmt: skip
    """The estimates of the search for an 'auto' layout, best first, as if each access were the only way of an op.

    Behind them come the layouts that cannot serve. Of forms that cut a vector of an access there are none.
    """

    def plan(call: Call, context: object) -> Planned:
        raise AssertionError("estimates plan nothing")

    variant = Variant("drawn", 0, lambda call, context: None, plan, constrain)
    call: Any = None
    size = DTYPE_BYTES[dtype]
    buffer = Buffer("tile", "shared", dtype, tuple(shape), row_major(tuple(shape)), "tile")
    estimates: list[Costed] = []
    for form in list_forms(shape, size):
        moved = [renumber(a, rows_form(shape), form, size) for a in accesses]
        ways = [
            Alternative(call, k, variant, (a,), Cost(instructions=a.instructions))
            for k, a in enumerate(moved) if a is not None
        ]  # fmt: skip
        if len(ways) == len(moved):
            estimates += estimate_layouts(buffer, enumerate_form(form, size), ways, room_bytes)
    return [estimates[k] for k in sort_estimates(buffer, estimates)] + [e for e in estimates if e.reason]


def every_form_layout(shape: Sequence[int], elem_bytes: int) -> list[FamilyLayout]:
    """Every layout of every form of a tile without stages."""
    return [f for form in list_forms(shape, elem_bytes) for f in enumerate_form(form, elem_bytes)]


@cache
def measure(drawn: AccessSet) -> Row:
    """The pick and every layout of the families for one set."""
    size, accesses = drawn.elem_bytes, list(drawn.accesses)
    pick = rank_drawn(drawn.shape, drawn.dtype, accesses)[0]
    mine = layout_brute.Placed(pick.layout.text, place(pick.layout.layout, drawn.shape))
    assert len(np.unique(mine.addresses)) == prod(drawn.shape)
    waves = layout_brute.count(mine.addresses, size, accesses)
    assert waves is not None, f"{mine.name} cuts a vector"
    least: dict[str, tuple[int, int]] = {}
    for p in layout_brute.every_layout(*drawn.shape, size):
        found = layout_brute.count(p.addresses, size, accesses)
        if found is not None:
            family = next(f for f in FAMILIES if p.name.startswith(f))
            least[family] = min((found, p.span * size), least.get(family, (found, p.span * size)))
    return Row(
        drawn.name.split(": ")[1].split(" -> ")[0], count_floor(drawn.shape, size, accesses), least,
        {"padding": "pad", "swizzle": "Swizzle"}.get(pick.layout.family, pick.layout.family),
        (waves, mine.span * size), (pick.cost.wavefronts, pick.cost.shared_bytes),
        find_linear(drawn.shape, size, accesses).wavefronts,
    )  # fmt: skip


def print_table(rows: Sequence[Row]) -> str:
    """Per writer: wavefronts above the floor with the best of each family alone, with the pick, and what was picked."""
    lines = [
        "| writer | sets | floor | none | padding | swizzle | orders | panels | picked | regret | picks |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for writer in [*sorted({r.writer for r in rows}), "all"]:
        some = [r for r in rows if writer in ("all", r.writer)]
        above = [sum(r.least.get(f, r.least["none"])[0] - r.floor for r in some) for f in FAMILIES]
        above.append(sum(r.cost[0] - r.floor for r in some))
        figures = [str(len(some)), str(sum(r.floor for r in some)), *(f"+{n}" for n in above)]
        picks = Counter(r.picked for r in some)
        counts = ", ".join(str(picks[f]) for f in FAMILIES)
        lines.append(f"| {writer} | {' | '.join(figures)} | {sum(r.regret for r in some)} | {counts} |")
    return "\n".join(lines)


def print_linear(rows: Sequence[Row]) -> str:
    """What linear layouts would add."""
    free = sum(r.linear == r.floor for r in rows)
    better = sum(0 <= r.linear < r.best[0] for r in rows)
    return (
        f"{len(rows)} access sets. An F2-linear layout without conflicts was found for {free} of them;\n"
        f"for {better} it takes fewer wavefronts than any layout that a spec can write."
    )


# ---------------------------------------------------------------- whole specs
HEAD = """kernel: drawn
threads: {threads}
buffers:
  X: {{scope: global, dtype: {dtype}, shape: [{rows}, {columns}]}}
  Y: {{scope: global, dtype: {dtype}, shape: [{rows}, {columns}]}}
  Z: {{scope: global, dtype: {dtype}, shape: [{columns}, {rows}]}}
  tile: {{scope: shared, dtype: {dtype}, shape: [{rows}, {columns}], layout: auto}}
  turned: {{view: tile, axes: [1, 0]}}
ops:
"""
WAYS = {
    "by rows, read by columns": "copy: {src: X, dst: tile} / sync: cta / copy: {src: turned, dst: Z}",
    "by columns, read by rows": "copy: {src: Z, dst: turned} / sync: cta / copy: {src: tile, dst: X}",
    "by cp.async, read by columns":
        "copy: {src: X, dst: tile, async: true} / commit / wait: 0 / sync: cta / copy: {src: turned, dst: Z}",
    "by rows, read by rows and columns":
        "copy: {src: X, dst: tile} / sync: cta / copy: {src: turned, dst: Z} / copy: {src: tile, dst: Y}",
}  # fmt: skip


@dataclass(frozen=True)
class Whole:
    """A spec that was built with 'auto', and planned under every layout: (sectors, wavefronts, instructions, bytes)."""

    way: str
    planned: int
    picked: tuple[int, ...]
    least: tuple[int, ...]
    is_bounded: bool


def draw_specs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """(way, spec) of small tiles; the same for the same seed."""
    draw, found = random.Random(seed), []
    for k in range(count):
        way = list(WAYS)[k % len(WAYS)]
        dtype, rows, columns = (
            draw.choice(list(DTYPE_BYTES)[:4]),
            draw.choice([8, 12, 16]),
            draw.choice([8, 16, 20, 32]),
        )
        statements = "\n".join(f"  - {statement}" for statement in WAYS[way].split(" / "))
        head = HEAD.format(threads=draw.choice([32, 64]), dtype=dtype, rows=rows, columns=columns)
        found.append((way, head + statements + "\n"))
    return found


@cache
def measure_whole(way: str, text: str) -> Whole:
    """The cost of what 'auto' picks, and the least of the plans under each layout; no estimate is asked."""
    plain = spec_room.load(text, ALL_OPS)
    (choice,) = choose_layouts(plain).choices
    picked = next(c.cost for c in choice.candidates if c.verdict == "picked")
    buffer = plain.buffer("tile")
    rows: Spec = pin_layout(plain, "tile", row_major(buffer.shape), "row")
    every = [plan_with(rows, buffer, f) for f in every_form_layout(buffer.shape, DTYPE_BYTES[buffer.dtype])]
    costs = [p.costed.cost.layout_key[:4] for p in every if not p.costed.reason]
    assert picked is not None
    return Whole(way, len(every), picked.layout_key[:4], min(costs), "bounded" in choice.proof)


def print_wholes(wholes: Sequence[Whole]) -> str:
    """Per way: how many specs, under how many layouts they were planned, and where the pick was not the least."""
    lines = [
        "| tile filled | specs | layouts planned | picks that are not the least | search bounded |",
        "|---|--:|--:|--:|--:|",
    ]
    for way in [*WAYS, "all"]:
        some = [w for w in wholes if way in ("all", w.way)]
        figures = (len(some), sum(w.planned for w in some), sum(w.picked != w.least for w in some))
        lines.append(f"| {way} | {' | '.join(map(str, figures))} | {sum(w.is_bounded for w in some)} |")
    return "\n".join(lines)
