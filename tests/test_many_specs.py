"""Many specs at once: what comes of one is told as it comes, and what is wrong with one stops no other."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tilegen.cli import cli
from tilegen.errors import Diagnostic, EnvironmentLack, ProofError
from tilegen.gpu import Cubin, Device, GpuLaunch, GpuServer, Image, can_serve
from tilegen.gpu.run import FAULT, GUARD_BYTES
from tilegen.planner import plan_spec

pytestmark = pytest.mark.skipif(not can_serve(), reason="processes cannot be forked here, or share no memory")
ROOT = Path(__file__).parents[1]
COPY = """kernel: {name}
threads: 64
buffers:
  X: {{scope: global, dtype: float32, shape: [64, 32]}}
  Y: {{scope: global, dtype: float32, shape: [64, 32]}}
ops:
  - copy: {{src: X, dst: Y}}
"""
DEVICE = Device("Pretended GPU", (9, 0), "CUDA 13.0", 132, 1 << 20, 512 << 20)


def write_specs(folder: Path, *names: str) -> list[str]:
    """Copies of an array, each a kernel of its own."""
    for name in names:
        (folder / f"{name}.yaml").write_text(COPY.format(name=name))
    return [str(folder / f"{name}.yaml") for name in names]


def tilegen(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(w) for w in words])


def spawn(*words: object) -> subprocess.Popen[str]:
    """A command in a process group of its own, as a shell starts it; Ctrl-C reaches it where these tests ignore it."""
    command = [sys.executable, "-m", "tilegen", *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


# ---------------------------------------------------------------- as they come
@pytest.mark.sweep(1)
@pytest.mark.parametrize("words", [("verify", "--device=cpu"), ("build",)])
def test_a_result_is_there_while_others_are_worked_on(words: tuple[str, ...], tmp_path: Path) -> None:
    """The first spec is a pipe: it is read, and goes on, once the second has been told of, into a pipe too."""
    (quick,) = write_specs(tmp_path, "quick")
    os.mkfifo(tmp_path / "slow.yaml")
    more = () if words[0] == "verify" else ("-o", tmp_path / "out")
    running = spawn(*words, tmp_path / "slow.yaml", quick, "-j2", *more)
    assert running.stdout
    assert "quick" in running.stdout.readline() and running.poll() is None
    (tmp_path / "slow.yaml").write_text(COPY.format(name="slow"))
    rest, said = running.communicate(timeout=60)
    assert "slow" in rest and running.returncode == 0
    assert said.startswith("2 kernels")


def test_ctrl_c_ends_all_processes_and_says_one_word(tmp_path: Path) -> None:
    names = write_specs(tmp_path, "quick")
    for name in ("one", "two"):
        os.mkfifo(tmp_path / f"{name}.yaml")
        names.append(str(tmp_path / f"{name}.yaml"))
    running = spawn("verify", "--device=cpu", "-j3", *names)
    assert running.stdout
    assert "quick" in running.stdout.readline()
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=20)
    assert (running.returncode, said.strip()) == (130, "interrupted")
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)


def test_json_has_the_order_of_the_command_line(tmp_path: Path) -> None:
    names = write_specs(tmp_path, "c", "a", "b")
    found = json.loads(tilegen("verify", *names, "--device=cpu", "--format=json", "-j3").stdout)
    assert [one["kernel"] for one in found["kernels"]] == ["c", "a", "b"]


# ---------------------------------------------------------------- one of several
def break_one(monkeypatch: pytest.MonkeyPatch, kernel: str, fail: Any) -> None:
    """Have the plan of one kernel fail in some way."""
    plan = lambda spec: fail() if spec.kernel == kernel else plan_spec(spec)  # noqa: E731
    monkeypatch.setattr("tilegen.pipeline.kernels.plan_spec", plan)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bug_at_one_spec_stops_no_other(jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_one(monkeypatch, "b", lambda: {}["what"])
    names = write_specs(tmp_path, "a", "b", "c")
    result = tilegen("verify", *names, "--device=cpu", f"-j{jobs}")
    assert result.exit_code == 70 and re.findall(r"^(\w): verified", result.stdout, re.M) in (["a", "c"], ["c", "a"])
    assert "error[TG690]" in result.stderr and f"{names[1]}: internal error: KeyError" in result.stderr
    assert result.stderr.count("error[") == 1


def test_a_process_that_is_killed_is_an_error_of_its_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_one(monkeypatch, "b", lambda: os.kill(os.getpid(), signal.SIGKILL))
    names = write_specs(tmp_path, "a", "b", "c")
    result = tilegen("build", *names, "-o", tmp_path / "out", "-j4")
    assert result.exit_code == 3 and not (tmp_path / "out").exists()
    assert f"{names[1]}: the process that worked on it is gone: it was killed by signal 9" in result.stderr
    assert "`-j 2`" in result.stderr and "1 of 3 specs failed: nothing is written" in result.stderr


def test_memory_that_runs_out_is_an_error_of_its_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_memory() -> None:
        raise MemoryError("Unable to allocate 1. PiB")

    break_one(monkeypatch, "b", fill_memory)
    result = tilegen("verify", *write_specs(tmp_path, "a", "b"), "--device=cpu", "-j2")
    assert result.exit_code == 3 and "error[TG505]" in result.stderr and "a: verified on cpu" in result.stdout


def test_one_spec_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.side_by_side.streams.find_context", lambda: {}["what"])
    monkeypatch.setattr("tilegen.gpu.serving.find_context", lambda: {}["what"])
    (name,) = write_specs(tmp_path, "a")
    assert tilegen("verify", name, "--device=cpu", "-j8").exit_code == 0
    assert tilegen("build", name, "-o", tmp_path / "out", "-j8").exit_code == 0


# ---------------------------------------------------------------- one process runs the GPU
def pretend_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU on which every kernel copies X to Y, but for those whose names say what goes wrong."""

    def compile_copy(source: str, arch: str, name: str) -> Cubin:
        return Cubin(name, arch, "pretended", b"machine code", "", 0, 0, 0, 0, 0)

    def run(
        kernel: str, arguments: Any, start: Any, before: Mapping[str, Image], after: Mapping[str, Image]
    ) -> Mapping[str, Image]:
        if kernel.startswith("faults"):
            raise ProofError(Diagnostic(FAULT, f"kernel {kernel} failed on the GPU: an illegal address"))
        if kernel.startswith("kills"):
            os._exit(9)
        if kernel.startswith("stumbles"):
            raise ZeroDivisionError("what no driver says")
        for name, image in before.items():
            after[name][:] = image
        if not kernel.startswith("idles"):
            after["Y"][GUARD_BYTES:-GUARD_BYTES] = before["X"][GUARD_BYTES:-GUARD_BYTES]
        if kernel.startswith("spills"):
            after["X"][3] ^= 1
        return after

    monkeypatch.setattr("tilegen.gpu.serving.require_gpu", lambda arch: DEVICE)
    monkeypatch.setattr("tilegen.gpu.serving.run_started", run)
    monkeypatch.setattr("tilegen.gpu.compile_cubin", compile_copy)
    monkeypatch.setattr("tilegen.gpu.find_compilers", lambda: ("pretended",))
    monkeypatch.setattr("tilegen.gpu.require_gpu", lambda *_: {}["this process has none of its own"])


