"""How a gemm is carried out: everything that is chosen, as one value that knows what it takes, does and is as a spec.

Each way to carry a product out is a class of its own, in a module of its own: ``wgmma``, ``ring``, ``tiles``, ``rows``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from tilegen.arch import Arch
from tilegen.arch.data import typical_device
from tilegen.cost.tally import BY_THREADS, BY_TMA, Work
from tilegen.errors import LayoutError
from tilegen.layouts.constructors import MmaAtom, find_atom
from tilegen.ops.gemm.parts import Writing, describe_terms
from tilegen.ops.gemm.problem import (
    WIDEST,
    Matrix,
    Problem,
    bytes_of,
    count_own_k_tiles,
    typical_batch,
    typical_sides,
    typical_values,
)
from tilegen.plan.descriptors import DEPTH_BYTES
from tilegen.spec.written import write_part

WAITING_BYTES = 640  # of a thread's 1020, for sums and a k-tile: fragments and addresses need the rest
AS_ATOMS: tuple[Any, Any, Any] = (None, None, None)  # a permutation: of each dimension what the atoms cover


@dataclass(frozen=True)
class Recipe(ABC):
    """``tile``: M, N and K of a CTA's tile. ``atom`` multiplies; ``atoms`` of them side by side make the CTA's.

    ``permutation``: of each dimension how many elements, or which, the tiling covers (docs/permutation.md), None for
    what the atoms cover. ``stages``: k-tiles in shared memory. ``group``: tile rows that CTAs take together.
    ``cluster``: CTAs that share tiles of b. ``ctas``: that share the tiles of d, 0 where each tile has its own.
    ``panel``: columns of d that leave at once. ``load``: what brings k-tiles, tma, cp_async or threads. ``is_turned``:
    the transpose of d is made, of the transposes of b and a. ``overlap``: "previous" where the kernel starts while the
    one before it still runs. ``k_parts``: warps that share K, each with sums of the whole tile, of its part of every
    k-tile; ``atoms`` are those of one of them. ``split``: CTAs that share K, each with its part of the k-tiles.
    """

    variant: str
    tile: tuple[int, int, int]
    atom: str
    atoms: Any
    permutation: tuple[Any, Any, Any]
    stages: int
    group: int = 8
    cluster: int = 1
    ctas: int = 0
    panel: int = 0
    load: str = BY_TMA
    is_turned: bool = False
    overlap: str = ""
    k_parts: int = 1
    split: int = 1

    @property
    @abstractmethod
    def threads(self) -> int:
        """Of a CTA."""

    @abstractmethod
    def fits(self, p: Problem, arch: Arch) -> bool:
        """Has a CTA as much memory and as many threads, do atoms fill the tile, and can it be brought?"""

    @abstractmethod
    def write(self, w: Writing) -> dict[str, Any]:
        """The launch, the buffers and the statements of the spec that the recipe is."""

    @abstractmethod
    def find_product(self, p: Problem) -> MmaAtom | None:
        """The instruction whose sums threads hold, None where there is none."""

    @abstractmethod
    def count_reads(self) -> int:
        """Elements of a and b that warps (of wgmma, warpgroups) read in all for one column of a tile's K."""

    def describe_work(self, p: Problem) -> Work:
        """What a launch does of a problem (turned where the recipe is), in the numbers that closed forms take."""
        (bm, bn, bk), (m, n, k) = self.tile, typical_sides(p)
        is_single, values = self.load == BY_THREADS, typical_values(p)
        lines_a, lines_b = (x.count_lines(values) for x in (p.a, p.b))
        own = min(k, count_own_k_tiles(k, bk, p.parts)[1] * bk)
        return Work(
            self.variant, p.factors, (m, n, own), typical_batch(p), self.tile, bytes_of(p.a.dtype),
            bytes_of(p.d.dtype), self.stages, self.ctas, self.cluster, self.threads, self.count_reads(),
            load=self.load, by_tma=can_store_by_tma(p), aside_bytes=count_aside(p, self.tile), k_parts=self.k_parts,
            sum_bytes=bytes_of(p.sums),
            singles=sum(n for x, n in ((p.a, bm), (p.b, bn)) if is_single and x.comes_singly),
            lines=(bm * lines_a + bn * lines_b) / (bm + bn),
        )  # fmt: skip

    def staged_bytes(self, p: Problem) -> int:
        """Of the k-tiles of all stages: the room over which may lie what leaves a tile, once nobody reads them."""
        bm, bn, bk = self.tile
        return self.stages * bk * (bm * bytes_of(p.a.dtype) + bn * bytes_of(p.b.dtype))

    def fill_in(self, w: Writing, template: str, **values: Any) -> dict[str, Any]:
        """The data of a template of templates/, which is given these values beside those of all recipes."""
        own = {"stages": self.stages, "group": self.group, "ctas": self.ctas, "overlap": self.overlap}
        terms = vars(describe_terms(w, self.tile, self.cluster))
        return write_part(template, terms | own | values, w.names)

    def fields(self) -> dict[str, Any]:
        """The fields of the op that pin it."""
        said: dict[str, Any] = {"variant": self.variant, "tile": list(self.tile)}
        said |= {"atom": self.atom} if self.atom not in ("", "auto") else {}
        if self.atoms:
            said["atoms"] = self.atoms if isinstance(self.atoms, str) else list(self.atoms)
        if any(p is not None for p in self.permutation):
            said["permutation"] = list(self.permutation)
        said |= self._own_fields()
        said |= {"ctas": self.ctas} if self.ctas else {}
        said |= {"k_parts": self.k_parts} if self.k_parts > 1 else {}
        said |= {"split": self.split} if self.split > 1 else {}
        said |= {"overlap": self.overlap} if self.overlap else {}
        return said | ({"turned": True} if self.is_turned else {})

    def _own_fields(self) -> dict[str, Any]:
        said: dict[str, Any] = {"load": self.load, "stages": self.stages}
        return said if self.split > 1 else said | {"order": self.group}

    def spell_tiling(self, atom: MmaAtom) -> str:
        """Which elements of a CTA's tile each thread has, as ``tiled_mma`` says it."""
        atoms, permutation = self._place_atoms(atom)
        return f"tiled_mma({atom.name!r}, {atoms!r}, {permutation!r}, 'C', {self.tile!r})"

    def _place_atoms(self, atom: MmaAtom) -> tuple[Any, tuple[Any, Any, Any]]:
        return self.atoms, self.permutation

    def __str__(self) -> str:
        size = " x ".join(map(str, self.tile))
        more = ", pairs of CTAs share b" if self.cluster > 1 else ""
        more += f", {self.k_parts} warps share K" if self.k_parts > 1 else ""
        more += f", {self.split} CTAs share K" if self.split > 1 else ""
        more += ", of the transposes" if self.is_turned else ""
        return f"{self.variant} {size}{self._say_stages()}{more}"

    def _say_stages(self) -> str:
        return f", {self.stages} stages by {self.load}"


