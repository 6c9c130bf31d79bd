"""gemm by tiles of a CTA, whose threads all do the same: mma.sync or fused multiply-adds, k-tiles by cp.async or by
threads. They multiply together, or each warp its part of every k-tile (``k_parts``): then the sums are added up at the
end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilegen.access import LINE_BYTES, WARP_LANES, cp_async_cost
from tilegen.cost.tally import BY_CP_ASYNC, BY_THREADS
from tilegen.layouts import Iter, TileLayout, lay_out_mma, tile_mma
from tilegen.layouts.constructors import find_atom
from tilegen.ops.gemm.parts import (
    Statements,
    Writing,
    bytes_of,
    count_ctas,
    count_staged_bytes,
    finish,
    number_tiles,
    tile_buffer,
)
from tilegen.ops.gemm.problem import Matrix, Problem, is_multiple
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.mma.atoms import SIMT
from tilegen.scopes import SCOPES
from tilegen.spec.spelling import spell_index

_LONG = 2048  # of K: there the products of 128 x 256 tiles take 99 % of the time (docs/gemm.md)


def write_tiles(w: Writing) -> dict[str, Any]:
    """The launch, buffers and statements: fragments of the next step are loaded while one is multiplied."""
    r, p = w.recipe, w.problem
    (bm, bn, bk), stages = r.tile, r.stages
    sa, sb, a, b, sums, h, out = (w.fresh(x) for x in ("sa", "sb", "a", "b", "sums", "h", "out"))
    ra, rb = w.fresh("ra"), w.fresh("rb")
    k, kt, s, i, m, n = (w.fresh(x) for x in ("k", "kt", "s", "j", "m", "n"))
    counts, place = number_tiles(w, "bx")
    atom = find_atom(r.atom)
    depth = r.step
    is_shared, part = r.k_parts > 1, w.fresh("part")
    by_k = atom.kind == SIMT  # threads read rows of a together: they lie side by side in shared memory
    is_one_warp = not by_k and not is_shared and r.threads == SCOPES["warp"].threads
    alone = {"scope": "warp"} if is_one_warp else {}
    own = {"scope": "warp"} if is_shared else alone  # whose sums are those of a tile
    steps = bk // depth // r.k_parts
    seen_a = w.fresh("sa_t") if by_k else sa
    lay_a, lay_b = _lay_out(w)
    tiling = f"'{r.atom}', {_say(r.atoms)}, {_say(r.permutation)}"
    is_warps = is_shared and by_k  # a warp's threads: as a layout such atoms lie on the CTA's

    def load(at: str, to: tuple[str, str], **more: Any) -> Statements:
        """A k-tile of a and of b."""
        boxes = ((p.a, (f"{m}*{bm}", bm), (at, bk)), (p.b, (at, bk), (f"{n}*{bn}", bn)))
        return [
            {
                "copy": {
                    "src": w.region(x, rows, columns),
                    "dst": dst,
                    **more,
                    **w.edge((x.rows, rows[1]), (x.columns, columns[1])),
                }
            }
            for (x, rows, columns), dst in zip(boxes, to, strict=True)
        ]

    def fetch(to: str, at: str, **more: Any) -> Statements:
        return load(at, (f"{seen_a}[{to}]", f"{sb}[{to}]"), **{"async": True, **more})

    def pick(at: str, **more: Any) -> Statements:
        return load(at, (ra, rb), **more)

    def bring(slot: str, at: str, to: str, **more: Any) -> Statements:
        """Fragments of one step."""
        here = f"{part} + {at}" if is_shared else at
        return [
            {"copy": {**own, "src": f"{seen_a}[{slot}, :, {here} : +{depth}]", "dst": f"{a}[{to}]", **more}},
            {"copy": {**own, "src": f"{sb}[{slot}, {here} : +{depth}]", "dst": f"{b}[{to}]", **more}},
        ]

    def multiply(which: str) -> dict[str, Any]:
        # The longer side of a thread's part goes there and back, so that one factor of each product has just been read.
        order: dict[str, Any] = {"order": "nm_serpentine"} if by_k else {}
        order |= {"atoms": r.atoms, "permutation": list(r.permutation)} if is_warps else {}
        return {"mma": {**own, "a": f"{a}[{which}]", "b": f"{b}[{which}]", "c": sums, "atom": r.atom, **order}}

    if r.load == BY_CP_ASYNC:
        following, later, last = f"{k} + 1", f"{k} + {stages}", multiply(f"{(steps - 1) % 2}")
        start: Statements = [
            {"for": {s: stages}, "unroll": True, "do": [*fetch(s, f"{s}*{bk}", when=f"{s} < {kt}"), "commit"]},
            {"wait": stages - 1},
            {"sync": "cta"},
            *bring("0", "0", "0"),
        ]
        walk: Statements = [*bring(f"{k} % {stages}", f"({i} + 1)*{depth}", f"({i} + 1) % 2"), multiply(f"{i} % 2")]
        asked = {} if reads_past_the_end(r, p) else {"when": f"{following} < {kt}"}
        come = bring(f"({following}) % {stages}", "0", "0", **asked)
        # Nobody reads k-tile k any more: its place is for the one that comes ``stages`` later.
        go = [*fetch(f"{k} % {stages}", f"({later})*{bk}", when=f"{later} < {kt}"), "commit"]
        meet: Statements = [{"wait": stages - 2}, {"sync": "cta"}] if stages > 1 else []
        follow: Statements = [*come, *go] if stages > 1 else []  # of one k-tile, nothing
        body: Statements = [
            *([{"for": {i: steps - 1}, "unroll": True, "do": walk}] if steps > 1 else []),
            *meet,
            *([*follow, last] if steps % 2 == 0 else [last, *follow]),
        ]
        end: Statements = [{"wait": 0}]
    else:
        # The next k-tile waits in registers while this one is multiplied; all but the last ask for no end of K.
        start, end = [*pick("0")], []
        walk = [*bring("0", f"{i}*{depth}", f"{i} % 2"), multiply(f"{i} % 2")]
        body = [
            {"sync": "cta"},
            {"copy": {"src": ra, "dst": f"{seen_a}[0]"}},
            {"copy": {"src": rb, "dst": f"{sb}[0]"}},
            {"sync": "cta"},
            *(s for when in _divide_at_end(w) for s in pick(f"({k} + 1)*{bk}", when=when)),
            {"for": {i: steps}, "unroll": True, "do": walk},
        ]
    at, columns = (f"{m}*{bm}", bm), (f"{n}*{bn}", bn)
    sides = p.sides
    store = {"src": out, "dst": w.region(p.d, at, columns), **w.edge((sides[0], bm), (sides[1], bn))}
    room = count_staged_bytes(r, p)
    is_staged = not is_shared and not by_k
    is_over = room >= bm * bn * bytes_of(p.d.dtype)
    over: dict[str, Any] = {"over": [sa, sb]} if is_over else {}
    is_plain = not p.epilogue and p.d.dtype == p.sums
    # Sums lie as products take them; in h, neighbours of a row of d lie side by side, to be stored together. That binds
    # the compiler's hands: of a long K, its products take longer by more than the stores gain.
    is_moved = is_plain and by_k and not is_shared and not (isinstance(p.sides[2], int) and p.sides[2] >= _LONG)
    total, add, more = _add_up(w, sums, room) if is_shared else (sums, [], {})
    held = total if is_plain and not is_moved else h
    leave: Statements = [{"copy": {**store, "src": held}}]
    if is_staged:
        leave = [{"copy": {**alone, "src": held, "dst": out}}, {"sync": "cta"}, {"copy": store}]
    is_read = r.load == BY_THREADS or reads_past_the_end(r, p)  # after the last meeting
    if is_read if is_shared else is_staged and is_over:
        end.append({"sync": "cta"})  # what comes lies over the stages
    ops: Statements = [
        {"let": counts | place | ({part: f"warpid*{bk // r.k_parts}"} if is_shared else {})},
        {"fill": {**own, "dst": sums, "value": 0}},
        *start,
        {"for": {k: kt}, "do": body},
        *end,
        *add,
        *([{"copy": {"src": sums, "dst": h}}] if is_moved else []),
        *([] if is_plain else [finish(w, alone.get("scope", "cta"), total, at, columns, h)]),
        *leave,
    ]
    buffers = {
        **w.views(),
        sa: tile_buffer("shared", p.a.dtype, (stages, bk, bm) if by_k else (stages, bm, bk), lay_a),
        **({seen_a: {"view": sa, "axes": [0, 2, 1]}} if by_k else {}),
        sb: tile_buffer("shared", p.b.dtype, (stages, bk, bn), lay_b),
        **({out: tile_buffer("shared", p.d.dtype, (bm, bn), **over)} if is_staged else {}),
        **(
            {}
            if r.load == BY_CP_ASYNC
            else {
                ra: tile_buffer("register", p.a.dtype, (bm, bk)),
                rb: tile_buffer("register", p.b.dtype, (bk, bn)),
            }
        ),
        a: tile_buffer("register", p.a.dtype, (2, bm, depth)),
        b: tile_buffer("register", p.b.dtype, (2, depth, bn)),
        sums: tile_buffer(
            "register", p.sums, (bm, bn), "auto" if is_warps else f"tiled_mma({tiling}, 'C', ({bm}, {bn}, {bk}))"
        ),
        **more,
        **({} if is_plain and not is_moved else {h: tile_buffer("register", p.d.dtype, (bm, bn), _lay_out_h(r))}),
    }
    # One of few CTAs has a multiprocessor to itself; ptxas by itself would rather spill than let one alone fit.
    few = {"ctas_per_sm": 1} if is_shared else {}
    return {"grid": {"bx": count_ctas(w)}, "threads": r.threads, **few, "buffers": buffers, "ops": ops}


def _add_up(w: Writing, sums: str, room: int) -> tuple[str, Statements, dict[str, Any]]:
    """The sums of all warps in the order of warps, through shared memory: where they are, statements, and buffers.

    ``room``: bytes of the stages, which nobody reads any more.
    """
    (bm, bn, _), warps, dtype = w.recipe.tile, w.recipe.k_parts, w.problem.sums
    joined, total, q, x = (w.fresh(name) for name in ("joined", "total", "q", "x"))
    over: dict[str, Any] = {"over": [w.fresh("sa"), w.fresh("sb")]} if room >= warps * bm * bn * bytes_of(dtype) else {}
    add = {"dst": total, "expr": f"{total} + {x}", "with": {x: f"{joined}[{q}]"}}
    statements: Statements = [
        {"copy": {"scope": "warp", "src": sums, "dst": f"{joined}[warpid]"}},
        {"sync": "cta"},
        {"copy": {"src": f"{joined}[0]", "dst": total}},
        {"for": {q: [1, warps]}, "unroll": True, "do": [{"elementwise": add}]},
    ]
    buffers = {
        joined: tile_buffer("shared", dtype, (warps, bm, bn), **over),
        total: tile_buffer("register", dtype, (bm, bn)),
    }
    return total, statements, buffers


def _divide_at_end(w: Writing) -> list[str]:
    """When the k-tile after ``k`` is loaded: apart, where K ends in it, which then has to be asked for each element."""
    k, kt, (_, _, bk), size = w.fresh("k"), w.fresh("kt"), w.recipe.tile, w.problem.sides[2]
    following = f"{k} + 1 < {kt}"
    if is_multiple(size, bk) or (isinstance(size, int) and size < 2 * bk):
        return [following]
    inside = f"({k} + 2)*{bk} <= {spell_index(size)}"
    return [inside, f"{following} and not ({inside})"]


def reads_past_the_end(recipe: Recipe, p: Problem) -> bool:
    """Are fragments read after the last k-tile too, of whatever is in the next place?

    Nobody uses them, and a condition would keep the compiler from moving these reads between the products. It takes a K
    that is known to fill every place once. After a k-tile that is the only one, nothing is read.
    """
    k, (_, _, bk) = p.sides[2], recipe.tile
    is_ring = recipe.load == BY_CP_ASYNC and recipe.stages > 1
    return is_ring and isinstance(k, int) and k > bk * (recipe.stages - 1)


def _lay_out(w: Writing) -> tuple[str, str]:
    """The layouts of a's and b's k-tiles: what the chooser finds, or rows of k where those are as free of conflicts.

    Rows of b are read and written along themselves. Of a, a warp's 4-byte copies of 8 k by 4 m meet 32 banks if rows
    are 4 elements longer. The compiler folds the addresses of rows into its accesses, where a swizzle costs an
    exclusive or for each, and of what threads bring one by one many: docs/gemm.md has the times.
    """
    p, (bm, bn, bk) = w.problem, w.recipe.tile
    if w.recipe.load == BY_THREADS and bytes_of(p.a.dtype) == 2:
        return _lay_out_rows(p.a, bm, bk), _lay_out_rows(p.b, bk, bn)
    is_by_rows = find_atom(w.recipe.atom).kind == SIMT and w.recipe.load == BY_CP_ASYNC and bytes_of(p.a.dtype) == 4
    if not is_by_rows or w.recipe.k_parts > 1:
        return "auto", "auto"
    return _lay_out_k(w.recipe, bm, p.a.runs_along_rows), _lay_out_k(w.recipe, bn, not p.b.runs_along_rows)


def _lay_out_k(recipe: Recipe, length: int, is_turned: bool) -> str:
    """Rows of k, each ``length`` elements of 4 bytes; ``is_turned``: the array has k side by side, and elements come
    one by one. Rows are then longer by as few elements as leave the fewest conflicts."""
    stages, (_, _, bk) = recipe.stages, recipe.tile
    if not is_turned:
        return "row"
    k, row = np.arange(WARP_LANES) % bk, np.arange(WARP_LANES) // bk

    def conflict(pad: int) -> int:
        return int(cp_async_cost("ca", 4, (k * (length + pad) + row) * 4, k * 4 + row * LINE_BYTES).wavefronts)

    pitch = length + min(range(0, WARP_LANES, 4), key=conflict)
    return f"S[({stages}, {bk}, {length}):({bk * pitch}, {pitch}, 1)]"


def _lay_out_rows(x: Matrix, rows: int, columns: int) -> str:
    """Rows (or columns) of 16-bit elements as the array has them, each an odd number of 16 bytes: eight rows of a
    matrix that ldmatrix reads lie in different banks."""
    length, count = (columns, rows) if x.runs_along_rows else (rows, columns)
    pitch = length + (8 if length % 16 == 0 else 0)
    strides = f"{pitch}, 1" if x.runs_along_rows else f"1, {pitch}"
    return f"S[(1, {rows}, {columns}):({count * pitch}, {strides})]"


def _lay_out_h(recipe: Recipe) -> str:
    """Of what leaves the registers: of fused multiply-adds, each thread's elements of a row one after another."""
    if recipe.k_parts > 1:
        return "auto"
    layout = lay_out_mma(tile_mma(recipe.atom, recipe.atoms, recipe.permutation, recipe.tile), "C")
    if find_atom(recipe.atom).kind != SIMT or not isinstance(layout, TileLayout) or layout.replica or layout.offset:
        return "auto"
    stride, by_rows = 1, list[Iter]()
    for part in reversed(layout.shard):
        is_register = part.axis == "m"
        by_rows.append(replace(part, stride=stride) if is_register else part)
        stride *= int(part.extent) if is_register else 1  # type: ignore[arg-type]
    return str(replace(layout, shard=tuple(reversed(by_rows))))


def _say(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return "(" + ", ".join("None" if x is None else f"'{x}'" if isinstance(x, str) else str(x) for x in value) + ")"
