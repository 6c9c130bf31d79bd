"""A layout as a user writes it, in tilegen's notation or CuTe's, over a shape; and the same in other notations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tilegen import layouts
from tilegen.errors import LayoutError
from tilegen.layouts import cute, linear

_PLAIN = {"row": layouts.row_major, "col": layouts.column_major}


@dataclass(frozen=True)
class Subject:
    """What was written (``given``), what places its elements (``layout``), and the logical shape."""

    given: Any
    layout: Any
    shape: tuple[int, ...]

    @property
    def kind(self) -> str:
        """The name of the layout's class; CuTe's are marked."""
        name = type(self.given).__name__
        return f"cute.{name}" if name in cute.__all__ else name


def read_layout(text: str, shape: Sequence[int] | None = None) -> Any:
    """The layout of a text, in tilegen's notation or in CuTe's; ``row`` and ``col`` are of ``shape``, as in a spec.

    Raises LayoutError, with the place in the text where there is one, for what is no layout.

    >>> print(read_layout("(8,4)"), read_layout("row", (8, 64)))
    (8,4):(1,8) S[(8, 64):(64, 1)]
    >>> print(read_layout("Swizzle<3,3,3>"))
    Sw<3,3,3> elements
    """
    if (plain := _PLAIN.get(text.strip())) is not None:
        if shape is None:
            raise LayoutError(f"'{text.strip()}' needs a shape", hint="give one: --shape 8,64", code="TG105")
        return plain(shape)
    return cute.parse(text) if cute.is_printed(text) else layouts.parse(text)


def read_subject(text: str, shape: Sequence[int] | None = None) -> Subject:
    """The layout of a text over ``shape``, as ``read_layout`` and ``take_subject``.

    >>> print(read_subject("(8,(2,4)):(2,(1,16))").layout)
    S[(8, 4, 2):(2, 16, 1)]
    >>> read_subject("S[(8, 4, 2):(4@laneid, 1@laneid, 1)]", (8, 8)).shape
    (8, 8)
    >>> read_subject("tiled_mma('mma.m16n8k16', (2, 2, 1), None, 'C', (64, 32, 16))").shape
    (64, 32)
    """
    given, mma = read_layout(text, shape), None if shape else layouts.read_mma(text)
    return take_subject(given, layouts.covered_shape(*mma) if mma else shape)


def take_subject(given: Any, shape: Sequence[int] | None = None) -> Subject:
    """A layout of any kind over ``shape``; default: the shape that it has, else one dimension for each shard iter.

    Raises LayoutError for a shape of another size, and where one is needed to know the places.

    >>> take_subject(layouts.parse("Swizzle(3, 3, 3)")).shape
    (512,)
    """
    if isinstance(given, cute.CuteLayout | cute.Swizzle | cute.ComposedLayout):
        modes = _modes(given)
        return _fit(given, cute.to_tile(given), shape, tuple(map(cute.size, modes)) if modes else None)
    if hasattr(given, "to_linear") and not hasattr(given, "place"):
        if shape is None:
            raise LayoutError(
                f"{type(given).__name__} places a tensor of any shape: say which", hint="--shape 64,64, for example"
            )
        return _fit(given, given.to_linear(list(shape)), shape, shape)
    return _fit(given, given, shape, getattr(given, "shape", None))


def _modes(given: Any) -> tuple[cute.CuteLayout, ...]:
    if isinstance(given, cute.Swizzle):
        return ()
    return cute.modes_of(given.layout if isinstance(given, cute.ComposedLayout) else given)


def _fit(given: Any, layout: Any, shape: Sequence[int] | None, own: Sequence[int] | None) -> Subject:
    if isinstance(layout, layouts.SwizzleLayout):  # defined on every address, so on every shape
        return Subject(given, layout, tuple(shape) if shape is not None else (layouts.period(layout),))
    if own is None:
        own = tuple(i.extent for i in layouts.tile_of(layout).shard)  # type: ignore[misc]
    if shape is not None and prod(shape) != prod(own):
        raise LayoutError(f"shape {spell_shape(shape)} has {prod(shape)} elements, the layout has {prod(own)}")
    return Subject(given, layout, tuple(own if shape is None else shape))


def spell_shape(shape: Sequence[int]) -> str:
    """
    >>> spell_shape((8, 64))
    '8 x 64'
    """
    return " x ".join(map(str, shape))


# ---------------------------------------------------------------- in another notation
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
