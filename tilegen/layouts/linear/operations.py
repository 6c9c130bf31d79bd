"""What linear layouts do to each other: composition, inverse, product, the accesses that move one to another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilegen.errors import LayoutError
from tilegen.layouts.core.iters import flatten, split
from tilegen.layouts.linear.converting import to_linear
from tilegen.layouts.linear.matrices import Columns, eliminate, rank_of, span_basis
from tilegen.layouts.linear.values import LinearLayout, linear_from_columns, name_bits

WARP_LANES = 32
MOST_BYTES = 16  # PTX ISA, ld.shared and st.shared: .v4.b32 moves the most


def bases(layout: object, shape: Sequence[int] | None = None) -> dict[str, list[list[int]]]:
    """The bases of any XOR-linear layout over a buffer of ``shape``: {input: one coordinate for each bit}.

    Linear layouts know their shape. Raises LayoutError as ``to_linear``.

    >>> from tilegen.layouts import mma_fragment
    >>> found = bases(mma_fragment("m16n8k8", "C"), (16, 8))
    >>> found["register"], found["lane"]
    ([[0, 1], [8, 0]], [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]])
    """
    return to_linear(layout, shape).bases


def compose(outer: LinearLayout, inner: LinearLayout) -> LinearLayout:
    """outer after inner: (outer o inner)(p) = outer(inner(p)); inner's outs are named as outer's inputs.

    Inputs of ``outer`` that ``inner`` does not name stay at 0. Raises LayoutError when an out is no input of ``outer``
    or reaches past it.

    >>> registers = LinearLayout(register=[[0, 1]], lane=[[1, 0]], shape=[2, 2])
    >>> memory = LinearLayout(offset=[[0, 1], [1, 1]], shape=[2, 2])
    >>> print(compose(inverse(memory), registers))
    LinearLayout(register=[[1]], lane=[[3]], shape=[4], outs=['offset'])
    """
    sizes = outer.in_sizes
    for name, n in zip(inner.outs, inner.shape, strict=True):
        if name not in sizes:
            raise LayoutError(f"{name} is no input of {outer}: inputs are {', '.join(outer.names) or 'none'}")
        if n > sizes[name]:
            raise LayoutError(f"{name} reaches {n} positions, but {outer} has {sizes[name]}")
    columns = []
    for _, vectors in inner.inputs:
        for vector in vectors:
            element = outer.element(**dict(zip(inner.outs, vector, strict=True)))
            columns.append(flatten(element, outer.shape))
    widths = dict(zip(inner.names, inner.widths, strict=True))
    return linear_from_columns(columns, widths, outer.shape, outer.outs)


def inverse(layout: LinearLayout) -> LinearLayout:
    """The map from logical to hardware coordinates, copies at their first place: layout o inverse = identity.

    Its inputs are the layout's outs, its outs the inputs. Raises LayoutError with an element that is held nowhere.

    >>> print(inverse(LinearLayout(offset=[[0, 1], [1, 1]])))
    LinearLayout(dim0=[[3]], dim1=[[1]], shape=[4], outs=['offset'])
    """
    found = layout.inverse_columns
    if not isinstance(found, tuple):
        raise LayoutError(f"{layout} has no inverse: it holds element {tuple(split(found, layout.shape))} nowhere")
    vectors = [tuple(name_bits(layout, column).get(name, 0) for name in layout.names) for column in found]
    inputs: dict[str, list[tuple[int, ...]]] = {}
    low = layout.out_bits
    for name, n in zip(layout.outs, layout.shape, strict=True):  # the last dimension has the lowest bits
        low -= n.bit_length() - 1
        inputs[name] = vectors[low : low + n.bit_length() - 1]
    return LinearLayout(shape=[1 << w for w in layout.widths], outs=layout.names, **inputs)


def kernel(layout: LinearLayout) -> tuple[dict[str, int], ...]:
    """A basis of the places that hold element 0: XORing one into a place gives another copy of the same element.

    >>> kernel(LinearLayout(register=[[1]], lane=[[1], [0]]))
    ({'register': 1, 'lane': 1}, {'lane': 2})
    """
    return tuple(name_bits(layout, vector) for vector in span_basis(eliminate(layout.columns).kernel))


def image(layout: LinearLayout) -> tuple[tuple[int, ...], ...]:
    """A basis of the elements that are held, smallest first.

    >>> image(LinearLayout(lane=[[1, 1], [0, 2], [1, 3]]))
    ((0, 2), (1, 1))
    """
    return tuple(tuple(split(vector, layout.shape)) for vector in span_basis(layout.columns))


def is_injective(layout: LinearLayout) -> bool:
    """Whether no two places hold the same element: the kernel is 0.

    >>> is_injective(LinearLayout(lane=[[1], [0]]))
    False
    """
    return rank_of(layout.columns) == len(layout.columns)


def is_surjective(layout: LinearLayout) -> bool:
    """Whether every element is held somewhere: the image is everything.

    >>> is_surjective(LinearLayout(lane=[[1], [4]]))
    False
    """
    return rank_of(layout.columns) == layout.out_bits


def product(inner: LinearLayout, outer: LinearLayout) -> LinearLayout:
    """Side by side, as Triton's ``*``: inputs of one name follow each other, inner bits first, and so do the outs.

    (inner * outer)(p + 2**k q) = inner(p) + size * outer(q) for k inner bits. Raises LayoutError above 62 bits.

    >>> print(product(LinearLayout(register=[[1]]), LinearLayout(lane=[[1]], register=[[2]])))
    LinearLayout(register=[[1], [4]], lane=[[2]], shape=[8])
    """
    sizes = dict(zip(inner.outs, inner.shape, strict=True))
    outs = tuple(dict.fromkeys((*inner.outs, *outer.outs)))
    inputs: dict[str, list[tuple[int, ...]]] = {name: [] for name in (*inner.names, *outer.names)}
    for layout, scales in ((inner, dict.fromkeys(outs, 1)), (outer, sizes)):
        for name, vectors in layout.inputs:
            for vector in vectors:
                at = dict(zip(layout.outs, vector, strict=True))
                inputs[name].append(tuple(at.get(out, 0) * scales.get(out, 1) for out in outs))
    other = dict(zip(outer.outs, outer.shape, strict=True))
    shape = [sizes.get(out, 1) * other.get(out, 1) for out in outs]
    return LinearLayout(shape=shape, outs=outs, **inputs)


def reshape(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The same map with the row-major flat index split by another shape of equal size.

    Raises LayoutError for a shape of another size and extents that are no powers of two.

    >>> print(reshape(LinearLayout(offset=[[0, 1], [1, 1]]), (4,)))
    LinearLayout(offset=[[1], [3]], shape=[4])
    """
    return to_linear(layout, shape)


