"""Who owns what of a product's operands: what its atom asks for, and how atoms lie side by side."""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import LayoutError
from tilegen.layouts import MmaAtom, MmaTiling, cute, lay_out_mma, read_mma, suggest_whole, tile_mma
from tilegen.layouts.constructors.tiled_mma import number_threads
from tilegen.ops.flows import Flow, fixed
from tilegen.ops.mma.atoms import (
    MMA_SYNC,
    SIMT,
    choose_tiling,
    extents_of,
    is_function_of,
    is_named,
    list_atoms,
    named_atom,
)
from tilegen.ops.mma.held import Held
from tilegen.ops.mma.warpgroups import choose_atom, list_registers
from tilegen.ops.operand import Refused
from tilegen.scopes import SCOPES
from tilegen.spec.data import Call

_LONG = 90  # characters of a choice, which has one line


def flow_of_product(call: Call, threads: int) -> tuple[Flow, ...]:
    """The owners of a, b and c, in a CTA of so many threads: of the call's own atoms, of c's ``tiled_mma``, or chosen.

    None where no atom fits the extents, or tiles are no whole number of atoms: the op says so when it is planned.
    """
    if call.regions["b"].buffer.scope == "shared":
        return _flow_of_warpgroup(call)
    tiling = find_tiling(call, SCOPES[call.scope].size(threads))
    if tiling is None or any(suggest_whole(tiling, name) for name in "ABC"):
        return ()
    lane = SCOPES[call.scope].lane
    layouts = {name: number_threads(lay_out_mma(tiling, name.upper()), lane) for name in ("c", "a", "b")}
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
    """How atoms lie side by side over a product of registers: by its fields or c's layout, or chosen; None if none fit.

    ``threads``: of one instance.
    """
    tile = extents_of(call)
    if call.fields.atoms != "auto":
        return tile_mma(named_atom(call), call.fields.atoms, call.fields.permutation, tile)
    written = _read_accumulator(call)
    if written is not None:
        return replace(written, tile=tile)
    for atom in (*list_atoms(call, MMA_SYNC), *list_atoms(call, SIMT)):
        if is_named(atom, call.fields.atom) and not any(n % part for n, part in zip(tile, atom.shape, strict=True)):
            chosen = choose_tiling(call, atom, max(1, threads // atom.threads), {})
            if chosen is not None:
                return tile_mma(atom, chosen.atoms, chosen.permutation, tile)
    return None


def _read_accumulator(call: Call) -> MmaTiling | None:
    """The tiling that c's layout writes, if it is one."""
    buffer = call.regions["c"].buffer
    try:
        read = None if buffer.is_auto else read_mma(buffer.layout_text)
    except LayoutError:  # it names params
        return None
    return read[0] if read is not None and read[1] == "C" else None
