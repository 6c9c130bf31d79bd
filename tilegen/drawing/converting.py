"""A layout in another notation, or the reason why that notation cannot say it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen import layouts
from tilegen.drawing.reading import Subject
from tilegen.errors import LayoutError
from tilegen.layouts import cute


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
    return layouts.over_shape(layout, subject.shape)


def _to_cute(subject: Subject) -> Any:
    if isinstance(subject.layout, layouts.PaddedSharedLayout):
        raise LayoutError(f"{subject.layout} pads, which shape:stride cannot say")
    return cute.from_tile(subject.layout, subject.shape)


def _to_linear(subject: Subject) -> Any:
    raise LayoutError("a conversion to LinearLayout does not exist yet")


def _to_gluon(subject: Subject) -> Any:
    raise LayoutError("a conversion to Gluon does not exist yet")


TARGETS: dict[str, Callable[[Subject], Any]] = {
    "linear": _to_linear, "cute": _to_cute, "tile": _to_tile, "gluon": _to_gluon,
}  # fmt: skip
