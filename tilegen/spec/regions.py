"""Regions: ``X``, ``X[i]``, ``X[lo:hi]``, ``X[lo : +len]``, ``X[lo : +len < end]``, ``X[:, j]``: a box of a buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.index import Formula, Index, Var, sub
from tilegen.near_words import suggest
from tilegen.spec.data import Buffer, Region
from tilegen.spec.expressions import BINDING, Parser, Value
from tilegen.spec.findings import Flawed, Passage, shorten
from tilegen.spec.names import Names
from tilegen.spec.spelling import spell_index
from tilegen.spec.words import Token, split_tokens


@dataclass(frozen=True)
class _Slice:
    """One dimension of a region, and which characters say it."""

    begin: Index
    length: Index
    is_kept: bool
    start: int
    end: int
    limit: Index | None = None


def parse_region(
    passage: Passage, buffers: Mapping[str, Buffer], broken_buffers: frozenset[str], names: Names,
    may_be_open: bool = False,
) -> Region:  # fmt: skip
    """The region that a text names; raises TG105 (unknown buffer), TG205 to TG208.

    ``may_be_open``: all of a dimension may be meant whose extent the launch alone knows.

    Indices may be left out at the end: ``X[i]`` of a matrix is its row i. An index drops its dimension.
    """
    parser = Parser(passage, names, split_tokens(passage))
    word = parser.advance()
    if word.kind != "name":
        raise parser.fault("a region starts with the name of a buffer", word, "TG205", "for example 'X[0:16, :]'")
    buffer = _find_buffer(word, passage, buffers, broken_buffers)
    slices: list[_Slice] = []
    if parser.accept("["):
        slices = _read_slices(parser, buffer)
    if parser.next.kind != "end":
        raise parser.fault(
            f"'{parser.next.text}' is not expected here", parser.next, "TG205", "a region is NAME or NAME[...]"
        )
    rank = len(buffer.shape)
    if len(slices) > rank:
        extra = slices[rank]
        message = f"'{buffer.name}' has {rank} dimension{'s' * (rank > 1)}, but {len(slices)} are indexed"
        raise passage.fault("TG206", message, extra.start, slices[-1].end, f"its shape is {show_shape(buffer.shape)}")
    missing = buffer.shape[len(slices) :]
    slices += [_Slice(0, extent, True, 0, len(passage.text)) for extent in missing]
    is_open = may_be_open and buffer.traits.is_array
    opened = tuple(
        d for d, s in enumerate(slices) if is_open and not isinstance(s.length, int) and s.length == buffer.shape[d]
    )
    lengths = tuple(1 if d in opened else _check_length(s, passage, buffer, d) for d, s in enumerate(slices))
    kept = tuple(s.is_kept for s in slices)
    mark = passage.locate(0, len(passage.text))
    limits = tuple((d, s.limit) for d, s in enumerate(slices) if s.limit is not None)
    return Region(buffer, tuple(s.begin for s in slices), lengths, kept, passage.text, mark, limits, opened)


def check_limit(region: Region, clips: bool) -> None:
    """Raises TG212 for a limit where nothing is clipped, and on a buffer that has no edge."""
    if not region.limits or (clips and region.buffer.traits.is_array):
        return
    if not region.buffer.traits.is_array:
        message = f"a limit is an edge of a global array, and '{region.buffer.name}' is in {region.buffer.traits.words}"
        raise Flawed("TG212", message, region.mark, "name the part that is meant")
    message = f"a limit of '{region.buffer.name}' is an edge, and this op does not clip at edges"
    raise Flawed("TG212", message, region.mark, "add 'edge: clip'")


def show_shape(shape: tuple[Index, ...]) -> str:
    """A shape as it is written in a spec.

    >>> show_shape((2, Var("M", 9)))
    '[2, M]'
    """
    return f"[{', '.join(shorten(n) for n in shape)}]"


def _find_buffer(word: Token, passage: Passage, buffers: Mapping[str, Buffer], broken: frozenset[str]) -> Buffer:
    if word.text in buffers:
        return buffers[word.text]
    if word.text in broken:
        raise Flawed()
    message = f"unknown buffer '{shorten(word.text)}'"
    raise passage.fault("TG105", message, word.start, word.end, suggest(word.text, [*buffers, *sorted(broken)]))


def _read_slices(parser: Parser, buffer: Buffer) -> list[_Slice]:
    slices: list[_Slice] = []
    while True:
        extent = buffer.shape[len(slices)] if len(slices) < len(buffer.shape) else 1
        slices.append(_read_slice(parser, extent))
        if not parser.accept(","):
            parser.expect("]", "TG205")
            return slices


def _read_slice(parser: Parser, extent: Index) -> _Slice:
    first = parser.next
    begin: Value | None = None
    if first.text in (",", "]"):
        raise parser.fault("an index is missing", first, "TG205", "':' means all of a dimension")
    if first.text != ":":
        begin = _read_early(parser) or _read_index(parser)
        if not parser.accept(":"):
            return _Slice(begin.index, 1, False, begin.start, begin.end)
    else:
        parser.advance()
    low = begin.index if begin else 0
    end = parser.tokens[parser.at - 1].end
    if parser.accept("+"):
        count = _read_index(parser, BINDING["<"])  # a limit may follow
        limit = _read_limit(parser)
        _refuse_step(parser)
        end = parser.tokens[parser.at - 1].end
        return _Slice(low, count.index, True, first.start, end, limit)
    _refuse_step(parser)
    if parser.next.text in (",", "]", ""):
        return _Slice(low, sub(extent, low), True, first.start, end)
    high = _read_index(parser)
    _refuse_step(parser)
    return _Slice(low, sub(high.index, low), True, first.start, high.end)


def _read_early(parser: Parser) -> Value | None:
    """The beginning of ``-3 : +8``, which lies before that of the array; None for any other."""
    minus, number, *after = parser.tokens[parser.at : parser.at + 4]
    if minus.text != "-" or number.kind != "number" or [token.text for token in after] != [":", "+"]:
        return None
    parser.advance()
    value = parser.read_number(parser.advance())
    return Value(sub(0, value.index), minus.start, value.end)


def _read_index(parser: Parser, weakest: int = 0) -> Value:
    if parser.next.text == "-":
        hint = "count from the start: the extent less that number"
        raise parser.fault("an index is never negative: it does not count from the end", parser.next, "TG205", hint)
    value = parser.read(weakest)
    if value.is_condition:
        raise parser.passage.fault(
            "TG205", "an index must be a number, but this is a condition", value.start, value.end
        )
    return value


def _read_limit(parser: Parser) -> Index | None:
    """``< e`` behind a length: what lies at ``e`` or beyond is past the edge. None where there is no limit."""
    if not parser.accept("<"):
        return None
    value = parser.read()
    if value.is_condition:
        message = "a limit must be a number, but this is a condition"
        raise parser.passage.fault("TG205", message, value.start, value.end)
    return value.index


def _refuse_step(parser: Parser) -> None:
    if parser.next.text == ":":
        raise parser.fault("regions have no steps", parser.next, "TG205", "write 'lo:hi' or 'lo : +length'")


def _check_length(one: _Slice, passage: Passage, buffer: Buffer, dimension: int) -> int:
    """The length as a constant of at least 1; raises TG208."""
    if isinstance(one.length, (Var, Formula)):
        message = (
            f"the length along dimension {dimension} of '{buffer.name}' is '{shorten(one.length)}', not a constant"
        )
        tiles = _say_tiles(one.length) if one.length == buffer.shape[dimension] else ""
        hint = f"write 'lo : +length' with a constant length{tiles}"
        raise passage.fault("TG208", message, one.start, one.end, hint)
    if one.length < 1:
        message = f"the region has length {one.length} along dimension {dimension} of '{buffer.name}'"
        raise passage.fault("TG208", message, one.start, one.end, "a region holds at least one element")
    return one.length


def _say_tiles(extent: Var | Formula) -> str:
    """How regions of a constant length cover an extent that is known at the launch alone."""
    said = spell_index(extent) if isinstance(extent, Var) else f"({spell_index(extent)})"
    return f": 'k*64 : +64' in 'for: {{k: ceil({said} / 64)}}', with 'edge: clip'"
