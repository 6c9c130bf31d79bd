"""The JSON Schema of a spec, draft-07, made from the models: for editors that complete and check YAML."""

from __future__ import annotations

import sys
from collections.abc import Mapping as Dict
from typing import Any

from pydantic import BaseModel

from tilegen.arch import ARCHES
from tilegen.dtypes import DTYPES
from tilegen.spec.buffer_models import BufferFields, ViewFields
from tilegen.spec.form import Form, WholeForm
from tilegen.spec.launch_models import ChoiceFields, ClusterFields, GridFields, ParamFields
from tilegen.spec.models import (
    PASS_KEYS,
    ArrivalFields,
    ArriveFields,
    AwaitedFields,
    BarrierFields,
    CommitFields,
    LetFields,
    LoopFields,
    PassFields,
    PendingFields,
    ProgramFields,
    RoleBlockFields,
    RoleFields,
    SpecFields,
    SyncFields,
    WaitFields,
    WhenFields,
)

_LOOP_BOUND = {
    "description": "a count, or [start, stop] or [start, stop, step]",
    "anyOf": [
        {"type": ["integer", "string"]},
        {"type": "array", "items": {"type": ["integer", "string"]}, "minItems": 2, "maxItems": 3},
    ],
}


def schema(forms: Dict[str, Form]) -> dict[str, Any]:
    """The JSON Schema of specs whose ops are ``forms``.

    >>> schema({})["required"]
    ['kernel']
    """
    top = _describe(SpecFields)
    whole = [_refer(f"op_{name}") for name, form in forms.items() if isinstance(form, WholeForm)]
    fields = top["properties"]
    fields["arch"]["enum"] = list(ARCHES)
    fields["params"]["additionalProperties"] = {
        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}, _refer("param"), _refer("choice")]
    }
    fields["grid"] = _describe(GridFields)
    fields["cluster"] = _describe(ClusterFields)
    fields["buffers"]["additionalProperties"] = {"anyOf": [_refer("buffer"), _refer("view")]}
    fields["roles"]["additionalProperties"] = _describe(RoleFields)
    fields["barriers"]["additionalProperties"] = _describe(BarrierFields)
    fields["ops"]["items"] = _refer("statement")
    top["required"].remove("ops")
    top["anyOf"] = [*_list_launches(whole), {"required": ["passes"], "not": {"required": ["ops"]}}]
    a_pass = _describe_pass(fields, whole)
    fields["passes"] = _describe(ProgramFields)["properties"]["passes"] | {"items": _refer("pass")}
    kinds = ("loop", "let", "when", "role", "sync", "commit", "closing", "wait", "arrive")
    statements = [_refer(kind) for kind in (*kinds, *(f"op_{name}" for name in forms))]
    definitions = {
        "pass": a_pass,
        "param": _describe(ParamFields),
        "choice": _describe(ChoiceFields),
        "buffer": _with_dtypes(_describe(BufferFields)),
        "view": _with_dtypes(_describe(ViewFields)),
        "sync": _describe(SyncFields),
        "commit": {"description": "the asynchronous copies since the last commit become one group", "const": "commit"},
        "closing": _describe(CommitFields),
        "wait": _describe_wait(),
        "arrive": _describe_arrive(),
        "loop": _describe_loop(),
        "let": _describe_let(),
        "when": _describe_block(WhenFields),
        "role": _describe_block(RoleBlockFields),
        "statement": {
            "description": "an op, a loop, names, a block, a sync, a commit, a wait or an arrival",
            "anyOf": statements,
        },
        **{f"op_{name}": _describe_op(form) for name, form in forms.items()},
    }
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "tilegen spec"}
    return {**head, **top, "definitions": definitions}


def _list_launches(whole: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ways to say the launch of a kernel: threads, roles, or an op on whole arrays, which chooses the threads."""
    ways: list[dict[str, Any]] = [{"required": ["ops", "threads"]}, {"required": ["ops", "roles"]}]
    if whole:
        said = "an op on whole arrays, alone: it chooses the threads"
        alone = {"ops": {"description": said, "items": {"anyOf": whole}, "minItems": 1, "maxItems": 1}}
        ways.append({"required": ["ops"], "properties": alone})
    return ways


def _describe_pass(fields: dict[str, Any], whole: list[dict[str, Any]]) -> dict[str, Any]:
    """A pass: its own keys, and those of a kernel that passes do not share."""
    own = _describe(PassFields)
    own["properties"] |= {key: fields[key] for key in PASS_KEYS if key in fields}
    return own | {"required": ["name", "ops"], "anyOf": _list_launches(whole)}


def _refer(name: str) -> dict[str, Any]:
    return {"$ref": f"#/definitions/{name}"}


def _describe(model: type[BaseModel]) -> dict[str, Any]:
    """A model's own schema, without pydantic's titles and without null, which nothing but lists may hold."""
    return dict(_drop_titles(model.model_json_schema(ref_template="#/definitions/{model}")))


def _drop_titles(node: Any) -> Any:
    if isinstance(node, list):
        return [_drop_titles(n) for n in node if n != {"type": "null"}]
    if not isinstance(node, dict):
        return node
    if {"type": "null"} in node.get("items", {}).get("anyOf", ()):
        return node
    kept = {
        k: _drop_titles(v)
        for k, v in node.items()
        if not (k == "title" and isinstance(v, str)) and (k, v) != ("default", None)
    }
    if len(kept.get("anyOf", ())) == 1:
        kept |= kept.pop("anyOf")[0]
    return kept


def _with_dtypes(buffer: dict[str, Any]) -> dict[str, Any]:
    buffer["properties"]["dtype"]["enum"] = list(DTYPES)
    return buffer


def _describe_wait() -> dict[str, Any]:
    wait = _describe(WaitFields)
    number = wait["properties"]["wait"]
    number["anyOf"] = [{"type": ["integer", "string"]}, _describe(AwaitedFields), _describe(PendingFields)]
    return wait


def _describe_arrive() -> dict[str, Any]:
    arrive = _describe(ArriveFields)
    arrive["properties"]["arrive"] = _describe(ArrivalFields)
    return arrive


def _describe_loop() -> dict[str, Any]:
    loop = _describe(LoopFields)
    loop["properties"]["for"]["additionalProperties"] = _LOOP_BOUND
    loop["properties"]["do"]["items"] = _refer("statement")
    return loop


def _describe_let() -> dict[str, Any]:
    let = _describe(LetFields)
    let["properties"]["let"]["additionalProperties"] = {"type": ["integer", "string"]}
    return let


def _describe_block(model: type[BaseModel]) -> dict[str, Any]:
    block = _describe(model)
    block["properties"]["do"]["items"] = _refer("statement")
    return block


def _describe_op(form: Form) -> dict[str, Any]:
    fields = _describe(form.model)
    words = sys.modules[form.model.__module__].__doc__ or form.name
    description = " ".join(words.split("\n\n")[0].split())
    return {
        "type": "object",
        "description": description,
        "properties": {form.name: {"description": description, **fields}},
        "required": [form.name],
        "additionalProperties": False,
    }
