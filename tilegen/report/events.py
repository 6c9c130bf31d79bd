"""explain --events: what the roles of a CTA do and whom they wait for, as data, as a drawing and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from tilegen.decisions import COLUMNS, count_words, draw_table, printable, wrap_line
from tilegen.interpret import Event, Record
from tilegen.interpret.events import (
    ARRIVES,
    COPIES_DONE,
    COPY_LANDED,
    COPY_STARTED,
    MEETS,
    PRODUCTS_DONE,
    PRODUCTS_STARTED,
    WAITS,
)
from tilegen.plan import QUEUES, Await, Launch, Plan, Wait, all_steps
from tilegen.report.text import say_role

Data = Mapping[str, Any]
_WAITING = "|"  # a cell of a role that waits
_ORDER = (
    "A row stands below all that has to come before it: the row above in its column, what a wait is for (behind '<-', "
    "with the row of the last of it), at a sync all that meet. Nothing else is meant: the order is the interpreter's, "
    "and no time was measured. A copy or a product ends at any time between its start and the wait for it. "
    f"'{_WAITING}': the role waits. What threads load, compute and store themselves is left out."
)


def has_events(plan: Plan) -> bool:
    """Does anything in the plan run by itself, so that somebody waits for it?"""
    return len(plan.roles) > 1 or any(isinstance(step, Await | Wait) for step in all_steps(plan))


def events_data(plan: Plan, launch: Launch, record: Record) -> dict[str, Any]:
    """The events in the interpreter's order, as JSON data (the keys are stable), and what their names stand for."""
    return {
        "kernel": plan.name,
        "arch": plan.arch,
        "params": dict(launch.params),
        "ctas": [list(cta) for cta in record.ctas],
        "roles": [{"name": r.name, "threads": r.threads, "registers": r.registers} for r in plan.roles],
        "barriers": [{"name": b.name, "slots": b.slots, "arrivals": b.arrivals} for b in plan.barriers],
        "is_cut": record.is_cut,
        "events": [_event_data(plan, event) for event in record.events],
    }


def _event_data(plan: Plan, event: Event) -> dict[str, Any]:
    """``text``: the op as the spec has it, "" for another statement."""
    operation = plan.operations[event.op] if event.op >= 0 else None
    named = {"line": event.line or (operation.line if operation else 0), "text": operation.text if operation else ""}
    places = {"cta": list(event.cta), "there": [list(cta) for cta in event.there]}
    lists = {"loops": dict(event.loops), "names": list(event.names), "by": list(event.by)}
    return asdict(event) | named | places | lists


# ---------------------------------------------------------------- a page
def events_text(data: Data) -> str:
    """The drawing, a column for each role of each CTA, then every event in a table. No line is longer than COLUMNS."""
    parts = [_head(data), [*_drawing(data), *_notes(data)], ["in the order in which the interpreter ran them"]]
    parts[2] += _table(data)
    return "\n\n".join("\n".join(lines) for lines in parts)


def drawing_text(data: Data) -> str:
    """The drawing alone, and what it says."""
    return "\n".join([*_drawing(data), *_notes(data)])


def _head(data: Data) -> list[str]:
    where = f"CTA {spell_cta(data['ctas'][0])}" if len(data["ctas"]) == 1 else "the CTAs of one cluster"
    lines = wrap_line(f"{data['kernel']} for {data['arch']}: what happens in {where}")
    lines += wrap_line(f"roles: {'; '.join(map(say_role, data['roles']))}")
    for b in data["barriers"]:
        slots, arrivals = (count_words(b[key], key[:-1], key) for key in ("slots", "arrivals"))
        lines += wrap_line(f"mbarrier {b['name']}: {slots}, a phase takes {arrivals}")
    if data["params"]:
        lines += wrap_line(f"run at {', '.join(f'{name} = {value}' for name, value in data['params'].items())}")
    return lines


def spell_cta(cta: Sequence[int]) -> str:
    """
    >>> spell_cta([1, 0, 0])
    '(1, 0, 0)'
    """
    return f"({', '.join(map(str, cta))})"


def _notes(data: Data) -> list[str]:
    lines = wrap_line(_ORDER, 0)
    if len(data["ctas"]) > 1:
        lines += wrap_line("; ".join(f"CTA {k} is {spell_cta(cta)}" for k, cta in enumerate(data["ctas"])), 0)
    if silent := [role for cta, role in _columns(data, False) if (cta, role) not in _columns(data)]:
        lines += wrap_line(f"Not drawn, for they do nothing but meet: {', '.join(dict.fromkeys(silent))}.", 0)
    if data["is_cut"]:
        last = max((e["row"] for e in data["events"]), default=0)
        lines += wrap_line(f"Row {last} is not the last: --rows shows more.", 0)
    return lines


