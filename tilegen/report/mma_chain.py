"""How a tile follows from an atom, as text: the derivation of each mode, then every R with what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from tilegen.cost.mma_runs import AccessPrice, RunPrice, price_runs
from tilegen.decisions import count_words, draw_table
from tilegen.layouts import MmaChain, MmaTiling, derive_mma, lay_out_mma

_WORKER = {"simt": "thread", "mma_sync": "warp", "quad_pair": "quad pair", "wgmma": "warpgroup"}
_MOST_RUNS = 4  # of columns that a line lists
_HEAD = ("mode", "atom", "atoms F", "native", "permutation", "period", "repetitions", "per thread", "R", "tile")
_PRICES = ("R", "thread 0's columns", "shape", "store of C", "each", "sectors", "load of A", "load of B", "wavefronts")
_PRICED = (
    "every R that divides, along M and N alike; sectors: of all stores of C, each: of one warp's;",
    "wavefronts: of one warp's loads of a step of A and B; of: what the same accesses take at least",
)


def mma_data(tiling: MmaTiling) -> dict[str, Any]:
    """The derivation and the prices of every R as JSON data.

    >>> from tilegen.layouts import tile_mma
    >>> mma_data(tile_mma("fma.f32", (16, 16, 1), ("R=4", "R=4"), (128, 128, 8)))["modes"][0]["permutation"]
    '(16,4):(4,1)'
    """
    chain = derive_mma(tiling)
    atom = {f.name: getattr(tiling.atom, f.name) for f in fields(tiling.atom) if f.name != "places"}
    modes = [
        {**asdict(mode), "permutation": _spell_permutation(mode.permutation), "shape": mode.shape}
        for mode in chain.modes
    ]  # fmt: skip
    runs = [
        {
            "run": p.run, "columns": p.columns, "shape": p.shape, "store": asdict(p.store),
            "load_a": asdict(p.load_a) if p.load_a else None, "load_b": asdict(p.load_b) if p.load_b else None,
        }
        for p in price_runs(tiling)
    ]  # fmt: skip
    return {
        "atom": atom, "atoms": str(tiling.atoms), "tile": tiling.tile, "threads": chain.threads, "modes": modes,
        "steps": chain.steps, "products_per_step": chain.products_per_step, "products": chain.products,
        "accumulators": chain.accumulators, "registers": dict(zip("ABC", chain.registers, strict=True)),
        "outside": dict(zip("ABC", chain.outside, strict=True)), "runs": runs,
    }  # fmt: skip


def _spell_permutation(permutation: Any) -> Any:
    return permutation if permutation is None or isinstance(permutation, int) else str(permutation)


def describe_mma(tiling: MmaTiling) -> list[str]:
    """The lines of a tiling's derivation and of its valid R, as ``tilegen layout`` shows them.

    >>> from tilegen.layouts import tile_mma
    >>> print("\\n".join(describe_mma(tile_mma("mma.m16n8k16", (2, 2, 1), None, (32, 32, 16)))[:7]))
    mma.m16n8k16.f32.f16.f16.f32: 16 x 8 x 16 on 32 threads; 4 atoms on 128 threads
    <BLANKLINE>
    mode  atom  atoms F  native  permutation  period  repetitions  per thread  R  tile
    M       16        2      32         none      32            1       1 x 1  1    32
    N        8        2      16         none      16            2       1 x 2  1    32
    K       16        1      16         none      16            1       1 x 1  1    16
    <BLANKLINE>
    """
    chain = derive_mma(tiling)
    atom = tiling.atom
    m, n, k = atom.shape
    threads = count_words(atom.threads, "thread", "threads")
    atoms = count_words(tiling.threads // atom.threads, "atom", "atoms")
    head = f"{atom.name}: {m} x {n} x {k} on {threads}; {atoms} on {count_words(tiling.threads, 'thread', 'threads')}"
    return [head, "", *_draw_modes(chain), "", *_describe_products(chain), *_draw_prices(tiling)]


def _draw_modes(chain: MmaChain) -> list[str]:
    rows = [
        (
            m.name, m.atom, m.atoms, m.native, "none" if m.permutation is None else m.permutation, m.period,
            m.repetitions, f"{m.shape[0]} x {m.shape[1]}", m.run,
            m.tile if m.tile == m.covered else f"{m.tile} of {m.covered}",
        )
        for m in chain.modes
    ]  # fmt: skip
    return _draw(_HEAD, rows)


def _draw(head: Sequence[str], rows: Sequence[Sequence[Any]], left: int = 1) -> list[str]:
    return draw_table(head, [tuple(map(str, row)) for row in rows], left)


def _describe_products(chain: MmaChain) -> list[str]:
    m, n, k = (mode.rounds for mode in chain.modes)
    worker = _WORKER[chain.tiling.atom.kind]
    steps = f"{m} x {n} = {chain.products_per_step} products a step along K, {count_words(k, 'step', 'steps')}"
    lines = [f"each {worker}: {steps}: {chain.products}"]
    a, b, c = chain.registers
    held = [f"{name} of a step {words}" for name, words in (("A", a), ("B", b)) if words is not None]
    counted = count_words(chain.accumulators, "accumulator", "accumulators")
    lines.append(f"each thread: {counted}; 32-bit registers: {', '.join([f'C {c}', *held])}")
    if any(chain.outside):
        outside = ", ".join(f"{n} of {name}" for name, n in zip("ABC", chain.outside, strict=True) if n)
        lines.append(f"elements that threads hold past the end of the tile: {outside}")
    return lines


# ---------------------------------------------------------------- every R
def _draw_prices(tiling: MmaTiling) -> list[str]:
    prices = price_runs(tiling)
    if not prices:
        return []
    is_given = [lay_out_mma(p.tiling, "C") == lay_out_mma(tiling, "C") for p in prices]
    table = _draw(_PRICES, [_price_row(*pair) for pair in zip(prices, is_given, strict=True)], 2)
    note = ["(*: who owns what in this tiling)"] if any(is_given) else []
    return ["", *_PRICED, *table, *note]


def _price_row(price: RunPrice, is_given: bool) -> tuple[str, ...]:
    loads = [p for p in (price.load_a, price.load_b) if p is not None]
    wavefronts = sum(p.total for p in loads) / loads[0].warps if loads else 0
    return (
        f"{price.run}{'*' if is_given else ''}", _spell_columns(price.columns), f"{price.shape[0]} x {price.shape[1]}",
        _spell_accesses(price.store), _spell_each(price.store), f"{price.store.total} of {price.store.floor}",
        *(_spell_accesses(p) if p else "shared" for p in (price.load_a, price.load_b)),
        f"{wavefronts:g} of {sum(p.floor for p in loads) / loads[0].warps:g}" if loads else "",
    )  # fmt: skip


def _spell_columns(columns: Sequence[tuple[int, int]]) -> str:
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in columns]
    return " ".join(texts if len(texts) <= _MOST_RUNS else [*texts[:3], "...", texts[-1]])


def _spell_accesses(price: AccessPrice) -> str:
    return f"{price.per_thread} x {price.width_bytes} B"


def _spell_each(price: AccessPrice) -> str:
    least, most = price.each
    return str(least) if least == most else f"{least} to {most}"
