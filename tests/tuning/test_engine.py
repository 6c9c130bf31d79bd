"""The engine of tuning, all its processes, on a device that is pretended: faults, a killed client, a second one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")
pytest.importorskip("filelock")

from distributed import Client
from tuning.pretended import HERE, MOVE, Pretended, draw_us

from tilegen.cli import cli
from tilegen.errors import InputError
from tilegen.tuned import read_records
from tilegen.tuning import PLAIN, Devices, TuneResult, TuneWishes, engine, tune

SPEC = MOVE.replace("CHOICES", "[128, 32, 64, 96, 160, 192, 1056]")
T = (128, 32, 64, 96, 160, 192)
NAMES = {PLAIN, *(f"T = {t}" for t in T[1:])}


def run_it(
    folder: Path, *wrongs: tuple[str, str], measurers: int = 1, slow: int = 0, **wishes: Any
) -> TuneResult:  # fmt: skip
    meter = Pretended(str(folder / "log"), wrongs, slow=slow)
    asked = TuneWishes(**{"limit_seconds": 3.0, "jobs": 1, **wishes})
    return tune(SPEC, folder / "move.tune.jsonl", asked, Devices(meter, [{}] * measurers))


def ran(folder: Path) -> Counter[str]:
    return Counter(json.loads(line)["name"] for line in (folder / "log").read_text().splitlines())


@pytest.fixture(scope="module")
def wronged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, TuneResult]]:
    """One kernel hangs, one faults, and one process is killed, in one run over two devices."""
    folder = tmp_path_factory.mktemp("wronged")
    wrongs = (("T = 32", "hang"), ("T = 64", "fault"), ("T = 96", "kill"))
    yield folder, run_it(folder, *wrongs, measurers=2)


def test_what_goes_wrong_takes_its_candidate_and_no_other(wronged: tuple[Path, TuneResult]) -> None:
    _, result = wronged
    outcomes = {r.name: r.outcome for r in result.records}
    assert {n: o for n, o in outcomes.items() if n in NAMES} == {
        PLAIN: "measured", "T = 32": "hung", "T = 64": "faulted", "T = 96": "lost",
        "T = 160": "measured", "T = 192": "measured",
    }  # fmt: skip
    messages = {r.outcome: r.message for r in result.records if r.outcome != "measured"}
    assert messages["hung"] == "no end of its launches within 3 s"
    assert messages["faulted"] == "an illegal memory access was encountered"
    assert [one.name for one in result.left_out] == ["T = 1056"] and "1024" in result.left_out[0].why


def test_the_best_is_that_of_the_device(wronged: tuple[Path, TuneResult]) -> None:
    _, result = wronged
    measured = [r for r in result.records if r.outcome == "measured"]
    assert result.best.name == min((r.name for r in measured), key=draw_us)
    assert result.best.final == 1 and result.best.ratio == 1.0 and result.plain is not None
    assert result.plain.ratio == pytest.approx(draw_us(PLAIN) / draw_us(result.best.name), abs=1e-3)
    assert all(r.us == (pytest.approx(draw_us(r.name)),) * 3 for r in measured)


def test_what_was_lost_is_tried_again_and_what_hung_never(wronged: tuple[Path, TuneResult]) -> None:
    folder, first = wronged
    before = ran(folder)
    result = run_it(folder)
    new = ran(folder) - before
    assert new == {"T = 96": 1}
    assert {r.name: r.outcome for r in result.records}["T = 96"] == "measured"
    assert result.measured == 1 and len(result.records) == len(first.records)


def test_a_killed_client_goes_on_and_measures_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "move.yaml").write_text(SPEC.replace("choices: [128, 32, 64, 96, 160, 192, 1056]", "choices: [224]"))
    file = tmp_path / "kept.jsonl"
    command = [sys.executable, str(Path(__file__).with_name("client.py")), "move.yaml", str(file), "log"]
    client = subprocess.Popen(command, cwd=tmp_path)
    try:
        until = time.monotonic() + 60
        while (not file.exists() or len(file.read_text().splitlines()) < 2) and time.monotonic() < until:
            time.sleep(0.05)
        with pytest.raises(InputError, match=r"TG611: another `tilegen tune` has .* open"):
            tune(SPEC, file, TuneWishes(), Devices(Pretended("other"), [{}]))
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
    kept = read_records(file).records
    assert 2 <= len(kept) < 5
    with file.open("a") as torn:  # what a killed process may leave
        torn.write('{"tilegen_tune": 1, "key": "')
    time.sleep(0.5)
    assert subprocess.run(command, cwd=tmp_path, timeout=60).returncode == 0
    found = read_records(file)
    assert found.unread == 1 and {r.outcome for r in found.records} == {"measured"}
    again = ran(tmp_path)
    in_flight = 1  # when the client was killed, its result had not been kept
    assert set(again) >= {r.name for r in kept} and all(again[r.name] == 1 for r in kept)
    assert sum(again.values()) - len(again) <= in_flight


# ---------------------------------------------------------------- at a scheduler
PAGE = Path(__file__).parents[2] / "docs" / "tuning.md"


def page_lines(begin: str) -> list[str]:
    """The lines of the block of docs/tuning.md that has this among its words, without remarks."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    (block,) = (b for b in blocks if begin in b)
    return [line.partition("  #")[0].rstrip() for line in block.splitlines()]


