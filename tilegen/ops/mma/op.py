"""mma: c[M, N] = a[M, K] b[K, N], on top of c unless accumulate is false; in registers, for wgmma a and b in shared."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Literal

import numpy as np
from pydantic import Field

from tilegen.arithmetic import SCALED, TFLOAT32, TFLOAT32_CUT
from tilegen.errors import Flaw, LayoutError
from tilegen.layouts import ATOMS, derive_mma, find_atom, tile_mma
from tilegen.layouts.constructors.mma_atoms import SCALED_DEPTH
from tilegen.ops.mma.atoms import (
    FACTORS,
    MMA_SYNC,
    ROWS,
    SIMT,
    WGMMA_ROWS,
    explain_later,
    has_factors,
    is_for_types,
    is_named,
    list_atoms,
    named_atom,
    refuse_types,
)
from tilegen.ops.mma.cells import check_cells, need_cells
from tilegen.ops.mma.factors import check_factors
from tilegen.ops.mma.flows import flow_of_product, list_other_flows
from tilegen.ops.mma.products import plan_product
from tilegen.ops.mma.tensor import check_tensor, plan_tensor, refuse_tensor, reject_tensor_layout
from tilegen.ops.mma.warpgroups import plan_warpgroup, refuse_warpgroup, reject_layout
from tilegen.ops.op import COMPUTES, Array, Factors, Here, Op, Planned, Variant
from tilegen.ops.operand import Context
from tilegen.plan import PRODUCTS, TENSOR
from tilegen.plan.descriptors import TCGEN05, WGMMA
from tilegen.scopes import SCOPES
from tilegen.spec.data import Call, Region
from tilegen.spec.form import OpFields


class MmaFields(OpFields):
    a: str = Field(
        description="register region read, M by K; wgmma reads shared memory too, tcgen05 shared or tensor memory"
    )
    b: str = Field(description="register region read, K by N; of wgmma and tcgen05 a shared region")
    c: str = Field(description="region that the product is added to, M by N, in registers; of tcgen05 in tensor memory")
    sfa: str | None = Field(
        default=None,
        description="region of scale factors of a, M by K / 32 in tensor memory, one for each 32 elements along K",
    )
    sfb: str | None = Field(default=None, description="region of scale factors of b, N by K / 32 in tensor memory")
    accumulate: str | bool | int = Field(
        default=True, description="a condition: where it is false c is not read, and becomes the product alone"
    )
    atom: str = Field(
        default="auto",
        description="the instruction, as mma.m16n8k16 or fma.f32; float32 is multiplied as tf32 if it says so",
    )
    atoms: str | list[int] = Field(
        default="auto", description="atoms along M, N and K that lie side by side, as tiled_mma has them"
    )
    permutation: list[int | str | None] | None = Field(
        default=None, description="of M, N and K, as tiled_mma has them; only together with atoms"
    )
    order: Literal["auto", "mn", "nm", "mn_serpentine", "nm_serpentine"] = Field(
        default="auto",
        description="how products follow each other within a step of K, outermost first; serpentine: there and back",
    )
    asynchronous: bool = Field(
        default=False, alias="async",
        description="true: the threads go on, and the product is there at a later wait; c is nobody's until then",
    )  # fmt: skip
    variant: Literal["auto", "simt", "mma_sync", "wgmma", "tcgen05"] = Field(
        default="auto", description="pin a variant instead of taking the one that can"
    )


def _check_fields(fields: Any) -> Flaw | None:
    """Names that are atoms, atoms and permutations that tile."""
    if fields.permutation is not None and fields.atoms == "auto":
        return Flaw("TG102", "a permutation needs the key 'atoms'", "permutation", "for example 'atoms: [1, 1, 1]'")
    if fields.atom == "auto":
        hint = "for example 'atom: mma.m16n8k16'"
        return None if fields.atoms == "auto" else Flaw("TG102", "'atoms' needs the key 'atom'", "atoms", hint)
    try:
        atom = find_atom(fields.atom)
    except LayoutError as error:
        return Flaw("TG109", str(error), "atom", error.hint)
    try:
        if fields.atoms != "auto":
            tile_mma(atom, fields.atoms, fields.permutation, atom.shape)
    except LayoutError as error:
        return Flaw("TG201", str(error), "permutation" if "permutation" in str(error) else "atoms", error.hint)
    return None


def _check(fields: Any, regions: Mapping[str, Region], expression: object) -> Flaw | None:
    """Shapes that multiply."""
    for name, region in regions.items():
        if len(region.shape) != 2:
            hint = _say_matrix(region) if len(region.shape) > 2 else "keep it, as in x[0 : +1]"
            return Flaw("TG212", f"mma takes matrices: {name} has {list(region.shape)}", name, hint)
    (m, k), (kb, n), c = (regions[name].shape for name in ("a", "b", "c"))
    if k != kb:
        return Flaw("TG212", f"mma multiplies M x K by K x N: a has {[m, k]}, b has {[kb, n]}", "b")
    in_cells = regions["c"].buffer.traits.has_cells  # whether it is a pair's, with b of two CTAs, the spec says
    if c != (m, n) and not (in_cells and c == (m, 2 * n)):
        return Flaw("TG212", f"the product of a, {[m, k]}, and b, {[k, n]}, is {[m, n]}, but c has {list(c)}", "c")
    if flaw := check_factors(fields, regions):
        return flaw
    dtypes = {name: regions[name].buffer.dtype for name in ("a", "b", "c")}
    if not any(is_for_types(atom, dtypes) and is_named(atom, fields.atom) for atom in ATOMS) and fields.atom != "auto":
        types = f"{dtypes['a']} by {dtypes['b']} into {dtypes['c']}"
        others = [atom.name for atom in ATOMS if is_for_types(atom, dtypes) and atom.kind in (SIMT, MMA_SYNC)]
        hint = f"atoms that do are {', '.join(others)}" if others else "no atom does: cast the operands"
        return Flaw("TG212", f"{fields.atom} does not multiply {types}", "atom", hint)
    if in_cells:
        flaw = check_tensor(fields, (m, n, k), dtypes) or check_cells(fields, regions)
        if flaw:
            return flaw
    return None if fields.atoms == "auto" else _check_cover(fields, (m, n, k))


def _say_matrix(region: Region) -> str:
    """How a tile of more than two dimensions becomes a matrix: one of several, or all rows as one dimension."""
    buffer, index = region.buffer, "index the other dimensions, as in x[i % 2]"
    if region.lengths != buffer.shape:
        return index
    *rows, columns = region.shape
    view = f"{buffer.name}_rows: {{view: {buffer.name}, shape: {[prod(rows), columns]}}}"
    return f"{index}, or make its rows one dimension: {view}"


def _check_cover(fields: Any, tile: tuple[int, int, int]) -> Flaw | None:
    """Atoms that lie side by side over the tile, and nowhere beyond it."""
    for mode in derive_mma(tile_mma(fields.atom, fields.atoms, fields.permutation, tile)).modes:
        if mode.covered != mode.tile:
            taken = f"{mode.period} elements of {mode.name} at a time, the product has {mode.tile}"
            hint = f"{mode.name} in multiples of {mode.period}"
            if fields.permutation is None:
                return Flaw("TG212", f"the atoms take {taken}", "atoms", hint)
            return Flaw("TG212", f"the permutation takes {taken}", "permutation", hint)
    return None


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The product of the logical matrices, on top of c where it accumulates."""
    c, of = values["c"].reshape(-1, *call.regions["c"].shape), _read_factors(call, values, here)
    accumulates = _accumulates(call, here)
    kept = c
    if not accumulates.all():
        kept = c.copy()
        kept[np.broadcast_to(~accumulates, c.shape)] = here.domain.fill(0, of.summed)
    return {"c": here.domain.matmul(of.a, of.b, kept, of.multiplied, of.summed)}


