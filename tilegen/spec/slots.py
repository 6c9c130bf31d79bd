"""mbarriers by name: a copy declares the one that it names, a wait names one that a copy before it declared."""

from __future__ import annotations

import re

from tilegen.index import Index, bound
from tilegen.spec.data import SlotName
from tilegen.spec.expressions import parse_value
from tilegen.spec.findings import Passage, shorten, suggest
from tilegen.spec.names import Names, Register

_SLOT = re.compile(r"\s*([^\[\]]*?)\s*(?:\[(.*)\])?\s*\Z", re.DOTALL)
_BARRIER = "barrier"
MOST_SLOTS = 64


def declare_slot(passage: Passage, names: Names, register: Register) -> SlotName:
    """The mbarrier that a copy names: its first mention declares it."""
    name, index = _split(passage, names)
    if register.owners.get(name.text, ("",))[0] != _BARRIER:
        register.claim(name, _BARRIER)
    return SlotName(name.text, index, passage.locate(0, len(passage.text)))


def find_slot(passage: Passage, names: Names, register: Register) -> SlotName:
    """The mbarrier that a wait names; raises TG105 for one that no copy before it declares."""
    name, index = _split(passage, names)
    known = [n for n, (what, _) in register.owners.items() if what == _BARRIER]
    if name.text not in known:
        hint = suggest(name.text, known) or "a copy before it declares it: 'variant: tma, barrier: ..'"
        raise name.fault("TG105", f"unknown barrier '{shorten(name.text)}'", hint=hint)
    return SlotName(name.text, index, passage.locate(0, len(passage.text)))


def _split(passage: Passage, names: Names) -> tuple[Passage, Index]:
    """The name, and the number of the slot (0 without brackets)."""
    match = _SLOT.match(passage.text)
    if not match:
        hint = "for example full, or full[k % 3]"
        raise passage.fault("TG111", f"'{shorten(passage.text)}' is no barrier", hint=hint)
    name = _part(passage, *match.span(1))
    if match[2] is None:
        return name, 0
    index = _part(passage, *match.span(2))
    value = parse_value(index, names)
    if value.is_condition:
        raise index.fault("TG111", f"'{shorten(index.text)}' is a condition, not the number of a slot")
    if bound(value.index) > MOST_SLOTS:
        message = f"'{shorten(index.text)}' may be {bound(value.index) - 1}: a barrier has at most {MOST_SLOTS} slots"
        raise index.fault("TG112", message, hint="count around: k % 3")
    return name, value.index


def _part(passage: Passage, start: int, end: int) -> Passage:
    return Passage(passage.text[start:end], lambda a, b: passage.locate(start + a, start + b))