def start_line(line: str, more: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """A line of a shell as a process: what stands before the command is its environment."""
    words = line.split()
    env = dict(word.split("=", 1) for word in words[: words.index("dask")])
    dask = str(Path(sys.executable).with_name("dask"))
    env |= {"PYTHONPATH": str(Path(__file__).parents[1]), "DASK_LOGGING__DISTRIBUTED": "critical"}
    command = [dask, *words[words.index("dask") + 1 :], *more]
    return subprocess.Popen(command, cwd=folder, env=os.environ | env, stderr=subprocess.DEVNULL)


def test_the_commands_of_the_page_are_commands() -> None:
    lines = [*page_lines("pip install")[1:], page_lines("dask scheduler")[-1]]
    assert len(lines) == 4
    for line in lines:
        program, name, *words = line.split()
        assert program == "tilegen"
        cli.commands[name].make_context(name, words)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler with one process that measures and one that builds, as docs/tuning.md starts them."""
    folder = tmp_path_factory.mktemp("scheduler")
    known = folder / "scheduler.json"
    start, measure, build, _ = page_lines("dask scheduler")
    running = []
    try:
        more = ["--port", "0", "--scheduler-file", str(known), "--no-dashboard"]
        running.append(start_line(start.replace("HOST", "127.0.0.1"), more, folder))
        until = time.monotonic() + 60
        while not known.exists() and time.monotonic() < until:
            time.sleep(0.1)
        at = str(json.loads(known.read_text())["address"])
        for line in (measure, build.replace("--nworkers 8", "--nworkers 1")):
            running.append(start_line(line.replace("tcp://HOST:8786", at), ["--no-dashboard"], folder))
        with Client(at, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield at
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


def test_a_budget_of_candidates_and_another_device_at_a_scheduler(tmp_path: Path, address: str) -> None:
    result = run_it(tmp_path, scheduler=address, candidates=2)
    assert result.notes == ()
    assert result.measured == 2 and result.untried >= 3 and ran(tmp_path).total() == 2
    other = Pretended(str(tmp_path / "log"), here=replace(HERE, device="another device"))
    file = tmp_path / "move.tune.jsonl"
    second = tune(SPEC, file, TuneWishes(scheduler=address, candidates=1), Devices(other))
    assert str(second.skipped) == f"4 results of another device or version ({HERE})"
    assert second.measured == 1 and second.environment.device == "another device"


@pytest.mark.parametrize("budget", [{"seconds": 0.01}, {"candidates": 1}])
def test_a_plain_build_has_its_turn_whatever_the_budget(tmp_path: Path, budget: dict[str, float]) -> None:
    result = run_it(tmp_path, **budget)
    assert result.plain is not None and result.plain.outcome == "measured" and ran(tmp_path) == {PLAIN: 1}


def test_a_plain_build_that_is_slow_to_build_has_its_turn(tmp_path: Path) -> None:
    """Others are timed before it, and the time is over before it is built."""
    result = run_it(tmp_path, seconds=5.0, jobs=4, slow=T[0])
    names = list(ran(tmp_path))
    assert result.plain is not None and result.plain.outcome == "measured" and names[-1] == PLAIN and len(names) > 1


def test_a_budget_that_fits_no_candidate(tmp_path: Path, address: str) -> None:
    with pytest.raises(InputError, match=r"TG612: the budget of 0 s ended before any candidate was measured"):
        run_it(tmp_path, scheduler=address, seconds=0.0)


def test_processes_of_another_version_are_refused(tmp_path: Path, address: str, monkeypatch: Any) -> None:
    mine = engine.describe_process() | {"tilegen": "0.0.1"}
    monkeypatch.setattr(engine, "describe_process", partial(dict, mine), raising=True)
    monkeypatch.setattr(engine.Engine, "ask", lambda *_: {address: mine | {"tilegen": "0.2.0"}})
    with pytest.raises(InputError, match=r"TG613: the process at .* has tilegen 0.2.0, and this one has 0.0.1"):
        run_it(tmp_path, scheduler=address)
