"""The commands as a shell sees them: what is on which stream, the exit code, and what lies in the output folder."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from specs.kernels import build_spec, every_spec

from tilegen import __version__
from tilegen.cli import cli
from tilegen.cli import console as console_room
from tilegen.cli.ending import worst_code
from tilegen.errors import Diagnostic, EnvironmentLack, Mark, ProofError

ROOT = Path(__file__).parents[1]
SF, REG, ANY = "specs/permute_sf.yaml", "specs/copy_reg.yaml", "specs/rows_any_size.yaml"
BAD = "kernel: k\nthread: 32\nops: []\n"
RACE = """kernel: race
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [32, 32]}
  Y: {scope: global, dtype: float32, shape: [32, 32]}
  s: {scope: shared, dtype: float32, shape: [32, 32]}
  sT: {view: s, axes: [1, 0]}
ops:
  - copy: {scope: warp, src: X, dst: s}
  - copy: {scope: warp, src: sT, dst: Y}
"""
OUT = "  - copy: {scope: warp, src: sT, dst: Y}\n"


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(ROOT)
    for name in ("TILEGEN_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    yield


def tilegen(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(w) for w in words])


def spawn(*words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilegen", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


def write(folder: Path, text: str, name: str = "bad.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def listing(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


# ---------------------------------------------------------------- build
def test_build_writes_three_files_and_says_one_line(tmp_path: Path) -> None:
    result = tilegen("build", SF, "-o", tmp_path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert sorted(listing(tmp_path)) == ["permute_sf.cu", "permute_sf.h", "permute_sf.json"]
    line = f"{tmp_path}/permute_sf.cu: copy gmem_smem, permute_layout warp_vector, copy gmem_smem; proved on 1 CTA"
    assert result.stdout.startswith(line) and result.stdout.count("\n") == 1


def test_build_makes_the_folder(tmp_path: Path) -> None:
    assert tilegen("build", SF, "-o", tmp_path / "a" / "b").exit_code == 0
    assert (tmp_path / "a" / "b" / "permute_sf.cu").is_file()


def test_the_same_spec_twice_is_built_once(tmp_path: Path) -> None:
    result = tilegen("build", SF, SF, "-o", tmp_path)
    assert result.exit_code == 0 and result.stdout.count("\n") == 1


def test_what_did_not_change_is_not_touched(tmp_path: Path) -> None:
    tilegen("build", SF, "-o", tmp_path)
    os.utime(tmp_path / "permute_sf.cu", (1, 1))
    tilegen("build", SF, "-o", tmp_path)
    assert (tmp_path / "permute_sf.cu").stat().st_mtime == 1


def test_a_dash_prints_the_text_alone_on_stdout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tilegen("build", SF, "-o", tmp_path)
    spec = (ROOT / SF).resolve()
    monkeypatch.chdir(tmp_path)
    before = listing(tmp_path)
    result = tilegen("build", spec, "-o", "-")
    assert result.exit_code == 0
    assert result.stdout == before["permute_sf.cu"].decode()
    assert result.stderr.startswith("-: copy gmem_smem")
    assert listing(tmp_path) == before


def test_a_dash_takes_one_spec() -> None:
    assert tilegen("build", SF, REG, "-o", "-").exit_code == 2
    assert tilegen("build", SF, "--check", "-o", "-").exit_code == 2


def test_one_wrong_spec_and_nothing_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = tilegen("build", SF, write(tmp_path, BAD), REG, "-o", out)
    assert result.exit_code == 1 and sorted(re.findall(r"(\w+)\.cu: ", result.stdout)) == ["copy_reg", "permute_sf"]
    assert "error[TG101]: unknown key 'thread'" in result.stderr and "bad.yaml:2:1" in result.stderr
    assert result.stderr.endswith(f"1 of 3 specs failed: nothing is written into {out}\n") and not out.exists()
    tilegen("build", SF, "-o", out)
    before = listing(out)
    tilegen("build", SF, tmp_path / "bad.yaml", "--arch", "sm_80", "-o", out)
    assert listing(out) == before


def test_every_wrong_spec_is_reported(tmp_path: Path) -> None:
    result = tilegen("build", write(tmp_path, BAD), "nothing.yaml", write(tmp_path, RACE, "race.yaml"))
    assert sorted(re.findall(r"error\[(TG\d+)\]", result.stderr)) == ["TG001", "TG101", "TG403"]
    assert result.exit_code == 1


def test_a_hazard_prints_the_line_to_insert(tmp_path: Path) -> None:
    result = tilegen("build", write(tmp_path, RACE), "-o", tmp_path)
    assert result.exit_code == 1 and "insert `- sync: warp` before line 10" in result.stderr


def test_a_warning_is_no_error(tmp_path: Path) -> None:
    text = RACE.replace(OUT, "  - sync: warp\n" * 2 + OUT)
    result = tilegen("build", write(tmp_path, text), "-o", tmp_path / "out")
    assert result.exit_code == 0 and "warning[TG430]" in result.stderr and "race.cu" in result.stdout


@pytest.mark.slow
def test_a_spec_from_standard_input(tmp_path: Path) -> None:
    text = (ROOT / SF).read_text()
    done = spawn("build", "-", "-o", tmp_path, input=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(listing(tmp_path)) == ["permute_sf.cu", "permute_sf.h", "permute_sf.json"]
    assert done.stdout.startswith(f"{tmp_path}/permute_sf.cu: copy gmem_smem")
    source = listing(tmp_path)["permute_sf.cu"]
    assert source.startswith(b"// permute_sf: generated by tilegen for sm_90.\n")
    assert source == tilegen("build", SF, "-o", "-").stdout_bytes, "the file's name is nowhere in it"
    for words in (("build", "-", "--check", "-o", tmp_path), ("build", "-", "-", REG, "-o", tmp_path)):
        assert CliRunner().invoke(cli, [str(w) for w in words], input=text).exit_code == 0
    for words in (("verify", "--device", "cpu"), ("explain",), ("explain", "--access", "1")):
        given = CliRunner().invoke(cli, [*words, "-"], input=text)
        assert (given.exit_code, given.stdout) == (0, tilegen(*words, SF).stdout)
    assert CliRunner().invoke(cli, ["explain", "--resolved", "-"], input=text).stdout.startswith(text.splitlines()[0])


def test_what_is_wrong_in_standard_input_has_its_place() -> None:
    for command in ("build", "verify", "explain"):
        result = CliRunner().invoke(cli, [command, "-"], input=BAD)
        assert (result.exit_code, result.stdout) == (1, "")
        assert " --> <stdin>:2:1\n  |\n2 | thread: 32\n  | ^^^^^^ did you mean 'threads'?" in result.stderr


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (b"", 1, "error[TG011]: the spec is empty\n --> <stdin>:1:1"),
        (b"# nothing\n", 1, "error[TG011]: the spec is empty"),
        (b"\xff\n", 2, "error[TG002]: <stdin> is not UTF-8: byte 0 is 0xFF"),
        (b"a: " * 200_000, 1, "error[TG010]: the spec has"),
    ],
    ids=["empty", "comment", "bytes", "endless"],
)
def test_standard_input_that_is_no_spec(given: bytes, code: int, said: str) -> None:
    result = CliRunner().invoke(cli, ["build", "-"], input=given)
    assert (result.exit_code, result.stdout) == (code, "") and said in result.stderr


def test_standard_input_that_is_closed() -> None:
    command = f'"{sys.executable}" -m tilegen build - <&-'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "") and "error[TG001]: cannot read <stdin>" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"), [("--version >&-", 0), (f"build {SF} -o OUT >&-", 0), ("build nothing.yaml 2>&-", 2)]
)
def test_an_output_that_is_closed(words: str, code: int, tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m tilegen {words.replace("OUT", str(tmp_path))}'
    assert subprocess.run(command, shell=True, cwd=ROOT, timeout=60).returncode == code


def test_two_kernels_of_one_name(tmp_path: Path) -> None:
    copy = write(tmp_path, (ROOT / SF).read_text(), "copy.yaml")
    result = tilegen("build", SF, copy, "-o", tmp_path / "out")
    assert result.exit_code == 1 and "error[TG603]" in result.stderr and not (tmp_path / "out").exists()


def test_a_missing_file() -> None:
    for command in ("build", "verify", "explain"):
        result = tilegen(command, "nothing.yaml")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "error[TG001]: cannot read nothing.yaml: No such file or directory" in result.stderr


@pytest.mark.slow
def test_arch_and_set_change_what_is_built(tmp_path: Path) -> None:
    tilegen("build", ANY, "-o", tmp_path, "--arch", "sm_80", "--set", "M=100", "--set", "N=64")
    manifest = json.loads((tmp_path / "rows_any_size.json").read_text())
    assert manifest["arch"] == "sm_80"
    assert {a["name"]: a["value"] for a in manifest["args"] if a["kind"] == "value"}["M"] == 100


@pytest.mark.parametrize("words", [["--set", "M"], ["--set", "M="], ["--set", "M=x"], ["--set", "M=1e999"],
                                   ["--set", "M=" + "9" * 5000], ["--set", "=1"], ["--set", "M=1", "--set", "M=2"],
                                   ["--set"]])  # fmt: skip
def test_a_setting_that_cannot_be_read(words: list[str]) -> None:
    result = tilegen("build", ANY, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--set" in result.stderr


def test_a_setting_of_what_the_spec_does_not_have() -> None:
    result = tilegen("explain", ANY, "--set", "Q=3")
    assert result.exit_code == 1 and "error[TG105]" in result.stderr
    result = tilegen("explain", SF, "--arch", "sm_1")
    assert result.exit_code == 1 and "error[TG109]" in result.stderr
    result = tilegen("explain", ANY, "--set", "M=-1")
    assert result.exit_code == 1 and "'M' is set to -1; it must be from 0" in result.stderr


def test_expanded_specs_have_no_params_that_are_numbers_by_then(tmp_path: Path) -> None:
    spec = tmp_path / "rows.yaml"
    array = "{scope: global, dtype: float32, shape: [M, N]}"
    spec.write_text(
        "kernel: rows\nthreads: 32\nparams: {M: 8, N: 64, Q: 3}\ngrid: {bx: M}\n"
        f"buffers: {{X: {array}, Y: {array}}}\n"
        'ops:\n  - elementwise: {dst: "Y[bx]", expr: x * Q, with: {x: "X[bx]"}}\n'
    )
    expanded = tilegen("explain", "--expanded", spec).stdout
    assert yaml.safe_load(expanded)["params"] == {"Q": 3}  # the expression's own text names it
    assert tilegen("build", write(tmp_path, expanded, "expanded.yaml"), "-o", tmp_path).stderr == ""


@pytest.mark.slow
def test_the_line_of_a_product_says_that_arithmetic_is_left_out(tmp_path: Path) -> None:
    array = "{scope: global, dtype: float16, shape: [256, 256]}"
    spec = write(
        tmp_path, f"kernel: g\nbuffers: {{A: {array}, B: {array}, D: {array}}}\nops:\n  - gemm: {{a: A, b: B, d: D}}\n"
    )
    for words in ([], ["--summary"]):
        said = " ".join(tilegen("explain", spec, *words).stdout.split())
        assert ", arithmetic left out" in said
    assert "left out" not in tilegen("explain", SF).stdout


def test_a_float_param_is_set_to_a_decimal(tmp_path: Path) -> None:
    spec = tmp_path / "scaled.yaml"
    array = "{scope: global, dtype: float32, shape: [32]}"
    spec.write_text(
        "kernel: scaled\nthreads: 32\nparams: {a: {dtype: float32, default: 0.5}}\n"
        f"buffers: {{X: {array}, Y: {array}}}\nops:\n  - elementwise: {{dst: Y, expr: X * a}}\n"
    )
    for number, value in (("0.25", 0.25), ("-1", -1), ("1e-3", 0.001), ("+.5", 0.5)):
        assert tilegen("build", spec, "-o", tmp_path, "--set", f"a={number}").exit_code == 0
        manifest = json.loads((tmp_path / "scaled.json").read_text())
        assert {a["name"]: a["value"] for a in manifest["args"] if a["kind"] == "value"} == {"a": value}
    result = tilegen("explain", spec, "--set", "a=1e39")
    assert result.exit_code == 1 and "what no float32 holds" in result.stderr
    result = tilegen("explain", ANY, "--set", "M=0.5")
    assert result.exit_code == 1 and "which is no integer" in result.stderr


# ---------------------------------------------------------------- files
def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    result = tilegen("build", SF, "-o", write(tmp_path, "mine", "out"))
    assert result.exit_code == 2 and "error[TG602]: cannot write" in result.stderr
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    result = tilegen("build", SF, "-o", tmp_path)
    tmp_path.chmod(0o700)
    assert result.exit_code == 2 and "error[TG602]" in result.stderr and listing(tmp_path) == {}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("failing", [1, 2, 3, 4, 5, 6])
def test_a_write_that_fails_half_way_puts_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    tilegen("build", SF, "-o", tmp_path)
    before = listing(tmp_path)
    replaced: list[str] = []
    real = os.replace

    def fail_once(src: Any, dst: Any) -> None:
        replaced.append(str(dst))
        if len(replaced) == failing:
            raise OSError(28, "No space left on device", str(src), None, str(dst))
        real(src, dst)

    monkeypatch.setattr(os, "replace", fail_once)
    result = tilegen("build", SF, REG, "-o", tmp_path, "--arch", "sm_80")
    assert len(replaced) == failing and result.exit_code == 2
    assert f"cannot write {replaced[-1]}: No space left on device" in result.stderr
    assert listing(tmp_path) == before


def test_a_file_where_a_folder_lies(tmp_path: Path) -> None:
    tilegen("build", SF, "-o", tmp_path)
    before = (tmp_path / "permute_sf.cu").read_bytes()
    (tmp_path / "permute_sf.json").unlink()
    (tmp_path / "permute_sf.json").mkdir()
    assert tilegen("build", SF, "-o", tmp_path, "--arch", "sm_80").exit_code == 2
    assert (tmp_path / "permute_sf.cu").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["permute_sf.cu", "permute_sf.h", "permute_sf.json"]


KILL = """
import os, signal, sys
from tilegen.cli import main
real, left = os.replace, [int(sys.argv.pop(1))]
def replace(src, dst):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    real(src, dst)
os.replace = replace
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_killed_build_leaves_only_whole_files(tmp_path: Path, after: int) -> None:
    tilegen("build", SF, "-o", tmp_path)
    old = listing(tmp_path)
    command = [sys.executable, "-c", KILL, str(after), "build", SF, "--arch", "sm_80", "-o", str(tmp_path)]
    assert subprocess.run(command, timeout=120).returncode == -signal.SIGKILL
    kept = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    assert sum(kept[name] != old[name] for name in old) == after and set(kept) == set(old)
    checked = tilegen("build", SF, "--arch", "sm_80", "--check", "-o", tmp_path)
    assert checked.exit_code == 1
    assert tilegen("build", SF, "--arch", "sm_80", "-o", tmp_path).exit_code == 0
    assert tilegen("build", SF, "--arch", "sm_80", "--check", "-o", tmp_path).exit_code == 0


