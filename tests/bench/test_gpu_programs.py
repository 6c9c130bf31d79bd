"""What benchmarks/gpu.py writes of specs with passes, and the page of it, without a GPU."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvcc.compile import requires_nvcc
from programs.kernels import BY_NAME, build_small

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu as entry  # noqa: E402
import launch_ways  # noqa: E402
import results_page  # noqa: E402
import sanitizing  # noqa: E402
from counting import COUNTERS  # noqa: E402
from gpu_files import list_kernels, list_programs  # noqa: E402
from soak import is_soaked  # noqa: E402
from soak_programs import INPUTS, STREAMS  # noqa: E402

SPECS = [str(BY_NAME[name]) for name in ("sum_all", "max_columns")]
CLEAN = {"memcheck": "0 errors", "initcheck": "0 errors"}


@contextmanager
def run_here() -> Iterator[Any]:
    yield SimpleNamespace(map=lambda function, given: map(function, given))


def build_and_check(path: str) -> tuple[Any, dict[str, Any]]:
    built = build_small(Path(path), 0)
    passes = {one.plan.name: {"registers": 32} for one in built.passes}
    return built, {"code_sha256": "", "correct": True, "cases": [], "passes": passes}


def count(path: str, wrong: str = "") -> dict[str, dict[str, int]]:
    """What ncu counts of each pass: as predicted, but for a kernel of that name."""
    found = {}
    for one in build_small(Path(path), 0).passes:
        rows = entry.compare_counts(one, {})
        found[one.plan.name] = {what: row["predicted"] + (one.plan.name == wrong) for what, row in rows.items()}
    return found


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The results of two programs, of which one pass is counted otherwise than predicted."""
    monkeypatch.setattr(entry, "open_workers", run_here)
    monkeypatch.setattr(entry, "build_and_check", build_and_check)
    monkeypatch.setattr(entry, "check_ways", lambda builds: {"cupy": {b.plan.name: "ok" for b in builds}})
    counted = {name: row for path in SPECS for name, row in count(path, "sum_all_total").items()}
    monkeypatch.setattr(entry, "count_kernels", lambda specs: counted)
    monkeypatch.setattr(entry, "run_sanitizer", lambda specs: ((path, CLEAN) for path in specs))
    monkeypatch.setattr(entry, "soak_kernels", lambda specs: ((path, "10000 launches, all equal") for path in specs))
    monkeypatch.setattr(entry, "compile_for", lambda device, one: SimpleNamespace(image=b""))
    monkeypatch.setattr(entry, "disassemble", lambda image: "")
    monkeypatch.setattr(entry, "explain_difference", lambda *_: "")
    result: dict[str, Any] = {
        "kernels": {},
        "programs": {"other": {"spec": "other.yaml", "correct": False, "error": "no"}},
    }
    assert sum(1 for _ in entry.run_programs(None, SPECS, result)) == 8  # type: ignore[arg-type]
    return json.loads(json.dumps(result))  # type: ignore[no-any-return]


def test_each_pass_has_its_counters_and_each_program_the_rest(measured: dict[str, Any]) -> None:
    assert list(measured["programs"]) == ["max_columns", "other", "sum_all"]
    row = measured["programs"]["sum_all"]
    assert (row["spec"], row["soak"], row["sanitizer"]) == ("sum_all.yaml", "10000 launches, all equal", CLEAN)
    assert set(row["passes"]) == {"sum_all_tiles", "sum_all_total"} and row["ways"] == {"cupy": "ok"}
    assert all(set(one["counters"]) == set(COUNTERS) for one in row["passes"].values())
    assert row["passes"]["sum_all_tiles"]["counters"]["global_ld"]["predicted"] == 9000 / 8
    failures = entry.list_failures(measured)
    assert failures[0] == "other: no" and {said.split()[0] for said in failures[1:]} == {"sum_all_total"}


def test_failures_of_programs_are_told(measured: dict[str, Any]) -> None:
    row = measured["programs"]["max_columns"]
    row |= {"soak": "no end in 120 s", "sanitizer": {"initcheck": "3 errors"}, "ways": {"torch": "TG421"}}
    row["passes"]["max_columns_total"]["counters"]["global_st"]["counted"] = None
    told = [said for said in entry.list_failures(measured) if said.startswith("max_columns")]
    assert told == [
        "max_columns_total global_st: not counted", "max_columns by torch: TG421", "max_columns: no end in 120 s",
        "max_columns initcheck: 3 errors",
    ]  # fmt: skip


def test_the_page_has_a_row_for_each_pass(measured: dict[str, Any]) -> None:
    programs = {name: row for name, row in measured["programs"].items() if row["correct"]}
    table = results_page.counter_table(results_page.list_passes(programs))
    assert len(table.splitlines()) == 2 + 4 and re.search(r"^\| max_columns_parts \| 32 \| \d+", table, re.M)
    line = results_page.program_line(programs)
    for said in (
        "2 of 2 specs with passes are right", "21 of 28 predicted totals of their 4 kernels", "CuPy arrays 2 of 2",
        "10000 launches, all equal", "2 of 2 specs memcheck 0 errors, initcheck 0 errors",
    ):  # fmt: skip
        assert said in line
    result = {"device": "GPU", "date": "today", "programs": programs}
    assert results_page.checked_part([("x.json", result), ("y.json", {})]) == f"GPU, today: {line}"
    assert "not compared" in results_page.checked_part([("y.json", {})]) and results_page.program_line({}) == ""


def test_specs_are_kernels_or_programs() -> None:
    assert {Path(path) for path in list_programs()} == set(BY_NAME.values())
    assert not set(list_programs()) & set(list_kernels())
    tools = {name: sanitizing._tools_of(str(path)) for name, path in BY_NAME.items()}
    assert tools["sum_all"] == ("memcheck", "racecheck", "initcheck") and "synccheck" in tools["gemm_split_k"]


def test_no_launch_of_a_soak_has_the_inputs_of_its_neighbours() -> None:
    """Neither of the launch before on its stream, nor of the one beside it on the other."""
    assert INPUTS > STREAMS and is_soaked("10000 launches, all equal")
    turns = [[(stream + k) % INPUTS for k in range(25)] for stream in range(STREAMS)]
    assert all(a != b for row in turns for a, b in pairwise(row))
    assert all(a != b for a, b in zip(*turns, strict=True))


@pytest.mark.slow
@requires_nvcc
def test_headers_of_programs_are_one_library(tmp_path: Path) -> None:
    builds = [build_small(path, 0) for name, path in BY_NAME.items() if name != "attention_backward"]
    for built in builds:
        for name, text in launch_ways.output_texts(built).items():
            (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "all.cu").write_text(launch_ways.glue_text(builds), encoding="utf-8")
    flag = launch_ways.target_flag(launch_ways.common_arch(builds))
    subprocess.run(["nvcc", "-c", "-std=c++17", flag, "all.cu", "-o", "all.o"], cwd=tmp_path, check=True)
