"""A picture of a tile as static SVG for documents: the cells of ``Picture``, their colours, and a text alternative.

The eight colours are Paul Tol's "light" scheme, which colour-blind readers tell apart; every cell is written as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tilegen.drawing.picture import Picture

COLORS = ("#9dc3ea", "#b5e8f7", "#8bd6bd", "#d3e07a", "#f4e3a1", "#f4b199", "#ffc9d3", "#c9c985")
CHARACTER, ROW, GAP, PAD, LINE = 7, 20, 1, 12, 18  # pixels: of a character, a row, between cells, around, of a note
PAPER = ".paper{fill:#fff}@media(prefers-color-scheme:dark){.paper{fill:#14171b}}"
STYLE = (
    "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#565e68}.t{font-weight:600;fill:#16191d}"
    ".c{text-anchor:middle;fill:#16191d}.h{text-anchor:middle}.r{text-anchor:end}"
    + "".join(f".k{k}{{fill:{color}}}" for k, color in enumerate(COLORS))
    + "@media(prefers-color-scheme:dark){text{fill:#a8b1bc}.t{fill:#eceff3}.c{fill:#0d0f12}}"
)


def svg_of(picture: Picture, title: str) -> str:
    """The picture as SVG; ``title`` and what a cell says are its text alternative.

    >>> from tilegen.drawing import draw_layout, read_subject
    >>> svg = svg_of(draw_layout(read_subject("S[(2, 2):(1, 2)]")), "two by two")
    >>> svg.count("<rect"), "<title" in svg, svg.startswith("<svg")
    (5, True, True)
    """
    left = PAD + max(map(len, picture.rows), default=0) * CHARACTER + 10
    wide = CHARACTER * max(map(len, (*picture.columns, *(text for row in picture.cells for text in row)))) + 10
    top = PAD + 2 * LINE + ROW
    bottom = top + len(picture.cells) * ROW + 8
    notes = [f"({note})" for note in picture.notes]
    longest = max(map(len, (title, picture.cell, *notes))) * CHARACTER + 2 * PAD
    width = max(left + len(picture.columns) * wide + PAD, longest)
    body = [
        f'<text class="t" x="{PAD}" y="{PAD + 12}">{escape(title)}</text>',
        f'<text x="{PAD}" y="{PAD + LINE + 12}">{escape(picture.cell)}</text>',
        *(
            f'<text class="h" x="{left + k * wide + wide // 2}" y="{top - 6}">{escape(text)}</text>'
            for k, text in enumerate(picture.columns)
        ),
    ]
    for r, (label, texts, keys) in enumerate(zip(picture.rows, picture.cells, picture.keys, strict=True)):
        body += _row(label, texts, keys, left, top + r * ROW, wide)
    body += [f'<text x="{PAD}" y="{bottom + k * LINE + 10}">{escape(note)}</text>' for k, note in enumerate(notes)]
    described = f"{picture.cell}; {len(picture.cells)} rows of {len(picture.columns)} cells"
    return svg_page(width, bottom + len(notes) * LINE + 8, title, described, body)


def _row(label: str, texts: Sequence[str], keys: Sequence[int], left: int, y: int, wide: int) -> list[str]:
    lines = [f'<text class="r" x="{left - 8}" y="{y + 14}">{escape(label)}</text>']
    for k, (text, key) in enumerate(zip(texts, keys, strict=True)):
        if text:
            x = left + k * wide
            lines.append(
                f'<rect class="k{key}" x="{x}" y="{y}" width="{wide - GAP}" height="{ROW - GAP}"/>'
                f'<text class="c" x="{x + wide // 2}" y="{y + 14}">{escape(text)}</text>'
            )
    return lines


def svg_page(width: int, height: int, title: str, described: str, body: Sequence[str], style: str = STYLE) -> str:
    """An SVG file of so many pixels, named and described for screen readers.

    The paper is part of the file, white or dark as whoever looks at it has asked for: ``style`` gives both their ink.

    >>> svg_page(10, 10, "a & b", "nothing", []).splitlines()[1]
    '<title id="title">a &amp; b</title><desc id="desc">nothing</desc>'
    """
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" aria-labelledby="title desc">'
    )
    named = f'<title id="title">{escape(title)}</title><desc id="desc">{escape(described)}</desc>'
    paper = '<rect class="paper" width="100%" height="100%"/>'
    return "\n".join([head, named, f"<style>{PAPER}{style}</style>", paper, *body, "</svg>"])
