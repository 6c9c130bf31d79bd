"""YAML text to nodes with positions: YAML 1.2 scalars, and none of YAML's traps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isinf
from typing import Any

import yaml

from tilegen.errors import Mark, SpecError
from tilegen.spec.findings import Findings, Flawed, shorten
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, SourceSpan, SourceText, describe_node
from tilegen.spec.words import CURLY

MAX_CHARACTERS = 1 << 16
MAX_NODES = 8000  # an alias counts as all that it stands for
MAX_DEPTH = 24

_BREAKS = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_ODD_INTEGER = re.compile(r"[-+]?(0[0-9]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[bB][01]+)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}


def compose(text: str, path: str, findings: Findings) -> Mapping:
    """The top mapping of a spec. What can be passed over is noted in ``findings``.

    >>> from tilegen.spec.nodes import to_plain
    >>> to_plain(compose("a: {b: [1, on, 4:32]}", "x.yaml", Findings()))
    {'a': {'b': [1, 'on', '4:32']}}

    Raises SpecError where the text is not YAML or is too large to be a spec.
    """
    page = SourceText(path, text, tuple(_BREAKS.split(text)))
    if len(text) > MAX_CHARACTERS:
        raise _refusal("TG010", f"the spec has {len(text)} characters; at most {MAX_CHARACTERS} are read", None)
    try:
        return _Composer(page, findings).compose_document()
    except Flawed as fault:
        assert fault.diagnostic
        raise SpecError([*findings.found, fault.diagnostic]) from None
    except yaml.MarkedYAMLError as error:
        raise _explain_syntax(page, error) from None
    except yaml.reader.ReaderError as error:
        raise _explain_character(page, error) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # e.g. an escape beyond Unicode
        raise _refusal("TG003", f"this is not YAML: {shorten(error)}", None) from None


def read_plain(text: str) -> Any:
    """The data of a text that tilegen wrote itself, without places and findings: by libyaml, where there is one.

    >>> read_plain("a: &b {c: [1, on, 4:32]}\\nd: *b")
    {'a': {'c': [1, 'on', '4:32']}, 'd': {'c': [1, 'on', '4:32']}}

    Raises yaml.YAMLError for what is not YAML.
    """
    events: Iterator[Any] = iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    anchors: dict[str, Any] = {}

    def read(event: Any) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return anchors[str(event.anchor)]
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            value = event.value if event.style else _read_scalar(event.value)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(item := next(events), yaml.SequenceEndEvent):
                value.append(read(item))
        else:
            value = {}
            while not isinstance(key := next(events), yaml.MappingEndEvent):
                value[key.value] = read(next(events))
        if event.anchor is not None:
            anchors[event.anchor] = value
        return value

    next(events), next(events)  # the starts of the stream and of the document
    return read(next(events))


def _read_scalar(text: str) -> Any:
    """What YAML 1.2 makes of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INTEGER.match(text) else float(text) if _FLOAT.match(text) else text


def _refusal(code: str, message: str, mark: Mark | None, hint: str = "") -> SpecError:
    findings = Findings()
    findings.report(code, message, mark, hint)
    return SpecError(findings.found)


_TIGHT = re.compile(r"\s*(?:- )?([A-Za-z_]\w*):([^ \t].*)")


def _explain_tight(page: SourceText, line: int) -> SpecError | None:
    """A key that no space parts from its value, on this line or the one before: YAML reads both as one text."""
    for number in (line, line - 1):
        found = _TIGHT.match(page.lines[number]) if 0 <= number < len(page.lines) else None
        if found:
            value = found[2].strip()
            message = f"this is not YAML: '{shorten(found[1])}:' and its value are one word"
            hint = f"write '{shorten(found[1])}: {shorten(value)}', with a plain space"
            return _refusal("TG003", message, page.mark(number, found.start(1)), hint)
    return None


def _explain_syntax(page: SourceText, error: yaml.MarkedYAMLError) -> SpecError:
    at = error.problem_mark or error.context_mark
    if at and (tight := _explain_tight(page, at.line)):
        return tight
    mark = page.mark(at.line, at.column) if at else None
    problem = shorten(error.problem or error.context or "unreadable", 100)
    line = page.lines[at.line] if at and at.line < len(page.lines) else ""
    hint = ""
    if "\t" in problem or "\\t" in problem:
        hint = "indent with spaces"
    elif at and ("but got '['" in problem or "but got '{'" in problem or "mapping values" in problem):
        if re.search(r"[\[(]", line[: at.column + 1]) or line[at.column : at.column + 1] == "[":
            return _refusal(
                "TG006", "a value with '[', ',' or ': ' in it must be quoted", mark, 'quote this value: "..."'
            )
        hint = 'check the indentation, or quote a value that holds ": "' if "mapping values" in problem else ""
    elif "cannot start any token" in problem:
        hint = "quote this value"
    elif error.context_mark is not None and ("but got" in problem or "end of stream" in problem):
        hint = f"what opens on line {error.context_mark.line + 1} is not closed"
    elif "expected <block end>" in problem:
        hint = "it is not part of what stands above it: check the indentation"
    return _refusal("TG003", f"this is not YAML: {problem}", mark, hint)


