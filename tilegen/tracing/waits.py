"""What a trace says of waits: how long each was, for whom, and what was predicted of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tilegen.decisions import COLUMNS, count_words, draw_table, printable, wrap_line
from tilegen.tracing.files import MEASURED, PREDICTED
from tilegen.tracing.sites import SYNC, WAIT

Data = Mapping[str, Any]


@dataclass(frozen=True)
class Longest:
    """The longest time at a site: where and when, how many rows it was to wait, and for whom, as predicted."""

    ns: float
    cta: str
    trip: str
    rows: int
    predicted: str


@dataclass(frozen=True)
class Waited:
    """All times that threads of a role came to a wait or a sync.

    ``share``: of the time of these threads. ``predicted_rows``: how many rows each was to wait, on average.
    """

    site: int
    kind: str
    role: str
    line: int
    text: str
    count: int
    total_ns: float
    median_ns: float
    share: float
    predicted_rows: float
    longest: Longest


def list_waits(data: Data) -> list[Waited]:
    """The waits and syncs of a trace, the longest share first."""
    about = data["otherData"]
    whole: dict[str, float] = defaultdict(float)
    for thread in about["threads"]:
        whole[thread["role"]] += thread["ns"]
    slices: dict[tuple[str, int], list[Data]] = defaultdict(list)
    for event in data["traceEvents"]:
        if event.get("cat") in (MEASURED, PREDICTED):
            slices[event["cat"], event["args"]["site"]].append(event)
    found = []
    for site in about["sites"]:
        own, said = slices[MEASURED, site["number"]], slices[PREDICTED, site["number"]]
        if site["kind"] not in (WAIT, SYNC) or not own:
            continue
        lengths = [e["dur"] * 1e3 for e in own]
        rows = [e["args"]["rows_waited"] for e in said]
        total = sum(lengths)
        found.append(Waited(
            site["number"], site["kind"], site["role"], site["line"], site["text"], len(own), total, median(lengths),
            total / whole[site["role"]] if whole[site["role"]] else 0.0, sum(rows) / len(rows) if rows else 0.0,
            _describe_longest(own[lengths.index(max(lengths))]),
        ))  # fmt: skip
    return sorted(found, key=lambda w: -w.share)


def _describe_longest(event: Data) -> Longest:
    args = event["args"]
    predicted = args.get("predicted", "")
    return Longest(event["dur"] * 1e3, args["cta"], args.get("trip", ""), args.get("rows_waited", 0), predicted)


def longest_wait(waits: Sequence[Waited]) -> Waited | None:
    """The wait in which a thread once waited longest, or the sync where there are no waits."""
    own = [w for w in waits if w.kind == WAIT] or waits
    return max(own, key=lambda w: w.longest.ns, default=None)


def find_pace(data: Data, waits: Sequence[Waited]) -> tuple[str, float] | None:
    """The role that waits for the least share of its time, and that share; None where fewer than two have work.

    Syncs are left out: a role that has ended waits there for the others.
    """
    works = {s["role"] for s in data["otherData"]["sites"] if s["kind"] not in (WAIT, SYNC)}
    shares = {role: sum(w.share for w in waits if w.role == role and w.kind == WAIT) for role in sorted(works)}
    role = min(shares, key=lambda r: shares[r], default=None)
    return (role, shares[role]) if role is not None and len(shares) > 1 else None


def waits_data(data: Data) -> dict[str, Any]:
    """The same as JSON data (the keys are stable)."""
    waits, about = list_waits(data), data["otherData"]
    longest, pace = longest_wait(waits), find_pace(data, waits)
    return {
        "kernel": about["kernel"], "device": about["device"], "ctas": len(about["ctas"]), "orders": about["orders"],
        "waits": [asdict(w) for w in waits], "longest": longest and asdict(longest),
        "pace": pace and {"role": pace[0], "share": pace[1]},
    }  # fmt: skip


def waits_text(data: Data) -> str:
    """The longest wait beside what was predicted of it, then all waits as a table. No line is longer than COLUMNS."""
    about, waits = data["otherData"], list_waits(data)
    where = count_words(len(about["ctas"]), "CTA", "CTAs")
    lines = wrap_line(f"{about['kernel']}: measured on {about['device']}, {where}")
    lines += wrap_line(say_orders(about["orders"]))
    if full := [t for t in about["threads"] if t["left_out"]]:
        left_out, most = sum(t["left_out"] for t in full), max(t["stamps"] + t["left_out"] for t in full)
        lines += wrap_line(
            f"{count_words(left_out, 'stamp', 'stamps')} of {count_words(len(full), 'thread', 'threads')} "
            f"had no place: --stamps {most} has place for all"
        )
    worst = longest_wait(waits)
    if worst is None:
        return "\n".join([*lines, "no role waits for anything"])
    lines += wrap_line(say_longest(worst))
    if (pace := find_pace(data, waits)) is not None:
        lines += wrap_line(f"role {pace[0]} waits least, {pace[1]:.0%} of its time: the others wait for it")
        own = longest_wait([w for w in waits if w.role == pace[0]])
        lines += wrap_line(say_longest(own, "its longest wait")) if own is not None and own is not worst else []
    head = ("role", "line", "wait", "times", "of its time", "median ns", "longest ns", "rows predicted")
    rows = [
        (w.role, str(w.line or ""), printable(w.text), str(w.count), f"{w.share:.1%}", f"{w.median_ns:.0f}",
         f"{w.longest.ns:.0f}", f"{w.predicted_rows:.1f}")
        for w in waits
    ]  # fmt: skip
    return "\n".join([*lines, "", *draw_table(head, rows, len(head), "", COLUMNS)])


def say_longest(worst: Waited, what: str = "the longest wait") -> str:
    """The longest wait in words."""
    one = worst.longest
    when = f", {one.trip}" if one.trip else ""
    line = f" in line {worst.line}" if worst.line else ""
    rows = "no row" if not one.rows else count_words(one.rows, "row", "rows")
    told = f"predicted: it waits {rows}, '{one.predicted}'" if one.predicted else "nothing is predicted of it"
    return (
        f"{what}: '{printable(worst.text)}'{line}, role {worst.role} of CTA {one.cta}{when}: {one.ns:.0f} ns "
        f"(median {worst.median_ns:.0f} ns, {worst.share:.1%} of the role's time); {told}"
    )


def say_orders(orders: Data) -> str:
    """What was compared with the proof's orders, in words."""
    claims = orders["by_clock"] + orders["by_timer"]
    broken = orders["broken"]
    held = f"all {claims} orders of the proof hold" if not broken else f"{broken} of {claims} orders are broken"
    told = f" ({orders['by_timer']} by the timer of the GPU, to {orders['unsure_ns']:.0f} ns)"
    by = told if orders["by_timer"] else ""
    left = f"; {orders['untold']} have no stamps" if orders["untold"] else ""
    return f"{held}{by}; {orders['stamps_in_order']} of {orders['stamps']} stamps follow the one before{left}"