@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.35])
def test_a_build_killed_at_any_time_leaves_the_last_output_whole(tmp_path: Path, seconds: float) -> None:
    tilegen("build", SF, "-o", tmp_path)
    old = listing(tmp_path)
    process = subprocess.Popen([sys.executable, "-m", "tilegen", "build", REG, ANY, SF, "-o", str(tmp_path)],
                               stdout=subprocess.DEVNULL)  # fmt: skip
    time.sleep(seconds)
    process.kill()
    process.wait()
    assert {name: (tmp_path / name).read_bytes() for name in old} == old


# ---------------------------------------------------------------- --check
def test_check_says_what_is_stale_and_writes_nothing(tmp_path: Path) -> None:
    words = ("build", SF, "--check", "-o", tmp_path)
    result = tilegen(*words)
    assert (result.exit_code, listing(tmp_path)) == (1, {})
    assert result.stdout.splitlines() == [f"{tmp_path}/permute_sf{end}: missing" for end in (".cu", ".h", ".json")]
    tilegen("build", SF, "-o", tmp_path)
    result = tilegen(*words)
    assert (result.exit_code, result.stdout) == (0, "")
    (tmp_path / "permute_sf.cu").write_text("// edited\n")
    before = listing(tmp_path)
    result = tilegen(*words)
    assert (result.exit_code, result.stdout) == (1, f"{tmp_path}/permute_sf.cu: stale\n")
    assert listing(tmp_path) == before


