"""Tiled products as the page shows them: each valid R with its layout of C, its derivation and what it costs."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

from tilegen.cost.mma_runs import RunPrice, price_runs
from tilegen.layouts import MmaTiling, derive_mma, lay_out_mma, tile_mma

_OWN = (
    (
        "fma",
        "fma.f32 on 16 x 16 threads, 128 x 128 x 8",
        ("fma.f32", "(16,16,1):(16,1,0)", ("R=4", "R=4", None), (128, 128, 8)),
    ),
    (
        "fma_lanes",
        "the same, lanes in squares",
        ("fma.f32", "((2,8),(2,8)):((1,32),(2,4))", ("R=4", "R=4"), (128, 128, 8)),
    ),
    ("mma", "mma.m16n8k16 on 2 x 2 warps, 128 x 128 x 32", ("mma.m16n8k16", (2, 2, 1), (32, 32, 16), (128, 128, 32))),
)


@cache
def own_tilings() -> tuple[dict[str, Any], ...]:
    """The tilings that every page offers, as ``tiling_data`` gives them."""
    return tuple(tiling_data(key, name, tile_mma(*given)) for key, name, given in _OWN)


def tiling_data(key: str, name: str, tiling: MmaTiling) -> dict[str, Any]:
    """A tiling and every valid R of it as JSON data: ``layout`` of C over ``tile``, ``period``, ``modes``, prices.

    ``given`` is the R whose layout of C is the tiling's own, None where no R gives it.
    """
    prices = price_runs(tiling)
    own = lay_out_mma(tiling, "C")
    same = [p.run for p in prices if lay_out_mma(p.tiling, "C") == own]
    return {"key": key, "name": name, "given": same[0] if same else None, "runs": [_run_data(p, own) for p in prices]}


def _run_data(price: RunPrice, own: Any) -> dict[str, Any]:
    modes = derive_mma(price.tiling).modes
    layout = lay_out_mma(price.tiling, "C")
    kept = ("name", "atom", "atoms", "native", "period", "repetitions", "tile", "run")
    return {
        "run": price.run, "is_given": layout == own, "layout": str(layout), "tile": [m.covered for m in modes[:2]],
        "period": [m.period for m in modes[:2]], "columns": price.columns, "shape": price.shape,
        "modes": [{**{name: getattr(m, name) for name in kept}, "shape": m.shape} for m in modes],
        "store": asdict(price.store), "load_a": asdict(price.load_a) if price.load_a else None,
        "load_b": asdict(price.load_b) if price.load_b else None,
    }  # fmt: skip
