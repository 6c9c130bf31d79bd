"""The recipes that there are of a gemm, by variant: tiles, stages, panels, clusters, what loads and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from tilegen.access import WARP_LANES
from tilegen.arch import Arch
from tilegen.arch.data import typical_device
from tilegen.cost.tally import BY_CP_ASYNC, BY_THREADS, BY_TMA
from tilegen.layouts.constructors import MmaAtom, find_atom
from tilegen.ops.gemm.pins import read_atoms
from tilegen.ops.gemm.problem import WIDEST, Problem, bytes_of, count_own_k_tiles, count_tiles, typical_sides
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.gemm.ring import list_rings
from tilegen.ops.gemm.rows import list_rows, refuse_rows
from tilegen.ops.gemm.tcgen05 import list_tcgen05, refuse_tcgen05
from tilegen.ops.gemm.tiles import TilesRecipe
from tilegen.ops.gemm.wgmma import list_parts_of_tiles, list_wgmma, refuse_wgmma
from tilegen.ops.mma.atoms import SIMT

_SMALL_TILES = ((16, 8), (16, 16), (32, 16), (16, 32), (32, 32), (64, 32), (32, 64))  # of which a warp has all sums
_DOUBLE_TILES = ((64, 112), (96, 64), (64, 96), (64, 64), (64, 32))  # whose sums and fragments 4 warps hold, as pairs
_WIDEST_DOUBLE = (64, 112)  # takes all registers: with rows of B, where addresses take more, it was 5% slower (H100)
_SINGLE_DOUBLES = 64  # 28 kernels of 3001 x 2503 x 1100 in docs/results/gemm (H100, 2026-11-28)
_PARTS, _STEPS_OF_PARTS = (4, 8, 16), ((1, 2, 4, 8), (4, 8, 16))  # warps that share K; steps in a k-tile (of simt)
_SIDES, _WARPS = (64, 80, 96, 112, 128), ((1, 4), (2, 2), (4, 1), (2, 4), (4, 2))  # of tiles where one is made by each
_DEEP = 16  # k of a k-tile of fused multiply-adds, of which 3 stages are enough: 4 took 6% longer (H100, 2026-11-28)
_LONG_K = 512  # K that is worth sharing


# ---------------------------------------------------------------- tiles of a CTA
def _refuse_mma_sync(p: Problem, arch: Arch) -> str:
    if p.factors == "float32":
        return "mma.sync does not multiply float32: 'math: tf32' lets it"
    return ""


_SHAPES = {  # of the atom that each type is multiplied by: the first that a generation has
    "float16": ("mma.m16n8k16",),
    "bfloat16": ("mma.m16n8k16",),
    "int8": ("mma.m16n8k32",),
    "tfloat32": ("mma.m16n8k8",),
    "float64": ("mma.m16n8k8", "mma.m8n8k4"),
    "float8_e4m3fn": ("mma.m16n8k32",),
    "float8_e5m2": ("mma.m16n8k32",),
}


def _find_mma_sync(p: Problem, arch: Arch) -> MmaAtom:
    atoms = (find_atom(shape, *p.types) for shape in _SHAPES[p.factors])
    return next(atom for atom in atoms if atom.capability <= arch.compute_capability)


def _list_mma_sync(p: Problem, arch: Arch, fields: Any) -> Iterator[Recipe]:
    atom = fields.atom if fields.atom != "auto" else _find_mma_sync(p, arch).name
    if find_atom(atom).kind != "mma_sync":
        return
    depth, size = find_atom(atom).shape[2], bytes_of(p.a.dtype)
    is_async = _loads_by_themselves(p, fields)
    tiles = [
        (256, 128, (4, 2, 1)),
        (128, 128, (2, 2, 1)),
        *([] if is_async else [(128, 128, (2, 4, 1)), (64, 128, (2, 4, 1)), (64, 128, (2, 2, 1))]),
        (128, 64, (2, 2, 1)),
        (64, 64, (2, 2, 1)),
        (64, 32, (2, 2, 1)),
        (32, 32, (2, 2, 1)),
    ]
    if p.factors == "float64":
        tiles = [(128, 64, (4, 2, 1)), *((bm, bn, (2, 2, 1)) for bm, bn in _DOUBLE_TILES if _holds_doubles(p, bm, bn))]
    deep = (128, 64) if is_async else (512, 256, 128, 64)  # bytes of K
    cut = [(bm, bn, x // size, atoms) for bm, bn, atoms in tiles for x in deep]
    cut += [] if is_async else list(_one_tile_each(p, arch))
    if fields.tile:
        cut = [(*fields.tile, atoms) for atoms in ((2, 2, 1), *(() if is_async else ((2, 4, 1), (1, 4, 1))))]
    yield from list_rings(p, arch, fields, atom)
    yield from _list_shared_k(p, arch, fields, atom, is_async)
    for bm, bn, bk, atoms in cut:
        for stages in (4, 3) if is_async else (1,):
            yield TilesRecipe(
                "mma_sync",
                (bm, bn, max(bk, depth)),
                atom,
                read_atoms(fields.atoms) or atoms,
                _read_permutation(fields.permutation),
                _pin_stages(fields, stages),
                fields.order or 8,
                load=BY_CP_ASYNC if is_async else BY_THREADS,
            )


def _holds_doubles(p: Problem, bm: int, bn: int) -> bool:
    """Do four warps keep sums, fragments and the addresses of copies in registers? Of an operand that lies along M or N
    and comes one element at a time, no more than ``_SINGLE_DOUBLES``: with 96 a product took 1.4 to 1.9 times as long.
    """
    is_wide_a, is_wide_b = (x.unit_bytes == WIDEST for x in (p.a, p.b))
    fits_a = bm <= _SINGLE_DOUBLES or is_wide_a or p.a.runs_along_rows
    fits_b = bn <= _SINGLE_DOUBLES or is_wide_b or not p.b.runs_along_rows
    return fits_a and fits_b and ((bm, bn) != _WIDEST_DOUBLE or not p.b.runs_along_rows)


def _one_tile_each(p: Problem, arch: Arch) -> Iterator[tuple[int, int, int, tuple[int, int, int]]]:
    """Other tiles of a long K, with the warps along M and N, of which each multiprocessor has no more than one."""
    if typical_sides(p)[2] < _LONG_K:
        return
    for bm, bn in product(_SIDES, _SIDES):
        is_slow = p.d.comes_singly and bn % WARP_LANES  # each element's place is a division
        if is_slow or count_tiles(p, bm, bn) > typical_device(arch.name).sm_count:
            continue
        for (along_m, along_n), deep in product(_WARPS, (256, 128)):
            if bm % (16 * along_m) == 0 and bn % (8 * along_n) == 0:
                yield bm, bn, deep // bytes_of(p.a.dtype), (along_m, along_n, 1)


def _list_shared_k(p: Problem, arch: Arch, fields: Any, atom: str, is_async: bool) -> Iterator[Recipe]:
    """Those whose warps share K, each with all sums of a small tile: for few tiles and a long K, or on demand."""
    is_simt, depth, (m, n, k) = find_atom(atom).kind == SIMT, find_atom(atom).shape[2], typical_sides(p)
    is_asked = fields.k_parts is not None
    if fields.k_parts == 1 or (not is_asked and (1 in (m, n) or k < _LONG_K or fields.atoms or fields.permutation)):
        return  # of one column threads share the sums anyway
    for bm, bn in [tuple(fields.tile[:2])] if fields.tile else _SMALL_TILES:
        if not is_asked and count_tiles(p, bm, bn) > typical_device(arch.name).sm_count:
            continue  # more tiles keep all multiprocessors busy
        runs = (f"R={min(4, max(1, bm // 8))}", f"R={min(4, max(1, bn // 4))}", None) if is_simt else None
        for parts, steps in product([fields.k_parts] if is_asked else _PARTS, _STEPS_OF_PARTS[is_simt]):
            bk = fields.tile[2] if fields.tile else parts * steps * depth
            if bk > k and steps > _STEPS_OF_PARTS[is_simt][0] and not fields.tile:
                continue
            for stages in (4, 3, 2) if is_async else (1,):
                yield TilesRecipe(
                    "simt" if is_simt else "mma_sync",
                    (bm, bn, bk),
                    atom,
                    read_atoms(fields.atoms) or ("(8,4,1):(4,1,0)" if is_simt else (1, 1, 1)),
                    _read_permutation(fields.permutation or runs),
                    _pin_stages(fields, stages),
                    fields.order or 8,
                    load=BY_CP_ASYNC if is_async else BY_THREADS,
                    k_parts=parts,
                )


def _loads_by_themselves(p: Problem, fields: Any) -> bool:
    """Can k-tiles be copied while others are multiplied, and is nothing else pinned?"""
    return min(p.a.whole_bytes, p.b.whole_bytes) >= 4 and fields.load != "threads"


def _pin_stages(fields: Any, stages: int) -> int:
    """As many as are pinned, where any number above 1 can be; else as many as there are."""
    return fields.stages if stages > 1 and fields.stages != 1 and fields.stages else stages


def _refuse_simt(p: Problem, arch: Arch) -> str:
    if p.factors not in ("float32", "float64"):
        return f"fused multiply-adds are of float32 and float64, not {p.factors}"
    return ""


def _list_simt(p: Problem, arch: Arch, fields: Any) -> Iterator[Recipe]:
    atom = fields.atom if fields.atom != "auto" else {"float32": "fma.f32", "float64": "fma.f64"}[p.factors]
    if find_atom(atom).kind != SIMT:
        return
    is_async = _loads_by_themselves(p, fields)
    yield from _list_shared_k(p, arch, fields, atom, is_async)
    runs = fields.permutation or ["R=4", "R=4", None]
    sides = ((128, 128), (128, 256), (256, 128), (128, 64), (64, 64))
    tiles = [*((bm, bn, bk) for bm, bn in sides for bk in (8, 16)), (64, 64, 32), (32, 32, 32)]
    for bm, bn, bk in [tuple(fields.tile)] if fields.tile else tiles:
        for stages in ((5, 3, 2) if bk < _DEEP else (3, 2)) if is_async else (1,):
            yield TilesRecipe(
                "simt",
                (bm, bn, bk),
                atom,
                read_atoms(fields.atoms) or ("(8,8,1):(8,1,0)" if bm < 64 else "(16,16,1):(16,1,0)"),
                _read_permutation(runs),
                _pin_stages(fields, stages),
                fields.order or 8,
                load=BY_CP_ASYNC if is_async else BY_THREADS,
            )


def _read_permutation(given: Any) -> tuple[Any, Any, Any]:
    return tuple(given) if given else (None, None, None)


# ---------------------------------------------------------------- all of them
def count_useful_stages(recipe: Recipe, p: Problem) -> int:
    """As many stages as a CTA has k-tiles to bring, where K is known: more would stay empty, and take the room of other
    CTAs. Roles go on from tile to tile, and take two at least."""
    k, (bm, bn, bk) = p.sides[2], recipe.tile
    if not isinstance(k, int):
        return recipe.stages
    own = count_own_k_tiles(k, bk, p.parts)[1]
    tiles = -(-count_tiles(p, bm * recipe.cluster, bn) * recipe.cluster // recipe.ctas) if recipe.ctas else 1
    return max(own * tiles, 2 if recipe.load == BY_TMA else 1)


@dataclass(frozen=True)
class GemmVariant:
    """What the field ``variant`` names. ``refuse(problem, arch)`` says why no recipe carries a problem out, or "".

    ``recipes(problem, arch, fields)``: all that there are. ``is_always_listed``: they are looked at even where a
    variant before it has some. ``is_its_transpose``: of a problem and its transpose the recipes are the same.
    ``parts(problem, arch)``: more numbers of CTAs that may share K, for its tiles; a problem whose K is shared is then
    looked at either way, as its transpose too.
    """

    refuse: Callable[[Problem, Arch], str]
    recipes: Callable[[Problem, Arch, Any], Iterator[Recipe]]
    is_always_listed: bool = False
    is_its_transpose: bool = False
    parts: Callable[[Problem, Arch], Iterable[int]] | None = None


VARIANTS = {
    "wgmma": GemmVariant(refuse_wgmma, list_wgmma, parts=list_parts_of_tiles),
    "tcgen05": GemmVariant(refuse_tcgen05, list_tcgen05),
    "rows": GemmVariant(refuse_rows, list_rows, is_always_listed=True, is_its_transpose=True),
    "mma_sync": GemmVariant(_refuse_mma_sync, _list_mma_sync),
    "simt": GemmVariant(_refuse_simt, _list_simt),
}
