"""tilegen bench from the command line to the picture, with NumPy as the GPU's memory and told times."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fakes import COPY, CUBIN, FakeWatch, fake_gpu

from tilegen.bench import NAMES, choose_peers
from tilegen.bench.meaning import NotApplicable, Prepared
from tilegen.bench.measuring import Rotation
from tilegen.bench.peers import describe_absence
from tilegen.bench.running import KERNEL, make_ready
from tilegen.cli import cli
from tilegen.errors import Diagnostic, EnvironmentLack

ROOT = Path(__file__).resolve().parents[2]


def bench(*words: str | Path) -> Any:
    return CliRunner().invoke(cli, ["bench", *map(str, words)])


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "copy_all.yaml"
    path.write_text(COPY, encoding="utf-8")
    return path


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeWatch]:
    def start(kernel: Callable[..., None] | None = None) -> FakeWatch:
        watch = FakeWatch()

        def copy(x: Any, y: Any) -> None:
            y[:] = x
            watch.spend(125.0)

        fake_gpu(monkeypatch, watch, kernel or copy)
        return watch

    return start


# ---------------------------------------------------------------- the whole way
def test_what_ptxas_spoils_is_told(
    spec: Path, pretend: Callable[..., FakeWatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend()
    spilled = replace(CUBIN, spill_store_bytes=4, spill_load_bytes=8)
    monkeypatch.setattr("tilegen.bench.running.compile_for", lambda *_: spilled)
    done = bench(spec, "--rounds", "4")
    assert done.exit_code == 0 and "warning[TG493]: copy_all: ptxas keeps 12 bytes" in done.stderr
    (found,) = json.loads(bench(spec, "--format", "json", "--rounds", "4").stdout)["results"]
    assert found["losses"][0].startswith(f"{spec}:8:3: copy_all: ptxas keeps 12 bytes of a thread in memory")


def test_json_of_a_copy(spec: Path, pretend: Callable[..., FakeWatch]) -> None:
    watch = pretend()
    done = bench(spec, "--format", "json", "--rounds", "4")
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["results"]
    assert found["kernel"] == "copy_all" and found["spec"] == "copy_all.yaml" and found["device"] == "Pretended GPU"
    assert found["meaning"] == "copy of 2048 elements of 4 bytes" and found["correct"] and found["bytes"] == 16384
    assert (found["median_us"], found["launches"], found["rounds"], found["sets"]) == (125.0, 1, 4, 256)
    assert found["gb_per_s"] == pytest.approx(16384 / 125 / 1e3, abs=0.05)
    assert found["peers"]["copy"]["ratio"] == 0.8 and found["peers"]["copy"]["ratio_quartiles"] == [0.8, 0.8]
    assert "every byte against the spec's meaning in NumPy and against a plain loop" in found["checked"]
    assert found["absent"].keys() <= {"torch", "triton"} and "cupy" in found["peers"]
    ceiling, mine = 3 + 21, 3 * (3 + 5)  # warm-ups and rounds: of the copy alone, then of three candidates
    assert [is_cold for _, is_cold in watch.log].count(True) == 0 and len(watch.log) == ceiling + mine


def test_a_permute_beside_cupy(pretend: Callable[..., FakeWatch], tmp_path: Path) -> None:
    path = tmp_path / "turned.yaml"
    text = COPY.replace("threads: 64\n", "").replace("Y: {scope: global, dtype: float32, shape: [64, 32]}",
                                                     "Y: {scope: global, dtype: float32, shape: [32, 64]}")  # fmt: skip
    path.write_text(text.replace("copy: {src: X, dst: Y}", "permute: {src: X, dst: Y, axes: [1, 0]}"), encoding="utf-8")

    def turn(x: Any, y: Any) -> None:
        y[:] = x.reshape(64, 32, 4).transpose(1, 0, 2).reshape(-1)

    pretend(turn)
    done = bench(path, "--format", "json", "--rounds", "2", "--against", "cupy")
    (found,) = json.loads(done.stdout)["results"]
    assert found["meaning"] == "permute (1,0) of 64 x 32, 4 bytes each"
    assert list(found["peers"]) == ["copy", "cupy"] and found["absent"] == {}


def test_text_of_a_copy(spec: Path, pretend: Callable[..., FakeWatch]) -> None:
    pretend()
    done = bench(spec, "--rounds", "3", "--against", "torch.compile")
    lines = done.stdout.splitlines()
    assert lines[0] == "copy_all: 16384 bytes read and written, sm_90 on Pretended GPU"
    assert lines[1].split() == ["median", "us", "quartiles", "us", "GB/s", "of", "ceiling", "ratio", "quartiles"]
    assert lines[2].split()[:3] == ["tilegen", "125.00", "125.00"] and lines[3].split()[:2] == ["copy", "100.00"]
    assert "0.800 to 0.800" in lines[3]
    assert "  absent: torch.compile (torch is not installed)" in lines or "torch" in done.stdout
    assert "cupy" not in done.stdout and "triton" not in done.stdout
    assert lines[-1].endswith("3 rounds, one launch a sample, 256 sets of buffers")


def test_svg_of_two_kernels(spec: Path, pretend: Callable[..., FakeWatch], tmp_path: Path) -> None:
    from xml.etree import ElementTree

    pretend()
    other = tmp_path / "other.yaml"
    other.write_text(COPY.replace("copy_all", "other"), encoding="utf-8")
    done = bench(spec, other, "--format", "svg", "--against", "copy", "--rounds", "1")
    root = ElementTree.fromstring(done.stdout)
    titles = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text") if e.get("class") == "t"]
    assert titles == ["copy_all", "other"]


def test_another_spec_has_only_its_copy(pretend: Callable[..., FakeWatch]) -> None:
    pretend(lambda *_: None)
    done = bench(ROOT / "specs" / "permute_sf.yaml", "--format", "json", "--rounds", "2")
    (found,) = json.loads(done.stdout)["results"]
    assert list(found["peers"]) == ["copy"] and "not one copy or one permute" in found["absent"]["cupy"]
    assert found["checked"] == "every byte against the spec's meaning in NumPy"


def test_short_kernels_are_timed_in_graphs(spec: Path, pretend: Callable[..., FakeWatch]) -> None:
    holder: dict[str, FakeWatch] = {}

    def kernel(x: Any, y: Any) -> None:
        y[:] = x
        holder["watch"].spend(2.5)

    holder["watch"] = pretend(kernel)
    (found,) = json.loads(bench(spec, "--format", "json", "--rounds", "2", "--against", "copy").stdout)["results"]
    assert found["launches"] == 20 and found["median_us"] == 2.5 and found["peers"]["copy"]["ratio"] == 40.0


# ---------------------------------------------------------------- what is wrong
def test_a_wrong_kernel_is_not_timed(spec: Path, pretend: Callable[..., FakeWatch]) -> None:
    def kernel(x: Any, y: Any) -> None:
        y[:] = x
        y[200] ^= 1

    watch = pretend(kernel)
    done = bench(spec, "--format", "json")
    assert done.exit_code == 1
    (error,) = json.loads(done.stdout)["errors"]
    assert error["code"] == "TG421"
    assert error["message"] == "Y[1, 18] (byte 200) is not what the spec means; 1 of 8192 bytes differ"
    assert watch.now_us <= 100.0 * (20 + 1 + 6)  # the ceiling alone


def test_a_kernel_that_writes_nothing_is_found_by_its_poison(spec: Path, pretend: Callable[..., FakeWatch]) -> None:
    pretend(lambda x, y: None)
    assert bench(spec).exit_code == 1


@pytest.mark.parametrize("form", ["text", "json", "svg"])
def test_without_a_gpu_the_exit_code_is_3(spec: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise EnvironmentLack(Diagnostic("TG502", "this needs an NVIDIA GPU: there is none"))

    monkeypatch.setattr("tilegen.gpu.require_gpu", refuse)
    done = bench(spec, "--format", form)
    assert done.exit_code == 3
    if form == "json":
        assert [e["code"] for e in json.loads(done.stdout)["errors"]] == ["TG502"]
    else:
        assert done.stdout == "" and "error[TG502]: this needs an NVIDIA GPU" in done.stderr


def test_an_unknown_peer(spec: Path) -> None:
    done = bench(spec, "--against", "trition", "--format", "json")
    assert done.exit_code == 2
    assert "'trition' is no peer; did you mean 'triton'?" in json.loads(done.stdout)["errors"][0]["message"]


def test_a_bad_spec_is_said_and_the_others_are_measured(
    spec: Path, pretend: Callable[..., FakeWatch], tmp_path: Path
) -> None:
    pretend()
    bad = tmp_path / "bad.yaml"
    bad.write_text(COPY.replace("dst: Y", "dst: Q"), encoding="utf-8")
    done = bench(spec, bad, "--against", "copy", "--rounds", "1")
    assert done.exit_code == 1 and "bad.yaml:8" in done.stderr and "copy_all: 16384 bytes" in done.stdout


# ---------------------------------------------------------------- peers
def test_the_peers_of_the_help() -> None:
    assert NAMES == ("copy", "cublas", "torch", "torch.compile", "cupy", "triton")
    assert [p.name for p in choose_peers(("triton", "torch"))] == ["copy", "torch", "triton"]
    shown = " ".join(bench("--help").stdout.split())
    assert all(name in shown for name in NAMES[1:])


def test_why_a_peer_is_absent_is_one_line() -> None:
    assert describe_absence("torch", NotApplicable("no meaning")).reason == "no meaning"
    assert describe_absence("torch", ValueError("")).reason == "ValueError:"
    assert describe_absence("torch", RuntimeError("CUDA error: out of memory\nCompile with...")).reason == (
        "RuntimeError: CUDA error: out of memory"
    )
    assert len(describe_absence("torch", RuntimeError("x" * 1000)).reason) == 200


def test_a_peer_that_is_wrong_or_fails_is_absent(
    spec: Path, pretend: Callable[..., FakeWatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend()
    from tilegen.bench import running
    from tilegen.bench.meaning import Peer, Task

    def wrong(task: Task) -> Prepared:
        return Prepared(lambda k: task.pairs[k][1].fill(0))

    def broken(task: Task) -> Prepared:
        raise MemoryError("no room\nat all")

    peers = (Peer("wrong", "", wrong), Peer("broken", "", broken))
    monkeypatch.setattr(running, "choose_peers", lambda *_: peers)
    (found,) = json.loads(bench(spec, "--format", "json", "--rounds", "1").stdout)["results"]
    assert found["peers"] == {}
    assert found["absent"]["broken"] == "MemoryError: no room" and "of its result are wrong" in found["absent"]["wrong"]


def test_a_peer_that_cannot_be_captured_is_absent_and_the_kernel_must_not_fail() -> None:
    watch = FakeWatch()

    def fine(k: int) -> None:
        watch.spend(5.0)

    def shy(k: int) -> None:
        if watch.is_capturing:
            raise RuntimeError("operation not permitted when stream is capturing")
        watch.spend(5.0)

    launches, samplers, failed = make_ready(watch, {KERNEL: fine, "shy": shy}, Rotation(4))
    assert launches == 20 and list(samplers) == [KERNEL]
    assert [(a.name, a.reason) for a in failed] == [
        ("shy", "RuntimeError: operation not permitted when stream is capturing")
    ]
    with pytest.raises(RuntimeError, match="not permitted"):
        make_ready(watch, {KERNEL: shy}, Rotation(4))


def test_the_cupy_peer_transposes(pretend: Callable[..., FakeWatch]) -> None:
    """CuPy's arrays have NumPy's methods: the peer's own code runs here."""
    from tilegen.bench.meaning import Meaning, Task
    from tilegen.bench.peers import prepare_cupy

    x = np.random.default_rng(1).integers(0, 256, (3, 5, 7, 2), np.uint8)
    source, target = x.reshape(-1), np.zeros(x.size, np.uint8)
    meaning = Meaning("X", "Y", (3, 5, 7), (2, 0, 1), 2)
    prepare_cupy(Task(meaning, ((source, target),), (), None)).candidate(5)
    assert np.array_equal(target.reshape(7, 3, 5, 2), x.transpose(2, 0, 1, 3))
