"""explain as static SVG: the ops of a kernel with what they cost, beside what nothing could cost less than."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tilegen.decisions import COLUMNS, describe_answer, printable, wrap_line
from tilegen.drawing import svg_page
from tilegen.report import say_summary
from tilegen.spaces import SECTORS, SPACES

Data = Mapping[str, Any]
WIDTH, PAD, LINE, BAR = 860, 16, 18, 160  # pixels: the picture, around it, a line of text, the longest bar
CHARACTERS = 46  # of an op's text
_FIGURES = (("sectors", 400), ("wavefronts", 630))
_STYLE = (
    "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#16191d}"
    ".t{font-weight:600;font-size:14px}"
    ".n{fill:#565e68}.b{fill:#84b2e0}.o{fill:#ea9d82}.f{stroke:#16191d;stroke-width:2}.l{stroke:#d5dae0}"
    "@media(prefers-color-scheme:dark){text{fill:#eceff3}.n{fill:#a8b1bc}.f{stroke:#fff}.l{stroke:#343b44}}"
)


def explained_svg(explained: Data) -> str:
    """The picture of what ``tilegen.explain`` returns: a bar for each op's sectors and wavefronts, a mark at its floor.

    >>> import tilegen
    >>> ops = [{"copy": {"src": "A", "dst": "B"}}]
    >>> buffers = {name: {"scope": "global", "dtype": "float32", "shape": [32]} for name in "AB"}
    >>> spec = {"kernel": "k", "threads": 32, "grid": {"bx": 1}, "buffers": buffers, "ops": ops}
    >>> explained_svg(tilegen.explain(spec)).count('class="b"')  # 8 sectors, none above the floor
    1
    """
    sentence = say_summary(explained["kernel"], explained["threads"], explained["summary"])
    lines = [*wrap_line(sentence), *(_spell(c) for c in explained["choices"] if c["candidates"])]
    body = [f'<text class="t" x="{PAD}" y="{PAD + 14}">{escape(explained["kernel"])} for {explained["arch"]}</text>']
    body += [
        f'<text class="n" x="{PAD}" y="{PAD + 36 + k * LINE}">{escape(line)}</text>' for k, line in enumerate(lines)
    ]
    top = PAD + 36 + len(lines) * LINE + 24
    heads = (("op", PAD), *((f"{name} of a CTA", x) for name, x in _FIGURES))
    body += [f'<text class="n" x="{x}" y="{top - 8}">{name}</text>' for name, x in heads]
    body.append(f'<line class="l" x1="{PAD}" x2="{WIDTH - PAD}" y1="{top}" y2="{top}"/>')
    ops = explained["ops"]
    most = {name: max((op["cost"][name] for op in ops), default=0) or 1 for name, _ in _FIGURES}
    for k, op in enumerate(ops):
        body += _op(k + 1, op, most, top + 8 + k * 2 * LINE)
    described = "; ".join(f"op {k}, {op['text']}: {op['variant']}" for k, op in enumerate(ops, 1))
    height = top + 8 + len(ops) * 2 * LINE + PAD
    return svg_page(WIDTH, height, printable(sentence), printable(described), body, _STYLE)


def _spell(choice: Data) -> str:
    answer = describe_answer(choice["question"], choice["picked"])
    text = printable(f"{choice['question']}: {answer}, of {len(choice['candidates'])}")
    return text if len(text) <= COLUMNS else f"{text[: COLUMNS - 3]}..."


def _op(number: int, op: Data, most: Mapping[str, int], y: int) -> list[str]:
    text = printable(f"{number}. {op['text']}")
    text = text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 3]}..."
    lines = [
        f'<text x="{PAD}" y="{y + 13}">{escape(text)}</text>',
        f'<text class="n" x="{PAD + 22}" y="{y + 13 + LINE - 3}">{escape(op["variant"])}</text>',
    ]
    for name, x in _FIGURES:
        if value := op["cost"][name]:
            lines += _bar(x, y, value, _floor(op["accesses"], name), most[name])
    return lines


def _floor(accesses: Sequence[Data], figure: str) -> int | None:
    """The least that the op's accesses could cost; None where one is not known."""
    key = "sectors_floor" if figure == SECTORS else "floor"
    floors = [a[key] for a in accesses if SPACES[a["space"]].figure == figure]
    return None if None in floors else sum(floors)


def _bar(x: int, y: int, value: int, floor: int | None, most: int) -> list[str]:
    width = round(BAR * value / most, 1)
    above = floor is not None and value > floor
    lines = [
        f'<rect class="{"o" if above else "b"}" x="{x}" y="{y + 3}" width="{width}" height="12"/>',
        f'<text x="{x + width + 6}" y="{y + 13}">{value}</text>',
    ]
    if above and floor is not None:
        at = x + round(BAR * floor / most, 1)
        lines.append(f'<line class="f" x1="{at}" x2="{at}" y1="{y + 1}" y2="{y + 17}"/>')
    return lines
