"""What a spec may come as: a file, a text, a dict. All become a text with a name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping as Dict
from dataclasses import dataclass, field, replace
from numbers import Integral, Rational, Real
from pathlib import Path
from typing import Any

import numpy as np

from tilegen.errors import Diagnostic, InputError, Mark, SpecError
from tilegen.near_words import find_near
from tilegen.spec.compose import MAX_CHARACTERS, MAX_DEPTH, MAX_NODES, compose
from tilegen.spec.findings import Findings, shorten
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, SourceSpan, SourceText
from tilegen.spec.pinning import write_plain

MAX_BYTES = MAX_CHARACTERS * 4
DICT = "<dict>"  # the name of a spec that came as one
_ALIKE = "a spec holds texts, numbers, true, false, null, lists and dicts"


@dataclass(frozen=True)
class NamedText:
    """A spec's text, and the name that errors give it."""

    name: str
    text: str


@dataclass(frozen=True)
class OwnData:
    """A spec that tilegen wrote itself, as a dict of what YAML would hold: it is read without YAML, much faster.

    Its errors name keys alone.
    """

    data: Dict[str, Any]


Source = str | os.PathLike[str] | Dict[str, Any] | NamedText | OwnData


def read_source(source: Source) -> NamedText:
    """The text of a file, of a str with a line break in it, or of a dict, and the name to print.

    Raises InputError (TG001) for a file that cannot be read and (TG002) for what is no UTF-8, SpecError for a dict that
    YAML could not hold, TypeError for what is none of these.
    """
    if isinstance(source, NamedText):
        return source
    if isinstance(source, OwnData):
        return NamedText(DICT, "")
    if isinstance(source, Dict):
        return NamedText(DICT, write_dict(source))
    path = os.fspath(source) if isinstance(source, os.PathLike) else source
    if not isinstance(path, str):
        kinds = "a path, a text with a line break in it, a dict, or what tilegen.load returns"
        raise TypeError(f"a spec is {kinds}, not {type(path).__name__}")
    if isinstance(source, str) and "\n" in source:
        return NamedText("<text>", source)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot read {shorten(path, 200) or repr(path)}: {reason}"
        hint = "a spec that is no path has a line break in it" if ": " in path else _say_neighbour(Path(path))
        raise InputError(Diagnostic("TG001", message, hint=hint)) from None
    return decode_text(data, path)


def _say_neighbour(path: Path) -> str:
    """The spec in a path's folder whose name is like the one that was asked for; "" if there is none."""
    try:
        names = [p.name for p in path.parent.iterdir() if p.suffix in (".yaml", ".yml")]
    except (OSError, ValueError):
        return ""
    near = next((n for n in sorted(names) if Path(n).stem == path.stem), "") or find_near(path.name, sorted(names))
    return f"did you mean '{path.parent / near}'?" if near else ""


