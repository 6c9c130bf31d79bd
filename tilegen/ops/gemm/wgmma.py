"""gemm on Hopper: a warp that loads by TMA, warpgroups that multiply by wgmma, CTAs that go from tile to tile."""

from __future__ import annotations

from typing import Any

from tilegen.arithmetic import TFLOAT32
from tilegen.ops.gemm.parts import Statements, Writing, bytes_of, count_tiles, finish, number_tiles, tile_buffer
from tilegen.ops.gemm.problem import WIDEST


def write_wgmma(w: Writing) -> dict[str, Any]:
    """The launch, buffers and statements, as a person would write them."""
    r, p = w.recipe, w.problem
    (bm, bn, bk), stages, pairs = r.tile, r.stages, r.cluster
    sa, sb, out, sums, h = (w.fresh(x) for x in ("sa", "sb", "out", "sums", "h"))
    t, k, kt, first, q = (w.fresh(x) for x in ("t", "k", "kt", "first", "q"))
    m, n = w.fresh("m"), w.fresh("n")
    groups = r.warpgroups
    rows = bm // groups
    counts, tile = number_tiles(w, t, pairs)
    by, own = ("bx_count", "bx") if pairs == 1 else ("(bx_count // 2)", "bx // 2")
    tile = {first: f"{t} // {by} * {kt}"} | tile
    walk = {t: [own, count_tiles(w), by]}
    slot = f"({first} + {k}) % {stages}"
    load, math = (w.fresh(x) for x in ("load", "math"))
    full, free = (w.fresh(x) for x in ("full", "free"))
    sides = p.sides

    def box(array: Any, rows: tuple[str, int], columns: tuple[str, int], dst: str, **more: Any) -> dict[str, Any]:
        edge = w.edge((array.rows, rows[1]), (array.columns, columns[1]))
        said = {"src": w.region(array, rows, columns), "dst": f"{dst}[{slot}]", "variant": "tma", **w.rounding()}
        return {"copy": {**said, "barrier": f"{full}[{slot}]", **more, **edge}}

    shared = {"multicast": "cbx"} if pairs > 1 else {}
    loads: Statements = [
        {"wait": {"barrier": f"{free}[{slot}]"}},
        box(p.a, (f"{m}*{bm}", bm), (f"{k}*{bk}", bk), sa),
        box(p.b, (f"{k}*{bk}", bk), (f"{n}*{bn}", bn), sb, **shared),
    ]
    to = {"to": "cbx"} if pairs > 1 else {}

    def freed(which: str, **more: Any) -> dict[str, Any]:
        barrier = f"{free}[({first} + {which} - 1) % {stages}]"
        return {"arrive": {"scope": "warpgroup", "barrier": barrier, **to, **more}}

    tile_a = f"{sa}[{slot}, wgid*{rows} : +{rows}]" if groups > 1 else f"{sa}[{slot}]"
    tf32 = {"atom": f"wgmma.m64n{bn}k8.f32.tf32.tf32"} if p.factors == TFLOAT32 else {}
    product = {"scope": "warpgroup", "a": tile_a, "b": f"{sb}[{slot}]", "c": sums, **tf32}
    products: Statements = [
        {"wait": {"barrier": f"{full}[{slot}]"}},
        {"mma": {**product, "accumulate": f"{k} > 0", "async": True}},
        {"commit": "mma"},
        {"wait": {"mma": 1}},
        freed(k, when=f"{k} > 0"),
    ]
    panels = bn // r.panel
    at = (f"{m}*{bm} + wgid*{rows}" if groups > 1 else f"{m}*{bm}", rows)
    columns = (f"{n}*{bn} + {q}*{r.panel}" if panels > 1 else f"{n}*{bn}", r.panel)
    part = f"{sums}[:, {q}*{r.panel} : +{r.panel}]" if panels > 1 else sums
    mine = f"{out}[wgid]" if groups > 1 else f"{out}[0]"
    by_tma = can_store_by_tma(w)
    store: dict[str, Any] = {"scope": "warpgroup", "src": mine, "dst": w.region(p.d, at, columns)}
    store |= w.edge((sides[0], bm), (sides[1], bn)) | ({"variant": "tma"} if by_tma else {})
    leave: Statements = [
        *([{"wait": {"tma": 0}}] if by_tma else []),
        {"sync": "warpgroup"},
        finish(w, "warpgroup", part, at, columns, h),
        {"copy": {"scope": "warpgroup", "src": h, "dst": mine}},
        *([{"sync": "async"}] if by_tma else []),
        {"sync": "warpgroup"},
        {"copy": store},
    ]
    if panels > 1:
        leave = [{"for": {q: panels}, "unroll": True, "do": leave}]
    overlap = r.overlap == "previous"
    ops: Statements = [
        {"let": counts},
        {
            "role": load,
            "do": [
                *([{"wait": "previous"}] if overlap else []),
                {"for": walk, "do": [{"let": tile}, {"for": {k: kt}, "do": loads}]},
            ],
        },
        {
            "role": math,
            "do": [
                *([{"wait": "previous"}] if overlap and p.named else []),
                {
                    "for": walk,
                    "do": [
                        {"let": tile},
                        {"for": {k: kt}, "do": products},
                        {"wait": {"mma": 0}},
                        freed(kt),
                        *leave,
                    ],
                },
                *([{"wait": {"tma": 0}}] if by_tma else []),
            ],
        },
    ]
    ops += [{"sync": "cluster"}] if pairs > 1 else []
    budget = (40, 232) if groups > 1 else (24, 240)
    head: dict[str, Any] = {"cluster": {"cbx": pairs}} if pairs > 1 else {}
    head |= {"grid": {"bx": r.ctas}} | ({"overlap": "previous"} if overlap else {})
    return head | {
        "buffers": {
            **w.views(),
            sa: tile_buffer("shared", p.a.dtype, (stages, bm, bk)),
            sb: tile_buffer("shared", p.b.dtype, (stages, bk, bn)),
            out: tile_buffer("shared", p.d.dtype, (groups, rows, r.panel)),
            sums: tile_buffer("register", p.sums, (rows, bn)),
            h: tile_buffer("register", p.d.dtype, (rows, r.panel)),
        },
        "roles": {
            load: {"threads": 32, "registers": budget[0]},
            math: {"threads": 128 * groups, "registers": budget[1]},
        },
        "barriers": {full: {"slots": stages}, free: {"slots": stages, "open": True}},
        "ops": ops,
    }


def can_store_by_tma(w: Writing) -> bool:
    """TMA writes rows that begin and end at multiples of 16 bytes, of an array that the kernel does not read."""
    d = w.problem.d
    return d.runs_along_rows and d.whole_bytes == WIDEST and not w.problem.is_read_again


def shared_bytes(w: Writing) -> int:
    """What the stages and the panel take."""
    (bm, bn, bk), p = w.recipe.tile, w.problem
    stage = bk * (bm * bytes_of(p.a.dtype) + bn * bytes_of(p.b.dtype))
    return w.recipe.stages * stage + bm * w.recipe.panel * bytes_of(p.d.dtype) + 16 * w.recipe.stages
