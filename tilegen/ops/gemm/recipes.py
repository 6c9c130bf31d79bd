"""The recipes that there are of a gemm, by variant: tiles, stages, panels, clusters, what loads and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from tilegen.access import WARP_LANES
from tilegen.arch import Arch
from tilegen.arch.data import registers_for, typical_device
from tilegen.arithmetic import TFLOAT32
from tilegen.cost.tally import BY_CP_ASYNC, BY_THREADS, BY_TMA
from tilegen.errors import LayoutError
from tilegen.layouts.constructors import MmaAtom, derive_mma, find_atom, find_tma_problems, tile_mma
from tilegen.ops.gemm.parts import Writing, bytes_of, count_staged_bytes
from tilegen.ops.gemm.pins import read_atoms
from tilegen.ops.gemm.problem import WIDEST, Problem, typical_batch, typical_sides
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.gemm.wgmma import shared_bytes
from tilegen.ops.mma.atoms import SIMT

_WAITING_BYTES = 640  # of a thread's 1020, for sums and a k-tile: fragments and addresses need the rest
_OTHERS = 28  # registers that these need of small tiles at least, where many threads leave each few
_SMALL_TILES = ((16, 8), (16, 16), (32, 16), (16, 32), (32, 32), (64, 32), (32, 64))  # of which a warp has all sums
_DOUBLE_TILES = ((64, 112), (96, 64), (64, 96), (64, 64), (64, 32))  # whose sums and fragments 4 warps hold, as pairs
_WIDEST_DOUBLE = (64, 112)  # takes all registers: with rows of B, where addresses take more, it was 5% slower (H100)
_SINGLE_DOUBLES = 64  # 28 kernels of 3001 x 2503 x 1100 in docs/results/gemm (H100, 2026-11-28)
_PARTS, _STEPS_OF_PARTS = (4, 8, 16), ((1, 2, 4, 8), (4, 8, 16))  # warps that share K; steps in a k-tile (of simt)
_SIDES, _WARPS = (64, 80, 96, 112, 128), ((1, 4), (2, 2), (4, 1), (2, 4), (4, 2))  # of tiles where one is made by each
_DEEP = 16  # k of a k-tile of fused multiply-adds, of which 3 stages are enough: 4 took 6% longer (H100, 2026-11-28)
_LONG_K = 512  # K that is worth sharing
_RING_WARPS = 8  # that multiply: more have fewer than 240 registers a thread


# ---------------------------------------------------------------- wgmma
def _refuse_wgmma(p: Problem, arch: Arch) -> str:
    if "wgmma" not in arch.features:
        return f"{arch.name} has no wgmma, which sm_90a has"
    if p.factors in ("float64", "float32"):
        hint = ": 'math: tf32'" if p.factors == "float32" else ""
        return f"wgmma does not multiply {p.factors}{hint}"
    for m in (p.a, p.b):
        if not m.is_dense or m.unit_bytes < WIDEST:
            return f"the rows of {m.name} are aligned to {m.unit_bytes} bytes, TMA needs {WIDEST}"
    if bytes_of(p.a.dtype) != 2 and not (p.a.runs_along_rows and not p.b.runs_along_rows):
        return f"wgmma reads {p.a.dtype} along K alone: a row by row, b column by column"
    return ""


def _wgmma_recipes(p: Problem, arch: Arch, fields: Any) -> Iterator[Recipe]:
    bk = 128 // bytes_of(p.a.dtype)
    sides = typical_sides(p)
    tiles = [(m, n) for n in (256, 192, 128, 64, 32, 16, 8) for m in (256, 128, 64) if m * n <= 128 * 256]
    tiles += [tuple(fields.tile[:2])] if fields.tile and tuple(fields.tile[:2]) not in tiles else []
    for bm, bn in tiles:
        if fields.atom != "auto" and find_atom(fields.atom) != find_wgmma(p, bn):
            continue
        for panel in dict.fromkeys(
            x for x in (fields.panel, bn, 128, 64, 32) if x and bn % x == 0 and (x <= 128 or x == fields.panel)
        ):
            for cluster in (1, 2):
                if cluster == 2 and (sides[0] <= bm or fields.cluster == 1):
                    continue
                base = Recipe(
                    "wgmma",
                    (bm, bn, fields.tile[2] if fields.tile else bk),
                    fields.atom,
                    "",
                    (None, None, None),
                    1,
                    cluster=cluster,
                    panel=panel,
                )
                stages = fields.stages or _most_stages(base, p, arch)
                tiles_m, tiles_n = -(-sides[0] // (bm * cluster)), -(-sides[1] // bn)
                group = fields.order or max(1, min(16 // cluster, tiles_m))
                count = tiles_m * tiles_n * typical_batch(p) * cluster
                ctas = fields.ctas or _share_tiles(count, p, arch)
                ctas = -(-ctas // cluster) * cluster
                if stages >= 2:
                    yield replace(base, stages=stages, group=group, ctas=ctas)


def find_wgmma(p: Problem, n: int) -> MmaAtom | None:
    """The instruction that multiplies 64 rows by ``n`` columns, None where there is none."""
    name = f"wgmma.m64n{n}k{32 // bytes_of(p.a.dtype)}"
    try:
        return find_atom(name, p.factors, p.factors if p.a.dtype == p.b.dtype else p.b.dtype, p.sums)
    except LayoutError:
        return None


def _share_tiles(count: int, p: Problem, arch: Arch) -> int:
    """CTAs that go from tile to tile, equally often where the sizes are known."""
    multiprocessors = typical_device(arch.name).sm_count
    return -(-count // -(-count // multiprocessors)) if isinstance(p.sides[0], int) else multiprocessors


def _most_stages(base: Recipe, p: Problem, arch: Arch) -> int:
    return next((n for n in range(8, 1, -1) if fits(replace(base, stages=n), p, arch)), 0)


# ---------------------------------------------------------------- tiles of a CTA
def _refuse_mma_sync(p: Problem, arch: Arch) -> str:
    if p.factors == "float32":
        return "mma.sync does not multiply float32: 'math: tf32' lets it"
    return ""


_ATOMS = {
    "float16": "mma.m16n8k16",
    "bfloat16": "mma.m16n8k16",
    "int8": "mma.m16n8k32",
    "tfloat32": "mma.m16n8k8",
    "float64": "mma.m8n8k4",
}


def _name_atom(p: Problem, arch: Arch) -> str:
    shape = _ATOMS.get(p.factors, "mma.m16n8k32")
    if p.factors == "float64" and "tma" in arch.features:
        shape = "mma.m16n8k8"
    b = p.factors if p.b.dtype == p.a.dtype else p.b.dtype
    return find_atom(shape, p.factors, b, p.sums).name


def _mma_sync_recipes(p: Problem, arch: Arch, fields: Any) -> Iterator[Recipe]:
    atom = fields.atom if fields.atom != "auto" else _name_atom(p, arch)
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
    if "tma" in arch.features and min(p.a.unit_bytes, p.b.unit_bytes) == WIDEST and p.a.is_dense and p.b.is_dense:
        yield from _ring_recipes(p, arch, fields, atom)
    yield from _shared_k_recipes(p, arch, fields, atom, is_async)
    for bm, bn, bk, atoms in cut:
        for stages in (4, 3) if is_async else (1,):
            yield Recipe(
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
        if is_slow or _count_tiles(p, bm, bn) > typical_device(arch.name).sm_count:
            continue
        for (along_m, along_n), deep in product(_WARPS, (256, 128)):
            if bm % (16 * along_m) == 0 and bn % (8 * along_n) == 0:
                yield bm, bn, deep // bytes_of(p.a.dtype), (along_m, along_n, 1)


def _count_tiles(p: Problem, bm: int, bn: int) -> int:
    """How many tiles of so many rows and columns there are of d."""
    m, n, _ = typical_sides(p)
    return -(-m // bm) * -(-n // bn) * typical_batch(p)


def _shared_k_recipes(p: Problem, arch: Arch, fields: Any, atom: str, is_async: bool) -> Iterator[Recipe]:
    """Those whose warps share K, each with all sums of a small tile: for few tiles and a long K, or on demand."""
    is_simt, depth, (m, n, k) = find_atom(atom).kind == SIMT, find_atom(atom).shape[2], typical_sides(p)
    is_asked = fields.k_parts is not None
    if fields.k_parts == 1 or (not is_asked and (1 in (m, n) or k < _LONG_K or fields.atoms or fields.permutation)):
        return  # of one column threads share the sums anyway
    for bm, bn in [tuple(fields.tile[:2])] if fields.tile else _SMALL_TILES:
        if not is_asked and _count_tiles(p, bm, bn) > typical_device(arch.name).sm_count:
            continue  # more tiles keep all multiprocessors busy
        runs = (f"R={min(4, max(1, bm // 8))}", f"R={min(4, max(1, bn // 4))}", None) if is_simt else None
        for parts, steps in product([fields.k_parts] if is_asked else _PARTS, _STEPS_OF_PARTS[is_simt]):
            bk = fields.tile[2] if fields.tile else parts * steps * depth
            if bk > k and steps > _STEPS_OF_PARTS[is_simt][0] and not fields.tile:
                continue
            for stages in (4, 3, 2) if is_async else (1,):
                yield Recipe(
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


def _ring_recipes(p: Problem, arch: Arch, fields: Any, atom: str) -> Iterator[Recipe]:
    """Those whose k-tiles come by TMA, to warps that multiply each a tile of its own."""
    bk = 128 // bytes_of(p.a.dtype)
    tiles = [(256, 128), (128, 128), (128, 64), (64, 64)]
    tiles += [tuple(fields.tile[:2])] if fields.tile and tuple(fields.tile[:2]) not in tiles else []
    given = read_atoms(fields.atoms)
    if given and (isinstance(given, str) or given[2:] not in ((), (1,))):
        return  # warps lie side by side, as numbers say
    for bm, bn in tiles:
        side = 32 if p.sums == "float64" else 64  # of a warp's tile, whose sums fit into registers
        warps = (max(1, bm // side), max(1, bn // side), 1)
        if prod(warps) > _RING_WARPS:
            continue
        for stages in (fields.stages,) if fields.stages else (4, 3):
            yield Recipe(
                "mma_sync",
                (bm, bn, fields.tile[2] if fields.tile else bk),
                atom,
                read_atoms(fields.atoms) or warps,
                (None, None, None),
                stages,
                fields.order or 8,
                load="tma",
                ctas=fields.ctas or _share_tiles(_count_tiles(p, bm, bn), p, arch),
            )


def _refuse_simt(p: Problem, arch: Arch) -> str:
    if p.factors not in ("float32", "float64"):
        return f"fused multiply-adds are of float32 and float64, not {p.factors}"
    return ""


def _simt_recipes(p: Problem, arch: Arch, fields: Any) -> Iterator[Recipe]:
    atom = fields.atom if fields.atom != "auto" else {"float32": "fma.f32", "float64": "fma.f64"}[p.factors]
    if find_atom(atom).kind != SIMT:
        return
    is_async = _loads_by_themselves(p, fields)
    yield from _shared_k_recipes(p, arch, fields, atom, is_async)
    runs = fields.permutation or ["R=4", "R=4", None]
    sides = ((128, 128), (128, 256), (256, 128), (128, 64), (64, 64))
    tiles = [*((bm, bn, bk) for bm, bn in sides for bk in (8, 16)), (64, 64, 32), (32, 32, 32)]
    for bm, bn, bk in [tuple(fields.tile)] if fields.tile else tiles:
        for stages in ((5, 3, 2) if bk < _DEEP else (3, 2)) if is_async else (1,):
            yield Recipe(
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


# ---------------------------------------------------------------- one column, or one row
def _refuse_rows(p: Problem, arch: Arch) -> str:
    if p.factors == TFLOAT32:
        return "what is summed up without a product's instruction is not multiplied as tf32"
    return "" if 1 in p.sides[:2] else "the result has more than one column, and more than one row"


def _rows_recipes(p: Problem, arch: Arch, fields: Any) -> Iterator[Recipe]:
    """Tiles whose elements a warp reads side by side: rows of a along K, or the columns of many rows."""
    matrix, is_column = (p.a, True) if p.sides[1] == 1 else (p.b, False)
    along_k = matrix.runs_along_rows == is_column
    deep = WIDEST // bytes_of(matrix.dtype) * WARP_LANES  # elements of K that a warp reads at once
    along = [(8, deep), (8, 2 * deep), (2, 4 * deep), (2, 8 * deep), (1, 8 * deep), (1, 16 * deep)]
    sides = along if along_k else [(64, 32), (128, 16), (32, 64)]
    tiles = [(rows, 1, depth) if is_column else (1, rows, depth) for rows, depth in sides]
    for tile in [tuple(fields.tile)] if fields.tile else tiles:
        yield Recipe("rows", tile, "", "", (None, None, None), 1, 1, load=BY_THREADS)


# ---------------------------------------------------------------- what a recipe takes
def count_useful_stages(recipe: Recipe, p: Problem) -> int:
    """As many stages as a CTA has k-tiles to bring, where K is known: more would stay empty, and take the room of other
    CTAs. Roles go on from tile to tile, and take two at least."""
    k, (bm, bn, bk) = p.sides[2], recipe.tile
    if not isinstance(k, int):
        return recipe.stages
    tiles = -(-_count_tiles(p, bm * recipe.cluster, bn) * recipe.cluster // recipe.ctas) if recipe.ctas else 1
    return max(-(-k // bk) * tiles, 2 if recipe.load == BY_TMA else 1)


def fits(recipe: Recipe, p: Problem, arch: Arch) -> bool:
    """Has a CTA as much shared memory and as many threads, do atoms fill the tile, and can TMA bring it?"""
    (bm, bn, bk), size = recipe.tile, bytes_of(p.a.dtype)
    if recipe.variant == "wgmma":
        is_whole = bm in (64, 128, 256) and bk * size % 32 == 0 and find_wgmma(p, bn) is not None
        return is_whole and shared_bytes(Writing(p, recipe, frozenset())) + 1024 <= arch.max_shared_bytes_per_cta
    staged = recipe.stages * bk * (bm + bn) * size
    if recipe.variant == "rows":
        # Threads that share a sum are 1, 2, 4 .. apart, so that lanes can exchange what they have.
        is_shared = all(n & (n - 1) == 0 for n in recipe.tile) and (bn if p.sides[1] == 1 else bm) == 1
        return is_shared and bm * bn * bk * bytes_of(p.sums) <= _WAITING_BYTES * recipe.threads
    if recipe.load == "tma":
        out = prod(recipe.atoms) * 16 * (bn // recipe.atoms[1]) * bytes_of(p.d.dtype)
        atom = find_atom(recipe.atom).shape
        parts = zip(recipe.tile, atom, (*recipe.atoms, 1), strict=False)
        is_whole = bm % (16 * recipe.atoms[0]) == 0 and all(n % (a * count) == 0 for n, a, count in parts)
        is_whole &= bk % (2 * atom[2]) == 0  # two fragments in turn: the next k-tile begins with the first
        if not p.a.runs_along_rows or p.b.runs_along_rows:  # a box has a row for each k
            is_whole &= not find_tma_problems(p.a.dtype, (bk, WIDEST // size))
        return is_whole and staged + out + 1024 <= arch.max_shared_bytes_per_cta
    try:
        chain = derive_mma(tile_mma(recipe.atom, recipe.atoms, recipe.permutation, recipe.tile))
    except LayoutError:
        return False
    depth, is_simt = recipe.step, find_atom(recipe.atom).kind == SIMT
    if bm * bn * bytes_of(p.sums) > 4 * arch.max_registers_per_thread * chain.threads:
        return False  # a thread's sums alone need more registers than it may have
    # What leaves, or is added up, lies over the stages where these are as large.
    leaving = 0 if is_simt else bm * bn * bytes_of(p.d.dtype)
    leaving = bm * bn * bytes_of(p.sums) * recipe.k_parts if recipe.k_parts > 1 else leaving
    beside = leaving if leaving > count_staged_bytes(recipe, p) else 0
    if recipe.load == BY_THREADS:
        staged += WIDEST * (max(bm, bk) + max(bn, bk))  # which rows are longer at most
        # The next k-tile waits in registers beside the sums, each access in whole ones.
        each = sum(n * size * max(1, 4 // x.unit_bytes) for x, n in ((p.a, bm), (p.b, bn)))
        waiting = bk * each // recipe.k_parts + bm * bn * bytes_of(p.sums)
        left = 4 * (registers_for(arch, recipe.threads, 1) - _OTHERS)
        if waiting > min(_WAITING_BYTES, left) * chain.threads:
            return False
    if depth % chain.modes[2].native:
        return False  # fragments that are loaded together are whole atoms
    if (recipe.k_parts > 1 and chain.threads != WARP_LANES) or bk % (recipe.k_parts * depth):
        return False
    is_whole = chain.threads % WARP_LANES == 0 and all(mode.tile == mode.covered for mode in chain.modes)
    return (
        is_whole
        and staged + beside <= arch.max_shared_bytes_per_cta
        and recipe.k_parts * chain.threads <= arch.max_threads_per_cta
    )


def find_product(recipe: Recipe, p: Problem) -> MmaAtom | None:
    """The instruction that a recipe multiplies by, None where there is none."""
    if recipe.variant == "wgmma":
        return find_wgmma(p, recipe.tile[1])
    if recipe.variant == "rows":
        return None
    return find_atom(recipe.atom, p.factors, p.factors if p.a.dtype == p.b.dtype else p.b.dtype, p.sums)


VARIANTS = {
    "wgmma": (_refuse_wgmma, _wgmma_recipes),
    "rows": (_refuse_rows, _rows_recipes),
    "mma_sync": (_refuse_mma_sync, _mma_sync_recipes),
    "simt": (_refuse_simt, _simt_recipes),
}