# ---------------------------------------------------------------- --compile
def _cubin(source: str, arch: str, name: str) -> Any:
    from tilegen.gpu import Cubin

    return Cubin(name, arch, "NVRTC 13.0 (test)", b"", "", 18, 0, 0, 0, 2048)


def test_compile_reports_resources_and_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.gpu.compile_cubin", _cubin)
    result = tilegen("build", SF, "-o", tmp_path, "--compile")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1] == (
        "  sm_90: 18 registers a thread, 2048 shared bytes, 0 stack bytes, 0 spilled bytes, "
        "occupancy 32 of 64 warps an SM (NVRTC 13.0 (test))"
    )
    compiled = json.loads((tmp_path / "permute_sf.json").read_text())["compiled"]
    assert (compiled["registers"], compiled["warps_per_sm"], compiled["arch"]) == (18, 32, "sm_90")
    assert tilegen("build", SF, "-o", tmp_path, "--check").exit_code == 0
    assert tilegen("build", SF, "-o", tmp_path, "--check", "--compile").exit_code == 0


@pytest.mark.parametrize(("log", "spills", "said"), [
    ("ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n", 0,
     "permute_sf: ptxas: C7510: wgmma.mma_async instructions are serialized"),
    ("", 4, "permute_sf: ptxas keeps 8 bytes of a thread in memory instead of in 18 registers a thread"),
])  # fmt: skip
def test_what_ptxas_spoils_is_a_warning_with_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, spills: int, said: str
) -> None:
    made = replace(_cubin("", "sm_90", "permute_sf"), log=log, spill_store_bytes=spills, spill_load_bytes=spills)
    monkeypatch.setattr("tilegen.gpu.compile_cubin", lambda *_: made)
    result = tilegen("build", SF, "-o", tmp_path, "--compile")
    assert (result.exit_code, sorted(listing(tmp_path))) == (0, [f"permute_sf.{end}" for end in ("cu", "h", "json")])
    assert f"warning[TG493]: {said}" in result.stderr and f"--> {SF}:" in result.stderr
    said_as_data = json.loads(tilegen("build", SF, "-o", tmp_path, "--compile", "--format", "json").stdout)
    (warning,) = said_as_data["kernels"][0]["warnings"]
    assert (warning["code"], warning["severity"], warning["path"]) == ("TG493", "warning", str(SF)) and warning["line"]
    assert "TG493" not in tilegen("build", SF, "-o", tmp_path).stderr


