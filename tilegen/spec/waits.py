"""Statements about what runs by itself: commit, wait, the mbarriers that copies declare and waits name; and `when`."""

from __future__ import annotations

import re
from dataclasses import replace

from tilegen.errors import Mark
from tilegen.index import Index, bound
from tilegen.plan import CP_ASYNC, PRODUCTS, TMA_STORE
from tilegen.spec.data import Closing, SlotName, Waiting
from tilegen.spec.expressions import parse_value, read_condition, read_constant
from tilegen.spec.findings import Findings, Flaw, Passage, shorten, suggest
from tilegen.spec.models import AwaitedFields, CommitFields, PendingFields, WaitFields, check_fields
from tilegen.spec.names import Names, Register
from tilegen.spec.nodes import Mapping, Scalar

# What a spec calls the queues.
QUEUE_WORDS = {"cp_async": CP_ASYNC.queue, "tma": TMA_STORE.queue, "mma": PRODUCTS}


def read_commit(node: Scalar | Mapping, names: Names, findings: Findings) -> Closing | None:
    """``commit``, ``{commit: true, when: ..}`` or ``{commit: mma}``; ``names`` are those that a condition may use."""
    if isinstance(node, Scalar):
        return Closing(True, node.mark)
    fields = check_fields(node, CommitFields, "this commit", findings, node.key("commit").mark)
    condition = read_when(node, names, findings)
    if fields and not fields.commit:
        raise Flaw("TG103", "a commit that is not wanted", node["commit"].mark, "leave it out, or give it a 'when'")
    queue = QUEUE_WORDS[fields.commit] if fields and isinstance(fields.commit, str) else ""
    return Closing(condition, node.key("commit").mark, queue) if fields else None


def read_wait(
    node: Mapping, outer: Names, names: Names, findings: Findings, register: Register
) -> Waiting | None:
    """``{wait: N}``, ``{wait: {mma: N}}`` or ``{wait: {barrier: NAME}}``, with ``when``; N uses names of ``outer``."""
    fields = check_fields(node, WaitFields, "this wait", findings, node.key("wait").mark)
    condition = read_when(node, names, findings)
    if fields is None:
        return None
    mark, what = span(node.key("wait").mark, node["wait"].mark), node["wait"]
    if not isinstance(what, Mapping):
        return Waiting(read_constant(what, outer, "the number of groups"), condition, mark)
    if "barrier" in what or not any(word in what for word in PendingFields.model_fields):
        named = check_fields(what, AwaitedFields, "this wait", findings, node.key("wait").mark)
        slot = what.get("barrier")
        if named is None or not isinstance(slot, Scalar):
            return None
        return Waiting(0, condition, mark, find_slot(slot.passage, outer, register))
    if check_fields(what, PendingFields, "this wait", findings, node.key("wait").mark) is None:
        return None
    (word, pending), *others = what.entries
    if others:
        raise Flaw("TG114", "a wait is for groups of one queue", others[0][0].mark, "write a wait for each")
    queue = QUEUE_WORDS[word.text]
    return Waiting(read_constant(pending, outer, "the number of groups"), condition, mark, queue=queue)


def word_of(statement: Closing | Waiting) -> str:
    """What a spec calls the statement's queue, "" if it names none."""
    return next((word for word, queue in QUEUE_WORDS.items() if queue == statement.queue), "")


def read_when(node: Mapping, names: Names, findings: Findings, key: str = "when") -> Index:
    """The condition of a statement, or in another of its fields; True without one."""
    when = node.get(key)
    if isinstance(when, Scalar) and when.value is not None:  # the rest was reported with the fields
        with findings.collect():
            return read_condition(when, names, key)
    return True


def span(first: Mark, last: Mark) -> Mark:
    """From the start of one mark to the end of another on its line; the first alone where they are lines apart."""
    if first.line != last.line:
        return first
    return replace(first, length=last.column + last.length - first.column)


# ---------------------------------------------------------------- mbarriers by name
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
