"""What a notebook shows of a value: a page in a frame, made by who can draw it.

Layouts and kernels stand far below the page, so they only ask here; ``tilegen`` itself says who answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Shown:
    """What has a picture in a notebook; elsewhere it is its text."""

    def _repr_html_(self) -> str | None:
        """HTML that needs no network, or None where there is nothing to draw: then the text stands."""
        return html_of(self)


_drawers: list[Callable[[Any], str | None]] = []


def draw_with(drawer: Callable[[Any], str | None]) -> None:
    """Let ``drawer`` answer for every value; the last one that was given does."""
    _drawers.append(drawer)


def html_of(value: Any) -> str | None:
    """The HTML of a value, None where nobody draws or there is no picture of it.

    >>> from tilegen.layouts import parse
    >>> html_of(parse("S[(8, 64)]")).startswith("<img")
    True
    """
    return _drawers[-1](value) if _drawers else None
