"""A layout or a kernel in a notebook: small enough to be kept in it, and with nothing to be fetched.

A layout is a picture. A kernel is its page in a frame, packed: the browser unpacks it.
"""

from __future__ import annotations

import base64
import zlib
from html import escape
from typing import Any

from tilegen import drawing
from tilegen.errors import LayoutError
from tilegen.pipeline import Built, BuiltProgram
from tilegen.spec.outline import launch_of
from tilegen.viewing.page import write_page
from tilegen.viewing.specs import page_of

HEIGHT = 720  # pixels of the frame
MOST_BYTES = 40_000  # of a layout
_CELLS = (512, 256, 192, 128, 64, 16)  # of its picture: as many as fit
_UNPACK = """<!doctype html><meta charset="utf-8"><noscript>The page of a kernel needs JavaScript.</noscript><script>
const packed = Uint8Array.from(atob("{packed}"), (c) => c.charCodeAt(0));
const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
new Response(stream).text().then((text) => {{ document.open(); document.write(text); document.close(); }});
</script>"""


def notebook_html(value: Any) -> str | None:
    """The picture of a layout, the page of a kernel, of a program the page of each kernel.

    None for a layout that needs a shape, or has runtime extents.

    Neither has access to the notebook around it.

    >>> from tilegen.layouts import BlockedLayout, parse
    >>> notebook_html(parse("S[(8, 64)]"))[:4], notebook_html(BlockedLayout([1], [32], [1], [0]))
    ('<img', None)
    """
    if isinstance(value, Built):
        page = write_page(page_of(value.spec, value.plan, launch_of(value.spec), value.source))
        return _frame(page, f"The kernel {value.plan.name}")
    if isinstance(value, BuiltProgram):
        return "".join(filter(None, map(notebook_html, value.passes)))
    try:
        subject = drawing.take_subject(value)
        picture = drawing.draw_layout(subject)
    except (LayoutError, TypeError):  # an extent that is known at run time only has no picture
        return None
    parts = (drawing.crop_picture(picture, cells) for cells in _CELLS)
    images = (_image(drawing.svg_of(part, str(subject.given)), f"The layout {subject.given}") for part in parts)
    return next((image for image in images if len(image.encode()) <= MOST_BYTES), None)


def _image(svg: str, title: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(title)}" style="max-width:none" src="data:image/svg+xml;base64,{data}">'


def _frame(page: str, title: str) -> str:
    packed = base64.b64encode(zlib.compress(page.encode(), 9)).decode()
    return (
        f'<iframe title="{escape(title)}" srcdoc="{escape(_UNPACK.format(packed=packed))}" sandbox="allow-scripts" '
        f'style="width:100%;height:{HEIGHT}px;border:1px solid #8a939e;border-radius:6px"></iframe>'
    )
