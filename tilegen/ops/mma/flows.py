"""Who owns what of a product's operands: what its atom asks for, and how atoms lie side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilegen.errors import LayoutError
from tilegen.layouts import MmaAtom, MmaTiling, cute, lay_out_mma, read_mma, suggest_whole, tile_mma
from tilegen.layouts.constructors.tiled_mma import number_threads
from tilegen.ops.flows import Flow, fixed
from tilegen.ops.held import Held
from tilegen.ops.mma.atoms import (
    MMA_SYNC,
    SIMT,
    extents_of,
    is_function_of,
    is_named,
    list_atoms,
    list_tilings,
    named_atom,
)
from tilegen.ops.mma.warpgroups import choose_atom, list_registers
from tilegen.ops.operand import Refused
from tilegen.scopes import SCOPES
from tilegen.spec.data import Call

_LONG = 90  # characters of a choice, which has one line


def flow_of_product(call: Call, threads: int) -> tuple[Flow, ...]:
    """The owners of a, b and c, in a CTA of so many threads: of the call's own atoms, of c's ``tiled_mma``, or chosen.

    None where no atom fits the extents, or tiles are no whole number of atoms: the op says so when it is planned.
    """
    if call.regions["c"].buffer.traits.has_cells:
        return ()
    if call.regions["b"].buffer.traits.is_pooled:
        return _flow_of_warpgroup(call)
    return next(iter(_list_flows(call, threads)), ())


def list_other_flows(call: Call, threads: int) -> tuple[tuple[Flow, ...], ...]:
    """What owners may be instead, for other numbers of atoms along M and N: the fewest registers first."""
    is_fixed = call.fields.atoms != "auto" or _read_accumulator(call) is not None
    if is_fixed or call.regions["b"].buffer.traits.is_pooled:
        return ()
    return tuple(flows for flows in _list_flows(call, threads) if flows)[1:]


def _list_flows(call: Call, threads: int) -> Iterator[tuple[Flow, ...]]:
    """The owners for each tiling of a product of registers, the one first that is chosen without other ops."""
    for tiling in find_tilings(call, SCOPES[call.scope].size(threads)):
        yield () if any(suggest_whole(tiling, name) for name in "ABC") else _fix_operands(call, tiling)


def _fix_operands(call: Call, tiling: MmaTiling) -> tuple[Flow, ...]:
    layouts = {name: number_threads(lay_out_mma(tiling, name.upper()), call.scope) for name in ("c", "a", "b")}
    return tuple(fixed(call, name, layout, tiling.atom.name) for name, layout in layouts.items())


def _flow_of_warpgroup(call: Call) -> tuple[Flow, ...]:
    """The owners of what a product by wgmma has in registers."""
    try:
        atom = choose_atom(call)
    except Refused:
        return ()
    tiling = tile_mma(atom, (1, 1, 1), None, extents_of(call))
    return tuple(fixed(call, name, lay_out_mma(tiling, name.upper()), atom.name) for name in list_registers(call))


def spell_tiling(call: Call, threads: int, atom: MmaAtom, held: Held) -> str:
    """The accumulator as a ``tiled_mma`` text where it is one of this atom; "" for what nobody would write so."""
    tiling = find_tiling(call, threads)
    if tiling is None or tiling.atom != atom or not is_function_of(held, lay_out_mma(tiling, "C")):
        return ""
    kept = tuple(p if p is None or isinstance(p, int) else str(p) for p in tiling.permutation)
    counts = tuple(cute.size(mode) for mode in cute.modes_of(tiling.atoms))
    atoms = counts if tile_mma(atom, counts, tiling.permutation, tiling.tile) == tiling else str(tiling.atoms)
    text = f"tiled_mma({atom.name!r}, {atoms!r}, {kept if any(kept) else None!r}, 'C', {tiling.tile})"
    return text if len(text) < _LONG else text.replace(", ", ",")


def find_tiling(call: Call, threads: int) -> MmaTiling | None:
    """The first of ``find_tilings``; None if no atoms fit."""
    return next(find_tilings(call, threads), None)


def find_tilings(call: Call, threads: int) -> Iterator[MmaTiling]:
    """How atoms may lie side by side over a product of registers: by its fields or c's layout, or any, the best first.

    ``threads``: of one instance.
    """
    tile = extents_of(call)
    written = _read_accumulator(call)
    if call.fields.atoms != "auto":
        yield tile_mma(named_atom(call), call.fields.atoms, call.fields.permutation, tile)
        return
    if written is not None:
        yield replace(written, tile=tile)
        return
    for atom in (*list_atoms(call, MMA_SYNC), *list_atoms(call, SIMT)):
        if is_named(atom, call.fields.atom) and not any(n % part for n, part in zip(tile, atom.shape, strict=True)):
            for chosen in list_tilings(call, atom, max(1, threads // atom.threads)):
                yield tile_mma(atom, chosen.atoms, chosen.permutation, tile)


def _read_accumulator(call: Call) -> MmaTiling | None:
    """The tiling that c's layout writes, if it is one."""
    buffer = call.regions["c"].buffer
    try:
        read = None if buffer.is_auto else read_mma(buffer.layout_text)
    except LayoutError:  # it names params
        return None
    return read[0] if read is not None and read[1] == "C" else None