def _factors(call: Call, values: Mapping[str, Array], here: Here) -> Factors | None:
    """What is multiplied, where every instance accumulates."""
    return _read_factors(call, values, here) if _accumulates(call, here).all() else None


def _accumulates(call: Call, here: Here) -> Array:
    return here.whole(call.conditions["accumulate"], {}, 2).astype(bool)


def _read_factors(call: Call, values: Mapping[str, Array], here: Here) -> Factors:
    """What is multiplied: each element by its own factor first, where the call has some."""
    (m, k), n = call.regions["a"].shape, call.regions["c"].shape[1]  # all columns: those of two CTAs' b, of a pair
    a, b = values["a"].reshape(-1, m, k), values["b"].reshape(-1, k, n)
    if has_factors(call):
        sfa, sfb = (values[name].reshape(-1, *call.regions[name].shape) for name in ("sfa", "sfb"))
        sfa, sfb = (np.repeat(x, SCALED_DEPTH, 2) for x in (sfa, sfb))
        a = here.domain.scale_by(a, sfa, call.regions["a"].buffer.dtype)
        b = here.domain.scale_by(b, sfb.swapaxes(1, 2), call.regions["b"].buffer.dtype)
        return Factors(a, b, SCALED, call.regions["c"].buffer.dtype)
    dtype = call.regions["a"].buffer.dtype
    if call.fields.atom != "auto" and (atom := named_atom(call)).a == TFLOAT32:
        dtype = TFLOAT32_CUT if atom.kind in (WGMMA, TCGEN05) else TFLOAT32
    return Factors(a, b, dtype, call.regions["c"].buffer.dtype)


