"""The JSON Schema: valid draft-07, every field described, and in agreement with the loader on the specs that load."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tilegen.ops import ALL_OPS
from tilegen.spec import schema

ROOT = Path(__file__).parents[2]
SCHEMA = schema(ALL_OPS)
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
SPECS = sorted((ROOT / "specs").glob("*.yaml"))
REFUSED = [
    "buffer_missing_keys", "buffer_unknown_key", "buffer_unknown_scope", "buffer_unknown_dtype", "op_missing_field",
    "op_unknown_field", "op_unknown_scope", "op_unknown_variant", "for_without_do", "sync_unknown",
    "spec_missing_kernel", "spec_missing_threads", "spec_unknown_key", "arch_unknown", "threads_zero",
    "threads_too_many", "param_unknown_key", "param_negative", "op_unknown", "grid_unknown_axis", "for_bounds",
]  # fmt: skip


def test_it_is_a_draft_07_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert not any("$defs" in node or "prefixItems" in node for node in walk(SCHEMA))


@pytest.mark.sweep(15)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_a_good_spec_is_valid(path: Path) -> None:
    VALIDATOR.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("name", REFUSED)
def test_a_spec_with_wrong_keys_or_values_is_not(name: str) -> None:
    text = (ROOT / "tests" / "bad_specs" / f"{name}.yaml").read_text()
    assert not VALIDATOR.is_valid(yaml.safe_load(text))


def test_every_field_is_described() -> None:
    for node in walk(SCHEMA):
        for name, field in node.get("properties", {}).items():
            assert field.get("description"), name


def test_the_schema_of_specs_is_the_one_that_is_printed() -> None:
    path = ROOT / "specs" / "tilegen.schema.json"
    text = json.dumps(SCHEMA, indent=2) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "stale: `make golden` rewrites it"


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_editors_find_the_schema(path: Path) -> None:
    """The line is the last one, where editors look too: the numbers of all others, which errors name, stay."""
    _, equals, name = path.read_text(encoding="utf-8").splitlines()[-1].partition("# yaml-language-server: $schema=")
    assert equals
    assert (path.parent / name).is_file()


def walk(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in the schema."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)
