"""What a launch is: grid, arguments, arrays of raw bytes, and descriptors of arrays that TMA works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.dtypes import numpy_dtype

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


def read_launch(info: Mapping[str, Any]) -> Launch:
    """The launch that the manifest of a kernel describes.

    >>> args = [{"kind": "pointer", "name": "X"}, {"kind": "value", "dtype": "int32", "value": 5}]
    >>> read_launch({"grid": [2, 1, 1], "block": [32, 1, 1], "cluster": [1, 1, 1], "dynamic_shared_bytes": 0,
    ...              "args": args}).arguments
    ('X', np.int32(5))
    """
    arguments: list[str | np.generic | TensorMap] = []
    for a in info["args"]:
        if a["kind"] == "pointer":
            arguments.append(a["name"])
        elif a["kind"] == "value":
            arguments.append(numpy_dtype(a["dtype"]).type(a["value"]))
        else:
            dims, strides, box = (tuple(a[key]) for key in ("dims", "strides_bytes", "box"))
            swizzle, rounds = a["swizzle_bytes"], "rounds_to" in a
            arguments.append(TensorMap(a["array"], a["elem_bytes"], dims, strides, box, swizzle, rounds, a["dtype"]))
    (x, y, z), (i, j, k) = info["grid"], info["cluster"]
    shared = info["dynamic_shared_bytes"]
    return Launch((x, y, z), info["block"][0], tuple(arguments), (i, j, k), shared, "overlap" in info)


class Region:
    """An array in global memory: ``base`` is its address, behind it lie unused bytes."""

    def __init__(self, name: str, base: int, image: Array, is_writable: bool):
        self.name, self.base, self.size, self.is_writable = name, base, image.nbytes, is_writable
        flat = np.ascontiguousarray(image).reshape(-1).view(np.uint8)
        self.bytes = flat if self.size % 32 == 0 and not is_writable else np.zeros(-(-self.size // 32) * 32, np.uint8)
        if self.bytes is not flat:
            self.bytes[: self.size] = flat
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