def _explain_character(page: SourceText, error: yaml.reader.ReaderError) -> SpecError:
    before = _BREAKS.split(page.text[: error.position])
    mark = page.mark(len(before) - 1, len(before[-1]))
    return _refusal("TG002", f"the character U+{ord(page.text[error.position]):04X} is not allowed in YAML", mark)


_LISTS = ("shape", "axes", "tile")  # keys whose values are lists, which Python would write in parentheses


class _Composer:
    """Events to nodes. The budget counts what the nodes stand for, so that aliases cannot multiply for free."""

    def __init__(self, page: SourceText, findings: Findings):
        self.page = page
        self.findings = findings
        self.events: Iterator[Any] = iter(yaml.parse(page.text, Loader=yaml.SafeLoader))
        self.nodes = 0
        self.anchors: dict[str, tuple[Node, int] | None] = {}

    def compose_document(self) -> Mapping:
        next(self.events)  # the start of the stream
        start = next(self.events)
        if isinstance(start, yaml.StreamEndEvent):
            raise Flawed("TG011", "the spec is empty", self.page.mark(0, 0), "start with 'kernel: NAME'")
        root = self.compose_node(next(self.events), 0)
        next(self.events)  # the end of the document
        after = next(self.events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise Flawed(
                "TG009", "a spec is one YAML document", self.page.mark(after.start_mark.line, 0), "remove this"
            )
        if not isinstance(root, Mapping):
            found = "nothing" if isinstance(root, Scalar) and root.value is None else describe_node(root)
            raise Flawed(
                "TG011", f"a spec is a mapping of keys, but this is {found}", root.mark, "start with 'kernel: NAME'"
            )
        return root

    def compose_node(self, event: Any, depth: int) -> Node:
        mark = self.page.mark(event.start_mark.line, event.start_mark.column)
        self.count(1, mark)
        if depth > MAX_DEPTH:
            raise Flawed("TG010", f"nested deeper than {MAX_DEPTH} levels", mark)
        if isinstance(event, yaml.AliasEvent):
            return self.compose_alias(event, mark)
        if event.tag is not None:
            self.findings.report("TG009", f"the tag {shorten(event.tag)!r} means nothing in a spec", mark, "remove it")
        anchor = event.anchor
        if anchor is not None:
            self.anchors[anchor] = None  # until it is complete
        before = self.nodes
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = self.compose_scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self.compose_sequence(event, depth)
        else:
            node = self.compose_mapping(event, depth)
        if anchor is not None:
            self.anchors[anchor] = (node, self.nodes - before + 1)
        return node

    def count(self, nodes: int, mark: Mark) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise Flawed("TG010", f"more than {MAX_NODES} values, aliases counted as what they stand for", mark)

    def compose_alias(self, event: Any, mark: Mark) -> Node:
        if event.anchor not in self.anchors:
            raise Flawed(
                "TG003",
                f"this is not YAML: no anchor '{shorten(event.anchor)}' before this alias",
                mark,
                f"write the value, or '&{shorten(event.anchor)}' where it stands first",
            )
        known = self.anchors[event.anchor]
        if known is None:
            raise Flawed("TG010", f"the alias '*{shorten(event.anchor)}' stands inside of what it stands for", mark)
        self.count(known[1], mark)
        return known[0]

    def place(self, start: Any, end: Any) -> SourceSpan:
        return SourceSpan(self.page, start.line, start.column, end.line, end.column, start.index, end.index)

    def compose_scalar(self, event: Any) -> Scalar:
        place = self.place(event.start_mark, event.end_mark)
        if event.style is not None:
            return Scalar(place, event.value, event.value, is_quoted=event.style in "'\"")
        text = event.value
        if text in _WORDS:
            return Scalar(place, text, _WORDS[text], is_void=place.start == place.end)
        if _ODD_INTEGER.match(text):
            plain = "write it in decimal, without leading zeros"
            self.findings.report("TG008", f"{shorten(text)!r} could be read as more than one number", place.mark, plain)
            return Scalar(place, text, int(re.sub("[^0-9]", "", text)[:15] or 0))
        if _INTEGER.match(text):
            fits = len(text.lstrip("-+")) <= 20 and -(2**63) <= int(text) < 2**64
            if not fits:
                self.findings.report("TG008", f"{shorten(text)!r} does not fit 64 bits", place.mark)
            return Scalar(place, text, int(text) if fits else 1)
        if _FLOAT.match(text):
            if isinf(float(text)):
                hint = f"infinity is written {'-' * (text[0] == '-')}.inf"
                self.findings.report("TG106", f"{shorten(text)!r} is more than any float holds", place.mark, hint)
                return Scalar(place, text, 1.0)
            return Scalar(place, text, float(text))
        return Scalar(place, text, text)

    def compose_sequence(self, start: Any, depth: int) -> Sequence:
        items: list[Node] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.compose_node(event, depth + 1))
        if start.flow_style:
            items = self.mend_sequence(items)
        return Sequence(self.place(start.start_mark, event.end_mark), tuple(items), bool(start.flow_style))

    def mend_sequence(self, items: list[Node]) -> list[Node]:
        """Items whose parentheses do not close were one value before YAML split it at its commas."""
        mended: list[Node] = []
        at = 0
        while at < len(items):
            last = _find_close(items, at)
            if last > at:
                mended.append(self.report_split(items[at], items[last]))
            else:
                mended.append(items[at])
            at = last + 1
        return mended

    def report_split(self, first: Node, last: Node, key: str = "") -> Scalar:
        """Note a value that YAML split at its commas; return it as the text it was meant to be."""
        start, end = first.place, last.place
        place = SourceSpan(start.page, start.line, start.column, end.end_line, end.end_column, start.start, end.end)
        meant = self.page.text[place.start : place.end].rstrip(": ")
        name = f"{shorten(key)}: " if key else ""
        items = re.fullmatch(r"\((.*)\)|([\d, ]+)", meant) if key in _LISTS or _is_number(first) else None
        hint = f'quote this value: {name}"{shorten(meant.strip(CURLY))}"'
        if items:
            hint = f"write a list: {name}[{shorten(items[1] or items[2])}]"
        self.findings.report("TG006", "YAML splits this value at its comma", place.mark, hint)
        return Scalar(place, meant, meant, is_torn=True)

    def compose_mapping(self, start: Any, depth: int) -> Mapping:
        pairs: list[tuple[Node, Node]] = []
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.compose_node(event, depth + 1)
            pairs.append((key, self.compose_node(next(self.events), depth + 1)))
        place = self.place(start.start_mark, event.end_mark)
        joined = self.mend_mapping(pairs) if start.flow_style else pairs
        entries = self.check_keys(joined)
        return Mapping(place, tuple(entries), bool(start.flow_style), len(entries) < len(pairs))

    def mend_mapping(self, pairs: list[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
        """Keys without a value after a value whose parentheses do not close belong to it, and numbers to a number."""
        mended: list[tuple[Node, Node]] = []
        at = 0
        while at < len(pairs):
            key, value = pairs[at]
            last = at
            if _depth_of(value) > 0:
                flat = [value, *(k for k, v in pairs[at + 1 :])]
                last = at + _find_close(flat, 0)
                while last == at and last + 1 < len(pairs) and _is_void(pairs[last + 1][1]):
                    last += 1
            elif _is_number(value):
                while last + 1 < len(pairs) and _is_number(pairs[last + 1][0]) and _is_void(pairs[last + 1][1]):
                    last += 1
            if last > at:
                value = self.report_split(value, pairs[last][0], key.text if isinstance(key, Scalar) else "")
            mended.append((key, value))
            at = last + 1
        return mended

    def check_keys(self, pairs: list[tuple[Node, Node]]) -> list[tuple[Scalar, Node]]:
        entries: list[tuple[Scalar, Node]] = []
        seen: dict[str, Scalar] = {}
        for key, value in pairs:
            if not isinstance(key, Scalar) or not isinstance(key.value, str):
                fix = (
                    f"write a name: n{shorten(key.text)}"
                    if isinstance(key, Scalar) and key.text
                    else "quote this value"
                )
                self.findings.report("TG005", f"a key is a text, but this is {describe_node(key)}", key.mark, fix)
            elif key.text == "<<" and not key.is_quoted:
                self.findings.report("TG009", "merge keys are not part of a spec", key.mark, "write the keys out")
            elif key.text in seen:
                first = seen[key.text].mark.line
                self.findings.report(
                    "TG004", f"the key {shorten(key.text)!r} is given twice", key.mark, f"first on line {first}"
                )
            else:
                seen[key.text] = key
                entries.append((key, value))
        return entries


def _depth_of(node: Node) -> int:
    """Parentheses that a plain scalar opens and does not close."""
    if not isinstance(node, Scalar) or node.is_quoted or not node.text:
        return 0
    return node.text.count("(") - node.text.count(")")


def _find_close(items: list[Node], at: int) -> int:
    """The index where the parentheses opened at ``at`` close again; ``at`` itself if they never do."""
    depth = _depth_of(items[at])
    last = at
    while depth > 0 and last + 1 < len(items) and isinstance(items[last + 1], Scalar):
        last += 1
        depth += _depth_of(items[last])
    return last if depth == 0 else at


def _is_number(node: Node) -> bool:
    return isinstance(node, Scalar) and type(node.value) is int


def _is_void(node: Node) -> bool:
    return isinstance(node, Scalar) and node.is_void
