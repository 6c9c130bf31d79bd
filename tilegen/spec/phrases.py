"""What pydantic found wrong with a value, as tilegen says it: a code, a sentence, and the nearest fix."""

from __future__ import annotations

import re
from typing import Any

from tilegen.errors import Flaw
from tilegen.near_words import find_near
from tilegen.spec.absent import say_absent
from tilegen.spec.findings import shorten
from tilegen.spec.nodes import Node, Scalar, describe_node, say_number, say_parts, say_regions, to_plain

_KINDS = {
    "int_type": "an integer", "int_from_float": "an integer", "float_type": "a number", "string_type": "a text",
    "bool_type": "true or false", "list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}  # fmt: skip


def phrase(faults: list[Any], found: Node, key: str) -> Flaw:
    """What pydantic found at one place, the value of ``key``: its name goes before the message."""
    limits = [f for f in faults if f["type"] not in _KINDS and f["type"] != "literal_error"]
    said = "".join(f["ctx"]["expected"] for f in faults if f["type"] == "literal_error")
    choices = [text or number for text, number in re.findall(r"'([^']*)'|(\d+)", said)]
    if choices and not limits:
        word = found.text if isinstance(found, Scalar) else ""
        near = find_near(word, choices)
        number = "an integer, or " if any(f["type"] == "int_type" for f in faults) else ""
        message = f"must be {number}one of {', '.join(choices)}, not {describe_node(found)}"
        hint = say_absent(key, word) or (f"did you mean '{near}'?" if near else "")
        return Flaw("TG109", message, hint=hint)
    if limits:
        context = limits[0].get("ctx", {})
        for key, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
            if key in context:
                return Flaw("TG106", f"must be {words} {context[key]}, not {shorten(to_plain(found))}")
        if "max_length" in context or "min_length" in context:
            side = "at most" if limits[0]["type"] == "too_long" else "at least"
            count = context.get("max_length") if side == "at most" else context.get("min_length")
            return Flaw("TG106", f"must have {side} {count} entries, not {context.get('actual_length')}")
    kinds = list(dict.fromkeys(_KINDS.get(f["type"], f["msg"]) for f in faults))
    if "a number" in kinds and "an integer" in kinds:
        kinds.remove("an integer")
    if kinds == ["an integer", "a text"]:
        kinds[1] = "an expression"
    if isinstance(found, Scalar) and found.text in ("yes", "on", "no", "off") and "true or false" in kinds:
        message = f"must be true or false, not {describe_node(found)}"
        return Flaw("TG103", message, hint="YAML 1.2 reads only true and false so")
    is_number_in_quotes = isinstance(found, Scalar) and found.is_quoted and re.match(r"[0-9]+\Z", found.text)
    wants_number = {"an integer", "a number", "an expression"} & set(kinds)
    hint = "remove the quotes" if is_number_in_quotes and "an integer" in kinds else ""
    hint = hint or (say_number(found) if wants_number else "")
    regions = say_regions(found) if "a mapping" in kinds and key in ("with", "dst") else ""
    parts = say_parts(kinds[0], found) if len(kinds) == 1 else ""
    return Flaw("TG103", f"must be {' or '.join(kinds)}, not {describe_node(found)}", hint=regions or parts or hint)
