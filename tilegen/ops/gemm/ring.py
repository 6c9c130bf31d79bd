"""gemm on Hopper without wgmma: a warp that loads by TMA, warps that multiply by mma.sync, each a tile of its own."""

from __future__ import annotations

from typing import Any

from tilegen.layouts.constructors import find_atom
from tilegen.ops.gemm.parts import Statements, Writing, count_tiles, finish, number_tiles, tile_buffer

PANEL_ROWS = 16  # of a warp's sums that leave at once


def write_ring(w: Writing) -> dict[str, Any]:
    """The launch, buffers and statements: fragments of a step come before the products of the one before it."""
    r, p = w.recipe, w.problem
    (bm, bn, bk), stages = r.tile, r.stages
    sa, sb, out, a, b, sums, h = (w.fresh(x) for x in ("sa", "sb", "out", "a", "b", "sums", "h"))
    t, k, kt, first, s, q, m, n = (w.fresh(x) for x in ("t", "k", "kt", "first", "s", "q", "m", "n"))
    wm, wn, load, math = (w.fresh(x) for x in ("wm", "wn", "load", "math"))
    full, free = (w.fresh(x) for x in ("full", "free"))
    depth = find_atom(r.atom).shape[2]
    steps, (rows, columns) = bk // depth, (bm // r.atoms[0], bn // r.atoms[1])
    counts, tile = number_tiles(w, t)
    tile = {first: f"{t} // bx_count * {kt}"} | tile
    walk = {t: ["bx", count_tiles(w), "bx_count"]}

    def slot(count: str) -> str:
        return f"({first} + {count}) % {stages}"

    def box(x: Any, at: tuple[str, int], to: tuple[str, int], dst: str) -> dict[str, Any]:
        said = {
            "src": w.region(x, at, to),
            "dst": f"{dst}[{slot(k)}]",
            "variant": "tma",
            "barrier": f"{full}[{slot(k)}]",
        }
        return {"copy": {**said, **w.edge((x.rows, at[1]), (x.columns, to[1]))}}

    def bring(count: str, at: str, to: str) -> Statements:
        """Fragments of a step of a k-tile."""
        here = slot(count)
        return [
            {"copy": {"scope": "warp", "src": f"{sa}[{here}, {wm} : +{rows}, {at} : +{depth}]", "dst": f"{a}[{to}]"}},
            {
                "copy": {
                    "scope": "warp",
                    "src": f"{sb}[{here}, {at} : +{depth}, {wn} : +{columns}]",
                    "dst": f"{b}[{to}]",
                }
            },
        ]

    def multiply(which: str) -> dict[str, Any]:
        return {"mma": {"scope": "warp", "a": f"{a}[{which}]", "b": f"{b}[{which}]", "c": sums, "atom": r.atom}}

    fetch: Statements = [
        {"wait": {"barrier": f"{free}[{slot(k)}]"}},
        box(p.a, (f"{m}*{bm}", bm), (f"{k}*{bk}", bk), sa),
        box(p.b, (f"{k}*{bk}", bk), (f"{n}*{bn}", bn), sb),
    ]
    come: Statements = [{"wait": {"barrier": f"{full}[{slot(k)}]"}}, *bring(k, "0", "0")]
    before = f"{k} - 1"
    inner: Statements = (
        [
            {
                "for": {s: steps - 1},
                "unroll": True,
                "do": [
                    *bring(before, f"({s} + 1)*{depth}", f"({s} + 1) % 2"),
                    multiply(f"{s} % 2"),
                ],
            }
        ]
        if steps > 1
        else []
    )
    done: Statements = [{"sync": "warp"}, {"arrive": {"scope": "warp", "barrier": f"{free}[{slot(before)}]"}}]
    last = multiply(f"{(steps - 1) % 2}")
    at = (f"{m}*{bm} + {wm} + {q}*{PANEL_ROWS}", PANEL_ROWS)
    to = (f"{n}*{bn} + {wn}", columns)
    part = f"{sums}[{q}*{PANEL_ROWS} : +{PANEL_ROWS}]"
    edge = w.edge((p.sides[0], bm), (p.sides[1], bn))
    leave: Statements = [
        {
            "for": {q: rows // PANEL_ROWS},
            "unroll": True,
            "do": [
                finish(w, "warp", part, at, to, h),
                {"copy": {"scope": "warp", "src": h, "dst": f"{out}[warpid]"}},
                {"sync": "warp"},
                {"copy": {"scope": "warp", "src": f"{out}[warpid]", "dst": w.region(p.d, at, to), **edge}},
                {"sync": "warp"},
            ],
        }
    ]
    ops: Statements = [
        {"let": counts},
        {
            "role": load,
            "do": [
                {
                    "for": walk,
                    "do": [
                        {"let": tile},
                        {"for": {k: 1}, "do": fetch},
                        {"for": {k: [1, kt]}, "do": fetch},
                    ],
                }
            ],
        },
        {
            "role": math,
            "do": [
                {"let": {wm: f"warpid % {r.atoms[0]} * {rows}", wn: f"warpid // {r.atoms[0]} * {columns}"}},
                {
                    "for": walk,
                    "do": [
                        {"let": tile},
                        {"fill": {"scope": "warp", "dst": sums, "value": 0}},
                        {"for": {k: 1}, "do": come},
                        {"for": {k: [1, kt]}, "do": [*inner, *done, *come, last]},
                        {"for": {k: [kt, f"{kt} + 1"]}, "do": [*inner, *done, last]},
                        *leave,
                    ],
                },
            ],
        },
    ]
    warps = r.atoms[0] * r.atoms[1]
    budget: tuple[dict[str, int], dict[str, int]] = ({}, {})
    if w.has_budgets and warps % 4 == 0:  # whole warpgroups
        budget = {"registers": 24}, {"registers": 240}
    return {
        "grid": {"bx": r.ctas},
        "buffers": {
            **w.views(),
            sa: tile_buffer("shared", p.a.dtype, (stages, bm, bk)),
            sb: tile_buffer("shared", p.b.dtype, (stages, bk, bn)),
            out: tile_buffer("shared", p.d.dtype, (warps, PANEL_ROWS, columns)),
            a: tile_buffer("register", p.a.dtype, (2, rows, depth)),
            b: tile_buffer("register", p.b.dtype, (2, depth, columns)),
            sums: tile_buffer("register", p.sums, (rows, columns)),
            h: tile_buffer("register", p.d.dtype, (PANEL_ROWS, columns)),
        },
        "roles": {load: {"threads": 32} | budget[0], math: {"threads": 32 * warps} | budget[1]},
        "barriers": {full: {"slots": stages}, free: {"slots": stages, "open": True}},
        "ops": ops,
    }
