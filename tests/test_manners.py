"""The manners of the command: a first spec, completion, watching, processes, how much is said, and configuration."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue

import pytest
import yaml

from tests.test_cli import OUT, RACE, spawn, tilegen, write
from tilegen.cli.options import START_KINDS
from tilegen.errors import Diagnostic, EnvironmentLack

ROOT = Path(__file__).parents[1]
SF, REG = str(ROOT / "specs" / "permute_sf.yaml"), str(ROOT / "specs" / "copy_reg.yaml")


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield


# ---------------------------------------------------------------- init
@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", START_KINDS)
def test_init_writes_a_spec_that_builds_and_verifies_without_a_warning(tmp_path: Path, kind: str) -> None:
    written = tilegen("init", "mine", *(() if kind == START_KINDS[0] else ("--from", kind)))
    assert written.stdout.splitlines() == ["mine.yaml: written", "tilegen.schema.json: written"]
    assert "tilegen build mine.yaml" in written.stderr
    built = tilegen("build", "mine.yaml")
    assert (built.exit_code, built.stderr) == (0, "") and Path("out/mine.cu").is_file()
    assert tilegen("verify", "mine.yaml", "--device", "cpu", "-q").exit_code == 0
    text = Path("mine.yaml").read_text()
    assert "KERNEL" not in text and yaml.safe_load(text)["kernel"] == "mine"
    first = text.splitlines()[0]
    assert (tmp_path / first.partition("$schema=")[2]).read_bytes() == (ROOT / "specs/tilegen.schema.json").read_bytes()


def test_there_is_a_spec_for_each_kind() -> None:
    folder = ROOT / "tilegen" / "templates" / "start"
    assert {path.stem for path in folder.iterdir()} == set(START_KINDS)
    assert all(max(map(len, path.read_text().splitlines())) <= 120 for path in folder.iterdir())
    wrong = tilegen("init", "mine", "--from", "copy")
    assert wrong.exit_code == 2 and "'transpose', 'softmax', 'gemm', 'roles', 'stencil'" in wrong.stderr


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    assert tilegen("init").exit_code == 0 and Path("my_kernel.yaml").is_file()
    Path("my_kernel.yaml").write_text("mine")
    Path("tilegen.schema.json").write_text("{}")
    again = tilegen("init", "my_kernel.yaml")
    assert again.exit_code == 2 and "error[TG606]: my_kernel.yaml is there already" in again.stderr
    assert tilegen("init", "other").stdout == "other.yaml: written\n"
    assert (Path("my_kernel.yaml").read_text(), Path("tilegen.schema.json").read_text()) == ("mine", "{}")
    assert tilegen("init", "deep/in/a_folder").exit_code == 0 and Path("deep/in/a_folder.yaml").is_file()


@pytest.mark.parametrize(
    ("name", "fixed"),
    [
        ("my-kernel", "my_kernel"),
        ("2nd", "k_2nd"),
        ("for", "k_for"),
        ("int", "k_int"),
        ("errno", "k_errno"),
        ("sqrt", "k_sqrt"),
        ("my__kernel", "k_my_kernel"),
        ("inf", "k_inf"),
    ],
)
def test_a_name_that_is_none(name: str, fixed: str) -> None:
    result = tilegen("init", name)
    assert result.exit_code == 2 and f"'{fixed}' is one" in result.stderr
    assert tilegen("init", fixed).exit_code == 0


# ---------------------------------------------------------------- completion
def complete(words: str, number: int, shell: str = "bash") -> list[str]:
    more = {"_TILEGEN_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    return spawn(env=os.environ | more).stdout.splitlines()


def test_completion_knows_commands_options_and_codes() -> None:
    assert "plain,verify" in complete("tilegen ver", 1)
    assert {"plain,--watch", "plain,--jobs"} <= set(complete("tilegen build --", 2))
    assert complete("tilegen rule tg60", 2) == [f"plain,TG60{k}" for k in (1, 2, 3, 4, 5, 6, 8)]
    assert complete("tilegen build sp", 2) == ["file,sp"]


def test_the_script_of_a_shell_is_one() -> None:
    for shell in ("bash", "zsh", "fish"):
        result = tilegen("completion", shell)
        assert result.exit_code == 0 and "_TILEGEN_COMPLETE" in result.stdout
    script = tilegen("completion", "bash").stdout
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert tilegen("completion", "tcsh").exit_code == 2


# ---------------------------------------------------------------- processes
def test_jobs_build_the_same_files(tmp_path: Path) -> None:
    """Results are printed as they end, in any order."""
    one, two = (spawn("build", REG, SF, "-o", f"out{n}", "-j", n) for n in (1, 2))
    assert sorted(two.stdout.splitlines()) == sorted(one.stdout.replace("out1", "out2").splitlines())
    assert (two.returncode, two.stderr) == (0, "2 kernels built, 0 warnings, into out2\n")
    files = [{p.name: p.read_bytes() for p in (tmp_path / f"out{n}").iterdir()} for n in (1, 2)]
    assert files[0] == files[1] and len(files[0]) == 6


@pytest.mark.slow
def test_jobs_report_every_wrong_spec(tmp_path: Path) -> None:
    write(tmp_path, "kernel: k\n", "a.yaml")
    write(tmp_path, RACE, "race.yaml")
    done = spawn("build", "a.yaml", SF, "race.yaml", "-j", 3)
    assert done.returncode == 1 and not Path("out").exists()
    assert done.stderr.index("a.yaml") < done.stderr.index("race.yaml")


# ---------------------------------------------------------------- how much is said
def test_quiet_and_verbose() -> None:
    quiet = tilegen("build", SF, "-q")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")
    assert tilegen("verify", SF, "--device", "cpu", "-q").stdout == ""
    assert tilegen("build", SF, "-q", "--check").stderr == ""
    lines = tilegen("build", SF, "-v").stdout.splitlines()
    assert lines[1:2] == ["  proved: CTAs (0, 0, 0)"] and re.fullmatch(r"  in \d+\.\d\d s", lines[-1])
    assert tilegen("build", SF, "-q", "-v").exit_code == 2


def test_build_as_json(tmp_path: Path) -> None:
    needless = "  - sync: warp\n  - sync: warp\n"
    write(tmp_path, RACE.replace(OUT, needless + OUT), "two.yaml")
    result = tilegen("build", SF, "two.yaml", "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    first, second = json.loads(result.stdout)["kernels"]
    assert (first["kernel"], first["spec"], first["arch"]) == ("permute_sf", SF, "sm_90")
    assert all(Path(file).is_file() for file in first["files"]) and len(first["files"]) == 3
    assert [op["variant"] for op in first["ops"]] == ["gmem_smem", "warp_vector", "gmem_smem"]
    assert first["proof"]["steps"] == 20 and first["proof"]["runs"] == [{"params": {}, "ctas": [[0, 0, 0]]}]
    assert first["warnings"] == [] and [w["severity"] for w in second["warnings"]] == ["warning"]
    Path("out/permute_sf.h").unlink()
    stale = tilegen("build", SF, "--check", "--format", "json")
    assert stale.exit_code == 1 and json.loads(stale.stdout)["stale"] == ["out/permute_sf.h: missing"]
    wrong = tilegen("build", "nothing.yaml", "--format", "json")
    assert wrong.exit_code == 2 and json.loads(wrong.stdout)["errors"][0]["code"] == "TG001"


def test_verify_as_json() -> None:
    result = tilegen("verify", SF, "--device", "cpu", "--format", "json")
    (kernel,) = json.loads(result.stdout)["kernels"]
    assert result.exit_code == 0 and kernel.pop("seconds") > 0
    assert kernel == {
        "kernel": "permute_sf", "spec": SF, "arch": "sm_90", "device": "cpu", "lines": ["1 CTA, 3 inputs, 60 steps"],
        "unused": [], "warnings": [], "notes": [],
    }  # fmt: skip


# ---------------------------------------------------------------- watching
@pytest.mark.slow
def test_watch_builds_what_changes_and_ends_cleanly(tmp_path: Path) -> None:
    path = write(tmp_path, Path(SF).read_text(), "w.yaml")
    command = [sys.executable, "-m", "tilegen", "build", "--watch", "w.yaml"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's job may ignore it
    )  # fmt: skip
    assert process.stdout is not None
    lines: Queue[str] = Queue()
    reader = threading.Thread(target=lambda: [lines.put(line) for line in process.stdout or ()])
    reader.start()
    try:
        assert "proved on 1 CTA" in _wait_for(lines, "w.yaml|permute_sf.cu")
        _wait_for(lines, "watching 1 spec; Ctrl-C ends")
        path.write_text("kernel: 7\n")
        _wait_for(lines, r"error\[TG")
        _wait_for(lines, "watching")
        path.write_text(Path(SF).read_text().replace("kernel: permute_sf", "kernel: renamed"))
        _wait_for(lines, "out/renamed.cu")
        _wait_for(lines, "watching")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert "stopped" in _wait_for(lines, "stopped")
    finally:
        process.kill()
        reader.join(30)


def _wait_for(lines: Queue[str], pattern: str, seconds: float = 60) -> str:
    end = time.monotonic() + seconds
    seen = []
    while time.monotonic() < end:
        try:
            seen.append(lines.get(timeout=1))
        except Empty:
            continue
        if re.search(pattern, seen[-1]):
            return seen[-1]
    raise AssertionError(f"no line with {pattern!r} in {seen}")


@pytest.mark.parametrize("more", [["--check"], ["-o", "-"], ["--format", "json"]])
def test_watch_takes_no(more: list[str]) -> None:
    assert tilegen("build", "--watch", SF, *more).exit_code == 2
    assert tilegen("build", "--watch", "-").exit_code == 2


# ---------------------------------------------------------------- configuration
def configure(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(text)
    return path


def test_the_configuration_gives_options_and_the_command_line_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, '[project]\nname = "x"\n[tool.tilegen]\narch = "sm_80"\nout = "kernels"\njobs = 1\n')
    inner = tmp_path / "deeper"
    inner.mkdir()
    configure(inner, "[tool.other]\n")  # says nothing of tilegen: the one above is taken
    monkeypatch.chdir(inner)
    assert tilegen("build", SF).stdout.startswith("../kernels/permute_sf.cu: ")
    assert "for sm_80." in (tmp_path / "kernels" / "permute_sf.cu").read_text()
    assert tilegen("build", SF, "--arch", "sm_90", "-o", "own").stdout.startswith("own/permute_sf.cu: ")
    assert "for sm_90." in Path("own/permute_sf.cu").read_text()
    assert ", sm_80\n" in tilegen("verify", "--device", "cpu", SF).stdout


def test_a_configured_format(tmp_path: Path) -> None:
    configure(tmp_path, '[tool.tilegen]\nformat = "json"\n')
    assert json.loads(tilegen("build", SF).stdout)["kernels"]
    assert json.loads(tilegen("build", "nothing.yaml").stdout)["errors"]
    assert tilegen("build", SF, "--format", "text").stdout.startswith("out/permute_sf.cu")
    assert tilegen("build", SF, "-o", "-").stdout.startswith("// permute_sf")
    assert yaml.safe_load(tilegen("explain", SF, "--resolved").stdout)["kernel"] == "permute_sf"


@pytest.mark.parametrize(
    ("lines", "place", "said"),
    [
        ('arhc = "sm_90"', "4:1", "unknown key 'arhc' in [tool.tilegen]"),
        ('arch = "sm_91"', "4:1", "'arch' must be one of sm_80"),
        ("arch = 90", "4:1", "'arch' must be a text, not 90"),
        ("jobs = 0", "4:1", "'jobs' must be an integer of at least 1, not 0"),
        ('jobs = "2"', "4:1", "'jobs' must be an integer of at least 1, not '2'"),
        ('out = "k"\nformat = "xml"', "5:1", "'format' must be text or json, not 'xml'"),
        ("out = ", "4:7", "this is not TOML"),
    ],
)
def test_a_wrong_configuration_is_one_clear_error(tmp_path: Path, lines: str, place: str, said: str) -> None:
    configure(tmp_path, f'[project]\nname = "x"\n[tool.tilegen]\n{lines}\n')
    result = tilegen("build", SF)
    assert result.exit_code == 2 and not Path("out").exists()
    assert result.stderr.count("error[TG605]") == 1 and said in result.stderr
    assert f"--> pyproject.toml:{place}\n" in result.stderr
    assert tilegen("rule", "TG605").exit_code == 0  # what explains the error does not need what is wrong


def test_the_nearest_key_is_named(tmp_path: Path) -> None:
    configure(tmp_path, "[tool.tilegen]\nformt = 'json'\n")
    assert "did you mean 'format'?" in tilegen("build", SF).stderr
    configure(tmp_path, "[tool]\ntilegen = 3\n")
    assert "tool.tilegen must be a table" in tilegen("build", SF).stderr


def test_a_configuration_that_is_not_utf_8_or_a_folder(tmp_path: Path) -> None:
    path = configure(tmp_path, "")
    path.write_bytes(b'[tool.tilegen]\nout = "k\xe9"\n')
    result = tilegen("build", SF)
    assert result.exit_code == 2 and "error[TG605]: this is not UTF-8: byte 23 is 0xe9" in result.stderr
    assert "--> pyproject.toml:2:9\n" in result.stderr
    path.unlink()
    path.mkdir()
    result = tilegen("build", SF)
    assert result.exit_code == 2 and "error[TG605]: cannot read pyproject.toml: it is a folder" in result.stderr


def test_a_configured_out_of_a_dash_is_stdout(tmp_path: Path) -> None:
    configure(tmp_path, '[tool.tilegen]\nout = "-"\n')
    assert tilegen("build", SF).stdout.startswith("// permute_sf") and not Path("-").exists()


def test_bench_says_what_is_wrong_with_a_spec_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lack = EnvironmentLack(Diagnostic("TG502", "no GPU"))
    monkeypatch.setattr("tilegen.gpu.require_gpu", lambda *_: (_ for _ in ()).throw(lack))
    write(tmp_path, "kernel: k\n", "bad.yaml")
    assert "error[TG102]" in tilegen("bench", "bad.yaml").stderr
    assert "TG502" in tilegen("bench", SF).stderr


# ---------------------------------------------------------------- what is typed in other ways
@pytest.mark.parametrize("word", ["403", "TG403", "tg403"])
def test_a_rule_is_found_by_its_number_alone(word: str) -> None:
    assert tilegen("rule", word).stdout.startswith("TG403: a race")


def test_the_short_option_for_the_version() -> None:
    assert tilegen("-V").stdout == tilegen("--version").stdout != ""


@pytest.mark.parametrize("word", ["transpose.yml", "transpos.yaml", "deep/transpose.yml"])
def test_a_spec_that_is_not_there_names_its_neighbour(word: str) -> None:
    folder = Path(word).parent
    folder.mkdir(exist_ok=True)
    (folder / "transpose.yaml").write_text("kernel: k\n")
    (folder / "other.yaml").write_text("kernel: k\n")
    said = tilegen("build", word)
    assert said.exit_code == 2 and f"did you mean '{folder / 'transpose.yaml'}'?" in said.stderr
    alone = tilegen("build", str(folder / "gemm_of_mine.yaml"))
    assert "error[TG001]" in alone.stderr and "did you mean" not in alone.stderr
