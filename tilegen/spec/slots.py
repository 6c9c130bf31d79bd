"""mbarriers by name: those that a spec declares, and those that a copy declares by naming one."""

from __future__ import annotations

import re
from collections.abc import Mapping as Dict

from tilegen.index import Index, bound
from tilegen.near_words import suggest
from tilegen.spec.expressions import BINDING, parse_value
from tilegen.spec.findings import Flawed, Passage, shorten
from tilegen.spec.names import Names, Register
from tilegen.spec.terms import BarrierTerms, SlotName
from tilegen.spec.words import split_tokens

_SLOT = re.compile(r"\s*([^\[\]]*?)\s*(?:\[(.*)\])?\s*\Z", re.DOTALL)
BARRIER = "barrier"
MOST_SLOTS = 64


def declare_slot(passage: Passage, names: Names, register: Register, terms: Dict[str, BarrierTerms]) -> SlotName:
    """The mbarrier that a copy names: its first mention declares it, unless the spec does."""
    name, index = _split(passage, names)
    if register.owners.get(name.text, ("",))[0] != BARRIER:
        register.claim(name, BARRIER)
    return _make_slot(name, index, passage, names, terms)


def find_slot(passage: Passage, names: Names, register: Register, terms: Dict[str, BarrierTerms]) -> SlotName:
    """The mbarrier that a wait names; raises TG105 for one that neither the spec nor a copy before it declares."""
    name, index = _split(passage, names)
    known = [n for n, (what, _) in register.owners.items() if what == BARRIER]
    if name.text not in known and name.text in register.unread:
        raise Flawed()
    if name.text not in known:
        hint = suggest(name.text, known) or "a copy before it declares it: 'variant: tma, barrier: ..'"
        raise name.fault("TG105", f"unknown barrier '{shorten(name.text)}'", hint=hint)
    return _make_slot(name, index, passage, names, terms)


def find_declared(passage: Passage, names: Names, register: Register, terms: Dict[str, BarrierTerms]) -> SlotName:
    """The mbarrier that threads arrive at, which is one that the spec declares; raises TG105."""
    name, index = _split(passage, names)
    if name.text not in terms:
        is_named = register.owners.get(name.text, ("",))[0] == BARRIER
        hint = "" if is_named else suggest(name.text, terms)
        message = f"threads arrive at '{shorten(name.text)}', which 'barriers' does not declare"
        raise name.fault("TG105", message, hint=hint or f"barriers: {{{shorten(name.text)}: {{slots: 1}}}}")
    return _make_slot(name, index, passage, names, terms)


def _split(passage: Passage, names: Names) -> tuple[Passage, Passage | None]:
    """The name, and what stands in brackets."""
    match = _SLOT.match(passage.text)
    if not match:
        hint = "for example full, or full[k % 3]"
        raise passage.fault("TG111", f"'{shorten(passage.text)}' is no barrier", hint=hint)
    return _part(passage, *match.span(1)), None if match[2] is None else _part(passage, *match.span(2))


def _make_slot(
    name: Passage, index: Passage | None, passage: Passage, names: Names, terms: Dict[str, BarrierTerms]
) -> SlotName:  # fmt: skip
    mark, declared = passage.locate(0, len(passage.text)), terms.get(name.text)
    if index is None:
        if declared is not None and declared.slots > 1:
            message = f"'{name.text}' has {declared.slots} slots, and this names none of them"
            raise passage.fault("TG306", message, hint=f"write {name.text}[E % {declared.slots}]")
        return SlotName(name.text, mark=mark)
    value = parse_value(index, names)
    if value.is_condition:
        raise index.fault("TG111", f"'{shorten(index.text)}' is a condition, not the number of a slot")
    if bound(value.index) > MOST_SLOTS:
        message = f"'{shorten(index.text)}' may be {bound(value.index) - 1}: a barrier has at most {MOST_SLOTS} slots"
        raise index.fault("TG112", message, hint="count around: k % 3")
    pair = _split_modulo(index, names)
    if declared is not None:
        _check_declared(index, value.index, pair, declared)
        pair = pair or (value.index, declared.slots)  # a number: a slot's first phase
    count, slots = pair or (None, 0)
    return SlotName(name.text, value.index, count, slots, mark)


def _check_declared(index: Passage, value: Index, pair: tuple[Index, int] | None, declared: BarrierTerms) -> None:
    """A declared barrier's slot says which phase is meant: E % slots, or a number, which is its first phase."""
    name, slots = declared.name, declared.slots
    if pair is not None and pair[1] == slots:
        return
    if pair is None and isinstance(value, int):
        if value >= slots:
            raise index.fault("TG112", f"'{name}' has {slots} slots, numbered from 0: there is no slot {value}")
        return
    message = f"'{shorten(index.text)}' does not say which phase of '{name}' is meant, which has {slots} slots"
    raise index.fault("TG306", message, hint=f"write E % {slots}, where E counts the phases: phase E // {slots}")


def _split_modulo(index: Passage, names: Names) -> tuple[Index, int] | None:
    """E and n of a text ``E % n``, n a number; None for any other text. Simplifying it could lose E."""
    depth, last = 0, None
    for token in split_tokens(index):
        if token.text in ("(", "["):
            depth += 1
        elif token.text in (")", "]"):
            depth -= 1
        elif depth == 0 and token.text in BINDING:
            if BINDING[token.text] < BINDING["%"]:
                return None
            last = token
    if last is None or last.text != "%":
        return None
    left, right = _part(index, 0, last.start), _part(index, last.end, len(index.text))
    slots = parse_value(right, names).index
    return (parse_value(left, names).index, slots) if isinstance(slots, int) else None


def _part(passage: Passage, start: int, end: int) -> Passage:
    return Passage(passage.text[start:end], lambda a, b: passage.locate(start + a, start + b))