@pytest.mark.slow
def test_explain_compiles_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.gpu.compile_cubin", _cubin)
    assert "18 registers a thread" in tilegen("explain", SF, "--compile").stdout
    compiled = json.loads(tilegen("explain", SF, "--compile", "--format", "json").stdout)["compiled"]
    assert (compiled["registers"], compiled["warps_per_sm"]) == (18, 32)
    assert "compiled" not in json.loads(tilegen("explain", SF, "--format", "json").stdout)


def test_compile_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.gpu.cubins.find_compilers", lambda: ())
    result = tilegen("build", SF, "-o", tmp_path, "--compile")
    assert (result.exit_code, listing(tmp_path)) == (3, {})
    assert "error[TG501]" in result.stderr


# ---------------------------------------------------------------- verify
def test_verify_on_the_cpu() -> None:
    result = tilegen("verify", SF, ANY, "--device", "cpu", "--seed", "5", "--seed", "6")
    assert (result.exit_code, result.stderr) == (0, "2 kernels verified: 2 on cpu\n")
    lines = result.stdout.splitlines()
    assert lines[0] == "permute_sf: verified on cpu, sm_90" and "2 inputs" in lines[1]
    assert any(line.startswith("  M=1000 N=777") for line in lines)


def _no_gpu(*_: Any) -> Any:
    raise EnvironmentLack(Diagnostic("TG502", "this needs an NVIDIA GPU: there is none"))


