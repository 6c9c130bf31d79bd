"""The products that are measured: each a spec of the op ``gemm``, made on the fly.

    python benchmarks/gemm_cases.py           # list them
    python benchmarks/gemm_cases.py --draw    # draw the odd ones again and compare them with odd_products.json

The odd ones were drawn by seed 1 and committed before anything was tuned for them; no kernel may be made for them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

ODD_FILE = Path(__file__).with_name("odd_products.json")
ODD_COUNT = 20
MOST_FLOPS, MOST_ELEMENTS = 2e12, 1 << 28  # of an odd one, and of each of its arrays
ORDERS = ("row", "col")


@dataclass(frozen=True)
class Product:
    """``batch`` products of M x K by K x N (0: of matrices without a batch): types, storage orders, and what is pinned.

    ``orders``: how a, b and d lie, each ``row`` or ``col``; ``pinned``: fields of the op, as (field, value).
    """

    m: int
    n: int
    k: int
    dtype: str = "bfloat16"
    result: str = ""  # its type, "" for that of the factors
    orders: tuple[str, str, str] = ("row", "col", "row")
    batch: int = 0
    pinned: tuple[tuple[str, Any], ...] = ()
    group: str = ""

    @property
    def name(self) -> str:
        """As tables call it.

        >>> Product(8, 16, 32).name, Product(8, 16, 32, orders=("col", "row", "row"), batch=3).name
        ('8x16x32 bfloat16', '3x8x16x32 bfloat16 col row row')
        """
        sides = [self.batch, self.m, self.n, self.k] if self.batch else [self.m, self.n, self.k]
        usual = ("row", "row", "row") if self.dtype == "float32" and not self.pinned else ("row", "col", "row")
        orders = self.orders if self.orders != usual else ()
        return " ".join(["x".join(map(str, sides)), self.dtype, *orders, *(str(value) for _, value in self.pinned)])

    @property
    def result_type(self) -> str:
        return self.result or self.dtype

    @property
    def flops(self) -> float:
        """Operations: a multiplication and an addition each count."""
        return 2.0 * max(1, self.batch) * self.m * self.n * self.k

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of A, B and D."""
        front = (self.batch,) if self.batch else ()
        return {"A": (*front, self.m, self.k), "B": (*front, self.k, self.n), "D": (*front, self.m, self.n)}

    def spec(self, pins: dict[str, Any] | None = None) -> dict[str, Any]:
        """The spec, with more pins."""
        buffers: dict[str, Any] = {}
        for (name, shape), order in zip(self.shapes.items(), self.orders, strict=True):
            dtype = self.result_type if name == "D" else self.dtype
            buffers[name] = {"scope": "global", "dtype": dtype, "shape": list(shape)}
            if order == "col":
                buffers[name]["layout"] = _by_columns(shape)
        gemm = {"a": "A", "b": "B", "d": "D"} | dict(self.pinned) | (pins or {})
        return {"kernel": "product", "arch": "sm_90a", "buffers": buffers, "ops": [{"gemm": gemm}]}


def _by_columns(shape: tuple[int, ...]) -> str:
    """The layout of matrices that lie column by column, one after another."""
    if len(shape) == 2:
        return "col"
    batch, rows, columns = shape
    return f"S[({batch}, {rows}, {columns}):({rows * columns}, 1, {rows})]"


# ---------------------------------------------------------------- how the odd ones were drawn
_KINDS = ("any", "skinny", "short", "batched")
_TYPES = ("bfloat16", "float16", "bfloat16", "float32", "bfloat16")


def draw_odd(seed: int = 1, count: int = ODD_COUNT) -> list[Product]:
    """Sizes that tiles do not divide: of any shape, with few rows or columns, with K = 17, and batched, in turn.

    Only ``Random.random`` is used: its sequence is the same in every version of Python.
    """
    rng = Random(seed)
    drawn: list[Product] = []

    def draw(least: int, most: int) -> int:
        return round(least * (most / least) ** rng.random())

    while len(drawn) < count:
        kind, dtype = _KINDS[len(drawn) % len(_KINDS)], _TYPES[len(drawn) // len(_KINDS) % len(_TYPES)]
        m, n, k = draw(100, 6000), draw(100, 6000), draw(100, 6000)
        if kind == "skinny":
            m, n = (draw(1, 40), n) if rng.random() < 0.5 else (m, draw(1, 40))
        if kind == "short":
            k = 17
        batch = draw(2, 24) if kind == "batched" else 0
        if rng.random() < 0.5:  # rows that TMA can read
            n, k = (-(-x // 8) * 8 if x != 17 else x for x in (n, k))
        orders = tuple(ORDERS[rng.random() < 0.5] for _ in range(2))
        case = Product(m, n, k, dtype, "", (*orders, "row"), batch, (), "odd")
        elements = max(1, batch) * max(m * k, k * n, m * n)
        if case.flops <= MOST_FLOPS and elements <= MOST_ELEMENTS and case not in drawn:
            drawn.append(case)
    return drawn


def odd_text(products: list[Product]) -> str:
    """The text of odd_products.json, a product on each line."""
    kept = ("m", "n", "k", "dtype", "orders", "batch")
    rows = [json.dumps({name: value for name, value in asdict(p).items() if name in kept}) for p in products]
    return "[\n" + ",\n".join(rows) + "\n]\n"


def odd_products() -> list[Product]:
    """Those of the file."""
    rows = json.loads(ODD_FILE.read_text(encoding="utf-8"))
    return [Product(**row | {"orders": tuple(row["orders"]), "group": "odd"}) for row in rows]


# ---------------------------------------------------------------- all of them
_FEW = [Product(m, 7168, 16384, group="few rows") for m in (1, 16, 64, 128)]
_STORED = [
    Product(4096, 4096, 4096, dtype, orders=(a, b, "row"), group="orders")
    for dtype in ("bfloat16", "float16") for a, b in (("row", "row"), ("col", "row"), ("col", "col"))
]  # fmt: skip
PRODUCTS = (
    *(Product(n, n, n, dtype, group="squares") for dtype in ("bfloat16", "float16") for n in (8192, 4096, 2048, 1024)),
    *(Product(n, n, n, pinned=(("overlap", "previous"),), group="dependent") for n in (8192, 4096, 2048, 1024)),
    *_FEW,
    *_STORED,
    Product(8192, 8192, 8192, "float8_e4m3fn", "bfloat16", group="types"),
    Product(8192, 8192, 8192, "int8", "int32", group="types"),
    Product(4096, 4096, 4096, "float32", pinned=(("math", "tf32"),), group="types"),
    *(Product(n, n, n, "float32", orders=("row", "row", "row"), group="types") for n in (8192, 4096)),
    Product(4096, 4096, 4096, "float64", group="types"),
    *(Product(n, n, n, pinned=(("variant", "mma_sync"), *more), group="mma_sync")
      for n in (8192, 4096) for more in ((), (("load", "cp_async"),))),
)  # fmt: skip


def all_products() -> list[Product]:
    return [*PRODUCTS, *odd_products()]


def main() -> int:
    if sys.argv[1:] == ["--draw"]:
        is_same = odd_text(draw_odd()) == ODD_FILE.read_text(encoding="utf-8")
        print(f"{ODD_FILE.name} is {'what seed 1 draws' if is_same else 'NOT what seed 1 draws'}")
        return 0 if is_same else 1
    for product in all_products():
        print(f"{product.group:10} {product.name:60} {product.flops / 1e9:10.1f} GFLOP")
    return 0


if __name__ == "__main__":
    sys.exit(main())