# ---------------------------------------------------------------- a tensor between registers and shared memory
def warp_accesses(
    registers: LinearLayout, shared: LinearLayout, elem_bytes: int, warp: int = 0
) -> tuple[int, NDArray[np.int64]]:
    """(bytes of each lane's access, byte offsets [access, lane]) when one warp moves all its registers.

    Offsets are those of shared^-1 o registers. A lane's vector is the largest aligned run of offsets, up to 16 bytes,
    whose bits are bits of the register number, in any order; a register that repeats another is not moved twice. Lanes
    that the layout does not have are -1. Raises LayoutError when elements are held by no offset, when lanes are more
    than 32, and for elements over 16 bytes.

    >>> from tilegen.layouts import BlockedLayout, SwizzledSharedLayout
    >>> registers = BlockedLayout([1, 8], [32, 1], [1, 1], [1, 0]).to_linear((32, 8))
    >>> width, offsets = warp_accesses(registers, SwizzledSharedLayout(1, 1, 1, [1, 0]).to_linear((32, 8)), 2)
    >>> width, offsets[:, :4].tolist()
    (16, [[0, 16, 32, 48]])
    """
    if elem_bytes not in (1, 2, 4, 8, 16):
        raise LayoutError(f"an access moves elements of 1, 2, 4, 8 or 16 bytes, not {elem_bytes}")
    moves = compose(inverse(shared), registers)
    at = moves.outs.index("offset")
    columns = {name: tuple(vector[at] for vector in vectors) for name, vectors in moves.inputs}
    lanes = 1 << len(columns.get("lane", ()))
    if lanes > WARP_LANES:
        raise LayoutError(f"a warp has {WARP_LANES} lanes, not {lanes}")
    held = columns.get("register", ())
    unit = _vector(held, columns.get("lane", ()) + columns.get("warp", ()), MOST_BYTES // elem_bytes)
    first = _xor_all(np.zeros(1, np.int64), _beyond(held, unit))
    first = first ^ _pick(columns.get("warp", ()), warp)
    offsets = _xor_all(first, columns.get("lane", ())) * elem_bytes
    everything = np.full((len(first), WARP_LANES), -1, np.int64)
    everything[:, :lanes] = offsets.reshape(lanes, -1).T
    return unit * elem_bytes, everything


def _vector(held: Columns, other: Columns, most: int) -> int:
    """The largest aligned run of offsets, in elements, whose bits are bits of the register number."""
    unit = 1
    while unit < most and unit in held and not any(column & unit for column in (*held, *other) if column != unit):
        unit *= 2
    return unit


def _beyond(held: Columns, unit: int) -> Columns:
    """What selects the vectors of a lane: a basis of the offsets that it holds, in whole vectors."""
    return span_basis(column & -unit for column in held)


def _xor_all(values: NDArray[np.int64], columns: Sequence[int]) -> NDArray[np.int64]:
    """All combinations, the columns' bits above those of ``values``."""
    for column in columns:
        values = np.concatenate([values, values ^ column])
    return values


def _pick(columns: Columns, index: int) -> int:
    result = 0
    for k, column in enumerate(columns):
        result ^= column * (index >> k & 1)
    return result