def test_verify_says_once_what_it_did_not_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tilegen.gpu.require_gpu", _no_gpu)
    monkeypatch.setattr("tilegen.gpu.serving.require_gpu", _no_gpu)
    why = "note: on the CPU, and not on a GPU, because this needs an NVIDIA GPU: there is none\n"
    result = tilegen("verify", SF, REG)
    assert (result.exit_code, result.stderr) == (0, f"{why}2 kernels verified: 2 on cpu\n")  # once, for both
    assert tilegen("verify", SF).stderr == why
    zeros = tmp_path / "zeros.yaml"
    zeros.write_text(
        "kernel: zeros\nthreads: 32\nbuffers:\n  Y: {scope: global, dtype: int8, shape: [64]}\n"
        "ops:\n  - fill: {dst: Y, value: 0}\n"
    )
    result = tilegen("verify", SF, zeros, "--seed", "5", "--seed", "6")
    seeds = "note: seeds are not used where a kernel reads no array: zeros\n"
    assert result.stderr == f"{why}{seeds}2 kernels verified: 2 on cpu\n"
    assert "2 inputs" in result.stdout and "zeros: verified on cpu, sm_90\n  1 CTA, no inputs, " in result.stdout


def test_verify_takes_the_cpu_where_nothing_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.gpu.require_gpu", lambda *_: None)
    monkeypatch.setattr("tilegen.gpu.serving.require_gpu", lambda *_: None)
    monkeypatch.setattr("tilegen.gpu.find_compilers", lambda: ())
    result = tilegen("verify", SF, REG)
    assert result.exit_code == 0 and "verified on cpu" in result.stdout
    assert "note: on the CPU, and not on a GPU, because neither NVRTC nor nvcc is here\n" in result.stderr


def test_verify_on_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.gpu.require_gpu", _no_gpu)
    result = tilegen("verify", SF, "--device", "gpu")
    assert (result.exit_code, result.stdout) == (3, "") and "error[TG502]" in result.stderr


def test_verify_takes_the_gpu_and_reports_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilegen.verifying import Verified

    monkeypatch.setattr("tilegen.gpu.require_gpu", lambda *_: None)
    monkeypatch.setattr("tilegen.gpu.find_compilers", lambda: ("nvcc",))
    monkeypatch.setattr(
        "tilegen.verifying.devices.verify_gpu",
        lambda built, seeds, *_: Verified(built.plan.name, built.plan.arch, "GPU 0", (f"seeds {tuple(seeds)}",)),
    )
    assert tilegen("verify", SF).stdout == "permute_sf: verified on GPU 0, sm_90\n  seeds (1, 2, 3)\n"

    def differ(*_: Any) -> Any:
        raise ProofError(Diagnostic("TG421", "Out[0, 1] is 7 on the GPU, not 8"))

    monkeypatch.setattr("tilegen.verifying.devices.verify_gpu", differ)
    result = tilegen("verify", SF)
    assert (result.exit_code, result.stdout) == (1, "") and "error[TG421]: Out[0, 1]" in result.stderr


