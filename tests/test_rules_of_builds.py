"""The examples of rules that only a build can break: the wrong one gets the code of the rule, the right one builds."""

from __future__ import annotations

import pytest

from tilegen.errors import TilegenError
from tilegen.pipeline import build, kernels_of
from tilegen.spec.rules import RULES

HEAD = "kernel: k\n"
SHOWN = [code for code, rule in RULES.items() if rule.bad and code > "TG3"]


def codes(text: str) -> set[str]:
    try:
        threads = "" if text.startswith("roles:") or "\npasses:" in text else "threads: 32\n"
        kernels = kernels_of(build(HEAD + threads + text))
        return {warning.code for kernel in kernels for warning in kernel.proof.warnings}
    except TilegenError as error:
        return {d.code for d in error.diagnostics}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("code", SHOWN)
def test_the_examples_of_a_rule_are_true(code: str) -> None:
    assert codes(RULES[code].bad) == {code}
    assert codes(RULES[code].good) == set()


def test_what_a_user_can_do_wrong_has_an_example() -> None:
    assert set(SHOWN) >= {"TG301", "TG302", "TG303", "TG403", "TG404", "TG417", "TG430"}