@pytest.mark.parametrize("device", ["gpu", "auto"])
def test_several_specs_share_one_gpu(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpu(monkeypatch)
    result = tilegen("verify", *write_specs(tmp_path, *"abcd"), f"--device={device}", "-j3")
    assert (result.exit_code, result.stderr) == (0, "4 kernels verified: 4 on Pretended GPU\n")
    assert sorted(result.stdout.splitlines()[::2]) == [f"{n}: verified on Pretended GPU, sm_90" for n in "abcd"]
    assert result.stdout.count("2048 elements written, 3 inputs, every byte compared") == 4


def test_what_one_kernel_does_on_the_gpu_is_an_error_of_its_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault is the end of the process that runs the GPU, and so is what kills it: another goes on."""
    pretend_gpu(monkeypatch)
    wrong = {"faults": FAULT, "kills": "TG505", "idles": "TG421", "spills": "TG492", "stumbles": "TG690"}
    names = write_specs(tmp_path, "a", *wrong, "b", "c")
    result = tilegen("verify", *names, "--device=gpu", "-j2")
    assert sorted(re.findall(r"error\[(TG\d+)\]", result.stderr)) == sorted(wrong.values())
    assert sorted(re.findall(r"^(\w+): verified", result.stdout, re.M)) == ["a", "b", "c"]
    assert result.exit_code == 1
    assert "wrote outside: 1 bytes, the first at byte -253 of X (8192 bytes)" in result.stderr
    assert "on the GPU: ZeroDivisionError: what no driver says" in result.stderr


def test_without_a_gpu_the_process_that_was_to_run_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(arch: str | None) -> Any:
        raise EnvironmentLack(Diagnostic("TG502", "this needs an NVIDIA GPU: there is none"))

    pretend_gpu(monkeypatch)
    monkeypatch.setattr("tilegen.gpu.serving.require_gpu", refuse)
    names = write_specs(tmp_path, "a", "b")
    result = tilegen("verify", *names, "--device=gpu", "-j2")
    assert (result.exit_code, result.stdout, result.stderr.count("error[TG502]")) == (3, "", 2)
    result = tilegen("verify", *names, "-j2")
    assert result.exit_code == 0 and "2 on cpu" in result.stderr and "because this needs an NVIDIA GPU" in result.stderr


def test_images_of_any_size_go_there_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of them is sent: 64 MiB take no longer than a few copies do."""
    pretend_gpu(monkeypatch)
    how = GpuLaunch("k", (1, 1, 1), (32, 1, 1), ("X", "Y"))
    cubin = Cubin("k", "sm_90", "pretended", bytes(300_000), "", 0, 0, 0, 0, 0)  # more than a message takes
    server = GpuServer()
    try:
        assert server.access.require("sm_90") == DEVICE
        for size in (0, 1, 4097, 64 << 20):
            image = np.arange(size, dtype=np.uint64).astype(np.uint8)
            begun = time.monotonic()
            (got,) = server.access.run(cubin, how, {"X": image}, {"Y": size}).values()
            assert np.array_equal(got, image) and time.monotonic() - begun < 5
    finally:
        server.close()