def _refuse(kind: str, call: Call, context: Context) -> str | None:
    if has_factors(call):
        return "it takes no scale factors"
    for name, region in call.regions.items():
        if not region.buffer.traits.is_held:
            later = ": only wgmma and tcgen05 read shared memory" if name != "c" else ""
            return f"{name} must be in registers, not in {region.buffer.traits.words}{later}"
    if call.fields.asynchronous:
        return "the product is there when the threads go on: only wgmma and tcgen05 are asynchronous"
    if call.fields.atom != "auto" and (engine := find_atom(call.fields.atom).kind) in (WGMMA, TCGEN05):
        return f"the atom {call.fields.atom} is {engine}'s"
    if later := explain_later(call.fields.atom):
        return f"the atom {call.fields.atom} is not supported: {later}"
    if refusal := refuse_types(call, kind):
        return refusal
    roots = {name: region.buffer.root for name, region in call.regions.items()}
    if roots["c"] in (roots["a"], roots["b"]):
        return f"{call.regions['c'].buffer.name} cannot be multiplied and updated at once"
    threads = SCOPES[call.scope].size(context.launch.threads)
    if kind == MMA_SYNC and threads % SCOPES["warp"].threads:
        return f"whole warps multiply together, and {SCOPES[call.scope].one} has {threads} threads"
    return None


def _variant(kind: str, priority: int) -> Variant:
    def refuse(call: Call, context: Context) -> str | None:
        return _refuse(kind, call, context)

    def plan(call: Call, context: Context) -> Planned:
        return plan_product(context, call, list_atoms(call, kind))

    return Variant(kind, priority, refuse, plan)


def _queue_of(call: Call) -> str:
    """Where an asynchronous product is waited for."""
    if not call.fields.asynchronous:
        return ""
    return TENSOR if call.regions["c"].buffer.traits.has_cells else PRODUCTS


def _plan_warpgroup(call: Call, context: Context) -> Planned:
    return plan_warpgroup(context, call)


OP = Op(
    "mma", MmaFields, reads=("a", "b", *FACTORS), updates=("c",), optional=tuple(FACTORS), conditions=("accumulate",),
    check_fields=_check_fields, check=_check, reference=_reference, factors=_factors, exactness=COMPUTES,
    variants=(
        _variant(SIMT, 20), _variant(MMA_SYNC, 30),
        Variant(WGMMA, 40, refuse_warpgroup, _plan_warpgroup, constrain=reject_layout),
        Variant(TCGEN05, 40, refuse_tensor, plan_tensor, constrain=reject_tensor_layout),
    ),
    queue=_queue_of, tensor=("a", "c", *FACTORS), cells=need_cells,
    instructions=(*ROWS.values(), *WGMMA_ROWS.values()), flows=flow_of_product,
    other_flows=list_other_flows,
)  # fmt: skip
