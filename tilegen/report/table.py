"""Aligned tables of text."""

from __future__ import annotations

from collections.abc import Sequence


def draw_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, indent: str = "") -> list[str]:
    """Lines of columns as wide as they need; the first ``left`` columns are aligned left, the others right.

    >>> print("\\n".join(draw_table(("name", "count"), [("a", "10"), ("long", "5")])))
    name  count
    a        10
    long      5
    """
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]

    def draw(row: Sequence[str]) -> str:
        cells = [c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
        return (indent + "  ".join(cells)).rstrip()

    return [draw(head), *(draw(row) for row in rows)]


def lane_ranges(lanes: Sequence[int]) -> str:
    """Lanes in order, runs as ranges.

    >>> lane_ranges([0, 1, 2, 3, 8, 10, 11])
    '0-3 8 10-11'
    """
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
