"""A layout in another notation, or the reason why that notation cannot say it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen import layouts
from tilegen.drawing.reading import Subject
from tilegen.errors import LayoutError
from tilegen.layouts import cute, linear

WARP_BITS = 5  # 32 lanes


def convert(subject: Subject, target: str) -> Any:
    """The same map as tile (TileLayout and ComposeLayout), cute, linear or gluon.

    Raises LayoutError with the reason where there is none.

    >>> from tilegen.drawing.reading import read_subject
    >>> print(convert(read_subject("S[(8, 4, 2):(2, 16, 1)]", (8, 8)), "cute"))
    (8,(2,4)):(2,(1,16))
    """
    return TARGETS[target](subject)


def _to_tile(subject: Subject) -> Any:
    layout = subject.layout
    if isinstance(layout, layouts.PaddedSharedLayout):
        raise LayoutError(f"{layout} pads, which no TileLayout can say")
    if isinstance(layout, layouts.LinearLayout):
        return linear.to_tile(layout)
    return layouts.over_shape(layout, subject.shape)


def _to_cute(subject: Subject) -> Any:
    if isinstance(subject.layout, layouts.PaddedSharedLayout):
        raise LayoutError(f"{subject.layout} pads, which shape:stride cannot say")
    return cute.from_tile(_to_tile(subject), subject.shape)


def _to_linear(subject: Subject) -> Any:
    if isinstance(subject.layout, layouts.LinearLayout):
        return subject.layout
    return linear.to_linear(subject.layout, subject.shape)


def _to_gluon(subject: Subject) -> Any:
    """A layout that Gluon has by name as it is, any other as Gluon's general linear ones."""
    if isinstance(subject.given, layouts.PaddedSharedLayout) or hasattr(subject.given, "to_linear"):
        return subject.given
    return spell_gluon(_to_linear(subject))


def spell_gluon(layout: Any) -> str:
    """Gluon's DistributedLinearLayout of a linear layout of registers, its SharedLinearLayout of one of offsets.

    Raises LayoutError for other inputs, and for warps that have not 32 lanes.
    """
    bases = layout.bases
    if set(bases) <= {"offset", "block"}:
        return f"SharedLinearLayout(offset_bases={bases.get('offset', [])}, block_bases={bases.get('block', [])})"
    if other := sorted(set(bases) - {"register", "lane", "warp", "block"}):
        raise LayoutError(
            f"Gluon's layouts have registers, lanes, warps and blocks, or offsets, not {', '.join(other)}"
        )
    if len(bases.get("lane", [])) != WARP_BITS:
        raise LayoutError(f"Gluon's warps have 32 lanes, this layout has {1 << len(bases.get('lane', []))}")
    names = {"reg_bases": "register", "lane_bases": "lane", "warp_bases": "warp", "block_bases": "block"}
    parts = [f"{argument}={bases.get(name, [])}" for argument, name in names.items()]
    return f"DistributedLinearLayout({', '.join(parts)}, shape={list(layout.shape)})"


TARGETS: dict[str, Callable[[Subject], Any]] = {
    "linear": _to_linear, "cute": _to_cute, "tile": _to_tile, "gluon": _to_gluon,
}  # fmt: skip
