"""Which flows of ownership registers follow: each op's own, or others where with those an element has two owners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice, product

from tilegen.auto_layout.registers import TWO_OWNERS, AskedFlows, choose_asked, list_read_apart
from tilegen.errors import SpecError
from tilegen.ops import OPS
from tilegen.ops.dispatch import dispatch
from tilegen.ops.flows import Flow
from tilegen.planner import survey_calls
from tilegen.spec.data import Spec
from tilegen.spec.outline import outline

_MOST_TRIES, _MOST_RANKS = 64, 4096  # choices of flows that are tried where two owners meet, and that are ranked


def choose_registers(spec: Spec) -> Spec:
    """The spec with a layout for every register buffer whose layout is 'auto', and a Choice for each in ``choices``.

    What an op delivers follows its tile, or the tile of memory that reads it where nothing else lets that op be.
    Raises SpecError: TG308 where two ops want different owners, TG309 where nothing says who owns a buffer, TG210 where
    a thread would hold more than it has registers.
    """
    names = [b.name for b in spec.buffers if b.scope == "register" and b.is_auto and b.root == b.name]
    if not names:
        return spec
    chosen = _choose_flows(spec, names)
    stuck = _find_stuck(chosen, names)
    if stuck:
        other = choose_asked(spec, names, AskedFlows(loose=stuck))
        return chosen if _find_stuck(other, names) else other
    return chosen


def _choose_flows(spec: Spec, names: Sequence[str]) -> Spec:
    """The layouts with the flows that each op has by itself, or the first others with which nobody has two owners."""
    try:
        return choose_asked(spec, names, AskedFlows())
    except SpecError as error:
        if {d.code for d in error.diagnostics} != {TWO_OWNERS}:
            raise
        for asked in islice(_list_others(spec), _MOST_TRIES):
            with suppress(SpecError):
                return choose_asked(spec, names, asked)
        raise


def _list_others(spec: Spec) -> Iterator[AskedFlows]:
    """Flows of several calls together, those first of which fewer are worse than what each has by itself."""
    others: dict[int, tuple[tuple[Flow, ...], ...]] = {}
    for at, call in enumerate(outline(spec).calls):
        if found := OPS[call.op].other_flows(call, spec.threads_of(call.role)):
            others[at] = found
    ranks = product(*(range(len(found) + 1) for found in others.values()))
    for picked in sorted(islice(ranks, 1, _MOST_RANKS), key=sum):
        yield AskedFlows(others={at: found[k - 1] for (at, found), k in zip(others.items(), picked, strict=True) if k})


def _find_stuck(spec: Spec, names: Sequence[str]) -> frozenset[str]:
    """What some op delivers, and another reads beside memory alone that cannot be carried out."""
    calls = outline(spec).calls
    flows = ((call, flow) for call in calls for flow in OPS[call.op].flows(call, spec.threads_of(call.role)))
    delivered = {call.regions[f].buffer.root for call, flow in flows for f in flow.delivered} & set(names)
    found: set[str] = set()
    for at, roots in list_read_apart(spec) if delivered else ():
        if roots & delivered:
            try:
                dispatch(*survey_calls(spec)[at])
            except SpecError:
                found |= roots & delivered
    return frozenset(found)
