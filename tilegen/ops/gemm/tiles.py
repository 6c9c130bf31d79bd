"""gemm by tiles of a CTA, whose threads all do the same: mma.sync or fused multiply-adds, k-tiles by cp.async."""

from __future__ import annotations

from typing import Any

from tilegen.layouts.constructors import find_atom
from tilegen.ops.gemm.parts import Statements, Writing, bytes_of, finish, number_tiles, tile_buffer
from tilegen.ops.mma.atoms import SIMT
from tilegen.spec.spelling import spell_index


def write_tiles(w: Writing) -> dict[str, Any]:
    """The launch, buffers and statements: fragments of the next step are loaded while one is multiplied."""
    r, p = w.recipe, w.problem
    (bm, bn, bk), stages = r.tile, r.stages
    sa, sb, a, b, sums, h, out = (w.fresh(x) for x in ("sa", "sb", "a", "b", "sums", "h", "out"))
    k, kt, s, i, m, n = (w.fresh(x) for x in ("k", "kt", "s", "j", "m", "n"))
    counts, place = number_tiles(w, "bx")
    atom = find_atom(r.atom)
    depth = atom.shape[2]
    steps = bk // depth
    by_k = atom.kind == SIMT  # threads read rows of a together: they lie side by side in shared memory
    seen_a = w.fresh("sa_t") if by_k else sa
    tiled = f"tiled_mma('{r.atom}', {_say(r.atoms)}, {_say(r.permutation)}, 'C', ({bm}, {bn}, {bk}))"
    ahead = stages - 1

    def fetch(to: str, at: str, **more: Any) -> Statements:
        """A k-tile on its way."""
        kept = {"async": True} if r.load == "cp_async" else {}
        boxes = ((p.a, (f"{m}*{bm}", bm), (at, bk), seen_a), (p.b, (at, bk), (f"{n}*{bn}", bn), sb))
        return [
            {
                "copy": {
                    "src": w.region(x, rows, columns),
                    "dst": f"{dst}[{to}]",
                    **kept,
                    **more,
                    **w.edge((x.rows, rows[1]), (x.columns, columns[1])),
                }
            }
            for x, rows, columns, dst in boxes
        ]

    def bring(slot: str, at: str, to: str) -> Statements:
        """Fragments of one step."""
        return [
            {"copy": {"src": f"{seen_a}[{slot}, :, {at} : +{depth}]", "dst": f"{a}[{to}]"}},
            {"copy": {"src": f"{sb}[{slot}, {at} : +{depth}]", "dst": f"{b}[{to}]"}},
        ]

    def multiply(which: str) -> dict[str, Any]:
        return {"mma": {"a": f"{a}[{which}]", "b": f"{b}[{which}]", "c": sums, "atom": r.atom}}

    slot = f"{k} % {stages}" if stages > 1 else "0"
    inner: Statements = [
        {"for": {i: steps}, "unroll": True, "do": [*bring(slot, f"{i}*{depth}", f"{i} % 2"), multiply(f"{i} % 2")]}
        if steps > 1
        else {"for": {i: 1}, "unroll": True, "do": [*bring(slot, "0", "0"), multiply("0")]}
    ]
    if r.load == "cp_async":
        start: Statements = [
            {
                "for": {s: ahead},
                "unroll": True,
                "do": [
                    *fetch(s, f"{s}*{bk}", when=f"{s} < {kt}"),
                    "commit",
                ],
            }
        ]
        later = f"{k} + {ahead}"
        body: Statements = [
            {"wait": ahead - 1},
            {"sync": "cta"},
            *fetch(f"({later}) % {stages}", f"({later})*{bk}", when=f"{later} < {kt}"),
            "commit",
            *inner,
        ]
        end: Statements = [{"wait": 0}]
    else:
        start, end = [], []
        body = [{"sync": "cta"}, *fetch("0", f"{k}*{bk}"), {"sync": "cta"}, *inner]
    at, columns = (f"{m}*{bm}", bm), (f"{n}*{bn}", bn)
    sides = p.sides
    store = {"src": out, "dst": w.region(p.d, at, columns), **w.edge((sides[0], bm), (sides[1], bn))}
    is_staged = stages * bk * (bm * bytes_of(p.a.dtype) + bn * bytes_of(p.b.dtype)) >= bm * bn * bytes_of(p.d.dtype)
    is_plain = not p.epilogue and p.d.dtype == p.sums
    held = sums if is_plain else h
    leave: Statements = [{"copy": {**store, "src": held}}]
    if is_staged and not by_k:
        leave = [{"copy": {"src": held, "dst": out}}, {"sync": "cta"}, {"copy": store}]
        end.append({"sync": "cta"})  # out lies over the stages
    ops: Statements = [
        {"let": counts | place},
        {"fill": {"dst": sums, "value": 0}},
        *start,
        {"for": {k: kt}, "do": body},
        *end,
        *([] if is_plain else [finish(w, "cta", sums, at, columns, h)]),
        *leave,
    ]
    buffers = {
        **w.views(),
        sa: tile_buffer("shared", p.a.dtype, (stages, bk, bm) if by_k else (stages, bm, bk)),
        **({seen_a: {"view": sa, "axes": [0, 2, 1]}} if by_k else {}),
        sb: tile_buffer("shared", p.b.dtype, (stages, bk, bn)),
        **({out: tile_buffer("shared", p.d.dtype, (bm, bn), over=[sa, sb])} if is_staged and not by_k else {}),
        a: tile_buffer("register", p.a.dtype, (2, bm, depth)),
        b: tile_buffer("register", p.b.dtype, (2, depth, bn)),
        sums: tile_buffer("register", p.sums, (bm, bn), tiled),
        **({} if is_plain else {h: tile_buffer("register", p.d.dtype, (bm, bn))}),
    }
    return {"grid": {"bx": _count_ctas(w)}, "threads": r.threads, "buffers": buffers, "ops": ops}


def _count_ctas(w: Writing) -> str:
    """A CTA for each tile, in numbers and params alone."""
    counts, _ = number_tiles(w, "bx")
    each = " * ".join(f"({counts[w.fresh(x)]})" for x in ("tm", "tn"))
    return f"({spell_index(w.problem.batch)}) * {each}" if w.problem.is_batched else each


def _say(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return "(" + ", ".join("None" if x is None else f"'{x}'" if isinstance(x, str) else str(x) for x in value) + ")"
