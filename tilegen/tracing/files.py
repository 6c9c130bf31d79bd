"""A timeline as a file: JSON in the Trace Event Format, which Perfetto opens and `explain --events` reads again."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilegen.decisions import printable
from tilegen.errors import Diagnostic, InputError
from tilegen.plan import Launch, Plan
from tilegen.render import render
from tilegen.report.events import SAY, events_data, say_trip, spell_cta
from tilegen.tracing.orders import Orders, list_claims
from tilegen.tracing.readings import Cta
from tilegen.tracing.timelines import Interval, Timeline

Data = Mapping[str, Any]
TOOL, VERSION = "tilegen trace", 1
NOT_A_TRACE = "TG608"
MEASURED, PREDICTED = "measured", "predicted"
_WORDS = 160  # of what is said of an event


@dataclass(frozen=True)
class Origin:
    """Of which kernel a trace is, where it was made, and when. ``source_sha256``: of the text without stamps."""

    source_sha256: str
    device: str
    case: Mapping[str, int | float]
    launch: Launch
    date: str = ""


def trace_data(timeline: Timeline, orders: Orders, origin: Origin) -> dict[str, Any]:
    """The file's JSON: a process for each CTA; in it a row for each thread that stamped, one for what is predicted.

    A predicted event is as long as its row in `explain --events` says, where all rows share the time that was measured.
    """
    plan, record = timeline.stamped.plan, timeline.record
    said = events_data(plan, origin.launch, record)
    rows = _number_rows(timeline)
    events = [*_list_measured(timeline, rows, said), *_list_predicted(timeline, rows, said)]
    events += _list_arrows(timeline, rows)
    ctas = list(rows.ctas)
    names: list[dict[str, Any]] = []
    for number, cta in enumerate(ctas):
        sms = sorted({r.sm for r in timeline.readings if r.cta == cta})
        title = f"CTA {spell_cta(cta)} on SM {' '.join(map(str, sms))}"
        names.append(_name("process_name", number, 0, title))
        names += [_name("thread_name", number, tid, _name_row(rows, *row)) for row, tid in rows.numbers.items()]
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "tool": TOOL, "version": VERSION, "kernel": plan.name, "arch": plan.arch,
            "source_sha256": origin.source_sha256, "device": origin.device, "date": origin.date,
            "params": dict(origin.case), "grid": list(origin.launch.grid), "ctas": [list(cta) for cta in ctas],
            "ghz": round(timeline.scale.ghz, 6), "timer_resolution_ns": timeline.scale.resolution_ns,
            "sites": [asdict(s) for s in timeline.stamped.sites],
            "threads": [
                {"cta": list(r.cta), "role": r.role, "team": r.team, "sm": r.sm, "stamps": len(r.numbers),
                 "left_out": r.left_out, "ns": round((r.end[0] - r.begin[0]) / timeline.scale.ghz, 1)}
                for r in timeline.readings
            ],
            "orders": {
                "stamps_in_order": orders.threads - orders.backwards, "stamps": orders.threads,
                "by_clock": orders.by_clock, "by_timer": orders.by_timer, "untold": orders.untold,
                "unsure_ns": round(orders.unsure_ns, 1),
                "broken": len(orders.broken),
            },
        },
        "traceEvents": names + events,
    }  # fmt: skip


def _name(what: str, pid: int, tid: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": text}}


@dataclass(frozen=True)
class _Rows:
    """Where slices are: the process of each CTA, and in it by role and warpgroup the row; None: what is predicted."""

    ctas: Mapping[Cta, int]
    numbers: Mapping[tuple[str, int | None], int]

    def find(self, cta: Cta, role: str, team: int | None) -> tuple[int, int]:
        return self.ctas[cta], self.numbers[role, team]


def _number_rows(timeline: Timeline) -> _Rows:
    """Each role's threads, then what is predicted of it."""
    ctas = dict.fromkeys(r.cta for r in timeline.readings)
    teams: dict[str, set[int]] = defaultdict(set)
    for r in timeline.readings:
        teams[r.role].add(r.team)
    rows = [(role, team) for role, own in teams.items() for team in (*sorted(own), None)]
    return _Rows({cta: k for k, cta in enumerate(ctas)}, {row: k for k, row in enumerate(rows, 1)})


