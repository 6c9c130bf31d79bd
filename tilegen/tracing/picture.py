"""A timeline as static SVG for documents: the rows of a trace, measured and predicted, over microseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10
from typing import Any

from tilegen.decisions import wrap_line
from tilegen.drawing import svg_page
from tilegen.tracing.files import MEASURED, PREDICTED
from tilegen.tracing.sites import ARRIVAL, COPY, PRODUCT, SYNC, WAIT

Data = Mapping[str, Any]
KINDS = {WAIT: "waits", COPY: "copies", PRODUCT: "products", ARRIVAL: "arrivals", SYNC: "syncs"}
MOST_SLICES = 48  # of the busiest row: about so many are told apart
_MOST_CTAS = 2
_PLOT, _LEFT, _ROW, _TOP, _LINE = 740, 240, 18, 66, 18  # pixels
_STYLE = (
    "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#565e68}.t{font-weight:600;fill:#16191d}"
    ".r{text-anchor:end}.m{text-anchor:middle}.a{stroke:#8a929c;stroke-width:.5}.wait{fill:#f4b199}.copy{fill:#9dc3ea}"
    ".product{fill:#8bd6bd}.arrive{fill:#f4e3a1}.sync{fill:#c9c985}"
    "@media(prefers-color-scheme:dark){text{fill:#a8b1bc}.t{fill:#eceff3}}"
)


def trace_picture(data: Data) -> str:
    """A trace as SVG: of its first CTAs a row for each thread that stamped, and one for what is predicted of a role.

    It begins with the kernel, and ends where the busiest row has had ``MOST_SLICES``. The longest wait of what is shown
    stands below in words.
    """
    about = data["otherData"]
    slices = _list_slices(data)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in data["traceEvents"] if e.get("name") == "thread_name"}
    rows = sorted({(e["pid"], e["tid"]) for e in slices})
    end = find_end(data)
    shown = [e for e in slices if e["ts"] < end]
    title = f"{about['kernel']} on {about['device']}, {about['date']}"
    at = ", ".join(f"{name} = {value}" for name, value in about["params"].items())
    said = _say_longest([e for e in shown if _kind_of(about, e) == WAIT and e["cat"] == MEASURED])
    body = [f'<text class="t" x="8" y="20">{escape(title)}</text>', f'<text x="8" y="38">{escape(at)}</text>']
    body += _draw_legend(8, 56)
    bottom = _TOP + len(rows) * _ROW
    for k, row in enumerate(rows):
        y, cta = _TOP + k * _ROW, ", ".join(map(str, about["ctas"][row[0]]))
        body.append(f'<text class="r" x="{_LEFT - 8}" y="{y + 13}">{escape(f"({cta}) {names[row]}")}</text>')
        body += [_draw_slice(e, y, end, about) for e in shown if (e["pid"], e["tid"]) == row]
    for tick in _list_ticks(end):
        x = _LEFT + tick / end * _PLOT
        body.append(f'<path class="a" d="M{x:.1f} {_TOP - 4}V{bottom + 4}"/>')
        body.append(f'<text class="m" x="{x:.1f}" y="{bottom + 18}">{tick:g} us</text>')
    lines = wrap_line(said)
    body += [f'<text x="8" y="{bottom + 44 + k * _LINE}">{escape(line.strip())}</text>' for k, line in enumerate(lines)]
    described = f"{len(rows)} rows over {end:.1f} us; {said}"
    return svg_page(_LEFT + _PLOT + 40, bottom + 36 + len(lines) * _LINE, title, described, body, _STYLE)


def find_end(data: Data) -> float:
    """Until when the picture of a trace is, in microseconds."""
    ends, slices = dict[tuple[int, int], list[float]](), _list_slices(data)
    for e in slices:
        if e["cat"] == MEASURED:
            ends.setdefault((e["pid"], e["tid"]), []).append(e["ts"] + e["dur"])
    full = [sorted(own)[MOST_SLICES - 1] for own in ends.values() if len(own) >= MOST_SLICES]
    return float(min(full, default=max((e["ts"] + e["dur"] for e in slices), default=1e-3)))


def _list_slices(data: Data) -> list[Data]:
    return [e for e in data["traceEvents"] if e["ph"] == "X" and e["pid"] < _MOST_CTAS]


def _say_longest(waits: Sequence[Data]) -> str:
    if not waits:
        return "no role waits for anything"
    worst = max(waits, key=lambda e: e["dur"])
    args = worst["args"]
    told = f"; predicted: it waits {args['rows_waited']} rows, '{args['predicted']}'" if "predicted" in args else ""
    return f"the longest wait shown: '{worst['name']}', role {args['role']}, {worst['dur'] * 1e3:.0f} ns{told}"


def _kind_of(about: Data, event: Data) -> str:
    return str(about["sites"][event["args"]["site"] - 1]["kind"])


def _draw_slice(event: Data, y: int, end: float, about: Data) -> str:
    """One slice; of what is predicted a flat one."""
    x = _LEFT + event["ts"] / end * _PLOT
    width = max(0.5, (min(end, event["ts"] + event["dur"]) - event["ts"]) / end * _PLOT)
    top, height = (y + 6, 6) if event["cat"] == PREDICTED else (y + 1, _ROW - 3)
    told = event["args"].get("predicted", "")
    said = f"{event['name']}: {event['dur'] * 1e3:.0f} ns{f'; predicted: {told}' if told else ''}"
    where = f'x="{x:.1f}" y="{top}" width="{width:.1f}" height="{height}"'
    return f'<rect class="{_kind_of(about, event)}" {where}><title>{escape(said)}</title></rect>'


def _draw_legend(x: int, y: int) -> list[str]:
    lines = []
    for kind, text in KINDS.items():
        lines.append(f'<rect class="{kind}" x="{x}" y="{y - 10}" width="12" height="12"/>')
        lines.append(f'<text x="{x + 18}" y="{y}">{text}</text>')
        x += 40 + 8 * len(text)
    words = "nothing: other work; flat: predicted, rows equally long"
    return [*lines, f'<text x="{x}" y="{y}">{words}</text>']


def _list_ticks(end: float) -> list[float]:
    """Four to ten round times from 0 on.

    >>> _list_ticks(26.0)
    [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]
    """
    least = end / 10
    ten = 10.0 ** floor(log10(least))
    step = next(m * ten for m in (1, 2, 5, 10) if m * ten >= least)
    return [round(k * step, 9) for k in range(int(end / step) + 1)]
