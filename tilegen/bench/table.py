"""A result as text: what was measured, a line for each candidate with a bar, and who was absent."""

from __future__ import annotations

from tilegen.bench.picture import TEXT_CELLS, bars_of, draw_bar
from tilegen.bench.results import Result, Row, gb_per_s, of_ceiling, spell_rate
from tilegen.describe import count_words
from tilegen.report.table import draw_table

_HEAD = ("", "median us", "quartiles us", "GB/s", "of ceiling", "ratio", "quartiles", "")


def result_text(result: Result) -> str:
    """The table of one kernel; a ratio above 1 says that the kernel is faster than that peer."""
    rows = [result.mine, *result.peers]
    bars = bars_of(result)
    cells = [(*_cells(result, row), draw_bar(bar.share).ljust(TEXT_CELLS)) for row, bar in zip(rows, bars, strict=True)]
    lines = [_title(result), *draw_table(_HEAD, cells, indent="  ")]
    lines += [f"  {row.name}: {row.detail}" for row in result.peers if row.detail]
    lines += [f"  absent: {peer.name} ({peer.reason})" for peer in result.absent]
    lines.append("  ratio: a peer's time over tilegen's, median of pairs; above 1 tilegen is faster")
    lines.append(f"  ceiling {result.ceiling_gb_per_s:.0f} GB/s: this device's copy of 1 GiB, in the same run")
    lines += [f"  checked: {result.checked}", f"  timed: {_method(result)}"]
    return "\n".join(lines)


def _title(result: Result) -> str:
    params = "".join(f" {name}={value}" for name, value in result.params.items())
    moved = f"{result.moved_bytes / 1e6:.1f} MB" if result.moved_bytes >= 1e5 else f"{result.moved_bytes} bytes"
    return f"{result.kernel}{params}: {moved} read and written, {result.arch} on {result.device}"


def _cells(result: Result, row: Row) -> tuple[str, ...]:
    ratio = ("", "") if row is result.mine else (f"{row.ratio.median:.3f}", _range(row.ratio.lower, row.ratio.upper, 3))
    rate = spell_rate(gb_per_s(result.moved_bytes, row.us.median))
    times = (f"{row.us.median:.2f}", _range(row.us.lower, row.us.upper, 2))
    return (row.name, *times, rate, f"{of_ceiling(result, row):.3f}", *ratio)


def _range(lower: float, upper: float, digits: int) -> str:
    return f"{lower:.{digits}f} to {upper:.{digits}f}"


def _method(result: Result) -> str:
    """How the times were taken, on one line."""
    each = f"graphs of {result.launches} launches" if result.launches > 1 else "one launch a sample"
    sets = count_words(result.sets, "set", "sets") + " of buffers"
    return f"{result.rounds} rounds, {each}, {sets}" + (", the L2 emptied before each" if result.is_cold else "")
