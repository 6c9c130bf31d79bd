"""Places in a text, for statements that nobody wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from tilegen.errors import Mark
from tilegen.spec.form import OpForm, WholeForm

T = TypeVar("T")


def mark_all(value: T, mark: Mark | None) -> T:
    """The same statements (or buffers), all of them at one place of a text."""
    changed: Any = value
    if isinstance(value, tuple):
        changed = tuple(mark_all(x, mark) for x in value)
    elif isinstance(value, Mapping):
        changed = {name: mark_all(x, mark) for name, x in value.items()}
    elif is_dataclass(value) and not isinstance(value, (type, OpForm, WholeForm)):
        own = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        new = {name: mark if name == "mark" else mark_all(x, mark) for name, x in own.items()}
        if any(new[name] is not x for name, x in own.items()):
            changed = replace(value, **new)
    return changed  # type: ignore[no-any-return]
