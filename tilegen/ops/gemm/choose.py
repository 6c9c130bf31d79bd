"""Which recipe a gemm is carried out by: all that the fields leave open, ranked by a model of their time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tilegen.arch import Arch
from tilegen.cost.time import Time, Work, estimate
from tilegen.decisions import Candidate, Choice
from tilegen.errors import Diagnostic, SpecError
from tilegen.layouts.constructors import find_atom
from tilegen.ops.gemm.parts import Writing, bytes_of
from tilegen.ops.gemm.problem import WIDEST, Problem, most
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.gemm.wgmma import can_store_by_tma, shared_bytes
from tilegen.spec.data import WholeCall

_SHOWN = 8  # losers whose terms are kept
_FEW_ROWS = 64  # of d, which fill no tile of wgmma's
_RING_WARPS = 8  # that multiply: more have fewer than 240 registers a thread


@dataclass(frozen=True)
class Ranked:
    """A recipe and what the model says of its time."""

    recipe: Recipe
    time: Time


def choose_recipe(call: WholeCall, problem: Problem, arch: Arch) -> tuple[Recipe, tuple[Choice, ...]]:
    """The recipe with the least time, and the choice with the best losers.

    Raises SpecError TG302 where no recipe has all that the fields pin.
    """
    ranked, refusals = rank_recipes(problem, arch, call.fields)
    if not ranked:
        raise SpecError(_no_recipe(call, refusals))
    candidates = tuple(Candidate(r.recipe.fields(), None, str(r.time)) for r in ranked[:_SHOWN])
    refused = "".join(f"; {variant}: {reason}" for variant, reason in refusals.items())
    proof = f"the least time of {len(ranked)} recipes by the model of cost/time.py{refused}"
    return ranked[0].recipe, (Choice("gemm", ranked[0].recipe.fields(), candidates, proof),)


def rank_recipes(problem: Problem, arch: Arch, fields: Any) -> tuple[list[Ranked], dict[str, str]]:
    """Every recipe that has what ``fields`` pin, by the model's time; and why variants carry out none.

    The first variant that can carry the problem out leaves the others out, unless one is pinned.
    """
    refusals: dict[str, str] = {}
    found: list[Ranked] = []
    for variant, (refuse, recipes) in _VARIANTS.items():
        if fields.variant not in ("auto", variant) or found:
            continue
        if reason := refuse(problem, arch):
            refusals[variant] = reason
            continue
        for is_turned in _list_turns(problem, fields):
            p = problem.turned() if is_turned else problem
            for r in recipes(p, arch, fields):
                recipe = replace(r, is_turned=is_turned)
                if _has_pins(recipe, fields) and _fits(recipe, p, arch):
                    found.append(Ranked(recipe, estimate(_describe_work(recipe, p), arch.name)))
    return sorted(found, key=lambda one: one.time.total), refusals


def _list_turns(problem: Problem, fields: Any) -> tuple[bool, ...]:
    """Whether the transpose is made: where d runs along columns; and where d has few rows, either way is looked at."""
    if fields.turned is not None:
        return (fields.turned,)
    if not problem.d.runs_along_rows:
        return (True,)
    return (False, True) if _sides(problem)[0] <= _FEW_ROWS else (False,)


def _no_recipe(call: WholeCall, refusals: dict[str, str]) -> Diagnostic:
    said = "; ".join(f"{variant}: {reason}" for variant, reason in refusals.items())
    message = "no recipe carries out this gemm with what is pinned" + (f": {said}" if said else "")
    return Diagnostic("TG302", message, call.mark, "pin fewer fields; 'tilegen explain' shows what is chosen")


def _has_pins(recipe: Recipe, fields: Any) -> bool:
    """Is it what the fields say?"""
    said = recipe.fields()
    pinned = {
        n: getattr(fields, n)
        for n in ("tile", "load", "stages", "order", "cluster", "panel", "ctas")
        if getattr(fields, n)
    }
    return all(said.get(name) == value for name, value in pinned.items())


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
    sides = _sides(p)
    tiles = [(m, n) for n in (256, 192, 128, 64, 32, 16, 8) for m in (256, 128, 64) if m * n <= 128 * 256]
    tiles += [tuple(fields.tile[:2])] if fields.tile and tuple(fields.tile[:2]) not in tiles else []
    for bm, bn in tiles:
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
                    overlap=fields.overlap or "",
                )
                stages = fields.stages or _most_stages(base, p, arch)
                tiles_m, tiles_n = -(-sides[0] // (bm * cluster)), -(-sides[1] // bn)
                group = fields.order or max(1, min(16 // cluster, tiles_m))
                count = tiles_m * tiles_n * _batch(p) * cluster
                waves = -(-count // 132)
                ctas = fields.ctas or (132 if not isinstance(p.sides[0], int) else -(-count // waves))
                ctas = -(-ctas // cluster) * cluster
                if stages >= 2:
                    yield replace(base, stages=stages, group=group, ctas=ctas)


def _most_stages(base: Recipe, p: Problem, arch: Arch) -> int:
    names: frozenset[str] = frozenset()
    for stages in (8, 7, 6, 5, 4, 3, 2):
        if shared_bytes(Writing(p, replace(base, stages=stages), names)) + 1024 <= arch.max_shared_bytes_per_cta:
            return stages
    return 0


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
_TYPES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "int8": "s8",
    "tfloat32": "tf32",
    "float64": "f64",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}
_SUM_TYPES = {"float32": "f32", "int32": "s32", "float64": "f64"}


def _name_atom(p: Problem, arch: Arch) -> str:
    shape = _ATOMS.get(p.factors, "mma.m16n8k32")
    if p.factors == "float64" and "tma" in arch.features:
        shape = "mma.m16n8k8"
    b = p.factors if p.b.dtype == p.a.dtype else p.b.dtype
    c = _SUM_TYPES[p.sums]
    return f"{shape}.{c}.{_TYPES[p.factors]}.{_TYPES[b]}.{c}"


def _mma_sync_recipes(p: Problem, arch: Arch, fields: Any) -> Iterator[Recipe]:
    atom = fields.atom if fields.atom != "auto" else _name_atom(p, arch)
    depth, size = find_atom(atom).shape[2], bytes_of(p.a.dtype)
    is_async = min(p.a.unit_bytes, p.b.unit_bytes) >= 4
    tiles = [
        (256, 128, (4, 2, 1)),
        (128, 128, (2, 2, 1)),
        (128, 64, (2, 2, 1)),
        (64, 64, (2, 2, 1)),
        (64, 32, (2, 2, 1)),
    ]
    if p.factors == "float64":
        tiles = [(128, 64, (4, 2, 1)), (64, 64, (2, 2, 1)), (64, 32, (2, 2, 1))]
    if fields.tile:
        tiles = [(*fields.tile[:2], (2, 2, 1))]
    if "tma" in arch.features and min(p.a.unit_bytes, p.b.unit_bytes) == WIDEST and p.a.is_dense and p.b.is_dense:
        yield from _ring_recipes(p, arch, fields, atom)
    for bm, bn, atoms in tiles:
        for bk in [fields.tile[2]] if fields.tile else [x // size for x in (128, 64)]:
            for stages in (4, 3) if is_async else (1,):
                yield Recipe(
                    "mma_sync",
                    (bm, bn, max(bk, depth)),
                    atom,
                    _read_atoms(fields.atoms) or atoms,
                    _read_permutation(fields.permutation),
                    fields.stages or stages,
                    fields.order or 8,
                    load="cp_async" if is_async else "threads",
                    overlap=fields.overlap or "",
                )


def _ring_recipes(p: Problem, arch: Arch, fields: Any, atom: str) -> Iterator[Recipe]:
    """Those whose k-tiles come by TMA, to warps that multiply each a tile of its own."""
    bk, (m, n, _) = 128 // bytes_of(p.a.dtype), _sides(p)
    tiles = [(256, 128), (128, 128), (128, 64), (64, 64)]
    tiles += [tuple(fields.tile[:2])] if fields.tile and tuple(fields.tile[:2]) not in tiles else []
    for bm, bn in tiles:
        side = 32 if p.sums == "float64" else 64  # of a warp's tile, whose sums fit into registers
        warps = (max(1, bm // side), max(1, bn // side), 1)
        count = -(-m // bm) * -(-n // bn) * _batch(p)
        if prod(warps) > _RING_WARPS:
            continue
        for stages in (fields.stages,) if fields.stages else (4, 3):
            yield Recipe(
                "mma_sync",
                (bm, bn, fields.tile[2] if fields.tile else bk),
                atom,
                _read_atoms(fields.atoms) or warps,
                (None, None, None),
                stages,
                fields.order or 8,
                load="tma",
                ctas=fields.ctas or (132 if not isinstance(p.sides[0], int) else -(-count // -(-count // 132))),
            )


def _refuse_simt(p: Problem, arch: Arch) -> str:
    if p.factors not in ("float32", "float64"):
        return f"fused multiply-adds are of float32 and float64, not {p.factors}"
    return ""


def _simt_recipes(p: Problem, arch: Arch, fields: Any) -> Iterator[Recipe]:
    atom = fields.atom if fields.atom != "auto" else {"float32": "fma.f32", "float64": "fma.f64"}[p.factors]
    is_async = min(p.a.unit_bytes, p.b.unit_bytes) >= 4
    runs = fields.permutation or ["R=4", "R=4", None]
    tiles = [(128, 128), (128, 256), (256, 128), (128, 64), (64, 64)] if not fields.tile else [tuple(fields.tile[:2])]
    for bm, bn in tiles:
        for stages in (4, 2) if is_async else (1,):
            yield Recipe(
                "simt",
                (bm, bn, fields.tile[2] if fields.tile else 8),
                atom,
                _read_atoms(fields.atoms) or "(16,16,1):(16,1,0)",
                _read_permutation(runs),
                fields.stages or stages,
                fields.order or 8,
                load="cp_async" if is_async else "threads",
            )


def _read_atoms(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given


def _read_permutation(given: Any) -> tuple[Any, Any, Any]:
    return tuple(given) if given else (None, None, None)


# ---------------------------------------------------------------- what a recipe takes
def _fits(recipe: Recipe, p: Problem, arch: Arch) -> bool:
    """Has a CTA as much shared memory and as many threads?"""
    if recipe.variant == "wgmma":
        return shared_bytes(Writing(p, recipe, frozenset())) + 1024 <= arch.max_shared_bytes_per_cta
    (bm, bn, bk), size = recipe.tile, bytes_of(p.a.dtype)
    staged = recipe.stages * bk * (bm + bn) * size
    if recipe.load == "tma":
        out = prod(recipe.atoms) * 16 * (bn // recipe.atoms[1]) * bytes_of(p.d.dtype)
        fits: bool = staged + out + 1024 <= arch.max_shared_bytes_per_cta and bm % (16 * recipe.atoms[0]) == 0
        return fits
    out = bm * bn * bytes_of(p.d.dtype)
    return max(staged, out) <= arch.max_shared_bytes_per_cta and recipe.threads <= arch.max_threads_per_cta


def _sides(p: Problem) -> tuple[int, int, int]:
    """M, N and K, or the largest that they can be."""
    m, n, k = (min(most(x), 4096) if not isinstance(x, int) else x for x in p.sides)
    return m, n, k


def _batch(p: Problem) -> int:
    return p.batch if isinstance(p.batch, int) else 16


def _describe_work(recipe: Recipe, p: Problem) -> Work:
    m, n, k = _sides(p)
    return Work(
        recipe.variant,
        p.factors,
        (m, n, k),
        _batch(p),
        recipe.tile,
        bytes_of(p.a.dtype),
        bytes_of(p.d.dtype),
        recipe.stages,
        recipe.ctas,
        recipe.cluster,
        recipe.threads,
        recipe.load,
        recipe.tile[1] // recipe.panel if recipe.panel else 1,
        by_tma=can_store_by_tma(Writing(p, recipe, frozenset())),
    )


_VARIANTS = {
    "wgmma": (_refuse_wgmma, _wgmma_recipes),
    "mma_sync": (_refuse_mma_sync, _mma_sync_recipes),
    "simt": (_refuse_simt, _simt_recipes),
}
