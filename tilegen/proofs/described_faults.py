"""What a fault of a run says to the user: where the spec has it, and what would mend it."""

from __future__ import annotations

from itertools import combinations

from tilegen.errors import Diagnostic, Mark
from tilegen.index import sub
from tilegen.interpret import FaultFound
from tilegen.interpret.fault import (
    NEVER_AWAITED,
    PHASE_UNKNOWN,
    RACE,
    REGISTER_INDEX,
    SAME_STEP,
    TWO_CTAS,
    UNFENCED,
    UNWRITTEN,
    Fault,
)
from tilegen.proofs.barrier_hints import say_arrival, say_stuck, say_unwaited, spell_slots
from tilegen.spec.data import Call, Loop, Region, Spec, WaitStatement
from tilegen.spec.outline import outline


def mark_of(spec: Spec, op: int) -> Mark | None:
    """Where the spec writes the plan's operation number ``op``; None for -1, which is no operation."""
    calls = outline(spec).calls
    return calls[op].mark if 0 <= op < len(calls) else None


def _say_arrival(spec: Spec, fault: Fault) -> str:
    """How the role of an earlier access may tell that of the later one."""
    calls = outline(spec).calls
    roles = [calls[op].role if 0 <= op < len(calls) else "" for op in (fault.other_op, fault.op)]
    if not all(roles):
        return "a sync of the role, then an arrival at an mbarrier that the other waits for"
    return say_arrival(spec, calls[fault.other_op], calls[fault.op])


_INSTANCE = {"thread": "tx", "warp": "warpid", "warpgroup": "wgid"}  # what numbers those that carry out an op


def _say_whose(spec: Spec, op: int) -> str:
    """How what every instance of a scope writes may be one's."""
    calls = outline(spec).calls
    scope = calls[op].scope if 0 <= op < len(calls) else "cta"
    if scope not in _INSTANCE:
        return ""
    own = _INSTANCE[scope]
    return f"every {scope} does all of it: 'scope: cta' shares it out; 'when: {own} == 0' leaves it to one"


def _say_unwritten(spec: Spec, call: Call, fault: Fault) -> str:
    """What writes what a call reads, or adds to, before anything has."""
    cells = [r for r in call.read if r.buffer.traits.has_cells and f"tmem {r.buffer.root} " in fault.message]
    if cells and call.form.name == "mma":
        name = cells[0].buffer.root
        if cells[0] in call.written:
            return "let the first product not add to it: 'accumulate: k > 0' behind a loop over k"
        return f"insert `- copy: {{src: .., dst: {name}, async: true}}` before it, of all rows that it reads"
    around = next(p.around for p in outline(spec).placed if p.statement is call)
    spot = next((nest.mark for nest in around if isinstance(nest, Loop) and nest.mark), call.mark)
    before = f" before {spot.spot}" if spot else ""
    others = {r.buffer.root for other in outline(spec).calls if other is not call for r in other.written}
    adds = call.conditions.get("accumulate", True) is not False
    added = [r for r in call.written if adds and any(r is one for one in call.read)]
    for region in added:
        if region.buffer.root not in others:
            scope = "" if call.scope in ("cta", "role") else f", scope: {call.scope}"
            first = "0" if getattr(call.fields, "op", "sum") == "sum" else ".."
            return f"insert `- fill: {{dst: {region.buffer.root}, value: {first}{scope}}}`{before}"
    names = [r.buffer.root for r in call.read if not r.buffer.traits.is_callers]
    missing = [name for name in names if name not in others] or names
    return f"write all of '{missing[0]}'{before}" if missing else ""


def _meets_itself(spec: Spec, call: Call) -> bool:
    """Do a call's threads write what others of them read, in one trip of the loops around?"""
    around = next(p.around for p in outline(spec).placed if p.statement is call)
    pairs = [(r, w) for r in call.read for w in call.written if r.buffer.root == w.buffer.root and r is not w]
    return not any(isinstance(nest, Loop) for nest in around) or any(_overlap(r, w) for r, w in pairs)


def _may_results_meet(call: Call) -> bool:
    """May two results of a call have elements in common, as far as their begins say?"""
    pairs = combinations(call.written, 2)
    return any(a.buffer.root == b.buffer.root and not _are_apart(a, b) for a, b in pairs)


def _are_apart(a: Region, b: Region) -> bool:
    """Have two regions of one buffer no element in common, whatever names stand for? Other views are taken to."""
    if a.buffer.name != b.buffer.name:
        return False
    sides = zip(a.begins, b.begins, a.lengths, b.lengths, strict=True)
    return any(isinstance(away := sub(x, y), int) and not -n < away < m for x, y, n, m in sides)


def _overlap(a: Region, b: Region) -> bool:
    """Are they unlike, and meet for all values of names, as far as their begins say? Other views are taken to."""
    if a.buffer.name != b.buffer.name:
        return True
    away = [sub(x, y) for x, y in zip(a.begins, b.begins, strict=True)]
    sides = zip(away, a.lengths, b.lengths, strict=True)
    return any(x != 0 for x in away) and all(isinstance(x, int) and -n < x < m for x, n, m in sides)


def _is_claimed(call: Call, fault: Fault) -> bool:
    """Does an op meet itself where it stores by an index that is claimed to be distinct?"""
    return call.stores_by_index and not call.accumulates and fault.other_op in (fault.op, -1)


def describe_fault(spec: Spec, found: FaultFound) -> Diagnostic:
    """A fault with its place in the spec, and what would mend it."""
    fault = found.fault
    mark = mark_of(spec, fault.op)
    call = outline(spec).calls[fault.op] if mark is not None else None
    due = fault.insert
    if fault.code == PHASE_UNKNOWN and call is not None and call.barrier:
        due = say_unwaited(spec, call.barrier.name)
    hint = ""
    if fault.code == REGISTER_INDEX:
        hint = "give the loop 'unroll: true'"
    elif call is not None and fault.code in (RACE, TWO_CTAS, SAME_STEP) and _is_claimed(call, fault):
        hint = "'distinct' claims that no two of its indices are the same, and two are: mend the index, or accumulate"
    elif fault.code == SAME_STEP:
        hint = _say_whose(spec, fault.op)
    elif fault.code == UNFENCED and (writer := mark_of(spec, fault.other_op)) is not None:
        hint = f"insert `- sync: async` after {writer.spot}, before the sync"
    elif fault.barrier:
        waits = (s for s in outline(spec).find(WaitStatement) if s.barrier and s.barrier.name == fault.barrier)
        mark = next((s.mark for s in waits), None)
        hint = say_stuck(spec, fault.barrier)
    elif due and mark is not None:
        lines = ", ".join(f"`- {statement}`" for statement in spell_slots(spec, due))
        hint = f"insert {lines} {'after' if fault.code == NEVER_AWAITED else 'before'} {mark.spot}"
    elif fault.code == UNWRITTEN and call is not None:
        hint = _say_unwritten(spec, call, fault)
    elif fault.needs_sync and call is not None and fault.op == fault.other_op and _may_results_meet(call):
        hint = "two of its results may lie there: each has elements of its own, or an op of its own behind a sync"
    elif fault.needs_sync and call is not None and fault.op == fault.other_op and _meets_itself(spec, call):
        hint = "what it reads and what it writes overlap: write into another buffer, and copy from that after a sync"
    elif fault.needs_sync == "cta" and spec.roles:
        hint = _say_arrival(spec, fault)
    elif fault.needs_sync and mark is not None:
        hint = f"insert `- sync: {fault.needs_sync}` before {mark.spot}"
    return Diagnostic(fault.code, fault.message, mark, hint)
