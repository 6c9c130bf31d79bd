"""What a launch is: grid, arguments, arrays of raw bytes, and descriptors of arrays that TMA works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Cta = tuple[int, int, int]


@dataclass(frozen=True)
class TensorMap:
    """A CUtensorMap by what it is encoded from, the innermost dimension first (``strides``: bytes, of the others)."""

    array: str
    elem_bytes: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    rounds_to_tf32: bool = False
    dtype: str = ""  # of an element, where it is added to


@dataclass(frozen=True)
class Launch:
    """``arguments``: in the kernel's order a name of an array, a NumPy scalar, or a TensorMap.

    ``overlaps``: kernels before may still run. ``shared_bytes``: dynamic shared memory.
    """

    grid: Cta
    threads: int
    arguments: tuple[str | np.generic | TensorMap, ...]
    cluster: Cta = (1, 1, 1)
    shared_bytes: int = 0
    overlaps: bool = False


class Region:
    """An array in global memory: ``base`` is its address, behind it lie unused bytes."""

    def __init__(self, name: str, base: int, image: Array, is_writable: bool):
        self.name, self.base, self.size, self.is_writable = name, base, image.nbytes, is_writable
        self.bytes = np.zeros(-(-image.nbytes // 32) * 32, np.uint8)
        self.bytes[: self.size] = image.reshape(-1).view(np.uint8)
        self.kept: dict[str, Array] = {}  # what clusters that ran did to it
        self.views = {w: self.bytes.view(f"u{w}") for w in (1, 2, 4, 8)}

    def image(self) -> Array:
        return self.bytes[: self.size]


_FIRST, _STEP = 1 << 33, 1 << 21


def place_regions(images: Mapping[str, Array], writable: Sequence[str]) -> dict[str, Region]:
    """Each array at an address of its own, far from the others."""
    base, found = _FIRST, {}
    for name, image in images.items():
        found[name] = Region(name, base, image, name in writable)
        base += -(-(image.nbytes + _STEP) // _STEP) * _STEP
    return found
