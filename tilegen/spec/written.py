"""Parts of a spec that tilegen writes itself, from templates that read as specs do.

A template calls its own buffers, loops and roles by plain names. Where the user's spec has such a name already, the
template's gives way: ``write_part`` renames what a template declares, and leaves alone what was marked ``as_given``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tilegen.spec.compose import read_plain
from tilegen.spec.outline import fresh_name
from tilegen.templating import templates

_DECLARING = ("let", "for", "with", "buffers", "roles", "barriers")  # keys below which keys are names
_BEGIN, _END = "\ue000", "\ue001"  # characters for private use, which no spec has
_WORD = re.compile(rf"{_BEGIN}([^{_END}]*){_END}|\b[A-Za-z_]\w*")


def as_given(text: str) -> str:
    """A text of the user's spec for a place in a template: none of its names is the template's."""
    return f"{_BEGIN}{text}{_END}"


def write_part(template: str, values: Mapping[str, Any], taken: frozenset[str]) -> dict[str, Any]:
    """The data of a template of templates/, filled in.

    ``taken``: names that the template's own give way to, by numbers behind them.

    >>> from tilegen.spec.written import settle_names
    >>> part = {"let": {"m": "bx * 2"}, "ops": [{"copy": {"src": f"{as_given('m')}[m]"}}]}
    >>> settle_names(part, frozenset({"m"}))
    {'let': {'m2': 'bx * 2'}, 'ops': [{'copy': {'src': 'm[m2]'}}]}
    """
    data: dict[str, Any] = read_plain(templates("#").get_template(template).render(values))
    return settle_names(data, taken)


def settle_names(data: dict[str, Any], taken: frozenset[str]) -> dict[str, Any]:
    """Data of a spec without marks, in which what it declares has names that are not ``taken``."""
    own = _list_declared(data) & taken
    found: dict[str, Any] = _rename(data, {name: fresh_name(name, taken) for name in own})
    return found


def _list_declared(data: Any) -> set[str]:
    """The names that data declares, but those that were given."""
    if isinstance(data, list):
        return set().union(*map(_list_declared, data))
    if not isinstance(data, dict):
        return set()
    found = set().union(*map(_list_declared, data.values()))
    for key in _DECLARING:
        found |= {name for name in data.get(key, ()) if not name.startswith(_BEGIN)}
    return found


def _rename(data: Any, names: Mapping[str, str], are_names: bool = False) -> Any:
    """Data with other names in its texts, and in its keys where they are names."""
    if isinstance(data, str):
        return _WORD.sub(lambda word: names.get(word[0], word[0]) if word[1] is None else word[1], data)
    if isinstance(data, list):
        return [_rename(item, names) for item in data]
    if not isinstance(data, dict):
        return data
    return {
        _rename(key, names) if are_names else key: _rename(value, names, not are_names and key in _DECLARING)
        for key, value in data.items()
    }
