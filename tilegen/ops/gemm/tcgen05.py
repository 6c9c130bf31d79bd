"""gemm on Blackwell: a warp that loads by TMA, a thread that multiplies into tensor memory, a warpgroup that stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tilegen.arch import Arch
from tilegen.arithmetic import TFLOAT32
from tilegen.cost.tally import Work
from tilegen.layouts.constructors import MmaAtom
from tilegen.ops.gemm.parts import Writing
from tilegen.ops.gemm.problem import Problem, bytes_of, typical_batch, typical_sides
from tilegen.ops.gemm.recipe import (
    AS_ATOMS,
    Recipe,
    can_store_by_tma,
    count_aside,
    find_instruction,
    most_stages,
    refuse_factors,
    refuse_tma,
    refuse_turned,
    share_tiles,
)
from tilegen.ops.mma.atoms import is_named

_ROWS = 128  # of one product in a CTA, one in each lane of tensor memory
_WIDTHS = (256, 224, 192, 160, 128, 96, 64, 32, 16)
_PANELS = (64, 32, 16)  # columns that a thread holds of its row
_WARPS, _ACCUMULATORS = 6, 2  # load, mma, and four that store; sums of one tile leave while the next ones are made
_OUTS = 2  # panels in shared memory


@dataclass(frozen=True)
class Tcgen05Recipe(Recipe):
    """A thread multiplies what TMA brings, with two accumulators in tensor memory.

    With ``cluster`` 2 for a pair of CTAs: each has a tile, its rows of a, and half of the columns of b.
    """

    @property
    def threads(self) -> int:
        return 32 * _WARPS

    def accumulators(self, arch: Arch) -> int:
        """How many have room in tensor memory."""
        memory = arch.tensor_memory
        return min(_ACCUMULATORS, memory.columns // self.tile[1]) if memory else 0

    def fits(self, p: Problem, arch: Arch) -> bool:
        (bm, _, bk), size = self.tile, bytes_of(p.a.dtype)
        is_whole = bm == _ROWS and bk * size % 32 == 0 and self.find_atom(p) is not None
        out = _OUTS * bm * self.panel * bytes_of(p.d.dtype)
        taken = self.staged_bytes(p) + out + 16 * (self.stages + _ACCUMULATORS)
        return is_whole and self.accumulators(arch) > 0 and taken + 1024 <= arch.max_shared_bytes_per_cta

    def find_atom(self, p: Problem) -> MmaAtom | None:
        """The instruction that makes a tile, of a pair both tiles; None where there is none."""
        return find_instruction(p, "tcgen05", _ROWS * self.cluster, self.tile[1])

    def find_product(self, p: Problem) -> MmaAtom | None:
        return None  # they are in tensor memory

    def staged_bytes(self, p: Problem) -> int:
        bm, _, bk = self.tile
        return self.stages * bk * (bm * bytes_of(p.a.dtype) + self._own_columns * bytes_of(p.b.dtype))

    @property
    def _own_columns(self) -> int:
        """Columns of b that a CTA brings and keeps."""
        return self.tile[1] // self.cluster

    def count_reads(self) -> int:
        return self.tile[0] + self._own_columns

    def describe_work(self, p: Problem) -> Work:
        panels = self.tile[1] // self.panel
        aside = count_aside(p, self.tile, (1, panels))
        in_pairs = self.cluster > 1
        return replace(super().describe_work(p), arrivers=1, panels=panels, aside_bytes=aside, in_pairs=in_pairs)

    def write(self, w: Writing) -> dict[str, Any]:
        p = w.problem
        is_named = p.factors == TFLOAT32  # float32 is multiplied as it is, unless the atom says so
        atom = self.find_atom(p)
        template = "gemm/tcgen05.yaml" if p.parts == 1 else "gemm/tcgen05_parts.yaml"
        return self.fill_in(
            w, template, panel=self.panel, accumulators=_ACCUMULATORS, by_tma=can_store_by_tma(p), pairs=self.cluster,
            rounding=w.rounding(), atom=f"atom: {atom.name}, " if is_named and atom else "",
        )  # fmt: skip

    def _own_fields(self) -> dict[str, Any]:
        return super()._own_fields() | {"cluster": self.cluster, "panel": self.panel}


def refuse_tcgen05(p: Problem, arch: Arch) -> str:
    if "tcgen05" not in arch.features:
        return f"{arch.name} has no tcgen05, which sm_100a has"
    return (
        refuse_factors(p, "tcgen05")
        or refuse_tma(p)
        or (refuse_turned(p, "tcgen05") if bytes_of(p.a.dtype) == 4 else "")
    )


def list_tcgen05(p: Problem, arch: Arch, fields: Any) -> Iterator[Recipe]:
    """Tiles of 128 rows, by width, and as many stages as shared memory holds, by one CTA or in pairs. CTAs that share K
    have a tile each.
    """
    bk = fields.tile[2] if fields.tile else 128 // bytes_of(p.a.dtype)
    (m, n, _), batch = typical_sides(p), typical_batch(p)
    widths = dict.fromkeys((*_WIDTHS, *(fields.tile[1:2] if fields.tile else ())))
    for bn, cluster in product(widths, (1, 2) if p.parts == 1 and m > _ROWS else (1,)):
        panel = fields.panel or next((x for x in _PANELS if bn % x == 0), bn)
        base = Tcgen05Recipe("tcgen05", (_ROWS, bn, bk), fields.atom, "", AS_ATOMS, 1, cluster=cluster, panel=panel)
        atom = base.find_atom(p)
        if atom is None or not is_named(atom, fields.atom) or bn % panel:
            continue
        tiles_m, tiles_n = -(-m // (_ROWS * cluster)), -(-n // bn)
        ctas = fields.ctas or share_tiles(tiles_m * tiles_n * batch * cluster, p, arch)
        base = replace(
            base, group=fields.order or max(1, min(16 // cluster, tiles_m)),
            ctas=-(-ctas // cluster) * cluster if p.parts == 1 else 0,
        )  # fmt: skip
        stages = fields.stages or most_stages(base, p, arch)
        if stages >= 2:
            yield replace(base, stages=stages)
