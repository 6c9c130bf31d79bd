"""Where the vectors of a copy lie whose rows begin off the vectors of one side, or of both.

Rows are contiguous on both sides, and begin a constant number of elements behind a multiple of a vector. Stores go in
dst's vectors. What one of them stores begins ``shift`` elements after a vector of src: it is made of two neighbours. A
thread loads the one that holds more of it, and gets the words that it lacks of the other from the lane that has it.
What lies before the first vector of a row and behind the last, its ends, is moved one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from tilegen.index import Index, add, div, least, less, mod, mul, multiple
from tilegen.index.runs import counter
from tilegen.ops.digits import split_number
from tilegen.ops.edges import Inside, late_dims
from tilegen.ops.operand import STRETCHED, Context, Operand, absolute
from tilegen.ops.ordered_tile import OrderedTile, find_run, guard_of, is_flat, place_of, ref_of, tile_over
from tilegen.plan import Ref

_REGISTER_BYTES = 4


@dataclass(frozen=True)
class Rows:
    """A tile as rows along its last digit, which both sides keep together."""

    tile: OrderedTile

    @property
    def count(self) -> int:
        return prod(d.extent for d in self.tile.digits[:-1])

    @property
    def length(self) -> int:
        """Elements of a row."""
        return self.tile.digits[-1].extent

    def ref(self, side: int, row: Index, at: Index, offset: int = 0) -> Ref:
        """The element of a row at ``at`` plus ``offset``, which may lie beyond the row on either side."""
        return ref_of(self._from(offset), side, self._values(row, at))

    def inside(self, side: int, row: Index, at: Index, offset: int = 0) -> Inside:
        """Whether that element, not before its row, lies in its array, asked only where the region may leave it."""
        *outer, position = self._values(row, add(at, offset))
        is_asked = (any(place in self.tile.guarded for place, _, _ in d.places) for d in self.tile.digits)
        values = (x if asked else 0 for x, asked in zip(outer, is_asked, strict=False))
        return guard_of(self.tile, side, (*values, position))

    def is_there(self, row: Index, at: int) -> bool:
        """Is that element certainly one of src's array? Where the region does not leave the array."""
        src, ref = self.tile.operands[0], self.ref(0, row, 0, at)
        if len(self.tile.digits[-1].places) > 1:
            return least(ref.offset) >= 0 and less(ref.offset, src.memory.span) is True
        if at < 0:
            return all(least(x) >= 0 for x in ref.at)
        places = absolute(src, place_of(self.tile, self._values(row, at)))
        return all(less(x, n) is True for x, n in zip(places, src.buffer.shape, strict=True))

    def _values(self, row: Index, at: Index) -> tuple[Index, ...]:
        """The digits of an element."""
        return (*split_number(row, [d.extent for d in self.tile.digits[:-1]]), at)

    def _from(self, offset: int) -> OrderedTile:
        """The tile, all rows of which begin so many elements later."""
        place = self.tile.digits[-1].places[-1][0]
        return replace(self.tile, operands=tuple(_move_begin(o, o.dims[place], offset) for o in self.tile.operands))


def _move_begin(operand: Operand, d: int, offset: int) -> Operand:
    begins = list(operand.region.begins)
    begins[d] = add(begins[d], offset)
    return replace(operand, region=replace(operand.region, begins=tuple(begins)))


