"""docs/calling.md and docs/gemm.md: their Python runs where there is a GPU, the C++ compiles where there is nvcc."""

from __future__ import annotations

import doctest
import re
import subprocess
from pathlib import Path

import pytest
from nvcc.compile import requires_nvcc
from specs.kernels import ROOT, build_spec

from tilegen.gpu.device import probe_device
from tilegen.pipeline import output_texts

PAGE = ROOT / "docs" / "calling.md"
DEVICE, WHY_NOT = probe_device()


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE is None, reason=f"no GPU: {WHY_NOT}")
def test_the_pages_python_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 10) == (0, True)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE is None, reason=f"no GPU: {WHY_NOT}")
def test_the_python_of_gemm_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testfile(str(ROOT / "docs" / "gemm.md"), module_relative=False)
    assert (failed, tried > 8) == (0, True)


@requires_nvcc
def test_the_pages_cpp_compiles(tmp_path: Path) -> None:
    (program,) = re.findall(r"```cpp\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    for name, text in output_texts(build_spec(ROOT / "specs" / "transpose_tile.yaml")).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "program.cu").write_text(program, encoding="utf-8")
    command = ["nvcc", "-Werror", "all-warnings", "-arch=sm_90", "-c", "program.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pages_names_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for path in re.findall(r'"(specs/\w+\.yaml)"|`?python\s+(benchmarks/\w+\.py)', text):
        assert (ROOT / "".join(path)).is_file(), path
