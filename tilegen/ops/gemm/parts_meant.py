"""What the first pass of a gemm means whose K several CTAs share: the sums of each part of K."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.dtypes import DTYPES
from tilegen.ops.expanding import mean_pass
from tilegen.ops.gemm.reference import add_products, extent_of
from tilegen.ops.op import WholeHere
from tilegen.ops.strided import find_coordinates
from tilegen.spec.data import Buffer, WholeCall

Array = NDArray[Any]


@dataclass(frozen=True)
class PartsFields:
    """``product``: the gemm. Its K is cut into k-tiles of ``depth`` elements, and these into ``parts``, as even as can
    be. ``is_turned``: sums lie as those of the transpose.
    """

    product: WholeCall
    parts: int
    depth: int
    is_turned: bool


def mean_parts(fields: PartsFields, sums: Buffer) -> WholeCall:
    """The first pass as an op on whole arrays, which leaves ``sums``: [parts, M, N]."""
    arrays = {name: fields.product.arrays[name] for name in ("a", "b")}
    return WholeCall(OP, fields, arrays | {"d": sums}, fields.product.mark)


def cut_k(size: int, depth: int, parts: int) -> Iterator[range]:
    """The elements of K that each part has: all together they are all of K, each once.

    >>> list(cut_k(1000, 64, 3))
    [range(0, 320), range(320, 640), range(640, 1000)]
    """
    k_tiles = -(-size // depth)
    ends = [min(size, part * k_tiles // parts * depth) for part in range(parts + 1)]
    yield from map(range, ends[:-1], ends[1:])


def _add_parts(call: WholeCall, offsets: Array, here: WholeHere) -> dict[str, Array]:
    """The sums at flat offsets."""
    fields, sums = call.fields, call.arrays["d"]
    part, *place = find_coordinates(sums, offsets, here.params)
    rows, columns = place[::-1] if fields.is_turned else place
    size = int(extent_of(call.arrays["a"].shape[-1], here))
    values = np.zeros(offsets.shape, here.domain.bits(DTYPES[sums.dtype].bytes))
    for number, along_k in enumerate(cut_k(size, fields.depth, fields.parts)):
        if len(own := np.flatnonzero(part == number)):
            found = add_products(fields.product, 0, rows[own], columns[own], along_k, here)
            values[own] = np.ascontiguousarray(found).view(values.dtype)
    return {"d": values}


# Elements of another part are sums of other elements of K: along dimension 0 tiles are compared one by one.
OP = mean_pass("gemm_parts", ("a", "b"), ("d",), _add_parts, apart=0)
