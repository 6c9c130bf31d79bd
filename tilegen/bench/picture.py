"""A result as text, and as bars of bytes, or of operations, in a second: in text, and as SVG for documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tilegen.bench.measuring import gb_per_s
from tilegen.bench.results import Result, Row, of_ceiling, of_copy, spell_rate, spell_speed
from tilegen.decisions import count_words, draw_table
from tilegen.drawing import svg_page

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
class BarGroup:
    """The bars of one kernel."""

    title: str
    bars: tuple[Bar, ...]


def bars_of(result: Result) -> tuple[Bar, ...]:
    """A bar for the kernel and each peer that took part."""
    return tuple(
        Bar(row.name, of_ceiling(result, row), spell_speed(result, row), row is result.mine)
        for row in (result.mine, *result.peers)
    )


def group_of(result: Result) -> BarGroup:
    """The bars of a result under its kernel's name."""
    return BarGroup(result.kernel, bars_of(result))


def describe_ceilings(results: Sequence[Result]) -> str:
    """What the bars of several results are, and the dashed line, on one line."""
    said = []
    if any(not result.flops for result in results):
        said.append(f"GB/s read and written on {results[0].device}; dashed: its own copy of 1 GiB")
    if any(result.flops for result in results):
        said.append(f"TFLOP/s on {results[0].device}; dashed: a bare loop of products, on random numbers")
    return "; ".join(said)


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
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.b{fill:#5b6b7a}.m{fill:#4fb477}.c{stroke:#777}}"
)


def svg_picture(groups: Sequence[BarGroup], note: str = "") -> str:
    """An SVG picture of bars, the kernel's own in green; the dashed line is the ceiling."""
    bars, height = [], GAP
    for group in groups:
        bars += _group_lines(group, height)
        height += TITLE + ROW * len(group.bars) + GAP
    right = WIDTH - VALUE
    line = f'<line class="c" x1="{right}" y1="{GAP}" x2="{right}" y2="{height - GAP}"/>'
    bottom = height + (TITLE if note else 0)
    text = [f'<text x="{LABEL}" y="{height + 10}">{escape(note)}</text>'] if note else []
    title = groups[0].title if len(groups) == 1 else f"{len(groups)} kernels"
    described = "; ".join(f"{g.title}: {', '.join(f'{bar.label} {bar.text}' for bar in g.bars)}" for g in groups)
    return svg_page(WIDTH, bottom, title, described, [*bars, line, *text], _STYLE) + "\n"


def _group_lines(group: BarGroup, top: int) -> list[str]:
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


# ---------------------------------------------------------------- a result as text
_HEAD = ("", "median us", "quartiles us", "GB/s", "of ceiling", "ratio", "quartiles", "")
_PRODUCT_HEAD = (*_HEAD[:3], "TFLOP/s", *_HEAD[4:-1], "rms error", "largest", "")


def result_text(result: Result) -> str:
    """The table of one kernel; a ratio above 1 says that the kernel is faster than that peer."""
    rows = [result.mine, *result.peers]
    bars = bars_of(result)
    cells = [(*_cells(result, row), draw_bar(bar.share).ljust(TEXT_CELLS)) for row, bar in zip(rows, bars, strict=True)]
    lines = [
        _title(result),
        *_pass_lines(result),
        *draw_table(_PRODUCT_HEAD if result.flops else _HEAD, cells, indent="  "),
    ]
    lines += [f"  {row.name}: {row.detail}" for row in result.peers if row.detail]
    lines += [f"  absent: {peer.name} ({peer.reason})" for peer in result.absent]
    lines.append("  ratio: a peer's time over tilegen's, median of pairs; above 1 tilegen is faster")
    lines += _ceiling_lines(result)
    lines += [f"  checked: {result.checked}", f"  timed: {_method(result)}"]
    return "\n".join(lines)


def _pass_lines(result: Result) -> list[str]:
    """What a launch of a program runs, and the memory that it needs beside the arrays."""
    if not result.passes:
        return []
    count = count_words(len(result.passes), "pass", "passes")
    said = f"  a launch is {count}: {', '.join(result.passes)}"
    if result.workspace_bytes:
        said += f"; workspace {_spell_bytes(result.workspace_bytes)}, whose traffic is not counted"
    return [said]


def _ceiling_lines(result: Result) -> list[str]:
    copy = f"{result.ceiling_gb_per_s:.0f} GB/s: this device's copy of 1 GiB, in the same run"
    if not result.flops:
        return [f"  ceiling {copy}"]
    if not result.reached:
        loops = ["  ceiling: no loop of products could be measured"]
    else:
        first, *others = (f"{spell_rate(r.tflops)} TFLOP/s: a loop of {r.name} alone" for r in result.reached)
        loops = [
            f"  ceiling {first} on random normal numbers, in turns with the others",
            *(f"  also {x}" for x in others),
        ]
    rate = spell_rate(gb_per_s(result.moved_bytes, result.mine.us.median))
    return [
        *loops, f"  memory {rate} GB/s, each array once: {of_copy(result, result.mine):.3f} of {copy}",
        "  errors: against float64, in parts of the root mean square of what it has",
    ]  # fmt: skip


def _title(result: Result) -> str:
    params = "".join(f" {name}={value}" for name, value in result.params.items())
    moved = _spell_bytes(result.moved_bytes)
    what = f"{result.meaning}; {moved}" if result.flops else f"{moved} read and written"
    return f"{result.kernel}{params}: {what}, {result.arch} on {result.device}"


def _spell_bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count} bytes"


def _cells(result: Result, row: Row) -> tuple[str, ...]:
    ratio = ("", "") if row is result.mine else (f"{row.ratio.median:.3f}", _range(row.ratio.lower, row.ratio.upper, 3))
    times = (f"{row.us.median:.2f}", _range(row.us.lower, row.us.upper, 2))
    rate = spell_speed(result, row).split()[0]
    if not result.flops:
        return (row.name, *times, rate, f"{of_ceiling(result, row):.3f}", *ratio)
    share = f"{of_ceiling(result, row):.3f}" if result.reached else ""
    errors = ("", "") if row.accuracy is None else (f"{row.accuracy.rms:.2e}", f"{row.accuracy.largest:.2e}")
    return (row.name, *times, rate, share, *ratio, *errors)


def _range(lower: float, upper: float, digits: int) -> str:
    return f"{lower:.{digits}f} to {upper:.{digits}f}"


def _method(result: Result) -> str:
    """How the times were taken, on one line."""
    each = f"graphs of {result.launches} launches" if result.launches > 1 else "one launch a sample"
    sets = count_words(result.sets, "set", "sets") + " of buffers"
    return f"{result.rounds} rounds, {each}, {sets}" + (", the L2 emptied before each" if result.is_cold else "")
