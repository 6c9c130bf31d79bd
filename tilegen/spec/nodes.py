"""The parts of a YAML file, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import Any, Union

from tilegen.errors import Mark
from tilegen.spec.findings import Flawed, Passage, shorten


@dataclass(frozen=True)
class SourceText:
    """The file: its name as given, its text and its lines."""

    path: str
    text: str
    lines: tuple[str, ...]

    def mark(self, line: int, column: int, length: int = 1, keys: str = "") -> Mark:
        """The Mark of a 0-based line and column."""
        text = self.lines[line] if line < len(self.lines) else ""
        return Mark(self.path, line + 1, column + 1, max(1, length), text, keys)


@dataclass(frozen=True)
class SourceSpan:
    """Where a node starts and ends: 0-based lines and columns, and offsets into the text.

    ``keys``: the way to the node in a spec that came as a dict.
    """

    page: SourceText
    line: int
    column: int
    end_line: int
    end_column: int
    start: int
    end: int
    keys: str = ""

    @property
    def mark(self) -> Mark:
        """All of it, up to the end of its first line."""
        lines = self.page.lines
        line_end = len(lines[self.line]) if self.line < len(lines) else self.column
        end = self.end_column if self.end_line == self.line else line_end
        return self.part(self.column, end - self.column)

    def part(self, column: int, length: int = 1) -> Mark:
        """So many characters of its first line, from a column of the line on."""
        return self.page.mark(self.line, column, length, self.keys)


@dataclass(frozen=True)
class Scalar:
    """A value without parts. ``text`` is what YAML read; ``value`` what YAML 1.2 makes of it."""

    place: SourceSpan
    text: str
    value: Any
    is_quoted: bool = False
    is_void: bool = False  # nothing at all is written
    is_torn: bool = False  # put together again after YAML split it, which was reported

    @property
    def mark(self) -> Mark:
        return self.place.mark

    def locate(self, start: int, end: int) -> Mark:
        """Characters ``start`` to ``end`` of the text; all of it where the file spells them otherwise."""
        source = self.place.page.text[self.place.start : self.place.end]
        quote = 1 if self.is_quoted else 0
        inside = source[quote : len(source) - quote]
        if inside != self.text or self.place.line != self.place.end_line:
            return self.mark
        return self.place.part(self.place.column + quote + start, end - start)

    @property
    def passage(self) -> Passage:
        """Its text, to be parsed; raises Flawed without a diagnostic where reading it was wrong already."""
        if self.is_torn:
            raise Flawed()
        return Passage(self.text, self.locate)


@dataclass(frozen=True)
class Sequence:
    """A list."""

    place: SourceSpan
    items: tuple[Node, ...]
    is_flow: bool = False

    @property
    def mark(self) -> Mark:
        return self.place.mark


@dataclass(frozen=True)
class Mapping:
    """Keys and values, in order. ``is_torn``: an entry was split and reported; more may be missing."""

    place: SourceSpan
    entries: tuple[tuple[Scalar, Node], ...]
    is_flow: bool = False
    is_torn: bool = False

    @property
    def mark(self) -> Mark:
        return self.place.mark

    def __getitem__(self, key: str) -> Node:
        return next(value for name, value in self.entries if name.text == key)

    def __contains__(self, key: object) -> bool:
        return any(name.text == key for name, _ in self.entries)

    def get(self, key: str) -> Node | None:
        """The value of ``key``, or None."""
        return next((value for name, value in self.entries if name.text == key), None)

    def key(self, key: str) -> Scalar:
        """The node of the key itself."""
        return next(name for name, _ in self.entries if name.text == key)


Node = Union[Scalar, Sequence, Mapping]  # noqa: UP007 - a runtime alias


def to_plain(node: Node) -> Any:
    """The value of a node as Python data."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [to_plain(item) for item in node.items]
    return {key.text: to_plain(value) for key, value in node.entries}


def describe_node(node: Node) -> str:
    """What a node is, in words for a message."""
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Mapping):
        return "a mapping"
    if node.value is None:
        return "null"
    kinds = {bool: "true or false", int: "the integer", float: "the number", str: "the text"}
    kind = kinds[type(node.value)]
    return kind if isinstance(node.value, bool) else f"{kind} {shorten(node.text)!r}"


def say_parts(kind: str, node: Node) -> str:
    """How a value is written that stands where a text, a list, or a mapping is wanted; "" for other kinds.

    A list of one is that one, ``64x32`` the list [64, 32], ``k in range(4)`` the mapping {k: 4}.
    """
    if isinstance(node, Sequence) and len(node.items) == 1 and kind == "a text":
        only = node.items[0]
        return f"write {shorten(only.text)}, without brackets" if isinstance(only, Scalar) else ""
    if not isinstance(node, Scalar):
        return ""
    text = node.text
    if kind == "a list":
        items = re.split(r"(?<=\d)\s*x\s*|\s*x\s*(?=\d)|[,\s]+", text.strip("() "))
        return f"write [{', '.join(items)}]"
    loop = re.fullmatch(r"(\w+) in range\((.+)\)", text) if kind == "a mapping" else None
    return f"write {{{loop[1]}: {loop[2]}}}" if loop else ""


def say_regions(node: Node) -> str:
    """How a list of regions is written as a mapping of names to them; "" for what is none.

    Of ``[X, "tile[0:4]"]`` that is ``{x: X, tile: "tile[0:4]"}``.
    """
    items = node.items if isinstance(node, Sequence) else ()
    words = [item.text for item in items if isinstance(item, Scalar)]
    names = [found[0].lower() for word in words if (found := re.match(r"[A-Za-z_]\w*", word, re.ASCII))]
    if not names or len(set(names)) < len(items):
        return ""
    values = [f'"{word}"' if "[" in word else word for word in words]
    return f"write {{{', '.join(f'{name}: {value}' for name, value in zip(names, values, strict=True))}}}"


def say_number(node: Node) -> str:
    """How a value that is no integer would be written as one; "" if there is no way."""
    if isinstance(node, Scalar) and isinstance(node.value, float) and node.value.is_integer():
        return f"write {int(node.value)}"
    if isinstance(node, Sequence) and len(node.items) == 1:
        return "write the number without brackets"
    return ""


def find_node(fields: Mapping | Dict[str, Node], name: str) -> Node | None:
    """What a text has for a field of an op, or for an entry of one: ``dst``, or ``dst.even`` of a mapping there."""
    head, _, entry = name.partition(".")
    node = fields.get(head)
    return node[entry] if entry and isinstance(node, Mapping) and entry in node else node


def list_words(node: Node) -> Iterator[str]:
    """Every name that is said in a node, keys aside."""
    if isinstance(node, Scalar):
        yield from re.findall(r"[A-Za-z_]\w*", node.text)
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from list_words(item)
    else:
        for _, value in node.entries:
            yield from list_words(value)
