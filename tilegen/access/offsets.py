"""Offsets of warp-wide accesses: read, checked, and cut into chunks that stay in a core's own cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Accesses = NDArray[Any]  # (accesses, lanes)
Count = Any  # an int for one access, an int64 array for a batch

WARP_LANES = 32
BANKS = 32
BANK_BYTES = 4
LINE_BYTES = BANKS * BANK_BYTES
SECTOR_BYTES = 32
WIDTHS = (1, 2, 4, 8, 16)
MATRIX_ROWS = {f"{direction}matrix{n}": 8 * n for direction in ("ld", "st") for n in (1, 2, 4)}
KINDS = ("ld", "st", *MATRIX_ROWS)

CHUNK = 2048  # accesses worked on at a time


def read_offsets(width_bytes: int, offsets: ArrayLike, lanes: int = WARP_LANES, what: str = "offset") -> Accesses:
    """The offsets as (accesses, lanes): the first ``lanes`` of each access, multiples of the width or -1.

    Raises ValueError for offsets that are not (32,) or (n, 32) integers, for a misaligned one or one below -1.
    """
    given = np.asarray(offsets)
    if given.dtype.kind not in "iu":
        raise ValueError(f"{what}s are integers (bytes, -1 for an inactive lane), not {given.dtype}")
    if given.ndim not in (1, 2) or given.shape[-1] != WARP_LANES:
        raise ValueError(f"{what}s have shape (32,) or (n, 32), one per lane, not {given.shape}")
    if given.dtype not in (np.int32, np.int64):
        given = given.astype(np.int64)
    accesses = given.reshape(-1, WARP_LANES)[:, :lanes]
    for first in range(0, len(accesses), CHUNK):
        _check_offsets(width_bytes, accesses[first : first + CHUNK], first, what)
    return accesses


def _check_offsets(width_bytes: int, offsets: Accesses, first: int, what: str) -> None:
    least = offsets.min()
    if least >= 0 and not np.bitwise_or.reduce(offsets, axis=None) & (width_bytes - 1):
        return
    for wrong, why in (
        (offsets < -1, "is negative (-1 means an inactive lane)"),
        ((offsets >= 0) & (offsets % width_bytes != 0), f"is not a multiple of {width_bytes}"),
    ):
        if wrong.any():
            access, lane = np.argwhere(wrong)[0]
            raise ValueError(f"byte {what} {offsets[access, lane]} of lane {lane} in access {first + access} {why}")


def count_in_chunks(count: Callable[..., Accesses], *batches: Accesses) -> NDArray[np.int64]:
    """What ``count`` says of each access, asked for some accesses at a time; the batches are as long as each other."""
    starts = range(0, len(batches[0]), CHUNK)
    counted = [count(*(batch[first : first + CHUNK] for batch in batches)).astype(np.int64) for first in starts]
    return np.concatenate(counted) if counted else np.zeros(0, np.int64)


def shape_like(offsets: ArrayLike, counts: NDArray[np.int64]) -> Count:
    """An int if one access was given, the array if a batch was."""
    return int(counts[0]) if np.ndim(offsets) == 1 else counts
