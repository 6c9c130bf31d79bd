"""What the first pass of a reduction means whose elements several CTAs share: what each part of them comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.dtypes import DTYPES
from tilegen.index import Index, evaluate
from tilegen.ops.expanding import mean_pass
from tilegen.ops.op import WholeHere
from tilegen.ops.reduce_array.meant import count_reduced, fold_elements
from tilegen.ops.strided import find_coordinates
from tilegen.spec.data import Buffer, WholeCall

Array = NDArray[Any]


@dataclass(frozen=True)
class PartFields:
    """``whole``: the reduction. A part has ``step`` elements of each result, the last ones fewer, or none."""

    whole: WholeCall
    step: Index


def mean_parts(fields: PartFields, parts: Buffer) -> WholeCall:
    """The first pass as an op on whole arrays, which leaves ``parts``: [parts, results]."""
    arrays = {name: array for name, array in fields.whole.arrays.items() if name != "dst"}
    return WholeCall(OP, fields, arrays | {"dst": parts}, fields.whole.mark)


def cut_elements(count: int, step: int, part: int) -> range:
    """The elements that a part has: all parts together have each once.

    >>> [cut_elements(1000, 300, part) for part in range(5)]
    [range(0, 300), range(300, 600), range(600, 900), range(900, 1000), range(1000, 1000)]
    """
    return range(min(count, part * step), min(count, (part + 1) * step))


def _reduce_parts(call: WholeCall, offsets: Array, here: WholeHere) -> dict[str, Array]:
    """What parts come to, at flat offsets."""
    fields, parts = call.fields, call.arrays["dst"]
    part, kept = find_coordinates(parts, offsets, here.params)
    count, step = count_reduced(fields.whole, here), int(evaluate(fields.step, dict(here.params)))
    values = np.zeros(offsets.shape, here.domain.bits(DTYPES[parts.dtype].bytes))
    for number in np.unique(part):
        own = np.flatnonzero(part == number)
        found = fold_elements(fields.whole, kept[own], cut_elements(count, step, int(number)), here)
        values[own] = found.view(values.dtype)
    return {"dst": values}


# Part by part what is read lies a step further away, while what is written is the next element.
OP = mean_pass("reduce_array_parts", ("src",), ("dst",), _reduce_parts, strides=lambda call: (0, call.fields.step))
