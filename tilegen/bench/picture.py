"""Bars of bytes in a second: in text, and as SVG for documents. The whole width is the device's own copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tilegen.bench.results import Result, gb_per_s, of_ceiling, spell_rate

TEXT_CELLS = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True)
class Bar:
    """``share`` of the ceiling; ``is_mine``: the kernel's own."""

    label: str
    share: float
    text: str
    is_mine: bool = False


@dataclass(frozen=True)
class Group:
    """The bars of one kernel."""

    title: str
    bars: tuple[Bar, ...]


def bars_of(result: Result) -> tuple[Bar, ...]:
    """A bar for the kernel and each peer that took part."""
    return tuple(
        Bar(row.name, of_ceiling(result, row), f"{spell_rate(gb_per_s(result.moved_bytes, row.us.median))} GB/s",
            row is result.mine)
        for row in (result.mine, *result.peers)
    )  # fmt: skip


def group_of(result: Result) -> Group:
    """The bars of a result under its kernel's name."""
    return Group(result.kernel, bars_of(result))


def draw_bar(share: float, cells: int = TEXT_CELLS) -> str:
    """A share from 0 to 1 as a bar of text, in eighths of a cell; what is more than 1 is drawn as 1.

    >>> draw_bar(0.5, 8), draw_bar(1.2, 4), draw_bar(0.0, 4)
    ('████', '████', '')
    """
    eighths = round(min(1.0, max(0.0, share)) * cells * 8)
    return (_EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


# ---------------------------------------------------------------- SVG
WIDTH, LABEL, VALUE = 720, 150, 110  # pixels: the picture, the labels on the left, the numbers on the right
ROW, TITLE, GAP = 20, 24, 12  # the height of a bar with its space, of a title, and between groups
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.t{font-weight:600}.n{text-anchor:end}"
    ".b{fill:#b8c4d0}.m{fill:#2b7a4b}.c{stroke:#999;stroke-dasharray:3 3}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.b{fill:#5b6b7a}.m{fill:#4fb477}}"
)


def svg_picture(groups: Sequence[Group], note: str = "") -> str:
    """An SVG picture of bars, the kernel's own in green; the dashed line is the device's own copy."""
    bars, height = [], GAP
    for group in groups:
        bars += _group_lines(group, height)
        height += TITLE + ROW * len(group.bars) + GAP
    right = WIDTH - VALUE
    line = f'<line class="c" x1="{right}" y1="{GAP}" x2="{right}" y2="{height - GAP}"/>'
    bottom = height + (TITLE if note else 0)
    text = [f'<text x="{LABEL}" y="{height + 10}">{escape(note)}</text>'] if note else []
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom}" viewBox="0 0 {WIDTH} {bottom}"'
        ' role="img">'
    )
    return "\n".join([head, f"<style>{_STYLE}</style>", *bars, line, *text, "</svg>"]) + "\n"


def _group_lines(group: Group, top: int) -> list[str]:
    lines = [f'<text class="t" x="{LABEL}" y="{top + 14}">{escape(group.title)}</text>']
    for k, bar in enumerate(group.bars):
        y = top + TITLE + ROW * k
        width = round((WIDTH - VALUE - LABEL) * min(1.0, max(0.0, bar.share)), 1)
        lines += [
            f'<text class="n" x="{LABEL - 8}" y="{y + 13}">{escape(bar.label)}</text>',
            f'<rect class="{"m" if bar.is_mine else "b"}" x="{LABEL}" y="{y + 2}" width="{width}" height="{ROW - 5}"/>',
            f'<text x="{WIDTH - VALUE + 8}" y="{y + 13}">{escape(bar.text)}</text>',
        ]
    return lines