# ---------------------------------------------------------------- explain
def test_explain_json_has_its_keys() -> None:
    explained = json.loads(tilegen("explain", SF, "--format", "json").stdout)
    assert {"kernel", "arch", "ops", "grid_totals"} <= set(explained)
    for op in explained["ops"]:
        assert {"op", "variant", "scope", "refused", "choices", "accesses"} <= set(op)
        assert all({"variant", "reason"} <= set(r) for r in op["refused"])
        for choice in op["choices"]:
            assert set(choice) == {"variant", "question", "picked", "candidates", "proof"}
            for candidate in choice["candidates"]:
                assert set(candidate) == {"value", "cost", "verdict"}
                costs = {"sectors", "wavefronts", "instructions", "shared_bytes", "address_ops"}
                assert candidate["cost"] is None or set(candidate["cost"]) == costs
        for access in op["accesses"]:
            assert set(access) >= {
                "buffer", "kind", "width_bytes", "instructions", "wavefronts", "floor", "bytes_floor", "sectors",
            }  # fmt: skip


def test_explain_text_tells_what_was_chosen() -> None:
    text = tilegen("explain", SF).stdout
    for line in (
        "permute_sf for sm_90: grid 1 x 1 x 1, 32 threads a CTA",
        "op 2: permute_layout A[s] -> B[s]  (scope warp, line 16)",
        "    lost     warp_xor_swizzle     16 instructions against 10",
        "             with xor_k: k = 2, shift 3, mask 3; registers_per_lane: 4",
        "    >  4 elements, 16 bytes (loads 4, stores 16)          16            10  picked",
        "    #4  B       shared store    16 B  32 of 32             2  8 wavefronts      8      0         8",
        "  shared loads             10          16     16          0        -",
    ):
        assert line in text.splitlines()
    said = " ".join(text.split())
    assert said.startswith(
        "permute_sf: 1 KiB read + 1 KiB written; sectors 64 (floor 64); wavefronts 32 (floor 32); 18 instructions; "
        "32 of 32 threads; bound by memory (at the rates of H200, shared memory 29% of that time, instructions 4%)"
    )
    assert "reproduce what was counted on sm_90, sm_90a" in said
    assert "on sm_100 not yet" in " ".join(tilegen("explain", SF, "--arch", "sm_100").stdout.split())


def test_explain_prints_the_resolved_spec(tmp_path: Path) -> None:
    result = tilegen("explain", SF, "--resolved")
    assert (result.exit_code, result.stderr) == (0, "")
    tilegen("build", SF, "-o", tmp_path / "a")
    write(tmp_path, result.stdout, Path(SF).name)
    assert tilegen("build", tmp_path / Path(SF).name, "-o", tmp_path / "b").exit_code == 0
    assert listing(tmp_path / "a") == listing(tmp_path / "b")
    for other in (("--format", "json"), ("--access", "1"), ("--compile",)):
        assert tilegen("explain", SF, "--resolved", *other).exit_code == 2


@pytest.mark.slow
def test_explain_prints_the_tile_ops_that_a_spec_is(tmp_path: Path) -> None:
    spec = ROOT / "specs" / "transpose_any_size.yaml"
    result = tilegen("explain", spec, "--expanded", "--set", "M=640")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "M: {default: 640, max: 1048576}" in result.stdout and "permute:" not in result.stdout
    printed = write(tmp_path, result.stdout, "printed.yaml")
    assert tilegen("build", printed, "-o", tmp_path / "a").exit_code == 0
    assert tilegen("build", spec, "--set", "M=640", "-o", tmp_path / "b").exit_code == 0
    for ending in ("cu", "h"):
        mine, its = ((tmp_path / out / f"transpose_any_size.{ending}").read_text() for out in "ab")
        assert mine.split("\n\n", 1)[1] == its.split("\n\n", 1)[1] or ending == "h"
    assert tilegen("explain", printed, "--expanded").stdout.splitlines() == result.stdout.splitlines()[2:], "its notes"
    for other in (("--format", "json"), ("--access", "1"), ("--compile",), ("--resolved",)):
        assert tilegen("explain", spec, "--expanded", *other).exit_code == 2


def test_explain_numbers_every_access_once() -> None:
    text = tilegen("explain", ANY).stdout
    explained = json.loads(tilegen("explain", ANY, "--format", "json").stdout)
    count = sum(len(op["accesses"]) for op in explained["ops"])
    assert re.findall(r"^ +#(\d+) ", text, re.M) == [str(n + 1) for n in range(count)]
    assert "counted at M = 1000, N = 777, ldx = 800" in text


@pytest.mark.sweep(15)
@every_spec
def test_every_access_of_every_spec_can_be_drawn(path: Path) -> None:
    from tilegen.arch import ARCHES
    from tilegen.report import access_text, explain_access, explain_plan, explain_text
    from tilegen.spec.outline import launch_of

    built = build_spec(path)
    plan, launch = built.plan, launch_of(built.spec)
    explained = explain_plan(plan, launch)
    assert explain_text(explained, ARCHES[plan.arch])
    listed = [a for op in explained["ops"] for a in op["accesses"]]
    for number, access in enumerate(listed, 1):
        shown = explain_access(plan, launch, number)
        assert [shown[k] for k in ("buffer", "kind", "width_bytes")] == [
            access[k] for k in ("buffer", "kind", "width_bytes")
        ]
        if access["instructions"] == 1:
            figure = "wavefronts" if access["space"] == "shared" else "sectors"
            assert shown[figure] == access[figure]
        text = access_text(shown)
        assert text.startswith(f"access #{number} of {plan.name}") and max(map(len, text.splitlines())) <= 110