def _columns(data: Data, speaking: bool = True) -> list[tuple[int, str]]:
    """(CTA by its number, role): those that do more than meet, or all."""
    ctas = [tuple(cta) for cta in data["ctas"]]
    found = {(ctas.index(tuple(e["cta"])), e["role"]) for e in data["events"] if not speaking or e["what"] != MEETS}
    return [(k, r["name"]) for k in range(len(ctas)) for r in data["roles"] if (k, r["name"]) in found]


# ---------------------------------------------------------------- the drawing
def _drawing(data: Data) -> list[str]:
    columns = _columns(data)
    rows = sorted({e["row"] for e in data["events"] if e["what"] != COPY_LANDED})
    cells = {column: dict(_cells(data, column)) for column in columns}
    head = ("row", *(f"CTA {cta}: {role}" if len(data["ctas"]) > 1 else role for cta, role in columns))
    drawn = [(str(row), *(cells[column].get(row, "") for column in columns)) for row in rows]
    return draw_table(head, [cells for cells in drawn if any(cells[1:])], len(head), "", COLUMNS)


def _cells(data: Data, column: tuple[int, str]) -> Iterator[tuple[int, str]]:
    """The rows in which a role does something, and those in which it waits; the trip where it is a new one."""
    own = [e for e in data["events"] if _column_of(data, e) == column and e["what"] != COPY_LANDED]
    before, loops = 0, dict[str, int]()
    for row, group in groupby(own, key=lambda e: e["row"]):
        events = list(group)
        first = events[0]
        yield from ((gap, _WAITING) for gap in range(before + 1, row) if first["what"] in (WAITS, MEETS, *_DONE))
        trip = "" if first["loops"] == loops else say_trip(first)
        yield row, (f"{trip}: " if trip else "") + "; ".join(_merge(data, events))
        before, loops = row, first["loops"]


_DONE = (COPIES_DONE, PRODUCTS_DONE)


def _column_of(data: Data, event: Data) -> tuple[int, str]:
    return data["ctas"].index(event["cta"]), event["role"]


def say_trip(event: Data) -> str:
    """
    >>> say_trip({"loops": {"t": 0, "k": 3}})
    't = 0, k = 3'
    """
    return ", ".join(f"{name} = {trip}" for name, trip in event["loops"].items())


def _merge(data: Data, events: Iterable[Data]) -> list[str]:
    """What a role does in one row: boxes of one copy are one, so are arrivals in several CTAs."""
    found: dict[tuple[object, ...], list[Data]] = {}
    for e in events:
        found.setdefault(_alike(e), []).append(e)
    return [printable(SAY[own[0]["what"]](data, own)) for own in found.values()]


def _alike(event: Data) -> tuple[object, ...]:
    """What events of one row have in common that are said as one."""
    e = event
    return e["what"], e["op"], e["barrier"], e["slot"], e["phase"], e["scope"], tuple(e["names"])


def list_cells(data: Data) -> list[dict[str, Any]]:
    """The drawing as JSON data: what a role does in one row, boxes of one copy as one.

    Each is {column, row, trip, line, what, text, numbers, by}: ``numbers`` are its events', ``by`` those waited for;
    ``column`` counts in ``list_columns``. A copy's landing has no column, and stands beside the barrier.
    """
    columns = list_columns(data)
    found: list[dict[str, Any]] = []
    for column, own in ((c, [e for e in data["events"] if _column_of(data, e) == c]) for c in columns):
        for row, group in groupby(sorted(own, key=lambda e: int(e["row"])), key=lambda e: int(e["row"])):
            merged: dict[tuple[object, ...], list[Data]] = {}
            for e in group:
                merged.setdefault(_alike(e), []).append(e)
            for events in merged.values():
                first = events[0]
                found.append({
                    "column": columns.index(column), "row": row, "trip": say_trip(first), "line": first["line"],
                    "what": first["what"], "text": printable(SAY[first["what"]](data, events)),
                    "numbers": [e["number"] for e in events], "by": sorted({n for e in events for n in e["by"]}),
                })  # fmt: skip
    return found


def list_columns(data: Data) -> list[tuple[int, str]]:
    """(CTA by its number, role) of every column of the drawing."""
    return _columns(data)


# ---------------------------------------------------------------- an event in words
def _slot(data: Data, event: Data) -> str:
    slots = next(b["slots"] for b in data["barriers"] if b["name"] == event["barrier"])
    return event["barrier"] if slots == 1 else f"{event['barrier']}[{event['slot']}]"


def _peers(data: Data, events: Sequence[Data]) -> str:
    """Where, if not only in the own CTA."""
    there = {data["ctas"].index(cta) for e in events for cta in e["there"]}
    if there == {data["ctas"].index(events[0]["cta"])}:
        return ""
    return f" of CTA{'s' if len(there) > 1 else ''} {' and '.join(map(str, sorted(there)))}"


