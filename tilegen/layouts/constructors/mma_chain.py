"""How a tile follows from an atom: native coverage, permutation, period, repetitions, products and registers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from tilegen.layouts import cute
from tilegen.layouts.constructors.arguments import element_bits
from tilegen.layouts.constructors.fragments import REGISTER_BITS
from tilegen.layouts.constructors.mma_atoms import OPERANDS, is_held
from tilegen.layouts.constructors.mma_tiling import MmaMode, MmaTiling, group_runs, modes_of_tiling
from tilegen.layouts.constructors.tiled_mma import count_outside, count_registers
from tilegen.layouts.cute import CuteLayout


@dataclass(frozen=True)
class ModeChain:
    """One mode of a derivation, in elements where nothing else is said.

    ``atoms`` F copies of an ``atom`` cover ``native`` = F * atom. The ``permutation`` rearranges a ``period``, which is
    ``expansion`` times the native coverage; ``repetitions`` periods cover the ``tile`` (``covered`` where they do not
    divide it). A thread has ``rounds`` atoms, ``shape`` = (expansion, repetitions) of them; ``run`` is how many of its
    first ones are neighbours: R.
    """

    name: str
    atom: int
    atoms: int
    native: int
    permutation: int | CuteLayout | None
    period: int
    expansion: int
    repetitions: int
    rounds: int
    run: int
    tile: int
    covered: int

    @property
    def shape(self) -> tuple[int, int]:
        """Atoms of one thread: in a period, and periods."""
        return self.expansion, self.repetitions


@dataclass(frozen=True)
class MmaChain:
    """A tiling and what follows from it.

    ``products`` are the atoms that one warp (simt: one thread, wgmma: one warpgroup) multiplies for a k-tile, in
    ``steps`` along K of ``products_per_step``. ``accumulators`` are elements of C in each thread; ``registers`` are
    32-bit ones of (A, B, C), of A and B for one step (None where no thread holds them); ``outside`` counts elements of
    (A, B, C) that threads hold past the end of the tile.
    """

    tiling: MmaTiling
    modes: tuple[ModeChain, ModeChain, ModeChain]
    threads: int
    steps: int
    products_per_step: int
    products: int
    accumulators: int
    registers: tuple[int | None, ...]
    outside: tuple[int, ...]


def derive_mma(tiling: MmaTiling) -> MmaChain:
    """What follows from a tiling.

    >>> from tilegen.layouts.constructors.mma_tiling import tile_mma
    >>> chain = derive_mma(tile_mma("mma.m16n8k16", (2, 2, 1), (32, 32, 16), (128, 128, 32)))
    >>> chain.modes[1].native, chain.modes[1].expansion, chain.modes[1].repetitions
    (16, 2, 4)
    >>> chain.products, chain.accumulators, chain.registers
    (64, 128, (16, 16, 128))
    """
    m, n, k = (_derive_mode(mode) for mode in modes_of_tiling(tiling))
    per_step = m.rounds * n.rounds
    held = [is_held(tiling.atom, operand) for operand in OPERANDS]
    step = replace(tiling, permutation=(*tiling.permutation[:2], None), tile=(*tiling.tile[:2], k.native))
    return MmaChain(
        tiling, (m, n, k), tiling.threads, k.rounds, per_step, per_step * k.rounds, count_registers(tiling, "C"),
        tuple(_count_words(step, o) if is_held else None for o, is_held in zip(OPERANDS, held, strict=True)),
        tuple(count_outside(tiling, o) if is_held else 0 for o, is_held in zip(OPERANDS, held, strict=True)),
    )  # fmt: skip


def _count_words(tiling: MmaTiling, operand: str) -> int:
    """32-bit registers of a thread."""
    bits = count_registers(tiling, operand) * element_bits(tiling.atom.dtype(operand))
    return -(-bits // REGISTER_BITS)


def _derive_mode(mode: MmaMode) -> ModeChain:
    starts = start_rounds(mode)
    run = next((i for i, x in enumerate(starts) if x != starts[0] + i * mode.atom), len(starts))
    return ModeChain(
        mode.name, mode.atom, cute.size(mode.atoms), mode.native, mode.permutation, mode.period,
        -(-mode.period // mode.native), mode.repetitions, mode.rounds, run, mode.tile, mode.covered,
    )  # fmt: skip


MOST_STARTS = 1 << 12


def start_rounds(mode: MmaMode) -> list[int]:
    """The first element of each round of the first atom along a mode, at most 4096 of them: pi(native * r).

    >>> from tilegen.layouts.constructors.mma_tiling import tile_mma
    >>> tiling = tile_mma("fma.f32", (16, 16, 1), ("R=4", "R=2"), (128, 128, 8))
    >>> start_rounds(modes_of_tiling(tiling)[0])
    [0, 1, 2, 3, 64, 65, 66, 67]
    """
    positions = [mode.native * r for r in range(min(mode.rounds, MOST_STARTS))]
    if not isinstance(mode.permutation, CuteLayout):
        return positions
    period = mode.period
    return [mode.permutation(y % period) + period * (y // period) for y in positions]


def list_runs(tiling: MmaTiling) -> list[int]:
    """Every R that divides: F * R elements divide the tile along M and along N.

    >>> from tilegen.layouts.constructors.mma_tiling import tile_mma
    >>> list_runs(tile_mma("fma.f32", (16, 16, 1), None, (128, 128, 8)))
    [1, 2, 4, 8]
    """
    modes = modes_of_tiling(tiling)[:2]
    if any(mode.tile % mode.native for mode in modes):
        return []
    most = gcd(*(mode.tile // mode.native for mode in modes))
    return [run for run in range(1, min(most, MOST_STARTS) + 1) if most % run == 0]


def with_run(tiling: MmaTiling, run: int) -> MmaTiling:
    """The tiling whose permutation of M and N is R=run.

    >>> from tilegen.layouts.constructors.mma_tiling import tile_mma
    >>> print(with_run(tile_mma("mma.m16n8k16", (2, 2, 1), None, (128, 128, 32)), 2).permutation[1])
    (8,2,2):(1,16,8)
    """
    m, n = (group_runs(mode.atom, cute.size(mode.atoms), run) for mode in modes_of_tiling(tiling)[:2])
    return replace(tiling, permutation=(m, n, tiling.permutation[2]))
