"""Pictures of a padded layout: its memory slot by slot, and the address of every element."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tilegen.errors import LayoutError
from tilegen.layouts.gluon.padded import PaddedSharedLayout

MAX_IMAGE_SLOTS = 1 << 24
MAX_DRAWN_SLOTS = 1 << 16
NAMES = "xyzwuvst"  # of dimensions, as in x2y0
Ints = np.ndarray[Any, np.dtype[np.int64]]


def image_memory(layout: PaddedSharedLayout, block: int = 0) -> list[int | None]:
    """What each slot of one CTA's memory holds: the row-major logical index of an element, None for padding.

    Raises LayoutError for a CTA that the layout does not have and for more than 2**24 slots.

    >>> image_memory(PaddedSharedLayout([[2, 2]], [[2], [1]], [], [4]))
    [0, 2, None, None, 1, 3]
    """
    if isinstance(block, bool) or not isinstance(block, int) or not 0 <= block < layout.blocks:
        raise LayoutError(f"block {block!r} is not one of the {layout.blocks} CTAs of {layout}")
    if layout.allocated_elems > MAX_IMAGE_SLOTS:
        raise LayoutError(f"{layout.allocated_elems} slots are too many for an image; at most {MAX_IMAGE_SLOTS}")
    slots: list[int | None] = [None] * layout.allocated_elems
    held = _held_by(layout, block)
    for at, element in zip(layout.finish(np.arange(held.size)).tolist(), held.tolist(), strict=True):
        slots[at] = element
    return slots


def _held_by(layout: PaddedSharedLayout, block: int) -> Ints:
    """The row-major logical index at every offset of a CTA, padding left out: the sum of the bases of its bits."""
    tile_shape = layout.block_shape
    strides = [prod(layout.shape[d + 1 :]) for d in range(len(layout.shape))]
    start = sum(
        step * tile_shape[d] * strides[d]
        for k, basis in enumerate(layout.cga_layout) if block >> k & 1
        for d, step in enumerate(basis)
    )  # fmt: skip
    held = np.full(1, start, np.int64)
    for basis in layout.offset_bases:
        held = np.concatenate([held, held + sum(step * s for step, s in zip(basis, strides, strict=True))])
    return held


def draw_hardware(layout: PaddedSharedLayout, shape: Sequence[int]) -> str:
    """The slots of memory in order: x2y0 is the element (2, 0), p3 the fourth element of padding.

    A line ends with the padding after the longest interval; each CTA of several is headed. Raises LayoutError for
    another shape than the layout's and for more than 2**16 slots.

    >>> print(draw_hardware(PaddedSharedLayout([[2, 2]], [[2], [1]], [], [4]), [4]))
    [x0, x2, p0, p1,
     x1, x3]
    """
    _require_drawable(layout, shape)
    pictures = [_draw_block(layout, block) for block in range(layout.blocks)]
    if len(pictures) == 1:
        return pictures[0]
    return "\n".join(f"block {block}:\n{picture}" for block, picture in enumerate(pictures))


def _draw_block(layout: PaddedSharedLayout, block: int) -> str:
    elems = layout.elems_per_block
    names: list[str] = []
    pads = 0
    for element in image_memory(layout, block):
        names.append(_name_element(element, layout.shape) if element is not None else f"p{pads}")
        pads += element is None
    line = max((interval for interval, _ in layout.interval_padding_pairs if interval < elems), default=elems)
    ends = [layout.finish(at) for at in range(line, elems, line)] + [len(names)]
    lines = [", ".join(names[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    return "[" + ",\n ".join(lines) + "]"


def _name_element(flat: int, shape: Sequence[int]) -> str:
    coords = np.unravel_index(flat, tuple(shape))
    return "".join(f"{name}{x}" for name, x in zip(NAMES, coords, strict=False))


def draw_tensor(layout: PaddedSharedLayout, shape: Sequence[int]) -> str:
    """The address of every element in the nesting of the shape, padding included; ``block:address`` with several CTAs.

    Elements that several CTAs hold are shown in the first. Raises LayoutError for another shape than the layout's and
    for more than 2**16 slots.

    >>> print(draw_tensor(PaddedSharedLayout.with_identity_for([[4, 1]], [2, 4], [1, 0]), [2, 4]))
    [[0, 1, 2, 3],
     [5, 6, 7, 8]]
    """
    _require_drawable(layout, shape)
    place = layout.place(list(np.indices(layout.shape).reshape(len(layout.shape), -1)), layout.shape)
    texts = [str(at) for at in place["m"].tolist()]
    if layout.blocks > 1:
        owners = np.broadcast_to(place.get("cbx", 0), place["m"].shape).tolist()
        texts = [f"{owner}:{text}" for owner, text in zip(owners, texts, strict=True)]
    width = max(map(len, texts))
    return _nest([text.rjust(width) for text in texts], layout.shape, 1)


def _nest(texts: list[str], shape: Sequence[int], depth: int) -> str:
    if len(shape) == 1:
        return "[" + ", ".join(texts) + "]"
    step = len(texts) // shape[0]
    parts = [_nest(texts[k : k + step], shape[1:], depth + 1) for k in range(0, len(texts), step)]
    return "[" + (",\n" + " " * depth).join(parts) + "]"


def _require_drawable(layout: PaddedSharedLayout, shape: Sequence[int]) -> None:
    if list(shape) != list(layout.shape):
        raise LayoutError(f"{layout} is of shape {list(layout.shape)}, not {list(shape)}")
    if layout.allocated_elems * layout.blocks > MAX_DRAWN_SLOTS:
        slots = layout.allocated_elems * layout.blocks
        raise LayoutError(f"{slots} slots are too many for a picture; at most {MAX_DRAWN_SLOTS}")