def _say_arrival(data: Data, events: Sequence[Data]) -> str:
    first, where = events[0], f"{_slot(data, events[0])} phase {events[0]['phase']}{_peers(data, events)}"
    if first["bytes"]:
        return f"announce {sum(e['bytes'] for e in events)} bytes: {where}"
    each = sum(e["threads"] for e in events) // len({str(e["there"]) for e in events})
    return f"arrive{'' if each == 1 else f' {each} times'}: {where}"


def _say_copy(data: Data, events: Sequence[Data]) -> str:
    first, size = events[0], sum(e["bytes"] for e in events)
    peers = _peers(data, events) if first["there"] else ""
    done = f": {_slot(data, first)} phase {first['phase']}" if first["barrier"] else ""
    return f"copy {' -> '.join(first['names'])}{peers}, {size} bytes{done}"


def _say_products(data: Data, events: Sequence[Data]) -> str:
    *sources, target = events[0]["names"]
    return f"multiply {' by '.join(sources)} into {target}" + (f", {len(events)} times" if len(events) > 1 else "")


def _say_wait(data: Data, events: Sequence[Data]) -> str:
    first = events[0]
    if first["phase"] < 0:
        return f"wait {_slot(data, first)}: open, its first round"
    return f"wait {_slot(data, first)} phase {first['phase']}{_say_cause(data, first)}"


def _say_done(data: Data, events: Sequence[Data]) -> str:
    first = events[0]
    cause = _say_cause(data, first) if first["by"] else ": nothing to wait for"
    return f"wait {{{QUEUES[first['scope']].word}: {first['pending']}}}{cause}"


def _say_cause(data: Data, wait: Data) -> str:
    """Who is waited for: of copies what they bring, of arrivals how many there are."""
    causes = [data["events"][n] for n in wait["by"]]
    parts = []
    for who, group in groupby(sorted(causes, key=lambda e: _column_of(data, e)), key=lambda e: _column_of(data, e)):
        own = list(group)
        arrivals = sum(e["threads"] for e in own if e["what"] == ARRIVES and not e["bytes"])
        things = [count_words(arrivals, "arrival", "arrivals")] if arrivals else []
        things += dict.fromkeys(e["names"][0] for e in own if e["what"] in (COPY_LANDED, COPY_STARTED))
        if any(e["what"] == PRODUCTS_STARTED for e in own):
            things += dict.fromkeys(f"products of {say_trip(e)}" if e["loops"] else "products" for e in own)
        by = "" if who == _column_of(data, wait) else f" by {_say_column(data, wait, who)}"
        parts.append(", ".join(things or ["an announcement"]) + by)
    return f" <- {', '.join(parts)} (row {max(e['row'] for e in causes)})" if causes else ""


def _say_column(data: Data, wait: Data, who: tuple[int, str]) -> str:
    cta, role = who
    return role if data["ctas"][cta] == wait["cta"] else f"{role} of CTA {cta}"


def _say_sync(data: Data, events: Sequence[Data]) -> str:
    return f"sync: {events[0]['scope']}"


def _say_landing(data: Data, events: Sequence[Data]) -> str:
    first = events[0]
    what = f"{sum(e['bytes'] for e in events)} bytes of {first['names'][0]} are in {first['names'][1]}"
    where, there = f"{_slot(data, first)} phase {first['phase']}", _peers(data, events)
    is_own = data["events"][first["by"][0]]["there"] == [first["cta"]]  # the barrier alone is another CTA's
    return f"{what}: {where}{there}" if is_own else f"{what}{there}: {where}"


SAY = {
    ARRIVES: _say_arrival, COPY_STARTED: _say_copy, COPY_LANDED: _say_landing, COPIES_DONE: _say_done,
    PRODUCTS_STARTED: _say_products, PRODUCTS_DONE: _say_done, WAITS: _say_wait, MEETS: _say_sync,
}  # fmt: skip


# ---------------------------------------------------------------- the table
def _table(data: Data) -> list[str]:
    """A line for each event: its number, where and when, what, and the numbers of those that it waited for."""
    rows = []
    for e in data["events"]:
        cta, role = _column_of(data, e)
        who = f"CTA {cta}: {role}" if len(data["ctas"]) > 1 else role
        what, by = SAY[e["what"]](data, [e]), " ".join(map(str, e["by"]))
        rows.append((str(e["number"]), str(e["row"]), who, str(e["line"] or ""), say_trip(e), what, by))
    return draw_table(("event", "row", "role", "line", "trip", "what", "for events"), rows, 7, "  ", COLUMNS)
