"""A run of tuning: candidates are built ahead, timed one at a time a device, and each result is kept as it comes."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from distributed import Future
from distributed.scheduler import KilledWorker

from tilegen.bench.measuring import measure_spread, paired_ratio
from tilegen.errors import Diagnostic, EnvironmentLack
from tilegen.tuned import LOST, MEASURED, Environment, Record, choose_best, line_of, pins_data
from tilegen.tuning.candidates import Candidate
from tilegen.tuning.engine import Engine, Workers, wait_for
from tilegen.tuning.meters import Asked, Meter, Timing
from tilegen.tuning.tasks import build_task, time_task, vary_task

FINALISTS = 4  # take turns once more at the end, beside what a plain build is
_FINAL_TIMES = 2  # as many rounds as before
_LOOK_SECONDS = 0.25
_WORDS_SECONDS = 5.0
_AHEAD = 2  # candidates that are built for each device beside the one that is timed
_MOST_LOST = 5  # times that processes end, with nothing measured between them
_EXTRA_SECONDS = 120.0  # of a task beyond its limit, before it counts as lost


@dataclass(frozen=True)
class Budget:
    """What a run may take: seconds until no more candidate begins, and candidates that are timed."""

    seconds: float = float("inf")
    candidates: float = float("inf")


@dataclass(frozen=True)
class State:
    """How far a run is: candidates that are done and that are left, the best, and about how many seconds are left.

    ``is_last``: the best few take turns once more.
    """

    done: int
    left: int
    best: Record | None
    first: Record | None
    seconds_left: float
    is_last: bool = False


@dataclass(frozen=True)
class Terms:
    """What all of a run goes by. ``first``: the candidate that a plain build is."""

    problem: str
    spec: str
    environment: Environment
    meter: Meter
    first: Candidate
    budget: Budget
    rounds: int
    seed: int
    limit_seconds: float
    begun: float = field(default_factory=time.monotonic)

    def ask(self, rounds: int) -> Asked:
        """What is asked of a device for kernels that are named beside."""
        return Asked(self.problem, (), rounds, self.seed, self.limit_seconds)

    @property
    def is_over(self) -> bool:
        """Whether the time that a run may take is spent."""
        return time.monotonic() - self.begun >= self.budget.seconds


@dataclass
class _Timed:
    """A candidate that a device times beside others, by key."""

    candidate: Candidate
    future: Future
    beside: str
    begun: float


class Run:
    """The loop of one client. ``keep(record)`` is told each result as it comes."""

    def __init__(self, engine: Engine, terms: Terms, keep: Callable[[Record], None], watch: Callable[[State], None]):
        self.engine, self.terms, self.keep, self.watch = engine, terms, keep, watch
        self.queue: deque[Candidate] = deque()
        self.candidates: dict[str, Candidate] = {}
        self.records: dict[str, Record] = {}
        self.building: dict[str, tuple[Candidate, Future]] = {}
        self.ready: deque[tuple[Candidate, Future]] = deque()
        self.timing: dict[str, _Timed] = {}
        self.prepared: dict[str, Future] = {}
        self.varied: set[str] = set()
        self.best: Record | None = None
        self.has_lost = False
        self.counted = 0  # candidates that were timed
        self.lost_in_a_row = 0  # looks that found processes gone, with nothing measured between them
        self.notes: list[str] = []

    # ------------------------------------------------------------ what there is
    def resume(self, known: Iterable[Record], candidates: Iterable[Candidate]) -> None:
        """Begin where a file ends: what it has is not timed again, but for what was lost."""
        self.records = {r.key: r for r in known if r.outcome != LOST}
        self.best = choose_best(list(self.records.values()))
        self.add(candidates)

    def add(self, candidates: Iterable[Candidate]) -> None:
        for candidate in candidates:
            if candidate.key not in self.candidates:
                self.candidates[candidate.key] = candidate
                if candidate.key not in self.records:
                    self.queue.append(candidate)

    @property
    def owes_first(self) -> bool:
        """Whether a plain build has its turn to come: every other time is said beside its own, whatever the budget."""
        key, budget = self.terms.first.key, self.terms.budget
        return key in self.candidates and key not in self.records and budget.seconds > 0 and budget.candidates >= 1

    def is_first(self, candidate: Candidate) -> bool:
        return candidate.key == self.terms.first.key

    @property
    def is_spent(self) -> bool:
        """Whether no more candidate may begin, but for the first."""
        under_way = [t.candidate for t in self.timing.values()] + [one for one, _ in self.ready]
        owed = self.owes_first and not any(map(self.is_first, under_way))
        return self.terms.is_over or self.counted + len(under_way) + owed >= self.terms.budget.candidates

    # ------------------------------------------------------------ the loop
    def go(self) -> None:
        """All candidates, then others around the best, until there are none or the budget is spent; then the best few
        once more.
        """
        while True:
            self.work()
            if self.is_spent or self.best is None or not self.vary_best():
                break
        self.finish()

    def work(self) -> None:
        """Until nothing is under way, and the queue is empty or the budget spent."""
        while True:
            if self.is_spent:
                self.put_back()
            may_begin = self.queue and (self.owes_first or not self.is_spent)
            if not (self.building or self.ready or self.timing or may_begin):
                return
            workers = self.engine.list_workers()
            self.submit(workers)
            self.look(workers)
            self.watch(self.state())

    def put_back(self) -> None:
        """Give up what is being built; where the time is over, also what waits for a device. The first goes on."""
        given_up = [*self.building.values(), *(self.ready if self.terms.is_over else ())]
        for candidate, future in reversed(given_up):
            if not self.is_first(candidate):
                future.cancel()
                self.queue.appendleft(candidate)
        self.building = {a: one for a, one in self.building.items() if self.is_first(one[0])}
        if self.terms.is_over:
            self.ready = deque(one for one in self.ready if self.is_first(one[0]))

    def submit(self, workers: Workers) -> None:
        """Give each process that has nothing to do the next thing."""
        ahead = _AHEAD * max(1, len(workers.measurers)) + len(workers.builders)
        for address in workers.builders:
            under_way = len(self.building) + len(self.ready)
            if address not in self.building and self.queue and under_way < ahead:
                if self.is_spent and not self.is_first(self.queue[0]):
                    break
                candidate = self.queue.popleft()
                self.building[address] = candidate, self.engine.submit(address, build_task, candidate, self.terms.meter)
        for address in workers.measurers:
            if address not in self.timing and self.ready:
                self.time(address, *self.ready.popleft(), workers=workers)

    def time(self, address: str, candidate: Candidate, future: Future, workers: Workers) -> None:
        """Time a candidate beside the best so far."""
        beside = self.best.key if self.best is not None else ""
        others = [self.prepare(beside, workers)] if beside else []
        asked = self.terms.ask(self.terms.rounds)
        submitted = self.engine.submit(address, time_task, asked, self.terms.meter, future, *others)
        self.prepared[candidate.key] = future
        self.timing[address] = _Timed(candidate, submitted, beside, time.monotonic())

    def prepare(self, key: str, workers: Workers) -> Future:
        """A candidate that was measured, built: it may be built already, or be of an earlier run."""
        if key not in self.prepared or self.prepared[key].status in ("cancelled", "lost", "error"):
            task = self.candidates[key], self.terms.meter
            self.prepared[key] = self.engine.submit(workers.builders[0], build_task, *task)
        return self.prepared[key]

    # ------------------------------------------------------------ what comes back
    def look(self, workers: Workers) -> None:
        """Wait a little for any result, and take all that are there."""
        waiting = [f for _, f in self.building.values()] + [t.future for t in self.timing.values()]
        if waiting:
            wait_for(waiting, _LOOK_SECONDS)
        else:
            time.sleep(_LOOK_SECONDS)
        for address in list(self.building):
            candidate, future = self.building[address]
            status = future.status  # asked once: a result may come at any moment, and is no loss
            if status == "finished":
                (self.ready.appendleft if self.is_first(candidate) else self.ready.append)(self.building.pop(address))
            elif status != "pending" or address not in workers:
                del self.building[address]
                self.end(candidate, *self.say_lost(candidate.key, future), beside="")
        for address in list(self.timing):
            timed = self.timing[address]
            status = timed.future.status
            if status == "finished":
                del self.timing[address]
                self.take(timed, timed.future.result())
            elif status != "pending" or address not in workers or self.is_late(timed):
                del self.timing[address]
                self.end(timed.candidate, *self.say_lost(timed.candidate.key, timed.future), beside=timed.beside)
        self.count_lost()

    def is_late(self, timed: _Timed) -> bool:
        return time.monotonic() - timed.begun > 10 * self.terms.limit_seconds + _EXTRA_SECONDS

    def say_lost(self, key: str, future: Future) -> tuple[str, str]:
        """What came of a candidate whose process has gone, or whose task has failed."""
        if future.status == "error" and not isinstance(error := future.exception(), KilledWorker):
            return "failed", f"{type(error).__name__}: {error}"[:300]
        until = time.monotonic() + _WORDS_SECONDS  # last words may come after the news
        while key not in self.engine.last_words and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS / 5)
        future.cancel()
        return self.engine.last_words.pop(key, (LOST, "its process has ended"))

    def take(self, timed: _Timed, timing: Timing) -> None:
        """A result of a device."""
        if timing.outcome:
            self.end(timed.candidate, timing.outcome, timing.message, timed.beside)
            return
        own = timing.rounds[timed.candidate.key]
        other = timing.rounds.get(timed.beside, ())
        paired = paired_ratio(other[: len(own)], own).median if other else None
        record = replace(
            self.record_of(timed.candidate, MEASURED), us=_round(own), ratio=round(paired, 4) if paired else None,
            beside=timed.beside, seconds=round(time.monotonic() - timed.begun, 3),
        )  # fmt: skip
        self.counted, self.lost_in_a_row = self.counted + 1, 0
        self.store(record)
        if self.best is None or (paired is not None and paired < 1.0):
            self.best = record
        self.forget()

    def end(self, candidate: Candidate, outcome: str, message: str, beside: str) -> None:
        """A candidate that has no time."""
        self.store(replace(self.record_of(candidate, outcome), message=message, beside=beside))
        self.prepared.pop(candidate.key, None)
        self.has_lost |= outcome == LOST

    def count_lost(self) -> None:
        """Raises EnvironmentLack TG505 where processes end again and again; several that end together are one loss."""
        self.lost_in_a_row, self.has_lost = self.lost_in_a_row + self.has_lost, False
        if self.lost_in_a_row >= _MOST_LOST:
            message = f"processes ended {_MOST_LOST} times one after another, with nothing measured between them"
            raise EnvironmentLack(Diagnostic("TG505", message, hint="fewer processes by -j, or see `tilegen doctor`"))

    def store(self, record: Record) -> None:
        self.records[record.key] = record
        self.keep(record)

    def record_of(self, candidate: Candidate, outcome: str) -> Record:
        return Record(
            candidate.key, self.terms.problem, candidate.name, pins_data(candidate.pins), self.terms.environment,
            outcome, estimate_us=candidate.estimate_us and round(candidate.estimate_us, 3), spec=self.terms.spec,
        )  # fmt: skip

    def forget(self) -> None:
        """Kernels that are neither among the best few nor under way are let go."""
        kept = {r.key for r in self.list_finalists()} | {t.candidate.key for t in self.timing.values()}
        kept |= {t.beside for t in self.timing.values()}
        for key in [k for k in self.prepared if k not in kept]:
            del self.prepared[key]

    # ------------------------------------------------------------ what comes after the list
    def vary_best(self) -> bool:
        """Add what differs from the best in one op or one layout; whether there is any of it."""
        assert self.best is not None
        if self.best.key in self.varied or self.best.key not in self.candidates:
            return False
        self.varied.add(self.best.key)
        builders = self.engine.list_workers().builders
        if not builders:
            return False
        more: Sequence[Candidate] = self.engine.submit(builders[0], vary_task, self.candidates[self.best.key]).result()
        self.add(more)
        return bool(self.queue)

    def list_finalists(self) -> list[Record]:
        """The best few, and what a plain build is."""
        measured = sorted((r for r in self.records.values() if r.outcome == MEASURED), key=lambda r: r.median_us)
        few = [r for r in measured if r.key in self.candidates][:FINALISTS]
        first = self.records.get(self.terms.first.key)
        is_apart = first is not None and first.outcome == MEASURED and first not in few
        return [*few, first] if is_apart and first is not None else few

    def finish(self, is_again: bool = False) -> None:
        """The best few in turns, in more rounds, unless nothing is new.

        Where that fails twice, they keep what they had, and a note says so.
        """
        few, number = self.list_finalists(), 1 + max((r.final for r in self.records.values()), default=0)
        if len(few) < 2 or (self.counted == 0 and all(r.final for r in few) and not is_again):
            return
        for _ in range(2):
            rounds = self.time_together([r.key for r in few])
            if rounds:
                break
        else:
            return
        fastest = min(rounds, key=lambda key: median(rounds[key]))
        for record in few:
            ratio = paired_ratio(rounds[fastest], rounds[record.key]).median
            self.store(
                replace(record, us=_round(rounds[record.key]), ratio=round(ratio, 4), beside=fastest, final=number)
            )
        self.best = choose_best(list(self.records.values()))

    def time_together(self, keys: Sequence[str]) -> Mapping[str, tuple[float, ...]]:
        """The times of some candidates in turns; {} where it fails."""
        workers = self.engine.list_workers()
        if not (workers.measurers and workers.builders):
            self.notes.append("the best few did not take turns once more: no process is left for them")
            return {}
        kernels = [self.prepare(key, workers) for key in keys]
        asked = replace(self.terms.ask(_FINAL_TIMES * self.terms.rounds), most_times=float("inf"))
        measurer = workers.measurers[0]
        future = self.engine.submit(measurer, time_task, asked, self.terms.meter, *kernels)
        timed = _Timed(self.candidates[keys[0]], future, "", time.monotonic())
        while future.status == "pending" and measurer in self.engine.list_workers() and not self.is_late(timed):
            self.watch(replace(self.state(), is_last=True))
            wait_for([future], _LOOK_SECONDS)
        if future.status == "finished":
            timing = future.result()
            outcome, message = timing.outcome, timing.message
        else:
            timing, (outcome, message) = None, self.say_lost(keys[0], future)
        if outcome:
            self.notes.append(f"the best few did not take turns once more: {outcome}, {message}")
        return timing.rounds if timing is not None and not outcome else {}

    def state(self) -> State:
        done, left = len(self.records), len(self.queue) + len(self.building) + len(self.ready) + len(self.timing)
        spent = time.monotonic() - self.terms.begun
        each = spent / self.counted if self.counted else float("inf")
        by_count = min(left, self.terms.budget.candidates - self.counted) * each if left else 0.0
        return State(
            done, left, self.best, self.records.get(self.terms.first.key),
            max(0.0, min(by_count, self.terms.budget.seconds - spent)),
        )  # fmt: skip


def _round(us: Sequence[float]) -> tuple[float, float, float]:
    spread = measure_spread(us)
    return round(spread.lower, 4), round(spread.median, 4), round(spread.upper, 4)


# ---------------------------------------------------------------- the file
@contextmanager
def append_to(path: Path) -> Iterator[Callable[[Record], None]]:
    """What appends a record to a file and has the disk keep it before it returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if file.tell() and not _ends_a_line(path):
            file.write(b"\n")  # the last line was cut off

        def keep(record: Record) -> None:
            file.write(line_of(record).encode())
            file.flush()
            os.fsync(file.fileno())

        yield keep


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
