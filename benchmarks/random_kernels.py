"""Random kernels that tests and counters are tried on: the same text for the same number, in any version of tilegen.

Half of them copy with cp.async; the others go through registers, shared memory, casts and conditions. All build.
"""

from __future__ import annotations

import random

BYTES = {"uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "float64": 8, "int64": 8, "complex128": 16}


def draw_kernel(number: int) -> tuple[str, str]:
    """The name and the spec of a kernel.

    >>> draw_kernel(4)[0]
    'r0004_pipe'
    """
    rng = random.Random(number)
    kinds = (_pipe,) if number % 2 == 0 else (_tile, _chain, _cast, _when, _permute, _permute_layout)
    kind = rng.choice(kinds)
    name = f"r{number:04}_{kind.__name__[1:]}"
    return name, f"kernel: {name}\narch: sm_90\n{kind(rng)}"


def _buffer(name: str, scope: str, dtype: str, shape: str, more: str = "") -> str:
    return f"  {name}: {{scope: {scope}, dtype: {dtype}, shape: [{shape}]{more and ', ' + more}}}\n"


def _tiled(dtype: str, x: str, y: str, tile: str, layout: str, axes: str) -> str:
    """Two arrays, a shared tile between them, and a view of it with its dimensions in this order ("" for none)."""
    view = f"  tT: {{view: t, axes: [{axes}]}}\n" if axes else ""
    arrays = _buffer("X", "global", dtype, x) + _buffer("Y", "global", dtype, y)
    return arrays + _buffer("t", "shared", dtype, tile, f'layout: "{layout}"') + view


def _pipe(rng: random.Random) -> str:
    """Stages that cp.async fills while others are read."""
    dtype = rng.choice([d for d in BYTES if d != "int64"])
    per_word = max(1, 4 // BYTES[dtype])
    columns = rng.choice([4, 5, 8, 16, 20, 32]) * per_word
    rows, stages, trips = rng.choice([3, 5, 8, 16, 32]), rng.choice([1, 2, 2, 3]), rng.choice([1, 2, 3, 5])
    width = columns * trips + rng.choice([0, 0, per_word, 2 * per_word])
    ctas, threads = rng.choice([1, 2, 3]), rng.choice([32, 64, 96, 128, 160])
    short = rng.choice([0, 0, 1, 2]) if rows > 3 else 0
    at_launch = rng.random() < 0.25
    n = "N" if at_launch else str(width)
    params = f"params: {{N: {{default: {width}, multiple_of: {per_word}, max: 4096}}}}\n" if at_launch else ""
    turned = rng.random() < 0.35
    layout = rng.choice(
        ["row", "row", "auto", f"S[({stages},{rows},{columns}):({rows * (columns + per_word)},{columns + per_word},1)]"]
    )
    count = f"ceil({n} / {columns})"
    last, from_, shape = (
        ("tT", f"Y[k*{columns} : +{columns}, bx*{rows} : +{rows}]", f"{n}, {ctas * rows - short}")
        if turned
        else ("t", f"Y[bx*{rows} : +{rows}, k*{columns} : +{columns}]", f"{ctas * rows - short}, {n}")
    )
    ahead, tile = max(1, stages - 1), f"{stages}, {rows}, {columns}"

    def load(k: str, stage: str) -> str:
        where = f'dst: "t[{stage}]", async: true, edge: clip, when: {k} < {count}'
        return f'copy: {{src: "X[bx*{rows} : +{rows}, ({k})*{columns} : +{columns}]", {where}}}'

    first = "".join(f"  - {load(str(k), str(k % stages))}\n  - commit\n" for k in range(ahead))
    again = "" if stages > 1 else "      - sync: cta\n"
    return (
        f"threads: {threads}\ngrid: {{bx: {ctas}}}\n{params}buffers:\n"
        + _tiled(dtype, f"{ctas * rows - short}, {n}", shape, tile, layout, turned * "0, 2, 1")
        + f"ops:\n{first}  - for: {{k: {count}}}\n    do:\n      - wait: 0\n      - sync: cta\n"
        f'      - copy: {{src: "{last}[k % {stages}]", dst: "{from_}", edge: clip}}\n{again}'
        f"      - {load(f'k + {ahead}', f'(k + {ahead}) % {stages}')}\n      - commit\n"
    )


def _tile(rng: random.Random) -> str:
    """A tile through shared memory, straight or turned, perhaps over the edges."""
    dtype, rows, columns = rng.choice(list(BYTES)), rng.choice([5, 8, 16, 31, 32]), rng.choice([6, 8, 16, 32, 64])
    m, n = rng.choice([rows, 2 * rows, 2 * rows - 1]), rng.choice([columns, 2 * columns, 3 * columns - 2])
    turned, layout = rng.random() < 0.5, rng.choice(["row", "auto", "auto", f"S[({rows},{columns}):({columns + 1},1)]"])
    row, column = f"by*{rows} : +{rows}", f"bx*{columns} : +{columns}"
    to, shape = (f"{column}, {row}", f"{n}, {m}") if turned else (f"{row}, {column}", f"{m}, {n}")
    return (
        f"threads: {rng.choice([32, 64, 96, 128, 256])}\n"
        f"grid: {{bx: {-(-n // columns)}, by: {-(-m // rows)}}}\nbuffers:\n"
        + _tiled(dtype, f"{m}, {n}", shape, f"{rows}, {columns}", layout, turned * "1, 0")
        + f'ops:\n  - copy: {{src: "X[{row}, {column}]", dst: t, edge: clip}}\n  - sync: cta\n'
        f'  - copy: {{src: {"tT" if turned else "t"}, dst: "Y[{to}]", edge: clip}}\n'
    )


def _chain(rng: random.Random) -> str:
    """Shared memory, registers of warps, shared memory again, each with its own order of the elements."""
    dtype, each = rng.choice(["uint8", "float16", "float32", "float64"]), rng.choice([2, 3, 4, 8, 12])
    warps = rng.choice([1, 2, 4])
    layouts = [f"S[(32,{each}):({each},1)]", f"S[(32,{each}):(1,32)]", f"S[(32,{each}):({each + 1},1)]"]
    owners = [f"S[(32,{each}):(1@laneid,1)]"] + (
        [f"S[(16,2,{each // 2},2):(2@laneid,{each // 2},1,1@laneid)]"] if each % 2 == 0 else []
    )
    tiles = [
        layout.replace("S[(32", f"S[({warps},32").replace(":(", ":(" + str(32 * (each + 1)) + ",")
        for layout in rng.choices(layouts, k=2)
    ]
    return (
        f"threads: {32 * warps}\nbuffers:\n"
        + _buffer("X", "global", dtype, f"{warps}, 32, {each}")
        + _buffer("Y", "global", dtype, f"{warps}, {each}, 32")
        + _buffer("t", "shared", dtype, f"{warps}, 32, {each}", f'layout: "{tiles[0]}"')
        + _buffer("u", "shared", dtype, f"{warps}, 32, {each}", f'layout: "{tiles[1]}"')
        + _buffer("q", "register", dtype, f"32, {each}", f'layout: "{rng.choice(owners)}"')
        + "  uT: {view: u, axes: [0, 2, 1]}\n"
        "ops:\n  - copy: {src: X, dst: t}\n  - sync: cta\n"
        '  - copy: {scope: warp, src: "t[warpid]", dst: q}\n  - copy: {scope: warp, src: q, dst: "u[warpid]"}\n'
        "  - sync: cta\n  - copy: {src: uT, dst: Y}\n"
    )


def _cast(rng: random.Random) -> str:
    """A thread's run of elements, converted."""
    pairs = ["int64 int32", "int64 int16", "int64 int8", "uint64 uint8", "int32 int8", "int32 int64", "float32 float16",
             "int64 float32", "float64 float32"]  # fmt: skip
    src, dst = rng.choice(pairs).split()
    each, rows, warps = rng.choice([1, 2, 3, 4, 6, 8, 16]), rng.choice([1, 3, 5]), rng.choice([1, 2, 4])
    at = f"bx, tx*{each} : +{each}"
    return (
        f"threads: {32 * warps}\ngrid: {{bx: {rows}}}\nbuffers:\n"
        + _buffer("X", "global", src, f"{rows}, {32 * warps * each}")
        + _buffer("Y", "global", dst, f"{rows}, {32 * warps * each}")
        + _buffer("q", "register", src, str(each))
        + _buffer("h", "register", dst, str(each))
        + f'ops:\n  - copy: {{scope: thread, src: "X[{at}]", dst: q}}\n  - cast: {{scope: thread, src: q, dst: h}}\n'
        f'  - copy: {{scope: thread, src: h, dst: "Y[{at}]"}}\n'
    )


def _when(rng: random.Random) -> str:
    """Some warps, or trips, store what all have loaded, or load and store it."""
    dtype, warps, trips = rng.choice(["float16", "float32", "float64"]), rng.choice([2, 4, 8]), rng.choice([1, 2, 3])
    condition = rng.choice(
        [f"warpid < {warps - 1}", "not warpid < 1", "bx != 1", "(warpid + c) % 2 == 0", "c * 2 + bx < 3"]
    )
    also = f', when: "{condition}"' if rng.random() < 0.5 else ""
    return (
        f"threads: {32 * warps}\ngrid: {{bx: 3}}\nbuffers:\n"
        + _buffer("X", "global", dtype, f"{trips}, 3, {warps}, 32")
        + _buffer("Y", "global", dtype, f"{trips}, 3, {warps}, 32", "partial: true")
        + _buffer("q", "register", dtype, "32", 'layout: "S[32:1@laneid]"')
        + f"ops:\n  - for: {{c: {trips}}}\n    do:\n"
        f'      - copy: {{scope: warp, src: "X[c, bx, warpid]", dst: q{also}}}\n'
        f'      - copy: {{scope: warp, src: q, dst: "Y[c, bx, warpid]", when: "{condition}"}}\n'
    )


def _permute(rng: random.Random) -> str:
    """Dimensions of a whole array in another order."""
    rank = rng.choice([2, 3, 4])
    shape = [rng.choice([2, 3, 5, 8, 17, 32, 33, 64]) for _ in range(rank)]
    axes, dtype = rng.sample(range(rank), rank), rng.choice(["uint8", "float16", "float32", "float64"])
    return (
        "buffers:\n"
        + _buffer("X", "global", dtype, ", ".join(map(str, shape)))
        + _buffer("Y", "global", dtype, ", ".join(str(shape[a]) for a in axes))
        + f"ops:\n  - permute: {{src: X, dst: Y, axes: {axes}}}\n"
    )


def _permute_layout(rng: random.Random) -> str:
    """A tile of a warp from one layout into another."""
    rows, columns = rng.choice([(4, 32), (8, 32), (32, 8), (16, 16), (32, 32)])
    dtype = rng.choice(["uint8", "float16", "float32", "float64"])
    layouts = [f"S[({rows},{columns}):({columns},1)]", f"S[({rows},{columns}):(1,{rows})]"]
    a, b = rng.sample(layouts, 2)
    return (
        "threads: 32\nbuffers:\n"
        + _buffer("X", "global", dtype, f"{rows}, {columns}")
        + _buffer("Y", "global", dtype, f"{rows}, {columns}", f'layout: "{b}"')
        + _buffer("A", "shared", dtype, f"{rows}, {columns}", f'layout: "{a}"')
        + _buffer("B", "shared", dtype, f"{rows}, {columns}", f'layout: "{b}"')
        + "ops:\n  - copy: {scope: warp, src: X, dst: A}\n  - sync: warp\n"
        "  - permute_layout: {scope: warp, src: A, dst: B}\n  - copy: {scope: warp, src: B, dst: Y}\n"
    )
