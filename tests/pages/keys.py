"""Every key of the spec language: where it may stand, what it means, and a spec that uses it.

Keys come from the models that the loader checks specs with; uses are found in specs that tests build. So a new key
without a use, or without a description, is missing here and fails a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tilegen.ops import ALL_OPS
from tilegen.spec import buffer_models, launch_models, models

# What a part of a spec is called on the page, and the model of its keys.
PARTS: dict[str, type[BaseModel]] = {
    "spec": models.SpecFields, "program": models.ProgramFields, "pass": models.PassFields,
    "param": launch_models.ParamFields, "choice": launch_models.ChoiceFields,
    "grid": launch_models.GridFields, "cluster": launch_models.ClusterFields,
    "buffer": buffer_models.BufferFields, "padded": buffer_models.PaddedFields,
    "view": buffer_models.ViewFields, "roles": models.RoleFields, "barriers": models.BarrierFields,
    "for": models.LoopFields, "let": models.LetFields, "when": models.WhenFields, "role": models.RoleBlockFields,
    "sync": models.SyncFields, "commit": models.CommitFields, "wait": models.WaitFields,
    "awaited": models.AwaitedFields, "pending": models.PendingFields, "arrive": models.ArriveFields,
    "arrival": models.ArrivalFields,
    **{name: op.model for name, op in ALL_OPS.items()},
}  # fmt: skip
_STATEMENTS = ("for", "let", "role", "arrive", "wait", "sync", "commit", *ALL_OPS, "when")


@dataclass(frozen=True)
class Use:
    """A key in a spec: its part, and its value there."""

    part: str
    key: str
    value: Any
    spec: str


def keys_of(part: str) -> dict[str, FieldInfo]:
    """The keys as they are written."""
    return {field.alias or name: field for name, field in PARTS[part].model_fields.items()}


def find_uses(name: str, text: str) -> Iterator[Use]:
    """Every key of a spec."""
    spec = yaml.safe_load(text)
    for part, mapping in _list_mappings(spec):
        for key, value in mapping.items():
            yield Use(part, str(key), value, name)


def _list_mappings(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if "passes" in spec:
        yield "program", spec
        shared = {key: spec[key] for key in ("params", "buffers") if key in spec}
        yield from list(_list_mappings(shared | {"ops": []}))[1:]
        for one in spec["passes"]:
            yield "pass", {key: one[key] for key in ("name", "when") if key in one}
            yield from list(_list_mappings(one))[1:]
        return
    yield "spec", spec
    for part, key in (("grid", "grid"), ("cluster", "cluster")):
        yield part, spec.get(key, {})
    for part, key in (("param", "params"), ("roles", "roles"), ("barriers", "barriers")):
        for entry in spec.get(key, {}).values():
            if isinstance(entry, Mapping):
                yield "choice" if "choices" in entry else part, entry
    for buffer in spec.get("buffers", {}).values():
        yield "view" if "view" in buffer else "buffer", buffer
        if isinstance(buffer.get("layout"), Mapping):
            yield "padded", buffer["layout"]
    yield from _list_statements(spec["ops"])


def _list_statements(statements: list[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for statement in statements:
        if not isinstance(statement, Mapping):
            continue  # '- commit'
        part = next(kind for kind in _STATEMENTS if kind in statement)
        yield part, statement[part] if part in ALL_OPS else statement
        inner = statement[part]
        if part == "arrive":
            yield "arrival", inner
        if part == "wait" and isinstance(inner, Mapping):
            yield "awaited" if "barrier" in inner else "pending", inner
        yield from _list_statements(statement.get("do", []))


def choose_use(part: str, key: str, uses: list[Use]) -> Use | None:
    """The shortest use of a key, and one that is no default where there is one."""
    default = keys_of(part)[key].default
    found = [use for use in uses if (use.part, use.key) == (part, key)]
    return min(found, key=lambda use: (use.value == default, len(write_use(use)), use.spec), default=None)


def write_use(use: Use) -> str:
    """A key and its value, on a line; what is inside of lists of statements and of mappings of many is left out."""
    if use.key in ("do", "ops", "passes"):
        return f"{use.key}: [..]"
    if isinstance(use.value, Mapping) and use.key in ("buffers", "roles", "params", "barriers"):
        name, value = next(iter(use.value.items()))
        return f"{use.key}: {{{name}: {_write(value)}{', ..' if len(use.value) > 1 else ''}}}"
    return f"{use.key}: {_write(use.value)}"


def _write(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False).strip()
    return text.removesuffix("...").strip()


def say_kind(field: FieldInfo) -> str:
    """What may stand for a key, in words: the values of a choice, an integer, a text, ..

    >>> say_kind(models.WhenFields.model_fields["when"])
    'text or true or false'
    """
    found: list[str] = []
    for one in _list_kinds(field.annotation):
        word = one if isinstance(one, str) else _WORDS[one]
        if word not in found:
            found.append(word)
    return " or ".join(found)


_WORDS: dict[Any, str] = {int: "integer", str: "text", float: "number", bool: "true or false", list: "list",
                          dict: "mapping"}  # fmt: skip


def _list_kinds(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        for one in get_args(annotation):
            yield from _list_kinds(one)
    elif origin is Annotated:
        yield from _list_kinds(get_args(annotation)[0])
    elif origin is Literal:
        yield from (f"`{value}`" for value in get_args(annotation))
    elif annotation is not type(None):
        yield origin or annotation


def print_keys(part: str, uses: list[Use]) -> str:
    """A table of the keys of a part: what each means, what may stand there, and a spec that uses it."""
    lines = ["| key | what it means | may be | where it is left out | example |", "|---|---|---|---|---|"]
    for key, field in keys_of(part).items():
        use = choose_use(part, key, uses)
        assert use, f"no spec uses '{key}' of '{part}': write one in specs/, or on docs/spec.md"
        link = f" ([{use.spec}](../specs/{use.spec}.yaml))" if use.spec else ""
        cells = (f"`{key}`", field.description or "", say_kind(field), _say_default(field),
                 f"`{write_use(use)}`{link}")  # fmt: skip
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _say_default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "must be there"
    return "" if field.default in (None, {}, []) else f"`{_write(field.default)}`"
