"""Brute force in NumPy from ``layout.place`` alone: nothing of the choosers, the digits or the index algebra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen import access, layouts

Ints = NDArray[np.int64]
_THREADS_OF = {"laneid": 1, "tid_in_wg": 1, "tx": 1, "warpid": 32, "wid_in_wg": 32, "wgid": 128}


def places(layout: Any, shape: Sequence[int], box: Sequence[Sequence[int]]) -> dict[str, Ints]:
    """Where the box's elements lie on each axis, in row-major order of the box."""
    grids = np.meshgrid(*(np.arange(a, b) for a, b in box), indexing="ij")
    at = [g.ravel().astype(np.int64) for g in grids]
    return {k: np.broadcast_to(np.asarray(v, np.int64), at[0].shape) for k, v in layout.place(at, tuple(shape)).items()}


def offsets(text: str, shape: Sequence[int], box: Sequence[Sequence[int]]) -> Ints:
    return places(layouts.parse(text), shape, box)["m"]


def chunk(text: str) -> int:
    """Elements that a swizzle keeps together."""
    swizzle = layouts.swizzle_of(layouts.parse(text))
    return 1 << 30 if swizzle is None else 1 << swizzle.per_element


def owners(text: str, shape: Sequence[int]) -> tuple[Ints, Ints]:
    """(thread, register) of every element of a register tensor."""
    where = places(layouts.parse(text), shape, [[0, n] for n in shape])
    thread = sum((v * _THREADS_OF[k] for k, v in where.items() if k != "m"), np.zeros(np.prod(shape), np.int64))
    return thread, where.get("m", np.zeros_like(thread))


def by_register(thread: Ints, register: Ints, offset: Ints) -> Ints:
    """Memory offsets as a table (thread, register)."""
    table = np.full((int(thread.max()) + 1, int(register.max()) + 1), -1, np.int64)
    table[thread, register] = offset
    assert (table >= 0).all(), "the case has holes, so the brute force does not apply"
    return table


def widest_in_registers(table: Ints, size: int, most: int) -> int:
    """Elements of the widest access that is contiguous and aligned for every thread and group of registers."""
    width, best = 1, 1
    while width * size <= 16 and width <= most and table.shape[1] % width == 0:
        groups = table.reshape(len(table), -1, width)
        if ((groups - groups[..., :1]) == np.arange(width)).all() and (groups[..., 0] % width == 0).all():
            best = width
        width *= 2
    return best


def widest_in_rows(sides: Sequence[Ints], threads: int, size: int, most: int) -> int:
    """Elements of the widest access that is legal on all sides when the box is walked row by row by all threads."""
    width, best = 1, 1
    while width * size <= 16 and width <= most and len(sides[0]) % (width * threads) == 0:
        groups = [s.reshape(-1, width) for s in sides]
        if all(((g - g[:, :1]) == np.arange(width)).all() and (g[:, 0] % width == 0).all() for g in groups):
            best = width
        width *= 2
    return best


def tile_cost(source: Ints, target: Ints, spaces: str, threads: int, width: int, size: int) -> tuple[int, int, int]:
    """(sectors, wavefronts, instructions) of the copy that gives element (i, t, k) of the box to thread t at step i."""
    sectors = waves = instructions = 0
    for kind, space, offset in (("ld", spaces[0], source), ("st", spaces[1], target)):
        first = offset[::width] * size
        lanes = np.full((-(-len(first) // threads), -(-threads // 32) * 32), -1, np.int64)
        filled = np.full(len(lanes) * threads, -1, np.int64)
        filled[: len(first)] = first
        lanes[:, :threads] = filled.reshape(-1, threads)
        warps = lanes.reshape(-1, 32)
        warps = warps[(warps >= 0).any(1)]
        instructions += len(warps)
        if space == "g":
            sectors += int(np.sum(access.sectors(width * size, warps)))
        else:
            waves += int(np.sum(access.wavefronts(kind, width * size, warps)))
    return sectors, waves, instructions


def xor_cost(source: Ints, target: Ints, shift: int, mask: int, size: int) -> tuple[int, int, int]:
    """(0, wavefronts, instructions) of TIRx's plan: lane + 32 * (r ^ ((lane >> shift) & mask)) at step r."""
    lane, step = np.arange(32)[None, :], np.arange(len(source) // 32)[:, None]
    number = lane + 32 * (step ^ ((lane >> shift) & mask))
    if number.max() >= len(source):
        return 0, 1 << 30, 0
    waves = sum(int(np.sum(access.wavefronts(k, size, s[number] * size))) for k, s in (("ld", source), ("st", target)))
    return 0, waves, 2 * len(step)


def is_dense(offset: Ints) -> bool:
    """Do the elements fill their span, and are they a power of two?"""
    n = len(offset)
    return n & (n - 1) == 0 and len(np.unique(offset)) == n and int(offset.max() - offset.min()) == n - 1
