"""The banks of a tile in shared memory, and the wavefronts of a warp that reads its columns, rows or matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen import access as model
from tilegen.access import BANK_BYTES, BANKS, LINE_BYTES, MATRIX_ROWS, WARP_LANES
from tilegen.drawing.describing import ADDRESSES
from tilegen.drawing.picture import COLORS, Picture, make_picture, place_all
from tilegen.drawing.reading import Subject
from tilegen.errors import LayoutError
from tilegen.layouts import AXES

ACCESSES = ("column", "row", "ldmatrix")
MOST_ELEMS = 1 << 20
MATRIX_ROW_BYTES = 16  # PTX ISA, ldmatrix: a row of an 8 x 8 matrix of 16-bit elements
Ints = NDArray[np.int64]


def find_banks(subject: Subject, bits: int, access: str | None = None) -> dict[str, Any]:
    """Bytes and lines of a tile, and for an access (column, row, ldmatrix) its wavefronts over the whole tile.

    The last dimension of the shape counts columns, the others rows. Raises LayoutError for a layout that is not of
    shared memory, and for ldmatrix where rows of 16 bytes are not together or not aligned.

    >>> from tilegen.drawing.reading import read_subject
    >>> tile = read_subject("Swizzle(3,3,3) o S[(8,64):(64,1)]")
    >>> find_banks(tile, 16, "column")["instructions"][0]["first"]["banks"]
    [0, 4, 8, 12, 16, 20, 24, 28]
    """
    at = _bytes_of(subject, bits)
    found: dict[str, Any] = {
        "elem_bits": bits, "bytes": int(at.max()) + max(1, bits // 8), "lines": int(at.max()) // LINE_BYTES + 1,
    }  # fmt: skip
    if access is None:
        return found
    counted = _count_matrices(at, bits) if access == "ldmatrix" else [_count_lanes(at, bits, access)]
    return found | {"access": access, "instructions": counted}


def _bytes_of(subject: Subject, bits: int) -> Ints:
    """The first byte of every element, as rows and columns."""
    place = place_all(subject, MOST_ELEMS)
    address = next((axis for axis in ADDRESSES if axis in place), None)
    other = [axis for axis in place if axis != address and axis in AXES and AXES[axis].kind in ("thread", "memory")]
    if address is None or other or {"lane", "register"} & set(place):
        axes = ", ".join(place)
        raise LayoutError(f"banks are of shared memory, addresses on axis m alone; this layout places on {axes}")
    shape = subject.shape
    return (place[address] * bits // 8).reshape(-1, shape[-1])


def bank_picture(subject: Subject, bits: int) -> Picture:
    """The banks of a tile: one cell for up to 16 bytes that lie together in every row.

    Raises LayoutError for a layout that is not of shared memory.
    """
    at = _bytes_of(subject, bits)
    run = _run_length(at, bits)
    first, columns = at[:, ::run], range(0, at.shape[1], run)
    last = first + max(1, run * bits // 8) - 1
    texts = [[_spell_banks(a, b) for a, b in zip(*rows, strict=True)] for rows in zip(first, last, strict=True)]
    cell = "each cell: bank" + ("s" if run * bits > 8 * BANK_BYTES else "") + f" of elements of {bits} bits"
    keys = first // BANK_BYTES % BANKS // 4 % COLORS
    shape = subject.shape if len(subject.shape) > 1 else (1, *subject.shape)
    return make_picture(cell, texts, keys, shape, (), [(c, c + run - 1) for c in columns])


def _spell_banks(first_byte: int, last_byte: int) -> str:
    first, last = (int(byte) // BANK_BYTES % BANKS for byte in (first_byte, last_byte))
    return str(first) if first == last else f"{first}-{last}"


def _run_length(at: Ints, bits: int) -> int:
    """The longest run, a power of two up to 16 bytes, that lies together and aligned wherever a multiple starts."""
    run = max(1, 8 * MATRIX_ROW_BYTES // bits)
    while run > 1 and not (at.shape[1] % run == 0 and _lie_together(at, run, bits)):
        run //= 2
    return run


def _lie_together(at: Ints, run: int, bits: int) -> bool:
    groups = at.reshape(at.shape[0], -1, run)
    together = groups == groups[:, :, :1] + np.arange(run) * bits // 8
    return bool(together.all() and not (groups[:, :, 0] % max(1, run * bits // 8)).any())


# ---------------------------------------------------------------- wavefronts
def _count_lanes(at: Ints, bits: int, access: str) -> dict[str, Any]:
    """One element a lane, 32 neighbours of a column or a row together."""
    if bits % 8:
        raise LayoutError(f"a lane reads whole bytes, not elements of {bits} bits")
    lines = at.T if access == "column" else at
    pad = -lines.shape[1] % WARP_LANES
    offsets = np.pad(lines, ((0, 0), (0, pad)), constant_values=-1).reshape(-1, WARP_LANES)
    return _count("ld", bits // 8, offsets)


def _count_matrices(at: Ints, bits: int) -> list[dict[str, Any]]:
    """ldmatrix .x1, .x2, .x4 over the tile's matrices of 8 rows of 16 bytes, taken down the rows first."""
    rows = _matrix_rows(at, bits)
    return [_count(f"ldmatrix{n}", MATRIX_ROW_BYTES, offsets) for n in (1, 2, 4) for offsets in _gather_rows(rows, n)]


def _matrix_rows(at: Ints, bits: int) -> Ints:
    """(matrices, 8): the byte at which each row of each matrix starts."""
    elems = 8 * MATRIX_ROW_BYTES // bits
    if at.shape[0] % 8 or at.shape[1] % elems:
        raise LayoutError(f"ldmatrix reads 8 x {elems} elements of {bits} bits; they do not divide {at.shape}")
    if not _lie_together(at, elems, bits):
        raise LayoutError(f"ldmatrix reads rows of 16 aligned bytes; here not all {elems} elements of one lie together")
    starts = at[:, ::elems].T.reshape(-1, 8)  # column of matrices, then down
    return np.ascontiguousarray(starts)


def _gather_rows(rows: Ints, n: int) -> Iterator[Ints]:
    whole = len(rows) // n
    if whole:
        offsets = np.full((whole, WARP_LANES), -1, np.int64)
        offsets[:, : 8 * n] = rows[: whole * n].reshape(whole, 8 * n)
        yield offsets


def _count(kind: str, width_bytes: int, offsets: Ints) -> dict[str, Any]:
    counts, floors = model.wavefronts(kind, width_bytes, offsets), model.phases(kind, width_bytes, offsets)
    active = [int(x) for x in offsets[0, : MATRIX_ROWS.get(kind, WARP_LANES)] if x >= 0]
    return {
        "kind": kind, "width_bytes": width_bytes, "count": len(offsets),
        "wavefronts": {"least": int(counts.min()), "most": int(counts.max()), "sum": int(counts.sum())},
        "floor": int(floors.sum()),
        "first": {
            "lanes": len(active), "banks": [byte // BANK_BYTES % BANKS for byte in active],
            "wavefronts": int(counts[0]), "floor": int(floors[0]),
        },
    }  # fmt: skip
