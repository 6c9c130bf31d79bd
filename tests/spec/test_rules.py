"""Every rule's wrong example breaks that rule, and its right example loads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tilegen.errors import Diagnostic, SpecError
from tilegen.ops import ALL_OPS
from tilegen.spec import load
from tilegen.spec.rules import RULES, format_rule

PACKAGE = Path(__file__).parents[2] / "tilegen"


def complete(example: str) -> str:
    """The example with the keys that it leaves out."""
    head = "" if re.search("^kernel:", example, re.M) else "kernel: k\n"
    threads = "" if re.search("^(threads?|roles|passes):|- permute: ", example, re.M) else "threads: 32\n"
    ops = "" if re.search("^(ops|passes):", example, re.M) else "ops: []\n"
    return head + threads + example + ops


def find_all(text: str) -> Sequence[Diagnostic]:
    """What is found in a spec: errors, or warnings where there are none."""
    try:
        return load(text, ALL_OPS).warnings
    except SpecError as error:
        return error.diagnostics


@pytest.mark.parametrize("code", [code for code, rule in RULES.items() if rule.bad and code < "TG3"])
def test_the_examples_of_a_rule_are_true(code: str) -> None:
    assert [d.code for d in find_all(complete(RULES[code].bad))] == [code]
    assert code not in [d.code for d in load(complete(RULES[code].good), ALL_OPS).warnings]


def test_every_code_in_the_program_has_a_rule() -> None:
    used = {code for path in PACKAGE.rglob("*.py") for code in re.findall(r'"(TG\d\d\d)"', path.read_text())}
    assert used - set(RULES) - {"TG999"} == set()  # a doctest's


@pytest.mark.parametrize("code", RULES)
def test_a_rule_can_be_printed(code: str) -> None:
    text = format_rule(code, RULES[code])
    assert text.startswith(f"{code}: ")
    assert all(len(line) <= 600 for line in text.splitlines())


def test_every_rule_has_an_example_and_a_fix() -> None:
    for code, rule in RULES.items():
        assert bool(rule.bad) == bool(rule.good), code
        assert rule.bad or rule.seen.count(".") > 0, f"{code}: an example, or where it is seen and what to do"