def _name_row(rows: _Rows, role: str, team: int | None) -> str:
    if team is None:
        return f"{role}, predicted"
    return f"{role}, warpgroup {team}" if (role, 1) in rows.numbers else role


def _title(site: Any) -> str:
    return printable(f"{site.text}{f' (line {site.line})' if site.line else ''}")


def _list_measured(timeline: Timeline, rows: _Rows, said: Data) -> Iterator[dict[str, Any]]:
    before = _rows_before(timeline)
    for one in timeline.intervals:
        args: dict[str, Any] = {"site": one.site.number, "cta": spell_cta(one.reading.cta), "role": one.reading.role}
        args |= {"trip": say_trip({"loops": dict(one.trip)})} if one.trip else {}
        if one.events:
            args |= {"row": max(e.row for e in one.events), "predicted": _say(said, one)}
            args |= {"rows_waited": max(e.row - before[e.number] - 1 for e in one.events)}
        yield _slice(MEASURED, _find_row(rows, one), (one.start_ns, one.length_ns), _title(one.site)) | {"args": args}


def _find_row(rows: _Rows, one: Interval) -> tuple[int, int]:
    return rows.find(one.reading.cta, one.reading.role, one.reading.team)


def _slice(kind: str, row: tuple[int, int], span_ns: tuple[float, float], name: str) -> dict[str, Any]:
    start, length = span_ns
    where = {"pid": row[0], "tid": row[1], "ts": round(start / 1e3, 4), "dur": round(max(length, 0.0) / 1e3, 4)}
    return {"ph": "X", "cat": kind, "name": name, **where}


def _say(said: Data, one: Interval) -> str:
    """The events of an interval in the words of `explain --events`."""
    own = [said["events"][e.number] for e in one.events]
    kinds = dict.fromkeys(e["what"] for e in own)
    return "; ".join(printable(SAY[kind](said, [e for e in own if e["what"] == kind])) for kind in kinds)[:_WORDS]


def _rows_before(timeline: Timeline) -> dict[int, int]:
    """Of each event the row of the last event before it in its role and CTA that stands above it."""
    last: dict[tuple[Cta, str], tuple[int, int]] = {}
    found = {}
    for number in sorted(timeline.placed):
        event = timeline.placed[number].event
        before, row = last.get((event.cta, event.role), (0, 0))
        if event.row != row:
            before, row = row, event.row
        last[event.cta, event.role] = before, row
        found[number] = before
    return found


def _list_predicted(timeline: Timeline, rows: _Rows, said: Data) -> Iterator[dict[str, Any]]:
    """Events where their rows are, if the rows of a cluster share the time that its CTAs took, evenly."""
    before = _rows_before(timeline)
    spans = {cta: _span(timeline, cta) for cta in rows.ctas}
    last: dict[Cta, int] = defaultdict(int)
    for event in timeline.record.events:
        last[event.cta] = max(last[event.cta], event.row)
    merged: dict[tuple[Cta, str, int, int], list[int]] = defaultdict(list)
    for number, one in timeline.placed.items():
        merged[one.event.cta, one.event.role, one.event.row, one.begin].append(number)
    numbers = {(r.cta, r.role): r.numbers for r in reversed(timeline.readings)}
    for (cta, role, row, place), own in merged.items():
        stamps = numbers[cta, role]
        if place >= len(stamps) or not stamps[place]:
            continue
        site = timeline.stamped.sites[stamps[place] - 1]
        begin, stop = spans[cta]
        each = (stop - begin) / max(1, last[cta])
        first = min(before[n] for n in own)
        events = [said["events"][n] for n in own if said["events"][n]["what"] == said["events"][own[0]]["what"]]
        text = printable(SAY[events[0]["what"]](said, events))[:_WORDS]
        args = {"site": site.number, "row": row, "rows_waited": row - first - 1, "predicted": text}
        span = begin + first * each, (row - first) * each
        yield _slice(PREDICTED, rows.find(cta, role, None), span, _title(site)) | {"args": args}


def _span(timeline: Timeline, cta: Cta) -> tuple[float, float]:
    own = [r for r in timeline.readings if r.cta == cta]
    times = [timeline.scale.time_at(r.sm, clock) - timeline.start_ns for r in own for clock in (r.begin[0], r.end[0])]
    return min(times), max(times)


