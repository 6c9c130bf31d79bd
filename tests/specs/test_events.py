"""The log of what roles do: exact for small rings, lawful for every spec; a log of some rows is part of the whole."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from specs.kernels import ROOT, every_spec, small_spec
from tests.specs.test_clusters import shared_ring
from tests.specs.test_roles import FILL, MET, READ, RELEASE, WAIT_FREE, WAIT_FULL, ring
from tilegen.cli import cli
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
from tilegen.pipeline import load
from tilegen.plan import PRODUCTS, Plan
from tilegen.planner import plan_spec
from tilegen.proofs.meaning import record_events
from tilegen.report.events import drawing_text, events_data, events_text, has_events
from tilegen.spec.outline import launch_of

ALL = 100_000  # more rows than any log here has


def log_of(path: Path, rows: int = ALL, **params: int) -> tuple[Plan, Record]:
    spec = load(path, params=params)
    plan = plan_spec(spec)
    return plan, record_events(spec, plan, rows)


# ---------------------------------------------------------------- laws
def check_laws(plan: Plan, log: Record) -> Counter[str]:
    """Raise AssertionError where a log cannot be of the plan; how many events of each kind it has."""
    events, arrivals = log.events, {b.name: b.arrivals for b in plan.barriers}
    assert [e.number for e in events] == list(range(len(events)))
    rows: dict[tuple[Any, str], int] = {}
    for e in events:
        causes = [events[n] for n in e.by]
        assert all(cause.number < e.number for cause in causes) and len(set(e.by)) == len(e.by)
        assert e.row >= rows.get((e.cta, e.role), 1), "a role goes on"
        if e.what == COPY_LANDED:
            check_landing(e, causes, {b.name for b in plan.barriers if b.pair})
            continue
        rows[e.cta, e.role] = e.row
        assert all(cause.row < e.row for cause in causes)
        if e.what == WAITS:
            check_wait(e, causes, arrivals)
        elif e.what in (COPIES_DONE, PRODUCTS_DONE):
            kind = PRODUCTS_STARTED if e.what == PRODUCTS_DONE else COPY_STARTED
            assert {(c.what, c.scope, c.cta, c.role) for c in causes} <= {(kind, e.scope, e.cta, e.role)}
        else:
            assert not causes
    check_meetings(log)
    return Counter(e.what for e in events)


def check_landing(e: Event, causes: list[Event], shared: set[str]) -> None:
    """A landing is of one start, in a CTA of its; at a barrier that is ``shared`` in pairs, told to the even one."""
    (start,) = causes
    assert start.what == COPY_STARTED and (start.cta, start.role, start.row) == (e.cta, e.role, e.row)
    told = {(x // 2 * 2, y, z) for x, y, z in start.there} if e.barrier in shared else set(start.there)
    assert e.bytes == start.bytes and e.names == start.names and set(e.there) <= told


def check_wait(e: Event, causes: list[Event], arrivals: dict[str, int]) -> None:
    """All that completes a phase, and nothing else: as many arrivals as are declared, the bytes that they announce."""
    assert e.there == (e.cta,)
    if e.phase < 0:
        assert (e.phase, causes) == (-1, [])
        return
    assert {(c.barrier, c.slot, c.phase, c.there) for c in causes} == {(e.barrier, e.slot, e.phase, e.there)}
    told, brought = ([c for c in causes if c.what == what] for what in (ARRIVES, COPY_LANDED))
    assert len(told) + len(brought) == len(causes)
    assert sum(c.threads for c in told) == arrivals[e.barrier]
    assert sum(c.bytes for c in told) == sum(c.bytes for c in brought)


def check_meetings(log: Record) -> None:
    """Roles that meet do so in one row."""
    rows: dict[tuple[Any, ...], set[int]] = {}
    for e in log.events:
        if e.what == MEETS and e.scope in ("cta", "cluster"):
            rows.setdefault((e.scope, e.phase, e.cta if e.scope == "cta" else ()), set()).add(e.row)
    assert all(len(found) == 1 for found in rows.values())


def check_ends(log: Record) -> None:
    """Of a whole log: whatever is started is waited for once, whatever is brought is waited for."""
    waited = Counter(n for e in log.events if e.what in (COPIES_DONE, PRODUCTS_DONE) for n in e.by)
    started = [e for e in log.events if e.what in (COPY_STARTED, PRODUCTS_STARTED) and not e.barrier]
    assert waited == Counter(e.number for e in started)
    seen = {n for e in log.events if e.what == WAITS for n in e.by}
    assert {e.number for e in log.events if e.what == COPY_LANDED} <= seen
    landed = Counter(n for e in log.events if e.what == COPY_LANDED for n in e.by)
    assert all(landed[e.number] == len(e.there) for e in log.events if e.what == COPY_STARTED and e.barrier)


@pytest.mark.sweep(6)
@every_spec
def test_the_log_of_every_spec_is_lawful(path: Path) -> None:
    found = small_spec(path)
    if not has_events(found.plan):
        return
    log = record_events(found.spec, found.plan, 150)
    assert log.fault is None
    kinds = check_laws(found.plan, log)
    assert kinds[WAITS] > 0 if found.plan.barriers else not kinds[COPY_LANDED]
    if not log.is_cut:
        check_ends(log)
    text = events_text(events_data(found.plan, launch_of(found.spec), log))
    assert max(map(len, text.splitlines())) <= 110


def test_the_laws_can_be_broken() -> None:
    plan, log = log_of(ROOT / "specs" / "copy_ring.yaml")
    wait = next(e for e in log.events if e.what == WAITS and len(e.by) > 1)
    others = next(e for e in log.events if e.what == ARRIVES and e.barrier != wait.barrier)
    for wrong in (
        replace(wait, by=wait.by[1:]), replace(wait, by=wait.by[:1]), replace(wait, by=()), replace(wait, row=1),
        replace(wait, phase=wait.phase + 1), replace(wait, slot=wait.slot + 1),
        replace(wait, by=(*wait.by, others.number)),
    ):  # fmt: skip
        events = tuple(wrong if e.number == wait.number else e for e in log.events)
        with pytest.raises(AssertionError):
            check_laws(plan, replace(log, events=events))


# ---------------------------------------------------------------- exact logs
def short(e: Event) -> tuple[Any, ...]:
    return e.what, dict(e.loops).get("k", -1), e.barrier, e.slot, e.phase, e.threads, e.bytes


def test_the_log_of_a_ring_of_two_roles() -> None:
    """Tile k lies in stage k % 3 and is phase k // 3: four warps free a stage, one thread fills it."""
    _, log = log_of(ROOT / "specs" / "copy_ring.yaml")
    trips, size = 7, 64 * 64 * 2
    filled = [
        event
        for k in range(trips)
        for event in (
            (WAITS, k, "free", k % 3, k // 3 - 1, 32, 0),
            (ARRIVES, k, "full", k % 3, k // 3, 1, size),
            (COPY_STARTED, k, "full", k % 3, k // 3, 1, size),
            (COPY_LANDED, k, "full", k % 3, k // 3, 1, size),
        )
    ]
    emptied = [
        event
        for k in range(trips)
        for event in (
            (WAITS, k, "full", k % 3, k // 3, 128, 0),
            (MEETS, k, "", 0, 0, 128, 0),
            (ARRIVES, k, "free", k % 3, k // 3, 4, 0),
        )
    ]
    assert [short(e) for e in log.events if e.role == "load"] == filled
    assert [short(e) for e in log.events if e.role == "move"] == emptied
    assert {e.role for e in log.events} == {"load", "move"} and not log.is_cut
    lines = {(e.role, e.what): e.line for e in log.events if e.op < 0}
    assert lines == {("load", WAITS): 24, ("move", WAITS): 30, ("move", MEETS): 32, ("move", ARRIVES): 33}
    for e in log.events:
        if e.what == WAITS and e.phase >= 0:
            causes = [log.events[n] for n in e.by]
            k = dict(e.loops)["k"] - (3 if e.barrier == "free" else 0)
            assert {dict(c.loops)["k"] for c in causes} == {k}
            assert [c.what for c in causes] == ([ARRIVES] if e.barrier == "free" else [ARRIVES, COPY_LANDED])


def test_the_log_of_a_ring_of_products() -> None:
    """One group of products stays in flight; those of trip k are waited for in trip k + 1, or after the loop."""
    _, log = log_of(ROOT / "specs" / "wgmma_ring.yaml", K=256)
    trips, steps = 4, 64 // 16
    started = [e for e in log.events if e.what == PRODUCTS_STARTED]
    assert [dict(e.loops)["k"] for e in started] == [k for k in range(trips) for _ in range(steps)]
    done = [e for e in log.events if e.what == PRODUCTS_DONE]
    assert [(dict(e.loops).get("k"), e.pending) for e in done] == [*((k, 1) for k in range(trips)), (None, 0)]
    groups = [tuple(e.number for e in started[k * steps : (k + 1) * steps]) for k in range(trips)]
    assert [e.by for e in done] == [(), *groups[:-1], groups[-1]]
    waits = [e for e in log.events if e.what == WAITS]
    assert [(e.slot, e.phase) for e in waits] == [(k % 4, k // 4) for k in range(trips)]
    for e in waits:  # A in one box, B in two
        landed = [log.events[n] for n in e.by if log.events[n].what == COPY_LANDED]
        assert [(c.names, c.bytes) for c in landed] == [(("A", "sa"), 8192), *[(("B", "sb"), 8192)] * 2]
    check_ends(log)


def test_ctas_of_a_cluster_wait_for_one_another() -> None:
    _, log = log_of(ROOT / "specs" / "broadcast_cluster.yaml")
    assert log.ctas == ((0, 0, 0), (1, 0, 0))
    for e in log.events:
        causes = [log.events[n] for n in e.by]
        if e.what == WAITS and e.phase >= 0:
            assert {c.cta for c in causes if c.what == COPY_LANDED or not c.bytes} == set(log.ctas)
    ends = [e for e in log.events if e.what == MEETS and e.scope == "cluster"]
    assert len(ends) == 6 and {e.row for e in ends} == {max(e.row for e in log.events)}


def test_whoever_begins_the_rows_are_the_same() -> None:
    """The order of the log is the interpreter's; the rows follow from what has to come before what."""
    logs = []
    for order in ("load move", "move load"):
        spec = load(ring(order))
        log = record_events(spec, plan_spec(spec), ALL)
        logs.append(sorted((e.row, e.role, short(e)) for e in log.events))
    assert logs[0] == logs[1]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("rows", [1, 2, 8, 34, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 5, 13, 21, 55))])
@pytest.mark.parametrize("name", ["copy_ring", "broadcast_cluster", "wgmma_ring", "hgemm_roles"])
def test_some_rows_are_those_of_the_whole(name: str, rows: int) -> None:
    spec = load(ROOT / "specs" / f"{name}.yaml")
    plan = plan_spec(spec)
    whole, part = record_events(spec, plan, ALL), record_events(spec, plan, rows)
    kept = [e for e in whole.events if e.row <= rows]
    numbers = {e.number: k for k, e in enumerate(kept)}
    wanted = [replace(e, number=numbers[e.number], by=tuple(numbers[n] for n in e.by)) for e in kept]
    told = lambda events: sorted((e.cta, e.role, short(e), e.row, len(e.by)) for e in events)  # noqa: E731
    assert told(part.events) == told(wanted)
    assert part.is_cut == (len(kept) < len(whole.events)) and not whole.is_cut
    assert part.fault is whole.fault is None
    check_laws(plan, part)


# ---------------------------------------------------------------- faults
def test_a_fault_ends_the_log() -> None:
    spec = load(ring("load move", load=WAIT_FREE.replace("free", "full") + FILL))
    log = record_events(spec, plan_spec(spec), ALL)
    assert log.fault is not None and log.fault.fault.code == "TG413" and log.events == ()


def test_a_log_that_is_cut_is_no_deadlock() -> None:
    spec = load(shared_ring("load move"))
    assert record_events(spec, plan_spec(spec), 4).fault is None


# ---------------------------------------------------------------- the command
def tilegen(*words: str | Path) -> Any:
    return CliRunner().invoke(cli, [str(w) for w in words])


def test_explain_draws_what_roles_wait_for() -> None:
    result = tilegen("explain", ROOT / "specs" / "copy_ring.yaml", "--events", "--rows", "12")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for line in (
        "mbarrier free: 3 slots, a phase takes 4 arrivals",
        "4 k = 1: wait free[1]: open, its first round k = 0: wait full[0] phase 0 <- X by load (row 3)",
        "12 copy X -> tile, 8192 bytes: full[0] phase 1 arrive 4 times: free[2] phase 0",
        "Row 12 is not the last: --rows shows more.",
        "12 4 move 30 k = 0 wait full[0] phase 0 <- X by load (row 3) 1 3",
    ):
        assert line in lines, line
    assert "no time was measured" in " ".join(lines)


def test_explain_prints_events_as_json() -> None:
    found = json.loads(tilegen("explain", ROOT / "specs" / "copy_ring.yaml", "--events", "--format", "json").stdout)
    assert set(found) == {"kernel", "arch", "params", "ctas", "roles", "barriers", "is_cut", "events", "fault"}
    assert all(
        set(e) == {
            "number", "row", "what", "cta", "role", "op", "line", "text", "loops", "threads", "barrier", "slot",
            "phase", "there", "bytes", "names", "scope", "pending", "by",
        }
        for e in found["events"]
    )  # fmt: skip
    start = next(e for e in found["events"] if e["what"] == COPY_STARTED)
    assert (start["line"], start["names"], start["loops"]) == (25, ["X", "tile"], {"k": 0}) and "X[" in start["text"]


def test_a_fault_is_said_after_the_events(tmp_path: Path) -> None:
    path = tmp_path / "ring.yaml"
    keeps_one = WAIT_FULL + READ + MET + RELEASE.replace(']"', ']", when: k != 3')
    path.write_text(ring("load move", move=keeps_one))
    result = tilegen("explain", path, "--events")
    assert result.exit_code == 1 and "error[TG413]" in result.stderr and "wait full[0] phase 0" in result.stdout
    result = tilegen("explain", path, "--events", "--format", "json")
    assert result.exit_code == 1 and json.loads(result.stdout)["fault"]["code"] == "TG413"


def test_a_kernel_in_which_nothing_waits_has_no_events() -> None:
    result = tilegen("explain", ROOT / "specs" / "permute_sf.yaml", "--events")
    assert (result.exit_code, result.stdout) == (0, "permute_sf: no roles, and nothing runs by itself: no events\n")
    found = json.loads(tilegen("explain", ROOT / "specs" / "permute_sf.yaml", "--events", "--format", "json").stdout)
    assert found["events"] == []


@pytest.mark.parametrize("more", [["--access", "1"], ["--compile"], ["--resolved"], ["--expanded"]])
def test_events_stand_alone(more: list[str]) -> None:
    assert tilegen("explain", ROOT / "specs" / "copy_ring.yaml", "--events", *more).exit_code == 2
    assert tilegen("explain", ROOT / "specs" / "copy_ring.yaml", "--rows", "3").exit_code == 2


@pytest.mark.slow
def test_queues_are_those_of_a_spec() -> None:
    """cp.async and TMA stores are waited for by groups too."""
    for name, queue in (("copy_staged", "cp_async"), ("hgemm_roles", "tma")):
        spec = load(ROOT / "specs" / f"{name}.yaml")
        plan = plan_spec(spec)
        log = record_events(spec, plan, ALL)
        check_laws(plan, log)
        check_ends(log)
        assert any(e.what == COPIES_DONE and e.by for e in log.events)
        assert f"wait {{{queue}: " in drawing_text(events_data(plan, launch_of(spec), log))
    assert any(e.scope == PRODUCTS for e in log.events)
