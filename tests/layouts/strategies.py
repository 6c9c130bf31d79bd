"""Random layouts for the law tests."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from tests.session import examples
from tilegen.layouts import AXES, ComposeLayout, Iter, SwizzleLayout, TileLayout

law = settings(deadline=None, max_examples=examples(150))  # each law runs on that many random layouts

EXTENTS = st.sampled_from((1, 2, 3, 4, 5, 8))
STRIDES = st.sampled_from((0, 1, 2, 3, 4, 8, 12, 16, 33))


@st.composite
def tiles(draw: Any, axes: tuple[str, ...] = tuple(AXES), max_iters: int = 4) -> TileLayout:
    iters = st.builds(Iter, EXTENTS, STRIDES, st.sampled_from(axes))
    offset = draw(st.dictionaries(st.sampled_from(axes), st.integers(0, 40), max_size=2))
    shard = draw(st.lists(iters, min_size=1, max_size=max_iters))
    return TileLayout.from_iters(shard, draw(st.lists(iters, max_size=2)), offset)


@st.composite
def swizzles(draw: Any) -> SwizzleLayout:
    bits = draw(st.integers(0, 3))
    return SwizzleLayout(draw(st.integers(0, 3)), bits, draw(st.integers(bits, 4)), draw(st.booleans()))


COMPOSED = st.builds(ComposeLayout, swizzles(), tiles(axes=("m",)))
LAYOUTS = st.one_of(tiles(), tiles(axes=("laneid", "warpid", "m")), swizzles(), COMPOSED)


@st.composite
def grouped(draw: Any) -> tuple[Any, tuple[int, ...]]:
    """A layout and a shape that it groups by: its extents, neighbours multiplied, some split, some units put in."""
    layout = draw(st.one_of(tiles(), COMPOSED))
    shape: list[int] = []
    for i in layout.shard if isinstance(layout, TileLayout) else layout.tile.shard:
        if shape and draw(st.booleans()):
            shape[-1] *= i.extent
        elif i.extent % 2 == 0 and draw(st.booleans()):
            shape += [2, i.extent // 2]
        else:
            shape += [i.extent] + [1] * draw(st.integers(0, 1))
    return layout, tuple(shape)
