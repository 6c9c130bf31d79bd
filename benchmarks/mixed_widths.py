"""Kernels that compute with elements of several widths: the same spec for the same seed, in any version of tilegen.

    python benchmarks/mixed_widths.py

prints sectors over their floor of the seeds that tests fix, the worst first. The kernels are of elementwise, cast and
reduce, from and to global memory: arrays are stretched, registers between two ops have 'layout: auto', pairs lie side
by side.
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


def count_sectors(spec: dict[str, Any]) -> tuple[int, int]:
    """Sectors of global memory that a CTA asks for, and those that hold what each access of it touches.

    No partition takes fewer than these: an access for each array and op is the least.
    """
    import tilegen

    found = [a for op in tilegen.explain(spec)["ops"] for a in op["accesses"] if a["space"] == "global"]
    return sum(a["sectors"] for a in found), sum(a["sectors_floor"] for a in found)


def main() -> None:
    """Sectors over their floor of each seed, the worst first."""
    found = []
    for seed in SEEDS:
        spec = draw_mixed(seed)
        sectors, floor = count_sectors(spec)
        found.append((sectors / floor, sectors, spec["kernel"]))
    for ratio, sectors, kernel in sorted(found, reverse=True):
        print(f"{kernel:18} {sectors:8} sectors, {ratio:.3f} of their floor")


if __name__ == "__main__":
    main()
