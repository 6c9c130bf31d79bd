"""Tasks in other processes answer as they do in this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import tilegen
from tilegen.errors import Diagnostic, ProofError
from tilegen.pipeline import explain_spec
from tilegen.planner import plan_spec
from tilegen.proofs.prove import prove
from tilegen.side_by_side import Died, run_tasks, stream_tasks

ROOT = Path(__file__).resolve().parent.parent


def fail(code: str, after: float = 0.0) -> None:
    time.sleep(after)
    raise ProofError(Diagnostic(code, "wrong"))


def test_the_first_task_that_fails_says_what_is_wrong_however_late_it_is() -> None:
    with pytest.raises(ProofError, match="TG401"):
        run_tasks([lambda: None, lambda: fail("TG401", 0.3), lambda: fail("TG402")], processes=3)


def test_tasks_run_in_this_process_and_in_others() -> None:
    def wait_and_say() -> int:
        time.sleep(0.2)
        return os.getpid()

    assert set(run_tasks([wait_and_say] * 2, processes=1)) == {os.getpid()}
    shared = run_tasks([wait_and_say] * 4, processes=2)
    assert len(set(shared)) == 2 and os.getpid() in shared


@pytest.mark.parametrize("own", [True, False])
def test_once_a_task_fails_no_other_begins(own: bool, tmp_path: Path) -> None:
    here = os.getpid()

    def fail_in_one_of_them() -> None:
        if (os.getpid() == here) == own:
            fail("TG401")
        time.sleep(0.2)

    with pytest.raises(ProofError, match="TG401") as caught:
        run_tasks([fail_in_one_of_them] * 2 + [(tmp_path / "begun").touch], processes=2)
    assert not (tmp_path / "begun").exists()
    assert own or "fail_in_one_of_them" in caught.value.__notes__[0]


def test_a_process_that_dies_is_told_of() -> None:
    here = os.getpid()
    with pytest.raises(RuntimeError, match="a process that was forked ended with 3"):
        run_tasks([lambda: time.sleep(0.2) if os.getpid() == here else os._exit(3)] * 2, processes=2)


def test_what_cannot_be_sent_is_told_of() -> None:
    here = os.getpid()
    with pytest.raises(RuntimeError, match="a process that was forked ended with 1"):
        run_tasks([lambda: time.sleep(0.2) if os.getpid() == here else (lambda: 0)] * 2, processes=2)


def test_processes_end_when_this_one_is_interrupted(tmp_path: Path) -> None:
    here = os.getpid()

    def interrupt() -> None:
        if os.getpid() == here:
            raise KeyboardInterrupt
        time.sleep(20)
        (tmp_path / "went on").touch()

    with pytest.raises(KeyboardInterrupt):
        run_tasks([interrupt] * 2, processes=2)
    assert not (tmp_path / "went on").exists()


# ---------------------------------------------------------------- as they end
def test_what_ends_first_is_told_of_first(tmp_path: Path) -> None:
    """The first task ends after the others: it waits for what is done while this process has nothing else to do."""
    gate, begun, found = tmp_path / "open", list[int](), list[tuple[int, object]]()

    def wait() -> str:
        while not gate.exists():
            time.sleep(0.01)
        return "late"

    def look() -> None:
        if len(found) == 2:
            gate.touch()

    for one in stream_tasks([wait, lambda: "early", lambda: "early"], 2, begun.append, look):
        found.append(one)
    assert found == [(1, "early"), (2, "early"), (0, "late")] and begun == [0, 1, 2]


def test_with_one_process_tasks_are_carried_out_here_in_their_order() -> None:
    assert list(stream_tasks([os.getpid] * 3, 1)) == [(k, os.getpid()) for k in range(3)]
    assert list(stream_tasks([os.getpid], 8)) == [(0, os.getpid())]
    assert not {pid for _, pid in stream_tasks([os.getpid] * 3, 2)} & {os.getpid()}


def test_a_process_that_dies_is_the_result_of_its_task_alone() -> None:
    def die() -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def end() -> int:
        os._exit(3)

    found = dict(stream_tasks([die, os.getpid, end, os.getpid], 2))
    assert (found[0], found[2]) == (Died(-9), Died(3))
    assert isinstance(found[1], int) and isinstance(found[3], int)


def test_processes_end_where_nobody_waits_for_them_any_more(tmp_path: Path) -> None:
    """Those that they have forked themselves too."""

    def work_in_two() -> None:
        run_tasks([partial(wait_and_touch, tmp_path / name) for name in "ab"], 2)

    outcomes = stream_tasks([os.getpid, work_in_two], 2)
    assert next(outcomes)[0] == 0
    time.sleep(0.3)
    begun = time.monotonic()
    outcomes.close()
    assert time.monotonic() - begun < 1.5
    time.sleep(1.2)
    assert not list(tmp_path.iterdir())


def wait_and_touch(path: Path) -> None:
    time.sleep(1.5)
    path.touch()


@pytest.mark.sweep(1)
@pytest.mark.parametrize("processes", [2, 3])
def test_a_proof_says_the_same_from_other_processes(monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    monkeypatch.setattr(sys.modules["tilegen.proofs.prove"], "_SHARED_WORK", 0)
    spec = tilegen.load(ROOT / "specs" / "softmax_short_rows.yaml")
    plan = plan_spec(spec)
    assert prove(spec, plan, processes) == prove(spec, plan)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemm_mma", "gemm", "epilogue_panels", "transpose_auto"])
def test_a_build_is_the_same_in_several_processes(name: str) -> None:
    """Layouts that are looked for side by side, the text beside the proof."""
    path = ROOT / "specs" / f"{name}.yaml"
    one, several = (tilegen.build(path, processes=n) for n in (1, 2))
    assert (several.source, several.manifest, several.spec) == (one.source, one.manifest, one.spec)


def test_layouts_are_compared_the_same_in_several_processes() -> None:
    spec = tilegen.load(ROOT / "specs" / "permute_sf.yaml")
    plan = plan_spec(spec)
    one, several = (explain_spec(spec, plan, processes=n) for n in (1, 2))
    compared = [c["question"] for c in one["choices"] if c["question"].startswith("layout of")]
    assert len(compared) > 1, "only side by side if there is more than one search"
    assert one == several


def test_an_interrupt_that_python_drops_is_heard() -> None:
    """As where it comes while a finalizer runs: nobody sees the exception, and the others would be waited for."""
    text = """
import os, signal, time
from contextlib import suppress
from tilegen.side_by_side.streams import stream_tasks

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where these tests ignore Ctrl-C, in the background

def drop():
    with suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)

try:
    list(stream_tasks([lambda: time.sleep(60)] * 2, 2, idle=drop))
except KeyboardInterrupt:
    print("heard", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "heard True\n", done.stderr
