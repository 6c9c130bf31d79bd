"""What ``[tool.tilegen]`` of a pyproject.toml says: options that need not be typed. The command line wins."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from tilegen.errors import Diagnostic, Flaw, InputError, Mark
from tilegen.near_words import find_near

CODE = "TG605"
_HEAD = re.compile(r"\s*\[\s*tool\s*\.\s*tilegen\b")
# Which option of which command each key is.
KEYS: dict[str, dict[str, str]] = {
    "arch": {"build": "arch", "verify": "arch", "explain": "arch", "bench": "arch", "tune": "arch"},
    "out": {"build": "output"},
    "jobs": {"build": "jobs", "verify": "jobs", "explain": "jobs", "bench": "jobs", "tune": "jobs"},
    "format": {name: "form" for name in ("build", "verify", "explain", "bench", "tune", "layout", "doctor")},
}


def read_configuration(folder: Path) -> dict[str, Any]:
    """The keys of ``[tool.tilegen]`` in the nearest pyproject.toml of ``folder`` or above it that has this table.

    ``out`` is a path from the working directory on, whatever folder the file lies in. Raises InputError (TG605) with
    the line of what is wrong.
    """
    for place in (folder, *folder.parents):
        path = place / "pyproject.toml"
        if "tilegen" not in (text := _read_text(path)):
            continue
        table = _parse(path, text).get("tool", {}).get("tilegen")
        if table is not None:
            return _check(path, text, table)
    return {}


def option_defaults(configuration: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The values of a configuration by command and by option, as click takes them.

    >>> option_defaults({"out": "kernels"})
    {'build': {'output': 'kernels'}}
    """
    found: dict[str, dict[str, Any]] = {}
    for key, value in configuration.items():
        for command, option in KEYS[key].items():
            found.setdefault(command, {})[option] = value
    return found


def _read_text(path: Path) -> str:
    """The text of a file, "" where there is none. Raises InputError (TG605) for a folder, and for what is not UTF-8."""
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        where = os.path.relpath(path)
        raise InputError(Diagnostic(CODE, f"cannot read {where}: it is a folder", hint="rename it")) from None
    except OSError:
        return ""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace").splitlines(keepends=True) or [""]
        line, column = (len(before), len(before[-1]) + 1) if before[-1][-1:] != "\n" else (len(before) + 1, 1)
        message = f"this is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}"
        mark = _mark(path, data.decode("utf-8", "replace"), line, column)
        raise InputError(Diagnostic(CODE, message, mark, "save it as UTF-8, as TOML is")) from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        place = re.search(r" \(at line (\d+), column (\d+)\)", said)
        line, column = (int(place[1]), int(place[2])) if place else (len(text.splitlines()), 1)
        message = f"this is not TOML: {said[: place.start()] if place else said}"
        raise InputError(Diagnostic(CODE, message, _mark(path, text, line, column))) from None


def _check(path: Path, text: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        hint = "write [tool.tilegen] and its keys below"
        raise InputError(Diagnostic(CODE, "tool.tilegen must be a table", _find(path, text, "tilegen"), hint))
    wrong = [flaw.locate(_find(path, text, key)) for key, value in table.items() if (flaw := _judge(key, value))]
    if wrong:
        raise InputError(wrong)
    if table.get("out", "-") != "-":
        return table | {"out": os.path.relpath(path.parent / table["out"])}
    return dict(table)


def _judge(key: str, value: Any) -> Flaw | None:
    """What is wrong with a key."""
    if key not in KEYS:
        near = find_near(key, KEYS)
        hint = f"did you mean '{near}'?" if near else f"the keys are {', '.join(KEYS)}"
        return Flaw(CODE, f"unknown key '{key}' in [tool.tilegen]", key, hint)
    if key == "jobs":
        if type(value) is not int or value < 1:
            return Flaw(CODE, f"'jobs' must be an integer of at least 1, not {value!r}", key, "for example jobs = 4")
    elif type(value) is not str or not value:
        return Flaw(CODE, f"'{key}' must be a text, not {value!r}", key, f'for example {key} = "{_EXAMPLES[key]}"')
    elif key == "format" and value not in ("text", "json"):
        return Flaw(CODE, f"'format' must be text or json, not {value!r}", key)
    elif key == "arch":
        from tilegen.arch import ARCHES

        if value not in ARCHES:
            return Flaw(CODE, f"'arch' must be one of {', '.join(ARCHES)}, not {value!r}", key)
    return None


_EXAMPLES = {"arch": "sm_90", "out": "kernels", "format": "json"}


def _find(path: Path, text: str, key: str) -> Mark:
    """Where a key of the table stands: its line, else that of the table's head."""
    lines = text.splitlines()
    head = next((k for k, line in enumerate(lines) if _HEAD.match(line)), 0)
    for k, line in enumerate(lines[head + 1 :], head + 1):
        if line.lstrip().startswith("["):
            break
        if found := re.match(rf"""\s*["']?({re.escape(key)})["']?\s*[.=]""", line):
            return _mark(path, text, k + 1, found.start(1) + 1, len(key))
    return _mark(path, text, head + 1, 1, len(lines[head]) if lines else 1)


def _mark(path: Path, text: str, line: int, column: int, length: int = 1) -> Mark:
    lines = text.splitlines()
    return Mark(os.path.relpath(path), line, column, length, lines[line - 1] if line <= len(lines) else "")