def test_a_bank_table_draws_conflicts() -> None:
    shown = json.loads(tilegen("explain", REG, "--access", "3", "--format", "json").stdout)
    assert (shown["wavefronts"], shown["floor"], shown["conflicts"]) == (8, 4, 4)
    assert len(shown["phases"]) == 4 and shown["phases"][0]["lanes"] == list(range(8))
    lines = tilegen("explain", REG, "--access", "3").stdout.splitlines()
    assert "8 wavefronts in 4 phases: 4 conflicts" in lines
    first = lines.index("phase 1: lanes 0-7, 2 wavefronts")
    assert lines[first + 2].startswith("     0 | 0  0  0  0  .  .  .  .  1  1  1  1 ")
    assert lines[first + 4].startswith("   sum | 2  2  2  2  .  .  .  .  2  2  2  2 ")


def test_a_global_access_lists_sectors() -> None:
    lines = tilegen("explain", SF, "--access", "1").stdout.splitlines()
    assert "16 sectors for 512 bytes, which 16 sectors could hold" in lines
    assert "  480        30-31    32 of 32" in lines


def test_an_access_that_is_not_there() -> None:
    result = tilegen("explain", SF, "--access", "7")
    assert result.exit_code == 2 and "permute_sf has accesses 1 to 6, not 7" in result.stderr
    assert tilegen("explain", SF, "--access", "0").exit_code == 2


# ---------------------------------------------------------------- JSON on errors
def errors(*words: str | Path) -> tuple[int, list[dict[str, Any]]]:
    result = tilegen(*words)
    assert result.stderr == ""
    return result.exit_code, json.loads(result.stdout)["errors"]


def test_json_stays_json_on_errors(tmp_path: Path) -> None:
    path = write(tmp_path, BAD)
    code, found = errors("explain", path, "--format", "json")
    assert (code, [f["code"] for f in found]) == (1, ["TG101"])
    assert found[0] == {
        "code": "TG101", "message": "unknown key 'thread' in the spec", "path": str(path), "line": 2, "column": 1,
        "length": 6, "hint": "did you mean 'threads'?", "severity": "error",
    }  # fmt: skip
    assert errors("explain", "nothing.yaml", "--format=json")[0] == 2
    assert [f["code"] for f in errors("explain", SF, "--format", "json", "--no-such-option")[1]] == ["TG601"]
    assert errors("explain", SF, "--access", "7", "--format", "json")[0] == 2


def test_json_stays_json_on_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.pipeline.stages.plan_spec", lambda _: {}["what"])
    code, found = errors("explain", SF, "--format", "json")
    assert (code, found[0]["code"]) == (70, "TG690")


# ---------------------------------------------------------------- bugs, signals, streams
def test_a_bug_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.pipeline.kernels.plan_spec", lambda _: {}["what"])
    result = tilegen("build", SF)
    assert (result.exit_code, result.stdout) == (70, "")
    assert re.fullmatch(
        r"internal error: KeyError at tilegen/\S+\.py:\d+ \('what'\); this is a bug in tilegen \(.*\)\n",
        result.stderr,
    )
    monkeypatch.setenv("TILEGEN_DEBUG", "1")
    assert "Traceback (most recent call last)" in tilegen("build", SF).stderr


def test_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilegen.pipeline.kernels.plan_spec", interrupt)
    result = tilegen("build", SF)
    assert result.exit_code == 130 and "Traceback" not in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_stdout() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "tilegen", "explain", SF]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2 and "error[TG602]: cannot write to stdout" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves() -> None:
    read, out = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "tilegen", "schema"], stdout=out, stderr=subprocess.PIPE, text=True, timeout=120
    )
    os.close(out)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_worst_exit_code() -> None:
    assert [worst_code(codes) for codes in ([], [0], [3, 2, 1], [3, 0])] == [0, 0, 1, 3]


# ---------------------------------------------------------------- rule, schema, doctor, help
def test_rule() -> None:
    from tilegen.spec.rules import RULES

    for code in RULES:
        result = tilegen("rule", code)
        assert result.exit_code == 0 and result.stdout.startswith(f"{code}: ")
    assert tilegen("rule", "tg104").stdout == tilegen("rule", "TG104").stdout
    assert len(tilegen("rule").stdout.splitlines()) == len(RULES)


def test_a_code_that_is_none() -> None:
    result = tilegen("rule", "TG1044")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'TG1044' is no code of tilegen; did you mean TG104?" in result.stderr


