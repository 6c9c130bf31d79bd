"""gemm by tiles of a CTA, whose threads all do the same: mma.sync or fused multiply-adds, k-tiles by cp.async."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilegen.cost.tally import BY_CP_ASYNC
from tilegen.layouts import Iter, TileLayout, lay_out_mma, tile_mma
from tilegen.layouts.constructors import find_atom
from tilegen.ops.gemm.parts import Statements, Writing, bytes_of, count_ctas, finish, number_tiles, tile_buffer
from tilegen.ops.gemm.problem import Problem
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.mma.atoms import SIMT

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
    depth = atom.shape[2]
    steps = bk // depth
    by_k = atom.kind == SIMT  # threads read rows of a together: they lie side by side in shared memory
    seen_a = w.fresh("sa_t") if by_k else sa
    lay_a, lay_b = _lay_out(w)
    tiled = f"tiled_mma('{r.atom}', {_say(r.atoms)}, {_say(r.permutation)}, 'C', ({bm}, {bn}, {bk}))"

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
        return [
            {"copy": {"src": f"{seen_a}[{slot}, :, {at} : +{depth}]", "dst": f"{a}[{to}]", **more}},
            {"copy": {"src": f"{sb}[{slot}, {at} : +{depth}]", "dst": f"{b}[{to}]", **more}},
        ]

    def multiply(which: str) -> dict[str, Any]:
        # The longer side of a thread's part goes there and back, so that one factor of each product has just been read.
        order = {"order": "nm_serpentine"} if by_k else {}
        return {"mma": {"a": f"{a}[{which}]", "b": f"{b}[{which}]", "c": sums, "atom": r.atom, **order}}

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
        body: Statements = [
            *([{"for": {i: steps - 1}, "unroll": True, "do": walk}] if steps > 1 else []),
            {"wait": stages - 2},
            {"sync": "cta"},
            *([*come, *go, last] if steps % 2 == 0 else [last, *come, *go]),
        ]
        end: Statements = [{"wait": 0}]
    else:
        # The next k-tile waits in registers while this one is multiplied.
        start, end, following = [*pick("0")], [], f"{k} + 1"
        walk = [*bring("0", f"{i}*{depth}", f"{i} % 2"), multiply(f"{i} % 2")]
        body = [
            {"sync": "cta"},
            {"copy": {"src": ra, "dst": f"{seen_a}[0]"}},
            {"copy": {"src": rb, "dst": f"{sb}[0]"}},
            {"sync": "cta"},
            *pick(f"({following})*{bk}", when=f"{following} < {kt}"),
            {"for": {i: steps}, "unroll": True, "do": walk},
        ]
    at, columns = (f"{m}*{bm}", bm), (f"{n}*{bn}", bn)
    sides = p.sides
    store = {"src": out, "dst": w.region(p.d, at, columns), **w.edge((sides[0], bm), (sides[1], bn))}
    is_staged = stages * bk * (bm * bytes_of(p.a.dtype) + bn * bytes_of(p.b.dtype)) >= bm * bn * bytes_of(p.d.dtype)
    is_plain = not p.epilogue and p.d.dtype == p.sums
    # Sums lie as products take them; in h, neighbours of a row of d lie side by side, to be stored together. That binds
    # the compiler's hands: of a long K, its products take longer by more than the stores gain.
    is_moved = is_plain and by_k and not (isinstance(p.sides[2], int) and p.sides[2] >= _LONG)
    held = sums if is_plain and not is_moved else h
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
        *([{"copy": {"src": sums, "dst": h}}] if is_moved else []),
        *([] if is_plain else [finish(w, "cta", sums, at, columns, h)]),
        *leave,
    ]
    buffers = {
        **w.views(),
        sa: tile_buffer("shared", p.a.dtype, (stages, bk, bm) if by_k else (stages, bm, bk), lay_a),
        **({seen_a: {"view": sa, "axes": [0, 2, 1]}} if by_k else {}),
        sb: tile_buffer("shared", p.b.dtype, (stages, bk, bn), lay_b),
        **({out: tile_buffer("shared", p.d.dtype, (bm, bn), over=[sa, sb])} if is_staged and not by_k else {}),
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
        sums: tile_buffer("register", p.sums, (bm, bn), tiled),
        **({} if is_plain and not is_moved else {h: tile_buffer("register", p.d.dtype, (bm, bn), _lay_out_h(r))}),
    }
    return {"grid": {"bx": count_ctas(w)}, "threads": r.threads, "buffers": buffers, "ops": ops}


def reads_past_the_end(recipe: Recipe, p: Problem) -> bool:
    """Are fragments read after the last k-tile too, of whatever is in the next place?

    Nobody uses them, and a condition would keep the compiler from moving these reads between the products. It takes a K
    that is known to fill every place once.
    """
    k, (_, _, bk) = p.sides[2], recipe.tile
    return recipe.load == BY_CP_ASYNC and isinstance(k, int) and k > bk * (recipe.stages - 1)


def _lay_out(w: Writing) -> tuple[str, str]:
    """The layouts of a's and b's k-tiles: what the chooser finds, or rows of k where those are as free of conflicts.

    Rows of b are read and written along themselves. Of a, a warp's 4-byte copies of 8 k by 4 m meet 32 banks if rows
    are 4 elements longer. The compiler folds the addresses of rows into its accesses, where a swizzle costs an
    exclusive or for each: docs/gemm.md has the times.
    """
    p, (bm, _, bk) = w.problem, w.recipe.tile
    is_by_rows = find_atom(w.recipe.atom).kind == SIMT and w.recipe.load == BY_CP_ASYNC and bytes_of(p.a.dtype) == 4
    if not is_by_rows or bk != 8 or bm % 4 or not (p.a.runs_along_rows and p.b.runs_along_rows):
        return "auto", "auto"
    return f"S[({w.recipe.stages}, {bk}, {bm}):({bk * (bm + 4)}, {bm + 4}, 1)]", "row"


def _lay_out_h(recipe: Recipe) -> str:
    """Of what leaves the registers: of fused multiply-adds, each thread's elements of a row one after another."""
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
