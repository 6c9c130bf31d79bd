"""The rules by code: file TG0xx, name TG1xx, layout TG2xx, build TG3xx to TG5xx, command TG6xx, call TG7xx."""

from __future__ import annotations

from dataclasses import replace

from tilegen.spec.rules.around import CALL_RULES, COMMAND_RULES, FILE_RULES
from tilegen.spec.rules.build import BUILD_RULES
from tilegen.spec.rules.layout import LAYOUT_RULES
from tilegen.spec.rules.name import NAME_RULES
from tilegen.spec.rules.places import PLACE_RULES
from tilegen.spec.rules.rule import SEEN, Rule, format_rule
from tilegen.spec.rules.traces import TRACE_RULES
from tilegen.spec.rules.values import VALUE_RULES

_RULES = {
    **FILE_RULES,
    **NAME_RULES,
    **LAYOUT_RULES,
    **BUILD_RULES,
    **VALUE_RULES,
    **PLACE_RULES,
    **TRACE_RULES,
    **COMMAND_RULES,
    **CALL_RULES,
}
RULES: dict[str, Rule] = {code: replace(rule, seen=SEEN.get(code, "")) for code, rule in _RULES.items()}

__all__ = ["RULES", "Rule", "format_rule"]
