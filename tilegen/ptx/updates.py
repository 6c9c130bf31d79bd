"""What atomic updates make of what is there: of whole numbers, floats, and pairs of halves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilegen.ptx.conversions import decode, encode, round_float
from tilegen.ptx.launch import Array

Update = Callable[[Array, Array, Array], Array]  # what is there, the operand, a second one -> what is there then


def _add(x: Array, y: Array, _: Array) -> Array:
    return np.asarray(x + y)


_PLAIN: dict[str, Update] = {
    "add": _add, "min": lambda x, y, _: np.minimum(x, y), "max": lambda x, y, _: np.maximum(x, y),
    "and": lambda x, y, _: x & y, "or": lambda x, y, _: x | y, "xor": lambda x, y, _: x ^ y, "exch": lambda x, y, _: y,
    "cas": lambda x, y, z: np.where(x == y, z, x), "inc": lambda x, y, _: np.where(x >= y, 0, x + 1).astype(x.dtype),
    "dec": lambda x, y, _: np.where((x == 0) | (x > y), y, x - 1).astype(x.dtype),
}  # fmt: skip
_HALVES: dict[str, Any] = {"add": np.add, "min": np.fmin, "max": np.fmax}


def find_update(what: str, kind: str) -> Update | None:
    """The update of a name and a type of PTX, on bits for halves (``f16``, ``bf16x2``); None where there is none."""
    if "f16" not in kind:
        return _PLAIN.get(what)
    function, name = _HALVES.get(what), kind.removesuffix("x2")
    if function is None:
        return None

    def update(x: Array, y: Array, _: Array) -> Array:
        a, b = (decode(np.ascontiguousarray(v).view(np.uint16).reshape(len(x), -1), name) for v in (x, y))
        bits = encode(round_float(function(a, b), name), name).astype(np.uint16)
        return np.ascontiguousarray(bits).view(x.dtype)[:, 0]

    return update


def update_in_order(memory: Array, at: Array, update: Update, values: tuple[Array, Array]) -> Array:
    """Each lane's update, in the order of lanes where they meet at one place; what was there before each.

    >>> sums = np.zeros(2, np.int32)
    >>> values = np.array([5, 6, 7], np.int32)
    >>> update_in_order(sums, np.array([1, 0, 1]), find_update("add", "s32"), (values, values)), sums
    (array([0, 0, 5], dtype=int32), array([ 6, 12], dtype=int32))
    """
    before = np.zeros_like(values[0])
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(at)) - np.repeat(starts, np.diff(np.r_[starts, len(at)]))
    for k in range(int(rank.max()) + 1):
        lanes = order[rank == k]
        held = memory[at[lanes]]
        before[lanes] = held
        memory[at[lanes]] = update(held, values[0][lanes], values[1][lanes])
    return before
