"""What a run of tuning found, as JSON data, as rows of a table, and as a picture: times against estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any

from tilegen.decisions import count_words
from tilegen.drawing import svg_page
from tilegen.spec.pinning import spell
from tilegen.tuned import MEASURED, Record, data_of
from tilegen.tuning.tune import TuneResult

HEAD = ("us", "quartiles us", "of best", "model us", "candidate")
_SHOWN = 12
_SIDE, _LEFT, _TOP, _BELOW, _RIGHT = 360, 70, 60, 80, 240  # pixels of the plot, and around it
_STYLE = (
    "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#565e68}.t{font-weight:600;fill:#16191d}"
    ".r{text-anchor:end}.m{text-anchor:middle}.a{stroke:#565e68;fill:none}.e{stroke:#565e68;stroke-dasharray:4 4}"
    ".o{fill:#9dc3ea}.best{fill:#2a9d6f}.plain{fill:#d9562b}"
    "@media(prefers-color-scheme:dark){text{fill:#a8b1bc}.t{fill:#eceff3}}"
)


def result_data(result: TuneResult) -> dict[str, Any]:
    """A result as JSON data: the best, what a plain build is, and every record."""
    plain = data_of(result.plain) if result.plain else None
    return {
        "spec": result.spec, "environment": vars(result.environment), "best": data_of(result.best), "plain": plain,
        "measured": result.measured, "untried": result.untried, "unlisted": result.unlisted,
        "left_out": [vars(one) for one in result.left_out], "skipped": str(result.skipped),
        "notes": list(result.notes), "records": [data_of(record) for record in result.records],
    }  # fmt: skip


def name_differences(records: Sequence[Record]) -> dict[str, str]:
    """Each candidate in words, by key, without what all of them have alike."""
    parts = {r.key: _list_parts(r) for r in records}
    counted = Counter(part for own in parts.values() for part in own)
    return {
        r.key: ", ".join(part for part in parts[r.key] if counted[part] < len(parts)) or r.name for r in records
    }  # fmt: skip


def _list_parts(record: Record) -> list[str]:
    pins = record.pins
    several = len(pins.get("ops", ())) > 1
    said = [f"{name} = {value}" for name, value in pins.get("params", {}).items()]
    said += [f"{name}: {text}" for name, text in pins.get("layouts", {}).items()]
    for number, (_, fields) in enumerate(pins.get("ops", ()), 1):
        said += [f"{f'op {number} ' if several else ''}{name}: {spell(value)}" for name, value in fields.items()]
    return said


def table_rows(result: TuneResult) -> list[tuple[str, ...]]:
    """The fastest few, and what a plain build is, as cells under HEAD."""
    measured = [r for r in result.records if r.outcome == MEASURED]
    names = name_differences(measured)
    shown = measured[:_SHOWN]
    if result.plain is not None and result.plain in measured and result.plain not in shown:
        shown.append(result.plain)
    rows: list[tuple[str, ...]] = []
    for record in shown:
        assert record.us is not None
        lower, median, upper = record.us
        estimate = "" if record.estimate_us is None else f"{record.estimate_us:.1f}"
        mark = " (what a plain build is)" if record == result.plain else ""
        name = record.name if record == result.plain else names[record.key]
        over = f"{median / result.best.median_us:.3f}"
        rows.append((f"{median:.2f}", f"{lower:.2f} to {upper:.2f}", over, estimate, name + mark))
    return rows


def summary_lines(result: TuneResult) -> list[str]:
    """What the table does not say."""
    counted = Counter(r.outcome for r in result.records)
    said = ", ".join(f"{n} {outcome}" for outcome, n in counted.most_common())
    lines = [f"{count_words(len(result.records), 'candidate', 'candidates')}: {said}; on {result.environment}"]
    if result.left_out:
        first = result.left_out[0]
        lines.append(f"{len(result.left_out)} cannot be built; the first is {first.name}: {first.why}")
    for record in (r for r in result.records if r.outcome not in (MEASURED, "refused")):
        lines.append(f"{record.outcome}: {record.name}: {record.message}")
    if str(result.skipped):
        lines.append(f"skipped: {result.skipped}")
    if result.untried or result.unlisted:
        lines.append(f"{result.untried + result.unlisted} candidates are left: `--budget` takes more of them")
    return [*lines, *result.notes]


# ---------------------------------------------------------------- a picture
def tune_picture(result: TuneResult) -> str:
    """Each candidate's time against the model's estimate, as SVG, with logarithms on both axes.

    The best, and what a plain build is, stand out. What has no estimate stands on the left edge.
    """
    measured = [r for r in result.records if r.outcome == MEASURED]
    known = [r.estimate_us for r in measured if r.estimate_us]
    times = [r.median_us for r in measured]
    low, high = _find_ends([*known, *times])
    x0, y0 = _LEFT, _TOP + _SIDE

    def place(us: float) -> float:
        return _SIDE * (log10(us) - low) / (high - low)

    body = [
        f'<text class="t" x="{_LEFT}" y="24">{escape(_title(result))}</text>',
        f'<text x="{_LEFT}" y="44">{escape(str(result.environment))}</text>',
        f'<path class="a" d="M{x0} {_TOP}V{y0}H{x0 + _SIDE}"/>',
        f'<path class="e" d="M{x0} {y0}L{x0 + _SIDE} {_TOP}"/>',
        f'<text class="m" x="{x0 + _SIDE / 2}" y="{y0 + 44}">the model\'s estimate, us</text>',
        f'<text x="8" y="{_TOP - 8}">measured, us</text>',
    ]
    for tick in _list_ticks(low, high):
        at = place(tick)
        body.append(f'<text class="m" x="{x0 + at:.1f}" y="{y0 + 20}">{tick:g}</text>')
        body.append(f'<text class="r" x="{x0 - 8}" y="{y0 - at + 4:.1f}">{tick:g}</text>')
    marked = ({result.plain.key: "plain"} if result.plain else {}) | {result.best.key: "best"}
    ordered = sorted(measured, key=lambda r: r.key in marked)
    for r in ordered:
        kind = marked.get(r.key, "o")
        x = x0 + (place(r.estimate_us) if r.estimate_us else 0)
        said = escape(f"{r.name}: {r.median_us:.2f} us")
        body.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y0 - place(r.median_us):.1f}" r="{4 if kind == "o" else 7}">'
            f"<title>{said}</title></circle>"
        )
    body += _legend(result, x0 + _SIDE + 24)
    described = f"{len(measured)} candidates; {'; '.join(_say_marked(result).values())}"
    return svg_page(_LEFT + _SIDE + _RIGHT, y0 + _BELOW, _title(result), described, body, _STYLE)


def _title(result: TuneResult) -> str:
    return f"{result.best.spec}: {count_words(len(result.records), 'candidate', 'candidates')}"


def _say_marked(result: TuneResult) -> dict[str, str]:
    said = {"best": f"best {result.best.median_us:.2f} us"}
    if result.plain is not None and result.plain.us:
        over = result.plain.median_us / result.best.median_us
        said["plain"] = f"plain build {result.plain.median_us:.2f} us, {over:.3f}"
    return said


def _legend(result: TuneResult, x: int) -> list[str]:
    lines = []
    for k, (kind, text) in enumerate([*_say_marked(result).items(), ("o", "another candidate")]):
        y = _TOP + 20 + 24 * k
        lines.append(f'<circle class="{kind}" cx="{x}" cy="{y - 4}" r="6"/><text x="{x + 14}" y="{y}">{text}</text>')
    y = _TOP + 20 + 24 * len(lines)
    lines.append(f'<path class="e" d="M{x - 6} {y - 4}h12"/><text x="{x + 14}" y="{y}">as estimated</text>')
    return lines


def _find_ends(values: Sequence[float]) -> tuple[float, float]:
    """Powers of ten of the ends of an axis that holds all values.

    >>> _find_ends([10.0, 100.0])
    (0.95, 2.05)
    """
    low, high = log10(min(values)), log10(max(values))
    return round(low - 0.05, 3), round(max(high, low + 0.1) + 0.05, 3)


def _list_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two powers of ten.

    >>> _list_ticks(0.95, 2.05)
    [10.0, 20.0, 50.0, 100.0]
    """
    every = [m * 10.0**k for k in range(floor(low), ceil(high) + 1) for m in (1, 2, 5)]
    return [t for t in every if low <= log10(t) <= high]
