"""Tuning from a spec to its best: what is to be tried, who tries it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tilegen import spec as spec_room
from tilegen.errors import Diagnostic, EnvironmentLack, InputError
from tilegen.ops import WHOLE_OPS
from tilegen.pipeline import build
from tilegen.spec.data import Spec
from tilegen.spec.pinning import Pins, pin_text
from tilegen.spec.program import Program
from tilegen.spec.sources import NamedText, read_source
from tilegen.tuned import (
    MEASURED,
    Environment,
    Record,
    Skipped,
    choose_best,
    key_of,
    read_pins,
    read_records,
    read_spec,
    sort_records,
)
from tilegen.tuning.candidates import (
    Candidate,
    LeftOut,
    candidate_of,
    count_assignments,
    find_whole,
    list_assignments,
    list_choices,
    read_pinned,
    vary,
)
from tilegen.tuning.meters import Meter
from tilegen.tuning.ranking import rank_assignments, sort_candidates

if TYPE_CHECKING:
    from tilegen.tuning.engine import Engine
    from tilegen.tuning.running import Budget, State

PLAIN = "as it is built"  # the name of what a plain build is
_CHUNK = 16  # assignments of params that a process ranks at once


@dataclass(frozen=True)
class TuneWishes:
    """How to tune. ``over``: values of params beside those that have choices.

    ``seconds`` until no more candidate begins, and ``candidates`` that are timed at most. ``scheduler``: of
    dask.distributed, "" for processes here, of which there are ``jobs``. ``limit_seconds``: after which a kernel counts
    as hung. ``seed``: of the data. ``arch`` and ``settings``: instead of what the spec says. ``again``: the best few of
    the file take turns once more, and nothing else is timed.
    """

    over: Mapping[str, Sequence[int]] = field(default_factory=dict)
    seconds: float = float("inf")
    candidates: float = float("inf")
    scheduler: str = ""
    jobs: int = 1
    rounds: int = 15
    limit_seconds: float = 20.0
    seed: int = 1
    again: bool = False
    arch: str | None = None
    settings: Mapping[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Devices:
    """What measures: a kind of device, and the environment of each process here that has one."""

    meter: Meter
    measurers: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class TuneResult:
    """What is known of a spec after a run: one record of each candidate, by its time; the best, and a plain build.

    ``text``: the spec with the best written in. ``left_out``: what cannot be built, with the reason. ``measured``: how
    many candidates this run has timed. ``unlisted``: assignments of params beyond those that are looked at.
    ``untried``: candidates that the budget has left. ``notes``: what did not go as it should.
    """

    spec: str
    environment: Environment
    records: tuple[Record, ...]
    best: Record
    plain: Record | None
    text: str
    left_out: tuple[LeftOut, ...]
    skipped: Skipped
    measured: int
    unlisted: int
    untried: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Wanted:
    """What is tuned: the spec as it was given, with what was set, and its key."""

    base: NamedText
    spec: Spec | Program
    arch: str | None
    settings: Mapping[str, int | float]
    choices: Mapping[str, tuple[int, ...]]

    @property
    def plain(self) -> Candidate:
        """What a plain build is."""
        values = {name: each[0] for name, each in self.choices.items()}
        pins = Pins({"arch": self.spec.arch} if self.arch else {}, {**self.settings, **values})
        return candidate_of(read_pinned(self.spec, pins), pins, PLAIN, None)


def tune(
    source: spec_room.Source, path: str | Path, wishes: TuneWishes, devices: Devices | None = None,
    watch: Callable[[State], None] = lambda state: None,
) -> TuneResult:  # fmt: skip
    """Measure the candidates of a spec, and append each result to the file at ``path`` as it comes.

    What the file has of this spec and device is not measured again. ``devices``: by default each GPU that this process
    sees. ``watch`` is told how far it is.

    Raises SpecError for a wrong spec; InputError TG610 where there is nothing to choose, TG611 where another run has
    the file, TG612 where the budget ended before anything was measured, TG613 for processes that do not agree;
    EnvironmentLack TG502 without a GPU, TG507 without dask.distributed.
    """
    base = read_source(source)
    spec = read_spec(base, wishes.arch, wishes.settings)
    wanted = _Wanted(base, spec, wishes.arch, wishes.settings, list_choices(spec, wishes.over))
    if count_assignments(wanted.choices) < 2 and not _has_other_ways(wanted):
        message = f"kernel '{spec.kernel}' has nothing to choose: no param has choices, and no op is left to a chooser"
        hint = "write `T: {choices: [128, 256]}` in params, or name values by --over T=128,256"
        raise InputError(Diagnostic("TG610", message, hint=hint))
    _require_distributed()
    from tilegen.tuning.engine import count_builders, open_engine

    if devices is None:
        from tilegen.tuning.gpu_bench import GpuMeter, find_gpus

        devices = Devices(GpuMeter()) if wishes.scheduler else Devices(*find_gpus())
    builders = count_builders(wishes.jobs, len(devices.measurers))
    with _hold(Path(path)), open_engine(wishes.scheduler, devices.measurers, builders) as engine:
        return _tune(engine, wanted, Path(path), devices.meter, wishes, watch)


def _has_other_ways(wanted: _Wanted) -> bool:
    """Whether a chooser has anything else than a plain build takes. Raises SpecError for a spec that is refused."""
    spec = wanted.spec
    if isinstance(spec, Spec) and (call := find_whole(spec)) is not None:
        return len(WHOLE_OPS[call.op].candidates(call, spec)) > 1
    return bool(vary(wanted.plain))


def _require_distributed() -> None:
    for name in ("distributed", "filelock"):
        try:
            import_module(name)
        except ImportError as error:
            message = f"tune needs {name}, which is not here ({str(error).partition(chr(10))[0]})"
            raise EnvironmentLack(Diagnostic("TG507", message, hint="pip install 'tilegen[tune]'")) from None


@contextmanager
def _hold(path: Path) -> Iterator[None]:
    """The file is this run's. Raises InputError TG611 where another run has it, TG602 where it cannot be written."""
    from filelock import FileLock, Timeout

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=0):
            yield
    except Timeout:
        message = f"another `tilegen tune` has {path} open"
        hint = "wait for its end, or write to another file by -o"
        raise InputError(Diagnostic("TG611", message, hint=hint)) from None
    except OSError as error:
        raise InputError(Diagnostic("TG602", f"cannot write {path}: {error.strerror or error}")) from None


