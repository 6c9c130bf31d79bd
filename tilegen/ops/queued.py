"""The queues that a commit or a wait is for, and what is wrong where there are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilegen.errors import Diagnostic
from tilegen.plan import PRODUCTS, QUEUES, TENSOR, TENSOR_LOADS, Block, Repeat, Step, Wait, effects, flatten
from tilegen.spec.data import ArriveStatement, Call, CommitStatement, WaitStatement

Queued = CommitStatement | WaitStatement
_TMEM = QUEUES[TENSOR_LOADS].word  # of loads and of stores, which a wait is for at once


def find_queues(s: Queued, own: Sequence[str]) -> list[str]:
    """The queues that a statement names, or all of its role. Products in tensor memory report to mbarriers instead."""
    word = QUEUES[s.queue].word if s.queue else ""
    used = [q for q in own if QUEUES[q].word and word in ("", QUEUES[q].word)]
    return [q for q in used if isinstance(s, WaitStatement) or not QUEUES[q].closes_itself]


def explain_queue(s: Queued, own: Sequence[str], who: str, has_barriers: bool) -> list[Diagnostic]:
    """What is wrong (TG304) with a commit or a wait of role ``who``, "" for the kernel, whose queues are ``own``.

    ``has_barriers``: copies of the role report to mbarriers.
    """
    queues, is_commit, whose = find_queues(s, own), isinstance(s, CommitStatement), say_whose(who)
    what, found = "commit closes" if is_commit else "wait waits for", []
    words = {QUEUES[q].word for q in queues}
    if not queues:
        started, op = ("products", "mma") if s.queue == PRODUCTS else ("copies", "copy")
        message = f"this {what} groups of asynchronous {started}, and {whose} has none"
        hint = f"write 'async: true' on the {op}"
        if TENSOR in own and s.queue in ("", PRODUCTS):
            groups = "products by wgmma" if s.queue else "asynchronous copies"
            message = f"this {what} groups of {groups}, and {whose} has products in tensor memory"
            hint = "write 'commit: {barrier: NAME}'" if is_commit else "write 'wait: {barrier: NAME}'"
            hint += f", where {'the products so far arrive' if is_commit else 'a commit has them arrive'}"
        elif s.queue and QUEUES[s.queue].word == _TMEM:
            message = f"this wait is for asynchronous copies of tensor memory, and {whose} has none"
            hint = "leave it out: a cast, or a copy without 'async: true', waits for its own"
        elif is_commit and any(QUEUES[q].word == _TMEM for q in own):
            hint = "remove it: copies of tensor memory are no groups, and 'wait: {tmem: 0}' is for all of them"
        elif is_commit and s.queue != PRODUCTS and (own or has_barriers):
            hint = "remove it: a TMA load reports to its barrier, and a TMA store closes its group itself"
        found.append(Diagnostic("TG304", message, s.mark, hint))
    if len(words) > 1 and (PRODUCTS in queues or who):
        kinds = "copies and products in flight" if PRODUCTS in queues else "two: cp.async copies and TMA stores"
        kinds = "copies of tensor memory and others" if _TMEM in words else kinds
        message = f"this {what} groups of one queue, and {whose} has {kinds}"
        hint = "commit: mma" if is_commit else "wait: {mma: N}, wait: {cp_async: N} or wait: {tma: N}"
        hint = "wait: {tmem: 0}, and a wait for each other queue" if _TMEM in words else hint
        found.append(Diagnostic("TG304", message, s.mark, hint))
    elif isinstance(s, WaitStatement) and s.pending and _TMEM in words:
        message = f"a wait for copies of tensor memory is for all of them, not for all but {s.pending}"
        found.append(Diagnostic("TG304", message, s.mark, "write 'wait: {tmem: 0}'"))
    return found


def explain_arrival(s: ArriveStatement, own: Sequence[str], who: str) -> list[Diagnostic]:
    """What is wrong (TG304) with a commit to an mbarrier in a role that starts no product in tensor memory."""
    if not s.landed or s.landed in own:
        return []
    message = f"this commit is of products in tensor memory, and {say_whose(who)} starts none"
    hint = "write it in the role of the mma, or 'arrive: {barrier: NAME}' for what the threads did"
    return [Diagnostic("TG304", message, s.mark, hint)]


def explain_crossing(steps: Sequence[Step], own: Sequence[str], calls: Sequence[Call]) -> list[Diagnostic]:
    """What is wrong (TG190) with the first load of tensor memory of a role, whose queues are ``own``, that a wait in
    another list lands.

    Where paths of a program meet, a compiler copies registers: it does not know that a load still fills them.
    """
    for op in _find_crossing(steps, [])[:1] if TENSOR_LOADS in own else ():
        message = "a load of tensor memory that is waited for in another list of statements is not yet supported"
        hint = "write 'wait: {tmem: 0}' behind it in the same list, before a 'for' or 'when' that loads or waits too"
        return [Diagnostic("TG190", message, calls[op].mark, hint)]
    return []


def _find_crossing(steps: Sequence[Step], flying: list[int]) -> list[int]:
    """The ops whose loads are in flight where a path forks or joins, ``flying`` being in flight before these steps, and
    changed to what is after. A loop that is unrolled forks nowhere.
    """
    for step in steps:
        inner = list(_list_loads(effects(step).body))
        if step == Wait(TENSOR_LOADS) or (isinstance(step, Block) and None in inner):
            flying.clear()
        elif isinstance(step, Block):
            flying += [step.op for _ in inner[:1]]
        elif isinstance(step, Repeat) and step.unroll and isinstance(step.count, int):
            if found := _find_crossing(step.body, flying):
                return found
        elif inner:
            begun: list[int] = []
            if found := flying or _find_crossing(effects(step).body, begun) or begun:
                return found
    return []


def _list_loads(steps: Sequence[Step]) -> Iterator[Step | None]:
    """The loads of tensor memory among steps, and None for a wait for them."""
    for step in flatten(steps):
        row = effects(step).instruction
        if row is not None and row.queue == TENSOR_LOADS:
            yield step
        elif isinstance(step, Wait) and step.queue == TENSOR_LOADS:
            yield None


def say_whose(who: str) -> str:
    return f"role {who}" if who else "the kernel"
