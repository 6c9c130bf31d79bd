"""One self-contained HTML page: the data as JSON, the bundled script and style, nothing from a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilegen import __version__
from tilegen.viewing.presets import PresetGroup, own_presets, own_tilings, read_layout_preset, tiling_data

_HERE = Path(__file__).parent
EXAMPLES = _HERE / "examples.json"


@dataclass(frozen=True)
class PageData:
    """What a page is given: JSON data throughout. ``spec`` is None on a page of layouts alone."""

    title: str
    presets: tuple[PresetGroup, ...]
    mma: Sequence[dict[str, Any]]
    specs: tuple[str, ...] = ()  # files that `tilegen view` would open
    examples: tuple[dict[str, Any], ...] = ()  # specs as presets, see viewing/examples.py
    spec: dict[str, Any] | None = None
    opens: str = "layout"  # the tab that is shown first: choices, code, time, layout, mma or about


def write_page(page: PageData) -> str:
    """The HTML of a page; the same data gives the same bytes."""
    from tilegen.templating import fill_in  # here: pages are written late

    texts = {name: (_HERE / f"page.{name}").read_text(encoding="utf-8") for name in ("html.j2", "css", "js")}
    data = json.dumps({"version": __version__, **asdict(page)}, separators=(",", ":"), ensure_ascii=False)
    return fill_in(
        texts["html.j2"], title=_escape(page.title), style=texts["css"], script=texts["js"],
        data=data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"),
    )  # fmt: skip


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def layout_page(text: str | None = None, shape: Sequence[int] | None = None, specs: Sequence[str] = ()) -> str:
    """The page of a layout's text over ``shape``, with the presets beside it; of presets alone without a text.

    A text that is one call of tiled_mma opens in the tab of tiled products, as long as it asks for no other shape.

    Raises LayoutError for what is no layout.

    >>> "S[(8, 64):(64, 1)]" in layout_page("S[(8, 64)]")
    True
    """
    presets, mma, opens = own_presets(), own_tilings(), "layout"
    if text is not None:
        given = read_layout_preset(text, shape)
        presets = (PresetGroup("Given", (given,)), *presets)
        tilings = _given_tiling(text)
        mma = (*tilings, *mma)
        opens = "mma" if tilings and shape is None else "layout"
    page = PageData(
        text or "Layouts", presets, mma, specs=tuple(specs), examples=read_examples(), opens=opens
    )  # fmt: skip
    return write_page(page)


@cache
def read_examples() -> tuple[dict[str, Any], ...]:
    """The specs of specs/ as ``viewing/examples.py`` wrote them, by name."""
    return tuple(json.loads(EXAMPLES.read_text(encoding="utf-8")))


def _given_tiling(text: str) -> list[dict[str, Any]]:
    from tilegen.layouts import read_mma

    read = read_mma(text)
    data = tiling_data("given", "as given", read[0]) if read else None
    return [data] if data and data["runs"] else []