def _tune(
    engine: Engine, wanted: _Wanted, path: Path, meter: Meter, wishes: TuneWishes, watch: Callable[[State], None]
) -> TuneResult:  # fmt: skip
    from tilegen.tuning.running import Budget, Run, Terms, append_to

    environment, problem = _agree(engine, meter), key_of(wanted.spec)
    known, skipped = sort_records(read_records(path, may_lack=True), problem, environment)
    assignments = list_assignments(wanted.choices)
    ranked = _rank(engine, wanted, assignments)
    listed = [one for one in ranked if isinstance(one, Candidate)]
    plain = wanted.plain
    plain = next((replace(one, name=plain.name) for one in listed if one.key == plain.key), plain)  # with its estimate
    terms = Terms(
        problem, Path(wanted.spec.path).name, environment, meter, plain, Budget(wishes.seconds, wishes.candidates),
        wishes.rounds, wishes.seed, wishes.limit_seconds,
    )  # fmt: skip
    with append_to(path) as keep:
        run = Run(engine, terms, keep, watch)
        run.resume(known, sort_candidates([plain, *listed], plain.key))
        run.finish(is_again=True) if wishes.again else run.go()
    records = sorted(run.records.values(), key=lambda r: r.median_us)
    best = choose_best(records)
    if best is None:
        _refuse_unmeasured(wanted, records, terms.budget)
    return TuneResult(
        wanted.spec.path, environment, tuple(records), best, run.records.get(plain.key),
        pin_text(wanted.spec.text, read_pins(best.pins)),
        tuple(one for one in ranked if isinstance(one, LeftOut)), skipped, run.counted,
        count_assignments(wanted.choices) - len(assignments), len(run.queue), tuple(run.notes),
    )  # fmt: skip


def _agree(engine: Engine, meter: Meter) -> Environment:
    """The environment of all processes that measure. Raises EnvironmentLack, InputError TG613 where two differ."""
    from tilegen.tuning.tasks import describe_meter

    found = engine.ask(engine.list_workers().measurers, describe_meter, meter)
    for address, one in found.items():
        if isinstance(one, EnvironmentLack):
            raise one
        if not isinstance(one, Environment):
            message = f"the process at {address} cannot say what it measures on: {str(one)[:200]}"
            raise InputError(Diagnostic("TG613", message))
    first, *others = found.items()
    for address, one in others:
        if one != first[1]:
            message = f"the process at {address} measures on {one}, and that at {first[0]} on {first[1]}"
            hint = "times of two devices are not compared: leave one of them out"
            raise InputError(Diagnostic("TG613", message, hint=hint))
    environment: Environment = first[1]
    return environment


def _rank(engine: Engine, wanted: _Wanted, assignments: Sequence[Mapping[str, int]]) -> list[Candidate | LeftOut]:
    """The candidates of all assignments, ranked in the processes that build."""
    if len(assignments) <= _CHUNK:
        return rank_assignments(wanted.base, wanted.arch, wanted.settings, assignments)
    builders = engine.list_workers().builders
    chunks = [assignments[k : k + _CHUNK] for k in range(0, len(assignments), _CHUNK)]
    futures = [
        engine.submit(
            builders[k % len(builders)], rank_assignments, wanted.base, wanted.arch, dict(wanted.settings), chunk
        )
        for k, chunk in enumerate(chunks)
    ]
    return [one for future in futures for one in future.result()]


def _refuse_unmeasured(wanted: _Wanted, records: Sequence[Record], budget: Budget) -> NoReturn:
    """Raises what a plain build raises, or InputError TG612."""
    tried = [r for r in records if r.outcome != MEASURED]
    if tried and all(r.outcome == "refused" for r in tried):
        build(wanted.base, wanted.arch, wanted.settings)  # its error has the place in the spec
    if tried:
        first = tried[0]
        message = (
            f"none of {len(tried)} candidates was measured; the first ({first.name}) {first.outcome}: {first.message}"
        )
    else:
        of = f"{budget.seconds:g} s" if budget.candidates >= 1 else f"{budget.candidates:g} candidates"
        message = f"the budget of {of} ended before any candidate was measured"
    raise InputError(Diagnostic("TG612", message, hint="give --budget more, such as --budget 5m"))
