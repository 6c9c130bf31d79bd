"""Statements about what runs by itself: commit, wait, arrive; and the condition ``when``."""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import Mark
from tilegen.index import Index
from tilegen.plan import QUEUES, TENSOR
from tilegen.scopes import THREAD_AXES
from tilegen.spec.data import ArriveStatement, CommitStatement, FollowStatement, WaitStatement
from tilegen.spec.expressions import read_condition, read_constant
from tilegen.spec.findings import Findings, Flawed
from tilegen.spec.models import (
    ArrivalFields,
    AwaitedFields,
    CommitFields,
    CommittedFields,
    PendingFields,
    WaitFields,
    check_fields,
)
from tilegen.spec.names import Names, names_in_scope, scope_of_axis
from tilegen.spec.nodes import Mapping, Node, Scalar
from tilegen.spec.slots import find_declared, find_slot
from tilegen.spec.surroundings import Surroundings
from tilegen.spec.terms import SlotName

# What a spec calls the queues that it waits for. One name stands for loads from tensor memory and stores to it.
QUEUE_WORDS = {queue.word: queue.name for queue in QUEUES.values() if queue.word in PendingFields.model_fields}


def read_commit(node: Scalar | Mapping, names: Names, findings: Findings) -> CommitStatement | None:
    """``commit``, ``{commit: true, when: ..}`` or ``{commit: mma}``; ``names`` are those that a condition may use."""
    if isinstance(node, Scalar):
        return CommitStatement(True, node.mark)
    fields = check_fields(node, CommitFields, "this commit", findings, node.key("commit").mark)
    condition = read_when(node, names, findings)
    if fields and not fields.commit:
        raise Flawed("TG103", "a commit that is not wanted", node["commit"].mark, "leave it out, or give it a 'when'")
    queue = QUEUE_WORDS[fields.commit] if fields and isinstance(fields.commit, str) else ""
    return CommitStatement(condition, node.key("commit").mark, queue) if fields else None


def read_committed(node: Mapping, around: Surroundings) -> ArriveStatement | None:
    """``{commit: {barrier: NAME, when: ..}}``: what this place's first thread has started in tensor memory arrives."""
    key, terms = _read_alone(node, "commit")
    fields = check_fields(terms, CommittedFields, "this commit", around.findings, key)
    if not isinstance(terms, Mapping):
        return None
    with around.findings.collect():
        around.check_peers("to", terms)
    scope = around.check_scope("", None, key)
    around.check_agree(scope, "a commit", key)
    condition = read_when(terms, names_in_scope(around.names, scope, around.threads or 1024), around.findings)
    slot = _read_declared(terms, around) if fields else None
    if fields is None or slot is None:
        return None
    return ArriveStatement(slot, scope, condition, span(key, terms.mark), fields.to or "", TENSOR)


def read_wait(node: Mapping, names: Names, around: Surroundings) -> WaitStatement | None:
    """``{wait: N}``, ``{wait: {mma: N}}`` or ``{wait: {barrier: NAME}}``, with ``when``, for which ``names`` are."""
    findings, outer, key = around.findings, around.names, node.key("wait").mark
    what = node["wait"]
    fields = check_fields(node, WaitFields, "this wait", findings, key)
    condition = read_when(node, names, findings)
    if fields is None:
        return None
    mark = span(key, what.mark)
    if not isinstance(what, Mapping):
        return WaitStatement(read_constant(what, outer, "the number of groups"), condition, mark)
    if "barrier" in what or not any(word in what for word in PendingFields.model_fields):
        named = check_fields(what, AwaitedFields, "this wait", findings, key)
        slot = what.get("barrier")
        if named is None or not isinstance(slot, Scalar):
            return None
        found = find_slot(slot.passage, outer, around.register, around.terms)
        return WaitStatement(0, condition, mark, found)
    if check_fields(what, PendingFields, "this wait", findings, key) is None:
        return None
    (word, pending), *others = what.entries
    if others:
        raise Flawed("TG114", "a wait is for groups of one queue", others[0][0].mark, "write a wait for each")
    queue = QUEUE_WORDS[word.text]
    left = read_constant(pending, outer, "the number of groups")
    if left and not QUEUES[queue].commit:
        message = f"a wait for copies of tensor memory is for all of them, not for all but {left}"
        raise Flawed("TG106", message, pending.mark, "write 0")
    return WaitStatement(left, condition, mark, queue=queue)


