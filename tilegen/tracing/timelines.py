"""Readings joined with the interpreter's record of the same CTAs: every stamp has its place, and events lie between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilegen.errors import Diagnostic, ProofError
from tilegen.interpret import Event, Record, record
from tilegen.interpret.events import COPY_LANDED, Passed
from tilegen.plan import Plan
from tilegen.reference import Input
from tilegen.tracing.readings import DAMAGED, Cta, Reading, Scale, fit_scale
from tilegen.tracing.sites import Site, Stamped


@dataclass(frozen=True)
class Placed:
    """An event of the record, between stamps ``begin`` and ``begin + 1`` of its role in its CTA, by its ``teams``."""

    event: Event
    begin: int
    teams: tuple[int, ...]


@dataclass(frozen=True)
class Interval:
    """A site as one thread went through it: from its stamp to the next, in ns from the first begin of all.

    ``events``: what the record has there. ``trip``: of the spec's loops.
    """

    reading: Reading
    place: int
    site: Site
    start_ns: float
    stop_ns: float
    trip: tuple[tuple[str, int], ...]
    events: tuple[Event, ...]

    @property
    def length_ns(self) -> float:
        return self.stop_ns - self.start_ns


@dataclass(frozen=True)
class Timeline:
    """All traced CTAs. ``placed``: events by their numbers in the record; a copy's landing has no place."""

    stamped: Stamped
    readings: tuple[Reading, ...]
    record: Record
    placed: Mapping[int, Placed]
    scale: Scale
    intervals: tuple[Interval, ...]
    start_ns: float


def record_ctas(plan: Plan, ctas: Iterable[Cta], inputs: Mapping[str, Input], case: Mapping[str, int]) -> Record:
    """What the interpreter does in these CTAs, from the first stamp to the last. Raises ProofError for a fault."""
    found = record(plan, list(ctas), inputs, case)
    if found.fault is not None:
        raise found.fault
    return found


def join_readings(stamped: Stamped, readings: Sequence[Reading], found: Record) -> Timeline:
    """A timeline. Raises ProofError TG495 where a thread stamped other sites than the record passes."""
    passed: dict[tuple[Cta, str], list[Passed]] = defaultdict(list)
    for one in found.stamps:
        passed[one.cta, one.role].append(one)
    for reading in readings:
        _compare(stamped, reading, passed[reading.cta, reading.role])
    placed = _place_events(found, passed)
    scale = fit_scale(readings)
    start = min(scale.time_at(r.sm, r.begin[0]) for r in readings)
    there: dict[tuple[Cta, str, int], list[Placed]] = defaultdict(list)
    for event in placed.values():
        there[event.event.cta, event.event.role, event.begin].append(event)
    intervals = []
    for reading in readings:
        own = passed[reading.cta, reading.role]
        for k, number in enumerate(reading.numbers):
            if not number or (reading.is_full and k + 1 == len(reading.numbers)):
                continue
            here = [p.event for p in there[reading.cta, reading.role, k] if reading.team in p.teams]
            begin, end = (scale.time_at(reading.sm, reading.clock_at(i)) - start for i in (k, k + 1))
            site = stamped.sites[number - 1]
            intervals.append(Interval(reading, k, site, begin, end, own[k].loops, tuple(here)))
    return Timeline(stamped, tuple(readings), found, placed, scale, tuple(intervals), start)


def _compare(stamped: Stamped, reading: Reading, passed: Sequence[Passed]) -> None:
    """The numbers of a reading are those that the record passes, all of them but where the buffer was full."""
    want, got = [p.number for p in passed], reading.numbers.tolist()
    if got == want[: len(got)] and len(got) + reading.left_out == len(want):
        return
    k = next((i for i, (a, b) in enumerate(zip(got, want, strict=False)) if a != b), min(len(got), len(want)))
    names = [_name(stamped, numbers[k]) if k < len(numbers) else "nothing more" for numbers in (got, want)]
    who = f"stamp {k + 1} of role {reading.role}, warpgroup {reading.team} of CTA {reading.cta}"
    raise ProofError(Diagnostic(DAMAGED, f"{who} is of {names[0]}, and the plan has {names[1]} there"))


def _name(stamped: Stamped, number: int) -> str:
    if not number:
        return "no site"
    site = stamped.sites[number - 1] if number <= len(stamped.sites) else None
    return f"'{site.text}'{f' in line {site.line}' if site.line else ''}" if site else f"site {number}"


def _place_events(found: Record, passed: Mapping[tuple[Cta, str], Sequence[Passed]]) -> dict[int, Placed]:
    """Each event's place: behind the last stamp that was passed before it. An event before all stamps has none."""
    placed, at = {}, defaultdict[tuple[Cta, str], int](lambda: -1)
    for event, teams in zip(found.events, found.teams, strict=True):
        key = event.cta, event.role
        own = passed.get(key, ())
        while at[key] + 1 < len(own) and own[at[key] + 1].before <= event.number:
            at[key] += 1
        if event.what != COPY_LANDED and at[key] >= 0:
            placed[event.number] = Placed(event, at[key], teams)
    return placed
