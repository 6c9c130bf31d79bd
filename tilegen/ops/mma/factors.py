"""Scale factors of a product: what a call may say of them, and where they lie in tensor memory.

Sources: PTX ISA, tcgen05.mma, "Block Scaling" (types, a factor for 32 neighbours along K of each row) and "Scale factor
layouts" (row r's in lane r modulo 32, column r / 32, a byte for each step along K; all of it again in each 32 lanes).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilegen.dtypes import FACTOR
from tilegen.errors import Flaw
from tilegen.index import multiple
from tilegen.layouts import ATOMS, find_atom
from tilegen.layouts.constructors.mma_atoms import SCALED_DEPTH
from tilegen.ops.cells import GROUP, GROUPS, lay_out_factors
from tilegen.ops.held import find_places
from tilegen.ops.mma.atoms import FACTORS, is_for_types
from tilegen.ops.operand import Operand, Refused, bind_alone
from tilegen.ops.tensor_copies import begin_of, is_replicated
from tilegen.spec.data import Buffer, Region

BYTES = 4  # of a column, each a step along K
UNIT = 4 * BYTES  # factors begin at a multiple of so many elements of a lane: 4 columns, those of 128 rows
_NARROW = "mxf4 and mxf4nvf4, which multiply float4 of half a byte, are not yet supported"


def check_factors(fields: Any, regions: Mapping[str, Region]) -> Flaw | None:
    """Factors of both operands or of none, of a kind that takes them, with their shapes, types and places."""
    given = [name for name in FACTORS if name in regions]
    if not given:
        if fields.atom == "auto" or not find_atom(fields.atom).factors:
            return None
        hint = f"'sfa' and 'sfb': {FACTOR} in tensor memory, one for each row and {SCALED_DEPTH} elements along K"
        return Flaw("TG102", f"{fields.atom} multiplies by scale factors, and none are given", "atom", hint)
    if len(given) < len(FACTORS):
        other = next(name for name in FACTORS if name not in given)
        message = f"'{given[0]}' has the scale factors of {FACTORS[given[0]]}, and '{other}' is missing"
        return Flaw("TG102", message, given[0], f"add '{other}': a product scales both operands, or none")
    return _check_types(fields, regions) or _check_extents(regions) or _check_places(regions)


def _check_types(fields: Any, regions: Mapping[str, Region]) -> Flaw | None:
    """Operands that a product scales, and factors of its type."""
    buffers = {name: region.buffer for name, region in regions.items()}
    for name in FACTORS:
        if buffers[name].dtype in ("float8_e4m3fn", "uint8"):
            message = f"'{buffers[name].name}' is {buffers[name].dtype}; scale factors are {FACTOR}"
            hint = f"{_NARROW}: factors of float8_e4m3fn are theirs" if buffers[name].dtype != "uint8" else ""
            return Flaw("TG212", message, name, hint or f"give the buffer the type {FACTOR}")
        if buffers[name].dtype != FACTOR:
            return Flaw("TG212", f"scale factors are {FACTOR}: '{buffers[name].name}' is {buffers[name].dtype}", name)
    dtypes = {name: buffers[name].dtype for name in ("a", "b", "c")}
    if not any(atom.factors and is_for_types(atom, dtypes) for atom in ATOMS):
        message = f"no product of {dtypes['a']} by {dtypes['b']} into {dtypes['c']} takes scale factors"
        kinds = f"mxf8f6f4 does: float8_e4m3fn or float8_e5m2 into float32; {_NARROW}"
        return Flaw("TG212", message, "sfa", kinds)
    if fields.atom != "auto" and not find_atom(fields.atom).factors:
        hint = "name one of mxf8f6f4, as tcgen05.mxf8f6f4.m128n128k32, or none"
        return Flaw("TG212", f"{fields.atom} takes no scale factors", "atom", hint)
    return None


def _check_extents(regions: Mapping[str, Region]) -> Flaw | None:
    """A factor for each row and 32 elements along K."""
    (m, k), n = regions["a"].shape, regions["b"].shape[1]
    for name, rows in (("sfa", m), ("sfb", n)):
        found, wanted = list(regions[name].shape), [rows, k // SCALED_DEPTH]
        if found != wanted or k % SCALED_DEPTH:
            what = f"{FACTORS[name]} has {rows} rows of {k}, so that {name} is {wanted}: it is {found}"
            finer = found == [rows, k * 2 // SCALED_DEPTH]
            hint = f"one for each {SCALED_DEPTH} elements along K" + (f"; {_NARROW}" if finer else "")
            return Flaw("TG212", what, name, hint)
    return None


def _check_places(regions: Mapping[str, Region]) -> Flaw | None:
    for name in FACTORS:
        buffer = regions[name].buffer
        if not buffer.traits.has_cells:
            hint = "'copy: {src: .., dst: .., async: true}' brings them there from shared memory"
            message = f"scale factors are in tensor memory, and '{buffer.name}' is in {buffer.traits.words}"
            return Flaw("TG212", message, name, hint)
        if not buffer.is_auto and (reason := explain_factors(regions[name])):
            return Flaw("TG212", reason, name, _say_layout(buffer) or "begin at a multiple of 128 rows")
    return None


def explain_factors(region: Region) -> str:
    """Why a product does not find its factors where the elements of a region lie; "" where it does."""
    try:
        find_factors(bind_alone(region))
    except Refused as refusal:
        return str(refusal)
    return ""


def find_factors(operand: Operand) -> tuple[tuple[int, int], ...]:
    """Of each step along K the first element of a lane that has factors, from the region's first, and the byte of it.

    Row r's lie r / 32 columns on. Raises Refused where they lie otherwise, or are not there for all groups of lanes.
    """
    region, buffer = operand.region, operand.buffer
    if not is_replicated(buffer):
        lanes = f"each of the {GROUPS} groups of {GROUP} lanes reads its own factors"
        raise Refused(f"{lanes}, and {buffer.name} is not in all of them")
    rows, steps = region.shape
    places = find_places(operand)
    lane, column = (places.get(axis, np.zeros((rows, steps), np.int64)) for axis in ("TLane", "TCol"))
    at, (first_lane, first) = np.arange(rows)[:, None], begin_of(operand)
    if first_lane != 0 or (lane != at % GROUP).any():
        raise Refused(f"the factors of row r are in lane r % {GROUP}, and {region.text} lies otherwise")
    if (column != column[:1] + at // GROUP * BYTES).any():
        raise Refused(f"the factors of {GROUP} rows are a column, and those of {region.text} lie otherwise")
    if multiple(first) % UNIT:
        raise Refused(f"{region.text} is not known to begin at a multiple of {UNIT // BYTES} columns")
    found = tuple((int(x) // BYTES * BYTES, int(x) % BYTES) for x in column[0])
    if bad := [start for start, _ in found if start % UNIT]:
        raise Refused(f"factors of {region.text} begin at column {bad[0] // BYTES}, not at a multiple of 4")
    return found


def _say_layout(buffer: Buffer) -> str:
    """The layout that a product finds factors by, for a buffer [.., rows, steps along K]; "" where that is its own."""
    found = lay_out_factors([int(n) for n in buffer.shape])  # type: ignore[arg-type]
    if found is None:
        return f"give '{buffer.name}' rows in multiples of {GROUP}, and 1, 2, or a multiple of {BYTES} steps along K"
    return "" if found == buffer.layout else f'layout: "{found}"'