def test_schema_is_a_json_schema() -> None:
    import jsonschema

    schema = json.loads(tilegen("schema").stdout)
    jsonschema.Draft7Validator.check_schema(schema)


def test_doctor() -> None:
    result = tilegen("doctor")
    assert result.exit_code == 0 and re.search(r"^ok +python ", result.stdout, re.M)
    found = json.loads(tilegen("doctor", "--format", "json").stdout)["findings"]
    assert {"name", "status", "detail", "hint"} == set(found[0])


def test_help_and_version() -> None:
    assert tilegen("--version").stdout == f"tilegen {__version__}\n"
    commands = ("build", "verify", "explain", "bench", "rule", "schema", "doctor")
    assert all(name in tilegen("--help").stdout for name in commands)
    for name in commands:
        result = tilegen(name, "--help")
        assert result.exit_code == 0 and result.stdout.startswith(f"Usage: tilegen {name} ")


def test_usage_errors() -> None:
    for words in ([], ["bild"], ["build"], ["build", SF, "--nothing"], ["explain", SF, "--format", "xml"],
                  ["verify", SF, "--device", "tpu"], ["verify", SF, "--seed", "-1"], ["bench"],
                  ["bench", SF, "--rounds", "0"], ["bench", SF, "--against", "nobody"]):  # fmt: skip
        result = tilegen(*words)
        assert (result.exit_code, result.stdout) == (2, ""), words
        assert "Traceback" not in result.stderr and result.stderr


def test_help_loads_nothing_heavy() -> None:
    code = "import sys\ntry:\n    from tilegen.cli import main; sys.argv = ['tilegen', '--help']; main()\nfinally:\n" \
        "    print(sorted({'numpy', 'pydantic', 'yaml', 'jinja2', 'rich', 'cupy'} & set(sys.modules)))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]"


def test_a_process_and_its_streams(tmp_path: Path) -> None:
    done = spawn("build", SF, "-o", tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and "permute_sf.cu" in done.stdout
    done = spawn("build", "nothing.yaml", "-o", tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and "TG001" in done.stderr


# ---------------------------------------------------------------- colour and progress
@pytest.mark.slow
def test_color() -> None:
    plain, painted = spawn("build", "nothing.yaml"), spawn("build", "nothing.yaml", "--color", "always")
    assert "\x1b[" not in plain.stderr and "\x1b[31m" in painted.stderr
    assert re.sub(r"\x1b\[\d*m", "", painted.stderr) == plain.stderr
    assert "\x1b[" in spawn("--color", "always", "doctor").stdout
    assert "\x1b[" in spawn("doctor", "--color=always").stdout
    assert "\x1b[" not in spawn("--color", "never", "doctor").stdout


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    assert console_room.wants_color("auto") is None
    monkeypatch.setenv("NO_COLOR", "1")
    assert console_room.wants_color("auto") is False and console_room.wants_color("always") is True


def test_paint_keeps_every_character() -> None:
    from tilegen.errors import format_diagnostic

    finding = Diagnostic("TG101", "unknown key", Mark("a.yaml", 12, 3, 4, "  thred: 32"), "did you mean it?")
    assert re.sub(r"\x1b\[\d*m", "", console_room.paint_diagnostic(finding)) == format_diagnostic(finding)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo terminal")
def test_a_bar_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    specs = sorted(str(p) for p in (ROOT / "specs").glob("*tile.yaml"))
    assert len(specs) > 2
    master, terminal = os.openpty()
    process = subprocess.Popen([sys.executable, "-m", "tilegen", "verify", *specs, "--device=cpu"],
                               stdout=subprocess.PIPE, stderr=terminal)  # fmt: skip
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(master, 65536):
            shown += chunk
    except OSError:
        pass
    os.close(master)
    assert process.communicate(timeout=120)[0].count(b": verified on cpu") == len(specs) and process.returncode == 0
    assert f"/{len(specs)}".encode() in shown


# ---------------------------------------------------------------- the same powers in Python
def test_the_api() -> None:
    code = (
        "import tilegen, sys; assert 'numpy' not in sys.modules;"
        "built = tilegen.build(tilegen.load('specs/permute_sf.yaml'));"
        "print(built.plan.name, built.manifest['kernel'], built.source[:2]);"
        "print(sorted(tilegen.explain('specs/permute_sf.yaml'))[0]);"
        "layout = tilegen.layouts.parse('S[(4,32):(32,1)]');"
        "print(tilegen.layouts.size(layout), tilegen.layouts.span(layout));"
        "print(tilegen.access.wavefronts('ld', 4, [4 * lane for lane in range(32)]));"
        "print(tilegen.access.sectors(4, [0] * 32))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.stderr, done.stdout.split()) == (
        "",
        ["permute_sf", "permute_sf", "//", "arch", "128", "128", "1", "1"],
    )
