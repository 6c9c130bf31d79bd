"""Kernels that compute with elements of several widths: the same spec for the same seed, in any version of tilegen.

    python benchmarks/mixed_widths.py

prints sectors over their floor of the seeds that tests fix, the worst first. The kernels are of elementwise, cast and
reduce, from and to global memory: arrays are stretched, registers between two ops have 'layout: auto', pairs lie side
by side. Those of ``draw_turned`` have arrays that run along different dimensions, or several operands of one array.
"""

from __future__ import annotations

import random
from typing import Any

BYTES = {"int8": 1, "uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "float64": 8}
FLOATS = ("float16", "bfloat16", "float32", "float64")
SEEDS = range(30)


def draw_mixed(seed: int) -> dict[str, Any]:
    """The spec of a seed.

    >>> draw_mixed(0)["kernel"], draw_mixed(0) == draw_mixed(0)
    ('m0_scaled', True)
    """
    rng = random.Random(seed)
    kind = (_scaled, _cast, _sum_of_two, _normalised, _row_sums, _interleaved)[seed % 6]
    threads, rows = rng.choice([64, 128, 256]), rng.choice([1, 2, 4, 8, 16])
    columns = rng.choice([128, 256, 384, 512, 1024, 64 * rng.randint(2, 12)])
    while rows * columns > 64 * threads:
        rows //= 2
    spec = {"kernel": f"m{seed}{kind.__name__}", "arch": "sm_90", "threads": threads, "grid": {"bx": 4}}
    buffers, ops = kind(rng, rows, columns)
    return {**spec, "buffers": buffers, "ops": ops}


Drawn = tuple[dict[str, Any], list[dict[str, Any]]]


def _global(dtype: str, *shape: int) -> dict[str, Any]:
    return {"scope": "global", "dtype": dtype, "shape": list(shape)}


def _registers(dtype: str, *shape: int) -> dict[str, Any]:
    return {"scope": "register", "dtype": dtype, "shape": list(shape), "layout": "auto"}


def _rows(rows: int) -> str:
    return f"bx*{rows} : +{rows}"


def _scaled(rng: random.Random, rows: int, columns: int) -> Drawn:
    """Whole numbers times a scale of the row or of the column, and a zero point: a dequantisation."""
    q, s, y = rng.choice(["int8", "uint8", "int32"]), rng.choice(FLOATS), rng.choice(FLOATS)
    by_row = rng.random() < 0.5
    scales = [4 * rows, 1] if by_row else [1, columns]
    buffers = {"Q": _global(q, 4 * rows, columns), "S": _global(s, *scales), "Z": _global(q, 1, columns)}
    buffers["Y"] = _global(y, 4 * rows, columns)
    scale = f"S[{_rows(rows)}]" if by_row else "S"
    given = {"q": f"Q[{_rows(rows)}]", "z": "Z", "s": scale}
    return buffers, [{"elementwise": {"dst": f"Y[{_rows(rows)}]", "expr": "(q - z) * s", "with": given}}]


def _cast(rng: random.Random, rows: int, columns: int) -> Drawn:
    """One dtype as another, at times of a part of each row."""
    x, y = rng.sample(list(BYTES), 2)
    whole = columns + rng.choice([0, 0, 32, 64])
    buffers = {"X": _global(x, 4 * rows, whole), "Y": _global(y, 4 * rows, columns)}
    src = f"X[{_rows(rows)}, {whole - columns} : +{columns}]"
    return buffers, [{"cast": {"src": src, "dst": f"Y[{_rows(rows)}]"}}]


def _sum_of_two(rng: random.Random, rows: int, columns: int) -> Drawn:
    """The sum of two arrays and of a bias for each column, the three of dtypes of their own."""
    a, b, c, y = (rng.choice(FLOATS) for _ in range(4))
    buffers = {"A": _global(a, 4 * rows, columns), "B": _global(b, 4 * rows, columns), "C": _global(c, columns)}
    buffers["Y"] = _global(y, 4 * rows, columns)
    given = {"a": f"A[{_rows(rows)}]", "b": f"B[{_rows(rows)}]", "c": "C"}
    return buffers, [{"elementwise": {"dst": f"Y[{_rows(rows)}]", "expr": "a + b + c", "with": given}}]


def _normalised(rng: random.Random, rows: int, columns: int) -> Drawn:
    """A row over the root of its mean square, in registers between two arrays, times a weight for each column."""
    x, w, y = (rng.choice(FLOATS) for _ in range(3))
    buffers = {"X": _global(x, 4 * rows, columns), "W": _global(w, columns), "Y": _global(y, 4 * rows, columns)}
    buffers |= {"x": _registers("float32", rows, columns), "q": _registers("float32", rows, 1)}
    ops: list[dict[str, Any]] = [
        {"cast": {"src": f"X[{_rows(rows)}]", "dst": "x"}}
        if x != "float32"
        else {"copy": {"src": f"X[{_rows(rows)}]", "dst": "x"}},
        {"reduce": {"expr": "x * x", "dst": "q", "axis": 1, "op": "sum"}},
        {
            "elementwise": {
                "dst": f"Y[{_rows(rows)}]",
                "expr": f"x * rsqrt(q / {columns}.0 + 0.00001) * w",
                "with": {"w": "W"},
            }
        },
    ]
    return buffers, ops


def _row_sums(rng: random.Random, rows: int, columns: int) -> Drawn:
    """The sums of products of two arrays along their rows."""
    a, b = rng.choice(FLOATS), rng.choice(list(BYTES))
    buffers = {
        "A": _global(a, 4 * rows, columns),
        "B": _global(b, 4 * rows, columns),
        "Y": _global("float32", 4 * rows, 1),
    }
    buffers["q"] = _registers("float32", rows, 1)
    given = {"a": f"A[{_rows(rows)}]", "b": f"B[{_rows(rows)}]"}
    ops = [
        {"reduce": {"expr": "a * b", "dst": "q", "axis": 1, "op": "sum", "with": given}},
        {"copy": {"src": "q", "dst": f"Y[{_rows(rows)}]"}},
    ]
    return buffers, ops


def _interleaved(rng: random.Random, rows: int, columns: int) -> Drawn:
    """Pairs that lie side by side, turned by angles that all rows share."""
    x, c = rng.choice(("float16", "bfloat16", "float32")), rng.choice(("float32", "float16"))
    pairs = columns // 2
    buffers: dict[str, Any] = {
        "X": _global(x, 4 * rows, columns),
        "C": _global(c, 1, pairs),
        "Y": _global(x, 4 * rows, columns),
    }
    buffers |= {"x": {"view": "X", "shape": [4 * rows, pairs, 2]}, "y": {"view": "Y", "shape": [4 * rows, pairs, 2]}}
    given = {"a": f"x[{_rows(rows)}, :, 0]", "b": f"x[{_rows(rows)}, :, 1]", "c": "C"}
    return buffers, [
        {"elementwise": {"dst": f"y[{_rows(rows)}, :, 0]", "expr": "a*c - b", "with": given}},
        {"elementwise": {"dst": f"y[{_rows(rows)}, :, 1]", "expr": "b*c + a", "with": given}},
    ]


def draw_turned(seed: int) -> dict[str, Any]:
    """The spec of a seed: one op between arrays by rows and by columns, on pairs, or on pixels and planes.

    >>> draw_turned(0)["kernel"], draw_turned(0) == draw_turned(0)
    ('t0_turned', True)
    """
    rng = random.Random(seed)
    kind = (_turned, _pairs, _turned_sum, _pixels)[seed % 4]
    buffers, op = kind(rng)
    spec = {"kernel": f"t{seed}{kind.__name__}", "arch": "sm_90", "threads": rng.choice([64, 128, 256])}
    return {**spec, "grid": {"bx": 2, "by": 3}, "buffers": buffers, "ops": [op]}


Single = tuple[dict[str, Any], dict[str, Any]]


def _tile(rng: random.Random) -> tuple[int, int, str]:
    """Rows and columns of a CTA, and its region of an array of three by two of them."""
    rows, columns = rng.choice([32, 64, 128]), rng.choice([32, 64])
    return rows, columns, f"[by*{rows} : +{rows}, bx*{columns} : +{columns}]"


def _turned(rng: random.Random) -> Single:
    """One array by rows as one by columns, cast or computed with."""
    rows, columns, at = _tile(rng)
    x, y = rng.choice(list(BYTES)), rng.choice(list(BYTES))
    buffers = {"X": _global(x, 2 * columns, 3 * rows), "Xt": {"view": "X", "axes": [1, 0]}}
    buffers["Y"] = _global(y, 3 * rows, 2 * columns)
    if x != y and rng.random() < 0.5:
        return buffers, {"cast": {"src": f"Xt{at}", "dst": f"Y{at}"}}
    return buffers, {"elementwise": {"dst": f"Y{at}", "expr": "x + 1", "with": {"x": f"Xt{at}"}}}


def _turned_sum(rng: random.Random) -> Single:
    """The sum of two arrays, one or both of which run along the other dimension, and of a bias for each column."""
    rows, columns, at = _tile(rng)
    a, b, c, y = (rng.choice(FLOATS) for _ in range(4))
    buffers = {"A": _global(a, 2 * columns, 3 * rows), "At": {"view": "A", "axes": [1, 0]}}
    buffers["B"] = _global(b, 3 * rows, 2 * columns)
    if rng.random() < 0.3:
        buffers |= {"B": _global(b, 2 * columns, 3 * rows), "Bt": {"view": "B", "axes": [1, 0]}}
    buffers |= {"C": _global(c, 2 * columns), "Y": _global(y, 3 * rows, 2 * columns)}
    other = "Bt" if "Bt" in buffers else "B"
    given = {"a": f"At{at}", "b": f"{other}{at}", "c": f"C[bx*{columns} : +{columns}]"}
    return buffers, {"elementwise": {"dst": f"Y{at}", "expr": "a + b + c", "with": given}}


def _pairs(rng: random.Random) -> Single:
    """Both halves of pairs that lie side by side, turned by angles that rows share or have for themselves; at times in
    the same array.
    """
    x, c = rng.choice(("float16", "bfloat16", "float32")), rng.choice(("float32", "float16"))
    heads, pairs = rng.choice([1, 2, 4, 8]), rng.choice([32, 64])
    shape = [3, 2 * heads, pairs, 2]
    y = "X" if rng.random() < 0.3 else "Y"
    buffers = {name: _global(x, *shape) for name in dict.fromkeys(("X", y))}
    buffers |= {"C": _global(c, 3, 1, pairs, 2)}
    at = f"by : +1, bx*{heads} : +{heads}, :"
    given = {"a": f"X[{at}, 0]", "b": f"X[{at}, 1]", "c": "C[by : +1, :, :, 0]", "s": "C[by : +1, :, :, 1]"}
    names = rng.sample(["u", "v"], 2)
    exprs = {"u": "u = a*c - b*s", "v": "v = a*s + b*c"}
    dst = {name: f"{y}[{at}, {'uv'.index(name)}]" for name in names}
    expr = "; ".join(exprs[name] for name in rng.sample(names, 2))
    return buffers, {"elementwise": {"dst": dst, "expr": expr, "with": given}}


def _pixels(rng: random.Random) -> Single:
    """Pixels of a few channels as planes, or planes as pixels."""
    x, y, channels = (
        rng.choice(("uint8", "float16")),
        rng.choice(("uint8", "float16", "float32")),
        rng.choice([2, 3, 4]),
    )
    rows, columns = rng.choice([1, 2, 4]), rng.choice([64, 128])
    pixels, planes = [3 * rows, 2 * columns, channels], [channels, 3 * rows, 2 * columns]
    region = f"[by*{rows} : +{rows}, bx*{columns} : +{columns}]"
    if rng.random() < 0.5:
        buffers = {"X": _global(x, *pixels), "Y": _global(y, *planes), "y": {"view": "Y", "axes": [1, 2, 0]}}
        return buffers, {"elementwise": {"dst": f"y{region}", "expr": "x + 1", "with": {"x": f"X{region}"}}}
    buffers = {"X": _global(x, *planes), "x": {"view": "X", "axes": [1, 2, 0]}, "Y": _global(y, *pixels)}
    return buffers, {"elementwise": {"dst": f"Y{region}", "expr": "v + 1", "with": {"v": f"x{region}"}}}


def count_sectors(spec: dict[str, Any]) -> tuple[int, int]:
    """Sectors of global memory that a CTA asks for, and those that hold what each access of it touches.

    No partition takes fewer than these: an access for each array and op is the least.
    """
    import tilegen

    found = [a for op in tilegen.explain(spec)["ops"] for a in op["accesses"] if a["space"] == "global"]
    return sum(a["sectors"] for a in found), sum(a["sectors_floor"] for a in found)


def count_traffic(spec: dict[str, Any]) -> tuple[int, int]:
    """Sectors of global memory that a CTA asks for, and those that hold what its ops touch of each array.

    The same sector counts once for several operands of one array, so that no code takes fewer.
    """
    import tilegen

    found = [t for op in tilegen.explain(spec)["ops"] for t in op["traffic"]]
    return sum(t["sectors"] for t in found), sum(t["sectors_floor"] for t in found)


def list_drawn() -> list[tuple[dict[str, Any], float]]:
    """Every kernel of the seeds that tests fix, and its sectors over their floor."""
    mixed, turned = map(draw_mixed, SEEDS), map(draw_turned, SEEDS)
    counted = [(spec, count_sectors(spec)) for spec in mixed] + [(spec, count_traffic(spec)) for spec in turned]
    return [(spec, sectors / floor) for spec, (sectors, floor) in counted]


def main() -> None:
    """Sectors over their floor of each seed, the worst first."""
    for ratio, kernel in sorted(((ratio, spec["kernel"]) for spec, ratio in list_drawn()), reverse=True):
        print(f"{kernel:18} {ratio:.3f} of its sectors' floor")


if __name__ == "__main__":
    main()