def read_follow(node: Mapping, around: Surroundings) -> FollowStatement:
    """``{wait: previous}``; raises TG122 where some threads or launches would not come to it."""
    key, what = node.key("wait"), node["wait"]
    others = [other for other, _ in node.entries if other is not key]
    if others:
        message = f"'{others[0].text}' beside 'wait: previous': every launch must wait for the kernels before it"
        raise Flawed("TG122", message, others[0].mark, "leave it out")
    if around.is_nested:
        message = "'wait: previous' inside of 'for' or 'when': every launch must wait for the kernels before it"
        raise Flawed("TG122", message, what.mark, "write it in 'ops' itself, or first in a role")
    return FollowStatement(span(key.mark, what.mark))


def word_of(statement: CommitStatement | WaitStatement) -> str:
    """What a spec calls the statement's queue, "" if it names none."""
    return QUEUES[statement.queue].word if statement.queue else ""


def read_arrive(node: Mapping, around: Surroundings) -> ArriveStatement | None:
    """``{arrive: {barrier: NAME, scope: .., when: ..}}``: an elected thread of each instance, in a role of the role."""
    findings, (key, terms) = around.findings, _read_alone(node, "arrive")
    fields = check_fields(terms, ArrivalFields, "this arrival", findings, key)
    if not isinstance(terms, Mapping):
        return None
    with findings.collect():
        around.check_peers("to", terms)
    scope = around.check_scope(fields.scope or "" if fields else "", terms.get("scope"), key)
    around.check_unit(scope, terms.key("scope").mark if "scope" in terms else key, "arrive")
    around.check_agree(scope, "an arrival", key)
    names = names_in_scope(around.names, scope, around.threads or 1024)
    condition = read_when(terms, names, findings, has_scope=True)
    slot = _read_declared(terms, around) if fields else None
    return ArriveStatement(slot, scope, condition, span(key, terms.mark), fields.to or "") if fields and slot else None


def _read_alone(node: Mapping, word: str) -> tuple[Mark, Node]:
    """Where ``word`` stands in a statement, and its terms. Raises Flawed TG114 where another key stands beside it."""
    key = node.key(word)
    others = [other for other, _ in node.entries if other is not key]
    if others:
        hint = f"{word}: {{barrier: .., {others[0].text}: ..}}"
        raise Flawed("TG114", f"'{others[0].text}' stands beside '{word}'", others[0].mark, hint)
    return key.mark, node[word]


def _read_declared(terms: Mapping, around: Surroundings) -> SlotName | None:
    """The mbarrier that some terms name; None without one."""
    slot = terms.get("barrier")
    if not isinstance(slot, Scalar):
        return None
    return find_declared(slot.passage, around.names, around.register, around.terms)


def read_when(node: Mapping, names: Names, findings: Findings, key: str = "when", has_scope: bool = False) -> Index:
    """The condition of a statement, or in another of its fields; True without one.

    ``has_scope``: it is a statement whose scope may be given.
    """
    when = node.get(key)
    names = names.advise(THREAD_AXES, lambda axis: _say_condition(axis, key, has_scope))
    if isinstance(when, Scalar) and when.value is not None:  # the rest was reported with the fields
        with findings.collect():
            return read_condition(when, names, key)
    return True


def _say_condition(axis: str, key: str, has_scope: bool) -> str:
    """What to do about an axis that numbers threads in a condition on all of them."""
    if key != "when":
        return "it is one for all of them: loops, params, bx, by and bz may stand in it"
    scope = scope_of_axis(axis) if has_scope else ""
    one = f"; with 'scope: {scope}' each {scope} that it names does all of it" if scope else ""
    return f"leave it out: they do this together{one}"


def span(first: Mark, last: Mark) -> Mark:
    """From the start of one mark to the end of another on its line; the first alone where they are lines apart."""
    if first.line != last.line:
        return first
    return replace(first, length=last.column + last.length - first.column)
