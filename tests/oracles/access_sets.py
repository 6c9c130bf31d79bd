"""Access sets drawn by a seed over (tile, dtype, writer, reader): what kernels do with a shared tile, and worse."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilegen.auto_layout.tile_access import TileAccess, tile_access

Ints = NDArray[np.int64]
DTYPE_BYTES = {"uint8": 1, "float16": 2, "float32": 4, "float64": 8, "complex128": 16}
ROWS, COLUMNS = (8, 16, 24, 32, 48, 64), (16, 20, 32, 33, 40, 64, 80, 128)
MOST_ELEMS, MOST_ACCESSES = 4096, 6


@dataclass(frozen=True, eq=False)
class AccessSet:
    """One tile and how it is accessed."""

    name: str
    shape: tuple[int, int]
    dtype: str
    accesses: tuple[TileAccess, ...]

    @property
    def elem_bytes(self) -> int:
        return DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class _Tile:
    rows: int
    columns: int
    elem_bytes: int
    draw: random.Random

    def number(self, row: Ints, column: Ints) -> Ints:
        return np.asarray(row * self.columns + column)

    def width(self) -> int:
        """A vector width in elements that divides rows, up to 16 bytes."""
        return self.draw.choice([w for w in (1, 2, 4, 8, 16) if w * self.elem_bytes <= 16 and self.columns % w == 0])


Drawn = tuple[str, int, Ints]  # kind ("" for a plain load or store), width in elements, elements (n, 32)


def draw_sets(count: int, seed: int = 0) -> list[AccessSet]:
    """So many sets; the same for the same seed."""
    draw = random.Random(seed)
    return [_draw_set(draw, k) for k in range(count)]


def _draw_set(draw: random.Random, number: int) -> AccessSet:
    dtype = draw.choice(list(DTYPE_BYTES))
    shapes = [(r, c) for r in ROWS for c in COLUMNS if r * c <= MOST_ELEMS and r * c >= 256]
    tile = _Tile(*draw.choice(shapes), DTYPE_BYTES[dtype], draw)
    writer, reader = draw.choice(list(_PATTERNS)), draw.choice(list(_PATTERNS))
    accesses = [_access(tile, writer, "st"), _access(tile, reader, "ld")]
    if draw.random() < 0.25:  # a third party, as where a tile is filled in two ways
        accesses.append(_access(tile, draw.choice(list(_PATTERNS)), draw.choice(["ld", "st"])))
    name = f"{number:3} {tile.rows}x{tile.columns} {dtype}: {writer} -> {reader}"
    return AccessSet(name, (tile.rows, tile.columns), dtype, tuple(accesses))


def _access(tile: _Tile, pattern: str, direction: str) -> TileAccess:
    kind, width, elements = _PATTERNS[pattern](tile)
    kept = sorted(tile.draw.sample(range(len(elements)), min(len(elements), MOST_ACCESSES)))
    weights = [tile.draw.randint(1, 8) for _ in kept]
    return tile_access(f"{direction}{kind}" if kind else direction, width, elements[kept], weights)


# ---------------------------------------------------------------- patterns
def _walk_rows(tile: _Tile) -> Drawn:
    """Vectors one behind the other along the rows."""
    width = tile.width()
    return "", width, _lanes(np.arange(0, tile.rows * tile.columns, width))


def _walk_columns(tile: _Tile) -> Drawn:
    """Single elements down the columns: a transpose."""
    return "", 1, _lanes(np.arange(tile.rows * tile.columns).reshape(tile.rows, -1).T.ravel())


def _walk_columns_of_vectors(tile: _Tile) -> Drawn:
    """Vectors down the columns."""
    width = tile.width()
    starts = np.arange(0, tile.rows * tile.columns, width).reshape(tile.rows, -1)
    return "", width, _lanes(starts.T.ravel())


def _walk_blocks(tile: _Tile) -> Drawn:
    """A warp takes a block of rows by vectors, as a matrix fragment is read without ldmatrix."""
    width = tile.width()
    high = tile.draw.choice([h for h in (2, 4, 8, 16) if tile.rows % h == 0])
    row, place = np.divmod(np.arange(32), 32 // high)
    if tile.draw.random() < 0.5:  # lanes down the columns of the block
        place, row = np.divmod(np.arange(32), high)
    vectors = tile.columns // width
    corners = [(r, c) for r in range(0, tile.rows, high) for c in range(0, vectors, 32 // high)]
    blocks = [np.where(c + place < vectors, tile.number(r + row, (c + place) * width), -1) for r, c in corners]
    return "", width, np.stack(blocks)


def _walk_pairs(tile: _Tile) -> Drawn:
    """Two lanes at each vector, in one of two orders: loads that may merge."""
    width, distance = tile.width(), tile.draw.choice([1, 2])
    lane = np.arange(32)
    of = lane // 2 if distance == 1 else lane // 4 * 2 + lane % 2
    groups = _lanes(np.arange(0, tile.rows * tile.columns, width))
    return "", width, groups[:, of]


def _walk_strided(tile: _Tile) -> Drawn:
    """Every lane some rows and columns further than the one before, around the ends."""
    down, right = tile.draw.randint(0, 5), tile.draw.randint(0, 7)
    lane = np.arange(32)
    starts = [(tile.draw.randrange(tile.rows), tile.draw.randrange(tile.columns)) for _ in range(MOST_ACCESSES)]
    rows = [tile.number((r + down * lane) % tile.rows, (c + right * lane) % tile.columns) for r, c in starts]
    return "", 1, np.stack(rows)


def _walk_matrices(tile: _Tile) -> Drawn:
    """ldmatrix and stmatrix: rows of 16 bytes, eight to a matrix."""
    width = 16 // tile.elem_bytes
    if tile.columns % width or tile.rows % 8:
        return _walk_rows(tile)
    count = tile.draw.choice([1, 2, 4])
    places = [(r, c) for r in range(0, tile.rows, 8) for c in range(0, tile.columns, width)]
    found = []
    for _ in range(MOST_ACCESSES):
        chosen = [tile.draw.choice(places) for _ in range(count)]
        rows = np.concatenate([tile.number(r + np.arange(8), np.full(8, c)) for r, c in chosen])
        found.append(np.concatenate([rows, np.full(32 - len(rows), -1)]))
    return f"matrix{count}", width, np.stack(found)


def _walk_clipped(tile: _Tile) -> Drawn:
    """Rows or columns at an edge: what lies beyond is left out."""
    kind, width, elements = tile.draw.choice([_walk_rows, _walk_columns])(tile)
    limit = tile.draw.randint(1, tile.columns)
    inside = (elements >= 0) & (elements % tile.columns < limit)
    kept = np.where(inside, elements, -1)
    return kind, width, kept[inside.any(axis=1)] if inside.any() else elements


def _walk_anywhere(tile: _Tile) -> Drawn:
    """Elements at random."""
    found = [[tile.draw.randrange(tile.rows * tile.columns) for _ in range(32)] for _ in range(MOST_ACCESSES)]
    return "", 1, np.array(found)


def _lanes(starts: Ints) -> Ints:
    """32 to a row, the last one filled up with inactive lanes."""
    filled = np.full(-(-len(starts) // 32) * 32, -1)
    filled[: len(starts)] = starts
    return filled.reshape(-1, 32)


_PATTERNS: dict[str, Callable[[_Tile], Drawn]] = {
    "rows": _walk_rows, "columns": _walk_columns, "columns of vectors": _walk_columns_of_vectors,
    "blocks": _walk_blocks, "pairs": _walk_pairs, "strided": _walk_strided, "matrices": _walk_matrices,
    "clipped": _walk_clipped, "anywhere": _walk_anywhere,
}  # fmt: skip
