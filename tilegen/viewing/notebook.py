"""A layout or a kernel in a notebook: its page in a frame, which carries everything with it."""

from __future__ import annotations

from html import escape
from typing import Any

from tilegen import drawing
from tilegen.errors import LayoutError
from tilegen.pipeline import Built
from tilegen.spec.outline import launch_of
from tilegen.viewing.page import layout_page, write_page
from tilegen.viewing.presets import spell_for_page
from tilegen.viewing.specs import page_of

HEIGHT = 720  # pixels of the frame


def notebook_html(value: Any) -> str | None:
    """A frame with the page of a layout or of a kernel; None for a layout that needs a shape, or has runtime extents.

    The frame has no access to the notebook around it.

    >>> from tilegen.layouts import BlockedLayout, parse
    >>> notebook_html(parse("S[(8, 64)]")).count("<iframe"), notebook_html(BlockedLayout([1], [32], [1], [0]))
    (1, None)
    """
    if isinstance(value, Built):
        page = write_page(page_of(value.spec, value.plan, launch_of(value.spec), value.source))
        return _frame(page, f"The kernel {value.plan.name}")
    try:
        subject = drawing.take_subject(value)
        drawing.locate(subject, [0] * len(subject.shape))
        page = layout_page(spell_for_page(subject), subject.shape)
    except (LayoutError, TypeError):  # an extent that is known at run time only has no picture
        return None
    return _frame(page, f"The layout {subject.given}")


def _frame(page: str, title: str) -> str:
    return (
        f'<iframe title="{escape(title)}" srcdoc="{escape(page)}" sandbox="allow-scripts" '
        f'style="width:100%;height:{HEIGHT}px;border:1px solid #8a939e;border-radius:6px"></iframe>'
    )