def decode_text(data: bytes, name: str) -> NamedText:
    """The text of a file's first bytes, of which one more than MAX_BYTES is enough. Raises InputError (TG002)."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(data) <= MAX_BYTES:
            message = f"{shorten(name, 200)} is not UTF-8: byte {error.start} is 0x{data[error.start]:02X}"
            is_wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
            hint = f"save it as UTF-8{': this is UTF-16' if is_wide else ''}"
            lines = data[: error.start].decode("utf-8-sig", "replace").split("\n")
            mark = Mark(name, len(lines), len(lines[-1]) + 1, 1, lines[-1])
            raise InputError(Diagnostic("TG002", message, mark, hint)) from None
        text = data.decode("utf-8-sig", "replace")  # cut inside a character; refused for its size
    return NamedText(name, text)


def compose_source(given: Source, source: NamedText, findings: Findings) -> Mapping:
    """The top mapping of a spec, as ``compose`` says; the places in a dict are named by the keys that lead there.

    ``given``: what ``source`` was read from.
    """
    if isinstance(given, OwnData):
        return _build_node(given.data, "")  # type: ignore[return-value]
    root = compose(source.text, source.name, findings)
    return _name_places(root, "") if source.name == DICT else root  # type: ignore[return-value]


_NOWHERE = SourceText(DICT, "", ("",))


def _nowhere(keys: str) -> SourceSpan:
    return SourceSpan(_NOWHERE, 0, 0, 0, 0, 0, 0, keys)


def _build_node(value: Any, keys: str) -> Node:
    """The nodes of plain data. Raises TypeError for what YAML could not hold."""
    place = _nowhere(keys or DICT)
    if isinstance(value, dict):
        own = ((key, _join(keys, key), item) for key, item in value.items())
        return Mapping(place, tuple((Scalar(_nowhere(way), key, key), _build_node(x, way)) for key, way, x in own))
    if isinstance(value, (list, tuple)):
        return Sequence(place, tuple(_build_node(item, f"{keys}[{n}]") for n, item in enumerate(value)))
    if isinstance(value, str):
        return Scalar(place, value, value, is_quoted=True)
    if value is None or isinstance(value, (bool, int, float)):
        return Scalar(place, json.dumps(value), value)
    raise TypeError(f"a spec holds no {type(value).__name__}")


# ---------------------------------------------------------------- dicts
def write_dict(given: Dict[str, Any]) -> str:
    """A spec that came as a dict, as YAML.

    >>> print(write_dict({"kernel": "k", "params": {"M": np.int64(8)}, "ops": ()}), end="")
    kernel: k
    params: {M: 8}
    ops: []

    Raises SpecError with everything in it that YAML could not hold: TG005 for a key, TG012 for a value, TG008 for a
    number beyond 64 bits, TG010 for what is too large, too deep or inside of itself.
    """
    reading = _Reading()
    text = write_plain(reading.read(given, "", ()))
    if reading.faults:
        marks: dict[str, Mark] = {}
        _list_marks(_name_places(compose(text, DICT, Findings()), ""), marks)
        raise SpecError(replace(fault, mark=marks[keys]) for keys, fault in reading.faults)
    return text


@dataclass
class _Reading:
    """Python's data as YAML's, copied. What YAML could not hold is noted, and its type put in its place."""

    faults: list[tuple[str, Diagnostic]] = field(default_factory=list)
    values: int = 0
    characters: int = 0

    def read(self, value: Any, keys: str, around: tuple[object, ...]) -> Any:
        self.count(1, 0, keys)
        if value is None:
            return None
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        if isinstance(value, str):
            self.count(0, len(value), keys)
            return str.__str__(value)
        if isinstance(value, Integral):
            number = int(value)
            fits = -(2**63) <= number < 2**64
            return number if fits else self.refuse(value, keys, "TG008", "this integer does not fit 64 bits")
        if isinstance(value, Real) and not isinstance(value, Rational):
            return float(value)
        if not isinstance(value, (list, tuple, Dict)):
            return self.refuse(value, keys, "TG012", f"YAML has nothing like {type(value).__name__}", _ALIKE)
        if any(value is outer for outer in around):
            return self.refuse(value, keys, "TG010", f"this {type(value).__name__} stands inside of itself")
        if len(around) >= MAX_DEPTH:
            return self.refuse(value, keys, "TG010", f"nested deeper than {MAX_DEPTH} levels")
        inside = (*around, value)
        if not isinstance(value, Dict):
            return [self.read(item, f"{keys}[{n}]", inside) for n, item in enumerate(value)]
        plain = {}
        for key, item in value.items():
            if isinstance(key, str):
                self.count(1, len(key), keys)
                plain[str.__str__(key)] = self.read(item, _join(keys, key), inside)
            else:
                what = f"a key is a text, but one here is of the type {type(key).__name__}"
                self.faults.append((keys, Diagnostic("TG005", what, hint="write it as a text")))
        return plain

    def count(self, values: int, characters: int, keys: str) -> None:
        self.values, self.characters = self.values + values, self.characters + characters
        if self.values > MAX_NODES or self.characters > MAX_CHARACTERS:
            limits = f"{MAX_NODES} values or {MAX_CHARACTERS} characters"
            raise SpecError(Diagnostic("TG010", f"more than {limits}, up to {shorten(keys or DICT, 200)}"))

    def refuse(self, value: Any, keys: str, code: str, message: str, hint: str = "") -> str:
        self.faults.append((keys, Diagnostic(code, message, hint=hint)))
        return f"<{type(value).__name__}>"


def _join(keys: str, key: str) -> str:
    if not key.isidentifier():
        return f"{keys}[{shorten(repr(str.__str__(key)))}]"
    return f"{keys}.{shorten(str.__str__(key))}" if keys else shorten(str.__str__(key))


def _name_places(node: Node, keys: str) -> Node:
    place = replace(node.place, keys=keys or DICT)
    if isinstance(node, Scalar):
        return replace(node, place=place)
    if isinstance(node, Sequence):
        items = (_name_places(item, f"{keys}[{n}]") for n, item in enumerate(node.items))
        return replace(node, place=place, items=tuple(items))
    named = ((key, value, _join(keys, key.text)) for key, value in node.entries)
    entries = ((replace(k, place=replace(k.place, keys=way)), _name_places(v, way)) for k, v, way in named)
    return replace(node, place=place, entries=tuple(entries))


def _list_marks(node: Node, marks: dict[str, Mark]) -> None:
    """The first node that the keys lead to (long keys are shortened, so there may be several)."""
    marks.setdefault("" if node.place.keys == DICT else node.place.keys, node.mark)
    parts = node.items if isinstance(node, Sequence) else ()
    for part in (v for _, v in node.entries) if isinstance(node, Mapping) else parts:
        _list_marks(part, marks)
