"""A result of tuning, one on each line of a file: the candidate, the device it ran on, and its time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilegen.errors import Diagnostic, InputError

FORMAT = 1  # of the lines
MEASURED = "measured"
LOST = "lost"  # its process was gone, for a reason that is not known: it may be tried again
# What else comes of a candidate: refused (by the loader, a chooser or a proof), failed (to compile or to launch), wrong
# (elements on the GPU), faulted, hung.


@dataclass(frozen=True)
class Environment:
    """Where kernels were timed. ``driver``: the newest CUDA that it runs. ``generator``: the version of tilegen.

    >>> str(Environment("NVIDIA H200", "CUDA 13.0", "NVRTC 13.0", "0.2.0"))
    'NVIDIA H200, CUDA 13.0, NVRTC 13.0, tilegen 0.2.0'
    """

    device: str
    driver: str
    compiler: str
    generator: str

    def __str__(self) -> str:
        return f"{self.device}, {self.driver}, {self.compiler}, tilegen {self.generator}"


@dataclass(frozen=True)
class Record:
    """What came of one candidate.

    ``key``: of the printed spec with its pins; ``problem``: of the spec without. ``name``: the candidate in words.
    ``pins``: what the text of the spec gets, as ``Pins`` takes it. ``outcome``: ``measured``, or why there is no time,
    with the ``message``. ``us``: the quartiles of a launch, in microseconds; ``ratio``: its time over that of
    ``beside``, the key of the best so far, by the median of the rounds. ``final``: the number of the last round of all,
    in which the best few took turns; 0 for another. ``estimate_us``: the model's.
    """

    key: str
    problem: str
    name: str
    pins: dict[str, Any]
    environment: Environment
    outcome: str
    message: str = ""
    us: tuple[float, float, float] | None = None
    ratio: float | None = None
    beside: str = ""
    final: int = 0
    estimate_us: float | None = None
    seconds: float = 0.0
    spec: str = ""

    @property
    def median_us(self) -> float:
        """Microseconds of a launch; infinite where nothing was measured."""
        return self.us[1] if self.us else float("inf")


@dataclass(frozen=True)
class Found:
    """The records of a file, and how many lines no record could be read from (one that was cut off is such)."""

    records: tuple[Record, ...] = ()
    unread: int = 0


def data_of(record: Record) -> dict[str, Any]:
    """A record as JSON data, without what says nothing."""
    data = {name: value for name, value in asdict(record).items() if value not in (None, "", 0, 0.0)}
    return {"tilegen_tune": FORMAT} | data


def line_of(record: Record) -> str:
    """A record as a line of a file.

    >>> here = Environment("H200", "CUDA 13.0", "NVRTC 13.0", "0.2.0")
    >>> one = Record("k", "p", "T = 64", {"params": {"T": 64}}, here, "measured", us=(1.0, 2.0, 3.0))
    >>> read_line(line_of(one)) == one
    True
    """
    return json.dumps(data_of(record)) + "\n"


def read_line(line: str) -> Record | None:
    """The record of a line; None where it has none."""
    try:
        data = json.loads(line)
        if data.pop("tilegen_tune") != FORMAT:
            return None
        data["environment"] = Environment(**data["environment"])
        data["us"] = tuple(map(float, data["us"])) if data.get("us") else None
        record = Record(**data)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return record if record.us is None or len(record.us) == 3 else None


def read_records(path: str | Path, may_lack: bool = False) -> Found:
    """The records of a file. Raises InputError TG001 where it cannot be read; ``may_lack``: it may not be there."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        if may_lack:
            return Found()
        hint = "`tilegen tune SPEC` writes one"
        raise InputError(Diagnostic("TG001", f"there is no file {path}", hint=hint)) from None
    except OSError as error:
        raise InputError(Diagnostic("TG001", f"cannot read {path}: {error.strerror}")) from None
    lines = [line for line in text.splitlines() if line.strip()]
    found = [read_line(line) for line in lines]
    return Found(tuple(r for r in found if r is not None), sum(r is None for r in found))


def latest(records: Iterable[Record]) -> dict[str, Record]:
    """The last record of each candidate, by key: of one that was timed again, the last time."""
    return {record.key: record for record in records}


def choose_best(records: Sequence[Record]) -> Record | None:
    """The fastest of what was measured; of those that took turns in a last round, where there was one.

    ``records``: of one problem on one device.
    """
    measured = [r for r in records if r.outcome == MEASURED and r.us]
    last = max((r.final for r in measured), default=0)
    return min((r for r in measured if r.final == last), key=lambda r: r.median_us, default=None)


@dataclass(frozen=True)
class Skipped:
    """Records that count for nothing here: of another spec, of another device or version, lines that are none."""

    of_others: int = 0
    elsewhere: int = 0
    unread: int = 0
    where: tuple[str, ...] = ()

    def __str__(self) -> str:
        """
        >>> str(Skipped(2, 1, 0, ("NVIDIA H100",)))
        '2 results of other specs, 1 result of another device or version (NVIDIA H100)'
        """
        said = [_count(self.of_others, "of another spec", "of other specs")] if self.of_others else []
        if self.elsewhere:
            where = f" ({'; '.join(self.where)})" if self.where else ""
            said.append(_count(self.elsewhere, *["of another device or version"] * 2) + where)
        said += [_count(self.unread, "that cannot be read", "that cannot be read")] if self.unread else []
        return ", ".join(said)


def _count(n: int, one: str, many: str) -> str:
    return f"1 result {one}" if n == 1 else f"{n} results {many}"


def sort_records(found: Found, problem: str, here: Environment | None) -> tuple[list[Record], Skipped]:
    """The records of a problem that hold here, and what was left out. No environment: those of any."""
    own = [r for r in found.records if r.problem == problem]
    kept = [r for r in own if here is None or r.environment == here]
    others = tuple(dict.fromkeys(str(r.environment) for r in own if here is not None and r.environment != here))
    return kept, Skipped(len(found.records) - len(own), len(own) - len(kept), found.unread, others)
