"""Tensor memory as explain shows it: the lanes and columns of each buffer, and what is allocated for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilegen.arch import ARCHES
from tilegen.spec.data import Spec
from tilegen.spec.tensor_memory import cells_of, place_columns

LANES, COLUMNS = 16, 8  # cells that one character of the map stands for


def describe_tensor_memory(spec: Spec) -> dict[str, Any]:
    """``tensor_memory`` as JSON data: its columns, those allocated, and each tmem buffer in the order of the text.

    ``lanes`` and ``columns`` are ranges of those that hold something, columns counted from the buffer's first,
    ``first_column``; ``taken``: columns from there on; ``copies`` are the places of each element, ``packed`` the
    elements that share a column. {} for a spec without such buffers.
    """
    has = ARCHES[spec.arch].tensor_memory
    if has is None or not any(b.traits.has_cells for b in spec.buffers):
        return {}
    places = place_columns(spec.buffers, spec.arch)
    rows: list[dict[str, Any]] = []
    for name, first in places.first.items():
        buffer = spec.buffer(name)
        cells = cells_of(buffer)
        rows.append({
            "buffer": name, "dtype": buffer.dtype, "shape": list(buffer.shape),
            "lanes": list_ranges(cells.lanes), "columns": list_ranges(cells.columns),
            "first_column": first, "taken": cells.reach, "copies": cells.copies, "packed": cells.packed,
        })  # fmt: skip
    found = {
        "lanes": has.lanes, "columns": has.columns, "least_columns": has.least_columns, "taken": places.taken,
        "allocated": places.allocated,
    }  # fmt: skip
    return {"tensor_memory": found | {"buffers": rows}}


def draw_map(found: Mapping[str, Any]) -> list[str]:
    """What lies where: a character for 16 lanes x 8 columns, a line for lanes that are alike, over all columns.

    ``found`` is ``tensor_memory`` of ``describe_tensor_memory``. The first buffer is A where it fills all cells, a
    where some; "." is allocated and empty, "_" free. Where two buffers share a character, the first is shown.

    >>> half = {"lanes": [[0, 63]], "columns": [[0, 19]], "first_column": 0, "taken": 20, "buffer": "acc"}
    >>> print("\\n".join(draw_map({"lanes": 128, "columns": 64, "allocated": 32, "buffers": [half]})))
    each character: 16 lanes x 8 columns; A: acc, small where a part is filled; . allocated, _ free
    lanes 0-63    AAa.____
    lanes 64-127  ....____
    """
    names = ", ".join(f"{_letter(k)}: {b['buffer']}" for k, b in enumerate(found["buffers"]))
    unit = f"each character: {LANES} lanes x {COLUMNS} columns"
    head = f"{unit}; {names}, small where a part is filled; . allocated, _ free"
    lines: list[tuple[int, str]] = []  # the first lane, and what is drawn
    for lane in range(0, found["lanes"], LANES):
        text = "".join(_draw_cells(found, lane, column) for column in range(0, found["columns"], COLUMNS))
        if not lines or lines[-1][1] != text:
            lines.append((lane, text))
    ends = [*(lane for lane, _ in lines[1:]), found["lanes"]]
    labels = [f"lanes {lane}-{end - 1}" for (lane, _), end in zip(lines, ends, strict=True)]
    width = max(map(len, labels))
    return [head, *(f"{label.ljust(width)}  {text}" for label, (_, text) in zip(labels, lines, strict=True))]


def _draw_cells(found: Mapping[str, Any], lane: int, column: int) -> str:
    """The character of the cells from this lane and column on."""
    for k, b in enumerate(found["buffers"]):
        filled = _count_within(b["lanes"], lane, LANES) * _count_within(
            b["columns"], column - b["first_column"], COLUMNS
        )
        if filled:
            return _letter(k) if filled == LANES * COLUMNS else _letter(k).lower()
    return "." if column < found["allocated"] else "_"


def _letter(number: int) -> str:
    return chr(ord("A") + number % 26)  # 128 buffers of 4 columns at most


def _count_within(ranges: Sequence[Sequence[int]], first: int, count: int) -> int:
    return sum(max(0, min(b, first + count - 1) - max(a, first) + 1) for a, b in ranges)


def list_ranges(numbers: tuple[int, ...]) -> list[list[int]]:
    """Ascending numbers as [first, last] of each run without a gap.

    >>> list_ranges((0, 1, 2, 32, 33))
    [[0, 2], [32, 33]]
    """
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return runs
