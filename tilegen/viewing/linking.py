"""Which lines of a kernel's CUDA text carry out which op, and where in them the addresses of its arrays stand.

The text says so itself: a call ends in its op as a comment, or has it above where a line would be too long, and the
function that it calls has the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilegen.decisions import printable

_CALL = re.compile(r"\b([A-Za-z_]\w*)\(")
_COMMENT = "  // "


@dataclass(frozen=True)
class CodeSpan:
    """Characters ``start`` to ``end`` of a line, both from 0; ``buffer`` is whose address stands there."""

    buffer: str
    line: int
    start: int
    end: int


@dataclass(frozen=True)
class OpCode:
    """The lines (from 0) of the calls of an op and of the functions that they call, and the addresses in them."""

    calls: tuple[int, ...]
    lines: tuple[int, ...]
    spans: tuple[CodeSpan, ...]


def link_op(source: Sequence[str], text: str, buffers: Mapping[str, Sequence[str]]) -> OpCode:
    """The code of the op that the comments call ``text``; ``buffers``: arrays that it accesses, with all their names.

    >>> lines = ["void go(int *A)", "{", "    A[tx] = 1;", "}", "  go(&A[8]);  // fill A"]
    >>> code = link_op(lines, "fill A", {"A": ["A"]})
    >>> code.lines, [(s.line, s.start, s.end) for s in code.spans]
    ((0, 1, 2, 3, 4), [(2, 4, 9), (4, 6, 10)])
    """
    said = printable(text).split()  # a long comment has more spaces where it would have been wrapped
    calls = [call for n in range(len(source)) if (call := _call_at(source, n, said))]
    called = {name for call in calls for name in _called(source[call.start : call.stop])}
    bodies = [line for name in called for line in _function(source, name)]
    lines = sorted({*bodies, *(line for call in calls for line in call)})
    spans = [
        span for line in lines for buffer, names in buffers.items() for name in names
        for span in _addresses(source, line, buffer, name)
    ]  # fmt: skip
    bare = [buffer for buffer in buffers if not any(span.buffer == buffer for span in spans)]  # as a pointer alone
    spans += [
        CodeSpan(buffer, line, found.start(), found.end())
        for line in lines for buffer in bare for name in buffers[buffer]
        for found in re.finditer(rf"(?<![\w.]){re.escape(name)}\b", source[line].split(_COMMENT)[0])
    ]  # fmt: skip
    return OpCode(tuple(call[-1] for call in calls), tuple(lines), tuple(spans))


def _call_at(source: Sequence[str], line: int, said: Sequence[str]) -> range:
    """The lines of a call whose comment stands at the end of this line, or on lines of its own from here on."""
    if not _is_comment(source[line]):
        is_said = source[line].partition(_COMMENT)[2].split() == said
        return range(_statement_start(source, line), line + 1) if is_said else range(0)
    after = line
    while after < len(source) and _is_comment(source[after]):
        after += 1
    words = " ".join(text.partition(_COMMENT)[2] for text in source[line:after]).split()
    if words != said or (line and _is_comment(source[line - 1])) or after == len(source):
        return range(0)
    end, depth = after, _balance(source[after])
    while depth > 0 and end + 1 < len(source):
        end += 1
        depth += _balance(source[end])
    return range(line, end + 1)


def _is_comment(line: str) -> bool:
    return _COMMENT in line and not line.partition(_COMMENT)[0].strip()


def _statement_start(source: Sequence[str], line: int) -> int:
    """The first line of the statement that ends here: a folded one goes on with deeper lines."""
    first, depth = line, _balance(source[line])
    while depth < 0 and first > 0:
        first -= 1
        depth += _balance(source[first])
    return first


def _balance(line: str) -> int:
    code = line.split(_COMMENT)[0]
    return code.count("(") - code.count(")")


def _called(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield from _CALL.findall(line.split(_COMMENT)[0])


def _function(source: Sequence[str], name: str) -> range:
    """The lines of the function of this file called ``name``; none for one that it does not define."""
    start = next(
        (n for n, line in enumerate(source) if re.match(r"\w", line) and re.search(rf"\b{name}\(", line)), None
    )
    if start is None or "__global__" in source[start]:
        return range(0)
    if source[start].rstrip().endswith("}"):
        return range(start, start + 1)
    end = next((n for n in range(start, len(source)) if source[n] == "}"), start)
    return range(start, end + 1)


def _addresses(source: Sequence[str], line: int, buffer: str, name: str) -> Iterator[CodeSpan]:
    """Where ``name[...]`` stands, with its brackets, and each tensor map of the array; a span for each folded line."""
    code = source[line].split(_COMMENT)[0]
    for found in re.finditer(rf"(?<![\w.]){re.escape(name)}(?:\[|_map\w*)", code):
        depth, start, at = int(code[found.end() - 1] == "["), found.start(), found.end()
        for n in range(line, len(source)):
            text = source[n].split(_COMMENT)[0]
            while at < len(text) and depth:
                depth += {"[": 1, "]": -1}.get(text[at], 0)
                at += 1
            yield CodeSpan(buffer, n, start, at)
            if not depth:
                break
            following = source[n + 1]
            start = at = len(following) - len(following.lstrip())