def _list_arrows(timeline: Timeline, rows: _Rows) -> Iterator[dict[str, Any]]:
    """From the last of those that a wait at an mbarrier was for, to the wait."""
    where = {(one.reading.cta, one.reading.role, one.reading.team, one.place): one for one in timeline.intervals}
    latest: dict[tuple[int, int], tuple[Interval, Interval]] = {}
    for claim in list_claims(timeline):
        if not claim.second.event.barrier:
            continue
        a, b = ((p.event.cta, p.event.role, r.team, p.begin) for p, r in (
            (claim.first, claim.first_reading), (claim.second, claim.second_reading)))  # fmt: skip
        if a in where and b in where:
            key = claim.second.event.number, claim.second_reading.team
            if key not in latest or where[a].start_ns > latest[key][0].start_ns:
                latest[key] = where[a], where[b]
    for number, (first, second) in enumerate(latest.values()):
        common, end = {"cat": "wait", "name": "is waited for", "id": number}, max(first.start_ns, second.stop_ns - 0.5)
        for place, one, ns in (({"ph": "s"}, first, first.start_ns), ({"ph": "f", "bp": "e"}, second, end)):
            pid, tid = _find_row(rows, one)
            yield {**place, **common, "pid": pid, "tid": tid, "ts": round(ns / 1e3, 4)}


# ---------------------------------------------------------------- files
def trace_text(data: Data) -> str:
    """The file's text, an event a line."""
    events = ",\n".join(json.dumps(e, separators=(",", ":")) for e in data["traceEvents"])
    head = json.dumps({k: v for k, v in data.items() if k != "traceEvents"}, indent=1)
    return f'{head[:-2]},\n "traceEvents": [\n{events}\n]}}\n'


def read_trace(path: str) -> dict[str, Any]:
    """A trace as ``trace_text`` writes it. Raises InputError TG608 for a file that is not there, or no such trace."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        about = data["otherData"]
        if about["tool"] != TOOL or about["version"] != VERSION:
            raise ValueError(f"it is of {about['tool']}, version {about['version']}")
        if not all(isinstance(data["traceEvents"], list) and about[key] is not None for key in _NEEDED):
            raise ValueError("it lacks events")
    except OSError as error:
        raise InputError(Diagnostic(NOT_A_TRACE, f"cannot read {path}: {error.strerror}")) from None
    except (ValueError, KeyError, TypeError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error).split(":")[0]
        hint = "`tilegen trace SPEC` writes one"
        raise InputError(Diagnostic(NOT_A_TRACE, f"{path} is no trace of tilegen: {why}", hint=hint)) from None
    return dict(data)


_NEEDED = ("kernel", "source_sha256", "sites", "threads", "orders", "device", "date")


def refuse_other(path: str, trace: Data, plan: Plan) -> None:
    """Raise InputError TG608 for a trace of another kernel than that of a plan, or of another text of it."""
    about = trace["otherData"]
    source = hashlib.sha256(render(plan).encode()).hexdigest()
    if about["kernel"] == plan.name and about["source_sha256"] == source:
        return
    is_named = about["kernel"] == plan.name
    what = f"of another {plan.name}, with other params or ops" if is_named else f"of kernel {about['kernel']}"
    at = ", ".join(f"{name} = {value}" for name, value in about["params"].items())
    message = f"{path} is a trace {what}{f' (at {at})' if at and is_named else ''}, and not of this spec's {plan.name}"
    hint = "give the --arch and --set that it was traced with, or trace again"
    raise InputError(Diagnostic(NOT_A_TRACE, message, hint=hint))


def keep_part(data: Data, count: int, end_us: float = float("inf")) -> dict[str, Any]:
    """The same trace with what began in the first CTAs before ``end_us``; its orders and threads are of all time."""
    about = data["otherData"]
    ctas = about["ctas"][:count]
    threads = [t for t in about["threads"] if t["cta"] in ctas]
    events = [e for e in data["traceEvents"] if e["pid"] < count and e.get("ts", 0.0) < end_us]
    return {**data, "otherData": {**about, "ctas": ctas, "threads": threads}, "traceEvents": events}
