"""What a run makes of tasks whose status changes while it looks at them."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

pytest.importorskip("distributed")
pytest.importorskip("filelock")

from tuning.pretended import HERE, Pretended

from tilegen.spec.pinning import Pins
from tilegen.spec.sources import NamedText
from tilegen.tuned import Record
from tilegen.tuning import running
from tilegen.tuning.candidates import Candidate
from tilegen.tuning.engine import Engine, Workers
from tilegen.tuning.meters import Timing

ONE = Candidate("one", Pins(), NamedText("one.yaml", ""), "1")


class Coming:
    """A task whose result comes when its status has been asked for so many times."""

    def __init__(self, result: object, asked: int):
        self.found, self.left = result, asked

    @property
    def status(self) -> str:
        self.left -= 1
        return "pending" if self.left >= 0 else "finished"

    def result(self) -> object:
        return self.found

    def cancel(self) -> None:
        raise AssertionError("nothing is wrong with it")


def start_run(monkeypatch: pytest.MonkeyPatch) -> tuple[running.Run, list[Record]]:
    monkeypatch.setattr(running, "wait_for", lambda futures, seconds: None)
    kept: list[Record] = []
    terms = running.Terms("problem", "spec", HERE, Pretended("log"), ONE, running.Budget(), 3, 1, 3.0)
    return running.Run(Engine(cast(Any, None)), terms, kept.append, lambda state: None), kept


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_a_time_that_comes_while_it_is_looked_for_is_kept(monkeypatch: pytest.MonkeyPatch, asked: int) -> None:
    run, kept = start_run(monkeypatch)
    task = cast(Any, Coming(Timing({"1": (2.0, 2.0, 2.0)}), asked))
    run.timing["there"] = running._Timed(ONE, task, "", time.monotonic())
    for _ in range(3):
        run.look(Workers(("there",), ()))
    assert [(r.outcome, r.median_us) for r in kept] == [("measured", 2.0)] and not run.timing


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_what_is_built_while_it_is_looked_for_is_kept(monkeypatch: pytest.MonkeyPatch, asked: int) -> None:
    run, kept = start_run(monkeypatch)
    task = cast(Any, Coming(None, asked))
    run.building["there"] = ONE, task
    for _ in range(3):
        run.look(Workers((), ("there",)))
    assert [one for one, _ in run.ready] == [ONE] and not kept
