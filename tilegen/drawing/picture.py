"""Pictures of tiles: a cell for every element, the text says who owns it, the key what colour it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilegen.drawing.describing import axes_of, count_copies
from tilegen.drawing.reading import Subject, spell_shape
from tilegen.errors import LayoutError
from tilegen.layouts import AXES, PaddedSharedLayout
from tilegen.scopes import OP_SCOPES

COLORS = 8
MOST_CELLS = 1 << 16
MOST_ROWS = 64
MOST_SLOTS = 1 << 10  # of a picture of memory
LINE_CELLS = 16  # a one-dimensional tile is drawn in lines of so many elements
WORDS = {
    "laneid": "lane", "warpid": "warp", "wgid": "warpgroup", "tid_in_wg": "thread", "tx": "thread", "wid_in_wg": "warp",
}  # fmt: skip
_SUBS = ("thread", "warp", "warpgroup")
_OUTER = ("block", "warp", "lane")  # inputs of a LinearLayout that own, from the outside in
_INNER = ("register", "offset")

Cells = tuple[tuple[str, ...], ...]
Paint = Callable[[str, int], str]


@dataclass(frozen=True)
class Picture:
    """Rows of cells with their labels; ``keys`` are colours, 0 to 7; ``cell`` says what a cell holds."""

    cell: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: Cells
    keys: tuple[tuple[int, ...], ...]
    notes: tuple[str, ...] = ()


def draw_layout(subject: Subject) -> Picture:
    """Who owns each element: lane and register, or the address in memory; columns that look alike are one.

    Raises LayoutError for more than 2**16 elements.

    >>> from tilegen.drawing.reading import read_subject
    >>> print(print_picture(draw_layout(read_subject("S[(2, 2, 2):(2@laneid, 1@laneid, 1)]", (2, 4)))))
    each cell: lane.register
           0    1    2    3
    0    0.0  0.1  1.0  1.1
    1    2.0  2.1  3.0  3.1
    """
    place = place_all(subject, MOST_CELLS)
    names = _drawn_axes(subject, place)
    if not names:
        raise LayoutError("the layout has no axis to draw")
    owners = [axis for axis in names if _is_owner(axis)]
    held = [axis for axis in names if axis not in owners]
    if len(owners) == len(names) or len(held) == len(names):
        separator, legend = ":", ", ".join(_word(axis, bool(owners)) for axis in names)
        legend = legend.replace(", ", separator)
    else:
        legend = f"{':'.join(_word(a, True) for a in owners)}.{','.join(_word(a, True) for a in held)}"
    grids = {axis: as_rows(place[axis], subject.shape) for axis in names}
    runs = _runs_of(grids[names[0]]) if len(names) == 1 and not owners else None
    if runs and runs[0] != (0, 0):  # a wide tile in memory: first and last address of what lies together
        texts = [[_range(int(row[a]), int(row[b])) for a, b in runs] for row in grids[names[0]]]
        grids = {axis: grid[:, [a for a, _ in runs]] for axis, grid in grids.items()}
    else:
        rows, columns = grids[names[0]].shape
        texts = [[_spell(grids, owners, held, r, c) for c in range(columns)] for r in range(rows)]
    key = _color_keys(grids, owners, held)
    copies = count_copies(subject.layout)
    notes = [f"each element has {copies} copies; the first is drawn"] if copies > 1 else []
    if len(subject.shape) > 2:
        notes.append("one dimension across, the others down; --shape says what tile the elements are")
    return make_picture(f"each cell: {legend}", texts, key, subject.shape, notes, runs)


def draw_memory(subject: Subject, width: int = 100) -> str:
    """The slots of a padded layout's memory in order, x2y0 the element (2, 0) and p3 padding; "" where it is too big.

    >>> from tilegen.drawing.reading import read_subject
    >>> print(draw_memory(read_subject("PaddedSharedLayout([[2, 2]], [[2], [1]], [], [4])")))
    memory in order, p is padding:
    [x0, x2, p0, p1,
     x1, x3]
    """
    layout = subject.layout
    if not isinstance(layout, PaddedSharedLayout) or layout.allocated_elems * layout.blocks > MOST_SLOTS:
        return ""
    view = layout.format_hardware_view(layout.shape)
    if max(map(len, view.split("\n"))) > width:
        return ""
    return f"memory in order, p is padding:\n{view}"


def place_all(subject: Subject, most: int) -> dict[str, NDArray[np.int64]]:
    """The first place of every element: arrays of the shape by axis.

    Raises LayoutError for more than ``most`` elements.
    """
    shape, size = subject.shape, prod(subject.shape)
    if size > most:
        raise LayoutError(f"{spell_shape(shape)} are more than {most} elements, too many to look at each")
    coords = np.indices(shape).reshape(len(shape), -1)
    place = subject.layout.place(list(coords), shape)
    return {a: np.broadcast_to(np.asarray(v), (size,)).astype(np.int64).reshape(shape) for a, v in place.items()}


def as_rows(values: NDArray[np.int64], shape: Sequence[int]) -> NDArray[np.int64]:
    """A tile as rows: the last dimension across, the others down; one dimension in lines of 16, -1 where it ends."""
    if len(shape) > 1:
        return values.reshape(-1, shape[-1])
    flat = values.reshape(-1)
    if len(flat) <= LINE_CELLS:
        return flat.reshape(1, -1)
    return np.pad(flat, (0, -len(flat) % LINE_CELLS), constant_values=-1).reshape(-1, LINE_CELLS)


def _runs_of(addresses: NDArray[np.int64]) -> list[tuple[int, int]]:
    """First and last column of runs of up to 8 addresses that follow each other in every row; of narrow tiles 1."""
    columns, run = addresses.shape[1], 8 if addresses.shape[1] > LINE_CELLS else 1
    while run > 1 and (columns % run or not _follow(addresses.reshape(-1, run))):
        run //= 2
    return [(c, c + run - 1) for c in range(0, columns, run)]


def _follow(runs: NDArray[np.int64]) -> bool:
    return bool((runs == runs[:, :1] + np.arange(runs.shape[1])).all())


def _drawn_axes(subject: Subject, place: dict[str, NDArray[np.int64]]) -> list[str]:
    """From the outside in; axes on which nothing moves are left out while one is left."""
    named = [axis for axis in axes_of(subject.layout) if axis in place]
    moving = [axis for axis in named if place[axis].min() != place[axis].max()]
    return sorted(moving or named[-1:], key=_depth)


def _depth(axis: str) -> tuple[int, int]:
    if axis in _OUTER:
        return 1, _OUTER.index(axis)
    found = AXES.get(axis)
    if found is None or found.kind == "memory":
        return 2, list(AXES).index(axis) if found else 0
    if found.kind == "thread":
        return 1, -_SUBS.index(found.sub) * len(OP_SCOPES) - OP_SCOPES.index(found.scope)
    return 0, list(AXES).index(axis)


def _is_owner(axis: str) -> bool:
    return axis in _OUTER or (axis in AXES and AXES[axis].kind != "memory")


def _word(axis: str, owned: bool) -> str:
    if axis == "m":
        return "register" if owned else "address"
    return WORDS.get(axis, axis)


def _spell(grids: dict[str, NDArray[np.int64]], owners: list[str], held: list[str], r: int, c: int) -> str:
    numbers = {axis: int(grid[r, c]) for axis, grid in grids.items()}
    if min(numbers.values()) < 0:
        return ""
    first, second = (":".join(str(numbers[axis]) for axis in axes) for axes in (owners, held))
    if first and second:
        return f"{first}.{second.replace(':', ',')}"
    return first or second


def _color_keys(grids: dict[str, NDArray[np.int64]], owners: list[str], held: list[str]) -> NDArray[np.int64]:
    """Groups of four lanes, or of eight addresses, have one colour."""
    if owners:
        return grids[owners[-1]] // 4 % COLORS
    return grids[held[-1]] // 8 % COLORS


def make_picture(
    cell: str, texts: Sequence[Sequence[str]], keys: NDArray[np.int64], shape: Sequence[int],
    notes: Sequence[str] = (), runs: Sequence[tuple[int, int]] | None = None,
) -> Picture:  # fmt: skip
    """A picture of rows of texts; neighbouring columns that are alike in every row become one.

    ``runs`` are the first and last element of every column (default: one each).
    """
    texts, hidden = texts[:MOST_ROWS], len(texts) - MOST_ROWS
    notes = [*notes, f"{hidden} more rows are not drawn"] if hidden > 0 else list(notes)
    runs = [(c, c) for c in range(len(texts[0]))] if runs is None else list(runs)
    kept: list[int] = []
    ends: list[int] = []
    for c in range(len(runs)):
        if kept and all(row[c] == row[kept[-1]] for row in texts):
            ends[-1] = runs[c][1]
            continue
        kept.append(c)
        ends.append(runs[c][1])
    columns = tuple(_range(runs[c][0], end) for c, end in zip(kept, ends, strict=True))
    cells = tuple(tuple(row[c] for c in kept) for row in texts)
    colors = tuple(tuple(int(keys[r, c]) for c in kept) for r in range(len(texts)))
    return Picture(cell, columns, _row_labels(shape, len(texts)), cells, colors, tuple(notes))


def crop_picture(picture: Picture, cells: int) -> Picture:
    """The first rows and columns of a picture, of at most so many cells; notes say what is not drawn.

    >>> picture = Picture("address", ("0", "1"), ("0", "1", "2"), (("0", "1"),) * 3, ((0, 0),) * 3, ("9 more rows",))
    >>> crop_picture(picture, 4).cells, crop_picture(picture, 4).notes
    ((('0', '1'), ('0', '1')), ('9 more rows', 'a part: 2 of these 3 rows, 2 of 2 columns'))
    """
    wide = min(len(picture.columns), cells)
    high = max(1, min(len(picture.rows), cells // max(1, wide)))
    if (high, wide) == (len(picture.rows), len(picture.columns)):
        return picture
    note = f"a part: {high} of these {len(picture.rows)} rows, {wide} of {len(picture.columns)} columns"
    return Picture(
        picture.cell, picture.columns[:wide], picture.rows[:high], tuple(row[:wide] for row in picture.cells[:high]),
        tuple(row[:wide] for row in picture.keys[:high]), (*picture.notes, note),
    )  # fmt: skip


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _row_labels(shape: Sequence[int], count: int) -> tuple[str, ...]:
    if len(shape) == 1:
        return tuple(str(LINE_CELLS * r) for r in range(count))
    outer = tuple(shape[:-1])
    return tuple(",".join(str(int(x)) for x in np.unravel_index(r, outer)) for r in range(count))


def print_picture(picture: Picture, width: int = 100, paint: Paint | None = None) -> str:
    """The picture as lines of at most ``width`` characters; what does not fit is cut off and counted in a note."""
    cell_width = max(len(text) for text in (*picture.columns, *(t for row in picture.cells for t in row)))
    label_width = max(map(len, picture.rows), default=0)
    fits = max(1, (width - label_width - 2) // (cell_width + 2))
    shown = min(fits, len(picture.columns))

    def draw(text: str, key: int | None) -> str:
        padded = text.rjust(cell_width)
        return "  " + (padded if paint is None or key is None or not text else paint(padded, key))

    lines = [picture.cell, " " * (label_width + 2) + "".join(draw(t, None) for t in picture.columns[:shown])]
    for label, texts, keys in zip(picture.rows, picture.cells, picture.keys, strict=True):
        cells = "".join(draw(t, k) for t, k in zip(texts[:shown], keys[:shown], strict=True))
        lines.append(f"{label.rjust(label_width)}  {cells}")
    notes = list(picture.notes)
    if shown < len(picture.columns):
        notes.append(f"columns from {picture.columns[shown].split('-')[0]} on are cut off: {width} characters are full")
    return "\n".join([*(line.rstrip() for line in lines), *(f"({note})" for note in notes)])