@dataclass(frozen=True)
class Shift:
    """Vectors of ``elems`` elements: ``count`` to a row, the first of them ``head`` elements after its beginning.

    ``shift``: so many elements after a vector of src does one of dst begin; 0 where vectors are vectors of both.
    """

    rows: Rows
    elems: int
    shift: int
    head: int
    count: int

    @property
    def elem_bytes(self) -> int:
        return self.rows.tile.operands[0].elem_bytes

    @property
    def takes_next(self) -> bool:
        """Is the thread's own vector the one that the elements begin in, and the lacking words the next's first?"""
        return 2 * self.shift <= self.elems

    @property
    def unit(self) -> int:
        """Elements of what registers are joined by: a word of 4 bytes, or a longer element."""
        return max(1, _REGISTER_BYTES // self.elem_bytes)

    @property
    def lacking(self) -> int:
        """Elements of the words that a thread's own vector lacks."""
        return -(-min(self.shift, self.elems - self.shift) // self.unit) * self.unit

    @property
    def ends(self) -> int:
        """Elements of a row that are in no vector."""
        return self.rows.length - self.count * self.elems

    @property
    def own(self) -> int:
        """Where the first vector of src begins that a thread of a row loads, from the beginning of the row."""
        return self.head - self.shift + (0 if self.takes_next else self.elems)

    @property
    def other(self) -> int:
        """Where the words begin that it lacks."""
        return self.head - self.shift + (self.elems if self.takes_next else self.elems - self.lacking)

    def end_position(self, number: Index) -> Index:
        """Where in its row the end number ``number`` lies."""
        return add(number, mul(less(self.head - 1, number), self.count * self.elems))


def rows_of(context: Context, operands: tuple[Operand, Operand], scope: str) -> Rows | None:
    """The tile of a copy as rows; None where the two sides run along no common dimension."""
    tile = tile_over(context, operands, scope)
    digits = (find_run(tile) or tile).digits
    run = next((d for d in digits if d.strides == (1, 1) and d.axes == ("m", "m")), None)
    if run is None or (len(run.places) > 1 and not all(is_flat(o, digits) for o in operands)):
        return None
    ordered = (*(d for d in digits if d is not run), run)
    return Rows(replace(tile, digits=ordered, order="rows"))


def find_shift(rows: Rows, elems: int) -> Shift | None:
    """The vectors of so many elements; None where a side has none at constant places, or a row holds none whole."""
    src, dst = (residue(rows, side, elems) for side in (0, 1))
    if src is None or dst is None:
        return None
    shift, head = (src - dst) % elems, -dst % elems
    reach = _Reach(rows)
    while head < elems * 2 and not reach.begins(Shift(rows, elems, shift, head, 1)):
        head += elems
    found = Shift(rows, elems, shift, head, (rows.length - head) // elems)
    while found.count > 0 and not reach.ends(found):
        found = Shift(rows, elems, shift, head, found.count - 1)
    return found if found.count > 0 and reach.begins(found) else None


def residue(rows: Rows, side: int, elems: int) -> int | None:
    """How far behind a multiple of ``elems`` every row of a side begins; None where that is no constant.

    Also where its vectors would not be accesses: too long, or not kept together.
    """
    operand = rows.tile.operands[side]
    if elems * operand.elem_bytes > operand.memory.widest_bytes or operand.chunk_elems % elems:
        return None
    row, number = counter("row", rows.count), counter("number", max(1, rows.length // elems))
    for behind in range(elems):
        at = rows.ref(side, row, mul(number, elems), -behind % elems)
        if multiple(at.offset) % elems == 0:
            return behind
    return None


@dataclass(frozen=True)
class _Reach:
    """How far beyond a row words of src may be read: inside of an array that nobody writes; elsewhere not at all."""

    rows: Rows

    def _row_is_in(self, dims: frozenset[int]) -> bool:
        """Does a row run along one of these dimensions of src?"""
        return any(self.rows.tile.operands[0].dims[d] in dims for d, _, _ in self.rows.tile.digits[-1].places)

    @property
    def is_free(self) -> bool:
        """Where nobody writes, and dimensions of the array are those of memory."""
        src = self.rows.tile.operands[0]
        own = [src.dims[d] for d, _, _ in self.rows.tile.digits[-1].places]
        is_plain = STRETCHED not in own and all(len(src.iters[d]) == 1 for d in own)
        return src.memory.access == "in" and is_plain

    def begins(self, shift: Shift) -> bool:
        """Do the words of every row's first vector begin in the row, or else in the array?

        Where the row itself may begin before the array, each vector is asked for that.
        """
        first = shift.own if shift.takes_next else shift.other
        is_asked = self._row_is_in(self.rows.tile.operands[0].early)
        return first >= 0 or (self.is_free and (is_asked or self.rows.is_there(counter("row", self.rows.count), first)))

    def ends(self, shift: Shift) -> bool:
        """Do the words of every row's last vector end in the row, or else in the array?

        Where the row itself may leave the array, each vector is asked for that.
        """
        first, size = (shift.other, shift.lacking) if shift.takes_next and shift.shift else (shift.own, shift.elems)
        end = first + (shift.count - 1) * shift.elems + size - 1
        if end < self.rows.length:
            return True
        is_asked = self._row_is_in(late_dims(self.rows.tile.operands[0]))
        return self.is_free and (is_asked or self.rows.is_there(counter("row", self.rows.count), end))


def split_vector(shift: Shift, group: Index) -> tuple[Index, Index]:
    """The row of vector number ``group`` of all, and its number there."""
    if shift.rows.count == 1:
        return 0, group
    return div(group, shift.count), mod(group, shift.count)


def split_end(shift: Shift, number: Index) -> tuple[Index, Index]:
    """The row of end number ``number`` of all, and its place there."""
    if shift.rows.count == 1:
        return 0, shift.end_position(number)
    return div(number, shift.ends), shift.end_position(mod(number, shift.ends))


def is_last_in_row(shift: Shift, number: Index) -> Index:
    """Is a vector the one of its row whose neighbour, that has the words it lacks, nobody loads?"""
    return less(shift.count - 2, number) if shift.takes_next else less(number, 1)
