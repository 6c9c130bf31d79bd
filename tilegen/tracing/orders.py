"""Every order that the proof claims between two events, asked of the stamps around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tilegen.errors import Diagnostic
from tilegen.interpret.events import COPY_LANDED, MEETS
from tilegen.tracing.readings import Cta, Reading, Scale
from tilegen.tracing.timelines import Placed, Timeline

ORDER = "TG496"


@dataclass(frozen=True)
class Claim:
    """``first`` began before ``second`` ended, each in a thread that took part."""

    first: Placed
    first_reading: Reading
    second: Placed
    second_reading: Reading


@dataclass(frozen=True)
class Broken:
    """A claim that the stamps deny: ``first`` began so many ns after ``second`` had ended."""

    claim: Claim
    late_ns: float


@dataclass(frozen=True)
class Orders:
    """What was compared: pairs of stamps of one thread, and claims by clocks of one SM and by the timer of the GPU.

    ``unsure_ns``: to which those by the timer are known, at worst. ``untold``: claims of events without a stamp around,
    where a buffer was full. ``backwards``: stamps of a thread whose clock is less than that of the one before.
    """

    threads: int
    by_clock: int
    by_timer: int
    untold: int
    backwards: int
    broken: tuple[Broken, ...]
    unsure_ns: float = 0.0

    @property
    def hold(self) -> bool:
        return not self.broken and not self.backwards


def check_orders(timeline: Timeline) -> Orders:
    """Compare the stamps with all that the interpreter orders.

    Who was waited for began before the wait ended, all that meet came before any of them went on, and each thread's
    stamps follow one another.

    Of one SM clocks are compared, exactly. Of CTAs of a cluster on two SMs their clocks are compared as the GPU's timer
    has them at both ends of the two threads (``compare_clocks``).
    """
    pairs, backwards = 0, 0
    for reading in timeline.readings:
        clocks = [reading.begin[0], *reading.clocks.tolist(), reading.end[0]]
        pairs += len(clocks) - 1
        backwards += sum(b < a for a, b in pairwise(clocks))
    by_clock, by_timer, untold, unsure_ns, broken = 0, 0, 0, 0.0, list[Broken]()
    for claim in list_claims(timeline):
        late = _measure(timeline, claim)
        if late is None:
            untold += 1
            continue
        is_near = claim.first_reading.cta == claim.second_reading.cta
        by_clock, by_timer = by_clock + is_near, by_timer + (not is_near)
        if not is_near:
            unsure_ns = max(unsure_ns, compare_clocks(claim.first_reading, claim.second_reading, timeline.scale)[1])
        if late > 0:
            broken.append(Broken(claim, late))
    return Orders(pairs, by_clock, by_timer, untold, backwards, tuple(broken), unsure_ns)


def list_claims(timeline: Timeline) -> Iterator[Claim]:
    """The orders of the record between two events that have a place: of waits, and of meetings."""
    readings: dict[tuple[Cta, str], dict[int, Reading]] = defaultdict(dict)
    for r in timeline.readings:
        readings[r.cta, r.role][r.team] = r
    for first, second in _list_pairs(timeline):
        firsts, seconds = (readings[p.event.cta, p.event.role] for p in (first, second))
        for a in first.teams:
            for b in second.teams:
                is_own = first.event.cta == second.event.cta and first.event.role == second.event.role
                if is_own and a != b and not _joins_teams(second):
                    continue  # each warpgroup waits for what it began itself
                if a in firsts and b in seconds:
                    yield Claim(first, firsts[a], second, seconds[b])


def _joins_teams(placed: Placed) -> bool:
    """Does an event order a warpgroup after others of its role?"""
    event = placed.event
    return bool(event.barrier) or (event.what == MEETS and event.scope not in ("warp", "warpgroup", "async"))


def _list_pairs(timeline: Timeline) -> Iterator[tuple[Placed, Placed]]:
    events, placed = timeline.record.events, timeline.placed
    meetings: dict[object, list[Placed]] = defaultdict(list)
    for number, one in placed.items():
        causes = [n for k in one.event.by for n in (events[k].by if events[k].what == COPY_LANDED else (k,))]
        yield from ((placed[n], one) for n in causes if n in placed)
        if one.event.what == MEETS and _joins_teams(one):
            meetings[_key(timeline, number)].append(one)
    for met in meetings.values():
        yield from ((a, b) for a in met for b in met)


def _key(timeline: Timeline, number: int) -> object:
    """What the events of one meeting have in common."""
    event = timeline.placed[number].event
    if event.scope == "role":
        return number
    cluster = timeline.stamped.plan.cluster
    where = tuple(c // s for c, s in zip(event.cta, cluster, strict=True)) if event.scope == "cluster" else event.cta
    return event.scope, event.phase, where


def compare_clocks(a: Reading, b: Reading, scale: Scale) -> tuple[float, float]:
    """By how many cycles the clock of one thread's SM is before that of another's, and to how many ns that is known.

    All SMs have one frequency, which changes while a kernel runs. What two clocks are apart does not: the timers that
    both threads read when they began say it, and again those when they ended. Half of what the two differ by is not
    known, nor the timer's step.

    >>> import numpy as np
    >>> none = np.array([], np.int64)
    >>> a, b = (Reading((k, 0, 0), "all", 0, k, (100 * k, 1000), (9100 * k + 8100, 5000), none, none) for k in (0, 1))
    >>> compare_clocks(a, b, Scale(2.0, {}, 32))
    (-4600.0, 2282.0)
    """
    begun, ended = (
        float(one[0] - other[0]) - scale.ghz * (one[1] - other[1])
        for one, other in ((a.begin, b.begin), (a.end, b.end))
    )
    return (begun + ended) / 2, abs(begun - ended) / 2 / scale.ghz + scale.resolution_ns


MOST_TOLD = 5  # of broken orders


def describe_broken(timeline: Timeline, orders: Orders) -> list[Diagnostic]:
    """The broken orders, the worst first, with the statements of the spec; at most so many of them are told."""
    found = []
    for one in sorted(orders.broken, key=lambda b: -b.late_ns)[:MOST_TOLD]:
        first, second = (_say(timeline, p, r) for p, r in (
            (one.claim.first, one.claim.first_reading), (one.claim.second, one.claim.second_reading)))  # fmt: skip
        message = f"{first} began {one.late_ns:.0f} ns after {second} had ended, which waits for it"
        found.append(Diagnostic(ORDER, message))
    if more := len(orders.broken) - len(found):
        found.append(Diagnostic(ORDER, f"{more} more orders that the proof claims are denied by stamps"))
    if orders.backwards:
        found.append(Diagnostic(ORDER, f"{orders.backwards} stamps are older than the one before them in their thread"))
    return found


def _say(timeline: Timeline, placed: Placed, reading: Reading) -> str:
    number = int(reading.numbers[placed.begin])
    site = timeline.stamped.sites[number - 1] if number else None
    text = f"'{site.text}'" + (f" in line {site.line}" if site.line else "") if site else f"a {placed.event.what}"
    trips = ", ".join(f"{name} = {trip}" for name, trip in placed.event.loops)
    return f"{text} of role {reading.role}, CTA {reading.cta}{f', {trips}' if trips else ''}"


def _measure(timeline: Timeline, claim: Claim) -> float | None:
    """How late the first began, in ns: at most 0 where the claim holds; None where a stamp is missing."""
    a, b = claim.first_reading, claim.second_reading
    first, second = claim.first.begin, claim.second.begin + 1
    is_missing = first >= len(a.numbers) or (b.is_full and second >= len(b.numbers))
    if is_missing:
        return None
    if a.cta == b.cta:
        return (a.clock_at(first) - b.clock_at(second)) / timeline.scale.ghz
    apart, unsure_ns = compare_clocks(a, b, timeline.scale)
    return (a.clock_at(first) - b.clock_at(second) - apart) / timeline.scale.ghz - unsure_ns
