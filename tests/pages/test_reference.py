"""The reference pages say all that the product knows, and the specs on them build."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.pages import reference
from tests.pages.parts import check_parts
from tests.test_docs import cut_spec
from tilegen.ops import ALL_OPS
from tilegen.pipeline import build

DOCS = reference.ROOT / "docs"
PAGES = {
    "spec": {**reference.SPEC_PARTS, "ring_spec": lambda: cut_spec("copy_ring", "roles:")},
    "cli": {"help": reference.print_help},
    "errors": {"errors": reference.print_errors},
    "api": {"api": reference.print_api},
}


@pytest.mark.parametrize("name", PAGES)
def test_generated_parts(name: str) -> None:
    check_parts(DOCS / f"{name}.md", PAGES[name])


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "text", [pytest.param(t, id=yaml.safe_load(t)["kernel"]) for t in reference.whole_specs(reference.SPEC_PAGE)]
)
def test_a_spec_of_the_page_builds_without_a_warning(text: str) -> None:
    assert build(text).warnings == ()


def test_every_example_of_the_page_is_a_whole_spec() -> None:
    text = re.sub(r"<!-- generated.*?<!-- end -->", "", reference.SPEC_PAGE.read_text(encoding="utf-8"), flags=re.S)
    assert text.count("```yaml\n") == len(reference.whole_specs(reference.SPEC_PAGE)) > 5


def test_every_field_of_every_op_is_described() -> None:
    for name, op in ALL_OPS.items():
        for field, info in op.model.model_fields.items():
            assert info.description, f"{name}: {field} has no description"


def test_the_pages_know_no_machine() -> None:
    for name in PAGES:
        assert not re.search(r"0x[0-9a-f]{6}|/root/|/home/|/tmp/", Path(DOCS / f"{name}.md").read_text("utf-8")), name
