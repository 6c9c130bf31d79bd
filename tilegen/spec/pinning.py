"""A spec's text with what was left open written into it, where a person would write it; comments and lines stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from collections.abc import Mapping as Dict
from collections.abc import Sequence as List
from dataclasses import dataclass, field
from typing import Any

import yaml

from tilegen.spec.compose import compose
from tilegen.spec.findings import Findings
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, to_plain


@dataclass(frozen=True)
class Pins:
    """What a spec leaves open, and what it is: keys of the spec, params by name, layouts by the buffers whose layout is
    'auto', or not said, and of each op, in the order in which they stand, its name and the fields that it gets.

    ``passes``: the layouts and ops of each pass, in order; none of one kernel.
    """

    keys: Dict[str, Any] = field(default_factory=dict)
    params: Dict[str, int | float] = field(default_factory=dict)
    layouts: Dict[str, str] = field(default_factory=dict)
    ops: List[tuple[str, Dict[str, Any]]] = ()
    passes: List[Pins] = ()


class _Shared(Exception):
    """One place of the text stands for several, and they want to differ."""


def pin_text(text: str, pins: Pins) -> str:
    """The text of a spec that loads, with every pin written out: a value replaced, a key put at the end of its braces.

    An alias that stands for ops of which different things are pinned is written out first, without comments.

    >>> pins = Pins(ops=[("copy", {"variant": "reg"})])
    >>> print(pin_text("kernel: k\\nops:\\n  - copy: {src: X, dst: r}  # in\\n", pins), end="")
    kernel: k
    ops:
      - copy: {src: X, dst: r, variant: reg}  # in
    """
    try:
        return _Pinner(text).pin(pins)
    except _Shared:
        return _Pinner(write_out(text)).pin(pins)


def write_out(text: str) -> str:
    """The same spec without aliases."""
    return write_plain(to_plain(compose(text, "<text>", Findings())))


def write_plain(plain: Any) -> str:
    """Plain data as YAML; a list or dict of plain words and numbers is on one line.

    >>> print(write_plain({"kernel": "k", "params": {"M": 8}, "grid": {"bx": "ceil(M / 4)"}}), end="")
    kernel: k
    params: {M: 8}
    grid:
      bx: "ceil(M / 4)"
    """
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=1 << 20)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that is no plain word, so that YAML 1.1 and 1.2 read it alike."""


def _represent(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if _is_word(value) else '"')


_Dumper.add_representer(str, _represent)


_EXPRESSION = re.compile(r"[A-Za-z_(][\w ()+*/%<>=!-]*|[0-9]+ [\w ()+*/%<>=!-]*")
_NO_WORDS = ("true", "false", "null", "yes", "no", "on", "off")  # one or the other YAML reads them otherwise


def _is_word(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII)) and text.lower() not in _NO_WORDS


def _is_plain(text: str) -> bool:
    """A word, or an expression, which YAML takes as it is."""
    is_expression = _EXPRESSION.fullmatch(text) and text.isascii() and text[-1] != " "
    return _is_word(text) or bool(is_expression and not text.replace("_", "").isalnum())


def spell(value: Any) -> str:
    """A value as YAML.

    >>> spell("warp_vector"), spell("S[(4,8):(8,1)]"), spell([2, "M // 8"]), spell(8)
    ('warp_vector', '"S[(4,8):(8,1)]"', '[2, M // 8]', '8')
    """
    if isinstance(value, str):
        return value if _is_plain(value) else json.dumps(value)
    if isinstance(value, float):
        return re.sub(r"^(-?)(inf|nan)$", r"\1.\2", repr(value))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(spell, value))}]"
    if isinstance(value, Dict):
        return f"{{{', '.join(f'{spell(name)}: {spell(v)}' for name, v in value.items())}}}"
    if value is None:
        return "null"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)


class _Pinner:
    """Edits of a text, collected and then made from its end on, so that places stay what they are."""

    def __init__(self, text: str):
        self.text = text
        self.root = compose(text, "<text>", Findings())
        self.edits: dict[tuple[int, int], dict[str, str]] = {}

    def pin(self, pins: Pins) -> str:
        for name, value in pins.keys.items():
            self.write(self.root, name, value)
        for name, number in pins.params.items():
            params = self.root["params"]
            assert isinstance(params, Mapping)
            node = params[name]
            if isinstance(node, Mapping) and isinstance(choices := node.get("choices"), Sequence):
                others = [item.value for item in choices.items if isinstance(item, Scalar) and item.value != number]
                self.write(node, "choices", [number, *others])
            else:
                self.write(node, "default", number) if isinstance(node, Mapping) else self.write(params, name, number)
        self.pin_kernel(self.root, pins)
        passes = self.root.get("passes")
        if pins.passes:
            assert isinstance(passes, Sequence)
            for node, own in zip(passes.items, pins.passes, strict=True):
                assert isinstance(node, Mapping)
                self.pin_kernel(node, own)
        return self.make_edits()

    def pin_kernel(self, part: Mapping, pins: Pins) -> None:
        """Layouts and ops of the spec itself, or of a pass."""
        self.pin_layouts(part.get("buffers"), pins.layouts)
        nodes = find_ops(part["ops"], {name for name, _ in pins.ops}) if "ops" in part else ()
        for node, (_, fields) in zip(nodes, pins.ops, strict=True):
            for name, value in fields.items():
                self.write(node, name, value)

    def pin_layouts(self, buffers: Node | None, chosen: Dict[str, str]) -> None:
        for key, node in buffers.entries if isinstance(buffers, Mapping) else ():
            assert isinstance(node, Mapping)
            said = to_plain(node["layout"]) if "layout" in node else None
            if "view" not in node and said in (None, "auto") and key.text in chosen:
                self.write(node, "layout", chosen[key.text] if said else "row")

    def write(self, node: Mapping, key: str, value: Any) -> None:
        """``key: value`` in a mapping, in place of what is there."""
        old = node.get(key)
        if old is None:
            at, words = _end_of(node, key, spell(value))
            self.edit((at, at), key, words)
        elif to_plain(old) != value:
            self.edit((old.place.start, old.place.end), key, spell(value))

    def edit(self, place: tuple[int, int], key: str, words: str) -> None:
        if self.edits.setdefault(place, {}).setdefault(key, words) != words:
            raise _Shared

    def make_edits(self) -> str:
        text = self.text
        for (start, end), words in sorted(self.edits.items(), reverse=True):
            text = text[:start] + "".join(words.values()) + text[end:]
        return text


def _end_of(node: Mapping, key: str, value: str) -> tuple[int, str]:
    """Where a new entry goes, and its text: behind the last in braces, on a line behind the first without them."""
    if not node.entries:
        return node.place.end - 1, f"{key}: {value}"
    if node.is_flow:
        return node.entries[-1][1].place.end, f", {key}: {value}"
    first = node.entries[0][0].place
    return first.start, f"{key}: {value}\n{' ' * first.column}"


def find_ops(node: Node, names: Set[str]) -> Iterator[Mapping]:
    """The fields of every op that has one of the names, in the order in which the ops stand."""
    assert isinstance(node, Sequence)
    for item in node.items:
        if not isinstance(item, Mapping):  # a bare 'commit'
            continue
        if "do" in item:
            yield from find_ops(item["do"], names)
        else:
            fields = (value for key, value in item.entries if key.text in names)
            yield from (value for value in fields if isinstance(value, Mapping))
