"""Statements about asynchronous copies, commit and wait, and the condition that any statement may have."""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import Mark
from tilegen.index import Index
from tilegen.spec.data import Closing, Waiting
from tilegen.spec.expressions import read_condition, read_constant
from tilegen.spec.findings import Fault, Findings
from tilegen.spec.models import BarrierFields, CommitFields, WaitFields, check_fields
from tilegen.spec.names import Names, Register
from tilegen.spec.nodes import Mapping, Scalar
from tilegen.spec.slots import find_slot


def read_commit(node: Scalar | Mapping, names: Names, findings: Findings) -> Closing | None:
    """``commit``, or ``{commit: true, when: ..}``; ``names`` are those that a condition may use."""
    if isinstance(node, Scalar):
        return Closing(True, node.mark)
    fields = check_fields(node, CommitFields, "this commit", findings, node.key("commit").mark)
    condition = read_when(node, names, findings)
    if fields and not fields.commit:
        raise Fault("TG103", "a commit that is not wanted", node["commit"].mark, "leave it out, or give it a 'when'")
    return Closing(condition, node.key("commit").mark) if fields else None


def read_wait(
    node: Mapping, outer: Names, names: Names, findings: Findings, register: Register
) -> Waiting | None:
    """``{wait: N}`` or ``{wait: {barrier: NAME}}``, with ``when``; ``outer`` are the names that N may use."""
    fields = check_fields(node, WaitFields, "this wait", findings, node.key("wait").mark)
    condition = read_when(node, names, findings)
    if fields is None:
        return None
    mark, what = span(node.key("wait").mark, node["wait"].mark), node["wait"]
    if isinstance(what, Mapping):
        named = check_fields(what, BarrierFields, "this wait", findings, node.key("wait").mark)
        slot = what.get("barrier")
        if named is None or not isinstance(slot, Scalar):
            return None
        return Waiting(0, condition, mark, find_slot(slot.passage, outer, register))
    pending = read_constant(node["wait"], outer, "the number of groups")
    return Waiting(pending, condition, mark)


def read_when(node: Mapping, names: Names, findings: Findings) -> Index:
    """The condition of a statement; True without one."""
    when = node.get("when")
    if isinstance(when, Scalar) and when.value is not None:  # the rest was reported with the fields
        with findings.collect():
            return read_condition(when, names)
    return True


def span(first: Mark, last: Mark) -> Mark:
    """From the start of one mark to the end of another on its line; the first alone where they are lines apart."""
    if first.line != last.line:
        return first
    return replace(first, length=last.column + last.length - first.column)