def find_instruction(p: Problem, engine: str, rows: int, n: int) -> MmaAtom | None:
    """The instruction of wgmma or tcgen05 that multiplies ``rows`` by ``n`` columns, None where there is none."""
    try:
        return find_atom(f"{engine}.m{rows}n{n}k{DEPTH_BYTES // bytes_of(p.a.dtype)}", *p.types)
    except LayoutError:
        return None


def refuse_factors(p: Problem, engine: str) -> str:
    """Why wgmma or tcgen05 does not multiply what it is given, "" where it does."""
    if p.factors not in ("float64", "float32"):
        return ""
    hint = ": 'math: tf32'" if p.factors == "float32" else ""
    return f"{engine} does not multiply {p.factors}{hint}"


def share_tiles(count: int, p: Problem, arch: Arch) -> int:
    """CTAs that go from tile to tile, equally often where the sizes are known."""
    multiprocessors = typical_device(arch.name).sm_count
    return -(-count // -(-count // multiprocessors)) if isinstance(p.sides[0], int) else multiprocessors


def place_without_gaps(tile: tuple[int, int, int], atoms: Any, atom: MmaAtom) -> tuple[Any, tuple[Any, Any, Any]]:
    """The atoms and the permutation of a tile of which each warp, or warpgroup, has a part of its own without gaps: as
    many atoms side by side as that part has are its R.

    >>> from tilegen.layouts.constructors import find_atom
    >>> place_without_gaps((128, 64, 32), (2, 1, 1), find_atom("mma.m16n8k16"))
    ((2, 1, 1), ('R=4', 'R=8', None))
    """
    rows, columns = (tile[d] // (atoms[d] * atom.shape[d]) for d in range(2))
    return atoms, (f"R={rows}" if rows > 1 else None, f"R={columns}" if columns > 1 else None, None)


def most_stages(base: Recipe, p: Problem, arch: Arch) -> int:
    """The most k-tiles, up to 8, with which a recipe fits; 0 where not even two do."""
    return next((n for n in range(8, 1, -1) if replace(base, stages=n).fits(p, arch)), 0)


def refuse_tma(p: Problem) -> str:
    """Why TMA cannot bring k-tiles of a and b, or ""."""
    for m in (p.a, p.b):
        if not m.is_dense or m.unit_bytes < WIDEST:
            return f"the rows of {m.name} are aligned to {m.unit_bytes} bytes, TMA needs {WIDEST}"
    return ""


def refuse_turned(p: Problem, engine: str) -> str:
    """Why an engine that reads along K alone cannot read a and b as TMA brings them, or ""."""
    if p.a.runs_along_rows and not p.b.runs_along_rows:
        return ""
    return f"{engine} reads {p.a.dtype} along K alone: a row by row, b column by column"


def can_store_by_tma(p: Problem) -> bool:
    """TMA writes rows that begin and end at multiples of 16 bytes, of an array that the kernel does not read."""
    return p.d.runs_along_rows and p.d.whole_bytes == WIDEST and not p.is_read_again


def count_aside(p: Problem, tile: tuple[int, int, int], parts: tuple[int, int] = (1, 1)) -> int:
    """Bytes that a tile's epilogue reads of other arrays: each of so many parts along M and N needs its rows and its
    columns once."""
    (bm, bn, _), (rows, columns) = tile, parts

    def count(x: Matrix) -> int:
        return (rows if x.rows == 1 else bm) * (columns if x.columns == 1 else bn)

    return sum(count(x) * bytes_of(x.dtype) for x in p.named.values())
